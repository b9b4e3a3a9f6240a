/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr handler by itself: packets in, bitmaps and bytes out; what is hostile or bad changes nothing. */
#include <pthread.h>

#include "sdr_alone.h"

/* ---- bad packets ---- */
#define REFUSED(change, reason)                                                                                        \
	do {                                                                                                           \
		struct packet *k = packet(1, 2, MTU);                                                                  \
		change;                                                                                                \
		if (give(k) != SP_DROP(reason))                                                                        \
			CU_FAIL(#change " is " #reason);                                                               \
	} while (0)

static void each_bad_packet_is_dropped_by_name_and_touches_nothing(void)
{
	attach(&nic, implicit4, 4 * M_BYTES, 1);
	for (uint64_t k = 0; k < 4; k++)
		CU_ASSERT_EQUAL(post_to(&nic, k, k * M_BYTES, M_BYTES), 0);
	REFUSED(k->opcode = 0x2A, SDR_BAD_OPCODE);
	REFUSED(k->opcode = 0x0B, SDR_BAD_OPCODE); /* RC */
	REFUSED(k->rkey ^= 1, SDR_BAD_RKEY);
	REFUSED(k->rkey ^= 0x80000000, SDR_BAD_RKEY); /* all 32 bits */
	REFUSED((k->id = 4, k->va = 4 * M_BYTES + 2 * MTU), SDR_OUT_OF_RANGE);
	REFUSED((k->id = 1023, k->va = 1023 * M_BYTES + 2 * MTU), SDR_OUT_OF_RANGE);
	REFUSED(k->dma_len++, SDR_BAD_LENGTH);
	REFUSED(k->dma_len--, SDR_BAD_LENGTH);
	REFUSED(k->dma_len = 0, SDR_BAD_LENGTH);
	REFUSED(k->len = k->dma_len = MTU + 1, SDR_OVER_MTU);
	REFUSED(k->len = k->dma_len = 4200, SDR_OVER_MTU);
	REFUSED(k->va++, SDR_ADDRESS_MISMATCH);
	REFUSED(k->va -= MTU, SDR_ADDRESS_MISMATCH);
	REFUSED(k->va += M_BYTES, SDR_ADDRESS_MISMATCH); /* the next slot's */
	REFUSED(k->va |= 1ull << 63, SDR_ADDRESS_MISMATCH);
	REFUSED((k->offset = 512, k->va = M_BYTES + 512 * MTU), SDR_OUT_OF_RANGE);
	REFUSED((k->offset = 0x3FFFF, k->va = M_BYTES + 0x3FFFFull * MTU), SDR_OUT_OF_RANGE);

	for (uint32_t len = 0; len < 20; len++) {
		struct packet *k = packet(1, 2, MTU);
		struct sp_packet *p = build(k);
		/* exactly as long as it says: reading on is caught by the address sanitizer */
		uint8_t *exact = malloc(len ? len : 1);

		memcpy(exact, p->data, len);
		p->data = exact;
		p->len = len;
		CU_ASSERT_EQUAL(fake_receive(&nic, p), SP_DROP(SDR_SHORT_HEADER));
		free(exact);
	}
	CU_ASSERT(untouched(nic.mem[BUFFER].base, 4 * M_BYTES));
	for (uint32_t i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(came(&nic, i), 0);
	CU_ASSERT_EQUAL(nic.taken, 0);
	fake_detach(&nic);
}

static void rkey_does_not_matter_without_payload(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	post_to(&nic, 0, 0, 0);
	struct packet *k = packet(0, 0, 0);

	k->rkey = 99;
	CU_ASSERT_EQUAL(give(k), SP_DONE);
	CU_ASSERT_EQUAL(line(&nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	fake_detach(&nic);
}

/* ---- placing ---- */
static void bytes_land_where_the_offset_says_and_nowhere_else(void)
{
	attach(&nic, implicit4, 4 * M_BYTES, 1);
	const uint8_t *b = nic.mem[BUFFER].base;

	post_to(&nic, 0, 1000, M_BYTES);
	CU_ASSERT_EQUAL(give(packet(0, 5, MTU)), SP_DONE);
	CU_ASSERT(untouched(b, 1000 + 5 * MTU));
	CU_ASSERT(filled(b + 1000 + 5 * MTU, MTU, 5 * 7 + 1));
	CU_ASSERT(untouched(b + 1000 + 6 * MTU, 4 * M_BYTES - 1000 - 6 * MTU));
	CU_ASSERT_EQUAL(came(&nic, 0), 1);
	CU_ASSERT_EQUAL(*bitmap(&nic, 0), 0);
	/* chunk 1 is packets 4 to 7 */
	give(packet(0, 4, MTU));
	give(packet(0, 7, MTU));
	CU_ASSERT_EQUAL(*bitmap(&nic, 0), 0);
	give(packet(0, 6, MTU));
	CU_ASSERT_EQUAL(*bitmap(&nic, 0), 2);
	fake_detach(&nic);
}

static void duplicates_are_counted_and_not_written(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	post_to(&nic, 0, 0, M_BYTES);
	give(packet(0, 3, MTU));
	struct packet *k = packet(0, 3, MTU);

	k->fill = 0x55;
	CU_ASSERT_EQUAL(give(k), SP_DONE);
	CU_ASSERT(filled(nic.mem[BUFFER].base + 3 * MTU, MTU, 3 * 7 + 1));
	CU_ASSERT_EQUAL(came(&nic, 0), 1);
	CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), "packets=1 duplicates=1 late=0 "));
	fake_detach(&nic);
}

static void no_bytes_are_one_packet_and_one_chunk(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	post_to(&nic, 0, 0, M_BYTES);
	CU_ASSERT_EQUAL(give(packet(0, 0, 0)), SP_DONE);
	CU_ASSERT_EQUAL(line(&nic, 0)->length, SP_SDR_LENGTH_FIXED);
	CU_ASSERT_EQUAL(line(&nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	CU_ASSERT_EQUAL(*bitmap(&nic, 0), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), "chunk_bitmap=1 complete=true"));
	CU_ASSERT_EQUAL(give(packet(0, 0, 0)), SP_DONE); /* again: a duplicate */
	CU_ASSERT_EQUAL(give(packet(0, 0, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 0, 1)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT(untouched(nic.mem[BUFFER].base, M_BYTES));
	fake_detach(&nic);
}

static void a_packet_of_no_bytes_has_no_place_further_on(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	post_to(&nic, 0, 0, M_BYTES);
	CU_ASSERT_EQUAL(give(packet(0, 3, 0)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 512, 0)), SP_DROP(SDR_BEYOND_END)); /* where M ends */
	CU_ASSERT_EQUAL(line(&nic, 0)->length, M_BYTES);
	fake_detach(&nic);
}

static void a_short_packet_or_se_fixes_the_length(void)
{
	for (int se = 0; se < 2; se++)
		for (int first = 0; first < 2; first++) { /* does the last packet come first or last? */
			const uint32_t last = se ? MTU : 57, length = 5 * MTU + last;

			attach(&nic, implicit4, M_BYTES, 1);
			post_to(&nic, 0, 0, M_BYTES);
			for (uint32_t i = 0; i < 6; i++) {
				const uint32_t p = first ? 5 - i : i;
				struct packet *k = packet(0, p, p == 5 ? last : MTU);

				k->flags = p == 5 && se ? SP_PKT_SE : 0;
				CU_ASSERT_EQUAL(give(k), SP_DONE);
				CU_ASSERT_EQUAL(line(&nic, 0)->state,
						i == 5 ? SP_SDR_OPEN | SP_SDR_COMPLETE : SP_SDR_OPEN);
			}
			CU_ASSERT_EQUAL(line(&nic, 0)->length, SP_SDR_LENGTH_FIXED | length);
			CU_ASSERT_EQUAL(*bitmap(&nic, 0), 3);
			CU_ASSERT(untouched(nic.mem[BUFFER].base + length, M_BYTES - length));
			/* chunks of 4 packets: 6 packets are 2 digits */
			CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), "chunk_bitmap=11 complete=true"));
			fake_detach(&nic);
		}
}

static void what_contradicts_the_length_is_beyond_end(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	post_to(&nic, 0, 0, M_BYTES);
	give(packet(0, 9, MTU));
	/* an end below what has come already */
	CU_ASSERT_EQUAL(give(packet(0, 9, 5)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 3, 5)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 0, 0)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(line(&nic, 0)->length, M_BYTES);
	CU_ASSERT_EQUAL(give(packet(0, 10, 5)), SP_DONE);
	/* and now that it is known, another end, or packets past it */
	CU_ASSERT_EQUAL(give(packet(0, 10, 6)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 10, 4)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 10, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 11, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 8, 7)), SP_DROP(SDR_BEYOND_END));
	struct packet *k = packet(0, 8, MTU);
	k->flags = SP_PKT_SE;
	CU_ASSERT_EQUAL(give(k), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(line(&nic, 0)->length, SP_SDR_LENGTH_FIXED | (10 * MTU + 5));
	CU_ASSERT_EQUAL(came(&nic, 0), 2);
	CU_ASSERT(untouched(nic.mem[BUFFER].base + 10 * MTU + 5, 1000));
	fake_detach(&nic);
}

static void nothing_is_written_beyond_what_was_posted(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	post_to(&nic, 0, 0, 3 * MTU + 10);
	CU_ASSERT_EQUAL(give(packet(0, 3, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 3, 11)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 4, MTU)), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(give(packet(0, 3, 10)), SP_DONE);
	CU_ASSERT(untouched(nic.mem[BUFFER].base + 3 * MTU + 10, 1000));
	fake_detach(&nic);
}

/* All packets are there, unmarked; one comes again, with SE: the message ends there, and is complete. */
static void a_duplicate_may_tell_the_length(void)
{
	for (uint16_t workers = 1; workers <= 2; workers++) {
		attach(&nic, implicit4, M_BYTES, workers);
		post_to(&nic, 0, 0, M_BYTES);
		for (uint32_t p = 0; p < 6; p++)
			give(packet(0, p, MTU));
		CU_ASSERT_EQUAL(*bitmap(&nic, 0), 1);
		struct packet *k = packet(0, 5, MTU);
		k->flags = SP_PKT_SE;
		CU_ASSERT_EQUAL(give(k), SP_DONE);
		CU_ASSERT_EQUAL(*bitmap(&nic, 0), 3);
		CU_ASSERT_EQUAL(line(&nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		CU_ASSERT_EQUAL(came(&nic, 0), 6);
		CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], 1);
		fake_detach(&nic);
	}
}

static uint64_t rng = 1;
static uint32_t draw(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 33) % below;
}

/* Any subset in any order with repeats, any chunk size, one worker (whole bursts) or the form for several: bitmaps,
 * counts and bytes are what a naive count says. */
static void bitmaps_say_exactly_what_arrived(void)
{
	static const char *const chunk[] = {"128", "256", "384", "1024", "8192", "12800", "65536", "131072"};
	static struct packet burst[32];

	for (unsigned round = 0; round < suite_times(400); round++) {
		const char *const setting[] = {"mtu",	   "128",	   "max-message-bytes",
					       "64K",	   "chunk-bytes",  chunk[round % 8],
					       "rkey",	   "0x12345678",   "credit",
					       "implicit", "max-messages", "4",
					       NULL};
		const uint32_t per_chunk = (uint32_t)atoi(chunk[round % 8]) / MTU;
		const uint32_t length = draw(4) ? 1 + draw(65536) : 65536 - draw(2) * 127;
		const uint32_t packets = (length + MTU - 1) / MTU, chunks = (packets + per_chunk - 1) / per_chunk;
		const uint32_t gifts = draw(3) ? packets * 3 + 10 : packets * 8 + 100;
		uint8_t got[512] = {0};
		uint32_t distinct = 0, fixed = 0, gift = 0;
		struct sp_packet *run[32];

		attach(&nic, setting, M_BYTES, 1 + round / 8 % 2);
		post_to(&nic, 0, 0, M_BYTES);
		while (gift < gifts) {
			const uint32_t n = 1 + draw(32);

			for (uint32_t i = 0; i < n; i++, gift++) {
				const uint32_t p = draw(3) ? draw(packets) : gift % packets;

				burst[i] = *packet(0, p, p == packets - 1 ? length - p * MTU : MTU);
				burst[i].flags = p == packets - 1 ? SP_PKT_SE : 0;
				run[i] = build(&burst[i]);
				run[i]->key = nic.h->classify(&nic.c, run[i]);
				distinct += !got[p];
				got[p] = 1;
				fixed |= p == packets - 1;
			}
			nic.h->payload_burst(&nic.c, &nic.message[0].m, run, n);
		}
		bool all = fixed;

		for (uint32_t i = 0; i < 65536 / (per_chunk * MTU) + 1 && i < (512 + per_chunk - 1) / per_chunk; i++) {
			bool full = i < chunks && (fixed || i < chunks - 1);

			for (uint32_t p = i * per_chunk; full && p < (i + 1) * per_chunk && p < packets; p++)
				full = got[p];
			if ((bitmap(&nic, 0)[i / 64] >> i % 64 & 1) != full)
				CU_FAIL("chunk bit");
			if (i < chunks)
				all = all && full;
		}
		for (uint32_t p = 0; p < 512; p++) {
			const uint32_t n = p == packets - 1 ? length - p * MTU : MTU;
			const uint8_t *b = nic.mem[BUFFER].base + p * MTU;

			if (p < packets && got[p] ? !filled(b, n, (uint8_t)(p * 7 + 1)) || !untouched(b + n, MTU - n)
						  : !untouched(b, MTU))
				CU_FAIL("bytes");
		}
		CU_ASSERT_EQUAL(came(&nic, 0), distinct);
		CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], gift - distinct);
		CU_ASSERT_EQUAL(!!(line(&nic, 0)->state & SP_SDR_COMPLETE), all);
		fake_detach(&nic);
	}
}

/* Past the caches or not (by the region's size, and where the receive begins), whole packets and a short one, in any
 * order and with repeats, one worker or the form for several: every byte is where it belongs, and no other is touched.
 */
static void large_packets_arrive_whichever_way_they_are_written(void)
{
	enum { LARGE = 1024, PACKETS = 20 };
	static struct packet burst[32];

	for (unsigned round = 0; round < 64; round++) {
		const char *const setting[] = {"mtu",
					       "1024",
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
		const uint32_t length = PACKETS * LARGE - (round & 16 ? 0 : 1 + draw(LARGE - 1));
		struct sp_packet *run[32];
		unsigned bad = 0;

		attach(&nic, setting, M_BYTES + 64, 1 + round / 32);
		CU_ASSERT_EQUAL(post_to(&nic, 0, offset, M_BYTES), 0);
		for (unsigned b = 0; b < 12; b++) {
			for (unsigned i = 0; i < 32; i++) {
				const uint32_t at = b < 6 ? draw(PACKETS) : (b * 32 + i) % PACKETS;
				struct packet *k = &burst[i];

				*k = *packet(0, at, at == PACKETS - 1 ? length - at * LARGE : LARGE);
				k->va = at * LARGE;
				k->flags = at == PACKETS - 1 ? SP_PKT_SE : 0;
				run[i] = build(k);
				for (uint32_t n = 0; n < k->len; n++)
					k->bytes[20 + n] = (uint8_t)(n * 3 ^ n >> 8 ^ at * 7);
				run[i]->key = nic.h->classify(&nic.c, run[i]);
			}
			nic.h->payload_burst(&nic.c, &nic.message[0].m, run, 32);
		}
		const uint8_t *to = nic.mem[BUFFER].base + offset;

		for (uint32_t n = 0; n < length; n++)
			bad += to[n] != (uint8_t)(n % LARGE * 3 ^ n % LARGE >> 8 ^ n / LARGE * 7);
		CU_ASSERT_EQUAL(bad, 0);
		CU_ASSERT(untouched(nic.mem[BUFFER].base, offset) &&
			  untouched(to + length, M_BYTES + 64 - offset - length));
		CU_ASSERT(line(&nic, 0)->state & SP_SDR_COMPLETE);
		fake_detach(&nic);
	}
}

/* Packets of all kinds, many of them with one field wrong, in runs and not: each has the key that it has alone. */
static void a_burst_is_classified_as_its_packets_are(void)
{
	static struct packet burst[32];
	unsigned rejected = 0, taken = 0, bad = 0;

	for (unsigned round = 0; round < 3000; round++) {
		const char *const credit = round & 1 ? "implicit" : "control";
		const char *const setting[] = {"mtu",
					       "128",
					       "max-message-bytes",
					       round & 2 ? "64K" : "65000",
					       "chunk-bytes",
					       "512",
					       "rkey",
					       "0x12345678",
					       "max-messages",
					       "5",
					       "credit",
					       credit,
					       NULL};
		struct sp_packet *run[32];
		bool rejects = false;

		if (round % 100 < 4) {
			if (round)
				fake_detach(&nic);
			attach(&nic, setting, M_BYTES, 1);
		}
		const struct sdr *s = nic.c.state;

		for (unsigned i = 0; i < 32; i++) {
			struct packet *k = &burst[i];

			*k = *packet(draw(8) ? 1 : draw(6), draw(515), draw(6) ? MTU : draw(140));
			k->user = draw(16);
			k->va = k->id * s->max_bytes + k->offset * MTU;
			k->qp_index = draw(10) ? 0 : draw(4);
			switch (draw(40)) {
			case 0:
				k->va += draw(2) ? 1 : 1ull << 40;
				break;
			case 1:
				k->rkey++;
				break;
			case 2:
				k->dma_len++;
				break;
			case 3:
				k->opcode++;
				break;
			case 4:
				k->id = 5 + draw(1000);
				break;
			}
			run[i] = build(k);
			if (draw(60) == 0)
				run[i]->len = draw(20);
			if (draw(60) == 0)
				run[i]->qp_index = SP_QP_CONTROL;
		}
		const bool said = nic.h->classify_burst(&nic.c, run, 1 + round % 32);

		for (unsigned i = 0; i < 1 + round % 32; i++) {
			const uint64_t key = nic.h->classify(&nic.c, run[i]);

			bad += run[i]->key != key;
			rejects |= key > SP_REJECT(256) && key != SP_NO_MESSAGE;
			rejected += key > SP_REJECT(256);
			taken += key <= SP_REJECT(256);
		}
		bad += said != rejects;
	}
	fake_detach(&nic);
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT(taken > 5000 && rejected > 2000);
}

static void the_packets_of_one_chunk_can_be_asked_for(void)
{
	static const char *const setting[] = {"mtu",	"64",	    "max-message-bytes", "64K", "chunk-bytes",
					      "6400", /* 100 */
					      "credit", "implicit", "max-messages",	 "4",	NULL};
	struct sp_event e = {.status = 0};
	struct sp_command c = {.op = SP_SDR_CMD_PACKETS, .cookie = 0, .arg = {1}};

	attach(&nic, setting, M_BYTES, 1);
	const struct sdr *s = nic.c.state;
	const uint64_t *bits = (const void *)(nic.mem[0].base + s->layout.packets);

	CU_ASSERT_EQUAL(fake_command(&nic, &c, &e), -ENOENT);
	post_to(&nic, 0, 0, M_BYTES);
	/* chunk 1 is packets 100 to 199 */
	for (unsigned i = 0; i < 3; i++) {
		struct packet *k = packet(0, (const unsigned[]){100, 131, 199}[i], 64);

		k->va = k->offset * 64;
		k->rkey = 0;
		CU_ASSERT_EQUAL(give(k), SP_DONE);
	}
	CU_ASSERT_EQUAL(fake_command(&nic, &c, &e), 0);
	CU_ASSERT_EQUAL(e.arg[0], 100);
	CU_ASSERT_EQUAL(bits[0], 1ull | 1ull << 31);
	CU_ASSERT_EQUAL(bits[1], 1ull << 35);
	c.arg[0] = 10; /* 1024 packets: the last chunk has 24 */
	CU_ASSERT_EQUAL(fake_command(&nic, &c, &e), 0);
	CU_ASSERT_EQUAL(e.arg[0], 24);
	c.arg[0] = 11;
	CU_ASSERT_EQUAL(fake_command(&nic, &c, &e), -ERANGE);
	c.arg[0] = UINT64_MAX;
	CU_ASSERT_EQUAL(fake_command(&nic, &c, &e), -ERANGE);
	fake_detach(&nic);
}

/* ---- user immediate ---- */
static void the_immediate_is_there_once_all_fragments_are(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	post_to(&nic, 0, 0, M_BYTES);
	for (uint32_t p = 0; p < 8; p++) { /* 0x87654321: fragment p is p + 1 */
		CU_ASSERT_EQUAL(line(&nic, 0)->immediate >> 32, (1ull << (4 * p)) - 1);
		CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), "immediate=null"));
		struct packet *k = packet(0, p, MTU);
		k->user = p + 1;
		give(k);
		if (p == 4) { /* fragment 0 again, from another packet and with another value: the first stays */
			k = packet(0, 16, MTU);
			k->user = 14;
			CU_ASSERT_EQUAL(give(k), SP_DONE);
		}
	}
	CU_ASSERT_EQUAL(line(&nic, 0)->immediate, 0xFFFFFFFF87654321);
	struct packet *k = packet(0, 8, MTU); /* fragment 0 again, another value: the first stays */
	k->user = 15;
	give(k);
	CU_ASSERT_EQUAL(line(&nic, 0)->immediate, 0xFFFFFFFF87654321);
	CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), "immediate=2271560481"));
	fake_detach(&nic);
}

/* ---- messages, slots, generations ---- */
static void generations_have_their_own_qps(void)
{
	static const char *const setting[] = {MTU_SETTINGS,  "credit", "implicit", "max-messages", "2", "channels", "3",
					      "generations", "5",      NULL};

	attach(&nic, setting, M_BYTES, 1);
	CU_ASSERT_EQUAL(nic.qps.count, 15);
	for (uint32_t q = 0; q < 15; q++) {
		struct packet *k = packet(1, 0, MTU);

		k->qp_index = q;
		CU_ASSERT_EQUAL(nic.h->classify(&nic.c, build(k)), (uint64_t)(q / 3) << 32 | 1);
	}
	fake_detach(&nic);
}

static void what_was_never_posted_is_not_posted_and_what_is_gone_is_late(void)
{
	attach(&nic, implicit4, 4 * M_BYTES, 1);
	CU_ASSERT_EQUAL(give(packet(0, 0, MTU)), SP_DROP(SDR_NOT_POSTED));
	post_to(&nic, 0, 0, M_BYTES);
	CU_ASSERT_EQUAL(give(packet(1, 0, MTU)), SP_DROP(SDR_NOT_POSTED));
	struct packet *k = packet(0, 0, MTU);
	k->qp_index = 1; /* the next generation: nothing is posted for it */
	CU_ASSERT_EQUAL(give(k), SP_DROP(SDR_NOT_POSTED));
	CU_ASSERT_EQUAL(complete(&nic, 0), 0);
	CU_ASSERT_EQUAL(complete(&nic, 0), -ENOENT);
	CU_ASSERT_EQUAL(give(packet(0, 0, MTU)), SP_DROP(SDR_LATE));
	CU_ASSERT(untouched(nic.mem[BUFFER].base, M_BYTES));
	CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), "packets=0 duplicates=0 late=1 "));
	fake_detach(&nic);
}

static void packets_up_to_slots_times_generations_late_change_nothing(void)
{
	attach(&nic, implicit4, 64 * 256, 1);
	for (uint64_t k = 0; k < 24; k++) {
		post_to(&nic, k, k % 4 * 256, 256);
		give(of_message(k, 4, 4, 0));
		/* every earlier message within the guarantee, again */
		for (uint64_t d = 4; d < 16 && d <= k; d += 4) {
			struct packet *x = of_message(k - d, 4, 4, 1);

			CU_ASSERT_EQUAL(give(x), SP_DROP(SDR_LATE));
		}
		CU_ASSERT(filled(nic.mem[BUFFER].base + k % 4 * 256, MTU, (uint8_t)(k + 1)));
		CU_ASSERT_EQUAL(came(&nic, k % 4), 1);
		CU_ASSERT_EQUAL(*bitmap(&nic, k % 4), 0);
		if (k >= 3)
			CU_ASSERT_EQUAL(complete(&nic, k - 3), 0);
	}
	fake_detach(&nic);
}

/* ---- hostile commands ---- */
static void commands_are_not_believed(void)
{
	attach(&nic, implicit4, 1000, 1);
	CU_ASSERT_EQUAL(post_to(&nic, 1, 0, 10), -EINVAL); /* not the next */
	CU_ASSERT_EQUAL(post_to(&nic, 0, 0, M_BYTES + 1), -EINVAL);
	CU_ASSERT_EQUAL(post_to(&nic, 0, 0, 1001), -EFAULT);
	CU_ASSERT_EQUAL(post_to(&nic, 0, 1001, 0), -EFAULT);
	CU_ASSERT_EQUAL(post_to(&nic, 0, UINT64_MAX, 10), -EFAULT);
	for (uint64_t id = 0; id < 3; id++) {
		const uint64_t ids[] = {0, 5, 1ull << 32 | BUFFER};
		const struct sp_command c = {.op = SP_CMD_POST, .arg = {ids[id], 0, 10}};

		CU_ASSERT(fake_command(&nic, &c, NULL) < 0);
	}
	CU_ASSERT_EQUAL(complete(&nic, 0), -ENOENT);
	CU_ASSERT_EQUAL(complete(&nic, UINT64_MAX), -ENOENT);
	for (uint32_t op = 0; op < 0x200; op++) {
		const struct sp_command c = {.op = (uint16_t)op, .cookie = UINT64_MAX, .arg = {BUFFER, 0, 1, 0, 0, 0}};

		CU_ASSERT(fake_command(&nic, &c, NULL) < 0);
	}
	CU_ASSERT_EQUAL(connect_to(&nic, 1, 2), 0);
	for (uint32_t op = 0; op < 0x200; op++) /* again, connected: no message has that number, not even a free slot */
		if (op != SP_CMD_CLOSE) {
			const struct sp_command c = {.op = (uint16_t)op, .cookie = UINT64_MAX, .arg = {BUFFER, 0, MTU}};

			CU_ASSERT(fake_command(&nic, &c, NULL) < 0);
		}
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(post_to(&nic, 0, 990, 10), 0);
	fake_detach(&nic);
}

static void impossible_parameters_are_refused_by_name(void)
{
	static const char *const bad[][5] = {
		{"chunk-bytes", "chunk-bytes", "1000", NULL},
		{"split", "split", "10+18+5", NULL},
		{"max-message-bytes", "split", "20+8+4", NULL},
		{"max-messages", "max-messages", "1025", NULL},
		{"credit", "credit", "perhaps", NULL},
		{"channels", "channels", "4096", NULL},
		{"cts-interval", "cts-interval", "0s", NULL},
		{"max-packet-life", "max-packet-life", "9999s", NULL},
		{"max-message-bytes", "max-message-bytes", "512M", NULL},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT_EQUAL(fake_attach(&nic, bad[i] + 1), -EINVAL);
		CU_ASSERT_STRING_EQUAL(nic.error.param, bad[i][0]);
		for (unsigned a = 0; a < nic.allocs; a++)
			free(nic.alloc[a]);
		free(nic.sent);
	}
}

/* ---- companion ---- */
/* Of one chunk. 0: it is reserved; 1: it has come. */
static int reserve(const struct sp_export *x, uint64_t key, uint64_t chunk)
{
	uint64_t wanted = 1;
	const int rc = x->reserve(&nic.c, key, chunk, &wanted);

	CU_ASSERT(wanted == 0 || (wanted == 1 && rc == 0));
	return rc ? rc : !wanted;
}

static void a_supplied_chunk_counts_and_is_not_overwritten(void)
{
	for (uint16_t workers = 1; workers <= 2; workers++) {
		const struct sp_export *x = fake_handler->exports;
		const uint64_t key = SP_SLOT_KEY(0, 0);
		struct sp_extent e;

		attach(&nic, implicit4, M_BYTES, workers);
		CU_ASSERT_EQUAL(x->extent(&nic.c, key, &e), -ENOENT);
		post_to(&nic, 0, 64, 6 * MTU);
		CU_ASSERT_EQUAL(x->extent(&nic.c, key, &e), 0);
		CU_ASSERT(e.mem->id == BUFFER && e.offset == 64 && e.bytes == 6 * MTU && !e.fixed && !e.complete);
		give(packet(0, 1, MTU));
		CU_ASSERT_EQUAL(x->present(&nic.c, key, 0), 0);
		CU_ASSERT_EQUAL(x->supply(&nic.c, key, 0, 1), -EINVAL); /* it is not the companion's */
		CU_ASSERT_EQUAL(reserve(x, key, 2), -ERANGE);
		CU_ASSERT_EQUAL(reserve(x, SP_SLOT_KEY(0, 1), 0), -ENOENT);
		CU_ASSERT_EQUAL(reserve(x, SP_SLOT_KEY(9, 0), 0), -ENOENT);
		CU_ASSERT_EQUAL(reserve(x, key, 0), 0);
		CU_ASSERT_EQUAL(reserve(x, key, 0), 0);
		CU_ASSERT_EQUAL(line(&nic, 0)->length, SP_SDR_LENGTH_FIXED | 6 * MTU); /* what is decoded stays that */
		for (uint32_t i = 0; i < 4; i++)
			CU_ASSERT_EQUAL(give(packet(0, i, MTU)), SP_DONE);
		CU_ASSERT(untouched(nic.mem[BUFFER].base + 64 + 2 * MTU, MTU));
		CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], 4);
		CU_ASSERT_EQUAL(give(packet(0, 4, MTU / 2)), SP_DROP(SDR_BEYOND_END)); /* another length */
		CU_ASSERT_EQUAL(*bitmap(&nic, 0), 0);
		CU_ASSERT_EQUAL(x->present(&nic.c, key, 0), 0);
		CU_ASSERT_EQUAL(x->supply(&nic.c, key, 0, 1), 0);
		CU_ASSERT_EQUAL(x->present(&nic.c, key, 0), 1);
		CU_ASSERT_EQUAL(*bitmap(&nic, 0), 1);
		CU_ASSERT_EQUAL(reserve(x, key, 0), 1);
		CU_ASSERT_EQUAL(x->supply(&nic.c, SP_SLOT_KEY(0, 1), 0, 1), -ENOENT);
		give(packet(0, 4, MTU));
		CU_ASSERT_EQUAL(line(&nic, 0)->state, SP_SDR_OPEN);
		give(packet(0, 5, MTU));
		CU_ASSERT_EQUAL(x->present(&nic.c, key, 1), 1);
		CU_ASSERT_EQUAL(*bitmap(&nic, 0), 3);
		CU_ASSERT_EQUAL(line(&nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		fake_detach(&nic);
	}
}

/* A packet is being written: it has its place (claim), but is not there (done). */
static void a_chunk_is_nobodys_while_a_packet_of_it_is_being_written(void)
{
	const struct sp_export *x = fake_handler->exports;
	const uint64_t key = SP_SLOT_KEY(0, 0);

	attach(&nic, implicit4, M_BYTES, 2);
	struct sdr_slot *slot = &((struct sdr *)nic.c.state)->slot[0];

	post_to(&nic, 0, 0, M_BYTES);
	for (uint32_t i = 0; i < 3; i++)
		give(packet(0, i, MTU));
	slot->done[0] &= ~4ull;
	CU_ASSERT_EQUAL(reserve(x, key, 0), -EAGAIN);
	CU_ASSERT_EQUAL(reserve(x, key, 0), -EAGAIN);
	slot->done[0] |= 4;
	sdr_check_chunk(&nic.c, nic.c.state, slot, 0);			  /* as whoever has written it does now */
	sdr_check_chunks(&nic.c, nic.c.state, slot, 0, slot->done[0], 4); /* ... or, of several, all of a run */
	CU_ASSERT_EQUAL(*bitmap(&nic, 0), 0);
	CU_ASSERT_EQUAL(give(packet(0, 3, MTU)), SP_DONE); /* too late: it is the companion's */
	CU_ASSERT_EQUAL(*bitmap(&nic, 0), 0);
	CU_ASSERT_EQUAL(reserve(x, key, 0), 0);

	for (uint32_t i = 4; i < 8; i++) /* all are there, but who brought the last has yet to say so */
		give(packet(0, i, MTU));
	slot->chunk[0] &= ~2ull;
	CU_ASSERT_EQUAL(reserve(x, key, 1), -EAGAIN);
	slot->chunk[0] |= 2;
	CU_ASSERT_EQUAL(reserve(x, key, 1), 1);
	fake_detach(&nic);
}

/* Chunks of 1, 3 and 4 packets, over the words of all bitmaps: some have come, of some a packet has. */
static void chunks_are_reserved_and_supplied_many_at_a_time(void)
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

		attach(&nic, settings, M_BYTES, 2);
		connection = (const void *)(nic.mem[0].base + ((struct sdr *)nic.c.state)->layout.connection);
		post_to(&nic, 0, 0, M_BYTES);
		for (uint64_t c = 0; c < 52; c++) {
			for (uint64_t p = 0; p < per && come >> c & 1; p++)
				give(packet(0, (uint32_t)((at + c) * per + p), MTU));
			if (part >> c & 1 && per > 1)
				give(packet(0, (uint32_t)((at + c) * per + per - 1), MTU));
			runs += mine >> c & 1 && !(c && mine >> (c - 1) & 1);
		}
		CU_ASSERT_EQUAL(x->reserve(&nic.c, key, all - 1, &got), -ERANGE);
		CU_ASSERT_EQUAL(got, 0);
		CU_ASSERT_EQUAL(x->reserved(&nic.c, key, all - 1), 0);
		got = wanted;
		CU_ASSERT_EQUAL(x->reserve(&nic.c, key, at, &got), 0);
		CU_ASSERT_EQUAL(got, mine);
		CU_ASSERT_EQUAL(x->reserved(&nic.c, key, at), mine);
		CU_ASSERT_EQUAL(x->present(&nic.c, key, at), come);
		memset(nic.mem[BUFFER].base, UNTOUCHED, M_BYTES);
		for (uint64_t p = at * per; p < (at + 52) * per; p++) /* all of them, once more */
			give(packet(0, (uint32_t)p, MTU));
		for (uint64_t c = 0; c < 52; c++)
			CU_ASSERT(!((mine | come) >> c & 1) ||
				  untouched(nic.mem[BUFFER].base + (at + c) * per * MTU, per * MTU));
		CU_ASSERT_EQUAL(x->present(&nic.c, key, at), ~mine & ((1ull << 52) - 1));
		CU_ASSERT_EQUAL(x->supply(&nic.c, key, at, mine | come), -EINVAL);
		CU_ASSERT_EQUAL(x->supply(&nic.c, key, at, 0), -EINVAL);
		CU_ASSERT_EQUAL(x->present(&nic.c, key, at), ~mine & ((1ull << 52) - 1));
		CU_ASSERT_EQUAL(x->supply(&nic.c, key, at, mine), 0);
		CU_ASSERT_EQUAL(x->present(&nic.c, key, at), (1ull << 52) - 1);
		CU_ASSERT_EQUAL(bitmap(&nic, 0)[0], ((1ull << 52) - 1) << at % 64 & (at < 64 ? ~0ull : 0));
		CU_ASSERT_EQUAL(connection->repaired, (uint64_t)__builtin_popcountll(mine) | runs << SP_SDR_RUNS_SHIFT);
		CU_ASSERT_EQUAL(nic.counters[SDR_CHUNKS], 52);
		fake_detach(&nic);
	}
}

/* What a companion makes is sent as far as it is ready, beside other messages; it may end half-way. */
static void a_message_is_sent_as_it_gets_ready(void)
{
	const struct sp_export *x = fake_handler->exports;
	struct sdr *s;

	attach(&nic, implicit4, M_BYTES, 1);
	s = nic.c.state;
	CU_ASSERT_EQUAL(x->send(&nic.c, 0, BUFFER, 0, 8 * MTU, 7), -ENOTCONN);
	CU_ASSERT_EQUAL(connect_to(&nic, 22, 11), 0);
	CU_ASSERT_EQUAL(x->send(&nic.c, 1, BUFFER, 0, 8 * MTU, 7), -EINVAL); /* not the next */
	CU_ASSERT_EQUAL(x->send(&nic.c, 0, BUFFER, 1, M_BYTES, 7), -EFAULT);
	CU_ASSERT_EQUAL(x->send(&nic.c, 0, UINT64_MAX, 0, 1, 7), -EFAULT);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(x->send(&nic.c, 0, BUFFER, 0, 8 * MTU, 7), 0);
	fake_issue(&nic, 32, 9);
	CU_ASSERT_EQUAL(nic.sent_count, 0);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 0, 9 * MTU), -EINVAL);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 0, MTU - 1), -EINVAL);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 1, MTU), -ENOENT);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 0, 3 * MTU), 0);
	fake_issue(&nic, 2, 9);
	CU_ASSERT_EQUAL(nic.sent_count, 3);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 0, 4 * MTU), 0);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 0, MTU), 0);
	fake_issue(&nic, 32, 9);
	CU_ASSERT_EQUAL(nic.sent_count, 8);
	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(nic.sent[i].send.flags & SP_PKT_SE, i == 7 ? SP_PKT_SE : 0);
	CU_ASSERT_EQUAL(s->sends[0].message, 0); /* released */
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 0, MTU), -ENOENT);

	for (uint64_t k = 1; k < 4; k++)
		CU_ASSERT_EQUAL(x->send(&nic.c, k, BUFFER, 0, 4 * MTU, 0), 0);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 2, MTU), 0);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 3);
	CU_ASSERT_EQUAL(fake_command(&nic, &(struct sp_command){.op = SP_CMD_CLOSE}, NULL), 0);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(x->ready(&nic.c, 1, MTU), -ENOENT);
	CU_ASSERT_EQUAL(s->first, SDR_NONE);
	fake_detach(&nic);
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
			run[n] = build(&w->packet[i + n]);
		w->view.h->payload_burst(&w->view.c, &nic.message[0].m, run, n);
	}
	return NULL;
}

static void two_workers_at_once_lose_and_repeat_nothing(void)
{
	for (unsigned round = 0; round < 150; round++) {
		const uint32_t packets = 1 + draw(200), length = packets * MTU - draw(MTU);
		uint32_t order[400];

		attach(&nic, implicit4, M_BYTES, 2);
		post_to(&nic, 0, 0, M_BYTES);
		/* every packet twice, shuffled over both workers */
		for (uint32_t i = 0; i < 2 * packets; i++)
			order[i] = i / 2;
		for (uint32_t i = 2 * packets; i-- > 1;) {
			const uint32_t j = draw(i + 1), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		for (int w = 0; w < 2; w++) {
			worker[w].view = nic;
			worker[w].view.c.worker = (uint16_t)w;
			worker[w].view.c.counters = worker[w].view.counters;
			worker[w].count = 0;
		}
		for (uint32_t i = 0; i < 2 * packets; i++) {
			struct worker *w = &worker[i & 1];
			const uint32_t p = order[i];
			struct packet *k = packet(0, p, p == packets - 1 ? length - p * MTU : MTU);

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
			set += bitmap(&nic, 0)[i / 64] >> i % 64 & 1;
		CU_ASSERT_EQUAL(set, chunks);
		CU_ASSERT_EQUAL(came(&nic, 0), packets);
		CU_ASSERT_EQUAL(line(&nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		CU_ASSERT_EQUAL(line(&nic, 0)->length, SP_SDR_LENGTH_FIXED | length);
		CU_ASSERT_EQUAL(worker[0].view.counters[SDR_MESSAGES] + worker[1].view.counters[SDR_MESSAGES], 1);
		CU_ASSERT_EQUAL(worker[0].view.counters[SDR_CHUNKS] + worker[1].view.counters[SDR_CHUNKS], chunks);
		CU_ASSERT_EQUAL(worker[0].view.counters[SDR_DUPLICATES] + worker[1].view.counters[SDR_DUPLICATES],
				packets);
		for (uint32_t p = 0; p < packets; p++)
			if (!filled(nic.mem[BUFFER].base + p * MTU, p == packets - 1 ? length - p * MTU : MTU,
				    (uint8_t)(p * 7 + 1)))
				CU_FAIL("bytes");
		fake_detach(&nic);
	}
}

SUITE("sdr_handler", TEST(each_bad_packet_is_dropped_by_name_and_touches_nothing),
      TEST(rkey_does_not_matter_without_payload), TEST(bytes_land_where_the_offset_says_and_nowhere_else),
      TEST(duplicates_are_counted_and_not_written), TEST(no_bytes_are_one_packet_and_one_chunk),
      TEST(a_packet_of_no_bytes_has_no_place_further_on), TEST(a_short_packet_or_se_fixes_the_length),
      TEST(what_contradicts_the_length_is_beyond_end), TEST(nothing_is_written_beyond_what_was_posted),
      TEST(a_duplicate_may_tell_the_length), TEST(bitmaps_say_exactly_what_arrived),
      TEST(large_packets_arrive_whichever_way_they_are_written), TEST(a_burst_is_classified_as_its_packets_are),
      TEST(the_packets_of_one_chunk_can_be_asked_for), TEST(the_immediate_is_there_once_all_fragments_are),
      TEST(generations_have_their_own_qps), TEST(what_was_never_posted_is_not_posted_and_what_is_gone_is_late),
      TEST(packets_up_to_slots_times_generations_late_change_nothing), TEST(commands_are_not_believed),
      TEST(impossible_parameters_are_refused_by_name), TEST(a_supplied_chunk_counts_and_is_not_overwritten),
      TEST(a_chunk_is_nobodys_while_a_packet_of_it_is_being_written),
      TEST(chunks_are_reserved_and_supplied_many_at_a_time), TEST(a_message_is_sent_as_it_gets_ready),
      TEST(two_workers_at_once_lose_and_repeat_nothing))
