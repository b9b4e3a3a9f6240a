#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle demo: what it claims of each scheme is true, and a seed repeats a run."""

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets
from replay import equal, main, rule

SCHEMES = ["none", "sr-rto", "sr-nack", "ec-mds", "ec-xor"]
FRAME = 14 + 20 + 8 + 12 + 16 + 4 + 4 + 24  # Ethernet to ICRC, without payload; preamble, FCS and gap


def demo(run, *arguments, status=0):
    process = run.command("demo", "--json", *arguments)
    equal(process.returncode, status, process.stderr)
    return json.loads(process.stdout) if status == 0 else process.stderr


def missing(lane):
    return sum(m["chunk_bitmap"].count("0") for m in lane["messages"])


def lanes(run, *arguments):
    return demo(run, *arguments)["lanes"]


def one(run, *arguments):
    return lanes(run, *arguments)[0]


@rule("over a link that loses nothing all of the file arrives by every scheme, in the time of its packets and a round trip")
def _(run):
    for size in (0, 1, 1023, 1024, 1025, 100000, 3000000):
        path = run.write("file", os.urandom(size))
        report = demo(run, path, "--loss", "0", "--scheme", "sr-rto,sr-nack,ec-mds,ec-xor", "--bandwidth", "1G",
                      "--delay", "5ms")
        count = max(1, -(-size // report["mtu"]))
        lossless = (size + count * FRAME) * 8 / 1e9 + 2 * 5e-3
        equal((report["bytes"], report["packets"]), (size, count))
        assert abs(report["lossless_s"] - lossless) < 1e-9, (report["lossless_s"], lossless)
        for lane in report["lanes"]:
            equal((lane["arrived"], lane["differing"], lane["stray"], missing(lane)), (report["chunks"], 0, 0, 0),
                  lane["scheme"])
            assert all(m["complete"] for m in lane["messages"])
            equal(sum(m["bytes"] for m in lane["messages"]), size)
            equal((lane["retransmitted_packets"], lane["lost_packets"]), (0, 0), lane["scheme"])
            assert abs(lane["slowdown"] - lane["time_s"] / lossless) < 1e-6
            if lane["scheme"].startswith("sr"):
                assert 0.999 < lane["slowdown"] < 1.03, lane["slowdown"]
    equal(demo(run, path, "--scheme", "none", "--loss", "0")["lanes"][0]["arrived"], report["chunks"])


@rule("with one packet a chunk and nothing sent again, as many chunks are missing as the link has lost packets")
def _(run):
    path = run.write("file", os.urandom(600000))
    for seed in range(1, 13):
        lane = one(run, path, "--scheme", "none", "--loss", "0.1", "--mtu", "1024", "--chunk", "1024", "--seed",
                   str(seed))
        equal(lane["lost_packets"], missing(lane))
        assert 0 <= lane["link"]["lost"] - lane["lost_packets"] <= lane["link"]["sent"] - lane["packets"] <= 10, lane["link"]
        equal((lane["arrived"], lane["packets"]), (586 - missing(lane), 586))
        assert missing(lane) > 20
        equal((lane["differing"], lane["stray"], lane["retransmitted_packets"]), (0, 0, 0))


@rule("selective repeat sends again what was lost and no more, erasure coding repairs it without, and is done sooner")
def _(run):
    path = run.write("file", os.urandom(300000))
    for seed in range(1, 7):
        rto, nack, ec = lanes(run, path, "--scheme", "sr-rto,sr-nack,ec-mds", "--ec", "16,8", "--loss", "0.03",
                              "--seed", str(seed))
        for lane in (rto, nack):
            assert lane["lost_packets"] > 0
            equal((lane["retransmitted_packets"], lane["parity_packets"]), (lane["lost_packets"], 0))
            assert 0 < lane["resent_chunks"] <= lane["lost_packets"]
        # 18 times 16 chunks, and 5
        equal((rto["packets"], ec["parity_packets"]), (293 + rto["lost_packets"], 18 * 8 + 3))
        equal((ec["retransmitted_packets"], ec["resent_chunks"]), (0, 0))
        assert 0 < ec["repaired_chunks"] <= min(ec["decoded_chunks"], ec["lost_packets"]), ec
        # A packet is sent again three round trips after it left, or once the round trip is over, or never.
        assert rto["time_s"] > 4 * 0.025 > nack["time_s"] > 2 * 0.025 > ec["time_s"], (rto, nack, ec)


@rule("what is said to have been sent is what a capture of it holds")
def _(run):
    path, capture = run.write("file", os.urandom(200000)), run.path("wire.pcap")
    for scheme in SCHEMES:
        lane = one(run, path, "--scheme", scheme, "--loss", "0.1", "--ec", "8,1", "--mtu", "1024", "-w", capture)
        sent = []
        for _, frame in packets.read_capture(capture):
            if frame[12:14] == b"\x08\x00" and frame[42] == 0x2B:
                sent.append(int.from_bytes(frame[42 + 12 + 16:42 + 12 + 20], "big") >> 4)
        data = [s for s in sent if s >> 18 == 0]
        equal((len(sent), len(sent) - len(data)), (lane["packets"], lane["parity_packets"]), scheme)
        equal((len(set(data)), len(data) - len(set(data))), (196, lane["retransmitted_packets"]), scheme)
        equal(bool(lane["parity_packets"]), scheme.startswith("ec"))


@rule("what arrived is the source's under loss, repeats, reordering and corruption, whatever the sizes")
def _(run):
    path = run.write("file", os.urandom(400001))
    for seed, more in enumerate((["--mtu", "100"], ["--mtu", "4096", "--chunk", "8192"],
                                 ["--mtu", "1024", "--chunk", "65536"], ["--message", "5000"],
                                 ["--bandwidth", "400G"], ["--bandwidth", "10M"], ["--delay", "0us"],
                                 ["--burst", "3"], ["--jitter", "2ms"], ["--ipv6"], ["--corrupt", "0.02"]), 1):
        schemes = "none,sr-rto,sr-nack,ec-mds" if seed % 2 else "none,sr-nack,ec-xor,ec-mds"
        report = demo(run, path, "--scheme", schemes, "--loss", "0.05", "--duplicate", "0.1", "--reorder", "0.2",
                      "--seed", str(seed), *more)
        for lane in report["lanes"]:
            equal((lane["differing"], lane["stray"]), (0, 0), str(more))
            equal(lane["arrived"] + missing(lane), report["chunks"], str(more))
            equal(bool(missing(lane)), lane["scheme"] == "none", str((lane["scheme"], more)))


@rule("the same seed gives the same outcome, byte for byte, another seed another one")
def _(run):
    path = run.write("file", bytes(500000))
    first, again, other = (run.command("demo", "--json", path, "--seed", seed).stdout for seed in ("7", "7", "8"))
    equal(first, again)
    assert first != other


@rule("without a file the program sends itself by sr-rto and ec-mds; the text has both, their figures, and the seed")
def _(run):
    process = run.command("demo", "--fast", "--seed", "5")
    equal(process.returncode, 0, process.stderr)
    for lane in lanes(run, "--seed", "5"):
        for word in ("%.3f" % (lane["time_s"] * 1e3), "%.2fx" % lane["slowdown"], " %d" % lane["packets"]):
            assert word in process.stdout, "%r is not in\n%s" % (word, process.stdout)
    for word in ("%d bytes" % os.path.getsize(run.spindle), "sr-rto", "ec-mds 32,8", "is the same", "seed        5"):
        assert word in process.stdout, "%r is not in\n%s" % (word, process.stdout)
    process = run.command("demo", "--fast", "--scheme", "none", "--loss", "0.2")
    equal(process.returncode, 0, process.stderr)
    assert "            message 0: " in process.stdout and " lost" in process.stdout, process.stdout


def marks(svg, lane):
    """Of a lane: its marks, stroke -> [(column, row)], and where the line stands that says that it is done."""
    panels = svg.findall("{*}g")
    paths = {p.get("stroke"): re.findall(r"M(\d+) (\d+)", p.get("d")) for p in panels[lane].findall("{*}path")}
    done = [p for p in svg.findall("{*}path") if p.get("stroke") == "#000"][lane]
    return {k: [(int(x), int(y)) for x, y in v] for k, v in paths.items()}, float(done.get("d")[1:].split()[0])


@rule("the picture has each scheme's chunks where and when they came, and is small")
def _(run):
    lost, resent, repaired, parity = "#e03131", "#f08c00", "#1098ad", "#8d6cc9"
    path, picture = run.write("file", os.urandom(100 * 1024)), run.path("a.svg")
    report = demo(run, path, "--mtu", "1024", "--picture", picture, "--loss", "0.05", "--seed", "3")
    svg = xml.etree.ElementTree.parse(picture).getroot()
    equal(len(svg.findall("{*}g")), 2)
    assert os.path.getsize(picture) < 50000
    longest = max(lane["time_s"] for lane in report["lanes"])
    for number, lane in enumerate(report["lanes"]):
        kinds, done = marks(svg, number)
        assert abs((done - 60) / 800 - lane["time_s"] / longest) < 0.001, done
        came = [m for k in ("#2f9e44", resent, repaired) for m in kinds[k]]
        assert all(0 <= x < 400 and 0 <= y < 120 for v in kinds.values() for x, y in v)
        equal(len({y for _, y in came}), 100)  # as many as there are chunks
        assert min(x for x, _ in came) >= int(400 * 0.0125 / longest), "nothing comes before the way is over"
        equal((len(kinds[resent]), len(kinds[repaired])), (lane["resent_chunks"], lane["repaired_chunks"]))
        assert 0 < len(kinds[lost])
        equal(bool(kinds[parity]), lane["scheme"] == "ec-mds")
    demo(run, path, "--loss", "0", "--picture", picture)
    for number in range(2):
        kinds, _ = marks(xml.etree.ElementTree.parse(picture).getroot(), number)
        equal((kinds[lost], kinds[resent]), ([], []))
    equal(marks(xml.etree.ElementTree.parse(picture).getroot(), 0)[0][repaired], [])


@rule("wrong usage has exit status 2, a file that cannot be sent 1, both by name")
def _(run):
    for arguments, status, word in ((["--loss", "2"], 2, "2"), (["--loss", "nan"], 2, "nan"), (["--mtu", "63"], 2, "63"),
                                    (["--chunk", "1000"], 2, "multiple"), (["--delay", "soon"], 2, "soon"), (["a", "b"], 2, "b"),
                                    (["--what"], 2, "--what"), (["--seed"], 2, "--seed"), (["--scheme", "tcp"], 2, "not tcp"),
                                    (["--scheme", "none,"], 2, "not none,"), (["--ec", "0,0"], 2, "not 0,0"),
                                    (["--scheme", "none,none,none,none,none"], 2, "1 to 4"),
                                    (["--ec", "8,9"], 2, "not 8,9"), (["--ec", "250,6"], 2, "255"),
                                    (["--ec", "-1,2"], 2, "not -1,2"), (["--ec", "8,2x"], 2, "not 8,2x"),
                                    (["--burst", "2", "--loss", "0"], 2, "burst"),
                                    (["--mtu", "64"], 2, "at least 100"), (["-w", run.path("x")], 2, "one --scheme"),
                                    (["--message", "1"], 1, "at most 256 messages"),
                                    (["--picture", run.path("absent/x")], 1, "absent/x"),
                                    ([run.path("absent")], 1, "absent"), ([run.dir.name], 1, run.dir.name)):
        assert word in demo(run, *arguments, status=status), arguments


@rule("a link that loses everything is an error for every scheme, and keeps nobody waiting")
def _(run):
    for scheme in SCHEMES:
        assert "clear-to-send" in demo(run, "--loss", "1", "--scheme", scheme, status=1)


@rule("a capture or a picture onto the file to send is refused and leaves it, a FIFO is no file and keeps nobody waiting")
def _(run):
    path = run.write("file", b"keep")
    assert "file to send" in demo(run, "--scheme", "none", "-w", path, path, status=1)
    assert "file to send" in demo(run, "--picture", path, path, status=1)
    equal(open(path, "rb").read(), b"keep")
    os.mkfifo(run.path("fifo"))
    assert "not a file" in demo(run, run.path("fifo"), status=1)


@rule("the live view keeps to the terminal's width, and a narrow terminal gets plain lines")
def _(run):
    path = run.write("file", bytes(1000))
    for columns in (90, 30, 12):
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([run.spindle, "demo", "--loss", "0", "--fast", path], stdout=slave)
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            text += piece
        os.close(master)
        equal(process.wait(), 0)
        text = text.decode()
        assert "1 chunk of" in text, text
        live = [line for line in text.split("\r\n") if "\033[K" in line]
        equal(bool(live), columns >= 20)
        equal("ec-mds 32,8:" in text, columns < 20)
        for line in live:
            assert len(re.sub("\033\\[[0-9;]*[A-Za-z]", "", line)) <= columns, line


main()
