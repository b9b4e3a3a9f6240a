#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""guide.py SOURCE BUILD: docs/handlers.md followed literally, in a clone and then against what it installed. TAP.

The guide's blocks: follow.py.
"""

import filecmp
import json
import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import follow  # noqa: E402
from follow import Skip  # noqa: E402

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
FOLLOWER = follow.Follower(SOURCE, BUILD)
WORK, HOME, CLONE = FOLLOWER.work, FOLLOWER.home, FOLLOWER.clone
PREFIX = os.path.join(HOME, "spindle")
RULES = []


def rule(function):
    RULES.append(function)
    return function


def run(*command, **more):
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             env=dict(FOLLOWER.environment, **more.pop("env", {})), timeout=120, **more)
    return process.returncode, process.stdout


@rule
def the_guide_is_followed_to_its_end():
    todo = follow.blocks(SOURCE, "docs/handlers.md")
    assert len(todo) > 40, "only %d blocks" % len(todo)
    for block in todo:
        FOLLOWER.follow(block)
        if block.kind == "sh" and "handler new stamp" in block.text:
            files = FOLLOWER.made_of()
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


sys.exit(follow.main(RULES, FOLLOWER))
