# SPDX-License-Identifier: BSD-3-Clause
"""RDMA verbs over RoCEv2 (rdma.h, docs/rdma.md): the words and their meaning are those of ibv_ and rdma_cm.

Constants have the C library's names without SP_RDMA_. Times are seconds."""

import enum
import errno
import socket
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ._library import NULL, Handle, check, ffi, ip_text, lib, locked, name_or_null, packed_ip, ps
from .device import Device, Memory, region_of
from .errors import error

Access = enum.IntFlag("Access", {"LOCAL_WRITE": 1, "REMOTE_WRITE": 2, "REMOTE_READ": 4, "REMOTE_ATOMIC": 8, "MW_BIND": 16})
ALL = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC


class QpType(enum.IntEnum):
    """Reliable, unreliable, and datagrams."""
    RC = 2
    UC = 3
    UD = 4


class State(enum.IntEnum):
    """Of a QP."""
    RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)


class Op(enum.IntEnum):
    """Of a work request."""
    WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FETCH_ADD = range(7)
    LOCAL_INV = 7
    SEND_INV = 9


class Status(enum.IntEnum):
    """Of a completion."""
    OK = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    FLUSHED = 5
    MW_BIND_ERR = 6
    BAD_RESP_ERR = 7
    LOC_ACCESS_ERR = 8
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13
    FATAL_ERR = 19


class WcOp(enum.IntEnum):
    """What a completion is of."""
    SEND, WRITE, READ, CAS, FETCH_ADD = range(5)
    BIND_MW = 5
    LOCAL_INV = 6
    RECV = 128
    RECV_WRITE_IMM = 129


class Completion(NamedTuple):
    """`struct sp_rdma_wc`. With a status but OK the rest but wr_id and qp means nothing. imm: None where there is none."""
    wr_id: int
    status: Status
    op: WcOp
    length: int
    imm: Optional[int]
    invalidated: Optional[int]
    qp: int
    src_qp: int


class Sge(NamedTuple):
    """A range of a region: `Region.sge()`."""
    region: "Region"
    offset: int
    length: int


class Rdma(Handle):
    """A device context: `Device.rdma()`. 0 is the default: `struct sp_rdma_attr`."""

    _free = staticmethod(lambda p: int(lib.sp_rdma_close(p)))

    def __init__(self, device: Device, qps: int = 0, cqs: int = 0, srqs: int = 0, pds: int = 0, mrs: int = 0, ahs: int = 0,
                 congestion: bool = False, name: Optional[str] = None) -> None:
        with device._lock:
            word, text, out = name_or_null(name), ffi.new("struct sp_error *"), ffi.new("struct sp_rdma **")
            attr = ffi.new("struct sp_rdma_attr *", {"qps": qps, "cqs": cqs, "srqs": srqs, "pds": pds, "mrs": mrs, "ahs": ahs,
                                                     "congestion": congestion, "name": word})
            check(lib.sp_rdma_open(device._up(), attr, out, text), "sp_rdma_open", text)
            super().__init__(device, out[0])

    @locked
    def limits(self) -> Dict[str, int]:
        """`struct sp_rdma_limits`."""
        s = ffi.new("struct sp_rdma_limits *")
        check(lib.sp_rdma_query(self._up(), s), "sp_rdma_query")
        return {name: int(getattr(s, name)) for name, _ in ffi.typeof("struct sp_rdma_limits").fields}

    @locked
    def pd(self) -> "Pd":
        """A protection domain."""
        out = ffi.new("struct sp_rdma_pd **")
        check(lib.sp_rdma_pd_alloc(self._up(), out), "sp_rdma_pd_alloc")
        return Pd(self, out[0])

    @locked
    def cq(self, entries: int = 256) -> "Cq":
        """A completion queue."""
        out = ffi.new("struct sp_rdma_cq **")
        check(lib.sp_rdma_cq_create(self._up(), entries, True, NULL, out), "sp_rdma_cq_create")
        return Cq(self, out[0])

    @locked
    def cm(self, port_space: int = 0x0106) -> "Cm":
        """An id of the connection manager, to connect with. port_space: 0x0106 for RC and UC, 0x0111 for UD."""
        out = ffi.new("struct sp_rdma_cm **")
        kind = lib.SP_CM_DATAGRAM if port_space == 0x0111 else lib.SP_CM_CONNECTED
        check(lib.sp_rdma_cm_create(self._up(), kind, port_space, NULL, out), "sp_rdma_cm_create")
        return Cm(self, out[0])

    @locked
    def listen(self, port: int = 0, backlog: int = 8, port_space: int = 0x0106) -> "Listener":
        """Listens on a port; 0: the NIC chooses."""
        cm = self.cm(port_space)
        number = ffi.new("uint16_t *", port)
        rc = lib.sp_rdma_cm_listen(cm._up(), NULL, number, backlog)
        if rc:
            cm.close()
        check(rc, "listening on port %d" % port)
        return Listener(cm, int(number[0]))

    @locked
    def close(self) -> None:
        """Destroys all that was made with it. A second time does nothing."""
        self._end(lib.sp_rdma_close, "sp_rdma_close")


class Pd(Handle):
    """A protection domain: `Rdma.pd()`."""

    @locked
    def region(self, memory: Memory, offset: int = 0, length: Optional[int] = None, access: int = ALL) -> "Region":
        """Registers a range of memory."""
        mr, offset, length = region_of(self._device, memory, offset, length)
        out = ffi.new("struct sp_rdma_mr **")
        check(lib.sp_rdma_mr_reg(self._up(), mr, offset, length, access, out), "sp_rdma_mr_reg")
        return Region(self, out[0], memory)

    @locked
    def qp(self, send_cq: "Cq", recv_cq: Optional["Cq"] = None, type: QpType = QpType.RC, send_wr: int = 0, recv_wr: int = 0,
           send_sges: int = 0, recv_sges: int = 0, inlined: int = 0) -> "Qp":
        """A QP in state RESET. recv_cq None: send_cq is that of both."""
        recv_cq = recv_cq or send_cq
        for cq in (send_cq, recv_cq):
            if cq._parent is not self._parent:
                raise error(errno.EINVAL, "the CQ belongs to another Rdma")
        init = ffi.new("struct sp_rdma_qp_init *", {
            "type": int(QpType(type)), "send_cq": send_cq._up(), "recv_cq": recv_cq._up(), "send_wr": send_wr,
            "recv_wr": recv_wr, "send_sges": send_sges, "recv_sges": recv_sges, "inlined": inlined})
        out = ffi.new("struct sp_rdma_pair **")
        check(lib.sp_rdma_qp_create(self._up(), init, out), "sp_rdma_qp_create")
        return Qp(self, out[0], QpType(type), (send_cq, recv_cq))

    @locked
    def address_handle(self, ip: str) -> "AddressHandle":
        """Where datagrams go."""
        ah, out = ffi.new("struct sp_rdma_ah *"), ffi.new("struct sp_rdma_target **")
        ah.ip = packed_ip(ip)
        check(lib.sp_rdma_ah_create(self._up(), ah, out), "sp_rdma_ah_create")
        return AddressHandle(self, out[0])

    @locked
    def close(self) -> None:
        """EBUSY while it has objects. A second time does nothing."""
        self._end(lib.sp_rdma_pd_dealloc, "sp_rdma_pd_dealloc")


class Region(Handle):
    """A memory region: `Pd.region()`. address, rkey: what a peer needs."""

    def __init__(self, pd: Pd, pointer: Any, memory: Memory) -> None:
        super().__init__(pd, pointer)
        self.memory = memory
        self.address, self.length = int(pointer.va), int(pointer.len)
        self.lkey, self.rkey = int(pointer.lkey), int(pointer.rkey)

    def sge(self, offset: int = 0, length: Optional[int] = None) -> Sge:
        """A range of it, for a work request. EFAULT: not within it."""
        length = self.length - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > self.length:
            raise error(errno.EFAULT, "%d bytes at %d of a region of %d" % (length, offset, self.length))
        return Sge(self, offset, length)

    @locked
    def close(self) -> None:
        """Its keys are refused from now on. A second time does nothing."""
        self._end(lib.sp_rdma_mr_dereg, "sp_rdma_mr_dereg")


class AddressHandle(Handle):
    """Where datagrams go: `Pd.address_handle()`."""

    @locked
    def close(self) -> None:
        """A second time does nothing."""
        self._end(lib.sp_rdma_ah_destroy, "sp_rdma_ah_destroy")


class Cq(Handle):
    """A completion queue: `Rdma.cq()`."""

    def __init__(self, rdma: Rdma, pointer: Any) -> None:
        super().__init__(rdma, pointer)
        self._taken: List[Completion] = []

    def _take(self, count: int) -> None:
        room = count - len(self._taken)
        if room > 0:
            wc = ffi.new("struct sp_rdma_wc[]", room)
            found = check(lib.sp_rdma_poll_cq(self._up(), wc, room), "sp_rdma_poll_cq")
            self._taken += [_completion(wc[i]) for i in range(found)]

    @locked
    def poll(self, count: int = 16) -> List[Completion]:
        """Takes at most so many completions."""
        self._up()
        if not 0 < count <= 4096:
            raise error(errno.EINVAL, "%r completions at once" % count)
        self._take(count)
        out, self._taken = self._taken[:count], self._taken[count:]
        return out

    def wait(self, count: int = 1, timeout: Optional[float] = None) -> List[Completion]:
        """Takes exactly so many completions, once they are there. Timeout: those that are stay."""
        got: List[Completion] = []

        def there() -> bool:
            with self._lock:
                self._up()
                self._take(count)
                if len(self._taken) < count:
                    return False
                got.extend(self._taken[:count])
                del self._taken[:count]
                return True

        def arm() -> None:
            check(lib.sp_rdma_cq_arm(self._up(), False), "sp_rdma_cq_arm")
        if not 0 < count <= 4096:
            raise error(errno.EINVAL, "%r completions at once" % count)
        self._device._until(there, timeout, arm)
        return got

    @locked
    def close(self) -> None:
        """EBUSY while QPs use it. A second time does nothing."""
        self._end(lib.sp_rdma_cq_destroy, "sp_rdma_cq_destroy")


def _completion(wc: Any) -> Completion:
    imm = socket.ntohl(wc.imm) if wc.flags & lib.SP_RDMA_WC_IMM else None
    status = Status(wc.status)
    op = WcOp(wc.op) if status is Status.OK else WcOp.SEND
    return Completion(int(wc.wr_id), status, op, int(wc.len), imm, int(wc.imm) if wc.flags & lib.SP_RDMA_WC_INV else None,
                      int(wc.qp), int(wc.src_qp))


class Qp(Handle):
    """A queue pair: `Pd.qp()`. number: what a peer needs."""

    def __init__(self, pd: Pd, pointer: Any, type: QpType, cqs: Tuple[Cq, Cq]) -> None:
        super().__init__(pd, pointer)
        self.type = type
        self.number = int(lib.sp_rdma_qp_number(pointer))
        self._cqs = cqs

    @locked
    def modify(self, **attributes: Any) -> None:
        """Sets fields of `struct sp_rdma_qp_attr` by their names; the mask follows from them. ip: a text."""
        attr = ffi.new("struct sp_rdma_qp_attr *")
        for name, value in attributes.items():
            if name not in _MASK:
                raise TypeError("a QP has no %r (there are: %s)" % (name, ", ".join(_MASK)))
            attr.mask |= getattr(lib, "SP_RDMA_QP_" + _MASK[name])
            setattr(attr, name, packed_ip(value) if name == "ip" else int(value))
        if "ip" in attributes:
            attr.hop_limit = 64
        if attributes.get("state") == State.INIT:
            attr.mask |= lib.SP_RDMA_QP_PKEY | lib.SP_RDMA_QP_PORT
        check(lib.sp_rdma_qp_modify(self._up(), attr), "sp_rdma_qp_modify")

    def init(self, access: int = ALL, qkey: int = 0x11111111) -> None:
        """From RESET to INIT: receives can be posted."""
        if self.type is QpType.UD:
            self.modify(state=State.INIT, qkey=qkey)
        else:
            self.modify(state=State.INIT, access=access)

    def start(self, ip: str = "", qp: int = 0, psn: int = 0, own_psn: int = 0, path_mtu: int = 1024) -> None:
        """From INIT to RTS without the connection manager, to the peer's address and QP number. psn: from which on the
        peer sends; own_psn: from which on we send."""
        if self.type is QpType.UD:
            self.modify(state=State.RTR)
            self.modify(state=State.RTS, sq_psn=own_psn)
            return
        rc = self.type is QpType.RC
        self.modify(state=State.RTR, ip=ip, path_mtu=path_mtu, dest_qp=qp, rq_psn=psn,
                    **({"max_dest_rd_atomic": 16, "min_rnr_timer": 12} if rc else {}))
        self.modify(state=State.RTS, sq_psn=own_psn,
                    **({"timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "max_rd_atomic": 16} if rc else {}))

    @locked
    def query(self) -> Dict[str, Any]:
        """`struct sp_rdma_qp_attr`, with the counts of retries."""
        a = ffi.new("struct sp_rdma_qp_attr *")
        check(lib.sp_rdma_qp_query(self._up(), a), "sp_rdma_qp_query")
        out = {name: getattr(a, name) for name, _ in ffi.typeof("struct sp_rdma_qp_attr").fields if name not in ("mask", "reserved")}
        out["ip"], out["state"] = ip_text(bytes(a.ip)), State(a.state)
        return out

    def _sges(self, ranges: Sequence[Sge]) -> Any:
        for one in ranges:
            if one.region._device is not self._device:
                raise error(errno.EINVAL, "the region belongs to another NIC")
            one.region._up()
            one.region.sge(one.offset, one.length)
        return ffi.new("struct sp_rdma_sge[]", [(s.region.address + s.offset, s.length, s.region.lkey) for s in ranges] or 1)

    @locked
    def post_send(self, op: Op, ranges: Sequence[Sge] = (), wr_id: int = 0, inlined: Optional[bytes] = None,
                  imm: Optional[int] = None, remote: int = 0, rkey: int = 0, compare_add: int = 0, swap: int = 0,
                  ah: Optional[AddressHandle] = None, remote_qp: int = 0, qkey: int = 0x11111111, signaled: bool = True,
                  fence: bool = False, solicited: bool = False) -> None:
        """Posts a work request. inlined: its bytes are copied at once, and no range counts. imm: the immediate, or with
        SEND_INV and LOCAL_INV the rkey. Again: the queue is full."""
        flags = sum(bit for bit, wanted in ((lib.SP_RDMA_SIGNALED, signaled), (lib.SP_RDMA_FENCE, fence),
                                            (lib.SP_RDMA_SOLICITED, solicited)) if wanted)
        if inlined is not None:
            flags |= lib.SP_RDMA_INLINED
            data = ffi.new("char[]", bytes(inlined))  # with a byte more, so that it is never empty
            sge, count = ffi.new("struct sp_rdma_sge[]", [(int(ffi.cast("uintptr_t", data)), len(inlined), 0)]), 1
        else:
            sge, count = self._sges(ranges), len(ranges)
        op = Op(op)
        word = 0 if imm is None else imm if op in (Op.SEND_INV, Op.LOCAL_INV) else socket.htonl(imm)
        if ah is not None and ah._parent is not self._parent:
            raise error(errno.EINVAL, "the address handle belongs to another Pd")
        if self.type is QpType.UD and ah is None:
            raise error(errno.EINVAL, "a datagram needs an address handle")
        wr = ffi.new("struct sp_rdma_send_wr *", {
            "wr_id": wr_id, "op": int(op), "flags": flags, "sge": sge, "sges": count, "imm": word, "remote": remote,
            "rkey": rkey, "compare_add": compare_add, "swap": swap, "ah": ah._up() if ah else NULL, "remote_qp": remote_qp,
            "qkey": qkey})
        check(lib.sp_rdma_post_send(self._up(), wr, NULL), "sp_rdma_post_send of %s" % op.name)

    @locked
    def post_recv(self, ranges: Sequence[Sge], wr_id: int = 0) -> None:
        """Posts a receive. Again: the queue is full."""
        wr = ffi.new("struct sp_rdma_recv_wr *")
        sge = self._sges(ranges)
        wr.wr_id, wr.sge, wr.sges = wr_id, sge, len(ranges)
        check(lib.sp_rdma_post_recv(self._up(), wr, NULL), "sp_rdma_post_recv")

    @locked
    def close(self) -> None:
        """Destroys it. A second time does nothing."""
        self._end(lib.sp_rdma_qp_destroy, "sp_rdma_qp_destroy")


# Field of struct sp_rdma_qp_attr -> enum sp_rdma_qp_mask, without SP_RDMA_QP_.
_MASK = {"state": "STATE", "sqd_notify": "SQD_NOTIFY", "access": "ACCESS", "qkey": "QKEY", "ip": "AV", "path_mtu": "PATH_MTU",
         "timeout": "TIMEOUT", "retry_cnt": "RETRY_CNT", "rnr_retry": "RNR_RETRY", "rq_psn": "RQ_PSN", "max_rd_atomic": "MAX_RD",
         "min_rnr_timer": "MIN_RNR", "sq_psn": "SQ_PSN", "max_dest_rd_atomic": "MAX_DEST_RD", "dest_qp": "DEST_QP",
         "rate": "RATE", "selective": "SELECTIVE"}


class Request(NamedTuple):
    """Somebody wants to connect: `Listener.request()`."""
    cm: "Cm"
    peer: str
    peer_port: int
    private_data: bytes
    event: Any


class Cm(Handle):
    """An id of the connection manager: `Rdma.cm()`."""

    def connect(self, qp: Qp, ip: str, port: int, timeout: float = 10, private_data: bytes = b"", path_mtu: int = 0,
                selective: bool = False) -> bytes:
        """Connects a QP in RESET or INIT, and returns the private data of the answer. In real time: only with an attached
        NIC (Qp.start() needs no connection manager). ECONNREFUSED, EHOSTUNREACH, Timeout."""
        self._real()
        with self._lock:
            _mine(self, qp)
            link, _keep = _link(ip, port, private_data, path_mtu, selective)
            reply = ffi.new("struct sp_rdma_cm_event *")
            check(lib.sp_rdma_connect(self._up(), qp._up(), link, reply, ps(timeout)), "connecting to %s port %d" % (ip, port))
            return bytes(ffi.buffer(reply.private_data)[0:reply.private_len])

    def _real(self) -> None:
        if not self._device._wakes:
            raise error(errno.EOPNOTSUPP, "the connection manager's calls that wait do so in real time (Qp.start() does not wait)")

    @locked
    def disconnect(self) -> None:
        """Ends its connection."""
        check(lib.sp_rdma_cm_disconnect(self._up()), "sp_rdma_cm_disconnect")

    @locked
    def close(self) -> None:
        """Also ends its connection. A second time does nothing."""
        self._end(lib.sp_rdma_cm_destroy, "sp_rdma_cm_destroy")


def _mine(cm: Cm, qp: Qp) -> None:
    if qp._parent._parent is not cm._parent:
        raise error(errno.EINVAL, "the QP belongs to another Rdma")


def _link(ip: str, port: int, private_data: bytes, path_mtu: int, selective: bool) -> Tuple[Any, Any]:
    data = ffi.new("char[]", private_data)
    link = ffi.new("struct sp_rdma_link *", {"port": port, "private_len": len(private_data), "private_data": data,
                                             "path_mtu": path_mtu, "selective": selective})
    if ip:
        link.to = packed_ip(ip)
    return link, data


class Listener(Handle):
    """Listens: `Rdma.listen()`."""

    def __init__(self, cm: Cm, port: int) -> None:
        super().__init__(cm._parent, cm._pointer)
        self.port = port

    @locked
    def request(self) -> Optional[Request]:
        """Takes the oldest request of any listener of this Rdma, or None. Other events of connections are dropped."""
        self._up()
        while True:
            event = ffi.new("struct sp_rdma_cm_event *")
            if not check(lib.sp_rdma_cm_take(self._parent._up(), event), "sp_rdma_cm_take"):
                return None
            if event.type == lib.SP_CM_EVENT_REQUEST:
                return Request(Cm(self._parent, event.cm), ip_text(bytes(event.peer)), int(event.peer_port),
                               bytes(ffi.buffer(event.private_data)[0:event.private_len]), event)

    def wait(self, timeout: Optional[float] = None) -> Request:
        """Waits for a request."""
        got: List[Request] = []

        def there() -> bool:
            one = self.request()
            if one is not None:
                got.append(one)
            return bool(got)
        self._device._until(there, timeout)
        return got[0]

    @locked
    def accept(self, request: Request, qp: Qp, private_data: bytes = b"", path_mtu: int = 0, selective: bool = False) -> None:
        """Connects a QP in RESET or INIT to the one that asked. Post receives before (Qp.init())."""
        request.cm._up()
        _mine(request.cm, qp)
        link, _keep = _link("", 0, private_data, path_mtu, selective)
        check(lib.sp_rdma_accept(request.event, qp._up(), link), "sp_rdma_accept")

    @locked
    def close(self) -> None:
        """A second time does nothing."""
        self._end(lib.sp_rdma_cm_destroy, "sp_rdma_cm_destroy")
