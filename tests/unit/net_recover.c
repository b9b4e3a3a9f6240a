/* SPDX-License-Identifier: BSD-3-Clause */
/* Real NICs at the hosts of a network of switches: RDMA writes over RC, and RVMA puts, each NIC to another. Switches
 * drop what does not fit, or spray packets over several ways; all memory must be as it was sent. SDR: net_nics.c. */
#include "../../host-api/rdma.h"
#include "../../host-api/rvma.h"
#include "../../testbed/bench/connect.h"
#include "../../testbed/net/nics.h"
#include "../../testbed/world.h"
#include "../lib/suite.h"

#define NICS	4u
#define MESSAGE 300000u
#define MTU	1024u
#define PACKETS ((MESSAGE + MTU - 1) / MTU)
#define TOLD	64u				  /* bytes of a completion, or a notification, */
#define TOLD_AT ((2ull * MESSAGE + 63) / 64 * 64) /* ... behind what is sent and received */

enum way { RC, RVMA };

struct member {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint8_t *bytes; /* sent, then received, then TOLD */
	/* RC */
	struct sp_rdma *rdma;
	struct sp_rdma_cq *cq;
	struct sp_rdma_mr *region;
	struct sp_rdma_pair *qp[2]; /* 0: to the next, 1: from the one before */
	/* RVMA */
	struct rvma *rvma;
	struct rvma_peer *peer;
	struct rvma_op *op;
	bool sent, received;
};

static struct net_topology *topology;
static struct net_nics *nics;
static struct sp_world *world;
static struct member member[NICS];
static struct net_counters count;
static uint64_t again; /* packets that were sent again, of all NICs */

static struct net_config plain(void)
{
	struct net_config c;

	net_defaults(&c);
	return c;
}

static void fill(uint32_t h)
{
	for (uint32_t i = 0; i < MESSAGE; i++)
		member[h].bytes[i] = (uint8_t)(i * 31 + h * 7 + i / 251 + 1);
}

static void make_nic(uint32_t h)
{
	struct member *m = &member[h];
	struct sp_nic_config c = {.addresses = 1,
				  .neighbours = NICS - 1,
				  .seed = h + 1,
				  .ports = 1,
				  .port = {{.ops = &net_nics_ops, .ops_arg = net_nics_port(nics, h)}}};
	struct sp_error error = {.text = ""};

	for (uint32_t i = 0, k = 0; i < NICS; i++) {
		const uint8_t ip[16] = {[10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(1 + i)},
			      mac[6] = {2, 0, 0, 0, 0, ip[15]};

		memcpy(i == h ? c.address[0].ip : c.neighbour[k].ip, ip, 16);
		memcpy(i == h ? c.mac : c.neighbour[k].mac, mac, 6);
		CU_ASSERT_EQUAL_FATAL(net_nics_mac(nics, i, mac), 0);
		k += i != h;
	}
	c.address[0].prefix = 24;
	snprintf(c.name, sizeof(c.name), "net%u", h);
	*m = (struct member){0};
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&c, &error, &m->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(m->nic, false, &m->dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(world, m->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(m->dev, TOLD_AT + TOLD, &m->mr), 0);
	m->bytes = m->mr->addr;
	fill(h);
}

/* ---- RC: a WRITE, then a SEND of one byte that tells of it ---- */
static void rc_open(struct member *m)
{
	const struct sp_rdma_attr attr = {
		.qps = 2, .cqs = 1, .srqs = 1, .pds = 1, .mrs = 8, .ahs = 1, .name = "messages"};
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_wr = 4, .recv_wr = 4};
	struct sp_rdma_pd *pd;

	CU_ASSERT_EQUAL_FATAL(sp_rdma_open(m->dev, &attr, &m->rdma, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_pd_alloc(m->rdma, &pd), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(m->rdma, 16, false, NULL, &m->cq), 0);
	CU_ASSERT_EQUAL_FATAL(
		sp_rdma_mr_reg(pd, m->mr, 0, m->mr->len, SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE, &m->region), 0);
	init.send_cq = init.recv_cq = m->cq;
	for (unsigned k = 0; k < 2; k++)
		CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(pd, &init, &m->qp[k]), 0);
}

static void rc_start(uint32_t from, uint32_t to)
{
	struct member *a = &member[from], *b = &member[to];
	const uint8_t ip[2][16] = {{[10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(1 + from)},
				   {[10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(1 + to)}};
	const struct sp_rdma_sge told = {b->region->va + TOLD_AT, 1, b->region->lkey},
				 bytes = {a->region->va, MESSAGE, a->region->lkey},
				 one = {a->region->va, 1, a->region->lkey};
	const struct sp_rdma_recv_wr recv = {.wr_id = 1, .sge = &told, .sges = 1};
	const struct sp_rdma_send_wr send = {.wr_id = 2,
					     .op = SP_RDMA_WR_SEND,
					     .flags = SP_RDMA_SIGNALED,
					     .sge = &one,
					     .sges = 1},
				     write = {.next = &send,
					      .op = SP_RDMA_WR_WRITE,
					      .sge = &bytes,
					      .sges = 1,
					      .remote = b->region->va + MESSAGE,
					      .rkey = b->region->rkey};

	CU_ASSERT_EQUAL_FATAL(bench_connect(a->qp[0], ip[1], sp_rdma_qp_number(b->qp[1]), MTU), 0);
	CU_ASSERT_EQUAL_FATAL(bench_connect(b->qp[1], ip[0], sp_rdma_qp_number(a->qp[0]), MTU), 0);
	CU_ASSERT_EQUAL(sp_rdma_post_recv(b->qp[1], &recv, NULL), 0);
	CU_ASSERT_EQUAL(sp_rdma_post_send(a->qp[0], &write, NULL), 0);
}

/* What was written is there as soon as the receiver is told. */
static void compare(uint32_t to)
{
	struct member *b = &member[to];

	for (uint32_t from = 0; from < NICS; from++)
		if (b->bytes[MESSAGE] == member[from].bytes[0])
			b->received = from != to && !memcmp(b->bytes + MESSAGE, member[from].bytes, MESSAGE);
}

static void rc_look(uint32_t h)
{
	struct sp_rdma_wc wc;

	while (sp_rdma_poll_cq(member[h].cq, &wc, 1)) {
		CU_ASSERT_EQUAL(wc.status, SP_RDMA_OK);
		if (wc.op == SP_RDMA_WC_RECV)
			compare(h);
		else
			member[h].sent = true;
	}
}

/* ---- RVMA ---- */
static void rvma_start(uint32_t from, uint32_t to)
{
	const struct rvma_window_attr attr = {.key = 5, .threshold = MESSAGE};
	struct member *a = &member[from], *b = &member[to];
	const struct rvma_buffer buffer = {
		.mr = b->mr, .offset = MESSAGE, .size = MESSAGE, .notify_mr = b->mr, .notify_offset = TOLD_AT};
	struct rvma_window *window;
	struct rvma_address address;

	CU_ASSERT_EQUAL_FATAL(rvma_init_window(b->rvma, 0x11FF0011, &attr, &window), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_post_buffer(window, &buffer), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_address_get(b->rvma, &address), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(a->rvma, &address, &a->peer), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_put(a->peer, 0x11FF0011, 5, a->mr, 0, MESSAGE, &a->op), 0);
}

static void rvma_look(uint32_t h)
{
	struct member *m = &member[h];
	const struct rvma_notification *note = (const void *)(m->bytes + TOLD_AT);

	if (!m->received && __atomic_load_n(&note->address, __ATOMIC_ACQUIRE)) {
		CU_ASSERT(note->address == m->bytes + MESSAGE && note->length == MESSAGE && !note->flags);
		compare(h);
	}
	if (!m->sent) {
		const int rc = rvma_op_test(m->op);

		CU_ASSERT(!rc || rc == -EAGAIN);
		m->sent = rc != -EAGAIN;
	}
}

/* ---- both ---- */
static bool all_done(void *arg)
{
	const enum way *way = arg;
	bool all = true;

	for (uint32_t h = 0; h < NICS; h++) {
		if (*way == RC)
			rc_look(h);
		else
			rvma_look(h);
		all &= member[h].sent && member[h].received;
	}
	return all;
}

/* Every NIC sends a message to the one `shift` further. */
static void round_of_messages(enum way way, const char *text, struct net_config net, uint32_t shift)
{
	char why[256] = "";

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(text, &topology, why, sizeof(why)), 0);
	net.topology = topology;
	CU_ASSERT_EQUAL_FATAL(net_nics_create(&(struct net_nics_config){.net = net}, &nics, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_create(&world), 0);
	for (uint32_t h = 0; h < NICS; h++)
		make_nic(h);
	for (uint32_t h = 0; h < NICS; h++) {
		const struct rvma_attr attr = {.mtu = MTU, .name = "messages"};

		if (way == RC)
			rc_open(&member[h]);
		else
			CU_ASSERT_EQUAL_FATAL(rvma_open(member[h].dev, &attr, &member[h].rvma, NULL), 0);
	}
	for (uint32_t h = 0; h < NICS; h++)
		(way == RC ? rc_start : rvma_start)(h, (h + shift) % NICS);
	CU_ASSERT_EQUAL(sp_world_run(world, 2 * SP_SEC, all_done, &way), 1);
	net_count(net_nics_net(nics), &count);
	again = 0;
	for (uint32_t h = 0; h < NICS; h++) {
		CU_ASSERT(member[h].sent && member[h].received);
		CU_ASSERT_EQUAL(memcmp(member[(h + shift) % NICS].bytes + MESSAGE, member[h].bytes, MESSAGE), 0);
	}
	for (uint32_t h = 0; h < NICS; h++) {
		struct member *m = &member[h];
		uint32_t id = 0;

		CU_ASSERT_EQUAL(sp_nic_context_find(m->nic, "messages", &id), 0);
		again += sp_nic_context_counter(m->nic, id, way == RC ? "packets_repeated" : "retransmits");
		CU_ASSERT_EQUAL(way == RC ? sp_rdma_close(m->rdma) : rvma_close(m->rvma), 0);
		sp_dev_close(m->dev);
		sp_nic_destroy(m->nic);
	}
	sp_world_destroy(world);
	net_nics_destroy(nics);
	net_topology_destroy(topology);
}

static void clean(enum way way)
{
	round_of_messages(way, "star:4", plain(), 1);
	CU_ASSERT_EQUAL(again, 0);
	CU_ASSERT(count.sent >= NICS * PACKETS);
	CU_ASSERT_EQUAL(count.delivered + count.in_flight, count.sent);
}

TEST_CALL(rc_sends_nothing_again_where_nothing_is_lost, clean(RC))
TEST_CALL(rvma_sends_nothing_again_where_nothing_is_lost, clean(RVMA))

/* Two switches with one link of four hosts' speed between them, whose queues drop. */
static void dropped(enum way way)
{
	struct net_config net = plain();
	uint64_t drops = 0;

	net.lossless = false;
	net.input_buffer = net.output_buffer = 8192;
	round_of_messages(way, "fattree:2,1:2", net, 2);
	for (unsigned i = 0; i < NET_DROPS; i++)
		drops += count.dropped[i];
	CU_ASSERT(count.dropped[NET_DROP_OUTPUT_FULL] > 0);
	CU_ASSERT_EQUAL(count.dropped[NET_DROP_MEMORY] + count.dropped[NET_DROP_OVERSIZED], 0);
	CU_ASSERT_EQUAL(count.sent, count.delivered + drops + count.in_flight);
	CU_ASSERT(again > 0);
}

TEST_CALL(rc_repairs_what_full_switches_drop, dropped(RC))
TEST_CALL(rvma_repairs_what_full_switches_drop, dropped(RVMA))

/* Packets overtake each other, and none is lost. */
static void sprayed(enum way way)
{
	struct net_config net = plain();

	net.routing = NET_SPRAY;
	net.order = true;
	round_of_messages(way, "fattree:2,4:2", net, 2);
	CU_ASSERT(count.reordered > 0);
	CU_ASSERT_EQUAL(count.delivered + count.in_flight, count.sent);
}

TEST(rvma_takes_packets_in_any_order_and_sends_none_again)
{
	sprayed(RVMA);
	CU_ASSERT_EQUAL(again, 0);
}

TEST(rc_takes_packets_in_order_and_asks_for_the_others_again)
{
	sprayed(RC);
	CU_ASSERT(again > 0);
}
