# SPDX-License-Identifier: BSD-3-Clause
"""NICs embedded in this process, links between them, and virtual time. The same seed gives the same run."""

import errno
import json
import math
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, cast

from ._library import NULL, PS, check, ffi, libc, nic_lib, packed_ip, ps, text_of, world_lib
from .device import Device
from .errors import error

_worlds = threading.RLock()  # one call at a time into NICs of this process, which share packet buffers
_NEVER = 2 ** 64 - 1


class World:
    """Virtual time for NICs and links: `with World(seed=1) as world`.

    Nothing happens but in run(), wait() and the waits of what hangs off its NICs. Threads: any; they wait for each other,
    also where they use different worlds."""

    def __init__(self, seed: int = 1) -> None:
        self._pid = os.getpid()
        self._lock = _worlds
        self._pointer: Any = None
        self._nics: List["Nic"] = []
        self._links: List["Link"] = []
        self._pairs = 0
        self._running = False
        self._raised: Optional[BaseException] = None
        self._done: Optional[Callable[[], object]] = None
        self.seed = seed % 2 ** 50
        said = ffi.new("struct sp_error *")
        out = ffi.new("struct sp_world **")
        with self._lock:
            check(nic_lib.sp_eal_init(0, NULL, said), "starting DPDK's EAL", said)
            check(world_lib.sp_world_create(out), "sp_world_create")
            self._pointer = out[0]
            me = weakref.ref(self)  # the library calls these only within run(), so they need not keep the world alive
            self._calls = (ffi.callback("void(void *, sp_time)", lambda _, now: cast(World, me())._host_step(now)),
                           ffi.callback("sp_time(void *)", lambda _: cast(World, me())._host_next()),
                           ffi.callback("bool(void *)", lambda _: cast(World, me())._host_done()))
            host = ffi.new("struct sp_world_host *", {"step": self._calls[0], "next": self._calls[1], "arg": NULL})
            check(world_lib.sp_world_add_host(self._pointer, host), "sp_world_add_host")

    # ---- life ----
    def _up(self) -> Any:
        if self._pointer is None:
            raise error(errno.EBADF, "this World is closed")
        if self._pid != os.getpid():
            raise error(errno.EPERM, "the World belongs to the process that this one was forked from")
        return self._pointer

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def close(self) -> None:
        """Ends its NICs and links. A second time does nothing. ExportedError while views of their memory exist; EBUSY
        while it runs."""
        with self._lock:
            if self._pointer is None:
                return
            self._up()
            if self._running:
                raise error(errno.EBUSY, "the World runs")
            for nic in self._nics:
                nic._exported()
            self._free()

    def _free(self) -> None:
        with self._lock:
            for nic in self._nics:
                nic._shut()
            for nic in self._nics:
                nic._destroy()
            world_lib.sp_world_destroy(self._pointer)
            self._pointer = None
            for link in self._links:
                link._destroy()

    def __del__(self) -> None:
        # No view, memory or handle is left that could be used: they hold their NIC, and that holds the world.
        if getattr(self, "_pointer", None) is not None and self._pid == os.getpid():
            self._free()

    def __enter__(self) -> "World":
        self._up()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is in it ----
    def link(self, **impairments: Any) -> "Link":
        """A link between two NICs; impairments as of `Link`."""
        with self._lock:
            self._up()
            self._still()
            link = Link(self, self.seed * 1000 + len(self._links), **impairments)
            self._links.append(link)
            return link

    def nic(self, port: Optional["Port"] = None, addresses: Sequence[str] = (), **config: Any) -> "Nic":
        """A NIC whose port is one end of a link (or that has none), with these addresses ("10.0.0.1/24"); more as of
        `Nic`."""
        with self._lock:
            self._up()
            self._still()
            nic = Nic(self, port, addresses, self.seed * 1000 + 500 + len(self._nics), **config)
            self._nics.append(nic)
            check(world_lib.sp_world_add_nic(self._up(), nic._nic), "sp_world_add_nic")
            return nic

    def pair(self, mtu: int = 1500, workers: int = 1, **impairments: Any) -> Tuple["Nic", "Nic"]:
        """Two NICs with a link between them: 10.N.0.1 and 10.N.0.2, fd00:N::1 and fd00:N::2; N counts from 0."""
        link, n = self.link(workers=workers, **impairments), self._pairs
        self._pairs += 1
        one, two = (self.nic(link.ports[e], ["10.%d.0.%d/24" % (n, e + 1), "fd00:%x::%d/64" % (n, e + 1)], mtu=mtu,
                             workers=workers) for e in range(2))
        return one, two

    def _still(self) -> None:
        if self._running:
            raise error(errno.EBUSY, "the World runs")

    # ---- time ----
    @property
    def now_ps(self) -> int:
        """The time, in picoseconds."""
        with self._lock:
            return int(world_lib.sp_world_now(self._up()))

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self.now_ps / PS

    def _host_step(self, now: int) -> None:
        if self._raised is not None:
            return
        try:
            for nic in self._nics:
                for one in nic._in_order():
                    one._progress(now)
        except BaseException as e:  # cffi would print and forget it
            self._raised = e

    def _host_next(self) -> int:
        if self._raised is not None:
            return _NEVER
        try:
            return min((one._deadline() for nic in self._nics for one in nic._in_order()), default=_NEVER)
        except BaseException as e:
            self._raised = e
            return _NEVER

    def _host_done(self) -> bool:
        if self._raised is not None:
            return True
        try:
            return bool(self._done()) if self._done else False
        except BaseException as e:
            self._raised = e
            return True

    def run(self, duration: Optional[float] = None, until: Optional[Callable[[], object]] = None) -> bool:
        """Lets time go on for so many seconds (None: until nothing is left to do), or until until() is true, which is
        asked whenever nothing more happens at the present time. Returns whether it became true. An exception of until()
        ends the run, and is raised. ELOOP: time stands still."""
        with self._lock:
            world = self._up()
            self._still()
            end = _NEVER if duration is None else self.now_ps + ps(duration)
            self._running, self._raised, self._done = True, None, until
            try:
                result = world_lib.sp_world_run(world, end, self._calls[2], NULL)
            finally:
                self._running, self._done = False, None
            raised, self._raised = self._raised, None
            if raised is not None:
                raise raised
            return check(result, "the World's time stands still") == 1

    def wait(self, done: Callable[[], object], timeout: Optional[float] = None) -> None:
        """Runs until done() is true. Timeout: after so many seconds of virtual time, or when nothing is left that could
        make it true."""
        if not self.run(timeout, done):
            raise error(errno.ETIMEDOUT, "nothing more happens" if timeout is None else "after %s s of virtual time" % timeout)


class Port:
    """One end of a link."""

    def __init__(self, link: "Link", end: int) -> None:
        self.link, self.end = link, end
        self._taken = False


class Link:
    """A full-duplex link. `World.link` makes it.

    bandwidth: bit/s, 0: no limit. delay, jitter, reorder_delay: seconds. loss, duplicate, reorder, corrupt: probabilities
    of a packet. burst: losses come in bursts of so many packets on average. queue: packets that may wait for the wire; 0:
    256. back: what differs for the direction from port 1 to port 0, by the same names."""

    def __init__(self, world: World, seed: int, bandwidth: float = 0, delay: float = 0, jitter: float = 0, loss: float = 0,
                 burst: float = 0, duplicate: float = 0, reorder: float = 0, reorder_delay: float = 1e-4, corrupt: float = 0,
                 queue: int = 0, workers: int = 1, back: Optional[Mapping[str, float]] = None) -> None:
        self._world = world
        self._pointer: Any = None
        there: Dict[str, float] = {"bandwidth": bandwidth, "delay": delay, "jitter": jitter, "loss": loss, "burst": burst,
                                   "duplicate": duplicate, "reorder": reorder, "reorder_delay": reorder_delay,
                                   "corrupt": corrupt, "queue": queue}
        unknown = set(back or {}) - set(there)
        if unknown:
            raise TypeError("a link has no %s" % ", ".join(sorted(unknown)))
        config = ffi.new("struct sp_link_config *", {"seed": seed, "queues": [workers, workers]})
        _direction(config.direction[0], there)
        _direction(config.direction[1], {**there, **(back or {})})
        out = ffi.new("struct sp_link **")
        check(world_lib.sp_link_create(config, out), "link: %s" % there)
        self._pointer = out[0]
        self.ports = (Port(self, 0), Port(self, 1))

    def _up(self) -> Any:
        self._world._up()
        return self._pointer

    def counters(self, direction: int = 0) -> Dict[str, int]:
        """What became of the packets that port `direction` sent: `struct sp_link_counters`."""
        with self._world._lock:
            pointer = self._up()
            if direction not in (0, 1):
                raise error(errno.EINVAL, "direction %r" % direction)
            c = ffi.new("struct sp_link_counters *")
            world_lib.sp_link_count(pointer, direction, c)
            return {name: int(getattr(c, name)) for name, _ in ffi.typeof("struct sp_link_counters").fields}

    def in_flight(self, direction: int = 0) -> int:
        """Packets that port `direction` sent and that have not arrived."""
        with self._world._lock:
            pointer = self._up()
            if direction not in (0, 1):
                raise error(errno.EINVAL, "direction %r" % direction)
            return int(world_lib.sp_link_in_flight(pointer, direction))

    def _destroy(self) -> None:
        world_lib.sp_link_destroy(self._pointer)
        self._pointer = None


def _direction(to: Any, values: Mapping[str, float]) -> None:
    for name, value in values.items():
        if name in ("delay", "jitter", "reorder_delay"):
            setattr(to, name, ps(value))
        elif name in ("bandwidth", "queue"):
            if not 0 <= value < 2 ** 32 if name == "queue" else not 0 <= value < 2 ** 60:
                raise error(errno.EINVAL, "link: %s of %r" % (name, value))
            setattr(to, name, int(value))
        elif name != "burst":
            if not (math.isfinite(value) and 0 <= value <= 1):
                raise error(errno.EINVAL, "link: %s of %r is no probability" % (name, value))
            setattr(to, name, value)
    if values["burst"]:
        check(world_lib.sp_link_burst(ffi.addressof(to), values["burst"], values["loss"]), "link: bursts of %s with a loss of %s" %
              (values["burst"], values["loss"]))


class Nic(Device):
    """A NIC of a World, and what the program sees of it. `World.nic` and `World.pair` make it; the World ends it."""

    _wakes = False

    def __init__(self, world: World, port: Optional[Port], addresses: Sequence[str], seed: int, mtu: int = 1500, workers: int = 1,
                 name: str = "", gateway: str = "") -> None:
        self._world = world
        self._nic: Any = None
        config = ffi.new("struct sp_nic_config *", {"mtu": mtu, "workers": workers, "seed": seed})
        if len(name.encode()) > 31:
            raise error(errno.ENAMETOOLONG, "name of the NIC")
        config.name = name.encode()
        if len(addresses) > len(config.address):
            raise error(errno.EINVAL, "a NIC has at most %d addresses" % len(config.address))
        config.addresses = len(addresses)
        for i, text in enumerate(addresses):
            ip, _, prefix = text.partition("/")
            if prefix and not (prefix.isdigit() and int(prefix) <= 128):
                raise error(errno.EINVAL, "prefix of %s" % text)
            config.address[i].ip = packed_ip(ip)
            config.address[i].prefix = int(prefix or 0)
        if gateway:
            packed = packed_ip(gateway)
            setattr(config, "gateway6" if ":" in gateway else "gateway4", packed)
        if port is not None:
            if port.link._world is not world or port._taken:
                raise error(errno.EINVAL, "the end of the link is in another World, or taken")
            config.ports = 1
            config.port[0].ops = ffi.addressof(world_lib.sp_link_ops)
            config.port[0].ops_arg = world_lib.sp_link_port(port.link._up(), port.end)
        said, out, dev = ffi.new("struct sp_error *"), ffi.new("struct sp_nic **"), ffi.new("struct sp_dev **")
        check(nic_lib.sp_nic_create(config, said, out), "NIC", said)
        rc = nic_lib.sp_nic_dev(out[0], False, dev)
        if rc:
            nic_lib.sp_nic_destroy(out[0])
            check(rc, "sp_nic_dev")
        self._nic = out[0]
        if port is not None:
            port._taken = True
        super().__init__(dev[0], world._lock)

    # ---- life: the world's ----
    def close(self) -> None:
        """Closes what hangs off the NIC. The NIC itself stays in its World until that is closed. A second time does
        nothing. ExportedError."""
        with self._lock:
            if self._pointer is not None:
                self._up()
                self._exported()
                self._shut()

    def _destroy(self) -> None:
        nic_lib.sp_nic_destroy(self._nic)
        self._nic = None
        self._pins.clear()  # only now is nothing read any more
        self._dropped.clear()

    def __del__(self) -> None:
        pass  # see World

    def _alive(self) -> Any:
        self._world._up()
        return self._nic

    # ---- time: the world's ----
    def _now(self) -> int:
        return self._world.now_ps

    def _until(self, done: Callable[[], object], timeout: Optional[float], arm: Optional[Callable[[], object]] = None) -> None:
        with self._lock:
            self._up()
            self._world.wait(done, timeout)

    # ---- what it has counted ----
    def totals(self) -> Dict[str, int]:
        """Packets received, taken, forwarded, dropped, sent...: `struct sp_nic_totals`."""
        with self._lock:
            t = ffi.new("struct sp_nic_totals *")
            nic_lib.sp_nic_totals(self._alive(), t)
            return {name: int(getattr(t, name)) for name, _ in ffi.typeof("struct sp_nic_totals").fields}

    def dropped(self, reason: str) -> int:
        """Drops by this reason."""
        with self._lock:
            return int(nic_lib.sp_nic_dropped(self._alive(), reason.encode()))

    def report(self, context: str = "") -> Dict[str, Any]:
        """All that `spindle stat` shows, or that of one context."""
        with self._lock:
            out = ffi.new("char **")
            check(nic_lib.sp_nic_report_text(self._alive(), True, context.encode(), out), "report")
            try:
                said: Dict[str, Any] = json.loads(text_of(out[0]))
            finally:
                libc.free(out[0])
            return said

    def load(self, handler: str) -> None:
        """Loads handlers from a shared object into the NIC. It is trusted code."""
        with self._lock:
            out, said = ffi.new("char **"), ffi.new("struct sp_error *")
            check(nic_lib.sp_nic_handler_load(self._alive(), os.fsencode(handler), out, said), handler, said)
            libc.free(out[0])

