#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`spindle send` and `spindle recv`: files of any size from host to host through two running NICs, whatever is lost on the
way; and what they say when a peer, a NIC, a disk or a file does not do its part."""

import contextlib
import ctypes
import hashlib
import json
import os
import pty
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net  # noqa: E402
from hosts import HOST_MAC, MB, Hosts, ends_badly, hosts, kept, large, under_way, until_kept  # noqa: E402
from net import HOST4, plain, rule, sanitized, until  # noqa: E402


# ---- files arrive --------------------------------------------------------------------------------------------------------

def a_file(h, family, size, memory="64M"):
    path, data = h.source(size)
    r = h.recv("--once", "--json", "--memory", memory)
    s = h.send(path, r, "--family", str(family), "--json")
    digest = hashlib.sha256(data).hexdigest()
    for process in (s, r):
        (line,) = process.end()
        told = json.loads(line)
        assert told["sha256"] == digest and told["bytes"] == size and told["file"] == "source" and told["ip"] == str(family), told
    assert hashlib.sha256(h.arrived()).hexdigest() == digest and h.files() == ["source"]
    return told


@rule
def sixty_four_mebibytes_arrive_over_ipv4():
    """(A quarter of that where sanitizers look on, here and below.)"""
    with hosts() as h:
        a_file(h, 4, large())


@plain
@rule
def a_file_arrives_over_ipv6():
    with hosts() as h:
        a_file(h, 6, 16 * MB)


@rule
def a_file_arrives_through_two_workers_over_ipv4():
    with hosts(workers=2) as h:
        a_file(h, 4, 16 * MB)


@plain
@rule
def sixty_four_mebibytes_arrive_through_two_workers_over_ipv6():
    with hosts(workers=2) as h:
        a_file(h, 6, large())


@rule
def sixty_four_mebibytes_arrive_from_virtio_user_to_vhost_over_ipv4():
    with Hosts(link="vhost") as h:
        a_file(h, 4, large())


@rule
def memory_is_used_again_when_its_bytes_have_been_hashed():
    """The link is faster than SHA-256, and a sixteenth of the file is under way."""
    with Hosts(link="vhost", mtu=(4180, 4180)) as h:
        a_file(h, 4, large(), memory="4M")


@plain
@rule
def sixty_four_mebibytes_arrive_from_virtio_user_to_vhost_over_ipv6_with_a_path_mtu_of_4096():
    with Hosts(link="vhost", mtu=(4180, 4180)) as h:
        told = a_file(h, 6, large())
        assert told["mtu"] == 4096, told


@rule
def files_of_every_size_around_the_bounds_arrive():
    """Messages of 100000 bytes, packets of 1000, chunks of 3000; the receiver's memory holds two messages and a bit."""
    sizes = [0, 1, 999, 1000, 1001, 2999, 3000, 3001, 99000, 99999, 100000, 100001, 102999, 200000, 300001, 1000000, 1234567]
    if sanitized():
        sizes = sizes[:3] + sizes[8::3]
    with hosts() as h:
        r = h.recv("--count", str(len(sizes)), "--memory", "450000")
        for size in sizes:
            path, data = h.source(size, "f%d" % size)
            h.send(path, r, "--mtu", "1000", "--chunk", "3000", "--message", "100000").end()
            assert h.arrived("f%d" % size) == data, "of %d bytes" % size
        lines = r.end()
        assert [int(re.search(r": (\d+) byte", line).group(1)) for line in lines] == sizes, lines
        assert h.files() == sorted("f%d" % n for n in sizes)


@rule
def a_message_of_one_byte_and_one_of_all_bytes_work():
    with hosts() as h:
        path, data = h.source(500)
        r = h.recv("--count", "2")
        h.send(path, r, "--message", "1").end()
        assert h.arrived() == data
        path, data = h.source(3 * MB + 5, "large")
        h.send(path, r, "--message", "16M", "--chunk", "1M").end()
        r.end()
        assert h.arrived("large") == data


@rule
def one_packet_in_seven_lost_and_the_file_is_whole():
    # Not each seventh: a chunk of fourteen would lose the same two each time.
    with Hosts(drop=lambda far, n: n * 2654435761 % (1 << 32) < (1 << 32) / 7) as h:
        size = (2 if sanitized() else 6) * MB + 77
        path, data = h.source(size)
        r = h.recv("--once", "--json")
        s = h.send(path, r, "--rate", "100M", "--message", "1M", "--chunk", "20K", "--json")
        repeated = [json.loads(p.end()[0])["chunks_repeated"] for p in (s, r)]
        assert h.arrived() == data and h.files() == ["source"]
        # Of chunks of 14 packets seven in eight lack one, and many still do when they have come again; both ends say the same.
        assert repeated[0] == repeated[1] >= size // 20104, repeated


@rule
def the_first_two_hundred_packets_lost_and_the_file_is_whole():
    """Of the first messages nothing comes at all, of one its end."""
    with Hosts(drop=lambda far, n: n <= 200) as h:
        path, data = h.source(MB)
        r = h.recv("--once")
        h.send(path, r, "--rate", "100M", "--message", "64K").end()
        r.end()
        assert h.arrived() == data


@plain
@rule
def two_receivers_on_one_nic_at_once():
    with hosts() as h:
        names = ["one", "two"]
        files = [h.source(10 * MB + i, name) for i, name in enumerate(names)]
        receivers = [h.recv("--once") for _ in names]
        senders = [h.send(path, r, "--rate", "200M") for (path, _), r in zip(files, receivers)]
        for process in senders + receivers:
            process.end()
        for name, (_, data) in zip(names, files):
            assert h.arrived(name) == data


@plain
@rule
def the_bar_is_for_terminals_only():
    with hosts() as h:
        path, _ = h.source(MB)
        r = h.recv("--count", "2")
        s = h.send(path, r)
        s.end()
        assert s.stderr() == ""
        path, _ = h.source(2 * MB, "again")
        master, slave = pty.openpty()
        process = subprocess.Popen([net.SPINDLE, "send", path, r.where, "--nic", "near", "--rate", "20M"], stderr=slave,
                                   stdout=slave, env=h.environment(), preexec_fn=net.die_with_parent)
        os.close(slave)
        r.end()
        shown = b""
        while True:
            try:
                some = os.read(master, 65536)
            except OSError:
                break
            if not some:
                break
            shown += some
        os.close(master)
        assert process.wait(60) == 0 and shown.count(b" %  ") > 1 and b"sha256 " in shown, shown


# ---- what it is called ---------------------------------------------------------------------------------------------------

@rule
def an_existing_file_is_replaced_only_where_it_was_named():
    with hosts() as h:
        path, data = h.source(5000)
        r = h.recv()
        os.makedirs(h.path("in"), exist_ok=True)
        with open(h.path("in", "source"), "w") as f:
            f.write("mine")
        ends_badly(h.send(path, r), "source: File exists")
        assert h.arrived() == b"mine" and h.files() == ["source"]
        named = h.recv("--once", "-o", h.path("in", "source"))
        h.send(path, named).end()
        named.end()
        assert h.arrived() == data and h.files() == ["source"]
        os.mkfifo(h.path("in", "fifo"))
        ends_badly(h.command("recv", "--once", "-o", h.path("in", "fifo"), space=h.space), "no regular file")
        os.unlink(h.path("in", "fifo"))
        named = h.recv("--once", "-o", h.path("in", "fifo"))
        os.mkfifo(h.path("in", "fifo"))  # since it was looked for
        ends_badly(h.send(path, named), "no regular file")
        ends_badly(named, "no regular file")
        assert h.files() == ["fifo", "source"]


@rule
def names_of_any_bytes_arrive():
    with hosts() as h:
        r = h.recv("--count", "3", "--json")
        for name in (b"a \"b\"\n%s", b"\xff\xfe", b"n" * 250):
            path = os.path.join(h.dir.encode(), name)
            with open(path, "wb") as f:
                f.write(b"x" * 10)
            h.send(path, r, "--json").end()
            assert os.path.exists(os.path.join(h.dir.encode(), b"in", name))
        told = [json.loads(line)["file"] for line in r.end()]
        assert told == ["a \"b\"\n%s", "fffe", "n" * 250], told  # what is not Unicode comes in hexadecimal


# ---- somebody does not do its part ---------------------------------------------------------------------------------------

SLOW = ("--rate", "20M", "--message", "64K")  # 32 MiB take 13 s


@rule
def a_killed_sender_is_told_and_the_next_file_comes():
    with hosts() as h:
        path, _ = h.source(32 * MB)
        r = h.recv()
        s = h.send(path, r, *SLOW)
        under_way(h, r)
        s.kill()
        until("recv says so", lambda: "closed the connection before the end" in r.stderr())
        until("nothing is left of it", lambda: h.files() == [])
        h.works(r)


@rule
def a_killed_receiver_is_told_and_one_that_is_started_again_works():
    with hosts() as h:
        path, _ = h.source(32 * MB)
        r = h.recv()
        s = h.send(path, r, *SLOW)
        under_way(h, r)
        port = r.where.rsplit(":", 1)[1]
        r.kill()
        ends_badly(s, "connection")
        os.unlink(h.path("in", "source.part"))  # nobody could
        h.works(h.recv(port=port))


@rule
def an_interrupted_end_tells_the_other_and_leaves_nothing():
    with hosts() as h:
        path, _ = h.source(32 * MB)
        r = h.recv()
        s = h.send(path, r, *SLOW)
        under_way(h, r)
        s.signal(signal.SIGINT)
        ends_badly(s, "interrupted")
        until("recv says so", lambda: "it says: interrupted" in r.stderr())
        until("nothing is left of it", lambda: h.files() == [])
        s = h.send(path, r, *SLOW)
        under_way(h, r)
        r.signal(signal.SIGTERM)
        ends_badly(s, "it says: interrupted")
        ends_badly(r)
        assert h.files() == []


@rule
def a_killed_nic_ends_the_transfer_on_both_sides():
    with Hosts() as h:
        path, _ = h.source(32 * MB)
        r = h.recv()
        for which in ("far", "near"):
            s = h.send(path, r, *SLOW)
            under_way(h, r)
            (h.far_nic if which == "far" else h.near_nic).kill()
            ends_badly(s, "NIC", "died")
            until("recv says so", lambda: r.stderr().count("died") == (1 if which == "far" else 2))
            until("nothing is left of it", lambda: h.files() == [])
            h.start(which)
            h.works(r)
            os.unlink(h.path("in", "again"))


@rule
def a_path_that_is_cut_is_noticed_on_both_sides():
    with Hosts(drop=lambda far, n: n > 500) as h:
        path, _ = h.source(8 * MB)
        r = h.recv("--once", "--timeout", "2")
        s = h.send(path, r, "--rate", "50M")
        # Each side finds out by itself, or hears it from the other one, which was a moment earlier.
        for side in (s, r):
            ends_badly(side, "for 2 s")
            found = [w for w in ("no packet comes from its NIC", "it makes no progress") if w in side.stderr()]
            assert found, side.stderr()
        assert h.files() == []


@rule
def a_larger_mtu_than_the_receivers_is_refused_by_name_on_both_sides():
    with hosts() as h:
        path, data = h.source(10000)
        r = h.recv("--once")
        ends_badly(h.send(path, r, "--mtu", "2048"), "mtu", "2048", "1436")  # more than its own: nobody is asked
        h.send(path, r, "--mtu", "1024").end()
        r.end()
        assert h.arrived() == data
    with Hosts(mtu=(1280, 1500)) as h:
        path, data = h.source(10000)
        r = h.recv("--once")
        ends_badly(h.send(path, r, "--mtu", "1400"), "mtu", "1400", "1216")
        ends_badly(r, "mtu", "1400", "1216")
        r = h.recv("--once", "--json")
        h.send(path, r).end()  # the smaller one of both
        assert json.loads(r.end()[0])["mtu"] == 1216 and h.arrived() == data


@rule
def packets_carry_4096_bytes_where_the_link_has_an_mtu_of_9000():
    for link in ("veth", "vhost"):
        with Hosts(link=link, mtu=(9000, 9000)) as h:
            path, data = h.source(2 * MB)
            r = h.recv("--once", "--json")
            h.send(path, r).end()
            assert json.loads(r.end()[0])["mtu"] == 4096 and h.arrived() == data


@rule
def no_address_of_a_family_in_common_is_told():
    with Hosts() as h:
        path, data = h.source(1000)
        r = h.recv()
        h.near_nic.kill()
        h.near_nic = h.nic("[nic]\nport = net_af_packet0\nip = %s/24\nmac = %s\n" % (HOST4, HOST_MAC), "--name", "near",
                           eal=("--vdev", "net_af_packet0,iface=near0"))
        ends_badly(h.send(path, r, "--family", "6"), "no address of the same family")
        h.send(path, r).end()
        assert h.arrived() == data


@rule
def more_memory_than_the_nic_gives_is_told_to_both():
    with Hosts(far="[limits rest]\nuser = everyone\nmemory = 8M\n") as h:
        path, data = h.source(20 * MB)
        r = h.recv()
        ends_badly(h.send(path, r), "the NIC refuses")
        until("recv says so", lambda: "the NIC refuses" in r.stderr())
        assert h.files() == []
        r = h.recv("--once", "--memory", "4M")
        h.send(path, r).end()
        r.end()
        assert h.arrived() == data


@rule
def a_full_disk_is_told_to_both_and_leaves_nothing():
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(directory):
        net.call("unshare", libc.unshare(0x20000))  # CLONE_NEWNS
        net.call("mount", libc.mount(b"none", b"/", None, 0x44000, None))  # MS_REC | MS_PRIVATE
        net.call("mount", libc.mount(b"none", directory.encode(), b"tmpfs", 0, b"size=2m"))

    with hosts() as h:
        os.makedirs(h.path("in"))
        r = h.recv(before=lambda: mount(h.path("in")))
        inside = "/proc/%d/root%s" % (r.pid, h.path("in"))
        path, _ = h.source(3 * MB)
        ends_badly(h.send(path, r), "No space left on device")
        s = dial(h, r)
        s.sendall(hello(size=3 * MB))
        assert b"No space left on device" in answer(s), "not told at the beginning"
        s.close()
        until("recv says so", lambda: "No space left on device" in r.stderr())
        assert os.listdir(inside) == []
        path, data = h.source(MB, "small")
        h.send(path, r).end()
        with open(os.path.join(inside, "small"), "rb") as f:
            assert f.read() == data


@rule
def a_sender_that_only_promises_takes_no_disk():
    with hosts() as h:
        r = h.recv()
        s = dial(h, r)
        s.sendall(hello(size=1 << 29))
        line = s.makefile("rb").readline()
        assert b"offer" in line, line
        parts = [h.path("in", name) for name in h.files()]
        assert len(parts) == 1 and parts[0].endswith(".part"), parts
        assert os.stat(parts[0]).st_blocks * 512 < MB, os.stat(parts[0])
        s.close()
        until("recv lets it go", lambda: not os.path.exists(parts[0]))


@rule
def a_file_that_is_too_large_while_it_is_written_is_told_to_both():
    """A limit instead of a disk: it strikes where room is made, and a signal comes with it."""
    import resource
    with hosts() as h:
        path, _ = h.source(3 * MB)
        r = h.recv(before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MB, 2 * MB)))
        ends_badly(h.send(path, r), "File too large")
        assert h.files() == []
        h.works(r)


@rule
def a_file_that_changes_meanwhile_is_told_to_both():
    with hosts() as h:
        r = h.recv()
        for n, how in enumerate(("grows",) if sanitized() else ("grows", "shrinks", "is written to"), 1):
            path, _ = h.source(3 * MB)
            s = h.send(path, r, "--rate", "20M", "--message", "100K")
            under_way(h, r)
            if how == "shrinks":
                os.truncate(path, 10)
            else:
                with open(path, "ab" if how == "grows" else "r+b") as f:
                    f.write(b"more")
            ends_badly(s, "the file", "while it was read")
            until("recv says so", lambda: r.stderr().count("while it was read") == n)
            until("nothing is left of it", lambda: h.files() == [])


@rule
def no_nic_no_file_no_listener_are_told():
    with hosts() as h:
        path, _ = h.source(10)
        ends_badly(h.send(path, "127.0.0.1:1"), "Connection refused")
        ends_badly(h.send(h.path("nothing"), "127.0.0.1:1"), "No such file")
        ends_badly(h.send(h.dir, "127.0.0.1:1"), "not a file")
        s = h.command("send", path, "127.0.0.1:1", nic="nobody")
        ends_badly(s, "nobody", "these run: far, near")
        ends_badly(h.command("recv", "--listen", "127.0.0.1:0", nic="nobody"), "nobody", "these run: far, near")


# ---- taken up again ----------------------------------------------------------------------------------------------------

def taken_up(h, r, path, data, *words):
    """Sends it and sees it come to its end. Where it began."""
    s = h.send(path, r, "--json", *words)
    (line,) = s.end()
    told, theirs = json.loads(line), json.loads(r.line())
    assert theirs["sha256"] == told["sha256"] == hashlib.sha256(data).hexdigest() and h.arrived() == data
    assert told["bytes"] == theirs["bytes"] == len(data) and told["resumed_at"] == theirs["resumed_at"], (told, theirs)
    assert h.files() == ["source"], h.files()
    os.unlink(h.path("in", "source"))
    return told["resumed_at"]


@rule
def whoever_is_killed_the_rest_of_a_file_is_all_that_is_sent_again():
    with hosts() as h:
        path, data = h.source(8 * MB)
        r = h.recv("--resume", "--json")
        port, had = r.where.rsplit(":", 1)[1], 0
        for who in ("sender killed", "receiver killed", "sender stopped", "receiver stopped"):
            s = h.send(path, r, "--rate", "20M", "--message", "64K")
            until_kept(h, had + MB)
            end, other = (s, r) if "sender" in who else (r, s)
            if "killed" in who:
                end.kill()
            else:
                end.signal(signal.SIGINT)
                ends_badly(end, "interrupted")
            if "receiver" in who:
                ends_badly(other)
                r = h.recv("--resume", "--json", port=port)
            else:
                until("recv says so", lambda: "bytes are kept" in r.stderr().splitlines()[-1])
            assert kept(h) > had, (who, kept(h), had)
            had = kept(h)
        assert h.files() == ["source.part"] and os.path.getsize(h.path("in", "source.part")) > 8 * MB
        assert taken_up(h, r, path, data) == had
        assert taken_up(h, r, path, data) == 0


@plain
@rule
def a_nic_that_is_killed_does_not_cost_what_has_come():
    with Hosts() as h:
        path, data = h.source(4 * MB)
        r = h.recv("--resume", "--json")
        had = 0
        for which in ("far", "near"):
            s = h.send(path, r, "--rate", "20M", "--message", "64K")
            until_kept(h, had + MB)
            (h.far_nic if which == "far" else h.near_nic).kill()
            ends_badly(s, "NIC", "died")
            until("recv says so", lambda: "bytes are kept" in r.stderr().splitlines()[-1])
            had = kept(h)
            h.start(which)
        at = taken_up(h, r, path, data)
        assert at == had >= 2 * MB, (at, had)


def interrupted(h, r, path, least=MB // 4):
    """A part of it that was left. How much it holds."""
    s = h.send(path, r, "--rate", "20M", "--message", "64K")
    until_kept(h, least)
    s.signal(signal.SIGINT)
    ends_badly(s, "interrupted")
    until("recv says so", lambda: "bytes are kept" in r.stderr().splitlines()[-1])
    return kept(h)


@plain
@rule
def another_file_of_that_name_never_gets_the_beginning_of_the_first():
    with hosts() as h:
        r = h.recv("--resume", "--json")
        path, data = h.source(4 * MB)
        had = interrupted(h, r, path)
        for what, other in (("the first byte", bytes([data[0] ^ 1]) + data[1:]), ("the last byte kept",
                            data[:had - 1] + bytes([data[had - 1] ^ 1]) + data[had:]), ("length", data + b"!"), ("length", data[:-1]),
                            ("everything", bytes(100)), ("everything", b"")):
            with open(path, "wb") as f:
                f.write(other)
            assert taken_up(h, r, path, other) == 0, what
            with open(path, "wb") as f:
                f.write(data)
            had = interrupted(h, r, path)
        # What differs only behind what is kept is a file whose beginning is there, whenever it was written.
        other = data[:had] + bytes(len(data) - had)
        with open(path, "wb") as f:
            f.write(other)
        assert taken_up(h, r, path, other) == had


@contextlib.contextmanager
def between(r, edit):
    """Where to send to, so that what both sides say goes through edit(bytes, whether the sender says it)."""
    def pass_on(door):
        ends = [door.accept()[0], socket.create_connection(r.where.rsplit(":", 1), timeout=60)]
        while True:
            for end in select.select(ends, [], [])[0]:
                with contextlib.suppress(ConnectionError):
                    some = end.recv(65536)
                    if not some:
                        return [e.close() for e in ends]
                    ends[end is ends[0]].sendall(edit(some, end is ends[0]))
    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=pass_on, args=(door,), daemon=True)
        thread.start()
        yield "127.0.0.1:%d" % door.getsockname()[1]
        thread.join(60)


@rule
def a_file_that_changes_once_its_beginning_was_compared_does_not_arrive():
    """Before the receiver says that it is ready, the file is written to."""
    with hosts() as h:
        r = h.recv("--resume")
        path, _ = h.source(3 * MB)
        interrupted(h, r, path)

        def edit(some, _):
            if b'"ready"' in some:
                with open(path, "r+b") as f:
                    f.write(b"changed")
            return some
        with between(r, edit) as where:
            s = h.send(path, where)
            ends_badly(s, "the file changed while it was read")
        until("recv says so", lambda: "changed while it was read" in r.stderr())
        assert "source" not in h.files()


@rule
def what_is_not_what_was_sent_is_not_kept_and_the_file_is_not_blamed():
    with hosts() as h:
        r = h.recv()
        path, _ = h.source(100000)
        wrong = re.compile(rb'("digest": *")[0-9a-f]{64}"')
        with between(r, lambda some, sent: wrong.sub(rb"\g<1>" + b"5a" * 32 + b'"', some) if sent else some) as where:
            s = h.send(path, where)
            until("recv says so", lambda: "the SHA-256 differ" in r.stderr())
            assert s.process.wait(60) == 1
        assert "though the sender's file has not changed" in r.stderr() and "did the file change" not in r.stderr(), r.stderr()
        assert h.files() == [], h.files()
        h.works(r)


@rule
def a_part_that_somebody_has_changed_is_not_taken_up():
    def at(place, new):
        def change(part):
            with open(part, "r+b") as f:
                f.seek(*place)
                f.write(new)
        return change
    with hosts() as h:
        r = h.recv("--resume", "--json")
        path, data = h.source(3 * MB)
        for change, foreign in [(at((0,), b"changed"), False), (at((MB // 4 - 5000,), b"x"), False), (at((-1, 2), b"x"), True),
                                (at((-352 + 24, 2), b"\xff" * 8), True), (at((-352, 2), b"SPINPARU"), True),
                                (at((0, 2), b"x"), True), (lambda part: os.truncate(part, 2 * MB), True),
                                (lambda part: os.truncate(part, 0), True),
                                (lambda part: os.truncate(part, os.path.getsize(part) - 1), True)]:
            interrupted(h, r, path)
            part = h.path("in", "source.part")
            change(part)
            s = h.send(path, r, "--json")
            (line,) = s.end()
            assert json.loads(line)["resumed_at"] == json.loads(r.line())["resumed_at"] == 0
            assert h.arrived() == data
            # What is not ours, or not any more, stays as it is.
            assert h.files() == ["source", "source.part"] if foreign else ["source"], h.files()
            for name in h.files():
                os.unlink(h.path("in", name))


@rule
def what_is_no_part_of_ours_is_left_alone():
    with hosts() as h:
        r = h.recv("--resume", "--json")
        path, data = h.source(MB)
        good = h.path("good")
        interrupted(h, r, path)
        os.rename(h.path("in", "source.part"), good)
        with open(good, "rb") as f:
            content = f.read()
        os.symlink(good, h.path("in", "source.part"))
        os.link(good, h.path("in", "source.part1"))
        os.mkfifo(h.path("in", "source.part2"))
        os.mkdir(h.path("in", "source.part3"))
        with open(h.path("in", "source.part4"), "wb") as f:
            f.write(content.replace(b"source\0", b"sourcf\0"))
        (line,) = h.send(path, r, "--json").end()
        assert json.loads(line)["resumed_at"] == 0 and h.arrived() == data
        assert h.files() == ["source"] + ["source.part" + n for n in ("", "1", "2", "3", "4")], h.files()
        with open(good, "rb") as f:
            assert f.read() == content


@rule
def a_caller_who_only_asks_does_not_cost_what_is_kept():
    with hosts() as h:
        path, data = h.source(2 * MB)
        r = h.recv("--resume", "--json")
        had = interrupted(h, r, path)
        for n, size in enumerate((2 * MB, 2 * MB + 1, 0), 2):
            s = dial(h, r)
            s.sendall(hello(name=b"source".hex(), size=size))
            offer = json.loads(s.makefile("rb").readline())
            assert offer["kept"] == (had if size == 2 * MB else 0), offer
            s.shutdown(socket.SHUT_RDWR)
            s.close()
            until("recv has noticed", lambda: r.stderr().count("bytes are kept") == n)
            assert kept(h) == had, size
        assert taken_up(h, r, path, data) == had


@rule
def two_receivers_do_not_take_up_the_same_part():
    with hosts() as h:
        path, data = h.source(4 * MB)
        r = h.recv("--resume", "--json")
        had = interrupted(h, r, path)
        s = h.send(path, r, "--rate", "20M", "--message", "64K")
        until_kept(h, had + 1)
        s.signal(signal.SIGSTOP)
        other = h.recv("--resume", "--json", "--once")
        (line,) = h.send(path, other, "--json").end()
        assert json.loads(line)["resumed_at"] == 0 and h.arrived() == data
        other.end()
        s.signal(signal.SIGCONT)
        ends_badly(s, "source: File exists")
        assert h.arrived() == data


@rule
def without_being_asked_to_nothing_is_kept_or_taken_up():
    with hosts() as h:
        path, data = h.source(2 * MB)
        r = h.recv("--resume", "--json")
        had = interrupted(h, r, path)
        plain = h.recv("--json", "--once")
        (line,) = h.send(path, plain, "--json").end()
        assert json.loads(line)["resumed_at"] == 0 and h.arrived() == data and kept(h) == had
        plain.end()


# ---- hostile peers -------------------------------------------------------------------------------------------------------

def hello(**changes):
    line = {"spindle": "file", "version": 2, "scheme": "sr-nack", "session": "00" * 8, "name": b"planted".hex(), "size": 1000, "message": 1000,
            "chunk": 1000, "mtu": 0, "family": 0, "payload4": 1436, "payload6": 1416}
    line.update(changes)
    return json.dumps(line).encode() + b"\n"


def dial(h, r):
    host, port = r.where.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def answer(s):
    """All that comes until the end."""
    data = b""
    try:
        while True:
            some = s.recv(65536)
            if not some:
                return data
            data += some
    except ConnectionError:
        return data


@rule
def names_that_lead_elsewhere_are_refused():
    with hosts() as h:
        r = h.recv()
        for name in (b"../planted", b"/tmp/planted", b".", b"..", b".planted", b"a/../planted", b"a/b"):
            s = dial(h, r)
            s.sendall(hello(name=name.hex()))
            assert b"name" in answer(s), name
            s.close()
        assert h.files() == [] and not any("planted" in n for n in os.listdir(h.dir))
        h.works(r)


@rule
def rubbish_callers_do_not_hurt_a_receiver():
    rubbish = [b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 20000, b"{" * 100000, b"[" * 20000 + b"\n", b"{}\n", b"null\n", b"\"x\"\n",
               random.Random(1).randbytes(100000), hello(version=1), hello(version=3), hello(size=-1), hello(size=1 << 62), hello(message=0),
               hello(message=1 << 40), hello(chunk=0), hello(mtu=99), hello(mtu=5000), hello(family=5), hello(name=""),
               hello(name="0"), hello(session=""), hello(payload4="x"), hello(spindle=None), hello(scheme="\x1b[2J"), hello(scheme=["sr-nack"]), hello(name=(b"x" * 255).hex()),
               hello()[:-1], hello() + b"{\"connect\": \"00\"}\n", hello() + b"{\"connect\": \"" + b"00" * 128 + b"\"}\n",
               hello() + b"{\"checked\": 0}\n", hello() + b"rubbish\n", hello(size=0) + b"{\"digest\": 1}\n"]
    with hosts() as h:
        r = h.recv()
        for data in rubbish:
            s = dial(h, r)
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            answer(s)
            s.close()
        assert r.process.poll() is None, r.stderr()
        until("nothing is left of it", lambda: h.files() == [])
        h.works(r)
        r.signal(signal.SIGTERM)
        r.end(1)


@rule
def callers_that_say_nothing_do_not_keep_others_waiting():
    with hosts() as h:
        r = h.recv()
        silent = [dial(h, r) for _ in range(40)]  # more than it has places
        for s in silent[::2]:
            try:
                s.sendall(b"{")
            except OSError:  # had to make room
                pass
        h.works(r)
        for s in silent:
            s.close()
        h.works(r, "third")


INFO = struct.Struct("=II16sIIQIIIIIIQ3s53x")  # struct sdr_qp_info
QP = ["magic", "version", "ip", "qpn", "control_qpn", "nonce", "rkey", "mtu", "chunk_bytes", "max_messages", "generations", "channels",
      "max_message_bytes", "split"]


@rule
def a_sender_that_lies_once_it_is_connected_is_given_up():
    digest = b"{\"digest\": \"" + b"00" * 32 + b"\", \"repeated\": 0, \"needless\": 0, \"parity\": 0, \"rtt\": 0}"
    lies = [b"{\"digest\": \"00\"}", b"{\"digest\": \"" + b"00" * 32 + b"\"}", digest.replace(b"\"rtt\": 0", b"\"rtt\": -1"),
            digest.replace(b"0, \"needless", b"\"0\", \"needless"), digest + b"\n" + digest, b"{\"saved\": true}", b"{}",
            b"{\"checked\": 1}", b"{\"ready\": true}"]

    def connect(from_=0, **changes):
        """A sender that has said all but what it sends."""
        s = dial(h, r)
        lines = s.makefile("rb")
        s.sendall(hello(size=10000))  # ten messages
        offer = json.loads(lines.readline())
        info = dict(zip(QP, INFO.unpack(bytes.fromhex(offer["offer"]))))
        info["ip"] = b"\0" * 10 + b"\xff\xff" + socket.inet_aton("192.0.2.77")
        info.update(changes)
        s.sendall(json.dumps({"connect": INFO.pack(*info.values()).hex(), "from": from_}).encode() + b"\n")
        return s, lines
    with hosts() as h:
        r = h.recv()
        for lie in lies:
            s, lines = connect()
            assert json.loads(lines.readline()) == {"ready": True}
            s.sendall(lie + b"\n")
            assert b"protocol error" in lines.read(), lie
            s.shutdown(socket.SHUT_RDWR)
            until("nothing is left of it", lambda: h.files() == [])
        for from_ in (1, -1, 10000, None):  # there is nothing kept
            s, lines = connect(from_)
            assert b"protocol error" in lines.read(), from_
            s.shutdown(socket.SHUT_RDWR)
        s, lines = connect(mtu=1024)
        assert b"differ in mtu" in lines.read()
        s.shutdown(socket.SHUT_RDWR)
        h.works(r)


@rule
def a_receiver_that_lies_once_it_is_connected_is_left():
    """About what it has kept, and about what was sent."""
    lies = [b"{\"saved\": \"" + b"00" * 32 + b"\"}", b"{\"ready\": true}", b"{}", b"{\"checked\": 1}", b"{\"done\": 0}"]
    offers = [{"kept": 100001, "digest": "00" * 32}, {"kept": -1}, {"kept": None}, {"kept": 5}, {"kept": 5, "digest": "00"},
              {"kept": 5, "digest": 7}]
    with hosts() as h:
        path, _ = h.source(100000)
        listener = socket.create_server(("127.0.0.1", 0))
        for lie in offers + lies:
            s = h.send(path, "127.0.0.1:%d" % listener.getsockname()[1], "--mtu", "1000", "--message", "50000")
            c, _ = listener.accept()
            lines = c.makefile("rb")
            told = json.loads(lines.readline())
            info = INFO.pack(0x51524453, 2, b"\0" * 10 + b"\xff\xff" + socket.inet_aton("192.0.2.77"), 0x10000, 0xF00000, 1, 1, 1000,
                             10000, 2, 4, 1, 50000, bytes([10, 18, 4]))
            offer = {"offer": info.hex(), "session": told["session"], "family": 4, "message": 50000, "window": 2, "kept": 0}
            if lie in lies:
                c.sendall(json.dumps(offer).encode() + b"\n")
                connect = json.loads(lines.readline())
                assert "connect" in connect and connect["from"] == 0, connect
                c.sendall(b"{\"ready\": true}\n" + lie + b"\n")
            else:
                c.sendall(json.dumps(dict(offer, **lie)).encode() + b"\n")
            assert b"protocol error" in lines.read(), lie
            c.shutdown(socket.SHUT_RDWR)
            ends_badly(s, "protocol error")
        listener.close()


@rule
def an_unknown_scheme_is_refused_by_name_at_both_ends():
    with hosts() as h:
        path, _ = h.source(1000)
        r = h.recv()
        s = h.send(path, r, "--reliability", "ec-xyz")
        assert s.end(2) == [] and "--reliability must be" in s.stderr() and "ec-xyz" in s.stderr(), s.stderr()
        s = dial(h, r)
        s.sendall(hello(scheme="ec-xyz"))
        said = answer(s)
        assert b"reliability" in said and b"ec-xyz" in said, said
        s.close()
        until("recv says so", lambda: "'ec-xyz'" in r.stderr())
        assert h.files() == []
        h.works(r)


@rule
def a_second_sender_is_told_that_the_receiver_is_busy():
    with hosts() as h:
        path, data = h.source(2 * MB)
        r = h.recv()
        s = h.send(path, r, *SLOW)
        under_way(h, r)
        s.signal(signal.SIGSTOP)  # or it may be through before the other one begins
        ends_badly(h.send(path, r), "busy")
        s.signal(signal.SIGCONT)
        s.end()
        assert h.arrived() == data
        h.works(r)


@rule
def a_peer_that_goes_silent_is_given_up():
    with hosts() as h:
        path, _ = h.source(1000)
        quiet = socket.create_server(("127.0.0.1", 0))
        waiting = h.send(path, "127.0.0.1:%d" % quiet.getsockname()[1])
        r = h.recv("--once")
        s = dial(h, r)
        s.sendall(hello())
        until("it is being served", lambda: h.files() == ["planted.part"])
        assert b"nothing heard" in answer(s)
        s.close()
        ends_badly(r, "nothing heard from it")
        assert h.files() == []
        ends_badly(waiting, "nothing heard")
        quiet.close()


@rule
def a_sender_that_only_says_that_it_is_alive_is_given_up():
    with hosts() as h:
        r = h.recv("--once", "--timeout", "2")
        s = dial(h, r)
        s.sendall(hello())
        until("it is being served", lambda: h.files() == ["planted.part"])
        s.settimeout(0.5)
        data = b""
        for _ in range(180):
            try:
                some = s.recv(65536)
                if not some:
                    break
                data += some
            except TimeoutError:
                pass
            try:
                s.sendall(b"{\"alive\": true}\n")
            except ConnectionError:
                break
        assert b"makes no progress for 2 s" in data, data[-1000:]
        s.close()
        ends_badly(r, "makes no progress")
        assert h.files() == []


@rule
def a_receiver_that_only_says_that_it_is_alive_is_left():
    with hosts() as h:
        path, _ = h.source(1000)
        listener = socket.create_server(("127.0.0.1", 0))
        s = h.send(path, "127.0.0.1:%d" % listener.getsockname()[1], "--timeout", "2")
        c, _ = listener.accept()
        try:
            for _ in range(300):
                c.sendall(b"{\"alive\": true}\n")
                time.sleep(0.3)
                if s.process.poll() is not None:
                    break
        except ConnectionError:
            pass
        ends_badly(s, "it makes no progress for 2 s")
        c.close()
        listener.close()


@rule
def a_hostile_receiver_does_not_hurt_a_sender():
    info = b"00" * 128
    offers = [b"", b"rubbish\n", b"{" * 100000, b"{\"offer\": 1}\n", b"{\"ready\": true}\n", b"{\"error\": \"\\u001b[2Jno\"}\n",
              b"{\"offer\": \"" + info + b"\", \"session\": \"SESSION\", \"family\": 4, \"message\": 1, \"window\": 1}\n"]
    with hosts() as h:
        path, _ = h.source(100000)
        for offer in offers:
            listener = socket.create_server(("127.0.0.1", 0))

            def serve():
                s, _ = listener.accept()
                line = b""
                while b"\n" not in line:
                    line += s.recv(65536)
                try:
                    s.sendall(offer.replace(b"SESSION", json.loads(line)["session"].encode()))
                    s.shutdown(socket.SHUT_WR)
                    answer(s)
                except OSError:
                    pass
                s.close()
            thread = threading.Thread(target=serve)
            thread.start()
            s = h.send(path, "127.0.0.1:%d" % listener.getsockname()[1])
            ends_badly(s, "127.0.0.1")
            assert "\033" not in s.stderr()
            thread.join()
            listener.close()


if __name__ == "__main__":
    net.main()
