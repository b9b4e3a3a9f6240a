#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What stands on libibverbs and librdmacm, as Debian has it, under `spindle verbs`: fio, qperf, pyverbs, libfabric, UCX,
and Open MPI over either; between two NICs and on one. Arguments: net.py's, of which the program is not
used, and the source of an MPI program."""

import atexit
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from counted import sample  # noqa: E402
from net import Skip, rule, until  # noqa: E402
from verbs_pair import OFI, PAIRS, UCX, Pair, Stacks, free_port, listens, need  # noqa: E402

MPI = sys.argv.pop(3)


# ---- fio -------------------------------------------------------------------------------------------------------------

SLOT, SLOTS = 4096, 8
FIO = """[global]
ioengine=rdma
port=%d
bs=4k
size=256k
iodepth=8
thread

"""


def fio(p, client, server):
    """Both jobs to their end."""
    port = free_port()
    jobs = [p.house.write("server.fio", FIO % port + "[server]\nrw=read\n" + server),
            p.house.write("client.fio", FIO % port + "[client]\nrw=write\nhostname=%s\n" % p.ip + client)]
    s = p.verbs(p.server, "fio", jobs[0])

    def listening():
        contexts = sample(p.house, p.server, "--handlers")["contexts"].values()
        return any(row["port"] == port for c in contexts for row in c.get("listeners", ()))
    until("fio listens", lambda: s.process.poll() is not None or listening())
    c = p.verbs(p.client, "fio", jobs[1])
    for process in (c, s):
        assert any("err= 0" in line for line in process.end()), process.stderr()


def slots(path):
    with open(path, "rb") as f:
        data = f.read()
    return [data[at:at + SLOT] for at in range(0, SLOT * SLOTS, SLOT)]


@rule
def fio_writes_and_reads_memory():
    """A job's buffers are a file here. Each buffer that a peer has written, or that was read from it, is one of the
    peer's. The memory is a file's, so an agent serves it; fio asks for no attempts after an RNR NAK."""
    need("fio")
    with Stacks() as p:
        for verb in ("write", "read"):
            paths = {name: p.house.path("copies", verb + name) for name in ("server", "client")}
            for path in paths.values():  # fio does not give them their size
                with open(path, "wb") as f:
                    f.write(random.Random(path).randbytes(SLOT * SLOTS).ljust(SLOT * SLOTS * 2))
            old = slots(paths["server"])
            buffers = {name: "mem=mmapshared:%s\n" % path for name, path in paths.items()}
            fio(p, buffers["client"] + "verb=%s\nscramble_buffers=0\nsize=4m\n" % verb, buffers["server"])
            ours, theirs = slots(paths["client"]), slots(paths["server"])
            if verb == "write":
                assert set(theirs) <= set(ours) | set(old) and set(theirs) & set(ours), (theirs, ours)
            else:
                assert theirs == old and set(ours) <= set(theirs), (ours, theirs)


@rule
def fio_sends_and_checks_what_it_gets():
    need("fio")
    with Stacks() as p:
        fio(p, "verb=send\nverify=crc32c\ndo_verify=0\n", "iodepth=64\nverify=crc32c\nverify_fatal=1\n")


# ---- qperf -----------------------------------------------------------------------------------------------------------

@rule
def qperf_measures_by_connections_of_the_connection_manager():
    need("qperf")
    with Stacks() as p:
        port = free_port()
        p.verbs(p.server, "qperf", "-lp", str(port))
        until("qperf listens", lambda: listens(port))
        for test, what in (("rc_bw", "bw"), ("rc_lat", "latency"), ("ver_rc_compare_swap", "msg_rate")):
            lines = p.verbs(p.client, "qperf", p.ip, "-lp", str(port), "-cm", "1", "-t", "1", test).end()
            assert lines[0] == test + ":" and lines[1].split()[0] == what, lines


# ---- pyverbs ---------------------------------------------------------------------------------------------------------

PYTHON, PYVERBS = "/usr/bin/python3", "/usr/share/doc/rdma-core/tests"
# What docs/verbs.md explains.
FAIL = {"test_resize_cq", "test_mr_rereg_access", "test_mr_rereg_addr", "test_mr_rereg_pd", "test_rdmacm_async_read",
        "test_rdmacm_async_reject_traffic", "test_rdmacm_async_traffic", "test_rdmacm_async_traffic_external_qp",
        "test_rdmacm_async_udp_traffic", "test_rdmacm_async_write", "test_rdmacm_sync_traffic"}


@rule
def pyverbs_passes_its_own_tests():
    if not os.path.exists(PYVERBS + "/run_tests.py") or subprocess.run([PYTHON, "-c", "import pyverbs.device"]).returncode:
        raise Skip("pyverbs, or its tests, are not here")
    with Stacks() as p:
        tests = shutil.copytree(PYVERBS, p.house.path("pyverbs"))
        subprocess.run("gunzip *.gz", shell=True, cwd=tests, check=True)
        run = p.verbs("near", PYTHON, tests + "/run_tests.py", "-v", "--dev", "near", "--port", "1", "--gid", "1")
        run.process.communicate(timeout=200)
        said = run.stderr()
        failed = set(re.findall(r"^(?:ERROR|FAIL): (\w+)", said, re.M))
        assert failed <= FAIL and len(re.findall(r" \.\.\. ok$", said, re.M)) > 70, (failed - FAIL, said[-2000:])


# ---- libfabric -------------------------------------------------------------------------------------------------------

@rule
def libfabric_finds_the_nic():
    need("fi_info")
    with Stacks() as p:
        told = "\n".join(p.verbs("near", "fi_info", "-p", "verbs").end())
        for words in (r"domain: near\n", r"domain: near-dgram\n", "FI_EP_MSG", "FI_EP_DGRAM", "FI_EP_RDM"):
            assert re.search(words, told), (words, told)


@rule
def libfabric_exchanges_messages():
    need("fi_pingpong")
    for where in PAIRS:
        for provider, endpoint, most in (("verbs", "msg", "1m"), ("verbs;ofi_rxm", "rdm", "1m"), ("verbs", "dgram", "1k")):
            with Stacks(**where) as p:
                port = free_port()
                words = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", "20", "-c"]  # -c: it looks at the bytes
                lines = p.both(port, words + ["-B", str(port)], words + ["-P", str(port), p.ip])
                assert lines[-1].split()[:3] == [most, "20", "=20"], lines


# ---- UCX -------------------------------------------------------------------------------------------------------------

@rule
def ucx_exchanges_messages_and_reads_and_writes_memory():
    need("ucx_perftest")
    for where in PAIRS:
        for transports in ("rc_verbs,ud_verbs", "ud_verbs"):
            for test, size in (("tag_lat", 8), ("tag_lat", 100000), ("ucp_am_bw", 3000), ("ucp_put_lat", 8), ("ucp_get", 20000),
                               ("ucp_fadd", 8)):
                if transports == "ud_verbs" and test not in ("tag_lat", "ucp_am_bw"):
                    continue
                with Stacks(**where) as p:
                    port = free_port()
                    words = ["ucx_perftest", "-t", test, "-s", str(size), "-n", "100", "-w", "10", "-p", str(port)]
                    lines = p.both(port, words, words + ["127.0.0.1"], UCX_TLS=transports, UCX_WARN_UNUSED_ENV_VARS="n")
                    assert any(line.startswith("Final:") for line in lines), (test, lines)


# ---- Open MPI --------------------------------------------------------------------------------------------------------

def mpi(where, ranks, *options, **more):
    """ranks: how many on each NIC."""
    with Stacks(**where) as p:
        assert p.mpi(MPI, ranks, *options, **more).end(timeout=200)[-1:] == ["right %d" % (2 * ranks)]


@rule
def mpi_over_ucx_exchanges_what_it_was_given():
    for where in PAIRS:
        mpi(where, 1, *UCX)


@rule
def mpi_over_libfabric_exchanges_what_it_was_given():
    for where in PAIRS:
        mpi(where, 1, *OFI)


@rule
def four_ranks_of_mpi_share_a_nic():
    mpi({"client": "far"}, 2, *UCX)


atexit.register(Pair.part)

if __name__ == "__main__":
    net.main()
