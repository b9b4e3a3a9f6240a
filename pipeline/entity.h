/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context's place on one worker, whichever version of its handler runs there: the packets of a burst that belong to
 * the context, those that wait, and what the scheduler knows. A reload changes `view` and nothing else: the worker
 * reads that pointer once for the context's packets of a burst. All versions of a context have the same entities.
 */
#ifndef PIPELINE_ENTITY_H
#define PIPELINE_ENTITY_H

#include "limits.h"
#include "exec/queue.h"

struct sp_allowance;
struct sp_share;
struct sp_view;

struct sp_entity {
	struct sp_view *view; /* of the current version; [shared] a control call writes, with release */
	unsigned batched;
	struct sp_packet *batch[SP_BURST + SP_PARKED]; /* of this burst; [worker], as all below */
	struct sp_allowance *allowance;		       /* its user's, where a rate is limited; NULL: the normal case */
	uint64_t counted;			       /* of cycles, those that the allowance has paid for */
	/* ---- scheduler.c ---- */
	struct sp_share *share; /* its application's */
	struct sp_packet_queue backlog;
	uint16_t place;	   /* of the backlog in the list of those that are not empty */
	uint32_t period;   /* the shortage of time that vtime belongs to */
	uint64_t cost;	   /* cycles that a packet takes, a moving average; 0: not measured yet */
	uint64_t was_cost; /* cost when vtime was updated last */
	uint64_t vtime;	   /* virtual time: cycles used, divided by the context's weight */
	uint64_t cycles;   /* used by all versions and the companion, as measured */
	uint64_t charged;  /* of them, those that vtime has in it */
} SP_CACHE_ALIGNED;

static inline struct sp_view *sp_entity_view(const struct sp_entity *e)
{
	return __atomic_load_n(&e->view, __ATOMIC_ACQUIRE);
}

/* One more packet of this burst. Where the first one of a context comes, the caller puts the entity into w->active. */
static inline void sp_entity_add(struct sp_entity *e, struct sp_packet *p)
{
	e->batch[e->batched++] = p;
}

#endif
