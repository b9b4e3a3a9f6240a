# SPDX-License-Identifier: BSD-3-Clause
"""NICs in processes of their own (`spindle run`) and the applications that attach to them (app.c), for the whole-system
tests. net.PROGRAM is app.c's program, net.SPINDLE the command."""

import os
import re
import select
import signal
import subprocess
import tempfile
import time

import net

READY = re.compile(r"^(?P<name>\S+) ready: ip (?P<ip>[^;]+); port (?P<port>[^;]+); mtu (?P<mtu>\d+); workers (?P<workers>\d+); "
                   r"socket (?P<socket>\S+); pid (?P<pid>\d+)$")


class Process:
    """A child that dies with us, whose lines on stdout are read one by one. user: a uid to run it as."""

    def __init__(self, arguments, space=None, user=None, env=None, before=None, **more):
        self.errors = tempfile.TemporaryFile()

        def prepare():
            if space:
                space.enter()
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            net.die_with_parent()  # after setuid, which takes it back
            if before:
                before()
        try:
            self.process = subprocess.Popen(arguments, **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **more},
                                            stderr=self.errors, preexec_fn=prepare, env=env)
        except (PermissionError, subprocess.SubprocessError) as error:
            if user is None:
                raise
            raise net.Skip("cannot run the programs as user %d here: %s" % (user, error))
        self.pid = self.process.pid
        self.buffer = b""

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def line(self, timeout=60):
        """The next line, without its end; "" when there are no more."""
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.process.stdout], [], [], left)[0], "no line within %d s\n%s" % (
                timeout, self.stderr()[-2000:])
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return ""
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def say(self, text):
        self.process.stdin.write((text + "\n").encode())
        self.process.stdin.flush()

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, status=0, timeout=60):
        """Waits for its end, checks the exit status (-N: by signal N). What was left on stdout, as lines."""
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdin = None
        try:
            out, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError("process %d does not end within %d s: %s" % (self.pid, timeout, self.stderr()[-2000:]))
        assert self.process.returncode == status, "exit status %d, not %d: %s\n%s" % (
            self.process.returncode, status, self.stderr()[-3000:], (self.buffer + (out or b"")).decode()[-1000:])
        assert "Sanitizer" not in self.stderr() and "runtime error" not in self.stderr(), self.stderr()[-3000:]
        return (self.buffer + (out or b"")).decode().splitlines()

    def kill(self):
        """However it stands."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for f in (self.process.stdin, self.process.stdout, self.errors):
            if f:
                try:
                    f.close()
                except OSError:
                    pass


class House:
    """A directory for what the processes of a test make, all of which end with it. Sockets are in sockets/, EAL's files in
    dpdk/."""

    def __init__(self):
        self.closing = []
        self.dir = tempfile.mkdtemp(prefix="spindle-e2e-")
        self.count = 0
        if len(self.dir) > 70:
            raise net.Skip("the path of the temporary directory is too long for a socket")
        os.mkdir(self.path("copies"))
        os.chmod(self.path("copies"), 0o1777)  # also for NICs that become another user

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.closing:
            self.closing.pop()()
        subprocess.run(["rm", "-rf", self.dir], check=True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "SPINDLE_NIC")}
        env.update(SPINDLE_SOCKETS=self.path("sockets"), RUNTIME_DIRECTORY=self.dir, TMPDIR=self.path("copies"))
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def nic(self, text, *arguments, eal=("--vdev", "net_null0,no-rx=1"), ready=True, env=None, **more):
        """spindle run with this configuration. ready: waits for the line, whose words are in .ready then."""
        self.count += 1
        path = self.write("nic%d.ini" % self.count, text)
        nic = Process([net.SPINDLE, "run", "-c", path, *arguments, "--", *eal], env=env or self.environment(), **more)
        self.closing.append(nic.kill)
        nic.file = path
        if ready:
            line = nic.line()
            match = READY.match(line)
            assert match, "no ready line: %r, status %s, %s" % (line, nic.process.poll(), nic.stderr()[-3000:])
            nic.ready = match.groupdict()
            nic.socket = nic.ready["socket"]
        return nic

    def app(self, nic, verb, *words, env=None, **more):
        """app.c on a NIC: what nic() has returned, a name or a path."""
        app = Process([net.PROGRAM, getattr(nic, "socket", nic), verb, *words], env=env or self.environment(), **more)
        self.closing.append(app.kill)
        return app

    def left(self):
        """Names of what NICs have left behind: sockets, locks, EAL's directories."""
        names = []
        for directory in ("sockets", "dpdk"):
            if os.path.isdir(self.path(directory)):
                names += [directory + "/" + n for n in os.listdir(self.path(directory))]
        return sorted(names)


def info(app):
    """The 'qp INFO' line of hold, send and recv."""
    line = app.line()
    assert line.startswith("qp ") and len(line) == 3 + 256, "%s, %s" % (line, app.stderr()[-1000:])
    return line[3:]


def transfer(receiver, sender, messages, size):
    """Introduces them to each other and sees them through."""
    ours, theirs = info(receiver), info(sender)
    receiver.say(theirs)
    sender.say(ours)
    said = "ok %d %d" % (messages, messages * size)
    line = receiver.line(120)
    assert line == said, line + receiver.stderr()
    receiver.end()
    sender.say("done")
    line = sender.line()
    assert line == said, line + sender.stderr()
    sender.end()


def signals():
    return signal.SIGINT, signal.SIGTERM, signal.SIGHUP
