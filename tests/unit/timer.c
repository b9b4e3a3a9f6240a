/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers: each fires at its own time, in order, on its own worker, and goes with its context. */
#include "../../pipeline/exec/timer.h"
#include "../lib/timed.h"

static sp_time when[TIMERS];
static unsigned which;
static int result; /* of sp_timer_arm */

static void arm(struct sp_ctx *c, struct timed *s)
{
	result = sp_timer_arm(c, &s->timer[which], when[which]);
}

static void cancel(struct sp_ctx *c, struct timed *s)
{
	sp_timer_cancel(c, &s->timer[which]);
}

static void arm_at(uint32_t id, unsigned i, sp_time at)
{
	which = i;
	when[i] = at;
	timed_inside(id, arm);
	CU_ASSERT_EQUAL(result, 0);
}

static void cancel_it(uint32_t id, unsigned i)
{
	which = i;
	timed_inside(id, cancel);
}

#define RULE(rule) TEST_BETWEEN(timed_start, timed_stop, rule)

/* ---- timers ---- */

RULE(timers_fire_in_order_of_time_each_at_its_own)
{
	uint64_t seed = 1;

	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	for (unsigned i = 0; i < TIMERS; i++)
		arm_at(id, i, 1 + dut_random(&seed) % 100000);
	dut_run(&dut, 0, 200000);
	CU_ASSERT_EQUAL(timed_happenings, TIMERS);
	for (unsigned i = 0; i < timed_happenings; i++) {
		CU_ASSERT_EQUAL(timed_happened[i].now, when[timed_happened[i].which]);
		CU_ASSERT(i == 0 || timed_happened[i].now >= timed_happened[i - 1].now);
	}
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
}

RULE(a_poll_that_comes_late_fires_in_order_too_and_so_many_at_once)
{
	uint64_t seed = 2;

	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	for (unsigned i = 0; i < 200; i++)
		arm_at(id, i, 1 + dut_random(&seed) % 1000);
	sp_nic_poll(dut.nic, 0, 5000);
	CU_ASSERT_EQUAL(timed_happenings, SP_TIMERS_PER_POLL);
	CU_ASSERT(sp_nic_next_deadline(dut.nic, 0) <= 5000);
	dut_settle(&dut, 5000);
	CU_ASSERT_EQUAL(timed_happenings, 200);
	for (unsigned i = 1; i < timed_happenings; i++)
		CU_ASSERT(when[timed_happened[i].which] >= when[timed_happened[i - 1].which]);
}

RULE(arming_again_moves_a_timer_and_cancelling_stops_it)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	arm_at(id, 0, 100);
	arm_at(id, 1, 200);
	arm_at(id, 2, 300);
	arm_at(id, 0, 250); /* later */
	arm_at(id, 2, 50);  /* earlier */
	arm_at(id, 3, 120);
	cancel_it(id, 3);
	cancel_it(id, 3); /* twice: nothing */
	cancel_it(id, 4); /* never armed: nothing */
	dut_run(&dut, 0, 1000);
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:t2 a:t1 a:t0 ");
	arm_at(id, 5, 10); /* in the past: now */
	sp_nic_poll(dut.nic, 0, 1000);
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:t2 a:t1 a:t0 a:t5 ");
}

RULE(timer_may_arm_itself_and_cancel_others)
{
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	timed_state(id)->plan[0].every = 10;
	timed_state(id)->plan[1].other = 2 + 1;
	timed_state(id)->plan[2].other = 1 + 1;
	arm_at(id, 0, 10);
	arm_at(id, 1, 35);
	arm_at(id, 2, 35); /* whichever of the two comes first stops the other one */
	dut_run(&dut, 0, 60);
	CU_ASSERT_EQUAL(timed_happenings, 7);
	for (unsigned i = 0, n = 1; i < timed_happenings; i++)
		if (timed_happened[i].which == 0)
			CU_ASSERT_EQUAL(timed_happened[i].now, 10 * n++);
}

RULE(attach_may_arm_move_and_cancel)
{
	sp_nic_poll(dut.nic, 0, 7);
	dut_context(&dut, "a", "timed", "qp=16;timer=100ps");
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), 100);
	dut_run(&dut, 7, 1000);
	CU_ASSERT_STRING_EQUAL(timed_log(), "a:t0 ");
	CU_ASSERT_EQUAL(timed_happened[0].now, 100);
}

RULE(an_attach_that_fails_leaves_no_timer_work_or_issue)
{
	struct sp_error error;
	uint32_t id;

	CU_ASSERT_EQUAL(dut_try_context(&dut, "a", "timed", "qp=16;timer=100ps;start=yes;fail=yes", &id, &error), -EIO);
	CU_ASSERT_STRING_EQUAL(error.text, "as told");
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
	dut_run(&dut, 0, 1000);
	/* The same where it fails later: no QP and no filter. */
	CU_ASSERT_EQUAL(dut_try_context(&dut, "a", "timed", "timer=100ps;start=yes", &id, &error), -EINVAL);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
	CU_ASSERT_EQUAL(timed_happenings, 0);
}

RULE(the_timers_of_a_context_go_with_it)
{
	uint32_t a = dut_context(&dut, "a", "timed", "qp=16");
	uint32_t b = dut_context(&dut, "b", "timed", "qp=17");
	for (unsigned i = 0; i < 100; i++) {
		arm_at(a, i, 100 + i);
		arm_at(b, i, 100 + i);
	}
	dut_run(&dut, 0, 149);
	CU_ASSERT_EQUAL(timed_happenings, 100);
	sp_nic_context_remove(dut.nic, a);
	dut_run(&dut, 149, 1000);
	CU_ASSERT_EQUAL(timed_happenings, 150);
	for (unsigned i = 100; i < timed_happenings; i++) {
		CU_ASSERT_EQUAL(timed_happened[i].context, 'b');
		CU_ASSERT_EQUAL(timed_happened[i].which, i - 50);
	}
}

TEST(a_timer_belongs_to_the_worker_that_armed_it)
{
	struct frame f;

	timed_start_with(2, true);
	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	CU_ASSERT_EQUAL(sp_context_by_id(dut.nic, id)->home, 0);
	which = 0;
	when[0] = 100;
	timed_todo = arm;
	dut_roce(&f, FRAME_IP4, 16, 0, NULL, 0);
	dut_feed_bytes(&dut.port, 1, 0, f.bytes, f.len);
	dut_settle(&dut, 1); /* payload() on worker 1 arms it */
	CU_ASSERT_EQUAL(result, 0);
	timed_inside(id, arm);
	CU_ASSERT_EQUAL(result, -EXDEV);
	cancel_it(id, 0); /* not from there either */
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), SP_NEVER);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 1), 100);
	dut_run(&dut, 1, 200);
	CU_ASSERT_EQUAL(timed_happenings, 1);
	timed_inside(id, arm); /* once it has fired it is anybody's */
	CU_ASSERT_EQUAL(result, 0);
	sp_nic_context_remove(dut.nic, id);
	timed_stop();
}

RULE(a_handler_without_a_function_for_it_cannot_have_one)
{
	uint32_t id = dut_context(&dut, "a", "idle", "qp=16");
	which = 0;
	when[0] = 1;
	timed_inside(id, arm);
	CU_ASSERT_EQUAL(result, -EINVAL);
	dut_run(&dut, 0, 100);
}

RULE(a_hundred_thousand_operations_agree_with_a_sorted_model)
{
	sp_time model[TIMERS] = {0}, now = 1; /* 0: not armed */
	unsigned wrong = 0, fired = 0;
	uint64_t seed = 3;

	uint32_t id = dut_context(&dut, "a", "timed", "qp=16");
	for (unsigned op = 0; op < 100000 && !wrong; op++) {
		unsigned i = dut_random(&seed) % TIMERS, what = dut_random(&seed) % 16;

		if (what < 9) {
			/* Few different times, so that many are equal. */
			when[i] = model[i] = now + 1 + dut_random(&seed) % (what == 0 ? 5000 : 100);
			which = i;
			timed_inside(id, arm);
			wrong += result != 0;
		} else if (what < 13) {
			cancel_it(id, i);
			model[i] = 0;
		} else {
			sp_time least = SP_NEVER, last = 0;

			for (unsigned k = 0; k < TIMERS; k++)
				if (model[k] && model[k] < least)
					least = model[k];
			wrong += sp_nic_next_deadline(dut.nic, 0) != least;
			now += dut_random(&seed) % 40;
			timed_happenings = 0;
			dut_settle(&dut, now);
			for (unsigned k = 0; k < timed_happenings; k++) {
				sp_time at = model[timed_happened[k].which];

				wrong += !at || at > now || at < last;
				last = at;
				model[timed_happened[k].which] = 0;
				fired++;
			}
			for (unsigned k = 0; k < TIMERS; k++)
				wrong += model[k] && model[k] <= now;
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(fired > 5000);
}
