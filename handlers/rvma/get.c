/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, gets: those of the host, for which data arrive, and the answers to gets of peers. */
#include "get.h"
#include "copy.h"
#include "op.h"
#include "send.h"
#include "transfer.h"

struct rv_op *rv_get_find(struct sp_ctx *c, struct rv_session *x, uint64_t get, uint64_t length,
			  const struct sp_mem **mem, uint64_t *at)
{
	struct rv_op *op = rv_get_of(rv_of(c), x, get);

	if (!op || op->taken)
		return NULL;
	if (length != op->length) {
		rv_op_end(c, op, SP_RVMA_FAULT);
		return NULL;
	}
	op->taken = true;
	*mem = op->mem;
	*at = op->offset;
	return op;
}

void rv_get_end(struct sp_ctx *c, struct rv_op *op, enum sp_rvma_status why)
{
	op->taken = false; /* so that rv_op_end() does not stop the transfer */
	rv_copied(rv_of(c));
	rv_op_end(c, op, why);
}

void rv_transfer_end(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why)
{
	struct rv_op *get = t->ended ? NULL : t->get;

	if (get)
		t->get = NULL;
	rv_transfer_stop(c, t, why);
	if (get)
		rv_get_end(c, get, why);
}

enum sp_rvma_status rv_serve(struct sp_ctx *c, struct rv_session *x, uint64_t get, const struct sp_mem *mem,
			     uint64_t at, uint64_t length, uint32_t window, uint32_t buffer)
{
	struct rv *s = rv_of(c);
	struct rv_op *op = s->serve_free;

	if (!op || s->implicit || x->serving >= (s->ops + 1) / 2) /* one peer must not use up all answers */
		return SP_RVMA_NO_ROOM;
	s->serve_free = op->next;
	*op = (struct rv_op){.kind = RV_OP_DATA,
			     .session = x,
			     .mem = mem,
			     .offset = at,
			     .length = length,
			     .get = get,
			     .window = window,
			     .buffer = buffer};
	x->serving++;
	rv_op_append(op);
	rv_send_more(c, x);
	return SP_RVMA_DELIVERED;
}

void rv_serves_end(struct sp_ctx *c, uint32_t window)
{
	struct rv *s = rv_of(c);

	for (struct rv_op *op = s->op + s->ops; op < s->op + 2ull * s->ops; op++) {
		struct rv_session *x = op->session;

		if (op->kind != RV_OP_DATA || op->window != window || !x)
			continue;
		rv_op_end(c, op, SP_RVMA_CANCELLED);
		rv_send_more(c, x); /* so that the peer learns of it */
	}
}
