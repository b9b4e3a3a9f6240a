#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Handlers that do wrong (wrong/): each is told so by name, in time, and what it has done until then is kept: wrong.py SPINDLE
DIRECTORY-OF-PLUGINS. TAP."""

import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets as pk  # noqa: E402
from replay import NIC, equal, main, rule  # noqa: E402

PLUGINS = sys.argv.pop(2)
DEEDS = os.path.join(PLUGINS, "wrong-deeds.so")
LIMIT = "30ms"
SECOND = 10**9

# What goes on: (deed, function, what is said). All in one run, each in a context of its own.
MISTAKES = [
    ("reject", "classify", "rejects by reason 9, but declares 1 reason"),
    ("verdict", "payload", "returned 99, which is no verdict"),
    ("reason", "payload", "drops by reason 7, but declares 1 reason"),
    ("again", "payload", "returned SP_AGAIN, which only miss() may"),
    ("sent", "payload", "verdict SP_SENT, but the packet was not sent"),
    ("dma-beyond", "payload", "range 4092 + 16 is outside region"),
    ("dma-unaligned", "payload", "word at 4 of region"),
    ("ctx-overrun", "payload", "wrote behind its context state"),
    ("ctx-far", "payload", "wrote behind its context state"),
    ("msg-overrun", "payload", "wrote behind its message state"),
    ("msg-far", "payload", "wrote behind its message state"),
    ("alloc-overrun", "payload", "wrote behind a block of 100 bytes from sp_alloc"),
    ("counter", "payload", "counted by counter 3, but declares 0 counters"),
    ("undeclared", "payload", "asked for parameter at-once, which it does not declare"),
    ("keep", "detach", "kept 1 packet and never released it"),
    ("release-twice", "detach", "released 1 packet more than it kept"),
    ("issue", "issue", "returned 9, which is none of SP_ISSUE_*"),
]


def frames(port, count, start=0):
    return [(start + (i + 1) * 1000000, pk.ethernet(pk.ipv4(pk.udp(b"wrong %d" % i, sport=4000, dport=port)), 0x0800))
            for i in range(count)]


def context(name, deed, port, handler="wrong"):
    return "[context %s]\nhandler = %s\nfilter = udp dst port %d\ndeed = %s\nat = 2\n" % (name, handler, port, deed)


def used():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def run(runner, config, capture, *options, plugin=DEEDS, limit=LIMIT):
    """Exit status, words, seconds of processor time (what else the machine does must not count), output; a crash leaves no core
    behind."""
    arguments = [runner.spindle, "replay", "-c", runner.write("nic.ini", config), "--plugin", plugin, "--call-limit", limit,
                 *options, pk.write_capture(runner.path("in.pcap"), capture)]
    start = used()
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=120,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    return done.returncode, done.stderr, used() - start, done.stdout


def expect(words, begin, *parts):
    for line in words.splitlines():
        if line.startswith("spindle replay: " + begin) and all(part in line for part in parts):
            return
    raise AssertionError("no line 'spindle replay: %s ... %s' in: %s" % (begin, " ... ".join(parts), words[-3000:]))


@rule("each mistake is told with context, handler, function and packet, and the replay goes on to its end")
def mistakes(runner):
    config, capture = NIC, []
    for i, (deed, _, _) in enumerate(MISTAKES):
        config += context("c-" + deed, deed, 1000 + i)
        capture += frames(1000 + i, 3, start=i * 10000000)
    config += context("c-no-timer", "timer", 999, "wrong-no-timer")
    capture += frames(999, 3, start=len(MISTAKES) * 10000000)
    status, words, _, out = run(runner, config, capture, "--json")
    equal(status, 1, words)
    assert '"contexts"' in out, "no report"
    lines = [line for line in words.splitlines() if "context c-" in line]
    for i, (deed, function, what) in enumerate(MISTAKES):
        where = "packet %d: " % (3 * i + 2) if function in ("payload", "classify") else "after packet "
        expect(words, "context c-%s, handler wrong, %s, " % (deed, function), where, what)
        equal(sum("context c-%s," % deed in line for line in lines), 1, "complaints about " + deed)
    expect(words, "context c-no-timer, handler wrong-no-timer, payload, packet %d: " % (3 * len(MISTAKES) + 2), "timer")


@rule("a handler that does nothing wrong is not complained about")
def nothing_wrong(runner):
    status, words, _, _ = run(runner, NIC + context("fine", "none", 1000) + context("ends", "end", 1001),
                              frames(1000, 3) + frames(1001, 3, 10000000))
    equal((status, words), (0, ""))


def sanitized(words):
    return "Sanitizer" in words


def check_capture(path, count):
    """What went out until then is a whole capture."""
    equal([frame[-18:-18 + 7] for _, frame in pk.read_capture(path)], [b"wrong 0"] * count, "frames of " + path)


@rule("a call that does not return is left after its limit and named, with the packet, and the files are whole")
def hangs(runner):
    for deed, function, what, most in (("spin", "payload, packet 2 (", "did not return within 0.03 s of processor time", 3),
                                       ("completion", "completion, at ", "did not return within 0.03 s of processor time", 3),
                                       ("sleep", "payload, packet 2 (", "has not returned for 0.3 s", 4),
                                       ("timer", "timer, at 0.001000000 s, after packet 2", "virtual time stands still", 4),
                                       ("work", "work, at 0.001000000 s, after packet 2", "virtual time stands still", 4)):
        sent = runner.path("sent-%s.pcap" % deed)
        status, words, seconds, out = run(runner, NIC + context("x", deed, 1000), frames(1000, 3), "-w", sent, "--trace")
        equal(status, 1, deed + ": " + words)
        expect(words, "context x, handler wrong, " + function, what)
        equal(len(words.splitlines()), 1, "lines about " + deed)
        assert seconds < most * (5 if sanitized(out) else 1) + 2, "%s took %.1f s" % (deed, seconds)
        check_capture(sent, 1)
        if deed == "spin":
            assert "\n  payload     message 0x1 (has not returned)\n" in out and "packet 2 " in out, "the trace: " + out


@rule("a crash names the handler and the packet first, and ends as crashes do; the files are whole")
def crashes(runner):
    for deed, number, what in (("null", signal.SIGSEGV, "segmentation fault at address 0x0 (a null pointer)"),
                               ("recursion", signal.SIGSEGV, "(the stack is used up)"),
                               ("divide", signal.SIGFPE, "arithmetic error"),
                               ("abort", signal.SIGABRT, "abort()"),
                               ("exit", -1, "called exit()")):
        sent = runner.path("sent-%s.pcap" % deed)
        # A stack is long, and its pages come one by one.
        status, words, _, out = run(runner, NIC + context("x", deed, 1000), frames(1000, 3), "-w", sent, "--trace", limit="10s")
        expect(words, "context x, handler wrong, payload, packet 2: ", what)
        assert status == -number or (sanitized(words) and status > 0), "%s: status %d" % (deed, status)
        check_capture(sent, 1)
        assert "\n  payload     message 0x1 (has not returned)\n" in out, "the trace of %s: %s" % (deed, out)
    status, words, _, _ = run(runner, NIC + context("x", "attach-null", 1000), frames(1000, 1))
    expect(words, "context x, handler wrong, attach, before the first packet: segmentation fault")
    assert status == -signal.SIGSEGV or sanitized(words), "status %d" % status


@rule("a detach() that does not return is stopped, also where the replay ends before it has begun")
def detaches(runner):
    for last in ("", context("y", "silent-attach", 1001)):
        status, words, _, _ = run(runner, NIC + context("x", "detach", 1000) + last, frames(1000, 1))
        equal(status, 1)
        expect(words, "context x, handler wrong, detach, ", "did not return within 0.03 s of processor time")


@rule("attach() that fails without a word is named")
def silent(runner):
    status, words, _, _ = run(runner, NIC + context("x", "silent-attach", 1000), frames(1000, 1))
    equal(status, 1)
    expect(words, "context x, handler wrong, attach, before the first packet: returned -22 without sp_fail()")


@rule("a table that cannot be right is refused by name when it is loaded")
def tables(runner):
    for name, what in (("abi", "handler table was built for ABI"), ("nothing", "handler table has no function that takes packets"),
                       ("no-classify", "handler table has messages but no classify()"),
                       ("no-head", "handler's table does not begin with SP_HANDLER_HEAD")):
        plugin = os.path.join(PLUGINS, "wrong-%s.so" % name)
        status, words, _, _ = run(runner, NIC + "[context x]\nhandler = table\nfilter = udp\n", frames(1000, 1), plugin=plugin)
        assert status in (1, 2), "status %d" % status
        assert what in words and "wrong-%s.so" % name in words, words


main()
