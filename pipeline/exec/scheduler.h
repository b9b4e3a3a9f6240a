/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Users share a worker by weight when the worker is short of time; a user's share is divided among its applications,
 * and an application's among its contexts, again by weight. The weights of users are the administrator's ([limits
 * NAME]), applications have equal ones, and a context's `weight` counts within its application alone. The NIC's own
 * contexts are one application of a group of their own, that counts as one user of weight 1. Every burst runs to
 * completion at once while the time that its packets are going to take, estimated from what packets of these contexts
 * have taken of late, is within a quantum: the normal case. Beyond that, a context whose batch is more than its part of
 * the quantum waits: its packets go into the worker's backlog. Every poll serves the backlog for one quantum, or for
 * one call where that takes longer. So a light context waits no longer than that, however many heavy ones there are and
 * whatever is sent to them.
 *
 * Who is next is decided by hierarchical start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996), as OSMOSIS does
 * for its kernels, in measured cycles by weight: first among users, then among the user's applications, then among
 * contexts. What one does not use, others get; who comes back from a rest has saved up nothing. With deficit round *
 * robin the light context would wait for a round of calls of all others. A context's other calls (timers, commands,
 * issues, slices of work) are charged to it as well, and their turns decided in the same way.
 */
#ifndef PIPELINE_EXEC_SCHEDULER_H
#define PIPELINE_EXEC_SCHEDULER_H

#include <rte_branch_prediction.h>

#include "../entity.h"
#include "../share.h"
#include "../view.h"
#include "../worker.h"

struct sp_context;
struct sp_nic;

#define SP_QUANTUM    (20 * SP_US) /* of a poll: for packets that have just come, and once more for the backlog */
#define SP_SHORT_FOR  64	   /* a shortage of time is over after so many polls in which nothing waited */
#define SP_SHARED_FOR SP_SEC	   /* a context is alone when no other one had a packet for so long: it never waits */

/* A context that has packets in the backlog. */
struct sp_scheduler_waiting {
	uint64_t vtime;		      /* the entity's: here so that a search for the least one reads one array */
	const struct sp_share *share; /* the same */
	struct sp_entity *entity;
};

/* [worker] */
struct sp_scheduler {
	uint64_t left;		      /* cycles of this poll's quantum for packets that need not wait */
	uint64_t quantum;	      /* cycles */
	uint64_t looked;	      /* the poll in which `dearest` of all shares was found */
	uint32_t period;	      /* counts shortages; vtimes are compared within one */
	uint64_t switches;	      /* how often the kernel had taken the processor away from the thread */
	bool serving;		      /* the packets that run now come from the backlog */
	uint64_t until;		      /* the shortage ends with that poll, unless something waits again before */
	const struct sp_entity *sole; /* had the last burst that belonged to one context; NULL once that is gone */
	sp_time several;	      /* until then contexts share, since several have had packets */
	unsigned packets, waiting;    /* in the backlog; contexts that have some there */
	struct sp_packet_pool places;
	struct sp_scheduler_waiting wait[SP_BACKLOG];
	struct sp_waiting place[SP_BACKLOG];
	struct { /* of the context that is being served */
		struct sp_entity *entity;
		uint64_t before, left; /* its cycles when that began; of the quantum for the backlog */
	} served;
};

/* For the workers of a NIC whose calls are measured. -ENOMEM. Workers do not run. */
int sp_scheduler_create(struct sp_nic *nic);
void sp_scheduler_destroy(struct sp_nic *nic);

/* Moves batches of w->active into the backlog. */
void sp_scheduler_defer(struct sp_worker *w);
/* Serving the backlog: begins; up to SP_BURST packets of the next context, 0 where the quantum is used up or nothing
 * waits; accounts for these when they have run. */
void sp_scheduler_serve(struct sp_worker *w);
unsigned sp_scheduler_next(struct sp_worker *w, struct sp_waiting packet[SP_BURST]);
void sp_scheduler_served(struct sp_worker *w);
/* The context goes: its packets are dropped. */
void sp_scheduler_purge(struct sp_worker *w, struct sp_entity *e);
/* Calls fn for each packet in the backlog. */
void sp_scheduler_each(struct sp_worker *w, void (*fn)(struct sp_waiting *, void *), void *arg);
/* Several contexts want the same: brings what is known of one of them up to date. */
void sp_scheduler_update(struct sp_worker *w, struct sp_entity *e);
/* Of two of them: is e's turn before other's? */
bool sp_scheduler_before(const struct sp_entity *e, const struct sp_entity *other);
/* e is next. */
void sp_scheduler_chosen(struct sp_worker *w, const struct sp_entity *e);
/* The same for applications: beside what their contexts are charged with, for what no context did. */
void sp_scheduler_charge_share(struct sp_worker *w, struct sp_share *share, uint64_t cycles);
bool sp_scheduler_share_before(const struct sp_share *share, const struct sp_share *other);
/* The context has used more than its part, and others wait. */
bool sp_scheduler_in_debt(struct sp_worker *w, struct sp_entity *e);

/* Cycles for a packet. While that is not known it is taken to be more than a quantum. */
static inline uint64_t sp_scheduler_cost(const struct sp_scheduler *s, const struct sp_entity *e)
{
	return likely(e->cost != 0) ? e->cost : s->quantum + 1;
}

/* Before the contexts of a burst run: which of them have to wait? */
static inline void sp_scheduler_judge(struct sp_worker *w)
{
	struct sp_scheduler *s = w->scheduler;
	uint64_t cycles = 0;

	if (s->serving || !w->actives)
		return;
	for (unsigned i = 0; i < w->actives; i++)
		cycles += sp_scheduler_cost(s, w->active[i]) * w->active[i]->batched;
	if (w->actives > 1 || unlikely(w->active[0] != s->sole)) {
		if (w->actives > 1 || s->sole)
			s->several = w->now + SP_SHARED_FOR;
		s->sole = w->active[0];
	}
	if (unlikely(cycles > s->left) || unlikely(s->waiting))
		sp_scheduler_defer(w);
	else
		s->left -= cycles;
}

/* A poll begins. */
static inline void sp_scheduler_begin(struct sp_worker *w)
{
	w->scheduler->left = w->scheduler->quantum;
}

static inline bool sp_scheduler_owes(struct sp_worker *w, struct sp_view *v)
{
	return w->scheduler && unlikely(w->scheduler->waiting != 0) && sp_scheduler_in_debt(w, v->entity);
}

/* After a call of e's context: charged at once while the worker is short of time. */
static inline void sp_scheduler_called(struct sp_worker *w, struct sp_entity *e)
{
	if (w->scheduler && unlikely(w->polls < w->scheduler->until))
		sp_scheduler_update(w, e);
}

/* Cycles that a poll spends on one kind of calls, timers for example; the call that exceeds them is the last one. */
static inline uint64_t sp_scheduler_quantum(const struct sp_worker *w)
{
	return w->scheduler ? w->scheduler->quantum : UINT64_MAX;
}

static inline unsigned sp_scheduler_packets(const struct sp_worker *w)
{
	return w->scheduler ? w->scheduler->packets : 0;
}

#endif
