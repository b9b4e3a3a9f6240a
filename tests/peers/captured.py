#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The NIC answers what one Linux host has asked another: captured.py PROGRAM. TAP. PROGRAM: captured.c. Captures: the
directory that SPINDLE_SHARED_PCAPS names; without it, all is skipped.

One request after the other, in virtual time: what the NIC says to each is what Linux said, packet by packet, but for what
the specification leaves open:
- credits, in the syndrome of an ACK (9.7.7.2): the NIC does not count them, Linux says 31 as well;
- which of the packets that may be acknowledged together are (9.7.5.1.2): here each comes alone;
- the PSN and MSN of the ACK of a duplicate (9.7.5.1.2): of the duplicate, or the latest;
- what is not RDMA: UDP source port, TTL, identification."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import rc_replay as rc  # noqa: E402

OWN, PEER = ("192.0.2.2", "2001:db8::2"), ("192.0.2.1", "2001:db8::1")  # tests/lib/dut.c
OWN_MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"


class Nic:
    """The program."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.out, self.received = [], []

    def ask(self, *request):
        """The lines of its answer, each in words, without the first. Receives are kept."""
        self.process.stdin.write(" ".join(w if isinstance(w, str) else "%x" % w for w in request) + "\n")
        self.process.stdin.flush()
        said = []
        while True:
            line = self.process.stdout.readline()
            if not line or line.startswith("not ok"):
                raise AssertionError("it ended: " + line)
            if line == "ok\n":
                return said
            first, *words = line.split()
            if first == "receive":
                self.received.append(words)
            elif first in ("key", "qp", "answer", "memory"):
                said.append(words)

    def send(self, frame):
        self.out += [bytes.fromhex(words[0]) for words in self.ask("frame", frame.hex())]

    def end(self):
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


def answered(nic, flow):
    """What is wrong; the first thing."""
    plan, six = flow.plan(), len(flow.src) == 16
    nic.out, nic.received = [], []
    keys = {r["rkey"]: int(nic.ask("key", r["va"], r["len"], r["access"])[0][0], 16) for r in plan["regions"]}
    for request in flow.requests:  # nothing to write needs no key
        keys.setdefault(request.ext.get("rkey"), 0)
    # A capture that begins within a connection has an MSN that a new QP cannot have.
    qp = int(nic.ask("qp", plan["psn"], plan["mtu"], plan["back"], int(six))[0][0], 16)
    nic.ask("receives", len(plan["receives"]))
    asker = rc.Asker(flow, None, qp, keys, mac=OWN_MAC, own_mac=PEER_MAC, src=PEER[six], dst=OWN[six])
    for index, request in enumerate(flow.requests):
        for u in plan["updates"]:
            if u["before"] == index:
                nic.ask("store", u["va"], u["data"])
        nic.send(asker.frame(request))
    answers = [rc.Packet(0, 0, frame) for frame in nic.out]
    assert all(x.whole and x.qp == flow.back for x in answers), "an answer for somebody else, or its ICRC is wrong"
    for x in answers:
        if "msn" in x.ext:
            x.ext["msn"] = (x.ext["msn"] + plan["msn"]) & rc.MASK
    wrong = told(flow, answers)
    for r in plan["regions"]:
        if nic.ask("memory", r["va"], r["len"])[0][0] != r["after"]:
            wrong = wrong or "memory of key %#x is not what it should be" % r["rkey"]
    got = nic.received
    want = [["%x" % (len(r["data"]) // 2), "%x" % (r["imm"] or 0)] + (["-"] if r["write"] else [r["data"]] if r["data"] else [])
            for r in plan["receives"]]
    for a, b in zip(got, want):
        if a[b[-1] == "-":] != b[b[-1] == "-":]:  # of a WRITE, the plan has no length
            wrong = wrong or "a receive has %s, not %s" % (a, b)
    if len(got) != len(want):
        wrong = wrong or "%d receives, not %d" % (len(got), len(want))
    nic.ask("end")
    return wrong


def main():
    program, directory = sys.argv[1], os.environ.get("SPINDLE_SHARED_PCAPS")
    if not directory:
        print("1..1\nok 1 - the NIC answers as Linux does # SKIP SPINDLE_SHARED_PCAPS names no captures")
        return 0
    flows = [(name, flow) for name in sorted(os.listdir(directory)) if name.endswith(".pcap")
             for flow in rc.flows(os.path.join(directory, name)) if flow.back is not None]
    print("1..%d" % (len(flows) + 1))
    nic, bad = Nic(program), 0
    for k, (name, flow) in enumerate(flows):
        try:
            wrong = answered(nic, flow)
        except AssertionError as e:
            wrong, nic = str(e) or "an assertion", Nic(program)
        bad += wrong != ""
        if wrong:
            print("# " + wrong[:400])
        print("%s %d - %s: %s" % ("not ok" if wrong else "ok", k + 1, name, flow.name()), flush=True)
    nic.end()
    enough = len(flows) >= 10
    print("%s %d - there are captures enough" % ("ok" if enough else "not ok", len(flows) + 1))
    return 1 if bad or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
