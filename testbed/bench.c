/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_cycles.h>

static const struct bench_case *const cases[] = {&bench_sdr_64, &bench_sdr_4096};

const struct bench_case *bench_case(unsigned index)
{
	return index < sizeof(cases) / sizeof(*cases) ? cases[index] : NULL;
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

int bench_run(const struct bench_case *c, const struct bench_options *o, struct bench_result *result, char *why,
	      unsigned room)
{
	double mine[BENCH_ROUNDS_MAX], base[BENCH_ROUNDS_MAX];
	struct bench_turn turn;
	void *state = NULL;
	int r;

	if (o->rounds < 1 || o->rounds > BENCH_ROUNDS_MAX)
		return -EINVAL;
	r = c->open(o, &state, why, room);
	if (r)
		return r;
	/* A turn of each that does not count warms caches and page tables; then they alternate, so that what the
	 * machine does besides hits both alike. */
	for (unsigned i = 0; i <= o->rounds && !r; i++) {
		r = c->run_baseline(state, o->turn_seconds, &turn, why, room);
		if (r)
			break;
		if (i)
			base[i - 1] = (double)turn.cycles / (double)turn.units;
		r = c->run(state, o->turn_seconds, &turn, why, room);
		if (r)
			break;
		if (i)
			mine[i - 1] = (double)turn.cycles / (double)turn.units;
	}
	c->close(state);
	if (r)
		return r;
	qsort(mine, o->rounds, sizeof(double), by_value);
	qsort(base, o->rounds, sizeof(double), by_value);
	result->cycles = quantile(mine, o->rounds, 0.5);
	result->baseline_cycles = quantile(base, o->rounds, 0.5);
	result->per_second = (double)rte_get_tsc_hz() / result->cycles;
	result->baseline_per_second = (double)rte_get_tsc_hz() / result->baseline_cycles;
	result->ratio = result->baseline_cycles / result->cycles;
	result->spread = (quantile(mine, o->rounds, 0.75) - quantile(mine, o->rounds, 0.25)) / result->cycles;
	result->baseline_spread =
		(quantile(base, o->rounds, 0.75) - quantile(base, o->rounds, 0.25)) / result->baseline_cycles;
	return 0;
}
