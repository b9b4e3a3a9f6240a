/* SPDX-License-Identifier: BSD-3-Clause */
/* Which blocks of a session have arrived. A block is up to 64 packets of one transfer. */
#ifndef HANDLERS_RVMA_BLOCKS_H
#define HANDLERS_RVMA_BLOCKS_H

#include "state.h"

#pragma GCC visibility push(hidden)
static inline bool rv_block_complete(const struct rv_block *b)
{
	return b->units && b->have == UINT64_MAX >> (64 - b->units);
}

/* Blocks of so many packets. */
static inline uint64_t rv_blocks(uint64_t packets)
{
	return (packets - 1) / SP_RVMA_BLOCK + 1;
}

/* What is known of a packet that arrives. */
enum rv_look { RV_NEW, RV_HAVE, RV_IS_REFUSED, RV_TOO_FAR };
enum rv_look rv_look(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint32_t packet, uint64_t packets);
/* The packet has taken effect: it is acknowledged from now on. packets: of the transfer. */
void rv_take(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint32_t packet, uint64_t packets);
/* Blocks have become complete: moves `base` on, and sees to an ACK. */
void rv_taken(struct sp_ctx *c, struct rv_session *x);
/* True: all blocks before this transfer are settled. */
bool rv_in_order(const struct rv *s, struct rv_session *x, uint64_t transfer);
/* True: not all of the blocks [first, end) are complete. */
bool rv_blocks_lack(const struct rv *s, const struct rv_session *x, uint64_t first, uint64_t end);
/* The sender has given up the blocks below `begin`. */
void rv_blocks_skip(const struct rv *s, struct rv_session *x, uint64_t begin);
#pragma GCC visibility pop

#endif
