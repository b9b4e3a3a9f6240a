/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim train simulates, as its options say. */
#ifndef COMMAND_SIM_TRAIN_H
#define COMMAND_SIM_TRAIN_H

#include <stdbool.h>

#include "../../testbed/motif/train_learn.h"

struct sim_train {
	uint8_t scheme; /* place in sim_train_schemes */
	struct train_config config;
	struct train_world world;
	uint64_t workers, servers, steps, segments, micro_batches, layers; /* as given; 0: not */
	uint64_t compute, backward, link, inside, latency, inside_latency, overhead;
	const char *os, *latencies, *write; /* files */
	bool coscheduled, nodes, json;
	uint64_t seed;
	/* ---- numbers ---- */
	bool learns;
	uint64_t parameters; /* 0: not given */
	double share;	     /* of the link, that a checkpoint takes */
	const char *checkpoint_file, *resume;
	bool kills;
	uint32_t killed, killed_step;
	sp_time detect;
	struct train_state state; /* with which it begins */
};

/* A run in which a worker died, and what followed. */
struct sim_train_restart {
	sp_time died, noticed, end; /* end: of all, with the steps that were made again */
	uint64_t from;		    /* the step with which it went on */
	uint32_t checkpoints;	    /* that were there */
	bool equal;		    /* parameters and momentum are those of the run without a death */
};

struct sim_train_result {
	struct train_outcome outcome;
	sp_time quiet;	   /* with noise: what it takes without */
	uint64_t compared; /* sums that were right; 0: the scheme has none */
	uint64_t digest;   /* of parameters and momentum, if it learns */
	uint32_t checkpoints;
	sp_time checkpoint_time;
	struct sim_train_restart restart; /* if a worker was killed */
	double wall;			  /* s */
};

extern const char *const sim_train_schemes[]; /* up to a NULL */

/* OPTIONS_GO_ON, or the exit status. */
int sim_train_arguments(struct sim_train *s, int argc, char **argv);
/* With numbers: makes s->state, and what follows from a checkpoint; runs. Both return the exit status. */
int sim_train_learn_begin(struct sim_train *s);
int sim_train_learn(const struct sim_train *s, const struct train *t, struct sim_train_result *r);
/* A schedule; its errors are told. Returns the exit status. */
int sim_train_create(const struct sim_train *s, const struct train_config *c, struct train **t);
/* Says what a run's error means. Returns 1. */
int sim_train_failed(int err);
/* Prints. Returns the exit status. */
int sim_train_show(const struct sim_train *s, const struct train *t, const struct sim_train_result *r);

#endif
