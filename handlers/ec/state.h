/* SPDX-License-Identifier: BSD-3-Clause */
/* State of the ec handler. Who may access a field: [fixed] attach() alone writes it; [home] only the context's home
 * worker; [own] only the worker that it belongs to; [any] any worker, with __atomic builtins. */
#ifndef HANDLERS_EC_STATE_H
#define HANDLERS_EC_STATE_H

#include "job.h"
#include "../spindle-export.h"
#include "../spindle-handler.h"
#include "../wire/ec.h"

enum ec_counter {
	/* first those of enum sp_ec_total, then packets */
	EC_PARITY_PACKETS = SP_EC_TOTALS,
	EC_LATE_PACKETS, /* data packets of chunks that are repaired */
};

/* Work on the messages in slots 2i (data) and 2i + 1 (parity). */
struct ec_pair {
	uint64_t *wanted;  /* words [any]: a bit per submessage: a worker found that it can be repaired */
	uint64_t *taken;   /* words [any]: a bit per submessage: a worker repairs it */
	uint64_t key;	   /* [any] of the data message that `wanted` is about */
	uint64_t queued;   /* [any] a bit per worker: the pair is in its queue */
	uint32_t look;	   /* [any] 1: the next packet is to look at all submessages */
	uint32_t mismatch; /* [any] 1: the parity contradicts the data, and was counted */
	uint32_t used;	   /* [any] 1: chunks of the data are reserved */
	uint32_t code;	   /* [any] latest known code of the parity, for counting */
};

/* Counts of a worker. [own] Its worker writes, any worker reads. */
struct ec_totals {
	uint64_t total[SP_EC_TOTALS];
} __attribute__((aligned(64)));

/* A submessage that is being repaired or handed over; or a row of submessages that lack the same. */
struct ec_lost {
	uint64_t sub, missing[SP_EC_WORDS],
		reserved[SP_EC_WORDS]; /* the first one; missing and reserved chunks of each */
	unsigned data, count; /* data chunks of each; how many (more than one only where all their chunks fit a word) */
	bool ready;	      /* all missing chunks are reserved; `count` is 1 until then */
};
#define EC_BATCH 16 /* submessages that are found, and handed over, together at most */
#define EC_NEWS	 32 /* chunks of a run of packets that are looked at together at most */

/* Of one worker: it repairs one submessage after the other. */
struct ec_decoder {
	struct sp_work work; /* [own], like all of this; detach() when the workers have left */
	uint32_t *queue;     /* of pairs, each at most once: a ring with room for all */
	uint32_t first, count;
	struct sp_message *data, *parity; /* held while their submessages are being repaired */
	uint64_t key, sub;		  /* of the data message; the submessage looked at last */
	uint64_t bytes;			  /* of the data when `lost` was found, */
	const struct sp_ec_code *code;	  /* ... and the code then */
	struct ec_lost lost[EC_BATCH];	  /* submessages that no other worker takes meanwhile */
	unsigned found, repaired;	  /* entries of lost; `repaired`: how many are done, the first ones */
	unsigned along;			  /* ... and submessages done of the next entry. 0 between slices */
	uint64_t at;			  /* the submessage of the job */
	bool running;			  /* the job is under way for the first entry that is not repaired */
	bool same;			  /* the job has finished the submessage before */
	uint8_t *chunk[SP_EC_CHUNKS];
	struct sp_ec_job job;
};

/* A parity message to be made. [home] */
struct ec_order {
	const struct sp_mem *data, *parity;
	uint64_t message, from, bytes, to; /* from, to: offsets in data and parity */
	const struct sp_ec_code *code;
};

struct ec {
	struct sp_ec_code code[SP_EC_CODES_MAX]; /* [fixed] from sp_ec_codes(): the first is the connection's */
	unsigned codes, least;			 /* [fixed] least: smallest k of them */
	struct sp_message_limits limits;
	const struct sp_export *first;
	uint64_t wanted_words;	      /* [fixed] */
	struct ec_pair *pair;	      /* [fixed] */
	struct ec_decoder *decoder;   /* [fixed] one per worker */
	struct ec_totals *totals;     /* [fixed] one per worker */
	struct ec_order *order;	      /* [home] a ring with room for all that can wait */
	uint32_t order_first, orders; /* [home] */
	uint64_t encoded;	      /* [home] submessages of the first order that are ready */
	bool encoding;		      /* [home] the job is under way */
	bool same;		      /* [home] the job has finished the submessage before, of the same order */
	struct sp_work encode;	      /* [home] */
	struct sp_ec_job job;	      /* [home] */
	uint8_t *chunk[SP_EC_CHUNKS]; /* [home] */
};

/* The immediate of parity of the connection's code. */
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

/* For words that workers share. With one worker a locked operation would only cost time: it waits for all stores before
 * it. */
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

/* Both messages of a pair. */
struct ec_both {
	struct sp_extent data, parity;
	uint64_t key;		       /* of data; parity has the next slot */
	uint64_t chunks;	       /* of data */
	const struct sp_ec_code *code; /* of the parity; NULL: not known yet, or none of ours */
	bool mismatch;		       /* the parity is of none of our codes */
};

static inline uint64_t ec_parity_key(uint64_t data)
{
	return data | 1;
}

#endif
