/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, the responder of RC: WRITEs or SENDs of one size on one QP, from a port that makes them, beside testpmd, beside
 * sdr with the same payload, and beside loops on the same port that receive, perhaps copy to the same places, and free.
 * The port copies a frame, as net_pcap with infinite_rx does, and then writes PSN and address into it; a capture would
 * be too small for all PSNs. The last packet of each burst and of each message asks for an ACK, which the port throws
 * away. SENDs go into receives that the application posts again, on the same core, as it takes their completions. A
 * packet without effect fails the case.
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
#include "../../handlers/wire/roce.h"
#include "../../host-api/rdma.h"
#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#include "connect.h"
#include "frame.h"
#include "port.h"
#include "sdr.h"

#define MTU	 4096u
#define PEER	 0x777u
#define RECEIVES 512u
#define GROUP	 50000u /* QPs of a context, at most */
#define GROUPS	 2
#define FRAME	 (BENCH_EXT + sizeof(struct sp_reth) + MTU + 4)

struct shape {
	bool send;
	uint32_t size, memory; /* bytes of a message; that messages are placed into, one after the other */
	uint32_t sdr;	       /* packets of the message of sdr beside it; 0: none */
	uint32_t qps;	       /* 0: one; more: messages of one packet, to any of them */
};

enum { ONLY, FIRST, MIDDLE, LAST, KINDS };

struct bench {
	struct shape shape;
	struct rte_mempool *pool;
	struct {
		uint8_t bytes[FRAME];
		uint32_t len, head; /* head: where the payload begins */
	} frame[KINDS];
	uint32_t packets;	       /* of a message */
	uint32_t psn, index;	       /* of the next packet; its place in its message */
	uint64_t sent, place, bare_at; /* packets; bytes */
	unsigned burst;

	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	struct group {
		struct sp_rdma *rdma;
		struct sp_rdma_pd *pd;
		struct sp_rdma_cq *cq;
		struct sp_rdma_mr *region;
		uint32_t context;
	} group[GROUPS];
	unsigned groups;
	struct target {
		struct sp_rdma_pair *qp;
		uint32_t number, psn, rkey; /* psn: of the next packet */
	} * target;			    /* [qps] */
	uint32_t qps;
	uint64_t posted;
	bool beside;	   /* packets are not for the NIC */
	bool open, failed; /* open: the port is; control requests poll it before */
	double ps_per_cycle;
	struct bench_sdr *sdr;
};

/* ---- the port ---- */
static void make_frame(struct bench *b, unsigned kind, uint8_t opcode, bool reth, uint32_t len)
{
	const uint32_t ext = reth ? sizeof(struct sp_reth) : 0;
	uint8_t *f = b->frame[kind].bytes;

	b->frame[kind].head = BENCH_EXT + ext;
	b->frame[kind].len = bench_frame(f, opcode, b->target->number, ext + len + 4);
	if (reth) {
		struct sp_reth *r = (struct sp_reth *)(void *)(f + BENCH_EXT);

		sp_store_be32(r->rkey, b->target->rkey);
		sp_store_be32(r->dma_len, b->shape.size);
	}
}

static void make_frames(struct bench *b)
{
	const bool write = !b->shape.send;
	const uint32_t last = b->shape.size - (b->packets - 1) * MTU;

	make_frame(b, ONLY, write ? SP_RC_WRITE_ONLY : SP_RC_SEND_ONLY, write, last);
	make_frame(b, FIRST, write ? SP_RC_WRITE_FIRST : SP_RC_SEND_FIRST, write, MTU);
	make_frame(b, MIDDLE, write ? SP_RC_WRITE_MIDDLE : SP_RC_SEND_MIDDLE, false, MTU);
	make_frame(b, LAST, write ? SP_RC_WRITE_LAST : SP_RC_SEND_LAST, false, last);
}

static inline unsigned kind_of(const struct bench *b)
{
	if (b->packets == 1)
		return ONLY;
	return !b->index ? FIRST : b->index == b->packets - 1 ? LAST : MIDDLE;
}

/* In no order. */
static inline struct target *target_of(struct bench *b, uint64_t number)
{
	return &b->target[(uint64_t)((uint32_t)number * 0x9E3779B1u) * b->qps >> 32];
}

static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct bench *b = port;
	const unsigned n = max < SP_BURST ? max : SP_BURST;

	(void)queue;
	(void)now;
	if (!b->open || rte_pktmbuf_alloc_bulk(b->pool, packet, n))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		const unsigned kind = kind_of(b);
		struct target *t = b->qps == 1 ? b->target : target_of(b, b->sent + i);
		uint8_t *to = rte_pktmbuf_mtod(packet[i], uint8_t *);

		rte_memcpy(to, b->frame[kind].bytes, b->frame[kind].len);
		if (b->frame[kind].head > BENCH_EXT)
			sp_store_be64(to + BENCH_EXT, b->group->region->va + b->place);
		if (b->qps > 1) {
			sp_store_be32(to + BENCH_BTH + 4, t->number);
			sp_store_be32(to + BENCH_EXT + 8, t->rkey);
		}
		sp_store_be32(to + BENCH_BTH + 8, t->psn);
		if (i == n - 1 || kind == LAST)
			to[BENCH_BTH + 8] = SP_BTH_ACK_REQ;
		if (!b->beside || b->qps == 1)
			t->psn = (t->psn + 1) & SP_ROCE_PSN_MASK;
		if (++b->index == b->packets) {
			b->index = 0;
			b->place = (b->place + b->shape.size) % b->shape.memory;
		}
		packet[i]->data_len = (uint16_t)b->frame[kind].len;
		packet[i]->pkt_len = b->frame[kind].len;
	}
	b->burst = n;
	b->sent += n;
	return n;
}

static const struct sp_port_ops ops = {.receive = receive, .transmit = bench_port_discard, .next = bench_port_always};

/* ---- the application ---- */
static int post(struct bench *b)
{
	const struct sp_rdma_mr *m = b->group->region;
	const struct sp_rdma_sge sge = {m->va + b->posted * b->shape.size % b->shape.memory, b->shape.size, m->lkey};
	const struct sp_rdma_recv_wr wr = {.wr_id = b->posted++, .sge = &sge, .sges = 1};

	return sp_rdma_post_recv(b->target->qp, &wr, NULL);
}

static inline void step(struct bench *b)
{
	struct sp_rdma_wc wc[SP_BURST];
	const int n = b->shape.send ? sp_rdma_poll_cq(b->group->cq, wc, SP_BURST) : 0;

	for (int i = 0; i < n; i++)
		if (wc[i].status != SP_RDMA_OK || post(b))
			b->failed = true;
}

static int open_group(struct bench *b, unsigned index, struct bench_why *why)
{
	static const char *const name[GROUPS] = {"bench", "bench-more"};
	const struct sp_rdma_attr attr = {.qps = b->qps < GROUP ? b->qps : GROUP,
					  .cqs = 1,
					  .srqs = 1,
					  .pds = 1,
					  .mrs = 8,
					  .ahs = 1,
					  .name = name[index]};
	struct group *g = &b->group[index];
	struct sp_error error = {.text = "no memory"};
	int r = sp_rdma_open(b->dev, &attr, &g->rdma, &error);

	if (r)
		return bench_fail(why, r, "%s", error.text);
	r = sp_rdma_pd_alloc(g->rdma, &g->pd);
	if (!r)
		r = sp_rdma_mr_reg(g->pd, b->mr, 0, b->mr->len, SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE, &g->region);
	if (!r)
		r = sp_rdma_cq_create(g->rdma, 2 * RECEIVES, false, NULL, &g->cq);
	return r ? r : sp_nic_context_find(b->nic, name[index], &g->context);
}

static int open_target(struct bench *b, uint32_t index)
{
	static const uint8_t peer[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 2};
	const struct group *g = &b->group[index / GROUP];
	const uint32_t queue = b->qps == 1 ? RECEIVES : 1;
	const struct sp_rdma_qp_init init = {
		.type = SP_RDMA_RC, .send_cq = g->cq, .recv_cq = g->cq, .send_wr = 1, .recv_wr = queue};
	struct target *t = &b->target[index];
	const int r = sp_rdma_qp_create(g->pd, &init, &t->qp);

	if (r)
		return r;
	t->number = sp_rdma_qp_number(t->qp);
	t->rkey = g->region->rkey;
	return bench_connect(t->qp, peer, PEER, MTU);
}

static int open_contexts(struct bench *b, struct bench_why *why)
{
	int r = sp_mr_alloc(b->dev, b->shape.memory, &b->mr);

	b->groups = (b->qps + GROUP - 1) / GROUP;
	for (unsigned i = 0; i < b->groups && !r; i++)
		r = open_group(b, i, why);
	for (uint32_t i = 0; i < b->qps && !r; i++)
		r = bench_stopped() ? -EINTR : open_target(b, i);
	for (unsigned i = 0; i < RECEIVES && b->shape.send && !r; i++)
		r = post(b);
	return r;
}

/* ---- the case ---- */
static void close_rdma(void *state)
{
	struct bench *b = state;

	b->open = false;
	if (b->dev) {
		for (unsigned i = 0; i < GROUPS; i++)
			sp_rdma_close(b->group[i].rdma);
		if (b->mr)
			sp_mr_free(b->mr);
		sp_dev_close(b->dev);
	}
	sp_nic_destroy(b->nic);
	rte_mempool_free(b->pool);
	bench_sdr_close(b->sdr);
	free(b->target);
	free(b);
}

static int open_nic(struct bench *b, struct bench_why *why)
{
	struct sp_nic_config config = bench_port_nic(&ops, b);
	struct sp_error error = {.text = "no memory"};
	int r;

	memcpy(config.neighbour[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\2", 16);
	memcpy(config.neighbour[0].mac, "\2\0\0\0\0\2", 6);
	config.neighbours = 1;
	r = sp_nic_create(&config, &error, &b->nic);
	if (!r)
		r = sp_nic_dev(b->nic, true, &b->dev);
	return r ? bench_fail(why, r, "%s", error.text) : open_contexts(b, why);
}

static int open_rdma(const struct shape *shape, const struct bench_options *o, void **state, struct bench_why *why)
{
	const struct bench_sdr_shape sdr = {.mtu = shape->size, .packets = shape->sdr, .chunk = 1};
	struct bench *b;
	int r = -ENOMEM;

	if (o->icrc)
		return bench_fail(why, BENCH_SKIPPED, "the port changes each packet, but not its ICRC");
	b = calloc(1, sizeof(*b));
	if (!b)
		return r;
	b->shape = *shape;
	b->packets = (shape->size + MTU - 1) / MTU;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	b->qps = shape->qps ? shape->qps : 1;
	b->target = calloc(b->qps, sizeof(*b->target));
	b->pool = bench_port_pool("rdma", FRAME);
	if (b->pool && b->target)
		r = shape->sdr ? bench_sdr_open(&sdr, o, &b->sdr, why) : 0;
	if (!r)
		r = open_nic(b, why);
	if (r) {
		close_rdma(b);
		return r;
	}
	make_frames(b);
	b->open = true;
	*state = b;
	return 0;
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	uint64_t units = 0, messages = 0;

	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS; i++) {
			b->burst = 0;
			sp_nic_poll(b->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
			units += b->burst;
			step(b);
		}
	} while (rte_rdtsc() < end && !bench_stopped());
	round->units = units;
	round->cycles = bench_clock_end(&clock);
	for (unsigned i = 0; i < b->groups; i++)
		messages += sp_nic_context_counter(b->nic, b->group[i].context, "messages");
	if (!units || messages != b->sent / b->packets || b->failed)
		return bench_fail(why, -EPROTO, "%llu packets sent, %llu messages taken: the measurement is not valid",
				  (unsigned long long)b->sent, (unsigned long long)messages);
	return 0;
}

/* ---- the sides beside it ---- */
/* What these take from the port never reaches the NIC: where it goes on is as before. */
static int run_beside(struct bench *b, bench_port_each_t *each, double seconds, struct bench_round *round,
		      struct bench_why *why)
{
	const uint32_t psn = b->target->psn, index = b->index;
	const uint64_t sent = b->sent, place = b->place;
	int r;

	b->beside = true;
	r = each ? bench_port_bare(receive, each, b, seconds, round, why)
		 : bench_port_bare(receive, NULL, b, seconds, round, why);
	b->beside = false;
	b->target->psn = psn;
	b->index = index;
	b->sent = sent;
	b->place = place;
	return r;
}

static int run_bare(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_beside(state, NULL, seconds, round, why);
}

static inline const uint8_t *payload(struct rte_mbuf *m, uint32_t *len)
{
	const uint8_t *f = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint8_t opcode = f[BENCH_BTH];
	const uint32_t head = opcode == SP_RC_WRITE_ONLY || opcode == SP_RC_WRITE_FIRST
				      ? BENCH_EXT + (uint32_t)sizeof(struct sp_reth)
				      : BENCH_EXT;

	*len = m->data_len - head - 4;
	return f + head;
}

static inline uint8_t *next_place(struct bench *b, uint32_t len)
{
	uint8_t *at = (uint8_t *)b->mr->addr + b->bare_at;

	b->bare_at = (b->bare_at + len) % b->shape.memory;
	return at;
}

static void copy_burst(void *state, struct rte_mbuf **packet, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t len;
		const uint8_t *from = payload(packet[i], &len);

		rte_memcpy(next_place(state, len), from, len);
	}
}

static void stream_burst(void *state, struct rte_mbuf **packet, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t len;
		const uint8_t *from = payload(packet[i], &len);

		sp_stream_copy(next_place(state, len), from, len);
	}
	sp_stream_fence();
}

/* The better of the two, half a round each. */
static int run_copy(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench_round other = {0};
	int r = run_beside(state, copy_burst, seconds / 2, round, why);

	if (!r)
		r = run_beside(state, stream_burst, seconds / 2, &other, why);
	if (!r && other.cycles * round->units < round->cycles * other.units)
		*round = other;
	return r;
}

static int run_rxonly(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	char device[1300];

	snprintf(device, sizeof(device), "net_pcap0,%s", b->sdr->wire.source);
	return bench_testpmd_round(&b->sdr->testpmd, "rxonly", device, 0, seconds, round, why);
}

static int run_sdr(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;

	return bench_sdr_run(b->sdr, seconds, round, why);
}

/* ---- the cases ---- */
#define OPEN(name, ...)                                                                                                \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		return open_rdma(&(const struct shape){__VA_ARGS__}, o, state, why);                                   \
	}
OPEN(write_64, .size = 64, .memory = 256 << 10, .sdr = 32)
OPEN(send_64, .send = true, .size = 64, .memory = 256 << 10, .sdr = 32)
OPEN(write_4096, .size = 4096, .memory = 8 << 20, .sdr = 16)
OPEN(send_4096, .send = true, .size = 4096, .memory = 8 << 20, .sdr = 16)
OPEN(place_64M, .size = 4096, .memory = 64 << 20)
OPEN(write_64K, .size = 64 << 10, .memory = 8 << 20)
OPEN(send_64K, .send = true, .size = 64 << 10, .memory = 8 << 20)
OPEN(write_1M, .size = 1 << 20, .memory = 8 << 20)
OPEN(send_1M, .send = true, .size = 1 << 20, .memory = 8 << 20)

OPEN(qps_100, .size = 64, .memory = 256 << 10, .qps = 100)
OPEN(qps_10, .size = 64, .memory = 256 << 10, .qps = 10)
OPEN(qps_1000, .size = 64, .memory = 256 << 10, .qps = 1000)
OPEN(qps_10000, .size = 64, .memory = 256 << 10, .qps = 10000)
OPEN(qps_100000, .size = 64, .memory = 256 << 10, .qps = 100000)

#define BARE "receive and free on the same port"
#define COPY "receive, copy there (memcpy or streaming stores, the better), free"
#define CASE(text, about, open_case, base, base_run, ...)                                                              \
	{                                                                                                              \
		.name = "rdma-" text, .help = about, .icrc = BENCH_UNCHECKED, .baseline = base, .open = open_case,     \
		.run = run, .run_baseline = base_run, .close = close_rdma, __VA_ARGS__                                 \
	}
#define LARGE(size)                                                                                                    \
	CASE("write-" #size, "RC WRITEs of " #size "iB, 4 KiB a packet, one after the other into 8 MiB",               \
	     open_write_##size, COPY, run_copy, .other = {{BARE, run_bare}}),                                          \
		CASE("send-" #size, "RC SENDs of " #size "iB, 4 KiB a packet, into receives in 8 MiB",                 \
		     open_send_##size, COPY, run_copy, .other = {{BARE, run_bare}})

#define QPS(count)                                                                                                     \
	CASE("many-" #count, "as rdma-write-64, to " #count " QPs in no order", open_qps_##count, BARE, run_bare, )

const struct bench_case bench_rdma[] = {
	CASE("write-64", "RC WRITEs of 64 bytes into 256 KiB", open_write_64, "dpdk-testpmd, rxonly", run_rxonly,
	     .goal = 0.35, .other = {{BARE, run_bare}, {COPY, run_copy}, {"sdr, packets of 64 bytes", run_sdr}}),
	CASE("send-64", "RC SENDs of 64 bytes into receives in 256 KiB", open_send_64, "dpdk-testpmd, rxonly",
	     run_rxonly, .other = {{BARE, run_bare}, {COPY, run_copy}, {"sdr, packets of 64 bytes", run_sdr}}),
	CASE("write-4096", "RC WRITEs of 4 KiB, one after the other into 8 MiB", open_write_4096, COPY, run_copy,
	     .goal = 0.90, .other = {{BARE, run_bare}, {"sdr, packets of 4 KiB", run_sdr}}),
	CASE("send-4096", "RC SENDs of 4 KiB into receives in 8 MiB", open_send_4096, COPY, run_copy,
	     .other = {{BARE, run_bare}, {"sdr, packets of 4 KiB", run_sdr}}),
	CASE("write-4096-64M", "RC WRITEs of 4 KiB, one after the other into 64 MiB", open_place_64M, COPY, run_copy,
	     .goal = 0.90, .other = {{BARE, run_bare}}),
	LARGE(64K),
	LARGE(1M),
	QPS(10),
	QPS(100),
	QPS(1000),
	QPS(10000),
	QPS(100000),
	{.name = NULL},
};
