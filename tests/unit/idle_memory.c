/* SPDX-License-Identifier: BSD-3-Clause */
/* What an idle QP takes, in bytes that the NIC charges: the same on every machine, unlike resident memory. */
#include "../../host-api/rdma.h"
#include "../lib/dut.h"

#define QPS	    2048u
#define RDMA_SLOT   3072u /* a QP of a context of rdma, whether it is made or not */
#define RDMA_QP	    4096u /* and with queues of one entry, connected. The path, one for each address, is not charged */
#define RDMA_LONE   (1200u << 10) /* a context of one QP; most is buffers for packets ahead of lost ones */
#define RDMA_QUEUES (64u << 10)	  /* of its QP and the completion queue: what the library takes at first */
#define RDMA_EACH   (44u << 10)	  /* a QP with the requests and the selective repeat that it may use at once */
#define SDR_QPS	    64u
#define SDR_QP	    (36u << 10) /* a context with one QP of sdr, up to 16 messages of 1 MiB at once */
#define SDR_FEW	    (24u << 10) /* up to 1 message */

static uint64_t charged(void)
{
	return atomic_load(&dut.nic->memory_used);
}

/* ---- rdma ---- */
static void open_rdma(const char *name, uint32_t qps, struct sp_rdma **rdma)
{
	const struct sp_rdma_attr attr = {.qps = qps, .cqs = 1, .srqs = 1, .pds = 1, .mrs = 8, .ahs = 1, .name = name};
	struct sp_error error = {.text = ""};

	CU_ASSERT_EQUAL_FATAL(sp_rdma_open(dut.dev, &attr, rdma, &error), 0);
}

static void connect_rdma(struct sp_rdma_pd *pd, struct sp_rdma_cq *cq, struct sp_rdma_pair **qp)
{
	const struct sp_rdma_qp_init init = {
		.type = SP_RDMA_RC, .send_cq = cq, .recv_cq = cq, .send_wr = 1, .recv_wr = 1};
	struct sp_rdma_qp_attr a = {.dest_qp = 0x777, .path_mtu = 1024};

	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(pd, &init, qp), 0);
	memcpy(a.ip, dut_peer4, sizeof(a.ip));
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	a.state = SP_RDMA_INIT;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(*qp, &a), 0);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(*qp, &a), 0);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY |
		 SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(*qp, &a), 0);
}

TEST(a_qp_of_rdma_takes_less_than_a_page_connected_and_idle)
{
	static struct sp_rdma_pair *qp[QPS];
	struct sp_rdma *few, *many;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	uint64_t began, at, one, two, slot;

	dut_start(&dut, 1);
	open_rdma("first", 1, &few); /* also opens the connection manager, which all share */
	CU_ASSERT_EQUAL_FATAL(sp_rdma_close(few), 0);
	began = at = charged();
	open_rdma("few", QPS, &few);
	one = charged() - at;
	open_rdma("many", 2 * QPS, &many);
	two = charged() - at - one;
	slot = (two - one) / QPS;
	at = charged();
	CU_ASSERT_EQUAL_FATAL(sp_rdma_pd_alloc(many, &pd), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(many, 64, false, NULL, &cq), 0);
	for (unsigned i = 0; i < QPS; i++)
		connect_rdma(pd, cq, &qp[i]);
	one = (charged() - at) / QPS;
	printf("# rdma: %u bytes in the context's tables, %u for queues of one entry\n", (unsigned)slot, (unsigned)one);
	CU_ASSERT(slot > 0 && slot <= RDMA_SLOT);
	CU_ASSERT(one > 0 && slot + one <= RDMA_QP);
	for (unsigned i = 0; i < QPS; i++)
		CU_ASSERT_EQUAL(sp_rdma_qp_destroy(qp[i]), 0);
	at = charged();
	connect_rdma(pd, cq, &qp[0]); /* what was given back is used again */
	CU_ASSERT_EQUAL(charged(), at);
	CU_ASSERT_EQUAL(sp_rdma_qp_destroy(qp[0]), 0);
	CU_ASSERT_EQUAL(sp_rdma_close(few), 0);
	CU_ASSERT_EQUAL(sp_rdma_close(many), 0);
	CU_ASSERT_EQUAL(charged(), began);
	dut_stop(&dut);
}

/* A program with one QP pays for one: not for the requests and the selective repeat of hundreds. */
TEST(a_context_of_rdma_takes_what_its_qps_can_use)
{
	struct sp_rdma *rdma;
	struct sp_rdma_pair *qp;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	uint64_t at, lone, few, queues;

	dut_start(&dut, 1);
	open_rdma("first", 1, &rdma);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_close(rdma), 0);
	at = charged();
	open_rdma("lone", 1, &rdma);
	lone = charged() - at;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_pd_alloc(rdma, &pd), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(rdma, 64, false, NULL, &cq), 0);
	connect_rdma(pd, cq, &qp);
	queues = charged() - at - lone;
	CU_ASSERT_EQUAL(sp_rdma_close(rdma), 0);
	open_rdma("few", 9, &rdma);
	few = charged() - at;
	CU_ASSERT_EQUAL(sp_rdma_close(rdma), 0);
	printf("# rdma: %u bytes for a context of one QP, %u for its queues, %u for each more of the first few\n",
	       (unsigned)lone, (unsigned)queues, (unsigned)((few - lone) / 8));
	CU_ASSERT(lone <= RDMA_LONE);
	CU_ASSERT(queues > 0 && queues <= RDMA_QUEUES);
	CU_ASSERT((few - lone) / 8 <= RDMA_EACH);
	CU_ASSERT_EQUAL(charged(), at);
	dut_stop(&dut);
}

/* ---- sdr ---- */
static uint64_t open_sdr(unsigned first, unsigned messages)
{
	const uint64_t at = charged();

	for (unsigned i = 0; i < SDR_QPS; i++) {
		char name[16], settings[160];

		snprintf(name, sizeof(name), "qp%u", first + i);
		snprintf(settings, sizeof(settings),
			 "qp=%u;mtu=4096;chunk-bytes=64K;max-message-bytes=1M;max-messages=%u;generations=1;"
			 "segments=64;control-slots=1",
			 0x100 + first + i, messages);
		dut_context(&dut, name, "sdr", settings);
	}
	return (charged() - at) / SDR_QPS;
}

TEST(a_qp_of_sdr_takes_what_its_messages_take_and_a_context)
{
	uint64_t few, many;

	dut_start(&dut, 1);
	few = open_sdr(0, 1);
	many = open_sdr(SDR_QPS, 16);
	printf("# sdr: %u bytes for a QP of 1 message, %u for one of 16\n", (unsigned)few, (unsigned)many);
	CU_ASSERT(few <= SDR_FEW);
	CU_ASSERT(many <= SDR_QP);
	dut_stop(&dut);
}
