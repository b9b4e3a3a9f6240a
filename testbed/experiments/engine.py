# SPDX-License-Identifier: BSD-3-Clause
"""Figures 14 to 16: receive rates of one processor. The paper used a BlueField-3's data path accelerator with many slow threads;
here a thread is a worker of the engine, on a processor of this machine, and the port is a capture in memory."""

import statistics

from lab import processors
from plot import Figure, Panel, Series

SMALL, LARGE = "sdr-receive-64", "sdr-receive-4096"
LARGE_CHUNK = 16  # packets: 64 KiB
ROUNDS = 3  # of each point
NOISY = 0.15  # of the rounds: (most - least) / median
LONG = 128  # packets of a message: the longest of spindle bench
LINE = {400: 12.2, 800: 24.4, 1600: 48.8, 3200: 97.7}  # Gbit/s: packets of 4 KiB, Mpkt/s


class Measured:
    """Packets per second of the engine, and of the port alone: sums over workers, each with its own NIC; medians of the rounds."""

    def __init__(self, case, message, chunk, workers, rounds):
        mine, port = ([sum(r["tsc_hz"] / r[side] for r in results) for results in rounds] for side in ("value", "baseline_value"))
        self.rate, self.port, self.cpu = statistics.median(mine), statistics.median(port), rounds[0][0]["cpu"]
        self.spread = (max(mine) - min(mine)) / self.rate
        bytes_ = int(case.rsplit("-", 1)[1])
        self.row = {
            "case": case,
            "workers": workers,
            "packet_bytes": bytes_,
            "message_packets": message,
            "chunk_packets": chunk,
            "Mpkt_s": self.rate / 1e6,
            "Gbit_s": self.rate * bytes_ * 8e-9,
            "port_alone_Mpkt_s": self.port / 1e6,
            "turns": len(rounds),
            "spread": self.spread,
        }


def measure(lab, points):
    """Measures points (case, packets of a message, of a chunk, workers) in alternation, because the machine's speed drifts."""
    rounds = [
        [
            lab.bench(case, "--message-packets", str(message), "--chunk-packets", str(chunk), workers=workers, run=run)
            for case, message, chunk, workers in points
        ]
        for run in range(ROUNDS)
    ]
    return [Measured(*point, list(results)) for point, results in zip(points, zip(*rounds))]


def notes(lab, measured):
    spread = max(m.spread for m in measured)
    return [
        "%s, 1 to %d processors" % (measured[0].cpu, processors()[-1]),
        "medians of %d rounds, which differ by up to %.0f %%%s"
        % (ROUNDS, 100 * spread, ": the machine was busy" if spread > NOISY else ""),
        "nothing is lost, and nothing drawn (no seed)",
    ]


def figure14(lab):
    sizes = [2, 4, 8, 16, 32, 64, LONG]
    by_size = measure(lab, [(LARGE, n, LARGE_CHUNK, 1) for n in sizes])
    by_workers = measure(lab, [(LARGE, LONG, LARGE_CHUNK, w) for w in processors()])
    names = ["%dK" % (4 * n) for n in sizes]
    panels = [
        Panel(
            "one worker, chunks of 64 KiB",
            "bytes of a message",
            "Gbit/s of payload",
            [
                Series("Spindle", [(n, m.row["Gbit_s"]) for n, m in zip(names, by_size)]),
                Series("the port alone", [(n, m.port * 4096 * 8e-9) for n, m in zip(names, by_size)], "dashes", "#555555"),
            ],
            names=names,
            least=0,
        ),
        Panel(
            "messages of 512 KiB",
            "workers",
            "Gbit/s of payload",
            [Series("Spindle", [(str(w), m.row["Gbit_s"]) for w, m in zip(processors(), by_workers)])],
            names=[str(w) for w in processors()],
            least=0,
            bars=True,
        ),
    ]
    claims = [
        (
            "throughput, messages of 512 KiB",
            "400 Gbit/s, the line (20 threads)",
            "%.0f Gbit/s (1 worker)" % by_size[-1].row["Gbit_s"],
        ),
        (
            "messages from which the rate is within 10 % of that of 512 KiB",
            "512 KiB",
            next(name for name, m in zip(names, by_size) if m.rate > 0.9 * by_size[-1].rate) if by_size else None,
        ),
        (
            "messages of 8 KiB beside those of 512 KiB",
            "less: receives are posted anew",
            "%.2f" % (by_size[0].rate / by_size[-1].rate),
        ),
    ]
    return Figure(
        "fig14",
        "Figure 14: throughput by message size and by workers",
        "Receives are completed and posted anew on the same processor: 16 at once, more where a message has fewer than 8 packets. "
        "Payload is copied to its place. The port alone: packets received and freed.",
        panels,
        [dict(m.row, panel=p) for p, ms in (("size", by_size), ("workers", by_workers)) for m in ms],
        claims,
        notes(lab, by_size + by_workers),
    )


def figure15(lab):
    chunks = [1, 2, 4, 8, 16, 32, 64]
    measured = measure(lab, [(SMALL, 64, n, 1) for n in chunks])
    names = [str(n) for n in chunks]
    panels = [
        Panel(
            "packets of 64 bytes, one worker",
            "packets of a chunk",
            "million packets/s",
            [Series("Spindle", [(n, m.row["Mpkt_s"]) for n, m in zip(names, measured)])],
            names=names,
            least=0,
            bars=True,
        ),
        Panel(
            "a packet lost with P = 1e-5",
            "packets of a chunk",
            "probability that a chunk is lost",
            [Series("1 - (1 - P)^N", [(n, 1 - (1 - 1e-5) ** int(n)) for n in names])],
            "y",
            names=names,
        ),
    ]
    claims = [
        ("chunks of 1 packet, Mpkt/s", "15.0 (16 threads)", "%.1f (1 worker)" % measured[0].row["Mpkt_s"]),
        ("chunks of 64 packets, Mpkt/s", "24.5 (16 threads)", "%.1f (1 worker)" % measured[-1].row["Mpkt_s"]),
        ("gain from 1 to 64", "1.63", "%.2f" % (measured[-1].rate / measured[0].rate)),
    ]
    rows = [dict(m.row, chunk_drop_at_1e_5=1 - (1 - 1e-5) ** n) for n, m in zip(chunks, measured)]
    return Figure(
        "fig15",
        "Figure 15: what the bitmap's chunk costs",
        "64-byte packets, messages of 64: a chunk's bit is set once all its packets have come.",
        panels,
        rows,
        claims,
        notes(lab, measured),
    )


def figure16(lab):
    measured = measure(lab, [(SMALL, 64, LARGE_CHUNK, w) for w in processors()])
    names = [str(w) for w in processors()]
    lines = [
        Series("%d Gbit/s" % rate, [(n, mpps) for n in names], "dashes", colour)
        for (rate, mpps), colour in zip(LINE.items(), ("#aaaaaa", "#888888", "#555555", "#222222"))
    ]
    panels = [
        Panel(
            "packets of 64 bytes, chunks of 16",
            "workers",
            "million packets/s",
            [Series("Spindle", [(n, m.row["Mpkt_s"]) for n, m in zip(names, measured)], "points")] + lines[:2],
            names=names,
            least=0,
        )
    ]
    claims = [("Mpkt/s of one worker", "1.45 (of 8 threads 11.6)", "%.1f" % measured[0].row["Mpkt_s"])]
    if len(measured) > 1:
        claims.append(
            ("gain from twice the workers", "1.97 (from 11.6 to 22.9 Mpkt/s)", "%.2f" % (measured[1].rate / measured[0].rate))
        )
    claims.append(
        ("most", "92.1 (128 threads), near 3.2 Tbit/s in packets of 4 KiB", "%.1f" % max(m.row["Mpkt_s"] for m in measured))
    )
    return Figure(
        "fig16",
        "Figure 16: packet rate by workers",
        "A worker here is a NIC of its own, in a process of its own: what processors share is "
        "the memory alone. Lines: the packets of 4 KiB that fit a link.",
        panels,
        [m.row for m in measured],
        claims,
        notes(lab, measured),
    )
