#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""abi.py SOURCE LIBSPINDLE LIBSPINDLE-NIC [--update]: the binary interface of the public libraries. TAP.

The symbols are read from the libraries themselves: what the public headers declare has a public version, all else the
private one of this release. The types are read from the headers: of each declaration a function is made, and compiled
with debug information; abidiff compares what that says with tests/house/abi/NAME.abi. (That the libraries define what the
headers declare has been seen to by the compiler. With debug information they would be built twice for this.)
--update: writes these files anew (ninja update-abi)."""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = ("host-api/spindle.h", "host-api/sdr.h", "host-api/reliable.h", "host-api/rvma.h", "host-api/rvma_socket.h",
        "host-api/rdma.h")
NIC = ("handlers/spindle-handler.h", "handlers/spindle-export.h", "pipeline/nic.h")
DECLARATION = re.compile(r"^/\* (?:\./)?(\S+):\d+:NC \*/ extern (.*);$", re.M)  # gcc -aux-info
WRITE = ["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs"]
CHANGED, INCOMPATIBLE = 4, 8  # bits of abidiff's exit status
SKIPPED = "# SKIP "


class Library:
    def __init__(self, name, headers, folders):
        self.name, self.headers, self.folders = name, headers, folders
        node = name.upper().replace("-", "_")
        self.public = re.compile(node + r"_\d+\.\d+$")
        self.private = node + "_PRIVATE_"
        self.kept = os.path.join(HERE, "abi", name + ".abi")

    def declared(self, root, work):
        """{function: its declaration}, of the headers as they are in root."""
        source, table = os.path.join(work, "headers.c"), os.path.join(work, "declarations")
        with open(source, "w", encoding="utf-8") as f:
            f.writelines('#include "%s"\n' % header for header in self.headers)
        run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-I", root, "-aux-info", table, "-c", "-o", os.devnull, source])
        with open(table, encoding="utf-8") as f:
            found = DECLARATION.findall(f.read())
        ours = ((os.path.relpath(os.path.normpath(file), root), text) for file, text in found)
        return {re.search(r"\b(\w+) \(", text).group(1): text for file, text in ours
                if file.startswith(self.folders)}

    def interface(self, root, work):
        """Functions as declared, in a library: its path."""
        source, library = os.path.join(work, self.name + ".c"), os.path.join(work, self.name + ".so")
        with open(source, "w", encoding="utf-8") as f:
            f.writelines('#include "%s"\n' % header for header in self.headers)
            for text in self.declared(root, work).values():
                f.write(text + "\n{\n\t__builtin_trap();\n}\n")
        run(["gcc", "-std=gnu2x", "-D_GNU_SOURCE", "-g", "-O0", "-w", "-fPIC", "-shared", "-I", root,
             "-Wl,-soname," + self.name, "-o", library, source])
        return library


LIBRARIES = (Library("libspindle", HOST, ("host-api/",)), Library("libspindle-nic", NIC, ("handlers/", "pipeline/")))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(command), done.stderr))
    return done.stdout


def exported(library):
    """{symbol: its version}, of what the library defines."""
    rows = (line.split() for line in run(["readelf", "-W", "--dyn-syms", library]).splitlines())
    return {row[7].split("@")[0]: row[7].rpartition("@")[2] if "@" in row[7] else "none" for row in rows
            if len(row) > 7 and row[6] not in ("UND", "ABS") and row[4] in ("GLOBAL", "WEAK")}


def symbols(library, path, declared, version):
    there = exported(path)
    wrong = ["%s is declared in a public header, and not exported" % name for name in declared if name not in there]
    for name, node in sorted(there.items()):
        if name in declared and not library.public.match(node):
            wrong.append("%s is declared in a public header, and has the version %s: add it to the map" % (name, node))
        if name not in declared and node != library.private + version:
            wrong.append("%s is in no public header, and has the version %s" % (name, node))
    return wrong


def difference(library, interface):
    """What abidiff says between what is kept and this."""
    done = subprocess.run(["abidiff", library.kept, interface], capture_output=True, text=True, check=False)
    if not done.returncode:
        return []
    if done.returncode & ~(CHANGED | INCOMPATIBLE):
        return [done.stdout + done.stderr, "abidiff failed"]
    if done.returncode & INCOMPATIBLE:
        end = "programs linked before cannot run with this: raise its number in soversions in meson.build"
    else:
        end = "if programs linked before can run with this: ninja update-abi; else raise its number in soversions in meson.build first"
    return done.stdout.splitlines() + [end + " (docs/packaging.md)"]


def altered(library, root, work):
    """That a longer struct and a function less are seen."""
    copy = os.path.join(work, "copy")
    for folder in ("host-api", "handlers", "pipeline"):
        shutil.copytree(os.path.join(root, folder), os.path.join(copy, folder), dirs_exist_ok=True,
                        ignore=lambda at, names: [n for n in names if not n.endswith(".h") and os.path.isfile(os.path.join(at, n))])
    header, old, new = {
        "libspindle": ("host-api/spindle.h", "\tuint32_t id;  /* used in commands */", "\tuint64_t id, more;"),
        "libspindle-nic": ("pipeline/nic.h", "\tuint16_t workers; /*", "\tuint64_t more; uint16_t workers; /*"),
    }[library.name]
    with open(os.path.join(copy, header), encoding="utf-8") as f:
        text = f.read()
    if old not in text:
        return ["%s has no '%s' any more" % (header, old)]
    with open(os.path.join(copy, header), "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    return [] if difference(library, library.interface(copy, work)) else ["a longer struct in %s is not seen" % header]


def skipped():
    for tool, package in (("gcc", "gcc"), ("abidiff", "abigail-tools")):
        if not shutil.which(tool):
            return "%s is not installed (package %s)" % (tool, package)
    if platform.machine() != "x86_64":
        return "what is kept is x86-64's"
    # What debug information says of the same source changes a little from one generation of GCC to the next.
    kept, here = "12", run(["gcc", "-dumpversion"]).split(".")[0].strip()
    return "what is kept is GCC %s's, this is %s" % (kept, here) if kept != here else None


def main():
    root, update = os.path.abspath(sys.argv[1]), sys.argv[-1] == "--update"
    why = skipped()
    with open(os.path.join(root, "meson.build"), encoding="utf-8") as f:
        version = re.search(r"version: '([^']+)'", f.read()).group(1)
    results = []
    with tempfile.TemporaryDirectory() as work:
        for library, path in zip(LIBRARIES, sys.argv[2:4]):
            if update:
                if why:
                    sys.exit("abi.py: " + why)
                with open(library.kept, "w", encoding="utf-8") as f:
                    f.write(run(WRITE + [library.interface(root, work)]))
                continue
            rule = "symbols of %s: what the headers declare is public, all else private" % library.name
            if shutil.which("gcc"):
                results.append((rule, symbols(library, path, library.declared(root, work), version)))
            else:
                results.append((rule + " " + SKIPPED + why, []))
            for rule, check in (("programs linked before run with this %s", lambda: difference(library, library.interface(root, work))),
                                ("a changed struct of %s is seen", lambda: altered(library, root, work))):
                rule = rule % library.name
                results.append((rule + " " + SKIPPED + why, []) if why else (rule, check()))
    if update:
        return 0
    return tap.report(results)


if __name__ == "__main__":
    sys.exit(main())
