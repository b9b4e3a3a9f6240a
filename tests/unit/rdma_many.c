/* SPDX-License-Identifier: BSD-3-Clause */
/* Many QPs: how much memory each takes, idle and in use, and that each is served. SPINDLE_LONG: 100,000 in two
 * contexts, and what it takes to make them. */
#include "../../handlers/wire/roce.h"
#include "../../host-api/rdma.h"
#include "../lib/dut.h"

#define CONTEXTS 2
#define MOST	 4096 /* bytes of a QP, with its queues of one entry */

static struct many {
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_rdma_mr *region;
	struct sp_rdma_pair **qp;
	char name[16];
} many[CONTEXTS];

static uint64_t resident(void)
{
	unsigned long pages = 0, all;
	FILE *f = fopen("/proc/self/statm", "r");

	CU_ASSERT_FATAL(f != NULL);
	CU_ASSERT_EQUAL(fscanf(f, "%lu %lu", &all, &pages), 2);
	fclose(f);
	return (uint64_t)pages * 4096;
}

static void open_many(struct many *m, uint32_t qps, struct sp_mr *memory)
{
	const struct sp_rdma_attr attr = {
		.qps = qps, .cqs = 1, .srqs = 1, .pds = 1, .mrs = 8, .ahs = 1, .name = m->name};
	struct sp_error error = {.text = ""};

	snprintf(m->name, sizeof(m->name), "many%u", (unsigned)(m - many));
	CU_ASSERT_EQUAL_FATAL(sp_rdma_open(dut.dev, &attr, &m->rdma, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_pd_alloc(m->rdma, &m->pd), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(m->rdma, 64, false, NULL, &m->cq), 0);
	CU_ASSERT_EQUAL_FATAL(
		sp_rdma_mr_reg(m->pd, memory, 0, memory->len, SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE, &m->region),
		0);
	m->qp = calloc(qps, sizeof(struct sp_rdma_pair *));
	CU_ASSERT_FATAL(m->qp != NULL);
}

static int make(struct many *m, struct sp_rdma_pair **qp)
{
	const struct sp_rdma_qp_init init = {
		.type = SP_RDMA_RC, .send_cq = m->cq, .recv_cq = m->cq, .send_wr = 1, .recv_wr = 1};
	struct sp_rdma_qp_attr a = {.dest_qp = 0x777, .path_mtu = 1024, .access = SP_RDMA_REMOTE_WRITE};
	int rc = sp_rdma_qp_create(m->pd, &init, qp);

	memcpy(a.ip, dut_peer4, sizeof(a.ip));
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	a.state = SP_RDMA_INIT;
	rc = rc ? rc : sp_rdma_qp_modify(*qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	return rc ? rc : sp_rdma_qp_modify(*qp, &a);
}

/* A WRITE of its number. */
static void write_to(const struct many *m, const struct sp_rdma_pair *qp, uint64_t number)
{
	uint8_t bytes[16 + 8];
	struct frame f;

	sp_store_be64(bytes, m->region->va + number * 8);
	sp_store_be32(bytes + 8, m->region->rkey);
	sp_store_be32(bytes + 12, 8);
	memcpy(bytes + 16, &number, 8);
	dut_roce(&f, FRAME_IP4, sp_rdma_qp_number(qp), 0, bytes, sizeof(bytes));
	f.bytes[f.l4 + 8] = SP_RC_WRITE_ONLY;
	dut_seal(&f);
	dut_feed(&dut, &f);
}

TEST(each_of_many_qps_is_served_and_takes_little_memory)
{
	const uint32_t qps = getenv("SPINDLE_LONG") ? 50000 : 1000;
	struct sp_mr *memory;
	uint64_t wrong = 0, messages = 0, before;
	sp_time now = SP_SEC, began;

	dut_start(&dut, 1);
	dut.port.forget = true;
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, (uint64_t)CONTEXTS * qps * 8, &memory), 0);
	before = resident();
	began = sp_clock();
	for (unsigned c = 0; c < CONTEXTS; c++) {
		open_many(&many[c], qps, memory);
		for (uint32_t i = 0; i < qps; i++)
			wrong += make(&many[c], &many[c].qp[i]) != 0;
	}
	CU_ASSERT_EQUAL_FATAL(wrong, 0);
	printf("# %u QPs: %.1f us to make each and take it to RTR, %.0f bytes each, NIC and application\n",
	       CONTEXTS * qps, (double)(sp_clock() - began) / SP_US / CONTEXTS / qps,
	       (double)(resident() - before) / CONTEXTS / qps);
	CU_ASSERT(suite_times(4) < 4 || resident() - before < (uint64_t)CONTEXTS * qps * MOST + (64u << 20));
	for (uint64_t k = 0; k < (uint64_t)CONTEXTS * qps; k++) {
		write_to(&many[k / qps], many[k / qps].qp[k % qps], k);
		if (k % 64 == 63)
			dut_settle(&dut, now += SP_US);
	}
	dut_settle(&dut, now += SP_US);
	for (uint64_t k = 0; k < (uint64_t)CONTEXTS * qps; k++)
		wrong += ((uint64_t *)memory->addr)[k] != k;
	CU_ASSERT_EQUAL(wrong, 0);
	for (unsigned c = 0; c < CONTEXTS; c++) {
		uint32_t id = 0;

		CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, many[c].name, &id), 0);
		messages += dut_counter(&dut, id, "messages");
		for (uint32_t i = 0; i < qps; i++)
			wrong += sp_rdma_qp_destroy(many[c].qp[i]) != 0;
		CU_ASSERT_EQUAL(sp_rdma_close(many[c].rdma), 0);
		free(many[c].qp);
	}
	CU_ASSERT_EQUAL(messages, (uint64_t)CONTEXTS * qps);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(sp_mr_free(memory), 0);
	dut_stop(&dut);
}
