#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Our own handlers over the captures of pcaps/, against what is expected there: expected.py SPINDLE. TAP."""

import json
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PCAPS = os.path.join(HERE, "..", "..", "pcaps")
sys.path[:0] = [PCAPS, os.path.join(HERE, "..", "tools")]
import make  # noqa: E402
from replay import Skip, main, rule  # noqa: E402

# capture, configuration, contexts with host memory: context -> what eight buffers of it hold
TABLE = [
    ("udp-flows", "count", {}),
    ("udp-echo", "echo", {}),
    ("arp-nd-echo", "echo", {}),
    ("sdr-lossy", "sdr", {"sdr": "sdr-lossy"}),
    ("ec-lossy", "ec", {"sdr": "ec-lossy"}),  # what was lost is repaired
    ("rvma", "rvma", {"rvma": "rvma", "append": "rvma-append"}),
    ("mixed", "mixed", {"sdr": "sdr-lossy"}),  # three handlers at once
]
CHANGES = 2  # of each expectation


def pcaps(*name):
    return os.path.join(PCAPS, *name)


def expectations(name, memory):
    """What there is for a capture: option -> file; the options for memory have the context behind them."""
    found = {"--expect-json": pcaps(name + "-expected.json")}
    if os.path.exists(pcaps(name + "-expected.pcap")):
        found["--expect"] = pcaps(name + "-expected.pcap")
    for context, file in memory.items():
        found["--expect-memory " + context] = pcaps(file + "-expected.bin")
    return found


def replay(run, name, config, memory, expected, status):
    """The words on standard error, by option."""
    options = [word for context in memory for word in ("--post", context + "=8")]
    for option, file in expected.items():
        option, *context = option.split()
        options += [option, "=".join(context + [file])]
    process = run.command("replay", "-c", pcaps(config + ".ini"), *options, pcaps(name + ".pcap"))
    assert process.returncode == status, "%s: exit status %d, not %d: %s" % (name, process.returncode, status, process.stderr)
    said = {option: [] for option in expected}
    for line in process.stderr.splitlines():
        words = line[len("spindle replay: "):]
        option = next(o for o, file in expected.items() if words.startswith("%s %s: " % (o.split()[0], file)))
        said[option].append(words)
    return said


@rule("captures and expectations are what make.py makes")
def made(run):
    subprocess.run([sys.executable, pcaps("make.py"), "--check"], check=True)


def meets(name, config, memory):
    def check(run):
        expected = expectations(name, memory)
        said = replay(run, name, config, memory, expected, 0)
        assert not any(said.values()), said
    return check


for row in TABLE:
    rule("%s through %s.ini gives what is expected of it" % row[:2])(meets(*row))


# ---- a changed expectation -----------------------------------------------------------------------------------------------

def change_capture(rng, data, context):
    """Changes a bit of a packet; returns the number of that packet."""
    at, number, packets = 24, 0, []
    while at < len(data):
        size = int.from_bytes(data[at + 8:at + 12], "little")
        number += 1
        packets.append((number, at + 16, size))
        at += 16 + size
    number, at, size = rng.choice(packets)
    data[at + rng.randrange(size)] ^= 1 << rng.randrange(8)
    return "packet %d: " % number


def leaves(value, path=""):
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, path + "." + name if path else name)
            if not isinstance(part, (dict, list)):
                yield value, name, path + "." + name if path else name
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from leaves(part, "%s[%d]" % (path, i))


def change_report(rng, data, context):
    """Changes one value; returns its path."""
    tree = json.loads(data)
    holder, name, path = rng.choice(list(leaves(tree)))
    value = holder[name]
    holder[name] = (not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else
                    "none" if value is None else value + "x")
    data[:] = json.dumps(tree).encode()
    return path + ": expected "


def change_memory(rng, data, context):
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    return "context %s, offset 0x%x: " % (context, at)


CHANGE = {"--expect": change_capture, "--expect-json": change_report, "--expect-memory": change_memory}


def fails(name, config, memory):
    def check(run):
        rng = random.Random(name)
        for _ in range(CHANGES):
            changed, want = {}, {}
            for option, file in expectations(name, memory).items():
                with open(file, "rb") as f:
                    data = bytearray(f.read())
                kind, _, context = option.partition(" ")
                want[option] = CHANGE[kind](rng, data, context)
                changed[option] = run.write("changed" + option, bytes(data))
            said = replay(run, name, config, memory, changed, 3)
            for option, words in want.items():
                assert any(words in line for line in said[option]), "%s: %r is not said: %s" % (option, words, said[option])
                # the difference and the count; a bit of a capture's packet is one field
                assert len(said[option]) == 2 and said[option][1].endswith(": 1 difference"), said[option]
    return check


for row in TABLE:
    rule("%s: one thing changed in each expectation fails, and it is said where" % row[0])(fails(*row))


# ---- captures of other stacks --------------------------------------------------------------------------------------------

@rule("captures of Soft-RoCE: every flow, packet and byte is counted, none dropped")
def other_stacks(run):
    captures = make.soft_roce_captures()
    if not captures:
        raise Skip("no captures of other stacks: SPINDLE_SHARED_PCAPS names none")
    for capture in captures:
        name = os.path.basename(capture)[:-len(".pcap")]
        file = pcaps("soft-roce", name + "-expected.json")
        if not os.path.exists(file):
            continue
        process = run.command("replay", "-c", pcaps("count.ini"), "--expect-json", file, capture)
        assert process.returncode == 0 and not process.stderr, "%s: %s" % (name, process.stderr)


if __name__ == "__main__":
    main()
