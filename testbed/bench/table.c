/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding a packet's context: packets to one QP, or to as many as a NIC takes, in random order; of few contexts, of one
 * each, or of as many applications with a context of one each. A capture would be too small, so the case has a port of
 * its own: it copies a frame, as net_pcap with infinite_rx does, and writes the QP number into it.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#include "frame.h"
#include "port.h"
#include "null.h"
#include "wire.h"

#define QP   0x100u
#define EACH 50000u /* QPs per context, at most 65535 */
#define MOST 4096u  /* applications and contexts */
static_assert(MOST >= SP_MAX_CONTEXTS, "all that a NIC takes");
#define BYTES 64u
#define FRAME (BENCH_EXT + BYTES + 4)

struct shape {
	uint32_t qps, each; /* each: of a context */
	bool owned;	    /* an application for each context */
};

struct bench {
	uint32_t qps;
	struct rte_mempool *pool;
	uint8_t frame[FRAME];
	uint32_t number; /* of the next packet */
	struct sp_nic *nic;
	uint32_t context[MOST];
	struct sp_dev *dev[MOST]; /* applications */
	unsigned contexts, devs;
	double ps_per_cycle;
};

static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct bench *b = port;
	const unsigned n = max < SP_BURST ? max : SP_BURST;

	(void)queue;
	(void)now;
	if (rte_pktmbuf_alloc_bulk(b->pool, packet, n))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		uint8_t *to = rte_pktmbuf_mtod(packet[i], uint8_t *);

		rte_memcpy(to, b->frame, FRAME);
		sp_store_be32(to + BENCH_BTH + 4,
			      QP + (uint32_t)((uint64_t)(b->number++ * 0x9E3779B1u) * b->qps >> 32));
		packet[i]->data_len = FRAME;
		packet[i]->pkt_len = FRAME;
	}
	return n;
}

static const struct sp_port_ops ops = {.receive = receive, .transmit = bench_port_discard, .next = bench_port_always};

static void close_bench(void *state)
{
	struct bench *b = state;

	for (unsigned i = 0; i < b->contexts && !b->devs; i++)
		sp_nic_context_remove(b->nic, b->context[i]);
	for (unsigned i = 0; i < b->devs; i++) /* and its context */
		sp_dev_close(b->dev[i]);
	sp_nic_destroy(b->nic);
	rte_mempool_free(b->pool);
	free(b);
}

static int open_owned(struct bench *b, const struct sp_context_config *config, struct sp_error *error)
{
	int r = sp_nic_dev(b->nic, false, &b->dev[b->devs]);

	if (r)
		return r;
	return sp_context_open(b->dev[b->devs++], config->name, config->handler, config->setting, config->settings,
			       &b->context[b->contexts], error);
}

/* Applications that do not post are parked: what is measured is packets. */
static void let_them_rest(const struct bench *b)
{
	const uint64_t looks = 2 * SP_QUIET_LOOKS / b->devs;

	for (uint64_t i = 0; i < 2 * SP_QUIET_POLLS && i <= looks + 1; i++)
		sp_nic_poll(b->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
}

static int open_contexts(struct bench *b, const struct shape *shape, struct sp_error *error)
{
	const uint32_t each = shape->each;
	int r = 0;

	for (uint32_t at = 0; at < b->qps && !r; at += each) {
		char name[16], qp[16], qps[16];
		const struct sp_setting setting[] = {{"qp", qp}, {"qps", qps}};
		const struct sp_context_config config = {
			.name = name, .handler = BENCH_NULL, .setting = setting, .settings = 2};

		snprintf(name, sizeof(name), "bench%u", b->contexts);
		snprintf(qp, sizeof(qp), "%u", QP + at);
		snprintf(qps, sizeof(qps), "%u", b->qps - at < each ? b->qps - at : each);
		r = shape->owned ? open_owned(b, &config, error)
				 : sp_nic_context_add(b->nic, &config, &b->context[b->contexts], error);
		b->contexts += !r;
	}
	return r;
}

static int open_bench(const struct shape *shape, const struct bench_options *o, void **state, struct bench_why *why)
{
	struct sp_error error = {.text = "no memory"};
	struct sp_nic_config config;
	struct bench *b;
	int r = -ENOMEM;

	if (o->icrc)
		return bench_fail(why, BENCH_SKIPPED, "the port changes each packet, but not its ICRC");
	b = calloc(1, sizeof(*b));
	if (!b)
		return r;
	bench_null_register();
	b->qps = shape->qps;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	bench_frame(b->frame, 0x64, QP, BYTES + 4);
	b->pool = bench_port_pool("table", RTE_MBUF_DEFAULT_DATAROOM);
	config = bench_port_nic(&ops, b);
	if (b->pool)
		r = sp_nic_create(&config, &error, &b->nic);
	if (!r)
		r = open_contexts(b, shape, &error);
	if (!r && b->devs)
		let_them_rest(b);
	if (r) {
		snprintf(why->text, sizeof(why->text), "%s", error.text);
		close_bench(b);
	} else {
		*state = b;
	}
	return r;
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	const uint64_t end = bench_round_end(seconds);
	struct sp_nic_totals before, after;
	struct bench_clock clock;
	uint64_t units = 0;

	sp_nic_totals(b->nic, &before);
	clock = bench_clock_begin();
	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS; i++)
			sp_nic_poll(b->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
		units += BENCH_PORT_BURSTS * SP_BURST;
	} while (rte_rdtsc() < end && !bench_stopped());
	round->cycles = bench_clock_end(&clock);
	round->units = units;
	sp_nic_totals(b->nic, &after);
	if (after.taken - before.taken == units)
		return 0;
	return bench_fail(why, -EPROTO, "of %llu packets %llu reached a handler", (unsigned long long)units,
			  (unsigned long long)(after.taken - before.taken));
}

static int run_bare(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bench_port_bare(receive, NULL, state, seconds, round, why);
}

#define CASE(what, count, words)                                                                                       \
	{                                                                                                              \
		.name = #what "-" #count, .help = "packets of 64 bytes to a handler that does nothing, " words,        \
		.threads = 1, .baseline = "receive and free on the same port", .icrc = BENCH_UNCHECKED,                \
		.open = open_##what##_##count, .run = run, .run_baseline = run_bare, .close = close_bench              \
	}
#define QPS(count, most)      CASE(qps, count, "by QP number; QPs: " #count most)
#define CONTEXTS(count, most) CASE(contexts, count, "to contexts of one QP each: " #count most)
#define APPLICATIONS(count, most)                                                                                      \
	CASE(applications, count, "to contexts of one QP each, each of an application of its own: " #count most)
#define OPEN(what, count, ...)                                                                                         \
	static int open_##what##_##count(const struct bench_options *o, void **state, struct bench_why *why)           \
	{                                                                                                              \
		return open_bench(&(const struct shape){.qps = count, __VA_ARGS__}, o, state, why);                    \
	}
OPEN(qps, 1, .each = EACH)
OPEN(qps, 10, .each = EACH)
OPEN(qps, 100, .each = EACH)
OPEN(qps, 1000, .each = EACH)
OPEN(qps, 10000, .each = EACH)
OPEN(qps, 100000, .each = EACH)
OPEN(qps, 131072, .each = EACH)
OPEN(contexts, 1, .each = 1)
OPEN(contexts, 10, .each = 1)
OPEN(contexts, 100, .each = 1)
OPEN(contexts, 1000, .each = 1)
OPEN(contexts, 4096, .each = 1)
OPEN(applications, 1, .each = 1, .owned = true)
OPEN(applications, 10, .each = 1, .owned = true)
OPEN(applications, 100, .each = 1, .owned = true)
OPEN(applications, 1000, .each = 1, .owned = true)
OPEN(applications, 4096, .each = 1, .owned = true)
static_assert(SP_MAX_QPS == 131072 && SP_MAX_CONTEXTS == 4096, "the names of the last cases");

#define LIMIT ", as many as a NIC takes"
const struct bench_case bench_table[] = {
	QPS(1, ""),
	QPS(10, ""),
	QPS(100, ""),
	QPS(1000, ""),
	QPS(10000, ""),
	QPS(100000, ""),
	QPS(131072, LIMIT),
	CONTEXTS(1, ""),
	CONTEXTS(10, ""),
	CONTEXTS(100, ""),
	CONTEXTS(1000, ""),
	CONTEXTS(4096, LIMIT),
	APPLICATIONS(1, ""),
	APPLICATIONS(10, ""),
	APPLICATIONS(100, ""),
	APPLICATIONS(1000, ""),
	APPLICATIONS(4096, ", one for each context that a NIC takes"),
	{.name = NULL},
};
