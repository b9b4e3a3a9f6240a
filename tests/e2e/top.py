#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle top`: rates and shares of one NIC and of several, as a table for scripts and live on a terminal."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import Fake, NULL, ask_echo, linked  # noqa: E402
from net import World, plain, rule  # noqa: E402
from served import House, Process  # noqa: E402
from terminal import Terminal, keys_are_ours, tables  # noqa: E402


def report(name, at, contexts):
    """Of a NIC that has done `at` times what it does in a round. contexts: (name, packets, bytes, dropped, sent, cycles, pid)."""
    every = {c[0]: dict(handler="h-" + c[0], packets=at * c[1], bytes=at * c[2], dropped=at * c[3], sent=at * c[4],
                        **({"application": {"pid": c[6]}} if c[6] else {})) for c in contexts}
    workers = [{"running_us": at * 1000000, "busy_us": at * busy, "packets": at * 7000, "dropped": at * 700,
                "contexts": {c[0]: at * c[5] for c in contexts} if not i else {}} for i, busy in enumerate((250000, 500000))]
    return json.dumps({"name": name, "tsc_hz": 1000000000, "packets": at * 100000, "bytes": at * 5000000, "dropped": at * 2000, "sent": at * 300000,
                       "sent_bytes": at * 800000, "workers": workers, "contexts": every,
                       "applications": [{"pid": 77, "uid": 5, "memory": 1 << 20, "qps": 3}, {"pid": 77, "uid": 5, "memory": 3 << 20, "qps": 4}]}).encode()


LEFT = (("delta", 40000, 100000, 3000, 0, 10000000, 77), ("alpha", 10000, 900000, 2000, 1000, 400000000, 0))
RIGHT = (("gamma", 30000, 300000, 9000, 90000, 20000000, 0), ("beta", 20000, 200000, 1000, 0, 30000000, 77))
ORDERS = {"activity": "gamma delta beta alpha", "name": "alpha beta delta gamma", "packets": "delta gamma beta alpha",
          "bytes": "alpha gamma beta delta", "dropped": "gamma delta alpha beta", "share": "alpha beta gamma delta"}


def two(house):
    return (Fake(house, report("left", 1, LEFT), then=report("left", 2, LEFT), name="l"),
            Fake(house, report("right", 1, RIGHT), then=report("right", 2, RIGHT), name="r"))


def top(house, *arguments, status=0):
    run = subprocess.run([net.SPINDLE, "top", *arguments], env=house.environment(), capture_output=True, text=True, timeout=60)
    assert run.returncode == status, (run.returncode, run.stderr)
    assert "Sanitizer" not in run.stderr and "runtime error" not in run.stderr, run.stderr[-3000:]
    return run.stdout.splitlines(), run.stderr


def parts(lines):
    """First word of a table's head -> its rows, each by the heads of its columns."""
    found, head = {}, None
    for line in lines:
        words = line.replace("SENT PKT/S", "SENT-PKT/S").replace("SENT BYTE/S", "SENT-BYTE/S").replace("*", "").split()
        if not words:
            head = None
        elif head is None:
            head = words
            found[head[0]] = []
        else:
            assert len(words) == len(head), (head, words)
            found[head[0]].append(dict(zip(head, words)))
    return found


def number(text):
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1])
    return float(text[:-1]) * scale if scale else float(text)


def order_of(lines):
    return " ".join(row["CONTEXT"] for row in parts(lines)["CONTEXT"])


@rule
def rates_and_shares_are_those_of_the_time_between_two_samples():
    with House() as h:
        left, right = two(h)
        with left as l, right as r:
            lines, err = top(h, l, r, "--once", "--interval", "0.2")
        assert err == "", err
        said = parts(lines)
        assert [row["NIC"] for row in said["NIC"]] == ["left", "right"], said["NIC"]
        for i, (nic, contexts) in enumerate((("left", LEFT), ("right", RIGHT))):
            row = said["NIC"][i]
            unit = number(row["PKT/S"]) / 100000  # how many rounds a second it has seen, whatever the time was

            def near(text, expected):
                assert abs(number(text) - expected * unit) <= 0.02 * expected * unit, (text, expected, unit, lines)
            for column, expected in (("BYTE/S", 5e6), ("DROP/S", 2e3), ("SENT-PKT/S", 3e5), ("SENT-BYTE/S", 8e5)):
                near(row[column], expected)
            workers = [w for w in said["WORKER"] if w["NIC"] == nic]
            assert [(w["WORKER"], w["BUSY"]) for w in workers] == [("0", "25.0%"), ("1", "50.0%")], workers
            for w in workers:
                near(w["PKT/S"], 7000)
                near(w["DROP/S"], 700)
            rows = {c["CONTEXT"]: c for c in said["CONTEXT"] if c["NIC"] == nic}
            assert set(rows) == {c[0] for c in contexts}
            for name, packets, octets, dropped, sent, cycles, _ in contexts:
                assert rows[name]["HANDLER"] == "h-" + name and rows[name]["SHARE"] == "%.1f%%" % (cycles / 1e7), rows[name]
                for column, expected in (("PKT/S", packets + dropped), ("BYTE/S", octets), ("DROP/S", dropped), ("SENT/S", sent)):
                    near(rows[name][column], expected)
            app = [a for a in said["APPLICATION"] if a["NIC"] == nic]
            assert len(app) == 1 and (app[0]["APPLICATION"], app[0]["UID"], app[0]["MEMORY"], app[0]["QPS"]) == ("77", "5", "4.00M", "7"), app
            near(app[0]["PKT/S"], 43000 if nic == "left" else 21000)  # with those that it dropped
            assert app[0]["SHARE"] == ("1.0%" if nic == "left" else "3.0%"), app


@rule
def contexts_of_all_nics_are_sorted_together():
    with House() as h:
        for field, order in ORDERS.items():
            for more, expected in (((), order.split()), (("--reverse",), order.split()[::-1]), (("--top", "2"), order.split()[:2])):
                left, right = two(h)
                with left as l, right as r:
                    lines, _ = top(h, l, r, "--once", "--interval", "0.05", "--sort", field, *more)
                assert order_of(lines).split() == expected, (field, more, lines)


@rule
def a_running_nic_shows_its_traffic():
    with World() as w, House() as h:
        linked(h, w, "busy")
        h.nic(NULL, "--name", "idle")
        watch = Process([net.SPINDLE, "top", "busy", "idle", "--interval", "0.2", "--count", "1000"], env=h.environment())
        h.closing.append(watch.kill)
        seen, table = 0, []
        while seen < 3:  # tables with the echo's traffic
            ask_echo(20)
            line = watch.line()
            if line.startswith("NIC") and table:
                said = parts(table)
                assert [row["NIC"] for row in said["NIC"]] == ["busy", "idle"], table
                assert said["NIC"][1]["PKT/S"] == "0", table
                assert {row["NIC"] for row in said["WORKER"]} == {"busy", "idle"} and all(row["BUSY"].endswith("%") for row in said["WORKER"])
                echo = said["CONTEXT"][0]
                assert (echo["CONTEXT"], echo["NIC"], echo["HANDLER"]) == ("echo", "busy", "reflect"), table
                if number(echo["PKT/S"]) > 0 and number(echo["SENT/S"]) > 0:
                    assert number(said["NIC"][0]["PKT/S"]) > 0
                    seen += 1
                table = []
            table.append(line)
        watch.signal(signal.SIGINT)
        watch.end()


@rule
def on_a_terminal_it_is_live_and_keys_sort_it_until_q():
    with House() as h:
        left, right = two(h)
        with left as l, right as r:
            t = Terminal(h, 120, 40, l, r, "--interval", "1", command="top")
            t.drawn(1)
            assert keys_are_ours(t)
            for key, field in (("n", "name"), ("p", "packets"), ("c", "packets"), ("b", "bytes"), ("s", "share")):
                count = t.out.count(b"\033[J")
                os.write(t.near, key.encode())
                t.drawn(count + 1)
                shown = tables(t.out)[-1]
                assert shown[0].startswith("by %s; keys: a activity n name p packets b bytes d dropped s share, r reverse, q quit" % field), shown[0]
            os.write(t.near, b"q")
            assert t.end() == (0, "") and not keys_are_ours(t)


@rule
def a_nic_that_is_not_there_or_goes_is_an_error():
    with House() as h:
        _, err = top(h, "nowhere", status=1)
        assert "nowhere is not running" in err, err
        h.nic(NULL, "--name", "stays")
        for name, end, words in (("killed", signal.SIGKILL, "has died"), ("stopped", signal.SIGTERM, "has gone")):
            nic = h.nic(NULL, "--name", name)
            watch = Process([net.SPINDLE, "top", "stays", name, "--interval", "0.1", "--count", "100000"], env=h.environment())
            h.closing.append(watch.kill)
            line = watch.line()
            assert line.startswith("NIC"), "%r %s %s" % (line, watch.process.poll(), watch.stderr())
            nic.signal(end)
            watch.end(1)
            assert "NIC %s %s" % (name, words) in watch.stderr(), watch.stderr()


@plain
@rule
def wrong_usage_is_said_with_status_2():
    with House() as h:
        for words in (["a", "a"], ["--what"], ["--count"], ["--once=1"], ["x"] * 17):
            lines, err = top(h, *words, status=2)
            assert lines == [] and "usage:" in err, (words, err)
        for option, value in (("--interval", "0"), ("--count", "0"), ("--sort", "p99"), ("--top", "0")):
            lines, err = top(h, option, value, status=2)
            assert lines == [] and err.startswith("spindle top: %s must be " % option), err


if __name__ == "__main__":
    net.main()
