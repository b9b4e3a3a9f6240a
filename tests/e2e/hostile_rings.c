/* SPDX-License-Identifier: BSD-3-Clause */
/* What a hostile application does to its rings and to others'. */
#include "hostile_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct sp_command any_command(const struct raw *raw)
{
	static const uint16_t ops[] = {SP_CMD_POST,	   SP_CMD_COMPLETE,    SP_CMD_CLOSE,	   SP_CMD_QUERY,
				       SP_SDR_CMD_CONNECT, SP_SDR_CMD_SEND,    SP_SDR_CMD_START,   SP_SDR_CMD_CONTINUE,
				       SP_SDR_CMD_END,	   SP_SDR_CMD_PACKETS, SP_SDR_CMD_DATAGRAM};
	struct sp_command c = {
		.op = ops[chance() % 11], .flags = chance() % 2, .context = raw->context, .cookie = chance() % 32};
	const uint64_t kind = chance() % 8;

	c.arg[0] = raw->id;
	for (unsigned i = 1; i < 6; i++)
		c.arg[i] = chance() >> chance() % 64;
	if (c.op == SP_CMD_CLOSE && chance() % 64)
		c.op = SP_CMD_POST;
	if (kind == 0)
		c.context = (uint32_t)chance();
	if (kind == 1)
		c.context = chance() % 8;
	if (kind == 2)
		c.arg[0] = chance() % 64;
	if (kind == 3)
		for (unsigned i = 0; i < 8; i++)
			((uint64_t *)(void *)&c)[i] = chance();
	if (kind >= 6) {
		c.arg[1] = chance() % REGION & ~63ull;
		c.arg[2] = chance() % 65536;
	}
	return c;
}

static void scribble(const struct raw *raw, uint32_t *index)
{
	static const uint32_t values[] = {0, 1, UINT32_MAX, 0x80000000u, 0x7FFFFFFFu};

	(void)raw;
	switch (chance() % 3) {
	case 0:
		*index = (uint32_t)chance();
		break;
	case 1:
		*index += (uint32_t)(chance() % 2048) - 1024;
		break;
	default:
		*index = values[chance() % 5];
	}
}

static void rubbish_once(struct raw *raw)
{
	const uint32_t w = (uint32_t)chance() % raw->welcome.workers;
	struct sp_ring_shared *ring = commands(raw, w);
	struct sp_attach_events *events = (void *)raw->events.at;
	struct sp_ring_shared *back = sp_attach_ring(events, 128, w);
	struct sp_command c;

	switch (chance() % 16) {
	case 0:
		scribble(raw, &ring->head);
		break;
	case 1:
		scribble(raw, &ring->tail);
		break;
	case 2:
		((uint32_t *)(void *)raw->queues.at)[chance() % 48] = (uint32_t)chance(); /* heading, bell, parked */
		tell(raw, w);
		break;
	case 3:
		((uint32_t *)(void *)raw->events.at)[chance() % 16] = (uint32_t)chance();
		break;
	case 4:
		scribble(raw, &back->head);
		scribble(raw, &back->tail);
		break;
	case 5:
		raw->events.at[chance() % raw->events.bytes] = (uint8_t)chance();
		break;
	case 6:
		raw->queues.at[chance() % raw->queues.bytes] = (uint8_t)chance();
		break;
	default:
		c = any_command(raw);
		memcpy(&ring->entry[chance() % raw->entries], &c, sizeof(c));
		__atomic_fetch_add(&ring->tail, 1, __ATOMIC_RELEASE);
		tell(raw, w);
	}
}

int rubbish(struct raw *raw)
{
	uint64_t count = 0;

	begin(raw);
	for (; count < 20000; count++)
		rubbish_once(raw);
	puts("ready");
	while (!enough(0)) {
		for (unsigned i = 0; i < 4096; i++, count++)
			rubbish_once(raw);
		usleep(1000); /* others share the processor; the NIC reads no faster than it polls */
	}
	printf("ok %" PRIu64 "\n", count);
	return 0;
}

static bool stop; /* [threads] atomically */

/* Two commands, one of which must never be taken for the other. */
static void *flipping(void *arg)
{
	struct raw *raw = arg;
	const struct sp_command good = {.op = SP_SDR_CMD_CONTINUE, .context = raw->context, .arg = {raw->id, 0, 4096}};
	const struct sp_command bad = {.op = SP_SDR_CMD_CONTINUE,
				       .context = (uint32_t)o.context,
				       .cookie = 1ull << 40,
				       .arg = {o.region, 1ull << 62, 1ull << 40, 1ull << 50}};
	struct sp_ring_shared *ring = commands(raw, raw->home);

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (uint32_t at = 0; at < raw->entries; at++) {
			volatile uint64_t *entry = ring->entry[at].word;

			for (unsigned i = 0; i < 8; i++)
				entry[i] = ((const uint64_t *)(const void *)&bad)[i];
			for (unsigned i = 0; i < 8; i++)
				entry[i] = ((const uint64_t *)(const void *)&good)[i];
		}
	}
	return NULL;
}

int flip(struct raw *raw)
{
	struct sp_command start = {.op = SP_SDR_CMD_START, .arg = {[2] = 65536}};
	pthread_t thread;

	begin(raw);
	start.context = raw->context;
	put(raw, &start); /* a stream, of which pieces may be sent again and again */
	struct sp_ring_shared *ring = commands(raw, raw->home);
	pthread_create(&thread, NULL, flipping, raw);
	puts("ready");
	while (!enough(0))
		for (unsigned i = 0; i < 100; i++) {
			__atomic_store_n(&ring->tail, __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) + 32,
					 __ATOMIC_RELEASE);
			tell(raw, raw->home);
			usleep(10);
		}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	puts("ok");
	return 0;
}

int wakes(struct raw *raw)
{
	struct sp_attach_queues *queues;
	struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY};
	char path[32];

	begin(raw);
	queues = (void *)raw->queues.at;
	query.context = raw->context;
	tried("wakes", "send", send(raw->wake, "x", 1, MSG_NOSIGNAL) == 1);
	tried("wakes", "flags", !fcntl(raw->wake, F_SETFL, O_ASYNC) && !fcntl(raw->post, F_SETFL, 0));
	tried("wakes", "size", !setsockopt(raw->wake, SOL_SOCKET, SO_RCVBUF, &(int){1 << 20}, sizeof(int)));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", raw->wake);
	tried("wakes", "open", open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) >= 0);
	puts("ready");
	for (unsigned turn = 0; !enough(0); turn++) {
		for (unsigned i = 0; i < 100; i++) { /* never read: the NIC's bytes fill it */
			__atomic_store_n(&queues->bell.armed, 1, __ATOMIC_SEQ_CST);
			put(raw, &query);
			eventfd_write(raw->post, 1); /* for nothing */
			usleep(20);
		}
		if (turn == 20 && raw->wake >= 0) {
			close(raw->wake);
			close(raw->post);
			raw->wake = raw->post = -1;
		}
	}
	puts("ok");
	return 0;
}

/* The answer to a command that went through the ring: there is none where the ring's owner has no such context. */
static int posted(struct raw *raw, uint16_t op, uint64_t region, uint64_t len)
{
	static uint32_t next;
	struct sp_attach_events *events = (void *)raw->events.at;
	struct sp_ring back = {
		.shared = sp_attach_ring(events, events->entries, raw->home), .mask = events->entries - 1, .at = next};
	const struct sp_command c = {
		.op = op, .flags = SP_CMD_REPLY, .context = raw->context, .cookie = 0, .arg = {region, 0, len}};
	struct sp_event e;

	put(raw, &c);
	for (unsigned i = 0; i < 100000; i++) {
		if (!sp_ring_take(&back, &e)) {
			next = back.at;
			return e.status;
		}
		usleep(100);
	}
	return -ETIMEDOUT;
}

int foreign(struct raw *raw)
{
	struct sp_command c = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .context = (uint32_t)o.context};
	const uint16_t ops[] = {SP_CMD_POST, SP_CMD_COMPLETE, SP_CMD_CLOSE, SP_SDR_CMD_SEND, SP_SDR_CMD_CONNECT};

	/* Nothing registered, nothing opened. */
	hello(raw);
	for (uint32_t w = 0; w < raw->welcome.workers; w++)
		for (unsigned i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
			raw->home = w;
			c = (struct sp_command){.op = ops[i],
						.flags = SP_CMD_REPLY,
						.context = (uint32_t)o.context,
						.arg = {o.region, 0, 4096}};
			put(raw, &c);
		}
	c.op = SP_CMD_CLOSE;
	printf("try call %d\n", -ask(raw, SP_ATTACH_CALL, 0, &c, sizeof(c)));
	printf("try free %d\n", -ask(raw, SP_ATTACH_MR_FREE, o.region, NULL, 0));
	printf("try close %d\n", -ask(raw, SP_ATTACH_CLOSE, o.context, NULL, 0));
	for (uint64_t id = 0; id < 4096; id++)
		if (!ask(raw, SP_ATTACH_MR_FREE, id, NULL, 0) || !ask(raw, SP_ATTACH_CLOSE, id, NULL, 0))
			die("a context or region was given away", -EBADE);
	/* The QP numbers of another's. */
	printf("try qp %d\n", -open_context(raw, (uint32_t)o.stage, "max-messages", 16));
	close(raw->fd);
	begin(raw);
	printf("try send %d\n", -posted(raw, SP_SDR_CMD_SEND, o.region, 4096));
	printf("try post %d\n", -posted(raw, SP_CMD_POST, o.region, 4096));
	printf("try beyond %d\n", -posted(raw, SP_CMD_POST, raw->id, REGION + 1));
	for (uint64_t id = 0; id < 512; id++)
		if (id != raw->id && posted(raw, SP_CMD_POST, id, 4096) >= 0)
			die("memory of another was taken", -EBADE);
	printf("try own %d\n", -posted(raw, SP_CMD_POST, raw->id, 4096));
	until_enough();
	return 0;
}
