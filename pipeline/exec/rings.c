/* SPDX-License-Identifier: BSD-3-Clause */
/* The workers' side of applications: commands in, events out. */
#include "rings.h"
#include "../mem/context_alloc.h"
#include "../mem/freeing.h"
#include "../mem/memory.h"
#include "../limit.h"
#include "measure.h"
#include "../observe/tap.h"
#include "scheduler.h"
#include "../touch.h"
#include "../worker_call.h"
#include "../worker_wake.h"

#include <stdlib.h>

#define DOZING 16 /* active applications at most when a worker sleeps: each is parked, and made active again */

/* ---- events ---- */

static int make_events(struct sp_context *c, struct sp_event_queue *q)
{
	size_t bytes = sp_events_bytes(c->nic);
	int r;

	if (c->device && c->device->events) { /* of the server, charged, and sealed by the application */
		q->memory = c->device->events->shared;
		q->lent = true;
		memset(q->memory.base, 0, q->memory.bytes); /* an attempt before this one may have used it */
		sp_events_init(c->nic, q->memory.base);
		return 0;
	}
	if (c->owner)
		bytes = sp_shm_pages(bytes);
	r = sp_context_charge(c, bytes);
	if (r)
		return r;
	r = c->owner ? sp_shm_create(bytes, "spindle-events", false, &q->memory) : sp_shm_private(bytes, &q->memory);
	if (r)
		sp_memory_credit(c->nic, c->account, bytes);
	else
		sp_events_init(c->nic, q->memory.base);
	return r;
}

size_t sp_events_bytes(const struct sp_nic *nic)
{
	return sp_attach_events_bytes(nic->workers, SP_EVENTS);
}

void sp_events_init(const struct sp_nic *nic, void *events)
{
	*(struct sp_attach_events *)events =
		(struct sp_attach_events){.magic = SP_ATTACH_MAGIC, .workers = nic->workers, .entries = SP_EVENTS};
}

int sp_events_create(struct sp_context *c)
{
	struct sp_event_queue *q;
	int r;

	/* A companion uses its context's queue, and a new version the older one's: the host knows one queue per
	 * context. */
	if (c->first || c->inherited) {
		c->events = c->first ? c->first->events : c->older->events;
		return 0;
	}
	q = aligned_alloc(64, RTE_ALIGN(sizeof(*q), 64));
	if (!q)
		return -ENOMEM;
	memset(q, 0, sizeof(*q));
	r = make_events(c, q);
	if (r) {
		free(q);
		return r;
	}
	q->nic = c->nic;
	q->account = c->account;
	q->id = c->id;
	q->owner = c->owner;
	q->home = c->home;
	q->holders = 1;
	for (unsigned w = 0; w < c->nic->workers; w++) {
		struct sp_ring_shared *ring = sp_attach_ring(q->memory.base, SP_EVENTS, w);

		q->reader[w] = q->writer[w].ring = (struct sp_ring){.shared = ring, .mask = SP_EVENTS - 1};
	}
	c->events = q;
	return 0;
}

void sp_events_hold(struct sp_event_queue *q)
{
	q->holders++;
}

void sp_events_release(struct sp_event_queue *q)
{
	if (--q->holders)
		return;
	if (q->area)
		sp_memory_abandon(q->nic, q->area);
	if (!q->lent)
		sp_freeing_memory(q->nic, q->account, sp_account_uid(q->account), &q->memory, q->memory.bytes);
	free(q);
}

void sp_events_destroy(struct sp_context *c)
{
	struct sp_event_queue *q = c->events;

	c->events = NULL;
	if (!q || c->first || c->inherited)
		return;
	atomic_store_explicit(&q->ended, true, memory_order_release);
	__atomic_store_n(&((struct sp_attach_events *)q->memory.base)->closed, 1, __ATOMIC_RELEASE);
	if (c->door)
		sp_doorbell_ring(c->nic, c->door);
	sp_events_release(q);
}

static int post(struct sp_view *v, struct sp_event *e)
{
	struct sp_event_queue *q = v->context->events;

	e->context = v->context->id;
	if (sp_ring_put(&q->writer[v->pub.worker].ring, e)) {
		v->events_lost++;
		return -EAGAIN;
	}
	__atomic_fetch_or(&((struct sp_attach_events *)q->memory.base)->waiting, 1ull << v->pub.worker,
			  __ATOMIC_ACQ_REL);
	return 0;
}

/* A traced context has no doorbell, and is never touched: all its events come here. */
static __attribute__((noinline)) int heed(struct sp_view *v, const struct sp_event *e)
{
	struct sp_event copy;

	sp_touch(v, SP_NEWS_OTHER);
	if (v->pub.watch & SP_WATCH_TRACED) {
		copy = *e;
		copy.context = v->context->id;
		v->owner->tap->posted(&v->pub, &copy);
	}
	return 0;
}

/* A context that asks this service. It is looked up on this worker: it is not freed before the worker has ended its
 * poll. */
static struct sp_context *asking(const struct sp_view *v, uint32_t id)
{
	const struct sp_handler *service = v->context->registered;
	struct sp_context *c = sp_context_by_id(v->context->nic, id);

	return c && c->registered->service && !strcmp(c->registered->service, service->name) ? c : NULL;
}

int sp_event_post_to(struct sp_ctx *ctx, uint32_t id, const struct sp_event *e)
{
	const struct sp_view *v = sp_view_of(ctx);
	struct sp_context *c = asking(v, id);

	return c ? sp_event_post(&c->view[v->pub.worker]->pub, e) : -ENOENT;
}

bool sp_qp_owned(struct sp_ctx *ctx, uint32_t id, uint32_t qp)
{
	const struct sp_context *c = asking(sp_view_of(ctx), id);

	return c && qp - c->qp_first < c->qp_count;
}

int sp_event_post(struct sp_ctx *ctx, const struct sp_event *e)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_event copy = *e;
	int r = post(v, &copy);

	return !r && v->context->heeded && !(v->touched & SP_NEWS_OTHER) ? heed(v, e) : r;
}

/* ---- commands ---- */

static int command(struct sp_view *v, const struct sp_command *cmd, struct sp_event *result)
{
	const uint64_t began = sp_call_begin(v, SP_DOING_COMMAND);
	const int status = v->context->handler->command(&v->pub, cmd, result);

	sp_call_end(v, began);
	return status;
}

/* Executes one command, copied from the application: validate all fields. */
static int execute_on(struct sp_worker *w, struct sp_context *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_view *v = c->view[w->index];

	*result = (struct sp_event){.context = c->id, .type = SP_EVENT_RESULT, .op = cmd->op, .cookie = cmd->cookie};
	v->pub.now = w->now;
	if (sp_view_disabled(v))
		return result->status = -EAGAIN;
	result->status = -EOPNOTSUPP;
	if (c->handler->command)
		result->status = command(v, cmd, result);
	/* Commands unknown to the first handler may be the companion's. */
	if (result->status == -EOPNOTSUPP && c->companion)
		return execute_on(w, c->companion, cmd, result);
	return result->status;
}

/* What the current version of the handler does not have (-ENOENT), an older one may still have. */
static int execute(struct sp_worker *w, struct sp_context *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_context *older = c;
	struct sp_event answer;

	if (likely(execute_on(w, c, cmd, result) != -ENOENT))
		return result->status;
	while ((older = __atomic_load_n(&older->older, __ATOMIC_ACQUIRE)) != NULL)
		if (execute_on(w, older, cmd, &answer) != -ENOENT) {
			*result = answer;
			break;
		}
	return result->status;
}

/* Runs commands of one application, up to a count or a quantum, since other packets wait. limited: only as long as its
 * user has time left. */
static unsigned run_queue(struct sp_worker *w, struct sp_command_queue *q, bool limited, uint64_t *spent)
{
	const uint64_t quantum = sp_scheduler_quantum(w);
	struct sp_command cmd;
	unsigned n = 0;

	q->used = true;
	for (; n < SP_COMMANDS_PER_POLL && *spent < quantum && !sp_ring_take(&q->reader, &cmd); n++) {
		struct sp_context *c = sp_context_by_id(w->nic, cmd.context);
		struct sp_event result;
		struct sp_view *v;
		uint64_t before;

		if (!c || c->owner != q->device->owner ||
		    (c->home != w->index && !(c->handler->flags & SP_HANDLER_FLOWS))) {
			/* context closed meanwhile; the library rejects unknown contexts */
			sp_scheduler_charge_share(w, q->share, quantum / SP_QUANTUM_COMMANDS);
			continue;
		}
		v = c->view[w->index];
		before = v->meter.cycles;
		if ((execute(w, c, &cmd, &result) || cmd.flags & SP_CMD_REPLY) && !post(v, &result))
			sp_touch(v, SP_NEWS_OTHER);
		*spent += v->meter.cycles - before;
		sp_scheduler_called(w, v->entity);
		if (sp_limited_time(w, v->entity) && limited)
			return n + 1;
	}
	return n;
}

/* Has commands that may run now. */
static inline bool is_ready(struct sp_worker *w, const struct sp_command_queue *q)
{
	return !sp_ring_empty(&q->reader) && !(unlikely(q->allowance != NULL) && sp_limit_none_left(w, q->allowance));
}

/* Several applications have commands: a quantum for all of them, in the order of the scheduler. */
static unsigned run_in_turn(struct sp_worker *w)
{
	struct sp_command_queue *q, *next;
	unsigned n = 0, turns = 0;
	uint64_t spent = 0;

	LIST_FOREACH (q, &w->queues, active)
		if (is_ready(w, q))
			sp_scheduler_charge_share(w, q->share, 0);
	for (; turns < SP_QUEUES_PER_POLL && spent < sp_scheduler_quantum(w); turns++) {
		next = NULL;
		LIST_FOREACH (q, &w->queues, active)
			if (q->turn != w->polls + 1 && is_ready(w, q) &&
			    (!next || sp_scheduler_share_before(q->share, next->share)))
				next = q;
		if (!next)
			break;
		next->turn = w->polls + 1;
		n += run_queue(w, next, true, &spent);
	}
	return n;
}

void sp_commands_wake(struct sp_command_queue *q)
{
	uint32_t parked = SP_QUEUE_PARKED;

	if (!atomic_compare_exchange_strong(&q->state, &parked, SP_QUEUE_WOKEN))
		return;
	q->woken = atomic_load_explicit(&q->worker->woken, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&q->worker->woken, &q->woken, q, memory_order_release,
						      memory_order_relaxed))
		;
	sp_worker_wake(q->worker);
}

/* An exchange, like all changes of this word: see struct sp_attach_queues. */
static void unpark(struct sp_command_queue *q)
{
	__atomic_exchange_n(&q->page->parked, 0, __ATOMIC_ACQ_REL);
}

static void take_woken(struct sp_worker *w)
{
	struct sp_command_queue *q, *next;

	sp_commands_rouse(w);
	q = atomic_exchange_explicit(&w->woken, NULL, memory_order_acquire);
	for (; q; q = next) {
		next = q->woken;
		q->used = true;
		atomic_store_explicit(&q->state, SP_QUEUE_ACTIVE, memory_order_relaxed);
		unpark(q); /* a post for another worker may have woken it */
		LIST_INSERT_HEAD(&w->queues, q, active);
	}
}

/* False: the queue stays active. */
static bool park(struct sp_command_queue *q)
{
	uint32_t parked = SP_QUEUE_PARKED;

	/* Store first: an application that sees it parked wakes the queue. */
	atomic_store_explicit(&q->state, SP_QUEUE_PARKED, memory_order_release);
	__atomic_exchange_n(&q->page->parked, 1, __ATOMIC_ACQ_REL);
	if (!sp_ring_empty(&q->reader) && atomic_compare_exchange_strong(&q->state, &parked, SP_QUEUE_ACTIVE)) {
		unpark(q); /* a command came meanwhile: stay active */
		return false;
	}
	LIST_REMOVE(q, active); /* else it is on the stack already */
	return true;
}

bool sp_commands_doze(struct sp_worker *w)
{
	struct sp_command_queue *q, *next;
	unsigned n = 0;

	LIST_FOREACH (q, &w->queues, active)
		if (++n > DOZING)
			return false;
	for (q = LIST_FIRST(&w->queues); q; q = next) {
		next = LIST_NEXT(q, active);
		if (park(q))
			LIST_INSERT_HEAD(&w->dozing, q, active);
	}
	return true;
}

void sp_commands_rouse(struct sp_worker *w)
{
	struct sp_command_queue *q;

	while ((q = LIST_FIRST(&w->dozing)) != NULL) {
		uint32_t parked = SP_QUEUE_PARKED;

		LIST_REMOVE(q, active);
		if (!atomic_compare_exchange_strong(&q->state, &parked, SP_QUEUE_ACTIVE))
			continue; /* it is on the stack, or about to be */
		unpark(q);
		LIST_INSERT_HEAD(&w->queues, q, active);
	}
}

static __attribute__((noinline)) void park_quiet(struct sp_worker *w)
{
	struct sp_command_queue *q, *next;

	w->park_at = w->polls + atomic_load_explicit(&w->nic->park_after, memory_order_relaxed);
	w->park_walked = w->walked + SP_QUIET_LOOKS;
	for (q = LIST_FIRST(&w->queues); q; q = next) {
		next = LIST_NEXT(q, active);
		if (!q->used)
			park(q);
		q->used = false;
	}
}

void sp_commands_forget(struct sp_worker *w, void *queue)
{
	struct sp_command_queue *q = queue;

	take_woken(w); /* none dozes now */
	if (atomic_load_explicit(&q->state, memory_order_relaxed) == SP_QUEUE_ACTIVE)
		LIST_REMOVE(q, active);
}

unsigned sp_commands_run(struct sp_worker *w)
{
	struct sp_command_queue *q, *one = NULL;
	unsigned n = 0, ready = 0;
	uint64_t spent = 0;

	if (unlikely(atomic_load_explicit(&w->woken, memory_order_relaxed) != NULL))
		take_woken(w);
	if (unlikely(w->polls >= w->park_at || w->walked >= w->park_walked))
		park_quiet(w);
	LIST_FOREACH (q, &w->queues, active) {
		w->walked++;
		if (!is_ready(w, q))
			continue;
		if (w->scheduler) {
			ready++;
			one = q;
		} else {
			spent = 0;
			n += run_queue(w, q, true, &spent);
		}
	}
	if (ready == 1)
		n += run_queue(w, one, true, &spent);
	return ready > 1 ? run_in_turn(w) : n;
}

bool sp_commands_waiting(struct sp_worker *w)
{
	const struct sp_command_queue *q;

	for (q = atomic_load_explicit(&w->woken, memory_order_acquire); q; q = q->woken)
		if (!sp_ring_empty(&q->reader)) /* a new application's ring is empty */
			return true;
	LIST_FOREACH (q, &w->queues, active)
		if (is_ready(w, q))
			return true;
	return false;
}

struct call {
	struct sp_context *context;
	const struct sp_command *command;
	struct sp_event *result;
};

static void run_call(struct sp_worker *w, void *arg)
{
	struct call *call = arg;
	struct sp_command_queue *q;

	/* Runs earlier commands of the application first, but not endlessly if more are posted meanwhile. */
	take_woken(w);
	LIST_FOREACH (q, &w->queues, active)
		for (unsigned i = 0; i < SP_COMMANDS && q->device->owner == call->context->owner; i++) {
			uint64_t spent = 0;

			if (!run_queue(w, q, false, &spent))
				break;
		}
	execute(w, call->context, call->command, call->result);
}

int sp_command_worker(const struct sp_context *c, const struct sp_command *command)
{
	const int on = SP_CMD_WORKER(command->flags);

	if (on < 0)
		return c->home;
	return on < c->nic->workers && c->handler->flags & SP_HANDLER_FLOWS ? on : -EINVAL;
}

int sp_command_run(struct sp_context *c, const struct sp_command *command, struct sp_event *result)
{
	struct call call = {c, command, result};
	const int on = sp_command_worker(c, command);

	if (on < 0)
		return result->status = on;
	sp_worker_call(c->nic->worker[on], run_call, &call);
	return result->status;
}
