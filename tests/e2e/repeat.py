#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The example of a reliability scheme, built against what `meson install` installs and pkg-config tells, moves files between
two running NICs with `spindle wire` between them, which loses. Arguments: net.py's, and the build directory."""

import glob
import hashlib
import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import Skip, ip, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(3))


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **more)
    assert done.returncode == 0, "%s: %s" % (shlex.join(words), done.stdout[-3000:])
    return done.stdout


def connected(port):
    with open("/proc/self/net/tcp") as f:
        return any(line.split()[1].endswith(":%04X" % port) and line.split()[3] == "01" for line in f)


class Bench(House):
    """NIC left - veth - wire - veth - NIC right, all in this namespace, and `repeat` built beside them."""

    def __init__(self, *impairments):
        super().__init__()
        try:
            self.build()
            self.join(*impairments)
        except BaseException:
            self.__exit__()
            raise

    def build(self):
        if net.sanitized():
            raise Skip("what is built with sanitizers is not meant to be installed")
        for tool in ("cc", "pkg-config", "meson"):
            if not shutil.which(tool):
                raise Skip(tool + " is not installed")
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", self.path("root"))
        (header,) = glob.glob(self.path("root") + "/**/examples/repeat.h", recursive=True)
        (packages,) = glob.glob(self.path("root") + "/**/libspindle.pc", recursive=True)
        os.mkdir(self.path("source"))  # it is copied, as its readers will do
        for name in ("repeat.h", "repeat.c", "repeat-file.c"):
            shutil.copy(os.path.join(os.path.dirname(header), name), self.path("source"))
        env = dict(os.environ, PKG_CONFIG_LIBDIR=os.path.dirname(packages))  # nothing else is in reach, DPDK neither
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "libspindle", env=env))
        assert any(self.path("root") in flag for flag in flags) and not any("dpdk" in flag for flag in flags), flags
        self.libraries = os.path.dirname(os.path.dirname(packages))
        run("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", self.path("repeat"), "repeat.c", "repeat-file.c", *flags,
            cwd=self.path("source"))

    def join(self, *impairments):
        # Numbers so far apart that no two of three processes make the same of theirs and the interface's (DPDK's fanout group).
        for side, index in (("left", 0x1000), ("right", 0x2000)):
            ip("link", "add", side + "0", "index", str(index), "type", "veth", "peer", "name", side + "1", "index", str(4 * index))
            self.closing.append(lambda side=side: ip("link", "del", side + "0", check=False))
            for name in (side + "0", side + "1"):
                ip("link", "set", name, "addrgenmode", "none", "arp", "off", "up")
                net.no_offloads(name)
        self.wire = Process([net.SPINDLE, "wire", "af_packet:left1", "af_packet:right1", "--json", *impairments],
                            env=self.environment())
        self.closing.append(self.wire.kill)
        assert "ready" in self.wire.line(), self.wire.stderr()
        for number, side in enumerate(("left", "right"), 1):
            self.nic("[nic]\nname = %s\nport = af_packet:%s0\nip = 192.0.2.%d/24\n" % (side, side, number), eal=())

    def repeat(self, *words):
        process = Process([self.path("repeat"), *words], env=self.environment(LD_LIBRARY_PATH=self.libraries))
        self.closing.append(process.kill)
        return process

    def receiver(self, name):
        """It listens; its process and port."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        process = self.repeat("recv", "right", port, self.path(name))
        assert process.line() == "listening", process.stderr()
        return process, port

    def moved(self, size):
        """The chunks that it took."""
        data = random.Random(size).randbytes(size)
        with open(self.path("source.bin"), "wb") as f:
            f.write(data)
        receiver, port = self.receiver("received.bin")
        sender = self.repeat("send", "left", "127.0.0.1", port, self.path("source.bin"))
        (line,) = sender.end(timeout=150)
        assert re.fullmatch(r"%d bytes, \d+ chunks sent" % size, line), line
        assert receiver.end() == ["%d bytes, 0 chunks sent" % size]
        with open(self.path("received.bin"), "rb") as f:
            assert hashlib.sha256(f.read()).digest() == hashlib.sha256(data).digest()
        return int(line.split()[2])


@rule
def files_arrive_through_a_wire_that_loses_with_the_installed_headers_alone():
    with Bench("--loss", "0.05", "--duplicate", "0.02", "--delay", "2ms", "--jitter", "1ms") as b:
        for size in (4 << 20, (1 << 20) + 1, 1, 0):
            chunks = b.moved(size)
            # A chunk of nine packets seldom comes whole at once.
            assert size < 1 << 20 or chunks > size / 8192 * 1.1, "%d chunks were sent: was nothing lost?" % chunks
        b.wire.signal(2)
        b.wire.end()


@rule
def an_end_that_vanishes_ends_the_other():
    with Bench("--loss", "1") as b:
        for victim in (0, 1):
            receiver, port = b.receiver("received.bin")
            with open(b.path("source.bin"), "wb") as f:
                f.write(bytes(3 << 20))
            ends = receiver, b.repeat("send", "left", "127.0.0.1", port, b.path("source.bin"))
            until("they are connected", lambda: connected(int(port)))
            ends[victim].kill()
            assert ends[not victim].end(1) == []
            assert "the peer hung up" in ends[not victim].stderr(), ends[not victim].stderr()


if __name__ == "__main__":
    net.main()
