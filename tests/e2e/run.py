#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle run`: it says when it is ready, stops in good order and leaves nothing, keeps its name to itself, takes over
from a killed one, serves several users, and says what is wrong with its configuration."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import counted  # noqa: E402
import net  # noqa: E402
import served  # noqa: E402
from net import Skip, World, config, plain, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

NULL = "[nic]\nport = net_null0\nip = 192.0.2.1/24\n"
ALICE, BOB = 61001, 61002  # nobody's numbers


def info_works(house, nic, **more):
    app = house.app(nic, "info", **more)
    line = app.line()
    assert line.startswith("ok ipv4 192.0.2.1 "), line + app.stderr()
    app.end()


def refused(house, text, *words, arguments=(), status=1, **more):
    nic = house.nic(text, *arguments, ready=False, **more)
    assert nic.end(status) == [], "something on standard output"
    why = nic.stderr()
    for word in words:
        assert word in why, "%r is not in: %s" % (word, why)
    return why


def need_root():
    if os.geteuid() != 0:
        raise Skip("only root can be several users")
    for path in (net.SPINDLE, net.PROGRAM):
        while path != "/":
            if not os.stat(path).st_mode & stat.S_IXOTH:
                raise Skip("other users cannot reach the programs: %s" % path)
            path = os.path.dirname(path)


# ---- ready, and gone again -----------------------------------------------------------------------------------------------

@rule
def the_ready_line_says_what_there_is():
    with House() as h:
        nic = h.nic("[nic]\nport = net_null0\nip = 192.0.2.1/24, 2001:db8::1\nip = 198.51.100.7/8\nmtu = 4000\nworkers = 2\n",
                    "--name", "left-1.x")
        assert nic.ready["name"] == "left-1.x" and int(nic.ready["pid"]) == nic.pid
        assert nic.ready["ip"] == "192.0.2.1/24, 2001:db8::1/64, 198.51.100.7/8", nic.ready
        assert nic.ready["port"] == "net_null0" and nic.ready["mtu"] == "4000" and nic.ready["workers"] == "2"
        assert os.path.dirname(nic.socket) == h.path("sockets") and "left-1.x" in nic.socket
        assert stat.S_ISSOCK(os.stat(nic.socket).st_mode) and os.stat(nic.socket).st_mode & 0o777 == 0o600
        assert os.stat(h.path("sockets")).st_mode & 0o022 == 0
        info_works(h, nic)  # ready means ready
        nic.signal(signal.SIGTERM)
        assert nic.end() == [], "more than one line"


@rule
def a_name_is_the_options_or_the_files_or_spindle0():
    with House() as h:
        for text, arguments, name in ((NULL, (), "spindle0"), (NULL + "name = here\n", (), "here"),
                                      (NULL + "name = here\n", ("--name", "there"), "there")):
            nic = h.nic(text, *arguments)
            assert nic.ready["name"] == name, nic.ready
            info_works(h, name)  # found by it
            nic.signal(signal.SIGTERM)
            nic.end()


@rule
def each_signal_stops_it_with_nothing_left():
    for number in served.signals():
        with House() as h:
            nic = h.nic(NULL)
            assert len(h.left()) >= 2, h.left()
            nic.signal(number)
            nic.end()
            assert h.left() == [], h.left()


@rule
def a_signal_while_it_starts_stops_it_and_a_second_ends_it_at_once():
    with House() as h:
        os.mkfifo(h.path("fifo"))  # EAL's port opens it, and waits there for a writer that does not come
        nic = h.nic("[nic]\nport = net_pcap0\nip = 192.0.2.1\n", ready=False,
                    eal=("--vdev", "net_pcap0,rx_pcap=%s,tx_pcap=%s" % (h.path("fifo"), h.path("out"))))
        lock = h.path("sockets", "spindle0.sock.lock")
        until("the lock", lambda: os.path.exists(lock))
        until("the signals", lambda: waits_for_signals(nic.pid))
        nic.signal(signal.SIGINT)
        until("the first signal was taken", lambda: not pending(nic.pid))
        assert nic.process.poll() is None
        nic.signal(signal.SIGTERM)
        assert nic.end(-signal.SIGTERM) == []
        assert not os.path.exists(lock)


def masks(pid, name):
    """This mask of all threads of a process."""
    result = []
    for thread in os.listdir("/proc/%d/task" % pid):
        # a thread may have ended since
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open("/proc/%d/task/%s/status" % (pid, thread)) as f:
            result.append(int(re.search(name + r":\s*([0-9a-f]+)", f.read()).group(1), 16))
    return result


def bits(*numbers):
    return sum(1 << (n - 1) for n in numbers)


def waits_for_signals(pid):
    """The thread for signals is there, and nobody can be interrupted any more."""
    blocked = masks(pid, "SigBlk")
    # The thread that waits for them shows them unblocked while it does, which only it may.
    return len(blocked) >= 2 and sum(not b & bits(signal.SIGINT) for b in blocked) == 1


def pending(pid):
    return any(p & bits(*served.signals()) for p in masks(pid, "ShdPnd"))


@rule
def no_thread_of_a_nic_can_be_interrupted_by_these_signals():
    with House() as h:
        nic = h.nic(NULL + "workers = 2\n")
        hold = h.app(nic, "hold")  # the notifier runs too
        served.info(hold)
        blocked = masks(nic.pid, "SigBlk")
        assert len(blocked) >= 5, "%d threads" % len(blocked)
        wanted = bits(*served.signals())
        assert sum(b & wanted != wanted for b in blocked) <= 1, [hex(b) for b in blocked]


@rule
def a_hangup_that_was_ignored_stays_so():
    with House() as h:
        nic = h.nic(NULL, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        nic.signal(signal.SIGHUP)
        info_works(h, nic)
        nic.signal(signal.SIGTERM)
        nic.end()


@rule
def a_ready_line_that_cannot_be_written_is_a_failure_with_nothing_left():
    with House() as h, open("/dev/full", "wb") as full:
        nic = h.nic(NULL, ready=False, stdout=full)
        nic.process.wait(60)
        assert nic.process.returncode == 1 and "standard output" in nic.stderr(), nic.stderr()
        assert h.left() == [], h.left()


@rule
def the_service_manager_is_told():
    for abstract in (False, True):
        with House() as h, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = h.path("notify")
            manager.bind("\0" + path if abstract else path)
            manager.settimeout(60)
            nic = h.nic(NULL, env=h.environment(NOTIFY_SOCKET="@" + path if abstract else path))
            lines = manager.recv(4096).decode().split("\n")
            assert lines[0] == "READY=1" and lines[1].startswith("STATUS=spindle0 ready: "), lines
            nic.signal(signal.SIGTERM)
            assert manager.recv(4096) == b"STOPPING=1"
            nic.end()


# ---- names ---------------------------------------------------------------------------------------------------------------

@rule
def a_second_nic_on_a_name_is_refused_naming_the_process_and_the_first_goes_on():
    with House() as h:
        nic = h.nic(NULL)
        hold = h.app(nic, "hold")
        served.info(hold)
        refused(h, NULL, "spindle0", "process %d " % nic.pid)
        hold.say("?")
        assert hold.line() == "alive"
        info_works(h, nic)
        nic.signal(signal.SIGTERM)
        nic.end()
        third = h.nic(NULL)
        third.signal(signal.SIGTERM)
        third.end()


@rule
def what_a_killed_nic_left_is_taken_over():
    with House() as h:
        for _ in range(2):
            nic = h.nic(NULL)
            nic.signal(signal.SIGKILL)
            nic.end(-signal.SIGKILL)
            assert os.path.exists(nic.socket) and os.path.exists(nic.socket + ".lock"), h.left()
        nic = h.nic(NULL)
        info_works(h, nic)
        nic.signal(signal.SIGTERM)
        nic.end()
        assert h.left() == [], h.left()


@rule
def several_nics_run_side_by_side():
    with House() as h:
        nics = [h.nic(NULL, "--name", name) for name in ("one", "two", "three")]
        for nic in nics:
            info_works(h, nic)
            telemetry = h.path("dpdk", "spindle-" + nic.ready["name"], "dpdk_telemetry.v2")
            assert stat.S_ISSOCK(os.stat(telemetry).st_mode)
        nics[1].signal(signal.SIGTERM)
        nics[1].end()
        for nic in nics[::2]:
            info_works(h, nic)
            nic.signal(signal.SIGTERM)
            nic.end()
        assert h.left() == [], h.left()


@rule
def a_name_that_is_none_is_refused():
    with House() as h:
        for name in ("a/b", "a b", "\xe4", "x" * 40):
            refused(h, NULL, "name", arguments=("--name", name), status=2 if len(name) > 31 else 1)
        refused(h, NULL + "name = a/b\n", "name", "a/b")


@rule
def a_socket_can_be_named_with_mode_and_group():
    with House() as h:
        group = os.getegid()
        nic = h.nic(NULL + "socket = %s\nsocket-mode = 0660\nsocket-group = %d\n" % (h.path("here"), group))
        assert nic.socket == h.path("here")
        entry = os.stat(nic.socket)
        assert entry.st_mode & 0o777 == 0o660 and entry.st_gid == group
        info_works(h, nic)
        nic.signal(signal.SIGTERM)
        nic.end()
        assert not os.path.exists(nic.socket) and not os.path.exists(nic.socket + ".lock")


@rule
def what_is_no_socket_is_not_replaced():
    with House() as h:
        path = h.write("precious", "data")
        refused(h, NULL + "socket = %s\n" % path, path)
        with open(path) as f:
            assert f.read() == "data"


@rule
def a_socket_in_a_directory_that_is_not_there_is_refused_naming_the_directory():
    with House() as h:
        refused(h, NULL + "socket = %s\n" % h.path("nowhere", "nic.sock"), "directory %s does not exist" % h.path("nowhere"))


@rule
def a_directory_of_sockets_that_others_could_write_to_is_refused():
    with House() as h:
        os.mkdir(h.path("sockets"))
        for mode in (0o775, 0o777, 0o1777):
            os.chmod(h.path("sockets"), mode)
            refused(h, NULL, h.path("sockets"), "others may write")
        os.rmdir(h.path("sockets"))
        os.mkdir(h.path("real"))
        os.symlink(h.path("real"), h.path("sockets"))
        refused(h, NULL, h.path("sockets"), "no directory")


# ---- users ---------------------------------------------------------------------------------------------------------------

@rule
def two_users_run_nics_of_the_same_name():
    need_root()
    with House() as h:
        os.chmod(h.dir, 0o755)
        nics = []
        for user in (ALICE, BOB):
            home = h.path("user%d" % user)
            os.mkdir(home)
            os.chown(home, user, user)
            env = h.environment(SPINDLE_SOCKETS=None, RUNTIME_DIRECTORY=None, XDG_RUNTIME_DIR=home)
            nic = h.nic(NULL, user=user, env=env)
            assert nic.socket.startswith(home + "/spindle/") and os.stat(nic.socket).st_uid == user, nic.ready
            assert os.stat(os.path.dirname(nic.socket)).st_mode & 0o777 == 0o700
            info_works(h, "spindle0", user=user, env=env)
            nics.append((nic, user, env))
        for (nic, _, _), (_, user, env) in zip(nics, nics[::-1]):  # neither reaches the other's
            app = h.app(nic.socket, "info", user=user, env=env)
            assert app.line().startswith("error -13 "), app.stderr()
            app.end(1)
        for nic, user, _ in nics:
            nic.signal(signal.SIGTERM)
            nic.end()
            left = [os.path.join(d, n) for d, _, names in os.walk(h.path("user%d" % user)) for n in names]
            assert left == [], left


@rule
def users_without_a_runtime_directory_have_one_each():
    need_root()
    with House() as h:
        os.chmod(h.dir, 0o755)
        env = h.environment(SPINDLE_SOCKETS=None, RUNTIME_DIRECTORY=None)
        nics = []
        for user in (ALICE, BOB):
            own = "/tmp/spindle-%d" % user
            if os.path.lexists(own):
                raise Skip("%s is there already" % own)
            h.closing.append(lambda own=own: shutil.rmtree(own, ignore_errors=True))
            nics.append(h.nic(NULL, user=user, env=env))
            assert nics[-1].socket.startswith(own + "/"), nics[-1].ready
            assert os.path.exists(own + "/dpdk/spindle-spindle0/dpdk_telemetry.v2")
        for nic, user in zip(nics, (ALICE, BOB)):
            info_works(h, "spindle0", user=user, env=env)
            nic.signal(signal.SIGTERM)
            nic.end()
            left = [n for _, _, names in os.walk("/tmp/spindle-%d" % user) for n in names]
            assert left == [], left


@rule
def a_directory_of_another_user_is_refused():
    need_root()
    with House() as h:
        os.mkdir(h.path("sockets"))
        os.chown(h.path("sockets"), ALICE, ALICE)
        refused(h, NULL, h.path("sockets"), "belongs to user %d" % ALICE)


@rule
def other_users_attach_if_the_sockets_mode_lets_them_and_limits_do():
    need_root()
    with House() as h:
        os.chmod(h.dir, 0o755)
        for more, who, status in (("", ALICE, 1), ("socket-mode = 0666\n", ALICE, 0),
                                  ("socket-mode = 0666\n[limits a]\nuser = %d\nrefuse = yes\n" % ALICE, ALICE, 1),
                                  ("socket-mode = 0666\n[limits a]\nuser = %d\nrefuse = yes\n" % ALICE, BOB, 0),
                                  ("socket-mode = 0666\n[limits a]\nuser = %d\n[limits b]\nuser = everyone\nrefuse = yes\n"
                                   % ALICE, BOB, 1),
                                  ("socket-mode = 0660\nsocket-group = %d\n" % BOB, BOB, 0)):
            nic = h.nic(NULL + more)
            app = h.app(nic, "info", user=who)
            line = app.line()
            app.end(status)
            assert line.startswith("error -13 " if status else "ok "), line
            nic.signal(signal.SIGTERM)
            nic.end()


@rule
def limits_of_the_file_hold():
    with House() as h:
        nic = h.nic(NULL + "[limits all]\nuser = everyone\nmemory = 8M\n")
        for words, line in ((("size=1M", "slots=32"), "error -122 "), (("size=64K", "slots=4"), "qp ")):
            app = h.app(nic, "hold", *words)
            said = app.line()
            assert said.startswith(line), said + app.stderr()
            app.end(1 if line[0] == "e" else 0)
        nic.signal(signal.SIGTERM)
        nic.end()


# ---- applications --------------------------------------------------------------------------------------------------------

@rule
def applications_learn_of_the_end_of_their_nic():
    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        with House() as h:
            nic = h.nic(NULL)
            apps = [h.app(nic, "hold") for _ in range(3)]
            for app in apps:
                served.info(app)
            nic.signal(number)
            nic.end(status)
            for app in apps:
                line = app.line()
                line = app.line() if line == "reset" else line
                assert line.startswith("error -%d " % (19 if number == signal.SIGTERM else 103)), line
                app.end(1)
            again = h.nic(NULL)  # of the same name: they can attach anew
            info_works(h, again)
            again.signal(signal.SIGTERM)
            again.end()


@rule
def a_nic_outlives_its_applications():
    with House() as h:
        nic = h.nic(NULL)
        stays = h.app(nic, "hold")
        served.info(stays)
        for _ in range(5):
            app = h.app(nic, "hold", "qpn=0x5000")
            served.info(app)  # the QP numbers of the one before are free again
            app.signal(signal.SIGKILL)
            app.end(-signal.SIGKILL)
            # The NIC learns of it by the end of the connection, which is there before the process can be waited for.
        stays.say("?")
        assert stays.line() == "alive"
        stays.end()
        nic.signal(signal.SIGTERM)
        nic.end()


@rule
def applications_of_one_nic_reach_each_other():
    with House() as h:
        nic = h.nic("[nic]\nport = null:\nip = 192.0.2.1/24, 2001:db8::1\nworkers = 2\n", eal=())
        # Never more under way than a worker keeps of one context (256 packets), while others have its time: no message is sent again.
        for words in (("family=4", "slots=3"), ("family=6", "wait=sleep", "channels=2", "slots=3"), ("size=0",),
                      ("size=240K", "messages=80", "slots=1")):
            app = h.app(nic, "loop", *words)
            line = app.line(120)
            assert line.startswith("ok "), "%s: %s%s%s" % (words, line, app.stderr(), counted.sample(h))
            app.end()
        words = ("messages=30", "size=12345", "slots=4")
        served.transfer(h.app(nic, "recv", *words), h.app(nic, "send", "wait=sleep", *words), 30, 12345)
        nic.signal(signal.SIGTERM)
        nic.end()


def told(app):
    """How often the program has told a NIC that it posts while it is parked: nobody reads its eventfds."""
    count = 0
    for fd in os.listdir("/proc/%d/fdinfo" % app.process.pid):
        with open("/proc/%d/fdinfo/%s" % (app.process.pid, fd)) as f:
            count += sum(int(line.split()[1], 16) for line in f if line.startswith("eventfd-count:"))
    return count


def polls(house):
    return min(w["polls"] for w in counted.sample(house)["workers"])


@rule
def a_quiet_application_is_parked_and_its_next_post_costs_one_system_call():
    with House() as h:
        nic = h.nic("[nic]\nport = null:\nip = 192.0.2.1/24\nworkers = 2\nidle = yield\n", eal=())
        app = h.app(nic, "loop", "pause=1", "messages=200", "size=10000")
        for point in ("connected", "sent"):
            assert app.line(60) == point
            before = polls(h)
            until("the workers have gone round often enough", lambda: polls(h) > before + 3 * 16384)
            # Two devices: their first posts wake the NIC; few of the 598 after them do, where the machine has not kept the
            # program waiting for too long.
            assert told(app) == 0 if point == "connected" else 2 <= told(app) < 300, (point, told(app))
            app.say("go on")
        assert app.line(60).startswith("ok ")
        app.end()
        nic.signal(signal.SIGTERM)
        nic.end()


@rule
def messages_cross_between_applications_of_two_nics():
    for family in (4, 6):
        with House() as h, World(addresses=False) as w:
            here = h.nic(config("net_af_packet0", mac="02:00:00:00:00:02", ip4=net.HOST4, ip6=net.HOST6), "--name", "here",
                         eal=("--vdev", "net_af_packet0,iface=host0"))
            there = h.nic(config("net_af_packet0"), "--name", "there", eal=("--vdev", "net_af_packet0,iface=nic0"),
                          space=w.space)
            words = ("messages=40", "size=20001", "slots=4", "family=%d" % family)
            served.transfer(h.app(here, "recv", *words), h.app(there, "send", *words), 40, 20001)
            served.transfer(h.app(there, "recv", "wait=sleep", *words), h.app(here, "send", "wait=sleep", *words), 40, 20001)
            for nic in (here, there):
                nic.signal(signal.SIGTERM)
                nic.end()


@rule
def a_payload_that_differs_is_noticed():
    """The tests' own program must be able to fail."""
    with House() as h, World(addresses=False) as w:
        here = h.nic(config("net_af_packet0", mac="02:00:00:00:00:02", ip4=net.HOST4, ip6=net.HOST6), "--name", "here",
                     eal=("--vdev", "net_af_packet0,iface=host0"))
        there = h.nic(config("net_af_packet0"), "--name", "there", eal=("--vdev", "net_af_packet0,iface=nic0"), space=w.space)
        receiver, sender = h.app(here, "recv", "seed=1", "size=5000"), h.app(there, "send", "seed=2", "size=5000")
        ours, theirs = served.info(receiver), served.info(sender)
        receiver.say(theirs)
        sender.say(ours)
        assert receiver.line().startswith("error -74 message 0 differs")
        receiver.end(1)


# ---- what it is told -----------------------------------------------------------------------------------------------------

@plain
@rule
def bad_configurations_are_refused_with_file_and_line():
    with House() as h:
        for text, line, *words in (
                ("[nic]\nip = 192.0.2.1\n", 1, "port = "),
                ("[nic]\nport = net_null0\n", 1, "ip = "),
                ("[nic]\nport = net_null0\nip = 192.0.2.1\nmtu = 10\n", 4, "mtu", "576 to 9500"),
                (NULL + "sockets = /x\n", 4, "sockets", "socket meant"),
                (NULL + "socket = x\n", 4, "socket", "absolute"),
                (NULL + "\nsocket-mode = 999\n", 5, "socket-mode", "999"),
                (NULL + "socket-group = no/such\n", 4, "no/such"),
                (NULL + "plugin = no/where.so\n", 4, "plugin", "no/where.so", "No such file"),
                (NULL + "[limits a]\nuser = 1\nmemory = lots\n", 6, "memory", "lots"),
                (NULL + "[limits a]\nmemory = 1\n", 4, "user"),
                (NULL + "[limits a]\nuser = everyone\n[limits b]\nuser = 1\n", 7, "everyone"),
                (NULL + "[kontext a]\n", 4, "kontext", "context"),
                (NULL + "[context a]\nhandler = count\nqp = 1\n", 6, "qp"),
                (NULL + "[context a]\nqp = 16\nhandler = sdr\nrkey = 1\n", 6, "[context a] sdr", "sp_context_open"),
                (NULL + "[context a]\nhandler = count\nqp = 4\n[context b]\nhandler = rvma\nqp = 5\n", 8, "[context b] rvma"),
                (NULL + "[context a]\nqp = 16\n", 4, "handler")):
            why = refused(h, text, *words)
            assert "%d.ini:%d: " % (h.count, line) in why, "line %d: %s" % (line, why)
            assert h.left() == [], h.left()
        nic = Process([net.SPINDLE, "run", "-c", h.path("nowhere.ini")], env=h.environment())
        h.closing.append(nic.kill)
        nic.end(1)
        assert h.path("nowhere.ini") in nic.stderr()


@rule
def a_plugin_is_there_for_contexts_and_leaves_no_copies():
    with House() as h:
        source = os.path.join(os.path.dirname(net.SPINDLE), "tests", "unit", "plugins", "plugin-good.so")
        shutil.copy(source, h.path("mine.so"))
        os.mkdir(h.path("tmp"))
        nic = h.nic(NULL + "plugin = mine.so\n[context mine]\nhandler = plugged\nfilter = udp\n",
                    env=h.environment(TMPDIR=h.path("tmp")))
        assert len(os.listdir(h.path("tmp"))) == 1, os.listdir(h.path("tmp"))
        with open("/proc/%d/maps" % nic.pid) as f:  # perf and gdb find it there
            copy = re.search(r"\S+-mine\.so", f.read()).group()
        assert os.path.isfile(copy) and copy.startswith(h.path("tmp")), copy
        os.remove(h.path("mine.so"))
        info_works(h, nic)
        nic.signal(signal.SIGTERM)
        nic.end()
        assert os.listdir(h.path("tmp")) == [], os.listdir(h.path("tmp"))


@rule
def ports_that_are_not_there_are_refused_by_name():
    with House() as h:
        refused(h, "[nic]\nport = net_null7\nip = 192.0.2.1\n", "net_null7")
        refused(h, NULL, "EAL", eal=("--vdev", "net_af_packet0,iface=nowhere0"))
        assert h.left() == [], h.left()


@rule
def wrong_usage_has_status_2():
    with House() as h:
        path = h.write("nic.ini", NULL)
        for arguments in ([], ["-c"], ["-c", path, "x"], ["-c", path, "--nmae", "x"], ["-c", path, "--name"], ["-x"],
                          ["-c", path, "--vdev", "net_null0"]):
            run = Process([net.SPINDLE, "run", *arguments], env=h.environment())
            h.closing.append(run.kill)
            assert run.end(2) == []
            assert "usage: spindle run" in run.stderr(), run.stderr()
        run = Process([net.SPINDLE, "run", "--help"], env=h.environment())
        h.closing.append(run.kill)
        assert run.end(0)[0].startswith("usage: spindle run")


@rule
def eal_arguments_reach_eal():
    with House() as h:
        nic = h.nic(NULL, eal=("--vdev", "net_null0", "--file-prefix=mine", "--no-telemetry"))
        assert not any("telemetry" in n or "spindle-" in n for n in os.listdir(h.path("dpdk"))), os.listdir(h.path("dpdk"))
        nic.signal(signal.SIGTERM)
        nic.end()
        refused(h, NULL, "EAL", eal=("--no-such-option",))


@rule
def memory_without_huge_pages_and_without_no_huge_is_told():
    with open("/proc/meminfo") as f:
        if not re.search(r"^HugePages_Total: +0$", f.read(), re.M):
            raise Skip("there are huge pages")
    with House() as h:
        refused(h, NULL, "--no-huge", eal=("-m", "64"))


@rule
def telemetry_speaks_of_the_nic():
    with House() as h:
        nic = h.nic(NULL, "--name", "tell")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(60)
            s.connect(h.path("dpdk", "spindle-tell", "dpdk_telemetry.v2"))
            assert json.loads(s.recv(1024))["pid"] == nic.pid
            s.send(b"/")
            assert '"/spindle/nic"' in s.recv(65536).decode()
            s.send(b"/spindle/nic")
            assert json.loads(s.recv(65536))["/spindle/nic"], "null: nobody is served"
        nic.signal(signal.SIGTERM)
        nic.end()
        assert h.left() == [], h.left()


@rule
def verbose_says_what_it_runs_on():
    with House() as h:
        nic = h.nic(NULL, "-v")
        nic.signal(signal.SIGTERM)
        nic.end()
        for words in ("huge pages", "port net_null0: driver net_null"):
            assert words in nic.stderr(), nic.stderr()
        assert "MTU 65535" not in nic.stderr(), "a limit that no driver has named: " + nic.stderr()


@rule
def a_receiver_that_may_not_write_where_it_shall_is_refused_at_its_start():
    need_root()
    with House() as h:
        os.chmod(h.dir, 0o755)
        for target in (h.dir, h.path("file")):
            recv = Process([net.SPINDLE, "recv", "-n", h.path("nobody.sock"), "-o", target], user=ALICE, env=h.environment())
            h.closing.append(recv.kill)
            assert recv.end(1) == []
            assert h.dir in recv.stderr() and "Permission denied" in recv.stderr() and "nobody" not in recv.stderr(), recv.stderr()


@rule
def other_commands_leave_nothing_of_eal_when_interrupted():
    with House() as h:
        for number in served.signals():
            demo = Process([net.SPINDLE, "demo"], env=h.environment())
            h.closing.append(demo.kill)
            until("EAL's directory", lambda: h.left())
            until("the first words", lambda: demo.line())
            demo.signal(number)
            demo.end(-number)
            assert h.left() == [], h.left()


if __name__ == "__main__":
    net.main()
