#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle bench --path`: each step of a message from program to program is found, in both NICs' captures and in what
the programs say. How long a step takes is not tested."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import rule  # noqa: E402


def path(*arguments, status=0):
    with tempfile.TemporaryDirectory(prefix="spindle-e2e-") as place:
        done = subprocess.run([net.SPINDLE, "bench", "--path", "--quick", *arguments], capture_output=True, text=True, timeout=600,
                              env=dict(os.environ, TMPDIR=place, XDG_RUNTIME_DIR=place), preexec_fn=net.die_with_parent)
        assert done.returncode == status, (done.returncode, done.stderr[-2000:])
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr[-3000:]
        left = [os.path.join(at, name) for at, dirs, files in os.walk(place) for name in dirs + files if name != "dpdk"]
        assert not left, left
        return done.stdout


@rule
def each_step_is_found_through_one_nic_and_through_two():
    cases = json.loads(path("--json"))["path"]
    assert [c["name"] for c in cases] == [way + "-" + wait for way in ("one", "vhost") for wait in ("polling", "sleeping", "rested")], cases
    for case in cases:
        two = case["name"].startswith("vhost")
        median = {s["name"]: s["median_ns"] for s in case["steps"]}
        assert list(median) == ["whole", "round", "built"] + ["sent", "polled"] * two + ["placed", "woken", "seen"], case
        assert all(s["p99_ns"] >= s["median_ns"] >= 0 for s in case["steps"]) and case["messages"] == 8, case
        # The NICs' own work takes time; waiting may take none. No step takes longer than the whole.
        assert median["built"] > 0 and median["placed"] > 0 and max(median.values()) == median["whole"], case
        assert [p["name"] for p in case["processes"]] == ["sender", "receiver", "its NIC", "the other NIC"][:3 + two], case
        assert all(p["processor_s"] > 0 for p in case["processes"]), case
        if case["name"].endswith("rested"):  # the sender has slept before each message
            assert case["processes"][0]["voluntary"] >= 8, case


@rule
def a_filter_chooses_cases_and_none_is_an_error():
    out = path("--filter", "one-sleeping")
    assert "one-sleeping: " in out and "one-polling" not in out and "vhost" not in out, out
    assert [line.split()[0] for line in out.splitlines() if "%  " in line] == ["round", "built", "placed", "woken", "seen", "whole"], out
    report = json.loads(path("--filter", "there-is-no-such-case", "--json", status=1))
    assert report["path"] is None and "no case matches" in report["failed"], report


if __name__ == "__main__":
    net.main()
