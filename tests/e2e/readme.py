#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""readme.py SOURCE BUILD: README.md and pages of docs/ followed literally in one clone, and what ./quickstart says to try
next. TAP. The blocks: follow.py."""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import follow  # noqa: E402

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
INTERFACES = follow.own_network()
FOLLOWER = follow.Follower(SOURCE, BUILD)
SAID = {}  # what the first block of a page said
RULES = []


def rule(function):
    RULES.append(function)
    return function


def follows(page, least, *first):
    """first: folders of programs that come before all others."""
    path = FOLLOWER.environment["PATH"]
    FOLLOWER.directory = FOLLOWER.clone
    FOLLOWER.environment["PATH"] = ":".join((*first, path))
    todo = follow.blocks(SOURCE, page)
    assert len(todo) >= least, "only %d blocks" % len(todo)
    for block in todo:
        FOLLOWER.follow(block)
        SAID.setdefault(page, FOLLOWER.said)
    if first:
        FOLLOWER.environment["PATH"] = path
    assert not FOLLOWER.terminals, "%s: still runs" % FOLLOWER.terminals[0].block


@rule
def the_readme_is_followed_to_its_end():
    follows("README.md", 12)


@rule
def each_line_that_quickstart_says_to_try_next_works():
    lines = re.findall(r"^  (build/spindle .*?)(?:  +.*)?$", SAID["README.md"], re.M)
    assert len(lines) == 3, SAID["README.md"][-1000:]
    for line in lines:
        run = subprocess.run(["bash", "-c", line], cwd=FOLLOWER.clone, env=FOLLOWER.environment, capture_output=True,
                             text=True, timeout=300)
        assert run.returncode == 0 or ("doctor" in line and run.returncode == 1), "%s: %s" % (line, run.stderr[-1000:])
        assert run.stdout, line


@rule
def pages_on_reliability_rvma_and_ports_are_followed_to_their_ends():
    if not INTERFACES:
        raise follow.Skip("needs root, and network namespaces")
    FOLLOWER.tool("sudo", '#!/bin/sh\nexec "$@"\n')
    for page, least in (("docs/reliability.md", 8), ("docs/rvma.md", 2), ("docs/ports.md", 5)):
        follows(page, least, os.path.join(FOLLOWER.work, "tools"))


@rule
def the_page_on_ebpf_is_followed_to_its_end():
    follows("docs/ebpf.md", 8, BUILD)  # it has the objects that clang made, if it was there


@rule
def pages_on_devices_and_networks_are_followed_to_their_ends():
    follows("docs/devices.md", 1, BUILD)
    follows("docs/networks.md", 1, BUILD)


@rule
def the_page_on_packages_is_followed_but_for_what_takes_long():
    follows("docs/packaging.md", 5)


@rule
def the_page_on_verbs_programs_is_followed_to_its_end():
    if not shutil.which("ib_write_bw") or not os.path.isdir(os.path.join(BUILD, "host-api", "verbs")):
        raise follow.Skip("needs perftest, and a build with verbs")
    # What was installed has the tested build's objects, whose libraries are elsewhere.
    follows("docs/verbs.md", 6, os.path.join(FOLLOWER.clone, "build"))


@rule
def the_tour_is_followed_to_its_end():
    follows("docs/tour.md", 15)


@rule
def the_readme_has_at_most_150_lines_and_names_each_page_of_docs():
    with open(os.path.join(SOURCE, "README.md")) as f:
        text = f.read()
    assert text.count("\n") <= 150
    pages = [name for name in os.listdir(os.path.join(SOURCE, "docs")) if name.endswith(".md")]
    assert pages and all("`docs/%s`" % name in text for name in pages), [n for n in pages if "`docs/%s`" % n not in text]


sys.exit(follow.main(RULES, FOLLOWER))
