/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a device's cores against closed forms, and against a recursion of this program's own. */
#include <math.h>

#include "../../testbed/device/cores.h"
#include "../../testbed/random.h"
#include "../lib/suite.h"

static struct sp_cores cores;

static void start(uint32_t n)
{
	CU_ASSERT_EQUAL_FATAL(sp_cores_init(&cores, n), 0);
}

static struct sp_core_place job(sp_time at, sp_time length)
{
	return sp_cores_take(&cores, at, at, length, SP_CORES_ANY);
}

/* ---- closed forms ---- */

/* Periodic arrivals, constant service: no waits up to the capacity; beyond it the n-th job of N cores starts when the
 * job N before it ends. */
TEST(periodic_jobs_of_one_length_start_as_the_closed_form_says)
{
	for (uint32_t n = 1; n <= 33; n += 4)
		for (sp_time every = 1; every < 40; every += 3) {
			const sp_time length = 100;
			sp_time sum = 0;

			start(n);
			for (uint32_t i = 0; i < 200; i++) {
				const sp_time at = i * every, slow = i % n * every + i / n * length;
				const struct sp_core_place p = job(at, length);

				CU_ASSERT_EQUAL(p.start, length > n * every ? slow : at);
				CU_ASSERT_EQUAL(p.end, p.start + length);
				sum += length;
			}
			CU_ASSERT_EQUAL(cores.busy, sum);
			CU_ASSERT_EQUAL(cores.jobs, 200);
			sp_cores_free(&cores);
		}
}

static double exponential(struct sp_random *r, double mean)
{
	return -mean * log(((double)(sp_random_next(r) >> 11) + 0.5) * 0x1p-53);
}

/* The mean wait of jobs that arrive at random (Poisson), with this share of the cores' capacity. */
static double mean_wait(uint32_t n, double load, bool constant, unsigned jobs)
{
	const double length = 1e6;
	struct sp_random r;
	double at = 0, sum = 0;

	sp_random_seed(&r, 7, n);
	start(n);
	for (unsigned i = 0; i < jobs; i++) {
		at += exponential(&r, length / load / n);
		sum += (double)(job((sp_time)at, (sp_time)(constant ? length : exponential(&r, length))).start -
				(sp_time)at);
	}
	sp_cores_free(&cores);
	return sum / jobs / length;
}

/* Pollaczek and Khinchine: M/D/1 waits load / (2 (1 - load)) lengths. */
TEST(random_arrivals_of_constant_length_wait_as_pollaczek_and_khinchine_say)
{
	for (double load = 0.3; load < 0.85; load += 0.25) {
		const double expected = load / (2 * (1 - load));

		CU_ASSERT_DOUBLE_EQUAL(mean_wait(1, load, true, 400000) / expected, 1, 0.04);
	}
}

/* Erlang: M/M/c waits C / (c (1 - load)) lengths, with the probability C that all cores are busy. */
TEST(random_jobs_on_several_cores_wait_as_erlang_says)
{
	for (uint32_t n = 1; n <= 8; n *= 2) {
		const double load = 0.8, a = load * n;
		double term = 1, sum = 0, c;

		for (uint32_t i = 0; i < n; i++) {
			sum += term;
			term *= a / (i + 1);
		}
		c = term / (1 - load) / (sum + term / (1 - load));
		CU_ASSERT_DOUBLE_EQUAL(mean_wait(n, load, false, 400000) / (c / (n * (1 - load))), 1, 0.05);
	}
}

/* ---- against a recursion ---- */

static int ascending(const void *a, const void *b)
{
	const sp_time x = *(const sp_time *)a, y = *(const sp_time *)b;

	return (x > y) - (x < y);
}

/* Kiefer and Wolfowitz: the work left for each core, in order; a job waits for the least. */
TEST(jobs_that_are_ready_start_first_come_first_served)
{
	struct sp_random r;

	for (uint32_t n = 1; n <= 16; n++) {
		sp_time left[16] = {0}, at = 0;

		sp_random_seed(&r, n, 0);
		start(n);
		for (unsigned i = 0; i < suite_times(4000); i++) {
			const sp_time gap = sp_random_next(&r) % 50, length = sp_random_next(&r) % (80 * n);

			at += gap;
			for (uint32_t k = 0; k < n; k++)
				left[k] = left[k] > gap ? left[k] - gap : 0;
			CU_ASSERT_EQUAL(job(at, length).start, at + left[0]);
			left[0] += length;
			qsort(left, n, sizeof(*left), ascending);
		}
		sp_cores_free(&cores);
	}
}

/* ---- jobs that must wait ---- */

TEST(a_gap_before_a_job_that_waits_is_filled_by_later_ones)
{
	struct sp_core_place p;

	start(1);
	p = sp_cores_take(&cores, 0, 100, 10, SP_CORES_ANY); /* for another one, until 100 */
	CU_ASSERT_EQUAL(p.start, 100);
	p = sp_cores_take(&cores, 0, 0, 60, SP_CORES_ANY);
	CU_ASSERT_EQUAL(p.start, 0);
	p = sp_cores_take(&cores, 0, 0, 41, SP_CORES_ANY); /* does not fit: 40 are left */
	CU_ASSERT_EQUAL(p.start, 110);
	p = sp_cores_take(&cores, 50, 50, 40, SP_CORES_ANY);
	CU_ASSERT_EQUAL(p.start, 60);
	CU_ASSERT_EQUAL(cores.gaps, 0);
	sp_cores_free(&cores);
}

TEST(jobs_of_a_core_run_there)
{
	start(2);
	CU_ASSERT_EQUAL(sp_cores_take(&cores, 0, 0, 10, 1).core, 1);
	CU_ASSERT_EQUAL(sp_cores_take(&cores, 0, 0, 10, 1).start, 10);
	CU_ASSERT_EQUAL(sp_cores_take(&cores, 0, 0, 10, 3).start, 20); /* the fourth of two */
	CU_ASSERT_EQUAL(sp_cores_take(&cores, 0, 0, 10, 0).start, 0);
	sp_cores_free(&cores);
}

struct span {
	uint32_t core;
	sp_time start, end;
};

static int by_core(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->core != y->core)
		return x->core < y->core ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* Conservation: each job runs once, for its length, not before it is ready, and alone on its core. */
TEST(no_two_jobs_share_a_core)
{
	enum { JOBS = 3000 };
	static struct span span[JOBS];
	struct sp_random r;

	for (uint32_t n = 1; n <= 12; n++) {
		sp_time at = 0, sum = 0;

		sp_random_seed(&r, 99, n);
		start(n);
		for (unsigned i = 0; i < JOBS; i++) {
			const sp_time length = sp_random_next(&r) % 100, late = sp_random_next(&r) % 4 ? 0 : 300;
			const int core = sp_random_next(&r) % 8 ? SP_CORES_ANY : (int)(sp_random_next(&r) % n);
			struct sp_core_place p;

			at += sp_random_next(&r) % (100 / n + 1);
			p = sp_cores_take(&cores, at, at + late, length, core);
			CU_ASSERT_TRUE(p.start >= at + late && p.end == p.start + length && p.core < n);
			CU_ASSERT_TRUE(core == SP_CORES_ANY || p.core == (uint32_t)core);
			span[i] = (struct span){p.core, p.start, p.end};
			sum += length;
		}
		CU_ASSERT_EQUAL(cores.busy, sum);
		qsort(span, JOBS, sizeof(*span), by_core);
		for (unsigned i = 1; i < JOBS; i++)
			CU_ASSERT_TRUE(span[i].core != span[i - 1].core || span[i].start >= span[i - 1].end);
		sp_cores_free(&cores);
	}
}

TEST(there_are_cores_and_not_too_many)
{
	CU_ASSERT_EQUAL(sp_cores_init(&cores, 0), -EINVAL);
	CU_ASSERT_EQUAL(sp_cores_init(&cores, SP_CORES_MOST + 1), -EINVAL);
}
