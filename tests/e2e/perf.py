#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle perf` between two hosts, each with a kernel and a NIC: what is sent arrives, both ends say the same, and figures
agree with each other. How fast it is, no rule asks."""

import json
import os
import re
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from hosts import Hosts, hosts  # noqa: E402
from net import plain, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

OPS = ("sdr", "rvma", "rdma")


def server(h, *words, once=True):
    s = h.command("perf", "server", "--listen", h.host + ":0", "--json", *(("--once",) if once else ()), *words, nic="far", space=h.space)
    s.where = json.loads(s.line())["listening"]
    return s


def client(h, where, *words, status=0):
    c = h.command("perf", "client", where, *words)
    lines = c.end(status)
    assert "Sanitizer" not in c.stderr(), c.stderr()[-3000:]
    return lines if status == 0 else c.stderr()


def near(a, b):
    return abs(a - b) <= 0.01 * max(a, b)


def whole(said):
    """What must be true of any outcome. Returns it."""
    size = said["size"]
    for end in ("here", "peer"):
        for way in ("sent", "received"):
            one = said[end][way]
            assert one["bytes"] == one["messages"] * size, said
            assert near(one["bits_per_second"] * said[end]["seconds"], one["bytes"] * 8), said
        assert said[end]["seconds"] > 0 and said[end]["cpu_percent"]["program"] > 0 and said[end]["cpu_percent"]["nic"] > 0, said
    for way, other in (("sent", "received"), ("received", "sent")):
        assert said["here"][way]["messages"] == said["peer"][other]["messages"], said
        assert sum(row[way]["messages"] for row in said["intervals"]) == said["here"][way]["messages"], said
    at = 0
    for row in said["intervals"]:
        assert row["begin"] == at and row["end"] >= at, said["intervals"]
        at = row["end"]
    assert said["here"]["seconds"] >= at
    return said


def mirrored(ours, theirs):
    """The server says the same, from its side."""
    assert [theirs[k] for k in ("op", "way", "size", "depth")] == [ours[k] for k in ("op", "way", "size", "depth")]
    for mine, its in (("here", "peer"), ("peer", "here")):
        for way in ("sent", "received"):
            assert ours[mine][way] == theirs[its][way], (ours, theirs)


def run(h, op, *words):
    s = server(h)
    said = whole(json.loads(client(h, s.where, "--op", op, "--json", *words)[-1]))
    lines = s.end(0)
    mirrored(said, whole(json.loads(lines[-1])))
    assert said["op"] == op
    return said


@rule
def bytes_arrive_in_each_direction_and_both_with_each_op():
    with hosts() as h:
        for op in OPS:
            for way, words in (("forward", ()), ("reverse", ("--reverse",)), ("bidir", ("--bidir",))):
                said = run(h, op, "--bytes", "3000001", "--size", "30000", *words)
                assert said["way"] == way
                # 101 messages of each who sends
                assert said["here"]["sent"]["messages"] == (0 if way == "reverse" else 101), (op, said)
                assert said["here"]["received"]["messages"] == (0 if way == "forward" else 101), (op, said)


@rule
def for_a_time_it_shows_intervals():
    with hosts() as h:
        for op in OPS:
            said = run(h, op, "--time", "300ms", "--interval", "100ms", "--bidir")
            assert len(said["intervals"]) >= 3 and said["here"]["seconds"] >= 0.3, said
            assert said["here"]["sent"]["messages"] > 0 and said["here"]["received"]["messages"] > 0, said


@rule
def round_trips_have_percentiles_in_order_and_a_histogram_of_all():
    with hosts() as h:
        for op in OPS:
            said = run(h, op, "--latency", "--bytes", "6400")
            trip = said["round_trip_us"]
            assert said["size"] == 64 and trip["count"] == 100 == said["here"]["sent"]["messages"] == said["here"]["received"]["messages"], said
            order = [trip[k] for k in ("min", "p50", "p90", "p99", "p99.9", "max")]
            assert order == sorted(order) and order[0] > 0 and trip["min"] <= trip["mean"] <= trip["max"], trip
            bounds = [bound for bound, _ in trip["histogram"]]
            assert bounds == sorted(bounds) and sum(n for _, n in trip["histogram"]) == 100, trip
            assert bounds[0] >= trip["min"] and bounds[-1] >= trip["max"] and (bounds[-1] == 1 or trip["max"] > bounds[-1] / 2), trip
            below = sum(n for bound, n in trip["histogram"] if bound < trip["p50"])
            assert below < 51, trip


@rule
def what_is_lost_is_sent_again_and_counted_once():
    with Hosts(drop=lambda near, number: number % 20 == 3) as h:
        said = run(h, "sdr", "--bytes", "2000000", "--size", "20000", "--bidir")
        assert said["here"]["received"]["messages"] == said["here"]["sent"]["messages"] == 100, said


@rule
def a_server_serves_one_client_after_the_other_until_a_signal():
    with hosts() as h:
        s = server(h, once=False)
        for op in OPS:
            text = "\n".join(client(h, s.where, "--op", op, "--bytes", "100000", "--size", "1000"))
            assert re.search(r"^here:  sent 100 messages, 0\.10 MB, .* Gbit/s  in .* s; processors: program \d+%, NIC \d+%$", text, re.M), text
            assert re.search(r"^peer:  received 100 messages", text, re.M), text
            assert json.loads(s.line())["here"]["received"]["messages"] == 100
        text = "\n".join(client(h, s.where, "--latency", "--bytes", "640"))
        assert re.search(r"^round trips: 10; us: least [\d.]+, mean [\d.]+, p50 [\d.]+, p90 [\d.]+, p99 [\d.]+, p99.9 [\d.]+, most [\d.]+$", text, re.M), text
        s.line()
        s.signal(signal.SIGINT)
        s.end(0)


@rule
def an_end_that_goes_or_says_rubbish_ends_the_other_with_a_reason():
    with hosts() as h:
        s = server(h, once=False)
        host, port = s.where.rsplit(":", 1)
        for rubbish, words in ((b"GET / HTTP/1.1\r\n\r\n", "no spindle perf"), (b'{"spindle":"file"}\n', "no spindle perf"),
                               (b'{"spindle":"perf","version":99}\n', "another version"), (b"", "has gone"),
                               (b'{"spindle":"perf","version":1,"op":7,"size":1,"depth":1,"way":0,"time":1,"messages":0}\n', "there is not"),
                               (b'{"spindle":"perf","version":1,"op":0,"size":1,"depth":1,"way":0,"time":1,"messages":0,"info":{"qp":"00"}}\n', "connecting")):
            told = s.stderr()
            with socket.create_connection((host, int(port))) as c:
                c.sendall(rubbish)
                c.shutdown(socket.SHUT_WR)
                until("it says so: " + words, lambda: words in s.stderr()[len(told):])
        c = h.command("perf", "client", s.where, "--time", "100s", "--interval", "50ms")
        c.line()  # it measures
        c.kill()
        until("the server has noticed", lambda: s.stderr().count("the peer has gone") == 2)
        assert client(h, s.where, "--bytes", "1000")  # and serves the next one
        c = h.command("perf", "client", s.where, "--time", "100s", "--interval", "50ms")
        c.line()
        s.kill()
        c.end(1)
        assert "the peer has gone" in c.stderr() or "connecting" in c.stderr(), c.stderr()


@plain
@rule
def wrong_usage_is_said_with_status_2():
    with House() as h:
        for words in ([], ["neither"], ["client"], ["server", "x"], ["client", "x", "--once"], ["server", "--op", "sdr"], ["client", "x", "--reverse", "--bidir"],
                      ["client", "x", "--time", "1s", "--bytes", "1"], ["client", "x:y"]):
            p = Process([net.SPINDLE, "perf", *words], env=h.environment())
            assert p.end(2) == [] and "usage:" in p.stderr(), (words, p.stderr())
        for option, value in (("--op", "tcp"), ("--size", "0"), ("--size", "17M"), ("--depth", "65"), ("--time", "0s"), ("--interval", "1ms")):
            p = Process([net.SPINDLE, "perf", "client", "x", option, value], env=h.environment())
            p.end(2)
            assert "spindle perf: %s must be " % option in p.stderr(), p.stderr()
        for words in (("client", "127.0.0.1:1"), ("server", "--listen", "127.0.0.1:0"), ("server", "--listen", "127.0.0.1:0", "--once", "--json")):
            p = Process([net.SPINDLE, "perf", *words, "-n", "nobody"], env=h.environment())
            assert p.end(1) == [], words  # a server does not listen first
            assert re.search(r"NIC nobody is not running \(.*\); 'spindle run' starts one", p.stderr()) and p.stderr().count("\n") == 1, p.stderr()


if __name__ == "__main__":
    net.main()
