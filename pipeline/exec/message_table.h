/* SPDX-License-Identifier: BSD-3-Clause */
/* The message table of a context: entries, hash buckets, free lists. */
#ifndef PIPELINE_EXEC_MESSAGE_TABLE_H
#define PIPELINE_EXEC_MESSAGE_TABLE_H

#include <stdatomic.h>

#include "../../handlers/spindle-handler.h"
#include "../limits.h"
#include "../view.h"

struct sp_context;
struct sp_worker;

/* One message. word: bits 0-2 state, 3 closing, 4-6 reason, 7 header has run, 8-31 number of packet runs inside (with
 * several workers, most are not counted here, see message.c), 32-63 tag. [shared] */
struct sp_message_entry {
	struct sp_message pub;
	_Atomic uint64_t word;
	uint32_t next; /* HASHED: next in the free list or in a worker's list of ended messages, index + 1 */
	struct sp_message companion; /* the companion's view of the message, with the companion's state */
};

enum { FREE, NEW, HEADER, OPEN, ENDING };
#define STATE(w)		((unsigned)((w)&7))
#define CLOSING			8ull
#define WHY(w)			((enum sp_end)((w) >> 4 & 7))
#define STARTED			128ull /* header() has accepted it */
#define INSIDE			256ull /* count of one run of packets inside */
#define COUNT(w)		((w) >> 8 & 0xFFFFFF)
#define TAG(w)			((uint32_t)((w) >> 32))
#define WORD(tag, state, count) ((uint64_t)(tag) << 32 | (uint64_t)(count) << 8 | (state))

#define WAYS 15

struct bucket {
	_Atomic uint32_t entry[WAYS]; /* index + 1; [shared] written under table->busy */
	uint32_t pad;
} SP_CACHE_ALIGNED;

/* The message that a worker is inside. Two cache lines, since processors prefetch pairs. */
struct inside {
	_Atomic uint32_t
		at; /* index + 1 of the entry, 0: none; [worker] writes; a worker that ends a message reads all */
	uint8_t pad[124];
};

struct sp_messages_table {
	struct sp_message_entry *entry;
	struct inside *inside; /* one per worker; NULL: a single worker */
	uint8_t *states;       /* per entry: state of the handler, then of the companion */
	size_t stride;	       /* bytes per entry in states */
	uint32_t limit, mask;  /* entries; buckets - 1 */
	struct bucket *bucket;
	uint64_t seed;
	_Atomic uint32_t busy; /* HASHED: lock on buckets and free list; workers only try it */
	uint32_t free;	       /* under busy: index + 1 of the first free entry */
	_Atomic bool closed;   /* HASHED: a newer version opens new messages; [shared] written under busy */
	_Atomic uint32_t open;
	_Atomic uint32_t started;	       /* messages whose header has run */
	_Atomic uint32_t dead[SP_MAX_WORKERS]; /* [worker] ended here, not yet freed: index + 1 */
	sp_time idle, last;		       /* last: see LAST */
	uint32_t cursor;		       /* position of the sweep for idle messages; [worker home] */
};

/* A single worker needs only a plain store. */
static inline bool swap(const struct sp_view *v, _Atomic uint64_t *word, uint64_t *old, uint64_t new)
{
	if (v->pub.workers == 1) {
		atomic_store_explicit(word, new, memory_order_relaxed);
		return true;
	}
	return atomic_compare_exchange_weak_explicit(word, old, new, memory_order_seq_cst, memory_order_acquire);
}

static inline uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire);
}

static inline uint64_t mix(uint64_t k)
{
	k ^= k >> 33;
	k *= 0xff51afd7ed558ccdull;
	k ^= k >> 33;
	k *= 0xc4ceb9fe1a85ec53ull;
	return k ^ k >> 33;
}

static inline bool try_busy(const struct sp_view *v, struct sp_messages_table *t)
{
	uint32_t zero = 0;

	return v->pub.workers == 1 ||
	       atomic_compare_exchange_strong_explicit(&t->busy, &zero, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void end_busy(struct sp_messages_table *t)
{
	atomic_store_explicit(&t->busy, 0, memory_order_release);
}

static inline struct bucket *bucket_of(const struct sp_messages_table *t, uint64_t key)
{
	return &t->bucket[mix(key ^ t->seed) & t->mask];
}

int sp_messages_create(struct sp_context *c, uint32_t limit, sp_time idle);
void sp_messages_destroy(struct sp_context *c);
sp_time sp_messages_idle(const struct sp_context *c);	  /* ps, 0 = no timeout */
uint32_t sp_messages_open(const struct sp_context *c);	  /* number of open messages */
uint32_t sp_messages_started(const struct sp_context *c); /* those that have had a packet, so that they can time out */
/* True: no message is open, and no packet will open one. */
bool sp_messages_quiet(const struct sp_context *c);
/* HASHED: no message is opened here from now on. A worker that finds none afterwards has seen all of them. For a
 * control thread while workers run: it waits for them, they never wait for it. */
void sp_messages_close(struct sp_context *c);

/* ---- for message.c and message_calls.c ---- */
/* Zeroes the state of a message and of the companion; for a traced context adds a canary behind each. */
void sp_messages_clear(const struct sp_context *c, struct sp_message_entry *e);
/* HASHED: frees the entries of messages that this worker has ended; busy is held. */
void sp_messages_give_back(struct sp_messages_table *t, unsigned worker);

#endif
