#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Handlers of a running NIC are loaded, replaced and unloaded (`spindle handler`), while a source sends to them and a verifier
sees that every packet is answered once, and by which copy. The plug-ins are tests/e2e/live, whose directory is the last
argument; SPINDLE_LONG=1 reloads ten times as often."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import HOST4, NIC4, Skip, World, config, rule, until  # noqa: E402
from served import House, info  # noqa: E402

KINDS = os.path.abspath(sys.argv.pop())
NUMBERS, SUMS, SESSIONS = 7701, 7702, 7703
EACH = {"numbers": NUMBERS, "sums": SUMS, "sessions": SESSIONS}
LONG = 10 if os.environ.get("SPINDLE_LONG") else 1
WORDS = struct.Struct("=7Q")  # struct words of live.c
STRANGER = 61001              # nobody's number
LOAD, UNLOAD, RELOAD, ATTACH, DETACH, STATUS = range(1, 7)


def kind(name):
    return os.path.join(KINDS, name + ".so")


def sections(*names):
    return "".join("[context %s]\nhandler = %s\nfilter = udp port %d\n" % (n, n, EACH[n]) for n in names)


def start(house, world, file=None, text=None, more="", **environment):
    """A NIC that has the plug-in `file`, with a context of each of its handlers."""
    plugin = "plugin = %s\n" % file if file else ""
    plugin += "plugin-directory = %s\nplugin-directory = %s\n" % (KINDS, house.dir)  # what the rules load later
    text = sections(*EACH) if text is None else text
    return house.nic(config(more=plugin + more) + text, "--name", "lively", eal=("--vdev", "net_af_packet0,iface=nic0"),
                     space=world.space, env=house.environment(**environment))


@contextlib.contextmanager
def running(kind_name="v1", **more):
    """A NIC whose plug-in is a file of its own, house.file, which may be changed."""
    with World() as w, House() as h:
        h.file = h.path("plugin.so")
        shutil.copy(kind(kind_name), h.file)
        nic = start(h, w, h.file, **more)
        yield h, nic
        if nic.process.poll() is None:
            end(nic)


def end(nic):
    nic.signal(signal.SIGTERM)
    nic.end()


# ---- the command ----------------------------------------------------------------------------------------------------------------

def begin(house, *words, **more):
    return subprocess.Popen([net.SPINDLE, "handler", *words, "-n", "lively"], env=house.environment(), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, preexec_fn=net.die_with_parent, **more)


def finish(process, status=0):
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, "status %d, not %d: %s%s" % (process.returncode, status, out, err)
    assert "Sanitizer" not in err and "runtime error" not in err, err
    return out if status == 0 else err


def handler(house, *words, status=0):
    return finish(begin(house, *words), status)


def asked(house, *words):
    return json.loads(handler(house, *words, "--json"))


def refused(house, *words, why):
    """It says why, once, and that nothing has changed; and nothing has."""
    before = asked(house, "status")
    said = handler(house, *words, status=1)
    assert re.search(why, said) and said.count("\n") == 1 and said.endswith(" (nothing has changed)\n"), said
    assert settled(before) == settled(asked(house, "status")), (before, asked(house, "status"))


def settled(status):
    """What stays where nothing happens, while packets come."""
    return json.loads(re.sub(r'"(packets|waiting)": \d+', r'"\1": 0', json.dumps(status)))


def stat(house):
    run = subprocess.run([net.SPINDLE, "stat", "lively", "--json"], env=house.environment(), capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr.decode()
    return json.loads(run.stdout)


def copies(status, context):
    return [c["copies"] for c in status["contexts"] if c["name"] == context][0]


# ---- the protocol, also as nobody would write it --------------------------------------------------------------------------------

class Client:
    """handlers/wire/attach.h by hand."""
    HEAD = struct.Struct("=IHHII4Q")

    def __init__(self, nic):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(nic.socket)

    def send(self, op, data=b"", args=(), magic=0x444E4953, version=4, size=None, reserved=0):
        args = (list(args) + [0] * 4)[:4]
        self.socket.send(self.HEAD.pack(magic, version, op, len(data) if size is None else size, reserved, *args) + data)

    def receive(self):
        """Status and what comes with it: JSON, or words; None: the NIC has hung up."""
        try:
            message, files, _, _ = socket.recv_fds(self.socket, 32768, 4)
        except ConnectionResetError:
            return None
        if not message:
            return None
        _, _, _, status, size, length = struct.unpack("=IHHiIQ", message[:24])
        text = None
        if files:
            with open(files[0], "rb") as f:
                text = json.loads(os.pread(f.fileno(), length, 0))
            for other in files[1:]:
                os.close(other)
        elif size:
            text = message[48 + 40:].split(b"\0")[0].decode(errors="replace")
        return status, text

    def ask(self, op, *strings, force=0, count=None):
        data = b"".join(s.encode() + b"\0" for s in strings)
        self.send(9, data, (op, len(strings) if count is None else count, force))
        return self.receive()

    def close(self):
        self.socket.close()


# ---- the source and the verifier ------------------------------------------------------------------------------------------------

def exchange(port, serial=0, key=0, ends=0):
    """One datagram and its answer: version, load, count, begun."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(30)
        s.bind((HOST4, 0))
        s.sendto(WORDS.pack(serial, key, ends, 0, 0, 0, 0), (NIC4, port))
        words = WORDS.unpack(s.recv(2048))
    assert words[:3] == (serial, key, ends), words
    return words[3:]


class Traffic(threading.Thread):
    """Sends as fast as answers come, with so many on their way; every packet must be answered, and once."""
    SPAN, KEYS = 12, 6  # packets of a message, messages open at once

    def __init__(self, port, window=48):
        super().__init__(daemon=True)
        self.port, self.window = port, window
        self.sent, self.ending, self.wrong = 0, False, None
        self.answers = []  # in their order
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", 30, 0))
        self.socket.bind((HOST4, 0))
        self.socket.connect((NIC4, port))
        self.start()

    def words(self, serial):
        """Messages overlap: each key's turn comes again and again, and its last packet ends it."""
        lap, key = divmod(serial, self.KEYS)
        return serial, lap // self.SPAN * self.KEYS + key, int(lap % self.SPAN == self.SPAN - 1), 0, 0, 0, 0

    def run(self):
        out = set()
        try:
            while True:
                while len(out) < self.window and not self.ending:
                    out.add(self.sent)
                    self.socket.send(WORDS.pack(*self.words(self.sent)))
                    self.sent += 1
                if not out:
                    break
                words = WORDS.unpack(self.socket.recv(2048))
                out.remove(words[0])  # what is answered twice is not there any more
                self.answers.append(words)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", 0, 200000))
            with contextlib.suppress(BlockingIOError):
                self.wrong = "an answer too many: %s" % (WORDS.unpack(self.socket.recv(2048)),)
        except BlockingIOError:
            self.wrong = "port %d: %d packets have no answer, the first of them %d of %d" % (
                self.port, len(out), min(out), self.sent)
        except Exception as error:
            self.wrong = "port %d, packet %d: %r" % (self.port, self.sent, error)

    def stop(self):
        self.ending = True
        self.join()
        self.socket.close()
        assert not self.wrong, self.wrong
        assert len(self.answers) == self.sent
        return self.answers

    def loads(self):
        """How many answers each load gave, in the order of loads; which never go back but for messages that are open."""
        count = {}
        for words in self.answers:
            count[words[4]] = count.get(words[4], 0) + 1
        return [count[load] for load in sorted(count)]


def in_order(answers):
    loads = [words[4] for words in answers]
    return loads == sorted(loads)


def messages_hold(answers):
    """All packets of a message are answered by the load that began it, and none is missing. How many saw a reload."""
    message, across, newest = {}, 0, 0
    for serial, key, ends, _, load, count, begun in answers:
        first, packets = message.setdefault(key, (load, 0))
        assert load == first == begun and count == packets + 1, "packet %d of message %d, begun by %d: load %d, count %d after %d" % (
            serial, key, first, load, count, packets)
        message[key] = (first, packets + 1)
        across += ends and first < newest
        newest = max(newest, load)
    return across


# ---- under load -----------------------------------------------------------------------------------------------------------------

@rule
def of_hundreds_of_reloads_under_load_none_loses_a_packet():
    times = (30 if net.sanitized() else 200) * LONG
    with running() as (h, nic):
        traffic = {name: Traffic(port) for name, port in EACH.items()}
        client, done, busy, told = Client(nic), 0, 0, {name: {} for name in EACH}
        until("there are answers", lambda: all(t.answers for t in traffic.values()))
        while done < times and not any(t.wrong for t in traffic.values()):
            status, said = client.ask(RELOAD, "numbers", kind("v%d" % (done % 3 + 1)))
            if status == -16:  # as many copies are in flight as there may be: messages are open
                assert "has 8 copies of handler sessions in flight; copy " in said and "message" in said, said
                busy += 1
                time.sleep(0.002)
                continue
            assert status == 0, (status, said)
            done += 1
            time.sleep(0.003)  # for packets
            if done % 5 == 0:  # this machine may be slow: these loads have had some
                for name, t in traffic.items():
                    until("%s answers by load %d" % (name, done + 1), lambda: t.wrong or t.answers[-1][4] > done)
            assert said["lost"] == 0 and said["file"] == kind("v%d" % ((done - 1) % 3 + 1)), said
            for context in said["contexts"]:
                assert context["copies"][-1]["copy"] == done + 1 and context["copies"][-1]["state"] == "running", said
                for c in context["copies"]:
                    told[context["name"]][c["copy"]] = c
        assert len(said["contexts"]) == 3, said
        answers = {name: t.stop() for name, t in traffic.items()}
        until("the older copies are gone", lambda: all(len(copies(asked(h, "status"), name)) == 1 for name in EACH))
        report, final = stat(h), asked(h, "status")
        for name, t in traffic.items():
            assert report["contexts"][name]["packets"] == t.sent, (name, t.sent, report["contexts"][name])
            assert copies(final, name)[0]["copy"] == times + 1, final
            assert len(t.loads()) > times // 10, (name, len(t.loads()))  # the reloads were under load
        assert report["packets"] == report["taken"] + report["forwarded"] + report["dropped"] + report["parked"], report
        assert report["contexts"]["sessions"]["counters"]["strangers"] == 0, report
        assert len(final["plugins"]) == 1 and final["plugins"][0]["load"] == times + 1, final["plugins"]
        # Without messages copies follow each other, and what one is said to have run is what it has answered.
        assert in_order(answers["numbers"]) and in_order(answers["sums"])
        for name in ("numbers", "sums"):
            ran = {number: c["packets"] for number, c in told[name].items() if c["state"] == "gone"}
            assert len(ran) > times // 4, "%d of %d copies of %s went at once" % (len(ran), times, name)
            ran[times + 1] = copies(final, name)[0]["packets"]
            if len(ran) == times + 1:
                assert [ran[number] for number in sorted(ran) if ran[number]] == traffic[name].loads(), name
            assert sum(ran.values()) <= traffic[name].sent
        assert [words[5] for words in answers["sums"]] == list(range(1, traffic["sums"].sent + 1))  # taken over, each time
        across = messages_hold(answers["sessions"])
        assert across > 0 or net.sanitized()  # few reloads, and slow packets: a rule of their own is about these messages
        client.close()


@rule
def two_clients_that_reload_at_the_same_time_take_turns():
    with running() as (h, nic):
        traffic, results = Traffic(SUMS), []

        def reload(file):
            client = Client(nic)
            for _ in range(15):
                results.append((file, client.ask(RELOAD, "sums", kind(file))))
            client.close()
        threads = [threading.Thread(target=reload, args=(file,), daemon=True) for file in ("v2", "v3")]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        answers = traffic.stop()
        assert len(results) == 30
        for file, (status, said) in results:
            assert status == 0 and said["lost"] == 0 and said["file"] == kind(file), (status, said)
        assert sorted(copies(said, "sums")[-1]["copy"] for _, (_, said) in results) == list(range(2, 32))
        assert [words[5] for words in answers] == list(range(1, len(answers) + 1)) and in_order(answers)


# ---- what is in flight ----------------------------------------------------------------------------------------------------------

@rule
def messages_end_on_the_copy_that_began_them_and_hold_it_until_then():
    with running() as (h, nic):
        first = [exchange(SESSIONS, key=key) for key in (1, 2, 3)]
        shutil.copy(kind("v2"), h.file)  # built anew
        said = asked(h, "reload", "sessions")
        assert said["lost"] == 0 and said["file"] == h.file, said
        old, new = copies(said, "sessions")
        assert (old["copy"], old["open_messages"], old["packets"], old["state"]) == (1, 3, 3, "draining"), said
        assert (new["copy"], new["packets"], new["state"]) == (2, 0, "running"), said
        assert exchange(SESSIONS, key=1)[:3] == (1, first[0][1], 2)  # begun there
        version, load, count, _ = exchange(SESSIONS, key=4, ends=1)
        assert version == 2 and load > first[0][1] and count == 1
        refused(h, "unload", "sessions", why="handler sessions is held: .*context sessions, copy 1: 3 messages open")

        status = asked(h, "status")
        assert [(p["load"], p["state"], p["users"] > 0) for p in status["plugins"]] == [
            (2, "loaded", True), (1, "replaced", True)]
        table = handler(h, "status")
        for context in status["contexts"]:  # the table says the same
            for i, c in enumerate(context["copies"]):
                row = [context["name"]] * (i == 0) + [str(c[k]) for k in (
                    "copy", "packets", "open_messages", "timers", "issues", "work", "waiting", "kept", "lent")] + [c["state"]]
                assert row in [line.split() for line in table.splitlines()], (row, table)
        for p in status["plugins"]:
            assert "%s: load %d, %s, %d user%s; handlers %s (version %d)" % (
                p["file"], p["load"], p["state"], p["users"], "s" * (p["users"] != 1), p["handlers"][0]["name"], p["handlers"][0]["version"]) in table, table

        shutil.copy(kind("v3"), h.file)
        waiting = begin(h, "reload", h.file, "--wait", "--json")
        until("the third one is there", lambda: len(copies(asked(h, "status"), "sessions")) == 2 and
              copies(asked(h, "status"), "sessions")[-1]["copy"] == 3)
        for i, key in enumerate((1, 2, 3)):
            assert waiting.poll() is None
            assert exchange(SESSIONS, key=key, ends=1)[:2] == (1, first[i][1])
        said = json.loads(finish(waiting))
        assert [c["copy"] for c in copies(said, "sessions")] == [3], said
        until("its code has gone, too", lambda: [p["load"] for p in asked(h, "status")["plugins"]] == [3])
        assert exchange(SESSIONS, key=1)[0] == 3

        # One that never ends is ended.
        said = asked(h, "reload", "sessions", kind("v2"), "--force", "100ms", "--wait")
        assert [c["copy"] for c in copies(said, "sessions")] == [4], said
        assert exchange(SESSIONS, key=1)[:3:2] == (2, 1)  # another message
        assert stat(h)["contexts"]["sessions"]["counters"]["strangers"] == 0
        text = handler(h, "reload", "numbers")
        assert "numbers is now what %s has\n" % kind("v2") in text and ", lost: 0\n" in text, text


@rule
def a_worker_that_is_in_a_constructor_takes_no_packets_time():
    with World() as w, House() as h:
        gate = h.write("gate", "")
        nic = start(h, w, kind("v1"), LIVE_GATE=gate)
        loading = begin(h, "reload", "numbers", kind("waits"))
        until("it is being loaded", lambda: any("waits.so" in line for line in open("/proc/%d/maps" % nic.pid)))
        for _ in range(20):
            assert exchange(NUMBERS)[0] == 1
        assert loading.poll() is None  # and what else is asked waits
        asking = begin(h, "status", "--json")
        os.unlink(gate)
        finish(loading)
        assert json.loads(finish(asking))["contexts"]
        assert exchange(NUMBERS)[0] == 4
        end(nic)


# ---- what fails -----------------------------------------------------------------------------------------------------------------

@rule
def what_cannot_be_loaded_leaves_the_old_copy_running():
    with running() as (h, nic):
        before = exchange(NUMBERS)
        with open(kind("v2"), "rb") as f:
            whole = f.read()
        cut, half = h.path("cut.so"), h.path("half.so")
        os.mkdir(h.path("directory"))
        os.mkfifo(h.path("fifo"))
        for path, data in ((cut, whole[:len(whole) // 2]), (half, whole[:100]), (h.path("empty"), b""), (h.path("text"), b"#!/bin/sh\n")):
            with open(path, "wb") as f:
                f.write(data)
        failures = [
            (kind("attach"), "context sums: it was told to fail"),
            (kind("migrate"), "context sums: it does not know what it finds there"),
            (kind("lacks"), "context sessions has handler sessions, which is not in the new file"),
            (kind("abi"), "abi.so: handler .*ABI"),
            (cut, "cut.so: "), (half, "half.so: "),
            (h.path("empty"), "empty: is empty"),
            (h.path("text"), "text: "),
            (h.path("directory"), "directory: is a directory"),
            (h.path("fifo"), "fifo: is no regular file"),
        ]
        traffic = Traffic(SUMS)
        for path, why in failures:
            refused(h, "reload", "numbers", path, why=why)
        traffic.stop()
        assert [words[5] for words in traffic.answers] == list(range(1, traffic.sent + 1)) and len(traffic.loads()) == 1
        for path, why in failures[3:]:
            refused(h, "load", path, why=why)
        refused(h, "load", kind("v2"), why="v2.so: .*numbers")  # another file has these names
        refused(h, "reload", "reflect", why="handler reflect is built in")
        refused(h, "unload", "reflect", why="handler reflect is built in")
        refused(h, "reload", "nobody", why="nobody")
        said = handler(h, "load", h.path("nothing"), status=1)
        assert said == "spindle handler: %s: No such file or directory\n" % h.path("nothing"), said
        after = exchange(NUMBERS)
        assert after[1] == before[1] and after[2] == before[2] + 1, (before, after)
        assert [p["load"] for p in asked(h, "status")["plugins"]] == [1]
        asked(h, "reload", "numbers", kind("v2"))  # and none of it is in the way
        assert exchange(NUMBERS)[0] == 2


@rule
def a_file_that_changes_or_goes_does_not_matter_until_it_is_asked_for():
    with running() as (h, nic):
        load = exchange(NUMBERS)[1]
        with open(h.file, "r+b") as f:
            f.truncate(0)
        assert exchange(NUMBERS)[:2] == (1, load) and exchange(SESSIONS, key=9)[1] == load
        refused(h, "reload", "numbers", why="is empty")
        shutil.copyfile(kind("v2"), h.file)  # in place
        assert exchange(NUMBERS)[:2] == (1, load)
        asked(h, "reload", h.file)
        assert exchange(NUMBERS)[0] == 2 and exchange(SESSIONS, key=9, ends=1)[:2] == (1, load)
        os.unlink(h.file)
        until("the first one is gone", lambda: len(asked(h, "status")["plugins"]) == 1)
        refused(h, "reload", "numbers", why="No such file")
        os.symlink(kind("v3"), h.file)
        asked(h, "reload", "numbers")
        assert exchange(NUMBERS)[0] == 3
        os.unlink(h.file)
        until("the second one is gone", lambda: len(asked(h, "status")["plugins"]) == 1)
        refused(h, "unload", h.file, why="%s is held" % h.file[-20:])  # known by the name that it had


@rule
def handlers_and_contexts_come_and_go():
    with World() as w, House() as h:
        nic = start(h, w, text=sections())
        assert asked(h, "status") == {"plugins": [], "contexts": []}
        assert handler(h, "status") == "no plug-ins: all handlers are built in\n"
        refused(h, "attach", "one", "numbers", why="numbers")
        said = asked(h, "load", kind("v1"))
        assert [n["name"] for n in said["plugins"][0]["handlers"]] == ["numbers", "sessions", "sums"] and not said["contexts"], said
        text = handler(h, "load", kind("v1"))  # once more is no harm
        assert text.startswith(kind("v1") + ": load 1, loaded, 0 users; handlers numbers (version 1), sessions"), text
        handler(h, "attach", "one", "numbers", "filter=udp port %d" % NUMBERS, "tag=42")
        assert exchange(NUMBERS) == (1, exchange(NUMBERS)[1], 1, 42)
        refused(h, "attach", "one", "numbers", why="one")
        refused(h, "attach", "two", "numbers", "tag=101", why="tag")
        refused(h, "attach", "two", "numbers", "colour=blue", why="colour")
        refused(h, "attach", "two", "numbers", "filter=udp prot 3", why="filter")
        refused(h, "attach", "two", "nobody", why="nobody")
        refused(h, "attach", "t" * 200, "numbers", why="")
        refused(h, "detach", "two", why="there is no context two")
        refused(h, "unload", "sums", why="handler sums is held: context one, copy 1: in use")
        asked(h, "reload", "sums", kind("v2"))
        assert exchange(NUMBERS)[::3] == (2, 42)  # its settings are the context's
        handler(h, "detach", "one")
        refused(h, "detach", "one", why="there is no context one")
        assert stat(h)["contexts"] == {}
        handler(h, "unload", kind("v2"))
        assert asked(h, "status")["plugins"] == []
        assert not any("/v1.so" in line or "/v2.so" in line or "-v1.so" in line for line in open("/proc/%d/maps" % nic.pid))
        refused(h, "unload", "sums", why="sums")
        handler(h, "load", kind("v3"))
        handler(h, "attach", "one", "numbers", "filter=udp port %d" % NUMBERS)
        assert exchange(NUMBERS)[0] == 3
        app = h.app(nic, "hold")
        info(app)
        theirs = [name for name in stat(h)["contexts"] if name != "one"]
        assert len(theirs) == 1
        refused(h, "detach", theirs[0], why="context %s is an application's, which ends it itself" % theirs[0])
        app.process.kill()
        app.process.wait()
        until("it is gone", lambda: list(stat(h)["contexts"]) == ["one"])
        end(nic)


@rule
def a_plug_in_is_known_by_its_path_however_the_nic_was_told_of_it():
    with World() as w, House() as h:
        os.mkdir(h.path("sub"))
        shutil.copy(kind("v1"), h.path("sub", "plugin.so"))
        os.symlink("sub", h.path("link"))
        nic = start(h, w, "link/plugin.so", text=sections("numbers"))  # relative to the NIC's file, which is in h.dir
        shutil.copy(kind("v2"), h.path("sub", "plugin.so"))
        finish(begin(h, "reload", "sub/plugin.so", cwd=h.dir))
        assert exchange(NUMBERS)[0] == 2
        finish(begin(h, "detach", "numbers"))
        finish(begin(h, "unload", "./plugin.so", cwd=h.path("link")))
        assert asked(h, "status")["plugins"] == []
        end(nic)


# ---- who does not mean well -----------------------------------------------------------------------------------------------------

@rule
def requests_that_are_none_are_refused_and_change_nothing():
    with running() as (h, nic):
        before, load = asked(h, "status"), exchange(NUMBERS)[1]
        path = (kind("v2").encode() + b"\0", b"numbers\0")

        def one(data, args, **more):
            client = Client(nic)
            try:
                client.send(9, data, args, **more)
                return client.receive()
            except BrokenPipeError:
                return None
            finally:
                client.close()
        bad = [
            (b"", (0, 0)), (b"", (7, 0)), (b"", (2**64 - 1, 0)), (b"", (2**32 + RELOAD, 0)),   # none of the operations
            (b"", (RELOAD, 0)), (b"numbers\0" * 3, (RELOAD, 3)), (b"x\0", (STATUS, 1)),        # so many strings it does not take
            (b"numbers", (RELOAD, 1)), (b"numbers\0", (RELOAD, 2)), (b"numbers\0more", (RELOAD, 1)),  # they have no end
            (b"numbers\0", (RELOAD, 2**64 - 1)), (b"numbers\0", (RELOAD, 2**32 + 1)),
            (b"a\0", (ATTACH, 1)), (b"a\0b\0c\0", (ATTACH, 3)),                                # a key without a value
            (b"a\0numbers\0" + b"k\0v\0" * 65, (ATTACH, 132)), (b"k\0" * 8000, (ATTACH, 8000)), (b"k\0" * 8000, (ATTACH, 10000)),
        ]
        for data, args in bad:
            assert one(data, args) == (-22, None), (data[:30], args)
        for data, args in ((b"\0", (RELOAD, 1)), (b"\0", (UNLOAD, 1)), (b"\0", (LOAD, 1)), (b"\0\0", (ATTACH, 2)), (b"\0", (DETACH, 1)),
                           (b"a" * 16000 + b"\0", (LOAD, 1)), (b"%n%s%x\0", (RELOAD, 1)), (b"a" * 16000 + b"\0", (UNLOAD, 1)),
                           (b"a" * 16000 + b"\0", (DETACH, 1)), (b"\xff\xfe\0", (RELOAD, 1)), (b"numbers\0\0", (RELOAD, 2)),
                           (b"n\0numbers\0" + b"k\0v\0" * 64, (ATTACH, 130)), (b"n\0numbers\0filter\0" + b"(" * 15000 + b"\0", (ATTACH, 4)),
                           (b"a" * 8000 + b"\0" + b"b" * 8000 + b"\0", (ATTACH, 2))):
            status, said = one(data, args)
            assert status < 0 and status != -71, (data[:30], args, status, said)
        for more in ({"magic": 1}, {"version": 1}, {"size": 3}, {"size": 2**32 - 1}, {"reserved": 1}):
            reply = one(b"", (STATUS, 0), **more)
            assert reply is None or reply[0] == -71, (more, reply)
        reply = one(b"a" * 30000, (LOAD, 1))
        assert reply is None or reply[0] == -71, reply
        assert one(*(b"".join(reversed(path)), (RELOAD, 2, 2**64 - 1)))[0] == 0  # so long it may take
        exchange(SESSIONS, key=5)
        assert one(b"".join(reversed(path)), (RELOAD, 2, 2**64 - 1))[1]["contexts"][2]["copies"][0]["state"] == "draining"
        time.sleep(0.3)
        assert exchange(SESSIONS, key=5, ends=1)[2] == 2  # its message was not ended
        assert exchange(NUMBERS)[1] > load and len(before["contexts"]) == 3


@rule
def who_asks_may_be_killed_at_any_time():
    with running() as (h, nic):
        traffic = Traffic(SUMS)
        for i in range(12):
            client = begin(h, "reload", "sums", kind("v%d" % (i % 3 + 1)), "--wait")
            time.sleep(i * 0.008)
            client.kill()
            client.communicate()

        def ask_and_go():  # before the answer, sometimes before the question has been read
            for i in range(10):
                client = Client(nic)
                client.send(9, b"sums\0" + kind("v%d" % (i % 3 + 1)).encode() + b"\0", (RELOAD, 2, 0))
                time.sleep(i * 0.0005)
                client.close()
            return copies(asked(h, "status"), "sums")[-1]["copy"] > 10
        until("some were done all the same", ask_and_go)
        until("they have gone", lambda: len(copies(asked(h, "status"), "sums")) == 1)
        traffic.stop()
        assert [words[5] for words in traffic.answers] == list(range(1, traffic.sent + 1))
        until("their code, too", lambda: len(asked(h, "status")["plugins"]) == 1)


@rule
def the_nic_may_end_meanwhile():
    for waits in (False, True):
        with World() as w, House() as h:
            gate = h.write("gate", "")
            nic = start(h, w, kind("v1"), LIVE_GATE=gate)
            exchange(SESSIONS, key=1)  # open
            asked(h, "reload", "sessions", kind("v2"))
            if waits:  # in the middle of a load
                client = begin(h, "reload", "sums", kind("waits"))
                until("it is being loaded", lambda: any("waits.so" in line for line in open("/proc/%d/maps" % nic.pid)))
                nic.signal(signal.SIGTERM)
                os.unlink(gate)
                nic.end()
                out, err = client.communicate(timeout=60)
                assert client.returncode == 0 and "lost: 0" in out or client.returncode == 1 and "it has gone" in err, (out, err)
            else:  # with copies that drain, and one who waits for them
                client = begin(h, "reload", "sums", kind("v3"), "--wait")
                until("it is there", lambda: copies(asked(h, "status"), "sums")[-1]["copy"] == 3)
                nic.signal(signal.SIGTERM)
                nic.end()
                err = finish(client, 1)
                assert "it has gone" in err, err
            said = handler(h, "status", status=1)
            assert "lively" in said, said
            assert not [n for n in h.left() if n.startswith("sockets/")], h.left()


@rule
def a_plug_in_that_does_not_come_up_does_not_keep_the_nic_from_its_end():
    with World() as w, House() as h:
        nic = start(h, w, kind("v1"), LIVE_GATE=h.write("gate", ""))
        client = begin(h, "load", kind("waits"))
        until("it is being loaded", lambda: any("waits.so" in line for line in open("/proc/%d/maps" % nic.pid)))
        exchange(NUMBERS)
        nic.signal(signal.SIGTERM)
        nic.end(1)
        said = nic.stderr().splitlines()[-1]
        assert re.search(r"constructors of \S*waits.so have run for [0-9.]+ s: ended without waiting", said), said
        assert "it has died" in finish(client, 1)  # it could not say goodbye
        assert not [n for n in h.left() if n.startswith("sockets/")], h.left()


@rule
def a_file_that_is_being_written_is_not_loaded():
    with running() as (h, nic):
        load = exchange(NUMBERS)[1]
        with open(kind("v2"), "rb") as f:
            whole = f.read()
        with open(h.file, "wb") as f:  # a linker makes room for all of it, and writes its end last
            f.truncate(len(whole))
            f.write(whole[:4096])
            f.flush()
            refused(h, "reload", "numbers", why="plugin.so: is being written")
        refused(h, "reload", "numbers", why="plugin.so: is not all written")
        assert exchange(NUMBERS)[1] == load
        shutil.copyfile(kind("v2"), h.file)
        asked(h, "reload", "numbers")
        assert exchange(NUMBERS)[0] == 2


@rule
def strangers_are_refused():
    if os.geteuid() != 0:
        raise Skip("needs root to be somebody else")
    with running(more="socket-mode = 0666\n") as (h, nic):
        os.chmod(h.dir, 0o755)
        for words in (("status",), ("reload", "numbers"), ("unload", "numbers"), ("load", kind("v2")), ("detach", "numbers"),
                      ("attach", "x", "numbers")):
            def other():
                os.setgroups([])
                os.setgid(STRANGER)
                os.setuid(STRANGER)
            run = subprocess.run([net.SPINDLE, "handler", *words, "-n", nic.socket], env=h.environment(), capture_output=True,
                                 text=True, timeout=60, preexec_fn=other)
            if run.returncode == 1 and words[0] == "load" and "Permission denied" in run.stderr:
                continue  # the build's directory is not for everybody
            assert run.returncode == 1 and "own user and root" in run.stderr, (words, run)
        assert [c["name"] for c in asked(h, "status")["contexts"]] == list(EACH)


@rule
def the_command_line_is_checked():
    with World(), House() as h:
        for words in (("load",), ("load", "a", "b"), ("reload",), ("status", "x"), ("attach", "x"), ("detach",), ("unload",),
                      ("attach", "x", "numbers", "tag"), ("attach", "x", "numbers", "=1"), ("status", "--wait"),
                      ("load", "x", "--force", "1s"), ("reload", "x", "--force", "soon"), ("reload", "x", "--force", "0s"),
                      ("reload", "x", "--nonsense")):
            said = handler(h, *words, status=2)
            assert said.startswith("spindle handler: "), said
        said = handler(h, "attach", "x", "numbers", *["k=v"] * 65, status=2)
        assert "k=v" in said.splitlines()[0], said
        said = handler(h, "attach", "x", "numbers", "k=" + "v" * 20000, status=1)
        assert said.startswith("spindle handler: the settings are too long: "), said[:100]
        said = handler(h, "status", status=1)
        assert "lively" in said, said


if __name__ == "__main__":
    net.main()
