/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred work: a slice of one context a poll, in the order of the scheduler; round-robin where calls are not
 * measured, and among the works of a context. */
#include "work.h"
#include "../engine.h"
#include "../context.h"
#include "../limit.h"
#include "measure.h"
#include "../observe/tap.h"
#include "scheduler.h"

void sp_work_start(struct sp_ctx *ctx, struct sp_work *work)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_worker *w = v->owner;

	if (!v->context->handler->work || work->active) {
		if (!v->context->handler->work)
			sp_tap_wrong(ctx, "started work, but has no work()");
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
		TAILQ_INSERT_TAIL(&w->working, v, working);
	}
	v->work_tail = work;
}

static void forget_work(struct sp_worker *w, struct sp_view *v)
{
	if (!v->work_head)
		return;
	TAILQ_REMOVE(&w->working, v, working);
	for (; v->work_head; v->work_head = v->work_head->next)
		v->work_head->active = 0;
}

/* The context of the next slice: the first that may run; on a busy worker, the one that has used least of it. NULL:
 * none, or all are over their share while packets wait. */
static struct sp_view *next_working(struct sp_worker *w)
{
	struct sp_view *least = NULL, *v;

	TAILQ_FOREACH (v, &w->working, working) {
		if (sp_view_disabled(v) || sp_limited_time(w, v->entity) || sp_scheduler_owes(w, v))
			continue;
		if (w->scheduler && TAILQ_NEXT(TAILQ_FIRST(&w->working), working))
			sp_scheduler_update(w, v->entity);
		if (!least || sp_scheduler_before(v->entity, least->entity))
			least = v;
		if (!w->scheduler)
			break;
	}
	if (least)
		sp_scheduler_chosen(w, least->entity);
	return least;
}

static void work_once(struct sp_work *work)
{
	struct sp_view *v = work->ctx;
	const uint64_t began = sp_call_begin(v, SP_DOING_WORK);
	const bool more = v->context->handler->work(&v->pub, work);

	sp_call_end(v, began);
	sp_scheduler_called(v->owner, v->entity);
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
	TAILQ_REMOVE(&w->working, v, working);
	work = v->work_head;
	v->work_head = work->next;
	work->active = 0;
	if (v->work_head)
		TAILQ_INSERT_TAIL(&w->working, v, working);
	v->pub.now = w->now;
	work_once(work);
	return 1;
}

sp_time sp_work_next(const struct sp_worker *w)
{
	sp_time next = SP_NEVER;

	for (const struct sp_view *v = TAILQ_FIRST(&w->working); v && next > w->now; v = TAILQ_NEXT(v, working)) {
		const sp_time until = RTE_MAX(sp_view_until(v), sp_limit_until(v->entity, false));

		next = RTE_MIN(next, until);
	}
	return RTE_MAX(next, w->work_at);
}

void sp_work_purge(struct sp_worker *w, const struct sp_context *c)
{
	forget_work(w, c->view[w->index]);
}
