#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2317 # rules are called by name
# install.sh SOURCE BUILD: what `meson install` puts where is enough to use it; the option cpu does what it says. TAP.
set -uo pipefail
source_dir=$1 build=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/spindle-install-XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT
export PATH="/usr/sbin:/usr/bin:/sbin:/bin:$PATH"
count=0 failed=0

# rule NAME: runs the function NAME; what it prints is said where it fails. Its status 77: skipped, the last line says why.
rule() {
	local out status
	out=$("$1" 2>&1)
	status=$?
	count=$((count + 1))
	if [ $status = 0 ]; then
		echo "ok $count - $1"
	elif [ $status = 77 ]; then
		echo "ok $count - $1 # SKIP $(tail -1 <<<"$out")"
	else
		failed=1
		tail -25 <<<"$out" | sed 's/^/# /'
		echo "not ok $count - $1"
	fi
}

skip() { echo "$*"; exit 77; }
need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

dest=$work/dest
install_to_a_directory_works() {
	meson install -C "$build" --no-rebuild --quiet --destdir "$dest"
}

found() { find "$dest" "$@" | grep -q . || { echo "not installed: $*"; return 1; }; }
prefix() { dirname "$(dirname "$(find "$dest" -path '*/bin/spindle')")"; }
libraries() { dirname "$(find "$dest" -name libspindle-nic.so)"; }

command_libraries_headers_and_pkg_config_files_are_installed() {
	local name
	found -path '*/bin/spindle' -type f -perm -111 || return
	for name in libspindle.so libspindle-nic.so libspindle-world.so libspindle.pc spindle.pc spindle-world.pc; do
		found -name "$name" || return
	done
	for name in spindle.h sdr.h reliable.h rvma.h nic.h world.h link.h spindle-handler.h host.h roce.h; do
		found -path "*/include/spindle/*/$name" -type f || return
	done
}

all_man_pages_are_installed() {
	local page section
	for page in "$source_dir"/docs/man/*.[1-8]; do
		section=${page##*.}
		found -path "*/man/man$section/${page##*/}" -type f -size +0 || return
	done
	for page in spindle.1 spindle-replay.1 spindle-doctor.1 spindle-handler.7 sdr.7 rvma.7 rdma.7 spindle-nic.ini.5 sdr_send_post.3 sp_nic_create.3 sp_world_run.3 sp_link_burst.3 sdr_qp_status.3; do
		found -name "$page" || return
	done
	# another name of a page is a link to it
	found -path '*/man/man3/sdr_qp_status.3' -lname sdr_qp_create.3 || return
}

the_installed_command_runs() {
	local said
	said=$(env LD_LIBRARY_PATH="$(libraries)" "$(prefix)/bin/spindle" handler list) || return
	for name in count reflect sdr; do
		grep -qw "$name" <<<"$said" || { echo "no handler $name in: $said"; return 1; }
	done
	# its libraries are the installed ones
	env LD_LIBRARY_PATH="$(libraries)" ldd "$(prefix)/bin/spindle" | grep -F "libspindle-nic.so" | grep -qF "$dest"
}

# The files say where they are themselves: no PKG_CONFIG_SYSROOT_DIR.
installed_packages() {
	PKG_CONFIG_PATH=$(libraries)/pkgconfig
	export PKG_CONFIG_PATH
	[[ $(pkg-config --variable=prefix libspindle) == "$dest"* ]] ||
		{ echo "cannot be moved; a build directory that is older than that: meson configure $build -Dpkgconfig.relocatable=true"; return 1; }
}

# compile OUTPUT PACKAGES CFLAGS...: $work/OUTPUT.c against what is installed, and nothing of the source tree.
compile() {
	local out=$1 packages=$2 flags libs
	shift 2
	installed_packages || return
	# shellcheck disable=SC2086 # a list of packages
	flags=$(pkg-config --cflags $packages) libs=$(pkg-config --libs $packages) || return
	[[ $flags$libs != *"$source_dir/"* || $dest == "$source_dir"/* ]] || { echo "points into the source: $flags $libs"; return 1; }
	# shellcheck disable=SC2086 # lists of words
	(cd "$work" && cc -std=c11 -Wall -Wextra -Werror "$@" $flags -o "$out" "${out%.so}.c" $libs -Wl,-rpath-link,"$(libraries)")
}

an_application_builds_and_runs_against_libspindle() {
	cat >"$work/application.c" <<-'END'
		#include <sdr.h>
		#include <rvma.h>
		#include <errno.h>
		int main(void)
		{
			struct sdr_context *c;
			struct rvma *r;
			struct sdr_qp_info info = {.magic = SDR_QP_INFO_MAGIC};
			return sdr_context_create(0, 0, &c) == -EINVAL && rvma_open(0, 0, &r, 0) == -EINVAL && sizeof(info) == 128 && sp_clock() ? 0 : 1;
		}
	END
	compile application libspindle || return
	env LD_LIBRARY_PATH="$(libraries)" "$work/application" || return
	# an application gets no DPDK by linking it
	! env LD_LIBRARY_PATH="$(libraries)" ldd "$work/application" | grep librte_
}

a_cplusplus_application_builds_against_libspindle() {
	need c++
	installed_packages || return
	printf '#include <sdr.h>\n#include <rvma.h>\nint main() { return sdr_qp_destroy(nullptr) + rvma_close(nullptr); }\n' >"$work/plus.cc"
	# shellcheck disable=SC2046
	c++ -std=c++11 -Wall -Wextra -Werror $(pkg-config --cflags libspindle) -o "$work/plus" "$work/plus.cc" $(pkg-config --libs libspindle) &&
		env LD_LIBRARY_PATH="$(libraries)" "$work/plus"
}

a_handler_builds_and_registers_and_a_program_embeds_a_nic() {
	cat >"$work/drop_all.c" <<-'END'
		#include <spindle-handler.h>
		enum { UNWANTED };
		static const char *const drops[] = {"unwanted", NULL};
		static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
		{
			(void)c, (void)m, (void)p;
			return SP_DROP(UNWANTED);
		}
		static const struct sp_handler drop_all = {
			SP_HANDLER_HEAD, .name = "drop-all", .doc = "drops", .drops = drops, .payload = payload};
		SP_HANDLER(drop_all)
	END
	cat >"$work/embed.c" <<-'END'
		#include <dlfcn.h>
		#include <stdio.h>
		#include <nic.h>
		#include <sdr.h>
		int main(int argc, char **argv)
		{
			struct sp_nic_config config = {.mtu = 1500};
			struct sp_setting filter = {"filter", "udp"};
			struct sp_context_config context = {"all", "drop-all", &filter, 1};
			struct sp_error error = {.text = ""};
			struct sp_nic *nic;
			struct sp_dev *dev;
			if (argc < 2 || sp_handler_find("drop-all") || !dlopen(argv[1], RTLD_NOW) || !sp_handler_find("drop-all"))
				return fprintf(stderr, "handler: %s\n", dlerror()), 2;
			if (sp_eal_init(0, NULL, &error) || sp_nic_create(&config, &error, &nic) ||
			    sp_nic_context_add(nic, &context, NULL, &error) || sp_nic_dev(nic, true, &dev))
				return fprintf(stderr, "%s\n", error.text), 3;
			if (sp_progress(dev, sp_clock()))
				return 4;
			sp_dev_close(dev);
			sp_nic_destroy(nic);
			return 0;
		}
	END
	compile drop_all.so spindle -shared -fPIC && compile embed "spindle libspindle" || return
	RUNTIME_DIRECTORY=$work LD_LIBRARY_PATH=$(libraries) "$work/embed" "$work/drop_all.so"
}

a_cmake_project_finds_all_of_it() {
	need cmake
	local project=$work/project said
	mkdir -p "$project" && cp "$work"/{application,drop_all,embed}.c "$project" || return
	cat >"$project/CMakeLists.txt" <<-'END'
		cmake_minimum_required(VERSION 3.13)
		project(uses-spindle C)
		find_package(spindle ${WANTED} REQUIRED)
		add_executable(application application.c)
		target_link_libraries(application spindle::spindle)
		add_executable(embed embed.c)
		target_link_libraries(embed spindle::nic ${CMAKE_DL_LIBS})
		target_link_options(embed PRIVATE -Wl,-rpath-link,${LIBRARIES})
		add_library(drop_all MODULE drop_all.c)
		target_link_libraries(drop_all spindle::handler)
		enable_testing()
		add_test(NAME listed COMMAND ${SPINDLE_COMMAND} handler list --plugin $<TARGET_FILE:drop_all>)
	END
	wants() {
		cmake -S "$project" -B "$project/build" -DCMAKE_PREFIX_PATH="$(prefix)" -DLIBRARIES="$(libraries)" -DWANTED="$1" 2>&1
	}
	# a version that this one is not good for is refused
	said=$(wants 99.0) && { echo "99.0 was found: $said"; return 1; }
	tr -s '[:space:]' ' ' <<<"$said" | grep -q 'compatible with requested version "99.0"' || { echo "$said"; return 1; }
	rm -rf "$project/build"
	wants "$(meson introspect --projectinfo "$build" | sed 's/.*"version": "\([0-9]*\.[0-9]*\).*/\1/')" && cmake --build "$project/build" || return
	export LD_LIBRARY_PATH
	LD_LIBRARY_PATH=$(libraries)
	"$project/build/application" && (cd "$project/build" && ctest --output-on-failure) || return
	! ldd "$project/build/application" | grep librte_ || return
	RUNTIME_DIRECTORY=$work "$project/build/embed" "$project/build/libdrop_all.so"
}

a_program_embeds_a_world_in_virtual_time() {
	cat >"$work/embed_world.c" <<-'END'
		#include <link.h>
		#include <world.h>
		int main(void)
		{
			struct sp_link_config config = {.direction = {{.delay = SP_US}, {.delay = SP_US}}, .seed = 1};
			struct sp_world *world;
			struct sp_link *link;
			if (sp_eal_init(0, NULL, NULL) || sp_world_create(&world) || sp_link_create(&config, &link))
				return 1;
			struct sp_nic_config nic = {.ports = 1, .port[0] = {.ops = &sp_link_ops, .ops_arg = sp_link_port(link, 0)}};
			struct sp_nic *one;
			if (sp_nic_create(&nic, NULL, &one) || sp_world_add_nic(world, one) || sp_world_run(world, SP_SEC, NULL, NULL) ||
			    sp_world_now(world) != SP_SEC)
				return 2;
			sp_nic_destroy(one);
			sp_link_destroy(link);
			sp_world_destroy(world);
			return 0;
		}
	END
	compile embed_world spindle-world || return
	RUNTIME_DIRECTORY=$work LD_LIBRARY_PATH=$(libraries) "$work/embed_world"
}

a_plugin_needs_no_dpdk_and_the_installed_command_loads_it() {
	local pc=$work/pc flags command said
	# nothing but our own files, and them elsewhere: a tree that was installed may be moved
	rm -rf "$pc" && cp -r "$dest" "$pc" || return
	unset PKG_CONFIG_PATH
	export PKG_CONFIG_LIBDIR
	PKG_CONFIG_LIBDIR=$(dirname "$(find "$pc" -name spindle.pc)")
	! pkg-config --exists libdpdk || { echo 'libdpdk is in reach, so this shows nothing'; return 1; }
	flags=$(pkg-config --cflags spindle) && command=$(pkg-config --variable=command spindle) || return
	[[ $flags == *"$pc/"* && $flags != *dpdk* && $flags != *"$dest/"* ]] || { echo "flags: $flags"; return 1; }
	# shellcheck disable=SC2086 # a list of words
	cc -std=c11 -Wall -Wextra -Werror -shared -fPIC $flags -o "$work/alone.so" "$work/drop_all.c" || return
	said=$(LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_LIBDIR") "$command" handler list --plugin "$work/alone.so") || return
	grep -q "^drop-all .*($work/alone.so)" <<<"$said" || { echo "not in: $said"; return 1; }
}

# ---- the option cpu ------------------------------------------------------------------------------------------------------
# build_for CPU: of a build for this CPU a part of the library, of which compilers make vectors where they may; that all of
# it would be compiled alike is seen in the commands.
build_for() {
	local targets pattern='\([a-z]*_\)\?\(message\|message_table\|place\)\.c\.o' # after meson's names: folders become prefixes
	meson setup "$work/$1" "$source_dir" --buildtype=release -Dtests=disabled -Db_pch=false -Dcpu="$1" >"$work/$1.log" 2>&1 || { cat "$work/$1.log"; return 1; }
	grep -q '"command":' "$work/$1/compile_commands.json" || { echo "no commands"; return 1; }
	! grep '"command":' "$work/$1/compile_commands.json" | grep -v -e /libisa -e "-march=$1 " || { echo "not for $1"; return 1; }
	mapfile -t targets < <(ninja -C "$work/$1" -t targets all | sed -n "s#^\(\(pipeline\|handlers\)/lib[^/]*\.p/$pattern\):.*#\1#p")
	[ ${#targets[@]} -gt 0 ] || { echo "nothing to build"; return 1; }
	# one job: the other tests run beside this
	nice ninja -C "$work/$1" -j1 --quiet "${targets[@]}"
}
# vectors REGISTER CPU: how many instructions of what was built name such a register.
vectors() { objdump -d --no-show-raw-insn "$work/$2"/{pipeline,handlers}/lib*.p/*.o | grep -c "%$1"; }

v3_emits_avx2_in_our_own_code() {
	need objdump
	build_for x86-64-v3 || return
	local n
	n=$(vectors ymm x86-64-v3)
	echo "$n instructions with ymm"
	[ "$n" -gt 20 ]
}

v2_emits_none() {
	need objdump
	build_for x86-64-v2 || return
	local n
	n=$(vectors ymm x86-64-v2)
	echo "$n instructions with ymm"
	[ "$n" = 0 ] && [ "$(vectors xmm x86-64-v2)" -gt 20 ]
}

kernels_have_the_instructions_of_their_level_alone() {
	need objdump
	level() { find "$build"/{handlers,pipeline} -path "*/libisa*-$1.a.p/*.o" -exec objdump -d --no-show-raw-insn {} + | grep -c "%$2"; }
	[ "$(level baseline xmm)" -gt 0 ] && [ "$(level baseline ymm)" = 0 ] && [ "$(level baseline zmm)" = 0 ] || { echo baseline; return 1; }
	[ "$(level avx2 ymm)" -gt 0 ] && [ "$(level avx2 zmm)" = 0 ] || { echo avx2; return 1; }
	[ "$(level avx512 zmm)" -gt 0 ]
}

our_march_comes_after_that_of_dpdk() {
	/usr/bin/python3 - "$build" <<-'END'
		import json, shlex, subprocess, sys
		options = json.loads(subprocess.check_output(["meson", "introspect", sys.argv[1], "--buildoptions"]))
		cpu = next(o["value"] for o in options if o["name"] == "cpu")
		with open(sys.argv[1] + "/compile_commands.json") as f:
		    commands = json.load(f)
		both = 0
		for c in commands:
		    if c["output"].startswith("tests/") and ("counted" in c["output"] or "test-counts" in c["output"]):
		        continue # instructions are counted of one march, whatever the build's
		    if "/libisa" in c["output"]:
		        continue # each for its level
		    march = [w for w in shlex.split(c["command"]) if w.startswith("-march=")]
		    assert march and march[-1] == "-march=" + cpu, "%s: %s" % (c["file"], march)
		    both += "-march=corei7" in march
		assert both > 20, "DPDK's -march was in %d commands: is the rule still needed?" % both
	END
}

a_unit_for_systemd_is_installed_that_runs_the_installed_command() {
	pkg-config --exists systemd || skip "systemd is not installed"
	found -path '*/lib/systemd/system/spindle@.service' -type f || return
	found -path '*/lib/sysusers.d/spindle.conf' -type f || return # its user
	local unit command
	unit=$(find "$dest" -name 'spindle@.service')
	command=$(sed -n 's/^ExecStart=\([^ ]*\) run -c .*/\1/p' "$unit")
	[ -x "$dest$command" ] || { echo "not there: '$command'"; return 1; }
	need systemd-analyze
	# The command is not where it will be, nor are its man pages: everything else must be fine.
	sed "s|^ExecStart=[^ ]*|ExecStart=$(command -v true)|; /^Documentation=/d" "$unit" >"$work/spindle@.service"
	! systemd-analyze verify "$work/spindle@.service" 2>&1 | grep spindle
}

an_unknown_cpu_is_refused_by_name() {
	! meson setup "$work/unknown" "$source_dir" -Dtests=disabled -Dcpu=z80 >"$work/unknown.log" 2>&1 && grep -q 'option cpu.*z80' "$work/unknown.log"
}

if meson introspect "$build" --buildoptions | grep -q '"name": "b_sanitize", "value": "[^n]'; then
	echo '1..0 # SKIP what is built with sanitizers is not meant to be installed'
	exit 0
fi
echo 1..16
rule install_to_a_directory_works
rule command_libraries_headers_and_pkg_config_files_are_installed
rule all_man_pages_are_installed
rule the_installed_command_runs
rule an_application_builds_and_runs_against_libspindle
rule a_cplusplus_application_builds_against_libspindle
rule a_handler_builds_and_registers_and_a_program_embeds_a_nic
rule a_cmake_project_finds_all_of_it
rule a_program_embeds_a_world_in_virtual_time
rule a_plugin_needs_no_dpdk_and_the_installed_command_loads_it
rule kernels_have_the_instructions_of_their_level_alone
rule our_march_comes_after_that_of_dpdk
rule v3_emits_avx2_in_our_own_code
rule v2_emits_none
rule a_unit_for_systemd_is_installed_that_runs_the_installed_command
rule an_unknown_cpu_is_refused_by_name
exit $failed
