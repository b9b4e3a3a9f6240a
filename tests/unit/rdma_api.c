/* SPDX-License-Identifier: BSD-3-Clause */
/* The sp_rdma_ calls of libspindle over a NIC that the test makes up: queues in shared memory, doorbells, completions,
 * and answers that are not believed. */
#include "../lib/rdma_host.h"

static int send_one(uint64_t wr_id)
{
	const struct sp_rdma_send_wr wr = {.wr_id = wr_id, .op = SP_RDMA_WR_SEND, .flags = SP_RDMA_SIGNALED};

	return sp_rdma_post_send(rdma_qp, &wr, NULL);
}

static int recv_one(uint64_t wr_id)
{
	const struct sp_rdma_recv_wr wr = {.wr_id = wr_id};

	return sp_rdma_post_recv(rdma_qp, &wr, NULL);
}

/* The NIC takes the entry, as it does once it has copied it. */
static void nic_takes(uint32_t *owner)
{
	__atomic_store_n(owner, 0, __ATOMIC_RELEASE);
}

/* ---- contexts ---- */
TEST(settings_say_what_the_attributes_say)
{
	const struct sp_rdma_attr attr = {
		.qps = 1, .cqs = 2, .srqs = 3, .pds = 4, .mrs = 5, .ahs = 6, .congestion = true};
	struct sp_rdma_limits limits;

	rdma_host_fresh();
	CU_ASSERT_EQUAL_FATAL(sp_rdma_open(&rdma_f.dev, &attr, &rdma_r, NULL), 0);
	CU_ASSERT_STRING_EQUAL(rdma_f.set, "qps=1;cqs=2;srqs=3;pds=4;mrs=5;ahs=6;congestion-control=yes;qp=any;");
	CU_ASSERT_EQUAL(sp_rdma_query(rdma_r, &limits), 0);
	CU_ASSERT_EQUAL(limits.qps, 64);
	rdma_host_shut();
}

TEST(limits_that_make_no_sense_are_refused)
{
	rdma_host_fresh();
	rdma_f.limits.sges = 17;
	CU_ASSERT_EQUAL(sp_rdma_open(&rdma_f.dev, NULL, &rdma_r, NULL), -EPROTO);
	rdma_host_fresh();
	rdma_f.limits.wrs = 0;
	CU_ASSERT_EQUAL(sp_rdma_open(&rdma_f.dev, NULL, &rdma_r, NULL), -EPROTO);
	rdma_host_fresh();
	rdma_f.short_by = 4;
	CU_ASSERT_EQUAL(sp_rdma_open(&rdma_f.dev, NULL, &rdma_r, NULL), -EPROTO);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, queues_lie_apart_at_lines_of_a_region)
{
	const struct sp_rdma_qp_create *q = &rdma_f.pair;

	CU_ASSERT(q->mem == rdma_f.cq.mem && rdma_f.regions == 1);
	CU_ASSERT(!(q->sq % 64) && !(q->rq % 64) && !(rdma_f.cq.offset % 64));
	CU_ASSERT_EQUAL(q->sq_log, 2); /* 3, rounded up */
	CU_ASSERT(q->sq >= rdma_f.cq.offset + 64 + 4 * 64);
	CU_ASSERT(q->rq >= q->sq + 64 + 4 * sp_rdma_sq_stride(2, 64));
	CU_ASSERT_EQUAL(sp_rdma_qp_number(rdma_qp), RDMA_QP);
	CU_ASSERT_PTR_EQUAL(sp_rdma_qp_user(rdma_qp), &rdma_qp);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, memory_of_queues_is_used_again_and_zeroed)
{
	struct sp_rdma_cq *q[5];
	unsigned regions = 0;
	uint64_t at[5];

	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 5; i++) {
			CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(rdma_r, 1000, false, NULL, &q[i]), 0);
			at[i] = rdma_f.cq.offset;
			CU_ASSERT_EQUAL(rdma_host_memory(rdma_f.cq.mem, at[i])[64 * 500], 0);
			memset(rdma_host_memory(rdma_f.cq.mem, at[i]), 0xFF, 64 + 1024 * 64);
		}
		for (unsigned i = 0; i < 5; i++) /* in another order */
			CU_ASSERT_EQUAL(sp_rdma_cq_destroy(q[(i * 3 + round) % 5]), 0);
		regions = round ? regions : rdma_f.regions;
	}
	CU_ASSERT_EQUAL(rdma_f.regions, regions);
	CU_ASSERT(regions <= 4); /* the first is small, the others are twice as large as the one before */
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, answers_for_a_qp_that_cannot_be_are_refused)
{
	const struct sp_rdma_qp_init init = {.type = SP_RDMA_UC, .send_cq = rdma_cq, .recv_cq = rdma_cq};
	const struct sp_rdma_qp wrong[] = {{1, 0}, {0xFFFFFF, 0}, {0x1000002, 0}, {RDMA_QP, 255}};
	struct sp_rdma_pair *qp;

	for (unsigned i = 0; i < 4; i++) {
		rdma_f.made = wrong[i];
		CU_ASSERT_EQUAL(sp_rdma_qp_create(rdma_pd, &init, &qp), -EPROTO);
	}
	rdma_f.short_by = 1;
	CU_ASSERT_EQUAL(sp_rdma_qp_create(rdma_pd, &init, &qp), -EPROTO);
	rdma_f.short_by = 0;
	rdma_f.status = -ENOSPC;
	CU_ASSERT_EQUAL(sp_rdma_qp_create(rdma_pd, &init, &qp), -ENOSPC);
}

/* ---- memory ---- */
TEST_BETWEEN(rdma_host_open, rdma_host_shut, memory_is_registered_in_ranges)
{
	const unsigned all = SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_READ;
	struct sp_mr a = {&rdma_f.dev, (void *)0x10000, 0x1000, 7}, b = {&rdma_f.dev, (void *)0x90000, 0x2000, 8};
	const struct sp_rdma_range ranges[] = {{&a, 16, 32}, {&b, 0, 0x2000}};
	struct sp_rdma_mr_reg head;
	struct sp_rdma_segment segment[2];
	struct sp_rdma_mr *mr;

	CU_ASSERT_EQUAL_FATAL(sp_rdma_mr_reg_ranges(rdma_pd, 0x5000, ranges, 2, all, &mr), 0);
	CU_ASSERT(mr->lkey == 0x100 && mr->rkey == 0x200 && mr->va == 0x5000 && mr->len == 0x2020);
	CU_ASSERT_EQUAL_FATAL(rdma_f.in_len, sizeof(head) + sizeof(segment));
	memcpy(&head, rdma_f.in, sizeof(head));
	memcpy(segment, rdma_f.in + sizeof(head), sizeof(segment));
	CU_ASSERT(head.va == 0x5000 && head.len == 0x2020 && head.segments == 2 && head.access == all);
	CU_ASSERT(segment[0].mem == 7 && segment[0].offset == 16 && segment[0].len == 32 && segment[1].mem == 8);
	CU_ASSERT_EQUAL(sp_rdma_pd_dealloc(rdma_pd), -EBUSY);
	rdma_f.status = -EAGAIN;
	CU_ASSERT_EQUAL(sp_rdma_mr_dereg(mr), -EAGAIN);
	rdma_f.status = 0;
	CU_ASSERT_EQUAL(sp_rdma_mr_dereg(mr), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_mr_reg(rdma_pd, &a, 16, 32, 0, &mr), 0);
	CU_ASSERT_EQUAL(mr->va, 0x10010);
	CU_ASSERT_EQUAL(sp_rdma_mr_reg(rdma_pd, &a, 16, 0xFF1, 0, &mr), -EFAULT);
	CU_ASSERT_EQUAL(sp_rdma_mr_reg(rdma_pd, &a, 0, 0, 0, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_rdma_mr_reg(rdma_pd, &a, 0, 1, SP_RDMA_REMOTE_WRITE, &mr), -EACCES);
	CU_ASSERT_EQUAL(sp_rdma_mr_reg(rdma_pd, &a, 0, 1, 32, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_rdma_mr_reg_ranges(rdma_pd, UINT64_MAX, ranges, 1, 0, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_rdma_mr_reg_ranges(rdma_pd, 0, ranges, 65, 0, &mr), -E2BIG);
}

/* ---- posting ---- */
TEST_BETWEEN(rdma_host_open, rdma_host_shut, a_list_of_sends_is_one_doorbell)
{
	const struct sp_rdma_sge sge[] = {{0x1000, 5, 1}, {0x2000, 6, 2}};
	const struct sp_rdma_send_wr second = {.wr_id = 2,
					       .op = SP_RDMA_WR_FETCH_ADD,
					       .flags = SP_RDMA_FENCE,
					       .sge = sge,
					       .sges = 1,
					       .remote = 0x77,
					       .rkey = 0x88,
					       .compare_add = 3,
					       .swap = 4},
				     first = {.next = &second,
					      .wr_id = 1,
					      .op = SP_RDMA_WR_WRITE_IMM,
					      .sge = sge,
					      .sges = 2,
					      .imm = 0x55};
	const struct sp_rdma_send_wr *bad = &first;
	const struct sp_rdma_wqe *w = rdma_host_wqe(0);

	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &first, &bad), 0);
	CU_ASSERT_PTR_NULL(bad);
	CU_ASSERT_EQUAL(rdma_host_queue(true)->tail, 2);
	CU_ASSERT(w->owner == 1 && w->op == SP_RDMA_WR_WRITE_IMM && w->sges == 2 && w->imm == 0x55 && w->wr_id == 1);
	CU_ASSERT(!memcmp(w + 1, sge, sizeof(sge)));
	w = rdma_host_wqe(1);
	CU_ASSERT(w->owner == 1 && w->flags == SP_RDMA_FENCE && w->remote == 0x77 && w->rkey == 0x88 &&
		  w->compare_add == 3 && w->swap == 4);
	CU_ASSERT_EQUAL(rdma_f.bells, 1);
	CU_ASSERT(rdma_f.bell.op == SP_RDMA_CMD_DOORBELL && rdma_f.bell.arg[0] == RDMA_QP &&
		  SP_CMD_WORKER(rdma_f.bell.flags) == RDMA_WORKER && rdma_f.bell.context == RDMA_CONTEXT);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, doorbells_are_rung_once_until_the_nic_has_heard)
{
	CU_ASSERT_EQUAL(send_one(1), 0);
	CU_ASSERT_EQUAL(send_one(2), 0);
	CU_ASSERT_EQUAL(rdma_f.bells, 1);
	CU_ASSERT_EQUAL(__atomic_exchange_n(&rdma_host_queue(true)->rung, 0, __ATOMIC_SEQ_CST), 1);
	CU_ASSERT_EQUAL(send_one(3), 0);
	CU_ASSERT_EQUAL(rdma_f.bells, 2);
	CU_ASSERT_EQUAL(recv_one(4), 0); /* receives need none */
	CU_ASSERT_EQUAL(rdma_f.bells, 2);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, a_doorbell_that_finds_no_room_is_rung_later)
{
	struct sp_rdma_wc wc;

	rdma_f.full = true;
	CU_ASSERT_EQUAL(send_one(1), 0);
	CU_ASSERT_EQUAL(send_one(2), 0);
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, &wc, 1), 0);
	CU_ASSERT_EQUAL(rdma_f.bells, 0);
	rdma_f.full = false;
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, &wc, 1), 0);
	CU_ASSERT_EQUAL(rdma_f.bells, 1);
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, &wc, 1), 0);
	CU_ASSERT_EQUAL(rdma_f.bells, 1);
	rdma_host_queue(true)->rung = 0;
	rdma_f.full = true;
	CU_ASSERT_EQUAL(send_one(3), 0);
	rdma_f.full = false;
	CU_ASSERT_EQUAL(send_one(4), 0); /* at the next post, too */
	CU_ASSERT_EQUAL(rdma_f.bells, 2);
	/* A QP that ends owes nothing. */
	rdma_host_queue(true)->rung = 0;
	nic_takes(&rdma_host_wqe(0)->owner);
	rdma_f.full = true;
	CU_ASSERT_EQUAL(send_one(5), 0);
	CU_ASSERT_EQUAL(sp_rdma_qp_destroy(rdma_qp), 0);
	rdma_f.full = false;
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, &wc, 1), 0);
	CU_ASSERT_EQUAL(rdma_f.bells, 2);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, a_queue_is_full_until_the_nic_has_taken_an_entry)
{
	const struct sp_rdma_recv_wr *bad_recv;
	const struct sp_rdma_recv_wr b = {.wr_id = 11}, a = {.next = &b, .wr_id = 10};

	for (uint64_t i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(send_one(i), 0);
	CU_ASSERT_EQUAL(send_one(4), -EAGAIN);
	CU_ASSERT_EQUAL(rdma_host_queue(true)->tail, 4);
	nic_takes(&rdma_host_wqe(0)->owner);
	CU_ASSERT_EQUAL(send_one(4), 0);
	CU_ASSERT_EQUAL(rdma_host_wqe(4)->wr_id, 4);
	CU_ASSERT_EQUAL(send_one(5), -EAGAIN);
	for (uint64_t i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(recv_one(i), 0);
	CU_ASSERT_EQUAL(sp_rdma_post_recv(rdma_qp, &a, &bad_recv), -EAGAIN);
	CU_ASSERT_PTR_EQUAL(bad_recv, &b); /* the first of them was posted */
	CU_ASSERT_EQUAL(rdma_host_rqe(3)->wr_id, 10);
	nic_takes(&rdma_host_rqe(0)->owner);
	CU_ASSERT_EQUAL(recv_one(20), 0);
	CU_ASSERT(rdma_host_rqe(0)->wr_id == 20 && rdma_host_queue(false)->tail == 5);
	/* A NIC, or another process, that writes to tail changes nothing here. */
	rdma_host_queue(false)->tail = 1000;
	nic_takes(&rdma_host_rqe(1)->owner);
	CU_ASSERT_EQUAL(recv_one(21), 0);
	CU_ASSERT_EQUAL(rdma_host_queue(false)->tail, 6);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, inline_bytes_are_copied_at_once)
{
	char a[40] = "abc", b[40] = "def";
	const struct sp_rdma_sge sge[] = {{(uintptr_t)a, 3, 0}, {(uintptr_t)b, 40, 0}, {(uintptr_t)b, 22, 0}};
	struct sp_rdma_send_wr wr = {.op = SP_RDMA_WR_SEND, .flags = SP_RDMA_INLINED, .sge = sge, .sges = 2};
	const struct sp_rdma_wqe *w = rdma_host_wqe(0);

	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &wr, NULL), 0);
	CU_ASSERT(w->length == 43 && w->sges == 0 && !memcmp(w + 1, "abcdef", 6));
	wr.sges = 3; /* 65 bytes */
	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &wr, NULL), -EMSGSIZE);
	wr.sges = 1;
	wr.op = SP_RDMA_WR_READ;
	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &wr, NULL), -EINVAL);
	CU_ASSERT_EQUAL(rdma_host_queue(true)->tail, 1);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, requests_that_cannot_be_are_refused_before_they_are_posted)
{
	const struct sp_rdma_sge sge[3] = {{0}};
	const struct sp_rdma_qp_init init = {.type = SP_RDMA_UD, .send_cq = rdma_cq, .recv_cq = rdma_cq};
	const struct sp_rdma_qp_attr rts = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RTS};
	const struct sp_rdma_ah to = {.ip = {1}};
	struct sp_rdma_send_wr wr = {.op = SP_RDMA_WR_SEND, .sge = sge, .sges = 3};
	const struct sp_rdma_recv_wr rwr = {.sge = sge, .sges = 3};
	struct sp_rdma_target *target;
	struct sp_rdma_pair *ud;

	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &wr, NULL), -EMSGSIZE);
	CU_ASSERT_EQUAL(sp_rdma_post_recv(rdma_qp, &rwr, NULL), -EMSGSIZE);
	wr.sges = 0;
	wr.flags = 64;
	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &wr, NULL), -EINVAL);
	wr.flags = 0;
	wr.op = (enum sp_rdma_wr_op)10;
	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &wr, NULL), -EOPNOTSUPP);
	wr.op = (enum sp_rdma_wr_op)200;
	CU_ASSERT_EQUAL(sp_rdma_post_send(rdma_qp, &wr, NULL), -EOPNOTSUPP);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(rdma_pd, &init, &ud), 0);
	wr.op = SP_RDMA_WR_SEND;
	CU_ASSERT_EQUAL(sp_rdma_post_send(ud, &wr, NULL), -EINVAL); /* in RESET */
	CU_ASSERT_EQUAL(sp_rdma_post_recv(ud, &(struct sp_rdma_recv_wr){.wr_id = 1}, NULL), -EINVAL);
	CU_ASSERT_EQUAL(sp_rdma_qp_modify(ud, &rts), 0);
	CU_ASSERT_EQUAL(sp_rdma_post_send(ud, &wr, NULL), -EINVAL); /* where to? */
	CU_ASSERT_EQUAL_FATAL(sp_rdma_ah_create(rdma_pd, &to, &target), 0);
	wr.ah = target;
	wr.remote_qp = 5;
	wr.qkey = 6;
	CU_ASSERT_EQUAL(sp_rdma_post_send(ud, &wr, NULL), 0);
	CU_ASSERT(rdma_host_wqe(0)->remote_qp == 5 && rdma_host_wqe(0)->qkey == 6 && rdma_host_wqe(0)->ah);
	wr.op = SP_RDMA_WR_WRITE;
	CU_ASSERT_EQUAL(sp_rdma_post_send(ud, &wr, NULL), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(sp_rdma_ah_destroy(target), 0);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, reset_empties_the_queues)
{
	const struct sp_rdma_qp_attr reset = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RESET},
				     rts = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RTS};
	struct sp_rdma_qp_attr attr;

	for (uint64_t i = 0; i < 4; i++)
		CU_ASSERT(!send_one(i) && !recv_one(i));
	CU_ASSERT_EQUAL(sp_rdma_qp_modify(rdma_qp, &reset), 0);
	CU_ASSERT(rdma_f.op == SP_RDMA_QP_MODIFY && rdma_f.qp == RDMA_QP);
	CU_ASSERT(!rdma_host_queue(true)->tail && !rdma_host_queue(true)->rung && !rdma_host_wqe(3)->owner);
	CU_ASSERT_EQUAL(sp_rdma_qp_modify(rdma_qp, &rts), 0);
	CU_ASSERT_EQUAL(send_one(9), 0);
	CU_ASSERT(rdma_host_wqe(0)->wr_id == 9 && rdma_f.bells == 2);
	CU_ASSERT_EQUAL(sp_rdma_qp_query(rdma_qp, &attr), 0);
	CU_ASSERT_EQUAL(attr.state, SP_RDMA_ERR);
	rdma_f.gone = true;
	rdma_host_queue(true)->rung = 0;
	CU_ASSERT_EQUAL(send_one(9), -ENODEV);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, shared_receive_queues_take_the_receives)
{
	const struct sp_rdma_srq_attr attr = {.entries = 2, .sges = 1, .limit = 1, .user = &rdma_r};
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_cq = rdma_cq, .recv_cq = rdma_cq};
	const struct sp_rdma_recv_wr wr = {.wr_id = 5};
	struct sp_rdma_notice n;
	struct sp_rdma_srq *srq;
	struct sp_rdma_pair *qp;

	CU_ASSERT_EQUAL_FATAL(sp_rdma_srq_create(rdma_pd, &attr, &srq), 0);
	CU_ASSERT(rdma_f.srq.log == 1 && rdma_f.srq.limit == 1);
	init.srq = srq;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(rdma_pd, &init, &qp), 0);
	CU_ASSERT(rdma_f.pair.srq && !rdma_f.pair.rq_log && !rdma_f.pair.rq);
	CU_ASSERT_EQUAL(sp_rdma_post_recv(qp, &wr, NULL), -EINVAL);
	CU_ASSERT_EQUAL(sp_rdma_post_srq_recv(srq, &wr, NULL), 0);
	CU_ASSERT_EQUAL(sp_rdma_post_srq_recv(srq, &wr, NULL), 0);
	CU_ASSERT_EQUAL(sp_rdma_post_srq_recv(srq, &wr, NULL), -EAGAIN);
	rdma_host_event(SP_RDMA_EVENT_ASYNC, rdma_f.srq.cookie, SP_RDMA_ASYNC_SRQ_LIMIT);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 1);
	CU_ASSERT(n.srq == srq && n.async == SP_RDMA_ASYNC_SRQ_LIMIT && n.user == &rdma_r);
	CU_ASSERT_EQUAL(sp_rdma_srq_arm(srq, 1), 0);
	rdma_f.status = -EBUSY;
	CU_ASSERT_EQUAL(sp_rdma_srq_destroy(srq), -EBUSY);
}

/* ---- completions ---- */
TEST_BETWEEN(rdma_host_open, rdma_host_shut, completions_come_in_laps)
{
	struct sp_rdma_wc wc[8];
	uint64_t next = 0, made = 0;

	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, wc, 8), 0);
	for (unsigned round = 0; round < 50; round++) {
		const unsigned n = round % 5; /* of 4 entries */

		for (unsigned i = 0; i < n; i++)
			rdma_host_complete(made++, SP_RDMA_OK);
		CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, wc, 8), (int)n);
		for (unsigned i = 0; i < n; i++)
			CU_ASSERT_EQUAL(wc[i].wr_id, next++);
		CU_ASSERT_EQUAL(rdma_host_cq()->consumer, (uint32_t)next);
	}
	rdma_host_complete(7, SP_RDMA_FLUSHED);
	rdma_host_complete(8, SP_RDMA_OK);
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, wc, 1), 1); /* as many as there is room for */
	CU_ASSERT(wc[0].status == SP_RDMA_FLUSHED && wc[0].wr_id == 7);
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, wc, 0), 0);
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, wc, 1), 1);
	CU_ASSERT(wc[0].op == SP_RDMA_WC_RECV && wc[0].len == 77 && wc[0].imm == 88 && wc[0].qp == RDMA_QP &&
		  wc[0].src_qp == 99 && wc[0].flags == SP_RDMA_WC_IMM);
	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, wc, -1), -EINVAL);
}

TEST_BETWEEN(rdma_host_open, rdma_host_shut, an_armed_queue_tells_once)
{
	struct sp_rdma_notice n;
	struct sp_rdma_cq *bare;
	const uint64_t cookie = rdma_f.cq.cookie;

	CU_ASSERT_EQUAL(sp_rdma_cq_arm(rdma_cq, true), 0);
	CU_ASSERT_EQUAL(rdma_host_cq()->armed, SP_RDMA_ARM_SOLICITED);
	CU_ASSERT_EQUAL(sp_rdma_cq_arm(rdma_cq, false), 0);
	CU_ASSERT_EQUAL(rdma_host_cq()->armed, SP_RDMA_ARM_ANY);
	rdma_host_event(SP_RDMA_EVENT_CQ, cookie, 0);
	rdma_host_event(SP_RDMA_EVENT_CQ, cookie + 1, 0); /* of nothing */
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 1);
	CU_ASSERT(n.kind == SP_RDMA_NOTICE_CQ && n.cq == rdma_cq && n.user == &rdma_f);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 0);
	CU_ASSERT_EQUAL(sp_rdma_cq_wait(rdma_cq, SP_MS), -ETIMEDOUT);
	CU_ASSERT_EQUAL(rdma_host_cq()->armed, SP_RDMA_ARM_ANY);
	rdma_host_complete(1, SP_RDMA_OK);
	CU_ASSERT_EQUAL(sp_rdma_cq_wait(rdma_cq, SP_MS), 0);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_cq_create(rdma_r, 1, false, NULL, &bare), 0);
	CU_ASSERT_EQUAL(sp_rdma_cq_arm(bare, false), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(sp_rdma_cq_wait(bare, 0), -EOPNOTSUPP);
	rdma_f.gone = true;
	CU_ASSERT_EQUAL(sp_rdma_cq_wait(rdma_cq, SP_MS), 0); /* what is there may be taken */
}

/* ---- notices ---- */
TEST_BETWEEN(rdma_host_open, rdma_host_shut, asynchronous_events_name_their_object)
{
	const uint64_t qp = rdma_f.pair.cookie, cq = rdma_f.cq.cookie;
	struct sp_rdma_notice n;

	rdma_host_event(SP_RDMA_EVENT_ASYNC, qp, SP_RDMA_ASYNC_QP_LAST_WQE);
	rdma_host_event(SP_RDMA_EVENT_ASYNC, cq, SP_RDMA_ASYNC_CQ_ERR);
	rdma_host_event(SP_RDMA_EVENT_ASYNC, qp, SP_RDMA_ASYNC_QP_FATAL);
	rdma_host_event(SP_RDMA_EVENT_ASYNC, qp, 31); /* there is no such event, */
	rdma_host_event(SP_RDMA_EVENT_ASYNC, UINT64_MAX, 1);
	rdma_host_event(SP_RDMA_EVENT_ASYNC, 0, 1); /* ... and no such object */
	rdma_host_event(SP_EVENT_RESULT, qp, 0);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 1);
	CU_ASSERT(n.kind == SP_RDMA_NOTICE_ASYNC && n.async == SP_RDMA_ASYNC_QP_FATAL && n.qp == rdma_qp);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 1);
	CU_ASSERT(n.async == SP_RDMA_ASYNC_QP_LAST_WQE && n.qp == rdma_qp && n.user == &rdma_qp);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 1);
	CU_ASSERT(n.async == SP_RDMA_ASYNC_CQ_ERR && n.cq == rdma_cq && !n.qp);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 0);
	/* Events of a QP that has been destroyed name nothing, nor those that have come and were not taken. */
	rdma_host_event(SP_RDMA_EVENT_ASYNC, qp, SP_RDMA_ASYNC_QP_FATAL);
	rdma_host_event(SP_RDMA_EVENT_CM, 0, 0);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 1);
	CU_ASSERT_EQUAL(n.kind, SP_RDMA_NOTICE_CM);
	rdma_f.status = -EAGAIN;
	CU_ASSERT_EQUAL(sp_rdma_qp_destroy(rdma_qp), -EAGAIN);
	rdma_f.status = 0;
	CU_ASSERT_EQUAL(sp_rdma_qp_destroy(rdma_qp), 0);
	rdma_host_event(SP_RDMA_EVENT_ASYNC, qp, SP_RDMA_ASYNC_QP_FATAL);
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), 0);
	rdma_f.gone = true;
	CU_ASSERT_EQUAL(sp_rdma_notice_take(rdma_r, &n), -ENODEV);
}

/* ---- memory that an agent serves ---- */
static struct sp_rdma_fetch_op served;
static int serve_result;

static int serve(void *user, struct sp_rdma_fetch_op *op)
{
	CU_ASSERT_PTR_EQUAL(user, &served);
	served = *op;
	op->before = 99;
	return serve_result;
}

/* The NIC's question, of the region 0x200. */
static void question(uint32_t kind, uint64_t va, uint32_t len, uint64_t offset)
{
	rdma_host_event(SP_RDMA_EVENT_FETCH, 7, RDMA_QP | (uint64_t)kind << 32);
	rdma_f.event[rdma_f.events - 1].arg[1] = va;
	rdma_f.event[rdma_f.events - 1].arg[2] = len | 0x200ull << 32;
	rdma_f.event[rdma_f.events - 1].arg[3] = offset;
	rdma_f.event[rdma_f.events - 1].arg[4] = RDMA_WORKER;
}

static bool answered(unsigned count, uint64_t status, uint64_t before)
{
	const struct sp_command *c = &rdma_f.bell;
	struct sp_rdma_wc wc;

	CU_ASSERT_EQUAL(sp_rdma_poll_cq(rdma_cq, &wc, 1), 0);
	return rdma_f.bells == count && c->op == SP_RDMA_CMD_FETCHED && SP_CMD_WORKER(c->flags) == RDMA_WORKER &&
	       c->arg[0] == RDMA_QP && c->arg[1] == 7 && c->arg[2] == status && c->arg[3] == before;
}

#define ALL (SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC)
static struct sp_rdma_agent staging;
static struct sp_rdma_mr *agents;

static void agent_open(sp_rdma_agent_fn *fn, uint64_t va, uint64_t len)
{
	const struct sp_rdma_range range = {NULL, 0, len}, wrong = {NULL, 8, len};
	struct sp_rdma_segment segment;

	rdma_host_open();
	CU_ASSERT_EQUAL(sp_rdma_mr_reg_ranges(rdma_pd, va, &range, 1, ALL, &agents), -EOPNOTSUPP);
	rdma_f.status = -EFAULT;
	CU_ASSERT_EQUAL(sp_rdma_agent_start(rdma_r, fn, &served), -EFAULT);
	rdma_f.status = 0;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_agent_start(rdma_r, fn, &served), 0);
	CU_ASSERT_EQUAL(rdma_f.op, SP_RDMA_AGENT);
	memcpy(&staging, rdma_f.in, sizeof(staging));
	CU_ASSERT(!(staging.offset % 64) && staging.log >= SP_RDMA_AGENT_LOG_MIN &&
		  staging.log <= SP_RDMA_AGENT_LOG_MAX);
	memset(rdma_host_memory(staging.mem, staging.offset), 0, sp_rdma_agent_bytes(64, staging.log));
	CU_ASSERT_EQUAL(sp_rdma_agent_start(rdma_r, fn, &served), -EBUSY);
	CU_ASSERT_EQUAL(sp_rdma_mr_reg_ranges(rdma_pd, va, &wrong, 1, ALL, &agents), -EINVAL);
	CU_ASSERT_EQUAL_FATAL(sp_rdma_mr_reg_ranges(rdma_pd, va, &range, 1, ALL, &agents), 0);
	memcpy(&segment, rdma_f.in + sizeof(struct sp_rdma_mr_reg), sizeof(segment));
	CU_ASSERT(segment.mem == SP_RDMA_FETCHED && segment.len == len && !segment.offset);
}

TEST(an_agent_is_asked_by_who_polls_and_its_answer_goes_back)
{
	uint8_t *at;

	agent_open(serve, 0x5000, 0x1000);
	at = rdma_host_memory(staging.mem, staging.offset);
	serve_result = 0;
	question(SP_RDMA_FETCH_READ, 0x5010, 100, staging.offset + 64);
	CU_ASSERT(answered(1, 0, 99));
	CU_ASSERT(served.kind == SP_RDMA_FETCH_READ && served.va == 0x5010 && served.len == 100 &&
		  served.bytes == at + 64);
	memcpy(at, (uint64_t[2]){5, 6}, 16);
	question(SP_RDMA_FETCH_CAS, 0x5FF8, 8, staging.offset);
	CU_ASSERT(answered(2, 0, 99));
	CU_ASSERT(served.value == 5 && served.compare == 6);
	serve_result = -EIO;
	question(SP_RDMA_FETCH_WRITE, 0x5000, 0x1000, staging.offset);
	CU_ASSERT(answered(3, EIO, 99));
	serve_result = 0;
	/* The queue of commands is full for a while. */
	rdma_f.full = true;
	question(SP_RDMA_FETCH_READ, 0x5000, 1, staging.offset);
	CU_ASSERT(!answered(4, 0, 99));
	CU_ASSERT_EQUAL(served.len, 1);
	rdma_f.full = false;
	CU_ASSERT(answered(4, 0, 99));
	rdma_host_shut();
}

TEST(questions_about_other_memory_are_not_passed_on)
{
	const uint64_t bytes = sp_rdma_agent_bytes(64, SP_RDMA_AGENT_LOG_MIN);
	unsigned n = 0;

	agent_open(serve, 0x5000, 0x1000);
	served = (struct sp_rdma_fetch_op){.len = 12345};
	question(SP_RDMA_FETCH_READ, 0x4FFF, 1, staging.offset);
	CU_ASSERT(answered(++n, EFAULT, 0));
	question(SP_RDMA_FETCH_READ, 0x5FFF, 2, staging.offset);
	CU_ASSERT(answered(++n, EFAULT, 0));
	question(SP_RDMA_FETCH_WRITE, 0x5000, UINT32_MAX, staging.offset);
	CU_ASSERT(answered(++n, EFAULT, 0));
	question(SP_RDMA_FETCH_READ, 0x5000, 8, staging.offset - 1);
	CU_ASSERT(answered(++n, EFAULT, 0));
	question(SP_RDMA_FETCH_READ, 0x5000, 8, staging.offset + (bytes << (staging.log - SP_RDMA_AGENT_LOG_MIN)) - 7);
	CU_ASSERT(answered(++n, EFAULT, 0));
	question(SP_RDMA_FETCH_ADD, 0x5000, 4, staging.offset);
	CU_ASSERT(answered(++n, EFAULT, 0));
	CU_ASSERT_EQUAL(sp_rdma_mr_dereg(agents), 0);
	question(SP_RDMA_FETCH_READ, 0x5000, 8, staging.offset);
	CU_ASSERT(answered(++n, EFAULT, 0));
	CU_ASSERT_EQUAL(served.len, 12345);
	rdma_host_shut();
}

TEST(without_an_agent_of_its_own_the_library_copies)
{
	static uint64_t own[64];
	const uint64_t va = (uintptr_t)own;
	uint8_t *at;

	agent_open(NULL, va, sizeof(own));
	at = rdma_host_memory(staging.mem, staging.offset);
	own[1] = 0x1122334455667788;
	question(SP_RDMA_FETCH_READ, va + 8, 8, staging.offset + 64);
	CU_ASSERT(answered(1, 0, 0));
	CU_ASSERT(!memcmp(at + 64, &own[1], 8));
	memset(at + 128, 0x5A, 24);
	question(SP_RDMA_FETCH_WRITE, va + 16, 24, staging.offset + 128);
	CU_ASSERT(answered(2, 0, 0));
	CU_ASSERT(own[2] == 0x5A5A5A5A5A5A5A5A && own[4] == own[2] && !own[5]);
	memcpy(at, (uint64_t[2]){3, 0}, 16);
	own[6] = 40;
	question(SP_RDMA_FETCH_ADD, va + 48, 8, staging.offset);
	CU_ASSERT(answered(3, 0, 40));
	CU_ASSERT_EQUAL(own[6], 43);
	memcpy(at, (uint64_t[2]){7, 43}, 16);
	question(SP_RDMA_FETCH_CAS, va + 48, 8, staging.offset);
	CU_ASSERT(answered(4, 0, 43));
	CU_ASSERT_EQUAL(own[6], 7);
	question(SP_RDMA_FETCH_CAS, va + 48, 8, staging.offset); /* not equal */
	CU_ASSERT(answered(5, 0, 7));
	CU_ASSERT_EQUAL(own[6], 7);
	question(99, va, 8, staging.offset);
	CU_ASSERT(answered(6, EOPNOTSUPP, 0));
	rdma_host_shut();
}
