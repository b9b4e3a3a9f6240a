#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes in.pcap, which holds the probes, and expected.pcap, which holds the answers that they must get.

    ./make.py           writes both
    ./make.py --check   writes nothing; exit status 1 if one of them differs

The answers are worked out here from the RFCs alone, not by the handler.
"""

import ipaddress
import struct
import sys

# MAC address, IPv4 address, IPv6 address
NIC = ("02:00:00:00:00:01", "192.0.2.1", "2001:db8::1")
PEER = ("02:00:00:00:00:02", "192.0.2.2", "2001:db8::2")
START = 1700000000 * 10**9  # of the capture, nanoseconds since 1970


# ---- frames and captures: these serve other handlers as well -----------------------------------------------------

def checksum(data):
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def datagram(source, target, ports, payload, v6=False, ttl=64, summed=True):
    """An Ethernet frame with a UDP datagram in it. ports: source's and target's; summed: with a UDP checksum."""
    addresses = b"".join(ipaddress.ip_address(host[2 if v6 else 1]).packed for host in (source, target))
    length = 8 + len(payload)
    udp = struct.pack(">HHHH", *ports, length, 0) + payload
    if summed:
        check = checksum(addresses + struct.pack(">II", length, 17) + udp) or 0xFFFF
        udp = udp[:6] + struct.pack(">H", check) + payload
    if v6:
        ip = struct.pack(">IHBB", 6 << 28, length, 17, ttl) + addresses
    else:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, ttl, 17, 0) + addresses
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
    macs = b"".join(bytes.fromhex(host[0].replace(":", "")) for host in (target, source))
    return (macs + struct.pack(">H", 0x86DD if v6 else 0x0800) + ip + udp).ljust(60, b"\0")


def pcap(packets):
    """The bytes of a capture; packets: (nanoseconds since its start, frame)."""
    data = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)
    for time, frame in packets:
        data += struct.pack("<IIII", *divmod(START + time, 10**9), len(frame), len(frame)) + frame
    return data


def write(files):
    """files: name -> bytes. Writes them, or compares. Returns the exit status."""
    status = 0
    for name, data in files.items():
        if "--check" not in sys.argv:
            with open(name, "wb") as f:
                f.write(data)
        else:
            with open(name, "rb") as f:
                if f.read() != data:
                    print("%s: not what this script writes" % name)
                    status = 1
    return status


# ---- STAMP, RFC 8762 ---------------------------------------------------------------------------------------------

PORT, SENDER = 862, 49152
MS = 10**6
PROBES = [  # number, how many bytes, IPv6, TTL, with a UDP checksum, to which port
    (0, 44, False, 64, True, PORT),
    (1, 44, True, 255, True, PORT),
    (2, 100, False, 57, True, PORT),   # padded: is answered at its length
    (3, 101, True, 1, True, PORT),
    (4, 43, False, 64, True, PORT),    # too short for a probe
    (5, 44, False, 64, True, 863),     # these two are for others
    (6, 44, True, 64, True, 0xC000),
    (7, 44, False, 64, False, PORT),   # without a UDP checksum, as IPv4 allows
]


def ntp(nanoseconds):
    """RFC 5905, section 6: seconds and fraction, 32 bits each."""
    return struct.pack(">Q", (nanoseconds << 32) // 10**9)


def stamp():
    asked, answered = [], []
    for number, length, v6, ttl, summed, port in PROBES:
        now = number * 10 * MS
        probe = struct.pack(">I", number) + ntp(START + now + 2208988800 * 10**9) + struct.pack(">H", 0x8A01)
        padding = bytes(range(length))[44:]
        asked.append((now, datagram(PEER, NIC, (SENDER, port), probe.ljust(min(length, 44), b"\0") + padding, v6, ttl,
                                    summed)))
        if port == PORT and length >= 44:
            # The NIC's clock is 0 at the first packet of a replay. 1: an error of 2^-32 s, not synchronised.
            answer = struct.pack(">I", number) + ntp(now) + struct.pack(">HH", 1, 0) + ntp(now) + probe
            answer += struct.pack(">HBBH", 0, ttl, 0, 0) + padding
            answered.append((now, datagram(NIC, PEER, (PORT, SENDER), answer, v6, ttl, summed)))
    return {"in.pcap": pcap(asked), "expected.pcap": pcap(answered)}


if __name__ == "__main__":
    sys.exit(write(stamp()))
