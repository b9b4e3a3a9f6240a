/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts whose processors stand still now and then, as measured (testbed/goal/noise.h): each rank goes through the same
 * trace of detours from a place of its own, again and again. While a detour lasts nothing is done, and work that it
 * interrupts ends so much later; with it, detours that would have come after. (LogGOPSim adds those only that begin
 * before the work would have ended undisturbed.)
 */
#ifndef TESTBED_MOTIF_STALLS_H
#define TESTBED_MOTIF_STALLS_H

#include <stdbool.h>

#include "../goal/noise.h"

#define STALLS_SHARE_MAX 0.9 /* of the time, at most; else nearly nothing would be done */

struct stalls {
	const struct goal_detours *detours;
	sp_time *phase; /* of each rank: the place in the trace at time 0 */
};

/* Places are drawn by the seed, or all are 0 if `together`. The detours must outlive it. The caller frees. -ERANGE:
 * they take more than STALLS_SHARE_MAX; -ENOMEM. */
int stalls_create(struct stalls *s, const struct goal_detours *detours, uint32_t ranks, bool together, uint64_t seed);
void stalls_free(struct stalls *s);

/* When work ends that begins at `from`: `stretch` of links_config, with a struct stalls as arg. Work of no length ends
 * with the detour that is on. */
sp_time stalls_stretch(void *stalls, uint32_t rank, uint8_t cpu, sp_time from, sp_time work);

#endif
