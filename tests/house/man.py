#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The man pages: other names of a page are links to it, what they refer to is there, and SYNOPSIS shows the structures of
the host's headers as these have them."""

import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = os.path.join(ROOT, "docs", "man")
HEADERS = os.path.join(ROOT, "host-api")
OURS = re.compile(r"^(spindle|sp_|sdr_|rvma_|sdr$|rvma$|rdma$)")
failed = 0


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def structures(text):
    """Name: its definition without comments, a line for each of the header's."""
    found = {}
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S):
        lines = ["    " * (len(line) - len(line.lstrip("\t"))) + " ".join(line.split()) for line in body.splitlines()]
        found[name] = ["struct %s {" % name, *(line for line in lines if line.strip()), "};"]
    return found


def synopsis(page):
    at = re.search(r"^\.Sh SYNOPSIS\n(.*?)^\.Sh ", page, re.M | re.S)
    return at[1] if at else ""


def wanted(page, known):
    """The structures of the page's headers that its calls take or fill in: name, definition."""
    near = {}
    for header in re.findall(r"^\.In (\S+)$", page, re.M):
        near.update(known.get(header, {}))
    return [(name, near[name]) for name in dict.fromkeys(re.findall(r"struct (\w+) \*", synopsis(page))) if name in near]


def rule(number, name, wrong):
    global failed
    failed += bool(wrong)
    print("%sok %d - %s" % ("not " if wrong else "", number, name))
    for line in wrong:
        print("# " + line)


def main():
    names = sorted(os.listdir(PAGES))
    links = {n: os.readlink(os.path.join(PAGES, n)) for n in names if os.path.islink(os.path.join(PAGES, n))}
    pages = {n: read(os.path.join(PAGES, n)) for n in names if n not in links}
    known = {h: structures(read(os.path.join(HEADERS, h))) for h in os.listdir(HEADERS) if h.endswith(".h")}
    shown = [(n, name, text) for n in pages if n.endswith(".3") for name, text in wanted(pages[n], known)]
    print("1..4")
    rule(1, "another_name_of_a_page_is_a_link_to_it", [n for n in pages if re.search(r"^\.so ", pages[n], re.M)] + [
        "%s -> %s" % (n, to) for n, to in links.items()
        if to not in pages or not re.search(r"^\.Nm %s\b" % re.escape(n.rsplit(".", 1)[0]), pages[to], re.M)])
    rule(2, "pages_that_are_referred_to_are_there", [
        "%s: %s(%s)" % (n, to, section) for n, text in pages.items()
        for to, section in re.findall(r"^\.Xr (\S+) (\d)", text, re.M) if OURS.match(to) and "%s.%s" % (to, section) not in names])
    rule(3, "synopsis_shows_the_structures_that_calls_take", [
        "%s: struct %s" % (n, name) for n, name, text in shown if "\n".join(text) not in synopsis(pages[n])])
    rule(4, "there_are_pages_and_structures_to_look_at", [] if len(links) > 100 and len(pages) > 40 and len(shown) > 20 else [
        "%d links, %d pages, %d structures" % (len(links), len(pages), len(shown))])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
