/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of connections of verbs_calls.c, memory of theirs, and completions that must be right. */
#ifndef TESTS_E2E_VERBS_PAIR_H
#define TESTS_E2E_VERBS_PAIR_H

#include <infiniband/verbs.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);                   \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)
#define FAILS(what, why) CHECK(!(what) && errno == (why))
#define SIZE		 (1u << 20)
#define DEPTH		 16

/* Memory that stays the program's own; the NIC reaches it by copies. */
#define FIXED 8184
static uint8_t fixed[2][SIZE + 8192];

static struct ibv_device **list;
static struct ibv_context *context;
static struct ibv_pd *pd;

/* Two ends of a connection, and memory of each. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr[2];
	uint8_t *memory[2];
};

static void begin(void)
{
	int count;

	CHECK((list = ibv_get_device_list(&count)) && count == 1);
	CHECK((context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK((pd = ibv_alloc_pd(context)));
}

static struct ibv_qp_init_attr init_of(struct ibv_cq *cq, struct ibv_srq *srq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {DEPTH, DEPTH, 2, 2, 64}, .qp_type = IBV_QPT_RC};
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, const struct ibv_qp *peer, bool grh)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = grh, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}}};

	CHECK(!ibv_query_gid(context, 1, 1, &a.ah_attr.grh.dgid));
	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC);
}

static void connect_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		CHECK(!to_init(p->qp[i]));
	for (int i = 0; i < 2; i++)
		CHECK(!to_rtr(p->qp[i], p->qp[!i], true));
	for (int i = 0; i < 2; i++)
		CHECK(!to_rts(p->qp[i]));
}

/* skew: the memory begins so far behind a page. */
static void pair_memory(struct pair *p, unsigned skew)
{
	const int all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	for (int i = 0; i < 2; i++) {
		uint8_t *m = skew == FIXED ? fixed[i]
					   : mmap(NULL, SIZE + 8192, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(m != MAP_FAILED);
		p->memory[i] = m + skew;
		for (unsigned k = 0; k < SIZE; k++)
			p->memory[i][k] = (uint8_t)(k * 7 + k / 251 + (unsigned)i);
		CHECK((p->mr[i] = ibv_reg_mr(pd, p->memory[i], SIZE, all)));
	}
}

static void open_pair(struct pair *p, struct ibv_comp_channel *channel, struct ibv_srq *srq, unsigned skew)
{
	CHECK((p->cq = ibv_create_cq(context, 64, p, channel, 0)));
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = init_of(p->cq, i ? srq : NULL);

		CHECK((p->qp[i] = ibv_create_qp(pd, &a)));
		CHECK(a.cap.max_send_wr >= DEPTH && a.cap.max_send_sge >= 2 && a.cap.max_inline_data >= 64);
	}
	pair_memory(p, skew);
	connect_pair(p);
}

static void close_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_destroy_qp(p->qp[i]));
		CHECK(!ibv_dereg_mr(p->mr[i]));
	}
	CHECK(!ibv_destroy_cq(p->cq));
}

static struct ibv_sge sge_of(const struct pair *p, int i, unsigned at, unsigned len)
{
	return (struct ibv_sge){(uintptr_t)p->memory[i] + at, len, p->mr[i]->lkey};
}

static void recv_at(struct pair *p, int i, uint64_t id, unsigned at, unsigned len)
{
	struct ibv_sge sge = sge_of(p, i, at, len);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(p->qp[i], &wr, &bad));
}

static int send_to(struct pair *p, enum ibv_wr_opcode op, uint64_t id, unsigned at, unsigned len, unsigned remote,
		   uint32_t rkey, unsigned flags)
{
	struct ibv_sge sge = sge_of(p, 0, at, len);
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED | flags,
				 .imm_data = 0x11223344},
			   *bad = NULL;

	wr.wr.rdma.remote_addr = (uintptr_t)p->memory[1] + remote;
	wr.wr.rdma.rkey = rkey;
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)p->memory[1] + remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	}
	return ibv_post_send(p->qp[0], &wr, &bad);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct ibv_wc next(struct ibv_cq *cq)
{
	const double end = seconds() + 30;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		CHECK(seconds() < end);
	CHECK(n == 1);
	return wc;
}

static struct ibv_wc good(struct ibv_cq *cq, uint64_t id)
{
	const struct ibv_wc wc = next(cq);

	if (wc.status || wc.wr_id != id)
		fprintf(stderr, "%s, request %lu, not %lu\n", ibv_wc_status_str(wc.status), wc.wr_id, id);
	CHECK(!wc.status && wc.wr_id == id);
	return wc;
}

#endif
