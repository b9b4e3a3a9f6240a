/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, the requester's part of a QP, and of the handler. request.h tells what its files do. */
#ifndef HANDLERS_RDMA_SQ_H
#define HANDLERS_RDMA_SQ_H

#include "../spindle-handler.h"
#include "../wire/rdma.h"

#define RDMA_OPS 64 /* operations of a QP that are out at once, at most */

struct rdma_qp;
struct rdma_mr;
struct rdma_op; /* wqe.h */

/* Operations of a worker. */
struct rdma_pool {
	struct rdma_op *free, *all;
	struct rdma_qp *waiting, *waiting_last; /* QPs that found it empty, oldest first */
} __attribute__((aligned(64)));

/* Part of struct rdma. */
struct rdma_requester {
	struct rdma_pool *pool; /* of each worker */
	uint32_t ops;		/* in each */
	uint32_t window;
	uint64_t full; /* bytes per second of a QP that nobody has slowed down */
};

/* DCQCN (Zhu et al., SIGCOMM 2015), reaction point. In bytes per second; 0: not slowed down. */
struct rdma_rate {
	uint64_t now, target;
	uint64_t bytes; /* sent since the last step by bytes */
	sp_time alpha_at, step_at, cut_at;
	uint32_t alpha; /* of 2^16 */
	uint16_t by_time, by_bytes;
};

/* PSNs are kept with 64 bits, so that none comes twice. */
struct rdma_sq {
	/* the queue in shared memory */
	uint32_t *tail, *rung;
	uint8_t *entry;
	uint32_t log, stride, sges, inlined;
	uint32_t next; /* entry to take */
	uint32_t done; /* entries that are done with */
	/* operations in order */
	struct rdma_op *first, *last; /* not yet completed */
	struct rdma_op *wait;	      /* oldest one without an acknowledgement */
	struct rdma_op *send;	      /* next one to send of; NULL: the queue's next entry */
	struct rdma_op *dropped;      /* of before a reset: ports still have their frames */
	uint32_t ops;
	uint64_t una;	       /* oldest PSN without an acknowledgement */
	uint64_t at;	       /* next PSN to send */
	uint64_t end;	       /* behind all PSNs that were ever sent */
	uint64_t ask;	       /* behind the last PSN that asks for an answer; from una on: none is awaited */
	uint64_t packet;       /* request packets of all operations so far: those of a READ are one */
	uint64_t restart;      /* READ: a response that is missing was asked for again from this PSN on, */
	bool restarting;       /* and its first response has not come */
	bool flushing;	       /* ERR, SQE: everything ends unsent */
	bool stopping;	       /* SQD: nothing new begins */
	bool failed;	       /* an operation will end with an error: nothing behind it is sent */
	bool waiting;	       /* for an operation of the pool */
	uint8_t retries, rnrs; /* that are left */
	uint32_t since_ask;    /* packets since one asked for an acknowledgement */
	uint32_t reads;	       /* READs and ATOMICs that are not answered */
	uint64_t nak_at;       /* the last sequence NAK's PSN plus 1 */
	sp_time heard;	       /* timeouts count from here */
	sp_time rnr_until;     /* 0: no RNR */
	sp_time pace_at;       /* no packet before */
	struct rdma_qp *pool_next, *pool_before;
	struct rdma_rate rate;
};

#endif
