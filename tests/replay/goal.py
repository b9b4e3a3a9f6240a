#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle sim goal and spindle noise: figures against recurrences that are computed here, files in and out, and what they say
of wrong ones."""

import json
import os
import random
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

FIELDS = {"schedule", "time_s", "time_ps", "ranks", "operations", "messages", "bytes", "events", "wall_s", "L_ps", "o_ps",
          "g_ps", "G_ps", "O_ps", "S", "nodes_per_switch", "handshake", "full_duplex"}
# Published times without noise, to their digits: dissemination of 16 bytes between 64 and 1024 nodes, us; ring of 512 MiB
# between 64, ms
PUBLISHED = {"aws": ("168", "280", "96.6"), "azure": ("9.61", "16.0", "46.4"), "azure-200g": ("10.2", "17.0", "25.0"),
             "gcp": ("138", "230", "214"), "oracle": ("26.9", "46.9", "54.0"), "alps": ("14.2", "23.6", "42.8"),
             "daint": ("30.5", "54.5", "59.4"), "deep-est": ("29.8", "51.8", "48.1")}


def goal(run, *arguments):
    process = run.command("sim", "goal", *arguments, "--json")
    equal((process.returncode, process.stderr), (0, ""), arguments)
    return json.loads(process.stdout)


def digits(value, like):
    """value with as many significant digits as the text has."""
    places = len(like.split(".")[1]) if "." in like else 0
    return "%.*f" % (places, value)


@rule("LogGOPSim's own digits, for each rank")
def of_loggopsim(run):
    for pattern, more, times in (("binomialtreereduce", (), [34914, 24776, 13138, 13138, 1500, 1500, 1500, 1500]),
                                 ("binomialtreebcast", (), [15776, 20276, 20276, 24776, 25914, 30414, 30414, 34914]),
                                 ("linear_alltoall", (), [81466] * 8), ("pipelinedring", ("--segment", "1"), [5632000] * 8)):
        got = goal(run, "--pattern", pattern, "--ranks", "8", "--size", "1024", "--rank-times", *more)
        equal([t / 1000 for t in got["rank_times_ps"]], times, pattern)
        equal(got["time_ps"], 1000 * max(times))


@rule("the published times without noise, of eight systems")
def published(run):
    for system, wanted in PUBLISHED.items():
        got = [goal(run, "--pattern", pattern, "--ranks", str(n), "--size", size, "--system", system, "--racks", "published")
               for pattern, size, sizes in (("dissemination", "16", (64, 1024)), ("pipelinedring", "512M", (64,)))
               for n in sizes]
        equal(tuple(digits(r["time_s"] * (1e6 if i < 2 else 1e3), w) for i, (r, w) in enumerate(zip(got, wanted))), wanted, system)
        assert FIELDS <= set(got[0]), FIELDS - set(got[0])
        equal((got[0]["messages"], got[0]["bytes"], got[0]["operations"], got[0]["events"]),
              (384, 384 * 16, 768, 1152))


@rule("rounds of dissemination follow the recurrence of each rank, with far hops by the far values")
def recurrence(run):
    L, o, g, G = {False: 1900000, True: 1900000}, 230000, 0, {False: 79, True: 92}
    n, size, switch = 64, 3000, 16
    cpu, out, into, got = [0] * n, [0] * n, [0] * n, [0] * n
    for d in (1, 2, 4, 8, 16, 32):
        begin = [max(cpu[r], out[r]) for r in range(n)]
        for r in range(n):
            far = r // switch != (r + d) % n // switch
            cpu[r], out[r] = begin[r] + o, begin[r] + g + (size - 1) * G[far]
        for r in range(n):
            s = (r - d) % n
            far = s // switch != r // switch
            t = max(begin[s] + o + L[far], cpu[r], into[r])
            cpu[r], into[r] = t + o + (size - 1) * G[far], t + g + (size - 1) * G[far]
            got[r] = cpu[r]
    result = goal(run, "--pattern", "dissemination", "-n", "64", "-s", "3000", "--system", "alps", "--rank-times")
    equal(result["rank_times_ps"], got)
    assert goal(run, "--pattern", "dissemination", "-n", "64", "-s", "3000", "--system", "alps", "--racks", "near")["time_ps"] < max(got)


@rule("a pattern that is written as GOAL and read again takes the same time; - is standard input and output")
def round_trip(run):
    path = run.path("s.goal")
    for pattern in ("nwaydissemination", "pipelinedring", "linbarrier", "allreduce_ring"):
        options = ("--pattern", pattern, "-n", "12", "-s", "5000")
        equal(run.command("sim", "goal", *options, "--write", path).returncode, 0)
        first, second = goal(run, *options, "--rank-times"), goal(run, path, "--rank-times")
        equal(first["rank_times_ps"], second["rank_times_ps"])
        with open(path, "rb") as f:
            text = f.read()
        equal(run.command("sim", "goal", *options, "-w", "-").stdout.encode(), text)
        process = subprocess.run([run.spindle, "sim", "goal", "-", "--json"], input=text, capture_output=True)
        equal(json.loads(process.stdout)["time_ps"], first["time_ps"])
    equal(run.command("sim", "goal", path, "--write", path).returncode, 1)
    with open(path, "rb") as f:
        equal(f.read(), text, "the schedule after it was to be overwritten")


@rule("what is wrong in a file is told with its name and line, exit status 1")
def wrong_files(run):
    path = run.write("w.goal", "num_ranks 2\n\nrank 0 {\nl1: sent 8b to 1\n}\n")
    detours, values = run.write("d", "# x\n5 1\n4 1\n"), run.write("v", "1 2\n\n1 x\n")
    once = ("--pattern", "gather")
    for arguments, words in (((path,), path + ":4: send, recv or calc is expected, not 'sent'"),
                             ((run.path("none"),), run.path("none") + ": No such file or directory"),
                             (once + ("--noise", "os:" + detours), detours + ":3: this detour begins before the one above"),
                             (once + ("--noise", "latency:" + values), values + ":3: this is no number of at least 0"),
                             (once + ("--noise", "bandwidth:" + run.path("none")), run.path("none") + ": No such file or directory"),
                             ((run.write("e.goal", "num_ranks 2\nrank 1 {\nrecv 3b from 0\n}\n"),),
                              run.path("e.goal") + " does not end: 1 operations are left; operation 1 of rank 1, a receive, "
                              "is matched by none"),
                             ((run.write("m.goal", "num_ranks 16777216\n"), "--memory", "1M"),
                              run.path("m.goal") + ":1: the schedule takes more than 1 MiB of memory; --memory allows more")):
        process = run.command("sim", "goal", *arguments)
        equal((process.returncode, process.stdout, process.stderr), (1, "", "spindle sim goal: %s\n" % words), arguments)


@rule("what cannot be given, or not together, is named before the usage, exit status 2")
def misuse(run):
    once = ("--pattern", "gather")
    for arguments, words in (((), "FILE or --pattern is missing"), (("x", *once), "FILE and --pattern say the same: only one can be given"),
                             (("x", "--ranks", "3"), "only --pattern has --ranks"),
                             (once + ("--root", "8"), "--root must be less than --ranks"),
                             (once + ("--system", "aws", "--loggops", "1,1,1,1,1,1"), "--system and --loggops say the same: only one can be given"),
                             (once + ("--racks", "near"), "--racks needs --system"),
                             (once + ("--coscheduled",), "--coscheduled needs --noise os:FILE"),
                             (once + ("--skip", "1/2"), "--skip needs --noise latency:FILE or bandwidth:FILE"),
                             (once + ("--runs", "2"), "--runs needs --noise: without, all runs are the same")):
        process = run.command("sim", "goal", *arguments)
        equal((process.returncode, process.stdout, process.stderr.splitlines()[0]), (2, "", "spindle sim goal: " + words), arguments)
    for option, values in (("--loggops", ("1,2,3", "1,2,3,4,5,6,7", "a,2,3,4,5,6", "1.2345,1,1,1,1,1", "1,1,1,1,1,1.5")),
                           ("--noise", ("x", "os:", "os")), ("--skip", ("1", "2/2", "1/0")), ("--system", ("x",))):
        for value in values:
            process = run.command("sim", "goal", *once, option, value)
            equal((process.returncode, process.stdout), (2, ""), value)
            assert "%s must be " % option in process.stderr and value in process.stderr, process.stderr
    equal(run.command("sim", "goal", "--pattern", "allreduce_recdoub", "-n", "3").returncode, 2)


@rule("runs with noise: the same for the same seed and any number of threads; medians where the file has them")
def noise(run):
    rng = random.Random(7)
    latency = run.write("lat", "# us\n" + "".join("1\t%.6f\n" % (2 + rng.random()) for _ in range(5001)))
    band = run.write("bw", "".join("16777216\t%.3f\n" % (1400 + 10 * rng.random()) for _ in range(501)))
    detours = run.write("os", "".join("%d %d\n" % (i * 100000, 2000) for i in range(1, 200)))
    options = ("--pattern", "dissemination", "-n", "16", "-s", "16", "--system", "azure", "--noise", "latency:" + latency,
               "--noise", "bandwidth:" + band, "--noise", "os:" + detours, "--runs", "200")
    times = []
    for jobs, seed in (("1", "1"), ("2", "1"), ("2", "2")):
        result = goal(run, *options, "--jobs", jobs, "--seed", seed, "--times", run.path("t"))
        with open(run.path("t")) as f:
            times.append([float(line) for line in f])
        ordered = sorted(times[-1])
        equal((result["p50_s"], result["min_s"], result["max_s"], result["p95_s"]), (ordered[99], ordered[0], ordered[-1], ordered[189]))
        equal(result["time_s"], result["p50_s"])
    equal(times[0], times[1])
    assert times[0] != times[2]
    # One message per run, latency alone: half of the runs are below L + 2o, which the median is scaled to.
    got = goal(run, "--pattern", "scatter", "-n", "2", "--system", "azure", "--noise", "latency:" + latency, "--runs", "4001")
    assert abs(got["p50_s"] - 1.6e-6) < 0.02e-6, got["p50_s"]
    # A host whose detours take 2 %, evenly spread: a calc of 50 ms is longer by that.
    path = run.write("c.goal", "num_ranks 1\nrank 0 {\ncalc 50000000\n}\n")
    got = goal(run, path, "--noise", "os:" + detours, "--runs", "20")
    assert abs(got["time_s"] - 0.051) < 0.00001, got["time_s"]


@rule("a ring with little noise loses whole messages' times half duplex, as was published, and full duplex hardly any")
def duplex(run):
    """G varies by half a percent, so that messages miss their turn by little. A message of 128 MiB takes 11.54 ms."""
    rng = random.Random(3)
    band = run.write("bw", "".join("16777216 %.3f\n" % (1442 * (1 + rng.uniform(-0.005, 0.005))) for _ in range(3000)))
    lat = run.write("lat", "".join("1 %.3f\n" % (1.6 + rng.random() / 4) for _ in range(3000)))
    options = ("--pattern", "pipelinedring", "-n", "4", "-s", "512M", "--system", "azure", "--noise", "bandwidth:" + band,
               "--noise", "latency:" + lat, "--runs", "200", "--times", run.path("t"))
    goal(run, *options)
    with open(run.path("t")) as f:
        steps = [(float(line) * 1e3 - 46.19) / 11.55 for line in f]
    assert all(abs(s - round(s)) < 0.1 for s in steps) and {round(s) for s in steps} >= {1, 2}, sorted(steps)
    got = goal(run, *options, "--full-duplex")
    assert 46.1 < got["min_s"] * 1e3 <= got["max_s"] * 1e3 < 46.9, got


@rule("millions of operations: all to all of 512 ranks")
def many(run):
    got = goal(run, "--pattern", "linear_alltoall", "-n", "512", "-s", "8")
    equal((got["messages"], got["operations"], got["events"]), (512 * 511, 2 * 512 * 511, 3 * 512 * 511))


@rule("noise: detours of a processor, in a file that sim reads")
def detour(run):
    path = run.path("det")
    cpu = str(min(os.sched_getaffinity(0)))
    process = run.command("noise", "detour", "--cpu", cpu, "-D", "50ms", "--write", path, "--json")
    equal((process.returncode, process.stderr), (0, ""))
    got = json.loads(process.stdout)
    with open(path) as f:
        lines = [line for line in f if not line.startswith("#")]
    equal((got["cpu"], got["detours"]), (int(cpu), len(lines)))
    starts = [float(line.split()[0]) for line in lines]
    assert starts == sorted(starts) and 0 <= got["share"] <= 1 and got["duration_s"] >= 0.045, got
    if lines:
        goal(run, "--pattern", "gather", "--noise", "os:" + path)
    equal(run.command("noise", "detour", "--cpu", "1023", "-D", "1ms").returncode, 1)


@rule("noise: round trips to another process and to a host that serves, in files that sim reads")
def network(run):
    path = run.path("net")
    server = subprocess.Popen([run.spindle, "noise", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().split()[1]
        with socket.create_connection(("127.0.0.1", int(port))) as stranger:  # whose request is none
            stranger.sendall(b"GET / HTTP/1.0\r\nHost: example.org\r\n\r\n")
            stranger.settimeout(20)
            try:
                equal(stranger.recv(1), b"")
            except ConnectionResetError:
                pass
        for where in ((), ("127.0.0.1", "--port", port)):
            process = run.command("noise", "latency", *where, "-n", "100", "-w", path, "--json")
            equal((process.returncode, process.stderr), (0, ""))
            got = json.loads(process.stdout)
            with open(path) as f:
                rows = [line.split() for line in f if not line.startswith("#")]
            equal({row[0] for row in rows}, {"1"})
            ordered = sorted(float(row[1]) for row in rows)
            equal(len(rows), 100)
            for value, line in ((got["p50_us"], ordered[49]), (got["max_us"], ordered[-1])):
                assert abs(value - line) < 1e-5, (value, line)  # the file has ps
            goal(run, "--pattern", "gather", "--noise", "latency:" + path)
            process = run.command("noise", "bandwidth", *where, "-n", "3", "-s", "100000", "-w", path)
            equal((process.returncode, process.stderr), (0, ""))
            goal(run, "--pattern", "gather", "--noise", "bandwidth:" + path)
    finally:
        server.kill()
        server.wait()
    process = run.command("noise", "loggp", "--json")
    equal((process.returncode, process.stderr), (0, ""))
    got = json.loads(process.stdout)
    assert all(value >= 0 for value in got.values()) and got["o_us"] > 0, got
    process = run.command("noise", "latency", "127.0.0.1", "--port", port)
    equal((process.returncode, process.stdout), (1, ""))
    assert "127.0.0.1 port %s: Connection refused" % port in process.stderr, process.stderr


@rule("noise: wrong usage is named, exit status 2")
def noise_misuse(run):
    for arguments, words in (((), "what to measure is missing: detour, latency, bandwidth or loggp; or serve"),
                             (("latancy",), "there is no latancy; is latency meant?"),
                             (("detour", "host"), "detour has no HOST"), (("latency", "--cpu", "1"), "latency has no --cpu"),
                             (("serve", "--json"), "serve has no --json")):
        process = run.command("noise", *arguments)
        equal((process.returncode, process.stdout, process.stderr.splitlines()[0]), (2, "", "spindle noise: " + words), arguments)
    for value in ("", "x", "3-1", "1,", "1024", "0-"):
        equal(run.command("noise", "detour", "--cpu", value).returncode, 2, value)


if __name__ == "__main__":
    main()
