# SPDX-License-Identifier: BSD-3-Clause
"""Packets through a NIC from Python: verdicts, frames that it sends, counters."""

import errno
import os
import unittest
from unittest import mock

from spindle.replay import Replay, config, replay
from test_world import code

try:
    from scapy.layers.inet import ICMP, IP, UDP
    from scapy.layers.l2 import ARP, Ether
except ImportError:
    Ether = None

US, PEER = "02:00:00:00:00:01", "02:00:00:00:00:02"
# ARP: who has 192.0.2.1?
ASK = bytes.fromhex("ffffffffffff" "020000000002" "0806" "0001080006040001" "020000000002" "c0000202" "000000000000" "c0000201")


class Bytes(unittest.TestCase):
    def test_the_nics_own_answer(self):
        got = replay([ASK, (0.5, ASK), b"\0" * 20], settings={"filter": "udp"})
        self.assertIsInstance(got, Replay)
        self.assertEqual([f.fate for f in got.fates], ["answered", "answered", "dropped"])
        self.assertEqual(got.fates[2].reason, next(iter(got.drops)))
        self.assertEqual(len(got.sent), 2)
        self.assertEqual([s.time_ns for s in got.sent], [0, 500000000])
        self.assertEqual(got.sent[0].frame[:22], bytes.fromhex("020000000002" "020000000001" "0806" "0001080006040002"))
        self.assertEqual(got.report["packets"], 3)

    def test_no_packets_are_no_packets(self):
        got = replay([])
        self.assertEqual((got.fates, got.sent, got.drops), ([], [], {}))

    def test_what_is_wrong_is_said(self):
        with code(errno.EIO) as c:
            replay([ASK], handler="nosuch")
        self.assertIn("nosuch", c.text)
        with code(errno.EIO) as c:
            replay([ASK], settings={"filter": "udp prot 7"})
        self.assertIn("filter", c.text)
        with code(errno.EINVAL) as c:
            replay([ASK], settings={"filter": "udp\n[context other]"})
        self.assertIn("line break", c.text)
        with code(errno.EINVAL):
            replay([(1, ASK), (0, ASK)])
        self.assertRaises(TypeError, replay, ["text"])
        with mock.patch.dict(os.environ, {"SPINDLE_COMMAND": "", "PATH": ""}), code(errno.ENOENT) as c:
            replay([ASK])
        self.assertIn("SPINDLE_COMMAND", c.text)

    def test_a_whole_configuration_and_more_options(self):
        text = config("count", {"filter": "arp"}, {"ip": "192.0.2.9/24"}, "all")
        got = replay([ASK] * 100, text=text, options=["--loss", "0.5", "--seed", "3"])
        self.assertTrue(20 < len(got.fates) < 80)
        self.assertEqual(got.counters("all")["packets"], len(got.fates))
        self.assertEqual({(f.context, f.verdict) for f in got.fates}, {("all", "done")})


@unittest.skipUnless(Ether, "python3-scapy is not installed")
class Scapy(unittest.TestCase):
    def packets(self):
        to = Ether(dst=US, src=PEER) / IP(src="192.0.2.2", dst="192.0.2.1")
        out = [Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER) / ARP(hwsrc=PEER, psrc="192.0.2.2", pdst="192.0.2.1"),
               to / UDP(sport=4000, dport=5000) / b"to be reflected", to / ICMP() / b"ping", to / UDP(dport=9) / b"nobody's"]
        for i, p in enumerate(out):
            p.time = 1000 + i / 1000
        return out

    def test_packets_in_verdicts_and_packets_out(self):
        got = replay(self.packets(), "reflect", {"filter": "udp port 5000"}, {"ip": "192.0.2.1/24", "mac": US})
        self.assertEqual([(f.fate, f.context, f.verdict, f.reason) for f in got.fates][2:],
                         [("answered", None, None, None), ("dropped", None, None, "no-match")])
        self.assertEqual((got.fates[1].context, got.counters("reflect")["packets"]), ("reflect", 1))
        arp, back, pong = (s.scapy() for s in got.sent)
        self.assertEqual((arp[ARP].op, arp[ARP].hwsrc), (2, US))
        self.assertEqual((back[IP].dst, back[UDP].sport, back[UDP].dport, bytes(back[UDP].payload)[:15]),
                         ("192.0.2.2", 5000, 4000, b"to be reflected"))
        self.assertAlmostEqual(back.time, 1000.001)
        self.assertEqual((pong[ICMP].type, pong[Ether].dst), (0, PEER))
        self.assertEqual(got.drops, {"no-match": 1})


if __name__ == "__main__":
    unittest.main()
