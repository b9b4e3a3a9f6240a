/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheme `auto`: from a short list of schemes and codes it chooses the one with which a message takes the least
 * time, by what is known of the path. It decides anew for each message, in 20 to 100 us if anything has changed.
 *
 * The loss rate is not known exactly. It lies between bounds, which are wide at first (loss.h). At each of some rates
 * between them, a candidate takes so many times as long as the best one; its largest such factor counts. So while
 * little is known, the choice is one that is never bad; later it is the one with the least mean time. Parity takes
 * bandwidth from others: among candidates of nearly the same time, the one with the least parity wins. The scheme in
 * use stays unless another one is better by a margin, or has half the parity. Near a boundary both are good, and this
 * keeps it from switching back and forth.
 *
 * No clock, no I/O, no allocation. One thread at a time.
 */
#ifndef RELIABILITY_CHOICE_H
#define RELIABILITY_CHOICE_H

#include "duration.h"
#include "loss.h"

/* The candidates, unless the caller has fewer. Of equal times, the first one wins. */
#define SP_CHOICE_CANDIDATES 16
extern const struct sp_choice sp_choice_candidate[SP_CHOICE_CANDIDATES];

#define SP_CHOICE_NEARLY 0.005 /* times that differ by less than this part count as equal */
#define SP_CHOICE_MARGIN 0.05  /* ... and by this part where one of them is in use */
#define SP_CHOICE_MOVED	 0.05  /* inputs that have changed by less than this part need no new decision */

struct sp_chooser {
	struct sp_choice candidate[SP_CHOICE_CANDIDATES];
	unsigned candidates;
	struct sp_choice choice; /* for the latest message */
	unsigned which;		 /* ... its index among the candidates */
	double expected;	 /* s, expected at the likeliest loss rate */
	uint64_t messages, changes;
	struct { /* the inputs of the latest decision */
		struct sp_choice_path path;
		struct sp_choice_size size;
		struct sp_loss_known known;
	} by;
};

/* candidate: 1 to SP_CHOICE_CANDIDATES that are possible here, such as repeats alone, or with the only code of the
 * connection. More are ignored. NULL: sp_choice_candidate. */
void sp_chooser_init(struct sp_chooser *c, const struct sp_choice *candidate, unsigned candidates);
/* Chooses for the next message. Returns one of the candidates, whatever the arguments are. */
struct sp_choice sp_choose(struct sp_chooser *c, const struct sp_choice_path *path, const struct sp_choice_size *size,
			   const struct sp_loss *loss);

#endif
