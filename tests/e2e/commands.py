#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ports that cannot do what is asked are refused in words; `spindle doctor` on real ports."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from net import EAL, HOST4, HOST6, NIC4, NIC6, World, config, ip, rule  # noqa: E402
from served import House  # noqa: E402

SDR = "[context sdr0]\nhandler = sdr\nqp = 0x100\nmtu = 1024\n"


def refused(text, *words, eal=("--vdev", "net_af_packet0,iface=nic0")):
    with World() as w:
        why = w.nic(text, eal=eal, expect=1).refuse()
        for word in words:
            assert word in why, "%r is not in: %s" % (word, why)
        return why


@rule
def a_port_that_does_not_exist_is_refused_by_name():
    refused(config(port="net_af_packet7"), "net_af_packet7", "does not exist")


@rule
def a_program_that_embeds_a_nic_gets_a_level_that_is_not_there_as_an_error():
    os.environ["SPINDLE_ISA"] = "mmx"
    try:
        refused(config(), "SPINDLE_ISA=mmx", "baseline, avx2 and avx512")
    finally:
        del os.environ["SPINDLE_ISA"]


@rule
def an_interface_that_does_not_exist_is_refused():
    refused(config(), "EAL", eal=("--vdev", "net_af_packet0,iface=nowhere0"))


@rule
def an_mtu_that_the_port_lacks_is_refused_naming_both():
    refused(config(more="mtu = 4180"), "net_af_packet0", "4180", "framesz=2048")


@rule
def an_mtu_of_the_exception_port_that_it_lacks_is_refused_naming_both():
    net.need_tap()
    refused(config(port="net_null0", more="mtu = 4180\nexception = net_tap0"), "net_tap0", "4180",
            eal=("--vdev", "net_null0", "--vdev", "net_tap0,iface=tap0"))


@rule
def workers_beyond_the_queues_are_refused_naming_both():
    refused(config(more="workers = 2"), "net_af_packet0", "2 workers", "1 receive")


@rule
def one_port_for_two_nics_is_refused():
    with World() as w:
        why = w.nic(config(), config(), expect=1).refuse()
        assert "net_af_packet0" in why and "in use" in why, why


@rule
def a_message_mtu_beyond_the_port_is_refused_at_connect():
    with World() as w:
        nic = w.nic(config())
        info = nic.ask("qp", 0, "mtu=2048 chunk=4096")[0]
        # The peer's address, from another one's view: the NIC does not talk to itself.
        peer = info[:16] + "00000000000000000000ffff" + "c0000202" + info[48:]
        nic.say("connect", 0, peer)
        try:
            nic.answer()
        except AssertionError as error:
            assert "error -90 " in str(error), error  # EMSGSIZE
        else:
            raise AssertionError("connected")


@rule
def a_nic_leaves_no_files_of_dpdk_behind():
    with World() as w:
        nic = w.nic(config())
        nic.stop()
        left = os.path.join(w.dir, "dpdk")
        assert not os.path.isdir(left) or not os.listdir(left), os.listdir(left)


@rule
def a_vhost_port_starts_again_in_the_next_process():
    with World(addresses=False) as w:
        for _ in range(2):
            w.nic(config(port="net_vhost0"), eal=("--vdev", "net_vhost0,iface=%s,queues=1" % w.path("vhost"))).stop()
            assert not os.path.exists(w.path("vhost"))


@rule
def a_fanout_group_that_another_nic_has_is_told():
    def meet(pid):
        """Another NIC, on another interface, that had the luck to make the same number of its process id. The socket stays
        open in the program that this child becomes."""
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        s.bind(("lo", 3))  # ETH_P_ALL
        group = (pid ^ socket.if_nametoindex("nic0")) & 0xFFFF
        s.setsockopt(263, 18, struct.pack("=I", group | 0x9000 << 16))  # SOL_PACKET, PACKET_FANOUT, hash, DEFRAG and ROLLOVER as the driver has
        s.set_inheritable(True)
        s.detach()

    with World() as w, House() as h:
        nic = h.nic("[nic]\nport = af_packet:nic0\nip = %s\n" % NIC4, eal=(), ready=False, space=w.space,
                    before=lambda: meet(os.getpid()), close_fds=False)
        assert nic.end(1) == []
        assert "af_packet:nic0" in nic.stderr() and "start it again" in nic.stderr(), nic.stderr()
        h.nic("[nic]\nport = af_packet:nic0\nip = %s\n" % NIC4, eal=(), space=w.space)


# ---- spindle doctor ------------------------------------------------------------------------------------------------------

def checks(w, *arguments):
    def before():
        net.die_with_parent()
        w.space.enter()
    run = subprocess.run([net.SPINDLE, "doctor", "--json", *arguments], capture_output=True, text=True, timeout=60,
                         preexec_fn=before, env=net.environment(w.dir))
    assert run.returncode in (0, 1), "exit status %d: %s" % (run.returncode, run.stderr[-2000:])
    return run, json.loads(run.stdout)


def doctor(w, text, *eal):
    run, report = checks(w, "-c", w.write("nic.ini", text), "--", *EAL, *eal)
    problems = [c for c in report["checks"] if c["finding"] == "problem"]
    assert (run.returncode == 1) == bool(problems) and report["problem"] == len(problems), report
    return run.returncode, problems


AF_PACKET = ("--vdev", "net_af_packet0,iface=nic0")


@rule
def doctor_finds_a_sound_configuration_sound():
    with World() as w:
        assert doctor(w, config() + SDR, *AF_PACKET) == (0, [])


@rule
def doctor_reports_an_address_that_the_kernel_owns_too():
    for address, bits in ((NIC4, "24"), (NIC6, "64")):
        with World() as w:
            w.space.do(lambda: ip("addr", "add", address + "/" + bits, "dev", "nic0", *["nodad"] * (":" in address)))
            status, problems = doctor(w, config() + SDR, *AF_PACKET)
            assert status == 1 and len(problems) == 1, problems
            assert address in problems[0]["text"] and "nic0" in problems[0]["text"] and problems[0]["advice"], problems


@rule
def doctor_does_not_mind_other_addresses_of_the_kernel():
    with World() as w:
        w.space.do(lambda: (ip("addr", "add", HOST4 + "/24", "dev", "nic0"), ip("addr", "add", HOST6 + "/64", "dev", "nic0", "nodad")))
        assert doctor(w, config() + SDR, *AF_PACKET) == (0, [])


@rule
def doctor_reports_a_missing_port_too_few_queues_and_mtu():
    with World() as w:
        for text, words in ((config(port="net_af_packet3"), ("net_af_packet3", "no such port")),
                            (config(more="workers = 2"), ("net_af_packet0", "workers = 2")),
                            (config(more="mtu = 4180"), ("net_af_packet0", "4180"))):
            status, problems = doctor(w, text + SDR, *AF_PACKET)
            said = " ".join(p["item"] + " " + p["text"] for p in problems)
            assert status == 1 and all(word in said for word in words), problems


def item(w, name):
    """Doctor's finding about this item, or None: finding, text, and advice."""
    found = [c for c in checks(w, "--", *EAL)[1]["checks"] if c["item"] == name]
    assert len(found) <= 1, found
    return (found[0]["finding"], found[0]["text"], found[0]["advice"]) if found else None


@rule
def doctor_says_which_kind_of_port_suits_an_interface():
    with World() as w:
        finding, text, advice = item(w, "port on nic0")
        assert finding == "fine" and "veth" in text and "with XDP" in text, text
        assert "af_xdp:nic0" in advice and "af_packet:nic0" in advice, advice
        w.space.do(lambda: ip("link", "set", "nic0", "mtu", "9000"))
        advice = item(w, "port on nic0")[2]
        assert advice.startswith("port = af_packet:nic0;") and "at most 3422" in advice, advice
        w.space.do(lambda: ip("addr", "add", HOST4 + "/24", "dev", "nic0"))
        finding, text, advice = item(w, "port on nic0")
        assert HOST4 in text and "not spare" in text and "af_packet:nic0" in advice and "af_xdp" not in advice, (text, advice)
        w.space.do(lambda: ip("link", "set", "nic0", "down"))
        assert item(w, "port on nic0") is None


@rule
def doctor_names_the_interface_that_leaves_checksums_and_the_command():
    with World() as w:
        assert item(w, "checksums on nic0")[0] == "fine"  # our end's are off: somebody has thought of it
        w.space.do(lambda: net.leave_checksums("nic0", True))
        finding, text, advice = item(w, "checksums on nic0")
        assert finding == "attention" and "host0" in text and "another network namespace" in text, text
        assert advice == "there: sudo ethtool -K host0 tx off", advice
        # with both ends in one namespace all is known
        w.space.do(lambda: (ip("link", "add", "here0", "type", "veth", "peer", "name", "here1"), ip("link", "set", "here0", "up")))
        finding, text, advice = item(w, "checksums on here0")
        assert finding == "attention" and "here1" in text and advice == "sudo ethtool -K here1 tx off", (text, advice)
        w.space.do(lambda: net.leave_checksums("here1", False))
        assert item(w, "checksums on here0") is None


@rule
def spindle_run_says_at_its_start_who_may_leave_checksums():
    with World() as w, House() as h:
        for on, words in ((True, "sudo ethtool -K host0 tx off"), (False, None)):
            w.space.do(lambda: net.leave_checksums("nic0", on))
            nic = h.nic("[nic]\nport = af_packet:nic0\nip = %s\n" % NIC4, eal=(), space=w.space)
            nic.signal(signal.SIGTERM)
            nic.end()
            said = nic.stderr()
            assert said.count("\n") == 1 and "port af_packet:nic0" in said and words in said if words else not said, said


if __name__ == "__main__":
    net.main()
