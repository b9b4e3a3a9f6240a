#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""lint.py SOURCE BUILD: debian/ makes packages that are in order. TAP.

What is packed is the build that is there: `meson install` in place of configuring and compiling, which takes minutes.
packages/container does all of it, from the source (tests/run --long)."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

# The build that is there lies in /usr/local and finds its libraries from where it is; that of a package does not (-Drpath).
PACKED = """
override_dh_auto_configure override_dh_auto_build override_dh_auto_test override_dh_auto_clean:
	:
override_dh_auto_install:
	meson install -C "%(build)s" --no-rebuild --quiet --destdir "$(CURDIR)/debian/staged"
	mkdir -p debian/tmp
	cp -a "debian/staged%(prefix)s" debian/tmp/usr
	rm -rf debian/staged
	sed -i 's#%(prefix)s/bin/#/usr/bin/#' debian/tmp/usr/lib/systemd/system/*.service
override_dh_strip_nondeterminism override_dh_dwz:
	:
override_dh_builddeb:
	dh_builddeb -- -Zgzip -z1
"""
SUPPRESSED = ("custom-library-search-path",)
# Of debian-packages, what build-essential or meson bring.
IMPLIED = {"gcc", "libc6-dev", "ninja-build"}
# Of debian/control, what ./quickstart can do without, or any Debian has.
ONLY_PACKAGED = {"debhelper-compat", "clang", "dh-python", "systemd", "python3"}


class Skipped(Exception):
    pass


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Skipped("%s is not installed" % tool)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    return done.returncode, (done.stdout + done.stderr).splitlines()


class Packages:
    def __init__(self, source, build, work):
        self.source, self.build, self.work = source, build, work
        self.tree = os.path.join(work, "spindle")

    def package(self, name):
        found = glob.glob(os.path.join(self.work, name + "_*_a[ml][dl]*.deb"))
        if len(found) != 1:
            raise Skipped("there is no package " + name)
        return found[0]

    def field(self, name, field):
        return run("dpkg-deb", "-f", self.package(name), field)[1]

    def files(self, name):
        return [line.split()[5].lstrip(".") for line in run("dpkg-deb", "-c", self.package(name))[1]]

    # ---- the rules -----------------------------------------------------------------------------------------------
    def changelogs_and_meson_agree_on_the_version(self):
        version = re.search(r"version: '([^']+)'", read(os.path.join(self.source, "meson.build"))).group(1)
        top = re.search(r"^## (\S+?),? ", read(os.path.join(self.source, "CHANGELOG.md")), re.M).group(1)
        debian = re.match(r"spindle \(([^)]+)\)", read(os.path.join(self.source, "debian", "changelog"))).group(1)
        return [] if version == top == debian else ["meson.build %s, CHANGELOG.md %s, debian/changelog %s" % (version, top, debian)]

    def what_is_released_has_a_maintainer_who_answers(self):
        control, changes = (read(os.path.join(self.source, *path)) for path in (("debian", "control"), ("CHANGELOG.md",)))
        maintainer = re.search(r"^Maintainer: .+ <.+@(.+)>$", control, re.M)
        if not maintainer:
            return ["debian/control has no Maintainer with an address"]
        not_yet = re.search(r"^## .*, not released$", changes, re.M)
        return ["CHANGELOG.md has a release, debian/control no address that answers"] if maintainer[1].endswith(
            ".invalid") and not not_yet else []

    def packages_of_the_libraries_are_called_after_their_sonames(self):
        meson = read(os.path.join(self.source, "meson.build"))
        soversions = dict(re.findall(r"'([^']+)': '(\d+)'", re.search(r"^soversions = \{(.*)\}", meson, re.M).group(1)))
        control, wrong = read(os.path.join(self.source, "debian", "control")), []
        for name in ("libspindle", "libspindle-nic"):
            soversion = soversions[name]
            if not re.search(r"^Package: %s%s$" % (name, soversion), control, re.M):
                wrong.append("no package %s%s in debian/control" % (name, soversion))
            symbols = os.path.join(self.source, "debian", name + soversion + ".symbols")
            if not read(symbols).startswith("%s.so.%s %s%s " % (name, soversion, name, soversion)):
                wrong.append("%s is for another soname" % symbols)
        return wrong

    def the_packages_and_quickstart_need_the_same_to_build(self):
        control = read(os.path.join(self.source, "debian", "control"))
        field = re.search(r"^Build-Depends:((?:.*\n)(?:[ \t].*\n)*)", control, re.M).group(1)
        packaged = {re.match(r"[a-z0-9.+-]+", word.strip()).group(0) for word in field.split(",") if word.strip()}
        listed = {words[0] for words in map(str.split, read(os.path.join(self.source, "debian-packages")).splitlines())
                  if len(words) == 2 and words[1] == "build"}
        return (["debian/control lacks " + name for name in sorted(listed - IMPLIED - packaged)] +
                ["debian-packages lacks " + name for name in sorted(packaged - ONLY_PACKAGED - listed)])

    def the_page_says_what_the_container_file_does(self):
        """packages/container runs that, word by word. What nobody asks there: yes, and no for what is recommended."""
        page, file = (read(os.path.join(self.source, *path)) for path in (("docs", "packaging.md"), ("Containerfile",)))
        commands = re.sub(r"^#.*\n|^RUN|\\\n| -y\b| --no-install-recommends", "", file, flags=re.M).replace("&&", "\n")
        done = [line.strip() for line in commands.splitlines()]
        done += re.findall(r"^# +(podman \S+(?: \S+)*?)(?:  .*)?$", file, re.M)
        asked = [line.replace(" --no-install-recommends", "").replace(" ../", " /packages/") for block in
                 re.findall(r"^```sh long=packages/container\n(.*?)^```", page, re.M | re.S) for line in block.splitlines()]
        wrong = ["docs/packaging.md, not in Containerfile: " + line for line in asked if line not in done]
        return wrong if len(asked) > 5 else wrong + ["%d commands" % len(asked)]

    def all_that_is_installed_is_in_a_package(self):
        """dh_missing fails where something is not."""
        need("dpkg-buildpackage", "dh", "meson")
        os.mkdir(self.tree)
        shutil.copytree(os.path.join(self.source, "debian"), os.path.join(self.tree, "debian"))
        shutil.copytree(os.path.join(self.source, "python", "spindle"), os.path.join(self.tree, "python", "spindle"))
        for name in ("README.md", "CHANGELOG.md", "LICENSE"):
            shutil.copy(os.path.join(self.source, name), self.tree)
        prefix = os.path.join("/", *self.option("prefix").split("/"))
        with open(os.path.join(self.tree, "debian", "rules"), "a", encoding="utf-8") as f:
            f.write(PACKED % {"build": self.build, "prefix": prefix})
        options = dict(os.environ, DEB_BUILD_OPTIONS="noautodbgsym", LC_ALL="C.UTF-8")
        status, said = run("dpkg-buildpackage", "-b", "-us", "-uc", "-d", cwd=self.tree, env=options)
        return said[-40:] + ["status %d" % status] if status else []

    def option(self, name):
        import json
        with open(os.path.join(self.build, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
            return next(option["value"] for option in json.load(f) if option["name"] == name)

    def lintian_finds_no_error(self):
        need("lintian")
        system = dict(line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line)
        if (system.get("ID"), system.get("VERSION_ID", "").strip('"')) != ("debian", "12"):
            raise Skipped("the packages are for Debian 12, and another lintian has other rules")
        changes = glob.glob(os.path.join(self.work, "*.changes"))
        if not changes:
            raise Skipped("there are no packages")
        status, said = run("lintian", "--fail-on", "error", "--allow-root", "--suppress-tags", ",".join(SUPPRESSED), *changes,
                           env=dict(os.environ, TMPDIR=self.work))
        for line in said:
            print("# " + line)
        return ["status %d" % status] if status else []

    def each_package_has_what_it_is_for(self):
        wanted = {
            "spindle": ["/usr/bin/spindle", "/lib/systemd/system/spindle@.service", "/usr/lib/sysusers.d/spindle.conf", "/etc/spindle/",
                        "/usr/share/man/man1/spindle.1.gz", "/usr/share/doc/spindle/handlers.md", "/usr/lib/*/spindle/bpf/sizes.so",
                        "/usr/lib/*/spindle/verbs/libibverbs.so.1"],
            "libspindle1": ["/usr/lib/*/libspindle.so.1"], "libspindle-nic0": ["/usr/lib/*/libspindle-nic.so.0"],
            "libspindle-dev": ["/usr/include/spindle/host-api/sdr.h", "/usr/lib/*/libspindle.so", "/usr/lib/*/pkgconfig/libspindle.pc",
                               "/usr/lib/*/cmake/spindle/spindle-config.cmake", "/usr/share/man/man3/sp_attach.3.gz",
                               "/usr/share/doc/spindle/examples/repeat.c"],
            "python3-spindle": ["/usr/lib/python3/dist-packages/spindle/__init__.py",
                                "/usr/lib/python3/dist-packages/spindle/declarations/libspindle.h"],
            "spindle-wireshark": ["/usr/share/spindle/spindle.lua", "/usr/lib/*/wireshark/plugins/spindle.lua"],
        }
        wrong = []
        for name, paths in wanted.items():
            there = self.files(name)
            for path in paths:
                pattern = re.compile(re.escape(path).replace(r"\*", "[^/]+") + "$")
                if not any(pattern.match(file) for file in there):
                    wrong.append("%s lacks %s" % (name, path))
        return wrong

    def only_the_nic_needs_dpdk(self):
        nic, wrong = " ".join(self.field("libspindle-nic0", "Depends")), []
        if "librte" in " ".join(self.field("libspindle1", "Depends")):
            wrong.append("libspindle1 depends on DPDK")
        for driver in ("librte-mempool-ring", "librte-net-af-packet", "librte-net-tap", "librte-net-virtio", "librte-eal"):
            if not re.search(r"\b%s-?\d" % driver, nic):
                wrong.append("libspindle-nic0 does not depend on %s: %s" % (driver, nic))
        for name in ("spindle", "libspindle-dev"): # what they use of it is private
            if not re.search(r"libspindle-nic0 \(= ", " ".join(self.field(name, "Depends"))):
                wrong.append("%s does not depend on the very libspindle-nic0 that it was built with" % name)
        return wrong


RULES = (Packages.changelogs_and_meson_agree_on_the_version, Packages.what_is_released_has_a_maintainer_who_answers,
         Packages.packages_of_the_libraries_are_called_after_their_sonames,
         Packages.the_packages_and_quickstart_need_the_same_to_build, Packages.the_page_says_what_the_container_file_does,
         Packages.all_that_is_installed_is_in_a_package,
         Packages.lintian_finds_no_error, Packages.each_package_has_what_it_is_for, Packages.only_the_nic_needs_dpdk)


def main():
    failed = False
    print("1..%d" % len(RULES))
    with tempfile.TemporaryDirectory(prefix="spindle-packages-") as work:
        packages = Packages(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), work)
        for number, rule in enumerate(RULES, 1):
            name = rule.__name__
            try:
                wrong = rule(packages)
            except Skipped as why:
                print("ok %d - %s # SKIP %s" % (number, name, why))
                continue
            for line in wrong:
                print("# " + line)
            print("%sok %d - %s" % ("not " if wrong else "", number, name))
            failed = failed or bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
