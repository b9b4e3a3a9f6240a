# SPDX-License-Identifier: BSD-3-Clause
"""Figures 7 and 8 of the RVMA paper (Grant et al.): Sweep3D and Halo3D over networks of switches, with NICs that put (RVMA)
and NICs that need a buffer's address first (RDMA). The NICs are modelled."""

import copy
import json

from plot import Figure, Panel, Series

SPEEDS = ("100G", "200G", "400G", "1T", "2T")
NAMES = ["100", "200", "400", "1000", "2000"]
# By number of nodes: topology, routing. Those of 8192 are the ones of SST's files for so many.
NETWORKS = {
    64: {
        "torus": ("torus:4x4x4", ("minimal",)),
        "fat tree": ("fattree:8,8:16", ("minimal", "adaptive")),
        "dragonfly": ("dragonfly:4:4:1:4", ("minimal", "adaptive")),
        "HyperX": ("hyperx:4x4:4", ("minimal", "adaptive")),
    },
    512: {
        "torus": ("torus:8x8x8", ("minimal",)),
        "fat tree": ("fattree:8,8:8,8:16", ("minimal", "adaptive")),
        "dragonfly": ("dragonfly:8:8:4:8", ("minimal", "adaptive")),
        "HyperX": ("hyperx:4x4x4:8", ("minimal", "adaptive")),
    },
    8192: {
        "torus": ("torus:16x16x32", ("minimal",)),
        "fat tree": ("fattree:32,32:32,32:8", ("minimal", "adaptive")),
        "dragonfly": ("dragonfly:16:32:32:16", ("minimal", "adaptive")),
        "HyperX": ("hyperx:8x8x8:16:2", ("minimal", "adaptive")),
    },
}
COLOURS = {"torus": "#555555", "fat tree": "#1f5fa8", "dragonfly": "#c0392b", "HyperX": "#2e8b57"}
PAPER = "#7d3c98"
# The paper's size takes too long for a figure. Computed once, seed 1, with these options and --transport rvma and rdma:
#   sweep3d --ranks 64x128 --compute 1ns --topology dragonfly:16:32:32:16 --routing adaptive --link 2T
#   halo3d --ranks 8192 --compute 0ns [--no-reduce] --topology hyperx:8x8x8:16:2 --link 400G (or 2T)
# ... and of halo3d also with --transport rdma-polled; 14 us (MINIMAL) are added to each time.
COMPUTING = {"400G": "1.43; 1.71", "2T": "1.85; 2.41"}
LARGE = {"sweep3d": "4.33", "400G": "1.84; 1.15 without the allreduce", "2T": "3.01; 1.59 without the allreduce"}
# The paper's Halo3D has "minimal compute", and does not say how much. All ranks compute at once and first, so it is added to
# each time; with 14 us the mean over networks and speeds is the paper's. SST's default is 2,600 us.
MINIMAL = 14e-6
TOLD, POLLED, ONCE = "told by a send", "last byte polled", "told by a send, set-up once"
HOW = {TOLD: ("--transport", "rdma"), POLLED: ("--transport", "rdma-polled"), ONCE: ("--transport", "rdma", "--setup", "once")}
COLUMNS = ("motif", "topology", "routing", "link_bps", "transport", "setup", "completion", "packet", "seed", "time_s", "messages", "bytes",
           "packets", "reordered", "early_reads")


class Run:
    """Ratios of RDMA's time to RVMA's, by network, routing, way and speed."""

    def __init__(self, lab, motif, options, nodes):
        self.ratio, self.put, self.rows, self.options, self.nodes, self.seed = {}, {}, [], (motif, "--ranks", str(nodes), *options), nodes, lab.seed
        for network, (topology, routings) in NETWORKS[nodes].items():
            for routing in routings:
                for speed in SPEEDS:
                    at = (*self.options, "--topology", topology, "--routing", routing, "--link", speed)
                    put = simulate(lab, *at)
                    self.row(put, network, "RVMA put", 1)
                    self.put[network, routing, speed] = put["time_s"]
                    for way, words in HOW.items():
                        got = simulate(lab, *at, *words)
                        self.ratio[network, routing, way, speed] = got["time_s"] / put["time_s"]
                        self.row(got, network, way, got["time_s"] / put["time_s"])

    def row(self, got, network, way, ratio):
        self.rows.append({"network": network, "nodes": self.nodes, "way": way, "times_rvma": ratio, **{name: got.get(name) for name in COLUMNS}})

    def of(self, routing=None, way=None, speed=None, network=None):
        wanted = (network, routing, way, speed)
        return [ratio for key, ratio in self.ratio.items() if all(w is None or w == k for w, k in zip(wanted, key))]

    def computing(self, seconds):
        """The same, with so much computation in each rank before it exchanges anything, once."""
        other = copy.copy(self)
        other.ratio = {key: (ratio * self.put[key[0], key[1], key[3]] + seconds) / (self.put[key[0], key[1], key[3]] + seconds) for key, ratio in self.ratio.items()}
        return other

    def mean(self, **which):
        found = self.of(**which)
        return sum(found) / len(found)

    def paper_mean(self):
        """Where order is kept the paper's receivers poll; else they are told."""
        found = self.of(routing="minimal", way=POLLED) + self.of(routing="adaptive", way=TOLD)
        return sum(found) / len(found)

    def best(self, **which):
        wanted = tuple(which.get(name) for name in ("network", "routing", "way", "speed"))
        return max((r, key) for key, r in self.ratio.items() if all(w is None or w == k for w, k in zip(wanted, key)))

    def panel(self, title, way, paper):
        """paper: its mean, which is drawn, too."""
        lines = [Series("paper: mean %s" % paper, [(name, paper) for name in NAMES], "dashes", PAPER)]
        lines += [
            Series(
                "%s, %s" % (network, {"minimal": "static", "adaptive": "adaptive"}[routing]),
                [(name, self.ratio[network, routing, way, speed]) for name, speed in zip(NAMES, SPEEDS) if (network, routing, way, speed) in self.ratio],
                "dashes" if routing == "minimal" else "line",
                COLOURS[network],
            )
            for network, (_, routings) in NETWORKS[self.nodes].items()
            for routing in routings
        ]
        return Panel(title, "link, Gbit/s", "RDMA's time over RVMA's", lines, names=NAMES, least=0)


def simulate(lab, *arguments):
    key = ("motif", arguments)
    if key not in lab.known:
        lab.progress(" ".join(arguments))
        lab.known[key] = json.loads(lab.command("sim", "motif", *arguments, "--json", "--seed", str(lab.seed)))
    return lab.known[key]


def times(ratio):
    return "%.2f" % ratio


def notes(run, *what):
    return [
        "modelled NICs (SST's motifs, a network simulated packet by packet), nothing is lost, %d nodes, one rank each (paper: 8192 nodes)" % run.nodes,
        *what,
        "packets of 4096 bytes, PCIe 150 ns each way, SST's delays",
        "spindle sim motif %s, seed %d" % (" ".join(run.options), run.seed),
    ]


def table(run, label=""):
    ways = list(HOW)
    rows = [("network", "routing", *("%s, %s Gbit/s" % (way, name) for way in ways for name in ("400", "2000")))]
    for network, (topology, routings) in NETWORKS[run.nodes].items():
        for routing in routings:
            cells = [times(run.ratio[network, routing, way, speed]) for way in ways for speed in ("400G", "2T")]
            rows.append(("%s%s (%s)" % (network, label, topology), routing, *cells))
    return rows


def figure7(lab):
    run = Run(lab, "sweep3d", ("--compute", "1ns"), lab.nodes)
    least = min(run.of(way=POLLED) + run.of(way=TOLD))
    best, key = run.best(way=TOLD, speed="2T")
    return Figure(
        "rvma7",
        "Figure 7 (RVMA): Sweep3D, RDMA's time over RVMA's",
        "Wavefronts from the corners of a grid of ranks: short messages, each of which somebody waits for.",
        [run.panel("RDMA, told by a send after the write", TOLD, 3.56), run.panel("RDMA, last byte polled", POLLED, 3.56), run.panel("RDMA, set-up once", ONCE, 3.56)],
        run.rows,
        [
            ("mean of all networks and speeds: polled where routing is static, told where it is adaptive", "3.56", times(run.paper_mean())),
            ("... told everywhere", "-", times(run.mean(way=TOLD))),
            ("at 2 Tbit/s, dragonfly, adaptive", "4.4", times(run.ratio["dragonfly", "adaptive", TOLD, "2T"])),
            ("... of 8192 nodes, computed once", "4.4", LARGE["sweep3d"]),
            ("best at 2 Tbit/s", "4.4", "%s (%s, %s)" % (times(best), key[0], key[1])),
            ("least of all", "2 at the speeds of today", times(least)),
            ("set-up once for each pair of ranks, mean", "-", times(run.mean(way=ONCE))),
        ],
        notes(run, "50 slices of 3200 bytes, eight sweeps, 1 ns of computation for each field of a cell"),
        table=table(run),
    )


def figure8(lab):
    run, alone = Run(lab, "halo3d", ("--compute", "0ns"), lab.nodes), Run(lab, "halo3d", ("--compute", "0ns", "--no-reduce"), lab.nodes)

    def both(ask):
        return "%s; %s without the allreduce" % (times(ask(run)), times(ask(alone)))

    early = sum(row["early_reads"] for row in run.rows if row["transport"] == "rdma-polled" and row["routing"] == "adaptive")
    return Figure(
        "rvma8",
        "Figure 8 (RVMA): Halo3D, RDMA's time over RVMA's",
        "Faces of 80,000 bytes between neighbours of a grid of ranks, and an allreduce of 8 bytes. Where routing is adaptive, polling the "
        "last byte is wrong (%d messages were read too early here); its times are drawn all the same." % early,
        [run.panel("With the allreduce: told by a send", TOLD, 1.57), alone.panel("Without it: told by a send", TOLD, 1.57), run.panel("With it: last byte polled", POLLED, 1.57)],
        run.rows + [dict(row, motif="halo3d --no-reduce") for row in alone.rows],
        [
            ("mean of all networks and speeds: polled where routing is static, told where it is adaptive", "1.57", both(Run.paper_mean)),
            ("HyperX, dimension order, 400 Gbit/s, told", "1.64 (the best)", both(lambda r: r.ratio["HyperX", "minimal", TOLD, "400G"])),
            ("HyperX, dimension order, 2 Tbit/s, told", "1.89 (the best)", both(lambda r: r.ratio["HyperX", "minimal", TOLD, "2T"])),
            *(("... HyperX, %sbit/s, of 8192 nodes, computed once" % speed.replace("G", " G").replace("T", " T"), paper, LARGE[speed])
              for speed, paper in (("400G", "1.64"), ("2T", "1.89"))),
            ("best at 2 Tbit/s, told", "1.89", both(lambda r: r.best(way=TOLD, speed="2T")[0])),
            ("with 14 us of computation, chosen for this mean", "1.57", both(lambda r: r.computing(MINIMAL).paper_mean())),
            *(("... HyperX, dimension order, %sbit/s: polled; told" % speed.replace("G", " G").replace("T", " T"), paper,
               "; ".join(times(run.computing(MINIMAL).ratio["HyperX", "minimal", way, speed]) for way in (POLLED, TOLD)))
              for speed, paper in (("400G", "1.64"), ("2T", "1.89"))),
            *(("... of 8192 nodes, computed once, %sbit/s: polled; told" % speed.replace("G", " G").replace("T", " T"), paper, COMPUTING[speed])
              for speed, paper in (("400G", "1.64"), ("2T", "1.89"))),
        ],
        notes(run, "100 x 100 x 100 cells of 8 bytes, no computation; message sizes and computation of the paper are not known"),
        table=table(run),
    )
