/* SPDX-License-Identifier: BSD-3-Clause */
/* The handler `count`, alone: what no capture can bring about. The calls of the NIC are stand-ins. */
#include "../../handlers/count/count.c"

#include <pthread.h>

#include "../lib/suite.h"

static const struct sp_handler *handler;
static uint64_t param_flows = 4;
static void *allocation[8];
static unsigned allocations;

void sp_handler_register(const struct sp_handler *h)
{
	handler = h;
}

uint64_t sp_param_uint(struct sp_ctx *c, const char *name)
{
	return !strcmp(name, "flows") ? param_flows : !strcmp(name, "report-flows") ? 10 : 0;
}

int sp_fail(struct sp_ctx *c, int err, const char *param, const char *format, ...)
{
	return -err;
}

void *sp_alloc(struct sp_ctx *c, size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	memset(p, 0, bytes);
	return allocation[allocations++] = p;
}

uint64_t sp_hash(struct sp_ctx *c, const void *bytes, size_t len)
{
	const uint8_t *b = bytes;
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */
	while (len--)
		hash = (hash ^ *b++) * 1099511628211ull;
	return hash >> 1;
}

int sp_messages_limit(struct sp_ctx *c, uint32_t n, sp_time idle)
{
	CU_ASSERT(n > param_flows);
	return 0;
}

void sp_report_uint(struct sp_report *r, const char *name, uint64_t value)
{
}

void sp_report_string(struct sp_report *r, const char *name, const char *value)
{
}

void sp_report_open(struct sp_report *r, const char *name, bool list)
{
}

void sp_report_close(struct sp_report *r)
{
}

/* A context with views for two workers. */
static struct count state;
static uint64_t counted[2][4];
static struct sp_ctx ctx[2];

static void setup(uint16_t workers)
{
	while (allocations)
		free(allocation[--allocations]);
	memset(&state, 0, sizeof(state));
	memset(counted, 0, sizeof(counted));
	for (uint16_t i = 0; i < 2; i++)
		ctx[i] = (struct sp_ctx){.state = &state, .counters = counted[i], .worker = i, .workers = workers};
	CU_ASSERT_EQUAL_FATAL(handler->attach(&ctx[0]), 0);
}

/* A UDP packet of 60 bytes from a port; frame holds it. */
static struct sp_packet udp(uint8_t frame[60], uint16_t source)
{
	const uint8_t head[] = {2,  0, 0, 0,	0, 1,  2,  0, 0, 0,   0, 2, 8, 0,   0x45, 0, 0,
				28, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 2, 192, 0,	  2, 1};

	memset(frame, 0, 60);
	memcpy(frame, head, sizeof(head));
	frame[34] = (uint8_t)(source >> 8);
	frame[35] = (uint8_t)source;
	frame[37] = 7;
	return (struct sp_packet){
		.frame = frame, .frame_len = 60, .l3 = 14, .l4 = 34, .data = frame + 42, .flags = SP_PKT_UDP};
}

static uint64_t query(uint64_t what)
{
	const struct sp_command command = {.op = SP_CMD_QUERY, .arg = {what}};
	struct sp_event result = {0};

	CU_ASSERT_EQUAL(handler->command(&ctx[0], &command, &result), 0);
	return result.arg[0];
}

/* Two flows that share a key share a message, and no more. */
TEST(packet_that_finds_another_flows_record_is_a_collision)
{
	uint8_t a[60], b[60];
	struct sp_packet pa = udp(a, 1), pb = udp(b, 2);
	struct message own = {NULL};
	struct sp_message m = {.key = 5, .state = &own};

	setup(1);
	CU_ASSERT_EQUAL(handler->header(&ctx[0], &m, &pa), SP_DONE);
	CU_ASSERT_EQUAL(handler->payload(&ctx[0], &m, &pa), SP_DONE);
	CU_ASSERT_EQUAL(handler->payload(&ctx[0], &m, &pb), SP_DONE);
	CU_ASSERT_EQUAL(own.flow->packets, 1);
	CU_ASSERT_EQUAL(own.flow->bytes, 60);
	CU_ASSERT_EQUAL(counted[0][COLLISIONS], 1);
	CU_ASSERT_EQUAL(query(1), 2); /* it is in the totals all the same */
}

TEST(keys_follow_from_the_flow_alone)
{
	uint8_t a[60], b[60];
	struct sp_packet pa = udp(a, 1), pb = udp(b, 1);

	setup(1);
	b[59] ^= 1; /* payload */
	b[18] ^= 1; /* identification */
	CU_ASSERT_EQUAL(handler->classify(&ctx[0], &pa), handler->classify(&ctx[0], &pb));
	CU_ASSERT(handler->classify(&ctx[0], &pa) < SP_REJECT(255));
	for (uint16_t port = 2; port < 1000; port++) {
		pb = udp(b, port);
		CU_ASSERT_NOT_EQUAL(handler->classify(&ctx[0], &pa), handler->classify(&ctx[0], &pb));
	}
}

TEST(query_answers_flows_packets_and_bytes)
{
	uint8_t f[60];
	struct message own[6] = {{NULL}};
	const struct sp_command wrong[] = {{.op = SP_CMD_QUERY, .arg = {3}}, {.op = SP_CMD_POST}};
	struct sp_event result = {0};

	setup(2);
	for (uint16_t i = 0; i < 6; i++) {
		struct sp_packet p = udp(f, i);
		struct sp_message m = {.key = i, .state = &own[i]};
		CU_ASSERT_EQUAL(handler->header(&ctx[i % 2], &m, &p), SP_DONE);
		CU_ASSERT_EQUAL(handler->payload(&ctx[i % 2], &m, &p), i < 4 ? SP_DONE : SP_END);
	}
	CU_ASSERT_EQUAL(query(0), 4);
	CU_ASSERT_EQUAL(query(1), 6);
	CU_ASSERT_EQUAL(query(2), 360);
	CU_ASSERT_EQUAL(counted[0][UNTRACKED] + counted[1][UNTRACKED], 2);
	CU_ASSERT_EQUAL(handler->command(&ctx[0], &wrong[0], &result), -EINVAL);
	CU_ASSERT_EQUAL(handler->command(&ctx[0], &wrong[1], &result), -EOPNOTSUPP);
}

#define ROUNDS 20000

static struct sp_message shared_message;

static void *worker(void *arg)
{
	struct sp_ctx *c = arg;
	uint8_t f[60];
	struct sp_packet p = udp(f, 9);

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct message own = {NULL};
		struct sp_message m = {.key = i, .state = &own};

		c->now = 1000 + (c->worker ? ROUNDS - i : i); /* clocks that run against each other */
		if (handler->payload(c, &shared_message, &p) != SP_DONE)
			return arg;
		/* and a flow that comes and goes, of the same few records */
		if (handler->header(c, &m, &p) != SP_DONE || !own.flow)
			return arg;
		handler->completion(c, &m, SP_END_TIMEOUT);
	}
	return NULL;
}

TEST(two_workers_lose_no_packet_of_one_flow)
{
	uint8_t f[60];
	struct sp_packet p = udp(f, 9);
	struct message own = {NULL};
	pthread_t thread[2];
	void *failed;

	setup(2);
	shared_message = (struct sp_message){.key = 1, .state = &own};
	ctx[0].now = 1000 + ROUNDS / 2;
	CU_ASSERT_EQUAL_FATAL(handler->header(&ctx[0], &shared_message, &p), SP_DONE);
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, worker, &ctx[i]), 0);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(thread[i], &failed);
		CU_ASSERT_PTR_NULL(failed);
	}
	CU_ASSERT_EQUAL(own.flow->packets, 2 * ROUNDS);
	CU_ASSERT_EQUAL(own.flow->bytes, 2 * ROUNDS * 60);
	CU_ASSERT_EQUAL(own.flow->first, 1000);
	CU_ASSERT_EQUAL(own.flow->last, 1000 + ROUNDS);
	CU_ASSERT_EQUAL(query(0), 1);
	CU_ASSERT_EQUAL(counted[0][OPENED] + counted[1][OPENED], 2 * ROUNDS + 1);
}
