/* SPDX-License-Identifier: BSD-3-Clause */
#include "timer.h"
#include "../context.h"
#include "../limit.h"
#include "measure.h"
#include "message_table.h"
#include "../observe/tap.h"
#include "scheduler.h"

/* A node's prev is its left sibling, or its parent if it is the first child; the root has none. */

static struct sp_timer *meld(struct sp_timer *a, struct sp_timer *b)
{
	if (!a)
		return b;
	if (!b)
		return a;
	if (b->at < a->at) {
		struct sp_timer *t = a;
		a = b;
		b = t;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	return a;
}

/* Two passes over the siblings, without recursion: pair from the left, then meld from the right. */
static struct sp_timer *meld_siblings(struct sp_timer *first)
{
	struct sp_timer *pairs = NULL, *root = NULL;

	while (first) {
		struct sp_timer *a = first, *b = a->next;
		first = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct sp_timer *next = pairs->next;
		pairs->next = NULL;
		root = meld(root, pairs);
		pairs = next;
	}
	if (root)
		root->prev = root->next = NULL;
	return root;
}

void sp_timers_insert(struct sp_timer **root, struct sp_timer *t)
{
	t->child = t->next = t->prev = NULL;
	t->armed = 1;
	*root = meld(*root, t);
}

void sp_timers_remove(struct sp_timer **root, struct sp_timer *t)
{
	struct sp_timer *below = meld_siblings(t->child);

	if (*root == t) {
		*root = below;
	} else {
		if (t->prev->child == t)
			t->prev->child = t->next;
		else
			t->prev->next = t->next;
		if (t->next)
			t->next->prev = t->prev;
		*root = meld(*root, below);
	}
	t->child = t->next = t->prev = NULL;
	t->armed = 0;
}

void sp_timers_purge(struct sp_timer **root, const struct sp_context *context)
{
	struct sp_timer *keep = NULL;

	/* Empties the heap in order, which is rare, and simpler than walking it while it changes. */
	while (*root) {
		struct sp_timer *t = *root;
		sp_timers_remove(root, t);
		if (((struct sp_view *)t->ctx)->context == context) {
			((struct sp_view *)t->ctx)->timers--;
			continue;
		}
		t->next = keep;
		keep = t;
	}
	while (keep) {
		struct sp_timer *t = keep;
		keep = t->next;
		sp_timers_insert(root, t);
	}
}

/* A timer of that context is due: when it may run. */
static __attribute__((noinline)) sp_time may_run(struct sp_worker *w, struct sp_view *v)
{
	if (sp_view_disabled(v))
		return sp_view_until(v);
	if (sp_limited_time(w, v->entity))
		return sp_limit_until(v->entity, false);
	return sp_scheduler_owes(w, v) ? w->now + SP_QUANTUM : w->now;
}

unsigned sp_timers_run(struct sp_worker *w)
{
	const struct sp_scheduler *s = w->scheduler;
	uint64_t began, spent = 0;
	unsigned n = 0;
	sp_time at;

	/* At most about one quantum of timers per poll, and at least one. */
	while (w->timers && w->timers->at <= w->now && n < SP_TIMERS_PER_POLL && spent < sp_scheduler_quantum(w)) {
		struct sp_timer *t = w->timers;
		struct sp_view *view = t->ctx;
		const uint64_t before = view->meter.cycles;

		sp_timers_remove(&w->timers, t);
		view->timers--;
		n++;
		if ((sp_view_disabled(view) || unlikely(view->allowance != NULL) || unlikely(s && s->waiting)) &&
		    (at = may_run(w, view)) > w->now) { /* later */
			t->at = at;
			sp_timers_insert(&w->timers, t);
			view->timers++;
			continue;
		}
		view->pub.now = w->now;
		began = sp_call_begin(view, SP_DOING_TIMER);
		view->context->handler->timer(&view->pub, t);
		sp_call_end(view, began);
		if (unlikely(s && w->polls < s->until))
			sp_scheduler_update(w, view->entity);
		spent += view->meter.cycles - before;
	}
	return n;
}

int sp_timer_arm(struct sp_ctx *c, struct sp_timer *t, sp_time at)
{
	struct sp_view *view = sp_view_of(c);
	struct sp_worker *w = view->owner;

	if (!view->context->handler->timer) {
		sp_tap_wrong(c, "armed a timer, but has no timer()");
		return -EINVAL;
	}
	/* A timer that rearms forever would keep an older version alive. */
	if (unlikely(__atomic_load_n(&view->context->newer, __ATOMIC_ACQUIRE) != NULL) &&
	    !sp_messages_open(view->context))
		return -ESHUTDOWN;
	if (t->armed) {
		if (t->worker != w->index)
			return -EXDEV;
		sp_timers_remove(&w->timers, t);
		((struct sp_view *)t->ctx)->timers--;
	}
	t->ctx = view;
	t->worker = w->index;
	t->at = at;
	sp_timers_insert(&w->timers, t);
	view->timers++;
	return 0;
}

int sp_timer_cancel(struct sp_ctx *c, struct sp_timer *t)
{
	struct sp_view *view = sp_view_of(c);

	if (!t->armed)
		return 0;
	if (t->worker != view->owner->index)
		return -EXDEV;
	sp_timers_remove(&view->owner->timers, t);
	((struct sp_view *)t->ctx)->timers--;
	return 0;
}
