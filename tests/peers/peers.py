#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The NIC's RDMA against Linux's Soft-RoCE, which runs in an emulated machine: peers.py PEER SPINDLE DIRECTORY [RULE-PART].
PEER: peer.c's program; DIRECTORY: where the guest is kept. TAP; each rule that moves data says how much, in which time,
and what Soft-RoCE counted meanwhile: '# NAME: bytes ..., seconds ..., retries ...'. No rule begins later than
SPINDLE_PEERS_SECONDS after the start."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import net  # noqa: E402
from net import HOST4, NIC4, NIC6, rule  # noqa: E402
from peering import Bench, make, within  # noqa: E402


@rule
def the_guest_has_a_device():
    guest = Bench.machine()
    out = guest.run("ibv_devinfo -v")
    assert "rxe0" in out and "PORT_ACTIVE" in out, out
    assert guest.gid(HOST4) >= 0


@rule
def the_nic_is_on_the_guests_link():
    guest, _ = Bench.both()
    guest.run("ping -c 3 -W 5 %s && ping -6 -c 3 -W 5 %s" % (NIC4, NIC6), 60)


# Their rules, in this order: what comes last is what there may be no time for.
import own_ends  # noqa: E402,F401
import programs  # noqa: E402,F401
import bad_link  # noqa: E402,F401
import from_captures  # noqa: E402,F401
import itself  # noqa: E402,F401


def main():
    """What net.main() wants, and the guest's directory."""
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    net.RULES[:] = [within(function, time.monotonic()) for function in net.RULES]
    make(os.path.abspath(sys.argv.pop(3)))
    try:
        net.main()
    finally:
        Bench.end()


if __name__ == "__main__":
    main()
