#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""NICs with nothing to do: their workers sleep, and what comes by a port, or from an application, wakes them."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from asking import PINGS, ping_at_times, woken  # noqa: E402
from counted import sample  # noqa: E402
from net import HOST4, NIC4, TAP4, TAP6, World, config, ip, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

APP = sys.argv.pop(3)


def asked_by_the_kernel(world, port, workers=1):
    with world as w:
        nic = w.nic(config(port, more="workers = %d" % workers), eal=())
        ping_at_times(NIC4)
        woken(nic.stop())


@rule
def a_packet_of_an_af_packet_port_wakes_its_worker():
    asked_by_the_kernel(World(), "af_packet:nic0")


@rule
def each_worker_of_several_is_woken():
    asked_by_the_kernel(World(), "af_packet:nic0", workers=3)


@rule
def a_packet_of_a_tap_port_wakes_its_worker():
    net.need_tap()
    with World(addresses=False) as w:
        nic = w.nic(config("tap:spindle7"), eal=())

        def ask():
            ip("addr", "add", HOST4 + "/24", "dev", "spindle7")
            ip("link", "set", "spindle7", "up")
            ping_at_times(NIC4)
        w.space.do(ask)
        woken(nic.stop())


def joined(asks, answers, first):
    """The kernel behind an exception port of the NIC that asks, by a vhost-user link to the one that answers. `first`
    makes the socket and stays; the other one is killed once, and the next one's descriptors are others."""
    with World() as w:
        path = w.path("v.sock")
        if len(path) > 100:
            raise net.Skip("the path of the temporary directory is too long for a socket")
        for workers in (1, 2):
            more = "workers = %d\n" % workers
            text = {asks: config(asks + path, more=more + "exception = af_packet:nic0", mac="02:00:00:00:00:03", ip4=TAP4, ip6=TAP6),
                    answers: config(answers + path, more=more)}
            stays = w.nic(text[first], eal=())
            for end in ("kill", "stop"):
                comes = w.nic(text[asks if first == answers else answers], eal=())
                ping_at_times(NIC4)
                if end == "stop":
                    woken(comes.stop())
                else:
                    comes.kill()
            woken(stays.stop(), PINGS // 2)


@rule
def a_packet_of_a_virtio_user_port_wakes_its_worker():
    joined("vhost:", "virtio-user:", "vhost:")


@rule
def a_packet_of_a_vhost_port_wakes_its_worker():
    joined("virtio-user:", "vhost:", "vhost:")


@rule
def an_application_wakes_a_nic_without_packets():
    """Its commands go by a ring, and the NIC looks at none while it sleeps."""
    with House() as h:
        path = h.path("v.sock")
        if len(path) > 100:
            raise net.Skip("the path of the temporary directory is too long for a socket")
        # A vhost port that nobody connects to has nothing to look at.
        nic = h.nic("[nic]\nip = 192.0.2.1/24\nport = vhost:%s\n" % path, "--name", "idle", eal=())
        until("it sleeps", lambda: sample(h, "idle")["workers"][0]["sleeps"] > 10)
        for _ in range(5):
            # SDR repeats nothing: no more on its way than the NIC keeps for one context.
            app = Process([APP, nic.socket, "loop", "pause=1", "slots=2"], env=h.environment())
            h.closing.append(app.kill)
            assert app.line() == "connected", app.stderr()
            time.sleep(0.1)  # asleep again, with the application's queue parked
            app.say("")
            assert app.line() == "sent", app.stderr()
            app.say("")
            app.end()
        assert sample(h, "idle")["workers"][0]["woken"] >= 5


if __name__ == "__main__":
    net.main()
