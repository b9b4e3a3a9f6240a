#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A user who takes of a NIC what there is, beside another user's honest pair of programs. What the machine has not enough
of, the pair lacks anyway: so its messages a second are compared with those that it gets while the same programs use
another NIC of the same machine."""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
import served  # noqa: E402
from net import Skip, rule  # noqa: E402

TRAFFIC = os.path.abspath(sys.argv.pop(3))  # the program of honest pairs
HONEST, GREEDY = 61010, 61011  # nobody's numbers; further greedy ones count on
# Of what it has beside the other NIC, which leaves it more than its share of one: half beside one user, a third beside
# two. Sanitizers slow packets and programs by factors of their own; a NIC that never rests then waits for the processor
# as long as other tests' programs run, and one that sleeps does not: the pair has to go on, no more.
KEPT = {1: 0.4, 2: 0.25}
GOES_ON = 5  # messages a second
SECONDS = 1.5
TRIES = 4


def several_users():
    with open("/proc/self/uid_map") as f:
        return os.geteuid() == 0 and any(int(low) <= HONEST < int(low) + int(count)
                                         for low, _, count in (line.split() for line in f))


class Two(served.House):
    """Two NICs, and the pair on the first one."""

    def __init__(self, limits=""):
        if not several_users():
            raise Skip("needs root, and several users")
        super().__init__()
        os.chmod(self.dir, 0o755)
        self.own, self.other = (self.nic("[nic]\nname = %s\nip = 192.0.2.%d/24\nport = net_null0\nsocket-mode = 0666\n%s"
                                         % (name, i, limits)) for i, name in ((1, "own"), (2, "other")))
        os.chmod(self.path("sockets"), 0o755)
        self.pair = [self.program(HONEST, TRAFFIC, self.own, "traffic", "size=16384", "slots=4", "wait=sleep",
                                  "seed=%d" % (1 + i), "peer=%d" % (2 - i), "qpn=%d" % (0x800000 + 64 * i)) for i in (0, 1)]
        infos = [app.line() for app in self.pair]
        for app, info in zip(self.pair, reversed(infos)):
            assert info.startswith("qp "), info
            app.say(info[3:])

    def program(self, user, path, nic, *words):
        app = served.Process([path, nic.socket, *words], user=user, env=self.environment())
        self.closing.append(app.kill)
        return app

    def greedy(self, nic, users, how, contexts=256):
        """One program of each of so many users, at work."""
        apps = [self.program(GREEDY + i, net.PROGRAM, nic, str(contexts), how) for i in range(users)]
        for app in apps:
            line = app.line()
            assert line.startswith("contexts ") and int(line.split()[1]) >= 8, line + app.stderr()
        return apps

    def messages(self):
        sum = 0
        for app in self.pair:
            app.say("?")
            line = app.line()
            assert line.startswith("at "), line + app.stderr()
            sum += int(line.split()[2])
        return sum

    def rate(self):
        before, began = self.messages(), time.monotonic()
        time.sleep(SECONDS)
        return (self.messages() - before) / (time.monotonic() - began)

    def beside(self, nic, users, how):
        apps = self.greedy(nic, users, how)
        try:
            time.sleep(0.3)  # what was there before is through
            return self.rate()
        finally:
            for app in apps:
                app.kill()

    def report(self):
        text = subprocess.run([net.SPINDLE, "stat", self.own.socket, "--json"], env=self.environment(), check=True,
                              capture_output=True, text=True, timeout=60).stdout
        return json.loads(text)


def keeps_its_share(users, how):
    said, kept = [], 0 if net.sanitized() else KEPT[users]
    with Two() as two:
        for _ in range(TRIES):
            elsewhere = two.beside(two.other, users, how)
            here = two.beside(two.own, users, how)
            said.append("%.0f of %.0f messages/s" % (here, elsewhere))
            if elsewhere > 20 and here >= max(kept * elsewhere, GOES_ON):
                print("# %s, %d users: %s" % (how, users, said[-1]))
                return
    raise AssertionError("the honest pair gets no more than " + ", ".join(said))


@rule
def beside_256_contexts_that_stream():
    keeps_its_share(1, "stream")


@rule
def beside_256_contexts_that_repeat_clear_to_sends():
    keeps_its_share(1, "cts")


@rule
def beside_contexts_that_post_huge_receives():
    keeps_its_share(1, "post")


@rule
def beside_two_users_whose_contexts_stream():
    keeps_its_share(2, "stream")


@rule
def limits_hold_and_are_seen():
    with Two("[limits greedy]\nuser = %d\npackets = 2k/s\nworker-time = 30%%\n" % GREEDY) as two:
        two.greedy(two.own, 1, "stream", 8)
        before = [u for u in two.report()["users"] if u["uid"] == GREEDY][0]
        began = time.monotonic()
        sent = sum(c["sent"] for n, c in two.report()["contexts"].items() if n.startswith("g"))
        time.sleep(1)
        user = [u for u in two.report()["users"] if u["uid"] == GREEDY][0]
        more = sum(c["sent"] for n, c in two.report()["contexts"].items() if n.startswith("g")) - sent
        assert user["limited"] and user["contexts"] == 8, user
        assert user["limit_waits"] > before["limit_waits"], (before, user)
        assert more <= 2000 * (time.monotonic() - began) * 1.1 + 100, more
        assert more > 0


if __name__ == "__main__":
    net.main()
