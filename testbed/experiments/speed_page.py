# SPDX-License-Identifier: BSD-3-Clause
"""Results of `performance` as plots and as the tables of docs/performance.md: those between `<!-- begin: NAME -->` and
`<!-- end: NAME -->`. The text around them is written by hand and stays."""

import os
import re

from page import table
from plot import Figure, Panel, Series

ABREAST = 6  # cases in a panel
MINE, THEIRS, LEAST, WANTED = "#1f5fa8", "#888888", "#c0392b", "#2e8b57"


def stem(case):
    return case["name"].split(",")[0]


def checked(case):
    return "on" if case["name"].endswith("ICRC on") else "off" if "ICRC" in case["name"] else "-"


def why_not(case):
    """The reason why there are no results; None: there are."""
    if case.get("failed"):
        return "**failed**: " + case["failed"]
    return "skipped: " + case["skipped"] if case["skipped"] else None


def cases(all_, *groups):
    """The cases with results."""
    return [c for c in all_["cases"] if c["group"] in groups and not why_not(c)]


def cell(text):
    """Escapes foreign text, so that it ends neither a cell nor a row."""
    return " ".join(text.replace("|", "\\|").split())


def without(all_, columns, name, *groups):
    """Rows of the cases without results, for a table of so many columns."""
    lost = [c for c in all_["cases"] if c["group"] in groups and why_not(c)]
    return [(*name(c), cell(why_not(c)), *[""] * (columns - len(name(c)) - 1)) for c in lost]


def named(case):
    return stem(case), checked(case)


def number(value, digits=1):
    return "-" if value is None else "%.*f" % (digits, value)


def percent(value):
    return "-" if value is None else "%.0f %%" % (100 * value)


def verdict(case):
    if case["required"] is None or case["meets"] is None:
        return "-"
    return "met" if case["meets"] else "**missed**"


# ---- tables ----------------------------------------------------------------------------------------------------------


def machine(all_):
    m = all_["machine"]
    tsc = ", TSC %.0f MHz" % (m["tsc_hz"] / 1e6) if m["tsc_hz"] else ""
    text = "%s, %d processors%s; %s; %s; %s. %s%s." % (
        m["cpu"],
        m["processors"],
        tsc,
        m["dpdk"],
        m["flags"],
        m["pages"],
        all_["date"],
        ", `--quick`" if all_["quick"] else "",
    )
    return "\n".join([text] + ["**%s%s.**" % (words[0].upper(), words[1:]) for words in all_["noise"] + all_["failed"]])


def required(all_):
    rows = [("case", "ICRC", "ratio", "required", "", "goal", "to")]
    for c in all_["cases"]:
        if (c["required"] or c["goal"]) and c["group"] != "codes":
            rows.append(
                (
                    stem(c),
                    checked(c),
                    number(c["ratio"], 2),
                    number(c["required"], 2),
                    cell(why_not(c) or verdict(c)),
                    number(c["goal"], 2),
                    c["baseline"],
                )
            )
            rows += [
                (stem(c), checked(c), number(c["value"] / o["value"], 2), number(o["required"], 2), verdict(o), "-", o["name"])
                for o in c["others"]
                if o.get("required") and o["value"] and not why_not(c)
            ]
    codes = [c for c in cases(all_, "codes") if c["required"]]
    if codes:
        met = sum(bool(c["meets"]) for c in codes)
        least = "%.2f at least" % min(c["ratio"] for c in codes)
        goals = " / ".join(number(goal) for goal in sorted({c["goal"] for c in codes if c["goal"]}))
        bars = " / ".join(number(bar, 2) for bar in sorted({c["required"] for c in codes}))
        rows.append(("ec-*, %d cases" % len(codes), "-", least, bars, "%d met" % met, goals, codes[0]["baseline"]))
    return table(rows)


def packets(all_, *groups):
    rows = [("case", "ICRC", "cycles", "Mpkt/s", "spread", "baseline", "cycles", "ratio", "beside (ratio)")]
    for c in cases(all_, *groups):
        beside = [
            "%s: %s" % (o["name"], cell(o["skipped"] or "%s (%s)" % (number(o["value"]), number(o["value"] / c["value"], 2))))
            for o in c["others"]
        ]
        rows.append(
            (
                stem(c),
                checked(c),
                number(c["value"]),
                number(c["packets_per_second"] / 1e6),
                percent(c["spread"]),
                c["baseline"],
                number(c["baseline_value"]),
                number(c["ratio"], 2),
                "; ".join(beside),
            )
        )
    return table(rows + without(all_, len(rows[0]), named, *groups))


def threads(all_):
    rows = [("case", "ICRC", "Mpkt/s", "the paper's 16 threads, Mpkt/s", "threads that this core is worth")]
    for c in cases(all_, "sdr"):
        if c.get("paper_threads"):
            paper = 16 * c["packets_per_second"] / c["paper_threads"] / 1e6
            rows.append((stem(c), checked(c), number(c["packets_per_second"] / 1e6), number(paper), number(c["paper_threads"])))
    return table(rows)


def codes(all_):
    """Rows: codes and sizes; columns: the four ways."""
    ways = [(way, where) for way in ("encode", "decode") for where in ("", "-warm")]
    found, rows = {}, [("code, chunk", *("%s%s" % (way, ", warm" if where else ", memory") for way, where in ways))]
    for c in all_["cases"]:
        match = re.fullmatch(r"ec-(encode|decode)-(.*?)(-warm)?", c["name"])
        if match and c["group"] == "codes":
            found[match.group(2), match.group(1), match.group(3) or ""] = c
    for code in dict.fromkeys(key[0] for key in found):
        cells = [found.get((code, way, where)) for way, where in ways]
        rows.append((code, *("-" if c is None else cell(why_not(c) or "%.1f GB/s, %.2f" % (c["value"], c["ratio"])) for c in cells)))
    return table(rows)


def others(all_):
    rows = [("case", "value", "unit", "99 %", "baseline", "its value", "ratio")]
    for c in cases(all_, "rvma-latency", "processes", "virtual"):
        rows.append(
            (
                stem(c) + (" (more threads than processors)" if c["oversubscribed"] else ""),
                number(c["value"]),
                c["unit"],
                number(c.get("p99")),
                c["baseline"] or "-",
                number(c["baseline_value"]),
                number(c["ratio"], 2),
            )
        )
    return table(rows + without(all_, len(rows[0]), lambda c: (stem(c),), "rvma-latency", "processes", "virtual"))


def memory(all_):
    rows = [(stem(c), "%d" % c["value"]) for c in cases(all_, "memory")]
    return table([("of", "bytes"), *rows, *without(all_, 2, lambda c: (stem(c),), "memory")])


def parts(all_):
    p = all_["parts"]
    if not p:
        return "(not measured)"
    rows = [("part", "cycles a packet", "share", "what")]
    rows += [(x["name"], number(x["cycles"]), percent(x["cycles"] / p["whole"]), x["help"]) for x in p["parts"]]
    rows.append(("sum", number(p["sum"]), percent(p["sum"] / p["whole"]), "of the whole, measured by itself: %.1f" % p["whole"]))
    return table(rows) + ("" if p.get("adds_up", True) else "\n\n**The parts do not add up to the whole within 10 %.**")


TABLES = {
    "machine": machine,
    "required": required,
    "parts": parts,
    "sdr": lambda a: packets(a, "sdr"),
    "threads": threads,
    "engine": lambda a: packets(a, "engine", "table"),
    "rvma": lambda a: packets(a, "rvma"),
    "codes": codes,
    "others": others,
    "memory": memory,
}


# ---- plots -----------------------------------------------------------------------------------------------------------


def row(case, **more):
    keep = ("name", "value", "unit", "baseline", "baseline_value", "ratio", "spread", "required", "goal")
    return dict({k: case[k] for k in keep}, **more)


def ratios(all_):
    got = [c for c in all_["cases"] if not why_not(c) and c["required"] and c["group"] != "codes"]
    panels = []
    for at in range(0, len(got), ABREAST):
        some = got[at : at + ABREAST]
        names = [c["name"].replace(", ICRC off", "").replace(", ICRC on", " ICRC") for c in some]

        def series(name, key, colour, names=names, some=some):
            return Series(name, [(n, c[key]) for n, c in zip(names, some) if c[key]], "line", colour)

        panels.append(
            Panel(
                "",
                "",
                "ratio to the baseline",
                [series("measured", "ratio", MINE), series("required", "required", LEAST), series("goal", "goal", WANTED)],
                names=names,
                least=0,
                bars=True,
            )
        )
    return Figure("ratios", "Ratios that are required", "", panels, [row(c) for c in got], notes=notes(all_))


def parts_figure(all_):
    p = all_["parts"]
    names = [x["name"] for x in p["parts"]]
    panel = Panel(
        "64-byte packets of SDR, ICRC checked", "", "cycles a packet", [Series("", [(x["name"], x["cycles"]) for x in p["parts"]])], names=names, bars=True, least=min(0, *(x["cycles"] for x in p["parts"]))
    )
    rows = [dict(part=x["name"], cycles=x["cycles"]) for x in p["parts"]] + [dict(part="whole", cycles=p["whole"])]
    return Figure("parts", "What the parts of receiving a packet take", "", [panel], rows, notes=notes(all_))


def line(name, points, colour=MINE):
    return Series(name, points, "line", colour)


def growth_panels(all_):
    g = all_["growth"]
    text = [("%dK" % (4 * c["at"]), c) for c in g["message"]]
    yield "message", g["message"], Panel(
        "message size: packets of 4 KiB",
        "bytes of a message",
        "cycles a packet",
        [line("Spindle", [(n, c["value"]) for n, c in text]), line("port alone", [(n, c["baseline_value"]) for n, c in text], THEIRS)],
        names=[n for n, _ in text],
        least=0,
    )
    for name, title, x in (
        ("chunk", "chunk size: packets of 64 bytes", "packets of a chunk"),
        ("messages", "messages in flight: 2 packets of 64 bytes each", "messages at once"),
        ("workers", "workers on the same messages: packets of 64 bytes", "packets of a message"),
    ):
        shared = name == "workers"
        points = g.get(name, [])
        yield name, points, Panel(
            title,
            x,
            "cycles a packet" + (" of all workers together" if shared else ""),
            [
                line("two workers" if shared else "Spindle", [(str(c["at"]), c["value"]) for c in points]),
                line("one worker" if shared else "port alone", [(str(c["at"]), c["baseline_value"]) for c in points], THEIRS),
            ],
            names=[str(c["at"]) for c in points],
            least=0,
        )
    qps = [dict(c, at=int(stem(c)[4:])) for c in cases(all_, "table")]
    if qps:
        yield "QPs", qps, Panel(
            "QPs: packets to them in no order",
            "QPs",
            "cycles a packet",
            [line("Spindle", [(c["at"], c["value"]) for c in qps]), line("port alone", [(c["at"], c["baseline_value"]) for c in qps], THEIRS)],
            log="x",
            least=0,
        )
    yield "loss", g["loss"], Panel(
        "loss: both ends and the link, simulated",
        "probability that a packet is lost",
        "ns of a core for 1 KiB of payload",
        [line("sr-nack", [(c["at"], 8192 / c["value"]) for c in g["loss"]])],
        names=[c["at"] for c in g["loss"]],
        least=0,
    )


def growth(all_):
    panels, rows = [], []
    for name, points, panel in growth_panels(all_):
        if points:  # gnuplot cannot draw an empty series
            panels.append(panel)
            rows += [row(c, grows=name, at=c["at"]) for c in points]
    return Figure("growth", "How the cost of a packet grows", "", panels, rows, notes=notes(all_), across=3)


def codes_figure(all_):
    got = [c for c in cases(all_, "codes") if "-64K" in c["name"] and "xor" not in c["name"]]
    panels = []
    for way in ("encode", "decode"):
        mine = [c for c in got if way in c["name"]]
        if not mine:
            continue
        names = [c["name"].replace("ec-%s-" % way, "").replace("-64K", "") for c in mine]
        panels.append(
            Panel(
                "%s, chunks of 64 KiB" % way,
                "",
                "GB/s of data",
                [
                    Series("handler", [(n, c["value"]) for n, c in zip(names, mine)], "line", MINE),
                    Series("ISA-L", [(n, c["baseline_value"]) for n, c in zip(names, mine)], "line", THEIRS),
                ],
                names=names,
                least=0,
                bars=True,
            )
        )
    return Figure("codes", "Erasure codes (MDS)", "", panels, [row(c) for c in cases(all_, "codes")], notes=notes(all_))


def notes(all_):
    return ["%s, %s" % (all_["machine"]["cpu"], all_["machine"]["dpdk"]), all_["date"]] + all_["noise"][:1]


PLOTS = "ratios", "parts", "growth", "codes"


def figures(all_):
    """The PLOTS with results."""
    made = []
    if any(c["required"] and not why_not(c) and c["group"] != "codes" for c in all_["cases"]):
        made.append(ratios(all_))
    if all_["parts"]:
        made.append(parts_figure(all_))
    if all_["growth"]:
        made.append(growth(all_))
    if cases(all_, "codes"):
        made.append(codes_figure(all_))
    return [figure for figure in made if figure.panels]


# ---- the page --------------------------------------------------------------------------------------------------------


def rewrite(path, all_, made):
    """Puts tables and plots into their places in the page."""
    with open(path) as f:
        text = f.read()
    folder = os.path.splitext(os.path.basename(path))[0]
    contents = {name: make(all_) for name, make in TABLES.items()}
    contents.update({"plot " + name: "(not measured)" for name in PLOTS})  # instead of results of an earlier run
    contents.update({"plot " + f.name: "![%s](%s/%s.svg)" % (f.title, folder, f.name) for f in made})
    for name, content in contents.items():
        begin, end = "<!-- begin: %s -->" % name, "<!-- end: %s -->" % name
        if begin not in text:
            continue
        if end not in text:
            raise ValueError("%s: %s has no end" % (path, begin))
        before, rest = text.split(begin, 1)
        text = before + begin + "\n" + content + "\n" + end + rest.split(end, 1)[1]
    with open(path, "w") as f:
        f.write(text)
