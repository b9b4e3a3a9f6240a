#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim over networks of packets whose links are noisy, or pause: against published times, closed forms and a recurrence
made here, and what is refused."""

import json
import math
import os
import random
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
from replay import equal, main, rule  # noqa: E402

# A NIC and one switch that together are LogGP with Azure's numbers: L 1.3 us, o 150 ns, G 86 ps a byte; rendezvous beyond
# 4096 bytes. What a packet's header adds is one byte.
L, O, G = 1300000, 150000, 86
AZURE = ["--link", "93023255814", "--link-delay", "0", "--switch-in", "0", "--switch-out", "0", "--flit", "1", "--header", "1", "--crossbar", "64",
         "--pcie", "0", "--tx-delay", "0", "--rx-match", "0", "--transport", "mpi", "--eager", "4096", "--tx-setup", "150ns", "--match", "150ns",
         "--rx-setup", "0", "--copy-byte", "0", "--register", "0", "--register-page", "0", "--latency", "1300ns", "--control", "first",
         "--packet", "128K", "--input-buffer", "1M", "--output-buffer", "1M"]


def goal(run, *arguments):
    process = run.command("sim", "goal", *map(str, arguments), "--json")
    equal((process.returncode, process.stderr), (0, ""), arguments)
    return json.loads(process.stdout)


def azure(run, pattern, ranks, size, *more):
    return goal(run, "--pattern", pattern, "-n", ranks, "-s", size, "--topology", "star:%d" % ranks, *AZURE, *more)["time_ps"]


@rule("without contention, packets take what LogGP's closed forms say, within 1 %: Azure's published times")
def quiet(run):
    for pattern, ranks, size, us in (("dissemination", 4, "16", 3.20), ("dissemination", 64, "16", 9.60774), ("dissemination", 1024, "16", 16.0),
                                     ("pipelinedring", 4, "512M", 46187.698), ("pipelinedring", 16, "512M", 46238.097)):
        got = azure(run, pattern, ranks, size) / 1e6
        assert abs(got / us - 1) < 0.01, (pattern, ranks, got, us)


# ---- noise -----------------------------------------------------------------------------------------------------------------


def spread(below, median, above, count, rng):
    """Values with the quantiles that are known of Azure's traces: exponential from each to the next, away from the median."""
    values = []
    for _ in range(count):
        u = rng.random()
        tail, u = [(0.5, median)] + (above if u > 0.5 else below), min(u, 1 - u)
        for (a, x), (b, y) in zip(tail, tail[1:]):
            if u >= b or b == tail[-1][0]:
                values.append(x + (y - x) * math.log(a / max(u, b)) / math.log(a / b))
                break
    return values


def scaled(values, median):
    """As the published evaluation scaled them: whole ps, cut off, before and after."""
    factor = median / statistics.median(values)
    return [int(v * factor) for v in values]


def trace(run):
    """The files, and the latencies and times of a byte that are drawn from them, in ps."""
    rng = random.Random(1)
    latency = ["%.4f" % v for v in spread([(1e-6, 1.58)], 1.66, [(0.01, 2.39), (0.001, 3.82), (1e-6, 232)], 100000, rng)]  # us
    rate = spread([(0.01, 91.3), (1e-6, 42.8)], 93.1, [(1e-6, 94.6)], 100000, rng)  # Gbit/s
    band = ["%.4f" % ((1 << 24) * 8 / v / 1e3) for v in rate]  # us of 16 MiB
    files = (run.write("lat", "".join("1 %s\n" % v for v in latency)), run.write("bw", "".join("16777216 %s\n" % v for v in band)))
    ls = scaled([int(float(v) * 1e6) for v in latency], L)
    gs = scaled([int(float(v) * 1e6 / (1 << 24)) for v in band], G)
    return files, ls, gs


def dissemination(ls, ranks, rng):
    at, far = [0] * ranks, 1
    while far < ranks:
        came = [0] * ranks
        for i in range(ranks):
            came[(i + far) % ranks] = at[i] + O + 16 * G + rng.choice(ls) + O
        at = [max(came[i], at[i] + O) for i in range(ranks)]
        far *= 2
    return max(at)


def ring(ls, gs, ranks, size, rng):
    """Full duplex: request, answer and put have a latency each, 16 MiB of the put a rate each."""
    got, free, blocks = [0] * ranks, [0] * ranks, size // ranks >> 24
    for _ in range(ranks):
        came = [0] * ranks
        for i in range(ranks):
            put = sum(rng.choice(gs) for _ in range(blocks)) << 24
            came[(i + 1) % ranks] = max(got[i], free[i]) + 2 * O + sum(rng.choice(ls) for _ in range(3)) + put
            free[i] = came[(i + 1) % ranks] + rng.choice(ls)
        got = came
    return max(got)


@rule("with the noise of links, medians are those of a recurrence with the same draws, and near the published ones of Azure")
def noisy(run):
    (lat, band), ls, gs = trace(run)
    noise, rng = ("--noise", "latency:" + lat, "--noise", "bandwidth:" + band), random.Random(2)
    for ranks, runs in ((4, 61), (64, 41)):
        want = statistics.median(dissemination(ls, ranks, rng) for _ in range(1001))
        got = statistics.median(azure(run, "dissemination", ranks, "16", *noise, "--seed", seed) for seed in range(runs))
        assert abs(got / want - 1) < 0.05, (ranks, got, want)
        assert got > 1.05 * azure(run, "dissemination", ranks, "16"), got
    want = statistics.median(ring(ls, gs, 4, 512 << 20, rng) for _ in range(201))
    times = sorted(azure(run, "pipelinedring", 4, "512M", *noise, "--seed", seed) for seed in range(15))
    assert abs(times[7] / want - 1) < 0.01, (times, want)
    assert abs(times[7] / 46.3e9 - 1) < 0.01, times  # full duplex; half duplex loses steps of 11.5 ms
    # Control messages that wait for whole puts lose such steps, too.
    turn = [azure(run, "pipelinedring", 4, "512M", *noise, "--seed", seed, "--control", "in-turn") for seed in range(3)]
    assert min(turn) > 1.2 * times[7], turn


@rule("what one message draws is what its file says, to the picosecond")
def drawn(run):
    one = ("--pattern", "scatter", "-n", 2, "-s", 1000, "--topology", "star:2", "--transport", "rvma", "--sends", "read")
    base = goal(run, *one)["time_ps"]
    equal(goal(run, *one, "--latency", "7us")["time_ps"], base + 7000000)
    file = run.write("three", "# us\n1 2.5\n1 4.25\n9\n")
    times = {goal(run, *one, "--noise", "latency:" + file, "--seed", seed)["time_ps"] - base for seed in range(24)}
    equal(times, {2500000, 4250000, 9000000})
    times = {goal(run, *one, "--noise", "latency:" + file, "--latency", "8.5us", "--seed", seed)["time_ps"] - base for seed in range(24)}
    equal(times, {5000000, 8500000, 18000000})  # twice as long: the median is 8.5
    times = {goal(run, *one, "--noise", "latency:" + file, "--skip", "1/3", "--seed", seed)["time_ps"] - base for seed in range(24)}
    equal(times, {4250000, 9000000})
    # 400 Gbit/s are 20 ps a byte, the median; a third of the draws has half of it, a third three times as much.
    file = run.write("three", "1000 0.04\n1000 0.02\n1000 0.12\n")
    wire = -(-(1000 + 14 + 20 + 8 + 12 + 4 + 24 + 56) // 32) * 32
    times = {goal(run, *one, "--noise", "bandwidth:" + file, "--seed", seed)["time_ps"] - base for seed in range(24)}
    equal(times, {-10 * wire, 0, 40 * wire})
    # All packets of 16 MiB have the same rate, and the next 16 MiB another: 4 of them, of 10, 20 or 60 ps a byte.
    long = ("--pattern", "scatter", "-n", 2, "-s", "64M", "--topology", "star:2", "--transport", "rvma", "--sends", "read", "--header", 1, "--link-delay", 0,
            "--switch-in", 0, "--switch-out", 0, "--pcie", 0, "--tx-delay", 0, "--rx-match", 0, "--packet", "16K", "--crossbar", 64, "--flit", 1)
    shares = [goal(run, *long, "--noise", "bandwidth:" + file, "--seed", seed)["time_ps"] / (1 << 24) for seed in range(12)]
    assert all(abs(s / 10 - round(s / 10)) < 0.02 and 4 <= round(s / 10) <= 24 for s in shares), shares
    assert len({round(s / 10) for s in shares}) > 4, shares


# ---- PFC -------------------------------------------------------------------------------------------------------------------


def incast(run, victim):
    """Seven ranks send 100 messages of 4000 bytes each to rank 0; rank 1 first of all 100 to rank 8, or none."""
    lines = ["num_ranks 9"]
    for rank in range(9):
        lines.append("rank %d {" % rank)
        sends = [(0, 1)] * 100 if 0 < rank < 8 else []
        if victim and rank == 1:
            sends = [pair for one in sends for pair in (one, (8, 2))]
        lines += ["send 4000b to %d tag %d" % pair for pair in sends]
        lines += ["recv 4000b from %d tag 1" % peer for peer in range(1, 8) for _ in range(100) if rank == 0]
        lines += ["recv 4000b from 1 tag 2" for _ in range(100) if victim and rank == 8]
        lines.append("}")
    return run.write("incast.goal", "\n".join(lines) + "\n")


@rule("PFC loses nothing under incast, is as fast as credits where a link is full, and says how often it paused")
def pfc(run):
    at = (incast(run, False), "--topology", "star:9", "--crossbar", 1, "--sends", "read")
    credits, paused = goal(run, *at), goal(run, *at, "--lossless", "pfc")
    equal((credits["lossless"], paused["lossless"], "pauses" in credits), ("credits", "pfc", False))
    equal((credits["messages"], paused["messages"]), (700, 700))
    assert abs(paused["time_ps"] / credits["time_ps"] - 1) < 0.001, (paused, credits)
    assert paused["pauses"] >= 7 and paused["pause_frames"] >= 2 * paused["pauses"] - 7 and paused["paused_s"] > 0, paused
    more = goal(run, *at, "--lossless", "pfc", "--pause-quanta", 300)  # 3.84 us each, repeated after half of that
    assert more["pause_frames"] > paused["pause_frames"] + 10, (more, paused)
    equal(more["time_ps"], paused["time_ps"])
    text = run.command("sim", "goal", *map(str, at), "--lossless", "pfc").stdout
    assert "pauses" in text and "%d of hosts" % paused["pauses"] in text, text
    early = goal(run, *at, "--lossless", "pfc", "--xoff", "8K", "--xon", "4K")
    assert early["pauses"] > paused["pauses"], (early, paused)
    equal(goal(run, "--pattern", "scatter", "-n", 2, "-s", 100, "--topology", "star:2", "--lossless", "pfc")["pauses"], 0)
    # A motif, on switches behind each other: the same messages, and nothing is stuck.
    for network in (("dragonfly:4:4:1:4", "adaptive"), ("fattree:8,8:16", "spray"), ("torus:4x4x4", "minimal")):
        process = run.command("sim", "motif", "halo3d", "--ranks", "64", "--topology", network[0], "--routing", network[1], "--lossless", "pfc", "--json")
        equal((process.returncode, process.stderr), (0, ""))
        equal(json.loads(process.stdout)["messages"], 288 + 126)


@rule("a buffer without the headroom is refused, and the number that is named suffices")
def refused(run):
    at = ("--pattern", "scatter", "-n", "2", "-s", "100", "--topology", "star:2", "--lossless", "pfc", "--link-delay", "10us")
    process = run.command("sim", "goal", *at)
    equal((process.returncode, process.stdout), (1, ""))
    needed = int(process.stderr.split("at least ")[1].split(" bytes")[0])
    packet = -(-(4096 + 14 + 20 + 8 + 12 + 4 + 24 + 56) // 32) * 32
    headroom = packet + math.ceil((2 * 10 * 10**6 + 30000) / 20 + packet + 84)
    equal(needed, packet + headroom)
    goal(run, *at, "--input-buffer", needed)
    equal(run.command("sim", "goal", *at, "--input-buffer", str(needed - 1)).returncode, 1)
    file = run.write("v", "1\n")
    for arguments, words in ((("--xoff", "8K"), "only --lossless pfc has --xoff"), (("--pause-quanta", "9"), "only --lossless pfc has --pause-quanta"),
                             (("--lossless", "drops"), "--lossless must be credits or pfc"), (("--skip", "1/2"), "--skip needs --noise"),
                             (("--noise", "bandwidth:" + file, "--lossless", "pfc"), "--noise bandwidth:FILE needs --lossless credits"),
                             (("--noise", "x:" + file), "--noise must be os:FILE, latency:FILE or bandwidth:FILE")):
        process = run.command("sim", "goal", *at[:8], *arguments)
        equal((process.returncode, process.stdout), (2, ""), arguments)
        assert words in process.stderr, (arguments, process.stderr)
    for kind, text, words in (("latency", "x\n", ":1: this is no number"), ("bandwidth", "0 5\n", ":1: the number of bytes"), ("latency", "0\n", "the median is 0"),
                              ("bandwidth", "", "the file has no values")):
        file = run.write("bad", text)
        process = run.command("sim", "goal", *at[:8], "--noise", "%s:%s" % (kind, file), "--latency", "1us")
        equal((process.returncode, process.stdout), (1, ""), (kind, text))
        assert file in process.stderr and words in process.stderr, process.stderr


if __name__ == "__main__":
    main()
