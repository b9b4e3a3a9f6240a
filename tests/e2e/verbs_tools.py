#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs of libibverbs (ibverbs-utils, perftest) under `spindle verbs`, between two NICs and on one."""

import atexit
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import Skip, rule, until  # noqa: E402
from verbs_pair import PAIRS, Pair, free_port, listens  # noqa: E402


class Tools(Pair):
    def run(self, nic, *words):
        if not shutil.which(words[0]):
            raise Skip("there is no %s here" % words[0])
        return self.start(net.SPINDLE, "verbs", "-n", nic, "--", *words)

    def both(self, *words):
        """A tool on the server, and the same on the client: their lines. They meet at a TCP port."""
        port = free_port()
        s = self.run(self.server, *words, "-p", str(port))
        until("it listens", lambda: s.process.poll() is not None or listens(port))
        c = self.run(self.client, *words, "-p", str(port), "127.0.0.1")
        lines = c.end()
        return s.end(), lines


# ---- ibverbs-utils ---------------------------------------------------------------------------------------------------

@rule
def the_nic_is_listed_with_its_port_and_gids():
    with Tools() as p:
        assert any(line.split()[0] == "near" for line in p.run("near", "ibv_devices").end()[2:])
        told = "\n".join(p.run("near", "ibv_devinfo", "-v").end())
        for words in (r"hca_id:\s+near", r"transport:\s+InfiniBand", r"state:\s+PORT_ACTIVE", r"link_layer:\s+Ethernet",
                      r"active_mtu:\s+1024", r"max_qp:\s+[1-9]", r"GID\[\s+1\]:\s+::ffff:%s.*RoCE v2" % re.escape(net.HOST4)):
            assert re.search(words, told), (words, told)


def pingpong(tool, *words):
    for where in PAIRS:
        with Tools(**where) as p:
            for more in ((), ("-e",)):
                for lines in p.both(tool, "-g", "1", "-n", "100", *words, *more):
                    assert any(re.match(r"[14]00 iters in", line) for line in lines), lines


@rule
def rc_pingpong_with_and_without_events():
    pingpong("ibv_rc_pingpong", "-c")  # checks the bytes


@rule
def uc_pingpong():
    pingpong("ibv_uc_pingpong", "-s", "1000")


@rule
def ud_pingpong():
    pingpong("ibv_ud_pingpong", "-s", "1000")


@rule
def srq_pingpong():
    pingpong("ibv_srq_pingpong", "-q", "4", "-n", "400")


# ---- perftest --------------------------------------------------------------------------------------------------------

def measured(lines, size, count):
    rows = [line.split() for line in lines]
    assert any(r[:2] == [str(size), str(count)] for r in rows if len(r) > 4), lines


def perftest(tool, size, *words, count=50):
    # A NIC that gets no processor for a while must not look like one that has gone.
    with Tools() as p:
        _, lines = p.both(tool, "-x", "1", "-F", "-u", "18", "-n", str(count), "-s", str(size), *words)
        measured(lines, size, count)  # a server of reads sees nothing of them


@rule
def perftest_by_the_new_way_to_post():
    for tool, size in (("ib_write_bw", 65536), ("ib_send_bw", 4096), ("ib_read_bw", 65536), ("ib_atomic_bw", 8)):
        perftest(tool, size)


@rule
def perftest_by_the_old_way_to_post():
    for tool, size in (("ib_write_bw", 4096), ("ib_send_bw", 65536), ("ib_read_bw", 4096)):
        perftest(tool, size, "--use_old_post_send")


@rule
def perftest_on_uc_ud_and_with_events():
    perftest("ib_write_bw", 4096, "-c", "UC")
    perftest("ib_send_bw", 1000, "-c", "UD")
    perftest("ib_send_bw", 4096, "-e")


@rule
def perftest_of_latency():
    for tool, size in (("ib_send_lat", 64), ("ib_write_lat", 64), ("ib_read_lat", 4096), ("ib_atomic_lat", 8)):
        perftest(tool, size)


atexit.register(Pair.part)
if __name__ == "__main__":
    net.main()
