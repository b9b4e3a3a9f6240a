#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/packet.md names functions and their files: they are there, called, and all drop reasons stand on the page."""

import os
import re
import sys

import tap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STEP = re.compile(r"`(\w+)\(\)` —\s+`([\w/.-]+)`")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def defines(text, function):
    """Whether the file has that function's body: its name begins no call, and what follows its parameters is a brace."""
    return re.search(r"^(?![\s#/*]).*\b%s\([^;{]*\)\n\{" % function, text, re.M) is not None


def main():
    page = read("docs", "packet.md")
    steps = STEP.findall(page)
    sources = {}
    for top in ("pipeline", "handlers"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for path in (os.path.relpath(os.path.join(folder, name), ROOT) for name in names if name.endswith((".c", ".h"))):
                sources[path] = read(path)
    named = set(re.findall(r"`(sp_\w+)\(\)`", page)) | {function for function, _ in steps}
    drop = next(text for path, text in sources.items() if os.path.basename(path) == "drop.h")
    reasons = re.findall(r'X\(\w+, "([\w-]+)"\)', drop)
    return tap.report([
        ("the_page_has_steps_both_ways", [] if len(steps) > 30 else ["%d steps" % len(steps)]),
        ("each_file_is_there", [path for _, path in steps if path not in sources]),
        ("each_function_is_defined_in_its_file", [
            "%s() is not in %s" % (function, path) for function, path in steps
            if path in sources and not defines(sources[path], function)]),
        ("each_function_named_is_called", [
            "%s() is called nowhere" % function for function in sorted(named)
            if sum(len(re.findall(r"^[\t ].*\b%s\b" % function, text, re.M)) for text in sources.values()) < 1]),
        ("each_file_named_is_there", [path for path in re.findall(r"`((?:pipeline|tests)/[\w/.-]+\.\w+)`", page)
                                      if not os.path.exists(os.path.join(ROOT, path))]),
        ("each_drop_reason_is_on_the_page",
         [reason for reason in reasons if "`%s`" % reason not in page] + ([] if len(reasons) > 20 else ["drop.h?"]))])


if __name__ == "__main__":
    sys.exit(main())
