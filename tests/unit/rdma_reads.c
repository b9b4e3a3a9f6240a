/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder of RC: READ and ATOMIC, answered and answered again. */
#include "../lib/rdma_nic.h"
#include "../lib/tx_ring.h"

#define WAY(i) (RN_PSN + (i))

static void start_rc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_RC);
	for (uint32_t i = 0; i < 65536; i++)
		rn_memory[RN_DATA + i] = rn_byte(i);
}

#define RC_TEST(name) TEST_BETWEEN(start_rc, rn_stop, name)

static void feed_read(uint32_t psn, uint64_t at, uint32_t len)
{
	uint8_t reth[16];

	rn_reth(reth, RN_VA + at, rn_key, len);
	rn_feed(SP_RC_READ_REQUEST, psn, reth, 16, NULL, 0);
}

static void read_of(uint32_t psn, uint64_t at, uint32_t len)
{
	feed_read(psn, at, len);
	rn_go();
}

/* The next answers are the responses [at, at + len) from that PSN on. */
static bool responses(uint32_t psn, uint32_t at, uint32_t len, uint32_t msn)
{
	const uint32_t n = len ? (len + RN_MTU - 1) / RN_MTU : 1;
	struct rn_answer a;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t bytes = i + 1 < n ? RN_MTU : len - i * RN_MTU;
		const uint8_t opcode = n == 1 ? 0x10 : i == 0 ? 0x0D : i + 1 == n ? 0x0F : 0x0E;
		bool ok = rn_answered(&a);

		ok = ok && a.opcode == opcode && a.psn == ((psn + i) & 0xFFFFFF) && a.len == bytes && a.qp == RN_PEER;
		ok = ok && (opcode == 0x0E || (a.syndrome == 0x1F && a.msn == msn));
		for (uint32_t k = 0; ok && k < bytes; k++)
			ok = a.payload[k] == rn_byte(at + i * RN_MTU + k);
		if (!ok) {
			printf("# response %u: opcode %x psn %x len %u msn %u\n", i, a.opcode, a.psn, a.len, a.msn);
			return false;
		}
	}
	return true;
}

RC_TEST(a_read_is_answered)
{
	read_of(WAY(0), 10, 100);
	CU_ASSERT(responses(WAY(0), 10, 100, 1));
	read_of(WAY(1), 1000, 100 * RN_MTU + 1);
	CU_ASSERT(responses(WAY(1), 1000, 100 * RN_MTU + 1, 2));
	read_of(WAY(102), 0, 0);
	CU_ASSERT(responses(WAY(102), 0, 0, 3));
	read_of(WAY(103), 0, RN_MTU);
	CU_ASSERT(responses(WAY(103), 0, RN_MTU, 4));
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_count("reads_served"), 4);
}

RC_TEST(answers_come_in_the_order_of_requests)
{
	rn_receive(1, 70000, 100);
	feed_read(WAY(0), 0, 40 * RN_MTU);
	rn_ack = true;
	rn_feed(SP_RC_SEND_ONLY, WAY(40), NULL, 0, "abcd", 4);
	feed_read(WAY(41), 100, 3 * RN_MTU);
	rn_receive(2, 70000, 100);
	rn_ack = true;
	rn_feed(SP_RC_SEND_ONLY, WAY(44), NULL, 0, "abcd", 4);
	rn_go();
	CU_ASSERT(responses(WAY(0), 0, 40 * RN_MTU, 1));
	CU_ASSERT(responses(WAY(41), 100, 3 * RN_MTU, 3));
	CU_ASSERT(rn_acked(0x1F, WAY(44)));
	CU_ASSERT(rn_silent());
}

RC_TEST(a_read_may_be_asked_again_from_any_packet_on)
{
	read_of(WAY(0), 50, 5 * RN_MTU);
	CU_ASSERT(responses(WAY(0), 50, 5 * RN_MTU, 1));
	read_of(WAY(2), 50 + 2 * RN_MTU, 3 * RN_MTU);
	CU_ASSERT(responses(WAY(2), 50 + 2 * RN_MTU, 3 * RN_MTU, 1));
	read_of(WAY(4), 50 + 4 * RN_MTU, RN_MTU);
	CU_ASSERT(responses(WAY(4), 50 + 4 * RN_MTU, RN_MTU, 1));
	read_of(WAY(0), 50, 5 * RN_MTU);
	CU_ASSERT(responses(WAY(0), 50, 5 * RN_MTU, 1));
	/* What contradicts the original is not answered. */
	read_of(WAY(1), 50, 3 * RN_MTU);
	read_of(WAY(2), 50 + 2 * RN_MTU, 4 * RN_MTU);
	read_of(WAY(2), 50 + 2 * RN_MTU, 0);
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_dropped("lost-resource"), 3);
	CU_ASSERT_EQUAL(rn_state_of()->in.psn, (RN_PSN + 5) & 0xFFFFFF);
}

/* rxe's bugs. */
RC_TEST(a_duplicate_read_within_a_write_leaves_the_write_alone)
{
	read_of(WAY(0), 0, 10);
	CU_ASSERT(responses(WAY(0), 0, 10, 1));
	rn_write(SP_RC_WRITE_FIRST, WAY(1), RN_VA + 70000, rn_key, RN_MTU + 4, RN_MTU);
	read_of(WAY(0), 0, 10);
	CU_ASSERT(responses(WAY(0), 0, 10, 1));
	rn_ack = true;
	rn_packet(SP_RC_WRITE_LAST, WAY(2), NULL, 0, NULL, 4);
	CU_ASSERT(rn_acked(0x1F, WAY(2)));
	CU_ASSERT(rn_filled(70000, 0, RN_MTU));
}

RC_TEST(the_ack_of_a_duplicate_does_not_pass_a_read)
{
	rn_receive(1, 70000, 100);
	rn_packet(SP_RC_SEND_ONLY, WAY(0), NULL, 0, NULL, 4);
	read_of(WAY(1), 0, 2 * RN_MTU);
	CU_ASSERT(responses(WAY(1), 0, 2 * RN_MTU, 2));
	rn_packet(SP_RC_SEND_ONLY, WAY(0), NULL, 0, NULL, 4);
	CU_ASSERT(rn_acked(0x1F, WAY(0)));
	CU_ASSERT(rn_silent());
}

RC_TEST(a_read_beyond_the_agreed_number_is_refused)
{
	uint32_t psn = 0, i;
	struct rn_answer a;

	for (i = 0; i < 5; i++, psn += 200)
		feed_read(WAY(psn), 0, 200 * RN_MTU); /* all before a response could be sent */
	rn_go();
	for (i = 0; rn_answered(&a); i++)
		if (a.opcode == 0x11)
			break;
	CU_ASSERT_EQUAL(a.syndrome, 0x61);
	CU_ASSERT_EQUAL(a.psn, WAY(800) & 0xFFFFFF);
	CU_ASSERT_EQUAL(i, 800); /* after all others */
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
}

static void agree_on(uint8_t n)
{
	const struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_MAX_DEST_RD, .max_dest_rd_atomic = n};

	CU_ASSERT_EQUAL(rn_state(SP_RDMA_SQD), 0);
	CU_ASSERT_EQUAL(rn_modify(&a), 0);
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RTS), 0);
}

/* 3 READs are answered, and 3 are not when the number changes. */
RC_TEST(the_agreed_number_may_change_while_reads_are_answered)
{
	static const uint8_t to[] = {16, 5, 4, 3};

	for (unsigned k = 0; k < sizeof(to); k++) {
		for (uint32_t i = 0; i < 3; i++)
			read_of(WAY(i), i * 1000, RN_MTU);
		for (uint32_t i = 0; i < 3; i++)
			CU_ASSERT(responses(WAY(i), i * 1000, RN_MTU, i + 1));
		for (uint32_t i = 0; i < 3; i++)
			feed_read(WAY(3 + 60 * i), i * 10, 60 * RN_MTU);
		dut_poll(&dut, rn_now += SP_US);
		CU_ASSERT_EQUAL(rn_state_of()->in.pending, 3);
		agree_on(to[k]);
		rn_go();
		for (uint32_t i = 0; i < 3; i++)
			CU_ASSERT(responses(WAY(3 + 60 * i), i * 10, 60 * RN_MTU, 4 + i));
		CU_ASSERT(rn_silent());
		read_of(WAY(123), 20, 60 * RN_MTU); /* the latest once more */
		CU_ASSERT(responses(WAY(123), 20, 60 * RN_MTU, 6));
		for (uint32_t i = 0; i < to[k]; i++)
			feed_read(WAY(183 + 60 * i), 0, 60 * RN_MTU);
		rn_go();
		for (uint32_t i = 0; i < to[k]; i++)
			CU_ASSERT(responses(WAY(183 + 60 * i), 0, 60 * RN_MTU, 7 + i));
		rn_anew();
	}
	read_of(WAY(0), 0, RN_MTU);
	read_of(WAY(1), 0, RN_MTU);
	agree_on(1);
	CU_ASSERT(responses(WAY(0), 0, RN_MTU, 1) && responses(WAY(1), 0, RN_MTU, 2));
	read_of(WAY(0), 0, RN_MTU);
	CU_ASSERT(rn_silent());
	read_of(WAY(1), 0, RN_MTU);
	CU_ASSERT(responses(WAY(1), 0, RN_MTU, 2));
	agree_on(0);
	read_of(WAY(2), 0, RN_MTU);
	CU_ASSERT(rn_acked(0x61, WAY(2)));
}

static void bad_read(uint64_t va, uint32_t key, uint32_t len, uint8_t syndrome)
{
	uint8_t reth[16];

	rn_reth(reth, va, key, len);
	rn_packet(SP_RC_READ_REQUEST, WAY(0), reth, 16, NULL, 0);
	CU_ASSERT(rn_acked(syndrome, WAY(0)));
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
}

/* A peer that was impatient: the answer has come after all, so it goes on, and has not more under way than agreed. */
RC_TEST(a_duplicate_gives_way_to_the_next_request)
{
	for (uint32_t i = 0; i < 4; i++) {
		read_of(WAY(i), 0, 8);
		CU_ASSERT(responses(WAY(i), 0, 8, i + 1));
	}
	feed_read(WAY(0), 0, 8);
	feed_read(WAY(4), 100, 8);
	rn_go();
	CU_ASSERT(responses(WAY(4), 100, 8, 5));
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
	/* ... but five new ones at once are too many. */
	for (uint32_t i = 0; i < 5; i++)
		feed_read(WAY(5 + i), 0, 8);
	rn_go();
	for (uint32_t i = 0; i < 4; i++)
		CU_ASSERT(responses(WAY(5 + i), 0, 8, 6 + i));
	CU_ASSERT(rn_acked(0x61, WAY(9)));
}

TEST(a_read_reads_nothing_beyond_a_region)
{
	for (unsigned i = 0; i < 5; i++) {
		start_rc();
		if (i == 0)
			bad_read(RN_VA - 1, rn_key, 4, 0x62);
		else if (i == 1)
			bad_read(RN_VA + RN_MEMORY - RN_DATA - 3, rn_key, 4, 0x62);
		else if (i == 2)
			bad_read(RN_VA, rn_key ^ 0x80000000, 4, 0x62);
		else if (i == 3)
			bad_read(RN_VA, rn_key, 1u << 31, 0x62);
		else
			bad_read(RN_VA, rn_key, (1u << 31) + 1, 0x61);
		rn_stop();
	}
}

/* ---- atomics ---- */
static uint64_t *word(void)
{
	return (uint64_t *)(void *)(rn_memory + RN_DATA + 80000);
}

static bool atomic_answer(uint32_t psn, uint64_t old, uint32_t msn)
{
	struct rn_answer a;

	return rn_answered(&a) && a.opcode == 0x12 && a.psn == (psn & 0xFFFFFF) && a.syndrome == 0x1F && a.len == 8 &&
	       a.msn == msn && sp_load_be64(a.payload) == old;
}

RC_TEST(an_atomic_is_done_once_and_answered_as_often_as_asked)
{
	*word() = 100;
	rn_atomic(SP_RC_FETCH_ADD, WAY(0), RN_VA + 80000, rn_key, 5, 0);
	CU_ASSERT(atomic_answer(WAY(0), 100, 1));
	rn_atomic(SP_RC_COMPARE_SWAP, WAY(1), RN_VA + 80000, rn_key, 7, 105);
	CU_ASSERT(atomic_answer(WAY(1), 105, 2));
	rn_atomic(SP_RC_COMPARE_SWAP, WAY(2), RN_VA + 80000, rn_key, 9, 105);
	CU_ASSERT(atomic_answer(WAY(2), 7, 3));
	CU_ASSERT_EQUAL(*word(), 7);
	rn_atomic(SP_RC_FETCH_ADD, WAY(0), RN_VA + 80000, rn_key, 5, 0);
	CU_ASSERT(atomic_answer(WAY(0), 100, 1));
	rn_atomic(SP_RC_COMPARE_SWAP, WAY(1), RN_VA + 80000, rn_key, 7, 105);
	CU_ASSERT(atomic_answer(WAY(1), 105, 2));
	CU_ASSERT_EQUAL(*word(), 7);
	CU_ASSERT_EQUAL(rn_count("atomics"), 3);
	for (uint32_t i = 3; i < 6; i++)
		rn_atomic(SP_RC_FETCH_ADD, WAY(i), RN_VA + 80000, rn_key, 1, 0);
	for (uint32_t i = 3; i < 6; i++)
		CU_ASSERT(atomic_answer(WAY(i), 4 + i, i + 1));
	rn_atomic(SP_RC_FETCH_ADD, WAY(0), RN_VA + 80000, rn_key, 5, 0); /* too old */
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_dropped("lost-resource"), 1);
	CU_ASSERT_EQUAL(*word(), 10);
}

static void feed_atomic(uint32_t psn)
{
	uint8_t ext[28] = {0};

	sp_store_be64(ext, RN_VA + 80000);
	sp_store_be32(ext + 8, rn_key);
	sp_store_be64(ext + 12, 1);
	rn_feed(SP_RC_FETCH_ADD, psn, ext, sizeof(ext), NULL, 0);
}

/* A frame that came twice asks for no more than the peer may have under way: it knows the first answer. */
RC_TEST(a_duplicate_under_way_takes_no_room_from_new_requests)
{
	*word() = 0;
	for (uint32_t i = 0; i < 4; i++) {
		feed_atomic(WAY(i));
		rn_go();
		CU_ASSERT(atomic_answer(WAY(i), i, i + 1));
	}
	feed_atomic(WAY(0));
	for (uint32_t i = 4; i < 8; i++)
		feed_atomic(WAY(i));
	rn_go();
	for (uint32_t i = 4; i < 8; i++)
		CU_ASSERT(atomic_answer(WAY(i), i, i + 1));
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(*word(), 8);
	/* One more than that is refused. */
	for (uint32_t i = 8; i < 13; i++)
		feed_atomic(WAY(i));
	rn_go();
	CU_ASSERT_EQUAL(rn_dropped("refused"), 1);
}

TEST(an_atomic_must_be_aligned_and_permitted)
{
	for (unsigned i = 0; i < 3; i++) {
		struct sp_rdma_keys keys;

		start_rc();
		*word() = 100;
		/* i 2: aligned for the peer, and not in memory */
		CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA + (i == 2 ? 4 : 0), 500000, rn_pd, i == 1 ? 7 : 15, &keys),
				0);
		rn_atomic(SP_RC_FETCH_ADD, WAY(0), RN_VA + 80000 + (i == 0 ? 4 : 0), keys.rkey, 5, 0);
		CU_ASSERT(rn_acked(i == 0 ? 0x61 : i == 1 ? 0x62 : 0x63, WAY(0)));
		CU_ASSERT_EQUAL(*word(), 100);
		CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), 0);
		rn_stop();
	}
}

/* A region of many segments: packets are gathered from them. */
TEST(a_region_in_pieces_is_read_and_written_as_one)
{
	struct {
		struct sp_rdma_mr_reg reg;
		struct sp_rdma_segment segment[10];
	} r = {{.va = 0x1000, .access = 15, .segments = 10}, {{0}}};
	struct sp_rdma_keys keys;
	uint8_t reth[16];
	struct rn_answer a;
	uint32_t n = 0;

	start_rc();
	r.reg.pd = rn_pd;
	for (unsigned i = 0; i < 10; i++) {
		r.segment[i] = (struct sp_rdma_segment){100 + i, RN_DATA + 100000 + (9 - i) * 1000, rn_mem, 0};
		r.reg.len += 100 + i;
	}
	CU_ASSERT_EQUAL_FATAL(rn_control(SP_RDMA_MR_REG, 0, &r, sizeof(r), &keys, sizeof(keys)), 0);
	rn_write(SP_RC_WRITE_ONLY, WAY(0), 0x1000 + 50, keys.rkey, 200, 200);
	CU_ASSERT(rn_filled(109050, 0, 50));
	CU_ASSERT(rn_filled(108000, 50, 101));
	CU_ASSERT(rn_filled(107000, 151, 49));
	CU_ASSERT(rn_untouched(109100, 100));
	rn_reth(reth, 0x1000 + 50, keys.rkey, 600);
	rn_packet(SP_RC_READ_REQUEST, WAY(1), reth, 16, NULL, 0);
	while (rn_answered(&a))
		for (uint32_t i = 0; i < a.len; i++, n++)
			CU_ASSERT(a.payload[i] == (n < 200 ? rn_byte(n) : 0xEE));
	CU_ASSERT_EQUAL(n, 600);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), 0);
	rn_stop();
}

/* ---- regions whose bytes ports read in place ---- */
static void start_lending(void)
{
	static struct sp_port_ops lending;

	lending = tx_ring_lending;
	lending.receive = dut_receive;
	lending.next = dut_next;
	memset(&tx_ring, 0, sizeof(tx_ring));
	tx_ring.keeps = true;
	rn_port = &lending;
	rn_mtu = 2048;
	start_rc();
}

static void stop_lending(void)
{
	tx_ring_free_all();
	rn_stop();
	rn_port = NULL;
	rn_mtu = RN_MTU;
}

/* The slot of its READ is used again meanwhile, for another region. */
TEST_BETWEEN(start_lending, stop_lending, a_region_lasts_while_a_port_has_bytes_of_its_read)
{
	struct sp_rdma_keys keys;
	uint8_t reth[16];

	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, 15, &keys), 0);
	rn_reth(reth, RN_VA, keys.rkey, 2048);
	rn_packet(SP_RC_READ_REQUEST, WAY(0), reth, 16, NULL, 0);
	CU_ASSERT_EQUAL(tx_ring.helds, 1);
	CU_ASSERT_EQUAL(tx_ring.last.pieces, 3); /* lent */
	for (uint32_t i = 1; i <= 4; i++)
		read_of(WAY(i), 8192, 2048);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.rkey), -EAGAIN);
	rn_now = dut_run(&dut, rn_now, rn_now + SP_MS);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.rkey), -EAGAIN);
	tx_ring_free(0);
	rn_now = dut_run(&dut, rn_now, rn_now + SP_MS);
	CU_ASSERT_EQUAL(tx_ring.helds, 4); /* all have been answered */
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.rkey), 0);
}

/* ---- many READs of one peer ---- */
static struct {
	uint32_t qp[4];
	unsigned first[4], last[4]; /* the packets sent that answer it, the first is 1 */
} many;

/* QP i has asked for len bytes: in which of the packets are the answers? They have other PSNs than another QP's. */
static void many_ask(unsigned i, uint32_t len)
{
	rn_qpn = many.qp[i];
	rn_six = i == 3;
	feed_read(WAY(0), 0, len);
}

static void many_look(void)
{
	memset(many.first, 0, sizeof(many.first));
	for (unsigned i = 0; i < dut.port.sents; i++) {
		const uint8_t *l3 = dut.port.sent[i].bytes + 14, *b = l3 + (l3[0] >> 4 == 6 ? 40 : 20) + 8;
		const unsigned from = sp_load_be24(b + 5) - RN_PEER;

		if (from < 4) {
			many.first[from] = many.first[from] ? many.first[from] : i + 1;
			many.last[from] = i + 1;
		}
	}
}

/* QPs 0 to 2 have one peer, QP 3 another one. Their peer's QPs are RN_PEER + i. */
static void many_begin(const char *settings)
{
	rn_begin(settings);
	for (unsigned i = 0; i < 4; i++) {
		rn_ip = i == 3 ? dut_peer6 : dut_peer4;
		rn_connect(SP_RDMA_RC);
		many.qp[i] = rn_qpn;
		rn_state_of()->attr.dest_qp = RN_PEER + i;
	}
	rn_ip = dut_peer4;
}

static void many_end(void)
{
	for (unsigned i = 0; i < 3; i++) {
		rn_qpn = many.qp[i];
		CU_ASSERT_EQUAL(rn_destroy(), 0);
	}
	rn_qpn = many.qp[3];
	rn_stop();
}

TEST(a_peer_has_so_many_bytes_of_answers_under_way_however_many_qps_it_asks)
{
	const uint32_t turn = (64u << 10) / RN_MTU;

	many_begin("peer-reads=64K");
	many_ask(0, 600u << 10);
	many_ask(1, 32u << 10);
	many_ask(2, 32u << 10);
	many_ask(3, RN_MTU);
	rn_go();
	many_look();
	CU_ASSERT_EQUAL(dut.port.sents, 2400 + turn + 1);
	CU_ASSERT(many.first[3] && many.first[3] < 100); /* another peer's does not wait */
	/* The same peer's wait for a turn of the long one, and go before its next turn. */
	CU_ASSERT(many.first[1] > turn && many.first[1] < turn + 10);
	CU_ASSERT(many.first[2] == many.last[1] + 1 && many.last[2] == many.first[2] + turn / 2 - 1);
	CU_ASSERT_EQUAL(many.last[0], dut.port.sents);
	CU_ASSERT_EQUAL(rn_count("reads_served"), 4);
	CU_ASSERT_EQUAL(rn_count("reads_held"), 3); /* two, and the long one behind them */
	many_end();
}

TEST(within_the_limit_the_answers_to_a_peer_take_turns)
{
	many_begin("");
	many_ask(0, 600u << 10);
	many_ask(1, RN_MTU);
	many_ask(2, RN_MTU);
	rn_go();
	many_look();
	CU_ASSERT_EQUAL(dut.port.sents, 2400 + 2);
	CU_ASSERT(many.first[1] && many.first[1] < 100 && many.first[2] && many.first[2] < 100);
	CU_ASSERT_EQUAL(rn_count("reads_held"), 0);
	many_end();
}

/* Whoever has a turn, or waits for one, may go: the others go on. */
TEST(a_qp_that_goes_leaves_its_turn_and_its_place_to_the_others)
{
	for (unsigned gone = 0; gone < 3; gone++) {
		many_begin("peer-reads=64K");
		dut.port.closed = true;
		for (unsigned i = 0; i < 3; i++)
			many_ask(i, 64u << 10);
		rn_go();
		rn_qpn = many.qp[gone];
		if (gone == 1)
			CU_ASSERT_EQUAL(rn_state(SP_RDMA_ERR), 0);
		CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
		dut.port.closed = false;
		rn_go();
		rn_go();
		many_look();
		for (unsigned i = 0; i < 3; i++)
			if (i != gone)
				CU_ASSERT_EQUAL(many.last[i] - many.first[i], 255);
		rn_to(SP_RDMA_RTS); /* it comes back, and asks */
		rn_state_of()->attr.dest_qp = RN_PEER + gone;
		many_ask(gone, RN_MTU);
		rn_go();
		many_look();
		CU_ASSERT_EQUAL(many.last[gone], dut.port.sents);
		CU_ASSERT_EQUAL(rn_state_of()->peer->bytes, 0);
		CU_ASSERT_EQUAL(rn_state_of()->peer->users, 3);
		many_end();
	}
}
