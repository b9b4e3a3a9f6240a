# SPDX-License-Identifier: BSD-3-Clause
"""Programs under `spindle verbs` on two NICs, near and far, or both on one."""

import socket

import net
from hosts import Hosts
from net import HOST4, NIC4
from served import Process

ADDRESS = {"far": NIC4, "near": HOST4}
PAIRS = ({}, {"client": "far"})  # between two NICs, and on one


class Pair:
    """The NICs are shared by the rules. A rule that fails takes them along."""

    hosts = None

    @classmethod
    def part(cls):
        if Pair.hosts:
            Pair.hosts, h = None, Pair.hosts
            h.__exit__()

    def __init__(self, server="far", client="near"):
        if not Pair.hosts:
            Pair.hosts = Hosts(link="vhost")
        self.house, self.server, self.client = Pair.hosts, server, client
        self.ip = ADDRESS[server]

    def __enter__(self):
        self.running = len(self.house.closing)
        return self

    def __exit__(self, *error):
        if error[0] or not Pair.hosts:
            self.part()
            return
        while len(self.house.closing) > self.running:
            self.house.closing.pop()()
        for nic in (self.house.far_nic, self.house.near_nic):
            said = nic.stderr()
            assert nic.process.poll() is None and "Sanitizer" not in said and "runtime error" not in said, said

    def start(self, *words, **more):
        p = Process(list(words), env=dict(self.house.environment(), **more))
        self.house.closing.append(p.kill)
        return p


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port):
    """Whether somebody listens at this TCP port."""
    end = ":%04X" % port
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name, encoding="ascii") as f:
            if any(line.split()[1].endswith(end) and line.split()[3] == "0A" for line in list(f)[1:]):
                return True
    return False
