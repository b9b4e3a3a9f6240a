/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, answers to a peer: control packets, refusals, acknowledgements. */
#include "answer.h"
#include "blocks.h"

#define RV_ACK_ROOM   1024 /* bytes of one ACK at most, */
#define RV_ACK_LEAST  256  /* ... and in a session with small packets */
#define RV_ACK_LOOK   4096 /* blocks that one ACK covers */
#define RV_NACK_BURST 32   /* NACKs in a row, after a pause of as many */

void rv_send_control(struct sp_ctx *c, struct rv_session *x, uint8_t opcode, const void *head, uint32_t head_len,
		     const void *bytes, uint32_t len)
{
	const struct sp_send send = {
		.dest_qp = x->qp,
		.psn = x->psn,
		.opcode = opcode,
		.flags = SP_SEND_UNPACED,
		.ext = head,
		.ext_len = head_len,
		.bytes = bytes,
		.len = len,
	};

	if (x->path && !sp_send_roce(c, x->path, &send))
		x->psn = (x->psn + 1) & SP_ROCE_PSN_MASK;
}

static void rv_nack(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint64_t blocks, enum sp_rvma_status why)
{
	struct rv *s = rv_of(c);
	const sp_time each = s->nack_rate ? SP_SEC / s->nack_rate : 0;
	struct sp_rvma_nack nack = {.reason = (uint8_t)why};

	if (!s->nack_rate || s->nack_at > c->now) {
		c->counters[RV_NACKS_SUPPRESSED]++;
		return;
	}
	if (c->now > RV_NACK_BURST * each && s->nack_at < c->now - RV_NACK_BURST * each)
		s->nack_at = c->now - RV_NACK_BURST * each;
	s->nack_at += each;
	sp_store_be64(nack.token, x->names.peer_token);
	sp_store_be64(nack.transfer, transfer);
	sp_store_be32(nack.blocks, (uint32_t)blocks);
	rv_send_control(c, x, SP_RVMA_NACK, &nack, sizeof(nack), NULL, 0);
	c->counters[RV_NACKS_SENT]++;
}

void rv_refuse(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint64_t packets, enum sp_rvma_status why,
	       bool silent)
{
	struct rv *s = rv_of(c);
	const uint64_t end = x->base + s->blocks, last = transfer + rv_blocks(packets);
	uint64_t k = transfer < x->base ? x->base : transfer;

	s->refused[why % 64]++;
	c->counters[RV_REFUSALS]++;
	for (; k < last && k < end; k++) {
		struct rv_block *b = rv_block_of(s, x, k);

		if (!rv_block_is(b, k))
			*b = (struct rv_block){.number = k + 1, .transfer = transfer};
		if (b->transfer != transfer || rv_block_complete(b))
			continue;
		b->refused = (uint8_t)why;
		b->silent = silent;
	}
	if (!silent && !s->implicit && x->state == RV_SESSION_OPEN)
		rv_nack(c, x, transfer, k > transfer ? k - transfer : 0, why);
}

void rv_send_ack(struct sp_ctx *c, struct rv_session *x, const struct sp_rel_asked *asked)
{
	const struct rv *s = rv_of(c);
	const size_t room = x->mtu < RV_ACK_LEAST ? RV_ACK_LEAST : x->mtu < RV_ACK_ROOM ? x->mtu : RV_ACK_ROOM;
	const uint64_t end = asked && x->receiver.end < x->end ? x->receiver.end : x->end;
	struct sp_rvma_datagram head;
	struct sp_rel_ack_maker m;
	uint8_t bytes[RV_ACK_ROOM];
	bool more = true;

	if (s->implicit)
		return;
	sp_store_be64(head.token, x->names.peer_token);
	sp_rel_ack_begin(&m, bytes, room, asked, x->base);
	for (uint64_t k = m.from_message; k < end && k - x->base < s->blocks && more; k++) {
		const struct rv_block *b = rv_block_of(s, x, k);

		if (k - m.from_message == RV_ACK_LOOK) {
			sp_rel_ack_stop(&m, k, 0); /* the peer will ask for more from here on */
			break;
		}
		if (!rv_block_is(b, k) || !b->seen)
			continue;
		if (b->refused && !b->silent)
			more = sp_rel_ack_refuse(&m, k, b->refused);
		else if (!b->refused && b->have)
			more = sp_rel_ack_add(&m, k, rv_block_complete(b) ? NULL : &b->have, b->units);
	}
	rv_send_control(c, x, SP_RVMA_ACK, &head, sizeof(head), bytes, (uint32_t)sp_rel_ack_end(&m));
}
