/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that are replaced while they are in use: who gets what, what is handed over, and that all counts stay. */
#include "../../pipeline/watch.h"

#include "live_say.h"

/* ---- who gets what ---- */

TEST(the_new_copy_takes_over_at_once)
{
	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	for (unsigned i = 0; i < 3; i++)
		feed(i, SP_END);
	run();
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
	feed(1, SP_END);
	run();
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
	start("hashed", 1);
	add("c0", "qp=5");
	feed(7, SP_DONE);
	run();
	json_t *told = live_reload(&dut, NULL, 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "draining");
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "open_messages"), 1);
	json_decref(told);
	live_told(NULL);
	feed(7, SP_DONE);
	feed(8, SP_DONE);
	feed(7, SP_DONE);
	feed(8, SP_END);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "p1 p1 h2 p2 p2 c2 ");
	CU_ASSERT_EQUAL(collect(), 1);
	CU_ASSERT_EQUAL(live.unloads, 0);
	feed(7, SP_END);
	feed(7, SP_END); /* in the same burst: of the message that ends with it */
	run();
	feed(7, SP_END); /* and this is another message */
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "p1 p1 c1 h2 p2 c2 ");
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 1);
	live_stop(&dut);
}

TEST(messages_of_several_copies_at_once)
{
	start("hashed", 1);
	add("c0", "qp=5");
	for (unsigned i = 1; i <= 5; i++) {
		feed(i, SP_DONE);
		run();
		reload(i % 2 ? "newer" : "hashed");
	}
	live_told(NULL);
	for (unsigned i = 6; i >= 1; i--)
		feed(i, SP_DONE);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p1 p2 p3 p4 p5 p6 ");
	feed(3, SP_END); /* one in the middle goes first */
	run();
	CU_ASSERT_EQUAL(collect(), 4);
	CU_ASSERT_TRUE(live.gone[3]);
	for (unsigned i = 6; i >= 1; i--)
		feed(i, SP_END);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p3 p1 p2 p4 p5 p6 p6 ");
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 5);
	live_stop(&dut);
}

TEST(a_slot_opened_belongs_to_who_opened_it)
{
	struct sp_event result;

	start("slots", 1);
	const uint32_t id = add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_OPEN, .context = id, .arg = {SP_SLOT_KEY(3, 9)}};
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	reload(NULL);
	live_told(NULL);
	feed(SP_SLOT_KEY(3, 9), SP_DONE); /* its header has not run yet */
	feed(SP_SLOT_KEY(4, 9), SP_DONE); /* nobody's */
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hp"), "h1 p1 ");
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "no-message"), 1);
	cmd.arg[0] = SP_SLOT_KEY(4, 9);
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 2);
	feed(SP_SLOT_KEY(4, 9), SP_END);
	feed(SP_SLOT_KEY(3, 9), SP_END);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "p1 c1 h2 p2 c2 ");
	CU_ASSERT_EQUAL(collect(), 0);
	live_stop(&dut);
}

TEST(without_messages_all_packets_are_the_new_ones)
{
	start("none", 1);
	add("c0", "qp=5");
	feed(1, SP_DONE);
	run();
	json_t *told = live_reload(&dut, NULL, 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "gone");
	json_decref(told);
	feed(1, SP_DONE);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p1 p2 ");
	live_stop(&dut);
}

TEST(commands_go_on_to_who_has_it)
{
	struct sp_event result;

	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .context = id, .arg = {77}};
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	feed(1, SP_DONE);
	run();
	reload(NULL);
	cmd.op = LIVE_CMD_ASK;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 1);
	cmd.arg[0] = 78;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), -ENOENT);
	CU_ASSERT_EQUAL(result.arg[0], 2); /* of several that have not, the newest says so */
	cmd.op = LIVE_CMD_MARK;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 2);
	feed(1, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 0);
	live_stop(&dut);
}

/* The packet of another worker waits while header() runs, and the reload comes in between. */
static void from_inside_header(void)
{
	sp_nic_poll(dut.nic, 1, 1000);
	CU_ASSERT_EQUAL(dut.nic->worker[1]->parked_count, 1);
	reload(NULL);
	CU_ASSERT_EQUAL(collect(), 1);
}

TEST(a_packet_that_waits_for_a_header_goes_where_the_message_is)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	start("hashed", 2);
	add("c0", "qp=5");
	live_feed_at(&dut, 5, 0, 0, &w);
	live_feed_at(&dut, 5, 1, 0, &w);
	live.in_header = from_inside_header;
	sp_nic_poll(dut.nic, 0, 1000);
	sp_nic_poll(dut.nic, 1, 2000);
	CU_ASSERT_STRING_EQUAL(live_told("hp"), "h1 p1 p1 ");
	feed(9, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 0);
	dut_check_totals(&dut);
	live_stop(&dut);
}

TEST(another_home_is_asked_for_or_given_up)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	start("hashed", 2);
	const uint32_t id = add("c0", "qp=5");
	const uint16_t home = sp_context_by_id(dut.nic, id)->home;
	for (unsigned i = 0; i < 4; i++) { /* to HOME and back, with a message open each time */
		live_feed_at(&dut, 5, 1, 0, &w);
		live_feed_at(&dut, 5, 0, 0, &(struct live_words){.magic = LIVE_MAGIC, .key = 20 + i});
		run();
		for (unsigned k = 0; i && k < live.calls; k++) /* as long as one of them wants it so */
			CU_ASSERT(live.call[k].what != 'p' || live.call[k].worker == home);
		live_told(NULL);
		reload(i % 2 ? "hashed" : "home");
	}
	feed(9, SP_END);
	for (unsigned i = 0; i < 4; i++)
		feed(20 + i, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 0);
	live_told(NULL);
	live_feed_at(&dut, 5, !home, 0, &w); /* now none does */
	run();
	CU_ASSERT_EQUAL(live.call[0].worker, !home);
	dut_check_totals(&dut);
	live_stop(&dut);
}

TEST(on_a_watched_nic_too)
{
	static const struct sp_watch watch;

	live_clear();
	dut_start(&dut, 1);
	CU_ASSERT_EQUAL(sp_nic_watch(dut.nic, &watch), 0);
	live_load(&dut, "hashed");
	add("c0", "qp=5");
	feed(1, SP_DONE);
	run();
	reload("migrates");
	feed(1, SP_DONE);
	feed(2, SP_DONE);
	feed(1, SP_END);
	feed(2, SP_END);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h1 p1 p1 h2 p2 p1 c1 p2 c2 ");
	CU_ASSERT_EQUAL(collect(), 0);
	live_stop(&dut);
}

TEST(a_filter_stays_too)
{
	struct frame f;

	start("none", 1);
	const uint32_t id = add("c0", "filter=udp port 7");
	reload(NULL);
	reload(NULL);
	dut_udp(&f, 7, NULL, 10);
	dut_feed(&dut, &f);
	run();
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p3 ");
	live_stop(&dut);
}

/* ---- migrate ---- */

TEST(migrate_hands_over_and_may_refuse)
{
	struct sp_event result;

	start("newer", 2);
	const uint32_t id = add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .context = id, .arg = {77}};
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	feed(1, SP_DONE);
	feed(2, SP_DONE);
	run();
	live_orders.migrate = EPERM;
	REFUSED("live", live_built("migrates"), -EPERM, "context c0: ordered not to migrate");
	CU_ASSERT_EQUAL(collect(), 0);
	live_orders.migrate = 0;
	live_told(NULL);
	reload("migrates");
	CU_ASSERT_EQUAL(live.call[1].what, 'm');
	CU_ASSERT_EQUAL(live.call[1].key, 2ull << 32 | 1); /* version of the old state, and whose it is */
	CU_ASSERT_EQUAL(live.call[1].serial, 2);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "a3 m3 ");
	cmd.op = LIVE_CMD_ASK;
	CU_ASSERT_EQUAL(dut.dev->ops->command_call(dut.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 3);
	feed(1, SP_END);
	feed(2, SP_END);
	run();
	live_told(NULL);
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.call[0].serial, 4); /* what the old one has had, in the end */
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "M3 d1 ");
	live_stop(&dut);
}

/* ---- counts ---- */

TEST(nothing_that_was_counted_goes)
{
	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	for (unsigned i = 0; i < 4; i++)
		feed(1, SP_DONE);
	feed(1, SP_DROP(0));
	feed(1, SP_DROP(1));
	run();
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "ended"), 0);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "seen"), 6);
	reload("newer");
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 4);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "seen"), 6); /* the same name, in another place */
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "refused"), 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "asked"), 1); /* the new one has none of that name */
	feed(1, SP_DONE);				      /* still the old one's */
	feed(2, SP_DONE);
	run();
	CU_ASSERT_EQUAL(collect(), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 6);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "seen"), 8);
	feed(1, SP_DROP(0));
	feed(1, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 0);
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
		COUNT(disabled),       COUNT(kept_refused), COUNT(backlog_full),  COUNT(dropped),
		COUNT(meter.turns),    COUNT(meter.cycles), COUNT(meter.packets), COUNT(meter.overruns),
		COUNT(meter.disabled),
#undef COUNT
	};

	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	struct sp_view *v = sp_context_by_id(dut.nic, id)->view[0];
	for (unsigned i = 0; i < RTE_DIM(count); i++)
		*(uint64_t *)((uint8_t *)v + count[i]) = 1000 + i;
	reload("newer");
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_PTR_NOT_EQUAL(sp_context_by_id(dut.nic, id)->view[0], v);
	for (unsigned i = 0; i < RTE_DIM(count); i++)
		CU_ASSERT_EQUAL(sp_context_sum(sp_context_by_id(dut.nic, id), count[i]), 1000 + i);
	live_stop(&dut);
}

TEST(what_each_copy_has_run_is_told)
{
	start("hashed", 1);
	add("c0", "qp=5");
	for (unsigned i = 0; i < 3; i++)
		feed(1, SP_DONE);
	run();
	reload(NULL);
	for (unsigned i = 0; i < 2; i++)
		feed(1, SP_DONE);
	for (unsigned i = 0; i < 4; i++)
		feed(2, SP_DONE);
	run();
	json_t *told = live_reload(&dut, NULL, 0);
	feed(3, SP_DONE);
	run();
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
