#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the sdr handler sends, as others see it: tshark decodes it, zlib computes its ICRC.

The packets are those of `spindle demo -w`; no privilege is needed. IBTA volume 1, chapter 9, is the reference.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets
from replay import Skip, equal, main, rule, sanitized

MTU, CHUNK, MESSAGE = 1024, 4096, 20480
SHAPES = {"IPv4": ["--mtu", "1024"], "IPv6": ["--mtu", "1024", "--ipv6"], "4096 bytes": ["--mtu", "4096"],
          "64 bytes": ["--mtu", "64"]}
FIELDS = ["frame.number", "infiniband.bth.opcode", "infiniband.bth.se", "infiniband.bth.padcnt", "infiniband.bth.tver",
          "infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.a", "infiniband.bth.psn", "infiniband.reth.va",
          "infiniband.reth.r_key", "infiniband.reth.dmalen", "infiniband.immdt"]


def sent(run, *arguments, size=100001):
    """A capture of a transfer without loss, and the file that was sent."""
    data = bytes((i * 7 + i // 251) & 0xFF for i in range(size))
    path, capture = run.write("source", data), run.path("wire.pcap")
    process = run.command("demo", "--fast", "--scheme", "none", "--loss", "0", "--chunk", str(CHUNK), "--message", str(MESSAGE),
                          *arguments, "-w", capture, path)
    equal(process.returncode, 0, process.stderr)
    return capture, data


def tshark(capture, *arguments):
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    process = subprocess.run(["tshark", "-n", "-r", capture, *arguments], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def decoded(capture, display):
    lines = tshark(capture, "-Y", display, "-T", "fields", *[a for f in FIELDS for a in ("-e", f)])
    return [dict(zip(FIELDS, line.split("\t"))) for line in lines]


def number(text):
    return int(text, 0)


def true(text):
    return text in ("1", "True")


def all_shapes(function):
    def check(run):
        for name, arguments in list(SHAPES.items())[:2 if sanitized(run.spindle) else None]:
            try:
                function(run, arguments, int(arguments[1]))
            except AssertionError as error:
                raise AssertionError("%s: %s" % (name, error)) from error
    return check


@rule("every data packet is a UC RDMA WRITE Only with Immediate whose fields say where its bytes belong")
@all_shapes
def _(run, arguments, mtu):
    capture, data = sent(run, *arguments)
    rows, frames = decoded(capture, "infiniband.bth.opcode == 0x2b"), packets.read_capture(capture)
    per = MESSAGE // mtu
    count = [-(-len(data[k:k + MESSAGE]) // mtu) for k in range(0, len(data), MESSAGE)]
    equal(len(rows), sum(count))
    psn, base, rkey = {}, None, None
    expected = [(k, i) for k, n in enumerate(count) for i in range(n)]
    for row, (message, index) in zip(rows, expected):
        piece = data[message * MESSAGE + index * mtu:][:min(mtu, MESSAGE - index * mtu)]
        qp = number(row["infiniband.bth.destqp"])
        base = qp if base is None else base
        rkey = number(row["infiniband.reth.r_key"]) if rkey is None else rkey
        equal(qp, base, "the first messages all belong to generation 0")
        immediate = int(row["infiniband.immdt"].split(",")[-1], 16)
        equal(immediate >> 22, message, "message id")
        equal(immediate >> 4 & 0x3FFFF, index, "packet offset")
        equal(number(row["infiniband.reth.va"]), message * MESSAGE + index * mtu, "address = slot * M + offset * mtu")
        equal(number(row["infiniband.reth.r_key"]), rkey)
        equal(number(row["infiniband.reth.dmalen"]), len(piece), "DMALen is the payload's length without padding")
        equal(number(row["infiniband.bth.padcnt"]), -len(piece) % 4)
        equal(true(row["infiniband.bth.se"]), index == count[message] - 1, "SE marks the last packet")
        equal((number(row["infiniband.bth.tver"]), true(row["infiniband.bth.a"]), number(row["infiniband.bth.p_key"])),
              (0, False, 0xFFFF))
        if qp in psn:
            equal(number(row["infiniband.bth.psn"]), (psn[qp] + 1) & 0xFFFFFF, "PSN + 1 per QP and packet")
        psn[qp] = number(row["infiniband.bth.psn"])
        frame = frames[number(row["frame.number"]) - 1][1]
        above = 14 + (40 if "--ipv6" in arguments else 20) + 8 + 12 + 16 + 4
        equal(frame[above:].hex(), (piece + b"\0" * (-len(piece) % 4) + frame[-4:]).hex(), "payload, pad of zeros, ICRC")


@rule("tshark finds nothing malformed, and no wrong checksum", plain=True)
@all_shapes
def _(run, arguments, mtu):
    capture, _ = sent(run, *arguments)
    equal(tshark(capture, "-o", "ip.check_checksum:TRUE", "-Y",
                 "_ws.malformed || _ws.short || ip.checksum.status == \"Bad\" || udp.length.bad"), [])
    assert tshark(capture, "-Y", "infiniband.bth.opcode == 0x24"), "clear-to-send travels as UC SEND Only"


@rule("the ICRC of every packet is what zlib computes over the masked packet", plain=True)
@all_shapes
def _(run, arguments, mtu):
    capture, _ = sent(run, *arguments)
    frames = [frame for _, frame in packets.read_capture(capture)]
    assert len(frames) > 25
    for frame in frames:
        packet = frame[14:]
        total = int.from_bytes(packet[4:6], "big") + 40 if packet[0] >> 4 == 6 else int.from_bytes(packet[2:4], "big")
        equal(total, len(packet), "no byte after the ICRC")
        equal(packet[-4:].hex(), packets.icrc(packet[:-4]).hex())


@rule("a run captured twice is the same byte for byte")
def _(run):
    captures = []
    for _ in range(2):
        capture, _ = sent(run)
        with open(capture, "rb") as f:
            captures.append(f.read())
    assert captures[0] == captures[1]


@rule("what one NIC sent, another one takes from the capture")
def _(run):
    capture, data = sent(run)
    row = decoded(capture, "infiniband.bth.opcode == 0x2b")[0]
    result = run.command("replay", "-c", run.write("nic.ini", (
        "[nic]\nip = 192.0.2.2/24\n[context c]\nhandler = sdr\nqp = %s\nrkey = %s\nmtu = %d\nchunk-bytes = %d\nmax-message-bytes = %d\n"
        "max-messages = 64\n" % (number(row["infiniband.bth.destqp"]), row["infiniband.reth.r_key"], MTU, CHUNK, MESSAGE))),
        "--post", "c=5", "--dump", "c=" + run.path("dump"), "--json", capture)
    equal(result.returncode, 0, result.stderr)
    with open(run.path("dump"), "rb") as f:
        equal(f.read()[:len(data)] == data, True)


@rule("a capture that cannot be written is an error")
def _(run):
    process = run.command("demo", "--fast", "--scheme", "none", "-w", os.path.join(run.path("no such directory"), "x.pcap"))
    equal(process.returncode, 1)
    assert "no such directory" in process.stderr, process.stderr


if __name__ == "__main__":
    main()
