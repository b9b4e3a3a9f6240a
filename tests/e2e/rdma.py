#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle rdma` through running NICs: each operation on each type of QP, between two NICs and on one, with all bytes
checked."""

import atexit
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import sample, stat  # noqa: E402
from hosts import Hosts  # noqa: E402
from net import HOST4, NIC4, NIC6, rule, until  # noqa: E402
from served import Process  # noqa: E402

OPS = {"rc": ("send", "write", "read", "atomic"), "uc": ("send", "write"), "ud": ("send",)}
FEW = 100
BW = {"test", "op", "qp", "bytes", "iterations", "seconds", "bw_peak_gbps", "bw_average_gbps", "msg_rate_mpps"}


class Pair:
    """A server and clients. The NICs are shared by the rules, and taken along by one that fails."""

    nics = None

    @classmethod
    def part(cls):
        if cls.nics:
            cls.nics, h = None, cls.nics
            h.__exit__()

    def __init__(self, server="far", client="near", address=NIC4, workers=1):
        if Pair.nics and Pair.nics.workers != workers:
            self.part()
        if not Pair.nics:
            Pair.nics = Hosts(link="vhost" if workers == 1 else "veth", workers=workers)
        self.house, self.server_nic, self.client_nic, self.address = Pair.nics, server, client, address

    def __enter__(self):
        self.running = len(self.house.closing)
        return self

    def __exit__(self, *error):
        if error[0]:
            self.part()
            return
        while len(self.house.closing) > self.running:
            self.house.closing.pop()()
        for nic in (self.house.far_nic, self.house.near_nic):
            said = nic.stderr()
            assert nic.process.poll() is None and "Sanitizer" not in said and "runtime error" not in said, said

    def run(self, verb, nic, *words):
        p = Process([net.SPINDLE, "rdma", verb, "--nic", nic, "--events", *words], env=self.house.environment())
        self.house.closing.append(p.kill)
        return p

    def serve(self, verb, *words):
        """.port is what it listens at."""
        p = self.run(verb, self.server_nic, "--port", "0", "--json", *words)
        line = p.line()
        assert line, p.stderr()
        p.port = json.loads(line)["port"]
        return p

    def ask(self, verb, port, *words):
        # No frame is lost here. A NIC that gets no processor for a while must not look like one that has gone.
        return self.run(verb, self.client_nic, self.address, "--port", str(port), "-u", "18", *words)

    def measure(self, verb, *words, served=0):
        """A server and a client: the client's lines of JSON."""
        s = self.serve(verb)
        lines = [json.loads(line) for line in self.ask(verb, s.port, "--json", *words).end()]
        s.end(served)
        return lines


def figures(lines, count, least):
    assert len(lines) == count, lines
    for row in lines:
        assert BW <= set(row) and row["iterations"] >= least and row["seconds"] > 0, row
        assert row["bw_peak_gbps"] >= row["bw_average_gbps"] > 0 and row["msg_rate_mpps"] > 0, row
        assert row.get("bad", 0) == 0, row


# ---- bandwidth -----------------------------------------------------------------------------------------------------------

def bandwidth(qp, **more):
    with Pair(**more) as p:
        for op in OPS[qp]:
            for size in (1, 1000) if qp == "ud" else (8,) if op == "atomic" else (1, 1024, 20000):
                rows = p.measure("bw", "--op", op, "--qp", qp, "-s", str(size), "-n", str(FEW), "-t", "16", "--verify")
                figures(rows, 1, FEW)
                assert rows[0]["bytes"] == size and rows[0]["op"] == op and rows[0]["qp"] == qp
                if op == "send":  # where nothing resends, a full queue may lose
                    assert rows[0]["received"] == FEW if qp == "rc" else rows[0]["received"] > 0, rows


@rule
def rc_sends_writes_reads_and_counts_with_every_byte_right():
    bandwidth("rc")


@rule
def uc_sends_and_writes():
    bandwidth("uc")


@rule
def ud_sends_datagrams():
    bandwidth("ud")


@rule
def ipv6_carries_all_of_them():
    for qp in OPS:
        bandwidth(qp, address=NIC6)


@rule
def both_ends_may_be_on_one_nic():
    for qp in OPS:
        bandwidth(qp, client="far")


@rule
def many_qps_share_the_work():
    with Pair() as p:
        for op in ("send", "write", "read"):
            rows = p.measure("bw", "--op", op, "-q", "8", "-n", str(FEW), "-s", "4096", "-t", "8", "--verify")
            figures(rows, 1, 8 * FEW)
            assert rows[0]["iterations"] == 8 * FEW and "srq" not in rows[0], rows


@rule
def every_path_mtu_that_the_port_takes():
    with Pair() as p:
        for mtu in (256, 512, 1024):
            figures(p.measure("bw", "-m", str(mtu), "-s", "5000", "-n", str(FEW), "--verify"), 1, FEW)
        s = p.serve("bw")
        c = p.ask("bw", s.port, "-m", "4096")
        c.end(1)
        assert "-m 4096 does not fit" in c.stderr(), c.stderr()
        s.signal(signal.SIGTERM)
        s.end()


@rule
def all_sizes_are_a_table():
    with Pair() as p:
        s = p.serve("bw")
        lines = p.ask("bw", s.port, "--all", "--qp", "ud", "-n", str(FEW)).end()
        s.end()
        assert lines[0].split() == ["#bytes", "#iterations", "BW", "peak[Gb/sec]", "BW", "average[Gb/sec]", "MsgRate[Mpps]"]
        assert [int(line.split()[0]) for line in lines[1:]] == [2 << k for k in range(10)], lines
        figures(p.measure("bw", "-D", "500ms", "--op", "write"), 1, 1)


# ---- latency -------------------------------------------------------------------------------------------------------------

@rule
def latency_of_each_operation():
    with Pair() as p:
        for qp in OPS:
            for op in OPS[qp]:
                rows = p.measure("lat", "--op", op, "--qp", qp, "-n", str(FEW), "--verify")
                assert len(rows) == 1 and rows[0]["iterations"] == FEW, rows
                r = rows[0]
                assert 0 < r["t_min_us"] <= r["t_typical_us"] <= r["p99_us"] <= r["p999_us"] <= r["t_max_us"], r
                assert r["t_min_us"] <= r["t_avg_us"] <= r["t_max_us"] and r["t_stdev_us"] >= 0, r
        s = p.serve("lat")
        lines = p.ask("lat", s.port, "-n", "10").end()
        s.end()
        assert lines[0].startswith("#bytes #iterations    t_min[usec]") and len(lines) == 2, lines


@rule
def ping_says_a_line_for_each_answer():
    with Pair() as p:
        for qp in OPS:
            s = p.serve("ping")
            lines = p.ask("ping", s.port, "-n", "3", "-i", "10ms", "-s", "100", "--qp", qp, "--verify").end()
            s.end()
            assert re.fullmatch(r"ping %s: 100 bytes, %s" % (re.escape(NIC4), qp), lines[0]), lines
            for k in range(3):
                assert re.fullmatch(r"100 bytes from %s: number %d, [0-9.]+ us" % (re.escape(NIC4), k), lines[1 + k]), lines
            assert lines[4].startswith("3 sent, 3 received; min/avg/max/stdev = "), lines


# ---- what goes wrong -----------------------------------------------------------------------------------------------------

@rule
def a_server_keeps_serving_until_a_signal():
    with Pair() as p:
        s = p.serve("bw", "--keep")
        for _ in range(3):
            figures([json.loads(line) for line in p.ask("bw", s.port, "--json", "-n", str(FEW)).end()], 1, FEW)
        s.signal(signal.SIGTERM)
        s.end()


@rule
def an_agent_serves_memory_that_no_nic_has_made():
    with Pair() as p:
        for qp, op, size in (("rc", "write", 1), ("rc", "write", 20000), ("rc", "read", 1), ("rc", "read", 20000),
                             ("rc", "atomic", 8), ("uc", "write", 1000)):
            s = p.serve("bw", "--agent")
            c = p.ask("bw", s.port, "--json", "--op", op, "--qp", qp, "-s", str(size), "-n", str(FEW), "-t", "16", "--verify")
            figures([json.loads(line) for line in c.end()], 1, FEW)
            s.end(0)


@rule
def qps_share_a_receive_queue_and_each_message_is_its_own_qps():
    with Pair() as p:
        for qp, queues, size in (("rc", 8, 64), ("rc", 8, 20000), ("uc", 4, 1000), ("ud", 4, 1000)):
            s = p.serve("bw", "--use-srq")
            c = p.ask("bw", s.port, "--json", "--qp", qp, "-q", str(queues), "-s", str(size), "-n", str(FEW), "-t", "16", "--verify")
            rows = [json.loads(line) for line in c.end()]
            s.end(0)
            figures(rows, 1, queues * FEW)
            assert rows[0]["received"] == queues * FEW if qp == "rc" else rows[0]["received"] > 0, rows
            assert rows[0].get("srq", False) == (qp != "ud"), rows  # datagrams have no connection in which to say it
        s = p.serve("bw", "--use-srq")
        figures([json.loads(line) for line in p.ask("bw", s.port, "--json", "--op", "write", "-q", "4", "-n", str(FEW), "--verify").end()],
                1, 4 * FEW)
        s.end(0)


@rule
def an_agent_that_falls_silent_ends_the_requests_of_its_peer():
    with Pair() as p:
        for op in ("read", "write", "atomic"):
            s = p.serve("bw", "--agent")
            c = p.ask("bw", s.port, "--op", op, "-D", "60s", *(() if op == "atomic" else ("-s", "4096")))
            c.line()
            time.sleep(0.3)
            os.kill(s.process.pid, signal.SIGSTOP)
            until("the client ends", lambda: c.process.poll() is not None)
            c.end(1)
            assert "(status 11)" in c.stderr(), c.stderr()
            os.kill(s.process.pid, signal.SIGCONT)  # it answers late, and the NIC goes on
            until("the server ends", lambda: s.process.poll() is not None)
        figures(p.measure("bw", "-n", str(FEW), "--verify"), 1, FEW)


@rule
def nobody_listens_or_something_else_does():
    with Pair() as p:
        c = p.ask("bw", 4)
        c.end(1)
        assert "refused" in c.stderr(), c.stderr()
        s = p.serve("lat")
        c = p.ask("bw", s.port)  # it measures something else
        c.end(1)
        assert "the server refuses" in c.stderr(), c.stderr()
        s.signal(signal.SIGTERM)
        s.end()
        c = p.run("bw", "near", HOST4.rsplit(".", 1)[0] + ".99", "--timeout", "2")
        c.end(1)
        assert "connecting" in c.stderr(), c.stderr()


@rule
def a_client_that_is_killed_ends_its_server_and_leaves_the_nic_usable():
    with Pair() as p:
        s = p.serve("bw")
        c = p.ask("bw", s.port, "-D", "60s", "--op", "write")
        c.line()  # the head of the table
        c.process.kill()
        s.end(1)
        assert "gone in the middle" in s.stderr() or "does not answer" in s.stderr(), s.stderr()
        figures(p.measure("bw", "-n", str(FEW), "--verify"), 1, FEW)


@rule
def a_server_that_is_killed_ends_its_client():
    with Pair() as p:
        s = p.serve("bw")
        c = p.ask("bw", s.port, "-D", "60s")
        c.line()
        s.process.kill()
        until("the client ends", lambda: c.process.poll() is not None)
        c.end(1)


@rule
def nothing_is_left_of_either_end():
    """Regions and contexts of ends that have come and gone."""
    with Pair() as p:
        for _ in range(20):
            figures(p.measure("bw", "-n", "10", "-s", "64K"), 1, 10)


# ---- two workers, on links that lose what is too much --------------------------------------------------------------------

def qps(pair, nic):
    """QPs that applications have on a NIC."""
    contexts = sample(pair.house, nic, "--handlers")["contexts"].values()
    return [qp for c in contexts if c["handler"] == "rdma" for qp in c["qps"]]


def busy(pair, nic):
    return {qp["worker"] for qp in qps(pair, nic) if qp["state"] == "RTS"}


def many(pair, op, size, *words):
    rows = pair.measure("bw", "--op", op, "-q", "8", "-s", size, "-n", str(FEW), "-t", "8", "--verify", *words)
    figures(rows, 1, 8 * FEW)


@rule
def qps_on_two_workers_share_a_queue_and_each_byte_is_right():
    with Pair(workers=2) as p:
        for op in ("send", "write", "read"):
            for size in ("64", "20000"):
                many(p, op, size)
        many(p, "atomic", "8")
        s = p.serve("bw", "--use-srq")
        c = p.ask("bw", s.port, "--json", "-q", "8", "-s", "4000", "-n", str(10 * FEW), "-t", "8", "--verify")
        rows = [json.loads(line) for line in c.end()]
        figures(rows, 1, 80 * FEW)
        assert rows[0]["srq"] and rows[0]["received"] == 80 * FEW, rows
        s.end()
        s = p.serve("bw")
        c = p.ask("bw", s.port, "--json", "--op", "write", "-q", "16", "-D", "30s", "--verify")
        for nic in ("far", "near"):  # numbers are drawn, and with them workers
            until("QPs on both workers", lambda: busy(p, nic) == {0, 1})
        c.signal(signal.SIGKILL)
        c.end(-signal.SIGKILL)
        s.end(1)


@rule
def one_that_is_killed_under_load_on_two_workers_harms_no_other():
    with Pair(workers=2) as p:
        for op in ("write", "send", "read"):
            other = p.serve("bw")
            good = p.ask("bw", other.port, "--json", "--op", op, "-q", "4", "-s", "8K", "-D", "3s", "--verify")
            s = p.serve("bw")
            c = p.ask("bw", s.port, "--op", op, "-q", "8", "-D", "60s")
            c.line()  # the head of the table
            until("they are at work", lambda: len(busy(p, "far")) == 2 or good.process.poll() is not None)
            victim, left = (s, c) if op == "send" else (c, s)
            victim.signal(signal.SIGKILL)
            left.end(1)
            figures([json.loads(line) for line in good.end()], 1, 1)
            other.end()
        for nic in ("far", "near"):
            until("nothing is left", lambda: not qps(p, nic))
        many(p, "write", "4096")


@rule
def stat_tells_states_of_qps_and_what_was_refused_or_repeated():
    with Pair(workers=2) as p:
        s = p.serve("bw")
        c = p.ask("bw", s.port, "-q", "5", "-D", "60s")
        c.line()
        until("all are connected", lambda: len(qps(p, "near")) == 5 and all(q["state"] == "RTS" for q in qps(p, "near")))
        (name, context), = ((n, v) for n, v in sample(p.house, "near", "--handlers")["contexts"].items() if v["handler"] == "rdma")
        assert context["qps_used"] == 5 and context["qps_in"] == dict(RESET=0, INIT=0, RTR=0, RTS=5, SQD=0, SQE=0, ERR=0), context
        lines, _ = stat(p.house, "near", "--context", name, "--handlers", "--once")
        shown = dict(line.split()[:2] for line in lines[1:] if len(line.split()) > 1)
        assert shown["qps_in.RTS"] == "5" and shown["qps_in.ERR"] == "0" and shown["qps_used"] == "5", lines
        for counter in ("naks_sequence", "naks_invalid", "naks_access", "naks_operation", "naks_rnr", "naks_received",
                        "rnrs_received", "packets_repeated", "timeouts"):
            assert counter in shown or "counters." + counter in shown, (counter, lines)
        c.signal(signal.SIGKILL)
        s.end(1)


atexit.register(Pair.part)
if __name__ == "__main__":
    net.main()
