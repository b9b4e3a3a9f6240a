# SPDX-License-Identifier: BSD-3-Clause
"""Packets through a NIC with any handler, by the command `spindle replay`: scapy's packets or bytes in, what became of each
of them out. Virtual time: each packet comes at its own time. spindle-replay(1)."""

import errno
import json
import os
import shutil
import struct
import subprocess
import tempfile
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .errors import Error, error

_NS = 10 ** 9
_MAGIC = {0xa1b23c4d: 1, 0xa1b2c3d4: 1000}  # of a pcap file -> ns of a tick


class Fate(NamedTuple):
    """What became of a packet. trace: all that `spindle replay --trace --json` says of it."""
    fate: str               # taken, answered, forwarded, dropped...
    reason: Optional[str]   # of a drop
    context: Optional[str]
    verdict: Optional[str]  # of the handler's call for it
    trace: Dict[str, Any]


class Sent(NamedTuple):
    """A frame that the NIC sent. time_ns: on the packets' own clock."""
    time_ns: int
    frame: bytes

    @property
    def time(self) -> float:
        """Seconds, as of scapy's packets."""
        return self.time_ns / _NS

    def scapy(self) -> Any:
        """As scapy's packet."""
        from scapy.layers.l2 import Ether
        packet = Ether(self.frame)
        packet.time = self.time
        return packet


class Replay(NamedTuple):
    """What a replay gave. report: the whole report, as of --json. problems: what was wrong, on standard error."""
    fates: List[Fate]
    sent: List[Sent]
    report: Dict[str, Any]
    problems: str

    def counters(self, context: str) -> Dict[str, Any]:
        """What the report has of a context."""
        contexts: Dict[str, Dict[str, Any]] = self.report["contexts"]
        return contexts[context]

    @property
    def drops(self) -> Dict[str, int]:
        """Drops by reason."""
        drops: Dict[str, int] = self.report["drops"]
        return {name: n for name, n in drops.items() if n}


def command() -> str:
    """The path of the command: $SPINDLE_COMMAND, or `spindle` in $PATH."""
    path = os.environ.get("SPINDLE_COMMAND") or shutil.which("spindle")
    if not path:
        raise error(errno.ENOENT, "the command spindle is neither in PATH nor named by SPINDLE_COMMAND")
    return path


def config(handler: str, settings: Mapping[str, object], nic: Mapping[str, object], context: str = "") -> str:
    """A nic.ini of one context, called as its handler if no name is given."""
    lines = ["[nic]"] + _lines(nic) + ["[context %s]" % _word(context or handler), "handler = %s" % _word(handler)] + _lines(settings)
    return "\n".join(lines) + "\n"


def _word(text: object) -> str:
    if any(c in str(text) for c in "\r\n\0"):
        raise error(errno.EINVAL, "a line break in %r" % (text,))
    return str(text)


def _lines(settings: Mapping[str, object]) -> List[str]:
    return ["%s = %s" % (_word(k), _word(v)) for k, v in settings.items()]


def replay(packets: Iterable[Any], handler: str = "count", settings: Mapping[str, object] = {"filter": "greater 0"},
           nic: Mapping[str, object] = {"ip": "192.0.2.1/24", "mac": "02:00:00:00:00:01"}, text: Optional[str] = None,
           plugins: Sequence[str] = (), options: Sequence[str] = (), check: bool = True, timeout: float = 300) -> Replay:
    """Runs packets (scapy's; pairs of seconds and bytes; or bytes, a microsecond after the packet before) through a NIC.

    handler, settings, nic: of its one context, and of the NIC, as in nic.ini; or text: a whole nic.ini. plugins: files
    with handlers. options: more of `spindle replay`, such as "--loss", "0.1". check: what the command reports as wrong
    (a handler that does what it may not) is an Error; otherwise it is in `problems`."""
    frames = _frames(packets)
    with tempfile.TemporaryDirectory(prefix="spindle-python-") as folder:
        def path(name: str) -> str:
            return os.path.join(folder, name)
        with open(path("nic.ini"), "w", encoding="utf-8") as f:
            f.write(config(handler, settings, nic) if text is None else text)
        _write(path("in.pcap"), frames)
        run = subprocess.run([command(), "replay", "-c", path("nic.ini"), *(w for p in plugins for w in ("--plugin", p)), "--json",
                              "--trace=" + path("trace"), "-w", path("out.pcap"), *options, path("in.pcap")],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        said = run.stderr.decode("utf-8", "replace").replace(folder + os.sep, "").strip()
        if run.returncode and (check or not run.stdout.startswith(b"{")):
            raise Error(errno.EIO if run.returncode > 0 else errno.ECONNABORTED,
                        "spindle replay (status %d): %s" % (run.returncode, said or "it said nothing"))
        return Replay(_fates(path("trace")), _read(path("out.pcap")), json.loads(run.stdout), said)


def _frames(packets: Iterable[Any]) -> List[Tuple[int, bytes]]:
    frames: List[Tuple[int, bytes]] = []
    for i, one in enumerate(packets):
        if isinstance(one, (bytes, bytearray, memoryview)):
            frames.append((frames[-1][0] + 1000 if frames else 0, bytes(one)))
        elif isinstance(one, tuple):
            frames.append((round(float(one[0]) * _NS), bytes(one[1])))
        elif hasattr(one, "time"):
            frames.append((round(float(one.time) * _NS), bytes(one)))
        else:
            raise TypeError("packet %d is a %s: scapy's packets, bytes, or (seconds, bytes) are taken" % (i, type(one).__name__))
    for (before, _), (t, _) in zip(frames, frames[1:]):
        if t < before:
            raise error(errno.EINVAL, "the packets' times go back (those that scapy has made have the time at which they were made)")
    if frames and frames[0][0] < 0:
        raise error(errno.EINVAL, "the first packet's time is before 1970")
    return frames


def _write(path: str, frames: Sequence[Tuple[int, bytes]]) -> None:
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 262144, 1))
        for t, frame in frames:
            f.write(struct.pack("<IIII", t // _NS, t % _NS, len(frame), len(frame)) + frame)


def _read(path: str) -> List[Sent]:
    with open(path, "rb") as f:
        data = f.read()
    tick, at, out = _MAGIC[struct.unpack_from("<I", data)[0]], 24, []
    while at < len(data):
        seconds, part, length = struct.unpack_from("<III", data, at)
        out.append(Sent(seconds * _NS + part * tick, data[at + 16:at + 16 + length]))
        at += 16 + length
    return out


def _fates(path: str) -> List[Fate]:
    out = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            one: Dict[str, Any] = json.loads(line)
            if "packet" in one:
                calls = [c for c in one.get("calls", []) if "verdict" in c]
                out.append(Fate(one.get("fate", "parked"), one.get("reason"), one.get("context"),
                                calls[-1]["verdict"] if calls else None, one))
    return out
