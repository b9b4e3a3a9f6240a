/* SPDX-License-Identifier: BSD-3-Clause */
/* Example handlers, each alone: examples_shared PLUGINS. Those that keep something that all workers share: a message's
 * bitmap, a ring, a table of keys, counters; and what the host commands. */
#include <pthread.h>

#include "../lib/plugin_alone.h"

#ifdef __SANITIZE_THREAD__
#define TIMES 12500 /* what is not ordered is told the first time */
#else
#define TIMES 50000
#endif
#define MESSAGES 200

static atomic_ulong wrong;

/* An answer of kv-cache to `get`: all of the value is one letter, and as long as that letter says. */
int sp_send_frame(struct sp_ctx *c, uint16_t port, const void *frame, uint32_t len)
{
	const char *text = (const char *)frame + DATA_AT + 8, *end = (const char *)frame + len, *at;
	unsigned value_len;
	plugin_sent++;
	if (sscanf(text, "VALUE %*s 0 %u", &value_len) != 1)
		return 0;
	at = memchr(text, '\n', (size_t)(end - text));
	wrong += !at || end - at != 1 + (int)value_len + 7 || value_len != (unsigned)(at[1] - 'a' + 1) * 40;
	for (at++; value_len-- > 1; at++)
		wrong += at[0] != at[1];
	return 0;
}

uint16_t sp_checksum(const void *bytes, size_t len, uint32_t sum)
{
	return 1;
}

static uint64_t estimates;

void sp_report_uint(struct sp_report *r, const char *name, uint64_t n)
{
	estimates += strcmp(name, "packets") ? 0 : n;
}

void sp_report_string(struct sp_report *r, const char *name, const char *text)
{
}

void sp_report_open(struct sp_report *r, const char *name, bool list)
{
}

void sp_report_close(struct sp_report *r)
{
}

static atomic_uint arrived;

/* Both workers go on from here at the same time. */
static void together(void)
{
	arrived++;
	while (arrived < WORKERS)
		sched_yield();
}

static void both(void *(*run)(void *))
{
	pthread_t thread;

	wrong = 0;
	arrived = 0;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run, &plugin_ctx[1]), 0);
	run(&plugin_ctx[0]);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(wrong, 0);
}

static uint32_t random_of(uint32_t *plugin_state)
{
	*plugin_state = *plugin_state * 1664525 + 1013904223;
	return *plugin_state >> 8;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */
#define SEGMENTS 64

static struct sp_message message;

/* Every worker has every packet, each in an order of its own. */
static void *deliver(void *arg)
{
	static struct wire wire[WORKERS];
	struct sp_ctx *c = arg;

	together();
	for (uint32_t k = 0; k < SEGMENTS; k++) {
		const uint32_t i = c->worker ? k ^ 1 : k; /* they meet all the time */
		struct sp_packet p = slmp(&wire[c->worker], i == SEGMENTS - 1, 0, 7, i * 64, 16, i + 1);

		plugin_handler->payload(c, &message, &p);
	}
	return NULL;
}

/* The area: a head whose first word counts the messages, then the data. */
static void complete_once(unsigned head, uint64_t (*place)(uint32_t byte))
{
	static struct wire wire;
	struct sp_packet first = slmp(&wire, false, 0, 7, 0, 16, 1);
	uint8_t byte[4];

	message.state = aligned_alloc(64, (plugin_handler->msg_size + 63) & ~(size_t)63);
	for (uint64_t k = 1; k <= MESSAGES; k++) {
		memset(message.state, 0, plugin_handler->msg_size);
		memset(plugin_area.base + head, 0, plugin_area.len - head);
		CU_ASSERT_EQUAL(plugin_handler->header(&plugin_ctx[0], &message, &first), SP_DONE);
		both(deliver);
		CU_ASSERT(plugin_counted[0][0] + plugin_counted[1][0] == k && *(uint64_t *)plugin_area.base == k);
		for (uint32_t at = 0; at < SEGMENTS * 64; at++) {
			put32(byte, at / 64 + 1);
			wrong += plugin_area.base[head + place(at)] != byte[at % 4];
		}
		CU_ASSERT_EQUAL(wrong, 0);
		plugin_handler->completion(&plugin_ctx[1], &message, SP_END_TIMEOUT);
	}
	CU_ASSERT_EQUAL(plugin_counted[0][1] + plugin_counted[1][1], 0); /* none is given up */
	free(message.state);
}

static uint64_t straight(uint32_t byte)
{
	return byte;
}

static uint64_t strided(uint32_t byte)
{
	return byte / 128 * 200 + byte % 128; /* blocks of two packets */
}

TEST(host_copy_tells_a_message_once_and_whole)
{
	plugin_setup("host-copy", "slots", "1", "segment", "64", NULL);
	complete_once(24, straight);
	CU_ASSERT(plugin_events == MESSAGES && ((uint64_t *)plugin_area.base)[2] == SEGMENTS * 64);
}

TEST(strided_copy_counts_a_vector_once_and_whole)
{
	plugin_setup("strided-copy", "slots", "1", "segment", "64", "count", "32", "block-bytes", "128", "stride",
		     "200", NULL);
	complete_once(16, strided);
}

/* ---- reorder-ring ----------------------------------------------------------------------------------------------- */
enum { CONSUMED = SP_CMD_OWN, LATE = SP_DROP(1), REPEATED = SP_DROP(2), BEYOND = SP_DROP(3), CELLS = 16, CELL = 72 };

static uint32_t put(struct sp_ctx *c, uint32_t n)
{
	static struct wire wire[WORKERS];
	struct sp_packet p = slmp(&wire[c->worker], true, 0, n, 0, 16, n);

	return plugin_handler->payload(c, NULL, &p);
}

static int consume(uint64_t to)
{
	const struct sp_command command = {.op = CONSUMED, .arg = {to}};
	struct sp_event result = {0};

	return plugin_handler->command(&plugin_ctx[0], &command, &result);
}

/* Every worker has every packet, and comes back with it until there is room; the home worker also reads for the host.
 */
static void *stream(void *arg)
{
	struct sp_ctx *c = arg;
	uint32_t n = 0, read = 0;

	together();
	while (n < TIMES || (c->worker == 0 && read < TIMES)) {
		const uint32_t head = c->worker ? 0 : (uint32_t)atomic_load((_Atomic uint64_t *)plugin_area.base);

		if (n == TIMES || put(c, n) == BEYOND)
			sched_yield();
		else
			n++;
		for (; read < head; read++) {
			const uint8_t *cell = plugin_area.base + 64 + read % CELLS * CELL;
			uint8_t data[4];

			put32(data, read);
			wrong += *(const uint64_t *)cell != ((uint64_t)read << 32 | 64) || memcmp(cell + 8, data, 4) ||
				 memcmp(cell + 68, data, 4);
		}
		wrong += c->worker == 0 && consume(head) != 0;
	}
	return NULL;
}

TEST(reorder_ring_is_read_in_order_and_never_overrun)
{
	plugin_setup("reorder-ring", "cells", "16", "cell-bytes", "64", NULL);
	both(stream);
	CU_ASSERT(*(uint64_t *)plugin_area.base == TIMES &&
		  plugin_counted[0][0] + plugin_counted[1][0] == TIMES); /* each placed once */
}

TEST(reorder_ring_makes_room_as_the_host_says)
{
	plugin_setup("reorder-ring", "cells", "16", "cell-bytes", "64", NULL);
	for (uint32_t n = 0; n < CELLS; n++)
		CU_ASSERT_EQUAL(put(&plugin_ctx[0], n), SP_DONE);
	CU_ASSERT(put(&plugin_ctx[0], CELLS) == BEYOND && put(&plugin_ctx[0], 0) == REPEATED);
	CU_ASSERT(consume(CELLS + 1) == -EINVAL && consume(10) == 0 && consume(9) == -EINVAL && consume(10) == 0);
	CU_ASSERT(put(&plugin_ctx[0], 9) == LATE && put(&plugin_ctx[0], 10) == REPEATED &&
		  put(&plugin_ctx[0], 26) == BEYOND);
	CU_ASSERT(put(&plugin_ctx[0], 25) == SP_DONE && put(&plugin_ctx[0], 16) == SP_DONE &&
		  *(uint64_t *)plugin_area.base == 17);
	CU_ASSERT(consume(18) == -EINVAL && consume(17) == 0 && put(&plugin_ctx[0], 32) == SP_DONE);
	plugin_setup("reorder-ring", "credit", "implicit", "cells", "16", NULL);
	CU_ASSERT_EQUAL(consume(0), -EOPNOTSUPP);
}

TEST(reorder_ring_gives_a_gap_up_after_its_patience)
{
	plugin_setup("reorder-ring", "cells", "16", "cell-bytes", "64", NULL);
	const uint64_t *head = (const uint64_t *)plugin_area.base;
	plugin_handler->timer(&plugin_ctx[0], NULL);
	plugin_handler->timer(&plugin_ctx[0], NULL); /* nothing has come: nothing is missing */
	CU_ASSERT(put(&plugin_ctx[0], 0) == SP_DONE && put(&plugin_ctx[0], 3) == SP_DONE && *head == 1);
	plugin_handler->timer(&plugin_ctx[0], NULL); /* may have been overtaken just now */
	CU_ASSERT(*head == 1 && put(&plugin_ctx[0], 2) == SP_DONE);
	plugin_handler->timer(&plugin_ctx[0], NULL);
	CU_ASSERT(*head == 4 && put(&plugin_ctx[0], 1) == REPEATED &&
		  plugin_counted[0][1] == 1); /* its cell waits for the host */
	CU_ASSERT_EQUAL(*(uint64_t *)(plugin_area.base + 64 + CELL), 1ull << 32 | UINT32_MAX);
}

/* ---- kv-cache, heavy-hitters ------------------------------------------------------------------------------------ */
static uint32_t request(struct sp_ctx *c, const char *text, size_t len)
{
	static struct wire wire[WORKERS];
	struct sp_packet p = slmp(&wire[c->worker], false, 0, 0, 0, 0, 0);

	memcpy(p.data, "\0\1\0\0\0\1\0\0", 8);
	memcpy(p.data + 8, text, len);
	p.len = 8 + (uint32_t)len;
	return plugin_handler->payload(c, NULL, &p);
}

static void *ask(void *arg)
{
	struct sp_ctx *c = arg;
	uint32_t seed = c->worker;
	char text[1100];

	together();
	for (unsigned i = 0; i < TIMES; i++) {
		const unsigned key = random_of(&seed) % 2, letter = random_of(&seed) % 20, bytes = (letter + 1) * 40;
		int len = sprintf(text, "get key%u\r\n", key);

		if (i % 3 == 0) {
			len = sprintf(text, "set key%u 0 0 %u\r\n", key, bytes);
			memset(text + len, 'a' + (int)letter, bytes);
			memcpy(text + len + bytes, "\r\n", 2);
			len += (int)bytes + 2;
		} else if (i % 10 == 0) {
			len = sprintf(text, "delete key%u\r\n", key);
		}
		c->now = i + 1;
		const uint32_t verdict = request(c, text, (size_t)len);
		wrong += verdict != SP_DONE && verdict != SP_DROP(0); /* busy */
	}
	return NULL;
}

TEST(kv_cache_never_answers_half_a_value)
{
	plugin_setup("kv-cache", "entries", "1", NULL);
	both(ask);
	CU_ASSERT(plugin_counted[0][0] + plugin_counted[1][0] > 100 && plugin_sent > TIMES / 2);
}

static void *count(void *arg)
{
	static struct wire wire[WORKERS];
	struct sp_ctx *c = arg;
	uint32_t seed = c->worker;

	together();
	for (unsigned i = 0; i < TIMES; i++) {
		struct sp_packet p = slmp(&wire[c->worker], true, 0, i, 0, 1, 1);

		memcpy(p.frame + 12, "\x08", 1);
		put32(p.frame + 14 + 12, random_of(&seed) % 8);
		wrong += plugin_handler->payload(c, NULL, &p) != SP_DONE;
		if (c->worker == 0 && i % (TIMES / 5) == 0)
			plugin_handler->report(c, NULL);
	}
	return NULL;
}

TEST(heavy_hitters_loses_no_packet_of_any_worker)
{
	plugin_setup("heavy-hitters", NULL);
	both(count);
	estimates = 0;
	plugin_handler->report(&plugin_ctx[0], NULL);
	CU_ASSERT_EQUAL(estimates, WORKERS * TIMES); /* eight flows, which collide nowhere */
}

TEST(impossible_parameters_are_refused_by_name)
{
	CU_ASSERT(plugin_refused("strided-copy", "count", "24", "block-bytes", "100", "stride", "99", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "stride: blocks of 100 bytes would overlap");
	CU_ASSERT(plugin_refused("strided-copy", "count", "1M", "block-bytes", "100", "stride", "100", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "count: a message would have more than 64 packets");
	CU_ASSERT(plugin_refused("reorder-ring", "cells", "48", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "cells: not a power of two");
	CU_ASSERT(plugin_refused("reorder-ring", "cell-bytes", "100", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "cell-bytes: not a multiple of 8");
	CU_ASSERT(plugin_refused("kv-cache", "entries", "3", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "entries: not a power of two");
	CU_ASSERT(plugin_refused("heavy-hitters", "width", "1000", NULL));
	CU_ASSERT_STRING_EQUAL(plugin_failure, "width: not a power of two");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	plugin_directory = argv[1];
	return suite_run();
}
