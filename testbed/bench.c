/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDES (2 + BENCH_OTHERS)

static const struct bench_case *const cases[] = {
	&bench_sdr_64,
	&bench_sdr_4096,
	&bench_latency_nic_polling,
	&bench_latency_nic_sleeping,
	&bench_latency_vhost_polling,
	&bench_latency_vhost_sleeping,
	&bench_file_veth,
	&bench_file_vhost,
};

static volatile sig_atomic_t stopped;

void bench_stop(int signal_number)
{
	stopped = signal_number;
}

int bench_stopped(void)
{
	return stopped;
}

unsigned bench_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

const struct bench_case *bench_case(unsigned index)
{
	static const struct bench_case *const families[] = {bench_rvma, bench_puts, bench_ec};
	const unsigned first = sizeof(cases) / sizeof(*cases);

	if (index < first)
		return cases[index];
	index -= first;
	for (unsigned f = 0; f < sizeof(families) / sizeof(*families); f++)
		for (const struct bench_case *c = families[f]; c->name; c++)
			if (!index--)
				return c;
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const double *sorted, unsigned n, double q)
{
	double at = q * (n - 1);
	unsigned low = (unsigned)at;

	return low + 1 < n ? sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]) : sorted[low];
}

/* One side's turns. */
struct turns {
	bench_run_t *run;
	struct bench_side *side;
	struct bench_result *slices; /* where to note them, or NULL */
	double value[BENCH_ROUNDS_MAX], tail[BENCH_ROUNDS_MAX];
};

static int take_turn(const struct bench_case *c, void *state, const struct bench_options *o, struct turns *t,
		     unsigned round, char *why, unsigned room)
{
	struct bench_turn turn = {0};
	int r = bench_stopped() ? -EINTR : t->run(state, o->turn_seconds, &turn, why, room);

	if (r || !round) /* round 0 does not count */
		return r;
	t->value[round - 1] = c->unit ? turn.value : (double)turn.cycles / (double)turn.units;
	t->tail[round - 1] = turn.tail;
	if (t->slices) {
		t->slices->slice = turn.slice;
		t->slices->slice_max = turn.slice_max;
	}
	return 0;
}

static void summarise(struct turns *t, unsigned n, bool less)
{
	qsort(t->value, n, sizeof(double), by_value);
	qsort(t->tail, n, sizeof(double), by_value);
	t->side->value = quantile(t->value, n, 0.5);
	t->side->best = t->value[less ? 0 : n - 1];
	t->side->tail = quantile(t->tail, n, 0.5);
	t->side->spread = (quantile(t->value, n, 0.75) - quantile(t->value, n, 0.25)) / t->side->value;
}

int bench_run(const struct bench_case *c, const struct bench_options *o, struct bench_result *result, char *why,
	      unsigned room)
{
	struct turns turns[SIDES] = {{.run = c->run_baseline, .side = &result->baseline},
				     {.run = c->run, .side = &result->mine, .slices = result}};
	const bool less = !c->unit || c->less;
	unsigned sides = 2;
	void *state = NULL;
	int r;

	if (o->rounds < 1 || o->rounds > BENCH_ROUNDS_MAX)
		return -EINVAL;
	*result = (struct bench_result){0};
	for (unsigned i = 0; i < BENCH_OTHERS && c->other[i].run; i++)
		turns[sides++] = (struct turns){.run = c->other[i].run, .side = &result->other[i]};
	r = c->open(o, &state, why, room);
	if (r)
		return r;
	/* A turn of each that does not count warms caches and page tables; then they alternate, so that what the
	 * machine does besides hits all alike. */
	for (unsigned i = 0; i <= o->rounds && !r; i++)
		for (unsigned k = 0; k < sides && !r; k++) {
			if (*turns[k].side->skipped)
				continue;
			r = take_turn(c, state, o, &turns[k], i, why, room);
			if (r && r != -EINTR && k >= 2) { /* iperf3 and the like: not ours to fail for */
				snprintf(turns[k].side->skipped, sizeof(turns[k].side->skipped), "%s",
					 *why ? why : strerror(-r));
				r = 0;
			}
		}
	c->close(state);
	for (unsigned k = 0; k < sides && !r; k++) {
		struct bench_side *s = turns[k].side;

		if (*s->skipped)
			continue;
		summarise(&turns[k], o->rounds, less);
		s->ratio = less ? result->baseline.value / s->value : s->value / result->baseline.value;
	}
	return r;
}
