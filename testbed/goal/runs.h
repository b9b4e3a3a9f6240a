/* SPDX-License-Identifier: BSD-3-Clause */
/* Many runs of one schedule with other draws, in several threads. */
#ifndef TESTBED_GOAL_RUNS_H
#define TESTBED_GOAL_RUNS_H

#include "loggops.h"

#define GOAL_RUNS_MAX 10000000u

/* Runs p->run, p->run + 1 ... of p->seed: `runs` of them in `threads` threads (0: one per available processor; fewer if
 * they do not start). end: when the last rank of each run ended, in the order of the runs: the same, however many
 * threads there are. *first, ends: as of goal_loggops_run(), of the first run. 0 or as goal_loggops_run() of the first
 * run that failed, with *first as it left it. */
int goal_runs(const struct goal *g, const struct goal_loggops *p, uint32_t runs, uint32_t threads, sp_time *end,
	      struct goal_outcome *first, sp_time *ends);

#endif
