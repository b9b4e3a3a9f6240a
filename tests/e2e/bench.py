#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle bench`: every case gives figures that fit together, or says why it cannot; and whatever happens to it, the
processes, files and namespaces that it makes are gone. How fast anything is, is not tested.

With sanitizers the rules that are called `measured` run: each case once, shortened, so that what is measured is what is tested."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import rule, until  # noqa: E402

CODES = ["ec-%s-%s%s-%s%s" % (way, kind, code, size, where) for kind in ("", "xor-") for code in ("4-2", "8-3", "16-4", "32-8")
         for size in ("4K", "64K") for way in ("encode", "decode") for where in ("", "-warm")]
SHORT = "--quick", "--rounds", "1"  # several NICs and applications at once
RVMA = ["rvma-%s-%d" % (kind, size) for kind in ("latency", "ordered", "adaptive") for size in (8, 64, 512, 4096, 32768, 262144, 1048576)]
ENGINE = ["null", "filters-1", "filters-32", "filters-32-misses", "count", "reflect", *("qps-%d" % n for n in (1, 10, 100, 1000, 10000, 100000, 131072))]
SCALE = ["%s-%d" % (what, n) for what in ("contexts", "applications") for n in (1, 10, 100, 1000, 4096)]
START = ["start-nic", *("attach-%d" % n for n in (1, 10, 100, 1000))]
PLACES = ["sdr-place-%d-%s" % (size, where) for size in (1024, 4096) for where in ("8M", "64M")]
SDR = ["sdr-receive-64", "sdr-receive-4096", "sdr-chunk-64", "sdr-polled-64", "sdr-metered-64", *PLACES, "sdr-workers-64", "sdr-workers-64-mixed", "sdr-workers-4096", "sdr-send-64", "sdr-send-4096"]
VIRTUAL = {"virtual-packets": "Mpkt/s", "virtual-bits": "Gbit/s", "virtual-bits-carried": "Gbit/s"}
MEMORY = ["memory-qp", "memory-rdma-qp", "memory-message", "memory-mailbox", "memory-nic"]
TESTPMD = {"sdr-receive-64", "sdr-chunk-64", "sdr-send-64", "sdr-send-4096", "reflect"}  # are compared with it
BRIEF = "--rounds", "1", "--seconds", "0.004"
PUTS = ["rvma-receive-64-%d" % 10**n for n in range(7)] + ["rvma-receive-4096-%d" % boxes for boxes in (1, 1000, 1000000)] + ["rvma-place-4096-8M", "rvma-place-4096-64M"]
RDMA = [*("rdma-%s-%s" % (op, size) for size in ("64", "4096", "64K", "1M") for op in ("write", "send")), "rdma-write-4096-64M",
        *("rdma-many-%d" % qps for qps in (10, 100, 1000, 10000, 100000))]
REQUESTER = ["rdma-requester-" + size for size in ("64", "4096", "64K", "1M")]
LATENCY = ["latency-nic-polling", "latency-nic-sleeping", "latency-vhost-polling", "latency-vhost-sleeping", "latency-write-nic", "latency-write-vhost"]
STREAM = ["stream-vhost", "stream-veth"]
IDLE = {"idle-vhost": 1, "idle-tap": 1, "idle-veth": 2, "idle-xdp": 2, "idle-vhost-first": 100, "idle-veth-first": 100, "idle-xdp-first": 100}


class Bench:
    """A run in a directory of its own, by whose name its processes are found however they are related."""

    def __init__(self, *arguments, path=None, before=None):
        self.dir = tempfile.mkdtemp(prefix="spindle-e2e-")
        env = dict(os.environ, TMPDIR=self.dir, XDG_RUNTIME_DIR=self.dir)
        if path is not None:
            env["PATH"] = path

        def prepare():
            if before:
                before()
            net.die_with_parent()
        self.process = subprocess.Popen([net.SPINDLE, "bench", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=env, preexec_fn=prepare)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for pid in self.alive():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def alive(self):
        pids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    environ = f.read()
            except OSError:
                continue
            if self.dir.encode() in environ and int(pid) != self.process.pid:
                pids.append(int(pid))
        return pids

    def end(self, status=0, timeout=600):
        out, err = self.process.communicate(timeout=timeout)
        assert self.process.returncode == status, "exit status %d, not %d: %s" % (self.process.returncode, status, err[-2000:])
        assert "Sanitizer" not in err and "runtime error" not in err, err[-3000:]
        return out

    def nothing_left(self):
        until("its processes end", lambda: not self.alive())
        left = [os.path.join(at, name) for at, dirs, files in os.walk(self.dir) for name in dirs + files if name != "dpdk"]
        assert not left, left

    def figures(self, rounds=1):
        report = json.loads(self.end())
        assert report["rounds"] == rounds and report["processors"] >= 1 and report["cpu"] and report["dpdk"], report
        return report["cases"]


def near(a, b):
    return abs(a - b) <= 1e-4 * abs(b)


def sane(case, unit):
    assert case["unit"] == unit and case["baseline"] and case["skipped"] is None, case
    assert case["value"] > 0 and case["baseline_value"] > 0 and case["spread"] >= 0 and case["baseline_spread"] >= 0, case
    less = unit not in ("MB/s", "GB/s", "Gbit/s", "Mpkt/s")
    assert 0 < case["best"] <= case["value"] if less else case["best"] >= case["value"], case
    assert near(case["ratio"], case["baseline_value"] / case["value"] if less else case["value"] / case["baseline_value"]), case
    assert isinstance(case["noisy"], bool) and case["threads"] >= 0, case
    for name in ("required", "goal"):
        assert case[name] is None or 0 < case[name], case
    assert case["meets"] == (None if case["required"] is None else case["ratio"] >= case["required"]), case
    for other in case.get("others", []):
        if other["skipped"]:
            assert other["value"] is None and other["ratio"] is None, other
        else:
            assert other["value"] > 0 and near(other["ratio"], case["baseline_value"] / other["value"] if less else
                                               other["value"] / case["baseline_value"]), other


def programs(*names):
    """A directory with nothing but these, for $PATH."""
    directory = tempfile.mkdtemp(prefix="spindle-e2e-")
    for name in names:
        os.symlink(shutil.which(name), os.path.join(directory, name))
    return directory


# ---- figures -------------------------------------------------------------------------------------------------------------

@rule
def list_names_every_case_and_what_it_is_compared_with():
    with Bench("--list") as b:
        out = b.end()
        for word in LATENCY + RVMA + PUTS + RDMA + REQUESTER + CODES + SDR + ENGINE + SCALE + START + list(VIRTUAL) + MEMORY + STREAM + list(IDLE) + [
                "ISA-L", "file-veth", "file-vhost", "Unix socket", "UDP", "TCP", "iperf3", "dpdk-testpmd, rxonly", "5tswap"]:
            assert word in out, word
        b.nothing_left()


def names(cases):
    return sorted(c["name"] for c in cases)


def both(*which):
    return sorted("%s, ICRC %s" % (name, icrc) for name in which for icrc in ("on", "off"))


def measured(case):
    """A case of packets: sane, or skipped for want of a second processor."""
    if case["skipped"]:
        assert "processor" in case["skipped"] and len(os.sched_getaffinity(0)) < 2, case
        return
    sane(case, "cycles/packet")
    assert case["packets_per_second"] > 0, case


@rule
def packets_are_measured_with_and_without_icrc():
    path = programs()  # without testpmd: it has its own rule
    try:
        with Bench(*BRIEF, "--filter", "sdr-", "--json", path=path) as b:
            cases = b.figures()
            assert names(cases) == sorted(both(*SDR[:-2]) + ["%s, ICRC on" % n for n in SDR[-2:]]), names(cases)
            for case in cases:
                measured(case)
                if case["name"].split(",")[0] in TESTPMD:
                    assert "not installed" in case["baseline_skipped"] and "testpmd" not in case["baseline"], case
            wanted = {c["name"]: (c["required"], c["goal"]) for c in cases}
            assert wanted["sdr-receive-64, ICRC off"] == (0.42, 0.6) and wanted["sdr-receive-64, ICRC on"] == (0.32, 0.48), wanted
            assert wanted["sdr-place-4096-8M, ICRC off"] == (0.9, None), wanted
            assert wanted["sdr-place-1024-64M, ICRC off"] == (0.75, None), wanted
            assert wanted["sdr-place-4096-8M, ICRC on"] == (None, None), wanted
            assert wanted["sdr-workers-64, ICRC off"] == (0.9, None), wanted
            assert [c["paper_threads"] > 0 for c in cases if c["paper_threads"]] == [True] * 4, cases
            b.nothing_left()
    finally:
        shutil.rmtree(path)


@rule
def handlers_filters_and_tables_are_measured():
    path = programs()
    try:
        with Bench(*BRIEF, "--filter", "null,filters-,count,reflect,qps-", "--icrc", "off", "--json", path=path) as b:
            cases = b.figures()
            assert names(cases) == sorted(name + ", ICRC off" for name in ENGINE), names(cases)
            for case in cases:
                measured(case)
            b.nothing_left()
    finally:
        shutil.rmtree(path)


@rule
def contexts_applications_starts_and_attaches_have_figures():
    with Bench(*BRIEF, "--filter", "contexts-,applications-,start-nic,attach-", "--icrc", "off", "--json") as b:
        cases = {c["name"].split(",")[0]: c for c in b.figures()}
        assert sorted(cases) == sorted(SCALE + START), sorted(cases)
        for name in SCALE:
            measured(cases[name])
        for c in map(cases.get, START):
            assert c["value"] > 0 if not c["skipped"] else "descriptors" in c["skipped"], c
        b.nothing_left()


@rule
def testpmd_is_a_baseline_where_it_is_installed():
    with Bench("--rounds", "1", "--seconds", "0.05", "--filter", "sdr-receive-64,reflect,sdr-send-64", "--json", "--icrc", "on") as b:
        cases = b.figures()
        assert len(cases) == 3, cases
        for case in cases:
            sides = [case["baseline"], *(o["name"] for o in case["others"] if not o["skipped"])]
            if case["name"].startswith("reflect"):
                assert "no ICRC" in case["skipped"], case
            elif shutil.which("dpdk-testpmd"):
                sane(case, "cycles/packet")
                if case["baseline_skipped"]:  # it could not run: not ours to fail for
                    assert case["baseline_skipped"].startswith("dpdk-testpmd") and "not installed" not in case["baseline_skipped"], case
                    continue
                assert any("testpmd" in side for side in sides), case
                if case["name"].startswith("sdr-receive"):
                    assert "rxonly" in case["baseline"], case
            else:
                assert "not installed" in case["baseline_skipped"] and not any("testpmd" in side for side in sides), case
        b.nothing_left()


@rule
def a_testpmd_that_fails_is_told_and_what_is_next_is_compared_with():
    path = programs("stdbuf", "env", "sh")
    try:
        with open(os.path.join(path, "dpdk-testpmd"), "w") as f:
            f.write("#!/bin/sh\nread a\necho Tx-pps: 0\nread a\necho out of order\nexit 1\n")
        os.chmod(f.name, 0o755)
        with Bench(*BRIEF, "--filter", "sdr-receive-64", "--icrc", "off", "--json", path=path) as b:
            case, = b.figures()
            sane(case, "cycles/packet")
            assert case["baseline_skipped"].startswith("dpdk-testpmd: ") and "testpmd" not in case["baseline"], case
            b.nothing_left()
    finally:
        shutil.rmtree(path)


@rule
def the_cost_of_the_parts_is_measured():
    with Bench("--parts", "--rounds", "1", "--seconds", "0.003", "--json") as b:
        report = json.loads(b.end())["parts"]
        cycles = {p["name"]: p["cycles"] for p in report["parts"]}
        assert list(cycles) == ["receive", "parse", "ICRC", "match", "handler", "copy", "counters", "application"], cycles
        assert near(report["sum"], sum(cycles.values())) and report["whole"] > 0 and cycles["receive"] > 0, report
        off = abs(report["sum"] / report["whole"] - 1)  # near 0.1 the rounding of what is printed decides
        assert report["adds_up"] == (off < 0.1) or near(off, 0.1), report
        b.nothing_left()


@rule
def virtual_time_is_measured_and_has_no_baseline():
    with Bench(*BRIEF, "--filter", "virtual", "--json") as b:
        cases = b.figures()
        assert {c["name"]: c["unit"] for c in cases} == VIRTUAL, cases
        for case in cases:
            assert case["value"] > 0 and case["baseline"] is None and case["ratio"] is None and case["meets"] is None, case
        b.nothing_left()


@rule
def memory_is_measured_of_things_at_rest():
    with Bench("--filter", "memory-", "--json") as b:
        cases = {c["name"]: c for c in b.figures(rounds=9)}
        assert sorted(cases) == sorted(MEMORY), cases
        for case in cases.values():
            assert case["unit"] == "bytes" and case["value"] > 0 and case["spread"] == 0 and case["ratio"] is None, case
        assert cases["memory-nic"]["value"] > 1 << 20, cases  # all of a process
        b.nothing_left()


@rule
def what_is_required_and_missed_is_a_status_of_its_own():
    # Bars that any machine is below, or above: what is tested is not how fast anything is.
    for bar, status in ((None, 0), ("1000", 3), ("0.000001", 0), ("1e-6", 0)):
        with Bench(*BRIEF, "--filter", "null,virtual-packets", "--icrc", "off", "--json", *(["--require=" + bar] if bar else [])) as b:
            report = json.loads(b.end(status))
            cases = {c["name"]: c for c in report["cases"]}
            case = cases["null, ICRC off"]
            met, missed = report["summary"]["met"], report["summary"]["missed"]
            assert report["summary"]["required"] == len(met) + len(missed) == (bar is not None), report["summary"]
            assert met == (["null, ICRC off"] if bar and not status else []), report["summary"]
            for m in missed:
                assert status and m["name"] == "null, ICRC off" and m["baseline"] == case["baseline"], report["summary"]
                assert m["ratio"] == case["ratio"] < m["required"] == case["required"], report["summary"]
            assert case["required"] == (float(bar) if bar else None), (bar, case)
            assert case["meets"] == (None if bar is None else status == 0), (bar, case)
            # What is compared with nothing has no ratio, and misses none.
            assert cases["virtual-packets"]["required"] is None and cases["virtual-packets"]["meets"] is None, cases
            b.nothing_left()
    with Bench(*BRIEF, "--filter", "sdr-place-4096-8M", "--icrc", "off", "--require") as b:  # its own bar: met here, or not
        out = b.process.communicate(timeout=600)[0]
        assert "required 0.9: " in out and b.process.returncode == (3 if "MISSED" in out else 0), (b.process.returncode, out)
        missed = [line for line in out.splitlines() if line.startswith("missed: sdr-place-4096-8M, ICRC off: ")]
        assert len(missed) == out.count("MISSED") and out.splitlines()[-1] == "1 required: %d met, %d missed" % (
            1 - len(missed), len(missed)), out


@rule
def numbers_that_cannot_be_are_refused():
    ratios = [("--require", ratio) for ratio in ("x", "-1", "0", "nan", "inf", "1e999", "0x1", "1,5", "")]
    for option, value in [("--messages", "3"), ("--messages", "2048"), ("--loss", "0.5"), ("--loss", "x"), ("--loss", "-1"), *ratios]:
        with Bench("%s=%s" % (option, value)) as b:
            said = b.process.communicate(timeout=600)[1]
            assert b.process.returncode == 2 and said.startswith("spindle bench: %s must " % option), (option, value, said)
            assert said.splitlines()[0].endswith(", not " + value), (option, value, said)
    with Bench(*BRIEF, "--filter", "sdr-receive-64", "--icrc", "off", "--messages", "16", "--message-packets", "2", "--json") as b:
        case, = b.figures()
        assert case["skipped"] and "128 to 2048" in case["skipped"], case


@rule
def whatever_else_the_machine_does_is_told():
    with Bench(*BRIEF, "--filter", "null", "--json") as b:
        noise = json.loads(b.end())["noise"]
        assert noise["load"] >= 0 and 0 <= noise["others"] <= 1 and 0 <= noise["stolen"] <= 1, noise
        assert isinstance(noise["noisy"], bool), noise


@rule
def latency_is_measured_on_one_nic_and_on_two_polling_and_sleeping():
    with Bench(*BRIEF, "--filter", "latency-nic,latency-vhost,latency-write", "--json") as b:
        cases = b.figures()
        assert [c["name"] for c in cases] == LATENCY
        for case in cases:
            sane(case, "ns")
            assert case["p99"] >= case["value"] and case["baseline_p99"] >= case["baseline_value"], case
            other = "Unix socket (SOCK_SEQPACKET)" if "write" in case["name"] else "UDP loopback"
            assert [o["name"] for o in case["others"]] == [other] and case["others"][0]["skipped"] is None, case
            assert case["oversubscribed"] == (case["threads"] > len(os.sched_getaffinity(0))), case
        b.nothing_left()


@rule
def a_put_is_measured_beside_what_rdma_does_in_its_place():
    names = {"RDMA: write, once there: send", "RDMA: write, send behind it", "RDMA: last byte polled", "RDMA: buffer exchange"}
    with Bench("--rounds", "1", "--seconds", "0.01", "--filter", "rvma-", "--icrc", "off", "--json") as b:
        cases = b.figures()
        assert sorted(c["name"] for c in cases) == sorted(RVMA + [name + ", ICRC off" for name in PUTS]), [c["name"] for c in cases]
        for case in cases:
            if case["name"].split(",")[0] in PUTS:
                sane(case, "cycles/packet")
                continue
            sane(case, "ns")
            assert {case["baseline"]} | {o["name"] for o in case["others"]} == names, case
            torn = [o["name"] for o in case["others"] if o["skipped"]]
            assert not torn or torn == ["RDMA: last byte polled"] and "adaptive" in case["name"], case
            if "latency" not in case["name"]:  # virtual time: the figures are the network's
                assert case["value"] <= case["baseline_value"], case
        b.nothing_left()


@rule
def rdma_takes_every_message_of_each_case():
    with Bench("--rounds", "1", "--seconds", "0.01", "--filter", "rdma-write,rdma-send,rdma-many", "--icrc", "off", "--json") as b:
        cases = b.figures()
        assert sorted(c["name"] for c in cases) == sorted(name + ", ICRC off" for name in RDMA), [c["name"] for c in cases]
        for case in cases:
            sane(case, "cycles/packet")
        assert {c["name"]: c["goal"] for c in cases}["rdma-write-64, ICRC off"] == 0.35, cases
        b.nothing_left()


@rule
def a_requester_of_rdma_is_measured_beside_txonly():
    with Bench("--rounds", "1", "--seconds", "0.01", "--filter", "rdma-requester", "--icrc", "on", "--json") as b:
        cases = b.figures()
        assert sorted(c["name"] for c in cases) == sorted(name + ", ICRC on" for name in REQUESTER), [c["name"] for c in cases]
        for case in cases:
            sane(case, "cycles/packet")
        b.nothing_left()


@rule
def puts_that_the_port_writes_are_not_measured_with_their_icrc():
    with Bench(*SHORT, "--filter", "rvma-receive-4096-1000", "--icrc", "on", "--json") as b:
        for case in b.figures():
            assert case["value"] is None and "ICRC" in case["skipped"], case
        b.nothing_left()


@rule
def files_are_measured_beside_tcp_and_iperf3():
    with Bench(*SHORT, "--filter", "file", "--json") as b:
        cases = {c["name"]: c for c in b.figures()}
        assert sorted(cases) == ["file-veth", "file-vhost"]
        for case in cases.values():
            sane(case, "MB/s")
        slower, sha, sent = cases["file-vhost"]["others"]
        assert near(slower["value"], min(sha["value"], sent["value"])) and slower["required"] == 0.77, slower
        assert slower["meets"] == (cases["file-vhost"]["value"] / slower["value"] >= 0.77) and sha["meets"] is None, slower
        other, = cases["file-veth"]["others"]
        # Where it is installed it may still fail, as a datagram may not arrive: that is not ours to fail for.
        assert "iperf3" in other["name"] and ("not installed" in (other["skipped"] or "")) != bool(shutil.which("iperf3")), other
        b.nothing_left()


@rule
def streams_are_measured_beside_what_moves_as_many_bytes():
    with Bench(*SHORT, "--filter", "stream-", "--json") as b:
        cases = {c["name"]: c for c in b.figures()}
        assert list(cases) == STREAM, cases
        for case in cases.values():
            if case["name"] == "stream-veth" and case["skipped"]:  # neither af_xdp ports nor iperf3 can be everywhere
                continue
            if case["baseline_skipped"]:
                assert "iperf3" in case["baseline_skipped"] and case["meets"] is None, case
                case["required"] = None  # what replaces the baseline has none
            sane(case, "MB/s")
            assert case["processor_s_per_gib"] > 0 and case["baseline_processor_s_per_gib"] > 0, case
            for other in case["others"]:
                assert other["skipped"] or other["processor_s_per_gib"] > 0, case
            assert case["others"][-1]["skipped"] == "not with --quick", case  # by the other way
        vhost = cases["stream-vhost"]
        testpmd = vhost["others"][0]
        assert (vhost["required"], vhost["goal"], testpmd["required"]) == (0.5, 1, 0.5), vhost
        assert ("not installed" in (testpmd["skipped"] or "")) != bool(shutil.which("dpdk-testpmd")), testpmd
        assert testpmd["skipped"] or testpmd["meets"] == (vhost["value"] / testpmd["value"] >= 0.5), vhost
        b.nothing_left()


@rule
def idle_nics_and_the_first_packet_are_measured_beside_what_they_may_take():
    with Bench(*BRIEF, "--filter", "idle-", "--json") as b:
        cases = {c["name"]: c for c in b.figures()}
        assert list(cases) == list(IDLE), cases
        for name, case in cases.items():
            if case["skipped"]:
                assert "vhost" not in name, case
                continue
            sane(case, "us" if "first" in name else "%")
            assert case["baseline_value"] == IDLE[name] and case["required"] == 1, case
        b.nothing_left()


@rule
def erasure_codes_in_the_handler_are_measured_beside_isal_and_the_job_alone():
    """(The smallest and the largest code where sanitizers look on.)"""
    codes = ["-4-2-", "-32-8-"] if net.sanitized() else ["ec-"]
    with Bench("--rounds", "1", "--seconds", "0.002", "--filter", ",".join(codes), "--json") as b:
        cases = [c for c in b.figures() if not c["name"].startswith("ec-slices-")]
        assert [c["name"] for c in cases] == [name for name in CODES if any(code in name for code in codes)]
        for case in cases:
            sane(case, "GB/s")
            assert [o["name"] for o in case["others"]] == ["the job alone"] and case["others"][0]["value"] > 0, case
            # A slice that was interrupted each time has no time; where all of a case's were, there is none to tell.
            slices = case["slice_us"]
            assert slices is None or (0 <= slices["median"] <= slices["max"] and slices["max"] > 0), case
        # The shortest are over before anybody would interrupt them, or so soon that it is not asked.
        assert any(case["slice_us"] for case in cases), cases
        b.nothing_left()


@rule
def the_longest_slice_is_measured():
    with Bench("--rounds", "1", "--seconds", "0.002", "--filter", "ec-slices-encode-223-32", "--json") as b:
        case, = b.figures()
        assert case["baseline_value"] == 50 and case["required"] == 1, case
        # Some of its slices may have been interrupted each time, and so have no time; not all of them.
        assert case["value"] == case["slice_us"]["max"] >= case["slice_us"]["median"] >= 0 and case["value"] > 0, case
        b.nothing_left()


# ---- what cannot be measured here ----------------------------------------------------------------------------------------

@rule
def without_iperf3_the_rest_has_figures_and_this_is_said():
    path = programs("ip")
    try:
        with Bench(*SHORT, "--filter", "file-veth", "--json", path=path) as b:
            case, = b.figures()
            sane(case, "MB/s")
            assert "iperf3" in case["others"][0]["skipped"] and "installed" in case["others"][0]["skipped"], case
            b.nothing_left()
    finally:
        shutil.rmtree(path)


@rule
def a_case_that_cannot_run_is_skipped_with_the_reason_and_status_0():
    path = programs()
    try:
        with Bench(*SHORT, "--filter", "file-veth", "--json", path=path) as b:
            case, = b.figures()
            assert case["value"] is None and case["ratio"] is None and "iproute2" in case["skipped"], case
            b.nothing_left()
    finally:
        shutil.rmtree(path)


@rule
def without_the_right_to_make_namespaces_files_between_them_are_skipped():
    # In a user namespace in which nobody has a number, no further namespace can be made.
    with Bench("--quick", "--filter", "file-veth",
               before=lambda: net.call("unshare", net.libc.unshare(net.CLONE_NEWUSER))) as b:
        out = b.end()
        assert "file-veth" in out and "skipped: no network namespace" in out, out
        b.nothing_left()


# ---- the ends that it may come to ----------------------------------------------------------------------------------------

def busy(bench):
    """Waits for two NICs: they would not end by themselves."""
    def nics():
        count = 0
        for pid in bench.alive():
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as f:
                    count += f.read().startswith(b"spindle\0run\0")
            except OSError:
                pass
        return count
    until("two NICs at work", lambda: nics() >= 2, 60)


@rule
def a_signal_ends_it_by_that_signal_and_clears_up():
    for name, number in (("latency-vhost", signal.SIGINT), ("file-veth", signal.SIGTERM), ("file-vhost", signal.SIGHUP)):
        with Bench("--filter", name) as b:
            busy(b)
            b.process.send_signal(number)
            b.end(-number, 120)
            b.nothing_left()


@rule
def a_signal_while_packets_are_measured_clears_up_too():
    with Bench("--filter", "sdr-receive-64", "--seconds", "60", "--json") as b:
        until("a capture is there", lambda: os.listdir(b.dir), 60)
        time.sleep(0.1)
        b.process.send_signal(signal.SIGINT)
        report = json.loads(b.end(-signal.SIGINT, 120))  # of what there is
        assert report["cases"] == [] and report["complete"] is False, report
        b.nothing_left()


@rule
def when_it_is_killed_its_processes_end():
    for name in ("latency-vhost", "file-veth"):
        with Bench("--filter", name) as b:
            busy(b)
            b.process.kill()
            until("its processes end", lambda: not b.alive(), 60)


def no_files():
    """What it writes stays empty."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@rule
def a_nic_that_does_not_start_is_said_and_counted():
    with Bench("--quick", "--filter", "latency-nic-polling", before=no_files) as b:
        said = b.process.communicate(timeout=600)[1]
        assert b.process.returncode == 1, b.process.returncode
        assert said.startswith("spindle bench: latency-nic-polling: ") and len(said.splitlines()) == 1, said
        b.nothing_left()


@rule
def a_case_that_fails_says_why_and_the_others_are_reported():
    with Bench(*BRIEF, "--filter", "ec-encode-4-2-4K-warm,null,latency-nic-polling", "--icrc", "off", "--require=1000", "--json",
               before=no_files) as b:
        report = json.loads(b.end(1))
        cases = {c["name"]: c for c in report["cases"]}
        assert sorted(cases) == ["ec-encode-4-2-4K-warm", "latency-nic-polling", "null, ICRC off"], cases
        for name in ("latency-nic-polling", "null, ICRC off"):
            case = cases[name]
            assert case["failed"] and case["skipped"] is None, case
            assert all(case[key] is None for key in ("value", "best", "ratio", "spread", "baseline_value", "meets")), case
        assert "left.ini" in cases["latency-nic-polling"]["failed"] and "net_pcap" in cases["null, ICRC off"]["failed"], cases
        sane(cases["ec-encode-4-2-4K-warm"], "GB/s")
        assert cases["ec-encode-4-2-4K-warm"]["failed"] is None and report["complete"] is True, report
        b.nothing_left()


@rule
def json_is_json_whatever_went_wrong():
    with Bench("--filter", "there-is-no-such-case", "--json") as b:
        assert json.loads(b.end(1))["cases"] == []
    with Bench("--parts", "--seconds", "0.003", "--json", before=no_files) as b:
        report = json.loads(b.end(1))
        assert report["parts"] is None and "net_pcap" in report["failed"], report
        b.nothing_left()


if __name__ == "__main__":
    net.main()
