# SPDX-License-Identifier: BSD-3-Clause
"""SDR: messages that may arrive in part, a bitmap of their chunks, and reliable messages on top (sdr.h, reliable.h).

The k-th message sent lands in the k-th receive posted. Names and meaning are the C library's: sdr_send_post(3) and its
neighbours tell all. Times are seconds."""

import errno
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._library import NULL, Handle, check, ffi, lib, locked, name_or_null, ps, text_of
from .device import Device, Memory, free_reliable, region_of
from .errors import error

CODES = {"none": 0, "mds": 1, "xor": 2}
SCHEMES = ("sr-rto", "sr-nack", "ec-mds", "ec-xor", "auto")


class Sdr(Handle):
    """What QPs are made of: `Device.sdr()`."""

    _free = staticmethod(lambda p: int(lib.sdr_context_destroy(p)))

    def __init__(self, device: Device, channels: int = 0) -> None:
        with device._lock:
            out = ffi.new("struct sdr_context **")
            attr = ffi.new("struct sdr_context_attr *", {"channels": channels})
            check(lib.sdr_context_create(device._up(), attr, out), "sdr_context_create")
            super().__init__(device, out[0])

    @locked
    def qp(self, mtu: int = 0, chunk_bytes: int = 0, max_message_bytes: int = 0, max_messages: int = 0, generations: int = 0,
           split: Optional[str] = None, rkey: int = 0, qpn: int = 0, rate_bps: int = 0, segments: int = 0,
           control_slots: int = 0, no_send: bool = False, no_recv: bool = False,
           ec: Optional[Tuple[str, int, int]] = None, implicit_credit: bool = False, nonce: int = 0, cts_interval: float = 0,
           max_packet_life: float = 0, family: int = 0, name: Optional[str] = None) -> "Qp":
        """A QP: `struct sdr_qp_attr`; 0 is the default. ec: erasure coding, ("mds" or "xor", k, m)."""
        context = self._up()
        attr, words, text = ffi.new("struct sdr_qp_attr *"), [name_or_null(split), name_or_null(name)], ffi.new("struct sp_error *")
        for key, value in (("mtu", mtu), ("chunk_bytes", chunk_bytes), ("max_message_bytes", max_message_bytes),
                           ("max_messages", max_messages), ("generations", generations), ("rkey", rkey), ("qpn", qpn),
                           ("rate_bps", rate_bps), ("segments", segments), ("control_slots", control_slots),
                           ("no_send", no_send), ("no_recv", no_recv), ("implicit_credit", implicit_credit), ("nonce", nonce),
                           ("cts_interval", ps(cts_interval)), ("max_packet_life", ps(max_packet_life)), ("family", family)):
            setattr(attr, key, value)
        attr.split, attr.name = words
        if ec is not None:
            code, k, m = ec
            if code not in CODES:
                raise error(errno.EINVAL, "code %r is none of %s" % (code, ", ".join(CODES)))
            attr.ec = {"code": CODES[code], "k": k, "m": m}
        out = ffi.new("struct sdr_qp **")
        check(lib.sdr_qp_create(context, attr, out, text), "sdr_qp_create", text)
        return Qp(self, out[0])

    @locked
    def close(self) -> None:
        """EBUSY while it has QPs. A second time does nothing."""
        self._end(lib.sdr_context_destroy, "sdr_context_destroy")


class QpStatus(NamedTuple):
    """`struct sdr_qp_status`."""
    id: int
    connected: bool
    peer_seen: bool
    peer_restarted: bool
    closed: bool
    may_send: int
    granted: int
    completed: int
    repaired: int
    repaired_runs: int
    queued: int
    error: int
    control_bytes: int
    control_lost: int


class Qp(Handle):
    """A QP: `Sdr.qp()`."""

    _free = staticmethod(lambda p: int(lib.sdr_qp_destroy(p)))

    @property
    def info(self) -> bytes:
        """128 bytes for the other end's connect(), to be sent there by any means."""
        with self._lock:
            out = ffi.new("struct sdr_qp_info *")
            check(lib.sdr_qp_info_get(self._up(), out), "sdr_qp_info_get")
            return bytes(ffi.buffer(out))

    @locked
    def connect(self, peer: bytes) -> None:
        """Connects to the QP with that info. EPROTO: the two ends' parameters differ; the text says which."""
        qp, info = self._up(), ffi.new("struct sdr_qp_info *")
        if len(peer) != ffi.sizeof("struct sdr_qp_info"):
            raise error(errno.EINVAL, "an info has %d bytes, not %d" % (ffi.sizeof("struct sdr_qp_info"), len(peer)))
        ffi.memmove(info, peer, len(peer))
        rc = lib.sdr_qp_connect(qp, info)
        different = lib.sdr_qp_mismatch(qp, info) if rc == -errno.EPROTO else NULL
        check(rc, "sdr_qp_connect" + ("" if different == NULL else ": %s differs" % text_of(different)))

    @locked
    def disconnect(self) -> None:
        """Ends the connection for good, and drops what was not sent."""
        check(lib.sdr_qp_disconnect(self._up()), "sdr_qp_disconnect")

    @locked
    def status(self) -> QpStatus:
        """What has become of it."""
        s = ffi.new("struct sdr_qp_status *")
        check(lib.sdr_qp_status(self._up(), s), "sdr_qp_status")
        return QpStatus(*(getattr(s, name) for name in QpStatus._fields))

    @locked
    def send(self, memory: Optional[Memory], offset: int = 0, length: Optional[int] = None, immediate: int = 0) -> "Send":
        """Sends a message, once: what is lost is lost. Again: max_messages are in flight."""
        region, offset, length = region_of(self._device, memory, offset, length)
        out = ffi.new("struct sdr_send **")
        check(lib.sdr_send_post(self._up(), region, offset, length, immediate, out), "sdr_send_post")
        return Send(self, out[0], [memory])

    @locked
    def stream(self, length: int, immediate: int = 0) -> "Send":
        """Begins a message that is sent piece by piece: `Send.piece()`, `Send.end()`."""
        out = ffi.new("struct sdr_send **")
        check(lib.sdr_send_stream_start(self._up(), length, immediate, out), "sdr_send_stream_start")
        return Send(self, out[0], [], True)

    @locked
    def parity_bytes(self, length: int) -> int:
        """Bytes of parity of a message of so many; 0: no erasure coding."""
        return int(lib.sdr_ec_parity_bytes(self._up(), length))

    @locked
    def parity(self, memory: Memory, scratch: Memory, offset: int = 0, length: Optional[int] = None, scratch_offset: int = 0) -> "Send":
        """Sends the parity of the message before; scratch has room for parity_bytes()."""
        region, offset, length = region_of(self._device, memory, offset, length)
        room, scratch_offset, _ = region_of(self._device, scratch, scratch_offset, None)
        out = ffi.new("struct sdr_send **")
        check(lib.sdr_send_parity(self._up(), region, offset, length, room, scratch_offset, out), "sdr_send_parity")
        return Send(self, out[0], [memory, scratch])

    @locked
    def receive(self, memory: Optional[Memory], offset: int = 0, length: Optional[int] = None) -> "Receive":
        """Posts a buffer for the next message. Again: max_messages are posted."""
        region, offset, length = region_of(self._device, memory, offset, length)
        out = ffi.new("struct sdr_recv **")
        check(lib.sdr_recv_post(self._up(), region, offset, length, out), "sdr_recv_post")
        return Receive(self, out[0], memory)

    @locked
    def send_datagram(self, data: bytes) -> None:
        """Sends a small message to the other end's program. It may be lost."""
        check(lib.sdr_control_send(self._up(), ffi.from_buffer(data), len(data)), "sdr_control_send")

    @locked
    def receive_datagram(self) -> Optional[bytes]:
        """Takes the oldest datagram, or None."""
        room = ffi.new("uint8_t[]", lib.SDR_CONTROL_BYTES)
        rc = lib.sdr_control_recv(self._up(), room, len(room))
        return None if rc == -errno.EAGAIN else bytes(ffi.buffer(room, check(rc, "sdr_control_recv")))

    def reliable(self, scheme: str = "sr-nack", **attributes: Any) -> "Reliable":
        """Reliable messages on this QP; attributes as of `Reliable`. Nothing else may send or receive on it then."""
        return Reliable(self, scheme, **attributes)

    @locked
    def close(self) -> None:
        """Destroys it. What was made with it is closed, too. A second time does nothing."""
        self._end(lib.sdr_qp_destroy, "sdr_qp_destroy")


class Send(Handle):
    """A message being sent."""

    def __init__(self, qp: Qp, pointer: Any, memory: List[Optional[Memory]], stream: bool = False) -> None:
        super().__init__(qp, pointer)
        self.number = int(lib.sdr_send_message(pointer))  # k
        self._memory = memory  # stays until the NIC has sent it
        self._over = not stream

    @locked
    def piece(self, memory: Optional[Memory], at: int, offset: int = 0, length: Optional[int] = None) -> None:
        """Sends bytes [at, at + length) of a stream's message: any piece, in any order, any number of times."""
        send = self._up()
        region, offset, length = region_of(self._device, memory, offset, length)
        check(lib.sdr_send_stream_continue(send, region, offset, length, at), "sdr_send_stream_continue")
        if memory not in self._memory:
            self._memory.append(memory)

    @locked
    def end(self) -> None:
        """No more pieces follow."""
        self._over = True
        check(lib.sdr_send_stream_end(self._up()), "sdr_send_stream_end")

    @locked
    def sent(self) -> bool:
        """Whether the buffer is the program's again. The peer may not have the message yet. True stays true."""
        if self._pointer is None:
            return True
        rc = lib.sdr_send_poll(self._up())
        if rc == -errno.EAGAIN:
            return False
        check(rc, "sdr_send_poll")
        # A stream that was not ended goes on.
        if self._over:
            self._gone()
            self._memory = []
        return True

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until sent() is true."""
        self._device._until(self.sent, timeout)

    def close(self) -> None:
        """Ends a stream, and waits until it is sent. A second time does nothing."""
        with self._lock:
            if not self._over and not self.closed:
                self.end()
        if not self.closed:
            self.wait()


class ReceiveStatus(NamedTuple):
    """`struct sdr_recv_status`."""
    message: int
    open: bool
    complete: bool
    length_known: bool
    length: int
    packets: int


class Receive(Handle):
    """A posted receive. Every one needs release(), after which its slot is free for another."""

    def __init__(self, qp: Qp, pointer: Any, memory: Optional[Memory]) -> None:
        super().__init__(qp, pointer)
        self._memory = memory

    @locked
    def status(self) -> ReceiveStatus:
        """How far it is."""
        s = ffi.new("struct sdr_recv_status *")
        check(lib.sdr_recv_status(self._up(), s), "sdr_recv_status")
        return ReceiveStatus(*(getattr(s, name) for name in ReceiveStatus._fields))

    @locked
    def chunks(self) -> List[bool]:
        """Of each chunk, whether all its bytes are in place."""
        bitmap, count = ffi.new("uint64_t **"), ffi.new("uint64_t *")
        check(lib.sdr_recv_bitmap_get(self._up(), ffi.cast("const uint64_t **", bitmap), count), "sdr_recv_bitmap_get")
        n = int(count[0])
        words = [int(bitmap[0][i]) for i in range((n + 63) // 64)]
        return [bool(words[i // 64] >> i % 64 & 1) for i in range(n)]

    @locked
    def packets(self, chunk: int) -> List[bool]:
        """Of each packet of a chunk, whether it has arrived. Asks the NIC."""
        words, count = ffi.new("uint64_t[]", 1024), ffi.new("uint64_t *")
        check(lib.sdr_recv_packets_get(self._up(), chunk, words, len(words), count), "sdr_recv_packets_get")
        return [bool(words[i // 64] >> i % 64 & 1) for i in range(count[0])]

    @locked
    def immediate(self) -> int:
        """The user's immediate. Again: not all of it has arrived. ENODATA: it never will."""
        out = ffi.new("uint32_t *")
        check(lib.sdr_recv_imm_get(self._up(), out, NULL), "sdr_recv_imm_get")
        return int(out[0])

    @locked
    def complete(self) -> bool:
        """Whether all chunks have arrived."""
        rc = lib.sdr_recv_test(self._up())
        return rc != -errno.EAGAIN and check(rc, "sdr_recv_test") == 0

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until complete() is true."""
        self._device._until(self.complete, timeout)

    @locked
    def _released(self) -> bool:
        if self._pointer is None:
            return True
        rc = lib.sdr_recv_complete(self._up())
        if rc == -errno.EAGAIN:
            return False
        check(rc, "sdr_recv_complete")
        self._gone()
        self._memory = None
        return True

    def release(self, timeout: Optional[float] = 10) -> None:
        """Takes the buffer back, complete or not: late packets do not write to it. A second time does nothing."""
        if not self.closed:
            self._device._until(self._released, timeout)

    def close(self) -> None:
        """release()."""
        self.release()


class Reliable(Handle):
    """Reliable messages: `Qp.reliable()`. Times are seconds; 0 is the default: `struct sdr_reliable_attr`."""

    _free = staticmethod(free_reliable)

    def __init__(self, qp: Qp, scheme: str = "sr-nack", rtt: float = 0, rto_quarters: int = 0, reorder: float = 0,
                 timeout: float = 0, recv_timeout: float = 0, rate_bps: int = 0, polls: int = 0, in_flight: int = 0,
                 coding_rate: int = 0, queued_bytes: int = 0) -> None:
        with qp._lock:
            out = ffi.new("struct sdr_reliable **")
            if scheme not in SCHEMES:
                raise error(errno.EINVAL, "scheme %r is none of %s" % (scheme, ", ".join(SCHEMES)))
            attr = ffi.new("struct sdr_reliable_attr *", {
                "scheme": SCHEMES.index(scheme), "rtt": ps(rtt), "rto_quarters": rto_quarters, "reorder": ps(reorder),
                "timeout": ps(timeout), "recv_timeout": ps(recv_timeout), "rate_bps": rate_bps, "polls": polls,
                "in_flight": in_flight, "coding_rate": coding_rate, "queued_bytes": queued_bytes})
            check(lib.sdr_reliable_open(qp._up(), attr, out), "sdr_reliable_open with %s" % scheme)
            super().__init__(qp, out[0])
            self._device._drive(self)
            self._failed = 0

    def _progress(self, now: int) -> None:
        if not self.closed:
            self._failed = lib.sdr_reliable_progress(self._pointer, now)  # the operations tell it, too

    def _deadline(self) -> int:
        return 2 ** 64 - 1 if self.closed or self._failed else int(lib.sdr_reliable_deadline(self._pointer))

    @locked
    def send(self, memory: Optional[Memory], offset: int = 0, length: Optional[int] = None, immediate: int = 0) -> "Operation":
        """Sends a message. The bytes must not change until the operation has ended. Again: max_messages are in use."""
        region, offset, length = region_of(self._device, memory, offset, length)
        out = ffi.new("struct sdr_reliable_op **")
        check(lib.sdr_reliable_send(self._up(), region, offset, length, immediate, out), "sdr_reliable_send")
        return Operation(self, out[0], memory)

    @locked
    def receive(self, memory: Optional[Memory], offset: int = 0, length: Optional[int] = None) -> "Operation":
        """Posts a buffer for the next message."""
        region, offset, length = region_of(self._device, memory, offset, length)
        out = ffi.new("struct sdr_reliable_op **")
        check(lib.sdr_reliable_recv(self._up(), region, offset, length, out), "sdr_reliable_recv")
        return Operation(self, out[0], memory)

    @locked
    def status(self) -> Dict[str, Any]:
        """Counts of units, retransmissions, acknowledgements...: `struct sdr_reliable_status`; times in ps."""
        s = ffi.new("struct sdr_reliable_status *")
        lib.sdr_reliable_status(self._up(), s)
        return {name: list(getattr(s, name)) if name == "coded_of" else int(getattr(s, name))
                for name, _ in ffi.typeof("struct sdr_reliable_status").fields}

    @locked
    def close(self, quiet: float = 0, timeout: float = 10) -> None:
        """Ends it. quiet: seconds for which the peer must have asked for nothing, so that it has the last
        acknowledgement; 0: at once, and unfinished operations are abandoned. A second time does nothing."""
        until = ps(quiet)
        self._end(lambda p: int(lib.sdr_reliable_close(p, until)), "sdr_reliable_close", timeout)


class OperationStatus(NamedTuple):
    """`struct sdr_reliable_op_status`, without the bitmap."""
    message: int
    length: int
    units: int
    done: int
    immediate: int
    mask: int


class Operation(Handle):
    """A reliable message being sent, or a receive."""

    def __init__(self, reliable: Reliable, pointer: Any, memory: Optional[Memory]) -> None:
        super().__init__(reliable, pointer)
        self._memory = memory

    @locked
    def done(self) -> bool:
        """Whether it has ended well. An operation that has failed raises: Timeout, ECANCELED, EMSGSIZE, EREMOTEIO,
        ECONNABORTED (sdr_reliable_poll(3))."""
        rc = lib.sdr_reliable_poll(self._up())
        return rc != -errno.EAGAIN and check(rc, "the message") == 0

    def wait(self, timeout: Optional[float] = None) -> "Operation":
        """Waits until it has ended. Timeout: it has not, or has failed so. close() it afterwards."""
        self._device._until(self.done, timeout)
        return self

    @locked
    def cancel(self) -> None:
        """It ends with ECANCELED, unless it has ended before."""
        lib.sdr_reliable_cancel(self._up())

    @locked
    def status(self) -> OperationStatus:
        """How far it is, and what came."""
        s = ffi.new("struct sdr_reliable_op_status *")
        lib.sdr_reliable_op_status(self._up(), s)
        return OperationStatus(*(int(getattr(s, name)) for name in OperationStatus._fields))

    @locked
    def close(self) -> None:
        """Frees its place for another operation. EBUSY: it has not ended. A second time does nothing."""
        self._end(lib.sdr_reliable_op_free, "sdr_reliable_op_free")
        self._memory = None
