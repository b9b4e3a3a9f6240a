/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma, operations. An operation ends when all its blocks are done, when one is refused, or with its session. Its
 * status is published when ports hold no packets of it any more: then its memory is the host's again.
 */
#include "op.h"
#include "mailbox.h"
#include "transfer.h"

int rv_ops_attach(struct sp_ctx *c)
{
	struct rv *s = rv_of(c);
	uint32_t buckets = 1;

	while (buckets < s->ops)
		buckets *= 2;
	s->op = sp_alloc(c, 2ull * s->ops * sizeof(*s->op));
	s->get = sp_alloc(c, buckets * sizeof(*s->get));
	if (!s->op || !s->get)
		return sp_fail(c, ENOMEM, "ops", "no memory for %u operations", s->ops);
	s->get_mask = buckets - 1;
	for (uint32_t i = 0; i < s->ops; i++)
		s->op[s->ops + i].next = i + 1 < s->ops ? &s->op[s->ops + i + 1] : NULL;
	s->serve_free = s->ops ? &s->op[s->ops] : NULL;
	return 0;
}

void rv_op_append(struct rv_op *op)
{
	struct rv_session *x = op->session;

	op->next = NULL;
	op->previous = x->last_op;
	*(x->last_op ? &x->last_op->next : &x->first_op) = op;
	x->last_op = op;
	if (!x->sending)
		x->sending = op;
}

static struct rv_op **rv_get_bucket(const struct rv *s, const struct rv_session *x, uint64_t transfer)
{
	return &s->get[(transfer * 0x9E3779B97F4A7C15u >> 40 ^ x->index) & s->get_mask];
}

void rv_get_start(struct rv *s, struct rv_op *op)
{
	struct rv_op **at = rv_get_bucket(s, op->session, op->transfer);

	op->same = *at;
	*at = op;
}

struct rv_op *rv_get_of(const struct rv *s, const struct rv_session *x, uint64_t transfer)
{
	struct rv_op *op = s->implicit ? NULL : *rv_get_bucket(s, x, transfer);

	while (op && (op->session != x || op->transfer != transfer))
		op = op->same;
	return op;
}

/* The get ends: data that are still arriving for it are refused. */
static void rv_get_stop(struct sp_ctx *c, struct rv_op *op)
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
			rv_transfer_stop(c, t, SP_RVMA_GIVEN_UP);
			return;
		}
}

/* Frees the operation: the host can use its memory again. */
static void rv_op_free(struct sp_ctx *c, struct rv_op *op)
{
	struct rv *s = rv_of(c);
	const enum rv_op_kind kind = op->kind;
	uint64_t line;

	op->kind = RV_OP_NONE;
	if (kind == RV_OP_DATA) {
		op->next = s->serve_free;
		s->serve_free = op;
		c->counters[RV_GETS_SERVED] += !op->status;
		rv_read_end(c, op->window, op->buffer);
		return;
	}
	if (op->mem)
		sp_mem_put(c, op->mem);
	line = s->layout.op + (uint64_t)(op - s->op) * sizeof(struct sp_rvma_op_status);
	sp_dma_progress64(c, s->area, line + offsetof(struct sp_rvma_op_status, status), op->status);
	sp_dma_progress64(c, s->area, line + offsetof(struct sp_rvma_op_status, number), op->number);
	c->counters[op->status ? RV_OPS_FAILED : kind == RV_OP_PUT ? RV_PUTS_SENT : RV_GETS_DONE]++;
}

void rv_ops_settle(struct sp_ctx *c, struct rv *s, bool all)
{
	while (s->ended && (all || sp_send_settled(c, s->ended->mark))) {
		struct rv_op *op = s->ended;

		s->ended = op->next;
		rv_op_free(c, op);
	}
}

void rv_op_end(struct sp_ctx *c, struct rv_op *op, enum sp_rvma_status why)
{
	struct rv *s = rv_of(c);
	struct rv_session *x = op->session;
	uint64_t k;

	if (!x)
		return;
	if (op->kind == RV_OP_GET && op->packets)
		rv_get_stop(c, op);
	for (k = op->transfer < x->sender.begin ? x->sender.begin : op->transfer; k < op->transfer + op->started; k++) {
		if (x->block_op[k & (s->blocks - 1)] != op)
			continue;
		x->block_op[k & (s->blocks - 1)] = NULL;
		if (why >= SP_RVMA_NO_MAILBOX && why <= SP_RVMA_GIVEN_UP)
			sp_rel_refuse(&x->sender, k, (uint8_t)why); /* the peer knows already */
		sp_rel_release(&x->sender, k);
	}
	x->serving -= op->kind == RV_OP_DATA;
	if (x->sending == op)
		x->sending = op->next;
	*(op->previous ? &op->previous->next : &x->first_op) = op->next;
	*(op->next ? &op->next->previous : &x->last_op) = op->previous;
	op->session = NULL;
	op->status = (uint8_t)why;
	op->next = NULL;
	if (!s->ended && sp_send_settled(c, op->mark)) {
		rv_op_free(c, op);
		return;
	}
	*(s->ended ? &s->ended_last->next : &s->ended) = op;
	s->ended_last = op;
	sp_issue_start(c, &s->issue);
}

void rv_ops_end(struct sp_ctx *c, struct rv_session *x, enum sp_rvma_status why)
{
	while (x->first_op)
		rv_op_end(c, x->first_op, why);
}

void rv_ops_detach(struct sp_ctx *c)
{
	struct rv *s = rv_of(c);

	for (uint32_t i = 0; i < s->peers; i++)
		rv_ops_end(c, &s->session[i], SP_RVMA_CANCELLED);
	rv_ops_settle(c, s, true); /* the NIC holds what ports still use */
}
