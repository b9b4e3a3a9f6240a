/* SPDX-License-Identifier: BSD-3-Clause */
/* What the NIC's report says of contexts' calls: verdicts, cycles by a clock that this test turns itself, and what
 * follows from budgets; of contexts, of handlers, and by worker. */
#include <jansson.h>

#include "../lib/probe.h"

static uint64_t cycles; /* the clock */

static uint64_t look(void *arg)
{
	return *(uint64_t *)arg;
}

/* ---- handlers whose packets say what they cost (key), and what becomes of them ---- */

static uint32_t costly_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const struct probe_words w = probe_words_of(p);
	cycles += w.key;
	c->counters[0]++;
	if (w.action & PROBE_SEND)
		sp_packet_send(c, p);
	return w.verdict;
}

static uint64_t costly_classify(struct sp_ctx *c, struct sp_packet *p)
{
	return 7; /* one message */
}

static int costly_attach(struct sp_ctx *c)
{
	return sp_messages_limit(c, 16, 0);
}

static const char *const counters[] = {"calls", NULL};
static const struct sp_handler costly = {SP_HANDLER_HEAD,	   .name = "costly",
					 .doc = "takes its time",  .drops = probe_drops,
					 .counters = counters,	   .messages = SP_MESSAGES_HASHED,
					 .attach = costly_attach,  .classify = costly_classify,
					 .payload = costly_payload};
SP_HANDLER(costly)

/* One of whose reasons is called as one of the NIC's is. */
static const char *const same_drops[] = {"over-budget", NULL};
static const struct sp_handler same = {SP_HANDLER_HEAD,	    .name = "same",	  .doc = "drops",
				       .drops = same_drops, .counters = counters, .payload = costly_payload};
SP_HANDLER(same)

/* ---- helpers ---- */

static void start(uint16_t workers, bool measured)
{
	dut_prepare(&dut, workers);
	if (measured) {
		dut.config.cycles = look;
		dut.config.cycles_arg = &cycles;
	}
	dut_create(&dut);
}

static void end(void)
{
	dut_stop(&dut);
	probe_log_clear();
}

static void feed(uint16_t queue, uint32_t qp, sp_time at, uint64_t cost, uint32_t verdict, uint32_t action)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .key = cost, .verdict = verdict, .action = action};
	struct frame f;

	dut_roce(&f, FRAME_IP4, qp, 0, &w, sizeof(w));
	dut_feed_bytes(&dut.port, queue, at, f.bytes, f.len);
}

static json_t *report(void)
{
	char *text = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, false, NULL, &text), 0);
	json_t *tree = json_loads(text, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
	free(text);
	return tree;
}

/* "contexts/a/packets", "workers/1/packets". */
static const json_t *find(const json_t *tree, const char *path)
{
	char copy[200], *rest = copy, *key;

	snprintf(copy, sizeof(copy), "%s", path);
	while (tree && (key = strsep(&rest, "/")))
		tree = json_is_array(tree) ? json_array_get(tree, strtoul(key, NULL, 10)) : json_object_get(tree, key);
	return tree;
}

/* -1: not there, or no number. */
static json_int_t at(const json_t *tree, const char *path)
{
	const json_t *v = find(tree, path);

	return json_is_integer(v) ? json_integer_value(v) : -1;
}

static const char *word(const json_t *tree, const char *path)
{
	const char *text = json_string_value(find(tree, path));

	return text ? text : "";
}

/* How many are in the bucket that ends there, of the histogram at that path; all: in any. */
static json_int_t bucket(const json_t *tree, const char *path, json_int_t most, json_int_t *all)
{
	const json_t *list = find(tree, path);
	json_int_t found = 0;

	*all = 0;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *pair = json_array_get(list, i);

		*all += json_integer_value(json_array_get(pair, 1));
		if (json_integer_value(json_array_get(pair, 0)) == most)
			found = json_integer_value(json_array_get(pair, 1));
	}
	return found;
}

/* ---- rules ---- */

TEST(calls_are_reported_with_what_they_cost)
{
	json_int_t all;

	start(2, true);
	/* with a budget each packet is a turn of its own */
	dut_context(&dut, "a", "costly", "qp=16;budget=1000;weight=3");
	dut_context(&dut, "b", "costly", "qp=17");
	feed(0, 16, 0, 10, SP_DONE, 0);
	feed(0, 16, 0, 20, SP_DONE, 0);
	feed(0, 16, 0, 2000, SP_DONE, 0);
	feed(1, 16, 0, 300, SP_DONE, 0);
	feed(1, 17, 0, 50, SP_DONE, 0);
	dut_settle(&dut, 1);
	json_t *r = report();
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/packets"), 4);
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/turns"), 4);
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/total"), 2330);
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/min"), 10);
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/mean"), 583);
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/p50"), 23); /* the end of the bucket of 20 */
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/p99"), 2000);
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/max"), 2000);
	CU_ASSERT_EQUAL(at(r, "contexts/a/cycles/overruns"), 1);
	CU_ASSERT_EQUAL(bucket(r, "contexts/a/cycles/histogram", 319, &all), 1);
	CU_ASSERT_EQUAL(bucket(r, "contexts/a/cycles/histogram", 2047, &all), 1);
	CU_ASSERT_EQUAL(all, 4);
	CU_ASSERT_EQUAL(at(r, "contexts/a/limits/weight"), 3);
	CU_ASSERT_EQUAL(at(r, "contexts/a/limits/budget"), 1000);
	CU_ASSERT_STRING_EQUAL(word(r, "contexts/a/limits/overrun"), "count");
	CU_ASSERT_EQUAL(at(r, "contexts/b/limits/weight"), 1);
	CU_ASSERT_EQUAL(at(r, "contexts/b/limits/budget"), -1);
	CU_ASSERT_STRING_EQUAL(word(r, "contexts/a/condition/state"), "enabled");
	CU_ASSERT_EQUAL(at(r, "contexts/a/condition/draining"), 0);
	/* whose a worker's time is */
	CU_ASSERT_EQUAL(at(r, "workers/0/contexts/a"), 2030);
	CU_ASSERT_EQUAL(at(r, "workers/1/contexts/a"), 300);
	CU_ASSERT_EQUAL(at(r, "workers/0/contexts/b"), -1);
	CU_ASSERT_EQUAL(at(r, "workers/1/contexts/b"), 50);
	CU_ASSERT_EQUAL(at(r, "workers/0/cycles"), 2030);
	CU_ASSERT_EQUAL(at(r, "workers/1/cycles"), 350);
	CU_ASSERT_EQUAL(at(r, "handlers/costly/contexts"), 2);
	CU_ASSERT_EQUAL(at(r, "handlers/costly/cycles/total"), 2380);
	CU_ASSERT_EQUAL(at(r, "handlers/costly/cycles/max"), 2000);
	CU_ASSERT_EQUAL(at(r, "handlers/costly/counters/calls"), 5);
	CU_ASSERT_EQUAL(at(r, "tsc_hz"), -1); /* these cycles are not the TSC's */
	json_decref(r);
	end();
}

/* In virtual time nothing depends on how fast the machine is; so there is nothing to say of it. */
TEST(what_is_not_measured_is_not_there)
{
	start(1, false);
	dut_context(&dut, "a", "costly", "qp=16");
	feed(0, 16, 0, 10, SP_DONE, 0);
	dut_settle(&dut, 1);
	json_t *r = report();
	CU_ASSERT_EQUAL(at(r, "contexts/a/packets"), 1);
	CU_ASSERT_PTR_NULL(find(r, "contexts/a/cycles"));
	CU_ASSERT_PTR_NULL(find(r, "workers/0/cycles"));
	CU_ASSERT_PTR_NULL(find(r, "tsc_hz"));
	json_decref(r);
	end();
}

TEST(verdicts_are_told_apart)
{
	static const char *const kinds[] = {"done", "end", "answered", "forwarded", "dropped", "errors"};
	json_int_t sum = 0;

	start(2, false);
	dut_context(&dut, "a", "costly", "qp=16");
	for (unsigned i = 0; i < 7; i++)
		feed(i % 2, 16, 0, 0, SP_DONE, 0);
	for (unsigned i = 0; i < 4; i++)
		feed(i % 2, 16, 0, 0, SP_SENT, PROBE_SEND);
	for (unsigned i = 0; i < 3; i++)
		feed(i % 2, 16, 0, 0, SP_DROP(1), 0);
	feed(0, 16, 0, 0, SP_DROP(0), 0);
	for (unsigned i = 0; i < 2; i++)
		feed(i % 2, 16, 0, 0, SP_FORWARD, 0);
	feed(1, 16, 0, 0, SP_ERROR, 0);
	feed(1, 16, 0, 0, 99, 0);
	feed(1, 16, 0, 0, SP_SENT, 0); /* it was not */
	feed(0, 16, 0, 0, SP_END, 0);
	dut_settle(&dut, 1);
	json_t *r = report();
	CU_ASSERT_EQUAL(at(r, "contexts/a/verdicts/done"), 7);
	CU_ASSERT_EQUAL(at(r, "contexts/a/verdicts/answered"), 4);
	CU_ASSERT_EQUAL(at(r, "contexts/a/verdicts/end"), 1);
	CU_ASSERT_EQUAL(at(r, "contexts/a/verdicts/forwarded"), 2);
	CU_ASSERT_EQUAL(at(r, "contexts/a/verdicts/dropped"), 7);
	CU_ASSERT_EQUAL(at(r, "contexts/a/verdicts/errors"), 3);
	CU_ASSERT_EQUAL(at(r, "contexts/a/packets"), 12);
	CU_ASSERT_EQUAL(at(r, "contexts/a/drops/probe-one"), 3);
	CU_ASSERT_EQUAL(at(r, "contexts/a/drops/probe-zero"), 1);
	/* all but the errors, which are among the dropped ones, are all that came */
	for (unsigned i = 0; i < 5; i++) {
		char path[60];

		snprintf(path, sizeof(path), "contexts/a/verdicts/%s", kinds[i]);
		sum += at(r, path);
		snprintf(path, sizeof(path), "handlers/costly/verdicts/%s", kinds[i]);
		CU_ASSERT(at(r, path) >= 0);
	}
	CU_ASSERT_EQUAL(sum, at(r, "packets"));
	json_decref(r);
	end();
}

TEST(drops_of_the_nics_are_the_contexts_that_caused_them)
{
	start(1, true);
	dut_context(&dut, "owes", "costly", "qp=16;budget=100;overrun=drop");
	dut_context(&dut, "same", "same", "qp=17;budget=100;overrun=drop");
	dut_context(&dut, "good", "costly", "qp=18");
	for (uint32_t qp = 16; qp <= 18; qp++)
		feed(0, qp, 0, 1100, SP_DONE, 0); /* ten budgets too many */
	dut_settle(&dut, 1);
	for (unsigned i = 0; i < 12; i++)
		for (uint32_t qp = 16; qp <= 18; qp++)
			feed(0, qp, 2, 1, qp == 17 ? SP_DROP(0) : SP_DONE, 0);
	dut_settle(&dut, 2);
	json_t *r = report();
	CU_ASSERT_EQUAL(at(r, "contexts/owes/drops/over-budget"), 10);
	CU_ASSERT_EQUAL(at(r, "contexts/owes/dropped"), 10);
	CU_ASSERT_EQUAL(at(r, "contexts/same/drops/over-budget"), 12); /* ten, and two of its own by that name */
	CU_ASSERT_EQUAL(at(r, "contexts/same/dropped"), 12);
	CU_ASSERT_EQUAL(at(r, "contexts/good/drops/over-budget"), -1);
	CU_ASSERT_EQUAL(at(r, "contexts/good/packets"), 13);
	CU_ASSERT_EQUAL(at(r, "drops/over-budget"), 22);
	CU_ASSERT_EQUAL(at(r, "handlers/costly/drops/over-budget"), 10);
	CU_ASSERT_EQUAL(at(r, "packets"), at(r, "taken") + at(r, "dropped"));
	json_decref(r);
	end();
}

TEST(a_disabled_context_is_reported_with_when_it_is_enabled)
{
	start(1, true);
	dut_context(&dut, "slow", "costly", "qp=16;budget=100;overrun=disable");
	feed(0, 16, 0, 1100, SP_DONE, 0);
	dut_settle(&dut, SP_MS);
	feed(0, 16, SP_MS, 1, SP_DONE, 0);
	feed(0, 16, SP_MS, 1, SP_DONE, 0);
	dut_settle(&dut, 2 * SP_MS);
	json_t *r = report();
	CU_ASSERT_STRING_EQUAL(word(r, "contexts/slow/condition/state"), "disabled");
	CU_ASSERT_EQUAL(at(r, "contexts/slow/condition/enabled_in_us"), 9000); /* 10 ms, of which 1 is over */
	CU_ASSERT_EQUAL(at(r, "contexts/slow/condition/disabled"), 1);
	CU_ASSERT_EQUAL(at(r, "contexts/slow/drops/context-disabled"), 2);
	json_decref(r);
	dut_settle(&dut, 12 * SP_MS);
	r = report();
	CU_ASSERT_STRING_EQUAL(word(r, "contexts/slow/condition/state"), "enabled");
	CU_ASSERT_PTR_NULL(find(r, "contexts/slow/condition/enabled_in_us"));
	CU_ASSERT_EQUAL(at(r, "contexts/slow/condition/disabled"), 1);
	json_decref(r);
	end();
}
