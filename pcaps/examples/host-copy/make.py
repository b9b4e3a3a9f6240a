# SPDX-License-Identifier: BSD-3-Clause
"""Messages of several senders, whole and not, for host-copy: their bytes in place, and a word that says so."""

import random
import struct

import common
from common import peer

PORT, SLOTS, SEGMENT, IDLE, HEAD = 9341, 8, 128, 20_000_000, 24
MOST, ROOM = 64 * SEGMENT, HEAD + 64 * SEGMENT                         # bytes of a message, of a slot
WORKERS = True


def send(n, number, size, lose=(), sport=None):
    """The frames of a message of sender n without those in lose."""
    data = random.Random(1000 * n + number).randbytes(size)
    return [common.datagram(p, peer(n), sport or 22000 + n, PORT)
            for i, p in enumerate(common.message(number, data, SEGMENT)) if i not in lose]


def one(n, number, offset, payload, last=False):
    return common.datagram(common.slmp(number, offset, payload, last=last), peer(n), 22000 + n, PORT)


def packets():
    rng = random.Random(41)
    first = [send(0, 1, 4096), send(1, 1, MOST), send(2, 0xFFFFFFFF, 513), send(0, 2, 512), send(5, 0, 0),
             send(3, 9, 3000, lose=[2]), send(4, 4, 2000, lose=[3])]
    frames = common.shuffled(rng, first, window=8, repeats=0.2)
    frames += send(0, 1, 4096)[2:5] + send(5, 0, 0)                   # late repeats of what is whole
    frames += [
        common.datagram(b"", peer(0), 22000, PORT),
        common.datagram(bytes(11), peer(2), 22002, PORT),
        # One message of a sender that contradicts itself takes the eighth slot: an end, then what is beyond it.
        one(1, 50, SEGMENT, b"the end", last=True),
        one(1, 50, 2 * SEGMENT, bytes(SEGMENT)),
        one(1, 50, SEGMENT, b"the end, longer", last=True),
        one(1, 50, 0, bytes(range(SEGMENT))),
        # Offsets and lengths that cannot be; of a message that is open, so that no header refuses them.
        one(0, 1, 100, bytes(SEGMENT)),
        one(0, 1, MOST, bytes(SEGMENT)),
        one(0, 1, MOST, b"x", last=True),
        one(0, 1, 0xFFFFFE00, bytes(SEGMENT)),
        one(0, 1, 0xFFFFFE00, bytes(SEGMENT), last=True),
        one(0, 1, 0, bytes(SEGMENT - 1)),
        one(0, 1, 0, bytes(SEGMENT + 1), last=True),
    ]
    frames += send(1, 60, 700) + send(5, 61, 700)                     # no slot is left
    out = common.spaced(frames, rng)
    # Later than `idle` all slots are free again, numbers may come again, and a message goes where a longer one was.
    again = [send(0, 1, 1000), send(1, 1, 700), send(3, 9, 3000), send(2, 5, 4096, lose=[0]), send(0, 7, 511, sport=22999)]
    later = out[-1][0] + 3 * IDLE
    return out + [(later + t, f) for t, f in common.spaced(common.shuffled(rng, again), rng)]


def expected(packets):
    messages = common.Reassembly(SEGMENT, IDLE)
    area, complete, slots = bytearray(SLOTS * ROOM), [0] * SLOTS, {}   # slots: of the messages that are known
    for now, frame in packets:
        messages.expire(now)
        slots = {key: slot for key, slot in slots.items() if key in messages.known}
        s = common.read_slmp(frame)
        key = s and (s.source, s.message)
        if s and key not in slots:
            free = set(range(SLOTS)) - set(slots.values())
            if not free:
                messages.drops["no-slot"] += 1
                continue
            slots[key] = min(free)
            struct.pack_into("<II", area, slots[key] * ROOM + 8, s.message, s.source[1])
        done = messages.packet(now, frame)
        if s and messages.known[key]["got"].get(s.offset // SEGMENT, (None, None))[1] is frame:
            at = slots[key] * ROOM + HEAD + s.offset
            area[at:at + len(s.payload)] = s.payload
        if done:
            complete[slots[key]] += 1
            struct.pack_into("<Q", area, slots[key] * ROOM, complete[slots[key]])
            struct.pack_into("<Q", area, slots[key] * ROOM + 16, sum(len(p.payload) for p, _ in done["got"].values()))
    messages.end()
    assert set(messages.drops) == {"malformed", "repeated", "no-slot"}
    return {"report": {**common.ends(packets, messages.drops), "counters": {"complete": sum(complete), "given-up": messages.given_up},
                       "open_messages": 0, "events_lost": 0},
            "memory": bytes(area)}


def rules(t):
    @t.rule("host-copy: what the application finds by the slots' heads are the messages that were sent")
    def found():
        area = t.dump("host-copy")
        sent = {(0, 1): 1000, (1, 1): 700, (3, 9): 3000}                # those of the second half that came whole
        for at in range(0, SLOTS * ROOM, ROOM):
            complete, number, port, length = struct.unpack_from("<QIIQ", area, at)
            if complete and sent.get((port - 22000, number)) == length:
                del sent[port - 22000, number]
                t.equal(area[at + HEAD:at + HEAD + length], random.Random(1000 * (port - 22000) + number).randbytes(length))
        t.equal(sent, {})
