# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of `performance`: groups of spindle bench's cases, and the points of its growth plots."""

import datetime
import json
import os
import subprocess

PACKETS, STEADY, PROCESSES, CODES = "packets", "steady", "processes", "codes"
# rounds and seconds of a round, full and quick
ROUNDS = {
    PACKETS: ((9, 0.1), (3, 0.04)),
    STEADY: ((9, 0.05), (3, 0.02)),
    PROCESSES: ((3, 0.1), (1, 0.05)),
    CODES: ((9, 0.02), (3, 0.005)),
}
# name: (kind, filter, options)
GROUPS = {
    "sdr": (PACKETS, "sdr-", ()),
    "engine": (PACKETS, "null,filters-,count,reflect,bpf-", ()),
    "table": (STEADY, "qps-", ()),
    "rvma": (STEADY, "rvma-receive-,rvma-place-", ()),
    "rvma-latency": (STEADY, "rvma-latency-8,rvma-latency-4096", ()),
    "virtual": (STEADY, "virtual-", ()),
    "memory": (STEADY, "memory-", ()),
    "codes": (CODES, "ec-encode,ec-decode", ()),
    "processes": (PROCESSES, "latency-nic,latency-vhost,file-,stream-,idle-", ()),
}
SIZES = [2, 4, 8, 16, 32, 64, 128]
CHUNKS = [1, 2, 4, 8, 16, 32, 64]
MESSAGES = [64, 128, 256, 512, 1024]
SHARED = [128, 256, 512, 1024]  # packets of a message of several workers; so many messages are in flight that
AT_ONCE = 2048  # so many packets are in the port
QUICK_CODES = "ec-encode-4-2-64K,ec-decode-4-2-64K,ec-encode-32-8-64K,ec-decode-32-8-64K"
LOSSES = ["0", "1e-5", "1e-4", "1e-3", "1e-2"]


class Failed(Exception):
    """spindle has failed, with its message."""


class Skipped(Exception):
    """Not possible on this machine."""


class Bench:
    def __init__(self, spindle, quick):
        self.spindle, self.quick = spindle, quick

    def run(self, kind, *options, path=None):
        rounds, seconds = ROUNDS[kind][1 if self.quick else 0]
        files = ("--quick",) if kind == PROCESSES or self.quick else ()
        command = [self.spindle, "bench", "--json", *files, "--rounds", str(rounds), "--seconds", str(seconds), *options]
        env = dict(os.environ, PATH=path) if path else None
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        # Status 1: some cases have failed; their JSON says which.
        try:
            got = json.loads(process.stdout) if process.returncode in (0, 1) else None
        except ValueError:
            got = None
        if not got or not got["complete"]:
            raise Failed("%s: %s" % (" ".join(command[1:]), (process.stderr.splitlines() or ["no words"])[0]))
        return got

    def case(self, name, *options):
        """One case with packets without ICRC, beside the port alone, without testpmd."""
        got = self.run(STEADY, "--filter", name, "--icrc", "off", *options, path="/nowhere")["cases"]
        case = next((c for c in got if c["name"].split(",")[0] == name), None)
        if not case:
            raise Failed("%s: there is no such case" % name)
        if case["failed"]:
            raise Failed("%s %s: %s" % (name, " ".join(options), case["failed"]))
        if case["skipped"]:
            raise Skipped(case["skipped"])
        return case


def growth(bench, progress, failed):
    """Points of the plots: results of a case by what grows. Missing ones are listed in `failed`."""
    points = {}
    for name, case, option, values in (
        ("message", "sdr-receive-4096", "--message-packets", SIZES),
        ("chunk", "sdr-receive-64", "--chunk-packets", CHUNKS),
        ("messages", "sdr-receive-64", "--messages", MESSAGES),
        ("workers", "sdr-workers-64", "--message-packets", SHARED),
        ("loss", "virtual-bits-carried", "--loss", LOSSES),
    ):
        points[name] = []
        for value in values:
            more = {"chunk": ("--message-packets", "64"), "messages": ("--message-packets", "2")}.get(name, ())
            if name == "workers":
                more = ("--messages", str(AT_ONCE // value))
            try:
                points[name].append(dict(bench.case(case, option, str(value), *more), at=value))
            except Skipped:
                pass
            except Failed as why:
                failed.append(str(why))
        progress("growth: " + name)
    return points


def noise(reports):
    """The noise of all reports as text; empty if there was none."""
    said = []
    for what, words in (("others", "other processes took up to %.0f %% of the processors"), ("stolen", "the hypervisor up to %.0f %%")):
        worst = max(r["noise"][what] for r in reports)
        if worst > {"others": 0.05, "stolen": 0.02}[what]:
            said.append(words % (100 * worst))
    noisy = sorted(c["name"] for r in reports for c in r["cases"] or () if c["noisy"])
    if noisy:
        said.append("rounds differ by more than 15 %% in %d cases (%s)" % (len(noisy), ", ".join(noisy[:6]) + (", ..." if len(noisy) > 6 else "")))
    return ["the machine was not quiet: " + words for words in said]


def measure(spindle, quick, only, progress):
    bench = Bench(spindle, quick)
    reports, failed, cases, points, parts = [], [], [], {}, None
    for name, (kind, which, more) in GROUPS.items():
        if only and name not in only:
            continue
        try:
            got = bench.run(kind, "--filter", QUICK_CODES if quick and name == "codes" else which, *more)
            reports.append(got)
            cases += [dict(case, group=name) for case in got["cases"]]
            failed += ["%s: %s" % (case["name"], case["failed"]) for case in got["cases"] if case["failed"]]
        except Failed as why:
            failed.append(str(why))
        progress(name)
    if not only or "parts" in only:
        try:
            report = bench.run(STEADY, "--parts")
            reports.append(report)
            parts = report["parts"]
            failed += ["parts: " + report["failed"]] if report["failed"] else []
        except Failed as why:
            failed.append(str(why))
        progress("parts")
    if not only or "growth" in only:
        points = growth(bench, progress, failed)
    if not reports:
        raise Failed(failed[0] if failed else "nothing was measured")
    machine = max(reports, key=lambda r: "huge" in r["pages"] and bool(r["tsc_hz"]))
    return {
        "date": datetime.date.today().isoformat(),
        "quick": quick,
        "machine": {k: machine[k] for k in ("cpu", "processors", "tsc_hz", "dpdk", "flags", "pages")},
        "noise": noise(reports),
        "failed": failed,
        "cases": cases,
        "parts": parts,
        "growth": points,
    }
