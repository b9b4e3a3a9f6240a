/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates are held against four standard deviations of what was asked for, under fixed seeds. */
#include <math.h>

#include "../../testbed/in_flight.h"
#include "../../testbed/impairment.h"
#include "../lib/suite.h"

#define PACKETS 100000u

static struct sp_impairment impairment(struct sp_link_direction d, uint64_t seed)
{
	struct sp_impairment i;

	CU_ASSERT_EQUAL_FATAL(sp_link_check(&d), 0);
	sp_impairment_init(&i, &d, seed, 0);
	return i;
}

static bool is_rate(unsigned count, unsigned of, double p)
{
	return fabs(count - of * p) <= 4 * sqrt(of * p * (1 - p));
}

/* Two things that both happen as often as they would by chance. */
static bool are_independent(unsigned both, unsigned a, unsigned b, unsigned of)
{
	return is_rate(both, of, (double)a / of * b / of);
}

TEST(each_impairment_is_as_likely_as_asked_for_and_independent_of_the_others)
{
	struct sp_impairment i = impairment((struct sp_link_direction){.loss = 0.02,
								       .duplicate = 0.1,
								       .reorder = 0.05,
								       .reorder_delay = SP_US,
								       .corrupt = 0.08,
								       .jitter = 1000},
					    7);
	unsigned lost = 0, repeated = 0, corrupted[2] = {0}, reordered[2] = {0}, wide = 0, both[8] = {0}, last = 0;
	struct sp_fate f = {0};

	for (unsigned k = 0; k < PACKETS; k++) {
		const bool before = f.copies == 0;
		const bool c = (sp_impair(&i, 1000, k, &f), f.copy[0].corrupted), late = f.copy[0].reordered;
		const bool far = f.copy[0].arrival - f.in_turn - (late ? SP_US : 0) > 500;

		lost += f.copies == 0;
		repeated += f.repeated;
		wide += far;
		for (unsigned n = 0; n < 2; n++) {
			corrupted[n] += f.copy[n].corrupted;
			reordered[n] += f.copy[n].reordered;
		}
		last += k && before && f.copies == 0;
		both[0] += c && late;
		both[1] += c && f.copies == 0;
		both[2] += c && f.repeated;
		both[3] += c && f.copy[1].corrupted;
		both[4] += far && c;
		both[5] += far && late;
		both[6] += f.copies == 0 && f.repeated;
		both[7] += far && f.copies == 0;
	}
	CU_ASSERT(is_rate(lost, PACKETS, 0.02));
	CU_ASSERT(is_rate(repeated, PACKETS, 0.1));
	CU_ASSERT(is_rate(wide, PACKETS, 500.0 / 1001));
	for (unsigned n = 0; n < 2; n++) {
		CU_ASSERT(is_rate(corrupted[n], PACKETS, 0.08));
		CU_ASSERT(is_rate(reordered[n], PACKETS, 0.05));
	}
	CU_ASSERT(are_independent(last, lost, lost, PACKETS));
	CU_ASSERT(are_independent(both[0], corrupted[0], reordered[0], PACKETS));
	CU_ASSERT(are_independent(both[1], corrupted[0], lost, PACKETS));
	CU_ASSERT(are_independent(both[2], corrupted[0], repeated, PACKETS));
	CU_ASSERT(are_independent(both[3], corrupted[0], corrupted[1], PACKETS));
	CU_ASSERT(are_independent(both[4], wide, corrupted[0], PACKETS));
	CU_ASSERT(are_independent(both[5], wide, reordered[0], PACKETS));
	CU_ASSERT(are_independent(both[6], lost, repeated, PACKETS));
	CU_ASSERT(are_independent(both[7], wide, lost, PACKETS));
}

TEST(packet_fates_do_not_depend_on_other_settings)
{
	const struct sp_link_direction plain = {.loss = 0.1, .duplicate = 0.2, .reorder = 0.3, .corrupt = 0.1};
	struct sp_link_direction more = plain, bursts = plain;
	struct sp_impairment i[3];
	struct sp_fate f[3];

	more.jitter = 77;
	more.delay = SP_MS;
	CU_ASSERT_EQUAL_FATAL(sp_link_burst(&bursts, 3, 0.4), 0);
	i[0] = impairment(plain, 3);
	i[1] = impairment(more, 3);
	i[2] = impairment(bursts, 3);
	for (unsigned k = 0; k < 10000; k++) {
		for (unsigned n = 0; n < 3; n++)
			sp_impair(&i[n], 100, k, &f[n]);
		CU_ASSERT_EQUAL_FATAL(f[0].copies, f[1].copies);
		for (unsigned n = 1; n < 3; n++) {
			CU_ASSERT_EQUAL_FATAL(f[0].repeated, f[n].repeated);
			CU_ASSERT_EQUAL_FATAL(f[0].copy[0].reordered, f[n].copy[0].reordered);
			CU_ASSERT_EQUAL_FATAL(f[0].copy[1].corrupted, f[n].copy[1].corrupted);
			CU_ASSERT_EQUAL_FATAL(f[0].copy[1].bit, f[n].copy[1].bit);
		}
	}
}

TEST(jitter_is_uniform_from_nothing_to_what_was_asked_for)
{
	struct sp_impairment i = impairment((struct sp_link_direction){.delay = SP_MS, .jitter = 9}, 1);
	unsigned seen[10] = {0}, overtaken = 0;
	sp_time last = 0;
	struct sp_fate f;

	for (unsigned k = 0; k < PACKETS; k++) {
		sp_impair(&i, 100, 2 * k, &f);
		CU_ASSERT_EQUAL_FATAL(f.in_turn, SP_MS + 2 * k);
		CU_ASSERT_FATAL(f.copy[0].arrival >= f.in_turn && f.copy[0].arrival <= f.in_turn + 9);
		seen[f.copy[0].arrival - f.in_turn]++;
		overtaken += f.copy[0].arrival < last;
		last = f.copy[0].arrival;
	}
	for (unsigned k = 0; k < 10; k++)
		CU_ASSERT(is_rate(seen[k], PACKETS, 0.1));
	CU_ASSERT(overtaken > PACKETS / 10);
}

TEST(the_bit_that_is_inverted_may_be_any_of_the_frame)
{
	struct sp_impairment i = impairment((struct sp_link_direction){.corrupt = 1}, 2);
	unsigned seen[16] = {0};
	struct sp_fate f;

	for (unsigned k = 0; k < PACKETS; k++) {
		sp_impair(&i, 2, k, &f);
		CU_ASSERT_FATAL(f.copy[0].corrupted && f.copy[0].bit < 16);
		seen[f.copy[0].bit]++;
	}
	for (unsigned k = 0; k < 16; k++)
		CU_ASSERT(is_rate(seen[k], PACKETS, 1.0 / 16));
}

/* Lengths of bursts: 1 with probability 1/4, 2 with 3/16, ... */
TEST(bursts_are_geometric_with_the_mean_length_and_loss_asked_for)
{
	struct sp_link_direction d = {.loss = 0.5};
	unsigned seen[8] = {0}, bursts = 0, lost = 0, length = 0;
	double p = 0.25, deviation;
	struct sp_fate f;

	CU_ASSERT_EQUAL_FATAL(sp_link_burst(&d, 4, 0.1), 0);
	CU_ASSERT_EQUAL(d.loss, 0);
	struct sp_impairment i = impairment(d, 5);
	for (unsigned k = 0; k < PACKETS; k++) {
		sp_impair(&i, 100, k, &f);
		lost += !f.copies;
		if (!f.copies) {
			length++;
		} else if (length) {
			bursts++;
			seen[length < 8 ? length : 0]++;
			length = 0;
		}
	}
	/* Losses come together, so their number spreads more: by the chain's correlation r = 1 - begin - end. */
	deviation = sqrt(PACKETS * 0.1 * 0.9 * (2 - d.burst_begin - d.burst_end) / (d.burst_begin + d.burst_end));
	CU_ASSERT(fabs(lost - PACKETS * 0.1) <= 4 * deviation);
	CU_ASSERT(fabs((double)lost / bursts - 4) <= 4 * sqrt(12.0 / bursts)); /* variance (1 - p) / p^2 */
	for (unsigned k = 1; k < 8; k++, p *= 0.75)
		CU_ASSERT(is_rate(seen[k], bursts, p));
	CU_ASSERT(is_rate(seen[0], bursts, pow(0.75, 7)));
}

TEST(in_the_bad_state_its_own_loss_holds_and_in_the_good_state_the_other)
{
	struct sp_impairment i = impairment(
		(struct sp_link_direction){.loss = 0.1, .burst_begin = 0.02, .burst_end = 0.08, .burst_loss = 0.5}, 8);
	unsigned packets[2] = {0}, lost[2] = {0};
	struct sp_fate f;

	for (unsigned k = 0; k < PACKETS; k++) {
		const bool bad = i.bad;

		sp_impair(&i, 100, k, &f);
		packets[bad]++;
		lost[bad] += !f.copies;
	}
	CU_ASSERT(fabs(packets[1] - PACKETS * 0.2) <= 4 * sqrt(PACKETS * 0.2 * 0.8 * 1.9 / 0.1));
	CU_ASSERT(is_rate(lost[0], packets[0], 0.1));
	CU_ASSERT(is_rate(lost[1], packets[1], 0.5));
}

TEST(short_runs_meet_bursts_as_often_as_long_ones)
{
	struct sp_link_direction d = {0};
	unsigned lost = 0;
	struct sp_fate f;

	CU_ASSERT_EQUAL_FATAL(sp_link_burst(&d, 1000, 0.2), 0);
	for (unsigned seed = 0; seed < 10000; seed++) {
		struct sp_impairment i = impairment(d, seed);

		sp_impair(&i, 100, 0, &f);
		lost += !f.copies;
	}
	CU_ASSERT(is_rate(lost, 10000, 0.2));
}

TEST(bursts_that_cannot_be_are_refused_and_nothing_is_set)
{
	const double bad[][2] = {{0.9, 0.1}, {NAN, 0.1}, {-1, 0.1}, {INFINITY, 0.1}, {2, 1},
				 {2, NAN},   {2, -0.1},	 {1, 0.51}, {2, 0.67},	     {0, 0}};
	struct sp_link_direction d = {.loss = 0.25};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CU_ASSERT_EQUAL(sp_link_burst(&d, bad[i][0], bad[i][1]), -EINVAL);
	CU_ASSERT_EQUAL(d.loss, 0.25);
	CU_ASSERT_EQUAL(d.burst_begin, 0);
	CU_ASSERT_EQUAL(sp_link_burst(&d, 2, 0.66), 0);
	CU_ASSERT_EQUAL(sp_link_check(&d), 0);
}

TEST(a_distance_takes_as_long_as_in_the_sdr_paper)
{
	CU_ASSERT_EQUAL(sp_link_distance(3750), 12500 * SP_US); /* there and back 25 ms */
	CU_ASSERT_EQUAL(sp_link_distance(0), 0);
	CU_ASSERT_EQUAL(sp_link_distance(0.3), SP_US);
	CU_ASSERT_EQUAL(sp_link_distance(-0.1), SP_NEVER);
	CU_ASSERT_EQUAL(sp_link_distance(NAN), SP_NEVER);
	CU_ASSERT_EQUAL(sp_link_distance(1e12), SP_NEVER);
}

/* Held against the plainest way to do it: look at all. */
TEST(packets_in_flight_are_taken_earliest_first_however_late_they_are)
{
	struct {
		sp_time arrival;
		bool out;
	} all[3000];
	struct sp_random r;
	struct sp_in_flight f;
	uint64_t left = 1 << 20;
	uint32_t put = 0, taken = 0;
	sp_time turn = 0;

	sp_random_seed(&r, 11, 0);
	CU_ASSERT_EQUAL_FATAL(sp_in_flight_init(&f), 0);
	while (taken < 3000) {
		if (put < 3000 && sp_random_next(&r) % 100 < (put < 2000 ? 60 : 45)) {
			const sp_time late = sp_random_next(&r) % 4 ? 0 : sp_random_next(&r) % 200;

			CU_ASSERT_FATAL(sp_in_flight_reserve(&f, 1, &left));
			turn += sp_random_next(&r) % 3;
			all[put].out = false;
			all[put].arrival = turn + late;
			sp_in_flight_put(
				&f, (struct sp_in_flight_packet){.arrival = turn + late, .in_turn = turn, .len = put});
			put++;
		} else if (put > taken) {
			const uint32_t first = sp_in_flight_first(&f)->len;
			uint32_t best = UINT32_MAX;

			for (uint32_t k = 0; k < put; k++)
				if (!all[k].out && (best == UINT32_MAX || all[k].arrival < all[best].arrival))
					best = k;
			CU_ASSERT_EQUAL_FATAL(sp_in_flight_take(&f).len, best);
			CU_ASSERT_EQUAL_FATAL(first, best);
			all[best].out = true;
			taken++;
			CU_ASSERT_EQUAL(sp_in_flight_count(&f), put - taken);
		}
	}
	CU_ASSERT_PTR_NULL(sp_in_flight_first(&f));
	CU_ASSERT(left < 1 << 20);
	left = 0;
	while (sp_in_flight_reserve(&f, 1, &left) && put < 1 << 20)
		sp_in_flight_put(&f, (struct sp_in_flight_packet){.arrival = turn, .in_turn = turn, .len = put++});
	CU_ASSERT(put < 1 << 20);
	sp_in_flight_free(&f);
}
