#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the captures of the example handlers (handlers/examples), and what is expected of them.

    pcaps/examples/make.py [NAME...]             writes them anew
    pcaps/examples/make.py --check [NAME...]     writes nothing; 1 if one of them differs

Every folder beside this file that has a make.py is an example, and has the name of its handler. That make.py defines

    packets()          the capture: [(nanoseconds, frame)], the same at every call
    expected(packets)  what the handler must make of it, worked out from these frames alone: a dictionary of
                       report: what the report must say of [context NAME] at the least (a dictionary)
                       sent:   what the NIC sends, [(nanoseconds, frame)]; left out: nothing
                       memory: the bytes at the beginning of the context's shared area; left out: it has none

and, where they are needed,

    OPTIONS            more options for `spindle replay`
    WORKERS            True: replayed with two workers too, where which of them has a packet could change something
    rules(t)           more tests, for tests/replay/examples.py, which says there what t is
    CAPTURES           further captures, a dictionary of file name -> [(nanoseconds, frame)]

The rest of the folder: nic.ini is written by hand; in.pcap, expected.pcap, expected.json and expected.bin come from here.
"""

import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import common  # noqa: E402

pk = common.pk


def names():
    return sorted(n for n in os.listdir(HERE) if os.path.exists(os.path.join(HERE, n, "make.py")))


def example(name):
    return common.load("example_" + name.replace("-", "_"), os.path.join(HERE, name, "make.py"))


def capture(packets):
    """The bytes of a capture file."""
    with tempfile.NamedTemporaryFile() as new:
        pk.write_capture(new.name, packets)
        return new.read()


def files(name):
    """File name -> bytes, of one example."""
    module = example(name)
    packets = module.packets()
    expected = module.expected(packets)
    out = {
        "in.pcap": capture(packets),
        "expected.pcap": capture(expected.get("sent", ())),
        "expected.json": (json.dumps({"contexts": {name: expected["report"]}}, indent=2) + "\n").encode(),
    }
    if expected.get("memory") is not None:
        out["expected.bin"] = expected["memory"]
    for more, content in getattr(module, "CAPTURES", {}).items():
        out[more] = capture(content)
    return out


def main():
    check = "--check" in sys.argv[1:]
    chosen = [a for a in sys.argv[1:] if a != "--check"]
    unknown = [n for n in chosen if n not in names()]
    if unknown:
        print(__doc__, file=sys.stderr)
        print("no such example: " + ", ".join(unknown), file=sys.stderr)
        return 2
    status = 0
    for name in chosen or names():
        for file, content in files(name).items():
            path = os.path.join(HERE, name, file)
            if not check:
                with open(path, "wb") as f:
                    f.write(content)
                continue
            try:
                with open(path, "rb") as old:
                    same = old.read() == content
            except FileNotFoundError:
                same = False
            if not same:
                print("%s/%s differs" % (name, file), file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
