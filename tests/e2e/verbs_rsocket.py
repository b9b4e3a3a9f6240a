#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rsockets under `spindle verbs`: rdma-core's programs rstream and riostream as they are, and verbs_rsocket.c, which checks
each byte, ends of all kinds, and what rsocket(7) says of the calls."""

import atexit
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import sample  # noqa: E402
from net import Skip, rule, until  # noqa: E402
from verbs_pair import PAIRS, Pair  # noqa: E402

PORT = 7470


class Sockets(Pair):
    def run(self, nic, *words):
        if not shutil.which(words[0]):
            raise Skip("there is no %s here" % words[0])
        # What they print comes when they print it.
        p = self.start(net.SPINDLE, "verbs", "-n", nic, "--", "stdbuf", "-oL", *words)
        p.name = " ".join(words)
        return p

    def listens(self, port):
        contexts = sample(self.house, self.server, "--handlers")["contexts"].values()
        return any(row["port"] == port for c in contexts for row in c.get("listeners", ()))

    def pair(self, server, client, port=PORT):
        s = self.run(self.server, *server)
        until("%s listens" % s.name, lambda: s.process.poll() is not None or self.listens(port))
        return s, self.run(self.client, *client)

    def both(self, server, client, port=PORT):
        """Their lines."""
        s, c = self.pair(server, client, port)
        lines = []
        for p, other in ((c, s), (s, c)):
            try:
                lines.append(p.end(0, 60))
            except AssertionError as e:
                raise AssertionError("%s: %s\n%s said: %s" % (p.name, e, other.name, other.stderr()[-1000:]))
        return lines[1], lines[0]

    def streams(self, program, *words):
        words = (program, "-p", str(PORT)) + words
        for lines in self.both(words + ("-b", self.ip), words + ("-s", self.ip)):
            rows = [line.split() for line in lines[1:]]
            assert rows and all(len(row) == 8 for row in rows), lines
        return rows

    def own(self, *words):
        what, more = words[0], words[1:]
        words = (what, self.ip, str(PORT)) + more
        return self.both((net.PROGRAM, "serve") + words, (net.PROGRAM, "ask") + words)


@rule
def rstream_streams():
    """Without options: it calls without waiting, over and over, and has two connections one after the other."""
    for where in PAIRS:
        with Sockets(**where) as p:
            rows = p.streams("rstream", "-T", "v", "-C", "200", "-S", "10000")
            assert rows[0][0] == "custom", rows


@rule
def rstream_has_all_its_ways_to_wait():
    with Sockets() as p:
        for way in (("b",), ("a",), ("a", "b"), ("n", "a"), ("r", "b")):
            options = [word for w in way for word in ("-T", w)]
            p.streams("rstream", "-T", "v", "-C", "200", "-S", "5000", *options)


@rule
def rstream_has_all_sizes():
    with Sockets() as p:
        for size, count in (1, 500), (64, 500), (65, 500), (4096, 200), (65537, 50), (1 << 20, 5), (3000000, 2):
            p.streams("rstream", "-T", "v", "-T", "b", "-C", str(count), "-S", str(size))
        for options in ("-B", "4096"), ("-B", "100000"), ("-i", "0"), ("-k", "10"):
            words = ("rstream", "-T", "v", "-T", "b", "-C", "100", "-S", "9999", "-p", str(PORT)) + options
            p.both(words + ("-b", p.ip), words + ("-s", p.ip))


@rule
def rstream_does_its_default_test():
    with Sockets() as p:
        rows = p.streams("rstream", "-T", "b")
        assert [row[0] for row in rows] == ["64_lat", "4k_lat", "64k_lat", "1m_lat", "64_bw", "4k_bw", "64k_bw", "1m_bw"], rows


@rule
def riostream_writes_to_mapped_memory():
    for where in PAIRS:
        with Sockets(**where) as p:
            for way in (("v",), ("v", "b"), ("v", "a")):
                options = [word for w in way for word in ("-T", w)]
                p.streams("riostream", "-C", "100", "-S", "20000", *options)


@rule
def the_calls_are_what_their_manual_page_says():
    with Sockets() as p:
        for address in net.NIC4, net.NIC6, "127.0.0.1":
            lines = p.run("far", net.PROGRAM, "calls", address).end(0, 60)
            assert lines == ["ok"], lines


@rule
def every_byte_arrives_both_ways_at_once():
    for where in PAIRS:
        with Sockets(**where) as p:
            assert p.own("exchange", "4000000") == (["ok"], ["ok"])


@rule
def rpoll_waits_for_many():
    with Sockets() as p:
        assert p.own("many", "50") == (["ok"], ["ok"])


@rule
def a_peer_that_is_killed_is_an_error_in_each_call():
    for how in "receive", "send", "poll":
        with Sockets() as p:
            words = (how, p.ip, str(PORT))
            s, c = p.pair((net.PROGRAM, "serve") + words, (net.PROGRAM, "ask") + words)
            assert s.line() == c.line() == "connected"
            s.process.send_signal(signal.SIGKILL)
            assert c.end(0, 30) == ["ok"]


atexit.register(Pair.part)
if __name__ == "__main__":
    net.main()
