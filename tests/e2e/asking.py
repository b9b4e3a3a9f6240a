# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel at the other end of a link asks a NIC, and the answers that it must get."""

import json
import random
import socket
import struct
import time

from net import ip, pk


def ping(address, size, count=3, ident=0x5350):
    """The kernel's echo: it resolves, routes, and delivers what has come back. Every byte must be as it was."""
    v6 = ":" in address
    family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if v6 else (socket.AF_INET, socket.IPPROTO_ICMP)
    with socket.socket(family, socket.SOCK_RAW, protocol) as s:
        s.settimeout(60)
        for sequence in range(count):
            data = random.Random(size * 31 + sequence).randbytes(size)
            message = struct.pack(">BBHHH", 128 if v6 else 8, 0, 0, ident, sequence) + data
            if not v6:  # over IPv6 the kernel computes it, and verifies the answer's
                message = message[:2] + struct.pack(">H", pk.checksum(message)) + message[4:]
            s.sendto(message, (address, 0))
            end = time.monotonic() + 60
            while True:
                assert time.monotonic() < end, "no answer from %s to %d bytes" % (address, size)
                try:
                    answer, source = s.recvfrom(65536)
                except TimeoutError:
                    continue
                if not v6:
                    answer = answer[(answer[0] & 15) * 4:]
                if answer[0] != (129 if v6 else 0) or source[0] != address:
                    continue
                if not v6:
                    assert pk.checksum(answer) == 0, "wrong ICMP checksum"
                kind, code, _, who, number = struct.unpack(">BBHHH", answer[:8])
                if (who, number) == (ident, sequence):
                    assert code == 0 and answer[8:] == data, "another payload came back"
                    break


PINGS = 40


def ping_at_times(address):
    for sequence in range(PINGS):
        time.sleep(0.05)  # asleep again
        ping(address, 100, count=1, ident=3000 + sequence)


def woken(report, least=PINGS // 4):
    """By at least a quarter of what has come at times: on a busy machine a worker may not have fallen asleep before."""
    workers = report["workers"]
    assert sum(w["woken"] for w in workers) >= least, workers
    assert all(w["sleeps"] >= PINGS // 4 for w in workers), workers


def neighbour(address, interface="host0"):
    """What the kernel knows of it: its MAC, or None, and the entry's state."""
    for n in json.loads(ip("-j", "neigh", "show", address, "dev", interface)):
        return n.get("lladdr"), n["state"]
    return None, []


def echo(family, address, sizes):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        s.connect((address, 7777))
        for size in sizes:
            data = random.Random(size).randbytes(size)
            s.send(data)
            assert s.recv(65536) == data, "%d bytes to %s" % (size, address)
        for i in range(64):  # several on their way at once
            s.send(struct.pack(">I", i) * 100)
        assert {s.recv(65536) for _ in range(64)} == {struct.pack(">I", i) * 100 for i in range(64)}
