# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts, each with a kernel and a NIC, and files that `spindle send` and `recv` carry from one to the other."""

import atexit
import contextlib
import os
import random
import re
import select
import shutil
import signal
import socket
import struct

import net
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, Space, ip, sanitized, until
from served import House, Process

FAR, NEAR = "198.51.100.1", "198.51.100.2"  # the kernels' addresses, for TCP
HOST_MAC = "02:00:00:00:00:02"
MB = 1 << 20


def config(port, mac, ip4, ip6, more=""):
    return "[nic]\nport = %s\nip = %s/24, %s/64\nmac = %s\n%s\n" % (port, ip4, ip6, mac, more)


class Hosts(House):
    """Two hosts, `far` and `near`, each with a NIC and a kernel: apart in two network namespaces joined by a veth link, which
    NICs and kernels share, or together in one, with a vhost-user link between the NICs and no kernel in their way."""

    shared = None  # see hosts()

    @classmethod
    def part(cls):
        if cls.shared:
            cls.shared, h = None, cls.shared
            h.__exit__()

    def __init__(self, link="veth", workers=1, mtu=(1500, 1500), drop=None, far="", both=""):
        self.part()  # the links have names
        super().__init__()
        self.space = None
        self.link, self.workers, self.mtu, self.host = link, workers, mtu, FAR
        self.far_more, self.both_more = far, both
        try:
            self.build(drop)
        except BaseException:
            self.__exit__()
            raise

    def build(self, drop):
        if self.link == "vhost":
            self.host = "127.0.0.1"
        else:
            self.space = Space()
            self.closing.append(self.space.close)
            if drop:
                self.lossy(drop)
            else:
                ip("link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", str(self.space.pid))
                self.closing.append(lambda: ip("link", "del", "near0", check=False))
            self.up("near0", NEAR)
            self.space.do(lambda: self.up("far0", FAR))
        self.far_nic = self.start("far")
        self.near_nic = self.start("near")

    @staticmethod
    def up(name, address):
        ip("link", "set", name, "addrgenmode", "none", "up")
        net.no_offloads(name)
        if address:
            ip("addr", "add", address + "/24", "dev", name)

    def lossy(self, drop):
        """Two links, and between them a process that passes frames on, but those for which drop(far to near?, number) is
        true: number counts the frames of that direction that carry a file's payload."""
        ip("link", "add", "near0", "type", "veth", "peer", "name", "near1")
        ip("link", "add", "far1", "type", "veth", "peer", "name", "far0", "netns", str(self.space.pid))
        for name in ("near0", "far1"):
            self.closing.append(lambda name=name: ip("link", "del", name, check=False))
        for name in ("near1", "far1"):
            self.up(name, None)
        ends = []
        for name in ("far1", "near1"):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            for option in (33, socket.SO_RCVBUF):  # SO_RCVBUFFORCE
                try:
                    s.setsockopt(socket.SOL_SOCKET, option, 32 << 20)
                    break
                except PermissionError:
                    pass
            s.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING: not what we send ourselves
            s.bind((name, 3))  # ETH_P_ALL
            ends.append(s)
        relay = os.fork()
        if relay == 0:
            net.die_with_parent()
            count = [0, 0]
            while True:
                for s in select.select(ends, [], [])[0]:
                    frame, at = s.recv(65536), ends.index(s)
                    udp = 34 if frame[12:14] == b"\x08\x00" else 54
                    if len(frame) > udp + 8 and frame[udp + 2:udp + 4] == b"\x12\xb7" and frame[udp + 8] == 0x2B:
                        count[at] += 1
                        if drop(at == 0, count[at]):
                            continue
                    try:
                        ends[1 - at].send(frame)
                    except OSError:  # a full queue loses too
                        pass
        for s in ends:
            s.close()

        def end():
            os.kill(relay, signal.SIGKILL)
            os.waitpid(relay, 0)
        self.closing.append(end)

    def start(self, name):
        far = name == "far"
        more = "mtu = %d\nworkers = %d\n" % (self.mtu[not far], self.workers) + (self.far_more if far else "") + self.both_more
        if self.link == "vhost":
            port = "net_vhost0" if far else "net_virtio_user0"
            eal = ("--vdev", ("net_vhost0,iface=%s,queues=%d" if far else "net_virtio_user0,path=%s,queues=%d,queue_size=1024")
                   % (self.path("vhost"), self.workers))
        elif max(self.mtu) > 1500:
            port, eal = "af_packet:%s0" % name, ()
        else:
            port = "net_af_packet0"
            eal = ("--vdev", "net_af_packet0,iface=%s0%s" % (name, ",qpairs=%d" % self.workers if self.workers > 1 else ""))
        address = (NIC_MAC, NIC4, NIC6) if far else (HOST_MAC, HOST4, HOST6)
        return self.nic(config(port, *address, more), "--name", name, eal=eal, space=self.space if far else None)

    def command(self, verb, *words, nic=None, space=None, **more):
        process = Process([net.SPINDLE, verb, "--nic", nic or ("far" if verb == "recv" else "near"), *words],
                          env=self.environment(), space=space, **more)
        self.closing.append(process.kill)
        return process

    def recv(self, *words, port="0", **more):
        """Listens; .where is what to send to."""
        self.count += 1
        os.makedirs(self.path("in"), exist_ok=True)
        out = () if "-o" in words else ("-o", self.path("in"))
        r = self.command("recv", "--listen", "%s:%s" % (self.host, port), *out, *words, space=self.space, **more)
        until("recv listens", lambda: "listening on " in r.stderr() or r.process.poll() is not None)
        match = re.search(r"listening on (\S+)", r.stderr())
        assert match, r.stderr()
        r.where = match.group(1)
        return r

    def send(self, path, where, *words, **more):
        return self.command("send", path, getattr(where, "where", where), *words, **more)

    def source(self, size, name="source"):
        chance = random.Random(size)
        data = b"".join(chance.randbytes(min(MB, size - at)) for at in range(0, size, MB))
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name), data

    def arrived(self, name="source"):
        with open(self.path("in", name), "rb") as f:
            return f.read()

    def files(self):
        return sorted(os.listdir(self.path("in")))

    def works(self, r, name="again"):
        """A file goes through now."""
        path, data = self.source(100000, name)
        self.send(path, r).end()
        assert self.arrived(name) == data


@contextlib.contextmanager
def hosts(workers=1):
    """Hosts that rules share which leave the NICs alone, as they find them: without applications, without files. A rule
    that fails takes them along, and so do other Hosts."""
    if not Hosts.shared or Hosts.shared.workers != workers:
        Hosts.shared = Hosts(workers=workers)
    h = Hosts.shared
    kept, running = set(os.listdir(h.dir)), len(h.closing)
    try:
        yield h
        while len(h.closing) > running:
            h.closing.pop()()
        for nic in (h.far_nic, h.near_nic):
            assert nic.process.poll() is None and "Sanitizer" not in nic.stderr() and "runtime error" not in nic.stderr(), nic.stderr()
        for name in set(os.listdir(h.dir.encode())) - {n.encode() for n in kept}:
            path = os.path.join(h.dir.encode(), name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    except BaseException:
        Hosts.part()
        raise


def ends_badly(process, *words, timeout=60):
    out = process.end(1, timeout)
    assert out == [], out
    for word in words:
        assert word in process.stderr(), "%r is not in: %s" % (word, process.stderr())


def under_way(house, r):
    """Until the first message of a file has come: the beginning of NAME.part is no hole any more."""
    def begun():
        for name in house.files():
            with contextlib.suppress(FileNotFoundError), open(house.path("in", name), "rb") as f:
                if name.endswith(".part") and any(f.read(64)):
                    return True
    until("the transfer is under way", begun)


def kept(h, name="source.part"):
    """Bytes of a file that are stored, by the note at the end of its part (command/transfer/file.c); None: there is no note."""
    with contextlib.suppress(FileNotFoundError):
        with open(h.path("in", name), "rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - 352))
            note = f.read(352)
        if note[:8] == b"SPINPART":
            return struct.unpack("=Q", note[24:32])[0]
    return None


def until_kept(h, least=1):
    until("so much of it is stored", lambda: (kept(h) or 0) >= least)


def large():
    return (16 if sanitized() else 64) * MB


atexit.register(Hosts.part)
