#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle stat` and DPDK's telemetry on a running NIC: what they say is what the kernel and tshark have counted on the
other end of the link, and what becomes of them when the NIC is not there, goes, or says rubbish."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import Fake, NULL, adds_up, ask_echo, linked, quiet, sample, stat  # noqa: E402
from net import NIC4, Skip, Sniffer, World, pk, plain, rule, tshark, until  # noqa: E402
from served import House, Process  # noqa: E402
from terminal import Terminal, keys_are_ours, tables  # noqa: E402

TELEMETRY = "dpdk-telemetry.py"


# ---- what it counts ------------------------------------------------------------------------------------------------------

@rule
def json_says_what_the_kernel_and_tshark_have_counted():
    with World() as w, House() as h:
        linked(h, w, "two", more="workers = 2", queues=2)
        ask_echo(1)  # neighbours are resolved
        kernel, nic = quiet(h, "two")
        sniffer = Sniffer("host0")
        ask_echo(40)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for _ in range(7):
                s.sendto(b"nobody's", (NIC4, 7778))
        until("the last one is counted", lambda: sample(h, "two")["drops"].get("no-match", 0) >=
              nic["drops"].get("no-match", 0) + 7)
        kernel2, nic2 = quiet(h, "two")
        frames = sniffer.stop()
        pk.write_capture(w.path("seen.pcap"), frames)
        asked = len(tshark(w.path("seen.pcap"), "udp.dstport == 7777", "frame.number"))
        answered = len(tshark(w.path("seen.pcap"), "udp.srcport == 7777", "frame.number"))
        assert (asked, answered) == (40, 40)

        def more(key, a=nic, b=nic2):
            return b.get(key, 0) - a.get(key, 0)
        assert [b - a for a, b in zip(kernel, kernel2)] == [more("packets"), more("bytes"), more("sent"), more("sent_bytes")], (
            kernel, kernel2, nic, nic2)
        assert more("packets") >= 47 and adds_up(nic2) and nic2["parked"] == 0
        one, two = nic["contexts"]["echo"], nic2["contexts"]["echo"]
        assert two["packets"] - one["packets"] == asked and two["sent"] - one["sent"] == answered
        lost = len(tshark(w.path("seen.pcap"), "udp.dstport == 7778", "frame.number"))
        assert lost == 7
        # of the kernel's own (multicast listener reports) some may have come too
        assert lost <= more("no-match", nic["drops"], nic2["drops"]) == more("packets") - more("taken") == more("dropped")
        assert nic2["name"] == "two" and len(nic2["workers"]) == 2 and all(adds_up(x) for x in nic2["workers"]), nic2
        assert sum(x["packets"] for x in nic2["workers"]) == nic2["packets"] == nic2["ports"][0]["packets"]
        for x in nic2["workers"]:
            assert 0 < x["running_us"] and 0 <= x["busy_us"] <= x["running_us"] and 0 <= x["busy_percent"] <= 100


@rule
def the_table_shows_ports_workers_drops_and_contexts():
    with World() as w, House() as h:
        linked(h, w, "spindle0")
        ask_echo(5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for _ in range(3):
                s.sendto(b"nobody's", (NIC4, 7778))
        until("the last one is counted", lambda: sample(h)["drops"].get("no-match", 0) >= 3)
        report, after = None, quiet(h, "spindle0")[1]
        while report is None or report["packets"] != after["packets"]:  # the kernel may say something of its own between
            report = after
            lines, _ = stat(h)  # not a terminal: once
            after = quiet(h, "spindle0")[1]
        tables = [[line.split() for line in text.split("\n")] for text in "\n".join(lines).split("\n\n")]
        by_head = {t[0][0]: t for t in tables}
        assert by_head["NIC"][1][:2] == ["spindle0", str(report["packets"])], lines
        assert by_head["PORT"][1][:2] == ["net_af_packet0", str(report["packets"])], lines
        assert by_head["WORKER"][1][0] == "0" and re.fullmatch(r"\d+%", by_head["WORKER"][1][1]), lines
        assert ["no-match", str(report["drops"]["no-match"])] in by_head["DROPPED"], lines
        assert by_head["CONTEXT"][1][:3] == ["echo", "reflect", "5"], lines
        assert not any("\033" in line or "PKT/S" in line for line in lines), "rates of one sample: %s" % lines
        lines, _ = stat(h, "--context", "echo")
        numbers = dict(line.split() for line in lines[1:])
        assert lines[0].split() == ["echo", "COUNT"] and numbers["packets"] == "5" and numbers["sent"] == "5", lines


@rule
def samples_come_one_a_line_and_never_go_back():
    with House() as h:
        h.nic(NULL + "[context all]\nhandler = count\nfilter = ip or not ip\n", "--name", "null",
              eal=("--vdev", "net_null0"))  # it has no end of packets
        lines, _ = stat(h, "--nic", "null", "--json", "--interval", "0.05", "--count", "5")
        samples = [json.loads(line) for line in lines]
        assert len(samples) == 5 and all(adds_up(s) for s in samples)
        for a, b in zip(samples, samples[1:]):
            assert a["packets"] < b["packets"] and a["time_ms"] < b["time_ms"]
            assert a["workers"][0]["running_us"] < b["workers"][0]["running_us"]
        assert samples[-1]["workers"][0]["busy_us"] > samples[0]["workers"][0]["busy_us"]
        lines, _ = stat(h, "null", "--interval", "0.05", "--count", "2")
        heads = [line.split() for line in lines if line.startswith("NIC")]
        assert len(heads) == 2 and "PKT/S" not in heads[0] and "PKT/S" in heads[1], lines
        assert "flows" in sample(h, "null", "--handlers")["contexts"]["all"]
        assert "flows" not in sample(h, "null")["contexts"]["all"]


@rule
def applications_are_told_apart_by_pid_and_shown_with_their_limits():
    with House() as h:
        nic = h.nic(NULL, "--name", "apps")
        apps = [h.app(nic, "hold") for _ in range(2)]
        for a in apps:
            assert a.line().startswith("qp ")
        report = sample(h, "apps")
        assert sorted(a["pid"] for a in report["applications"]) == sorted(a.pid for a in apps), report["applications"]
        assert all(a["uid"] == os.geteuid() and 0 < a["memory"] <= a["memory_limit"] and a["contexts"] == 1 and a["qps"] > 0 and
                   a["messages"] > 0 for a in report["applications"]), report["applications"]
        for a in apps:
            names = [n for n, c in report["contexts"].items() if c.get("application", {}).get("pid") == a.pid]
            assert len(names) == 1 and names[0].endswith("@%d" % a.pid), report["contexts"].keys()
            alone = sample(h, "apps", "--context", names[0])
            assert list(alone["contexts"]) == names
        lines, _ = stat(h, "apps")
        assert any(line.startswith("APPLICATION") for line in lines)
        row = next(line.split() for line in lines if line.split()[:1] == [str(apps[0].pid)])
        limit = sample(h, "apps")["applications"][0]["memory_limit"]
        assert limit >= 2 ** 30 and row[2].endswith("/%.2fG" % (limit / 2 ** 30)), row  # as a configuration has it
        apps[0].kill()
        until("its context has gone", lambda: len(sample(h, "apps")["contexts"]) == 1)
        assert [a["pid"] for a in sample(h, "apps")["applications"]] == [apps[1].pid]


# ---- the order of contexts -------------------------------------------------------------------------------------------------

def contexts(*rows):
    """A report of these contexts: name, packets, bytes, dropped, [[most cycles, packets], ...], overruns."""
    report = {"name": "x", "tsc_hz": 10 ** 9, "workers": [{"running_us": 10 ** 6, "contexts": {}}], "contexts": {}}
    for name, packets, size, dropped, histogram, overruns in rows:
        total = sum(most * n for most, n in histogram)
        report["contexts"][name] = {
            "handler": "h", "packets": packets, "bytes": size, "dropped": dropped, "condition": {"state": "enabled"},
            "cycles": {"turns": packets, "packets": packets, "total": total, "overruns": overruns, "histogram": histogram,
                       "max": max([most for most, n in histogram], default=0)}}
        report["workers"][0]["contexts"][name] = total
    return json.dumps(report).encode()


# Each is the first in something else.
FOUR = contexts(("delta", 40, 100, 3, [[63, 40]], 1),
                ("alpha", 10, 900, 2, [[255, 9], [1023, 1]], 4),
                ("gamma", 30, 300, 9, [[511, 1000]], 2),
                ("beta", 20, 200, 1, [[127, 5]], 3))
ORDERS = {"activity": "delta alpha gamma beta", "name": "alpha beta delta gamma", "packets": "delta gamma beta alpha",
          "bytes": "alpha gamma beta delta", "dropped": "gamma delta alpha beta", "cycles": "gamma alpha beta delta",
          "p99": "alpha gamma beta delta", "share": "gamma alpha delta beta", "overruns": "alpha beta gamma delta"}


def order_of(lines):
    """Names in the table of contexts."""
    at = [i for i, line in enumerate(lines) if line.startswith("CONTEXT")]
    assert len(at) == 1, lines
    names = []
    for line in lines[at[0] + 1:]:
        if not line.strip() or line.startswith("..."):
            break
        names.append(line.split()[0])
    return " ".join(names)


@rule
def contexts_are_sorted_by_what_is_asked_for():
    with House() as h, Fake(h, FOUR) as path:
        for field, order in ORDERS.items():
            lines, _ = stat(h, path, "--sort", field)
            assert order_of(lines) == order, (field, lines)
            lines, _ = stat(h, path, "--sort", field, "--reverse", "--top", "3")
            # what is equal stays as it is: of one sample, there is no activity yet
            back = order if field == "activity" else " ".join(reversed(order.split()))
            assert order_of(lines) == back.rsplit(" ", 1)[0], (field, lines)
        lines, _ = stat(h, path, "--sort", "p99")
        head = [line.split() for line in lines if line.startswith("CONTEXT")][0]
        row = dict(zip(head, [line.split() for line in lines if line.startswith("alpha")][0]))
        assert row["P99*"] == "1.02k" and row["CYCLES"] == "332" and row["MAX"] == "1.02k" and row["OVERRUNS"] == "4", row
        assert row["SHARE"] == "0.0%" and row["STATE"] == "enabled", row


@rule
def a_context_that_forwards_or_drops_all_has_had_packets_and_its_own_counters_are_pointed_to():
    report = {"name": "x", "contexts": {
        "filter": {"handler": "f", "packets": 0, "forwarded": 7, "dropped": 4, "counters": {"seen": 11},
                   "condition": {"state": "enabled"}},
        "other": {"handler": "f", "packets": 5, "forwarded": 0, "dropped": 0, "condition": {"state": "enabled"}}},
        "handlers": {"f": {"contexts": 2, "packets": 5, "forwarded": 7, "dropped": 4}}}
    hint = "what a context counts itself: --context NAME"
    with House() as h, Fake(h, json.dumps(report).encode()) as path:
        lines, _ = stat(h, path)
        rows = {line.split()[0]: line.split() for line in lines if line.strip()}
        column = rows["CONTEXT"].index
        assert [rows["filter"][column(c)] for c in ("PACKETS", "DROPPED", "FORWARDED")] == ["11", "4", "7"], lines
        assert [rows["other"][column(c)] for c in ("PACKETS", "DROPPED", "FORWARDED")] == ["5", "0", "0"], lines
        assert rows["f"][rows["HANDLER"].index("PACKETS")] == "16" and hint in lines, lines
        assert order_of(stat(h, path, "--sort", "packets")[0]) == "filter other"
        lines, _ = stat(h, path, "--context", "filter")
        assert ["counters.seen", "11"] in [line.split() for line in lines] and hint not in lines, lines
    del report["contexts"]["filter"]["counters"]
    with House() as h, Fake(h, json.dumps(report).encode()) as path:
        assert hint not in stat(h, path)[0]


@rule
def what_contexts_are_called_and_cost_does_not_break_the_table():
    odd = json.loads(FOUR)
    for name, cycles in (("no-cycles", None), ("words", {"histogram": "x", "turns": "y"}), ("pairs", {"histogram": [1, [], [None], [3, 4, 5]]}),
                         ("above", {"turns": 3, "total": 9, "max": 8, "histogram": [[7, 1], [None, 2]]})):
        odd["contexts"][name] = {"handler": None, "cycles": cycles, "condition": 7}
    odd["faults"] = [{"context": "a\u001bb", "handler": "h", "function": "payload", "worker": 0, "ago_ms": 1500, "lasted_ms": 1500,
                      "stopped": True, "runs": True, "fatal": False}, 3, {}]
    with House() as h, Fake(h, json.dumps(odd).encode()) as path:
        for field in ORDERS:
            lines, _ = stat(h, path, "--sort", field)
            assert len(order_of(lines).split()) == 8, lines
        assert any(line.split()[:4] == ["a?b", "h", "payload", "0"] and line.endswith("still there, runs") for line in lines), lines


# ---- a terminal ----------------------------------------------------------------------------------------------------------

@rule
def on_a_terminal_the_table_is_live_until_ctrl_c():
    with House() as h:
        h.nic(NULL, "--name", "live")
        for columns, rows in ((100, 40), (40, 12), (20, 4)):
            t = Terminal(h, columns, rows, "live", "--interval", "0.05")
            t.drawn(3)
            os.write(t.near, b"\x03")
            status, err = t.end()
            assert (status, err) == (0, ""), (status, err)
            for table in t.out.split(b"\033[J")[:-1]:
                lines = table.split(b"\n")[:-1]
                assert 1 <= len(lines) < rows, "%d lines on %d rows" % (len(lines), rows)
                for line in lines:
                    shown = re.sub(rb"\033\[\d*[A-Z]|\r|\^C", b"", line)
                    assert len(shown) <= columns, "%d columns are too few for %r" % (columns, shown)
            if columns == 100:
                assert b"PKT/S" in t.out and b"WORKER" in t.out and b"live" in t.out


@rule
def keys_sort_the_live_table_at_once():
    with House() as h, Fake(h, FOUR) as path:
        t = Terminal(h, 150, 40, path, "--interval", "600")
        t.drawn(1)
        assert order_of(tables(t.out)[-1]) == ORDERS["activity"]
        backwards = False
        for key, field in (("n", "name"), ("p", "packets"), ("b", "bytes"), ("r", "bytes"), ("d", "dropped"), ("c", "cycles"), ("9", "p99"),
                           ("s", "share"), ("o", "overruns"), ("r", "overruns"), ("n", "name")):
            count = t.out.count(b"\033[J")
            os.write(t.near, b"\033[9;9~\033Ox" if key == "d" else b"")  # keys that are none
            os.write(t.near, key.encode())
            t.drawn(count + 1)
            backwards ^= key == "r"
            shown = tables(t.out)[-1]
            assert order_of(shown).split() == (ORDERS[field].split()[::-1] if backwards else ORDERS[field].split()), (key, shown)
            assert shown[0].startswith("by %s%s; keys:" % (field, ", the least first" if backwards else "")), shown[0]
        os.write(t.near, b"q")
        status, err = t.end()
        assert (status, err) == (0, "") and not keys_are_ours(t)


@rule
def the_terminal_is_given_back_however_it_ends():
    with House() as h, Fake(h, FOUR) as path:
        for way in (b"q", b"\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, None):
            with Fake(h, FOUR) as fake:
                t = Terminal(h, 80, 24, fake, "--interval", "600")
                t.drawn(1)
                assert keys_are_ours(t)
                if isinstance(way, bytes):
                    os.write(t.near, way)
                elif way:
                    t.process.send_signal(way)
                if way:
                    assert t.end() == (0, "")
            if not way:  # the NIC has died
                status, err = t.end()
                assert status == 1 and "has died" in err, err
            assert not keys_are_ours(t), "the terminal stays raw after %r" % way


@rule
def a_stopped_table_leaves_the_terminal_to_the_shell():
    with House() as h, Fake(h, FOUR) as path:
        t = Terminal(h, 80, 24, path, "--interval", "600")
        t.drawn(1)
        for _ in range(2):
            t.process.send_signal(signal.SIGTSTP)
            until("it has stopped", lambda: os.waitid(os.P_PID, t.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
            assert not keys_are_ours(t)
            t.process.send_signal(signal.SIGCONT)
            until("it goes on", lambda: keys_are_ours(t))
        count = t.out.count(b"\033[J")
        os.write(t.near, b"n")
        t.drawn(count + 1)
        assert order_of(tables(t.out)[-1]) == ORDERS["name"]
        os.write(t.near, b"q")
        assert t.end() == (0, "")


# ---- there is no NIC, or none any more -----------------------------------------------------------------------------------

@rule
def a_nic_that_does_not_run_is_an_error():
    with House() as h:
        lines, err = stat(h, status=1)
        assert lines == [] and "spindle0 is not running" in err and h.path("sockets") in err, err
        assert "'spindle run' starts one" in err, err
        lines, err = stat(h, "other", "--json", status=1)
        assert lines == [] and "other is not running" in err, err
        _, err = stat(h, "no/such/path", status=1)
        assert "not running" in err, err
        h.nic(NULL, "--name", "left")
        h.nic(NULL, "--name", "right")
        _, err = stat(h, status=1)  # it says how the others are called
        assert re.search("spindle0 is not running.*; these run: (left, right|right, left)$", err.strip()), err
        _, err = stat(h, "a b", status=1)
        assert "no name" in err, err
        path = h.path("stale")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(path)
        _, err = stat(h, path, status=1)
        assert "not running" in err, err


@rule
def a_nic_that_goes_ends_it_with_an_error():
    with House() as h:
        for name, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGTERM)):
            nic = h.nic(NULL, "--name", name)
            watch = Process([net.SPINDLE, "stat", name, "--json", "--interval", "600"], env=h.environment())
            h.closing.append(watch.kill)
            assert json.loads(watch.line())["name"] == name
            nic.signal(number)
            watch.end(1)  # at once, not in ten minutes
            assert name + (" has died" if number == signal.SIGKILL else " has gone") in watch.stderr(), watch.stderr()


@rule
def a_context_that_is_not_there_is_an_error():
    with House() as h:
        h.nic(NULL, "--name", "bare")
        for name in ("nothing", "nothing@1", "x" * 90, "x" * 5000):
            lines, err = stat(h, "bare", "--context", name, status=1)
            assert lines == [] and err.strip(), err
        assert "has no context nothing" in stat(h, "bare", "--context", "nothing", status=1)[1]


@plain
@rule
def wrong_usage_is_said_with_status_2():
    with House() as h:
        for words in (["--reverse", "--json"], ["--top", "3", "--openmetrics"], ["--sort", "name", "--listen", "1"], ["--json", "--openmetrics"],
                      ["--listen", "1", "--count", "2"], ["--openmetrics", "--interval", "1"], ["a", "b"], ["a", "--nic", "b"], ["a", "-n", "b"], ["--handlers"], ["--what"], ["--nic"], ["--once=1"]):
            lines, err = stat(h, *words, status=2)
            assert lines == [] and "usage:" in err, (words, err)
        for option, value in (("--interval", "0"), ("--interval", "x"), ("--interval", "nan"), ("--count", "0"), ("--count", "1.5"),
                              ("--context", ""), ("--sort", "colour"), ("--top", "0"), ("--listen", "x"), ("--listen", "65536"), ("--listen", "::1"),
                              ("--listen", "localhost:1"), ("--listen", "[::1]"), ("--listen", ":1"), ("--listen", "")):
            lines, err = stat(h, option, value, status=2)
            assert lines == [] and err.startswith("spindle stat: %s must be " % option) and "usage:" not in err, (option, value, err)
        lines, err = stat(h, "--help")
        assert lines[0].startswith("usage: spindle stat") and err == ""


# ---- a NIC that says rubbish ---------------------------------------------------------------------------------------------

@rule
def rubbish_from_a_nic_is_an_error_and_harms_nothing():
    good = b'{"name": "x", "packets": 1}'
    with House() as h:
        with Fake(h, good) as path:
            assert sample(h, path)["packets"] == 1
        for rubbish in ({"text": b"{"}, {"text": b"[]"}, {"text": b"\xFF\xFE"}, {"text": good, "size": 1 << 40}, {"text": good, "size": 4096 * 9},
                        {"text": good, "size": 0}, {"text": good, "seals": 0}, {"text": good, "fds": 0}):
            with Fake(h, **rubbish) as path:
                lines, err = stat(h, path, status=1)
                assert lines == [] and "malformed" in err, (rubbish, err)
        # What is no report but JSON: tables of nothing.
        for text in (b'{"ports": 7, "workers": {"a": 1}, "contexts": [1, 2], "drops": [3], "applications": [4, [5]]}',
                     b'{"name": 7, "packets": "x", "ports": [[], null, {"device": 3}], "contexts": {"a": 5, "b": {"handler": []}}}'):
            with Fake(h, text) as path:
                lines, _ = stat(h, path)
                assert lines[0].startswith("NIC"), lines


@rule
def names_cannot_steer_the_terminal():
    name = "a\\u001b[2J\\u0007b\\u009bc \\u00e9"
    text = '{"name": "%s", "contexts": {"%s": {"handler": "%s", "packets": 3}}, "drops": {"%s": 1}}' % (name, name, name, name)
    with House() as h, Fake(h, text.encode()) as path:
        for arguments in ((), ("--context", "x")):
            lines, _ = stat(h, path, *arguments)
            assert "a?[2J?b" in "\n".join(lines) and all(0x20 <= ord(c) < 0x7F for line in lines for c in line), lines
        lines, _ = stat(h, path, "--json")
        assert all(0x20 <= ord(c) < 0x7F for c in lines[0]) and json.loads(lines[0]) == dict(json.loads(text), time_ms=json.loads(lines[0])["time_ms"])


# ---- DPDK's telemetry ----------------------------------------------------------------------------------------------------

def telemetry(house, name, *commands):
    """The answers, by DPDK's own script."""
    if not shutil.which(TELEMETRY):
        raise Skip(TELEMETRY + " (Debian's dpdk-dev) is not installed")
    run = subprocess.run([TELEMETRY, "-f", "spindle-" + name], input="".join(c + "\n" for c in commands) + "quit\n", text=True,
                         env=house.environment(), capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(commands), run.stdout
    return [list(a.values())[0] for a in answers]


def flat(value):
    """As DPDK's telemetry writes it: names of letters, digits and _; neither lists inside nor null."""
    return {re.sub("[^0-9A-Za-z]", "_", k): flat(v) if isinstance(v, dict) else v for k, v in value.items()
            if v is not None and not isinstance(v, list)}


@rule
def telemetry_says_the_same_as_json():
    with World() as w, House() as h:
        linked(h, w, "tell", more="workers = 2", queues=2)
        ask_echo(9)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for _ in range(3):
                s.sendto(b"nobody's", (NIC4, 7778))
        until("the last one is counted", lambda: sample(h, "tell")["drops"].get("no-match", 0) >= 3)
        for _ in range(20):  # the kernel may send something of its own between two answers
            _, report = quiet(h, "tell")
            answers = telemetry(h, "tell", "/spindle/nic", "/spindle/drops", "/spindle/ports", "/spindle/port,0", "/spindle/workers",
                                "/spindle/worker,0", "/spindle/worker,1", "/spindle/contexts", "/spindle/context,echo")
            _, after = quiet(h, "tell")
            if after["packets"] == report["packets"]:
                break
        nic, drops, ports, port, workers, one, two, contexts, echo = answers
        del report["uptime_s"], report["time_ms"], nic["uptime_s"]
        assert nic == {k: v for k, v in report.items() if not isinstance(v, (dict, list))}, (nic, report)
        assert drops == flat(report["drops"]) and drops["no_match"] >= 3, drops
        assert ports == [0] and workers == [0, 1] and contexts == ["echo"]
        assert port == flat(report["ports"][0]), (port, report["ports"])
        for said, there in ((one, report["workers"][0]), (two, report["workers"][1])):
            steady = [k for k in there if not k.startswith(("polls", "busy", "running", "sleeps", "woken"))]
            assert [said[k] for k in steady] == [there[k] for k in steady], (said, there)
            assert said["polls"] > there["polls"]
        assert echo == flat(report["contexts"]["echo"]), (echo, report["contexts"])


@rule
def telemetry_answers_null_to_what_is_not_there():
    with House() as h:
        h.nic(NULL, "--name", "tell")
        for answer in telemetry(h, "tell", "/spindle/port", "/spindle/port,7", "/spindle/port,-1", "/spindle/port,x", "/spindle/worker,1",
                                "/spindle/worker,99999999999999999999", "/spindle/context", "/spindle/context,none"):
            assert answer is None, answer
        assert telemetry(h, "tell", "/spindle/contexts") == [[]]


if __name__ == "__main__":
    net.main()
