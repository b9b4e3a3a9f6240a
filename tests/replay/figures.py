#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""testbed/experiments/figures: tables, plots and page come out, and their values are those of a computation made here from the
paper's formulas (arXiv 2505.05366, 4.2 and appendices)."""

import csv
import math
import os
import random
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERIMENTS = os.path.join(HERE, "..", "..", "testbed", "experiments")
sys.path[:0] = [os.path.join(HERE, "..", "tools"), EXPERIMENTS]
sys.dont_write_bytecode = True
import allreduce  # noqa: E402
import automatic  # noqa: E402
import engine  # noqa: E402
import lab  # noqa: E402
import mailboxes  # noqa: E402
import messages  # noqa: E402
import motifs  # noqa: E402
import noise  # noqa: E402
import plot  # noqa: E402
import repair  # noqa: E402
import training  # noqa: E402
from replay import Skip, equal, main, rule  # noqa: E402

RTT, LINE = 0.025, 400e9
PNG, SVG, PDF = b"\x89PNG\r\n", b"<?xml", b"%PDF-"


def figures(run, *arguments, expect=0):
    """Standard output, and the folder; a table as rows."""
    if not shutil.which("gnuplot"):
        raise Skip("gnuplot is not installed")
    out = run.path("figures%d" % run.runs)
    run.runs += 1
    process = subprocess.run(
        [sys.executable, os.path.join(EXPERIMENTS, "figures"), "--spindle", run.spindle, "--out", out, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=200,
    )
    equal(process.returncode, expect, process.stderr)
    return process, out


def drawn_figure(run, figure):
    """The folder of the table and plots of a figure that was made in this process."""
    out = run.path("figures%d" % run.runs)
    run.runs += 1
    os.mkdir(out)
    plot.write_csv(figure, out)
    if figure.panels and shutil.which("gnuplot"):
        plot.draw(figure, out)
        check_plots(out, figure.name)
    return out


def read(folder, name):
    with open(os.path.join(folder, name + ".csv"), newline="") as f:
        return list(csv.DictReader(f))


def check_plots(folder, name):
    for form, begin in ((".png", PNG), (".pdf", PDF), (".svg", SVG)):
        with open(os.path.join(folder, name + form), "rb") as f:
            data = f.read()
        assert data.startswith(begin) and len(data) > 5000, "%s%s: %d bytes" % (name, form, len(data))
    says = {"train": b"no packets", "noise": b"no packets", "rvma7": b"modelled NICs", "rvma8": b"modelled NICs"}
    usual = (b"seed", b"rounds") if name == "fig16" or name.startswith("rvma") else (b"seed", b"samples", b"P is a loss of")
    for words in (b"seed", says[name]) if name in says else usual:
        assert words in data, "%s does not say %s" % (name, words)


@rule("series differ without colours: measured points by shape, lines by points on them, bars by pattern; each axis has a title")
def without_colours(run):
    lines = [plot.Series(name, [(1, 2), (2, 3), (3, 4, 1)]) for name in ("a", "b", "c")]
    for panel, what in ((plot.Panel("t", "across", "up", lines), r"linespoints pt (\d+)"),
                        (plot.Panel("t", "across", "up", [plot.Series(s.name, s.points, "points") for s in lines]), r"yerrorbars pt (\d+)"),
                        (plot.Panel("t", "across", "up", [plot.Series(s.name, [("x", 2, 1)]) for s in lines], names=["x"], bars=True), r"boxerrorbars fs pattern (\d+)")):
        text, _, _ = plot.script(plot.Figure("f", "t", "", [panel]))
        found = re.findall(what, text)
        assert len(found) == 3 == len(set(found)), (what, text)
        assert "set xlabel 'across'" in text and "set ylabel 'up'" in text, text
    # The model's line has the measured points' colour, and those their shape.
    both = plot.Panel("t", "x", "y", [plot.Series("", [(1, 2)], colour=plot.COLOURS["ec-mds"]), plot.Series("m", [(1, 2, 1)], "points", plot.COLOURS["ec-mds"])])
    text, _, _ = plot.script(plot.Figure("f", "t", "", [both]))
    assert "linespoints" not in text and "yerrorbars pt %d " % plot.shape(plot.COLOURS["ec-mds"]) in text, text


def simulate_sr(x, chunks, inject, rto, p):
    """One message, by drawing every chunk."""
    latest = 0.0
    for i in range(1, chunks + 1):
        lost = 0
        while x.random() < p:
            lost += 1
        latest = max(latest, i * inject + lost * (rto + inject))
    return latest + RTT


def fallback(chunks, k, m, p, xor):
    """Appendix B."""
    q, n = 1 - p, k // m + 1
    good = (
        (q**n + n * p * q ** (n - 1)) ** m
        if xor
        else sum(math.comb(k + m, i) * p**i * q ** (k + m - i) for i in range(m + 1))
    )
    return 1 - good ** (chunks // k)


@rule("figure 10: table, plots and page; the model's means and tails are those of messages drawn chunk by chunk here")
def completion(run):
    process, out = figures(run, "--quick", "--packets", "0", "--draws", "4000", "fig10")
    with open(os.path.join(out, "fig10.svg"), encoding="utf-8") as f:
        assert "--draws 4000 fig10" in f.read(), "the plot does not say what makes it"
    check_plots(out, "fig10")
    rows = read(out, "fig10")
    x = random.Random(1)
    for scheme, rto in (("sr-rto", 3), ("sr-nack", 1)):
        for drop in (1e-3, 1e-2):
            row = next(r for r in rows if r["panel"] == "b 64K" and r["scheme"] == scheme and float(r["x"]) == drop)
            equal(
                (row["source"], row["message"], row["chunk"], row["samples"], row["drop_per"]),
                ("model", str(128 << 20), str(64 << 10), "4000", "chunk"),
            )
            inject = (64 << 10) * 8 / LINE
            drawn = [simulate_sr(x, 2048, inject, rto * RTT, drop) for _ in range(150)]
            mean = sum(drawn) / len(drawn)
            error = math.sqrt(sum((t - mean) ** 2 for t in drawn)) / len(drawn)
            assert abs(float(row["mean_s"]) - mean) < 5 * math.hypot(error, float(row["mean_error_s"])), (
                scheme,
                drop,
                row["mean_s"],
                mean,
                error,
            )
            equal(round(float(row["lossless_s"]), 9), round(2048 * inject + RTT, 9))
    with open(os.path.join(out, "figures.md")) as f:
        page = f.read()
    for words in (
        "arXiv 2505.05366",
        "![",
        "(fig10.png)",
        "(fig10.csv)",
        "seed 1",
        "model: 4000 samples, no packets",
        "P is a loss of the chunk whole",
        "| paper | model | packets |",
    ):
        assert words in page, words
    assert "fig10" in process.stdout and "figures.md" in process.stdout, process.stdout


@rule("figure 11: the probability of a fallback is appendix B's, MDS and XOR, and the values on the page are the table's")
def codes(run):
    _, out = figures(run, "--quick", "--packets", "0", "--draws", "1000", "fig11")
    check_plots(out, "fig11")
    rows = [r for r in read(out, "fig11") if r["panel"] in ("64K", "4K")]
    equal(
        {(r["scheme"], r["message"], r["chunk"], r["ec"]) for r in rows},
        {(scheme, str(128 << 20), chunk, "32,8") for scheme in ("ec-mds", "ec-xor") for chunk in (str(64 << 10), str(4 << 10))},
    )
    for row in rows:
        want = fallback(int(row["message"]) // int(row["chunk"]), 32, 8, float(row["x"]), row["scheme"] == "ec-xor")
        assert abs(float(row["fallback_probability"]) - want) < 1e-9 + 1e-6 * want, (row, want)


@rule(
    "figure 13: rings are those of the recurrence: where nothing is lost 2N - 2 messages one after the other, else no less"
)
def rings(run):
    for n in (2, 3, 8):
        equal(round(allreduce.ring(lambda count: [1.5] * count, n), 9), round((2 * n - 2) * 1.5, 9))
    # Two late messages: datacenter 0's in the first round, in the second that of the next one, which has waited for it, or of
    # another.
    for second, ends in ((1, 22), (2, 13)):
        rounds = iter([[10, 1, 1], [10 if i == second else 1 for i in range(3)], [1, 1, 1], [1, 1, 1]])
        equal(allreduce.ring(lambda count: next(rounds), 3), ends)
    allreduce.DROPS, allreduce.RINGS, allreduce.BUFFERS = ("1e-6", "1e-2"), (2, 6), ("8M",)
    packets = 10 * 4 * 6 * 512 // lab.RINGS  # for ten allreduces of 8 MiB
    both = read(drawn_figure(run, allreduce.figure13(lab.Lab(run.spindle, packets=packets, draws=500))), "fig13")
    rows = [r for r in both if r["source"] == "model"]
    simulated = [r for r in both if r["source"] == "packets"]
    equal(len(simulated), 4)
    for row in simulated:  # as the model has it, within what ten of them are worth
        equal([row[name] for name in ("datacenters", "buffer", "samples", "drop")], ["4", str(8 << 20), "10", "1e-2"])
        same = ("scheme", "datacenters", "buffer", "drop", "chunk")
        model = next(r for r in rows if all(r[name] == row[name] for name in same))
        assert 0.75 < float(row["mean_s"]) / float(model["mean_s"]) < 1.25, (row, model)
    equal(
        {(r["datacenters"], r["buffer"]) for r in rows},
        {("2", str(128 << 20)), ("6", str(128 << 20)), ("4", str(8 << 20)), ("4", str(128 << 20))},
    )
    equal({(r["samples"], r["messages_drawn_from"], r["source"]) for r in rows}, {("100", "500", "model")})
    for row in rows:
        n, message = int(row["datacenters"]), int(row["message"])
        assert 0 <= message * n - int(row["buffer"]) < n, row
        parity = math.ceil(message / int(row["chunk"])) / 4 + 8 if row["scheme"] == "ec-mds" else 0
        least = (2 * n - 2) * (RTT + message * 8 / LINE)
        assert float(row["p999_s"]) + 1e-9 >= float(row["mean_s"]) >= least - 1e-9, (row, least)
        if float(row["drop"]) < 1e-5 and row["scheme"] == "ec-mds" and row["chunk"] == "65536":
            assert float(row["p999_s"]) <= least + (2 * n - 2) * parity * int(row["chunk"]) * 8 / LINE, (row, least)


@rule("packets beside the model: samples of both, each with its source, and times that are drawn one by one")
def packets(run):
    messages.SOME_DROPS = ("1e-3", "1e-2", "1e-1")
    rows = read(drawn_figure(run, messages.beside_model(lab.Lab(run.spindle, packets=2500, draws=4000))), "model")
    simulated = [r for r in rows if r["source"] == "packets"]
    assert {r["scheme"] for r in simulated} >= {"sr-rto", "sr-nack"}, simulated
    equal(
        {(r["message"], r["chunk"]) for r in simulated}, {(str(128 << 10), str(64 << 10))}, "what so few packets are enough for"
    )
    for r in simulated:
        model = next(m for m in rows if m["source"] == "model" and all(m[k] == r[k] for k in ("scheme", "message", "drop")))
        packets_ = int(r["message"]) // 4096
        equal(int(r["samples"]), 2500 // 4 // packets_)
        assert abs(float(r["mean_s"]) - float(model["mean_s"])) < 0.1 * float(model["mean_s"]) + 4 * math.hypot(
            float(r["mean_error_s"]), float(model["mean_error_s"])
        ), (r, model)
    for kind in (("--model", "--samples", "300"), ("--payload-less", "--samples", "70")):
        file = run.path("times")
        got = run.command("sim", "sdr", "--message", "1M", "--drop", "0.02", "--json", "--times", file, *kind)
        equal((got.returncode, got.stderr), (0, ""))
        with open(file) as f:
            times = [float(line) for line in f]
        equal(len(times), int(kind[-1]))
        assert abs(sum(times) / len(times) - float(got.stdout.split('"mean_s": ')[1].split(",")[0])) < 1e-9
        assert len({round(t, 3) for t in times}) > 1, times


@rule("what repairs cost: the same messages with more workers, as many as receiving takes among them")
def repairs(run):
    repair.RUNS, repair.TURNS, repair.MESSAGE, repair.LEAST = 1, 3, "8M", (8 << 20) * 1.25 * 8 / LINE + RTT
    figure = repair.figure_repair(lab.Lab(run.spindle, packets=10 * 2048, draws=10, bench=("--quick",)))
    rows = read(drawn_figure(run, figure), "repair")
    needs = int(figure.claims[0][-1].split()[-2])
    equal([int(r["x"]) for r in rows], sorted({1, 2, 4, 8, needs}))
    for r in rows:
        equal((r["repair_workers"], r["samples"], r["repair_bps"], r["ec"]), (r["x"], "10", rows[0]["repair_bps"], "32,8"))
        assert float(r["mean_s"]) <= float(rows[0]["mean_s"]), r


@rule("the scheme that picks itself: over the least mean of the fixed ones, once it has learnt and while it learns")
def picked(run):
    drops = automatic.SOME_DROPS = ("1e-6", "3e-2")
    automatic.SOME_SIZES, automatic.WARM = ("1M",), 512
    figure = automatic.automatic(lab.Lab(run.spindle, packets=automatic.CONNECTIONS * 256, draws=10))
    rows = read(drawn_figure(run, figure), "auto")
    equal([row[0] for row in figure.table], ["message", "1M"])
    for drop in drops:
        fixed = {r["scheme"]: float(r["mean_s"]) for r in rows if r["drop"] == drop and not r["phase"]}
        mine = {r["phase"]: r for r in rows if r["drop"] == drop and r["scheme"] == "auto"}
        equal((set(fixed), set(mine)), ({"sr-nack", "ec-xor", "ec-mds"}, {"learnt", "learning"}))
        for r in mine.values():
            assert abs(float(r["over_best"]) - float(r["mean_s"]) / min(fixed.values())) < 1e-4, (r, fixed)
            equal(sum(int(words.rsplit(":", 1)[1]) for words in r["chosen"].split()), int(r["samples"]))
        equal((mine["learnt"]["warm_up"], mine["learning"]["warm_up"]), ("34", "0"))
        assert float(mine["learnt"]["over_best"]) < 1.1, mine["learnt"]
        assert drop == "1e-6" or "ec-mds" in mine["learnt"]["chosen"], mine["learnt"]


@rule("figures 15 and 16: bench's cases with the chunks and workers that are asked for")
def measured(run):
    engine.TURNS, engine.processors = 1, lambda: [1, 2]
    rows = read(drawn_figure(run, engine.figure16(lab.Lab(run.spindle, bench=("--rounds", "1", "--seconds", "0.005")))), "fig16")
    equal([r["workers"] for r in rows], ["1", "2"])
    for r in rows:
        equal((r["packet_bytes"], r["message_packets"], r["chunk_packets"]), ("64", "64", "16"))
        assert float(r["Mpkt_s"]) > 0 and abs(float(r["Gbit_s"]) - float(r["Mpkt_s"]) * 64 * 8e-3) < 1e-6 * float(r["Gbit_s"]), r


@rule("figures 4 to 6 of the RVMA paper: a put takes its way and its bytes, an exchange is amortised where 3 % of all writes pay it")
def puts(run):
    mailboxes.SIZES, mailboxes.NAMES = (8, 32768), ["8", "32K"]
    here = lab.Lab(run.spindle, bench=("--rounds", "1", "--seconds", "0.005"))
    for figure in (mailboxes.figure4(here), mailboxes.figure5(here), mailboxes.figure6(here)):
        rows = read(drawn_figure(run, figure), figure.name)
        ns = {(r["network"], r["way"], int(r["bytes"])): float(r["ns"]) for r in rows if r["ns"]}
        for r in (r for r in rows if r["exchanges_to_3_percent"]):
            each, setup = float(r["ns"]), ns[r["network"], mailboxes.EXCHANGE, int(r["bytes"])]
            n = int(r["exchanges_to_3_percent"])
            assert setup / n <= 0.03 * each * 1.0001 and (n == 1 or setup / (n - 1) > 0.03 * each * 0.9999), r
            put = ns[r["network"], mailboxes.PUT, int(r["bytes"])]
            assert abs(float(r["put_saves"]) - (1 - put / each)) < 1e-4, r
        if figure.name == "rvma4":
            equal({network for network, _, _ in ns}, {"latency"})
            continue
        for bytes_, packets in ((8, 1), (32768, 8)):  # Ethernet, IPv4, UDP, BTH, put, ICRC, and what a wire adds, at 12.5 bytes/ns
            wire = (bytes_ + packets * (14 + 20 + 8 + 12 + 56 + 4 + 24)) / 12.5
            assert abs(ns["ordered", mailboxes.PUT, bytes_] - 1000 - wire) < 0.1, ns
            assert ns["adaptive", mailboxes.AFTER, bytes_] > 3000 + wire, ns
        late = [r for r in rows if r["network"] == "adaptive" and r["way"] == mailboxes.POLLED and r["bytes"] == "32768"]
        assert "before others" in late[0]["note"] and not late[0]["ns"], late


@rule("figures 7 and 8 of the RVMA paper: ratios are those of the times, the paper's mean is that of what it did, polling is early where adaptive")
def networks(run):
    motifs.SPEEDS, motifs.NAMES = ("400G", "2T"), ["400", "2000"]
    motifs.NETWORKS[16] = {"dragonfly": ("dragonfly:2:2:1:4", ("minimal", "adaptive")), "HyperX": ("hyperx:2x2:4", ("minimal",))}
    here = lab.Lab(run.spindle, nodes=16)
    for figure in (motifs.figure7(here), motifs.figure8(here)):
        rows = read(drawn_figure(run, figure), figure.name)
        key = ("motif", "network", "routing", "link_bps")
        puts = {tuple(r[k] for k in key): float(r["time_s"]) for r in rows if r["transport"] == "rvma"}
        equal(len(puts), 6 * (1 + (figure.name == "rvma8")))
        equal(len(rows), 4 * len(puts))
        for r in rows:
            assert abs(float(r["times_rvma"]) - float(r["time_s"]) / puts[tuple(r[k] for k in key)]) < 1e-6, r
            assert r["seed"] == "1" and r["nodes"] == "16", r
            early = r["transport"] == "rdma-polled" and r["routing"] == "adaptive" and r["motif"] != "sweep3d"
            equal(int(r["early_reads"]) > 0, early, r)
        used = [float(r["times_rvma"]) for r in rows if r["motif"] in ("sweep3d", "halo3d") and r["way"] == (
            motifs.POLLED if r["routing"] == "minimal" else motifs.TOLD)]
        equal(figure.claims[0][2].split(";")[0], "%.2f" % (sum(used) / len(used)))
        equal(figure.claims[0][1], {"rvma7": "3.56", "rvma8": "1.57"}[figure.name])
    # Computation at the beginning is what it is called: simulated, it gives the ratio that was computed without.
    at = ("--topology", "hyperx:2x2:4", "--routing", "minimal", "--link", "2T")
    computed = motifs.Run(here, "halo3d", ("--compute", "0ns"), 16).computing(motifs.MINIMAL)
    for way in (motifs.POLLED, motifs.TOLD):
        put, rdma = (motifs.simulate(here, "halo3d", "--ranks", "16", "--compute", "14us", *at, *words)["time_s"] for words in ((), motifs.HOW[way]))
        assert abs(rdma / put - computed.ratio["HyperX", "minimal", way, "2T"]) < 1e-9, way


@rule("a figure that there is not, a spindle that there is not, and values that cannot be are told")
def wrong(run):
    assert "no figure fig2: there are model, fig3" in figures(run, "fig2", expect=2)[0].stderr
    assert "--packets must be 0 or more" in figures(run, "--packets", "-1", expect=2)[0].stderr
    assert "nowhere" in figures(run, "--spindle", "/nowhere", "fig12", expect=1)[0].stderr
    for option, value in (
        ("--message-packets", "3"),
        ("--message-packets", "1"),
        ("--chunk-packets", "256"),
        ("--chunk-packets", "x"),
    ):
        process = run.command("bench", option, value)
        equal(process.returncode, 2)
        assert option in process.stderr.splitlines()[0], process.stderr
    for value in ("/nowhere/times", "/dev/full"):
        process = run.command("sim", "sdr", "--model", "--samples", "10", "--times", value)
        equal((process.returncode, process.stdout), (1, ""))
        assert value in process.stderr, process.stderr


@rule("training: points are the closed forms, the links inside delay no more from the ring's factor on, and NICs' barriers have no noise")
def trains(run):
    training.BYTES, training.WORKERS, training.RATIOS, training.KNEES = (1 << 10, 1 << 20), (2, 16), (1.3, 1.4, 1.5, 1.6), {4: 1.5}
    training.BARRIERS, training.BARRIER_WORKERS = 100, (2, 256)
    figure = training.training(lab.Lab(run.spindle, 3))
    rows = read(drawn_figure(run, figure), "train")
    steps = [row for row in rows if row["closed_s"]]
    equal(len(steps), 4 * 4)
    for row in steps:
        assert math.isclose(float(row["time_s"]), float(row["closed_s"]), rel_tol=1e-9), row
    equal([training.knee(series) for series in figure.panels[2].series], [1.5])
    hosts, nics = ([float(row["time_s"]) for row in rows if row["scheme"] == name] for name in ("barrier", "barrier-nic"))
    for took, rounds in zip(nics, (1, 8)):
        assert math.isclose(took, rounds * (1e-6 + 64 * 8e-11), rel_tol=1e-9), nics
    assert hosts[1] > 1.05 * nics[1], (hosts, nics)


@rule("noise: without it times are the published ones, each kind slows collectives down, and NICs' disseminations do not feel the hosts'")
def noises(run):
    noise.RANKS, noise.RUNS, noise.SAMPLES = dict.fromkeys(noise.PATTERNS, (4, 64)), 20, 10000
    noise.BARRIER_RANKS, noise.BARRIERS = (16, 256), 20
    figure = noise.noise(lab.Lab(run.spindle, 3))
    rows = read(drawn_figure(run, figure), "noise")
    quiet = {(row["what"], row["ranks"]): float(row["quiet_s"]) for row in rows}
    assert math.isclose(quiet["dissemination", "64"], 9.60774e-6, rel_tol=1e-5), quiet
    assert math.isclose(quiet["pipelinedring", "4"], 46187.698e-6, rel_tol=1e-7), quiet
    assert math.isclose(quiet["pipelinedring", "64"], 46439.693e-6, rel_tol=1e-7), quiet
    for row in rows:
        slow = float(row["slowdown"])
        assert slow >= 1 and (slow > 1 or row["noise"] == "hosts"), row
        if row["what"] == "barrier-nic" and row["noise"] == "hosts":
            assert math.isclose(slow, 1, rel_tol=1e-12), row
        if row["what"] == "barrier" and row["ranks"] == "256":
            assert slow > 1.05, row
        # Full duplex: 46.2 to 46.7 ms, and not 58 as where hosts are half duplex.
        if row["what"] == "pipelinedring" and row["ranks"] == "4":
            assert float(row["p50_s"]) < 0.0467, row


if __name__ == "__main__":
    main()
