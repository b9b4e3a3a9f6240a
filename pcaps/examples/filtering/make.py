# SPDX-License-Identifier: BSD-3-Clause
"""Packets with many keys for filtering: those whose key is in the table reach the host, until the ring is full."""

import collections
import random
import struct

import common
from common import peer

PORT, KEYS, SLOTS, SLOT = 9334, {0x10, 0x0BADF00D, 77, 0xFFFFFFFF}, 24, 512


def packets():
    rng = random.Random(15)

    def one(n, key, size, number=0):
        payload = struct.pack(">I", key) + rng.randbytes(size)
        return common.datagram(common.slmp(number, 0, payload, last=True), peer(n), 24000 + n, PORT)

    near = [k + d & 0xFFFFFFFF for k in sorted(KEYS) for d in (-1, 1)] + [struct.unpack("<I", struct.pack(">I", k))[0] for k in KEYS]
    keys = sorted(KEYS) * 7 + near * 3 + [0, 0] + [rng.randrange(1 << 32) for _ in range(40)]
    rng.shuffle(keys)
    out = []
    for number, key in enumerate(keys):
        out += [one(rng.randrange(6), key, rng.randrange(0, 300), number)] * (1 + (rng.random() < 0.1))
        if number == 20:
            out += [one(0, 77, SLOT - 16 - 16), one(1, 77, SLOT - 16 - 15), one(2, 77, 1200)]  # just fits, is too long
    for n in (0, 2):
        out += [common.datagram(bytes(size), peer(n), 24000 + n, PORT) for size in (0, 11, 12, 15)]
        out += [common.datagram(common.slmp(1, 0, struct.pack(">I", 77)), peer(n), 24000 + n, PORT)]
    return common.spaced(out, rng)


def expected(packets, to_host=True):
    drops, slots, passed = collections.Counter(), [], 0
    for _, frame in packets:
        d = common.read_datagram(frame)
        if len(d.payload) < 12:
            drops["short-header"] += 1
        elif len(d.payload) < 16:
            drops["no-key"] += 1
        elif struct.unpack(">I", d.payload[12:16])[0] not in KEYS:
            drops["filtered"] += 1
        elif not to_host:
            passed += 1
        elif len(d.payload) > SLOT - 16:
            drops["too-long"] += 1
        elif len(slots) == SLOTS:
            drops["ring-full"] += 1
        else:
            passed += 1
            slots.append((struct.pack("<QII", len(slots) + 1, len(d.payload), 0) + d.payload).ljust(SLOT, b"\0"))
    return {"report": {**common.ends(packets, drops, 0 if to_host else passed), "counters": {"passed": passed}},
            "memory": b"".join(slots).ljust(SLOTS * SLOT, b"\0")}


def rules(t):
    @t.rule("filtering: with to = exception the same packets go the normal way")
    def exception():
        report, _ = t.replay("filtering", {"to": "exception"})
        t.subset(report, expected(t.packets("filtering"), to_host=False)["report"])

    @t.rule("filtering: keys that are no numbers, and more than there is room for, are refused by name")
    def keys():
        t.refused("filtering", {"keys": "1, 2, three"}, "\"three\" does not begin with a 32-bit number")
        t.refused("filtering", {"keys": "1, 4294967296"}, "\"4294967296\" does not begin with a 32-bit number")
        t.refused("filtering", {"keys": "1, 2, 3", "table": "2"}, "more than `table` holds, 2")
