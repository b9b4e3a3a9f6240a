# SPDX-License-Identifier: BSD-3-Clause
"""What the examples' captures have in common: building datagrams and SLMP messages, and reading them back.

Reading is by frame bytes alone: an expectation is worked out from what is on the wire, not from how it was made.

The messages are those of SLMP, the Simple Large Message Protocol of FPsPIN. Behind the UDP header stand twelve bytes,
big endian: flags (16 bits; bit 0: the message's last packet), the sender's use (16 bits, 0), message number (32 bits),
offset of the packet's payload in the message (32 bits, bytes). A message is what one address and port sends under one
number.
"""

import collections
import importlib.util
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PCAPS = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(PCAPS, "..", "tests", "tools"))
import packets as pk  # noqa: E402


def load(name, path):
    """A Python file as a module of that name: several here are called make.py."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


base = load("captures", os.path.join(PCAPS, "make.py"))

NIC, NIC6, MAC = pk.SERVER, pk.SERVER6, pk.MAC
LAST, SLMP = 1, 12
US = 1000  # nanoseconds


def peer(n):
    """Address of the n-th sender, from 0; every third speaks IPv6."""
    return "2001:db8::%x" % (16 + n) if n % 3 == 2 else "192.0.2.%d" % (16 + n)


def peer_mac(address):
    return "02:00:00:00:01:%02x" % pk.ip_bytes(address)[-1]


def datagram(payload, src, sport, dport, dst=None, checksum=True, **more):
    """The frame of a UDP datagram to the NIC. more: arguments of packets.ipv4() or packets.ipv6()."""
    dst = dst or (NIC6 if base.is6(src) else NIC)
    body = base.udp(payload, sport, dport, src, dst) if checksum else pk.udp(payload, sport, dport)
    return base.frame(base.ip(body, src, dst, 17, **more), peer_mac(src), MAC)


def slmp(message, offset, payload, last=False, flags=0, user=0):
    return struct.pack(">HHII", flags | (LAST if last else 0), user, message, offset) + payload


def message(number, data, mtu, user=0):
    """The SLMP packets of a message, in order: headers and payload."""
    return [slmp(number, at, data[at:at + mtu], last=at + mtu >= len(data), user=user)
            for at in range(0, max(1, len(data)), mtu)]


def spaced(frames, rng, least=1 * US, most=20 * US):
    """[(nanoseconds, frame)]: frames one after the other."""
    now, out = 0, []
    for frame in frames:
        out.append((now, frame))
        now += rng.randrange(least, most)
    return out


# ---- reading -------------------------------------------------------------------------------------------------------------

Datagram = collections.namedtuple("Datagram", "src dst sport dport payload")
Slmp = collections.namedtuple("Slmp", "source last user message offset payload")  # source: address and port


def read_datagram(frame):
    """What UDP says, or None: addresses as bytes. VLAN tags and whole IPv4 options are stepped over, fragments are not UDP."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, ip = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x00":
        if ip[9] != 17 or struct.unpack(">H", ip[6:8])[0] & 0x3FFF:
            return None
        src, dst, udp = ip[12:16], ip[16:20], ip[(ip[0] & 15) * 4:struct.unpack(">H", ip[2:4])[0]]
    elif kind == b"\x86\xdd":
        if ip[6] != 17:
            return None
        src, dst, udp = ip[8:24], ip[24:40], ip[40:40 + struct.unpack(">H", ip[4:6])[0]]
    else:
        return None
    sport, dport, length = struct.unpack(">HHH", udp[:6])
    return Datagram(src, dst, sport, dport, udp[8:length])


def read_slmp(frame):
    """The SLMP packet in a frame; None: it is none, or is too short for its header."""
    d = read_datagram(frame)
    if d is None or len(d.payload) < SLMP:
        return None
    flags, user, number, offset = struct.unpack(">HHII", d.payload[:SLMP])
    return Slmp((d.src, d.sport), bool(flags & LAST), user, number, offset, d.payload[SLMP:])


# ---- messages that come in any order, some packets twice, some never ----------------------------------------------------

SEGMENTS = 64


class Reassembly:
    """What ping-pong, aggregate and host-copy have to know of SLMP messages, by sets and dictionaries: packet() for one after the
    other, end() after the last. A whole message stays known until it has been idle, unless the caller forgets it."""

    def __init__(self, segment, idle):
        self.segment, self.idle, self.known = segment, idle, {}
        self.drops, self.given_up = collections.Counter(), 0

    def expire(self, now):
        for key in [k for k, m in self.known.items() if now - m["seen"] > self.idle]:
            self.given_up += not self.known.pop(key)["whole"]

    def end(self):
        self.expire(float("inf"))

    def packet(self, now, frame):
        """The message that this packet makes whole: {"key", "got": {index: (packet, frame)}}; else None."""
        self.expire(now)
        s = read_slmp(frame)
        if s is None:
            self.drops["malformed"] += 1
            return None
        key = s.source, s.message
        m = self.known.setdefault(key, {"key": key, "got": {}, "last": -1, "whole": False})
        m["seen"] = now
        index, odd = divmod(s.offset, self.segment)
        if odd or index >= SEGMENTS or len(s.payload) > self.segment or len(s.payload) < self.segment and not s.last:
            self.drops["malformed"] += 1
        elif index in m["got"]:
            self.drops["repeated"] += 1
        else:
            m["got"][index] = s, frame
            if s.last:
                m["last"] = max(m["last"], index)
            if m["last"] >= 0 and not m["whole"] and set(m["got"]) == set(range(m["last"] + 1)):
                m["whole"] = True
                return m
        return None


def shuffled(rng, lists, window=6, repeats=0.08):
    """Lists of frames, each in disorder and in part twice, mixed as their senders would send them: at the same time."""
    queues = []
    for frames in lists:
        order = sorted(range(len(frames)), key=lambda i: i + rng.random() * window)
        queues.append([frames[i] for i in order for _ in range(1 + (rng.random() < repeats))])
    out = []
    while queues:
        q = rng.choice(queues)
        out.append(q.pop(0))
        queues = [q for q in queues if q]
    return out


def ends(packets, drops, forwarded=0):
    """What a context's report says of the ends of its packets. drops: by name."""
    dropped = sum(drops.values())
    return {"packets": len(packets) - dropped - forwarded, "forwarded": forwarded, "dropped": dropped, "errors": 0,
            "drops": {name: n for name, n in drops.items() if n}}
