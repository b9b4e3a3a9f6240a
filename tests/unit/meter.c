/* SPDX-License-Identifier: BSD-3-Clause */
/* What contexts cost is measured: turns, quantiles, and what a worker is in meanwhile. */
#include "../lib/costly.h"

/* ---- what is measured ---- */

TEST(a_turn_is_all_packets_of_a_burst_and_their_mean_is_what_one_costs)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16");
	for (unsigned i = 0; i < 8; i++)
		costly_feed(0, 16, (struct costly_packet){.cost = 10 * (i + 1)});
	dut_settle(&dut, 1);
	const struct sp_meter *m = costly_meter(id);
	CU_ASSERT_EQUAL(m->runs, 1);
	CU_ASSERT_EQUAL(m->packets, 8);
	CU_ASSERT_EQUAL(m->cycles, 360);
	CU_ASSERT_EQUAL(m->least, 45);
	CU_ASSERT_EQUAL(m->most, 45);
	CU_ASSERT_EQUAL(costly_buckets(m), 8);
	CU_ASSERT_EQUAL(sp_meter_quantile(m, 0.5), 45);
	costly_burst(16, 1, 7);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(m->runs, 2);
	CU_ASSERT_EQUAL(m->least, 7);
	CU_ASSERT_EQUAL(m->most, 45);
	CU_ASSERT_EQUAL(m->overruns, 0);
	costly_finish();
}

TEST(n_contexts_take_n_and_one_looks_at_the_clock)
{
	static const char *const settings[] = {"qp=16", "qp=17", "qp=18"};
	uint64_t turns[3];
	uint32_t id[3];

	costly_start(1, true);
	for (unsigned i = 0; i < 3; i++)
		id[i] = dut_context(&dut, settings[i], "costly", settings[i]);
	for (unsigned round = 1; round <= 2; round++) { /* until it is known what they cost, turns may be divided */
		for (unsigned i = 0; i < 30; i++)
			costly_feed(0, 16 + i % 3, (struct costly_packet){.cost = 100 * (1 + i % 3)});
		costly_looks = 0;
		for (unsigned i = 0; i < 3; i++)
			turns[i] = costly_meter(id[i])->runs;
		dut_settle(&dut, round * SP_SEC);
	}
	CU_ASSERT_EQUAL(costly_looks, 4);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(costly_meter(id[i])->runs, turns[i] + 1);
		CU_ASSERT_EQUAL(costly_meter(id[i])->cycles, 2000 * (i + 1));
		CU_ASSERT_EQUAL(costly_meter(id[i])->most, 100 * (i + 1));
	}
	costly_finish();
}

TEST(timers_commands_issues_and_work_are_turns_without_packets)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16");
	const struct sp_meter *m = costly_meter(id);
	costly_state(id)->timer_cost = 30;
	costly_state(id)->work_cost = 500;
	costly_state(id)->issue_cost = 7000;
	CU_ASSERT_EQUAL(costly_command(id, 2, 5, 3, 2), 0);
	dut_settle(&dut, 5);
	CU_ASSERT_EQUAL(m->runs, 1 + 1 + 3 + 2);
	CU_ASSERT_EQUAL(m->packets, 0);
	CU_ASSERT_EQUAL(m->cycles, 2 + 30 + 3 * 500 + 2 * 7000);
	CU_ASSERT_EQUAL(m->least, 2);
	CU_ASSERT_EQUAL(m->most, 7000);
	CU_ASSERT_EQUAL(costly_buckets(m), 7);
	costly_finish();
}

TEST(without_a_clock_nothing_is_measured_and_no_budget_counts)
{
	costly_start(1, false);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;budget=1;overrun=disable");
	costly_burst(16, 40, 1000000);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(costly_command(id, 1000000, 5, 3, 2), 0);
	dut_settle(&dut, 5);
	CU_ASSERT_EQUAL(costly_meter(id)->runs, 0);
	CU_ASSERT_EQUAL(costly_buckets(costly_meter(id)), 0);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 40);
	CU_ASSERT_EQUAL(costly_looks, 0);
	costly_finish();
}

TEST(workers_that_are_started_are_measured_by_the_tsc)
{
	struct sp_nic_totals t = {0};

	costly_start(1, false);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16");
	costly_burst(16, 500, 0);
	CU_ASSERT_EQUAL(sp_nic_start(dut.nic), 0);
	while (t.received < 500)
		sp_nic_totals(dut.nic, &t);
	sp_nic_stop(dut.nic);
	CU_ASSERT_EQUAL(costly_meter(id)->packets, 500);
	CU_ASSERT_EQUAL(costly_buckets(costly_meter(id)), 500);
	CU_ASSERT(costly_meter(id)->runs >= 500 / SP_BURST && costly_meter(id)->runs <= 500);
	CU_ASSERT(costly_meter(id)->cycles >= 500);
	CU_ASSERT(costly_meter(id)->least && costly_meter(id)->least <= costly_meter(id)->most);
	costly_burst(16, 5, 0); /* and when they are stopped no more */
	dut_settle(&dut, sp_clock());
	CU_ASSERT_EQUAL(costly_meter(id)->packets, 500);
	costly_finish();
}

TEST(verdicts_that_end_and_answer_are_counted_apart)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "spoken", "qp=16");
	uint32_t plain = dut_context(&dut, "b", "costly", "qp=17");
	for (unsigned i = 0; i < 10; i++)
		costly_feed(0, 16,
			    (struct costly_packet){.message = 1 + i / 5, .verdict = i % 5 == 4 ? SP_END : SP_DONE});
	for (unsigned i = 0; i < 3; i++)
		costly_feed(0, 17, (struct costly_packet){.action = ANSWER, .verdict = SP_SENT});
	costly_burst(17, 4, 1);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(costly_view(id, 0)->ended, 2);
	CU_ASSERT_EQUAL(costly_view(id, 0)->answered, 0);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 10);
	CU_ASSERT_EQUAL(costly_view(plain, 0)->ended, 0);
	CU_ASSERT_EQUAL(costly_view(plain, 0)->answered, 3);
	CU_ASSERT_EQUAL(costly_view(plain, 0)->packets, 7);
	CU_ASSERT_EQUAL(costly_state(id)->completions, 2);
	CU_ASSERT_EQUAL(costly_meter(id)->cycles, 2000); /* completions belong to the turn */
	costly_finish();
}

TEST(the_current_call_of_a_worker_is_visible)
{
	costly_start(1, false); /* also where nothing is measured */
	const struct sp_worker *w = dut.nic->worker[0];
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16");
	uint32_t spoke = dut_context(&dut, "b", "spoken", "qp=17");
	CU_ASSERT_PTR_NULL(w->doing.view);
	for (unsigned n = 1; n <= 3; n++) {
		costly_burst(16, n, 0);
		dut_settle(&dut, n);
		CU_ASSERT_PTR_EQUAL(costly_seen_view, costly_view(id, 0));
		CU_ASSERT_EQUAL(costly_seen.what, SP_DOING_PACKETS);
		CU_ASSERT_EQUAL(costly_seen.packets, n);
		CU_ASSERT_EQUAL(costly_seen.at, n - 1);
		CU_ASSERT_PTR_NULL(w->doing.view);
	}
	for (unsigned i = 0; i < 5; i++) /* the run of the second message begins at 3 */
		costly_feed(0, 17, (struct costly_packet){.message = 1 + (i >= 3)});
	dut_settle(&dut, 4);
	CU_ASSERT_PTR_EQUAL(costly_seen_view, costly_view(spoke, 0));
	CU_ASSERT_EQUAL(costly_seen.packets, 5);
	CU_ASSERT_EQUAL(costly_seen.at, 4);
	CU_ASSERT_EQUAL(costly_command(id, 0, 5, 0, 0), 0);
	CU_ASSERT_EQUAL(costly_seen.what, SP_DOING_COMMAND);
	dut_settle(&dut, 5);
	CU_ASSERT_EQUAL(costly_seen.what, SP_DOING_TIMER);
	CU_ASSERT_EQUAL(costly_seen.packets, 0);
	costly_command(id, 0, 0, 1, 0);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(costly_seen.what, SP_DOING_WORK);
	costly_command(id, 0, 0, 0, 1);
	dut_settle(&dut, 7);
	CU_ASSERT_EQUAL(costly_seen.what, SP_DOING_ISSUE);
	CU_ASSERT_PTR_NULL(w->doing.view);
	costly_finish();
}

/* ---- quantiles ---- */

static int order(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* A view without a NIC, each of whose turns is measured. */
static const struct sp_view *lone(void)
{
	static struct sp_context c;
	static struct sp_worker w = {.cycles = look};
	static struct sp_entity e;
	static const struct sp_view v = {.context = &c, .owner = &w, .entity = &e};

	return &v;
}

TEST(buckets_follow_each_other_without_a_gap)
{
	struct sp_view v = *lone();

	for (unsigned i = 0; i + 2 < SP_METER_BUCKETS; i++) {
		const uint64_t end = sp_meter_bound(i), last = i ? sp_meter_bound(i - 1) : 0;

		CU_ASSERT(!i || end > last);
		CU_ASSERT(i < 5 || end - last <= (last + 1) / 4); /* 4 steps to each power of 2 */
		sp_meter_note(&v, end, 1);
		CU_ASSERT_EQUAL(v.meter.bucket[i], 1);
		sp_meter_note(&v, end + 1, 1);
		CU_ASSERT_EQUAL(v.meter.bucket[i + 1], 1);
		memset(&v.meter, 0, sizeof(v.meter));
	}
	CU_ASSERT_EQUAL(sp_meter_bound(SP_METER_BUCKETS - 1), UINT64_MAX);
	sp_meter_note(&v, UINT64_MAX, 1);
	CU_ASSERT_EQUAL(v.meter.bucket[SP_METER_BUCKETS - 1], 1);
	CU_ASSERT_EQUAL(v.meter.most, UINT32_MAX);
	CU_ASSERT_EQUAL(sp_meter_quantile(&v.meter, 1), UINT32_MAX);
	sp_meter_note(&v, 0, 1);
	CU_ASSERT_EQUAL(v.meter.bucket[0], 1);
}

TEST(quantiles_are_those_of_a_sorted_list_but_for_the_bucket_s_width)
{
	static uint64_t list[4000];
	const double q[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
	struct sp_view v[2] = {*lone(), *lone()};
	struct sp_meter sum = {0};
	uint64_t seed = 7, total = 0;

	CU_ASSERT_EQUAL(sp_meter_quantile(&sum, 0.5), 0);
	for (unsigned i = 0; i < 4000; i++) {
		list[i] = 1 + dut_random(&seed) % (1u << (2 + dut_random(&seed) % 20));
		total += list[i];
		sp_meter_note(&v[i % 2], list[i], i % 3 ? 1 : 0);
	}
	for (unsigned i = 0; i < 2; i++)
		sp_meter_add(&sum, &v[i].meter);
	qsort(list, 4000, sizeof(*list), order);
	CU_ASSERT_EQUAL(sum.runs, 4000);
	CU_ASSERT_EQUAL(sum.cycles, total);
	CU_ASSERT_EQUAL(sum.least, list[0]);
	CU_ASSERT_EQUAL(sum.most, list[3999]);
	for (unsigned i = 0; i < sizeof(q) / sizeof(*q); i++) {
		const uint64_t rank = (uint64_t)(q[i] * 4000 + 0.999999), right = list[rank ? rank - 1 : 0];
		const uint64_t is = sp_meter_quantile(&sum, q[i]);

		CU_ASSERT(is >= right);
		CU_ASSERT(is <= right + right / 4);
	}
	CU_ASSERT_EQUAL(sp_meter_quantile(&sum, 1), list[3999]);
	sp_meter_add(&sum, &(struct sp_meter){0}); /* which says nothing of the least */
	CU_ASSERT_EQUAL(sum.least, list[0]);
}

static unsigned bucket_of_one(uint64_t costly_cycles)
{
	unsigned i = 0;

	while (sp_meter_bound(i) < costly_cycles)
		i++;
	return i;
}

TEST(packets_weigh_as_many_as_they_are)
{
	struct sp_view v = *lone();

	for (unsigned i = 0; i < 10; i++) /* half of them each: the quantile is the least that will do */
		sp_meter_note(&v, i % 2 ? 3000 : 20, 1);
	CU_ASSERT_EQUAL(sp_meter_quantile(&v.meter, 0.5), sp_meter_bound(bucket_of_one(20)));
	CU_ASSERT_EQUAL(sp_meter_quantile(&v.meter, 0.51), 3000);
	memset(&v.meter, 0, sizeof(v.meter));
	sp_meter_note(&v, 32 * 100, 32);
	sp_meter_note(&v, 100000, 1);
	CU_ASSERT_EQUAL(costly_buckets(&v.meter), 33);
	CU_ASSERT(sp_meter_quantile(&v.meter, 0.9) < 125);
	CU_ASSERT_EQUAL(sp_meter_quantile(&v.meter, 0.99), 100000);
}

TEST(short_turns_are_taken_to_be_like_the_last_one_that_was_measured)
{
	static struct sp_worker tsc; /* no clock of ours */
	static const struct {
		uint64_t cycles;
		unsigned alike;
	} turn[] = {{0, 15},   {100, 15}, {1023, 15}, {1024, 7},      {2048, 3},
		    {4096, 1}, {8191, 1}, {8192, 0},  {UINT64_MAX, 0}};

	for (unsigned i = 0; i < sizeof(turn) / sizeof(*turn); i++) {
		struct sp_view v = *lone();
		unsigned n = 0;

		v.owner = &tsc;
		CU_ASSERT(!sp_meter_estimate(&v, 8));
		sp_meter_note(&v, turn[i].cycles, 8);
		CU_ASSERT(!sp_meter_estimate(&v, 0)); /* which is of another kind */
		while (sp_meter_estimate(&v, 3))
			n++;
		CU_ASSERT_EQUAL(n, turn[i].alike);
		CU_ASSERT_EQUAL(v.meter.runs, 1 + n);
		CU_ASSERT_EQUAL(v.meter.packets, 8 + 3 * n);
		CU_ASSERT_EQUAL(costly_buckets(&v.meter), v.meter.packets);
		CU_ASSERT(!n || v.meter.cycles - turn[i].cycles == 3 * n * RTE_MAX(turn[i].cycles / 8, 1u));
	}
	struct sp_view v = *lone();
	struct sp_context c = {.budget.cycles = 1000};

	v.owner = &tsc;
	sp_meter_note(&v, 50, 0);
	CU_ASSERT(!sp_meter_estimate(&v, 1));
	CU_ASSERT(sp_meter_estimate(&v, 0));
	CU_ASSERT_EQUAL(v.meter.cycles, 100);
	CU_ASSERT_EQUAL(v.meter.packets, 0);
	v = *lone();
	v.context = &c; /* with a budget each is looked at */
	v.owner = &tsc;
	sp_meter_note(&v, 50, 1);
	CU_ASSERT(!sp_meter_estimate(&v, 1));
	v = *lone(); /* and by a clock that the program gives */
	sp_meter_note(&v, 50, 1);
	CU_ASSERT(!sp_meter_estimate(&v, 1));
}
