/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr handler, the inside of a message: bytes land where they belong and nowhere else, once; bitmaps, length and
 * immediate say exactly what has come, also when two workers bring it at once. */
#include <pthread.h>

#include "../lib/sdr_alone.h"

/* ---- placing ---- */

TEST(bytes_land_where_the_offset_says_and_nowhere_else)
{
	alone_attach(&alone_nic, alone_implicit4, 4 * M_BYTES, 1);
	const uint8_t *b = alone_nic.mem[BUFFER].base;

	alone_post_to(&alone_nic, 0, 1000, M_BYTES);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 5, MTU)), SP_DONE);
	CU_ASSERT(alone_untouched(b, 1000 + 5 * MTU));
	CU_ASSERT(alone_filled(b + 1000 + 5 * MTU, MTU, 5 * 7 + 1));
	CU_ASSERT(alone_untouched(b + 1000 + 6 * MTU, 4 * M_BYTES - 1000 - 6 * MTU));
	CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), 1);
	CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 0);
	/* chunk 1 is packets 4 to 7 */
	alone_give(alone_packet(0, 4, MTU));
	alone_give(alone_packet(0, 7, MTU));
	CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 0);
	alone_give(alone_packet(0, 6, MTU));
	CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 2);
	fake_detach(&alone_nic);
}

TEST(duplicates_are_counted_and_not_written)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	alone_give(alone_packet(0, 3, MTU));
	struct packet *k = alone_packet(0, 3, MTU);

	k->fill = 0x55;
	CU_ASSERT_EQUAL(alone_give(k), SP_DONE);
	CU_ASSERT(alone_filled(alone_nic.mem[BUFFER].base + 3 * MTU, MTU, 3 * 7 + 1));
	CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), 1);
	CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), "packets=1 duplicates=1 late=0 "));
	fake_detach(&alone_nic);
}

TEST(no_bytes_are_one_packet_and_one_chunk)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, 0)), SP_DONE);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, SP_SDR_LENGTH_FIXED);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), "chunk_bitmap=1 complete=true"));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, 0)), SP_DONE); /* again: a duplicate */
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, 1)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base, M_BYTES));
	fake_detach(&alone_nic);
}

TEST(a_packet_of_no_bytes_has_no_place_further_on)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 3, 0)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 512, 0)), SP_DROP(SDR_BEYOND_END)); /* where M ends */
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, M_BYTES);
	fake_detach(&alone_nic);
}

TEST(a_short_packet_or_se_fixes_the_length)
{
	for (int se = 0; se < 2; se++)
		for (int first = 0; first < 2; first++) { /* does the last packet come first or last? */
			const uint32_t last = se ? MTU : 57, length = 5 * MTU + last;

			alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
			alone_post_to(&alone_nic, 0, 0, M_BYTES);
			for (uint32_t i = 0; i < 6; i++) {
				const uint32_t p = first ? 5 - i : i;
				struct packet *k = alone_packet(0, p, p == 5 ? last : MTU);

				k->flags = p == 5 && se ? SP_PKT_SE : 0;
				CU_ASSERT_EQUAL(alone_give(k), SP_DONE);
				CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state,
						i == 5 ? SP_SDR_OPEN | SP_SDR_COMPLETE : SP_SDR_OPEN);
			}
			CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, SP_SDR_LENGTH_FIXED | length);
			CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 3);
			CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base + length, M_BYTES - length));
			/* chunks of 4 packets: 6 packets are 2 digits */
			CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), "chunk_bitmap=11 complete=true"));
			fake_detach(&alone_nic);
		}
}

TEST(packets_that_contradict_the_length_are_dropped_as_beyond_end)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	alone_give(alone_packet(0, 9, MTU));
	/* an end below what has come already */
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 9, 5)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 3, 5)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, 0)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, M_BYTES);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 10, 5)), SP_DONE);
	/* and now that it is known, another end, or packets past it */
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 10, 6)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 10, 4)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 10, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 11, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 8, 7)), SP_DROP(SDR_BEYOND_END));
	struct packet *k = alone_packet(0, 8, MTU);
	k->flags = SP_PKT_SE;
	CU_ASSERT_EQUAL(alone_give(k), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, SP_SDR_LENGTH_FIXED | (10 * MTU + 5));
	CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), 2);
	CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base + 10 * MTU + 5, 1000));
	fake_detach(&alone_nic);
}

TEST(nothing_is_written_beyond_what_was_posted)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_post_to(&alone_nic, 0, 0, 3 * MTU + 10);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 3, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 3, 11)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 4, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 3, 10)), SP_DONE);
	CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base + 3 * MTU + 10, 1000));
	fake_detach(&alone_nic);
}

/* All packets are there, unmarked; one comes again, with SE: the message ends there, and is complete. */
TEST(a_duplicate_may_tell_the_length)
{
	for (uint16_t workers = 1; workers <= 2; workers++) {
		alone_attach(&alone_nic, alone_implicit4, M_BYTES, workers);
		alone_post_to(&alone_nic, 0, 0, M_BYTES);
		for (uint32_t p = 0; p < 6; p++)
			alone_give(alone_packet(0, p, MTU));
		CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 1);
		struct packet *k = alone_packet(0, 5, MTU);
		k->flags = SP_PKT_SE;
		CU_ASSERT_EQUAL(alone_give(k), SP_DONE);
		CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, 0), 3);
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), 6);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], 1);
		fake_detach(&alone_nic);
	}
}

/* Any subset in any order with repeats, any chunk size, one worker (whole bursts) or the form for several: bitmaps,
 * counts and bytes are what a naive count says. */
TEST(bitmaps_say_exactly_what_arrived)
{
	static const char *const chunk[] = {"128", "256", "384", "1024", "8192", "12800", "65536", "131072"};
	static struct packet burst[32];

	for (unsigned round = 0; round < suite_times(400); round++) {
		const char *const setting[] = {"mtu",	 "128",		"queue",	  "64",	  "max-message-bytes",
					       "64K",	 "chunk-bytes", chunk[round % 8], "rkey", "0x12345678",
					       "credit", "implicit",	"max-messages",	  "4",	  NULL};
		const uint32_t per_chunk = (uint32_t)atoi(chunk[round % 8]) / MTU;
		const uint32_t length = alone_draw(4) ? 1 + alone_draw(65536) : 65536 - alone_draw(2) * 127;
		const uint32_t packets = (length + MTU - 1) / MTU, chunks = (packets + per_chunk - 1) / per_chunk;
		const uint32_t gifts = alone_draw(3) ? packets * 3 + 10 : packets * 8 + 100;
		uint8_t got[512] = {0};
		uint32_t distinct = 0, fixed = 0, gift = 0;
		struct sp_packet *run[32];

		alone_attach(&alone_nic, setting, M_BYTES, 1 + round / 8 % 2);
		alone_post_to(&alone_nic, 0, 0, M_BYTES);
		while (gift < gifts) {
			const uint32_t n = 1 + alone_draw(32);

			for (uint32_t i = 0; i < n; i++, gift++) {
				const uint32_t p = alone_draw(3) ? alone_draw(packets) : gift % packets;

				burst[i] = *alone_packet(0, p, p == packets - 1 ? length - p * MTU : MTU);
				burst[i].flags = p == packets - 1 ? SP_PKT_SE : 0;
				run[i] = alone_build(&burst[i]);
				run[i]->key = alone_nic.h->classify(&alone_nic.c, run[i]);
				distinct += !got[p];
				got[p] = 1;
				fixed |= p == packets - 1;
			}
			alone_nic.h->payload_burst(&alone_nic.c, &alone_nic.message[0].m, run, n);
		}
		bool all = fixed;

		for (uint32_t i = 0; i < 65536 / (per_chunk * MTU) + 1 && i < (512 + per_chunk - 1) / per_chunk; i++) {
			bool full = i < chunks && (fixed || i < chunks - 1);

			for (uint32_t p = i * per_chunk; full && p < (i + 1) * per_chunk && p < packets; p++)
				full = got[p];
			if ((alone_bitmap(&alone_nic, 0)[i / 64] >> i % 64 & 1) != full)
				CU_FAIL("chunk bit");
			if (i < chunks)
				all = all && full;
		}
		for (uint32_t p = 0; p < 512; p++) {
			const uint32_t n = p == packets - 1 ? length - p * MTU : MTU;
			const uint8_t *b = alone_nic.mem[BUFFER].base + p * MTU;

			if (p < packets && got[p]
				    ? !alone_filled(b, n, (uint8_t)(p * 7 + 1)) || !alone_untouched(b + n, MTU - n)
				    : !alone_untouched(b, MTU))
				CU_FAIL("bytes");
		}
		CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), distinct);
		CU_ASSERT_EQUAL(alone_nic.counters[SDR_DUPLICATES], gift - distinct);
		CU_ASSERT_EQUAL(!!(alone_line(&alone_nic, 0)->state & SP_SDR_COMPLETE), all);
		fake_detach(&alone_nic);
	}
}

/* Past the caches or not (by the region's size, and where the receive begins), whole packets and a short one, in any
 * order and with repeats, one worker or the form for several: every byte is where it belongs, and no other is touched.
 */
TEST(large_packets_arrive_whichever_way_they_are_written)
{
	enum { LARGE = 1024, PACKETS = 20 };
	static struct packet burst[32];

	for (unsigned round = 0; round < 64; round++) {
		const char *const setting[] = {"mtu",
					       "1024",
					       "queue",
					       "64",
					       "max-message-bytes",
					       "64K",
					       "chunk-bytes",
					       round & 1 ? "1024" : "3072",
					       "rkey",
					       "0x12345678",
					       "credit",
					       "implicit",
					       "max-messages",
					       "4",
					       "stream-from",
					       round & 2 ? "1" : "1024M",
					       NULL};
		const uint64_t offset = round & 4 ? 64 : round & 8 ? 5 : 0;
		const uint32_t length = PACKETS * LARGE - (round & 16 ? 0 : 1 + alone_draw(LARGE - 1));
		struct sp_packet *run[32];
		unsigned bad = 0;

		alone_attach(&alone_nic, setting, M_BYTES + 64, 1 + round / 32);
		CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 0, offset, M_BYTES), 0);
		for (unsigned b = 0; b < 12; b++) {
			for (unsigned i = 0; i < 32; i++) {
				const uint32_t at = b < 6 ? alone_draw(PACKETS) : (b * 32 + i) % PACKETS;
				struct packet *k = &burst[i];

				*k = *alone_packet(0, at, at == PACKETS - 1 ? length - at * LARGE : LARGE);
				k->va = at * LARGE;
				k->flags = at == PACKETS - 1 ? SP_PKT_SE : 0;
				run[i] = alone_build(k);
				for (uint32_t n = 0; n < k->len; n++)
					k->bytes[20 + n] = (uint8_t)(n * 3 ^ n >> 8 ^ at * 7);
				run[i]->key = alone_nic.h->classify(&alone_nic.c, run[i]);
			}
			alone_nic.h->payload_burst(&alone_nic.c, &alone_nic.message[0].m, run, 32);
		}
		const uint8_t *to = alone_nic.mem[BUFFER].base + offset;

		for (uint32_t n = 0; n < length; n++)
			bad += to[n] != (uint8_t)(n % LARGE * 3 ^ n % LARGE >> 8 ^ n / LARGE * 7);
		CU_ASSERT_EQUAL(bad, 0);
		CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base, offset) &&
			  alone_untouched(to + length, M_BYTES + 64 - offset - length));
		CU_ASSERT(alone_line(&alone_nic, 0)->state & SP_SDR_COMPLETE);
		fake_detach(&alone_nic);
	}
}

TEST(the_packets_of_one_chunk_can_be_asked_for)
{
	static const char *const setting[] = {"mtu",	"64",	       "queue",	       "64", "max-message-bytes",
					      "64K",	"chunk-bytes", "6400", /* 100 */
					      "credit", "implicit",    "max-messages", "4",  NULL};
	struct sp_event e = {.status = 0};
	struct sp_command c = {.op = SP_SDR_CMD_PACKETS, .cookie = 0, .arg = {1}};

	alone_attach(&alone_nic, setting, M_BYTES, 1);
	const struct sdr *s = alone_nic.c.state;
	const uint64_t *bits = (const void *)(alone_nic.mem[0].base + s->layout.packets);

	CU_ASSERT_EQUAL(fake_command(&alone_nic, &c, &e), -ENOENT);
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	/* chunk 1 is packets 100 to 199 */
	for (unsigned i = 0; i < 3; i++) {
		struct packet *k = alone_packet(0, (const unsigned[]){100, 131, 199}[i], 64);

		k->va = k->offset * 64;
		k->rkey = 0;
		CU_ASSERT_EQUAL(alone_give(k), SP_DONE);
	}
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &c, &e), 0);
	CU_ASSERT_EQUAL(e.arg[0], 100);
	CU_ASSERT_EQUAL(bits[0], 1ull | 1ull << 31);
	CU_ASSERT_EQUAL(bits[1], 1ull << 35);
	c.arg[0] = 10; /* 1024 packets: the last chunk has 24 */
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &c, &e), 0);
	CU_ASSERT_EQUAL(e.arg[0], 24);
	c.arg[0] = 11;
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &c, &e), -ERANGE);
	c.arg[0] = UINT64_MAX;
	CU_ASSERT_EQUAL(fake_command(&alone_nic, &c, &e), -ERANGE);
	fake_detach(&alone_nic);
}

/* ---- user immediate ---- */

TEST(the_immediate_is_there_once_all_fragments_are)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	for (uint32_t p = 0; p < 8; p++) { /* 0x87654321: fragment p is p + 1 */
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->immediate >> 32, (1ull << (4 * p)) - 1);
		CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), "immediate=null"));
		struct packet *k = alone_packet(0, p, MTU);
		k->user = p + 1;
		alone_give(k);
		if (p == 4) { /* fragment 0 again, from another packet and with another value: the first stays */
			k = alone_packet(0, 16, MTU);
			k->user = 14;
			CU_ASSERT_EQUAL(alone_give(k), SP_DONE);
		}
	}
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->immediate, 0xFFFFFFFF87654321);
	struct packet *k = alone_packet(0, 8, MTU); /* fragment 0 again, another value: the first stays */
	k->user = 15;
	alone_give(k);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->immediate, 0xFFFFFFFF87654321);
	CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), "immediate=2271560481"));
	fake_detach(&alone_nic);
}

/* ---- two workers at the same time ---- */

static struct worker {
	struct fake_nic view; /* a context of its own, state shared */
	pthread_t thread;
	struct packet packet[512];
	uint32_t count;
} worker[2];

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint32_t i = 0; i < w->count; i += 4) {
		struct sp_packet *run[4];
		uint32_t n = 0;

		for (; n < 4 && i + n < w->count; n++)
			run[n] = alone_build(&w->packet[i + n]);
		w->view.h->payload_burst(&w->view.c, &alone_nic.message[0].m, run, n);
	}
	return NULL;
}

TEST(two_workers_at_once_lose_and_repeat_nothing)
{
	for (unsigned round = 0; round < 150; round++) {
		const uint32_t packets = 1 + alone_draw(200), length = packets * MTU - alone_draw(MTU);
		uint32_t order[400];

		alone_attach(&alone_nic, alone_implicit4, M_BYTES, 2);
		alone_post_to(&alone_nic, 0, 0, M_BYTES);
		/* every packet twice, shuffled over both workers */
		for (uint32_t i = 0; i < 2 * packets; i++)
			order[i] = i / 2;
		for (uint32_t i = 2 * packets; i-- > 1;) {
			const uint32_t j = alone_draw(i + 1), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		for (int w = 0; w < 2; w++) {
			worker[w].view = alone_nic;
			worker[w].view.c.worker = (uint16_t)w;
			worker[w].view.c.counters = worker[w].view.counters;
			worker[w].count = 0;
		}
		for (uint32_t i = 0; i < 2 * packets; i++) {
			struct worker *w = &worker[i & 1];
			const uint32_t p = order[i];
			struct packet *k = alone_packet(0, p, p == packets - 1 ? length - p * MTU : MTU);

			k->flags = p == packets - 1 ? SP_PKT_SE : 0;
			w->packet[w->count++] = *k;
		}
		for (int w = 0; w < 2; w++)
			pthread_create(&worker[w].thread, NULL, work, &worker[w]);
		for (int w = 0; w < 2; w++)
			pthread_join(worker[w].thread, NULL);

		const uint32_t chunks = (packets + 3) / 4;
		uint32_t set = 0;

		for (uint32_t i = 0; i < 128; i++)
			set += alone_bitmap(&alone_nic, 0)[i / 64] >> i % 64 & 1;
		CU_ASSERT_EQUAL(set, chunks);
		CU_ASSERT_EQUAL(alone_came(&alone_nic, 0), packets);
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->length, SP_SDR_LENGTH_FIXED | length);
		CU_ASSERT_EQUAL(worker[0].view.counters[SDR_MESSAGES] + worker[1].view.counters[SDR_MESSAGES], 1);
		CU_ASSERT_EQUAL(worker[0].view.counters[SDR_CHUNKS] + worker[1].view.counters[SDR_CHUNKS], chunks);
		CU_ASSERT_EQUAL(worker[0].view.counters[SDR_DUPLICATES] + worker[1].view.counters[SDR_DUPLICATES],
				packets);
		for (uint32_t p = 0; p < packets; p++)
			if (!alone_filled(alone_nic.mem[BUFFER].base + p * MTU,
					  p == packets - 1 ? length - p * MTU : MTU, (uint8_t)(p * 7 + 1)))
				CU_FAIL("bytes");
		fake_detach(&alone_nic);
	}
}
