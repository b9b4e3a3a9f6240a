# SPDX-License-Identifier: BSD-3-Clause
"""Packets with many keys for filtering: those whose key is in the table go the normal way."""

import collections
import random
import struct

import common
from common import peer

PORT, KEYS = 9334, {0x10, 0x0BADF00D, 77, 0xFFFFFFFF}


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
    for n in (0, 2):
        out += [common.datagram(bytes(size), peer(n), 24000 + n, PORT) for size in (0, 11, 12, 15)]
        out += [common.datagram(common.slmp(1, 0, struct.pack(">I", 77)), peer(n), 24000 + n, PORT)]
    return common.spaced(out, rng)


def expected(packets):
    drops, passed = collections.Counter(), 0
    for _, frame in packets:
        d = common.read_datagram(frame)
        if len(d.payload) < 16:
            drops["malformed"] += 1
        elif struct.unpack(">I", d.payload[12:16])[0] not in KEYS:
            drops["filtered"] += 1
        else:
            passed += 1
    return {"report": common.ends(packets, drops, passed)}


def rules(t):
    @t.rule("filtering: tshark finds as many packets with these keys as were passed on")
    def passed():
        keys = " or ".join("udp.payload[12:4] == %s" % struct.pack(">I", key).hex(":") for key in sorted(KEYS))
        t.equal(len(t.tshark("filtering", "in.pcap", "-Y", "udp.dstport == %d and (%s)" % (PORT, keys))),
                t.report("filtering")["forwarded"])
