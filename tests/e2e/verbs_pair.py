# SPDX-License-Identifier: BSD-3-Clause
"""Programs under `spindle verbs` on two NICs, near and far, or both on one."""

import os
import shutil
import socket
import subprocess

import net
from hosts import Hosts
from net import HOST4, NIC4, Skip, until
from served import Process

ADDRESS = {"far": NIC4, "near": HOST4}
# `spindle verbs` preloads a library without sanitizers, which the program's has then behind it.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
UCX = "--mca", "pml", "ucx", "--mca", "btl", "^openib", "-x", "UCX_TLS=rc_verbs,ud_verbs,self"
OFI = "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "^openib", "-x", "FI_PROVIDER=verbs;ofi_rxm"
PAIRS = ({}, {"client": "far"})  # between two NICs, and on one


class Pair:
    """The NICs are shared by the rules. A rule that fails takes them along."""

    hosts = None

    @classmethod
    def part(cls):
        if Pair.hosts:
            Pair.hosts, h = None, Pair.hosts
            h.__exit__()
        net.ip("link", "del", "kernel0", check=False)

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


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip("there is no %s here" % program)


class Stacks(Pair):
    """An interface of the kernel's has the NICs' addresses as well: by it programs find each other and the NIC."""

    def __enter__(self):
        super().__enter__()
        if net.ip("link", "show", "kernel0", check=False):
            return self
        net.ip("link", "add", "kernel0", "type", "veth", "peer", "name", "kernel1")
        for name in ("kernel0", "kernel1"):
            net.ip("link", "set", name, "addrgenmode", "none", "up")
        for ip in ADDRESS.values():
            net.ip("addr", "add", ip + "/24", "dev", "kernel0")
        return self

    def verbs(self, nic, *words, **more):
        return self.start(net.SPINDLE, "verbs", "-n", nic, "--", *words, **more)

    def both(self, port, server, client, **more):
        """The client's lines, once both have ended well."""
        s = self.verbs(self.server, *server, **more)
        until("it listens", lambda: s.process.poll() is not None or listens(port))
        c = self.verbs(self.client, *client, **more)
        lines = c.end(timeout=120)
        s.end(timeout=60)
        return lines

    def mpi(self, source, ranks, *options, argument=(), **more):
        """An MPI program, so many ranks of it on each NIC."""
        need("mpicc", "mpirun")
        path = self.house.path("program")
        if not os.path.exists(path):
            subprocess.run(["mpicc", "-O1", "-o", path, source], check=True, timeout=60)
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", *options]
        for n, nic in enumerate((self.server, self.client)):
            command += [":"] * n + ["-np", str(ranks), net.SPINDLE, "verbs", "-n", nic, "--", path, *argument]
        return self.start(*command, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)


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
