# SPDX-License-Identifier: BSD-3-Clause
"""Packets of some hundred flows, a few of them heavy (Zipf), for heavy-hitters: the heavy ones, and their exact counts."""

import collections
import math
import random
import socket
import struct

import common
from common import pk

FLOWS, TOP = 300, 16
FIELDS = "source", "destination", "source_port", "destination_port"


def flow(i):
    """A function that makes a packet of the i-th flow: UDP, TCP and others, IPv4 and IPv6, some with VLAN tags."""
    rng = random.Random(i)
    v6 = i % 4 == 1
    src = "2001:db8::%x" % (0x1000 + i) if v6 else "198.51.100.%d" % (1 + i % 250)
    dst = "2001:db8:1::%x" % (1 + i % 7) if v6 else "203.0.113.%d" % (1 + i % 9)
    kind = ("udp", "tcp", "udp", "icmp", "tcp", "udp")[i % 6]
    sport, dport = 1024 + rng.randrange(60000), rng.choice((53, 80, 443, 8080))
    vlan = (i,) if i % 10 == 3 else ()

    def packet(n):
        if kind == "udp":
            body, proto = common.base.udp(b"%d" % n, sport, dport, src, dst), 17
        elif kind == "tcp":
            body, proto = struct.pack(">HHIIBBHHH", sport, dport, n, 0, 5 << 4, 16, 8192, 0, 0), 6
        else:
            body, proto = struct.pack(">BBHHH", 128 if v6 else 8, 0, 0, i, n & 0xFFFF), 58 if v6 else 1
        return common.base.frame(common.base.ip(body, src, dst, proto), vlan=vlan)

    return packet


def packets():
    rng = random.Random(45)
    order = [i for i in range(FLOWS) for _ in range(500 // (i + 1) + (TOP - i if i < TOP else 1))]  # no two at the top alike
    rng.shuffle(order)
    flows = [flow(i * 7 % FLOWS) for i in range(FLOWS)]
    frames = [flows[i](n) for n, i in enumerate(order)]
    part = pk.ipv4(b"a part of a datagram", "198.51.100.254", "203.0.113.1", 17, fragment=0x2000)
    for _ in range(69):                                                # fragments: one flow without ports, a heavy one
        frames.insert(rng.randrange(len(frames)), common.base.frame(part))
    for _ in range(30):                                                # not IP
        frames.insert(rng.randrange(len(frames)), pk.ethernet(b"local experiment", 0x88B5))
    return common.spaced(frames, rng, least=500, most=3000)


def flow_of(frame):
    """(source, destination, source port, destination port), or None: not IP. Only UDP has ports here."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, ip = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x00":
        mapped = bytes(10) + b"\xff\xff"
        src, dst, whole = mapped + ip[12:16], mapped + ip[16:20], not struct.unpack(">H", ip[6:8])[0] & 0x3FFF
        ports = struct.unpack(">HH", ip[20:24]) if ip[9] == 17 and whole else (0, 0)
    elif kind == b"\x86\xdd":
        src, dst = ip[8:24], ip[24:40]
        ports = struct.unpack(">HH", ip[40:44]) if ip[6] == 17 else (0, 0)
    else:
        return None
    return socket.inet_ntop(socket.AF_INET6, src), socket.inet_ntop(socket.AF_INET6, dst), *ports


def line(flow, count):
    return {**dict(zip(FIELDS, flow)), "packets": count}


def counts(packets):
    return collections.Counter(flow for flow in (flow_of(frame) for _, frame in packets) if flow)


def expected(packets):
    flows = counts(packets)
    top = flows.most_common(TOP + 1)
    assert len({n for _, n in top}) == TOP + 1, "the order is not clear"
    # Four rows of 4096 counters and some 300 flows: that one of the 16 shares all its counters has odds of 1 to 1000.
    return {"report": {"packets": len(packets), "counters": {"table-busy": 0}, "dropped": 0, "errors": 0,
                       "flows": [line(f, n) for f, n in top[:TOP]]}}


def rules(t):
    @t.rule("heavy-hitters: in far too few counters estimates are never below the truth, and hardly above the bound")
    def bound():
        flows = counts(t.packets("heavy-hitters"))
        width, total, over, above = 64, sum(flows.values()), 0, 0
        report, _ = t.replay("heavy-hitters", {"width": width})
        t.equal(len(report["flows"]), TOP)
        for found in report["flows"]:
            true = flows[tuple(found[k] for k in FIELDS)]
            assert found["packets"] >= true > 0, "estimate %d, truth %d" % (found["packets"], true)
            over += found["packets"] > true + math.e * total / width
            above += found["packets"] > true
        t.equal((over <= 1, above > 5), (True, True), "over the bound %d, above the truth %d" % (over, above))

    @t.rule("heavy-hitters: tshark counts the heaviest flow's packets as they are listed")
    def heaviest():
        first = t.report("heavy-hitters")["flows"][0]
        where = "ip.src == %s and ip.dst == %s and udp.srcport == %d and udp.dstport == %d" % (
            first["source"][7:], first["destination"][7:], first["source_port"], first["destination_port"])
        t.equal(len(t.tshark("heavy-hitters", "in.pcap", "-Y", where)), first["packets"])
