#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim: its figures are those of the model's definition, its output is whole, what cannot be is named."""

import json
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

MEMBERS = {"scheme", "model", "samples", "seed", "mean_s", "mean_error_s", "p50_s", "p99_s", "p999_s", "lossless_s", "slowdown_mean",
           "slowdown_p999", "bandwidth_bps", "rtt_s", "message", "chunk", "mtu", "drop", "drop_per", "chunk_drop", "rto_rtts", "wall_s"}
EC_MEMBERS = {"ec", "beta_rtts", "fallbacks", "fallback_probability"}
MISUSE = [
    (("--model", "x"), "extra argument x"),
    (("--model", "--rtt", "25ms", "--distance", "3750"), "--distance and --rtt say the same: only one can be given"),
    (("--model", "--scheme", "sr-nack", "--rto", "3"), "sr-nack sends again after one round trip and has no --rto"),
    (("--model", "--ec", "32,8"), "only ec-mds, ec-xor and auto have --ec"),
    (("--model", "--beta", "1"), "only ec-mds, ec-xor and auto have --beta"),
]
VALUES = [("--bandwidth", "1k to 100T", ("0", "999", "-1", "nan", "100001G", "")),
          ("--distance", "0.001 to 3000000 (km)", ("0", "-1", "nan", "inf", "3e6x", "3000001km", "1 km", "0x10")),
          ("--rtt", "1ps to 20s", ("0", "0s", "-1s", "21s", "25")),
          ("--message", "1 to 1024T", ("0", "-1", "1025T", "1.5M", "nan")),
          ("--chunk", "1 to 1G", ("0", "-4096", "2G")),
          ("--mtu", "64 to 4096", ("0", "63", "4097")),
          ("--drop", "0 or more and less than 1", ("1", "-0.1", "nan", "1e-3%", "")),
          ("--drop-per", "chunk or packet", ("message",)),
          ("--scheme", "sr-rto, sr-nack, ec-mds, ec-xor or auto", ("sr", "SR-RTO", "")),
          ("--rto", "1 to 1000 (round trips)", ("0", "0.5", "-3", "nan", "1001")),
          ("--ec", "K,M with 1 <= M <= K and K + M <= 256", ("32", "32,0", "8,32", "250,7", "-1,1", ",", "32,8,1")),
          ("--beta", "0 to 1000 (round trips)", ("-1", "nan")),
          ("--samples", "1 to 100000000", ("0", "-1", "100000001", "1e3")),
          ("--seed", "0 to 9223372036854775807", ("-1", "x", "9223372036854775808"))]
TOGETHER = [
    (("--chunk", "6000"), "--chunk must be a multiple of --mtu: 6000 is not one of 4096"),
    (("--drop", "0.9995"), "--drop must leave a chunk's probability of a loss at most 0.999, not 0.9995"),
    (("--drop", "0.5", "--drop-per", "packet"), "--drop must leave a chunk's probability of a loss at most 0.999, not 0.999985"),
    (("--message", "1024T", "--scheme", "ec-mds"), "--message must have at most 1048576 submessages of --ec data chunks"),
]


def sim(run, *arguments):
    process = run.command("sim", "sdr", "--model", "--json", *arguments)
    equal((process.returncode, process.stderr), (0, ""), arguments)
    return json.loads(process.stdout)


def selective_repeat(rng, message, chunk, bandwidth, rtt, rto, drop):
    """One message, chunk by chunk, from the paper's definition."""
    inject, end = chunk * 8 / bandwidth, 0
    for i in range(1, message // chunk + 1):
        sent = 1
        while rng.random() < drop:
            sent += 1
        end = max(end, i * inject + (rto + inject) * (sent - 1))
    return end + rtt


@rule("selective repeat takes as long as its definition says, computed chunk by chunk by other code")
def same_mean(run):
    rng, count = random.Random(1), 1500
    for scheme, rto, drop, distance in (("sr-rto", 3, 0.004, 3750), ("sr-nack", 1, 0.02, 150)):
        rtt = 2 * distance / 300000
        times = [selective_repeat(rng, 64 * 4096, 4096, 10e9, rtt, rto * rtt, drop) for _ in range(count)]
        mean = sum(times) / count
        error = math.sqrt(sum((t - mean) ** 2 for t in times)) / count
        got = sim(run, "--scheme", scheme, "--message", "256K", "--chunk", "4K", "--bandwidth", "10G", "--distance", "%dkm" % distance,
                  "--drop", str(drop))
        bound = 4 * math.hypot(error, got["mean_error_s"])
        assert abs(got["mean_s"] - mean) < bound, (scheme, got["mean_s"], mean, bound)


@rule("JSON has every member, and the ratios and the chunk's probability follow from the others")
def members(run):
    for scheme, more in (("sr-rto", set()), ("sr-nack", set()), ("ec-mds", EC_MEMBERS), ("ec-xor", EC_MEMBERS)):
        got = sim(run, "--scheme", scheme, "--drop", "1e-3", "--drop-per", "packet", "--samples", "500")
        equal(set(got), MEMBERS | more)
        equal((got["scheme"], got["model"], got["samples"], got["seed"], got["drop_per"]), (scheme, True, 500, 1, "packet"))
        equal((got["message"], got["chunk"], got["mtu"], got["rtt_s"], got["rto_rtts"]),
              (128 << 20, 65536, 4096, 0.025, 1 if scheme == "sr-nack" else 3))
        for name, value in (("slowdown_mean", got["mean_s"] / got["lossless_s"]), ("slowdown_p999", got["p999_s"] / got["lossless_s"]),
                            ("chunk_drop", 1 - (1 - 1e-3) ** 16), ("lossless_s", 0.025 + (128 << 20) * 8 / 400e9)):
            assert abs(got[name] / value - 1) < 1e-12, (name, got[name], value)
        assert got["lossless_s"] <= got["p50_s"] <= got["p99_s"] <= got["p999_s"], got
        if more:
            equal((got["ec"], got["beta_rtts"]), ([32, 8], 0.5))


@rule("the same seed gives the same figures, another seed others; --rtt is --distance by another name")
def seeds(run):
    def figures(*arguments):
        got = sim(run, "--drop", "0.01", "--samples", "1000", *arguments)
        del got["wall_s"], got["seed"]
        return got
    equal(figures("--seed", "7"), figures("--seed", "7"))
    assert figures("--seed", "7") != figures("--seed", "8")
    equal(figures("--rtt", "25ms"), figures("--distance", "3750"))


@rule("without losses every time is the lossless one exactly")
def no_losses(run):
    got = sim(run, "--drop", "0")
    equal((got["slowdown_mean"], got["slowdown_p999"], got["mean_error_s"]), (1, 1, 0))
    equal({got[name] for name in ("mean_s", "p50_s", "p99_s", "p999_s")}, {got["lossless_s"]})


@rule("the table says of what the drop probability is, and has the same figures as JSON")
def table(run):
    for per in ("chunk", "packet"):
        arguments = ("--drop-per", per, "--scheme", "ec-xor", "--drop", "0.002")
        text, got = run.command("sim", "sdr", "--model", *arguments).stdout, sim(run, *arguments)
        assert "a %s is lost with probability 0.002" % per in text, text
        rows = {line[:10].strip(): line[10:].split() for line in text.splitlines()[-5:]}
        for name, member in (("lossless", "lossless_s"), ("mean", "mean_s"), ("50 %", "p50_s"), ("99 %", "p99_s"), ("99.9 %", "p999_s")):
            equal(rows[name], ["%.9g" % got[member], "%.3f" % (got[member] / got["lossless_s"])], name)


@rule("what cannot be given, or not together, is named before the usage, exit status 2")
def misuse(run):
    for arguments, words in [(("sdr",) + a, w) for a, w in MISUSE] + [((), "what to simulate is missing: sdr, allreduce, goal, motif or train"),
                                                                     (("rvma", "--model"), "can simulate sdr, allreduce, goal, motif and train, not rvma")]:
        process = run.command("sim", *arguments)
        lines = process.stderr.splitlines()
        equal((process.returncode, lines[0], process.stdout), (2, "spindle sim: " + words, ""), arguments)
        assert lines[1].startswith("usage:"), process.stderr


@rule("a value that cannot be is told with the option and its bounds, exit status 2")
def wrong_values(run):
    for option, wants, values in VALUES:
        for value in values:
            process = run.command("sim", "sdr", "--model", option, value)
            equal((process.returncode, process.stdout, process.stderr),
                  (2, "", "spindle sim: %s must be %s, not %s\n" % (option, wants, value)))
    for arguments, words in TOGETHER:
        process = run.command("sim", "sdr", "--model", *arguments)
        equal((process.returncode, process.stdout, process.stderr), (2, "", "spindle sim: %s\n" % words))


if __name__ == "__main__":
    main()
