# SPDX-License-Identifier: BSD-3-Clause
"""Vectors of six senders in several rounds, for reduce: nothing is added twice, and what is not whole is not told."""

import collections
import random
import struct

import common
from common import peer

PORT, RANKS, ELEMENTS, SEGMENT, SLOTS, IDLE = 9332, 6, 300, 512, 2, 20_000_000
BYTES = 4 * ELEMENTS
WORKERS = True


def vector(rank, number):
    """Large numbers too: their sum does not fit into 32 bits."""
    rng = random.Random(1000 * number + rank)
    return struct.pack(">%dI" % ELEMENTS, *(rng.choice((rng.randrange(100), 0xFFFFFFFF - rng.randrange(100)))
                                            for _ in range(ELEMENTS)))


def one(rank, number, offset, payload):
    last = offset + len(payload) >= BYTES
    return common.datagram(common.slmp(number, offset, payload, last=last, user=rank), peer(rank % RANKS), 22000 + rank % RANKS, PORT)


def send(rank, number, lose=()):
    data = vector(rank, number)
    return [one(rank, number, at, data[at:at + SEGMENT]) for at in range(0, BYTES, SEGMENT) if at // SEGMENT not in lose]


def a_round(rng, number, lose=(), repeats=0.2):
    """lose: (rank, segment)."""
    lists = [send(rank, number, [s for r, s in lose if r == rank]) for rank in range(RANKS)]
    return common.shuffled(rng, lists, window=3, repeats=repeats)


def packets():
    rng = random.Random(13)
    second, third = a_round(rng, 2), a_round(rng, 3)
    both = common.shuffled(rng, [second, third], window=0, repeats=0)                 # two rounds at the same time
    first = a_round(rng, 1) + send(0, 1) + both + send(4, 2) + send(2, 1)             # and late repeats of those that are over
    first += a_round(rng, 4, lose=[(3, 1)]) + send(0, 6)[:1]                          # 6 wants the slot of 4
    wrong = [
        common.datagram(b"", peer(0), 22000, PORT),
        common.datagram(bytes(11), peer(2), 22002, PORT),
        one(RANKS, 4, 0, bytes(SEGMENT)),                                             # rank 3's segment is still missing
        one(0xFFFF, 4, SEGMENT, bytes(SEGMENT)),
        one(3, 4, 4, bytes(SEGMENT)),
        one(3, 4, BYTES, b""),
        one(3, 4, 0xFFFFFE00, bytes(SEGMENT)),
        one(3, 4, 0xFFFFFFFC, bytes(4)),
        one(3, 4, SEGMENT, bytes(SEGMENT - 4)),
        one(3, 4, SEGMENT, bytes(SEGMENT + 4)),
        one(3, 4, 2 * SEGMENT, bytes(BYTES % SEGMENT + 1)),
    ]
    out = common.spaced(first + wrong, rng)
    later = out[-1][0] + 3 * IDLE                                                     # 4 was given up: too late for it, 6 may go
    again = [one(3, 4, SEGMENT, vector(3, 4)[SEGMENT:2 * SEGMENT])] + a_round(rng, 6)
    out += [(later + t, f) for t, f in common.spaced(again, rng)]
    after = a_round(rng, 5, lose=[(r, 2) for r in range(RANKS)])                       # and one that stays in pieces, in 3's slot
    return out + [(out[-1][0] + 1000 + t, f) for t, f in common.spaced(after, rng)]


def expected(packets):
    drops, counters = collections.Counter(), collections.Counter({"reduced": 0, "given-up": 0})
    slots = [None] * SLOTS                      # the latest round of each

    def expire(now):
        for s in slots:
            if s and s["open"] and now - s["seen"] > IDLE:
                s["open"] = False
                counters["given-up"] += 1

    for now, frame in packets:
        expire(now)
        p = common.read_slmp(frame)
        if p is None:
            drops["malformed"] += 1
        elif p.user >= RANKS or p.offset not in range(0, BYTES, SEGMENT) or len(p.payload) != min(SEGMENT, BYTES - p.offset):
            drops["malformed"] += 1
        else:
            s = slots[p.message % SLOTS]
            if s is None or p.message > s["round"] and not s["open"]:
                s = slots[p.message % SLOTS] = {"round": p.message, "open": True, "parts": {}, "told": False}
            if p.message > s["round"]:
                drops["slot-busy"] += 1
                continue
            if p.message < s["round"] or not s["open"]:
                drops["old-round"] += 1
                continue
            s["seen"] = now
            if (p.user, p.offset) in s["parts"]:
                drops["repeated"] += 1
                continue
            s["parts"][p.user, p.offset] = p.payload
            if len(s["parts"]) == RANKS * -(-BYTES // SEGMENT):
                s["open"], s["told"] = False, True
                counters["reduced"] += 1
    expire(float("inf"))
    memory = b""
    for s in slots:
        total = [0] * ELEMENTS
        for (_, offset), payload in s["parts"].items():
            for i, (n,) in enumerate(struct.iter_unpack(">I", payload)):
                total[offset // 4 + i] += n
        memory += struct.pack("<Q%dQ" % ELEMENTS, s["round"] + 1 if s["told"] else 0, *total)
    return {"report": {**common.ends(packets, drops), "counters": dict(counters), "open_messages": 0},
            "memory": memory}


def rules(t):
    @t.rule("reduce: a round's sum is the sum of the six vectors, whatever was repeated and in which order it came")
    def sums():
        got = struct.unpack_from("<Q%dQ" % ELEMENTS, t.dump("reduce"))
        vectors = [struct.unpack(">%dI" % ELEMENTS, vector(rank, 6)) for rank in range(RANKS)]
        t.equal(got, (6 + 1, *map(sum, zip(*vectors))))
