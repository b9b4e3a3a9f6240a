#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Handlers in eBPF: ebpf.py SPINDLE BPF-DIRECTORY. TAP.

The examples (handlers/bpf) over the same captures as their twins in C, with the same expectations; and sources that clang
compiles and the NIC must refuse, in words that a person can act on (tests/unit/bpf). Without clang those rules are skipped.
"""

import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import packets as pk  # noqa: E402
from replay import Skip, equal, main, rule  # noqa: E402

DIRECTORY = sys.argv.pop(2)
ROOT = os.path.join(HERE, "..", "..")
HOSTILE = os.path.join(HERE, "..", "unit", "bpf")
CLANG = shutil.which("clang")
NIC = "[nic]\nip = 192.0.2.200/24\n\n[context a]\nhandler = %s\nfilter = ip\n%s"
MS = 10**6


def twins(name):
    """The shared object and the object for BPF."""
    bpf = os.path.join(DIRECTORY, name + ".bpf.o")
    if not os.path.exists(bpf):
        raise Skip("clang is not installed: there are no eBPF objects")
    return {"C": os.path.join(DIRECTORY, name + ".so"), "eBPF": bpf}


def replay(runner, plugin, handler, frames, more=""):
    """Report of the context, and the frames sent."""
    capture, sent = runner.path("in.pcap"), runner.path("sent.pcap")
    pk.write_capture(capture, frames)
    config = runner.write("nic.ini", NIC % (handler, more))
    run = runner.command("replay", "-c", config, "--plugin", plugin, "--json", "-w", sent, capture)
    assert run.returncode == 0, "exit status %d: %s" % (run.returncode, run.stderr)
    return json.loads(run.stdout)["contexts"]["a"], pk.read_capture(sent)


def icmp(kind=8, data=b"abcdefgh" * 7, src="192.0.2.1", dst="192.0.2.2", fragment=0x4000, ttl=17, options=b"", code=0, damage=0):
    body = struct.pack(">BBHHH", kind, code, 0, 7, 1) + data
    body = body[:2] + struct.pack(">H", pk.checksum(body) ^ damage) + body[4:]
    head = struct.pack(">BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(body), 1, fragment, ttl, 1, 0,
                       pk.ip_bytes(src), pk.ip_bytes(dst)) + options
    head = head[:10] + struct.pack(">H", pk.checksum(head)) + head[12:]
    return pk.ethernet(head + body, 0x0800)


def reply(frame):
    """RFC 792: what answers it, all sums computed anew."""
    ip, body = bytearray(frame[14:34]), bytearray(frame[34:14 + struct.unpack(">H", frame[16:18])[0]])
    ip[12:16], ip[16:20], ip[8], ip[10:12] = frame[30:34], frame[26:30], 64, b"\0\0"
    ip[10:12] = struct.pack(">H", pk.checksum(bytes(ip)))
    body[0], body[2:4] = 0, b"\0\0"
    body[2:4] = struct.pack(">H", pk.checksum(bytes(body)))
    whole = frame[6:12] + frame[0:6] + frame[12:14] + bytes(ip) + bytes(body)
    return whole + frame[len(whole):]


GOOD = [icmp(), icmp(data=b""), icmp(data=b"odd"), icmp(data=bytes(range(256)) * 5), icmp(ttl=255), icmp(ttl=1),
        icmp(src="10.1.2.3", dst="223.255.255.254"), icmp(data=b"\xff" * 64)]
BAD = [("not-echo", icmp(0)), ("not-echo", icmp(8, code=1)), ("not-echo", icmp(options=b"\x01\x01\x01\x00")),
       ("fragment", icmp(fragment=0x2000)), ("fragment", icmp(fragment=0x0001)), ("not-unicast", icmp(src="224.0.0.1")),
       ("not-unicast", icmp(src="127.0.0.1")), ("not-unicast", icmp(dst="0.1.2.3")), ("too-long", icmp(data=b"x" * 1493)),
       ("not-icmp", pk.ethernet(pk.ipv4(pk.udp(b"x" * 30, dport=7)), 0x0800))]


@rule("an ICMP echo request is answered by C and eBPF alike, as RFC 792 has it")
def answers(runner):
    expected = [reply(f) for f in GOOD]
    for language, plugin in twins("responder").items():
        report, sent = replay(runner, plugin, "responder", [(i * MS, f) for i, f in enumerate(GOOD)], "limit = 1500\n")
        equal([f for _, f in sent], expected, language)
        equal(report["counters"], {"echoed": len(GOOD)}, language)
        equal(report["errors"], 0, language)


@rule("what is not answered is dropped for the same reasons by both")
def drops(runner):
    reasons = {}
    for reason, _ in BAD:
        reasons[reason] = reasons.get(reason, 0) + 1
    for language, plugin in twins("responder").items():
        report, sent = replay(runner, plugin, "responder", [(i * MS, f) for i, (_, f) in enumerate(BAD)])
        equal({k: v for k, v in report["drops"].items() if v}, reasons, language)
        equal(sent, [], language)


@rule("a checksum that was wrong stays wrong, and by as much")
def wrong_sum(runner):
    outcome = []
    for plugin in twins("responder").values():
        _, sent = replay(runner, plugin, "responder", [(0, icmp(damage=0x1234))])
        body = sent[0][1][34:34 + 64]
        assert pk.checksum(body) != 0, "the sum has become right"
        outcome.append(sent[0][1])
    equal(outcome[0], outcome[1], "C and eBPF")


@rule("a parameter of an eBPF handler is one of nic.ini, checked as any")
def parameter(runner):
    for language, plugin in twins("responder").items():
        report, _ = replay(runner, plugin, "responder", [(0, icmp(data=b"x" * 100))], "limit = 50\n")
        equal(report["drops"].get("too-long"), 1, language)
    config, capture = runner.path("bad.ini"), runner.path("one.pcap")
    runner.write("bad.ini", NIC % ("responder", "limit = many\n"))
    pk.write_capture(capture, [(0, icmp())])
    run = runner.command("replay", "-c", config, "--plugin", twins("responder")["eBPF"], capture)
    assert run.returncode == 1 and "limit" in run.stderr, run.stderr


@rule("both histograms count the same, and as the capture has it")
def histogram(runner):
    at, frames, expected, last = 0, [], {}, None
    for i in range(60):
        at += (1, 5, 900, 70000, 3 * MS)[i % 5]
        frames.append((at, icmp(data=b"z" * (i * 23 % 1400))))
        word = min(len(frames[-1][1]).bit_length(), 15)
        expected[word] = expected.get(word, 0) + 1
        if last is not None:
            word = 16 + min((at - last).bit_length(), 47)
            expected[word] = expected.get(word, 0) + 1
        last = at
    for language, plugin in twins("sizes").items():
        report, _ = replay(runner, plugin, "sizes", frames)
        found = {s["word"]: s["value"] for s in report["state"]}
        latest = found.pop(64)
        assert latest, "when the last packet came"
        equal(found, expected, language)
        equal(report["packets"], 60, language)
        report, _ = replay(runner, plugin, "sizes", frames, "forward = 1\n")
        equal(report["forwarded"], 60, language)


@rule("two workers count what one does")
def workers(runner):
    frames = [(i * MS, icmp(src="192.0.2.%d" % (1 + i % 50))) for i in range(200)]
    total = []
    for count in (1, 2):
        runner.write("nic.ini", (NIC % ("sizes", "")).replace("[nic]\n", "[nic]\nworkers = %d\n" % count))
        pk.write_capture(runner.path("in.pcap"), frames)
        run = runner.command("replay", "-c", runner.path("nic.ini"), "--plugin", twins("sizes")["eBPF"], "--json",
                             runner.path("in.pcap"))
        assert run.returncode == 0, run.stderr
        state = {s["word"]: s["value"] for s in json.loads(run.stdout)["contexts"]["a"]["state"]}
        total.append(sum(n for word, n in state.items() if word < 16))
    equal(total, [200, 200])


def compile_one(runner, source):
    with open(source) as f:
        text = f.read()
    flags = re.search(r"flags: (.*?) \*/", text)
    out = runner.path(os.path.basename(source) + ".o")
    run = subprocess.run([CLANG, "-O2", "-target", "bpf", "-mcpu=v2", "-ffreestanding", "-I", os.path.join(ROOT, "handlers"),
                          *(flags.group(1).split() if flags else []), "-c", source, "-o", out], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return out, re.search(r"says: (.*?) \*/", text).group(1)


@rule("what clang compiles and a NIC cannot take is refused in words that say what to do")
def refused(runner):
    if not CLANG:
        raise Skip("clang is not installed")
    sources = sorted(glob.glob(os.path.join(HOSTILE, "*.c")))
    assert len(sources) >= 12, "the corpus is in %s" % HOSTILE
    runner.write("nic.ini", NIC % ("x", ""))
    pk.write_capture(runner.path("one.pcap"), [(0, icmp())])
    for source in sources:
        plugin, words = compile_one(runner, source)
        run = runner.command("replay", "-c", runner.path("nic.ini"), "--plugin", plugin,
                             runner.path("one.pcap"))
        name = os.path.basename(source)
        assert run.returncode == 1, "%s: exit status %d: %s" % (name, run.returncode, run.stderr)
        assert words in run.stderr, "%s: %r where %r was to be said" % (name, run.stderr, words)
        assert os.path.basename(plugin) in run.stderr, "%s: the file is not named: %s" % (name, run.stderr)


def instructions(plugin, section):
    """(code, destination, source, offset, immediate) of each, from the object itself."""
    with open(plugin, "rb") as f:
        data = f.read()
    headers, size, count, names = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, headers + i * size) for i in range(count)]
    for name, _, _, _, at, length in sections:
        at_name = sections[names][4] + name
        if data[at_name:data.index(b"\0", at_name)] == section.encode():
            code = struct.iter_unpack("<BBhi", data[at:at + length])
            return [(op, registers & 15, registers >> 4, off, imm) for op, registers, off, imm in code]
    raise AssertionError("%s has no section %s" % (plugin, section))


CUT = (0x07, 0x67, 0x77)  # r += constant, r <<= 32, r >>= 32


def origin(code, at, register):
    """Where what the register holds before instruction `at` came from, cut to 32 bits on the way or not."""
    for i in range(at - 1, -1, -1):
        op, to = code[i][:2]
        if op == 0x85 and register < 6 or to == register and op & 7 in (0, 1, 4, 7) and op not in CUT:
            return i
    return -1


def spilled_divisors(code):
    """Of divisors that are loaded from the stack, how many were tested between store and load: in the register that was
    stored, and in one that was loaded from there."""
    found = [0, 0]
    for at, (op, _, by, _, _) in enumerate(code):
        load = origin(code, at, by) if op in (0x3F, 0x9F) else -1  # /=, %= of 64 bits by a register
        if load < 0 or (code[load][0], code[load][2]) != (0x79, 10):
            continue
        slot = code[load][3]
        store = max(i for i in range(load) if code[i][0] == 0x7B and code[i][1] == 10 and code[i][3] == slot)
        for i in range(store + 1, load):
            op, tested = code[i][:2]
            if op & 7 != 5 or op in (0x05, 0x85, 0x95):
                continue
            of = origin(code, i, tested)
            found[0] += tested == code[store][2] and of < store
            found[1] += of > store and code[of][0] == 0x79 and code[of][2:4] == (10, slot)
    return found


@rule("divisors that clang spills between their test and the division are accepted, and the results are right")
def spilled(runner):
    if not CLANG:
        raise Skip("clang is not installed")
    words = [7, 1000, 0xFFFFFFFF, 123456789, 0x80000001, 77]
    x, a, b, c, d, e = words
    y, low = a, 0xFFFFFFFF
    common = {0: a ^ b, 1: b + c * 3, 2: (c ^ d) + e, 3: (a + b + c + d + e) // x, 4: a // x + b, 5: (b ^ c ^ d ^ e) % x}
    data = struct.pack(">6I", *words)
    frame = pk.ethernet(pk.ipv4(pk.udp(data, sport=4000, dport=7)), 0x0800)
    n, a, b, c, d, e = len(data), 14, 34, 4, 4000, 7
    late = {0: a ^ b, 1: b + c * 3, 2: (c ^ d) + e, 3: (a + b + c + d + e) // n, 4: a // n + b, 5: (b ^ c ^ d ^ e) % n,
            6: d * e // (len(frame) - 50)}
    expected = {"spilled": common, "cut": {**common, 6: ((words[2] ^ words[3] ^ words[4] ^ words[5]) & low) % (y - 3)}, "late": late,
                "early": {**late, 6: (b ^ c ^ d ^ e) % len(frame), 7: n * 1000 // (len(frame) - 50)}}
    for flags in (["-mcpu=v2"], ["-mcpu=v2", "-O1"], ["-mcpu=v1"]):
        plugin = runner.path("spilled.o")
        run = subprocess.run([CLANG, "-O2", "-target", "bpf", *flags, "-ffreestanding", "-I", os.path.join(ROOT, "handlers"), "-c",
                              os.path.join(HERE, "..", "unit", "bpf_good", "spilled.bpf.c"), "-o", plugin],
                             capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        found = {h: spilled_divisors(instructions(plugin, "handler/" + h)) for h in expected}
        if flags == ["-mcpu=v2"]:  # the register allocator of another version may do it otherwise
            assert found["early"][0] and found["late"][1], "clang spills no such divisors: %r" % found
        for handler, state in expected.items():
            report, _ = replay(runner, plugin, handler, [(0, frame)])
            equal({s["word"]: s["value"] for s in report["state"]}, {k: v for k, v in state.items() if v})
        zero = pk.ethernet(pk.ipv4(pk.udp(bytes(24), sport=4000, dport=7)), 0x0800)
        for handler in ("spilled", "cut"):  # nothing is divided by 0
            equal(replay(runner, plugin, handler, [(0, zero)])[0]["state"], [])


@rule("each test that the guide names is there, and each of its promises names one")
def promises(runner):
    with open(os.path.join(ROOT, "docs", "ebpf.md")) as f:
        listed = f.read().split("## What is tested")[1].split("\n\n")[1]
    promised = listed[2:].split("\n- ")
    assert len(promised) > 8
    for promise in promised:
        names = 0
        for part in re.findall(r"`tests/[^;]*", promise, re.S):
            path, *rules = re.findall(r"`(.*?)`", part)
            with open(os.path.join(ROOT, path)) as f:
                text = f.read()
            for name in rules:
                assert re.search(r"^(TEST\w*\(.*\b%s\)|def %s\()" % (name, name), text, re.M), "%s has no %s" % (path, name)
                names += 1
        assert names, "no test for: %s" % promise


@rule("the guide's example compiles, loads and counts")
def guide(runner):
    if not CLANG:
        raise Skip("clang is not installed")
    with open(os.path.join(ROOT, "docs", "ebpf.md")) as f:
        source = re.search(r"```c file=first-word.bpf.c\n(.*?)```", f.read(), re.S).group(1)
    runner.write("guide.c", source)
    run = subprocess.run([CLANG, "-O2", "-target", "bpf", "-mcpu=v2", "-ffreestanding", "-Werror", "-Wall", "-I", os.path.join(ROOT, "handlers"),
                          "-c", runner.path("guide.c"), "-o", runner.path("guide.o")], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    words = [5, 100, 100, 613, 357, 99]
    frames = [(i * MS, pk.ethernet(pk.ipv4(pk.udp(struct.pack(">I", w) + b"x" * 20, dport=7)), 0x0800)) for i, w in enumerate(words)]
    frames.append((9 * MS, pk.ethernet(pk.ipv4(pk.udp(b"abc", dport=7)), 0x0800)))
    report, _ = replay(runner, runner.path("guide.o"), "first-word", frames)
    equal(report["counters"], {"seen": 4})
    equal(report["drops"].get("too-short"), 1)
    equal({s["word"]: s["value"] for s in report["state"]}, {100: 2, 101: 2})


@rule("spindle bench sets each beside its twin in C and beside a handler that does nothing")
def bench(runner):
    twins("responder")
    run = runner.command("bench", "--filter", "bpf", "--rounds", "1", "--seconds", "0.01", "--json")
    assert run.returncode == 0, run.stderr
    cases = {c["name"]: c for c in json.loads(run.stdout)["cases"]}
    equal(sorted(name.split(",")[0] for name in cases), ["bpf-responder", "bpf-sizes"])
    for name, case in cases.items():
        assert not case["skipped"] and case["value"] > 0 and case["ratio"] > 0, "%s: %r" % (name, case)


@rule("a file that is cut off, of another machine's order or empty is refused, and another one loads after it")
def files(runner):
    with open(twins("responder")["eBPF"], "rb") as f:
        whole = f.read()
    runner.write("nic.ini", NIC % ("responder", ""))
    pk.write_capture(runner.path("one.pcap"), [(0, icmp())])
    big = bytearray(whole)
    big[5], big[18:20] = 2, whole[19:17:-1]
    for what, data, words in (("cut", whole[:len(whole) // 2], "cut off"), ("big", bytes(big), "bpfel"), ("head", whole[:30], "")):
        runner.write(what + ".o", data)
        run = runner.command("replay", "-c", runner.path("nic.ini"), "--plugin", runner.path(what + ".o"),
                             runner.path("one.pcap"))
        assert run.returncode == 1 and words in run.stderr, "%s: %d %s" % (what, run.returncode, run.stderr)


if __name__ == "__main__":
    main()
