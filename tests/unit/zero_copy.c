/* SPDX-License-Identifier: BSD-3-Clause */
/* Payload that is sent from where it lies: the same bytes on the wire as if it had been copied; and when it is copied.
 */
#include "../../pipeline/rx/rule.h"

#include "../lib/tx_ring.h"

/* ---- the wire ---- */

#define EXTS (SP_EXT_MAX / 4 + 1)

struct frame_sent {
	uint32_t len;
	uint8_t bytes[5200];
};

/* Every length with every length of extension headers. */
static void send_all(const struct sp_port_ops *ops, bool six, struct frame_sent *frame)
{
	uint8_t ext[SP_EXT_MAX];

	tx_ring_start(ops);
	uint32_t id = dut_context(&dut, "s", "sender", six ? "qp=5;peer=:" : "qp=5;peer=4");
	struct sp_mr *mr = test_region(8192);
	memcpy(ext, (uint8_t *)mr->addr + 100, sizeof(ext));
	for (unsigned i = 0; i < RTE_DIM(lend_lengths); i++)
		for (unsigned e = 0; e < EXTS; e++) {
			struct sp_send s = {.dest_qp = 0x123456 + i,
					    .psn = 0xFFFFF0 + e + i,
					    .opcode = 0x2B,
					    .flags = e % 3 ? 0 : SP_PKT_SE,
					    .udp_source = (uint16_t)(0xC000 + i),
					    .ext = ext,
					    .ext_len = e * 4,
					    .len = lend_lengths[i],
					    .offset = i * 7 + e};
			const uint8_t *at = (const uint8_t *)mr->addr + s.offset;
			const bool stays = ops->external && s.len >= SP_LEND_MIN;

			sender_job.send = &s;
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_MEM, 0, mr->id), 0);
			dut_poll(&dut, 1);
			CU_ASSERT_EQUAL(tx_ring.last.pieces, stays ? 3 : 1);
			CU_ASSERT(!stays || tx_ring.last.second == at);
			if (tx_ring.last.len <= 2000)
				CU_ASSERT(tx_ring_icrc_ok());
			frame->len = tx_ring.last.len;
			memcpy(frame++->bytes, tx_ring.last.bytes, tx_ring.last.len);
		}
	CU_ASSERT_EQUAL(dut_view(&dut, id, sent), RTE_DIM(lend_lengths) * EXTS);
	CU_ASSERT_EQUAL(tx_ring.sent, RTE_DIM(lend_lengths) * EXTS);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	tx_ring_stop();
}

TEST(a_frame_lent_has_the_bytes_of_a_frame_copied)
{
	const unsigned n = RTE_DIM(lend_lengths) * EXTS;
	struct frame_sent *frame = calloc(2 * n, sizeof(*frame));

	CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
	for (unsigned six = 0; six < 2; six++) {
		unsigned differ = 0;

		send_all(&tx_ring_copying, six, frame);
		send_all(&tx_ring_lending, six, frame + n);
		for (unsigned i = 0; i < n; i++)
			differ += frame[i].len != frame[n + i].len ||
				  memcmp(frame[i].bytes, frame[n + i].bytes, frame[i].len);
		CU_ASSERT_EQUAL(differ, 0);
	}
	free(frame);
}

/* Runs whose packets are lent, copied, too long, by turns. */
TEST(runs_lent_have_the_bytes_of_runs_copied)
{
	enum { RUNS = 40, RUN = 45 };
	struct frame_sent *frame = calloc(2 * RUNS * RUN, sizeof(*frame)), *f = frame;
	static uint8_t ext[SP_EXT_MAX] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
	unsigned differ = 0, pieces = 0, large = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
	for (unsigned side = 0; side < 2; side++) {
		uint64_t seed = 11;

		tx_ring_start(side ? &tx_ring_lending : &tx_ring_copying);
		uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
		struct sp_mr *mr = test_region(16384);
		tx_ring.keeps = true;
		for (unsigned round = 0; round < RUNS; round++) {
			struct sp_send s[RUN];

			for (unsigned i = 0; i < RUN; i++) {
				const uint64_t x = dut_random(&seed);

				s[i] = (struct sp_send){
					.dest_qp = 16 + (x >> 8) % 2,
					.psn = i,
					.ext = ext,
					.ext_len = 4 * (x >> 9) % 20,
					.len = i && x % 4 ? s[i - 1].len
							  : lend_lengths[(x >> 20) % RTE_DIM(lend_lengths)],
					.offset = (x >> 32) % 8192};
				large += side && s[i].len >= SP_LEND_MIN;
			}
			sender_job.run = s;
			sender_job.runs = RUN;
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, mr->id), 0);
			CU_ASSERT_EQUAL(sender_job.ran, RUN);
			dut_poll(&dut, 1);
			CU_ASSERT_EQUAL_FATAL(tx_ring.helds, RUN);
			for (unsigned i = 0; i < RUN; i++, f++) {
				tx_ring_look(tx_ring.held[i]);
				pieces += side && tx_ring.last.pieces == 3;
				f->len = tx_ring.last.len;
				memcpy(f->bytes, tx_ring.last.bytes, f->len);
			}
			tx_ring_free_all();
		}
		CU_ASSERT_EQUAL(lender_of(id)->back, lender_of(id)->lent);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		tx_ring_stop();
	}
	for (unsigned i = 0; i < RUNS * RUN; i++)
		differ += frame[i].len != frame[RUNS * RUN + i].len ||
			  memcmp(frame[i].bytes, frame[RUNS * RUN + i].bytes, frame[i].len);
	CU_ASSERT_EQUAL(differ, 0);
	CU_ASSERT_EQUAL(pieces, large);
	free(frame);
}

/* From bytes that are nobody's region there is nothing to wait for. */
TEST(payload_that_lies_in_no_region_is_copied)
{
	static uint8_t bytes[4096];
	struct sp_send s = {.dest_qp = 16, .bytes = bytes, .len = sizeof(bytes)};

	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_poll(&dut, 1);
	CU_ASSERT_EQUAL(tx_ring.last.pieces, 1);
	CU_ASSERT_EQUAL(lender_of(id)->lent, 0);
	tx_ring_stop();
}

TEST(a_packet_that_waits_for_a_neighbour_is_copied)
{
	struct sp_send s = {.dest_qp = 16, .len = 2000};

	tx_ring_start(&tx_ring_lending);
	dut.config.neighbours = 0;
	sp_dev_close(dut.dev);
	sp_nic_destroy(dut.nic);
	dut_create(&dut);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	struct sp_mr *mr = test_region(4096);
	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_MEM, 0, mr->id), 0);
	dut_poll(&dut, 1);
	CU_ASSERT_EQUAL(dut.nic->worker[0]->pending.count, 1);
	CU_ASSERT_EQUAL(lender_of(id)->lent, 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	tx_ring_stop();
}

/* Nobody else's bytes are touched, and the receiver can tell. */
TEST(bytes_changed_too_early_spoil_their_own_packet_only)
{
	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	struct sp_mr *mr = test_region(4096);
	tx_ring.keeps = true;
	send_from(id, mr, 0, 1200);
	send_from(id, mr, 2000, 1200);
	CU_ASSERT(tx_ring_icrc_ok());
	((uint8_t *)mr->addr)[500] ^= 1;
	tx_ring_look(tx_ring.held[0]);
	CU_ASSERT(!tx_ring_icrc_ok());
	tx_ring_look(tx_ring.held[1]);
	CU_ASSERT(tx_ring_icrc_ok());
	tx_ring_stop();
}

TEST(filters_see_all_pieces_of_a_frame)
{
	struct sp_rule *yes, *no;
	struct sp_error error;
	char text[64];

	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	struct sp_mr *mr = test_region(4096);
	tx_ring.keeps = true;
	send_from(id, mr, 0, 1500);
	for (unsigned at = 30; at < tx_ring.last.len; at += 20) { /* headers, payload, ICRC */
		const unsigned byte = RTE_MIN(at, tx_ring.last.len - 2);

		snprintf(text, sizeof(text), "ether[%u] = %u", byte, tx_ring.last.bytes[byte]);
		CU_ASSERT_EQUAL_FATAL(sp_rule_create(text, NULL, &yes, &error), 0);
		snprintf(text, sizeof(text), "ether[%u] != %u", byte, tx_ring.last.bytes[byte]);
		CU_ASSERT_EQUAL_FATAL(sp_rule_create(text, NULL, &no, &error), 0);
		CU_ASSERT(sp_rule_matches(yes, tx_ring.held[0]));
		CU_ASSERT(!sp_rule_matches(no, tx_ring.held[0]));
		sp_rule_destroy(yes);
		sp_rule_destroy(no);
	}
	tx_ring_stop();
}

/* ---- bounds ---- */

TEST(packets_beyond_the_bound_are_copied)
{
	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	struct sp_mr *mr = test_region(4096);
	tx_ring.keeps = true;
	for (unsigned i = 0; i < SP_ZC_MAX + 10; i++)
		send_from(id, mr, i, 1100);
	CU_ASSERT_EQUAL(tx_ring.sent, SP_ZC_MAX + 10);
	CU_ASSERT_EQUAL(tx_ring.lent, SP_ZC_MAX);
	tx_ring_free(0);
	send_from(id, mr, 0, 1100);
	send_from(id, mr, 0, 1100);
	CU_ASSERT_EQUAL(tx_ring.lent, SP_ZC_MAX + 1);
	tx_ring_stop();
}

TEST(without_pieces_left_packets_are_copied)
{
	static struct rte_mbuf *taken[SP_PIECES];
	unsigned n = 0;

	tx_ring_start(&tx_ring_lending);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	struct sp_mr *mr = test_region(4096);
	while (n < SP_PIECES && (taken[n] = rte_pktmbuf_alloc(sp_process_pieces())))
		n++;
	send_from(id, mr, 0, 1100);
	CU_ASSERT_EQUAL(tx_ring.sent, 1);
	CU_ASSERT_EQUAL(tx_ring.lent, 0);
	CU_ASSERT(tx_ring_icrc_ok());
	rte_pktmbuf_free_bulk(taken, n);
	send_from(id, mr, 0, 1100);
	CU_ASSERT_EQUAL(tx_ring.lent, 1);
	tx_ring_stop();
}
