/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: the puts and gets of the host, and the answers to gets of peers. Each becomes a transfer. */
#ifndef HANDLERS_RVMA_OP_H
#define HANDLERS_RVMA_OP_H

#include "state.h"

#pragma GCC visibility push(hidden)
enum rv_op_kind {
	RV_OP_NONE, /* free */
	RV_OP_PUT,
	RV_OP_GET,
	RV_OP_DATA, /* answers a get of the peer's */
};

struct rv_op {
	struct rv_op *next, *previous; /* in the session, in order of posting; next: in the free list or in rv.ended */
	struct rv_op *same;	       /* gets: next with the same hash */
	struct rv_session *session;    /* NULL: the operation has ended */
	const struct sp_mem *mem;      /* a reference; for DATA the buffer has it */
	uint64_t offset, length;       /* in mem */
	uint64_t mailbox, key, at;     /* at: offset in the buffer there */
	uint64_t number;	       /* given by the host */
	uint64_t transfer, packets;    /* packets 0: no transfer number yet */
	uint64_t get;		       /* DATA: transfer number of the get */
	uint64_t mark;		       /* of its latest packet, for sp_send_settled() */
	sp_time until; /* gets: first data must arrive by then; DATA: all must be acknowledged by then */
	uint32_t blocks, started, done;
	uint32_t window, buffer; /* DATA */
	uint32_t back;
	uint8_t kind, flags, status;
	bool waits; /* gets: the request was delivered */
	bool taken; /* gets: data are arriving */
};

int rv_ops_attach(struct sp_ctx *c);
void rv_ops_detach(struct sp_ctx *c);
/* Adds it to its session's operations. */
void rv_op_append(struct rv_op *op);
/* It has a transfer number. */
void rv_get_start(struct rv *s, struct rv_op *op);
/* The get of a session with that transfer number, or NULL. */
struct rv_op *rv_get_of(const struct rv *s, const struct rv_session *x, uint64_t transfer);
void rv_op_end(struct sp_ctx *c, struct rv_op *op, enum sp_rvma_status why);
/* Ends all operations of the session. */
void rv_ops_end(struct sp_ctx *c, struct rv_session *x, enum sp_rvma_status why);
/* Frees ended operations of which ports hold no packets any more, or all ended ones, and publishes their status. */
void rv_ops_settle(struct sp_ctx *c, struct rv *s, bool all);
#pragma GCC visibility pop

#endif
