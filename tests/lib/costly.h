/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that need as many cycles as their packets say. The test owns the clock. */
#ifndef TESTS_COSTLY_H
#define TESTS_COSTLY_H

#include "../../pipeline/exec/measure.h"
#include "dut.h"

#define BUDGET "budget=100;overrun="

extern uint64_t costly_cycles, costly_looks; /* the clock, and how often it has been read */
uint64_t look(void *arg);

/* ---- a handler that takes its time ---- */

struct costly_packet { /* a packet's payload */
	uint32_t cost, verdict, message, action;
	uint32_t cost_beside, pad[3];
};

#define LONG (1000 * SP_SEC)
enum { KEEP = 1, ANSWER = 2, FOR_LONG = 4 };

struct costly_state {
	struct sp_timer timer;
	struct sp_work work;
	struct sp_issue issue;
	uint64_t timer_cost, work_cost, issue_cost;
	unsigned slices, sends, timers, works, issues, payloads, completions;
	bool started_again;
};

extern unsigned costly_keeps, costly_refused;
extern void *costly_held[SP_MAX_HELD + 8];
extern struct sp_doing costly_seen; /* by the latest call */
extern struct sp_view *costly_seen_view;

#define COSTLY(more)                                                                                                   \
	SP_HANDLER_HEAD, .drops = drops, .ctx_size = sizeof(struct costly_state), .attach = attach,                    \
			 .command = command, .issue = issue, .work = work, .timer = timer, more

/* ---- around it ---- */

void costly_start(uint16_t workers, bool measured);
void costly_feed(uint16_t queue, uint32_t qp, struct costly_packet say);
void costly_burst(uint32_t qp, unsigned n, uint32_t cost);
int costly_command(uint32_t id, uint64_t cost, sp_time at, unsigned slices, unsigned sends);
struct sp_view *costly_view(uint32_t id, uint16_t worker);
struct sp_meter *costly_meter(uint32_t id);
struct costly_state *costly_state(uint32_t id);
uint64_t costly_buckets(const struct sp_meter *m);
void costly_finish(void);

#endif
