#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the captures of this folder, and what a NIC must make of them.

    pcaps/make.py           writes them anew
    pcaps/make.py --check   writes nothing; 1 if one of them differs

Each capture is a list of (nanoseconds, frame); nothing in them is random from run to run. What is expected of the NIC
(X-expected.pcap, .json, .bin beside X.pcap) is worked out here from the description of the packets, not by anything that
the NIC is made of.
"""

import json
import os
import random
import socket
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "tools"))
import packets as pk  # noqa: E402

NIC, NIC6, MAC = pk.SERVER, pk.SERVER6, pk.MAC
PEER, PEER6, PEER_MAC = pk.CLIENT, pk.CLIENT6, pk.PEER_MAC
SOLICITED, SOLICITED_MAC = "ff02::1:ff00:1", "33:33:ff:00:00:01"  # of 2001:db8::1


def summed(src, dst, proto, body, at):
    """body with its checksum over pseudo-header and body, at offset `at`; UDP writes 0 as 0xFFFF."""
    addresses = pk.ip_bytes(src) + pk.ip_bytes(dst)
    total = pk.checksum(addresses + struct.pack(">II", len(body), proto) + body[:at] + b"\0\0" + body[at + 2:])
    if proto == 17 and total == 0:
        total = 0xFFFF
    return body[:at] + struct.pack(">H", total) + body[at + 2:]


def is6(address):
    return ":" in address


def ip(body, src, dst, proto, **more):
    return pk.ipv6(body, src, dst, proto, **more) if is6(src) else pk.ipv4(body, src, dst, proto, **more)


def frame(packet, src=PEER_MAC, dst=MAC, vlan=(), pad=True):
    return pk.ethernet(packet, 0x86DD if packet[0] >> 4 == 6 else 0x0800, dst, src, vlan, pad)


def udp(payload, sport, dport, src, dst):
    return summed(src, dst, 17, pk.udp(payload, sport, dport), 6)


# ---- udp-flows: for `count` ---------------------------------------------------------------------------------------------

def udp_flows():
    rng = random.Random(1)

    def tcp(sport, dport, src, dst, payload=b""):
        header = struct.pack(">HHIIBBHHH", sport, dport, 1, 0, 5 << 4, 2, 8192, 0, 0)
        return frame(ip(summed(src, dst, 6, header + payload, 16), src, dst, 6))

    def plain(size, sport, dport, src=PEER, dst=NIC, **more):
        return frame(ip(udp(bytes(size), sport, dport, src, dst), src, dst, 17), **more)

    whole = udp(bytes(2000), 5000, 5001, PEER, NIC)
    whole6 = udp(bytes(2000), 5000, 5001, PEER6, NIC6)
    hop_by_hop = b"\x11\x00" + b"\x01\x04\0\0\0\0" + udp(b"behind options", 6000, 6001, PEER6, NIC6)

    segment = summed(PEER, NIC, 6, struct.pack(">HHIIBBHHH", 80, 8080, 1, 0, 5 << 4, 2, 8192, 0, 0) + bytes(1500), 16)
    segment6 = summed(PEER6, NIC6, 6, struct.pack(">HHIIBBHHH", 80, 8080, 1, 0, 5 << 4, 2, 8192, 0, 0) + bytes(1500), 16)

    def fragment6(offset, body, more, proto=17):
        return frame(pk.ipv6(struct.pack(">BBHI", proto, 0, offset | more, 77) + body, PEER6, NIC6, 44))

    arp = pk.ethernet(struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + pk.mac_bytes(PEER_MAC) + pk.ip_bytes(PEER) + bytes(6) +
                      pk.ip_bytes("192.0.2.77"), 0x0806, "ff:ff:ff:ff:ff:ff")
    llc = pk.mac_bytes("01:80:c2:00:00:00") + pk.mac_bytes(PEER_MAC) + struct.pack(">H", 38) + b"\x42\x42\x03" + bytes(35)
    kinds = [
        (9, lambda: plain(rng.randrange(0, 1400), 4000, 4001)),
        (7, lambda: plain(rng.randrange(0, 1400), 4001, 4000, NIC, PEER)),       # the way back is another flow
        (5, lambda: plain(rng.randrange(0, 1400), 4000, 4001, vlan=(7,))),       # a tag does not make another flow
        (5, lambda: plain(rng.randrange(0, 1400), 4000, 4002)),
        (6, lambda: plain(rng.randrange(0, 1400), 4000, 4001, PEER6, NIC6)),
        (3, lambda: plain(rng.randrange(0, 1400), 4000, 4001, PEER6, NIC6, vlan=((0x88A8, 3), 9))),
        (4, lambda: tcp(4000, 4001, PEER, NIC, bytes(rng.randrange(0, 500)))),   # the same ports, another protocol
        (3, lambda: tcp(443, 55555, NIC6, PEER6, bytes(rng.randrange(0, 500)))),
        (2, lambda: frame(pk.ipv4(whole[:1480], PEER, NIC, 17, fragment=0x2000, ident=5))),
        (2, lambda: frame(pk.ipv4(whole[1480:], PEER, NIC, 17, fragment=185, ident=5))),
        (2, lambda: fragment6(0, whole6[:1400], 1)),
        (2, lambda: fragment6(1400, whole6[1400:], 0)),
        (2, lambda: frame(pk.ipv4(segment[:1480], PEER, NIC, 6, fragment=0x2000, ident=6))),
        (2, lambda: frame(pk.ipv4(segment[1480:], PEER, NIC, 6, fragment=185, ident=6))),
        (2, lambda: fragment6(0, segment6[:1400], 1, 6)),
        (2, lambda: fragment6(1400, segment6[1400:], 0, 6)),
        (2, lambda: frame(pk.ipv6(hop_by_hop, PEER6, NIC6, 0))),
        (2, lambda: frame(ip(summed(PEER6, NIC6, 58, struct.pack(">BBHHH", 128, 0, 0, 1, 1), 2), PEER6, NIC6, 58))),
        (2, lambda: frame(pk.ipv4(b"GRE's place", PEER, NIC, 47))),
        (3, lambda: arp),
        (2, lambda: llc),
        (1, lambda: pk.ethernet(b"local experiment", 0x88B5)),
    ]
    order = [make for times, make in kinds for _ in range(times)]
    rng.shuffle(order)
    now, out = 0, []
    for make in order:
        out.append((now, make()))
        now += rng.randrange(1, 2000000)
    return out


def flow_of(frame):
    """(ethertype, source, destination, protocol, source port, destination port), by RFC and by hand."""
    at, kind = 14, struct.unpack_from(">H", frame, 12)[0]
    for _ in range(2):
        if kind not in (0x8100, 0x88A8):
            break
        kind = struct.unpack_from(">H", frame, at + 2)[0]
        at += 4
    if kind == 0x0800:
        end = at + struct.unpack_from(">H", frame, at + 2)[0]
        source, destination = (socket.inet_ntop(socket.AF_INET, frame[at + o:at + o + 4]) for o in (12, 16))
        protocol, part = frame[at + 9], struct.unpack_from(">H", frame, at + 6)[0] & 0x3FFF
        at += (frame[at] & 15) * 4
    elif kind == 0x86DD:
        end = at + 40 + struct.unpack_from(">H", frame, at + 4)[0]
        source, destination = (socket.inet_ntop(socket.AF_INET6, frame[at + o:at + o + 16]) for o in (8, 24))
        protocol, part = frame[at + 6], False
        at += 40
        while protocol in (0, 43, 60, 44) and not part:
            part = protocol == 44
            protocol, at = frame[at], at + (8 if part else (frame[at + 1] + 1) * 8)
    else:
        return (kind if kind >= 0x600 else 0, None, None, 0, 0, 0)
    ports = (0, 0)
    if protocol in (6, 17) and not part and end - at >= 4:
        ports = struct.unpack_from(">HH", frame, at)
    return (kind, source, destination, protocol) + ports


def flows_of(packets):
    """{flow: [packets, bytes, first, last]} of [(nanoseconds, frame)], times since the first packet."""
    flows, start = {}, None
    for stamp, frame in packets:
        start = stamp if start is None else start
        f = flows.setdefault(flow_of(frame), [0, 0, stamp - start, 0])
        f[0] += 1
        f[1] += len(frame)
        f[3] = stamp - start
    return flows


def flows_expected(packets):
    """Of `count`. Most packets first; flows of as many stand in the order of the handler's own key, its bytes in memory."""
    flows = flows_of(packets)

    def order(item):
        (kind, source, destination, protocol, sport, dport), counts = item
        ends = [pk.ip_bytes(a).ljust(16, b"\0") if a else bytes(16) for a in (source, destination)]
        return -counts[0], b"".join(ends) + struct.pack("<HHHB", kind, sport, dport, protocol)

    names = ("ethertype", "source", "destination", "protocol", "source_port", "destination_port", "packets", "bytes", "first_ns", "last_ns")
    total, size = len(packets), sum(len(f) for _, f in packets)
    return {
        "packets": total, "bytes": size, "taken": total, "forwarded": 0, "dropped": 0, "sent": 0,
        "contexts": {"flows": {
            "counters": {"opened": len(flows), "forgotten": 0, "untracked": 0},
            "totals": {"flows": len(flows), "packets": total, "bytes": size},
            "flows": [dict(zip(names, list(flow) + counts)) for flow, counts in sorted(flows.items(), key=order)][:100],
        }},
    }


# ---- udp-echo: for `reflect` --------------------------------------------------------------------------------------------

ECHO_DROPS = {"not-udp": 2, "roce": 1, "no-source-port": 1, "not-unicast": 4, "reflect-loop": 2, "ip-options": 2}


def udp_echo():
    """The capture, and the answers: built from what is to be answered, with the ends exchanged."""
    asked, answers = [], []
    now = 0

    def ask(question, answer=None):
        nonlocal now
        asked.append((now, question))
        if answer is not None:
            answers.append((now, answer))
        now += 12345

    def both(payload, sport=40000, dport=7, a=PEER, b=NIC, vlan=(), ttl=17, short=0, check=None, pad=True):
        """short: bytes that the IP packet has behind the datagram; check: the question's UDP checksum, if not the right one."""
        hops = {"hops": ttl} if is6(a) else {"ttl": ttl}
        fresh = {"hops": 64} if is6(a) else {"ttl": 64}
        tail = bytes(range(1, short + 1))
        question = udp(payload, sport, dport, a, b)
        answer = udp(payload, dport, sport, b, a)
        if check is not None:
            question = question[:6] + struct.pack(">H", check) + question[8:]
            if check == 0 and not is6(a):
                answer = answer[:6] + b"\0\0" + answer[8:]
        ask(frame(ip(question + tail, a, b, 17, **hops), PEER_MAC, MAC, vlan, pad),
            frame(ip(answer + tail, b, a, 17, **fresh), MAC, PEER_MAC, vlan, pad))

    both(b"hello")                                     # with Ethernet padding
    both(b"hello, with room", pad=False)
    both(b"odd length, so the checksum pads it"[:33])
    both(bytes(range(256)) * 5)
    both(b"")
    both(b"no checksum", check=0)
    both(b"a wrong checksum is mended", check=0x1234)
    both(b"tagged", vlan=(42,))
    both(b"tagged twice", vlan=((0x88A8, 3), 42))
    both(b"datagram shorter than the packet", short=9)
    both(b"last hop", ttl=1)
    both(b"IPv6", a=PEER6, b=NIC6)
    both(b"IPv6, odd", a=PEER6, b=NIC6)
    both(bytes(1400), a=PEER6, b=NIC6, vlan=(5,))
    both(b"IPv6 that lacks a checksum", a=PEER6, b=NIC6, check=0)
    both(b"IPv6, shorter than the packet", a=PEER6, b=NIC6, short=6)
    both(b"another port", dport=9999)
    # A payload whose checksum is 0, which UDP writes as 0xFFFF.
    for a, b in ((PEER, NIC), (PEER6, NIC6)):
        value = struct.unpack(">H", udp(b"\0\0", 40000, 7, a, b)[6:8])[0]
        both(struct.pack(">H", value), a=a, b=b)

    # What is not answered.
    ask(frame(pk.ipv4(b"GRE's place", PEER, NIC, 47)))
    ask(frame(pk.ipv4(udp(b"part", 40000, 7, PEER, NIC), PEER, NIC, 17, fragment=0x2000)))
    ask(pk.roce(0x2B, 0x77, pk.reth(0, 1, 4) + pk.immdt(0), b"RoCE"))
    ask(frame(ip(udp(b"from nowhere", 0, 7, PEER, NIC), PEER, NIC, 17)))
    ask(frame(ip(udp(b"to a group", 40000, 7, PEER, "224.0.0.251"), PEER, "224.0.0.251", 17), dst="01:00:5e:00:00:fb"))
    ask(frame(ip(udp(b"broadcast", 40000, 7, PEER, "255.255.255.255"), PEER, "255.255.255.255", 17), dst="ff:ff:ff:ff:ff:ff"))
    ask(frame(ip(udp(b"from a group", 40000, 7, "239.1.1.1", NIC), "239.1.1.1", NIC, 17)))
    ask(frame(ip(udp(b"from nobody", 40000, 7, "::", NIC6), "::", NIC6, 17)))
    ask(frame(ip(udp(b"echo to echo", 7, 7, PEER, NIC), PEER, NIC, 17)))
    ask(frame(ip(udp(b"to itself", 40000, 7, NIC, NIC), NIC, NIC, 17)))
    route = b"\x83\x07\x04" + pk.ip_bytes("192.0.2.99") + b"\0"  # loose source route
    ask(frame(pk.ipv4(udp(b"routed", 40000, 7, PEER, NIC), PEER, NIC, 17, ihl=7, options=route)))
    options = b"\x11\x00" + b"\x01\x04\0\0\0\0"
    ask(frame(pk.ipv6(options + udp(b"options", 40000, 7, PEER6, NIC6), PEER6, NIC6, 60)))
    both(b"and still there")
    return asked, answers


def echo_expected():
    asked, answers = udp_echo()
    dropped = sum(ECHO_DROPS.values())
    assert dropped == len(asked) - len(answers)
    return {
        "packets": len(asked), "bytes": sum(len(f) for _, f in asked), "taken": len(answers), "answered": 0, "forwarded": 0,
        "sent": len(answers), "sent_bytes": sum(len(f) for _, f in answers), "dropped": dropped, "drops": ECHO_DROPS,
        "contexts": {"echo": {"dropped": dropped, "errors": 0, "counters": {"echoed": len(answers)}}},
    }


# ---- arp-nd-echo: for the NIC itself ------------------------------------------------------------------------------------

def arp_nd_echo():
    """The capture, and the NIC's answers."""
    asked, answers = [], []

    def ask(question, answer=None):
        now = len(asked) * 1000000
        asked.append((now, question))
        if answer is not None:
            answers.append((now, answer))

    def arp(op, sender_mac, sender, target_mac, target, dst, src):
        return pk.ethernet(struct.pack(">HHBBH", 1, 0x0800, 6, 4, op) + pk.mac_bytes(sender_mac) + pk.ip_bytes(sender) +
                           pk.mac_bytes(target_mac) + pk.ip_bytes(target), 0x0806, dst, src)

    def who_has(target, sender=PEER, answered=True):
        ask(arp(1, PEER_MAC, sender, "00:00:00:00:00:00", target, "ff:ff:ff:ff:ff:ff", PEER_MAC),
            arp(2, MAC, NIC, PEER_MAC, sender, PEER_MAC, MAC) if answered else None)

    def icmp6(body, src, dst, hops, dst_mac, src_mac=PEER_MAC):
        return frame(pk.ipv6(summed(src, dst, 58, body, 2), src, dst, 58, hops=hops), src_mac, dst_mac)

    def solicit(target, src=PEER6, dst=SOLICITED, mac=SOLICITED_MAC, hops=255, option=True, answered=True):
        body = struct.pack(">BBHI", 135, 0, 0, 0) + pk.ip_bytes(target)
        if option:
            body += b"\x01\x01" + pk.mac_bytes(PEER_MAC)
        asker_known = src != "::"  # else the answer goes to all nodes, and is not called solicited (RFC 4861, 7.2.4)
        answer = struct.pack(">BBHI", 136, 0, 0, (asker_known << 30) | 1 << 29) + pk.ip_bytes(target) + b"\x02\x01" + pk.mac_bytes(MAC)
        ask(icmp6(body, src, dst, hops, mac),
            icmp6(answer, target, src if asker_known else "ff02::1", 255, PEER_MAC if asker_known else "33:33:00:00:00:01", MAC)
            if answered else None)

    def ping(ident, data):
        def body(kind):
            b = struct.pack(">BBHHH", kind, 0, 0, ident, 1) + data
            return b[:2] + struct.pack(">H", pk.checksum(b)) + b[4:]
        ask(frame(pk.ipv4(body(8), PEER, NIC, 1)), frame(pk.ipv4(body(0), NIC, PEER, 1), MAC, PEER_MAC))

    def ping6(ident, data):
        def body(kind):
            return struct.pack(">BBHHH", kind, 0, 0, ident, 1) + data
        ask(icmp6(body(128), PEER6, NIC6, 64, MAC), icmp6(body(129), NIC6, PEER6, 64, PEER_MAC, MAC))

    who_has(NIC)
    who_has("192.0.2.77", answered=False)               # somebody else's
    who_has(NIC, sender="0.0.0.0")                      # a probe (RFC 5227)
    solicit(NIC6)
    solicit("2001:db8::77", mac="33:33:ff:00:00:77", dst="ff02::1:ff00:77", answered=False)  # somebody else's
    solicit(NIC6, dst=NIC6, mac=MAC, option=False)      # unicast
    solicit(NIC6, src="::", option=False)               # duplicate address detection
    solicit(NIC6, hops=64, answered=False)              # came by a router (RFC 4861, 7.1.1)
    ping(0x1234, b"ping" * 14)
    ping(0x1235, bytes(range(255)))                     # odd length
    ping6(0x4321, b"pong" * 14)
    ping6(0x4322, bytes(range(255)))                    # odd length
    return asked, answers


def arp_nd_echo_expected():
    asked, answers = arp_nd_echo()
    return {
        "packets": len(asked), "answered": len(answers), "sent": len(answers), "sent_bytes": sum(len(f) for _, f in answers),
        "dropped": len(asked) - len(answers), "drops": {"no-match": len(asked) - len(answers)},
        "contexts": {"echo": {"packets": 0, "sent": 0}},
    }


# ---- sdr-lossy: for `sdr` -----------------------------------------------------------------------------------------------

SDR = dict(qp=0x100, rkey=0x1234, mtu=256, chunk=1024, size=8192, slots=4, generations=4, channels=2)


def sdr_packet(message, offset, length, user=0):
    """Packet `offset` of a message of `length` bytes, as handlers/wire/sdr.h says in prose."""
    s = SDR
    slot, generation = message % s["slots"], message // s["slots"] % s["generations"]
    mtu = s["mtu"]
    data = sdr_data(message, length)[offset * mtu:(offset + 1) * mtu]
    last = (offset + 1) * mtu >= length
    immediate = slot << 22 | offset << 4 | user >> offset % 8 * 4 & 15
    qp = s["qp"] + generation * s["channels"] + offset % s["channels"]
    va = slot * s["size"] + offset * mtu
    return pk.roce(0x2B, qp, pk.reth(va, s["rkey"], len(data)) + pk.immdt(immediate), data, se=last,
                   psn=offset)


def sdr_data(message, length):
    return random.Random(1000 + message).randbytes(length)


SDR_USER = 0xCAFE0042


def sdr_lossy():
    """The capture, and what is expected: per message its length, the packets that arrive, and how often they are not news."""
    rng = random.Random(3)
    size, mtu = SDR["size"], SDR["mtu"]
    every = list(range(size // mtu))
    plan = [
        dict(sent=every),                                                  # 0 whole
        dict(sent=[p for p in every if p % 10 != 4], late=[4, 14, 24]),    # 1 three are late: they come amid message 5
        dict(sent=rng.sample(every, len(every))),                          # 2 in any order
        dict(sent=[p for p in every if p % 7 != 3], repeats=[0, 5, 20], late=[3, 10]),  # 3 also repeated, and late after message 7
        dict(length=5000),                                                 # 4 a short last packet, in a short last chunk
        dict(sent=every[9:]),                                              # 5 in slot 1 again: the beginning never comes
        dict(length=0),                                                    # 6 no bytes: one packet
        dict(length=1),                                                    # 7 one byte
    ]
    for m in plan:
        m["length"] = m.get("length", size)
        m.setdefault("sent", list(range(max(1, -(-m["length"] // mtu)))))
    out, now = [], 0

    def put(message, p):
        nonlocal now
        out.append((now, sdr_packet(message, p, plan[message]["length"], user=SDR_USER)))
        now += rng.randrange(80, 400)

    for message, m in enumerate(plan):
        for p in m["sent"]:
            put(message, p)
            if p in m.get("repeats", ()):
                put(message, p)
            if message == 5 and p == 20:
                for late in plan[1]["late"]:
                    put(1, late)
        for p in m.get("repeats", ()):
            put(message, p)
    for late in plan[3]["late"]:
        put(3, late)
    return out, [dict(length=m["length"], packets=set(m["sent"]), duplicates=2 * len(m.get("repeats", ())),
                      late=len(m.get("late", ()))) for m in plan]


def sdr_expected():
    """What `spindle replay --post sdr=8 --json` must say of the messages, and the buffer that --dump must write."""
    mtu, chunk, size = SDR["mtu"], SDR["chunk"], SDR["size"]
    messages, memory = [], b""
    for number, e in enumerate(sdr_lossy()[1]):
        last = max(0, -(-e["length"] // mtu) - 1)
        known = last in e["packets"]                        # without its end a message is as long as was posted
        length = e["length"] if known else size
        packets = max(1, -(-length // mtu))
        per = chunk // mtu
        bitmap = "".join("1" if all(p in e["packets"] for p in range(first, min(first + per, packets))) else "0"
                         for first in range(0, packets, per))
        fragments = {p % 8 for p in e["packets"]}
        messages.append(dict(id=number % SDR["slots"], generation=number // SDR["slots"] % SDR["generations"], packets=len(e["packets"]),
                             duplicates=e["duplicates"], late=e["late"], chunk_bitmap=bitmap, complete="0" not in bitmap,
                             immediate=SDR_USER if len(fragments) == 8 else None))
        data = sdr_data(number, e["length"])
        memory += b"".join(data[p * mtu:(p + 1) * mtu].ljust(mtu, b"\0") if p in e["packets"] else bytes(mtu)
                           for p in range(size // mtu))
    return messages, memory


def sdr_report():
    """The whole of what --expect-json compares."""
    out, plan = sdr_lossy()
    messages = sdr_expected()[0]
    late, duplicates = sum(m["late"] for m in plan), sum(m["duplicates"] for m in plan)
    placed = sum(m["packets"] for m in messages)
    assert placed + duplicates + late == len(out)
    return {
        "packets": len(out), "taken": len(out) - late, "forwarded": 0, "dropped": late, "drops": {"late": late}, "sent": 0,
        "contexts": {"sdr": {
            "counters": {"placed_packets": placed, "duplicates": duplicates, "late_packets": late,
                         "chunks": sum(m["chunk_bitmap"].count("1") for m in messages),
                         "messages_complete": sum(m["complete"] for m in messages)},
            "posted": len(messages),
            "messages": messages,
        }},
    }


# ---- ec-lossy: for `ec` beside `sdr` -------------------------------------------------------------------------------------

EC_K, EC_M = 4, 2


def ec_times(a, b):
    """In GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return product


def ec_parity(data):
    """The parity message of a message, as handlers/wire/ec.h and handlers/ec/matrix.h say in prose."""
    size = SDR["chunk"]
    chunks = [data[at:at + size].ljust(size, b"\0") for at in range(0, len(data), size)]
    out = []
    for first in range(0, len(chunks), EC_K):
        sub = chunks[first:first + EC_K]
        for i in range(-(-len(sub) * EC_M // EC_K)):
            row = bytearray(size)
            for j, chunk in enumerate(sub):
                element = next(x for x in range(256) if ec_times(x, 255 - i ^ j) == 1)
                table = bytes(ec_times(element, x) for x in range(256))
                row = bytearray(a ^ b for a, b in zip(row, chunk.translate(table)))
            out.append(bytes(row))
    return b"".join(out)


def ec_immediate(length):
    return (1 + (EC_K << 8 | EC_M)) * 0x9E3779B97F4A7C15 >> 32 & 0xFFFFFFFF ^ length


# Per pair: bytes, chunks of data of which all packets are lost, single packets that are, the same of parity, and what can
# be repaired of it. In the last pair parity comes first, and of data the end first: the rest is late.
EC_PLAN = [
    dict(length=8192, lost=[1, 3], packets=[18], repaired=[1, 3, 4]),
    dict(length=5000, lost=[2], packets=[17], repaired=[2, 4]),               # a short submessage with a short chunk
    dict(length=8192, lost=[0, 1, 2, 6], parity=[3], repaired=[6]),           # more than m in one, and some parity of the other
    dict(length=4096, first=True, repaired=[0, 1], late=8),
]


def ec_sent(pair, parity):
    """The packets of a message that arrive, in their order."""
    plan = EC_PLAN[pair]
    mtu, per = SDR["mtu"], SDR["chunk"] // SDR["mtu"]
    length = len(ec_parity(sdr_data(2 * pair, plan["length"]))) if parity else plan["length"]
    lost = plan.get("parity", []) if parity else plan.get("lost", [])
    sent = [p for p in range(-(-length // mtu)) if p // per not in lost and (parity or p not in plan.get("packets", []))]
    return sent[::-1] if plan.get("first") and not parity else sent


def ec_packet(message, p):
    pair, s = message // 2, SDR
    data = sdr_data(message & ~1, EC_PLAN[pair]["length"])
    user = ec_immediate(len(data)) if message & 1 else SDR_USER
    data = ec_parity(data) if message & 1 else data
    slot, generation = message % s["slots"], message // s["slots"] % s["generations"]
    piece = data[p * s["mtu"]:(p + 1) * s["mtu"]]
    return pk.roce(0x2B, s["qp"] + generation * s["channels"] + p % s["channels"],
                   pk.reth(slot * s["size"] + p * s["mtu"], s["rkey"], len(piece)) +
                   pk.immdt(slot << 22 | p << 4 | user >> p % 8 * 4 & 15),
                   piece, se=(p + 1) * s["mtu"] >= len(data), psn=p)


def ec_lossy():
    out = []
    for pair, plan in enumerate(EC_PLAN):
        for message in (2 * pair + 1, 2 * pair) if plan.get("first") else (2 * pair, 2 * pair + 1):
            out += [ec_packet(message, p) for p in ec_sent(pair, message & 1)]
    return [(200 * i, frame) for i, frame in enumerate(out)]


def ec_expected():
    """What the report must say, and the buffer."""
    mtu, chunk, size, per = SDR["mtu"], SDR["chunk"], SDR["size"], SDR["chunk"] // SDR["mtu"]
    messages, memory, parities = [], b"", 0
    for pair, plan in enumerate(EC_PLAN):
        for parity in (0, 1):
            data = sdr_data(2 * pair, plan["length"])
            data = ec_parity(data) if parity else data
            sent, repaired = ec_sent(pair, parity), [] if parity else plan["repaired"]
            late = 0 if parity else plan.get("late", 0)
            came = set(sent[:len(sent) - late])
            parities += parity and len(sent)
            length = len(data) if -(-len(data) // mtu) - 1 in came else size  # without its end, as was posted
            packets = -(-length // mtu)
            bitmap = "".join("1" if c in repaired or all(p in came for p in range(c * per, min(c * per + per, packets)))
                             else "0" for c in range(-(-length // chunk)))
            messages.append(dict(length=length, packets=len(came), duplicates=late, late=0, chunk_bitmap=bitmap,
                                 complete="0" not in bitmap))
            memory += b"".join(data[p * mtu:(p + 1) * mtu].ljust(mtu, b"\0") if p in came or p // per in repaired
                               else bytes(mtu) for p in range(size // mtu))
    return {
        "packets": len(ec_lossy()), "taken": len(ec_lossy()), "dropped": 0,
        "contexts": {"sdr": {
            "counters": {"placed_packets": sum(m["packets"] for m in messages),
                         "duplicates": sum(m["duplicates"] for m in messages),
                         "chunks": sum(m["chunk_bitmap"].count("1") for m in messages),
                         "messages_complete": sum(m["complete"] for m in messages)},
            "messages": messages,
            "companion": {
                "counters": {"repaired_chunks": sum(len(plan["repaired"]) for plan in EC_PLAN), "submessages_decoded": 6,
                             "mismatches": 0, "parity_packets": parities, "late_data_packets": EC_PLAN[-1]["late"]},
                "code": "mds", "k": EC_K, "m": EC_M,
            },
        }},
    }, memory


# ---- rvma: for `rvma` ---------------------------------------------------------------------------------------------------

RVMA = dict(steered=0x200, managed=0x210, mtu=256, size=2048, buffers=8, key=0xFEDCBA9876543210)
LOW, HIGH = 0x11FF0011, 0x11FF0031  # the paper's example (section III-B): 32 bytes apart, and nothing to do with each other


def rvma_data(n, length):
    return random.Random(2000 + n).randbytes(length)


def rvma_plan():
    """The capture: (context, transfer, mailbox, key, offset, length, packet, changes of the packet), in order of arrival. Transfers
    are numbered in blocks of 64 packets, of which none here has more than one."""
    rng = random.Random(7)
    key, out, number = RVMA["key"], [], {"rvma": 0, "append": 0}

    def put(context, length, offset, mailbox, wrong_key=0):
        """All packets of a put, to be put in some order."""
        n = number[context]
        number[context] += 1
        return [(context, n, mailbox, key ^ wrong_key, offset, length, i, {}) for i in range(max(1, -(-length // RVMA["mtu"])))]

    # steered, 1024 bytes complete a buffer
    reverse = put("rvma", 1024, 0, LOW)
    out += reverse[::-1]                                      # epoch 0: in reverse order
    out += put("rvma", 32, 0, LOW) + put("rvma", 32, 0, HIGH)  # two mailboxes are never adjacent memory: the second is refused
    out += put("rvma", 32, 32, LOW) + put("rvma", 959, 64, LOW)
    out += reverse                                            # all of it again: no effect, though the head is another one
    out += put("rvma", 0, 5, LOW)                             # no bytes: a put all the same
    out += put("rvma", 1, 1023, LOW)                          # epoch 1, by the last byte
    out += put("rvma", 3000, 0, LOW)                          # larger than the buffer: refused, whole
    out += put("rvma", 100, 1949, LOW)                        # ... and by one byte
    out += put("rvma", 100, (1 << 64) - 50, LOW)              # the offset overflows
    out += put("rvma", 300, 0, LOW, wrong_key=1 << 63)
    across = put("rvma", 600, 1400, LOW)
    out += across[2:]                                         # open in the third buffer, its end first
    out += rng.sample(put("rvma", 1024, 0, LOW), 4)           # which is complete now, but not handed over
    out += put("rvma", 1100, 0, LOW)                          # the fourth buffer is, too: it waits for its turn
    out += across[:2]                                         # epochs 2 and 3
    out += across
    out += put("rvma", 500, 0, LOW)[:1]                       # never whole: stays open in the fifth
    broken = put("rvma", 256, 600, LOW)
    out += [broken[0][:7] + (dict(short=1),), broken[0][:7] + (dict(version=2),)] + broken
    # managed, 3 puts complete a buffer; also for all mailboxes that are not there
    several = [put("append", length, pk.RVMA_APPEND, mailbox) for length, mailbox in
               ((700, HIGH), (300, 5), (0, LOW), (513, (1 << 64) - 1), (1, HIGH), (256, HIGH), (900, 77), (40, 1), (1200, HIGH))]
    order = [packet for packets in several[:6] for packet in packets]
    out += sorted(order, key=lambda packet: (packet[6], rng.random()))  # all their first packets, then all their second ones
    out += several[6] + several[7]
    out += put("append", 10, 0, HIGH)                         # with an offset: refused
    out += several[8]                                         # does not fit behind the others: refused
    out += several[6] + put("append", 7, pk.RVMA_APPEND, HIGH)
    return out


def rvma_capture():
    frames = []
    for n, (context, transfer, mailbox, key, offset, length, packet, changes) in enumerate(rvma_plan()):
        qp = RVMA["steered"] if context == "rvma" else RVMA["managed"]
        data = rvma_data(transfer + (1000 if context == "append" else 0), length)
        part = data[packet * RVMA["mtu"]:(packet + 1) * RVMA["mtu"]]
        part = part[:len(part) - changes.get("short", 0)]
        frames.append((n * 700, pk.rvma_put(qp, transfer, packet, length, mailbox, key, offset, part, psn=n,
                                            head=dict(version=changes.get("version", 1)))))
    return frames


def rvma_receive(context, managed, threshold, own):
    """What becomes of the plan's packets in a context: report, memory. Rule by rule, as docs/rvma.md says them."""
    size, mtu = RVMA["size"], RVMA["mtu"]
    memory, refused, drops = bytearray(size * RVMA["buffers"]), {}, {}
    buffers = [dict(at=k * size, bytes=0, puts=0, tail=0, open=0, mailbox=own) for k in range(RVMA["buffers"])]
    head, notified, seen, counts = 0, 0, {}, dict(placed=0, bytes=0, duplicates=0, keys=0, caught=0, puts=0)

    def drop(reason):
        drops[reason] = drops.get(reason, 0) + 1

    def begin(mailbox, key, offset, length):
        """The put's place, or why it is refused."""
        if mailbox != own and not managed:
            return "no_mailbox"
        if key != RVMA["key"]:
            counts["keys"] += 1
            return "bad_key"
        if managed and offset != pk.RVMA_APPEND:
            return "wrong_mode"
        if not managed and offset + length >= 1 << 64:
            return "bad_range"
        at = buffers[head]["tail"] if managed else offset
        if at + length > size:
            return "too_large"
        counts["caught"] += mailbox != own
        return at

    for who, transfer, mailbox, key, offset, length, packet, changes in rvma_plan():
        if who != context:
            continue
        if changes:
            drop("bad-length" if "short" in changes else "bad-version")
            continue
        if transfer not in seen:
            place = begin(mailbox, key, offset, length)
            if isinstance(place, str):
                refused[place] = refused.get(place, 0) + 1
                seen[transfer] = None
            else:
                buffer = buffers[head]
                buffer["tail"] += length
                buffer["open"] += 1
                seen[transfer] = dict(buffer=buffer, at=place, got=set())
        put = seen[transfer]
        if put is None:
            drop("refused")
            continue
        if packet in put["got"]:
            drop("duplicate")
            continue
        put["got"].add(packet)
        data = rvma_data(transfer + (1000 if context == "append" else 0), length)[packet * mtu:(packet + 1) * mtu]
        buffer = put["buffer"]
        at = buffer["at"] + put["at"] + packet * mtu
        memory[at:at + len(data)] = data
        buffer["bytes"] += len(data)
        counts["placed"] += 1
        counts["bytes"] += len(data)
        whole = len(put["got"]) == max(1, -(-length // mtu))
        if whole:
            buffer["puts"] += 1
            buffer["open"] -= 1
            buffer["mailbox"] = mailbox
            counts["puts"] += 1
        if buffer is buffers[head] and (buffer["puts"] if managed else buffer["bytes"]) >= threshold:
            head += 1
        while notified < head and not buffers[notified]["open"]:
            notified += 1
    window = dict(
        mailbox=own, mode="managed" if managed else "steered", counts="ops" if managed else "bytes", threshold=threshold,
        epoch=notified, posted=RVMA["buffers"] - head, retiring=head - notified, held=notified, closed=False,
        open=sum(b["open"] for b in buffers), puts=counts["puts"], bytes=counts["bytes"],
        refused=sum(refused.values()) - refused.get("no_mailbox", 0),
        completed=[dict(epoch=k, length=b["tail"] if managed else b["bytes"], puts=b["puts"], mailbox=b["mailbox"], partial=False,
                        lost=False) for k, b in enumerate(buffers[:notified])])
    report = dict(
        counters=dict(puts=counts["puts"], placed_bytes=counts["bytes"], placed_packets=counts["placed"], epochs=notified,
                      duplicates=drops.get("duplicate", 0), bad_keys=counts["keys"], refusals=sum(refused.values()),
                      caught=counts["caught"]),
        windows=[window], refused=refused)
    return report, bytes(memory), drops


def rvma_expected():
    """The report, and the buffers of each context."""
    steered = rvma_receive("rvma", False, 1024, LOW)
    managed = rvma_receive("append", True, 3, HIGH)
    drops = {name: steered[2].get(name, 0) + managed[2].get(name, 0) for name in {**steered[2], **managed[2]}}
    total, dropped = len(rvma_plan()), sum(drops.values())
    return {"packets": total, "taken": total - dropped, "forwarded": 0, "dropped": dropped, "drops": dict(sorted(drops.items())),
            "sent": 0, "contexts": {"rvma": steered[0], "append": managed[0]}}, steered[1], managed[1]


# ---- mixed: several handlers at once ------------------------------------------------------------------------------------

def mixed():
    """Of the captures above: datagrams to echo, SDR messages, ARP and ping, TCP to count, a nanosecond apart where they meet."""
    def shifted(packets, by):
        return [(now + by, f) for now, f in packets]

    asked, answers = udp_echo()
    local, replies = arp_nd_echo()
    flows = [(now, f) for now, f in udp_flows() if flow_of(f)[3] in (6, 47) and f[12:14] == b"\x08\0"]
    whole = asked[:MIXED]                               # the first ones, which are all answered
    parts = [shifted(whole, 1), shifted(answers[:MIXED], 1), sdr_lossy()[0], shifted(local, 2), shifted(replies, 2), shifted(flows, 3)]
    received = sorted(parts[0] + parts[2] + parts[3] + parts[5], key=lambda p: p[0])
    return received, sorted(parts[1] + parts[4], key=lambda p: p[0]), flows


MIXED = 19


def mixed_expected():
    received, sent, flows = mixed()
    sdr = sdr_report()
    local = arp_nd_echo_expected()
    counted = flows_expected(flows)["contexts"]["flows"]
    for f in counted["flows"]:                          # since the first packet of all
        f["first_ns"] += flows[0][0] + 3
        f["last_ns"] += flows[0][0] + 3
    return {
        "packets": len(received), "answered": local["answered"], "sent": len(sent), "sent_bytes": sum(len(f) for _, f in sent),
        "dropped": sdr["dropped"] + local["dropped"], "drops": dict(sdr["drops"], **local["drops"]),
        "contexts": {"flows": counted, "echo": {"counters": {"echoed": MIXED}, "dropped": 0}, "sdr": sdr["contexts"]["sdr"]},
    }


# ---- captures of other stacks -------------------------------------------------------------------------------------------

def soft_roce():
    """The directory of captures of Linux Soft-RoCE, which are not part of the project, or None."""
    folder = os.environ.get("SPINDLE_SHARED_PCAPS") or os.path.join(HERE, "..", "..", "shared", "pcaps")
    return folder if os.path.isdir(folder) else None


def soft_roce_captures():
    folder = soft_roce()
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pcap")) if folder else []


# ---- files --------------------------------------------------------------------------------------------------------------

def captures():
    asked, answers = udp_echo()
    local, replies = arp_nd_echo()
    return {
        "udp-flows.pcap": udp_flows(),
        "udp-echo.pcap": asked,
        "udp-echo-expected.pcap": answers,
        "arp-nd-echo.pcap": local,
        "arp-nd-echo-expected.pcap": replies,
        "sdr-lossy.pcap": sdr_lossy()[0],
        "ec-lossy.pcap": ec_lossy(),
        "rvma.pcap": rvma_capture(),
        "mixed.pcap": mixed()[0],
        "mixed-expected.pcap": mixed()[1],
    }


def files():
    """name -> bytes of all that this folder holds by this script."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in captures().items():
            with open(pk.write_capture(os.path.join(folder, name), content), "rb") as f:
                out[name] = f.read()
    reports = {"udp-flows": flows_expected(udp_flows()), "udp-echo": echo_expected(), "arp-nd-echo": arp_nd_echo_expected(),
               "sdr-lossy": sdr_report(), "ec-lossy": ec_expected()[0], "rvma": rvma_expected()[0], "mixed": mixed_expected()}
    for capture in soft_roce_captures():
        reports[os.path.join("soft-roce", os.path.basename(capture)[:-5])] = flows_expected(pk.read_capture(capture))
    for name, report in reports.items():
        out[name + "-expected.json"] = (json.dumps(report, indent=2) + "\n").encode()
    out["sdr-lossy-expected.bin"] = sdr_expected()[1]
    out["ec-lossy-expected.bin"] = ec_expected()[1]
    out["rvma-expected.bin"], out["rvma-append-expected.bin"] = rvma_expected()[1:]
    return out


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__, file=sys.stderr)
        return 2
    status = 0
    for name, content in files().items():
        path = os.path.join(HERE, name)
        if not check:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(content)
            continue
        with open(path, "rb") as old:
            if old.read() != content:
                print(name, "differs", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
