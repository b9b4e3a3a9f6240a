#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How `spindle run` is fenced in: what /proc says of each of its threads, which system calls end the NIC, which files it no
longer reaches, whose plug-ins it loads, and that it works as the service does. The plug-ins are tests/e2e/outlaw, whose
directory is the last argument."""

import ctypes
import errno
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import HOST4, NIC4, Skip, World, config, rule, until  # noqa: E402
from served import House, info  # noqa: E402

KINDS = os.path.abspath(sys.argv.pop())
NULL = "[nic]\nport = null:\nip = 192.0.2.1/24\n"
ALICE, BOB = 61001, 61002  # nobody's numbers
PORT = 7600
FAULT = 3  # exit status
UNIT = os.path.join(net.HERE, "..", "..", "systemd", "spindle@.service.in")


def kind(name):
    return os.path.join(KINDS, name + ".so")


def need_root():
    if os.geteuid() != 0:
        raise Skip("only root can be several users")
    with open("/proc/self/uid_map") as f:
        if not any(int(low) <= ALICE < int(low) + int(count) for low, _, count in (line.split() for line in f)):
            raise Skip("this user namespace has no other users")
    for path in (net.SPINDLE, net.PROGRAM):
        while path != "/":
            if not os.stat(path).st_mode & stat.S_IXOTH:
                raise Skip("other users cannot reach the programs: %s" % path)
            path = os.path.dirname(path)


def landlock():
    return net.libc.syscall(444, None, ctypes.c_size_t(0), 1) > 0  # landlock_create_ruleset's version


def seccomp():
    trap = ctypes.c_uint32(0x00030000)
    number = {"x86_64": 317, "aarch64": 277}.get(os.uname().machine)
    return number and net.libc.syscall(number, 2, 0, ctypes.byref(trap)) == 0  # SECCOMP_GET_ACTION_AVAIL


def need_seccomp():
    if not seccomp():
        raise Skip("this kernel does not filter system calls")


def need_landlock():
    if not landlock():
        raise Skip("this kernel has no landlock, or it is off")


def threads(pid):
    """What /proc says of each thread, by name of the field."""
    result = []
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, thread)) as f:
            result.append(dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line))
    return result


def fenced(nic, user, bounded, groups=None, filtered=True, least=5):
    """Each thread of the NIC is as docs/security.md says."""
    all_of = threads(nic.pid)
    assert len(all_of) >= least, len(all_of)
    for t in all_of:
        who = t["Name"]
        assert t["Uid"].split() == [str(user)] * 4, (who, t["Uid"])
        for kept in ("CapInh", "CapPrm", "CapEff", "CapAmb") + (("CapBnd",) if bounded else ()):
            assert int(t[kept], 16) == 0, (who, kept, t[kept])
        assert t["NoNewPrivs"] == "1", (who, t["NoNewPrivs"])
        assert t["Seccomp"] == ("2" if filtered and seccomp() else "0"), (who, t["Seccomp"])
        if groups is not None:
            assert t["Gid"].split() == [str(groups[0])] * 4, (who, t["Gid"])
            assert sorted(t["Groups"].split()) == sorted(str(g) for g in groups[1:]), (who, t["Groups"])


def ask(house, *words, status=0, **more):
    run = subprocess.run([net.SPINDLE, *words], env=house.environment(), capture_output=True, timeout=60, text=True, **more)
    assert run.returncode == status, (words, run.returncode, run.stdout, run.stderr)
    return run.stdout if status == 0 else run.stderr


def end(nic, status=0):
    nic.signal(signal.SIGTERM)
    nic.end(status)


def at_work(house, nic, name):
    """Everything that begins threads or opens something: applications, captures, reports, handlers, telemetry."""
    holds = [house.app(nic, "hold") for _ in range(2)]
    for app in holds:
        info(app)
    ask(house, "stat", name)
    ask(house, "handler", "status", "-n", name)
    ask(house, "capture", "-n", name, "--seconds", "1", "-w", house.path("some.pcapng"))
    for app in holds:
        app.kill()


# ---- who the process is ------------------------------------------------------------------------------------------------

@rule
def roots_nic_keeps_no_capability_in_any_thread():
    need_root()
    with World() as w, House() as h:
        nic = h.nic(config(more="workers = 2\nexception = tap:exc0\n"), "--name", "mine",
                    eal=("--vdev", "net_af_packet0,iface=nic0,qpairs=2"), space=w.space)
        fenced(nic, 0, True)
        at_work(h, nic, "mine")
        fenced(nic, 0, True, least=6)
        end(nic)
        assert h.left() == [], h.left()


@rule
def another_users_nic_cannot_gain_rights():
    need_root()
    with House() as h:
        os.chmod(h.dir, 0o777)
        nic = h.nic(NULL + "name = theirs\n", user=ALICE, eal=())
        fenced(nic, ALICE, False)
        app = h.app(nic, "info", user=ALICE)
        assert app.line().startswith("ok "), app.stderr()
        app.end()
        fenced(nic, ALICE, False)
        end(nic)


@rule
def root_becomes_the_user_that_the_configuration_names_and_all_goes_with_him():
    need_root()
    with World() as w, House() as h:
        os.mkdir(h.path("sockets"), 0o755)
        os.chmod(h.dir, 0o755)
        text = config(more="user = %d\ngroup = %d\nsocket-mode = 0660\nsocket-group = %d\n" % (ALICE, ALICE, BOB))
        eal = ("--vdev", "net_af_packet0,iface=nic0")
        nic = h.nic(text, ready=False, eal=eal, space=w.space)  # he could not remove what he makes there
        nic.end(1)
        assert "sockets belongs to user 0: user = %d could not remove" % ALICE in nic.stderr(), nic.stderr()
        os.chown(h.path("sockets"), ALICE, ALICE)
        nic = h.nic(text, "--name", "hers", eal=eal, space=w.space)
        fenced(nic, ALICE, True, (ALICE, BOB))
        st = os.stat(nic.socket)
        assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (ALICE, BOB, 0o660), st
        at_work(h, nic, "hers")
        fenced(nic, ALICE, True, (ALICE, BOB))
        end(nic)
        assert os.listdir(h.path("sockets")) == [], h.left()


@rule
def programs_find_the_nic_of_another_user_below_roots_directory():
    need_root()
    name, text = "fence-%d" % os.getpid(), NULL + "user = %d\ngroup = %d\nsocket-mode = 0666\n" % (ALICE, ALICE)
    place = "/run/spindle/" + name
    with House() as h:
        env = h.environment(SPINDLE_SOCKETS=None)
        h.closing.append(lambda: shutil.rmtree(place, ignore_errors=True))
        for _ in range(2):  # also where the directory is there already
            nic = h.nic(text, "--name", name, eal=(), env=env)
            assert nic.socket == "%s/%s.sock" % (place, name), nic.ready
            fenced(nic, ALICE, True)
            for user in (None, ALICE, BOB):
                app = h.app(name, "info", user=user, env=env)
                assert app.line().startswith("ok "), app.stderr()
                app.end()
            end(nic)
            assert os.listdir(place) == [], os.listdir(place)


@rule
def only_root_becomes_another_user():
    need_root()
    with House() as h:
        os.chmod(h.dir, 0o777)
        nic = h.nic(NULL + "user = %d\n" % BOB, user=ALICE, ready=False, eal=())
        nic.end(1)
        assert "only root can become another user" in nic.stderr(), nic.stderr()
        nic = h.nic(NULL + "user = %d\n" % BOB, ready=False, eal=())
        nic.end(1)
        assert "add group = GROUP" in nic.stderr(), nic.stderr()


@rule
def without_the_sandbox_it_says_so_and_is_still_nobody():
    for text, arguments in (NULL, ("--no-sandbox",)), (NULL + "sandbox = no\n", ()):
        with House() as h:
            nic = h.nic(text, *arguments, eal=())
            assert "NO SANDBOX" in nic.stderr(), nic.stderr()
            fenced(nic, os.geteuid(), False, filtered=False)
            end(nic)
    with House() as h:
        nic = h.nic(NULL, eal=())
        assert "SANDBOX" not in nic.stderr(), nic.stderr()
        end(nic)


# ---- system calls --------------------------------------------------------------------------------------------------------

def outlaws(house, world, more="", *arguments, name="outlaw"):
    text = config(more="plugin = %s\n%s" % (kind("outlaw"), more))
    text += "[context wild]\nhandler = outlaw\nfilter = udp port %d\n" % PORT
    return house.nic(text, "--name", name, *arguments, eal=("--vdev", "net_af_packet0,iface=nic0"), space=world.space)


def say(letter):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((HOST4, 0))
        s.sendto(letter.encode() + b" told", (NIC4, PORT))


def does(house, letter, name="outlaw"):
    """Whether the handler could do it."""
    before = counts(house, name)
    say(letter)
    until("the packet was served", lambda: counts(house, name)["served"] > before["served"])
    now = counts(house, name)
    assert (now["done"] - before["done"]) + (now["refused"] - before["refused"]) == 1, (before, now)
    return now["done"] > before["done"]


def counts(house, name):
    return json.loads(ask(house, "stat", name, "--json"))["contexts"]["wild"]["counters"]


@rule
def a_forbidden_call_ends_the_nic_with_its_name():
    need_seccomp()
    for letter, call in {"x": "execve", "p": "ptrace", "s": "socket", "r": "socket", "u": "unshare", "c": "clone",
                         "k": "setresuid", "b": "bpf", "w": "mmap", "W": "mprotect"}.items():
        with World() as w, House() as h:
            nic = outlaws(h, w)
            assert does(h, "q")
            say(letter)
            nic.end(FAULT)
            said = nic.stderr()
            assert re.search(r"NIC outlaw: worker 0 has crashed in payload\(\) of handler outlaw, context wild: forbidden system "
                             r"call %s \(plug-in \S+outlaw\.so\), instruction at 0x[0-9a-f]+; 1 packet in " % call, said), said
            assert "the NIC ends\n" in said and "outlaw.so(" in said, said  # and the stack
            assert not [n for n in h.left() if n.endswith((".sock", ".lock"))], h.left()


@rule
def a_constructor_of_a_plugin_that_is_loaded_later_is_held_as_well():
    need_seccomp()
    with World() as w, House() as h:
        nic = outlaws(h, w, "plugin-directory = %s\n" % KINDS)
        ask(h, "handler", "load", kind("early"), "-n", "outlaw", status=1)
        nic.end(-signal.SIGSYS)
        assert "forbidden system call execve outside of handlers' calls" in nic.stderr(), nic.stderr()


@rule
def code_is_loaded_while_the_nic_runs_but_never_writable():
    with World() as w, House() as h:
        nic = outlaws(h, w)
        assert does(h, "m") and does(h, "M")  # as dlopen() and the compiler of eBPF do
        ask(h, "handler", "reload", "outlaw", "-n", "outlaw")
        assert does(h, "q")
        end(nic)


@rule
def without_live_handlers_nothing_becomes_code_any_more():
    need_seccomp()
    with World() as w, House() as h:
        nic = outlaws(h, w, "live-handlers = no\n")
        assert not does(h, "m") and not does(h, "M")  # refused, and the NIC goes on
        for words in ("load", kind("outlaw")), ("reload", "outlaw"):
            said = ask(h, "handler", *words, "-n", "outlaw", status=1)
            assert "live-handlers = no in [nic]: no handler is loaded after the start" in said, said
        assert does(h, "q")
        end(nic)


@rule
def a_hosts_name_in_a_filter_is_refused_and_the_nic_goes_on():
    with World() as w, House() as h:
        nic = outlaws(h, w)
        said = ask(h, "capture", "-n", "outlaw", "-w", h.path("x.pcapng"), "--seconds", "1", "host some.name.invalid", status=1)
        assert "unknown host" in said or "some.name.invalid" in said, said
        assert does(h, "q")
        end(nic)


def lacking(call, error):
    """In the child: this system call fails, as on a kernel without it or in a container that forbids it."""
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p

    def prepare():
        context = ctypes.c_void_p(lib.seccomp_init(0x7FFF0000))
        assert lib.seccomp_rule_add(context, 0x00050000 | error, lib.seccomp_syscall_resolve_name(call), 0) == 0
        net.die_with_parent()
        assert lib.seccomp_load(context) == 0
    return prepare


@rule
def what_the_kernel_lacks_is_said_and_the_nic_goes_on():
    need_seccomp()
    for call, error, words in ((b"seccomp", errno.ENOSYS, "does not filter system calls (seccomp: "),
                               (b"landlock_create_ruleset", errno.EOPNOTSUPP, "does not restrict files (landlock: ")):
        with House() as h:
            nic = h.nic(NULL, eal=(), before=lacking(call, error))
            assert words in nic.stderr() and "SANDBOX" not in nic.stderr(), nic.stderr()
            app = h.app(nic, "info")
            assert app.line().startswith("ok "), app.stderr()
            app.end()
            end(nic)
            run = subprocess.run([net.SPINDLE, "doctor"], capture_output=True, text=True, timeout=60,
                                 preexec_fn=lacking(call, error))
            assert call.decode().split("_")[0] + " is not available" in run.stdout, run.stdout


# ---- files ---------------------------------------------------------------------------------------------------------------

@rule
def a_handler_reaches_no_file_that_the_nic_does_not_need():
    need_landlock()
    with World() as w, House() as h:
        nic = outlaws(h, w)
        assert does(h, "q") and not does(h, "f") and not does(h, "F")
        end(nic)
        assert not os.path.exists("/var/lib/spindle-outlaw")
    with World() as w, House() as h:
        nic = outlaws(h, w, "", "--no-sandbox")
        assert does(h, "f")
        end(nic)


@rule
def plugins_come_from_where_the_configuration_says():
    need_landlock()
    with World() as w, House() as h:
        nic = outlaws(h, w)
        more = tempfile.mkdtemp(prefix="spindle-e2e-", dir="/var/tmp")  # $TMPDIR is where it copies plug-ins to
        h.closing.append(lambda: shutil.rmtree(more))
        other = shutil.copy(kind("outlaw"), more)
        said = ask(h, "handler", "load", other, "-n", "outlaw", status=1)
        assert "Permission denied" in said and "plugin-directory" in said, said
        end(nic)
        nic = outlaws(h, w, "plugin-directory = %s\n" % more)
        ask(h, "handler", "reload", "outlaw", other, "-n", "outlaw")
        end(nic)


@rule
def a_plugin_that_others_may_change_is_refused():
    with World() as w, House() as h:
        mine = shutil.copy(kind("outlaw"), h.path("mine.so"))
        os.chmod(mine, 0o666)
        text = config(more="plugin = %s\n" % mine)
        nic = h.nic(text, ready=False, eal=("--vdev", "net_af_packet0,iface=nic0"), space=w.space)
        nic.end(1)
        assert re.search(r"nic\d+\.ini:\d+: plugin: \S*mine\.so: others than its owner may write to \S*mine\.so \(mode 0666\)",
                         nic.stderr()), nic.stderr()
        assert not [n for n in h.left() if n.startswith("sockets/")], h.left()


# ---- the service ---------------------------------------------------------------------------------------------------------

def need_systemd():
    if not shutil.which("systemd-analyze"):
        raise Skip("systemd-analyze is not installed")


def unit(house):
    """The unit's file, as it is installed."""
    with open(UNIT) as f:
        return house.write("spindle@.service", f.read().replace("@bindir@", os.path.dirname(net.SPINDLE)))


@rule
def the_services_exposure_is_low_and_its_file_right():
    need_systemd()
    with House() as h:
        run = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=20", unit(h)],
                             capture_output=True, text=True, timeout=60)
        last = run.stdout.strip().splitlines()[-1] if run.stdout.strip() else run.stderr
        level = re.search(r"exposure level for \S+: ([0-9.]+)", last)
        assert level and float(level.group(1)) <= 2.0 and run.returncode == 0, (run.returncode, last)
        run = subprocess.run(["systemd-analyze", "verify", "--man=no", unit(h)], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0 and not run.stderr.strip(), run.stderr


def listed(words):
    """The calls that SystemCallFilter= names, groups resolved."""
    calls = set()
    for word in words:
        if word.startswith("@"):
            text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", word], capture_output=True, text=True,
                                  check=True).stdout
            inside = [line.strip() for line in text.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
            calls |= listed(inside)
        else:
            calls.add(word)
    return calls


def as_the_service():
    """In the child: the service's user, capabilities and filter of system calls, as systemd would set them."""
    allowed = set()
    with open(UNIT) as f:
        lines = f.read().splitlines()
    for line in lines:
        if line.startswith("SystemCallFilter="):
            words = line.split("=", 1)[1].split()
            if words[0].startswith("~"):
                allowed -= listed([words[0][1:], *words[1:]])
            else:
                allowed |= listed(words)
    allowed |= listed(["@default"])
    text = next(line for line in lines if line.startswith("AmbientCapabilities=")).split("=", 1)[1]
    ambient = {"CAP_NET_RAW": 13, "CAP_NET_ADMIN": 12}
    assert set(text.split()) == set(ambient), text
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.seccomp_init(0x00050000 | 1))  # EPERM
    for call in sorted(allowed):
        number = lib.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:
            lib.seccomp_rule_add(context, 0x7FFF0000, number, 0)

    def prepare():
        mask = sum(1 << c for c in ambient.values())
        assert net.libc.prctl(8, 1, 0, 0, 0) == 0  # PR_SET_KEEPCAPS
        os.setgroups([])
        os.setresgid(ALICE, ALICE, ALICE)
        os.setresuid(ALICE, ALICE, ALICE)
        header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
        assert net.libc.capset(header, sets) == 0
        for c in ambient.values():
            assert net.libc.prctl(47, 2, c, 0, 0) == 0  # PR_CAP_AMBIENT_RAISE
        net.die_with_parent()
        os.umask(0o077)
        net.libc.prctl(65, 1, 0, 0, 0)  # MemoryDenyWriteExecute=, where the kernel has it itself (PR_SET_MDWE, Linux 6.3)
        assert lib.seccomp_load(context) == 0  # with no_new_privs
    return prepare


@rule
def the_services_rights_are_enough_for_packet_tap_vhost_and_null_ports():
    need_systemd()
    need_root()
    need_seccomp()
    for port, eal in (("af_packet:nic0", ()), ("tap:sdtap0", ()), ("vhost:{}/wire", ()), ("null:", ())):
        with World() as w, House() as h:
            os.chmod(h.dir, 0o755)
            os.mkdir(h.path("sockets"), 0o755)
            os.chown(h.path("sockets"), ALICE, ALICE)
            text = "[nic]\nport = %s\nip = 192.0.2.1/24\nexception = tap:exc0\nplugin = %s\n" % (
                port.format(h.path("sockets")), kind("outlaw"))
            env = h.environment(RUNTIME_DIRECTORY=h.path("sockets"))
            nic = h.nic(text, "--name", "served", eal=eal, space=w.space, env=env, before=as_the_service())
            fenced(nic, ALICE, False, filtered=True)
            ask(h, "stat", "served")
            app = h.app(nic, "info", user=ALICE)
            assert app.line().startswith("ok "), app.stderr()
            app.end()
            ask(h, "handler", "reload", "outlaw", "-n", "served")
            end(nic)
            assert not [n for n in h.left() if n.endswith((".sock", ".lock", "wire"))], h.left()


if __name__ == "__main__":
    net.main()
