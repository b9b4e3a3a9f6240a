#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The commands that documents and man pages show: the subcommand exists, and has each option by its whole name. (README.md
and docs/tour.md are run as they stand by e2e/readme, docs/handlers.md by e2e/guide.)"""

import os
import re
import sys
from functools import lru_cache

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
from replay import equal, main, rule  # noqa: E402

SOURCE = os.path.join(HERE, "..", "..")
WORD = r"[^\s`|;&<>()]+"


def pages(folder, ending):
    folder = os.path.join(SOURCE, folder)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if re.search(ending, name)]


def commands(path):
    """(line, words behind `spindle`) of what this page has in blocks, indented or fenced, and between backticks."""
    with open(path) as f:
        text = re.sub(r"\\\n", " \v", f.read())  # one line; \v counts as its end
    for m in re.finditer(r"(?:^|[`\s(/])spindle((?: +%s)+)" % WORD, text):
        line = len(re.findall("[\n\v]", text[:m.start(1)])) + 1
        start = text.rfind("\n", 0, m.start()) + 1
        inline = text[start:m.start(1)].count("`") % 2 == 1
        block = text[start:].startswith("    ") or fenced(text, start)
        words = m.group(1).split()
        if inline or block:
            yield line, words


def fenced(text, at):
    """Within a fence, of a program's text or of what it says neither."""
    fences = re.findall(r"^```(.*)", text[:at], re.M)
    return len(fences) % 2 == 1 and fences[-1].partition(" ")[0] in ("", "sh", "text")


@lru_cache(maxsize=None)
def options(run, *words):
    """{names} that the command has, None where there is no such command."""
    process = run.command(*words, "--options")
    if process.returncode:
        return None
    names = set()
    for row in process.stdout.splitlines():
        letter, name, *_ = row.split("\t")
        names |= {"-" + letter} if letter else set()
        names |= {"--" + name} if name else set()
    return names


def wrong(run, words):
    """What is wrong with this command, or None."""
    name, rest = words[0], words[1:]
    if name == "help" or name.startswith("-") or not re.fullmatch("[a-z]+", name):
        return None  # spindle --version; prose
    known = options(run, name)
    if known is None and rest:
        known = options(run, name, rest[0])
    if known is None:
        return "there is no subcommand"
    if rest and re.fullmatch("[a-z]+", rest[0]):
        # sim goal has others with a network
        more = ("--topology", "star:1") if (name, rest[0]) == ("sim", "goal") and "--topology" in rest else ()
        known = known | (options(run, name, rest[0], *more) or set())
    for word in rest:
        if word == "--":
            break
        word = word.strip("'\",.:)").partition("=")[0]
        if re.fullmatch("--[a-z][a-z0-9-]*", word) and word not in known | {"--help"}:
            return "it has no option " + word
    return None


@rule("of docs/, README.md and CONTRIBUTING.md")
def documents(run):
    seen, bad = 0, []
    for path in pages("docs", r"\.md$") + pages(".", r"^(README|CONTRIBUTING|SECURITY)\.md$") + pages("pcaps", r"^README"):
        for line, words in commands(path):
            seen += 1
            why = wrong(run, words)
            if why:
                bad.append("%s:%d: spindle %s: %s" % (os.path.relpath(path, SOURCE), line, " ".join(words), why))
    assert seen > 100, seen
    equal(bad, [])


@rule("what does not exist is found")
def found(run):
    equal(wrong(run, ["run", "--no-such"]), "it has no option --no-such")
    equal(wrong(run, ["rvma", "listen", "--qp", "7"]), "it has no option --qp")
    equal(wrong(run, ["rnu", "-c", "nic.ini"]), "there is no subcommand")
    equal(wrong(run, ["rvma", "listen", "--qpn", "7"]), None)


if __name__ == "__main__":
    main()
