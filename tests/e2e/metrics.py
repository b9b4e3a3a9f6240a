#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle stat --openmetrics` and `--listen`: an independent parser, Prometheus's own for Python, reads in the text what
the NIC's JSON says, also over HTTP, and whatever contexts are called."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import ECHO, Fake, NULL, ask_echo, linked, quiet, sample, stat  # noqa: E402
from net import NIC4, Skip, World, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
except ImportError:
    parse = None

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def families(text):
    """Name -> family, as the parser has it, which refuses what is no OpenMetrics."""
    if parse is None:
        raise Skip("python3-prometheus-client is not installed")
    found = {}
    for family in parse(text):
        assert family.name not in found, "two of " + family.name
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
        assert family.unit == "" or family.name.endswith("_" + family.unit), family
        found[family.name] = family
    return found


def metrics(house, *arguments):
    lines, err = stat(house, *arguments, "--openmetrics")
    assert err == "" and lines[-1] == "# EOF", lines[-3:]
    return families("\n".join(lines) + "\n")


def value(found, name, **labels):
    """Of the one sample of that name that has these labels (and maybe more)."""
    family = found[re.sub("_(total|bucket|count|sum)$", "", name) if name not in found else name]
    fit = [s.value for s in family.samples if s.name == name and labels.items() <= s.labels.items()]
    assert len(fit) == 1, "%d samples of %s %s" % (len(fit), name, labels)
    return fit[0]


def same(found, name, expected, **labels):
    got = value(found, name, **labels)
    assert got == expected, "%s %s is %s, not %s" % (name, labels, got, expected)


def counts_of_contexts(report):
    """(labels, object) of all contexts and their companions."""
    for name, one in report["contexts"].items():
        yield {"context": name, "role": "context", "handler": one["handler"]}, one
        if "companion" in one:
            yield {"context": name, "role": "companion", "handler": one["companion"]["handler"]}, one["companion"]


def compare(report, found):
    """Everything that both say. Returns how many values that were."""
    n = 0
    nic = {"nic": report["name"]}

    def check(name, expected, **labels):
        nonlocal n
        n += 1
        same(found, name, expected, **nic, **labels)
    for key, name in (("packets", "received_packets"), ("bytes", "received_bytes"), ("sent", "sent_packets"), ("sent_bytes", "sent_bytes"),
                      ("taken", "taken_packets"), ("answered", "answered_packets"), ("forwarded", "forwarded_packets"),
                      ("dropped", "dropped_packets")):
        check("spindle_%s_total" % name, report[key])
    check("spindle_parked_packets", report["parked"])
    check("spindle_memory_bytes", report["memory_used"])
    check("spindle_tsc_hertz", report["tsc_hz"])
    for reason, count in report["drops"].items():
        check("spindle_drops_total", count, reason=reason)
    for i, port in enumerate(report["ports"]):
        for key, name in (("packets", "received_packets"), ("bytes", "received_bytes"), ("sent", "sent_packets"), ("missed", "missed_packets")):
            check("spindle_port_%s_total" % name, port[key], port=str(i), device=port["device"])
    for i, worker in enumerate(report["workers"]):
        for key, name in (("packets", "packets"), ("taken", "taken_packets"), ("dropped", "dropped_packets"), ("cycles", "handler_cycles")):
            check("spindle_worker_%s_total" % name, worker[key], worker=str(i))
        for context, cycles in worker["contexts"].items():
            check("spindle_worker_context_cycles_total", cycles, worker=str(i), context=context)
    for labels, one in counts_of_contexts(report):
        for key in ("packets", "bytes", "errors", "dma_faults", "events_lost", "kept_refused", "sent_bytes"):
            check("spindle_context_%s_total" % key, one[key], **labels)
        check("spindle_context_sent_packets_total", one["sent"], **labels)
        check("spindle_context_dropped_packets_total", one["dropped"], **labels)
        for kind, label in (("verdicts", "verdict"), ("drops", "reason"), ("counters", "counter")):
            for key, count in one[kind].items():
                check("spindle_context_%s_total" % kind, count, **labels, **{label: key})
        if labels["role"] == "context":
            check("spindle_context_weight", one["limits"]["weight"], **labels)
            check("spindle_context_disabled_total", one["condition"]["disabled"], **labels)
            check("spindle_context_enabled", one["condition"]["state"] == "enabled", **labels)
        cycles = one["cycles"]
        check("spindle_context_turns_total", cycles["turns"], **labels)
        check("spindle_context_overruns_total", cycles["overruns"], **labels)
        check("spindle_context_packet_cycles_count", sum(c for _, c in cycles["histogram"]), **labels)
        check("spindle_context_packet_cycles_sum", cycles["total"], **labels)
        buckets = [s for s in found["spindle_context_packet_cycles"].samples if s.name.endswith("_bucket") and labels.items() <= s.labels.items()]
        assert len(buckets) > 20 and buckets[-1].labels["le"] == "+Inf", buckets
        for bucket in buckets:
            at = float(bucket.labels["le"])
            expected = sum(c for most, c in cycles["histogram"] if at == float("inf") or (most is not None and most <= at))
            assert bucket.value == expected, (labels, bucket, cycles)
            n += 1
    return n


# ---- the text ------------------------------------------------------------------------------------------------------------

@rule
def the_text_says_what_json_says():
    count = "[context all]\nhandler = count\nfilter = udp port 7000\nweight = 3\nbudget = 1\n"
    with World() as w, House() as h:
        linked(h, w, "both", more="workers = 2", queues=2, context=ECHO + count)
        ask_echo(40)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for i in range(30):
                s.sendto(b"counted", (NIC4, 7000 if i < 20 else 7001))
        until("all have come", lambda: sample(h, "both")["contexts"]["all"]["packets"] == 20)
        for _ in range(20):  # the kernel may send something of its own between the two
            _, report = quiet(h, "both")
            found = metrics(h, "both")
            if sample(h, "both")["packets"] == report["packets"]:
                break
        compared = compare(report, found)
        assert compared > 100, compared
        echo, every = report["contexts"]["echo"], report["contexts"]["all"]
        assert echo["verdicts"] == {"done": 0, "end": 0, "answered": 40, "forwarded": 0, "dropped": 0, "errors": 0}, echo
        assert every["verdicts"]["done"] == 20 == every["packets"] and every["limits"]["weight"] == 3, every
        for one, packets in ((echo, 40), (every, 20)):
            cycles = one["cycles"]
            assert cycles["packets"] == packets == sum(n for _, n in cycles["histogram"]) and 1 <= cycles["turns"] <= packets, one
            assert 0 < cycles["min"] <= cycles["mean"] <= cycles["max"] and cycles["min"] <= cycles["p99"] <= cycles["max"], cycles
        assert every["cycles"]["overruns"] == 20 and every["limits"] == {"weight": 3, "budget": 1, "overrun": "count"}, every
        # Whose a worker's cycles are: of all workers together, those of the context.
        for name in ("echo", "all"):
            assert sum(x["contexts"].get(name, 0) for x in report["workers"]) == report["contexts"][name]["cycles"]["total"]
        for x in report["workers"]:
            assert x["cycles"] == sum(x["contexts"].values())
            assert x["cycles"] <= x["running_us"] * report["tsc_hz"] / 1e6, "more than all of its time"
        both = report["handlers"]
        assert both["reflect"]["cycles"]["total"] == echo["cycles"]["total"] and both["count"]["verdicts"] == every["verdicts"], both


# ---- the dashboard -------------------------------------------------------------------------------------------------------

DASHBOARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "grafana.json")
# What PromQL has beside names of metrics and labels; another word fails, so that no misspelt metric passes for a function.
PROMQL = {"sum", "rate", "histogram_quantile", "label_values"}


def named(query):
    """The metrics of a PromQL query, each with the labels that the query wants of it."""
    if " / " in query:  # each side by itself, and both with the labels that they are joined by
        join = set(re.findall(r" / on \((\w+)\)", query))
        return [(name, labels | join) for side in re.split(r" / (?:on \(\w+\) group_left \(\) )?", query) for name, labels in named(side)]
    by = {label for part in re.findall(r"\bby \(([^)]*)\)", query) for label in part.split(", ")}
    left = re.sub(r"\bby \([^)]*\)", " ", query)
    values = re.fullmatch(r"label_values\((.*), (\w+)\)", left)
    if values:
        left, by = values[1], {values[2]}
    found = []
    for name, labels in re.findall(r"\b(spindle_\w+)(?:\{([^}]*)\})?", left):
        found.append((name, by | {match.split("=")[0] for match in (labels or "").split(",") if match}))
    rest = re.sub(r"\bspindle_\w+(\{[^}]*\})?|\[\$__rate_interval\]", " ", left)
    assert set(re.findall(r"[A-Za-z_]\w*", rest)) <= PROMQL, rest
    assert found and query.count("(") == query.count(")"), query
    return found


@rule
def the_dashboard_asks_for_what_there_is():
    with open(DASHBOARD, encoding="utf-8") as f:
        board = json.load(f)
    panels = [p for p in board["panels"] if p["type"] != "row"]
    queries = [(p["title"], t["expr"], t["legendFormat"]) for p in panels for t in p["targets"]]
    variables = [(v["name"], v["query"]["query"], "") for v in board["templating"]["list"] if v["type"] == "query"]
    assert len(queries) > 15 and len(variables) == 2, queries
    with World() as w, House() as h:
        linked(h, w, "seen")
        ask_echo(3)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"nobody's", (NIC4, 7001))
        until("it is dropped", lambda: sample(h, "seen")["drops"].get("no-match"))
        served = Process([net.SPINDLE, "rvma", "listen", "-n", "seen", "--mailbox", "1", "--size", "64"], env=h.environment())
        h.closing.append(served.kill)
        until("it is attached", lambda: sample(h, "seen")["applications"])
        found = metrics(h, "seen")
    samples = [s for family in found.values() for s in family.samples]
    for title, query, legend in queries + variables:
        wanted = named(query)
        for name, labels in wanted:
            there = [s for s in samples if s.name == name]
            assert there, "%s: there is no metric %s" % (title, name)
            assert any(labels <= set(s.labels) for s in there), "%s: %s has %s, not %s" % (title, name, sorted(there[0].labels), sorted(labels))
        # A legend has only what the query leaves.
        shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
        by = re.search(r"\bby \(([^)]*)\)", query)
        left = set(by[1].split(", ")) if by else {label for s in samples if s.name == wanted[0][0] for label in s.labels}
        assert shown <= left, "%s: the legend's %s are not in %s" % (title, shown, left)
    names = {"nic", "context", "source"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board))) - {"__rate_interval", "__all"}
    assert used == names == {v["name"] for v in board["templating"]["list"]}, used
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])


@rule
def of_one_context_alone_there_is_nothing_else():
    with House() as h:
        h.nic(NULL + "[context one]\nhandler = count\nfilter = tcp\n[context two]\nhandler = count\nfilter = udp\n", "--name", "some")
        found = metrics(h, "some", "--context", "two")
        assert {s.labels["context"] for f in found.values() for s in f.samples if f.name.startswith("spindle_context_")} == {"two"}
        assert "spindle_received_packets" not in found and "spindle_worker_packets" not in found
        assert "has no context" in stat(h, "some", "--openmetrics", "--context", "three", status=1)[1]


HOSTILE = ['a"b', "a\\b", "a\nb", "a\\nb", '\\"', "} 7\nspindle_drops_total{x=\"y\"} 9", "é\u2028☃", "a\rb\tc", "", " ", '",le="1', "\x7f\x01"]


@rule
def names_cannot_break_the_text():
    context = {"handler": 'h"\\\n', "packets": 1, "drops": {'r"\n': 2}, "counters": {"c\\": 3}, "cycles": {"total": 4, "histogram": [[5, 1]]}}
    context["companion"] = {"handler": "beside", "packets": 5}
    report = {"name": 'n"\\\nic', "packets": 7, "drops": {name: i for i, name in enumerate(HOSTILE)}, "ports": [{"device": 'd"\n\\', "packets": 8}],
              "workers": [{"contexts": {name: 10 + i for i, name in enumerate(HOSTILE)}}], "contexts": {name: context for name in HOSTILE}}
    with House() as h, Fake(h, json.dumps(report).encode()) as path:
        run = subprocess.run([net.SPINDLE, "stat", path, "--openmetrics"], env=h.environment(), capture_output=True, timeout=60)
        assert run.returncode == 0 and run.stderr == b"", run.stderr
        found = families(run.stdout.decode())
        same(found, "spindle_received_packets_total", 7, nic='n"\\\nic')
        same(found, "spindle_port_received_packets_total", 8, device='d"\n\\')
        for i, name in enumerate(HOSTILE):
            same(found, "spindle_drops_total", i, reason=name)
            same(found, "spindle_worker_context_cycles_total", 10 + i, worker="0", context=name)
            same(found, "spindle_context_packets_total", 1, context=name, handler='h"\\\n', role="context")
            same(found, "spindle_context_packets_total", 5, context=name, handler="beside", role="companion")
            same(found, "spindle_context_drops_total", 2, context=name, reason='r"\n')
            same(found, "spindle_context_counters_total", 3, context=name, counter="c\\")
            same(found, "spindle_context_packet_cycles_bucket", 1, context=name, le="15.0")
        assert len(found["spindle_drops"].samples) == len(HOSTILE)


@rule
def an_application_with_hostile_names_and_several_attachments():
    with House() as h:
        report = {"name": "x", "applications": [{"pid": 5, "uid": 1, "memory": 3, "qps": 1}, {"pid": 6, "uid": 1, "memory": 4},
                                                {"pid": 5, "uid": 1, "memory": 10, "qps": 2}]}
        with Fake(h, json.dumps(report).encode()) as path:
            found = metrics(h, path)
            same(found, "spindle_application_memory_bytes", 13, pid="5", uid="1")
            same(found, "spindle_application_qps", 3, pid="5")
            same(found, "spindle_application_memory_bytes", 4, pid="6")


@rule
def rubbish_gives_a_text_that_can_be_read():
    for text in ('{"name": 7, "ports": 7, "workers": {"a": 1}, "contexts": [1, 2], "drops": [3], "applications": [4, [5]]}',
                 '{"packets": -1, "contexts": {"a": 5, "b": {"handler": [], "cycles": {"histogram": [1, [], [2], [null, 3], ["x", 4]], "total": "x"}}}}',
                 '{"packets": 1e300, "workers": [7, {"contexts": 3, "stopped": 9, "running_us": 1.5}]}'):
        with House() as h, Fake(h, text.encode()) as path:
            metrics(h, path)


# ---- over HTTP -----------------------------------------------------------------------------------------------------------

class Served:
    """spindle stat --listen."""

    def __init__(self, house, *arguments, address="0"):
        self.process = Process([net.SPINDLE, "stat", *arguments, "--listen", address], env=house.environment())
        house.closing.append(self.process.kill)
        match = re.fullmatch(r"NIC (\S+): http://(\S+):(\d+)/metrics", self.process.line())
        assert match, self.process.stderr()
        self.nic, self.host, self.port = match[1], match[2].strip("[]"), int(match[3])

    def ask(self, path="/metrics", method="GET", body=None):
        """Status, headers, text."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, body=body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def raw(self, data):
        """Until the end of the connection."""
        with socket.create_connection((self.host, self.port), timeout=60) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:  # it has had enough
                pass


@rule
def every_scrape_asks_the_nic_anew():
    with World() as w, House() as h:
        linked(h, w, "web")
        server = Served(h, "web")
        assert server.nic == "web" and server.host == "127.0.0.1"
        for n in (1, 2):
            ask_echo(10)
            quiet(h, "web")
            status, headers, text = server.ask()
            assert (status, headers["Content-Type"]) == (200, TYPE), (status, headers)
            same(families(text), "spindle_context_packets_total", 10 * n, context="echo", nic="web")
        status, headers, text = server.ask(method="HEAD")
        assert status == 200 and text == "" and int(headers["Content-Length"]) > 1000
        server.process.signal(signal.SIGTERM)
        assert server.process.end(0) == []


@rule
def what_is_not_there_is_404_and_only_get_is_taken():
    with House() as h:
        h.nic(NULL, "--name", "web")
        server = Served(h, "web", address="[::1]:0")
        assert server.host == "::1"
        for path in ("/", "/metrics/", "/metric", "//metrics", "/metrics/../x", "/%00"):
            assert server.ask(path)[0] == 404, path
        assert server.ask("/metrics?name=x")[0] == 200
        for method, body in (("POST", b"x" * 200000), ("PUT", b"x"), ("DELETE", None), ("WHAT", None)):
            status, headers, _ = server.ask(method=method, body=body)
            assert status == 405 and headers["Allow"] == "GET, HEAD", (method, status)
        for rubbish in (b"\n\n", b"\x00" * 5000, b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
                        b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
            server.raw(rubbish)
        assert server.ask()[0] == 200
        server.process.signal(signal.SIGINT)
        server.process.end(0)


@rule
def a_nic_that_has_gone_is_503_until_it_is_back():
    with House() as h:
        server = Served(h, "web")  # it may begin before the NIC
        for number in (signal.SIGTERM, signal.SIGKILL):
            status, _, text = server.ask()
            assert status == 503 and "web is not running" in text, (status, text)
            nic = h.nic(NULL, "--name", "web")
            assert server.ask()[0] == 200
            nic.signal(number)
            nic.end(0 if number == signal.SIGTERM else -number)
        assert server.ask()[0] == 503
        server.process.signal(signal.SIGTERM)
        server.process.end(0)


@rule
def a_nic_that_hangs_does_not_hold_up_the_end():
    with House() as h:
        path = h.path("hangs")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(path)
            s.listen(4)  # and never an answer
            server = Served(h, path)
            with socket.create_connection((server.host, server.port), timeout=60) as scraper:
                scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                there, _ = s.accept()
                with there:
                    assert there.recv(65536)  # it has been asked
                    began = time.monotonic()
                    server.process.signal(signal.SIGTERM)
                    server.process.end(0)
                    assert time.monotonic() - began < 25, "it waits as long as for a NIC"


@rule
def connections_are_bounded_and_idle_ones_hold_nobody_up_for_ever():
    with House() as h:
        h.nic(NULL, "--name", "web")
        server = Served(h, "web")
        idle = []
        try:
            for _ in range(60):  # more than there may be: those are closed
                s = socket.create_connection((server.host, server.port), timeout=60)
                s.sendall(b"GET /met")
                idle.append(s)
            fds, most = "/proc/%d/fd" % server.process.pid, 0
            until("as many as may be are there", lambda: len(os.listdir(fds)) >= 32)
            for _ in range(20):
                most = max(most, len(os.listdir(fds)))
                time.sleep(0.02)
            assert most < 50, os.listdir(fds)
            until("they are let go of", lambda: not [1 for s in idle if not gone(s)], timeout=120)
        finally:
            for s in idle:
                s.close()
        assert server.ask()[0] == 200


@rule
def those_that_say_a_byte_now_and_then_do_not_have_their_places_for_ever():
    with House() as h:
        h.nic(NULL, "--name", "web")
        server = Served(h, "web")
        slow, began = [], time.monotonic()
        try:
            for _ in range(32):  # all places
                s = socket.create_connection((server.host, server.port), timeout=60)
                s.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                slow.append(s)

            def drip():
                for s in slow:
                    with contextlib.suppress(OSError):
                        s.send(b"a")
                return all(gone(s) for s in slow)
            until("they are let go of, though none has been idle", drip, timeout=60)
            assert time.monotonic() - began > 5
        finally:
            for s in slow:
                s.close()
        assert server.ask()[0] == 200


def gone(s):
    s.setblocking(False)
    try:
        return s.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@rule
def an_address_that_is_taken_is_an_error():
    with House() as h:
        h.nic(NULL, "--name", "web")
        server = Served(h, "web")
        _, err = stat(h, "web", "--listen", "127.0.0.1:%d" % server.port, status=1)
        assert "in use" in err, err
        _, err = stat(h, "web", "--listen", "203.0.113.9:0", status=1)
        assert "--listen 203.0.113.9:0" in err, err


if __name__ == "__main__":
    net.main()
