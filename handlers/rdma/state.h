/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the rdma handler. Its files, each of which calls only those before it:
 *   tell               events to the application, owed while its queue is full
 *   key                an lkey or rkey and a range -> pieces of memory
 *   second             work of a companion, and the calls that give it back
 *   region             protection domains, memory regions
 *   cq, rq             completion queues; receive queues, shared or not
 *   ah                 address handles
 *   slot               selective repeat: what a QP and a worker have for it
 *   wqe, rate, packet, the requester: work requests -> packets, and the answers to them
 *   selective          selective repeat: the requester's part
 *   retry, ack, request
 *   peer               what the QPs of one peer have in common
 *   qp                 states, errors, flush, timer
 *   fetch              memory that an agent in the application serves
 *   answer             the responder's ACKs, NAKs and READ responses
 *   place              what packets write: into receive entries, into the ranges of WRITEs
 *   keep               selective repeat: packets ahead of the expected one
 *   respond, datagram  requests that arrive: RC and UC; UD
 *   modify, create     control requests on QPs
 *   export             what a companion may call
 *   rdma               parameters, attach, dispatch, report
 * A QP is a flow: all that is in struct rdma_qp belongs to its worker, unless it says otherwise. Protection domains,
 * regions, CQs, SRQs and AHs are made and ended on the home worker, and used by all. The slots of all objects last as
 * long as the context, so that a late look at one finds an unused slot and no freed memory.
 */
#ifndef HANDLERS_RDMA_STATE_H
#define HANDLERS_RDMA_STATE_H

#include "../spindle-export.h"
#include "../wire/rdma.h"
#include "../wire/roce.h"
#include "sq.h" /* struct rdma_sq; it knows struct rdma_qp by name only */

#define RDMA_INLINE_SEGMENTS 2 /* of a region; more lie in a block of SP_RDMA_SEGMENTS */

enum rdma_drop {
	RDMA_NO_QP,	  /* the QP does not exist, or has been destroyed */
	RDMA_WRONG_STATE, /* the QP's state takes no packets */
	RDMA_WRONG_TYPE,  /* opcode of another transport than the QP's */
	RDMA_BAD_OPCODE,  /* no opcode that the specification has */
	RDMA_BAD_PKEY,
	RDMA_BAD_SOURCE, /* not from the QP's peer */
	RDMA_SHORT_HEADER,
	RDMA_BAD_LENGTH,    /* UC, UD: payload and opcode contradict each other */
	RDMA_BAD_ORDER,	    /* UC: MIDDLE or LAST of a message of which packets are missing */
	RDMA_AHEAD,	    /* RC: earlier packets are missing */
	RDMA_LOST_RESOURCE, /* duplicate READ or ATOMIC that is too old, or that the original contradicts */
	RDMA_NAKED,	    /* a NAK answers it; counters tell the kinds */
	RDMA_BAD_QKEY,
	RDMA_NO_RECEIVE, /* UC, UD: no receive entry */
	RDMA_TOO_LONG,	 /* UD: the receive entry is too short; UC: longer than RETH says */
	RDMA_BAD_KEY,	 /* UC: rkey, rights or range */
	RDMA_BAD_ENTRY,	 /* UC, UD: the receive entry names memory that it may not write */
	RDMA_STRAY,	 /* requester: an answer to nothing that is outstanding */
	RDMA_BAD_ANSWER, /* requester: malformed */
	RDMA_DROPS,
};

enum rdma_counter {
	RDMA_MESSAGES, /* received in full */
	RDMA_BYTES,    /* of their payload */
	RDMA_DUPLICATES,
	RDMA_ACKS,
	RDMA_NAK_SEQUENCE,
	RDMA_NAK_INVALID,
	RDMA_NAK_ACCESS,
	RDMA_NAK_OPERATION,
	RDMA_NAK_RNR,
	RDMA_READS,
	RDMA_READ_PACKETS, /* response packets sent */
	RDMA_READS_HELD,   /* times that an answer waited for others to the same peer */
	RDMA_ATOMICS,
	RDMA_FETCHES, /* asked of the agent */
	RDMA_FETCHES_FAILED,
	RDMA_CNPS_SENT,
	RDMA_CQ_OVERFLOWS,
	RDMA_EVENTS_OWED,
	RDMA_PLACED_AHEAD, /* selective repeat: packets that were placed before earlier ones, */
	RDMA_KEPT_AHEAD,   /* and kept in a buffer */
	/* the requester's */
	RDMA_SENT, /* packets, without repeated ones */
	RDMA_REPEATED,
	RDMA_TIMEOUTS,
	RDMA_PROBES,
	RDMA_NAKS_RECEIVED,
	RDMA_RNRS_RECEIVED,
	RDMA_CNPS_RECEIVED,
	RDMA_REQUESTS_DONE,
	RDMA_REQUESTS_FAILED,
	RDMA_COUNTERS,
};

/* ---- events ---- */
/* In each object that has events. `owed`: those that found the application's queue full: bit enum sp_rdma_async, or
 * RDMA_OWED_CQ. RDMA_OWED_LINKED: `next` links it in the list of one worker, who alone clears the bit. Atomic. */
struct rdma_teller {
	struct rdma_teller *next;
	uint64_t cookie;
	uint32_t id; /* arg[1] of the event */
	uint32_t owed;
};
#define RDMA_OWED_CQ	 (1u << 30)
#define RDMA_OWED_LINKED (1u << 31)

/* ---- objects of the home worker ---- */
struct rdma_pd {
	bool used;
	uint32_t users; /* atomic: QPs end on their workers */
};

struct rdma_segment {
	uint64_t at; /* offset from the region's begin */
	uint64_t offset;
	const struct sp_mem *mem; /* a reference; NULL: an agent serves it */
};

/* Published by `key` (release); unpublished by key 0, freed once no worker can still be using it and `uses` is 0. */
struct rdma_mr {
	uint32_t key;  /* lkey and rkey. Atomic; 0: none */
	uint32_t uses; /* atomic: READ responses and requests whose frames ports may still have */
	uint32_t pd;   /* id */
	uint8_t access;
	uint8_t segments;
	bool invalidated; /* atomic: the rkey is no longer valid; the lkey still is */
	bool fetched;	  /* an agent serves some of it */
	uint8_t state;	  /* home worker: enum rdma_mr_state */
	uint8_t window;	  /* atomic: 0: a region; enum sp_rdma_mw_type: a window (window.h) */
	bool busy;	  /* window: atomic: a worker is changing it */
	uint64_t va, len;
	union {
		struct rdma_segment *segment; /* in order of `at` */
		struct rdma_mr *region;	      /* window: which it is bound to; NULL: none */
	};
	uint64_t grace;
	uint32_t ended;	  /* the key, while it ends; window: as it was allocated */
	uint32_t windows; /* atomic: how many are bound to this region */
	uint32_t binder;  /* window: number of the QP that alone may use it; 0: all of the PD */
	struct rdma_segment own[RDMA_INLINE_SEGMENTS];
} __attribute__((aligned(64)));
static_assert(sizeof(struct rdma_mr) == 128, "two lines");

struct rdma_cq {
	/* set when it is made */
	const struct sp_mem *mem;   /* a reference; NULL: unused */
	uint64_t offset;	    /* of the entries */
	uint32_t *consumer, *armed; /* in shared memory, within mem */
	uint32_t log;
	bool channel;
	bool failed;	/* atomic: overflow. Its QPs go to ERR. */
	uint32_t users; /* atomic: QPs, counted once for each queue */
	struct rdma_teller teller;
	uint64_t next __attribute__((aligned(64))); /* atomic: the next free slot, private to the NIC */
} __attribute__((aligned(64)));

/* The receive queue of a QP (on its worker), or an SRQ (all workers). */
struct rdma_rq {
	const struct sp_mem *mem; /* a reference; NULL: unused */
	uint32_t *tail;		  /* in shared memory, within mem */
	uint8_t *entry;		  /* in shared memory, within mem */
	uint32_t log, stride, sges;
	uint32_t next; /* atomic for an SRQ: the next entry to take */
	/* SRQ only */
	uint32_t pd;	/* id */
	uint32_t limit; /* atomic */
	uint32_t users; /* atomic: QPs */
	struct rdma_teller teller;
};

/* `live`: atomic, published last. Each worker has its own path, opened at first use. `ending`: workers that have still
 * to close theirs; then the slot is free. */
struct rdma_ah {
	bool live;
	uint64_t ending; /* atomic, a bit per worker */
	uint32_t pd;	 /* id */
	uint16_t udp_source;
	uint8_t traffic_class, hop_limit;
	uint8_t ip[16];
	struct sp_path **path; /* [workers] */
};

/* ---- queue pairs ---- */
/* A receive entry that was taken from its queue, copied once. */
struct rdma_receive {
	uint64_t wr_id;
	uint32_t sges;
	uint32_t at, within; /* next byte: SGE, and bytes of it that are filled */
	uint32_t got;	     /* bytes in all */
	bool taken;
	struct sp_qp_work *second; /* NULL: the application's */
	struct sp_rdma_sge sge[SP_RDMA_SGES];
};

/* A READ or ATOMIC that has been accepted, so that it can be answered, and answered again. */
enum rdma_resource_kind { RDMA_RESOURCE_NONE, RDMA_RESOURCE_READ, RDMA_RESOURCE_ATOMIC };
struct rdma_resource {
	uint32_t first, last; /* PSNs of the responses to the original request */
	uint32_t msn, rkey;
	uint64_t va;	      /* of the original */
	uint64_t value;	      /* ATOMIC: what was there before; while `fetched` is set, its operands: this */
	uint64_t compare;     /* and this */
	struct rdma_mr *held; /* ports may have frames with its bytes up to `mark` */
	uint64_t mark;
	uint32_t len;	  /* of the original */
	uint32_t at, end; /* READ: bytes of the original still to send are [at, end) */
	uint8_t kind;
	bool pending;	 /* responses are still to be sent */
	bool first_due;	 /* the next response is the first of an answer */
	bool answered;	 /* all responses have been sent: if they are pending, then to a duplicate */
	uint8_t fetched; /* ATOMIC: enum sp_rdma_fetch, an agent is to do it; 0: it is done */
};

enum rdma_message { RDMA_MESSAGE_NONE, RDMA_MESSAGE_SEND, RDMA_MESSAGE_WRITE };

/* Syndromes of the AETH. */
enum {
	RDMA_ACK = 0x1F, /* no limit on sends: we do not count credits */
	RDMA_RNR = 0x20, /* and the timer's code */
	RDMA_NAK_PSN = 0x60,
	RDMA_NAK_REQUEST = 0x61,
	RDMA_NAK_RIGHTS = 0x62,
	RDMA_NAK_REMOTE_OP = 0x63,
};

struct rdma_responder {
	uint32_t psn; /* expected */
	uint32_t msn;
	/* the message that is arriving */
	uint8_t message;     /* enum rdma_message */
	bool skipping;	     /* UC: the rest of a message is dropped */
	bool nak_sent;	     /* sequence or RNR: one until the expected PSN comes; selective repeat: RNR only */
	bool failing;	     /* no more requests are taken: the NAK `syndrome` goes out, then the QP goes to ERR */
	int8_t failure;	     /* enum sp_rdma_async of that; -1: a completion tells */
	bool heard;	     /* COMM_EST was posted */
	uint32_t rkey, left; /* WRITE */
	uint64_t va;	     /* WRITE: of the next packet */
	uint32_t total;	     /* WRITE: bytes of the message */
	/* the answers that are due */
	bool ack_due, again_due; /* again: ACK of a duplicate */
	uint8_t syndrome;
	uint32_t ack_psn, again_psn;
	uint32_t ahead;	    /* the latest PSN that came too early, while a NAK of it is due; selective repeat: the
				highest one */
	uint32_t next;	    /* resource[next % max_dest_rd_atomic] is for the next READ or ATOMIC */
	uint32_t pending;   /* resources with responses to send */
	uint32_t unsettled; /* resources that hold a region */
	sp_time cnp_at;	    /* no CNP before */
	struct rdma_receive receive;
	struct rdma_resource resource[SP_RDMA_READS];
};

/* What the agent is asked: fetch.h. */
struct rdma_ask {
	uint64_t id; /* 0: nothing */
	sp_time until;
	uint64_t va, offset; /* of the staging area, in its region */
	uint32_t len, rkey, psn;
	uint8_t kind; /* enum sp_rdma_fetch */
	bool told;    /* the event is posted */
};
struct rdma_fetch {
	uint64_t ids;			/* the latest */
	struct rdma_ask get, put, next; /* next: WRITE, not asked yet */
	struct rdma_resource *of;	/* of `get` */
	uint32_t from, to;		/* READ: bytes of it that are, or will be, in the staging area */
	uint32_t filled;		/* bytes of `next` */
	bool second;			/* `next` fills the second one of two parts */
};

/* What the QPs of a worker have in common whose peers have one address: peer.h. */
struct rdma_peer {
	struct rdma_peer *next; /* of its bucket, or free */
	uint8_t ip[16];
	uint32_t users; /* QPs */
	uint64_t bytes; /* of READ responses: turns that QPs have, as far as they are not sent */
	struct rdma_qp *waiting, *waiting_last; /* for a turn, oldest first */
};

/* Oldest first. */
struct rdma_works {
	struct sp_qp_work *first, *last;
};

/* A companion that uses the QP. */
struct rdma_second {
	const struct sp_qp_calls *calls; /* NULL: none does */
	struct rdma_works send, receive; /* not begun */
	uint32_t out;			 /* work that is not given back, begun or not */
	bool ending;			 /* takes no more; it ends when nothing is out */
	bool turn;			 /* an entry of the application is next, if there is one */
};

struct rdma_qp {
	/* of the slot, fixed by attach() */
	uint32_t index, number;
	/* set by the home worker when the QP is made, while nobody else looks at it */
	uint32_t used; /* atomic: taken by the home worker, given back by the QP's worker */
	uint8_t state; /* enum sp_rdma_qp_state; RESET: nothing else is looked at. Atomic */
	uint8_t type;  /* enum sp_rdma_qp_type */
	bool all_signaled;
	bool dying;			   /* destroyed, but ports still have frames */
	uint32_t pd;			   /* id */
	struct rdma_cq *send_cq, *recv_cq; /* other workers compare them, atomic */
	struct rdma_rq *rq;		   /* &own, or an SRQ */
	struct rdma_teller teller;
	const struct sp_mem *mem; /* a reference: of both queues */

	struct sp_rdma_qp_attr attr; /* as modified; its counts too */
	struct sp_path *path;	     /* RC, UC: from RTR on; NULL before */
	uint16_t udp_source;
	uint32_t mtu; /* = attr.path_mtu */
	uint32_t access;

	struct sp_issue issue;
	struct sp_timer timer; /* armed by rdma_qp_timer() for the earlier one of: */
	sp_time sq_at;	       /* rdma_request_timer() is due; SP_NEVER */
	sp_time rq_at;	       /* ERR: a look for receive entries to flush */
	sp_time rq_wait;
	sp_time ask_at; /* the agent is late */

	struct rdma_rq own;
	struct rdma_selective *selective; /* NULL: plain RC */
	struct rdma_responder in;
	struct rdma_sq sq; /* the requester's */
	struct rdma_second second;
	struct rdma_peer *peer;			 /* RC, from RTR on */
	struct rdma_qp *peer_next, *peer_before; /* in the line of its peer, if it waits there */
	uint32_t turn;				 /* bytes of READ responses that it may send */
	bool peer_waits;
	struct rdma_fetch fetch;
} __attribute__((aligned(64)));

/* What a worker has for itself. */
struct rdma_worker {
	struct rdma_teller *owed, *owed_last;
	struct sp_timer owed_timer;
	struct sp_issue chore; /* closes paths of address handles that end */
	struct rdma_peer **peers, *peers_free;
	uint32_t peer_mask;
} __attribute__((aligned(64)));

/* Selective repeat: slots of QPs, and each worker's buffers for packets that come ahead. */
struct rdma_buffers {
	uint8_t *bytes;
	uint32_t *free, left;
} __attribute__((aligned(64)));
struct rdma_selectives {
	struct rdma_selective *slot;
	struct rdma_buffers *buffers;
	uint32_t slots, each, window; /* window: a power of two, in PSNs */
};

/* ---- the context ---- */
struct rdma {
	/* fixed by attach() */
	uint32_t qps, cqs, srqs, mrs, pds, ahs, blocks;
	uint32_t key_mask; /* bits 8 and up of a key: the slot of its region or window */
	uint32_t first_qp;
	bool ecn; /* answer marks, and send packets as ECN-capable */
	bool cc;  /* a CNP slows a QP down */
	sp_time cnp_interval;
	uint64_t stream_region; /* payload for regions of that size and more goes past the caches */
	uint64_t peer_reads;	/* bytes of READ responses to one peer that are under way, at most, on each worker */
	struct rdma_pd *pd;	/* objects with id i are at [i - 1], but for regions */
	struct rdma_mr *mr;
	struct rdma_cq *cq;
	struct rdma_rq *srq;
	struct rdma_ah *ah;
	struct rdma_qp *qp;
	struct rdma_worker *worker;
	struct rdma_requester out;
	struct rdma_selectives selective;
	const struct sp_mem *agent; /* of the staging area, a reference. Atomic; NULL: no agent */
	uint64_t agent_offset;
	uint32_t agent_log;
	sp_time fetch_timeout;
	/* home worker */
	struct rdma_segment *block; /* [blocks][SP_RDMA_SEGMENTS] */
	uint32_t *block_free, blocks_free;
};

enum rdma_cookie { RDMA_COOKIE_QP, RDMA_COOKIE_WORKER }; /* sp_issue and sp_timer: index << 1 | this */

static inline struct rdma *rdma_of(struct sp_ctx *c)
{
	return (struct rdma *)c->state;
}

static inline uint32_t rdma_psn(uint32_t psn)
{
	return psn & SP_ROCE_PSN_MASK;
}

/* a - b as a signed distance of 24 bits. */
static inline int32_t rdma_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* Packets of a message or response of so many bytes. */
static inline uint32_t rdma_packets(uint32_t len, uint32_t mtu)
{
	return len ? (uint32_t)(((uint64_t)len + mtu - 1) / mtu) : 1;
}

static inline uint8_t rdma_state(const struct rdma_qp *qp)
{
	return __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE);
}

#endif
