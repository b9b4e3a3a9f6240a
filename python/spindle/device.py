# SPDX-License-Identifier: BSD-3-Clause
"""A NIC as an application sees it, its memory, and execution contexts of any handler."""

import errno
import os
import socket
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._library import NULL, Handle, Settings, check, ffi, ip_text, lib, locked, name_or_null, ps
from .errors import Error, ExportedError, error

if TYPE_CHECKING:
    from .rdma import Rdma
    from .rvma import Rvma
    from .sdr import Sdr


def free_reliable(pointer: Any) -> int:
    """Handle._free of spindle.sdr.Reliable."""
    return int(lib.sdr_reliable_close(pointer, 0))


_SLICE = 20 * 10 ** 9  # ps: how long a waiting thread keeps others from the device


class Device:
    """A NIC. Do not make it yourself: `attach()` and `World.nic()` do.

    Threads: every method may be called from any thread. One call at a time runs on a device and all that hangs off it
    (on all NICs of a `World`); the others wait for it. A child after fork() must not use the device: EPERM says so."""

    _wakes = True  # sp_dev_wait() can be used

    def __init__(self, pointer: Any, lock: Any) -> None:
        self._pointer: Any = pointer
        self._lock = lock
        self._device = self
        self._pid = os.getpid()
        self._memories: "weakref.WeakSet[Memory]" = weakref.WeakSet()
        self._dropped: Deque[Any] = deque()  # regions whose Memory is gone: freed by the next call
        self._pins: List[Any] = []           # what the NIC may still read of the program's own memory
        self._driven: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()  # has _progress(), _deadline()
        self._drives = 0
        self._owned: Dict[int, Tuple[Any, Callable[[Any], int], Any, int]] = {}  # what Handle._free is for
        self._keys = 0

    # ---- life ----
    def _up(self) -> Any:
        if self._pointer is None:
            raise error(errno.EBADF, "this %s is closed" % type(self).__name__)
        if self._pid != os.getpid():
            raise error(errno.EPERM, "the %s belongs to the process that this one was forked from" % type(self).__name__)
        while self._dropped:
            region, pin = self._dropped.popleft()
            if lib.sp_mr_free(region) and pin is not None:
                self._pins.append(pin)
        return self._pointer

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def _exported(self) -> None:
        views = sum(1 for m in self._memories if m.exported)
        if views:
            raise ExportedError(errno.EBUSY, "views of %d regions of memory exist (release memoryviews, delete arrays)" % views)

    @locked
    def close(self) -> None:
        """Closes all that hangs off the device, and frees its memory. A second time does nothing. ExportedError."""
        if self._pointer is None:
            return
        self._up()
        self._exported()
        self._shut()

    def _shut(self) -> None:
        if self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            self._free_owned(None)
            lib.sp_dev_close(pointer)

    def __del__(self) -> None:
        # No view, memory or handle is left, as they hold the device. In a child it is not ours.
        if getattr(self, "_pointer", None) is not None and self._pid == os.getpid():
            self._shut()

    def _own(self, handle: Any, parent: Any) -> int:
        self._keys += 1
        self._owned[self._keys] = (weakref.ref(handle), type(handle)._free, handle._pointer, getattr(parent, "_key", 0))
        return self._keys

    def _free_owned(self, parent: Optional[int]) -> None:
        """Frees what the library keeps of all that hangs off the device (None), or only of what its parent cannot end
        before: reliable messages of a QP. Handles that nobody holds any more are among them. Later ones hang off earlier
        ones."""
        for key in sorted(self._owned, reverse=True):
            handle, free, pointer, above = self._owned[key]
            if parent is not None and (above != parent or not parent or free is not free_reliable):
                continue
            for _ in range(100):  # what still says no is left for the end of the process
                if free(pointer) not in (-errno.EAGAIN, -errno.EBUSY):
                    break
            del self._owned[key]
            one = handle()
            if one is not None:
                one._gone()

    def __enter__(self) -> "Device":
        self._up()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- time ----
    def _drive(self, one: Any) -> None:
        self._drives += 1
        self._driven[self._drives] = one

    def _in_order(self) -> List[Any]:
        """What is driven, in the order in which it was made: that of objects in memory would make each run another one."""
        return list(self._driven.values())

    def _now(self) -> int:
        return int(lib.sp_clock())

    @locked
    def progress(self) -> int:
        """Does what is due for the program's side of reliable transfers; waiting does that itself. Returns when it must
        be called again at the latest, in ps of the device's clock."""
        self._up()
        now, next_ = self._now(), 2 ** 64 - 1
        for one in self._in_order():
            one._progress(now)
            next_ = min(next_, one._deadline())
        return next_

    def _until(self, done: Callable[[], object], timeout: Optional[float], arm: Optional[Callable[[], object]] = None) -> None:
        """Waits until done() is true. arm: makes the NIC tell of what done() looks at."""
        end = None if timeout is None else self._now() + ps(timeout)
        while True:
            with self._lock:
                pointer = self._up()
                check(lib.sp_dev_arm(pointer), "sp_dev_arm")
                if arm:
                    arm()
                next_ = self.progress()
                if done():
                    return
                now = self._now()
                if end is not None and now >= end:
                    raise error(errno.ETIMEDOUT, "after %s s" % timeout)
                until = min(next_, now + _SLICE, end if end is not None else now + _SLICE)
                rc = lib.sp_dev_wait(pointer, max(until - now, 0))
                if rc not in (-errno.ETIMEDOUT, -errno.EINTR):
                    check(rc, "sp_dev_wait")

    def wait(self, done: Callable[[], object], timeout: Optional[float] = None) -> None:
        """Waits until done() is true, and lets the NIC and reliable transfers go on meanwhile. timeout: seconds of the
        device's clock (virtual ones in a World); None: no limit. Timeout."""
        self._until(done, timeout)

    # ---- what hangs off it ----
    @locked
    def memory(self, size: int) -> "Memory":
        """Memory that the NIC makes: page aligned, zeroed."""
        out = ffi.new("struct sp_mr **")
        check(lib.sp_mr_alloc(self._up(), size, out), "memory of %d bytes" % size)
        return Memory(self, out[0], None)

    @locked
    def register(self, buffer: Any) -> "Memory":
        """Registers a writable object with a buffer (bytearray, array, numpy array) without copying it. Only with an
        embedded NIC. The object cannot be resized until the Memory is closed."""
        pointer = self._up()
        pin = ffi.from_buffer(buffer, require_writable=True)
        out = ffi.new("struct sp_mr **")
        check(lib.sp_mr_reg(pointer, pin, len(pin), out), "registering %d bytes" % len(pin))
        return Memory(self, out[0], pin)

    @locked
    def context(self, handler: str, settings: Mapping[str, object] = {}, name: Optional[str] = None) -> "Context":
        """An execution context with this handler; settings as in nic.ini."""
        words, text = Settings(settings), ffi.new("struct sp_error *")
        number = ffi.new("uint32_t *")
        check(lib.sp_context_open(self._up(), name_or_null(name), handler.encode(), words.array, words.count, number, text),
              "context of %s" % handler, text)
        return Context(self, number[0])

    def sdr(self, channels: int = 0) -> "Sdr":
        """Messages that may arrive in part: `spindle.sdr`."""
        from .sdr import Sdr
        return Sdr(self, channels)

    def rvma(self, **attributes: Any) -> "Rvma":
        """Puts to mailboxes: `spindle.rvma`. Attributes as of `Rvma`."""
        from .rvma import Rvma
        return Rvma(self, **attributes)

    def rdma(self, **attributes: Any) -> "Rdma":
        """Verbs: `spindle.rdma`. Attributes as of `Rdma`."""
        from .rdma import Rdma
        return Rdma(self, **attributes)

    # ---- what it says ----
    @locked
    def address(self, family: int = socket.AF_INET) -> str:
        """The NIC's first address of that family."""
        ip = ffi.new("uint8_t[16]")
        check(lib.sp_dev_address(self._up(), family, ip), "address")
        return ip_text(bytes(ip))

    @locked
    def payload(self, family: int = socket.AF_INET) -> int:
        """Bytes of RoCEv2 payload of a packet with the port's MTU."""
        return int(lib.sp_dev_payload(self._up(), family))


def attach(nic: Optional[str] = None) -> Device:
    """Attaches to a NIC of another process (`spindle run`). nic: its name, or the path of its socket; None:
    $SPINDLE_NIC, or spindle0."""
    out = ffi.new("struct sp_dev **")
    check(lib.sp_attach(name_or_null(nic), out), "attaching to %s" % (nic or os.environ.get("SPINDLE_NIC", "spindle0")))
    return Device(out[0], threading.RLock())


class Memory(Handle):
    """Memory that the NIC may read and write. `view()` and `numpy()` are that memory itself, not a copy of it.

    It lives while the Memory or any view of it does. close() is refused while views exist (ExportedError). Threads: the
    NIC and other threads may write while you read, as with any shared memory."""

    def __init__(self, device: Device, region: Any, pin: Any) -> None:
        super().__init__(device, region)
        self._pin = pin
        self._size = int(region.len)
        self._address = int(ffi.cast("uintptr_t", region.addr))
        self._export: Optional[Callable[[], Any]] = None
        device._memories.add(self)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None and not self._device.closed:
            self._device._dropped.append((self._pointer, self._pin))
        # A registered view of NIC's memory can be in one circle with us. Python cannot take that apart while it is pinned.
        self._pin = None

    def __len__(self) -> int:
        return self._size

    @property
    def exported(self) -> bool:
        """Whether views of it exist."""
        return self._export is not None and self._export() is not None

    @locked
    def view(self) -> memoryview:
        """A writable memoryview of all of it."""
        self._up()
        whole = self._export() if self._export is not None else None
        if whole is None:
            # The buffer holds the pointer, whose destructor holds this object: it all lives as long as the last view.
            pointer = ffi.gc(ffi.cast("char *", self._address), lambda _, owner=self: None)
            whole = ffi.buffer(pointer, self._size)
            self._export = weakref.ref(whole)
        return memoryview(whole)

    def __buffer__(self, flags: int) -> memoryview:  # Python 3.12 and later: memoryview(memory)
        return self.view()

    def numpy(self, dtype: Any = "uint8", offset: int = 0, count: int = -1) -> Any:
        """A numpy array of this memory."""
        import numpy
        return numpy.frombuffer(self.view(), dtype=dtype, offset=offset, count=count)

    def read(self, offset: int = 0, length: Optional[int] = None) -> bytes:
        """A copy of some of it."""
        length = self._size - offset if length is None else length
        self._range(offset, length)
        with self.view() as v:
            return bytes(v[offset:offset + length])

    def write(self, data: Union[bytes, bytearray, memoryview], offset: int = 0) -> None:
        """Copies data into it."""
        with memoryview(data) as given, given.cast("B") as d, self.view() as v:
            self._range(offset, len(d))
            v[offset:offset + len(d)] = d

    def _range(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise error(errno.EFAULT, "%d bytes at %d of %d" % (length, offset, self._size))

    @locked
    def close(self) -> None:
        """Gives it back. A second time does nothing. ExportedError; EBUSY while a posted buffer or a send uses it."""
        if self.closed:
            return
        if self.exported:
            raise ExportedError(errno.EBUSY, "views of this memory exist (release memoryviews, delete arrays)")
        check(lib.sp_mr_free(self._up()), "closing memory")
        self._gone()
        self._pin = None


def region_of(device: Device, memory: Optional[Memory], offset: int, length: Optional[int]) -> Any:
    """(struct sp_mr *, offset, length) for a call of the library; length None: up to the end."""
    if memory is None:
        if length:
            raise error(errno.EINVAL, "%d bytes of no memory" % length)
        return NULL, 0, 0
    if not isinstance(memory, Memory):
        raise TypeError("a spindle.Memory is needed, not %s (Device.register makes one)" % type(memory).__name__)
    if memory._device is not device:
        raise error(errno.EINVAL, "the memory belongs to another NIC")
    pointer = memory._up()
    length = len(memory) - offset if length is None else length
    memory._range(offset, length)
    return pointer, offset, length


class Event(NamedTuple):
    """What a context tells: `struct sp_event`."""
    type: int
    op: int
    status: int
    cookie: int
    arg: Sequence[int]


class Context(Handle):
    """An execution context of any handler, with the commands that its wire header names."""

    def __init__(self, device: Device, number: int) -> None:
        super().__init__(device, number)
        self.id = number

    @locked
    def qp(self) -> int:
        """Its first QP number; 0: it has none."""
        out = ffi.new("uint32_t *")
        check(lib.sp_context_qp(self._device._up(), self._up(), out), "context")
        return int(out[0])

    @locked
    def area(self) -> bytes:
        """A copy of the area that context and application share."""
        address, length = ffi.new("void **"), ffi.new("uint64_t *")
        check(lib.sp_context_area(self._device._up(), self._up(), address, length), "context")
        return bytes(ffi.buffer(address[0], length[0])) if address[0] != NULL else b""

    def _command(self, op: int, arg: Sequence[int], cookie: int, flags: int) -> Any:
        if len(arg) > 6:
            raise error(errno.EINVAL, "a command has at most 6 arguments, not %d" % len(arg))
        return ffi.new("struct sp_command *", {"op": op, "flags": flags, "context": self._up(), "cookie": cookie, "arg": list(arg)})

    @locked
    def post(self, op: int, arg: Sequence[int] = (), cookie: int = 0, flags: int = 0) -> None:
        """Hands a command over. Again: the queue is full."""
        check(lib.sp_command_post(self._device._up(), self._command(op, arg, cookie, flags)), "command")

    @locked
    def call(self, op: int, arg: Sequence[int] = (), cookie: int = 0) -> Event:
        """A command, and its result."""
        event = ffi.new("struct sp_event *")
        check(lib.sp_command_call(self._device._up(), self._command(op, arg, cookie, 0), event), "command %d" % op)
        return _event(event)

    @locked
    def event(self) -> Optional[Event]:
        """Takes the oldest event, or None."""
        event = ffi.new("struct sp_event *")
        return _event(event) if check(lib.sp_event_take(self._device._up(), self._up(), event), "context") else None

    @locked
    def close(self) -> None:
        """Ends it. A second time does nothing."""
        if not self.closed:
            check(lib.sp_context_close(self._device._up(), self._up()), "closing a context")
            self._gone()


def _event(e: Any) -> Event:
    return Event(e.type, e.op, e.status, e.cookie, tuple(e.arg))
