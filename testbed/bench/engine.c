/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC itself: packets of a repeated capture to a handler that does nothing, to simple handlers, and through
 * filters. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/nic.h"
#include "frame.h"
#include "null.h"
#include "testpmd.h"
#include "wire.h"

#define CAPTURE 1024 /* packets */
#define PAYLOAD 64   /* bytes after the UDP header, or after the BTH */
#define FLOWS	64   /* UDP source ports */
#define PORT	7777 /* destination port */
#define RULES	32
#define MISSES	2048 /* packets of another capture: twice what the flow cache holds, so that 7 of 8 miss */

struct shape {
	bool misses; /* each packet has a source address of its own, which the last filter reads */
	const char *handler;
	bool roce;
	unsigned rules; /* filters that each packet is compared with; the last one matches. 0: the handler has QP 256 */
};

struct bench {
	struct shape shape;
	struct bench_wire wire;
	struct bench_testpmd testpmd;
	uint32_t context[RULES];
	unsigned contexts;
};

/* A UDP datagram; without RoCE the BTH is ordinary payload, and another destination port says so. */
static uint32_t make_frame(void *arg, uint64_t number, uint8_t *f)
{
	const struct bench *b = arg;
	uint32_t len;

	if (number == (b->shape.misses ? MISSES : CAPTURE))
		return 0;
	len = bench_frame(f, 0x64, 256, PAYLOAD + (b->shape.roce ? 4 : 0)); /* UD SEND Only */
	if (b->shape.roce) {
		sp_store_be32(f + BENCH_BTH + 8, (uint32_t)number);
		sp_store_le32(f + len - 4, sp_icrc(f + BENCH_IP, 20, len - BENCH_IP - 4));
		return len;
	}
	sp_store_be16(f + BENCH_IP + 20, (uint16_t)(20000 + number % FLOWS));
	sp_store_be16(f + BENCH_IP + 22, PORT);
	if (b->shape.misses) { /* the sum of the two fields, and so the header's checksum, stays what it was */
		const uint16_t address = (uint16_t)(number * 40503);
		const uint32_t rest = 0x202 + 0xFFFFu - address;

		sp_store_be16(f + BENCH_IP + 4, (uint16_t)(rest + (rest >> 16)));
		sp_store_be16(f + BENCH_IP + 14, address);
	}
	for (uint32_t i = BENCH_BTH; i < len; i++) /* as in real traffic, no two payloads are alike */
		f[i] = (uint8_t)((number + 1) * 0x9E3779B97F4A7C15u >> i % 8 * 8);
	return len;
}

static void close_bench(void *state)
{
	struct bench *b = state;

	for (unsigned i = 0; b->wire.nic && i < b->contexts; i++)
		sp_nic_context_remove(b->wire.nic, b->context[i]);
	bench_wire_close(&b->wire);
	bench_testpmd_close(&b->testpmd);
	free(b);
}

static int open_context(struct bench *b, unsigned i, struct bench_why *why)
{
	const bool last = i + 1 >= b->shape.rules;
	char name[16], filter[64];
	const struct sp_setting qp[] = {{"qp", "256"}, {"qps", "1"}}, rule[] = {{"filter", filter}};
	struct sp_context_config config = {.name = name,
					   .handler = last ? b->shape.handler : BENCH_NULL,
					   .setting = b->shape.rules ? rule : qp,
					   .settings = b->shape.rules ? 1 : 2};
	struct sp_error error = {0};
	int r;

	snprintf(name, sizeof(name), "bench%u", i);
	snprintf(filter, sizeof(filter), "udp dst port %u%s", last ? PORT : 10000 + i,
		 last && b->shape.misses ? " and src net 192.0.0.0/16" : "");
	r = sp_nic_context_add(b->wire.nic, &config, &b->context[i], &error);
	if (r)
		snprintf(why->text, sizeof(why->text), "%s", error.text);
	else
		b->contexts++;
	return r;
}

static int open_bench(const struct shape *shape, const struct bench_options *o, void **state, struct bench_why *why)
{
	struct bench_wire_config config = {.icrc = o->icrc, .make = make_frame};
	struct bench *b;
	int r;

	if (o->icrc && !shape->roce)
		return bench_fail(why, BENCH_SKIPPED, "these packets have no ICRC");
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	bench_null_register();
	b->shape = *shape;
	config.arg = b;
	r = bench_wire_open(&b->wire, &config, why);
	for (unsigned i = 0; !r && i < (shape->rules ? shape->rules : 1); i++)
		r = open_context(b, i, why);
	if (r)
		close_bench(b);
	else
		*state = b;
	return r;
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	const uint32_t last = b->context[b->contexts - 1];
	const uint64_t before = sp_nic_context_counter(b->wire.nic, last, "packets");
	uint64_t taken;
	int r = bench_wire_round(&b->wire, NULL, NULL, seconds, round, why);

	taken = sp_nic_context_counter(b->wire.nic, last, "packets") - before;
	if (!r && taken != round->units)
		r = bench_fail(why, -EPROTO, "of %llu packets %llu reached the handler",
			       (unsigned long long)round->units, (unsigned long long)taken);
	return r;
}

static int run_bare(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bench_wire_bare(&((struct bench *)state)->wire, NULL, NULL, seconds, round, why);
}

static int run_swap(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bench_wire_swap(&((struct bench *)state)->wire, seconds, round, why);
}

static int run_5tswap(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	char device[1300];

	snprintf(device, sizeof(device), "net_pcap0,%s", b->wire.source);
	return bench_testpmd_round(&b->testpmd, "5tswap", device, 0, seconds, round, why);
}

#define BARE "receive and free on the same port"
#define OPEN(name, ...)                                                                                                \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		return open_bench(&(const struct shape){__VA_ARGS__}, o, state, why);                                  \
	}
OPEN(null, .handler = BENCH_NULL, .roce = true)
OPEN(rules_1, .handler = BENCH_NULL, .rules = 1)
OPEN(rules_32, .handler = BENCH_NULL, .rules = RULES)
OPEN(rules_32_misses, .handler = BENCH_NULL, .rules = RULES, .misses = true)
OPEN(count, .handler = "count", .rules = 1)
OPEN(reflect, .handler = "reflect", .rules = 1)

#define CASE(text, symbol, how, words)                                                                                 \
	{                                                                                                              \
		.name = text, .help = words, .threads = 1, .icrc = how, .baseline = BARE, .open = open_##symbol,       \
		.run = run, .run_baseline = run_bare, .close = close_bench                                             \
	}

const struct bench_case bench_engine[] = {
	CASE("null", null, BENCH_EITHER, "packets of 64 bytes to a QP whose handler does nothing"),
	CASE("filters-1", rules_1, BENCH_UNCHECKED,
	     "datagrams of 64 bytes through one filter to a handler that does nothing"),
	CASE("filters-32", rules_32, BENCH_UNCHECKED, "the same through 32 filters, of which the last one takes them"),
	CASE("filters-32-misses", rules_32_misses, BENCH_UNCHECKED,
	     "the same from 2048 addresses, which the last filter reads: most packets miss the flow cache"),
	CASE("count", count, BENCH_UNCHECKED, "datagrams of 64 bytes of 64 flows, to the handler count"),
	{.name = "reflect",
	 .help = "datagrams of 64 bytes answered by the handler reflect",
	 .threads = 1,
	 .icrc = BENCH_UNCHECKED,
	 .baseline = "dpdk-testpmd, 5tswap",
	 .open = open_reflect,
	 .run = run,
	 .run_baseline = run_5tswap,
	 .other = {{"swap addresses and ports, send, on the same port", run_swap}},
	 .close = close_bench},
	{.name = NULL},
};
