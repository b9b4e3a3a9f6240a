#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""verbs_symbols.py LIBRARY...: our libibverbs.so.1 and librdmacm.so.1 export all that Debian's do: each name in the same
version, default or hidden, function or variable. TAP. Debian's are in verbs_symbols.txt; what is installed is read too."""
import os
import subprocess
import sys

import tap

STORED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "verbs_symbols.txt")
INSTALLED = "/usr/lib/x86_64-linux-gnu"
# The names of verbs_register_driver and of its node change with rdma-core's private version.
NUMBERS = ("34", "57", "64")


def exported(library):
    text = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in text.splitlines())
    return {(row[3], row[7]) for row in rows if len(row) > 7 and row[6] != "UND" and "@" in row[7]}


def stored():
    lists, at = {}, None
    with open(STORED, encoding="utf-8") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if len(words) == 1:
                at = lists.setdefault(words[0], set())
            elif words:
                at.add(tuple(words))
    return lists


def missing(wanted, ours):
    return ["%s %s" % symbol for symbol in sorted(wanted - ours)]


def private(wanted, ours, number):
    """Names of private nodes, whatever the number."""
    plain = {name.split("@")[0].replace("_34", "_" + number) for _, name in wanted if "IBVERBS_PRIVATE_34" in name}
    there = {name.split("@")[0] for _, name in ours if name.endswith("@IBVERBS_PRIVATE_" + number)}
    return sorted(plain - there) + ([] if plain else ["no such names"])


def main():
    lists, results = stored(), []
    for library in sys.argv[1:]:
        name, ours = os.path.basename(library), exported(library)
        wanted = lists[name]
        results.append((name + " exports what Debian 12's does", missing(wanted, ours) if wanted else ["no list"]))
        debian = os.path.join(INSTALLED, name)
        if os.path.exists(debian):
            results.append((name + " exports what the installed one does", missing(exported(debian), ours)))
        else:
            results.append((name + " exports what the installed one does # SKIP it is not installed", []))
        if name.startswith("libibverbs"):
            for number in NUMBERS:
                results.append(("private names of version " + number, private(wanted, ours, number)))
    return tap.report(results, "not there: ")


if __name__ == "__main__":
    sys.exit(main())
