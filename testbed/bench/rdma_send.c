/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, the requester of RC: WRITEs of one size on one QP, to a port that throws packets away and acknowledges what
 * asks for it, beside testpmd's txonly and a bare loop that takes buffers, writes headers, and sends to the same port.
 * The application is on the same core: it takes completions and posts again.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "../../handlers/wire/roce.h"
#include "../../host-api/rdma.h"
#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"
#include "connect.h"
#include "frame.h"
#include "port.h"
#include "testpmd.h"

#define MTU    4096u
#define PEER   0x777u
#define QUEUE  256u	  /* work requests */
#define MEMORY (8u << 20) /* bytes that messages are sent from, in rotation */
#define ACK    (BENCH_EXT + 4 + 4)

struct bench {
	uint32_t size, packet; /* bytes of a message, and of a packet's payload at most */
	uint32_t every;	       /* so many messages ask for one completion */
	struct rte_mempool *pool;
	struct bench_testpmd testpmd;
	uint8_t ack[ACK], head[BENCH_EXT];
	uint32_t psn; /* to acknowledge, if `asked` */
	bool asked, failed;
	uint64_t passed; /* packets */

	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_rdma_mr *region;
	struct sp_rdma_pair *qp;
	uint64_t posted, done;
	double ps_per_cycle;
};

/* ---- the port ---- */
static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct bench *b = port;
	uint8_t *f;

	(void)queue;
	(void)now;
	if (!b->asked || !max)
		return 0;
	*packet = rte_pktmbuf_alloc(b->pool);
	if (!*packet)
		return 0;
	f = rte_pktmbuf_mtod(*packet, uint8_t *);
	memcpy(f, b->ack, ACK);
	sp_store_be32(f + BENCH_BTH + 8, b->psn);
	sp_store_le32(f + ACK - 4, sp_icrc(f + BENCH_IP, 20, ACK - BENCH_IP - 4));
	(*packet)->data_len = ACK;
	(*packet)->pkt_len = ACK;
	b->asked = false;
	return 1;
}

/* Headers are in the first segment. */
static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct bench *b = port;

	(void)queue;
	(void)now;
	for (unsigned i = 0; i < count; i++) {
		const uint8_t *bth = rte_pktmbuf_mtod(packet[i], const uint8_t *) + BENCH_BTH;

		if (bth[8] & SP_BTH_ACK_REQ) {
			b->psn = sp_load_be32(bth + 8) & SP_ROCE_PSN_MASK;
			b->asked = true;
		}
	}
	b->passed += count;
	rte_pktmbuf_free_bulk(packet, count);
	return count;
}

/* ---- the application ---- */
static int step(struct bench *b)
{
	struct sp_rdma_wc wc[SP_BURST];
	const int n = sp_rdma_poll_cq(b->cq, wc, SP_BURST);
	int r = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].status != SP_RDMA_OK)
			return -EIO;
		b->done += b->every;
	}
	while (!r && b->posted - b->done < QUEUE) {
		const struct sp_rdma_sge sge = {b->region->va + b->posted * b->size % MEMORY, b->size, b->region->lkey};
		const struct sp_rdma_send_wr wr = {.wr_id = b->posted,
						   .op = SP_RDMA_WR_WRITE,
						   .flags = (b->posted + 1) % b->every ? 0 : SP_RDMA_SIGNALED,
						   .sge = &sge,
						   .sges = 1,
						   .remote = 0x100000,
						   .rkey = 0x1234};

		r = sp_rdma_post_send(b->qp, &wr, NULL);
		b->posted += !r;
	}
	return r == -EAGAIN ? 0 : r;
}

/* ---- the case ---- */
static void close_bench(void *state)
{
	struct bench *b = state;

	if (b->dev) {
		sp_rdma_close(b->rdma);
		if (b->mr)
			sp_mr_free(b->mr);
		sp_dev_close(b->dev);
	}
	sp_nic_destroy(b->nic);
	rte_mempool_free(b->pool);
	bench_testpmd_close(&b->testpmd);
	free(b);
}

static int open_nic(struct bench *b, struct bench_why *why)
{
	static const uint8_t peer[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 2};
	static const struct sp_port_ops ops = {
		.receive = receive, .transmit = transmit, .next = bench_port_always, .external = true};
	const struct sp_rdma_attr attr = {.qps = 1, .cqs = 1, .srqs = 1, .pds = 1, .mrs = 8, .ahs = 1};
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_wr = QUEUE, .recv_wr = 1};
	struct sp_nic_config config = bench_port_nic(&ops, b);
	struct sp_error error = {.text = "no connection"};
	int r;

	memcpy(config.neighbour[0].ip, peer, 16);
	memcpy(config.neighbour[0].mac, "\2\0\0\0\0\2", 6);
	config.neighbours = 1;
	config.icrc_off = false;
	r = sp_nic_create(&config, &error, &b->nic);
	if (!r)
		r = sp_nic_dev(b->nic, true, &b->dev);
	if (!r)
		r = sp_rdma_open(b->dev, &attr, &b->rdma, &error);
	if (r)
		return bench_fail(why, r, "%s", error.text);
	r = sp_rdma_pd_alloc(b->rdma, &b->pd);
	if (!r)
		r = sp_rdma_cq_create(b->rdma, QUEUE, false, NULL, &b->cq);
	if (!r)
		r = sp_mr_alloc(b->dev, MEMORY, &b->mr);
	if (!r)
		r = sp_rdma_mr_reg(b->pd, b->mr, 0, MEMORY, SP_RDMA_LOCAL_WRITE, &b->region);
	init.send_cq = init.recv_cq = b->cq;
	if (!r)
		r = sp_rdma_qp_create(b->pd, &init, &b->qp);
	return r ? r : bench_connect(b->qp, peer, PEER, MTU);
}

static void make_ack(struct bench *b)
{
	const uint8_t aeth[4] = {31, 0, 0, 0}; /* ACK, without a limit of credits */

	bench_frame(b->ack, SP_RC_ACKNOWLEDGE, sp_rdma_qp_number(b->qp), 4 + 4);
	memcpy(b->ack + BENCH_EXT, aeth, sizeof(aeth));
	bench_frame(b->head, SP_RC_WRITE_ONLY, PEER, 0);
}

static int open_bench(uint32_t size, const struct bench_options *o, void **state, struct bench_why *why)
{
	struct bench *b;
	int r;

	if (!o->icrc)
		return bench_fail(why, BENCH_SKIPPED, "packets that are sent always have an ICRC");
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->size = size;
	b->packet = size < MTU ? size : MTU;
	b->every = size < MTU * SP_BURST ? SP_BURST : 1;
	b->ps_per_cycle = 1e12 / (double)rte_get_tsc_hz();
	b->pool = bench_port_pool("requester", BENCH_EXT + (unsigned)sizeof(struct sp_reth) + MTU + 4);
	r = b->pool ? open_nic(b, why) : -ENOMEM;
	if (r) {
		close_bench(b);
		return r;
	}
	make_ack(b);
	*state = b;
	return 0;
}

static int run(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	const uint64_t before = b->passed, done = b->done;
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	int r = 0;

	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS && !r; i++) {
			r = step(b);
			sp_nic_poll(b->nic, 0, (sp_time)((double)rte_rdtsc() * b->ps_per_cycle));
		}
	} while (!r && rte_rdtsc() < end && !bench_stopped());
	round->units = b->passed - before;
	round->cycles = bench_clock_end(&clock);
	if (!r && b->done > done)
		return 0;
	return bench_fail(why, -EPROTO, "%llu packets were sent, %llu messages have completed: %s",
			  (unsigned long long)round->units, (unsigned long long)(b->done - done), strerror(-r));
}

static int run_bare(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	const struct bench_clock clock = bench_clock_begin();
	const uint64_t end = bench_round_end(seconds);
	const uint16_t len = (uint16_t)(BENCH_EXT + sizeof(struct sp_reth) + b->packet + 4);
	struct rte_mbuf *packet[SP_BURST];
	uint64_t units = 0;

	do {
		for (unsigned i = 0; i < BENCH_PORT_BURSTS; i++) {
			if (rte_pktmbuf_alloc_bulk(b->pool, packet, SP_BURST))
				return bench_fail(why, -ENOMEM, "no packet buffers");
			for (unsigned k = 0; k < SP_BURST; k++) {
				memcpy(rte_pktmbuf_mtod(packet[k], uint8_t *), b->head, sizeof(b->head));
				packet[k]->data_len = len;
				packet[k]->pkt_len = len;
			}
			bench_port_discard(NULL, 0, packet, SP_BURST, 0);
		}
		units += BENCH_PORT_BURSTS * SP_BURST;
	} while (rte_rdtsc() < end && !bench_stopped());
	round->units = units;
	round->cycles = bench_clock_end(&clock);
	return 0;
}

static int run_txonly(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;

	/* Packets as long as ours, or as fits one buffer of testpmd. */
	return bench_testpmd_round(&b->testpmd, "txonly", "net_null0",
				   b->packet + (uint32_t)sizeof(struct sp_reth) + 12 + 4, seconds, round, why);
}

#define OPEN(name, bytes)                                                                                              \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		return open_bench(bytes, o, state, why);                                                               \
	}
OPEN(64, 64)
OPEN(4096, 4096)
OPEN(64K, 64 << 10)
OPEN(1M, 1 << 20)

#define CASE(size, about)                                                                                              \
	{                                                                                                              \
		.name = "rdma-requester-" #size,                                                                       \
		.help = "RC WRITEs of " about " to a port that throws them away and acknowledges", .threads = 1,       \
		.icrc = BENCH_CHECKED, .baseline = "dpdk-testpmd, txonly", .open = open_##size, .run = run,            \
		.run_baseline = run_txonly, .other = {{"headers into buffers, send, on the same port", run_bare}},     \
		.close = close_bench                                                                                   \
	}

const struct bench_case bench_rdma_send[] = {
	CASE(64, "64 bytes"), CASE(4096, "4 KiB"), CASE(64K, "64 KiB"), CASE(1M, "1 MiB"), {.name = NULL}};
