# SPDX-License-Identifier: BSD-3-Clause
"""The guest with itself: whether it can be believed."""

from net import HOST4, rule
from peering import Bench, Measured, listening, waiting


def alone(name, server, client, size, until=listening, port=18515, timeout=90):
    guest = Bench.machine()
    with Measured(guest, name, size):
        s = guest.start(server)
        until(guest, port)
        out = guest.run(client, timeout)
        s.end(30)
    return out


@rule
def the_guest_pings_itself():
    words = "-a %s -C 20 -S 4000 -V" % HOST4
    alone("rping", "rping -s " + words, "rping -c " + words, 20 * 4000 * 2, waiting, 7174)


@rule
def the_guest_makes_connections_to_itself():
    words = "ucmatose -p 7184 -c 2 -C 50 -S 5000"
    alone("ucmatose", words, words + " -s " + HOST4, 2 * 2 * 50 * 5000, waiting, 7184)
    alone("udaddy", "udaddy -C 10 -S 500", "udaddy -s %s -C 10 -S 500" % HOST4, 2 * 10 * 500, waiting, 7174)


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
