/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of libibverbs, for verbs_tools.py: what the usual tools do not reach. Its argument names a check. Both ends
 * of its connections are on the NIC that it finds. */
#include <infiniband/verbs.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs_pair.h"

/* ---- what is refused, and how ---- */
static void refusals(void)
{
	struct ibv_srq_init_attr srq_init = {.attr = {DEPTH, 1, 0}};
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct ibv_port_attr port;
	struct ibv_srq_attr srq_attr = {.max_wr = 2 * DEPTH};
	struct ibv_device_attr d;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_srq *srq;
	struct pair p;
	union ibv_gid gid;
	__be16 pkey;
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	begin();
	CHECK(!ibv_query_device(context, &d) && d.max_qp > 0 && d.max_cqe >= 4096 && d.max_sge >= 4 &&
	      d.phys_port_cnt == 1);
	CHECK(!ibv_query_port(context, 1, &port) && port.state == IBV_PORT_ACTIVE &&
	      port.link_layer == IBV_LINK_LAYER_ETHERNET && port.active_mtu == IBV_MTU_1024);
	CHECK(ibv_query_port(context, 2, &port) == EINVAL);
	CHECK(ibv_query_gid(context, 1, 7, &gid) == -1 && errno == EINVAL);
	CHECK(!ibv_query_pkey(context, 1, 0, &pkey) && pkey == 0xFFFF);
	FAILS(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
	FAILS(ibv_create_cq(context, d.max_cqe + 1, NULL, NULL, 0), EINVAL);
	FAILS(ibv_create_cq(context, 1, NULL, NULL, 1), EINVAL);
	FAILS(ibv_reg_mr_iova2(pd, page, 4096, (uintptr_t)page, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
	FAILS(ibv_reg_mr(pd, page, 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	FAILS(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0), EOPNOTSUPP);
	FAILS(ibv_alloc_mw(pd, (enum ibv_mw_type)3), EINVAL);
	open_pair(&p, NULL, NULL, 0);
	ex.pd = pd;
	ex.send_cq = ex.recv_cq = p.cq;
	FAILS(ibv_create_qp_ex(context, &ex), EOPNOTSUPP);
	ex.qp_type = IBV_QPT_UC;
	ex.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	ex.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
	FAILS(ibv_create_qp_ex(context, &ex), EOPNOTSUPP);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_cq(p.cq) == EBUSY);
	CHECK(ibv_attach_mcast(p.qp[0], &gid, 0) == EOPNOTSUPP);
	CHECK(!ibv_resize_cq(p.cq, 8) && ibv_resize_cq(p.cq, 100000) == EOPNOTSUPP);
	CHECK((srq = ibv_create_srq(pd, &srq_init)));
	CHECK(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR) == EOPNOTSUPP);
	CHECK(!ibv_query_srq(srq, &srq_attr) && srq_attr.max_wr == DEPTH && srq_attr.max_sge == 1);
	CHECK(!ibv_destroy_srq(srq));
	CHECK(!ibv_query_qp(p.qp[0], &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS &&
	      attr.dest_qp_num == p.qp[1]->qp_num && attr.path_mtu == IBV_MTU_1024 && init.cap.max_send_wr == DEPTH &&
	      attr.ah_attr.grh.sgid_index == 1 && attr.timeout == 16);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
	CHECK(!ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE) && p.qp[0]->state == IBV_QPS_RESET);
	CHECK(send_to(&p, IBV_WR_SEND, 0, 0, 8, 0, 0, 0) == EINVAL);
	CHECK(!to_init(p.qp[0]) && to_rtr(p.qp[0], p.qp[1], false) == EINVAL);
	CHECK(!to_rtr(p.qp[0], p.qp[1], true));
	close_pair(&p);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* ---- queues: how much goes in, what comes out ---- */
static void queues(void)
{
	struct ibv_send_wr wr[DEPTH + 2], *bad = NULL;
	struct ibv_recv_wr recv[DEPTH + 1], *bad_recv = NULL;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_sge many[3] = {{0}};
	struct ibv_wc wc;
	struct pair p;

	begin();
	open_pair(&p, NULL, NULL, 0);
	memset(recv, 0, sizeof(recv));
	for (unsigned i = 0; i <= DEPTH; i++)
		recv[i] = (struct ibv_recv_wr){.wr_id = 100 + i, .next = i < DEPTH ? &recv[i + 1] : NULL};
	CHECK(ibv_post_recv(p.qp[1], recv, &bad_recv) == ENOMEM && bad_recv == &recv[DEPTH]);
	recv[0] = (struct ibv_recv_wr){.sg_list = many, .num_sge = 3};
	CHECK(ibv_post_recv(p.qp[0], recv, &bad_recv) == EINVAL && bad_recv == recv);
	memset(wr, 0, sizeof(wr));
	for (unsigned i = 0; i < DEPTH + 2; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = i,
					     .next = i < DEPTH + 1 ? &wr[i + 1] : NULL,
					     .opcode = IBV_WR_SEND,
					     .send_flags = i == DEPTH - 1 ? IBV_SEND_SIGNALED : 0};
	CHECK(ibv_post_send(p.qp[0], wr, &bad) == ENOMEM && bad == &wr[DEPTH]);
	for (unsigned sent = 0, got = 0; !sent || got < DEPTH;) {
		wc = next(p.cq);
		CHECK(!wc.status);
		if (wc.qp_num == p.qp[0]->qp_num) {
			CHECK(!sent++ && wc.wr_id == DEPTH - 1 && wc.opcode == IBV_WC_SEND);
		} else {
			CHECK(wc.wr_id == 100 + got++ && wc.opcode == IBV_WC_RECV);
		}
	}
	/* A completion of unsignaled ones has made room. What a reset leaves behind is not seen. */
	recv_at(&p, 1, 7, 0, 64);
	CHECK(!send_to(&p, IBV_WR_SEND_WITH_IMM, 8, 0, 64, 0, 0, IBV_SEND_INLINE));
	usleep(300000);
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_modify_qp(p.qp[i], &reset, IBV_QP_STATE));
	CHECK(!ibv_poll_cq(p.cq, 1, &wc));
	connect_pair(&p);
	recv_at(&p, 1, 9, 512, 64);
	CHECK(!send_to(&p, IBV_WR_SEND_WITH_IMM, 10, 0, 64, 0, 0, IBV_SEND_INLINE));
	for (int i = 0; i < 2; i++) {
		wc = next(p.cq);
		CHECK(!wc.status && wc.wr_id == (wc.qp_num == p.qp[0]->qp_num ? 10 : 9));
		CHECK(wc.wr_id == 10 ||
		      (wc.byte_len == 64 && wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == 0x11223344));
	}
	CHECK(!memcmp(p.memory[0], p.memory[1] + 512, 64));
	/* A wrong key, and what was posted behind it. */
	CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 11, 0, 64, 0, p.mr[1]->rkey ^ 0x5500, 0));
	CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 12, 0, 64, 0, p.mr[1]->rkey, 0));
	wc = next(p.cq);
	CHECK(wc.wr_id == 11 && wc.status == IBV_WC_REM_ACCESS_ERR && wc.qp_num == p.qp[0]->qp_num);
	wc = next(p.cq);
	CHECK(wc.wr_id == 12 && wc.status == IBV_WC_WR_FLUSH_ERR);
	close_pair(&p);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* ---- bytes, in memory that the NIC reaches, and not ---- */
static void bytes(void)
{
	static const unsigned skews[] = {0, 24, FIXED};

	begin();
	for (unsigned s = 0; s < 3; s++) {
		struct pair p;
		struct ibv_sge sge[2];
		struct ibv_send_wr wr = {.wr_id = 1,
					 .sg_list = sge,
					 .num_sge = 2,
					 .opcode = IBV_WR_SEND,
					 .send_flags = 2},
				   *bad;

		open_pair(&p, NULL, NULL, skews[s]);
		/* From two places into one, over all kinds of pages. */
		sge[0] = sge_of(&p, 0, 1, 5000);
		sge[1] = sge_of(&p, 0, SIZE - 9001, 9001);
		recv_at(&p, 1, 2, 3, 20000);
		CHECK(!ibv_post_send(p.qp[0], &wr, &bad));
		for (int i = 0; i < 2; i++) {
			const struct ibv_wc wc = next(p.cq);

			CHECK(!wc.status && (wc.wr_id == 1 || (wc.wr_id == 2 && wc.byte_len == 14001)));
		}
		CHECK(!memcmp(p.memory[1] + 3, p.memory[0] + 1, 5000));
		CHECK(!memcmp(p.memory[1] + 5003, p.memory[0] + SIZE - 9001, 9001));
		CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 3, 10, 300000, 20000, p.mr[1]->rkey, 0));
		good(p.cq, 3);
		CHECK(!memcmp(p.memory[1] + 20000, p.memory[0] + 10, 300000));
		p.memory[1][SIZE - 1] = 99;
		CHECK(!send_to(&p, IBV_WR_RDMA_READ, 4, 400000, 200000, SIZE - 200000, p.mr[1]->rkey, 0));
		good(p.cq, 4);
		CHECK(!memcmp(p.memory[0] + 400000, p.memory[1] + SIZE - 200000, 200000));
		memset(p.memory[1] + 64, 0, 8);
		p.memory[1][64] = 37;
		CHECK(!send_to(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 800, 8, 64, p.mr[1]->rkey, 0));
		CHECK(good(p.cq, 5).opcode == IBV_WC_FETCH_ADD);
		CHECK(p.memory[1][64] == 42 && p.memory[0][800] == 37);
		close_pair(&p);
	}
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* ---- events ---- */
static struct ibv_cq *late_cq;

static void *ack_late(void *arg)
{
	(void)arg;
	usleep(200000);
	ibv_ack_cq_events(late_cq, 1);
	return NULL;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

static void events(void)
{
	struct ibv_srq_init_attr init = {.attr = {DEPTH, 1, 0}};
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_comp_channel *channel;
	struct ibv_async_event event;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct pair p;
	pthread_t thread;
	double before;
	void *user;

	begin();
	CHECK((channel = ibv_create_comp_channel(context)));
	CHECK((srq = ibv_create_srq(pd, &init)));
	open_pair(&p, channel, srq, 0);
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	CHECK(!ibv_req_notify_cq(p.cq, 0) && !readable(channel->fd, 50) && !readable(context->async_fd, 0));
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_sge sge = sge_of(&p, 1, i * 64, 64);
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	}
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	for (unsigned i = 0; i < 2; i++)
		CHECK(!send_to(&p, IBV_WR_SEND, 50, 0, 8, 0, 0, 0));
	CHECK(!ibv_get_cq_event(channel, &cq, &user) && cq == p.cq && user == &p); /* sleeps */
	CHECK(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	CHECK(ibv_get_cq_event(channel, &cq, &user) == -1 && errno == EAGAIN);
	for (unsigned i = 0; i < 4; i++)
		CHECK(!next(p.cq).status);
	CHECK(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
	      event.element.srq == srq);
	ibv_ack_async_event(&event);
	CHECK(!ibv_query_srq(srq, &limit) && !limit.srq_limit);
	/* A peer that may not. */
	CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 51, 0, 8, 0, 12345, 0) && next(p.cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_get_async_event(context, &event) && event.element.qp == p.qp[1] &&
	      event.event_type == IBV_EVENT_QP_ACCESS_ERR);
	ibv_ack_async_event(&event);
	/* Destroying waits until all is acknowledged; what nobody has asked for goes with its object. */
	CHECK(!ibv_destroy_qp(p.qp[0]) && !ibv_destroy_qp(p.qp[1]));
	late_cq = p.cq;
	CHECK(!pthread_create(&thread, NULL, ack_late, NULL));
	before = seconds();
	CHECK(!ibv_destroy_cq(p.cq));
	CHECK(seconds() - before > 0.1);
	pthread_join(thread, NULL);
	CHECK(!readable(channel->fd, 0));
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_comp_channel(channel));
	CHECK(!ibv_close_device(context)); /* regions and the domain are left */
}

/* ---- extended posting and polling ---- */
static void extended(void)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64,
					      .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	struct pair p;
	char text[] = "in line";
	unsigned got = 0;

	begin();
	CHECK((cq = ibv_create_cq_ex(context, &cq_attr)));
	p.cq = ibv_cq_ex_to_cq(cq);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex a = {.send_cq = p.cq,
						.recv_cq = p.cq,
						.cap = {DEPTH, DEPTH, 2, 2, 64},
						.qp_type = IBV_QPT_RC,
						.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
						.pd = pd,
						.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM |
								  IBV_QP_EX_WITH_RDMA_WRITE |
								  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP};

		CHECK((p.qp[i] = ibv_create_qp_ex(context, &a)));
	}
	pair_memory(&p, 24);
	connect_pair(&p);
	CHECK((qp = ibv_qp_to_qp_ex(p.qp[0])));
	CHECK(ibv_start_poll(cq, &poll_attr) == ENOENT);
	recv_at(&p, 1, 9, 0, 64);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, p.mr[1]->rkey, (uintptr_t)p.memory[1] + 4096);
	ibv_wr_set_sge(qp, p.mr[0]->lkey, (uintptr_t)p.memory[0], 64);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	for (unsigned i = 0; i < DEPTH + 1; i++) {
		ibv_wr_rdma_write(qp, p.mr[1]->rkey, (uintptr_t)p.memory[1] + 4096);
		ibv_wr_set_sge(qp, p.mr[0]->lkey, (uintptr_t)p.memory[0], 64);
	}
	CHECK(ibv_wr_complete(qp) == ENOMEM); /* none of them */
	ibv_wr_start(qp);
	qp->wr_id = 2;
	ibv_wr_rdma_write(qp, p.mr[1]->rkey, (uintptr_t)p.memory[1] + 8192);
	ibv_wr_set_sge(qp, p.mr[0]->lkey, (uintptr_t)p.memory[0] + 100, 9000);
	qp->wr_id = 3;
	ibv_wr_atomic_cmp_swp(qp, p.mr[1]->rkey, (uintptr_t)p.memory[1] + 40960, 1, 2);
	ibv_wr_set_sge(qp, p.mr[0]->lkey, (uintptr_t)p.memory[0] + 50000, 8);
	qp->wr_id = 4;
	ibv_wr_send_imm(qp, 0xABCD);
	ibv_wr_set_inline_data(qp, text, sizeof(text));
	CHECK(!ibv_wr_complete(qp));
	memset(text, 'x', sizeof(text)); /* they have been copied */
	while (got < 4) {
		int rc;

		while ((rc = ibv_start_poll(cq, &poll_attr)) == ENOENT)
			;
		CHECK(!rc);
		do {
			CHECK(!cq->status);
			got++;
			CHECK(cq->wr_id != 3 || ibv_wc_read_opcode(cq) == IBV_WC_COMP_SWAP);
			CHECK(cq->wr_id != 9 ||
			      (ibv_wc_read_opcode(cq) == IBV_WC_RECV && ibv_wc_read_byte_len(cq) == 8 &&
			       ibv_wc_read_imm_data(cq) == 0xABCD && ibv_wc_read_completion_ts(cq)));
			CHECK((cq->wr_id >= 2 && cq->wr_id <= 4) || cq->wr_id == 9);
		} while (!(rc = ibv_next_poll(cq)));
		CHECK(rc == ENOENT);
		ibv_end_poll(cq);
	}
	CHECK(!memcmp(p.memory[1], "in line", 8) && !memcmp(p.memory[1] + 8192, p.memory[0] + 100, 9000));
	CHECK(p.memory[1][4096] != p.memory[0][0]);
	close_pair(&p);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* ---- threads ---- */
static void *traffic(void *arg)
{
	struct pair p;

	(void)arg;
	open_pair(&p, NULL, NULL, 24);
	for (unsigned i = 0; i < 200; i++) {
		p.memory[0][5] = (uint8_t)i;
		recv_at(&p, 1, 2, 4096, 100);
		CHECK(!send_to(&p, IBV_WR_SEND, 1, 0, 100, 0, 0, 0));
		for (int k = 0; k < 2; k++)
			CHECK(!next(p.cq).status);
		CHECK(p.memory[1][4101] == (uint8_t)i);
	}
	close_pair(&p);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];

	begin();
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, traffic, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* ---- memory windows ---- */
static void window_pair(struct pair *p, unsigned skew, struct ibv_mr **mr)
{
	open_pair(p, NULL, NULL, skew);
	CHECK((*mr = ibv_reg_mr(pd, p->memory[1], SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)));
}

/* Bound by `ibv_bind_mw` again and again, then to nothing. */
static void first_type(unsigned skew)
{
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw *mw;
	struct pair p;

	window_pair(&p, skew, &bind.bind_info.mr);
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)));
	for (unsigned i = 0; i < 3; i++) {
		const uint32_t before = mw->rkey;

		bind.bind_info.addr = (uintptr_t)p.memory[1] + i * 5000;
		bind.bind_info.length = 5000;
		bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
		CHECK(!ibv_bind_mw(p.qp[1], mw, &bind) && mw->rkey != before);
		CHECK(good(p.cq, 1).opcode == IBV_WC_BIND_MW);
		CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 2, 100, 5000, i * 5000, mw->rkey, 0));
		good(p.cq, 2);
		CHECK(!memcmp(p.memory[1] + i * 5000, p.memory[0] + 100, 5000));
	}
	CHECK(ibv_dereg_mr(bind.bind_info.mr) == EBUSY);
	bind.bind_info.length = 0;
	CHECK(!ibv_bind_mw(p.qp[1], mw, &bind));
	good(p.cq, 1);
	CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 3, 0, 8, 10000, mw->rkey, 0));
	CHECK(next(p.cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(bind.bind_info.mr) && !ibv_dealloc_mw(mw));
	close_pair(&p);
}

/* Bound by a request, ended by the peer. */
static void second_type(unsigned skew)
{
	struct ibv_send_wr *bad, wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr end = {.wr_id = 4, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw_bind_info *info = &wr.bind_mw.bind_info;
	struct ibv_mw *mw;
	struct pair p;
	bool told = false;

	window_pair(&p, skew, &info->mr);
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)));
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	info->addr = (uintptr_t)p.memory[1] + 64;
	info->length = 64;
	info->mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED;
	CHECK(ibv_post_send(p.qp[1], &wr, &bad) == EINVAL && bad == &wr);
	info->mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
	CHECK(!ibv_post_send(p.qp[1], &wr, &bad));
	CHECK(good(p.cq, 1).opcode == IBV_WC_BIND_MW);
	CHECK(!send_to(&p, IBV_WR_RDMA_READ, 2, 4096, 64, 64, wr.bind_mw.rkey, 0));
	good(p.cq, 2);
	CHECK(!memcmp(p.memory[0] + 4096, p.memory[1] + 64, 64));
	memset(p.memory[1] + 64, 0, 8);
	CHECK(!send_to(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 800, 8, 64, wr.bind_mw.rkey, 0));
	good(p.cq, 3);
	CHECK(p.memory[1][64] == 5);
	recv_at(&p, 1, 5, 0, 64);
	end.invalidate_rkey = wr.bind_mw.rkey;
	CHECK(!ibv_post_send(p.qp[0], &end, &bad));
	for (int i = 0; i < 2; i++) {
		const struct ibv_wc wc = next(p.cq);

		CHECK(!wc.status);
		told |= wc.wr_id == 5 && wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == end.invalidate_rkey;
	}
	CHECK(told);
	CHECK(!send_to(&p, IBV_WR_RDMA_READ, 6, 4096, 64, 64, wr.bind_mw.rkey, 0));
	CHECK(next(p.cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(info->mr) && !ibv_dealloc_mw(mw));
	close_pair(&p);
}

/* The handle stays, and the old keys open nothing. What cannot be leaves all as it was. */
static void anew(void)
{
	const int all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_pd *other;
	uint32_t key;
	struct pair p;

	begin();
	CHECK((other = ibv_alloc_pd(context)));
	open_pair(&p, NULL, NULL, 24);
	key = p.mr[1]->rkey;
	CHECK(ibv_rereg_mr(p.mr[1], 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	CHECK(ibv_rereg_mr(p.mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) &&
	      errno == EINVAL);
	CHECK(ibv_rereg_mr(p.mr[1], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 4096, 0) && errno == EFAULT);
	CHECK(p.mr[1]->rkey == key && !send_to(&p, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, key, 0));
	good(p.cq, 1);
	CHECK(!ibv_rereg_mr(p.mr[1], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.memory[1] + 4000, 9000, 0));
	CHECK(p.mr[1]->addr == p.memory[1] + 4000 && p.mr[1]->length == 9000 && p.mr[1]->rkey != key);
	CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 2, 100, 8000, 4500, p.mr[1]->rkey, 0));
	good(p.cq, 2);
	CHECK(!memcmp(p.memory[1] + 4500, p.memory[0] + 100, 8000));
	CHECK(!ibv_rereg_mr(p.mr[0], IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, other, NULL, 0, all));
	CHECK(p.mr[0]->pd == other && ibv_dealloc_pd(other) == EBUSY);
	CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 3, 0, 8, 4500, p.mr[1]->rkey, 0));
	CHECK(next(p.cq).status == IBV_WC_LOC_PROT_ERR);
	close_pair(&p);
	CHECK(!ibv_dealloc_pd(other));
	open_pair(&p, NULL, NULL, 24);
	key = p.mr[1]->rkey;
	CHECK(!ibv_rereg_mr(p.mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, all));
	CHECK(!send_to(&p, IBV_WR_RDMA_WRITE, 4, 0, 8, 4500, key, 0));
	CHECK(next(p.cq).status == IBV_WC_REM_ACCESS_ERR);
	close_pair(&p);
	open_pair(&p, NULL, NULL, FIXED);
	recv_at(&p, 1, 5, 0, 8); /* with the old key: what comes has no place */
	CHECK(!ibv_rereg_mr(p.mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, all));
	CHECK(!send_to(&p, IBV_WR_SEND, 4, 0, 8, 0, 0, 0));
	const struct ibv_wc first = next(p.cq);
	CHECK((first.wr_id == 5 ? first : next(p.cq)).status == IBV_WC_LOC_PROT_ERR);
	close_pair(&p);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

static void windows(void)
{
	struct ibv_device_attr d;
	struct ibv_mw_bind bind = {.bind_info = {.length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
	struct pair p;

	begin();
	CHECK(!ibv_query_device(context, &d) && d.max_mw > 0 && d.device_cap_flags & IBV_DEVICE_MEM_WINDOW &&
	      d.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	for (unsigned skew = 0; skew < 48; skew += 24) {
		first_type(skew);
		second_type(skew);
	}
	/* What is left bound goes with the context, and the memory is the program's own again. */
	window_pair(&p, 0, &bind.bind_info.mr);
	bind.bind_info.addr = (uintptr_t)p.memory[1];
	CHECK(!ibv_bind_mw(p.qp[1], ibv_alloc_mw(pd, IBV_MW_TYPE_1), &bind));
	CHECK(!ibv_close_device(context));
	CHECK(p.memory[1][77] == (uint8_t)(77 * 7 + 1));
}

/* ---- what is left behind, and children ---- */
static void leftovers(void)
{
	struct pair p[2];
	struct ibv_wc wc;
	pid_t child;
	int status;

	for (int round = 0; round < 3; round++) {
		begin();
		open_pair(&p[0], ibv_create_comp_channel(context), NULL, 24);
		recv_at(&p[0], 1, 1, 0, 100000);
		CHECK(!ibv_close_device(context));
		CHECK(p[0].memory[0][77] == (uint8_t)(77 * 7)); /* the program's own again */
	}
	begin();
	open_pair(&p[0], NULL, NULL, 24);
	CHECK((child = fork()) >= 0);
	if (!child) { /* its parent's objects are of no use to it, but it may have its own */
		CHECK(ibv_poll_cq(p[0].cq, 1, &wc) < 0);
		CHECK(send_to(&p[0], IBV_WR_SEND, 1, 0, 8, 0, 0, 0) == EIO);
		memset(p[0].memory[1], 1, SIZE);
		CHECK(!ibv_close_device(context));
		traffic((begin(), NULL));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(p[0].memory[1][77] == (uint8_t)(77 * 7 + 1));
	CHECK(!send_to(&p[0], IBV_WR_RDMA_WRITE, 3, 0, 8, 0, p[0].mr[1]->rkey, 0));
	good(p[0].cq, 3);
	CHECK(!ibv_close_device(context));
}

/* ---- the NIC ends ---- */
static void gone(void)
{
	struct ibv_async_event event;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct pair p;
	void *user;

	begin();
	CHECK((channel = ibv_create_comp_channel(context)));
	open_pair(&p, channel, NULL, 24);
	CHECK(!ibv_req_notify_cq(p.cq, 0));
	puts("ready");
	fflush(stdout);
	CHECK(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	CHECK(!ibv_get_cq_event(channel, &cq, &user) && cq == p.cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_poll_cq(p.cq, 1, &wc) < 0);
	CHECK(send_to(&p, IBV_WR_SEND, 1, 0, 8, 0, 0, 0) == EIO);
	FAILS(ibv_alloc_pd(context), EIO);
	close_pair(&p);
	CHECK(p.memory[0][77] == (uint8_t)(77 * 7));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} checks[] = {{"refusals", refusals}, {"queues", queues},   {"bytes", bytes},	      {"events", events},
		      {"extended", extended}, {"threads", threads}, {"leftovers", leftovers}, {"gone", gone},
		      {"windows", windows},   {"anew", anew}};

	for (unsigned i = 0; argc == 2 && i < sizeof(checks) / sizeof(*checks); i++)
		if (!strcmp(argv[1], checks[i].name)) {
			checks[i].run();
			puts("well");
			return 0;
		}
	return 2;
}
