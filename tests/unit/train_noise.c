/* SPDX-License-Identifier: BSD-3-Clause */
/* Training on hosts that stand still now and then: a step is as long as its slowest worker's; handlers do not notice.
 */
#include "../../testbed/motif/stalls.h"
#include "../../testbed/motif/train.h"
#include "../lib/suite.h"

#define LATENCY SP_US
#define WORKERS 13u
#define STEPS	40u

/* Of each 100 us: 10 us at 20 us, 1 us at 31 us, and 5 us at 95 us. */
static const sp_time begins[] = {20 * SP_US, 31 * SP_US, 95 * SP_US};
static const sp_time lengths[] = {10 * SP_US, SP_US, 5 * SP_US};
static struct goal_detours detours;
static struct stalls stalls;
static struct train *train;
static struct train_outcome outcome;

static void noise(uint32_t ranks, uint64_t seed)
{
	CU_ASSERT_EQUAL_FATAL(goal_detours_set(&detours, begins, lengths, 3), 0);
	CU_ASSERT_EQUAL_FATAL(stalls_create(&stalls, &detours, ranks, false, seed), 0);
}

static void quiet(void)
{
	stalls_free(&stalls);
	goal_detours_free(&detours);
}

static void run(struct train_config c, bool noisy)
{
	struct train_world world = {.nic = {{100000000000, LATENCY}}, .arg = &stalls};

	world.stretch = noisy ? stalls_stretch : NULL;
	c.steps = c.steps ? c.steps : STEPS;
	c.segments = 1;
	CU_ASSERT_EQUAL_FATAL(train_create(&c, &train), 0);
	CU_ASSERT_EQUAL_FATAL(train_run(train, &world, &outcome), 0);
}

static void end(void)
{
	train_outcome_free(&outcome);
	train_destroy(train);
}

static bool stands_still(sp_time at)
{
	for (unsigned i = 0; i < 3; i++)
		if (at % (100 * SP_US) >= begins[i] && at % (100 * SP_US) < begins[i] + lengths[i])
			return true;
	return false;
}

/* The same in steps of a ns: phases are cut to ns for it. */
static sp_time slowly(sp_time phase, sp_time from, sp_time work)
{
	for (; stands_still(phase + from) || work; from += SP_NS)
		work -= stands_still(phase + from) ? 0 : SP_NS;
	return from;
}

TEST(work_ends_when_a_clock_that_counts_no_detours_says_so)
{
	struct sp_random random;

	sp_random_seed(&random, 1, 0);
	noise(8, 1);
	for (unsigned i = 0; i < 200; i++) {
		const uint32_t rank = i % 8;
		const sp_time from = sp_random_next(&random) % 1000000 * SP_NS;
		const sp_time work = i % 5 ? sp_random_next(&random) % 150000 * SP_NS : 0;

		stalls.phase[rank] -= stalls.phase[rank] % SP_NS;
		CU_ASSERT_EQUAL(stalls_stretch(&stalls, rank, 0, from, work), slowly(stalls.phase[rank], from, work));
	}
	quiet();
}

static sp_time later(sp_time a, sp_time b)
{
	return a > b ? a : b;
}

TEST(a_step_ends_a_barrier_after_the_slowest_worker)
{
	noise(WORKERS, 7);
	for (uint32_t i = 0; i < WORKERS; i++)
		stalls.phase[i] -= stalls.phase[i] % SP_NS;
	run((struct train_config){.scheme = TRAIN_BARRIER, .workers = WORKERS, .compute = 50000, .offload = true},
	    true);
	sp_time at[WORKERS] = {0};
	for (uint32_t step = 0; step < STEPS; step++) {
		sp_time slowest = 0;

		for (uint32_t i = 0; i < WORKERS; i++) {
			at[i] = slowly(stalls.phase[i], at[i], 50 * SP_US);
			slowest = later(slowest, at[i]);
		}
		for (uint32_t away = 1; away < WORKERS; away *= 2) {
			sp_time next[WORKERS];

			for (uint32_t i = 0; i < WORKERS; i++)
				next[i] = later(at[i], at[(i + WORKERS - away) % WORKERS] + LATENCY);
			memcpy(at, next, sizeof(at));
		}
		for (uint32_t i = 0; i < WORKERS; i++)
			CU_ASSERT(at[i] >= slowest);
		CU_ASSERT_EQUAL(outcome.step[step], slowest + 4 * LATENCY);
	}
	end();
	quiet();
}

TEST(with_noise_on_one_host_alone_every_step_is_as_long_as_its)
{
	sp_time now = 0;

	noise(WORKERS + 1, 3);
	run((struct train_config){.scheme = TRAIN_BARRIER, .workers = WORKERS, .compute = 70000, .offload = true},
	    false);
	CU_ASSERT_EQUAL(outcome.all.end, STEPS * (70 * SP_US + 4 * LATENCY));
	end();
	for (uint32_t i = 0; i < WORKERS; i++)
		stalls.phase[i] = i == 4 ? 0 : 60 * SP_US; /* the others begin at 60 us: a few us are lost at 95 */
	run(
		(struct train_config){
			.scheme = TRAIN_BARRIER, .workers = WORKERS, .compute = 20000, .offload = true, .steps = 1},
		true);
	/* 20 us from 60 us on meet nothing. Rank 4's are over when the detour at 20 us begins. */
	CU_ASSERT_EQUAL(outcome.all.end, 20 * SP_US + 4 * LATENCY);
	end();
	run(
		(struct train_config){
			.scheme = TRAIN_BARRIER, .workers = WORKERS, .compute = 21000, .offload = true, .steps = 1},
		true);
	now = (21 + 10 + 4) *
	      SP_US; /* one us is left when the detour begins; it ends where the next begins, at 31 us */
	CU_ASSERT_EQUAL(outcome.all.end, now);
	end();
	quiet();
}

TEST(a_barrier_in_handlers_does_not_grow_with_noise_and_one_by_hosts_does)
{
	for (uint32_t workers = 2; workers <= 64; workers *= 2) {
		struct train_config c = {.scheme = TRAIN_BARRIER, .workers = workers, .offload = true, .steps = 400};
		sp_time silent;

		noise(workers, workers);
		run(c, false);
		silent = outcome.all.end;
		end();
		run(c, true);
		CU_ASSERT_EQUAL(outcome.all.end, silent);
		end();
		c.offload = false;
		run(c, false);
		CU_ASSERT_EQUAL(outcome.all.end, silent);
		end();
		run(c, true);
		CU_ASSERT(outcome.all.end > silent + silent / 10);
		end();
		quiet();
	}
}

TEST(a_server_of_handlers_does_not_feel_its_hosts_noise)
{
	for (unsigned offload = 0; offload < 2; offload++) {
		const sp_time message = 1000 * 80;
		const struct train_config c = {
			.scheme = TRAIN_PS, .workers = 4, .bytes = 1000, .offload = offload, .steps = 1};

		noise(5, 1);
		for (uint32_t i = 0; i < 4; i++)
			stalls.phase[i] = 40 * SP_US;
		stalls.phase[4] = 20 * SP_US; /* the server's host stands still for the first 10 us */
		run(c, true);
		CU_ASSERT_EQUAL(outcome.all.end,
				(offload ? LATENCY + 4 * message : 10 * SP_US) + LATENCY + 4 * message);
		end();
		quiet();
	}
}

TEST(asynchronous_workers_do_not_wait_for_the_slowest_and_no_update_is_lost)
{
	const struct train_config async = {.scheme = TRAIN_PS_ASYNC, .workers = 8, .bytes = 100, .compute = 50000};
	struct train_config ps = async;
	sp_time mean = 0, most = 0, waiting;

	ps.scheme = TRAIN_PS;
	noise(9, 5);
	run(async, true);
	CU_ASSERT_EQUAL(outcome.updates, 8 * STEPS);
	/* Of steps that all are as long, every update misses those of the 7 others since the one before. */
	CU_ASSERT(outcome.stale_sum <= 7 * 8 * STEPS && outcome.stale_sum >= 7 * 8 * (STEPS - 8));
	CU_ASSERT(outcome.stale_most >= 7 && outcome.stale_most < 21);
	for (uint32_t i = 0; i < 8; i++) {
		mean += outcome.node[i].end / 8;
		most = later(most, outcome.node[i].end);
	}
	end();
	run(ps, true);
	waiting = outcome.all.end;
	end();
	quiet();
	CU_ASSERT(most < waiting && mean <= most);
	/* Nothing disturbs: all answers come at once, one after the other. */
	run(async, false);
	CU_ASSERT_EQUAL(outcome.updates, 8 * STEPS);
	CU_ASSERT_EQUAL(outcome.stale_sum, 7 * 8 * STEPS - (7 + 6 + 5 + 4 + 3 + 2 + 1));
	CU_ASSERT_EQUAL(outcome.stale_most, 7);
	end();
}

TEST(detours_that_leave_next_to_nothing_are_refused)
{
	const sp_time at = SP_US, length = 99 * SP_US;

	CU_ASSERT_EQUAL_FATAL(goal_detours_set(&detours, &at, &length, 1), 0);
	CU_ASSERT_EQUAL(stalls_create(&stalls, &detours, 4, true, 1), -ERANGE);
	goal_detours_free(&detours);
}

/* ---- the network's noise ---- */
#define DRAWS 1000u

/* Latencies with a second mode: of 1000, 700 are 1 to 1.7 us and 300 are 9 us. */
static void drawn(struct goal_draws *d)
{
	uint64_t value[DRAWS];

	for (uint32_t i = 0; i < DRAWS; i++)
		value[i] = i < 700 ? SP_US + i * SP_NS : 9 * SP_US;
	CU_ASSERT_EQUAL_FATAL(goal_draws_set(d, value, DRAWS), 0);
}

/* Runs barriers with both kinds of noise, or one; when the last ended. */
static sp_time barriers(uint32_t workers, uint32_t steps, bool offload, bool os, const struct goal_draws *latency,
			uint64_t seed)
{
	struct train_world world = {.nic = {{100000000000, LATENCY}}, .arg = &stalls, .latency = latency, .seed = seed};
	const struct train_config c = {
		.scheme = TRAIN_BARRIER, .workers = workers, .offload = offload, .steps = steps, .segments = 1};
	sp_time took;

	world.overhead[TRAIN_HOST] = SP_US / 4;
	world.stretch = os ? stalls_stretch : NULL;
	CU_ASSERT_EQUAL_FATAL(train_create(&c, &train), 0);
	CU_ASSERT_EQUAL_FATAL(train_run(train, &world, &outcome), 0);
	took = outcome.all.end;
	end();
	return took;
}

TEST(handlers_of_1024_nics_feel_the_networks_noise_alone_and_hosts_feel_both)
{
	struct goal_draws latency;
	sp_time handlers, hosts;

	drawn(&latency);
	noise(1024, 1);
	handlers = barriers(1024, 3, true, false, &latency, 3);
	CU_ASSERT_EQUAL(barriers(1024, 3, true, true, &latency, 3), handlers);
	CU_ASSERT_NOT_EQUAL(barriers(1024, 3, true, true, &latency, 4), handlers);
	CU_ASSERT_EQUAL(barriers(1024, 3, true, true, NULL, 3), 3 * 10 * LATENCY);
	hosts = barriers(1024, 3, false, false, NULL, 3);
	CU_ASSERT_EQUAL(hosts, 3 * 10 * (LATENCY + SP_US / 2)); /* it sends, then it receives */
	CU_ASSERT(barriers(1024, 3, false, true, NULL, 3) > hosts + hosts / 2);
	CU_ASSERT(barriers(1024, 3, false, true, &latency, 3) > handlers);
	quiet();
	goal_draws_free(&latency);
}

/* The same by the recurrence of a dissemination, with draws of its own: 400 barriers in a row. */
TEST(drawn_latencies_make_a_barrier_as_long_as_its_recurrence_says)
{
	struct goal_draws latency;
	struct sp_random random;

	drawn(&latency);
	sp_random_seed(&random, 99, 0);
	for (uint32_t workers = 4; workers <= 64; workers *= 4) {
		sp_time at[64] = {0}, last = 0;
		double got;

		for (unsigned k = 0; k < 400; k++)
			for (uint32_t away = 1; away < workers; away *= 2) {
				sp_time then[64];

				for (uint32_t i = 0; i < workers; i++) {
					const uint64_t draw = sp_random_next(&random) % DRAWS;

					then[i] =
						later(at[i], at[(i + workers - away) % workers] + latency.value[draw]);
				}
				memcpy(at, then, sizeof(at));
			}
		for (uint32_t i = 0; i < workers; i++)
			last = later(last, at[i]);
		got = (double)barriers(workers, 400, true, false, &latency, workers) / (double)last;
		CU_ASSERT(got > 0.98 && got < 1.02);
	}
	goal_draws_free(&latency);
}
