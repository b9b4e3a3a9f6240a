#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The man pages: each function of an installed header has a page, each name has one, what they refer to is there, and
SYNOPSIS shows the structures of the headers of host, NIC and testbed as these have them."""

import os
import re
import sys

import tap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = os.path.join(ROOT, "docs", "man")
FOLDERS = ("host-api", "pipeline", "testbed")
# Installed headers whose functions have no pages of their own, and why.
WITHOUT_PAGES = {
    "spindle-handler.h": "spindle-handler(7): the header documents every call", "spindle-calls.h": "part of spindle-handler.h",
    "spindle-export.h": "part of spindle-handler.h", "spindle-bpf.h": "spindle-bpf(7) has them all",
    "random.h": "inline, for struct sp_impairment alone",
    **dict.fromkeys(("host.h", "roce.h", "sdr.h of wire", "ec.h", "rvma.h of wire", "rdma.h of wire"),
                    "formats: inline, to put them together and take them apart")}
OURS = re.compile(r"^(spindle|sp_|sdr_|rvma_|sdr$|rvma$|rdma$)")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def structures(text):
    """Name: its definition without comments, a line for each of the header's."""
    found = {}
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S):
        lines = ["    " * (len(line) - len(line.lstrip("\t"))) + " ".join(line.split()) for line in body.splitlines()]
        found[name] = "\n".join(["struct %s {" % name, *(line for line in lines if line.strip()), "};"])
    return found


def functions(text):
    """Names of those that a header declares, or has inline."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'^extern "C" \{$', "", re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M), flags=re.M)
    outside, depth = "", 0
    for c in text:
        depth += (c == "{") - (c == "}")
        outside += ";" if c == "}" and not depth else c if not depth else ""
    for declaration in outside.split(";"):
        words = re.match(r"\s*((?:\w+[\s*]+)+)(\w+)\(", declaration.replace("{", ""))
        if words and not re.match(r"typedef|extern .*\(\*", words[1]) and words[2] != "static_assert":
            yield words[2]


def installed():
    """Header, its text: of those that meson installs."""
    for folder, _, files in os.walk(ROOT):
        if "meson.build" not in files or os.path.relpath(folder, ROOT).split(os.sep)[0] not in (*FOLDERS, "handlers"):
            continue
        for call in re.findall(r"^ *install_headers\((.*?)\)$", read(os.path.join(folder, "meson.build")), re.M | re.S):
            for header in re.findall(r"'([^']+\.h)'", call):
                name = os.path.basename(header)
                of_wire = os.path.dirname(header) == "wire" and os.path.exists(os.path.join(ROOT, "host-api", name))
                yield name + (" of wire" if of_wire else ""), read(os.path.join(folder, header))


def headers():
    """Name: (structures, those of the headers that it includes)."""
    texts = {}
    for folder in FOLDERS:
        for name in os.listdir(os.path.join(ROOT, folder)):
            if name.endswith(".h"):
                texts[name] = read(os.path.join(ROOT, folder, name))
    known = {name: structures(text) for name, text in texts.items()}
    included = {name: re.findall(r'^#include "(?:\.\./[\w-]+/)?(\w+\.h)"', text, re.M) for name, text in texts.items()}
    return {name: (known[name], {s: text for other in included[name] for s, text in known.get(other, {}).items()})
            for name in known}


def own_names(page):
    return re.findall(r"^\.Nm (\S+)", page.partition("\n.Nd ")[0], re.M)


def synopsis(page):
    at = re.search(r"^\.Sh SYNOPSIS\n(.*?)^\.Sh ", page, re.M | re.S)
    return at[1] if at else ""


def wanted(page, known):
    """The structures that the page's calls take or fill in, and those that these have as members: name, definition,
    whether of a header that the page's own one includes."""
    named = set(re.findall(r"struct (\w+)\b(?! \{)", synopsis(page)))
    for header in re.findall(r"^\.In (\S+)$", page, re.M):
        for foreign, found in enumerate(known.get(header, ())):
            yield from ((name, text, foreign) for name, text in found.items() if name in named)


def shown(page, named, known):
    """Of a page: name, whether it is shown there; if it is another header's, on this page or on one that it refers to."""
    others = [named[to] for to in map(".".join, re.findall(r"^\.Xr (\S+) (\d)", page, re.M)) if to in named]
    for name, text, foreign in wanted(page, known):
        yield name, any(text in synopsis(one) for one in [page, *(others if foreign else [])])


def main():
    pages = {n: read(os.path.join(PAGES, n)) for n in sorted(os.listdir(PAGES))}
    names = ["%s.%s" % (name, n[-1]) for n in pages for name in own_names(pages[n])]
    named = {"%s.%s" % (name, n[-1]): page for n, page in pages.items() for name in own_names(page)}
    known = headers()
    there = [("%s: struct %s" % (n, name), yes) for n in pages if n.endswith(".3") for name, yes in shown(pages[n], named, known)]
    declared = [(header, name) for header, text in installed() if header not in WITHOUT_PAGES for name in functions(text)]
    return tap.report([
        # A file of another name, be it a link or `.so`, does not survive each way that a tree is handed on: docs/pages.sh.
        ("each_page_has_its_file's_name", [n for n in pages if n[:-2] not in own_names(pages[n])]),
        ("no_name_has_two_pages", [name for name in set(names) if names.count(name) > 1]),
        ("pages_that_are_referred_to_are_there", [
            "%s: %s(%s)" % (n, to, section) for n, text in pages.items()
            for to, section in re.findall(r"^\.Xr (\S+) (\d)", text, re.M)
            if OURS.match(to) and "%s.%s" % (to, section) not in names]),
        ("synopsis_shows_the_structures_that_calls_take", [what for what, yes in there if not yes]),
        ("each_function_of_an_installed_header_has_a_page", [
            "%s: %s" % (header, name) for header, name in declared if name + ".3" not in names]),
        ("headers_without_pages_are_installed", sorted(set(WITHOUT_PAGES) - {header for header, _ in installed()})),
        ("there_are_pages_and_structures_to_look_at",
         [] if len(names) > 200 and len(pages) > 40 and len(there) > 50 and len(declared) > 200 else [
             "%d names, %d pages, %d structures, %d functions" % (len(names), len(pages), len(there), len(declared))])])


if __name__ == "__main__":
    sys.exit(main())
