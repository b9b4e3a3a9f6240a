/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of receiving a packet of 64 bytes by sdr, checked.
 *
 * A loop takes bursts from the port and does with them what the NIC does, by the NIC's own functions, a step more in
 * each of its forms: what a step adds is its part. Copying and the handler are steps beyond finding the context. The
 * handler is called as the NIC does, with messages posted and completed through a NIC that has this context, and whose
 * port gives it nothing. That NIC's round after each burst is no part: the same round, with nothing to do in it, is in
 * the form that the handler's is compared with (once in a loop of its own it would be cheaper, and the difference
 * counted twice). Counters is what a NIC whose handler does nothing takes beyond the loop that only finds the context.
 * Application is the time of the rounds with commands that complete and post, less that of the rounds without. The
 * whole is a NIC that does everything, measured by itself: that the sum of the parts comes near it is not built in.
 *
 * Forms take turns of a millisecond, each after one of the same form that does not count, so that a machine whose speed
 * drifts is as fast for one as for the other; of each form's rounds, the lower quartile counts.
 */
#include "parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_memcpy.h>

#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/rx/match.h"
#include "../../pipeline/exec/message.h"
#include "../../pipeline/frame/parser.h"
#include "../../pipeline/frame/parser_plain.h"
#include "../../pipeline/engine.h"
#include "../../pipeline/context.h"
#include "../../pipeline/view.h"
#include "../../pipeline/worker.h"
#include "sdr.h"

enum form { RECEIVE, PARSE, ICRC, MATCH, COPY, ROUND, HANDLER, FORMS };
enum { PART_RECEIVE, PART_PARSE, PART_ICRC, PART_MATCH, PART_HANDLER, PART_COPY, PART_COUNTERS, PART_APPLICATION };

struct rig {
	struct bench_sdr *loop;	 /* whose port gives it no packets */
	struct bench_sdr *null;	 /* whose handler does nothing */
	struct bench_sdr *whole; /* a normal NIC */
	double aside[FORMS];	 /* cycles a packet of polls of `loop`'s NIC */
	unsigned wrong;		 /* packets that went wrong; also keeps the compiler from removing the steps */
};

static bool never(void *arg, uint16_t queue)
{
	(void)arg;
	(void)queue;
	return false;
}

/* ---- the steps ---- */
/* Checks the ICRCs of a burst at once. Returns how many are wrong. */
static inline unsigned check(const struct sp_packet *p)
{
	const uint8_t *l3[SP_BURST];
	uint32_t len[SP_BURST];

	for (unsigned i = 0; i < SP_BURST; i++) {
		l3[i] = p[i].frame + SP_PLAIN_IP;
		len[i] = sp_load_be16(l3[i] + 2) - SP_ROCE_ICRC_LEN;
	}
	return SP_BURST - (unsigned)__builtin_popcount(sp_icrc_right_plain(l3, len, SP_BURST));
}

/* Where the packet before went, as dispatch.c remembers it. */
struct same {
	uint64_t addresses;
	uint32_t qp, ports, hash;
	uint16_t index;
	const struct sp_context *context;
};

static inline bool find(const struct sp_nic *nic, struct sp_packet *p, struct same *same)
{
	const uint8_t *f = p->frame;
	const struct sp_qp *qp;
	uint32_t ip;

	if (p->dest_qp == same->qp && sp_addresses4(f + SP_PLAIN_IP) == same->addresses) {
		p->hash = sp_plain_ports(f) == same->ports ? same->hash : sp_plain_hash(f);
		p->qp_index = same->index;
		return same->context != NULL;
	}
	qp = sp_qp_table_find(nic->qps, p->dest_qp);
	memcpy(&ip, sp_packet_destination(p), 4);
	if (!qp || ip != nic->own4[0] || atomic_load_explicit(&qp->context->peer_set, memory_order_acquire))
		return false;
	p->hash = sp_plain_hash(f);
	p->qp_index = qp->index;
	*same = (struct same){
		sp_addresses4(f + SP_PLAIN_IP), p->dest_qp, sp_plain_ports(f), p->hash, qp->index, qp->context};
	return true;
}

/* Packets of one message. */
static unsigned hand_over(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_message_entry *e;
	enum sp_enter how = sp_message_enter(v, p[0]->key, &e);

	if (how == SP_ENTER_MISS && h->miss(&v->pub, p[0]) == SP_AGAIN)
		how = sp_message_enter(v, p[0]->key, &e);
	if (how == SP_ENTER_HEADER) {
		if (h->header && h->header(&v->pub, &e->pub, p[0]) != SP_DONE)
			return n;
		sp_message_opened(v, e);
	} else if (how != SP_ENTER_OPEN) {
		return n;
	}
	n = h->payload_burst(&v->pub, &e->pub, p, n) != 0;
	sp_message_leave(v, e, false, SP_END_VERDICT);
	return n;
}

static unsigned handle(struct rig *r, struct sp_packet *const *p)
{
	struct bench_sdr *b = r->loop;
	struct sp_view *v = b->wire.nic->context[b->context & (SP_MAX_CONTEXTS - 1)]->view[0];
	struct sp_packet *own[SP_BURST];
	unsigned wrong, j;

	memcpy(own, p, sizeof(own));
	v->pub.now = v->owner->now;
	wrong = v->context->handler->classify_burst(&v->pub, own, SP_BURST);
	for (unsigned i = 0; i < SP_BURST; i = j) {
		for (j = i + 1; j < SP_BURST && own[j]->key == own[i]->key; j++)
			;
		wrong += hand_over(v, own + i, j - i);
	}
	return wrong;
}

/* To a place where the message before could have been: same effect on caches. */
static inline void copy(struct bench_sdr *b, struct sp_packet *const *p)
{
	const uint64_t packets = b->places * b->shape.packets;

	for (unsigned i = 0; i < SP_BURST; i++) {
		uint8_t *to = (uint8_t *)b->mr->addr + b->bare_at++ % packets * b->shape.mtu;

		rte_memcpy(to, p[i]->data + SP_SDR_HEADER, b->shape.mtu);
	}
}

/* Returns its cycles. */
static inline uint64_t round_of(struct bench_sdr *b)
{
	const uint64_t begin = rte_rdtsc();

	sp_nic_poll(b->wire.nic, 0, bench_wire_now(&b->wire));
	bench_sdr_step(b);
	return rte_rdtsc() - begin;
}

/* All steps up to this one; cycles a packet. */
static inline __attribute__((always_inline)) double go(struct rig *r, const enum form form, double seconds)
{
	struct bench_sdr *b = r->loop;
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	struct rte_mbuf *packet[SP_BURST];
	struct sp_packet pk[SP_BURST], *batch[SP_BURST];
	struct same same = {.qp = UINT32_MAX};
	uint64_t units = 0, aside = 0;
	unsigned wrong = 0;

	do {
		for (uint64_t left = b->wire.packets; left; left -= SP_BURST) {
			if (rte_eth_rx_burst(b->wire.port, 0, packet, SP_BURST) != SP_BURST)
				r->wrong++;
			for (unsigned i = 0; i < SP_BURST && form >= PARSE; i++)
				wrong += !sp_parse_plain(rte_pktmbuf_mtod(packet[i], uint8_t *), packet[i]->data_len,
							 &pk[i]);
			if (form >= ICRC)
				wrong += check(pk);
			same.qp = UINT32_MAX;
			for (unsigned i = 0; i < SP_BURST && form >= MATCH; i++) {
				wrong += !find(b->wire.nic, &pk[i], &same);
				batch[i] = &pk[i];
			}
			if (form >= MATCH)
				rte_compiler_barrier(); /* another worker could read the batch */
			if (form == COPY)
				copy(b, batch);
			if (form == HANDLER)
				wrong += handle(r, batch);
			rte_mempool_put_bulk(packet[0]->pool, (void **)packet, SP_BURST); /* as the NIC does */
			if (form >= ROUND)
				aside += round_of(b);
		}
		units += b->wire.packets;
	} while (rte_rdtsc() < end && !bench_stopped());
	r->wrong += wrong;
	r->aside[form] = (double)aside / (double)units;
	return (double)bench_clock_end(&clock) / (double)units;
}

#define GO(form)                                                                                                       \
	static __attribute__((noinline)) double go_##form(struct rig *r, double seconds)                               \
	{                                                                                                              \
		return go(r, form, seconds);                                                                           \
	}
GO(RECEIVE)
GO(PARSE)
GO(ICRC)
GO(MATCH)
GO(COPY)
GO(ROUND)
GO(HANDLER)

static double (*const form[FORMS])(struct rig *, double) = {go_RECEIVE, go_PARSE, go_ICRC,   go_MATCH,
							    go_COPY,	go_ROUND, go_HANDLER};

/* ---- the rig ---- */
static void close_rig(struct rig *r)
{
	bench_sdr_close(r->loop);
	bench_sdr_close(r->null);
	bench_sdr_close(r->whole);
}

/* As the case sdr-receive-64. */
static int open_rig(struct rig *r, const struct bench_options *o, struct bench_why *why)
{
	const struct bench_sdr_shape whole = {.mtu = 64, .packets = 32, .chunk = 1};
	struct bench_sdr_shape loop = whole, null = whole;
	int e;

	*r = (struct rig){.wrong = 0};
	loop.gate = never;
	null.null = true;
	e = bench_sdr_open(&loop, o, &r->loop, why);
	if (!e)
		e = bench_sdr_open(&null, o, &r->null, why);
	if (!e)
		e = bench_sdr_open(&whole, o, &r->whole, why);
	return e;
}

/* ---- rounds ---- */
#define SAMPLES 16384u /* of each figure, at most */

enum { WHOLE = FORMS, NULL_WHOLE, ASIDE, IDLE, FIGURES };

typedef int round_t(struct bench_sdr *, double, struct bench_round *, struct bench_why *);

static int cost_of(round_t *run, struct bench_sdr *b, double seconds, double *cycles, struct bench_why *why)
{
	struct bench_round round = {0};
	int r = run(b, 0, &round, why); /* warms the caches again */

	if (!r)
		r = run(b, seconds, &round, why);

	*cycles = r ? 0 : (double)round.cycles / (double)round.units;
	return r;
}

/* A round of each, as short as possible. */
static int once(struct rig *r, double *f, struct bench_why *why)
{
	const double seconds = 0.001;
	int e;

	for (unsigned k = 0; k < FORMS; k++) {
		form[k](r, 0); /* warms the caches again */
		f[k] = form[k](r, seconds);
	}
	f[ASIDE] = r->aside[HANDLER];
	f[IDLE] = r->aside[ROUND];
	e = cost_of(bench_sdr_null, r->null, seconds, &f[NULL_WHOLE], why);
	if (!e)
		e = cost_of(bench_sdr_run, r->whole, seconds, &f[WHOLE], why);
	if (!e && (r->wrong || bench_sdr_wasted(r->loop)))
		e = bench_fail(why, -EPROTO, "%u packets went to a wrong place", r->wrong);
	return e ? e : bench_stopped() ? -EINTR : 0;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void take_apart(const double *f, double *part)
{
	part[PART_RECEIVE] = f[RECEIVE];
	part[PART_PARSE] = f[PARSE] - f[RECEIVE];
	part[PART_ICRC] = f[ICRC] - f[PARSE];
	part[PART_MATCH] = f[MATCH] - f[ICRC];
	part[PART_COPY] = f[COPY] - f[MATCH];
	part[PART_HANDLER] = f[HANDLER] - f[ASIDE] - (f[ROUND] - f[IDLE]) - part[PART_COPY];
	part[PART_COUNTERS] = f[NULL_WHOLE] - f[MATCH];
	part[PART_APPLICATION] = f[ASIDE] - f[IDLE];
}

static const char *const words[BENCH_PARTS][2] = {
	[PART_RECEIVE] = {"receive", "a burst from the port, and freed"},
	[PART_PARSE] = {"parse", "headers, every length checked"},
	[PART_ICRC] = {"ICRC", "computed and compared"},
	[PART_MATCH] = {"match", "QP number, addresses"},
	[PART_HANDLER] = {"handler", "sdr: classify, message, bitmap, what is told the host"},
	[PART_COPY] = {"copy", "payload to its place"},
	[PART_COUNTERS] = {"counters", "contexts' batches, counters, the round itself"},
	[PART_APPLICATION] = {"application", "commands that complete and post"},
};

/* Fills `figure`; sample has room for SAMPLES of each. */
static int measure(struct rig *rig, const struct bench_options *o, double *sample, double *figure,
		   struct bench_why *why)
{
	const uint64_t end = bench_round_end(o->rounds * o->round_seconds * FIGURES);
	unsigned n = 0;
	int r;

	r = once(rig, figure, why); /* not counted */
	do {
		if (!r)
			r = once(rig, figure, why);
		for (unsigned k = 0; k < FIGURES && !r; k++)
			sample[k * SAMPLES + n] = figure[k];
	} while (!r && ++n < SAMPLES && (rte_rdtsc() < end || n < 3));
	for (unsigned k = 0; k < FIGURES && !r; k++) {
		qsort(sample + k * SAMPLES, n, sizeof(double), by_value);
		figure[k] = sample[k * SAMPLES + n / 4];
	}
	return r;
}

int bench_parts_run(const struct bench_options *options, struct bench_parts *parts, struct bench_why *why)
{
	double *sample = malloc(FIGURES * SAMPLES * sizeof(*sample)), figure[FIGURES] = {0}, part[BENCH_PARTS];
	struct bench_options o = *options;
	struct rig rig = {.wrong = 0};
	int r = -ENOMEM;

	o.icrc = true;
	o.message_packets = o.chunk_packets = o.messages = 0;
	if (sample)
		r = open_rig(&rig, &o, why);
	if (!r)
		r = measure(&rig, &o, sample, figure, why);
	close_rig(&rig);
	free(sample);
	if (r)
		return r;
	take_apart(figure, part);
	parts->whole = figure[WHOLE];
	parts->sum = 0;
	for (unsigned k = 0; k < BENCH_PARTS; k++) {
		parts->part[k].name = words[k][0];
		parts->part[k].help = words[k][1];
		parts->part[k].cycles = part[k];
		parts->sum += part[k];
	}
	return 0;
}
