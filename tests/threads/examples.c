/* SPDX-License-Identifier: BSD-3-Clause */
/* Example handlers, each alone: examples PLUGINS. What no capture can bring about, above all workers that meet in one
 * message, and what the host commands. */
#include <pthread.h>
#include <sched.h>

#include "alone.h"

/* ---- two workers in one message --------------------------------------------------------------------------------- */
#define PACKETS 64
#define TIMES	1000

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
		const uint32_t verdict = handler->payload(c, &meeting.message, p);

		meeting.ends += verdict == SP_END;
		meeting.taken += verdict == SP_END || verdict == SP_DONE;
	}
	together();
}

static void *second_worker(void *arg)
{
	for (unsigned k = 0; k < TIMES; k++)
		meet(&ctx[1]);
	return arg;
}

/* Message after message; check(k) when the k-th is over. */
static void run_meetings(bool ranks, void (*check)(unsigned k))
{
	pthread_t thread;

	meeting.ranks = ranks;
	meeting.message.state = aligned_alloc(64, (handler->msg_size + 63) & ~(size_t)63);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, second_worker, NULL), 0);
	for (unsigned k = 0; k < TIMES; k++) {
		struct sp_packet first = slmp(&meeting.wire[0][0], false, 0, k, 0, 16, 1);

		memset(meeting.message.state, 0, handler->msg_size);
		meeting.message.key = k;
		meeting.ends = meeting.taken = 0;
		if (handler->header)
			CU_ASSERT_EQUAL(handler->header(&ctx[0], &meeting.message, &first), SP_DONE);
		meet(&ctx[0]);
		handler->completion(&ctx[1], &meeting.message, meeting.ends ? SP_END_VERDICT : SP_END_TIMEOUT);
		CU_ASSERT_EQUAL(meeting.taken, PACKETS);
		check(k);
		sent = 0;
	}
	pthread_join(thread, NULL);
	free(meeting.message.state);
}

static void all_is_sent(unsigned k)
{
	(void)k;
	CU_ASSERT(meeting.ends >= 1 && sent == PACKETS);
	for (unsigned i = 0; i < PACKETS; i++)
		CU_ASSERT_EQUAL(order[i], i);
}

static void ping_pong_answers_a_message_once_and_in_order(void)
{
	setup("ping-pong", "segment", "64", NULL);
	run_meetings(false, all_is_sent);
	CU_ASSERT(kept == TIMES * PACKETS && released == kept);
}

static void sum_is_told(unsigned k)
{
	const uint64_t *line = (const uint64_t *)area.base;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < PACKETS; i++)
		sum += 16 * (i << 24 | (i + 1));
	CU_ASSERT(line[3] == PACKETS * 64 && line[4] == PACKETS && line[5] == sum && line[7] == k + 1);
}

static void aggregate_tells_a_sum_once_and_whole(void)
{
	setup("aggregate", "segment", "64", "results", "1", NULL);
	run_meetings(false, sum_is_told);
	CU_ASSERT(events == TIMES && counted[0][0] + counted[1][0] == TIMES && counted[1][1] == 0);
}

static void sums_are_there(unsigned k)
{
	const uint64_t *slot = (const uint64_t *)area.base;

	CU_ASSERT(meeting.ends == 1 && slot[0] == k + 1);
	for (unsigned i = 0; i < 16; i++)
		CU_ASSERT_EQUAL(slot[8 + i], PACKETS * (PACKETS + 1) / 2);
}

static void reduce_adds_each_vector_once(void)
{
	setup("reduce", "ranks", "64", "elements", "16", "slots", "1", NULL);
	run_meetings(true, sums_are_there);
	CU_ASSERT_EQUAL(events, TIMES);
}

#define WORDS_TIMES 100000

static void *count_words(void *arg)
{
	static struct wire wire[WORKERS];
	struct sp_ctx *c = arg;

	together();
	for (uint32_t i = 0; i < WORDS_TIMES; i++) {
		struct sp_packet p = slmp(&wire[c->worker], true, 0, i, 0, 8, i % 5);

		if (handler->payload(c, NULL, &p) != SP_DONE)
			return arg;
		if (i % 100 == 99)
			handler->timer(c, NULL);
	}
	return NULL;
}

static void histogram_loses_no_word_of_any_worker(void)
{
	pthread_t thread[WORKERS];
	void *failed;

	setup("histogram", "buckets", "4", NULL);
	for (unsigned i = 0; i < WORKERS; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, count_words, &ctx[i]), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(thread[i], &failed);
		CU_ASSERT_PTR_NULL(failed);
	}
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(((uint64_t *)area.base)[i], WORKERS * WORDS_TIMES / 5 * 8);
}

/* ---- filtering: the host's side --------------------------------------------------------------------------------- */
static int ask(uint16_t op, uint64_t arg)
{
	const struct sp_command command = {.op = op, .arg = {arg}};
	struct sp_event result = {0};

	return handler->command(&ctx[0], &command, &result);
}
enum { ADD = SP_CMD_OWN, REMOVE, READ };

static uint32_t judge(uint32_t key)
{
	static struct wire wire;
	struct sp_packet p = slmp(&wire, true, 0, 0, 0, 1, key);

	return handler->payload(&ctx[0], NULL, &p) & 0xFF;
}

static void filtering_takes_keys_and_gives_them_up_by_command(void)
{
	setup("filtering", "keys", "5", "table", "3", "slots", "64", NULL);
	CU_ASSERT(judge(5) == SP_DONE && judge(6) == SP_DROP_KIND && judge(0) == SP_DROP_KIND);
	CU_ASSERT(ask(ADD, 6) == 0 && ask(ADD, 0) == 0 && ask(ADD, 6) == 0);
	CU_ASSERT(judge(5) == SP_DONE && judge(6) == SP_DONE && judge(0) == SP_DONE);
	CU_ASSERT(ask(ADD, 7) == -ENOSPC && ask(ADD, 7) == -ENOSPC && judge(7) == SP_DROP_KIND);
	CU_ASSERT(ask(REMOVE, 6) == 0 && ask(REMOVE, 6) == -ENOENT && ask(REMOVE, 8) == -ENOENT);
	CU_ASSERT(judge(5) == SP_DONE && judge(6) == SP_DROP_KIND && judge(0) == SP_DONE);
	CU_ASSERT(ask(ADD, 6) == 0 && judge(6) == SP_DONE);
	CU_ASSERT(ask(ADD, 1ull << 32) == -EINVAL && ask(REMOVE, 1ull << 32 | 5) == -ENOENT &&
		  ask(SP_CMD_POST, 0) == -EOPNOTSUPP);
}

#define READS 20000

static atomic_bool feeding;

static void *feed(void *arg)
{
	static struct wire wire;

	together();
	for (uint32_t i = 0; feeding; i++) {
		struct sp_packet p = slmp(&wire, true, 0, i, 0, 100, 5);
		if (handler->payload(&ctx[1], NULL, &p) != SP_DONE)
			sched_yield();
	}
	return arg;
}

/* The home worker reads for the host, and passes packets on itself. */
static void filtering_hands_no_slot_out_before_it_is_read(void)
{
	pthread_t thread;
	uint64_t next = 1, wrong = 0, passed;

	setup("filtering", "keys", "5", "slots", "4", "slot-bytes", "512", NULL);
	CU_ASSERT(ask(READ, 1) == -EINVAL);
	feeding = true;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, feed, NULL), 0);
	together();
	while (next <= READS) {
		const uint8_t *slot = area.base + (next - 1) % 4 * 512;

		judge(5);
		const uint64_t serial = atomic_load((const _Atomic uint64_t *)slot);
		if (serial > next) {
			wrong++; /* overwritten before it was read */
			break;
		}
		if (serial != next) {
			sched_yield();
			continue;
		}
		const uint32_t bytes = *(const uint32_t *)(slot + 8);
		wrong += bytes != SLMP + 4 && bytes != SLMP + 400;
		for (uint32_t i = SLMP; i < bytes; i += 4)
			wrong += slot[16 + i + 3] != 5;
		wrong += ask(READ, next++) != 0;
	}
	feeding = false;
	pthread_join(thread, NULL);
	passed = counted[0][0] + counted[1][0];
	CU_ASSERT(wrong == 0 && passed >= READS && passed <= READS + 4);
	CU_ASSERT(ask(READ, next - 2) == -EINVAL);
}

int main(int argc, char **argv)
{
	static const struct suite_test tests[] = {TEST(ping_pong_answers_a_message_once_and_in_order),
						  TEST(aggregate_tells_a_sum_once_and_whole),
						  TEST(reduce_adds_each_vector_once),
						  TEST(histogram_loses_no_word_of_any_worker),
						  TEST(filtering_takes_keys_and_gives_them_up_by_command),
						  TEST(filtering_hands_no_slot_out_before_it_is_read)};

	if (argc != 2)
		return 2;
	directory = argv[1];
	return suite_run("examples", tests, sizeof(tests) / sizeof(*tests));
}
