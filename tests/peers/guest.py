# SPDX-License-Identifier: BSD-3-Clause
"""A Linux with Soft-RoCE in an emulated machine, at the other end of a tap, and commands in it."""

import base64
import os
import select
import shutil
import socket
import subprocess
import time

import net
from net import HOST4, HOST6, Skip, ip

TAP = "guest0"
MAC = "02:00:00:00:00:02"


def build(directory):
    """The guest's kernel and initramfs in this directory. Not from a namespace without a way to Debian's packages."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest.sh")
    run = subprocess.run([script, directory], stderr=subprocess.PIPE, text=True, timeout=300)
    if run.returncode == 77:
        raise Skip(run.stderr.strip().splitlines()[-1])
    assert run.returncode == 0, run.stderr


class Hung(AssertionError):
    """A command in the guest does not end. Soft-RoCE of Linux 6.1 sometimes forgets a completion."""


class Command:
    """One that runs in the guest. status is None until it has ended."""

    def __init__(self, guest, number, text):
        self.guest, self.number, self.text = guest, number, text
        self.status = self.output = None

    def end(self, timeout=60, status=0, explain=None):
        """Its output once it has ended; it is killed after this time. explain: what to say of it then, beside its output."""
        if not self.guest.until(lambda: self.status is not None, timeout):
            more = explain() if explain else ""
            self.kill()
            raise Hung("in the guest, not ended after %d s: %s\n%s\n%s" % (timeout, self.text, self.output, more))
        assert status is None or self.status == status, "in the guest, status %d: %s\n%s" % (self.status, self.text, self.output)
        return self.output

    def kill(self):
        for _ in range(20):  # one that comes before the command has begun kills nothing
            if self.status is not None:
                return
            self.guest.say("kill", self.number)
            self.guest.until(lambda: self.status is not None, 1)
        assert self.status is not None, "the guest does not kill: " + self.text


class Guest:
    """The tap is in the namespace of the caller. The kernel there keeps off it: who talks to the guest does it by packet
    sockets, as the NIC's af_packet port does. mtu: of the guest's card; both of its addresses are net.HOST4 and HOST6.
    link: QEMU's -netdev with id n0, and more arguments, in the place of the tap; ip4, ip6, mac, log: so that it is not the only
    guest."""

    def __init__(self, directory, mtu=1500, memory=768, link=(), ip4=HOST4, ip6=HOST6, mac=MAC, log="console.log"):
        self.closing, self.commands, self.buffer, self.number = [], {}, b"", 0
        qemu = shutil.which("qemu-system-x86_64")
        if not qemu:
            raise Skip("qemu-system-x86_64 is not installed")
        self.log = os.path.join(directory, log)
        try:
            link = list(link) or self.tap(mtu)
            self.socket, theirs = socket.socketpair()
            self.closing.append(self.socket.close)
            # The card leaves no checksum and no segmentation to a device, which the tap is not.
            self.process = subprocess.Popen(
                [qemu, "-accel", "tcg", "-machine", "q35", "-cpu", "max", "-m", str(memory), "-smp", "1", "-display", "none",
                 "-nodefaults", "-no-reboot", "-kernel", os.path.join(directory, "vmlinuz"), "-initrd",
                 os.path.join(directory, "initrd"), "-append", "console=ttyS0 quiet panic=-1 mitigations=off peer.mtu=%d "
                 "peer.ip4=%s/24 peer.ip6=%s/64" % (mtu, ip4, ip6), "-serial", "file:" + self.log,
                 "-chardev", "socket,id=commands,fd=%d" % theirs.fileno(), "-device", "virtio-serial-pci", "-device",
                 "virtserialport,chardev=commands",
                 *link, "-device", "virtio-net-pci,netdev=n0,mac=" + mac +
                 ",romfile=,host_mtu=%d,csum=off,guest_csum=off,gso=off,guest_tso4=off,host_tso4=off,guest_tso6=off,host_tso6=off" % mtu],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[theirs.fileno()],
                preexec_fn=net.die_with_parent)
            theirs.close()
            self.closing.append(self.stop)
            self.kernel = None
            began = time.monotonic()
            up = self.until(lambda: self.kernel, 180)
            assert up, "the guest does not start: %s" % self.said()
            self.boot = time.monotonic() - began
        except BaseException:
            self.close()
            raise

    def tap(self, mtu):
        net.need_tap()
        ip("tuntap", "add", "dev", TAP, "mode", "tap")
        self.closing.append(lambda: ip("link", "del", TAP, check=False))
        ip("link", "set", TAP, "mtu", str(mtu), "addrgenmode", "none")
        ip("link", "set", TAP, "arp", "off", "up")
        return ["-netdev", "tap,id=n0,ifname=%s,script=no,downscript=no" % TAP]

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()[-3000:]

    def say(self, *words):
        self.socket.sendall((" ".join(str(w) for w in words) + "\n").encode())

    def until(self, condition, timeout):
        """Reads what the guest says until this holds. False: it does not in that time."""
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.socket], [], [], min(left, 1))[0]:
                data = self.socket.recv(65536)
                assert data, "the guest has ended: %s %s" % (self.said(), self.process.stderr.read().decode()[-1000:])
                self.buffer += data
            *lines, self.buffer = self.buffer.split(b"\n")
            for line in lines:
                self.heard(line.decode(errors="replace").split(" "))
        return True

    def heard(self, words):
        if words[0] == "ready":
            self.kernel = words[1]
        elif words[0] == "done":
            command = self.commands.pop(int(words[1]))
            command.output = base64.b64decode(words[3]).decode(errors="replace")
            command.status = int(words[2])

    def start(self, text):
        self.number += 1
        command = self.commands[self.number] = Command(self, self.number, text)
        self.say("start", self.number, base64.b64encode(text.encode()).decode())
        return command

    def run(self, text, timeout=60, status=0):
        """The command's output; status None: whatever it is."""
        return self.start(text).end(timeout, status)

    def counters(self):
        """What Soft-RoCE has counted: name -> number."""
        out = self.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *")
        return {k: int(v) for k, v in (line.split(":") for line in out.split())}

    def gid(self, address):
        """The index of the GID that stands for this address."""
        want = "::ffff:" + address if ":" not in address else address
        want = socket.inet_pton(socket.AF_INET6, want).hex()
        out = self.run("cd /sys/class/infiniband/rxe0/ports/1/gids && for i in 0 1 2 3 4 5 6 7; do echo $i $(cat $i); done")
        for line in out.splitlines():
            if line.split()[-1].replace(":", "") == want:
                return int(line.split()[0])
        raise AssertionError("no GID for %s: %s" % (address, out))

    def calm(self):
        """Ends what rules have left running."""
        for command in list(self.commands.values()):
            command.kill()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def close(self):
        while self.closing:
            self.closing.pop()()
