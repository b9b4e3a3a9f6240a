/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that have been replaced: what holds a copy of one, and what goes when. */
#include <rte_rcu_qsbr.h>

#include "../../pipeline/exec/measure.h"

#include "../lib/live_say.h"

TEST(a_timer_fires_where_it_was_armed)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	live_act(&dut, 5, 1, LIVE_TIMER | LIVE_AGAIN, 5 * SP_US);
	live_say(1, SP_END);
	live_settle();
	json_t *told = live_reload(&dut, NULL, 0);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "timers"), 1);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "open_messages"), 0);
	json_decref(told);
	CU_ASSERT_EQUAL(live_collect(), 1);
	live_told(NULL);
	dut_settle(&dut, 100 * SP_US);
	CU_ASSERT_EQUAL(live.calls, 1);
	CU_ASSERT_EQUAL(live.call[0].what, 't');
	CU_ASSERT_EQUAL(live.call[0].load, 1);
	CU_ASSERT_EQUAL(live.call[0].serial, ESHUTDOWN); /* again and again would be for ever */
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 1);
	live_stop(&dut);
}

TEST(timers_go_on_while_a_message_is_open)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	live_act(&dut, 5, 1, LIVE_TIMER | LIVE_AGAIN, SP_US);
	live_settle();
	live_replace(NULL);
	live_told(NULL);
	for (unsigned i = 1; i <= 5; i++)
		dut_settle(&dut, 10 * i * SP_US);
	CU_ASSERT_STRING_EQUAL(live_told("t"), "t1 t1 t1 t1 t1 ");
	CU_ASSERT_EQUAL(live_collect(), 1);
	live_say(1, SP_END);
	dut_settle(&dut, 100 * SP_US);
	dut_settle(&dut, 200 * SP_US);
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_stop(&dut);
}

TEST(issues_and_work_are_done_where_they_began)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	live_act(&dut, 5, 1, LIVE_ISSUE | LIVE_WORK, 3);
	live_feed(&dut, 5, 1, SP_END);
	sp_nic_poll(dut.nic, 0, 0);
	json_t *told = live_reload(&dut, NULL, 0);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "issues") + live_number(live_copy(told, 0, 0), "work"), 2);
	json_decref(told);
	CU_ASSERT_EQUAL(live_collect(), 1);
	live_told(NULL);
	for (unsigned i = 1; i < 10; i++)
		sp_nic_poll(dut.nic, 0, i * SP_US);
	CU_ASSERT_EQUAL(live.calls, 4); /* one of each was in the first poll */
	for (unsigned i = 0; i < live.calls; i++)
		CU_ASSERT(live.call[i].load == 1 && strchr("iw", live.call[i].what));
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 1);
	/* Either of them holds it alone. */
	for (unsigned way = 0; way < 2; way++) {
		live_act(&dut, 5, 1, way ? LIVE_ISSUE : LIVE_WORK, 50);
		live_feed(&dut, 5, 1, SP_END);
		sp_nic_poll(dut.nic, 0, (10 + 100 * way) * SP_US);
		live_replace(NULL);
		CU_ASSERT_EQUAL(live_collect(), 1);
		for (unsigned i = 11; i < 100; i++)
			sp_nic_poll(dut.nic, 0, (i + 100 * way) * SP_US);
		CU_ASSERT_EQUAL(live_collect(), 0);
	}
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_stop(&dut);
}

TEST(kept_packets_hold_until_they_are_released)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	live_act(&dut, 5, 1, LIVE_KEEP, 0);
	live_settle();
	live_replace(NULL);
	live_say(1, SP_END);
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), 1);
	char *json;
	CU_ASSERT_EQUAL(sp_nic_handler_text(dut.nic, &json), 0);
	json_t *told = json_loads(json, 0, NULL);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "kept"), 1);
	json_decref(told);
	free(json);
	/* Nothing calls it any more that could release it: that is for detach(), and for who says so. */
	json_decref(live_reload(&dut, NULL, 0));
	CU_ASSERT_EQUAL(live_collect(), 1);
	live_stop(&dut);
}

TEST(force_ends_open_messages)
{
	live_start("hashed", 1);
	const uint32_t id = live_add("c0", "qp=5");
	live_act(&dut, 5, 1, LIVE_KEEP | LIVE_TIMER, SP_SEC);
	live_settle();
	json_decref(live_reload(&dut, NULL, 10 * SP_MS));
	live_told(NULL);
	dut_settle(&dut, 9 * SP_MS);
	CU_ASSERT_EQUAL(live_collect(), 1);
	dut_settle(&dut, 11 * SP_MS);
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(live.call[0].serial, SP_END_DETACH);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "c1 d1 ");
	CU_ASSERT_EQUAL(live.unloads, 1);
	live_say(1, SP_END);
	dut_settle(&dut, 12 * SP_MS);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "h2 p2 c2 ");
	CU_ASSERT_EQUAL(dut_view(&dut, id, held), 0);
	live_stop(&dut);
}

/* Each that keeps a packet is there for ever: when there are as many as may be, only this gets rid of them. */
TEST(force_ends_copies_of_earlier_reloads)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	for (unsigned i = 1; i < SP_MAX_VERSIONS; i++) {
		live_act(&dut, 5, i, LIVE_KEEP, 0);
		live_settle();
		live_replace(NULL);
	}
	CU_ASSERT_EQUAL(live_collect(), SP_MAX_VERSIONS - 1);
	live_told(NULL);
	dut_settle(&dut, dut.nic->worker[0]->now + 5 * SP_MS);
	struct sp_error error = {.key = ""};
	CU_ASSERT_EQUAL(live_try(&dut, "live", NULL, SP_SEC, NULL, &error), -EBUSY); /* they have been there for less */
	live_told(NULL);
	json_decref(live_reload(&dut, NULL, 5 * SP_MS));
	CU_ASSERT_EQUAL(live_collect(), 0);
	/* In their order or not; the eighth holds nothing, the ninth was refused. */
	CU_ASSERT_EQUAL(strlen(live_told("cd")), 3 * (7 + 7 + 1));
	CU_ASSERT_EQUAL(live.unloads, 9);
	live_stop(&dut);
}

static void from_inside_header_to_wait(void)
{
	sp_nic_poll(dut.nic, 1, 1000);
}

/* What has waited for a header is not lost when the copy that it waits for has to end before. */
TEST(force_loses_no_packet_that_waits)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	live_start("hashed", 2);
	const uint32_t id = live_add("c0", "qp=5");
	live_feed_at(&dut, 5, 0, 0, &w);
	live_feed_at(&dut, 5, 1, 0, &w);
	live.in_header = from_inside_header_to_wait;
	sp_nic_poll(dut.nic, 0, 1000);
	CU_ASSERT_EQUAL(dut.nic->worker[1]->parked.count, 1);
	json_t *told = live_reload(&dut, NULL, SP_MS);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 1), "waiting"), 1);
	json_decref(told);
	sp_nic_poll(dut.nic, 0, 2 * SP_MS);
	for (unsigned i = 0; i < 2; i++) /* both have been seen to pass by since */
		rte_rcu_qsbr_quiescent(dut.nic->readers, i);
	dut.nic->worker[sp_context_by_id(dut.nic, id)->home]->now = 2 * SP_MS;
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h1 p1 c1 ");
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h2 p2 ");
	CU_ASSERT_EQUAL(dut.nic->worker[0]->drops[SP_DROP_CONTEXT_CLOSED] +
				dut.nic->worker[1]->drops[SP_DROP_CONTEXT_CLOSED],
			0);
	dut_check_totals(&dut);
	live_stop(&dut);
}

/* Such a packet belongs to the context, and holds none of its copies. */
TEST(a_copy_goes_though_packets_that_came_before_the_reload_wait)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9, .verdict = SP_END};

	live_start("hashed", 2);
	live_add("c0", "qp=5");
	live_feed_at(&dut, 5, 0, 0, &w);
	live_feed_at(&dut, 5, 1, 0, &w);
	live.in_header = from_inside_header_to_wait;
	sp_nic_poll(dut.nic, 0, 1000);
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h1 p1 c1 ");
	json_t *told = live_reload(&dut, NULL, 0); /* has lost none */
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "gone");
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 1), "waiting"), 1);
	json_decref(told);
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h2 p2 c2 ");
	CU_ASSERT_EQUAL(live_collect(), 0);
	dut_check_totals(&dut);
	live_stop(&dut);
}

TEST(a_context_that_goes_takes_its_copies_along)
{
	live_start("hashed", 2);
	for (unsigned i = 0; i < 2; i++)
		live_add(i ? "c1" : "c0", i ? "qp=6" : "qp=5");
	for (unsigned i = 0; i < 3; i++) {
		live_act(&dut, 5, i, 0, 0);
		live_act(&dut, 6, i, 0, 0);
		live_settle();
		live_replace(NULL);
	}
	uint32_t id;
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "c0", &id), 0);
	live_told(NULL);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "c1 d1 c2 d2 c3 d3 d4 ");
	CU_ASSERT_EQUAL(live.unloads, 0); /* the other one has them */
	live_stop(&dut);
}
