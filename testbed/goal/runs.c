/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads take the next run that nobody has taken. */
#include "runs.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS_MAX 64u

struct work {
	const struct goal *g;
	const struct goal_loggops *p;
	sp_time *end, *ends;
	struct goal_outcome *first;
	uint32_t runs;
	_Atomic uint32_t next;
	pthread_mutex_t lock; /* of what follows, and of *first */
	uint32_t failed;      /* the first run that failed; runs: none */
	int err;
};

static void *work(void *arg)
{
	struct work *w = arg;
	uint32_t i;

	while ((i = atomic_fetch_add(&w->next, 1)) < w->runs) {
		struct goal_loggops p = *w->p;
		struct goal_outcome o;
		int err;

		p.run += i;
		err = goal_loggops_run(w->g, &p, i ? NULL : w->ends, &o);
		w->end[i] = o.end;
		if (i && !err)
			continue;
		pthread_mutex_lock(&w->lock);
		if (err ? i < w->failed : w->failed == w->runs)
			*w->first = o;
		if (err && i < w->failed) {
			w->failed = i;
			w->err = err;
			atomic_store(&w->next, w->runs); /* no more: those before i are on */
		}
		pthread_mutex_unlock(&w->lock);
	}
	return NULL;
}

static uint32_t processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

int goal_runs(const struct goal *g, const struct goal_loggops *p, uint32_t runs, uint32_t threads, sp_time *end,
	      struct goal_outcome *first, sp_time *ends)
{
	struct work w = {.g = g, .p = p, .end = end, .ends = ends, .first = first, .runs = runs, .failed = runs};
	pthread_t thread[THREADS_MAX];
	uint32_t n = threads ? threads : processors(), started = 0;

	n = n < runs ? n : runs;
	n = n < THREADS_MAX ? n : THREADS_MAX;
	pthread_mutex_init(&w.lock, NULL);
	while (started + 1 < n && !pthread_create(&thread[started], NULL, work, &w))
		started++;
	work(&w);
	while (started)
		pthread_join(thread[--started], NULL);
	pthread_mutex_destroy(&w.lock);
	return w.err;
}
