/* SPDX-License-Identifier: BSD-3-Clause */
#include "share.h"
#include "dispatch.h"
#include "onlooker.h"
#include "turn.h"

#include <stdlib.h>
#include <sys/resource.h>

#include <rte_cycles.h>

/* Virtual time runs so many times as fast as a context of weight 1 spends cycles. */
#define SCALE ((uint64_t)SP_MAX_WEIGHT)
/* Quanta: 500 us, what takes longer may have been interrupted; and 100 ms, what one call is charged at the most: a
 * machine that stood still is not its fault. */
#define STALL 25
#define DEBT  5000

static inline uint64_t by_weight(const struct sp_view *v, uint64_t cycles)
{
	return cycles * SCALE / v->context->weight;
}

/* It may go round after years. */
static inline int64_t ahead(uint64_t time, const struct sp_share *s)
{
	return (int64_t)(time - s->time);
}

int sp_share_create(struct sp_nic *nic)
{
	for (uint16_t i = 0; i < nic->workers; i++) {
		struct sp_share *s;

		if (nic->worker[i]->share)
			continue;
		s = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		s->quantum = SP_QUANTUM / SP_US * rte_get_tsc_hz() / 1000000;
		for (uint16_t k = 0; k < SP_BACKLOG; k++)
			s->slot[k].next = k + 2 <= SP_BACKLOG ? (uint16_t)(k + 2) : 0;
		s->free = 1;
		nic->worker[i]->share = s;
	}
	return 0;
}

void sp_share_destroy(struct sp_nic *nic)
{
	for (uint16_t i = 0; i < nic->workers && nic->worker[i]; i++) {
		free(nic->worker[i]->share);
		nic->worker[i]->share = NULL;
	}
}

/* ---- who has had how much ---- */

/* A shortage begins, or goes on. */
static void begin(struct sp_worker *w)
{
	struct sp_share *s = w->share;

	if (w->polls >= s->until)
		s->period++;
	s->until = w->polls + SP_SHORT_FOR;
}

/* A companion's calls of its own are its first context's, too. */
static uint64_t measured(const struct sp_view *v)
{
	const struct sp_context *beside = v->context->companion;

	return v->meter.cycles + (beside ? beside->view[v->pub.worker]->meter.cycles : 0);
}

/* Whether what took so long may have been another program's time. Asked after long calls only. */
static bool taken_away(const struct sp_worker *w)
{
	struct rusage now;
	uint64_t before;

	if (w->cycles || getrusage(RUSAGE_THREAD, &now))
		return false;
	before = w->share->switches;
	w->share->switches = (uint64_t)now.ru_nivcsw;
	return w->share->switches != before;
}

/* What it has been measured to have had since the last time. Nobody saves up: who wants little now does not get more
 * than its part for it later. */
static void charge(struct sp_share *s, struct sp_view *v)
{
	struct sp_portion *p = &v->portion;
	const uint64_t all = measured(v);
	uint64_t cycles = all - p->seen;

	p->seen = all;
	if (unlikely(cycles > s->quantum * STALL) && taken_away(v->owner)) {
		cycles = s->quantum;
		p->cost = p->known ? RTE_MIN(p->cost, p->known) : p->cost;
	}
	p->known = p->cost;
	if (p->period == s->period) /* else that was nobody's loss */
		p->had += by_weight(v, RTE_MIN(cycles, s->quantum * DEBT));
	if (p->period != s->period || ahead(p->had, s) < 0)
		p->had = s->time;
	p->period = s->period;
	if (p->packets)
		s->wait[p->place].had = p->had;
}

/* What a companion has belongs to the context's portion. */
static struct sp_view *whole(struct sp_view *v)
{
	return v->context->first ? v->context->first->view[v->pub.worker] : v;
}

bool sp_share_in_debt(struct sp_worker *w, struct sp_view *v)
{
	struct sp_share *s = w->share;

	v = whole(v);
	charge(s, v);
	return s->waiting > (v->portion.packets != 0) && ahead(v->portion.had, s) > (int64_t)by_weight(v, s->quantum);
}

bool sp_share_before(struct sp_worker *w, struct sp_view *v, struct sp_view *other)
{
	struct sp_share *s = w->share;

	if (!s)
		return false;
	v = whole(v);
	other = whole(other);
	begin(w);
	charge(s, v);
	charge(s, other);
	return (int64_t)(v->portion.had - other->portion.had) < 0;
}

/* Virtual time is where those are that are served; of those whose packets wait, see serve(). */
void sp_share_chosen(struct sp_worker *w, struct sp_view *v)
{
	struct sp_share *s = w->share;

	v = whole(v);
	if (s && !s->waiting && v->portion.period == s->period && ahead(v->portion.had, s) > 0)
		s->time = v->portion.had;
}

/* ---- the backlog ---- */

static void enlist(struct sp_share *s, struct sp_view *v)
{
	v->portion.place = (uint16_t)s->waiting;
	s->wait[s->waiting++] = (struct sp_share_waiting){.had = v->portion.had, .view = v};
}

static void delist(struct sp_share *s, const struct sp_view *v)
{
	const struct sp_share_waiting last = s->wait[--s->waiting];

	s->wait[v->portion.place] = last;
	last.view->portion.place = v->portion.place;
}

/* A context may have as much as is still free: so there is always something left for the next one (Choudhury, Hahne:
 * dynamic queue length thresholds, ToN 1998). */
static void push(struct sp_worker *w, struct sp_view *v, struct sp_packet *p)
{
	struct sp_share *s = w->share;
	struct sp_portion *o = &v->portion;
	const uint16_t at = s->free;
	struct sp_share_slot *slot;

	if (o->packets >= RTE_MIN((unsigned)SP_BACKLOG_CONTEXT, SP_BACKLOG - s->packets)) {
		v->dropped++;
		v->backlog_full++;
		sp_turn_drop(w, p, SP_DROP_BACKLOG_FULL);
		return;
	}
	slot = &s->slot[at - 1];
	s->free = slot->next;
	slot->next = 0;
	slot->parked.packet = *p;
	slot->parked.record = unlikely(w->observed) ? sp_onlook_park(w, p) : NULL;
	p->buf = NULL;
	if (o->packets++)
		s->slot[o->last - 1].next = at;
	else
		o->first = at;
	o->last = at;
	s->packets++;
	if (o->packets == 1)
		enlist(s, v);
}

static void pop(struct sp_share *s, struct sp_view *v, struct sp_parked *parked)
{
	struct sp_portion *o = &v->portion;
	const uint16_t at = o->first;
	struct sp_share_slot *slot = &s->slot[at - 1];

	*parked = slot->parked;
	parked->view = v;
	o->first = slot->next;
	slot->next = s->free;
	s->free = at;
	s->packets--;
	if (!--o->packets)
		delist(s, v);
}

/* The packets of a copy come before those of the one that has taken over from it. */
static void inherit(struct sp_share *s, struct sp_view *to, struct sp_view *from)
{
	struct sp_portion *t = &to->portion, *f = &from->portion;

	if (!f->packets)
		return;
	delist(s, from);
	if ((int64_t)(f->had - t->had) > 0)
		t->had = f->had;
	if (t->packets)
		s->slot[f->last - 1].next = t->first;
	else
		t->last = f->last;
	t->first = f->first;
	t->packets = (uint16_t)(t->packets + f->packets);
	if (t->packets == f->packets)
		enlist(s, to);
	s->wait[t->place].had = t->had;
	f->packets = 0;
}

static struct sp_context *load(struct sp_context *const *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* The newest copy's. Only what is pushed there stays in order: whatever waits for an older one has come before. */
static struct sp_view *heir(const struct sp_worker *w, struct sp_view *v)
{
	return sp_context_newest(v->context)->view[w->index];
}

/* What waits for older copies of the context's handler waits for this one, the newest, which asks them. */
static void gather(struct sp_worker *w, struct sp_view *v)
{
	for (struct sp_context *c = load(&v->context->older); c; c = load(&c->older))
		inherit(w->share, v, c->view[w->index]);
}

/* Of those in w->active, who need not wait: who has nothing waiting, has not had too much, and whose packets are within
 * what is left of the quantum; first those whose packets are within their part of it. */
static void choose(struct sp_worker *w, bool *now)
{
	struct sp_share *s = w->share;
	uint64_t weights = 0, dearest = 0, part, cost;

	for (unsigned i = 0; i < s->waiting; i++) {
		const struct sp_view *v = s->wait[i].view;

		weights += v->context->weight;
		dearest = RTE_MAX(dearest, by_weight(v, v->portion.cost));
	}
	for (unsigned i = 0; i < w->actives; i++)
		weights += w->active[i]->portion.packets ? 0 : w->active[i]->context->weight;
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < w->actives; i++) {
			const struct sp_view *v = w->active[i];

			part = pass ? s->left : s->quantum * v->context->weight / weights;
			cost = sp_share_cost(s, v) * v->batched;
			/* Whoever waits gets ahead by a call, too. And for a copy that has been replaced in the
			 * midst of the burst others may wait that came before. */
			if (now[i] || unlikely(load(&v->context->newer) != NULL) || v->portion.packets ||
			    cost > RTE_MIN(part, s->left) ||
			    ahead(v->portion.had, s) > (int64_t)(by_weight(v, s->quantum) + dearest))
				continue;
			now[i] = true;
			s->left -= cost;
		}
}

void sp_share_defer(struct sp_worker *w)
{
	struct sp_share *s = w->share;
	bool now[SP_BURST + SP_PARKED] = {false};
	unsigned kept = 0;

	if (!s->waiting && w->now >= s->several)
		return;
	begin(w);
	for (unsigned i = 0; i < w->actives; i++) {
		struct sp_view *v = heir(w, w->active[i]);

		charge(s, w->active[i]);
		if (unlikely(v != w->active[i]))
			charge(s, v);
		if (unlikely(load(&v->context->older) != NULL))
			gather(w, v);
	}
	choose(w, now);
	for (unsigned i = 0; i < w->actives; i++) {
		struct sp_view *v = w->active[i], *to = heir(w, v);

		if (now[i]) {
			w->active[kept++] = v;
			continue;
		}
		for (unsigned k = 0; k < v->batched; k++)
			push(w, to, v->batch[k]);
		v->batched = 0;
	}
	w->actives = kept;
}

/* Who has had least by its weight; of several the one whose packets cost least. */
static struct sp_view *next(const struct sp_share *s)
{
	const struct sp_share_waiting *least = &s->wait[0];

	for (unsigned i = 1; i < s->waiting; i++) {
		const int64_t more = (int64_t)(s->wait[i].had - least->had);

		if (more < 0 || (!more && sp_share_cost(s, s->wait[i].view) < sp_share_cost(s, least->view)))
			least = &s->wait[i];
	}
	return least->view;
}

/* Packets of one context: one at least, and no more than are going to take so many cycles. Returns how many. */
static unsigned serve(struct sp_worker *w, struct sp_view *v, uint64_t cycles)
{
	struct sp_share *s = w->share;
	struct sp_portion *o = &v->portion;
	struct sp_parked again[SP_BURST];
	const uint64_t most = cycles / sp_share_cost(s, v);
	const unsigned there = RTE_MIN((unsigned)o->packets, (unsigned)SP_BURST);
	const unsigned n = most >= there ? there : RTE_MAX((unsigned)most, 1u);

	if (ahead(o->had, s) > 0)
		s->time = o->had;
	for (unsigned i = 0; i < n; i++)
		pop(s, v, &again[i]);
	sp_dispatch_again(w, again, n);
	charge(s, v);
	return n;
}

unsigned sp_share_run(struct sp_worker *w)
{
	struct sp_share *s = w->share;
	uint64_t left = s->quantum;
	unsigned n = 0;

	begin(w);
	s->serving = true;
	while (s->waiting) {
		struct sp_view *v = next(s), *to = heir(w, v);
		uint64_t before, cycles;

		if (unlikely(load(&to->context->older) != NULL)) {
			charge(s, to);
			gather(w, to);
			v = to;
		}
		before = measured(v);
		/* Where others wait, half a quantum at a time: they take turns within the poll. */
		n += serve(w, v, s->waiting > 1 ? RTE_MIN(left, s->quantum / 2) : left);
		cycles = RTE_MAX(measured(v) - before, s->quantum / SP_BACKLOG);
		if (cycles >= left)
			break;
		left -= cycles;
	}
	s->serving = false;
	return n;
}

void sp_share_forget(struct sp_worker *w, const struct sp_context *c)
{
	struct sp_view *v = c->view[w->index];
	struct sp_share *s = w->share;

	if (!s)
		return;
	if (s->sole == v)
		s->sole = NULL;
	while (v && v->portion.packets) {
		struct sp_parked parked;

		pop(s, v, &parked);
		sp_dispatch_close(w, &parked);
	}
}

void sp_share_give(struct sp_worker *w, const struct sp_context *from, const struct sp_context *to)
{
	struct sp_view *f = from->view[w->index], *t = to->view[w->index];

	if (!w->share || !f->portion.packets)
		return;
	charge(w->share, t);
	inherit(w->share, t, f);
}

void sp_share_each(struct sp_worker *w, void (*fn)(struct sp_parked *, void *), void *arg)
{
	struct sp_share *s = w->share;

	for (unsigned i = 0; s && i < s->waiting; i++)
		for (uint16_t at = s->wait[i].view->portion.first; at; at = s->slot[at - 1].next)
			fn(&s->slot[at - 1].parked, arg);
}
