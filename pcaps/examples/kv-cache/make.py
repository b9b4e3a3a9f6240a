# SPDX-License-Identifier: BSD-3-Clause
"""Several clients of a memcached over UDP, for kv-cache: every command, right and wrong, and what goes the normal way."""

import collections
import re
import struct

import common
from common import peer, pk

PORT, LARGEST, LONGEST_KEY, LONGEST_LINE = 11211, 1024, 250, 313
SEC = 10 ** 9


def ask(text, n=0, request=None, header=None, sport=None, src=None, dst=None, vlan=(), cut=None, options=b""):
    """The frame of a request of client n."""
    src = src or peer(n)
    payload = (struct.pack(">HHHH", request or 100 + n, 0, 1, 0) if header is None else header) + text
    if cut is not None:
        payload = payload[:cut]
    sport = 24000 + n if sport is None else sport
    dst = dst or (common.NIC6 if common.base.is6(src) else common.NIC)
    body = common.base.udp(payload, sport, PORT, src, dst)
    more = {"ihl": 5 + len(options) // 4, "options": options} if options else {}
    return common.base.frame(common.base.ip(body, src, dst, 17, **more), common.peer_mac(src), common.MAC, vlan)


def store(key, data, flags=0, expires=0, length=None, more=b"", end=b"\r\n", **where):
    head = b"set %s %d %d %d%s\r\n" % (key, flags, expires, len(data) if length is None else length, more)
    return ask(head + data + end, **where)


def packets():
    out, now = [], 0

    def put(frame, wait=SEC // 1000):
        nonlocal now
        out.append((now, frame))
        now += wait

    put(ask(b"get nothing\r\n"))
    put(store(b"apple", b"red", flags=7))
    put(ask(b"get apple\r\n", n=1))
    put(ask(b"get apple\r\n", n=2))                                    # IPv6
    put(ask(b"get apple\r\n", n=2, vlan=(5,)))
    put(ask(b"get apple\r\n", n=1, vlan=((0x88A8, 3), 42)))
    put(ask(b"get apple\r\n", n=1, options=b"\x01\x01\x01\x00"))
    put(store(b"apple", b"green, and longer than before", flags=4294967295, n=2))
    put(ask(b"get apple\r\n"))
    put(store(b"apple", b"", n=1))                                     # shorter again: nothing at all
    put(ask(b"get apple\r\n", n=2))
    put(store(b"k" * LONGEST_KEY, b"v" * LARGEST, n=3))                # the largest of all, of odd and even lengths
    put(ask(b"get " + b"k" * LONGEST_KEY + b"\r\n", n=3))
    put(ask(b"get " + b"k" * LONGEST_KEY + b"\r\n", n=5))
    put(store(b"odd", b"\r\nEND\r\n\0\xff" * 9, n=4))                  # bytes that look like something
    put(ask(b"get odd\r\n", n=4))
    put(store(b"odd2", bytes(range(255)), n=5))
    put(ask(b"get odd2\r\n", n=5))
    put(ask(b"get odd2 apple\r\n", n=5))                               # two keys are not known here
    put(store(b"apple", b"quiet", more=b" noreply"))
    put(ask(b"get apple\n", n=4))                                      # without CR
    put(ask(b"delete apple\r\n", n=1))
    put(ask(b"delete apple\r\n", n=1))
    put(ask(b"get apple\r\n", n=1))
    put(ask(b"  delete   odd2\r\n", n=2))
    put(ask(b"get odd2\r\n", n=2))
    # Time: 2 s, then gone; gone at once; a month is the longest; a date is refused, and leaves what is there.
    put(store(b"short", b"lived", expires=2), SEC)
    put(ask(b"get short\r\n"), SEC)
    put(ask(b"get short\r\n"))
    put(store(b"gone", b"already"))
    put(store(b"gone", b"already", expires=-1))
    put(ask(b"get gone\r\n"))
    put(store(b"month", b"moon", expires=2592000))
    put(store(b"month", b"date", expires=2592001))
    put(ask(b"get month\r\n"))
    # What is not exactly one request that is known.
    for n, text in enumerate([
            b"get\r\n", b"\r\n", b"get month", b"", b"  \r\n", b"GET month\r\n", b"incr month 1\r\n", b"set month\r\n",
            b"set month 0 0\r\nmoon\r\n", b"set month x 0 4\r\nmoon\r\n", b"set month 0 x 4\r\nmoon\r\n", b"set month 0 0 x\r\nmoon\r\n",
            b"set month 0 0 -4\r\nmoon\r\n", b"set month 4294967296 0 4\r\nmoon\r\n", b"set month 0 0 99999999999\r\nmoon\r\n",
            b"set month 0 0 4294967294\r\nmoon\r\n", b"set month 0 0 4\r\nmoons\r\n", b"set month 0 0 4\r\nmoon", b"set month 0 0 5\r\nmoon\r\n",
            b"set month 0 0 4\r\nmoonXY", b"set month 0 0 0\r\n", b"set month 0 0 4\r\n", b"get " + b"k" * 251 + b"\r\n",
            b"get month \x01\r\n", b"get month nothing \x7f x\r\n", b"delete\r\n", b"delete " + b"d" * 251 + b"\r\n",
            b"get month\r\nget month\r\n", b"flush_all\r\nget month\r\n", b"delete month\r\nget month\r\n", b"version\r\n", b"cas month 0 0 1 7\r\nx\r\n",
            b"set month 0 0 4\r\nmoon\r\nget month\r\n", b"get" + b" " * 700 + b"month\r\n",
            b"set " + b"s" * 251 + b" 0 0 1\r\nx\r\n", b"get month\0\r\n", b"getmonth\r\n", b"deletemonth\r\n", b"get month \r\n",
            b"set " + b"s" * 250 + b"7 0 1\r\nx\r\n", b"set month 0 0 18446744073709551620\r\nmoon\r\n", b"month\r\n"]):
        put(ask(text, n=n % 6, request=500 + n))
    put(ask(b"get month\r\n"))                                         # none of this has changed it
    put(store(b"month", b"x" * 1025))                                  # too large, which changes nothing
    put(ask(b"get month\r\n"))
    # Cut off, split, from odd ports, to and from groups.
    put(ask(b"", cut=7))
    put(ask(b"", cut=0))
    put(ask(b"get odd\r\n", header=struct.pack(">HHHH", 1, 0, 2, 0)))
    put(ask(b"get odd\r\n", header=struct.pack(">HHHH", 1, 1, 1, 0)))
    put(ask(b"get odd\r\n", sport=PORT))
    put(ask(b"get odd\r\n", sport=0))
    put(ask(b"get odd\r\n", dst="224.0.0.1"))
    put(ask(b"get odd\r\n", n=2, dst="ff02::1"))
    put(ask(b"get odd\r\n", src="255.255.255.255"))
    put(ask(b"get odd\r\n", header=struct.pack(">HHHH", 65535, 0, 1, 77)))  # what is reserved does not matter
    for n in (0, 2):                                                   # answers whose checksum is 0, which UDP writes as 0xFFFF
        src, dst = (common.NIC6, peer(n)) if n else (common.NIC, peer(n))
        body = common.base.udp(struct.pack(">HHHH", 0, 0, 1, 0) + b"END\r\n", PORT, 24000 + n, src, dst)
        put(ask(b"get nothing\r\n", n=n, request=struct.unpack(">H", body[6:8])[0]))
    # Many keys, for tables of all sizes.
    for i in range(12):
        put(store(b"key%d" % i, b"value %d" % i, n=i % 6))
        put(ask(b"get key%d\r\n" % (i // 3), n=i % 5))
        put(ask(b"get key%d\r\n" % i, n=i % 5))
    for i in range(12):
        put(ask(b"get key%d\r\n" % i, n=i % 6))
    return out


class Server:
    """What the NIC has to know. table: key -> [flags, data, gone at], the latest ones up to as many as `entries`."""

    def __init__(self, entries):
        self.entries, self.table, self.counters, self.drops, self.forwarded = entries, {}, collections.Counter(), {}, 0

    def request(self, text, now):
        """The answer, or None: not exactly one request that is known."""
        line, end, data = text.partition(b"\r\n")
        words = line.split()
        if not end or not words or b"\n" in line or line != line.rstrip() or b"\0" in line or len(line) > LONGEST_LINE:
            return None
        if len(words) < 2 or len(words[1]) > LONGEST_KEY:
            return None
        name, key = words[:2]
        for k in [k for k, entry in self.table.items() if entry[2] <= now]:
            del self.table[k]
        if name == b"get" and len(words) == 2 and not data:
            self.counters["hits" if key in self.table else "misses"] += 1
            flags, value, _ = self.table.get(key, (0, b"", 0))
            return (b"VALUE %s %d %d\r\n%s\r\n" % (key, flags, len(value), value) if key in self.table else b"") + b"END\r\n"
        if name == b"delete" and len(words) == 2 and not data:
            return b"DELETED\r\n" if self.table.pop(key, None) else b"NOT_FOUND\r\n"
        if name != b"set" or len(words) != 5 or not all(re.fullmatch(rb"[+-]?\d+", w) for w in words[2:]):
            return None
        flags, expires, length = map(int, words[2:])
        if not 0 <= flags < 1 << 32 or expires > 30 * 86400 or not 0 <= length <= LARGEST:
            return None
        if len(data) != length + 2 or not data.endswith(b"\r\n"):
            return None
        self.counters["sets"] += 1
        if key not in self.table and len(self.table) == self.entries:
            self.table.popitem()
            self.counters["evicted"] += 1
        self.table[key] = [flags, data[:-2], now + expires * SEC if expires > 0 else 0 if expires else float("inf")]
        return b"STORED\r\n"

    def packet(self, now, frame):
        """The frame of the answer, or None."""
        d = common.read_datagram(frame)
        plain = frame[12:15] != b"\x08\x00\x46"                          # no IP options
        group = d.src[0] >= 224 and len(d.src) == 4 or d.dst[0] >= (224 if len(d.dst) == 4 else 255)
        if not group and len(d.payload) >= 8 and d.payload[2:6] == b"\0\0\0\1" and not (frame[0] | frame[6]) & 1 and plain:
            text = self.request(d.payload[8:], now)
            if text:
                src, dst = (":".join("%x" % w for w in struct.unpack(">8H", a)) if len(a) == 16 else ".".join(map(str, a))
                            for a in (d.dst, d.src))
                body = common.base.udp(d.payload[:6] + b"\0\0" + text, PORT, d.sport, src, dst)
                whole = common.base.ip(body, src, dst, 17)
                tags = frame[12:].split(b"\x08\x00\x45" if len(d.src) == 4 else b"\x86\xdd\x60", 1)[0] \
                    if frame[12:14] in (b"\x81\x00", b"\x88\xa8") else b""
                return frame[6:12] + frame[:6] + tags + (b"\x86\xdd" if len(d.src) == 16 else b"\x08\x00") + whole
        self.forwarded += 1
        return None


def served(packets, entries=1 << 13):
    server = Server(entries)
    answers = [(now, answer) for now, frame in packets for answer in [server.packet(now, frame)] if answer]
    counters = {name: server.counters[name] for name in ("hits", "misses", "sets", "evicted")}
    return {"report": {"counters": counters, "dropped": 0, "forwarded": server.forwarded, "errors": 0},
            "sent": answers}


def expected(packets):
    return served(packets)


def rules(t):
    @t.rule("kv-cache: a table of one entry keeps what was stored last")
    def full():
        want = served(t.packets("kv-cache"), entries=1)
        report, sent = t.replay("kv-cache", {"entries": 1})
        t.subset(report, want["report"])
        t.same_packets(sent, want["sent"])
        t.equal(report["counters"]["evicted"] > 5, True)

    @t.rule("kv-cache: tshark finds right checksums, and by its memcache dissector the keys, flags and lengths that were stored")
    def dissected():
        checks = t.tshark("kv-cache", "expected.pcap", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T",
                          "fields", "-e", "udp.checksum.status", "-e", "ip.checksum.status")
        t.equal(set(checks), {"1\t1", "1\t"})                         # IPv6 has none of its own
        # The dissector knows nothing of the eight bytes before the text, so it gets the text alone.
        texts = [common.read_datagram(frame).payload[8:] for _, frame in pk.read_capture(t.path("kv-cache", "expected.pcap"))]
        bare = common.pk.write_capture(t.new("bare.pcap"), [
            (i, common.base.frame(common.base.ip(common.base.udp(text, PORT, 24000, common.NIC, peer(0)), common.NIC, peer(0), 17)))
            for i, text in enumerate(texts)])
        lines = t.tshark("kv-cache", bare, "-T", "fields", "-E", "occurrence=f", "-e", "memcache.key", "-e", "memcache.flags", "-e",
                         "memcache.value.length", "-e", "memcache.response", "-e", "_ws.malformed")
        t.equal(len(lines), len(texts))
        stored = {}                                                    # by our own dissection of the questions
        for _, frame in t.packets("kv-cache"):
            found = re.match(rb"set (\S+) (\d+) \S+ (\d+)", common.read_datagram(frame).payload[8:])
            if found:
                stored.setdefault(found[1].decode(), set()).add((found[2].decode(), found[3].decode()))
        values = 0
        for line, text in zip(lines, texts):
            key, flags, length, response, malformed = line.split("\t")
            t.equal(malformed, "", text)
            if text.startswith(b"VALUE"):
                values += 1
                if int(text.split()[2]) < 1 << 16:                     # the dissector gives up on flags beyond
                    t.equal((flags, length) in stored[key], True, line)
            else:
                t.equal(text.startswith(response.encode()) and (response != "" or b"ERROR" in text), True, text)
        t.equal(values > 20, True)
