#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ports that nic.ini alone makes: frames of full size, who may make them, what the kernel has and loses beside them."""

import atexit
import json
import os
import random
import signal
import shutil
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import ping  # noqa: E402
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, TAP4, TAP6, World, config, ip, pk, rule, until  # noqa: E402

HOST_MAC = "02:00:00:00:00:02"
PRIVATE = "/tmp/spindle-65534"  # what EAL keeps for the user that these tests become
OURS = not os.path.lexists(PRIVATE)


def refused(w, port, *words, **more):
    why = w.nic(config(port=port, **more), eal=(), expect=1).refuse()
    for word in words:
        assert word in why, "%r is not in: %s" % (word, why)
    # One line of ours, nothing of DPDK's own.
    assert why.count("\n") == 1 and why.startswith("nic: "), why


def flags(w, name):
    return w.space.do(lambda: ip("-d", "link", "show", "dev", name))


# ---- af_packet -----------------------------------------------------------------------------------------------------------

@rule
def af_packet_carries_full_frames_both_ways():
    for workers in (1, 2):
        with World() as w:
            nic = w.nic(config("af_packet:nic0", more="workers = %d" % workers), eal=())
            ping(NIC4, 1472)  # 1500 bytes of layer 3 there and back
            ping(NIC6, 1452)
            for ident in range(8):
                ping(NIC4, 1472, count=1, ident=2000 + ident)
            report = nic.stop()
            assert report["answered"] >= 14 and report["ports"][0]["device"] == "af_packet:nic0", report
            assert report["ports"][0]["kernel_drops"] == 0, report["ports"]


@rule
def af_packet_leaves_the_interface_as_it_was():
    with World() as w:
        before = flags(w, "nic0")
        nic = w.nic(config("af_packet:nic0", more="mtu = 1400"), eal=())
        ping(NIC4, 1372)
        assert "mtu 1500" in flags(w, "nic0"), "an MTU that is larger than needed stays"
        assert "promiscuity 1" in flags(w, "nic0"), flags(w, "nic0")
        nic.stop()
        assert flags(w, "nic0") == before


@rule
def af_packet_ports_that_cannot_be_are_refused_with_what_to_do():
    with World() as w:
        refused(w, "af_packet:nic1", "no interface nic1", "nic0")
        refused(w, "af_packet:nic0,framesz=1024,framecnt=64", "framesz=1024", "1588")
        w.space.do(lambda: ip("link", "set", "nic0", "down"))
        refused(w, "af_packet:nic0", "nic0 is down", "ip link set dev nic0 up")


@rule
def a_ring_made_by_hand_is_refused_where_frames_would_not_fit_or_not_be_seen():
    for eal, more, words in (("net_af_packet0,iface=nic0,framesz=1024", "mtu = 1100", ("framesz=1024", "1188")),
                             ("net_af_packet0,iface=nic0,qpairs=2", "", ("2 queue pairs", "qpairs=1"))):
        with World() as w:
            why = w.nic(config(more=more), eal=("--vdev", eal), expect=1).refuse()
            assert all(word in why for word in words), why


@rule
def a_ring_made_by_hand_with_larger_slots_gets_larger_buffers():
    with World() as w:
        w.nic(config(), eal=("--vdev", "net_af_packet0,iface=nic0,framesz=8192,blocksz=8192"))
        ping(NIC4, 1472)


@rule
def what_the_kernel_drops_below_af_packet_is_counted():
    """The NIC stands still while 600 frames come, and its ring has 64 slots: each was received or is counted."""
    with World(addresses=False) as w:
        nic = w.nic(config("af_packet:nic0,framecnt=64"), eal=())
        frame = pk.ethernet(b"x" * 46, 0x88B5, dst=NIC_MAC)
        sniffer = net.Sniffer("host0")
        nic.process.send_signal(signal.SIGSTOP)
        until("stopped", lambda: open("/proc/%d/stat" % nic.process.pid).read().rsplit(")", 1)[1].split()[0] == "T")
        for _ in range(600):
            sniffer.send(frame)
        time.sleep(0.5)
        nic.process.send_signal(signal.SIGCONT)
        until("the NIC has looked", lambda: ready(nic))
        sniffer.stop()
        report = nic.stop()
        port = report["ports"][0]
        assert port["packets"] + port["kernel_drops"] == 600, port
        assert port["kernel_drops"] >= 600 - 2 * 64, port


def ready(nic):
    """An answer of the NIC's process: it runs again, and its worker polls all the time."""
    nic.say("nothing", 0)
    try:
        nic.answer()
    except AssertionError as error:
        time.sleep(0.3)
        return "error" in str(error)


# ---- tap -----------------------------------------------------------------------------------------------------------------

@rule
def a_tap_port_carries_full_frames_both_ways_and_goes_with_the_nic():
    net.need_tap()
    for mtu in (1500, 1000):
        with World(addresses=False) as w:
            nic = w.nic(config("tap:spindle7", more="mtu = %d" % mtu), eal=())

            def ask():
                ip("addr", "add", HOST4 + "/24", "dev", "spindle7")
                ip("link", "set", "spindle7", "up")
                assert "mtu %d" % mtu in ip("link", "show", "dev", "spindle7")
                assert NIC_MAC not in ip("link", "show", "dev", "spindle7"), "the kernel is another station"
                ping(NIC4, mtu - 28)
            w.space.do(ask)
            report = nic.stop()
            assert report["ports"][0]["kernel_drops"] is not None
            w.space.do(lambda: until("the TAP is gone", lambda: "spindle7" not in ip("link")))
            refused(w, "tap:spindle7", "MTU 1505", "1504", more="mtu = 1505")
            refused(w, "tap:nic0", "no TAP")


@rule
def a_tap_exception_port_answers_as_the_nic():
    """The kernel behind it has the NIC's MAC, so that its answers come from where its peers ask."""
    net.need_tap()
    with World() as w:
        w.nic(config("af_packet:nic0", more="exception = tap:spindle8"), eal=())
        w.space.do(lambda: (ip("addr", "add", TAP4 + "/24", "dev", "spindle8"), ip("link", "set", "spindle8", "up")))
        assert NIC_MAC in w.space.do(lambda: ip("link", "show", "dev", "spindle8"))


# ---- virtio-user and vhost -----------------------------------------------------------------------------------------------

def joined(w, here, there, turn):
    """Two NICs, each in its process, and messages both ways; `turn` is between."""
    length = 1 << 17
    data = random.Random(5).randbytes(length)
    words = "family=4 mtu=4096 chunk=16384 max=%d slots=4 generations=2" % length
    infos = [nic.ask("qp", 0, words)[0] for nic in (here, there)]
    here.ask("connect", 0, infos[1])
    there.ask("connect", 0, infos[0])
    for to, source in ((here, there), (there, here)):
        source.ask("load", 0, w.write("source", data))
        to.ask("room", 0, length)
        to.ask("post", 0, 0, length)
        source.ask("send", 0, 0, length, 7)
        assert int(to.ask("finish", 0, 20)[1]) == length
        source.ask("sent", 0)
        to.ask("save", 0, w.path("saved"))
        with open(w.path("saved"), "rb") as f:
            assert f.read() == data
        turn()


@rule
def virtio_user_and_vhost_join_two_processes_by_their_files_alone():
    with World(addresses=False) as w:
        path = w.path("v.sock")
        if len(path) > 100:
            raise net.Skip("the path of the temporary directory is too long for a socket")
        other = {"mac": HOST_MAC, "ip4": HOST4, "ip6": HOST6}
        refused(w, "virtio-user:" + path, "no such socket", "vhost:")
        here = w.nic(config("vhost:" + path, more="mtu = 4180", **other), eal=())
        refused(w, "vhost:" + path, "in use by another process")
        there = w.nic(config("virtio-user:" + path, more="mtu = 4180"), eal=())
        joined(w, here, there, lambda: None)
        for nic in (there, here):
            assert nic.stop()["ports"][0]["kernel_drops"] is None
        assert not os.path.exists(path)
        # A NIC that was killed leaves its socket: said by who connects, taken away by who serves.
        w.nic(config("vhost:" + path, **other), eal=()).kill()
        assert os.path.exists(path)
        refused(w, "virtio-user:" + path, "nobody listens")
        w.nic(config("vhost:" + path, **other), eal=()).stop()
        assert not os.path.exists(path)


@rule
def a_virtio_user_port_survives_its_peer():
    with World(addresses=False) as w:
        path = w.path("v.sock")
        if len(path) > 100:
            raise net.Skip("the path of the temporary directory is too long for a socket")
        here = w.nic(config("vhost:" + path, mac=HOST_MAC, ip4=HOST4, ip6=HOST6), eal=())
        there = w.nic(config("virtio-user:" + path), eal=())
        here.kill()
        there.stop()  # exit status 0: no SIGPIPE


# ---- an MTU of 9000 ------------------------------------------------------------------------------------------------------

JUMBO = "mtu = 9000"


@rule
def af_packet_and_pcap_carry_frames_of_9000_bytes_both_ways():
    for port, workers in (("af_packet:nic0", 1), ("af_packet:nic0", 2), ("pcap-iface:nic0", 1)):
        with World(mtu=9000) as w:
            nic = w.nic(config(port, more=JUMBO + "\nworkers = %d" % workers), eal=())
            ping(NIC4, 8972)
            ping(NIC6, 8952)
            report = nic.stop()
            assert report["answered"] >= 6 and report["ports"][0]["kernel_drops"] == 0, report


@rule
def af_packet_raises_the_interfaces_mtu():
    with World(mtu=1500) as w:
        w.nic(config("af_packet:nic0", more=JUMBO), eal=())
        assert "mtu 9000" in flags(w, "nic0"), flags(w, "nic0")
        ip("link", "set", "host0", "mtu", "9000")
        ping(NIC4, 8972)


@rule
def vhost_and_virtio_user_carry_frames_of_9000_bytes_both_ways():
    """The kernel pings from behind the exception port of one NIC, the other NIC answers."""
    with World(mtu=9000) as w:
        path = w.path("v.sock")
        if len(path) > 100:
            raise net.Skip("the path of the temporary directory is too long for a socket")
        here = w.nic(config("vhost:" + path, more=JUMBO + "\nexception = af_packet:nic0", mac="02:00:00:00:00:03", ip4=TAP4, ip6=TAP6),
                     eal=())
        there = w.nic(config("virtio-user:" + path, more=JUMBO), eal=())
        ping(NIC4, 8972)
        ping(NIC6, 8952)
        joined(w, here, there, lambda: None)
        assert there.stop()["answered"] >= 6
        here.stop()


@rule
def the_largest_mtu_of_a_configuration_works_between_vhost_and_virtio_user():
    for workers in (1, 4):
        with World(addresses=False) as w:
            path = w.path("v.sock")
            if len(path) > 100:
                raise net.Skip("the path of the temporary directory is too long for a socket")
            more = "mtu = 9500\nworkers = %d" % workers
            here = w.nic(config("vhost:" + path, more=more, mac=HOST_MAC, ip4=HOST4, ip6=HOST6), eal=())
            there = w.nic(config("virtio-user:" + path, more=more), eal=())
            joined(w, here, there, lambda: None)


# ---- addresses -----------------------------------------------------------------------------------------------------------

@rule
def an_address_that_the_kernel_owns_is_refused_by_name_and_interface():
    for port, eal in (("af_packet:nic0", ()), ("pcap-iface:nic0", ()), ("net_af_packet0", ("--vdev", "net_af_packet0,iface=nic0"))):
        for address, bits in ((NIC4, "24"), (NIC6, "64")):
            with World() as w:
                w.space.do(lambda: ip("addr", "add", address + "/" + bits, "dev", "nic0", *["nodad"] * (":" in address)))
                why = w.nic(config(port), eal=eal, expect=1).refuse()
                assert "address %s is the kernel's too, on nic0" % address in why, why


@rule
def ports_that_the_kernel_does_not_see_may_have_any_address():
    with World() as w:
        w.space.do(lambda: ip("addr", "add", NIC4 + "/24", "dev", "nic0"))
        w.nic(config("null:"), eal=()).stop()


@rule
def the_kernel_behind_the_exception_port_may_have_the_nics_address():
    net.need_tap()
    with World() as w:
        w.space.do(lambda: (ip("tuntap", "add", "dev", "spindle9", "mode", "tap", "multi_queue"),
                            ip("addr", "add", NIC4 + "/24", "dev", "spindle9")))
        refused(w, "af_packet:nic0", "the kernel's too, on spindle9")
        refused(w, "af_packet:nic0", "would answer what comes by nic0, too", more="exception = tap:spindle9")
        for words in (("qdisc", "add", "dev", "nic0", "clsact"),
                      ("filter", "add", "dev", "nic0", "ingress", "bpf", "da", "bytecode", "1,6 0 0 2")):
            w.space.do(lambda: subprocess.run(["tc", *words], check=True))
        w.nic(config("af_packet:nic0", more="exception = tap:spindle9"), eal=()).stop()


# ---- pcap on an interface ------------------------------------------------------------------------------------------------

@rule
def a_pcap_port_on_an_interface_carries_full_frames_both_ways():
    with World() as w:
        nic = w.nic(config("pcap-iface:nic0"), eal=())
        ping(NIC4, 1472)
        assert nic.stop()["ports"][0]["kernel_drops"] == 0


@rule
def a_pcap_port_does_not_receive_what_it_sends():
    with World(addresses=False) as w:
        nic = w.nic(config("pcap-iface:nic0"), eal=())
        sniffer = net.Sniffer("host0")
        arp = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + pk.mac_bytes(HOST_MAC) + pk.ip_bytes(HOST4) + b"\0" * 6 + pk.ip_bytes(NIC4)
        for _ in range(10):
            sniffer.send(pk.ethernet(arp, 0x0806, dst="ff:ff:ff:ff:ff:ff", src=HOST_MAC))
            sniffer.wait(lambda f: f[:6] == pk.mac_bytes(HOST_MAC))
        time.sleep(0.2)
        report = nic.stop()
        sniffer.stop()
        assert (report["sent"], report["packets"]) == (10, 10), report


# ---- testbed/experiments/ports -------------------------------------------------------------------------------------------

@net.plain
@rule
def the_experiment_tells_of_each_kind_of_port():
    net.need_tap()
    script = os.path.join(net.HERE, "..", "..", "testbed", "experiments", "ports")
    words = ["--ports", "af_packet,pcap-iface,tap", "--sizes", "64", "--rounds", "1", "--seconds", "0.1", "--json", "--spindle", net.SPINDLE]
    run = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, timeout=120,
                         env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
    assert run.returncode == 0, run.stderr[-2000:]
    rows = json.loads(run.stdout)["rows"]
    assert [row["port"] for row in rows] == 2 * ["af_packet", "pcap-iface", "tap"], rows
    assert all(row["received_s"] > 0 and row["nic_s"] > 0 and row["sender_s"] > 0 for row in rows), rows


# ---- checksums that the sender leaves ------------------------------------------------------------------------------------

VERIFIES = "\n[context echo]\nhandler = reflect\nfilter = udp port 7777\nverify = yes\n"


@rule
def checksums_that_the_sender_leaves_are_wrong_at_the_nic_and_ethtool_cures_it():
    for port in ("af_packet:nic0", "pcap-iface:nic0"):
        with World() as w:
            nic = w.nic(config(port) + VERIFIES, eal=())
            net.leave_checksums("host0", True)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(60)
                for _ in range(5):
                    s.sendto(b"left", (NIC4, 7777))
                ping(NIC4, 100)  # ICMP's are always made
                net.leave_checksums("host0", False)
                s.sendto(b"made", (NIC4, 7777))
                assert s.recv(100) == b"made"
            report = nic.stop()
            assert report["drops"]["bad-checksum"] == 5 and report["contexts"]["echo"]["counters"]["echoed"] == 1, report


@rule
def the_kernel_at_a_tap_makes_its_checksums():
    net.need_tap()
    with World(addresses=False) as w:
        nic = w.nic(config("tap:spindle5") + VERIFIES, eal=())

        def ask():
            ip("addr", "add", HOST4 + "/24", "dev", "spindle5")
            ip("link", "set", "spindle5", "up")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(60)
                s.sendto(b"made", (NIC4, 7777))
                assert s.recv(100) == b"made"
        w.space.do(ask)
        nic.stop()


# ---- the kernel beside a port --------------------------------------------------------------------------------------------

@rule
def a_filter_at_the_ingress_keeps_the_kernel_from_answering_beside_the_nic():
    for port in ("af_packet:nic0", "pcap-iface:nic0"):
        for filtered in (False, True):
            with World() as w:
                w.space.do(lambda: (ip("link", "set", "nic0", "address", "02:00:00:00:00:09", "arp", "on"),
                                    ip("addr", "add", TAP4 + "/24", "dev", "nic0")))
                for words in (("qdisc", "add", "dev", "nic0", "clsact"),
                              ("filter", "add", "dev", "nic0", "ingress", "bpf", "da", "bytecode", "1,6 0 0 2")) if filtered else ():
                    w.space.do(lambda: subprocess.run(["tc", *words], check=True))
                w.nic(config(port), eal=())
                ip("neigh", "replace", TAP4, "lladdr", "02:00:00:00:00:09", "dev", "host0")
                sniffer = net.Sniffer("host0")
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    s.sendto(b"nobody listens", (TAP4, 9))
                ping(NIC4, 100)  # its answer comes after the kernel's
                unreachable = [f for f in sniffer.stop() if f[12:14] == b"\x08\x00" and f[23] == 1 and f[34] == 3]
                assert len(unreachable) == (0 if filtered else 1), "%s, filter: %s: %d" % (port, filtered, len(unreachable))


# ---- rights --------------------------------------------------------------------------------------------------------------

def as_nobody(w, text, *words, capabilities="", expect=1):
    """The same as user 65534, with these capabilities alone; its own EAL directory, in the way of nobody else's."""
    setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all" + capabilities,
               "--inh-caps=-all" + capabilities, "--ambient-caps=-all" + capabilities]
    os.chmod(w.dir, 0o755)
    path = w.write("nobody.ini", text)
    os.chmod(path, 0o644)
    environment = {k: v for k, v in os.environ.items() if k not in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR")}

    def before():
        net.die_with_parent()
        w.space.enter()
    run = subprocess.run([*setpriv, net.PROGRAM, "-c", path, "--", *net.EAL], capture_output=True, text=True, timeout=60,
                         preexec_fn=before, env=environment, stdin=subprocess.DEVNULL)
    assert run.returncode == expect, "exit status %d: %s" % (run.returncode, run.stderr)
    for word in words:
        assert word in run.stderr, "%r is not in: %s" % (word, run.stderr)
    return run


def need_users():
    if os.geteuid() != 0:
        raise net.Skip("only root can become another user")
    for command in (["setpriv", "--version"], ["setpriv", "--reuid=65534", "--clear-groups", "test", "-x", net.PROGRAM]):
        try:
            done = subprocess.run(command, capture_output=True).returncode == 0
        except FileNotFoundError:
            done = False
        if not done:
            raise net.Skip("an unprivileged user cannot run this program here")


@rule
def an_unprivileged_user_is_told_the_capability_that_a_port_needs():
    need_users()
    net.need_tap()
    with World() as w:
        as_nobody(w, config("af_packet:nic0"), "CAP_NET_RAW", "setcap cap_net_raw,cap_net_admin+ep " + net.PROGRAM)
        as_nobody(w, config("pcap-iface:nic0"), "CAP_NET_RAW", "setcap cap_net_raw+ep")
        as_nobody(w, config("tap:spindle6"), "CAP_NET_ADMIN", "setcap cap_net_admin+ep")
        as_nobody(w, config("null:"), expect=0)


@rule
def the_capabilities_named_are_enough():
    need_users()
    with World() as w:
        text = config("af_packet:nic0", more="workers = 2")
        as_nobody(w, text, "CAP_NET_ADMIN", capabilities=",+net_raw")
        as_nobody(w, text, capabilities=",+net_raw,+net_admin", expect=0)
        as_nobody(w, config("pcap-iface:nic0"), capabilities=",+net_raw", expect=0)


@rule
def users_without_a_runtime_directory_do_not_stand_in_each_others_way():
    need_users()
    with World() as w:
        as_nobody(w, config("null:"), expect=0)
        status = os.lstat(PRIVATE)
        assert status.st_uid == 65534 and status.st_mode & 0o7777 == 0o700, status
        if not OURS:
            raise net.Skip("%s was there before: not ours to play with" % PRIVATE)
        os.chmod(PRIVATE, 0o777)
        as_nobody(w, config("null:"), "not a directory of this user's alone")
        os.chmod(PRIVATE, 0o700)
        os.chown(PRIVATE, 0, 0)
        as_nobody(w, config("null:"), "not a directory of this user's alone")
        shutil.rmtree(PRIVATE)
        os.symlink(w.dir, PRIVATE)
        as_nobody(w, config("null:"), "not a directory of this user's alone")
        os.unlink(PRIVATE)


if __name__ == "__main__":
    if OURS:
        atexit.register(lambda: shutil.rmtree(PRIVATE, ignore_errors=True))
    net.main()
