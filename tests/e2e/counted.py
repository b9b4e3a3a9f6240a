# SPDX-License-Identifier: BSD-3-Clause
"""`spindle stat` for the tests of what it says: asked once, on links that come to rest, of NICs that are none."""

import fcntl
import json
import os
import socket
import struct
import subprocess
import threading
import time

import net
from net import HOST4, NIC4, config, ip

NULL = "[nic]\nport = net_null0\nip = 192.0.2.1/24\n"
ECHO = "[context echo]\nhandler = reflect\nfilter = udp port 7777\n"


def stat(house, *arguments, status=0, **more):
    """Its standard output as lines, and what it said on standard error."""
    run = subprocess.run([net.SPINDLE, "stat", *arguments], env=house.environment(), capture_output=True, timeout=60, **more)
    err = run.stderr.decode(errors="replace")
    assert run.returncode == status, "exit status %d, not %d: %s" % (run.returncode, status, err[-2000:])
    assert "Sanitizer" not in err and "runtime error" not in err, err[-3000:]
    return run.stdout.decode().splitlines(), err


def sample(house, *arguments):
    lines, _ = stat(house, *arguments, "--json")
    assert len(lines) == 1, lines
    return json.loads(lines[0])


def adds_up(o):
    return o["packets"] == o["taken"] + o["forwarded"] + o["dropped"] + o["parked"]


def linked(house, world, name, more="", context=ECHO, queues=1):
    return house.nic(config(more=more) + context, "--name", name, eal=("--vdev", "net_af_packet0,iface=nic0,qpairs=%d" % queues),
                     space=world.space)


def sent_by_kernel():
    """Packets and bytes that host0 has sent and received."""
    stats = json.loads(ip("-j", "-s", "link", "show", "host0"))[0]["stats64"]
    return [stats[way][what] for way in ("tx", "rx") for what in ("packets", "bytes")]


def quiet(house, name):
    """The kernel's counters and the NIC's, at a moment when nothing passes: neither changes over it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        before, first = sent_by_kernel(), sample(house, name)
        time.sleep(0.1)
        second, after = sample(house, name), sent_by_kernel()
        if before == after and all(first[k] == second[k] for k in ("packets", "bytes", "sent", "taken", "dropped")):
            return after, second
    raise AssertionError("the link does not come to rest")


def ask_echo(count, size=100):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        s.bind((HOST4, 0))
        for i in range(count):
            data = struct.pack(">I", i) * (size // 4)
            s.sendto(data, (NIC4, 7777))
            assert s.recv(65536) == data


class Fake:
    """A socket where each request for a report is answered with this text; bytes: how many it claims there are; then: the
    text from the second request on."""

    def __init__(self, house, text, size=None, seals=0x2 | 0x4, fds=1, status=0, then=None, name="fake"):
        self.path = house.path(name)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen(8)
        self.then = Fake(house, then, name=name + "-then") if then else None
        self.reply = struct.pack("=IHHiIQQQQ", 0x444E4953, 4, 7, status, 0, len(text) if size is None else size, 0, 0, 0)
        self.there = socket.socket()  # the connection there is, one at a time
        self.fds = []
        for _ in range(fds):
            fd = os.memfd_create("fake", 2)  # MFD_ALLOW_SEALING
            os.write(fd, text)
            if seals:
                fcntl.fcntl(fd, 1033, seals)  # F_ADD_SEALS
            self.fds.append(fd)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                s, _ = self.socket.accept()
                self.there = s
                with s:
                    while s.recv(65536):
                        if self.fds:
                            socket.send_fds(s, [self.reply], self.fds)
                        else:
                            s.send(self.reply)
                        if self.then and self.reply is not self.then.reply:
                            for fd in self.fds:
                                os.close(fd)
                            self.reply, self.fds = self.then.reply, self.then.fds
        except OSError:
            pass

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        try:
            self.there.shutdown(socket.SHUT_RDWR)  # who is attached sees that the NIC has gone
        except OSError:
            pass
        self.socket.close()
        if self.then:
            self.then.socket.shutdown(socket.SHUT_RDWR)
            self.then.socket.close()
        for fd in self.fds:
            os.close(fd)
