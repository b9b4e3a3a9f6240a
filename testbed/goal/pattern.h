/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Schedules of collective operations, as LogGOPSim's schedgen makes them: the same operations, sizes and dependencies,
 * under the same names. What differs: pipelinedring is the closed ring of De Sensi et al. (2022), in which all ranks
 * send in each round; schedgen's open chain of that name is pipelinedchain here. Only powers of two of ranks have an
 * allreduce_recdoub. A root other than 0 changes places with rank 0 everywhere.
 */
#ifndef TESTBED_GOAL_PATTERN_H
#define TESTBED_GOAL_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule.h"

#define GOAL_PATTERN_OPS_MAX (1u << 30)

struct goal_pattern {
	const char *name; /* of goal_pattern_names */
	uint32_t ranks;
	uint64_t size;	  /* bytes: of a message; of the rings and allreduces, of the buffer */
	uint64_t segment; /* pipelined...: bytes of a message; 0: size / ranks */
	uint32_t root;
	uint32_t ways;	 /* of nwaydissemination; 0: 1 */
	bool no_calc;	 /* calcs (nwaydissemination: a ns a byte) take no time */
	uint64_t seed;	 /* of random_bisect */
	uint64_t memory; /* bytes that the schedule may take, about; 0: no bound */
};

extern const char *const goal_pattern_names[]; /* up to a NULL */

/* A finished schedule, *g, which the caller destroys. -EINVAL: there is no such pattern, or not of this many ranks or
 * ways, root is no rank, or size is 0; -E2BIG: more than memory, or than GOAL_PATTERN_OPS_MAX operations; -ENOMEM. */
int goal_pattern_create(const struct goal_pattern *p, struct goal **g);

#endif
