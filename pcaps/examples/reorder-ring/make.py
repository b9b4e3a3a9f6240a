# SPDX-License-Identifier: BSD-3-Clause
"""A stream of numbered packets in disorder, with repeats and losses, for reorder-ring: in order, with its gaps named."""

import collections
import random
import struct

import common
from common import peer

PORT, SPORT, CELLS, BYTES, FIRST, PATIENCE, LINE = 9343, 23000, 64, 256, 0xFFFFFF80, 1_000_000, 64
LOST = 0xFFFFFFFF
TOTAL = 400                                                            # packets of the stream; its numbers wrap at the 128th
WORKERS = True


def cell(n):
    """Payload of the n-th packet: every so often none, or as much as a cell holds."""
    rng = random.Random(n)
    return rng.randbytes(rng.choice((0, BYTES, rng.randrange(1, BYTES))))


def frame(n, payload=None):
    return common.datagram(common.slmp((FIRST + n) & 0xFFFFFFFF, 0, cell(n) if payload is None else payload, last=True), peer(0),
                           SPORT, PORT)


def packets():
    rng = random.Random(43)
    lost = {5, 90, 91, 93, 200, 345}                                   # singly, in a row, at the wrap's other side
    late = {7: 30, 150: 180}                                           # comes after that one: overtaken, in time
    order = sorted((n for n in range(TOTAL) if n not in lost and n not in late), key=lambda n: n + rng.random() * 9)
    for n, after in late.items():
        order.insert(order.index(after) + 1, n)
    out, now = [], 0

    def put(f, wait=2000):
        nonlocal now
        out.append((now, f))
        now += rng.randrange(wait // 2, wait)

    for i, n in enumerate(order):
        put(frame(n))
        if rng.random() < 0.1:
            put(frame(n))                                              # at once again
        if rng.random() < 0.05 and i > 100:
            put(frame(order[i - 100]))                                 # long since read
        if n in (40, 130, 230, 350):
            now += 12 * PATIENCE                                       # the network stands still: gaps are given up
        if n == 130:
            put(frame(90))                                             # too late
        if n == 60:
            put(frame(n + 500))                                        # too far ahead, by half the numbers, and by all but one
            put(frame(n + (1 << 31)))
            put(frame(n + (1 << 31) - 100))
            put(frame(-1))
            put(common.datagram(b"", peer(0), SPORT, PORT))
            put(common.datagram(bytes(11), peer(0), SPORT, PORT))
            put(frame(n + 20, bytes(BYTES + 1)))
            put(common.datagram(common.slmp(0, 0, b"another stream", last=True), peer(1), SPORT + 1, PORT))
    return out


def expected(packets):
    """By the numbers alone: what is given up follows from who is missing when the network stands still."""
    drops, counters, there = collections.Counter(), collections.Counter(), {}  # there: n -> payload, None when lost
    head = furthest = 0
    before = 0
    for now, raw in packets:
        if now - before > 10 * PATIENCE:
            while head < furthest:
                if head not in there:                                  # each gap for itself, so that takes several patiences
                    there[head] = None
                    counters["lost"] += 1
                head += 1
        before = now
        d = common.read_datagram(raw)
        if d.sport != SPORT:
            continue
        s = common.read_slmp(raw)
        if s is None or len(s.payload) > BYTES:
            drops["malformed"] += 1
            continue
        n = (s.message - FIRST - head + (1 << 31)) % (1 << 32) - (1 << 31) + head  # the nearest one with that number
        if n < head:
            drops["late"] += 1
        elif n in there:
            drops["repeated"] += 1
        elif n >= head + CELLS:
            drops["beyond-window"] += 1
        else:
            there[n] = s.payload
            counters["placed"] += 1
            furthest = max(furthest, n + 1)
            while head in there:
                head += 1
    while head < furthest:                                             # replay goes on for a second
        if head not in there:
            there[head] = None
            counters["lost"] += 1
        head += 1
    area = bytearray(LINE + CELLS * (8 + BYTES))
    struct.pack_into("<Q", area, 0, FIRST + head)
    for n in sorted(there):
        at = LINE + (FIRST + n) % CELLS * (8 + BYTES)
        data = there[n]
        struct.pack_into("<Q", area, at, ((FIRST + n) & 0xFFFFFFFF) << 32 | (LOST if data is None else len(data)))
        area[at + 8:at + 8 + len(data or b"")] = data or b""
    assert set(drops) == {"malformed", "late", "repeated", "beyond-window"}
    return {"report": {"packets": counters["placed"], "counters": dict(counters), "drops": dict(drops), "errors": 0},
            "memory": bytes(area)}


def rules(t):
    @t.rule("reorder-ring: the ring ends as the latest packets in order, and those that tshark does not find are lost")
    def lost():
        numbers = [int(text[8:16], 16) for text in t.tshark("reorder-ring", "in.pcap", "-Y", "udp.srcport == %d" % SPORT, "-T",
                                                            "fields", "-e", "udp.payload") if len(text) >= 24]
        area = t.dump("reorder-ring")
        words = [struct.unpack_from("<Q", area, LINE + i * (8 + BYTES))[0] for i in range(CELLS)]
        last = struct.unpack_from("<Q", area)[0]
        t.equal(sorted(w >> 32 for w in words), list(range((last - CELLS) & 0xFFFFFFFF, last & 0xFFFFFFFF)))
        missing = {w >> 32 for w in words} - set(numbers)
        t.equal(missing & {w >> 32 for w in words if w & LOST == LOST}, missing)
        t.equal(bool(missing), True)
