#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim train: counts, times and shares against closed forms; the same schedules by LogGOPS, where the two models agree."""

import json
import os
import random
import struct
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
    (("--coscheduled",), "--coscheduled needs --noise os:FILE"),
    (("--scheme", "hybrid", "--link", "1M", "--workers", "2000"), "--link must leave each worker 1k (bit/s) or more"),
    (("--workers", "0"), "--workers must be 1 to 4096, not 0"),
    (("--steps", "0"), "--steps must be 1 to 8388608, not 0"),
    (("--noise", "FILE"), "--noise must be os:FILE or latency:FILE, not FILE"),
    (("--scheme", "barrier", "--checkpoint", "3"), "barrier has no --checkpoint"),
    (("--scheme", "pipeline", "--kill", "0@0"), "pipeline has no --kill"),
    (("--kill", "3"), "--kill must be the number of a worker, @ and that of a step: 3@17, not 3"),
    (("--kill", "3@-1"), "--kill must be the number of a worker, @ and that of a step: 3@17, not 3@-1"),
    (("--kill", "8@0"), "--kill: there are workers 0 to 7 and steps 0 to 0"),
    (("--kill", "0@5", "--steps", "5"), "--kill: there are workers 0 to 7 and steps 0 to 4"),
    (("--kill", "0@0", "--checkpoint", "1"), "--kill with --checkpoint needs --checkpoint-file"),
    (("--kill", "0@0", "--write", "-"), "--write writes one schedule, and with --kill there are two"),
    (("--checkpoint-file", "FILE"), "--checkpoint-file needs --checkpoint"),
    (("--checkpoint-share", "0.5"), "--checkpoint-share needs --checkpoint"),
    (("--detect", "1s"), "--detect needs --kill"),
    (("--parameters", "5", "--noise", "os:FILE"), "with --noise there are no --parameters, --checkpoint, --resume or --kill"),
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


@rule("latencies are drawn from a file whose median becomes --latency")
def latencies(run):
    with tempfile.TemporaryDirectory(prefix="spindle-train-") as folder:
        file = os.path.join(folder, "latencies")
        for times, scheme, want in (("7\n", "ring", 14 * (LATENCY + 1000 * BYTE)), ("2\n2\n2\n", "barrier", 3 * (LATENCY + 8000 * BYTE))):
            with open(file, "w", encoding="utf-8") as f:
                f.write(times)
            got = train(run, "--scheme", scheme, "--bytes", "8000", "--noise", "latency:" + file)
            near(got["time_s"], want)
            equal(got["time_s"], got["quiet_s"])
        with open(file, "w", encoding="utf-8") as f:
            f.write("1\n" * 3 + "5\n" * 2)
        got = train(run, "--scheme", "barrier-nic", "--bytes", "0", "--workers", "512", "--steps", "50", "--noise", "latency:" + file)
        draw, at = random.Random(1), [0] * 512
        for k in range(50 * 9):
            at = [max(at[i], at[i - (1 << k % 9)] + (5, 5, 1, 1, 1)[draw.randrange(5)]) for i in range(512)]
        near(got["time_s"] * 1e6 / max(at), 1, 0.05)
        process = run.command("sim", "train", "--noise", "latency:/nowhere/at/all")
        equal((process.returncode, process.stderr), (1, "spindle sim train: /nowhere/at/all: No such file or directory\n"))


# ---- numbers: the recurrence of testbed/motif/train_learn.h ----
MASK = (1 << 64) - 1


def mixed(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def trained(workers, steps, numbers, seed):
    """Parameters and momentum."""
    parameters, momenta = [], []
    for i in range(numbers):
        p, m = (mixed(seed ^ ~i & MASK) >> 44) - (1 << 19), 0
        for k in range(steps):
            total = sum(p - ((mixed(seed ^ (k << 32 | r << 20 | i)) >> 44) - (1 << 19)) >> 4 for r in range(workers))
            m += (abs(total) // workers) * (1 if total >= 0 else -1) - (m >> 3)
            p -= m >> 2
        parameters.append(p)
        momenta.append(m)
    return parameters, momenta


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def checkpoint(workers, steps, numbers, seed):
    """The bytes of the file, and the digest."""
    parameters, momenta = trained(workers, steps, numbers, seed)
    body = struct.pack("<%di" % (2 * numbers), *parameters, *momenta)
    data = b"SpndlTr1" + struct.pack("<IIQQ", workers, numbers, seed, steps) + body
    return data + struct.pack("<Q", fnv(data)), "%016x" % fnv(body)


@rule("parameters are those of the recurrence; who dies costs time and no bit; a run may begin with a checkpoint, and with no other file")
def numbers(run):
    asked = ("--workers", "5", "--parameters", "23", "--seed", "77", "--bytes", "1M", "--compute", "100us")
    _, last = checkpoint(5, 13, 23, 77)
    with tempfile.TemporaryDirectory(prefix="spindle-train-") as folder:
        file = os.path.join(folder, "checkpoint")
        saving = ("--checkpoint", "4", "--checkpoint-share", "0.9", "--checkpoint-file", file)
        for scheme in ("ring", "ring-nic", "ps", "ps-nic", "ps-sharded", "decentralised"):
            got = train(run, *asked, "--scheme", scheme, "--steps", "13")
            equal(got["digest"], last, scheme)
            for kill, first in (("2@1", 0), ("0@9", 8), ("4@12", 12)):
                got = train(run, *asked, "--scheme", scheme, "--steps", "13", *saving, "--kill", kill, "--detect", "3ms")
                again = got["restart"]
                equal((got["digest"], again["equal"], again["first_step"]), (last, True, first), (scheme, kill))
                near(again["noticed_s"], again["died_s"] + 3e-3, 1e-12)
                assert again["time_s"] > again["noticed_s"] and again["time_s"] > got["time_s"] - 2e-3, again
        os.unlink(file)
        equal(train(run, *asked, "--steps", "9", *saving)["checkpoints"], 2)
        want, _ = checkpoint(5, 8, 23, 77)
        with open(file, "rb") as f:
            equal(f.read(), want)
        got = train(run, *asked, "--steps", "13", "--resume", file)
        equal((got["digest"], got["first_step"], got["steps"]), (last, 8, 5))
        equal(train(run, *asked, "--steps", "13", "--resume", file, "--kill", "1@10")["restart"]["first_step"], 8)
        for data, more, words in ((want[:-1] + bytes([want[-1] ^ 1]), (), "is damaged: its checksum is wrong"),
                                  (want[:100], (), "is damaged: it has not as many bytes as its head says"),
                                  (b"# ns ns\n", (), "is no checkpoint of sim train"), (b"", (), "is no checkpoint of sim train"),
                                  (want, ("--workers", "6"), "is of another number of workers"),
                                  (want, ("--parameters", "24"), "is of another number of parameters"),
                                  (want, ("--seed", "78"), "is of another seed"),
                                  (want, ("--steps", "8"), "has 8 steps; --steps must be more"),
                                  (want, ("--kill", "0@7"), "has 8 steps: --kill must be in a later one")):
            with open(file, "wb") as f:
                f.write(data)
            process = run.command("sim", "train", *asked, "--steps", "13", *more, "--resume", file)
            equal((process.returncode, process.stdout, process.stderr), (1, "", "spindle sim train: --resume %s %s\n" % (file, words)))
        process = run.command("sim", "train", *asked, "--checkpoint", "1", "--checkpoint-file", folder)
        equal((process.returncode, process.stdout, process.stderr), (1, "", "spindle sim train: --checkpoint-file %s is no file\n" % folder))
    process = run.command("sim", "train", *asked, "--steps", "5", "--kill", "3@2")
    equal((process.returncode, process.stderr), (0, ""))
    assert "all began again with step 0: no checkpoint had reached storage, and ended at " in process.stdout, process.stdout
    process = run.command("sim", "train", "--workers", "4096", "--scheme", "ps", "--parameters", "1M")
    equal((process.returncode, process.stderr), (1, "spindle sim train: so many workers have more than 16777216 parameters together\n"))


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
