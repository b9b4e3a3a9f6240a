/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers of a worker: a pairing heap of nodes that live in handler state, so arming allocates nothing. */
#ifndef PIPELINE_EXEC_TIMER_H
#define PIPELINE_EXEC_TIMER_H

struct sp_worker;
struct sp_context;
struct sp_timer;

void sp_timers_insert(struct sp_timer **root, struct sp_timer *t);
void sp_timers_remove(struct sp_timer **root, struct sp_timer *t);
/* Removes all timers of a context. */
void sp_timers_purge(struct sp_timer **root, const struct sp_context *context);
/* Runs due timers, at most SP_TIMERS_PER_POLL; returns their number. */
unsigned sp_timers_run(struct sp_worker *w);

#endif
