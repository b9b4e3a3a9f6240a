/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, a message that several workers have packets of, at moments that two threads meet in once in a million runs. */
#include "../lib/sdr_sources.c" /* some of what the sources keep to themselves is called here */
#include "../lib/sdr_alone.h"

static const char *const packets_are_chunks[] = {"mtu",	   "128",	  "queue",	  "64",	  "max-message-bytes",
						 "64K",	   "chunk-bytes", "128",	  "rkey", "0x12345678",
						 "credit", "implicit",	  "max-messages", "4",	  NULL};
static const char *const wide_chunks[] = {"mtu",    "128",	   "queue",	   "64",   "max-message-bytes",
					  "64K",    "chunk-bytes", "384",	   "rkey", "0x12345678",
					  "credit", "implicit",	   "max-messages", "4",	   NULL};

static struct sdr_slot *slot_of(uint32_t index)
{
	return &((struct sdr *)alone_nic.c.state)->slot[index];
}

static void shuffle(uint32_t *order, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		const uint32_t j = (seed = seed * 1664525 + 1013904223) / 65536 % i, was = order[j];

		order[j] = order[i - 1];
		order[i - 1] = was;
	}
}

/* A message is complete with its last packet, whichever that is, and once; whoever looks waits for one word of chunks
 * at a time. Packets come twice; the last one of the message is a short one. */
TEST(a_message_is_complete_with_its_last_packet_in_whatever_order)
{
	const char *const *const settings[] = {packets_are_chunks, alone_implicit4, wide_chunks};
	const uint32_t per[] = {1, 4, 3};

	for (uint32_t run = 0; run < 90; run++) {
		const uint32_t packets = (uint32_t[]){300, 256, 65, 64, 1}[run / 3 % 5], which = run % 3;
		const uint32_t chunks = (packets + per[which] - 1) / per[which];
		uint32_t order[512];
		bool early = false;

		alone_attach(&alone_nic, settings[which], M_BYTES, 2);
		alone_nic.c.worker = run & 1;
		alone_post_to(&alone_nic, 0, 0,
			      run & 2 ? M_BYTES : packets * MTU); /* the length is known, or it is not */
		shuffle(order, packets, run);
		if (run % 4 == 3) /* as they come most often */
			for (uint32_t i = 0; i < packets; i++)
				order[i] = i;
		else if (run % 4 == 2) /* the end first, the first word last */
			for (uint32_t i = 0; i < packets; i++)
				order[i] = i ? (i + 63) % (packets - 1) : packets - 1;
		for (uint32_t i = 0; i < packets; i++) {
			const uint32_t len = order[i] + 1 == packets ? MTU / 2 : MTU;

			early |= alone_line(&alone_nic, 0)->state != SP_SDR_OPEN;
			CU_ASSERT_EQUAL(alone_give(alone_packet(0, order[i], len)), SP_DONE);
			CU_ASSERT_EQUAL(alone_give(alone_packet(0, order[i], len)), SP_DONE);
		}
		CU_ASSERT(!early);
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), packets);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_MESSAGES], 1);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_CHUNKS], chunks);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_PACKETS], packets);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], packets);
		fake_detach(&alone_nic);
	}
}

/* Another worker is looking whether the length can be 6 packets. */
TEST(nothing_follows_from_a_length_that_may_not_stay)
{
	alone_attach(&alone_nic, packets_are_chunks, M_BYTES, 2);
	struct sdr_slot *slot = slot_of(0);

	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	slot->extent = SDR_FIXING | 6 * MTU;
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 7, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(slot->taken[0], 0); /* what was not accepted has not been taken */
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 4, MTU / 2)), SP_DROP(SDR_BEYOND_END));

	struct packet *last = alone_packet(0, 5, MTU);

	last->flags = SP_PKT_SE;
	CU_ASSERT_EQUAL(alone_give(last), SP_DONE); /* that worker has the same packet, and will place it */
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], 1);
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_PACKETS], 0);
	for (uint32_t i = 0; i < 6; i++)
		CU_ASSERT_EQUAL(alone_give(alone_packet(0, i, MTU)), SP_DONE);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, M_BYTES);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN);
	slot->extent = 0; /* it cannot */
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 7, MTU)), SP_DONE);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN);
	fake_detach(&alone_nic);
}

TEST(a_length_is_not_fixed_where_packets_beyond_have_been_taken)
{
	alone_attach(&alone_nic, packets_are_chunks, M_BYTES, 2);
	struct sdr_slot *slot = slot_of(0);

	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	alone_give(alone_packet(0, 3, MTU));
	alone_give(alone_packet(0, 130, MTU));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 5, MTU / 2)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 130, MTU / 2)), SP_DROP(SDR_BEYOND_END)); /* that one was full */
	CU_ASSERT_EQUAL(slot->extent, 0);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, M_BYTES);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 131, MTU / 2)), SP_DONE);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, SP_SDR_LENGTH_FIXED | (131 * MTU + MTU / 2));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 132, MTU)), SP_DROP(SDR_BEYOND_END));
	fake_detach(&alone_nic);
}

/* A reserved chunk is its companion's, and the others' packets are not: also where chunks are packets. */
TEST(a_length_that_a_packet_is_about_to_tell_is_not_reserved_in)
{
	const struct sp_export *x = fake_handler->exports;
	uint64_t chunks = 1;

	alone_attach(&alone_nic, packets_are_chunks, M_BYTES, 2);
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	slot_of(0)->extent = SDR_FIXING | 6 * MTU;
	CU_ASSERT_EQUAL(x->reserve(&alone_nic.c, SP_SLOT_KEY(0, 0), 0, &chunks), -EAGAIN);
	CU_ASSERT_EQUAL(chunks, 0);
	slot_of(0)->extent = 0;
	chunks = 1;
	CU_ASSERT_EQUAL(x->reserve(&alone_nic.c, SP_SLOT_KEY(0, 0), 0, &chunks), 0);
	CU_ASSERT_EQUAL(chunks, 1);
	fake_detach(&alone_nic);
}

/* A packet is being written: it has its place (claim), but is not there (done). */
TEST(a_chunk_is_nobodys_while_a_packet_of_it_is_being_written)
{
	const struct sp_export *x = fake_handler->exports;
	const uint64_t key = SP_SLOT_KEY(0, 0);

	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 2);
	struct sdr_slot *slot = slot_of(0);

	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	for (uint32_t i = 0; i < 3; i++)
		alone_give(alone_packet(0, i, MTU));
	slot->done[0] &= ~4ull;
	CU_ASSERT_EQUAL(alone_reserve(x, key, 0), -EAGAIN);
	CU_ASSERT_EQUAL(alone_reserve(x, key, 0), -EAGAIN);
	slot->done[0] |= 4;
	sdr_check_chunk(&alone_nic.c, alone_nic.c.state, slot, 0); /* as whoever has written it does now */
	sdr_check_chunks(&alone_nic.c, alone_nic.c.state, slot, 0, slot->done[0],
			 4); /* ... or, of several, all of a run */
	CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 0);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 3, MTU)), SP_DONE); /* too late: it is the companion's */
	CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 0);
	CU_ASSERT_EQUAL(alone_reserve(x, key, 0), 0);

	for (uint32_t i = 4; i < 8; i++) /* all are there, but who brought the last has yet to say so */
		alone_give(alone_packet(0, i, MTU));
	slot->chunk[0] &= ~2ull;
	CU_ASSERT_EQUAL(alone_reserve(x, key, 1), -EAGAIN);
	slot->chunk[0] |= 2;
	CU_ASSERT_EQUAL(alone_reserve(x, key, 1), 1);
	fake_detach(&alone_nic);
}

/* Of a fragment that two workers bring, the first one's stays; the host is told of what is new, and only of that. */
TEST(fragments_that_another_worker_has_brought_stay)
{
	alone_attach(&alone_nic, packets_are_chunks, M_BYTES, 2);
	struct sdr_slot *slot = slot_of(0);

	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	slot->immediate = 0xFull << 32 | 0x5;
	sdr_publish_immediates(&alone_nic.c, alone_nic.c.state, slot, 0xFFull << 32 | 0x37);
	CU_ASSERT_EQUAL(slot->immediate, 0xFFull << 32 | 0x35);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->immediate, 0xF0ull << 32 | 0x30);
	sdr_publish_immediates(&alone_nic.c, alone_nic.c.state, slot, 0xFFull << 32 | 0x37);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->immediate, 0xF0ull << 32 | 0x30);
	fake_detach(&alone_nic);
}

/* Each worker counts in its own line, of the slot's message alone; a message begins with none, and nothing else of the
 * area is where a count is. */
TEST(each_workers_count_is_of_the_message_in_the_slot)
{
	static const char *const credited[] = {"mtu",	       "128",	      "queue",	"64",	"max-message-bytes",
					       "64K",	       "chunk-bytes", "128",	"rkey", "0x12345678",
					       "max-messages", "4",	      "replay", "yes",	NULL};

	for (uint16_t workers = 1; workers <= 16; workers += 5) {
		uint64_t counts[4] = {0};

		alone_attach(&alone_nic, workers % 2 ? packets_are_chunks : credited, M_BYTES, workers);
		const struct sdr *s = alone_nic.c.state;
		const struct sp_sdr_layout *l = &s->layout;
		const struct sp_sdr_area *header = (const void *)alone_nic.mem[0].base;
		uint8_t *const area = alone_nic.mem[0].base;

		CU_ASSERT_EQUAL(header->workers, workers);
		CU_ASSERT_EQUAL(alone_nic.mem[0].len, l->bytes);
		CU_ASSERT_EQUAL(l->datagrams ? l->datagrams - l->counts : l->bytes - l->counts,
				workers > 1 ? 4u * workers * 64 : 0);
		for (uint64_t k = 0; k < 12; k++) {
			const uint32_t slot = (uint32_t)(k % 4);

			CU_ASSERT_EQUAL(alone_post_to(&alone_nic, k, 0, M_BYTES), 0);
			counts[slot] = 0;
			CU_ASSERT_EQUAL(alone_line(&alone_nic, slot)->message, k + 1);
			CU_ASSERT_EQUAL(alone_came(&alone_nic, slot), 0);
			for (uint32_t i = 0; i < 100; i++) {
				struct packet *p = alone_packet(slot, i, MTU);

				p->qp_index = (uint32_t)(k / 4 % s->generations * s->channels);
				alone_nic.c.worker = (uint16_t)(i * 7 % workers);
				CU_ASSERT_EQUAL(alone_give(p), SP_DONE);
				counts[slot]++;
				CU_ASSERT_EQUAL(alone_came(&alone_nic, slot), counts[slot]);
			}
			for (uint32_t other = 0; other < 4; other++)
				CU_ASSERT_EQUAL(alone_came(&alone_nic, other), counts[other]);
			for (uint32_t w = 0; workers > 1 && w < workers; w++) {
				uint64_t own = 0, there;

				for (uint32_t i = 0; i < 100; i++)
					own += i * 7 % workers == w;
				memcpy(&there, area + sp_sdr_count(l, slot, w, workers), sizeof(there));
				CU_ASSERT_EQUAL(there, own);
			}
			CU_ASSERT_EQUAL(alone_bitmap(&alone_nic, slot)[0], ~0ull);
			CU_ASSERT_EQUAL(alone_bitmap(&alone_nic, slot)[1], (1ull << 36) - 1);
			CU_ASSERT_EQUAL(alone_line(&alone_nic, slot)->length, M_BYTES);
			alone_nic.c.worker = 0;
			if (k % 4 == 3)
				for (uint64_t i = k - 3; i <= k; i++)
					CU_ASSERT_EQUAL(alone_complete(&alone_nic, i), 0);
		}
		for (uint64_t i = l->datagrams; l->datagrams && i < l->bytes; i++)
			CU_ASSERT_EQUAL_FATAL(area[i], 0); /* there were none */
		fake_detach(&alone_nic);
	}
}
