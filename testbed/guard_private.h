/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of the guard. guard.c: the watch, and reports. guard_crash.c: signals and exit(). guard_run.c: creation,
 * and calls that do not return. */
#ifndef TESTBED_GUARD_PRIVATE_H
#define TESTBED_GUARD_PRIVATE_H

#include <setjmp.h>
#include <signal.h>

#include "arrivals.h"
#include "guard.h"
#include "words.h"

#define SP_GUARD_LEVELS	 8  /* calls within calls: closing a message from payload() calls completion() */
#define SP_GUARD_RANGES	 16 /* of code that may hold locks of the C library */
#define SP_GUARD_CRASHES 5  /* kinds */

/* A call in progress. All is copied: once a call is aborted, the NIC's stack is invalid. */
struct sp_guard_level {
	const char *context, *handler;
	enum sp_called function;
	sp_time now;
	uint64_t packet, last_packet; /* its first and last packet; 0: none */
	uint64_t after;		      /* the last packet that any handler saw before */
	const uint8_t *frame;	      /* of the first packet */
	uint32_t frame_len;
	uint64_t sequence; /* unique number of the call */
	/* for the timer */
	uint64_t seen, cpu, ticks; /* sequence at an earlier tick, and its processor time and tick */
};

struct sp_guard {
	struct sp_guard_config config;
	uint64_t complaints;
	struct sp_arrivals arrivals;
	uint64_t sequence, after;
	struct sp_guard_level level[SP_GUARD_LEVELS];
	volatile sig_atomic_t depth; /* calls under way; level[] is filled before it grows */
	volatile sig_atomic_t running;
	pid_t thread;
	uint64_t limit, tick; /* ns */
	uint64_t ticks;
	uint64_t cpu, counted; /* for the timer: processor time and sequence at the last tick */
	/* Processor time used by calls since virtual time or the number of packets last changed. */
	uint64_t arrivals_seen, still_cpu;
	sp_time still;
	sigjmp_buf out;
	unsigned left; /* the level that was aborted */
	enum { SPINS, SLEEPS, STANDS_STILL } how;
	struct sigaction old[SP_GUARD_CRASHES];
	stack_t stack, old_stack;
	struct {
		uintptr_t from, to;
	} range[SP_GUARD_RANGES];
	unsigned ranges;
};

/* Signal handlers have no argument. */
extern struct sp_guard *volatile sp_guard_here; /* NULL: none */
extern volatile sig_atomic_t sp_guard_held;	/* callbacks of watches in progress */

/* The innermost call; depth is not 0. */
static inline const struct sp_guard_level *sp_guard_innermost(const struct sp_guard *g)
{
	const unsigned depth = (unsigned)g->depth;

	return &g->level[(depth < SP_GUARD_LEVELS ? depth : SP_GUARD_LEVELS) - 1];
}

/* ---- guard.c ---- */
void sp_guard_describe(const struct sp_guard_level *l, char *text, size_t room);
void sp_guard_complain(struct sp_guard *g, const char *text);

/* ---- guard_crash.c ---- */
int sp_guard_crashes_take(struct sp_guard *g); /* -ENOMEM */
void sp_guard_crashes_give(struct sp_guard *g);
/* For signal handlers: writes text at `to`, at most up to `end`; returns the new end. It describes the innermost call
 * and ends in ": ". */
char *sp_guard_put_call(char *to, const char *end, const struct sp_guard *g);
void sp_guard_say_at_once(struct sp_guard *g, const char *text, size_t len); /* the last output of the process */

#endif
