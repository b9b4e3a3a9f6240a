/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of RVMA, what there is: windows, their buckets of buffers, transfers, sessions; and the rules of a bucket.
 */
#ifndef TESTS_PROPERTY_RVMA_BUCKETS_H
#define TESTS_PROPERTY_RVMA_BUCKETS_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "rvma_wire.h"

#define MO_CONTEXTS 4
#define MO_BUFFERS  64
#define MO_HELD	    4096
#define MO_BLOCKS   4096 /* of a session; more are never used here */
#define MO_NOWHERE  UINT64_MAX
#define U(x)	    ((unsigned long long)(x))

/* What becomes of a transfer, as numbers on the wire. */
enum mo_status {
	MO_DELIVERED,
	MO_NO_MAILBOX,
	MO_NO_BUFFER,
	MO_BAD_KEY,
	MO_CLOSED,
	MO_TOO_LARGE,
	MO_BAD_RANGE,
	MO_WRONG_MODE,
	MO_RATE,
	MO_NOT_COMPLETE,
	MO_NOT_READABLE,
	MO_NO_ROOM,
	MO_REWOUND,
	MO_GIVEN_UP,
	MO_PEER_GONE = 32,
	MO_TIMEOUT,
	MO_FAULT,
	MO_CANCELLED,
	MO_STATUSES,
};
enum mo_window_flags {
	MO_OPS = 1,
	MO_MANAGED = 2,
	MO_CATCH_ALL = 4,
	MO_SILENT = 8,
	MO_READABLE = 16,
	MO_FORGET = 32,
	MO_REGION = 64
};
enum mo_notice { MO_PARTIAL = 1, MO_LOST = 2, MO_ENDED = 4 };

struct mo_buffer {
	uint64_t at, length; /* in the application's memory */
	uint64_t line;	     /* of its notification, there; MO_NOWHERE */
	uint64_t address, threshold;
	uint64_t bytes, ops, tail, mailbox, epoch, flags;
	unsigned open; /* puts */
	int *owner;    /* of the application's record of it: 1 while the NIC has it */
	bool complete, read;
	bool forgotten; /* by a rewind: the application may do as it likes, also while a get reads it */
};

struct mo_window {
	struct mo_window *next;
	uint64_t id, mailbox, key, threshold, flags;
	uint64_t limit_buffers, limit_bytes, limit_put;
	bool gone, closed, freeing;
	uint64_t epoch; /* of the head */
	struct mo_buffer *posted[MO_BUFFERS], *held[MO_HELD];
	unsigned posteds, helds;
	uint64_t puts, bytes, refused;
};

struct mo_transfer {
	struct mo_transfer *next;
	uint8_t opcode;
	uint64_t number, length, packets, got, *have;
	enum { MO_OPEN, MO_WHOLE, MO_REFUSED, MO_OVER } state;
	uint64_t reasons; /* any of them is right */
	bool silent;
	struct mo_window *window;
	struct mo_buffer *buffer;
	uint64_t at;	/* in the application's memory */
	uint8_t *bytes; /* GET: what must come */
	/* as its first packet said */
	uint64_t mailbox, key, offset;
};

struct mo_session { /* one direction: what `peer` sends to `owner` */
	struct mo_session *next;
	unsigned owner, peer;
	uint64_t token;
	bool current, dead;
	struct mo_transfer *transfers;
	uint64_t begin;	  /* its sender needs nothing of blocks below */
	uint64_t checked; /* blocks below were looked at */
	uint64_t sent;	  /* transfers below this number have begun to leave */
	/* by block: which transfer has used that number, as a packet shows that came; + 1 */
	uint64_t used[MO_BLOCKS];
};

struct mo_context {
	uint32_t qp, mtu;
	bool alive;
	uint8_t *memory; /* what it must be */
	struct mo_window *windows;
};

struct mo {
	struct mo_context context[MO_CONTEXTS];
	unsigned contexts;
	struct mo_session *sessions;
	struct mo_buffer *trash[65536]; /* freed at the end */
	unsigned trashed;
	uint64_t count[MO_STATUSES]; /* transfers, as they were decided */
	uint64_t packets, placed, duplicates, stale, epochs, wholes, acks, nacks, restarts, fenced, over_change, lost;
	char text[400]; /* what was wrong first */
};

__attribute__((format(printf, 2, 3))) static inline void mo_fail(struct mo *m, const char *format, ...)
{
	va_list list;

	if (m->text[0])
		return;
	va_start(list, format);
	vsnprintf(m->text, sizeof(m->text), format, list);
	va_end(list);
}
#define MO_CHECK(m, x, ...) ((x) ? (void)0 : mo_fail((m), __VA_ARGS__))

static inline bool mo_bit(const uint64_t *words, uint64_t i)
{
	return words[i / 64] >> i % 64 & 1;
}

/* ---- windows -------------------------------------------------------------------------------------------------------
 */
static inline struct mo_window *mo_window_find(struct mo *m, unsigned c, uint64_t mailbox)
{
	for (struct mo_window *w = m->context[c].windows; w; w = w->next)
		if (!w->gone && w->mailbox == mailbox)
			return w;
	return NULL;
}

static inline struct mo_window *mo_window_catch_all(struct mo *m, unsigned c)
{
	for (struct mo_window *w = m->context[c].windows; w; w = w->next)
		if (!w->gone && w->flags & MO_CATCH_ALL)
			return w;
	return NULL;
}

static inline struct mo_window *mo_window_add(struct mo *m, unsigned c, uint64_t id, uint64_t mailbox, uint64_t key,
					      uint64_t threshold, uint64_t flags)
{
	struct mo_window *w = calloc(1, sizeof(*w));

	w->next = m->context[c].windows;
	m->context[c].windows = w;
	w->id = id;
	w->mailbox = mailbox;
	w->key = key;
	w->threshold = threshold;
	w->flags = flags;
	return w;
}

static inline uint64_t mo_posted_bytes(const struct mo_window *w)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < w->posteds; i++)
		n += w->posted[i]->length;
	return n;
}

static inline unsigned mo_completes(const struct mo_window *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->helds; i++)
		n += w->held[i]->complete;
	return n;
}

static inline struct mo_buffer *mo_completed(const struct mo_window *w, uint64_t epoch)
{
	for (unsigned i = 0; i < w->helds; i++)
		if (w->held[i]->epoch == epoch && w->held[i]->complete)
			return w->held[i];
	return NULL;
}

/* The record stays for transfers that point to it. */
static inline void mo_discard(struct mo *m, struct mo_buffer *b)
{
	if (b->owner)
		*b->owner = 0;
	b->owner = NULL;
	if (m->trashed < sizeof(m->trash) / sizeof(*m->trash))
		m->trash[m->trashed++] = b;
}

static inline void mo_hold_drop(struct mo *m, struct mo_window *w, unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++)
		mo_discard(m, w->held[i]);
	memmove(w->held + first, w->held + end, (w->helds - end) * sizeof(*w->held));
	w->helds -= end - first;
}

static inline uint64_t mo_length(const struct mo_window *w, const struct mo_buffer *b)
{
	return w->flags & MO_MANAGED ? b->tail : b->bytes;
}

/* Hands over what may be, in order of epochs. */
static inline void mo_settle(struct mo *m, unsigned c, struct mo_window *w)
{
	for (unsigned i = 0; i < w->helds && !w->freeing; i++) {
		struct mo_buffer *b = w->held[i];

		if (b->complete)
			continue;
		if (b->open)
			break;
		b->complete = true;
		m->epochs++;
		if (b->line != MO_NOWHERE) {
			const uint64_t words[8] = {b->address, mo_length(w, b), b->epoch, b->flags, b->mailbox, b->ops};

			memcpy(m->context[c].memory + b->line, words, 64);
		}
		if (w->flags & MO_FORGET) {
			mo_hold_drop(m, w, i, i + 1);
			i--;
		}
	}
}

/* The head is head no more. */
static inline void mo_leave(struct mo *m, unsigned c, struct mo_window *w, uint64_t flags)
{
	struct mo_buffer *b = w->posted[0];

	memmove(w->posted, w->posted + 1, --w->posteds * sizeof(*w->posted));
	b->flags |= flags;
	b->epoch = w->epoch++;
	if (b->open)
		m->over_change++;
	if (w->helds == MO_HELD)
		abort();
	w->held[w->helds++] = b;
	mo_settle(m, c, w);
}

static inline void mo_threshold(struct mo *m, unsigned c, struct mo_window *w, struct mo_buffer *b)
{
	const uint64_t threshold = b->threshold ? b->threshold : w->threshold;

	if (w->posteds && w->posted[0] == b && threshold && !(w->flags & MO_REGION) &&
	    (w->flags & MO_OPS ? b->ops : b->bytes) >= threshold)
		mo_leave(m, c, w, 0);
}

static inline void mo_close(struct mo *m, unsigned c, struct mo_window *w)
{
	w->closed = true;
	while (w->posteds)
		mo_leave(m, c, w, MO_PARTIAL | MO_ENDED);
}

#endif
