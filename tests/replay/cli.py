#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command line: what is wrong with it is named, and a report that cannot be written is a failure."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

MISUSE = [
    (("handler", "--bogus"), "unknown option --bogus"),
    (("handler", "--json", "-xh"), "unknown option -x"),
    (("handler", "--json=1", "list"), "takes no value: --json=1"),
    (("handler", "list", "x"), "extra argument x"),
    (("handler", "show", "sdr", "x"), "extra argument x"),
    (("handler", "show"), "name is missing after show"),
    (("doctor", "--bogus"), "unknown option --bogus"),
    (("doctor", "-c"), "a value is missing after -c"),
    (("doctor", "x"), "extra argument x"),
    (("bench", "--bogus"), "unknown option --bogus"),
    (("bench", "x"), "extra argument x"),
    (("send", "file", "host", "another"), "another"),
    (("recv", "x"), "x"),
    (("stat", "a", "b"), "b"),
]
OPTION = [("demo", "--loss"), ("replay", "-c"), ("send", "--family"), ("send", "-n"), ("recv", "--memory"), ("recv", "-o"),
          ("doctor", "--config"), ("run", "--name"), ("stat", "--interval"), ("stat", "-n"), ("bench", "--icrc"),
          ("capture", "--seconds"), ("capture", "-n")]  # with a value
COMMANDS = sorted({command for command, _ in OPTION} | {"handler"})
VALUES = [
    (("bench", "--icrc", "maybe"), "--icrc must be on, off or both, not maybe"),
    (("bench", "--rounds", "3x", "--seconds", "1"), "--rounds must be 1 to 101, not 3x"),
    (("bench", "--rounds", "102"), "--rounds must be 1 to 101, not 102"),
    (("bench", "--rounds", "-1"), "--rounds must be 1 to 101, not -1"),
    (("bench", "--rounds", "4294967297"), "--rounds must be 1 to 101, not 4294967297"),
    (("bench", "--seconds", "0"), "--seconds must be more than 0 and at most 60, not 0"),
    (("bench", "--seconds", "nan"), "--seconds must be more than 0 and at most 60, not nan"),
    (("bench", "--seconds", ""), "--seconds must be more than 0 and at most 60, not "),
    (("send", "--timeout", "0", "file", "host"), "--timeout must be 1 to 86400, not 0"),
    (("send", "--mtu", "4097", "file", "host"), "--mtu must be 64 to 4096, not 4097"),
    (("send", "--message", "0", "file", "host"), "--message must be 1 to 1G, not 0"),
    (("send", "--chunk", "1025M", "file", "host"), "--chunk must be 1 to 1G, not 1025M"),
    (("send", "--rate", "99k", "file", "host"), "--rate must be 100k or more, not 99k"),
    (("send", "--family", "5", "file", "host"), "--family must be 4 or 6, not 5"),
    (("recv", "--timeout", "86401"), "--timeout must be 1 to 86400, not 86401"),
    (("recv", "--memory", "65535"), "--memory must be 64K to 64G, not 65535"),
    (("recv", "--memory", "65G"), "--memory must be 64K to 64G, not 65G"),
    (("recv", "--count", "0"), "--count must be 1 or more, not 0"),
    (("recv", "-l", "host:99999"), "--listen must be PORT or ADDR:PORT, not host:99999"),
    (("demo", "--loss", "1.1"), "--loss must be 0 to 1, not 1.1"),
    (("demo", "--mtu", "63"), "--mtu must be 64 to 4096, not 63"),
    (("demo", "--bandwidth", "999"), "--bandwidth must be 1000 to 100000G, not 999"),
    (("demo", "--delay", "11s"), "--delay must be 0 to 10s, not 11s"),
    (("replay", "--post", "sdr"), "--post takes CONTEXT=COUNT, not sdr"),
    (("stat", "--interval", "0"), "--interval must be 0.05 to 3600, not 0"),
    (("stat", "--count", "1.5"), "--count must be 1 to 1000000000, not 1.5"),
    (("capture", "-s", "65536"), "-s must be 1 to 65535, not 65536"),
    (("run", "--name", "x" * 32), "--name must be 1 to 31 letters, digits, _ . -, not " + "x" * 32),
]
PRINTING = [("help",), ("help", "bench"), ("--version",), ("handler", "list"), ("handler", "show", "sdr", "--json"),
            ("bench", "--help"), ("doctor", "--help"), ("help", "--help")]


@rule("wrong usage is named in one line before the usage, exit status 2")
def wrong_usage(run):
    for arguments, words in MISUSE:
        process = run.command(*arguments)
        lines = process.stderr.splitlines()
        equal(process.returncode, 2, arguments)
        assert lines[0].startswith("spindle %s: " % arguments[0]) and words in lines[0], process.stderr
        assert lines[1].startswith("usage:") and not process.stdout, process.stderr


@rule("every subcommand answers an unknown option, or one without its value, with its name and exit status 2")
def bad_options(run):
    for command, argument, words in [(c, o, "unknown option " + o) for c in COMMANDS for o in ("--fmaily", "-Z")] + \
                                    [(c, o, "a value is missing after " + o) for c, o in OPTION]:
        process = run.command(command, argument)
        lines = process.stderr.splitlines()
        equal((process.returncode, lines[0]), (2, "spindle %s: %s" % (command, words)), process.stderr)
        assert lines[1].startswith("usage:") and not process.stdout, process.stderr


@rule("a value that cannot be is told with the option and its bounds, without the usage, exit status 2")
def wrong_values(run):
    for arguments, words in VALUES:
        process = run.command(*arguments)
        equal((process.returncode, process.stderr, process.stdout), (2, "spindle %s: %s\n" % (arguments[0], words), ""), arguments)


@rule("help is help of itself too")
def help_of_help(run):
    for arguments in (("help", "--help"), ("help", "-h"), ("help", "help")):
        process = run.command(*arguments)
        equal((process.returncode, process.stdout.split(" [")[0]), (0, "usage: spindle help"), process.stderr)


@rule("recv refuses at its start where no file can be put, naming it")
def no_place(run):
    plain = run.write("plain", "")
    for target in (run.path("missing") + "/file", run.path("missing") + "/", plain + "/file", "/dev/null"):
        process = run.command("recv", "-o", target, "--nic", run.path("nobody.sock"))
        equal(process.returncode, 1, target)
        assert os.path.dirname(target) in process.stderr or "null" in process.stderr, process.stderr
        assert "nobody" not in process.stderr, process.stderr


@rule("a NIC that does not run is told in the same words by all that attach")
def no_nic(run):
    socket, file = run.path("nobody.sock"), run.write("file", "x")
    said = {run.command(c, "-n", socket, *more).stderr.split(": ", 1)[1]
            for c, more in (("send", (file, "localhost")), ("recv", ()), ("stat", ()), ("capture", ("-w", run.path("out"))))}
    equal(said, {"NIC %s is not running (%s: No such file or directory); 'spindle run' starts one\n" % (socket, socket)})


@rule("a standard output that fails is reported, exit status 1")
def failing_output(run):
    for arguments in PRINTING:
        for closed in (False, True):
            with open("/dev/full", "w") as full:
                process = subprocess.run([run.spindle, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                         timeout=60, preexec_fn=(lambda: os.close(1)) if closed else None)
            equal(process.returncode, 1, arguments)
            assert "spindle %s: standard output: " % arguments[0] in process.stderr, process.stderr


@rule("bench: a filter without a case prints no table")
def no_case(run):
    process = run.command("bench", "--filter", "no such case")
    equal((process.returncode, process.stdout), (1, ""))
    assert "no case matches" in process.stderr, process.stderr


@rule("doctor reports a device that EAL did not make, and no other")
def device_not_made(run):
    for eal, said in ((["--vdev=net_pcap0,rx_pcap=/nonexistent.pcap"], True),
                      (["--vdev", "net_pcap0,rx_pcap=/nonexistent.pcap"], True), (["--vdev", "net_null0"], False)):
        process = run.command("doctor", "--", *eal)
        equal("device net_pcap0 was not made" in process.stdout, said, process.stdout + process.stderr)
        equal(process.returncode, 1 if said else 0, process.stdout + process.stderr)
        assert ("1 problem\n" if said else "0 problems\n") in process.stdout, process.stdout


if __name__ == "__main__":
    main()
