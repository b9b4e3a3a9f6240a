/* SPDX-License-Identifier: BSD-3-Clause */
#include "coder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "../../handlers/wire/ec.h"
#include "../../handlers/wire/sdr.h"
#include "../../pipeline/plugin/handler.h"
#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "bench.h"
#include "frame.h"

#define MTU   ((uint32_t)BENCH_CODER_PAGE)
#define SLOTS 2u /* a pair of messages */
#define QP    0x100u
#define RKEY  0x1234u
static_assert(14 + 20 + 8 + 12 + SP_SDR_HEADER + MTU + 4 <= SP_PACKET_ROOM, "a packet holds one");
#define LONG (20 * SP_SEC) /* a message that takes longer has failed */

struct bench_coder {
	struct bench_coder_shape shape;
	const uint8_t *right, *memory;
	uint64_t data, parity; /* bytes of a message */
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint32_t context;
	const uint8_t *area;
	struct sp_sdr_layout layout;
	uint64_t message;	 /* number of the next data message */
	uint64_t feed, feed_end; /* packets of both messages, numbered as for next_packet() */
	struct bench_work work;
	unsigned part;	  /* slices of this message so far */
	uint64_t suspect; /* a slice of at least this many cycles may have been interrupted */
	long switches;
	uint32_t *taken; /* cycles of each slice; 0: it was interrupted */
};

/* ---- caches ---- */
bool bench_coder_cold(const struct bench_coder_shape *shape)
{
	return (uint64_t)shape->submessages * shape->k * shape->bytes >= SP_EC_LONG;
}

#ifdef __x86_64__
__attribute__((target("clflushopt"))) static void flush_lines(const uint8_t *from, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += 64)
		__builtin_ia32_clflushopt((void *)(uintptr_t)(from + i));
	__builtin_ia32_mfence();
}

void bench_coder_flush(const uint8_t *from, uint64_t bytes)
{
	unsigned a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_CLFLUSHOPT)
		flush_lines(from, bytes);
}
#else
void bench_coder_flush(const uint8_t *from, uint64_t bytes)
{
	(void)from;
	(void)bytes;
}
#endif

/* ---- the handler, with a watch ---- */
static struct sp_handler timed; /* the handler ec with another work() */
static const struct sp_handler *ec;
static struct bench_coder *watched;

/* Whether the kernel has given the processor to others since the last call. Asking costs more than many slices, and
 * slows down the next one, so only long slices ask. */
static bool switched(struct bench_coder *b)
{
	const long before = b->switches;
	struct rusage u = {0};

	getrusage(RUSAGE_THREAD, &u);
	b->switches = u.ru_nivcsw + u.ru_nvcsw;
	return b->switches != before;
}

static bool timed_work(struct sp_ctx *c, struct sp_work *w)
{
	struct bench_coder *b = watched;
	uint64_t took = rte_rdtsc();
	const bool more = ec->work(c, w);

	rte_rmb(); /* loads and stores in flight belong to it */
	took = rte_rdtsc() - took;
	b->work.slices++;
	if (took > b->suspect && switched(b)) {
		b->work.disturbed++;
		b->work.disturbed_cycles += took;
		took = 0;
	}
	b->work.cycles += took;
	if (b->part < BENCH_SLICES_MAX)
		b->taken[b->part++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
	return more;
}

static int timed_register(void)
{
	if (ec)
		return 0;
	ec = sp_handler_take("ec");
	if (!ec)
		return -ENOENT;
	timed = *ec;
	timed.name = "ec-timed";
	timed.work = timed_work;
	sp_handler_register(&timed);
	return 0;
}

static void note_parts(struct bench_coder *b)
{
	struct bench_work *w = &b->work;

	/* The first message has page faults and more work: it counts only if the next has as many slices. */
	if (!w->messages || (w->messages == 1 && b->part != w->parts)) {
		memset(w->least, 0, w->parts * sizeof(*w->least));
		w->parts = b->part;
		w->messages = 0;
	}
	if (b->part != w->parts)
		return;
	for (unsigned i = 0; i < b->part; i++)
		if (b->taken[i] && (!w->least[i] || b->taken[i] < w->least[i]))
			w->least[i] = b->taken[i];
	w->messages++;
}

/* ---- the port ---- */
/* Packet `index` of a message of the pair; `last` is its last. */
static void make_packet(const struct bench_coder *b, uint64_t message, uint32_t index, bool last, uint32_t immediate,
			const uint8_t *bytes, struct rte_mbuf *packet)
{
	const struct sp_sdr_split split = {10, 18, 4};
	const uint32_t slot = sp_sdr_slot(message, SLOTS);
	const uint64_t room = b->data > b->parity ? b->data : b->parity;
	uint8_t *f = rte_pktmbuf_mtod(packet, uint8_t *), *reth = f + BENCH_EXT;

	packet->data_len = (uint16_t)bench_frame(f, SP_UC_WRITE_ONLY_IMM, QP + sp_sdr_generation(message, SLOTS, 2),
						 SP_SDR_HEADER + MTU + 4);
	packet->pkt_len = packet->data_len;
	f[BENCH_BTH + 1] = last ? SP_BTH_SE : 0;
	sp_store_be64(reth, slot * room + (uint64_t)index * MTU);
	sp_store_be32(reth + 8, RKEY);
	sp_store_be32(reth + 12, MTU);
	sp_store_be32(reth + 16, sp_sdr_imm(split, slot, index, immediate));
	memcpy(reth + SP_SDR_HEADER, bytes, MTU); /* the ICRC is not checked */
}

/* All packets of the data but those of the first m chunks of each submessage, then those of the parity. */
static bool next_packet(struct bench_coder *b, struct rte_mbuf *packet)
{
	const struct bench_coder_shape *s = &b->shape;
	const uint64_t data = b->data / MTU, per_chunk = s->bytes / MTU;

	while (b->feed < b->feed_end) {
		const uint64_t i = b->feed++;
		const bool parity = i >= data;
		const uint64_t index = parity ? i - data : i, chunk = index / per_chunk;
		const unsigned j = (unsigned)(chunk % (parity ? s->m : s->k));

		if (!parity && j < s->m)
			continue;
		make_packet(b, b->message + parity, (uint32_t)index,
			    (index + 1) * MTU == (parity ? b->parity : b->data),
			    parity ? sp_ec_immediate((enum sp_ec_code_kind)s->kind, s->k, s->m, b->data) : 0,
			    b->right + (size_t)(j + (parity ? s->k : 0)) * MTU, packet);
		return true;
	}
	return false;
}

static unsigned receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct bench_coder *b = arg;
	unsigned n = 0;

	(void)queue;
	(void)now;
	while (n < max && b->feed < b->feed_end && (packet[n] = sp_packet_alloc())) {
		if (!next_packet(b, packet[n])) {
			rte_pktmbuf_free(packet[n]);
			break;
		}
		n++;
	}
	return n;
}

static unsigned transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	(void)arg;
	(void)queue;
	(void)now;
	for (unsigned i = 0; i < count; i++)
		rte_pktmbuf_free(packet[i]);
	return count;
}

static sp_time next(void *arg, uint16_t queue, bool blocked)
{
	const struct bench_coder *b = arg;

	(void)queue;
	(void)blocked;
	return b->feed < b->feed_end ? 0 : SP_NEVER;
}

static const struct sp_port_ops port = {.receive = receive, .transmit = transmit, .next = next, .external = true};

/* ---- the NIC ---- */
static const uint8_t own[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 1}, peer[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 2};

static int call(struct bench_coder *b, uint16_t op, uint64_t cookie, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3,
		uint64_t a4)
{
	const struct sp_command c = {.op = op, .context = b->context, .cookie = cookie, .arg = {a0, a1, a2, a3, a4}};

	return sp_command_call(b->dev, &c, NULL);
}

static int open_nic(struct bench_coder *b, struct sp_error *error)
{
	struct sp_nic_config c = {.mtu = 9000, .icrc_off = true, .addresses = 1, .ports = 1, .neighbours = 1};
	int r = timed_register();

	memcpy(c.mac, (const uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
	memcpy(c.address[0].ip, own, 16);
	c.address[0].prefix = 24;
	memcpy(c.neighbour[0].ip, peer, 16);
	memcpy(c.neighbour[0].mac, (const uint8_t[]){2, 0, 0, 0, 0, 2}, 6);
	c.port[0].ops = &port;
	c.port[0].ops_arg = b;
	r = r ? r : sp_eal_init(0, NULL, error);
	r = r ? r : sp_nic_create(&c, error, &b->nic);
	return r ? r : sp_nic_dev(b->nic, true, &b->dev);
}

static int open_context(struct bench_coder *b, struct sp_error *error)
{
	char chunk[16], bytes[24], k[8], m[8];
	const struct sp_setting setting[] = {{"qp", "256"},
					     {"rkey", "0x1234"},
					     {"mtu", "4096"},
					     {"max-messages", "2"},
					     {"generations", "2"},
					     {"max-packet-life", "0ps"},
					     {"chunk-bytes", chunk},
					     {"max-message-bytes", bytes},
					     {"companion", "ec-timed"},
					     {"code", b->shape.kind == SP_EC_XOR ? "xor" : "mds"},
					     {"k", k},
					     {"m", m},
					     {"replay", "yes"},
					     {"credit", b->shape.decode ? "control" : "implicit"}};
	struct sp_command connect = {.op = SP_SDR_CMD_CONNECT, .arg = {[2] = 0x200, 1, 2, RKEY}};
	uint64_t len;
	void *area;
	int r;

	snprintf(chunk, sizeof(chunk), "%u", b->shape.bytes);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)(b->data > b->parity ? b->data : b->parity));
	snprintf(k, sizeof(k), "%u", b->shape.k);
	snprintf(m, sizeof(m), "%u", b->shape.m);
	r = sp_context_open(b->dev, "bench", "sdr", setting, sizeof(setting) / sizeof(*setting), &b->context, error);
	r = r ? r : sp_context_area(b->dev, b->context, &area, &len);
	if (r)
		return r;
	b->area = area;
	b->layout = sp_sdr_layout(SLOTS, 0, 0, 1);
	memcpy(connect.arg, peer, 16);
	connect.context = b->context;
	return b->shape.decode ? 0 : sp_command_call(b->dev, &connect, NULL);
}

int bench_coder_open(const struct bench_coder_shape *shape, uint8_t *memory, const uint8_t *right,
		     struct bench_coder **coder, struct bench_why *why)
{
	struct bench_coder *b = calloc(1, sizeof(*b));
	struct sp_error error = {0};
	int r = -ENOMEM;

	if (!b)
		return r;
	b->shape = *shape;
	b->right = right;
	b->memory = memory;
	b->data = (uint64_t)shape->submessages * shape->k * shape->bytes;
	b->parity = (uint64_t)shape->submessages * shape->m * shape->bytes;
	b->work.least = calloc(BENCH_SLICES_MAX, sizeof(*b->work.least));
	b->taken = calloc(BENCH_SLICES_MAX, sizeof(*b->taken));
	if (!b->work.least || !b->taken)
		goto fail;
	r = open_nic(b, &error);
	r = r ? r : sp_mr_reg(b->dev, memory, b->data + b->parity, &b->mr);
	r = r ? r : open_context(b, &error);
	if (r)
		goto fail;
	*coder = b;
	return 0;
fail:
	snprintf(why->text, sizeof(why->text), "%s", *error.text ? error.text : strerror(-r));
	bench_coder_close(b);
	return r;
}

void bench_coder_close(struct bench_coder *b)
{
	if (!b)
		return;
	if (b->dev) {
		if (b->area)
			sp_context_close(b->dev, b->context);
		sp_mr_free(b->mr);
		sp_dev_close(b->dev);
	}
	sp_nic_destroy(b->nic);
	free(b->work.least);
	free(b->taken);
	free(b);
}

struct bench_work *bench_coder_work(struct bench_coder *b)
{
	return &b->work;
}

/* ---- a message ---- */
/* Polls until a word of the area is `value`, or has the bits `value`. */
static int until(struct bench_coder *b, uint64_t line, size_t field, uint64_t value, bool bits)
{
	const uint64_t *word = (const uint64_t *)(const void *)(b->area + line + field);
	const sp_time began = sp_clock();

	for (;;) {
		const uint64_t is = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		const sp_time now = sp_clock();

		if (bits ? (is & value) == value : is == value)
			return 0;
		if (bench_stopped())
			return -EINTR;
		if (now - began > LONG)
			return -ETIMEDOUT;
		sp_nic_poll(b->nic, 0, now);
	}
}

static int encode(struct bench_coder *b)
{
	const uint64_t k = b->message;
	int r = call(b, SP_SDR_CMD_SEND, k, b->mr->id, 0, 0, 0, 0); /* only parity is wanted */

	r = r ? r : call(b, SP_EC_CMD_PARITY, k + 1, b->mr->id, 0, b->data, b->mr->id, b->data);
	return r ? r : until(b, b->layout.send + 64, offsetof(struct sp_sdr_send_status, released), k + 2, false);
}

static int decode(struct bench_coder *b)
{
	const uint64_t k = b->message, line = b->layout.recv;
	int r = call(b, SP_CMD_POST, k, b->mr->id, 0, b->data, 0, 0);

	r = r ? r : call(b, SP_CMD_POST, k + 1, b->mr->id, b->data, b->parity, 0, 0);
	for (unsigned i = 0; i < 2 && !r; i++) /* before that they are not open */
		r = until(b, line + i * 64, offsetof(struct sp_sdr_recv_status, message), k + i + 1, false);
	if (r)
		return r;
	b->feed = 0;
	b->feed_end = (b->data + b->parity) / MTU;
	r = until(b, line, offsetof(struct sp_sdr_recv_status, state), SP_SDR_COMPLETE, true);
	b->feed = b->feed_end;
	r = r ? r : call(b, SP_CMD_COMPLETE, k, 0, 0, 0, 0, 0);
	r = r ? r : call(b, SP_CMD_COMPLETE, k + 1, 0, 0, 0, 0, 0);
	for (unsigned i = 0; i < 2 && !r; i++)
		r = until(b, line + i * 64, offsetof(struct sp_sdr_recv_status, released), k + i + 1, false);
	return r;
}

int bench_coder_message(struct bench_coder *b)
{
	int r;

	if (bench_coder_cold(&b->shape))
		bench_coder_flush(b->memory, b->data + b->parity);
	watched = b;
	b->part = 0;
	b->suspect = rte_get_tsc_hz() / 50000;
	switched(b);
	r = b->shape.decode ? decode(b) : encode(b);
	if (!r)
		note_parts(b);
	b->message += 2;
	return r;
}
