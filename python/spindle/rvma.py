# SPDX-License-Identifier: BSD-3-Clause
"""RVMA: puts name a mailbox, the receiver owns the memory (rvma.h, docs/rvma.md). Times are seconds."""

import enum
import errno
from typing import Any, List, NamedTuple, Optional, Tuple

from ._library import Handle, check, ffi, ip_text, lib, locked, name_or_null, packed_ip, ps, text_of
from .device import Device, Memory, region_of
from .errors import error


class Epoch(enum.IntEnum):
    """What the threshold of a buffer counts."""
    BYTES = 0
    OPS = 1


class Mode(enum.IntEnum):
    """Where puts land: at the offset that they name; one behind the other; or in one buffer that is never completed."""
    STEERED = 0
    MANAGED = 1
    REGION = 2


class Address(NamedTuple):
    """Where puts go: `Rvma.address`."""
    ip: str
    qpn: int


class Rvma(Handle):
    """Mailboxes and operations: `Device.rvma()`. `struct rvma_attr`; 0 is the default."""

    _free = staticmethod(lambda p: int(lib.rvma_close(p)))

    def __init__(self, device: Device, mtu: int = 0, qpn: int = 0, windows: int = 0, buffers: int = 0, counters: int = 0,
                 peers: int = 0, ops: int = 0, rate_bps: int = 0, nack_rate: int = 0, timeout: float = 0, ack_delay: float = 0,
                 family: int = 0, name: Optional[str] = None) -> None:
        with device._lock:
            word, text, out = name_or_null(name), ffi.new("struct sp_error *"), ffi.new("struct rvma **")
            attr = ffi.new("struct rvma_attr *", {
                "mtu": mtu, "qpn": qpn, "windows": windows, "buffers": buffers, "counters": counters, "peers": peers,
                "ops": ops, "rate_bps": rate_bps, "nack_rate": nack_rate, "timeout": ps(timeout), "ack_delay": ps(ack_delay),
                "family": family, "name": word})
            check(lib.rvma_open(device._up(), attr, out, text), "rvma_open", text)
            super().__init__(device, out[0])

    @property
    def address(self) -> Address:
        """For `peer()` at the other end."""
        with self._lock:
            a = ffi.new("struct rvma_address *")
            check(lib.rvma_address_get(self._up(), a), "rvma_address_get")
            return Address(ip_text(bytes(a.ip)), int(a.qpn))

    @locked
    def peer(self, address: Tuple[str, int]) -> "Peer":
        """Another Rvma, anywhere. Sends no packet."""
        a, out = ffi.new("struct rvma_address *"), ffi.new("struct rvma_peer **")
        ip, qpn = address
        a.ip, a.qpn = packed_ip(ip), qpn
        check(lib.rvma_peer_open(self._up(), a, out), "rvma_peer_open to %s QP %d" % (ip, qpn))
        return Peer(self, out[0])

    @locked
    def window(self, mailbox: int, key: int = 0, threshold: int = 0, type: Epoch = Epoch.BYTES, mode: Mode = Mode.STEERED,
               catch_all: bool = False, silent: bool = False, readable: bool = False, forget: bool = False,
               max_buffers: int = 0, max_bytes: int = 0, max_put: int = 0, max_rate: int = 0) -> "Window":
        """A mailbox: `struct rvma_window_attr`. EEXIST: it has a window."""
        out = ffi.new("struct rvma_window **")
        attr = ffi.new("struct rvma_window_attr *", {
            "key": key, "threshold": threshold, "type": int(Epoch(type)), "mode": int(Mode(mode)), "catch_all": catch_all,
            "silent": silent, "readable": readable, "forget": forget, "max_buffers": max_buffers, "max_bytes": max_bytes,
            "max_put": max_put, "max_rate": max_rate})
        check(lib.rvma_init_window(self._up(), mailbox, attr, out), "rvma_init_window of mailbox %#x" % mailbox)
        return Window(self, out[0])

    @locked
    def close(self) -> None:
        """Ends all windows, peers and operations. Peers are told. A second time does nothing."""
        self._end(lib.rvma_close, "rvma_close")


class Completed(NamedTuple):
    """A completed buffer. memory, offset: where it is."""
    memory: Memory
    offset: int
    length: int
    epoch: int
    partial: bool
    lost: bool
    ended: bool
    mailbox: int


class WindowStatus(NamedTuple):
    """`struct rvma_window_status`."""
    epoch: int
    posted: int
    held: int
    puts: int
    bytes: int
    refused: int
    closed: bool


class Window(Handle):
    """A mailbox: `Rvma.window()`."""

    def __init__(self, rvma: Rvma, pointer: Any) -> None:
        super().__init__(rvma, pointer)
        self._posted: List[Memory] = []

    @locked
    def post(self, memory: Memory, offset: int = 0, length: Optional[int] = None, threshold: int = 0) -> None:
        """Appends a buffer to the mailbox's bucket. The NIC owns it until it is completed."""
        region, offset, length = region_of(self._device, memory, offset, length)
        buffer = ffi.new("struct rvma_buffer *", {"mr": region, "offset": offset, "size": length, "threshold": threshold})
        check(lib.rvma_post_buffer(self._up(), buffer), "rvma_post_buffer")
        if memory not in self._posted:
            self._posted.append(memory)

    @property
    def epoch(self) -> int:
        """How many buffers have been completed."""
        with self._lock:
            out = ffi.new("uint64_t *")
            check(lib.rvma_win_get_epoch(self._up(), out), "rvma_win_get_epoch")
            return int(out[0])

    def wait(self, epoch: int, timeout: Optional[float] = None) -> None:
        """Waits until so many buffers have been completed."""
        self._device._until(lambda: self.epoch >= epoch, timeout)

    @locked
    def status(self) -> WindowStatus:
        """What has become of it."""
        s = ffi.new("struct rvma_window_status *")
        check(lib.rvma_win_status(self._up(), s), "rvma_win_status")
        return WindowStatus(*(getattr(s, name) for name in WindowStatus._fields))

    def _completed(self, c: Any) -> Completed:
        at = int(ffi.cast("uintptr_t", c.address))
        for memory in self._posted:
            if memory._address <= at < memory._address + len(memory):
                return Completed(memory, at - memory._address, int(c.length), int(c.epoch), bool(c.flags & lib.RVMA_PARTIAL),
                                 bool(c.flags & lib.RVMA_LOST), bool(c.flags & lib.RVMA_ENDED), int(c.mailbox))
        raise error(errno.EFAULT, "the buffer of epoch %d was posted by nobody" % c.epoch)

    @locked
    def completed(self) -> List[Completed]:
        """The completed buffers that were not released, oldest first."""
        held = self.status().held
        out = ffi.new("struct rvma_completed[]", max(held, 1))
        return [self._completed(out[i]) for i in range(check(lib.rvma_win_get_buf_ptrs(self._up(), out, held), "rvma_win_get_buf_ptrs"))]

    @locked
    def release(self, epoch: int) -> None:
        """Releases this epoch and all before."""
        check(lib.rvma_win_release(self._up(), epoch), "rvma_win_release of epoch %d" % epoch)

    @locked
    def rewind(self, epoch: int) -> Completed:
        """Makes this epoch the latest completed one again. ENODATA: never completed, or released."""
        out = ffi.new("struct rvma_completed *")
        check(lib.rvma_win_rewind(self._up(), epoch, out), "rvma_win_rewind to epoch %d" % epoch)
        return self._completed(out)

    @locked
    def inc_epoch(self) -> None:
        """Completes the head buffer as it is. ENODATA: there is none."""
        check(lib.rvma_win_inc_epoch(self._up()), "rvma_win_inc_epoch")

    @locked
    def shut(self) -> None:
        """Refuses further puts, and completes all buffers in order."""
        check(lib.rvma_close_win(self._up()), "rvma_close_win")

    @locked
    def close(self) -> None:
        """Ends it; buffers that were not completed are the program's again. A second time does nothing."""
        self._end(lib.rvma_free_win, "rvma_free_win")
        self._posted = []


class Peer(Handle):
    """Where puts go: `Rvma.peer()`."""

    @locked
    def put(self, mailbox: int, memory: Optional[Memory], offset: int = 0, length: Optional[int] = None, key: int = 0,
            at: Optional[int] = None, fenced: bool = False) -> "Operation":
        """Puts bytes of memory to the mailbox, at `at` of its head buffer (None: at its begin, or behind what is there,
        by the window's mode). They must not change until the operation has ended. fenced: counted only when all that was
        sent to the peer before has arrived. Again: too many in flight."""
        region, offset, length = region_of(self._device, memory, offset, length)
        if fenced and at is not None:
            raise error(errno.EINVAL, "a fenced put names no offset")
        out = ffi.new("struct rvma_op **")
        if fenced:
            rc = lib.rvma_put_fenced(self._up(), mailbox, key, region, offset, length, out)
        elif at is None:
            rc = lib.rvma_put(self._up(), mailbox, key, region, offset, length, out)
        else:
            rc = lib.rvma_put_at(self._up(), mailbox, key, region, offset, length, at, out)
        check(rc, "rvma_put to mailbox %#x" % mailbox)
        return Operation(self, out[0], memory)

    @locked
    def get(self, mailbox: int, memory: Memory, offset: int = 0, length: Optional[int] = None, key: int = 0, at: int = 0,
            back: int = 0) -> "Operation":
        """Reads from `at` on of the mailbox's latest completed buffer, or of the one so many epochs back."""
        region, offset, length = region_of(self._device, memory, offset, length)
        out = ffi.new("struct rvma_op **")
        check(lib.rvma_get(self._up(), mailbox, key, back, at, region, offset, length, out), "rvma_get of mailbox %#x" % mailbox)
        return Operation(self, out[0], memory)

    @locked
    def close(self) -> None:
        """EBUSY while operations are in flight. A second time does nothing."""
        self._end(lib.rvma_peer_close, "rvma_peer_close")


class Operation(Handle):
    """A put or get in flight."""

    def __init__(self, peer: Peer, pointer: Any, memory: Optional[Memory]) -> None:
        super().__init__(peer, pointer)
        self._memory = memory
        self._result: Optional[int] = None

    @locked
    def done(self) -> bool:
        """Whether it was delivered. One that was refused or lost raises, always again: rvma_op_test(3) lists the
        reasons."""
        if self._result is None:
            rc = lib.rvma_op_test(self._up())
            if rc == -errno.EAGAIN:
                return False
            self._result = rc
            self._gone()
            self._memory = None
        if self._result < 0:
            raise error(-self._result, text_of(lib.rvma_op_reason(self._result)))
        return True

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until it has ended."""
        self._device._until(self.done, timeout)

    def close(self, timeout: Optional[float] = None) -> None:
        """Waits until it has ended, well or not. A second time does nothing."""
        def ended() -> bool:
            try:
                return self.done()
            except OSError:
                return True
        if not self.closed:
            self._device._until(ended, timeout)
