/* SPDX-License-Identifier: BSD-3-Clause */
/* Submessages that lack data, and which of them can be repaired. */
#ifndef HANDLERS_EC_FIND_H
#define HANDLERS_EC_FIND_H

#include "state.h"

/* The lowest `count` bits of a word, at least 1. */
static inline uint64_t ec_ones(uint64_t count)
{
	return count < 64 ? (1ull << count) - 1 : ~0ull;
}

/* Chunks that were reserved of the submessages of one entry, from the first chunk of the first one on. */
static inline uint64_t ec_chunks(const struct ec_decoder *d, const struct ec_lost *r)
{
	uint64_t chunks = 0;

	for (unsigned i = 0; i < r->count; i++)
		chunks |= r->reserved[0] << i * d->code->k;
	return chunks;
}

/* Submessages in d->lost. */
static inline unsigned ec_found(const struct ec_decoder *d)
{
	unsigned all = 0;

	for (unsigned i = 0; i < d->found; i++)
		all += d->lost[i].count;
	return all;
}

#pragma GCC visibility push(hidden)
/* Reads what is known of the pair of messages. False: they are no pair, or have no data. */
bool ec_both(struct sp_ctx *c, struct sp_ctx *first, uint64_t key, struct ec_both *b);
/* More of message `key` has arrived: looks for repairs that are possible now. chunk: its new chunks; none: its packets
 * say something new. */
void ec_look(struct sp_ctx *c, uint64_t key, const uint64_t *chunk, unsigned count);
uint64_t ec_lacking(struct sp_ctx *c, uint64_t key); /* submessages that lack data */
/* Queues the pair for work on this worker. */
void ec_queue(struct sp_ctx *c, struct ec_pair *pair);
/* The first `count` submessages are wanted, and no others. */
void ec_want(const struct sp_ctx *c, struct ec_pair *pair, uint64_t count);
bool ec_wants(const struct ec *s, const struct ec_pair *pair); /* any */
/* The parity contradicts the data. Counts it once per message. */
void ec_mismatch(struct sp_ctx *c, struct ec_pair *pair);
/* Takes the next wanted submessages of b that can be repaired into d->lost. False: there are none, or too many to look
 * at in one slice. left: of the slice. looks: submessages that it may still look at. */
bool ec_next(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair,
	     const struct ec_both *b, uint64_t left, unsigned *looks);
/* Gives back the first `count` of d->lost: other workers may take them. */
void ec_put_back_lost(struct sp_ctx *c, const struct ec_decoder *d, unsigned count);
#pragma GCC visibility pop

#endif
