#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`budget` and `overrun` in a context's section: what follows from them on a running NIC, where every packet costs more
than one cycle, and that a replay, where no time passes, goes by as if they were not there."""

import json
import os
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import adds_up, linked, sample  # noqa: E402
from net import HOST4, NIC4, NIC_MAC, World, config, pk, rule, until  # noqa: E402
from served import House  # noqa: E402

PORT = {"free": 7000, "count": 7001, "drop": 7002, "disable": 7003}
PLAIN = "[context %s]\nhandler = count\nfilter = udp port %d\n"
TOO_LITTLE = "budget = 1\noverrun = %s\n"


def contexts(budgets=True):
    return "".join(PLAIN % (name, port) + (TOO_LITTLE % name if budgets and name != "free" else "")
                   for name, port in PORT.items())


def send(to, count):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(count):
            s.sendto(b"a datagram", (NIC4, PORT[to]))


def context(house, name):
    report = sample(house)
    assert adds_up(report), report
    return report["contexts"][name], report


def ended(c):
    return c["packets"] + c["dropped"]


@rule
def a_running_nic_counts_drops_or_disables_and_serves_its_other_contexts():
    with World() as w, House() as h:
        linked(h, w, "spindle0", context=contexts())
        sent = {name: 0 for name in PORT}

        def offer(to, count):
            send(to, count)
            sent[to] += count
            until("all is counted", lambda: ended(context(h, to)[0]) == sent[to])
            return context(h, to)[0]
        counted = offer("count", 30)
        assert counted["packets"] == 30 and counted["cycles"]["overruns"] == 30, counted
        # The first owes more cycles than packets will ever pay, one each.
        dropped = offer("drop", 30)
        assert dropped["packets"] == 1 and dropped["cycles"]["overruns"] == 1, dropped
        assert dropped["drops"] == {"over-budget": 29}, dropped
        # Each that is taken disables it for longer: one comes too early in the end.
        for _ in range(10):
            disabled = offer("disable", 10)
            if disabled["dropped"]:
                break
        assert disabled["drops"] == {"context-disabled": disabled["dropped"]}, disabled
        assert disabled["cycles"]["overruns"] == disabled["packets"] >= 1, disabled
        free = offer("free", 30)
        assert free["packets"] == 30 and free["cycles"]["overruns"] == 0, free
        _, report = context(h, "free")
        assert report["drops"]["over-budget"] == 29, report
        assert report["drops"]["context-disabled"] == disabled["dropped"], report


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def replayed(ini, capture):
    run = subprocess.run([net.SPINDLE, "replay", "-c", ini, "--json", capture], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@rule
def in_a_replay_budgets_have_no_effect():
    with tempfile.TemporaryDirectory(prefix="spindle-e2e-") as d:
        frames = [(i * 1000, pk.ethernet(pk.ipv4(pk.udp(b"a datagram", sport=4000, dport=port), src=HOST4, dst=NIC4, ident=i),
                                         0x0800, dst=NIC_MAC, src="02:00:00:00:00:02"))
                  for i, port in enumerate(list(PORT.values()) * 10)]
        capture = pk.write_capture(os.path.join(d, "in.pcap"), frames)
        said = [replayed(write(d, "%d.ini" % budgets, config() + contexts(budgets)), capture) for budgets in (0, 1)]
        for report in said:
            for name in PORT:  # which says what the budget is
                del report["contexts"][name]["limits"]
        assert said[0]["contexts"] == said[1]["contexts"], said
        assert all(said[1]["contexts"][name]["packets"] == 10 for name in PORT), said


@rule
def a_budget_that_is_none_is_refused_with_its_line():
    wrong = {"budget = 0": "budget", "budget = soon": "budget", "overrun = drop": "overrun",
             "budget = 5us\noverrun = never": "overrun"}
    with tempfile.TemporaryDirectory(prefix="spindle-e2e-") as d:
        capture = pk.write_capture(os.path.join(d, "in.pcap"), [])
        for text, key in wrong.items():
            ini = write(d, "wrong.ini", config() + PLAIN % ("a", 1) + text + "\n")
            run = subprocess.run([net.SPINDLE, "replay", "-c", ini, capture], capture_output=True, text=True, timeout=60)
            line = next(i for i, t in enumerate(open(ini), 1) if t.startswith(key))
            assert run.returncode != 0 and "wrong.ini:%d" % line in run.stderr and key in run.stderr, (text, run.stderr)


if __name__ == "__main__":
    net.main()
