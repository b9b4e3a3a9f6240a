# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What ./quickstart and tests/run share: packages and build directories. Sourced, with the tree's root as directory.

# Debian's own meson, compiler and python3, whatever else (conda, pyenv, ...) stands first in PATH.
export PATH="/usr/sbin:/usr/bin:/sbin:/bin:$PATH"

say() { printf '==> %s\n' "$*"; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

apt_install() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# packages SET...: installs what debian-packages lists under these sets and is missing. Not 0: it could not.
packages() {
	local package set lists=known
	missing=()
	if ! command -v dpkg-query >/dev/null; then
		say "This is no Debian: what debian-packages lists is taken to be there under other names"
		return 0
	fi
	while read -r package set; do
		case " $* " in *" $set "*) ;; *) continue ;; esac
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
	done < <(grep -v '^#' debian-packages)
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		printf '%s\n' "These packages must be installed first, and there is neither root nor sudo here:" \
			"  apt-get install --no-install-recommends ${missing[*]}" >&2
		return 1
	fi

	say "Installing Debian packages: ${missing[*]}"
	for package in "${missing[@]}"; do
		LC_ALL=C apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || lists=old
	done
	if [ $lists = known ] && apt_install; then
		return 0
	fi
	say "Fetching the lists of packages"
	as_root apt-get update && apt_install
}

# configure DIRECTORY OPTIONS...: a build directory for this tree and these packages. One that is there keeps its options.
configure() {
	local directory=$1
	shift
	# It knows its source by absolute path: one that was copied along with the tree would build the old tree.
	if [ -e "$directory" ] && ! grep -qsF "\"source\": \"$PWD\"" "$directory/meson-info/meson-info.json"; then
		say "$directory was made for another place: making it anew"
		rm -rf "$directory"
	fi
	if [ ! -f "$directory/build.ninja" ]; then
		# Another compiler than ours may warn of more. That is no reason not to build, but one for us to look.
		meson setup "$directory" "$@" ${CI:+-Dwerror=true}
	elif [ /var/lib/dpkg/status -nt "$directory/build.ninja" ]; then
		meson setup --reconfigure "$directory" # what was missing may be there now
	fi
}
