/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker_call.h"
#include "engine.h"
#include "context.h"
#include "worker.h"
#include "worker_wake.h"

#include <rte_branch_prediction.h>
#include <rte_rcu_qsbr.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

struct sp_call {
	void (*fn)(struct sp_worker *, void *);
	void *arg;
	_Atomic bool done;
};

static int call_worker(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg, bool give_up)
{
	struct sp_call call = {.fn = fn, .arg = arg};
	const struct timespec pause = {.tv_nsec = 10000};

	if (!w->nic->started) {
		fn(w, arg);
		return 0;
	}
	atomic_store(&w->call, &call);
	sp_worker_wake(w);
	while (!atomic_load_explicit(&call.done, memory_order_acquire)) {
		/* Either we take the call back, or the worker has taken it. */
		if (give_up && unlikely(atomic_load_explicit(&w->stopped, memory_order_acquire)) &&
		    atomic_exchange_explicit(&w->call, NULL, memory_order_acq_rel) == &call)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

void sp_worker_call(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg)
{
	call_worker(w, fn, arg, false);
}

int sp_worker_look(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg)
{
	return call_worker(w, fn, arg, true);
}

void sp_worker_answer(struct sp_worker *w)
{
	const sp_time began = sp_clock();
	struct sp_call *call = atomic_exchange_explicit(&w->call, NULL, memory_order_acq_rel);

	if (!call) /* taken back */
		return;
	call->fn(w, call->arg);
	atomic_fetch_add_explicit(&w->nic->called, sp_clock() - began + SP_US,
				  memory_order_relaxed); /* SP_US: caches */
	atomic_store_explicit(&call->done, true,
			      memory_order_release); /* `call` lies on the caller's stack: gone from here on */
}

/* Of threads: a NIC that another thread drives polls its workers one after the other. */
uint64_t sp_grace_begin(struct sp_ctx *ctx)
{
	return rte_rcu_qsbr_start(sp_view_of(ctx)->context->nic->readers);
}

bool sp_grace_over(struct sp_ctx *ctx, uint64_t token)
{
	return rte_rcu_qsbr_check(sp_view_of(ctx)->context->nic->readers, token, false) == 1;
}

/* ---- all of them at once ---- */

#define STANDING (2 * SP_SEC) /* how long a control call waits for workers to stand still */

struct sp_stand {
	_Atomic bool go;
	_Atomic unsigned standing;
	struct sp_call call[SP_MAX_WORKERS];
};

/* On every worker: stays here until it may go on. */
static void stand(struct sp_worker *w, void *arg)
{
	struct sp_stand *s = arg;

	atomic_fetch_add_explicit(&s->standing, 1, memory_order_release);
	while (!atomic_load_explicit(&s->go, memory_order_acquire)) {
		if (atomic_load_explicit(&w->call, memory_order_relaxed))
			sp_worker_answer(w);
		else
			sched_yield(); /* the thread that it waits for may need this processor */
	}
}

int sp_workers_stand(struct sp_nic *nic)
{
	const struct timespec pause = {.tv_nsec = 10000};
	const sp_time until = sp_clock() + STANDING;
	struct sp_stand *s;

	if (!nic->started)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	nic->stand = s;
	for (uint16_t i = 0; i < nic->workers; i++) {
		s->call[i] = (struct sp_call){.fn = stand, .arg = s};
		atomic_store(&nic->worker[i]->call, &s->call[i]);
		sp_worker_wake(nic->worker[i]);
	}
	while (atomic_load_explicit(&s->standing, memory_order_acquire) < nic->workers) {
		bool stopped = sp_clock() > until;

		for (uint16_t i = 0; i < nic->workers; i++)
			stopped |= atomic_load_explicit(&nic->worker[i]->stopped, memory_order_acquire);
		if (stopped) {
			for (uint16_t i = 0; i < nic->workers; i++) {
				struct sp_call *mine = &s->call[i];

				if (atomic_compare_exchange_strong(&nic->worker[i]->call, &mine, NULL))
					s->call[i].done = true; /* taken back */
			}
			sp_workers_go(nic);
			return -ETIMEDOUT;
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

void sp_workers_go(struct sp_nic *nic)
{
	const struct timespec pause = {.tv_nsec = 10000};
	struct sp_stand *s = nic->stand;

	if (!s)
		return;
	atomic_store_explicit(&s->go, true, memory_order_release);
	for (uint16_t i = 0; i < nic->workers; i++)
		while (!atomic_load_explicit(&s->call[i].done, memory_order_acquire))
			nanosleep(&pause, NULL);
	nic->stand = NULL;
	free(s);
}
