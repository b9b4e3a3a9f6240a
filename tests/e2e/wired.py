# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts with `spindle wire` between them, which makes their link a long and bad one."""

import contextlib
import json
import os
import signal
import socket
import threading

import net
from hosts import FAR, NEAR, Hosts
from net import Space, ip
from served import Process


class BadLink(Hosts):
    """far0 - far1 | wire | near1 - near0: the kernels' TCP takes it, too."""

    def __init__(self, *arguments, **more):
        super().__init__(drop=arguments, **more)

    def lossy(self, arguments):
        self.middle = Space()
        self.closing.append(self.middle.close)
        for name, space in (("near", None), ("far", self.space)):
            where = ("netns", str(space.pid)) if space else ()
            ip("link", "add", name + "0", *where, "type", "veth", "peer", "name", name + "1", "netns", str(self.middle.pid))
            self.middle.do(lambda: (ip("link", "set", name + "1", "arp", "off"), self.up(name + "1", None)))
        self.closing.append(lambda: ip("link", "del", "near0", check=False))
        self.connect(*arguments)

    def connect(self, *arguments):
        """The wire, with these options; what was there before is gone."""
        env = dict(self.environment(), RUNTIME_DIRECTORY=self.path("wire"))
        os.makedirs(self.path("wire"), exist_ok=True)
        self.wire = Process([net.SPINDLE, "wire", "af_packet:far1", "af_packet:near1", "--json", *arguments], env=env,
                            space=self.middle)
        self.closing.append(self.wire.kill)
        assert json.loads(self.wire.line())["ready"], self.wire.stderr()

    def chatter(self):
        """A datagram each way every 5 ms, which nobody reads. A wire's bursts are counted in packets: where nothing else goes, a
        connection's few attempts may all fall into one."""
        ends, over = [], threading.Event()
        for space, address in ((None, NEAR), (self.space, FAR)):
            make = lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # noqa: E731
            ends.append(space.do(make) if space else make())
            ends[-1].bind((address, 0))
        for one, other in (ends, reversed(ends)):
            one.connect(other.getsockname())

        def talk():
            while not over.wait(0.005):
                for s in ends:
                    with contextlib.suppress(OSError):  # a full queue
                        s.send(b"?")
        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        self.closing += [lambda s=s: s.close() for s in ends] + [thread.join, over.set]  # the last of them first

    def cut(self):
        """Ends the wire. Its report: `there` is from far to near, `back` from near to far."""
        self.wire.signal(signal.SIGINT)
        report = json.loads(self.wire.end()[-1])
        for way in ("there", "back"):
            assert report[way]["kernel_drops"] is not None, report
        return report
