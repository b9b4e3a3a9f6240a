/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC under test with a handler that has timers, deferred work and issues and records when each was called. */
#ifndef TESTS_TIMED_H
#define TESTS_TIMED_H

#include "dut.h"

#define TIMERS 512
#define ISSUES 4

/* The handler's state; what its functions do is written there by the test. */
struct timed {
	struct sp_timer timer[TIMERS];
	struct {
		sp_time every;	/* timer() arms it again so much later */
		unsigned other; /* timer() cancels that one, + 1 */
	} plan[TIMERS];
	struct sp_work work[ISSUES];
	unsigned slices[ISSUES]; /* that work() still has */
	bool again[ISSUES];	 /* work() starts itself again, once, and says that it is done */
	struct sp_issue issue[ISSUES];
	struct {
		unsigned want, sent, each; /* packets; each: at most so many in one call, 0: the budget */
		int dry;		   /* what issue() returns when it has no more */
		unsigned grow;		   /* at the first dry call: so many more come, and sp_issue_start is called */
		unsigned calls, most;	   /* calls; largest budget */
		uint16_t worker;
	} job[ISSUES];
	struct sp_path *path;
	uint32_t bytes; /* of payload of what issue() sends */
};

/* ---- what happened, in order ---- */
extern struct timed_happened {
	char what; /* t w i */
	char context;
	uint32_t which;
	sp_time now;
} timed_happened[200000];

extern unsigned timed_happenings;
extern void (*timed_todo)(struct sp_ctx *, struct timed *); /* what the next command or packet runs */
/* As text: kind and number, contexts as they are named: "a:t3 b:w1 ". */
const char *timed_log(void);

/* ---- helpers ---- */

void timed_start_with(uint16_t workers, bool known);
void timed_start(void);
void timed_stop(void);
struct timed *timed_state(uint32_t id);
/* Runs a piece of handler code on the context's home worker. */
void timed_inside(uint32_t id, void (*fn)(struct sp_ctx *, struct timed *));

#endif
