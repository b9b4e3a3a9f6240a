#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle replay with several ports: captures and interfaces that feed them, what each sends, what is expected of each:
ports.py SPINDLE DIRECTORY-OF-PLUGIN [RULE-PART]. TAP."""

import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets as pk  # noqa: E402
from replay import NIC, equal, main, rule  # noqa: E402

ACROSS = os.path.join(sys.argv.pop(2), "across.so")
START = 1700000000000000000
BOX = NIC + "[context box]\nhandler = across\nfilter = udp\n"


def udp(number, size=40):
    return pk.ethernet(pk.ipv4(pk.udp(bytes([number]) * size, sport=1000 + number, dport=9)), 0x0800)


# (ns after START, frame): the second capture begins later, and has a packet at the time of one of the first.
LEFT = [(0, udp(1)), (3000, udp(2)), (9000, udp(3)), (20000, udp(4))]
RIGHT = [(1000, udp(11)), (9000, udp(12)), (9000, udp(13)), (30000, udp(14))]


def merged(*captures):
    """[(ns, port, frame)] as they arrive: by time, then by port."""
    return sorted(((at, port, frame) for port, capture in enumerate(captures) for at, frame in capture), key=lambda p: p[:2])


def pcapng(path, packets, interfaces=2, order="<"):
    """packets: [(ns after START, interface, frame)]."""
    def block(kind, body):
        size = 12 + len(body)
        return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)
    with open(path, "wb") as f:
        f.write(block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for _ in range(interfaces):
            f.write(block(1, struct.pack(order + "HHIHHB3xHH", 1, 0, 262144, 9, 1, 9, 0, 0)))
        for at, interface, frame in packets:
            stamp = START + at
            f.write(block(6, struct.pack(order + "IIIII", interface, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame)) +
                          frame + b"\0" * (-len(frame) % 4)))
    return path


def recorded(path):
    """Names of the interfaces, and [(ns after START, interface, frame)] of a file that -w has written."""
    with open(path, "rb") as f:
        data = f.read()
    names, packets, at = [], [], 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        equal(struct.unpack_from("<I", data, at + size - 4)[0], size, "the length at the block's end")
        if kind == 1:
            code, length = struct.unpack_from("<HH", data, at + 16)
            equal(code, 2, "if_name")
            names.append(data[at + 20:at + 20 + length].decode())
        elif kind == 6:
            interface, high, low, length = struct.unpack_from("<IIII", data, at + 8)
            packets.append(((high << 32 | low) - START, interface, data[at + 28:at + 28 + length]))
        else:
            equal(kind, 0x0A0D0D0A)
        at += size
    return names, packets


def captures(run, *lists):
    return [pk.write_capture(run.path("in%d.pcap" % i), [(at, frame) for at, frame in packets])
            for i, packets in enumerate(lists)]


def replay(run, *arguments, config=BOX, status=0):
    process = run.command("replay", "-c", run.write("nic.ini", config), "--plugin", ACROSS, *arguments)
    equal(process.returncode, status, process.stderr)
    return process


def report(run, *arguments, config=BOX):
    return json.loads(replay(run, "--json", *arguments, config=config).stdout)


def crossed(packets):
    """What leaves, in the order of the file: at one time port after port."""
    return sorted(((at, 1 - port, frame) for at, port, frame in packets), key=lambda p: p[:2])


def short(packets):
    """For people who read what differs."""
    return [(at, port, frame[34:36].hex()) for at, port, frame in packets] + [sum(hash(frame) for _, _, frame in packets)]


def same(got, expected):
    equal(short(got), short(expected))


# ---- captures ------------------------------------------------------------------------------------------------------------

@rule("each capture arrives at its port, all by one clock; -w has an interface for each port, and what it sent")
def two_captures(run):
    r = report(run, "-w", run.path("out"), *captures(run, LEFT, RIGHT))
    names, sent = recorded(run.path("out"))
    equal(names, ["port0", "port1"])
    same(sent, crossed(merged(LEFT, RIGHT)))
    equal([(p["packets"], p["sent"]) for p in r["ports"]], [(4, 4), (4, 4)])
    equal([(c["port"], c["file"], c["packets"]) for c in r["captures"]],
          [(i, run.path("in%d.pcap" % i), 4) for i in (0, 1)])
    assert "capture" not in r and r["contexts"]["box"]["packets"] == 8, r


@rule("time 0 is the first packet of all, also where the second capture has it")
def second_is_first(run):
    report(run, "-w", run.path("out"), *captures(run, RIGHT, LEFT))
    same(recorded(run.path("out"))[1], crossed(merged(RIGHT, LEFT)))
    lines = replay(run, "--json", "--trace", *captures(run, RIGHT, LEFT)).stdout.splitlines()[:-1]
    equal([p["time_ps"] for p in map(json.loads, lines) if "packet" in p], [at * 1000 for at, _, _ in merged(RIGHT, LEFT)])


@rule("an empty capture is a port at which nothing arrives; so is a port without a capture")
def silence(run):
    for arguments in (captures(run, LEFT, []), ["--ports", "2", *captures(run, LEFT)]):
        r = report(run, "-w", run.path("out"), *arguments)
        equal([(p["packets"], p["sent"]) for p in r["ports"]], [(4, 0), (0, 4)])
        same(recorded(run.path("out"))[1], crossed(merged(LEFT)))


@rule("the interfaces of one pcapng are the ports where --ports gives several, in either byte order; without it there is one")
def interfaces(run):
    equal_to = None
    for order in "<>":
        path = pcapng(run.path("in.pcapng"), merged(LEFT, RIGHT), order=order)
        r = report(run, "--ports", "2", "-w", run.path("out"), path)
        same(recorded(run.path("out"))[1], crossed(merged(LEFT, RIGHT)))
        equal([(c["port"], c["file"], c["packets"]) for c in r["captures"]], [(0, path, 4), (1, path, 4)])
        one = run.command("replay", "-c", run.write("nic.ini", NIC + "[context c]\nhandler = count\nfilter = udp\n"), "--json", path)
        one = json.loads(one.stdout)
        equal((one["capture"]["packets"], [p["packets"] for p in one["ports"]]), (8, [8]), one)
        equal_to = equal_to or r
        equal(r, equal_to)


@rule("packets of a pcapng keep their numbers in the file; trace, as text and JSON, names the port of each")
def traced(run):
    path = pcapng(run.path("in.pcapng"), merged(LEFT, RIGHT))
    lines = replay(run, "--ports", "2", "--json", "--trace", path).stdout.splitlines()[:-1]
    seen = [p for p in map(json.loads, lines) if "packet" in p]
    equal([(p["packet"], p["port"], p["calls"][-1]["sent"][0]["port"]) for p in seen],
          [(i + 1, port, 1 - port) for i, (_, port, _) in enumerate(merged(LEFT, RIGHT))])
    replay(run, "--trace=" + run.path("trace"), *captures(run, LEFT, RIGHT))
    with open(run.path("trace")) as f:
        heads = [line.split("   ")[:2] for line in f if line.startswith("packet ")]
    equal(heads[:3], [["packet 1", "port 0"], ["packet 1", "port 1"], ["packet 2", "port 0"]])
    assert "port" not in json.loads(replay(run, "--json", "--trace", "--expect-json", run.write("e.json", '{"packets": 4}'),
                                           captures(run, LEFT)[0]).stdout.splitlines()[1]), "one port is not named"


@rule("addresses keep the ports that the configuration gives them, and what no context takes is forwarded from both")
def configured(run):
    question = (struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + pk.mac_bytes(pk.PEER_MAC) + pk.ip_bytes("198.51.100.2") + bytes(6) +
                pk.ip_bytes("198.51.100.1"))
    asked = [(0, pk.ethernet(question, 0x0806, dst="ff:ff:ff:ff:ff:ff"))]
    more = "ip = 198.51.100.1/24 1\nport = null:\nport = null:\n"
    r = report(run, "-w", run.path("out"), *captures(run, asked, asked), config=NIC + more)
    equal(([p["packets"] for p in r["ports"]], r["answered"], [port for _, port, _ in recorded(run.path("out"))[1]]), ([1, 1], 1, [1]))
    r = report(run, *captures(run, LEFT, RIGHT), config=NIC + more + "exception = net_tap0\n")
    equal((r["forwarded"], [p["packets"] for p in r["ports"]]), (8, [4, 4]))


@rule("with several workers all arrive by their ports, too")
def workers(run):
    r = report(run, "-w", run.path("out"), *captures(run, LEFT, RIGHT), config=BOX.replace("mac", "workers = 3\nmac"))
    same(sorted(recorded(run.path("out"))[1]), sorted(crossed(merged(LEFT, RIGHT))))
    equal([p["packets"] for p in r["ports"]], [4, 4])


@rule("four ports at most: the third and the fourth send to each other")
def four(run):
    third = [(500, udp(21))]
    r = report(run, "-w", run.path("out"), *captures(run, LEFT, RIGHT, third, third))
    equal([(p["packets"], p["sent"]) for p in r["ports"]], [(4, 4), (4, 4), (1, 1), (1, 1)])
    same([p for p in recorded(run.path("out"))[1] if p[1] > 1], [(500, 2, udp(21)), (500, 3, udp(21))])


# ---- pace and links ------------------------------------------------------------------------------------------------------

@rule("--loop begins each pass for all captures at once, one mean gap of all their packets after the last of them")
def looped(run):
    both = merged(LEFT, RIGHT)
    period = 30000 + 30000 / 7  # from the first to the last packet, and a seventh of that
    r = report(run, "--loop", "3", "-w", run.path("out"), *captures(run, LEFT, RIGHT))
    same(recorded(run.path("out"))[1], crossed([(int(at + period * n), port, frame) for n in range(3) for at, port, frame in both]))
    equal([(c["passes"], c["packets"]) for c in r["captures"]], [(3, 12), (3, 12)])
    report(run, "--loop", "3", "--ports", "2", "-w", run.path("same"), pcapng(run.path("in.pcapng"), both))
    equal(recorded(run.path("same")), recorded(run.path("out")))


@rule("--rate gives each port that rate, from time 0")
def paced(run):
    report(run, "--rate", "1Mpps", "-w", run.path("out"), *captures(run, LEFT, RIGHT))
    paces = [[(i * 1000, frame) for i, (_, frame) in enumerate(capture)] for capture in (LEFT, RIGHT)]
    same(recorded(run.path("out"))[1], crossed(merged(*paces)))


@rule("a bad network is before each port: the first loses what it loses alone, the other something else; the seed repeats it")
def bad(run):
    many = [(i * 1000, udp(i % 200)) for i in range(200)]

    def lost(seed, *files):
        options = ("--loss", "0.3", "--seed", str(seed), "-w", run.path("out"))
        r = report(run, *options, "--ports", "2", *files)
        equal([(link["port"], link["offered"], link["delivered"] + link["lost"]) for link in r["links"]],
              [(i, 200, 200) if i < len(files) else (i, 0, 0) for i in (0, 1)])
        sent = recorded(run.path("out"))[1]
        return [[at for at, port, _ in sent if port == which] for which in (1, 0)]
    left, right = captures(run, many, many)
    alone, nothing = lost(7, left)
    both = lost(7, left, right)
    assert 100 < len(alone) < 180 and not nothing, len(alone)
    equal(both[0], alone)
    assert both[1] not in (both[0], lost(8, left, right)[0]) and 100 < len(both[1]) < 180, "related losses"
    equal(lost(7, left, right), both)


@rule("a slow link holds up its own port's packets, and not the other's")
def slow(run):
    first, second = [(0, udp(1, 1400)), (0, udp(2, 1400))], [(1, udp(3))]
    report(run, "--bandwidth", "1G", "-w", run.path("out"), *captures(run, first, second))
    equal([port for _, port, _ in recorded(run.path("out"))[1]], [0, 1, 1])


# ---- expectations --------------------------------------------------------------------------------------------------------

@rule("--expect of all ports holds whatever the order between them; -w need not be given")
def held(run):
    files = captures(run, LEFT, RIGHT)
    wanted = pcapng(run.path("want.pcapng"), sorted(crossed(merged(LEFT, RIGHT)), key=lambda p: p[1]))
    for more in ((), ("-w", run.path("out"))):
        equal(replay(run, "--expect", wanted, *more, *files).stdout.splitlines()[-1], "as expected: --expect " + wanted)
    a, b = (pk.write_capture(run.path(name), capture) for name, capture in (("a.pcap", RIGHT), ("b.pcap", LEFT)))
    equal(replay(run, "--expect", "0=" + a, "--expect", "1=" + b, *files).stdout.splitlines()[-1],
          "as expected: --expect 0=%s, --expect 1=%s" % (a, b))
    replay(run, "--expect", "1=" + b, *files)


@rule("a packet by the wrong port, and two in the wrong order at one port, are told with the port; exit status 3")
def differs(run):
    files, sent = captures(run, LEFT, RIGHT), crossed(merged(LEFT, RIGHT))
    moved = [(at, 0 if frame == udp(3) else port, frame) for at, port, frame in sent]
    words = replay(run, "--expect", pcapng(run.path("want"), moved), *files, status=3).stderr.splitlines()
    equal([line.split(": ")[2] for line in words], ["port 0", "port 0", "port 1", "port 1"], words)
    assert "UDP 1003 > 9, 40 bytes" in words[0] and "was not sent" in words[0], words
    assert "the NIC sent one more" in words[2] and "UDP 1003 > 9" in words[2], words
    swapped = [(9000, udp(13)), (9000, udp(12))]
    a = pk.write_capture(run.path("a.pcap"), RIGHT[:1] + swapped + RIGHT[3:])
    words = replay(run, "--expect", "0=" + a, *files, status=3).stderr
    assert "--expect %s: port 0: " % a in words and "port 1" not in words, words


# ---- what is refused -----------------------------------------------------------------------------------------------------

@rule("wrong usage is told, exit status 2; nothing is written")
def misuse(run):
    left, right = captures(run, LEFT, RIGHT)
    for arguments, words in ((("--ports", "1", left, right), "--ports 1, and 2 captures"), ((left,) * 5, "extra argument"),
                             (("--ports", "5", left), "--ports must be 1 to 4, not 5"),
                             (("--expect", "4=" + left, left), "at most 4 ports"), (("--expect", "1=", left), "must be FILE or PORT=FILE"),
                             (("--expect", "0=" + left, "--expect", "0=" + right, left, right), "given twice for port 0"),
                             (("--expect", left, "--expect", "0=" + right, left, right), "not both")):
        process = replay(run, "-w", run.path("nothing"), *arguments, status=2)
        assert words in process.stderr.splitlines()[0] and not process.stdout, process.stderr
    process = run.command("replay", "--port", "null:", left, right)
    equal(process.returncode, 2)
    assert "--port null: sends one capture" in process.stderr, process.stderr
    assert not os.path.exists(run.path("nothing"))


@rule("ports that are not there, and captures that do not fit or cannot be read, are told, exit status 1; nothing is written")
def refused(run):
    left, right = captures(run, LEFT, RIGHT)
    three = pcapng(run.path("three.pcapng"), merged(LEFT, RIGHT), interfaces=3)
    one = BOX.replace("mac", "port = null:\nmac")
    os.mkfifo(run.path("pipe"))
    for arguments, config, words in (
            ((left, right), one, "2 captures, and the NIC has 1 port"), (("--expect", "1=" + left, left), BOX, "there is no port 1"),
            (("--expect", "2=" + left, left, right), BOX, "there is no port 2, the NIC has 2 ports"),
            ((left, run.path("absent.pcap")), BOX, "absent.pcap: No such file"), ((left, run.write("text", "none")), BOX, "not a capture"),
            (("--ports", "2", three), BOX, "three.pcapng: it has 3 interfaces, and the NIC 2 ports"),
            (("--ports", "2", run.path("pipe")), BOX, "pipe: no regular file"),
            (("--expect", left, left, right), BOX, "in0.pcap: it has 1 interface, and the NIC 2 ports"),
            (("--expect", three, left, right), BOX, "it has 3 interfaces"),
            ((left, right), BOX.replace("mac", "ip = 198.51.100.1/24 2\nmac"), "there is no port 2")):
        process = replay(run, "-w", run.path("nothing"), *arguments, config=config, status=1)
        assert words in process.stderr and not process.stdout, (arguments, process.stderr)
        assert not os.path.exists(run.path("nothing")), arguments
    equal(replay(run, "-w", right, left, right, status=1).stderr, "spindle replay: -w %s: that is a capture to read\n" % right)


@rule("a second capture that is cut off is replayed up to the cut, then named once, exit status 1")
def cut(run):
    left, right = captures(run, LEFT, RIGHT)
    both = pcapng(run.path("in.pcapng"), merged(LEFT, RIGHT))
    for path, arguments in ((right, (left, right)), (both, ("--ports", "2", both))):
        with open(path, "rb+") as f:
            f.truncate(os.path.getsize(path) - 10)
        process = replay(run, "--json", *arguments, status=1)
        equal(json.loads(process.stdout)["packets"], 7)
        equal(process.stderr.count("\n"), 1)
        assert path in process.stderr and "cut off" in process.stderr, process.stderr


if __name__ == "__main__":
    main()
