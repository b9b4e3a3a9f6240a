/* SPDX-License-Identifier: BSD-3-Clause */
/* The selfish detour loop, on the processor's time stamp counter. */
#include "detour.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#define HOUR (3600 * SP_SEC)

static sp_time clock_ps(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (sp_time)t.tv_sec * SP_SEC + (sp_time)t.tv_nsec * 1000;
}

struct record {
	uint64_t *at, *length; /* ticks */
	uint64_t n, most;
};

/* The loop: until so many ticks have passed since `begin`, or the record is full. Returns the shortest distance. Some
 * counters go in steps: two stamps that are the same say nothing. */
static uint64_t __attribute__((noinline))
loop(struct record *r, uint64_t begin, uint64_t ticks, uint64_t shortest, uint64_t limit)
{
	uint64_t last = __rdtsc(), now = last;

	while (now - begin < ticks && r->n < r->most) {
		now = __rdtsc();
		const uint64_t gap = now - last;

		if (gap > limit) {
			r->at[r->n] = last - begin;
			r->length[r->n++] = gap;
		} else if (gap && gap < shortest) {
			shortest = gap;
		}
		last = now;
	}
	return shortest;
}

static int results(const struct record *rec, uint64_t shortest, double ps, struct goal_detour_result *r)
{
	*r = (struct goal_detour_result){.n = rec->n, .shortest = (sp_time)((double)shortest * ps + 0.5)};
	r->at = malloc((rec->n + 1) * sizeof(*r->at));
	r->length = malloc((rec->n + 1) * sizeof(*r->length));
	if (!r->at || !r->length) {
		free(r->at);
		free(r->length);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < rec->n; i++) {
		r->at[i] = (sp_time)((double)rec->at[i] * ps);
		r->length[i] = (sp_time)((double)(rec->length[i] - shortest) * ps);
	}
	return 0;
}

int goal_detour_of(const uint64_t *stamps, uint64_t n, uint64_t shortest, uint32_t factor, double ps,
		   struct goal_detour_result *r)
{
	struct record rec = {.at = malloc((n + 1) * 8), .length = malloc((n + 1) * 8)};
	int err = rec.at && rec.length ? 0 : -ENOMEM;

	for (uint64_t i = 1; !err && i < n; i++)
		if (stamps[i] - stamps[i - 1] > shortest * factor) {
			rec.at[rec.n] = stamps[i - 1] - stamps[0];
			rec.length[rec.n++] = stamps[i] - stamps[i - 1];
		}
	if (!err)
		err = results(&rec, shortest, ps, r);
	if (!err && n)
		r->took = (sp_time)((double)(stamps[n - 1] - stamps[0]) * ps);
	free(rec.at);
	free(rec.length);
	return err;
}

/* Counter and clock at one time: of some tries the one between whose two readings of the counter the least has passed,
 * so that nothing else ran there. */
static uint64_t both(sp_time *clock)
{
	uint64_t tightest = UINT64_MAX, ticks = 0;

	for (unsigned i = 0; i < 20; i++) {
		const uint64_t before = __rdtsc();
		const sp_time now = clock_ps();
		const uint64_t after = __rdtsc();

		if (after - before < tightest) {
			tightest = after - before;
			ticks = before + tightest / 2;
			*clock = now;
		}
	}
	return ticks;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The shortest distance, and how many ps a tick takes by the system's clock. Processors' counters may differ by some
 * ticks: who is moved to another one may see a distance that is none. So it is the middle one of many short loops'. */
static uint64_t calibrate(struct record *rec, sp_time duration, double *ps)
{
	const sp_time least = duration / 100 > SP_MS ? duration / 100 : SP_MS;
	uint64_t shortest[101], last;
	unsigned loops = 0, n;
	sp_time begin = 0, now = 0;
	const uint64_t first = both(&begin);

	do {
		rec->n = 0;
		shortest[loops++ % 101] = loop(rec, __rdtsc(), 20000, UINT64_MAX, UINT64_MAX);
		last = both(&now);
	} while (now - begin < least || loops < 11);
	*ps = (double)(now - begin) / (double)(last - first);
	rec->n = 0;
	n = loops < 101 ? loops : 101;
	qsort(shortest, n, sizeof(*shortest), by_size);
	return shortest[n / 2];
}

static int measure(const struct goal_detour_config *c, struct record *rec, struct goal_detour_result *r)
{
	const uint32_t factor = c->factor ? c->factor : GOAL_DETOUR_FACTOR;
	double ps, all = 0;
	const uint64_t shortest = calibrate(rec, c->duration, &ps);
	double ticks = (double)c->duration / ps;
	sp_time begin = 0, took = 0;
	const uint64_t first = both(&begin);
	int err;

	/* By the clock, should a tick have been taken for longer than it is. */
	while (took < c->duration && rec->n < rec->most) {
		loop(rec, first, (uint64_t)ticks, shortest, shortest * factor);
		took = clock_ps() - begin;
		ticks *= 1.001;
	}
	err = results(rec, shortest, ps, r);
	if (err)
		return err;
	r->took = took;
	for (uint64_t i = 0; i < r->n; i++)
		all += (double)r->length[i];
	r->stolen = took ? all / (double)took : 0;
	return 0;
}

int goal_detour_measure(const struct goal_detour_config *c, struct goal_detour_result *r)
{
	struct record rec = {.most = c->most};
	cpu_set_t before, set;
	int err;

	if (!c->duration || c->duration > HOUR || !c->most)
		return -EINVAL;
	if (c->cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(before), &before))
		return -ENODEV;
	if (c->cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(c->cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			return -ENODEV;
	}
	rec.at = calloc(c->most, sizeof(*rec.at));
	rec.length = calloc(c->most, sizeof(*rec.length));
	err = rec.at && rec.length ? measure(c, &rec, r) : -ENOMEM;
	free(rec.at);
	free(rec.length);
	sched_setaffinity(0, sizeof(before), &before);
	return err;
}
