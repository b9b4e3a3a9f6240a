/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message by RVMA beside the same message by RDMA, from the send call until the receiving program knows of it
 * (batch.h): two NICs in this process joined by a ring port, polled by one thread that also runs the programs; or in
 * virtual time over a link that keeps order, and over one that does not.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "../../pipeline/nic.h"
#include "../quantile.h"
#include "../batch.h"

#define SAMPLES 65536u
#define LEAST	5u    /* messages of a round, at least */
#define PACKETS 5000u /* packets of a round in virtual time, about */
#define FEW	20u   /* ... but at least so many messages, */
#define MANY	500u  /* ... at most */
#define MTU	4096u

/* In virtual time: a link of 100 Gbit/s and 1 us. ADAPTIVE does not keep order: each packet may take up to 1 us
 * more. */
enum kind { RING, ORDERED, ADAPTIVE };
static const struct sp_link_direction link_of[] = {
	[ORDERED] = {.bandwidth = 100000000000, .delay = SP_US, .queue = 4096},
	[ADAPTIVE] = {.bandwidth = 100000000000, .delay = SP_US, .jitter = SP_US, .queue = 4096},
};

struct bench {
	enum kind kind;
	uint32_t size;
	uint64_t rounds[SP_BATCH_WAYS];
	double ps_per_cycle;
	struct sp_nic *nic[2];
	struct sp_dev *dev[2];
	double *sample; /* ns */
	unsigned samples;
};

static void note(void *arg, sp_time time)
{
	struct bench *b = arg;

	if (b->samples < SAMPLES)
		b->sample[b->samples++] = (double)time / SP_NS;
}

static void close_rvma(void *state)
{
	struct bench *b = state;

	for (unsigned i = 0; i < 2; i++) {
		if (b->dev[i])
			sp_dev_close(b->dev[i]);
		sp_nic_destroy(b->nic[i]);
	}
	free(b->sample);
	free(b);
}

static int open_rvma(enum kind kind, uint32_t size, void **state, struct bench_why *why)
{
	static unsigned cables;
	struct bench *b = calloc(1, sizeof(*b));
	struct sp_nic_config *config = malloc(sizeof(*config));
	struct sp_error error = {.text = "no memory"};
	char cable[32];
	int r = -ENOMEM;

	if (!b || !config)
		goto fail;
	b->kind = kind;
	b->size = size;
	b->sample = malloc(SAMPLES * sizeof(*b->sample));
	r = b->sample ? sp_eal_init(0, NULL, &error) : -ENOMEM;
	b->ps_per_cycle = r ? 0 : 1e12 / (double)rte_get_tsc_hz();
	snprintf(cable, sizeof(cable), "ring:bench%u", cables++);
	for (unsigned i = 0; i < 2 && !r && kind == RING; i++) {
		sp_batch_nic(config, i);
		config->port[0].device = cable;
		r = sp_nic_create(config, &error, &b->nic[i]);
		if (!r)
			r = sp_nic_dev(b->nic[i], false, &b->dev[i]);
	}
	if (r)
		goto fail;
	free(config);
	*state = b;
	return 0;
fail:
	snprintf(why->text, sizeof(why->text), "%s", error.text);
	free(config);
	if (b)
		close_rvma(b);
	return r;
}

/* ---- rounds ---- */
/* Virtual time has no noise, and with retransmissions the times have two peaks: the mean, not the median. */
static double mean(const struct bench *b)
{
	double sum = 0;

	for (unsigned i = 0; i < b->samples; i++)
		sum += b->sample[i];
	return sum / b->samples;
}

static sp_time now(const struct bench *b)
{
	return (sp_time)((double)rte_rdtsc() * b->ps_per_cycle);
}

static int play(struct bench *b, const struct sp_batch_config *config, double seconds, uint64_t *torn)
{
	const uint64_t end = rte_rdtsc() + (uint64_t)(seconds * (double)rte_get_tsc_hz());
	struct sp_batch *v;
	int r = sp_batch_create(b->dev, config, &v);

	if (r)
		return r;
	for (unsigned i = 0; !r && !bench_stopped() && (b->samples < LEAST || rte_rdtsc() < end); i ^= 1) {
		sp_nic_poll(b->nic[i], 0, now(b));
		r = sp_batch_step(v, now(b));
	}
	*torn = sp_batch_torn(v);
	sp_batch_destroy(v);
	return r;
}

static int simulate(struct bench *b, struct sp_batch_config *config, uint64_t *torn)
{
	const uint32_t packets = (b->size - 1) / MTU + 1;

	config->messages = PACKETS / packets < FEW ? FEW : PACKETS / packets > MANY ? MANY : PACKETS / packets;
	return sp_batch_simulate(config, &link_of[b->kind], ++b->rounds[config->way], torn);
}

static int run(struct bench *b, enum sp_batch_way way, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct sp_batch_config config = {
		.way = way, .size = b->size, .mtu = MTU, .messages = UINT64_MAX / 2, .ended = note, .ended_arg = b};
	uint64_t torn = 0;
	int r;

	b->samples = 0;
	r = b->kind == RING ? play(b, &config, seconds, &torn) : simulate(b, &config, &torn);
	if (bench_stopped())
		return -EINTR;
	if (r)
		return bench_fail(why, r, "a message was not delivered: %s", strerror(-r));
	if (torn && way != SP_BATCH_LAST_BYTE)
		return bench_fail(why, -EBADMSG, "%llu messages were announced before they had arrived",
				  (unsigned long long)torn);
	if (torn)
		return bench_fail(why, BENCH_SKIPPED, "in %llu of %u messages the last byte arrived before others",
				  (unsigned long long)torn, b->samples);
	round->value = b->kind == RING ? sp_quantile(b->sample, b->samples, 500) : mean(b);
	round->tail = b->samples < 100 ? 0 : sp_quantile(b->sample, b->samples, 990);
	return 0;
}

#define SIDE(name, way)                                                                                                \
	static int run_##name(void *state, double seconds, struct bench_round *round, struct bench_why *why)           \
	{                                                                                                              \
		return run(state, way, seconds, round, why);                                                           \
	}
SIDE(put, SP_BATCH_PUT)
SIDE(behind, SP_BATCH_BEHIND)
SIDE(afterwards, SP_BATCH_AFTERWARDS)
SIDE(last_byte, SP_BATCH_LAST_BYTE)
SIDE(exchange, SP_BATCH_EXCHANGE)

/* ---- cases ---- */
#define SIZES(_, kind) _(kind, 8) _(kind, 64) _(kind, 512) _(kind, 4096) _(kind, 32768) _(kind, 262144) _(kind, 1048576)

#define OPEN(kind, bytes)                                                                                              \
	static int open_##kind##_##bytes(const struct bench_options *o, void **state, struct bench_why *why)           \
	{                                                                                                              \
		(void)o;                                                                                               \
		return open_rvma(kind, bytes, state, why);                                                             \
	}
SIZES(OPEN, RING)
SIZES(OPEN, ORDERED)
SIZES(OPEN, ADAPTIVE)

#define CASE(kind, bytes, text, about, base, other0)                                                                   \
	{.name = text #bytes,                                                                                          \
	 .help = #bytes " bytes " about,                                                                               \
	 .unit = "ns",                                                                                                 \
	 .less = true,                                                                                                 \
	 .baseline = base##_WORDS,                                                                                     \
	 .open = open_##kind##_##bytes,                                                                                \
	 .run = run_put,                                                                                               \
	 .run_baseline = base##_RUN,                                                                                   \
	 .other = {{other0##_WORDS, other0##_RUN},                                                                     \
		   {"RDMA: last byte polled", run_last_byte},                                                          \
		   {"RDMA: buffer exchange", run_exchange}},                                                           \
	 .close = close_rvma},
#define AFTERWARDS_WORDS "RDMA: write, once there: send"
#define AFTERWARDS_RUN	 run_afterwards
#define BEHIND_WORDS	 "RDMA: write, send behind it"
#define BEHIND_RUN	 run_behind

#define CASE_RING(kind, bytes)                                                                                         \
	CASE(kind, bytes, "rvma-latency-", "from call to notification; two NICs, a ring port, one thread", AFTERWARDS, \
	     BEHIND)
#define CASE_ORDERED(kind, bytes)                                                                                      \
	CASE(kind, bytes, "rvma-ordered-", "in virtual time: 100 Gbit/s, 1 us, packets in order", BEHIND, AFTERWARDS)
#define CASE_ADAPTIVE(kind, bytes)                                                                                     \
	CASE(kind, bytes, "rvma-adaptive-", "in virtual time: 100 Gbit/s, 1 to 2 us, any order", AFTERWARDS, BEHIND)

/* clang-format off */
const struct bench_case bench_rvma[] = {
	SIZES(CASE_RING, RING)
	SIZES(CASE_ORDERED, ORDERED)
	SIZES(CASE_ADAPTIVE, ADAPTIVE)
	{.name = NULL},
};
/* clang-format on */
