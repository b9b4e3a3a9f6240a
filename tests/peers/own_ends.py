# SPDX-License-Identifier: BSD-3-Clause
"""Our own ends (peer.c) and Linux's programs, each role: rping, ucmatose, udaddy, ibv_*_pingpong; clients of perftest."""

import re
import socket
import struct

import net
from net import HOST4, NIC4, NIC6, rule
from guest import Hung
from peering import Answering, Bench, Measured, ended, listening, once_more, peer, waiting


def serve(name, what, client, size, *words):
    """Ours listens, Linux's connects. Soft-RoCE has to repeat nothing on a link that loses nothing."""
    guest, house = Bench.both()
    process = peer(house, what, *words)
    line = process.line()
    assert line == "listening %s" % words[0], "%r %s" % (line, process.stderr())
    with Measured(guest, name, size) as m:
        guest.run(client, 90)
        m.ours = ended(process)
    m.calm()


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
    m.calm()


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


def pingpong(kind, size, count, first, lossy=False):
    """first: ours sends first, as the client. Their TCP ends in the guest; we bring QP numbers to and fro. lossy: messages
    may get lost, and ours sends until theirs has enough."""
    guest, house = Bench.both()
    words = "ibv_%s_pingpong -g %d -n %d -s %d%s" % (kind, guest.gid(HOST4), count, size, " -q 1" if kind == "srq" else "")
    ours = peer(house, "lossy-pingpong", kind, size) if lossy else peer(house, "pingpong", kind, count, size)
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
        if not lossy:
            m.ours = ended(ours)
        try:
            theirs.end(60, explain=Bench.state)
        except Hung:
            ours.kill()
            raise
        exchange.end(60)
        if lossy:
            m.ours = ended(ours)
            m.also = ours.said[-2]
            came = int(re.fullmatch(r"came (\d+) silences \d+", m.also).group(1))
            m.size = (count + came) * size
            assert came >= count / 4, m.also


@rule
def pingpongs_exchange_messages_with_us():
    for kind in ("rc", "uc", "srq", "ud"):
        for first in (True, False):
            for size in (1000,) if kind == "ud" else (1024, 5000):
                once_more(pingpong, kind, size, 100, first)


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
