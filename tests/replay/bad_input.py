#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is wrong with a packet has a name, and nothing of it reaches memory."""

import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets as p
from replay import NIC, equal, main, rule

SDR = p.Sdr(channels=2)
CONFIG = NIC + SDR.ini()
PAYLOAD = bytes(i % 255 + 1 for i in range(256))
GOOD = SDR.write(0, 0, PAYLOAD)


def only(run, frames, reason, config=CONFIG, post=2, taken=0):
    """All of the frames are dropped for that reason alone, and the buffer stays as it was."""
    result = run.replay(config, frames, post={"sdr0": post}, dump=["sdr0"])
    equal(result.drops(), {reason: len(frames) - taken}, "drops")
    equal(result.report["taken"], taken, "taken")
    if not taken:
        assert not any(result.dump["sdr0"]), "memory was written"
    return result


def one_rule(name, reason, frames, **more):
    rule("%s is dropped as %s" % (name, reason))(lambda run: only(run, frames() if callable(frames) else frames, reason, **more))


@rule("a good packet is taken (or the rules below say nothing)")
def _(run):
    for frame in (GOOD, SDR.write(0, 0, PAYLOAD, v6=True), SDR.write(0, 0, PAYLOAD, vlan=(0xE000,)),
                  SDR.write(0, 0, PAYLOAD, vlan=((0x88A8, 0), (0x8100, 0))), SDR.write(0, 0, PAYLOAD, resv8a=0x80),
                  SDR.write(0, 0, PAYLOAD, ip={"ttl": 3, "tos": 0xB8}), SDR.write(0, 0, PAYLOAD) + b"\0\0\0\0"):
        result = run.replay(CONFIG, [frame], post={"sdr0": 1}, dump=["sdr0"])
        equal(result.drops(), {})
        equal(result.report["packets"], 1)
        equal(result.report["taken"], 1)
        equal(result.report["bytes"], len(frame))
        equal(result.dump["sdr0"], PAYLOAD.ljust(SDR.max_bytes, b"\0"))


# ---- Ethernet ------------------------------------------------------------------------------------------------------------
one_rule("a frame without a whole Ethernet header", "short-ethernet", [b"", GOOD[:1], GOOD[:13]])
one_rule("a frame cut off in a VLAN tag", "short-ethernet",
         lambda: [SDR.write(0, 0, PAYLOAD, vlan=(5,))[:n] for n in (14, 17)] +
                 [SDR.write(0, 0, PAYLOAD, vlan=(5, 6))[:n] for n in (18, 21)])

# ---- IP ------------------------------------------------------------------------------------------------------------------
one_rule("a frame cut off in the IP header", "short-ip",
         lambda: [GOOD[:n] for n in (14, 15, 33)] + [SDR.write(0, 0, PAYLOAD, v6=True)[:n] for n in (14, 53)] +
                 [p.ethernet(p.ipv4(b"", ihl=6)[:22], 0x0800, pad=False)])
one_rule("an IP header of the wrong version or length", "bad-ip-header",
         lambda: [SDR.write(0, 0, PAYLOAD, ip={"version": 5}), SDR.write(0, 0, PAYLOAD, ip={"version": 6}),
                  SDR.write(0, 0, PAYLOAD, ip={"ihl": 4}), SDR.write(0, 0, PAYLOAD, ip={"ihl": 0}),
                  SDR.write(0, 0, PAYLOAD, v6=True, ip={"version": 4})])
one_rule("an IPv4 header with a wrong checksum", "bad-ip-checksum",
         lambda: [SDR.write(0, 0, PAYLOAD, ip={"check": 0x1234}), GOOD[:22] + b"\x07" + GOOD[23:]])
one_rule("an IP length beyond the frame, or below its own header", "bad-ip-length",
         lambda: [SDR.write(0, 0, PAYLOAD, ip_length=n) for n in (0, 19, len(GOOD) - 13, 65535)] +
                 [SDR.write(0, 0, PAYLOAD, v6=True, ip_length=n) for n in (len(GOOD), 65535)] + [GOOD[:-1], GOOD[:60]])


@rule("a packet that the capture holds only in part is dropped as bad-ip-length")
def _(run):
    only(run, [(0, GOOD[:100], len(GOOD)), (5, GOOD[:64], 1500)], "bad-ip-length")

one_rule("an IPv6 packet from or to an IPv4-mapped address", "mapped-address",
         lambda: [SDR.write(0, 0, PAYLOAD, v6=True, **{way: "::ffff:192.0.2.1"}) for way in ("src", "dst")])


# ---- UDP, BTH --------------------------------------------------------------------------------------------------------------
one_rule("a datagram cut off in the UDP header", "short-udp",
         lambda: [p.ethernet(p.ipv4(p.udp(b"")[:n]), 0x0800) for n in (0, 4, 7)] +
                 [p.ethernet(p.ipv6(p.udp(b"")[:n]), 0x86DD) for n in (0, 7)])
one_rule("a UDP length that contradicts the IP length", "bad-udp-length",
         lambda: [SDR.write(0, 0, PAYLOAD, udp_length=n, v6=v6)
                  for n in (0, 7, 8, 100, 8 + 12 + 20 + 256 + 3, 8 + 12 + 20 + 256 + 5, 65535) for v6 in (False, True)])
one_rule("a datagram without room for BTH and ICRC", "short-bth",
         lambda: [p.ethernet(p.ipv4(p.udp(b"\x2b" + b"\0" * n)), 0x0800) for n in (0, 10, 14)])
one_rule("a BTH of another transport version", "bad-bth", lambda: [SDR.write(0, 0, PAYLOAD, tver=n) for n in (1, 15)])
one_rule("a pad count beyond what there is", "bad-pad", lambda: [p.roce(0x2B, SDR.qp, pad=n) for n in (1, 3)])
one_rule("a wrong ICRC", "bad-icrc",
         lambda: [SDR.write(0, 0, PAYLOAD, bad_icrc=True), SDR.write(0, 0, PAYLOAD, v6=True, bad_icrc=True),
                  GOOD[:70] + bytes([GOOD[70] ^ 0x10]) + GOOD[71:]])


@rule("with icrc = no a wrong ICRC is taken")
def _(run):
    result = run.replay(CONFIG.replace("[context", "icrc = no\n[context", 1), [SDR.write(0, 0, PAYLOAD, bad_icrc=True)],
                        post={"sdr0": 1})
    equal(result.drops(), {})
    equal(result.report["taken"], 1)


# ---- whose is it -----------------------------------------------------------------------------------------------------------
one_rule("a QP number that is reserved or nobody's", "bad-qp",
         lambda: [SDR.write(0, 0, PAYLOAD, qp=n) for n in (0, 1, 0xFFFFFF, SDR.qp - 1, SDR.qp + 4, 0x800100)])
one_rule("a packet of a VLAN, where the NIC is in none,", "wrong-vlan",
         lambda: [SDR.write(0, 0, PAYLOAD, vlan=(5,)), SDR.write(0, 0, PAYLOAD, vlan=((0x88A8, 7), (0x8100, 9)), v6=True)])
one_rule("a packet of another VLAN than the NIC's", "wrong-vlan",
         lambda: [GOOD] + [SDR.write(0, 0, PAYLOAD, vlan=tags) for tags in ((0,), (6,), ((0x88A8, 5),), ((0x88A8, 7), 5))],
         config=CONFIG.replace("[context", "vlan = 5\n[context", 1))


@rule("a packet of the NIC's VLAN is taken")
def _(run):
    result = run.replay(CONFIG.replace("[context", "vlan = 5\n[context", 1), [SDR.write(0, 0, PAYLOAD, vlan=(0x6005,))],
                        post={"sdr0": 1}, dump=["sdr0"])
    equal(result.drops(), {})
    equal(result.dump["sdr0"], PAYLOAD.ljust(SDR.max_bytes, b"\0"))


one_rule("a RoCE packet for another address", "wrong-destination",
         lambda: [SDR.write(0, 0, PAYLOAD, dst="192.0.2.9"), SDR.write(0, 0, PAYLOAD, v6=True, dst="2001:db8::9")])
one_rule("what no context takes", "no-match",
         lambda: [p.ethernet(p.ipv4(p.udp(b"hello", dport=9)), 0x0800), p.ethernet(p.ipv4(b"\0" * 20, proto=6), 0x0800),
                  p.ethernet(p.ipv4(p.udp(b"hello", dport=9), fragment=0x2000), 0x0800), p.ethernet(b"\0" * 40, 0x88CC)])
one_rule("the first fragment of a RoCE packet", "roce-fragment",
         lambda: [p.ethernet(p.ipv4(p.udp(b"hello"), fragment=0x2000), 0x0800)])

# ---- SDR -------------------------------------------------------------------------------------------------------------------
one_rule("another opcode than UC RDMA WRITE Only with Immediate", "bad-opcode",
         lambda: [SDR.write(0, 0, PAYLOAD, opcode=n) for n in (0x04, 0x0B, 0x26, 0x2A, 0x64, 0xC0)])
one_rule("a packet without room for RETH and immediate", "short-header",
         lambda: [SDR.write(0, 0, b"", ext=b"\0" * n) for n in (0, 4, 16)])
one_rule("a wrong rkey", "bad-rkey", lambda: [SDR.write(0, 0, PAYLOAD, rkey=n) for n in (0, 0x1235, 0x81001234, 0xFFFFFFFF)])
one_rule("a message id or packet offset that the context does not have", "out-of-range",
         lambda: [SDR.write(0, 0, PAYLOAD, immediate=n << 22, address=n * SDR.max_bytes) for n in (4, 5, 1023)] +
                 [SDR.write(0, n, PAYLOAD) for n in (32, 33, 0x3FFFF)])
one_rule("a length that is not the payload's", "bad-length",
         lambda: [SDR.write(0, 0, PAYLOAD, length=n) for n in (0, 255, 257, 0xFFFFFFFF)] + [SDR.write(0, 0, PAYLOAD[:-1], length=256)])
one_rule("a payload longer than the MTU", "over-mtu", lambda: [SDR.write(0, 0, bytes(n)) for n in (257, 260, 1024)])
one_rule("an address that contradicts the immediate", "address-mismatch",
         lambda: [SDR.write(0, 1, PAYLOAD, address=n) for n in (0, 255, 257, 512, SDR.max_bytes, 1 << 63, (1 << 64) - 1)] +
                 [SDR.write(1, 0, PAYLOAD, address=0)])
one_rule("a message that was never posted", "not-posted", lambda: SDR.message(2, bytes(1000)) + SDR.message(3, b""))
one_rule("any packet, where nothing is posted for its slot,", "not-posted", lambda: SDR.message(1, bytes(1000)), post=1)


@rule("what lies beyond the end that the last packet has told is dropped as beyond-end")
def _(run):
    last = SDR.write(0, 2, PAYLOAD[:100], se=True)  # 612 bytes
    beyond = [SDR.write(0, 2, PAYLOAD[:101]), SDR.write(0, 3, PAYLOAD), SDR.write(0, 31, PAYLOAD[:1])]
    result = run.replay(CONFIG, [last] + beyond + [SDR.write(0, 1, PAYLOAD)], post={"sdr0": 1}, dump=["sdr0"])
    equal(result.drops(), {"beyond-end": 3})
    equal(result.report["taken"], 2)
    equal(result.dump["sdr0"], (b"\0" * 256 + PAYLOAD + PAYLOAD[:100]).ljust(SDR.max_bytes, b"\0"))
    # ... nor may a packet put an end before what has come already
    result = run.replay(CONFIG, [SDR.write(0, 5, PAYLOAD), SDR.write(0, 2, PAYLOAD[:100], se=True), SDR.write(0, 3, PAYLOAD, se=True)],
                        post={"sdr0": 1}, dump=["sdr0"])
    equal(result.drops(), {"beyond-end": 2})
    equal(result.dump["sdr0"], (b"\0" * 5 * 256 + PAYLOAD).ljust(SDR.max_bytes, b"\0"))


@rule("a last packet that would reach beyond the posted length is dropped as beyond-end or out-of-range")
def _(run):
    odd = p.Sdr(mtu=256, chunk=1024, max_bytes=1000)
    frames = [odd.write(0, 3, PAYLOAD[:232]), odd.write(1, 3, PAYLOAD[:233]), odd.write(1, 3, PAYLOAD)]
    result = run.replay(NIC + odd.ini(), frames, post={"sdr0": 2}, dump=["sdr0"])
    equal(set(result.drops()) <= {"beyond-end", "out-of-range"}, True, str(result.drops()))
    equal(sum(result.drops().values()), 2)
    equal(result.dump["sdr0"], (b"\0" * 768 + PAYLOAD[:232]).ljust(2000, b"\0"))


@rule("duplicates are taken, counted, and do not write again")
def _(run):
    other = bytes(255 - i % 255 for i in range(256))
    frames = [GOOD, GOOD, SDR.write(0, 0, other), SDR.write(0, 1, other), GOOD]
    result = run.replay(CONFIG, frames, post={"sdr0": 1}, dump=["sdr0"])
    message = result.report["contexts"]["sdr0"]["messages"][0]
    equal((message["packets"], message["duplicates"]), (2, 3))
    equal(result.dump["sdr0"][:512], PAYLOAD + other)


@rule("a message of no bytes is one packet and one chunk, and its rkey does not matter")
def _(run):
    result = run.replay(CONFIG, [SDR.write(0, 0, b"", se=True), SDR.write(1, 0, b"", rkey=0xBAD, se=True)], post={"sdr0": 2},
                        dump=["sdr0"])
    equal(result.drops(), {})
    for message in result.report["contexts"]["sdr0"]["messages"]:
        equal((message["packets"], message["chunk_bitmap"], message["complete"]), (1, "1", True))
    assert not any(result.dump["sdr0"])


@rule("a short last packet ends the message with and without the SE bit")
def _(run):
    for se in (False, True):
        data = bytes(random.Random(1).randrange(256) for _ in range(1024 + 256 + 77))
        frames = [SDR.write(0, i, data[i * 256:(i + 1) * 256], se=se and i == 5) for i in range(6)]
        result = run.replay(CONFIG, frames, post={"sdr0": 1}, dump=["sdr0"])
        message = result.report["contexts"]["sdr0"]["messages"][0]
        equal((message["packets"], message["chunk_bitmap"], message["complete"]), (6, "11", True))
        equal(result.dump["sdr0"], data.ljust(SDR.max_bytes, b"\0"))


@rule("a message whose first packet never comes has every other packet in place and is not complete")
def _(run):
    data = bytes(i % 251 + 1 for i in range(5 * 1024))
    result = run.replay(CONFIG, SDR.message(0, data)[1:], post={"sdr0": 1}, dump=["sdr0"])
    message = result.report["contexts"]["sdr0"]["messages"][0]
    equal((message["packets"], message["chunk_bitmap"], message["complete"]), (19, "01111", False))
    equal(result.dump["sdr0"], (b"\0" * 256 + data[256:]).ljust(SDR.max_bytes, b"\0"))


@rule("frames changed at random never crash it, never write elsewhere, and all are accounted for")
def _(run):
    random_ = random.Random(7)
    for v6 in (False, True):
        data = bytes(random_.randrange(1, 256) for _ in range(SDR.max_bytes))
        good = SDR.message(0, data, v6=v6)
        frames = []
        for _ in range(3000):
            frame = bytearray(random_.choice(good))
            for _ in range(random_.choice((1, 1, 2, 5))):
                at = random_.randrange(min(len(frame), 100))
                frame[at] = random_.choice((0, 255, random_.randrange(256), frame[at] ^ 1 << random_.randrange(8)))
            if random_.random() < 0.3:
                frame = frame[:random_.randrange(len(frame) + 1)]
            frames.append(bytes(frame))
        result = run.replay(CONFIG, frames, post={"sdr0": 2}, dump=["sdr0"])
        equal(result.report["packets"], 3000)
        got = result.dump["sdr0"]
        # the ICRC holds for whatever is taken: it can only be the message, at its place
        for at in range(0, len(data), SDR.mtu):
            part = got[at:at + SDR.mtu]
            assert part in (data[at:at + SDR.mtu], bytes(SDR.mtu)), "bytes at %d are no packet's" % at
        assert not any(got[SDR.max_bytes:]), "the other receive was written to"
        # and with nothing to hold it: any bytes, but nothing beyond the buffers (the sanitizers watch), and sums that agree
        run.replay(CONFIG.replace("[context", "icrc = no\n[context", 1), frames, post={"sdr0": 2}, dump=["sdr0"])


@rule("packets of nothing but noise are accounted for")
def _(run):
    random_ = random.Random(8)
    frames = []
    for _ in range(3000):
        frame = random_.randbytes(random_.randrange(200))
        if random_.random() < 0.7 and len(frame) > 24:
            frame = frame[:12] + random_.choice((b"\x08\0\x45", b"\x86\xdd\x60", b"\x81\0\0\x01\x08\0\x45", b"\x08\x06\0")) + frame[15:]
        frames.append(frame)
    equal(run.replay(CONFIG, frames).report["packets"], 3000)


main()
