#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ports by AF_XDP on a veth link: what they carry, what they refuse, what the kernel sees meanwhile and finds afterwards."""

import errno
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import ping, ping_at_times, woken  # noqa: E402
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, Skip, World, config, ip, pk, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

AF_XDP = 44
HOST_MAC = "02:00:00:00:00:02"
PORT = "af_xdp:nic0"
ROCE = 4791
LSAN = os.environ.get("LSAN_OPTIONS", "")
PROGRAM = "/usr/lib/%s-linux-gnu/bpf/xsk_def_xdp_prog_5.3.o" % os.uname().machine


def need_xdp():
    """A Skip where this kernel has no AF_XDP, or does not let us use it."""
    try:
        socket.socket(AF_XDP, socket.SOCK_RAW, 0).close()
    except OSError as error:
        why = {errno.EAFNOSUPPORT: "this kernel has no AF_XDP"}.get(error.errno, "no AF_XDP here: %s" % error)
        raise Skip(why)
    with open("/proc/self/status") as f:
        effective = int(re.search(r"CapEff:\s*(\S+)", f.read()).group(1), 16)
    with open("/proc/self/uid_map") as f:
        whole = f.read().split() == ["0", "0", "4294967295"]
    if not effective >> 21 & 1 or not whole:
        raise Skip("AF_XDP's programs need CAP_SYS_ADMIN outside of user namespaces")


class Link(World):
    def __init__(self, **more):
        need_xdp()
        super().__init__(**more)
        self.suppress()

    def suppress(self):
        """The driver frees no umem, which is not our leak."""
        path = self.write("leaks", "leak:xsk_umem__create\n")
        os.environ["LSAN_OPTIONS"] = "%s:suppressions=%s:print_suppressions=0" % (LSAN, path)

    def program(self, name="nic0"):
        """The XDP program on the NIC's interface, as the kernel tells of it; None: there is none."""
        return json.loads(self.space.do(lambda: ip("-j", "-d", "link", "show", "dev", name)))[0].get("xdp")

    def flags(self):
        text = self.space.do(lambda: ip("-d", "link", "show", "dev", "nic0"))
        return re.sub(r" prog/xdp .*| xdp[a-z]*(?= )", "", text)


def unreachable(frames):
    """ICMP and ICMPv6 "destination unreachable"."""
    return [f for f in frames if (f[12:14] == b"\x08\x00" and f[23] == 1 and f[34] == 3) or
            (f[12:14] == b"\x86\xdd" and f[20] == 58 and f[54] == 1)]


def refused(w, port, *words, **more):
    why = w.nic(config(port=port, **more), eal=(), expect=1).refuse()
    for word in words:
        assert word in why, "%r is not in: %s" % (word, why)
    assert why.count("\n") == 1 and why.startswith("nic: "), why


@rule
def a_packet_wakes_its_worker():
    with Link() as w:
        nic = w.nic(config(PORT), eal=())
        ping_at_times(NIC4)
        woken(nic.stop())


# ---- frames --------------------------------------------------------------------------------------------------------------

@rule
def full_frames_go_both_ways_and_the_interface_is_as_before():
    with Link() as w:
        before = w.flags()
        nic = w.nic(config(PORT), eal=())
        assert w.program(), "no program on the interface"
        assert "promiscuity 1" in w.flags(), w.flags()
        for address, size in ((NIC4, 1472), (NIC6, 1452), (NIC4, 0), (NIC6, 1)):
            ping(address, size)
        errors = nic.stderr()
        report = nic.stop()
        assert report["answered"] >= 12 and report["ports"][0]["kernel_drops"] == 0, report
        assert w.program() is None and w.flags() == before, w.flags()
        assert not errors, errors


@rule
def an_mtu_as_large_as_a_page_allows():
    with Link(mtu=3422) as w:
        nic = w.nic(config(PORT, more="mtu = 3422"), eal=())
        ping(NIC4, 3422 - 28)
        ping(NIC6, 3422 - 48)
        report = nic.stop()
        assert report["answered"] >= 6, report


@rule
def an_interface_s_smaller_mtu_is_raised():
    with Link(mtu=3000) as w:
        w.space.do(lambda: ip("link", "set", "nic0", "mtu", "1500"))
        nic = w.nic(config(PORT, more="mtu = 3000"), eal=())
        assert "mtu 3000" in w.flags()
        ping(NIC4, 2972)
        nic.stop()


@rule
def what_comes_while_the_nic_stands_still_is_counted():
    with Link(addresses=False) as w:
        nic = w.nic(config(PORT), eal=())
        frame = pk.ethernet(b"x" * 46, 0x88B5, dst=NIC_MAC)
        sniffer = net.Sniffer("host0")
        nic.process.send_signal(signal.SIGSTOP)
        until("stopped", lambda: open("/proc/%d/stat" % nic.process.pid).read().rsplit(")", 1)[1].split()[0] == "T")
        for _ in range(3000):
            sniffer.send(frame)
        time.sleep(0.5)
        nic.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        sniffer.stop()
        port = nic.stop()["ports"][0]
        assert port["packets"] + port["kernel_drops"] == 3000 and port["kernel_drops"] >= 3000 - 2 * 2048, port


@rule
def checksums_that_the_sender_leaves_are_wrong_at_the_nic_and_ethtool_cures_it():
    with Link() as w:
        nic = w.nic(config(PORT) + "[context echo]\nhandler = reflect\nfilter = udp port 7777\nverify = yes\n", eal=())
        net.leave_checksums("host0", True)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(60)
            for _ in range(5):
                s.sendto(b"left", (NIC4, 7777))
            ping(NIC4, 100)
            net.leave_checksums("host0", False)
            s.sendto(b"made", (NIC4, 7777))
            assert s.recv(100) == b"made"
        assert nic.stop()["drops"]["bad-checksum"] == 5


# ---- the kernel beside it ------------------------------------------------------------------------------------------------

@rule
def the_kernel_sees_nothing_of_what_the_port_receives():
    """RoCE for nobody, and TCP and UDP to ports where nobody listens: no answer of the kernel's at the NIC's end leaves, though
    it has the NIC's address there, by the TAP, and no filter."""
    net.need_tap()
    with Link() as w:
        w.space.do(lambda: ip("link", "set", "nic0", "address", NIC_MAC, "arp", "on"))
        nic = w.nic(config(PORT, more="exception = tap:tap0\nexception-address = yes"), eal=())
        below, wire = w.space.do(lambda: net.Sniffer("nic0")), net.Sniffer("host0")
        ping(NIC4, 100)
        ping(NIC6, 100)
        for address, family in ((NIC4, socket.AF_INET), (NIC6, socket.AF_INET6)):
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                for _ in range(20):
                    s.sendto(b"\x64" + b"\0" * 40, (address, ROCE))
        time.sleep(0.5)
        frames, seen = wire.stop(), below.stop()
        incoming = [f for f in seen if f[6:12] != pk.mac_bytes(NIC_MAC)]
        assert not incoming, "the kernel saw %d frames, first: %s" % (len(incoming), incoming[0].hex())
        assert not unreachable(frames), unreachable(frames)[0].hex()
        for v6 in (False, True):
            echoes = [f for f in frames if (f[12:14] == b"\x86\xdd" and f[20] == 58 and f[54] == 129 if v6 else
                                            f[12:14] == b"\x08\x00" and f[23] == 1 and f[34] == 0)]
            assert len(echoes) == 3, "%d answers to 3 echo requests" % len(echoes)
        report = nic.stop()
        assert sum(n for name, n in report["drops"].items() if name.startswith("bad-")) >= 40, report


@rule
def an_address_of_the_kernels_is_refused():
    with Link() as w:
        w.space.do(lambda: ip("addr", "add", NIC4 + "/24", "dev", "nic0"))
        refused(w, PORT, NIC4, "nic0")


@rule
def without_all_of_the_interface_the_filter_is_asked_for():
    net.need_tap()
    with Link() as w:
        refused(w, PORT + ",start_queue=0", "tc qdisc add dev nic0 clsact", more="exception = tap:tap0\nexception-address = yes")


# ---- messages ------------------------------------------------------------------------------------------------------------

def messages(here_port, there_port, mtu=1500, path=1024, family=4):
    """SDR messages both ways; each byte is compared."""
    sdr = pk.Sdr(qp=0x2000, rkey=0xDEADBEEF, mtu=path, chunk=4 * path, max_bytes=40 * path, slots=4, generations=4, channels=1)
    lengths = [0, 1, path - 1, path, path + 1, 40 * path - 1, 40 * path, 12345]
    with Link(addresses=False, mtu=mtu) as w:
        ip("link", "set", "host0", "arp", "off")
        more = "mtu = %d" % mtu
        nics = [w.nic(config(here_port, mac=HOST_MAC, ip4=HOST4, ip6=HOST6, more=more), eal=(), space=None),
                w.nic(config(there_port, more=more), eal=())]
        words = ("qpn=%d rkey=%d mtu=%d chunk=%d max=%d slots=%d generations=%d channels=%d family=%d" %
                 (sdr.qp, sdr.rkey, sdr.mtu, sdr.chunk, sdr.max_bytes, sdr.slots, sdr.generations, sdr.channels, family))
        infos = [nic.ask("qp", 0, words)[0] for nic in nics]
        for nic, info in zip(nics, infos[::-1]):
            nic.ask("connect", 0, info)
        room = sdr.max_bytes
        for here, there in (nics, nics[::-1]):
            data = random.Random(1).randbytes(room)
            there.ask("load", 0, w.write("source", data))
            here.ask("room", 0, room * len(lengths))
            for first in range(0, len(lengths), sdr.slots):
                turn = range(first, first + sdr.slots)
                for i in turn:
                    here.ask("post", 0, i * room, room)
                for i in turn:
                    there.ask("send", 0, 0, lengths[i], 77)
                for i in turn:
                    assert int(here.ask("finish", 0, 50)[1]) == lengths[i]
                there.ask("sent", 0)
            here.ask("save", 0, w.path("saved"))
            with open(w.path("saved"), "rb") as f:
                assert f.read() == b"".join(data[:n].ljust(room, b"\0") for n in lengths)
        for nic in nics:
            report = nic.stop()
            strange = {name: n for name, n in report["drops"].items() if n and name != "no-match"}
            assert not strange, strange


@rule
def messages_cross_to_an_af_packet_port_over_ipv4():
    messages("af_packet:host0", PORT)


@rule
def messages_cross_to_an_af_packet_port_over_ipv6():
    messages("af_packet:host0", PORT, family=6)


@rule
def messages_cross_with_af_xdp_at_both_ends():
    messages("af_xdp:host0", PORT)


@rule
def a_path_mtu_of_2048_crosses_with_af_xdp_at_both_ends():
    messages("af_xdp:host0,force_copy=1", PORT + ",busy_budget=0", mtu=2200, path=2048, family=6)


# ---- what cannot be ------------------------------------------------------------------------------------------------------

@rule
def ports_that_cannot_be_are_refused_with_what_to_do():
    with Link() as w:
        refused(w, "af_xdp:nic1", "no interface nic1", "nic0")
        for mtu in (3423, 4180, 9000):
            refused(w, PORT, "MTU %d is beyond" % mtu, "at most 3422", "af_packet:nic0", more="mtu = %d" % mtu)
        refused(w, PORT, "has 1 queue, and 2 workers", more="workers = 2")
        refused(w, PORT + ",queue_count=2", "take no 'queue_count'")
        assert w.program() is None
        w.space.do(lambda: ip("link", "set", "nic0", "down"))
        refused(w, PORT, "nic0 is down", "ip link set dev nic0 up")


# ---- its end ----------------------------------------------------------------------------------------------------

@rule
def a_larger_mtu_at_the_other_end_of_a_veth_is_named():
    with Link(mtu=9000) as w:
        refused(w, PORT, "is the MTU at the other end of this veth larger than 3422?")
        assert w.program() is None


@rule
def an_interface_in_use_is_refused_and_its_user_goes_on():
    with Link() as w:
        nic = w.nic(config(PORT), eal=())
        ping(NIC4, 100)
        refused(w, PORT, "another process has its queue 0")
        ping(NIC4, 100)
        nic.stop()


@rule
def another_program_on_the_interface_is_refused_and_stays():
    """A program that the driver is given is another one for a NIC that has none."""
    with Link() as w:
        path = w.write("pass.o", b"")
        refused(w, "%s,xdp_prog=%s" % (PORT, path), "queue 0")
        if not os.path.exists(PROGRAM):
            raise Skip("libxdp's programs are not where Debian has them")
        nic = w.nic(config("%s,xdp_prog=%s" % (PORT, PROGRAM)), eal=())
        ping(NIC4, 1472)
        nic.kill()
        assert w.program()
        refused(w, "%s,xdp_prog=%s" % (PORT, PROGRAM), "has an XDP program", "ip link set dev nic0 xdp off")
        assert w.program()


class Run(Link, House):
    """`spindle run` with the sandbox, on the link."""

    def __init__(self, **more):
        need_xdp()
        House.__init__(self)
        house, self.closing = self.closing, []
        World.__init__(self, **more)
        self.suppress()
        self.closing = house + self.closing

    def run(self, name="xdp", port=PORT, space="nic", **more):
        socket = self.path(name + ".sock")
        path = self.write(name + ".ini", config(port, more="name = %s\nsocket = %s\n" % (name, socket), **more))
        nic = Process([net.SPINDLE, "run", "-c", path, "--", *net.EAL], space=self.space if space == "nic" else space,
                      env=net.environment(self.dir))
        nic.socket = socket
        self.closing.append(nic.kill)
        line = nic.line()
        assert " ready: " in line, line + nic.stderr()
        return nic


@rule
def a_sandboxed_nic_works_and_takes_its_program_away_at_sigterm():
    with Run() as w:
        nic = w.run()
        with open("/proc/%d/status" % nic.pid) as f:
            status = f.read()
        assert "NoNewPrivs:\t1" in status and int(re.search(r"CapEff:\s*(\S+)", status).group(1), 16) == 0x3000, status
        if not net.sanitized():
            assert "Seccomp:\t2" in status, status
        ping(NIC4, 1472, count=50)
        ping(NIC6, 1452, count=50)
        assert w.program()
        nic.signal(signal.SIGTERM)
        nic.end()
        assert w.program() is None, "the program is still there"
        assert not nic.stderr(), nic.stderr()


@rule
def what_sigkill_leaves_passes_all_on_and_the_next_nic_takes_it_away():
    with Run() as w:
        nic = w.run()
        ping(NIC4, 100)
        nic.signal(signal.SIGKILL)
        nic.end(-9)
        assert w.program(), "docs/ports.md says that it stays"
        assert "promiscuity 0" in w.flags(), w.flags()
        # The kernel has the interface again.
        w.space.do(lambda: (ip("link", "set", "nic0", "arp", "on"), ip("addr", "add", NIC4 + "/24", "dev", "nic0")))
        ip("neigh", "flush", "dev", "host0")
        ping(NIC4, 100)
        w.space.do(lambda: (ip("addr", "del", NIC4 + "/24", "dev", "nic0"), ip("link", "set", "nic0", "arp", "off")))
        ip("neigh", "flush", "dev", "host0")
        nic = w.run()
        ping(NIC4, 1472)
        nic.signal(signal.SIGTERM)
        nic.end()
        assert w.program() is None, "the program is still there"


# ---- RDMA ----------------------------------------------------------------------------------------------------------------

@rule
def rdma_between_two_nics_with_af_xdp_ports_has_every_byte_right():
    with Run(addresses=False) as w:
        ip("link", "set", "host0", "arp", "off")
        far = w.run("far")
        near = w.run("near", "af_xdp:host0", space=None, mac=HOST_MAC, ip4=HOST4, ip6=HOST6)

        def rdma(nic, *words):
            p = Process([net.SPINDLE, "rdma", "bw", "--nic", nic.socket, "--events", "--json", *words], env=net.environment(w.dir))
            w.closing.append(p.kill)
            return p
        for qp, op, address in (("rc", "send", NIC4), ("rc", "write", NIC6), ("rc", "read", NIC4), ("uc", "write", NIC6), ("ud", "send", NIC4)):
            server = rdma(far, "--port", "0")
            port = str(json.loads(server.line())["port"])
            size = "1000" if qp == "ud" else "20000"
            lines = rdma(near, address, "--port", port, "-u", "18", "--op", op, "--qp", qp, "-s", size, "-n", "100", "-t", "16",
                         "--verify").end()
            server.end()
            row = json.loads(lines[0])
            assert len(lines) == 1 and (row["op"], row["qp"]) == (op, qp) and row.get("bad", 0) == 0, lines
        for nic in (near, far):
            nic.signal(signal.SIGTERM)
            nic.end()
            assert not nic.stderr(), nic.stderr()
        assert w.program() is None


if __name__ == "__main__":
    net.main()
