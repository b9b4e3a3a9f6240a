#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle send` and `spindle recv` over a long and bad link between two real ports: three network namespaces, a NIC in each of
the outer ones, and `spindle wire` in the middle."""

import hashlib
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from hosts import MB, ends_badly, kept, large, until_kept  # noqa: E402
from net import Skip, rule, sanitized, until  # noqa: E402
from served import Process  # noqa: E402
from wired import BadLink  # noqa: E402


def across(h, size, *words, timeout=120):
    """Sends so many bytes; what both ends say of it, that of the sender first."""
    path, data = h.source(size)
    r = h.recv("--once", "--json")
    s = h.send(path, r, "--json", *words)
    told = [json.loads(p.end(timeout=timeout)[-1]) for p in (s, r)]
    digest = hashlib.sha256(data).hexdigest()
    assert [t["sha256"] for t in told] == [digest] * 2 and hashlib.sha256(h.arrived()).hexdigest() == digest
    assert h.files() == ["source"] and [t["resumed_at"] for t in told] == [0, 0]
    for name in ("reliability", "chunks_repeated", "chunks_repeated_needlessly", "parity_chunks", "chunks_repaired", "round_trip",
                 "chunk_bytes"):
        assert told[0][name] == told[1][name] or name == "round_trip", (name, told)
    os.unlink(h.path("in", "source"))
    return told[0]


def missed(h):
    """Packets that came to a NIC's port and that it had no room for."""
    run = [subprocess.run([net.SPINDLE, "stat", "--json", nic.socket], env=h.environment(), capture_output=True, timeout=60, check=True)
           for nic in (h.far_nic, h.near_nic)]
    return sum(port["missed"] + port["no_buffers"] + (port["kernel_drops"] or 0) for r in run for port in json.loads(r.stdout)["ports"])


def fair(h, report):
    """Skips where not only the link has lost packets, but queues that nobody came to empty in time."""
    names = ("kernel_drops", "refused", "queue_dropped", "memory_dropped")
    if missed(h) or any(report[way][n] for way in ("there", "back") for n in names):
        raise Skip("this machine loses packets itself")


def plausible(told, report):
    """What was sent again, against what the wire says that it has lost; which are single packets, hardly ever two of one chunk,
    most of them data."""
    there = report["back"]
    assert told["round_trip"] >= 0.020, told
    assert told["chunks_repeated"] >= 0.5 * there["lost"] > 0, (told, report)
    assert told["chunks_repeated_needlessly"] <= told["chunks_repeated"], told


ONE_PERCENT = ("--loss", "0.01", "--delay", "10ms", "--seed", "3")


@rule
def sixty_four_mebibytes_arrive_by_nack_with_one_percent_lost_and_20_ms():
    with BadLink(*ONE_PERCENT) as h:
        told = across(h, large())
        assert told["reliability"] == "sr-nack", told
        plausible(told, h.cut())


@rule
def sixteen_mebibytes_arrive_by_rto_with_one_percent_lost_and_20_ms():
    with BadLink(*ONE_PERCENT) as h:
        told = across(h, large() // 4, "--reliability", "sr-rto")
        assert told["reliability"] == "sr-rto", told
        plausible(told, h.cut())


@rule
def a_gibibyte_arrives_by_nack_with_one_percent_lost_and_20_ms():
    if not os.environ.get("SPINDLE_LONG"):
        raise Skip("takes long: SPINDLE_LONG=1 runs it")
    with BadLink(*ONE_PERCENT) as h:
        told = across(h, (1024 if not sanitized() else 128) * MB, timeout=300)
        plausible(told, h.cut())


@rule
def no_more_chunks_are_sent_again_than_packets_were_lost():
    """At a rate that the queues of most machines take."""
    for scheme in ("sr-nack", "sr-rto"):
        with BadLink(*ONE_PERCENT) as h:
            told = across(h, 2 * MB, "--rate", "40M", "--reliability", scheme)
            report = h.cut()
            fair(h, report)
            plausible(told, report)
            there = report["back"]
            assert told["chunks_repeated"] - told["chunks_repeated_needlessly"] <= there["lost"], (told, there)


@rule
def erasure_codes_repair_what_is_lost():
    for scheme in ("ec-mds", "ec-xor", "auto"):
        with BadLink(*ONE_PERCENT) as h:
            told = across(h, 4 * MB, "--rate", "100M", "--reliability", scheme, "--message", "1M")
            assert told["reliability"] == scheme, told
            if scheme != "auto": # which may do without
                assert told["parity_chunks"] > 0 and told["chunks_repaired"] > 0, told
            report = h.cut()
            fair(h, report)
            # A chunk has eleven packets: one in nine is hit, so of 32 and 8 sometimes more than 8 are.
            if scheme == "ec-mds":
                assert told["chunks_repeated"] < told["chunks_repaired"], told


@rule
def bursts_reordering_and_repeats_spoil_nothing():
    with BadLink("--loss", "0.02", "--burst", "20", "--reorder", "0.05", "--reorder-delay", "3ms", "--duplicate", "0.05", "--jitter",
                 "1ms", "--corrupt", "0.001", "--delay", "5ms", "--seed", "5") as h:
        h.chatter()
        for scheme in ("sr-nack", "sr-rto"):
            told = across(h, 2 * MB, "--reliability", scheme, "--message", "256K")
            assert told["chunks_repeated"] > 0, told
        report = h.cut()["back"]
        assert min(report[n] for n in ("lost", "reordered", "duplicated", "corrupted")) > 0, report


@rule
def nothing_is_sent_again_where_nothing_is_lost():
    """Over the same distance, with packets that come twice. (None overtakes another here: where processes share processors, one
    may do so by more than what is taken for loss.)"""
    with BadLink("--duplicate", "0.05", "--delay", "10ms") as h:
        told = [across(h, 2 * MB, "--rate", "40M", "--reliability", scheme) for scheme in ("sr-nack", "sr-rto")]
        report = h.cut()
        fair(h, report)
        assert report["back"]["duplicated"] > 0 and [t["chunks_repeated"] for t in told] == [0, 0], (told, report)


@rule
def a_path_that_was_cut_is_no_reason_to_begin_anew():
    with BadLink(*ONE_PERCENT) as h:
        path, data = h.source(8 * MB)
        r = h.recv("--resume", "--json", "--timeout", "2")
        s = h.send(path, r, "--rate", "20M", "--timeout", "2")
        until_kept(h, MB)
        h.cut()
        ends_badly(s, "for 2 s")
        until("recv says so", lambda: "bytes are kept" in r.stderr())
        had = kept(h)
        h.connect(*ONE_PERCENT)
        s = h.send(path, r, "--json")
        told = [json.loads(line) for line in (*s.end(), r.line())]
        assert [t["resumed_at"] for t in told] == [had, had] and had >= MB, (told, had)
        assert h.arrived() == data and h.files() == ["source"]


def counts(h, nic, name):
    """Of all contexts of a NIC."""
    run = subprocess.run([net.SPINDLE, "stat", "--json", nic.socket], env=h.environment(), capture_output=True, timeout=60,
                         check=True)
    found, left = [], [json.loads(run.stdout)]
    while left:
        x = left.pop()
        if isinstance(x, dict):
            found += [x[name]] if isinstance(x.get(name), int) else []
        left += [v for v in (x.values() if isinstance(x, dict) else x) if isinstance(v, (dict, list))]
    return sum(found)


@rule
def a_qp_repeats_selectively_where_both_want_it_and_every_byte_is_right():
    with BadLink("--loss", "0.01", "--delay", "5ms", both="\n[context cm]\nhandler = cm\nqp = 1\nselective = yes\n") as h:
        s = Process([net.SPINDLE, "rdma", "bw", "--nic", "far", "--port", "0", "--json", "--events", "--keep"], env=h.environment(),
                    space=h.space)
        h.closing.append(s.kill)
        port = str(json.loads(s.line())["port"])
        for op in ("write", "send", "read"):
            for words in ((), ("--selective",)):
                c = Process([net.SPINDLE, "rdma", "bw", "--nic", "near", net.NIC4, "--port", port, "--json", "--events", "--verify", "--op",
                             op, "-s", "64K", "-n", "100", "-t", "16", *words], env=h.environment())
                h.closing.append(c.kill)
                row = json.loads(c.end(timeout=120)[-1])
                assert row["bad"] == 0 and row["iterations"] == 100, row
                ahead = counts(h, h.far_nic, "placed_ahead"), counts(h, h.far_nic, "kept_ahead")
                assert (sum(ahead) > 0) == (op != "write" or bool(words)), (op, words, ahead)
        s.signal(signal.SIGTERM)
        s.end()


@rule
def both_ends_of_a_qp_end_in_order_where_much_gets_lost():
    with BadLink("--loss", "0.15", "--delay", "1ms") as h:
        s = Process([net.SPINDLE, "rdma", "bw", "--nic", "far", "--port", "0", "--json", "--events", "--keep"], env=h.environment(),
                    space=h.space)
        h.closing.append(s.kill)
        port = str(json.loads(s.line())["port"])
        for _ in range(12):  # the server may not have heard yet that the client before has gone
            c = Process([net.SPINDLE, "rdma", "bw", "--nic", "near", net.NIC4, "--port", port, "--json", "--events", "-s", "64", "-n", "1"],
                        env=h.environment())
            h.closing.append(c.kill)
            assert json.loads(c.end(timeout=120)[-1])["iterations"] == 1
        s.signal(signal.SIGTERM)
        s.end()


if __name__ == "__main__":
    net.main()
