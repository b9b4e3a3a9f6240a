/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reloads at random moments of virtual time, against a model: a message belongs to the load that was newest when its
 * first packet came, until it ends; every packet is run once, in order, by that load; timers, issues, work and kept
 * packets hold their load, and no longer; a reload that fails changes nothing; and nobody calls what has gone.
 */
#include "../lib/live_nic.h"
#include "../../testbed/random.h"

enum { KEYS = 12, STEPS = 220, QPS = 2 };

static struct sp_random dice;

/* What should be: of each context's messages which load has them (0: not open), and the serial that comes next. */
static struct {
	unsigned owner[QPS][KEYS];
	uint32_t next[QPS][KEYS];	/* that is fed next */
	uint32_t due[QPS][KEYS];	/* that is to be run next */
	unsigned jobs[QPS][LIVE_LOADS]; /* timers, issues, work: begun and not done */
	uint64_t fed, run, ended;
	unsigned newest;
	bool ends; /* contexts are being removed */
	uint64_t reloads, refused, failed, across, forced;
} model;
static const char *wrong;
static unsigned long line;

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition) && !wrong) {                                                                          \
			wrong = #condition;                                                                            \
			line = __LINE__;                                                                               \
		}                                                                                                      \
	} while (0)

static unsigned roll(unsigned n)
{
	return (unsigned)(sp_random_next(&dice) % n);
}

static void feed(sp_time now, uint16_t workers)
{
	const unsigned qp = roll(QPS), key = roll(KEYS);
	const uint32_t n = model.next[qp][key]++;
	struct live_words w = {.magic = LIVE_MAGIC, .key = key, .serial = n};

	if (!roll(4))
		w.verdict = SP_END;
	if (!roll(6)) {
		static const uint32_t action[] = {LIVE_KEEP,  LIVE_RELEASE, LIVE_TIMER, LIVE_TIMER | LIVE_AGAIN,
						  LIVE_ISSUE, LIVE_WORK};

		w.action = action[roll(RTE_DIM(action))];
		w.arg = w.action & LIVE_TIMER ? roll(50) * SP_US : 1 + roll(5);
	}
	/* A message's packets come by one worker: between workers there is no order. */
	live_feed_at(&dut, 5 + qp, (uint16_t)(key % workers), now, &w);
	model.fed++;
}

/* What has been called since the last time. */
static void check(void)
{
	for (unsigned i = 0; i < live.calls; i++) {
		const struct live_call *c = &live.call[i];
		const unsigned qp = c->qp - 5;
		const uint64_t key = c->key;
		unsigned *jobs = &model.jobs[qp % QPS][c->load % LIVE_LOADS];

		MUST(qp < QPS);
		switch (c->what) {
		case 'h':
			MUST(!model.owner[qp][key]);
			MUST(c->load == model.newest);
			model.owner[qp][key] = c->load;
			break;
		case 'p':
			MUST(model.owner[qp][key] == c->load);
			MUST(c->serial == model.due[qp][key]);
			model.due[qp][key]++;
			model.run++;
			break;
		case 'c':
			MUST(model.owner[qp][key] == c->load);
			model.owner[qp][key] = 0;
			model.ended++;
			break;
		case 'T':
		case 'I':
		case 'W':
			++*jobs;
			break;
		case 't': /* armed again, or not */
			MUST(*jobs);
			*jobs -= !key || c->serial;
			break;
		case 'i':
		case 'w':
			MUST(*jobs);
			*jobs -= !key;
			break;
		case 'd': /* nobody goes while there is something; but what was never taken does */
			MUST(!*jobs || model.ends || c->load > model.newest);
			break;
		}
	}
	live.calls = 0;
	MUST(!live.wrong);
}

static void run(sp_time now)
{
	unsigned rounds = 0;

	while (dut_poll(&dut, now) && ++rounds < 1000)
		;
	MUST(rounds < 1000);
	check();
}

static void reload(unsigned contexts)
{
	static const char *const kind[] = {"hashed", "newer", "migrates"};
	struct sp_error error = {.key = ""};
	const unsigned how = roll(8);
	bool open = false;
	json_t *told = NULL;

	live_orders = (struct live_orders){.arms = !roll(5)};
	if (how == 0)
		live_orders.attach = EIO;
	if (how == 1)
		live_orders = (struct live_orders){.attach = EIO, .fails_at = 6};
	if (how == 2)
		live_orders.migrate = EPERM;
	for (unsigned q = 0; q < QPS; q++)
		for (unsigned k = 0; k < KEYS; k++)
			open |= model.owner[q][k] != 0;
	int rc = live_try(&dut, "live", live_built(kind[how == 2 ? 2 : roll(3)]), 0, &told, &error);
	live_orders = (struct live_orders){.attach = 0};
	check(); /* header() and payload() have not been called */
	if (rc == -EBUSY) {
		model.refused++;
		MUST(strstr(error.text, "copies of handler live in flight"));
	} else if (rc) {
		model.failed++;
		MUST((how == 0 && rc == -EIO) || (how == 1 && rc == -EIO && contexts > 1) ||
		     (how == 2 && rc == -EPERM));
	} else {
		MUST(how != 0 && (how != 1 || contexts < 2) && how != 2);
		MUST(told && !json_integer_value(json_object_get(told, "lost")));
		model.newest = live.loads;
		model.reloads++;
		model.across += open;
	}
	json_decref(told);
}

static void one(uint64_t seed)
{
	const uint16_t workers = (uint16_t)(1 + seed % 2);
	const unsigned contexts = QPS;
	sp_time now = SP_US;
	struct sp_error error;
	unsigned left, rounds = 0;

	live_clear();
	memset(&model, 0, sizeof(model));
	sp_random_seed(&dice, seed, 3);
	dut_prepare(&dut, workers);
	dut.config.seed = seed;
	dut_create(&dut);
	live_load(&dut, "hashed");
	model.newest = 1;
	dut_context(&dut, "c0", "live", "qp=5");
	dut_context(&dut, "c1", "live", "qp=6");
	live.calls = 0;
	for (unsigned i = 0; i < STEPS && !wrong; i++) {
		const unsigned what = roll(20);

		if (what < 13)
			feed(now, workers);
		else if (what < 16)
			run(now += roll(30) * SP_US);
		else if (what < 18)
			reload(contexts);
		else
			sp_nic_handler_collect(dut.nic);
	}
	run(now);
	MUST(model.run == model.fed);
	/* All messages end, all that was kept is released: then every older copy goes by itself. */
	for (unsigned q = 0; q < QPS; q++)
		for (unsigned k = 0; k < KEYS; k++)
			while (model.owner[q][k] && rounds++ < 1000 && !wrong) {
				live_feed_at(&dut, 5 + q, (uint16_t)(k % workers), now,
					     &(struct live_words){LIVE_MAGIC, model.next[q][k]++, k, SP_END,
								  LIVE_RELEASE, 0});
				model.fed++;
				run(now);
			}
	for (left = 0; left < 200; left++)
		run(now += 10 * SP_US);
	left = sp_nic_handler_collect(dut.nic);
	for (uint32_t i = 0; i < dut.nic->context_next; i++) /* what nobody can release any more holds its copy */
		for (struct sp_context *c = dut.nic->context[i]->older; c; c = c->older)
			MUST(sp_context_sum(c, offsetof(struct sp_view, held)));
	if (!left)
		MUST(live.unloads + 1 == live.loads);
	MUST(model.run == model.fed);
	struct sp_nic_totals t;

	sp_nic_totals(dut.nic, &t);
	MUST(t.received == model.fed && t.taken == model.fed);
	check();
	model.ends = true;
	for (uint32_t i = 0; i < QPS; i++) {
		uint32_t id;

		CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(dut.nic, i ? "c1" : "c0", &id), 0);
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	}
	CU_ASSERT_EQUAL(sp_nic_handler_unload(dut.nic, "live", &error), 0);
	MUST(live.unloads == live.loads);
	MUST(!live.wrong);
	dut_stop(&dut);
}

TEST(every_packet_is_run_once_by_the_load_of_its_message)
{
	const char *only = getenv("SPINDLE_SEED");
	const uint64_t seeds = getenv("SPINDLE_LONG") ? 5000 : 60;
	uint64_t reloads = 0, across = 0, failed = 0, refused = 0, packets = 0;

	for (uint64_t i = 1; i <= seeds && !wrong; i++) {
		const uint64_t seed = only ? strtoull(only, NULL, 0) : i;

		one(seed);
		if (wrong)
			printf("# seed %" PRIu64 ", line %lu: not %s\n", seed, line, wrong);
		reloads += model.reloads;
		across += model.across;
		failed += model.failed;
		refused += model.refused;
		packets += model.fed;
		if (only)
			break;
	}
	printf("# %" PRIu64 " reloads (%" PRIu64 " with messages open), %" PRIu64 " failed as ordered, %" PRIu64
	       " refused for copies in flight; %" PRIu64 " packets\n",
	       reloads, across, failed, refused, packets);
	CU_ASSERT_PTR_NULL(wrong);
	CU_ASSERT(only || (across && failed && refused));
}
