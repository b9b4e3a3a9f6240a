#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rc_replay.py itself: whether captures bear it out, and whether it sees what is wrong: oracle.py SPINDLE. TAP. Captures:
the directory that SPINDLE_SHARED_PCAPS names, if it does."""

import copy
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import packets as pk  # noqa: E402
import rc_replay as rc  # noqa: E402
from replay import Skip, equal, main, rule  # noqa: E402

QP, BACK, KEY, VA, PSN, MTU = 0x11, 0x12, 0x1234, 0x7F0000001000, 0xFFFFFE, 256


class Responder:
    """As small as can be: one region, messages of whole packets, no loss. Speaks as `wire` does to rc_replay.Asker."""

    def __init__(self, key=KEY):
        self.memory, self.key = bytearray(4096), key
        self.expected, self.msn, self.at, self.out, self.old = PSN, 0, 0, [], {}

    def answer(self, op, psn, payload=b"", more=b"", aeth=True):
        ext = struct.pack(">BBH", 31, self.msn >> 16, self.msn & 0xFFFF) if aeth else b""
        head = pk.bth(op, BACK, psn=psn, pad=-len(payload) % 4)
        self.out.append(pk.roce(op, BACK, ext + more, payload, raw_bth=head, src=pk.SERVER, dst=pk.CLIENT))

    def send(self, frame):
        x = rc.Packet(0, 0, frame)
        assert x.whole and x.qp == QP and x.ext.get("rkey", self.key) == self.key
        again = rc.distance(x.psn, self.expected) < 0
        assert again or x.psn == self.expected, "a gap"
        if x.op == rc.READ:
            self.msn += not again
            at, left, k = x.ext["va"] - VA, x.ext["length"], 0
            parts = max(1, -(-left // MTU))
            for k in range(parts):
                op = rc.READ_ONLY if parts == 1 else rc.READ_FIRST if k == 0 else rc.READ_LAST if k == parts - 1 else rc.READ_MIDDLE
                self.answer(op, x.psn + k & rc.MASK, bytes(self.memory[at + k * MTU:at + min(left, (k + 1) * MTU)]),
                            aeth=op != rc.READ_MIDDLE)
            self.expected = self.expected if again else x.psn + parts & rc.MASK
            return
        if x.op == rc.FETCH_ADD:
            at = x.ext["va"] - VA
            if not again:
                self.msn += 1
                self.old[x.psn] = struct.unpack_from("=Q", self.memory, at)[0]
                struct.pack_into("=Q", self.memory, at, self.old[x.psn] + x.ext["swap"])
                self.expected = x.psn + 1 & rc.MASK
            self.answer(rc.ATOMIC_ACK, x.psn, more=struct.pack(">Q", self.old[x.psn]))
            return
        if not again:
            if x.op in rc.WITH_RETH:
                self.at = x.ext["va"] - VA
            if x.op in rc.WRITE:
                self.memory[self.at:self.at + len(x.payload)] = x.payload
                self.at += len(x.payload)
            self.msn += x.op in rc.ENDS
            self.expected = x.psn + 1 & rc.MASK
        if x.ack:
            self.answer(rc.ACK, self.expected - 1 & rc.MASK if again else x.psn)

    def wait(self, wanted, _):
        while self.out:
            frame = self.out.pop(0)
            if wanted(frame):
                return frame
        raise AssertionError("no such frame")


def made(run, name="made.pcap"):
    """A capture of the responder's: a SEND, a WRITE of three packets, a READ of it, an atomic that comes twice."""
    def ask(op, psn, ext=b"", payload=b"", ack=False):
        head = pk.bth(op, QP, psn=psn & rc.MASK, pad=-len(payload) % 4, ack=ack)
        return pk.roce(op, QP, ext, payload, raw_bth=head, src=pk.CLIENT, dst=pk.SERVER)
    text = bytes(range(256)) * 2 + b"odd"
    add = struct.pack(">QIQQ", VA + 2048, KEY, 5, 0)
    frames, responder = [], Responder()
    for frame in (ask(rc.SEND_ONLY, PSN, payload=b"hello", ack=True),
                  ask(rc.WRITE[0], PSN + 1, pk.reth(VA, KEY, len(text)), text[:256]),
                  ask(rc.WRITE[1], PSN + 2, payload=text[256:512]),
                  ask(rc.WRITE[2], PSN + 3, payload=text[512:], ack=True),
                  ask(rc.READ, PSN + 4, pk.reth(VA, KEY, len(text)), ack=True),
                  ask(rc.FETCH_ADD, PSN + 7, add, ack=True), ask(rc.FETCH_ADD, PSN + 7, add, ack=True)):
        frames.append(frame)
        responder.send(frame)
        frames += responder.out
        responder.out = []
    return rc.flows(pk.write_capture(run.path(name), frames))[0]


@rule("a capture is understood: requests, answers, memory, receives, over the end of the PSNs")
def understood(run):
    flow = made(run)
    equal((flow.qp, flow.back, flow.mtu(), len(flow.requests), len(flow.answers)), (QP, BACK, MTU, 7, 7))
    equal(flow.rules(), [])
    equal([v for _, v, _ in flow.steps()], ["new"] * 6 + ["duplicate"])
    equal([m for _, _, m in flow.steps()], [1, 1, 1, 2, 3, 4, 4])
    plan = flow.plan()
    equal((plan["psn"], plan["msn"], plan["updates"]), (PSN, 0, [{"before": 5, "va": VA + 2048, "data": "00" * 8}]))
    equal([r["data"] for r in plan["receives"]], [b"hello".hex()])
    region, = plan["regions"]
    equal((region["rkey"], region["va"], region["len"], region["access"]), (KEY, VA, 2056, 2 | 4 | 8))
    equal(region["after"][-16:], struct.pack("=Q", 5).hex())


@rule("the same requests, put to another end with another key, get the same answers")
def asked(run):
    flow, other = made(run), Responder(0x77)
    asker = rc.Asker(flow, other, QP, {KEY: 0x77}, update=lambda va, data: None)
    equal(rc.differences(flow, asker.run()), [])
    equal(bytes(other.memory[:2056]).hex(), flow.plan()["regions"][0]["after"])


@rule("each wrong answer is seen")
def wrong(run):
    flow = made(run)
    for k, x in enumerate(flow.answers):
        for change in ("msn", "psn", "payload", "nak", "original", "lost"):
            bad = copy.deepcopy(flow.answers)
            if change == "lost" and x.op != rc.ACK:
                del bad[k]
            elif change == "psn":
                bad[k].psn = bad[k].psn + 1000 & rc.MASK
            elif change == "payload" and x.payload:
                bad[k].payload = b"!" + x.payload[1:]
            elif change == "nak" and x.op == rc.ACK:
                bad[k].ext["syndrome"] = 0x60
            elif change in x.ext:
                bad[k].ext[change] += 1
            else:
                continue
            assert rc.differences(flow, bad), "%s of answer %d" % (change, k)


@rule("what Linux has answered in nvme.pcap follows the rules")
def nvme(run):
    found = rc.flows(os.path.join(HERE, "nvme.pcap"))
    for flow in found:
        equal(flow.rules(), [])
        equal(rc.differences(flow, flow.answers), [])
        equal({verdict for _, verdict, _ in flow.steps()}, {"new"})
        equal([x for m in flow.messages() for x in m], flow.requests)
        keys = [x.ext["imm"] for x in flow.requests if x.op == rc.SEND_ONLY_INV]
        equal([r["invalidates"] for r in flow.plan()["receives"] if r["invalidates"] is not None], keys)
    equal(len(found), 4)


@rule("what Linux has answered in the shared captures follows the rules")
def linux(run):
    directory = os.environ.get("SPINDLE_SHARED_PCAPS")
    if not directory:
        raise Skip("SPINDLE_SHARED_PCAPS names no captures")
    whole = 0
    for name in sorted(os.listdir(directory)):
        for flow in rc.flows(os.path.join(directory, name)) if name.endswith(".pcap") else ():
            if flow.back is not None:
                equal(flow.rules(), [], name)
                equal(rc.differences(flow, flow.answers), [], name)
                flow.plan()
                whole += 1
    assert whole >= 10, "only %d flows" % whole


if __name__ == "__main__":
    main()
