# SPDX-License-Identifier: BSD-3-Clause
"""Packets of some hundred flows, a few of them heavy (Zipf), for heavy-hitters: the heavy ones, and their exact counts."""

import collections
import ipaddress
import math
import random
import struct

import common
from common import pk

FLOWS, PACKETS, TOP, DEPTH, WIDTH = 300, 3500, 20, 4, 4096


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
    weights = [1 / (1 + i) ** 1.1 for i in range(FLOWS)]
    flows = [flow(i * 7 % FLOWS) for i in range(FLOWS)]
    order = list(range(FLOWS)) + rng.choices(range(FLOWS), weights, k=PACKETS - FLOWS)
    rng.shuffle(order)
    frames = [flows[i](n) for n, i in enumerate(order)]
    part = pk.ipv4(b"a part of a datagram", "198.51.100.254", "203.0.113.1", 17, fragment=0x2000)
    for _ in range(40):                                                # fragments: one flow without ports, a heavy one
        frames.insert(rng.randrange(len(frames)), common.base.frame(part))
    tcp = struct.pack(">HHIIBBHHH", 4321, 443, 0, 0, 5 << 4, 16, 8192, 0, 0)
    for n in range(45):                                                # an extension header before TCP
        packet = pk.ipv6(bytes([6, 0, 1, 4, 0, 0, 0, 0]) + tcp, "2001:db8::77", "2001:db8:1::1", 60)
        frames.insert(rng.randrange(len(frames)), common.base.frame(packet))
    for n in range(30):                                                # not IP
        frames.insert(rng.randrange(len(frames)), pk.ethernet(b"local experiment", 0x88B5))
    return common.spaced(frames, rng, least=500, most=3000)


def flow_of(frame):
    """(source, destination, protocol, ports), or None: not IP."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, ip = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x00":
        src, dst, proto, body = ip[12:16], ip[16:20], ip[9], ip[(ip[0] & 15) * 4:]
        ported = not struct.unpack(">H", ip[6:8])[0] & 0x3FFF
    elif kind == b"\x86\xdd":
        src, dst, proto, body, ported = ip[8:24], ip[24:40], ip[6], ip[40:], True
        if proto == 60:
            proto, body = body[0], body[(body[1] + 1) * 8:]
    else:
        return None
    ports = struct.unpack(">HH", body[:4]) if ported and proto in (6, 17) else (0, 0)
    return str(ipaddress.ip_address(src)), str(ipaddress.ip_address(dst)), proto, ports[0], ports[1]


def line(flow, count):
    return {**dict(zip(("source", "destination", "protocol", "source_port", "destination_port"), flow)), "packets": count}


def padded(flow):
    """The order of flows with equal counts: by the bytes of their addresses, ports, protocol."""
    src, dst = (pk.ip_bytes(a).ljust(16, b"\0") for a in flow[:2])
    return src + dst + struct.pack(">HHB", flow[3], flow[4], flow[2])


def counts(packets):
    found = collections.Counter(flow_of(frame) for _, frame in packets)
    return found, found.pop(None, 0)


def expected(packets):
    flows, others = counts(packets)
    order = sorted(flows, key=lambda f: (-flows[f], padded(f)))
    assert flows[order[TOP - 1]] > flows[order[TOP]] + 1, "the last one listed is not clear"
    total = sum(flows.values())
    # Four rows of 4096 counters and some 300 flows: that one of the twenty shares all its counters has odds of 1 to 1000.
    return {"report": {"packets": len(packets), "counters": {"not-ip": others, "table-busy": 0}, "dropped": 0, "errors": 0,
                       "observed": total, "error_at_most": math.ceil(2.719 * total / WIDTH), "busy": False,
                       "flows": [line(f, flows[f]) for f in order[:TOP]]}}


def rules(t):
    @t.rule("heavy-hitters: in far too few counters estimates are never below the truth, and hardly above the bound")
    def bound():
        flows, _ = counts(t.packets("heavy-hitters"))
        total = sum(flows.values())
        for width, depth in ((64, 5),):
            report, _ = t.replay("heavy-hitters", {"width": width, "depth": depth})
            t.equal((report["observed"], len(report["flows"])), (total, TOP))
            over = above = 0
            for found in report["flows"]:
                true = flows[tuple(found[k] for k in ("source", "destination", "protocol", "source_port", "destination_port"))]
                assert found["packets"] >= true > 0, "estimate %d, truth %d" % (found["packets"], true)
                over += found["packets"] > true + math.e * total / width
                above += found["packets"] > true
            t.equal((over <= 1, above > 5), (True, True), "over the bound %d, above the truth %d" % (over, above))

    @t.rule("heavy-hitters: with age the counts are halved, round by round")
    def aged():
        packets = t.packets("heavy-hitters")
        report, _ = t.replay("heavy-hitters", {"age": "100ms"})        # the capture is shorter; ten rounds follow it
        t.equal(packets[-1][0] < 100_000_000, True)
        flows, _ = counts(packets)
        want = max(flows.values())
        for _ in range(10):
            want -= want // 2
        t.equal(report["flows"][0]["packets"], want)

    @t.rule("heavy-hitters: a width that is no power of two, and too quick an age, are refused by name")
    def refused():
        t.refused("heavy-hitters", {"width": 1000}, "not a power of two")
        t.refused("heavy-hitters", {"age": "1us"}, "0, or 1ms and more")
