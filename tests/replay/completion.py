#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Completion for the command, in bash and zsh: what they offer is what the command's help has."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
from replay import Skip, equal, main, rule  # noqa: E402

ZSH = os.path.join(HERE, "..", "..", "command", "completion", "_spindle")
SCRIPT = os.path.join(HERE, "..", "..", "command", "completion", "spindle.bash")
VERBS = {"rvma": ["listen", "put", "get"], "rdma": ["bw", "lat", "ping"], "perf": ["server", "client"], "sim": ["sdr", "allreduce", "goal", "motif", "train"], "noise": ["detour", "serve", "latency", "bandwidth", "loggp"],
         "handler": ["list", "show", "new", "load", "unload", "reload", "attach", "detach", "status"]}


def complete(run, *words):
    """What bash offers for the last of these words."""
    process = subprocess.run(["bash", "-c", '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _spindle; printf "%s\\n" "${COMPREPLY[@]}"',
                              SCRIPT, run.spindle, *words], capture_output=True, text=True, timeout=60)
    equal((process.returncode, process.stderr), (0, ""))
    return process.stdout.split()


def subcommands(run):
    return re.findall(r"^  ([a-z]+) ", run.command("help").stdout, re.M)


@rule("subcommands, and what may follow them")
def words(run):
    names = subcommands(run)
    assert len(names) >= 14, names
    equal(sorted(complete(run, "")), sorted(names + ["help"]))
    equal(sorted(complete(run, "help", "")), sorted(names + ["help"]))
    equal(complete(run, "rec"), ["recv"])
    equal(complete(run, "nothing", ""), [])
    for name, verbs in VERBS.items():
        equal(complete(run, name, ""), verbs, name)
    equal(complete(run, "rvma", "l"), ["listen"])


@rule("each option of each subcommand's help, and no other")
def options(run):
    for name in subcommands(run):
        for verb in ["bw"] if name == "rdma" else [v for v in VERBS.get(name, [""]) if name != "handler" or v == "list"]:
            help = run.command(name, *filter(None, [verb]), "--help").stdout
            said = set(re.findall(r"^ +(?:-\w, )?(--[a-z0-9-]+)", help, re.M)) | set(re.findall(r"^ +(-\w)\b", help, re.M))
            offered = complete(run, name, *filter(None, [verb]), "-")
            assert len(said) > 1 and set(offered) == said, (name, verb, said ^ set(offered))
            equal(len(offered), len(set(offered)))


@rule("an option's words, where it has some; where not, bash completes files")
def values(run):
    equal(complete(run, "bench", "--icrc", ""), ["off", "on", "both"])
    equal(complete(run, "bench", "--icrc", "o"), ["off", "on"])
    equal(complete(run, "run", "-c", "-"), [])
    equal(complete(run, "bench", "--quick", "--js"), ["--json"])


# ---- zsh ------------------------------------------------------------------------------------------------------------------

def zsh():
    path = shutil.which("zsh")
    if not path:
        raise Skip("zsh is not installed")
    return path


def zcomplete(run, *words):
    """What zsh is told to offer for the last of these words that begins as it does; FILES stands for files."""
    program = """
        _describe() { print -rl -- "${(@P)2}" }
        compadd() { if [[ $1 == -a ]]; then print -rl -- "${(@P)2}"; else print -rl -- "$@"; fi }
        _files() { print FILES }
        script=$1; shift; words=("$@"); CURRENT=$#; . $script"""
    process = subprocess.run([zsh(), "-f", "-c", program, "zsh", ZSH, run.spindle, *words], capture_output=True, text=True, timeout=60)
    equal((process.returncode, process.stderr), (0, ""))
    return [line.split(":")[0] for line in process.stdout.splitlines() if line and (line == "FILES" or line.startswith(words[-1]))]


@rule("zsh: subcommands, and what may follow them")
def zsh_words(run):
    names = subcommands(run)
    equal(sorted(zcomplete(run, "")), sorted(names + ["help"]))
    equal(zcomplete(run, "help", ""), names)
    equal(zcomplete(run, "rec"), ["recv"])
    for name, verbs in VERBS.items():
        equal(zcomplete(run, name, ""), verbs, name)
    equal(zcomplete(run, "rvma", "l"), ["listen"])


@rule("zsh: each option that bash offers, with the help's words, and no other")
def zsh_options(run):
    zsh()
    for name in subcommands(run):
        verb = [{"rdma": "bw", "handler": "list"}.get(name) or VERBS[name][0]] if name in VERBS else []
        equal(sorted(zcomplete(run, name, *verb, "-")), sorted(complete(run, name, *verb, "-")), name)
    equal(zcomplete(run, "bench", "--icrc", ""), ["off", "on", "both"])
    equal(zcomplete(run, "run", "-c", ""), ["FILES"])
    equal(zcomplete(run, "replay", "x"), ["FILES"])


@rule("zsh: Tab in an interactive shell")
def zsh_tab(run):
    pid, fd = pty.fork() if zsh() else (0, 0)
    if not pid:
        os.environ.update(TERM="xterm", PS1="", ZDOTDIR=run.dir.name)
        os.execv(zsh(), ["zsh", "-f", "-i"])
    out = b""

    def until(words):
        nonlocal out
        end = time.monotonic() + 20
        while words not in out:
            assert time.monotonic() < end, out[-2000:]
            if select.select([fd], [], [], 1)[0]:
                out += os.read(fd, 65536)

    try:
        os.write(fd, b"fpath=(%s $fpath); autoload -Uz compinit; compinit -D -u; echo rea''dy\n" % os.path.dirname(ZSH).encode())
        until(b"ready\r\n")
        os.write(fd, b"%s rec\t--he\t\n" % run.spindle.encode())  # what the screen shows, it redraws; what runs is exact
        until(b"usage: spindle recv")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(fd)


if __name__ == "__main__":
    main()
