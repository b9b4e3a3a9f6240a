#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A NIC on one end of a veth link, the kernel on the other: what Linux asks is answered as Linux expects it."""

import os
import random
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import echo, neighbour, ping  # noqa: E402
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, TAP4, TAP6, World, config, ip, pk, rule, until  # noqa: E402

ECHO = "[context echo]\nhandler = reflect\nfilter = udp port 7777\n"
EXCEPTION = ("--vdev", "net_af_packet0,iface=nic0", "--vdev", "net_tap0,iface=tap0")
EXCEPTION2 = ("--vdev", "net_af_packet0,iface=nic0,qpairs=2", "--vdev", "net_tap0,iface=tap0")


@rule
def kernel_learns_the_nics_mac_by_arp_and_nd():
    with World() as w:
        nic = w.nic(config())
        for address in (NIC4, NIC6):
            assert neighbour(address)[0] is None
            ping(address, 16, count=1)
            assert neighbour(address) == (NIC_MAC, ["REACHABLE"]), neighbour(address)
        report = nic.stop()
        assert report["answered"] >= 4, report  # ARP, echo, ND, echo


@rule
def kernel_confirms_the_nic_by_unicast_probes():
    with World() as w:
        w.nic(config())
        for address in (NIC4, NIC6):
            ip("neigh", "replace", address, "lladdr", NIC_MAC, "dev", "host0", "nud", "probe")
            until("%s confirmed: %s" % (address, neighbour(address)), lambda: neighbour(address) == (NIC_MAC, ["REACHABLE"]))


@rule
def pings_are_answered_over_ipv4():
    with World() as w:
        nic = w.nic(config())
        for size in (0, 1, 56, 57, 1400, 1472):
            ping(NIC4, size)
        assert not nic.stop()["drops"].get("bad-ip-checksum")


@rule
def pings_are_answered_over_ipv6():
    with World() as w:
        w.nic(config())
        for size in (0, 1, 56, 57, 1400, 1452):
            ping(NIC6, size)


@rule
def pings_are_answered_by_either_of_two_workers():
    with World() as w:
        nic = w.nic(config(more="workers = 2"), eal=("--vdev", "net_af_packet0,iface=nic0,qpairs=2"))
        for ident in range(20):
            ping(NIC4, 64, count=1, ident=1000 + ident)
            ping(NIC6, 64, count=1, ident=1000 + ident)
        assert nic.stop()["answered"] >= 42


@rule
def other_addresses_are_not_answered():
    with World() as w:
        nic = w.nic(config())
        ping(NIC4, 16, count=1)
        for other, family in (("192.0.2.77", socket.AF_INET), ("2001:db8::77", socket.AF_INET6)):
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.sendto(b"anybody?", (other, 9))
            ping(NIC4, 16, count=1)  # its answer says that the question has been seen
            assert neighbour(other)[0] is None
        assert nic.stop()["drops"]["no-match"] >= 2


@rule
def vlan_tagged_questions_get_tagged_answers():
    with World() as w:
        w.nic(config(more="vlan = 7"))
        sniffer = net.Sniffer("host0")
        arp = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + pk.mac_bytes("02:00:00:00:00:07") + pk.ip_bytes(HOST4)
        arp += b"\0" * 6 + pk.ip_bytes(NIC4)
        sniffer.send(pk.ethernet(arp, 0x0806, dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:07", vlan=(0x6007,)))
        answer = sniffer.wait(lambda f: f[:6] == pk.mac_bytes("02:00:00:00:00:07"))
        sniffer.stop()
        assert answer[6:12] == pk.mac_bytes(NIC_MAC)
        assert answer[12:18] == struct.pack(">HHH", 0x8100, 0x6007, 0x0806), answer[:18].hex()
        assert answer[24:26] == b"\0\x02" and answer[26:32] == pk.mac_bytes(NIC_MAC) and answer[32:36] == pk.ip_bytes(NIC4)


@rule
def udp_comes_back_from_reflect_over_ipv4():
    sizes = [0, 1, 2, 3, 17, 18, 19, 63, 64, 255, 512, 1000, 1471, 1472]
    with World() as w:
        nic = w.nic(config() + ECHO)
        echo(socket.AF_INET, NIC4, sizes)
        assert nic.stop()["contexts"]["echo"]["counters"]["echoed"] == len(sizes) + 64


@rule
def udp_comes_back_from_reflect_over_ipv6():
    sizes = [0, 1, 2, 3, 17, 18, 19, 63, 64, 255, 512, 1000, 1451, 1452]
    with World() as w:
        nic = w.nic(config() + ECHO)
        echo(socket.AF_INET6, NIC6, sizes)
        assert nic.stop()["contexts"]["echo"]["counters"]["echoed"] == len(sizes) + 64


@rule
def reflected_frames_have_right_checksums_on_the_wire():
    with World() as w:
        w.nic(config() + ECHO)
        sniffer = net.Sniffer("host0")
        echo(socket.AF_INET, NIC4, [0, 1, 999])
        echo(socket.AF_INET6, NIC6, [0, 1, 999])
        frames = sniffer.stop()
        capture = pk.write_capture(w.path("echo.pcap"), frames)
        answers = net.tshark(capture, "udp.srcport == 7777 && eth.src == " + NIC_MAC, "ip.checksum.status",
                             "udp.checksum.status", "_ws.malformed")
        assert len(answers) == 2 * (3 + 64)
        assert set(answers) == {("1", "1", ""), ("", "1", "")}, set(answers)


# ---- exception port ----------------------------------------------------------------------------------------------------

def exception(w, more="", eal=EXCEPTION, contexts=""):
    """A NIC whose exception port is the TAP tap0, where the kernel of the NIC's namespace has addresses."""
    net.need_tap()
    nic = w.nic(config(more="exception = net_tap0\n" + more) + contexts, eal=eal)
    w.space.do(lambda: (ip("link", "set", "tap0", "addrgenmode", "none", "up"), ip("addr", "add", TAP4 + "/24", "dev", "tap0"),
                        ip("addr", "add", TAP6 + "/64", "dev", "tap0", "nodad")))
    return nic


class EchoServer:
    """TCP in the NIC's namespace: everything comes back."""

    def __init__(self, w, family):
        def make():
            s = socket.socket(family, socket.SOCK_STREAM)
            s.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
            s.listen(16)
            return s
        self.socket = w.space.do(make)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    @staticmethod
    def serve(s):
        with s:
            while True:
                data = s.recv(65536)
                if not data:
                    return
                s.sendall(data)


def tcp_echo(address, port, size):
    data = random.Random(port).randbytes(size)
    with socket.create_connection((address, port), timeout=60) as s:
        s.settimeout(60)
        threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)), daemon=True).start()
        got = b""
        while len(got) < size:
            part = s.recv(65536)
            assert part, "the connection ended after %d bytes" % len(got)
            got += part
    assert got == data


@rule
def what_nobody_takes_reaches_the_kernel_by_the_exception_port():
    with World() as w:
        nic = exception(w)
        ping(TAP4, 1400)
        ping(TAP6, 1400)
        for family, address in ((socket.AF_INET, TAP4), (socket.AF_INET6, TAP6)):
            tcp_echo(address, EchoServer(w, family).port, 200000)
        tap = neighbour(TAP4)[0]
        assert tap and tap != NIC_MAC, "it must be the kernel that answers: %s" % tap
        ping(NIC4, 100)  # and the NIC still answers for itself
        report = nic.stop()
        assert report["forwarded"] > 100 and report["answered"] >= 4, report
        assert not report["drops"].get("exception-full"), report["drops"]


@rule
def contexts_come_before_the_exception_port():
    with World() as w:
        nic = exception(w, contexts=ECHO)
        echo(socket.AF_INET, NIC4, [100])
        echo(socket.AF_INET, TAP4, [100])  # the filter names no address
        ping(TAP4, 100)
        report = nic.stop()
        assert report["contexts"]["echo"]["counters"]["echoed"] == 2 * 65, report


@rule
def the_exception_port_works_both_ways_with_two_workers():
    """Flows spread over the queues of both ports; each must come through, whichever queue it got."""
    with World() as w:
        nic = exception(w, more="workers = 2", eal=EXCEPTION2)
        server = EchoServer(w, socket.AF_INET)
        for _ in range(12):
            tcp_echo(TAP4, server.port, 3000)
        report = nic.stop()
        assert all(worker["forwarded"] for worker in report["workers"]), report["workers"]


if __name__ == "__main__":
    net.main()
