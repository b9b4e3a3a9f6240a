#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A NIC whose handlers do wrong when packets tell them to (tests/unit/faulty): they crash, they do not come back, they wait for
ever: that ends the NIC, with the culprit's name, the packet in the capture and an exit status of its own, and applications hear
of it and attach to the next one. Or their verdicts are none, they write outside their memory, they keep every packet: that is
counted. The plug-in's path is the last argument."""

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import HOST4, NIC4, Skip, World, config, rule, tshark, until  # noqa: E402
from served import House, info  # noqa: E402

FAULTY = os.path.abspath(sys.argv.pop())
ECHO = "[context light]\nhandler = reflect\nfilter = udp port 7777\n"
FAULT = 3  # exit status
LONG = "3s"  # stall, where something is to be seen between the report and the end, which comes after 4 times that


def culprit(name, port, more=""):
    return "[context %s]\nhandler = faulty\nfilter = udp port %d\n%s\n" % (name, port, more)


def start(house, world, text, queues=1, stall=LONG, more=""):
    text = config(more="plugin = %s\nstall = %s\nworkers = %d\n%s" % (FAULTY, stall, queues, more)) + ECHO + text
    return house.nic(text, "--name", "guarded", eal=("--vdev", "net_af_packet0,iface=nic0,qpairs=%d" % queues), space=world.space)


def stat(house, timeout=20):
    run = subprocess.run([net.SPINDLE, "stat", "guarded", "--json"], env=house.environment(), capture_output=True, timeout=timeout)
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    return json.loads(run.stdout)


def say(port, letter, key=1, source=0):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((HOST4, source))
        s.sendto(letter.encode() + bytes([key]) + b"told", (NIC4, port))


def served(count=5, timeout=20):
    """The light context answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.bind((HOST4, 0))
        for i in range(count):
            s.sendto(struct.pack(">I", i) * 8, (NIC4, 7777))
            assert s.recv(65536) == struct.pack(">I", i) * 8


def answers(sources):
    """How many flows of so many are answered: a worker that has stopped leaves its own waiting."""
    answered = 0
    for source in range(20000, 20000 + sources):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.3)
            s.bind((HOST4, source))
            s.sendto(b"who is there?", (NIC4, 7777))
            try:
                answered += s.recv(65536) == b"who is there?"
            except TimeoutError:
                pass
    return answered


def adds_up(o):
    return o["packets"] == o["taken"] + o["forwarded"] + o["dropped"] + o["parked"]


def end(nic, status=0):
    nic.signal(signal.SIGTERM)
    nic.end(status)


# ---- what does not come back --------------------------------------------------------------------------------------------------

def named(nic, words, port, letter=None):
    """What the NIC has said of its end; with a letter also what is in the capture."""
    said = nic.stderr()
    assert words in said and "NIC guarded: worker 0 " in said and ": the NIC ends" in said, said
    assert "(plug-in %s)" % FAULTY in said and "instruction at 0x" in said, said
    assert [line for line in said.splitlines() if "faulty.so(+0x" in line], said  # of the stack, a copy of the file
    assert not os.path.exists(nic.socket)
    path = os.path.join(os.path.dirname(nic.socket), "guarded-faults.pcapng")
    if not letter:
        assert not os.path.exists(path), said
        return
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert "1 packet in " + path in said, said
    kept = tshark(path, "udp", "udp.dstport", "udp.payload", "frame.comment")
    assert len(kept) == 1 and kept[0][0] == str(port) and kept[0][1].startswith(letter.encode().hex() + "01"), kept
    assert words in kept[0][2], kept


@rule
def a_crash_ends_the_nic_named_and_kept():
    crashes = {"0": "segmentation fault at address 0x0", "1": "abort()", "2": "arithmetic error", "3": "illegal instruction",
               "4": "segmentation fault at address 0x"}  # 4: the stack is used up
    for letter, crash in crashes.items():
        with World() as w, House() as h:
            nic = start(h, w, culprit("bad-" + letter, 7600))
            served()
            say(7600, letter)
            nic.end(FAULT)
            named(nic, "has crashed in payload() of handler faulty, context bad-%s: %s" % (letter, crash), 7600, letter)


@rule
def a_crash_in_no_handlers_call_is_said_and_ends_as_ever():
    if net.sanitized():
        raise Skip("the sanitizer ends it in its own way")
    with World() as w, House() as h:
        nic = start(h, w, culprit("good", 7600))
        served()
        nic.signal(signal.SIGSEGV)
        nic.end(-signal.SIGSEGV)
        assert "segmentation fault outside of handlers' calls" in nic.stderr(), nic.stderr()


@rule
def what_does_not_come_back_ends_the_nic_named_and_kept():
    calls = {"p": "payload", "h": "header", "c": "classify", "e": "completion", "t": "timer", "w": "work", "n": "payload",
             "s": "payload", "l": "payload"}  # s sleeps, l waits for a lock
    for letter, call in calls.items():
        with World() as w, House() as h:
            nic = start(h, w, culprit("bad-" + letter, 7600), stall="300ms")
            served()
            say(7600, letter)
            nic.end(FAULT)
            named(nic, "has been in %s() of handler faulty, context bad-%s, for " % (call, letter), 7600,
                  None if call in ("timer", "work") else letter)
            ends = [line.split(" for ")[1] for line in nic.stderr().splitlines() if " has been in " in line]
            assert len(ends) == 2 and 300 <= int(ends[0].split()[0]) and 1200 <= int(ends[1].split()[0]), ends
            assert all(("ms and waits" if letter in "sl" else "ms and runs") in end for end in ends), ends


@rule
def who_waits_for_ever_is_named_while_he_waits():
    for letter in "lp":
        with World() as w, House() as h:
            faults = h.path("kept.pcapng")
            nic = start(h, w, culprit("waits", 7600), stall="8s", more="fault-capture = " + faults)  # time to look at much
            served()
            say(7600, letter)
            until("it is named", lambda: stat(h)["faults"])
            o = stat(h)
            fault = o["faults"][0]
            assert (fault["context"], fault["handler"], fault["function"]) == ("waits", "faulty", "payload"), fault
            assert fault["stopped"] and fault["runs"] == (letter == "p") and fault["lasted_ms"] >= 8000, fault
            assert fault["frames"] == [14 + 28 + 6], fault
            assert o["workers"][0]["stopped"], o["workers"]
            assert o["contexts"]["light"]["packets"] >= 5, o
            until("the packet is kept", lambda: "kept.pcapng" in nic.stderr())
            kept = tshark(faults, "udp.dstport == 7600", "udp.payload", "frame.comment")
            assert len(kept) == 1 and kept[0][0].startswith(letter.encode().hex()) and "context waits" in kept[0][1], kept
            table = subprocess.run([net.SPINDLE, "stat", "guarded"], env=h.environment(), capture_output=True, timeout=20)
            assert b"waits" in table.stdout, table
            begun = time.monotonic()
            end(nic, 1)  # it does not wait for him
            assert time.monotonic() - begun < 40
            assert "context waits" in nic.stderr().splitlines()[-1] and "without waiting" in nic.stderr(), nic.stderr()
            assert not [name for name in h.left() if name.startswith("sockets/") and not name.endswith(".pcapng")], h.left()


@rule
def applications_hear_of_the_death_and_attach_to_the_next_nic():
    with World() as w, House() as h:
        nic = start(h, w, culprit("bad", 7600))
        app = h.app(nic, "outlive")
        for way, error in ("crash", errno.ECONNABORTED), ("kill", errno.ECONNABORTED), ("stop", errno.ENODEV):
            info(app)
            if way == "crash":
                say(7600, "0")
                nic.end(FAULT)
            elif way == "kill":
                nic.signal(signal.SIGKILL)
                nic.end(-signal.SIGKILL)
            else:
                end(nic)
            line = app.line()
            assert line.startswith("error -%d the NIC" % error), (way, line)
            nic = start(h, w, culprit("bad", 7600))
        info(app)
        end(nic)


@rule
def the_end_is_not_put_off_by_a_long_stall():
    for letter in "lp":
        with World() as w, House() as h:
            nic = start(h, w, culprit("stays", 7600), stall="3600s")
            served()
            say(7600, letter)
            until("it is there", lambda: answers(1) == 0)
            nic.signal(signal.SIGTERM)
            nic.end(1)
            assert "payload() of handler faulty, context stays" in nic.stderr(), nic.stderr()


@rule
def the_other_worker_serves_on():
    with World() as w, House() as h:
        nic = start(h, w, culprit("waits", 7600), queues=2)
        assert answers(16) == 16
        say(7600, "l", source=21000)
        until("it is named", lambda: stat(h)["faults"])
        stuck = [i for i, x in enumerate(stat(h)["workers"]) if x["stopped"]]
        assert stuck == [stat(h)["faults"][0]["worker"]], stat(h)
        assert 0 < answers(16) < 16  # flows of the one that has stopped wait with it
        end(nic, 1)


@rule
def who_sees_sigtrap_is_ended_by_it_as_ever():
    if os.uname().machine != "x86_64":
        raise Skip("its letter is for x86-64")
    with World() as w, House() as h:
        nic = start(h, w, culprit("breaks", 7600))
        say(7600, "B")
        nic.end(-signal.SIGTRAP)


@rule
def applications_come_and_go_while_a_worker_has_stopped():
    with World() as w, House() as h:
        nic = start(h, w, culprit("waits", 7600))
        first, second = h.app(nic, "hold"), h.app(nic, "hold")
        info(first), info(second)
        say(7600, "l")
        until("it is named", lambda: stat(h)["faults"])
        first.process.kill()
        first.process.wait()
        third = h.app(nic, "hold")  # would have to open a context
        lines = third.end(status=1)
        assert "payload() of handler faulty, context waits" in lines[0], lines
        assert stat(h)["faults"][0]["stopped"]
        end(nic, 1)


# ---- what is wrong otherwise --------------------------------------------------------------------------------------------------

@rule
def what_is_wrong_is_counted_and_said_of_its_context():
    with World() as w, House() as h:
        nic = start(h, w, culprit("verdict", 7600) + culprit("outside", 7601) + culprit("keeps", 7602))
        served()
        for i in range(3):
            say(7600, "v")
            say(7601, "d")
            until("both have been counted", lambda: stat(h)["contexts"]["verdict"]["errors"] == i + 1 and
                  stat(h)["contexts"]["outside"]["dma_faults"] == i + 1)

        def refused():
            for _ in range(200):
                say(7602, "k")
            return stat(h)["contexts"]["keeps"]["last_fault"]
        until("it has kept all that it may", refused)
        c = stat(h)["contexts"]
        assert c["verdict"]["errors"] == 3 and stat(h)["drops"]["handler-error"] == 3, c
        assert c["verdict"]["last_fault"] == "payload() returned 99, which is no verdict", c["verdict"]
        assert c["outside"]["dma_faults"] == 3 and c["outside"]["drops"] == {"out-of-place": 3}, c["outside"]
        assert c["outside"]["last_fault"].startswith("payload() wanted 16 bytes at 4090 of region "), c["outside"]
        assert c["outside"]["last_fault"].endswith(", which has 4096"), c["outside"]
        assert c["keeps"]["kept"] == 1024, c["keeps"]
        assert c["keeps"]["last_fault"] == "payload() wanted to keep more than 1024 packets", c["keeps"]
        assert c["light"]["last_fault"] is None and c["light"]["errors"] == 0, c["light"]
        o = stat(h)
        assert o["faults"] == [] and adds_up(o), o
        served()
        end(nic)


if __name__ == "__main__":
    net.main()
