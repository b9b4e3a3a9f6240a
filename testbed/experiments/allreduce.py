# SPDX-License-Identifier: BSD-3-Clause
"""Figure 13: ring allreduce across datacenters. A buffer goes round in 2N - 2 rounds of messages of an N-th of it to the next
datacenter; each begins a round when it and the one before it have ended the last (the paper's appendix C). By the model, a
message's time is drawn from the times that messages of its size took; packet by packet, it is a ring of simulated NICs."""

import math
import random

from lab import TAIL, size
from messages import LOSS, READINGS, notes
from plot import OTHERS, Figure, Panel, Series

DROPS = ("1e-6", "1e-5", "1e-4", "1e-3", "1e-2")
SCHEMES = ("sr-rto", "ec-mds")
RINGS = (2, 3, 4, 6, 8)
SIMULATED = ("1e-4", "1e-2", (4, "128M"), (4, "8M"))  # also by simulated packets
BUFFERS = ("8M", "32M", "128M", "512M", "2G")


def ring(draw, n):
    """Seconds of one allreduce. draw(n): draws the times of n messages."""
    ended = [0.0] * n
    for _ in range(2 * n - 2):
        ended = [max(ended[i - 1], ended[i]) + took for i, took in enumerate(draw(n))]
    return max(ended)


def quantile(values, q):
    """Quantile by the nearest rank."""
    return sorted(values)[max(math.ceil(len(values) * q) - 1, 0)]


class Rings:
    def __init__(self, lab, samples):
        self.lab, self.samples, self.rows, self.counts = lab, samples, [], []

    def took(self, source, scheme, n, buffer, drop, chunk):
        """The table row of the allreduces; None: there are none."""
        message = -(-size(buffer) // n)
        row = {
            "scheme": scheme,
            "source": source,
            "datacenters": n,
            "buffer": size(buffer),
            "message": message,
            "chunk": size(chunk),
            "drop": drop,
            "drop_per": "chunk",
            "seed": self.lab.seed,
        }
        if source == "packets":
            got = self.lab.allreduces(scheme, n, TAIL, message=buffer, drop=drop, chunk=chunk)
            if not got:
                return None
            row |= {"messages_drawn_from": "", **{name: got[name] for name in ("samples", "mean_s", "p999_s")}}
            self.counts.append(got["samples"])
        else:
            times = self.lab.times(source, scheme, message=str(message), drop=drop, chunk=chunk)
            x = random.Random("%d %s %d %s %s %s" % (self.lab.seed, scheme, n, buffer, drop, chunk))
            rings = [ring(lambda count: x.choices(times, k=count), n) for _ in range(self.samples)]
            row |= {"messages_drawn_from": len(times), "samples": len(rings)}
            row |= {"mean_s": sum(rings) / len(rings), "p999_s": quantile(rings, 0.999)}
        self.rows.append(row)
        return row

    def speedup(self, source, *where, quantity="p999_s"):
        """None: no samples, or too few simulated ones for that quantile."""
        sr, ec = (self.took(source, scheme, *where) for scheme in SCHEMES)
        if not sr or not ec or source == "packets" and quantity == "p999_s" and min(sr["samples"], ec["samples"]) < TAIL:
            return None
        return sr[quantity] / ec[quantity]


def panel(rings, title, x, points, chunk, log=""):
    """points: [(x, datacenters, buffer)]"""
    series = []
    for i, drop in enumerate(DROPS):
        for source, kind in (("model", "line"), ("packets", "points")):
            line = [
                (at, rings.speedup(source, n, buffer, drop, chunk))
                for at, n, buffer in points
                if source == "model" or drop in SIMULATED and (n, buffer) in SIMULATED
            ]
            line = [(at, v) for at, v in line if v]
            if line:
                named = source == "packets" and any(other.kind == "points" for other in series)
                series.append(Series("P = " + drop if source == "model" else "" if named else "packets", line, kind, OTHERS[i]))
    return Panel(title, x, "SR RTO / MDS, 99.9 %", series, log, least=0)


def figure13(lab):
    rings = Rings(lab, max(min(lab.draws // 5, 10000), 100))
    panels, claims = [], []
    for chunk, words in READINGS:
        panels.append(panel(rings, "128 MiB, " + words, "datacenters", [(n, n, "128M") for n in RINGS], chunk))
        panels.append(
            panel(rings, "4 datacenters, " + words, "bytes of the buffer", [(size(b), 4, b) for b in BUFFERS], chunk, "x")
        )
        panels[-1].marks = [(b, size(b)) for b in BUFFERS]
        for drop, paper in (("1e-4", "3 and more"), ("1e-2", "more than 6")):
            for quantity, named, says in (("p999_s", "99.9 %", paper), ("mean_s", "mean", "")):
                cells = [rings.speedup(source, 4, "128M", drop, chunk, quantity=quantity) for source in ("model", "packets")]
                claims.append(
                    (
                        "MDS over SR RTO, 4 datacenters, 128 MiB, P = %s, %s, %s" % (drop, words, named),
                        says,
                        *("%.1f" % v if v else None for v in cells),
                    )
                )
        best = max((v, s.name, p.x, x) for p in panels[-2:] for s in p.series if s.kind == "line" for x, v in s.points)
        claims.append(("the most of both plots, %s" % words, "more than 6", "%.1f (%s, %s: %d)" % best, None))
    unique = list({tuple(row.items()): row for row in rings.rows}.values())
    said = notes(lab, rings.counts, LOSS) + ["model: %d allreduces a point" % rings.samples]
    return Figure(
        "fig13",
        "Figure 13: ring allreduce across datacenters, 3750 km from each to the next, 400 Gbit/s",
        "How many times sooner 99.9 % of the allreduces have ended with MDS (32,8) than with SR RTO. In each of 2N - 2 rounds every "
        "datacenter sends an N-th of the buffer to the next, once it and the one before it have ended the round before. How long a "
        "message takes by the model is drawn from the times of messages of that size; packets are those of a ring of NICs.",
        panels,
        unique,
        claims,
        said,
        across=2,
    )
