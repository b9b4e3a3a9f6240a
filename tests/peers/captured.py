#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The NIC in the place of each end of connections between two Linux hosts: captured.py PROGRAM. TAP. PROGRAM: captured.c.
Captures: nvme.pcap, and those in the directory that SPINDLE_SHARED_PCAPS names, if it does.

One packet after the other, in virtual time. As responder: what the NIC says to each request is what Linux said, packet by
packet, but for what the specification leaves open:
- credits, in the syndrome of an ACK (9.7.7.2): the NIC does not count them, Linux says 31 as well;
- which of the packets that may be acknowledged together are (9.7.5.1.2): here each comes alone;
- the PSN and MSN of the ACK of a duplicate (9.7.5.1.2): of the duplicate, or the latest;
- what is not RDMA: UDP source port, TTL, identification.

As requester: its application posts what Linux's has, when Linux's has, and gets Linux's answers. Its packets are Linux's, byte
by byte from the IP header on, but for addresses, identification, UDP source port, and in the BTH
- AckReq, the requester's choice; but the last packet of a message asks if Linux's did;
- MigReq, the state of path migration, which neither end has: the NIC says "migrated", Linux 0;
hence also but for the checksums over these: of IPv4, and the ICRC, which must be right.

Behind each SEND that invalidates a key: what was allowed with this key right before is refused, and reaches no memory."""

import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import packets as pk  # noqa: E402
import rc_replay as rc  # noqa: E402

OWN, PEER = ("192.0.2.2", "2001:db8::2"), ("192.0.2.1", "2001:db8::1")  # tests/lib/dut.c
OWN_MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
SIGNALED, SOLICITED = 2, 4  # handlers/wire/rdma.h, as the next ones
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FETCH_ADD, SEND_INV = 0, 1, 2, 3, 4, 5, 6, 9
INVALIDATING = rc.SEND_LAST_INV, rc.SEND_ONLY_INV
REMOTE_ACCESS = 0x62  # NAK
ROOM = 60000  # bytes that a pipe takes


class Nic:
    """The program."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.out, self.received, self.done, self.ended, self.lines = [], [], [], [], []

    def tell(self, *request):
        """One without an answer but what is kept: receives, completions, what it sends. It is done before what is asked next."""
        line = " ".join(w if isinstance(w, str) else "%x" % w for w in request) + "\n"
        if len(line) + sum(map(len, self.lines)) > ROOM:  # neither waits until the other reads
            self.take()
        self.lines.append(line)

    def take(self):
        """The lines of the answers, each in words, without the first."""
        self.process.stdin.write("".join(self.lines))
        self.process.stdin.flush()
        said, wanted, self.lines = [], len(self.lines), []
        while wanted:
            line = self.process.stdout.readline()
            if not line or line.startswith("not ok"):
                raise AssertionError("it ended: " + line)
            if line == "ok\n":
                wanted -= 1
                continue
            first, *words = line.split()
            kept = {"receive": self.received, "done": self.done, "ended": self.ended, "sent": self.out}.get(first, said)
            if kept is not said or first in ("key", "qp", "memory"):
                kept.append(words)
        return said

    def ask(self, *request):
        self.take()
        self.tell(*request)
        return self.take()

    def begin(self, six):
        self.take()
        self.out, self.received, self.done, self.ended = [], [], [], []
        self.six = six

    def packets(self):
        """What it has sent: requests, answers."""
        self.take()
        packets = [rc.Packet(0, 0, bytes.fromhex(words[0])) for words in self.out]
        assert all(x.whole for x in packets), "an ICRC is wrong"
        return [x for x in packets if x.op not in rc.ANSWERS], [x for x in packets if x.op in rc.ANSWERS]

    def end(self):
        self.take()
        self.process.stdin.close()
        said = self.process.stdout.read()
        assert self.process.wait() == 0, said


def told(flow, answers):
    """The difference from what Linux said, packet by packet."""
    known = {(r.psn + flow.span(r) - 1) & rc.MASK: m for r, v, m in flow.steps() if v == "new"}
    last = max(known, key=lambda psn: rc.distance(psn, flow.requests[0].psn))
    for k, (linux, ours) in enumerate(zip(flow.answers, answers)):
        a, b = list(linux.answer()), list(ours.answer())
        if a[0] == b[0] == "ACK" and not a[2] and not b[2] and rc.distance(b[1], a[1]) > 0:  # of a duplicate: the latest
            if b[1] in known and rc.distance(b[1], last) <= 0:
                a[1], a[3] = b[1], known[b[1]]
        if a != b:
            return "answer %d: %s" % (k, "; ".join("%.200s, not %.200s" % pair for pair in zip(b, a) if pair[0] != pair[1]))
    # Where the capture ends with a request, Linux's answer is not in it.
    missing = sum(r.number > flow.answers[-1].number for r in flow.requests)
    return "" if 0 <= len(answers) - len(flow.answers) <= missing else "%d answers, not %d" % (len(answers), len(flow.answers))


def answer_frame(nic, packet, qp):
    """What Linux has answered, for this QP."""
    ext = b""
    if "msn" in packet.ext:
        ext += struct.pack(">I", packet.ext["syndrome"] << 24 | packet.ext["msn"])
    if "original" in packet.ext:
        ext += struct.pack(">Q", packet.ext["original"])
    head = pk.bth(packet.op, qp, psn=packet.psn, pad=-len(packet.payload) % 4)
    return pk.roce(packet.op, qp, ext, packet.payload, v6=nic.six, raw_bth=head, src=PEER[nic.six], dst=OWN[nic.six],
                   eth={"dst": OWN_MAC, "src": PEER_MAC})


def posted(message):
    """The words of the work request that makes this message."""
    first, last = message[0], message[-1]
    data, ext, word, length = b"".join(x.payload for x in message), first.ext, last.ext.get("imm", 0), 0
    if first.op in rc.WRITE:
        op = WRITE_IMM if "imm" in last.ext else WRITE
    elif first.op in (rc.CAS, rc.FETCH_ADD):
        op, length = (CAS, 8) if first.op == rc.CAS else (FETCH_ADD, 8)
    elif first.op == rc.READ:
        op, length = READ, ext["length"]
    else:
        op = SEND_INV if last.op in INVALIDATING else SEND_IMM if "imm" in last.ext else SEND
    add, swap = ext.get("swap", 0), 0
    if op == CAS:
        add, swap = ext["compare"], ext["swap"]
    return (op, SIGNALED | SOLICITED * last.se, word, ext.get("va", 0), ext.get("rkey", 0), length or len(data), add, swap,
            data.hex() or "-")


def bare(packet):
    """An IP packet without what may differ."""
    six, frame = len(packet.src) == 16, bytearray(packet.frame)
    length = struct.unpack_from(">H", frame, 18 if six else 16)[0] + (40 if six else 0)
    ip = frame[14:14 + length - 4]
    udp = 40 if six else 20
    for begin, end in ((1, 4), (8, 40)) if six else ((4, 6), (10, 20)):  # addresses, and IPv4: identification, checksum
        ip[begin:end] = bytes(end - begin)
    ip[udp:udp + 2] = bytes(2)
    ip[udp + 9] &= ~0x40  # MigReq
    ip[udp + 16] &= ~0x80  # AckReq
    return bytes(ip).hex()


def asked(flow, requests, done):
    """The difference from what Linux asked, packet by packet; and what its requests ended with."""
    last = {m[-1].number for m in flow.messages()}
    for linux, ours in zip(flow.requests, requests):
        if bare(linux) != bare(ours):
            return "request %d: %.300s, not %.300s" % (linux.number, bare(ours), bare(linux))
        if linux.number in last and linux.ack and not ours.ack:
            return "request %d asks for no answer" % linux.number
    if len(requests) != len(flow.requests):
        return "%d requests, not %d" % (len(requests), len(flow.requests))
    acked = [x.psn for x in flow.answers if "msn" in x.ext]

    def has_ended(message):
        end = message[-1].psn + flow.span(message[-1]) - 1 & rc.MASK
        return any(rc.distance(psn, end) >= 0 for psn in acked)
    ended = list(filter(has_ended, flow.messages()))
    if len(done) != len(ended):
        return "%d completions, not %d" % (len(done), len(ended))
    for message, words in zip(ended, done):
        first, want = message[0], b"".join(x.payload for x in message)
        if first.op == rc.READ:
            psns = {first.psn + k & rc.MASK for k in range(flow.span(first))}
            want = b"".join(x.payload for x in flow.answers if x.psn in psns)
        elif first.op in (rc.CAS, rc.FETCH_ADD):
            want = next(struct.pack("=Q", x.ext["original"]) for x in flow.answers if x.psn == first.psn)
        if words != ["0", *([want.hex()] if want else [])]:
            return "request %d has ended with %.200s, not %.200s" % (first.number, " ".join(words), want.hex())
    return ""


def areas(regions):
    """The memory that the regions name, of which several may name the same: (begin, end) of each piece."""
    out = []
    for begin, end in sorted((r["va"], r["va"] + r["len"]) for r in regions):
        if out and begin < out[-1][1]:
            out[-1][1] = max(end, out[-1][1])
        else:
            out.append([begin, end])
    return out


class Talk:
    """The NIC as one end of a connection: `mine` is the flow of its requests, `theirs` of the other end's; one may be None."""

    def __init__(self, nic, mine, theirs):
        self.nic, self.mine, self.theirs = nic, mine, theirs
        self.plan = theirs.plan() if theirs else {"regions": [], "receives": [], "updates": [], "msn": 0, "psn": 1}
        self.back = mine.qp if mine else theirs.back
        nic.begin(len((mine or theirs).src) == 16)
        for begin, end in areas(self.plan["regions"]):
            nic.tell("area", begin, end - begin)
        self.keys = {r["rkey"]: int(nic.ask("key", r["va"], r["len"], r["access"])[0][0], 16) for r in self.plan["regions"]}
        for request in theirs.requests if theirs else ():  # nothing to write needs no key
            self.keys.setdefault(request.ext.get("rkey"), 0)
        self.mtu = max(f.mtu() for f in (mine, theirs) if f)
        # A capture that begins within a connection has an MSN that a new QP cannot have.
        self.qp = int(nic.ask("qp", self.plan["psn"], self.mtu, self.back, int(nic.six))[0][0], 16)
        nic.tell("receives", len(self.plan["receives"]))
        if mine:
            nic.tell("sends", mine.requests[0].psn)
        if theirs:
            self.asker = rc.Asker(theirs, None, self.qp, self.keys, mac=OWN_MAC, own_mac=PEER_MAC, src=PEER[nic.six], dst=OWN[nic.six],
                                  own_qp=self.back)

    def go(self, until=None):
        """All packets of the connection, or as far as this one of theirs."""
        message = {m[0].number: m for m in self.mine.messages()} if self.mine else {}
        index = {x.number: k for k, x in enumerate(self.theirs.requests)} if self.theirs else {}
        packets = [x for f in (self.mine, self.theirs) if f for x in f.requests]
        for packet in sorted(packets + (self.mine.answers if self.mine else []), key=lambda x: x.number):
            if packet.number in message:
                self.nic.tell("post", *posted(message[packet.number]))
            elif packet.number in index:
                for u in self.plan["updates"]:
                    if u["before"] == index[packet.number]:
                        self.nic.tell("store", u["va"], u["data"])
                self.nic.tell("frame", self.asker.frame(packet).hex())
            elif packet.op in rc.ANSWERS:
                self.nic.tell("frame", answer_frame(self.nic, packet, self.qp).hex())
            if packet is until:
                break

    def memory(self):
        return [self.nic.ask("memory", begin, end - begin)[0][0] for begin, end in areas(self.plan["regions"])]

    def wrong(self):
        """The first thing; texts."""
        requests, answers = self.nic.packets()
        if not all(x.qp == self.back for x in requests + answers):
            yield "a packet for somebody else"
        if self.nic.ended:
            yield "a receive has failed"
        if self.mine:
            yield asked(self.mine, requests, self.nic.done)
        elif requests or self.nic.done:
            yield "requests that nobody posted"
        if not self.theirs:
            if answers:
                yield "answers to nothing"
            return
        for x in answers:
            if "msn" in x.ext:
                x.ext["msn"] = (x.ext["msn"] + self.plan["msn"]) & rc.MASK
        yield told(self.theirs, answers)
        for r in self.plan["regions"]:
            if self.nic.ask("memory", r["va"], r["len"])[0][0] != r["after"]:
                yield "memory of key %#x is not what it should be" % r["rkey"]
        want = [["%x" % (len(r["data"]) // 2), "%x" % (r["imm"] or 0), "%x" % self.keys.get(r["invalidates"], 0)] +
                (["-"] if r["write"] else [r["data"]] if r["data"] else []) for r in self.plan["receives"]]
        for a, b in zip(self.nic.received, want):
            if a[b[-1] == "-":] != b[b[-1] == "-":]:  # of a WRITE, the plan has no length
                yield "a receive has %s, not %s" % (a, b)
        if len(self.nic.received) != len(want):
            yield "%d receives, not %d" % (len(self.nic.received), len(want))


def talked(nic, mine, theirs):
    """What is wrong; the first thing."""
    talk = Talk(nic, mine, theirs)
    talk.go()
    wrong = next((text for text in talk.wrong() if text), "")
    nic.tell("end")
    return wrong


def once_more(talk, used, psn):
    """A request with this key behind all others: the answers to it."""
    again = rc.Packet(0, 0, used.frame)
    again.psn, again.ack = psn, 1
    again.op = rc.READ if used.op == rc.READ else rc.WRITE[4]
    again.payload = b"" if used.op == rc.READ else bytes([psn & 0xFF]) * 16
    again.ext["length"] = len(again.payload) or 16
    count = len(talk.nic.packets()[1])
    talk.nic.tell("frame", talk.asker.frame(again).hex())
    return [x.answer()[:3] for x in talk.nic.packets()[1][count:]]


def refused(nic, mine, theirs):
    """Each key is used once more right before, and right behind, the SEND that invalidates it: what is wrong; the first thing."""
    wrong = ""
    for index, request in enumerate(theirs.requests):
        if request.op not in INVALIDATING:
            continue
        key, psn = request.ext["imm"], request.psn
        used = next(x for x in theirs.requests if x.ext.get("rkey") == key)
        talk = Talk(nic, mine, theirs)
        talk.go(theirs.requests[index - 1])
        said = once_more(talk, used, psn)
        if said != [("READ-ONLY" if used.op == rc.READ else "ACK", psn, 0)]:
            wrong = wrong or "key %#x, before it was invalidated: %s" % (key, said)
        later = rc.Packet(0, 0, request.frame)
        later.psn = psn + 1 & rc.MASK
        nic.tell("frame", talk.asker.frame(later).hex())
        before, psn = talk.memory(), psn + 2 & rc.MASK
        said = once_more(talk, used, psn)
        if said != [("ACK", psn, REMOTE_ACCESS)]:
            wrong = wrong or "key %#x, after it was invalidated: %s" % (key, said)
        if talk.memory() != before:
            wrong = wrong or "key %#x has reached memory after it was invalidated" % key
        nic.tell("end")
    return wrong


def nvme_is_whole():
    """Whether the capture has what it is for: commands Connect, Identify, Read, Write; the target reads, writes, invalidates."""
    requests = [x for flow in rc.flows(os.path.join(HERE, "nvme.pcap")) for x in flow.requests]
    commands = {x.payload[0] for x in requests if x.op == rc.SEND_ONLY and len(x.payload) == 64}
    whole = any(x.op == rc.READ and x.ext["length"] == 4096 for x in requests)
    return whole and {0x7F, 6, 2, 1} <= commands and {rc.WRITE[0], rc.SEND_ONLY_INV} <= {x.op for x in requests}


def cases():
    """(name, function, mine, theirs)"""
    directory = os.environ.get("SPINDLE_SHARED_PCAPS")
    paths = [os.path.join(HERE, "nvme.pcap")]
    if directory:
        paths += [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if name.endswith(".pcap")]
    else:
        print("# SPINDLE_SHARED_PCAPS names no captures: only nvme.pcap")
    for path in paths:
        flows = [flow for flow in rc.flows(path) if flow.back is not None]
        for flow in flows:
            def other(f):
                return (f.src, f.dst, f.qp, f.back) == (flow.dst, flow.src, flow.back, flow.qp)
            theirs = next(filter(other, flows), None)
            name = "%s: %s" % (os.path.basename(path), flow.name())
            yield name + ": answers", talked, None, flow
            # What comes again is each requester's own matter.
            if all(verdict == "new" for f in (flow, theirs) if f for _, verdict, _ in f.steps()):
                yield name + ": asks" + (" and answers" if theirs else ""), talked, flow, theirs
                if any(x.op in INVALIDATING for x in flow.requests):
                    yield name + ": invalidated keys", refused, theirs, flow


def main():
    program = sys.argv[1]
    all_cases = list(cases())
    print("1..%d" % (len(all_cases) + 1))
    nic, bad = Nic(program), 0
    for k, (name, function, mine, theirs) in enumerate(all_cases):
        try:
            wrong = function(nic, mine, theirs)
        except (AssertionError, OSError) as e:
            wrong, nic = str(e) or "an assertion", Nic(program)
        bad += wrong != ""
        if wrong:
            print("# " + wrong[:800])
        print("%s %d - %s" % ("not ok" if wrong else "ok", k + 1, name), flush=True)
    nic.end()
    enough = nvme_is_whole() and len(all_cases) >= (30 if os.environ.get("SPINDLE_SHARED_PCAPS") else 10)
    print("%s %d - there are captures enough" % ("ok" if enough else "not ok", len(all_cases) + 1))
    return 1 if bad or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
