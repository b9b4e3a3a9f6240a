#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""declarations.py SOURCE [--check]: makes spindle/declarations/*.h, what cffi reads, from the public headers.

The C preprocessor has the includes and the constants; what cffi does not read (inline functions, assertions) goes.
--check writes nothing: exit status 1, and the first difference, if a file is not what the headers give.
"""

import difflib
import os
import re
import shlex
import subprocess
import sys
from typing import Dict, List, Set

HERE = os.path.dirname(os.path.abspath(__file__))
# Which headers each file is made of. A header belongs to the first file that names it.
FILES: Dict[str, List[str]] = {
    "libspindle.h": ["host-api/spindle.h", "host-api/sdr.h", "host-api/reliable.h", "host-api/rvma.h"],
    "libspindle-rdma.h": ["host-api/rdma.h"],
    "libspindle-nic.h": ["pipeline/nic.h"],
    "libspindle-world.h": ["testbed/link.h", "testbed/world.h"],
}
ROOMS = ("handlers/", "host-api/", "pipeline/", "testbed/")
HEAD = "/* SPDX-" "License-Identifier: BSD-3-Clause */\n/* Made from the public headers by python/declarations.py. Do not edit. */\n"


def functions_gone(text: str) -> str:
    """Without `static inline` functions, which have no symbol, and without assertions."""
    out, at = [], 0
    for match in re.finditer(r"^static inline\b", text, re.M):
        if match.start() < at:
            continue
        out.append(text[at:match.start()])
        depth, at = 0, text.index("{", match.start())
        while True:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
            if not depth:
                break
    out.append(text[at:])
    return re.sub(r"^_Static_assert\b.*?\);\s*$", "", "".join(out), flags=re.M | re.S)


def constants(source: str, header: str) -> str:
    """The header's own constants that are numbers."""
    lines = []
    with open(os.path.join(source, header), encoding="utf-8") as f:
        defined = re.findall(r"^#define\s+((?:SP|SDR|RVMA)_\w+)\s+(.+?)\s*(?:/\*.*)?$", f.read(), re.M)
    for name, value in defined:
        value = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", value.replace("UINT64_MAX", str(2**64 - 1)))
        value = value.replace("UINT32_MAX", str(2**32 - 1))
        if re.fullmatch(r"[0-9a-fA-FxX<()+* ]+", value):
            lines.append("#define %s %d\n" % (name, eval(value, {"__builtins__": {}})))
    return "".join(lines)


def preprocessed(source: str, headers: List[str]) -> Dict[str, str]:
    """Header -> its own lines, as the compiler sees them."""
    main = "#define _GNU_SOURCE\n" + "".join('#include "%s"\n' % h for h in headers)
    command = shlex.split(os.environ.get("CC", "cc")) + ["-E", "-std=gnu11", "-I", source, "-x", "c", "-"]
    said = subprocess.run(command, input=main, stdout=subprocess.PIPE, text=True, check=True, cwd=source).stdout
    parts: Dict[str, str] = {}
    here = ""
    for line in said.splitlines(keepends=True):
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            file = os.path.relpath(os.path.join(source, marker.group(1)), source)
            here = file if file.startswith(ROOMS) else ""
        elif here and line.strip():
            parts[here] = parts.get(here, "") + line
    return parts


def made(source: str) -> Dict[str, str]:
    """File -> what it has to be."""
    files: Dict[str, str] = {}
    taken: Set[str] = set()
    for name, headers in FILES.items():
        text = HEAD
        for header, lines in preprocessed(source, headers).items():
            if header in taken:
                continue
            taken.add(header)
            # cffi reads variables of a library, but no constants that are structs.
            lines = functions_gone(lines).replace("extern const ", "extern ")
            text += "\n/* %s */\n" % header + constants(source, header) + lines
        files[name] = re.sub(r"[ \t]+$", "", text, flags=re.M)
    return files


def tokens(text: str) -> List[str]:
    """What counts: compilers leave other blanks where comments were."""
    return re.findall(r"\w+|[^\w\s]", text)


def main(arguments: List[str]) -> int:
    source = os.path.abspath(arguments[0]) if arguments else os.path.dirname(HERE)
    for name, text in made(source).items():
        path = os.path.join(HERE, "spindle", "declarations", name)
        if "--check" not in arguments:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            continue
        with open(path, encoding="utf-8") as f:
            there = f.read()
        if tokens(there) != tokens(text):
            print("python/spindle/declarations/%s is not what the headers give: run python/declarations.py ." % name)
            print("".join(list(difflib.unified_diff(there.splitlines(True), text.splitlines(True), "there", "headers"))[:20]))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
