#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim train: counts, times and shares against closed forms; the same schedules by LogGOPS, where the two models agree."""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

LATENCY, BYTE, NS = 1e-6, 8 / 100e9, 1e-9
MISUSE = [
    (("--scheme", "ps", "--servers", "2"), "ps has no --servers"),
    (("--scheme", "ring", "--segments", "2"), "ring has no --segments"),
    (("--multicast",), "ring has no --multicast"),
    (("--scheme", "pipeline", "--layers", "2"), "pipeline has no --layers"),
    (("--scheme", "pipeline", "--inside", "1T"), "pipeline has no --inside"),
    (("--scheme", "ps-async", "--segments", "2"), "ps-async has no --segments"),
    (("--scheme", "barrier", "--backward", "1us"), "barrier has no --backward"),
    (("--workers", "1",), "only a hybrid has one worker: ring wants two or more"),
    (("--compute", "1ps"), "--compute and --backward must be whole nanoseconds"),
    (("--coscheduled",), "--coscheduled needs --noise"),
    (("--scheme", "hybrid", "--link", "1M", "--workers", "2000"), "--link must leave each worker 1k (bit/s) or more"),
    (("--workers", "0"), "--workers must be 1 to 4096, not 0"),
    (("--steps", "0"), "--steps must be 1 to 8388608, not 0"),
    (("--noise", "FILE"), "--noise must be os:FILE, not FILE"),
    (("--scheme", "star"), "--scheme must be ring, ring-nic, ps, ps-nic, ps-async, ps-sharded, decentralised, reduce-scatter, all-gather, "
     "barrier, barrier-nic, pipeline, tensor or hybrid, not star"),
    (("extra",), "extra argument extra"),
]


def train(run, *arguments):
    process = run.command("sim", "train", "--json", *arguments)
    equal((process.returncode, process.stderr), (0, ""), arguments)
    got = json.loads(process.stdout)
    del got["wall_s"]
    return got


def near(got, want, slack=NS):
    assert abs(got - want) <= slack, (got, want)


@rule("rounds, messages, bytes of each end, and time are the closed forms of the schemes")
def closed_forms(run):
    for p in (2, 5, 8, 16):
        n = p * 262144
        share = (p - 1) * n // p
        # scheme: rounds, messages, bytes, of a worker, of the server, time
        want = {
            "ps": (2, 2 * p, 2 * p * n, n, p * n, 2 * (LATENCY + n * p * BYTE)),
            "ps-nic": (2, 2 * p, 2 * p * n, n, p * n, 2 * (LATENCY + n * p * BYTE)),
            "ps-sharded": (2, 2 * p * (p - 1), 2 * (p - 1) * n, 2 * share, None, 2 * (LATENCY + share * BYTE)),
            "decentralised": (p - 1, p * (p - 1), p * (p - 1) * n, (p - 1) * n, None, (p - 1) * (LATENCY + n * BYTE)),
            "ring": (2 * (p - 1), 2 * p * (p - 1), 2 * (p - 1) * n, 2 * share, None, 2 * (p - 1) * (LATENCY + n / p * BYTE)),
            "ring-nic": (2 * (p - 1), 2 * p * (p - 1), 2 * (p - 1) * n, 2 * share, None, 2 * (p - 1) * (LATENCY + n / p * BYTE)),
            "reduce-scatter": (p - 1, p * (p - 1), (p - 1) * n, share, None, (p - 1) * (LATENCY + n / p * BYTE)),
            "all-gather": (p - 1, p * (p - 1), (p - 1) * n, share, None, (p - 1) * (LATENCY + n / p * BYTE)),
        }
        for scheme, (rounds, messages, total, worker, server, time) in want.items():
            got = train(run, "--scheme", scheme, "--workers", str(p), "--bytes", str(n))
            equal((got["rounds"], got["messages_per_step"], got["bytes_per_step"]), (rounds, messages, total), (scheme, p))
            equal((got["worker"]["sent"], got["worker"]["received"]), (worker, worker), (scheme, p))
            equal(got.get("server") and (got["server"]["sent"], got["server"]["received"], got["server"]["fan_in"]),
                  server and (server, server, p), (scheme, p))
            equal("sums_compared" in got, scheme != "all-gather")
            near(got["time_s"], time)


@rule("an answer that the switch copies takes the server's link once")
def multicast(run):
    got = train(run, "--scheme", "ps-nic", "--workers", "8", "--bytes", "1M", "--multicast")
    equal((got["server"]["sent"], got["server"]["received"], got["worker"]["received"], got["multicast"]), (1 << 20, 8 << 20, 1 << 20, True))
    near(got["time_s"], 2 * LATENCY + 9 * (1 << 20) * BYTE)


@rule("the bubble of a pipeline is (p - 1) / m where transfers take no time; a hybrid's links inside need 2 (P - 1) / P of the network's rate")
def layers(run):
    for p, m in ((2, 1), (4, 8), (7, 13)):
        got = train(run, "--scheme", "pipeline", "--workers", str(p), "--micro-batches", str(m), "--compute", "1ms", "--bytes", "0",
                    "--latency", "0us")
        near(got["bubble_share"], (p - 1) / m, 1e-9)
    for p, ratio in ((2, 1.0), (4, 1.5), (8, 1.75)):
        def step(inside, m):
            return train(run, "--scheme", "hybrid", "--workers", str(p), "--servers", "3", "--bytes", "8M", "--latency", "0us", "-m", str(m),
                         "--inside", "%dM" % int(inside * 1e5))
        got = [step(f * ratio, 20)["time_s"] - step(f * ratio, 10)["time_s"] for f in (0.97, 1, 2.5 / ratio)]
        flat = 10 * 2 * (8 << 20) * BYTE
        assert abs(got[1] - flat) < 1e-3 * flat and abs(got[2] - flat) < 1e-3 * flat and got[0] > 1.01 * flat, (p, got, flat)
        one = step(ratio, 1)
        equal((one["link_ratio"], one["link_ratio_needed"]), (ratio, ratio))


@rule("steps with noise are as long as the slowest host's; handlers' barriers do not notice, hosts' do")
def noise(run):
    with tempfile.TemporaryDirectory(prefix="spindle-train-") as folder:
        file = os.path.join(folder, "detours")
        with open(file, "w", encoding="utf-8") as f:
            f.write("# ns ns\n")
            for at in range(0, 1000000, 10000):
                f.write("%d 2000\n" % (at + 5000))  # 2 of each 10 us (the last period is 3 us shorter)
        for scheme in ("barrier", "barrier-nic"):
            got = train(run, "--scheme", scheme, "--steps", "500", "--workers", "32", "--noise", "os:" + file)
            near(got["quiet_s"], 500 * 5 * (LATENCY + 64 * BYTE))
            if scheme == "barrier-nic":
                equal(got["time_s"], got["quiet_s"])
            else:
                assert got["time_s"] > 1.2 * got["quiet_s"], got
        # Together, all begin at the trace's 0: of 20 us of work, 5 us are done at 5 us, 13 at 15 us, 20 at 24 us.
        got = train(run, "--scheme", "barrier-nic", "--compute", "20us", "--workers", "4", "--noise", "os:" + file, "--coscheduled")
        near(got["time_s"], 24e-6 + 2 * (LATENCY + 64 * BYTE))
        one, two, other = (train(run, "--compute", "20us", "--noise", "os:" + file, "--seed", seed) for seed in ("1", "1", "2"))
        equal(one, two)
        assert one["time_s"] != other["time_s"]
        with open(file, "a", encoding="utf-8") as f:
            f.write("1e6 x\n")
        process = run.command("sim", "train", "--noise", "os:" + file)
        equal((process.returncode, process.stdout), (1, ""))
        assert process.stderr.startswith("spindle sim train: %s:102: " % file), process.stderr
        with open(file, "w", encoding="utf-8") as f:
            f.write("1000 99000\n")
        process = run.command("sim", "train", "--noise", "os:" + file)
        equal((process.returncode, process.stdout, process.stderr),
              (1, "", "spindle sim train: %s: the detours take 99 %% of the time, more than 90 %%\n" % file))


@rule("what is written as GOAL is the same schedule to LogGOPS, which agrees where half duplex does not matter")
def goal(run):
    with tempfile.TemporaryDirectory(prefix="spindle-train-") as folder:
        file = os.path.join(folder, "goal")
        for arguments, same in ((("--scheme", "barrier", "--workers", "13", "--bytes", "1", "--steps", "3", "--compute", "7us"), True),
                                (("--scheme", "pipeline", "--workers", "5", "-m", "1", "--compute", "3us", "--bytes", "1"), True),
                                (("--scheme", "pipeline", "--workers", "5", "-m", "7", "--compute", "3us", "--bytes", "1"), False),
                                (("--scheme", "ring", "--workers", "4", "--bytes", "4000", "--steps", "2"), False),
                                (("--scheme", "hybrid", "--workers", "4", "--servers", "3"), False),
                                (("--scheme", "ps-nic", "--workers", "4", "--segments", "3"), False)):
            got = train(run, *arguments, "--link", "100T", "--inside" if "hybrid" in arguments else "--link", "100T")
            process = run.command("sim", "train", *arguments, "--write", file)
            equal((process.returncode, process.stdout, process.stderr), (0, "", ""))
            process = run.command("sim", "goal", file, "--json", "--loggops", "1000,0,0,0,0,1000000000000")
            equal((process.returncode, process.stderr), (0, ""))
            other = json.loads(process.stdout)
            equal((other["ranks"], other["messages"], other["bytes"]),
                  (got["ranks"], got["messages_per_step"] * got["steps"], got["bytes_per_step"] * got["steps"]))
            if same:  # a byte takes a ps here, and none there
                assert 0 <= got["time_ps"] - other["time_ps"] <= 1000, (got["time_ps"], other["time_ps"])


@rule("with full-duplex hosts LogGOPS agrees to the ps, but for the first byte of each message, which takes no time there")
def full_duplex(run):
    with tempfile.TemporaryDirectory(prefix="spindle-train-") as folder:
        file = os.path.join(folder, "goal")
        for arguments, messages in ((("ring", "-n", "8", "--steps", "3", "--compute", "11us"), 3 * 14), (("ps", "-n", "8"), 16),
                                    (("ps-sharded", "-n", "8"), 14), (("decentralised", "-n", "6"), 5), (("ring-nic", "-n", "7"), 12),
                                    (("tensor", "-n", "4", "--layers", "2", "-m", "3"), 2 * 3 * 9)):
            arguments = ("--scheme", *arguments, "--bytes", "1000000")
            got = train(run, *arguments)
            equal(run.command("sim", "train", *arguments, "--write", file).returncode, 0)
            process = run.command("sim", "goal", file, "--json", "--full-duplex", "--loggops", "1000,0,0,0.08,0,1000000000000")
            equal((process.returncode, process.stderr), (0, ""))
            equal(got["time_ps"] - json.loads(process.stdout)["time_ps"], messages * 80, arguments)


@rule("nodes are shown one by one if they are asked for, in text too")
def nodes(run):
    got = train(run, "--scheme", "ps", "--workers", "3", "--bytes", "1000", "--nodes", "--overhead", "1us", "--steps", "2")
    equal(got["nodes"], [dict(sent=2000, received=2000, fan_in=1, host_s=4e-6, nic_s=0.0)] * 3 +
          [dict(sent=6000, received=6000, fan_in=3, host_s=12e-6, nic_s=0.0)])
    process = run.command("sim", "train", "--scheme", "ps-nic", "--workers", "3", "--bytes", "1000", "--nodes")
    equal((process.returncode, process.stderr), (0, ""))
    lines = process.stdout.splitlines()
    equal(lines[0], "ps-nic of 3 workers, 1000 bytes")
    equal(len([line for line in lines if line.startswith("rank ")]), 4)
    assert "3 sums compared, all right" in lines, lines


@rule("what cannot be given, or not together, is named, exit status 2; what is too much, exit status 1")
def misuse(run):
    for arguments, words in MISUSE:
        process = run.command("sim", "train", *arguments)
        equal((process.returncode, process.stderr.splitlines()[0], process.stdout), (2, "spindle sim train: " + words, ""), arguments)
    for arguments, words in ((("--workers", "4096",), "ring with so many workers, steps and parts has more than 8388608 operations"),
                             (("--bytes", "256T", "--link", "1M"), "it takes more than 2^62 ps, 53 days"),
                             (("--noise", "os:/nowhere/at/all"), "/nowhere/at/all: No such file or directory"),
                             (("--write", "/nowhere/at/all"), "--write /nowhere/at/all: No such file or directory")):
        process = run.command("sim", "train", *arguments)
        equal((process.returncode, process.stderr, process.stdout), (1, "spindle sim train: " + words + "\n", ""), arguments)


if __name__ == "__main__":
    main()
