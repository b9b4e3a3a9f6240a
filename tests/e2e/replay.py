#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle replay --port: a capture goes out by a real port at its own pace, and what comes back is what is expected."""

import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import HOST4, NIC4, NIC_MAC, World, config, pk, rule  # noqa: E402

HOST_MAC = "02:00:00:00:00:02"
ECHO = "[context echo]\nhandler = reflect\nfilter = udp port 9\n"
PORT = "af_packet:host0"


def datagram(i, size=100):
    return pk.ethernet(pk.ipv4(pk.udp(bytes([i & 255]) * size, sport=4000, dport=9), src=HOST4, dst=NIC4, ident=i), 0x0800, dst=NIC_MAC,
                       src=HOST_MAC)


def start(world, *arguments):
    return subprocess.Popen([net.SPINDLE, "replay", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=net.die_with_parent, env=net.environment(world.dir))


def replay(world, *arguments, expect=0):
    process = start(world, *arguments)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == expect, "exit status %d, not %d: %s" % (process.returncode, expect, errors)
    assert "Sanitizer" not in errors and "runtime error" not in errors, errors[-3000:]
    return json.loads(out) if "--json" in arguments and out else errors


@rule
def answers_come_back_as_expected_and_gaps_are_kept():
    with World(addresses=False) as w:
        nic = w.nic(config(more=ECHO))
        capture = pk.write_capture(w.path("in.pcap"), [(i * 10000000, datagram(i)) for i in range(51)])  # 0.5 s
        # what the same NIC answers in virtual time
        ini = w.write("virtual.ini", config(more=ECHO))
        replay(w, "-c", ini, "-w", w.path("expected.pcap"), capture)
        began = time.monotonic()
        report = replay(w, "--port", PORT, "--expect", w.path("expected.pcap"), "-w", w.path("out.pcap"), "--json", capture)
        assert time.monotonic() - began >= 0.5
        port = report["port"]
        assert (port["sent"], port["received"]) == (51, 51), port
        assert port["sent_bytes"] == 51 * 142 and 500000000 <= port["span_ns"] < 60000000000, port
        times = [t for t, _ in pk.read_capture(w.path("out.pcap"))]
        assert times == sorted(times) and times[-1] - times[0] > 100000000, times  # the first may have been read late
        changed = pk.write_capture(w.path("changed.pcap"), [f for _, f in pk.read_capture(w.path("expected.pcap"))][:50] + [datagram(0)])
        said = replay(w, "--port", PORT, "--rate", "10kpps", "--expect", changed, capture, expect=3)
        assert "--expect %s: packet 51" % changed in said, said
        nic.stop()


@rule
def packets_of_any_kind_go_out_and_come_back_and_nothing_is_answered():
    with World(addresses=False) as w:
        odd = [datagram(0), pk.ethernet(b"", 0x88B5), pk.roce(pk.UC_WRITE_ONLY_IMM, 77, b"", bytes(20)),
               pk.ethernet(pk.ipv4(bytes(40), check=1), 0x0800), pk.ethernet(bytes(46), 0x0806, dst="ff:ff:ff:ff:ff:ff"),
               pk.ethernet(pk.ipv4(pk.udp(bytes(30))), 0x0800, vlan=[5]), pk.ethernet(bytes(1500), 0x88B5)]
        arp = pk.ethernet(b"\0\1\x08\0\6\4\0\1" + pk.mac_bytes(HOST_MAC) + pk.ip_bytes(HOST4) + bytes(6) + pk.ip_bytes(NIC4), 0x0806,
                          dst="ff:ff:ff:ff:ff:ff")
        odd.append(arp)
        capture = pk.write_capture(w.path("in.pcap"), odd)
        there = w.space.do(lambda: net.Sniffer("nic0"))
        process = start(w, "--port", PORT, "--wait", "2s", "-w", w.path("out.pcap"), "--json", capture)
        came = [there.wait(lambda f: True) for _ in odd]
        assert came == odd, [(a.hex(), b.hex()) for a, b in zip(came, odd) if a != b]
        for frame in reversed(odd):
            there.send(frame)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert [f for _, f in pk.read_capture(w.path("out.pcap"))] == odd[::-1]
        assert there.stop() == [], "something was answered"


@rule
def what_cannot_be_sent_is_told():
    with World(addresses=False) as w:
        capture = pk.write_capture(w.path("in.pcap"), [datagram(0), pk.ethernet(bytes(3000), 0x88B5), datagram(1)])
        process = start(w, "--port", PORT, "--wait", "0s", "--json", capture)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 1 and "1 packet larger" in errors, errors
        assert json.loads(out)["port"]["sent"] == 2 and json.loads(out)["port"]["oversized"] == 1, out
        said = replay(w, "--port", "af_packet:nobody0", capture, expect=1)
        assert "--port af_packet:nobody0" in said and "nobody0" in said, said
        said = replay(w, "--port", PORT, "--expect", w.path("missing"), capture, expect=1)
        assert "missing" in said, said


@rule
def a_signal_ends_it_in_good_order():
    with World(addresses=False) as w:
        capture = pk.write_capture(w.path("in.pcap"), [(0, datagram(0)), (3600 * 10 ** 9, datagram(1))])
        there = w.space.do(lambda: net.Sniffer("nic0"))
        process = start(w, "--port", PORT, "-w", w.path("out.pcap"), "--json", capture)
        there.wait(lambda f: f == datagram(0))
        there.send(datagram(7))
        time.sleep(2)  # it is read meanwhile
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 1 and "after 1 packet\n" in errors, (process.returncode, errors)
        assert json.loads(out)["port"]["sent"] == 1, out
        assert [f for _, f in pk.read_capture(w.path("out.pcap"))] == [datagram(7)]
        assert there.stop() == []


if __name__ == "__main__":
    net.main()
