/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr send to a port that drops everything: with payload that the port reads from the application's memory, or copied
 * into the packet, beside testpmd's txonly and a bare loop that takes buffers, writes headers, and sends to the same
 * port. The NIC also writes an ICRC, for which it must read all of the payload, and the others do not. So there is also
 * a loop that only reads the payload.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "../../handlers/wire/sdr.h"
#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#include "frame.h"
#include "port.h"
#include "testpmd.h"
#include "wire.h"

#define SLOTS  64u
#define MEMORY (8u << 20) /* bytes that messages are sent from, in rotation */
#define QP     0x100u

struct shape {
	uint32_t mtu, packets; /* of a message */
};

/* A NIC and its application. */
struct sender {
	struct sp_port_ops ops;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint32_t context;
	const uint8_t *area;
	struct sp_sdr_layout layout;
	uint64_t next; /* number of the next message */
};

struct bench {
	struct shape shape;
	struct sender lends, copies;
	struct rte_mempool *pool; /* for the bare loop */
	uint8_t head[BENCH_EXT];
	struct bench_testpmd testpmd;
	double ps_per_cycle;
	uint64_t seen; /* sum over payloads, so that the compiler keeps the reads */
};

static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	(void)port;
	(void)queue;
	(void)packet;
	(void)max;
	(void)now;
	return 0;
}

/* As net_null does. */
static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	(void)port;
	(void)queue;
	(void)now;
	for (unsigned i = 0; i < count; i++)
		rte_pktmbuf_free(packet[i]);
	return count;
}

static sp_time next(void *port, uint16_t queue, bool blocked)
{
	(void)port;
	(void)queue;
	(void)blocked;
	return SP_NEVER;
}

/* ---- opening ---- */
static void close_sender(struct sender *s)
{
	if (s->dev) {
		sp_context_close(s->dev, s->context);
		if (s->mr)
			sp_mr_free(s->mr);
		sp_dev_close(s->dev);
	}
	sp_nic_destroy(s->nic);
}

static void close_bench(void *state)
{
	struct bench *b = state;

	close_sender(&b->lends);
	close_sender(&b->copies);
	rte_mempool_free(b->pool);
	bench_testpmd_close(&b->testpmd);
	free(b);
}

static int open_context(const struct bench *b, struct sender *s, struct sp_error *error)
{
	char mtu[16], bytes[24];
	const struct sp_setting setting[] = {{"qp", "256"},	     {"mtu", mtu},
					     {"chunk-bytes", mtu},   {"credit", "implicit"},
					     {"max-messages", "64"}, {"max-message-bytes", bytes},
					     {"queue", "64"},	     {"max-packet-life", "1ps"}};
	struct sp_command connect = {.op = SP_SDR_CMD_CONNECT, .arg = {0, 0, QP, 0, 0, 0}};
	uint8_t ip[16] = {[10] = 0xFF, [11] = 0xFF, [12] = 192, [14] = 2, [15] = 2};
	uint64_t len;
	void *area;
	int r;

	snprintf(mtu, sizeof(mtu), "%u", b->shape.mtu);
	snprintf(bytes, sizeof(bytes), "%u", b->shape.mtu * b->shape.packets);
	r = sp_context_open(s->dev, "bench", "sdr", setting, sizeof(setting) / sizeof(*setting), &s->context, error);
	if (r)
		return r;
	r = sp_context_area(s->dev, s->context, &area, &len);
	s->area = area;
	s->layout = sp_sdr_layout(SLOTS, b->shape.packets, 1, 1);
	if (!r)
		r = sp_mr_alloc(s->dev, MEMORY, &s->mr);
	connect.context = s->context;
	memcpy(connect.arg, ip, sizeof(ip));
	return r ? r : sp_command_call(s->dev, &connect, NULL);
}

static int open_sender(const struct bench *b, struct sender *s, bool external, struct bench_why *why)
{
	struct sp_nic_config config = bench_port_nic(&s->ops, NULL);
	struct sp_error error = {.text = "no connection"};
	int r;

	s->ops = (struct sp_port_ops){.receive = receive, .transmit = transmit, .next = next, .external = external};
	config.icrc_off = false;
	config.neighbours = 1;
	memcpy(config.neighbour[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\2", 16);
	memcpy(config.neighbour[0].mac, "\2\0\0\0\0\2", 6);
	r = sp_nic_create(&config, &error, &s->nic);
	if (!r)
		r = sp_nic_dev(s->nic, false, &s->dev);
	if (!r)
		r = open_context(b, s, &error);
	return r ? bench_fail(why, r, "%s", error.text) : 0;
}

static int open_bench(const struct shape *shape, const struct bench_options *o, void **state, struct bench_why *why)
{
	struct bench *b;
	int r;

	if (!o->icrc)
		return bench_fail(why, BENCH_SKIPPED, "packets that are sent always have an ICRC");
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->shape = *shape;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	b->pool = bench_port_pool("send", 8192);
	r = b->pool ? open_sender(b, &b->lends, true, why) : -ENOMEM;
	if (!r)
		r = open_sender(b, &b->copies, false, why);
	bench_frame(b->head, 0x2B, QP, 0);
	if (r)
		close_bench(b);
	else
		*state = b;
	return r;
}

/* ---- rounds ---- */
static int post(const struct bench *b, struct sender *s)
{
	const uint64_t bytes = (uint64_t)b->shape.mtu * b->shape.packets;
	const uint64_t *released =
		(const void *)(s->area + s->layout.send + s->next % SLOTS * sizeof(struct sp_sdr_send_status) +
			       offsetof(struct sp_sdr_send_status, released));
	const struct sp_command c = {.op = SP_SDR_CMD_SEND,
				     .context = s->context,
				     .cookie = s->next,
				     .arg = {s->mr->id, s->next % (MEMORY / bytes) * bytes, bytes, (uint32_t)s->next}};

	if (s->next >= SLOTS && __atomic_load_n(released, __ATOMIC_ACQUIRE) != s->next - SLOTS + 1)
		return -EAGAIN;
	return sp_command_post(s->dev, &c);
}

static int run_sender(struct bench *b, struct sender *s, double seconds, struct bench_round *round,
		      struct bench_why *why)
{
	struct sp_nic_totals before, after;
	struct bench_clock clock;
	uint64_t end;
	int r = 0;

	sp_nic_totals(s->nic, &before);
	clock = bench_clock_begin();
	end = bench_round_end(seconds);
	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS; i++) {
			while (!(r = post(b, s)))
				s->next++;
			sp_nic_poll(s->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
		}
	} while (r == -EAGAIN && rte_rdtsc() < end && !bench_stopped());
	round->cycles = bench_clock_end(&clock);
	sp_nic_totals(s->nic, &after);
	round->units = after.sent - before.sent;
	if (round->units && !sp_nic_context_counter(s->nic, s->context, "send_errors") &&
	    after.dropped == before.dropped)
		return 0;
	return bench_fail(why, -EPROTO, "%llu packets were sent, others failed: %s", (unsigned long long)round->units,
			  strerror(-r));
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;

	return run_sender(b, &b->lends, seconds, round, why);
}

static int run_copies(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;

	return run_sender(b, &b->copies, seconds, round, why);
}

/* Reads a whole payload. */
static uint64_t look_at(const uint8_t *bytes, uint32_t len)
{
	uint64_t sum = 0, word;

	for (uint32_t i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, bytes + i, 8);
		sum ^= word;
	}
	return sum;
}

/* reads: reads the payloads that the NIC would send. */
static int run_loop(struct bench *b, bool reads, double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	const uint16_t len = (uint16_t)(BENCH_EXT + SP_SDR_HEADER + b->shape.mtu + 4);
	const uint8_t *memory = b->lends.mr->addr;
	struct rte_mbuf *packet[SP_BURST];
	uint64_t units = 0, at = 0, seen = 0;

	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS; i++) {
			if (rte_pktmbuf_alloc_bulk(b->pool, packet, SP_BURST))
				return bench_fail(why, -ENOMEM, "no packet buffers");
			for (unsigned k = 0; k < SP_BURST; k++) {
				memcpy(rte_pktmbuf_mtod(packet[k], uint8_t *), b->head, sizeof(b->head));
				packet[k]->data_len = len;
				packet[k]->pkt_len = len;
				if (!reads)
					continue;
				seen ^= look_at(memory + at, b->shape.mtu);
				at = (at + b->shape.mtu) % MEMORY;
			}
			transmit(NULL, 0, packet, SP_BURST, 0);
		}
		units += BENCH_PORT_BURSTS * SP_BURST;
	} while (rte_rdtsc() < end && !bench_stopped());
	b->seen ^= seen;
	round->units = units;
	round->cycles = bench_clock_end(&clock);
	return 0;
}

static int run_bare(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_loop(state, false, seconds, round, why);
}

static int run_reading(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_loop(state, true, seconds, round, why);
}

static int run_txonly(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;

	/* Packets as long as ours, or as fits one buffer of testpmd. */
	return bench_testpmd_round(&b->testpmd, "txonly", "net_null0", b->shape.mtu + SP_SDR_HEADER + 12 + 4, seconds,
				   round, why);
}

#define CASE(size)                                                                                                     \
	{                                                                                                              \
		.name = "sdr-send-" #size,                                                                             \
		.help = #size "-byte packets to a port that throws them away, payload where the application has it",   \
		.threads = 1, .icrc = BENCH_CHECKED, .baseline = "dpdk-testpmd, txonly", .open = open_##size,          \
		.run = run, .run_baseline = run_txonly,                                                                \
		.other = {{"headers into buffers, send, on the same port", run_bare},                                  \
			  {"the same, and each payload read once", run_reading},                                       \
			  {"payload copied", run_copies}},                                                             \
		.close = close_bench                                                                                   \
	}
#define OPEN(size, count)                                                                                              \
	static int open_##size(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		return open_bench(&(const struct shape){.mtu = size, .packets = count}, o, state, why);                \
	}
OPEN(64, 32)
OPEN(4096, 16)

const struct bench_case bench_send[] = {CASE(64), CASE(4096), {.name = NULL}};
