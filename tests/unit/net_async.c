/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous training with real NICs over a switch: each worker WRITEs its gradients and adds its update to the
 * server's memory by FETCH_ADD, one for a parameter and one for a count of all updates, and goes on at once. The
 * server's host is not in this world. Switches drop what all send at once: RC sends it again, and every update is there
 * once.
 */
#include <rte_mempool.h>

#include "../../host-api/rdma.h"
#include "../../testbed/net/nics.h"
#include "../../testbed/world.h"
#include "../lib/suite.h"

#define WORKERS	   4u
#define SERVER	   WORKERS
#define NICS	   (WORKERS + 1)
#define UPDATES	   30u /* of each worker */
#define PARAMETERS 7u
#define GRADIENTS  16384u /* bytes */
#define MEMORY	   (64u << 10)
#define COUNT	   8192u /* offsets in the server's memory: of the count; of parameters; where gradients go */
#define PARAMETER  8256u
#define LANDING	   16384u

static struct end {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_rdma_mr *mr;
	struct sp_mr *memory;
	struct sp_rdma_pair *qp[WORKERS]; /* a worker's is the first */
} end[NICS];

static struct worker {
	uint32_t made;	     /* updates */
	bool waits;	     /* for the last one */
	sp_time at, ended;   /* when the next update is computed; when all were made */
	uint64_t before;     /* updates of all that its parameters contain */
	uint64_t stale, got; /* got: the latest count */
} worker[WORKERS];

static struct net_topology *topology;
static struct net_nics *nics;
static struct sp_world *world;
static bool seen[WORKERS * UPDATES];

static uint64_t update_of(uint32_t w, uint32_t u)
{
	return (uint64_t)(w + 1) * 1000003 * (u + 17) % 100000;
}

/* ---- ends ---- */
static void make_end(uint32_t h)
{
	struct sp_nic_config c = {.addresses = 1,
				  .neighbours = NICS - 1,
				  .seed = h + 1,
				  .ports = 1,
				  .port = {{.ops = &net_nics_ops, .ops_arg = net_nics_port(nics, h)}}};
	const struct sp_rdma_attr attr = {.qps = WORKERS};
	const unsigned access = SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_ATOMIC;
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_wr = 8, .recv_wr = 4};
	struct sp_error error = {.text = ""};
	struct end *e = &end[h];

	for (uint32_t i = 0, k = 0; i < NICS; i++) {
		const uint8_t ip[16] = {[10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(1 + i)};

		memcpy(i == h ? c.address[0].ip : c.neighbour[k].ip, ip, 16);
		memcpy(i == h ? c.mac : c.neighbour[k].mac, (uint8_t[]){2, 0, 0, 0, 0, ip[15]}, 6);
		k += i != h;
	}
	c.address[0].prefix = 24;
	snprintf(c.name, sizeof(c.name), "net%u", h);
	CU_ASSERT_EQUAL_FATAL(net_nics_mac(nics, h, c.mac), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&c, &error, &e->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(e->nic, false, &e->dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(world, e->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_open(e->dev, &attr, &e->rdma, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_pd_alloc(e->rdma, &e->pd), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(e->rdma, 64, false, NULL, &e->cq), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(e->dev, 2 * MEMORY, &e->memory), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_mr_reg(e->pd, e->memory, 0, 2 * MEMORY, access, &e->mr), 0);
	init.send_cq = init.recv_cq = e->cq;
	for (uint32_t i = 0; i < (h == SERVER ? WORKERS : 1); i++)
		CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(e->pd, &init, &e->qp[i]), 0);
}

/* From RESET to RTS. */
static void connect_qp(struct sp_rdma_pair *qp, uint32_t host, const struct sp_rdma_pair *peer)
{
	struct sp_rdma_qp_attr a = {.ip = {[10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(1 + host)},
				    .dest_qp = sp_rdma_qp_number(peer),
				    .path_mtu = 1024,
				    .access = SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_ATOMIC,
				    .max_rd_atomic = 4,
				    .max_dest_rd_atomic = 4,
				    .timeout = 6, /* a quarter of a ms */
				    .retry_cnt = 7,
				    .rnr_retry = 7};

	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	a.state = SP_RDMA_INIT;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(qp, &a), 0);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(qp, &a), 0);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT |
		 SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(qp, &a), 0);
}

/* ---- workers ---- */
/* Computing takes worker w (w + 1) * 20 us. */
static sp_time computing(uint32_t w)
{
	return (w + 1) * 20 * SP_US;
}

static void post_update(uint32_t w)
{
	const struct end *e = &end[w];
	const uintptr_t mine = (uintptr_t)e->memory->addr, there = (uintptr_t)end[SERVER].memory->addr;
	const struct sp_rdma_sge data = {mine + LANDING, GRADIENTS, e->mr->lkey},
				 old[] = {{mine, 8, e->mr->lkey}, {mine + 8, 8, e->mr->lkey}};
	const uint32_t u = worker[w].made, rkey = end[SERVER].mr->rkey;
	const struct sp_rdma_send_wr count = {.op = SP_RDMA_WR_FETCH_ADD,
					      .flags = SP_RDMA_SIGNALED,
					      .sge = &old[0],
					      .sges = 1,
					      .remote = there + COUNT,
					      .rkey = rkey,
					      .compare_add = 1};
	const struct sp_rdma_send_wr add = {.next = &count,
					    .op = SP_RDMA_WR_FETCH_ADD,
					    .sge = &old[1],
					    .sges = 1,
					    .remote = there + PARAMETER + 8 * (u % PARAMETERS),
					    .rkey = rkey,
					    .compare_add = update_of(w, u)};
	const struct sp_rdma_send_wr write = {.next = &add,
					      .op = SP_RDMA_WR_WRITE,
					      .sge = &data,
					      .sges = 1,
					      .remote = there + LANDING + w * GRADIENTS,
					      .rkey = rkey};

	memset((uint8_t *)e->memory->addr + LANDING, (int)(w * UPDATES + u + 1), GRADIENTS);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_post_send(e->qp[0], &write, NULL), 0);
	worker[w].waits = true;
}

/* How many updates others have made since the parameters that this one was computed from. */
static void take_count(uint32_t w, sp_time now)
{
	struct worker *k = &worker[w];
	struct sp_rdma_wc wc;

	if (!k->waits || sp_rdma_poll_cq(end[w].cq, &wc, 1) != 1)
		return;
	CU_ASSERT_EQUAL_FATAL(wc.status, SP_RDMA_OK);
	memcpy(&k->got, end[w].memory->addr, 8);
	CU_ASSERT_FATAL(k->got < WORKERS * UPDATES);
	CU_ASSERT(!seen[k->got]);
	seen[k->got] = true;
	k->stale += k->got - k->before;
	k->before = k->got + 1;
	k->waits = false;
	k->at = now + computing(w);
	if (++k->made == UPDATES)
		k->ended = now;
}

static void step(void *arg, sp_time now)
{
	for (uint32_t w = 0; w < WORKERS; w++) {
		take_count(w, now);
		if (!worker[w].waits && worker[w].made < UPDATES && worker[w].at <= now)
			post_update(w);
	}
}

static sp_time next(void *arg)
{
	sp_time first = SP_NEVER;

	for (uint32_t w = 0; w < WORKERS; w++)
		if (!worker[w].waits && worker[w].made < UPDATES && worker[w].at < first)
			first = worker[w].at;
	return first;
}

static bool all_made(void *arg)
{
	for (uint32_t w = 0; w < WORKERS; w++)
		if (worker[w].made < UPDATES)
			return false;
	return true;
}

/* Makes all updates. Returns how many packets were dropped. */
static uint64_t train(bool lossless)
{
	struct net_config net;
	struct net_counters c;
	char why[256] = "", star[16];

	memset(worker, 0, sizeof(worker));
	memset(seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, NULL), 0);
	snprintf(star, sizeof(star), "star:%u", NICS);
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(star, &topology, why, sizeof(why)), 0);
	net_defaults(&net);
	net.topology = topology;
	net.lossless = lossless;
	net.input_buffer = net.output_buffer = 8192;
	CU_ASSERT_EQUAL_FATAL(net_nics_create(&(struct net_nics_config){.net = net}, &nics, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_create(&world), 0);
	for (uint32_t h = 0; h < NICS; h++)
		make_end(h);
	for (uint32_t w = 0; w < WORKERS; w++) {
		connect_qp(end[w].qp[0], SERVER, end[SERVER].qp[w]);
		connect_qp(end[SERVER].qp[w], w, end[w].qp[0]);
	}
	CU_ASSERT_EQUAL(sp_world_add_host(world, &(struct sp_world_host){.step = step, .next = next}), 0);
	CU_ASSERT_EQUAL(sp_world_run(world, SP_SEC, all_made, NULL), 1);
	net_count(net_nics_net(nics), &c);
	return c.dropped[NET_DROP_INPUT_FULL] + c.dropped[NET_DROP_OUTPUT_FULL];
}

static void check_memory(void)
{
	const uint8_t *memory = end[SERVER].memory->addr;
	uint64_t sum[PARAMETERS] = {0}, count;
	unsigned wrong = 0;

	memcpy(&count, memory + COUNT, 8);
	CU_ASSERT_EQUAL(count, WORKERS * UPDATES);
	for (uint32_t w = 0; w < WORKERS; w++)
		for (uint32_t u = 0; u < UPDATES; u++)
			sum[u % PARAMETERS] += update_of(w, u);
	CU_ASSERT_EQUAL(memcmp(memory + PARAMETER, sum, sizeof(sum)), 0);
	for (uint32_t w = 0; w < WORKERS; w++)
		for (uint32_t i = 0; i < GRADIENTS; i++)
			wrong += memory[LANDING + w * GRADIENTS + i] != (uint8_t)((w + 1) * UPDATES);
	CU_ASSERT_EQUAL(wrong, 0);
	for (unsigned i = 0; i < WORKERS * UPDATES; i++)
		CU_ASSERT(seen[i]);
	/* A worker's staleness is all others' updates until its last one. */
	for (uint32_t w = 0; w < WORKERS; w++)
		CU_ASSERT_EQUAL(worker[w].stale, worker[w].got - (UPDATES - 1));
}

static void train_end(void)
{
	for (uint32_t h = 0; h < NICS; h++) {
		CU_ASSERT_EQUAL(sp_rdma_close(end[h].rdma), 0);
		CU_ASSERT_EQUAL(sp_mr_free(end[h].memory), 0);
		sp_dev_close(end[h].dev);
		sp_nic_destroy(end[h].nic);
	}
	sp_world_destroy(world);
	net_nics_destroy(nics);
	net_topology_destroy(topology);
}

TEST(no_worker_waits_for_a_slower_one_and_all_updates_are_in_the_servers_memory)
{
	CU_ASSERT_EQUAL(train(true), 0);
	check_memory();
	for (uint32_t w = 0; w < WORKERS; w++) {
		/* It has computed all but the first, and waited only for its own messages. */
		CU_ASSERT(worker[w].ended > (UPDATES - 1) * computing(w));
		CU_ASSERT(worker[w].ended < (UPDATES - 1) * computing(w) + UPDATES * 10 * SP_US);
	}
	/* The fastest has made its updates when the slowest has made a third; it misses fewer of others', and the
	 * slowest more than the fastest makes meanwhile. */
	CU_ASSERT(worker[0].ended < worker[WORKERS - 1].ended / 2);
	CU_ASSERT(worker[0].stale < worker[1].stale && worker[WORKERS - 1].stale == (WORKERS - 1) * UPDATES);
	train_end();
}

TEST(what_a_drop_tail_switch_drops_is_written_and_added_once)
{
	CU_ASSERT(train(false) > UPDATES);
	check_memory();
	train_end();
}
