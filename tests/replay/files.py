#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle replay's files: captures of every form and fault, configurations and their errors, what it writes."""

import glob
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets as p
from replay import NIC, Skip, equal, main, rule, sanitized

SDR = p.Sdr()
DATA = bytes(i * 7 % 255 + 1 for i in range(5000))
FRAMES = [(i * 3000, frame) for i, frame in enumerate(SDR.message(0, DATA) + SDR.message(1, DATA[:1234]))]
CONFIG = NIC + SDR.ini()
PEER = p.mac_bytes(p.PEER_MAC)


def contexts(result):
    return result.report["contexts"]["sdr0"]


# ---- captures ------------------------------------------------------------------------------------------------------------
@rule("pcap and pcapng in microseconds and nanoseconds give the same result")
def _(run):
    outputs = [run.replay(CONFIG, FRAMES, post={"sdr0": 2}, dump=["sdr0"], form=form)
               for form in (p.PCAP_NS, p.PCAP_US, p.PCAPNG_NS, p.PCAPNG_US)]
    equal(contexts(outputs[0])["messages"][0]["complete"], True)
    equal(outputs[0].dump["sdr0"][:5000], DATA)
    for other in outputs[1:]:
        equal(other.stdout, outputs[0].stdout)
        equal(other.dump, outputs[0].dump)


@rule("a big-endian capture gives the same result", plain=True)
def _(run):
    path = run.path("big.pcap")
    with open(path, "wb") as f:
        f.write(struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for stamp, frame in FRAMES:
            f.write(struct.pack(">IIII", 1700000000, stamp, len(frame), len(frame)) + frame)
    equal(run.replay(CONFIG, path, post={"sdr0": 2}).stdout, run.replay(CONFIG, FRAMES, post={"sdr0": 2}).stdout)


@rule("the same capture twice gives the same report and the same sent packets, byte for byte")
def _(run):
    config = NIC + "[context echo]\nhandler = reflect\nfilter = udp port 9\n" + SDR.ini()
    echo = p.ethernet(p.ipv4(p.udp(b"hello, world", sport=77, dport=9)), 0x0800)
    frames = FRAMES + [(200000 + i * 11, echo) for i in range(50)]
    sent = []
    outputs = []
    for name in ("a.pcap", "b.pcap"):
        outputs.append(run.replay(config, frames, post={"sdr0": 2}, sent=run.path(name)).stdout)
        with open(run.path(name), "rb") as f:
            sent.append(f.read())
    equal(outputs[0], outputs[1])
    equal(sent[0], sent[1])
    assert len(p.read_capture(run.path("a.pcap"))) == 50


@rule("-w writes each packet that the NIC sent, at its time, counted from the capture's first time stamp")
def _(run):
    config = NIC + "[context echo]\nhandler = reflect\nfilter = udp port 9\n"
    frames = [(i * 123456, p.ethernet(p.ipv4(p.udp(bytes([i]) * 100, sport=77, dport=9)), 0x0800)) for i in range(20)]
    result = run.replay(config, frames, sent=run.path("out.pcap"))
    sent = p.read_capture(run.path("out.pcap"))
    equal(result.report["sent"], 20)
    equal(len(sent), 20)
    for i, ((stamp, got), (at, frame)) in enumerate(zip(sent, frames)):
        equal(stamp, 1700000000000000000 + at, "time")
        equal(got[:12], PEER + p.mac_bytes(p.MAC), "MAC addresses")
        equal(got[26:34], p.ip_bytes(p.SERVER) + p.ip_bytes(p.CLIENT), "IP addresses")
        equal(got[34:38], struct.pack(">HH", 9, 77), "ports")
        equal(got[42:142], bytes([i]) * 100, "payload")
        equal(p.checksum(got[14:34]), 0, "IP checksum")
    assert b"\x4d\x3c\xb2\xa1" == open(run.path("out.pcap"), "rb").read(4), "nanosecond pcap"


@rule("ARP and ping for the NIC's address are answered and counted as answered")
def _(run):
    arp = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + PEER + p.ip_bytes(p.CLIENT) + bytes(6) + p.ip_bytes(p.SERVER)
    echo = struct.pack(">BBHHH", 8, 0, 0, 7, 9) + b"ping!" * 4
    echo = echo[:2] + struct.pack(">H", p.checksum(echo)) + echo[4:]
    frames = [p.ethernet(arp, 0x0806, dst="ff:ff:ff:ff:ff:ff"), p.ethernet(p.ipv4(echo, proto=1), 0x0800)]
    result = run.replay(NIC, frames, sent=run.path("out.pcap"))
    equal((result.report["answered"], result.report["taken"], result.report["sent"]), (2, 2, 2))
    reply, pong = [frame for _, frame in p.read_capture(run.path("out.pcap"))]
    equal(reply[20:42], b"\0\x02" + p.mac_bytes(p.MAC) + p.ip_bytes(p.SERVER) + PEER + p.ip_bytes(p.CLIENT))
    equal(pong[34], 0)
    equal(p.checksum(pong[34:34 + len(echo)]), 0)
    equal(pong[38:34 + len(echo)], echo[4:])


@rule("with an exception port what no context takes is forwarded")
def _(run):
    frames = [p.ethernet(p.ipv4(p.udp(b"hello", dport=9)), 0x0800)] * 3
    result = run.replay(NIC + "exception = net_tap0\n", frames)
    equal((result.report["forwarded"], result.drops()), (3, {}))


@rule("a capture cut off is replayed up to the cut, then named as cut off, with exit status 1")
def _(run):
    for form in (p.PCAP_NS, p.PCAPNG_US):
        path = p.write_capture(run.path("in.pcap"), FRAMES, form)
        size = os.path.getsize(path)
        with open(path, "rb+") as f:
            f.truncate(size - 100)
        result = run.replay(CONFIG, path, post={"sdr0": 2}, expect=1)
        equal(result.report["packets"], len(FRAMES) - 1)
        assert path in result.stderr and "cut off" in result.stderr, result.stderr


@rule("what is no capture is refused by name, with exit status 1")
def _(run):
    cases = [(b"", "empty file"), (b"not a capture at all, just text of some length", "not a capture"),
             (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)[:10], "cut off"),
             (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101), "Ethernet"),
             (struct.pack("<IHHiIII", 0xA1B2C3D4, 9, 9, 0, 0, 65535, 1), "version"), (bytes(100), "not a capture")]
    for data, word in cases:
        path = run.write("bad.pcap", data)
        process = run.command("replay", "-c", run.write("nic.ini", CONFIG), "--json", path)
        equal((process.returncode, process.stdout), (1, ""))
        assert process.stderr.startswith("spindle replay: " + path) and word in process.stderr, process.stderr
    for path, word in ((run.path("absent.pcap"), "No such file"), (run.dir.name, "directory")):
        process = run.command("replay", "-c", run.write("nic.ini", CONFIG), path)
        equal(process.returncode, 1)
        assert path in process.stderr and word in process.stderr, process.stderr


@rule("a capture without packets is no error")
def _(run):
    for form in (p.PCAP_US, p.PCAPNG_NS):
        equal(run.replay(CONFIG, [], form=form).report["packets"], 0)


@rule("time stamps that go backwards are counted, and every packet is still replayed in order")
def _(run):
    frames = [(1000000 - stamp, frame) for stamp, frame in FRAMES]
    result = run.replay(CONFIG, frames, post={"sdr0": 2}, dump=["sdr0"])
    equal(result.report["capture"]["backwards"], len(FRAMES) - 1)
    equal(result.report["packets"], len(FRAMES))
    equal(result.dump["sdr0"][:5000], DATA)


@rule("a packet larger than any buffer is left out and makes the exit status 1")
def _(run):
    result = run.replay(CONFIG, [FRAMES[0][1], bytes(9601), FRAMES[1][1]], post={"sdr0": 1}, expect=1)
    equal((result.report["packets"], result.report["capture"]["oversized"]), (2, 1))
    assert "9600" in result.stderr, result.stderr


@rule("thousands of packets with one and the same time stamp are no endless loop")
def _(run):
    equal(run.replay(CONFIG, [(0, FRAMES[0][1])] * 40000, post={"sdr0": 1}).report["packets"], 40000)


@rule("the real captures are replayed without a parse or ICRC drop")
def _(run):
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.environ.get("SPINDLE_SHARED_PCAPS") or os.path.join(here, "..", "..", "..", "shared", "pcaps")
    captures = sorted(glob.glob(os.path.join(folder, "*.pcap")))
    if not captures:
        raise Skip("no captures in " + folder)
    if sanitized(run.spindle):
        captures = captures[::4]
    addresses = "192.0.2.1/24", "192.0.2.2/24", "10.9.0.1/24", "10.9.0.2/24", "2001:db8::1/64", "2001:db8::2/64"
    config = "[nic]\nmac = 02:00:00:00:00:01\n" + "".join("ip = %s\n" % address for address in addresses)
    for capture in captures:
        frames = p.read_capture(capture)
        result = run.replay(config, capture)
        equal(result.report["packets"], len(frames), capture)
        extra = set(result.drops()) - {"bad-qp", "no-match", "wrong-destination"}
        equal(extra, set(), capture)
        assert result.drops().get("bad-qp", 0) > 0, "no RoCE packet was recognised in " + capture
        changed = [(at, frame[:-1] + bytes([frame[-1] ^ 1])) for at, frame in frames]
        broken = run.replay(config, [(at - changed[0][0], frame) for at, frame in changed]).drops()
        assert broken.get("bad-icrc", 0) == result.drops()["bad-qp"], "%s: %r" % (capture, broken)


# ---- configuration -------------------------------------------------------------------------------------------------------
def config_error(run, config, line, *words):
    path = run.write("nic.ini", config)
    capture = p.write_capture(run.path("in.pcap"), FRAMES[:1])
    process = run.command("replay", "-c", path, "--json", capture)
    equal((process.returncode, process.stdout), (1, ""), config)
    assert process.stderr.startswith("spindle replay: %s:%d: " % (path, line)), "line %d: %s" % (line, process.stderr)
    for word in words:
        assert word in process.stderr, "%r is not in: %s" % (word, process.stderr)


@rule("configuration errors name file, line and what is wrong", plain=True)
def _(run):
    sdr = "[context a]\nhandler = sdr\nqp = 100\n"  # after four lines of [nic]
    config_error(run, NIC + "colour = blue\n", 5, "colour")
    config_error(run, NIC + sdr + "colour = blue\n", 8, "colour")
    config_error(run, NIC + sdr + "mtu = lots\n", 8, "mtu", "lots")
    config_error(run, NIC + sdr + "mtu = 5000\n", 8, "mtu")
    config_error(run, NIC + sdr + "mtu = 0x\n", 8, "mtu")
    config_error(run, NIC + sdr + "mtu = 99999999999999999999999\n", 8, "mtu")
    config_error(run, NIC + sdr + "mtu = -1\n", 8, "mtu")
    config_error(run, NIC + sdr + "chunk-bytes = 1000\n", 8, "chunk-bytes")
    config_error(run, NIC + sdr + "split = 10+18+5\n", 8, "split")
    config_error(run, NIC + sdr + "max-message-bytes = 1T\n", 8, "max-message-bytes")
    config_error(run, NIC + sdr + "max-messages = 2000\n", 8, "max-messages")
    config_error(run, NIC + sdr + "mtu = 256\nmtu = 512\n", 9, "mtu")
    config_error(run, NIC + "[context a]\nhandler = sdr\nqp = 0\n", 7, "qp")
    config_error(run, NIC + "[context a]\nhandler = sdr\nqp = 16777215\n", 7, "qp")
    config_error(run, NIC + "[context a]\nhandler = sdr\nqp = seven\n", 7, "qp")
    config_error(run, NIC + "[context a]\nhandler = nothing\n", 6, "nothing")
    config_error(run, NIC + "[context a]\nqp = 100\n", 5, "handler")
    config_error(run, NIC + "[context a]\nhandler = count\nfilter = no such filter\n", 7, "filter")
    config_error(run, NIC + "[something]\nkey = 1\n", 5, "something")
    config_error(run, NIC + sdr + "[context a]\nhandler = count\n", 8, "line 5")
    config_error(run, "ip = 192.0.2.1/24\n", 1)
    config_error(run, "[nic]\nip = 192.0.2.300/24\n", 2, "ip")
    config_error(run, "[nic]\nip = 192.0.2.1/33\n", 2, "ip")
    config_error(run, "[nic]\nip = 192.0.2.1/24\nmac = 02:00\n", 3, "mac")
    config_error(run, "[nic]\nthis is no line\n", 2)


@rule("two contexts on one QP are refused with file and line, and say who has it")
def _(run):
    for second in (100, 103, 97):
        config_error(run, NIC + "[context first]\nhandler = sdr\nqp = 100\n[context second]\nhandler = sdr\nqp = %d\n" % second,
                     10, "qp", "first")
    run.replay(NIC + "[context first]\nhandler = sdr\nqp = 100\n[context second]\nhandler = sdr\nqp = 104\n", FRAMES)


@rule("a configuration that is not there, or a directory, is named")
def _(run):
    capture = p.write_capture(run.path("in.pcap"), FRAMES[:1])
    for path in (run.path("absent.ini"), run.dir.name):
        process = run.command("replay", "-c", path, capture)
        equal(process.returncode, 1)
        assert path in process.stderr, process.stderr


# ---- options ---------------------------------------------------------------------------------------------------------------
@rule("wrong usage has exit status 2 and says what is wrong")
def _(run):
    ini = run.write("nic.ini", CONFIG)
    capture = p.write_capture(run.path("in.pcap"), FRAMES)
    for arguments, word in ((["-c", ini], "capture"), ([capture], "-c"), (["-c", ini] + [capture] * 5, capture),
                            (["-c", ini, "--frobnicate", capture], "--frobnicate"), (["-c"], "-c"),
                            (["-c", ini, "--post", "sdr0", capture], "sdr0"), (["-c", ini, "--post", "sdr0=", capture], "sdr0="),
                            (["-c", ini, "--post", "sdr0=0", capture], "sdr0=0"),
                            (["-c", ini, "--post", "sdr0=x", capture], "sdr0=x"),
                            (["-c", ini, "--post", "sdr0=1", "--post", "sdr0=1", capture], "twice"),
                            (["-c", ini, "--dump", "sdr0", capture], "--dump")):
        process = run.command("replay", *arguments)
        equal(process.returncode, 2, " ".join(arguments))
        assert word in process.stderr and process.stderr.startswith("spindle replay: "), process.stderr
    equal(run.command("replay", "--help").returncode, 0)


@rule("posting to what cannot take it is an error that says so")
def _(run):
    config = CONFIG + "[context counter]\nhandler = count\nfilter = icmp\n"
    ini = run.write("nic.ini", config)
    capture = p.write_capture(run.path("in.pcap"), FRAMES)
    for post, word in (("other=1", "[context other]"), ("counter=1", "no buffers"), ("sdr0=18446744073709551615", "more than"),
                       ("sdr0=1000000000000", "")):
        process = run.command("replay", "-c", ini, "--post", post, capture)
        equal(process.returncode, 1, post)
        assert post in process.stderr and word in process.stderr, process.stderr


@rule("posting more than several workers can take is refused with the reason and the way out, which works")
def _(run):
    capture = p.write_capture(run.path("in.pcap"), FRAMES)
    for workers, status in ((2, 1), (1, 0)):
        ini = run.write("nic.ini", NIC + "workers = %d\n" % workers + SDR.ini())
        process = run.command("replay", "-c", ini, "--post", "sdr0=8", capture)
        equal(process.returncode, status, process.stderr)
        for word in ("receive 5 of 8", "workers = 2", "max-messages", "workers = 1") if status else ():
            assert word in process.stderr, process.stderr


@rule("a dump of gigabytes with little in it is whole and takes little disk")
def _(run):
    big = p.Sdr(mtu=4096, chunk=65536, max_bytes=1 << 30, slots=4)
    frames = [big.write(0, (1 << 18) - 1, b"E" * 1024), big.write(3, 5, b"F" * 1024)]
    capture = p.write_capture(run.path("in.pcap"), frames)
    path = run.path("dump")
    process = run.command("replay", "-c", run.write("nic.ini", NIC + big.ini()), "--post", "sdr0=4", "--dump", "sdr0=" + path, capture)
    equal(process.returncode, 0, process.stderr)
    equal(os.path.getsize(path), 4 << 30)
    assert os.stat(path).st_blocks * 512 < 1 << 20, "no holes"
    with open(path, "rb") as f:
        for at, byte in (((1 << 30) - 4096, b"E"), ((3 << 30) + 5 * 4096, b"F")):
            f.seek(at - 1)
            equal(f.read(1030), b"\0" + byte * 1024 + b"\0" * 5)


@rule("a full disk is told")
def _(run):
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full")
    ini = run.write("nic.ini", NIC + "[context echo]\nhandler = reflect\nfilter = udp port 9\n" + SDR.ini())
    capture = p.write_capture(run.path("in.pcap"), FRAMES + [(100000, p.ethernet(p.ipv4(p.udp(b"x", sport=7777, dport=9)), 0x0800))] * 100)
    for arguments in (["-w", "/dev/full"], ["--post", "sdr0=2", "--dump", "sdr0=/dev/full"]):
        process = run.command("replay", "-c", ini, *arguments, capture)
        equal(process.returncode, 1)
        assert "/dev/full: No space left" in process.stderr, process.stderr
    with open("/dev/full", "w") as full:
        process = subprocess.run([run.spindle, "replay", "-c", ini, "--json", capture], stdout=full, stderr=subprocess.PIPE, text=True)
    equal(process.returncode, 1)
    assert "standard output" in process.stderr, process.stderr


@rule("an expectation that can be read only once is refused before anything is replayed, and nobody waits for it")
def _(run):
    ini = run.write("nic.ini", CONFIG)
    capture = p.write_capture(run.path("in.pcap"), FRAMES)
    pipe = run.path("pipe")
    os.mkfifo(pipe)
    for option, value in (("--expect", ""), ("--expect-json", ""), ("--expect-memory", "sdr0=")):
        for file in (pipe, "/dev/zero"):
            process = subprocess.run([run.spindle, "replay", "-c", ini, "--post", "sdr0=1", option, value + file, capture],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
            equal((process.returncode, process.stdout, process.stderr),
                  (1, "", "spindle replay: %s: %s: no regular file: it can be read only once\n" % (option, file)))


@rule("an output that would destroy an input or another output is refused before anything is written")
def _(run):
    ini = run.write("nic.ini", CONFIG + p.Sdr(qp=900).ini("other"))
    capture = p.write_capture(run.path("in.pcap"), FRAMES)
    link = run.path("link")
    os.link(capture, link)
    old, new = run.write("old", b"keep"), run.path("new")
    again = os.path.join(run.dir.name, ".", "new")
    before = [open(path, "rb").read() for path in (ini, capture, old)]
    for arguments in (["-w", capture], ["-w", link], ["-w", ini], ["--dump", "sdr0=" + capture], ["--dump", "sdr0=" + ini],
                      ["--dump", "sdr0=" + old, "--dump", "other=" + old], ["--dump", "sdr0=" + new, "--dump", "other=" + again],
                      ["--dump", "sdr0=" + old, "-w", old], ["-w", new, "--dump", "sdr0=" + new]):
        process = run.command("replay", "-c", ini, "--post", "sdr0=1", "--post", "other=1", *arguments, capture)
        equal((process.returncode, process.stdout, process.stderr.count("\n")), (1, "", 1), arguments)
        equal([open(path, "rb").read() for path in (ini, capture, old)], before, arguments)
        assert not os.path.exists(new), arguments
    process = run.command("replay", "-c", ini, "--post", "sdr0=1", "--dump", "sdr0=/dev/null", "-w", "/dev/null", capture)
    equal(process.returncode, 0, process.stderr)


@rule("without --json there is a table of the same numbers", plain=True)
def _(run):
    run.replay(CONFIG, FRAMES, post={"sdr0": 2})
    process = run.command("replay", "-c", run.path("nic.ini"), "--post", "sdr0=2", run.path("in.pcap"))
    equal(process.returncode, 0)
    lines = [" ".join(line.split()) for line in process.stdout.splitlines()]
    for line in ("packets %d" % len(FRAMES), "sdr0", "handler sdr"):
        assert line in lines, "%r is not in\n%s" % (line, process.stdout)
    assert "chunk_bitmap 11111 " in process.stdout, process.stdout


main()
