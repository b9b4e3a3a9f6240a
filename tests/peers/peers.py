#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The NIC's RDMA against Linux's Soft-RoCE, which runs in an emulated machine: peers.py PEER SPINDLE DIRECTORY [RULE-PART].
PEER: peer.c's program; DIRECTORY: where the guest is kept. TAP; each rule that moves data
says how much, in which time, and what Soft-RoCE counted meanwhile: '# NAME: bytes ..., seconds ..., retries ...'."""

import contextlib
import os
import re
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import net  # noqa: E402
import rc_replay  # noqa: E402
from asking import ping  # noqa: E402
from guest import TAP, Guest, build  # noqa: E402
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, Skip, Sniffer, Space, World, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

DIRECTORY = None
# Counters of Soft-RoCE's that mean that something came twice, late or not at all.
TROUBLE = ("completer_retry_err", "retry_rnr_exceeded_err", "retry_exceeded_err", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
           "ack_deferred", "duplicate_request")


class Bench:
    """One guest, and one NIC, for all rules: on the same tap, or with a bad link between them."""

    guest = house = nic = failure = None
    bad = is_bad = False  # what the link is to be, and is

    @classmethod
    def machine(cls):
        if cls.failure:
            raise cls.failure
        if not cls.guest or cls.guest.process.poll() is not None:
            cls.end()
            try:
                cls.guest = Guest(DIRECTORY)
            except (Skip, AssertionError) as error:
                cls.failure = Skip("no guest: %s" % str(error).splitlines()[0])  # the first rule says it; no other waits for it again
                raise
            print("# guest: Linux %s, up after %.1f s" % (cls.guest.kernel, cls.guest.boot), flush=True)
        cls.guest.calm()
        return cls.guest

    @classmethod
    def both(cls):
        """The guest, and a house whose .peer_nic is a NIC on its tap."""
        guest = cls.machine()
        if cls.house and (cls.bad != cls.is_bad or cls.nic.process.poll() is not None):
            cls.leave()
        if not cls.house:
            cls.house, cls.is_bad = House(), cls.bad
            port, space = cls.worse(cls.house) if cls.bad else (TAP, None)
            text = "[nic]\nport = net_af_packet0\nip = %s/24, %s/64\nmac = %s\n" % (NIC4, NIC6, NIC_MAC)
            cls.nic = cls.house.nic(text, "--name", "peer", eal=("--vdev", "net_af_packet0,iface=" + port), space=space)
        return guest, cls.house

    @staticmethod
    def worse(house):
        """A link that loses, repeats, reorders and corrupts one frame in a hundred each, each way. The interface at its other
        end, and the namespace that it is in: DPDK's numbers of packet sockets may clash within one."""
        space = Space()
        house.closing.append(space.close)
        net.ip("link", "add", "wire0", "type", "veth", "peer", "name", "nic0", "netns", str(space.pid))
        house.closing.append(lambda: net.ip("link", "del", "wire0", check=False))

        def up(name):
            net.ip("link", "set", name, "addrgenmode", "none")
            net.ip("link", "set", name, "arp", "off", "up")
            net.no_offloads(name)
        up("wire0")
        space.do(lambda: up("nic0"))
        wire = Process([net.SPINDLE, "wire", "af_packet:" + TAP, "af_packet:wire0", "--loss", "0.01", "--duplicate", "0.01",
                        "--reorder", "0.01", "--reorder-delay", "2ms", "--corrupt", "0.01", "--seed", "7"], env=house.environment())
        house.closing.append(wire.kill)
        assert "ready" in wire.line(), wire.stderr()
        return "nic0", space

    @classmethod
    def leave(cls):
        house, cls.house, cls.nic = cls.house, None, None
        if house:
            house.__exit__()

    @classmethod
    def end(cls):
        cls.leave()
        guest, cls.guest = cls.guest, None
        if guest:
            guest.close()


@contextlib.contextmanager
def bad_link():
    Bench.bad = True
    try:
        yield
    finally:
        Bench.bad = False


class Measured:
    """with Measured(guest, name, bytes): prints what went through, in which time, at what price."""

    def __init__(self, guest, name, size):
        self.guest, self.name, self.size, self.ours = guest, name, size, None

    def __enter__(self):
        self.before = self.guest.counters()
        self.began = time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind:
            return
        seconds = time.monotonic() - self.began
        after = self.guest.counters()
        trouble = {k: after[k] - self.before.get(k, 0) for k in TROUBLE if after.get(k, 0) != self.before.get(k, 0)}
        self.retries = trouble.get("completer_retry_err", 0)
        print("# %s: bytes %d, seconds %.2f, retries %d%s%s" % (
            self.name, self.size, seconds, self.retries, "" if self.ours is None else ", ours %d" % self.ours,
            "".join("; %s %d" % pair for pair in sorted(trouble.items()))), flush=True)


def listening(guest, port, who="netstat -tln"):
    """Until a TCP port is open in the guest: what exchanges QP numbers there."""
    guest.run("for i in $(seq 600); do %s | grep -q ':%d ' && exit 0; sleep 0.05; done; exit 1" % (who, port), 60)


def waiting(guest, port):
    """Until an id of the connection manager listens in the guest."""
    listening(guest, port, "rdma resource show cm_id | grep LISTEN")


# ---- the guest with itself: whether it can be believed ----------------------------------------------------------------------

@rule
def the_guest_has_a_device():
    guest = Bench.machine()
    out = guest.run("ibv_devinfo -v")
    assert "rxe0" in out and "PORT_ACTIVE" in out, out
    assert guest.gid(HOST4) >= 0


def alone(name, server, client, size, until=listening, port=18515, timeout=90):
    guest = Bench.machine()
    with Measured(guest, name, size):
        s = guest.start(server)
        until(guest, port)
        out = guest.run(client, timeout)
        s.end(30)
    return out


@rule
def the_guest_pings_itself():
    words = "-a %s -C 20 -S 4000 -V" % HOST4
    alone("rping", "rping -s " + words, "rping -c " + words, 20 * 4000 * 2, waiting, 7174)


@rule
def the_guest_makes_connections_to_itself():
    words = "ucmatose -p 7184 -c 2 -C 50 -S 5000"
    alone("ucmatose", words, words + " -s " + HOST4, 2 * 2 * 50 * 5000, waiting, 7184)
    alone("udaddy", "udaddy -C 10 -S 500", "udaddy -s %s -C 10 -S 500" % HOST4, 2 * 10 * 500, waiting, 7174)


@rule
def the_guest_sends_reads_and_writes_to_itself():
    guest = Bench.machine()
    gid = guest.gid(HOST4)
    for kind in ("rc", "uc", "srq"):
        words = "ibv_%s_pingpong -g %d -n 100 -s 2000" % (kind, gid)
        alone(kind, words, words + " " + HOST4, 2 * 100 * 2000)
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"):
        words = "%s -d rxe0 -x %d -n 100 -F%s" % (program, gid, "" if "atomic" in program else " -s 4096")
        alone(program, words, words + " " + HOST4, 100 * (8 if "atomic" in program else 4096))


@rule
def the_guest_has_a_disk_of_itself_over_nvme():
    guest = Bench.machine()
    guest.run("for m in $(grep -e nvm -e null_blk /etc/modules); do insmod /root/$m 2>/dev/null; done; test -e /dev/nullb0")
    guest.run("""set -e; cd /sys/kernel/config/nvmet
        mkdir -p subsystems/t ports/1 && echo 1 >subsystems/t/attr_allow_any_host
        mkdir -p subsystems/t/namespaces/1 && cd subsystems/t/namespaces/1
        echo /dev/nullb0 >device_path && echo 1 >enable && cd ../../../../ports/1
        echo rdma >addr_trtype; echo ipv4 >addr_adrfam; echo %s >addr_traddr; echo 4420 >addr_trsvcid
        [ -e subsystems/t ] || ln -s /sys/kernel/config/nvmet/subsystems/t subsystems/t""" % HOST4)
    with Measured(guest, "nvme", 1 << 20):
        guest.run("nvme connect -t rdma -n t -a %s -s 4420 -i 1 -Q 16" % HOST4, 60)
        guest.run("for i in $(seq 100); do [ -b /dev/nvme0n1 ] && break; sleep 0.1; done; "
                  "dd if=/dev/nvme0n1 of=/dev/null bs=64k count=16 iflag=direct", 60)
        guest.run("nvme disconnect -n t", 60)

# ---- Spindle against the guest -------------------------------------------------------------------------------------------

@rule
def the_nic_is_on_the_guests_link():
    guest, _ = Bench.both()
    guest.run("ping -c 3 -W 5 %s && ping -6 -c 3 -W 5 %s" % (NIC4, NIC6), 60)


def peer(house, *words):
    """peer.c on the NIC."""
    process = Process([net.PROGRAM, "peer", *(str(w) for w in words)], env=house.environment())
    house.closing.append(process.kill)
    return process


def ended(process, timeout=90):
    """Retries that peer.c has counted."""
    out = process.end(timeout=timeout)
    match = re.fullmatch(r"ok \d+ [0-9.]+ (\d+)", out[-1] if out else "")
    assert match, "%r, %s" % (out, process.stderr())
    return int(match.group(1))


def serve(name, what, client, size, *words):
    """Ours listens, Linux's connects. Soft-RoCE has to repeat nothing on a link that loses nothing."""
    guest, house = Bench.both()
    process = peer(house, what, *words)
    line = process.line()
    assert line == "listening %s" % words[0], "%r %s" % (line, process.stderr())
    with Measured(guest, name, size) as m:
        guest.run(client, 90)
        m.ours = ended(process)
    assert Bench.bad or m.retries == 0, "%d retries" % m.retries


def connect(name, what, server, size, *words):
    """Linux's listens, ours connects."""
    guest, house = Bench.both()
    with Measured(guest, name, size) as m:
        s = guest.start(server)
        waiting(guest, words[1])
        process = peer(house, what, *words)
        try:
            m.ours = ended(process)
        except AssertionError as error:
            s.kill()
            raise AssertionError("%s\nLinux: %s" % (error, s.output))
        s.end(60)
    assert Bench.bad or m.retries == 0, "%d retries" % m.retries


# What both roles are tried with: sizes below, at and above the path MTU, and of many packets.
SIZES = (64, 1024, 1025, 60000)


@rule
def rping_pings_us():
    for size in SIZES:
        serve("rping -S %d" % size, "rping-server", "rping -c -a %s -p 7180 -C 20 -S %d -V" % (NIC4, size), 40 * size, 7180)


@rule
def rping_pings_us_over_ipv6():
    serve("rping, IPv6", "rping-server", "rping -c -a %s -p 7180 -C 20 -S 4000 -V" % NIC6, 40 * 4000, 7180)


@rule
def we_ping_rping():
    for size in SIZES:
        connect("to rping -S %d" % size, "rping-client", "rping -s -a %s -p 7181 -S %d" % (HOST4, size), 40 * size,
                HOST4, 7181, 20, size)


@rule
def ucmatose_exchanges_messages_with_us():
    for size, count in ((100, 10), (5000, 50)):
        serve("ucmatose -S %d" % size, "cm-server", "ucmatose -s %s -p 7182 -c 2 -C %d -S %d" % (NIC4, count, size),
              2 * 2 * count * size, 7182, 2, count, size)
        connect("to ucmatose -S %d" % size, "cm-client", "ucmatose -p 7183 -c 2 -C %d -S %d" % (count, size), 2 * 2 * count * size,
                HOST4, 7183, 2, count, size)


@rule
def udaddy_exchanges_datagrams_with_us():
    # Its -p does not work: rdma_listen refuses what comes of it.
    serve("udaddy", "ud-server", "udaddy -s %s -C 10 -S 500" % NIC4, 2 * 10 * 500, 7174, 10, 500)
    connect("to udaddy", "ud-client", "udaddy -C 10 -S 500", 2 * 10 * 500, HOST4, 7174, 10, 500)


GID = "%032x" % (0xFFFF << 32 | int.from_bytes(socket.inet_aton(NIC4), "big"))
# What ibv_srq_pingpong has room for; others exchange one.
ROOM = {"srq": 256}


def texts(kind, qp, psn):
    """printf's words: what their end wants to read by TCP, in its room."""
    return "'0000:%06x:%06x:%s\\0'%s" % (qp, psn, GID, " '0000:000000:000000:%032x\\0'" % 0 * (ROOM.get(kind, 1) - 1))


def pingpong(kind, size, count, first):
    """first: ours sends first, as the client. Their TCP ends in the guest; we bring QP numbers to and fro."""
    guest, house = Bench.both()
    words = "ibv_%s_pingpong -g %d -n %d -s %d%s" % (kind, guest.gid(HOST4), count, size, " -q 1" if kind == "srq" else "")
    ours = peer(house, "pingpong", kind, count, size)
    said = re.fullmatch(r"qp (\d+) (\d+)", ours.line())
    assert said, ours.stderr()
    mine = texts(kind, int(said.group(1)), int(said.group(2)))
    with Measured(guest, "%s_pingpong%s -s %d" % (kind, "" if first else ", theirs first", size), 2 * count * size) as m:
        guest.run("rm -f /tmp/f /tmp/theirs; mkfifo /tmp/f")
        if first:
            theirs = guest.start(words)
            listening(guest, 18515)
            exchange = guest.start("(printf '%%b' %s 'done\\0') | nc 127.0.0.1 18515 >/tmp/theirs" % mine)
        else:
            exchange = guest.start("exec 3<>/tmp/f; nc -l -p 18515 <&3 >/tmp/theirs")
            listening(guest, 18515)
            theirs = guest.start(words + " 127.0.0.1")
        text = guest.run("for i in $(seq 600); do [ $(stat -c %%s /tmp/theirs) -ge %d ] && break; sleep 0.05; done; "
                         "cut -c1-50 /tmp/theirs" % (51 * ROOM.get(kind, 1)), 60)
        match = re.match(r"[0-9a-f]{4}:([0-9a-f]{6}):([0-9a-f]{6}):", text)
        assert match, "%r, Linux: %s" % (text, theirs.output)
        ours.say("%s %s %d %d" % ("first" if first else "second", HOST4, int(match.group(1), 16), int(match.group(2), 16)))
        assert ours.line() == "ready", ours.stderr()
        if not first:
            guest.run("printf '%%b' %s >/tmp/f" % mine)
        m.ours = ended(ours)
        theirs.end(60)
        exchange.end(60)


@rule
def pingpongs_exchange_messages_with_us():
    for kind in ("rc", "uc", "srq", "ud"):
        for first in (True, False):
            for size in (1000,) if kind == "ud" else (1024, 5000):
                pingpong(kind, size, 100, first)


def perftest(program, size, count, more="", receives=False):
    """Linux's client and our QP. Its TCP goes to a server of its kind in the guest, in whose words our QP, key and address stand
    instead: they are 108 bytes, the first four of which come behind 26 bytes of other things. What our region held and holds.
    receives: what messages held, and both of Linux's ends are ended, as its server has received nothing."""
    guest, house = Bench.both()
    words = "%s -d rxe0 -x %d -n %d -F -m 1024 %s" % (program, guest.gid(HOST4), count, more)
    address, length = 0x100000000, 1 << 20
    ours = Answering([net.PROGRAM, "peer", "answer"], env=house.environment())
    house.closing.append(ours.kill)
    key = int(ours.ask("region", address, length, 15))
    for _ in range(count * receives):
        ours.ask("receive", size)
    with Measured(guest, program, size * count) as m:
        guest.run("rm -f /tmp/f /tmp/theirs /tmp/mine; mkfifo /tmp/f")
        server = guest.start(words + " -p 18515")
        listening(guest, 18515)
        relay = guest.start("""exec 3<>/tmp/f
            nc -l -p 18516 <&3 | tee /tmp/theirs | nc 127.0.0.1 18515 | {
                for n in 16 4 4 2; do
                    dd bs=$n count=1 iflag=fullblock
                done
                for i in 1 2 3 4; do
                    dd bs=108 count=1 iflag=fullblock of=/dev/null
                    until [ -s /tmp/mine ]; do sleep 0.05; done
                    cat /tmp/mine
                done
                cat
            } 2>/dev/null >&3""")
        listening(guest, 18516)
        client = guest.start(words + " -p 18516 127.0.0.1")
        text = guest.run("for i in $(seq 600); do [ $(stat -c %s /tmp/theirs) -ge 134 ] && break; sleep 0.05; done; "
                         "dd bs=1 skip=26 count=107 if=/tmp/theirs 2>/dev/null")
        match = re.match(r"[0-9a-f]{4}:([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):", text)
        assert match, "%r, Linux: %s" % (text, client.output)
        depth, qp, psn = (int(match.group(k), 16) for k in (1, 2, 3))
        mine = "0000:%04x:%06x:%06x:%08x:%016x:%s:%08x:" % (depth, int(ours.ask("ready", HOST4, qp, psn, 1024)), 0, key, address,
                                                            ":".join(GID[k:k + 2] for k in range(0, 32, 2)), 0)
        before = ours.ask("load", address, length)
        guest.run("printf '%s\\0' >/tmp/mine.new; mv /tmp/mine.new /tmp/mine" % mine)
        if receives:
            came = [bytes.fromhex(ours.ask("took").split(" ")[2]) for _ in range(count)]
        for command in (client, server, relay):
            command.kill() if receives else command.end(60)
        m.ours = int(ours.ask("counts").split()[0])
    after = ours.ask("load", address, length)
    ours.end()
    return came if receives else (bytes.fromhex(before), bytes.fromhex(after))


@rule
def perftest_writes_reads_counts_and_sends_to_us():
    # The bytes of each message are the same random ones: no block of 64 is empty, and nothing is behind them.
    before, after = perftest("ib_write_bw", 20000, 100, "-s 20000")
    assert all(any(after[k:k + 64]) for k in range(0, 20000 - 64, 64)) and after[24576:] == before[24576:]
    before, after = perftest("ib_read_bw", 20000, 100, "-s 20000 -o 16")
    assert before == after
    _, after = perftest("ib_atomic_bw", 8, 100, "-A FETCH_AND_ADD -o 16")  # adds 1 to several places
    assert sum(struct.unpack("<%dQ" % (len(after) // 8), after)) == 100
    came = perftest("ib_send_bw", 8000, 100, "-s 8000", receives=True)
    assert len(came[0]) == 8000 and set(came) == {came[0]} and all(any(came[0][k:k + 64]) for k in range(0, 8000 - 64, 64))


@rule
def cmtime_makes_many_connections():
    serve("cmtime -c 50", "cm-server", "cmtime -s %s -p 7186 -c 50" % NIC4, 0, 7186, 50, 0, 0)


@rule
def the_nic_is_at_the_other_end_of_a_bad_link():
    with bad_link():
        guest, _ = Bench.both()
        out = guest.run("ping -c 10 -W 2 " + NIC4, 90)  # status 1: nothing came back
        assert int(re.search(r"(\d+) packets received", out).group(1)) >= 7, out


@rule
def over_a_bad_link_rping_pings_us():
    with bad_link():
        serve("rping, bad link", "rping-server", "rping -c -a %s -p 7180 -C 30 -S 30000 -V" % NIC4, 60 * 30000, 7180)


@rule
def over_a_bad_link_we_ping_rping():
    with bad_link():
        connect("to rping, bad link", "rping-client", "rping -s -a %s -p 7181 -S 30000" % HOST4, 60 * 30000, HOST4, 7181, 30, 30000)


@rule
def over_a_bad_link_messages_come_once():
    with bad_link():
        serve("ucmatose, bad link", "cm-server", "ucmatose -s %s -p 7182 -c 2 -C 100 -S 5000" % NIC4, 2 * 2 * 100 * 5000, 7182, 2, 100, 5000)
        connect("to ucmatose, bad link", "cm-client", "ucmatose -p 7183 -c 2 -C 100 -S 5000", 2 * 2 * 100 * 5000,
                HOST4, 7183, 2, 100, 5000)


@rule
def over_a_bad_link_a_pingpong_ends():
    with bad_link():
        for first in (True, False):
            pingpong("rc", 5000, 50, first)


# ---- what Linux has answered in captures, from our NIC -----------------------------------------------------------------------

class Answering(Process):
    """peer.c's `answer`."""

    def ask(self, *words):
        self.say(" ".join(str(w) for w in words))
        line = self.line(30)
        assert line, "no answer to %r: %s" % (words[:2], self.stderr())
        return line


def from_capture(house, wire, name, number, flow):
    """The NIC answers a flow's requests; we are who asks."""
    ours = Answering([net.PROGRAM, "asked", "answer"], env=house.environment())
    house.closing.append(ours.kill)
    plan, keys, six = flow.plan(), {}, len(flow.src) == 16
    for region in plan["regions"]:
        keys[region["rkey"]] = int(ours.ask("region", region["va"], region["len"], 1 | region["access"]))
    for r in plan["receives"]:
        ours.ask("receive", max(64, len(r["data"]) // 2))
    qp = int(ours.ask("ready", HOST6 if six else HOST4, flow.back, plan["psn"], plan["mtu"]))
    asker = rc_replay.Asker(flow, wire, qp, keys, update=lambda va, data: ours.ask("store", va, data.hex()), mac=NIC_MAC,
                            src=HOST6 if six else HOST4, dst=NIC6 if six else NIC4)
    try:
        said = rc_replay.differences(flow, asker.run(window=16))  # SP_RDMA_READS
    except AssertionError as error:
        row = asker.answers[-1].row() if asker.answers else None
        raise AssertionError("%s, flow %d: %s after %d answers; the latest: %s; %s" % (
            name, number, error, len(asker.answers), row, ours.ask("counts")))
    for region in plan["regions"]:
        if ours.ask("load", region["va"], region["len"]) != region["after"]:
            said.append("memory of region %#x" % region["rkey"])
    for r in plan["receives"]:
        length, imm, data = (ours.ask("took") + " ").split(" ")[:3]
        if int(imm) != (r["imm"] or 0) or data != ("" if r["write"] else r["data"]):
            said.append("the receive of request %d" % r["request"])
    assert not said, "%s, flow %d: %s" % (name, number, "; ".join(said))
    ours.end()


@rule
def the_nic_answers_as_linux_has_answered_in_captures():
    directory = os.environ.get("SPINDLE_SHARED_PCAPS")
    if not directory:
        raise Skip("SPINDLE_SHARED_PCAPS names no captures")
    done = 0
    with World() as world, House() as house:
        text = "[nic]\nport = net_af_packet0\nip = %s/24, %s/64\nmac = %s\n" % (NIC4, NIC6, NIC_MAC)
        house.nic(text, "--name", "asked", eal=("--vdev", "net_af_packet0,iface=nic0"), space=world.space)
        for address in (NIC4, NIC6):
            ping(address, 16, 1)  # what waits for a neighbour's address is overtaken by what comes later
        for name in sorted(os.listdir(directory)):
            for number, flow in enumerate(rc_replay.flows(os.path.join(directory, name)) if name.endswith(".pcap") else ()):
                if flow.back is not None and flow.plan()["msn"] == 0 and not flow.rules():
                    wire = Sniffer("host0")
                    try:
                        from_capture(house, wire, name, number, flow)
                    finally:
                        wire.stop()
                    done += 1
    assert done, "no capture has a reliable connection"


def main():
    """What net.main() wants, and the guest's directory."""
    global DIRECTORY
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    DIRECTORY = os.path.abspath(sys.argv.pop(3))
    try:
        build(DIRECTORY)
    except Skip as why:
        Bench.failure = Skip("no guest: %s" % why)
    try:
        net.main()
    finally:
        Bench.end()


if __name__ == "__main__":
    main()
