/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rvma receive: puts of one packet to one mailbox, or to many in rotation, from a port that makes them, beside loops on
 * the same port that receive, perhaps copy to the same buffers, and free. A capture would be too small: each packet is
 * a new put, to one of up to a million mailboxes. So the port copies a frame, as net_pcap with infinite_rx does, and
 * then writes number and mailbox into it. Buffers complete after PUTS puts; the case posts the next one long before, as
 * an application would, on the same core. A packet without effect means that something else was measured, and fails the
 * case.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "../../handlers/stream_copy.h"
#include "../../handlers/wire/rvma.h"
#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#include "frame.h"
#include "port.h"
#include "wire.h"

#define QP     0x100
#define KEY    0x5EC2E7
#define PUTS   64u  /* per buffer */
#define PLACES 256u /* places of buffers, which mailboxes share, by default */
#define HEAD   (BENCH_EXT + sizeof(struct sp_rvma_put))
#define FRAME  (BENCH_EXT + sizeof(struct sp_rvma_put) + SP_RVMA_MTU_MAX + 4)

struct shape {
	uint32_t size, mailboxes;
	uint64_t memory; /* bytes of buffers in rotation; 0: of PLACES */
};

struct bench {
	struct shape shape;
	struct rte_mempool *pool;
	uint8_t frame[FRAME];
	uint32_t len;
	uint64_t number; /* of the next put */
	/* mailboxes of the puts of the last burst */
	uint32_t to[SP_BURST];
	unsigned burst;

	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint32_t context;
	uint64_t *window; /* [mailboxes] ids */
	uint8_t *count;	  /* [mailboxes] puts, modulo PUTS */
	uint64_t place, places;
	uint64_t bare_at; /* next put that the bare loop copies */
	double ps_per_cycle;
};

/* ---- the port ---- */
static uint64_t mailbox_of(uint32_t index)
{
	return (index + 1) * 0x9E3779B97F4A7C15; /* an odd factor: all results differ */
}

static void make_frame(struct bench *b)
{
	struct sp_rvma_put *put = (struct sp_rvma_put *)(void *)(b->frame + BENCH_EXT);

	b->len = bench_frame(b->frame, SP_RVMA_PUT, QP, sizeof(*put) + b->shape.size + 4);
	put->head.version = SP_RVMA_VERSION;
	sp_store_be64(put->length, b->shape.size);
	sp_store_be64(put->key, KEY);
	sp_store_be64(put->offset, SP_RVMA_APPEND);
}

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
		struct sp_rvma_put *put = (struct sp_rvma_put *)(void *)(to + BENCH_EXT);

		b->to[i] = (uint32_t)((uint64_t)((uint32_t)b->number * 0x9E3779B1u) * b->shape.mailboxes >> 32);
		rte_memcpy(to, b->frame, b->len);
		sp_store_be64(put->head.transfer, b->number++);
		sp_store_be64(put->mailbox, mailbox_of(b->to[i]));
		packet[i]->data_len = (uint16_t)b->len;
		packet[i]->pkt_len = b->len;
	}
	b->burst = n;
	return n;
}

static const struct sp_port_ops ops = {.receive = receive, .transmit = bench_port_discard, .next = bench_port_always};

/* ---- the application ---- */
static struct sp_command make_post(struct bench *b, uint32_t index)
{
	const uint64_t bytes = (uint64_t)PUTS * b->shape.size, at = b->place++ % b->places * bytes;

	return (struct sp_command){.op = SP_CMD_POST,
				   .context = b->context,
				   .cookie = (uintptr_t)b->mr->addr + at,
				   .arg = {b->mr->id, at, bytes, 0, 0, b->window[index]}};
}

static sp_time now(const struct bench *b)
{
	return (sp_time)((double)rte_rdtsc() * b->ps_per_cycle);
}

static inline void step(struct bench *b)
{
	for (unsigned i = 0; i < b->burst; i++) {
		uint8_t *count = &b->count[b->to[i]];

		*count = (uint8_t)((*count + 1) % PUTS);
		if (*count == PUTS / 2) { /* half of the head buffer is used: post the next */
			const struct sp_command c = make_post(b, b->to[i]);

			/* There is always room: a poll takes more commands than a burst produces. */
			if (sp_command_post(b->dev, &c))
				b->place = UINT64_MAX;
		}
	}
}

static int make_windows(struct bench *b)
{
	int r = 0;

	for (uint32_t i = 0; i < b->shape.mailboxes && !r && !bench_stopped(); i++) {
		struct sp_command c = {
			.op = SP_RVMA_CMD_WINDOW,
			.context = b->context,
			.arg = {mailbox_of(i), KEY, (uint64_t)PUTS * b->shape.size, SP_RVMA_MANAGED | SP_RVMA_FORGET}};
		struct sp_event result;

		r = sp_command_call(b->dev, &c, &result);
		if (r)
			break;
		b->window[i] = result.arg[0];
		c = make_post(b, i);
		r = sp_command_call(b->dev, &c, NULL);
	}
	return bench_stopped() ? -EINTR : r;
}

static int open_context(struct bench *b, struct bench_why *why)
{
	char windows[16], buffers[16];
	const struct sp_setting setting[] = {{"qp", "256"},	   {"mtu", "4096"},	 {"session", "implicit"},
					     {"windows", windows}, {"buffers", buffers}, {"counters", windows}};
	struct sp_error error = {.text = "no memory"};
	int r;

	snprintf(windows, sizeof(windows), "%u", b->shape.mailboxes);
	snprintf(buffers, sizeof(buffers), "%u", 2 * b->shape.mailboxes);
	r = sp_context_open(b->dev, "bench", "rvma", setting, sizeof(setting) / sizeof(*setting), &b->context, &error);
	if (r)
		return bench_fail(why, r, "%s", error.text);
	r = sp_mr_alloc(b->dev, b->places * PUTS * b->shape.size, &b->mr);
	return r ? r : make_windows(b);
}

/* ---- the case ---- */
static void close_puts(void *state)
{
	struct bench *b = state;

	if (b->dev) {
		sp_context_close(b->dev, b->context);
		if (b->mr)
			sp_mr_free(b->mr);
		sp_dev_close(b->dev);
	}
	sp_nic_destroy(b->nic);
	rte_mempool_free(b->pool);
	free(b->window);
	free(b->count);
	free(b);
}

static int open_puts(const struct shape *shape, const struct bench_options *o, void **state, struct bench_why *why)
{
	struct sp_nic_config config;
	struct sp_error error = {.text = "no memory"};
	struct bench *b;
	int r = -ENOMEM;

	if (o->icrc)
		return bench_fail(why, BENCH_SKIPPED, "the port changes each packet, but not its ICRC");
	b = calloc(1, sizeof(*b));
	if (!b)
		return r;
	b->shape = *shape;
	b->places = shape->memory ? shape->memory / PUTS / shape->size : PLACES;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	b->window = calloc(shape->mailboxes, sizeof(*b->window));
	b->count = calloc(shape->mailboxes, sizeof(*b->count));
	b->pool = bench_port_pool("puts", FRAME);
	if (!b->window || !b->count || !b->pool)
		goto fail;
	make_frame(b);
	config = bench_port_nic(&ops, b);
	r = sp_nic_create(&config, &error, &b->nic);
	if (!r)
		r = sp_nic_dev(b->nic, false, &b->dev);
	snprintf(why->text, sizeof(why->text), "%s", error.text);
	if (!r)
		r = open_context(b, why);
	if (r)
		goto fail;
	*state = b;
	return 0;
fail:
	close_puts(b);
	return r;
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	const uint64_t before = sp_nic_context_counter(b->nic, b->context, "puts");
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	uint64_t units = 0, puts;

	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS; i++) {
			b->burst = 0;
			sp_nic_poll(b->nic, 0, now(b));
			units += b->burst;
			step(b);
		}
	} while (rte_rdtsc() < end && !bench_stopped());
	round->units = units;
	round->cycles = bench_clock_end(&clock);
	puts = sp_nic_context_counter(b->nic, b->context, "puts") - before;
	if (puts != units || b->place == UINT64_MAX)
		return bench_fail(why, -EPROTO, "%llu puts sent, %llu placed: the measurement is not valid",
				  (unsigned long long)units, (unsigned long long)puts);
	return 0;
}

static int run_bare(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return bench_port_bare(receive, NULL, state, seconds, round, why);
}

static uint8_t *next_place(struct bench *b)
{
	return (uint8_t *)b->mr->addr + b->bare_at++ % (b->places * PUTS) * b->shape.size;
}

static void copy_burst(void *state, struct rte_mbuf **packet, unsigned n)
{
	struct bench *b = state;

	for (unsigned i = 0; i < n; i++)
		rte_memcpy(next_place(b), rte_pktmbuf_mtod_offset(packet[i], uint8_t *, HEAD), b->shape.size);
}

static void stream_burst(void *state, struct rte_mbuf **packet, unsigned n)
{
	struct bench *b = state;

	for (unsigned i = 0; i < n; i++)
		sp_stream_copy(next_place(b), rte_pktmbuf_mtod_offset(packet[i], uint8_t *, HEAD), b->shape.size);
	sp_stream_fence();
}

/* The better of the two, half a round each. */
static int run_copy(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench_round other = {0};
	int r = bench_port_bare(receive, copy_burst, state, seconds / 2, round, why);

	if (!r)
		r = bench_port_bare(receive, stream_burst, state, seconds / 2, &other, why);
	if (!r && other.cycles * round->units < round->cycles * other.units)
		*round = other;
	return r;
}

#define SHAPES_64(_) _(64, 1) _(64, 10) _(64, 100) _(64, 1000) _(64, 10000) _(64, 100000) _(64, 1000000)
#define SHAPES(_)    SHAPES_64(_) _(4096, 1) _(4096, 1000) _(4096, 1000000)

#define OPEN(bytes, boxes)                                                                                             \
	static int open_##bytes##_##boxes(const struct bench_options *o, void **state, struct bench_why *why)          \
	{                                                                                                              \
		return open_puts(&(const struct shape){.size = bytes, .mailboxes = boxes}, o, state, why);             \
	}
SHAPES(OPEN)

#define OPEN_PLACE(bytes, where)                                                                                       \
	static int open_##where(const struct bench_options *o, void **state, struct bench_why *why)                    \
	{                                                                                                              \
		return open_puts(&(const struct shape){.size = bytes, .mailboxes = 1, .memory = MEMORY_##where}, o,    \
				 state, why);                                                                          \
	}
#define MEMORY_8M  (8u << 20)
#define MEMORY_64M (64u << 20)
OPEN_PLACE(4096, 8M)
OPEN_PLACE(4096, 64M)

#define BARE "receive and free on the same port"
#define CASE(bytes, boxes)                                                                                             \
	{.name = "rvma-receive-" #bytes "-" #boxes,                                                                    \
	 .help = "puts of " #bytes " bytes, a packet each, mailboxes: " #boxes,                                        \
	 .baseline = BARE,                                                                                             \
	 .icrc = BENCH_UNCHECKED,                                                                                      \
	 .open = open_##bytes##_##boxes,                                                                               \
	 .run = run,                                                                                                   \
	 .run_baseline = run_bare,                                                                                     \
	 .close = close_puts},

#define PLACE(bytes, where)                                                                                            \
	{.name = "rvma-place-" #bytes "-" #where,                                                                      \
	 .help = "puts of " #bytes " bytes, a packet each, one after the other into " #where "iB, one mailbox",        \
	 .baseline = "receive, copy there (memcpy or streaming stores, the better), free",                             \
	 .icrc = BENCH_UNCHECKED,                                                                                      \
	 .open = open_##where,                                                                                         \
	 .run = run,                                                                                                   \
	 .run_baseline = run_copy,                                                                                     \
	 .other = {{BARE, run_bare}},                                                                                  \
	 .close = close_puts},

/* clang-format off */
const struct bench_case bench_puts[] = {
	SHAPES(CASE)
	PLACE(4096, 8M)
	PLACE(4096, 64M)
	{.name = NULL},
};
/* clang-format on */
