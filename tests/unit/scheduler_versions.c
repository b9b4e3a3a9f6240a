/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that wait for their turn while the handler of their context is replaced: they are run once, in the order in
 * which they came, by the copy that has their message, and none is lost. A packet costs five quanta of a clock that
 * payload() turns on: a poll runs one of those that wait.
 */
#include "../lib/live_nic.h"

#include <rte_cycles.h>
#include <rte_rcu_qsbr.h>

#include "../../pipeline/control/versions.h"
#include "../../pipeline/rx/match.h"
#include "../../pipeline/exec/scheduler.h"

static uint32_t fed, run; /* serials of c0's packets: the last one that came, that has been run */

static struct sp_context *newest(void)
{
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(dut.nic, "c0", &id), 0);
	return sp_context_by_id(dut.nic, id);
}

static unsigned waiting(const struct sp_context *c)
{
	return c->entity[0]->backlog.count;
}

/* Of c0, which has two QPs. */
static void feed(uint32_t qp, uint64_t key, unsigned n)
{
	while (n--)
		live_feed_at(&dut, qp, 0, 0, &(struct live_words){LIVE_MAGIC, ++fed, key, SP_DONE, 0, 0});
}

static void poll(void)
{
	sp_nic_poll(dut.nic, 0, dut.nic->worker[0]->now);
}

/* What has been run since the last time, by which loads: "1 1 2 "; of c0, in order. */
static const char *ran(void)
{
	static char text[1024];
	size_t at = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < live.calls; i++) {
		if (live.call[i].what != 'p' || live.call[i].qp != 5)
			continue;
		if (live.call[i].serial != run + 1)
			printf("# %u was run after %u\n", live.call[i].serial, run);
		CU_ASSERT_EQUAL(live.call[i].serial, run + 1);
		run = live.call[i].serial;
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%u ", live.call[i].load);
	}
	live.calls = 0;
	return text;
}

/* c0 and another one, so that there is somebody to share with; what a packet of theirs costs is known. */
static void start(const char *kind)
{
	live_clear();
	fed = run = 0;
	dut_prepare(&dut, 1);
	live.cost = 5 * (SP_QUANTUM / SP_US) * (rte_get_tsc_hz() / 1000000);
	dut.config.cycles = live_clock;
	dut_create(&dut);
	live_load(&dut, kind);
	live_orders.qps = 2;
	dut_context(&dut, "c0", "live", "qp=5");
	dut_context(&dut, "c1", "live", "qp=8");
	feed(5, 7, 1);
	live_feed(&dut, 8, 7, SP_DONE);
	dut_settle(&dut, 0);
	CU_ASSERT_STRING_EQUAL(ran(), "1 ");
}

/* All that waits. */
static void settle(void)
{
	dut_settle(&dut, dut.nic->worker[0]->now);
	CU_ASSERT_EQUAL(sp_scheduler_packets(dut.nic->worker[0]), 0);
}

static void stop(void)
{
	CU_ASSERT_EQUAL(run, fed);
	CU_ASSERT_EQUAL(dut.nic->worker[0]->drops[SP_DROP_CONTEXT_CLOSED], 0);
	CU_ASSERT_EQUAL(dut.nic->worker[0]->drops[SP_DROP_BACKLOG_FULL], 0);
	dut_check_totals(&dut);
	live_stop(&dut);
}

TEST(what_waits_comes_before_what_comes_after_the_reload)
{
	start("none");
	feed(5, 0, 10);
	poll();
	CU_ASSERT_EQUAL(waiting(newest()), 9);
	live_orders.arms = true; /* a timer holds the second copy; the packets hold none */
	json_t *told = live_reload(&dut, NULL, 0);
	live_orders.arms = false;
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "gone");
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 1), "waiting"), 9);
	json_decref(told);
	json_decref(live_reload(&dut, NULL, 0));
	CU_ASSERT_EQUAL(sp_versions_count(newest()), 2);
	CU_ASSERT_STRING_EQUAL(ran(), "1 ");
	feed(6, 0, 5);
	poll();
	CU_ASSERT_EQUAL(waiting(newest()), 13);
	CU_ASSERT_STRING_EQUAL(ran(), "3 ");
	live_orders.arms = true;
	json_decref(live_reload(&dut, NULL, 0));
	live_orders.arms = false;
	json_decref(live_reload(&dut, NULL, 0));
	settle(); /* though none comes any more */
	CU_ASSERT_STRING_EQUAL(ran(), "5 5 5 5 5 5 5 5 5 5 5 5 5 ");
	dut_settle(&dut, 2 * SP_MS);
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 0);
	stop();
}

/* Copies of a handler are one context. */
TEST(the_copies_have_one_contexts_part_of_the_backlog)
{
	start("none");
	feed(5, 0, SP_BACKLOG_CONTEXT);
	while (dut.port.received < dut.port.fed)
		poll();
	json_decref(live_reload(&dut, NULL, 0));
	feed(5, 0, SP_BACKLOG_CONTEXT);
	while (dut.port.received < dut.port.fed)
		poll();
	CU_ASSERT(waiting(newest()) > SP_BACKLOG_CONTEXT / 2);
	CU_ASSERT(waiting(newest()) <= SP_BACKLOG_CONTEXT);
	settle();
	dut_check_totals(&dut);
	live_stop(&dut);
}

/* The messages are where they are, whoever's packets wait. */
TEST(each_is_run_by_the_copy_that_has_its_message)
{
	start("hashed"); /* 7 is open */
	for (unsigned i = 0; i < 4; i++) {
		feed(5, 7, 1);
		feed(5, 9, 1);
	}
	poll();
	CU_ASSERT_STRING_EQUAL(ran(), "1 ");
	json_decref(live_reload(&dut, NULL, 0));
	feed(5, 7, 1);
	for (unsigned i = 0; i < 8; i++) { /* and costs what it costs, whichever runs it */
		const uint64_t had = newest()->entity[0]->vtime;

		poll();
		CU_ASSERT_STRING_EQUAL(ran(), i % 2 ? "1 " : "2 ");
		CU_ASSERT(newest()->entity[0]->vtime - had >= live.cost || i == 0);
	}
	stop();
}

/* Of a burst whose first packets found the older copy still, and the others the newer one already. */
TEST(a_burst_in_the_midst_of_which_the_copy_changes_stays_in_order)
{
	start("hashed");
	for (unsigned round = 0; round < 4; round++) {
		const unsigned before = 3 * (round & 1); /* that wait for the older one */
		struct sp_context *old = newest();
		struct sp_qp *qp = (struct sp_qp *)(uintptr_t)sp_qp_table_find(dut.nic->qps, 5);

		feed(5, 10 + round, 1); /* a message holds it */
		settle();
		feed(5, 9, before);
		poll();
		json_decref(live_reload(&dut, NULL, 0));
		feed(5, 9, 6);
		feed(6, 9, 6);
		if (round > 1) { /* known as a cheap one that has used little: nothing needs to wait */
			old->entity[0]->cost = 1;
			old->entity[0]->vtime = old->entity[0]->share->clock;
		}
		qp->context = old; /* as it was when they were looked up */
		poll();
		qp->context = newest();
		CU_ASSERT(round > 1 ? !waiting(newest()) : waiting(newest()) > 6);
		settle();
		CU_ASSERT_EQUAL(strlen(ran()), 2 * (1 + before + 12));
	}
	stop();
}

/* It is not its turn. */
static void hold_back(struct sp_entity *e)
{
	const struct sp_scheduler *s = dut.nic->worker[0]->scheduler;

	e->period = s->period;
	e->vtime = e->share->clock + 100 * SP_MAX_WEIGHT * live.cost;
}

/* A worker that still finds the older copy, which does not know yet that it has been replaced: its packets wait in the
 * same queue, in order of arrival. */
TEST(what_waits_for_both_copies_stays_in_order)
{
	for (unsigned forced = 0; forced < 2; forced++) {
		start("hashed");
		struct sp_qp *qp = (struct sp_qp *)(uintptr_t)sp_qp_table_find(dut.nic->qps, 5);
		json_decref(live_reload(&dut, NULL, forced ? SP_MS : 0));
		struct sp_context *new = newest();
		struct sp_context *old = new->older;
		CU_ASSERT_PTR_NOT_NULL_FATAL(old);
		CU_ASSERT_PTR_EQUAL(old->entity[0], new->entity[0]);
		hold_back(new->entity[0]);
		for (unsigned i = 0; i < 4; i++)
			live_feed(&dut, 8, 9, SP_DONE);
		feed(6, 7, 6);
		poll();
		hold_back(old->entity[0]);
		qp->context = old;
		old->newer = NULL;
		feed(5, 7, 6);
		poll();
		qp->context = new;
		old->newer = new;
		CU_ASSERT_EQUAL(waiting(new), 12);
		if (forced) {
			rte_rcu_qsbr_quiescent(dut.nic->readers, 0);
			dut.nic->worker[0]->now = 2 * SP_MS;
			CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 0);
			CU_ASSERT_EQUAL(waiting(new), 12);
		}
		settle();
		CU_ASSERT_EQUAL(strlen(ran()), 2 * 12);
		stop();
	}
}

TEST(force_gives_waiting_packets_to_the_next_copy)
{
	start("hashed");
	feed(5, 7, 6);
	poll();
	CU_ASSERT_STRING_EQUAL(ran(), "1 ");
	json_t *told = live_reload(&dut, NULL, SP_MS);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "waiting"), 0);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 1), "waiting"), 5);
	json_decref(told);
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 2); /* both contexts' message is open */
	CU_ASSERT_PTR_NOT_NULL_FATAL(newest()->older);
	CU_ASSERT_EQUAL(waiting(newest()), 5);
	rte_rcu_qsbr_quiescent(dut.nic->readers, 0); /* as if others had kept it busy until then */
	dut.nic->worker[0]->now = 2 * SP_MS;
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 0);
	CU_ASSERT_PTR_NULL(newest()->older);
	CU_ASSERT_EQUAL(waiting(newest()), 5);
	CU_ASSERT_EQUAL(sp_scheduler_packets(dut.nic->worker[0]), 5);
	CU_ASSERT_STRING_EQUAL(ran(), "");
	feed(5, 7, 2);
	settle();
	CU_ASSERT_STRING_EQUAL(ran(), "2 2 2 2 2 2 2 ");
	stop();
}
