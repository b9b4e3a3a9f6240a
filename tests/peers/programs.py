# SPDX-License-Identifier: BSD-3-Clause
"""The same programs at both ends: Debian's, on the NIC by `spindle verbs`, and on Soft-RoCE. Each role."""

import shutil
import time

import net
from counted import sample
from net import HOST4, NIC4, Skip, rule, until
from peering import ACK, SHORT_ACK, Bench, Measured, listening, waiting
from served import Process


def verbs(house, *words):
    """A program on the NIC; its TCP goes through the kernel that has the NIC's address."""
    if not shutil.which(words[0]):
        raise Skip("there is no %s here" % words[0])
    process = Process([net.SPINDLE, "verbs", "-n", "peer", "--", "stdbuf", "-oL", *words], env=house.environment(),
                      space=Bench.kernel)
    house.closing.append(process.kill)
    return process


def rows(house, what):
    return [row for c in sample(house, "peer", "--handlers")["contexts"].values() for row in c.get(what, ())]


def by_tcp(_, process, port):
    """Whether this program of ours, or one beside it, listens at this TCP port."""
    for name in ("tcp", "tcp6"):
        with open("/proc/%d/net/%s" % (process.pid, name), encoding="ascii") as f:
            if any(line.split()[1].endswith(":%04X" % port) and line.split()[3] == "0A" for line in list(f)[1:]):
                return True
    return False


def by_cm(house, _, port):
    return any(row["port"] == port for row in rows(house, "listeners"))


def see_through(guest, house, ours, theirs, m, timeout):
    """Both to their ends: what they have said. The retries of our QPs, as long as these were there to be asked."""
    end = time.monotonic() + timeout
    m.ours = 0
    try:
        while not (ours.process.poll() is not None and theirs.status is not None):
            assert time.monotonic() < end, "not ended after %d s" % timeout
            assert not ours.process.poll() and not theirs.status, "ended badly"
            m.ours = max(m.ours, sum(row["retries"] for row in rows(house, "qps")))
            time.sleep(0.2)
            guest.until(lambda: theirs.status is not None, 0.1)
        return ours.end(), theirs.end().splitlines()
    except AssertionError as error:
        ours.process.kill()
        said = "" if ours.process.stdout.closed else ours.process.communicate()[0].decode()
        theirs.kill()
        raise AssertionError("%s\nours: %s%s\nLinux: %s" % (error, said, ours.stderr(), theirs.output))


def serve(name, size, port, words, client, ready=by_tcp, timeout=90, ack=ACK):
    """Ours waits for Linux's. What each has said."""
    guest, house = Bench.both()
    with Measured(guest, "ours, and Linux's " + name, size) as m:
        ours = verbs(house, *words)
        until("ours listens", lambda: ours.process.poll() is not None or ready(house, ours, port))
        said = see_through(guest, house, ours, guest.start(client), m, timeout)
    m.calm(ack)
    return said


def connect(name, size, port, server, words, ready=listening, timeout=90, ack=ACK):
    """Linux's waits for ours."""
    guest, house = Bench.both()
    with Measured(guest, "Linux's, and our " + name, size) as m:
        theirs = guest.start(server)
        ready(guest, port)
        said = see_through(guest, house, verbs(house, *words), theirs, m, timeout)
    m.calm(ack)
    return said


# ---- ibverbs-utils, which look at the bytes --------------------------------------------------------------------------

def pingpong(kind, size, count=100):
    """Both roles."""
    guest, _ = Bench.both()
    more = ("-q", "4") if kind == "srq" else ()
    words = ["ibv_%s_pingpong" % kind, "-n", str(count), "-s", str(size), *more, "-c", "-g"]
    theirs = " ".join(words) + " %d" % guest.gid(HOST4)
    name = "%s_pingpong -s %d" % (kind, size)
    ends = (serve(name, 2 * count * size, 18515, words + ["1"], theirs + " " + NIC4, ack=SHORT_ACK),
            connect(name, 2 * count * size, 18515, theirs, words + ["1", HOST4], ack=SHORT_ACK))
    for lines in (end for both in ends for end in both):
        assert any(line.startswith("%d iters in" % count) for line in lines), lines
        assert not any("invalid" in line for line in lines), lines


@rule
def rc_pingpong_of_the_nic_and_linux():
    pingpong("rc", 5000)


@rule
def uc_and_ud_pingpong_of_the_nic_and_linux():
    pingpong("uc", 5000)
    pingpong("ud", 1000)


@rule
def srq_pingpong_of_the_nic_and_linux():
    pingpong("srq", 5000)


# ---- perftest --------------------------------------------------------------------------------------------------------

def measured(lines, size, count):
    """perftest says size and count in the line with what it has measured."""
    table = [line.split() for line in lines]
    assert any(row[:2] == [str(size), str(count)] for row in table if len(row) > 4), lines


def perftest(tool, size, *more, count=100, roles="sc", name=""):
    """roles: s, we serve; c, we are the client, who measures."""
    guest, _ = Bench.both()
    # -u 18: ACK. Soft-RoCE takes 128 READs and atomics at once, we 16: perftest wants to be told the smaller number.
    words = [tool, "-F", "-u", "18", "-n", str(count), *(() if "atomic" in tool else ("-s", str(size))),
             *(("-o", "16") if "atomic" in tool or "read" in tool else ()), *more, "-x"]
    theirs = " ".join(words) + " %d -d rxe0" % guest.gid(HOST4)
    name = " ".join([tool, *more]) + name
    if "s" in roles:
        measured(serve(name, size * count, 18515, words + ["1"], theirs + " " + NIC4)[1], size, count)
    if "c" in roles:
        measured(connect(name, size * count, 18515, theirs, words + ["1", HOST4])[0], size, count)


@rule
def perftest_of_the_nic_and_linux():
    for tool, size in (("ib_write_bw", 65536), ("ib_read_bw", 65536), ("ib_send_bw", 65536), ("ib_atomic_bw", 8)):
        perftest(tool, size)


@rule
def perftest_on_uc_and_ud_of_the_nic_and_linux():
    perftest("ib_write_bw", 4096, "-c", "UC")
    perftest("ib_send_bw", 4096, "-c", "UC")
    perftest("ib_send_bw", 1000, "-c", "UD")


@rule
def perftest_of_latency_of_the_nic_and_linux():
    for tool, size in (("ib_write_lat", 64), ("ib_read_lat", 4096), ("ib_send_lat", 2000), ("ib_atomic_lat", 8)):
        perftest(tool, size)


@rule
def perftest_of_latency_on_uc_and_ud_of_the_nic_and_linux():
    perftest("ib_write_lat", 2000, "-c", "UC")
    perftest("ib_send_lat", 2000, "-c", "UC")
    perftest("ib_send_lat", 1000, "-c", "UD")


# ---- librdmacm -------------------------------------------------------------------------------------------------------

@rule
def rping_of_the_nic_and_linux():
    for size in (64, 60000):
        words = ["rping", "-p", "7187", "-C", "20", "-S", str(size), "-V", "-a"]  # -V: looks at the bytes
        serve("rping -S %d" % size, 40 * size, 7187, words + [NIC4, "-s"], " ".join(words + [NIC4, "-c"]), by_cm)
        connect("rping -S %d" % size, 40 * size, 7187, " ".join(words + [HOST4, "-s"]), words + [HOST4, "-c"], waiting,
                ack=SHORT_ACK)


def both_return(said):
    assert all(lines[-1] == "return status 0" for lines in said), said


@rule
def ucmatose_and_udaddy_of_the_nic_and_linux():
    words = ["ucmatose", "-p", "7188", "-c", "2", "-C", "50", "-S", "5000"]
    size = 2 * 2 * 50 * 5000
    both_return(serve("ucmatose", size, 7188, words + ["-b", NIC4], " ".join(words + ["-s", NIC4]), by_cm))
    both_return(connect("ucmatose", size, 7188, " ".join(words), words + ["-s", HOST4], waiting, ack=SHORT_ACK))
    words = ["udaddy", "-c", "2", "-C", "10", "-S", "500"]
    size = 2 * 2 * 10 * 500
    both_return(serve("udaddy", size, 7174, words + ["-b", NIC4], " ".join(words + ["-s", NIC4]), by_cm))
    both_return(connect("udaddy", size, 7174, " ".join(words), words + ["-s", HOST4], waiting, ack=SHORT_ACK))


@rule
def rdma_client_and_rdma_server_of_the_nic_and_linux():
    server, client = ["rdma_server", "-p", "7189", "-s"], ["rdma_client", "-p", "7189", "-s"]
    serve("rdma_client", 32, 7189, server + [NIC4], " ".join(client + [NIC4]), by_cm)
    connect("rdma_client", 32, 7189, " ".join(server + [HOST4]), client + [HOST4], waiting, ack=SHORT_ACK)
