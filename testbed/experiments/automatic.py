# SPDX-License-Identifier: BSD-3-Clause
"""The scheme `auto` beside the best fixed scheme, for each drop rate and message size: after it has learnt the path, and from its
first message on."""

import os
import tempfile

from lab import PACKET, size
from plot import Figure, Panel, Series

CHUNK = "64K"
DROPS, SOME_DROPS = ("1e-6", "1e-5", "1e-4", "1e-3", "1e-2"), ("1e-6", "1e-4", "1e-2")
SIZES, SOME_SIZES = ("128K", "1M", "8M", "128M", "1G"), ("128K", "8M", "128M")
FIXED = (
    ("sr-rto", None),
    ("sr-nack", None),
    ("ec-xor", "32,8"),
    ("ec-mds", "32,2"),
    ("ec-mds", "32,4"),
    ("ec-mds", "32,8"),
    ("ec-mds", "32,16"),
)
SOME_FIXED = (("sr-nack", None), ("ec-xor", "32,8"), ("ec-mds", "32,8"))
CONNECTIONS = 16  # spindle sim spreads its messages over so many, see sweep.h
MOST = 64  # messages of one connection, so that there are no more connections
WARM = 16384  # chunks after which it must have learnt the path
PACKETS = 2000000  # per value; with fewer, there are also fewer cells and schemes


class Cell:
    def __init__(self, lab, drop, message, fixed, packets):
        self.lab, self.drop, self.message = lab, drop, message
        chunks, count = -(-size(message) // size(CHUNK)), -(-size(message) // PACKET)
        self.samples = min(max(packets // count, CONNECTIONS), 2000)
        self.warm = min(WARM // chunks + 2, 2048)
        self.learns = min(self.warm, MOST)
        runs = [(scheme, ec, self.sim(scheme, ec, "--samples", self.samples)) for scheme, ec in fixed]
        self.runs = [(scheme, ec, "", got) for scheme, ec, got in runs]
        self.best_scheme, self.best_ec, self.best = min(runs, key=lambda run: run[2]["mean_s"])
        learnt = self.sim("auto", None, "--samples", self.samples, "--warm-up", self.warm)
        learning, times = self.cold()
        self.runs += [("auto", None, "learnt", learnt), ("auto", None, "learning", learning)]
        self.chosen = learnt["chosen"]
        self.learnt, self.learning = (got["mean_s"] / self.best["mean_s"] for got in (learnt, learning))
        self.first = sum(times[:: self.learns]) / CONNECTIONS / self.best["mean_s"]

    def sim(self, scheme, ec, *more):
        arguments = self.lab.arguments(
            scheme, {"drop": self.drop, "message": self.message, "chunk": CHUNK, **({"ec": ec} if ec else {})}
        )
        return self.lab.sim(*arguments, "--payload-less", *map(str, more))

    def cold(self):
        """The number of first messages per connection, and their times, connection by connection."""
        with tempfile.TemporaryDirectory(prefix="spindle-figures-") as folder:
            file = os.path.join(folder, "times")
            got = self.sim("auto", None, "--samples", CONNECTIONS * self.learns, "--times", file)
            with open(file) as f:
                return got, [float(line) for line in f]

    def rows(self):
        for scheme, ec, phase, got in self.runs:
            row = {"message": size(self.message), "chunk": size(CHUNK), "drop": self.drop, "drop_per": "chunk", "scheme": scheme}
            row |= {"ec": ec or "", "phase": phase, "warm_up": got.get("warm_up", 0)}
            row |= {name: got[name] for name in ("samples", "seed", "mean_s", "mean_error_s", "lossless_s", "slowdown_mean")}
            row["over_best"] = "%.4f" % (got["mean_s"] / self.best["mean_s"])
            row["chosen"] = " ".join("%s:%d" % (name(c["scheme"], c.get("ec")), c["messages"]) for c in got.get("chosen", ()))
            yield row

    def words(self):
        most = max(self.chosen, key=lambda c: c["messages"])
        chosen = name(most["scheme"], most.get("ec"))
        return "%.2f, %.2f, %.2f (%s)" % (self.learnt, self.learning, self.first, chosen)


def name(scheme, ec):
    return "%s(%s)" % (scheme, ec if isinstance(ec, str) else ",".join(map(str, ec))) if ec else scheme


def panel(title, cells, value):
    drops = sorted({cell.drop for cell in cells}, key=float)
    messages = sorted({cell.message for cell in cells}, key=size)
    series = [Series(m, [(drops.index(c.drop), value(c)) for c in cells if c.message == m]) for m in messages]
    for s in series:
        s.points = [(drops[int(x)], y) for x, y in s.points]
    return Panel(title, "P", "over the best fixed scheme", series, names=list(drops), least=0.9)


def automatic(lab):
    packets = min(lab.budget, PACKETS)
    fixed, drops, sizes = (FIXED, DROPS, SIZES) if packets == PACKETS else (SOME_FIXED, SOME_DROPS, SOME_SIZES)
    cells = [Cell(lab, drop, message, fixed, packets) for message in sizes for drop in drops]
    by = {(cell.message, cell.drop): cell for cell in cells}
    worst, slowest = max(cells, key=lambda c: c.learnt), max(cells, key=lambda c: c.learning)
    counts = [cell.samples for cell in cells]
    result = Figure(
        "auto",
        "The scheme that picks itself, 400 Gbit/s, 25 ms, chunks of 64 KiB",
        "Mean completion time of `auto` over that of the best fixed scheme (%s), packet by packet: once it has learnt, from its "
        "first message on, the first alone, and what it takes mostly once it has learnt. At most "
        "%.2f (%s, P = %s), and while it learns %.2f (%s, P = %s)."
        % (
            ", ".join(name(*f) for f in fixed),
            worst.learnt,
            worst.message,
            worst.drop,
            slowest.learning,
            slowest.message,
            slowest.drop,
        ),
        [
            panel("once it has learnt", cells, lambda c: c.learnt),
            panel("from its first message on", cells, lambda c: c.learning),
        ],
        [row for cell in cells for row in cell.rows()],
        notes=[
            "seed %d" % lab.seed,
            "%d to %d samples" % (min(counts), max(counts)),
            "%d connections, the first %d to %d messages of each while it learns"
            % (CONNECTIONS, min(c.learns for c in cells), max(c.learns for c in cells)),
            "P is a loss of the chunk whole",
        ],
        table=[("message", *drops)] + [(m, *(by[m, drop].words() for drop in drops)) for m in sizes],
    )
    return result
