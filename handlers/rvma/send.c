/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma, blocks of operations. Operations become transfers, and transfers become blocks, as far as the session's window
 * has room. issue.c makes packets of the blocks.
 */
#include "send.h"
#include "../mem_range.h"
#include "hello.h"
#include "op.h"
#include "sender.h"
#include "session.h"

#define RV_SILENT 6 /* unanswered polls in a row */

/* A block has timed out: has the peer been silent? */
static bool rv_is_silent(struct sp_ctx *c, const struct rv_session *x)
{
	const sp_time timeout = rv_of(c)->timeout, since = c->now - x->heard_at;

	/* A peer that was asked nothing need not answer: it may owe us nothing but the data of a get. */
	return x->sender.silent && (since >= timeout / 2 || (since >= timeout / 8 && x->sender.silent >= RV_SILENT));
}

static void rv_gets_expire(struct sp_ctx *c, struct rv_session *x)
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

void rv_send_more(struct sp_ctx *c, struct rv_session *x)
{
	if (rv_of(c)->implicit || x->state == RV_SESSION_FREE)
		return;
	if (x->state != RV_SESSION_OPEN) {
		if (x->first_op)
			rv_hello_begin(c, x);
		return;
	}
	if (x->get_at <= c->now)
		rv_gets_expire(c, x);
	rv_sender_wake(c, x);
}

/* ---- puts and gets of the host ---- */
int rv_post(struct sp_ctx *c, const struct sp_command *command)
{
	struct rv *s = rv_of(c);
	const bool get = command->op == SP_RVMA_CMD_GET;
	const uint32_t slot = (uint32_t)command->cookie;
	const uint64_t number = command->cookie >> 32;
	struct rv_session *x = rv_peer_get(s, (uint32_t)(command->arg[0] >> 32));
	const struct sp_mem *mem = NULL;
	int rc;

	if (slot >= s->ops || !number || (!get && command->flags & ~(SP_CMD_REPLY | SP_RVMA_CMD_FENCE)))
		return -EINVAL;
	if (!x) /* its slot was reused */
		return -ENOENT;
	if (s->op[slot].kind != RV_OP_NONE)
		return -EAGAIN;
	rc = command->arg[2] ? mem_range_get(c, (uint32_t)command->arg[0], command->arg[1], command->arg[2], &mem) : 0;
	if (rc)
		return rc;
	s->op[slot] = (struct rv_op){
		.kind = get ? RV_OP_GET : RV_OP_PUT,
		.session = x,
		.mem = mem,
		.offset = command->arg[1],
		.length = command->arg[2],
		.mailbox = command->arg[3],
		.key = command->arg[4],
		.at = command->arg[5],
		.number = number,
		.back = get ? (uint32_t)command->flags >> SP_RVMA_CMD_BACK_SHIFT : 0,
		.flags = !get && command->flags & SP_RVMA_CMD_FENCE ? SP_RVMA_FENCE : 0,
	};
	rv_op_append(&s->op[slot]);
	rv_send_more(c, x);
	return 0;
}

/* ---- starting blocks ---- */
/* The operation is next: it gets a transfer number. */
static void rv_number(struct sp_ctx *c, struct rv_session *x, struct rv_op *op)
{
	const uint64_t packets = op->kind == RV_OP_GET ? 1 : sp_rvma_packets(op->length, x->mtu);

	if (packets > SP_RVMA_PACKETS_MAX) {
		rv_op_end(c, op, SP_RVMA_TOO_LARGE);
		return;
	}
	op->packets = packets;
	op->blocks = (uint32_t)((packets - 1) / SP_RVMA_BLOCK + 1);
	op->transfer = x->sender.end;
	if (op->blocks > SP_RVMA_BLOCKS - op->transfer) { /* no numbers are left: a new session begins at 0 */
		op->packets = 0;
		rv_bye(c, x);
		rv_session_end(c, x, SP_RVMA_PEER_GONE);
		return;
	}
	if (op->kind == RV_OP_GET)
		rv_get_start(rv_of(c), op);
	if (op->kind != RV_OP_DATA)
		return;
	op->until = c->now + rv_time_of(rv_of(c), packets); /* limited, because the answer holds a buffer */
	if (op->until < x->get_at)
		x->get_at = op->until;
}

void rv_start_blocks(struct sp_ctx *c, struct rv_session *x)
{
	const struct rv *s = rv_of(c);
	struct rv_op *op;
	uint64_t k;

	while ((op = x->sending) != NULL) {
		if (!op->packets)
			rv_number(c, x, op);
		if (x->sending != op)
			continue;
		for (; op->started < op->blocks; op->started++) {
			const uint64_t left = op->packets - (uint64_t)op->started * SP_RVMA_BLOCK;

			if (x->sender.end - x->sender.begin >= x->names.window ||
			    sp_rel_start(&x->sender, left < SP_RVMA_BLOCK ? (uint32_t)left : SP_RVMA_BLOCK, c->now, &k))
				return;
			x->block_op[k & (s->blocks - 1)] = op;
		}
		x->sending = op->next;
	}
}

/* ---- blocks that have ended ---- */
static void rv_block_done(struct sp_ctx *c, struct rv_session *x, uint64_t number, struct rv_op *op)
{
	x->block_op[number & (rv_of(c)->blocks - 1)] = NULL;
	sp_rel_release(&x->sender, number);
	if (++op->done < op->blocks)
		return;
	if (op->kind != RV_OP_GET) {
		rv_op_end(c, op, SP_RVMA_DELIVERED);
		return;
	}
	op->waits = true;
	op->until = c->now + rv_of(c)->timeout;
	if (op->until < x->get_at)
		x->get_at = op->until;
}

static enum sp_rvma_status rv_reason(uint8_t reason)
{
	return reason >= SP_RVMA_NO_MAILBOX && reason <= SP_RVMA_GIVEN_UP ? (enum sp_rvma_status)reason
									  : SP_RVMA_GIVEN_UP;
}

void rv_collect(struct sp_ctx *c, struct rv_session *x)
{
	const struct rv *s = rv_of(c);
	const struct sp_rel_counters *n = &x->sender.counters;
	uint64_t left = x->sends ? n->done + n->failed + n->refused - x->settled : 0; /* to find, at most */

	for (uint64_t k = x->sender.begin; left && k < x->sender.end; k++) {
		struct rv_op *op = x->block_op[k & (s->blocks - 1)];
		const enum sp_rel_state state = op ? sp_rel_state(&x->sender, k) : SP_REL_FREE;

		left -= state != SP_REL_FREE && state != SP_REL_OPEN;
		switch (state) {
		case SP_REL_DONE:
			rv_block_done(c, x, k, op);
			break;
		case SP_REL_REFUSED:
			rv_op_end(c, op, rv_reason(sp_rel_reason(&x->sender, k)));
			break;
		case SP_REL_FAILED:
			if (rv_is_silent(c, x)) {
				rv_session_end(c, x, SP_RVMA_PEER_GONE);
				return;
			}
			rv_op_end(c, op, SP_RVMA_TIMEOUT);
			break;
		case SP_REL_FREE:
		case SP_REL_OPEN:
			break;
		}
	}
	if (x->sends)
		x->settled = n->done + n->failed + n->refused;
}

/* Returns the operation of a transfer that has blocks in flight, or NULL. */
static struct rv_op *rv_op_find(const struct rv *s, const struct rv_session *x, uint64_t transfer)
{
	for (uint64_t k = transfer > x->sender.begin ? transfer : x->sender.begin; k < x->sender.end; k++) {
		struct rv_op *op = x->block_op[k & (s->blocks - 1)];

		if (op)
			return op->transfer == transfer ? op : NULL;
	}
	return NULL;
}

void rv_nacked(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, enum sp_rvma_status why)
{
	struct rv_op *op = x->sends ? rv_op_find(rv_of(c), x, transfer) : NULL;

	if (!op)
		return;
	rv_op_end(c, op, why);
	rv_send_more(c, x);
}

int rv_acked(struct sp_ctx *c, struct rv_session *x, const void *datagram, size_t len)
{
	if (!x->sends || sp_rel_ack(&x->sender, datagram, len, c->now))
		return -EINVAL;
	rv_collect(c, x);
	rv_send_more(c, x);
	return 0;
}
