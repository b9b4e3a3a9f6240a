/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"
#include "calls.h"
#include "drain.h"
#include "../entity.h"
#include "../context.h"
#include "../limit.h"
#include "fate.h"
#include "measure.h"
#include "scheduler.h"

#include <rte_mbuf.h>

/* Packets that the context's handler does not see. */
static void refuse(struct sp_view *v, struct sp_packet *const *p, unsigned n, enum sp_drop why)
{
	for (unsigned i = 0; i < n; i++)
		sp_packet_drop(v->owner, p[i], why);
	v->dropped += n;
	*(why == SP_DROP_OVER_BUDGET  ? &v->over_budget
	  : why == SP_DROP_OVER_LIMIT ? &v->over_limit
				      : &v->disabled) += n;
}

/* n: all packets of the burst; for a context with a budget one. */
static inline void run_step(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	const uint64_t began = sp_meter_begin(v, n);

	if (unlikely(sp_is_draining(v->context)))
		sp_drain_packets(v, p, n);
	else
		sp_call_packets(v, p, n);
	sp_meter_end(v, began, n);
}

/* Packet by packet: so it is known which packet cost too much, and the consequences hold for the next one already. */
static __attribute__((noinline)) void run_budgeted(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	struct sp_meter *m = &v->meter;

	for (unsigned i = 0; i < n; i++) {
		if (sp_view_disabled(v)) {
			refuse(v, p + i, n - i, SP_DROP_CONTEXT_DISABLED);
			return;
		}
		if (m->debt) {
			refuse(v, p + i, 1, SP_DROP_OVER_BUDGET);
			m->debt -= RTE_MIN(m->debt, v->context->budget.cycles);
		} else {
			run_step(v, p + i, 1);
		}
	}
}

static inline void run_entity(struct sp_worker *w, struct sp_entity *e)
{
	do { /* again where the version has been replaced meanwhile and has given packets back: for the newer one */
		struct sp_view *v = sp_entity_view(e);
		const unsigned n = e->batched;

		e->batched = 0;
		v->pub.now = w->now;
		if (sp_view_disabled(v)) {
			refuse(v, e->batch, n, SP_DROP_CONTEXT_DISABLED);
			continue;
		}
		if (unlikely(e->allowance != NULL) && !sp_limit_receives(w, e, n)) {
			refuse(v, e->batch, n, SP_DROP_OVER_LIMIT);
			continue;
		}
		sp_doing_begin(w, v, SP_DOING_PACKETS, e->batch, n);
		if (unlikely(v->context->budget.cycles != 0) && w->metering)
			run_budgeted(v, e->batch, n);
		else
			run_step(v, e->batch, n);
	} while (unlikely(e->batched));
}

void sp_run_contexts(struct sp_worker *w)
{
	if (unlikely(w->tap != NULL))
		w->tap->match(w);
	if (w->scheduler)
		sp_scheduler_judge(w);
	w->measured = SP_UNMEASURED;
	for (unsigned i = 0; i < w->actives; i++)
		run_entity(w, w->active[i]);
	w->actives = 0;
	sp_doing_end(w);
}

/* ---- packets that have waited ---- */

/* Each of them ends as those of a burst do, or waits again. */
static void run_waiting(struct sp_worker *w, struct sp_waiting *waiting, unsigned n)
{
	if (unlikely(w->tap != NULL) && w->tap->again(w, waiting, n)) {
		for (unsigned i = 0; i < n; i++)
			run_waiting(w, &waiting[i], 1);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct sp_entity *e = waiting[i].entity;

		if (!e->batched)
			w->active[w->actives++] = e;
		sp_entity_add(e, &waiting[i].packet);
	}
	sp_run_contexts(w);
	if (unlikely(w->tap != NULL))
		w->tap->settle(w);
	for (unsigned i = 0; i < n; i++)
		if (waiting[i].packet.buf)
			rte_pktmbuf_free(waiting[i].packet.buf);
}

unsigned sp_run_parked(struct sp_worker *w)
{
	struct sp_waiting again[SP_PARKED], *place;
	unsigned n = 0;

	while ((place = sp_queue_take(&w->parked))) {
		again[n++] = *place;
		sp_pool_give(&w->places, place);
	}
	run_waiting(w, again, n);
	return n;
}

unsigned sp_run_backlog(struct sp_worker *w)
{
	struct sp_waiting again[SP_BURST];
	unsigned done = 0, n;

	sp_scheduler_serve(w);
	while ((n = sp_scheduler_next(w, again))) {
		run_waiting(w, again, n);
		sp_scheduler_served(w);
		done += n;
	}
	return done;
}
