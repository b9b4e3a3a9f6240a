#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames as large as each kind of port carries, and what becomes of larger ones: the tables in docs/ports.md."""

import json
import os
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import ping  # noqa: E402
from net import HOST4, NIC4, NIC_MAC, TAP4, TAP6, World, config, ip, pk, rule  # noqa: E402
from served import House  # noqa: E402
from xdp import Link  # noqa: E402

net.RULES.clear()  # xdp.py's are not ours
PORT = 7777
RING = "af_packet:nic0,framecnt=64"  # a user's limit of locked memory has room for it with any mtu
COUNT = "\n[context count]\nhandler = count\nfilter = udp port %d\n" % PORT


def datagram(size):
    """A frame of so many bytes: UDP from the host to the NIC, without a checksum."""
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size - 14, 0, 0x4000, 64, 17, 0, pk.ip_bytes(HOST4), pk.ip_bytes(NIC4))
    head = head[:10] + struct.pack(">H", pk.checksum(head)) + head[12:]
    return pk.ethernet(head + struct.pack(">HHHH", 1, PORT, size - 34, 0) + bytes(size - 42), 0x0800, dst=NIC_MAC)


def send(interface, *sizes):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.bind((interface, 0))
        for size in sizes:
            s.send(datagram(size))
    ping(NIC4, 100)  # its answer comes after all before it


def ended(report, where):
    """One frame was counted by the handler, and one as this drop, or as this counter of the port's."""
    lost = report["drops"].get(where, 0) or report["ports"][0].get(where, 0)
    handled = report["contexts"]["count"]["packets"]
    assert (handled, lost) == (1, 1), "%d handled, %s %d; drops %s, port %s" % (handled, where, lost, report["drops"], report["ports"][0])


def stat(nic):
    run = subprocess.run([net.SPINDLE, "stat", "-n", nic.socket, "--once", "--json"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@rule
def the_largest_mtu_of_a_configuration_passes_by_af_packet_and_pcap_and_a_larger_one_is_refused():
    for port in (RING, "pcap-iface:nic0"):
        with World(mtu=9500) as w:
            nic = w.nic(config(port, more="mtu = 9500"), eal=())
            ping(NIC4, 9500 - 28)
            nic.stop()
            why = w.nic(config(port, more="mtu = 9501"), eal=(), expect=1).refuse()
            assert "mtu" in why and "9500" in why, why


@rule
def larger_frames_from_an_interface_pass_whole_or_are_counted():
    """A ring's slot cuts them, which the IP header shows; libpcap's do not fit into one buffer."""
    for port, mtu, largest, where in ((RING, 1500, 2048 - 66, "bad-ip-length"), (RING, 9500, 16384 - 66, "bad-ip-length"),
                                      ("pcap-iface:nic0", 1500, 2048, "not-linear")):
        with World(mtu=20000) as w:
            nic = w.nic(config(port, more="mtu = %d" % mtu) + COUNT, eal=())
            send("host0", largest, largest + 1)
            ended(nic.stop(), where)


@rule
def larger_frames_by_af_xdp_pass_whole_or_are_counted():
    if os.sysconf("SC_PAGESIZE") != 4096:
        raise net.Skip("for pages of 4096 bytes")
    for mtu, largest in ((1500, 1792), (2132, 2176)):
        with Link(mtu=3422) as w:
            nic = w.nic(config("af_xdp:nic0", more="mtu = %d" % mtu) + COUNT, eal=())
            send("host0", largest, largest + 1)
            ended(nic.stop(), "kernel_drops")


@rule
def larger_frames_by_a_tap_pass_whole_or_are_counted():
    net.need_tap()
    with World(addresses=False) as w:
        nic = w.nic(config("tap:spindle4") + COUNT, eal=())

        def there():
            ip("addr", "add", HOST4 + "/24", "dev", "spindle4")
            ip("link", "set", "spindle4", "addrgenmode", "none", "mtu", "9000", "up")
            send("spindle4", 2048, 2049)
        w.space.do(there)
        ended(nic.stop(), "receive_errors")


@rule
def larger_frames_by_virtio_user_and_vhost_pass_whole_or_are_counted():
    """They come by the other NIC's exception port."""
    for far, near in (("vhost", "virtio-user"), ("virtio-user", "vhost")):
        with World(mtu=9500) as w:
            path = w.path("v.sock")
            if len(path) > 100:
                raise net.Skip("the path of the temporary directory is too long for a socket")
            configs = {far: config("%s:%s" % (far, path), more="mtu = 9500\nexception = " + RING, mac="02:00:00:00:00:03", ip4=TAP4, ip6=TAP6),
                       near: config("%s:%s" % (near, path)) + COUNT}
            nics = {kind: w.nic(configs[kind], eal=()) for kind in ("vhost", "virtio-user")}
            ping(NIC4, 100)
            send("host0", 2048, 2049)
            ended(nics[near].stop(), "not-linear")
            nics[far].stop()


@rule
def larger_frames_of_a_capture_pass_whole_or_are_counted():
    with House() as h:
        path = pk.write_capture(h.path("in.pcap"), [datagram(2048), datagram(2049)])
        nic = h.nic(config("pcap:" + path) + COUNT, eal=())
        net.until("both were read", lambda: stat(nic)["packets"] == 2)
        ended(stat(nic), "not-linear")


@rule
def a_ring_carries_the_larger_frames_of_either_end():
    with World(mtu=9500) as w:
        far = config("ring:r", more="mtu = 9500\nexception = " + RING, mac="02:00:00:00:00:03", ip4=TAP4, ip6=TAP6)
        nic = w.nic(far, config("ring:r") + COUNT, eal=())
        ping(NIC4, 100)
        send("host0", 9514)
        report = nic.stop()[1]
        assert report["contexts"]["count"]["packets"] == 1 and "not-linear" not in report["drops"], report["drops"]


@rule
def the_ring_of_an_af_packet_port_cuts_what_is_larger_also_where_no_header_tells():
    with World(mtu=9000) as w:
        nic = w.nic(config("af_packet:nic0") + "\n[context count]\nhandler = count\nfilter = ether proto 0x88b5\n", eal=())
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
            s.bind(("host0", 0))
            s.send(pk.ethernet(bytes(3000 - 14), 0x88B5, dst=NIC_MAC))
        ping(NIC4, 100)
        context = nic.stop()["contexts"]["count"]
        assert (context["packets"], context["bytes"]) == (1, 2048 - 66), context


if __name__ == "__main__":
    net.main()
