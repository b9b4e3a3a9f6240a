/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers on their way out: shared by send.c, issue.c and get.c. */
#ifndef HANDLERS_RVMA_OPS_H
#define HANDLERS_RVMA_OPS_H

#include "state.h"

enum rv_op_kind {
	RV_OP_NONE, /* free */
	RV_OP_PUT,
	RV_OP_GET,
	RV_OP_DATA, /* answers a get of the peer's */
};

struct rv_op {
	struct rv_op *next, *previous; /* of the session, in order of posting; next: free list, or ended */
	struct rv_op *same;	       /* gets: next in the bucket */
	struct rv_session *session;    /* NULL: it has ended */
	const struct sp_mem *mem;      /* a reference, but DATA's: its buffer has that */
	uint64_t offset, length;       /* in mem */
	uint64_t mailbox, key, at;     /* at: in the buffer there */
	uint64_t number;	       /* the host's */
	uint64_t transfer, packets;    /* 0 packets: no number yet */
	uint64_t get;		       /* DATA: the get's transfer number */
	uint64_t mark;		       /* of its latest packet, for sp_send_settled() */
	sp_time until;		       /* gets: data must begin to come by then; DATA: have gone by then */
	uint32_t blocks, started, done;
	uint32_t window, buffer; /* DATA */
	uint32_t back;
	uint8_t kind, flags, status;
	bool waits; /* gets: the request was delivered */
	bool taken; /* gets: data are coming */
};

static inline struct rv_op **rv_get_bucket(const struct rv *s, const struct rv_session *x, uint64_t transfer)
{
	return &s->get[(transfer * 0x9E3779B97F4A7C15u >> 40 ^ x->index) & s->get_mask];
}

#pragma GCC visibility push(hidden)
void rv_get_start(struct rv *s, struct rv_op *op);    /* it has a number */
void rv_get_stop(struct sp_ctx *c, struct rv_op *op); /* it ends */
void rv_gets_expire(struct sp_ctx *c, struct rv_session *x);
void rv_settle(struct sp_ctx *c, struct rv *s, bool all); /* tells of those that ports have let go of; or of all */
void rv_start(struct sp_ctx *c, struct rv_session *x);	  /* begins blocks while there is room for them */
bool rv_is_silent(struct sp_ctx *c, const struct rv_session *x);
void rv_op_append(struct rv_session *x, struct rv_op *op);
#pragma GCC visibility pop

#endif
