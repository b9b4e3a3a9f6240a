/* SPDX-License-Identifier: BSD-3-Clause */
/* SDR's wire format: the immediate, slots and generations, the layout of the area shared with the host. */
#include "../../handlers/wire/sdr.h"
#include "../lib/suite.h"

static const unsigned user_bits[] = {0, 1, 2, 4, 8, 16};

/* The default split, by hand: 10 + 18 + 4. */
TEST(default_split_has_the_documented_bit_positions)
{
	struct sp_sdr_split s = {0};

	CU_ASSERT_EQUAL_FATAL(sp_sdr_split_parse("10+18+4", &s), 0);
	CU_ASSERT_EQUAL(sp_sdr_imm(s, 1, 0, 0), 0x00400000);
	CU_ASSERT_EQUAL(sp_sdr_imm(s, 0, 1, 0), 0x00000010);
	CU_ASSERT_EQUAL(sp_sdr_imm(s, 1023, 0x3FFFF, 0xFFFFFFFF), 0xFFFFFFFF);
	/* packet 2 carries bits 8-11, packet 9 bits 4-7 (9 mod 8 = 1) */
	CU_ASSERT_EQUAL(sp_sdr_imm(s, 0, 2, 0x00000A00) & 15, 0xA);
	CU_ASSERT_EQUAL(sp_sdr_imm(s, 0, 9, 0x000000B0) & 15, 0xB);
}

TEST(every_split_packs_and_unpacks)
{
	unsigned tried = 0;

	for (unsigned u = 0; u < 6; u++)
		for (unsigned id = 0; id <= 32 - user_bits[u]; id++) {
			const struct sp_sdr_split s = {id, 32 - user_bits[u] - id, user_bits[u]};
			const uint64_t ids[] = {0, 1, (1ull << id) - 1, (1ull << id) / 3};
			const uint64_t packets[] = {0, 1, (1ull << s.offset) - 1, (1ull << s.offset) / 3};

			for (int a = 0; a < 4; a++)
				for (int b = 0; b < 4; b++) {
					const uint64_t i = ids[a] & ((1ull << id) - 1);
					const uint64_t p = packets[b] & ((1ull << s.offset) - 1);
					const uint32_t imm = sp_sdr_imm(s, (uint32_t)i, p, 0xC35A9617);

					if (sp_sdr_imm_id(s, imm) != i || sp_sdr_imm_packet(s, imm) != p)
						CU_FAIL("id or packet came back wrong");
					tried++;
				}
		}
	CU_ASSERT(tried > 1000);
}

TEST(fragments_rebuild_the_user_immediate)
{
	const uint32_t user = 0xC35A9617;

	for (unsigned u = 1; u < 6; u++) {
		const unsigned bits = user_bits[u];
		const struct sp_sdr_split s = {8, 24 - bits, bits};
		uint32_t built = 0;

		for (unsigned p = 0; p < 32 / bits; p++)
			built |= (sp_sdr_imm(s, 3, p, user) & ((1u << bits) - 1)) << (p * bits);
		CU_ASSERT_EQUAL(built, user);
	}
}

TEST(bad_splits_are_refused)
{
	static const char *const bad[] = {"",	     "10",     "10+18",		  "10+18+5", "10+18+4+0",
					  "10+19+3", "0+8+24", "10 +18+4",	  "-1+29+4", "10+18+4 ",
					  "a+b+c",   "33+0+0", "4294967306+18+4", "+18+4",   "10++22"};
	static const char *const good[] = {"10+18+4", "8+22+2", "0+32+0", "32+0+0", "16+0+16", "1+30+1", "12+12+8"};
	struct sp_sdr_split s = {0};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (sp_sdr_split_parse(bad[i], &s) != -EINVAL)
			CU_FAIL(bad[i]);
	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (sp_sdr_split_parse(good[i], &s))
			CU_FAIL(good[i]);
}

/* k = (round * G + g) * S + slot, counted out instead of divided. */
TEST(messages_take_slots_in_turn_then_generations)
{
	const uint32_t S = 5, G = 3;
	uint64_t k = 0;

	for (int round = 0; round < 3; round++)
		for (uint32_t g = 0; g < G; g++)
			for (uint32_t slot = 0; slot < S; slot++, k++) {
				CU_ASSERT_EQUAL(sp_sdr_slot(k, S), slot);
				CU_ASSERT_EQUAL(sp_sdr_generation(k, S, G), g);
			}
	CU_ASSERT_EQUAL(sp_sdr_slot(UINT64_MAX, 64), 63);
}

TEST(each_lap_has_its_own_key)
{
	for (uint32_t g = 1; g <= SP_SDR_MAX_QPS; g++) {
		CU_ASSERT(sp_sdr_laps(g) >= 1u << 19);
		CU_ASSERT((uint64_t)sp_sdr_laps(g) * g <= 1u << 31);
		CU_ASSERT_EQUAL(sp_sdr_rkey(7, 64ull * g - 1, 64, g), 7);
		CU_ASSERT_EQUAL(sp_sdr_rkey(7, 64ull * g, 64, g), 8);
		CU_ASSERT_EQUAL(sp_sdr_rkey(UINT32_MAX, 64ull * g, 64, g), 0);
		CU_ASSERT_EQUAL(sp_sdr_rkey(7, 64ull * g * sp_sdr_laps(g) - 1, 64, g), 6 + sp_sdr_laps(g));
		CU_ASSERT_EQUAL(sp_sdr_rkey(7, 64ull * g * sp_sdr_laps(g), 64, g), 7);
	}
}

TEST(nothing_still_takes_one_packet_and_one_chunk)
{
	CU_ASSERT_EQUAL(sp_sdr_units(0, 1024), 1);
	CU_ASSERT_EQUAL(sp_sdr_units(1, 1024), 1);
	CU_ASSERT_EQUAL(sp_sdr_units(1024, 1024), 1);
	CU_ASSERT_EQUAL(sp_sdr_units(1025, 1024), 2);
	CU_ASSERT_EQUAL(sp_sdr_units(1ull << 44, 64), 1ull << 38);
}

TEST(area_parts_are_aligned_and_do_not_overlap)
{
	const struct sp_sdr_layout l = sp_sdr_layout(7, 513, 65, 1), of3 = sp_sdr_layout(7, 513, 65, 3);

	CU_ASSERT_EQUAL(l.connection, 64);
	CU_ASSERT_EQUAL(l.recv, 128);
	CU_ASSERT_EQUAL(l.send, 128 + 7 * 64);
	CU_ASSERT_EQUAL(l.bitmap, 128 + 14 * 64);
	CU_ASSERT_EQUAL(l.bitmap_stride, 128); /* 513 bits are 65 bytes */
	CU_ASSERT_EQUAL(l.packets, l.bitmap + 7 * 128);
	CU_ASSERT_EQUAL(l.bytes, l.packets + 64);
	CU_ASSERT_EQUAL(of3.counts, l.packets + 64);
	CU_ASSERT_EQUAL(sp_sdr_count(&of3, 0, 0, 3), of3.counts);
	CU_ASSERT_EQUAL(sp_sdr_count(&of3, 6, 2, 3) + 64, of3.bytes);
	CU_ASSERT_EQUAL(of3.bytes, of3.counts + 7 * 3 * 64);
}
