#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes nvme.pcap: two guests of guest.sh, an initiator and a target of NVMe over RDMA: nvme.py DIRECTORY CAPTURE.
DIRECTORY: where the guest is kept (build/peers). Needs what tests/run --peers needs, but no right to make a tap.

The initiator connects one I/O queue, reads 4 KiB, writes 4 KiB, reads them back and disconnects. The target takes no data
within capsules, so it READs what is to be written. What is not RoCE is left out of the capture."""

import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "tools")]
import packets as pk  # noqa: E402
import rc_replay as rc  # noqa: E402
from guest import Guest, build  # noqa: E402

TARGET, INITIATOR = "192.0.2.2", "192.0.2.1"
MODULES = "for m in $(grep nvm /etc/modules); do insmod /root/$m 2>/dev/null; done; "
DISK = """insmod /root/null_blk.ko nr_devices=0; set -e; mkdir /sys/kernel/config/nullb/nullb0; cd /sys/kernel/config/nullb/nullb0
    echo 1 >memory_backed; echo 16 >size; echo 1 >power; test -b /dev/nullb0; """
SERVE = DISK + MODULES + """cd /sys/kernel/config/nvmet
    mkdir -p subsystems/t ports/1 && echo 1 >subsystems/t/attr_allow_any_host
    mkdir -p subsystems/t/namespaces/1 && cd subsystems/t/namespaces/1
    echo /dev/nullb0 >device_path && echo 1 >enable && cd ../../../../ports/1
    echo rdma >addr_trtype; echo ipv4 >addr_adrfam; echo %s >addr_traddr; echo 4420 >addr_trsvcid
    echo 0 >param_inline_data_size; ln -s /sys/kernel/config/nvmet/subsystems/t subsystems/t""" % TARGET
USE = MODULES + """set -e; nvme connect -t rdma -n t -a %s -s 4420 -i 1 -Q 16 -k 600
    for i in $(seq 300); do [ -b /dev/nvme0n1 ] && break; sleep 0.1; done
    seq 10000 | head -c 4096 >/tmp/text
    dd if=/dev/nvme0n1 of=/dev/null bs=4096 count=1 skip=5 iflag=direct
    dd if=/tmp/text of=/dev/nvme0n1 bs=4096 count=1 seek=5 oflag=direct conv=notrunc
    dd if=/dev/nvme0n1 of=/tmp/back bs=4096 count=1 skip=5 iflag=direct
    nvme disconnect -n t; cmp /tmp/text /tmp/back""" % TARGET


def link(own, other, *more):
    return ("-netdev", "socket,id=n0,udp=127.0.0.1:%d,localaddr=127.0.0.1:%d" % (other, own), *more)


def main():
    directory, capture = sys.argv[1:]
    build(directory)
    port = random.randrange(20000, 40000, 2)
    with tempfile.TemporaryDirectory() as work:
        raw = os.path.join(work, "raw.pcap")
        target = Guest(directory, link=link(port, port + 1, "-object", "filter-dump,id=f0,netdev=n0,file=" + raw), ip4=TARGET,
                       log="target.log")
        initiator = None
        try:
            initiator = Guest(directory, link=link(port + 1, port), ip4=INITIATOR, ip6="2001:db8::1", mac="02:00:00:00:00:01",
                              log="initiator.log")
            target.run(SERVE)
            print(initiator.run(USE, 180))
            print("Linux %s" % initiator.kernel)
        finally:
            target.close()
            if initiator:
                initiator.close()
        frames = [(when, frame) for when, frame in pk.read_capture(raw) if frame[12:14] == b"\x08\x00" and frame[23] == 17 and
                  frame[36:38] == b"\x12\xb7"]
    pk.write_capture(capture, [(when - frames[0][0], frame) for when, frame in frames], pk.PCAP_US)
    for number, flow in enumerate(rc.flows(capture)):
        print("%d: %s; %d requests, %d answers; %s" % (number, flow.name(), len(flow.requests), len(flow.answers), flow.rules()))
        again = [r.number for r, verdict, _ in flow.steps() if verdict != "new"]
        assert not again, "sent again: %s; make it anew on a machine that is less busy" % again


if __name__ == "__main__":
    main()
