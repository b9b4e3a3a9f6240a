#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The NIC's RDMA against Linux's Soft-RoCE, which runs in an emulated machine: peers.py PROGRAMS SPINDLE DIRECTORY [RULE-PART].
PROGRAMS: the directory of what meson has built here; DIRECTORY: where the guest is kept. TAP; each rule that moves data
says how much, in which time, and what Soft-RoCE counted meanwhile: '# NAME: bytes ..., seconds ..., retries ...'."""

import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import net  # noqa: E402
from guest import TAP, Guest  # noqa: E402
from net import HOST4, NIC4, NIC6, NIC_MAC, Skip, rule, until  # noqa: E402
from served import House, Process  # noqa: E402

DIRECTORY = None
# Counters of Soft-RoCE's that mean that something came twice, late or not at all.
TROUBLE = ("completer_retry_err", "retry_rnr_exceeded_err", "retry_exceeded_err", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
           "ack_deferred", "duplicate_request")


class Bench:
    """One guest, and one NIC on the same tap, for all rules."""

    guest = house = nic = failure = None

    @classmethod
    def machine(cls):
        if cls.failure:
            raise cls.failure
        if not cls.guest or cls.guest.process.poll() is not None:
            cls.end()
            try:
                cls.guest = Guest(DIRECTORY)
            except (Skip, AssertionError) as error:
                cls.failure = Skip("no guest: %s" % error) # the first rule says it; no other waits for it again
                raise
            print("# guest: Linux %s, up after %.1f s" % (cls.guest.kernel, cls.guest.boot), flush=True)
        cls.guest.calm()
        return cls.guest

    @classmethod
    def both(cls):
        """The guest, and a house whose .peer_nic is a NIC on its tap. Skips if the command has no RDMA."""
        guest = cls.machine()
        if not cls.house:
            cls.house = House()
        if not cls.nic or cls.nic.process.poll() is not None:
            text = "[nic]\nport = net_af_packet0\nip = %s/24, %s/64\nmac = %s\n" % (NIC4, NIC6, NIC_MAC)
            cls.nic = cls.house.nic(text, "--name", "peer", eal=("--vdev", "net_af_packet0,iface=" + TAP))
        return guest, cls.house

    @classmethod
    def end(cls):
        guest, cls.guest = cls.guest, None
        house, cls.house, cls.nic = cls.house, None, None
        if house:
            house.__exit__()
        if guest:
            guest.close()


class Measured:
    """with Measured(guest, name, bytes): prints what went through, in which time, at what price."""

    def __init__(self, guest, name, size):
        self.guest, self.name, self.size = guest, name, size

    def __enter__(self):
        self.before = self.guest.counters()
        self.began = time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind:
            return
        seconds = time.monotonic() - self.began
        after = self.guest.counters()
        trouble = {k: after[k] - self.before.get(k, 0) for k in TROUBLE if after.get(k, 0) != self.before.get(k, 0)}
        self.retries = trouble.get("completer_retry_err", 0)
        print("# %s: bytes %d, seconds %.2f, retries %d%s" % (self.name, self.size, seconds, self.retries,
              "".join("; %s %d" % pair for pair in sorted(trouble.items()))), flush=True)


def listening(guest, port):
    """Until a TCP port is open in the guest: what exchanges QP numbers there."""
    guest.run("for i in $(seq 200); do netstat -tln | grep -q ':%d ' && exit 0; sleep 0.05; done; exit 1" % port, 30)


# ---- the guest with itself: whether it can be believed ----------------------------------------------------------------------

@rule
def the_guest_has_a_device():
    guest = Bench.machine()
    out = guest.run("ibv_devinfo -v")
    assert "rxe0" in out and "PORT_ACTIVE" in out, out
    assert guest.gid(HOST4) >= 0


def alone(name, server, client, size, port=18515, timeout=90):
    guest = Bench.machine()
    with Measured(guest, name, size):
        s = guest.start(server)
        if port:
            listening(guest, port)
        else:
            time.sleep(1)
        out = guest.run(client, timeout)
        s.end(30)
    return out


@rule
def the_guest_pings_itself():
    alone("rping", "rping -s -a %s -C 20 -S 4000 -V" % HOST4, "rping -c -a %s -C 20 -S 4000 -V" % HOST4, 20 * 4000 * 2, None)


@rule
def the_guest_sends_reads_and_writes_to_itself():
    guest = Bench.machine()
    gid = guest.gid(HOST4)
    for kind in ("rc", "uc", "srq"):
        words = "ibv_%s_pingpong -g %d -n 100 -s 2000" % (kind, gid)
        alone(kind, words, words + " " + HOST4, 2 * 100 * 2000)
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"):
        words = "%s -d rxe0 -x %d -n 100 -F%s" % (program, gid, "" if "atomic" in program else " -s 4096")
        alone(program, words, words + " " + HOST4, 100 * (8 if "atomic" in program else 4096))


@rule
def the_guest_has_a_disk_of_itself_over_nvme():
    guest = Bench.machine()
    guest.run("for m in $(grep -e nvm -e null_blk /etc/modules); do insmod /root/$m 2>/dev/null; done; test -e /dev/nullb0")
    guest.run("""set -e; cd /sys/kernel/config/nvmet
        mkdir -p subsystems/t ports/1 && echo 1 >subsystems/t/attr_allow_any_host
        mkdir -p subsystems/t/namespaces/1 && cd subsystems/t/namespaces/1
        echo /dev/nullb0 >device_path && echo 1 >enable && cd ../../../../ports/1
        echo rdma >addr_trtype; echo ipv4 >addr_adrfam; echo %s >addr_traddr; echo 4420 >addr_trsvcid
        [ -e subsystems/t ] || ln -s /sys/kernel/config/nvmet/subsystems/t subsystems/t""" % HOST4)
    with Measured(guest, "nvme", 1 << 20):
        guest.run("nvme connect -t rdma -n t -a %s -s 4420 -i 1 -Q 16" % HOST4, 60)
        guest.run("for i in $(seq 100); do [ -b /dev/nvme0n1 ] && break; sleep 0.1; done; "
                  "dd if=/dev/nvme0n1 of=/dev/null bs=64k count=16 iflag=direct", 60)
        guest.run("nvme disconnect -n t", 60)


def main():
    """What net.main() wants, and the guest's directory."""
    global DIRECTORY
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    DIRECTORY = os.path.abspath(sys.argv.pop(3))
    try:
        net.main()
    finally:
        Bench.end()


if __name__ == "__main__":
    main()
