/* SPDX-License-Identifier: BSD-3-Clause */
#include "issue.h"
#include "../context.h"
#include "../limit.h"
#include "../tx/zero_copy.h"
#include "measure.h"
#include "../observe/tap.h"
#include "scheduler.h"

/* Contexts in the order of the scheduler, round-robin where calls are not measured; issues within a context
 * round-robin. */

static void view_in(struct sp_worker *w, struct sp_view *v)
{
	if (!v->is_issuing)
		TAILQ_INSERT_TAIL(&w->issuing, v, issuing);
	v->is_issuing = true;
}

static void view_out(struct sp_worker *w, struct sp_view *v)
{
	TAILQ_REMOVE(&w->issuing, v, issuing);
	v->is_issuing = false;
}

static void append(struct sp_view *v, struct sp_issue *i)
{
	if (v->issues) { /* issues is the last of a circular list */
		i->next = v->issues->next;
		v->issues->next = i;
	} else {
		i->next = i;
	}
	v->issues = i;
}

static void remove_first(struct sp_view *v)
{
	struct sp_issue *first = v->issues->next;

	if (first == v->issues)
		v->issues = NULL;
	else
		v->issues->next = first->next;
	first->next = NULL;
}

/* All versions share one pace: the newest one's. */
static struct sp_view *pacer_of(struct sp_view *v)
{
	if (likely(!__atomic_load_n(&v->context->newer, __ATOMIC_ACQUIRE)))
		return v;
	return sp_context_newest(v->context)->view[v->pub.worker];
}

void sp_issue_start(struct sp_ctx *ctx, struct sp_issue *i)
{
	struct sp_view *v = sp_view_of(ctx);
	const uint16_t on = i->on ? (uint16_t)(i->on - 1) : v->context->home;
	struct sp_view *pacer;

	if (!v->context->handler->issue) {
		sp_tap_wrong(ctx, "started an issue, but has no issue()");
		return;
	}
	if (unlikely(on >= v->pub.workers || (i->on && !(v->context->handler->flags & SP_HANDLER_FLOWS)))) {
		sp_tap_wrong(ctx, "started an issue on worker %u", on);
		return;
	}
	if (v->pub.worker != on) { /* that worker owns list and pace, and checks each poll */
		struct sp_view *c = v->context->view[on];

		if (__atomic_exchange_n(&i->woken, 1, __ATOMIC_ACQ_REL))
			return;
		i->away = __atomic_load_n(&c->issue_elsewhere, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&c->issue_elsewhere, &i->away, i, true, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED))
			;
		v->owner->gave |= 1u << on;
		return;
	}
	if (i->active) {
		i->wait = 0; /* restarted while it runs: do not put it to sleep */
		return;
	}
	i->active = 1;
	i->wait = 0;
	i->ctx = v;
	/* Being idle earns no burst; a late poll does, see sp_pace_charge. */
	pacer = pacer_of(v);
	if (!v->is_issuing && pacer->tx_next < v->owner->now)
		pacer->tx_next = v->owner->now;
	append(v, i);
	view_in(v->owner, v);
}

static void forget_issues(struct sp_view *v)
{
	while (v->issues) {
		struct sp_issue *i = v->issues->next;

		remove_first(v);
		i->active = 0;
	}
}

/* Lets one context send within its pace. */
static unsigned run_context(struct sp_worker *w, struct sp_view *v)
{
	const struct sp_view *pacer = pacer_of(v);
	const struct sp_handler *h = v->context->handler;
	unsigned asked = 0;

	v->pub.now = w->now;
	while (v->issues && asked < SP_BURST && pacer->tx_next <= w->now) {
		struct sp_issue *i = v->issues->next;
		/* Packet by packet under pacing, since tx_next must follow each packet. */
		unsigned budget = pacer->rate ? 1 : SP_BURST - asked;
		uint64_t before = v->sent, began;
		int r;

		if (sp_view_disabled(v)) /* also by the call before */
			break;
		i->wait = 1;
		v->zc_queue->asked = 0;
		began = sp_call_begin(v, SP_DOING_ISSUE);
		r = h->issue(&v->pub, i, budget);
		sp_call_end(v, began);
		asked += (unsigned)(v->sent - before);
		if (r == SP_ISSUE_DONE || (r == SP_ISSUE_WAIT && i->wait && sp_zc_await(v, i))) {
			remove_first(v);
			i->active = 0;
			continue;
		}
		v->issues = i;		 /* the first becomes the last */
		if (v->sent == before) { /* it wants to send and cannot: port, buffers or neighbour */
			w->issue_stuck = true;
			break;
		}
	}
	return asked;
}

/* Its pace, its budget, its user's limit or its debt lets it send now. */
static inline bool may_send(struct sp_worker *w, struct sp_view *v)
{
	return pacer_of(v)->tx_next <= w->now && !sp_view_disabled(v) && !sp_scheduler_owes(w, v) &&
	       !sp_limited_time(w, v->entity) && !sp_limited_sends(v);
}

/* The next turn of this poll; NULL: there is none. A context has a second one only before another's first. */
static struct sp_view *next_turn(struct sp_worker *w, bool first)
{
	const bool several = TAILQ_FIRST(&w->issuing) != TAILQ_LAST(&w->issuing, sp_issuing);
	struct sp_view *v, *next = NULL;
	bool had_none = false;

	TAILQ_FOREACH (v, &w->issuing, issuing) {
		const bool had = v->issue_turn == w->polls + 1;

		if (first && several)
			sp_scheduler_update(w, v->entity);
		if ((had && !(v->issue_sent && w->scheduler)) || !may_send(w, v))
			continue;
		had_none |= !had;
		if (!next || (several && w->scheduler && sp_scheduler_before(v->entity, next->entity)))
			next = v;
		if (!w->scheduler)
			break;
	}
	if (next && several && had_none)
		sp_scheduler_chosen(w, next->entity);
	return had_none ? next : NULL;
}

static unsigned run_all(struct sp_worker *w)
{
	const uint64_t quantum = sp_scheduler_quantum(w);
	unsigned asked = 0, turns = 0;
	struct sp_view *v;
	uint64_t spent = 0;

	for (; turns < SP_ISSUES_PER_POLL && spent < quantum && (v = next_turn(w, !turns)); turns++) {
		const uint64_t before = v->meter.cycles;
		unsigned sent;

		view_out(w, v);
		sent = run_context(w, v);
		v->issue_turn = w->polls + 1;
		v->issue_sent = sent != 0;
		asked += sent;
		spent += v->meter.cycles - before;
		if (v->issues)
			view_in(w, v);
		sp_scheduler_called(w, v->entity);
		if (unlikely(!sent) && !TAILQ_EMPTY(&w->issuing)) /* or it would be first for ever */
			sp_scheduler_charge_share(w, v->entity->share, quantum / SP_ISSUES_PER_POLL);
	}
	return asked;
}

unsigned sp_issues_run(struct sp_worker *w)
{
	struct sp_view *c;

	w->issue_stuck = false;
	LIST_FOREACH (c, &w->elsewhere, elsewhere) {
		struct sp_issue *i = NULL;

		/* Usually empty. A locked operation in each poll would wait for all earlier stores, and take the cache
		 * line from the workers that read it. */
		if (unlikely(__atomic_load_n(&c->issue_elsewhere, __ATOMIC_RELAXED)))
			i = __atomic_exchange_n(&c->issue_elsewhere, NULL, __ATOMIC_ACQ_REL);
		while (i) {
			struct sp_issue *next = i->away;

			/* From here on the issue can be pushed again. An exchange, not a store: a worker that found it
			 * woken, and so did not push it, has written its data before; issue() must see that data. */
			__atomic_exchange_n(&i->woken, 0, __ATOMIC_ACQ_REL);
			sp_issue_start(&c->pub, i);
			i = next;
		}
	}
	return run_all(w);
}

sp_time sp_issues_next(struct sp_worker *w)
{
	sp_time next = SP_NEVER;
	struct sp_view *v;

	TAILQ_FOREACH (v, &w->issuing, issuing) {
		const sp_time until = RTE_MAX(sp_view_until(v), sp_limit_until(v->entity, true));
		const sp_time at = RTE_MAX(pacer_of(v)->tx_next, until);

		next = RTE_MIN(next, at);
	}
	return next;
}

void sp_issues_purge(struct sp_worker *w, struct sp_context *c)
{
	struct sp_view *v = c->view[w->index];
	const struct sp_view *listed;

	__atomic_store_n(&v->issue_elsewhere, NULL, __ATOMIC_RELAXED);
	sp_zc_forget(v);
	LIST_FOREACH (listed, &w->elsewhere, elsewhere)
		if (listed == v) {
			LIST_REMOVE(v, elsewhere);
			break;
		}
	forget_issues(v);
	if (v->is_issuing)
		TAILQ_REMOVE(&w->issuing, v, issuing);
	v->is_issuing = false;
}
