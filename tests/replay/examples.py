#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The example handlers over their captures: examples.py SPINDLE PLUGINS [RULE-PART]. TAP.

PLUGINS is the directory of the examples' shared objects. What each example does is compared with what
pcaps/examples/make.py has worked out: the packets sent, the report, the memory shared with the host. Examples may have
further rules in their make.py: rules(t), where t is the Bench below.
"""

import concurrent.futures
import functools
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "pcaps", "examples")
sys.path[:0] = [os.path.join(HERE, "..", "tools"), EXAMPLES]
sys.dont_write_bytecode = True
import make  # noqa: E402
import packets as pk  # noqa: E402
import replay  # noqa: E402

SPINDLE, PLUGINS = (os.path.abspath(p) for p in sys.argv[1:3]) if len(sys.argv) > 2 else (None, None)


class Bench:
    """What the examples' own rules are given."""

    rule = staticmethod(replay.rule)
    equal = staticmethod(replay.equal)

    def __init__(self):
        self.runner = replay.Runner(SPINDLE)
        self.modules = {name: make.example(name) for name in make.names()}
        self.at_once = concurrent.futures.ThreadPoolExecutor(2)
        self.runs = 0
        self.capture = {}
        # Replays take no time but their own to start: all that are sure to be wanted begin now, two at a time. With two
        # workers only where it matters which one has a packet.
        self.first = {(name, workers): self.at_once.submit(self.expect, name, workers)
                      for name, module in self.modules.items()
                      for workers in ((1, 2) if getattr(module, "WORKERS", False) else (1,))}

    def plugin(self, name):
        return os.path.join(PLUGINS, name + ".so")

    def path(self, name, file):
        return os.path.join(EXAMPLES, name, file)

    def file(self, name, file):
        with open(self.path(name, file), "rb") as f:
            return f.read()

    def packets(self, name):
        """The capture, as make.py wrote it: [(nanoseconds since the first, frame)]."""
        if name not in self.capture:
            read = pk.read_capture(self.path(name, "in.pcap"))
            self.capture[name] = [(now - read[0][0], frame) for now, frame in read]
        return self.capture[name]

    def new(self, name):
        self.runs += 1
        return self.runner.path("%d-%s" % (self.runs, name))

    def ini(self, name, settings=None, workers=1):
        """The example's nic.ini with other settings."""
        text = self.file(name, "nic.ini").decode()
        for key, value in (settings or {}).items():
            text = re.sub(r"(?m)^%s\s*=.*\n" % re.escape(key), "", text) + "%s = %s\n" % (key, value)
        if workers > 1:
            text = text.replace("[nic]\n", "[nic]\nworkers = %d\n" % workers)
        path = self.new("nic.ini")
        with open(path, "w") as f:
            f.write(text)
        return path

    def command(self, name, ini, *options, capture=None):
        return self.runner.command("replay", "--plugin", self.plugin(name), "-c", ini,
                                   *getattr(self.modules[name], "OPTIONS", ()), *options,
                                   capture or self.path(name, "in.pcap"))

    def expect(self, name, workers=1):
        """The replay that is compared with all that is expected: exit status and what was said."""
        memory, dump, options = os.path.exists(self.path(name, "expected.bin")), self.new("dump"), []
        if memory:
            options = ["--expect-memory", "%s=%s" % (name, self.path(name, "expected.bin")), "--dump", "%s=%s" % (name, dump)]
        run = self.command(name, self.ini(name, workers=workers) if workers > 1 else self.path(name, "nic.ini"), "--json",
                           "--expect", self.path(name, "expected.pcap"), "--expect-json", self.path(name, "expected.json"), *options)
        if not os.path.exists(dump):
            return run, None
        with open(dump, "rb") as f:
            return run, f.read()

    def dump(self, name):
        """The shared area after the replay with one worker."""
        run, dump = self.first[name, 1].result()
        assert dump is not None, "exit status %d: %s" % (run.returncode, run.stderr)
        return dump

    def report(self, name):
        """The context's report of the replay with one worker."""
        return json.loads(self.first[name, 1].result()[0].stdout)["contexts"][name]

    def replay(self, name, settings=None, capture=None, workers=1):
        """With other settings: the context's report, and what was sent: [(nanoseconds since the first packet, frame)]."""
        sent = self.new("sent.pcap")
        run = self.command(name, self.ini(name, settings, workers), "--json", "-w", sent, capture=capture)
        assert run.returncode == 0, "exit status %d: %s" % (run.returncode, run.stderr)
        start = pk.read_capture(capture or self.path(name, "in.pcap"))[0][0]
        return (json.loads(run.stdout)["contexts"][name],
                [(now - start, frame) for now, frame in pk.read_capture(sent)])

    def memory(self, name, settings):
        """With other settings: the shared area."""
        dump = self.new("dump")
        run = self.command(name, self.ini(name, settings), "--dump", "%s=%s" % (name, dump))
        assert run.returncode == 0, "exit status %d: %s" % (run.returncode, run.stderr)
        with open(dump, "rb") as f:
            return f.read()

    def subset(self, found, expected, where=""):
        """expected is a part of found."""
        if not isinstance(expected, dict):
            return replay.equal(found, expected, where)
        for key, value in expected.items():
            assert key in found, "%s.%s is missing" % (where, key)
            self.subset(found[key], value, "%s.%s" % (where, key))

    def same_packets(self, found, expected):
        replay.equal(len(found), len(expected), "packets")
        for i, (f, e) in enumerate(zip(found, expected), 1):
            assert f == e, "packet %d: at %d ns %s, expected at %d ns %s" % (i, f[0], f[1].hex(), e[0], e[1].hex())

    def tshark(self, name, file, *arguments):
        """Lines that tshark says of a capture; the rule is skipped where there is no tshark."""
        try:
            run = subprocess.run(["tshark", "-n", "-r", self.path(name, file), *arguments], capture_output=True, text=True,
                                        timeout=120)
        except FileNotFoundError:
            raise replay.Skip("tshark is not installed") from None
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()


def as_expected(t, name, workers):
    run, _ = t.first[name, workers].result()
    assert run.returncode == 0, "exit status %d: %s" % (run.returncode, run.stderr)


def main():
    if not SPINDLE:
        sys.exit("usage: %s SPINDLE PLUGINS [RULE-PART]" % sys.argv[0])
    t = Bench()
    del sys.argv[2]

    @replay.rule("the examples' captures and expectations are what make.py makes", plain=True)
    def files():
        run = subprocess.run([sys.executable, "-B", os.path.join(EXAMPLES, "make.py"), "--check"], capture_output=True,
                                    text=True, timeout=120)
        replay.equal((run.returncode, run.stderr), (0, ""))

    @replay.rule("every example has a capture, and every capture an example")
    def both():
        replay.equal(make.names(), sorted(n[:-3] for n in os.listdir(PLUGINS) if n.endswith(".so")))

    for name in make.names():
        replay.rule("%s: packets sent, report and memory are as worked out from the capture" % name)(
            functools.partial(as_expected, t, name, 1))
        if (name, 2) in t.first:
            replay.rule("%s: two workers make the same of it" % name)(functools.partial(as_expected, t, name, 2))
        if hasattr(t.modules[name], "rules"):
            t.modules[name].rules(t)
    replay.main()


main()
