#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle capture` on a NIC that runs on a veth link: the fate of what the kernel sends, and captures that come and go."""

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
from asking import ping  # noqa: E402
from net import HOST4, NIC4, NIC_MAC, Skip, World, config, pk, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

ECHO = "[context echo]\nhandler = reflect\nfilter = udp port 7777\n"
EAL = ("--vdev", "net_af_packet0,iface=nic0")
EAL2 = ("--vdev", "net_af_packet0,iface=nic0,qpairs=2")


class Capture(Process):
    """The command, once it captures. It is nobody's namespace: the socket is a file."""

    def __init__(self, house, nic, *arguments, file=None, **more):
        house.count += 1
        self.file = file or house.path("out%d.pcapng" % house.count)
        super().__init__([net.SPINDLE, "capture", "--nic", nic.socket, "-w", self.file, *arguments], env=house.environment(), **more)
        house.closing.append(self.kill)
        until("it captures: " + self.stderr(), lambda: "capturing on" in self.stderr() or self.process.poll() is not None)

    def need(self, comment, count=1):
        """An answer may be here before the NIC has told that it sent it."""
        def there():
            with open(self.file, "rb") as f:
                return f.read().count(comment.encode()) >= count
        until("%d times in the file: %s" % (count, comment), there)

    def stop(self, number=signal.SIGINT, status=0):
        self.signal(number)
        self.end(status)
        return self.stderr()


def comments(path, display="frame"):
    return [c for c, in net.tshark(path, display, "frame.comment")]


def ask(port, data, host=NIC4):
    """One datagram; the answer, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.2)
        s.connect((host, port))
        s.send(data)
        try:
            return s.recv(2048)
        except (TimeoutError, ConnectionRefusedError):
            return None


def need_answer(data):
    until("an echo", lambda: ask(7777, data) == data)


def send_frame(frame):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.bind(("host0", 0))
        s.send(frame)


@rule
def every_packet_is_told_with_its_fate_direction_and_time():
    with World() as w, House() as h:
        nic = h.nic(config(more=ECHO), eal=EAL, space=w.space)
        before = time.time()
        capture = Capture(h, nic)
        need_answer(b"Hello")
        ping(NIC4, 56, count=1)
        ask(9, b"nobody")
        wrong = pk.roce(0x2B, 0x40, pk.reth(0, 1, 4) + pk.immdt(1), b"data", src=HOST4, dst=NIC4, bad_icrc=True)
        send_frame(wrong)
        need_answer(b"Later")
        capture.need("sent by context echo", 2)
        errors = capture.stop()
        after = time.time()
        assert ", 0 lost" in errors, errors
        assert set(comments(capture.file, "udp.dstport==7777")) == {"context echo: taken (verdict sent)"}
        assert set(comments(capture.file, "udp.srcport==7777")) == {"sent by context echo"}
        assert comments(capture.file, "udp.dstport==9") == ["dropped: no-match"]
        assert comments(capture.file, "udp.dstport==4791") == ["dropped: bad-icrc"]
        assert comments(capture.file, "icmp.type==8") == ["answered by the NIC"]
        assert comments(capture.file, "icmp.type==0") == ["sent by the NIC"]
        assert set(comments(capture.file, "arp.opcode==1 && eth.dst==ff:ff:ff:ff:ff:ff")) == {"answered by the NIC"}
        rows = net.tshark(capture.file, "frame", "eth.src", "frame.packet_flags_direction", "frame.time_epoch", "frame.interface_name",
                          "frame.len", "frame.cap_len")
        assert rows
        for source, direction, when, name, length, captured in rows:
            assert int(direction, 16) == (2 if source == NIC_MAC else 1), (source, direction)
            assert before - 1 <= float(when) <= after + 1, (before, when, after)
            assert name == "net_af_packet0" and length == captured, (name, length, captured)
        assert net.tshark(capture.file, "_ws.malformed", "frame.number") == []
        assert [float(r[2]) for r in rows] == sorted(float(r[2]) for r in rows)  # one worker


@rule
def drops_go_through_a_pipe_into_tshark():
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    with World() as w, House() as h:
        nic = h.nic(config(more=ECHO), eal=EAL, space=w.space)
        capture = Capture(h, nic, "--drops", "udp", file="-", stdout=subprocess.PIPE)
        shark = Process(["tshark", "-n", "-r", "-", "-T", "fields", "-e", "udp.dstport", "-e", "frame.comment"],
                        stdin=capture.process.stdout)
        h.closing.append(shark.kill)
        capture.process.stdout.close()
        capture.process.stdout = None
        need_answer(b"taken, and not shown")
        for port in (9, 10, 11):
            ask(port, b"x")
        need_answer(b"all before has passed")
        capture.stop(signal.SIGTERM)
        shark.process.stdin = None
        assert shark.end() == ["%d\tdropped: no-match" % port for port in (9, 10, 11)]


@rule
def without_a_file_there_is_a_line_a_packet():
    with World() as w, House() as h:
        nic = h.nic(config(more=ECHO), eal=EAL, space=w.space)
        capture = Process([net.SPINDLE, "capture", "--nic", nic.socket, "udp"], env=h.environment())
        h.closing.append(capture.kill)
        until("it captures", lambda: "capturing on" in capture.stderr())
        send_frame(pk.roce(0x2B, 0x40, pk.reth(0, 1, 4) + pk.immdt(1 << 22 | 2 << 4), b"data", src=HOST4, dst=NIC4, psn=3, bad_icrc=True))
        need_answer(b"Hello")
        ask(9, b"nobody")
        said = []
        while not said or "dropped: no-match" not in said[-1]:
            said.append(capture.line())
        first, rest = said[0], said[1:]
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{9} net_af_packet0 In  IP %s\.\d+ > %s\.4791: RoCE UC WRITE Only Imm, qp 0x40, psn 3, va 0x0, "
                            r"rkey 0x1, len 4, imm 0x400020 \(SDR: message 1, packet 2\), length 40 \[dropped: bad-icrc\]" %
                            (re.escape(HOST4), re.escape(NIC4)), first), first
        assert any(" In  " in line and line.endswith(".7777: UDP, length 5 [context echo: taken (verdict sent)]") for line in rest), rest
        assert any(" Out " in line and "%s.7777 > " % NIC4 in line and line.endswith("[sent by context echo]") for line in rest), rest
        capture.signal(signal.SIGINT)
        capture.end()
        assert re.search(r"\d+ packets captured, 0 lost", capture.stderr()), capture.stderr()


@rule
def what_the_nic_refuses_it_says():
    with World() as w, House() as h:
        nic = h.nic(config(more=ECHO), eal=EAL, space=w.space)
        for arguments, words in ((("port", "port"), "syntax error"), (("--context", "nobody"), "there is no context nobody")):
            path = h.path("refused.pcapng")
            run = subprocess.run([net.SPINDLE, "capture", "--nic", nic.socket, "-w", path, *arguments], capture_output=True, text=True,
                                 timeout=60)
            assert run.returncode == 1 and words in run.stderr and not os.path.exists(path), (run.returncode, run.stderr)
        captures = [Capture(h, nic) for _ in range(4)]
        fifth = Capture(h, nic)
        fifth.end(1)
        assert "4 captures already" in fifth.stderr(), fifth.stderr()
        need_answer(b"all see it")
        for capture in captures:
            capture.need("sent by context echo")
            capture.stop()
            assert "sent by context echo" in comments(capture.file)


@rule
def killed_captures_leave_nothing_behind():
    with World() as w, House() as h:
        nic = h.nic(config(more="workers = 2\n" + ECHO), eal=EAL2, space=w.space)

        def holds():
            with open("/proc/%d/maps" % nic.pid) as f:
                maps = f.read().count("spindle-capture")
            return len(os.listdir("/proc/%d/fd" % nic.pid)), maps
        need_answer(b"first")
        before = holds()
        for _ in range(12):  # more than there may be at once
            capture = Capture(h, nic)
            assert capture.process.poll() is None, capture.stderr()
            need_answer(b"meanwhile")
            capture.kill()
            until("the NIC has let go of the capture", lambda: holds() == before)
        need_answer(b"last")
        capture = Capture(h, nic, "udp port 7777")
        need_answer(b"and a new one works")
        capture.need("sent by context echo")
        capture.stop()
        assert "sent by context echo" in comments(capture.file)


@rule
def when_the_nic_is_killed_the_file_is_complete_up_to_there():
    with World() as w, House() as h:
        for number in (signal.SIGKILL, signal.SIGTERM):
            nic = h.nic(config(more=ECHO), eal=EAL, space=w.space)
            capture = Capture(h, nic, "udp")
            need_answer(b"before the end")
            capture.need("sent by context echo")
            nic.signal(number)
            capture.end(1)
            assert "the NIC has " + ("died" if number == signal.SIGKILL else "gone") in capture.stderr(), capture.stderr()
            assert "sent by context echo" in comments(capture.file)
            nic.kill()


@rule
def captures_come_and_go_under_traffic_and_every_echo_is_right():
    with World() as w, House() as h:
        nic = h.nic(config(more="workers = 2\n" + ECHO), eal=EAL2, space=w.space)
        for i in range(3 if net.sanitized() else 4):
            capture = Capture(h, nic, *(("--context", "echo") if i % 2 else ()), "-s", str(60 + i))
            for size in range(1, 1400, 97):
                need_answer(bytes([i]) * size)
            capture.need("sent by context echo", 15)
            errors = capture.stop(signal.SIGINT if i % 2 else signal.SIGTERM)
            assert ", 0 lost" in errors, errors
            rows = net.tshark(capture.file, "udp.srcport==7777 || udp.dstport==7777", "frame.cap_len", "frame.len")
            assert len(rows) >= 30, len(rows)
            for captured, length in rows:
                assert int(captured) == min(int(length), 60 + i), (captured, length)


if __name__ == "__main__":
    net.main()
