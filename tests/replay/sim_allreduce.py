#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim allreduce: rings of NICs, packet by packet. Every node has the sum, and the times are those of the recurrence of the
paper's appendix."""

import json
import math
import os
import random
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

WIRE = 14 + 20 + 8 + 12 + 16 + 4 + 4 + 24  # Ethernet, IPv4, UDP, BTH, RETH, ImmDt, ICRC; preamble, FCS and gap
RTT = 0.025
MISUSE = [
    (("allreduce", "--model"), "allreduce is simulated by packets only: it has no --model"),
    (("sdr", "--nodes", "4"), "only allreduce has --nodes"),
    (("allreduce", "sdr"), "extra argument sdr"),
    (("allreduce", "--message", "2049M", "--nodes", "2"),
     "--message / --nodes must be at most --mtu * 2^18 without --model: 1074266112 is more than 1073741824"),
    (("allreduce", "--beta", "1", "--scheme", "ec-mds"), "only --model has --beta"),
]


def sim(run, *arguments, what="allreduce"):
    process = run.command("sim", what, "--json", *arguments)
    equal((process.returncode, process.stderr), (0, ""), arguments)
    got = json.loads(process.stdout)
    del got["wall_s"]
    return got


@rule("without losses every round takes what its packets take on the wire and a round trip; every node has the sum of all, byte by byte")
def no_losses(run):
    for nodes, message, mtu in ((2, 1 << 20, 4096), (3, 1000003, 1024), (16, 100, 4096)):
        got = sim(run, "--nodes", str(nodes), "--message", str(message), "--mtu", str(mtu), "--drop", "0", "--samples", "2", "--bandwidth",
                  "10G", "--rtt", "2ms")
        segment = -(-message // nodes)
        packets, rounds = -(-segment // mtu), 2 * (nodes - 1)
        want = rounds * ((-(-segment // 4) * 4 + packets * WIRE) * 8 / 10e9 + 2e-3)
        assert want < got["mean_s"] < want + rounds * 10 * 2e-3 / 8192, (nodes, want, got["mean_s"])
        equal((got["nodes"], got["message"], got["mean_s"], got["packets"]), (nodes, message, got["lossless_s"], 2 * nodes * rounds * packets))
        equal(got["verified"], 2 * nodes * nodes * segment)


@rule("whatever happens to packets, every node has the sum in the end")
def sums(run):
    for scheme, more in (("sr-rto", ()), ("sr-nack", ("--jitter", "100us", "--reorder", "0.05", "--duplicate", "0.05")), ("ec-mds", ()),
                         ("ec-xor", ("--ec", "8,2")), ("auto", ())):
        for nodes in (2, 5):
            got = sim(run, "--scheme", scheme, "--nodes", str(nodes), "--message", "3000001", "--chunk", "16K", "--drop", "0.03",
                      "--samples", "3", *more)
            segment = -(-3000001 // nodes)
            equal((got["verified"], got["payload_less"]), (3 * nodes * nodes * segment, False), (scheme, nodes))
            equal(got["packets"], 3 * nodes * 2 * (nodes - 1) * -(-segment // 4096) + got["retransmitted_packets"])
            assert scheme.startswith("sr") <= (got["retransmitted_packets"] > 0) and got["lossless_s"] <= got["mean_s"], got


def recurrence(times, nodes, allreduces):
    """Mean of allreduces; how long each message takes is drawn. A node's message is there half a round trip before it knows."""
    x, took = random.Random(1), []
    for _ in range(allreduces):
        begin, end = [0.0] * nodes, [0.0] * nodes
        for _ in range(2 * nodes - 2):
            end = [at + x.choice(times) for at in begin]
            begin = [max(end[i], end[i - 1] - RTT / 2) for i in range(nodes)]
        took.append(max(end))
    return statistics.mean(took)


@rule("the mean is that of the recurrence of the paper's appendix with messages' times by the model, within 5 % and four standard errors")
def the_recurrence(run):
    for scheme, nodes, drop in (("sr-rto", 2, "1e-2"), ("sr-rto", 5, "1e-2"), ("sr-nack", 4, "3e-2")):
        arguments = ("--scheme", scheme, "--drop", drop)
        with tempfile.TemporaryDirectory(prefix="spindle-allreduce-") as folder:
            file = os.path.join(folder, "times")
            sim(run, *arguments, "--model", "--samples", "20000", "--message", "1M", "--times", file, what="sdr")
            with open(file) as f:
                times = [float(line) for line in f]
        got = sim(run, *arguments, "--nodes", str(nodes), "--message", "%dM" % nodes, "--samples", "100", "--payload-less")
        want = recurrence(times, nodes, 4000)
        bound = 0.05 * want + 4 * got["mean_error_s"]
        assert math.fabs(got["mean_s"] - want) < bound, (scheme, nodes, got["mean_s"], want, bound)


@rule("where chunks are lost, 99 of 100 allreduces with parity have ended long before those with timeouts")
def parity(run):
    arguments = ("--drop", "1e-2", "--message", "8M", "--samples", "30", "--payload-less")
    sr, ec = (sim(run, "--scheme", scheme, *arguments) for scheme in ("sr-rto", "ec-mds"))
    assert 2 * ec["p99_s"] < sr["p99_s"], (ec["p99_s"], sr["p99_s"])
    assert ec["repaired_chunks"] > 0 and not ec["fallbacks"] and sr["nodes"] == 4, (ec, sr)


@rule("the same seed gives the same figures, however many processes share the work, with payload or without; another seed gives others")
def seeds(run):
    arguments = ("--nodes", "3", "--message", "1M", "--drop", "0.02", "--samples", "20")
    one, two, less, other = (sim(run, *arguments, *more)
                             for more in (("-j", "1"), ("-j", "3"), ("--payload-less",), ("--seed", "2", "--payload-less")))
    equal(one, two)
    equal((one.pop("verified"), less.pop("verified")), (20 * 3 * 3 * -(-(1 << 20) // 3), 0))
    equal((one.pop("payload_less"), less.pop("payload_less")), (False, True))
    equal(one, less)
    assert other["mean_s"] != less["mean_s"], other


@rule("the table says what is added up, by how many")
def table(run):
    process = run.command("sim", "allreduce", "--nodes", "3", "--message", "100000", "--samples", "1", "--drop", "0")
    equal((process.returncode, process.stderr), (0, ""))
    equal(process.stdout.splitlines()[0], "allreduce of 100000 bytes in a ring of 3 nodes, in 4 rounds")
    assert "messages of 33334 bytes" in process.stdout and "%d bytes compared at the receiver" % (3 * 3 * 33334) in process.stdout


@rule("what cannot be given, or not together, is named, exit status 2")
def misuse(run):
    for arguments, words in MISUSE:
        process = run.command("sim", *arguments)
        equal((process.returncode, process.stderr.splitlines()[0], process.stdout), (2, "spindle sim: " + words, ""), arguments)
    for value in ("0", "1", "17", "-1", "x"):
        process = run.command("sim", "allreduce", "--nodes", value)
        equal((process.returncode, process.stdout, process.stderr),
              (2, "", "spindle sim: --nodes must be 2 to 16, not %s\n" % value))


if __name__ == "__main__":
    main()
