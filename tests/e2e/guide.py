#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""guide.py SOURCE BUILD: docs/handlers.md followed literally, in a clone and then against what it installed. TAP.

The guide's blocks are taken in their order. By the label behind the opening fence:

    sh                  commands, run by one shell after the other with `set -e`, which hand on directory and environment;
                        must succeed
    sh fails            the last command must fail
    sh root             run in a network namespace of its own, where the test may make one; else left out
    LANGUAGE file=NAME  is written to that file; `more`: is added to it
    LANGUAGE in=NAME    must be in that file, as it stands there
    diff file=NAME      lines with - and without sign must be in that file, one after the other; is changed so
    console             each line must be found in what the commands above have said, wherever; runs of blanks are one
                        blank, and a line that is found may have more before and behind
    text                is not looked at
"""

import filecmp
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
WORK = tempfile.mkdtemp(prefix="spindle-guide-")
HOME = os.path.join(WORK, "home")
CLONE = os.path.join(WORK, "clone")
PREFIX = os.path.join(HOME, "spindle")
RULES = []


class Skip(Exception):
    pass


def rule(function):
    RULES.append(function)
    return function


# ---- the guide as blocks ---------------------------------------------------------------------------------------------

class Block:
    def __init__(self, line, label, text):
        self.line, self.text = line, text
        self.kind, *more = label.split() or ["text"]
        self.mark = dict(word.partition("=")[::2] for word in more)

    def __str__(self):
        return "docs/handlers.md, line %d" % self.line


def blocks():
    with open(os.path.join(SOURCE, "docs", "handlers.md")) as f:
        text = f.read()
    return [Block(text.count("\n", 0, m.start()) + 2, m.group(1), m.group(2))
            for m in re.finditer(r"^```(.*)\n((?:.*\n)*?)^```$", text, re.M)]


# ---- following it ----------------------------------------------------------------------------------------------------

def tree():
    """What a clone would have; of a working tree that is not clean, what it would have if all were committed."""
    def git(*words):
        return subprocess.run(["git", "-C", SOURCE, "-c", "safe.directory=" + SOURCE, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)

    listed, status = git("ls-files", "-coz", "--exclude-standard"), git("status", "--porcelain")
    if listed.returncode:
        shutil.copytree(SOURCE, CLONE, symlinks=True, ignore=lambda at, names: [n for n in names if n.startswith("build")])
    elif status.stdout or git("clone", "--quiet", "--no-hardlinks", SOURCE, CLONE).returncode:
        for name in os.fsdecode(listed.stdout).split("\0"):
            if name and os.path.lexists(os.path.join(SOURCE, name)):
                os.makedirs(os.path.dirname(os.path.join(CLONE, name)), exist_ok=True)
                shutil.copy2(os.path.join(SOURCE, name), os.path.join(CLONE, name), follow_symlinks=False)


def may_unshare():
    command = ["unshare", "--net", "ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]
    return os.geteuid() == 0 and not subprocess.run(command, stderr=subprocess.DEVNULL).returncode


# Compiles for the clone what the build that is tested has compiled already: the object is that one, see made_of(). (All
# else, what the guide's handlers are made of as well, by cc.)
COMPILER = """#!/bin/sh
object= last=
if [ "$PWD" = "%(clone)s/build" ]; then
	for word; do
		[ "$last" != -o ] || object=$word
		last=$word
	done
fi
case $object in
pipeline/lib*.o | handlers/lib*.o | host-api/lib*.o | testbed/lib*.o | spindle.p/*.o) [ -e "%(build)s/$object" ] || object= ;;
*) object= ;;
esac
[ -n "$object" ] || exec "%(cc)s" "$@"
cp "%(build)s/$object" "$object"
"""
OBJECTS = re.compile(r"(pipeline|handlers|host-api|testbed)/lib\S*\.o|spindle\.p/\S*\.o")  # the same in Python


def made_of():
    """Of which files of the source these objects are made, as their compiler has told."""
    process = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], stdout=subprocess.PIPE, text=True, check=True)
    files, ours = set(), False
    for line in process.stdout.splitlines():
        if line[:1] != " ":
            ours = bool(OBJECTS.fullmatch(line.partition(": #deps")[0]))
        elif ours:
            path = os.path.normpath(os.path.join(BUILD, line.strip()))
            if path.startswith(SOURCE + "/") and not path.startswith(BUILD + "/") and os.path.exists(path):
                files.add(os.path.relpath(path, SOURCE))
    return files


def tool(name, text):
    path = os.path.join(WORK, "tools", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


class Follower:
    def __init__(self):
        os.makedirs(HOME)
        tree()
        self.directory, self.said, self.left_out = CLONE, "", []
        self.environment = {
            "HOME": HOME, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TMPDIR": WORK, "RUNTIME_DIRECTORY": WORK,
            "NINJA": tool("ninja", '#!/bin/sh\nexec nice "%s" -j2 "$@"\n' % (shutil.which("ninja") or "/usr/bin/ninja")),
            "CC": tool("cc", COMPILER % {"clone": CLONE, "build": BUILD, "cc": shutil.which("cc") or "/usr/bin/cc"}),
            "CFLAGS": "-O0 -g0 -Wno-error"}  # quicker, and all the same to the guide

    def shell(self, block):
        state = os.path.join(WORK, "state")
        if os.path.exists(state):
            os.remove(state)
        end = "s=$?; { pwd; env -0; } > \"%s\"; kill $(jobs -p) 2> /dev/null || true; exit $s" % state
        script = "set -e\ntrap '%s' EXIT\n%s" % (end, block.text)
        command = ["bash", "-c", script]
        if "root" in block.mark:
            if not may_unshare():
                self.left_out.append(block)
                return None
            command = ["unshare", "--net", *command]
        process = subprocess.run(command, cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, errors="replace", timeout=600)
        with open(state) as f:
            self.directory, _, environment = f.read().partition("\n")
        self.environment = dict(word.partition("=")[::2] for word in environment.split("\0") if word)
        wanted = "fails" not in block.mark
        assert (process.returncode == 0) == wanted, "%s: status %d\n%s" % (block, process.returncode, process.stdout[-3000:])
        return process.stdout

    def file(self, block):
        return os.path.join(self.directory, block.mark.get("file") or block.mark["in"])

    def change(self, block):
        lines = block.text.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        new = "".join(line[1:] for line in lines if line[0] != "-")
        with open(self.file(block)) as f:
            text = f.read()
        assert text.count(old) == 1, "%s: is %d times in %s" % (block, text.count(old), self.file(block))
        with open(self.file(block), "w") as f:
            f.write(text.replace(old, new))

    def compare(self, block):
        said = re.sub(r"[ \t]+", " ", self.said)
        for line in block.text.splitlines():
            assert re.sub(r"[ \t]+", " ", line.strip()) in said, \
                "%s: '%s' was not said, but\n%s" % (block, line, self.said[-3000:])

    def follow(self, block):
        if block.kind == "sh":
            self.said = self.shell(block)
        elif block.kind == "console":
            if self.said is not None:
                self.compare(block)
        elif block.kind == "diff":
            self.change(block)
        elif "in" in block.mark:
            with open(self.file(block)) as f:
                assert block.text in f.read(), "%s: not in %s" % (block, self.file(block))
        elif "file" in block.mark:
            with open(self.file(block), "a" if "more" in block.mark else "w") as f:
                f.write(("\n" if "more" in block.mark else "") + block.text)
        else:
            assert block.kind == "text", "%s: a block without a label" % block


FOLLOWER = Follower()


def run(*command, **more):
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             env=dict(FOLLOWER.environment, **more.pop("env", {})), timeout=120, **more)
    return process.returncode, process.stdout


@rule
def the_guide_is_followed_to_its_end():
    todo = blocks()
    assert len(todo) > 40, "only %d blocks" % len(todo)
    for block in todo:
        FOLLOWER.follow(block)
        if block.kind == "sh" and "handler new stamp" in block.text:
            files = made_of()
            assert {"pipeline/nic_create.c", "handlers/spindle-handler.h"} <= files, "%d files" % len(files)
            for name in files:
                assert filecmp.cmp(os.path.join(SOURCE, name), os.path.join(CLONE, name), shallow=False), name
            shutil.rmtree(CLONE)  # from here on there is what was installed and nothing else
            shutil.copytree(os.path.join(HOME, "stamp"), os.path.join(WORK, "untouched"))


@rule
def what_it_runs_as_root_was_run():
    if FOLLOWER.left_out:
        raise Skip("needs root, tap interfaces and network namespaces: %s" % FOLLOWER.left_out[0])


# ---- what it made ----------------------------------------------------------------------------------------------------

@rule
def a_new_handler_is_short_and_readable():
    with open(os.path.join(WORK, "untouched", "stamp.c")) as f:
        lines = f.read().expandtabs(8).splitlines()
    assert len(lines) < 60, "%d lines" % len(lines)
    assert max(map(len, lines)) <= 100, max(lines, key=len)
    assert [line for line in lines if line.startswith("#include")] == ["#include <spindle-handler.h>"], "includes"


@rule
def the_header_has_at_most_200_lines_and_needs_two_others_of_ours():
    where = os.path.join(PREFIX, "include", "spindle", "handlers")
    for name, includes in (("spindle-handler.h", ["wire/host.h", "spindle-calls.h"]), ("spindle-calls.h", [])):
        with open(os.path.join(where, name)) as f:
            text = f.read()
        assert text.count("\n") <= 200, "%s: %d lines" % (name, text.count("\n"))
        assert max(map(len, text.expandtabs(8).splitlines())) <= 120, name
        assert re.findall(r'#include "(.*)"', text) == includes, "includes of " + name


@rule
def no_dpdk_is_needed_to_compile_a_handler():
    project = os.path.join(WORK, "untouched")
    libraries = os.path.join(PREFIX, "lib", "pkgconfig")  # pkg-config finds nothing but Spindle
    status, said = run("meson", "setup", "build", cwd=project, env={"PKG_CONFIG_LIBDIR": libraries, "CFLAGS": "-O2 -Werror"})
    assert status == 0, said
    status, said = run("meson", "compile", "-C", "build", cwd=project)
    assert status == 0, said
    with open(os.path.join(project, "build", "compile_commands.json")) as f:
        command, = json.load(f)
    words = command["command"].split()
    assert "dpdk" not in command["command"] and SOURCE + "/handlers" not in command["command"], words
    status, said = run(*[w for w in words if w not in ("-MD", "-c")][:words.index("-MQ") - 1], "-M", "../stamp.c",
                       cwd=command["directory"])
    assert status == 0, said
    headers = {os.path.realpath(w) for w in said.replace("\\\n", " ").split() if w.endswith(".h")}
    assert not [h for h in headers if "rte_" in h or "dpdk" in h], headers
    ours = {os.path.relpath(h, os.path.realpath(PREFIX)) for h in headers if h.startswith(os.path.realpath(PREFIX))}
    assert ours == {"include/spindle/handlers/" + name for name in
                    ("spindle-handler.h", "spindle-calls.h", "wire/host.h")}, ours


@rule
def what_a_handler_is_linked_with_is_nothing_of_spindle_or_dpdk():
    status, said = run("readelf", "-d", os.path.join(HOME, "stamp", "build", "stamp.so"))
    assert status == 0, said
    needed = re.findall(r"NEEDED.*\[(.*)\]", said)
    assert set(needed) <= {"libc.so.6"}, needed


@rule
def losses_in_the_table_are_those_that_tshark_counts():
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    project = os.path.join(HOME, "meter")
    status, said = run("tshark", "-r", "in.pcap", "-d", "udp.port==5004,rtp", "-q", "-z", "rtp,streams", cwd=project)
    assert status == 0, said
    counted = {int(ssrc, 16): (int(packets), int(lost)) for ssrc, packets, lost in
               re.findall(r"0x([0-9A-F]{8}) +\S+ +(\d+) +(-?\d+) \(", said)}
    with open(os.path.join(project, "table.bin"), "rb") as f:
        rows = list(struct.iter_unpack("<QIIQQQQQQ", f.read()))
    table = {row[1]: (row[3], row[4] - row[3]) for row in rows if row[1]}
    assert len(counted) == 3 and counted == table, (counted, table)


@rule
def an_installed_tree_may_be_moved():
    moved = os.path.join(WORK, "elsewhere")
    shutil.move(PREFIX, moved)
    environment = {"PKG_CONFIG_PATH": os.path.join(moved, "lib", "pkgconfig"),
                   "PATH": os.path.join(moved, "bin") + ":/usr/bin:/bin"}
    project = os.path.join(WORK, "again")
    status, said = run("spindle", "handler", "new", "again", project, env=environment)
    assert status == 0, said
    for command in (("meson", "setup", "build"), ("meson", "test", "-C", "build", "--print-errorlogs")):
        status, said = run(*command, cwd=project, env=environment)
        assert status == 0, said


def sanitized():
    options = json.loads(subprocess.check_output(["meson", "introspect", BUILD, "--buildoptions"]))
    return next(o["value"] for o in options if o["name"] == "b_sanitize") != "none"


def main():
    if sanitized():
        print("1..0 # SKIP what is built with sanitizers is not meant to be installed")
        return 0
    print("1..%d" % len(RULES), flush=True)
    failed = 0
    for number, function in enumerate(RULES, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print("ok %d - %s" % (number, name), flush=True)
        except Skip as skip:
            print("ok %d - %s # SKIP %s" % (number, name, skip), flush=True)
        except Exception as error:
            failed = 1
            print("".join("# %s\n" % line for line in ("%s: %s" % (type(error).__name__, error)).splitlines()[-30:]), end="")
            print("not ok %d - %s" % (number, name), flush=True)
    return failed


try:
    status = main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
sys.exit(status)
