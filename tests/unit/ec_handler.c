/* SPDX-License-Identifier: BSD-3-Clause */
/* The ec handler beside sdr: codes that cannot be, parity that does not fit, commands that lie; and parity that is made
 * and sent, also when somebody goes meanwhile. */
#include "../lib/ec_nic.h"

/* ---- codes ---- */

TEST(impossible_codes_are_refused_by_name)
{
	static const char *const bad[][2] = {
		{"k", BASE "max-messages=4;k=0"},
		{"k", BASE "max-messages=4;k=255"},
		{"m", BASE "max-messages=4;m=0"},
		{"m", BASE "max-messages=4;k=200;m=56"},
		{"m", BASE "max-messages=4;code=xor;k=4;m=5"},
		{"code", BASE "max-messages=4;code=raid"},
		{"max-messages", BASE "max-messages=5"},
		{"generations", SENDER ";generations=1"},
		{"max-messages", BASE "max-messages=1"},
	};
	struct sp_error error;
	uint32_t none;

	ecn_begin(RECEIVER);
	CU_ASSERT_EQUAL(sp_context_close(dut.dev, ecn_id), 0);
	ecn_id = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT(dut_try_context(&dut, "bad", "sdr", bad[i][1], &none, &error) < 0);
		if (strcmp(error.key, bad[i][0]))
			printf("# %s: %s: %s\n", bad[i][1], error.key, error.text);
		CU_ASSERT_STRING_EQUAL(error.key, bad[i][0]);
	}
	CU_ASSERT_EQUAL(dut_try_context(&dut, "bad", "count", "filter=udp;companion=ec", &none, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "companion");
	CU_ASSERT(dut_try_context(&dut, "bad", "ec", "filter=udp", &none, &error) < 0);
	ecn_stop();
}

/* All that a connection may have: the list begins with the connection's code, and no other wants more room, or is twice
 * there. By each packet alone, with 4 user bits, it can be told which one it is. */
TEST(the_codes_of_a_connection_fit_its_room_and_can_be_told_apart)
{
	for (unsigned k = 1; k < SP_EC_CHUNKS_MAX; k++)
		for (unsigned m = 1; k + m <= SP_EC_CHUNKS_MAX; m += 1 + m / 8) {
			struct sp_ec_shape c[SP_EC_CODES_MAX];
			const unsigned codes = sp_ec_codes(SP_EC_CODE_MDS, k, m, 4, c);

			CU_ASSERT_FATAL(codes >= 1 && codes <= SP_EC_CODES_MAX && c[0].k == k && c[0].m == m);
			CU_ASSERT_EQUAL(sp_ec_codes(SP_EC_CODE_XOR, k, m, 4, c), 1);
			CU_ASSERT_EQUAL(sp_ec_codes(SP_EC_CODE_MDS, k, m, 0, c), 1);
			sp_ec_codes(SP_EC_CODE_MDS, k, m, 1, c);
			for (unsigned i = 0; i < codes; i++) {
				CU_ASSERT_FATAL(c[i].k >= 1 && c[i].m >= 1 && c[i].k <= k && c[i].m <= m);
				for (unsigned j = 0; j < i; j++)
					CU_ASSERT_FATAL(c[i].k != c[j].k || c[i].m != c[j].m);
				for (uint64_t bytes = 1; bytes < 300000; bytes = bytes * 3 + 1)
					CU_ASSERT_FATAL(sp_ec_parity_bytes(c[i].k, c[i].m, bytes, 64) <=
							sp_ec_parity_bytes(k, m, bytes, 64));
				for (unsigned part = 0; part < 32; part += 4)
					CU_ASSERT_EQUAL_FATAL(
						sp_ec_possible(99, sp_ec_immediate_of(99, i), 15u << part, codes),
						1u << i);
			}
		}
}

/* ---- parity that does not fit ---- */

/* Also of a place in the list of codes that has none, and of two places, whichever packet of a chunk says otherwise. */
TEST(parity_of_another_code_or_length_repairs_nothing_and_is_counted)
{
	const uint32_t fits = sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA);
	const uint32_t wrong[] = {sp_ec_immediate(SP_EC_CODE_XOR, K, M, DATA),
				  sp_ec_immediate(SP_EC_CODE_MDS, 16, 4, DATA),
				  sp_ec_immediate(SP_EC_CODE_MDS, M, K, DATA),
				  sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA - 1),
				  0,
				  fits ^ 0xFFFFFFFF,
				  fits ^ 1,
				  fits ^ 0x10000000,
				  fits ^ 0x22222221};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		ecn_begin(RECEIVER);
		ecn_post_pair(0);
		ecn_data_but(0, M);
		ecn_parity(0, M, wrong[i]);
		ecn_settle();
		CU_ASSERT_EQUAL(ecn_bitmap(0), UINT32_MAX << M);
		CU_ASSERT_EQUAL(ecn_total(SP_EC_MISMATCHES), 1);
		for (unsigned b = 0; b < M * CHUNK; b++)
			CU_ASSERT_EQUAL_FATAL(ecn_slot(0)[b], 0xEE);
		for (unsigned j = 0; j < M; j++) /* they are sent again, as without any code */
			ecn_chunk_of(0, j, 0);
		ecn_settle();
		CU_ASSERT(ecn_is_whole(0));
		ecn_stop();
	}
	/* Another code's immediate, but the length of the first one's parity. */
	ecn_begin(RECEIVER);
	ecn_post_pair(0);
	ecn_data_but(0, M);
	ecn_parity(0, M, sp_ec_immediate_of(fits, 1));
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(0), UINT32_MAX << M);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_MISMATCHES), 1);
	ecn_stop();
	/* The right immediate, but another length. */
	ecn_begin(RECEIVER);
	ecn_post_pair(0);
	ecn_data_but(0, M);
	ecn_parity(0, M - 1, ecn_right);
	ecn_packet(1, (M - 1) * CHUNK / MTU, (M - 1) * CHUNK / MTU, ecn_area.right[K],
		   sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA));
	for (unsigned j = 0; j < 2; j++)
		ecn_chunk_of(0, j, 0);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(0), UINT32_MAX & ~0xFCull);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_MISMATCHES), 1);
	ecn_stop();
}

TEST(more_losses_than_parity_are_left_and_counted_as_failed)
{
	ecn_begin(RECEIVER);
	ecn_post_pair(0);
	ecn_data_but(0, M + 1);
	ecn_parity(0, M, ecn_right);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_bitmap(0), UINT32_MAX << (M + 1));
	CU_ASSERT_EQUAL(ecn_call(SP_CMD_COMPLETE, 0, 0, 0, 0, 0, 0), 0);
	ecn_settle();
	CU_ASSERT_EQUAL(ecn_total(SP_EC_FAILED), 1);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_DECODE_SLICES), 0);
	ecn_stop();
}

/* ---- sending ---- */

static void connect_peer(void)
{
	struct sp_command c = {.op = SP_SDR_CMD_CONNECT, .context = ecn_id, .arg = {[2] = 0x200, 1, 2, 7}};

	memcpy(c.arg, dut_peer4, 16);
	CU_ASSERT_EQUAL_FATAL(sp_command_call(dut.dev, &c, NULL), 0);
}

static int send_data(uint64_t k)
{
	for (unsigned j = 0; j < K; j++)
		memcpy(ecn_slot(k) + j * CHUNK, ecn_area.right[j], CHUNK);
	return ecn_call(SP_SDR_CMD_SEND, k, ecn_mr->id, k % 4 * SLOT, DATA, 0, 0);
}

static int send_parity(uint64_t k)
{
	return ecn_call(SP_EC_CMD_PARITY, k, ecn_mr->id, (k - 1) % 4 * SLOT, DATA, ecn_mr->id, k % 4 * SLOT);
}

TEST(parity_is_sent_as_defined_behind_the_data)
{
	const uint32_t immediate = sp_ec_immediate(SP_EC_CODE_MDS, K, M, DATA);
	unsigned parities = 0;

	ecn_begin(SENDER);
	connect_peer();
	CU_ASSERT_EQUAL(send_data(0), 0);
	CU_ASSERT_EQUAL(send_parity(1), 0);
	ecn_settle();
	CU_ASSERT_EQUAL(dut.port.sents, (DATA + PARITY) / MTU);
	for (unsigned i = 0; i < dut.port.sents; i++) {
		const uint8_t *bth = dut.port.sent[i].bytes + 42, *reth = bth + 12;
		const uint32_t imm = sp_load_be32(reth + 16), p = imm >> 4 & 0x3FFFF;

		if (imm >> 22 == 0) {
			CU_ASSERT_EQUAL(parities, 0);
			continue;
		}
		CU_ASSERT_EQUAL(imm >> 22, 1);
		CU_ASSERT_EQUAL(p, parities);
		CU_ASSERT_EQUAL(sp_load_be64(reth), (256 << 10) + (uint64_t)p * MTU);
		CU_ASSERT_EQUAL(imm & 15, immediate >> p % 8 * 4 & 15);
		CU_ASSERT_EQUAL(bth[1] >> 7, p == PARITY / MTU - 1);
		CU_ASSERT_EQUAL(memcmp(reth + 20, ecn_area.right[K + p * MTU / CHUNK] + p * MTU % CHUNK, MTU), 0);
		parities++;
	}
	CU_ASSERT_EQUAL(parities, PARITY / MTU);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_ENCODED), 1);
	CU_ASSERT_EQUAL(ecn_total(SP_EC_ENCODED_BYTES), PARITY);
	CU_ASSERT(ecn_total(SP_EC_ENCODE_SLICES) >= (uint64_t)K * M * CHUNK / SP_EC_SLICE);
	ecn_stop();
}

TEST(commands_for_parity_are_not_believed)
{
	static const struct {
		int rc;
		uint64_t cookie, arg[5];
	} bad[] = {
		{-EINVAL, 0, {0, 0, DATA, 0, SLOT}}, /* not of data */
		{-EINVAL, 3, {0, 0, DATA, 0, SLOT}}, /* not the next */
		{-EINVAL, UINT64_MAX, {0, 0, DATA, 0, SLOT}}, {-EINVAL, 1, {0, 0, (256 << 10) + 1, 0, SLOT}},
		{-EINVAL, 1, {0, 0, UINT64_MAX, 0, SLOT}},    {-EFAULT, 1, {99, 0, DATA, 0, SLOT}},
		{-EFAULT, 1, {0, 0, DATA, 99, SLOT}},	      {-EFAULT, 1, {1ull << 32, 0, DATA, 0, SLOT}},
		{-EFAULT, 1, {0, 0, DATA, 1ull << 32, SLOT}}, {-EFAULT, 1, {0, 4 * SLOT - DATA + 1, DATA, 0, SLOT}},
		{-EFAULT, 1, {0, UINT64_MAX, DATA, 0, SLOT}}, {-EFAULT, 1, {0, 0, DATA, 0, 4 * SLOT - PARITY + 1}},
		{-EFAULT, 1, {0, 0, DATA, 0, UINT64_MAX}},
	};

	ecn_begin(SENDER);
	CU_ASSERT_EQUAL(ecn_call(SP_EC_CMD_PARITY, 1, ecn_mr->id, 0, DATA, ecn_mr->id, SLOT), -ENOTCONN);
	connect_peer();
	CU_ASSERT_EQUAL(send_data(0), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const uint64_t *a = bad[i].arg, m0 = a[0] ? a[0] : ecn_mr->id, m3 = a[3] ? a[3] : ecn_mr->id;
		const int rc = ecn_call(SP_EC_CMD_PARITY, bad[i].cookie, m0, a[1], a[2], m3, a[4]);

		if (rc != bad[i].rc)
			printf("# bad[%zu]: %d\n", i, rc);
		CU_ASSERT_EQUAL(rc, bad[i].rc);
	}
	for (unsigned i = 0; i < 2; i++) { /* codes that there are not */
		const uint64_t which = i ? UINT64_MAX : SP_EC_CODES_MAX;
		const struct sp_command c = {.op = SP_EC_CMD_PARITY,
					     .context = ecn_id,
					     .cookie = 1,
					     .arg = {ecn_mr->id, 0, DATA, ecn_mr->id, SLOT, which}};

		CU_ASSERT_EQUAL(sp_command_call(dut.dev, &c, NULL), -EINVAL);
	}
	CU_ASSERT_EQUAL(ecn_call(SP_CMD_QUERY, 0, SP_EC_TOTALS, 0, 0, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(ecn_call(SP_EC_CMD_PARITY + 1, 1, ecn_mr->id, 0, DATA, ecn_mr->id, SLOT), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(send_parity(1), 0);
	CU_ASSERT_EQUAL(send_parity(1), -EINVAL);
	ecn_settle();
	CU_ASSERT_EQUAL(dut.port.sents, (DATA + PARITY) / MTU);
	ecn_stop();
	/* More parity than a message may be long; of no bytes, one packet. */
	ecn_begin(BASE "max-messages=4;credit=implicit;k=4;m=5");
	connect_peer();
	CU_ASSERT_EQUAL(ecn_call(SP_SDR_CMD_SEND, 0, ecn_mr->id, 0, DATA, 0, 0), 0);
	CU_ASSERT_EQUAL(ecn_call(SP_EC_CMD_PARITY, 1, ecn_mr->id, 0, DATA, ecn_mr->id, SLOT), -EINVAL);
	CU_ASSERT_EQUAL(ecn_call(SP_EC_CMD_PARITY, 1, 0, 0, 0, 0, 0), 0);
	ecn_settle();
	CU_ASSERT_EQUAL(dut.port.sents, DATA / MTU + 1);
	ecn_stop();
}

TEST(a_connection_or_a_context_may_end_while_parity_is_made)
{
	for (unsigned whole = 0; whole < 2; whole++) {
		ecn_begin(SENDER);
		connect_peer();
		for (uint64_t k = 0; k < 4; k += 2) {
			CU_ASSERT_EQUAL(send_data(k), 0);
			CU_ASSERT_EQUAL(send_parity(k + 1), 0);
		}
		CU_ASSERT_EQUAL(ecn_call(SP_SDR_CMD_SEND, 4, ecn_mr->id, 0, MTU, 0, 0),
				-EAGAIN); /* all slots are in use */
		while (!ecn_total(SP_EC_ENCODE_SLICES))
			dut_poll(&dut, ecn_now);
		CU_ASSERT_EQUAL(ecn_total(SP_EC_ENCODED), 0);
		CU_ASSERT_EQUAL(sp_mr_free(ecn_mr), -EBUSY);
		if (whole) {
			CU_ASSERT_EQUAL(sp_context_close(dut.dev, ecn_id), 0);
			ecn_id = 0;
		} else {
			CU_ASSERT_EQUAL(ecn_call(SP_CMD_CLOSE, 0, 0, 0, 0, 0, 0), 0);
		}
		ecn_settle();
		for (unsigned i = 0; i < dut.port.sents; i++)
			CU_ASSERT_EQUAL(dut.port.sent[i].bytes[42 + 12 + 16] >> 6 & 1, 0); /* no parity has left */
		ecn_stop();
	}
}
