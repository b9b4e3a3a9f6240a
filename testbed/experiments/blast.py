# SPDX-License-Identifier: BSD-3-Clause
"""Sends UDP frames by a packet socket, as fast as the kernel takes them or at a rate, and says as JSON how many and in what time;
or sends echo requests, one after the other, and says how long the answers took.

  python3 blast.py INTERFACE MAC BYTES SECONDS RATE     RATE: frames a second, 0: as many as go
  python3 blast.py INTERFACE MAC BYTES COUNT echo
"""

import ctypes
import json
import socket
import statistics
import struct
import sys
import time

BATCH = 32
SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20
SOURCE, DESTINATION, PORT = "192.0.2.2", "192.0.2.1", 7777
MAC = "02:00:00:00:00:02"


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Message(ctypes.Structure):
    """struct mmsghdr"""
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(Iovec)), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int), ("len", ctypes.c_uint)]


def checksum(data):
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def packet(mac, protocol, payload):
    """An Ethernet frame, without FCS."""
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0, socket.inet_aton(SOURCE),
                       socket.inet_aton(DESTINATION))
    head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
    return b"".join(bytes.fromhex(m.replace(":", "")) for m in (mac, MAC)) + b"\x08\x00" + head + payload


def frame(mac, size):
    """So many bytes, whose UDP checksum is 0: none."""
    return packet(mac, 17, struct.pack(">HHHH", 1024, PORT, size - 34, 0) + bytes(size - 42))


def blast(interface, mac, size, seconds, rate):
    """Frames sent, refused, seconds, and seconds of the processor: for them, and of this process in all."""
    data = ctypes.create_string_buffer(frame(mac, size), size)
    vectors = (Iovec * BATCH)(*[Iovec(ctypes.addressof(data), size)] * BATCH)
    messages = (Message * BATCH)()
    for i in range(BATCH):
        messages[i].iov, messages[i].iovlen = ctypes.pointer(vectors[i]), 1
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        s.bind((interface, 0))
        fd, clock = s.fileno(), time.perf_counter
        sent = refused = 0
        began, used = clock(), time.process_time()
        now = began
        while now - began < seconds:
            early = (sent + refused) / rate - (now - began) if rate else 0
            if early > 0:
                time.sleep(early)
            else:
                n = sendmmsg(fd, messages, BATCH, 0)
                sent += max(n, 0)
                refused += n < 0  # no room: the device's queue is full
            now = clock()
        used, all_ = time.process_time() - used, time.process_time()
        return {"sent": sent, "refused": refused, "seconds": now - began, "cpu": used, "all": all_}


def echo(interface, mac, size, count):
    """Microseconds until the answer, the median."""
    times = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.bind((interface, 0x0003))  # ETH_P_ALL
        s.settimeout(10)
        for i in range(count):
            message = struct.pack(">BBHHH", 8, 0, 0, 1, i) + bytes(size - 42)
            data = packet(mac, 1, message[:2] + struct.pack(">H", checksum(message)) + message[4:])
            began = time.perf_counter()
            s.send(data)
            while True:
                got = s.recv(65536)
                if got[:6] == data[6:12] and got[23:24] == b"\x01" and got[34:35] == b"\0" and got[40:42] == data[40:42]:
                    break
            times.append(time.perf_counter() - began)
            time.sleep(0.0005)
    return {"echo_us": 1e6 * statistics.median(times)}


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[4] == "echo":
        print(json.dumps(echo(words[0], words[1], int(words[2]), int(words[3]))))
        sys.exit()
    print(json.dumps(blast(words[0], words[1], int(words[2]), float(words[3]), float(words[4]))))
