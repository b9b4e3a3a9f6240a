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

static inline uint64_t scaled(uint64_t cycles, uint32_t by)
{
	return cycles * SCALE / by;
}

static inline uint64_t by_weight(const struct sp_entity *e, uint64_t cycles)
{
	return scaled(cycles, weight(e));
}

/* Virtual time may wrap around after years. */
static inline int64_t ahead(uint64_t vtime, const struct sp_share *within)
{
	return (int64_t)(vtime - within->clock);
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
		s->looked = UINT64_MAX;
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

/* Who has used little does not save that up: no vtime is ever behind the clock. */
static void advance(const struct sp_scheduler *s, const struct sp_share *within, uint64_t more, uint64_t *vtime,
		    uint32_t *period)
{
	if (*period == s->period)
		*vtime += more;
	if (*period != s->period || ahead(*vtime, within) < 0)
		*vtime = within->clock;
	*period = s->period;
}

static void charge_shares(const struct sp_scheduler *s, struct sp_share *share, uint64_t cycles)
{
	for (; share->above; share = share->above)
		advance(s, share->above, scaled(cycles, share->weight), &share->vtime, &share->period);
}

/* Brings the vtimes of the entity and of its shares up to date. */
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
	/* What it used before this shortage nobody was short of. */
	cycles = e->period == s->period ? RTE_MIN(cycles, s->quantum * DEBT) : 0;
	charge_shares(s, e->share, cycles);
	advance(s, e->share, by_weight(e, cycles), &e->vtime, &e->period);
	if (e->backlog.count)
		s->wait[e->place].vtime = e->vtime;
}

void sp_scheduler_charge_share(struct sp_worker *w, struct sp_share *share, uint64_t cycles)
{
	if (!w->scheduler)
		return;
	shortage(w);
	charge_shares(w->scheduler, share, cycles);
}

/* Where others of the same kind wait, it has had more than its part and a quantum. */
static inline bool too_far(const struct sp_scheduler *s, bool others, uint64_t vtime, uint32_t of, uint64_t more,
			   const struct sp_share *within)
{
	return others && ahead(vtime, within) > (int64_t)(scaled(s->quantum, of) + more);
}

bool sp_scheduler_in_debt(struct sp_worker *w, struct sp_entity *e)
{
	struct sp_scheduler *s = w->scheduler;
	const struct sp_share *app = e->share, *user = app->above, *whole = user->above;

	charge(w, e);
	return too_far(s, whole->waiting > (user->waiting != 0), user->vtime, user->weight, 0, whole) ||
	       too_far(s, user->waiting > (app->waiting != 0), app->vtime, app->weight, 0, user) ||
	       too_far(s, app->waiting > (e->backlog.count != 0), e->vtime, weight(e), 0, app);
}

void sp_scheduler_update(struct sp_worker *w, struct sp_entity *e)
{
	if (!w->scheduler)
		return;
	shortage(w);
	charge(w, e);
}

/* Below 0: e's turn is first. Three levels: users, applications, contexts. */
static inline int64_t compare(uint64_t vtime, const struct sp_share *app, uint64_t other_vtime,
			      const struct sp_share *other)
{
	if (app == other)
		return (int64_t)(vtime - other_vtime);
	if (app->above == other->above)
		return (int64_t)(app->vtime - other->vtime);
	return (int64_t)(app->above->vtime - other->above->vtime);
}

bool sp_scheduler_before(const struct sp_entity *e, const struct sp_entity *other)
{
	return compare(e->vtime, e->share, other->vtime, other->share) < 0;
}

bool sp_scheduler_share_before(const struct sp_share *share, const struct sp_share *other)
{
	return share != other && compare(0, share, 0, other) < 0;
}

/* Virtual time is that of who is served. */
static void set_clocks(const struct sp_scheduler *s, const struct sp_entity *e)
{
	struct sp_share *share = e->share;

	if (e->period == s->period && ahead(e->vtime, share) > 0)
		share->clock = e->vtime;
	for (; share->above; share = share->above)
		if (share->period == s->period && ahead(share->vtime, share->above) > 0)
			share->above->clock = share->vtime;
}

/* While packets wait, sp_scheduler_next() sets them. */
void sp_scheduler_chosen(struct sp_worker *w, const struct sp_entity *e)
{
	if (w->scheduler && !w->scheduler->waiting)
		set_clocks(w->scheduler, e);
}

/* ---- the backlog ---- */

/* One that waits, or would, more in each share; for choose(). */
static void count_in(struct sp_entity *e)
{
	struct sp_share *share = e->share;
	uint32_t more = weight(e);

	for (; share; more = share->weight, share = share->above) {
		share->weights += more;
		if (share->waiting++)
			return;
	}
}

static void count_out(struct sp_entity *e)
{
	struct sp_share *share = e->share;
	uint32_t less = weight(e);

	for (; share; less = share->weight, share = share->above) {
		share->weights -= less;
		if (--share->waiting)
			return;
	}
}

static void enlist(struct sp_scheduler *s, struct sp_entity *e)
{
	e->place = (uint16_t)s->waiting;
	s->wait[s->waiting++] = (struct sp_scheduler_waiting){e->vtime, e->share, e};
	count_in(e);
}

static void delist(struct sp_scheduler *s, struct sp_entity *e)
{
	const struct sp_scheduler_waiting last = s->wait[--s->waiting];

	s->wait[e->place] = last;
	last.entity->place = e->place;
	count_out(e);
}

static void count_packets(struct sp_entity *e, int change)
{
	for (struct sp_share *share = e->share; share; share = share->above)
		share->packets += (unsigned)change;
}

/* A context may have as much of the backlog as is still free: so there is always something left for the next one
 * (Choudhury, Hahne: dynamic queue length thresholds, ToN 1998); a user twice as much, and some always stays for
 * others. The same holds for an application in its user's part. */
static unsigned room(const struct sp_scheduler *s, const struct sp_entity *e)
{
	const struct sp_share *app = e->share, *user = app->above;
	const unsigned free = SP_BACKLOG - s->packets;
	const unsigned users = RTE_MIN(2 * free, (unsigned)SP_BACKLOG_USER);
	unsigned most = RTE_MIN(free, (unsigned)SP_BACKLOG_CONTEXT);

	if (user->packets >= users || app->packets >= SP_BACKLOG_APP)
		return 0;
	most = RTE_MIN(most, users - user->packets);
	return RTE_MIN(most, SP_BACKLOG_APP - app->packets);
}

static void push(struct sp_worker *w, struct sp_entity *e, struct sp_packet *p)
{
	struct sp_scheduler *s = w->scheduler;
	struct sp_waiting *place;

	if (e->backlog.count >= room(s, e)) {
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
	count_packets(e, 1);
	if (e->backlog.count == 1)
		enlist(s, e);
}

static void pop(struct sp_scheduler *s, struct sp_entity *e, struct sp_waiting *waiting)
{
	struct sp_waiting *place = sp_queue_take(&e->backlog);

	*waiting = *place;
	sp_pool_give(&s->places, place);
	s->packets--;
	count_packets(e, -1);
	if (!e->backlog.count)
		delist(s, e);
}

/* How far one call of what waits gets each share ahead, once a poll. */
static void find_dearest(struct sp_worker *w)
{
	struct sp_scheduler *s = w->scheduler;

	if (s->looked == w->polls)
		return;
	s->looked = w->polls;
	for (unsigned i = 0; i < s->waiting; i++) {
		const struct sp_entity *e = s->wait[i].entity;
		uint32_t by = weight(e);

		for (struct sp_share *share = e->share; share; by = share->weight, share = share->above) {
			if (share->looked != w->polls)
				share->dearest = 0;
			share->looked = w->polls;
			share->dearest = RTE_MAX(share->dearest, scaled(e->cost, by));
		}
	}
}

static inline uint64_t dearest(const struct sp_scheduler *s, const struct sp_share *share)
{
	return share->looked == s->looked ? share->dearest : 0;
}

/* Its context, its application or its user has had more than its part. A context in the backlog gets ahead by one call,
 * too: hence dearest. */
static bool is_over(const struct sp_scheduler *s, const struct sp_entity *e)
{
	const struct sp_share *app = e->share, *user = app->above, *whole = user->above;

	return too_far(s, true, e->vtime, weight(e), dearest(s, app), app) ||
	       too_far(s, user->waiting > 1, app->vtime, app->weight, dearest(s, user), user) ||
	       too_far(s, whole->waiting > 1, user->vtime, user->weight, dearest(s, whole), whole);
}

static uint64_t part_of(const struct sp_scheduler *s, const struct sp_entity *e)
{
	const struct sp_share *app = e->share, *user = app->above;
	uint64_t part = s->quantum * user->weight / user->above->weights;

	part = part * app->weight / user->weights;
	return part * weight(e) / app->weights;
}

/* Which contexts of w->active need not wait: those that have nothing in the backlog, have not used too much, and whose
 * packets fit into what is left of the quantum; first those whose packets fit into their part of it. */
static void choose(struct sp_worker *w, bool *now)
{
	struct sp_scheduler *s = w->scheduler;
	uint64_t part, cost;

	find_dearest(w);
	for (unsigned i = 0; i < w->actives; i++)
		if (!w->active[i]->backlog.count)
			count_in(w->active[i]);
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < w->actives; i++) {
			const struct sp_entity *e = w->active[i];

			if (now[i] || e->backlog.count || is_over(s, e))
				continue;
			part = pass ? s->left : part_of(s, e);
			cost = sp_scheduler_cost(s, e) * e->batched;
			if (cost > RTE_MIN(part, s->left))
				continue;
			now[i] = true;
			s->left -= cost;
		}
	for (unsigned i = 0; i < w->actives; i++)
		if (!w->active[i]->backlog.count)
			count_out(w->active[i]);
}

#define LOOK 4 /* contexts of one entity that are looked at: versions of a handler; more are several entities' */

/* Others than the one that has packets want to send or to compute. */
static bool others_want(const struct sp_worker *w)
{
	const struct sp_entity *one = w->active[0];
	const struct sp_view *v;
	unsigned n = 0;

	TAILQ_FOREACH (v, &w->issuing, issuing)
		if (v->entity != one || ++n > LOOK)
			return true;
	TAILQ_FOREACH (v, &w->working, working)
		if (v->entity != one || ++n > LOOK)
			return true;
	return false;
}

void sp_scheduler_defer(struct sp_worker *w)
{
	struct sp_scheduler *s = w->scheduler;
	bool now[SP_BURST + SP_PARKED] = {false};
	unsigned held = 0;

	if (!w->actives || (!s->waiting && w->now >= s->several && !others_want(w)))
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

/* Of those within `share` (a user's, an application's, the whole), the one whose turn is first; of several the one
 * whose packets cost least. With more than one level that is one of the right user, or application, and not always the
 * first of these: costs may decide between users, and not between contexts of one. */
static const struct sp_scheduler_waiting *first_within(const struct sp_scheduler *s, const struct sp_share *share)
{
	const struct sp_scheduler_waiting *first = NULL;

	for (unsigned i = 0; i < s->waiting; i++) {
		const struct sp_scheduler_waiting *w = &s->wait[i];
		int64_t more;

		if (w->share != share && w->share->above != share && w->share->above->above != share)
			continue;
		more = first ? compare(w->vtime, w->share, first->vtime, first->share) : -1;
		if (more < 0 || (!more && sp_scheduler_cost(s, w->entity) < sp_scheduler_cost(s, first->entity)))
			first = w;
	}
	return first;
}

/* The context whose turn is first. */
static struct sp_entity *least(const struct sp_scheduler *s)
{
	const struct sp_share *app = s->wait[0].share, *user = app->above, *whole = user->above;

	if (whole->waiting > 1)
		user = first_within(s, whole)->share->above;
	if (user->waiting > 1 || whole->waiting > 1)
		app = first_within(s, user)->share;
	return first_within(s, app)->entity;
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
	set_clocks(s, e);
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
