# SPDX-License-Identifier: BSD-3-Clause
"""Packets and captures in plain Python: what the replay tests feed to the NIC, and an independent opinion of it.

Nothing here is shared with the C code. Every layer takes overrides, so that a test can make it lie about itself.
"""

import struct
import zlib

# ---- one function per layer; each takes the bytes above it -------------------------------------------------------------

SERVER, CLIENT = "192.0.2.1", "192.0.2.2"
SERVER6, CLIENT6 = "2001:db8::1", "2001:db8::2"
MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
ROCE_PORT = 4791
UC_WRITE_ONLY_IMM = 0x2B


def mac_bytes(text):
    return bytes(int(part, 16) for part in text.split(":"))


def ip_bytes(text):
    import ipaddress
    return ipaddress.ip_address(text).packed


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(payload, ethertype, dst=MAC, src=PEER_MAC, vlan=(), pad=True):
    """vlan: (TPID, tag) or tag per level, outermost first."""
    frame = mac_bytes(dst) + mac_bytes(src)
    for tag in vlan:
        tpid, tci = tag if isinstance(tag, tuple) else (0x8100, tag)
        frame += struct.pack(">HH", tpid, tci)
    frame += struct.pack(">H", ethertype) + payload
    return frame.ljust(60, b"\0") if pad else frame


def ipv4(payload, src=CLIENT, dst=SERVER, proto=17, total=None, version=4, ihl=5, tos=0, ttl=64, ident=0, fragment=0x4000,
         check=None, options=b""):
    header = struct.pack(">BBHHHBBH", version << 4 | ihl, tos, 20 + len(options) + len(payload) if total is None else total,
                         ident, fragment, ttl, proto, 0) + ip_bytes(src) + ip_bytes(dst) + options
    header = header[:10] + struct.pack(">H", checksum(header) if check is None else check) + header[12:]
    return header + payload


def ipv6(payload, src=CLIENT6, dst=SERVER6, proto=17, length=None, version=6, traffic=0, flow=0, hops=64):
    return struct.pack(">IHBB", version << 28 | traffic << 20 | flow, len(payload) if length is None else length, proto,
                       hops) + ip_bytes(src) + ip_bytes(dst) + payload


def udp(payload, sport=0xC000, dport=ROCE_PORT, length=None, check=0):
    return struct.pack(">HHHH", sport, dport, 8 + len(payload) if length is None else length, check) + payload


def bth(opcode, qp, psn=0, se=False, pad=0, tver=0, pkey=0xFFFF, ack=False, resv8a=0, mig=True):
    return struct.pack(">BBHII", opcode, se << 7 | mig << 6 | pad << 4 | tver, pkey, resv8a << 24 | qp,
                       ack << 31 | psn & 0xFFFFFF)


def reth(va, rkey, length):
    return struct.pack(">QII", va, rkey, length)


def immdt(value):
    return struct.pack(">I", value)


def icrc(packet):
    """Of an IP packet up to the end of the pad (IBTA annex A17.3.3), as the four bytes that follow it."""
    p = bytearray(packet)
    if p[0] >> 4 == 4:
        header = (p[0] & 15) * 4
        p[1] = p[8] = p[10] = p[11] = 0xFF
    else:
        header = 40
        p[0] |= 0x0F
        p[1] = p[2] = p[3] = p[7] = 0xFF
    p[header + 6] = p[header + 7] = 0xFF  # UDP checksum
    p[header + 12] = 0xFF                 # BTH resv8a
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(p)))


def roce(opcode, qp, ext=b"", payload=b"", v6=False, psn=0, se=False, pad=None, tver=0, bad_icrc=False, cut=0, vlan=(),
         udp_length=None, ip_length=None, frame_pad=True, eth=None, src=None, dst=None, sport=0xC000, dport=ROCE_PORT,
         resv8a=0, ip=None, raw_bth=None):
    """A RoCEv2 frame. cut: bytes missing at its end; pad: pad count to claim (the right number of pad bytes is always added);
    ip, eth: further arguments of those layers."""
    fill = -len(payload) % 4
    transport = (raw_bth if raw_bth is not None else
                 bth(opcode, qp, psn=psn, se=se, pad=fill if pad is None else pad, tver=tver, resv8a=resv8a))
    transport += ext + payload + b"\0" * fill

    def network(body):
        more = dict(ip or {})
        if src:
            more["src"] = src
        if dst:
            more["dst"] = dst
        if v6:
            return ipv6(body, length=ip_length, **more)
        return ipv4(body, total=ip_length, **more)

    datagram = udp(transport + b"\0\0\0\0", sport=sport, dport=dport, length=udp_length)
    packet = network(datagram)
    if len(transport) >= 12:
        end = icrc(packet[:-4])
    else:
        end = b"\0\0\0\0"
    if bad_icrc:
        end = bytes([end[0] ^ 1]) + end[1:]
    frame = ethernet(packet[:-4] + end, 0x86DD if v6 else 0x0800, vlan=vlan, pad=frame_pad, **(eth or {}))
    return frame[:len(frame) - cut] if cut else frame


# ---- captures ------------------------------------------------------------------------------------------------------------

PCAP_US, PCAP_NS, PCAPNG_US, PCAPNG_NS = "pcap-us", "pcap-ns", "pcapng-us", "pcapng-ns"


def write_capture(path, packets, form=PCAP_NS, link=1, start=1700000000000000000):
    """packets: frames, or (nanoseconds after start, frame), or (nanoseconds, frame, length on the wire). Frames alone are 1 us apart."""
    micro = form.endswith("us")
    scale = 1000 if micro else 1
    with open(path, "wb") as f:
        if form.startswith("pcapng"):
            f.write(struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28))
            option = struct.pack("<HHB3xHH", 9, 1, 6 if micro else 9, 0, 0)
            f.write(struct.pack("<IIHHI", 1, 20 + len(option), link, 0, 262144) + option + struct.pack("<I", 20 + len(option)))
        else:
            f.write(struct.pack("<IHHiIII", 0xA1B2C3D4 if micro else 0xA1B23C4D, 2, 4, 0, 0, 262144, link))
        for i, packet in enumerate(packets):
            if not isinstance(packet, tuple):
                packet = (i * 1000, packet)
            stamp, frame, wire = packet if len(packet) == 3 else packet + (len(packet[1]),)
            stamp = (start + stamp) // scale
            if form.startswith("pcapng"):
                body = frame + b"\0" * (-len(frame) % 4)
                f.write(struct.pack("<IIIIIII", 6, 32 + len(body), 0, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), wire) + body +
                        struct.pack("<I", 32 + len(body)))
            else:
                unit = 1000000 if micro else 1000000000
                f.write(struct.pack("<IIII", stamp // unit, stamp % unit, len(frame), wire) + frame)
    return path


def read_capture(path):
    """[(nanoseconds since 1970, frame)] of a little-endian pcap or pcapng file with one interface."""
    with open(path, "rb") as f:
        data = f.read()
    packets = []
    magic = struct.unpack_from("<I", data)[0]
    if magic == 0x0A0D0D0A:
        at, unit = 0, 1000
        while at < len(data):
            kind, size = struct.unpack_from("<II", data, at)
            if kind == 1:
                option = at + 16
                while option < at + size - 4:
                    code, length = struct.unpack_from("<HH", data, option)
                    if code == 9:
                        unit = 10 ** (9 - data[option + 4])
                    if code == 0:
                        break
                    option += 4 + (length + 3) // 4 * 4
            if kind == 6:
                high, low, caplen = struct.unpack_from("<III", data, at + 12)
                packets.append(((high << 32 | low) * unit, data[at + 28:at + 28 + caplen]))
            at += size
        return packets
    unit = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}[magic]
    at = 24
    while at < len(data):
        seconds, fraction, caplen = struct.unpack_from("<III", data, at)
        packets.append((seconds * 1000000000 + fraction * unit, data[at + 16:at + 16 + caplen]))
        at += 16 + caplen
    return packets


# ---- SDR -----------------------------------------------------------------------------------------------------------------

class Sdr:
    """The parameters of an SDR context, as both ends know them."""

    def __init__(self, qp=0x100, rkey=0x1234, mtu=256, chunk=1024, max_bytes=8192, slots=4, generations=2, channels=1,
                 split=(10, 18, 4)):
        self.qp, self.rkey, self.mtu, self.chunk, self.max_bytes = qp, rkey, mtu, chunk, max_bytes
        self.slots, self.generations, self.channels, self.split = slots, generations, channels, split

    def ini(self, name="sdr0", extra=""):
        return ("[context %s]\nhandler = sdr\nqp = %d\nrkey = %d\nmtu = %d\nchunk-bytes = %d\nmax-message-bytes = %d\n"
                "max-messages = %d\ngenerations = %d\nchannels = %d\nsplit = %d+%d+%d\n%s" %
                ((name, self.qp, self.rkey, self.mtu, self.chunk, self.max_bytes, self.slots, self.generations, self.channels) +
                 tuple(self.split) + (extra,)))

    def immediate(self, message, packet, user=0):
        id_bits, offset_bits, user_bits = self.split
        fragment = 0
        if user_bits:
            fragment = user >> (packet % (32 // user_bits)) * user_bits & (1 << user_bits) - 1
        return (message % self.slots) << (32 - id_bits) | packet << user_bits | fragment

    def qpn(self, message, channel=0):
        return self.qp + message // self.slots % self.generations * self.channels + channel % self.channels

    def write(self, message, packet, payload, channel=0, user=0, se=False, psn=None, rkey=None, address=None, length=None,
              immediate=None, qp=None, opcode=UC_WRITE_ONLY_IMM, ext=None, **frame):
        """One packet of message number `message` (counted from 0 for ever); every field can be replaced."""
        if address is None:
            address = message % self.slots * self.max_bytes + packet * self.mtu
        if ext is None:
            ext = (reth(address, self.rkey if rkey is None else rkey, len(payload) if length is None else length) +
                   immdt(self.immediate(message, packet, user) if immediate is None else immediate))
        return roce(opcode, self.qpn(message, channel) if qp is None else qp, ext, payload, se=se,
                    psn=packet if psn is None else psn, **frame)

    def message(self, message, data, user=0, **fields):
        """All packets of a message, in order, spread over the channels."""
        count = max(1, -(-len(data) // self.mtu))
        return [self.write(message, i, data[i * self.mtu:(i + 1) * self.mtu], channel=i, user=user, se=i == count - 1, **fields)
                for i in range(count)]


class SdrReceiver:
    """What an SDR receiver must do with packets that come one after the other: written from the protocol's rules, by sets
    and dictionaries, to be compared with the NIC's bitmaps. posts: receives of the maximum size, queued beforehand. A slot
    goes on to another receive as meant() says; with one generation as soon as its message is complete."""

    def __init__(self, sdr, posts):
        self.sdr, self.posts = sdr, posts
        self.current = [None] * sdr.slots
        self.highest = -1                        # message of which a packet was accepted
        self.newest = {}                         # QP -> newest PSN accepted, its message and packet
        self.rising = set()                      # had new highest messages newer PSNs than their QPs before? {True, False}
        self.messages = [dict(k=k, length=None, got={}, furthest=0, duplicates=0, late=0, user=0, valid=0) for k in range(posts)]
        self.drops = {}
        self.taken = 0
        for k in range(min(posts, sdr.slots)):
            self.begin(k)

    def begin(self, k):
        self.current[k % self.sdr.slots] = self.messages[k]

    def meant(self, slot, generation, packet, qp, psn):
        """The message that a packet is for which does not fit the slot's current one: (what to do, its number)."""
        s, current = self.sdr, self.current[slot]
        ahead = slot if current is None else current["k"] + s.slots
        while ahead // s.slots % s.generations != generation:
            ahead += s.slots
        behind = ahead - s.slots * s.generations
        if ahead >= self.posts:
            return ("late", behind) if behind >= 0 else ("not-posted", ahead)
        if behind < 0 or ahead <= self.highest:
            return "begin", ahead
        if ahead - self.highest > s.slots:
            return "late", behind
        if qp in self.newest and False not in self.rising:
            if self.newer(psn, qp):
                before, message, at = self.newest[qp]
                steps = [(before + n & 0xFFFFFF, at + n * s.channels) for n in range(1, 1 + max(0, packet - at))]
                if True in self.rising and message == behind and (psn, packet) in steps:
                    return "late", behind  # the next packets of the old message, as they were sent
                return "begin", ahead
            if True in self.rising:
                return "late", behind
        return ("begin", ahead) if s.generations > 2 or self.complete(current) else ("late", behind)

    def newer(self, psn, qp):
        """By 24-bit serial number arithmetic: one of the half circle of numbers that follow."""
        newest = self.newest[qp][0]
        return any(number in range(newest + 1, newest + (1 << 23)) for number in (psn, psn + (1 << 24)))

    def drop(self, reason):
        self.drops[reason] = self.drops.get(reason, 0) + 1

    def length(self, message):
        return self.sdr.max_bytes if message["length"] is None else message["length"]

    def bitmap(self, message):
        s, length = self.sdr, self.length(message)
        packets_ = max(1, -(-length // s.mtu))
        per = s.chunk // s.mtu
        return "".join("01"[all(i in message["got"] for i in range(first, min(first + per, packets_)))]
                       for first in range(0, packets_, per))

    def complete(self, message):
        return "0" not in self.bitmap(message)

    def receive(self, qp, immediate, rkey, address, length, payload, se, opcode=UC_WRITE_ONLY_IMM, psn=0):
        s = self.sdr
        id_bits, offset_bits, user_bits = s.split
        slot = immediate >> 32 - id_bits if id_bits else 0
        packet = immediate >> user_bits & (1 << offset_bits) - 1
        if opcode != UC_WRITE_ONLY_IMM:
            return self.drop("bad-opcode")
        if payload and rkey != s.rkey:
            return self.drop("bad-rkey")
        if slot >= s.slots:
            return self.drop("out-of-range")
        if length != len(payload):
            return self.drop("bad-length")
        if length > s.mtu:
            return self.drop("over-mtu")
        if address != slot * s.max_bytes + packet * s.mtu:
            return self.drop("address-mismatch")
        if packet * s.mtu + length > s.max_bytes:
            return self.drop("out-of-range")
        generation = (qp - s.qp) // s.channels
        message = self.current[slot]
        if message is None or message["k"] // s.slots % s.generations != generation:
            verdict, k = self.meant(slot, generation, packet, qp, psn)
            if verdict == "late":
                self.messages[k]["late"] += 1
            if verdict != "begin":
                return self.drop(verdict)
            self.begin(k)
            message = self.current[slot]
        end, last = packet * s.mtu + length, se or length < s.mtu
        known = message["length"]
        if known is not None:
            if end > known or last and end != known:
                return self.drop("beyond-end")
        elif last and message["furthest"] > end:
            return self.drop("beyond-end")
        if length == 0 and packet != 0:
            return self.drop("beyond-end")
        if last:
            message["length"] = end
        message["furthest"] = max(message["furthest"], end)
        self.taken += 1
        if message["k"] > self.highest:
            self.highest = message["k"]
            if qp in self.newest:
                self.rising.add(self.newer(psn, qp))
        if qp not in self.newest or self.newer(psn, qp):
            self.newest[qp] = psn, message["k"], packet
        if packet in message["got"]:
            message["duplicates"] += 1
        else:
            message["got"][packet] = payload
            if user_bits:
                shift, mask = packet % (32 // user_bits) * user_bits, (1 << user_bits) - 1
                if not message["valid"] >> shift & 1:
                    message["user"] |= (immediate & mask) << shift
                    message["valid"] |= mask << shift
        if s.generations == 1 and self.complete(message):
            following = message["k"] + s.slots
            if following < self.posts:
                self.begin(following)

    def receive_frame(self, frame, v6=False):
        """An untagged frame as Sdr.write() makes it."""
        at = 62 if v6 else 42
        opcode, flags = frame[at], frame[at + 1]
        size = struct.unpack_from(">H", frame, at - 4)[0] - 8
        address, rkey, length, immediate = struct.unpack_from(">QIII", frame, at + 12)
        payload = frame[at + 32:at + size - 4 - (flags >> 4 & 3)]
        self.receive(struct.unpack_from(">I", frame, at + 4)[0] & 0xFFFFFF, immediate, rkey, address, length, payload,
                     bool(flags & 0x80), opcode, struct.unpack_from(">I", frame, at + 8)[0] & 0xFFFFFF)

    def report(self):
        """As in the JSON of spindle replay."""
        return [dict(id=m["k"] % self.sdr.slots, generation=m["k"] // self.sdr.slots % self.sdr.generations,
                     packets=len(m["got"]), duplicates=m["duplicates"], late=m["late"], chunk_bitmap=self.bitmap(m),
                     complete=self.complete(m), immediate=m["user"] if m["valid"] == 0xFFFFFFFF else None)
                for m in self.messages]

    def memory(self):
        """As in the dump."""
        data = bytearray(self.posts * self.sdr.max_bytes)
        for m in self.messages:
            for packet, payload in m["got"].items():
                at = m["k"] * self.sdr.max_bytes + packet * self.sdr.mtu
                data[at:at + len(payload)] = payload
        return bytes(data)


# ---- RVMA ----------------------------------------------------------------------------------------------------------------

RVMA_PUT, RVMA_GET, RVMA_DATA, RVMA_POLL, RVMA_ACK, RVMA_NACK, RVMA_HELLO, RVMA_WELCOME, RVMA_BYE = range(0xC0, 0xC9)
RVMA_APPEND = (1 << 64) - 1


def rvma_head(transfer, packet=0, token=0, version=1, flags=0, zero=0):
    return struct.pack(">QQIBBH", token, transfer, packet, version, flags, zero)


def rvma_put(qp, transfer, packet, length, mailbox, key, offset, payload, head=None, **frame):
    """One packet of a put of `length` bytes."""
    ext = rvma_head(transfer, packet, **(head or {})) + struct.pack(">QQQQ", length, mailbox, key, offset)
    return roce(RVMA_PUT, qp, ext, payload, **frame)


def rvma_put_whole(qp, transfer, mailbox, key, offset, data, mtu=256, **more):
    """All packets of a put, in order."""
    return [rvma_put(qp, transfer, i, len(data), mailbox, key, offset, data[i * mtu:(i + 1) * mtu], psn=i, **more)
            for i in range(max(1, -(-len(data) // mtu)))]


def rvma_get(qp, transfer, length, mailbox, key, offset, back=0, head=None, **frame):
    ext = rvma_head(transfer, **(head or {})) + struct.pack(">QQQQII", length, mailbox, key, offset, back, 0)
    return roce(RVMA_GET, qp, ext, **frame)


def rvma_data(qp, transfer, packet, length, get, payload, head=None, **frame):
    return roce(RVMA_DATA, qp, rvma_head(transfer, packet, **(head or {})) + struct.pack(">QQ", length, get), payload, **frame)


def rvma_nack(qp, token, transfer, blocks, reason, **frame):
    return roce(RVMA_NACK, qp, struct.pack(">QQIB3x", token, transfer, blocks, reason), **frame)


def rvma_hello(opcode, qp, own_qp, mtu, window, token, nonce, echo=0, **frame):
    return roce(opcode, qp, struct.pack(">B3xIIIQQQ", 1, own_qp, mtu, window, token, nonce, echo), **frame)


def rvma_bye(qp, token, nonce, **frame):
    return roce(RVMA_BYE, qp, struct.pack(">QQ", token, nonce), **frame)


def rel_poll(poll, begin, from_message, from_unit, reach):
    return b"SPRL" + struct.pack(">BBBBQQQII", 1, 1, 0, 0, poll, begin, from_message, from_unit, reach)


def rel_ack(poll, base, start, end, entries=(), repaired=(0, 0), flags=0):
    """start, end: (message, unit); entries: (message, below, first, bitmap, refused, reason)."""
    body = b"SPRL" + struct.pack(">BBBBQQQQIIHHI", 1, 2, flags, 0, poll, base, start[0], end[0], start[1], end[1], len(entries),
                                 repaired[0], repaired[1])
    for message, below, first, bitmap, refused, reason in entries:
        body += struct.pack(">QIIHBB4x", message, below, first, len(bitmap), refused, reason) + bitmap
    return body


def rvma_datagram(opcode, qp, token, datagram, **frame):
    return roce(opcode, qp, struct.pack(">Q", token), datagram, **frame)
