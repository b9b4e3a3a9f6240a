/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of an rdma context: how they are made and end, completion queues, shared receive queues, states. UC and UD.
 */
#include "../lib/rdma_nic.h"

#define WAY(i) (RN_PSN + (i))

static void send(uint8_t opcode, uint32_t psn, uint32_t len)
{
	rn_packet(opcode, psn, NULL, 0, NULL, len);
}

static void start_rc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_RC);
}

static void start_uc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_UC);
}

static void start_ud(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_UD);
}

static struct sp_rdma_cq_head *cq_head(void)
{
	return (struct sp_rdma_cq_head *)(void *)(rn_memory + RN_CQ);
}

/* ---- completion queues ---- */
TEST_BETWEEN(start_rc, rn_stop, an_armed_queue_tells_once)
{
	for (unsigned i = 0; i < 6; i++)
		rn_receive(i, 0, 100);
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_no_event());
	cq_head()->armed = SP_RDMA_ARM_ANY;
	send(SP_RC_SEND_ONLY, WAY(1), 4);
	CU_ASSERT(rn_event(SP_RDMA_EVENT_CQ, 0));
	CU_ASSERT_EQUAL(cq_head()->armed, 0);
	send(SP_RC_SEND_ONLY, WAY(2), 4);
	CU_ASSERT(rn_no_event());
	cq_head()->armed = SP_RDMA_ARM_SOLICITED;
	send(SP_RC_SEND_ONLY, WAY(3), 4);
	CU_ASSERT(rn_no_event());
	rn_solicited = true;
	send(SP_RC_SEND_ONLY, WAY(4), 4);
	CU_ASSERT(rn_event(SP_RDMA_EVENT_CQ, 0));
	cq_head()->armed = SP_RDMA_ARM_SOLICITED;
	send(SP_RC_SEND_MIDDLE, WAY(5), 4); /* an error is looked for, too: the flush of the last entry */
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_QP_REQ_ERR));
	CU_ASSERT(rn_event(SP_RDMA_EVENT_CQ, 0));
}

TEST(a_queue_that_overflows_ends_its_qps)
{
	struct sp_rdma_qp_attr a;

	rn_cq_log = 1;
	start_rc();
	for (unsigned i = 0; i < 4; i++)
		rn_receive(i, 0, 100);
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	send(SP_RC_SEND_ONLY, WAY(1), 4);
	CU_ASSERT(rn_no_event());
	send(SP_RC_SEND_ONLY, WAY(2), 4);
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_CQ_ERR));
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_QP_FATAL));
	CU_ASSERT_EQUAL(rn_count("cq_overflows"), 1);
	a = rn_attr();
	CU_ASSERT_EQUAL(a.state, SP_RDMA_ERR);
	rn_stop();
	rn_cq_log = 4;
}

TEST(a_consumer_that_lies_costs_its_own_queue_only)
{
	start_rc();
	rn_receive(0, 0, 100);
	cq_head()->consumer = 7; /* of entries that were never written */
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_CQ_ERR));
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_QP_FATAL));
	rn_stop();
}

/* The application takes no events for a while. */
TEST(an_event_is_owed_until_there_is_room)
{
	unsigned told = 0, asyncs = 0;
	struct sp_event e;
	uint64_t owed;

	start_rc();
	for (unsigned i = 0; i < 5000; i++) {
		rn_receive(i, 0, 100);
		cq_head()->armed = SP_RDMA_ARM_ANY;
		send(SP_RC_SEND_ONLY, WAY(i), 4);
		CU_ASSERT_PTR_NOT_NULL_FATAL(rn_completion());
	}
	owed = rn_count("events_owed");
	CU_ASSERT_FATAL(owed > 0);
	rn_now = dut_run(&dut, rn_now, rn_now + SP_MS);
	CU_ASSERT_EQUAL(rn_count("events_owed"), owed); /* it is looked for room, and no more than that */
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_ERR), 0);
	send(SP_RC_SEND_ONLY, WAY(5000), 4);
	while (sp_event_take(dut.dev, rn_context, &e) == 1)
		told += e.type == SP_RDMA_EVENT_CQ;
	CU_ASSERT(told > 0);
	rn_now = dut_run(&dut, rn_now, rn_now + SP_MS);
	while (sp_event_take(dut.dev, rn_context, &e) == 1)
		asyncs++;
	CU_ASSERT_EQUAL(asyncs, 1); /* those that were owed are one */
	rn_stop();
}

/* ---- receive queues ---- */
TEST_BETWEEN(start_rc, rn_stop, a_tail_that_lies_posts_nothing)
{
	struct sp_rdma_queue *q = (struct sp_rdma_queue *)(void *)(rn_memory + RN_RQS);

	for (unsigned i = 0; i < 2; i++) {
		q->tail = i ? 17 : UINT32_MAX; /* of 16 entries */
		send(SP_RC_SEND_ONLY, WAY(0), 4);
		CU_ASSERT(rn_acked(0x2E, WAY(0)));
	}
	q->tail = 0;
	rn_receive(1, 0, 100);
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 4));
}

TEST(a_shared_queue_serves_its_qps_and_warns)
{
	struct sp_rdma_srq_create a = {.cookie = 0x50, .offset = RN_SRQ, .log = 4, .sges = 4, .limit = 2};
	struct sp_rdma_srq_limit limit = {.limit = 17};
	uint32_t srq;

	rn_begin("");
	a.mem = rn_mem;
	a.pd = rn_pd;
	srq = limit.id = rn_id(SP_RDMA_SRQ_CREATE, &a, sizeof(a));
	rn_qp(SP_RDMA_RC, srq);
	rn_to(SP_RDMA_RTS);
	for (unsigned i = 0; i < 3; i++)
		rn_srq_receive(i, i * 100, 100);
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_no_event());
	send(SP_RC_SEND_ONLY, WAY(1), 4);
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_SRQ_LIMIT));
	send(SP_RC_SEND_ONLY, WAY(2), 4);
	CU_ASSERT(rn_no_event());
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT(rn_completed(i, SP_RDMA_OK, SP_RDMA_WC_RECV, 4));
	send(SP_RC_SEND_ONLY, WAY(3), 4);
	CU_ASSERT(rn_acked(0x2E, WAY(3)));
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_SRQ_LIMIT, 0, &limit, sizeof(limit), NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_SRQ_DESTROY, srq), -EBUSY);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_ERR), 0);
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_QP_LAST_WQE));
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_SRQ_DESTROY, srq), 0);
	rn_stop();
}

/* ---- UC ---- */
TEST_BETWEEN(start_uc, rn_stop, uc_drops_what_is_left_of_a_message)
{
	rn_receive(1, 0, 1000);
	send(SP_UC_SEND_FIRST, WAY(0), RN_MTU);
	send(SP_UC_SEND_LAST, WAY(2), 4); /* one is missing */
	CU_ASSERT_PTR_NULL(rn_completion());
	send(SP_UC_SEND_MIDDLE, WAY(3), RN_MTU);
	CU_ASSERT_EQUAL(rn_dropped("bad-order"), 2);
	send(SP_UC_SEND_FIRST, WAY(9), RN_MTU);
	send(SP_UC_SEND_LAST, WAY(10), 4);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, RN_MTU + 4));
	send(SP_UC_SEND_ONLY, WAY(11), 4);
	CU_ASSERT_EQUAL(rn_dropped("no-receive"), 1);
	rn_write(SP_UC_WRITE_ONLY, WAY(12), RN_VA + 5000, rn_key ^ 0x80000000, 4, 4);
	CU_ASSERT_EQUAL(rn_dropped("bad-key"), 1);
	CU_ASSERT(rn_untouched(5000, 4));
	rn_ack = true;
	rn_write(SP_UC_WRITE_ONLY, WAY(13), RN_VA + 5000, rn_key, 4, 4);
	CU_ASSERT(rn_filled(5000, 0, 4));
	CU_ASSERT(rn_silent());
	rn_packet(0x2C, WAY(14), NULL, 0, NULL, 16);
	CU_ASSERT_EQUAL(rn_dropped("bad-opcode"), 1);
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
}

/* ---- UD ---- */
static void datagram(uint8_t opcode, uint32_t qkey, uint32_t len)
{
	uint8_t ext[12] = {0};

	sp_store_be32(ext, qkey);
	sp_store_be32(ext + 4, 0x123456);
	memset(ext + 8, 9, 4);
	rn_packet(opcode, 77, ext, opcode == SP_UD_SEND_ONLY ? 8 : 12, NULL, len);
}

TEST_BETWEEN(start_ud, rn_stop, a_datagram_has_its_addresses_in_front)
{
	static const uint8_t zero[20];
	const struct sp_rdma_cqe *e;

	rn_receive(1, 0, 300);
	rn_receive(2, 1000, 300);
	datagram(SP_UD_SEND_ONLY, 0x11111111, 200);
	e = rn_completion();
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT_EQUAL(e->wr_id, 1);
	CU_ASSERT_EQUAL(e->len, 240);
	CU_ASSERT_EQUAL(e->src_qp, 0x123456);
	CU_ASSERT_EQUAL(e->flags, SP_RDMA_WC_GRH | SP_RDMA_WC_IPV4);
	CU_ASSERT(!memcmp(rn_memory + RN_DATA, zero, 20));
	CU_ASSERT_EQUAL(rn_memory[RN_DATA + 20], 0x45);
	CU_ASSERT(!memcmp(rn_memory + RN_DATA + 32, dut_peer4 + 12, 4));
	CU_ASSERT(!memcmp(rn_memory + RN_DATA + 36, dut_own4 + 12, 4));
	CU_ASSERT(rn_filled(40, 0, 200));
	rn_six = true;
	datagram(SP_UD_SEND_ONLY_IMM, 0x11111111, 4);
	e = rn_completion();
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT_EQUAL(e->flags, SP_RDMA_WC_GRH | SP_RDMA_WC_IMM);
	CU_ASSERT_EQUAL(e->imm, 0x09090909);
	CU_ASSERT(!memcmp(rn_memory + RN_DATA + 1008, dut_peer6, 16));
	CU_ASSERT(!memcmp(rn_memory + RN_DATA + 1024, dut_own6, 16));
	CU_ASSERT(rn_filled(1040, 0, 4));
}

TEST_BETWEEN(start_ud, rn_stop, a_datagram_that_does_not_fit_leaves_the_entry)
{
	datagram(SP_UD_SEND_ONLY, 0x11111111, 4);
	CU_ASSERT_EQUAL(rn_dropped("no-receive"), 1);
	rn_receive(1, 0, 60);
	datagram(SP_UD_SEND_ONLY, 0x11111112, 4);
	CU_ASSERT_EQUAL(rn_dropped("bad-qkey"), 1);
	datagram(SP_UD_SEND_ONLY, 0x11111111, 21);
	CU_ASSERT_EQUAL(rn_dropped("too-long"), 1);
	CU_ASSERT(rn_untouched(0, 100));
	datagram(SP_UD_SEND_ONLY, 0x11111111, 20);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 60));
	CU_ASSERT(rn_filled(40, 0, 20));
	CU_ASSERT(rn_untouched(60, 100));
}

/* ---- states and ends ---- */
TEST(states_change_as_the_specification_says)
{
	struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE, .state = SP_RDMA_RTR};

	rn_begin("");
	rn_qp(SP_RDMA_RC, 0);
	CU_ASSERT_EQUAL(rn_modify(&a), -EINVAL);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_ERR), -EINVAL);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_INIT), -EINVAL); /* without what it needs */
	CU_ASSERT_EQUAL(rn_state(99), -EINVAL);
	rn_to(SP_RDMA_RTS);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RTR), -EINVAL);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_SQE), -EINVAL);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_SQD), 0);
	rn_receive(1, 0, 100);
	send(SP_RC_SEND_ONLY, WAY(0), 4); /* drained is not deaf */
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 4));
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RTS), 0);
	rn_receive(2, 0, 100);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_ERR), 0);
	CU_ASSERT(rn_completed(2, SP_RDMA_FLUSHED, SP_RDMA_WC_RECV, 0));
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RTS), -EINVAL);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RESET);
	rn_stop();
}

/* What the application does once RESET is answered, as wire/rdma.h has it. */
static void clear_queues(void)
{
	memset(rn_memory + RN_SQS, 0, RN_DATA - RN_SQS);
	rn_restart();
}

TEST_BETWEEN(start_rc, rn_stop, after_reset_both_queues_begin_at_entry_0)
{
	for (unsigned lap = 0; lap < 3; lap++) {
		for (unsigned i = 0; i < 5; i++) {
			rn_receive(i, i * 100, 100);
			rn_post_send(i, 0, 4);
		}
		for (unsigned i = 0; i < 3 + lap; i++) {
			send(SP_RC_SEND_ONLY, WAY(i), 4 + i);
			CU_ASSERT(rn_completed(i, SP_RDMA_OK, SP_RDMA_WC_RECV, 4 + i));
		}
		CU_ASSERT_EQUAL(rn_state_of()->sq.next, 5);
		CU_ASSERT_EQUAL(rn_state_of()->own.next, 3 + lap);
		CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
		clear_queues();
		CU_ASSERT_EQUAL(rn_state_of()->sq.next, 0);
		CU_ASSERT_EQUAL(rn_state_of()->own.next, 0);
		CU_ASSERT_PTR_NULL(rn_completion()); /* what was posted ends without one */
		rn_to(SP_RDMA_RTS);
	}
}

TEST_BETWEEN(start_rc, rn_stop, after_its_end_a_qp_completes_nothing)
{
	const uint32_t gone = rn_qpn;

	rn_receive(1, 0, 100);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_CQ_DESTROY, rn_cq), -EBUSY);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_PD_DESTROY, rn_pd), -EBUSY);
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	rn_qpn = gone;
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT_EQUAL(rn_dropped("no-qp"), 1);
	CU_ASSERT(rn_silent());
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT_EQUAL(rn_destroy(), -ENOENT);
}

TEST(what_lies_outside_of_memory_is_not_made)
{
	struct sp_rdma_cq_create cq = {.offset = RN_MEMORY - 64, .log = 4};
	struct sp_rdma_srq_create srq = {.offset = RN_MEMORY - 64, .log = 4, .sges = 4};
	struct sp_rdma_id id;
	struct sp_rdma_keys keys;

	rn_begin("");
	cq.mem = srq.mem = rn_mem;
	srq.pd = rn_pd;
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_CQ_CREATE, 0, &cq, sizeof(cq), &id, sizeof(id)), -EFAULT);
	cq.offset = 32;
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_CQ_CREATE, 0, &cq, sizeof(cq), &id, sizeof(id)), -EINVAL);
	cq.log = 40;
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_CQ_CREATE, 0, &cq, sizeof(cq), &id, sizeof(id)), -EINVAL);
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_SRQ_CREATE, 0, &srq, sizeof(srq), &id, sizeof(id)), -EFAULT);
	srq.pd = 63;
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_SRQ_CREATE, 0, &srq, sizeof(srq), &id, sizeof(id)), -ENOENT);
	CU_ASSERT_EQUAL(rn_register(0, RN_MEMORY - 8, 9, rn_pd, 15, &keys), -EFAULT);
	CU_ASSERT_EQUAL(rn_register(UINT64_MAX, 0, 9, rn_pd, 15, &keys), -EINVAL);
	CU_ASSERT_EQUAL(rn_register(0, 0, 9, rn_pd, SP_RDMA_REMOTE_WRITE, &keys), -EINVAL);
	CU_ASSERT_EQUAL(rn_register(0, 0, 0, rn_pd, 15, &keys), -EINVAL);
	CU_ASSERT_EQUAL(rn_register(0, 0, 9, 99, 15, &keys), -ENOENT);
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_QP_CREATE, 0, &cq, sizeof(cq), &id, sizeof(id)), -EINVAL);
	CU_ASSERT_EQUAL(rn_control(99, 0, NULL, 0, NULL, 0), -EOPNOTSUPP);
	rn_stop();
}

TEST(keys_tell_nothing_of_each_other)
{
	uint32_t seen[200], same = 0;
	struct sp_rdma_keys keys;

	rn_begin("");
	for (unsigned i = 0; i < 200; i++) {
		CU_ASSERT_EQUAL_FATAL(rn_register(0, 0, 9, rn_pd, 15, &keys), 0);
		seen[i] = keys.rkey;
		for (unsigned k = 0; k < i; k++)
			same += seen[k] == seen[i];
		for (unsigned k = 1; k < i; k++)
			same += seen[i] - seen[i - 1] == seen[k] - seen[k - 1];
	}
	CU_ASSERT_EQUAL(same, 0);
	for (unsigned i = 0; i < 200; i++)
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, seen[i]), 0);
	rn_stop();
}

/* ---- what a packet's IP header says ---- */
/* Of packet i that was sent. */
static bool ip_says(unsigned i, uint8_t class, uint8_t hops)
{
	const uint8_t *l3 = dut.port.sent[i].bytes + 14;

	if (l3[0] >> 4 == 6)
		return (uint8_t)(sp_load_be16(l3) >> 4) == class && l3[7] == hops;
	return l3[1] == class && l3[8] == hops;
}

/* All that the QP sends: answers, READ responses, CNPs, requests. ECN is the NIC's. */
TEST(packets_have_the_traffic_class_and_the_hop_limit_of_the_qp)
{
	static const struct sp_rdma_wqe request = {.op = SP_RDMA_WR_WRITE, .remote = 0x1000, .rkey = 1};
	const struct sp_rdma_sge sge = {RN_VA, 600, 0};

	for (unsigned k = 0; k < 4; k++) {
		const bool ecn = k / 2;
		const uint8_t mine = 0xB8 | (ecn ? 2 : 0);
		struct sp_rdma_sge own = sge;
		uint8_t reth[16];

		rn_begin(ecn ? "ecn=yes" : "");
		rn_ip = k % 2 ? dut_peer6 : dut_peer4;
		rn_class = 0xB9;
		rn_hops = 3;
		rn_connect(SP_RDMA_RC);
		rn_ip = dut_peer4;
		CU_ASSERT(rn_attr().traffic_class == 0xB9 && rn_attr().hop_limit == 3);
		rn_six = k % 2;
		rn_ack = true;
		rn_marked_ce = !(k % 2);
		rn_packet(SP_RC_WRITE_ONLY, WAY(0), (rn_reth(reth, 0, 0, 0), reth), 16, NULL, 0);
		rn_six = k % 2;
		rn_packet(SP_RC_READ_REQUEST, WAY(1), (rn_reth(reth, RN_VA, rn_key, 600), reth), 16, NULL, 0);
		rn_six = k % 2;
		rn_atomic(SP_RC_FETCH_ADD, WAY(4), RN_VA, rn_key, 1, 0);
		own.lkey = rn_key;
		rn_request(&request, &own);
		rn_go();
		CU_ASSERT_EQUAL(dut.port.sents, 1 + (k == 2) + 3 + 1 + 3);
		for (unsigned i = 0; i < dut.port.sents; i++) { /* answers are not marked as ECN-capable */
			const uint8_t opcode = dut.port.sent[i].bytes[14 + (k % 2 ? 40 : 20) + 8];
			const bool data = opcode < 0x11;

			CU_ASSERT(ip_says(i, data ? mine : 0xB8, 3));
		}
		rn_class = rn_hops = 0;
		rn_stop();
	}
}

TEST(datagrams_have_the_traffic_class_and_the_hop_limit_of_their_address_handle)
{
	struct sp_rdma_ah ah[3] = {{.traffic_class = 0x20, .hop_limit = 1}, {.traffic_class = 0xFF, .hop_limit = 255}};
	struct sp_rdma_wqe request = {.op = SP_RDMA_WR_SEND, .remote_qp = 5, .qkey = 7};
	uint32_t id[3];

	rn_begin("");
	rn_connect(SP_RDMA_UD);
	for (unsigned i = 0; i < 3; i++) {
		ah[i].pd = rn_pd;
		memcpy(ah[i].ip, i == 1 ? dut_peer6 : dut_peer4, 16);
		id[i] = rn_id(SP_RDMA_AH_CREATE, &ah[i], sizeof(ah[i]));
		request.ah = id[i];
		rn_request(&request, NULL);
	}
	rn_go();
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 3);
	CU_ASSERT(ip_says(0, 0x20, 1));
	CU_ASSERT(ip_says(1, 0xFC, 255));
	CU_ASSERT(ip_says(2, 0, 64));
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_AH_DESTROY, id[i]), 0);
	rn_go();
	rn_stop();
}

/* ---- SQD ---- */
static int to_sqd(uint32_t mask, uint8_t notify)
{
	/* `draining` is no wish */
	const struct sp_rdma_qp_attr a = {
		.mask = SP_RDMA_QP_STATE | mask, .state = SP_RDMA_SQD, .draining = 1, .sqd_notify = notify};

	return rn_modify(&a);
}

TEST_BETWEEN(start_rc, rn_stop, who_asks_is_told_when_the_send_queue_has_drained)
{
	static const struct sp_rdma_wqe request = {.op = SP_RDMA_WR_SEND, .flags = SP_RDMA_SIGNALED};
	const uint8_t aeth[4] = {0x1F};

	for (unsigned i = 0; i < 4;
	     i++) { /* 0: it asks; 1: without the mask; 2: says no; 3: asks, with nothing to drain */
		if (i < 3)
			rn_request(&request, NULL);
		rn_go();
		CU_ASSERT_EQUAL(to_sqd(i == 1 ? 0 : SP_RDMA_QP_SQD_NOTIFY, i != 2), 0);
		CU_ASSERT_EQUAL(rn_attr().sqd_notify, i == 0 || i == 3);
		if (i < 3) {
			CU_ASSERT_EQUAL(rn_attr().draining, 1);
			CU_ASSERT(rn_no_event());
			rn_packet(SP_RC_ACKNOWLEDGE, i, aeth, 4, NULL, 0);
			CU_ASSERT(rn_completed(0, SP_RDMA_OK, SP_RDMA_WC_SEND, 0));
		}
		rn_go();
		CU_ASSERT_EQUAL(rn_attr().draining, 0);
		if (i == 0 || i == 3)
			CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_SQ_DRAINED));
		CU_ASSERT(rn_no_event());
		CU_ASSERT_EQUAL(rn_state(SP_RDMA_RTS), 0);
	}
	CU_ASSERT_EQUAL(to_sqd(SP_RDMA_QP_SQD_NOTIFY, 1), 0);
	rn_go();
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_SQ_DRAINED));
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
}
