/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma, what of a session's blocks has come: so that each packet takes effect once, and the sender hears of it.
 *
 * `base` advances over complete blocks, and to where the sender says that it has no more use for what is below; over
 * refused ones not by itself, for it tells the sender that all below is complete.
 */
#include "state.h"

#define RV_ACK_ROOM   1024 /* bytes of one ACK at most, */
#define RV_ACK_LEAST  256  /* ... and of one in a session of small packets */
#define RV_ACK_LOOK   4096 /* blocks that one speaks of */
#define RV_NACK_BURST 32   /* NACKs at once, after none for so long */

static bool rv_block_complete(const struct rv_block *b)
{
	return b->units && b->have == UINT64_MAX >> (64 - b->units);
}

/* Complete, or what the sender has been told to give up: not so a number that it never used for that, and may have
 * given to another transfer, of which nothing has come yet. */
static bool rv_block_settled(const struct rv *s, const struct rv_session *x, uint64_t number)
{
	const struct rv_block *b = rv_block_of(s, x, number);

	return rv_block_is(b, number) && b->seen && (b->refused || rv_block_complete(b));
}

/* As a message: there may be many of them. */
static bool rv_is_open(struct sp_ctx *c, const struct rv_session *x, uint64_t transfer)
{
	struct sp_message *m = sp_message_hold(c, rv_message_key(x, transfer));

	if (m)
		sp_message_release(c, m);
	return m;
}

/* A transfer of which something has come, or was refused, is either open, or over: then what comes of it is late. */
static enum sp_rvma_status rv_over(struct sp_ctx *c, const struct rv_session *x, uint64_t transfer)
{
	const struct rv *s = rv_of(c);
	const struct rv_block *first = rv_block_of(s, x, transfer);

	if (transfer >= x->base &&
	    (!rv_block_is(first, transfer) || first->transfer != transfer || !(first->refused || first->have)))
		return SP_RVMA_DELIVERED;
	if (rv_is_open(c, x, transfer))
		return SP_RVMA_DELIVERED;
	return transfer >= x->base && first->refused ? first->refused : SP_RVMA_GIVEN_UP;
}

/* A replay begins anywhere, and nobody is told what is missing. */
static void rv_slide(const struct rv *s, struct rv_session *x, uint64_t number)
{
	if (s->implicit && number < SP_RVMA_BLOCKS && number >= x->base + s->blocks)
		x->base = number - s->blocks + 1;
}

/* Packets of the block that this one is in. */
static uint32_t rv_units(uint32_t packet, uint64_t packets)
{
	const uint64_t left = packets - (packet & ~(SP_RVMA_BLOCK - 1));

	return left < SP_RVMA_BLOCK ? (uint32_t)left : SP_RVMA_BLOCK;
}

enum rv_look rv_look(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint32_t packet, uint64_t packets)
{
	const struct rv *s = rv_of(c);
	const uint64_t number = transfer + packet / SP_RVMA_BLOCK;
	struct rv_block *b;

	if (transfer >= SP_RVMA_BLOCKS || number >= SP_RVMA_BLOCKS)
		return RV_TOO_FAR;
	rv_slide(s, x, number);
	if (number < x->base)
		return RV_HAVE;
	if (number - x->base >= s->blocks)
		return RV_TOO_FAR;
	b = rv_block_of(s, x, number);
	if (!rv_block_is(b, number) || (b->transfer < transfer && !b->seen)) {
		const enum sp_rvma_status over = rv_over(c, x, transfer);

		*b = (struct rv_block){
			.number = number + 1, .transfer = transfer, .refused = (uint8_t)over, .silent = over};
	} else if (b->transfer != transfer || (b->units && b->units != rv_units(packet, packets))) {
		return RV_IS_REFUSED; /* it is another one's, or its length was another one */
	}
	b->seen = true;
	x->end = number < x->end ? x->end : number + 1;
	if (b->have >> (packet % SP_RVMA_BLOCK) & 1)
		return RV_HAVE;
	return b->refused ? RV_IS_REFUSED : RV_NEW;
}

static void rv_advance(const struct rv *s, struct rv_session *x)
{
	const struct rv_block *b = rv_block_of(s, x, x->base);

	while (rv_block_is(b, x->base) && !b->refused && rv_block_complete(b))
		b = rv_block_of(s, x, ++x->base);
}

void rv_take(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint32_t packet, uint64_t packets)
{
	const struct rv *s = rv_of(c);
	const uint64_t number = transfer + packet / SP_RVMA_BLOCK;
	struct rv_block *b = rv_block_of(s, x, number);

	if (number < x->base || !rv_block_is(b, number) || b->transfer != transfer || packet >= packets)
		return;
	b->units = (uint8_t)rv_units(packet, packets);
	b->have |= 1ull << (packet % SP_RVMA_BLOCK);
	if (rv_block_complete(b))
		rv_taken(c, x);
}

void rv_taken(struct sp_ctx *c, struct rv_session *x)
{
	const struct rv *s = rv_of(c);

	rv_advance(s, x);
	if (!s->implicit && !x->ack_timer.armed && x->state == RV_SESSION_OPEN)
		sp_timer_arm(c, &x->ack_timer, c->now + s->ack_delay);
}

bool rv_in_order(const struct rv *s, struct rv_session *x, uint64_t transfer)
{
	x->ordered = x->ordered < x->base ? x->base : x->ordered;
	while (x->ordered < transfer && x->ordered - x->base < s->blocks && rv_block_settled(s, x, x->ordered))
		x->ordered++;
	return x->ordered >= transfer;
}

/* ---- refusals ------------------------------------------------------------------------------------------------------
 */
static uint64_t rv_blocks(uint64_t packets)
{
	return (packets - 1) / SP_RVMA_BLOCK + 1;
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
	rv_tell(c, x, SP_RVMA_NACK, &nack, sizeof(nack), NULL, 0);
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

/* ---- acknowledgement -----------------------------------------------------------------------------------------------
 */
static void rv_answer(struct sp_ctx *c, struct rv_session *x, const struct sp_rel_asked *asked)
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
			sp_rel_ack_stop(&m, k, 0); /* the next one will be asked for from here on */
			break;
		}
		if (!rv_block_is(b, k) || !b->seen)
			continue;
		if (b->refused && !b->silent)
			more = sp_rel_ack_refuse(&m, k, b->refused);
		else if (!b->refused && b->have)
			more = sp_rel_ack_add(&m, k, rv_block_complete(b) ? NULL : &b->have, b->units);
	}
	rv_tell(c, x, SP_RVMA_ACK, &head, sizeof(head), bytes, (uint32_t)sp_rel_ack_end(&m));
}

void rv_ack_timer(struct sp_ctx *c, struct rv_session *x)
{
	rv_answer(c, x, NULL);
}

/* The sender has given up what is incomplete below. */
static void rv_begin_at(struct sp_ctx *c, struct rv_session *x, uint64_t begin)
{
	const struct rv *s = rv_of(c);

	for (struct rv_transfer *t = x->transfers, *next; t; t = next) {
		const uint64_t last = t->number + rv_blocks(sp_rvma_packets(t->length, x->mtu));
		uint64_t k = t->number < x->base ? x->base : t->number;

		next = t->next;
		while (k < last && k < begin && k - x->base < s->blocks && rv_block_is(rv_block_of(s, x, k), k) &&
		       rv_block_complete(rv_block_of(s, x, k)))
			k++;
		if (k < last && k < begin)
			rv_transfer_end(c, t, SP_RVMA_GIVEN_UP);
	}
	x->base = begin;
	x->end = x->end < begin ? begin : x->end;
	rv_advance(s, x);
}

uint32_t rv_poll(struct sp_ctx *c, struct rv_session *x, const void *datagram, uint32_t len)
{
	struct sp_rel_asked asked;

	if (rv_of(c)->implicit || sp_rel_poll_take(&x->receiver, datagram, len, &asked))
		return SP_DROP(RV_BAD_CONTROL);
	if (x->receiver.begin > SP_RVMA_BLOCKS)
		x->receiver.begin = SP_RVMA_BLOCKS;
	if (x->receiver.begin > x->base)
		rv_begin_at(c, x, x->receiver.begin);
	if (asked.from_message <= x->base && x->ack_timer.armed)
		sp_timer_cancel(c, &x->ack_timer);
	rv_answer(c, x, &asked);
	return SP_DONE;
}
