#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the captures of this folder, and says what a NIC must make of them.

    pcaps/make.py           writes them anew
    pcaps/make.py --check   writes nothing; 1 if one of them differs

Each capture is a list of (nanoseconds, frame); nothing in them is random from run to run. What is expected of the NIC
is worked out here from the description of the packets, not by anything that the NIC is made of.
"""

import os
import random
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


# ---- arp-nd-echo: for the NIC itself ------------------------------------------------------------------------------------

def arp_nd_echo():
    def arp(op, target, sender=PEER, dst="ff:ff:ff:ff:ff:ff"):
        return pk.ethernet(struct.pack(">HHBBH", 1, 0x0800, 6, 4, op) + pk.mac_bytes(PEER_MAC) + pk.ip_bytes(sender) + bytes(6) +
                           pk.ip_bytes(target), 0x0806, dst, PEER_MAC)

    def icmp6(body, src, dst, hops, mac):
        return frame(pk.ipv6(summed(src, dst, 58, body, 2), src, dst, 58, hops=hops), PEER_MAC, mac)

    def solicit(target, src=PEER6, dst=SOLICITED, mac=SOLICITED_MAC, hops=255, option=True):
        body = struct.pack(">BBHI", 135, 0, 0, 0) + pk.ip_bytes(target)
        if option:
            body += b"\x01\x01" + pk.mac_bytes(PEER_MAC)
        return icmp6(body, src, dst, hops, mac)

    def ping(ident, data, vlan=()):
        body = struct.pack(">BBHHH", 8, 0, 0, ident, 1) + data
        body = body[:2] + struct.pack(">H", pk.checksum(body)) + body[4:]
        return frame(pk.ipv4(body, PEER, NIC, 1), vlan=vlan)

    def ping6(ident, data):
        return icmp6(struct.pack(">BBHHH", 128, 0, 0, ident, 1) + data, PEER6, NIC6, 64, MAC)

    frames = [
        arp(1, NIC),                                        # 0 answered
        arp(1, "192.0.2.77"),                               # 1 somebody else's
        arp(1, NIC, sender="0.0.0.0"),                      # 2 a probe (RFC 5227): answered
        solicit(NIC6),                                      # 3 answered
        solicit("2001:db8::77", mac="33:33:ff:00:00:77", dst="ff02::1:ff00:77"),  # 4 somebody else's
        solicit(NIC6, dst=NIC6, mac=MAC, option=False),     # 5 unicast probe: answered
        solicit(NIC6, src="::", option=False),              # 6 duplicate address detection: answered to all nodes
        solicit(NIC6, hops=64),                             # 7 came by a router: not answered (RFC 4861, 7.1.1)
        ping(0x1234, b"ping" * 14),                         # 8 answered
        ping(0x1235, bytes(range(255))),                    # 9 answered, odd length
        ping6(0x4321, b"pong" * 14),                        # 10 answered
        ping6(0x4322, bytes(range(255))),                   # 11 answered, odd length
    ]
    return [(i * 1000000, f) for i, f in enumerate(frames)]


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


# ---- files --------------------------------------------------------------------------------------------------------------

def captures():
    asked, answers = udp_echo()
    return {
        "udp-flows.pcap": udp_flows(),
        "udp-echo.pcap": asked,
        "udp-echo-expected.pcap": answers,
        "arp-nd-echo.pcap": arp_nd_echo(),
        "sdr-lossy.pcap": sdr_lossy()[0],
    }


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__, file=sys.stderr)
        return 2
    status = 0
    for name, content in captures().items():
        path = os.path.join(HERE, name)
        if not check:
            pk.write_capture(path, content)
            continue
        with tempfile.NamedTemporaryFile() as new:
            pk.write_capture(new.name, content)
            with open(path, "rb") as old:
                if old.read() != new.read():
                    print(name, "differs", file=sys.stderr)
                    status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
