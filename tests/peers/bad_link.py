# SPDX-License-Identifier: BSD-3-Clause
"""Over a link that loses, repeats, reorders and corrupts frames."""

import re

from net import HOST4, NIC4, rule
from own_ends import connect, pingpong, serve
from peering import Bench, bad_link, once_more
from programs import perftest


@rule
def the_nic_is_at_the_other_end_of_a_bad_link():
    with bad_link():
        guest, _ = Bench.both()
        out = guest.run("ping -c 10 -W 2 " + NIC4, 90)  # status 1: nothing came back
        assert int(re.search(r"(\d+) packets received", out).group(1)) >= 7, out


@rule
def over_a_bad_link_rping_pings_us():
    with bad_link():
        serve("rping, bad link", "rping-server", "rping -c -a %s -p 7180 -C 30 -S 30000 -V" % NIC4, 60 * 30000, 7180)


@rule
def over_a_bad_link_we_ping_rping():
    with bad_link():
        connect("to rping, bad link", "rping-client", "rping -s -a %s -p 7181 -S 30000" % HOST4, 60 * 30000, HOST4, 7181, 30, 30000)


@rule
def over_a_bad_link_messages_come_once():
    with bad_link():
        serve("ucmatose, bad link", "cm-server", "ucmatose -s %s -p 7182 -c 2 -C 100 -S 5000" % NIC4, 2 * 2 * 100 * 5000, 7182, 2, 100, 5000)
        connect("to ucmatose, bad link", "cm-client", "ucmatose -p 7183 -c 2 -C 100 -S 5000", 2 * 2 * 100 * 5000,
                HOST4, 7183, 2, 100, 5000)


@rule
def over_a_bad_link_a_pingpong_ends():
    with bad_link():
        for first in (True, False):
            once_more(pingpong, "rc", 5000, 50, first)


@rule
def over_a_bad_link_what_comes_on_uc_and_ud_is_whole():
    with bad_link():
        for kind, size in (("uc", 5000), ("uc", 1000), ("ud", 1000)):
            for first in (True, False):
                once_more(pingpong, kind, size, 50, first, lossy=True)


@rule
def over_a_bad_link_perftest_ends():
    with bad_link():
        perftest("ib_write_bw", 65536, count=20, roles="c", name=", bad link")
        perftest("ib_read_bw", 65536, count=20, roles="c", name=", bad link")
        perftest("ib_send_bw", 65536, count=20, roles="s", name=", bad link")
        perftest("ib_write_bw", 4096, "-c", "UC", count=20, name=", bad link")
