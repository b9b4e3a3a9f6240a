# SPDX-License-Identifier: BSD-3-Clause
"""Words with bell-shaped values, and some far out, for histogram: what comes twice counts twice."""

import random
import struct

import common
from common import NIC, peer, pk

PORT, BUCKETS, WIDTH = 9333, 100, 10
WORKERS = True


def packets():
    rng = random.Random(14)

    def data(words, rest=b""):
        values = [max(0, int(rng.gauss(500, 180))) if rng.random() < 0.98 else rng.choice((0, 999, 1000, 1009, 0xFFFFFFFF))
                  for _ in range(words)]
        return struct.pack(">%dI" % words, *values) + rest

    def send(n, number, size):
        return [common.datagram(p, peer(n), 23000 + n, PORT) for p in common.message(number, data(size), 512)]

    out = common.shuffled(rng, [send(n, number, rng.randrange(1, 1500)) for n in range(6) for number in range(2)], repeats=0.1)
    out += [common.datagram(common.slmp(9, 0, data(words, rest)), peer(n), 23000 + n, PORT)
            for n in range(3) for words in (0, 1, 20) for rest in (b"", b"\0", b"\0\0", b"\0\0\0")]
    out += [common.datagram(bytes(size), peer(n), 23000 + n, PORT) for n in (0, 2) for size in (0, 3, 11)]
    part = common.base.udp(common.slmp(29, 0, bytes(100)), 23000, PORT, peer(0), NIC)
    out.append(common.base.frame(pk.ipv4(part, peer(0), NIC, 17, fragment=0x2000), common.peer_mac(peer(0)), common.MAC))
    out = common.spaced(out, rng, most=60 * common.US)  # some milliseconds: the timer fires several times
    return out + [(t + 10_000_000, f) for t, f in out[:20]]


def count(payloads):
    """payloads: behind SLMP's header."""
    counts = [0] * (BUCKETS + 1)
    for payload in payloads:
        for (value,) in struct.iter_unpack(">I", payload[:len(payload) // 4 * 4]):
            counts[min(value // WIDTH, BUCKETS)] += 1
    return counts


def expected(packets):
    read = [common.read_slmp(f) for _, f in packets]
    payloads = [s.payload for s in read if s]
    counts = count(payloads)
    drops = {"malformed": sum(s is None for s in read)}
    return {"report": {**common.ends(packets, drops),
                       "counters": {"words": sum(counts)}},
            "memory": struct.pack("<%dQ" % (BUCKETS + 1), *counts)}


def rules(t):
    @t.rule("histogram: the counts are those of what tshark finds in the datagrams")
    def counts():
        payloads = [bytes.fromhex(text)[common.SLMP:] for text in
                    t.tshark("histogram", "in.pcap", "-Y", "udp.dstport == %d" % PORT, "-T", "fields", "-e", "udp.payload")]
        t.equal(struct.unpack("<%dQ" % (BUCKETS + 1), t.dump("histogram")), tuple(count(payloads)))
