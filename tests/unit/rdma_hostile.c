/* SPDX-License-Identifier: BSD-3-Clause */
/* A hostile peer's requests. Each gets the NAK that the specification names, or is dropped by name; no byte of memory
 * changes beside what the peer may write. */
#include "../../handlers/rdma/message.h"
#include "../lib/rdma_nic.h"

#define WAY(i)	  ((RN_PSN + (i)) & 0xFFFFFF)
#define DATA_END  (RN_MEMORY - RN_DATA)
#define NOTHING	  0, 0
#define ALL_KINDS 4

static void start_rc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_RC);
	rn_watch();
}

static void start_uc(void)
{
	rn_begin("");
	rn_connect(SP_RDMA_UC);
	rn_watch();
}

#define RC_TEST(name) TEST_BETWEEN(start_rc, rn_stop, name)
#define UC_TEST(name) TEST_BETWEEN(start_uc, rn_stop, name)

static void send(uint8_t opcode, uint32_t psn, uint32_t len)
{
	rn_packet(opcode, psn, NULL, 0, NULL, len);
}

/* A request that reaches for 8 bytes there: WRITE, READ, CAS, FETCH_ADD. */
static void reach(unsigned kind, uint32_t psn, uint64_t va, uint32_t key)
{
	uint8_t reth[16];

	rn_reth(reth, va, key, 8);
	if (kind < 2)
		rn_packet(kind ? SP_RC_READ_REQUEST : SP_RC_WRITE_ONLY, psn, reth, 16, NULL, kind ? 0 : 8);
	else
		rn_atomic(kind == 2 ? SP_RC_COMPARE_SWAP : SP_RC_FETCH_ADD, psn, va, key, 5, 0xEEEEEEEEEEEEEEEE);
}

/* This NAK, nothing else; ERR, with this event; deaf from then on. Then the QP begins anew. */
static bool refused(uint8_t syndrome, uint32_t psn, int async)
{
	bool ok = rn_acked(syndrome, psn) && rn_silent() && rn_attr().state == SP_RDMA_ERR;

	ok = ok && rn_event(SP_RDMA_EVENT_ASYNC, (unsigned)async) && rn_no_event();
	send(SP_RC_SEND_ONLY, psn, 4);
	ok = ok && rn_silent();
	rn_anew();
	return ok;
}

static bool invalid(uint32_t psn)
{
	return refused(0x61, psn, SP_RDMA_ASYNC_QP_REQ_ERR);
}

static bool no_access(uint32_t psn)
{
	return refused(0x62, psn, SP_RDMA_ASYNC_QP_ACCESS_ERR);
}

/* ---- keys ---- */
static uint32_t foreign_key(uint32_t *id) /* of the same memory, in another application's context */
{
	const uint32_t own = rn_context, pd = rn_pd;
	struct sp_rdma_keys keys;

	rn_context = *id = dut_context(&dut, "other", "rdma", "qp=128;qps=1;mrs=8");
	rn_pd = rn_id(SP_RDMA_PD_CREATE, NULL, 0);
	CU_ASSERT_EQUAL_FATAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, 15, &keys), 0);
	rn_context = own;
	rn_pd = pd;
	return keys.rkey;
}

RC_TEST(no_key_but_a_living_one_of_the_domain_opens_memory)
{
	const uint32_t other = rn_id(SP_RDMA_PD_CREATE, NULL, 0);
	struct sp_rdma_keys stale, domain, ended, again;
	uint32_t neighbour;
	uint8_t word[4];

	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, 15, &stale), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, stale.rkey), 0);
	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4096, other, 15, &domain), 0);
	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, 15, &ended), 0);
	rn_receive(1, 0, 100);
	sp_store_be32(word, ended.rkey);
	rn_packet(SP_RC_SEND_ONLY_INVALIDATE, WAY(0), word, 4, NULL, 0);
	CU_ASSERT(rn_completed(1, SP_RDMA_OK, SP_RDMA_WC_RECV, 0));
	const uint32_t key[] = {stale.rkey, domain.rkey, ended.rkey, foreign_key(&neighbour),
				0,	    UINT32_MAX,	 rn_key ^ 1, ~rn_key};

	rn_anew();
	rn_watch();
	for (unsigned i = 0; i < sizeof(key) / sizeof(*key); i++)
		for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
			reach(kind, WAY(0), RN_VA, key[i]);
			CU_ASSERT(no_access(WAY(0)));
			CU_ASSERT(rn_only(NOTHING));
		}
	CU_ASSERT_EQUAL(rn_count("naks_access"), sizeof(key) / sizeof(*key) * ALL_KINDS);
	/* Nor can it be invalidated; that tells by the completion of the entry that it takes. */
	for (unsigned i = 0; i < sizeof(key) / sizeof(*key); i++) {
		rn_receive(i, 0, 100);
		sp_store_be32(word, key[i]);
		rn_packet(SP_RC_SEND_ONLY_INVALIDATE, WAY(0), word, 4, NULL, 0);
		CU_ASSERT(rn_acked(0x62, WAY(0)));
		CU_ASSERT(rn_completed(i, SP_RDMA_LOC_ACCESS_ERR, SP_RDMA_WC_RECV, 0));
		rn_anew();
	}
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, domain.rkey), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, ended.rkey), 0);
	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, 15, &again), 0);
	reach(0, WAY(0), RN_VA + 4088, again.rkey); /* the slot lives, with another key */
	CU_ASSERT(rn_only(4088, 8));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, again.rkey), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_PD_DESTROY, other), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, neighbour), 0);
}

/* What 3 rights of the QP and 3 of the region allow; a right that the QP lacks makes an invalid request of it. */
RC_TEST(each_operation_needs_its_right_of_qp_and_region)
{
	static const uint32_t right[ALL_KINDS] = {SP_RDMA_REMOTE_WRITE, SP_RDMA_REMOTE_READ, SP_RDMA_REMOTE_ATOMIC,
						  SP_RDMA_REMOTE_ATOMIC};
	struct sp_rdma_keys keys[8];

	for (uint32_t m = 0; m < 8; m++)
		CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4096, rn_pd, m << 1 | 1, &keys[m]), 0);
	for (unsigned i = 0; i < ALL_KINDS * 64; i++) {
		const uint32_t qp = (i & 7) << 1, m = i >> 3 & 7, kind = i >> 6;
		const struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_ACCESS, .access = qp};
		struct rn_answer answer;

		CU_ASSERT_EQUAL(rn_modify(&a), 0);
		memset(rn_memory + RN_DATA, 0xEE, 64);
		rn_watch();
		rn_ack = true;
		reach(kind, WAY(0), RN_VA, keys[m].rkey);
		if (!(qp & right[kind])) {
			CU_ASSERT(invalid(WAY(0)));
			CU_ASSERT(rn_only(NOTHING));
		} else if (!(m << 1 & right[kind])) {
			CU_ASSERT(no_access(WAY(0)));
			CU_ASSERT(rn_only(NOTHING));
		} else {
			CU_ASSERT(rn_answered(&answer) && answer.syndrome == 0x1F);
			CU_ASSERT(rn_only(0, kind == 1 ? 0 : 8));
			CU_ASSERT(kind == 1 || !rn_untouched(0, 8));
			rn_anew();
		}
	}
	for (uint32_t m = 0; m < 8; m++)
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys[m].rkey), 0);
}

/* ---- bounds ---- */
RC_TEST(no_address_or_length_reaches_beyond_a_region)
{
	static const struct {
		uint64_t va;
		uint32_t len;
	} at[] = {{RN_VA - 1, 1},
		  {RN_VA - 1, 8},
		  {RN_VA - 8, 8},
		  {RN_VA + DATA_END - 7, 8},
		  {RN_VA + DATA_END, 8},
		  {RN_VA + DATA_END, 1},
		  {RN_VA, DATA_END + 1},
		  {RN_VA + 1, DATA_END},
		  {RN_VA + 8, UINT32_MAX / 2 + 1},
		  {0, 8},
		  {UINT64_MAX, 8},
		  {UINT64_MAX - 7, 8},
		  {UINT64_MAX - 3, 8},
		  {RN_VA + (1ull << 63), 8},
		  {RN_VA + (1ull << 32), 8},
		  {RN_VA, 1u << 31}};
	uint8_t reth[16];

	for (unsigned i = 0; i < 2 * sizeof(at) / sizeof(*at); i++) {
		const uint64_t va = at[i / 2].va;
		const uint32_t len = at[i / 2].len;

		rn_reth(reth, va, rn_key, len);
		if (i & 1)
			rn_packet(SP_RC_READ_REQUEST, WAY(0), reth, 16, NULL, 0);
		else
			rn_write(len > RN_MTU ? SP_RC_WRITE_FIRST : SP_RC_WRITE_ONLY, WAY(0), va, rn_key, len,
				 len > RN_MTU ? RN_MTU : len);
		CU_ASSERT(no_access(WAY(0)));
		CU_ASSERT(rn_only(NOTHING));
	}
	/* More than a message may have. */
	rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, (1u << 31) + 1, RN_MTU);
	CU_ASSERT(invalid(WAY(0)));
	rn_reth(reth, RN_VA, rn_key, UINT32_MAX);
	rn_packet(SP_RC_READ_REQUEST, WAY(0), reth, 16, NULL, 0);
	CU_ASSERT(invalid(WAY(0)));
	/* Of nothing, neither key nor address matters. */
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++) {
		struct rn_answer a;

		rn_ack = true;
		rn_write(SP_RC_WRITE_ONLY, WAY(2 * i), at[i].va, ~rn_key, 0, 0);
		CU_ASSERT(rn_acked(0x1F, WAY(2 * i)));
		rn_reth(reth, at[i].va, 0, 0);
		rn_packet(SP_RC_READ_REQUEST, WAY(2 * i + 1), reth, 16, NULL, 0);
		CU_ASSERT(rn_answered(&a) && a.opcode == SP_RC_READ_RESPONSE_ONLY && a.len == 0);
	}
	CU_ASSERT(rn_only(NOTHING));
}

RC_TEST(a_region_at_the_end_of_addresses_ends_there)
{
	struct sp_rdma_keys keys;

	CU_ASSERT_EQUAL(rn_register(UINT64_MAX - 4095, RN_DATA, 4096, rn_pd, 15, &keys), -EINVAL);
	CU_ASSERT_EQUAL(rn_register(UINT64_MAX - 4096, RN_DATA, 4096, rn_pd, 15, &keys), 0);
	rn_write(SP_RC_WRITE_ONLY, WAY(0), UINT64_MAX - 8, keys.rkey, 8, 8);
	CU_ASSERT(rn_only(4088, 8));
	CU_ASSERT(rn_filled(4088, 0, 8));
	rn_watch();
	rn_write(SP_RC_WRITE_ONLY, WAY(1), UINT64_MAX - 7, keys.rkey, 8, 8);
	CU_ASSERT(no_access(WAY(1)));
	rn_write(SP_RC_WRITE_ONLY, WAY(0), 0, keys.rkey, 8, 8);
	CU_ASSERT(no_access(WAY(0)));
	CU_ASSERT(rn_only(NOTHING));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, keys.rkey), 0);
}

/* What the RETH says and what the packets have: the one that contradicts it writes nothing. */
RC_TEST(a_write_has_as_many_bytes_as_it_says)
{
	static const struct {
		uint32_t dma_len;
		uint32_t len[3];
		unsigned packets;
	} way[] = {{8, {4}, 1},
		   {8, {12}, 1},
		   {0, {4}, 1},
		   {4, {0}, 1},
		   {RN_MTU, {RN_MTU, 0}, 1}, /* FIRST has all of it */
		   {RN_MTU - 4, {RN_MTU, 0}, 1},
		   {RN_MTU + 8, {RN_MTU, 4}, 2},
		   {RN_MTU + 8, {RN_MTU, 12}, 2},
		   {RN_MTU + 8, {RN_MTU, RN_MTU, 0}, 2}, /* MIDDLE */
		   {2 * RN_MTU, {RN_MTU, RN_MTU, 0}, 2},
		   {2 * RN_MTU + 8, {RN_MTU, RN_MTU, 12}, 3},
		   {2 * RN_MTU + 8, {RN_MTU, RN_MTU, RN_MTU}, 3},
		   {1u << 20, {RN_MTU, RN_MTU, 8}, 3}};

	for (unsigned i = 0; i < sizeof(way) / sizeof(*way); i++) {
		const bool only = way[i].packets == 1 && way[i].len[0] != RN_MTU;
		uint32_t k = 0, good = (way[i].packets - 1) * RN_MTU;

		rn_watch();
		rn_write(only ? SP_RC_WRITE_ONLY : SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, way[i].dma_len,
			 way[i].len[0]);
		while (++k < way[i].packets)
			send(k == 1 && way[i].len[1] == RN_MTU ? SP_RC_WRITE_MIDDLE : SP_RC_WRITE_LAST, WAY(k),
			     way[i].len[k]);
		CU_ASSERT(invalid(WAY(k - 1)));
		CU_ASSERT(rn_only(0, good));
	}
}

/* ---- packets ---- */
enum { IDLE, IN_SEND, IN_WRITE, PLACES };

static void begin(unsigned place)
{
	rn_receive(1, 8192, 4096);
	if (place == IN_SEND)
		send(SP_RC_SEND_FIRST, WAY(0), RN_MTU);
	if (place == IN_WRITE)
		rn_write(SP_RC_WRITE_FIRST, WAY(0), RN_VA, rn_key, 3 * RN_MTU, RN_MTU);
}

/* In its order, with a payload of one MTU behind its headers. */
static bool legal(unsigned place, uint8_t opcode)
{
	switch (opcode) {
	case SP_RC_SEND_FIRST:
	case SP_RC_SEND_ONLY:
	case SP_RC_SEND_ONLY_IMM:
	case SP_RC_WRITE_FIRST:
	case SP_RC_WRITE_ONLY:
	case SP_RC_WRITE_ONLY_IMM:
		return place == IDLE;
	case SP_RC_SEND_MIDDLE:
	case SP_RC_SEND_LAST:
	case SP_RC_SEND_LAST_IMM:
		return place == IN_SEND;
	case SP_RC_WRITE_MIDDLE:
		return place == IN_WRITE;
	default: /* READ and ATOMIC have no payload, LAST of the WRITE would come too early */
		return false;
	}
}

static bool revokes(unsigned place, uint8_t opcode)
{
	return opcode == (place == IN_SEND ? SP_RC_SEND_LAST_INVALIDATE : SP_RC_SEND_ONLY_INVALIDATE) &&
	       place != IN_WRITE;
}

static void any_opcode(unsigned place, uint8_t opcode)
{
	const bool answer = (opcode >= SP_RC_READ_RESPONSE_FIRST && opcode <= SP_RC_ATOMIC_ACKNOWLEDGE);
	const uint32_t psn = WAY(place == IDLE ? 0 : 1);
	const bool first = opcode == SP_RC_WRITE_FIRST;
	uint8_t ext[32] = {0};
	uint32_t len = opcode < 32 ? rdma_forms[opcode].ext : 0;
	const uint64_t stray = rn_dropped("stray") + rn_dropped("bad-answer"), type = rn_dropped("wrong-type");

	begin(place);
	rn_watch();
	rn_reth(ext, RN_VA + 16384, rn_key, RN_MTU * (first ? 2 : 1));
	rn_packet(opcode, psn, ext, len, NULL, RN_MTU);
	if (opcode == SP_ROCE_CNP) {
		CU_ASSERT_EQUAL(rn_count("cnps_received"), place + 1);
	} else if (opcode >= 32) {
		CU_ASSERT_EQUAL(rn_dropped("wrong-type"), type + 1);
	} else if (answer) {
		CU_ASSERT_EQUAL(rn_dropped("stray") + rn_dropped("bad-answer"), stray + 1);
	} else if (legal(place, opcode)) {
		CU_ASSERT(rn_only(0, 32768));
		CU_ASSERT_EQUAL(rn_state_of()->in.psn, (psn + 1) & 0xFFFFFF);
	} else if (revokes(place, opcode)) { /* a key that is none */
		CU_ASSERT(rn_acked(0x62, psn));
		CU_ASSERT(rn_completed(1, SP_RDMA_LOC_ACCESS_ERR, SP_RDMA_WC_RECV, 0));
		CU_ASSERT(rn_only(8192, 4096));
	} else {
		CU_ASSERT(rn_acked(0x61, psn));
		CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
		CU_ASSERT(rn_completed(1, place == IN_SEND ? SP_RDMA_REM_INV_REQ_ERR : SP_RDMA_FLUSHED, SP_RDMA_WC_RECV,
				       0));
		CU_ASSERT(rn_only(NOTHING));
	}
	if (opcode >= 32 || answer) {
		CU_ASSERT(rn_only(NOTHING));
		CU_ASSERT_EQUAL(rn_state_of()->in.psn, psn);
		CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
	}
	CU_ASSERT(rn_silent());
	rn_anew();
}

RC_TEST(of_all_opcodes_only_those_that_may_follow_are_taken)
{
	for (unsigned place = 0; place < PLACES; place++)
		for (unsigned opcode = 0; opcode < 256; opcode++)
			any_opcode(place, (uint8_t)opcode);
}

RC_TEST(a_packet_has_the_length_that_its_opcode_says)
{
	static const struct {
		uint8_t place, opcode;
		uint32_t len;
		uint8_t pad;
	} wrong[] = {{IDLE, SP_RC_SEND_FIRST, RN_MTU - 4, 0},
		     {IDLE, SP_RC_SEND_FIRST, RN_MTU + 4, 0},
		     {IDLE, SP_RC_SEND_FIRST, 0, 0},
		     {IDLE, SP_RC_SEND_FIRST, RN_MTU - 1, 0},
		     {IDLE, SP_RC_SEND_ONLY, RN_MTU + 1, 0},
		     {IDLE, SP_RC_SEND_ONLY_IMM, RN_MTU + 1, 0},
		     {IN_SEND, SP_RC_SEND_MIDDLE, RN_MTU - 4, 0},
		     {IN_SEND, SP_RC_SEND_MIDDLE, 0, 0},
		     {IN_SEND, SP_RC_SEND_MIDDLE, RN_MTU + 4, 0},
		     {IN_SEND, SP_RC_SEND_LAST, 0, 0},
		     {IN_SEND, SP_RC_SEND_LAST, RN_MTU + 1, 0},
		     {IN_SEND, SP_RC_SEND_MIDDLE, RN_MTU, 2},
		     {IN_SEND, SP_RC_SEND_LAST_IMM, 0, 0},
		     {IN_SEND, SP_RC_SEND_LAST_INVALIDATE, 0, 0},
		     {IN_WRITE, SP_RC_WRITE_MIDDLE, RN_MTU - 4, 0},
		     {IN_WRITE, SP_RC_WRITE_MIDDLE, 0, 0},
		     {IN_WRITE, SP_RC_WRITE_LAST, 0, 0},
		     {IN_WRITE, SP_RC_WRITE_LAST, 2 * RN_MTU, 0},
		     {IN_WRITE, SP_RC_WRITE_LAST_IMM, 0, 0}};
	uint8_t ext[32];

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const uint32_t psn = WAY(wrong[i].place == IDLE ? 0 : 1);

		begin(wrong[i].place);
		rn_watch();
		rn_pads = wrong[i].pad;
		rn_packet(wrong[i].opcode, psn, ext, rdma_forms[wrong[i].opcode].ext, NULL, wrong[i].len);
		CU_ASSERT(rn_acked(0x61, psn));
		CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
		CU_ASSERT(rn_only(NOTHING));
		rn_anew();
	}
	/* Requests that have no payload. */
	rn_watch();
	for (unsigned kind = 1; kind < ALL_KINDS; kind++) {
		const uint8_t opcode = kind == 1   ? SP_RC_READ_REQUEST
				       : kind == 2 ? SP_RC_COMPARE_SWAP
						   : SP_RC_FETCH_ADD;

		memset(ext, 0, sizeof(ext));
		rn_reth(ext, RN_VA, rn_key, 8);
		rn_packet(opcode, WAY(0), ext, rdma_forms[opcode].ext, NULL, 4);
		CU_ASSERT(invalid(WAY(0)));
		CU_ASSERT(rn_only(NOTHING));
	}
	/* Headers that end too early: as if the packet had been lost. */
	for (unsigned opcode = 0; opcode < 32; opcode++)
		for (uint32_t len = 0; len < rdma_forms[opcode].ext; len++) {
			const uint64_t before = rn_dropped("short-header");

			rn_packet((uint8_t)opcode, WAY(0), NULL, 0, NULL, len);
			CU_ASSERT_EQUAL(rn_dropped("short-header"), before + 1);
		}
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_state_of()->in.psn, WAY(0));
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
}

/* ---- PSNs ---- */
RC_TEST(half_of_all_psns_are_old_and_half_come_too_early)
{
	static const uint32_t early[] = {1, 2, 100, (1u << 23) - 2, (1u << 23) - 1};
	static const uint32_t old[] = {1, 2, 100, (1u << 23) - 1, 1u << 23};

	rn_receive(1, 0, 4096);
	rn_watch();
	for (unsigned i = 0; i < 5; i++) {
		const uint64_t before = rn_dropped("ahead");

		rn_ack = true;
		reach(0, WAY(early[i]), RN_VA, rn_key);
		CU_ASSERT_EQUAL(rn_dropped("ahead"), before + 1);
		CU_ASSERT(i ? rn_silent() : rn_acked(0x60, WAY(0))); /* one, until the missing packet comes */
	}
	for (unsigned i = 0; i < 5; i++) {
		const uint64_t before = rn_count("duplicates");

		reach(0, WAY(-old[i]), RN_VA, rn_key);
		CU_ASSERT_EQUAL(rn_count("duplicates"), before + 1);
		CU_ASSERT(rn_acked(0x1F, WAY(-1)));
		reach(1, WAY(-old[i]), RN_VA, rn_key); /* a READ that never was */
		reach(3, WAY(-old[i]), RN_VA, rn_key);
		CU_ASSERT_EQUAL(rn_dropped("lost-resource"), 2 * i + 2);
		CU_ASSERT(rn_silent());
	}
	CU_ASSERT(rn_only(NOTHING));
	CU_ASSERT_EQUAL(rn_state_of()->in.psn, WAY(0));
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
}

/* ---- atomics ---- */
RC_TEST(an_atomic_is_of_8_aligned_bytes_within)
{
	struct sp_rdma_keys odd;

	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, 4100, rn_pd, 15, &odd), 0);
	for (unsigned kind = 2; kind < ALL_KINDS; kind++) {
		for (unsigned i = 1; i < 8; i++) {
			reach(kind, WAY(0), RN_VA + 64 + i, odd.rkey);
			CU_ASSERT(invalid(WAY(0)));
		}
		reach(kind, WAY(0), RN_VA + 4096, odd.rkey); /* 4 bytes of it */
		CU_ASSERT(no_access(WAY(0)));
		CU_ASSERT(rn_only(NOTHING));
	}
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, odd.rkey), 0);
}

/* READs whose answers are due fill all places; the ATOMIC behind them comes in the same burst. */
RC_TEST(an_atomic_beyond_the_agreed_number_is_not_done)
{
	uint8_t ext[28] = {0};
	struct rn_answer a;
	unsigned n = 0;

	rn_reth(ext, RN_VA + 4096, rn_key, RN_MTU);
	for (unsigned i = 0; i < 4; i++)
		rn_feed(SP_RC_READ_REQUEST, WAY(i), ext, 16, NULL, 0);
	rn_reth(ext, RN_VA, rn_key, 0);
	rn_feed(SP_RC_FETCH_ADD, WAY(4), ext, 28, NULL, 0);
	rn_go();
	while (rn_answered(&a) && a.opcode == SP_RC_READ_RESPONSE_ONLY)
		n++;
	CU_ASSERT_EQUAL(n, 4);
	CU_ASSERT(a.opcode == SP_RC_ACKNOWLEDGE && a.syndrome == 0x61 && a.psn == WAY(4));
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_ERR);
	CU_ASSERT(rn_only(NOTHING));
}

/* ---- states ---- */
TEST(a_qp_hears_nothing_before_rtr_and_after_its_end)
{
	static const uint32_t types[] = {SP_RDMA_RC, SP_RDMA_UC, SP_RDMA_UD};

	for (unsigned i = 0; i < 3; i++) {
		uint64_t drops = 0;

		rn_begin("");
		rn_qp(types[i], 0);
		rn_receive(1, 0, 1024);
		for (unsigned at = 0; at < 4; at++) {
			if (at == 1)
				rn_to(SP_RDMA_INIT);
			if (at == 2)
				rn_anew(), rn_state(SP_RDMA_ERR);
			rn_watch();
			for (unsigned opcode = 0; opcode < 256; opcode++) {
				uint8_t ext[28] = {0};

				rn_reth(ext, RN_VA, rn_key, 8);
				rn_packet((uint8_t)opcode, WAY(0), ext, 16, NULL, 8);
				drops++;
			}
			CU_ASSERT(rn_only(NOTHING));
			CU_ASSERT(rn_silent());
			CU_ASSERT_EQUAL(rn_dropped("wrong-state") + rn_dropped("no-qp"), drops);
			if (at == 2) {
				const uint32_t gone = rn_qpn;

				CU_ASSERT_EQUAL(rn_destroy(), 0);
				rn_qpn = gone;
			}
		}
		CU_ASSERT_EQUAL(rn_dropped("no-qp"), 256);
		rn_qpn = 0;
		rn_stop();
	}
}

/* ---- UC: all that is wrong is dropped, and the QP lives ---- */
UC_TEST(uc_drops_by_name_and_lives)
{
	uint64_t drops = 0, bad, before;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const uint8_t kind = rdma_forms[opcode & 0x1F].kind;
		uint8_t ext[28] = {0};

		rn_reth(ext, RN_VA, ~rn_key, 12); /* nobody's */
		rn_packet((uint8_t)opcode, WAY(opcode), ext, 28, NULL, 12);
		drops += opcode != SP_ROCE_CNP;
		bad = rn_dropped("wrong-type") + rn_dropped("bad-opcode") + rn_dropped("bad-key") +
		      rn_dropped("bad-length") + rn_dropped("bad-order") + rn_dropped("no-receive") +
		      rn_dropped("too-long");
		if (bad != drops)
			printf("# opcode 0x%x kind %u\n", opcode, kind);
		CU_ASSERT_EQUAL_FATAL(bad, drops);
	}
	before = rn_dropped("bad-key") + rn_dropped("too-long");
	for (unsigned i = 0; i < 3; i++)
		rn_write(SP_UC_WRITE_ONLY, WAY(9), RN_VA + (i == 0 ? DATA_END - 3 : 0), rn_key, 4 + 4 * (i == 1),
			 4 + 8 * (i == 2));
	CU_ASSERT_EQUAL(rn_dropped("bad-key") + rn_dropped("too-long"), before + 3);
	CU_ASSERT(rn_only(NOTHING));
	CU_ASSERT(rn_silent());
	CU_ASSERT_EQUAL(rn_attr().state, SP_RDMA_RTS);
}
