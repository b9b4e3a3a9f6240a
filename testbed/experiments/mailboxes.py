# SPDX-License-Identifier: BSD-3-Clause
"""Figures 4 to 6 of the RVMA paper (Grant et al.): an RVMA put with its notification beside an RDMA write with a signal, and the
number of messages after which RDMA's exchange of buffers does not matter."""

from plot import Figure, Panel, Series

SIZES = (8, 64, 512, 4096, 32768, 262144, 1048576)
NAMES = ["8", "64", "512", "4K", "32K", "256K", "1M"]
PUT, AFTER, BEHIND = "RVMA put", "RDMA: write, once there: send", "RDMA: write, send behind it"
POLLED, EXCHANGE = "RDMA: last byte polled", "RDMA: buffer exchange"
MARGIN = 0.03  # the paper's margin of error
COLOURS = {PUT: "#1f5fa8", AFTER: "#c0392b", BEHIND: "#e08e0b", POLLED: "#555555"}
PORT = "this machine: two NICs in one process, a ring port, all polled by one thread"
LINK = {
    "ordered": "100 Gbit/s, 1 us, in order",
    "adaptive": "100 Gbit/s, 1 to 2 us, any order",
}


class Measured:
    """A case of spindle bench: kind latency (real time), ordered or adaptive (virtual time), and the message size."""

    def __init__(self, lab, kind, size):
        got = lab.bench("rvma-%s-%d" % (kind, size))[0]
        self.kind, self.size, self.cpu, self.spread = kind, size, got["cpu"], max(got["spread"], got["baseline_spread"])
        sides = got["others"] + [dict(name=got["baseline"], value=got["baseline_value"], skipped=None)]
        self.ns = dict({PUT: got["value"]}, **{side["name"]: side["value"] for side in sides})
        self.words = {side["name"]: side["skipped"] for side in sides if side["skipped"]}

    def saved(self, beside):
        """The share of RDMA's time that a put saves."""
        return 1 - self.ns[PUT] / self.ns[beside]

    def exchanges(self, beside):
        """Number of messages over which an exchange of buffers costs at most the margin per message."""
        return exchanges(self.ns[EXCHANGE], self.ns[beside]) if self.ns[beside] else None

    def rows(self):
        return [
            {
                "network": self.kind,
                "bytes": self.size,
                "way": way,
                "ns": ns,
                "put_saves": self.saved(way) if ns and way not in (PUT, EXCHANGE) else None,
                "exchanges_to_3_percent": self.exchanges(way) if ns and way not in (PUT, EXCHANGE) else None,
                "note": self.words.get(way),
            }
            for way, ns in self.ns.items()
        ]


def exchanges(setup, each):
    """The least n with setup / n <= MARGIN of each."""
    n = int(setup / (MARGIN * each))
    return n if n and setup / n <= MARGIN * each else n + 1


def measure(lab, kind):
    return [Measured(lab, kind, size) for size in SIZES]


def series(way, points):
    return Series(way, points, "dashes" if way == POLLED else "line", COLOURS[way])


def panel(measured, title, ways):
    return Panel(
        title,
        "bytes of a message",
        "ns from call to notice",
        [series(way, [(n, m.ns[way]) for n, m in zip(NAMES, measured) if m.ns[way]]) for way in ways],
        "y",
        names=NAMES,
    )


def percent(part):
    return "%+.1f %%" % (0 if abs(part) < 5e-4 else -100 * part)


def table(measured, beside):
    rows = [("bytes", PUT + ", ns", *("%s, ns" % way for way in beside), *("put beside " + way.split(": ")[1] for way in beside))]
    for m in measured:
        times = [m.ns[PUT]] + [m.ns[way] for way in beside]
        rows.append(
            (
                m.size,
                *("%.0f" % ns if ns else "-" for ns in times),
                *(percent(m.saved(way)) if m.ns[way] else "-" for way in beside),
            )
        )
    return rows


def notes(measured, *what):
    spread = max(m.spread for m in measured)
    drawn = any(m.kind == "adaptive" for m in measured)
    return [
        *what,
        "nothing is lost",
        "medians of rounds, which differ by up to %.0f %%" % (100 * spread),
        "each of a simulated network's rounds has a seed of its own, from 1 on" if drawn else "nothing is drawn (no seed)",
    ]


def figure4(lab):
    measured = measure(lab, "latency")
    best = max(measured, key=lambda m: m.saved(AFTER))
    behind = max(measured, key=lambda m: m.saved(BEHIND))
    return Figure(
        "rvma4",
        "Figure 4 (RVMA): latency by size, RVMA and RDMA on a port",
        "What is sent is the message and, by RDMA, a byte after it for which a receive is posted: once the write is acknowledged, "
        "as a network with adaptive routing wants it, or right behind it, which this port, as it keeps order, allows.",
        [panel(measured, "NICs on a port", (PUT, AFTER, BEHIND, POLLED))],
        [row for m in measured for row in m.rows()],
        [
            (
                "best saving of a put, adaptive routing",
                "-65.8 % (Verbs, Omni-Path)",
                "%s (%d bytes)" % (percent(best.saved(AFTER)), best.size),
            ),
            ("... beside a send right behind the write", "-", "%s (%d bytes)" % (percent(behind.saved(BEHIND)), behind.size)),
            (
                "... beside polling the last byte (static routing)",
                "comparable",
                "%s (8 bytes)" % percent(measured[0].saved(POLLED)),
            ),
        ],
        notes(measured, "%s (%s)" % (PORT, measured[0].cpu), "ICRC computed and checked"),
        table=table(measured, (AFTER, BEHIND, POLLED)),
    )


def figure5(lab):
    by_kind = {kind: measure(lab, kind) for kind in LINK}
    ordered, adaptive = by_kind["ordered"], by_kind["adaptive"]
    best = max(adaptive, key=lambda m: m.saved(AFTER))
    torn = next((m for m in adaptive if POLLED in m.words), None)
    claims = [
        (
            "best saving of a put, adaptive routing",
            "-45.8 % (UCX, ConnectX-5)",
            "%s (%d bytes)" % (percent(best.saved(AFTER)), best.size),
        ),
        (
            "... where order is kept, beside a send behind the write",
            "-",
            "%s (8 bytes)" % percent(ordered[0].saved(BEHIND)),
        ),
        ("... where order is kept, beside polling the last byte", "comparable", percent(ordered[0].saved(POLLED))),
        (
            "polling the last byte where packets overtake",
            "wrong",
            "%d bytes: %s" % (torn.size, torn.words[POLLED]) if torn else "not seen to be wrong",
        ),
    ]
    return Figure(
        "rvma5",
        "Figure 5 (RVMA): latency by size on two networks",
        "The network's time alone: NICs and programs take none. Polling the last byte is left out where it was wrong.",
        [panel(by_kind[kind], LINK[kind], (PUT, AFTER, BEHIND, POLLED)) for kind in LINK],
        [row for kind in LINK for m in by_kind[kind] for row in m.rows()],
        claims,
        notes(ordered + adaptive, "NICs of the engine over a simulated link, means of each round's messages"),
        table=table(adaptive, (AFTER, BEHIND)),
    )


def figure6(lab):
    kinds = {"latency": "NICs on a port", "ordered": LINK["ordered"], "adaptive": LINK["adaptive"]}
    by_kind = {kind: measure(lab, kind) for kind in kinds}
    panels = [
        Panel(
            title,
            "bytes of a message",
            "messages until it is 3 % of each",
            [series(way, [(n, m.exchanges(way)) for n, m in zip(NAMES, by_kind[kind]) if m.ns[way]]) for way in (POLLED, AFTER)],
            "y",
            names=NAMES,
        )
        for kind, title in kinds.items()
    ]
    small = {kind: measured[0] for kind, measured in by_kind.items()}
    claims = [
        (
            "messages of 8 bytes until an exchange is 3 % of each, static routing (last byte polled)",
            "a large number (a curve, not read off)",
            ", ".join("%s: %d" % (kind, small[kind].exchanges(POLLED)) for kind in ("latency", "ordered")),
        ),
        (
            "... adaptive routing (write, once there: send)",
            "a large number",
            ", ".join("%s: %d" % (kind, small[kind].exchanges(AFTER)) for kind in ("latency", "adaptive")),
        ),
        (
            "messages of 1 MiB",
            "-",
            ", ".join("%s: %d" % (kind, by_kind[kind][-1].exchanges(AFTER)) for kind in kinds),
        ),
    ]
    return Figure(
        "rvma6",
        "Figure 6 (RVMA): messages until RDMA's exchange of buffers is amortised to 3 %",
        "An exchange is a request, memory allocated and registered at the receiver, and an answer with its name and key, for each "
        "buffer. A put needs none. The session between two NICs, which both have, is not in it.",
        panels,
        [row for measured in by_kind.values() for m in measured for row in m.rows()],
        claims,
        notes([m for measured in by_kind.values() for m in measured], "in virtual time, allocating and registering take no time"),
    )
