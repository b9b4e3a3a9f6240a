/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding a packet's context: packets to one QP, or to 100,000 in random order. A capture would be too small, so the
 * case has a port of its own: it copies a frame, as net_pcap with infinite_rx does, and writes the QP number into it.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "../pipeline/limits.h"
#include "../pipeline/nic.h"
#include "bench_frame.h"
#include "bench_port.h"
#include "bench_null.h"
#include "bench_wire.h"

#define QP    0x100u
#define EACH  50000u /* QPs per context, at most 65535 */
#define BYTES 64u
#define FRAME (BENCH_EXT + BYTES + 4)

struct bench {
	uint32_t qps;
	struct rte_mempool *pool;
	uint8_t frame[FRAME];
	uint32_t number; /* of the next packet */
	struct sp_nic *nic;
	uint32_t context[SP_MAX_QPS / EACH];
	unsigned contexts;
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

	for (unsigned i = 0; i < b->contexts; i++)
		sp_nic_context_remove(b->nic, b->context[i]);
	sp_nic_destroy(b->nic);
	rte_mempool_free(b->pool);
	free(b);
}

static int open_contexts(struct bench *b, struct sp_error *error)
{
	int r = 0;

	for (uint32_t at = 0; at < b->qps && !r; at += EACH) {
		char name[16], qp[16], qps[16];
		const struct sp_setting setting[] = {{"qp", qp}, {"qps", qps}};
		const struct sp_context_config config = {
			.name = name, .handler = BENCH_NULL, .setting = setting, .settings = 2};

		snprintf(name, sizeof(name), "bench%u", b->contexts);
		snprintf(qp, sizeof(qp), "%u", QP + at);
		snprintf(qps, sizeof(qps), "%u", b->qps - at < EACH ? b->qps - at : EACH);
		r = sp_nic_context_add(b->nic, &config, &b->context[b->contexts], error);
		b->contexts += !r;
	}
	return r;
}

static int open_bench(uint32_t qps, const struct bench_options *o, void **state, struct bench_why *why)
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
	b->qps = qps;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	bench_frame(b->frame, 0x64, QP, BYTES + 4);
	b->pool = bench_port_pool("table", RTE_MBUF_DEFAULT_DATAROOM);
	config = bench_port_nic(&ops, b);
	if (b->pool)
		r = sp_nic_create(&config, &error, &b->nic);
	if (!r)
		r = open_contexts(b, &error);
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

#define CASE(count)                                                                                                    \
	{                                                                                                              \
		.name = "qps-" #count,                                                                                 \
		.help = "packets of 64 bytes to a handler that does nothing, by QP number; QPs: " #count,              \
		.threads = 1, .baseline = "receive and free on the same port", .icrc = BENCH_UNCHECKED,                \
		.open = open_##count, .run = run, .run_baseline = run_bare, .close = close_bench                       \
	}
#define OPEN(count)                                                                                                    \
	static int open_##count(const struct bench_options *o, void **state, struct bench_why *why)                    \
	{                                                                                                              \
		return open_bench(count, o, state, why);                                                               \
	}
OPEN(1)
OPEN(1000)
OPEN(10000)
OPEN(100000)

const struct bench_case bench_table[] = {CASE(1), CASE(1000), CASE(10000), CASE(100000), {.name = NULL}};
