# SPDX-License-Identifier: BSD-3-Clause
"""The cost of repairs, which the paper's model leaves out: messages of 128 MiB, by the number of workers of the receiving NIC, each of
which repairs as fast as one processor here. For comparison: the workers needed to receive at line rate."""

import math

from engine import LARGE, LARGE_CHUNK, LINE, LONG
from lab import TAIL, size
from messages import LOSS, notes, row
from plot import COLOURS, Figure, Panel, Series

GBPS, MESSAGE, CHUNK, DROP, RTT, K, M = 400, "128M", "64K", "1e-2", 0.025, 32, 8
LEAST = size(MESSAGE) * (K + M) / K * 8 / (GBPS * 1e9) + RTT  # s: to inject data and parity, and a round trip
MOST = 16  # workers
RUNS, ROUNDS, ROUND = 9, 101, 0.001  # s: so short that the kernel interrupts few of them, even under load


def receiving(lab):
    """Least cycles per packet of 4 KiB over all rounds, packets per second of one worker at that, and the processor's name."""
    options = ("--message-packets", str(LONG), "--chunk-packets", str(LARGE_CHUNK), "--rounds", str(ROUNDS), "--seconds", str(ROUND))
    best = min((lab.bench(LARGE, *options, run=run)[0] for run in range(RUNS)), key=lambda result: result["best"])
    return best["best"], best["tsc_hz"] / best["best"], best["cpu"]


def figure_repair(lab):
    cycles, received, cpu = receiving(lab)
    workers = min(math.ceil(LINE[GBPS] * 1e6 / received), MOST)
    rate = lab.repair_rate()
    rows, counts, mean, tail = [], [], [], []
    for n in sorted({1, 2, 4, 8, workers}):
        got = lab.packets(
            "ec-mds", most=TAIL, message=MESSAGE, chunk=CHUNK, drop=DROP, repair_rate=str(rate), repair_workers=str(n)
        )
        if not got:
            break
        rows.append(row(got, x=n))
        counts.append(got["samples"])
        mean.append((n, got["mean_s"] / LEAST, got["mean_error_s"] / LEAST))
        if got["samples"] >= TAIL:
            tail.append((n, got["p999_s"] / LEAST))
    names = [str(point[0]) for point in mean]
    panel = Panel(
        "chunks of 64 KiB, P = 1e-2, decoding included",
        "workers of the receiving NIC",
        "time / (injection of data and parity + RTT)",
        [
            Series("mean", [(str(n), *rest) for n, *rest in mean], "points", COLOURS["ec-mds"]),
            *([Series("99.9 %", [(str(n), v) for n, v in tail], "points", COLOURS["sr-rto"])] if tail else []),
            Series("1.05", [(name, 1.05) for name in names], "dashes", "#888888"),
        ],
        names=names,
        least=1,
    )
    needs = Panel(
        "receiving, as many times what one worker does",
        "workers",
        "million packets of 4 KiB/s",
        [
            Series("Spindle", [(name, int(name) * received / 1e6) for name in names]),
            Series("%d Gbit/s" % GBPS, [(name, LINE[GBPS]) for name in names], "dashes", "#888888"),
        ],
        names=names,
        least=0,
    )

    def at(points, n):
        return next(("%.3f" % p[1] for p in points if p[0] == n), None)

    claims = [
        ("one worker receives packets of 4 KiB, of which %d Gbit/s are %.1f Mpkt/s" % (GBPS, LINE[GBPS]), None, None)
        + ("%.0f cycles, %.1f Mpkt/s: %d workers" % (cycles, received / 1e6, workers),),
        ("one worker repairs one loss in 32 chunks, bytes multiplied and added", None, None, "%.1f GB/s" % (rate / 8e9)),
    ]
    for n in dict.fromkeys((1, workers)):
        for name, points in (("mean", mean), ("99.9 %", tail)):
            what = "MDS (32,8), P = 1e-2, decoding included, over data and parity + RTT, %d worker%s, %s"
            claims.append((what % (n, "s" if n > 1 else "", name), "decoding takes no time", "1.00", at(points, n)))
    return Figure(
        "repair",
        "What repairs cost: 128 MiB, 400 Gbit/s, 25 ms, MDS (32,8)",
        "Time of messages over what data and parity take to inject and a round trip. Each worker repairs as fast as one processor of "
        "this machine, from memory; submessages are repaired by the workers whose packets have made it possible. How many workers the "
        "line's rate takes anyway is spindle bench's, of messages of 512 KiB: the least cycles that a packet took in %d rounds of "
        "%.0f ms, so that what else the machine did counts little; caches and memory are shared all the same." % (RUNS * ROUNDS, 1e3 * ROUND),
        [panel, needs] if mean else [],
        rows,
        claims,
        [*notes(lab, counts, LOSS), cpu],
    )
