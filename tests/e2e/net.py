# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces, links and NICs for the whole-system tests, reported in TAP.

The namespaces have no name: they live as long as a process of ours holds them, so that nothing is left behind however
the tests end, SIGKILL included (named ones under /run/netns would be). All children die with their parent. The script
itself moves into a namespace of its own, so no packet of these tests can leave the machine.
"""

import atexit
import ctypes
import fcntl
import json
import os
import queue
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import packets as pk  # noqa: E402

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)

# The NIC's addresses and the kernel's, on the two ends of a link.
NIC4, NIC6, NIC_MAC = "192.0.2.1", "2001:db8::1", "02:00:00:00:00:01"
HOST4, HOST6 = "192.0.2.2", "2001:db8::2"
TAP4, TAP6 = "192.0.2.9", "2001:db8::9"
# EAL arguments of every NIC here: nothing but the ports named, memory without huge pages.
EAL = ["--no-pci", "--no-huge", "--no-shconf", "-m", "512"]


class Skip(Exception):
    """Raised by a rule that cannot be checked here; says why."""


def call(what, result):
    if result != 0:
        raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def ip(*arguments, check=True):
    run = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=60)
    assert not check or run.returncode == 0, "ip %s: %s" % (" ".join(arguments), run.stderr.strip())
    return run.stdout


def enter():
    """Into a network namespace of our own; without root, into a user namespace that may make them."""
    try:
        if os.geteuid() == 0:
            call("unshare", libc.unshare(CLONE_NEWNET))
        else:
            uid, gid = os.geteuid(), os.getegid()
            call("unshare", libc.unshare(CLONE_NEWUSER | CLONE_NEWNET))
            for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
                with open("/proc/self/" + name, "w") as f:
                    f.write(text)
        ip("link", "set", "lo", "up")
        ip("link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
        ip("link", "del", "probe0")
    except (OSError, AssertionError, FileNotFoundError) as error:
        raise Skip("no network namespace with links can be made here: %s" % error)


class Space:
    """A network namespace beside our own."""

    def __init__(self):
        ready, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            die_with_parent()
            status = libc.unshare(CLONE_NEWNET)
            os.write(tell, b"0" if status == 0 else b"1")
            while True:
                signal.pause()
        os.close(tell)
        ok = os.read(ready, 1)
        os.close(ready)
        self.fd = os.open("/proc/%d/ns/net" % self.pid, os.O_RDONLY)
        assert ok == b"0", "no second network namespace"
        self.own = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.do(lambda: ip("link", "set", "lo", "up"))

    def enter(self):
        call("setns", libc.setns(self.fd, CLONE_NEWNET))

    def do(self, function):
        """Calls it inside; sockets that it makes stay there."""
        self.enter()
        try:
            return function()
        finally:
            call("setns", libc.setns(self.own, CLONE_NEWNET))

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        os.close(self.own)


def no_offloads(name):
    """Frames as they are on a real wire: a veth otherwise carries checksums that nobody has computed, and giant segments."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in (0x17, 0x15, 0x19, 0x1F, 0x24, 0x2C):  # ETHTOOL_STXCSUM, SRXCSUM, SSG, STSO, SGSO, SGRO
            value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
            request = struct.pack("=16sQ16x", name.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(s, 0x8946, request)  # SIOCETHTOOL
            except OSError:
                if command == 0x17:
                    raise


def leave_checksums(name, on):
    """Whether the kernel leaves UDP's and TCP's checksums to this interface: `ethtool -K NAME tx on`."""
    value = ctypes.create_string_buffer(struct.pack("=II", 0x17, on))  # ETHTOOL_STXCSUM
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8946, struct.pack("=16sQ16x", name.encode(), ctypes.addressof(value)))


class World:
    """A veth link: `host0` here, with the kernel's addresses, and `nic0`, bare, in a namespace where the NIC is."""

    def __init__(self, addresses=True, mtu=1500):
        self.dir = tempfile.mkdtemp(prefix="spindle-e2e-")
        self.closing = [lambda: shutil.rmtree(self.dir, ignore_errors=True)]
        self.space = Space()
        self.closing.append(self.space.close)
        ip("link", "add", "host0", "mtu", str(mtu), "type", "veth", "peer", "name", "nic0", "mtu", str(mtu), "netns",
           str(self.space.pid))
        self.closing.append(lambda: ip("link", "del", "host0", check=False))
        ip("link", "set", "host0", "addrgenmode", "none")
        no_offloads("host0")
        # The kernel keeps off the NIC's end: no addresses of its own making, no answers to ARP from there.
        self.space.do(lambda: (ip("link", "set", "nic0", "addrgenmode", "none"), ip("link", "set", "nic0", "arp", "off", "up"),
                               no_offloads("nic0")))
        ip("link", "set", "host0", "up")
        if addresses:
            ip("addr", "add", HOST4 + "/24", "dev", "host0")
            ip("addr", "add", HOST6 + "/64", "dev", "host0", "nodad")
            ip("addr", "add", "fe80::2/64", "dev", "host0", "nodad")  # the kernel probes neighbours from there

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.closing:
            self.closing.pop()()

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def nic(self, *configs, eal=("--vdev", "net_af_packet0,iface=nic0"), space="nic", expect=0):
        """Starts the test program with these configurations (texts), one NIC each."""
        space = self.space if space == "nic" else space
        arguments = []
        for text in configs:
            number = len([n for n in os.listdir(self.dir) if n.endswith(".ini")])
            arguments += ["-c", self.write("%d.ini" % number, text)]
        nic = Nic(arguments + ["--", *EAL, *eal], space, self.dir, expect)
        self.closing.append(nic.kill)
        return nic


def config(port="net_af_packet0", more="", mac=NIC_MAC, ip4=NIC4, ip6=NIC6):
    return "[nic]\nport = %s\nip = %s/24, %s/64\nmac = %s\n%s\n" % (port, ip4, ip6, mac, more)


def need_tap():
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("no /dev/net/tun")


def environment(directory):
    return dict(os.environ, RUNTIME_DIRECTORY=directory)  # EAL's files go there, not to /var/run


class Nic:
    """tests/e2e/nic.c: one command a line, one answer a line."""

    def __init__(self, arguments, space, directory, expect):
        self.errors = open(os.path.join(directory, "stderr-%d" % time.monotonic_ns()), "w+b")

        def before():
            die_with_parent()
            if space:
                space.enter()
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, preexec_fn=before, env=environment(directory))
        self.buffer = b""
        self.number = 0
        if expect == 0:
            self.answer(60)

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def answer(self, timeout=60):
        """The answer's words behind "ok"."""
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.process.stdout], [], [], left)[0], "no answer within %d s\n%s" % (
                timeout, self.stderr()[-2000:])
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "the NIC's process ended, status %s: %s" % (self.process.wait(20), self.stderr()[-3000:])
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        words = line.decode().split(" ")
        assert words[0] == "ok", "the NIC said: %s\n%s" % (line.decode(), self.stderr()[-1000:])
        return words[1:]

    def say(self, *words):
        self.process.stdin.write((" ".join(str(w) for w in words) + "\n").encode())
        self.process.stdin.flush()

    def ask(self, *words, timeout=60):
        self.say(*words)
        return self.answer(timeout)

    def stop(self):
        """Ends it in order. Its reports, one a NIC, whose sums agree: every packet received ended in exactly one place."""
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, "exit status %s: %s" % (self.process.returncode, self.stderr()[-3000:])
        assert "Sanitizer" not in self.stderr() and "runtime error" not in self.stderr(), self.stderr()[-3000:]
        reports = json.loads(self.buffer + out)
        for r in reports:
            dropped = sum(n for name, n in r["drops"].items() if not name.startswith("tx-"))
            assert r["packets"] == r["taken"] + r["forwarded"] + dropped, "received %d, taken %d + forwarded %d + dropped %d" % (
                r["packets"], r["taken"], r["forwarded"], dropped)
        return reports[0] if len(reports) == 1 else reports

    def refuse(self):
        """It does not start: exit status 1, and why."""
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 1, "exit status %s, %r, %s" % (self.process.returncode, out, self.stderr()[-2000:])
        return self.stderr()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for f in (self.process.stdin, self.process.stdout, self.errors):
            try:
                f.close()
            except OSError:
                pass


class Sniffer:
    """All frames that pass an interface, by a packet socket of the kernel's."""

    def __init__(self, interface):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        for option in (33, socket.SO_RCVBUF):  # SO_RCVBUFFORCE; in a user namespace what is allowed must do
            try:
                self.socket.setsockopt(socket.SOL_SOCKET, option, 64 << 20)
                break
            except PermissionError:
                pass
        self.socket.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA: the VLAN tag that the kernel takes out
        self.socket.bind((interface, 3))   # ETH_P_ALL
        self.frames = queue.SimpleQueue()
        self.ending = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            if not select.select([self.socket], [], [], 0.05)[0]:
                if self.ending:
                    return
                continue
            try:
                frame, extra, _, _ = self.socket.recvmsg(65536, 256)
            except OSError:  # the interface is gone: a rule failed before stop()
                return
            for level, kind, data in extra:
                if (level, kind) == (263, 8):
                    status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
                    if status & 0x10:  # TP_STATUS_VLAN_VALID
                        frame = frame[:12] + struct.pack(">HH", tpid if status & 0x40 else 0x8100, tci) + frame[12:]
            self.frames.put(frame)

    def send(self, frame):
        self.socket.send(frame)

    def wait(self, wanted, timeout=60):
        """The first frame for which wanted(frame) is true."""
        end = time.monotonic() + timeout
        while True:
            try:
                frame = self.frames.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError("no such frame within %d s" % timeout)
            if wanted(frame):
                return frame

    def stop(self):
        """All frames not taken by wait()."""
        self.ending = True
        self.thread.join()
        _, lost = struct.unpack("=II", self.socket.getsockopt(263, 6, 8))  # PACKET_STATISTICS
        self.socket.close()
        assert lost == 0, "the capture lost %d frames" % lost
        frames = []
        while not self.frames.empty():
            frames.append(self.frames.get())
        return frames


def tshark(capture, display, *names):
    """A tuple of these fields for each packet that the display filter takes. All checksums are verified."""
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    arguments = []
    for protocol in ("ip", "udp", "tcp"):
        arguments += ["-o", protocol + ".check_checksum:TRUE"]
    arguments += ["-o", "udp.ignore_ipv6_zero_checksum:TRUE"]  # RoCEv2 has none, also over IPv6 (RFC 6935)
    for name in names:
        arguments += ["-e", name]
    run = subprocess.run(["tshark", "-n", "-r", capture, "-Y", display, "-T", "fields", *arguments], capture_output=True,
                         text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return [tuple(line.split("\t")) for line in run.stdout.splitlines()]


def until(what, condition, timeout=60):
    """The limit is for what never comes: a machine with much else to do must not reach it."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "not within %d s: %s" % (timeout, what)
        time.sleep(0.02)


RULES = []
PROGRAM = SPINDLE = None
SANITIZED = None


def sanitized():
    """Built with AddressSanitizer? Its own mappings come and go, and everything takes several times as long."""
    global SANITIZED
    if SANITIZED is None:
        with open(PROGRAM, "rb") as f:
            SANITIZED = b"__asan_init" in f.read()
    return SANITIZED


def rule(function):
    RULES.append(function)
    return function


def plain(function):
    """A rule that is not for where sanitizers look on: what it goes through others do as well, or it looks at programs that
    are not ours."""
    function.plain = True
    return function


def main():
    """argv: the test program (nic.c), the command `spindle`, part of a rule's name (optional)."""
    global PROGRAM, SPINDLE
    if len(sys.argv) < 3:
        sys.exit("usage: %s PATH-OF-NIC PATH-OF-SPINDLE [RULE-PART]" % sys.argv[0])
    PROGRAM, SPINDLE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is open is closed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children must not find it ignored, as what runs in the background does
    atexit.register(sys.stdout.flush)
    chosen = [r for r in RULES if (len(sys.argv) < 4 or sys.argv[3] in r.__name__) and not (hasattr(r, "plain") and sanitized())]
    print("1..%d" % len(chosen), flush=True)
    why = None
    try:
        enter()
    except Skip as skip:
        why = skip
    failed = 0
    for number, function in enumerate(chosen, 1):
        name = function.__name__
        try:
            if why:
                raise why
            function()
            print("ok %d - %s" % (number, name), flush=True)
        except Skip as skip:
            print("ok %d - %s # SKIP %s" % (number, name, skip), flush=True)
        except Exception as error:
            failed += 1
            for line in (str(error) or repr(error)).splitlines() + traceback.format_exc().splitlines()[-9:]:
                print("# " + line)
            print("not ok %d - %s" % (number, name), flush=True)
    sys.exit(1 if failed else 0)
