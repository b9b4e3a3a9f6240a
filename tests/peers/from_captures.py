# SPDX-License-Identifier: BSD-3-Clause
"""What Linux has answered in captures, from our NIC."""

import os

import net
import rc_replay
from asking import ping
from net import HOST4, HOST6, NIC4, NIC6, NIC_MAC, Skip, Sniffer, World, rule
from peering import Answering
from served import House


def from_capture(house, wire, name, number, flow):
    """The NIC answers a flow's requests; we are who asks."""
    ours = Answering([net.PROGRAM, "asked", "answer"], env=house.environment())
    house.closing.append(ours.kill)
    plan, keys, six = flow.plan(), {}, len(flow.src) == 16
    for region in plan["regions"]:
        keys[region["rkey"]] = int(ours.ask("region", region["va"], region["len"], 1 | region["access"]))
    for r in plan["receives"]:
        ours.ask("receive", max(64, len(r["data"]) // 2))
    qp = int(ours.ask("ready", HOST6 if six else HOST4, flow.back, plan["psn"], plan["mtu"]))
    asker = rc_replay.Asker(flow, wire, qp, keys, update=lambda va, data: ours.ask("store", va, data.hex()), mac=NIC_MAC,
                            src=HOST6 if six else HOST4, dst=NIC6 if six else NIC4)
    try:
        said = rc_replay.differences(flow, asker.run(window=16))  # SP_RDMA_READS
    except AssertionError as error:
        row = asker.answers[-1].row() if asker.answers else None
        raise AssertionError("%s, flow %d: %s after %d answers; the latest: %s; %s" % (
            name, number, error, len(asker.answers), row, ours.ask("counts")))
    for region in plan["regions"]:
        if ours.ask("load", region["va"], region["len"]) != region["after"]:
            said.append("memory of region %#x" % region["rkey"])
    for r in plan["receives"]:
        length, imm, data = (ours.ask("took") + " ").split(" ")[:3]
        if int(imm) != (r["imm"] or 0) or data != ("" if r["write"] else r["data"]):
            said.append("the receive of request %d" % r["request"])
    assert not said, "%s, flow %d: %s" % (name, number, "; ".join(said))
    ours.end()


@rule
def the_nic_answers_as_linux_has_answered_in_captures():
    directory = os.environ.get("SPINDLE_SHARED_PCAPS")
    if not directory:
        raise Skip("SPINDLE_SHARED_PCAPS names no captures")
    done = 0
    with World() as world, House() as house:
        text = "[nic]\nport = net_af_packet0\nip = %s/24, %s/64\nmac = %s\n" % (NIC4, NIC6, NIC_MAC)
        house.nic(text, "--name", "asked", eal=("--vdev", "net_af_packet0,iface=nic0"), space=world.space)
        for address in (NIC4, NIC6):
            ping(address, 16, 1)  # what waits for a neighbour's address is overtaken by what comes later
        for name in sorted(os.listdir(directory)):
            for number, flow in enumerate(rc_replay.flows(os.path.join(directory, name)) if name.endswith(".pcap") else ()):
                if flow.back is not None and flow.plan()["msn"] == 0 and not flow.rules():
                    wire = Sniffer("host0")
                    try:
                        from_capture(house, wire, name, number, flow)
                    finally:
                        wire.stop()
                    done += 1
    assert done, "no capture has a reliable connection"
