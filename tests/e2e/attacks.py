#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What an application without privileges can do, through the kernel, to make a NIC's threads wait (attack.c), and what
others on that NIC notice of it: the messages of an honest pair, how long it takes to attach, and whether the NIC still
ends at once and another of its name starts. Each rule prints its row; --table prints them all as a table.

The bounds are on the longest time that nothing gets on, not on throughput: an attack may use a processor of its own,
as anybody may."""

import atexit
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
import served  # noqa: E402
from accidents import HOSTILE, children, introduce, several_users, stat  # noqa: E402
from net import Skip, rule, sanitized, until  # noqa: E402
from served import House  # noqa: E402

HONEST = 61004, 61005, 61006
TEXT = """[nic]
port = null:
ip = 192.0.2.1/24
socket-mode = 0666
[limits attacker]
user = %d
memory = 256M
contexts = 100
""" % HOSTILE
ROWS = []
TRIES = 3


def bound(late):
    """Seconds that something may take. Where the NIC waits for an attacker, that takes as long as he likes. late: by how
    much the machine has woken others too late meanwhile; several threads have to wake, one after the other."""
    return (5 if sanitized() else 1) + 10 * late


class Seen:
    """What pulse.c has seen since it was last asked."""

    def __init__(self, app, since):
        self.seconds = time.monotonic() - since
        app.say("?")
        words = app.line().split()
        assert len(words) == 7 and words[0] == "pulse", "%s %s" % (words, app.stderr())
        self.count = int(words[1])
        self.median, self.p99, self.longest = (int(w) / 1e6 for w in words[2:5])
        self.error = int(words[5])
        self.late = int(words[6]) / 1e6
        self.rate = self.count / self.seconds

    def __str__(self):
        return "%.0f/s, median %.2f ms, p99 %.2f ms, longest %.2f ms (late %.0f ms)%s" % (
            self.rate, self.median * 1e3, self.p99 * 1e3, self.longest * 1e3, self.late * 1e3,
            ", error %d" % self.error if self.error else "")


class Place(House):
    """A NIC, an honest pair on it, somebody who attaches all the time, and an attacker."""

    def __init__(self, how):
        super().__init__()
        os.chmod(self.dir, 0o755)
        self.how, self.users = how, several_users()
        self.attacker = None
        self.helpers = []

    def begin(self):
        began = time.monotonic()
        self.nic_ = self.nic(TEXT, eal=())
        self.helpers += children(self.nic_.pid)
        return time.monotonic() - began

    def honest(self):
        users = HONEST if self.users else (None,) * 3
        nic = self.nic_
        self.pair = introduce(self.app(nic, "pulse", "how=ping", "size=1024", user=users[0]),
                              self.app(nic, "pulse", "how=pong", "size=1024", user=users[1]))
        self.attaching = self.app(nic, "attaches", user=users[2])
        for app in (*self.pair, self.attaching):
            line = app.line()
            assert line == "ready", line + app.stderr()
        self.look()

    def look(self):
        self.since, since = time.monotonic(), getattr(self, "since", 0)
        return Seen(self.pair[0], since), Seen(self.attaching, since)

    def attack(self):
        self.attacker = app = self.app(self.nic_, "attack", "how=" + self.how, "qpn=0x5000",
                                       user=HOSTILE if self.users else None)
        self.closing.append(lambda: self.end_helpers(app))
        line = self.attacker.line(120)
        if line.startswith("skip "):
            raise Skip(line[5:])
        assert line == "ready", "%r %s" % (line, self.attacker.stderr())

    def goes_on(self):
        """Still attacking?"""
        assert self.attacker.process.poll() is None, "the attack ended: %s %s" % (
            self.attacker.line(), self.attacker.stderr())

    def end_helpers(self, app):
        """First of all the server of its FUSE, for which threads of the attacker may wait, killed or not."""
        for pid in children(app.pid):
            os.kill(pid, signal.SIGKILL)

    def stop(self):
        """It may have ended with its NIC."""
        self.end_helpers(self.attacker)
        self.attacker.signal(signal.SIGKILL)
        status = self.attacker.process.wait(60)
        assert status in (1, -signal.SIGKILL), "%d %s" % (status, self.attacker.stderr())
        self.attacker.kill()

    def ends(self, number, status):
        """How long it takes, and whether that is too long."""
        self.look()
        began = time.monotonic()
        self.nic_.signal(number)
        try:
            self.nic_.process.wait(60)
        except subprocess.TimeoutExpired:
            raise AssertionError("the NIC does not end by signal %d: %s" % (number, self.nic_.stderr()[-2000:]))
        took = time.monotonic() - began
        assert self.nic_.process.returncode == status, "%s %s" % (
            self.nic_.process.returncode, self.nic_.stderr()[-2000:])
        late = self.look()[1].late
        for app in (*self.pair, self.attaching):
            app.kill()
        return took, [] if took <= bound(late) else ["it took %.2f s, others woke %.2f s late" % (took, late)]


def disturbed(p, row):
    """One attack, from its begin to when it is forgotten. What was too slow."""
    time.sleep(0.6)
    row["before"] = p.look()
    p.attack()
    time.sleep(1.2)
    p.goes_on()
    row["during"] = p.look()
    p.stop()
    time.sleep(0.6)
    row["after"] = p.look()
    for when in ("before", "during", "after"):
        print("# %s: messages %s; attaching %s" % (when, *row[when]), flush=True)
    worst = []
    for when in ("during", "after"):
        for what, seen, before in zip(("message", "attach"), row[when], row["before"]):
            if seen.error:
                worst.append("%s the attack a %s failed: error %d" % (when, what, seen.error))
            late = max(s.late for s in (*row[when], before))
            if seen.longest > bound(late):
                worst.append("%s the attack a %s took %.2f s" % (when, what, seen.longest))
    return worst


def try_it(what, attempt):
    """A machine with much else to do is slow, too: but not each time."""
    for left in reversed(range(TRIES)):
        worst = attempt()
        if not worst:
            return
        print("# %s: %s" % (what, worst), flush=True)
        assert left, "%s: %s" % (what, worst)


def endures(how, ends=True):
    """ends: also when it is ended in the midst of it."""
    with Place(how) as p:
        row = {"how": how}
        first = p.begin()
        p.honest()
        try_it("others", lambda: disturbed(p, row))
        gone = p.attacker.pid
        until("the NIC has forgotten it", lambda: all(a["pid"] != gone for a in stat(p, p.nic_)["applications"]))

        def killed():
            p.attack()
            row["killed"], worst = p.ends(signal.SIGKILL, -signal.SIGKILL)
            row["again"] = p.begin()  # while the attacker still has what it has
            p.stop()
            p.honest()
            return worst

        def ended():
            p.attack()
            row["ended"], worst = p.ends(signal.SIGTERM, 0)
            p.stop()
            if worst:
                p.begin()
                p.honest()
            return worst
        if ends:
            try_it("SIGKILL", killed)
            try_it("SIGTERM", ended)
        else:
            row["ended"] = p.ends(signal.SIGTERM, 0)[0]
        until("its helpers are gone", lambda: not [h for h in p.helpers if os.path.exists("/proc/%d" % h)])
        assert p.left() == [], p.left()
        ROWS.append(row)
        print("# started in %.2f s; %s" % (
            first, ", ".join("%s: %.2f s" % (k, row[k]) for k in ("killed", "again", "ended") if k in row)), flush=True)


def table():
    print("| attack | messages/s before, during, after | p99, ms | longest, ms | attach during: median, longest, ms | "
          "SIGKILL, SIGTERM, s | next NIC, s |\n|---|---|---|---|---|---|---|")
    for row in ROWS:
        seen = [row[when] for when in ("before", "during", "after")]
        print("| %s | %s | %s | %s | %.1f, %.0f | %s, %.2f | %s |" % (
            row["how"], ", ".join("%.0f" % s[0].rate for s in seen), ", ".join("%.1f" % (s[0].p99 * 1e3) for s in seen),
            ", ".join("%.0f" % (s[0].longest * 1e3) for s in seen), row["during"][1].median * 1e3,
            row["during"][1].longest * 1e3, "%.2f" % row["killed"] if "killed" in row else "-", row["ended"],
            "%.2f" % row["again"] if "again" in row else "-"))


@rule
def holes_punched_by_whoever_runs_least_make_nobody_wait():
    endures("punch")


@rule
def sockets_read_into_pages_that_do_not_come_make_nobody_wait():
    endures("recvhold")


@rule
def memory_written_from_pages_that_do_not_come_makes_nobody_wait():
    endures("fusehold")


@rule
def sockets_handed_over_that_linger_make_nobody_wait():
    endures("pass")


@rule
def files_handed_over_that_do_not_close_make_nobody_wait():
    # A NIC that ends while some of them are unread has the kernel close them, and waits, as any process would.
    endures("passfuse", ends=True)


@rule
def reports_without_end_make_nobody_wait():
    endures("reports")


@rule
def memory_that_the_kernel_is_busy_with_makes_nobody_wait():
    endures("pages")


@rule
def memory_that_is_mapped_very_often_makes_nobody_wait():
    endures("mappings")


@rule
def many_who_wait_for_what_the_nic_wakes_make_nobody_wait():
    endures("wakes")


if __name__ == "__main__":
    if "--table" in sys.argv:
        sys.argv.remove("--table")
        atexit.register(table)
    net.main()
