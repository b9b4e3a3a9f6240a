/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the ec handler, shared by ec.c (context, packets, report), decode.c (repair) and encode.c (parity).
 * Who may touch a field: [fixed] written by attach() only; [home] the context's home worker only; [own] the worker
 * whose it is; [any] any worker, by __atomic builtins.
 */
#ifndef HANDLERS_EC_STATE_H
#define HANDLERS_EC_STATE_H

#include "job.h"
#include "../spindle-export.h"
#include "../spindle-handler.h"
#include "../wire/ec.h"

enum ec_counter {
	/* as enum sp_ec_total; then those of packets */
	EC_PARITY_PACKETS = SP_EC_TOTALS,
	EC_LATE_PACKETS, /* of chunks that are, or have been, repaired */
};

/* Slots 2i and 2i + 1: what there is to do for the messages in them. */
struct ec_pair {
	uint64_t *wanted;  /* words [any] a bit per submessage: can be repaired, as far as was seen */
	uint64_t *taken;   /* words [any] a bit per submessage: a worker repairs it */
	uint64_t key;	   /* [any] the data's, from which something has been wanted */
	uint64_t queued;   /* [any] a bit per worker: it is in that one's queue */
	uint32_t look;	   /* [any] 1: what a packet changes may concern all submessages */
	uint32_t mismatch; /* [any] 1: its parity contradicts; counted */
	uint32_t used;	   /* [any] 1: chunks of data have been reserved */
	uint32_t code;	   /* [any] which its parity is of, as far as was seen: for counting */
};

/* A worker's counts, which whoever is asked adds up: [own] writes, any worker reads. */
struct ec_totals {
	uint64_t total[SP_EC_TOTALS];
} __attribute__((aligned(64)));

/* A submessage that is being repaired, or has yet to be handed over; or some in a row that are alike. */
struct ec_lost {
	uint64_t sub, missing[SP_EC_WORDS], reserved[SP_EC_WORDS]; /* the first; its chunks, and each one's */
	unsigned data, count; /* data chunks of each; how many: more than one only where those fit a word in all */
	bool ready;	      /* all of what is missing has been reserved; before, there is one only */
};
#define EC_BATCH 16 /* submessages found, and handed over, together, at most */
#define EC_NEWS	 32 /* chunks of a run of packets that are looked at together, at most */

/* A worker's: repairs one submessage after the other. */
struct ec_decoder {
	struct sp_work work; /* [own], as all of this; detach() when workers have left */
	uint32_t *queue;     /* of pairs, each once: a ring with room for all */
	uint32_t first, count;
	struct sp_message *data, *parity; /* held while submessages of theirs are being repaired */
	uint64_t key, sub;		  /* of data; the last submessage that was looked at */
	uint64_t bytes;			  /* of data when these were chosen, */
	const struct sp_ec_code *code;	  /* ... and the code: */
	struct ec_lost lost[EC_BATCH];	  /* which no other worker takes meanwhile */
	unsigned found, repaired;	  /* of them; repaired: the first ones, */
	unsigned along;			  /* ... and as many submessages of the next. Between slices there are none */
	uint64_t at;			  /* submessage that the job is for */
	bool running;			  /* job has been started, for the first that is not repaired, */
	bool same;			  /* ... or has been through with the one before it */
	uint8_t *chunk[SP_EC_CHUNKS];
	struct sp_ec_job job;
};

/* A parity message to be made; [home]. */
struct ec_order {
	const struct sp_mem *data, *parity;
	uint64_t message, from, bytes, to; /* from, to: offsets in the two */
	const struct sp_ec_code *code;
};

struct ec {
	struct sp_ec_code code[SP_EC_CODES_MAX]; /* [fixed] sp_ec_codes(): the first is the connection's */
	unsigned codes, least;			 /* [fixed] least: of their k */
	struct sp_message_limits limits;
	const struct sp_export *first;
	uint64_t wanted_words;	      /* [fixed] */
	struct ec_pair *pair;	      /* [fixed] */
	struct ec_decoder *decoder;   /* [fixed] one per worker */
	struct ec_totals *totals;     /* [fixed] one per worker */
	struct ec_order *order;	      /* [home] ring with room for all that can be under way */
	uint32_t order_first, orders; /* [home] */
	uint64_t encoded;	      /* [home] submessages of the first order that are ready */
	bool encoding;		      /* [home] a job has been started, */
	bool same;		      /* [home] ... and been through with the submessage before, of the same order */
	struct sp_work encode;	      /* [home] */
	struct sp_ec_job job;	      /* [home] */
	uint8_t *chunk[SP_EC_CHUNKS]; /* [home] */
};

/* Of parity of the connection's code. */
static inline uint32_t ec_immediate(const struct ec *s, uint64_t bytes)
{
	return sp_ec_immediate((enum sp_ec_code_kind)s->code->kind, s->code->k, s->code->m, bytes);
}

static inline void ec_count(struct sp_ctx *c, enum sp_ec_total which, uint64_t n)
{
	const struct ec *s = c->state;
	uint64_t *total = &s->totals[c->worker].total[which];

	c->counters[which] += n;
	__atomic_store_n(total, *total + n, __ATOMIC_RELAXED);
}

/* Words that workers share. With one worker the locked forms would only cost: they wait for all that was written. */
static inline uint64_t ec_fetch_or(const struct sp_ctx *c, uint64_t *word, uint64_t bits)
{
	uint64_t was;

	if (c->workers > 1)
		return __atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST);
	was = __atomic_load_n(word, __ATOMIC_RELAXED);
	__atomic_store_n(word, was | bits, __ATOMIC_RELAXED);
	return was;
}

static inline uint64_t ec_fetch_and(const struct sp_ctx *c, uint64_t *word, uint64_t bits)
{
	uint64_t was;

	if (c->workers > 1)
		return __atomic_fetch_and(word, bits, __ATOMIC_SEQ_CST);
	was = __atomic_load_n(word, __ATOMIC_RELAXED);
	__atomic_store_n(word, was & bits, __ATOMIC_RELAXED);
	return was;
}

static inline void ec_store(const struct sp_ctx *c, uint64_t *word, uint64_t value)
{
	if (c->workers > 1)
		__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* Both messages of a pair, from the inside of both. */
struct ec_both {
	struct sp_extent data, parity;
	uint64_t key;		       /* data's; parity's is the next slot's */
	uint64_t chunks;	       /* of data */
	const struct sp_ec_code *code; /* that parity is of; NULL: that is not known yet, or it is of none of ours */
	bool mismatch;		       /* ... of none of ours */
};

static inline uint64_t ec_parity_key(uint64_t data)
{
	return data | 1;
}

#endif
