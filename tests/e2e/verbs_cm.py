#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs of rdma-core's librdmacm under `spindle verbs`, between two NICs and on one, and verbs_cm.c, which
checks what they do not reach."""

import atexit
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import sample  # noqa: E402
from net import HOST4, NIC4, Skip, rule, sanitized, until  # noqa: E402
from verbs_pair import PAIRS, Pair  # noqa: E402


class Programs(Pair):
    def run(self, nic, *words):
        if not shutil.which(words[0]):
            raise Skip("there is no %s here" % words[0])
        if words[0] != net.PROGRAM and sanitized():
            raise Skip("programs of others have no library of sanitizers")
        # What they print comes when they print it.
        p = self.start(net.SPINDLE, "verbs", "-n", nic, "--", "stdbuf", "-oL", *words)
        p.name = " ".join(words)
        return p

    def listeners(self, nic):
        return [row for c in sample(self.house, nic, "--handlers")["contexts"].values() for row in c.get("listeners", ())]

    def both(self, server, client, port, timeout=60):
        """The server, then the client once it listens: their lines."""
        s = self.run(self.server, *server)
        until("%s listens" % s.name, lambda: s.process.poll() is not None or
              any(row["port"] == port for row in self.listeners(self.server)))
        c = self.run(self.client, *client)
        return self.end(s, timeout, c), self.end(c, timeout, s)

    @staticmethod
    def end(p, timeout, other):
        try:
            return p.end(0, timeout)
        except AssertionError as e:
            raise AssertionError("%s: %s\n%s said: %s" % (p.name, e, other.name, other.stderr()[-1000:]))


@rule
def rping_pings_and_finds_its_bytes():
    for where in PAIRS:
        with Programs(**where) as p:
            s, c = p.both(("rping", "-s", "-a", p.ip, "-C", "20", "-V", "-S", "200", "-p", "7174"),
                          ("rping", "-c", "-a", p.ip, "-C", "20", "-V", "-v", "-S", "200", "-p", "7174"), 7174)
            assert sum(line.startswith("ping data: rdma-ping-") for line in c) == 20, c


@rule
def rping_serves_many_clients_one_after_the_other():
    with Programs() as p:
        s = p.run("far", "rping", "-s", "-P", "-a", p.ip, "-p", "7175")
        until("rping listens", lambda: any(row["port"] == 7175 for row in p.listeners("far")))
        for _ in range(3):
            p.run("near", "rping", "-c", "-a", p.ip, "-C", "5", "-V", "-p", "7175").end()
        clients = [p.run("near", "rping", "-c", "-a", p.ip, "-C", "5", "-V", "-p", "7175") for _ in range(3)]
        for c in clients:
            c.end()
        assert s.process.poll() is None, s.stderr()


@rule
def who_listens_at_loopback_is_not_reached_from_another_nic():
    with Programs() as p:
        s = p.run("far", "rping", "-s", "-P", "-a", "127.0.0.1", "-p", "7180")
        until("rping listens", lambda: any(row["port"] == 7180 for row in p.listeners("far")))
        words = "rping", "-c", "-C", "3", "-V", "-p", "7180", "-a"
        foreign = p.run("near", *words, p.ip)
        assert foreign.process.wait(60), "it was accepted"
        assert "RDMA_CM_EVENT_REJECTED" in foreign.stderr(), foreign.stderr()
        p.run("far", *words, "127.0.0.1").end()
        assert s.process.poll() is None, s.stderr()


@rule
def ucmatose_makes_many_connections():
    for where in PAIRS:
        with Programs(**where) as p:
            s, c = p.both(("ucmatose", "-b", p.ip, "-c", "5", "-C", "10", "-S", "1000", "-p", "7176"),
                          ("ucmatose", "-s", p.ip, "-c", "5", "-C", "10", "-S", "1000", "-p", "7176"), 7176)
            assert s[-1] == c[-1] == "return status 0", (s, c)


@rule
def udaddy_sends_datagrams():
    for where in PAIRS:
        with Programs(**where) as p:
            s, c = p.both(("udaddy", "-b", p.ip, "-c", "2", "-C", "5", "-S", "100"),
                          ("udaddy", "-s", p.ip, "-c", "2", "-C", "5", "-S", "100"), 7174)
            assert s[-1] == c[-1] == "return status 0", (s, c)


@rule
def rdma_client_meets_rdma_server():
    for where in PAIRS:
        with Programs(**where) as p:
            s, c = p.both(("rdma_server", "-s", p.ip, "-p", "7178"), ("rdma_client", "-s", p.ip, "-p", "7178"), 7178)
            assert s[-1] == "rdma_server: end 0" and c[-1] == "rdma_client: end 0", (s, c)


@rule
def cmtime_times_each_step():
    with Programs() as p:
        s = p.run("far", "cmtime", "-b", p.ip, "-c", "20", "-p", "7179")
        until("cmtime listens", lambda: any(row["port"] == 7179 for row in p.listeners("far")))
        lines = p.run("near", "cmtime", "-s", p.ip, "-b", HOST4, "-c", "20", "-p", "7179").end()
        assert any(line.startswith("connect") for line in lines) and not any("fail" in line for line in lines), lines
        s.kill()


@rule
def what_the_manual_pages_say_and_no_program_reaches():
    with Programs() as p:
        out = p.run("far", net.PROGRAM, NIC4).process.communicate(timeout=120)[0].decode()
        assert out == "ok\n", out


@rule
def a_nic_that_ends_is_an_event_for_each_id():
    with Programs() as p:
        own = p.run("far", net.PROGRAM, NIC4, "stays")
        assert own.line() == "ready", own.stderr()
        p.house.far_nic.signal(signal.SIGKILL)
        own.end()
        p.part()


atexit.register(Pair.part)
if __name__ == "__main__":
    net.main()
