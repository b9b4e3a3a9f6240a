#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""container.py SOURCE: what Containerfile says, in clean roots of Debian in place of images: the packages are built of their
own build dependencies alone, and installed where nothing else is. TAP. It takes ten minutes: only with SPINDLE_LONG=1
(tests/run --long), and where root can reach an archive of Debian."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from root import Failed, Roots, Unavailable  # noqa: E402


def instructions(path):
    """(word, rest) of each."""
    with open(path, encoding="utf-8") as f:
        lines = "".join(line for line in f if not line.lstrip().startswith("#")).replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def ignored(source):
    with open(os.path.join(source, ".containerignore"), encoding="utf-8") as f:
        return [line.strip() for line in f if line.strip() and not line.startswith("#")]


class Image:
    def __init__(self, source, roots):
        self.source, self.roots, self.stages, self.last, self.command = source, roots, {}, None, {}

    def build(self):
        for word, rest in instructions(os.path.join(self.source, "Containerfile")):
            getattr(self, "do_" + word.lower())(rest)

    def do_from(self, rest):
        """IMAGE:SUITE or IMAGE:SUITE-slim [AS NAME]"""
        words = rest.split()
        name = words[2] if len(words) == 3 else "final"
        self.stages[name] = self.last = self.roots.make(name, words[0].rpartition(":")[2].replace("-slim", ""))

    def do_run(self, rest):
        self.last.run(rest)

    def do_workdir(self, rest):
        self.last.folder = rest
        os.makedirs(self.last.inside("."), exist_ok=True)

    def do_copy(self, rest):
        words = rest.split()
        source, left_out = self.source, ignored(self.source)
        if words[0].startswith("--from="):
            source, left_out = self.stages[words.pop(0)[len("--from="):]].path, ()
        self.last.copy(source, words[:-1], words[-1], left_out)

    def do_entrypoint(self, rest):
        self.command["entrypoint"] = json.loads(rest)

    def do_cmd(self, rest):
        self.command["cmd"] = json.loads(rest)


class Packages:
    def __init__(self, source, work):
        self.source, self.work = source, work
        self.roots = Roots(work)
        self.image = Image(source, self.roots)

    # ---- the rules, in order -------------------------------------------------------------------------------------
    def the_containerfile_builds(self):
        self.image.build()

    def its_command_runs(self):
        command = " ".join(self.image.command["entrypoint"] + self.image.command["cmd"])
        said = self.image.last.run(command)
        assert "over lossless" in said, said
        handlers = self.image.last.run("spindle handler list")
        assert all(word in handlers for word in ("sdr", "rvma", "rdma")), handlers

    def the_image_has_the_user_of_the_service_and_no_compiler(self):
        said = self.image.last.run("getent passwd spindle && ! command -v cc && test ! -e /packages")
        assert "Spindle NICs" in said, said

    def the_library_alone_needs_no_dpdk(self):
        root = self.roots.make("library", "bookworm")
        root.copy(self.image.stages["build"].path, ["build/libspindle1_*.deb"], "/packages/")
        root.run("apt-get update && apt-get install -y --no-install-recommends /packages/*.deb")
        said = root.run("dpkg-query -W -f '${Package}\\n'")
        assert "libspindle1" in said and "librte" not in said, said
        root.run("ldd /usr/lib/*/libspindle.so.1 | grep -c 'not found' | grep -qx 0")

    def a_handler_and_an_application_are_made_with_the_packages(self):
        root = self.image.stages["build"]
        root.folder = "/root"
        root.run("apt-get install -y --no-install-recommends $(ls /build/*.deb | grep -v -e dbgsym -e wireshark)")
        root.run("spindle handler new mine && meson setup mine/build mine && meson test -C mine/build")
        root.run("cc -o repeat $(printf '/usr/share/doc/spindle/examples/%s ' repeat.c repeat-file.c) "
                 "$(pkg-config --cflags --libs libspindle) && ldd repeat | grep libspindle.so.1")

    def a_world_in_python_and_the_devices_are_there(self):
        root = self.image.stages["build"]
        said = root.run("python3 -c 'import spindle; print(spindle.World())' && spindle device")
        assert "spindle.world.World" in said and "pspin" in said, said

    def tshark_decodes_what_spindle_sends(self):
        root = self.image.stages["build"]
        said = root.run("apt-get install -y --no-install-recommends tshark /build/spindle-wireshark_*.deb >&2 && "
                        "tshark -r /build/spindle/pcaps/rvma.pcap -T fields -e frame.protocols 2>/dev/null | grep -cE 'spindle|rvma'")
        assert int(said.split()[-1]) > 0, said

    def nothing_stays_after_they_have_been_removed(self):
        root = self.image.last
        root.run("apt-get purge -y spindle libspindle1 libspindle-nic0")
        said = root.run("find / -xdev -path /proc -prune -o -path /dev -prune -o -name '*spindle*' -not -path '/var/lib/dpkg/*' -print")
        left = [line for line in said.splitlines() if not line.startswith(("/var/log/", "/var/cache/"))]
        assert not left, left


RULES = (Packages.the_containerfile_builds, Packages.its_command_runs, Packages.the_image_has_the_user_of_the_service_and_no_compiler,
         Packages.the_library_alone_needs_no_dpdk, Packages.a_handler_and_an_application_are_made_with_the_packages,
         Packages.a_world_in_python_and_the_devices_are_there, Packages.tshark_decodes_what_spindle_sends, Packages.nothing_stays_after_they_have_been_removed)


def main():
    if not os.environ.get("SPINDLE_LONG"):
        print("1..0 # SKIP it takes ten minutes and an archive of Debian: tests/run --long packages/container")
        return 0
    work = tempfile.mkdtemp(prefix="spindle-roots-")
    failed = False
    try:
        packages = Packages(os.path.abspath(sys.argv[1]), work)
        packages.roots.base("bookworm")
        print("1..%d" % len(RULES))
        for number, rule in enumerate(RULES, 1):
            try:
                rule(packages)
                print("ok %d - %s" % (number, rule.__name__), flush=True)
            except (Failed, AssertionError, KeyError, AttributeError) as wrong:
                failed = True
                for line in str(wrong).splitlines() or [repr(wrong)]:
                    print("# " + line)
                print("not ok %d - %s" % (number, rule.__name__), flush=True)
    except Unavailable as why:
        print("1..0 # SKIP %s" % why)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
