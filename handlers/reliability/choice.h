/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheme that picks itself: of a short list of schemes and codes the one that a message takes the least time with,
 * given what is known of the path. Decided for each message anew: in 20 to 100 us if anything has changed.
 *
 * The loss rate is not known but lies between bounds, which are wide at first (loss.h). At each of some rates between
 * them a scheme takes so many times as long as the best one: what counts is the largest of these. So as long as little
 * is known the choice is one that is not bad whatever comes, and later it is the one with the least mean time. Parity
 * takes bandwidth from others: among nearly the same times the least of it is taken. The scheme in use stays as long as
 * no other is better by a margin, or has half of the parity: near a boundary both are good, and nothing flaps.
 *
 * No clock, no I/O, no allocation. One thread at a time.
 */
#ifndef RELIABILITY_CHOICE_H
#define RELIABILITY_CHOICE_H

#include "duration.h"
#include "loss.h"

/* What there is to choose from, unless the caller has less. Where times are equal, what comes first. */
#define SP_CHOICE_CANDIDATES 16
extern const struct sp_choice sp_choice_candidate[SP_CHOICE_CANDIDATES];

#define SP_CHOICE_NEARLY 0.005 /* what takes longer by this part is as good, */
#define SP_CHOICE_MARGIN 0.05  /* ... and what is in use by this one */
#define SP_CHOICE_MOVED	 0.05  /* what has not changed by more than this part is not decided about again */

struct sp_chooser {
	struct sp_choice candidate[SP_CHOICE_CANDIDATES];
	unsigned candidates;
	struct sp_choice choice; /* for the latest message, */
	unsigned which;		 /* ... of the candidates */
	double expected;	 /* s, that it was expected to take at the likeliest rate of losses */
	uint64_t messages, changes;
	struct { /* what it was decided by */
		struct sp_choice_path path;
		struct sp_choice_size size;
		struct sp_loss_known known;
	} by;
};

/* candidate: 1 to SP_CHOICE_CANDIDATES that are possible here, such as repeats alone, or with the one code that the
 * connection has; more are not looked at. None: sp_choice_candidate. */
void sp_chooser_init(struct sp_chooser *c, const struct sp_choice *candidate, unsigned candidates);
/* For the next message. Always one of the candidates, whatever the arguments are. */
struct sp_choice sp_choose(struct sp_chooser *c, const struct sp_choice_path *path, const struct sp_choice_size *size,
			   const struct sp_loss *loss);

#endif
