# SPDX-License-Identifier: BSD-3-Clause
"""Messages of several senders, whole and not, for aggregate: one sum for each whole one, however often it comes."""

import random
import struct

import common
from common import peer

PORT, SEGMENT, IDLE, RESULTS = 9331, 256, 100_000_000, 16


def send(n, number, size, lose=(), sport=None, fill=None):
    """The frames of a message of sender n without those in lose."""
    data = random.Random(100 * n + number).randbytes(size) if fill is None else bytes([fill]) * size
    return [common.datagram(p, peer(n), sport or 21000 + n, PORT)
            for i, p in enumerate(common.message(number, data, SEGMENT)) if i not in lose]


def one(n, number, offset, payload, last=False):
    return common.datagram(common.slmp(number, offset, payload, last=last), peer(n), 21000 + n, PORT)


def packets():
    rng = random.Random(12)
    whole = [send(0, 1, 3000), send(1, 1, 3000), send(2, 1, 2999), send(0, 2, 256), send(1, 2, 1), send(3, 7, 0),
             send(4, 0xFFFFFFFF, 64 * SEGMENT, fill=0xFF), send(0, 3, 510, sport=21999), send(5, 5, 1281), send(5, 6, 2)]
    lossy = [send(2, 2, 2000, lose=[3]), send(3, 8, 2000, lose=[0]), send(1, 4, 2000, lose=[7])]
    same = [send(n, 30, 700 + n, sport=21500) for n in range(3)]       # three senders with one port and one number
    first = common.shuffled(rng, whole + lossy + same, window=8, repeats=0.15)
    first += send(1, 2, 1) + send(0, 1, 3000)[:4] + send(3, 7, 0)      # late repeats of what has been summed
    wrong = [
        common.datagram(b"", peer(0), 21000, PORT),
        common.datagram(bytes(11), peer(2), 21000, PORT),
        one(0, 20, 100, bytes(SEGMENT)),                               # offsets: no multiple, too far, at the end of the numbers
        one(0, 20, 64 * SEGMENT, bytes(SEGMENT)),
        one(0, 20, 0xFFFFFF00, bytes(SEGMENT), last=True),
        one(0, 20, 0xFFFFFFFF, bytes(2), last=True),
        one(1, 20, 0, bytes(SEGMENT + 4), last=True),                  # lengths
        one(1, 20, 0, bytes(SEGMENT - 4)),
        one(3, 21, SEGMENT, b"end", last=True),                        # says more after its end, then is whole
        one(3, 21, 2 * SEGMENT, bytes(SEGMENT)),
        one(3, 21, 0, b"word" * (SEGMENT // 4)),
        one(3, 22, 2 * SEGMENT, bytes(SEGMENT)),                       # has said more before its end: never whole
        one(3, 22, 0, bytes(SEGMENT)),
        one(3, 22, SEGMENT, b"end", last=True),
    ]
    out = common.spaced(first + wrong, rng)
    # Later than `idle`: numbers may be used again, and what was given up comes again. The ring turns over.
    again = [send(2, 2, 2000), send(3, 8, 2000, lose=[1])] + [send(4, number, 700) for number in range(9)] + [send(0, 2, 100)]
    later = out[-1][0] + 3 * IDLE
    return out + [(later + t, f) for t, f in common.spaced(common.shuffled(rng, again), rng)]


def words(data):
    data += bytes(-len(data) % 4)
    return struct.unpack(">%dI" % (len(data) // 4), data)


def expected(packets):
    messages = common.Reassembly(SEGMENT, IDLE)
    told = []
    for now, frame in packets:
        whole = messages.packet(now, frame)
        if whole:
            data = b"".join(p.payload for _, (p, _) in sorted(whole["got"].items()))
            (_, port), number = whole["key"]
            told.append(struct.pack("<QIIQQ", len(told) + 1, port, number, len(data), sum(words(data))))
    messages.end()
    ring = [bytes(32)] * RESULTS
    for i, line in enumerate(told):
        ring[i % RESULTS] = line
    return {"report": {**common.ends(packets, messages.drops), "counters": {"complete": len(told)},
                       "open_messages": 0},
            "memory": b"".join(ring)}


def rules(t):
    @t.rule("aggregate: the sums are those of what tshark finds in the datagrams")
    def sums():
        sent = {}                                                      # (port, number) -> address -> offset -> words
        for line in t.tshark("aggregate", "in.pcap", "-Y", "udp.dstport == %d" % PORT, "-T", "fields", "-e", "ip.src", "-e",
                             "ipv6.src", "-e", "udp.srcport", "-e", "udp.payload"):
            v4, v6, port, text = line.split("\t")
            data = bytes.fromhex(text)
            if len(data) >= common.SLMP and len(data) <= common.SLMP + SEGMENT:
                number, offset = struct.unpack(">II", data[4:12])
                sent.setdefault((int(port), number), {}).setdefault(v4 or v6, {})[offset] = data[12:]
        for _, port, number, size, total in struct.iter_unpack("<QIIQQ", t.dump("aggregate")[:32 * RESULTS]):
            if (port, number) == (21000, 2):
                continue                                               # one number twice: not to be told apart by payload alone
            found = [(sum(map(len, parts.values())), sum(sum(words(p)) for p in parts.values()))
                     for parts in sent[port, number].values()]
            t.equal((size, total) in found, True, "message %d of port %d" % (number, port))
