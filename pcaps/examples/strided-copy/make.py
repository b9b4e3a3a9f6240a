# SPDX-License-Identifier: BSD-3-Clause
"""Vectors of several senders, whole and not, for strided-copy: packed on the wire, apart in memory."""

import collections
import random
import struct

import common
from common import peer

PORT, COUNT, BLOCK, STRIDE, SEGMENT, SLOTS, IDLE, LINE = 9342, 24, 100, 160, 256, 6, 20_000_000, 64
BYTES, EXTENT = COUNT * BLOCK, (COUNT - 1) * STRIDE + BLOCK


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
    lines = [[0, 0] for _ in range(SLOTS)]
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
            return "short-header"
        key = s.source, s.message
        if key not in known:
            free = set(range(SLOTS)) - {m["slot"] for m in known.values()}
            if not free:
                return "no-slot"
            known[key] = {"slot": min(free), "got": set()}            # got: bytes
            lines[min(free)][1] = s.source[1] << 32 | s.message
        m = known[key]
        m["seen"] = now
        if s.offset % SEGMENT:
            return "bad-offset"
        if s.offset >= BYTES:
            return "beyond-end"
        left = BYTES - s.offset
        if len(s.payload) != min(left, SEGMENT) or s.last != (left <= SEGMENT):
            return "bad-length"
        if s.offset in m["got"]:
            return "repeated"
        blocks = set()
        for i, byte in enumerate(s.payload, s.offset):
            vectors[m["slot"]][place[i]] = byte
            blocks.add(i // BLOCK)
            m["got"].add(i)
        counters["pieces"] += len(blocks)
        if len(m["got"]) == BYTES:
            counters["complete"] += 1
            lines[m["slot"]][0] += 1
        return None

    for now, frame in packets:
        why = packet(now, frame)
        if why:
            drops[why] += 1
    expire(float("inf"))
    assert set(drops) == {"short-header", "bad-offset", "bad-length", "beyond-end", "repeated", "no-slot"}
    return {"report": {"packets": len(packets) - sum(drops.values()), "counters": dict(counters), "drops": dict(drops),
                       "open_messages": 0, "errors": 0},
            "memory": b"".join(struct.pack("<QQ48x", *line) for line in lines) + b"".join(vectors)}


def rules(t):
    @t.rule("strided-copy: blocks longer than packets, and single bytes without gaps between them")
    def shapes():
        data = vector(0, 1)
        for count, block, stride in ((2, 1200, 1300), (2400, 1, 1)):
            out = t.new("dump")
            run = t.command("strided-copy", t.ini("strided-copy", {"count": count, "block-bytes": block, "stride": stride}),
                            "--dump", "strided-copy=" + out)
            t.equal(run.returncode, 0, run.stderr)
            with open(out, "rb") as f:
                area = f.read()
            extent = (count - 1) * stride + block
            sent = {(source, number): vector(n, number)
                    for n, number in ((4, 1), (3, 9), (2, 0xFFFFFFFF)) for source in (23000 + n,)}
            found = 0
            for slot in range(SLOTS):
                done, source = struct.unpack_from("<QQ", area, slot * LINE)
                data = sent.get((source >> 32, source & 0xFFFFFFFF))
                if data is None or not done:
                    continue
                found += 1
                at = SLOTS * LINE + slot * extent
                t.equal(b"".join(area[at + i * stride:at + i * stride + block] for i in range(count)), data)
                if stride > block:
                    t.equal(any(area[at + i * stride + block:at + (i + 1) * stride] != bytes(stride - block)
                                for i in range(count - 1)), False, "written between the blocks")
            t.equal(found > 0, True, "vectors found")

    @t.rule("strided-copy: blocks that overlap, and vectors of too many packets, are refused by name")
    def refused():
        t.refused("strided-copy", {"stride": "99"}, "blocks of 100 bytes would overlap")
        t.refused("strided-copy", {"count": "1M"}, "a message would have more than 4096 packets")
