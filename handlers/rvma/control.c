/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"
#include "answer.h"
#include "blocks.h"
#include "get.h"
#include "hello.h"
#include "send.h"
#include "session.h"

/* Ends transfers that lack blocks below `begin`: the sender has given these up. */
static void rv_give_up(struct sp_ctx *c, struct rv_session *x, uint64_t begin)
{
	for (struct rv_transfer *t = x->transfers, *next; t; t = next) {
		const uint64_t end = t->number + rv_blocks(sp_rvma_packets(t->length, x->mtu));

		next = t->next;
		if (rv_blocks_lack(rv_of(c), x, t->number, end < begin ? end : begin))
			rv_transfer_end(c, t, SP_RVMA_GIVEN_UP);
	}
	rv_blocks_skip(rv_of(c), x, begin);
}

static uint32_t rv_take_poll(struct sp_ctx *c, struct rv_session *x, const void *datagram, uint32_t len)
{
	struct sp_rel_asked asked;

	if (rv_of(c)->implicit || sp_rel_poll_take(&x->receiver, datagram, len, &asked))
		return SP_DROP(RV_BAD_CONTROL);
	if (x->receiver.begin > SP_RVMA_BLOCKS)
		x->receiver.begin = SP_RVMA_BLOCKS;
	if (x->receiver.begin > x->base)
		rv_give_up(c, x, x->receiver.begin);
	if (asked.from_message <= x->base && x->ack_timer.armed)
		sp_timer_cancel(c, &x->ack_timer);
	rv_send_ack(c, x, &asked);
	return SP_DONE;
}

static uint32_t rv_take_bye(struct sp_ctx *c, struct rv_session *x, const struct sp_packet *p)
{
	const struct sp_rvma_bye *bye = (const void *)p->data;

	if (p->len < sizeof(*bye))
		return SP_DROP(RV_SHORT_HEADER);
	if (rv_of(c)->implicit || sp_load_be64(bye->nonce) != x->names.peer_nonce)
		return SP_DROP(RV_BAD_CONTROL);
	rv_session_end(c, x, SP_RVMA_PEER_GONE);
	return SP_DONE;
}

static uint32_t rv_take_nack(struct sp_ctx *c, struct rv_session *x, const struct sp_packet *p)
{
	const struct sp_rvma_nack *nack = (const void *)p->data;

	if (p->len < sizeof(*nack))
		return SP_DROP(RV_SHORT_HEADER);
	if (nack->reason < SP_RVMA_NO_MAILBOX || nack->reason > SP_RVMA_GIVEN_UP)
		return SP_DROP(RV_BAD_CONTROL);
	rv_nacked(c, x, sp_load_be64(nack->transfer), nack->reason);
	return SP_DONE;
}

uint32_t rv_control(struct sp_ctx *c, struct sp_packet *p)
{
	const uint32_t head = sizeof(struct sp_rvma_datagram);
	struct rv_session *x;
	uint8_t why;

	if (p->opcode == SP_RVMA_HELLO || p->opcode == SP_RVMA_WELCOME)
		return rv_hello(c, p);
	if (p->len < head)
		return SP_DROP(RV_SHORT_HEADER);
	x = rv_session_find(c, p, p->data, &why);
	if (!x)
		return SP_DROP(why);
	switch (p->opcode) {
	case SP_RVMA_POLL:
		return rv_take_poll(c, x, p->data + head, p->len - head);
	case SP_RVMA_ACK:
		return rv_acked(c, x, p->data + head, p->len - head) ? SP_DROP(RV_BAD_CONTROL) : SP_DONE;
	case SP_RVMA_NACK:
		return rv_take_nack(c, x, p);
	case SP_RVMA_BYE:
		return rv_take_bye(c, x, p);
	default:
		return SP_DROP(RV_BAD_OPCODE);
	}
}
