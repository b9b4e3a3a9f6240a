#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified verbs programs when something goes wrong: one of them is killed, the NIC is killed, the link is bad. Arguments:
net.py's, of which the program is not used, and the source of an MPI program."""

import atexit
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import sample  # noqa: E402
from net import rule, until  # noqa: E402
from verbs_pair import OFI, UCX, Pair, Stacks, free_port, listens, need  # noqa: E402
from wired import BadLink  # noqa: E402

MPI = sys.argv.pop(3)
ON = {"argument": ("on",)}  # until it is killed


class Faults(Stacks):
    def pair(self, tool, *words, **more):
        """Server and client of perftest or ucx_perftest, in the middle of their work."""
        need(tool)
        port, before = free_port(), self.sent()
        words = [tool, *words, "-p", str(port)]
        s = self.verbs(self.server, *words, **more)
        until("it listens", lambda: s.process.poll() is not None or listens(port))
        c = self.verbs(self.client, *words, "127.0.0.1", **more)
        until("%s is at work" % tool, lambda: c.process.poll() is not None or self.sent() > before + 1000)
        for p in (s, c):
            assert p.process.poll() is None, p.stderr()
        return s, c

    def sent(self):
        return sample(self.house, self.client)["sent"]

    def perftest(self, tool):
        return self.pair(tool, "-x", "1", "-F", "-D", "60")


def fails(process, timeout=30):
    """It ends by itself, and not as if all were well."""
    process.process.wait(timeout)
    assert process.process.returncode, "it ended as if all were well"


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


def lives(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# ---- programs are killed ---------------------------------------------------------------------------------------------

@rule
def who_works_with_a_program_that_is_killed_ends_with_an_error():
    """Who only waits for messages learns nothing, as with any RC: these have requests under way, or watch TCP."""
    with Faults() as p:
        for tool, victim in (("ib_write_bw", 1), ("ib_write_bw", 0), ("ib_send_bw", 0), ("ib_read_bw", 0)):
            both = p.perftest(tool)
            both[victim].signal(signal.SIGKILL)
            fails(both[1 - victim])
        port = free_port()
        words = ["ib_write_bw", "-x", "1", "-F", "-n", "20", "-p", str(port)]
        p.both(port, words, words + ["127.0.0.1"])  # the NICs serve the next


@rule
def a_rank_of_mpi_that_is_killed_ends_all():
    need("mpicc", "mpirun")
    with Faults() as p:
        for how in (UCX, OFI):
            run = p.mpi(MPI, 1, *how, **ON)
            assert run.line() == "begun", run.stderr()
            ranks = children(run.pid)
            assert len(ranks) == 2, ranks
            os.kill(ranks[1], signal.SIGKILL)
            fails(run)
            until("no rank is left", lambda: not any(map(lives, ranks)), timeout=30)
        run = p.mpi(MPI, 1, *UCX)
        try:
            lines = run.end(timeout=120)
        except AssertionError:  # UCX asserts what a request that is repeated and comes late breaks: github.com/openucx/ucx/issues/6040
            if "uct_ud_ep_process_rx" not in run.stderr():
                raise
            print("# once more, as UCX gave up: %s" % re.findall(".*(?:Assert|Fatal|failed).*", run.stderr())[:3], flush=True)
            lines = p.mpi(MPI, 1, *UCX).end(timeout=120)
        assert lines[-1:] == ["right 2"], lines


# ---- the NIC is killed -----------------------------------------------------------------------------------------------

@rule
def programs_on_a_nic_that_is_killed_end_with_an_error():
    need("ucx_perftest", "mpicc", "mpirun")
    with Faults() as p:
        runs = [p.mpi(MPI, 1, *how, **ON) for how in (UCX, OFI)]
        for run in runs:
            assert run.line() == "begun", run.stderr()
        ranks = [rank for run in runs for rank in children(run.pid)]
        near = [p.perftest(tool)[1] for tool in ("ib_write_bw", "ib_send_lat")]
        near.append(p.pair("ucx_perftest", "-t", "tag_lat", "-n", "100000000", UCX_TLS="rc_verbs,ud_verbs")[1])
        p.house.near_nic.signal(signal.SIGKILL)
        for process in runs + near:
            fails(process)
        until("no rank is left", lambda: not any(map(lives, ranks)), timeout=30)
        p.part()


# ---- a bad link ------------------------------------------------------------------------------------------------------

class Bad(Faults):
    """One packet in a hundred is lost, some come late or twice. The programs meet by TCP, which the kernel has aside."""

    def __init__(self):
        self.part()
        Pair.hosts = BadLink("--loss", "0.01", "--reorder", "0.02", "--reorder-delay", "300us", "--duplicate", "0.02")
        super().__init__()

    def __exit__(self, *error):
        try:
            if not error[0]:
                report = self.house.cut()
                assert all(report[way][what] for way in ("there", "back") for what in ("lost", "reordered", "duplicated")), report
        finally:
            self.part()

    def rping(self):
        words = ["rping", "-a", self.ip, "-C", "50", "-V", "-S", "4000", "-p", "7174"]
        s = self.verbs(self.server, *words, "-s")
        until("rping listens", lambda: s.process.poll() is not None or any(
            c.get("listeners") for c in sample(self.house, self.server, "--handlers")["contexts"].values()))
        lines = self.verbs(self.client, *words, "-c", "-v").end()
        s.end()
        assert sum(line.startswith("ping data: rdma-ping-") for line in lines) == 50, lines

    def tool(self, *words, **more):
        port = free_port()
        words = [*words, "-p", str(port)]
        return self.both(port, words, words + ["127.0.0.1"], **more)


@rule
def every_byte_is_right_over_a_link_that_loses_repeats_and_reorders():
    need("rping", "ibv_rc_pingpong", "ib_write_bw", "ucx_perftest", "mpicc", "mpirun")
    soon = {"UCX_RC_TIMEOUT": "0.2s"}  # UCX waits for a second
    with Bad() as p:
        p.rping()
        for left in (2, 1, 0):  # it gives up after half a second without an acknowledgement, and has no option for that
            try:
                p.tool("ibv_rc_pingpong", "-g", "1", "-n", "200", "-c")
                break
            except AssertionError as error:
                if "retry counter exceeded" not in str(error) or not left:
                    raise
        for tool in ("ib_write_bw", "ib_send_bw"):
            p.tool(tool, "-x", "1", "-F", "-u", "17", "-n", "50", "-s", "65536")
        for test in ("tag_lat", "ucp_get"):
            p.tool("ucx_perftest", "-t", test, "-s", "20000", "-n", "50", "-w", "5", UCX_TLS="rc_verbs,ud_verbs", **soon)
        assert p.mpi(MPI, 1, *UCX, **soon).end(timeout=120)[-1:] == ["right 2"]


atexit.register(Pair.part)
if __name__ == "__main__":
    net.main()
