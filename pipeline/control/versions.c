/* SPDX-License-Identifier: BSD-3-Clause */
#include "../rx/rule.h"
#include "versions.h"
#include "version_make.h"
#include "../engine.h"
#include "../entity.h"
#include "../context.h"
#include "../observe/gone.h"
#include "../tx/zero_copy.h"
#include "../rx/match.h"
#include "../exec/message_table.h"
#include "../worker.h"
#include "../worker_call.h"

#include <stdio.h>

#include <rte_rcu_qsbr.h>

unsigned sp_versions_count(const struct sp_context *c)
{
	unsigned n = 1;

	while ((c = c->older))
		n++;
	return n;
}

/* ---- counts ---- */

/* stray: drops by reasons that the newer version does not declare. */
struct move {
	struct sp_context *from, *to;
	uint64_t stray[SP_MAX_DROPS];
};

static void move(uint64_t *to, uint64_t *from)
{
	*to += *from;
	*from = 0;
}

static void move_named(uint64_t *to, const char *const *to_name, unsigned to_names, uint64_t *from,
		       const char *const *from_name, unsigned from_names, uint64_t *stray)
{
	for (unsigned i = 0; i < from_names; i++) {
		unsigned k = 0;

		while (k < to_names && strcmp(to_name[k], from_name[i]))
			k++;
		if (k < to_names)
			move(&to[k], &from[i]);
		else if (stray)
			move(&stray[i], &from[i]);
	}
}

static void move_meter(struct sp_view *to, struct sp_view *from)
{
	struct sp_meter *m = &from->meter, counts = *m;

	if (!m->runs)
		return;
	counts.debt = counts.until = counts.pause = 0; /* the penalty for overruns stays with the version */
	sp_meter_add(&to->meter, &counts);
	*m = (struct sp_meter){.debt = m->debt, .until = m->until, .pause = m->pause};
}

static void move_counts(struct sp_view *to, struct sp_view *from, uint64_t stray[SP_MAX_DROPS])
{
	const struct sp_context *t = to->context, *f = from->context;

	from->handed += from->packets - from->taken_over;
	to->taken_over += from->packets;
	from->taken_over = 0;
	move(&to->packets, &from->packets);
	move(&to->bytes, &from->bytes);
	move(&to->forwarded, &from->forwarded);
	move(&to->dma_faults, &from->dma_faults);
	move(&to->dma_traced, &from->dma_traced);
	move(&to->events_lost, &from->events_lost);
	move(&to->sent, &from->sent);
	move(&to->sent_bytes, &from->sent_bytes);
	move(&to->errors, &from->errors);
	move(&to->ended, &from->ended);
	move(&to->answered, &from->answered);
	move(&to->over_budget, &from->over_budget);
	move(&to->backlog_full, &from->backlog_full);
	move(&to->over_limit, &from->over_limit);
	move(&to->disabled, &from->disabled);
	move(&to->held_refused, &from->held_refused);
	move(&to->dropped, &from->dropped);
	move_meter(to, from);
	if (from->last_error.what && from->last_error.at >= to->last_error.at)
		to->last_error = from->last_error;
	from->last_error = (struct sp_last_error){.what = SP_LAST_ERROR_NOTHING};
	move_named(to->drops, t->registered->drops, t->reasons, from->drops, f->registered->drops, f->reasons, stray);
	move_named(to->counters, t->registered->counters, t->counters, from->counters, f->registered->counters,
		   f->counters, NULL);
}

/* The NIC keeps the drops whose reasons the newer version does not declare, so that its sums stay right. */
static void remember(struct sp_nic *nic, const struct move *m)
{
	for (unsigned i = 0; i < m->from->reasons; i++)
		if (m->stray[i])
			sp_stats_remember_drops(nic, m->from->registered->drops[i], m->stray[i]);
}

/* ---- taking over ---- */

/* On the home worker, the only writer of pace and paths. */
static void take_over(struct sp_worker *w, void *arg)
{
	struct sp_context *c = arg, *old = c->older;
	struct sp_nic *nic = w->nic;

	if (old->peer_set && !c->peer_set) {
		memcpy(c->peer, old->peer, sizeof(c->peer));
		c->peer_self = old->peer_self;
		c->peer_set = true;
	}
	for (uint16_t i = 0; i < nic->workers; i++) {
		c->view[i]->tx_next = RTE_MAX(c->view[i]->tx_next, old->view[i]->tx_next);
		c->view[i]->tx_rest = old->view[i]->tx_rest;
	}
	c->qp_first = old->qp_first;
	c->qp_count = old->qp_count;
	c->qp_control = old->qp_control;
	c->area = old->area;
	c->rule = old->rule;
	old->rule = NULL;
	c->charged_qps += old->charged_qps;
	c->charged_messages += old->charged_messages;
	old->charged_qps = old->charged_messages = 0;
	c->inherited = false;
	old->inherited = true;
	old->replaced = w->now;
	/* From here on the new version runs: workers read this pointer once for a context's packets of a burst. */
	for (uint16_t i = 0; i < nic->workers; i++)
		__atomic_store_n(&c->entity[i]->view, c->view[i], __ATOMIC_RELEASE);
	/* From here on lookups find it: through the old version, by id, QPs and filter, in any order. */
	__atomic_store_n(&old->newer, c, __ATOMIC_RELEASE);
	__atomic_store_n(&nic->context[c->id & 0xFFFF], c, __ATOMIC_RELEASE);
	sp_qp_table_give(nic->qps, old, c);
	if (c->rule)
		sp_rule_give(c->rule, c);
}

void sp_version_publish(struct sp_context *c)
{
	struct sp_nic *nic = c->nic;

	sp_worker_call(nic->worker[c->home], take_over, c);
	sp_messages_close(c->older);
	c->older->since = rte_rcu_qsbr_start(nic->readers);
	atomic_fetch_add(&nic->draining, 1);
}

/* ---- what it holds ---- */

static unsigned parked(const struct sp_worker *w, const struct sp_entity *e)
{
	const struct sp_waiting *waiting;
	unsigned n = 0;

	STAILQ_FOREACH (waiting, &w->parked.list, next)
		n += waiting->entity == e;
	return n;
}

struct look {
	struct move move;
	struct sp_version_holds *holds;
};

static void look(struct sp_worker *w, void *arg)
{
	struct look *l = arg;
	struct sp_context *c = l->move.from;
	struct sp_view *v = c->view[w->index];
	struct sp_version_holds *h = l->holds;

	if (l->move.to)
		move_counts(l->move.to->view[w->index], v, l->move.stray);
	h->packets += v->packets - v->taken_over + v->handed;
	h->timers += v->timers;
	for (const struct sp_work *work = v->work_head; work; work = work->next)
		h->works++;
	if (!c->newer) /* the current version will run these packets */
		h->waiting += v->entity->backlog.count + parked(w, v->entity);
	h->held += v->held;
	h->lent += v->zc_queue->lent - __atomic_load_n(&v->zc_queue->back, __ATOMIC_ACQUIRE);
	for (const struct sp_issue *i = v->issues; i; i = i->next == v->issues ? NULL : i->next)
		h->issues++;
	h->issues += __atomic_load_n(&v->issue_elsewhere, __ATOMIC_ACQUIRE) != NULL;
	if (c->home == w->index)
		h->now = w->now;
}

int sp_version_look(struct sp_context *c, struct sp_version_holds *holds)
{
	struct sp_context *newest = sp_context_newest(c);
	struct look l = {.move = {.from = c, .to = newest == c ? NULL : newest}, .holds = holds};
	int r = 0;

	*holds = (struct sp_version_holds){.packets = 0};
	for (uint16_t w = 0; w < c->nic->workers; w++)
		if (sp_worker_look(c->nic->worker[w], look, &l))
			r = -ETIMEDOUT;
	holds->messages = sp_messages_open(c);
	remember(c->nic, &l.move);
	return r;
}

const char *sp_version_says(const struct sp_version_holds *h, char *text, size_t room)
{
	const struct {
		uint64_t n;
		const char *what, *is;
	} one[] = {{h->messages, "message", " open"},  {h->timers, "timer", " armed"},
		   {h->issues, "issue", " under way"}, {h->works, "piece", " of work queued"},
		   {h->waiting, "packet", " waiting"}, {h->held > 0 ? (uint64_t)h->held : 0, "packet", " kept"},
		   {h->lent, "packet", " with a port"}};
	size_t at = 0;

	snprintf(text, room, "nothing");
	for (unsigned i = 0; i < RTE_DIM(one); i++)
		if (one[i].n && at < room)
			at += (size_t)snprintf(text + at, room - at, "%s%" PRIu64 " %s%s%s", at ? ", " : "", one[i].n,
					       one[i].what, one[i].n == 1 ? "" : "s", one[i].is);
	return text;
}

/* ---- going ---- */

/* Held packets that a newer version took over in migrate() are counted there on release: they do not keep the older
 * version alive. */
static bool is_drained(const struct sp_context *c, const struct sp_version_holds *h)
{
	return !h->messages && !h->timers && !h->issues && !h->works && !h->lent &&
	       (h->held <= 0 || sp_context_newest((struct sp_context *)(uintptr_t)c)->registered->migrate);
}

/* The same while all workers stand still: a version may have gained something after its worker was asked. */
static bool is_idle(struct sp_context *c)
{
	struct sp_version_holds h = {
		.messages = sp_messages_open(c),
	};

	for (uint16_t w = 0; w < c->nic->workers; w++) {
		const struct sp_view *v = c->view[w];

		h.issues += v->issues || v->issue_elsewhere;
		h.timers += v->timers;
		h.works += v->work_head != NULL;
		h.held += v->held;
	}
	return is_drained(c, &h);
}

/* Call it while workers stand still, or when they have nothing of the context left. */
static void end(struct sp_context *c)
{
	struct sp_context *newest = sp_context_newest(c);
	struct move m = {.from = c, .to = newest};

	sp_version_drain(c);
	for (uint16_t w = 0; w < c->nic->workers; w++) {
		move_counts(newest->view[w], c->view[w], m.stray);
		newest->view[w]->held += c->view[w]->held; /* held packets may still be released */
		c->view[w]->held = 0;
	}
	remember(c->nic, &m);
	__atomic_store_n(&c->newer->older, c->older, __ATOMIC_RELEASE);
	if (c->older)
		__atomic_store_n(&c->older->newer, c->newer, __ATOMIC_RELEASE);
	if (!newest->older)
		newest->home_only = newest->nic->workers > 1 && newest->registered->flags & SP_HANDLER_HOME;
	atomic_fetch_sub(&c->nic->draining, 1);
}

bool sp_version_collect(struct sp_context *c, struct sp_version_holds *holds)
{
	struct sp_nic *nic = c->nic;
	bool over, ended = false;

	if (sp_version_look(c, holds))
		return false;
	if (holds->lent)
		sp_zc_reclaim(nic); /* a port may have sent the packets without completing them yet */
	/* RCU: a worker may still use a pointer to this version. */
	if (!rte_rcu_qsbr_check(nic->readers, c->since, false))
		return false;
	over = c->force && holds->now >= c->force;
	if ((!over && !is_drained(c, holds)) || sp_workers_stand(nic))
		return false;
	if (over || is_idle(c)) {
		end(c);
		ended = true;
	}
	sp_workers_go(nic);
	if (ended)
		sp_version_free(c);
	return ended;
}

void sp_versions_end(struct sp_context *c)
{
	while (c->older) {
		struct sp_context *oldest = c->older;

		while (oldest->older)
			oldest = oldest->older;
		end(oldest);
		sp_version_free(oldest);
	}
}
