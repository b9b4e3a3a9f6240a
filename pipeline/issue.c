/* SPDX-License-Identifier: BSD-3-Clause */
#include "issue.h"
#include "metered.h"
#include "share.h"
#include "watched.h"

/* ---- issue: contexts take turns on their home worker, and a context's issues take turns ---- */

static void context_in(struct sp_worker *w, struct sp_context *c)
{
	if (c->issuing)
		return;
	c->issuing = true;
	c->issuing_next = NULL;
	if (w->issuing_tail)
		w->issuing_tail->issuing_next = c;
	else
		w->issuing = c;
	w->issuing_tail = c;
}

static struct sp_context *context_out(struct sp_worker *w)
{
	struct sp_context *c = w->issuing;

	w->issuing = c->issuing_next;
	if (!w->issuing)
		w->issuing_tail = NULL;
	c->issuing = false;
	return c;
}

static void append(struct sp_context *c, struct sp_issue *i)
{
	if (c->issues) { /* issues is the last of a circular list */
		i->next = c->issues->next;
		c->issues->next = i;
	} else {
		i->next = i;
	}
	c->issues = i;
}

static void remove_first(struct sp_context *c)
{
	struct sp_issue *first = c->issues->next;

	if (first == c->issues)
		c->issues = NULL;
	else
		c->issues->next = first->next;
	first->next = NULL;
}

void sp_issue_start(struct sp_ctx *ctx, struct sp_issue *i)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_context *pacer;

	if (!v->context->handler->issue) {
		sp_watch_wrong(ctx, "started an issue, but has no issue()");
		return;
	}
	if (v->pub.worker != v->context->home) { /* list and pace are the home worker's: it looks at every poll */
		struct sp_context *c = v->context;

		if (__atomic_exchange_n(&i->woken, 1, __ATOMIC_ACQ_REL))
			return;
		i->away = __atomic_load_n(&c->issue_elsewhere, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&c->issue_elsewhere, &i->away, i, true, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED))
			;
		return;
	}
	if (i->active) {
		i->wait = 0; /* started again while it runs: it will not be put to sleep */
		return;
	}
	i->active = 1;
	i->wait = 0;
	i->ctx = v;
	/* Having had nothing to send gives no right to a burst; having been polled late does, see sp_pace_charge. */
	pacer = sp_context_newest(v->context);
	if (!v->context->issuing && pacer->tx_next < v->owner->now)
		pacer->tx_next = v->owner->now;
	append(v->context, i);
	context_in(v->owner, v->context);
}

static void forget_issues(struct sp_context *c)
{
	while (c->issues) {
		struct sp_issue *i = c->issues->next;

		remove_first(c);
		i->active = 0;
	}
}

/* Lets one context send what its pace allows. */
static unsigned run_context(struct sp_worker *w, struct sp_context *c)
{
	const struct sp_context *pacer = sp_context_newest(c); /* all copies have one pace */
	struct sp_view *v = c->view[w->index];
	unsigned asked = 0;

	v->pub.now = w->now;
	while (c->issues && asked < SP_BURST && pacer->tx_next <= w->now) {
		struct sp_issue *i = c->issues->next;
		/* A paced context goes packet by packet: only then does tx_next say when the next is due. */
		unsigned budget = pacer->rate ? 1 : SP_BURST - asked;
		uint64_t before = v->sent, began;
		int r;

		if (sp_view_disabled(v)) /* also by the call before */
			break;
		i->wait = 1;
		began = sp_metered_begin(v, SP_DOING_ISSUE);
		r = c->handler->issue(&v->pub, i, budget);
		sp_metered_end(v, began);
		asked += (unsigned)(v->sent - before);
		if (r == SP_ISSUE_DONE || (r == SP_ISSUE_WAIT && i->wait)) {
			remove_first(c);
			i->active = 0;
			continue;
		}
		c->issues = i;		 /* first becomes last: the next one's turn */
		if (v->sent == before) { /* it wants to, and cannot: port, buffers or neighbour */
			w->issue_stuck = true;
			break;
		}
	}
	return asked;
}

static unsigned run_all(struct sp_worker *w)
{
	unsigned asked = 0, turns = 0;
	uint64_t spent = 0;

	for (struct sp_context *last = w->issuing_tail;
	     w->issuing && turns < SP_ISSUES_PER_POLL && spent < sp_share_quantum(w); turns++) {
		struct sp_context *c = context_out(w);
		struct sp_view *v = c->view[w->index];
		const uint64_t before = v->meter.cycles;

		if (likely(!sp_share_owes(w, v)))
			asked += run_context(w, c);
		spent += v->meter.cycles - before;
		if (c->issues)
			context_in(w, c);
		if (c == last)
			break;
	}
	return asked;
}

unsigned sp_issues_run(struct sp_worker *w)
{
	w->issue_stuck = false;
	for (struct sp_context *c = w->elsewhere; c; c = c->elsewhere_next) {
		struct sp_issue *i = NULL;

		/* Mostly there are none. A locked operation in each poll would wait for all that the poll has written,
		 * and take the line from the workers that read what else is in it. */
		if (unlikely(__atomic_load_n(&c->issue_elsewhere, __ATOMIC_RELAXED)))
			i = __atomic_exchange_n(&c->issue_elsewhere, NULL, __ATOMIC_ACQ_REL);
		while (i) {
			struct sp_issue *next = i->away;

			/* From here on it can be pushed again. An exchange, not a store: whoever found it woken and
			 * left it at that has written before what issue() is about to read. */
			__atomic_exchange_n(&i->woken, 0, __ATOMIC_ACQ_REL);
			sp_issue_start(&c->view[w->index]->pub, i);
			i = next;
		}
	}
	return run_all(w);
}

sp_time sp_issues_next(struct sp_worker *w)
{
	sp_time next = SP_NEVER;

	for (struct sp_context *c = w->issuing; c; c = c->issuing_next) {
		const sp_time until = sp_view_until(c->view[w->index]);
		const sp_time at = RTE_MAX(sp_context_newest(c)->tx_next, until);

		next = RTE_MIN(next, at);
	}
	return next;
}

void sp_issues_purge(struct sp_worker *w, struct sp_context *c)
{
	struct sp_context *first = w->issuing;

	__atomic_store_n(&c->issue_elsewhere, NULL, __ATOMIC_RELAXED);
	for (struct sp_context **at = &w->elsewhere; *at; at = &(*at)->elsewhere_next)
		if (*at == c) {
			*at = c->elsewhere_next;
			break;
		}
	forget_issues(c);
	w->issuing = w->issuing_tail = NULL;
	while (first) {
		struct sp_context *next = first->issuing_next;

		first->issuing = false;
		if (first != c)
			context_in(w, first);
		first = next;
	}
}

#define WIRE_EXTRA 24 /* preamble and delimiter 8, FCS 4, gap 12 */

void sp_pace_charge(struct sp_context *c, sp_time now, uint32_t bytes)
{
	const sp_time late = c->nic->worker[c->home]->late;
	const uint64_t bits = (uint64_t)(bytes + WIRE_EXTRA) * 8 * SP_SEC + c->tx_rest;

	if (now > late && c->tx_next < now - late)
		c->tx_next = now - late;
	c->tx_next += bits / c->rate;
	c->tx_rest = bits % c->rate;
}

int sp_pace(struct sp_ctx *ctx, uint64_t bits_per_second)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_context *c = sp_context_newest(v->context);

	if (v->pub.worker != c->home)
		return -EXDEV;

	/* What has been sent already takes the rest of its time at the new rate. */
	if (c->tx_next > v->owner->now && bits_per_second != c->rate) {
		unsigned __int128 left = (unsigned __int128)(c->tx_next - v->owner->now) * c->rate;

		left = bits_per_second ? left / bits_per_second : 0;
		c->tx_next = v->owner->now + (sp_time)RTE_MIN(left, (unsigned __int128)(SP_NEVER / 2));
	}
	c->rate = bits_per_second;
	c->tx_rest = 0;
	return 0;
}

/* ---- deferred work: contexts take turns, a slice each, and a context's works take turns ---- */

static void working_in(struct sp_worker *w, struct sp_view *v)
{
	v->working_next = NULL;
	if (w->working_tail)
		w->working_tail->working_next = v;
	else
		w->working = v;
	w->working_tail = v;
}

static void working_out(struct sp_worker *w, struct sp_view *v)
{
	struct sp_view **at = &w->working, *before = NULL;

	for (; *at != v; at = &before->working_next)
		before = *at;
	*at = v->working_next;
	if (w->working_tail == v)
		w->working_tail = before;
}

void sp_work_start(struct sp_ctx *ctx, struct sp_work *work)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_worker *w = v->owner;

	if (!v->context->handler->work || work->active) {
		if (!v->context->handler->work)
			sp_watch_wrong(ctx, "started work, but has no work()");
		return;
	}
	work->active = 1;
	work->ctx = v;
	work->worker = w->index;
	work->next = NULL;
	if (v->work_head) {
		v->work_tail->next = work;
	} else {
		v->work_head = work;
		working_in(w, v);
	}
	v->work_tail = work;
}

static void forget_work(struct sp_worker *w, struct sp_view *v)
{
	if (!v->work_head)
		return;
	working_out(w, v);
	for (; v->work_head; v->work_head = v->work_head->next)
		v->work_head->active = 0;
}

/* Whose turn it is: of those that may go on the first, or the one that has had least of a worker that is short of time;
 * nobody's while others' packets wait for what they have all had too much. */
static struct sp_view *next_working(struct sp_worker *w)
{
	struct sp_view *least = NULL, *v, *after;

	for (v = w->working; v; v = after) {
		after = v->working_next;
		if (sp_view_disabled(v) || sp_share_owes(w, v))
			continue;
		if (!least)
			least = v;
		else if (sp_share_before(w, v, least))
			least = v;
		if (!w->share)
			break;
	}
	if (least)
		sp_share_chosen(w, least);
	return least;
}

static void work_once(struct sp_work *work)
{
	struct sp_view *v = work->ctx;
	const uint64_t began = sp_metered_begin(v, SP_DOING_WORK);
	const bool more = v->context->handler->work(&v->pub, work);

	sp_metered_end(v, began);
	if (more)
		sp_work_start(&v->pub, work);
}

unsigned sp_work_run(struct sp_worker *w)
{
	struct sp_work *work;
	struct sp_view *v;

	if (w->now < w->work_at || !(v = next_working(w)))
		return 0;
	w->work_at = w->now + w->nic->config.slice_time;
	working_out(w, v);
	work = v->work_head;
	v->work_head = work->next;
	work->active = 0;
	if (v->work_head)
		working_in(w, v);
	v->pub.now = w->now;
	work_once(work);
	return 1;
}

sp_time sp_work_next(const struct sp_worker *w)
{
	sp_time next = SP_NEVER;

	for (const struct sp_view *v = w->working; v && next > w->now; v = v->working_next) {
		const sp_time until = sp_view_until(v);

		next = RTE_MIN(next, until);
	}
	return RTE_MAX(next, w->work_at);
}

void sp_work_purge(struct sp_worker *w, const struct sp_context *c)
{
	forget_work(w, c->view[w->index]);
}
