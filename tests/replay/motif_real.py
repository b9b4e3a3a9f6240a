#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim motif --nics real: what Spindle's own NICs send against what modelled ones do, times against sums made here,
switches that spray or drop, and what is refused."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
from replay import equal, main, rule  # noqa: E402

PCIE, TX, RX, LINK, SWITCH, FLIT = 150000, 50000, 100000, 20000, 60000, 32  # ps, bytes
NETWORK = 2 * LINK + SWITCH
HEADERS = 14 + 20 + 8 + 12 + 4 + 24  # Ethernet, IPv4, UDP, BTH, ICRC, and what a wire adds
PUT, REPORT = HEADERS + 56, HEADERS + 64  # of RVMA: a put's packet, an acknowledgement
FABRIC = ("--topology", "fattree:4,4:4", "--packet", 1024)
HALO = ("halo3d", "--ranks", "2x2x4", "--cells", "30x30x30", "--compute", "100ns")


def motif(run, *arguments):
    process = run.command("sim", "motif", *map(str, arguments), "--json")
    equal((process.returncode, process.stderr), (0, ""), arguments)
    return json.loads(process.stdout)


def real(run, *arguments):
    got = motif(run, *arguments, "--nics", "real")
    equal((got["nics"], got["compared"], got["waited"]), ("real", got["bytes"], 0), arguments)
    assert 1 << 16 < got["nic_bytes"] < 1 << 27, got
    return got


def wire(size):
    """ps on a link of 400 Gbit/s."""
    return -(-size // FLIT) * FLIT * 20


@rule("messages, bytes and the packets that carry them are those of modelled NICs, and what RC acknowledges is each request")
def same(run):
    for arguments in (("sweep3d", "--ranks", "3x3", "--cells", "10x10x5"), ("pingpong", "--ranks", 2, "--message", "64K")):
        for transport in ("rvma", "rdma"):
            at = (*arguments, "--transport", transport)
            model, got = motif(run, *at), real(run, *at)
            for field in ("messages", "bytes", "carrying"):
                equal(got[field], model[field], (at, field))
            equal([got[field] for field in ("early_reads", "again", "dropped", "refused")], [0] * 4, at)
            if transport == "rdma" and "64K" not in at:  # whose acknowledgements come also on the way
                equal(got["packets"] - got["carrying"], 4 * got["messages"], at)


@rule("a ring takes the time of its packets, to the picosecond")
def exact(run):
    for ranks, size in ((2, 0), (5, 10000)):
        packets = [wire(min(4096, size - at) + PUT) for at in range(0, size or 1, 4096)]
        want = 2 * ranks * (PCIE + TX + sum(packets) + NETWORK + RX + PCIE)
        want += NETWORK + wire(REPORT) + 1  # the last acknowledgement leaves at once, or 1 ps after that
        got = real(run, "ring", "--ranks", ranks, "--message", size, "--iterations", 2)
        equal((got["time_ps"], got["carrying"]), (want, 2 * ranks * len(packets)), (ranks, size))


@rule("jobs that share no link end as one alone does, counted from where the program begins")
def jobs(run):
    alone, both = (real(run, "ring", "--ranks", 4, *more) for more in ((), ("--jobs", 2)))
    equal([job["time_ps"] for job in both["jobs"]], [alone["time_ps"]] * 2)
    equal(both["time_ps"], alone["time_ps"])


@rule("where packets are sprayed only polling with selective repeat reads too early, and who goes back N sends much again")
def sprayed(run):
    for routing in ("minimal", "spray"):
        at = (*HALO, *FABRIC, "--routing", routing)
        put, back = real(run, *at), real(run, *at, "--transport", "rdma-polled")
        ahead = real(run, *at, "--transport", "rdma-polled", "--selective")
        equal([got["reordered"] > 0 for got in (put, back, ahead)], [routing == "spray"] * 3)
        equal([got["early_reads"] > 0 for got in (put, back, ahead)], [False, False, routing == "spray"])
        equal(back["again"] > back["carrying"] / 10, routing == "spray", back)


@rule("what full switches drop comes in the end")
def dropped(run):
    for transport in (("rvma",), ("rdma",), ("rdma", "--selective")):
        got = real(run, *HALO, "--topology", "fattree:4,1:4", "--packet", 1024, "--lossy", "--input-buffer", "8K", "--output-buffer", "8K",
                   "--transport", *transport)
        assert got["dropped"] > 0 and got["again"] > 0, got
        equal(got["messages"], 2 * (8 + 8 + 12) + 2 * 15)  # of pairs of neighbours, and the allreduce


@rule("64 ranks, and the same seed the same; a schedule that is read as the motif that wrote it")
def many(run):
    at = ("halo3d", "--ranks", 64, "--cells", "20x20x20", "--topology", "dragonfly:4:4:1:4", "--routing", "adaptive", "--scatter")
    got, again = real(run, *at), real(run, *at)
    file = run.path("schedule.goal")
    equal(run.command("sim", "motif", *map(str, at[:5]), "--write", file).returncode, 0)
    process = run.command("sim", "goal", file, *at[5:], "--nics", "real", "--json")
    equal((process.returncode, process.stderr), (0, ""))
    for fields in (got, again):
        assert fields.pop("wall_s") >= 0 and fields.pop("memory") > fields.pop("nic_bytes")
    equal(got, again)
    equal(got["messages"], 2 * 3 * 48 + 2 * 63)  # of 48 pairs of neighbours in each dimension, and the allreduce
    goal = json.loads(process.stdout)
    for field in ("time_ps", "messages", "bytes", "packets", "events"):
        equal(goal[field], got[field], field)
    text = run.command("sim", "motif", *map(str, at), "--nics", "real").stdout
    for words in ("real NICs, rvma", "%d bytes, each as it was sent" % got["bytes"], "%.9f us" % (got["time_ps"] / 1e6)):
        assert words in text, (words, text)


MISUSE = [
    (("--nics", "some"), "--nics must be"),
    (("--lossy",), "--lossy needs --nics real"),
    (("--nics", "real", "--selective"), "has --selective"),
    (("--transport", "rdma", "--selective"), "has --selective"),
]
FAILURES = [
    (("--transport", "mpi"), "real NICs have the transports rvma, rdma and rdma-polled, not mpi"),
    (("--sends", "read"), "acknowledgements"),
    (("--header", "80"), "headers"),
    (("--packet", "8K"), "64 to 4096"),
    (("--packet", "1000", "--transport", "rdma"), "256, 512, 1024, 2048 or 4096"),
    (("--message", "0", "--transport", "rdma-polled"), "no last byte"),
    (("--message", "2G"), "2147483648 bytes at once"),
    (("--ranks", "4096", "--message", "1G"), "4096 ranks would take 2.46e+04 GiB"),
    (("--ranks", "10000", "--topology", "torus:22x22x22"), "at most 8192 real NICs"),
]


@rule("what cannot be is told")
def misuse(run):
    for arguments, words in MISUSE:
        process = run.command("sim", "motif", "ring", *arguments)
        equal((process.returncode, process.stdout), (2, ""), arguments)
        assert words in process.stderr, (arguments, process.stderr)
    for arguments, words in FAILURES:
        process = run.command("sim", "motif", "ring", "--nics", "real", *arguments)
        equal((process.returncode, process.stdout), (1, ""), arguments)
        assert words in process.stderr and process.stderr.count("\n") == 1, (arguments, process.stderr)


if __name__ == "__main__":
    main()
