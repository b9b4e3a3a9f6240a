/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sdr handler does for a companion: chunks that are reserved are nobody else's, chunks that are supplied count
 * as if they had come, and what a companion makes is sent as far as it is ready. */
#include "../lib/sdr_alone.h"

TEST(a_supplied_chunk_counts_and_is_not_overwritten)
{
	for (uint16_t workers = 1; workers <= 2; workers++) {
		const struct sp_export *x = fake_handler->exports;
		const uint64_t key = SP_SLOT_KEY(0, 0);
		struct sp_extent e;

		alone_attach(&alone_nic, alone_implicit4, M_BYTES, workers);
		CU_ASSERT_EQUAL(x->extent(&alone_nic.c, key, &e), -ENOENT);
		alone_post_to(&alone_nic, 0, 64, 6 * MTU);
		CU_ASSERT_EQUAL(x->extent(&alone_nic.c, key, &e), 0);
		CU_ASSERT(e.mem->id == BUFFER && e.offset == 64 && e.bytes == 6 * MTU && !e.fixed && !e.complete);
		alone_give(alone_packet(0, 1, MTU));
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, 0), 0);
		CU_ASSERT_EQUAL(x->supply(&alone_nic.c, key, 0, 1), -EINVAL); /* it is not the companion's */
		CU_ASSERT_EQUAL(alone_reserve(x, key, 2), -ERANGE);
		CU_ASSERT_EQUAL(alone_reserve(x, SP_SLOT_KEY(0, 1), 0), -ENOENT);
		CU_ASSERT_EQUAL(alone_reserve(x, SP_SLOT_KEY(9, 0), 0), -ENOENT);
		CU_ASSERT_EQUAL(alone_reserve(x, key, 0), 0);
		CU_ASSERT_EQUAL(alone_reserve(x, key, 0), 0);
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length,
				SP_SDR_LENGTH_FIXED | 6 * MTU); /* what is decoded stays that */
		for (uint32_t i = 0; i < 4; i++)
			CU_ASSERT_EQUAL(alone_give(alone_packet(0, i, MTU)), SP_DONE);
		CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base + 64 + 2 * MTU, MTU));
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], 4);
		CU_ASSERT_EQUAL(alone_give(alone_packet(0, 4, MTU / 2)), SP_DROP(SDR_BEYOND_END)); /* another length */
		CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 0);
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, 0), 0);
		CU_ASSERT_EQUAL(x->supply(&alone_nic.c, key, 0, 1), 0);
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, 0), 1);
		CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 1);
		CU_ASSERT_EQUAL(alone_reserve(x, key, 0), 1);
		CU_ASSERT_EQUAL(x->supply(&alone_nic.c, SP_SLOT_KEY(0, 1), 0, 1), -ENOENT);
		alone_give(alone_packet(0, 4, MTU));
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN);
		alone_give(alone_packet(0, 5, MTU));
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, 1), 1);
		CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 3);
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		fake_detach(&alone_nic);
	}
}

/* Chunks of 1, 3 and 4 packets, over the words of all bitmaps: some have come, of some a packet has. */
TEST(chunks_are_reserved_and_supplied_many_at_a_time)
{
	static const uint64_t from[] = {0, 1, 60, 64};
	const uint64_t wanted = 0xFFF0F700F05F3, come = 0x0040010001081, part = 0x2490202020140;
	const uint64_t mine = wanted & ~come, key = SP_SLOT_KEY(0, 0);

	for (unsigned i = 0; i < 12; i++) {
		const struct sp_export *x = fake_handler->exports;
		const uint64_t per = i % 3 == 0 ? 1 : i % 3 + 2, at = from[i / 3],
			       all = (M_BYTES / MTU + per - 1) / per;
		const char *const settings[] = {"mtu",
						"128",
						"queue",
						"64",
						"max-message-bytes",
						"64K",
						"rkey",
						"0x12345678",
						"chunk-bytes",
						per == 1 ? "128" : per == 3 ? "384" : "512",
						"credit",
						"implicit",
						"max-messages",
						"4",
						NULL};
		const struct sp_sdr_connection *connection;
		uint64_t got = 3, runs = 0;

		alone_attach(&alone_nic, settings, M_BYTES, 2);
		connection =
			(const void *)(alone_nic.mem[0].base + ((struct sdr *)alone_nic.c.state)->layout.connection);
		alone_post_to(&alone_nic, 0, 0, M_BYTES);
		for (uint64_t c = 0; c < 52; c++) {
			for (uint64_t p = 0; p < per && come >> c & 1; p++)
				alone_give(alone_packet(0, (uint32_t)((at + c) * per + p), MTU));
			if (part >> c & 1 && per > 1)
				alone_give(alone_packet(0, (uint32_t)((at + c) * per + per - 1), MTU));
			runs += mine >> c & 1 && !(c && mine >> (c - 1) & 1);
		}
		CU_ASSERT_EQUAL(x->reserve(&alone_nic.c, key, all - 1, &got), -ERANGE);
		CU_ASSERT_EQUAL(got, 0);
		CU_ASSERT_EQUAL(x->reserved(&alone_nic.c, key, all - 1), 0);
		got = wanted;
		CU_ASSERT_EQUAL(x->reserve(&alone_nic.c, key, at, &got), 0);
		CU_ASSERT_EQUAL(got, mine);
		CU_ASSERT_EQUAL(x->reserved(&alone_nic.c, key, at), mine);
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, at), come);
		memset(alone_nic.mem[BUFFER].base, UNTOUCHED, M_BYTES);
		for (uint64_t p = at * per; p < (at + 52) * per; p++) /* all of them, once more */
			alone_give(alone_packet(0, (uint32_t)p, MTU));
		for (uint64_t c = 0; c < 52; c++)
			CU_ASSERT(!((mine | come) >> c & 1) ||
				  alone_untouched(alone_nic.mem[BUFFER].base + (at + c) * per * MTU, per * MTU));
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, at), ~mine & ((1ull << 52) - 1));
		CU_ASSERT_EQUAL(x->supply(&alone_nic.c, key, at, mine | come), -EINVAL);
		CU_ASSERT_EQUAL(x->supply(&alone_nic.c, key, at, 0), -EINVAL);
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, at), ~mine & ((1ull << 52) - 1));
		CU_ASSERT_EQUAL(x->supply(&alone_nic.c, key, at, mine), 0);
		CU_ASSERT_EQUAL(x->present(&alone_nic.c, key, at), (1ull << 52) - 1);
		CU_ASSERT_EQUAL(alone_bitmap(&alone_nic, 0)[0], ((1ull << 52) - 1) << at % 64 & (at < 64 ? ~0ull : 0));
		CU_ASSERT_EQUAL(connection->repaired, (uint64_t)__builtin_popcountll(mine) | runs << SP_SDR_RUNS_SHIFT);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_CHUNKS], 52);
		fake_detach(&alone_nic);
	}
}

/* What a companion makes is sent as far as it is ready, beside other messages; it may end half-way. */
TEST(a_message_is_sent_as_it_gets_ready)
{
	const struct sp_export *x = fake_handler->exports;

	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	struct sdr *s = alone_nic.c.state;
	CU_ASSERT_EQUAL(x->send(&alone_nic.c, 0, BUFFER, 0, 8 * MTU, 7), -ENOTCONN);
	CU_ASSERT_EQUAL(alone_connect_to(&alone_nic, 22, 11), 0);
	CU_ASSERT_EQUAL(x->send(&alone_nic.c, 1, BUFFER, 0, 8 * MTU, 7), -EINVAL); /* not the next */
	CU_ASSERT_EQUAL(x->send(&alone_nic.c, 0, BUFFER, 1, M_BYTES, 7), -EFAULT);
	CU_ASSERT_EQUAL(x->send(&alone_nic.c, 0, UINT64_MAX, 0, 1, 7), -EFAULT);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(x->send(&alone_nic.c, 0, BUFFER, 0, 8 * MTU, 7), 0);
	fake_issue(&alone_nic, 32, 9);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 0);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 0, 9 * MTU), -EINVAL);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 0, MTU - 1), -EINVAL);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 1, MTU), -ENOENT);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 0, 3 * MTU), 0);
	fake_issue(&alone_nic, 2, 9);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 3);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 0, 4 * MTU), 0);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 0, MTU), 0);
	fake_issue(&alone_nic, 32, 9);
	CU_ASSERT_EQUAL(alone_nic.sent_count, 8);
	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(alone_nic.sent[i].send.flags & SP_PKT_SE, i == 7 ? SP_PKT_SE : 0);
	CU_ASSERT_EQUAL(s->sends[0].message, 0); /* released */
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 0, MTU), -ENOENT);

	for (uint64_t k = 1; k < 4; k++)
		CU_ASSERT_EQUAL(x->send(&alone_nic.c, k, BUFFER, 0, 4 * MTU, 0), 0);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 2, MTU), 0);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 3);
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &(struct sp_command){.op = SP_CMD_CLOSE}, NULL), 0);
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(x->ready(&alone_nic.c, 1, MTU), -ENOENT);
	CU_ASSERT_EQUAL(s->first, SDR_NONE);
	fake_detach(&alone_nic);
}
