#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""testbed/experiments/performance: what `spindle bench` has said gets into the page, also of cases that failed or were skipped, and
what stood there before does not stay. A stand-in for the command says it, as the command's own figures are never the same."""

import functools
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERIMENTS = os.path.join(HERE, "..", "..", "testbed", "experiments")
sys.path[:0] = [os.path.join(HERE, "..", "tools"), EXPERIMENTS]
sys.dont_write_bytecode = True
import speed_page  # noqa: E402
from replay import Skip, equal, main, rule  # noqa: E402

STAND_IN = """#!%s
import json, sys
with open(%r) as f:
    said = json.load(f)
option = dict(zip(sys.argv, sys.argv[1:]))
if "--parts" in sys.argv:
    answer, cases = said["parts"], None
else:
    asked = option["--filter"].split(",")
    answer, cases = {}, [c for c in said["cases"] if any(a in c["name"] for a in asked)]
status = 1 if answer.get("failed") or any(c["failed"] for c in cases or ()) else 0
json.dump({**said["machine"], "cases": cases, **answer, "complete": not said["cut"]}, sys.stdout)
if said["cut"]:
    sys.stderr.write("spindle bench: no words of JSON\\n")
sys.exit(status)
"""
PAGE = "Words before.\n%sWords after.\n" % "".join(
    "<!-- begin: %s -->\nwhat was there\n<!-- end: %s -->\nBetween.\n" % (name, name)
    for name in [*speed_page.TABLES, *("plot " + name for name in speed_page.PLOTS)]
)


def case(name, **more):
    made = {
        "name": name, "value": 100.0, "best": 99.0, "unit": "cycles/packet", "baseline": "the port", "baseline_value": 50.0,
        "baseline_skipped": None, "ratio": 0.5, "spread": 0.01, "baseline_spread": 0.01, "required": None, "goal": None, "meets": None,
        "noisy": False, "skipped": None, "failed": None, "threads": 1, "oversubscribed": False, "others": [],
        "packets_per_second": 2.7e7, "paper_threads": None, "p99": None, "slice_us": None,
    }  # fmt: skip
    made.update(more)
    if made["skipped"] or made["failed"]:
        gone = "value", "best", "baseline_value", "ratio", "spread", "baseline_spread", "meets", "packets_per_second"
        made.update(dict.fromkeys(gone))
    return made


CASES = [
    case("sdr-receive-64, ICRC off", required=0.42, goal=0.6, meets=True),
    case("sdr-receive-64, ICRC on", required=0.32, goal=0.48, failed="7 duplicates: not what | was to be measured"),
    case("sdr-receive-4096, ICRC off"),
    case("sdr-polled-64, ICRC off", skipped="there is one processor, two are needed"),
    case("sdr-workers-64, ICRC off", required=0.9, meets=False),
    case("null, ICRC off", failed="DPDK does not start"),
    case("qps-1, ICRC off"),
    case("qps-1000, ICRC off"),
    case("memory-qp", unit="bytes", baseline=None, ratio=None, baseline_value=None),
    case("memory-nic", unit="bytes", baseline=None, failed="a child has ended too soon"),
    case("virtual-bits-carried", unit="Gbit/s", baseline=None, ratio=None, baseline_value=None),
    case("ec-encode-4-2-4K", unit="GB/s", required=0.95, goal=1.2, ratio=2.0, meets=True),
    case("ec-encode-4-2-4K-warm", unit="GB/s", required=0.95, goal=2.0, failed="the chunks are not what ISA-L makes of them"),
    case("file-veth", unit="MB/s", skipped="no network namespace"),
]
QUIET = {"load": 0.1, "others": 0.0, "stolen": 0.0, "noisy": False}
MACHINE = {
    "cpu": "a processor", "processors": 2, "tsc_hz": 2.7e9, "dpdk": "DPDK", "flags": "flags", "pages": "no huge pages", "noise": QUIET,
}  # fmt: skip
PARTS = {"of": "a case", "parts": [{"name": "receive", "help": "a burst", "cycles": 120.0}], "sum": 120.0, "whole": 100.0, "adds_up": False}


def performance(run, *arguments, cases=None, parts=None, cut=False, expect=1, times=1):
    """The page's text, the plots beside it and what was said; made so often of the same results."""
    if not shutil.which("gnuplot"):
        raise Skip("gnuplot is not installed")
    run.runs += 1
    out = run.path("performance%d" % run.runs)
    os.mkdir(out)
    said = {"cases": CASES if cases is None else cases, "machine": MACHINE, "parts": parts or {"parts": PARTS, "failed": None}, "cut": cut}
    file = run.write("said%d.json" % run.runs, json.dumps(said))
    spindle = run.write("stand-in%d" % run.runs, STAND_IN % (sys.executable, file))
    os.chmod(spindle, 0o755)
    page = run.write("page%d.md" % run.runs, PAGE)
    command = [os.path.join(EXPERIMENTS, "performance"), "--out", out, "--docs", "--page", page, "--spindle", spindle, *arguments]
    texts = []
    for _ in range(times):
        process = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)
        equal(process.returncode, expect, process.stderr)
        folder, files = os.path.splitext(page)[0], {}
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name), "rb") as f:
                files[name] = f.read()
        with open(page) as f:
            texts.append((f.read(), files))
    equal(texts[-1], texts[0], "made a second time of the same results")
    return texts[0][0], texts[0][1], process.stderr


@functools.lru_cache(maxsize=None)
def usual(run):
    """performance() of CASES and PARTS, which several rules look at; twice, for one of them."""
    return performance(run, times=2)


def part(page, name):
    return page.split("<!-- begin: %s -->\n" % name)[1].split("\n<!-- end: %s -->" % name)[0]


def row(page, name, *begin):
    """The cells of the row that begins so."""
    rows = [[cell.strip() for cell in line.replace("\\|", "&").split("|")[1:-1]] for line in part(page, name).splitlines()]
    assert len({len(cells) for cells in rows if cells}) == 1, (name, rows)
    found = [cells for cells in rows if tuple(cells[: len(begin)]) == begin]
    equal(len(found), 1, "rows of %s that begin with %s: %s" % (name, begin, rows))
    return found[0]


# ---- rules -----------------------------------------------------------------------------------------------------------------


@rule("the page is the same when it is made a second time; words stay, what was measured before does not")
def twice(run):
    page, files, _ = usual(run)
    assert page.startswith("Words before.\n") and page.endswith("Words after.\n") and page.count("\nBetween.\n") == PAGE.count("Between."), page
    assert "what was there" not in page, page
    equal(sorted(files), ["growth.svg", "parts.svg", "ratios.svg"])
    assert part(page, "plot ratios").startswith("![Ratios that are required](page%d/ratios.svg" % run.runs), part(page, "plot ratios")
    equal(part(page, "plot codes"), "(not measured)", "codes of 64 KiB")
    for title in (b"message size", b"chunk size", b"messages in flight", b"workers on the same messages", b"QPs", b"loss"):
        assert title in files["growth.svg"], title


@rule("what a plot's points are not to be had of is not in it, and what failed of it is told")
def fewer_points(run):
    lost = {"sdr-workers-64, ICRC off": {"skipped": "one processor"}, "virtual-bits-carried": {"failed": "no time"}}
    cases = [case(c["name"], **lost[c["name"]]) if c["name"] in lost else c for c in CASES]
    page, files, said = performance(run, cases=cases)
    assert b"messages in flight" in files["growth.svg"], "the others"
    for title in (b"workers on the same messages", b"loss: both ends"):
        assert title not in files["growth.svg"], title
    assert said.count("virtual-bits-carried --loss") == 5 and "one processor" not in said, said
    equal(row(page, "sdr", "sdr-workers-64", "off")[2], "skipped: one processor")


@rule("a case that failed, or was skipped, is in its table with the reason; the others have their figures")
def without_figures(run):
    page, _, said = usual(run)
    equal(row(page, "sdr", "sdr-receive-64", "off")[2], "100.0")
    equal(row(page, "sdr", "sdr-receive-64", "on")[2], "**failed**: 7 duplicates: not what & was to be measured")
    equal(row(page, "sdr", "sdr-polled-64", "off")[2], "skipped: there is one processor, two are needed")
    equal(row(page, "engine", "null", "off")[2], "**failed**: DPDK does not start")
    equal(row(page, "required", "sdr-receive-64", "off")[4], "met")
    equal(row(page, "required", "sdr-receive-64", "on")[2:5], ["-", "0.32", "**failed**: 7 duplicates: not what & was to be measured"])
    equal(row(page, "required", "ec-*, 1 cases")[2:6], ["2.00 at least", "0.95", "1 met", "1.2"])
    equal(row(page, "codes", "4-2-4K"), ["4-2-4K", "100.0 GB/s, 2.00", "**failed**: the chunks are not what ISA-L makes of them", "-", "-"])
    equal(row(page, "memory", "memory-qp")[1], "100")
    equal(row(page, "memory", "memory-nic")[1], "**failed**: a child has ended too soon")
    equal(row(page, "others", "file-veth")[1], "skipped: no network namespace")
    for name in ("sdr-receive-64, ICRC on: 7 duplicates", "null, ICRC off: DPDK does not start", "memory-nic: a child"):
        assert name in said and name.split(":")[1] in part(page, "machine"), (name, said)


@rule("parts that do not add up, or could not be measured, are told")
def parts_told(run):
    page, _, _ = usual(run)
    assert "**The parts do not add up to the whole within 10 %.**" in part(page, "parts"), part(page, "parts")
    page, _, _ = performance(run, parts={"parts": dict(PARTS, sum=101.0, adds_up=True), "failed": None})
    assert "add up" not in part(page, "parts"), part(page, "parts")
    page, _, said = performance(run, parts={"parts": None, "failed": "no port"})
    equal((part(page, "parts"), part(page, "plot parts")), ("(not measured)", "(not measured)"))
    assert "parts: no port" in said, said


@rule("where a command says nothing that is whole, its cases are missing and this is said; where none does, nothing is written")
def cut_off(run):
    page, _, said = performance(run, "--only", "engine", cut=True)
    equal(page, PAGE)
    assert said.startswith("performance: bench --json") and "no words of JSON" in said, said


if __name__ == "__main__":
    main()
