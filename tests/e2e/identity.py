#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One address for NIC and kernel: it sits on the exception TAP, each question is answered once, and RoCE is the NIC's alone.
Where the kernel would answer by the port's interface as well, the NIC does not start."""

import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import ping  # noqa: E402
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, Space, World, config, ip, pk, rule, until  # noqa: E402
from served import House  # noqa: E402

ON_TAP = "exception = tap:tap0\nexception-address = yes"
STATION, STATION4, STATION6 = "02:00:00:00:00:50", "192.0.2.50", "2001:db8::50"  # what asks, beside the kernel of host0
BROADCAST = "ff:ff:ff:ff:ff:ff"
DROP = ("bpf", "da", "bytecode", "1,6 0 0 2")  # matchall action drop, on kernels that lack it too
QUIET = 0.5
WHOLE = "pcap-iface:nic0"  # DPDK's af_packet driver has the kernel put IPv4 fragments together


class Shared(World):
    """The interface of the port is in the namespace where the TAP will be, and its kernel takes part there: a weak host."""

    def __init__(self, dropping=True):
        super().__init__()
        net.need_tap()
        # with the NIC's MAC, too: by another one it would not take what is for the NIC
        self.space.do(lambda: ip("link", "set", "nic0", "address", NIC_MAC, "arp", "on"))
        if dropping:
            self.tc("qdisc", "add", "dev", "nic0", "clsact")
            self.tc("filter", "add", "dev", "nic0", "ingress", *DROP)

    def tc(self, *words):
        self.space.do(lambda: subprocess.run(["tc", *words], check=True, capture_output=True))

    def start(self, more="", port="af_packet:nic0"):
        return self.nic(config(port, more=ON_TAP + "\n" + more), eal=())

    def refused(self, *words, more=ON_TAP, port="af_packet:nic0", eal=()):
        why = self.nic(config(port, more=more), eal=eal, expect=1).refuse()
        for word in words:
            assert word in why, "%r is not in: %s" % (word, why)
        assert why.count("\n") == 1, why
        return why


class Station:
    """Frames of its own, and what comes back to it; all that passes host0 meanwhile is in .frames after stop()."""

    def __init__(self):
        self.sniffer = net.Sniffer("host0")

    def send(self, packet, ethertype=None, dst=NIC_MAC):
        v6 = packet[0] >> 4 == 6
        self.sniffer.send(pk.ethernet(packet, ethertype or (0x86DD if v6 else 0x0800), dst=dst, src=STATION))

    def stop(self):
        """What came from the other end, once it has been quiet there."""
        seen = -1
        while seen != self.sniffer.frames.qsize():
            seen = self.sniffer.frames.qsize()
            time.sleep(QUIET)
        self.frames = [f for f in self.sniffer.stop() if f[6:12] not in (pk.mac_bytes(STATION), HOST_MAC())]
        return self.frames


def HOST_MAC():
    return pk.mac_bytes(re.search(r"link/ether (\S+)", ip("link", "show", "dev", "host0")).group(1))


def arp_request(target, source=STATION4):
    return struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + pk.mac_bytes(STATION) + pk.ip_bytes(source) + b"\0" * 6 + pk.ip_bytes(target)


def icmp6(message, source, target, hops=255):
    pseudo = pk.ip_bytes(source) + pk.ip_bytes(target) + struct.pack(">II", len(message), 58)
    message = message[:2] + struct.pack(">H", pk.checksum(pseudo + message)) + message[4:]
    return pk.ipv6(message, src=source, dst=target, proto=58, hops=hops)


def solicitation(target, node):
    return icmp6(struct.pack(">BBHI", 135, 0, 0, 0) + pk.ip_bytes(target) + b"\1\1" + pk.mac_bytes(STATION), STATION6, node)


def echo4(number, size):
    message = struct.pack(">BBHHH", 8, 0, 0, 0x5350, number) + bytes(size)
    message = message[:2] + struct.pack(">H", pk.checksum(message)) + message[4:]
    return pk.ipv4(message, src=STATION4, dst=NIC4, proto=1)


def echo6(number, size):
    return icmp6(struct.pack(">BBHHH", 128, 0, 0, 0x5350, number) + bytes(size), STATION6, NIC6, hops=64)


def is_icmp(frame, kind4, kind6):
    if frame[12:14] == b"\x08\x00":
        return frame[23] == 1 and frame[34] == kind4
    return frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == kind6


def unreachable(frames):
    """Destination unreachable, time exceeded, parameter problem: what a kernel says of what it does not want."""
    return [f for f in frames if any(is_icmp(f, *kinds) for kinds in ((3, 1), (11, 3), (12, 4)))]


def answers_are_single(w, count=20):
    """As many answers as questions, of each kind, and each from the NIC's MAC."""
    station = Station()
    node = "ff02::1:ff00:1"
    node_mac = "33:33:ff:00:00:01"
    for i in range(count):
        station.send(arp_request(NIC4), 0x0806, dst=BROADCAST if i % 2 else NIC_MAC)
        station.send(solicitation(NIC6, node if i % 2 else NIC6), dst=node_mac if i % 2 else NIC_MAC)
        station.send(echo4(i, i * 70))
        station.send(echo6(i, i * 70))
    frames = station.stop()
    assert all(f[6:12] == pk.mac_bytes(NIC_MAC) for f in frames if f[:6] == pk.mac_bytes(STATION)), [f[:60].hex() for f in frames]
    arp = [f for f in frames if f[12:14] == b"\x08\x06" and f[20:22] == b"\0\2"]
    advertised = [f for f in frames if is_icmp(f, -1, 136) and f[62:78] == pk.ip_bytes(NIC6)]
    assert (len(arp), len(advertised)) == (count, count), (len(arp), len(advertised))
    assert all(f[22:32] == pk.mac_bytes(NIC_MAC) + pk.ip_bytes(NIC4) for f in arp)
    for kinds, at in (((0, -1), 40), ((-1, 129), 60)):
        numbers = sorted(struct.unpack(">H", f[at:at + 2])[0] for f in frames if is_icmp(f, *kinds))
        assert numbers == list(range(count)), numbers
    assert not unreachable(frames), [f.hex() for f in unreachable(frames)]


# ---- one address ---------------------------------------------------------------------------------------------------------

@rule
def the_tap_has_the_nics_mac_and_addresses_and_is_up():
    with Shared() as w:
        nic = w.start("mtu = 1400")
        shown = w.space.do(lambda: ip("addr", "show", "dev", "tap0"))
        for words in ("link/ether " + NIC_MAC, "inet %s/24" % NIC4, "inet6 %s/64" % NIC6, "mtu 1400", ",UP"):
            assert words in shown, shown
        assert "inet6 %s/64 scope global tentative" % NIC6 not in shown, shown
        nic.stop()
        assert "tap0" not in w.space.do(lambda: ip("link"))


@rule
def a_tap_that_eal_made_gets_the_nics_mac_too():
    with Shared() as w:
        w.nic(config("af_packet:nic0", more="exception = net_tap0\nexception-address = yes"), eal=("--vdev", "net_tap0,iface=tap0"))
        assert "link/ether " + NIC_MAC in w.space.do(lambda: ip("link", "show", "dev", "tap0"))
        answers_are_single(w)


@rule
def each_question_is_answered_once():
    for workers in (1, 2):
        with Shared() as w:
            nic = w.start("workers = %d" % workers)
            answers_are_single(w)
            report = nic.stop()
            assert report["answered"] >= 80 and not report["drops"].get("exception-full"), report


@rule
def the_kernel_behind_the_tap_finds_its_neighbours_and_both_learn():
    with Shared() as w:
        w.start()

        def from_there():
            ping(HOST4, 1000)
            ping(HOST6, 1000)
            return ip("neigh", "show", "dev", "tap0")
        known = w.space.do(from_there)
        mac = HOST_MAC()
        for address in (HOST4, HOST6):
            line = [x for x in known.splitlines() if x.startswith(address + " ")]
            assert line and ":".join("%02x" % b for b in mac) in line[0], known


@rule
def pings_in_fragments_are_answered_once_by_the_kernel():
    with Shared() as w:
        nic = w.start(port=WHOLE)
        for address, family, protocol, reply in ((NIC4, socket.AF_INET, socket.IPPROTO_ICMP, 0),
                                                 (NIC6, socket.AF_INET6, socket.IPPROTO_ICMPV6, 129)):
            with socket.socket(family, socket.SOCK_RAW, protocol) as s:
                s.settimeout(60)
                numbers = []
                for number in range(5):
                    message = struct.pack(">BBHHH", 8 if reply == 0 else 128, 0, 0, 0x5351, number) + b"a" * 4000
                    if reply == 0:
                        message = message[:2] + struct.pack(">H", pk.checksum(message)) + message[4:]
                    s.sendto(message, (address, 0))
                while len(numbers) < 5 or s.gettimeout() == 60:
                    try:
                        data = s.recv(65536)
                    except TimeoutError:
                        break
                    data = data[20:] if reply == 0 else data
                    if data[0] == reply and data[4:6] == b"\x53\x51":
                        numbers.append(struct.unpack(">H", data[6:8])[0])
                    if len(numbers) == 5:
                        s.settimeout(QUIET)
                        numbers += [n for n in drained(s, reply)]
                assert sorted(numbers) == list(range(5)), numbers
        assert nic.stop()["forwarded"] >= 30


def drained(s, reply):
    """Replies that come after the last that was wanted: none should."""
    while True:
        try:
            data = s.recv(65536)
        except TimeoutError:
            return
        data = data[20:] if reply == 0 else data
        if data[0] == reply and data[4:6] == b"\x53\x51":
            yield struct.unpack(">H", data[6:8])[0]


@rule
def what_is_larger_than_the_mtu_is_dropped_by_name_and_blocks_nothing():
    """Two fragments make a datagram of 1600 bytes, on af_packet before the NIC sees it: net_tap would wait with it for ever."""
    with Shared() as w:
        nic = w.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for _ in range(3):
                s.sendto(b"b" * 1600, (NIC4, 9))
        tcp_both_ways(w.space, NIC4, 1 << 18)
        drops = nic.stop()["drops"]
        assert drops == {"exception-mtu": 3}, drops


# ---- RoCE ----------------------------------------------------------------------------------------------------------------

def roce_frames():
    """Datagrams to UDP port 4791 of the NIC's addresses that no QP takes: name of the drop, frame."""
    whole = {"eth": {"dst": NIC_MAC, "src": STATION}, "payload": b"x" * 64}
    v4, v6 = {"src": STATION4, "dst": NIC4}, {"src": STATION6, "dst": NIC6, "v6": True}
    datagram = pk.roce(0x04, 0x4321, **whole, **v4)[34:]

    def ethernet(packet):
        return pk.ethernet(packet, 0x86DD if packet[0] >> 4 == 6 else 0x0800, dst=NIC_MAC, src=STATION)

    def six(header, body=datagram):  # extension headers in front of the datagram
        return ethernet(pk.ipv6(header[1] + body, src=STATION6, dst=NIC6, proto=header[0]))
    yield "bad-qp", pk.roce(0x04, 0x4321, **whole, **v4)
    yield "bad-qp", pk.roce(0x04, 0x4321, **whole, **v6)
    yield "bad-icrc", pk.roce(0x04, 0x4321, bad_icrc=True, **whole, **v4)
    yield "short-bth", ethernet(pk.ipv4(pk.udp(b"hello"), src=STATION4, dst=NIC4))
    # a kernel would put these together, and say that there is no such port
    yield "roce-fragment", ethernet(pk.ipv4(datagram[:48], src=STATION4, dst=NIC4, ident=7, fragment=0x2000))
    yield None, ethernet(pk.ipv4(datagram[48:], src=STATION4, dst=NIC4, ident=7, fragment=6))
    yield "roce-fragment", six((44, struct.pack(">BBHI", 17, 0, 0, 9)))
    yield "roce-fragment", six((44, struct.pack(">BBHI", 60, 0, 1, 10) + struct.pack(">BBBBI", 17, 0, 1, 4, 0)), datagram[:48])
    yield None, six((44, struct.pack(">BBHI", 60, 0, 56, 10)), datagram[48:])
    many = b"".join(struct.pack(">BBBBI", 60 if i < 11 else 17, 0, 1, 4, 0) for i in range(12))
    yield "roce-fragment", six((60, many))


@rule
def roce_to_an_unknown_qp_is_counted_and_goes_nowhere():
    for port in (WHOLE, "af_packet:nic0"):
        with Shared() as w:
            roce_is_the_nics_alone(w, port)


def roce_is_the_nics_alone(w, port):
    nic = w.start(port=port)
    ping(NIC4, 10, count=1)
    tap = w.space.do(lambda: net.Sniffer("tap0"))
    station = Station()
    expected = {}
    for _ in range(5):
        for why, frame in roce_frames():
            station.sniffer.send(frame)
            expected[why] = expected.get(why, 0) + 1
    # and what is not RoCE still gets its one refusal, from the kernel behind the TAP
    station.send(arp_request(NIC4), 0x0806)
    ip("neigh", "replace", STATION4, "lladdr", STATION, "dev", "host0")
    w.space.do(lambda: ip("neigh", "replace", STATION4, "lladdr", STATION, "dev", "tap0"))
    station.send(pk.ipv4(pk.udp(b"nobody", dport=9), src=STATION4, dst=NIC4))
    frames = station.stop()
    refused = unreachable(frames)
    assert len(refused) == 1 and struct.unpack(">H", refused[0][64:66])[0] == 9, [f.hex() for f in refused]
    # of fragments only the first says whose they are; the others come to nothing without it
    others = [frame for why, frame in roce_frames() if why is None]
    reached = [f for f in tap.stop() if b"x" * 16 in f or f[36:38] == b"\x12\xb7"]
    assert set(reached) <= set(others), "RoCE on the TAP: %s" % {f.hex() for f in set(reached) - set(others)}
    drops = nic.stop()["drops"]
    del expected[None]
    assert {k: drops.get(k) for k in expected} == expected or port != WHOLE, (expected, drops)
    assert sum(drops.get(k, 0) for k in expected) == sum(expected.values()), (expected, drops)


# ---- TCP -----------------------------------------------------------------------------------------------------------------

def counters():
    """Of this network namespace's TCP."""
    found = {}
    lines = []
    for name in ("netstat", "snmp"):
        with open("/proc/thread-self/net/" + name) as f:
            lines += [line.split() for line in f]
    for names, values in zip(lines[::2], lines[1::2]):
        found.update(zip(names[1:], map(int, values[1:])))
    return found


def retransmitted(s):
    return struct.unpack("=I", s.getsockopt(socket.IPPROTO_TCP, 11, 104)[100:104])[0]  # TCP_INFO, tcpi_total_retrans


def tcp_both_ways(space, address, size=3 << 20):
    """Bytes there and back, by a server in the TAP's namespace. Every segment is on the wire once, but for those that a
    sender itself sent again. Returns what passed host0."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    again = []

    def listen():
        s = socket.socket(family, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # what is on its way finds room in each queue
        s.bind((address, 0))
        s.listen(1)
        return s
    server = space.do(listen)

    def serve():
        s, _ = server.accept()
        with s:
            while data := s.recv(65536):
                s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            until("all is acknowledged", lambda: not struct.unpack("=i", fcntl.ioctl(s, 0x5411, bytes(4)))[0])  # SIOCOUTQ
            again.append(retransmitted(s))
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    data = os.urandom(size)
    before = counters(), space.do(counters)
    sniffer = net.Sniffer("host0")
    with socket.socket(family, socket.SOCK_STREAM) as s, server:
        s.settimeout(60)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        s.connect((address, server.getsockname()[1]))
        threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)), daemon=True).start()
        got = bytearray()
        while part := s.recv(65536):
            got += part
        assert got == data, "%d bytes came back, not the %d sent" % (len(got), size)
        again.append(retransmitted(s))
        thread.join(60)
    until("the connection's end", lambda: len(again) == 2)
    time.sleep(QUIET)
    frames = [f for f in sniffer.stop() if f[23 if family == socket.AF_INET else 20] == 6]
    after = counters(), space.do(counters)
    # A frame that came twice has the same IP id, and all else.
    assert len(set(frames)) == len(frames) or family == socket.AF_INET6, "%d frames came twice" % (len(frames) - len(set(frames)))
    segments = [f for f in frames if payload(f)]
    repeats = len(segments) - len({(f[26:46] if family == socket.AF_INET else f[22:62]) for f in segments})
    assert repeats <= sum(again), "%d segments twice on the wire, %s sent again" % (repeats, again)
    if sum(again) == 0:
        for old, new in zip(before, after):
            for name in ("TCPDSACKOldSent", "TCPDSACKOfoSent", "TCPDSACKRecv"):
                assert new[name] == old[name], "%s: %d segments came twice" % (name, new[name] - old[name])
    # Also the last FIN, which nobody asks a socket about.
    return frames, max(sum(again), sum(new["RetransSegs"] - old["RetransSegs"] for old, new in zip(before, after)))


def payload(frame):
    at = 34 if frame[12:14] == b"\x08\x00" else 54
    total = struct.unpack(">H", frame[16:18])[0] - 20 if at == 34 else struct.unpack(">H", frame[18:20])[0]
    return total - (frame[at + 12] >> 4) * 4


@rule
def tcp_goes_by_the_nics_address_and_nothing_comes_twice():
    with Shared() as w:
        nic = w.start()
        for address in (NIC4, NIC6):
            frames, again = tcp_both_ways(w.space, address)
            assert {f[6:12] for f in frames} == {pk.mac_bytes(NIC_MAC), HOST_MAC()}
            first = struct.pack(">B", 2)
            flags = 47 if address == NIC4 else 67
            assert sum(f[flags:flags + 1] == first for f in frames) == 1, "SYN"
            assert sum(f[flags] == 0x12 for f in frames) == 1, "SYN, ACK"
            assert again or not any(f[flags] & 4 for f in frames), "RST"  # for what comes again when the socket has gone
            capture = pk.write_capture(w.path("tcp.pcap"), frames)
            seen = net.tshark(capture, "tcp.analysis.retransmission || tcp.analysis.spurious_retransmission", "frame.number")
            assert len(seen) <= again, "tshark sees %d retransmissions, the senders know of %d" % (len(seen), again)
        assert not nic.stop()["drops"].get("exception-full")


# ---- who would answer as well --------------------------------------------------------------------------------------------

def follow(w, why):
    """What the refusal says, word by word; another filter where this kernel has no matchall."""
    commands = re.findall(r"sudo (tc [^;(]+)", why)
    assert len(commands) == 2, why
    for command in commands:
        words = command.split()
        done = w.space.do(lambda: subprocess.run(words, capture_output=True, text=True))
        if done.returncode and words[1] == "filter":
            assert words[-3:] == ["matchall", "action", "drop"], words
            w.tc(*words[1:-3], *DROP)
        else:
            assert done.returncode == 0, done.stderr


@rule
def where_the_ports_interface_would_answer_too_the_nic_does_not_start():
    for port, eal in (("af_packet:nic0", ()), ("pcap-iface:nic0", ()), ("net_af_packet0", ("--vdev", "net_af_packet0,iface=nic0"))):
        with Shared(dropping=False) as w:
            why = w.refused("address on tap0", "by nic0, too", "tc filter add dev nic0 ingress matchall action drop",
                            "exception-netns", port=port, eal=eal)
            follow(w, why)
            w.nic(config(port, more=ON_TAP), eal=eal)
            answers_are_single(w, count=5)


@rule
def what_may_let_something_through_is_no_recipe():
    passing = ("bpf", "da", "bytecode", "1,6 0 0 0")
    for filters in ([], [("egress", *DROP)], [("ingress", "protocol", "ip", *DROP)], [("ingress", "bpf", *DROP[2:])],
                    [("ingress", "chain", "5", *DROP)], [("ingress", "prio", "1", *passing), ("ingress", "prio", "2", *DROP)],
                    [("ingress", "bpf", "da", "bytecode", "2,48 0 0 0,6 0 0 2")]):
        with Shared(dropping=False) as w:
            w.tc("qdisc", "add", "dev", "nic0", "clsact")
            for words in filters:
                w.tc("filter", "add", "dev", "nic0", *words)
            w.refused("matchall action drop")


@rule
def the_qdisc_ingress_is_as_good_as_clsact():
    with Shared(dropping=False) as w:
        w.tc("qdisc", "add", "dev", "nic0", "ingress")
        w.tc("filter", "add", "dev", "nic0", "ingress", *DROP)
        w.start()
        answers_are_single(w, count=5)


@rule
def a_tap_that_has_kept_the_address_is_looked_at_as_well():
    with Shared(dropping=False) as w:
        w.space.do(lambda: (ip("tuntap", "add", "dev", "tap0", "mode", "tap", "multi_queue"),
                            ip("addr", "add", NIC6 + "/64", "dev", "tap0", "nodad")))
        w.refused("by nic0, too", more="exception = tap:tap0")


@rule
def what_the_configuration_cannot_mean_is_refused():
    with Shared() as w:
        w.refused("there is no exception port", more="exception-address = yes")
        w.refused("not null:", more="exception = null:\nexception-address = yes")
        w.refused("VLAN interface", more=ON_TAP + "\nvlan = 7")
        w.refused("there is no exception port", more="exception-netns = other")
        w.refused("exception-netns needs exception = tap:NAME, not null:", more="exception = null:\nexception-netns = other")
        w.refused("network namespace no-such: No such file", more=ON_TAP + "\nexception-netns = no-such")
        w.refused("the NIC's own", more=ON_TAP + "\nexception-netns = /proc/self/ns/net")
        w.refused("cannot have the NIC's addresses", port="tap:tap1")
        w.space.do(lambda: ip("addr", "add", NIC4 + "/24", "dev", "nic0"))
        w.refused("the kernel's too, on nic0")


# ---- the port's interface alone in a namespace ---------------------------------------------------------------------------

@rule
def with_the_tap_in_another_namespace_the_ports_interface_may_be_as_it_is():
    with Shared(dropping=False) as w:
        apps = Space()
        w.closing.append(apps.close)
        nic = w.nic(config("af_packet:nic0", more=ON_TAP + "\nworkers = 2\nexception-netns = /proc/%d/ns/net" % apps.pid), eal=())
        assert "tap0" not in w.space.do(lambda: ip("link"))
        shown = apps.do(lambda: ip("addr", "show", "dev", "tap0"))
        assert "inet %s/24" % NIC4 in shown and "link/ether " + NIC_MAC in shown, shown
        answers_are_single(w)
        tcp_both_ways(apps, NIC4, 1 << 20)
        report = nic.stop()
        assert report["answered"] >= 80, report
        assert "tap0" not in apps.do(lambda: ip("link"))


# ---- spindle run ---------------------------------------------------------------------------------------------------------

@rule
def spindle_run_checks_before_it_gives_up_its_rights():
    with Shared(dropping=False) as w, House() as h:
        text = config("af_packet:nic0", more=ON_TAP)
        eal = tuple(net.EAL)
        nic = h.nic(text, eal=eal, space=w.space, ready=False)
        assert nic.end(1) == []
        assert nic.stderr().startswith("spindle run: with the NIC's address on tap0"), nic.stderr()
        follow(w, nic.stderr())
        nic = h.nic(text, eal=eal, space=w.space)
        answers_are_single(w, count=5)
        tcp_both_ways(w.space, NIC4, 1 << 20)
        with open("/proc/%d/status" % nic.pid) as f:
            assert re.search(r"CapEff:\s*0+$", f.read(), re.M), "it has kept rights"
        nic.signal(15)
        nic.end()
        assert "tap0" not in w.space.do(lambda: ip("link"))


@rule
def spindle_doctor_says_so_before():
    with Shared(dropping=False) as w:
        path = w.write("doctor.ini", config("af_packet:nic0", more=ON_TAP))

        def doctor():
            run = w.space.do(lambda: subprocess.run([net.SPINDLE, "doctor", "-c", path], capture_output=True, text=True, timeout=120,
                                                    env=net.environment(w.dir)))
            return " ".join((run.stdout + run.stderr).split())
        said = doctor()
        assert "would answer for the NIC's addresses by nic0, too" in said and "ingress matchall action drop" in said, said
        w.tc("qdisc", "add", "dev", "nic0", "clsact")
        w.tc("filter", "add", "dev", "nic0", "ingress", *DROP)
        said = doctor()
        assert "the kernel does not see what nic0 receives" in said, said


if __name__ == "__main__":
    net.main()
