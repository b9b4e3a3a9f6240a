#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A NIC with two ports on two veth links, and the kernel, or another NIC, behind each."""

import os
import random
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import echo, neighbour, ping  # noqa: E402
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, World, config, ip, pk, rule  # noqa: E402

# The second link: NIC's addresses, and the kernel's.
SECOND4, SECOND6 = "198.51.100.1", "2001:db8:1::1"
BEYOND4, BEYOND6 = "198.51.100.2", "2001:db8:1::2"
EAL = ("--vdev", "net_af_packet0,iface=nic0", "--vdev", "net_af_packet1,iface=nic1")
ECHO = "[context echo]\nhandler = reflect\nfilter = udp port 7777\n"


class TwoLinks(World):
    """World, and a second link of the same kind between `host1` and `nic1`."""

    def __init__(self, addresses=True):
        super().__init__(addresses)
        ip("link", "add", "host1", "type", "veth", "peer", "name", "nic1", "netns", str(self.space.pid))
        self.closing.append(lambda: ip("link", "del", "host1", check=False))
        ip("link", "set", "host1", "addrgenmode", "none")
        net.no_offloads("host1")
        self.space.do(lambda: (ip("link", "set", "nic1", "addrgenmode", "none"),
                               ip("link", "set", "nic1", "arp", "off", "up"), net.no_offloads("nic1")))
        ip("link", "set", "host1", "up")
        if addresses:
            ip("addr", "add", BEYOND4 + "/24", "dev", "host1")
            ip("addr", "add", BEYOND6 + "/64", "dev", "host1", "nodad")
            ip("addr", "add", "fe80::2/64", "dev", "host1", "nodad")
        self.second_mac = self.space.do(lambda: open_address("nic1"))


def open_address(interface):
    for line in ip("-o", "link", "show", interface).split("link/ether ")[1:]:
        return line.split()[0]


def two_ports(more=""):
    """The second port's MAC is the device's own."""
    return config(more="port = net_af_packet1\nip = %s/24 1, %s/64 1\n%s" % (SECOND4, SECOND6, more))


@rule
def each_link_learns_the_mac_of_its_own_port():
    with TwoLinks() as w:
        nic = w.nic(two_ports(), eal=EAL)
        assert w.second_mac != NIC_MAC
        for interface, mac, addresses in (("host0", NIC_MAC, (NIC4, NIC6)), ("host1", w.second_mac, (SECOND4, SECOND6))):
            for address in addresses:
                ping(address, 500)
                assert neighbour(address, interface) == (mac, ["REACHABLE"]), neighbour(address, interface)
        report = nic.stop()
        assert all(port["packets"] and port["sent"] for port in report["ports"]), report["ports"]


@rule
def udp_comes_back_by_the_link_it_came_by():
    sizes = [0, 1, 17, 64, 1000]
    with TwoLinks() as w:
        nic = w.nic(two_ports() + ECHO, eal=EAL)
        for family, address in ((socket.AF_INET, NIC4), (socket.AF_INET, SECOND4), (socket.AF_INET6, NIC6),
                                (socket.AF_INET6, SECOND6)):
            echo(family, address, sizes)
        report = nic.stop()
        assert report["contexts"]["echo"]["counters"]["echoed"] == 4 * (len(sizes) + 64)
        assert all(port["sent"] >= 2 * (len(sizes) + 64) for port in report["ports"]), report["ports"]


def arp_question(target):
    return (struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + pk.mac_bytes("02:00:00:00:00:07") + pk.ip_bytes("203.0.113.7") +
            b"\0" * 6 + pk.ip_bytes(target))


@rule
def arp_is_not_answered_for_the_other_links_address():
    with TwoLinks() as w:
        w.nic(two_ports(), eal=EAL)
        for interface, mac, own, other in (("host0", NIC_MAC, NIC4, SECOND4), ("host1", w.second_mac, SECOND4, NIC4)):
            sniffer = net.Sniffer(interface)
            for target in (other, own):  # the second answer says that the first question has been seen
                sniffer.send(pk.ethernet(arp_question(target), 0x0806, dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:07"))
            answer = sniffer.wait(lambda f: f[:6] == pk.mac_bytes("02:00:00:00:00:07"))
            time.sleep(0.2)
            more = [f for f in sniffer.stop() if f[:6] == pk.mac_bytes("02:00:00:00:00:07")]
            assert answer[22:28] == pk.mac_bytes(mac) and answer[28:32] == pk.ip_bytes(own), answer.hex()
            assert not more, [f.hex() for f in more]


@rule
def an_address_on_a_port_that_does_not_exist_is_refused():
    with TwoLinks() as w:
        why = w.nic(config(more="ip = %s/24 1" % SECOND4), expect=1).refuse()
        assert "there is no port 1" in why, why
        why = w.nic(two_ports("ip = 192.0.2.9/24 1"), eal=EAL, expect=1).refuse()
        assert "192.0.2.9: another port has the same prefix" in why, why
        why = w.nic(two_ports("gateway = 203.0.113.1"), eal=EAL, expect=1).refuse()
        assert "203.0.113.1: is on no prefix" in why, why


def sdr_by_the_second_port(family):
    """Behind the second link is another NIC; the first link leads nowhere."""
    own = "%s/24 1, %s/64 1" % (SECOND4, SECOND6)
    both = "[nic]\nport = net_af_packet0\nport = net_af_packet1\nip = %s\nip = %s/24, %s/64\nmac = %s\n" % (
        own, NIC4, NIC6, NIC_MAC)
    data = random.Random(family).randbytes(50001)
    with TwoLinks(addresses=False) as w:
        ip("link", "set", "host1", "arp", "off")
        there = w.nic(both, eal=EAL)
        here = w.nic(config(mac="02:00:00:00:00:02", ip4=BEYOND4, ip6=BEYOND6), eal=("--vdev", "net_af_packet0,iface=host1"),
                     space=None)
        words = "qpn=4096 rkey=7 mtu=1024 chunk=4096 max=65536 slots=4 family=%d" % family
        infos = [nic.ask("qp", 0, words)[0] for nic in (here, there)]
        here.ask("connect", 0, infos[1])
        there.ask("connect", 0, infos[0])
        for sender, receiver in ((there, here), (here, there)):
            sender.ask("load", 0, w.write("source", data))
            receiver.ask("room", 0, 65536)
            receiver.ask("post", 0, 0, 65536)
            sender.ask("send", 0, 0, len(data), 0)
            assert receiver.ask("finish", 0, 20)[1] == str(len(data))
            sender.ask("sent", 0)
            receiver.ask("save", 0, w.path("saved"))
            with open(w.path("saved"), "rb") as f:
                assert f.read() == data.ljust(65536, b"\0")
        here.stop()
        first, second = there.stop()["ports"]
        assert first["sent"] == 0 and second["sent"] > 49, (first, second)


@rule
def sdr_goes_by_the_port_of_the_route_over_ipv4():
    sdr_by_the_second_port(4)


@rule
def sdr_goes_by_the_port_of_the_route_over_ipv6():
    sdr_by_the_second_port(6)


if __name__ == "__main__":
    net.main()
