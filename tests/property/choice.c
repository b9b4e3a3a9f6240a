/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheme that picks itself, against the testbed's model, which is other code: its times are exact, or means of many
 * samples where that would take long. Losses are drawn, or told as they are on average.
 */
#include <math.h>

#include "../../handlers/reliability/choice.h"
#include "../../testbed/model.h"
#include "../../testbed/random.h"
#include "../lib/suite.h"

#define CHUNK	     65536u
#define MTU	     4096u
#define PACKETS	     (CHUNK / MTU)
#define KIB	     ((uint64_t)1024)
#define MIB	     (1024 * KIB)
#define GIB	     (1024 * MIB)
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct cell {
	double bandwidth, rtt, drop; /* drop: of a chunk */
	uint64_t bytes;
};

static bool same(struct sp_choice a, struct sp_choice b)
{
	return a.scheme == b.scheme && a.k == b.k && a.m == b.m;
}

static unsigned said;

static void expect(bool right, const char *what, const struct cell *c, struct sp_choice choice, double value)
{
	if (!right && said++ < 20)
		printf("# %s: %g bit/s, rtt %g s, %llu bytes, chunk drop %g: scheme %d (%u,%u): %g\n", what,
		       c->bandwidth, c->rtt, (unsigned long long)c->bytes, c->drop, choice.scheme, choice.k, choice.m,
		       value);
	CU_ASSERT(right);
}

static struct sp_choice_path path_of(const struct cell *c)
{
	return (struct sp_choice_path){.bandwidth = c->bandwidth, .rtt = c->rtt, .rto = 3, .nack = 1, .fallback = 2.5};
}

static struct sp_choice_size size_of(const struct cell *c)
{
	return (struct sp_choice_size){.bytes = c->bytes, .chunk = CHUNK, .mtu = MTU};
}

/* What the message takes in the model. */
static double truth(const struct cell *c, struct sp_choice choice)
{
	const struct sp_model model = {
		.bandwidth = c->bandwidth,
		.rtt = c->rtt,
		.message = c->bytes,
		.chunk = CHUNK,
		.drop = c->drop,
		.scheme = choice.scheme == SP_CHOICE_EC_MDS   ? SP_MODEL_EC_MDS
			  : choice.scheme == SP_CHOICE_EC_XOR ? SP_MODEL_EC_XOR
							      : SP_MODEL_SR,
		.rto = choice.scheme == SP_CHOICE_SR_RTO ? 3 : 1,
		.k = choice.k,
		.m = choice.m,
		.beta = 0.5,
	};
	struct sp_model_outcome outcome;
	double mean;

	if (c->bytes <= 8 * MIB) {
		CU_ASSERT_FATAL(!sp_model_mean(&model, &mean));
		return mean;
	}
	CU_ASSERT_FATAL(!sp_model_run(&model, 600, 1, NULL, &outcome));
	return outcome.mean;
}

static double best_truth(const struct cell *c)
{
	double best = HUGE_VAL;

	for (unsigned i = 0; i < SP_CHOICE_CANDIDATES; i++)
		best = fmin(best, truth(c, sp_choice_candidate[i]));
	return best;
}

static const uint64_t sizes[] = {128 * KIB, MIB, 8 * MIB, 64 * MIB, GIB};
static const double drops[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 5e-2}, rtts[] = {1e-3, 25e-3, 100e-3};
static const double bandwidths[] = {10e9, 400e9};

/* Loss is per chunk, or per packet. */
static void each_cell(void (*run)(const struct cell *))
{
	for (unsigned b = 0; b < COUNT(bandwidths); b++)
		for (unsigned r = 0; r < COUNT(rtts); r++)
			for (unsigned s = 0; s < COUNT(sizes); s++)
				for (unsigned d = 0; d < 2 * COUNT(drops); d++) {
					const double drop = drops[d / 2];
					const struct cell c = {bandwidths[b], rtts[r],
							       d % 2 ? sp_model_chunk_drop(drop, PACKETS) : drop,
							       sizes[s]};

					run(&c);
				}
}

/* ---- losses told to the sender ---- */

/* Each chunk on its own. */
static void tell_drawn(struct sp_loss *l, struct sp_random *r, double drop, uint64_t chunks)
{
	uint64_t lost = 0, runs = 0;
	bool before = false;

	for (uint64_t i = 0; i < chunks; i++) {
		const bool now = sp_random_chance(r, drop);

		lost += now;
		runs += now && !before;
		before = now;
	}
	sp_loss_add(l, chunks, chunks * PACKETS, lost, runs);
}

/* As many as there are on average. */
static void tell_average(struct sp_loss *l, double drop)
{
	const double lost = 64 / (1 - drop);

	sp_loss_add(l, (uint64_t)(lost / drop), (uint64_t)(lost / drop) * PACKETS, (uint64_t)lost, 64);
}

static struct sp_choice choice_at(const struct cell *c)
{
	const struct sp_choice_path path = path_of(c);
	const struct sp_choice_size size = size_of(c);
	struct sp_chooser chooser;
	struct sp_loss loss;

	sp_loss_init(&loss);
	sp_chooser_init(&chooser, NULL, 0);
	tell_average(&loss, c->drop);
	return sp_choose(&chooser, &path, &size, &loss);
}

/* ---- rules ---- */

static void within_a_few_percent(const struct cell *c)
{
	const struct sp_choice_path path = path_of(c);
	const struct sp_choice_size size = size_of(c);
	const struct sp_hazard hazard = {.rate = sp_hazard_rate(c->drop) / PACKETS};
	struct sp_choice_path better = path;

	better.lost_only = true; /* than the model */
	if (c->bytes > 8 * MIB)
		return;
	for (unsigned i = 0; i < SP_CHOICE_CANDIDATES; i++) {
		const struct sp_choice choice = sp_choice_candidate[i];
		const double time = sp_duration(&path, &size, &hazard, choice), ratio = time / truth(c, choice);

		expect(fabs(ratio - 1) < 0.04, "expected over true", c, choice, ratio);
		expect(sp_duration(&better, &size, &hazard, choice) <= time * (1 + 1e-9), "not better", c, choice,
		       time);
	}
}

TEST_CALL(the_expected_times_are_the_models, each_cell(within_a_few_percent))

/* Any code, MDS and XOR, also groups of different sizes. */
TEST(codes_fail_as_often_as_the_model_says)
{
	struct sp_random random;

	sp_random_seed(&random, 17, 0);
	for (unsigned i = 0; i < 300; i++) {
		const unsigned k = 1 + (unsigned)(sp_random_next(&random) % 100);
		const unsigned m = 1 + (unsigned)(sp_random_next(&random) % k);
		const double drop = pow(10, -5.0 * (double)(sp_random_next(&random) % 1000) / 1000);
		const bool mds = i % 2;
		const struct sp_choice choice = {mds ? SP_CHOICE_EC_MDS : SP_CHOICE_EC_XOR, (uint8_t)k, (uint8_t)m};
		const double wanted = (mds ? sp_model_mds_fails : sp_model_xor_fails)(k, m, drop);
		const struct cell c = {.drop = drop};

		expect(fabs(sp_duration_fails(choice, k, drop, 0) - wanted) <= 1e-6 * wanted + 1e-11, "fails", &c,
		       choice, wanted);
	}
}

static void near_the_best(const struct cell *c)
{
	const struct sp_choice choice = choice_at(c);
	const double ratio = truth(c, choice) / best_truth(c);

	expect(ratio <= 1.1, "over the best", c, choice, ratio);
}

TEST_CALL(a_known_path_gets_a_scheme_within_10_percent_of_the_best, each_cell(near_the_best))

/* From nothing known, message after message, over a long fat link. */
TEST(learning_costs_at_most_30_percent_and_ends_near_the_best)
{
	static const double some[] = {1e-6, 1e-4, 1e-3, 1e-2};

	for (unsigned s = 0; s < COUNT(sizes); s++)
		for (unsigned d = 0; d < COUNT(some); d++) {
			const struct cell c = {400e9, 25e-3, some[d], sizes[s]};
			const uint64_t chunks = c.bytes / CHUNK, warm = 8192 / chunks + 8;
			const struct sp_choice_path path = path_of(&c);
			const struct sp_choice_size size = size_of(&c);
			double time[SP_CHOICE_CANDIDATES] = {0}, best = best_truth(&c), late = 0;
			struct sp_chooser chooser;
			struct sp_random random;
			struct sp_loss loss;

			sp_random_seed(&random, 7, s * COUNT(some) + d);
			sp_loss_init(&loss);
			sp_chooser_init(&chooser, NULL, 0);
			for (uint64_t i = 0; i < warm + 16; i++) {
				const struct sp_choice choice = sp_choose(&chooser, &path, &size, &loss);
				unsigned n = 0;

				while (!same(choice, sp_choice_candidate[n]))
					n++;
				time[n] = time[n] > 0 ? time[n] : truth(&c, choice);
				expect(time[n] / best <= 1.3, "over the best while learning", &c, choice,
				       time[n] / best);
				late += i < warm ? 0 : time[n] / 16;
				tell_drawn(&loss, &random, c.drop, chunks);
			}
			expect(late / best <= 1.1, "over the best after warm-up", &c, chooser.choice, late / best);
		}
}

/* In chunks: how many it takes until the estimate is within a factor of 2 of what the path does now. */
TEST(the_estimate_follows_the_path)
{
	static const double turn[] = {1e-2, 1e-4, 3e-2, 1e-3, 0.3, 1e-2, 1e-3};
	struct sp_loss_known known;
	struct sp_random random;
	struct sp_loss loss;

	for (unsigned seed = 0; seed < 20; seed++) {
		sp_random_seed(&random, seed, 0);
		sp_loss_init(&loss);
		for (unsigned t = 0; t < COUNT(turn); t++) {
			const struct cell c = {.drop = turn[t]};

			for (unsigned i = 0; i < 25 + t; i++)
				tell_drawn(&loss, &random, turn[t], (uint64_t)(2 / turn[t]));
			sp_loss_known(&loss, &known);
			double chance = known.lost[known.rates / 2] / turn[t];
			expect(chance > 0.4 && chance < 2.5, "estimate over true", &c, sp_choice_candidate[0], chance);
			CU_ASSERT(known.packets == PACKETS);
		}
	}
}

/* 1e-2 and a long message: parity is worth it. None any more: it is not. */
TEST(the_choice_follows_the_path)
{
	const struct cell c = {10e9, 25e-3, 1e-2, 64 * MIB};
	const struct sp_choice_path path = path_of(&c);
	const struct sp_choice_size size = size_of(&c);
	struct sp_chooser chooser;
	struct sp_random random;
	struct sp_loss loss;

	sp_random_seed(&random, 3, 0);
	sp_loss_init(&loss);
	sp_chooser_init(&chooser, NULL, 0);
	for (unsigned turn = 0; turn < 4; turn++) {
		for (unsigned i = 0; i < 20; i++) {
			sp_choose(&chooser, &path, &size, &loss);
			tell_drawn(&loss, &random, turn % 2 ? 0 : c.drop, size.bytes / CHUNK);
		}
		expect((chooser.choice.k == 0) == (turn % 2 == 1), "erasure coding where it pays", &c, chooser.choice,
		       turn);
	}
	CU_ASSERT(chooser.changes >= 3);
}

static uint64_t changes_at(const struct cell *c, uint64_t messages)
{
	const struct sp_choice_path path = path_of(c);
	const struct sp_choice_size size = size_of(c);
	struct sp_chooser chooser;
	struct sp_random random;
	struct sp_loss loss;
	uint64_t learned = 0;

	sp_random_seed(&random, 11, c->bytes);
	sp_loss_init(&loss);
	sp_chooser_init(&chooser, NULL, 0);
	for (uint64_t i = 0; i < messages + 20; i++) {
		if (i == 20)
			learned = chooser.changes;
		sp_choose(&chooser, &path, &size, &loss);
		/* Of short messages there are others between these. */
		tell_drawn(&loss, &random, c->drop, size.bytes < 32 * MIB ? 512 : size.bytes / CHUNK);
	}
	return chooser.changes - learned;
}

/* Where the choice goes from one to another two are equally good: it is not to go to and fro with the estimate. */
TEST(nothing_flaps_at_a_boundary)
{
	unsigned boundaries = 0;

	for (unsigned s = 0; s < COUNT(sizes); s++) {
		struct cell low = {100e9, 25e-3, 1e-4, sizes[s]}, high = low, between = low;
		uint64_t changes;

		for (; high.drop < 0.1; low = high) {
			struct sp_choice choice = choice_at(&low), other;

			high.drop = low.drop * 1.2;
			other = choice_at(&high);
			if (same(choice, other))
				continue;
			between.drop = sqrt(low.drop * high.drop);
			changes = changes_at(&between, 300);
			expect(changes <= 4, "changes in 300 messages", &between, choice, (double)changes);
			boundaries++;
		}
	}
	CU_ASSERT(boundaries >= COUNT(sizes));
}

struct chain {
	double drop, correlation;
	bool lost;
};

static bool chain_next(struct chain *c, struct sp_random *r)
{
	return c->lost = sp_random_chance(r, c->drop * (1 - c->correlation) + (c->lost ? c->correlation : 0));
}

TEST(bursts_are_counted_as_they_fall)
{
	static const struct {
		unsigned n, most;
		double drop, correlation;
	} trial[] = {{40, 8, 0.1, 0}, {40, 8, 0.1, 0.8}, {12, 4, 0.2, 0.5}, {5, 1, 0.05, 0.9}, {64, 32, 0.5, 0.7}};
	const unsigned samples = 40000;
	struct sp_random random;

	sp_random_seed(&random, 5, 0);
	for (unsigned t = 0; t < COUNT(trial); t++) {
		const double p = sp_duration_more_lost(trial[t].n, trial[t].most, trial[t].drop, trial[t].correlation);
		unsigned beyond = 0;

		for (unsigned i = 0; i < samples; i++) {
			struct chain c = {trial[t].drop, trial[t].correlation, false};
			unsigned lost;

			lost = c.lost = sp_random_chance(&random, c.drop);
			for (unsigned j = 1; j < trial[t].n; j++)
				lost += chain_next(&c, &random);
			beyond += lost > trial[t].most;
		}
		CU_ASSERT(fabs((double)beyond / samples - p) < 5 * sqrt(p * (1 - p) / samples) + 1e-9);
	}
}

/* Bursts of 16 chunks on average: (32,8) is no help, and the sender comes to know so. */
TEST(bursts_longer_than_parity_are_left_to_repeats)
{
	const struct cell cell = {400e9, 25e-3, 1e-2, 128 * MIB};
	const struct sp_choice_path path = path_of(&cell);
	const struct sp_choice_size size = size_of(&cell);
	struct chain c = {.drop = cell.drop};
	struct sp_chooser apart, together;
	struct sp_loss_known known;
	struct sp_random random;
	struct sp_loss loss;
	double fails[2];

	sp_random_seed(&random, 9, 0);
	sp_chooser_init(&apart, NULL, 0);
	sp_chooser_init(&together, NULL, 0);
	sp_loss_init(&loss);
	tell_drawn(&loss, &random, c.drop, 4000);
	sp_choose(&apart, &path, &size, &loss);
	c.correlation = 1 - 1 / (16 * (1 - c.drop));
	sp_loss_init(&loss);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t lost = 0, runs = 0;

		for (unsigned j = 0; j < 1000; j++) {
			const bool before = c.lost, now = chain_next(&c, &random);

			lost += now;
			runs += now && !(before && j);
		}
		sp_loss_add(&loss, 1000, 1000 * PACKETS, lost, runs);
		sp_choose(&together, &path, &size, &loss);
	}
	sp_loss_known(&loss, &known);
	CU_ASSERT(known.correlation > 0.88 && known.correlation < 0.97);
	for (unsigned i = 0; i < 2; i++)
		fails[i] = sp_duration_fails((i ? together : apart).choice, 32, c.drop, c.correlation);
	CU_ASSERT(apart.choice.k > 0);
	CU_ASSERT(!together.choice.k || fails[1] < fails[0] / 2);
}

TEST(codes_that_do_not_keep_up_are_not_chosen)
{
	const struct cell c = {400e9, 25e-3, 1e-3, 128 * MIB};
	const struct sp_choice_size size = size_of(&c);
	struct sp_choice_path path = path_of(&c);
	struct sp_chooser chooser;
	struct sp_loss loss;

	sp_loss_init(&loss);
	tell_average(&loss, c.drop);
	sp_chooser_init(&chooser, NULL, 0);
	CU_ASSERT(sp_choose(&chooser, &path, &size, &loss).k > 0);
	path.encode = 1e9; /* 0.4 s for three rows of 128 MiB */
	sp_chooser_init(&chooser, NULL, 0);
	CU_ASSERT(sp_choose(&chooser, &path, &size, &loss).k == 0);
	path.encode = 0;
	path.decode = 1e7; /* 0.63 s for three rows of (32, m) */
	sp_chooser_init(&chooser, NULL, 0);
	CU_ASSERT(sp_choose(&chooser, &path, &size, &loss).k == 0);
}

TEST(only_what_the_caller_has_is_chosen)
{
	const struct sp_choice some[] = {{SP_CHOICE_SR_NACK, 0, 0}, {SP_CHOICE_EC_MDS, 20, 5}};
	const struct cell c = {400e9, 25e-3, 1e-3, 128 * MIB};
	const struct sp_choice_path path = path_of(&c);
	const struct sp_choice_size size = size_of(&c);
	struct sp_chooser chooser;
	struct sp_loss loss;

	sp_loss_init(&loss);
	tell_average(&loss, c.drop);
	sp_chooser_init(&chooser, some, 1);
	CU_ASSERT(same(sp_choose(&chooser, &path, &size, &loss), some[0]));
	sp_chooser_init(&chooser, some, 2);
	CU_ASSERT(same(sp_choose(&chooser, &path, &size, &loss), some[1]));
	sp_chooser_init(&chooser, sp_choice_candidate, 1000);
	CU_ASSERT(chooser.candidates == SP_CHOICE_CANDIDATES);
}

static double any(struct sp_random *r)
{
	static const double odd[] = {0,	    -0.0,   1,	    -1,	    NAN, INFINITY, -INFINITY,
				     1e300, -1e300, 5e-324, 1e-300, 1e9, 1e-9};
	const uint64_t bits = sp_random_next(r);
	double value;

	if (bits % 2)
		return odd[bits / 2 % COUNT(odd)];
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint64_t any_number(struct sp_random *r)
{
	const uint64_t bits = sp_random_next(r);

	return bits % 5 ? bits >> (bits / 5 % 64) : bits % 2 ? 0 : UINT64_MAX;
}

static bool is_candidate(struct sp_choice c)
{
	for (unsigned i = 0; i < SP_CHOICE_CANDIDATES; i++)
		if (same(c, sp_choice_candidate[i]))
			return true;
	return false;
}

TEST(whatever_is_told_the_choice_is_a_candidate_and_times_are_times)
{
	struct sp_chooser chooser;
	struct sp_random r;
	struct sp_loss loss;

	sp_random_seed(&r, 13, 0);
	sp_loss_init(&loss);
	sp_chooser_init(&chooser, NULL, 0);
	for (unsigned i = 0; i < 10000; i++) {
		const struct sp_choice_path path = {.bandwidth = any(&r),
						    .rtt = any(&r),
						    .rto = any(&r),
						    .nack = any(&r),
						    .fallback = any(&r),
						    .lost_only = i % 2,
						    .encode = any(&r),
						    .decode = any(&r)};
		const struct sp_choice_size size = {any_number(&r), (uint32_t)any_number(&r), (uint32_t)any_number(&r)};
		const struct sp_hazard hazard = {any(&r), any(&r)};
		const struct sp_choice odd = {(enum sp_choice_scheme)(any_number(&r) % 7), (uint8_t)any_number(&r),
					      (uint8_t)any_number(&r)};

		if (i % 100 == 0)
			sp_loss_init(&loss);
		sp_loss_add(&loss, any_number(&r), any_number(&r), any_number(&r), any_number(&r));
		CU_ASSERT(is_candidate(sp_choose(&chooser, &path, &size, &loss)));
		CU_ASSERT(isfinite(chooser.expected) && chooser.expected > 0);
		double time = sp_duration(&path, &size, &hazard, i % 4 ? odd : chooser.choice);
		CU_ASSERT(isfinite(time) && time > 0);
		time = sp_duration_fails(odd, (unsigned)any_number(&r), any(&r), any(&r));
		CU_ASSERT(time >= 0 && time <= 1);
	}
}
