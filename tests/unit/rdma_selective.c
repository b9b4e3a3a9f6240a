/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat: what the responder of RC places, keeps, reports and refuses ahead of missing packets. */
#include "../../handlers/rdma/slot.h"
#include "../lib/rdma_nic.h"

static void start_with(const char *settings)
{
	rn_selective = true;
	rn_begin(settings);
	rn_connect(SP_RDMA_RC);
	rn_selective = false;
}

static void start(void)
{
	start_with("");
}

#define SELECTIVE_TEST(name) TEST_BETWEEN(start, rn_stop, name)
#define WAY(i)		     ((RN_PSN + (i)) & 0xFFFFFF)

static void send(uint8_t opcode, uint32_t psn, uint32_t len)
{
	rn_packet(opcode, psn, NULL, 0, NULL, len);
}

static void ask_send(uint8_t opcode, uint32_t psn, uint32_t len)
{
	rn_ack = true;
	send(opcode, psn, len);
}

/* The next answer is a report: this PSN is missing, `latest` has come last, and these of the 64 behind the first. */
static bool reported(uint32_t psn, uint32_t latest, uint64_t bits)
{
	struct rn_answer a;
	uint64_t seen = 0;

	if (!rn_answered(&a) || a.opcode != 0x11 || a.syndrome != 0x60 || a.psn != psn || a.len < 4)
		return printf("# no report, or of psn %x\n", a.psn), false;
	for (uint32_t i = 4; i < a.len && i < 12; i++)
		seen |= (uint64_t)a.payload[i] << 8 * (i - 4);
	if (sp_load_be32(a.payload) == latest && seen == bits)
		return true;
	printf("# report: latest %x bits %llx\n", sp_load_be32(a.payload), (unsigned long long)seen);
	return false;
}

static uint32_t buffers_left(void)
{
	const struct rdma *s = sp_context_by_id(dut.nic, rn_context)->state;

	return s->selective.buffers[rn_worker].left;
}

SELECTIVE_TEST(a_writes_packets_are_placed_at_once_and_completed_in_order)
{
	uint8_t word[4] = {1, 2, 3, 4};
	const struct sp_rdma_cqe *e;

	rn_receive(7, 0, 0);
	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, 3 * RN_MTU + 8, RN_MTU);
	CU_ASSERT(rn_silent());
	send(SP_RC_WRITE_MIDDLE, WAY(2), RN_MTU);
	CU_ASSERT(reported(WAY(1), WAY(2), 1));
	CU_ASSERT(rn_filled(2 * RN_MTU, 0, RN_MTU));
	CU_ASSERT(rn_untouched(RN_MTU, RN_MTU));
	rn_ack = true;
	rn_packet(SP_RC_WRITE_LAST_IMM, WAY(3), word, 4, NULL, 8);
	CU_ASSERT(reported(WAY(1), WAY(3), 3));
	CU_ASSERT(rn_filled(3 * RN_MTU, 0, 8));
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT_EQUAL(rn_count("placed_ahead"), 2);
	send(SP_RC_WRITE_MIDDLE, WAY(1), RN_MTU);
	CU_ASSERT(rn_acked(0x1F, WAY(3)));
	CU_ASSERT(rn_filled(RN_MTU, 0, RN_MTU));
	e = rn_completion();
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT(e->wr_id == 7 && e->flags == SP_RDMA_WC_IMM && !memcmp(&e->imm, word, 4) && e->len == 3 * RN_MTU + 8);
	CU_ASSERT(rn_untouched(3 * RN_MTU + 8, 100));
	CU_ASSERT_EQUAL(buffers_left(), 256);
}

SELECTIVE_TEST(what_has_no_place_yet_waits_and_is_executed_in_order)
{
	struct rn_answer a;
	uint8_t ext[16];

	for (unsigned i = 0; i < 4; i++)
		rn_receive(i, i * 1024, 1024);
	rn_reth(ext, RN_VA, rn_key, RN_MTU);
	rn_packet(SP_RC_READ_REQUEST, WAY(4), ext, 16, NULL, 0);
	CU_ASSERT(reported(WAY(0), WAY(4), 8));
	send(SP_RC_SEND_ONLY, WAY(3), 30);
	send(SP_RC_SEND_LAST, WAY(2), 20);
	ask_send(SP_RC_SEND_FIRST, WAY(1), RN_MTU);
	CU_ASSERT(reported(WAY(0), WAY(1), 15));
	send(SP_RC_SEND_ONLY, WAY(3), 30); /* comes twice */
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT(rn_untouched(0, 4096));
	CU_ASSERT_EQUAL(buffers_left(), 252);
	send(SP_RC_SEND_ONLY, WAY(0), 10);
	CU_ASSERT(rn_completed(0, SP_RDMA_OK, SP_RDMA_WC_RECV, 10));
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, RN_MTU + 20));
	CU_ASSERT(rn_completed(2, SP_RDMA_OK, SP_RDMA_WC_RECV, 30));
	CU_ASSERT(rn_filled(1024, 0, RN_MTU) && rn_filled(1024 + RN_MTU, 0, 20) && rn_filled(2048, 0, 30));
	CU_ASSERT(rn_answered(&a) && a.opcode == SP_RC_READ_RESPONSE_ONLY && a.psn == WAY(4) && a.msn == 4);
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(buffers_left(), 256);
	CU_ASSERT_EQUAL(rn_count("duplicates"), 1);
}

TEST(without_a_buffer_it_has_to_come_again)
{
	start_with("selective-buffers=1");
	for (unsigned i = 0; i < 3; i++)
		rn_receive(i, i * 1024, 1024);
	send(SP_RC_SEND_ONLY, WAY(1), 10);
	CU_ASSERT(reported(WAY(0), WAY(1), 1));
	ask_send(SP_RC_SEND_ONLY, WAY(2), 20);
	CU_ASSERT(reported(WAY(0), WAY(2), 1));
	CU_ASSERT_EQUAL(rn_dropped("ahead"), 1);
	ask_send(SP_RC_SEND_ONLY, WAY(0), 30);
	CU_ASSERT(reported(WAY(2), WAY(0), 0)); /* it has been seen, and has to come again */
	ask_send(SP_RC_SEND_ONLY, WAY(2), 20);
	CU_ASSERT(rn_acked(0x1F, WAY(2)));
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT(rn_completed(i, SP_RDMA_OK, SP_RDMA_WC_RECV, (const uint32_t[]){30, 10, 20}[i]));
	rn_stop();
}

/* What the later one writes must stay. */
SELECTIVE_TEST(a_write_over_another_waits_for_it)
{
	uint8_t old[RN_MTU];

	memset(old, 0x11, sizeof(old));
	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, 3 * RN_MTU, RN_MTU);
	rn_write(SP_RC_WRITE_FIRST, WAY(3), RN_VA + RN_MTU, rn_key, 2 * RN_MTU, RN_MTU);
	send(SP_RC_WRITE_LAST, WAY(4), RN_MTU);
	CU_ASSERT_EQUAL(rn_count("placed_ahead"), 0);
	rn_packet(SP_RC_WRITE_MIDDLE, WAY(1), NULL, 0, old, RN_MTU);
	rn_packet(SP_RC_WRITE_LAST, WAY(2), NULL, 0, old, RN_MTU);
	CU_ASSERT(rn_filled(RN_MTU, 0, RN_MTU) && rn_filled(2 * RN_MTU, 0, RN_MTU));
	CU_ASSERT_EQUAL(rn_count("messages"), 2);
	CU_ASSERT(reported(WAY(1), WAY(3), 2));
}

/* A message that nobody knows of yet might write there, too. */
SELECTIVE_TEST(behind_a_gap_that_may_hide_a_message_nothing_is_placed)
{
	rn_write(SP_RC_WRITE_FIRST, WAY(1), RN_VA, rn_key, 3 * RN_MTU, RN_MTU);
	send(SP_RC_WRITE_MIDDLE, WAY(2), RN_MTU);
	CU_ASSERT(rn_untouched(0, 4096));
	CU_ASSERT_EQUAL(rn_count("kept_ahead"), 2);
	rn_write(SP_RC_WRITE_ONLY, WAY(0), RN_VA + 4096, rn_key, 4, 4);
	CU_ASSERT(rn_filled(0, 0, RN_MTU) && rn_filled(RN_MTU, 0, RN_MTU));
	rn_ack = true;
	send(SP_RC_WRITE_LAST, WAY(3), RN_MTU);
	CU_ASSERT(reported(WAY(0), WAY(1), 1));
	CU_ASSERT(rn_acked(0x1F, WAY(3)));
}

/* ---- peers that lie ---- */
static void ends_with(uint8_t syndrome, uint32_t psn)
{
	CU_ASSERT(rn_acked(syndrome, psn));
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
	CU_ASSERT_EQUAL(buffers_left(), 256);
}

SELECTIVE_TEST(nothing_is_written_beyond_a_region)
{
	const uint32_t room = RN_MEMORY - RN_DATA;

	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, 2 * RN_MTU, RN_MTU);
	rn_write(SP_RC_WRITE_FIRST, WAY(2), RN_VA + room - RN_MTU, rn_key, 3 * RN_MTU, RN_MTU);
	CU_ASSERT(reported(WAY(1), WAY(2), 1));
	send(SP_RC_WRITE_MIDDLE, WAY(3), RN_MTU);
	CU_ASSERT(rn_untouched(room - RN_MTU, RN_MTU));
	send(SP_RC_WRITE_LAST, WAY(1), RN_MTU);
	ends_with(0x62, WAY(2));
	CU_ASSERT(rn_untouched(room - RN_MTU, RN_MTU));
}

SELECTIVE_TEST(a_packet_that_does_not_fit_its_message_is_refused_in_its_turn)
{
	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, 3 * RN_MTU, RN_MTU);
	send(SP_RC_WRITE_LAST, WAY(2), 16); /* 256 were said */
	CU_ASSERT(reported(WAY(1), WAY(2), 1));
	CU_ASSERT(rn_untouched(2 * RN_MTU, RN_MTU));
	send(SP_RC_WRITE_MIDDLE, WAY(1), RN_MTU);
	ends_with(0x61, WAY(2));
	CU_ASSERT(rn_untouched(2 * RN_MTU, RN_MTU));
}

SELECTIVE_TEST(a_key_that_ends_in_between_ends_the_message)
{
	struct sp_rdma_keys keys;

	CU_ASSERT_EQUAL_FATAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, 15, &keys), 0);
	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, keys.rkey, 4 * RN_MTU, RN_MTU);
	send(SP_RC_WRITE_MIDDLE, WAY(2), RN_MTU);
	CU_ASSERT(reported(WAY(1), WAY(2), 1));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), 0);
	send(SP_RC_WRITE_LAST, WAY(3), RN_MTU);
	CU_ASSERT(rn_untouched(3 * RN_MTU, RN_MTU));
	send(SP_RC_WRITE_MIDDLE, WAY(1), RN_MTU);
	ends_with(0x62, WAY(1));
	CU_ASSERT(rn_untouched(RN_MTU, RN_MTU));
}

SELECTIVE_TEST(a_window_ahead_is_kept_and_no_more)
{
	send(SP_RC_SEND_ONLY, WAY(255), 4);
	CU_ASSERT(reported(WAY(0), WAY(255), 0));
	CU_ASSERT_EQUAL(buffers_left(), 255);
	send(SP_RC_SEND_ONLY, WAY(256), 4);
	send(SP_RC_SEND_ONLY, WAY(70000), 4);
	CU_ASSERT_EQUAL(rn_dropped("ahead"), 2);
	CU_ASSERT_EQUAL(buffers_left(), 255);
	CU_ASSERT(rn_silent());
}

/* ---- receivers that are not ready ---- */
SELECTIVE_TEST(without_a_receive_entry_the_kept_packet_comes_again)
{
	send(SP_RC_SEND_ONLY, WAY(1), 10);
	send(SP_RC_SEND_ONLY, WAY(2), 20);
	CU_ASSERT(reported(WAY(0), WAY(1), 1));
	rn_write(SP_RC_WRITE_ONLY, WAY(0), RN_VA, rn_key, 4, 4);
	CU_ASSERT(rn_acked(0x20 | 14, WAY(1)));
	ask_send(SP_RC_SEND_ONLY, WAY(3), 30); /* it knows: no report */
	CU_ASSERT(rn_silent());
	for (unsigned i = 1; i < 4; i++)
		rn_receive(i, i * 1024, 1024);
	ask_send(SP_RC_SEND_ONLY, WAY(1), 10);
	CU_ASSERT(rn_acked(0x1F, WAY(3)));
	for (uint32_t i = 1; i < 4; i++)
		CU_ASSERT(rn_completed(i, SP_RDMA_OK, SP_RDMA_WC_RECV, 10 * i));
	CU_ASSERT_EQUAL(buffers_left(), 256);
}

/* ---- who has it ---- */
TEST(a_stranger_gets_plain_rc)
{
	struct rn_answer a;

	rn_begin("");
	rn_connect(SP_RDMA_RC);
	CU_ASSERT_EQUAL(rn_attr().selective, 0);
	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, 3 * RN_MTU, RN_MTU);
	ask_send(SP_RC_WRITE_LAST, WAY(2), RN_MTU);
	CU_ASSERT(rn_answered(&a) && a.syndrome == 0x60 && a.psn == WAY(1));
	CU_ASSERT_EQUAL(a.len, 0);
	CU_ASSERT(rn_untouched(2 * RN_MTU, RN_MTU));
	CU_ASSERT_EQUAL(rn_dropped("ahead"), 1);
	ask_send(SP_RC_WRITE_MIDDLE, WAY(1), RN_MTU);
	CU_ASSERT(rn_acked(0x1F, WAY(1)));
	CU_ASSERT_EQUAL(rn_count("placed_ahead") + rn_count("kept_ahead"), 0);
	rn_stop();
}

TEST(as_many_qps_have_it_as_the_parameter_says)
{
	uint32_t first;

	start_with("selective-qps=1");
	CU_ASSERT_EQUAL(rn_attr().selective, 1);
	first = rn_qpn;
	rn_qp(SP_RDMA_RC, 0);
	rn_to(SP_RDMA_INIT);
	{
		struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU |
						    SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN | SP_RDMA_QP_MAX_DEST_RD |
						    SP_RDMA_QP_MIN_RNR | SP_RDMA_QP_SELECTIVE,
					    .state = SP_RDMA_RTR,
					    .path_mtu = RN_MTU,
					    .selective = 1};
		const uint32_t second = rn_qpn;

		memcpy(a.ip, dut_peer4, 16);
		CU_ASSERT_EQUAL(rn_modify(&a), -ENOSPC);
		rn_qpn = first;
		CU_ASSERT_EQUAL(rn_destroy(), 0);
		rn_qpn = second;
		CU_ASSERT_EQUAL(rn_modify(&a), 0);
		CU_ASSERT_EQUAL(rn_attr().selective, 1);
		CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
		rn_to(SP_RDMA_RTR);
		CU_ASSERT_EQUAL(rn_attr().selective, 0);
	}
	rn_stop();
}
