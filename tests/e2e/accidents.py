# SPDX-License-Identifier: BSD-3-Clause
"""Two NICs on a link, honest applications that verify all they receive, and what a NIC holds for whom, for the tests of
hostility and death. net.PROGRAM is hostile.c's program."""

import json
import os
import subprocess
import time

import net
import served
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, Space, ip, no_offloads, sanitized, until
from served import House

HOST_MAC = "02:00:00:00:00:02"
HOSTILE = 61003  # a user that is nobody's


def several_users():
    """Root everywhere, not only of a user namespace with one user in it."""
    with open("/proc/self/uid_map") as f:
        return os.geteuid() == 0 and any(int(low) <= HOSTILE < int(low) + int(count)
                                         for low, _, count in (line.split() for line in f))


class Pair(House):
    """NIC `near` here and NIC `far`, in a network namespace of its own behind a veth link (or joined by vhost-user)."""

    def __init__(self, link="veth", far="", near=""):
        super().__init__()
        self.link, self.more = link, {"far": far, "near": near}
        self.space = None
        try:
            os.chmod(self.dir, 0o755)  # hostile users get at the sockets
            if link == "veth":
                self.space = Space()
                self.closing.append(self.space.close)
                ip("link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", str(self.space.pid))
                self.closing.append(lambda: ip("link", "del", "near0", check=False))
                up("near0")
                self.space.do(lambda: up("far0"))
            self.far = self.start("far")
            self.near = self.start("near")
        except BaseException:
            self.__exit__()
            raise

    def start(self, name):
        far = name == "far"
        if self.link == "veth":
            port, vdev = "net_af_packet0", "net_af_packet0,iface=%s0" % name
        elif far:
            port, vdev = "net_vhost0", "net_vhost0,iface=%s,queues=1" % self.path("vhost")
        else:
            port, vdev = "net_virtio_user0", "net_virtio_user0,path=%s,queues=1,queue_size=1024" % self.path("vhost")
        address = (NIC_MAC, NIC4, NIC6) if far else (HOST_MAC, HOST4, HOST6)
        text = "[nic]\nport = %s\nmac = %s\nip = %s/24, %s/64\nsocket-mode = 0666\n%s\n" % (port, *address, self.more[name])
        return self.nic(text, "--name", name, eal=("--vdev", vdev), space=self.space if far else None)

    def traffic(self, one, other, **more):
        """Two honest applications that know each other."""
        return introduce(self.app(one, "traffic", "seed=11", "peer=12", **more),
                         self.app(other, "traffic", "seed=12", "peer=11", "wait=sleep", **more))


def up(name):
    ip("link", "set", name, "addrgenmode", "none")
    ip("link", "set", name, "arp", "off", "up")
    no_offloads(name)


def introduce(one, other):
    for app in (one, other):
        app.info = served.info(app)
    one.say(other.info)
    other.say(one.info)
    return one, other


class At:
    """What an honest application answers."""

    def __init__(self, app, timeout=60):
        app.say("?")
        line = app.line(timeout)
        assert line.startswith("at "), "the honest application says: %r, %s" % (line, app.stderr()[-1000:])
        self.sent, self.received, self.lost, self.restarted, self.region, self.context = (int(w) for w in line.split()[1:])


def goes_on(*apps, messages=10):
    """Data keep coming in both directions, intact (the applications compare all bytes)."""
    before = [At(a) for a in apps]

    def moved():
        now = [At(a) for a in apps]
        return all(n.sent - b.sent >= messages and n.received - b.received >= messages for n, b in zip(now, before))
    until("%d more messages each way" % messages, moved, 60)


def ends_well(*apps):
    """What was underway goes with the QP. How many messages were lost."""
    for app in apps:
        app.process.stdin.close()
    lost = 0
    for app in apps:
        app.process.stdin = None
        line = app.line()
        assert line.startswith("ok "), line + app.stderr()
        lost += int(line.split()[3])
        app.end()
    return lost


def stat(house, nic):
    run = subprocess.run([net.SPINDLE, "stat", "--json", nic.socket], env=house.environment(), capture_output=True, timeout=60)
    err = run.stderr.decode(errors="replace")
    assert run.returncode == 0 and "Sanitizer" not in err, "stat: status %d, %s" % (run.returncode, err)
    return json.loads(run.stdout)


def unspoilt(house, *nics):
    """No packet came with bytes that are not those its sender has summed up: nobody has written to a buffer in use."""
    for nic in nics:
        assert "bad-icrc" not in stat(house, nic)["drops"], stat(house, nic)["drops"]


def maps(pid):
    with open("/proc/%d/maps" % pid) as f:
        return f.read().splitlines()


def memory(pid):
    """kB of its memory that nobody else's is: anonymous, and shared."""
    with open("/proc/%d/status" % pid) as f:
        words = dict(line.split(":", 1) for line in f)
    return {k: int(words[k].split()[0]) for k in ("RssAnon", "RssShmem")}


def alone(house, nic, *apps):
    """Waits until these are all that the NIC serves."""
    pids = sorted(a.pid for a in apps)
    until("only %s are there" % pids, lambda: sorted(a["pid"] for a in stat(house, nic)["applications"]) == pids)


class Holdings:
    """What a NIC holds: by what it says, and by what the kernel says of it."""

    def __init__(self, house, nic):
        s = stat(house, nic)
        lines = maps(nic.pid)
        self.said = {"contexts": sorted(s["contexts"]), "memory_used": s["memory_used"],
                     "applications": sorted((a["pid"], a["memory"], a["contexts"], a["qps"], a["messages"])
                                            for a in s["applications"])}
        self.descriptors = len(os.listdir("/proc/%d/fd" % nic.pid))
        shared = [line.split()[0].split("-") for line in lines if "/memfd:spindle" in line]
        self.shared = sum(int(b, 16) - int(a, 16) for a, b in shared), len(shared)
        self.maps = len(lines)

    def within(self, other):
        """No more than the other. Less is fine: what applications that went before had is freed a moment later."""
        return (self.said == other.said and self.descriptors <= other.descriptors and
                all(a <= b for a, b in zip(self.shared, other.shared)) and
                (sanitized() or self.maps <= other.maps + 16))  # threads' stacks and heaps

    def __str__(self):
        return "%s, %d descriptors, %d shared bytes in %d mappings, %d mappings in all" % (
            self.said, self.descriptors, *self.shared, self.maps)


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as f:
                    if f.read().rsplit(")", 1)[1].split()[1] == str(pid):
                        found.append(int(name))
            except OSError:
                pass
    return found


def nothing_left(house, nic, before):
    """The NIC holds what it held before, no more."""
    end = time.monotonic() + 60
    while True:
        now = Holdings(house, nic)
        if now.within(before):
            break
        assert time.monotonic() < end, "the NIC held %s\nand now %s" % (before, now)
        time.sleep(0.05)
    assert nic.process.poll() is None and "Sanitizer" not in nic.stderr() and "runtime error" not in nic.stderr(), nic.stderr()
