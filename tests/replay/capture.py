#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle capture beside a NIC of this script's making: what stands in the file, when it ends, and what it says."""

import fcntl
import mmap
import os
import pty
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets  # noqa: E402
from replay import Skip, equal, main, rule  # noqa: E402

# handlers/wire/attach.h and capture.h
MAGIC, VERSION, OP_CAPTURE, OP_SEALED = 0x444E4953, 4, 8, 11
HEADER = struct.Struct("=IHHiI4Q")  # a reply; in a request the status is the length, and what follows is reserved
REQUEST = struct.Struct("=II40s1024s")
MEMORY = struct.Struct("=IIIIQQI28x")
SLOT = struct.Struct("=QIIHBBHH40s40s24x")
CAPTURE_MAGIC, RING, FIRST = 0x32414353, 128, 64 + 6 * 64
TAKEN, DROPPED, FORWARDED, ANSWERED, SENT = 1, 2, 3, 4, 5
NONE = 0xFFFF
EXCEPTION, LOOP = 4, 5
T0 = 1700000000123456789
FRAME = bytes.fromhex("020000000001020000000002") + b"\x88\xb5" + bytes(46)
PATIENCE = 60
LINES = "lines"  # no file: text on standard output


class Nic:
    """A socket that answers one request with rings."""

    def __init__(self, run, workers=1, slots=64, status=0, words=("", ""), ports=("port-a", "", "", "", "tap0", "loop")):
        run.runs += 1
        self.path = run.path("nic%d.sock" % run.runs)
        self.workers, self.slots, self.slot_bytes = workers, slots, 256
        self.stride = RING + slots * self.slot_bytes
        self.bytes = FIRST + workers * self.stride
        self.fd = os.memfd_create("rings", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.bytes)
        self.memory = mmap.mmap(self.fd, self.bytes)
        self.memory[:64] = MEMORY.pack(CAPTURE_MAGIC, workers, slots, self.slot_bytes, FIRST, self.stride, 152)
        for i, name in enumerate(ports):
            struct.pack_into("=64s", self.memory, 64 + 64 * i, name.encode())
        self.tail = [0] * workers
        self.status, self.words = status, words
        self.request = self.client = None
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen(1)
        self.socket.settimeout(PATIENCE)
        self.served = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        self.client, _ = self.socket.accept()
        data = self.client.recv(65536)
        self.request = (HEADER.unpack_from(data), data[HEADER.size:])
        words = b"" if not self.status else struct.pack("=40s256s", *(w.encode() for w in self.words))
        reply = HEADER.pack(MAGIC, VERSION, OP_CAPTURE, self.status, len(words), self.bytes, 0, 0, 0) + words
        if self.status:
            self.client.send(reply)
        else:
            socket.send_fds(self.client, [reply], [self.fd])
            equal(HEADER.unpack_from(self.client.recv(65536))[2], OP_SEALED, "next request")
            equal(fcntl.fcntl(self.fd, 1034) & 0x1F, 0x17, "seals")  # F_GET_SEALS: seals, shrinking, growing, writing
            self.client.send(HEADER.pack(MAGIC, VERSION, OP_SEALED, 0, 0, 0, 0, 0, 0))
        self.served.set()

    def ring(self, worker):
        return FIRST + worker * self.stride

    def put(self, fate, when=0, worker=0, port=0, context="", reason="", verdict=NONE, frame=FRAME, length=None, captured=None):
        at = self.ring(worker) + RING + self.tail[worker] % self.slots * self.slot_bytes
        SLOT.pack_into(self.memory, at, T0 + when, len(frame) if captured is None else captured,
                       len(frame) if length is None else length, port, fate, fate == SENT, worker, verdict, context.encode(),
                       reason.encode())
        self.memory[at + SLOT.size:at + SLOT.size + len(frame)] = frame
        self.tail[worker] += 1
        struct.pack_into("=Q", self.memory, self.ring(worker), self.tail[worker])

    def lose(self, n, worker=0, port=0):
        struct.pack_into("=Q", self.memory, self.ring(worker) + 8 + 8 * port, n)

    def head(self, worker=0):
        return struct.unpack_from("=Q", self.memory, self.ring(worker) + 64)[0]

    def wait_read(self, n, worker=0):
        end = time.monotonic() + PATIENCE
        while self.head(worker) != n:
            assert time.monotonic() < end, "the rings are not read: %d of %d" % (self.head(worker), n)
            time.sleep(0.002)

    def gone(self):
        for s in (self.client, self.socket):
            if s:
                s.close()

    close = gone


class Capture:
    """The command, running."""

    def __init__(self, run, nic, *arguments, file=None, **more):
        self.file = file or run.path("out%d.pcapng" % run.runs)
        write = [] if file == LINES else ["-w", self.file]
        self.process = subprocess.Popen([run.spindle, "capture", "--nic", nic.path, *write, *arguments], stderr=subprocess.PIPE, **more)

    def end(self, expect=0):
        _, errors = self.process.communicate(timeout=PATIENCE)
        errors = errors.decode(errors="replace")
        assert "Sanitizer" not in errors and "runtime error" not in errors, errors[-3000:]
        equal(self.process.returncode, expect, "exit status (%s)" % errors.strip())
        return errors

    def stop(self, number=signal.SIGINT, expect=0):
        self.process.send_signal(number)
        return self.end(expect)


def tshark(path, *fields):
    """Rows of fields."""
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    names = [x for f in fields for x in ("-e", f)]
    process = subprocess.run(["tshark", "-n", "-r", path, "-T", "fields", *names], capture_output=True, text=True, timeout=PATIENCE)
    equal(process.returncode, 0, "tshark: " + process.stderr)
    assert "cut short" not in process.stderr and "isn't a capture" not in process.stderr, process.stderr
    return [line.split("\t") for line in process.stdout.splitlines()]


def blocks(path):
    """Type and body of each block; the file must be complete."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 0, []
    while at < len(data):
        kind, total = struct.unpack_from("=II", data, at)
        assert total % 4 == 0 and total >= 12 and at + total <= len(data), "a block is cut off or has no length"
        equal(struct.unpack_from("=I", data, at + total - 4)[0], total, "second length of a block")
        found.append((kind, data[at + 8:at + total - 4]))
        at += total
    return found


def options(body, at):
    found = {}
    while at < len(body):
        code, length = struct.unpack_from("=HH", body, at)
        if not code:
            break
        found[code] = body[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    return found


def comments(path):
    """Of the packets, without tshark."""
    found = []
    for kind, body in blocks(path):
        if kind == 6:
            captured = struct.unpack_from("=I", body, 12)[0]
            found.append(options(body, 20 + (captured + 3) // 4 * 4)[1].decode())
    return found


FATES = [
    (dict(fate=TAKEN, context="echo", verdict=0), "context echo: taken"),
    (dict(fate=TAKEN, context="echo", verdict=1), "context echo: taken (verdict end)"),
    (dict(fate=TAKEN, context="echo", verdict=5), "context echo: taken (verdict sent)"),
    (dict(fate=DROPPED, reason="bad-icrc"), "dropped: bad-icrc"),
    (dict(fate=DROPPED, context="x", reason="late", verdict=4), "context x: dropped: late"),
    (dict(fate=DROPPED, context="x", reason="header-busy"), "context x: dropped: header-busy"),
    (dict(fate=DROPPED, context="x", reason="handler-error", verdict=3), "context x: dropped: handler-error (verdict error)"),
    (dict(fate=DROPPED, context="x", reason="handler-error", verdict=200), "context x: dropped: handler-error (verdict unknown)"),
    (dict(fate=FORWARDED), "forwarded to the exception port"),
    (dict(fate=FORWARDED, context="x", verdict=2), "context x: forwarded to the exception port"),
    (dict(fate=ANSWERED), "answered by the NIC"),
    (dict(fate=SENT), "sent by the NIC"),
    (dict(fate=SENT, context="c" * 39), "sent by context " + "c" * 39),
    (dict(fate=TAKEN, context="\x1b[2J\u00e9", verdict=0), "context ?[2J??: taken"),  # names are applications'
    (dict(fate=SENT, port=EXCEPTION), "sent by the NIC"),
    (dict(fate=TAKEN, port=LOOP, context="y", verdict=0), "context y: taken"),
]


@rule("every fate reads in tshark as its comment, with port, direction, lengths and time, and nothing is malformed")
def every_fate(run):
    nic = Nic(run)
    for i, (slot, _) in enumerate(FATES):
        nic.put(when=i * 1000000007, frame=FRAME + bytes(i), length=len(FRAME) + 2 * i, **slot)
    capture = Capture(run, nic)
    nic.wait_read(len(FATES))
    errors = capture.stop()
    assert "%d packets captured, 0 lost" % len(FATES) in errors, errors
    rows = tshark(capture.file, "frame.comment", "frame.interface_name", "frame.packet_flags_direction", "frame.cap_len",
                  "frame.len", "frame.time_epoch", "eth.src", "_ws.malformed")
    equal(len(rows), len(FATES))
    for i, ((slot, comment), row) in enumerate(zip(FATES, rows)):
        name = {EXCEPTION: "tap0", LOOP: "loop"}.get(slot.get("port"), "port-a")
        when = T0 + i * 1000000007
        equal(row[:8], [comment, name, "0x00000002" if slot["fate"] == SENT else "0x00000001", str(len(FRAME) + i),
                        str(len(FRAME) + 2 * i), "%d.%09d" % divmod(when, 10**9), "02:00:00:00:00:02", ""])


@rule("a real packet decodes: RoCEv2 is RoCEv2 in tshark")
def real_packet(run):
    nic = Nic(run)
    frame = packets.roce(0x2B, 0x40, packets.reth(0, 1, 4) + packets.immdt(5), b"data")
    nic.put(TAKEN, context="c", verdict=0, frame=frame)
    capture = Capture(run, nic, "-c", "1")
    capture.end()
    rows = tshark(capture.file, "infiniband.bth.destqp", "infiniband.bth.opcode", "_ws.malformed")
    equal([int(rows[0][0], 16), int(rows[0][1]), rows[0][2]], [0x40, 0x2B, ""])


@rule("packets of several workers are written by their time")
def several_workers(run):
    nic = Nic(run, workers=3)
    for i in range(90):
        nic.put(TAKEN, when=i * 100, worker=(i * 7) % 3, context="c%d" % i, verdict=0)
    capture = Capture(run, nic)
    for worker in range(3):
        nic.wait_read(30, worker)
    capture.stop(signal.SIGTERM)
    equal(comments(capture.file), ["context c%d: taken" % i for i in range(90)])
    queues = [struct.unpack("=I", options(b, 20 + (len(FRAME) + 3) // 4 * 4)[6])[0] for kind, b in blocks(capture.file) if kind == 6]
    equal(queues, [(i * 7) % 3 for i in range(90)], "workers")


@rule("what found no place in the rings is in the interface's statistics, and said")
def losses(run):
    nic = Nic(run, workers=2, ports=("one", "two", "", "", "", "loop"))
    nic.put(TAKEN, port=1)
    nic.put(TAKEN, port=1)
    nic.lose(5, worker=0, port=1)
    nic.lose(6, worker=1, port=1)
    nic.lose(1, worker=1, port=0)
    capture = Capture(run, nic)
    nic.wait_read(2)
    errors = capture.stop()
    assert "2 packets captured, 12 lost" in errors, errors
    found = blocks(capture.file)
    equal([kind for kind, _ in found], [0x0A0D0D0A, 1, 1, 6, 6, 5, 5], "blocks")
    statistics = {struct.unpack_from("=I", b)[0]: options(b, 12) for kind, b in found if kind == 5}
    equal([[struct.unpack("=Q", statistics[i][code])[0] for code in (4, 5)] for i in range(2)], [[1, 1], [13, 11]])


@rule("rings go round: more packets than slots arrive whole and in order")
def around(run):
    nic = Nic(run, slots=8)
    capture = Capture(run, nic, "-c", "100")
    nic.served.wait(PATIENCE)
    for i in range(100):
        end = time.monotonic() + PATIENCE
        while nic.tail[0] - nic.head() == 8:
            assert time.monotonic() < end
            time.sleep(0.001)
        nic.put(TAKEN, context="c%d" % i, verdict=0)
    capture.end()
    equal(comments(capture.file), ["context c%d: taken" % i for i in range(100)])


@rule("what is asked for reaches the NIC: drops, context, snap length, the words of the filter")
def request(run):
    nic = Nic(run)
    capture = Capture(run, nic, "--drops", "--context", "echo", "-s", "77", "udp", "port 4791", "--seconds", "0.01")
    capture.end()
    (magic, version, op, size, _, *_), data = nic.request
    equal([magic, version, op, size, len(data)], [MAGIC, VERSION, OP_CAPTURE, REQUEST.size, REQUEST.size])
    flags, snap, context, words = REQUEST.unpack(data)
    equal([flags, snap, context.rstrip(b"\0"), words.rstrip(b"\0")], [1, 77, b"echo", b"udp port 4791"])
    equal([kind for kind, _ in blocks(capture.file)], [0x0A0D0D0A, 1, 5], "an empty file is complete")


@rule("what the NIC has against it is said, exit status 1, and an existing file stays as it was")
def refused(run):
    for status, words, expect in ((-22, ("filter", "syntax error in it"), "filter: syntax error in it"),
                                  (-2, ("context", "there is no context x"), "there is no context x"), (-16, ("", ""), "busy")):
        nic = Nic(run, status=status, words=words)
        capture = Capture(run, nic, file=run.write("keep.pcapng", "precious"))
        errors = capture.end(1)
        assert expect in errors.lower(), errors
        with open(capture.file) as f:
            equal(f.read(), "precious")


@rule("without a NIC it says so and writes nothing")
def no_nic(run):
    process = run.command("capture", "--nic", run.path("nobody.sock"), "-w", run.path("nothing.pcapng"))
    equal(process.returncode, 1)
    assert "is not running" in process.stderr and not os.path.exists(run.path("nothing.pcapng")), process.stderr


@rule("when the NIC goes, it says so, exit status 1, and the file has all that came before")
def nic_goes(run):
    nic = Nic(run)
    capture = Capture(run, nic)
    nic.served.wait(PATIENCE)
    for i in range(60):
        nic.put(TAKEN, context="c%d" % i, verdict=0)
    nic.gone()
    errors = capture.end(1)
    assert "the NIC has died" in errors, errors  # it has not said goodbye
    equal(comments(capture.file), ["context c%d: taken" % i for i in range(60)])
    equal(blocks(capture.file)[-1][0], 5)


@rule("| tshark -r - reads it from the pipe")
def live(run):
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    nic = Nic(run)
    capture = Capture(run, nic, file="-", stdout=subprocess.PIPE)
    shark = subprocess.Popen(["tshark", "-n", "-l", "-r", "-", "-T", "fields", "-e", "frame.comment"], stdin=capture.process.stdout,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        nic.served.wait(PATIENCE)
        for i in range(3):
            nic.put(DROPPED, reason="r%d" % i)
            nic.wait_read(i + 1)
        capture.process.stdout.close()
        errors = capture.stop()
        assert "3 packets captured" in errors, errors
        equal(shark.communicate(timeout=PATIENCE)[0].splitlines(), ["dropped: r%d" % i for i in range(3)])
    finally:
        shark.kill()
        shark.wait()


@rule("what was captured is in the pipe before the next packet comes")
def flushed(run):
    nic = Nic(run)
    capture = Capture(run, nic, file="-", stdout=subprocess.PIPE)
    nic.served.wait(PATIENCE)
    got = b""
    for i in range(3):
        nic.put(DROPPED, reason="reason-%d" % i)
        while b"reason-%d" % i not in got:
            data = os.read(capture.process.stdout.fileno(), 65536)
            assert data, "it ended"
            got += data
    capture.stop()


@rule("a reader that has read enough ends it, without a complaint, also when no packet comes")
def reader_goes(run):
    for traffic in (True, False):
        nic = Nic(run)
        capture = Capture(run, nic, file="-", stdout=subprocess.PIPE)
        nic.served.wait(PATIENCE)
        nic.put(TAKEN)
        nic.wait_read(1)
        capture.process.stdout.close()
        if traffic:
            nic.put(TAKEN)
        capture.process.stdout = None
        errors = capture.end(0)
        assert "standard output" not in errors and "Broken pipe" not in errors, errors


@rule("-c and --seconds end it by themselves")
def limits(run):
    nic = Nic(run)
    for i in range(20):
        nic.put(TAKEN, context="c%d" % i, verdict=0)
    capture = Capture(run, nic, "-c", "7")
    capture.end()
    equal(comments(capture.file), ["context c%d: taken" % i for i in range(7)])
    nic = Nic(run)
    nic.put(TAKEN)
    capture = Capture(run, nic, "--seconds", "0.05")
    capture.end()
    equal(len(comments(capture.file)), 1)


@rule("pcapng is not written to a terminal")
def terminal(run):
    nic = Nic(run)
    ours, theirs = pty.openpty()
    process = subprocess.run([run.spindle, "capture", "--nic", nic.path, "-w", "-"], stdout=theirs, stderr=subprocess.PIPE, text=True,
                             timeout=PATIENCE)
    os.close(ours)
    os.close(theirs)
    equal(process.returncode, 2)
    assert "terminal" in process.stderr.splitlines()[0] and nic.request is None, process.stderr


@rule("a file that cannot be written is a failure that is named")
def full_disk(run):
    nic = Nic(run)
    nic.put(TAKEN)
    errors = Capture(run, nic, file="/dev/full").end(1)
    assert "/dev/full" in errors and "No space" in errors, errors
    nic = Nic(run)
    errors = Capture(run, nic, file=run.path("no/such/folder")).end(1)
    assert "No such file" in errors, errors


@rule("rings that make no sense end it with an error, never with a crash")
def rubbish(run):
    seed = random.Random(5)
    values = [0, 1, 3, 63, 65, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    wide = values + [1 << 40, (1 << 63), (1 << 64) - 1, (1 << 64) - 64]
    tries = [(at, "=I", v) for at in (4, 8, 12) for v in values] + [(at, "=Q", v) for at in (16, 24) for v in wide]
    tries += [(FIRST, "=Q", v) for v in wide]  # the tail
    for at, form, value in seed.sample(tries, 24):
        nic = Nic(run, workers=2)
        nic.put(TAKEN, captured=0xFFFFFFFF)
        nic.put(99, port=77, context="x" * 40, reason="y" * 40)
        struct.pack_into(form, nic.memory, at, value)
        process = subprocess.run([run.spindle, "capture", "--nic", nic.path, "-w", "/dev/null", "--seconds", "0.02"],
                                 stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert process.returncode in (0, 1) and "Sanitizer" not in process.stderr, "%d %s %d: %d %s" % (
            at, form, value, process.returncode, process.stderr[-1000:])
        nic.close()


# What tcpdump would say of it, and what the NIC adds.
SHOWN = [
    (dict(frame=packets.ethernet(packets.ipv4(packets.udp(b"abc", 5, 7)), 0x0800)), "IP %s.5 > %s.7: UDP, length 3"),
    (dict(frame=packets.ethernet(packets.ipv4(packets.udp(b"abc", 5, 7)), 0x0800, vlan=(3, 4))),
     "vlan 3, vlan 4, IP %s.5 > %s.7: UDP, length 3"),
    (dict(frame=packets.roce(0x2B, 0x40, packets.reth(0x1000, 9, 4) + packets.immdt(3 << 22 | 5 << 4), b"data", psn=77)),
     "IP %s.49152 > %s.4791: RoCE UC WRITE Only Imm, qp 0x40, psn 77, va 0x1000, rkey 0x9, len 4, imm 0xc00050 (SDR: message 3, packet 5), length 40"),
    (dict(frame=packets.roce(0x04, 0x41, b"", b"", psn=0xFFFFFF, raw_bth=packets.bth(0x04, 0x41, 0xFFFFFF, ack=True))),
     "IP %s.49152 > %s.4791: RoCE RC SEND Only, qp 0x41, psn 16777215, ack req, length 16"),
    (dict(frame=packets.roce(0x11, 0x41, struct.pack(">I", 0x60 << 24 | 8), psn=1)),
     "IP %s.49152 > %s.4791: RoCE RC Acknowledge, qp 0x41, psn 1, nak 0, msn 8, length 20"),
    (dict(frame=packets.roce(0x64, 0x42, struct.pack(">II", 1, 0x99))), "IP %s.49152 > %s.4791: RoCE UD SEND Only, qp 0x42, psn 0, src qp 0x99, length 24"),
    (dict(frame=packets.rvma_put(0x50, 64, 2, 1000, 0x11FF0011, 0, 512, b"abcd")),
     "IP %s.49152 > %s.4791: RoCE RVMA PUT, qp 0x50, psn 0, transfer 64, packet 2, mailbox 0x11ff0011, offset 512, len 1000, length 76"),
    (dict(frame=packets.rvma_nack(0x50, 1, 64, 3, 2)), "IP %s.49152 > %s.4791: RoCE RVMA NACK, qp 0x50, psn 0, transfer 64, blocks 3, reason 2, length 40"),
    (dict(frame=packets.roce(0xEE, 0x50)), "IP %s.49152 > %s.4791: RoCE opcode 0xee, qp 0x50, psn 0, length 16"),
    (dict(frame=packets.ethernet(packets.ipv4(struct.pack(">BBHHH", 8, 0, 0, 7, 9), proto=1), 0x0800)),
     "IP %s > %s: ICMP echo request, id 7, seq 9, length 8"),
    (dict(frame=packets.ethernet(packets.ipv4(struct.pack(">HHIIBBHHH", 80, 81, 5, 6, 0x50, 0x12, 0, 0, 0) + b"xy", proto=6), 0x0800)),
     "IP %s.80 > %s.81: TCP [S.], seq 5, ack 6, length 2"),
    (dict(frame=packets.ethernet(packets.ipv4(b"12345678", proto=17, fragment=2), 0x0800)), "IP %s > %s: protocol 17, fragment at 16, length 8"),
    (dict(frame=FRAME), "ethertype 0x88b5, length 60"),
    (dict(frame=packets.ethernet(struct.pack(">HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, b"", bytes([192, 0, 2, 1]), b"", bytes([192, 0, 2, 2])), 0x0806)),
     "ARP, Request who-has 192.0.2.2 tell 192.0.2.1"),
    (dict(frame=packets.roce(0x2A, 0x40, packets.reth(1, 2, 3), v6=True)),
     "IP6 %s.49152 > %s.4791: RoCE UC WRITE Only, qp 0x40, psn 0, va 0x1, rkey 0x2, len 3, length 32"),
]


@rule("without -w there is a line a packet: time, port, direction, what tcpdump would say, and its fate")
def lines(run):
    nic = Nic(run)
    for i, (slot, _) in enumerate(SHOWN):
        nic.put(SENT if i == 1 else DROPPED, when=i, port=LOOP if i == 2 else 0, context="c", reason="late", **slot)
    capture = Capture(run, nic, file=LINES, stdout=subprocess.PIPE, env=dict(os.environ, TZ="UTC"))
    for i, (slot, text) in enumerate(SHOWN):
        said = capture.process.stdout.readline().decode()  # while it captures: lines do not wait for each other
        ends = (packets.CLIENT6, packets.SERVER6) if text.startswith("IP6") else (packets.CLIENT, packets.SERVER)
        expected = "22:13:20.%09d %s %s %s [%s]\n" % (
            123456789 + i, "loop" if i == 2 else "port-a", "Out" if i == 1 else "In ", text % ends if "%s" in text else text,
            "sent by context c" if i == 1 else "context c: dropped: late")
        equal(said, expected)
    errors = capture.stop()
    assert "%d packets captured, 0 lost" % len(SHOWN) in errors, errors


@rule("a line reads nothing behind what was captured, wherever that ends, and whatever lengths a header claims")
def cut_lines(run):
    seed = random.Random(7)
    frames = [slot["frame"] for slot, _ in SHOWN]
    tries = [(frame, bytes(frame[:n]), n) for frame in frames for n in range(len(frame[:152]))]
    for frame in frames * 8:
        wrong = bytearray(frame)
        wrong[seed.randrange(12, len(wrong))] = seed.choice((0, 0x0F, 0x4F, 0xFF))
        tries.append((frame, bytes(wrong[:152]), len(wrong[:152])))
    nic = Nic(run, slots=4096)
    for frame, part, n in tries:
        nic.put(TAKEN, frame=part + b"\xAA" * (152 - n), captured=n, length=len(frame))
    capture = Capture(run, nic, "-c", str(len(tries)), file=LINES, stdout=subprocess.PIPE)
    out = capture.process.stdout.read().decode()
    capture.end()
    said = out.splitlines()
    equal(len(said), len(tries))
    assert all(line.endswith(" [taken]") for line in said), [line for line in said if not line.endswith(" [taken]")]
    for (frame, part, n), line in zip(tries[:len(frames[0])], said):
        assert (n == len(frame)) or "[|" in line or n >= 42, (n, line)  # all of Ethernet, IP and UDP is there
    assert all("0xaaaa" not in line and "170.170" not in line for line in said), "bytes behind the frame"


@rule("a reader of lines that goes ends it without a complaint")
def lines_reader_goes(run):
    nic = Nic(run)
    capture = Capture(run, nic, file=LINES, stdout=subprocess.PIPE)
    nic.put(TAKEN)
    capture.process.stdout.readline()
    capture.process.stdout.close()
    nic.put(TAKEN)
    capture.process.stdout = None
    errors = capture.end(0)
    assert "standard output" not in errors, errors


@rule("wrong usage is named before the usage, a wrong value without it, exit status 2")
def misuse(run):
    for arguments, words in ((("-w", "x", "--bogus"), "unknown option --bogus"),
                             (("-w",), "a value is missing after -w"), (("-w", "x", "-s", "0"), "-s must be 1 to 65535, not 0"),
                             (("-w", "x", "-c", "-1"), "-c must be 1 or more, not -1"),
                             (("-w", "x", "--seconds", "nan"), "--seconds must be"),
                             (("-w", "x", "--context", "c" * 40), "--context must be a context's name, not cccc"),
                             (("-w", "x", "u" * 1024), "filter is longer")):
        process = run.command("capture", *arguments)
        lines = process.stderr.splitlines()
        equal(process.returncode, 2, arguments)
        assert lines[0].startswith("spindle capture: ") and words in lines[0], process.stderr
        assert lines[1:] == [] if "must be" in words else lines[1].startswith("usage:"), process.stderr


main()
