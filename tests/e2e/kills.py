#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random kills of NICs and applications under traffic, at any moment: nobody hangs (every step has a deadline), nothing
leaks (what the surviving NIC says and what the kernel says of it), the surviving pair's data stay intact.

About a hundred kills, for a minute at the most (half of it where sanitizers look on); a thousand with SPINDLE_LONG=1. The seed is printed, SPINDLE_SEED=N
repeats it (as far as moments can be repeated)."""

import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
import served  # noqa: E402
from accidents import At, Holdings, Pair, alone, ends_well, goes_on, memory, nothing_left, sanitized  # noqa: E402
from net import rule  # noqa: E402

LONG = os.environ.get("SPINDLE_LONG") == "1"
SEED = int(os.environ.get("SPINDLE_SEED") or random.SystemRandom().randrange(1 << 32))
SIGNALS = signal.SIGKILL, signal.SIGTERM
GONE = "error -19 ", "error -103 ", "error -104 "  # the NIC, ended or dead, and the context while the NIC still tells
GROWTH = 4096  # kB of anonymous memory: heaps have holes


class Victims:
    """Two applications, `far` and `near`, that send to each other; introduced unless something came in between."""

    def __init__(self, chaos):
        chance = chaos.chance
        self.size = chance.choice((8, 1000, 16384, 65536)) & ~7
        words = "size=%d" % self.size, "slots=%d" % chance.choice((1, 3, 4))
        self.far = chaos.pair.app(chaos.pair.far, "traffic", "seed=1", "peer=2", *words, *chance.choice(((), ("wait=sleep",))))
        self.near = chaos.pair.app(chaos.pair.near, "traffic", "seed=2", "peer=1", *words, *chance.choice(((), ("wait=sleep",))))
        self.joined = False

    def join(self):
        infos = served.info(self.far), served.info(self.near)
        self.far.say(infos[1])
        self.near.say(infos[0])
        self.joined = True


class Chaos:
    def __init__(self, pair, survivors, kills, seconds, nics):
        """nics: of so many kills one is of NIC `near`; 0: none."""
        self.chance = random.Random(SEED)
        print("# seed %d" % SEED, flush=True)
        self.pair, self.survivors, self.nics = pair, survivors, nics
        if sanitized():
            kills, seconds = kills // 2, seconds / 2
        self.want, self.until = kills * 10 if LONG else kills, None if LONG else time.monotonic() + seconds
        self.kills = self.of_nics = 0

    def die(self, process, number):
        """By this signal; SIGTERM ends a NIC in good order."""
        process.signal(number)
        process.end(0 if process is self.pair.near and number == signal.SIGTERM else -number)
        process.kill()  # closes what we have of it
        self.kills += 1

    def end(self, app):
        """Whoever lost a peer, or never had one, closes well all the same."""
        app.process.stdin.close()
        app.process.stdin = None
        lines = []
        while not lines or lines[-1]:
            lines.append(app.line())
        app.process.wait(60)
        last = lines[-2] if len(lines) > 1 else ""
        assert last.startswith(("ok ", "error %d no peer" % -61)), "%s: %s" % (lines, app.stderr()[-1000:])
        app.kill()

    def kill_applications(self, victims):
        both = [victims.far, victims.near]
        self.chance.shuffle(both)
        if self.chance.random() < 0.3:  # at whatever point of attaching they are
            time.sleep(self.chance.random() * 0.02)
        else:
            victims.join()
            time.sleep(self.chance.random() * 0.1)
        for app in both[:self.chance.choice((1, 1, 2))]:
            self.die(app, self.chance.choice(SIGNALS))
        for app in both:
            if app.process.returncode is None:
                self.end(app)

    def kill_nic(self, victims):
        victims.join()
        time.sleep(self.chance.random() * 0.2)
        self.of_nics += 1
        self.die(self.pair.near, self.chance.choice(SIGNALS))
        line = victims.near.line()
        assert line.startswith(GONE), "its NIC has gone, and it says %r" % line
        victims.near.end(1)
        victims.near.kill()
        if self.chance.random() < 0.5:
            self.end(victims.far)
            self.pair.near = self.pair.start("near")
        else:
            self.pair.near = self.pair.start("near")
            self.end(victims.far)

    def run(self):
        p = self.pair
        goes_on(*self.survivors)
        alone(p, p.far, *(self.survivors if self.nics else self.survivors[:1]))
        before = Holdings(p, p.far)
        left, early = None, None
        while self.kills < self.want and (not self.until or time.monotonic() < self.until):
            victims = Victims(self)
            if self.nics and self.chance.randrange(self.nics) == 0:
                self.kill_nic(victims)
            else:
                self.kill_applications(victims)
            if left is None:
                left = p.left()
            assert p.left() == left, "files left behind: %s, not %s" % (p.left(), left)
            if self.chance.random() < 0.2:
                goes_on(*self.survivors)
            if early is None and self.kills >= self.want // 4:
                nothing_left(p, p.far, before)
                early = memory(p.far.pid)["RssAnon"]
        print("# %d kills, %d of NICs" % (self.kills, self.of_nics), flush=True)
        goes_on(*self.survivors)
        nothing_left(p, p.far, before)
        late = memory(p.far.pid)["RssAnon"]
        assert early is None or sanitized() or late - early < GROWTH, "anonymous memory grew from %d kB to %d kB" % (early, late)
        print("# survivors: %s" % [(a.sent, a.received, a.lost) for a in map(At, self.survivors)], flush=True)
        ends_well(*self.survivors)
        for nic in (p.near, p.far):
            nic.signal(signal.SIGTERM)
            nic.end()
        assert p.left() == [], p.left()
        assert self.kills, "nobody was killed in time"


@rule
def applications_killed_at_random_over_veth_leave_nothing_and_disturb_nobody():
    with Pair() as p:
        Chaos(p, p.traffic(p.far, p.near), 60, 25, 0).run()


@rule
def nics_and_applications_killed_at_random_over_veth_leave_nothing_and_disturb_nobody():
    with Pair() as p:
        Chaos(p, p.traffic(p.far, p.far), 25, 18, 4).run()


@rule
def nics_and_applications_killed_at_random_over_vhost_user_leave_nothing_and_disturb_nobody():
    with Pair(link="vhost") as p:
        Chaos(p, p.traffic(p.far, p.far), 25, 18, 4).run()


if __name__ == "__main__":
    net.main()
