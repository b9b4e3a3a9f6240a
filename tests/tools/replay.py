# SPDX-License-Identifier: BSD-3-Clause
"""Runs `spindle replay` for a test and reports in TAP. A test is a function; @rule("what it protects") lists it."""

import inspect
import json
import os
import subprocess
import sys
import tempfile
import traceback

import packets

RULES = []
NIC = "[nic]\nip = 192.0.2.1/24\nip = 2001:db8::1/64\nmac = 02:00:00:00:00:01\n"


def rule(name, plain=False):
    """plain: not where sanitizers look on. What it goes through others do as well, or it looks at programs that are not ours."""
    def add(function):
        RULES.append((name, function, plain))
        return function
    return add


def sanitized(program):
    with open(program, "rb") as f:
        return b"__asan_init" in f.read()


class Skip(Exception):
    """Raised by a rule that cannot be checked here; says why."""


class Result:
    """What one replay gave: status, stdout, stderr, report (parsed JSON, or None), dump (context -> bytes), sent (path)."""

    def __init__(self, process, dumps):
        self.status, self.stdout, self.stderr = process.returncode, process.stdout, process.stderr
        self.report = json.loads(self.stdout) if self.stdout.startswith("{") else None
        self.dump = dumps

    def drops(self):
        """Reasons that have happened, the NIC's and the contexts' together."""
        total = {name: n for name, n in self.report["drops"].items() if n}
        return total

    def check_sums(self):
        r = self.report
        dropped = sum(n for name, n in r["drops"].items() if not name.startswith("tx-"))
        assert r["packets"] == r["taken"] + r["forwarded"] + dropped, \
            "received %d, taken %d + forwarded %d + dropped %d" % (r["packets"], r["taken"], r["forwarded"], dropped)


class Runner:
    def __init__(self, spindle):
        self.spindle = spindle
        self.dir = tempfile.TemporaryDirectory(prefix="spindle-replay-")
        self.runs = 0

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def command(self, *arguments, timeout=120, env=None):
        process = subprocess.run([self.spindle, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 timeout=timeout, errors="replace", env=env)
        if process.returncode < 0 or "Sanitizer" in process.stderr:
            raise AssertionError("crashed (status %d): %s" % (process.returncode, process.stderr[-2000:]))
        return process

    def replay(self, config, capture, post=None, dump=(), sent=None, expect=0, form=packets.PCAP_NS):
        """capture: a path, or packets for write_capture(). Checks the exit status and, where there is a report, that every
        received packet ended in exactly one place."""
        self.runs += 1
        if not isinstance(capture, str):
            capture = packets.write_capture(self.path("in.pcap"), capture, form)
        arguments = ["replay", "-c", self.write("nic.ini", config), "--json"]
        for context, count in (post or {}).items():
            arguments += ["--post", "%s=%d" % (context, count)]
        for context in dump:
            arguments += ["--dump", "%s=%s" % (context, self.path("dump-" + context))]
        if sent:
            arguments += ["-w", sent]
        process = self.command(*arguments, capture)
        dumps = {}
        for context in dump:
            if os.path.exists(self.path("dump-" + context)):
                with open(self.path("dump-" + context), "rb") as f:
                    dumps[context] = f.read()
        result = Result(process, dumps)
        assert result.status == expect, "exit status %d, stderr: %s" % (result.status, result.stderr)
        if result.report:
            result.check_sums()
        elif expect == 0:
            raise AssertionError("no report: " + result.stdout[:200])
        return result


def equal(got, expected, what=""):
    assert got == expected, "%s: got %r, expected %r" % (what or "differs", got, expected)


def main():
    """Runs all rules of the calling script; argv[1] is the spindle binary. Exit status 0, 1, or 77: all skipped."""
    if len(sys.argv) < 2:
        sys.exit("usage: %s PATH-OF-SPINDLE [RULE-PART]" % sys.argv[0])
    runner = Runner(os.path.abspath(sys.argv[1]))
    few = sanitized(sys.argv[1])
    chosen = [(name, function) for name, function, plain in RULES
              if (len(sys.argv) < 3 or sys.argv[2] in name) and not (plain and few)]
    print("1..%d" % len(chosen))
    failed = skipped = 0
    for number, (name, function) in enumerate(chosen, 1):
        try:
            function(*([runner] if inspect.signature(function).parameters else []))
            print("ok %d - %s" % (number, name), flush=True)
        except Skip as skip:
            skipped += 1
            print("ok %d - %s # SKIP %s" % (number, name, skip), flush=True)
        except Exception as error:
            failed += 1
            for line in (str(error) or repr(error)).splitlines() + traceback.format_exc().splitlines()[-5:]:
                print("# " + line)
            print("not ok %d - %s" % (number, name), flush=True)
    sys.exit(1 if failed else 77 if chosen and skipped == len(chosen) else 0)
