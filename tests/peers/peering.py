# SPDX-License-Identifier: BSD-3-Clause
"""The guest and the NIC that all rules of peers.py share, what they measure, and how much time there is for them."""

import contextlib
import functools
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import net  # noqa: E402
from guest import TAP, Guest, Hung, build  # noqa: E402
from net import NIC4, NIC6, NIC_MAC, Skip, Space  # noqa: E402
from served import House, Process  # noqa: E402

# Counters of Soft-RoCE's that mean that something came twice, late or not at all.
TROUBLE = ("completer_retry_err", "retry_rnr_exceeded_err", "retry_exceeded_err", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
           "ack_deferred", "duplicate_request")

ACK = 1.07  # seconds, of which most ends here wait for an acknowledgement: an emulated machine stands still for shorter
SHORT_ACK = 0.067  # ibv_*_pingpong, and those who connect by our librdmacm


def make(directory):
    """The guest's files, or why there will be no guest: no rule needs to try again."""
    Bench.directory = directory
    try:
        build(directory)
    except Exception as why:
        Bench.failure = Skip("no guest: %s" % (str(why).strip() or repr(why)).splitlines()[-1])


def within(function, began):
    """A rule that is skipped if it would begin after SPINDLE_PEERS_SECONDS."""
    @functools.wraps(function)
    def timed():
        seconds = float(os.environ.get("SPINDLE_PEERS_SECONDS") or "inf")
        if time.monotonic() - began > seconds:
            raise Skip("the time for peers (%g s) is used up" % seconds)
        function()
    return timed


class Bench:
    """One guest, and one NIC, for all rules: on the same tap, or with a bad link between them. What the NIC does not take
    is the kernel's, in a namespace that has the NIC's address: from there our programs reach the guest by TCP."""

    guest = house = nic = kernel = failure = directory = None
    bad = is_bad = False  # what the link is to be, and is

    @classmethod
    def machine(cls):
        if cls.failure:
            raise cls.failure
        if not cls.guest or cls.guest.process.poll() is not None:
            again = cls.guest
            cls.end()
            try:
                cls.guest = Guest(cls.directory)
            except (Skip, AssertionError) as error:
                cls.failure = Skip("no guest: %s" % str(error).splitlines()[0])  # no other rule waits for it again
                raise error if again else cls.failure
            print("# guest: Linux %s, up after %.1f s" % (cls.guest.kernel, cls.guest.boot), flush=True)
        cls.guest.calm()
        return cls.guest

    @classmethod
    def both(cls):
        """The guest, and a house whose .peer_nic is a NIC on its tap."""
        guest = cls.machine()
        if cls.house and (cls.bad != cls.is_bad or not cls.nic or cls.nic.process.poll() is not None):
            cls.leave()
        if not cls.house:
            cls.house, cls.is_bad = House(), cls.bad
            port, space = cls.worse(cls.house) if cls.bad else (TAP, None)
            cls.kernel = Space()
            cls.house.closing.append(cls.kernel.close)
            text = ("[nic]\nport = net_af_packet0\nip = %s/24, %s/64\nmac = %s\nexception = tap:tap0\n"
                    "exception-address = yes\nexception-netns = /proc/%d/ns/net\n" % (NIC4, NIC6, NIC_MAC, cls.kernel.pid))
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
    def state(cls):
        """What both ends say of their QPs: for a rule that has waited too long."""
        guest = cls.guest.run("rdma -d -d resource show qp; cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep -v '^0$' *", status=None)
        stat = subprocess.run([net.SPINDLE, "stat", "--json", "--handlers", "peer"], env=cls.house.environment(), capture_output=True, text=True,
                              timeout=60)
        return "Linux: %s\nthe NIC: %s" % (guest, re.sub(r'"[^"]*":0,|"', "", stat.stdout or stat.stderr)[:6000])

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


def once_more(function, *arguments, **named):
    """Calls it; a second time if Linux's end hung, though ours has done its part. A fault of ours would hang it again."""
    try:
        function(*arguments, **named)
    except Hung as error:
        print("# once more: " + "\n#   ".join(line for line in str(error).splitlines() if line), flush=True)
        Bench.guest.calm()
        function(*arguments, **named)


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
        self.guest, self.name, self.size, self.ours, self.also = guest, name, size, None, ""

    def __enter__(self):
        self.before = self.guest.counters()
        self.began = time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind:
            return
        self.seconds = seconds = time.monotonic() - self.began
        after = self.guest.counters()
        trouble = {k: after[k] - self.before.get(k, 0) for k in TROUBLE if after.get(k, 0) != self.before.get(k, 0)}
        self.retries = trouble.get("completer_retry_err", 0)
        print("# %s: bytes %d, seconds %.2f, retries %d%s%s" % (
            self.name, self.size, seconds, self.retries, "" if self.ours is None else ", ours %d" % self.ours,
            "".join("; %s %d" % pair for pair in sorted(trouble.items())) + (self.also and "; " + self.also)),
            flush=True)


    def calm(self, timeout=ACK):
        """Nothing needs to be sent again on a link that loses nothing. But Soft-RoCE's clock, once started, is not always set
        anew by an answer: once a timeout it may end too early."""
        assert Bench.is_bad or self.retries <= self.seconds / timeout, "%d retries" % self.retries


def listening(guest, port, who="netstat -tln"):
    """Until a TCP port is open in the guest: what exchanges QP numbers there."""
    guest.run("for i in $(seq 600); do %s | grep -q ':%d ' && exit 0; sleep 0.05; done; exit 1" % (who, port), 60)


def waiting(guest, port):
    """Until an id of the connection manager listens in the guest."""
    listening(guest, port, "rdma resource show cm_id | grep LISTEN")


def peer(house, *words):
    """peer.c on the NIC."""
    process = Process([net.PROGRAM, "peer", *(str(w) for w in words)], env=house.environment())
    house.closing.append(process.kill)
    return process


def ended(process, timeout=90):
    """Retries that peer.c has counted."""
    process.said = out = process.end(timeout=timeout)
    match = re.fullmatch(r"ok \d+ [0-9.]+ (\d+)", out[-1] if out else "")
    assert match, "%r, %s" % (out, process.stderr())
    return int(match.group(1))


class Answering(Process):
    """peer.c's `answer`."""

    def ask(self, *words):
        self.say(" ".join(str(w) for w in words))
        line = self.line(30)
        assert line, "no answer to %r: %s" % (words[:2], self.stderr())
        return line
