/* SPDX-License-Identifier: BSD-3-Clause */
/* What samples and exact values of the model share: a message cut into chunks and submessages. */
#ifndef TESTBED_MODEL_PRIVATE_H
#define TESTBED_MODEL_PRIVATE_H

#include "model.h"

/* The last chunk is handled separately, because it may be short; so is the last submessage, which contains it. */
struct model_plan {
	uint64_t chunks;
	double inject, inject_last; /* s: injection time of a chunk, and of the last one */
	double drop, drop_last;
	double rto;	 /* s */
	double lossless; /* s: without parity */
	double base;	 /* s: when nothing is lost, with parity */
	/* Erasure coding, else submessages is 0. */
	uint64_t submessages;
	unsigned k, k_last;
	double fails, fails_last; /* probability that a submessage, and the last, cannot be recovered */
	double fallback;	  /* s: from base to the first retransmitted chunk, plus its round trip */
};

/* 0, -EINVAL or -ERANGE as sp_model_run(). */
int model_plan(const struct sp_model *model, struct model_plan *plan);

/* Chunks of `submessages` failed ones; last: whether the last one is among them. */
static inline uint64_t model_failed_chunks(const struct model_plan *p, uint64_t submessages, int last)
{
	return (submessages - (last != 0)) * p->k + (last ? p->k_last : 0);
}

/* Time of selective repeat of n chunks without losses, without the round trip; last: whether the message's last chunk
 * is among them. */
static inline double model_inject(const struct model_plan *p, uint64_t n, int last)
{
	return (double)(n - 1) * p->inject + (last ? p->inject_last : p->inject);
}

#endif
