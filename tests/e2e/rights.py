#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who may do what: the table of docs/security.md, cell by cell, with real users. The last argument is the directory of
tests/e2e/live's plug-ins."""

import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import Skip, rule  # noqa: E402
from served import House  # noqa: E402

KINDS = os.path.abspath(sys.argv.pop())
ALICE, GINA, OTTO, RDMA = 61001, 61003, 61004, 61005  # nobody's numbers; RDMA is a group, with Gina in it
PLUGIN = os.path.join(KINDS, "v1.so")

# user: uid, other groups
USERS = {"root": (0, []), "owner": (ALICE, []), "group": (GINA, [RDMA]), "other": (OTTO, [])}
NAME = "rights"
CALLS = {
    "attach": lambda house: [net.PROGRAM, house.nic_socket, "info"],
    "stat": lambda house: [net.SPINDLE, "stat", NAME, "--json"],
    "capture": lambda house: [net.SPINDLE, "capture", "-n", NAME, "--seconds", "0.1", "-w", "-"],
    "reload": lambda house: [net.SPINDLE, "handler", "reload", "numbers", "-n", NAME],
    "load": lambda house: [net.SPINDLE, "handler", "load", PLUGIN, "-n", NAME],
    "report": lambda house: [net.SPINDLE, "stat", NAME, "--handlers", "--json"],
}
ALL, SERVED, NOTHING = set(CALLS), {"attach", "stat"}, set()
# The table: what each may do, by the socket's mode.
MATRIX = {
    "0600": {"root": ALL, "owner": ALL, "group": NOTHING, "other": NOTHING},
    "0660": {"root": ALL, "owner": ALL, "group": SERVED, "other": NOTHING},
    "0666": {"root": ALL, "owner": ALL, "group": SERVED, "other": SERVED},
}


def need_users():
    if os.geteuid() != 0:
        raise Skip("only root can be several users")
    with open("/proc/self/uid_map") as f:
        if not any(int(low) <= ALICE < int(low) + int(count) for low, _, count in (line.split() for line in f)):
            raise Skip("this user namespace has no other users")
    for path in (net.SPINDLE, net.PROGRAM, PLUGIN):
        while path != "/":
            if not os.stat(path).st_mode & (stat.S_IXOTH if os.path.isdir(path) else stat.S_IROTH):
                raise Skip("other users cannot reach the programs: %s" % path)
            path = os.path.dirname(path)


def attempt(house, what, who):
    """The exit status, and all that was said."""
    uid, groups = USERS[who]

    def prepare():
        os.setgroups(groups)
        os.setgid(uid)
        os.setuid(uid)
        net.die_with_parent()
    run = subprocess.run(CALLS[what](house), env=house.environment(), preexec_fn=prepare, capture_output=True, timeout=60,
                         stdin=subprocess.DEVNULL, cwd="/")
    return run.returncode, (run.stdout[:2000] + run.stderr).decode(errors="replace")


def check(owner, mode):
    """A NIC of this user, with this mode of its socket."""
    with House() as h:
        os.chmod(h.dir, 0o755)
        os.mkdir(h.path("sockets"), 0o755)
        os.chown(h.path("sockets"), owner, owner)
        text = "[nic]\nport = null:\nip = 192.0.2.1/24\nplugin = %s\nsocket-mode = %s\n" % (PLUGIN, mode)
        text += "socket-group = %d\n" % RDMA if mode == "0660" else ""
        text += "user = %d\ngroup = %d\n" % (owner, owner) if owner else ""
        nic = h.nic(text, "--name", NAME, eal=())
        h.nic_socket = nic.socket
        wrong = []
        for who, may in MATRIX[mode].items():
            if who == "owner" and not owner:
                continue  # it is root
            for what in CALLS:
                status, said = attempt(h, what, who)
                allowed = what in may
                refused = "Permission denied" in said or "error -13" in said or "not permitted" in said or "may " in said
                if (status == 0) != allowed or (not allowed and not refused):
                    wrong.append((who, what, status, said))
        assert not wrong, wrong
        nic.signal(15)
        nic.end()
        assert not os.listdir(h.path("sockets"))


@rule
def the_sockets_mode_0600_is_for_root_and_the_nics_user():
    need_users()
    for owner in (0, ALICE):
        check(owner, "0600")


@rule
def the_sockets_mode_0660_lets_the_group_attach_and_see_counters():
    need_users()
    for owner in (0, ALICE):
        check(owner, "0660")


@rule
def the_sockets_mode_0666_lets_everybody_attach_and_see_counters():
    need_users()
    for owner in (0, ALICE):
        check(owner, "0666")


if __name__ == "__main__":
    net.main()
