/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, packets of operations. Sessions with something to send take turns. */
#include "issue.h"
#include "op.h"
#include "send.h"

#define RV_BURST 8 /* packets of a session in a row */

static int rv_send_poll(struct sp_ctx *c, struct rv_session *x, const struct sp_rel_poll *poll)
{
	struct sp_rvma_datagram head;
	const struct sp_send send = {
		.dest_qp = x->qp,
		.psn = x->psn,
		.opcode = SP_RVMA_POLL,
		.flags = SP_SEND_UNPACED,
		.ext = &head,
		.ext_len = sizeof(head),
		.bytes = poll,
		.len = sizeof(*poll),
	};

	sp_store_be64(head.token, x->names.peer_token);
	return sp_send_roce(c, x->path, &send);
}

static int rv_send_packet(struct sp_ctx *c, struct rv_session *x, struct rv_op *op, uint64_t packet)
{
	union {
		struct sp_rvma_head head;
		struct sp_rvma_put put;
		struct sp_rvma_get get;
		struct sp_rvma_data data;
	} ext = {.get = {.back = {0}}};
	const uint64_t at = packet * x->mtu, left = op->length - at;
	struct sp_send send = {
		.dest_qp = x->qp,
		.psn = x->psn,
		.opcode = SP_RVMA_PUT,
		.ext = &ext,
		.ext_len = sizeof(ext.put),
		.len = left < x->mtu ? (uint32_t)left : x->mtu,
		.mem = op->mem,
		.offset = op->offset + at,
	};
	int rc;

	sp_store_be64(ext.head.token, x->names.peer_token);
	sp_store_be64(ext.head.transfer, op->transfer);
	sp_store_be32(ext.head.packet, (uint32_t)packet);
	ext.head.version = SP_RVMA_VERSION;
	ext.head.flags = op->flags;
	sp_store_be64(ext.put.length, op->length); /* at the same place in all */
	if (op->kind == RV_OP_DATA) {
		send.opcode = SP_RVMA_DATA;
		send.ext_len = sizeof(ext.data);
		sp_store_be64(ext.data.get, op->get);
	} else {
		sp_store_be64(ext.put.mailbox, op->mailbox);
		sp_store_be64(ext.put.key, op->key);
		sp_store_be64(ext.put.offset, op->at);
	}
	if (op->kind == RV_OP_GET) {
		send.opcode = SP_RVMA_GET;
		send.ext_len = sizeof(ext.get);
		send.len = 0;
		sp_store_be32(ext.get.back, op->back);
	}
	if (!send.len)
		send.mem = NULL;
	rc = sp_send_roce(c, x->path, &send);
	op->mark = sp_send_mark(c);
	return rc;
}

static_assert(offsetof(struct sp_rvma_put, length) == offsetof(struct sp_rvma_get, length) &&
		      offsetof(struct sp_rvma_put, length) == offsetof(struct sp_rvma_data, length) &&
		      offsetof(struct sp_rvma_put, offset) == offsetof(struct sp_rvma_get, offset),
	      "rv_send_packet() fills them in alike");

/* Sends at most `budget` packets. *idle: there is nothing more to send now. */
static unsigned rv_send_some(struct sp_ctx *c, struct rv_session *x, unsigned budget, bool *idle)
{
	const struct rv *s = rv_of(c);
	struct sp_rel_next next;
	unsigned sent = 0;

	*idle = false;
	while (sent < budget) {
		struct rv_op *op;
		int rc = 0;

		next.what = SP_REL_NOTHING;
		rv_start_blocks(c, x);
		if (x->sends)
			sp_rel_next(&x->sender, c->now, &next);
		rv_collect(c, x); /* a block may have timed out */
		if (!x->sends || next.what == SP_REL_NOTHING) {
			*idle = true;
			break;
		}
		op = next.what != SP_REL_ASK ? x->block_op[next.message & (s->blocks - 1)] : NULL;
		if (next.what == SP_REL_ASK)
			rc = rv_send_poll(c, x, &next.poll);
		else if (op)
			rc = rv_send_packet(c, x, op, (next.message - op->transfer) * SP_RVMA_BLOCK + next.unit);
		else
			continue; /* its operation has just ended */
		if (rc == -EAGAIN)
			break;
		/* Any other failure counts as a packet lost in the network. */
		x->psn = (x->psn + 1) & SP_ROCE_PSN_MASK;
		if (op)
			c->counters[next.what == SP_REL_UNIT ? RV_PACKETS_SENT : RV_RETRANSMITS]++;
		sp_rel_sent(&x->sender, &next, 0, c->now);
		sent++;
	}
	return sent;
}

static void rv_wait(struct sp_ctx *c, struct rv_session *x)
{
	sp_time at;

	if (!x->sends)
		return;
	at = sp_rel_deadline(&x->sender);
	at = at < x->get_at ? at : x->get_at;
	if (at == SP_NEVER)
		sp_timer_cancel(c, &x->timer);
	else
		sp_timer_arm(c, &x->timer, at > c->now ? at : c->now + SP_US);
}

int rv_issue(struct sp_ctx *c, struct sp_issue *issue, unsigned budget)
{
	struct rv *s = rv_of(c);

	(void)issue;
	rv_ops_settle(c, s, false);
	while (s->active) {
		struct rv_session *x = s->active;
		const unsigned most = budget < RV_BURST ? budget : RV_BURST;
		unsigned sent;
		bool idle;

		if (!budget)
			return SP_ISSUE_MORE;
		sent = rv_send_some(c, x, most, &idle);
		budget -= sent;
		if (s->active != x) /* the session has ended */
			continue;
		if (!idle && sent < most)
			return SP_ISSUE_MORE;
		s->active = x->next_active;
		x->next_active = NULL;
		x->active = false;
		if (idle)
			rv_wait(c, x);
		else
			rv_send_more(c, x);
	}
	rv_ops_settle(c, s, false);
	return s->ended ? SP_ISSUE_WAIT : SP_ISSUE_DONE; /* for ports, which start it */
}
