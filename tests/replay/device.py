#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle replay --device and spindle device: starts, waits and ends of calls as a recursion of this script's own has them,
frames that leave as late as it says, the same each time, and mistakes that are named: device.py SPINDLE. TAP."""

import configparser
import json
import math
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import packets as pk  # noqa: E402
from replay import NIC, equal, main, rule  # noqa: E402

PCAPS = os.path.join(HERE, "..", "..", "pcaps")
START = 1700000000000000000
ECHO = NIC + "[context echo]\nhandler = reflect\nfilter = udp port 9\n"
ARRIVE, DEPART, RATE = 13, 7, 8  # ns, ns, Gbit/s: 1 ns a byte
DEVICE = """[device]
cores = %d
clock = 1GHz
arrive = 13ns
arrive-rate = 8G
depart = 7ns
depart-rate = 8G
line-rate = 100G
packet-overhead = 24
"""


def datagram(number, size):
    return pk.ethernet(pk.ipv4(pk.udp(bytes([number % 256]) * size, sport=1000 + number, dport=9)), 0x0800)


def traffic(seed, count, gap):
    """[(ns, frame)] of datagrams that reflect answers."""
    draw = random.Random(seed)
    at, packets = 0, []
    for i in range(count):
        packets.append((at, datagram(i, draw.randrange(40, 1400))))
        at += draw.randrange(gap)
    return packets


def model(packets, cores, cycles):
    """[(start, end, sent)] in ns, first come, first served by that many cores; the wait of each for a core."""
    free = [0] * cores  # when each core has ended what it has
    times, waits = [], []
    for at, frame in packets:
        ready = at + ARRIVE + len(frame)
        start = max(min(free), ready)
        free.remove(min(free))
        free.append(start + cycles)
        times.append((start, start + cycles, start + cycles + DEPART + len(frame)))
        waits.append(start - ready)
    return times, waits


def run(runner, packets, device, *options, name="in"):
    ini = runner.write("nic.ini", ECHO)
    capture = pk.write_capture(runner.path(name + ".pcap"), packets)
    sent = runner.path(name + "-sent.pcap")
    process = runner.command("replay", "-c", ini, "--json", "--device", runner.write("d.ini", device), "-w", sent, *options,
                             capture)
    equal((process.returncode, process.stderr), (0, ""))
    return json.loads(process.stdout), [(at - START, frame) for at, frame in pk.read_capture(sent)]


def close(got, expected, what):
    assert abs(got - expected) <= 1e-6 * max(1, abs(expected)), "%s: got %r, expected %r" % (what, got, expected)


@rule("occupancy, waits, latency and cores for line rate are those of the recursion")
def numbers(runner):
    for cores, cycles in ((1, 400), (3, 1500), (32, 900)):
        packets = traffic(cores, 300, 1000)
        times, waits = model_of(packets, cores, cycles)
        report, _ = run(runner, packets, DEVICE % cores, "--cost", "reflect=%d" % cycles)
        d = report["device"]
        equal([d[key] for key in ("name", "cores", "clock_hz", "costs", "packets", "calls")], ["d", cores, 1e9, "given", 300, 300])
        equal(d["bytes"], sum(len(f) for _, f in packets))
        span = max(end for _, end, _ in times) - packets[0][0]
        close(d["occupancy"], 300 * cycles / cores / span, "occupancy")
        close(d["wait_ns"], sum(waits) / 300, "wait")
        close(d["wait_most_ns"], max(waits), "most wait")
        latency = [sent - at for (at, _), (_, _, sent) in zip(packets, times)]
        close(d["latency_ns"], sum(latency) / 300, "latency")
        equal((d["latency_least_ns"], d["latency_most_ns"]), (min(latency), max(latency)))
        wire = sum((len(f) + 24) * 8 / 100 for _, f in packets)
        close(d["cores_for_line_rate"], 300 * cycles / wire, "cores")
        close(d["packets_per_second_most"], 300e9 / max(300 * cycles / cores, wire), "most packets a second")
        row, = d["handlers"]
        equal((row["handler"], row["function"], row["calls"], row["measured"]), ("reflect", "payload", 300, False))
        equal((row["cycles"], row["cycles_least"], row["cycles_most"], row["busy_ns"], row["share"]),
              (cycles, cycles, cycles, 300 * cycles, 1.0))


def model_of(packets, cores, cycles):
    """The same for packets of several sizes: a long one is later ready than a short one behind it. Each packet gets the
    earliest place that those before it have left, of equal ones on the core that worked last; all that is planned is
    kept here, and looked through from the begin."""
    busy = [[] for _ in range(cores)]
    times, waits = [], []
    for at, frame in packets:
        ready = at + ARRIVE + len(frame)
        best = None
        for jobs in busy:
            start = ready
            for begin, end in jobs:
                if start + cycles <= begin:
                    break
                start = max(start, end)
            if best is None or start < best[0] or (start == best[0] and last_end(jobs, start) > last_end(best[1], start)):
                best = (start, jobs)
        start, jobs = best
        jobs.append((start, start + cycles))
        jobs.sort()
        times.append((start, start + cycles, start + cycles + DEPART + len(frame)))
        waits.append(start - ready)
    return times, waits


def last_end(jobs, start):
    return max((end for _, end in jobs if end <= start), default=-1)


@rule("with packets of one size the device is the queue first come, first served")
def one_size(runner):
    draw = random.Random(5)
    for cores, cycles in ((1, 300), (4, 2000)):
        at, packets = 0, []
        for i in range(200):
            packets.append((at, datagram(i, 200)))
            at += draw.randrange(900)
        equal(model(packets, cores, cycles), model_of(packets, cores, cycles), "this script's two models")
        report, sent = run(runner, packets, DEVICE % cores, "--cost", "reflect=%d" % cycles)
        equal([at for at, _ in sent], sorted(t[2] for t in model(packets, cores, cycles)[0]), "times")


@rule("each answer leaves when its call has ended and the way out is over, and no other way")
def answers(runner):
    packets = traffic(1, 200, 2000)
    times, _ = model_of(packets, 2, 1500)
    plain, without = run(runner, packets, DEVICE % 2, "--cost", "*=0", name="free")
    report, sent = run(runner, packets, DEVICE % 2, "--cost", "reflect=1500")
    equal(len(sent), 200)
    by_port = {frame[36:38]: at for at, frame in sent}  # the port that it was sent from
    for (_, frame), (_, _, leaves) in zip(packets, times):
        equal(by_port[frame[34:36]], leaves, "the answer to port %d" % int.from_bytes(frame[34:36], "big"))
    equal([at for at, _ in sent], sorted(at for at, _ in sent), "in the order of time")
    equal(sorted(f for _, f in without), sorted(f for _, f in sent), "the frames themselves")
    equal(state(plain), state(report), "the report does not depend on costs")


@rule("the same costs give the same report and recording, byte for byte")
def again(runner):
    packets = traffic(9, 100, 500)
    first = run(runner, packets, DEVICE % 2, "--cost", "reflect=700 + 1/byte")
    equal(run(runner, packets, DEVICE % 2, "--cost", "reflect=700 + 1/byte"), first)
    close(first[0]["device"]["handlers"][0]["cycles"], 700 + sum(len(f) - 42 for _, f in packets) / 100, "cycles of bytes")


def state(report):
    """What became of packets; the NIC is polled more often where frames wait."""
    report = {key: value for key, value in report.items() if key != "device"}
    report["workers"] = [{key: n for key, n in worker.items() if "polls" not in key} for worker in report["workers"]]
    return report


@rule("a device changes nothing of what becomes of packets, and without one nothing is said of it")
def nothing_else(runner):
    for ini, capture, post in (("sdr.ini", "sdr-lossy.pcap", ("--post", "sdr=8")), ("mixed.ini", "mixed.pcap", ())):
        common = ["replay", "-c", os.path.join(PCAPS, ini), "--json", *post, os.path.join(PCAPS, capture)]
        plain = json.loads(runner.command(*common).stdout)
        assert "device" not in plain
        for name in ("host", "dpa"):
            process = runner.command(*common, "--device", name)
            equal((process.returncode, process.stderr), (0, ""))
            report = json.loads(process.stdout)
            d = report["device"]
            differ = [key for key in plain if key != "workers" and plain[key] != report[key]]
            assert not differ and state(report) == state(plain), "%s on %s: %r" % (ini, name, differ)
            equal(sum(row["calls"] for row in d["handlers"]), d["calls"], "calls of all handlers")
            if any(row["busy_ns"] for row in d["handlers"]):
                close(sum(row["share"] for row in d["handlers"]), 1, "shares")
                close(sum(row["occupancy"] for row in d["handlers"]), d["occupancy"], "occupancies")


@rule("a link behind the device gets the frames when the device has sent them")
def behind(runner):
    packets = [(i * 10000, datagram(i, 100)) for i in range(20)]
    report, sent = run(runner, packets, DEVICE % 1, "--cost", "reflect=500", "--delay", "1ms")
    equal([at for at, _ in sent], [1000000 + i * 10000 + ARRIVE + 142 + 500 + DEPART + 142 for i in range(20)])


@rule("a device that is too slow fills up, and what finds no room is counted")
def full(runner):
    packets = [(i * 100, datagram(i, 100)) for i in range(200)]
    report, sent = run(runner, packets, DEVICE % 1 + "buffer = 4K\n", "--cost", "reflect=10000")
    d = report["device"]
    equal((len(sent), d["limit"], d["held_packets_most"]), (200, "cores", 199))
    assert d["overflows"] > 150, d["overflows"]
    _, sent = run(runner, packets[:9], DEVICE % 1, "--cost", "reflect=1000000000")  # 1 s each
    equal([at for at, _ in sent], [155 + i * 1000000000 + 149 for i in range(1, 10)])


@rule("the trace and the report tell when the host sees what handlers wrote and posted, as late as the ways to it are")
def host(runner):
    latency, cycles, gap = 100, {"header": 11, "payload": 300, "completion": 40}, 1000000
    device = runner.write("dma.ini", DEVICE % 4 + "dma-latency = 100ns\ndma-rate = 8G\n")  # 1 ns a byte
    frames = [frame for _, frame in pk.read_capture(os.path.join(PCAPS, "sdr-lossy.pcap"))]
    capture = pk.write_capture(runner.path("slow.pcap"), [(i * gap, frame) for i, frame in enumerate(frames)])
    trace = runner.path("trace.json")
    options = [word for name, n in cycles.items() for word in ("--cost", "sdr.%s=%d" % (name, n))]
    process = runner.command("replay", "-c", os.path.join(PCAPS, "sdr.ini"), "--post", "sdr=8", "--json", "--trace=" + trace,
                             "--device", device, *options, capture)
    equal((process.returncode, process.stderr), (0, ""))
    with open(trace) as f:
        packets = [json.loads(line) for line in f]
    seen, link = {}, 0  # (function, what): [(ps since the packet, ps)]; link: when the way to the host is free
    for packet in packets:
        arrived = free = packet["time_ps"]
        if "packet" not in packet and packet["calls"][0]["function"] != "command":  # the end of contexts: after the report
            continue
        if "packet" in packet:  # nothing else goes on: its calls, and what they write, follow each other
            free += (ARRIVE + packet["bytes"]) * 1000
        for call in packet.get("calls", ()):  # one within another follows it here
            if "device" not in call:
                assert call["function"] in ("attach", "detach", "report", "classify"), call
                continue
            d = call["device"]
            equal((d["start_ps"], d["end_ps"]), (free, free + cycles.get(call["function"], 0) * 1000), call)
            free = free if "within" in call else d["end_ps"]
            for what, size in (("memory", sum(w["bytes"] for w in call.get("wrote", ()))), ("event", 64 * len(call.get("events", ())))):
                equal(what + "_ps" in d, size > 0, call)
                if size:
                    link = max(link, d["end_ps"]) + size * 1000
                    equal(d[what + "_ps"], link + latency * 1000, call)
                    seen.setdefault((call["function"], what), []).append((d[what + "_ps"] - arrived, d[what + "_ps"]))
    assert {("payload", "memory"), ("completion", "memory")} <= set(seen), set(seen)
    report = json.loads(process.stdout)["device"]
    rows = {row["function"]: row for row in report["handlers"]}
    for (function, what), times in seen.items():
        told = rows[function]["memory" if what == "memory" else "events"]
        equal(told["calls"], len(times))
        close(told["after_ns"], sum(after for after, _ in times) / len(times) / 1000, what)
        close(told["last_ns"], max(at for _, at in times) / 1000, what)
    close(report["memory_last_ns"], max(at for (_, what), times in seen.items() if what == "memory" for _, at in times) / 1000, "last")
    wanted = runner.write("times.json", json.dumps({"device": {"memory_last_ns": report["memory_last_ns"]}}))
    for expected, status in ((wanted, 0), (runner.write("sooner.json", '{"device": {"memory_last_ns": 1}}'), 3)):
        process = runner.command("replay", "-c", os.path.join(PCAPS, "sdr.ini"), "--post", "sdr=8", "--device", device, *options,
                                 "--expect-json", expected, capture)
        equal(process.returncode, status, process.stderr)


@rule("the text names the device, the limit and each handler's share")
def text(runner):
    capture = pk.write_capture(runner.path("t.pcap"), [(i * 100, datagram(i, 100)) for i in range(10)])
    ini = runner.write("nic.ini", ECHO)
    process = runner.command("replay", "-c", ini, "--device", "pspin", "--cost", "reflect=38", capture)
    equal((process.returncode, process.stderr), (0, ""))
    assert "what the host sees" not in process.stdout  # reflect writes nothing
    for part in ("device pspin: 32 cores of 1000 MHz, costs given", "10 packets, 1e+07 a second", "(limit: line)",
                 "at its line rate of 400 Gbit/s they need 14 cores", "reflect.payload", "100.00 %"):
        assert part in process.stdout, "no %r in %s" % (part, process.stdout)


def sim(runner, *options):
    process = runner.command("sim", "sdr", "--rtt", "100us", "--message", "256K", "--chunk", "256", "--mtu", "256",
                             "--drop", "0", "--samples", "1", "--jobs", "1", "--json", *options)
    equal((process.returncode, process.stderr), (0, ""))
    return json.loads(process.stdout)


@rule("spindle sim --device: a message takes as long as the wire or the receiver's cores, and the ways in and to the host")
def simulated(runner):
    packets, bits, rtt = 1024, (256 + 78 + 24) * 8, 100e-6  # on the wire: Ethernet to ICRC, preamble, FCS and gap
    call, arrive, dma = (1163.7 + 756.3) / 1.8e9, 1e-6, 0.6e-6  # of the dpa: a chunk a packet, see devices/dpa.ini
    for rate in (20e9, 60e9):  # 7 and 21 million packets a second; 16 threads take 15 million
        plain = sim(runner, "--bandwidth", "%d" % rate)
        d = sim(runner, "--bandwidth", "%d" % rate, "--device", "dpa")
        wire = bits / rate
        slower = max(15 * wire + packets / 16 * call - (packets - 1) * wire, call)  # the last packet's end, beyond its arrival
        late = d["mean_s"] - plain["mean_s"]
        assert abs(late - (arrive + slower + dma)) < 0.5e-6, "late by %g s, not %g" % (late, arrive + slower + dma)
        assert plain["mean_s"] > rtt and d["verified"] == 256 << 10 and d["retransmitted_packets"] == 0
        assert d["device"]["packets"] >= packets and d["device"]["lost"] == 0, d["device"]
        assert (d["device"]["wait_ns"] > 1000) == (rate > 50e9), d["device"]
    small = runner.write("small.ini", "[device]\ncores = 1\nclock = 1GHz\nbuffer = 8K\n[cost]\nsdr = 300\n")
    d = sim(runner, "--bandwidth", "60G", "--device", small)
    assert d["device"]["lost"] > 100 and d["retransmitted_packets"] >= d["device"]["lost"], d["device"]
    for options, status, says in ((("--device", "nope"), 1, "there is no device nope"),
                                  (("--device", "pspin"), 1, "no cost of sdr"),
                                  (("--device", "dpa", "--payload-less"), 2, "--payload-less"),
                                  (("--device", "dpa", "--model"), 2, "the model has no --device")):
        process = runner.command("sim", "sdr", *options)
        equal((process.returncode, process.stdout), (status, ""), " ".join(options))
        assert says in process.stderr, process.stderr


@rule("mistakes are named, and end the command before it begins")
def mistakes(runner):
    capture = pk.write_capture(runner.path("m.pcap"), [datagram(1, 40)])
    ini = runner.write("nic.ini", ECHO)
    bad = runner.write("bad.ini", "[device]\ncores = 4\nclock = slow\n")
    for options, status, says in (
            (("--device", "nope"), 1, "there is no device nope; there are dpa, fpspin, host, pspin, spin2017"),
            (("--device", bad), 1, bad + ":3: clock: 'slow' is no clock"),
            (("--device", "pspin", "--cost", "reflect=x"), 1, "--cost reflect=x: 'x' does not begin with a number"),
            (("--device", "pspin", "--cost", "relfect=1"), 1, "--cost relfect=1: there is no handler relfect"),
            (("--device", "pspin", "--cost", "reflect"), 2, "HANDLER=CYCLES"),
            (("--cost", "reflect=1"), 2, "--cost needs --device"),
            (("--device", "pspin", "--port", "null"), 2, "--device is for the simulated NIC")):
        process = runner.command("replay", *(() if "--port" in options else ("-c", ini)), *options, capture)
        equal((process.returncode, process.stdout), (status, ""), " ".join(options))
        assert says in process.stderr, process.stderr


UNITS = {"ns": 1e-9, "us": 1e-6, "GHz": 1e9, "MHz": 1e6, "G": 1e9, "M": 1e6}


def number(text):
    """26ns, 350G, 41: in s, Hz, bit/s or as it is."""
    found = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", text)
    return float(found[1]) * UNITS.get(found[2], 1)


def by_hand(device, check):
    """What a check compares, from its file alone: there is no queue in any of them."""
    def of(name, default="0", section=check):
        return number(section.get(name, default))

    bytes_, clock, cores = of("bytes", "1024"), of("clock", section=device), of("cores", device["cores"])
    wire = max(8 * (bytes_ + of("packet-overhead", section=device)) / (of("rate") or of("line-rate", section=device)), of("packet-interval", section=device))
    terms = [term.strip() for term in check["cost"].split("+")]
    per_word = sum(float(term[:-len("/word")]) for term in terms if term.endswith("/word"))
    cycles = sum(float(term) for term in terms if not term.endswith("/word")) + (per_word / of("word-every") if per_word else 0)
    if "latency" in check:
        mean = cycles + of("cold") * (of("cold-cost") - cycles) / of("packets", "1000")
        ways = sum(of(way, section=device) + 8 * bytes_ / of(way + "-rate", "1e99", device) for way in ("arrive", "depart"))
        return "latency", ways + mean / clock
    if "packets-per-second" in check:
        return "packets-per-second", cores * clock / cycles
    if "cores-needed" in check:
        return "cores-needed", math.ceil(cycles / clock / wire - 1e-9)
    return "budget", wire * clock * cores


@rule("what was published beside the model: the model's results are those that this script works out, and as near as the pages say")
def checks(runner):
    with open(os.path.join(HERE, "..", "..", "docs", "devices.md"), encoding="utf-8") as f:
        table = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in f if re.match(r"\| (pspin|dpa|fpspin|spin2017) ", line)]
    told = []
    for name in ("pspin", "dpa", "fpspin", "spin2017"):
        text = configparser.ConfigParser(inline_comment_prefixes=(";",), interpolation=None)
        text.read(os.path.join(HERE, "..", "..", "devices", name + ".ini"))
        found = json.loads(runner.command("device", name, "--json").stdout)["checks"]
        equal(["check " + check["name"] for check in found], [section for section in text.sections() if section.startswith("check ")])
        for check in found:
            section = text["check " + check["name"]]
            quantity, value = by_hand(text["device"], section)
            equal((check["quantity"], check["fitted"]), (quantity, section.get("fitted") == "yes"))
            assert abs(check["model"] / value - 1) < 1e-3, (name, check, value)
            assert abs(check["published"] / number(section[quantity]) - 1) < 1e-9, check
            told.append((name, "fitted" if check["fitted"] else "follows", "%+.1f %%" % (100 * check["residual"])))
    equal([(row[0], row[3], row[6].replace("-0.0 %", "+0.0 %")) for row in table], [(name, how, residual.replace("-0.0 %", "+0.0 %")) for name, how, residual in told],
          "the table in docs/devices.md")


@rule("spindle device lists devices, and shows the model's results beside published ones")
def shown(runner):
    names = [line.split()[0] for line in runner.command("device").stdout.splitlines()]
    equal(names, ["dpa", "fpspin", "host", "pspin", "spin2017"])
    equal([d["name"] for d in json.loads(runner.command("device", "--json").stdout)], names)
    for name in names:
        process = runner.command("device", name, "--json")
        equal((process.returncode, process.stderr), (0, ""))
        d = json.loads(process.stdout)
        equal(d["name"], name)
        for check in d["checks"]:
            close(check["residual"], check["model"] / check["published"] - 1, "residual")
            assert abs(check["residual"]) < (0.002 if check["fitted"] else 0.06), check
            assert check["source"] and check["name"] in runner.command("device", name).stdout
    process = runner.command("device", "nope")
    equal((process.returncode, process.stdout), (1, ""))
    assert "there is no device nope; there are" in process.stderr


main()
