#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle wire: two kernels in namespaces of their own, each at one end of a veth link, and the wire at the other ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import ping  # noqa: E402
from net import HOST4, NIC4, Space, World, ip, pk, rule, until  # noqa: E402

PORTS = ("af_packet:nic0", "af_packet:nic1")
KIND = 0x88B5  # an EtherType for experiments: the kernels have no answer to it


class Wire:
    """`spindle wire` in the middle namespace, ready."""

    def __init__(self, pair, *arguments):
        self.json = "--json" in arguments

        def before():
            net.die_with_parent()
            pair.world.space.enter()
        self.process = subprocess.Popen([net.SPINDLE, "wire", *PORTS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, preexec_fn=before, env=net.environment(pair.world.dir))
        pair.wires.append(self)
        self.ready = self.process.stdout.readline()
        assert "ready" in self.ready, self.process.stderr.read()

    def stop(self, number=signal.SIGINT):
        """Its report."""
        if number:
            self.process.send_signal(number)
        out, self.errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, (self.process.returncode, self.errors)
        assert "Sanitizer" not in self.errors and "runtime error" not in self.errors, self.errors[-3000:]
        if not self.json:
            return out
        report = json.loads(out)
        for way in ("there", "back"):
            r = report[way]
            ends = ("oversized", "queue_dropped", "memory_dropped", "lost", "refused", "sent", "in_flight")
            assert r["received"] + r["duplicated"] == sum(r[e] for e in ends), r
            assert r["kernel_drops"] == 0, r
        return report


class Pair:
    """host0 here - nic0, nic1 in the middle - host1 in a namespace beyond. No neighbour is asked for: only what is sent is
    there."""

    def __init__(self, mtu=1500):
        self.mtu = mtu

    def __enter__(self):
        self.world = World(addresses=False, mtu=self.mtu)
        self.world.__enter__()
        self.wires = []
        w, mtu = self.world, str(self.mtu)
        self.far = Space()
        w.closing.append(self.far.close)
        ip("link", "add", "host1", "mtu", mtu, "netns", str(self.far.pid), "type", "veth", "peer", "name", "nic1", "mtu", mtu, "netns",
           str(w.space.pid))
        w.space.do(lambda: (ip("link", "set", "nic1", "addrgenmode", "none"), ip("link", "set", "nic1", "arp", "off", "up"),
                            net.no_offloads("nic1")))
        mac = [self.address("host0"), self.far.do(lambda: self.address("host1"))]
        ip("addr", "add", HOST4 + "/24", "dev", "host0")
        ip("neigh", "add", NIC4, "lladdr", mac[1], "dev", "host0", "nud", "permanent")
        self.far.do(lambda: (ip("link", "set", "host1", "addrgenmode", "none"), net.no_offloads("host1"),
                             ip("addr", "add", NIC4 + "/24", "dev", "host1"), ip("link", "set", "host1", "up"),
                             ip("neigh", "add", HOST4, "lladdr", mac[0], "dev", "host1", "nud", "permanent")))
        self.near_end, self.far_end = net.Sniffer("host0"), self.far.do(lambda: net.Sniffer("host1"))
        return self

    def __exit__(self, *_):
        for wire in self.wires:
            if wire.process.poll() is None:
                wire.process.kill()
            wire.process.wait()
        for end in (self.near_end, self.far_end):
            if not end.ending:
                end.stop()
        self.world.__exit__()

    @staticmethod
    def address(name):
        return re.search(r"link/ether (\S+)", ip("link", "show", "dev", name)).group(1)


def frame(i, size=200):
    return pk.ethernet(i.to_bytes(4, "big") + bytes([i & 255]) * (size - 4), KIND)


def number(f):
    return int.from_bytes(f[14:18], "big")


def send(end, count, size=200):
    """Not more at once than the wire's port has room for."""
    for i in range(count):
        end.send(frame(i, size))
        if i % 100 == 99:
            time.sleep(0.01)


def came(end):
    """What a sniffer has, of what was sent to it."""
    return [f for f in end.stop() if f[12:14] == KIND.to_bytes(2, "big")]


def pause():
    """What was sent a moment ago is through then, on a machine with much else to do as well."""
    time.sleep(1.0 if net.sanitized() else 0.5)


@rule
def each_way_takes_the_delay():
    with Pair() as p:
        wire = Wire(p, "--delay", "10ms", "--json")
        assert json.loads(wire.ready)["ports"] == list(PORTS), wire.ready
        for size in (1, 100, 1000, 1472):
            began = time.monotonic()
            ping(NIC4, size, count=1)
            assert time.monotonic() - began >= 0.020
        report = wire.stop()
        for way in ("there", "back"):
            assert (report[way]["received"], report[way]["sent"]) == (4, 4), report
            assert report[way]["late_mean_ns"] <= report[way]["late_max_ns"], report


@rule
def what_is_always_lost_never_arrives_and_the_other_way_is_its_own():
    with Pair() as p:
        wire = Wire(p, "--there", "--loss", "1", "--back", "--duplicate", "1", "--json")
        send(p.far_end, 50)  # its own frames the sniffer does not see
        send(p.near_end, 50)
        for i in range(50):
            for _ in range(2):
                assert p.near_end.wait(lambda f: f[12:14] == KIND.to_bytes(2, "big")) == frame(i)
        pause()
        assert came(p.far_end) == []
        report = wire.stop()
        there, back = report["there"], report["back"]
        assert (there["received"], there["lost"], there["sent"]) == (50, 50, 0), there
        assert (back["received"], back["lost"], back["duplicated"], back["sent"]) == (50, 0, 50, 100), back


def passed(*arguments):
    """Numbers of the frames that come through, in their order, and the report."""
    with Pair() as p:
        wire = Wire(p, "--loss", "0.2", "--duplicate", "0.1", "--json", *arguments)
        send(p.near_end, 1000)
        until("most have come", lambda: p.far_end.frames.qsize() >= 700)
        pause()
        report = wire.stop()["there"]
        frames = came(p.far_end)
        assert all(f == frame(number(f)) for f in frames)
        assert report["received"] == 1000 and report["sent"] == len(frames), report
        assert report["received_bytes"] == 1000 * 214 and report["sent_bytes"] == 214 * len(frames), report
        return [number(f) for f in frames], report


@rule
def what_is_lost_and_repeated_is_counted_and_the_same_seed_does_the_same():
    numbers, report = passed("--seed", "7")
    assert 100 < report["lost"] < 300 and report["lost"] == 1000 - len(set(numbers)), report
    assert 30 < report["duplicated"] < 150 and report["duplicated"] == len(numbers) - len(set(numbers)), report
    assert passed("--seed", "7")[0] == numbers
    assert set(passed("--seed", "8", "--reorder", "0.1", "--reorder-delay", "20ms")[0]) != set(numbers)


@rule
def corruption_is_one_bit_and_the_kernel_sees_it():
    def errors():
        with open("/proc/thread-self/net/snmp") as f:
            names, values = [line.split() for line in f if line.startswith("Udp:")]
        return int(values[names.index("InCsumErrors")])
    with Pair() as p:
        wire = Wire(p, "--corrupt", "1", "--jitter", "1ms", "--json")
        before = p.far.do(errors)
        with p.far.do(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as there, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            there.bind((NIC4, 9))
            for _ in range(100):
                here.sendto(bytes(1000), (NIC4, 9))
            there.settimeout(0.2)

            def refused():
                try:
                    there.recv(2000)  # only then the kernel looks
                except socket.timeout:
                    pass
                return p.far.do(errors) - before
            until("the kernel has seen 50 wrong checksums", lambda: refused() >= 50)
        send(p.near_end, 50)
        until("all have come", lambda: p.far_end.frames.qsize() >= 150)
        pause()
        report = wire.stop()["there"]
        assert report["corrupted"] == report["sent"] == 150, report
        frames = [f for f in p.far_end.stop() if len(f) == 214]
        assert len(frames) == 50
        wrong = [int.from_bytes(f, "big") ^ int.from_bytes(frame(f[100]), "big") for f in frames]
        assert sum(bin(x).count("1") == 1 for x in wrong) >= 48, wrong  # one or the other has it in the byte that tells which


@rule
def bandwidth_bounds_what_passes_and_the_queue_drops_the_rest():
    with Pair() as p:
        wire = Wire(p, "--bandwidth", "10M", "--queue", "20", "--json")
        began = time.monotonic()
        for i in range(100):
            p.near_end.send(frame(i, 1400))
        until("20 have come", lambda: p.far_end.frames.qsize() >= 20)
        lasted = time.monotonic() - began
        pause()
        report = wire.stop()["there"]
        on_wire = (1414 + 24) * 8 / 10e6
        assert lasted >= 19 * on_wire, lasted
        assert report["received"] == 100 and report["queue_dropped"] > 0, report
        assert 20 <= report["sent"] <= 20 + report["late_max_ns"] / 1e9 / on_wire + 1 + lasted / on_wire, report
        frames = [number(f) for f in came(p.far_end)]
        assert frames == sorted(frames) and len(frames) == report["sent"], frames


@rule
def frames_that_no_port_could_send_are_counted():
    with Pair(mtu=3000) as p:
        wire = Wire(p, "--json", "--mtu", "1500")
        for size in (1500, 1600, 2900, 300):
            p.near_end.send(frame(size, size))
        assert number(p.far_end.wait(lambda f: f[12:14] == KIND.to_bytes(2, "big"))) == 1500
        assert number(p.far_end.wait(lambda f: f[12:14] == KIND.to_bytes(2, "big"))) == 300
        report = wire.stop()["there"]
        assert (report["received"], report["oversized"], report["sent"]) == (4, 2, 2), report
        assert "2 packets from af_packet:nic0 were larger than the MTU of 1500" in wire.errors, wire.errors


@rule
def it_ends_by_a_signal_or_its_time_and_reports():
    with Pair() as p:
        wire = Wire(p, "--delay", "10s")
        assert wire.ready.startswith("ready: af_packet:nic0 <-> af_packet:nic1"), wire.ready
        send(p.near_end, 3)
        pause()
        lines = wire.stop(signal.SIGTERM).splitlines()
        assert lines[0].startswith("there: af_packet:nic0 to af_packet:nic1; back"), lines
        values = {re.split(r"  +", line)[0]: line.split()[-2:] for line in lines[2:]}
        assert values["received"] == ["3", "0"] and values["under way at the end"] == ["3", "0"], lines
        wire = Wire(p, "--for", "200ms", "--json")
        report = wire.stop(None)
        assert 0.2 <= report["seconds"] < 60 and report["seed"] == 1, report


@rule
def what_cannot_be_is_named():
    with World(addresses=False) as w:
        for arguments, status, words in [
                (PORTS[:1], 2, "a second port is needed, not only af_packet:nic0"),
                ((PORTS[0], PORTS[0]), 2, "both ports are at nic0"),
                ((PORTS[0], "pcap-iface:nic0"), 2, "both ports are at nic0"),
                ((*PORTS, "--loss", "1.5"), 2, "--loss must be 0 to 1, not 1.5"),
                ((*PORTS, "--queue", "0"), 2, "--queue must be 1 to 1048576 packets, not 0"),
                ((*PORTS, "--for", "0"), 2, "--for must be 1ms to 86400s, not 0"),
                *[((*PORTS, option, value), 2, "%s must be %s, not %s" % (option, bounds, value)) for option, bounds, values in [
                    ("--delay", "0 to 10s", ("-1ms", "11s")), ("--distance", "0 to 3000000 (km)", ("-1", "nan")),
                    ("--bandwidth", "1k to 100T", ("0", "-1")), ("--loss", "0 to 1", ("-0.1", "nan")),
                    ("--burst", "1 to 1000000 packets", ("0", "-3")), ("--duplicate", "0 to 1", ("-1",)),
                    ("--reorder", "0 to 1", ("-1",)), ("--reorder-delay", "0 to 10s", ("-1us",)),
                    ("--jitter", "0 to 10s", ("-1us", "11s")), ("--corrupt", "0 to 1", ("-1", "1.01")),
                    ("--mtu", "256 to 9500", ("0", "-5"))] for value in values],
                ((*PORTS, "--there", "--burst", "5"), 2, "--loss must say how many"),
                ((PORTS[0], "eth:x"), 2, "'eth' is no kind of port"),
                (PORTS, 1, "there is no interface nic1")]:
            run = subprocess.run([net.SPINDLE, "wire", *arguments], capture_output=True, text=True, timeout=60,
                                 preexec_fn=w.space.enter, env=net.environment(w.dir))
            assert run.returncode == status and run.stderr.startswith("spindle wire: "), run
            assert words in run.stderr.splitlines()[0] and not run.stdout, run


if __name__ == "__main__":
    net.main()
