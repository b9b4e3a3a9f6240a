# SPDX-License-Identifier: BSD-3-Clause
"""What noise of hosts and of the network costs collectives: slow-down over the number of ranks, by LogGOPS (`spindle sim goal`), and
what is left of it where a dissemination is in handlers of the NICs (`spindle sim train`)."""

import os
import random
import tempfile

from plot import OTHERS, Figure, Panel, Series

# Values at shares of all, between which is interpolated (of logarithms). They are drawn after a few quantiles that are published of
# traces of a system (De Sensi et al., SIGMETRICS'23, artifact); the traces themselves are not here. What lies beyond 99.9 % but for
# the greatest value, and where a second mode begins, is a guess.
LATENCY = ((0, 1.58), (0.5, 1.66), (0.99, 2.39), (0.999, 3.82), (0.99999, 20), (1, 232))  # us
DETOUR, DETOURS = ((0, 1.0), (0.5, 3.3), (0.99, 7.2), (0.9999, 20), (1, 361)), 1132  # us; how many come in a second
BANDWIDTH = ((0, 42.8), (0.001, 88), (0.01, 91.3), (0.5, 93.1), (1, 94.6))  # Gbit/s
SYSTEM = "azure"
SAMPLES, RUNS = 100000, 100
PATTERNS = {"dissemination": ("16", "16 B"), "allreduce_recdoub": ("16", "16 B"), "pipelinedring": ("512M", "512 MiB")}
RANKS = {"dissemination": (4, 16, 64, 256, 1024), "allreduce_recdoub": (4, 16, 64, 256, 1024), "pipelinedring": (4, 16, 64)}
NOISE = {"hosts": ("os",), "network": ("latency", "bandwidth"), "both": ("os", "latency", "bandwidth")}
# Dissemination by hosts and by handlers: L and o of the system, barriers in a row.
BARRIER_RANKS, BARRIERS, WORLD = (16, 64, 256, 1024), 50, ("--bytes", "16", "--latency", "1300ns", "--overhead", "150ns")


def between(quantiles, share):
    for (a, low), (b, high) in zip(quantiles, quantiles[1:]):
        if share <= b:
            return low * (high / low) ** ((share - a) / (b - a))
    return quantiles[-1][1]


def write_latencies(path):
    with open(path, "w") as f:
        for i in range(SAMPLES):
            f.write("%.5f\n" % between(LATENCY, (i + 0.5) / SAMPLES))


def write_bandwidths(path):
    with open(path, "w") as f:
        for i in range(SAMPLES):
            f.write("%.8f\n" % (8e-3 / between(BANDWIDTH, (i + 0.5) / SAMPLES)))


def write_detours(path, seed):
    draw, at = random.Random(seed), 0
    with open(path, "w") as f:
        for _ in range(SAMPLES // 5):
            at += int(draw.expovariate(DETOURS / 1e9)) + 1
            length = int(1000 * between(DETOUR, draw.random()))
            f.write("%d %d\n" % (at, length))
            at += length


class Files:
    """The noise as files, and the options that name them."""

    def __init__(self, folder, seed):
        self.path = {kind: os.path.join(folder, kind) for kind in ("os", "latency", "bandwidth")}
        write_detours(self.path["os"], seed)
        write_latencies(self.path["latency"])
        write_bandwidths(self.path["bandwidth"])

    def options(self, kinds):
        return [word for kind in kinds for word in ("--noise", "%s:%s" % (kind, self.path[kind]))]


def slow_downs(lab, rows, files, pattern):
    size, words = PATTERNS[pattern]
    points = {name: [] for name in NOISE}
    for ranks in RANKS[pattern]:
        asked = ("--pattern", pattern, "--ranks", str(ranks), "--size", size, "--system", SYSTEM, "--full-duplex")
        quiet = lab.sim(*asked, what="goal")["time_s"]
        for name, kinds in NOISE.items():
            got = lab.sim(*asked, *files.options(kinds), "--runs", str(RUNS), what="goal")
            points[name].append((ranks, got["p50_s"] / quiet))
            rows.append({"what": pattern, "bytes": size, "ranks": ranks, "noise": name, "system": SYSTEM, "quiet_s": quiet,
                         "p50_s": got["p50_s"], "slowdown": got["p50_s"] / quiet, "runs": RUNS, "seed": lab.seed})
    title = {"pipelinedring": "ring", "allreduce_recdoub": "allreduce, recursive doubling"}.get(pattern, pattern)
    panel = Panel("%s of %s" % (title, words), "ranks", "median time / without noise",
                  [Series("noise of %s" % name, points[name], colour=colour) for name, colour in zip(NOISE, OTHERS)], "x", least=0)
    panel.marks = [(str(p), p) for p in RANKS[pattern]]
    return panel


def offload(lab, rows, files):
    series = []
    for scheme, who in (("barrier", "hosts"), ("barrier-nic", "NICs")):
        for name, kinds in (("hosts", ("os",)), ("both", ("os", "latency"))):
            points = []
            for ranks in BARRIER_RANKS:
                got = lab.sim("--scheme", scheme, "--workers", str(ranks), "--steps", str(BARRIERS), *WORLD, *files.options(kinds), what="train")
                points.append((ranks, got["step_s"] * 1e6))
                rows.append({"what": scheme, "bytes": 16, "ranks": ranks, "noise": name, "system": SYSTEM, "quiet_s": got["quiet_s"] / BARRIERS,
                             "mean_s": got["step_s"], "slowdown": got["step_s"] * BARRIERS / got["quiet_s"], "runs": BARRIERS, "seed": lab.seed})
            series.append(Series("by %s, noise of %s" % (who, name), points))
    panel = Panel("dissemination of 16 B, mean of %d" % BARRIERS, "ranks", "time (us)", series, "x", least=0)
    panel.marks = [(str(p), p) for p in BARRIER_RANKS]
    return panel


def noise(lab):
    rows = []
    with tempfile.TemporaryDirectory(prefix="spindle-figures-") as folder:
        files = Files(folder, lab.seed)
        panels = [slow_downs(lab, rows, files, pattern) for pattern in PATTERNS]
        panels.append(offload(lab, rows, files))
    table = [("", "without noise", "noise of hosts", "of the network", "of both")]
    for panel, pattern in zip(panels, PATTERNS):
        last = RANKS[pattern][-1]
        quiet = next(row["quiet_s"] for row in rows if row["what"] == pattern and row["ranks"] == last)
        table.append(("%s, %d ranks" % (panel.title, last), "%.5g us" % (quiet * 1e6),
                      *("%.2f times" % series.points[-1][1] for series in panel.series)))
    hosts, nics = ([s.points[-1][1] for s in panels[-1].series if s.name.startswith("by " + who)] for who in ("hosts", "NICs"))
    for who, scheme, times in (("hosts", "barrier", hosts), ("NICs", "barrier-nic", nics)):
        quiet = next(row["quiet_s"] for row in rows if row["what"] == scheme and row["ranks"] == BARRIER_RANKS[-1]) * 1e6
        table.append(("dissemination by %s, %d ranks" % (who, BARRIER_RANKS[-1]), "%.5g us" % quiet, "%.5g us" % times[0], "", "%.5g us" % times[1]))
    return Figure(
        "noise",
        "Noise of hosts and of the network: what it costs collectives",
        "The first three by LogGOPS with the parameters of Azure's HPC instances (100G), full duplex, the last over full-duplex links with "
        "the same latency and overhead. Noise is drawn after a few published quantiles of traces of that system, the traces themselves "
        "are not here: compare shapes, not values. The last has no noise of bandwidth. Handlers do not feel the hosts' noise: of it alone, "
        "their line is that without noise.",
        panels,
        rows,
        notes=["spindle sim goal and sim train, seed %d, no packets; medians of %d runs" % (lab.seed, RUNS)],
        across=2,
        table=table,
    )
