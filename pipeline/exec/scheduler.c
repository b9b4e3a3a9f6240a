/* SPDX-License-Identifier: BSD-3-Clause */
#include "scheduler.h"
#include "../engine.h"
#include "../context.h"
#include "fate.h"

#include <stdlib.h>
#include <sys/resource.h>

#include <rte_common.h>
#include <rte_cycles.h>

/* Virtual time runs so many times as fast as a context of weight 1 uses cycles. */
#define SCALE ((uint64_t)SP_MAX_WEIGHT)
/* In quanta: 500 us, a call that takes longer may have been interrupted; and 100 ms, the most that one call is charged
 * with: that a machine stood still is no context's fault. */
#define STALL 25
#define DEBT  5000

static inline uint32_t weight(const struct sp_entity *e)
{
	return sp_entity_view(e)->context->weight;
}

static inline uint64_t by_weight(const struct sp_entity *e, uint64_t cycles)
{
	return cycles * SCALE / weight(e);
}

/* Virtual time may wrap around after years. */
static inline int64_t ahead(uint64_t vtime, const struct sp_scheduler *s)
{
	return (int64_t)(vtime - s->vtime);
}

int sp_scheduler_create(struct sp_nic *nic)
{
	for (uint16_t i = 0; i < nic->workers; i++) {
		struct sp_scheduler *s;

		if (nic->worker[i]->scheduler)
			continue;
		s = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		s->quantum = SP_QUANTUM / SP_US * rte_get_tsc_hz() / 1000000;
		sp_pool_init(&s->places, s->place, SP_BACKLOG);
		nic->worker[i]->scheduler = s;
	}
	return 0;
}

void sp_scheduler_destroy(struct sp_nic *nic)
{
	for (uint16_t i = 0; i < nic->workers && nic->worker[i]; i++) {
		free(nic->worker[i]->scheduler);
		nic->worker[i]->scheduler = NULL;
	}
}

/* ---- how much each context has used ---- */

/* A shortage begins, or goes on. */
static void shortage(struct sp_worker *w)
{
	struct sp_scheduler *s = w->scheduler;

	if (w->polls >= s->until)
		s->period++;
	s->until = w->polls + SP_SHORT_FOR;
}

/* Whether the kernel may have run another thread during a call that took long. Asked after long calls only: it is a
 * system call. */
static bool taken_away(const struct sp_worker *w)
{
	struct rusage now;
	uint64_t before;

	if (w->cycles || getrusage(RUSAGE_THREAD, &now))
		return false;
	before = w->scheduler->switches;
	w->scheduler->switches = (uint64_t)now.ru_nivcsw;
	return w->scheduler->switches != before;
}

/* Brings the entity's vtime up to date. A context that has used little does not save that up: its vtime is never
 * behind the scheduler's. */
static void charge(struct sp_worker *w, struct sp_entity *e)
{
	struct sp_scheduler *s = w->scheduler;
	uint64_t cycles = e->cycles - e->charged;

	e->charged = e->cycles;
	if (unlikely(cycles > s->quantum * STALL) && taken_away(w)) {
		cycles = s->quantum;
		e->cost = e->was_cost ? RTE_MIN(e->cost, e->was_cost) : e->cost;
	}
	e->was_cost = e->cost;
	if (e->period == s->period) /* else nobody was short of these cycles */
		e->vtime += by_weight(e, RTE_MIN(cycles, s->quantum * DEBT));
	if (e->period != s->period || ahead(e->vtime, s) < 0)
		e->vtime = s->vtime;
	e->period = s->period;
	if (e->backlog.count)
		s->wait[e->place].vtime = e->vtime;
}

bool sp_scheduler_in_debt(struct sp_worker *w, struct sp_entity *e)
{
	struct sp_scheduler *s = w->scheduler;

	charge(w, e);
	return s->waiting > (e->backlog.count != 0) && ahead(e->vtime, s) > (int64_t)by_weight(e, s->quantum);
}

bool sp_scheduler_before(struct sp_worker *w, struct sp_view *v, struct sp_view *other)
{
	if (!w->scheduler)
		return false;
	shortage(w);
	charge(w, v->entity);
	charge(w, other->entity);
	return (int64_t)(v->entity->vtime - other->entity->vtime) < 0;
}

/* Virtual time is that of the contexts that are served; while packets wait, sp_scheduler_next() sets it. */
void sp_scheduler_chosen(struct sp_worker *w, struct sp_view *v)
{
	struct sp_scheduler *s = w->scheduler;
	const struct sp_entity *e = v->entity;

	if (s && !s->waiting && e->period == s->period && ahead(e->vtime, s) > 0)
		s->vtime = e->vtime;
}

/* ---- the backlog ---- */

static void enlist(struct sp_scheduler *s, struct sp_entity *e)
{
	e->place = (uint16_t)s->waiting;
	s->wait[s->waiting++] = (struct sp_scheduler_waiting){.vtime = e->vtime, .entity = e};
}

static void delist(struct sp_scheduler *s, const struct sp_entity *e)
{
	const struct sp_scheduler_waiting last = s->wait[--s->waiting];

	s->wait[e->place] = last;
	last.entity->place = e->place;
}

/* A context may have as much of the backlog as is still free: so there is always something left for the next one
 * (Choudhury, Hahne: dynamic queue length thresholds, ToN 1998). */
static void push(struct sp_worker *w, struct sp_entity *e, struct sp_packet *p)
{
	struct sp_scheduler *s = w->scheduler;
	struct sp_waiting *place;

	if (e->backlog.count >= RTE_MIN((unsigned)SP_BACKLOG_CONTEXT, SP_BACKLOG - s->packets)) {
		struct sp_view *v = sp_entity_view(e);

		v->dropped++;
		v->backlog_full++;
		sp_packet_drop(w, p, SP_DROP_BACKLOG_FULL);
		return;
	}
	place = sp_pool_take(&s->places);
	place->packet = *p;
	place->entity = e;
	place->record = unlikely(w->tap != NULL) ? w->tap->park(w, p) : NULL;
	p->buf = NULL;
	sp_queue_append(&e->backlog, place);
	s->packets++;
	if (e->backlog.count == 1)
		enlist(s, e);
}

static void pop(struct sp_scheduler *s, struct sp_entity *e, struct sp_waiting *waiting)
{
	struct sp_waiting *place = sp_queue_take(&e->backlog);

	*waiting = *place;
	sp_pool_give(&s->places, place);
	s->packets--;
	if (!e->backlog.count)
		delist(s, e);
}

/* Which contexts of w->active need not wait: those that have nothing in the backlog, have not used too much, and whose
 * packets fit into what is left of the quantum; first those whose packets fit into their part of it. */
static void choose(struct sp_worker *w, bool *now)
{
	struct sp_scheduler *s = w->scheduler;
	uint64_t weights = 0, dearest = 0, part, cost;

	for (unsigned i = 0; i < s->waiting; i++) {
		const struct sp_entity *e = s->wait[i].entity;

		weights += weight(e);
		dearest = RTE_MAX(dearest, by_weight(e, e->cost));
	}
	for (unsigned i = 0; i < w->actives; i++)
		weights += w->active[i]->backlog.count ? 0 : weight(w->active[i]);
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < w->actives; i++) {
			const struct sp_entity *e = w->active[i];

			part = pass ? s->left : s->quantum * weight(e) / weights;
			cost = sp_scheduler_cost(s, e) * e->batched;
			/* A context in the backlog gets ahead by one call, too: hence dearest. */
			if (now[i] || e->backlog.count || cost > RTE_MIN(part, s->left) ||
			    ahead(e->vtime, s) > (int64_t)(by_weight(e, s->quantum) + dearest))
				continue;
			now[i] = true;
			s->left -= cost;
		}
}

void sp_scheduler_defer(struct sp_worker *w)
{
	struct sp_scheduler *s = w->scheduler;
	bool now[SP_BURST + SP_PARKED] = {false};
	unsigned held = 0;

	if (!s->waiting && w->now >= s->several)
		return;
	shortage(w);
	for (unsigned i = 0; i < w->actives; i++)
		charge(w, w->active[i]);
	choose(w, now);
	for (unsigned i = 0; i < w->actives; i++) {
		struct sp_entity *e = w->active[i];

		if (now[i]) {
			w->active[held++] = e;
			continue;
		}
		for (unsigned k = 0; k < e->batched; k++)
			push(w, e, e->batch[k]);
		e->batched = 0;
	}
	w->actives = held;
}

/* The context with the least vtime; of several the one whose packets cost least. */
static struct sp_entity *least(const struct sp_scheduler *s)
{
	const struct sp_scheduler_waiting *first = &s->wait[0];

	for (unsigned i = 1; i < s->waiting; i++) {
		const int64_t more = (int64_t)(s->wait[i].vtime - first->vtime);

		if (more < 0 ||
		    (!more && sp_scheduler_cost(s, s->wait[i].entity) < sp_scheduler_cost(s, first->entity)))
			first = &s->wait[i];
	}
	return first->entity;
}

void sp_scheduler_serve(struct sp_worker *w)
{
	struct sp_scheduler *s = w->scheduler;

	shortage(w);
	s->serving = true;
	s->served.left = s->quantum;
}

/* At least one packet, and no more than are expected to take the cycles that are left. Where several contexts wait they
 * take turns within the poll, half a quantum at a time. */
unsigned sp_scheduler_next(struct sp_worker *w, struct sp_waiting packet[SP_BURST])
{
	struct sp_scheduler *s = w->scheduler;
	struct sp_entity *e;
	unsigned there, n;
	uint64_t most;

	if (!s->waiting || !s->served.left) {
		s->serving = false;
		return 0;
	}
	e = least(s);
	most = (s->waiting > 1 ? RTE_MIN(s->served.left, s->quantum / 2) : s->served.left) / sp_scheduler_cost(s, e);
	there = RTE_MIN(e->backlog.count, (unsigned)SP_BURST);
	n = most >= there ? there : RTE_MAX((unsigned)most, 1u);
	s->served.entity = e;
	s->served.before = e->cycles;
	if (ahead(e->vtime, s) > 0)
		s->vtime = e->vtime;
	for (unsigned i = 0; i < n; i++)
		pop(s, e, &packet[i]);
	return n;
}

void sp_scheduler_served(struct sp_worker *w)
{
	struct sp_scheduler *s = w->scheduler;
	struct sp_entity *e = s->served.entity;
	uint64_t cycles = RTE_MAX(e->cycles - s->served.before, s->quantum / SP_BACKLOG);

	charge(w, e);
	s->served.left -= RTE_MIN(cycles, s->served.left);
}

void sp_scheduler_purge(struct sp_worker *w, struct sp_entity *e)
{
	struct sp_scheduler *s = w->scheduler;
	struct sp_waiting waiting;

	if (!s)
		return;
	if (s->sole == e)
		s->sole = NULL;
	while (e->backlog.count) {
		pop(s, e, &waiting);
		sp_waiting_drop(w, &waiting);
	}
}

void sp_scheduler_each(struct sp_worker *w, void (*fn)(struct sp_waiting *, void *), void *arg)
{
	struct sp_scheduler *s = w->scheduler;
	struct sp_waiting *waiting;

	for (unsigned i = 0; s && i < s->waiting; i++)
		STAILQ_FOREACH (waiting, &s->wait[i].entity->backlog.list, next)
			fn(waiting, arg);
}
