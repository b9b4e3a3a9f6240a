/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a path loses chunks, as its sender learns it: the latest losses and how much arrived between them, like TFRC (RFC
 * 5348, section 5). So memory is as long as each rate needs. Events that can no longer be chance make it forget older
 * ones at once: losses in a row that are much closer than before, or none where several were due.
 *
 * No clock, no I/O, no allocation. One thread at a time.
 */
#ifndef RELIABILITY_LOSS_H
#define RELIABILITY_LOSS_H

#include <stdint.h>

#define SP_LOSS_EVENTS 64
#define SP_LOSS_PARTS  8    /* events that one call adds, at most */
#define SP_LOSS_PRIOR  0.15 /* loss rate of a chunk that is assumed as the upper bound before the first loss */

struct sp_loss_share {
	double chunks, packets, lost, runs; /* runs of lost chunks */
};

struct sp_loss {
	struct sp_loss_share event[SP_LOSS_EVENTS]; /* a run, or several runs of one answer, and what arrived before */
	unsigned next, count;
	struct sp_loss_share open; /* since the latest event */
};

void sp_loss_init(struct sp_loss *l);

/* Adds what became of `chunks` chunks, in `packets` packets: `lost` of them were lost, in `runs` runs of neighbours.
 * Report each chunk once. More runs than lost chunks, or more lost chunks than chunks, count as equal; 0 packets count
 * as one per chunk; 0 chunks change nothing. A chunk that parity has repaired was lost. */
void sp_loss_add(struct sp_loss *l, uint64_t chunks, uint64_t packets, uint64_t lost, uint64_t runs);

/* Probabilities that a chunk is lost, in rising order. The true one is beyond the last with probability 1/10, and below
 * the first with 1/10. */
#define SP_LOSS_RATES 5
struct sp_loss_known {
	double lost[SP_LOSS_RATES];
	unsigned rates;	    /* 5 before the first loss, then 3, with the likeliest in the middle */
	double correlation; /* correlation of the losses of neighbouring chunks, as in struct sp_hazard */
	double packets;	    /* packets of a chunk; 0: not reported */
};
void sp_loss_known(const struct sp_loss *l, struct sp_loss_known *known);

#endif
