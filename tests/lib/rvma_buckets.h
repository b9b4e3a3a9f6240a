/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of RVMA: windows, their buckets of buffers, transfers, sessions; and the rules of a bucket. */
#ifndef TESTS_RVMA_BUCKETS_H
#define TESTS_RVMA_BUCKETS_H

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
	uint64_t puts, bytes, refused, lost;
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
	bool left;  /* `peer` has ended, and the owner may have noticed */
	bool spoke; /* a packet of a transfer has come */
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
	uint64_t gone; /* sessions that have ended, of peers that had sent something */
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

void __attribute__((format(printf, 2, 3))) mo_fail(struct mo *m, const char *format, ...);

#define MO_CHECK(m, x, ...) ((x) ? (void)0 : mo_fail((m), __VA_ARGS__))

bool mo_bit(const uint64_t *words, uint64_t i);

/* ---- windows ---- */
struct mo_window *mo_window_find(struct mo *m, unsigned c, uint64_t mailbox);

struct mo_window *mo_window_catch_all(struct mo *m, unsigned c);
struct mo_window *mo_window_add(struct mo *m, unsigned c, uint64_t id, uint64_t mailbox, uint64_t key,
				uint64_t threshold, uint64_t flags);
uint64_t mo_posted_bytes(const struct mo_window *w);
unsigned mo_completes(const struct mo_window *w);
struct mo_buffer *mo_completed(const struct mo_window *w, uint64_t epoch);
/* The record stays for transfers that point to it. */
void mo_discard(struct mo *m, struct mo_buffer *b);
void mo_hold_drop(struct mo *m, struct mo_window *w, unsigned first, unsigned end);
uint64_t mo_length(const struct mo_window *w, const struct mo_buffer *b);
/* Hands over what may be, in order of epochs. */
void mo_settle(struct mo *m, unsigned c, struct mo_window *w);
/* The head is head no more. */
void mo_leave(struct mo *m, unsigned c, struct mo_window *w, uint64_t flags);
void mo_threshold(struct mo *m, unsigned c, struct mo_window *w, struct mo_buffer *b);
void mo_close(struct mo *m, unsigned c, struct mo_window *w);

#endif
