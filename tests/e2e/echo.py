#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The examples of sockets over RVMA: an echo server, one mailbox for all its clients, and clients in processes of their own,
attached to another NIC. Arguments: net.py's (echo-client as the program), and echo-server."""

import atexit
import os
import random
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from hosts import Hosts  # noqa: E402
from net import rule, until  # noqa: E402
from served import Process  # noqa: E402

SERVER = os.path.abspath(sys.argv.pop(3))
CLIENTS = 16
SIZE = 300000
SUMMARY = re.compile(r"(\d+) streams, (\d+) bytes, (\d+) datagrams; (\d+) buffers, (\d+) bytes of memory, (\d+) records in (\d+) "
                     r"buffers, (\d+) resets")
nics = []


class Echo:
    """A server on the far NIC, clients on the near one. The NICs are shared by the rules."""

    def __enter__(self):
        if not nics:
            nics.append(Hosts(link="vhost"))
            atexit.register(nics[0].__exit__)
        self.house = nics[0]
        self.server = self.process(SERVER, self.house.far_nic.socket)
        line = self.server.line()
        match = re.fullmatch(r"listening: (\S+) (\d+) (\d+)", line)
        assert match and match[3] == "7", line + self.server.stderr()
        self.address = match.groups()
        return self

    def process(self, program, *words, **more):
        process = Process([program, *words], env=self.house.environment(), **more)
        self.house.closing.append(process.kill)
        return process

    def client(self, verb, *words, **more):
        return self.process(net.PROGRAM, verb, self.house.near_nic.socket, *self.address, *words, **more)

    def stream(self, index, size=SIZE):
        """A client that sends a file of its own; what it was and where its echo goes."""
        data = random.Random(index * 7 + size).randbytes(size)
        source, back = (self.house.path("%s%d" % (name, index)) for name in ("source", "back"))
        with open(source, "wb") as f:
            f.write(data)
        with open(source, "rb") as stdin, open(back, "wb") as stdout:
            return self.client("stream", stdin=stdin, stdout=stdout), data, back

    def summary(self):
        self.server.signal(signal.SIGTERM)
        (line,) = self.server.end()
        match = SUMMARY.fullmatch(line)
        assert match, line
        return dict(zip(("streams", "bytes", "datagrams", "buffers", "memory", "records", "taken", "resets"), map(int, match.groups())))

    def __exit__(self, *_):
        self.server.kill()


def came_back(client, data, back):
    client.end(timeout=120)
    with open(back, "rb") as f:
        got = f.read()
    assert got == data, "%d bytes came back of %d%s" % (len(got), len(data), "" if data.startswith(got) else ", others")


@rule
def sixteen_clients_share_one_mailbox_whose_memory_is_that_of_one_client():
    memory = []
    for clients in (1, CLIENTS):
        with Echo() as e:
            running = [e.stream(i) for i in range(clients)]
            for client in running:
                came_back(*client)
            s = e.summary()
            # Resets are not looked at: a client goes as soon as it has all. If its NIC's last acknowledgement gets lost, the
            # server has nobody left to tell it that its stream has ended well.
            assert (s["streams"], s["bytes"]) == (clients, clients * SIZE), s
            memory.append((s["buffers"], s["memory"]))
    assert memory[0] == memory[1], memory


@rule
def datagrams_of_many_clients_go_there_and_back():
    with Echo() as e:
        clients = [e.client("datagrams", "200", str(size)) for size in (0, 1, 17, 400, 900, 960, 64, 63)]
        for client in clients:
            (line,) = client.end(timeout=120)
            assert line.startswith("200 datagrams of ") and "came back" in line, line
        assert e.summary()["datagrams"] == 200 * len(clients)


@rule
def a_client_that_is_killed_in_mid_stream_leaves_the_others_unaffected():
    with Echo() as e:
        victims = []
        for i in range(3):  # they have sent, have part of it back, and wait for more input
            victim = e.client("stream")
            victim.say("half of it")
            assert victim.line() == "half of it"
            victims.append(victim)
        running = [e.stream(i) for i in range(4)]
        flood, _, back = e.stream(99, 64 * SIZE)
        until("it is in mid-stream", lambda: os.path.getsize(back) > 10000)
        flood.kill()
        for victim in victims:
            victim.kill()
        for client in running:
            came_back(*client)
        late = e.client("datagrams", "10", "100")
        late.end()
        came_back(*e.stream(50))
        s = e.summary()
        assert s["streams"] == 9 and s["bytes"] >= 5 * SIZE, s


@rule
def a_server_that_is_killed_ends_its_clients():
    with Echo() as e:
        client = e.client("stream")
        client.say("hello")
        assert client.line() == "hello"
        e.server.kill()
        client.say("are you there?")
        assert client.end(1) == []
        assert "Connection reset" in client.stderr(), client.stderr()
        nobody = e.client("stream")
        nobody.end(1)
        assert re.search("reset|refused", nobody.stderr()), nobody.stderr()


if __name__ == "__main__":
    net.main()
