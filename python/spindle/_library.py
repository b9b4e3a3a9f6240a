# SPDX-License-Identifier: BSD-3-Clause
"""The shared libraries, by cffi in ABI mode, and what all wrapped objects have in common."""

import errno
import functools
import ipaddress
import os
import threading
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, TypeVar, Union, cast

from cffi import FFI

from .errors import error

# File of declarations -> the library that has them.
_FILES = {"libspindle.h": "libspindle", "libspindle-rdma.h": "libspindle", "libspindle-nic.h": "libspindle-nic",
          "libspindle-world.h": "libspindle-world"}
VERSIONS = {"libspindle": "1", "libspindle-nic": "0", "libspindle-world": "0"}  # of their interfaces: the ends of the names

PS = 10 ** 12  # picoseconds of a second: the library's unit of time
F = TypeVar("F", bound=Callable[..., Any])


def _declare() -> Any:
    one = FFI()
    for name in _FILES:
        with open(os.path.join(os.path.dirname(__file__), "declarations", name), encoding="utf-8") as f:
            one.cdef(f.read())
    one.cdef("void free(void *);")
    return one


ffi: Any = _declare()
NULL = ffi.NULL
libc: Any = ffi.dlopen(None)
_opened: Dict[str, Any] = {}
_opening = threading.Lock()


def library(name: str) -> Any:
    """libspindle, libspindle-nic or libspindle-world; opened when first needed.

    $SPINDLE_LIBRARIES: directories (with : between them) where to look first, for a build that is not installed."""
    with _opening:
        if name not in _opened:
            file = "%s.so.%s" % (name, VERSIONS[name])
            places = [os.path.join(d, file) for d in os.environ.get("SPINDLE_LIBRARIES", "").split(":") if d]
            try:
                _opened[name] = ffi.dlopen(next((p for p in places if os.path.exists(p)), file))
            except OSError as e:
                raise error(errno.ENOENT, "%s cannot be loaded (is it installed? SPINDLE_LIBRARIES names directories to "
                            "look into): %s" % (file, e)) from None
        return _opened[name]


class _Lazy:
    """A library that is opened by its first use, so that a program without NICs of its own needs no DPDK."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(library(self._name), name)


lib: Any = _Lazy("libspindle")
nic_lib: Any = _Lazy("libspindle-nic")
world_lib: Any = _Lazy("libspindle-world")


def check(result: int, what: str, sp_error: Any = None) -> int:
    """The result of a call, or the exception for its -errno. sp_error: the library's struct sp_error, or nothing."""
    if result >= 0:
        return result
    if sp_error is not None and sp_error.text[0] != b"\0":
        key = text_of(sp_error.key)
        what += ": %s%s" % (key + ": " if key else "", text_of(sp_error.text))
    raise error(-result, what)


def text_of(chars: Any) -> str:
    return cast(bytes, ffi.string(chars)).decode("utf-8", "replace")


def ps(seconds: Optional[float]) -> int:
    """Seconds as the library's picoseconds; None: never."""
    if seconds is None:
        return 2 ** 64 - 1
    if not 0 <= seconds < 213 * 86400:  # also refuses NaN
        raise error(errno.EINVAL, "a time of %r s" % seconds)
    return round(seconds * PS)


def packed_ip(address: str) -> bytes:
    """16 bytes, IPv4 mapped into IPv6."""
    if not isinstance(address, str):
        raise TypeError("an address is a text, not %s" % type(address).__name__)
    try:
        ip = ipaddress.ip_address(address)
    except ValueError as e:
        raise error(errno.EINVAL, str(e)) from None
    return ip.packed if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + ip.packed


def ip_text(packed: bytes) -> str:
    ip = ipaddress.IPv6Address(bytes(packed))
    return str(ip.ipv4_mapped or ip)


class Settings:
    """Settings of a context, as the array that the library takes; alive as long as this object."""

    def __init__(self, settings: Union[Mapping[str, object], Iterable[Tuple[str, object]]]) -> None:
        pairs = list(settings.items() if isinstance(settings, Mapping) else settings)
        self._keep: List[Any] = [(ffi.new("char[]", k.encode()), ffi.new("char[]", str(v).encode())) for k, v in pairs]
        self.count = len(pairs)
        self.array = ffi.new("struct sp_setting[]", self._keep) if pairs else NULL


def name_or_null(name: Optional[str]) -> Any:
    return NULL if name is None else ffi.new("char[]", name.encode())


def locked(method: F) -> F:
    """One thread at a time for a device and everything that hangs off it, as the library demands."""
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)
    return cast(F, call)


class Handle:
    """What hangs off a device: usable until it, or one of those above it, is closed."""

    # Of what has memory of the library's that closing the device does not free: the call that frees it.
    _free: Optional[Callable[[Any], int]] = None

    def __init__(self, parent: Any, pointer: Any) -> None:
        self._parent = parent
        self._device = getattr(parent, "_device")
        self._lock = self._device._lock
        self._pointer: Any = pointer
        self._key = self._device._own(self, parent) if self._free else 0

    def _up(self) -> Any:
        """The pointer, for a call of the library. ClosedError."""
        if self._pointer is None:
            raise error(errno.EBADF, "this %s is closed" % type(self).__name__)
        self._parent._up()
        return self._pointer

    @property
    def closed(self) -> bool:
        """Whether it can no longer be used."""
        return self._pointer is None or bool(self._parent.closed)

    def _gone(self) -> None:
        self._pointer = None

    def _end(self, call: Callable[[Any], int], what: str, timeout: float = 10) -> None:
        """Ends it by a call of the library that may ask to be called again. A second time does nothing."""
        if self.closed:
            self._gone()
            return
        self._device._free_owned(self._key)
        state = [0]

        def ended() -> bool:
            state[0] = call(self._up())
            return state[0] not in (-errno.EAGAIN, -errno.EBUSY)
        if not ended() and state[0] == -errno.EAGAIN:
            self._device._until(ended, timeout)
        check(state[0], what)
        self._device._owned.pop(self._key, None)
        self._gone()

    def __enter__(self) -> Any:
        self._up()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError
