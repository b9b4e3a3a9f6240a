# SPDX-License-Identifier: BSD-3-Clause
"""Several clients of a memcached over UDP, for kv-cache: every command, right and wrong, and what may not be answered."""

import collections
import re
import struct

import common
from common import peer, pk

PORT, LARGEST, LONGEST_KEY, WAYS, DATAGRAM = 11211, 1024, 250, 4, 1432
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
    put(ask(b"get odd2 apple nothing  odd\r\n", n=5))
    put(store(b"big1", b"1" * 1000))
    put(store(b"big2", b"2" * 1000))
    put(ask(b"get big1 big2\r\n"))                                     # too much for a datagram
    put(store(b"apple", b"quiet", more=b" noreply"))
    put(ask(b"get apple\n", n=4))                                      # without CR
    put(ask(b"delete apple\r\n", n=1))
    put(ask(b"delete apple\r\n", n=1))
    put(ask(b"get apple\r\n", n=1))
    put(ask(b"delete odd2 noreply\r\n", n=2))
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
    # What is wrong with a request that can be answered.
    for n, text in enumerate([
            b"get\r\n", b"\r\n", b"get month", b"", b"  \r\n", b"GET month\r\n", b"incr month 1\r\n", b"set month\r\n",
            b"set month 0 0\r\nmoon\r\n", b"set month x 0 4\r\nmoon\r\n", b"set month 0 x 4\r\nmoon\r\n", b"set month 0 0 x\r\nmoon\r\n",
            b"set month 0 0 -4\r\nmoon\r\n", b"set month 4294967296 0 4\r\nmoon\r\n", b"set month 0 0 99999999999\r\nmoon\r\n",
            b"set month 0 0 4294967294\r\nmoon\r\n", b"set month 0 0 4\r\nmoons\r\n", b"set month 0 0 4\r\nmoon", b"set month 0 0 5\r\nmoon\r\n",
            b"set month 0 0 4\r\nmoonXY", b"set month 0 0 0\r\n", b"set month 0 0 4\r\n", b"get " + b"k" * 251 + b"\r\n",
            b"get month \x01\r\n", b"get month nothing \x7f x\r\n", b"delete\r\n", b"delete " + b"d" * 251 + b"\r\n",
            b"get month\r\nget month\r\n", b"flush_all\r\nget month\r\n", b"delete month\r\nget month\r\n", b"version\r\n", b"cas month 0 0 1 7\r\nx\r\n",
            b"set month 0 0 4\r\nmoon\r\nget month\r\n", b"get" + b" " * 700 + b"month\r\n",
            b"set " + b"s" * 251 + b" 0 0 1\r\nx\r\n"]):
        put(ask(text, n=n % 6, request=500 + n))
    put(ask(b"get month\r\n"))                                         # none of this has changed it
    put(store(b"month", b"x" * 1025))                                  # well said, but too large: the old value goes
    put(ask(b"get month\r\n"))
    # What gets no answer.
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
    # Many keys, most recently used last, for tables of all sizes.
    for i in range(12):
        put(store(b"key%d" % i, b"value %d" % i, n=i % 6))
        put(ask(b"get key%d\r\n" % (i // 3), n=i % 5))
    for i in range(12):
        put(ask(b"get key%d\r\n" % i, n=i % 6))
    put(ask(b"flush_all\r\n"))
    put(ask(b"get odd\r\n"))
    put(store(b"odd", b"after"))
    put(ask(b"get odd\r\n"))
    put(ask(b"flush_all noreply\r\n"))
    put(ask(b"get odd\r\n"))
    return out


class Server:
    """What the NIC has to know. table: key -> [flags, data, gone at, last used]; ways: entries that it has room for."""

    def __init__(self, behind=False, ways=None):
        self.behind, self.ways, self.table = behind, ways, {}
        self.counters, self.drops, self.forwarded = collections.Counter(), collections.Counter(), 0

    def entry(self, key, now):
        if key in self.table and self.table[key][2] <= now:
            del self.table[key]
        return self.table.get(key)

    def put(self, key, flags, data, gone, now):
        for k in list(self.table):
            self.entry(k, now)
        if self.ways and key not in self.table and len(self.table) == self.ways:
            del self.table[min(self.table, key=lambda k: self.table[k][3])]
            self.counters["evicted"] += 1
        self.table[key] = [flags, data, gone, now]
        self.counters["sets"] += 1

    def bad(self, text):
        self.counters["malformed"] += 1
        return text + b"\r\n"

    def request(self, text, now):
        """The answer, b"": none, None: to the server behind."""
        line, end, data = text.partition(b"\n")
        if not end:
            return self.bad(b"ERROR")
        words = line.removesuffix(b"\r").split()
        if not words:
            return self.bad(b"ERROR")
        name, words = words[0], words[1:]
        good = [w for w in words[:1] if len(w) <= LONGEST_KEY and not re.search(rb"[\x00-\x20\x7f]", w)]
        if name == b"get":
            return self.bad(b"CLIENT_ERROR one request a datagram") if data else self.get(words, now)
        if name not in (b"set", b"delete", b"flush_all") and not self.behind:
            return self.bad(b"ERROR")
        if name == b"flush_all":
            if data:
                return self.bad(b"CLIENT_ERROR one request a datagram")
            self.table.clear()
            answer = b"OK\r\n"
        elif good:
            key, answer = good[0], b"ERROR\r\n"
            old = self.entry(key, now)
            if name == b"set" or data:
                words = words[1:]
                fields = words[:3]
                if len(fields) < 3 or not all(re.fullmatch(rb"-?\d{1,10}" if i == 1 else rb"\d{1,10}", f) and abs(int(f)) < 1 << 32
                                              for i, f in enumerate(fields)):
                    return self.bad(b"CLIENT_ERROR bad command line format")
                flags, expires, length = map(int, fields)
                if expires > 30 * 86400:
                    return self.bad(b"CLIENT_ERROR invalid exptime argument")
                if len(data) != length + 2 or not data.endswith(b"\r\n"):
                    return self.bad(b"CLIENT_ERROR bad data chunk")
                words = words[3:]
                self.table.pop(key, None)
                answer = b"SERVER_ERROR object too large for cache\r\n"
                if name == b"set" and length <= LARGEST:
                    gone = now if fields[1].startswith(b"-") else now + expires * SEC if expires else float("inf")
                    if old:
                        self.table[key] = old
                    self.put(key, flags, data[:-2], gone, now)
                    answer = b"STORED\r\n"
            else:
                self.table.pop(key, None)
                words = words[1:]
                if name == b"delete":
                    self.counters["deletes"] += 1
                    answer = b"DELETED\r\n" if old else b"NOT_FOUND\r\n"
        elif not self.behind or data:
            return self.bad(b"ERROR")
        return None if self.behind else b"" if b"noreply" in words else answer

    def get(self, keys, now):
        text = b""
        for key in keys:
            if len(key) > LONGEST_KEY or re.search(rb"[\x00-\x20\x7f]", key):
                return self.bad(b"CLIENT_ERROR bad key")
            entry = self.entry(key, now)
            self.counters["hits" if entry else "misses"] += 1
            if entry:
                flags, data = entry[:2]
                entry[3] = now
                if len(text) + LONGEST_KEY + 40 + len(data) > DATAGRAM:
                    return None if self.behind else b"SERVER_ERROR too much for a datagram\r\n"
                text += b"VALUE %s %d %d\r\n%s\r\n" % (key, flags, len(data), data)
            elif self.behind:
                return None
        return text + b"END\r\n" if keys else self.bad(b"ERROR")

    def packet(self, now, frame):
        """The frame of the answer, or None."""
        d = common.read_datagram(frame)
        if len(d.payload) < 8:
            self.drops["short-frame"] += 1
        elif d.payload[2:6] != b"\0\0\0\1":
            self.drops["split-request"] += 1
        elif d.src[0] >= 224 and len(d.src) == 4 or d.dst[0] >= (224 if len(d.dst) == 4 else 255):
            self.drops["not-unicast"] += 1
        elif d.sport in (0, PORT):
            self.drops["loop"] += 1
        else:
            text = self.request(d.payload[8:], now)
            self.forwarded += text is None
            if text:
                src, dst = (":".join("%x" % w for w in struct.unpack(">8H", a)) if len(a) == 16 else ".".join(map(str, a))
                            for a in (d.dst, d.src))
                body = common.base.udp(d.payload[:6] + b"\0\0" + text, PORT, d.sport, src, dst)
                whole = common.base.ip(body, src, dst, 17)
                tags = frame[12:].split(b"\x08\x00\x45" if len(d.src) == 4 else b"\x86\xdd\x60", 1)[0] \
                    if frame[12:14] in (b"\x81\x00", b"\x88\xa8") else b""
                return frame[6:12] + frame[:6] + tags + (b"\x86\xdd" if len(d.src) == 16 else b"\x08\x00") + whole
        return None


def served(packets, **how):
    server = Server(**how)
    answers = [(now, answer) for now, frame in packets for answer in [server.packet(now, frame)] if answer]
    counters = {name: server.counters[name] for name in ("hits", "misses", "sets", "deletes", "evicted", "malformed")}
    return {"report": {"counters": counters, "drops": dict(server.drops), "forwarded": server.forwarded, "errors": 0},
            "sent": answers}


def expected(packets):
    return served(packets)


def rules(t):
    @t.rule("kv-cache: a table of four entries loses the one unused for longest")
    def full():
        want = served(t.packets("kv-cache"), ways=WAYS)
        report, sent = t.replay("kv-cache", {"buckets": 1})
        t.subset(report, want["report"])
        t.same_packets(sent, want["sent"])
        t.equal(report["counters"]["evicted"] > 5, True)

    @t.rule("kv-cache: before a server it answers what it has, forgets what changes, and forwards the rest")
    def behind():
        want = served(t.packets("kv-cache"), behind=True)
        report, sent = t.replay("kv-cache", {"behind": "yes"})
        del want["report"]["forwarded"]                                # nothing is behind in this replay: drops of the NIC's
        t.subset(report, want["report"])
        t.same_packets(sent, want["sent"])
        t.equal(len(sent) > 20, True)

    @t.rule("kv-cache: tshark finds right checksums, and by its memcache dissector the keys, flags and lengths that were stored")
    def dissected():
        checks = t.tshark("kv-cache", "expected.pcap", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T",
                          "fields", "-e", "udp.checksum.status", "-e", "ip.checksum.status")
        t.equal(set(checks), {"1\t1", "1\t"})                         # IPv6 has none of its own
        # The dissector knows nothing of the eight bytes before the text, so it gets the text alone.
        texts = [common.read_datagram(frame).payload[8:] for _, frame in t.replay("kv-cache")[1]]
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

    @t.rule("kv-cache: a number of buckets that is no power of two is refused by name")
    def refused():
        t.refused("kv-cache", {"buckets": 3}, "not a power of two")
