/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's program, call by call, as operations of a schedule: what blocks and what does not becomes dependencies. */
#ifndef TESTBED_MOTIF_STEPS_H
#define TESTBED_MOTIF_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "../goal/schedule.h"

#define STEPS_OPEN 64 /* operations that a wait can wait for */

struct steps {
	struct goal *g;
	uint32_t first, rank; /* first: of the schedule, which is the job's rank 0; rank: of the job, as are peers */
	uint32_t before[STEPS_OPEN]; /* all must be done before the next call goes on */
	uint32_t befores;
	uint32_t open[STEPS_OPEN]; /* begun and not waited for */
	uint32_t opens;
	bool fresh; /* some of these have begun after all of before */
	int err;    /* the first; nothing happens after it */
};

void steps_begin(struct steps *s, struct goal *g, uint32_t first, uint32_t rank);
void steps_send(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag); /* returns when it is done */
void steps_recv(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag);
void steps_isend(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag); /* returns at once */
void steps_irecv(struct steps *s, uint32_t peer, uint64_t bytes, uint32_t tag);
void steps_wait(struct steps *s);		  /* for all that has begun */
void steps_compute(struct steps *s, uint64_t ns); /* 0: nothing */
/* Up and down a binary tree of all ranks of the job. */
void steps_allreduce(struct steps *s, uint32_t ranks, uint64_t bytes, uint32_t tag);

#endif
