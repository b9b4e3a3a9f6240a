#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""licences.py SOURCE: each file says its copyright and its licence, as the REUSE specification has it. TAP.

Program texts carry a line of their own. Data cannot: .reuse/dep5 says where they come from, by more than its `Files: *`."""
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile

import tap

LINE = "SPDX-License-" + "Identifier: "
TEXTS = (".c", ".h", ".py", ".sh", ".lua", ".bash", ".c.in", ".map.in", ".cmake.in", ".service.in")
DATA = (".pcap", ".bin", ".json", ".json.in", ".txt", ".svg", ".abi")
APART = {"LICENSES", "meson_options.txt"}


def tree(root):
    """The source without what is built there: paths below root."""
    for folder, names, files in os.walk(root):
        top = folder == root
        names[:] = [n for n in names if n not in (".git", "__pycache__") and not (top and n.startswith(("build", "figures")))]
        for name in files:
            if not os.path.islink(os.path.join(folder, name)) and name != ".git":
                yield os.path.relpath(os.path.join(folder, name), root)


def is_text(path, head):
    return path.endswith(TEXTS) or head.startswith(b"#!")


def unlicensed(root, files):
    wrong = []
    for path in files:
        with open(os.path.join(root, path), "rb") as f:
            head = f.read(400)
        if is_text(path, head) and LINE.encode() not in head:
            wrong.append("%s: no line '%s...' at its top" % (path, LINE))
    return wrong


def patterns(dep5):
    """Of each Files: field but `*`, the patterns."""
    with open(dep5, encoding="utf-8") as f:
        fields = [line.split(":", 1)[1].split() for line in f if line.startswith("Files:")]
    return [pattern for field in fields for pattern in field if pattern != "*"]


def without_origin(files, known):
    data = [path for path in files if path.endswith(DATA) and path.split("/")[0] not in APART]
    wrong = ["%s: .reuse/dep5 does not say where it comes from" % path for path in data
             if not any(fnmatch.fnmatch(path, pattern) for pattern in known)]
    return wrong + ["%s, in .reuse/dep5, is nothing" % pattern for pattern in known if not fnmatch.filter(files, pattern)]


def reuse(root, files):
    """In a copy, which has nothing but these files, whether or not this is a checkout."""
    with tempfile.TemporaryDirectory() as work:
        for path in files:
            os.makedirs(os.path.join(work, os.path.dirname(path)), exist_ok=True)
            shutil.copyfile(os.path.join(root, path), os.path.join(work, path))
        done = subprocess.run(["reuse", "lint"], cwd=work, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).splitlines()
    return said if done.returncode or "ERROR" in done.stderr else []


def selftest():
    """The checks find what they are for."""
    assert is_text("a/b.c", b"") and is_text("tests/run", b"#!/bin/sh") and not is_text("a.md", b"# A")
    assert without_origin(["pcaps/x/a.pcap", "b.bin"], ["pcaps/*.pcap"]) == ["b.bin: .reuse/dep5 does not say where it comes from"]
    assert without_origin(["a.c"], ["old/*"]) == ["old/*, in .reuse/dep5, is nothing"]


def main():
    root = os.path.abspath(sys.argv[1])
    selftest()
    files = sorted(tree(root))
    results = [("program texts say their licence", unlicensed(root, files)),
               ("data have an origin", without_origin(files, patterns(os.path.join(root, ".reuse", "dep5"))))]
    if shutil.which("reuse"):
        results.append(("reuse lint", reuse(root, files)))
    else:
        results.append(("reuse lint # SKIP reuse is not installed", []))
    return tap.report(results)


if __name__ == "__main__":
    sys.exit(main())
