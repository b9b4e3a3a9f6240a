/* SPDX-License-Identifier: BSD-3-Clause */
/* What the model's samples and its exact values share: a message cut into chunks and submessages. */
#ifndef TESTBED_MODEL_PRIVATE_H
#define TESTBED_MODEL_PRIVATE_H

#include "model.h"

/* The last chunk is on its own everywhere, for it may be short; so is the last submessage, which has it. */
struct model_plan {
	uint64_t chunks;
	double inject, inject_last; /* s: what a chunk, and the last chunk, takes to inject */
	double drop, drop_last;
	double rto;	 /* s */
	double lossless; /* s: without parity */
	double base;	 /* s: when nothing is lost, with parity */
	/* Erasure coding, else submessages is 0. */
	uint64_t submessages;
	unsigned k, k_last;
	double fails, fails_last; /* probability that a submessage, and the last, cannot be recovered */
	double fallback;	  /* s: from base to the first chunk that is sent again, and the round trip after it */
};

/* 0, -EINVAL or -ERANGE as sp_model_run(). */
int model_plan(const struct sp_model *model, struct model_plan *plan);

/* Chunks of `submessages` failed ones; last: the last is one of them. */
static inline uint64_t model_failed_chunks(const struct model_plan *p, uint64_t submessages, int last)
{
	return (submessages - (last != 0)) * p->k + (last ? p->k_last : 0);
}

/* Selective repeat of n chunks when nothing is lost, without the round trip; last: the message's last is among them. */
static inline double model_inject(const struct model_plan *p, uint64_t n, int last)
{
	return (double)(n - 1) * p->inject + (last ? p->inject_last : p->inject);
}

#endif
