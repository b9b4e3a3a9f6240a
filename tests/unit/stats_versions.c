/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC's report while a context has several copies: each is told of, and nothing goes backwards when one ends. */
#include "../lib/live_nic.h"

static json_t *report(void)
{
	char *text = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, false, NULL, &text), 0);
	json_t *tree = json_loads(text, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
	free(text);
	return tree;
}

static json_t *context(const json_t *report)
{
	return json_object_get(json_object_get(report, "contexts"), "c0");
}

static uint64_t of(const json_t *object, const char *in, const char *name)
{
	return live_number(json_object_get(object, in), name);
}

/* Packets of the context so far, and in how many copies they are told of. */
static void check(uint64_t packets, size_t copies)
{
	json_t *r = report(), *c = context(r), *live = json_object_get(json_object_get(r, "handlers"), "live"), *copy;
	uint64_t sum = 0;
	size_t i;

	CU_ASSERT_EQUAL(live_number(c, "packets"), packets);
	CU_ASSERT_EQUAL(of(c, "verdicts", "done") + of(c, "verdicts", "end"), packets);
	CU_ASSERT_EQUAL(live_number(live, "packets"), packets);
	CU_ASSERT_EQUAL(live_number(live, "contexts"), 1);
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 1);
	CU_ASSERT_EQUAL(live_number(r, "taken"), packets);
	CU_ASSERT_EQUAL(of(c, "condition", "draining"), copies - 1);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(c, "copies")), copies > 1 ? copies : 0);
	json_array_foreach(json_object_get(c, "copies"), i, copy)
	{
		CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(copy, "state")), i ? "draining" : "running");
		sum += live_number(copy, "packets");
	}
	if (copies > 1)
		CU_ASSERT_EQUAL(sum, packets);
	json_decref(r);
}

static void run(uint64_t key, uint32_t verdict)
{
	live_feed(&dut, 5, key, verdict);
	dut_settle(&dut, dut.nic->worker[0]->now);
}

TEST(copies_are_told_of_and_counted_once)
{
	live_clear();
	dut_start(&dut, 1);
	live_load(&dut, "hashed");
	dut_context(&dut, "c0", "live", "qp=5");
	run(7, SP_DONE);
	run(7, SP_DONE);
	check(2, 1);
	json_decref(live_reload(&dut, NULL, 0));
	check(2, 2);
	run(7, SP_DONE); /* the older one's */
	run(8, SP_DONE);
	check(4, 2);
	sp_nic_handler_collect(dut.nic); /* looks, and finds it busy */
	check(4, 2);
	json_decref(live_reload(&dut, NULL, 0));
	run(9, SP_END);
	check(5, 3);
	json_t *r = report();
	json_t *copies = json_object_get(context(r), "copies");
	for (size_t i = 0; i < 3; i++) /* the newest first */
		CU_ASSERT_EQUAL(live_number(json_array_get(copies, i), "copy"), 3 - i);
	CU_ASSERT_EQUAL(live_number(json_array_get(copies, 0), "packets"), 1);
	CU_ASSERT_EQUAL(live_number(json_array_get(copies, 1), "packets"), 1);
	CU_ASSERT_EQUAL(live_number(json_array_get(copies, 2), "packets"), 3);
	CU_ASSERT_EQUAL(live_number(json_array_get(copies, 2), "open_messages"), 1);
	CU_ASSERT_EQUAL(live_number(context(r), "open_messages"), 2);
	CU_ASSERT_EQUAL(of(context(r), "condition", "copy"), 3);
	json_decref(r);
	run(7, SP_END);
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 1);
	r = report();
	CU_ASSERT_EQUAL(live_number(context(r), "packets"), 6);
	json_decref(r);
	run(8, SP_END);
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 0);
	check(7, 1);
	live_stop(&dut);
}

static void check_fault(const char *want)
{
	json_t *r = report();
	const char *got = json_string_value(json_object_get(context(r), "last_fault"));

	CU_ASSERT_PTR_NOT_NULL_FATAL(got);
	if (strcmp(got, want))
		printf("# %s\n", got);
	CU_ASSERT_STRING_EQUAL(got, want);
	json_decref(r);
}

/* Of all copies the latest one, and when they have gone, too. */
TEST(the_last_fault_outlives_its_copy)
{
	live_clear();
	dut_start(&dut, 1);
	live_load(&dut, "hashed");
	dut_context(&dut, "c0", "live", "qp=5");
	run(7, 97);
	run(8, SP_DONE);
	check_fault("payload() returned 97, which is no verdict");
	json_decref(live_reload(&dut, NULL, 0));
	check_fault("payload() returned 97, which is no verdict");
	dut_settle(&dut, SP_US);
	run(9, 98); /* the newer one's */
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 1);
	check_fault("payload() returned 98, which is no verdict");
	dut_settle(&dut, 2 * SP_US);
	run(8, 99); /* the older one's; before and after it is looked at */
	check_fault("payload() returned 99, which is no verdict");
	sp_nic_handler_collect(dut.nic);
	check_fault("payload() returned 99, which is no verdict");
	run(8, 98);
	dut_settle(&dut, 3 * SP_US);
	run(9, 97); /* is later than what has not been looked at yet */
	run(7, SP_END);
	run(8, SP_END);
	CU_ASSERT_EQUAL(sp_nic_handler_collect(dut.nic), 0);
	check_fault("payload() returned 97, which is no verdict");
	live_stop(&dut);
}
