/* SPDX-License-Identifier: BSD-3-Clause */
/* Example handlers, each alone: examples PLUGINS. What no capture can bring about, above all workers that meet in one
 * message, and what the host commands. */
#include <pthread.h>

#include "../lib/plugin_alone.h"

/* ---- two workers in one message --------------------------------------------------------------------------------- */
#define PACKETS 64
#define TIMES	500

static struct {
	struct sp_message message;
	bool ranks; /* vectors of as many ranks, of one segment each; else the packets of a message */
	atomic_uint ends, taken;
	struct wire wire[WORKERS][PACKETS];
	struct sp_packet packet[WORKERS][PACKETS];
} meeting;

/* Both workers go on from here at the same time. */
static void together(void)
{
	static atomic_uint arrived;
	const unsigned all = arrived++ / WORKERS * WORKERS + WORKERS;

	while ((int)(arrived - all) < 0)
		sched_yield();
}

/* Every worker has every packet, in almost the same order: they meet all the time. */
static void meet(struct sp_ctx *c)
{
	together(); /* the meeting before is over, also for who checks it */
	for (unsigned i = 0; i < PACKETS; i++) {
		struct wire *w = &meeting.wire[c->worker][i];
		meeting.packet[c->worker][i] = meeting.ranks
						       ? slmp(w, true, i, 7, 0, 16, i + 1)
						       : slmp(w, i == PACKETS - 1, 0, 7, i * 64, 16, i << 24 | (i + 1));
	}
	together();
	for (unsigned k = 0; k < PACKETS; k++) {
		struct sp_packet *p = &meeting.packet[c->worker][c->worker ? k ^ 1 : k];
		const uint32_t verdict = plugin_handler->payload(c, &meeting.message, p);

		meeting.ends += verdict == SP_END;
		meeting.taken += verdict == SP_END || verdict == SP_DONE;
	}
	together();
}

static void *second_worker(void *arg)
{
	for (unsigned k = 0; k < TIMES; k++)
		meet(&plugin_ctx[1]);
	return arg;
}

/* Message after message; check(k) when the k-th is over. */
static void run_meetings(bool ranks, void (*check)(unsigned k))
{
	pthread_t thread;

	meeting.ranks = ranks;
	meeting.message.state = aligned_alloc(64, (plugin_handler->msg_size + 63) & ~(size_t)63);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, second_worker, NULL), 0);
	for (unsigned k = 0; k < TIMES; k++) {
		struct sp_packet first = slmp(&meeting.wire[0][0], false, 0, k, 0, 16, 1);

		memset(meeting.message.state, 0, plugin_handler->msg_size);
		meeting.message.key = k;
		meeting.ends = meeting.taken = 0;
		if (plugin_handler->header)
			CU_ASSERT_EQUAL(plugin_handler->header(&plugin_ctx[0], &meeting.message, &first), SP_DONE);
		meet(&plugin_ctx[0]);
		if (plugin_handler->completion)
			plugin_handler->completion(&plugin_ctx[1], &meeting.message,
						   meeting.ends ? SP_END_VERDICT : SP_END_TIMEOUT);
		CU_ASSERT_EQUAL(meeting.taken, PACKETS);
		check(k);
		plugin_sent = 0;
	}
	pthread_join(thread, NULL);
	free(meeting.message.state);
}

static void all_is_sent(unsigned k)
{
	CU_ASSERT(meeting.ends >= 1 && plugin_sent == PACKETS);
	for (unsigned i = 0; i < PACKETS; i++)
		CU_ASSERT_EQUAL(order[i], i);
}

TEST(ping_pong_answers_a_message_once_and_in_order)
{
	plugin_setup("ping-pong", "segment", "64", NULL);
	run_meetings(false, all_is_sent);
	CU_ASSERT(plugin_kept == TIMES * PACKETS && plugin_released == plugin_kept);
}

static void sum_is_told(unsigned k)
{
	const uint64_t *line = (const uint64_t *)plugin_area.base; /* serial, message and port, bytes, sum */
	uint64_t sum = 0;

	for (uint64_t i = 0; i < PACKETS; i++)
		sum += 16 * (i << 24 | (i + 1));
	CU_ASSERT(line[0] == k + 1 && line[2] == PACKETS * 64 && line[3] == sum);
}

TEST(aggregate_tells_a_sum_once_and_whole)
{
	plugin_setup("aggregate", "segment", "64", "results", "1", NULL);
	run_meetings(false, sum_is_told);
	CU_ASSERT(plugin_counted[0][0] + plugin_counted[1][0] == TIMES);
}

static void sums_are_there(unsigned k)
{
	const uint64_t *slot = (const uint64_t *)plugin_area.base + k % 2 * 17; /* round, sum */

	CU_ASSERT(meeting.ends == 1 && slot[0] == k + 1);
	for (unsigned i = 1; i <= 16; i++)
		CU_ASSERT_EQUAL(slot[i], PACKETS * (PACKETS + 1) / 2);
}

TEST(reduce_adds_each_vector_once)
{
	plugin_setup("reduce", "ranks", "64", "elements", "16", NULL);
	run_meetings(true, sums_are_there);
}

#define WORDS_TIMES 50000

static void *count_words(void *arg)
{
	static struct wire wire[WORKERS];
	struct sp_ctx *c = arg;

	together();
	for (uint32_t i = 0; i < WORDS_TIMES; i++) {
		struct sp_packet p = slmp(&wire[c->worker], true, 0, i, 0, 8, i % 5);

		if (plugin_handler->payload(c, NULL, &p) != SP_DONE)
			return arg;
		if (i % 100 == 99)
			plugin_handler->timer(c, NULL);
	}
	return NULL;
}

TEST(histogram_loses_no_word_of_any_worker)
{
	pthread_t thread[WORKERS];
	void *failed;

	plugin_setup("histogram", "buckets", "4", NULL);
	for (unsigned i = 0; i < WORKERS; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, count_words, &plugin_ctx[i]), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(thread[i], &failed);
		CU_ASSERT_PTR_NULL(failed);
	}
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(((uint64_t *)plugin_area.base)[i], WORKERS * WORDS_TIMES / 5 * 8);
}

/* ---- filtering: the host's side --------------------------------------------------------------------------------- */
enum { ADD = SP_CMD_OWN, REMOVE };

static int ask(uint16_t op, uint64_t arg)
{
	const struct sp_command command = {.op = op, .arg = {arg}};
	struct sp_event result = {0};

	return plugin_handler->command(&plugin_ctx[0], &command, &result);
}

static bool passes(struct sp_ctx *c, uint32_t key)
{
	static struct wire wire[WORKERS];
	struct sp_packet p = slmp(&wire[c->worker], true, 0, 0, 0, 1, key);

	return plugin_handler->payload(c, NULL, &p) == SP_FORWARD;
}

TEST(filtering_takes_keys_and_gives_them_up_by_command)
{
	struct sp_ctx *c = &plugin_ctx[0];

	plugin_setup("filtering", "keys", "5", "table", "3", NULL);
	CU_ASSERT(passes(c, 5) && !passes(c, 6) && !passes(c, 0));
	CU_ASSERT(ask(ADD, 6) == 0 && ask(ADD, 0) == 0 && ask(ADD, 6) == 0);
	CU_ASSERT(passes(c, 5) && passes(c, 6) && passes(c, 0));
	CU_ASSERT(ask(ADD, 7) == -ENOSPC && ask(ADD, 7) == -ENOSPC && !passes(c, 7));
	CU_ASSERT(ask(REMOVE, 6) == 0 && ask(REMOVE, 6) == -ENOENT && ask(REMOVE, 8) == -ENOENT);
	CU_ASSERT(passes(c, 5) && !passes(c, 6) && passes(c, 0));
	CU_ASSERT(ask(ADD, 6) == 0 && passes(c, 6));
	CU_ASSERT(ask(ADD, 1ull << 32) == -EINVAL && ask(REMOVE, 1ull << 32 | 5) == -EINVAL && passes(c, 5) &&
		  ask(SP_CMD_POST, 0) == -EOPNOTSUPP);
}

#define CHANGES 10000

static atomic_bool changing;

static void *judge(void *arg)
{
	uint64_t wrong = 0;

	together();
	while (changing)
		wrong += !passes(&plugin_ctx[1], 5) || passes(&plugin_ctx[1], 6); /* 5 was there before, 6 never is */
	return wrong ? arg : NULL;
}

/* The home worker changes the table, another one looks keys up. */
TEST(filtering_looks_up_while_keys_come_and_go)
{
	pthread_t thread;
	void *failed;

	plugin_setup("filtering", "keys", "5", "table", "512", NULL);
	changing = true;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, judge, &plugin_ctx[1]), 0);
	together();
	for (unsigned i = 0; i < CHANGES; i++) {
		const uint32_t key = 7 + i / 2 % 500;

		CU_ASSERT_EQUAL(ask(i % 2 ? REMOVE : ADD, key), 0);
		CU_ASSERT_EQUAL(passes(&plugin_ctx[0], key), i % 2 == 0);
	}
	changing = false;
	pthread_join(thread, &failed);
	CU_ASSERT_PTR_NULL(failed);
}

TEST(impossible_parameters_are_refused_by_name)
{
	CU_ASSERT(plugin_refused("aggregate", "segment", "1022", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "segment: 1022 is not a whole number of 4-byte words");
	CU_ASSERT(plugin_refused("reduce", "ranks", "6", "elements", "300", "segment", "16", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "elements: a vector would take 75 packets; 64 are the most");
	CU_ASSERT(plugin_refused("filtering", "keys", "1, 2, three", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "keys: \"three\" does not begin with a 32-bit number");
	CU_ASSERT(plugin_refused("filtering", "keys", "1, 4294967296", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "keys: \"4294967296\" does not begin with a 32-bit number");
	CU_ASSERT(plugin_refused("filtering", "keys", "1, 2, 3", "table", "2", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "keys: more than `table` holds, 2");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	plugin_directory = argv[1];
	return suite_run();
}
