# SPDX-License-Identifier: BSD-3-Clause
"""Vectors of several senders, whole and not, for strided-copy: packed on the wire, apart in memory."""

import collections
import random
import struct

import common
from common import peer

PORT, COUNT, BLOCK, STRIDE, SEGMENT, SLOTS, IDLE, HEAD = 9342, 24, 100, 158, 256, 6, 20_000_000, 16
BYTES, EXTENT = COUNT * BLOCK, (COUNT * STRIDE + 7) // 8 * 8


def vector(n, number):
    return random.Random(1000 * n + number).randbytes(BYTES)


def send(n, number, lose=(), sport=None):
    """The frames of a message of sender n without those in lose."""
    return [common.datagram(p, peer(n), sport or 23000 + n, PORT)
            for i, p in enumerate(common.message(number, vector(n, number), SEGMENT)) if i not in lose]


def one(n, number, offset, payload, last=False):
    return common.datagram(common.slmp(number, offset, payload, last=last), peer(n), 23000 + n, PORT)


def packets():
    rng = random.Random(42)
    first = [send(0, 1), send(1, 1), send(2, 0xFFFFFFFF), send(0, 2), send(3, 9, lose=[4])]
    frames = common.shuffled(rng, first, window=8, repeats=0.2)
    frames += send(0, 1)[2:5]                                         # late repeats of what is whole
    end = (BYTES - 1) // SEGMENT * SEGMENT
    frames += [
        common.datagram(b"", peer(0), 23000, PORT),
        common.datagram(bytes(11), peer(2), 23002, PORT),
        # What cannot be, of a message that is open so that no header refuses it.
        one(0, 1, BLOCK, bytes(SEGMENT)),
        one(0, 1, end + SEGMENT, bytes(SEGMENT)),
        one(0, 1, 0xFFFFFF00, bytes(SEGMENT), last=True),
        one(0, 1, 0, bytes(SEGMENT), last=True),
        one(0, 1, 0, bytes(SEGMENT - 1)),
        one(0, 1, end, bytes(BYTES - end)),
        one(0, 1, end, bytes(BYTES - end + 1), last=True),
        one(0, 1, end, b"", last=True),
        one(1, 50, end, bytes(BYTES - end), last=True),               # no more of this one: it takes the sixth slot for nothing
    ]
    frames += send(1, 60)[:2] + send(5, 61)[3:4]                      # no slot is left
    out = common.spaced(frames, rng)
    # Later than `idle` all slots are free again. What was lost of a message leaves what an earlier one wrote there.
    again = [send(4, 1), send(1, 1, lose=[0]), send(3, 9), send(0, 7, sport=23999)]
    later = out[-1][0] + 3 * IDLE
    return out + [(later + t, f) for t, f in common.spaced(common.shuffled(rng, again), rng)]


def expected(packets):
    heads = [[0, 0, 0] for _ in range(SLOTS)]
    vectors = [bytearray(EXTENT) for _ in range(SLOTS)]
    drops, counters, known = collections.Counter(), collections.Counter(), {}
    place = [block * STRIDE + i for block in range(COUNT) for i in range(BLOCK)]  # of each byte of a message

    def expire(now):
        for key in [k for k, m in known.items() if now - m["seen"] > IDLE]:
            counters["given-up"] += len(known.pop(key)["got"]) < BYTES

    def packet(now, frame):
        """None, or why it is dropped."""
        expire(now)
        s = common.read_slmp(frame)
        if s is None:
            return "malformed"
        key = s.source, s.message
        if key not in known:
            free = set(range(SLOTS)) - {m["slot"] for m in known.values()}
            if not free:
                return "no-slot"
            known[key] = {"slot": min(free), "got": set()}            # got: bytes
            heads[min(free)][1:] = s.message, s.source[1]
        m = known[key]
        m["seen"] = now
        left = BYTES - s.offset
        if s.offset % SEGMENT or left <= 0 or len(s.payload) != min(left, SEGMENT) or s.last != (left <= SEGMENT):
            return "malformed"
        if s.offset in m["got"]:
            return "repeated"
        for i, byte in enumerate(s.payload, s.offset):
            vectors[m["slot"]][place[i]] = byte
            m["got"].add(i)
        if len(m["got"]) == BYTES:
            counters["complete"] += 1
            heads[m["slot"]][0] += 1
        return None

    for now, frame in packets:
        why = packet(now, frame)
        if why:
            drops[why] += 1
    expire(float("inf"))
    assert set(drops) == {"malformed", "repeated", "no-slot"}
    return {"report": {"packets": len(packets) - sum(drops.values()), "counters": dict(counters), "drops": dict(drops),
                       "open_messages": 0, "errors": 0},
            "memory": b"".join(struct.pack("<QII", *head) + vector for head, vector in zip(heads, vectors))}


def rules(t):
    @t.rule("strided-copy: blocks may be longer than packets, and nothing is written between them")
    def shape():
        count, block, stride = 2, 1200, 1301
        area = t.memory("strided-copy", {"count": count, "block-bytes": block, "stride": stride})
        sent, found = {(23000 + n, number): vector(n, number) for n, number in ((4, 1), (3, 9), (2, 0xFFFFFFFF))}, 0
        for at in range(0, SLOTS * (HEAD + 2608), HEAD + 2608):        # 2 * 1301, in whole words
            complete, number, port = struct.unpack_from("<QII", area, at)
            if complete and (port, number) in sent:
                found += 1
                want = sent[port, number]
                t.equal(area[at + HEAD:at + HEAD + 2608],
                        want[:block] + bytes(stride - block) + want[block:] + bytes(2608 - stride - block))
        t.equal(found > 0, True, "vectors found")
