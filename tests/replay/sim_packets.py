#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim without --model: messages packet by packet. Its times are those of the model where the model holds, its counts are
right, and nothing depends on how it is spread over processes."""

import json
import math
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

FIELDS = {"scheme", "model", "samples", "seed", "mean_s", "mean_error_s", "p50_s", "p99_s", "p999_s", "lossless_s", "slowdown_mean",
          "slowdown_p999", "packets", "retransmitted_packets", "spurious_retransmissions", "verified", "payload_less", "bandwidth_bps",
          "rtt_s", "message", "chunk", "mtu", "drop", "drop_per", "chunk_drop", "rto_rtts", "wall_s"}
EC_FIELDS = {"ec", "parity_packets", "repaired_chunks", "fallbacks", "repair_bps", "repair_workers", "decode_s"}
WIRE = 14 + 20 + 8 + 12 + 16 + 4 + 4 + 24  # Ethernet, IPv4, UDP, BTH, RETH, ImmDt, ICRC; preamble, FCS and gap
MISUSE = [
    (("--scheme", "ec-mds", "--beta", "1"), "only --model has --beta"),
    (("--scheme", "ec-mds", "--rto", "3"), "of packets only sr-rto has --rto"),
    (("--scheme", "ec-mds", "--ec", "248,8"), "--ec must have K + M <= 255 without --model"),
    (("--repair-rate", "1G"), "only ec-mds, ec-xor and auto have --repair-rate"),
    (("--scheme", "ec-mds", "--repair-workers", "2"), "--repair-workers needs --repair-rate"),
    (("--model", "--scheme", "auto"), "the model has no auto"),
    (("--burst", "4"), "--burst needs --drop-per packet"),
    (("--burst", "1", "--drop-per", "packet", "--drop", "0.6"),
     "bursts as short as --burst cannot lose as much as --drop: at most N / (N + 1)"),
    (("--reorder-delay", "1ms"), "--reorder-delay needs --reorder"),
    (("--samples", "10000001"), "--samples must be at most 10000000 without --model"),
    (("--ec", "32,8"), "only ec-mds, ec-xor and auto have --ec"),
    (("--mtu", "64", "--chunk", "64"), "--mtu must be at least 100 without --model: acknowledgements have to fit"),
    (("--drop", "0.9995"), "--drop must leave a chunk's probability of a loss at most 0.999, not 0.9995"),
] + [(("--model", *option), "the model has no " + ("--jobs" if option[0] == "-j" else option[0]))
     for option in (("--burst", "4"), ("--jitter", "1us"), ("--reorder", "0.1"), ("--reorder-delay", "1us"), ("--duplicate", "0"),
                    ("--jobs", "1"), ("-j", "1"), ("--payload-less",), ("--repair-workers", "2"))]
VALUES = [("--burst", "1 to 1000000 (packets)", ("0", "0.9", "-1", "nan", "1e7")),
          ("--jitter", "0 to 10s", ("-1us", "11s", "1")),
          ("--reorder", "0 to 1", ("-0.1", "1.1", "nan")),
          ("--reorder-delay", "0 to 10s", ("-1us", "11s")),
          ("--duplicate", "0 to 1", ("-0.1", "2")),
          ("--repair-rate", "1M or more (bit/s), or measured", ("0", "999999", "-1", "fast")),
          ("--repair-workers", "1 to 16", ("0", "17", "-1")),
          ("--jobs", "1 to 256", ("0", "-1", "257"))]


def sim(run, *arguments):
    process = run.command("sim", "sdr", "--json", *arguments)
    equal((process.returncode, process.stderr), (0, ""), arguments)
    return json.loads(process.stdout)


def figures(run, *arguments):
    got = sim(run, *arguments)
    del got["wall_s"]
    return got


@rule("within 10 % of the model (and four standard errors) where chunks are lost independently and injection is shorter than the timeout")
def the_model(run):
    for scheme in ("sr-rto", "sr-nack"):
        for message, samples in (("128K", 400), ("2M", 100), ("32M", 20)):
            for drop in ("1e-3", "1e-2"):
                arguments = ("--scheme", scheme, "--message", message, "--drop", drop)
                got = sim(run, *arguments, "--payload-less", "--samples", str(samples))
                want = sim(run, *arguments, "--model", "--samples", "10000")
                bound = 0.1 * want["mean_s"] + 4 * math.hypot(got["mean_error_s"], want["mean_error_s"])
                assert abs(got["mean_s"] - want["mean_s"]) < bound, (arguments, got["mean_s"], want["mean_s"], bound)
                equal(got["spurious_retransmissions"], 0, arguments)


@rule("acknowledgements are lost, too: a message of one chunk, half of which are lost, takes many times what the model says")
def lost_answers(run):
    arguments = ("--message", "4096", "--chunk", "4096", "--drop", "0.5", "--scheme", "sr-nack")
    got, want = sim(run, *arguments, "--samples", "400"), sim(run, *arguments, "--model")
    assert got["mean_s"] > 5 * want["mean_s"], (got["mean_s"], want["mean_s"])
    # A chunk that has come does not go again because nobody says so: as many go as are lost, of 400 half, a quarter ...
    assert 300 < got["retransmitted_packets"] < 500 and not got["spurious_retransmissions"], got


@rule("without losses a message takes what its packets take on the wire and a round trip, and nothing goes twice")
def no_losses(run):
    for message, mtu in ((10 << 20, 4096), (1000003, 1024), (409600, 4096)):
        got = sim(run, "--drop", "0", "--samples", "2", "--message", str(message), "--mtu", str(mtu), "--bandwidth", "10G", "--rtt", "2ms")
        packets = -(-message // mtu)
        padded = -(-message // 4) * 4
        want = (padded + packets * WIRE) * 8 / 10e9 + 2e-3
        # Beyond that, the acknowledgement on the wire, and the steps of time, 1/8192 of a round trip each.
        assert want < got["mean_s"] < want + 10 * 2e-3 / 8192, (want, got["mean_s"])
        equal((got["p50_s"], got["p999_s"], got["slowdown_mean"]), (got["lossless_s"], got["lossless_s"], 1))
        equal((got["packets"], got["retransmitted_packets"], got["verified"]), (2 * packets, 0, 2 * message))


@rule("all chunks of a message may be under way at once, however many they are")
def no_window(run):
    got = sim(run, "--drop", "0", "--samples", "1", "--message", "512M", "--chunk", "4K", "--payload-less")
    want = 131072 * (4096 + WIRE) * 8 / 400e9 + 0.025
    assert want < got["mean_s"] < 1.01 * want, (want, got["mean_s"])


@rule("bytes are compared at the receiver, all of them, whatever happens to packets; retransmissions are counted in packets")
def verified(run):
    for what in (("--drop-per", "packet", "--burst", "5", "--drop", "1e-2"),
                 ("--jitter", "100us", "--reorder", "0.05", "--duplicate", "0.05", "--drop", "1e-2")):
        for scheme in ("sr-rto", "sr-nack"):
            got = sim(run, "--scheme", scheme, "--message", "2M", "--samples", "6", *what)
            equal(set(got), FIELDS)
            equal((got["verified"], got["payload_less"], got["model"]), (6 * (2 << 20), False, False))
            equal(got["packets"], 6 * 512 + got["retransmitted_packets"])
            assert got["retransmitted_packets"] >= 16 and got["retransmitted_packets"] % 16 == 0, got
            assert got["lossless_s"] < got["mean_s"] <= got["p999_s"], got


@rule("as many whole chunks are lost in bursts as is said")
def bursts(run):
    got = sim(run, "--drop-per", "packet", "--burst", "8", "--drop", "0.02", "--message", "4M", "--samples", "100", "--payload-less",
              "--scheme", "sr-nack")
    chunks = got["packets"] / 16  # 0.02 + 0.98 * (1 - (1 - 0.02 / 0.98 / 8) ** 15)
    assert abs(got["chunk_drop"] - 0.0569) < 0.0001, got["chunk_drop"]
    assert 0.8 < got["retransmitted_packets"] / 16 / chunks / got["chunk_drop"] < 1.1, got


@rule("a timeout of many long round trips is waited for")
def long_timeout(run):
    got = sim(run, "--rtt", "20s", "--rto", "1000", "--drop", "0.3", "--message", "1M", "--samples", "3")
    assert got["mean_s"] > 20000, got


@rule("reordering, late and repeated packets alone make nothing go again")
def no_losses_no_retransmissions(run):
    for scheme in ("sr-rto", "sr-nack"):
        got = sim(run, "--scheme", scheme, "--message", "4M", "--drop", "0", "--samples", "4", "--jitter", "50us", "--reorder", "0.1",
                  "--duplicate", "0.1")
        equal((got["retransmitted_packets"], got["spurious_retransmissions"], got["verified"]), (0, 0, 4 * (4 << 20)))


@rule("the same seed gives the same figures, however many processes share the work; another seed gives others")
def seeds(run):
    arguments = ("--message", "1M", "--drop", "0.02", "--samples", "40")
    equal(figures(run, *arguments, "--jobs", "1"), figures(run, *arguments, "-j", "3"))
    one, two = (figures(run, *arguments, "--seed", s, "--payload-less") for s in ("8", "9"))
    assert one["mean_s"] != two["mean_s"], one


@rule("payload-less everything but the comparison is the same, to the last digit")
def payload_less(run):
    for what in (("--drop", "0.01"), ("--scheme", "ec-xor", "--drop", "0.03"), ("--drop-per", "packet", "--drop", "1e-3", "--jitter", "10us", "--duplicate", "0.01")):
        arguments = ("--scheme", "sr-nack", "--message", "4M", "--samples", "4", *what)
        full, less = figures(run, *arguments), figures(run, *arguments, "--payload-less")
        equal((full.pop("verified"), less.pop("verified")), (4 * (4 << 20), 0))
        equal((full.pop("payload_less"), less.pop("payload_less")), (False, True))
        equal(less, full, what)


@rule("with erasure coding nothing goes again while losses are within its reach: a message takes its data, its parity and a round trip at most")
def repaired(run):
    packets = 2048
    for what in (("ec-mds", "0.01"), ("ec-mds", "0"), ("auto", "0.01")):
        got = sim(run, "--scheme", what[0], "--message", "8M", "--drop", what[1], "--samples", "30", "--payload-less")
        equal(set(got), FIELDS | EC_FIELDS | ({"chosen"} if what[0] == "auto" else set()))
        code = [32, 32] if what[0] == "auto" else [32, 8]
        equal((got["ec"], got["retransmitted_packets"], got["fallbacks"], got["packets"]), (code, 0, 0, 30 * packets))
        equal((got["repaired_chunks"] > 0, got["decode_s"]), (what[1] != "0", 0))
        codes = [(c["ec"], c["messages"]) for c in got["chosen"]] if what[0] == "auto" else [([32, 8], 30)]
        equal(got["parity_packets"], sum(count * packets * m // k for (k, m), count in codes))
        parity = max(packets * m // k for (k, m), _ in codes) if what[1] != "0" else 0
        most = (packets + parity) * (4096 + WIRE) * 8 / 400e9 + 0.025
        assert got["p999_s"] < most + 30e-6, (what, got["p999_s"], most)


@rule("auto says what it has chosen, and parity is as much as that; what it sends to warm up is not counted")
def chosen(run):
    for drop, warm, coded in (("0.02", 40, True), ("0", 80, False)):
        got = sim(run, "--scheme", "auto", "--message", "2M", "--drop", drop, "--samples", "16", "--warm-up", str(warm), "--payload-less",
                  "--bandwidth", "10G", "--rtt", "2ms")
        equal((got["warm_up"], got["packets"] - got["retransmitted_packets"]), (warm, 16 * 512))
        equal(sum(c["messages"] for c in got["chosen"]), 16)
        equal({c["scheme"] for c in got["chosen"]}, {"ec-mds" if coded else "sr-nack"})
        parity = sum(c["messages"] * 512 * c["ec"][1] / c["ec"][0] for c in got["chosen"] if "ec" in c)
        equal(got["parity_packets"], parity)
    equal(sim(run, "--scheme", "auto", "--ec", "20,4", "--message", "1M", "--samples", "1", "--payload-less")["ec"], [20, 4])


@rule("what erasure coding cannot repair goes again, and every byte is right; what it repairs is counted")
def fallback(run):
    for scheme, ec in (("ec-xor", "8,2"), ("ec-mds", "8,1")):
        got = sim(run, "--scheme", scheme, "--ec", ec, "--message", "2000001", "--chunk", "16K", "--drop", "0.08", "--samples", "12")
        assert 0 < got["fallbacks"] <= 12 and got["repaired_chunks"] > 0, got
        equal((got["packets"], got["verified"]), (12 * 489 + got["retransmitted_packets"], 12 * 2000001))
        assert got["retransmitted_packets"] >= 4 * got["fallbacks"] and got["p999_s"] > 0.05, got


@rule("repairs take the time that is said, with and without payload")
def repair_rate(run):
    arguments = ("--scheme", "ec-mds", "--message", "8M", "--drop", "0.03", "--samples", "6")
    free = figures(run, *arguments)
    full, less = (figures(run, *arguments, "--repair-rate", "100G", *more) for more in ((), ("--payload-less",)))
    full.pop("verified"), less.pop("verified"), full.pop("payload_less"), less.pop("payload_less")
    equal(less, full)
    least = full["repaired_chunks"] * 32 * 65536 * 8 / 100e9 / 6
    assert 2 * least <= full["decode_s"] < 4 * least, (least, full["decode_s"])
    assert free["mean_s"] < full["mean_s"] < free["mean_s"] + full["decode_s"] + 30e-6, (free, full)


@rule("workers repair a message together, with and without payload: less time for the same work")
def repair_workers(run):
    arguments = ("--scheme", "ec-mds", "--message", "8M", "--drop", "0.03", "--samples", "6", "--repair-rate", "100G")
    one, full, less = (figures(run, *arguments, *more) for more in ((), ("--repair-workers", "3"), ("--repair-workers", "3", "--payload-less")))
    equal((full.pop("verified"), less.pop("verified"), full.pop("payload_less"), less.pop("payload_less")), (6 * (8 << 20), 0, False, True))
    equal(less, full)
    equal((one["repair_workers"], full["repair_workers"], full["repair_bps"]), (1, 3, 100000000000))
    equal((full["decode_s"], full["repaired_chunks"]), (one["decode_s"], one["repaired_chunks"]))
    assert full["mean_s"] < one["mean_s"] - 0.3 * one["decode_s"], (one, full)


@rule("128 MiB, 400 Gbit/s, 25 ms, a hundredth of the chunks lost: repairs included a message takes at most 1.05 times what data, "
      "parity and a round trip take, where those workers repair that receiving needs anyway; where one does, it takes longer")
def repairs_of_a_fast_line(run):
    arguments = ("--scheme", "ec-mds", "--message", "128M", "--drop", "1e-2", "--repair-rate", "300G", "--samples", "10", "--payload-less")
    one, four = (sim(run, *arguments, "--repair-workers", workers) for workers in ("1", "4"))
    most = 1.05 * ((128 << 20) * 40 / 32 * 8 / 400e9 + 0.025)
    assert four["mean_s"] <= four["p999_s"] <= most < one["mean_s"], (four["mean_s"], four["p999_s"], most, one["mean_s"])
    assert four["decode_s"] > 0.002 and four["fallbacks"] == one["fallbacks"] == 0, four


@rule("128 MiB, 400 Gbit/s, 25 ms, a hundredth of the chunks lost: packets' means are within 10 % of another program's run of the "
      "paper's model, over the time without losses")
def another_run_of_the_model(run):
    for scheme, mean in (("sr-rto", 4.22), ("sr-nack", 2.07), ("ec-mds", 1.02)):
        got = sim(run, "--scheme", scheme, "--message", "128M", "--drop", "1e-2", "--samples", "32", "--payload-less")
        assert abs(got["slowdown_mean"] / mean - 1) < 0.1, (scheme, got["slowdown_mean"], mean)


@rule("the table has the same figures as JSON")
def table(run):
    arguments = ("--message", "1M", "--drop", "0.02", "--samples", "100")
    text, got = run.command("sim", "sdr", *arguments).stdout, sim(run, *arguments)
    rows = {line[:10].strip(): line[10:].split() for line in text.splitlines()}
    for name, member in (("lossless", "lossless_s"), ("mean", "mean_s"), ("50 %", "p50_s"), ("99 %", "p99_s")):
        equal(rows[name], ["%.9g" % got[member], "%.3f" % (got[member] / got["lossless_s"])], name)
    equal(rows["99.9 %"], ["-", "-"])  # no sample is beyond it
    assert "%d packets of data, %d of them sent again (0 needlessly)" % (got["packets"], got["retransmitted_packets"]) in text, text
    assert "%d bytes compared at the receiver" % (100 << 20) in text, text


@rule("what cannot be given, or not together, is named, exit status 2")
def misuse(run):
    for arguments, words in MISUSE:
        process = run.command("sim", "sdr", *arguments)
        equal((process.returncode, process.stderr.splitlines()[0], process.stdout), (2, "spindle sim: " + words, ""), arguments)
    for option, wants, values in VALUES:
        for value in values:
            process = run.command("sim", "sdr", option, value)
            equal((process.returncode, process.stdout, process.stderr),
                  (2, "", "spindle sim: %s must be %s, not %s\n" % (option, wants, value)))
    process = run.command("sim", "sdr", "--message", "1025M")
    equal((process.returncode, process.stderr),
          (2, "spindle sim: --message must be at most --mtu * 2^18 without --model: 1074790400 is more than 1073741824\n"))


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(word) for word in f.read().split()]


@rule("interrupted it says so, status 1, and no process is left; a process that dies is told")
def ends(run):
    for who, words in (("parent", "spindle sim: interrupted\n"), ("child", "spindle sim: a process of the simulation has died (signal 9)\n")):
        # So few need little memory before the first one begins, and take a minute all the same.
        process = subprocess.Popen([run.spindle, "sim", "sdr", "--samples", "20000", "--payload-less", "-j", "2"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        limit = time.monotonic() + 60
        while len(children(process.pid)) < 2 and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.3)
        workers = children(process.pid)
        equal(len(workers), 2)
        os.kill(*((process.pid, signal.SIGINT) if who == "parent" else (workers[0], signal.SIGKILL)))
        out, err = process.communicate(timeout=120)
        equal((process.returncode, out, err), (1, "", words))
        for pid in workers:
            assert not os.path.exists("/proc/%d" % pid), pid


if __name__ == "__main__":
    main()
