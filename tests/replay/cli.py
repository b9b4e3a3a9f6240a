#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command line: what is wrong with it is named, and a report that cannot be written is a failure."""

import json
import os
import re
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from replay import equal, main, rule  # noqa: E402

MISUSE = [
    (("handler", "--bogus"), "unknown option --bogus"),
    (("handler", "--json", "-xh"), "unknown option -x"),
    (("handler", "--json=1", "list"), "takes no value: --json=1"),
    (("stat", "--interval=1", "-xx"), "unknown option -x"),
    (("handler", "list", "x"), "extra argument x"),
    (("handler", "show", "sdr", "x"), "extra argument x"),
    (("handler", "show"), "name is missing after show"),
    (("handler", "new"), "name is missing after new"),
    (("handler", "new", "mine", "there", "x"), "extra argument x"),
    (("handler", "new", "-x"), "unknown option -x"),
    (("handler", "list", "--plugin"), "a value is missing after --plugin"),
    (("doctor", "--bogus"), "unknown option --bogus"),
    (("doctor", "-c"), "a value is missing after -c"),
    (("doctor", "x"), "extra argument x"),
    (("bench", "--bogus"), "unknown option --bogus"),
    (("bench", "x"), "extra argument x"),
    (("sim", "sdr", "x"), "extra argument x"),
    (("send", "file", "host", "another"), "another"),
    (("recv", "x"), "x"),
    (("stat", "a", "b"), "b"),
    (("wire",), "between which ports?"),
    (("rvma",), "listen, put or get?"),
    (("rvma", "x"), "listen, put or get, not x"),
    (("rvma", "listen", "--at", "1"), "listen takes no --at"),
    (("rvma", "put", "192.0.2.1", "65536"), "put where, and what?"),
    (("rvma", "put", "host", "65536", "file"), "no address: host"),
    (("rvma", "put", "192.0.2.1", "1", "file"), "no QP number: 1"),
    (("rvma", "get", "192.0.2.1", "65536"), "get how much? --size"),
    (("rvma", "listen", "--readable", "--buffers", "1"), "2 or more"),
    (("rdma",), "bw, lat or ping?"),
    (("rdma", "x"), "bw, lat or ping, not x"),
    (("rdma", "bw", "--verify"), "a server takes no --verify"),
    (("rdma", "bw", "192.0.2.1", "--keep"), "a client takes no --keep"),
    (("rdma", "bw", "192.0.2.1", "--agent"), "a client takes no --agent"),
    (("rdma", "lat", "--agent"), "--agent is for bw"),
    (("rdma", "bw", "host"), "no address: host"),
    (("rdma", "bw", "192.0.2.1", "x"), "extra argument x"),
    (("rdma", "bw", "192.0.2.1", "-p", "0"), "--port 0 is for a server"),
    (("rdma", "bw", "192.0.2.1", "-m", "1000"), "--mtu must be 256, 512"),
    (("rdma", "bw", "192.0.2.1", "--qp", "uc", "--op", "read"), "uc has no read"),
    (("rdma", "bw", "192.0.2.1", "--qp", "ud", "--op", "write"), "ud has no write"),
    (("rdma", "bw", "192.0.2.1", "--qp", "ud", "-s", "1025"), "a datagram has at most the MTU, 1024 bytes"),
    (("rdma", "bw", "192.0.2.1", "--op", "atomic", "-s", "9"), "an atomic has 8 bytes"),
    (("rdma", "bw", "192.0.2.1", "-a", "-s", "9"), "--all or --size, not both"),
    (("rdma", "bw", "192.0.2.1", "-D", "1s", "-n", "9"), "--duration or --iters, not both"),
    (("rdma", "lat", "192.0.2.1", "-q", "2"), "lat uses one QP"),
    (("rdma", "ping", "192.0.2.1", "--op", "write"), "ping sends"),
    (("wire", "null:"), "a second port is needed, not only null:"),
    (("wire", "null:", "null:", "x", "--", "y"), "a wire has two ends, not also x"),
    (("wire", "ring:a", "ring:a"), "both ports are at a"),
    (("wire", "null:", "null:", "--burst", "2"), "--loss must say how many"),
]
OPTION = [("demo", "--loss"), ("replay", "-c"), ("send", "--family"), ("send", "-n"), ("recv", "--memory"), ("recv", "-o"),
          ("doctor", "--config"), ("run", "--name"), ("stat", "--interval"), ("stat", "-n"), ("bench", "--icrc"), ("sim", "--drop"),
          ("capture", "--seconds"), ("capture", "-n"), ("wire", "--loss"), ("wire", "--queue"),
          ("rdma", "--op"), ("rdma", "-n"), ("rvma", "--mailbox"), ("rvma", "-n")]  # with a value
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
    (("send", "--mtu", "4097", "file", "host"), "--mtu must be 100 to 4096, not 4097"),
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
    (("demo", "--bandwidth", "999"), "--bandwidth must be 1k to 100T, not 999"),
    (("demo", "--delay", "11s"), "--delay must be 0 to 10s, not 11s"),
    (("replay", "--burst", "0.9"), "--burst must be 1 to 1000000 packets, not 0.9"),
    (("replay", "--distance", "4e6"), "--distance must be 0 to 3000000 (km), not 4e6"),
    (("replay", "--jitter", "-1"), "--jitter must be 0 to 10s, not -1"),
    (("replay", "--post", "sdr"), "--post must be CONTEXT=COUNT, not sdr"),
    (("handler", "new", "Mine"), "NAME must be a small letter and up to 30 small letters, digits and -, not Mine"),
    (("handler", "new", "../mine"), "NAME must be a small letter and up to 30 small letters, digits and -, not ../mine"),
    (("handler", "new", "", "there"), "NAME must be a small letter and up to 30 small letters, digits and -, not "),
    (("handler", "new", "m" * 32), "NAME must be a small letter and up to 30 small letters, digits and -, not " + "m" * 32),
    (("handler", "new", "test", "there"), "NAME must be none of meson's own targets, not test"),
    (("stat", "--interval", "0"), "--interval must be 0.05 to 3600, not 0"),
    (("stat", "--count", "1.5"), "--count must be 1 to 1000000000, not 1.5"),
    (("capture", "-s", "65536"), "-s must be 1 to 65535, not 65536"),
    (("rdma", "bw", "192.0.2.1", "--size", "0"), "--size must be 1 to 1G, not 0"),
    (("rdma", "bw", "192.0.2.1", "--qps", "1025"), "--qps must be 1 to 1024, not 1025"),
    (("rdma", "bw", "--gid", "x"), "--gid must be an address, not x"),
    (("rvma", "listen", "--size", "0"), "--size must be 1 to 1G, not 0"),
    (("rvma", "listen", "--mailbox", "0x10000000000000000"), "--mailbox must be a number of 64 bits, not 0x10000000000000000"),
    (("rvma", "get", "192.0.2.1", "9", "--back", "256"), "--back must be 0 to 255, not 256"),
    (("wire", "--loss", "nan"), "--loss must be 0 to 1, not nan"),
    (("wire", "--there", "--delay", "11s"), "--delay must be 0 to 10s, not 11s"),
    (("wire", "--queue", "1048577"), "--queue must be 1 to 1048576 packets, not 1048577"),
    (("wire", "--mtu", "255"), "--mtu must be 256 to 9500, not 255"),
    (("wire", "--for", "25h"), "--for must be 1ms to 86400s, not 25h"),
    (("run", "--name", "x" * 32), "--name must be 1 to 31 letters, digits, _ . -, not " + "x" * 32),
]
PRINTING = [("help",), ("help", "bench"), ("sim", "sdr", "--model", "--json"), ("--version",), ("handler", "list"), ("handler", "show", "sdr", "--json"),
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


@rule("--help names every option with its value's name: without the value, or with one too many, it is wrong usage")
def options_of_help(run):
    for command in COMMANDS:
        text = run.command(command, "--help").stdout
        options = re.findall(r"^ {2}(?:-\w, | {4})(--[a-z0-9-]+)( [^ \n]|\[=)?", text, re.M)
        assert ("--help", "") in options, text
        for name, value in options:
            words = "a value is missing after " + name if value else "this option takes no value: %s=1" % name
            if value != "[=":
                process = run.command(command, name if value else name + "=1")
                equal((process.returncode, process.stderr.splitlines()[0]), (2, "spindle %s: %s" % (command, words)))


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
            for c, more in (("send", (file, "localhost")), ("recv", ()), ("stat", ()), ("capture", ("-w", run.path("out"))), ("rvma", ("listen",)))}
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


def plugin(run, kind):
    return os.path.join(os.path.dirname(run.spindle), "tests", "unit", "plugins", "plugin-%s.so" % kind)


@rule("handler list and show know the handlers of plug-ins, and say where they come from")
def handlers_of_plugins(run):
    good, two = plugin(run, "good"), plugin(run, "two")
    listed = run.command("handler", "list", "--plugin", good)
    equal(listed.returncode, 0, listed.stderr)
    assert "\nplugged    for tests (%s)\n" % good in listed.stdout, listed.stdout
    files = {h["name"]: h["file"] for h in json.loads(run.command("handler", "list", "--json", "--plugin", two).stdout)["handlers"]}
    equal((files["plugged"], files["plugged-too"], files["sdr"]), (two, two, None))
    shown = run.command("handler", "show", "plugged", "--plugin", good)
    assert shown.returncode == 0 and "From: %s\n" % good in shown.stdout, shown.stdout + shown.stderr
    equal(json.loads(run.command("handler", "show", "plugged", "--plugin", good, "--json").stdout)["file"], good)
    equal(json.loads(run.command("handler", "show", "sdr", "--plugin", good, "--json").stdout)["file"], None)


@rule("a plug-in that is refused is named with the reason, exit status 1, by every command that loads it")
def refused_plugins(run):
    for kind, words in (("abi", "handler plugged was built for ABI 99"), ("undefined", "undefined symbol: sp_no_such_call")):
        process = run.command("handler", "list", "--plugin", plugin(run, "good"), "--plugin", plugin(run, kind))
        equal((process.returncode, process.stdout), (1, ""))
        assert process.stderr.startswith("spindle handler: ") and "plugin-%s.so: %s" % (kind, words) in process.stderr, process.stderr
    run.write("nic.ini", "[nic]\nip = 192.0.2.1\nport = null:\nplugin = %s\n" % plugin(run, "abi"))
    words = "nic.ini:4: plugin: "
    for process in (run.command("run", "-c", run.path("nic.ini")), run.command("doctor", "-c", run.path("nic.ini"))):
        equal(process.returncode, 1, process.stderr)
        said = process.stdout + process.stderr
        assert words in said and "plugin-abi.so: handler plugged was built for ABI 99" in said, said


@rule("a plug-in that calls exit() when it is loaded or unloaded is named, exit status 1; no copy of it is left")
def exiting_plugins(run):
    copies = run.path("copies")
    os.mkdir(copies)
    for kind in ("exits", "exits-late"):
        process = subprocess.run([run.spindle, "handler", "list", "--plugin", plugin(run, kind)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=copies))
        equal((process.returncode, process.stderr),
              (1, plugin(run, kind) + ": calls exit() when it is loaded or unloaded\n"))
        equal(os.listdir(copies), [])


@rule("SPINDLE_ISA chooses the level of the kernels; a level that is not there is told with those that are")
def levels(run):
    def with_level(level, *arguments):
        return run.command(*arguments, env=dict(os.environ, SPINDLE_ISA=level))
    best = json.loads(run.command("bench", "--filter", "no-such-case", "--json").stdout)["isa"]
    for level in ("baseline", "avx2", "avx512"):
        process = with_level(level, "doctor")
        if process.returncode == 1 and process.stderr:
            equal(process.stderr.split(";")[0], "spindle: SPINDLE_ISA=%s: this processor has the level %s" % (level, best))
            equal(process.stdout, "")
        else:
            assert "cpu: kernels of level %s run" % level in process.stdout, process.stdout + process.stderr
    process = with_level("mmx", "doctor")
    equal((process.returncode, process.stdout, process.stderr),
          (2, "", "spindle: SPINDLE_ISA=mmx: there is no such level; there are baseline, avx2 and avx512\n"))
    equal(with_level("mmx", "--version").returncode, 0)


@rule("doctor knows the handlers of the configuration's plug-ins")
def doctor_loads(run):
    run.write("nic.ini", "[nic]\nip = 192.0.2.1\nplugin = %s\n[context mine]\nhandler = plugged\n" % plugin(run, "good"))
    process = run.command("doctor", "-c", run.path("nic.ini"))
    equal(process.returncode, 0, process.stdout)
    assert "context mine: handler plugged" in process.stdout, process.stdout


def new_handler(run, *arguments, limit=None):
    """In a directory of its own; limit: bytes that a file may have."""
    def prepare():
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    os.makedirs(run.path("new"), exist_ok=True)
    return subprocess.run([run.spindle, "handler", "new", *arguments], cwd=run.path("new"), stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, timeout=60, preexec_fn=prepare, restore_signals=False)  # SIGXFSZ stays ignored


@rule("handler new writes a project with the handler's name in it, into a directory that is new or empty")
def new_project(run):
    os.makedirs(run.path("new/there is"))
    longest = "m" + "1-" * 15
    for arguments, where in ((("mine",), "mine"), ((longest, "there is"), "there is"), (("--", "other", "-dash"), "-dash")):
        process = new_handler(run, *arguments)
        equal((process.returncode, process.stderr), (0, ""))
        name = arguments[-1] if len(arguments) == 1 else arguments[-2]
        made = set(os.listdir(run.path("new/" + where)))
        equal(made, {name + ".c", "meson.build", "nic.ini", "in.pcap", "expected.pcap", "expected.json", "make.py", "README.md"})
        for file in made - {"in.pcap", "expected.pcap", "make.py"}:
            with open(run.path("new/%s/%s" % (where, file))) as f:
                text = f.read()
            assert name in text and "@" not in text, file
        assert os.access(run.path("new/%s/make.py" % where), os.X_OK), "make.py cannot be run"
        equal(set(process.stdout.splitlines()[1].split()), made)
        step = next(line for line in process.stdout.splitlines() if line.startswith("  cd "))
        subprocess.run("set -e\n%s\ntest -e %s.c" % (step, name), shell=True, cwd=run.path("new"), check=True)


@rule("handler new that cannot do all does nothing, and says why")
def no_project(run):
    os.makedirs(run.path("new/full"))
    run.write("new/full/mine.c", "precious")
    run.write("new/file", "precious")
    os.makedirs(run.path("new/empty"))
    os.symlink("nowhere", run.path("new/dangling"))
    before = sorted((at, tuple(names)) for at, _, names in os.walk(run.path("new")))
    for arguments, words, limit in (
            (("fine", "full"), "full: Directory not empty", None), (("fine", "file"), "file: Not a directory", None),
            (("fine", "dangling"), "dangling: No such file or directory", None), (("fine", ""), ": No such file or directory", None),
            (("fine", "no/where"), "no/where: No such file or directory", None), (("sdr",), "there is a handler 'sdr' already", None),
            (("fine", "d" * 300), "File name too long", None), (("fine", "empty"), "empty/make.py: File too large", 3000),
            (("fine",), "fine/fine.c: File too large", 100)):
        process = new_handler(run, *arguments, limit=limit)
        equal((process.returncode, process.stdout), (1, ""), arguments)
        assert process.stderr.startswith("spindle handler: ") and process.stderr.endswith(words + "\n"), process.stderr
    equal(sorted((at, tuple(names)) for at, _, names in os.walk(run.path("new"))), before)


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
