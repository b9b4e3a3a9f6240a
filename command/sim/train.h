/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim train simulates, as its options say. */
#ifndef COMMAND_SIM_TRAIN_H
#define COMMAND_SIM_TRAIN_H

#include <stdbool.h>

#include "../../testbed/motif/train.h"

struct sim_train {
	uint8_t scheme; /* place in sim_train_schemes */
	struct train_config config;
	struct train_world world;
	uint64_t workers, servers, steps, segments, micro_batches, layers; /* as given; 0: not */
	uint64_t compute, backward, link, inside, latency, inside_latency, overhead;
	const char *os, *write; /* files */
	bool coscheduled, nodes, json;
	uint64_t seed;
};

struct sim_train_result {
	struct train_outcome outcome;
	sp_time quiet;	   /* with noise: what it takes without */
	uint64_t compared; /* sums that were right; 0: the scheme has none */
	double wall;	   /* s */
};

extern const char *const sim_train_schemes[]; /* up to a NULL */

/* OPTIONS_GO_ON, or the exit status. */
int sim_train_arguments(struct sim_train *s, int argc, char **argv);
/* Prints. Returns the exit status. */
int sim_train_show(const struct sim_train *s, const struct train *t, const struct sim_train_result *r);

#endif
