#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command line: what is wrong with it is named, and a report that cannot be written is a failure."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

MISUSE = [
    (("handler", "--bogus"), "unknown option --bogus"),
    (("handler", "--json", "-xh"), "unknown option -x"),
    (("handler", "--json=1", "list"), "takes no value: --json=1"),
    (("handler", "list", "x"), "extra argument x"),
    (("handler", "show", "sdr", "x"), "extra argument x"),
    (("handler", "show"), "name is missing after show"),
    (("doctor", "--bogus"), "unknown option --bogus"),
    (("doctor", "-c"), "a value is missing after -c"),
    (("doctor", "x"), "extra argument x"),
    (("bench", "--bogus"), "unknown option --bogus"),
    (("bench", "x"), "extra argument x"),
    (("bench", "--icrc", "maybe"), "not maybe"),
    (("bench", "--rounds", "3x", "--seconds", "1"), "--rounds must be 1 to 101, not 3x"),
    (("bench", "--rounds", "102"), "--rounds must be 1 to 101, not 102"),
    (("bench", "--rounds", "-1"), "--rounds must be 1 to 101, not -1"),
    (("bench", "--rounds", "4294967297"), "--rounds must be 1 to 101, not 4294967297"),
    (("bench", "--seconds", "0"), "--seconds must be more than 0 and at most 60, not 0"),
    (("bench", "--seconds", "nan"), "--seconds must be more than 0 and at most 60, not nan"),
    (("bench", "--seconds", ""), "--seconds must be more than 0 and at most 60, not "),
]
PRINTING = [("help",), ("help", "bench"), ("--version",), ("handler", "list"), ("handler", "show", "sdr", "--json"),
            ("bench", "--help"), ("doctor", "--help")]


@rule("wrong usage is named in one line before the usage, exit status 2")
def wrong_usage(run):
    for arguments, words in MISUSE:
        process = run.command(*arguments)
        lines = process.stderr.splitlines()
        equal(process.returncode, 2, arguments)
        assert lines[0].startswith("spindle %s: " % arguments[0]) and words in lines[0], process.stderr
        assert lines[1].startswith("usage:") and not process.stdout, process.stderr


@rule("a standard output that fails is reported, exit status 1")
def failing_output(run):
    for arguments in PRINTING:
        for closed in (False, True):
            with open("/dev/full", "w") as full:
                process = subprocess.run([run.spindle, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                         timeout=60, preexec_fn=(lambda: os.close(1)) if closed else None)
            equal(process.returncode, 1, arguments)
            assert "spindle %s: standard output: " % arguments[0] in process.stderr, process.stderr


@rule("bench: a filter without a case prints no table")
def no_case(run):
    process = run.command("bench", "--filter", "no such case")
    equal((process.returncode, process.stdout), (1, ""))
    assert "no case matches" in process.stderr, process.stderr


@rule("doctor reports a device that EAL did not make, and no other")
def device_not_made(run):
    for eal, said in ((["--vdev=net_pcap0,rx_pcap=/nonexistent.pcap"], True),
                      (["--vdev", "net_pcap0,rx_pcap=/nonexistent.pcap"], True), (["--vdev", "net_null0"], False)):
        process = run.command("doctor", "--", *eal)
        equal("device net_pcap0 was not made" in process.stdout, said, process.stdout + process.stderr)
        equal(process.returncode, 1 if said else 0, process.stdout + process.stderr)
        assert ("1 problem\n" if said else "0 problems\n") in process.stdout, process.stdout


if __name__ == "__main__":
    main()
