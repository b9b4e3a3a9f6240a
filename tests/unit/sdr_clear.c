/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, bitmaps of large receives: only parts that packets have touched are cleared, and nothing is left. */
#include "../lib/sdr_sources.c" /* some of what the sources keep to themselves is called here */
#include "../lib/sdr_alone.h"

#define LARGE	(4ull << 20) /* 32768 packets: 64 parts of 512 */
#define PACKETS ((uint32_t)(LARGE / MTU))

static const char *chunk_bytes;

static void attach_large(uint16_t workers)
{
	const char *const setting[] = {"mtu",	       "128",  "queue",	      "8",	   "max-message-bytes",
				       "4M",	       "rkey", "0x12345678",  "credit",	   "implicit",
				       "max-messages", "2",    "chunk-bytes", chunk_bytes, NULL};

	alone_attach(&alone_nic, setting, LARGE, workers);
}

static bool zero(const uint64_t *words, uint64_t n)
{
	while (n--)
		if (*words++)
			return false;
	return true;
}

/* Some packets here and there, and some in a row, of message k. */
static void give_some(uint64_t k)
{
	const struct sdr *s = alone_nic.c.state;
	const uint32_t id = (uint32_t)(k % 2);
	bool taken = true;

	for (uint32_t runs = 1 + alone_draw(6); runs--;) {
		const uint32_t at = alone_draw(PACKETS), n = alone_draw(4) ? 1 + alone_draw(5) : 1 + alone_draw(1500);

		for (uint32_t i = at; i < at + n && i < PACKETS; i++) {
			struct packet *p = alone_packet(id, i, MTU);

			p->qp_index = (uint32_t)(k / 2 % s->generations);
			p->va = id * LARGE + i * MTU;
			alone_nic.c.worker = (uint16_t)alone_draw(alone_nic.c.workers);
			taken &= alone_give(p) == SP_DONE;
		}
	}
	CU_ASSERT(taken);
}

static void leaves_nothing(uint16_t workers)
{
	const struct sdr *s;
	uint64_t words, chunks, *was;

	attach_large(workers);
	s = alone_nic.c.state;
	words = (s->max_packets + 511) / 512 * 8;
	chunks = (s->max_chunks + 511) / 512 * 8;
	was = malloc(chunks * 8);
	for (uint64_t k = 0; k < 40; k++) {
		const struct sdr_slot *slot = &s->slot[k % 2];

		CU_ASSERT_EQUAL(alone_post_to(&alone_nic, k, 0, LARGE), 0);
		if (k % 5) /* of some nothing comes */
			give_some(k);
		CU_ASSERT_EQUAL(zero(slot->taken, words), !(k % 5));
		memcpy(was, slot->chunk, chunks * 8);
		CU_ASSERT(!memcmp(was, alone_bitmap(&alone_nic, k % 2), chunks * 8));
		alone_nic.c.worker = 0;
		CU_ASSERT_EQUAL(alone_complete(&alone_nic, k), 0);
		CU_ASSERT(zero(slot->taken, words) && zero(slot->chunk, chunks) && zero(slot->reserved, chunks));
		CU_ASSERT(slot->done == slot->chunk || zero(slot->done, words));
		CU_ASSERT(zero(alone_bitmap(&alone_nic, k % 2), chunks));
		CU_ASSERT_EQUAL(slot->touched, 0);
		if (s->queued) /* the report's copy is the message's, whatever was there before */
			CU_ASSERT(!memcmp(was, s->record_chunks + k % s->records * chunks, chunks * 8));
	}
	free(was);
	fake_detach(&alone_nic);
}

TEST(nothing_is_left_of_a_large_message)
{
	static const char *const sizes[] = {"128", "512", "384", "64K"};

	for (unsigned i = 0; i < 8; i++) {
		chunk_bytes = sizes[i / 2];
		leaves_nothing(i % 2 ? 2 : 1);
	}
}

TEST(a_look_for_packets_misses_none)
{
	struct sdr_slot *slot;
	const struct sdr *s;
	unsigned found = 0;

	chunk_bytes = "512";
	attach_large(2);
	s = alone_nic.c.state;
	slot = &s->slot[0];
	for (unsigned round = 0; round < 20000; round++) {
		const uint32_t packet = alone_draw(PACKETS), first = alone_draw(PACKETS);
		const uint32_t end = first + 1 + alone_draw(PACKETS - first);

		sdr_touch(s, slot, packet / 64);
		sdr_touch(s, slot, alone_draw(PACKETS / 64));
		slot->taken[packet / 64] = 1ull << packet % 64;
		if (sdr_any_taken(s, slot, first, end) != (packet >= first && packet < end))
			CU_FAIL("what is taken is found, and nothing else");
		found += packet >= first && packet < end;
		slot->taken[packet / 64] = 0;
		if (alone_draw(2))
			slot->touched = 0;
	}
	CU_ASSERT(found > 2000);
	fake_detach(&alone_nic);
}
