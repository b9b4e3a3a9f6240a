/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The capture contains slots x generations messages, so that when it repeats, its first message is the next one in
 * order. The application completes and re-posts every receive, on the same core. A round ends at the end of the
 * capture, for all sides, so the NIC finds the stream where it left it. A duplicate, late or dropped packet would mean
 * that something else was measured, so it fails the case.
 */
#include "sdr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/nic.h"
#include "frame.h"
#include "null.h"

#define SLOTS	     16	   /* messages posted, at least: more arrive while some are completed and posted */
#define AHEAD	     128   /* packets of these, at least */
#define GENERATIONS  4	   /* at most; fewer if messages are long: */
#define CAPTURE	     2048  /* packets, which the port keeps in buffers of the NIC, */
#define STORED	     32768 /* ... or in memory, at most; STORED_BYTES in all */
#define STORED_BYTES (16u << 20)
#define QP	     0x100
#define RKEY	     0x1234
#define HEAD	     (BENCH_EXT + SP_SDR_HEADER)

/* ---- the capture ---- */
/* Frame `at` of the capture arrives on queue `at` mod workers. Returns its number in the stream, when each worker gets
 * some packets in a row. */
static uint64_t dealt(const struct bench_sdr_shape *s, uint64_t at)
{
	const uint64_t workers = s->workers ? s->workers : 1, deal = s->deal ? s->deal : 1, nth = at / workers;

	return (nth / deal * workers + at % workers) * deal + nth % deal;
}

static uint32_t make_frame(void *arg, uint64_t at, uint8_t *f)
{
	const struct sp_sdr_split split = {10, 18, 4};
	const struct bench_sdr *b = arg;
	const struct bench_sdr_shape *s = &b->shape;
	const uint64_t number = dealt(s, at);
	const uint64_t message = number / s->packets;
	const uint32_t index = (uint32_t)(number % s->packets), slot = sp_sdr_slot(message, b->slots);
	const uint32_t qp = QP + sp_sdr_generation(message, b->slots, b->generations);
	uint32_t len;
	uint8_t *reth = f + BENCH_EXT;

	if (message >= (uint64_t)b->slots * b->generations)
		return 0;
	len = bench_frame(f, 0x2B, qp, SP_SDR_HEADER + s->mtu + 4);
	f[BENCH_BTH + 1] = index + 1 == s->packets ? 0x80 : 0;
	sp_store_be64(reth, (uint64_t)slot * s->mtu * s->packets + (uint64_t)index * s->mtu);
	sp_store_be32(reth + 8, RKEY);
	sp_store_be32(reth + 12, s->mtu);
	sp_store_be32(reth + 16, sp_sdr_imm(split, slot, index, (uint32_t)message));
	for (uint32_t i = 0; i < s->mtu; i++)
		reth[SP_SDR_HEADER + i] = (uint8_t)(message * 31 + index * 7 + i);
	sp_store_le32(f + len - 4, sp_icrc(f + BENCH_IP, 20, len - BENCH_IP - 4));
	return len;
}

/* ---- the application ---- */
static struct sp_command make_command(const struct bench_sdr *b, uint16_t op, uint64_t k)
{
	const uint64_t bytes = (uint64_t)b->shape.mtu * b->shape.packets;

	return (struct sp_command){
		.op = op, .context = b->context, .cookie = k, .arg = {b->mr->id, (k & (b->places - 1)) * bytes, bytes}};
}

static void command(struct bench_sdr *b, uint16_t op, uint64_t k)
{
	const struct sp_command c = make_command(b, op, k);

	while (sp_command_post(b->wire.dev, &c) == -EAGAIN)
		sp_nic_poll(b->wire.nic, 0, bench_wire_now(&b->wire));
}

/* Completes complete receives and posts released ones again. */
static inline void step(void *arg)
{
	struct bench_sdr *b = arg;

	if (b->shape.look && ++b->rounds & (b->shape.look - 1))
		return;
	while (b->completed < b->posted &&
	       bench_sdr_line(b, b->completed, offsetof(struct sp_sdr_recv_status, message)) == b->completed + 1 &&
	       bench_sdr_line(b, b->completed, offsetof(struct sp_sdr_recv_status, state)) & SP_SDR_COMPLETE)
		command(b, SP_CMD_COMPLETE, b->completed++);
	while (b->posted - b->slots < b->completed &&
	       bench_sdr_line(b, b->posted, offsetof(struct sp_sdr_recv_status, released)) == b->posted - b->slots + 1)
		command(b, SP_CMD_POST, b->posted++);
}

void bench_sdr_step(struct bench_sdr *b)
{
	step(b);
}

/* ---- opening ---- */
void bench_sdr_close(struct bench_sdr *b)
{
	if (!b)
		return;
	if (b->wire.dev) {
		sp_context_close(b->wire.dev, b->context);
		if (b->mr)
			sp_mr_free(b->mr);
	}
	bench_wire_close(&b->wire);
	bench_testpmd_close(&b->testpmd);
	free(b);
}

static int open_null(struct bench_sdr *b, const char *qps, struct sp_error *error)
{
	const struct sp_setting setting[] = {{"qp", "256"}, {"qps", qps}};

	bench_null_register();
	return sp_context_open(b->wire.dev, "bench", BENCH_NULL, setting, 2, &b->context, error);
}

static int open_context(struct bench_sdr *b, struct bench_why *why)
{
	char mtu[16], chunk[24], bytes[24], generations[16], slots[16];
	const struct sp_setting setting[] = {{"qp", "256"},
					     {"rkey", "0x1234"},
					     {"mtu", mtu},
					     {"chunk-bytes", chunk},
					     {"max-message-bytes", bytes},
					     {"max-messages", slots},
					     {"generations", generations},
					     {"replay", "yes"},
					     {"max-packet-life", "1ps"}};
	struct sp_error error = {0};
	uint64_t len;
	void *area;
	int r;

	snprintf(mtu, sizeof(mtu), "%u", b->shape.mtu);
	snprintf(slots, sizeof(slots), "%u", b->slots);
	snprintf(generations, sizeof(generations), "%u", b->generations);
	snprintf(chunk, sizeof(chunk), "%u", b->shape.mtu * b->shape.chunk);
	snprintf(bytes, sizeof(bytes), "%u", b->shape.mtu * b->shape.packets);
	if (b->shape.null)
		r = open_null(b, generations, &error);
	else
		r = sp_context_open(b->wire.dev, "bench", "sdr", setting, sizeof(setting) / sizeof(*setting),
				    &b->context, &error);
	if (r || b->shape.null)
		return bench_fail(why, r, "%s", r ? error.text : "");
	r = sp_context_area(b->wire.dev, b->context, &area, &len);
	b->area = area;
	b->layout = sp_sdr_layout(b->slots, sp_sdr_units(b->shape.packets, b->shape.chunk), b->shape.chunk,
				  (uint32_t)b->wire.config.queues);
	return r ? r : sp_mr_alloc(b->wire.dev, b->places * b->shape.mtu * b->shape.packets, &b->mr);
}

int bench_sdr_open(const struct bench_sdr_shape *shape, const struct bench_options *o, struct bench_sdr **bench,
		   struct bench_why *why)
{
	struct bench_wire_config config = {.queues = shape->workers, .icrc = o->icrc, .make = make_frame};
	struct bench_sdr *b = aligned_alloc(64, RTE_ALIGN(sizeof(*b), 64));
	uint32_t capture;
	int r;

	if (!b)
		return -ENOMEM;
	memset(b, 0, sizeof(*b));
	b->shape = *shape;
	b->shape.packets = o->message_packets ? o->message_packets : shape->packets;
	b->shape.chunk = o->chunk_packets ? o->chunk_packets : shape->chunk;
	b->slots = AHEAD / b->shape.packets > SLOTS ? AHEAD / b->shape.packets : SLOTS;
	if (shape->slots && !o->message_packets)
		b->slots = shape->slots;
	if (o->messages)
		b->slots = o->messages;
	capture = CAPTURE;
	for (uint32_t n = STORED; shape->stored && n > capture; n /= 2)
		if ((uint64_t)n * shape->mtu <= STORED_BYTES)
			capture = n;
	b->generations = capture / (b->slots * b->shape.packets);
	if (b->generations > GENERATIONS)
		b->generations = GENERATIONS;
	if (!b->generations || b->slots * b->shape.packets < AHEAD) {
		snprintf(why->text, sizeof(why->text), "%u messages of %u packets: all at once must have %u to %u",
			 b->slots, b->shape.packets, AHEAD, capture);
		free(b);
		return BENCH_SKIPPED;
	}
	b->places = shape->memory / ((uint64_t)b->shape.mtu * b->shape.packets);
	if (b->places < b->slots)
		b->places = b->slots;
	b->crew = shape->crew;
	config.arg = b;
	config.gate = shape->gate;
	config.stored = shape->stored;
	r = bench_wire_open(&b->wire, &config, why);
	if (!r)
		r = open_context(b, why);
	while (!r && !shape->null && b->posted < b->slots) { /* now: the port has packets at the first poll */
		const struct sp_command c = make_command(b, SP_CMD_POST, b->posted++);

		r = sp_command_call(b->wire.dev, &c, NULL);
	}
	if (r)
		bench_sdr_close(b);
	else
		*bench = b;
	return r;
}

/* ---- rounds ---- */
uint64_t bench_sdr_wasted(struct bench_sdr *b)
{
	return sp_nic_context_counter(b->wire.nic, b->context, "duplicates");
}

static int all_fresh(struct bench_sdr *b, struct bench_why *why)
{
	const uint64_t duplicates = bench_sdr_wasted(b);

	if (!duplicates)
		return 0;
	return bench_fail(why, -EPROTO, "%llu duplicates: the measurement is not valid",
			  (unsigned long long)duplicates);
}

int bench_sdr_run(struct bench_sdr *b, double seconds, struct bench_round *round, struct bench_why *why)
{
	const int r = bench_wire_round(&b->wire, step, b, seconds, round, why);

	return r ? r : all_fresh(b, why);
}

int bench_sdr_null(struct bench_sdr *b, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bench_wire_round(&b->wire, NULL, NULL, seconds, round, why);
}
