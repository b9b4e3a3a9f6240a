#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle demo: what its bitmap claims is true, and a seed repeats a run."""

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule


def demo(run, *arguments, status=0):
    process = run.command("demo", "--json", *arguments)
    equal(process.returncode, status, process.stderr)
    return json.loads(process.stdout) if status == 0 else process.stderr


def missing(report):
    return sum(m["chunk_bitmap"].count("0") for m in report["messages"])


@rule("over a link that loses nothing all of the file arrives")
def _(run):
    for size in (0, 1, 1023, 1024, 1025, 100000, 3000000):
        path = run.write("file", os.urandom(size))
        report = demo(run, path, "--loss", "0")
        equal((report["bytes"], report["arrived"], report["differing"], report["stray"]), (size, report["chunks"], 0, 0))
        equal(missing(report), 0)
        assert all(m["complete"] for m in report["messages"])
        equal(sum(m["bytes"] for m in report["messages"]), size)


@rule("with one packet a chunk, as many chunks are missing as the link has lost packets")
def _(run):
    path = run.write("file", os.urandom(600000))
    for seed in range(1, 13):
        report = demo(run, path, "--loss", "0.1", "--duplicate", "0", "--chunk", "1024", "--seed", str(seed))
        # beside the data a few control packets may have crossed, and some of those lost may be among the lost
        control = report["link"]["sent"] - report["chunks"]
        assert 0 <= control <= 10, control
        assert 0 <= report["link"]["lost"] + report["late"] - missing(report) <= control, report["link"]
        equal(report["arrived"], report["chunks"] - missing(report))
        assert report["link"]["lost"] > 20
        equal((report["differing"], report["stray"]), (0, 0))


@rule("what arrived is the source's under loss, repeats and reordering, whatever the sizes")
def _(run):
    path = run.write("file", os.urandom(400001))
    for seed, more in enumerate((["--mtu", "64"], ["--mtu", "4096", "--chunk", "8192"], ["--chunk", "65536"],
                                 ["--message", "5000"], ["--bandwidth", "400G", "--delay", "12500us"],
                                 ["--bandwidth", "10M"], ["--delay", "0us"]), 1):
        report = demo(run, path, "--loss", "0.05", "--duplicate", "0.1", "--reorder", "0.2", "--seed", str(seed), *more)
        equal((report["differing"], report["stray"]), (0, 0), str(more))
        equal(report["arrived"] + missing(report), report["chunks"], str(more))
        assert report["arrived"] > 0, str(more)


@rule("the same seed gives the same outcome, byte for byte, another seed another one")
def _(run):
    path = run.write("file", bytes(500000))
    first, again, other = (run.command("demo", "--json", path, "--seed", seed).stdout for seed in ("7", "7", "8"))
    equal(first, again)
    assert first != other


@rule("without a file the program sends itself, and the text names the seed and what is missing")
def _(run):
    process = run.command("demo", "--fast", "--loss", "0.2", "--seed", "5")
    equal(process.returncode, 0, process.stderr)
    for word in ("%d bytes" % os.path.getsize(run.spindle), "the same", "missing", "            message ", "seed        5"):
        assert word in process.stdout, "%r is not in\n%s" % (word, process.stdout)


@rule("wrong usage has exit status 2, a file that cannot be sent 1, both by name")
def _(run):
    for arguments, status, word in ((["--loss", "2"], 2, "2"), (["--loss", "nan"], 2, "nan"), (["--mtu", "63"], 2, "63"),
                                    (["--chunk", "1000"], 2, "multiple"), (["--delay", "soon"], 2, "soon"), (["a", "b"], 2, "b"),
                                    (["--what"], 2, "--what"), (["--seed"], 2, "--seed"),
                                    ([run.path("absent")], 1, "absent"), ([run.dir.name], 1, run.dir.name)):
        assert word in demo(run, *arguments, status=status), arguments


@rule("a capture onto the file to send is refused and leaves it, a FIFO is no file and keeps nobody waiting")
def _(run):
    path = run.write("file", b"keep")
    assert "file to send" in demo(run, "-w", path, path, status=1)
    equal(open(path, "rb").read(), b"keep")
    os.mkfifo(run.path("fifo"))
    assert "not a file" in demo(run, run.path("fifo"), status=1)


@rule("the live view keeps to the terminal's width, and a narrow terminal gets plain lines")
def _(run):
    path = run.write("file", bytes(1000))
    for columns in (30, 12):
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([run.spindle, "demo", "--loss", "0", path], stdout=slave)
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            text += piece
        os.close(master)
        equal(process.wait(), 0)
        text = text.decode()
        assert "1 chunk of" in text, text
        live = [line for line in text.split("\r\n") if "\033" in line]
        equal(bool(live), columns >= 20)
        for line in live:
            assert len(re.sub("\033\\[[0-9;]*[A-Za-z]", "", line)) <= columns, line


main()
