# SPDX-License-Identifier: BSD-3-Clause
"""A pseudo terminal for the tests of live tables: what has been drawn on it, and its keys."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import net


class Terminal:
    """spindle stat, or another table, on a pseudo terminal of this size."""

    def __init__(self, house, columns, rows, *arguments, command="stat"):
        self.near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("=HHHH", rows, columns, 0, 0))

        def prepare():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            net.die_with_parent()
            for number in (signal.SIGINT, signal.SIGQUIT):  # a shell's background jobs ignore them, and so would we
                signal.signal(number, signal.SIG_DFL)
        self.process = subprocess.Popen([net.SPINDLE, command, *arguments], stdin=far, stdout=far, stderr=subprocess.PIPE,
                                        env=house.environment(), preexec_fn=prepare)
        os.close(far)
        self.out = b""
        house.closing.append(lambda: (self.process.kill(), self.process.wait(), self.process.stderr.close(), os.close(self.near)))

    def read(self, seconds):
        end = time.monotonic() + seconds
        while select.select([self.near], [], [], max(0, end - time.monotonic()))[0]:
            try:
                data = os.read(self.near, 65536)
            except OSError:
                return
            self.out += data
            return

    def drawn(self, count):
        end = time.monotonic() + 60
        while self.out.count(b"\033[J") < count:
            assert time.monotonic() < end and self.process.poll() is None, "%d tables: %r" % (self.out.count(b"\033[J"), self.out[-500:])
            self.read(1)

    def end(self):
        end = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < end, "it goes on"
            self.read(0.1)
        return self.process.returncode, self.process.stderr.read().decode()


def tables(out):
    """What has been drawn, as lines without what steers the terminal."""
    text = re.sub(rb"\033\[\d*[A-I]|\033\[2?[KH]|\r", b"", out).decode()
    return [table.split("\n") for table in text.split("\033[J")[:-1]]


def keys_are_ours(terminal):
    """Single keys, unseen; signals stay."""
    local = termios.tcgetattr(terminal.near)[3]
    assert local & termios.ISIG
    return not local & (termios.ICANON | termios.ECHO)
