/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures what takes a processor away from a program: a tight loop of time stamps (the selfish detour benchmark of
 * netgauge). Where two stamps in a row are further apart than `factor` times the shortest distance seen, something else
 * ran in between: a detour, as long as that distance less the shortest.
 */
#ifndef TESTBED_GOAL_DETOUR_H
#define TESTBED_GOAL_DETOUR_H

#include <stdint.h>

#include "../../handlers/wire/host.h" /* sp_time */

#define GOAL_DETOUR_FACTOR 9u

struct goal_detour_config {
	int cpu;	  /* the calling thread is moved there for the time; -1: it stays where it may be */
	sp_time duration; /* of the measurement, after a hundredth of it that finds the shortest distance */
	uint32_t factor;  /* 0: GOAL_DETOUR_FACTOR */
	uint64_t most;	  /* detours: 16 bytes each; it ends when they are so many */
};

struct goal_detour_result {
	sp_time *at, *length; /* n of each, from the begin; the caller frees */
	uint64_t n;
	sp_time took, shortest; /* shortest: rounded to ps */
	double stolen;		/* share of the time that the detours took */
};

/* Measures; as long as it takes, the processor is busy. 0; -EINVAL: the duration is 0, or over an hour; -ENODEV: there
 * is no such cpu, or it may not be used; -ENOMEM. */
int goal_detour_measure(const struct goal_detour_config *c, struct goal_detour_result *r);

/* What the loop makes of time stamps (which is how it is tested): stamps[0] is the begin, in ticks, and `ps` how long
 * one takes. Fills r but for stolen; -ENOMEM. */
int goal_detour_of(const uint64_t *stamps, uint64_t n, uint64_t shortest, uint32_t factor, double ps,
		   struct goal_detour_result *r);

#endif
