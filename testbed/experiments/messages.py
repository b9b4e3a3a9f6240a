# SPDX-License-Identifier: BSD-3-Clause
"""Times of messages: figures 3, 9, 10 and 12, and simulated packets beside the model."""

import math

from lab import COLUMNS, MOST, TAIL, size
from plot import COLOURS, Figure, Panel, Series

NAMES = {"sr-rto": "SR RTO (3 RTT)", "sr-nack": "SR NACK", "ec-mds": "MDS EC(32,8)", "ec-xor": "XOR EC(32,8)"}
READINGS = (("64K", "chunks of 64 KiB"), ("4K", "chunks of one packet"))
DROPS = ("1e-6", "3e-6", "1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
SOME_DROPS = (
    "1e-6",
    "1e-5",
    "1e-4",
    "1e-3",
    "1e-2",
    "1e-1",
)  # also the simulated ones: the same everywhere, so most results are cached
HIGH = ("3e-2", "1e-1")
SIZES = ("128K", "512K", "2M", "8M", "32M", "128M", "512M", "1G", "2G", "8G")
SOME_SIZES = ("128K", "8M", "128M", "1G")
SIMULATED = {float(p) for p in SOME_DROPS} | {float(size(s)) for s in SOME_SIZES}
MARKS = [(s, float(size(s))) for s in ("128K", "2M", "32M", "512M", "8G", "128G", "2T")]
HUGE = ("32G", "128G", "512G", "2T")
FEW = 200  # simulated samples, where only a mean is shown
SLOWDOWN = "completion time / lossless"


def row(got, **extra):
    return dict(extra, **{name: got.get(name) for name in COLUMNS})


def of_chunks(chunk):
    """The label of a loss in the plots."""
    return "%s lost with P" % dict(READINGS)[chunk]


def value(got, quantity):
    """(slowdown, its error); None: no samples, or too few."""
    if not got or quantity == "p999" and got["samples"] < TAIL:
        return None
    if quantity == "p999":
        return got["slowdown_p999"], 0
    return got["slowdown_mean"], got["mean_error_s"] / got["lossless_s"]


def both(lab, scheme, most=MOST, **settings):
    return [got for got in (lab.model(scheme, **settings), lab.packets(scheme, most, **settings)) if got]


class Sweep:
    """One panel: schemes over a setting, the model as lines and packets as points; its rows for the table."""

    def __init__(self, lab, letter, schemes, xs, at, quantity="mean", simulate=SIMULATED, most=MOST, **settings):
        """xs: [(x of the plot, settings)]. simulate: the x that are also simulated; most: samples of these."""
        self.rows, self.series, self.counts = [], [], []
        for scheme in schemes:
            model, packets = [], []
            for x, setting in xs:
                asked = dict(settings, **setting)
                runs = both(lab, scheme, most, **asked) if x in simulate else [lab.model(scheme, **asked)]
                for got in runs:
                    self.rows.append(row(got, panel=letter, **{at: x}))
                    point = value(got, quantity)
                    if got["source"] == "packets":
                        self.counts.append(got["samples"])
                    if point:
                        (model if got["source"] == "model" else packets).append((x, *point))
            colour = COLOURS[scheme]
            self.series.append(Series(NAMES[scheme], model, colour=colour))
            if packets:
                named = any(series.kind == "points" for series in self.series)
                self.series.append(Series("" if named else "packets", packets, "points", colour))


def notes(lab, counts, loss):
    """Notes that a plot needs."""
    simulated = (
        "packets: %s samples" % (str(min(counts)) if min(counts) == max(counts) else "%d to %d" % (min(counts), max(counts)))
        if counts
        else "no packets"
    )
    return ["seed %d" % lab.seed, "model: %d samples, %s" % (lab.draws, simulated), loss]


def figure(lab, name, title, shows, sweeps, panels, claims, loss, across=None):
    counts = [n for sweep in sweeps for n in sweep.counts]
    return Figure(
        name, title, shows, panels, [r for sweep in sweeps for r in sweep.rows], claims, notes(lab, counts, loss), across
    )


def claim(lab, what, paper, scheme, text="%.2f", over=None, quantity="mean", most=MOST, **settings):
    """A line of the page: the slowdown of a scheme, or how much slower `over` is."""

    def of(source):
        got, other = (
            (lab.model(s, **settings) if source == "model" else lab.packets(s, most, **settings)) if s else None
            for s in (scheme, over)
        )
        if not value(got, quantity) or over and not value(other, quantity):
            return None
        return text % (value(other, quantity)[0] / value(got, quantity)[0] if over else value(got, quantity)[0])

    return (what, paper, of("model"), of("packets"))


LOSS = "P is a loss of the chunk whole"


def figure3(lab):
    schemes, sweeps, panels = ("ec-mds", "sr-rto"), [], []
    for chunk, words in READINGS:
        sizes = [(float(size(s)), {"message": s}) for s in SIZES + HUGE if chunk != "4K" or size(s) <= 1 << 36]
        far = [
            (float(km), {"distance": "%gkm" % km, "message": "8G"}) for km in (75, 750, 1500, 2250, 3000, 3750, 4500, 5250, 6000)
        ]
        drops = [(float(p), {"drop": p}) for p in DROPS + HIGH]
        a = Sweep(lab, "a " + chunk, schemes, sizes, "x", drop="1e-5", chunk=chunk)
        b = Sweep(lab, "b " + chunk, schemes, far, "x", drop="1e-5", chunk=chunk)
        c = Sweep(lab, "c " + chunk, schemes, drops, "x", message="128M", chunk=chunk)
        sweeps += [a, b, c]
        panels += [
            Panel("a: 3750 km, P = 1e-5, " + words, "bytes of a message", SLOWDOWN, a.series, "x", least=0.9, marks=MARKS),
            Panel("b: 8 GiB, P = 1e-5, " + words, "one-way distance, km", SLOWDOWN, b.series, least=0.9),
            Panel("c: 128 MiB, 3750 km, " + words, "P", SLOWDOWN, c.series, "xy", least=0.9),
        ]
    one = {"chunk": "4K", "message": "128M"}
    claims = [
        claim(lab, "SR RTO, 128 MiB, P = 1e-4, chunks of one packet", "3", "sr-rto", drop="1e-4", **one),
        claim(lab, "SR RTO, 128 MiB, P = 1e-2, chunks of one packet", "3 to 10", "sr-rto", drop="1e-2", **one),
        claim(lab, "SR RTO, 128 MiB, P = 1e-1, chunks of one packet", "axis to 14", "sr-rto", drop="1e-1", **one),
        claim(
            lab,
            "SR RTO, 128 MiB, chunks of 64 KiB, packets of 4 KiB lost with P = 1e-2",
            "3 to 10",
            "sr-rto",
            drop="1e-2",
            message="128M",
            chunk="64K",
            drop_per="packet",
        ),
        claim(
            lab,
            "SR RTO, 2 TiB, P = 1e-5, chunks of 64 KiB",
            "hidden by injection",
            "sr-rto",
            drop="1e-5",
            chunk="64K",
            message="2T",
        ),
        claim(lab, "MDS, 2 TiB, P = 1e-5, chunks of 64 KiB", "pays for parity", "ec-mds", drop="1e-5", chunk="64K", message="2T"),
    ]
    return figure(
        lab,
        "fig3",
        "Figure 3: what reliability costs, 400 Gbit/s",
        "Mean completion time over the lossless one: by size of the message, by distance, by drop rate.",
        sweeps,
        panels,
        claims,
        LOSS,
        across=3,
    )


def ratios(lab, chunk, quantity, source, drops, sizes):
    """{(drop, size): SR RTO over MDS}"""
    cells = {}
    for drop in drops:
        for message in sizes:
            sr, ec = (getattr(lab, source)(scheme, drop=drop, message=message, chunk=chunk) for scheme in ("sr-rto", "ec-mds"))
            if value(sr, quantity) and value(ec, quantity):
                cells[drop, message] = value(sr, quantity)[0] / value(ec, quantity)[0]
    return cells


def best(cells, within):
    """(ratio, where)"""
    drop, message = max((cell for cell in cells if cell[0] in within), key=cells.get)
    return cells[drop, message], drop, message


def figure9(lab):
    drops, sizes = ("1e-8", "1e-7") + DROPS + HIGH, SIZES + ("32G",)
    panels, rows, claims, counts = [], [], [], []
    for chunk, words in READINGS:
        for quantity, title, paper in (("mean", "mean", "6.5"), ("p999", "99.9 %", "12.2")):
            cells = ratios(lab, chunk, quantity, "model", drops, sizes)
            panels.append(
                Panel(
                    "SR RTO / MDS, %s, %s" % (title, words),
                    "P",
                    "bytes of a message",
                    names=list(drops),
                    rows=list(sizes),
                    grid=[(d, s, v) for (d, s), v in cells.items()],
                )
            )
            for within, said in ((DROPS, "P 1e-6 to 1e-2"), (drops, "any P")):
                top, drop, message = best(cells, within)
                where = {"drop": drop, "message": message, "chunk": chunk}
                claims.append(
                    (
                        "most that MDS gains over SR RTO, %s, %s, %s" % (title, words, said),
                        "up to " + paper,
                        "%.1f (%s, P = %s)" % (top, message, drop),
                        claim(lab, "", "", "ec-mds", "%.1f", over="sr-rto", quantity=quantity, **where)[3],
                    )
                )
        where = {"chunk": chunk, "drop": "1e-2", "message": "128M"}
        claims.append(
            claim(lab, "NACK over RTO, 128 MiB, P = 1e-2, mean, %s" % words, "up to 4", "sr-nack", "%.1f", over="sr-rto", **where)
        )
        where = {"chunk": chunk, "drop": "1e-8", "message": "8G"}
        claims.append(
            claim(
                lab, "MDS over SR RTO, 8 GiB, P = 1e-8, mean, %s" % words, "SR is best", "ec-mds", "%.2f", over="sr-rto", **where
            )
        )
        for drop in drops:
            for message in sizes:
                for scheme in ("sr-rto", "ec-mds"):
                    known = {"drop": drop, "message": message, "chunk": chunk}
                    runs = (
                        both(lab, scheme, **known)
                        if drop in SOME_DROPS and message in SOME_SIZES
                        else [lab.model(scheme, **known)]
                    )
                    rows += [row(got) for got in runs]
                    counts += [got["samples"] for got in runs if got["source"] == "packets"]
    return Figure(
        "fig9",
        "Figure 9: erasure coding over selective repeat, 400 Gbit/s, 25 ms",
        "How many times faster MDS (32,8) is than SR RTO. Maps: the model; packets are in the table. "
        "The paper drew 1000 samples, of which a 99.9 % quantile is one of the two slowest.",
        panels,
        rows,
        claims,
        notes(lab, counts, LOSS),
        across=2,
    )


def splits(lab, chunk):
    """Panel d: MDS with other k and m, over the drop rate."""
    series, rows, counts = [], [], []
    drops = DROPS[4:] + ("2e-2", "3e-2", "5e-2", "1e-1")
    for ec in ("32,1", "32,2", "32,4", "32,8", "32,16", "8,8"):
        points = []
        for drop in drops:
            settings = {"drop": drop, "message": "128M", "chunk": chunk, **({} if ec == "32,8" else {"ec": ec})}
            runs = both(lab, "ec-mds", **settings) if ec == "32,8" and drop in SOME_DROPS else [lab.model("ec-mds", **settings)]
            rows += [row(got, panel="d " + chunk, x=float(drop)) for got in runs]
            counts += [got["samples"] for got in runs if got["source"] == "packets"]
            points.append((float(drop), runs[0]["slowdown_mean"]))
        series.append(Series("(%s)" % ec, points))
    return series, rows, counts


# The paper's model, run by another program: slowdown of SR RTO, SR NACK, MDS.
INDEPENDENT = (
    ("1e-4", "mean", ("1.48", "1.16", "1.02")),
    ("1e-4", "p999", ("3.71", "1.90", "1.02")),
    ("1e-3", "mean", ("3.34", "1.76", "1.02")),
    ("1e-3", "p999", ("6.40", "2.80", "1.02")),
    ("1e-2", "mean", ("4.22", "2.07", "1.02")),
    ("1e-2", "p999", ("9.07", "3.67", "1.02")),
)


def farthest(claims):
    """The largest difference of our values from the other program's, by the model and simulated, for these columns."""
    for column in (2, 3):
        off = [abs(float(c[column]) / float(c[1].rstrip(" *")) - 1) for c in claims if c[column]]
        yield "%.1f %%" % (100 * max(off)) if off else None


def figure10(lab):
    schemes = ("sr-rto", "sr-nack", "ec-mds")
    sweeps, panels, rows, counts = [], [], [], []
    for chunk, words in READINGS:
        sizes = [(float(size(s)), {"message": s}) for s in SIZES]
        drops = [(float(p), {"drop": p}) for p in DROPS]
        a = Sweep(lab, "a " + chunk, schemes, sizes, "x", drop="1e-5", chunk=chunk)
        b = Sweep(lab, "b " + chunk, schemes, drops, "x", message="128M", chunk=chunk)
        c = Sweep(lab, "c " + chunk, schemes, drops, "x", quantity="p999", message="128M", chunk=chunk)
        d, more, simulated = splits(lab, chunk)
        sweeps += [a, b, c]
        rows += more
        counts += simulated
        panels += [
            Panel("a: P = 1e-5, mean, " + words, "bytes of a message", SLOWDOWN, a.series, "x", least=0.9, marks=MARKS[:5]),
            Panel("b: 128 MiB, mean, " + words, "P", SLOWDOWN, b.series, "xy", least=0.9),
            Panel("c: 128 MiB, 99.9 %, " + words, "P", SLOWDOWN, c.series, "xy", least=0.9),
            Panel("d: MDS splits, 128 MiB, mean, " + words, "P", SLOWDOWN, d, "xy", least=0.9),
        ]
    claims = [
        claim(
            lab,
            "%s, 128 MiB, P = %s, chunks of 64 KiB, %s" % (NAMES[scheme], drop, "mean" if quantity == "mean" else "99.9 %"),
            known + " *",
            scheme,
            quantity=quantity,
            message="128M",
            chunk="64K",
            drop=drop,
        )
        for drop, quantity, values in INDEPENDENT
        for scheme, known in zip(schemes, values)
    ]
    for quantity in ("mean", "99.9 %"):
        of = [c for c in claims if c[0].endswith(quantity)]
        claims.append(("the farthest of these from that run, " + quantity, None, *farthest(of)))
    claims.append(
        claim(
            lab,
            "MDS (32,8), 128 MiB, P = 1e-2, chunks of one packet, mean",
            "robust beyond 1e-2",
            "ec-mds",
            message="128M",
            chunk="4K",
            drop="1e-2",
        )
    )
    result = figure(
        lab,
        "fig10",
        "Figure 10: the row of 128 MiB and the column of 1e-5 in detail, 400 Gbit/s, 25 ms",
        "Mean by size and by drop rate, the tail by drop rate, and MDS with other splits. Values with * are not the paper's, but "
        "another program's run of its model.",
        sweeps,
        panels,
        claims,
        LOSS,
        across=4,
    )
    result.rows += rows
    result.notes = notes(lab, counts + [n for sweep in sweeps for n in sweep.counts], LOSS)
    return result


def figure12(lab):
    schemes, sweeps, panels = ("sr-rto", "sr-nack", "ec-mds"), [], []
    for chunk, words in READINGS:
        far = [(float(km), {"distance": "%gkm" % km}) for km in (75, 375, 750, 1500, 3000, 4500, 6000, 10000)]
        fast = [(float(g), {"bandwidth": "%dG" % g}) for g in (100, 200, 400, 800, 1600, 3200)]
        settings = {"message": "128M", "drop": "1e-4", "chunk": chunk}
        a = Sweep(lab, "a " + chunk, schemes, far, "x", simulate={750.0, 3000.0, 6000.0}, most=FEW, **settings)
        b = Sweep(lab, "b " + chunk, schemes, fast, "x", simulate={100.0, 800.0, 3200.0}, most=FEW, **settings)
        sweeps += [a, b]
        panels += [
            Panel("a: 400 Gbit/s, " + words, "one-way distance, km", SLOWDOWN, a.series, "x", least=0.9),
            Panel("b: 3750 km, " + words, "Gbit/s", SLOWDOWN, b.series, "x", least=0.9),
        ]
    near, wide = (
        {"message": "128M", "drop": "1e-4", "chunk": "4K", "most": FEW, k: v} for k, v in (("distance", "75km"), ("bandwidth", "3200G"))
    )
    claims = [
        claim(lab, "SR RTO, 75 km, chunks of one packet", "injection dominates", "sr-rto", **near),
        claim(lab, "MDS, 75 km, chunks of one packet", "pays for parity", "ec-mds", **near),
        claim(lab, "SR RTO, 3.2 Tbit/s, chunks of one packet", "RTT dominates", "sr-rto", **wide),
        claim(lab, "MDS, 3.2 Tbit/s, chunks of one packet", "RTT dominates", "ec-mds", **wide),
    ]
    return figure(
        lab,
        "fig12",
        "Figure 12: distance and bandwidth, messages of 128 MiB",
        "Mean completion time over the lossless one. The paper does not say the drop rate; here P = 1e-4.",
        sweeps,
        panels,
        claims,
        LOSS,
        across=2,
    )


def beside_model(lab):
    """Difference of the simulation from the model, where its assumptions hold."""
    drops = SOME_DROPS[:-1]
    rows, table, counts = [], [("scheme", "message", "samples", *drops)], []
    for scheme in ("sr-rto", "sr-nack", "ec-mds", "ec-xor"):
        for message in ("128K", "1M", "8M", "128M", "1G"):
            cells = []
            for drop in drops:
                runs = both(lab, scheme, message=message, drop=drop, chunk="64K")
                rows += [row(got) for got in runs]
                if len(runs) < 2:
                    continue
                model, packets = runs
                error = math.hypot(packets["mean_error_s"], model["mean_error_s"])
                cells.append(
                    "%+.1f ± %.1f %%" % tuple(100 * x / model["mean_s"] for x in (packets["mean_s"] - model["mean_s"], error))
                )
                needless = packets.get("spurious_retransmissions")
                cells[-1] += " (%d needless)" % needless if needless else ""
                counts.append(packets["samples"])
            if cells:
                table.append((scheme, message, counts[-1], *cells))
    return Figure(
        "model",
        "Packets beside the model, 400 Gbit/s, 25 ms, chunks of 64 KiB",
        "By how much the mean completion time of packets differs from the model's.",
        rows=rows,
        notes=notes(lab, counts, LOSS),
        table=table,
    )
