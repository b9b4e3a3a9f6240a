/* SPDX-License-Identifier: BSD-3-Clause */
/* What is refused when a handler is to be replaced or unloaded, by whom and in which words, and that all goes on then;
 * limits, and other NICs of the process. */
#include "../../pipeline/plugin/handler.h"
#include "../../pipeline/exec/rings.h"

#include "../lib/live_say.h"

TEST(a_reload_that_fails_leaves_the_old_handler_running)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	live_add("c1", "qp=6");
	live_say(1, SP_DONE);
	live_settle();
	const uint64_t used = dut.nic->memory_used;
	live_orders = (struct live_orders){.attach = EIO, .fails_at = 6};
	REFUSED("live", NULL, -EIO, "context c1: ordered to fail");
	live_orders.attach = 0;
	REFUSED("live", live_built("needs"), -EINVAL, "context c0: ");
	REFUSED("live", live_built("renamed"), -ENOENT, "handler live, which is not in the new file");
	REFUSED("live", PLUGINS "/plugin-abi.so", -EINVAL, "was built for ABI 99, this NIC has 5");
	REFUSED("live", "/dev/null", -EINVAL, "is no regular file");
	REFUSED("live", "/nowhere/at/all.so", -ENOENT, "No such file");
	REFUSED("count", NULL, -EINVAL, "handler count is built in");
	REFUSED("nobody", NULL, -ENOENT, "there is no handler nobody");
	CU_ASSERT_EQUAL(dut.nic->memory_used, used);
	CU_ASSERT_EQUAL(live_collect(), 0);
	live_told(NULL);
	live_say(1, SP_END);
	live_settle();
	CU_ASSERT_STRING_EQUAL(live_told(NULL), "p1 c1 ");
	CU_ASSERT_STRING_EQUAL(sp_handler_file(sp_handler_find("live")), live_built("hashed"));
	live_replace("newer"); /* and the next one that does not fail is taken */
	live_stop(&dut);
}

TEST(what_the_context_has_but_once_stays_as_it_is)
{
	live_start("hashed", 1);
	live_orders = (struct live_orders){.qps = 4, .area = 8192, .control = true};
	const uint32_t id = live_add("c0", "qp=5");
	void *before, *after;
	uint64_t len;
	CU_ASSERT_EQUAL(dut.dev->ops->context_area(dut.dev, id, &before, &len), 0);
	const uint32_t control = sp_context_by_id(dut.nic, id)->qp_control;
	live_orders.qps = 3;
	REFUSED("live", NULL, -EINVAL, "the version before had 4 QPs, this one wants 3");
	live_orders.qps = 0;
	REFUSED("live", NULL, -EINVAL, "the version before had 4 QPs, this one wants one");
	live_orders.qps = 4;
	live_orders.area = 4096;
	REFUSED("live", NULL, -EINVAL, "the version before had an area of 8192 bytes, this one wants 4096");
	live_orders.area = 8192;
	live_replace(NULL);
	for (uint32_t qp = 5; qp < 9; qp++)
		live_feed(&dut, qp, qp, SP_END);
	live_feed(&dut, control, 1, SP_END);
	live_settle();
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 5);
	CU_ASSERT_EQUAL(dut.dev->ops->context_area(dut.dev, id, &after, &len), 0);
	CU_ASSERT_PTR_EQUAL(before, after);
	memset(after, 1, len); /* it is still there, now that the first copy has gone */
	CU_ASSERT_EQUAL(live.unloads, live.loads - 1);
	live_orders = (struct live_orders){.qps = 4};
	live_stop(&dut);
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	live_orders.control = true;
	REFUSED("live", NULL, -EINVAL, "had no control QP");
	live_orders.control = false;
	live_stop(&dut);
}

TEST(companions_are_not_reloaded)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5;companion=count");
	REFUSED("live", NULL, -EOPNOTSUPP, "context c0 has handlers live and count");
	live_stop(&dut);
}

TEST(copies_in_flight_are_bounded)
{
	live_start("hashed", 1);
	live_add("c0", "qp=5");
	for (unsigned i = 1; i < SP_MAX_VERSIONS; i++) {
		live_say(i, SP_DONE);
		live_settle();
		live_replace(NULL);
	}
	live_say(100, SP_DONE);
	live_settle();
	REFUSED("live", NULL, -EBUSY, "copy 1 holds: 1 message open");
	live_say(1, SP_END);
	live_settle();
	CU_ASSERT_EQUAL(live_collect(), SP_MAX_VERSIONS - 2);
	live_replace(NULL);
	live_stop(&dut);
}

TEST(unload_is_refused_and_says_by_whom)
{
	struct sp_error error;

	live_start("hashed", 1);
	uint32_t id = live_add("c0", "qp=5");
	for (unsigned i = 0; i < 3; i++)
		live_say(i, SP_DONE);
	live_act(&dut, 5, 1, LIVE_TIMER, SP_SEC);
	live_settle();
	live_replace(NULL);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, "live", &error), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "context c0, copy 2: in use"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "context c0, copy 1: 3 messages open, 1 timer armed"));
	CU_ASSERT_EQUAL(live.unloads, 0);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, "count", &error), -EINVAL);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, "nobody", &error), -ENOENT);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_EQUAL(live.unloads, 1); /* the one that had been replaced */
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, live_built("hashed"), &error), 0); /* by its file, too */
	CU_ASSERT_EQUAL(live.unloads, 2);
	CU_ASSERT_PTR_NULL(sp_handler_find("live"));
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, "live", &error), -ENOENT);
	CU_ASSERT_EQUAL(live.wrong, 0);
	dut_stop(&dut);
}

/* An application at its limits is no reason to refuse, and has what it had afterwards. */
TEST(limits_do_not_stand_in_the_way)
{
	static const struct sp_limits limits = {.messages = 16, .contexts = 1, .qps = 2};
	const struct sp_setting set[] = {{"qp", "5"}, {"messages", "16"}};
	struct sp_error error = {.key = ""};
	struct sp_device *d;
	struct sp_event event;
	uint32_t id;

	live_start("hashed", 1);
	live_orders = (struct live_orders){.qps = 2, .area = 4096};
	CU_ASSERT_EQUAL_FATAL(sp_device_create(dut.nic, true, &limits, &d), 0);
	CU_ASSERT_EQUAL_FATAL(d->pub.ops->context_open(&d->pub, "c0", "live", set, 2, &id, &error), 0);
	const uint64_t memory = d->account->memory;
	d->account->limit.memory = memory + 1;
	for (unsigned i = 0; i < 3; i++) {
		live_say(1, SP_DONE);
		live_settle();
		live_replace(NULL);
		CU_ASSERT(d->account->memory > memory);
		live_say(1, SP_END);
		live_settle();
		CU_ASSERT_EQUAL(live_collect(), 0);
		CU_ASSERT_EQUAL(d->account->memory, memory);
		CU_ASSERT_EQUAL(d->account->messages, 16);
		CU_ASSERT_EQUAL(d->account->qps, 2);
		CU_ASSERT_EQUAL(d->account->contexts, 1);
	}
	/* Events still come by the queue that the application has. */
	struct sp_command cmd = {.op = LIVE_CMD_MARK, .flags = SP_CMD_REPLY, .context = id, .cookie = 9};
	CU_ASSERT_EQUAL(d->pub.ops->command_post(&d->pub, &cmd), 0);
	live_settle();
	CU_ASSERT_EQUAL(d->pub.ops->event_take(&d->pub, id, &event), 1);
	CU_ASSERT_EQUAL(event.cookie, 9);
	CU_ASSERT_EQUAL(event.arg[0], 4); /* from the newest load */
	live_say(1, SP_DONE);
	live_settle();
	live_replace(NULL);
	sp_dev_close(&d->pub); /* takes all copies along */
	CU_ASSERT_EQUAL(live_collect(), 0);
	CU_ASSERT_EQUAL(live.unloads, live.loads - 1);
	live_stop(&dut);
}

/* ---- the process ---- */

TEST(another_nic_goes_on_with_the_copy_it_has)
{
	static struct dut other;
	struct sp_error error;

	live_start("hashed", 1);
	live_add("c0", "qp=5");
	dut_start(&other, 1);
	dut_context(&other, "c0", "live", "qp=5");
	live_replace("newer");
	live_told(NULL);
	live_say(1, SP_END);
	live_settle();
	live_feed(&other, 5, 1, SP_END);
	dut_settle(&other, 0);
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p2 p1 ");
	uint32_t id;
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "c0", &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, "live", &error), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "another NIC of this process"));
	json_decref(live_reload(&other, NULL, 0)); /* what it is now, which is the other's by then */
	CU_ASSERT_EQUAL(live.unloads, 2);	   /* nobody has the first and the second any more */
	live_feed(&other, 5, 1, SP_END);
	dut_settle(&other, 0);
	CU_ASSERT_STRING_EQUAL(live_told("p"), "p3 ");
	dut_stop(&other);
	live_stop(&dut);
}

TEST(whoever_loaded_it_may_unload_it_later)
{
	struct sp_plugin *mine, *again;
	struct sp_error error;

	live_start("hashed", 1);
	CU_ASSERT_EQUAL(sp_plugin_load(live_built("hashed"), &mine, &error), 0);
	live_add("c0", "qp=5");
	live_replace("newer");
	uint32_t id;
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "c0", &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, "live", &error), 0);
	CU_ASSERT_EQUAL(live.unloads, 2);
	CU_ASSERT_EQUAL(sp_plugin_load(live_built("hashed"), &again, &error), 0);
	CU_ASSERT_EQUAL(sp_plugin_unload(mine), 0); /* which is not that one */
	CU_ASSERT_PTR_NOT_NULL(sp_handler_find("live"));
	CU_ASSERT_EQUAL(sp_plugin_unload(again), 0);
	CU_ASSERT_EQUAL(live.unloads, 3);
	dut_stop(&dut);
}
