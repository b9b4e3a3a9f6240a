# SPDX-License-Identifier: BSD-3-Clause
"""Messages of several senders, whole and not, for ping-pong: each whole one comes back, once, in order."""

import random
import struct

import common
from common import NIC, peer, pk

PORT, SEGMENT, IDLE = 9330, 256, 100_000_000
WORKERS = True


def send(n, number, size, lose=(), sport=None, rng=None, **more):
    """The frames of a message of sender n without those in lose."""
    data = (rng or random.Random(number)).randbytes(size)
    return [common.datagram(p, peer(n), sport or 20000 + n, PORT, **more)
            for i, p in enumerate(common.message(number, data, SEGMENT)) if i not in lose]


def one(n, number, offset, payload, last=False, **more):
    return common.datagram(common.slmp(number, offset, payload, last=last), peer(n), 20000 + n, PORT, **more)


def packets():
    rng = random.Random(11)
    whole = [send(0, 1, 3000), send(1, 1, 3000), send(2, 1, 2999), send(0, 2, 256), send(1, 2, 1), send(3, 7, 0),
             send(4, 0xFFFFFFFF, 64 * SEGMENT), send(0, 3, 512, sport=20999), send(5, 5, 1280, checksum=True)]
    lossy = [send(2, 2, 2000, lose=[3]), send(3, 8, 2000, lose=[0]), send(1, 4, 2000, lose=[7])]
    # Three senders with one port and one number, of whom two speak IPv4.
    same = [send(n, 30, 700 + n, sport=20500, rng=random.Random(n)) for n in range(3)]
    first = common.shuffled(rng, whole + lossy + same)
    wrong = [
        common.datagram(b"", peer(0), 20000, PORT),
        common.datagram(bytes(11), peer(2), 20000, PORT),
        one(0, 20, 100, bytes(SEGMENT)),                           # offsets: no multiple, too far, at the end of the numbers
        one(0, 20, 64 * SEGMENT, bytes(SEGMENT)),
        one(0, 20, 0xFFFFFF00, bytes(SEGMENT), last=True),
        one(0, 20, 0xFFFFFFFF, bytes(2), last=True),
        one(1, 20, 0, bytes(SEGMENT + 1), last=True),              # lengths
        one(1, 20, 0, bytes(SEGMENT - 1)),
        one(1, 20, 0, b""),
        one(3, 21, SEGMENT, b"end", last=True),                    # says more after its end: never whole
        one(3, 21, 2 * SEGMENT, bytes(SEGMENT)),
        one(3, 21, 0, bytes(SEGMENT)),
        one(3, 22, 2 * SEGMENT, bytes(SEGMENT)),                   # has said more before its end: never whole
        one(3, 22, 0, bytes(SEGMENT)),
        one(3, 22, SEGMENT, b"end", last=True),
        one(3, 23, SEGMENT, b"end", last=True),                    # two ends: the further one counts
        one(3, 23, 0, b"end", last=True),
        common.datagram(common.slmp(24, 0, b"loop", last=True), peer(0), PORT, PORT),
        common.datagram(common.slmp(25, 0, b"no checksum", last=True), peer(0), 20000, PORT, checksum=False),
        one(1, 26, 0, b"options", last=True, ihl=6, options=b"\x01\x01\x01\x00"),
    ]
    group = bytearray(one(0, 27, 0, b"to a group", last=True))
    group[:6] = pk.mac_bytes("01:00:5e:00:00:01")
    broken = bytearray(one(0, 28, 0, b"a wrong checksum stays wrong", last=True))
    broken[41] ^= 1
    part = common.base.udp(common.slmp(29, 0, bytes(100)), 20000, PORT, peer(0), NIC)
    fragment = common.base.frame(pk.ipv4(part, peer(0), NIC, 17, fragment=0x2000), common.peer_mac(peer(0)), common.MAC)
    wrong += [bytes(group), bytes(broken), fragment]
    out = common.spaced(first + wrong, rng)
    # Later than `idle`: those that were given up come again, and one that was answered.
    again = [send(2, 2, 2000), send(3, 8, 2000, lose=[1]), send(0, 2, 256)]
    later = out[-1][0] + 3 * IDLE
    return out + [(later + t, f) for t, f in common.spaced(common.shuffled(rng, again), rng)]


def answer(frame):
    """The datagram as its receiver would send it: checksums are made anew where they were right."""
    at = 34 if frame[12:14] == b"\x08\x00" else 54
    v6 = at == 54
    ends = frame[22:38], frame[38:54]
    if not v6:
        ends = frame[26:30], frame[30:34]
    length = struct.unpack(">H", frame[at + 4:at + 6])[0]
    body, pad = frame[at:at + length], frame[at + length:]

    def check(src, dst, body):
        total = pk.checksum(src + dst + struct.pack(">II", len(body), 17) + body[:6] + b"\0\0" + body[8:])
        return struct.pack(">H", total or 0xFFFF)

    right = check(*ends, body) == body[6:8]
    back = body[2:4] + body[:2] + body[4:]
    if right:
        back = back[:6] + check(ends[1], ends[0], back) + back[8:]
    ip = frame[14:26 if not v6 else 22] + ends[1] + ends[0]
    if not v6:
        ip = ip[:10] + struct.pack(">H", pk.checksum(ip[:10] + b"\0\0" + ip[12:])) + ip[12:]
    return frame[6:12] + frame[:6] + frame[12:14] + ip + back + pad


def refused(frame):
    """Why it is not answered, beside what Reassembly says; None: it is."""
    d = common.read_datagram(frame)
    if d is None or len(d.payload) < common.SLMP:
        return None
    if frame[12:14] == b"\x08\x00" and frame[14] != 0x45:
        return "unanswerable"
    return "unanswerable" if (frame[0] | frame[6]) & 1 or d.sport == d.dport else None


def expected(packets):
    messages = common.Reassembly(SEGMENT, IDLE)
    answered, sent = 0, []
    for now, frame in packets:
        why = refused(frame)
        if why:
            messages.drops[why] += 1
        else:
            whole = messages.packet(now, frame)
            if whole:
                answered += 1
                del messages.known[whole["key"]]
                sent += [(now, answer(f)) for _, (_, f) in sorted(whole["got"].items())]
    messages.end()
    counters = {"answered": answered, "given-up": messages.given_up, "unsent-packets": 0}
    return {"report": {**common.ends(packets, messages.drops), "counters": counters, "open_messages": 0, "kept": 0}, "sent": sent}


def rules(t):
    @t.rule("ping-pong: tshark finds every answer's checksums right but the one that came wrong")
    def checksums():
        bad = t.tshark("ping-pong", "expected.pcap", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y",
                       'udp.checksum.status == "Bad" or ip.checksum.status == "Bad"', "-T", "fields", "-e", "udp.length")
        t.equal(bad, [str(8 + common.SLMP + len("a wrong checksum stays wrong"))])
