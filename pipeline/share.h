/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts share a worker by weight when it is short of time. Every burst runs to completion at once while what its
 * packets are going to cost, by what they have cost of late, is within a quantum: the normal case. Beyond, a context
 * whose batch is more than its part of the quantum waits: its packets go into the worker's backlog, which is served in
 * every poll for a quantum, or for one call where that takes longer. So a light context waits for no more than that,
 * however many heavy ones there are and whatever they are sent.
 *
 * Who is next is decided by start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996), as OSMOSIS does for its
 * kernels, in measured cycles by weight, where deficit round robin would let the light one wait for a round of calls of
 * all others. What else a context's calls cost (timers, commands, issues, slices of work) is charged to it all the
 * same.
 */
#ifndef PIPELINE_SHARE_H
#define PIPELINE_SHARE_H

#include "../handlers/spindle-handler.h"
#include "exec_context.h"
#include "limits.h"
#include "view.h"
#include "worker.h"

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>

#define SP_QUANTUM    (20 * SP_US) /* a poll's, of the fresh packets, and once more of those that wait */
#define SP_SHORT_FOR  64	   /* polls that nothing has waited in: the shortage is over, and forgotten */
#define SP_SHARED_FOR SP_SEC	   /* one context alone shares with nobody when no other has had a packet for so long */

struct sp_share_waiting {
	uint64_t had; /* its view's */
	struct sp_view *view;
};

struct sp_share_slot {
	struct sp_parked parked;
	uint16_t next; /* of the same view, or free; index + 1 */
};

/* [worker] */
struct sp_share {
	uint64_t left;		    /* of a quantum for what need not wait, in this poll */
	uint64_t quantum;	    /* cycles */
	uint64_t time;		    /* virtual: where the one began that was served last */
	uint32_t period;	    /* of shortage */
	uint64_t switches;	    /* how often the kernel had taken the thread's processor away */
	bool serving;		    /* what runs now has waited already */
	uint64_t until;		    /* the period ends with that poll, unless something waits again before */
	const struct sp_view *sole; /* the last one that had a burst for itself; cleared when that goes */
	sp_time several;	    /* until then it shares, since others have had packets, too */
	unsigned packets, waiting;
	uint16_t free; /* list of slots */
	struct sp_share_waiting wait[SP_BACKLOG];
	struct sp_share_slot slot[SP_BACKLOG];
};

/* For the workers of a NIC whose calls are measured. -ENOMEM. Workers do not run. */
int sp_share_create(struct sp_nic *nic);
void sp_share_destroy(struct sp_nic *nic);

/* Takes what is to wait from the batches of w->active. */
void sp_share_defer(struct sp_worker *w);
/* Serves those that wait. Returns how many packets. */
unsigned sp_share_run(struct sp_worker *w);
/* The context goes: its packets are dropped. */
void sp_share_forget(struct sp_worker *w, const struct sp_context *c);
/* What of the one waits, waits for the other, which has taken over from it. */
void sp_share_give(struct sp_worker *w, const struct sp_context *from, const struct sp_context *to);
/* All that wait. */
void sp_share_each(struct sp_worker *w, void (*fn)(struct sp_parked *, void *), void *arg);
/* Of two that have deferred work. */
bool sp_share_before(struct sp_worker *w, struct sp_view *v, struct sp_view *other);
/* Of all of them. */
void sp_share_chosen(struct sp_worker *w, struct sp_view *v);
/* It has had more than its part, and others wait. */
bool sp_share_in_debt(struct sp_worker *w, struct sp_view *v);

/* A packet's. Of one that is not known yet too much for any to be in a hurry. */
static inline uint64_t sp_share_cost(const struct sp_share *s, const struct sp_view *v)
{
	return likely(v->portion.cost != 0) ? v->portion.cost : s->quantum + 1;
}

/* Before the contexts of a burst have their turns. */
static inline void sp_share_judge(struct sp_worker *w)
{
	struct sp_share *s = w->share;
	uint64_t cycles = 0;

	if (s->serving || !w->actives)
		return;
	for (unsigned i = 0; i < w->actives; i++) {
		cycles += sp_share_cost(s, w->active[i]) * w->active[i]->batched;
	}
	if (w->actives > 1 || unlikely(w->active[0] != s->sole)) {
		bool others = s->sole && s->sole->context->id != w->active[0]->context->id;

		for (unsigned i = 1; i < w->actives && !others; i++) /* copies of one handler are one context */
			others = w->active[i]->context->id != w->active[0]->context->id;
		if (others)
			s->several = w->now + SP_SHARED_FOR;
		s->sole = w->active[0];
	}
	if (unlikely(cycles > s->left) || unlikely(s->waiting))
		sp_share_defer(w);
	else
		s->left -= cycles;
}

/* A poll begins. */
static inline void sp_share_begin(struct sp_worker *w)
{
	w->share->left = w->share->quantum;
}

static inline bool sp_share_owes(struct sp_worker *w, struct sp_view *v)
{
	return w->share && unlikely(w->share->waiting != 0) && sp_share_in_debt(w, v);
}

/* Cycles that a poll spends on one kind of calls, and the one call more that it takes to see that they are spent. */
static inline uint64_t sp_share_quantum(const struct sp_worker *w)
{
	return w->share ? w->share->quantum : UINT64_MAX;
}

static inline unsigned sp_share_packets(const struct sp_worker *w)
{
	return w->share ? w->share->packets : 0;
}

#endif
