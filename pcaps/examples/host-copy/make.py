# SPDX-License-Identifier: BSD-3-Clause
"""Messages of several senders, whole and not, for host-copy: their bytes in place, and a word that says so."""

import collections
import random
import struct

import common
from common import peer

PORT, SLOTS, MOST, SEGMENT, IDLE, LINE = 9341, 8, 4096, 512, 20_000_000, 64
GIVEN_UP = 0xFFFFFFFF


def send(n, number, size, lose=(), sport=None):
    """The frames of a message of sender n without those in lose."""
    data = random.Random(1000 * n + number).randbytes(size)
    return [common.datagram(p, peer(n), sport or 22000 + n, PORT)
            for i, p in enumerate(common.message(number, data, SEGMENT)) if i not in lose]


def one(n, number, offset, payload, last=False):
    return common.datagram(common.slmp(number, offset, payload, last=last), peer(n), 22000 + n, PORT)


def packets():
    rng = random.Random(41)
    first = [send(0, 1, MOST), send(1, 1, 4000), send(2, 0xFFFFFFFF, 513), send(0, 2, 512), send(5, 0, 0),
             send(3, 9, 3000, lose=[2]), send(4, 4, 2000, lose=[3])]
    frames = common.shuffled(rng, first, window=8, repeats=0.2)
    frames += send(0, 1, MOST)[2:5] + send(5, 0, 0)                   # late repeats of what is whole
    frames += [
        common.datagram(b"", peer(0), 22000, PORT),
        common.datagram(bytes(11), peer(2), 22002, PORT),
        # One message of a sender that contradicts itself takes the eighth slot: an end, then what is beyond it, another end.
        one(1, 50, SEGMENT, b"the end", last=True),
        one(1, 50, 2 * SEGMENT, bytes(SEGMENT)),
        one(1, 50, 0, b"another end", last=True),
        one(1, 50, SEGMENT, b"the end, longer", last=True),
        one(1, 50, 0, bytes(range(256)) * 2),
        # Offsets and lengths that cannot be; of a message that is open, so that no header refuses them.
        one(0, 1, 100, bytes(SEGMENT)),
        one(0, 1, MOST, bytes(SEGMENT)),
        one(0, 1, MOST, b"x", last=True),
        one(0, 1, 0xFFFFFE00, bytes(SEGMENT)),
        one(0, 1, 0xFFFFFE00, bytes(SEGMENT), last=True),
        one(0, 1, 0, bytes(SEGMENT - 1)),
        one(0, 1, 0, bytes(SEGMENT + 1), last=True),
        one(0, 1, SEGMENT, b"", last=True),
    ]
    frames += send(1, 60, 700) + send(5, 61, 700)                     # no slot is left
    out = common.spaced(frames, rng)
    # Later than `idle` all slots are free again, numbers may come again, and a message goes where a longer one was.
    again = [send(0, 1, 1000), send(1, 1, 700), send(3, 9, 3000), send(2, 5, 4096, lose=[0]), send(0, 7, 511, sport=22999)]
    later = out[-1][0] + 3 * IDLE
    return out + [(later + t, f) for t, f in common.spaced(common.shuffled(rng, again), rng)]


def expected(packets):
    area = bytearray(SLOTS * (LINE + MOST))
    serial, known = [0] * SLOTS, {}
    drops, counters = collections.Counter(), collections.Counter({"complete": 0, "given-up": 0})

    def tell(m, length):
        struct.pack_into("<Q", area, m["slot"] * LINE, serial[m["slot"]] << 32 | length)
        counters["given-up" if length == GIVEN_UP else "complete"] += 1

    def expire(now):
        for key in [k for k, m in known.items() if now - m["seen"] > IDLE]:
            m = known.pop(key)
            if not m["whole"]:
                tell(m, GIVEN_UP)

    def packet(now, frame):
        """None, or why it is dropped."""
        expire(now)
        s = common.read_slmp(frame)
        if s is None:
            return "short-header"
        key = s.source, s.message
        if key not in known:
            free = set(range(SLOTS)) - {m["slot"] for m in known.values()}
            if not free:
                return "no-slot"
            slot = min(free)
            serial[slot] += 1
            known[key] = {"slot": slot, "got": set(), "seen": [], "end": None, "whole": False}
            struct.pack_into("<Q", area, slot * LINE + 8, s.source[1] << 32 | s.message)
        m = known[key]
        m["seen"] = now
        index, odd = divmod(s.offset, SEGMENT)
        size, end = len(s.payload), s.offset + len(s.payload)
        if odd:
            return "bad-offset"
        if size > SEGMENT or size < SEGMENT and not s.last or s.last and not size and s.offset:
            return "bad-length"
        if end > MOST:
            return "too-long"
        m.setdefault("claims", set()).add(index)
        if s.last and m["end"] is None:
            m["end"] = index, end
        if m["end"] and (max(m["claims"]) > m["end"][0] or s.last != (index == m["end"][0]) or s.last and (index, end) != m["end"]):
            return "contradiction"
        if index in m["got"]:
            return "repeated"
        m["got"].add(index)
        at = SLOTS * LINE + m["slot"] * MOST + s.offset
        area[at:at + size] = s.payload
        if m["end"] and len(m["got"]) == m["end"][0] + 1:
            m["whole"] = True
            tell(m, m["end"][1])
        return None

    for now, frame in packets:
        why = packet(now, frame)
        if why:
            drops[why] += 1
    expire(float("inf"))
    assert set(drops) == {"short-header", "bad-offset", "bad-length", "too-long", "contradiction", "repeated", "no-slot"}
    return {"report": {"packets": len(packets) - sum(drops.values()), "counters": dict(counters), "drops": dict(drops),
                       "open_messages": 0, "errors": 0, "events_lost": 0},
            "memory": bytes(area)}


def rules(t):
    @t.rule("host-copy: what the application finds by its completion words are the messages that were sent")
    def found():
        area = t.dump("host-copy")
        sent = {(0, 1): 1000, (1, 1): 700, (3, 9): 3000}                # those of the second half that came whole
        for i in range(SLOTS):
            word, source = struct.unpack_from("<QQ", area, i * LINE)
            n, number = (source >> 32) - 22000, source & 0xFFFFFFFF
            if word >> 32 == 2 and (n, number) in sent:
                length = sent.pop((n, number))
                t.equal(word & 0xFFFFFFFF, length)
                at = SLOTS * LINE + i * MOST
                t.equal(area[at:at + length], random.Random(1000 * n + number).randbytes(length))
        t.equal(sent, {})
