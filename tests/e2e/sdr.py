#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SDR messages between two NICs, each a process of its own on its end of a veth link; and what the wire shows."""

import os
import random
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import HOST4, HOST6, NIC_MAC, Skip, World, config, ip, pk, plain, rule  # noqa: E402

HOST_MAC = "02:00:00:00:00:02"
ENODATA = 61
# SDR itself repeats nothing, and a busy machine may stop a worker for long: so what is in flight at once (slots times
# packets of the largest message) must fit into the driver's ring. That is locked memory, of which a user has 8 MiB.
RING = 512


class Pair:
    """Two NICs and a QP on each; `there` sends to `here` unless said otherwise."""

    def __init__(self, w, sdr, family=4, workers=1, more="", sniffed=False):
        self.w, self.sdr, self.family = w, sdr, family
        self.number = self.received = 0
        more += "\nworkers = %d" % workers
        ip("link", "set", "host0", "arp", "off")
        # Past the queueing discipline, which is the driver's default, a frame passes unseen by the kernel's packet sockets.
        port = "net_af_packet0,iface=%s,qpairs=%d," + "framecnt=%d,qdisc_bypass=%d" % (RING, not sniffed)
        assert sdr.slots * sdr.max_bytes // sdr.mtu < RING * 3 // 4
        self.here = w.nic(config(more=more, mac=HOST_MAC, ip4=HOST4, ip6=HOST6), eal=("--vdev", port % ("host0", workers)),
                          space=None)
        self.there = w.nic(config(more=more), eal=("--vdev", port % ("nic0", workers)))
        words = ("qpn=%d rkey=%d mtu=%d chunk=%d max=%d slots=%d generations=%d channels=%d split=%d+%d+%d family=%d" %
                 (sdr.qp, sdr.rkey, sdr.mtu, sdr.chunk, sdr.max_bytes, sdr.slots, sdr.generations, sdr.channels, *sdr.split,
                  family))
        infos = [nic.ask("qp", 0, words)[0] for nic in (self.here, self.there)]
        self.here.ask("connect", 0, infos[1])
        self.there.ask("connect", 0, infos[0])

    def transfer(self, lengths, immediates, stream=0):
        """All of them at once, as many as there are slots in a turn; every byte and immediate must be the sender's. Returns the
        messages' bytes. The buffers lie apart; what lies between them must stay untouched."""
        slots, gap = self.sdr.slots, 64
        room = self.sdr.max_bytes + gap
        data = [random.Random(1000 + self.number + i).randbytes(n) for i, n in enumerate(lengths)]
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        self.there.ask("load", 0, self.w.write("source", b"".join(data) or b"\0"))
        self.here.ask("room", 0, room * len(lengths))
        for first in range(0, len(lengths), slots):
            turn = range(first, min(first + slots, len(lengths)))
            for i in turn:
                self.here.ask("post", 0, i * room, self.sdr.max_bytes)
            for i in turn:
                if stream and lengths[i]:
                    self.there.ask("stream", 0, starts[i], lengths[i], immediates[i], stream)
                else:
                    self.there.ask("send", 0, starts[i], lengths[i], immediates[i])
            for i in turn:
                message, length, packets, told, immediate = map(int, self.here.ask("finish", 0, 50))
                expected = max(1, -(-lengths[i] // self.sdr.mtu))
                assert (message, length, packets) == (self.number + i, lengths[i], expected), (message, length, packets)
                whole = self.sdr.split[2] and expected >= 32 // self.sdr.split[2]
                assert (told, immediate) == (0, immediates[i]) if whole else told == -ENODATA, (i, told, hex(immediate))
            self.there.ask("sent", 0)
        self.here.ask("save", 0, self.w.path("saved"))
        with open(self.w.path("saved"), "rb") as f:
            saved = f.read()
        assert len(saved) == room * len(lengths)
        for i, part in enumerate(data):
            assert saved[i * room:(i + 1) * room] == part.ljust(room, b"\0"), "message %d differs" % (self.number + i)
        self.number += len(lengths)
        return data

    def stop(self):
        """Both reports. Nothing may have been dropped, but what is nobody's (the kernel's chatter on the link)."""
        reports = self.here.stop(), self.there.stop()
        for r in reports:
            strange = {name: n for name, n in r["drops"].items() if n and name != "no-match"}
            assert not strange, strange
        return reports


def lengths_of(sdr, count, seed):
    r = random.Random(seed)
    fixed = [0, 1, sdr.mtu - 1, sdr.mtu, sdr.mtu + 1, sdr.chunk, sdr.max_bytes - 1, sdr.max_bytes]
    return (fixed + [r.randrange(sdr.max_bytes + 1) for _ in range(count)])[:count]


def immediates_of(count, seed):
    r = random.Random(seed)
    return [r.randrange(1 << 32) for _ in range(count)]


def crosses(family, workers, channels):
    sdr = pk.Sdr(qp=0x2000, rkey=0xDEADBEEF, mtu=1024, chunk=4096, max_bytes=65536, slots=4, generations=4, channels=channels)
    with World(addresses=False) as w:
        pair = Pair(w, sdr, family, workers)
        pair.transfer(lengths_of(sdr, 40, family), immediates_of(40, family))
        here, there = pair.stop()
        assert here["contexts"]["sdr"]["packets"] > 500
        if workers > 1:
            assert all(x["packets"] > 50 for x in here["workers"]), "one worker had it all: %s" % here["workers"]


@rule
def messages_cross_over_ipv4_with_one_worker():
    crosses(4, 1, 1)


@rule
def messages_cross_over_ipv6_with_one_worker():
    crosses(6, 1, 1)


@plain
@rule
def messages_cross_over_ipv4_with_two_workers():
    crosses(4, 2, 4)


@rule
def messages_cross_over_ipv6_with_two_workers():
    crosses(6, 2, 4)


@rule
def streams_whose_last_piece_comes_first_arrive_whole():
    sdr = pk.Sdr(qp=0x300, rkey=7, mtu=512, chunk=2048, max_bytes=32768, slots=4, generations=2, channels=2)
    with World(addresses=False) as w:
        pair = Pair(w, sdr)
        pair.transfer([1, 511, 513, 5000, 32767, 32768, 20000, 4096], immediates_of(8, 3), stream=1024)
        pair.stop()


@rule
def other_splits_of_the_immediate_work():
    for split in ((8, 22, 2), (12, 20, 0), (4, 12, 16)):
        sdr = pk.Sdr(qp=0x4000, rkey=1, mtu=256, chunk=1024, max_bytes=16384, slots=4, generations=3, channels=1, split=split)
        with World(addresses=False) as w:
            pair = Pair(w, sdr)
            pair.transfer(lengths_of(sdr, 14, 5), immediates_of(14, 6))
            pair.stop()


# ---- the wire ----------------------------------------------------------------------------------------------------------

LEND_MIN = 1024  # payload of so many bytes and more goes to the driver from where it lies


WIRES, CAPTURES = {}, None


def wire(family, check, mtu=1000):
    """Hands over what messages look like: the parameters, the messages, the capture's path, its RoCE frames."""
    if (family, mtu) not in WIRES:
        WIRES[family, mtu] = run_messages(family, mtu)
    check(*WIRES[family, mtu])


def run_messages(family, mtu):
    global CAPTURES
    sdr = pk.Sdr(qp=0x123450, rkey=0x8899AABB, mtu=mtu, chunk=4 * mtu, max_bytes=40 * mtu, slots=4, generations=3, channels=2)
    lengths = [0, 1, 2, 3, 4, 5, mtu - 1, mtu, mtu + 1, 40 * mtu - 1, 40 * mtu, 12345, 23456, 34567]
    immediates = immediates_of(len(lengths), 11)
    with World(addresses=False) as w:
        pair = Pair(w, sdr, family, sniffed=True)
        sniffer = net.Sniffer("host0")
        data = pair.transfer(lengths, immediates)
        large = sum(len(part) >= LEND_MIN for d in data for part in (d[i:i + mtu] for i in range(0, len(d), mtu)))
        lent = pair.stop()[1]["contexts"]["sdr"]["lent"]
        # What waits for a neighbour is copied.
        assert large * 0.9 <= lent <= large, "%d of %d large packets were lent" % (lent, large)
        frames = sniffer.stop()
        l4 = 34 if family == 4 else 54
        roce = [f for f in frames if f[12:14] == (b"\x08\x00" if family == 4 else b"\x86\xdd") and
                f[23 if family == 4 else 20] == 17 and f[l4 + 2:l4 + 4] == struct.pack(">H", 4791)]
        CAPTURES = CAPTURES or tempfile.TemporaryDirectory(prefix="spindle-e2e-")
        capture = pk.write_capture(os.path.join(CAPTURES.name, "%d-%d.pcap" % (family, mtu)), frames)
        return sdr, data, immediates, capture, roce


def value(name, text):
    """A field of tshark's: bits are 1 or True, the immediate is plain hexadecimal and stands there twice."""
    if name in ("bth.se", "bth.a"):
        return int(text in ("1", "True"))
    if name == "immdt":
        assert len(set(text.split(","))) == 1, text
        return int(text.split(",")[0], 16)
    return int(text, 0)


def decodes(family, mtu=1000):
    def check(sdr, data, immediates, capture, roce):
        names = ["bth.opcode", "bth.destqp", "bth.se", "bth.tver", "bth.a", "bth.p_key", "bth.padcnt", "reth.va", "reth.r_key",
                 "reth.dmalen", "immdt", "bth.psn"]
        rows = net.tshark(capture, "infiniband.bth.opcode == 43", *["infiniband." + n for n in names])
        expected = []
        for k, message in enumerate(data):
            count = max(1, -(-len(message) // sdr.mtu))
            for i in range(count):
                part = message[i * sdr.mtu:(i + 1) * sdr.mtu]
                expected.append((43, None, i == count - 1, 0, 0, 65535, -len(part) % 4, k % sdr.slots * sdr.max_bytes + i * sdr.mtu,
                                 sdr.rkey + k // (sdr.slots * sdr.generations), len(part), sdr.immediate(k, i, immediates[k])))
        assert len(rows) == len(expected), "%d packets, expected %d" % (len(rows), len(expected))
        psn, at, channels = {}, 0, set()
        for k, message in enumerate(data):
            count = max(1, -(-len(message) // sdr.mtu))
            first = sdr.qp + k // sdr.slots % sdr.generations * sdr.channels
            for row, want in zip(rows[at:at + count], expected[at:at + count]):
                got = [value(n, v) for n, v in zip(names, row)]
                qp, number = got[1], got.pop()
                assert first <= qp < first + sdr.channels, "message %d on QP %#x" % (k, qp)
                channels.add(qp - first)
                assert tuple(got[:1] + [None] + got[2:]) == want, "message %d: %s, expected %s" % (k, got, want)
                assert number == (psn.get(qp, number - 1) + 1) & 0xFFFFFF, "PSN %d after %d" % (number, psn[qp])
                psn[qp] = number
            at += count
        assert channels == set(range(sdr.channels))
        strange = net.tshark(capture, "_ws.malformed or _ws.expert.severity >= 0x600000", "frame.number", "_ws.expert.message")
        assert not strange, strange[:5]
        # Whatever is RoCE is one of those or a clear-to-send (UC SEND Only).
        others = net.tshark(capture, "udp.dstport == 4791 and infiniband.bth.opcode != 43", "infiniband.bth.opcode")
        assert set(others) == {("36",)} and len(others) + len(rows) == len(roce), others[:5]
    wire(family, check, mtu)


@plain
@rule
def tshark_decodes_uc_write_only_with_immediate_over_ipv4():
    decodes(4)


@plain
@rule
def tshark_decodes_uc_write_only_with_immediate_over_ipv6():
    decodes(6)


def agrees_with_zlib(family, mtu=1000):
    def check(sdr, data, immediates, capture, roce):
        l3, l4 = 14, 34 if family == 4 else 54
        assert len(roce) > 130
        for f in roce:
            size = struct.unpack_from(">H", f, l4 + 4)[0]
            packet = f[l3:l4 + size]
            assert len(f) >= l4 + size
            assert packet[-4:] == pk.icrc(packet[:-4]), packet.hex()
    wire(family, check, mtu)


@rule
def icrc_agrees_with_zlib_over_ipv4():
    agrees_with_zlib(4)


@rule
def icrc_agrees_with_zlib_over_ipv6():
    agrees_with_zlib(6)


@rule
def payload_sent_from_where_it_lies_is_the_same_on_the_wire_over_ipv4():
    decodes(4, 1436)
    agrees_with_zlib(4, 1436)


@plain
@rule
def payload_sent_from_where_it_lies_is_the_same_on_the_wire_over_ipv6():
    decodes(6, 1416)
    agrees_with_zlib(6, 1416)


@rule
def headers_and_checksums_are_those_of_rocev2():
    def check(sdr, data, immediates, capture, roce):
        family = 4 if roce[0][12:14] == b"\x08\x00" else 6
        rows = net.tshark(capture, "udp.dstport == 4791", "ip.checksum.status", "udp.checksum", "ip.flags.df", "ip.len", "udp.length",
                          "udp.srcport", "ip.ttl", "ipv6.hlim", "ipv6.plen")
        assert len(rows) == len(roce)
        for status, udp, df, total, length, source, ttl, hops, plen in rows:
            assert int(udp, 16) == 0 and int(source) >= 0xC000, (udp, source)
            if family == 4:
                assert status == "1" and df in ("1", "True") and int(total) == int(length) + 20 and int(ttl) == 64
            else:
                assert int(plen) == int(length) and int(hops) == 64
        # One flow per QP, and another one for another QP: entropy for RSS and ECMP.
        l4 = 34 if family == 4 else 54
        flows = {}
        for f in roce:
            if f[l4 + 8] == 43:
                flows.setdefault(f[l4 + 13:l4 + 16], set()).add(f[l4:l4 + 2])
        assert all(len(v) == 1 for v in flows.values()) and len(set.union(*flows.values())) >= len(flows) - 1, flows
        # Ethernet: from NIC to NIC.
        assert {(f[:6], f[6:12]) for f in roce} == {(pk.mac_bytes(a), pk.mac_bytes(b)) for a, b in
                                                    ((HOST_MAC, NIC_MAC), (NIC_MAC, HOST_MAC))}
    wire(4, check)
    wire(6, check)


@rule
def nics_resolve_each_other_by_arp_and_nd():
    """There is nobody else on the link, and nothing was configured: a question, its answer, then the packets."""
    def check(sdr, data, immediates, capture, roce):
        macs = {pk.mac_bytes(NIC_MAC), pk.mac_bytes(HOST_MAC)}
        frames = [f for _, f in pk.read_capture(capture)]
        if roce[0][12:14] == b"\x08\x00":
            kinds = [(f[20:22], f) for f in frames if f[12:14] == b"\x08\x06"]
            ask, tell = b"\0\1", b"\0\2"
        else:
            kinds = [(f[54:55], f) for f in frames if f[12:14] == b"\x86\xdd" and f[20] == 58]
            ask, tell = b"\x87", b"\x88"
        asked, told = ([f for kind, f in kinds if kind == wanted and f[6:12] in macs] for wanted in (ask, tell))
        assert asked and told, "%d questions, %d answers" % (len(asked), len(told))
        assert asked[0][0] & 1 and told[0][:6] == asked[0][6:12], "a question to all, an answer to who asked"
        assert frames.index(asked[0]) < frames.index(told[0]) < frames.index(roce[0])
        bad = net.tshark(capture, "_ws.malformed or icmpv6.checksum.status == 0", "frame.number")
        assert not bad, bad
    wire(4, check)
    wire(6, check)


# ---- without the kernel ------------------------------------------------------------------------------------------------

@rule
def a_path_mtu_of_4096_crosses_from_virtio_user_to_vhost():
    """A vhost-user link between two processes: the only virtual one whose drivers take an MTU of 4180."""
    sdr = pk.Sdr(mtu=4096, chunk=16384, max_bytes=1 << 18, slots=4, generations=2)
    lengths, data = [0, 1, 4095, 4096, 4097, 100000, 1 << 18, 200001], random.Random(1).randbytes(1 << 18)
    with World(addresses=False) as w:
        path = w.path("vhost")
        if len(path) > 100:
            raise Skip("the path of the temporary directory is too long for a socket")
        nics = [w.nic(config("net_vhost0", mac=HOST_MAC, ip4=HOST4, ip6=HOST6, more="mtu = 4180"),
                      eal=("--vdev", "net_vhost0,iface=%s,queues=1" % path)),
                w.nic(config("net_virtio_user0", more="mtu = 4180"),
                      eal=("--vdev", "net_virtio_user0,path=%s,queues=1,queue_size=1024" % path))]
        words = "family=6 mtu=%d chunk=%d max=%d slots=%d generations=%d" % (sdr.mtu, sdr.chunk, sdr.max_bytes, sdr.slots,
                                                                            sdr.generations)
        infos = [nic.ask("qp", 0, words)[0] for nic in nics]
        nics[0].ask("connect", 0, infos[1])
        nics[1].ask("connect", 0, infos[0])
        for here, there in (nics, nics[::-1]):
            there.ask("load", 0, w.write("source", data))
            here.ask("room", 0, len(lengths) << 18)
            for first in range(0, len(lengths), sdr.slots):
                turn = range(first, first + sdr.slots)
                for i in turn:
                    here.ask("post", 0, i << 18, 1 << 18)
                    there.ask("send", 0, 0, lengths[i], 77)
                for i in turn:
                    assert int(here.ask("finish", 0, 50)[1]) == lengths[i]
                there.ask("sent", 0)
            here.ask("save", 0, w.path("saved"))
            with open(w.path("saved"), "rb") as f:
                assert f.read() == b"".join(data[:n].ljust(1 << 18, b"\0") for n in lengths)
        for nic in nics:
            nic.stop()


if __name__ == "__main__":
    net.main()
