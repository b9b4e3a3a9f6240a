#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Captures of reliable connections between two Linux hosts as an oracle: what one asked, what the other answered.

    rc_replay.py list CAPTURE             the connections in it, each way for itself
    rc_replay.py table CAPTURE [N]        requests and answers of flow N (default 0), one packet a line
    rc_replay.py plan CAPTURE [N]         what an answering QP needs, and what it must have done in the end: JSON
    rc_replay.py compare CAPTURE N OTHER  another capture's answers (of its first flow with such PSNs) against Linux's

As a module: flows() reads a capture, Flow.plan() tells how to set up a QP, Asker puts the questions to it over a packet
socket and returns the answers, differences() compares them with Linux's. tests/peers/README.md has an example.

A flow is one direction of a connection: the requests of one end and the other end's answers. The memory of the answering
end is not in a capture, but what a READ or an atomic brought back is: `updates` says what the application there must
have stored before which request.
"""

import collections
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets as pk  # noqa: E402

SEND, WRITE = range(0, 6), range(6, 12)
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = SEND
READ, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK, CAS, FETCH_ADD = range(12, 21)
SEND_LAST_INV, SEND_ONLY_INV = 22, 23
NAMES = ("SEND-FIRST SEND-MIDDLE SEND-LAST SEND-LAST-IMM SEND-ONLY SEND-ONLY-IMM WRITE-FIRST WRITE-MIDDLE WRITE-LAST "
         "WRITE-LAST-IMM WRITE-ONLY WRITE-ONLY-IMM READ READ-FIRST READ-MIDDLE READ-LAST READ-ONLY ACK ATOMIC-ACK CAS "
         "FETCH-ADD ? SEND-LAST-INV SEND-ONLY-INV").split()
ENDS = {2, 3, 4, 5, 8, 9, 10, 11, CAS, FETCH_ADD, SEND_LAST_INV, SEND_ONLY_INV, READ}
STARTS = {0, 4, 5, 6, 10, 11, READ, CAS, FETCH_ADD, SEND_ONLY_INV}
WITH_RETH = {6, 10, 11, READ}
WITH_IMM = {3, 5, 9, 11}
TAKES_RECV = {2, 3, 4, 5, 9, 11, SEND_LAST_INV, SEND_ONLY_INV}
ANSWERS = {READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK}
WITH_AETH = ANSWERS - {READ_MIDDLE}
MASK = 0xFFFFFF
REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 2, 4, 8  # as in verbs.h


def distance(a, b):
    """a - b in the circle of PSNs."""
    d = (a - b) & MASK
    return d - (1 << 24) if d & 0x800000 else d


class Packet:
    """One RC packet: `number` in the capture from 1 on, as tshark counts."""

    def __init__(self, number, when, frame):
        self.number, self.when, self.frame = number, when, frame
        at, kind = 14, frame[12:14]
        while kind == b"\x81\x00":
            kind, at = frame[at + 2:at + 4], at + 4
        if kind == b"\x08\x00":
            length, proto = struct.unpack(">H", frame[at + 2:at + 4])[0], frame[at + 9]
            self.src, self.dst = frame[at + 12:at + 16], frame[at + 16:at + 20]
            udp = at + (frame[at] & 15) * 4
        elif kind == b"\x86\xdd":
            length, proto = struct.unpack(">H", frame[at + 4:at + 6])[0] + 40, frame[at + 6]
            self.src, self.dst = frame[at + 8:at + 24], frame[at + 24:at + 40]
            udp = at + 40
        else:
            raise ValueError("not IP")
        packet = frame[at:at + length]
        if proto != 17 or frame[udp + 2:udp + 4] != b"\x12\xb7" or len(packet) < udp - at + 24:
            raise ValueError("not RoCEv2")
        self.whole = pk.icrc(packet[:-4]) == packet[-4:]
        body = packet[udp - at + 8:-4]
        self.op, flags, _, qp, psn = struct.unpack(">BBHII", body[:12])
        if self.op >= len(NAMES) or NAMES[self.op] == "?":
            raise ValueError("not RC")
        self.se, self.ack, self.qp, self.psn = flags >> 7, psn >> 31, qp & MASK, psn & MASK
        rest, self.ext = body[12:len(body) - (flags >> 4 & 3)], {}
        if self.op in WITH_RETH:
            self.ext = dict(zip(("va", "rkey", "length"), struct.unpack(">QII", rest[:16])))
            rest = rest[16:]
        if self.op in (CAS, FETCH_ADD):
            self.ext = dict(zip(("va", "rkey", "swap", "compare"), struct.unpack(">QIQQ", rest[:28])))
            rest = rest[28:]
        if self.op in WITH_AETH:
            aeth = struct.unpack(">I", rest[:4])[0]
            self.ext, rest = {"syndrome": aeth >> 24, "msn": aeth & MASK}, rest[4:]
        if self.op == ATOMIC_ACK:
            self.ext["original"], rest = struct.unpack(">Q", rest[:8])[0], rest[8:]
        if self.op in WITH_IMM or self.op in (SEND_LAST_INV, SEND_ONLY_INV):
            self.ext["imm"], rest = struct.unpack(">I", rest[:4])[0], rest[4:]
        self.payload = rest

    def row(self):
        """What counts of it, for tables and JSON."""
        row = {"frame": self.number, "op": NAMES[self.op], "psn": self.psn}
        if self.op not in ANSWERS:
            row["ackreq"], row["solicited"] = self.ack, self.se
        return {**row, **self.ext, "bytes": len(self.payload), "payload": self.payload.hex()}

    def answer(self):
        """What an answer says, without what may differ (credits)."""
        syndrome = self.ext.get("syndrome")
        if syndrome is not None and syndrome >> 5 == 0:
            syndrome = 0  # ACK: the rest is credits
        return (NAMES[self.op], self.psn, syndrome, self.ext.get("msn"), self.ext.get("original"), self.payload)


def rc_packets(path):
    out = []
    for number, (when, frame) in enumerate(pk.read_capture(path), 1):
        try:
            out.append(Packet(number, when, frame))
        except (ValueError, struct.error):
            pass
    return out


class Flow:
    def __init__(self, src, dst, qp):
        self.src, self.dst, self.qp = src, dst, qp  # who asks, who answers, the latter's QP number
        self.back = None                            # the asker's QP number
        self.requests, self.answers = [], []

    def name(self):
        address = lambda ip: str(__import__("ipaddress").ip_address(ip))  # noqa: E731
        return "%s -> %s QP %d, back to QP %s" % (address(self.src), address(self.dst), self.qp, self.back)

    def mtu(self):
        """Whole packets of longer messages have it. Without any: what suffices."""
        sizes = [len(x.payload) for x in self.requests + self.answers]
        least = max([256, *sizes])
        return next(m for m in (256, 512, 1024, 2048, 4096) if m >= least)

    def span(self, request):
        """PSNs that it uses."""
        if request.op == READ:
            return max(1, -(-request.ext["length"] // self.mtu()))
        return 1

    def all(self):
        """Requests and answers as they came."""
        return sorted(self.requests + self.answers, key=lambda x: x.number)

    def steps(self):
        """What the answering end does by the specification: (request, verdict, MSN after it) for each request, verdict one of
        new, duplicate, gap, refused (its answer was a NAK), dropped (a gap or refusal before it has not been made good)."""
        nak = {}  # frame number of the request: its NAK
        for answer in self.answers:
            if answer.op == ACK and answer.ext["syndrome"] >> 5 in (1, 3) and answer.ext["syndrome"] != 0x60:
                asked = [r for r in self.requests if r.psn == answer.psn and r.number < answer.number]
                if asked:
                    nak[asked[-1].number] = answer
        expected, msn, waiting, out = self.requests[0].psn, 0, False, []
        base = [x for x in self.answers if "msn" in x.ext]
        for request in self.requests:
            ahead = distance(request.psn, expected)
            if ahead < 0:
                verdict = "duplicate"
            elif ahead > 0:
                verdict, waiting = "dropped" if waiting else "gap", True
            elif request.number in nak:
                verdict, waiting = "refused", True
            else:
                verdict, waiting = "new", False
                expected = (expected + self.span(request)) & MASK
                msn += request.op in ENDS
            out.append((request, verdict, msn))
        # A capture may begin in the middle of a connection: the MSN starts where its first answer says.
        if base:
            known = {(r.psn + self.span(r) - 1) & MASK: m for r, v, m in out if v == "new"}
            first = next((x for x in base if x.op in (ACK, ATOMIC_ACK) and x.psn in known), None)
            if first:
                shift = (first.ext["msn"] - known[first.psn]) & MASK
                out = [(r, v, (m + shift) & MASK) for r, v, m in out]
        return out

    def plan(self):
        """How to set up a QP that can answer, and what it must have done in the end."""
        memory, updates, receives, rights = {}, [], [], {}
        steps, data = self.steps(), {}
        for answer in self.answers:
            data.setdefault((answer.psn, answer.op in (READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY)), answer)
        at = rkey = message = None

        def touch(rkey, va, length, right):
            low, high, old = rights.get(rkey, (va, va, 0))
            rights[rkey] = (min(low, va), max(high, va + length), old | right)

        def store(va, blob):
            for k, byte in enumerate(blob):
                memory[va + k] = byte

        def there(index, va, blob):  # the answer brought this: the application had stored it by then
            changed = [k for k, byte in enumerate(blob) if memory.get(va + k) != byte]
            if changed:
                low, high = changed[0], changed[-1] + 1
                updates.append({"before": index, "va": va + low, "data": blob[low:high].hex()})
                store(va, blob)
        for index, (request, verdict, _) in enumerate(steps):
            if verdict != "new":
                continue
            if request.op in STARTS:
                message = b""
            if request.op in WITH_RETH:
                at, rkey = request.ext["va"], request.ext["rkey"]
                if request.ext["length"]:
                    touch(rkey, at, request.ext["length"], REMOTE_READ if request.op == READ else REMOTE_WRITE)
            if request.op in WRITE:
                store(at, request.payload)
                at += len(request.payload)
            elif request.op == READ:
                brought = b""
                for k in range(self.span(request)):
                    answer = data.get(((request.psn + k) & MASK, True))
                    brought += answer.payload if answer else b""
                there(index, request.ext["va"], brought)
            elif request.op in (CAS, FETCH_ADD):
                va, answer = request.ext["va"], data.get((request.psn, False))
                touch(request.ext["rkey"], va, 8, REMOTE_ATOMIC)
                if answer and answer.op == ATOMIC_ACK:
                    old = answer.ext["original"]
                    there(index, va, struct.pack("=Q", old))
                    new = (old + request.ext["swap"]) & (1 << 64) - 1
                    if request.op == CAS:
                        new = request.ext["swap"] if old == request.ext["compare"] else old
                    store(va, struct.pack("=Q", new))
            elif message is not None:
                message += request.payload
            if request.op in TAKES_RECV:
                word = request.ext.get("imm")
                invalidates = request.op in (SEND_LAST_INV, SEND_ONLY_INV)
                receives.append({"request": index, "data": (message or b"").hex(), "imm": None if invalidates else word,
                                 "invalidates": word if invalidates else None, "solicited": request.se,
                                 "write": request.op in WRITE})
        regions = [{"rkey": k, "va": low, "len": high - low, "access": right,
                    "after": bytes(memory.get(low + i, 0) for i in range(high - low)).hex()}
                   for k, (low, high, right) in sorted(rights.items())]
        return {"flow": self.name(), "qp": self.qp, "back": self.back, "psn": self.requests[0].psn, "mtu": self.mtu(),
                "msn": steps[0][2] - (steps[0][1] == "new" and steps[0][0].op in ENDS) & MASK, "regions": regions,
                "receives": receives, "updates": updates}

    def messages(self):
        """The requests of each message, if each has come once."""
        out = []
        for request in self.requests:
            if request.op in STARTS:
                out.append([])
            out[-1].append(request)
        return out

    def rules(self):
        """What of the captured answers breaks the rules that the comparison rests on: texts. None, or it is no oracle."""
        wrong, steps = [], self.steps()
        acked = {}
        for request, verdict, msn in steps:
            if verdict == "new":
                for k in range(self.span(request)):
                    acked[(request.psn + k) & MASK] = msn
        last = -1
        for answer in self.answers:
            if not answer.whole:
                wrong.append("frame %d: ICRC" % answer.number)
            asked = [r for r in self.requests if r.number < answer.number]
            if answer.psn not in acked and answer.ext.get("syndrome", 0) >> 5 != 3:
                wrong.append("frame %d answers PSN %d, which nobody has sent" % (answer.number, answer.psn))
            elif answer.op == ACK and answer.ext["syndrome"] >> 5 == 0:
                # Linux says the latest MSN, also for a request that came again: never less than that of the PSN.
                low, high = acked[answer.psn], max((m for r, v, m in steps if r in asked), key=lambda m: distance(m, acked[answer.psn]))
                if not 0 <= distance(answer.ext["msn"], low) <= distance(high, low):
                    wrong.append("frame %d: MSN %d for PSN %d, not %d" % (answer.number, answer.ext["msn"], answer.psn, low))
            last = answer.number
        for request, verdict, _ in steps:  # what asks for an answer is answered, if the capture goes on
            if verdict in ("new", "duplicate") and (request.ack or request.op in (READ, CAS, FETCH_ADD)) and request.number < last:
                end = (request.psn + self.span(request) - 1) & MASK
                if not any(a.number > request.number and distance(a.psn, end) >= 0 for a in self.answers):
                    wrong.append("frame %d has no answer" % request.number)
        return wrong


def flows(path):
    """The flows of a capture that have requests, in order of their first."""
    found, loose = {}, collections.defaultdict(list)
    for packet in rc_packets(path):
        key = (packet.src, packet.dst, packet.qp)
        if packet.op in ANSWERS:
            loose[key].append(packet)
        else:
            found.setdefault(key, Flow(*key)).requests.append(packet)
    for (src, dst, qp), answers in loose.items():
        # RC packets do not name their sender's QP: answers belong to the flow whose PSNs they bear.
        def fits(flow):
            mine = {(r.psn + k) & MASK for r in flow.requests for k in range(flow.span(r))}
            return sum(a.psn in mine for a in answers)
        candidates = [f for f in found.values() if (f.src, f.dst) == (dst, src) and f.back is None and fits(f)]
        if candidates:
            best = max(candidates, key=fits)
            best.back, best.answers = qp, answers
    return list(found.values())


def differences(flow, answers, psn=None):
    """Texts: where these answers (Packets in order; psn: of the first request there, if another) differ from what Linux said
    to the same requests. An ACK may stand for those before it, so ACKs count by what they add up to; READ and atomic
    answers and NAKs are compared one by one."""
    shift = 0 if psn is None else flow.requests[0].psn - psn

    def sorted_out(packets, shift):
        single, acks, naks, last = [], {}, [], None
        for x in packets:
            kind, at, syndrome, msn, original, payload = x.answer()
            at = (at + shift) & MASK
            if kind == "ACK" and syndrome:
                naks.append((at, "NAK %#x" % syndrome))
            elif kind == "ACK":
                acks[at] = msn
            else:
                single.append((kind, at, msn, original, payload.hex()))
            if last is None or distance(at, last) > 0:
                last = at
        return single, acks, naks, last
    linux, ours = sorted_out(flow.answers, 0), sorted_out(answers, shift)
    said = []
    for k, what in ((0, "READ and atomic answers"), (2, "NAKs")):
        if linux[k] != ours[k]:
            pair = next(((a, b) for a, b in zip(linux[k], ours[k]) if a != b), None)
            said.append("%s: Linux has %d, this %d%s" % (what, len(linux[k]), len(ours[k]),
                                                         "; first other: %s, not %s" % (pair[1], pair[0]) if pair else ""))
    if linux[3] != ours[3]:
        said.append("last PSN answered: Linux %s, this %s" % (linux[3], ours[3]))
    known = {(r.psn + flow.span(r) - 1) & MASK: m for r, v, m in flow.steps() if v == "new"}
    again = {(r.psn + flow.span(r) - 1) & MASK for r, v, m in flow.steps() if v == "duplicate"}
    most = max(known.values(), default=0)
    for at, msn in ours[1].items():
        right = {known.get(at), linux[1].get(at)}
        if at in again:  # messages behind it may have ended before it came again
            right.update(range(known.get(at, most), most + 1))
        if msn not in right:
            said.append("ACK of PSN %d: MSN %s, not %s" % (at, msn, right))
    return said


class Asker:
    """Puts a flow's requests to a QP. `wire` has send(frame) and wait(wanted, timeout) (tests/e2e/net.py: Sniffer). keys: the
    rkey that stands for each one of the capture; psn: the first one, if the capture's is not wanted; update(va, bytes) is called
    when the application there has to store something, sent(index) behind each request."""

    def __init__(self, flow, wire, qp, keys, psn=None, update=None, mac=pk.MAC, own_mac=pk.PEER_MAC, src=None, dst=None, own_qp=None):
        self.flow, self.wire, self.qp, self.keys, self.update = flow, wire, qp, keys, update
        self.shift = 0 if psn is None else psn - flow.requests[0].psn
        self.v6 = len(flow.src) == 16
        self.eth = {"dst": mac, "src": own_mac}
        self.src = src or (pk.CLIENT6 if self.v6 else pk.CLIENT)
        self.dst = dst or (pk.SERVER6 if self.v6 else pk.SERVER)
        self.own_qp = flow.back if own_qp is None else own_qp
        self.answers = []

    def frame(self, request):
        ext, more = b"", dict(request.ext)
        if "rkey" in more:
            more["rkey"] = self.keys.get(more["rkey"], more["rkey"])  # of no bytes: any
        if request.op in WITH_RETH:
            ext = pk.reth(more["va"], more["rkey"], more["length"])
        elif request.op in (CAS, FETCH_ADD):
            ext = struct.pack(">QIQQ", more["va"], more["rkey"], more["swap"], more["compare"])
        if request.op in (SEND_LAST_INV, SEND_ONLY_INV):
            ext += pk.immdt(self.keys.get(more["imm"], more["imm"]))
        elif "imm" in more:
            ext += pk.immdt(more["imm"])
        head = pk.bth(request.op, self.qp, psn=request.psn + self.shift, se=request.se, pad=-len(request.payload) % 4, ack=request.ack)
        return pk.roce(request.op, self.qp, ext, request.payload, v6=self.v6, raw_bth=head, src=self.src, dst=self.dst, eth=self.eth)

    def take(self, timeout):
        def ours(frame):
            try:
                packet = Packet(0, 0, frame)
            except (ValueError, struct.error):
                return False
            return packet.op in ANSWERS and packet.qp == self.own_qp and packet.dst == pk.ip_bytes(self.src)
        packet = Packet(len(self.answers), 0, self.wire.wait(ours, timeout))
        assert packet.whole, "an answer's ICRC is wrong: %s" % packet.row()
        self.answers.append(packet)
        return packet

    def run(self, timeout=10, sent=None, window=None):
        """All requests in the capture's order. Where Linux's answer came before the next request, it waits for one as far.
        window: how many READs and atomics the QP takes at once, where it may be fewer than Linux's takes; one that comes again
        is then put once it has been answered, as an answer under way may stand for both, and waited for."""
        updates = collections.defaultdict(list)
        for u in self.flow.plan()["updates"]:
            updates[u["before"]].append(u)
        order = {r.number: k for k, r in enumerate(self.flow.requests)}
        reached, newest, early, waiting = None, None, collections.deque(), []

        def take():
            got = self.take(timeout)
            waiting[:] = [psn for psn in waiting if distance(got.psn, psn) < 0]
            return got
        for packet in self.flow.all():
            if packet.op in ANSWERS:
                wanted = (packet.psn + self.shift) & MASK
                alike = packet.op != ACK or packet.ext["syndrome"] >> 5  # these come for themselves, also again
                while alike or reached is None or distance(reached, wanted) < 0:
                    got = early.popleft() if early else take()
                    if reached is None or distance(got.psn, reached) > 0:
                        reached = got.psn
                    if alike and got.psn == wanted and (got.op != ACK or packet.op == ACK):
                        break
                continue
            index = order[packet.number]
            for u in updates[index]:
                assert self.update, "the application has to store something and cannot"
                self.update(u["va"], bytes.fromhex(u["data"]))
            again = False
            if packet.op in (READ, CAS, FETCH_ADD) and window:
                last = (packet.psn + self.shift + self.flow.span(packet) - 1) & MASK
                again = newest is not None and distance(last, newest) <= 0
                while len(waiting) >= window or (again and waiting and distance(waiting[0], last) <= 0):
                    early.append(take())
                if not again:
                    newest = last
                    waiting.append(last)
            self.wire.send(self.frame(packet))
            while again:  # what else comes meanwhile might take its place
                early.append(take())
                again = early[-1].psn != last
            if sent:
                sent(index)
        return self.answers


def table(flow):
    steps = {r.number: (v, m) for r, v, m in flow.steps()}
    for x in flow.all():
        what = {k: v for k, v in x.row().items() if k not in ("frame", "op", "psn")}
        if len(what["payload"]) > 64:
            what["payload"] = what["payload"][:64] + "..."
        for k in ("va", "rkey", "swap", "compare", "original"):
            if k in what:
                what[k] = hex(what[k])
        words = " ".join("%s=%s" % (k, v) for k, v in what.items() if v != "")
        verdict = "%s msn=%d " % steps[x.number] if x.number in steps else ""
        print("%5d %s %-14s psn=%-8d %s%s" % (x.number, "<" if x.op in ANSWERS else ">", NAMES[x.op], x.psn, verdict, words))


def main():
    words = sys.argv[1:]
    if len(words) < 2 or words[0] not in ("list", "table", "plan", "compare") or (words[0] == "compare") != (len(words) == 4):
        sys.exit(__doc__)
    found = flows(words[1])
    if words[0] == "list":
        for number, flow in enumerate(found):
            kinds = collections.Counter(NAMES[x.op] for x in flow.all())
            print("%d: %s; MTU %d; %s" % (number, flow.name(), flow.mtu(), ", ".join("%d %s" % (n, k) for k, n in kinds.items())))
        return 0
    number = int(words[2]) if len(words) > 2 else 0
    if number >= len(found):
        sys.exit("there are %d flows" % len(found))
    flow = found[number]
    if words[0] == "table":
        table(flow)
    elif words[0] == "plan":
        print(json.dumps(flow.plan(), indent=1))
    else:
        other = next((f for f in flows(words[3]) if f.answers and len(f.requests) == len(flow.requests)), None)
        if not other:
            sys.exit("no such flow in " + words[3])
        said = differences(flow, other.answers, other.requests[0].psn)
        print("\n".join(said) or "alike")
        return 1 if said else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
