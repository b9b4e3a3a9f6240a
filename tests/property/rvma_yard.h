/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts of rvma on two NICs, a bad link between these, and puts of records from one to another, all in virtual time.
 * A record says which put it is and how long, and goes to a managed window: what the receiver's buffer holds at the end
 * tells which puts took effect, and how often. One seed is one run.
 */
#ifndef TESTS_PROPERTY_RVMA_YARD_H
#define TESTS_PROPERTY_RVMA_YARD_H

#include <stdarg.h>

#include "../../handlers/wire/rvma.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "../lib/suite.h"
#include "seeds.h"

#define YARD_ENDS  24
#define YARD_FLOWS 32
#define YARD_PUTS  4096	      /* of a flow */
#define YARD_BYTES (4u << 20) /* of an end's buffer */
#define YARD_HEAD  16	      /* of a record: flow and put, length */
#define U(n)	   ((unsigned long long)(n))

struct yard_end {
	bool open;
	unsigned nic;
	uint32_t qp, id, peer[YARD_ENDS]; /* peer: + 1 */
	uint64_t window;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint8_t *memory;
	const uint8_t *area;
	uint32_t *number; /* of each slot, of the latest operation */
	int *busy;	  /* the put in it, or -1: none */
	struct yard_flow **of;
};

struct yard_flow {
	unsigned from, to;
	uint64_t puts, most; /* most: at once; 0: as many as operations */
	uint32_t length[2];  /* of puts, from and to */
	uint64_t mailbox;
	bool fence;
	/* what has come of it */
	uint64_t posted, ended, by[64];
	uint8_t status[YARD_PUTS]; /* + 1; 0: not over */
	uint32_t bytes[YARD_PUTS];
	uint8_t came[YARD_PUTS];
	sp_time over; /* the latest end of a put */
};

struct yard {
	uint64_t seed;
	struct sp_random random;
	char text[200];
	/* what a seed stands for; a rule may change it before yard_open */
	struct sp_link_direction link[2];
	uint16_t workers[2];
	uint32_t mtu[2], ops, window[2], peers;
	sp_time timeout;
	unsigned ends;
	bool six;
	bool (*lose)(struct yard *y, unsigned from, uint8_t opcode); /* NULL: none besides */
	bool cut[2];						     /* what this NIC sends is lost */
	uint64_t seen[256];					     /* packets on the link, by opcode */

	struct sp_link *under;
	struct sp_world *world;
	struct sp_nic *nic[2];
	struct yard_end end[YARD_ENDS];
	struct yard_flow flow[YARD_FLOWS];
	unsigned flows;
	uint64_t steps;
	bool stir; /* there is something to begin */
};

static inline void __attribute__((format(printf, 3, 4)))
yard_expect(struct yard *y, bool right, const char *format, ...)
{
	va_list list;
	int n;

	if (right || y->text[0])
		return;
	n = snprintf(y->text, sizeof(y->text), "at %.9f s: ", y->world ? (double)sp_world_now(y->world) / 1e12 : 0);
	va_start(list, format);
	vsnprintf(y->text + n, sizeof(y->text) - (size_t)n, format, list);
	va_end(list);
}

static inline uint64_t yard_below(struct yard *y, uint64_t bound)
{
	return sp_random_next(&y->random) % bound;
}

/* ---- contexts ------------------------------------------------------------------------------------------------------
 */
static inline int yard_call(struct yard *y, unsigned e, uint16_t op, const uint64_t arg[6], uint64_t cookie,
			    uint16_t flags, struct sp_event *result)
{
	struct sp_command c = {.op = op, .flags = flags, .context = y->end[e].id, .cookie = cookie};

	if (y->text[0])
		return -ENODEV;
	memcpy(c.arg, arg, sizeof(c.arg));
	return sp_command_call(y->end[e].dev, &c, result);
}
#define YARD_ARGS(...)                                                                                                 \
	(const uint64_t[6])                                                                                            \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}

/* Source of a slot's record, behind the buffer. */
static inline uint64_t yard_source(unsigned slot, uint32_t room)
{
	return YARD_BYTES + (uint64_t)slot * room;
}

static inline uint32_t yard_room(const struct yard *y)
{
	return y->ops > 256 ? 512 : 32768;
}

/* A mailbox 5 with one buffer, into which puts go one behind the other. */
static inline void yard_listen(struct yard *y, unsigned e, uint64_t flags)
{
	struct yard_end *x = &y->end[e];
	struct sp_event result;
	int rc = yard_call(y, e, SP_RVMA_CMD_WINDOW, YARD_ARGS(5, 77, 0, SP_RVMA_MANAGED | flags), 0, 0, &result);

	x->window = result.arg[0];
	yard_expect(y, !rc, "window: %d", rc);
	memset(x->memory, 0, YARD_BYTES);
	rc = yard_call(y, e, SP_CMD_POST, YARD_ARGS(x->mr->id, 0, YARD_BYTES, 0, 0, x->window), 1, 0, &result);
	yard_expect(y, !rc, "post: %d", rc);
}

static inline void yard_end_open(struct yard *y, unsigned e)
{
	struct yard_end *x = &y->end[e];
	const uint64_t bytes = yard_source(y->ops, yard_room(y));
	char qp[16], mtu[16], ops[16], window[16], peers[16], timeout[32];
	const struct sp_setting settings[] = {{"qp", qp},	   {"mtu", mtu},     {"ops", ops},
					      {"window", window},  {"peers", peers}, {"windows", "8"},
					      {"timeout", timeout}};
	struct sp_error error = {.text = ""};
	uint64_t len;
	void *area;
	int rc;

	x->nic = e % 2;
	x->qp = 0x100 + e;
	snprintf(qp, sizeof(qp), "%u", x->qp);
	snprintf(mtu, sizeof(mtu), "%u", y->mtu[x->nic]);
	snprintf(ops, sizeof(ops), "%u", y->ops);
	snprintf(window, sizeof(window), "%u", y->window[x->nic]);
	snprintf(peers, sizeof(peers), "%u", y->peers);
	snprintf(timeout, sizeof(timeout), "%lluns", U(y->timeout / SP_NS));
	rc = sp_nic_dev(y->nic[x->nic], false, &x->dev);
	x->memory = rc ? NULL : aligned_alloc(64, bytes);
	rc = rc ? rc : sp_mr_reg(x->dev, x->memory, bytes, &x->mr);
	rc = rc ? rc
		: sp_context_open(x->dev, qp, "rvma", settings, sizeof(settings) / sizeof(*settings), &x->id, &error);
	rc = rc ? rc : sp_context_area(x->dev, x->id, &area, &len);
	yard_expect(y, !rc, "context: %d %s %s", rc, error.key, error.text);
	if (rc)
		return;
	x->area = area;
	x->number = calloc(y->ops, sizeof(*x->number));
	x->busy = calloc(y->ops, sizeof(*x->busy));
	x->of = calloc(y->ops, sizeof(*x->of));
	for (uint32_t i = 0; i < y->ops; i++)
		x->busy[i] = -1;
	memset(x->peer, 0, sizeof(x->peer));
	x->open = true;
	yard_listen(y, e, 0);
}

static inline void yard_end_close(struct yard *y, unsigned e)
{
	struct yard_end *x = &y->end[e];
	if (x->dev)
		sp_dev_close(x->dev);
	free(x->memory);
	free(x->number);
	free(x->busy);
	free(x->of);
	*x = (struct yard_end){.open = false};
}

static inline void yard_ip(const struct yard *y, unsigned nic, uint8_t ip[16])
{
	const uint8_t last = (uint8_t)(nic + 1);

	if (y->six)
		memcpy(ip, (const uint8_t[]){0xFD, 0, 0, 7, [15] = last}, 16);
	else
		memcpy(ip, (const uint8_t[]){[10] = 0xFF, 0xFF, 10, 7, 0, last}, 16);
}

static inline uint32_t yard_peer(struct yard *y, unsigned e, unsigned to)
{
	struct yard_end *x = &y->end[e];
	struct sp_event result;
	uint64_t arg[6] = {0};
	int rc;

	if (x->peer[to])
		return x->peer[to] - 1;
	yard_ip(y, to % 2, (uint8_t *)arg);
	arg[2] = 0x100 + to;
	rc = yard_call(y, e, SP_RVMA_CMD_PEER, arg, 0, 0, &result);
	yard_expect(y, !rc, "peer: %d", rc);
	x->peer[to] = (uint32_t)result.arg[0] + 1;
	return x->peer[to] - 1;
}

/* ---- puts ----------------------------------------------------------------------------------------------------------
 */
static inline uint8_t yard_byte(uint64_t tag, uint32_t i)
{
	return (uint8_t)((tag + 1) * 0x9E3779B97F4A7C15u >> 32) + (uint8_t)(i * 31 + (i >> 8));
}

static inline void yard_record(uint8_t *to, uint64_t tag, uint32_t bytes)
{
	memcpy(to, &tag, 8);
	memcpy(to + 8, &(uint64_t){bytes}, 8);
	for (uint32_t i = YARD_HEAD; i < bytes; i++)
		to[i] = yard_byte(tag, i);
}

static inline bool yard_put(struct yard *y, struct yard_flow *f, unsigned slot)
{
	struct yard_end *x = &y->end[f->from];
	const uint64_t k = f->posted, tag = (uint64_t)(f - y->flow) << 32 | k;
	const uint64_t source = yard_source(slot, yard_room(y));
	struct sp_event result;
	int rc;

	f->bytes[k] = f->length[0] + (uint32_t)yard_below(y, f->length[1] - f->length[0] + 1);
	yard_record(x->memory + source, tag, f->bytes[k]);
	rc = yard_call(y, f->from, SP_RVMA_CMD_PUT,
		       YARD_ARGS(x->mr->id | (uint64_t)yard_peer(y, f->from, f->to) << 32, source, f->bytes[k],
				 f->mailbox ? f->mailbox : 5, 77, SP_RVMA_APPEND),
		       SP_RVMA_OP(slot, x->number[slot] + 1), f->fence ? SP_RVMA_CMD_FENCE : 0, &result);
	yard_expect(y, !rc, "put: %d", rc);
	if (rc)
		return false;
	x->number[slot]++;
	x->busy[slot] = (int)k;
	x->of[slot] = f;
	f->posted++;
	return true;
}

static inline void yard_ended(struct yard *y, unsigned e, unsigned slot)
{
	struct yard_end *x = &y->end[e];
	const struct sp_rvma_area *area = (const void *)x->area;
	struct sp_rvma_op_status s;
	struct yard_flow *f = x->of[slot];

	memcpy(&s, x->area + area->op + slot * sizeof(s), sizeof(s));
	if (x->busy[slot] < 0 || s.number != x->number[slot])
		return;
	f->status[x->busy[slot]] = (uint8_t)(s.status + 1);
	f->by[s.status % 64]++;
	f->ended++;
	f->over = sp_world_now(y->world);
	x->busy[slot] = -1;
	/* the memory is the application's again */
	memset(x->memory + yard_source(slot, yard_room(y)), 0xEE, yard_room(y));
}

static inline void yard_step(void *arg, sp_time now)
{
	struct yard *y = arg;
	y->stir = false;
	yard_expect(y, ++y->steps < 20000000, "the run does not end");
	for (unsigned e = 0; e < y->ends && !y->text[0]; e++)
		for (unsigned slot = 0; y->end[e].open && slot < y->ops; slot++)
			yard_ended(y, e, slot);
	for (unsigned i = 0; i < y->flows && !y->text[0]; i++) {
		struct yard_flow *f = &y->flow[i];
		unsigned slot = 0;

		while (f->posted < f->puts && y->end[f->from].open && (!f->most || f->posted - f->ended < f->most)) {
			while (slot < y->ops && y->end[f->from].busy[slot] >= 0)
				slot++;
			if (slot == y->ops || !yard_put(y, f, slot))
				break;
		}
	}
}

static inline sp_time yard_next(void *arg)
{
	const struct yard *y = arg;

	return y->stir ? sp_world_now(y->world) : SP_NEVER;
}

static inline bool yard_done(void *arg)
{
	const struct yard *y = arg;

	for (unsigned i = 0; i < y->flows && !y->text[0]; i++)
		if (y->end[y->flow[i].from].open && y->flow[i].ended < y->flow[i].puts)
			return false;
	return !y->stir;
}

static inline struct yard_flow *yard_flow(struct yard *y, unsigned from, unsigned to, uint64_t puts, uint32_t least,
					  uint32_t most)
{
	struct yard_flow *f = &y->flow[y->flows++];

	*f = (struct yard_flow){.from = from, .to = to, .puts = puts, .length = {least, most}};
	y->stir = true;
	return f;
}

/* Until all puts have ended, or for so long. */
static inline void yard_run(struct yard *y, sp_time most)
{
	y->stir = true;
	if (!y->text[0])
		sp_world_run(y->world, sp_world_now(y->world) + most, yard_done, y);
}

static inline void yard_wait(struct yard *y, sp_time time)
{
	sp_world_run(y->world, sp_world_now(y->world) + time, NULL, NULL);
}

/* ---- what came -----------------------------------------------------------------------------------------------------
 */
static inline struct sp_rvma_window_status yard_status(const struct yard *y, unsigned e)
{
	const struct sp_rvma_area *area = (const void *)y->end[e].area;
	struct sp_rvma_window_status s = {.id = 0};

	if (!area)
		return s;
	for (uint32_t i = 0; i < area->windows && s.id != y->end[e].window; i++)
		memcpy(&s, y->end[e].area + area->window + i * sizeof(s), sizeof(s));
	return s;
}

/* Of all the records that lie in the end's buffer, each is there once, and as it was sent. */
static inline void yard_read(struct yard *y, unsigned e)
{
	struct sp_rvma_window_status s;
	const uint8_t *memory = y->end[e].memory;
	uint64_t at = 0, records = 0;

	if (y->text[0])
		return;
	s = yard_status(y, e);
	while (at + YARD_HEAD <= s.bytes && !y->text[0]) {
		uint64_t tag, bytes, k;
		struct yard_flow *f;

		memcpy(&tag, memory + at, 8);
		memcpy(&bytes, memory + at + 8, 8);
		f = &y->flow[tag >> 32];
		k = tag & UINT32_MAX;
		yard_expect(y, tag >> 32 < y->flows && k < f->posted && bytes == f->bytes[k], "no record at %llu",
			    U(at));
		if (y->text[0])
			return;
		yard_expect(y, f->to == e && !f->came[k]++, "put %llu came again", U(k));
		for (uint32_t i = YARD_HEAD; i < bytes; i++)
			yard_expect(y, memory[at + i] == yard_byte(tag, i), "put %llu: byte %u is another", U(k), i);
		at += bytes;
		records++;
	}
	yard_expect(y, at == s.bytes && records == s.puts,
		    "%llu records in %llu bytes, %llu puts of %llu bytes counted", U(records), U(at), U(s.puts),
		    U(s.bytes));
}

/* The same where the sender went away: its records, all of one length, may be there in part. Those that are whole count
 * as having come. */
static inline void yard_read_torn(struct yard *y, struct yard_flow *f)
{
	const uint32_t bytes = f->length[0];

	for (uint64_t i = 0; i < f->posted && y->end[f->to].open; i++) {
		const uint8_t *b = y->end[f->to].memory + i * bytes;
		uint8_t right[32768];
		uint64_t tag;

		memcpy(&tag, b, 8);
		yard_record(right, tag, bytes);
		if (memcmp(b, right, bytes))
			continue;
		yard_expect(y,
			    tag >> 32 == (uint64_t)(f - y->flow) && (uint32_t)tag < f->posted &&
				    !f->came[(uint32_t)tag]++,
			    "put %llu came again", U((uint32_t)tag));
	}
}

/* Each put was delivered, and has come once. */
static inline void yard_all_delivered(struct yard *y, const struct yard_flow *f)
{
	yard_expect(y, f->ended == f->puts && f->by[SP_RVMA_DELIVERED] == f->puts,
		    "%llu of %llu puts have ended, %llu are delivered (%llu peer gone, %llu time-outs, %llu given up)",
		    U(f->ended), U(f->puts), U(f->by[SP_RVMA_DELIVERED]), U(f->by[SP_RVMA_PEER_GONE]),
		    U(f->by[SP_RVMA_TIMEOUT]), U(f->by[SP_RVMA_GIVEN_UP]));
	for (uint64_t k = 0; k < f->posted; k++)
		yard_expect(y, f->came[k] == 1, "put %llu came %u times", U(k), f->came[k]);
}

static inline uint64_t yard_counter(struct yard *y, unsigned e, const char *name)
{
	return sp_nic_context_counter(y->nic[e % 2], y->end[e].id, name);
}

/* ---- the world -----------------------------------------------------------------------------------------------------
 */
/* BTH is behind Ethernet, IP and UDP. */
static inline bool yard_lose(struct yard *y, unsigned from, const uint8_t *frame, uint32_t len)
{
	const unsigned bth = 14 + (frame[12] == 0x86 ? 40 : 20) + 8;
	const uint8_t opcode = len > bth ? frame[bth] : 0;

	y->seen[opcode]++;
	return y->cut[from] || (y->lose && y->lose(y, from, opcode));
}

static inline bool yard_lose0(void *arg, const uint8_t *frame, uint32_t len)
{
	return yard_lose(arg, 0, frame, len);
}

static inline bool yard_lose1(void *arg, const uint8_t *frame, uint32_t len)
{
	return yard_lose(arg, 1, frame, len);
}

static inline void yard_random(struct yard *y)
{
	static const sp_time delays[] = {SP_US, 20 * SP_US, 500 * SP_US, 5 * SP_MS};
	static const uint32_t mtus[] = {64, 256, 1024, 4096};
	const sp_time delay = delays[yard_below(y, 4)];

	y->six = !yard_below(y, 3);
	y->ops = 64;
	y->peers = 8;
	y->ends = 2;
	y->timeout = 300 * SP_SEC;
	for (unsigned e = 0; e < 2; e++) {
		y->workers[e] = 1 + (uint16_t)yard_below(y, 2);
		y->mtu[e] = mtus[yard_below(y, 4)];
		y->window[e] = 1u << yard_below(y, 9);
		y->link[e] = (struct sp_link_direction){.bandwidth = 1000000000ull << yard_below(y, 7),
							.delay = delay,
							.loss = yard_below(y, 4) ? 0.01 * (double)yard_below(y, 20) : 0,
							.duplicate = yard_below(y, 2) ? 0.1 : 0,
							.reorder = yard_below(y, 3) ? 0.3 : 0,
							.reorder_delay = yard_below(y, 4 * delay),
							.jitter = yard_below(y, 3) ? 0 : delay,
							.queue = 64};
	}
}

static inline void yard_nic(struct yard *y, unsigned e)
{
	struct sp_nic_config config = {.addresses = 1,
				       .mtu = 9000,
				       .workers = y->workers[e],
				       .seed = sp_random_next(&y->random),
				       .neighbours = 1,
				       .ports = 1,
				       .port = {{.ops = &sp_link_ops, .ops_arg = sp_link_port(y->under, e)}}};
	struct sp_error error = {.text = ""};

	yard_ip(y, e, config.address[0].ip);
	yard_ip(y, !e, config.neighbour[0].ip);
	config.address[0].prefix = y->six ? 64 : 24;
	memcpy(config.neighbour[0].mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(!e + 1)}, 6);
	memcpy(config.mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(e + 1)}, 6);
	snprintf(config.name, sizeof(config.name), "yard%u", e);
	if (sp_nic_create(&config, &error, &y->nic[e]) || sp_world_add_nic(y->world, y->nic[e])) {
		printf("# %s\n", error.text);
		abort();
	}
}

static inline void yard_open(struct yard *y)
{
	const struct sp_link_config link = {.direction = {y->link[0], y->link[1]},
					    .queues = {y->workers[0], y->workers[1]},
					    .lose = {yard_lose0, yard_lose1},
					    .lose_arg = {y, y},
					    .seed = sp_random_next(&y->random)};

	if (sp_link_create(&link, &y->under) || sp_world_create(&y->world))
		abort();
	for (unsigned e = 0; e < 2; e++)
		yard_nic(y, e);
	for (unsigned e = 0; e < y->ends && !y->text[0]; e++)
		yard_end_open(y, e);
	if (sp_world_add_host(y->world, &(struct sp_world_host){.step = yard_step, .next = yard_next, .arg = y}))
		abort();
}

static inline void yard_close(struct yard *y)
{
	for (unsigned e = 0; e < y->ends; e++)
		yard_end_close(y, e);
	for (unsigned e = 0; e < 2; e++)
		sp_nic_destroy(y->nic[e]);
	sp_world_destroy(y->world);
	y->world = NULL;
	sp_link_destroy(y->under);
}

/* Runs one(y) for `count` seeds. */
static inline void over_seeds(const char *rule, unsigned count, void (*one)(struct yard *y))
{
	static struct yard y;
	struct seeds s = seeds_begin(rule, count);

	while (seeds_next(&s)) {
		memset(&y, 0, sizeof(y));
		y.seed = s.seed;
		sp_random_seed(&y.random, y.seed, 0);
		yard_random(&y);
		one(&y);
		yard_close(&y);
		yard_expect(&y, seeds_whole(&s), "packet buffers are lost");
		seeds_told(&s, y.text);
	}
	CU_ASSERT_EQUAL(s.bad, 0);
}

#endif
