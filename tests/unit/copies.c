/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that are replaced while they are in use: who gets what, what is refused, what goes when. */
#include "live_rig.h"

#include <rte_rcu_qsbr.h>

#include "../../pipeline/handler.h"
#include "../../pipeline/host.h"
#include "../../pipeline/metered.h"
#include "../../pipeline/watch.h"

static struct rig rig;

static void start(const char *kind, uint16_t workers)
{
	live_clear();
	rig_start(&rig, workers);
	live_load(&rig, kind);
}

static uint32_t add(const char *name, const char *settings)
{
	return rig_context(&rig, name, "live", settings);
}

static void feed(uint64_t key, uint32_t verdict)
{
	live_feed(&rig, 5, key, verdict);
}

static void run(void)
{
	rig_settle(&rig, rig.nic->worker[0]->now);
}

static unsigned collect(void)
{
	return sp_nic_handler_collect(rig.nic);
}

static void reload(const char *kind)
{
	json_decref(live_reload(&rig, kind, 0));
}

static void refused_at(const char *name, const char *file, int rc, const char *words, int line)
{
	struct sp_error error = {.key = ""};
	const unsigned unloads = live.unloads, loads = live.loads;
	const int got = live_try(&rig, name, file, 0, NULL, &error);

	if (got != rc || !strstr(error.text, words))
		printf("# line %d: %d '%s'\n", line, got, error.text);
	CU_ASSERT_EQUAL(got, rc);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, words));
	CU_ASSERT_EQUAL(live.loads - loads, live.unloads - unloads); /* what was loaded for it has gone */
}
#define REFUSED(name, file, rc, words) refused_at(name, file, rc, words, __LINE__)

/* ---- who gets what ---- */

static void the_new_copy_takes_over_at_once(void)
{
	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	for (unsigned i = 0; i < 3; i++)
		feed(i, SP_END);
	run();
	live_told(NULL);
	json_t *told = live_reload(&rig, "newer", 0);
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
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), 4);
	/* By its file, which is the new one's. */
	CU_ASSERT_EQUAL(live_try(&rig, live_built("hashed"), NULL, 0, NULL, NULL), -ENOENT);
	CU_ASSERT_EQUAL(live_try(&rig, live_built("newer"), NULL, 0, &told, NULL), 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(told, "file")), live_built("newer"));
	json_decref(told);
	CU_ASSERT_EQUAL(sp_nic_handler_collect(rig.nic), 0);
	rig_check_totals(&rig);
	live_stop(&rig);
}

static void an_open_message_ends_where_it_began(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	feed(7, SP_DONE);
	run();
	json_t *told = live_reload(&rig, NULL, 0);
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
	live_stop(&rig);
}

static void messages_of_several_copies_at_once(void)
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
	live_stop(&rig);
}

static void a_slot_opened_belongs_to_who_opened_it(void)
{
	struct sp_event result;

	start("slots", 1);
	const uint32_t id = add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_OPEN, .context = id, .arg = {SP_SLOT_KEY(3, 9)}};
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), 0);
	reload(NULL);
	live_told(NULL);
	feed(SP_SLOT_KEY(3, 9), SP_DONE); /* its header has not run yet */
	feed(SP_SLOT_KEY(4, 9), SP_DONE); /* nobody's */
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hp"), "h1 p1 ");
	CU_ASSERT_EQUAL(sp_nic_dropped(rig.nic, "no-message"), 1);
	cmd.arg[0] = SP_SLOT_KEY(4, 9);
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 2);
	feed(SP_SLOT_KEY(4, 9), SP_END);
	feed(SP_SLOT_KEY(3, 9), SP_END);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "p1 c1 h2 p2 c2 ");
	CU_ASSERT_EQUAL(collect(), 0);
	live_stop(&rig);
}

static void without_messages_all_packets_are_the_new_ones(void)
{
	start("none", 1);
	add("c0", "qp=5");
	feed(1, SP_DONE);
	run();
	json_t *told = live_reload(&rig, NULL, 0);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "gone");
	json_decref(told);
	feed(1, SP_DONE);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p1 p2 ");
	live_stop(&rig);
}

static void commands_go_on_to_who_has_it(void)
{
	struct sp_event result;

	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .context = id, .arg = {77}};
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), 0);
	feed(1, SP_DONE);
	run();
	reload(NULL);
	cmd.op = LIVE_CMD_ASK;
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 1);
	cmd.arg[0] = 78;
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), -ENOENT);
	CU_ASSERT_EQUAL(result.arg[0], 2); /* of several that have not, the newest says so */
	cmd.op = LIVE_CMD_MARK;
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 2);
	feed(1, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 0);
	live_stop(&rig);
}

/* The packet of another worker waits while header() runs, and the reload comes in between. */
static void from_inside_header(void)
{
	sp_nic_poll(rig.nic, 1, 1000);
	CU_ASSERT_EQUAL(rig.nic->worker[1]->parked_count, 1);
	reload(NULL);
	CU_ASSERT_EQUAL(collect(), 1);
}

static void a_packet_that_waits_for_a_header_goes_where_the_message_is(void)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	start("hashed", 2);
	add("c0", "qp=5");
	live_feed_at(&rig, 5, 0, 0, &w);
	live_feed_at(&rig, 5, 1, 0, &w);
	live.in_header = from_inside_header;
	sp_nic_poll(rig.nic, 0, 1000);
	sp_nic_poll(rig.nic, 1, 2000);
	CU_ASSERT_STRING_EQUAL(live_told("hp"), "h1 p1 p1 ");
	feed(9, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 0);
	rig_check_totals(&rig);
	live_stop(&rig);
}

static void another_home_is_asked_for_or_given_up(void)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	start("hashed", 2);
	const uint32_t id = add("c0", "qp=5");
	const uint16_t home = sp_context_by_id(rig.nic, id)->home;
	for (unsigned i = 0; i < 4; i++) { /* to HOME and back, with a message open each time */
		live_feed_at(&rig, 5, 1, 0, &w);
		live_feed_at(&rig, 5, 0, 0, &(struct live_words){.magic = LIVE_MAGIC, .key = 20 + i});
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
	live_feed_at(&rig, 5, !home, 0, &w); /* now none does */
	run();
	CU_ASSERT_EQUAL(live.call[0].worker, !home);
	rig_check_totals(&rig);
	live_stop(&rig);
}

/* ---- what holds a copy ---- */

static void a_timer_fires_where_it_was_armed(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	live_act(&rig, 5, 1, LIVE_TIMER | LIVE_AGAIN, 5 * SP_US);
	feed(1, SP_END);
	run();
	json_t *told = live_reload(&rig, NULL, 0);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "timers"), 1);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "open_messages"), 0);
	json_decref(told);
	CU_ASSERT_EQUAL(collect(), 1);
	live_told(NULL);
	rig_settle(&rig, 100 * SP_US);
	CU_ASSERT_EQUAL(live.calls, 1);
	CU_ASSERT_EQUAL(live.call[0].what, 't');
	CU_ASSERT_EQUAL(live.call[0].load, 1);
	CU_ASSERT_EQUAL(live.call[0].serial, ESHUTDOWN); /* again and again would be for ever */
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 1);
	live_stop(&rig);
}

static void timers_go_on_while_a_message_is_open(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	live_act(&rig, 5, 1, LIVE_TIMER | LIVE_AGAIN, SP_US);
	run();
	reload(NULL);
	live_told(NULL);
	for (unsigned i = 1; i <= 5; i++)
		rig_settle(&rig, 10 * i * SP_US);
	CU_ASSERT_STRING_EQUAL(live_told("t"), "t1 t1 t1 t1 t1 ");
	CU_ASSERT_EQUAL(collect(), 1);
	feed(1, SP_END);
	rig_settle(&rig, 100 * SP_US);
	rig_settle(&rig, 200 * SP_US);
	CU_ASSERT_EQUAL(collect(), 0);
	live_stop(&rig);
}

static void issues_and_work_are_done_where_they_began(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	live_act(&rig, 5, 1, LIVE_ISSUE | LIVE_WORK, 3);
	live_feed(&rig, 5, 1, SP_END);
	sp_nic_poll(rig.nic, 0, 0);
	json_t *told = live_reload(&rig, NULL, 0);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "issues") + live_number(live_copy(told, 0, 0), "work"), 2);
	json_decref(told);
	CU_ASSERT_EQUAL(collect(), 1);
	live_told(NULL);
	for (unsigned i = 1; i < 10; i++)
		sp_nic_poll(rig.nic, 0, i * SP_US);
	CU_ASSERT_EQUAL(live.calls, 4); /* one of each was in the first poll */
	for (unsigned i = 0; i < live.calls; i++)
		CU_ASSERT(live.call[i].load == 1 && strchr("iw", live.call[i].what));
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, 1);
	/* Either of them holds it alone. */
	for (unsigned way = 0; way < 2; way++) {
		live_act(&rig, 5, 1, way ? LIVE_ISSUE : LIVE_WORK, 50);
		live_feed(&rig, 5, 1, SP_END);
		sp_nic_poll(rig.nic, 0, (10 + 100 * way) * SP_US);
		reload(NULL);
		CU_ASSERT_EQUAL(collect(), 1);
		for (unsigned i = 11; i < 100; i++)
			sp_nic_poll(rig.nic, 0, (i + 100 * way) * SP_US);
		CU_ASSERT_EQUAL(collect(), 0);
	}
	CU_ASSERT_EQUAL(collect(), 0);
	live_stop(&rig);
}

static void kept_packets_hold_until_they_are_released(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	live_act(&rig, 5, 1, LIVE_KEEP, 0);
	run();
	reload(NULL);
	feed(1, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 1);
	char *json;
	CU_ASSERT_EQUAL(sp_nic_handler_text(rig.nic, &json), 0);
	json_t *told = json_loads(json, 0, NULL);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "kept"), 1);
	json_decref(told);
	free(json);
	/* Nothing calls it any more that could release it: that is for detach(), and for who says so. */
	json_decref(live_reload(&rig, NULL, 0));
	CU_ASSERT_EQUAL(collect(), 1);
	live_stop(&rig);
}

static void force_ends_what_is_open(void)
{
	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	live_act(&rig, 5, 1, LIVE_KEEP | LIVE_TIMER, SP_SEC);
	run();
	json_decref(live_reload(&rig, NULL, 10 * SP_MS));
	live_told(NULL);
	rig_settle(&rig, 9 * SP_MS);
	CU_ASSERT_EQUAL(collect(), 1);
	rig_settle(&rig, 11 * SP_MS);
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.call[0].serial, SP_END_DETACH);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "c1 d1 ");
	CU_ASSERT_EQUAL(live.unloads, 1);
	feed(1, SP_END);
	rig_settle(&rig, 12 * SP_MS);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "h2 p2 c2 ");
	CU_ASSERT_EQUAL(rig_view(&rig, id, kept), 0);
	live_stop(&rig);
}

/* Each that keeps a packet is there for ever: when there are as many as may be, only this gets rid of them. */
static void force_ends_what_earlier_reloads_have_left(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	for (unsigned i = 1; i < SP_MAX_COPIES; i++) {
		live_act(&rig, 5, i, LIVE_KEEP, 0);
		run();
		reload(NULL);
	}
	CU_ASSERT_EQUAL(collect(), SP_MAX_COPIES - 1);
	live_told(NULL);
	rig_settle(&rig, rig.nic->worker[0]->now + 5 * SP_MS);
	struct sp_error error = {.key = ""};
	CU_ASSERT_EQUAL(live_try(&rig, "live", NULL, SP_SEC, NULL, &error), -EBUSY); /* they have been there for less */
	live_told(NULL);
	json_decref(live_reload(&rig, NULL, 5 * SP_MS));
	CU_ASSERT_EQUAL(collect(), 0);
	/* In their order or not; the eighth holds nothing, the ninth was refused. */
	CU_ASSERT_EQUAL(strlen(live_told("cd")), 3 * (7 + 7 + 1));
	CU_ASSERT_EQUAL(live.unloads, 9);
	live_stop(&rig);
}

static void from_inside_header_to_wait(void)
{
	sp_nic_poll(rig.nic, 1, 1000);
}

/* What has waited for a header is not lost when the copy that it waits for has to end before. */
static void force_loses_no_packet_that_waits(void)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9};

	start("hashed", 2);
	const uint32_t id = add("c0", "qp=5");
	live_feed_at(&rig, 5, 0, 0, &w);
	live_feed_at(&rig, 5, 1, 0, &w);
	live.in_header = from_inside_header_to_wait;
	sp_nic_poll(rig.nic, 0, 1000);
	CU_ASSERT_EQUAL(rig.nic->worker[1]->parked_count, 1);
	json_t *told = live_reload(&rig, NULL, SP_MS);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "waiting"), 1);
	json_decref(told);
	sp_nic_poll(rig.nic, 0, 2 * SP_MS);
	for (unsigned i = 0; i < 2; i++) /* both have been seen to pass by since */
		rte_rcu_qsbr_quiescent(rig.nic->readers, i);
	rig.nic->worker[sp_context_by_id(rig.nic, id)->home]->now = 2 * SP_MS;
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h1 p1 c1 ");
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h2 p2 ");
	CU_ASSERT_EQUAL(rig.nic->worker[0]->drops[SP_DROP_CONTEXT_CLOSED] +
				rig.nic->worker[1]->drops[SP_DROP_CONTEXT_CLOSED],
			0);
	rig_check_totals(&rig);
	live_stop(&rig);
}

/* Nor does a copy go that nothing but such a packet is left of. */
static void a_copy_that_packets_wait_for_stays_until_they_have_gone_on(void)
{
	const struct live_words w = {.magic = LIVE_MAGIC, .key = 9, .verdict = SP_END};

	start("hashed", 2);
	add("c0", "qp=5");
	live_feed_at(&rig, 5, 0, 0, &w);
	live_feed_at(&rig, 5, 1, 0, &w);
	live.in_header = from_inside_header_to_wait;
	sp_nic_poll(rig.nic, 0, 1000);
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h1 p1 c1 ");
	json_t *told = live_reload(&rig, NULL, 0); /* has lost none */
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(live_copy(told, 0, 0), "state")), "draining");
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "waiting"), 1);
	json_decref(told);
	CU_ASSERT_EQUAL(collect(), 1);
	run();
	CU_ASSERT_STRING_EQUAL(live_told("hpc"), "h2 p2 c2 ");
	CU_ASSERT_EQUAL(collect(), 0);
	rig_check_totals(&rig);
	live_stop(&rig);
}

static void a_context_that_goes_takes_its_copies_along(void)
{
	start("hashed", 2);
	for (unsigned i = 0; i < 2; i++)
		add(i ? "c1" : "c0", i ? "qp=6" : "qp=5");
	for (unsigned i = 0; i < 3; i++) {
		live_act(&rig, 5, i, 0, 0);
		live_act(&rig, 6, i, 0, 0);
		run();
		reload(NULL);
	}
	uint32_t id;
	CU_ASSERT_EQUAL(sp_nic_context_find(rig.nic, "c0", &id), 0);
	live_told(NULL);
	CU_ASSERT_EQUAL(sp_nic_context_remove(rig.nic, id), 0);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "c1 d1 c2 d2 c3 d3 d4 ");
	CU_ASSERT_EQUAL(live.unloads, 0); /* the other one has them */
	live_stop(&rig);
}

/* ---- what is refused ---- */

static void one_that_fails_leaves_the_old_one_running(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	add("c1", "qp=6");
	feed(1, SP_DONE);
	run();
	const uint64_t used = rig.nic->memory_used;
	live_orders = (struct live_orders){.attach = EIO, .fails_at = 6};
	REFUSED("live", NULL, -EIO, "context c1: ordered to fail");
	live_orders.attach = 0;
	REFUSED("live", live_built("needs"), -EINVAL, "context c0: ");
	REFUSED("live", live_built("renamed"), -ENOENT, "handler live, which is not in the new file");
	REFUSED("live", PLUGINS "/plugin-abi.so", -EINVAL, "was built for ABI 3, this NIC has 2");
	REFUSED("live", "/dev/null", -EINVAL, "is no regular file");
	REFUSED("live", "/nowhere/at/all.so", -ENOENT, "No such file");
	REFUSED("count", NULL, -EINVAL, "handler count is built in");
	REFUSED("nobody", NULL, -ENOENT, "there is no handler nobody");
	CU_ASSERT_EQUAL(rig.nic->memory_used, used);
	CU_ASSERT_EQUAL(collect(), 0);
	live_told(NULL);
	feed(1, SP_END);
	run();
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "p1 c1 ");
	CU_ASSERT_STRING_EQUAL(sp_handler_file(sp_handler_find("live")), live_built("hashed"));
	reload("newer"); /* and the next one that does not fail is taken */
	live_stop(&rig);
}

static void what_the_context_has_but_once_stays_as_it_is(void)
{
	start("hashed", 1);
	live_orders = (struct live_orders){.qps = 4, .area = 8192, .control = true};
	const uint32_t id = add("c0", "qp=5");
	void *before, *after;
	uint64_t len;
	CU_ASSERT_EQUAL(rig.dev->ops->context_area(rig.dev, id, &before, &len), 0);
	const uint32_t control = sp_context_by_id(rig.nic, id)->qp_control;
	live_orders.qps = 3;
	REFUSED("live", NULL, -EINVAL, "the copy before had 4 QPs, this one wants 3");
	live_orders.qps = 0;
	REFUSED("live", NULL, -EINVAL, "the copy before had 4 QPs, this one wants one");
	live_orders.qps = 4;
	live_orders.area = 4096;
	REFUSED("live", NULL, -EINVAL, "the copy before had an area of 8192 bytes, this one wants 4096");
	live_orders.area = 8192;
	reload(NULL);
	for (uint32_t qp = 5; qp < 9; qp++)
		live_feed(&rig, qp, qp, SP_END);
	live_feed(&rig, control, 1, SP_END);
	run();
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), 5);
	CU_ASSERT_EQUAL(rig.dev->ops->context_area(rig.dev, id, &after, &len), 0);
	CU_ASSERT_PTR_EQUAL(before, after);
	memset(after, 1, len); /* it is still there, now that the first copy has gone */
	CU_ASSERT_EQUAL(live.unloads, live.loads - 1);
	live_orders = (struct live_orders){.qps = 4};
	live_stop(&rig);
	start("hashed", 1);
	add("c0", "qp=5");
	live_orders.control = true;
	REFUSED("live", NULL, -EINVAL, "had no control QP");
	live_orders.control = false;
	live_stop(&rig);
}

static void companions_are_not_reloaded(void)
{
	start("hashed", 1);
	add("c0", "qp=5;companion=count");
	REFUSED("live", NULL, -EOPNOTSUPP, "context c0 has handlers live and count");
	live_stop(&rig);
}

static void copies_in_flight_are_bounded(void)
{
	start("hashed", 1);
	add("c0", "qp=5");
	for (unsigned i = 1; i < SP_MAX_COPIES; i++) {
		feed(i, SP_DONE);
		run();
		reload(NULL);
	}
	feed(100, SP_DONE);
	run();
	REFUSED("live", NULL, -EBUSY, "copy 1 holds: 1 message open");
	feed(1, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), SP_MAX_COPIES - 2);
	reload(NULL);
	live_stop(&rig);
}

static void unload_is_refused_and_says_by_whom(void)
{
	struct sp_error error;
	uint32_t id;

	start("hashed", 1);
	id = add("c0", "qp=5");
	for (unsigned i = 0; i < 3; i++)
		feed(i, SP_DONE);
	live_act(&rig, 5, 1, LIVE_TIMER, SP_SEC);
	run();
	reload(NULL);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(rig.nic, "live", &error), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "context c0, copy 2: in use"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "context c0, copy 1: 3 messages open, 1 timer armed"));
	CU_ASSERT_EQUAL(live.unloads, 0);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(rig.nic, "count", &error), -EINVAL);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(rig.nic, "nobody", &error), -ENOENT);
	CU_ASSERT_EQUAL(sp_nic_context_remove(rig.nic, id), 0);
	CU_ASSERT_EQUAL(live.unloads, 1); /* the one that had been replaced */
	CU_ASSERT_EQUAL(sp_nic_handler_unload(rig.nic, live_built("hashed"), &error), 0); /* by its file, too */
	CU_ASSERT_EQUAL(live.unloads, 2);
	CU_ASSERT_PTR_NULL(sp_handler_find("live"));
	CU_ASSERT_EQUAL(sp_nic_handler_unload(rig.nic, "live", &error), -ENOENT);
	CU_ASSERT_EQUAL(live.wrong, 0);
	rig_stop(&rig);
}

/* ---- migrate ---- */

static void migrate_hands_over_and_may_refuse(void)
{
	struct sp_event result;

	start("newer", 2);
	const uint32_t id = add("c0", "qp=5");
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .context = id, .arg = {77}};
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), 0);
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
	CU_ASSERT_EQUAL(rig.dev->ops->command_call(rig.dev, &cmd, &result), 0);
	CU_ASSERT_EQUAL(result.arg[0], 3);
	feed(1, SP_END);
	feed(2, SP_END);
	run();
	live_told(NULL);
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.call[0].serial, 4); /* what the old one has had, in the end */
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "M3 d1 ");
	live_stop(&rig);
}

/* ---- counts ---- */

static void nothing_that_was_counted_goes(void)
{
	start("hashed", 1);
	const uint32_t id = add("c0", "qp=5");
	for (unsigned i = 0; i < 4; i++)
		feed(1, SP_DONE);
	feed(1, SP_DROP(0));
	feed(1, SP_DROP(1));
	run();
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "ended"), 0);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "seen"), 6);
	reload("newer");
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), 4);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "seen"), 6); /* the same name, in another place */
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "refused"), 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(rig.nic, "asked"), 1); /* the new one has none of that name */
	feed(1, SP_DONE);				      /* still the old one's */
	feed(2, SP_DONE);
	run();
	CU_ASSERT_EQUAL(collect(), 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), 6);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "seen"), 8);
	feed(1, SP_DROP(0));
	feed(1, SP_END);
	run();
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), 7);
	CU_ASSERT_EQUAL(sp_nic_dropped(rig.nic, "asked"), 2);
	CU_ASSERT_EQUAL(rig_view(&rig, id, dropped), 3);
	rig_check_totals(&rig);
	live_stop(&rig);
}

/* Whatever the report says of a context, it says it of all copies together, once. */
static void no_kind_of_count_is_forgotten(void)
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
	struct sp_view *v = sp_context_by_id(rig.nic, id)->view[0];
	for (unsigned i = 0; i < RTE_DIM(count); i++)
		*(uint64_t *)((uint8_t *)v + count[i]) = 1000 + i;
	reload("newer");
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_PTR_NOT_EQUAL(sp_context_by_id(rig.nic, id)->view[0], v);
	for (unsigned i = 0; i < RTE_DIM(count); i++)
		CU_ASSERT_EQUAL(sp_context_sum(sp_context_by_id(rig.nic, id), count[i]), 1000 + i);
	live_stop(&rig);
}

static void what_each_copy_has_run_is_told(void)
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
	json_t *told = live_reload(&rig, NULL, 0);
	feed(3, SP_DONE);
	run();
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 0), "packets"), 5);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 1), "packets"), 4);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 2), "packets"), 0);
	CU_ASSERT_EQUAL(live_number(told, "received_meanwhile"), 0); /* time stood still */
	json_decref(told);
	char *json;
	CU_ASSERT_EQUAL(sp_nic_handler_text(rig.nic, &json), 0);
	told = json_loads(json, 0, NULL);
	CU_ASSERT_EQUAL(live_number(live_copy(told, 0, 2), "packets"), 1);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(told, "plugins")), 3);
	json_decref(told);
	free(json);
	live_stop(&rig);
}

/* ---- the process ---- */

static void another_nic_goes_on_with_the_copy_it_has(void)
{
	static struct rig other;
	struct sp_error error;

	start("hashed", 1);
	add("c0", "qp=5");
	rig_start(&other, 1);
	rig_context(&other, "c0", "live", "qp=5");
	reload("newer");
	live_told(NULL);
	feed(1, SP_END);
	run();
	live_feed(&other, 5, 1, SP_END);
	rig_settle(&other, 0);
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p2 p1 ");
	uint32_t id;
	CU_ASSERT_EQUAL(sp_nic_context_find(rig.nic, "c0", &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(rig.nic, id), 0);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(rig.nic, "live", &error), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "another NIC of this process"));
	json_decref(live_reload(&other, NULL, 0)); /* what it is now, which is the other's by then */
	CU_ASSERT_EQUAL(live.unloads, 2);	   /* nobody has the first and the second any more */
	live_feed(&other, 5, 1, SP_END);
	rig_settle(&other, 0);
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p3 ");
	rig_stop(&other);
	live_stop(&rig);
}

static void whoever_loaded_it_may_unload_it_later(void)
{
	struct sp_plugin *mine, *again;
	struct sp_error error;

	start("hashed", 1);
	CU_ASSERT_EQUAL(sp_plugin_load(live_built("hashed"), &mine, &error), 0);
	add("c0", "qp=5");
	reload("newer");
	uint32_t id;
	CU_ASSERT_EQUAL(sp_nic_context_find(rig.nic, "c0", &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(rig.nic, id), 0);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(rig.nic, "live", &error), 0);
	CU_ASSERT_EQUAL(live.unloads, 2);
	CU_ASSERT_EQUAL(sp_plugin_load(live_built("hashed"), &again, &error), 0);
	CU_ASSERT_EQUAL(sp_plugin_unload(mine), 0); /* which is not that one */
	CU_ASSERT_PTR_NOT_NULL(sp_handler_find("live"));
	CU_ASSERT_EQUAL(sp_plugin_unload(again), 0);
	CU_ASSERT_EQUAL(live.unloads, 3);
	rig_stop(&rig);
}

static void on_a_watched_nic_too(void)
{
	static const struct sp_watch watch;

	live_clear();
	rig_start(&rig, 1);
	CU_ASSERT_EQUAL(sp_nic_watch(rig.nic, &watch), 0);
	live_load(&rig, "hashed");
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
	live_stop(&rig);
}

/* An application at its limits is no reason to refuse, and has what it had afterwards. */
static void limits_do_not_stand_in_the_way(void)
{
	static const struct sp_limits limits = {.messages = 16, .contexts = 1, .qps = 2};
	const struct sp_setting set[] = {{"qp", "5"}, {"messages", "16"}};
	struct sp_error error = {.key = ""};
	struct sp_device *d;
	struct sp_event event;
	uint32_t id;

	start("hashed", 1);
	live_orders = (struct live_orders){.qps = 2, .area = 4096};
	CU_ASSERT_EQUAL_FATAL(sp_device_create(rig.nic, true, &limits, &d), 0);
	CU_ASSERT_EQUAL_FATAL(d->pub.ops->context_open(&d->pub, "c0", "live", set, 2, &id, &error), 0);
	const uint64_t memory = d->account->memory;
	d->account->limit.memory = memory + 1;
	for (unsigned i = 0; i < 3; i++) {
		feed(1, SP_DONE);
		run();
		reload(NULL);
		CU_ASSERT(d->account->memory > memory);
		feed(1, SP_END);
		run();
		CU_ASSERT_EQUAL(collect(), 0);
		CU_ASSERT_EQUAL(d->account->memory, memory);
		CU_ASSERT_EQUAL(d->account->messages, 16);
		CU_ASSERT_EQUAL(d->account->qps, 2);
		CU_ASSERT_EQUAL(d->account->contexts, 1);
	}
	/* Events still come by the queue that the application has. */
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .flags = SP_CMD_REPLY, .context = id, .cookie = 9};
	CU_ASSERT_EQUAL(d->pub.ops->command_post(&d->pub, &cmd), 0);
	run();
	CU_ASSERT_EQUAL(d->pub.ops->event_take(&d->pub, id, &event), 1);
	CU_ASSERT_EQUAL(event.cookie, 9);
	CU_ASSERT_EQUAL(event.arg[0], 4); /* from the newest load */
	feed(1, SP_DONE);
	run();
	reload(NULL);
	sp_dev_close(&d->pub); /* takes all copies along */
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, live.loads - 1);
	live_stop(&rig);
}

static void one_that_was_broken_off_is_not_called_again(void)
{
	start("hashed", 2);
	const uint32_t id = add("c0", "qp=5");
	live_act(&rig, 5, 1, LIVE_TIMER, SP_SEC);
	run();
	reload(NULL);
	struct sp_context *old = sp_context_by_id(rig.nic, id)->older;
	atomic_store(&old->aborted, true); /* as the warden does */
	sp_context_disable(old, SP_NEVER);
	live_told(NULL);
	feed(1, SP_END);
	run();
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "h2 p2 c2 ");
	CU_ASSERT_EQUAL(collect(), 0);
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "");
	CU_ASSERT_EQUAL(live.unloads, 1);
	live_stop(&rig);
}

static void a_filter_stays_too(void)
{
	struct frame f;

	start("none", 1);
	const uint32_t id = add("c0", "filter=udp port 7");
	reload(NULL);
	reload(NULL);
	rig_udp(&f, 7, NULL, 10);
	rig_feed(&rig, &f);
	run();
	CU_ASSERT_EQUAL(rig_counter(&rig, id, "packets"), 1);
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p3 ");
	live_stop(&rig);
}

SUITE("copies", TEST(the_new_copy_takes_over_at_once), TEST(an_open_message_ends_where_it_began),
      TEST(messages_of_several_copies_at_once), TEST(a_slot_opened_belongs_to_who_opened_it),
      TEST(without_messages_all_packets_are_the_new_ones), TEST(commands_go_on_to_who_has_it),
      TEST(a_packet_that_waits_for_a_header_goes_where_the_message_is), TEST(another_home_is_asked_for_or_given_up),
      TEST(a_timer_fires_where_it_was_armed), TEST(timers_go_on_while_a_message_is_open),
      TEST(issues_and_work_are_done_where_they_began), TEST(kept_packets_hold_until_they_are_released),
      TEST(force_ends_what_is_open), TEST(force_ends_what_earlier_reloads_have_left),
      TEST(force_loses_no_packet_that_waits), TEST(a_copy_that_packets_wait_for_stays_until_they_have_gone_on),
      TEST(a_context_that_goes_takes_its_copies_along), TEST(one_that_fails_leaves_the_old_one_running),
      TEST(what_the_context_has_but_once_stays_as_it_is), TEST(companions_are_not_reloaded),
      TEST(copies_in_flight_are_bounded), TEST(unload_is_refused_and_says_by_whom),
      TEST(migrate_hands_over_and_may_refuse), TEST(nothing_that_was_counted_goes), TEST(no_kind_of_count_is_forgotten),
      TEST(what_each_copy_has_run_is_told), TEST(another_nic_goes_on_with_the_copy_it_has),
      TEST(whoever_loaded_it_may_unload_it_later), TEST(on_a_watched_nic_too), TEST(a_filter_stays_too),
      TEST(limits_do_not_stand_in_the_way), TEST(one_that_was_broken_off_is_not_called_again))
