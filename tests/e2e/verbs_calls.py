#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What programs of others do not reach in our libibverbs: verbs_calls.c under `spindle verbs`, on one NIC."""

import atexit
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from hosts import Hosts  # noqa: E402
from net import rule  # noqa: E402
from served import Process  # noqa: E402
from verbs_pair import Pair  # noqa: E402


def calls(what):
    with Pair() as p:
        assert p.start(net.SPINDLE, "verbs", "-n", "near", "--", net.PROGRAM, what).end() == ["well"]


@rule
def what_is_refused_says_why():
    calls("refusals")


@rule
def queues_take_what_they_have_room_for_and_tell_what_became_of_it():
    calls("queues")


@rule
def every_byte_is_right_wherever_it_lies():
    calls("bytes")


@rule
def events_wake_and_are_acknowledged():
    calls("events")


@rule
def extended_posting_and_polling():
    calls("extended")


@rule
def threads_share_a_context():
    calls("threads")


@rule
def a_region_that_is_registered_anew_has_other_keys():
    calls("anew")


@rule
def windows_open_parts_of_regions_until_their_keys_end():
    calls("windows")


@rule
def a_context_takes_what_is_left_along_and_a_child_has_its_own():
    calls("leftovers")


@rule
def a_nic_that_ends_takes_no_program_along():
    Pair.part()
    for how in (signal.SIGTERM, signal.SIGKILL):
        h = Hosts(link="vhost")
        try:
            p = Process([net.SPINDLE, "verbs", "-n", "near", "--", net.PROGRAM, "gone"], env=h.environment())
            h.closing.append(p.kill)
            assert p.line() == "ready", p.stderr()
            h.near_nic.process.send_signal(how)
            assert p.end() == ["well"]
        finally:
            h.__exit__()


atexit.register(Pair.part)
if __name__ == "__main__":
    net.main()
