/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts' turns: the packets of a burst that are theirs go through their handlers' calls, and what becomes of each.
 */
#ifndef PIPELINE_TURN_H
#define PIPELINE_TURN_H

#include "onlooker.h"

#include <rte_branch_prediction.h>

/* Every context with packets (w->active) has its turn, in the order in which their first packets came. */
void sp_turns_run(struct sp_worker *w);

static inline void sp_turn_drop(struct sp_worker *w, struct sp_packet *p, enum sp_drop why)
{
	w->drops[why]++; /* buf stays: freed with the burst */
	if (unlikely(w->observed))
		sp_onlook_fate(w, p, SP_CAPTURE_DROPPED, sp_drop_names[why]);
}

/* Packets that the context's handler does not see: of a context that is over its budget, or disabled. */
void sp_turn_refuse(struct sp_view *v, struct sp_packet *const *p, unsigned n, enum sp_drop why);

/* The normal way for what no context takes. */
void sp_turn_forward(struct sp_worker *w, struct sp_packet *p);

#endif
