#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""RVMA on the wire: what tshark says of our headers by handlers/wire/spindle.lua: rvma.py SPINDLE. TAP."""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import packets as p  # noqa: E402
from replay import Skip, equal, main, rule  # noqa: E402

LUA = os.path.join(HERE, "..", "..", "handlers", "wire", "spindle.lua")
BIG = 0xFEDCBA9876543210


def tshark(run, frames, fields=(), what=(), lua=True):
    """A row of texts for each frame: the values of `fields`; or tshark's whole answer."""
    program = shutil.which("tshark")
    if not program:
        raise Skip("there is no tshark")
    path = p.write_capture(run.path("wire.pcap"), frames)
    command = [program, "-r", path, "-n", "-o", "udp.ignore_ipv6_zero_checksum:TRUE", *(["-X", "lua_script:" + LUA] if lua else []), *what]
    if fields:
        command += ["-T", "fields", "-E", "separator=|", *[x for name in fields for x in ("-e", name)]]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                             env=dict(os.environ, WIRESHARK_RUN_FROM_BUILD_DIRECTORY="0", HOME=run.dir.name))
    said = [line for line in process.stderr.splitlines() if "root" not in line]
    assert process.returncode == 0 and not said, process.stderr
    rows = process.stdout.splitlines()
    return [row.split("|") for row in rows] if fields else rows


def every():
    """One frame of each kind, and more of those that come in several shapes."""
    return [
        p.rvma_put(0x200, 0x123456789A, 7, 3000, 0x11FF0011, BIG, 0x100000001, bytes(range(256)), head=dict(token=0xAABB, flags=1)),
        p.rvma_put(0x200, 3, 0, 5, 2, 0, p.RVMA_APPEND, b"five!", v6=True),
        p.rvma_put(0x200, 4, 0, 0, 2, 0, 0, b""),
        p.rvma_get(0x200, 5, 77, BIG, 1, 9, back=3, head=dict(token=0xAABB)),
        p.rvma_data(0x201, 6, 2, 600, 5, bytes(88), head=dict(token=0xCCDD)),
        p.rvma_datagram(p.RVMA_POLL, 0x200, 0xAABB, p.rel_poll(9, 3, 4, 5, 6)),
        p.rvma_datagram(p.RVMA_ACK, 0x201, 0xCCDD, p.rel_ack(9, 3, (4, 5), (6, 7), [
            (4, 2, 8, b"\x0f\xf0", 0, 0), (5, 0, 0, b"", 1, 4), (1 << 39, 64, 64, b"", 0, 0)], (2, 70000))),
        p.rvma_nack(0x201, 0xCCDD, 5, 1, 9),
        p.rvma_hello(p.RVMA_HELLO, 0x200, 0x201, 1024, 256, 0xCCDD, 0x5555),
        p.rvma_hello(p.RVMA_WELCOME, 0x201, 0x200, 4096, 128, 0xAABB, 0x6666, 0x5555),
        p.rvma_bye(0x201, 0xCCDD, 0x6666),
    ]


FIELDS = ["rvma.opcode", "rvma.bth.destqp", "rvma.token", "rvma.transfer", "rvma.packet", "rvma.flags.fence", "rvma.length",
          "rvma.mailbox", "rvma.key", "rvma.offset", "rvma.append", "rvma.back", "rvma.get", "rvma.blocks", "rvma.reason"]


def hexed(value, digits=16):
    return "0x%0*x" % (digits, value)


@rule("every field of PUT, GET, DATA and NACK is told by the dissector as it was written")
def _(run):
    rows = tshark(run, every(), FIELDS)
    qp, other, mailbox, key, none = hexed(0x200, 6), hexed(0x201, 6), hexed(0x11FF0011), hexed(BIG), ""
    equal(rows[0], ["0xc0", qp, hexed(0xAABB), str(0x123456789A), "7", "1", "3000", mailbox, key, str(0x100000001), "0"] + [none] * 4)
    equal(rows[1], ["0xc0", qp, hexed(0), "3", "0", "0", "5", hexed(2), hexed(0), str(p.RVMA_APPEND), "1"] + [none] * 4)
    equal(rows[2], ["0xc0", qp, hexed(0), "4", "0", "0", "0", hexed(2), hexed(0), "0", "0"] + [none] * 4)
    equal(rows[3], ["0xc1", qp, hexed(0xAABB), "5", "0", "0", "77", key, hexed(1), "9", none, "3", none, none, none])
    equal(rows[4], ["0xc2", other, hexed(0xCCDD), "6", "2", "0", "600", none, none, none, none, none, "5", none, none])
    equal(rows[7], ["0xc5", other, hexed(0xCCDD), "5", none, none, none, none, none, none, none, none, none, "1", "9"])


@rule("every field of HELLO, WELCOME and BYE is told by the dissector as it was written")
def _(run):
    rows = tshark(run, every(), ["rvma.opcode", "rvma.hello.qp", "rvma.hello.mtu", "rvma.hello.window", "rvma.token", "rvma.nonce",
                                 "rvma.hello.echo"])
    equal(rows[8], ["0xc6", "0x00000201", "1024", "256", hexed(0xCCDD), hexed(0x5555), hexed(0)])
    equal(rows[9], ["0xc7", "0x00000200", "4096", "128", hexed(0xAABB), hexed(0x6666), hexed(0x5555)])
    equal(rows[10], ["0xc8", "", "", "", hexed(0xCCDD), hexed(0x6666), ""])


REL = ["type", "poll", "begin", "from_message", "from_unit", "to_message", "to_unit", "reach", "base", "entries", "repaired_runs",
       "repaired", "entry.message", "entry.below", "entry.first", "entry.bytes", "entry.refused", "entry.reason", "entry.bitmap"]


@rule("reliability datagrams are decoded inside of RVMA's, and inside of SDR's control datagrams")
def _(run):
    inner = p.rel_ack(9, 3, (4, 5), (6, 7), [(4, 2, 8, b"\x0f\xf0", 0, 0), (5, 0, 0, b"", 1, 4), (1 << 39, 64, 64, b"", 0, 0)], (2, 70000))
    control = b"SDRC\1\3" + (24 + len(inner)).to_bytes(2, "big") + (5).to_bytes(8, "big") + (6).to_bytes(8, "big") + inner
    ready = b"SDRC\1\1\0\40" + (5).to_bytes(8, "big") + (6).to_bytes(8, "big") + (99).to_bytes(8, "big")
    frames = every() + [p.roce(0x24, 0xF00000, payload=control), p.roce(0x24, 0xF00000, payload=ready)]
    rows = tshark(run, frames, ["spindle_rel." + name for name in REL] + ["spindle_sdr.type", "spindle_sdr.to", "spindle_sdr.count"])
    none = ""
    equal(rows[5], ["1", "9", "3", "4", "5", none, none, "6"] + [none] * 14)
    ack = ["2", "9", none, "4", "5", "6", "7", none, "3", "3", "2", "70000", "4,5,549755813888", "2,0,64", "8,0,64", "2,0,0", "0,1,0",
           "4", "0ff0"]
    equal(rows[6], ack + [none] * 3)
    equal(rows[11], ack + ["3", hexed(5), none])
    equal(rows[12], [none] * 19 + ["1", hexed(5), "99"])


@rule("nothing of it is called malformed, and every packet has its line")
def _(run):
    frames = every()
    equal(tshark(run, frames, what=["-Y", "_ws.malformed or _ws.expert"]), [])
    rows = tshark(run, frames, ["_ws.col.Protocol", "_ws.col.Info"])
    names = ["PUT", "PUT", "PUT", "GET", "DATA", "POLL", "ACK", "NACK", "HELLO", "WELCOME", "BYE"]
    equal([(row[0], row[1].split()[0]) for row in rows], [("RVMA", name) for name in names])
    assert "appended" in rows[1][1] and "not complete" in rows[7][1], rows


@rule("a packet that is shorter than its header is called malformed, and another version or bytes that should be zero are told")
def _(run):
    whole = p.rvma_head(1) + bytes(32)
    frames = [p.roce(0xC0, 0x200, whole[:n]) for n in (0, 4, 52)] + [p.rvma_put(0x200, 1, 0, 0, 2, 0, 0, b"", head=dict(version=2)),
                                                                    p.rvma_put(0x200, 1, 0, 0, 2, 0, 0, b"", head=dict(zero=1))]
    rows = tshark(run, frames, ["_ws.expert.message"])
    equal([row[0] for row in rows], ["Shorter than its header"] * 3 + ["Not version 1", "Reserved bytes are not zero"])


@rule("packets that are not ours are told as without the dissector")
def _(run):
    frames = [p.roce(0x2B, 0x100, p.reth(1, 2, 3) + p.immdt(4), b"abc"), p.roce(0x24, 0x100, payload=b"anything at all, of some length"),
              p.roce(0xD0, 0x100, payload=bytes(20)), p.roce(0x04, 0x100, payload=b"RC")]
    with_it, without = tshark(run, frames, what=["-V"]), tshark(run, frames, what=["-V"], lua=False)
    different = [pair for pair in zip(with_it, without) if pair[0].replace(":spindle_roce", "") != pair[1]]
    equal((len(with_it), different), (len(without), []))


@rule("packets of all kinds as NICs send them are decoded, and nothing about them is found wrong")
def _(run):
    program = os.path.join(os.path.dirname(run.spindle), "tests", "test-property-rvma")
    if not os.path.exists(program):
        raise Skip("the program that makes them is not built: " + program)
    path = run.path("sent.pcap")
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL, timeout=200,
                   env=dict(os.environ, SPINDLE_SEED="5", SPINDLE_PCAP=path))
    sent = [frame for _, frame in p.read_capture(path)]
    assert len(sent) > 1000, len(sent)
    rows = tshark(run, sent, ["rvma.opcode", "_ws.expert.message", "_ws.col.Protocol"])
    equal((len(rows), [row for row in rows if row[1] or row[2] != "RVMA"]), (len(sent), []))
    equal({row[0] for row in rows}, {"0x%02x" % opcode for opcode in range(0xC0, 0xC9)})


@rule("the capture of puts among our captures is decoded")
def _(run):
    path = os.path.join(HERE, "..", "..", "pcaps", "rvma.pcap")
    made = [frame for _, frame in p.read_capture(path)]
    rows = tshark(run, made, ["rvma.mailbox", "rvma.packet", "rvma.length", "rvma.payload"])
    equal(sum(row[0] == hexed(0x11FF0031) for row in rows), 13)
    for row, frame in zip(rows, made):
        equal(row[1:3], [str(int.from_bytes(frame[70:74], "big")), str(int.from_bytes(frame[78:86], "big"))])
        assert frame[110:].hex().startswith(row[3]) and (row[3] or row[2] == "0"), row


if __name__ == "__main__":
    main()
