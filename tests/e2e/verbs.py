#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle verbs: which NIC it takes, what a program finds in its environment, /sys and /dev, and how it ends."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import plain, rule  # noqa: E402
from served import House  # noqa: E402

NIC = "[nic]\nname = %s\nport = null:\nip = 192.0.2.1/24\nip = 2001:db8::1/64\n"
CLASS = "/sys/class/infiniband/left"


def verbs(house, *arguments, **more):
    env = house.environment(XDG_RUNTIME_DIR=house.path(), **more)
    return subprocess.run([net.SPINDLE, "verbs", *arguments], capture_output=True, text=True, timeout=120, env=env)


def read(house, *paths):
    done = verbs(house, "--", "cat", *paths)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


@plain
@rule
def the_only_nic_is_taken_and_several_are_named():
    with House() as house:
        done = verbs(house, "--", "true")
        assert done.returncode == 1 and "no NIC runs here" in done.stderr, done
        house.nic(NIC % "left")
        assert verbs(house, "--", "true").returncode == 0
        house.nic(NIC % "right")
        done = verbs(house, "--", "true")
        assert done.returncode == 1 and "left" in done.stderr and "right" in done.stderr, done
        assert verbs(house, "-n", "right", "--", "sh", "-c", "echo $SPINDLE_NIC").stdout == "right\n"
        assert verbs(house, "--", "true", SPINDLE_NIC="left").returncode == 0


@plain
@rule
def the_program_ends_as_it_would_alone():
    with House() as house:
        house.nic(NIC % "left")
        assert verbs(house, "--", "sh", "-c", "exit 7").returncode == 7
        assert verbs(house, "--", "sh", "-c", "kill -KILL $$").returncode == -9
        assert verbs(house, "--", "/nothing/there").returncode == 127
        assert verbs(house, "--", "/").returncode == 126
        for wrong in ((), ("true",), ("--",), ("--install-env", "--", "true")):
            assert verbs(house, *wrong).returncode == 2, wrong


@plain
@rule
def sys_and_dev_have_the_nic_and_nothing_else_moves():
    with House() as house:
        house.nic(NIC % "left")
        assert read(house, CLASS + "/ports/1/gids/0", CLASS + "/ports/1/gids/1", CLASS + "/ports/1/gid_attrs/types/1") == [
            "2001:0db8:0000:0000:0000:0000:0000:0001", "0000:0000:0000:0000:0000:ffff:c000:0201", "RoCE v2"]
        assert read(house, "/sys/class/infiniband_verbs/uverbs0/ibdev") == ["left"]
        assert verbs(house, "--", "test", "-c", "/dev/infiniband/uverbs0").returncode == 0
        assert verbs(house, "--", "ls", "/sys/class/infiniband").stdout == "left\n"
        assert verbs(house, "--", "test", "-e", "/dev/infiniband_else").returncode == 1
        assert sorted(verbs(house, "--", "ls", "/sys/class").stdout.split()) == sorted(os.listdir("/sys/class"))


@plain
@rule
def lines_for_a_shell_do_the_same():
    with House() as house:
        house.nic(NIC % "left")
        lines = verbs(house, "--install-env").stdout
        done = subprocess.run(["sh", "-c", lines + "cat %s/node_type" % CLASS], capture_output=True, text=True, timeout=60)
        assert done.stdout == "1: CA\n", done


@plain
@rule
def ibv_devinfo_and_the_files_agree():
    if not shutil.which("ibv_devinfo"):
        raise net.Skip("ibv_devinfo is not installed")
    with House() as house:
        house.nic(NIC % "left")
        guid = read(house, CLASS + "/node_guid")[0]
        done = verbs(house, "--", "ibv_devinfo", "-v")
        assert done.returncode == 0 and "hca_id:\tleft" in done.stdout and guid in done.stdout, done
        assert "2001:db8::1, RoCE v2" in done.stdout and "::ffff:192.0.2.1, RoCE v2" in done.stdout, done


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise net.Skip("there is no %s here" % program)


@plain
@rule
def a_container_needs_the_socket_only():
    need("ibv_devinfo", "unshare")
    try:
        subprocess.run(["unshare", "--user", "--map-current-user", "--net", "--mount", "true"], check=True, timeout=60)
    except subprocess.CalledProcessError:
        raise net.Skip("no user namespace can be made here")
    with House() as house:
        nic = house.nic(NIC % "left")
        done = subprocess.run(["unshare", "--user", "--map-current-user", "--net", "--mount", net.SPINDLE, "verbs", "-n",
                               nic.socket, "--", "ibv_devinfo"], capture_output=True, text=True, timeout=120,
                              env=house.environment(SPINDLE_SOCKETS=None, XDG_RUNTIME_DIR=house.path()))
        assert done.returncode == 0 and "hca_id:\tleft" in done.stdout, done


@plain
@rule
def a_program_runs_in_a_debugger_and_in_valgrind():
    need("ibv_devinfo", "gdb", "valgrind")
    with House() as house:
        house.nic(NIC % "left")
        done = verbs(house, "--", "gdb", "-batch", "-ex", "run", "--args", "ibv_devinfo")
        assert "hca_id:\tleft" in done.stdout and "exited normally" in done.stdout, done
        done = verbs(house, "--", "valgrind", "-q", "ibv_devinfo")
        if "Illegal opcode" in done.stderr or "unrecognised instruction" in done.stderr:
            raise net.Skip("Spindle is built for this processor, of which valgrind does not know all instructions")
        assert done.returncode == 0 and "hca_id:\tleft" in done.stdout, done


if __name__ == "__main__":
    net.main()
