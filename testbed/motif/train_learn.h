/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training with numbers: all workers have the same parameters in memory, and the gradients that they add up go the way
 * of a schedule's messages (train.h). Checkpoints hold what a worker knows, and a run may begin with one: then it ends
 * with the same bits as a run that was never disturbed.
 *
 * All is in whole numbers of 32 bits, so sums do not hang on their order. Of step k = 0, 1, ..., worker r and parameter
 * i, with h(x) the first number of splitmix64 seeded with x:
 *     wanted    h(seed ^ (k << 32 | r << 20 | i)) >> 44, less 2^19
 *     gradient  (parameter - wanted) >> 4                  (least squares; shifts round down)
 *     sum       of the gradients of all workers
 *     momentum  += sum / workers - (momentum >> 3)         (the division rounds towards 0)
 *     parameter -= momentum >> 2
 * In the beginning a parameter is h(seed ^ ~i) >> 44, less 2^19, and all momentum is 0.
 */
#ifndef TESTBED_MOTIF_TRAIN_LEARN_H
#define TESTBED_MOTIF_TRAIN_LEARN_H

#include <stdio.h>

#include "train.h"

#define TRAIN_NUMBERS_MAX	(1u << 20) /* parameters */
#define TRAIN_LEARN_NUMBERS_MAX (1u << 24) /* ... of all ranks together: each takes up to 32 bytes */

/* What a worker knows between two steps. */
struct train_state {
	uint32_t workers, numbers; /* numbers: of parameters */
	uint64_t seed, steps;	   /* steps: that were made */
	int32_t *parameter, *momentum;
};

/* Before the first step. -EINVAL: no numbers, or more than TRAIN_NUMBERS_MAX; -ENOMEM. The caller frees. */
int train_state_create(struct train_state *s, uint32_t workers, uint32_t numbers, uint64_t seed);
int train_state_copy(struct train_state *to, const struct train_state *from); /* to: another one, or zeroed; -ENOMEM */
void train_state_free(struct train_state *s);
bool train_state_equal(const struct train_state *a, const struct train_state *b);
uint64_t train_state_digest(const struct train_state *s); /* FNV-1a of parameters, then momentum, little endian */

struct train_learned {
	struct train_outcome outcome; /* the caller frees, also after an error */
	uint32_t checkpoints;	      /* that reached storage */
	sp_time checkpoint_time;      /* from the end of its step until all of the latest was there */
	sp_time died;		      /* when the worker did; SP_NEVER */
};

struct train_keeper {
	int (*keep)(void *arg, const struct train_state *state); /* 0, or the error with which the run ends */
	void *arg;
	sp_time until; /* what reaches storage later is not kept: so long after the worker's death. 0: from then on */
};

/* Runs the schedule from *state, which is that of config.before steps, and leaves what worker 0 has at its end in it.
 * If a worker dies the state is as it was. keeper: gets each checkpoint that has reached storage; NULL: nobody does.
 * -EINVAL: the state is not of these workers or steps, or the scheme adds nothing up; -EBADMSG: workers ended with
 * different parameters; -E2BIG: more than TRAIN_LEARN_NUMBERS_MAX; keep()'s error; else as train_run(). */
int train_learn(const struct train *train, const struct train_world *world, const struct train_keeper *keeper,
		struct train_state *state, struct train_learned *learned);

/* ---- files ---- */
/* In little endian: "SpndlTr1", workers, numbers (32 bits each), seed, steps (64 bits each), parameters, momentum (32
 * bits each), FNV-1a of all that (64 bits). */

/* Writes path.new and makes it path: who dies while writing leaves the older one. -EEXIST: path
 * is there, and is no file; else -errno. */
int train_checkpoint_write(const struct train_state *s, const char *path);
/* Reads into a zeroed state, which the caller frees. -EINVAL: it is none, is damaged, or is not for so many workers,
 * so many parameters or the seed of `like`; why says it, as it does of other errors. */
int train_checkpoint_read(struct train_state *s, const struct train_state *like, const char *path, char *why,
			  size_t whylen);

#endif
