#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle replay --trace over our own captures: it tells all that happened, once and in order, and changes nothing: trace.py
SPINDLE. TAP."""

import collections
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import packets as pk  # noqa: E402
from replay import equal, main, rule  # noqa: E402

PCAPS = os.path.join(HERE, "..", "..", "pcaps")
CASES = {  # configuration, options
    "sdr-lossy": ("sdr.ini", ("--post", "sdr=8")),
    "udp-echo": ("echo.ini", ()),
    "arp-nd-echo": ("echo.ini", ()),
}
Case = collections.namedtuple("Case", "report plain trace text sent dump frames")
cases = {}


def replay(runner, *arguments):
    done = subprocess.run([runner.spindle, "replay", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60)
    equal((done.returncode, done.stderr), (0, ""), " ".join(arguments))
    return done.stdout


def case(runner, name):
    if name in cases:
        return cases[name]
    config, options = CASES[name]
    path = lambda suffix: runner.path(name + suffix)  # noqa: E731
    common = ["-c", os.path.join(PCAPS, config), "--json", *options]
    capture = os.path.join(PCAPS, name + ".pcap")
    if options:
        common += ["--dump", "sdr=" + path(".bin")]
    report = json.loads(replay(runner, *common, "-w", path("-sent.pcap"), "--trace=" + path(".json"), capture))
    common.remove("--json")
    replay(runner, *common, "--trace=" + path(".txt"), capture)
    plain = json.loads(replay(runner, *common, "--json", "-w", path("-plain.pcap"), capture))
    with open(path("-sent.pcap"), "rb") as a, open(path("-plain.pcap"), "rb") as b:
        assert a.read() == b.read(), "what is sent differs with --trace"
    dump = b""
    if options:
        with open(path(".bin"), "rb") as f:
            dump = f.read()
    with open(path(".json")) as f:
        trace = [json.loads(line) for line in f]
    with open(path(".txt")) as f:
        text = f.read()
    cases[name] = Case(report, plain, trace, text, [f for _, f in pk.read_capture(path("-sent.pcap"))], dump,
                       [f for _, f in pk.read_capture(capture)])
    return cases[name]


def calls(trace):
    return [call for paragraph in trace for call in paragraph.get("calls", [])]


@rule("every packet has one paragraph, in order of arrival, with its own time and size")
def once_in_order(runner):
    for name in CASES:
        c = case(runner, name)
        seen = [p for p in c.trace if "packet" in p]
        equal([p["packet"] for p in seen], list(range(1, len(c.frames) + 1)), name)
        equal([p["bytes"] for p in seen], [len(f) for f in c.frames], name)
        times = [p["time_ps"] for p in c.trace]
        equal(times, sorted(times), name + ": times")


@rule("fates and reasons add up to the report's counters")
def fates(runner):
    for name in CASES:
        c = case(runner, name)
        fate = collections.Counter(p["fate"] for p in c.trace if "packet" in p)
        equal(fate["taken"] + fate["answered"], c.report["taken"], name + ": taken")
        equal(fate["forwarded"], c.report["forwarded"], name + ": forwarded")
        dropped = collections.Counter(p["reason"] for p in c.trace if p.get("fate") == "dropped")
        expected = {k: n for k, n in c.report["drops"].items() if n and not k.startswith("tx-")}
        equal(dict(dropped), expected, name + ": drops")
    assert sum(fate.values()) > 3, "too little happens for this to mean anything"


@rule("a handler's drop has the same name in its verdict as in the packet's fate")
def verdicts(runner):
    kinds = collections.Counter()
    for name in CASES:
        for p in case(runner, name).trace:
            if "packet" not in p or not p.get("calls"):
                continue
            verdict = [call for call in p["calls"] if "verdict" in call][-1:]
            for call in verdict:
                kinds[call["verdict"]] += 1
                if call["verdict"] == "drop":
                    equal((p["fate"], p["reason"]), ("dropped", call["reason"]), "%s, packet %d" % (name, p["packet"]))
                else:
                    equal(p["fate"], "taken", "%s, packet %d" % (name, p["packet"]))
    assert kinds["drop"] and kinds["done"] and kinds["sent"], "verdicts: %r" % kinds


@rule("host memory: what is told as written is where the packet's payload is")
def written(runner):
    c = case(runner, "sdr-lossy")
    covered = {}
    area = {w["region"] for call in c.trace[0]["calls"] for w in call["wrote"]}  # attach(): its own
    for p in c.trace:
        if "packet" not in p:
            continue
        for w in (w for call in p.get("calls", []) for w in call.get("wrote", []) if w["region"] not in area):
            frame = c.frames[p["packet"] - 1]
            assert c.dump[w["offset"]:w["offset"] + w["bytes"]] in frame, "packet %d: %r" % (p["packet"], w)
            covered[w["offset"]] = w["bytes"]
    touched = bytearray(len(c.dump))
    for offset, n in covered.items():
        touched[offset:offset + n] = b"\1" * n
    assert covered and not any(byte for byte, told in zip(c.dump, touched) if not told), "bytes written and not told"


@rule("what is sent is told once, in order, as the capture of it shows")
def sent(runner):
    for name in CASES:
        c = case(runner, name)
        told = [s for p in c.trace for part in [*p.get("calls", []), p] for s in part.get("sent", [])]
        equal([s["bytes"] for s in told], [len(f) for f in c.sent], name)
        equal({s["port"] for s in told} <= {0}, True, name + ": ports")
    for p in case(runner, "arp-nd-echo").trace:
        if "packet" in p:
            equal("sent" in p, p["fate"] == "answered", "packet %d" % p["packet"])
    for p in case(runner, "udp-echo").trace:
        for call in p.get("calls", []):
            equal("sent" in call, call.get("verdict") == "sent", "packet %s" % p.get("packet"))


def words(paragraph):
    """The text of a JSON object, without cycles, by a second opinion."""
    p, lines = paragraph, []
    if "packet" in p:
        kind = {"roce": "RoCEv2", "udp": "UDP", "ip": "IP"}.get(p["parse"], p["parse"])
        lines += ["packet %d %.9f s %d bytes" % (p["packet"], p["time_ps"] / 1e12, p["bytes"]),
                  "parse %s: %s" % (kind, p["frame"])]
        if "context" in p:
            lines.append("context %s, handler %s" % (p["context"], p["handler"]) +
                         (", QP index %s" % p["qp_index"] if "qp_index" in p else ""))
    elif "context" in p:
        lines.append("%s %.9f s context %s, handler %s" % (p["calls"][0]["function"], p["time_ps"] / 1e12, p["context"],
                                                           p["handler"]))
    else:
        lines.append("NIC %.9f s" % (p["time_ps"] / 1e12))
    for call in [*p.get("calls", []), p]:
        if call is not p:
            if "verdict" in call:
                result = call["verdict"] + (", " + call["reason"] if "reason" in call else "")
            elif "status" in call:
                result = "status %d" % call["status"]
            elif "result" in call:
                result = call["result"]
            elif "message" in call:
                result = "no message" if call["message"] is None else "message " + call["message"]
            else:
                result = ""
            if "within" in call:
                result = (result + " (within %s)" % call["within"]).strip()
            lines.append((call["function"] + " " + result).strip())
        for w in call.get("wrote", []):
            lines.append("wrote region %d at %d, %d byte%s%s" % (w["region"], w["offset"], w["bytes"], "s"[w["bytes"] == 1:],
                                                                " (atomic)" if w.get("atomic") else ""))
        for s in call.get("sent", []):
            lines.append("sent port %d, %d bytes: %s" % (s["port"], s["bytes"], s["frame"]))
        for e in call.get("events", []):
            lines.append("event type 0x%x, status %d, cookie %s, arguments %s" % (e["type"], e["status"], e["cookie"],
                                                                                  " ".join(e["args"])))
    if "fate" in p:
        lines.append(p["fate"] + (" " + p["reason"] if "reason" in p else ""))
    return lines


@rule("text and JSON say the same")
def agree(runner):
    for name in CASES:
        c = case(runner, name)
        text = [[re.sub(r" +", " ", re.sub(r" +\d+ cycles$", "", line)).strip() for line in paragraph.splitlines()]
                for paragraph in c.text.rstrip("\n").split("\n\n")]
        equal(len(text), len(c.trace), name + ": paragraphs")
        for paragraph, p in zip(text, c.trace):
            equal(paragraph, words(p), name)
        assert all("cycles" in call for call in calls(c.trace)), "calls without cycles"


@rule("a traced run does what an untraced one does, and reports the same")
def same(runner):
    for name in CASES:
        c = case(runner, name)
        equal(c.report, c.plain, name)


@rule("packets have the capture's own numbers, also where others are left out")
def numbers(runner):
    frames = [(k * 1000000, pk.ethernet(pk.ipv4(pk.udp(bytes(8700 if k in (3, 7) else 100 + k), dport=9)), 0x0800)) for k in range(12)]
    frames[3] = (frames[3][0], frames[3][1] + bytes(2000))  # no buffer of the NIC's holds so much
    capture = pk.write_capture(runner.path("numbers.pcap"), frames)
    size = {k + 1: len(f) for k, (_, f) in enumerate(frames)}

    def trace(*options):
        file = runner.path("numbers.json")
        done = subprocess.run([runner.spindle, "replay", "-c", os.path.join(PCAPS, "echo.ini"), "--json", "--trace=" + file, *options,
                               capture], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        assert "1 packets larger than" in done.stderr or "2 packets larger than" in done.stderr, done.stderr
        with open(file) as f:
            seen = [p for p in map(json.loads, f) if "packet" in p]
        for p in seen:
            equal(p["bytes"], size[p["packet"]], "bytes of packet %d" % p["packet"])
        return [p["packet"] for p in seen]
    rest = [n for n in range(1, 13) if n != 4]
    equal(trace(), rest)
    equal(trace("--loop", "2"), rest + rest)
    lossy = trace("--loss", "0.4", "--seed", "3")
    assert lossy == sorted(lossy) and 1 < len(lossy) < len(rest), lossy
    twice = trace("--duplicate", "1")
    equal(collections.Counter(twice), collections.Counter(rest + rest))


@rule("a trace that cannot be written is a failure")
def full(runner):
    done = subprocess.run([runner.spindle, "replay", "-c", os.path.join(PCAPS, "echo.ini"), "--trace=/dev/full",
                           os.path.join(PCAPS, "udp-echo.pcap")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    equal(done.returncode, 1)
    assert "/dev/full: No space left on device" in done.stderr, done.stderr


main()
