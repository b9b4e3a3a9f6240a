# SPDX-License-Identifier: BSD-3-Clause
"""Documents followed literally, in a clone.

A document's blocks are taken in their order, and comments that begin with <!-- sh, which readers do not see. By the label
behind the opening fence:

    sh                  commands, run by one shell after the other with `set -e`, which hand on directory and environment;
                        must succeed
    sh fails            the last command must fail
    sh until=WORDS      a terminal of its own: the command goes on until the document ends, or until a block `sh stop`;
                        what follows waits until it has said WORDS (- stands for a blank), or `until=` nothing
    sh root             run in a network namespace of its own, where the test may make one; else left out
    sh again            is repeated until it succeeds, for a minute: it needs what the terminal before it has just begun
    sh needs=A,B        left out where a program or a /FILE is not installed; CAP_NET_ADMIN: where no interface can be made;
                        user-namespaces; processor-without-AVX-512
    sh long=TEST        left out: that test does it, where tests/run --long runs it
    LANGUAGE file=NAME  is written to that file; `more`: is added to it
    LANGUAGE in=NAME    must be in that file, as it stands there
    diff file=NAME      lines with - and without sign must be in that file, one after the other; is changed so
    console             each line must be found in what the commands above have said, wherever; runs of blanks are one
                        blank, and a line that is found may have more before and behind
    sh stop             runs when Ctrl-C has been typed in each of these terminals, and they have ended well
    text                is not looked at
"""

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time


class Skip(Exception):
    pass


# ---- a document as blocks --------------------------------------------------------------------------------------------

class Block:
    def __init__(self, document, line, label, text):
        self.document, self.line, self.text = document, line, text
        self.kind, *more = label.split() or ["text"]
        self.mark = dict(word.partition("=")[::2] for word in more)

    def __str__(self):
        return "%s, line %d" % (self.document, self.line)


def blocks(source, document):
    """Of a document within the source, in their order."""
    with open(os.path.join(source, document)) as f:
        text = f.read()
    return [Block(document, text.count("\n", 0, m.start()) + 2, m.group(1), m.group(2))
            for m in re.finditer(r"^(?:```|<!-- (?=sh))(.*)\n((?:.*\n)*?)^(?:```|-->)$", text, re.M)]


# ---- following it ----------------------------------------------------------------------------------------------------

def tree(source, clone):
    """What a clone would have; of a working tree that is not clean, what it would have if all were committed."""
    def git(*words):
        return subprocess.run(["git", "-C", source, "-c", "safe.directory=" + source, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)

    listed, status = git("ls-files", "-coz", "--exclude-standard"), git("status", "--porcelain")
    if listed.returncode:
        shutil.copytree(source, clone, symlinks=True, ignore=lambda at, names: [n for n in names if n.startswith("build")])
    elif status.stdout or git("clone", "--quiet", "--no-hardlinks", source, clone).returncode:
        for name in os.fsdecode(listed.stdout).split("\0"):
            if name and os.path.lexists(os.path.join(source, name)):
                os.makedirs(os.path.dirname(os.path.join(clone, name)), exist_ok=True)
                shutil.copy2(os.path.join(source, name), os.path.join(clone, name), follow_symlinks=False)


def may_unshare():
    command = ["unshare", "--net", "ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]
    return os.geteuid() == 0 and not subprocess.run(command, stderr=subprocess.DEVNULL).returncode


def own_network():
    """Where the test may have one: others' programs have the default ports, too. Whether it has."""
    own = os.geteuid() == 0 and not ctypes.CDLL(None).unshare(0x40000000)  # CLONE_NEWNET
    if own:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return own


def sanitized(build):
    options = json.loads(subprocess.check_output(["meson", "introspect", build, "--buildoptions"]))
    return next(o["value"] for o in options if o["name"] == "b_sanitize") != "none"


TAKEN = re.compile(r"(?!tests/)\S*\.o")  # of what taken_over.c takes over: what has been compiled


class Terminal:
    """A command in a terminal of its own, and what it has said there."""

    def __init__(self, block, directory, environment):
        self.block, self.said = block, b""
        self.master, end = os.openpty()
        self.process = subprocess.Popen(["bash", "-c", block.text], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=end, stderr=end, start_new_session=True)
        os.close(end)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while data := os.read(self.master, 65536):
                self.said += data
        except OSError:  # nobody has the other end any more
            pass

    def text(self):
        return self.said.decode(errors="replace").replace("\r\n", "\n")

    def end(self, number):
        """Its exit status, by this signal if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.reader.join(10)
        os.close(self.master)
        return self.process.returncode


def no_avx512():
    with open("/proc/cpuinfo") as f:
        return " avx512f " not in f.read()


def user_namespaces():
    command = ["unshare", "--user", "--map-current-user", "--net", "--mount", "true"]
    return not subprocess.run(command, stderr=subprocess.DEVNULL).returncode


# What is no program.
HAS = {"CAP_NET_ADMIN": may_unshare, "user-namespaces": user_namespaces, "processor-without-AVX-512": no_avx512}


def lacking(block):
    """What this block needs, and is not here."""
    for need in filter(None, block.mark.get("needs", "").split(",")):
        if not HAS.get(need, lambda need=need: os.path.exists(need) if need[0] == "/" else shutil.which(need))():
            return need
    return None


def cpu_seconds():
    """Of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Follower:
    """work: a directory of its own, with the clone in it, a home, and all that the commands make."""

    def __init__(self, source, build):
        self.source, self.build = os.path.abspath(source), os.path.abspath(build)
        self.work = tempfile.mkdtemp(prefix="spindle-guide-")
        self.home, self.clone = os.path.join(self.work, "home"), os.path.join(self.work, "clone")
        os.makedirs(self.home)
        tree(self.source, self.clone)
        self.directory, self.said, self.left_out, self.terminals = self.clone, "", [], []
        self.environment = {
            "HOME": self.home, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TMPDIR": self.work,
            "RUNTIME_DIRECTORY": self.work, "SPINDLE_SOCKETS": os.path.join(self.work, "sockets"),
            "NINJA": self.tool("ninja", '#!/bin/sh\nexec nice "%s" -j2 "$@"\n' % (shutil.which("ninja") or "/usr/bin/ninja")),
            "CC": self.compiler(),
            "CFLAGS": "-O0 -g0 -Wno-error"}  # quicker, and all the same to the documents

    def tool(self, name, text):
        path = os.path.join(self.work, "tools", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)
        return path

    def compiler(self):
        """Makes for the clone what the build that is tested has made already: it takes that. (All else, what the guide's
        handlers are made of as well, by cc.)"""
        cc, program = shutil.which("cc") or "/usr/bin/cc", os.path.join(self.work, "tools", "cc")
        words = ['-D%s="%s"' % (name, value) for name, value in (("CC", cc), ("CLONE", self.clone), ("BUILD", self.build))]
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "taken_over.c")
        subprocess.run([cc, "-O1", *words, "-o", program, source], check=True)
        return program

    def made_of(self):
        """Of which files of the source the objects that the clone takes over are made, as their compiler has told."""
        process = subprocess.run(["ninja", "-C", self.build, "-t", "deps"], stdout=subprocess.PIPE, text=True, check=True)
        files, ours = set(), False
        for line in process.stdout.splitlines():
            if line[:1] != " ":
                ours = bool(TAKEN.fullmatch(line.partition(": #deps")[0]))
            elif ours:
                path = os.path.normpath(os.path.join(self.build, line.strip()))
                if path.startswith(self.source + "/") and not path.startswith(self.build + "/") and os.path.exists(path):
                    files.add(os.path.relpath(path, self.source))
        return files

    def shell(self, block):
        state = os.path.join(self.work, "state")
        if os.path.exists(state):
            os.remove(state)
        end = "s=$?; { pwd; env -0; } > \"%s\"; kill $(jobs -p) 2> /dev/null || true; exit $s" % state
        script = "set -e\ntrap '%s' EXIT\n%s" % (end, block.text)
        command = ["bash", "-c", script]
        if "root" in block.mark:
            if not may_unshare():
                self.left_out.append(block)
                return None
            command = ["unshare", "--net", *command]
        process = subprocess.run(command, cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, errors="replace", timeout=600)
        with open(state) as f:
            self.directory, _, environment = f.read().partition("\n")
        self.environment = dict(word.partition("=")[::2] for word in environment.split("\0") if word)
        wanted = "fails" not in block.mark
        assert (process.returncode == 0) == wanted, "%s: status %d\n%s" % (block, process.returncode, process.stdout[-3000:])
        return process.stdout

    # ---- terminals ----

    def terminal(self, block):
        terminal = Terminal(block, self.directory, self.environment)
        self.terminals.append(terminal)
        words = block.mark["until"].replace("-", " ")
        end = time.monotonic() + 60
        while words not in terminal.text():
            assert terminal.process.poll() is None and time.monotonic() < end, "%s: has not said '%s', but\n%s" % (
                block, words, terminal.text()[-3000:])
            time.sleep(0.05)

    def stop(self):
        """Ctrl-C in each of them, the last one first. What they said."""
        said = ""
        while self.terminals:
            terminal = self.terminals.pop()
            status = terminal.end(signal.SIGINT)
            said = terminal.text() + said
            assert status in (0, -signal.SIGINT, 128 + signal.SIGINT), "%s: status %s\n%s" % (terminal.block, status, said[-3000:])
        return said

    def forsake(self):
        """Terminals of a document that is not followed to its end."""
        while self.terminals:
            self.terminals.pop().end(signal.SIGKILL)

    def end(self):
        self.forsake()
        shutil.rmtree(self.work, ignore_errors=True)

    # ---- files ----

    def file(self, block):
        return os.path.join(self.directory, block.mark.get("file") or block.mark["in"])

    def change(self, block):
        lines = block.text.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        new = "".join(line[1:] for line in lines if line[0] != "-")
        with open(self.file(block)) as f:
            text = f.read()
        assert text.count(old) == 1, "%s: is %d times in %s" % (block, text.count(old), self.file(block))
        with open(self.file(block), "w") as f:
            f.write(text.replace(old, new))

    def compare(self, block):
        said = re.sub(r"[ \t]+", " ", self.said)
        for line in block.text.splitlines():
            assert re.sub(r"[ \t]+", " ", line.strip()) in said, \
                "%s: '%s' was not said, but\n%s" % (block, line, self.said[-3000:])

    def repeat(self, block):
        end = time.monotonic() + 60
        while True:
            try:
                return self.shell(block)
            except AssertionError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.5)

    def follow(self, block):
        begin = time.monotonic(), cpu_seconds()
        self.take(block)
        if time.monotonic() - begin[0] >= 2:
            print("# %s: %.0f s, %.0f of a processor" % (block, time.monotonic() - begin[0], cpu_seconds() - begin[1]), flush=True)

    def take(self, block):
        if block.kind == "sh" and ("long" in block.mark or lacking(block)):
            why = block.mark["long"] + " does it" if "long" in block.mark else "there is no " + lacking(block)
            print("# %s: left out, for %s" % (block, why), flush=True)
            self.left_out.append(block)
            self.said = None
        elif block.kind == "sh" and "until" in block.mark:
            self.terminal(block)
        elif block.kind == "sh" and "again" in block.mark:
            self.said = self.repeat(block)
        elif block.kind == "sh":
            before = self.stop() if "stop" in block.mark else ""
            said = self.shell(block)
            self.said = said if said is None else before + said
        elif block.kind == "console":
            if self.said is not None:
                self.compare(block)
        elif block.kind == "diff":
            self.change(block)
        elif "in" in block.mark:
            with open(self.file(block)) as f:
                assert block.text in f.read(), "%s: not in %s" % (block, self.file(block))
        elif "file" in block.mark:
            with open(self.file(block), "a" if "more" in block.mark else "w") as f:
                f.write(("\n" if "more" in block.mark else "") + block.text)
        else:
            assert block.kind == "text", "%s: a block without a label" % block


# ---- a test program of such rules: TAP ----------------------------------------------------------------------------------

def main(rules, follower):
    failed = 0
    try:
        if sanitized(follower.build):
            print("1..0 # SKIP what is built with sanitizers is not meant to be installed")
            return 0
        print("1..%d" % len(rules), flush=True)
        for number, function in enumerate(rules, 1):
            name = function.__name__.replace("_", " ")
            try:
                function()
                print("ok %d - %s" % (number, name), flush=True)
            except Skip as skip:
                print("ok %d - %s # SKIP %s" % (number, name, skip), flush=True)
            except Exception as error:
                failed = 1
                follower.forsake()
                print("".join("# %s\n" % line for line in ("%s: %s" % (type(error).__name__, error)).splitlines()[-30:]), end="")
                print("not ok %d - %s" % (number, name), flush=True)
    finally:
        follower.end()
    return failed
