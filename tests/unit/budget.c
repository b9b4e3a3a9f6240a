/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows when a context costs more than its budget. */
#include "../lib/costly.h"

/* ---- budgets ---- */

TEST(with_a_budget_each_packet_is_measured_and_told)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "count");
	uint32_t other = dut_context(&dut, "b", "costly", "qp=17");
	const struct sp_meter *m = costly_meter(id);
	for (unsigned i = 0; i < 20; i++) {
		costly_feed(0, 16, (struct costly_packet){.cost = i % 5 ? 100 : 101}); /* the budget itself is kept */
		if (i < 10)
			costly_feed(0, 17, (struct costly_packet){.cost = 900});
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(m->runs, 20);
	CU_ASSERT_EQUAL(m->packets, 20);
	CU_ASSERT_EQUAL(m->cycles, 20 * 100 + 4);
	CU_ASSERT_EQUAL(m->overruns, 4);
	CU_ASSERT_EQUAL(costly_meter(other)->cycles, 9000);
	CU_ASSERT_EQUAL(costly_meter(other)->overruns, 0);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 20); /* and nothing more comes of it */
	CU_ASSERT_EQUAL(costly_view(id, 0)->dropped, 0);
	CU_ASSERT_EQUAL(m->debt, 0);
	costly_command(id, 101, 0, 0, 0);
	CU_ASSERT_EQUAL(m->overruns, 5);
	costly_finish();
}

TEST(drop_makes_the_next_packets_pay_a_budget_each)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	uint32_t other = dut_context(&dut, "b", "costly", "qp=17");
	costly_burst(16, 1, 350); /* owes 250: three packets pay */
	costly_burst(16, 5, 60);
	costly_burst(17, 5, 60);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 3);
	CU_ASSERT_EQUAL(costly_view(id, 0)->over_budget, 3);
	CU_ASSERT_EQUAL(costly_view(id, 0)->dropped, 3);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "over-budget"), 3);
	CU_ASSERT_EQUAL(costly_view(other, 0)->packets, 5);
	CU_ASSERT_EQUAL(costly_meter(id)->cycles, 350 + 2 * 60);
	CU_ASSERT_EQUAL(costly_meter(id)->overruns, 1);
	CU_ASSERT_EQUAL(costly_meter(id)->debt, 0);
	costly_finish();
}

/* Whatever comes: what it has had is not more than a budget for each packet that came, and what it owes. */
TEST(drop_holds_the_mean_cost_of_what_comes_to_the_budget)
{
	uint64_t seed = 3;

	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	for (unsigned round = 0, come = 0; round < 300; round++) {
		const unsigned n = 1 + dut_random(&seed) % SP_BURST;
		const struct sp_meter *m = costly_meter(id);

		for (unsigned i = 0; i < n; i++)
			costly_feed(0, 16,
				    (struct costly_packet){.cost = (uint32_t)(dut_random(&seed) % 20
										      ? dut_random(&seed) % 100
										      : dut_random(&seed) % 3000)});
		come += n;
		sp_nic_poll(dut.nic, 0, round);
		CU_ASSERT(m->cycles <= 100ull * come + m->debt);
		CU_ASSERT_EQUAL(costly_view(id, 0)->packets + costly_view(id, 0)->over_budget, come);
		CU_ASSERT_EQUAL(m->packets, costly_view(id, 0)->packets);
		CU_ASSERT_EQUAL(m->cycles, costly_cycles);
	}
	CU_ASSERT(costly_view(id, 0)->over_budget > 100);
	CU_ASSERT(costly_view(id, 0)->packets > 100);
	costly_finish();
}

TEST(packets_pay_for_timers_commands_issues_and_work_too)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	costly_state(id)->timer_cost = costly_state(id)->work_cost = costly_state(id)->issue_cost = 200;
	CU_ASSERT_EQUAL(costly_command(id, 200, 1, 1, 1), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(costly_meter(id)->overruns, 4);
	CU_ASSERT_EQUAL(costly_meter(id)->debt, 400);
	CU_ASSERT_EQUAL(costly_command(id, 0, 0, 0, 0), 0); /* what it was called for it does all the same */
	costly_burst(16, 6, 1);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(costly_view(id, 0)->over_budget, 4);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 2);
	costly_finish();
}

/* ---- disabled ---- */

TEST(disable_drops_from_the_next_packet_on_until_the_pause_is_over)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	uint32_t other = dut_context(&dut, "b", "costly", "qp=17");
	costly_burst(16, 3, 100);
	costly_burst(16, 1, 101);
	costly_burst(16, 4, 1);
	costly_burst(17, 2, 1);
	dut_settle(&dut, SP_SEC);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 4);
	CU_ASSERT_EQUAL(costly_view(id, 0)->disabled, 4);
	CU_ASSERT_EQUAL(costly_view(id, 0)->dropped, 4);
	CU_ASSERT_EQUAL(costly_view(other, 0)->packets, 2);
	CU_ASSERT_EQUAL(costly_meter(id)->until, SP_SEC + 10 * SP_MS);
	CU_ASSERT_EQUAL(costly_meter(id)->disabled, 1);
	costly_burst(16, 40, 1);
	dut_settle(&dut, SP_SEC + 10 * SP_MS - 1);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 4);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "context-disabled"), 44);
	costly_burst(16, 40, 1);
	dut_settle(&dut, SP_SEC + 10 * SP_MS);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 44);
	CU_ASSERT_EQUAL(costly_view(id, 0)->disabled, 44);
	costly_finish();
}

/* Returns for how long. */
static sp_time overrun(uint32_t id, sp_time now)
{
	costly_burst(16, 1, 1000);
	dut_settle(&dut, now);
	return costly_meter(id)->until - now;
}

TEST(pauses_double_while_overruns_follow_and_begin_anew_after_two_pauses_of_peace)
{
	sp_time now = SP_SEC, pause = 10 * SP_MS, last;

	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	for (unsigned i = 0; i < 12; i++) {
		last = overrun(id, now);
		CU_ASSERT_EQUAL(last, pause);
		CU_ASSERT_EQUAL(costly_meter(id)->pause, pause);
		now += last + (i % 2 ? 2 * last - 1 : 0); /* at once, and at the last moment that counts */
		pause = RTE_MIN(2 * pause, 10 * SP_SEC);
	}
	CU_ASSERT_EQUAL(pause, 10 * SP_SEC);
	CU_ASSERT_EQUAL(overrun(id, now), 10 * SP_SEC);
	now += 3 * 10 * SP_SEC;
	CU_ASSERT_EQUAL(overrun(id, now), 10 * SP_MS);
	CU_ASSERT_EQUAL(costly_meter(id)->disabled, 14);
	now += 11 * SP_MS; /* what keeps the budget does not matter */
	costly_burst(16, 5, 1);
	dut_settle(&dut, now);
	CU_ASSERT_EQUAL(overrun(id, now), 20 * SP_MS);
	costly_finish();
}

TEST(disabled_timers_work_and_issues_wait_and_commands_are_told_to_come_again)
{
	const sp_time until = SP_SEC + 10 * SP_MS;

	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	uint32_t other = dut_context(&dut, "b", "costly", "qp=17");
	dut_settle(&dut, SP_SEC - 1);
	CU_ASSERT_EQUAL(costly_command(id, 0, SP_SEC, 3, 3), 0);
	CU_ASSERT_EQUAL(costly_command(other, 0, SP_SEC, 3, 3), 0);
	costly_burst(16, 1, 101); /* before they have their turn */
	dut_settle(&dut, SP_SEC);
	CU_ASSERT_EQUAL(costly_state(id)->timers + costly_state(id)->works + costly_state(id)->issues, 0);
	CU_ASSERT_EQUAL(costly_state(other)->timers, 1);
	CU_ASSERT_EQUAL(costly_state(other)->works, 3);
	CU_ASSERT_EQUAL(costly_state(other)->issues, 3);
	CU_ASSERT_EQUAL(costly_command(id, 0, 0, 0, 0), -EAGAIN);
	CU_ASSERT_EQUAL(costly_command(other, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), until); /* nor is anybody kept busy by what waits */
	CU_ASSERT_EQUAL(dut_run(&dut, SP_SEC, SP_SEC + SP_SEC), until);
	CU_ASSERT_EQUAL(costly_state(id)->timers, 1);
	CU_ASSERT_EQUAL(costly_state(id)->works, 3);
	CU_ASSERT_EQUAL(costly_state(id)->issues, 3);
	CU_ASSERT_EQUAL(costly_command(id, 0, 0, 0, 0), 0);
	costly_finish();
}

TEST(an_overrun_of_any_call_disables)
{
	const struct {
		uint64_t cost;
		sp_time at;
		unsigned slices, sends;
	} by[] = {{101, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 3, 0}, {0, 0, 0, 3}};

	for (unsigned i = 0; i < sizeof(by) / sizeof(*by); i++) {
		costly_start(1, true);
		uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
		costly_state(id)->timer_cost = costly_state(id)->work_cost = costly_state(id)->issue_cost = 101;
		CU_ASSERT_EQUAL(costly_command(id, by[i].cost, by[i].at, by[i].slices, by[i].sends), 0);
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL(costly_meter(id)->overruns, 1); /* the next slice or call of issue() waits */
		CU_ASSERT_EQUAL(costly_meter(id)->disabled, 1);
		CU_ASSERT_EQUAL(costly_state(id)->timers + costly_state(id)->works + costly_state(id)->issues, i != 0);
		costly_burst(16, 3, 1);
		dut_settle(&dut, 2);
		CU_ASSERT_EQUAL(costly_view(id, 0)->disabled, 3);
		dut_run(&dut, 2, SP_SEC); /* and goes on, one a pause */
		CU_ASSERT_EQUAL(costly_state(id)->works, by[i].slices);
		CU_ASSERT_EQUAL(costly_state(id)->issues, by[i].sends);
		CU_ASSERT_EQUAL(costly_meter(id)->overruns, RTE_MAX(1u, by[i].slices + by[i].sends));
		costly_finish();
	}
}

TEST(idle_timeouts_wait_as_well)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "spoken", "qp=16;message-timeout=1ms;" BUDGET "disable");
	costly_feed(0, 16, (struct costly_packet){.message = 5, .cost = 101});
	dut_settle(&dut, SP_SEC);
	dut_run(&dut, SP_SEC, SP_SEC + 10 * SP_MS - 1);
	CU_ASSERT_EQUAL(costly_state(id)->completions, 0);
	dut_run(&dut, SP_SEC + 10 * SP_MS - 1, SP_SEC + 20 * SP_MS);
	CU_ASSERT_EQUAL(costly_state(id)->completions, 1);
	costly_finish();
}

TEST(while_it_is_disabled_no_call_comes)
{
	struct sp_nic_totals t;

	costly_start(1, false); /* also where nothing is measured */
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16");
	uint32_t other = dut_context(&dut, "b", "costly", "qp=17");
	CU_ASSERT_EQUAL(costly_command(id, 0, SP_SEC, 3, 3), 0);
	CU_ASSERT_EQUAL(costly_command(other, 0, 0, 3, 0), 0);
	sp_context_disable(sp_context_by_id(dut.nic, id), LONG);
	sp_context_disable(sp_context_by_id(dut.nic, id), SP_SEC); /* which is less */
	costly_burst(16, 10, 1);
	dut_run(&dut, 0, 100 * SP_SEC);
	CU_ASSERT_EQUAL(costly_state(id)->payloads + costly_state(id)->timers + costly_state(id)->works +
				costly_state(id)->issues,
			0);
	CU_ASSERT_EQUAL(costly_state(other)->works, 3);
	CU_ASSERT_EQUAL(costly_command(id, 0, 0, 0, 0), -EAGAIN);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), LONG);
	CU_ASSERT_EQUAL(costly_view(id, 0)->disabled, 10);
	dut_run(&dut, 100 * SP_SEC, LONG + SP_SEC);
	CU_ASSERT_EQUAL(costly_state(id)->timers, 1);
	CU_ASSERT_EQUAL(costly_state(id)->works, 3);
	CU_ASSERT_EQUAL(costly_state(id)->issues, 3);
	sp_nic_context_remove(dut.nic, id);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.dropped, 10);
	costly_finish();
}

TEST(an_overrun_does_not_make_a_longer_time_less)
{
	costly_start(1, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	costly_feed(0, 16, (struct costly_packet){.cost = 101, .action = FOR_LONG});
	costly_burst(16, 2, 1);
	dut_settle(&dut, 1);
	costly_burst(16, 2, 1);
	dut_settle(&dut, 100 * SP_SEC);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 1);
	CU_ASSERT_EQUAL(costly_view(id, 0)->disabled, 4);
	CU_ASSERT_EQUAL(costly_meter(id)->until, LONG);
	CU_ASSERT_EQUAL(costly_meter(id)->overruns, 1);
	costly_finish();
}

/* ---- companions, several workers ---- */

TEST(a_companion_s_packets_are_its_context_s_cost_and_its_own_calls_are_measured_for_itself)
{
	struct sp_command cmd = {.op = SP_CMD_OWN + 1, .arg = {101, 0}};
	uint32_t id;

	costly_start(1, true);
	id = cmd.context = dut_context(&dut, "a", "spoken", "qp=16;companion=beside;" BUDGET "disable");
	struct sp_context *c = sp_context_by_id(dut.nic, id);
	costly_feed(0, 16, (struct costly_packet){.message = 1, .cost = 60, .cost_beside = 40});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(costly_meter(id)->cycles, 100);
	CU_ASSERT_EQUAL(costly_meter(id)->overruns, 0);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.runs, 0);
	costly_feed(0, 16, (struct costly_packet){.message = 1, .cost = 60, .cost_beside = 41});
	costly_feed(0, 16, (struct costly_packet){.message = 1});
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(costly_meter(id)->overruns, 1);
	CU_ASSERT_EQUAL(costly_view(id, 0)->disabled, 1);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), -EAGAIN); /* neither of the two is called */
	dut_settle(&dut, SP_SEC);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.cycles, 101);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.overruns, 1);
	CU_ASSERT_EQUAL(costly_meter(id)->overruns, 1);
	CU_ASSERT_EQUAL(costly_meter(id)->disabled, 2); /* the context, with both */
	CU_ASSERT(costly_meter(id)->until > SP_SEC);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.until, costly_meter(id)->until);
	costly_finish();
}

TEST(an_overrun_on_one_worker_disables_on_all)
{
	costly_start(2, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	costly_feed(0, 16, (struct costly_packet){.cost = 101});
	for (unsigned i = 0; i < 3; i++)
		costly_feed(1, 16, (struct costly_packet){.cost = 101});
	dut_settle(&dut, SP_SEC); /* worker 0 first */
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 1);
	CU_ASSERT_EQUAL(costly_view(id, 1)->packets, 0);
	CU_ASSERT_EQUAL(costly_view(id, 1)->disabled, 3);
	CU_ASSERT_EQUAL(costly_view(id, 0)->meter.disabled + costly_view(id, 1)->meter.disabled, 1);
	costly_feed(1, 16, (struct costly_packet){.cost = 101});
	costly_feed(0, 16, (struct costly_packet){.cost = 101});
	for (uint16_t w = 2; w--;) /* the other one first: what it knows of the last pause is the same */
		sp_nic_poll(dut.nic, w, SP_SEC + 10 * SP_MS);
	CU_ASSERT_EQUAL(costly_view(id, 0)->meter.until, SP_SEC + 30 * SP_MS);
	CU_ASSERT_EQUAL(costly_view(id, 1)->meter.until, SP_SEC + 30 * SP_MS);
	CU_ASSERT_EQUAL(costly_view(id, 1)->meter.disabled, 1);
	CU_ASSERT_EQUAL(costly_view(id, 0)->disabled, 1);
	costly_finish();
}

TEST(a_debt_is_paid_on_the_worker_that_made_it)
{
	costly_start(2, true);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	for (unsigned i = 0; i < 4; i++) {
		costly_feed(0, 16, (struct costly_packet){.cost = i ? 1 : 400});
		costly_feed(1, 16, (struct costly_packet){.cost = 1});
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(costly_view(id, 0)->over_budget, 3);
	CU_ASSERT_EQUAL(costly_view(id, 0)->packets, 1);
	CU_ASSERT_EQUAL(costly_view(id, 1)->packets, 4);
	costly_finish();
}

/* ---- kept packets ---- */

TEST(nobody_keeps_more_packets_than_a_context_may)
{
	costly_start(1, false);
	uint32_t id = dut_context(&dut, "a", "costly", "qp=16");
	uint32_t other = dut_context(&dut, "b", "costly", "qp=17");
	struct sp_ctx *ctx = &costly_view(id, 0)->pub;
	for (unsigned i = 0; i < SP_MAX_HELD + 3; i++)
		costly_feed(0, 16, (struct costly_packet){.action = KEEP});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(costly_keeps, SP_MAX_HELD);
	CU_ASSERT_EQUAL(costly_refused, 3);
	CU_ASSERT_EQUAL(costly_view(id, 0)->held, SP_MAX_HELD);
	CU_ASSERT_EQUAL(costly_view(id, 0)->held_refused, 3);
	costly_feed(0, 17, (struct costly_packet){.action = KEEP}); /* another context's are its own */
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(costly_view(other, 0)->held, 1);
	sp_packet_release(ctx, costly_held[0]);
	costly_held[0] = costly_held[--costly_keeps];
	sp_packet_release(&costly_view(other, 0)->pub, costly_held[0]);
	costly_held[0] = costly_held[--costly_keeps];
	costly_feed(0, 16, (struct costly_packet){.action = KEEP}); /* there is room for one */
	costly_feed(0, 16, (struct costly_packet){.action = KEEP});
	dut_settle(&dut, 3);
	CU_ASSERT_EQUAL(costly_keeps, SP_MAX_HELD);
	CU_ASSERT_EQUAL(costly_view(id, 0)->held_refused, 4);
	while (costly_keeps)
		sp_packet_release(ctx, costly_held[--costly_keeps]);
	CU_ASSERT_EQUAL(costly_view(id, 0)->held, 0);
	costly_finish();
}
