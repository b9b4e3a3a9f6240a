/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA verbs over RoCEv2: the words, numbers and meaning are those of ibv_ and rdma_cm, with clean types. Enums and
 * limits are in handlers/wire/rdma.h. docs/rdma.md.
 *
 * Results are 0 or -errno. Posting and polling make no system call and no allocation. Errors besides those named at
 * calls: -EINVAL an argument is out of its range, -EFAULT a range is not within its region, -ENOMEM, -EPROTO the NIC's
 * answer makes no sense, -ENODEV the NIC has ended, -ECONNABORTED it has died, -ECONNRESET it has ended the context.
 * Threads: one at a time for a device and everything opened on it. sp_progress drives an embedded NIC without threads;
 * calls with a timeout do it themselves, in real time.
 */
#ifndef SPINDLE_RDMA_H
#define SPINDLE_RDMA_H

#include "../handlers/wire/rdma.h"
#include "spindle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sp_rdma;	       /* a device context */
struct sp_rdma_pd;     /* a protection domain */
struct sp_rdma_cq;     /* a completion queue */
struct sp_rdma_srq;    /* a shared receive queue */
struct sp_rdma_pair;   /* a queue pair, QP */
struct sp_rdma_target; /* an address handle, AH: where datagrams go */
struct sp_rdma_cm;     /* an id of the connection manager: a listener or a connection */

/* ---- device contexts ---- */
/* Zero is the handler's default for every field. */
struct sp_rdma_attr {
	uint32_t qps, cqs, srqs, pds, mrs, ahs; /* how many at most */
	bool congestion;			/* a CNP slows a QP down (DCQCN) */
	const char *name; /* of the NIC's execution context; NULL: "rdma-" and the first QP number */
};
/* attr and error may be NULL. */
int sp_rdma_open(struct sp_dev *dev, const struct sp_rdma_attr *attr, struct sp_rdma **rdma, struct sp_error *error);
/* Destroys all that was made with it; every handle becomes invalid. -EAGAIN, -EBUSY: call again. */
int sp_rdma_close(struct sp_rdma *rdma);
int sp_rdma_query(struct sp_rdma *rdma, struct sp_rdma_limits *limits);

/* ---- protection domains and memory ---- */
int sp_rdma_pd_alloc(struct sp_rdma *rdma, struct sp_rdma_pd **pd);
int sp_rdma_pd_dealloc(struct sp_rdma_pd *pd); /* -EBUSY: it has objects */
struct sp_rdma *sp_rdma_of(const struct sp_rdma_pd *pd);
struct sp_dev *sp_rdma_dev(const struct sp_rdma *rdma);

/* Do not change. */
struct sp_rdma_mr {
	struct sp_rdma_pd *pd;
	uint64_t va, len;
	uint32_t lkey, rkey;
};
struct sp_rdma_range {
	struct sp_mr *mr; /* NULL: the agent's; offset is 0 */
	uint64_t offset, len;
};
/* len bytes at offset of a region, at their addresses in this process. access: SP_RDMA_LOCAL_WRITE... -EACCES: remote
 * write or atomic without local write. -EDQUOT, -ENOSPC: too many. */
int sp_rdma_mr_reg(struct sp_rdma_pd *pd, struct sp_mr *mr, uint64_t offset, uint64_t len, unsigned access,
		   struct sp_rdma_mr **out);
/* Ranges, at most SP_RDMA_SEGMENTS, one behind the other from address va on. */
int sp_rdma_mr_reg_ranges(struct sp_rdma_pd *pd, uint64_t va, const struct sp_rdma_range *ranges, unsigned count,
			  unsigned access, struct sp_rdma_mr **out);
/* Memory that no NIC has made: when a peer reads, writes or changes it, the agent copies between it and `bytes`, within
 * a call that takes completions or notices, or waits. va: as registered. */
struct sp_rdma_fetch_op {
	enum sp_rdma_fetch kind;
	uint32_t len;
	uint64_t va;
	void *own;		 /* where va is in this process (sp_rdma_mr_lies_at) */
	void *bytes;		 /* READ: to here; WRITE: from here */
	uint64_t value, compare; /* ADD: value; CAS: stores value if it is `compare` */
	uint64_t before;	 /* set: ADD, CAS */
};
typedef int sp_rdma_agent_fn(void *user, struct sp_rdma_fetch_op *op); /* 0; otherwise the peer's request fails */
/* Before the first region with such a range. serve NULL: the library copies, in rising order, the last byte last. What
 * peers ask fails if nobody calls for 2 s. Own requests and receives must not name such ranges. -EBUSY: there is
 * one. */
int sp_rdma_agent_start(struct sp_rdma *rdma, sp_rdma_agent_fn *serve, void *user);
/* The agent's ranges of a region whose va is not its address in this process. */
void sp_rdma_mr_lies_at(struct sp_rdma_mr *mr, void *addr);
/* -EAGAIN: the NIC still uses it, but refuses its keys already; call again. -EBUSY: a window is bound to it. */
int sp_rdma_mr_dereg(struct sp_rdma_mr *mr);

/* ---- memory windows: an rkey for a part of a region, bound by a work request of a QP (SP_RDMA_WR_BIND_MW) ---- */
struct sp_rdma_mw {
	struct sp_rdma_pd *pd;
	uint32_t rkey; /* as allocated: opens nothing. The first to bind is sp_rdma_next_rkey() of it. */
};
/* -ENOSPC: too many, together with regions. */
int sp_rdma_mw_alloc(struct sp_rdma_pd *pd, enum sp_rdma_mw_type type, struct sp_rdma_mw **mw);
int sp_rdma_mw_dealloc(struct sp_rdma_mw *mw); /* as sp_rdma_mr_dereg() */
static inline uint32_t sp_rdma_next_rkey(uint32_t rkey)
{
	return (rkey & ~0xFFu) | ((rkey + 1) & 0xFFu);
}

/* ---- completion queues ---- */
/* At least `entries`, rounded up to a power of two. channel: it may be armed. user: comes back in notices. */
int sp_rdma_cq_create(struct sp_rdma *rdma, uint32_t entries, bool channel, void *user, struct sp_rdma_cq **cq);
int sp_rdma_cq_destroy(struct sp_rdma_cq *cq); /* -EBUSY: QPs use it */

struct sp_rdma_wc {
	uint64_t wr_id;
	enum sp_rdma_status status; /* the rest but qp and wr_id means nothing if it is not SP_RDMA_OK */
	enum sp_rdma_wc_op op;
	uint32_t flags;	     /* SP_RDMA_WC_GRH... */
	uint32_t len, imm;   /* imm: network order, or the rkey that was invalidated */
	uint32_t qp, src_qp; /* numbers */
	uint32_t done;	     /* of a send: how many requests of its queue have completed, in all, modulo 2^32 */
	uint8_t vendor;
};
/* Takes at most `room` completions, and returns how many. */
int sp_rdma_poll_cq(struct sp_rdma_cq *cq, struct sp_rdma_wc *wc, int room);
/* One notice when there is something in the queue; solicited: only of solicited completions and errors. Poll once more
 * after arming, then wait for the device (sp_dev_arm, sp_dev_fd). -EOPNOTSUPP: no channel. */
int sp_rdma_cq_arm(struct sp_rdma_cq *cq, bool solicited);
/* Sleeps until there is something to poll, at most timeout ps (SP_NEVER: no limit): then -ETIMEDOUT. Needs a channel;
 * uses up its notices. */
int sp_rdma_cq_wait(struct sp_rdma_cq *cq, sp_time timeout);

/* ---- shared receive queues ---- */
struct sp_rdma_srq_attr {
	uint32_t entries, sges; /* rounded up to a power of two */
	uint32_t limit;		/* SP_RDMA_ASYNC_SRQ_LIMIT once fewer entries are left; 0: never */
	void *user;
};
int sp_rdma_srq_create(struct sp_rdma_pd *pd, const struct sp_rdma_srq_attr *attr, struct sp_rdma_srq **srq);
int sp_rdma_srq_arm(struct sp_rdma_srq *srq, uint32_t limit); /* a limit tells once */
int sp_rdma_srq_destroy(struct sp_rdma_srq *srq);	      /* -EBUSY: QPs use it */

/* ---- address handles ---- */
/* ah->pd is set here. */
int sp_rdma_ah_create(struct sp_rdma_pd *pd, const struct sp_rdma_ah *ah, struct sp_rdma_target **target);
int sp_rdma_ah_destroy(struct sp_rdma_target *target);

/* ---- queue pairs ---- */
struct sp_rdma_qp_init {
	enum sp_rdma_qp_type type;
	struct sp_rdma_cq *send_cq, *recv_cq;
	struct sp_rdma_srq *srq;       /* NULL: its own receive queue */
	uint32_t send_wr, recv_wr;     /* entries of the queues, rounded up to a power of two; default 64 */
	uint32_t send_sges, recv_sges; /* default 1 */
	uint32_t inlined;	       /* bytes of inline data at most */
	bool all_signaled;
	void *user;
};
int sp_rdma_qp_create(struct sp_rdma_pd *pd, const struct sp_rdma_qp_init *init, struct sp_rdma_pair **qp);
/* attr->mask says which fields count; the states and what each needs are those of ibv_modify_qp. SP_RDMA_RESET also
 * empties both queues. */
int sp_rdma_qp_modify(struct sp_rdma_pair *qp, const struct sp_rdma_qp_attr *attr);
int sp_rdma_qp_query(struct sp_rdma_pair *qp, struct sp_rdma_qp_attr *attr);
/* No completion of it comes later; those in its CQs stay. -EAGAIN: ports still have frames of it; call again. */
int sp_rdma_qp_destroy(struct sp_rdma_pair *qp);
uint32_t sp_rdma_qp_number(const struct sp_rdma_pair *qp);
void *sp_rdma_qp_user(const struct sp_rdma_pair *qp);

/* ---- posting ---- */
struct sp_rdma_send_wr {
	const struct sp_rdma_send_wr *next;
	uint64_t wr_id;
	enum sp_rdma_wr_op op;
	unsigned flags; /* SP_RDMA_FENCE, _SIGNALED, _SOLICITED, _INLINED: bytes are copied at once, lkeys mean nothing
			 */
	const struct sp_rdma_sge *sge;
	unsigned sges;
	uint32_t imm;	 /* network order, or the rkey to invalidate */
	uint64_t remote; /* WRITE, READ, ATOMIC: address at the peer */
	uint32_t rkey;
	uint64_t compare_add, swap; /* ATOMIC. BIND_MW, of no SGEs: `rkey` becomes the window's; imm is the region's
				     * lkey; remote, compare_add, swap are the window's begin, length and rights */
	struct sp_rdma_target *ah;  /* UD, and the next two */
	uint32_t remote_qp, qkey;
};
struct sp_rdma_recv_wr {
	const struct sp_rdma_recv_wr *next;
	uint64_t wr_id;
	const struct sp_rdma_sge *sge;
	unsigned sges;
};
/* Post a list. At the first one that cannot be posted they stop: *bad (may be NULL) is it, and those before are posted.
 * -EAGAIN: the queue is full; of an SRQ also while a worker of the NIC still copies the entry that was there before
 * (try again). -EMSGSIZE: too many SGEs, or too much inline data. -EOPNOTSUPP: not an operation of this type of QP. */
int sp_rdma_post_send(struct sp_rdma_pair *qp, const struct sp_rdma_send_wr *wr, const struct sp_rdma_send_wr **bad);
int sp_rdma_post_recv(struct sp_rdma_pair *qp, const struct sp_rdma_recv_wr *wr, const struct sp_rdma_recv_wr **bad);
int sp_rdma_post_srq_recv(struct sp_rdma_srq *srq, const struct sp_rdma_recv_wr *wr,
			  const struct sp_rdma_recv_wr **bad);

/* ---- notices: asynchronous events, completions of armed queues, and the connection manager's ---- */
enum sp_rdma_notice_kind { SP_RDMA_NOTICE_CQ, SP_RDMA_NOTICE_ASYNC, SP_RDMA_NOTICE_CM };
struct sp_rdma_notice {
	enum sp_rdma_notice_kind kind;
	enum sp_rdma_async async; /* SP_RDMA_NOTICE_ASYNC */
	struct sp_rdma_cq *cq;	  /* one of these three is not NULL, but for SP_RDMA_NOTICE_CM */
	struct sp_rdma_srq *srq;
	struct sp_rdma_pair *qp;
	void *user; /* of that object */
};
/* 1: took one. 0: none. An event that comes again before it is taken is one. */
int sp_rdma_notice_take(struct sp_rdma *rdma, struct sp_rdma_notice *notice);

/* ---- connection manager ---- */
struct sp_rdma_cm_event {
	struct sp_rdma_cm *cm;	     /* SP_CM_EVENT_REQUEST: a new one, for the caller to destroy */
	struct sp_rdma_cm *listener; /* SP_CM_EVENT_REQUEST */
	void *user;		     /* of cm, or of the listener */
	enum sp_cm_event_type type;
	int status;		   /* -errno, or the reason of a reject */
	uint32_t qp, psn, qkey;	   /* the peer's; psn: from which on it wants to be sent to */
	uint8_t peer[16], own[16]; /* IPv4 mapped */
	uint16_t peer_port, own_port;
	uint8_t qp_type, responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, path_mtu_code,
		timeout;
	bool selective;
	uint16_t private_len;
	uint8_t private_data[SP_RDMA_PRIVATE];
};
int sp_rdma_cm_create(struct sp_rdma *rdma, enum sp_cm_kind kind, uint32_t port_space, void *user,
		      struct sp_rdma_cm **cm);
/* Also ends its connection. */
int sp_rdma_cm_destroy(struct sp_rdma_cm *cm);
void sp_rdma_cm_set_user(struct sp_rdma_cm *cm, void *user);
/* ip NULL: any address of the NIC. *port 0: what sp_rdma_cm_bind has bound, or the NIC chooses; it says it.
 * -EADDRINUSE, -EACCES. shared: with other ids of this context that are bound so, and do not listen. */
int sp_rdma_cm_bind(struct sp_rdma_cm *cm, const uint8_t ip[16], uint16_t *port, bool shared);
int sp_rdma_cm_listen(struct sp_rdma_cm *cm, const uint8_t ip[16], uint16_t *port, uint32_t backlog);
/* param->id is set here; private_data: param->private_len bytes. The outcome comes as an event. */
int sp_rdma_cm_connect(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data);
int sp_rdma_cm_accept(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data);
int sp_rdma_cm_reject(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data);
int sp_rdma_cm_ready(struct sp_rdma_cm *cm);	   /* after SP_CM_EVENT_RESPONSE, once the QP is in RTS */
int sp_rdma_cm_established(struct sp_rdma_cm *cm); /* SP_RDMA_ASYNC_COMM_EST has come before SP_CM_EVENT_ESTABLISHED */
int sp_rdma_cm_disconnect(struct sp_rdma_cm *cm);
/* 1: took the oldest event. 0: none. */
int sp_rdma_cm_take(struct sp_rdma *rdma, struct sp_rdma_cm_event *event);
/* Waits for one: 0; -ETIMEDOUT. */
int sp_rdma_cm_wait(struct sp_rdma *rdma, struct sp_rdma_cm_event *event, sp_time timeout);

/* What both ends say of a connection. Zero is the default for every field. */
struct sp_rdma_link {
	uint8_t to[16], from[16]; /* connect: IPv4 mapped; from zero: the NIC's first one of
				     that family */
	uint16_t port;		  /* connect */
	uint16_t private_len;
	const void *private_data;
	uint32_t path_mtu; /* bytes, 256 to 4096; default 1024; accept: the peer's */
	unsigned access;   /* of the QP: remote rights; default all */
	uint32_t qkey;	   /* UD; default 0x11111111 */
	uint8_t reads;	   /* READ and ATOMIC at once, each way; default SP_RDMA_READS */
	uint8_t timeout;   /* of an acknowledgement, IBTA's code; default 14, 67 ms; accept: what the peer asks for */
	uint8_t retry_cnt, rnr_retry, min_rnr_timer; /* default 7, 7, 12; a count of 0 cannot be said */
	bool selective; /* selective repeat, if the peer offers it too, and both NICs allow it (docs/rdma.md) */
};
/* From RESET to INIT, so that receives may be posted before the next calls. */
int sp_rdma_prepare(struct sp_rdma_pair *qp, const struct sp_rdma_link *link);
/* From a QP in RESET or INIT to a connection in use: REQ, RTR and RTS, RTU; for UD, SIDR. *reply: the peer's answer,
 * with its QP number, key and private data. Events of other ids are kept for sp_rdma_cm_take. -ECONNREFUSED:
 * reply->status is the reason. -EHOSTUNREACH, -ETIMEDOUT: no answer. -EADDRNOTAVAIL: the NIC has no
 * address of that family. The QP is in an undefined state after an error. */
int sp_rdma_connect(struct sp_rdma_cm *cm, struct sp_rdma_pair *qp, const struct sp_rdma_link *link,
		    struct sp_rdma_cm_event *reply, sp_time timeout);
/* The same for the one who was asked: the QP goes from RESET or INIT to RTS, then REP. SP_CM_EVENT_ESTABLISHED follows
 * (not for UD). Post receives before. */
int sp_rdma_accept(const struct sp_rdma_cm_event *request, struct sp_rdma_pair *qp, const struct sp_rdma_link *link);

#ifdef __cplusplus
}
#endif
#endif
