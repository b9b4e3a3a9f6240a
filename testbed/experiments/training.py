# SPDX-License-Identifier: BSD-3-Clause
"""Training's traffic over full-duplex links: where a ring overtakes a parameter server, what workers cost each scheme, how fast the
links inside servers must be, and what hosts' noise does to barriers. By spindle sim train, in virtual time, beside closed forms."""

import os
import random
import tempfile

from plot import OTHERS, Figure, Panel, Series

LINK, LATENCY, SCHEMES = 100e9, 1e-6, ("ps", "ps-sharded", "decentralised", "ring")
BYTES = [1 << n for n in range(10, 27)]  # of gradients
WORKERS = (2, 4, 8, 16, 32, 64)
RATIOS, KNEES = [r / 20 for r in range(16, 51)], {2: 1.0, 4: 1.5, 8: 1.75}
# Hosts like those of a public cloud with a tick of 1 kHz: some 1,130 detours a second that take about 0.36 % of the time.
DETOURS, BETWEEN, LENGTHS = 5000, 885e3, (3300, 3300, 3300, 2500, 5000, 7200)  # number; ns; ns
BARRIERS, BARRIER_WORKERS = 200, (2, 4, 8, 16, 32, 64, 128, 256, 512)


def seconds(lab, *arguments):
    return lab.sim(*arguments, what="train")["time_s"]


def closed(scheme, p, n):
    """Seconds of a step of p workers with n bytes."""
    byte = 8 / LINK
    return {
        "ps": 2 * (LATENCY + n * p * byte),
        "ps-sharded": 2 * (LATENCY + (p - 1) / p * n * byte),
        "decentralised": (p - 1) * (LATENCY + n * byte),
        "ring": 2 * (p - 1) * (LATENCY + n / p * byte),
    }[scheme]


def steps(lab, rows, title, x, points):
    """points: [(x, workers, bytes)]. Lines are the closed forms."""
    series = []
    for scheme, colour in zip(SCHEMES, OTHERS):
        got = []
        for at, p, n in points:
            took = seconds(lab, "--scheme", scheme, "--workers", str(p), "--bytes", str(n))
            rows.append({"scheme": scheme, "workers": p, "bytes": n, "time_s": took, "closed_s": closed(scheme, p, n), "seed": lab.seed})
            got.append((at, took * 1e6))
        series.append(Series(scheme, got, "points", colour))
        series.append(Series("", [(at, closed(scheme, p, n) * 1e6) for at, p, n in points], "line", colour))
    return Panel(title, x, "time of a step (us)", series, "xy")


def knees(lab, rows):
    series = []
    for p in KNEES:
        points = []
        for ratio in RATIOS:
            took = [
                seconds(
                    lab, "--scheme", "hybrid", "--workers", str(p), "--servers", "3", "--bytes", "8M", "--latency", "0us", "--inside",
                    "%dM" % round(ratio * LINK / 1e6), "--micro-batches", str(m),
                )
                for m in (8, 16)
            ]
            points.append((ratio, (took[1] - took[0]) / 8 / (2 * (8 << 20) * 8 / LINK)))
            rows.append({"scheme": "hybrid", "workers": p, "link_ratio": ratio, "micro_batch_over_network": points[-1][1]})
        series.append(Series("%d workers a server" % p, points))
    return Panel("tensor parallel inside 3 servers, a pipeline of them", "links inside / network of a server",
                 "time of a micro-batch / the network's", series, least=0)


def knee(series):
    """The least ratio from which on the time is the network's."""
    return min(x for x, y in series.points if y < 1.001)


def detours(file, seed):
    draw, at = random.Random(seed), 0
    for _ in range(DETOURS):
        at += int(draw.expovariate(1 / BETWEEN)) + 1
        length = draw.choice(LENGTHS)
        file.write("%d %d\n" % (at, length))
        at += length


def barriers(lab, rows):
    series = []
    with tempfile.TemporaryDirectory(prefix="spindle-figures-") as folder:
        path = os.path.join(folder, "detours")
        with open(path, "w") as f:
            detours(f, lab.seed)
        for scheme in ("barrier", "barrier-nic"):
            points = []
            for p in BARRIER_WORKERS:
                got = lab.sim("--scheme", scheme, "--workers", str(p), "--steps", str(BARRIERS), "--noise", "os:" + path, what="train")
                points.append((p, got["step_s"] * 1e6))
                rows.append({"scheme": scheme, "workers": p, "time_s": got["step_s"], "quiet_s": got["quiet_s"] / BARRIERS, "seed": lab.seed})
            series.append(Series({"barrier": "by hosts", "barrier-nic": "by NICs"}[scheme], points))
    panel = Panel("a barrier, mean of %d, hosts with noise" % BARRIERS, "workers", "time (us)", series, "x", least=0)
    panel.marks = [(str(p), p) for p in BARRIER_WORKERS if p & 0x2AA]
    return panel


def training(lab):
    rows = []
    over_bytes = steps(lab, rows, "8 workers", "bytes of gradients", [(n, 8, n) for n in BYTES])
    over_workers = steps(lab, rows, "gradients of 1 MiB", "workers", [(p, p, 1 << 20) for p in WORKERS])
    over_workers.marks = [(str(p), p) for p in WORKERS]
    inside, noisy = knees(lab, rows), barriers(lab, rows)
    crossing = LATENCY * LINK / 8 * 6 / (8 - 7 / 8)
    first = next(n for n in BYTES if seconds(lab, "--scheme", "ring", "--bytes", str(n)) < seconds(lab, "--scheme", "ps", "--bytes", str(n)))
    worst = max(abs(row["time_s"] / row["closed_s"] - 1) for row in rows if "closed_s" in row)
    table = [("", "closed form", "here")]
    table.append(("8 workers: bytes from which on a ring is faster than a server", "%.0f" % crossing, "%d, of powers of 2" % first))
    table.append(("most difference of a step's time from the closed form", "0", "%.1g" % worst))
    for series, p in zip(inside.series, KNEES):
        table.append(("links inside that do not delay, %d workers a server" % p, "%.2f" % KNEES[p], "%.2f" % knee(series)))
    for series in noisy.series:
        table.append(("barrier of %d %s, hosts with noise, us" % (BARRIER_WORKERS[-1], series.name), "%.1f without noise" % (9 * (1 + 64 * 8e-5)),
                      "%.1f" % series.points[-1][1]))
    return Figure(
        "train",
        "Training's traffic: full-duplex links of 100 Gbit/s, 1 us",
        "Points of the first two plots are schedules that ran in virtual time, lines are closed forms. The third has no latency, and leaves "
        "out how the pipeline fills and empties; below the knee the way back waits for the links inside the servers. In the last, hosts "
        "have some 1,130 detours a second of 2.5 to 7.2 us, which were drawn, not measured.",
        [over_bytes, over_workers, inside, noisy],
        rows,
        notes=["spindle sim train, seed %d, no packets: a message takes the latency and its bytes' time" % lab.seed],
        across=2,
        table=table,
    )
