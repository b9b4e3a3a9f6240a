#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""RVMA through running NICs: every call of rvma.h from a process of its own (rvma.c), between two NICs; processes that
are killed; and `spindle rvma`."""

import atexit
import errno
import json
import os
import re
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from hosts import Hosts  # noqa: E402
from net import HOST4, NIC4, Sniffer, pk, rule, until  # noqa: E402
from served import Process  # noqa: E402

POLL, MONITOR, SLEEP = range(3)
BYTES, OPS = 0, 1
STEERED, MANAGED, REGION = range(3)
CATCH_ALL, SILENT, READABLE, FORGET = 1, 2, 4, 8
PARTIAL, LOST, ENDED = 1, 2, 4
MS = 30000  # patience


class App:
    """rvma.c: app.init(...) and so on is a call there; what it gives back is a number, or a list with what was filled in."""

    def __init__(self, house, nic):
        self.process = Process([net.PROGRAM, getattr(nic, "socket", nic)], env=house.environment())
        house.closing.append(self.process.kill)
        assert self.process.line() == "0", self.process.stderr()

    def __getattr__(self, name):
        def call(*arguments):
            self.process.say(" ".join([name] + [str(a) for a in arguments]))
            words = self.process.line().split()
            assert words, "%s: %s" % (name, self.process.stderr())
            result = [int(w) if re.fullmatch(r"-?\d+", w) else w for w in words]
            return result[0] if len(result) == 1 else result
        return call

    def begin(self, windows=0, buffers=0, counters=0, peers=0, ops=0, timeout=0, family=0, qpn=0):
        rc, address = self.open(windows, buffers, counters, peers, ops, timeout, family, qpn)
        assert rc == 0, address
        return address

    def window(self, mailbox, key=0, threshold=0, type=BYTES, mode=STEERED, flags=0, limits=(0, 0, 0, 0)):
        rc, w = self.init(mailbox, key, threshold, type, mode, flags, *limits)
        assert rc == 0, rc
        return w

    def op(self, kind, *arguments):
        """Begins an operation; its result."""
        result = getattr(self, kind)(*arguments)
        assert isinstance(result, list), "%s %r: %r" % (kind, arguments, result)
        return self.opwait(result[1], MS)

    def end(self):
        self.process.end()


class Pair:
    """A receiver on one NIC and an initiator on the other; the receiver's address is the initiator's peer 0. The NICs are
    shared by the rules, and taken along by one that fails."""

    nics = None

    @classmethod
    def part(cls):
        if cls.nics:
            cls.nics, h = None, cls.nics
            h.__exit__()

    def __init__(self, apps=True, **attributes):
        if not Pair.nics:
            Pair.nics = Hosts(link="vhost")
        self.house, self.apps, self.attributes = Pair.nics, apps, attributes

    def __enter__(self):
        self.running = len(self.house.closing)
        self.far_nic, self.near_nic = self.house.far_nic, self.house.near_nic
        try:
            if self.apps:
                self.receiver = self.app(self.far_nic)
                self.address = self.receiver.begin(**self.attributes)
                self.initiator = self.another(self.attributes.get("timeout", 0))
        except BaseException:
            self.part()
            raise
        return self

    def app(self, nic):
        return App(self.house, nic)

    def another(self, timeout=0):
        app = self.app(self.near_nic)
        app.begin(timeout=timeout)
        assert app.peer(self.address) == [0, 0]
        return app

    def __exit__(self, *error):
        if error[0]:
            self.part()
            return
        while len(self.house.closing) > self.running:
            self.house.closing.pop()()
        for nic in (self.far_nic, self.near_nic):
            said = nic.stderr()
            assert nic.process.poll() is None and "Sanitizer" not in said and "runtime error" not in said, said


# ---- the calls -----------------------------------------------------------------------------------------------------------

@rule
def buffers_fill_up_one_after_the_other_and_the_sender_notices_nothing():
    """As in the paper's figure: mailboxes 0x11FF0011 and 0x11FF0031, each with buffers of its own."""
    with Pair() as h:
        r, i = h.receiver, h.initiator
        a, b = r.window(0x11FF0011, key=5, threshold=4096), r.window(0x11FF0031, key=6, threshold=2, type=OPS)
        for k in range(3):
            assert r.post(a, k * 65536, 4096, k, 0) == 0
        assert r.post(b, 3 * 65536, 8192, 3, 0) == 0
        for k in range(3):
            i.fill(0, 4096, k)
            assert i.op("putat", 0, 0x11FF0011, 5, 0, 1000, 0) == 0
            assert i.op("putat", 0, 0x11FF0011, 5, 1000, 3096, 1000) == 0
            assert r.wait(k, (POLL, MONITOR, SLEEP)[k], MS) == [0, k * 65536, 4096, k, 0, 0x11FF0011, 2]
            assert r.check(k * 65536, 4096, k) == 0
        assert r.wait(3, POLL, 0) == -errno.ETIMEDOUT
        i.fill(0, 3000, 9)
        assert i.op("put", 0, 0x11FF0031, 6, 0, 3000) == 0
        assert i.op("putat", 0, 0x11FF0031, 6, 0, 0, 4000) == 0
        assert r.wait(3, SLEEP, MS) == [0, 3 * 65536, 3000, 0, 0, 0x11FF0031, 2]
        assert r.check(3 * 65536, 3000, 9) == 0
        assert r.epoch(a) == [0, 3] and r.epoch(b) == [0, 1]
        assert r.status(a) == [0, 3, 0, 3, 6, 3 * 4096, 0, 0]
        r.end()
        i.end()


@rule
def a_large_put_arrives_whole_and_appended_puts_lie_one_behind_the_other():
    with Pair() as h:
        r, i = h.receiver, h.initiator
        size = 3 << 20
        w, m = r.window(1, threshold=1, type=OPS), r.window(2, threshold=10000, mode=MANAGED)
        assert r.post(w, 0, size, 0, 0) == 0 and r.post(m, size, 12000, 1, 0) == 0
        i.fill(0, size, 3)
        assert i.op("put", 0, 1, 0, 0, size) == 0
        assert r.wait(0, SLEEP, MS) == [0, 0, size, 0, 0, 1, 1] and r.check(0, size, 3) == 0
        assert i.op("putat", 0, 2, 0, 0, 10, 0) == -errno.EPROTOTYPE
        for k in range(5):
            i.fill(0, 2000, 20 + k)
            assert i.op("putfenced" if k % 2 else "put", 0, 2, 0, 0, 2000) == 0
        assert r.wait(1, SLEEP, MS) == [0, size, 10000, 0, 0, 2, 5]
        for k in range(5):
            assert r.check(size + 2000 * k, 2000, 20 + k) == 0


@rule
def each_refusal_is_told_with_its_reason():
    with Pair() as h:
        r, i = h.receiver, h.initiator
        w = r.window(1, key=7, limits=(1, 5000, 3000, 0))
        refused = [("put", 0, 2, 0, 0, 10), -errno.ENOENT], [("put", 0, 1, 8, 0, 10), -errno.EACCES], \
                  [("put", 0, 1, 7, 0, 10), -errno.ENOBUFS], [("get", 0, 1, 7, 0, 10, 0, 0), -errno.EACCES]
        for call, error in refused:
            assert i.op(*call) == error, call
        assert r.post(w, 0, 5001, 0, 0) == -errno.EDQUOT
        assert r.post(w, 0, 4000, 0, 0) == 0
        assert r.post(w, 8192, 100, 1, 0) == -errno.EDQUOT
        for call, error in ([("putat", 0, 1, 7, 0, 10, 3991), -errno.EMSGSIZE], [("put", 0, 1, 7, 0, 3001), -errno.EMSGSIZE],
                            [("putat", 0, 1, 7, 0, 10, 2 ** 64 - 9), -errno.ERANGE], [("putat", 0, 1, 7, 0, 0, 2 ** 64 - 2), -errno.EMSGSIZE]):
            assert i.op(*call) == error, call
        assert i.op("put", 0, 1, 7, 0, 3000) == 0
        assert r.status(w) == [0, 0, 1, 0, 1, 3000, 6, 0], r.status(w)  # of this mailbox; gets are not counted
        assert i.reason(-errno.ENOBUFS)[0] == 0 and "buffer" in i.reason(-errno.ENOBUFS)
        assert r.init(1, 0, 0, 0, 0, 0, 0, 0, 0, 0) == -errno.EEXIST
        slow = r.window(3, threshold=1, type=OPS, limits=(0, 0, 0, 1))  # a byte a second
        assert r.post(slow, 65536, 4000, 1, 0) == 0 and r.post(slow, 65536, 4000, 2, 0) == 0
        assert i.op("put", 0, 3, 0, 0, 3000) == 0 and i.op("put", 0, 3, 0, 0, 1) == -errno.EDQUOT
        # Ranges that are not within the region are the caller's own mistakes.
        assert r.post(w, 8 << 20, 1, 0, 0) == -errno.EFAULT
        assert i.put(0, 1, 7, 0, (8 << 20) + 1) == -errno.EFAULT
        assert i.put(0, 1, 7, 2 ** 63, 2 ** 63) == -errno.EFAULT


@rule
def inc_epoch_and_close_hand_over_what_there_is_in_order():
    with Pair() as h:
        r, i = h.receiver, h.initiator
        w = r.window(1)
        assert r.inc(w) == -errno.ENODATA
        for k in range(3):
            assert r.post(w, k * 65536, 1000, k, 0) == 0
        assert i.op("put", 0, 1, 0, 0, 300) == 0
        assert r.wait(0, SLEEP, 20) == -errno.ETIMEDOUT
        assert r.inc(w) == 0
        assert r.wait(0, SLEEP, MS) == [0, 0, 300, 0, PARTIAL, 1, 1]
        assert i.op("put", 0, 1, 0, 0, 200) == 0
        assert r.closewin(w) == 0 and r.closewin(w) == -errno.ESHUTDOWN
        assert r.wait(1, SLEEP, MS) == [0, 65536, 200, 1, PARTIAL | ENDED, 1, 1]
        assert r.wait(2, SLEEP, MS) == [0, 131072, 0, 2, PARTIAL | ENDED, 1, 0]
        assert r.post(w, 0, 1000, 0, 0) == -errno.ESHUTDOWN
        assert i.op("put", 0, 1, 0, 0, 200) == -errno.ESHUTDOWN
        assert r.status(w)[7] == 1 and r.status(w)[3] == 3 and r.ptrs(w, 10)[0] == 3
        assert r.freewin(w) == 0 and i.op("put", 0, 1, 0, 0, 200) == -errno.ENOENT


@rule
def a_silent_window_does_not_answer_what_it_refuses():
    with Pair(timeout=1500) as h:
        r, i = h.receiver, h.initiator
        r.window(1, key=1, flags=SILENT)
        r.window(2, key=1)
        assert i.op("put", 0, 2, 0, 0, 10) == -errno.EACCES
        rc, op = i.put(0, 1, 0, 0, 10)
        assert rc == 0 and i.peerclose(0) == -errno.EBUSY
        said = []

        def over():
            said.append(i.test(op))
            return said[-1] != -errno.EAGAIN
        until("it has ended", over)
        assert said[-1] == -errno.ETIMEDOUT and i.peerclose(0) == 0, said[-1]


@rule
def the_catch_all_gets_what_no_other_mailbox_takes():
    with Pair() as h:
        r, i = h.receiver, h.initiator
        r.window(5)
        w = r.window(77, threshold=1, type=OPS, flags=CATCH_ALL)
        assert r.init(78, 0, 0, 0, 0, CATCH_ALL, 0, 0, 0, 0) == -errno.EEXIST
        for k, mailbox in enumerate((5, 1 << 63, 77)):
            assert r.post(w, k * 4096, 1000, k, 0) == 0
            assert i.op("put", 0, mailbox, 0, 0, 10) == 0
            assert r.wait(k, SLEEP, MS) == [0, k * 4096, 10, k, 0, mailbox, 1]


@rule
def earlier_epochs_are_found_read_rewound_to_and_released():
    with Pair() as h:
        r, i = h.receiver, h.initiator
        w = r.window(1, threshold=1000, flags=READABLE)
        for k in range(4):
            assert r.post(w, k * 4096, 1000, k, 0) == 0
        assert i.op("get", 0, 1, 0, 500000, 10, 0, 0) == -errno.ENODATA  # nothing is complete
        for k in range(3):
            i.fill(0, 1000, k)
            assert i.op("put", 0, 1, 0, 0, 1000) == 0
            assert r.wait(k, SLEEP, MS)[0] == 0
        done = ["%d,1000,%d,0,1" % (k * 4096, k) for k in range(3)]
        assert r.ptrs(w, 10) == [3] + done and r.ptrs(w, 2) == [2] + done[:2]
        for back in range(3):
            assert i.op("get", 0, 1, 0, 500000, 1000, 0, back) == 0
            assert i.check(500000, 1000, 2 - back) == 0
        assert i.op("get", 0, 1, 0, 500000, 10, 0, 3) == -errno.ENODATA
        assert i.op("get", 0, 1, 0, 500000, 10, 991, 0) == -errno.ERANGE
        assert i.get(0, 1, 0, 500000, 10, 0, 256) == -errno.EINVAL
        assert r.rewind(w, 3) == -errno.ENODATA
        assert r.rewind(w, 1) == [0, 4096, 1000, 1, 0, 1]
        assert r.epoch(w) == [0, 2] and r.ptrs(w, 10) == [2] + done[:2]
        assert i.op("get", 0, 1, 0, 500000, 1000, 0, 0) == 0 and i.check(500000, 1000, 1) == 0
        assert i.op("put", 0, 1, 0, 0, 1000) == 0
        assert r.wait(3, SLEEP, MS) == [0, 3 * 4096, 1000, 2, 0, 1, 1]  # epoch 2 anew
        assert r.release(w, 1) == 0 and r.release(w, 1) == -errno.ENODATA
        assert r.ptrs(w, 10) == [1, "%d,1000,2,0,1" % (3 * 4096)]
        assert i.op("get", 0, 1, 0, 500000, 10, 0, 1) == -errno.ENODATA


@rule
def rdmas_registered_memory_is_one_buffer_that_never_completes():
    with Pair() as h:
        r, i = h.receiver, h.initiator
        w = r.window(1, mode=REGION, flags=READABLE)
        assert r.post(w, 0, 100000, 0, 0) == 0 and r.post(w, 100000, 100000, 1, 0) == -errno.EDQUOT
        i.fill(0, 50000, 4)
        assert i.op("putat", 0, 1, 0, 0, 50000, 40000) == 0 and r.check(40000, 50000, 4) == 0
        assert i.op("get", 0, 1, 0, 200000, 50000, 40000, 0) == 0 and i.check(200000, 50000, 4) == 0
        assert r.epoch(w) == [0, 0] and r.wait(0, POLL, 0) == -errno.ETIMEDOUT


@rule
def it_works_over_ipv6():
    with Pair(family=6) as h:
        r, i = h.receiver, h.initiator
        six = h.app(h.near_nic)
        six.begin(family=6)
        assert bytes.fromhex(h.address)[:4] == b"\x20\x01\x0d\xb8" and six.peer(h.address) == [0, 0]
        w = r.window(1, threshold=1, type=OPS)
        assert r.post(w, 0, 100000, 0, 0) == 0
        six.fill(0, 100000, 6)
        assert six.op("put", 0, 1, 0, 0, 100000) == 0
        assert r.wait(0, SLEEP, MS) == [0, 0, 100000, 0, 0, 1, 1] and r.check(0, 100000, 6) == 0


@rule
def many_windows_come_and_go():
    with Pair(windows=4, buffers=4, counters=2) as h:
        r, i = h.receiver, h.initiator
        for turn in range(3):
            made = [r.window(100 * turn + k, threshold=1, type=OPS, flags=FORGET) for k in range(4)]
            assert r.init(9999, 0, 0, 0, 0, 0, 0, 0, 0, 0) == -errno.ENOSPC
            for k, w in enumerate(made):
                assert r.post(w, k * 4096, 4096, k, 0) == 0
            assert r.post(made[0], 5 * 4096, 4096, 5, 0) == -errno.ENOBUFS
            for k, w in enumerate(made):
                assert i.op("put", 0, 100 * turn + k, 0, 0, 100) == 0
                assert r.wait(k, SLEEP, MS) == [0, k * 4096, 100, 0, 0, 100 * turn + k, 1]
                assert r.ptrs(w, 5) == 0 and r.freewin(w) == 0


@rule
def peers_are_opened_shared_and_closed():
    with Pair() as h:
        i = h.initiator
        assert i.peer(h.address) == [0, 1]
        assert i.peerclose(1) == 0 and i.peerclose(0) == 0
        assert i.peer("00" * 32) == -errno.EINVAL
        assert i.shut() == 0
        assert i.monitors() in (0, 1)


# ---- death ---------------------------------------------------------------------------------------------------------------

@rule
def windows_survive_a_sender_that_is_killed():
    """In the middle of puts; another sender then completes the buffer, and the next one."""
    with Pair(timeout=3000) as h:
        r, i = h.receiver, h.initiator
        w = r.window(1, threshold=5, type=OPS)
        assert r.post(w, 0, 4 << 20, 0, 0) == 0 and r.post(w, 4 << 20, 1000, 1, 1) == 0
        for _ in range(4):
            assert i.put(0, 1, 0, 0, 4 << 20)[0] == 0
        i.process.kill()
        another = h.another()
        another.fill(0, 1000, 8)
        for _ in range(5):
            if r.status(w)[2] == 2:  # posted
                assert another.op("put", 0, 1, 0, 0, 1000) == 0
        whole = r.wait(0, SLEEP, MS)
        assert whole[:2] == [0, 0] and whole[3] == 0 and whole[4] == (LOST if r.losses(w)[1] else 0) and whole[6] == 5, whole
        assert r.check(0, 1000, 8) == 0 and another.op("put", 0, 1, 0, 0, 1000) == 0
        assert r.wait(1, SLEEP, MS) == [0, 4 << 20, 1000, 1, 0, 1, 1]


@rule
def a_sender_killed_in_the_first_epoch_is_noticed_and_the_window_rewound_to_its_begin():
    with Pair(timeout=3000) as h:
        r, i = h.receiver, h.initiator
        w = r.window(1, threshold=2, type=OPS)
        assert r.post(w, 0, 1000, 0, 0) == 0 and i.op("put", 0, 1, 0, 0, 1000) == 0 and r.losses(w) == [0, 0, 0]
        i.process.kill()
        until("the sender's death shows", lambda: r.losses(w) == [0, 0, 1])  # no put is lost, a peer is gone
        assert r.rewind(w, 2**64 - 1)[::2] == [0, 0, 0] and r.status(w) == [0, 0, 1, 0, 0, 0, 0, 0]
        another = h.another()
        assert [another.op("put", 0, 1, 0, 0, 1000) for _ in range(2)] == [0, 0] and r.wait(0, SLEEP, MS)[2] == 2000


@rule
def a_receiver_that_is_killed_takes_its_windows_along_and_its_peers_are_told():
    with Pair(timeout=1500) as h:
        r, i = h.receiver, h.initiator
        w = r.window(1, threshold=1, type=OPS)
        assert r.post(w, 0, 1000, 0, 0) == 0
        assert i.op("put", 0, 1, 0, 0, 100) == 0
        r.process.signal(signal.SIGKILL)
        r.process.end(-signal.SIGKILL)
        # Until the NIC has heard of it, the mailbox is there, and has no buffer.
        until("the peer is told", lambda: i.op("put", 0, 1, 0, 0, 100) == -errno.ECONNRESET)
        # Another one may have the address then, with mailboxes of its own.
        again = h.app(h.far_nic)
        qpn = int.from_bytes(bytes.fromhex(h.address[32:40]), "little")
        until("the number is free", lambda: again.open(0, 0, 0, 0, 0, 0, 0, qpn)[0] == 0)
        w = again.window(2, threshold=1, type=OPS)
        assert again.post(w, 0, 1000, 0, 0) == 0
        assert i.op("put", 0, 1, 0, 0, 100) == -errno.ENOENT
        assert i.op("put", 0, 2, 0, 0, 100) == 0
        assert again.wait(0, SLEEP, MS)[:3] == [0, 0, 100]


@rule
def a_nic_that_is_killed_ends_its_applications_and_their_peers_hear_nothing():
    with Pair(timeout=1500) as h:
        r, i = h.receiver, h.initiator
        w = r.window(1)
        assert r.post(w, 0, 1000, 0, 0) == 0
        assert i.op("put", 0, 1, 0, 0, 100) == 0
        h.far_nic.signal(signal.SIGKILL)
        h.far_nic.end(-signal.SIGKILL)
        assert r.wait(0, SLEEP, MS) == -errno.ECONNABORTED
        assert r.post(w, 0, 1000, 0, 0) == -errno.ECONNABORTED and r.epoch(w)[0] == -errno.ECONNABORTED
        assert r.shut() == 0
        assert i.op("put", 0, 1, 0, 0, 100) == -errno.ECONNRESET
        h.far_nic = h.near_nic  # it is not missed
    Pair.part()


# ---- the command ---------------------------------------------------------------------------------------------------------

def command(h, nic, *words, **more):
    process = Process([net.SPINDLE, "rvma", *words, "--nic", nic], env=h.environment(), **more)
    h.closing.append(process.kill)
    return process


def address_of(process):
    match = re.fullmatch(r"listening: (\S+) (\d+), mailbox (0x[0-9a-f]+)", process.line())
    assert match and match.group(1) == NIC4, process.stderr()
    return match.group(1), match.group(2)


@rule
def the_command_carries_files_through_a_mailbox():
    with Pair(apps=False) as pair:
        h = pair.house
        path, data = h.source(300000)
        out = h.path("out")
        r = command(h, "far", "listen", "--mailbox", "0x11FF0011", "--key", "7", "--size", "300000", "--count", "2", "-o", out)
        where = address_of(r)
        for _ in range(2):
            p = command(h, "near", "put", *where, path, "--mailbox", "0x11ff0011", "--key", "7")
            assert re.fullmatch(r"300000 bytes delivered, puts: 1, [0-9.]+ s", "".join(p.end())), p.stderr()
        assert r.end() == ["epoch %d: 300000 bytes, puts: 1, mailbox 0x11ff0011" % k for k in range(2)]
        with open(out, "rb") as f:
            assert f.read() == data * 2


@rule
def the_command_is_a_pipe_and_its_end_hands_over_the_rest():
    with Pair(apps=False) as pair:
        h = pair.house
        path, data = h.source(300000)
        with open(h.path("out"), "wb") as out:
            r = command(h, "far", "listen", "--managed", "--size", "64K", "--buffers", "2", "-o", "-", stdout=out)
            until("it listens", lambda: "listening: " in r.stderr())
            where = re.search(r"listening: (\S+) (\d+)", r.stderr()).groups()
            with open(path, "rb") as source:
                p = command(h, "near", "put", *where, "--piece", "16K", "--json", "-", stdin=source)
                told = json.loads("".join(p.end()))
            assert told["bytes"] == 300000 and told["puts"] == 19, told
            until("four are complete", lambda: "epoch 3: " in r.stderr())
            r.signal(signal.SIGTERM)
            r.end()
        assert "epoch 4: %d bytes, puts: 3, mailbox 0x0, partial" % (300000 - 4 * 65536) in r.stderr(), r.stderr()
        with open(h.path("out"), "rb") as f:
            assert f.read() == data


@rule
def the_command_reads_what_was_completed_and_says_what_was_refused():
    with Pair(apps=False) as pair:
        h = pair.house
        path, data = h.source(5000)
        r = command(h, "far", "listen", "--readable", "--size", "8K", "--ops", "--json", "--mailbox", "3")
        hello = json.loads(r.line())
        where = hello["ip"], str(hello["qpn"])
        assert hello["mailbox"] == "0x3", hello
        g = command(h, "near", "get", *where, "--mailbox", "3", "--size", "5000")
        assert g.end(1) == [] and "no such buffer has been completed" in g.stderr(), g.stderr()
        command(h, "near", "put", *where, path, "--mailbox", "3", "--at", "100").end()
        told = json.loads(r.line())
        assert told == {"epoch": 0, "length": 5000, "puts": 1, "mailbox": "0x3", "partial": False, "lost": False}, told
        command(h, "near", "get", *where, "--mailbox", "3", "--size", "4000", "--at", "1100", "-o", h.path("got")).end()
        with open(h.path("got"), "rb") as f:
            assert f.read() == data[1000:]
        for words, why in ((("--mailbox", "4"), "no such mailbox"), (("--mailbox", "3", "--key", "1"), "wrong key"),
                           (("--mailbox", "3", "--at", "8000"), "larger than")):
            p = command(h, "near", "put", *where, path, *words)
            assert p.end(1) == [] and why in p.stderr(), p.stderr()
        r.signal(signal.SIGINT)
        r.end()


# ---- a host that is no party ---------------------------------------------------------------------------------------------

FORGER = "192.0.2.66"


def dropped(house, nic, reason):
    """How many packets the NIC's contexts have dropped for that reason."""
    run = subprocess.run([net.SPINDLE, "stat", "--json", nic.socket], env=house.environment(), capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr

    def found(x):
        if isinstance(x, dict):
            return sum(v if k == reason and isinstance(v, int) else found(v) for k, v in x.items())
        return sum(map(found, x)) if isinstance(x, list) else 0
    return found(json.loads(run.stdout)["contexts"])


class Session:
    """What an onlooker on the link reads in the far NIC's WELCOME: its QP number and token, and the near one's QP number and
    nonce."""

    def __init__(self):
        self.sniffer = Sniffer("near0")

    def read(self):
        frame = self.sniffer.wait(lambda f: f[12:14] == b"\x08\x00" and f[36:38] == b"\x12\xb7" and f[42] == pk.RVMA_WELCOME)
        qp, token, _, echo = struct.unpack(">I8xQQQ", frame[58:94])
        return (qp, token), (int.from_bytes(frame[47:50], "big"), echo)


def forged(qp, token, nonce, src):
    """All that would harm a transfer, to the far NIC."""
    to = {"src": src, "dst": NIC4}
    everything = 1 << 30
    return [pk.rvma_bye(qp, token, nonce, **to), pk.rvma_nack(qp, token, 0, 1, 3, **to),
            *(pk.rvma_nack(qp, token, t, 1, 3, **to) for t in range(1, 40)),
            pk.rvma_datagram(pk.RVMA_POLL, qp, token, pk.rel_poll(1, everything, everything, 0, 0), **to),
            pk.rvma_datagram(pk.RVMA_ACK, qp, token, pk.rel_ack(0, everything, (everything, 0), (everything, 0)), **to),
            *(pk.rvma_put(qp, t, 0, 64, 1, 0, 0, b"\xee" * 64, head={"token": token}, **to) for t in range(1, 40))]


@rule
def a_host_that_is_no_party_changes_nothing():
    """It has seen all tokens, and sends from its own address; or it sends in the peer's name and has not seen them."""
    with Hosts(link="veth") as h:
        session = Session()
        r, i = App(h, h.far_nic), App(h, h.near_nic)
        address = r.begin()
        i.begin()
        assert i.peer(address) == [0, 0]
        size = 1 << 20
        w = r.window(1, threshold=1, type=OPS)
        for k in range(3):
            assert r.post(w, k * size, size, k, 0) == 0
        i.fill(0, size, 5)
        assert i.op("put", 0, 1, 0, 0, size) == 0
        far, near = session.read()
        frames = forged(*far, near[1], FORGER)  # BYE carries its sender's nonce
        wrong = forged(far[0], far[1] ^ 1 << 40, near[1], HOST4)
        hello = pk.rvma_hello(pk.RVMA_HELLO, far[0], near[0], 1024, 64, 0x1234567890, 77, src=HOST4, dst=NIC4)
        began = i.put(0, 1, 0, 0, size)  # they come while this is under way, and after it
        for frame in (*frames, *wrong, hello):
            session.sniffer.send(frame)
        assert began[0] == 0 and i.opwait(began[1], MS) == 0

        def have_come():  # a port that has no room loses some: they are sent until enough are there
            for frame in (*frames, *wrong, hello):
                session.sniffer.send(frame)
            return (dropped(h, h.far_nic, "wrong-peer") >= 2 * len(frames) and
                    dropped(h, h.far_nic, "bad-token") >= 2 * len(wrong))
        until("the forged packets have come", have_come)
        assert i.op("put", 0, 1, 0, 0, size) == 0
        for k in range(3):
            assert r.wait(k, SLEEP, MS) == [0, k * size, size, k, 0, 1, 1] and r.check(k * size, size, 5) == 0
        assert r.status(w) == [0, 3, 0, 3, 3, 3 * size, 0, 0], r.status(w)
        # In the peer's name and with the right tokens the same packets are taken: it is these checks that hold.
        unknown = dropped(h, h.far_nic, "bad-token")
        session.sniffer.send(pk.rvma_bye(*far, near[1], src=HOST4, dst=NIC4))
        session.sniffer.send(pk.rvma_nack(*far, 0, 1, 3, src=HOST4, dst=NIC4))
        until("the session is over", lambda: dropped(h, h.far_nic, "bad-token") > unknown)
        r.end()
        i.end()


@rule
def a_seed_in_the_configuration_makes_no_number_guessable():
    """NICs of one configuration, each in a process of its own: a QP number that nobody asked for is 1 of 15 million."""
    seen = set()
    for _ in range(3):
        with Hosts(link="vhost", far="seed = 5\n") as h:
            for nic in (h.far_nic, h.near_nic):
                app = App(h, nic)
                seen.add(app.begin())  # IP address and QP number
                app.end()
    assert len(seen) >= 5, seen


@rule
def the_example_mailbox_takes_what_it_puts():
    program = os.path.join(os.path.dirname(os.path.abspath(net.SPINDLE)), "host-api", "examples", "mailbox")
    with Pair(apps=False) as pair:
        h = pair.house

        def example(nic, *words):
            process = Process([program, words[0], nic, *words[1:]], env=h.environment())
            h.closing.append(process.kill)
            return process
        r = example("far", "listen", "0x11FF0011")
        match = re.fullmatch(r"listening: (\S+) (\d+)", r.line())
        assert match, r.stderr()
        for k, text in enumerate(("Hello", "once", "more")):  # more than there are buffers
            assert example("near", "put", *match.groups(), "0x11FF0011", text).end() == []
            assert r.line() == "epoch %d: %s" % (k, text)
        p = example("near", "put", *match.groups(), "0x11FF0031", "lost")
        assert p.end(1) == [] and "no such mailbox" in p.stderr(), p.stderr()


atexit.register(Pair.part)
if __name__ == "__main__":
    net.main()
