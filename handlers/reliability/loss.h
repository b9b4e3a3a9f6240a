/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a path loses chunks, as its sender learns it: the latest losses and how much arrived between them, as TFRC has it
 * (RFC 5348, section 5), so that memory is as long as it must be at any rate. What can no longer be by chance is
 * forgotten at once: losses in a row that are much closer than before, or none where several were due.
 *
 * No clock, no I/O, no allocation. One thread at a time.
 */
#ifndef RELIABILITY_LOSS_H
#define RELIABILITY_LOSS_H

#include <stdint.h>

#define SP_LOSS_EVENTS 64
#define SP_LOSS_PARTS  8    /* events that what is told at once makes, at most */
#define SP_LOSS_PRIOR  0.15 /* a chunk's loss is less likely than that, as is believed until the first */

struct sp_loss_share {
	double chunks, packets, lost, runs; /* runs of lost chunks */
};

struct sp_loss {
	struct sp_loss_share event[SP_LOSS_EVENTS]; /* a run, or several of one answer, and what arrived before */
	unsigned next, count;
	struct sp_loss_share open; /* since the latest */
};

void sp_loss_init(struct sp_loss *l);

/*
 * What became of some chunks, each told of once: how many, of how many packets in all, how many of them were lost, in
 * how many runs of neighbours. More runs than lost chunks, and more of these than chunks, count as as many; no packets
 * as one a chunk. Nothing changes for 0 chunks. A chunk that parity has made good was lost.
 */
void sp_loss_add(struct sp_loss *l, uint64_t chunks, uint64_t packets, uint64_t lost, uint64_t runs);

/* What may be believed: probabilities that a chunk is lost, in rising order. The truth is beyond the last with about
 * one tenth, and before the first with one tenth. */
#define SP_LOSS_RATES 5
struct sp_loss_known {
	double lost[SP_LOSS_RATES];
	unsigned rates;	    /* 5 before the first loss, then 3, the likeliest in the middle */
	double correlation; /* of neighbouring chunks' losses, as in struct sp_hazard */
	double packets;	    /* of a chunk; 0: none was told of */
};
void sp_loss_known(const struct sp_loss *l, struct sp_loss_known *known);

#endif
