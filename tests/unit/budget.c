/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows when a context costs more than its budget. */
#include "costly.h"

/* ---- budgets ---- */

TEST(with_a_budget_each_packet_is_measured_and_told)
{
	const struct sp_meter *m;
	uint32_t id, other;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "count");
	other = dut_context(&dut, "b", "costly", "qp=17");
	m = meter(id);
	for (unsigned i = 0; i < 20; i++) {
		feed(0, 16, (struct say){.cost = i % 5 ? 100 : 101}); /* the budget itself is kept */
		if (i < 10)
			feed(0, 17, (struct say){.cost = 900});
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(m->turns, 20);
	CU_ASSERT_EQUAL(m->packets, 20);
	CU_ASSERT_EQUAL(m->cycles, 20 * 100 + 4);
	CU_ASSERT_EQUAL(m->overruns, 4);
	CU_ASSERT_EQUAL(meter(other)->cycles, 9000);
	CU_ASSERT_EQUAL(meter(other)->overruns, 0);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 20); /* and nothing more comes of it */
	CU_ASSERT_EQUAL(view(id, 0)->dropped, 0);
	CU_ASSERT_EQUAL(m->debt, 0);
	tell(id, 101, 0, 0, 0);
	CU_ASSERT_EQUAL(m->overruns, 5);
	finish();
}

TEST(drop_makes_the_next_packets_pay_a_budget_each)
{
	uint32_t id, other;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	other = dut_context(&dut, "b", "costly", "qp=17");
	burst(16, 1, 350); /* owes 250: three packets pay */
	burst(16, 5, 60);
	burst(17, 5, 60);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 3);
	CU_ASSERT_EQUAL(view(id, 0)->over_budget, 3);
	CU_ASSERT_EQUAL(view(id, 0)->dropped, 3);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "over-budget"), 3);
	CU_ASSERT_EQUAL(view(other, 0)->packets, 5);
	CU_ASSERT_EQUAL(meter(id)->cycles, 350 + 2 * 60);
	CU_ASSERT_EQUAL(meter(id)->overruns, 1);
	CU_ASSERT_EQUAL(meter(id)->debt, 0);
	finish();
}

/* Whatever comes: what it has had is not more than a budget for each packet that came, and what it owes. */
TEST(drop_holds_the_mean_cost_of_what_comes_to_the_budget)
{
	uint64_t seed = 3;
	uint32_t id;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	for (unsigned round = 0, come = 0; round < 300; round++) {
		const unsigned n = 1 + dut_random(&seed) % SP_BURST;
		const struct sp_meter *m = meter(id);

		for (unsigned i = 0; i < n; i++)
			feed(0, 16,
			     (struct say){.cost = (uint32_t)(dut_random(&seed) % 20 ? dut_random(&seed) % 100
										    : dut_random(&seed) % 3000)});
		come += n;
		sp_nic_poll(dut.nic, 0, round);
		CU_ASSERT(m->cycles <= 100ull * come + m->debt);
		CU_ASSERT_EQUAL(view(id, 0)->packets + view(id, 0)->over_budget, come);
		CU_ASSERT_EQUAL(m->packets, view(id, 0)->packets);
		CU_ASSERT_EQUAL(m->cycles, cycles);
	}
	CU_ASSERT(view(id, 0)->over_budget > 100);
	CU_ASSERT(view(id, 0)->packets > 100);
	finish();
}

TEST(packets_pay_for_timers_commands_issues_and_work_too)
{
	uint32_t id;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	state(id)->timer_cost = state(id)->work_cost = state(id)->issue_cost = 200;
	CU_ASSERT_EQUAL(tell(id, 200, 1, 1, 1), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(meter(id)->overruns, 4);
	CU_ASSERT_EQUAL(meter(id)->debt, 400);
	CU_ASSERT_EQUAL(tell(id, 0, 0, 0, 0), 0); /* what it was called for it does all the same */
	burst(16, 6, 1);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(view(id, 0)->over_budget, 4);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 2);
	finish();
}

/* ---- disabled ---- */

TEST(disable_drops_from_the_next_packet_on_until_the_pause_is_over)
{
	uint32_t id, other;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	other = dut_context(&dut, "b", "costly", "qp=17");
	burst(16, 3, 100);
	burst(16, 1, 101);
	burst(16, 4, 1);
	burst(17, 2, 1);
	dut_settle(&dut, SP_SEC);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 4);
	CU_ASSERT_EQUAL(view(id, 0)->disabled, 4);
	CU_ASSERT_EQUAL(view(id, 0)->dropped, 4);
	CU_ASSERT_EQUAL(view(other, 0)->packets, 2);
	CU_ASSERT_EQUAL(meter(id)->until, SP_SEC + 10 * SP_MS);
	CU_ASSERT_EQUAL(meter(id)->disabled, 1);
	burst(16, 40, 1);
	dut_settle(&dut, SP_SEC + 10 * SP_MS - 1);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 4);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "context-disabled"), 44);
	burst(16, 40, 1);
	dut_settle(&dut, SP_SEC + 10 * SP_MS);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 44);
	CU_ASSERT_EQUAL(view(id, 0)->disabled, 44);
	finish();
}

/* Returns for how long. */
static sp_time overrun(uint32_t id, sp_time now)
{
	burst(16, 1, 1000);
	dut_settle(&dut, now);
	return meter(id)->until - now;
}

TEST(pauses_double_while_overruns_follow_and_begin_anew_after_two_pauses_of_peace)
{
	sp_time now = SP_SEC, pause = 10 * SP_MS, last;
	uint32_t id;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	for (unsigned i = 0; i < 12; i++) {
		last = overrun(id, now);
		CU_ASSERT_EQUAL(last, pause);
		CU_ASSERT_EQUAL(meter(id)->pause, pause);
		now += last + (i % 2 ? 2 * last - 1 : 0); /* at once, and at the last moment that counts */
		pause = RTE_MIN(2 * pause, 10 * SP_SEC);
	}
	CU_ASSERT_EQUAL(pause, 10 * SP_SEC);
	CU_ASSERT_EQUAL(overrun(id, now), 10 * SP_SEC);
	now += 3 * 10 * SP_SEC;
	CU_ASSERT_EQUAL(overrun(id, now), 10 * SP_MS);
	CU_ASSERT_EQUAL(meter(id)->disabled, 14);
	now += 11 * SP_MS; /* what keeps the budget does not matter */
	burst(16, 5, 1);
	dut_settle(&dut, now);
	CU_ASSERT_EQUAL(overrun(id, now), 20 * SP_MS);
	finish();
}

TEST(disabled_timers_work_and_issues_wait_and_commands_are_told_to_come_again)
{
	const sp_time until = SP_SEC + 10 * SP_MS;
	uint32_t id, other;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	other = dut_context(&dut, "b", "costly", "qp=17");
	dut_settle(&dut, SP_SEC - 1);
	CU_ASSERT_EQUAL(tell(id, 0, SP_SEC, 3, 3), 0);
	CU_ASSERT_EQUAL(tell(other, 0, SP_SEC, 3, 3), 0);
	burst(16, 1, 101); /* before they have their turn */
	dut_settle(&dut, SP_SEC);
	CU_ASSERT_EQUAL(state(id)->timers + state(id)->works + state(id)->issues, 0);
	CU_ASSERT_EQUAL(state(other)->timers, 1);
	CU_ASSERT_EQUAL(state(other)->works, 3);
	CU_ASSERT_EQUAL(state(other)->issues, 3);
	CU_ASSERT_EQUAL(tell(id, 0, 0, 0, 0), -EAGAIN);
	CU_ASSERT_EQUAL(tell(other, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), until); /* nor is anybody kept busy by what waits */
	CU_ASSERT_EQUAL(dut_run(&dut, SP_SEC, SP_SEC + SP_SEC), until);
	CU_ASSERT_EQUAL(state(id)->timers, 1);
	CU_ASSERT_EQUAL(state(id)->works, 3);
	CU_ASSERT_EQUAL(state(id)->issues, 3);
	CU_ASSERT_EQUAL(tell(id, 0, 0, 0, 0), 0);
	finish();
}

TEST(an_overrun_of_any_call_disables)
{
	const struct {
		uint64_t cost;
		sp_time at;
		unsigned slices, sends;
	} by[] = {{101, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 3, 0}, {0, 0, 0, 3}};

	for (unsigned i = 0; i < sizeof(by) / sizeof(*by); i++) {
		uint32_t id;

		start(1, true);
		id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
		state(id)->timer_cost = state(id)->work_cost = state(id)->issue_cost = 101;
		CU_ASSERT_EQUAL(tell(id, by[i].cost, by[i].at, by[i].slices, by[i].sends), 0);
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL(meter(id)->overruns, 1); /* the next slice or call of issue() waits */
		CU_ASSERT_EQUAL(meter(id)->disabled, 1);
		CU_ASSERT_EQUAL(state(id)->timers + state(id)->works + state(id)->issues, i != 0);
		burst(16, 3, 1);
		dut_settle(&dut, 2);
		CU_ASSERT_EQUAL(view(id, 0)->disabled, 3);
		dut_run(&dut, 2, SP_SEC); /* and goes on, one a pause */
		CU_ASSERT_EQUAL(state(id)->works, by[i].slices);
		CU_ASSERT_EQUAL(state(id)->issues, by[i].sends);
		CU_ASSERT_EQUAL(meter(id)->overruns, RTE_MAX(1u, by[i].slices + by[i].sends));
		finish();
	}
}

TEST(idle_timeouts_wait_as_well)
{
	uint32_t id;

	start(1, true);
	id = dut_context(&dut, "a", "spoken", "qp=16;message-timeout=1ms;" BUDGET "disable");
	feed(0, 16, (struct say){.message = 5, .cost = 101});
	dut_settle(&dut, SP_SEC);
	dut_run(&dut, SP_SEC, SP_SEC + 10 * SP_MS - 1);
	CU_ASSERT_EQUAL(state(id)->completions, 0);
	dut_run(&dut, SP_SEC + 10 * SP_MS - 1, SP_SEC + 20 * SP_MS);
	CU_ASSERT_EQUAL(state(id)->completions, 1);
	finish();
}

TEST(for_good_means_that_no_call_comes_any_more)
{
	struct sp_nic_totals t;
	uint32_t id, other;

	start(1, false); /* also where nothing is measured */
	id = dut_context(&dut, "a", "costly", "qp=16");
	other = dut_context(&dut, "b", "costly", "qp=17");
	CU_ASSERT_EQUAL(tell(id, 0, SP_SEC, 3, 3), 0);
	CU_ASSERT_EQUAL(tell(other, 0, 0, 3, 0), 0);
	sp_context_disable(sp_context_by_id(dut.nic, id), SP_NEVER);
	sp_context_disable(sp_context_by_id(dut.nic, id), SP_SEC); /* which is less */
	burst(16, 10, 1);
	dut_run(&dut, 0, 100 * SP_SEC);
	CU_ASSERT_EQUAL(state(id)->payloads + state(id)->timers + state(id)->works + state(id)->issues, 0);
	CU_ASSERT_EQUAL(state(other)->works, 3);
	CU_ASSERT_EQUAL(tell(id, 0, 0, 0, 0), -ESHUTDOWN);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
	CU_ASSERT_EQUAL(view(id, 0)->disabled, 10);
	CU_ASSERT_EQUAL(state(id)->timer.armed + state(id)->work.active + state(id)->issue.active, 0);
	sp_nic_context_remove(dut.nic, id);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.dropped, 10);
	finish();
}

TEST(an_overrun_does_not_make_for_good_less)
{
	uint32_t id;

	start(1, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	feed(0, 16, (struct say){.cost = 101, .action = FOR_GOOD});
	burst(16, 2, 1);
	dut_settle(&dut, 1);
	burst(16, 2, 1);
	dut_settle(&dut, 100 * SP_SEC);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 1);
	CU_ASSERT_EQUAL(view(id, 0)->disabled, 4);
	CU_ASSERT_EQUAL(meter(id)->until, SP_NEVER);
	CU_ASSERT_EQUAL(meter(id)->overruns, 1);
	finish();
}

/* ---- companions, several workers ---- */

TEST(a_companion_s_packets_are_its_context_s_cost_and_its_own_calls_are_measured_for_itself)
{
	struct sp_command cmd = {.op = SP_CMD_OWN + 1, .arg = {101, 0}};
	struct sp_context *c;
	uint32_t id;

	start(1, true);
	id = cmd.context = dut_context(&dut, "a", "spoken", "qp=16;companion=beside;" BUDGET "disable");
	c = sp_context_by_id(dut.nic, id);
	feed(0, 16, (struct say){.message = 1, .cost = 60, .cost_beside = 40});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(meter(id)->cycles, 100);
	CU_ASSERT_EQUAL(meter(id)->overruns, 0);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.turns, 0);
	feed(0, 16, (struct say){.message = 1, .cost = 60, .cost_beside = 41});
	feed(0, 16, (struct say){.message = 1});
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(meter(id)->overruns, 1);
	CU_ASSERT_EQUAL(view(id, 0)->disabled, 1);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), -EAGAIN); /* neither of the two is called */
	dut_settle(&dut, SP_SEC);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.cycles, 101);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.overruns, 1);
	CU_ASSERT_EQUAL(meter(id)->overruns, 1);
	CU_ASSERT_EQUAL(meter(id)->disabled, 2); /* the context, with both */
	CU_ASSERT(meter(id)->until > SP_SEC);
	CU_ASSERT_EQUAL(c->companion->view[0]->meter.until, meter(id)->until);
	finish();
}

TEST(an_overrun_on_one_worker_disables_on_all)
{
	uint32_t id;

	start(2, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "disable");
	feed(0, 16, (struct say){.cost = 101});
	for (unsigned i = 0; i < 3; i++)
		feed(1, 16, (struct say){.cost = 101});
	dut_settle(&dut, SP_SEC); /* worker 0 first */
	CU_ASSERT_EQUAL(view(id, 0)->packets, 1);
	CU_ASSERT_EQUAL(view(id, 1)->packets, 0);
	CU_ASSERT_EQUAL(view(id, 1)->disabled, 3);
	CU_ASSERT_EQUAL(view(id, 0)->meter.disabled + view(id, 1)->meter.disabled, 1);
	feed(1, 16, (struct say){.cost = 101});
	feed(0, 16, (struct say){.cost = 101});
	for (uint16_t w = 2; w--;) /* the other one first: what it knows of the last pause is the same */
		sp_nic_poll(dut.nic, w, SP_SEC + 10 * SP_MS);
	CU_ASSERT_EQUAL(view(id, 0)->meter.until, SP_SEC + 30 * SP_MS);
	CU_ASSERT_EQUAL(view(id, 1)->meter.until, SP_SEC + 30 * SP_MS);
	CU_ASSERT_EQUAL(view(id, 1)->meter.disabled, 1);
	CU_ASSERT_EQUAL(view(id, 0)->disabled, 1);
	finish();
}

TEST(a_debt_is_paid_on_the_worker_that_made_it)
{
	uint32_t id;

	start(2, true);
	id = dut_context(&dut, "a", "costly", "qp=16;" BUDGET "drop");
	for (unsigned i = 0; i < 4; i++) {
		feed(0, 16, (struct say){.cost = i ? 1 : 400});
		feed(1, 16, (struct say){.cost = 1});
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(view(id, 0)->over_budget, 3);
	CU_ASSERT_EQUAL(view(id, 0)->packets, 1);
	CU_ASSERT_EQUAL(view(id, 1)->packets, 4);
	finish();
}

/* ---- kept packets ---- */

TEST(nobody_keeps_more_packets_than_a_context_may)
{
	struct sp_ctx *ctx;
	uint32_t id, other;

	start(1, false);
	id = dut_context(&dut, "a", "costly", "qp=16");
	other = dut_context(&dut, "b", "costly", "qp=17");
	ctx = &view(id, 0)->pub;
	for (unsigned i = 0; i < SP_MAX_KEPT + 3; i++)
		feed(0, 16, (struct say){.action = KEEP});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(keeps, SP_MAX_KEPT);
	CU_ASSERT_EQUAL(refused, 3);
	CU_ASSERT_EQUAL(view(id, 0)->kept, SP_MAX_KEPT);
	CU_ASSERT_EQUAL(view(id, 0)->kept_refused, 3);
	feed(0, 17, (struct say){.action = KEEP}); /* another context's are its own */
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(view(other, 0)->kept, 1);
	sp_packet_release(ctx, held[0]);
	held[0] = held[--keeps];
	sp_packet_release(&view(other, 0)->pub, held[0]);
	held[0] = held[--keeps];
	feed(0, 16, (struct say){.action = KEEP}); /* there is room for one */
	feed(0, 16, (struct say){.action = KEEP});
	dut_settle(&dut, 3);
	CU_ASSERT_EQUAL(keeps, SP_MAX_KEPT);
	CU_ASSERT_EQUAL(view(id, 0)->kept_refused, 4);
	while (keeps)
		sp_packet_release(ctx, held[--keeps]);
	CU_ASSERT_EQUAL(view(id, 0)->kept, 0);
	finish();
}
