#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What stands on libibverbs and librdmacm, as Debian has it, under `spindle verbs`: libfabric, UCX, and Open MPI over either;
between two NICs and on one. Arguments: net.py's, of which the program is not used, and the source of an MPI program."""

import atexit
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import Skip, rule, until  # noqa: E402
from verbs_pair import ADDRESS, PAIRS, Pair, free_port, listens  # noqa: E402

MPI = sys.argv.pop(3)


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


# ---- libfabric -------------------------------------------------------------------------------------------------------

@rule
def libfabric_finds_the_nic():
    need("fi_info")
    with Stacks() as p:
        told = "\n".join(p.verbs("near", "fi_info", "-p", "verbs").end())
        for words in (r"domain: near\n", r"domain: near-dgram\n", "FI_EP_MSG", "FI_EP_DGRAM", "FI_EP_RDM"):
            assert re.search(words, told), (words, told)


@rule
def libfabric_exchanges_messages():
    need("fi_pingpong")
    for where in PAIRS:
        for provider, endpoint, most in (("verbs", "msg", "1m"), ("verbs;ofi_rxm", "rdm", "1m"), ("verbs", "dgram", "1k")):
            with Stacks(**where) as p:
                port = free_port()
                words = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", "20", "-c"]  # -c: it looks at the bytes
                lines = p.both(port, words + ["-B", str(port)], words + ["-P", str(port), p.ip])
                assert lines[-1].split()[:3] == [most, "20", "=20"], lines


# ---- UCX -------------------------------------------------------------------------------------------------------------

@rule
def ucx_exchanges_messages_and_reads_and_writes_memory():
    need("ucx_perftest")
    for where in PAIRS:
        for transports in ("rc_verbs,ud_verbs", "ud_verbs"):
            for test, size in (("tag_lat", 8), ("tag_lat", 100000), ("ucp_am_bw", 3000), ("ucp_put_lat", 8), ("ucp_get", 20000),
                               ("ucp_fadd", 8)):
                if transports == "ud_verbs" and test not in ("tag_lat", "ucp_am_bw"):
                    continue
                with Stacks(**where) as p:
                    port = free_port()
                    words = ["ucx_perftest", "-t", test, "-s", str(size), "-n", "100", "-w", "10", "-p", str(port)]
                    lines = p.both(port, words, words + ["127.0.0.1"], UCX_TLS=transports, UCX_WARN_UNUSED_ENV_VARS="n")
                    assert any(line.startswith("Final:") for line in lines), (test, lines)


# ---- Open MPI --------------------------------------------------------------------------------------------------------

def program(house):
    need("mpicc", "mpirun")
    path = house.path("mpi_exchange")
    subprocess.run(["mpicc", "-O1", "-o", path, MPI], check=True, timeout=60)
    return path


def mpi(where, ranks, *options, **more):
    """ranks: how many on each NIC."""
    with Stacks(**where) as p:
        words = [program(p.house)]
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", *options]
        for n, nic in enumerate((p.server, p.client)):
            command += [":"] * n + ["-np", str(ranks), net.SPINDLE, "verbs", "-n", nic, "--", *words]
        run = p.start(*command, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
        assert run.end(timeout=200)[-1:] == ["right %d" % (2 * ranks)]


UCX = "--mca", "pml", "ucx", "--mca", "btl", "^openib", "-x", "UCX_TLS=rc_verbs,ud_verbs,self"
OFI = "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "^openib", "-x", "FI_PROVIDER=verbs;ofi_rxm"


@rule
def mpi_over_ucx_exchanges_what_it_was_given():
    for where in PAIRS:
        mpi(where, 1, *UCX)


@rule
def mpi_over_libfabric_exchanges_what_it_was_given():
    for where in PAIRS:
        mpi(where, 1, *OFI)


@rule
def eight_ranks_of_mpi_share_a_nic():
    mpi({"client": "far"}, 4, *UCX)


atexit.register(Pair.part)

if __name__ == "__main__":
    net.main()
