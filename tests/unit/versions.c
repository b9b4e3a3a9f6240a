/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that are replaced while they are in use: who gets what, what is handed over, and that all counts stay. */
#include "../../host-api/device.h"
#include "../../pipeline/observe/trace.h"

#include "../lib/live_say.h"

/* ---- who gets what ---- */

TEST(the_new_copy_takes_over_at_once)
{
	live_start("hashed", 1);
	const uint32_t id = live_add("c0", "qp=5");
	for (unsigned i = 0; i < 3; i++)
		live_say(i, SP_END);
	live_settle();
	live_told(NULL);
	json_t *told = live_reload(&dut, "newer", 0);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "a2 d1 ");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "gone");
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "packets"), 3);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 1), "state")), "running");
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 1), "copy"), 2);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(told, "file")), live_built("newer"));
	json_decref(told);
	CU_ASSERT_EQUAL(live.unloads, 1); /* its code too */
	live_say(1, SP_END);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "h2 p2 c2 ");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
	/* By its file, which is the new one's. */
	CU_ASSERT_EQUAL(live_try(&dut, live_built("hashed"), NULL, 0, NULL, NULL), -ENOENT);
	CU_ASSERT_EQUAL(live_try(&dut, live_built("newer"), NULL, 0, &told, NULL), 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(told, "file")), live_built("newer"));
	json_decref(told);
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 0);
	dut_check_totals(&dut);
	live_stop(&dut);
}

TEST(an_open_message_ends_where_it_began)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	live_say(7, SP_DONE);
	live_settle();
	json_t *told = live_reload(&dut, NULL, 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "draining");
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "open_messages"), 1);
	json_decref(told);
	live_told(NULL);
	live_say(7, SP_DONE);
	live_say(8, SP_DONE);
	live_say(7, SP_DONE);
	live_say(8, SP_END);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "p1 p1 h2 p2 p2 c2 ");
	CU_ASSERT_EQUAL(live_collect(), 1);
	CU_ASSERT_EQUAL(live.unloads, 0);
	live_say(7, SP_END);
	live_say(7, SP_END); /* in the same burst: of the message that ends with it */
	live_settle();
	live_say(7, SP_END); /* and this is another message */
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "p1 p1 c1 h2 p2 c2 ");
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 1);
	live_stop(&dut);
}

TEST(messages_of_several_copies_at_once)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	for (unsigned i = 1; i <= 5; i++) {
		live_say(i, SP_DONE);
		live_settle();
		live_replace(i % 2 ? "newer" : "hashed");
	}
	live_told(NULL);
	for (unsigned i = 6; i >= 1; i--)
		live_say(i, SP_DONE);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p1 p2 p3 p4 p5 p6 ");
	live_say(3, SP_END); /* one in the middle goes first */
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), 4);
	CU_ASSERT_TRUE(live.gone[3]);
	for (unsigned i = 6; i >= 1; i--)
		live_say(i, SP_END);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p3 p1 p2 p4 p5 p6 p6 ");
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 5);
	live_stop(&dut);
}

TEST(a_slot_belongs_to_the_context_that_opened_it)
{
	struct sp_event result;

	live_start("slots", 1);
	const uint32_t id = live_add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_OPEN, .context = id, .arg = {SP_SLOT_KEY(3, 9)}};
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	live_replace(NULL);
	live_told(NULL);
	live_say(SP_SLOT_KEY(3, 9), SP_DONE); /* its header has not run yet */
	live_say(SP_SLOT_KEY(4, 9), SP_DONE); /* nobody's */
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("hp"), "h1 p1 ");
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "no-message"), 1);
	cmd.arg[0] = SP_SLOT_KEY(4, 9);
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 2);
	live_say(SP_SLOT_KEY(4, 9), SP_END);
	live_say(SP_SLOT_KEY(3, 9), SP_END);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "p1 c1 h2 p2 c2 ");
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_stop(&dut);
}

TEST(without_messages_all_packets_are_the_new_ones)
{
	live_start("none", 1);
	live_add("c0", "qp=5");
	live_say(1, SP_DONE);
	live_settle();
	json_t *told = live_reload(&dut, NULL, 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "gone");
	json_decref(told);
	live_say(1, SP_DONE);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p1 p2 ");
	live_stop(&dut);
}

TEST(commands_are_forwarded_to_the_worker_that_owns_the_context)
{
	struct sp_event result;

	live_start("hashed", 1);
	const uint32_t id = live_add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .context = id, .arg = {77}};
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	live_say(1, SP_DONE);
	live_settle();
	live_replace(NULL);
	cmd.op = LIVE_CMD_ASK;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 1);
	cmd.arg[0] = 78;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), -ENOENT);
	CU_ASSERT_EQUAL(result.arg[0], 2); /* of several that have not, the newest says so */
	cmd.op = LIVE_CMD_MARK;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 2);
	live_say(1, SP_END);
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_stop(&dut);
}

/* The packet of another worker waits while header() runs, and the reload comes in between. */
static void from_inside_header(void)
{
	sp_nic_poll(dut.nic, 1, 1000);
	CU_ASSERT_EQUAL(dut.nic->worker[1]->parked.count, 1);
	live_replace(NULL);
	CU_ASSERT_EQUAL(live_collect(), 1);
}

TEST(a_packet_that_waits_for_a_header_goes_where_the_message_is)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	live_start("hashed", 2);
	live_add("c0", "qp=5");
	live_feed_at(&dut, 5, 0, 0, &w);
	live_feed_at(&dut, 5, 1, 0, &w);
	live.in_header = from_inside_header;
	sp_nic_poll(dut.nic, 0, 1000);
	sp_nic_poll(dut.nic, 1, 2000);
	CU_ASSERT_STRING_EQUAL(live_told("hp"), "h1 p1 p1 ");
	live_say(9, SP_END);
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), 0);
	dut_check_totals(&dut);
	live_stop(&dut);
}

TEST(another_home_is_asked_for_or_given_up)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	live_start("hashed", 2);
	const uint32_t id = live_add("c0", "qp=5");
	const uint16_t home = sp_context_by_id(dut.nic, id)->home;
	for (unsigned i = 0; i < 4; i++) { /* to HOME and back, with a message open each time */
		live_feed_at(&dut, 5, 1, 0, &w);
		live_feed_at(&dut, 5, 0, 0, &(struct live_words){.magic = LIVE_MAGIC, .key = 20 + i});
		live_settle();
		for (unsigned k = 0; i && k < live.calls; k++) /* as long as one of them wants it so */
			CU_ASSERT(live.call[k].what != 'p' || live.call[k].worker == home);
		live_told(NULL);
		live_replace(i % 2 ? "hashed" : "home");
	}
	live_say(9, SP_END);
	for (unsigned i = 0; i < 4; i++)
		live_say(20 + i, SP_END);
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_told(NULL);
	live_feed_at(&dut, 5, !home, 0, &w); /* now none does */
	live_settle();
	CU_ASSERT_EQUAL(live.call[0].worker, !home);
	dut_check_totals(&dut);
	live_stop(&dut);
}

TEST(on_a_watched_nic_too)
{
	static const struct sp_tracer watch;

	live_clear();
	dut_start(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_trace(dut.nic, &watch), 0);
	live_load(&dut, "hashed");
	live_add("c0", "qp=5");
	live_say(1, SP_DONE);
	live_settle();
	live_replace("migrates");
	live_say(1, SP_DONE);
	live_say(2, SP_DONE);
	live_say(1, SP_END);
	live_say(2, SP_END);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h1 p1 p1 h2 p2 p1 c1 p2 c2 ");
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_stop(&dut);
}

TEST(a_filter_stays_too)
{
	struct frame f;

	live_start("none", 1);
	const uint32_t id = live_add("c0", "filter=udp port 7");
	live_replace(NULL);
	live_replace(NULL);
	dut_udp(&f, 7, NULL, 10);
	dut_feed(&dut, &f);
	live_settle();
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p3 ");
	live_stop(&dut);
}

/* ---- migrate ---- */

TEST(migrate_hands_over_and_may_refuse)
{
	struct sp_event result;

	live_start("newer", 2);
	const uint32_t id = live_add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .context = id, .arg = {77}};
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	live_say(1, SP_DONE);
	live_say(2, SP_DONE);
	live_settle();
	live_orders.migrate = EPERM;
	REFUSED("live", live_built("migrates"), -EPERM, "context c0: ordered not to migrate");
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_orders.migrate = 0;
	live_told(NULL);
	live_replace("migrates");
	CU_ASSERT_EQUAL(live.call[1].what, 'm');
	CU_ASSERT_EQUAL(live.call[1].key, 2ull << 32 | 1); /* version of the old state, and whose it is */
	CU_ASSERT_EQUAL(live.call[1].serial, 2);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "a3 m3 ");
	cmd.op = LIVE_CMD_ASK;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 3);
	live_say(1, SP_END);
	live_say(2, SP_END);
	live_settle();
	live_told(NULL);
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(live.call[0].serial, 4); /* what the old one has had, in the end */
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "M3 d1 ");
	live_stop(&dut);
}

/* ---- counts ---- */

TEST(nothing_that_was_counted_goes)
{
	live_start("hashed", 1);
	const uint32_t id = live_add("c0", "qp=5");
	for (unsigned i = 0; i < 4; i++)
		live_say(1, SP_DONE);
	live_say(1, SP_DROP(0));
	live_say(1, SP_DROP(1));
	live_settle();
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "ended"), 0);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "seen"), 6);
	live_replace("newer");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "seen"), 6); /* the same name, in another place */
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "refused"), 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "asked"), 1); /* the new one has none of that name */
	live_say(1, SP_DONE);				      /* still the old one's */
	live_say(2, SP_DONE);
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 6);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "seen"), 8);
	live_say(1, SP_DROP(0));
	live_say(1, SP_END);
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 7);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "asked"), 2);
	CU_ASSERT_EQUAL(dut_view(&dut, id, dropped), 3);
	dut_check_totals(&dut);
	live_stop(&dut);
}

/* Whatever the report says of a context, it says it of all copies together, once. */
TEST(no_kind_of_count_is_forgotten)
{
	static const size_t count[] = {
#define COUNT(field) offsetof(struct sp_view, field)
		COUNT(packets),	       COUNT(bytes),	    COUNT(forwarded),	  COUNT(dma_faults),
		COUNT(dma_traced),     COUNT(events_lost),  COUNT(sent),	  COUNT(sent_bytes),
		COUNT(errors),	       COUNT(ended),	    COUNT(answered),	  COUNT(over_budget),
		COUNT(disabled),       COUNT(held_refused), COUNT(backlog_full),  COUNT(dropped),
		COUNT(meter.runs),     COUNT(meter.cycles), COUNT(meter.packets), COUNT(meter.overruns),
		COUNT(meter.disabled),
#undef COUNT
	};

	live_start("hashed", 1);
	const uint32_t id = live_add("c0", "qp=5");
	struct sp_view *v = sp_context_by_id(dut.nic, id)->view[0];
	for (unsigned i = 0; i < RTE_DIM(count); i++)
		*(uint64_t *)((uint8_t *)v + count[i]) = 1000 + i;
	live_replace("newer");
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_PTR_NOT_EQUAL(sp_context_by_id(dut.nic, id)->view[0], v);
	for (unsigned i = 0; i < RTE_DIM(count); i++)
		CU_ASSERT_EQUAL(sp_context_sum(sp_context_by_id(dut.nic, id), count[i]), 1000 + i);
	live_stop(&dut);
}

TEST(the_calls_of_each_copy_are_reported)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	for (unsigned i = 0; i < 3; i++)
		live_say(1, SP_DONE);
	live_settle();
	live_replace(NULL);
	for (unsigned i = 0; i < 2; i++)
		live_say(1, SP_DONE);
	for (unsigned i = 0; i < 4; i++)
		live_say(2, SP_DONE);
	live_settle();
	json_t *told = live_reload(&dut, NULL, 0);
	live_say(3, SP_DONE);
	live_settle();
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "packets"), 5);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 1), "packets"), 4);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 2), "packets"), 0);
	CU_ASSERT_EQUAL(live_number(told, "received_meanwhile"), 0); /* time stood still */
	json_decref(told);
	char *json;
	CU_ASSERT_EQUAL(sp_nic_handler_text(dut.nic, &json), 0);
	told = json_loads(json, 0, NULL);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 2), "packets"), 1);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(told, "plugins")), 3);
	json_decref(told);
	free(json);
	live_stop(&dut);
}
