#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""includes.py SOURCE: the include lines of the house point the way that docs/house.md says. TAP.

A node is a noun: NAME.c, NAME.h and NAME_private.h together. Only quoted includes count."""
import collections
import os
import re
import sys

import tap

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ROOMS = ("pipeline", "handlers", "host-api", "command", "testbed")
PUBLIC = {"handlers/spindle-%s.h" % name for name in ("handler", "calls", "export", "bpf")}
# Of pipeline/, the folders on the way of a packet, and what they may not see.
PACKET = ("rx", "exec", "tx")
HIDDEN = ("control", "plugin", "config")
TAP = "pipeline/observe/tap.h"
SERVER = {"pipeline/host/server.h", "pipeline/host/session.h", "pipeline/host/socket_lock.h"}


def sources(root):
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def includes(root, files):
    """Pairs (file, included file), both of the house."""
    known = set(files)
    for file in files:
        with open(os.path.join(root, file), encoding="utf-8") as f:
            names = INCLUDE.findall(f.read())
        top = file.split("/")[0]
        for name in names:
            for folder in (os.path.dirname(file), top):  # meson gives a room's top as include directory
                to = os.path.normpath(os.path.join(folder, name))
                if to in known:
                    yield file, to
                    break


def folder_of(file):
    """pipeline/rx/port.c -> rx; pipeline/nic.h -> nothing: the root of the pipeline is the object itself."""
    parts = file.split("/")
    if noun(file) == noun(TAP):
        return ""  # everybody sees observe/ through it, and it sees the object alone
    return parts[1] if parts[0] == "pipeline" and len(parts) > 2 else ""


def noun(file):
    return re.sub(r"(_private)?\.[ch]$", "", file)


def forbidden(a, b):
    """Why a must not include b; None: it may."""
    of, to = a.split("/")[0], b.split("/")[0]
    shared = b.startswith(("handlers/wire/", "handlers/reliability/", "handlers/isa/"))
    if of == "handlers":
        if to != "handlers":
            return "a handler includes nothing but handlers/"
        mine, other = a.split("/")[1], b.split("/")[1]
        if mine == other or b in PUBLIC or shared or "/" not in b[len("handlers/"):]:
            return None
        return "a handler includes nothing of another one"
    if of == "host-api" and not (to == "host-api" or shared or b in PUBLIC):
        return "host-api includes host-api/, handlers/wire/ and handlers/reliability/"
    if of == "pipeline":
        if to == "handlers" and not (b in PUBLIC or b.startswith(("handlers/wire/", "handlers/isa/"))):
            return "the pipeline names no handler"
        if to in ("testbed", "command"):
            return "the pipeline includes nothing of " + to
        mine, other = folder_of(a), folder_of(b)
        if mine in PACKET:
            if other in HIDDEN or b in SERVER:
                return mine + " includes nothing of control, plugin, config or the server"
            if other == "observe":
                return mine + " sees observe through its tap"
    if of == "testbed" and to == "command":
        return "the testbed includes nothing of the command"
    return None


def circles(arrows):
    """Strongly connected components of more than one node: Tarjan's algorithm, without recursion."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for start in sorted(arrows):
        if start in index:
            continue
        work = [(start, iter(sorted(arrows[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(sorted(arrows.get(to, ())))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        group.append(stack.pop())
                        on.discard(group[-1])
                        if group[-1] == node:
                            break
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def check(root):
    files = sorted(sources(root))
    arrows = list(includes(root, files))
    direction = ["%s includes %s: %s" % (a, b, why) for a, b in arrows for why in [forbidden(a, b)] if why]
    nouns, folders = collections.defaultdict(set), collections.defaultdict(set)
    for a, b in arrows:
        if noun(a) != noun(b):
            nouns[noun(a)].add(noun(b))
        if a.startswith("pipeline/") and folder_of(a) and folder_of(b) and folder_of(a) != folder_of(b):
            folders[folder_of(a)].add(folder_of(b))
    both = []
    for group in circles(folders):
        lines = ["%s -> %s" % (a, b) for a, b in arrows
                 if folder_of(a) in group and folder_of(b) in group and folder_of(a) != folder_of(b)]
        both += ["pipeline folders in a circle: " + " ".join(group)] + lines
    around = ["files in a circle: " + " ".join(group) for group in circles(nouns)]
    return len(files), len(arrows), direction, both, around


def selftest():
    """The check finds what it is for."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert not circles({"a": {"b", "c"}, "b": {"c"}})
    assert forbidden("pipeline/rx/port.c", "pipeline/config/config.h")
    assert forbidden("pipeline/tx/send.c", "pipeline/observe/stats.h")
    assert not forbidden("pipeline/tx/send.c", "pipeline/observe/tap.h")
    assert forbidden("handlers/sdr/sdr.c", "pipeline/nic.h")
    assert forbidden("handlers/sdr/sdr.c", "handlers/rvma/state.h")
    assert forbidden("host-api/sdr.c", "pipeline/nic.h")
    assert forbidden("pipeline/nic.c", "handlers/sdr/state.h")
    assert noun("host-api/sdr_private.h") == noun("host-api/sdr.c") == "host-api/sdr"


def main():
    selftest()
    files, arrows, direction, both, around = check(sys.argv[1])
    results = [("include lines are found", ["none"] if files < 200 or arrows < 500 else []),
               ("no include goes a forbidden way", direction),
               ("no folder of the pipeline includes one that includes it", both),
               ("no circle between files", around)]
    return tap.report(results)


if __name__ == "__main__":
    sys.exit(main())
