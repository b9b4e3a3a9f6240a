#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""count, reflect and the NIC's own answers, with other settings and other captures than expected.py: handlers.py SPINDLE. TAP.

What is expected is worked out here or in pcaps/make.py; tshark has the last word on checksums and answers.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PCAPS = os.path.join(ROOT, "pcaps")
sys.path[:0] = [PCAPS, os.path.join(HERE, "..", "tools")]
import make  # noqa: E402
import packets as pk  # noqa: E402

SPINDLE = None
WORK = None
NIC = "[nic]\nip = 192.0.2.1/24, 2001:db8::1/64\nmac = 02:00:00:00:00:01\n"


class Skip(Exception):
    pass


# ---- running -----------------------------------------------------------------------------------------------------------

def replay(ini, capture, *options):
    """The report, as a dict."""
    run = subprocess.run([SPINDLE, "replay", "-c", ini, "--json", *options, capture], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, "exit %d: %s" % (run.returncode, run.stderr)
    return json.loads(run.stdout)


def write(name, text):
    path = os.path.join(WORK, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def count(capture, *settings, workers=1):
    ini = write("count.ini", NIC + "workers = %d\n[context flows]\nhandler = count\nfilter = greater 0\n" % workers +
                "".join(s + "\n" for s in settings))
    return replay(ini, capture)


def counter(report, context, name):
    """A counter of a context, wherever the report keeps it."""
    c = report["contexts"][context]
    return c.get("counters", c)[name]


def tshark(capture, *arguments):
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    run = subprocess.run(["tshark", "-n", "-r", capture, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


CHECK = ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]
BAD = " or ".join(p + ".checksum.status == \"Bad\"" for p in ("ip", "udp", "icmp", "icmpv6"))


def fields(capture, display, *names):
    arguments = []
    for n in names:
        arguments += ["-e", n]
    return [tuple(line.split("\t")) for line in tshark(capture, *CHECK, "-Y", display, "-T", "fields", *arguments)]


# ---- an independent count ----------------------------------------------------------------------------------------------

def flows_of(capture):
    """{flow: [packets, bytes, first, last]}, times in nanoseconds since the first packet."""
    return make.flows_of(pk.read_capture(capture))


def reported(report):
    return {tuple(f[k] for k in ("ethertype", "source", "destination", "protocol", "source_port", "destination_port")):
            [f["packets"], f["bytes"], f["first_ns"], f["last_ns"]] for f in report["contexts"]["flows"]["flows"]}


def check_count(capture, **more):
    report, flows = count(capture, **more), flows_of(capture)
    assert reported(report) == flows, "%s:\n# %s\n# %s" % (capture, sorted(reported(report).items(), key=str),
                                                           sorted(flows.items(), key=str))
    assert report["contexts"]["flows"]["totals"] == {
        "flows": len(flows), "packets": sum(f[0] for f in flows.values()), "bytes": sum(f[1] for f in flows.values())}
    assert report["drops"] == {} and report["packets"] == sum(f[0] for f in flows.values())
    return report


# ---- the rules ---------------------------------------------------------------------------------------------------------

def count_agrees_with_a_count_in_python():
    for name in sorted(os.listdir(PCAPS)):
        if name.endswith(".pcap"):
            check_count(os.path.join(PCAPS, name))


def count_is_the_same_with_two_workers():
    capture = os.path.join(PCAPS, "udp-flows.pcap")
    one, two = check_count(capture), check_count(capture, workers=2)
    assert one["contexts"]["flows"]["flows"] == two["contexts"]["flows"]["flows"]


def count_lists_flows_with_most_packets_first():
    flows = count(os.path.join(PCAPS, "udp-flows.pcap"))["contexts"]["flows"]["flows"]
    packets = [f["packets"] for f in flows]
    assert len(packets) > 10 and packets == sorted(packets, reverse=True)


def count_reports_no_more_flows_than_asked_for():
    capture = os.path.join(PCAPS, "udp-flows.pcap")
    whole = count(capture)["contexts"]["flows"]["flows"]
    assert count(capture, "report-flows = 3")["contexts"]["flows"]["flows"] == whole[:3]


def count_beyond_its_limit_says_untracked():
    """The first five flows are counted as ever; packets of the others are untracked, and still in the totals."""
    capture = os.path.join(PCAPS, "udp-flows.pcap")
    flows = flows_of(capture)
    first = dict(list(flows.items())[:5])
    report = count(capture, "flows = 5")
    assert reported(report) == first
    total = sum(f[0] for f in flows.values())
    assert counter(report, "flows", "untracked") == total - sum(f[0] for f in first.values()) > 0
    assert report["contexts"]["flows"]["totals"]["packets"] == total and report["drops"] == {}


def count_forgets_idle_flows():
    """Three packets of one flow, a long silence, one more: with `idle` that is a new flow, without it the old one."""
    packet = make.frame(make.ip(make.udp(b"x", 1, 2, make.PEER, make.NIC), make.PEER, make.NIC, 17))
    other = make.frame(make.ip(make.udp(b"x", 3, 4, make.PEER, make.NIC), make.PEER, make.NIC, 17))
    second = 1000000000
    capture = pk.write_capture(os.path.join(WORK, "idle.pcap"),
                               [(0, packet), (1, packet), (2, packet)] + [(n * second, other) for n in range(1, 20)] +
                               [(20 * second, packet)])
    flow = make.flow_of(packet)
    assert reported(count(capture))[flow] == [4, 4 * len(packet), 0, 20 * second]
    report = count(capture, "idle = 3s")
    assert reported(report)[flow] == [1, len(packet), 20 * second, 20 * second]
    assert counter(report, "flows", "forgotten") >= 1 and counter(report, "flows", "opened") >= 3
    assert reported(report)[make.flow_of(other)][0] == 19  # never silent for that long


def one_packet_flows(number, gap):
    """A capture of as many flows of one packet each, gap nanoseconds apart."""
    def packet(n):
        return make.frame(make.ip(make.udp(b"x", 1000 + n, 2, make.PEER, make.NIC), make.PEER, make.NIC, 17))
    return pk.write_capture(os.path.join(WORK, "many.pcap"), [(n * gap, packet(n)) for n in range(number)])


def count_far_beyond_its_limit_drops_nothing():
    report = count(one_packet_flows(1000, 1000), "flows = 3")
    assert report["drops"] == {} and counter(report, "flows", "untracked") == 997, report["contexts"]
    assert report["contexts"]["flows"]["totals"]["flows"] == 3


def count_uses_the_records_of_forgotten_flows_again():
    report = count(one_packet_flows(50, 2000000000), "flows = 2", "idle = 1s")
    assert counter(report, "flows", "opened") == 50 and counter(report, "flows", "untracked") == 0, report["contexts"]
    assert len(report["contexts"]["flows"]["flows"]) <= 2


def reflect_checksums_satisfy_tshark():
    out = os.path.join(WORK, "answers.pcap")
    replay(os.path.join(PCAPS, "echo.ini"), os.path.join(PCAPS, "udp-echo.pcap"), "-w", out)
    bad = tshark(out, *CHECK, "-Y", BAD)
    assert not bad, bad
    good = tshark(out, *CHECK, "-Y", "udp.checksum.status == \"Good\"")
    assert len(good) == len(pk.read_capture(out)) - 1  # one has none
    assert set(fields(out, "ip", "ip.ttl") + fields(out, "ipv6", "ipv6.hlim")) == {("64",)}


def reflect_port_and_verify_choose():
    ini = write("echo.ini", NIC + "[context echo]\nhandler = reflect\nfilter = udp\nport = 9999\n")
    report = replay(ini, os.path.join(PCAPS, "udp-echo.pcap"))
    assert report["sent"] == 1 and report["drops"]["other-port"] > 10
    ini = write("echo.ini", NIC + "[context echo]\nhandler = reflect\nfilter = udp\nverify = yes\n")
    report = replay(ini, os.path.join(PCAPS, "udp-echo.pcap"))
    assert report["drops"]["bad-checksum"] == 2, report["drops"]  # the wrong one, and IPv6 without


def reflect_of_two_ports_is_a_loop():
    """A datagram that comes from the port answered here may be a reflector's answer."""
    packet = make.frame(make.ip(make.udp(b"x", 5000, 5000, make.PEER, make.NIC), make.PEER, make.NIC, 17))
    capture = pk.write_capture(os.path.join(WORK, "loop.pcap"), [packet])
    ini = write("echo.ini", NIC + "[context echo]\nhandler = reflect\nfilter = udp\nport = 5000\n")
    assert replay(ini, capture)["drops"] == {"reflect-loop": 1}
    ini = write("echo.ini", NIC + "[context echo]\nhandler = reflect\nfilter = udp\n")
    assert replay(ini, capture)["sent"] == 1


def local_answers_are_what_tshark_expects():
    out = os.path.join(WORK, "local.pcap")
    report = replay(os.path.join(PCAPS, "echo.ini"), os.path.join(PCAPS, "arp-nd-echo.pcap"), "-w", out)
    assert not tshark(out, *CHECK, "-Y", BAD + " or _ws.malformed")
    peer, nic = make.PEER_MAC, make.MAC
    replies = fields(out, "arp", "arp.opcode", "eth.src", "eth.dst", "arp.src.hw_mac", "arp.src.proto_ipv4", "arp.dst.hw_mac",
                     "arp.dst.proto_ipv4")
    assert replies == [("2", nic, peer, nic, make.NIC, peer, make.PEER),
                       ("2", nic, peer, nic, make.NIC, peer, "0.0.0.0")], replies
    told = fields(out, "icmpv6.type == 136", "eth.dst", "ipv6.src", "ipv6.dst", "ipv6.hlim", "icmpv6.nd.na.target_address",
                  "icmpv6.nd.na.flag.s", "icmpv6.nd.na.flag.r", "icmpv6.opt.linkaddr")
    told = [tuple({"True": "1", "False": "0"}.get(v, v) for v in t) for t in told]
    solicited = (peer, make.NIC6, make.PEER6, "255", make.NIC6, "1", "0", nic)
    assert told[:1] == [solicited] and len(told) == 3, told
    assert told[1][:7] == solicited[:7], told  # the link-layer address may be left out of an answer to a unicast
    assert told[2] == ("33:33:00:00:00:01", make.NIC6, "ff02::1", "255", make.NIC6, "0", "0", nic), told
    pongs = fields(out, "icmp.type == 0", "eth.dst", "ip.src", "ip.dst", "icmp.ident", "icmp.checksum.status", "data.data")
    asked = fields(os.path.join(PCAPS, "arp-nd-echo.pcap"), "icmp.type == 8", "icmp.ident", "data.data")
    assert [(p[3], p[5]) for p in pongs] == asked and len(asked) == 2, pongs
    assert all(p[:3] == (peer, make.NIC, make.PEER) and p[4] in ("1", "Good") for p in pongs), pongs
    pongs6 = fields(out, "icmpv6.type == 129", "eth.dst", "ipv6.src", "ipv6.dst", "icmpv6.echo.identifier", "data.data",
                    "icmpv6.checksum.status")
    asked = fields(os.path.join(PCAPS, "arp-nd-echo.pcap"), "icmpv6.type == 128", "icmpv6.echo.identifier", "data.data")
    assert [(p[3], p[4]) for p in pongs6] == asked and len(asked) == 2, pongs6
    assert all(p[:3] == (peer, make.NIC6, make.PEER6) and p[5] in ("1", "Good") for p in pongs6), pongs6
    assert report["sent"] == 9 == len(pk.read_capture(out)), report


TESTS = [count_agrees_with_a_count_in_python, count_is_the_same_with_two_workers, count_lists_flows_with_most_packets_first,
         count_reports_no_more_flows_than_asked_for, count_beyond_its_limit_says_untracked, count_forgets_idle_flows,
         count_far_beyond_its_limit_drops_nothing, count_uses_the_records_of_forgotten_flows_again,
         reflect_checksums_satisfy_tshark,
         reflect_port_and_verify_choose, reflect_of_two_ports_is_a_loop, local_answers_are_what_tshark_expects]


def main():
    global SPINDLE, WORK
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    SPINDLE = os.path.abspath(sys.argv[1])
    # Not where sanitizers look on: what they go through others do as well, and most of the time is Python's and tshark's.
    with open(SPINDLE, "rb") as program:
        if b"__asan_init" in program.read():
            for test in (count_agrees_with_a_count_in_python, reflect_checksums_satisfy_tshark, local_answers_are_what_tshark_expects):
                TESTS.remove(test)
    failed = 0
    print("1..%d" % len(TESTS))
    with tempfile.TemporaryDirectory() as WORK:
        for number, test in enumerate(TESTS, 1):
            try:
                test()
                print("ok %d - %s" % (number, test.__name__))
            except Skip as reason:
                print("ok %d - %s # SKIP %s" % (number, test.__name__, reason))
            except Exception as error:
                failed += 1
                print("\n".join("# " + line for line in ("%s: %s" % (type(error).__name__, error)).splitlines()))
                print("not ok %d - %s" % (number, test.__name__))
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
