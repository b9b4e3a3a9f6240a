/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>

#define SIDES  (2 + BENCH_OTHERS)
#define PIECE  0.02 /* s, see pieces() */
#define PIECES 20

int bench_fail(struct bench_why *why, int error, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(why->text, sizeof(why->text), format, ap);
	va_end(ap);
	return error;
}

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

int bench_two_cpus(struct bench_why *why)
{
	if (bench_cpus() > 1)
		return 0;
	return bench_fail(why, BENCH_SKIPPED, "there is one processor, two are needed");
}

static cpu_set_t all; /* before the first bench_pin */

void bench_pin(unsigned n)
{
	cpu_set_t one;

	if (!CPU_COUNT(&all) && sched_getaffinity(0, sizeof(all), &all))
		return;
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && !n--)
			CPU_SET(i, &one);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof(one), &one);
}

void bench_unpin(void)
{
	if (CPU_COUNT(&all))
		sched_setaffinity(0, sizeof(all), &all);
}

static double thread_ran(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench_clock bench_clock_begin(void)
{
	const double ran = thread_ran();

	return (struct bench_clock){.cycles = rte_rdtsc(), .ran = ran};
}

uint64_t bench_clock_end(const struct bench_clock *c)
{
	const uint64_t wall = rte_rdtsc() - c->cycles,
		       ran = (uint64_t)((thread_ran() - c->ran) * (double)rte_get_tsc_hz());

	/* While the thread kept its processor, the TSC is the finer clock. */
	return ran + wall / 200 < wall ? ran : wall;
}

uint64_t bench_round_end(double seconds)
{
	return rte_rdtsc() + (uint64_t)(seconds * (double)rte_get_tsc_hz());
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

/* The rounds of one side. */
struct rounds {
	bench_run_t *run;
	struct bench_side *side;
	struct bench_result *slices; /* where to store the slices, or NULL */
	bool optional;		     /* may be skipped */
	bool other;		     /* ... also if it fails: iperf3 and the like are not ours */
	uint64_t units, cycles;	     /* of the pieces of this round so far */
	double value[BENCH_ROUNDS_MAX], tail[BENCH_ROUNDS_MAX], processor[BENCH_ROUNDS_MAX];
};

static int take_piece(const struct bench_case *c, void *state, struct rounds *t, double seconds, unsigned round,
		      struct bench_why *why)
{
	struct bench_round done = {0};
	int r = bench_stopped() ? -EINTR : t->run(state, seconds, &done, why);

	if (r || !round) /* round 0 does not count */
		return r;
	t->units += done.units;
	t->cycles += done.cycles;
	t->value[round - 1] = c->unit ? done.value : (double)t->cycles / (double)t->units;
	t->tail[round - 1] = done.tail;
	t->processor[round - 1] = done.processor;
	if (t->slices) {
		t->slices->slice = done.slice;
		t->slices->slice_max = done.slice_max;
	}
	return 0;
}

/* Cases with packets in this process start at once: their rounds are cut into pieces, so that the sides alternate
 * faster than the machine's speed drifts. */
static unsigned pieces(const struct bench_case *c, double seconds)
{
	const double n = seconds / PIECE;

	return c->unit || n < 2 ? 1 : n > PIECES ? PIECES : (unsigned)n;
}

static void summarise(struct rounds *t, unsigned n, bool less)
{
	qsort(t->value, n, sizeof(double), by_value);
	qsort(t->tail, n, sizeof(double), by_value);
	qsort(t->processor, n, sizeof(double), by_value);
	t->side->value = quantile(t->value, n, 0.5);
	t->side->best = t->value[less ? 0 : n - 1];
	t->side->tail = quantile(t->tail, n, 0.5);
	t->side->processor = quantile(t->processor, n, 0.5);
	t->side->spread = (quantile(t->value, n, 0.75) - quantile(t->value, n, 0.25)) / t->side->value;
}

static void compare(const struct bench_case *c, struct bench_result *result, struct rounds *side, unsigned sides,
		    unsigned rounds)
{
	const bool less = !c->unit || c->less;
	double base;

	for (unsigned k = 0; k < sides; k++)
		if (!*side[k].side->skipped)
			summarise(&side[k], rounds, less);
	/* If the baseline is skipped, the first of the others that is not. */
	for (unsigned i = 0; i < BENCH_OTHERS && c->other[i].run; i++)
		if (*bench_against(result)->skipped)
			result->against = (int)i;
	base = bench_against(result)->value;
	for (unsigned k = 0; k < sides; k++) {
		struct bench_side *s = side[k].side;

		if (!*s->skipped && c->run_baseline)
			s->ratio = less ? base / s->value : s->value / base;
	}
}

/* A round of each side. */
static int take_round(const struct bench_case *c, void *state, const struct bench_options *o, struct rounds *side,
		      unsigned sides, unsigned round, struct bench_why *why)
{
	const unsigned n = round ? pieces(c, o->round_seconds) : 1;

	for (unsigned k = 0; k < sides; k++)
		side[k].units = side[k].cycles = 0;
	for (unsigned i = 0; i < n * sides; i++) {
		struct rounds *t = &side[i % sides];
		int r = *t->side->skipped ? 0 : take_piece(c, state, t, o->round_seconds / n, round, why);

		if (r && r != -EINTR && (t->other || (t->optional && r == BENCH_SKIPPED))) {
			snprintf(t->side->skipped, sizeof(t->side->skipped), "%s",
				 *why->text ? why->text : strerror(-r));
			r = 0;
		}
		if (r)
			return r;
	}
	return 0;
}

int bench_run(const struct bench_case *c, const struct bench_options *o, struct bench_result *result,
	      struct bench_why *why)
{
	struct rounds side[SIDES] = {{.run = c->run, .side = &result->mine, .slices = result}};
	unsigned sides = 1, rounds = c->once ? 1 : o->rounds;
	void *state = NULL;
	int r;

	if (o->rounds < 1 || o->rounds > BENCH_ROUNDS_MAX)
		return -EINVAL;
	*result = (struct bench_result){.against = -1};
	if (c->run_baseline)
		side[sides++] = (struct rounds){
			.run = c->run_baseline, .side = &result->baseline, .optional = c->other[0].run != NULL};
	for (unsigned i = 0; i < BENCH_OTHERS && c->other[i].run; i++)
		side[sides++] = (struct rounds){.run = c->other[i].run, .side = &result->other[i], .other = true};
	r = c->open(o, &state, why);
	if (r)
		return r;
	/* A first round of each is not counted: it warms caches and page tables. Then the sides alternate, so that
	 * other load of the machine hits all alike. */
	for (unsigned i = c->once || c->fresh; i <= rounds && !r; i++)
		r = take_round(c, state, o, side, sides, i, why);
	c->close(state);
	if (!r)
		compare(c, result, side, sides, rounds);
	return r;
}
