/* SPDX-License-Identifier: BSD-3-Clause */
/* What is forged or comes unasked: answers to requests that nobody made, congestion notifications, strangers'
 * packets, datagrams. It changes nothing, or ends what it is about, and no byte of memory beside. */
#include "../lib/rdma_nic.h"

#define WAY(i)	((RN_PSN + (i)) & 0xFFFFFF)
#define OWN(i)	((i)&0xFFFFFF) /* the NIC's own PSNs begin at 0 */
#define NOTHING 0, 0

static void start_rc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_RC);
	rn_watch();
}

static void start_ud(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_UD);
	rn_watch();
}

#define RC_TEST(name) TEST_BETWEEN(start_rc, rn_stop, name)
#define UD_TEST(name) TEST_BETWEEN(start_ud, rn_stop, name)

static void answer(uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t len)
{
	uint8_t aeth[12] = {syndrome, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8};
	const uint32_t head = opcode == SP_RC_READ_RESPONSE_MIDDLE ? 0 : opcode == SP_RC_ATOMIC_ACKNOWLEDGE ? 12 : 4;

	rn_packet(opcode, psn, aeth, head, NULL, len);
}

static uint64_t refused(void)
{
	return rn_dropped("stray") + rn_dropped("bad-answer") + rn_dropped("wrong-state");
}

static bool idle(void)
{
	const struct sp_rdma_qp_attr a = rn_attr();

	return a.state == SP_RDMA_RTS && !a.retries && !a.naks_received && !a.rnrs_received && rn_silent() &&
	       rn_only(NOTHING) && !rn_completion();
}

RC_TEST(answers_to_no_request_change_nothing)
{
	static const uint32_t psn[] = {0, 1, 0xFFFFFF, 0x7FFFFF, 0x800000, 0x800001, 5000};
	uint64_t count = 0;

	for (unsigned opcode = SP_RC_READ_RESPONSE_FIRST; opcode <= SP_RC_ATOMIC_ACKNOWLEDGE; opcode++)
		for (unsigned i = 0; i < sizeof(psn) / sizeof(*psn); i++)
			for (unsigned syndrome = 0; syndrome < 256; syndrome++, count++)
				answer((uint8_t)opcode, psn[i], (uint8_t)syndrome, syndrome & 1 ? RN_MTU : 0);
	CU_ASSERT_EQUAL(refused(), count);
	CU_ASSERT(idle());
	/* Nor in RTR, where nothing can have been asked. */
	CU_ASSERT_EQUAL(rn_state(SP_RDMA_RESET), 0);
	rn_to(SP_RDMA_RTR);
	for (unsigned opcode = SP_RC_READ_RESPONSE_FIRST; opcode <= SP_RC_ATOMIC_ACKNOWLEDGE; opcode++, count++)
		answer((uint8_t)opcode, 0, 0x1F, 0);
	CU_ASSERT_EQUAL(refused(), count);
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTR);
}

/* ---- a request is out ---- */
enum { DATA = 4096 }; /* where READs bring their bytes */

static void post(uint8_t op, uint64_t wr_id, uint32_t len)
{
	const struct sp_rdma_wqe w = {.owner = 1,
				      .op = op,
				      .flags = SP_RDMA_SIGNALED,
				      .sges = 1,
				      .wr_id = wr_id,
				      .remote = 0x1000,
				      .rkey = 99,
				      .compare_add = 1,
				      .swap = 2};
	const struct sp_rdma_sge sge = {RN_VA + DATA, len, rn_key};
	struct rn_answer a;

	rn_post_wqe(&w, &sge, 1);
	while (rn_answered(&a)) /* the request itself */
		;
	rn_watch();
}

RC_TEST(answers_beside_what_is_out_are_strays)
{
	static const uint32_t psn[] = {0xFFFFFF, 0xFFFFF0, 3, 4, 100, 0x7FFFFF, 0x800000};
	uint64_t count = 0;

	post(SP_RDMA_WR_READ, 1, 3 * RN_MTU);
	for (unsigned opcode = SP_RC_READ_RESPONSE_FIRST; opcode <= SP_RC_ATOMIC_ACKNOWLEDGE; opcode++)
		for (unsigned i = 0; i < sizeof(psn) / sizeof(*psn); i++, count++)
			answer((uint8_t)opcode, psn[i], 0x1F, RN_MTU);
	CU_ASSERT_EQUAL(rn_dropped("stray"), count);
	CU_ASSERT(idle());
	/* Reserved syndromes, in the right place. */
	for (unsigned syndrome = 0x40; syndrome < 256; syndrome++) {
		if (syndrome >= 0x60 && syndrome <= 0x64)
			continue; /* these mean something */
		answer(SP_RC_ACKNOWLEDGE, 0, (uint8_t)syndrome, 0);
		if (syndrome >> 5 != 3)
			answer(SP_RC_READ_RESPONSE_FIRST, 0, (uint8_t)syndrome, RN_MTU);
	}
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
	CU_ASSERT(rn_only(NOTHING) && !rn_completion());
	answer(SP_RC_READ_RESPONSE_FIRST, 0, 0x1F, RN_MTU);
	answer(SP_RC_READ_RESPONSE_MIDDLE, 1, 0x1F, RN_MTU);
	answer(SP_RC_READ_RESPONSE_LAST, 2, 0x1F, RN_MTU);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_READ, 3 * RN_MTU));
	CU_ASSERT(rn_only(DATA, 3 * RN_MTU));
	CU_ASSERT(rn_filled(DATA, 0, RN_MTU));
}

/* A READ of 2 packets and 8 bytes, and the answer of which packet `at` is not as it must be. */
RC_TEST(a_response_of_the_wrong_kind_or_length_ends_the_qp)
{
	static const struct {
		uint32_t at;
		uint8_t opcode;
		uint32_t len;
	} wrong[] = {{0, SP_RC_READ_RESPONSE_FIRST, RN_MTU - 4}, {0, SP_RC_READ_RESPONSE_FIRST, RN_MTU + 4},
		     {0, SP_RC_READ_RESPONSE_FIRST, 0},		 {0, SP_RC_READ_RESPONSE_ONLY, RN_MTU},
		     {0, SP_RC_READ_RESPONSE_ONLY, 8},		 {0, SP_RC_READ_RESPONSE_MIDDLE, RN_MTU},
		     {0, SP_RC_READ_RESPONSE_LAST, RN_MTU},	 {1, SP_RC_READ_RESPONSE_MIDDLE, RN_MTU + 4},
		     {1, SP_RC_READ_RESPONSE_MIDDLE, 4},	 {1, SP_RC_READ_RESPONSE_LAST, 8},
		     {2, SP_RC_READ_RESPONSE_LAST, 4},		 {2, SP_RC_READ_RESPONSE_LAST, 12},
		     {2, SP_RC_READ_RESPONSE_LAST, RN_MTU},	 {2, SP_RC_READ_RESPONSE_LAST, 0},
		     {2, SP_RC_READ_RESPONSE_MIDDLE, 8},	 {2, SP_RC_READ_RESPONSE_FIRST, 8}};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		post(SP_RDMA_WR_READ, 1, 2 * RN_MTU + 8);
		if (wrong[i].at)
			answer(SP_RC_READ_RESPONSE_FIRST, 0, 0x1F, RN_MTU);
		if (wrong[i].at == 2)
			answer(SP_RC_READ_RESPONSE_MIDDLE, 1, 0x1F, RN_MTU);
		answer(wrong[i].opcode, wrong[i].at, 0x1F, wrong[i].len);
		CU_ASSERT(rn_completed(1, SP_RDMA_BAD_RESP_ERR, SP_RDMA_WC_READ, 2 * RN_MTU + 8));
		CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
		CU_ASSERT(rn_only(DATA, wrong[i].at * RN_MTU));
		rn_anew();
	}
}

/* What brings bytes for which there is no room any more, or never was. */
RC_TEST(a_response_writes_into_its_own_entries_only)
{
	struct sp_rdma_keys keys;
	const struct sp_rdma_wqe w = {
		.owner = 1, .op = SP_RDMA_WR_READ, .flags = SP_RDMA_SIGNALED, .sges = 1, .wr_id = 1, .remote = 0x1000};
	struct sp_rdma_sge sge = {RN_VA, RN_MTU, 0};

	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, RN_MTU, rn_pd, 15, &keys), 0);
	sge.lkey = keys.lkey;
	rn_post_wqe(&w, &sge, 1);
	/* A READ request has no bytes of the region: it may end while the answer is on its way. */
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.lkey), 0);
	rn_watch();
	answer(SP_RC_READ_RESPONSE_ONLY, 0, 0x1F, RN_MTU);
	CU_ASSERT(rn_completed(1, SP_RDMA_LOC_PROT_ERR, SP_RDMA_WC_READ, RN_MTU));
	CU_ASSERT(rn_only(NOTHING));
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
	rn_anew();
	/* The answer to an ATOMIC is 8 bytes, whatever comes with it. */
	post(SP_RDMA_WR_FETCH_ADD, 2, 8);
	answer(SP_RC_READ_RESPONSE_ONLY, 0, 0x1F, 8);
	CU_ASSERT_EQUAL(rn_dropped("stray"), 1);
	CU_ASSERT(rn_only(NOTHING));
	answer(SP_RC_ATOMIC_ACKNOWLEDGE, 0, 0x1F, 100);
	CU_ASSERT(rn_completed(2, SP_RDMA_OK, SP_RDMA_WC_FETCH_ADD, 8));
	CU_ASSERT(rn_only(DATA, 8));
	/* An ATOMIC's answer to a READ, and an ACK in place of data. */
	post(SP_RDMA_WR_READ, 3, 8);
	answer(SP_RC_ATOMIC_ACKNOWLEDGE, 1, 0x1F, 0);
	answer(SP_RC_ACKNOWLEDGE, 1, 0x1F, 0);
	CU_ASSERT_EQUAL(rn_dropped("stray"), 2);
	CU_ASSERT_PTR_NULL(rn_completion());
	CU_ASSERT(rn_only(NOTHING));
}

/* Each NAK that is none of a sequence ends the QP, with its own status; a sequence NAK may only come so often. */
RC_TEST(naks_end_what_they_are_about)
{
	static const uint8_t status[] = {
		[1] = SP_RDMA_REM_INV_REQ_ERR, SP_RDMA_REM_ACCESS_ERR, SP_RDMA_REM_OP_ERR, SP_RDMA_REM_INV_REQ_ERR};
	unsigned naks = 0;

	for (unsigned code = 1; code <= 4; code++) {
		post(SP_RDMA_WR_SEND, code, 8);
		post(SP_RDMA_WR_SEND, 10, 8);
		answer(SP_RC_ACKNOWLEDGE, 0, (uint8_t)(0x60 | code), 0);
		CU_ASSERT(rn_completed(code, status[code], SP_RDMA_WC_SEND, 8));
		CU_ASSERT(rn_completed(10, SP_RDMA_FLUSHED, SP_RDMA_WC_SEND, 8));
		CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
		answer(SP_RC_ACKNOWLEDGE, 0, (uint8_t)(0x60 | code), 0);
		CU_ASSERT_PTR_NULL(rn_completion());
		rn_anew();
	}
	post(SP_RDMA_WR_SEND, 1, 8);
	while (rn_attr().state == SP_RDMA_RTS && naks++ < 100)
		answer(SP_RC_ACKNOWLEDGE, 0, 0x60, 0);
	CU_ASSERT_EQUAL(naks, 9); /* retry_cnt 7, and the first */
	CU_ASSERT(rn_completed(1, SP_RDMA_RETRY_EXC_ERR, SP_RDMA_WC_SEND, 8));
	CU_ASSERT(rn_only(NOTHING));
}

/* ---- strangers ---- */
RC_TEST(neither_answers_nor_notifications_of_strangers_count)
{
	static const uint8_t stranger[4] = {192, 0, 2, 77};
	const uint8_t opcode[] = {SP_RC_ACKNOWLEDGE, SP_RC_READ_RESPONSE_ONLY, SP_ROCE_CNP, SP_RC_WRITE_ONLY,
				  SP_RC_SEND_ONLY};

	rn_receive(9, 0, 100);
	post(SP_RDMA_WR_READ, 1, 8);
	for (unsigned i = 0; i < 2 * sizeof(opcode); i++) {
		if (i & 1)
			rn_pkey = (uint16_t)(0x8000 | i);
		else
			rn_source = stranger;
		answer(opcode[i / 2], opcode[i / 2] < 0x0D ? WAY(0) : 0, i & 4 ? 0x62 : 0x1F, 8);
	}
	CU_ASSERT_EQUAL(rn_dropped("bad-source"), sizeof(opcode));
	CU_ASSERT_EQUAL(rn_dropped("bad-pkey"), sizeof(opcode));
	CU_ASSERT_EQUAL(rn_count("cnps_received"), 0);
	CU_ASSERT(idle());
}

/* ---- congestion notifications ---- */
TEST(forged_notifications_slow_a_qp_down_to_a_floor_only)
{
	struct rdma_rate *rate;

	rn_begin("congestion-control=yes;cc-rate=10G");
	rn_connect(SP_RDMA_RC);
	rn_watch();
	rate = &rn_state_of()->sq.rate;
	answer(SP_ROCE_CNP, 0, 0, 12);
	CU_ASSERT_EQUAL(rate->now, 1250000000 / 2); /* half of what the parameter says */
	rn_now += 60 * SP_US;
	for (unsigned i = 0; i < 1999; i++) {
		answer(SP_ROCE_CNP, 0, 0, 12);
		rn_now += i & 1 ? SP_US : 60 * SP_US;
	}
	CU_ASSERT_EQUAL(rn_count("cnps_received"), 2000);
	CU_ASSERT(rate->now >= 10000000 / 8);
	CU_ASSERT(rate->now < 20000000 / 8);
	for (unsigned i = 0; i < 3; i++)
		rn_post_send(i, 0, RN_MTU);
	rn_now = dut_run(&dut, rn_now, rn_now + 2 * SP_MS);
	CU_ASSERT(rn_count("packets_sent") == 3);
	rn_stop();
}

/* ---- datagrams ---- */
static void datagram(uint8_t opcode, uint32_t qkey, uint32_t len)
{
	uint8_t ext[12] = {0};

	sp_store_be32(ext, qkey);
	sp_store_be32(ext + 4, 0x123456);
	rn_packet(opcode, 77, ext, opcode == SP_UD_SEND_ONLY_IMM ? 12 : 8, NULL, len);
}

UD_TEST(a_datagram_needs_opcode_key_and_room)
{
	uint64_t count = 0;

	rn_receive(1, 0, 300);
	rn_watch();
	for (unsigned opcode = 0; opcode < 256; opcode++)
		if (opcode != SP_UD_SEND_ONLY && opcode != SP_UD_SEND_ONLY_IMM) {
			datagram((uint8_t)opcode, 0x11111111, 200);
			count++;
		}
	CU_ASSERT_EQUAL(rn_dropped("wrong-type") + rn_dropped("bad-opcode"), count);
	for (unsigned bit = 0; bit < 32; bit++)
		datagram(SP_UD_SEND_ONLY, 0x11111111 ^ 1u << bit, 200);
	CU_ASSERT_EQUAL(rn_dropped("bad-qkey"), 32);
	for (uint32_t len = 0; len < 12; len++)
		rn_packet(SP_UD_SEND_ONLY_IMM, 0, NULL, 0, NULL, len);
	CU_ASSERT_EQUAL(rn_dropped("short-header"), 12);
	for (uint32_t len = 261; len < 400; len++)
		datagram(SP_UD_SEND_ONLY, 0x11111111, len);
	CU_ASSERT_EQUAL(rn_dropped("too-long"), 139);
	rn_pkey = 0x8001;
	datagram(SP_UD_SEND_ONLY, 0x11111111, 200);
	CU_ASSERT_EQUAL(rn_dropped("bad-pkey"), 1);
	CU_ASSERT(idle());
	datagram(SP_UD_SEND_ONLY, 0x11111111, 260);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 300));
	CU_ASSERT(rn_only(0, 300));
}
