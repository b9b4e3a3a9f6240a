/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma, which blocks of a session have arrived, so that each packet takes effect once.
 *
 * `base` moves on over complete blocks, and to where the sender says that it has given up all below. It does not move
 * on over refused blocks, because `base` tells the sender that all blocks below are complete.
 */
#include "blocks.h"

/* True: the block is complete, or the sender was told to give it up. A number without a packet is not settled: the
 * sender may have left it unused, and may give it to another transfer. */
static bool rv_block_settled(const struct rv *s, const struct rv_session *x, uint64_t number)
{
	const struct rv_block *b = rv_block_of(s, x, number);

	return rv_block_is(b, number) && b->seen && (b->refused || rv_block_complete(b));
}

/* True: the transfer is a message of the NIC. A transfer of one packet never is. */
static bool rv_is_open(struct sp_ctx *c, const struct rv_session *x, uint64_t transfer)
{
	struct sp_message *m = sp_message_hold(c, rv_message_key(x, transfer));

	if (m)
		sp_message_release(c, m);
	return m;
}

/* DELIVERED, or why a packet of this transfer is late. If something of a transfer has arrived or was refused, then the
 * transfer is either open, or has ended and its packets are late. */
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

/* A replay may begin at any number, and nobody repeats what is missing: follow the numbers. */
static void rv_slide(const struct rv *s, struct rv_session *x, uint64_t number)
{
	if (s->implicit && number < SP_RVMA_BLOCKS && number >= x->base + s->blocks)
		x->base = number - s->blocks + 1;
}

/* Packets of the block that this packet is in. */
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
		return RV_IS_REFUSED; /* the block belongs to another transfer, or to one of another length */
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

void rv_taken(struct sp_ctx *c, struct rv_session *x)
{
	const struct rv *s = rv_of(c);

	rv_advance(s, x);
	if (!s->implicit && !x->ack_timer.armed && x->state == RV_SESSION_OPEN)
		sp_timer_arm(c, &x->ack_timer, c->now + s->ack_delay);
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

bool rv_in_order(const struct rv *s, struct rv_session *x, uint64_t transfer)
{
	x->ordered = x->ordered < x->base ? x->base : x->ordered;
	while (x->ordered < transfer && x->ordered - x->base < s->blocks && rv_block_settled(s, x, x->ordered))
		x->ordered++;
	return x->ordered >= transfer;
}

bool rv_blocks_lack(const struct rv *s, const struct rv_session *x, uint64_t first, uint64_t end)
{
	uint64_t k = first < x->base ? x->base : first;

	while (k < end && k - x->base < s->blocks && rv_block_is(rv_block_of(s, x, k), k) &&
	       rv_block_complete(rv_block_of(s, x, k)))
		k++;
	return k < end;
}

void rv_blocks_skip(const struct rv *s, struct rv_session *x, uint64_t begin)
{
	x->base = begin;
	x->end = x->end < begin ? begin : x->end;
	rv_advance(s, x);
}
