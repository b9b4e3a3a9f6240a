/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder of RC: what it places, acknowledges and refuses. */
#include "../lib/rdma_nic.h"

static void start_rc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_RC);
}

#define RC_TEST(name) TEST_BETWEEN(start_rc, rn_stop, name)
#define WAY(i)	      (RN_PSN + (i))

static void send(uint8_t opcode, uint32_t psn, uint32_t len)
{
	rn_packet(opcode, psn, NULL, 0, NULL, len);
}

static void ask_send(uint8_t opcode, uint32_t psn, uint32_t len)
{
	rn_ack = true;
	send(opcode, psn, len);
}

static uint8_t state_now(void)
{
	return (uint8_t)rn_attr().state;
}

/* The QP has refused: this NAK, this event (-1: none), ERR, and deaf from then on. */
static bool refused(uint8_t syndrome, uint32_t psn, int async)
{
	bool ok = rn_acked(syndrome, psn) && state_now() == SP_RDMA_ERR;

	ok = ok && (async < 0 ? rn_no_event() : rn_event(SP_RDMA_EVENT_ASYNC, (unsigned)async));
	send(SP_RC_SEND_ONLY, psn, 4);
	return ok && rn_silent();
}

RC_TEST(a_send_fills_a_receive_entry)
{
	const struct sp_rdma_sge sge[3] = {{RN_VA, 100, rn_key}, {RN_VA + 500, 0, rn_key}, {RN_VA + 200, 1000, rn_key}};

	rn_receive_sges(7, sge, 3);
	rn_receive(8, 4096, 10);
	send(SP_RC_SEND_FIRST, WAY(0), RN_MTU);
	send(SP_RC_SEND_MIDDLE, WAY(1), RN_MTU);
	CU_ASSERT(rn_silent()); /* nobody has asked */
	CU_ASSERT_PTR_NULL(rn_completion());
	ask_send(SP_RC_SEND_LAST, WAY(2), 5);
	CU_ASSERT(rn_acked(0x1F, WAY(2)));
	CU_ASSERT(rn_completed(7, SP_RDMA_OK, SP_RDMA_WC_RECV, 2 * RN_MTU + 5));
	CU_ASSERT(rn_filled(0, 0, 100));
	CU_ASSERT(rn_filled(200, 100, RN_MTU - 100));
	CU_ASSERT(rn_filled(200 + RN_MTU - 100, 0, RN_MTU));
	CU_ASSERT(rn_untouched(100, 100));
	ask_send(SP_RC_SEND_ONLY, WAY(3), 0);
	CU_ASSERT(rn_acked(0x1F, WAY(3)));
	CU_ASSERT(rn_completed(8, SP_RDMA_OK, SP_RDMA_WC_RECV, 0));
	CU_ASSERT_EQUAL(rn_count("messages"), 2);
}

RC_TEST(immediate_data_and_invalidation_arrive)
{
	const struct sp_rdma_cqe *e;
	struct sp_rdma_keys keys;
	uint8_t word[4] = {1, 2, 3, 4};

	rn_receive(1, 0, 100);
	rn_receive(2, 0, 100);
	rn_packet(SP_RC_SEND_ONLY_IMM, WAY(0), word, 4, NULL, 8);
	e = rn_completion();
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT_EQUAL(e->flags, SP_RDMA_WC_IMM);
	CU_ASSERT(!memcmp(&e->imm, word, 4));
	CU_ASSERT_EQUAL_FATAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, 15, &keys), 0);
	sp_store_be32(word, keys.rkey);
	rn_packet(SP_RC_SEND_ONLY_INVALIDATE, WAY(1), word, 4, NULL, 8);
	e = rn_completion();
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT_EQUAL(e->flags, SP_RDMA_WC_INV);
	CU_ASSERT_EQUAL(e->imm, keys.rkey);
	rn_write(SP_RC_WRITE_ONLY, WAY(2), RN_VA + 512, keys.rkey, 8, 8);
	CU_ASSERT(refused(0x62, WAY(2), SP_RDMA_ASYNC_QP_ACCESS_ERR));
	CU_ASSERT(rn_untouched(512, 8));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), 0);
}

RC_TEST(a_write_goes_where_it_says)
{
	uint8_t ext[20];

	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA + 100, rn_key, RN_MTU + 3, RN_MTU);
	rn_ack = true;
	send(SP_RC_WRITE_LAST, WAY(1), 3);
	CU_ASSERT(rn_acked(0x1F, WAY(1)));
	CU_ASSERT(rn_filled(100, 0, RN_MTU));
	CU_ASSERT(rn_filled(100 + RN_MTU, 0, 3));
	CU_ASSERT(rn_untouched(0, 100));
	CU_ASSERT(rn_untouched(103 + RN_MTU, 100));
	CU_ASSERT_PTR_NULL(rn_completion());
	/* Nothing is written: any key will do. */
	rn_ack = true;
	rn_write(SP_RC_WRITE_ONLY, WAY(2), 5, 12345, 0, 0);
	CU_ASSERT(rn_acked(0x1F, WAY(2)));
	/* With immediate data it takes a receive entry. */
	rn_receive(9, 0, 0);
	rn_reth(ext, RN_VA + 2048, rn_key, 20);
	memset(ext + 16, 5, 4);
	rn_packet(SP_RC_WRITE_ONLY_IMM, WAY(3), ext, 20, NULL, 20);
	CU_ASSERT(rn_completed(9, SP_RDMA_OK, SP_RDMA_WC_RECV_WRITE_IMM, 20));
	CU_ASSERT(rn_filled(2048, 0, 20));
	CU_ASSERT_EQUAL(rn_state_of()->in.msn, 3);
}

/* ---- keys and bounds ---- */
static void bad_write(uint64_t va, uint32_t rkey, uint32_t dma_len, uint32_t len)
{
	start_rc();
	rn_write(dma_len > RN_MTU ? SP_RC_WRITE_FIRST : SP_RC_WRITE_ONLY, WAY(0), va, rkey, dma_len, len);
	CU_ASSERT(refused(0x62, WAY(0), SP_RDMA_ASYNC_QP_ACCESS_ERR));
	CU_ASSERT(rn_untouched(0, RN_MEMORY - RN_DATA));
	CU_ASSERT_EQUAL(rn_count("naks_access"), 1);
	rn_stop();
}

TEST(no_byte_is_written_beyond_a_region)
{
	const uint64_t end = RN_VA + RN_MEMORY - RN_DATA;

	bad_write(RN_VA - 1, (start_rc(), rn_stop(), rn_key), 4, 4);
	for (unsigned i = 0; i < 6; i++) {
		const struct {
			uint64_t va;
			uint32_t len;
		} at[6] = {{RN_VA - 1, 2}, {end - 3, 4}, {end, 1}, {UINT64_MAX, 2}, {0, 1u << 31}, {RN_VA, 1u << 31}};

		start_rc();
		rn_write(at[i].len > RN_MTU ? SP_RC_WRITE_FIRST : SP_RC_WRITE_ONLY, WAY(0), at[i].va, rn_key, at[i].len,
			 at[i].len > RN_MTU ? RN_MTU : at[i].len);
		CU_ASSERT(refused(0x62, WAY(0), SP_RDMA_ASYNC_QP_ACCESS_ERR));
		CU_ASSERT(rn_untouched(0, RN_MEMORY - RN_DATA));
		rn_stop();
	}
}

TEST(a_key_of_another_domain_without_the_right_or_a_guess_is_refused)
{
	for (unsigned i = 0; i < 5; i++) {
		struct sp_rdma_keys keys;
		uint32_t other, key, bit = 1u << (i * 8 % 32);

		start_rc();
		other = rn_id(SP_RDMA_PD_CREATE, NULL, 0);
		CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 64, i ? rn_pd : other, i ? 5 : 15, &keys), 0);
		key = i < 2 ? keys.rkey : i == 4 ? 0 : rn_key ^ bit;
		rn_write(SP_RC_WRITE_ONLY, WAY(0), RN_VA, key, 4, 4);
		CU_ASSERT(refused(0x62, WAY(0), SP_RDMA_ASYNC_QP_ACCESS_ERR));
		CU_ASSERT(rn_untouched(0, 64));
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), 0);
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), -ENOENT);
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_PD_DESTROY, other), 0);
		rn_stop();
	}
}

/* ---- NAK: invalid request ---- */
static void invalid(uint8_t first, uint32_t first_len, uint8_t opcode, uint32_t len, uint8_t pad)
{
	const bool lone = first == 0xFF;

	start_rc();
	rn_receive(1, 0, 4096);
	if (first == SP_RC_WRITE_FIRST)
		rn_write(first, WAY(0), RN_VA, rn_key, 3 * RN_MTU, first_len);
	else if (!lone)
		send(first, WAY(0), first_len);
	rn_pads = pad;
	send(opcode, WAY(lone ? 0 : 1), len);
	CU_ASSERT(rn_acked(0x61, WAY(lone ? 0 : 1)));
	CU_ASSERT_EQUAL(state_now(), SP_RDMA_ERR);
	CU_ASSERT_EQUAL(rn_count("naks_invalid"), 1);
	rn_stop();
}

TEST(what_is_out_of_its_order_or_length_is_an_invalid_request)
{
	invalid(0xFF, 0, SP_RC_SEND_MIDDLE, RN_MTU, 0);
	invalid(0xFF, 0, SP_RC_SEND_LAST, 4, 0);
	invalid(0xFF, 0, SP_RC_WRITE_LAST, 4, 0);
	invalid(SP_RC_SEND_FIRST, RN_MTU, SP_RC_SEND_ONLY, 4, 0);
	invalid(SP_RC_SEND_FIRST, RN_MTU, SP_RC_WRITE_MIDDLE, RN_MTU, 0);
	invalid(SP_RC_WRITE_FIRST, RN_MTU, SP_RC_SEND_LAST, 4, 0);
	invalid(0xFF, 0, SP_RC_SEND_FIRST, RN_MTU - 4, 0);
	invalid(0xFF, 0, SP_RC_SEND_ONLY, RN_MTU + 4, 0);
	invalid(SP_RC_SEND_FIRST, RN_MTU, SP_RC_SEND_MIDDLE, 4, 0);
	invalid(SP_RC_SEND_FIRST, RN_MTU, SP_RC_SEND_LAST, 0, 0);
	invalid(SP_RC_WRITE_FIRST, RN_MTU, SP_RC_WRITE_LAST, 4, 0); /* less than it says */
	invalid(0xFF, 0, SP_RC_SEND_FIRST, RN_MTU, 3);
	invalid(0xFF, 0, 0x15, 0, 0); /* no opcode */
}

TEST(a_qp_without_the_right_refuses_the_request)
{
	uint8_t reth[16];

	for (unsigned i = 0; i < 3; i++) {
		struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_ACCESS, .access = 0};

		start_rc();
		CU_ASSERT_EQUAL(rn_modify(&a), 0);
		rn_reth(reth, RN_VA, rn_key, 8);
		if (i == 2)
			rn_atomic(SP_RC_FETCH_ADD, WAY(0), RN_VA, rn_key, 1, 0);
		else
			rn_packet(i ? SP_RC_READ_REQUEST : SP_RC_WRITE_ONLY, WAY(0), reth, 16, NULL, i ? 0 : 8);
		CU_ASSERT(refused(0x61, WAY(0), SP_RDMA_ASYNC_QP_REQ_ERR));
		rn_stop();
	}
}

RC_TEST(a_send_that_is_too_long_completes_with_an_error)
{
	rn_receive(3, 0, 10);
	rn_receive(4, 0, 10);
	send(SP_RC_SEND_ONLY, WAY(0), 11);
	CU_ASSERT(rn_acked(0x61, WAY(0)));
	CU_ASSERT(rn_completed(3, SP_RDMA_LOC_LEN_ERR, SP_RDMA_WC_RECV, 0));
	CU_ASSERT(rn_completed(4, SP_RDMA_FLUSHED, SP_RDMA_WC_RECV, 0));
	CU_ASSERT_EQUAL(state_now(), SP_RDMA_ERR);
	CU_ASSERT(rn_untouched(10, 100));
	/* What is posted later is flushed, too. */
	rn_receive(5, 0, 10);
	rn_now = dut_run(&dut, rn_now, rn_now + SP_MS);
	CU_ASSERT(rn_completed(5, SP_RDMA_FLUSHED, SP_RDMA_WC_RECV, 0));
}

TEST(a_receive_entry_that_lies_is_the_applications_fault)
{
	for (unsigned i = 0; i < 3; i++) {
		struct sp_rdma_sge sge[4] = {{RN_VA, 100, 0}};

		start_rc();
		sge[0].lkey = i == 0 ? rn_key + 0x10000 : rn_key;
		if (i == 1)
			sge[0].addr = RN_VA + RN_MEMORY - RN_DATA - 99;
		rn_receive_sges(6, sge, i == 2 ? 17 : 1);
		send(SP_RC_SEND_ONLY, WAY(0), 4);
		CU_ASSERT(rn_acked(0x63, WAY(0)));
		CU_ASSERT(rn_completed(6, i == 2 ? SP_RDMA_LOC_QP_OP_ERR : SP_RDMA_LOC_PROT_ERR, SP_RDMA_WC_RECV, 0));
		CU_ASSERT_EQUAL(state_now(), SP_RDMA_ERR);
		CU_ASSERT_EQUAL(rn_count("naks_operation"), 1);
		rn_stop();
	}
}

/* ---- order of packets ---- */
RC_TEST(one_nak_until_the_missing_packet_comes)
{
	rn_receive(1, 0, 100);
	rn_receive(2, 100, 100);
	rn_receive(3, 200, 100);
	ask_send(SP_RC_SEND_ONLY, WAY(1), 4);
	CU_ASSERT(rn_acked(0x60, WAY(0)));
	ask_send(SP_RC_SEND_ONLY, WAY(2), 4);
	CU_ASSERT(rn_silent());
	CU_ASSERT_PTR_NULL(rn_completion());
	for (unsigned i = 0; i < 3; i++)
		ask_send(SP_RC_SEND_ONLY, WAY(i), 4 + i);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT(rn_acked(0x1F, WAY(i)));
		CU_ASSERT(rn_completed(1 + i, SP_RDMA_OK, SP_RDMA_WC_RECV, 4 + i));
	}
	ask_send(SP_RC_SEND_ONLY, WAY(4), 4);
	CU_ASSERT(rn_acked(0x60, WAY(3)));
	CU_ASSERT_EQUAL(rn_count("naks_sequence"), 2);
	CU_ASSERT_EQUAL(rn_attr().naks_sent, 2);
}

RC_TEST(packets_that_come_at_once_get_one_ack)
{
	for (unsigned i = 0; i < 8; i++)
		rn_receive(i, i * 16, 16);
	for (unsigned i = 0; i < 8; i++) {
		rn_ack = true;
		rn_feed(SP_RC_SEND_ONLY, WAY(i), NULL, 0, "1234", 4);
	}
	rn_go();
	CU_ASSERT(rn_acked(0x1F, WAY(7)));
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_count("messages"), 8);
}

RC_TEST(a_duplicate_is_acknowledged_and_not_executed)
{
	rn_receive(1, 0, 100);
	rn_receive(2, 100, 100);
	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	rn_write(SP_RC_WRITE_ONLY, WAY(1), RN_VA + 1000, rn_key, 8, 8);
	CU_ASSERT(rn_acked(0x1F, WAY(0)));
	memset(rn_memory + RN_DATA, 0xEE, 4096);
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_acked(0x1F, WAY(1)));
	rn_write(SP_RC_WRITE_ONLY, WAY(1), RN_VA + 1000, rn_key, 8, 8);
	CU_ASSERT(rn_acked(0x1F, WAY(1)));
	CU_ASSERT(rn_untouched(0, 4096));
	CU_ASSERT_PTR_NOT_NULL(rn_completion());
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT_EQUAL(rn_count("duplicates"), 2);
	CU_ASSERT_EQUAL(rn_count("messages"), 2);
}

RC_TEST(of_duplicates_that_come_at_once_the_latest_is_acknowledged)
{
	struct rn_answer a;
	uint8_t reth[16];

	rn_receive(1, 0, 100);
	rn_receive(2, 100, 100);
	rn_reth(reth, RN_VA + 1000, rn_key, 8);
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	rn_packet(SP_RC_READ_REQUEST, WAY(1), reth, sizeof(reth), NULL, 0);
	CU_ASSERT(rn_answered(&a) && a.opcode == SP_RC_READ_RESPONSE_ONLY);
	ask_send(SP_RC_SEND_ONLY, WAY(2), 4);
	CU_ASSERT(rn_acked(0x1F, WAY(2)));
	for (int i = 2; i >= 0; i -= 2) {
		rn_ack = true;
		rn_feed(SP_RC_SEND_ONLY, WAY(i), NULL, 0, "1234", 4);
	}
	rn_go();
	CU_ASSERT(rn_acked(0x1F, WAY(2)));
	CU_ASSERT_EQUAL(rn_count("duplicates"), 2);
}

RC_TEST(without_a_receive_entry_the_peer_is_told_to_wait)
{
	uint8_t ext[20];

	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_acked(0x20 | 14, WAY(0)));
	ask_send(SP_RC_SEND_ONLY, WAY(1), 4); /* sent before the peer knew */
	CU_ASSERT(rn_silent());
	rn_receive(1, 0, 100);
	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_acked(0x1F, WAY(0)));
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 4));
	rn_reth(ext, RN_VA + 2048, rn_key, 20);
	rn_packet(SP_RC_WRITE_ONLY_IMM, WAY(1), ext, 20, NULL, 20);
	CU_ASSERT(rn_acked(0x20 | 14, WAY(1)));
	CU_ASSERT(rn_untouched(2048, 20));
	CU_ASSERT_EQUAL(rn_attr().rnrs_sent, 2);
	CU_ASSERT_EQUAL(state_now(), SP_RDMA_RTS);
}

/* ---- who may send what ---- */
RC_TEST(strangers_and_other_partitions_are_not_heard)
{
	static const uint8_t stranger[4] = {192, 0, 2, 77};

	rn_receive(1, 0, 100);
	rn_source = stranger;
	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	rn_pkey = 0x7FFE;
	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	rn_six = true;
	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	ask_send(SP_UC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_silent());
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT_EQUAL(rn_dropped("bad-source"), 2);
	CU_ASSERT_EQUAL(rn_dropped("bad-pkey"), 1);
	CU_ASSERT_EQUAL(rn_dropped("wrong-type"), 1);
	rn_pkey = 0x7FFF; /* a limited member of ours */
	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_acked(0x1F, WAY(0)));
}

TEST(data_before_rts_is_taken_and_told)
{
	rn_begin("");
	rn_qp(SP_RDMA_RC, 0);
	rn_receive(1, 0, 100);
	send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT_EQUAL(rn_dropped("wrong-state"), 1);
	rn_to(SP_RDMA_RTR);
	ask_send(SP_RC_SEND_ONLY, WAY(0), 4);
	CU_ASSERT(rn_acked(0x1F, WAY(0)));
	CU_ASSERT(rn_event(SP_RDMA_EVENT_ASYNC, SP_RDMA_ASYNC_COMM_EST));
	rn_receive(2, 0, 100);
	send(SP_RC_SEND_ONLY, WAY(1), 4);
	CU_ASSERT(rn_no_event());
	rn_stop();
}

TEST(a_marked_packet_is_answered_by_a_cnp_now_and_then)
{
	struct rn_answer a;

	rn_begin("ecn=yes");
	rn_connect(SP_RDMA_RC);
	for (unsigned i = 0; i < 3; i++) {
		rn_receive(i, 0, 100);
		rn_marked_ce = true;
		send(SP_RC_SEND_ONLY, WAY(i), 4);
	}
	CU_ASSERT_FATAL(rn_answered(&a));
	CU_ASSERT_EQUAL(a.opcode, 0x81);
	CU_ASSERT_EQUAL(a.qp, RN_PEER);
	CU_ASSERT_EQUAL(a.len, 16);
	CU_ASSERT(rn_silent());
	rn_now += SP_MS;
	rn_receive(4, 0, 100);
	rn_marked_ce = true;
	send(SP_RC_SEND_ONLY, WAY(3), 4);
	CU_ASSERT(rn_answered(&a));
	CU_ASSERT_EQUAL(rn_count("cnps_sent"), 2);
	rn_stop();
}

/* ---- payload past the caches ---- */
TEST(payload_that_goes_past_the_caches_is_all_there)
{
	static const uint32_t lengths[] = {508, 512, 516, 572, 576, 580, 1020, 1024}, places[] = {64, 4096, 4104, 4159};
	uint32_t k = 0;

	rn_mtu = 1024;
	rn_begin("stream-from=1");
	rn_connect(SP_RDMA_RC);
	for (unsigned l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
		for (unsigned p = 0; p < sizeof(places) / sizeof(*places); p++) {
			const uint32_t at = places[p], len = lengths[l];

			memset(rn_memory + RN_DATA, 0xEE, 8192);
			rn_write(SP_RC_WRITE_ONLY, WAY(k++), RN_VA + at, rn_key, len, len);
			CU_ASSERT(rn_filled(at, 0, len));
			CU_ASSERT(rn_untouched(at - 64, 64));
			CU_ASSERT(rn_untouched(at + len, 64));
		}
	rn_stop();
	rn_mtu = RN_MTU;
}
