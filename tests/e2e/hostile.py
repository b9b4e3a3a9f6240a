#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Applications that lie, cheat, hang and die beside honest ones on one NIC; NICs that die under their applications; peers
that start anew. Whatever happens, the honest pair's data stay intact and go on, and the NIC holds nothing of who is gone."""

import errno
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
import served  # noqa: E402
from accidents import (HOSTILE, At, Holdings, Pair, alone, children, ends_well, goes_on, introduce, nothing_left,  # noqa: E402
                       several_users, unspoilt)
from net import Skip, rule, until  # noqa: E402
from served import House  # noqa: E402

LIMITS = "[limits hostile]\nuser = %d\nmemory = 16M\ncontexts = 4\nqps = 64\nmessages = 256\n" % HOSTILE


class Neighbours(Pair):
    """An honest pair of applications, and room for a hostile one on NIC `far`."""

    def __init__(self):
        self.user = HOSTILE if several_users() else None
        super().__init__(far=LIMITS, near=LIMITS)
        try:
            self.honest = self.traffic(self.far, self.near)
            self.hostile("ask", "qpn=0x700").end()  # what a first application leaves for good is there
            goes_on(*self.honest, messages=100)
            unspoilt(self, self.far, self.near)
            alone(self, self.far, self.honest[0])
            self.before = Holdings(self, self.far)
        except BaseException:
            self.__exit__()
            raise

    def hostile(self, verb, *words, user="hostile", nic=None):
        return self.app(nic or self.far, verb, *words, user=self.user if user == "hostile" else user)

    def ready(self, verb, *words, **more):
        """The hostile one at work. What it said before "ready"."""
        app = self.hostile(verb, *words, **more)
        app.said = []
        while True:
            line = app.line()
            if line == "ready":
                return app
            assert line and not line.startswith("error "), "%s: %r %s" % (verb, line, app.stderr())
            app.said.append(line)

    def check(self):
        goes_on(*self.honest)
        nothing_left(self, self.far, self.before)

    def gone(self, app):
        """Ends a hostile one that has had its way."""
        app.say("enough")
        line = app.line()
        assert line.startswith("ok"), line + app.stderr()
        app.end()

    def killed(self, app):
        app.signal(signal.SIGKILL)
        app.end(-signal.SIGKILL)

    def end(self):
        self.check()
        ends_well(*self.honest)
        for nic in (self.far, self.near):
            nic.signal(signal.SIGTERM)
            nic.end()
        assert self.left() == [], self.left()


def tries(app):
    """{("WHAT", ...): errno}"""
    return {tuple(line.split()[1:-1]): int(line.split()[-1]) for line in app.said if line.startswith("try ")}


# ---- death of applications -----------------------------------------------------------------------------------------------

@rule
def an_application_killed_with_receives_posted_leaves_nothing():
    with Neighbours() as n:
        for words in ((), ("slots=64", "size=65536")):
            app = n.hostile("await", "how=fd", "qpn=0x5000", *words)
            assert app.line() == "ready"
            n.killed(app)
            n.check()
        n.end()


@rule
def an_application_killed_in_mid_transfer_leaves_nothing_and_its_peer_closes_well():
    with Neighbours() as n:
        chance = random.Random(1)
        for turn in range(6):
            words = "size=65536", "slots=3", "qpn=0x5000"
            app, partner = introduce(n.hostile("traffic", "seed=1", "peer=2", *words, *(("wait=sleep",) if turn % 2 else ())),
                                     n.hostile("traffic", "seed=2", "peer=1", *words, nic=n.near))
            until("some messages", lambda: At(app).received > 3)
            time.sleep(chance.random() / 20)
            n.killed(app)
            ends_well(partner)
        n.end()


@rule
def an_application_killed_in_mid_attach_leaves_nothing():
    with Neighbours() as n:
        for stage in range(18):
            for _ in range(1 if net.sanitized() else 2):
                n.killed(n.ready("stage", "stage=%d" % stage, "qpn=0x5000"))
            nothing_left(n, n.far, n.before)
        n.end()


@rule
def an_application_that_is_stopped_with_receives_posted_holds_nobody_up():
    with Neighbours() as n:
        app, partner = introduce(n.hostile("traffic", "seed=1", "peer=2", "wait=sleep"),
                                 n.hostile("traffic", "seed=2", "peer=1", nic=n.near))
        goes_on(app, partner)
        app.signal(signal.SIGSTOP)
        n.hostile("ask", "qpn=0x700").end()
        goes_on(*n.honest)
        sent = At(partner).sent
        assert At(partner).sent - sent <= 4  # it gets no credit
        app.signal(signal.SIGCONT)  # ... and then all goes on
        goes_on(app, partner)
        app.signal(signal.SIGSTOP)
        goes_on(*n.honest)
        n.killed(app)
        ends_well(partner)
        n.end()


# ---- lies ----------------------------------------------------------------------------------------------------------------

@rule
def rubbish_in_rings_and_indexes_hurts_nobody_else():
    with Neighbours() as n:
        for seed in (1, 2):
            app = n.ready("rubbish", "seed=%d" % seed, "qpn=0x5000")
            goes_on(*n.honest)
            n.hostile("ask", "qpn=0x700").end()  # the NIC answers others
            if seed == 1:
                n.killed(app)
            else:
                n.gone(app)
            n.check()
        n.end()


@rule
def an_entry_that_changes_while_it_is_read_hurts_nobody_else():
    with Neighbours() as n:
        honest = At(n.honest[0])
        app = n.ready("flip", "qpn=0x5000", "region=%d" % honest.region, "context=%d" % honest.context)
        goes_on(*n.honest, messages=50)
        n.gone(app)
        n.end()


@rule
def sealed_memory_can_be_neither_resized_nor_punched_nor_written_as_a_file():
    with Neighbours() as n:
        app = n.ready("files", "qpn=0x5000")
        result = tries(app)
        refused = "shrink", "grow", "extend", "seal", "punch", "punch-page", "write", "map"
        for name in ("queues", "region", "events", "area"):
            for what in refused:
                error = result[name, what]
                # Of the area there is a descriptor for reading only: then the kernel looks no further.
                assert error == errno.EPERM or (name == "area" and error in (errno.EBADF, errno.EINVAL, errno.EACCES)), (
                    "%s %s: %d" % (name, what, error))
            assert result[name, "protect"] == errno.EACCES, result
            assert result[name, "remove"] == (errno.EACCES if name == "area" else errno.EPERM), result
            if result[name, "open"]:
                assert name == "area" and n.user is not None and result[name, "open"] == errno.EACCES, result
            else:
                for what in refused:
                    assert result[name, what + "-opened"] == errno.EPERM, "%s %s-opened: %s" % (name, what, result)
        goes_on(*n.honest)
        n.gone(app)
        n.check()
        n.killed(n.ready("files", "qpn=0x5000"))
        n.end()


@rule
def memory_that_is_not_sealed_as_it_should_be_is_refused_and_hurts_nobody():
    with Neighbours() as n:
        app = n.ready("seals", "qpn=0x5000")
        result = tries(app)
        for op in ("hello", "alloc", "open"):
            for what in ("none", "three", "shrunk", "halved", "grown"):
                assert result[op, what] == errno.EACCES, "%s %s: %d" % (op, what, result[op, what])
            for what in ("write", "exec"):  # refused by the kernel, or by the NIC
                assert result[op, what] == errno.EACCES, "%s %s: %d" % (op, what, result[op, what])
            for what in ("nothing", "twice", "instead"):
                assert result[op, what] == errno.EPROTO, "%s %s: %d" % (op, what, result[op, what])
            for what in ("punched", "removed"):  # refused, or filled once more
                assert result[op, what] in (0, errno.EACCES), "%s %s: %d" % (op, what, result[op, what])
        goes_on(*n.honest)
        n.gone(app)
        n.check()
        n.killed(n.ready("seals", "qpn=0x5000"))
        n.end()


@rule
def wake_ups_never_read_changed_and_closed_keep_nobody_elses_wake_ups_away():
    with Neighbours() as n:
        for user in ("hostile", None):  # as the NIC's own user it gets at the end for writing too
            app = n.ready("wakes", "qpn=0x5000", user=user)
            result = tries(app)
            assert result["wakes", "send"] == errno.EPIPE and result["wakes", "open"] == errno.ENXIO, result
            goes_on(*n.honest, messages=50)  # one of the two sleeps
            time.sleep(0.2)
            goes_on(*n.honest)
            n.gone(app)
            n.check()
        n.end()


@rule
def what_belongs_to_others_cannot_be_named():
    with Neighbours() as n:
        honest = At(n.honest[0])
        qpn = int.from_bytes(bytes.fromhex(n.honest[0].info)[24:28], sys.byteorder)  # struct sdr_qp_info
        app = n.ready("foreign", "qpn=0x5000", "region=%d" % honest.region, "context=%d" % honest.context, "stage=%d" % qpn)
        result = tries(app)
        assert result["call",] == result["free",] == result["close",] == errno.ENOENT, result
        assert result["qp",] in (errno.EADDRINUSE, errno.EEXIST), result
        for what in ("send", "post", "beyond"):
            assert result[what,] > 0 and result[what,] != errno.ETIMEDOUT, result
        assert result["own",] == 0, result
        n.gone(app)
        n.end()


# ---- greed ---------------------------------------------------------------------------------------------------------------

@rule
def who_takes_all_it_gets_meets_its_limits_and_leaves_the_neighbours_theirs():
    with Neighbours() as n:
        if not n.user:
            raise Skip("only root can be several users, who have different limits")
        for how, most, error, words in (("memory", 15, errno.EDQUOT, "16777216 bytes"),
                                        ("regions", 512, errno.EDQUOT, "512 regions"),
                                        ("contexts", 4, errno.EDQUOT, "contexts"), ("qps", 3, errno.EDQUOT, "qp"),
                                        ("messages", 2, errno.EDQUOT, "messages")):
            app = n.ready("exhaust", "how=" + how, "qpn=0x5000")
            said = app.said[0].split(" ", 3)
            assert said[0] == "full" and 0 < int(said[1]) <= most, app.said
            assert int(said[2]) == error and words in said[3].lower(), "%s: %s" % (how, app.said)
            n.honest[0].say("more")
            assert n.honest[0].line() == "more 0"
            goes_on(*n.honest)
            n.gone(app)
            nothing_left(n, n.far, n.before)
        n.end()


@rule
def who_meets_another_limit_than_that_of_memory_does_not_wait_for_memory():
    with Neighbours() as n:
        if not n.user:
            raise Skip("only root can be several users, who have different limits")
        frees = children(n.far.pid)  # what tells the NIC when memory is free: now it tells nothing
        assert len(frees) == 1, frees
        os.kill(frees[0], signal.SIGSTOP)
        try:
            app = n.ready("exhaust", "how=messages", "qpn=0x5000")
        finally:
            os.kill(frees[0], signal.SIGCONT)
        assert app.said[0].startswith("full 2 %d " % errno.EDQUOT) and "messages" in app.said[0], app.said
        n.gone(app)
        n.end()


@rule
def a_thousand_attaches_and_idle_connections_leave_nothing():
    with Neighbours() as n:
        app = n.ready("attach")
        goes_on(*n.honest)

        def answered():
            """Those that have been closed keep their places until the NIC has come to them."""
            try:
                n.hostile("ask", "qpn=0x700").end()
            except AssertionError as error:
                if "Too many users" not in str(error):
                    raise
                return False
            return True
        until("idle connections keep nobody out", answered)
        n.gone(app)
        n.check()
        n.killed(n.ready("attach"))
        n.end()


@rule
def who_does_not_read_replies_is_let_go():
    with Neighbours() as n:
        app = n.ready("deaf")
        n.check()
        n.gone(app)
        n.end()


@rule
def garbage_on_the_socket_hurts_nobody():
    with Neighbours() as n:
        for seed in (1, 2):
            app = n.ready("garbage", "seed=%d" % seed)
            goes_on(*n.honest)
            assert app.line() == "ok", app.stderr()
            app.end()
            n.check()
        n.end()


def freed(n, how, *words):
    """One that has given back its region and its context, and keeps them."""
    return n.ready("freed", "how=" + how, "qpn=0x5000", *words)


def charged(n, app):
    """Bytes and the rest of what the NIC counts as this application's."""
    one = [a for a in Holdings(n, n.far).said["applications"] if a[0] == app.pid]
    assert len(one) == 1, one
    return one[0][1:]


@rule
def memory_given_back_stays_charged_until_nobody_has_it():
    with Neighbours() as n:
        app = freed(n, "let")
        most = charged(n, app)
        assert most[0] >= 1 << 20 and most[1:] == (0, 0, 0), most
        app.say("let")
        line = app.line()
        assert line == "let", line + app.stderr()
        # Its queues are left. The server looks when it has nothing else to do.
        until("it is free", lambda: charged(n, app)[0] <= most[0] - (1 << 20))
        n.gone(app)
        n.end()


@rule
def who_holds_much_that_is_given_back_gets_no_more_and_others_do():
    with Neighbours() as n:
        app = freed(n, "held", "size=64")
        assert app.said == ["held %d" % errno.EBUSY], app.said
        again = n.hostile("ask", "qpn=0x700")  # neither there nor on another connection
        assert again.line().startswith("error -%d " % errno.EBUSY), again.stderr()
        again.end(1)
        if n.user is not None:
            n.honest[0].say("more")
            assert n.honest[0].line() == "more 0"
        goes_on(*n.honest)
        n.gone(app)
        n.end()


@rule
def memory_whose_heirs_outlive_the_connection_is_freed_with_them():
    with Neighbours() as n:
        app = freed(n, "heir", "size=8")
        app.process.wait(60)
        goes_on(*n.honest)
        time.sleep(0.3)
        now = Holdings(n, n.far)  # nobody's, but the NIC's all the same
        assert now.said["memory_used"] > n.before.said["memory_used"], "%s\n%s" % (now, n.before)
        n.gone(app)
        n.end()


# ---- death of NICs -------------------------------------------------------------------------------------------------------

def learns_and_attaches_again(how):
    with House() as h:
        text = "[nic]\nport = null:\nip = 192.0.2.1/24\n"
        nic = h.nic(text, eal=())
        # The second keeps its wake-up socket from ending: it must learn of it by the socket.
        apps = [h.app("spindle0", "await", "how=" + how, "stage=%d" % i) for i in range(2)]
        for app in apps:
            assert app.line() == "ready"
        time.sleep(0.3)  # they are in the midst of it
        nic.signal(signal.SIGKILL)
        nic.end(-signal.SIGKILL)
        for app in apps:
            line = app.line()
            assert line.startswith("error -103 "), line
            assert app.line() == "closed"
        again = h.nic(text, eal=())
        for app in apps:
            for _ in range(2):
                app.say("again")
                line = app.line()
                assert line == "ok 16", line + app.stderr()
            app.end()
        again.signal(signal.SIGTERM)
        again.end()
        assert h.left() == [], h.left()


@rule
def a_nic_that_is_killed_ends_polling_for_a_message():
    learns_and_attaches_again("test")


@rule
def a_nic_that_is_killed_ends_sleeping_for_a_message():
    learns_and_attaches_again("wait")


@rule
def a_nic_that_is_killed_ends_requests_that_are_underway():
    learns_and_attaches_again("create")


@rule
def a_nic_that_is_killed_wakes_who_polls_the_descriptor():
    learns_and_attaches_again("fd")


# ---- peers that start anew -----------------------------------------------------------------------------------------------

@rule
def a_peer_that_starts_anew_is_noticed_and_writes_nothing_into_old_buffers():
    with Pair() as p:
        old, peer = introduce(p.app(p.far, "traffic", "seed=1", "peer=2", "wait=sleep"),
                              p.app(p.near, "traffic", "seed=2", "peer=1", "qpn=0x6000"))
        goes_on(old, peer)
        peer.signal(signal.SIGKILL)
        peer.end(-signal.SIGKILL)
        # Of the same numbers, but another nonce; it sends other bytes, which the old end would not take for its peer's.
        new = p.app(p.near, "traffic", "seed=3", "peer=1", "qpn=0x6000")
        new.info = served.info(new)
        new.say(old.info)
        until("the old end has noticed", lambda: At(old).restarted)
        before = At(old)
        time.sleep(0.5)
        now = At(old)  # nothing was wrong in what it looked at
        assert now.received == before.received and At(new).received == 0
        ends_well(old, new)
        for nic in (p.far, p.near):
            nic.signal(signal.SIGTERM)
            nic.end()


if __name__ == "__main__":
    net.main()
