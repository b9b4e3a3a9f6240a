/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, gets: those that wait for their data, and the answers to the peers'. */
#include "copy.h"
#include "ops.h"

void rv_get_start(struct rv *s, struct rv_op *op)
{
	struct rv_op **at = rv_get_bucket(s, op->session, op->transfer);

	op->same = *at;
	*at = op;
}

/* Data that are coming for it are of no use any more. */
void rv_get_stop(struct sp_ctx *c, struct rv_op *op)
{
	struct rv_op **at = rv_get_bucket(rv_of(c), op->session, op->transfer);

	while (*at && *at != op)
		at = &(*at)->same;
	if (*at)
		*at = op->same;
	if (!op->taken)
		return;
	op->taken = false;
	for (struct rv_transfer *t = op->session->transfers; t; t = t->next)
		if (t->get == op) {
			t->get = NULL;
			rv_transfer_end(c, t, SP_RVMA_GIVEN_UP);
			return;
		}
}

struct rv_op *rv_get_find(struct sp_ctx *c, struct rv_session *x, uint64_t get, uint64_t length,
			  const struct sp_mem **mem, uint64_t *at)
{
	struct rv_op *op = rv_of(c)->implicit ? NULL : *rv_get_bucket(rv_of(c), x, get);

	while (op && (op->session != x || op->transfer != get))
		op = op->same;
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
	op->taken = false; /* its transfer ends by itself */
	rv_copied(rv_of(c));
	rv_op_end(c, op, why);
}

void rv_gets_expire(struct sp_ctx *c, struct rv_session *x)
{
	x->get_at = SP_NEVER;
	for (struct rv_op *op = x->first_op, *next; op; op = next) {
		next = op->next;
		if (op->kind == RV_OP_DATA ? !op->packets : !op->waits || op->taken)
			continue;
		if (op->until <= c->now)
			rv_op_end(c, op, rv_is_silent(c, x) ? SP_RVMA_PEER_GONE : SP_RVMA_TIMEOUT);
		else if (op->until < x->get_at)
			x->get_at = op->until;
	}
}

void rv_serves_end(struct sp_ctx *c, uint32_t window)
{
	struct rv *s = rv_of(c);

	for (struct rv_op *op = s->op + s->ops; op < s->op + 2ull * s->ops; op++) {
		struct rv_session *x = op->session;

		if (op->kind != RV_OP_DATA || op->window != window || !x)
			continue;
		rv_op_end(c, op, SP_RVMA_CANCELLED);
		rv_send_more(c, x); /* the peer is told */
	}
}

enum sp_rvma_status rv_serve(struct sp_ctx *c, struct rv_session *x, uint64_t get, const struct sp_mem *mem,
			     uint64_t at, uint64_t length, uint32_t window, uint32_t buffer)
{
	struct rv *s = rv_of(c);
	struct rv_op *op = s->serve_free;

	if (!op || s->implicit || x->serving >= (s->ops + 1) / 2) /* one peer leaves room for others */
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
	rv_op_append(x, op);
	rv_send_more(c, x);
	return SP_RVMA_DELIVERED;
}
