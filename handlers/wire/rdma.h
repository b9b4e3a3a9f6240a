/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between an application and the handlers `rdma` and `cm`: control requests, and queues in memory that both map (a
 * region of sp_mr_alloc). docs/rdma.md tells how they work together. Host byte order. The NIC reads each entry once and
 * trusts nothing in shared memory; a lie costs only the liar.
 */
#ifndef SPINDLE_WIRE_RDMA_H
#define SPINDLE_WIRE_RDMA_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "host.h"

#define SP_RDMA_SGES	  16	     /* of a work request, at most */
#define SP_RDMA_INLINE	  256	     /* bytes of inline data, at most */
#define SP_RDMA_QUEUE_LOG 15	     /* a queue has at most 2^15 entries, */
#define SP_RDMA_CQ_LOG	  22	     /* a completion queue 2^22 */
#define SP_RDMA_READS	  16	     /* READ and ATOMIC at once, each way (max_rd_atomic) */
#define SP_RDMA_MSG	  (1u << 31) /* bytes of a message, at most */
#define SP_RDMA_GRH	  40 /* bytes in front of a datagram: IPv6 header, or 20 bytes of nothing and the IPv4 header */
#define SP_RDMA_SEGMENTS  64 /* of a memory region, at most */
#define SP_RDMA_PRIVATE	  224 /* bytes of private data of the connection manager, at most (fewer in most messages) */

enum sp_rdma_qp_type { SP_RDMA_RC = 2, SP_RDMA_UC = 3, SP_RDMA_UD = 4 }; /* as in verbs.h */
enum sp_rdma_qp_state { SP_RDMA_RESET, SP_RDMA_INIT, SP_RDMA_RTR, SP_RDMA_RTS, SP_RDMA_SQD, SP_RDMA_SQE, SP_RDMA_ERR };
enum sp_rdma_access { /* as in verbs.h */
		      SP_RDMA_LOCAL_WRITE = 1,
		      SP_RDMA_REMOTE_WRITE = 2,
		      SP_RDMA_REMOTE_READ = 4,
		      SP_RDMA_REMOTE_ATOMIC = 8,
		      SP_RDMA_MW_BIND = 16, /* of a region: windows may be bound to it */
};

/* ---- work requests ---- */
enum sp_rdma_wr_op { /* as in verbs.h */
		     SP_RDMA_WR_WRITE,
		     SP_RDMA_WR_WRITE_IMM,
		     SP_RDMA_WR_SEND,
		     SP_RDMA_WR_SEND_IMM,
		     SP_RDMA_WR_READ,
		     SP_RDMA_WR_CAS,
		     SP_RDMA_WR_FETCH_ADD,
		     SP_RDMA_WR_LOCAL_INV = 7,
		     SP_RDMA_WR_BIND_MW = 8,
		     SP_RDMA_WR_SEND_INV = 9,
};
enum { SP_RDMA_FENCE = 1, SP_RDMA_SIGNALED = 2, SP_RDMA_SOLICITED = 4, SP_RDMA_INLINED = 8 }; /* as in verbs.h */

struct sp_rdma_sge {
	uint64_t addr; /* as the application sees it, within the region of lkey */
	uint32_t len, lkey;
};

/* An entry of a send queue: this head, then SGEs (or inline bytes) up to the queue's stride. BIND_MW: rkey: the
 * window's next one; imm: lkey of the region; remote and compare_add: begin and length of the window, in the region's
 * addresses; swap: its access rights. Length 0: bound to nothing (type 1). */
struct sp_rdma_wqe {
	uint32_t owner; /* 1: the NIC's to read. It stores 0 with release once it has copied the entry. */
	uint8_t op, flags, sges, reserved;
	uint64_t wr_id;
	uint32_t imm, length; /* imm: network order, or the rkey to invalidate; length: of inline data */
	uint64_t remote;      /* address at the peer */
	uint32_t rkey, ah;    /* ah: UD */
	uint64_t compare_add, swap;
	uint32_t remote_qp, qkey; /* UD; a qkey with the top bit set stands for the QP's own */
};
static_assert(sizeof(struct sp_rdma_wqe) == 64 && offsetof(struct sp_rdma_wqe, compare_add) == 40, "no padding");

/* An entry of a receive queue: this head, then SGEs. */
struct sp_rdma_rqe {
	uint32_t owner, sges; /* owner: see above */
	uint64_t wr_id;
};
static_assert(sizeof(struct sp_rdma_rqe) == 16 && sizeof(struct sp_rdma_sge) == 16, "no padding");

static inline uint32_t sp_rdma_sq_stride(uint32_t sges, uint32_t inlined)
{
	const uint32_t sge = sges * (uint32_t)sizeof(struct sp_rdma_sge);

	return (uint32_t)sizeof(struct sp_rdma_wqe) + ((sge > inlined ? sge : inlined) + 63) / 64 * 64;
}

static inline uint32_t sp_rdma_rq_stride(uint32_t sges)
{
	return (uint32_t)(sizeof(struct sp_rdma_rqe) + sges * sizeof(struct sp_rdma_sge) + 63) / 64 * 64;
}

/* In front of the entries of each queue (SQ, RQ, SRQ), at a multiple of 64 bytes of a region. Entry i of a queue of
 * 2^log entries is at (i mod 2^log) * stride after it. Application: writes entry `tail` once its owner is 0, stores
 * owner 1, then tail + 1 with release. A send queue also needs a doorbell: exchange(rung, 1); if it was 0, a command
 * SP_RDMA_CMD_DOORBELL on the QP's worker. The NIC does exchange(rung, 0), then reads tail: no entry is missed. */
struct sp_rdma_queue {
	uint32_t tail, rung;
	uint8_t pad[56];
};
static_assert(sizeof(struct sp_rdma_queue) == 64, "one line");

enum {
	SP_RDMA_CMD_DOORBELL = SP_CMD_OWN, /* arg[0] QP number; by SP_CMD_ON(its worker), as the next one */
	SP_RDMA_CMD_FETCHED, /* arg[0] QP number, arg[1] the event's cookie, arg[2] 0 or why not, arg[3] CAS, ADD: the
				value before. -ENOENT: nobody waits for it (any more) */
};

/* ---- completions ---- */
enum sp_rdma_status { /* as in verbs.h */
		      SP_RDMA_OK,
		      SP_RDMA_LOC_LEN_ERR,
		      SP_RDMA_LOC_QP_OP_ERR,
		      SP_RDMA_LOC_PROT_ERR = 4,
		      SP_RDMA_FLUSHED = 5,
		      SP_RDMA_MW_BIND_ERR = 6,
		      SP_RDMA_BAD_RESP_ERR = 7,
		      SP_RDMA_LOC_ACCESS_ERR = 8,
		      SP_RDMA_REM_INV_REQ_ERR = 9,
		      SP_RDMA_REM_ACCESS_ERR = 10,
		      SP_RDMA_REM_OP_ERR = 11,
		      SP_RDMA_RETRY_EXC_ERR = 12,
		      SP_RDMA_RNR_RETRY_EXC_ERR = 13,
		      SP_RDMA_FATAL_ERR = 19,
};
enum sp_rdma_wc_op { /* as in verbs.h */
		     SP_RDMA_WC_SEND,
		     SP_RDMA_WC_WRITE,
		     SP_RDMA_WC_READ,
		     SP_RDMA_WC_CAS,
		     SP_RDMA_WC_FETCH_ADD,
		     SP_RDMA_WC_BIND_MW = 5,
		     SP_RDMA_WC_LOCAL_INV = 6,
		     SP_RDMA_WC_RECV = 128,
		     SP_RDMA_WC_RECV_WRITE_IMM = 129,
};
/* IPV4: the 40 bytes in front of a datagram end in an IPv4 header, else they are an IPv6 header. */
enum { SP_RDMA_WC_GRH = 1, SP_RDMA_WC_IMM = 2, SP_RDMA_WC_INV = 8, SP_RDMA_WC_IPV4 = 0x80 };

/* An entry of a completion queue. `phase` is written last, with release: 1 in the queue's first lap, 0 in the second,
 * and so on; the memory is zero before. */
struct sp_rdma_cqe {
	uint64_t wr_id;
	uint32_t len, imm; /* imm: network order, or the rkey that was invalidated */
	uint32_t qp, src_qp;
	uint32_t entries; /* of the queue that the request came from: how many are done with by this completion, in
			     all, modulo 2^32; meaningful for a send queue */
	uint8_t status, op, flags, vendor;
	uint64_t reserved[3];
	uint32_t reserved2;
	uint32_t phase;
};
static_assert(sizeof(struct sp_rdma_cqe) == 64 && offsetof(struct sp_rdma_cqe, phase) == 60, "one line");
/* The NIC stores reserved2 and phase as one word, so that is what is loaded, with acquire. */
static inline uint32_t sp_rdma_cqe_phase(const struct sp_rdma_cqe *e)
{
	const uint64_t word = __atomic_load_n((const uint64_t *)(const void *)&e->reserved2, __ATOMIC_ACQUIRE);

	return (uint32_t)(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word >> 32 : word);
}
static_assert(offsetof(struct sp_rdma_cqe, reserved2) == 56, "phase is in an aligned word of 64 bits");

/* In front of a completion queue's entries. consumer: entries that the application has taken. armed: SP_RDMA_ARM_*; an
 * exchange, after which the application looks once more; the NIC exchanges it for 0 and posts SP_RDMA_EVENT_CQ. */
struct sp_rdma_cq_head {
	uint32_t consumer, armed;
	uint8_t pad[56];
};
static_assert(sizeof(struct sp_rdma_cq_head) == 64, "one line");
enum { SP_RDMA_ARM_NONE, SP_RDMA_ARM_ANY, SP_RDMA_ARM_SOLICITED };

enum sp_rdma_event {				      /* struct sp_event; cookie: that of the object's creation */
		     SP_RDMA_EVENT_CQ = SP_EVENT_OWN, /* there is something in this CQ */
		     SP_RDMA_EVENT_ASYNC, /* arg[0] enum sp_rdma_async, arg[1] QP number, or id of CQ or SRQ */
		     SP_RDMA_EVENT_CM,	  /* something to fetch by SP_CM_TAKE; from the service */
		     /* For the agent: cookie, of its answer; arg[0] QP number, enum sp_rdma_fetch << 32; arg[1]
		      * address; arg[2] bytes, rkey << 32; arg[3] offset in the staging area's region; arg[4] the
		      * QP's worker */
		     SP_RDMA_EVENT_FETCH,
};
enum sp_rdma_async { /* as in verbs.h */
		     SP_RDMA_ASYNC_CQ_ERR,
		     SP_RDMA_ASYNC_QP_FATAL,
		     SP_RDMA_ASYNC_QP_REQ_ERR,
		     SP_RDMA_ASYNC_QP_ACCESS_ERR,
		     SP_RDMA_ASYNC_COMM_EST,
		     SP_RDMA_ASYNC_SQ_DRAINED,
		     SP_RDMA_ASYNC_SRQ_ERR = 14,
		     SP_RDMA_ASYNC_SRQ_LIMIT = 15,
		     SP_RDMA_ASYNC_QP_LAST_WQE = 16,
};

/* ---- memory that no NIC has made: an agent in the application copies between it and a staging area ---- */
enum sp_rdma_fetch {
	SP_RDMA_FETCH_READ = 1, /* from memory to the staging area */
	SP_RDMA_FETCH_CAS,	/* of 8 bytes; in the staging area what to store, and what to compare with */
	SP_RDMA_FETCH_ADD,	/* what to add */
	SP_RDMA_FETCH_WRITE,	/* from the staging area to memory */
};
#define SP_RDMA_AGENT_LOG_MIN 12
#define SP_RDMA_AGENT_LOG_MAX 20
/* The staging area: at most 2^log bytes are asked for at once, which are valid from the event to its answer. For good.
 */
struct sp_rdma_agent {
	uint64_t offset;
	uint32_t mem, log;
};
static inline uint64_t sp_rdma_agent_bytes(uint32_t qps, uint32_t log)
{
	return 3ull * qps << log;
}

/* ---- control requests: sp_control_call(), each with its data and its answer ---- */
enum sp_rdma_control {
	SP_RDMA_QUERY = 1,  /* nothing -> sp_rdma_limits */
	SP_RDMA_PD_CREATE,  /* nothing -> sp_rdma_id */
	SP_RDMA_PD_DESTROY, /* sp_rdma_id -> nothing. All DESTROY: -ENOENT, -EBUSY while others use it */
	SP_RDMA_MR_REG,	    /* sp_rdma_mr_reg and its segments -> sp_rdma_keys */
	SP_RDMA_MR_DEREG,  /* sp_rdma_id: the lkey. -EBUSY: a window is bound to it. -EAGAIN: workers or ports still use
			    * it; ask again */
	SP_RDMA_CQ_CREATE, /* sp_rdma_cq_create -> sp_rdma_id */
	SP_RDMA_CQ_DESTROY,
	SP_RDMA_SRQ_CREATE, /* sp_rdma_srq_create -> sp_rdma_id */
	SP_RDMA_SRQ_LIMIT,  /* sp_rdma_srq_limit */
	SP_RDMA_SRQ_DESTROY,
	SP_RDMA_AH_CREATE, /* sp_rdma_ah -> sp_rdma_id */
	SP_RDMA_AH_DESTROY,
	SP_RDMA_AGENT,	    /* sp_rdma_agent. -EBUSY: there is one */
	SP_RDMA_MW_ALLOC,   /* sp_rdma_mw_alloc -> sp_rdma_keys; the rkey opens nothing before the window is bound */
	SP_RDMA_MW_DEALLOC, /* sp_rdma_id: the rkey that ALLOC gave. -EAGAIN: workers still use it; ask again */
	SP_RDMA_QP_CREATE,  /* sp_rdma_qp_create -> sp_rdma_qp */
	SP_RDMA_QP_MODIFY,  /* on the QP's worker, as the rest: sp_rdma_qp_attr -> nothing. In RESET both own queues
			     * begin  anew at entry 0; the application clears their entries, tail and rung after the
			     * answer. */
	SP_RDMA_QP_QUERY,   /* nothing -> sp_rdma_qp_attr */
	SP_RDMA_QP_DESTROY, /* nothing. No completion of the QP comes later. -EAGAIN: ports still have frames; ask again
			     */
};

struct sp_rdma_id {
	uint32_t id;
};
struct sp_rdma_limits {
	uint32_t qps, cqs, srqs, pds, mrs, ahs;
	uint32_t wrs, sges, cqes, inlined, reads, segments;
};
/* A range of the region's addresses. `mem`: id of the NIC-made region it lies in, at `offset`; SP_RDMA_FETCHED: an
 * agent in the application serves it when a peer reads, writes or changes it; -EOPNOTSUPP before SP_RDMA_AGENT. Work
 * requests and receive entries of the application itself must not name such a range. */
struct sp_rdma_segment {
	uint64_t len, offset;
	uint32_t mem, reserved;
};
#define SP_RDMA_FETCHED UINT32_MAX
struct sp_rdma_mr_reg {
	uint64_t va, len; /* the application's addresses; len is the segments' sum */
	uint32_t pd, access, segments, reserved;
	struct sp_rdma_segment segment[]; /* at least one, at most SP_RDMA_SEGMENTS */
};
/* Bits 8 and up of an rkey stay with its region or window; the rest, with BIND_MW, is the application's choice. */
struct sp_rdma_keys {
	uint32_t lkey, rkey;
};
/* Type 1: of its PD's QPs; each BIND_MW binds it anew. Type 2 (2B of verbs.h): of the QP that binds it, until its key
 * is invalidated, by either end; then it may be bound again. */
enum sp_rdma_mw_type { SP_RDMA_MW_1 = 1, SP_RDMA_MW_2 = 2 }; /* as in verbs.h */
struct sp_rdma_mw_alloc {
	uint32_t pd, type;
};
struct sp_rdma_cq_create {
	uint64_t cookie, offset;	      /* of the head in region `mem` */
	uint32_t mem, log, channel, reserved; /* channel: 1: it may be armed */
};
struct sp_rdma_srq_create {
	uint64_t cookie, offset;
	uint32_t mem, log, pd, sges, limit, reserved;
};
struct sp_rdma_srq_limit {
	uint32_t id, limit; /* SP_RDMA_ASYNC_SRQ_LIMIT once fewer entries are left; 0: off */
};
struct sp_rdma_ah {
	uint8_t ip[16]; /* IPv4 mapped */
	uint32_t pd;
	uint16_t udp_source;		  /* 0: the NIC's choice */
	uint8_t traffic_class, hop_limit; /* the ECN bits are the NIC's; hop_limit 0: 64 */
};
struct sp_rdma_qp_create {
	uint64_t cookie, sq, rq;		       /* offsets of the queues in region `mem` */
	uint32_t mem, type, pd, send_cq, recv_cq, srq; /* srq 0: its own receive queue */
	uint32_t sq_log, rq_log, send_sges, recv_sges, inlined, all_signaled;
};
struct sp_rdma_qp {
	uint32_t qp, worker;
};
/* mask: which fields count, as in verbs.h (IBV_QP_*). */
enum sp_rdma_qp_mask {
	SP_RDMA_QP_STATE = 1 << 0,
	SP_RDMA_QP_SQD_NOTIFY = 1 << 2,
	SP_RDMA_QP_ACCESS = 1 << 3,
	SP_RDMA_QP_PKEY = 1 << 4,
	SP_RDMA_QP_PORT = 1 << 5,
	SP_RDMA_QP_QKEY = 1 << 6, /* -EPERM with the top bit set: services have these */
	SP_RDMA_QP_AV = 1 << 7,
	SP_RDMA_QP_PATH_MTU = 1 << 8,
	SP_RDMA_QP_TIMEOUT = 1 << 9,
	SP_RDMA_QP_RETRY_CNT = 1 << 10,
	SP_RDMA_QP_RNR_RETRY = 1 << 11,
	SP_RDMA_QP_RQ_PSN = 1 << 12,
	SP_RDMA_QP_MAX_RD = 1 << 13,
	SP_RDMA_QP_MIN_RNR = 1 << 15,
	SP_RDMA_QP_SQ_PSN = 1 << 16,
	SP_RDMA_QP_MAX_DEST_RD = 1 << 17,
	SP_RDMA_QP_DEST_QP = 1 << 20,
	SP_RDMA_QP_RATE = 1 << 25,
	SP_RDMA_QP_SELECTIVE = 1 << 28, /* ours: selective repeat, both ends are Spindles */
};
struct sp_rdma_qp_attr {
	uint32_t mask, state, access, qkey;
	uint8_t ip[16]; /* the peer's, IPv4 mapped */
	uint32_t dest_qp, rq_psn, sq_psn;
	uint32_t path_mtu;						   /* bytes: 256 to 4096 */
	uint16_t udp_source;						   /* 0: the NIC's choice, per QP */
	uint8_t traffic_class, hop_limit;				   /* as of an address handle */
	uint8_t max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, timeout; /* IBTA codes for the timers */
	uint8_t retry_cnt, rnr_retry, selective, draining; /* draining: QUERY only; SQD, and requests are under way */
	uint32_t rate;					   /* Mbit/s, 0: the port's */
	uint8_t sqd_notify, reserved[3]; /* to SQD: SP_RDMA_ASYNC_SQ_DRAINED when all that was begun has ended */
	/* QUERY only: counts since creation */
	uint32_t retries, naks_sent, naks_received, rnrs_sent, rnrs_received;
};

/* ---- connection manager: sp_control_call(service), handler `cm`. docs/rdma.md; IBTA volume 1, chapter 12 ---- */
enum sp_cm_control {
	SP_CM_CREATE = 1,  /* sp_cm_create -> sp_cm_id */
	SP_CM_DESTROY,	   /* sp_cm_id. A connection in progress is rejected or disconnected. */
	SP_CM_LISTEN,	   /* sp_cm_listen -> sp_cm_listen, with the port. -EADDRINUSE, -EACCES */
	SP_CM_CONNECT,	   /* sp_cm_param and private data: REQ, or SIDR_REQ. -EACCES: not a QP of the application */
	SP_CM_ACCEPT,	   /* sp_cm_param and private data: REP, or SIDR_REP. -EACCES: as above */
	SP_CM_REJECT,	   /* sp_cm_param and private data: REJ, or SIDR_REP */
	SP_CM_READY,	   /* sp_cm_id: RTU, once the QP is in RTS */
	SP_CM_DISCONNECT,  /* sp_cm_id: DREQ, or DREP if the peer has asked */
	SP_CM_TAKE,	   /* nothing -> the oldest sp_cm_event and its private data; -ENOENT: there is none */
	SP_CM_ESTABLISHED, /* sp_cm_id: data has come before the RTU */
	SP_CM_BIND,	   /* sp_cm_listen -> sp_cm_listen, with the port, which LISTEN or CONNECT uses. As LISTEN */
};
enum sp_cm_kind { SP_CM_CONNECTED /* RC, UC: REQ, REP, RTU */, SP_CM_DATAGRAM /* UD: SIDR */ };
struct sp_cm_create {
	uint64_t cookie;	   /* comes back in events */
	uint32_t kind, port_space; /* RDMA_PS_*: 0x0106 TCP, 0x0111 UDP, 0x013F IB */
};
struct sp_cm_id {
	uint32_t id;
};
struct sp_cm_listen {
	uint32_t id, backlog;
	uint8_t ip[16];	 /* zero: any address of the NIC */
	uint16_t port;	 /* 0: the service chooses, or what BIND has bound */
	uint16_t shared; /* BIND: 1: other ids of the application that do not listen may have it as well */
};
struct sp_cm_param {
	uint32_t id, qp, psn, qkey;  /* psn: from which on the peer is to send */
	uint8_t to[16], from[16];    /* CONNECT: IPv4 mapped; from zero: the NIC's address */
	uint16_t to_port, from_port; /* from_port 0: the service chooses */
	uint8_t type;		     /* enum sp_rdma_qp_type */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, path_mtu_code, timeout;
	uint16_t reason; /* REJECT */
	uint16_t private_len;
	uint8_t selective, reserved[3]; /* selective: CONNECT, ACCEPT: offer selective repeat. Needs 8 bytes of private
					   data; in ACCEPT only if the peer has offered it */
	uint8_t private_data[]; /* for CONNECT at most 56 bytes beside the IP-CM header, ACCEPT 196, REJECT 148; SIDR
			   180, 136 */
};
enum sp_cm_event_type { /* as rdma_cm_event_type says it */
			SP_CM_EVENT_REQUEST = 4,
			SP_CM_EVENT_RESPONSE = 5,
			SP_CM_EVENT_ERROR = 6,
			SP_CM_EVENT_UNREACHABLE = 7,
			SP_CM_EVENT_REJECTED = 8,
			SP_CM_EVENT_ESTABLISHED = 9,
			SP_CM_EVENT_DISCONNECTED = 10,
			SP_CM_EVENT_TIMEWAIT = 15,
};
struct sp_cm_event {
	uint64_t cookie; /* of the id; for REQUEST the listener's */
	uint32_t id, type;
	int32_t status;		/* -errno, or the reject reason */
	uint32_t qp, psn, qkey; /* the peer's; psn: from which on it wants to be sent to */
	uint8_t peer[16], own[16];
	uint16_t peer_port, own_port;
	uint8_t qp_type, responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, path_mtu_code,
		timeout;
	uint16_t private_len;
	uint8_t selective, reserved; /* selective: the peer offers selective repeat */
	uint8_t private_data[];
};

#endif
