/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr handler by itself: packets in, bitmaps and bytes out; sends; clear-to-send. The pipeline is a stand-in. */
#include "fake_nic.h"

/* Included, not linked: the stand-in's calls must be the ones that they see. */
#include "../../handlers/sdr.c"
#include "../../handlers/sdr_receive.c"
#include "../../handlers/sdr_place.c"
#include "../../handlers/sdr_send.c"

#include <pthread.h>

#include "suite.h"

enum { BUFFER = 1 }; /* memory id of the buffer that tests post, see attach() */
#define UNTOUCHED 0xEE

static struct fake_nic nic, peer;

static void attach(struct fake_nic *f, const char *const *setting, uint64_t buffer, uint16_t workers)
{
	memset(f, 0, sizeof(*f));
	if (fake_attach(f, setting)) {
		printf("# %s: %s\n", f->error.param, f->error.text);
		abort();
	}
	if (workers > 1) { /* attach again as one of several */
		fake_detach(f);
		memset(f, 0, sizeof(*f));
		f->h = fake_handler;
		f->setting = setting;
		f->room = -1;
		f->c.workers = workers;
		f->c.counters = f->counters;
		f->c.now = SP_SEC;
		f->sent = malloc(sizeof(*f->sent) * FAKE_SENT);
		f->c.state = sp_alloc(&f->c, f->h->ctx_size);
		if (f->h->attach(&f->c))
			abort();
	}
	if (fake_mem(f, buffer) != BUFFER)
		abort();
	memset(f->mem[BUFFER].base, UNTOUCHED, buffer);
}

/* ---- packets made by hand, from the wire format's description ---- */
struct packet {
	uint32_t qp_index, id, offset, user; /* user: value of the user bits */
	uint32_t len, rkey, dma_len, psn;
	uint64_t va;
	uint8_t opcode, flags, fill;
	struct sp_packet p;
	uint8_t bytes[20 + 4200];
};

/* Split 10+18+4, mtu 128, M = 64 KiB, unless a test says otherwise. */
#define MTU	     128u
#define M_BYTES	     65536ull
#define MTU_SETTINGS "mtu", "128", "queue", "64", "max-message-bytes", "64K", "chunk-bytes", "512", "rkey", "0x12345678"
static const char *const implicit4[] = {MTU_SETTINGS, "credit", "implicit", "max-messages", "4", NULL};
static const char *const control4[] = {MTU_SETTINGS, "max-messages", "4", "generations", "2", NULL};

static struct packet *packet(uint32_t id, uint32_t offset, uint32_t len)
{
	static struct packet k;

	k = (struct packet){.id = id, .offset = offset, .len = len, .dma_len = len, .rkey = 0x12345678};
	k.va = id * M_BYTES + offset * MTU;
	k.opcode = 0x2B;
	k.fill = (uint8_t)(offset * 7 + 1);
	return &k;
}

static struct sp_packet *build(struct packet *k)
{
	const uint32_t imm = k->id << 22 | k->offset << 4 | k->user;

	for (int i = 0; i < 8; i++)
		k->bytes[i] = (uint8_t)(k->va >> (56 - 8 * i));
	for (int i = 0; i < 4; i++) {
		k->bytes[8 + i] = (uint8_t)(k->rkey >> (24 - 8 * i));
		k->bytes[12 + i] = (uint8_t)(k->dma_len >> (24 - 8 * i));
		k->bytes[16 + i] = (uint8_t)(imm >> (24 - 8 * i));
	}
	memset(k->bytes + 20, k->fill, k->len);
	k->p = (struct sp_packet){.data = k->bytes,
				  .len = 20 + k->len,
				  .qp_index = (uint16_t)k->qp_index,
				  .psn = k->psn,
				  .opcode = k->opcode,
				  .flags = SP_PKT_ROCE | k->flags};
	return &k->p;
}

static uint32_t give(struct packet *k)
{
	return fake_receive(&nic, build(k));
}

static int post_to(struct fake_nic *f, uint64_t k, uint64_t offset, uint64_t len)
{
	const struct sp_command c = {.op = SP_CMD_POST, .cookie = k, .arg = {BUFFER, offset, len}};

	return fake_command(f, &c, NULL);
}

static int complete(struct fake_nic *f, uint64_t k)
{
	return fake_command(f, &(struct sp_command){.op = SP_CMD_COMPLETE, .cookie = k}, NULL);
}

static const struct sp_sdr_recv_status *line(struct fake_nic *f, uint32_t slot)
{
	const struct sdr *s = f->c.state;

	return (const void *)(f->mem[0].base + s->layout.recv + slot * 64);
}

static const uint64_t *bitmap(struct fake_nic *f, uint32_t slot)
{
	const struct sdr *s = f->c.state;

	return (const void *)(f->mem[0].base + s->layout.bitmap + slot * s->layout.bitmap_stride);
}

static const char *report(struct fake_nic *f)
{
	static struct sp_report r;

	r.len = 0;
	f->h->report(&f->c, &r);
	return r.text;
}

static bool untouched(const uint8_t *p, size_t n)
{
	while (n--)
		if (*p++ != UNTOUCHED)
			return false;
	return true;
}

static bool filled(const uint8_t *p, size_t n, uint8_t with)
{
	while (n--)
		if (*p++ != with)
			return false;
	return true;
}

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
		CU_ASSERT_EQUAL(line(&nic, i)->packets, 0);
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
	CU_ASSERT_EQUAL(line(&nic, 0)->packets, 1);
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
	CU_ASSERT_EQUAL(line(&nic, 0)->packets, 1);
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
	CU_ASSERT_EQUAL(line(&nic, 0)->packets, 2);
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
		CU_ASSERT_EQUAL(line(&nic, 0)->packets, 6);
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

	for (unsigned round = 0; round < 400; round++) {
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
		CU_ASSERT_EQUAL(line(&nic, 0)->packets, distinct);
		CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], gift - distinct);
		CU_ASSERT_EQUAL(!!(line(&nic, 0)->state & SP_SDR_COMPLETE), all);
		fake_detach(&nic);
	}
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

static struct packet *of_message(uint64_t k, uint32_t slots, uint32_t generations, uint32_t p)
{
	struct packet *x = packet((uint32_t)(k % slots), p, MTU);

	x->qp_index = (uint32_t)(k / slots % generations);
	x->fill = (uint8_t)(k + 1);
	x->flags = p == 1 ? SP_PKT_SE : 0; /* messages of two packets */
	return x;
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
		CU_ASSERT_EQUAL(line(&nic, k % 4)->packets, 1);
		CU_ASSERT_EQUAL(*bitmap(&nic, k % 4), 0);
		if (k >= 3)
			CU_ASSERT_EQUAL(complete(&nic, k - 3), 0);
	}
	fake_detach(&nic);
}

/* ---- implicit credit ---- */
static void implicit_credit_moves_a_slot_on_with_its_next_generation(void)
{
	static const char *const setting[] = {MTU_SETTINGS, "credit", "implicit", "max-messages", "2", NULL};

	attach(&nic, setting, 64 * 256, 1);
	for (uint64_t k = 0; k < 20; k++)
		CU_ASSERT_EQUAL(post_to(&nic, k, k * 256, 256), 0);
	CU_ASSERT_EQUAL(nic.opened, 2);
	for (uint64_t k = 0; k < 20; k++) {
		CU_ASSERT_EQUAL(give(of_message(k, 2, 4, 0)), SP_DONE);
		if (k % 3) /* every third stays incomplete: with four generations it makes way all the same */
			CU_ASSERT_EQUAL(give(of_message(k, 2, 4, 1)), SP_DONE);
		if (k >= 2)
			CU_ASSERT_EQUAL(give(of_message(k - 2, 2, 4, 1)), SP_DROP(SDR_LATE));
		CU_ASSERT(filled(nic.mem[BUFFER].base + k * 256, MTU, (uint8_t)(k + 1)));
		if (k % 3 == 0)
			CU_ASSERT(untouched(nic.mem[BUFFER].base + k * 256 + MTU, MTU));
	}
	const char *text = report(&nic);
	char want[64];

	for (unsigned k = 0; k < 20; k++) { /* all of them, in order, finished or not */
		snprintf(want, sizeof(want), "id=%u message=%u generation=%u length=256 packets=%u", k % 2, k,
			 k / 2 % 4, k % 3 ? 2 : 1);
		text = strstr(text, want);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	}
	CU_ASSERT_EQUAL(give(of_message(20, 2, 4, 0)),
			SP_DROP(SDR_LATE)); /* nothing is queued: generation 2 was there */
	fake_detach(&nic);
}

/* ---- implicit credit, packets lost: which message is it that a packet is for? ---- */
static void attach_moving(const char *slots, const char *generations, uint64_t posts)
{
	static const char *setting[] = {MTU_SETTINGS, "credit",	     "implicit", "max-messages",
					NULL,	      "generations", NULL,	 NULL};
	const size_t n = sizeof(setting) / sizeof(*setting);

	setting[n - 4] = slots;
	setting[n - 2] = generations;
	attach(&nic, setting, 256 * 256, 1);
	for (uint64_t k = 0; k < posts; k++)
		CU_ASSERT_EQUAL_FATAL(post_to(&nic, k, k * 256, 256), 0);
}

/* Packet p of message k, with that PSN. */
static uint32_t give_psn(uint64_t k, uint32_t p, uint32_t psn)
{
	const struct sdr *s = nic.c.state;
	struct packet *x = of_message(k, s->slots, s->generations, p);

	x->psn = psn;
	return give(x);
}

/* Two slots, four generations, messages 0 to 9 whole: each slot has its fifth open, and H is 9. PSNs count from `first`
 * on, on every QP; each of generation 0 has had 8 packets, the others 4. */
static void attach_at_nine(uint32_t first)
{
	attach_moving("2", "4", 40);
	for (uint64_t k = 0; k < 10; k++)
		for (uint32_t p = 0; p < 2; p++)
			CU_ASSERT_EQUAL_FATAL(
				give_psn(k, p, (first + (uint32_t)(k / 8 * 4 + k % 2 * 2) + p) & 0xFFFFFF), SP_DONE);
}

static bool has(uint64_t k, uint32_t p)
{
	return filled(nic.mem[BUFFER].base + k * 256 + p * MTU, MTU, (uint8_t)(k + 1));
}

static void a_message_lost_whole_is_skipped_reported_and_given_back(void)
{
	attach_moving("2", "4", 10);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 10);
	for (uint64_t k = 0; k < 10; k++)
		if (k != 2 && k != 4 && k != 5) /* two of slot 0 in a row */
			CU_ASSERT_EQUAL(give_psn(k, 0, 0), SP_DONE);
	for (uint64_t k = 0; k < 10; k++) {
		const bool lost = k == 2 || k == 4 || k == 5;
		char want[160];

		snprintf(want, sizeof(want),
			 "message=%u generation=%u length=256 packets=%u duplicates=0 late=0 chunk_bitmap=0 "
			 "complete=false",
			 (unsigned)k, (unsigned)(k / 2 % 4), !lost);
		CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), want));
		CU_ASSERT(lost ? untouched(nic.mem[BUFFER].base + k * 256, 256) : has(k, 0));
	}
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 2); /* 8 and 9 */
	CU_ASSERT_EQUAL(nic.counters[SDR_RELEASED], 8);
	CU_ASSERT_EQUAL(give_psn(4, 1, 0), SP_DROP(SDR_LATE)); /* its turn is over, and it is 5 late: 16 is not meant */
	CU_ASSERT_PTR_NOT_NULL(
		strstr(report(&nic), "message=4 generation=2 length=256 packets=0 duplicates=0 late=1 "));
	fake_detach(&nic);
}

/* The report keeps 64 messages here: 64 is remembered where 0 was, and 66 where 2 was. */
static void a_message_skipped_has_no_bitmap_of_an_older_one(void)
{
	char want[128];

	attach_moving("2", "4", 60);
	for (uint64_t k = 0; k < 70; k++) {
		if (k >= 4)
			CU_ASSERT_EQUAL(post_to(&nic, k + 56, 0, 256), 0);
		for (uint32_t p = 0; p < 2; p++)
			if (k != 2 && k != 64) /* lost whole */
				CU_ASSERT_EQUAL(give_psn(k, p, 0), SP_DONE);
		if (k < 4)
			continue;
		/* the turn of the one two before is over, if it has begun at all */
		const bool lost = k - 2 == 2 || k - 2 == 64;

		snprintf(want, sizeof(want),
			 "message=%u generation=%u length=256 packets=%u duplicates=0 late=0 chunk_bitmap=%u",
			 (unsigned)k - 2, (unsigned)(k - 2) / 2 % 4, lost ? 0 : 2, !lost);
		CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), want));
	}
	fake_detach(&nic);
}

/* 10 comes after 11 has: of what 2 has, 9 messages ago, nothing is promised. Whatever the PSN says. */
static void what_is_not_beyond_the_highest_message_moves_the_slot_on(void)
{
	attach_at_nine(100);
	CU_ASSERT_EQUAL(give_psn(11, 0, 106), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(10, 0, 100), SP_DONE);
	CU_ASSERT(has(10, 0) && has(2, 0));
	CU_ASSERT_EQUAL(nic.drops[SDR_LATE], 0);
	fake_detach(&nic);
}

/* The sender has 10 and 11 in flight and no more: the generation of 12, 13, 14, 15 means 4, 5, 6, 7. */
static void more_than_the_slots_beyond_the_highest_message_is_late(void)
{
	attach_at_nine(100);
	for (uint64_t k = 12; k < 16; k++) {
		char want[128];

		CU_ASSERT_EQUAL(give_psn(k, 0, 110), SP_DROP(SDR_LATE));
		snprintf(want, sizeof(want), "message=%u generation=%u length=256 packets=2 duplicates=0 late=1 ",
			 (unsigned)k - 8, (unsigned)k / 2 % 4);
		CU_ASSERT_PTR_NOT_NULL(strstr(report(&nic), want));
	}
	CU_ASSERT(has(8, 0) && line(&nic, 0)->message == 9 && line(&nic, 1)->message == 10);
	CU_ASSERT_EQUAL(give_psn(11, 0, 110), SP_DONE); /* late ones have not made it 12 or more; 11 does */
	CU_ASSERT_EQUAL(give_psn(12, 0, 110), SP_DONE);
	fake_detach(&nic);
}

/* 10 or 2, 8 messages apart: PSNs 0 to 3 after `first` were on that QP, for all places of the circle's end. */
static void between_two_messages_the_psn_decides(void)
{
	const struct {
		uint32_t ahead; /* of the newest accepted on the QP */
		uint32_t verdict;
	} step[] = {
		{1, SP_DONE},
		{2, SP_DONE},
		{1000, SP_DONE},
		{0x7FFFFF, SP_DONE},
		{0, SP_DROP(SDR_LATE)}, /* the newest itself, again */
		{0xFFFFFF, SP_DROP(SDR_LATE)},
		{0xFFFFFD, SP_DROP(SDR_LATE)},
		{0x800001, SP_DROP(SDR_LATE)},
		{0x800000, SP_DROP(SDR_LATE)},
	};

	for (uint32_t first = 0; first < 8; first++)
		for (unsigned i = 0; i < sizeof(step) / sizeof(*step); i++) {
			const uint32_t newest = (0xFFFFFC + first + 3) & 0xFFFFFF;

			attach_at_nine(0xFFFFFC + first);
			CU_ASSERT_EQUAL(give_psn(10, 0, (newest + step[i].ahead) & 0xFFFFFF), step[i].verdict);
			CU_ASSERT_EQUAL(has(10, 0), step[i].verdict == SP_DONE);
			CU_ASSERT(has(8, 1) && has(2, 0) && has(2, 1));
			CU_ASSERT_EQUAL(give_psn(10, 1, (newest + 2000) & 0xFFFFFF), SP_DONE); /* not held up */
			fake_detach(&nic);
		}
}

/* Two channels, one slot, three generations: of message 3 packets 0 and 1 came, by one QP each. What comes by their QP
 * after 4 and 5 is 6, or else the rest of 3: just that, as it was sent. */
static void the_rest_of_an_old_message_is_late_though_newer_than_all(void)
{
	static const char *const setting[] = {MTU_SETTINGS,  "credit", "implicit", "max-messages", "1", "channels", "2",
					      "generations", "3",      NULL};
	const struct {
		uint32_t packet, channel, psn;
		uint32_t verdict;
	} next[] = {
		{2, 0, 12, SP_DROP(SDR_LATE)}, {8, 0, 15, SP_DROP(SDR_LATE)}, {3, 1, 13, SP_DROP(SDR_LATE)},
		{2, 0, 13, SP_DONE},	       {4, 0, 12, SP_DONE},	      {0, 0, 12, SP_DONE},
		{0, 1, 13, SP_DONE},
	};

	for (unsigned i = 0; i < sizeof(next) / sizeof(*next); i++)
		for (uint32_t wrap = 0; wrap < 4;
		     wrap++) { /* PSNs 11, 12: the circle's end is before, between, after */
			attach(&nic, setting, 16 * M_BYTES, 1);
			for (uint64_t k = 0; k < 8; k++)
				CU_ASSERT_EQUAL_FATAL(post_to(&nic, k, k * M_BYTES, M_BYTES), 0);
			for (uint64_t k = 0; k < 6; k++)
				for (uint32_t p = 0; p < 2; p++) {
					struct packet *x = packet(0, p, MTU);

					x->qp_index = (uint32_t)k % 3 * 2 + p;
					x->psn = ((k < 3 ? 5 : 11 + p) - 12 + wrap - 1) & 0xFFFFFF;
					CU_ASSERT_EQUAL_FATAL(give(x), SP_DONE);
				}
			struct packet *x = packet(0, next[i].packet, MTU);

			x->qp_index = next[i].channel;
			x->psn = (next[i].psn - 12 + wrap - 1) & 0xFFFFFF;
			CU_ASSERT_EQUAL(give(x), next[i].verdict);
			CU_ASSERT_EQUAL(line(&nic, 0)->message, next[i].verdict == SP_DONE ? 7 : 6);
			fake_detach(&nic);
		}

	/* Two slots: 4 and 5 had one packet each. A second one by PSN, but of the slot of 4: that is 10's. */
	attach_moving("2", "3", 12);
	for (uint64_t k = 0; k < 9; k++)
		CU_ASSERT_EQUAL(give_psn(k, 0, (uint32_t)k), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(11, 1, 6), SP_DROP(SDR_LATE)); /* three beyond 8 */
	CU_ASSERT_EQUAL(give_psn(10, 1, 6), SP_DONE);
	CU_ASSERT(has(10, 1));
	fake_detach(&nic);
}

static void psns_that_start_anew_with_each_message_or_are_all_alike_drop_nothing(void)
{
	for (uint32_t factor = 0; factor < 2; factor++) {
		attach_moving("2", "4", 40);
		for (uint64_t k = 0; k < 40; k++)
			for (uint32_t p = 0; p < 2; p++)
				if (k % 7 != 3) /* lost whole */
					CU_ASSERT_EQUAL(give_psn(k, p, 50 + p * factor), SP_DONE);
		CU_ASSERT_EQUAL(nic.drops[SDR_LATE], 0);
		fake_detach(&nic);
	}
	/* One slot: the first QP to be used again decides already, before anything is known of the PSNs. */
	attach_moving("1", "3", 20);
	for (uint64_t k = 0; k < 20; k++)
		for (uint32_t p = 0; p < 2; p++)
			CU_ASSERT_EQUAL(give_psn(k, p, p), SP_DONE);
	fake_detach(&nic);
}

/* Once they were seen not to count PSNs are not asked again, though they count from there on. */
static void psns_that_once_misled_are_not_asked_again(void)
{
	attach_moving("2", "4", 40);
	for (uint64_t k = 0; k < 10; k++) /* message 1 has an older one than message 0 */
		CU_ASSERT_EQUAL(give_psn(k, 0, k == 1 ? 50 : 100 + (uint32_t)k), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(10, 0, 60), SP_DONE);
	fake_detach(&nic);
}

/* A packet dropped tells nothing: 9 has not been accepted, so 11 would be three beyond the highest. */
static void only_accepted_packets_count_for_the_choice(void)
{
	attach_moving("2", "4", 40);
	for (uint64_t k = 0; k < 9; k++)
		CU_ASSERT_EQUAL(give_psn(k, 0, 100 + (uint32_t)k), SP_DONE);
	struct packet *x = of_message(9, 2, 4, 5); /* 256 bytes were posted */
	x->psn = 200;
	CU_ASSERT_EQUAL(give(x), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(line(&nic, 1)->message, 10);
	CU_ASSERT_EQUAL(give_psn(11, 0, 110), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(9, 0, 109), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(11, 0, 111), SP_DONE);
	/* Nor is its PSN kept: the newest on that QP is 109. */
	CU_ASSERT_EQUAL(give_psn(13, 0, 113), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(15, 0, 115), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(17, 0, 109), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(17, 0, 110), SP_DONE);
	fake_detach(&nic);

	/* Nor do late ones of a message of which none was accepted. */
	attach_at_nine(100);
	CU_ASSERT_EQUAL(give_psn(10, 0, 110), SP_DONE);
	x = of_message(11, 2, 4, 5);
	x->psn = 111;
	CU_ASSERT_EQUAL(give(x), SP_DROP(SDR_BEYOND_END));
	CU_ASSERT_EQUAL(complete(&nic, 11), 0);
	CU_ASSERT_EQUAL(give_psn(11, 0, 111), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(13, 0, 113), SP_DROP(SDR_LATE)); /* three beyond 10 */
	CU_ASSERT_EQUAL(give_psn(12, 0, 112), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(13, 0, 113), SP_DONE);
	fake_detach(&nic);
}

/* Receives that were taken back while they waited: not given back twice, not filled, and their packets are late. */
static void receives_taken_back_are_stepped_over_with_the_skipped(void)
{
	attach_moving("2", "4", 20);
	CU_ASSERT_EQUAL(give_psn(0, 0, 0), SP_DONE);
	for (uint64_t k = 4; k <= 12; k += 4)
		CU_ASSERT_EQUAL(complete(&nic, k), 0);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 17);
	CU_ASSERT_EQUAL(give_psn(2, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(4, 0, 0), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(2, 1, 0), SP_DONE); /* it was the next one, so nothing was skipped or ended */
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 16);
	CU_ASSERT_EQUAL(give_psn(7, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(8, 0, 0), SP_DROP(SDR_LATE)); /* skips 6 */
	CU_ASSERT_EQUAL(line(&nic, 0)->message, 0);
	CU_ASSERT_EQUAL(line(&nic, 0)->released, 9);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 11); /* 9, 11, 13 to 19, 10, and 7 which is open */
	CU_ASSERT_EQUAL(give_psn(6, 0, 0), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(9, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(13, 0, 0), SP_DROP(SDR_LATE)); /* four beyond 9 */
	CU_ASSERT_EQUAL(give_psn(11, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(13, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(14, 0, 0), SP_DONE); /* over 10, for which nothing came, and 12 */
	CU_ASSERT(has(14, 0));
	for (uint64_t k = 4; k <= 12; k += 2)
		CU_ASSERT(untouched(nic.mem[BUFFER].base + k * 256, 256));
	fake_detach(&nic);
}

/* Taken by the host while packets were missing: such a message need not be complete to make way. */
static void a_message_that_the_host_has_taken_makes_way(void)
{
	for (uint32_t generations = 1; generations <= 3; generations++) {
		attach_moving("1", (const char *[]){"1", "2", "3"}[generations - 1], 6);
		for (uint64_t k = 0; k < 6; k++) {
			CU_ASSERT_EQUAL(give_psn(k, 0, 0), SP_DONE);
			CU_ASSERT(has(k, 0));
			CU_ASSERT_EQUAL(complete(&nic, k), 0);
		}
		fake_detach(&nic);
	}
}

static void with_two_generations_a_complete_message_makes_way_or_a_newer_psn(void)
{
	/* PSNs that say nothing. In the first turn of the generations nothing can be late yet. */
	attach_moving("1", "2", 4);
	CU_ASSERT_EQUAL(give_psn(0, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(1, 0, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(0, 1, 0), SP_DROP(SDR_LATE)); /* 1 is not complete */
	CU_ASSERT_EQUAL(give_psn(1, 1, 0), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(2, 1, 0), SP_DONE);
	CU_ASSERT(has(2, 1) && untouched(nic.mem[BUFFER].base + MTU, MTU));
	fake_detach(&nic);

	/* PSNs that count. */
	attach_moving("1", "2", 6);
	CU_ASSERT_EQUAL(give_psn(0, 0, 10), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(1, 0, 20), SP_DONE);
	CU_ASSERT_EQUAL(give_psn(2, 0, 12), SP_DONE); /* 1 is not complete */
	CU_ASSERT(has(2, 0));
	CU_ASSERT_EQUAL(give_psn(1, 0, 20), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(2, 1, 13), SP_DONE); /* and now it is: that makes nothing of what is old */
	CU_ASSERT_EQUAL(give_psn(1, 0, 20), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(give_psn(3, 1, 23), SP_DONE);
	CU_ASSERT(has(3, 1) && untouched(nic.mem[BUFFER].base + 3 * 256, MTU));
	fake_detach(&nic);
}

/* One generation: the next message's packets are told from this one's by completeness alone, within one burst. */
static void with_one_generation_a_complete_message_makes_way_at_once(void)
{
	static const char *const setting[] = {MTU_SETTINGS, "credit",	   "implicit", "max-messages",
					      "1",	    "generations", "1",	       NULL};
	static struct packet burst[8];
	struct sp_packet *run[8];

	attach(&nic, setting, 64 * 256, 1);
	for (uint64_t k = 0; k < 3; k++)
		post_to(&nic, k, k * 256, 256);
	for (uint32_t i = 0; i < 8; i++) { /* 3 messages of 2 packets, and 2 too many */
		burst[i] = *of_message(i / 2, 1, 1, i % 2);
		run[i] = build(&burst[i]);
	}
	nic.h->payload_burst(&nic.c, &nic.message[0].m, run, 8);
	for (uint32_t k = 0; k < 3; k++)
		CU_ASSERT(filled(nic.mem[BUFFER].base + k * 256, 256, (uint8_t)(k + 1)));
	CU_ASSERT(untouched(nic.mem[BUFFER].base + 3 * 256, 1000));
	CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], 2);
	post_to(&nic, 3, 3 * 256, 256); /* the last one is complete: it makes way now */
	CU_ASSERT_EQUAL(give(of_message(3, 1, 1, 0)), SP_DONE);
	CU_ASSERT(filled(nic.mem[BUFFER].base + 3 * 256, MTU, 4));
	fake_detach(&nic);
}

static void completing_and_posting_again_goes_on_for_ever(void)
{
	attach(&nic, implicit4, 4 * 256, 1);
	for (uint64_t k = 0; k < 1000; k++) {
		if (k >= 4)
			CU_ASSERT_EQUAL_FATAL(complete(&nic, k - 4), 0);
		CU_ASSERT_EQUAL_FATAL(post_to(&nic, k, k % 4 * 256, 256), 0);
		CU_ASSERT_EQUAL_FATAL(give(of_message(k, 4, 4, 1)), SP_DONE);
		CU_ASSERT_EQUAL_FATAL(give(of_message(k, 4, 4, 0)), SP_DONE);
		CU_ASSERT_EQUAL_FATAL(line(&nic, k % 4)->message, k + 1);
		CU_ASSERT_EQUAL_FATAL(line(&nic, k % 4)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	}
	CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], 0);
	CU_ASSERT_EQUAL(nic.counters[SDR_MESSAGES], 1000);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 4);
	fake_detach(&nic);
}

/* ---- hostile commands ---- */
static int connect_to(struct fake_nic *f, uint64_t peer_nonce, uint64_t nonce)
{
	const struct sp_command c = {.op = SP_SDR_CMD_CONNECT,
				     .arg = {0, 0, 0x100 | 0xF00001ull << 32, peer_nonce, nonce, 0x12345678}};

	return fake_command(f, &c, NULL);
}

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
static void a_supplied_chunk_counts_and_is_not_overwritten(void)
{
	for (uint16_t workers = 1; workers <= 2; workers++) {
		const struct sp_export *x = fake_handler->exports;
		const uint64_t key = SP_SLOT_KEY(0, 0);
		uint32_t mem, chunk_bytes;
		uint64_t offset, bytes;

		attach(&nic, implicit4, M_BYTES, workers);
		CU_ASSERT_EQUAL(x->range(&nic.c, key, &mem, &offset, &bytes, &chunk_bytes), -ENOENT);
		post_to(&nic, 0, 64, 6 * MTU);
		CU_ASSERT_EQUAL(x->range(&nic.c, key, &mem, &offset, &bytes, &chunk_bytes), 0);
		CU_ASSERT(mem == BUFFER && offset == 64 && bytes == 6 * MTU && chunk_bytes == 512);
		give(packet(0, 1, MTU));
		CU_ASSERT(!x->present(&nic.c, key, 0));
		CU_ASSERT_EQUAL(x->supply(&nic.c, key, 0), 0);
		CU_ASSERT(x->present(&nic.c, key, 0));
		CU_ASSERT_EQUAL(x->supply(&nic.c, key, 2), -ERANGE);
		CU_ASSERT_EQUAL(x->supply(&nic.c, SP_SLOT_KEY(0, 1), 0), -ENOENT);
		CU_ASSERT_EQUAL(x->supply(&nic.c, SP_SLOT_KEY(9, 0), 0), -ENOENT);
		CU_ASSERT_EQUAL(give(packet(0, 2, MTU)), SP_DONE);
		CU_ASSERT(untouched(nic.mem[BUFFER].base + 64 + 2 * MTU, MTU));
		CU_ASSERT_EQUAL(nic.counters[SDR_DUPLICATES], 1);
		give(packet(0, 4, MTU));
		give(packet(0, 5, MTU));
		CU_ASSERT_EQUAL(*bitmap(&nic, 0), 3);
		CU_ASSERT_EQUAL(line(&nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
		fake_detach(&nic);
	}
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
		CU_ASSERT_EQUAL(line(&nic, 0)->packets, packets);
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

/* ---- sending and clear-to-send, between two ---- */
static void pair(uint64_t buffer)
{
	attach(&nic, control4, buffer, 1);
	attach(&peer, control4, buffer, 1);
	CU_ASSERT_EQUAL(connect_to(&nic, 22, 11), 0);
	CU_ASSERT_EQUAL(connect_to(&peer, 11, 22), 0);
	for (uint64_t i = 0; i < buffer; i++)
		nic.mem[BUFFER].base[i] = (uint8_t)(i * 31 + i / 256);
}

static void unpair(void)
{
	fake_detach(&nic);
	fake_detach(&peer);
}

static uint32_t deliver(struct fake_nic *to, const struct fake_sent *s)
{
	static uint8_t bytes[sizeof(s->bytes)];
	struct sp_packet p = {.data = bytes,
			      .len = s->send.ext_len + s->send.len,
			      .opcode = s->send.opcode,
			      .flags = SP_PKT_ROCE | s->send.flags,
			      .dest_qp = s->send.dest_qp,
			      .qp_index = s->send.dest_qp == 0xF00001 ? SP_QP_CONTROL
								      : (uint16_t)(s->send.dest_qp - 0x100)};

	memcpy(bytes, s->bytes, p.len);
	return fake_receive(to, &p);
}

static void deliver_all(struct fake_nic *from, struct fake_nic *to)
{
	for (unsigned i = 0; i < from->sent_count; i++)
		deliver(to, &from->sent[i]);
	from->sent_count = 0;
}

static int send_one(uint64_t k, uint64_t offset, uint64_t len, uint32_t imm)
{
	const struct sp_command c = {.op = SP_SDR_CMD_SEND, .cookie = k, .arg = {BUFFER, offset, len, imm}};

	return fake_command(&nic, &c, NULL);
}

static int stream(uint16_t op, uint64_t k, uint64_t offset, uint64_t len, uint64_t arg3)
{
	const struct sp_command c = {.op = op, .cookie = k, .arg = {BUFFER, offset, len, arg3}};

	return fake_command(&nic, &c, NULL);
}

static void packets_sent_are_as_the_wire_format_says(void)
{
	static const char *const setting[] = {
		MTU_SETTINGS, "credit", "implicit", "max-messages", "4", "generations", "2", "channels", "3", NULL};

	attach(&nic, setting, M_BYTES, 1);
	CU_ASSERT_EQUAL(connect_to(&nic, 22, 11), 0);
	for (uint64_t k = 0; k < 5; k++)
		CU_ASSERT_EQUAL(send_one(k, 0, k < 4 ? 100 : 3 * MTU + 7, 0x87654321), k < 4 ? 0 : -EAGAIN);
	fake_issue(&nic, 32, 10);
	nic.sent_count = 0;
	/* message 4: slot 0, generation 1 */
	CU_ASSERT_EQUAL(send_one(4, 0, 3 * MTU + 7, 0x87654321), 0);
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(nic.sent_count, 4);
	for (uint32_t p = 0; p < 4; p++) {
		const struct fake_sent *s = &nic.sent[p];

		CU_ASSERT_EQUAL(s->send.opcode, 0x2B);
		CU_ASSERT_EQUAL(s->send.ext_len, 20);
		CU_ASSERT_EQUAL(s->send.len, p < 3 ? MTU : 7);
		CU_ASSERT_EQUAL(s->send.flags, p < 3 ? 0 : SP_PKT_SE);
		CU_ASSERT_EQUAL(sp_load_be64(s->bytes), p * MTU);
		CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 8), 0x12345678);
		CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 12), s->send.len);
		CU_ASSERT_EQUAL(sp_load_be32(s->bytes + 16), p << 4 | (p + 1));
		/* the packets before went over channels 0 1 2 0: on with 1 */
		CU_ASSERT_EQUAL(s->send.dest_qp, 0x100 + 3 + (p + 1) % 3);
		CU_ASSERT(s->send.udp_source >= 0xC000);
	}
	/* the fourth is on the QP of the first: next sequence number, same entropy */
	CU_ASSERT_EQUAL(nic.sent[3].send.psn, (nic.sent[0].send.psn + 1) & 0xFFFFFF);
	CU_ASSERT_EQUAL(nic.sent[3].send.udp_source, nic.sent[0].send.udp_source);
	CU_ASSERT_NOT_EQUAL(nic.sent[1].send.udp_source, nic.sent[0].send.udp_source);
	fake_detach(&nic);
}

static void messages_leave_only_when_their_receives_are_posted(void)
{
	pair(4 * M_BYTES);
	CU_ASSERT_EQUAL(send_one(0, 0, 1000, 0x87654321), 0);
	CU_ASSERT_EQUAL(send_one(1, 5000, 0, 0), 0);
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL(nic.sent_count, 0);
	post_to(&peer, 0, 0, M_BYTES);
	fake_run(&peer, peer.c.now);
	CU_ASSERT_EQUAL(peer.sent_count, 1);
	deliver_all(&peer, &nic);
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL(nic.sent_count, 8); /* message 0 and not 1 */
	deliver_all(&nic, &peer);
	CU_ASSERT_EQUAL(memcmp(peer.mem[BUFFER].base, nic.mem[BUFFER].base, 1000), 0);
	CU_ASSERT_EQUAL(line(&peer, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	CU_ASSERT_EQUAL(line(&peer, 0)->length, SP_SDR_LENGTH_FIXED | 1000);
	CU_ASSERT_EQUAL(line(&peer, 0)->immediate, 0xFFFFFFFF87654321);
	post_to(&peer, 1, M_BYTES, M_BYTES);
	fake_run(&peer, peer.c.now);
	deliver_all(&peer, &nic);
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL(nic.sent_count, 1); /* no bytes, one packet */
	deliver_all(&nic, &peer);
	CU_ASSERT_EQUAL(line(&peer, 1)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 0);
	unpair();
}

static void clear_to_send_is_repeated_until_a_packet_comes(void)
{
	pair(M_BYTES);
	post_to(&peer, 0, 0, M_BYTES);
	post_to(&peer, 1, 0, M_BYTES);
	fake_run(&peer, peer.c.now);
	CU_ASSERT_EQUAL(peer.sent_count, 1); /* one for both */
	fake_run(&peer, peer.c.now + 16 * SP_MS);
	CU_ASSERT_EQUAL(peer.sent_count, 5); /* again after 1, 3, 7, 15 ms */
	fake_run(&peer, peer.c.now + 10 * SP_SEC);
	CU_ASSERT(peer.sent_count > 70 && peer.sent_count < 100); /* every 128 ms at the longest */
	deliver(&nic, &peer.sent[3]);				  /* one got through */
	peer.sent_count = 0;
	send_one(0, 0, 10, 0);
	send_one(1, 0, 10, 0);
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(nic.sent_count, 2);
	deliver(&peer, &nic.sent[0]);
	fake_run(&peer, peer.c.now + SP_SEC);
	CU_ASSERT(peer.sent_count > 0); /* a packet of message 0 does not tell that 1 is known */
	deliver(&peer, &nic.sent[1]);
	peer.sent_count = 0;
	fake_run(&peer, peer.c.now + SP_SEC);
	CU_ASSERT_EQUAL(peer.sent_count, 0);
	unpair();
}

static void only_the_right_peer_clears(void)
{
	struct fake_sent s;

	pair(M_BYTES);
	post_to(&peer, 0, 0, M_BYTES);
	fake_run(&peer, peer.c.now);
	s = peer.sent[0];
	const struct sp_sdr_connection *conn = (const void *)(nic.mem[0].base + 64);

	s.bytes[15] ^= 1; /* to another */
	CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(SDR_BAD_NONCE));
	CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, 0);
	s = peer.sent[0];
	s.bytes[23] ^= 1; /* for us, from a peer that has started anew */
	CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(SDR_BAD_NONCE));
	CU_ASSERT_EQUAL(conn->flags & SP_SDR_PEER_RESTARTED, SP_SDR_PEER_RESTARTED);
	s = peer.sent[0];
	s.bytes[0]++;
	CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(SDR_BAD_CONTROL));
	s = peer.sent[0];
	s.bytes[5] = 99; /* a type to come */
	CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(SDR_BAD_CONTROL));
	s = peer.sent[0];
	s.bytes[7] = 33; /* longer than it is */
	CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(SDR_BAD_CONTROL));
	s = peer.sent[0];
	memset(s.bytes + 24, 0xFF, 8); /* clears everything */
	CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(SDR_BAD_CONTROL));
	for (uint32_t len = 0; len < 32; len++) {
		s = peer.sent[0];
		s.send.len = len;
		CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(len < 24 ? SDR_SHORT_HEADER : SDR_BAD_CONTROL));
	}
	s = peer.sent[0];
	s.send.opcode = 0x2B;
	CU_ASSERT_EQUAL(deliver(&nic, &s), SP_DROP(SDR_BAD_OPCODE));
	CU_ASSERT_EQUAL(((struct sdr *)nic.c.state)->may_send, 0);
	CU_ASSERT_EQUAL(deliver(&nic, &peer.sent[0]), SP_DONE);
	CU_ASSERT_EQUAL(deliver(&nic, &peer.sent[0]), SP_DONE); /* as often as it comes */
	CU_ASSERT_EQUAL(((struct sdr *)nic.c.state)->may_send, 1);
	unpair();
}

/* Two generations, four slots: message 8 uses what message 0 has used, and waits until that was quiet for 10 ms. */
static void a_slot_and_generation_rest_before_they_are_used_again(void)
{
	pair(M_BYTES);
	for (uint64_t k = 0; k < 8; k++) {
		CU_ASSERT_EQUAL(post_to(&peer, k, 0, 256), 0);
		CU_ASSERT_EQUAL(complete(&peer, k), 0);
	}
	CU_ASSERT_EQUAL(peer.opened, 8);
	const sp_time closed = peer.c.now;

	fake_run(&peer, closed + 6 * SP_MS);
	CU_ASSERT_EQUAL(post_to(&peer, 8, 0, 256), 0);
	CU_ASSERT_EQUAL(peer.opened, 8);
	struct packet *x = of_message(0, 4, 2, 0); /* message 0 still trickles in */

	x->rkey = 0x12345678;
	CU_ASSERT_EQUAL(fake_receive(&peer, build(x)), SP_DROP(SDR_LATE));
	fake_run(&peer, closed + 15 * SP_MS);
	CU_ASSERT_EQUAL(peer.opened, 8);
	fake_run(&peer, closed + 16 * SP_MS - 1);
	CU_ASSERT_EQUAL(peer.opened, 8);
	fake_run(&peer, closed + 16 * SP_MS + 1);
	CU_ASSERT_EQUAL(peer.opened, 9);
	CU_ASSERT_EQUAL(line(&peer, 0)->message, 9);
	unpair();
}

/* A receive taken back before it was open is passed over in its turn: numbers stay in step. */
static void a_receive_cancelled_before_it_opened_keeps_its_number(void)
{
	pair(M_BYTES);
	for (uint64_t k = 0; k < 8; k++) {
		post_to(&peer, k, 0, 256);
		complete(&peer, k);
	}
	CU_ASSERT_EQUAL(post_to(&peer, 8, 0, 256), 0);
	CU_ASSERT_EQUAL(post_to(&peer, 9, 256, 256), 0);
	CU_ASSERT_EQUAL(complete(&peer, 8), 0);
	CU_ASSERT_EQUAL(complete(&peer, 8), -ENOENT);
	fake_run(&peer, peer.c.now + 20 * SP_MS);
	CU_ASSERT_EQUAL(line(&peer, 0)->released, 9);
	CU_ASSERT_EQUAL(line(&peer, 0)->message, 0);
	CU_ASSERT_EQUAL(line(&peer, 1)->message, 10);
	struct packet *x = of_message(8, 4, 2, 0);

	CU_ASSERT_EQUAL(fake_receive(&peer, build(x)), SP_DROP(SDR_LATE));
	CU_ASSERT_EQUAL(post_to(&peer, 12, 0, 1), -EINVAL); /* 10 is next */
	unpair();
}

static void a_message_without_credit_never_holds_up_an_older_one(void)
{
	pair(M_BYTES);
	post_to(&peer, 0, 0, M_BYTES);
	fake_run(&peer, peer.c.now);
	deliver_all(&peer, &nic);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, 4 * MTU, 7), 0);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 4 * MTU, 0), 0);
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL(nic.sent_count, 4);
	CU_ASSERT_EQUAL(send_one(1, 0, 100, 0), 0); /* waits for credit */
	CU_ASSERT_EQUAL(send_one(2, 0, 100, 0), 0);
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL(nic.sent_count, 4);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 2 * MTU, MTU, 2 * MTU), 0); /* a retransmission */
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(nic.sent_count, 5);
	CU_ASSERT_EQUAL(sp_load_be64(nic.sent[4].bytes), 2 * MTU);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_END, 0, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_END, 0, 0, 0, 0), -ENOENT);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU, 0), -ENOENT);
	unpair();
}

static void older_messages_go_first(void)
{
	attach(&nic, implicit4, M_BYTES, 1);
	connect_to(&nic, 1, 2);
	for (uint64_t k = 0; k < 4; k++)
		stream(SP_SDR_CMD_START, k, 0, 4 * MTU, 0);
	for (unsigned i = 0; i < 6; i++) {
		const uint64_t k = (const uint64_t[]){1, 3, 2, 0, 3, 1}[i];

		CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, k, 0, MTU, i * MTU % (4 * MTU)), 0);
	}
	fake_issue(&nic, 32, 10);
	CU_ASSERT_EQUAL_FATAL(nic.sent_count, 6);
	for (unsigned i = 0; i < 6; i++) {
		const uint64_t k = (const uint64_t[]){0, 1, 1, 2, 3, 3}[i];

		CU_ASSERT_EQUAL(sp_load_be64(nic.sent[i].bytes) / M_BYTES, k);
	}
	fake_detach(&nic);
}

static void pieces_that_do_not_fit_are_refused(void)
{
	pair(M_BYTES);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 1, 0, 1000, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, M_BYTES + 1, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, 1000, 0), 0);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU, 1), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU + 1, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 1001, 0), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, MTU, 8 * MTU), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, UINT64_MAX - 7 * MTU + 1, 7 * MTU), -EINVAL);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, M_BYTES - 10, MTU, 0), -EFAULT);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 1000 - 7 * MTU, 7 * MTU), 0);
	CU_ASSERT_EQUAL(send_one(1, M_BYTES, 1, 0), -EFAULT);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 1);
	CU_ASSERT_EQUAL(fake_command(&nic, &(struct sp_command){.op = SP_CMD_CLOSE}, NULL), 0);
	CU_ASSERT_EQUAL(nic.refs[BUFFER], 0); /* let go */
	CU_ASSERT_EQUAL(send_one(1, 0, 1, 0), -ENOTCONN);
	unpair();
}

static void segments_are_bounded_and_come_back(void)
{
	static const char *const setting[] = {MTU_SETTINGS, "credit",	"implicit", "max-messages",
					      "4",	    "segments", "3",	    NULL};

	attach(&nic, setting, M_BYTES, 1);
	connect_to(&nic, 1, 2);
	CU_ASSERT_EQUAL(stream(SP_SDR_CMD_START, 0, 0, M_BYTES, 0), 0);
	nic.room = 10;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			CU_ASSERT_EQUAL(stream(SP_SDR_CMD_CONTINUE, 0, 0, 8 * MTU, i * 8 * MTU), i < 3 ? 0 : -EAGAIN);
		CU_ASSERT_EQUAL(nic.refs[BUFFER], 3);
		for (int i = 0; i < 40 && nic.refs[BUFFER]; i++) { /* the port takes 10 at a time, issue() 4 */
			fake_issue(&nic, 4, 1);
			nic.room = nic.room ? nic.room : 10;
		}
		CU_ASSERT_EQUAL(nic.refs[BUFFER], 0);
		CU_ASSERT_EQUAL(nic.sent_count, 24u * (unsigned)(round + 1));
	}
	for (unsigned i = 0; i < nic.sent_count; i++) /* each once and in order, however it was cut */
		if (sp_load_be64(nic.sent[i].bytes) != i % 24 * MTU)
			CU_FAIL("order");
	fake_detach(&nic);
}

SUITE("sdr_handler", TEST(each_bad_packet_is_dropped_by_name_and_touches_nothing),
      TEST(rkey_does_not_matter_without_payload), TEST(bytes_land_where_the_offset_says_and_nowhere_else),
      TEST(duplicates_are_counted_and_not_written), TEST(no_bytes_are_one_packet_and_one_chunk),
      TEST(a_packet_of_no_bytes_has_no_place_further_on), TEST(a_short_packet_or_se_fixes_the_length),
      TEST(what_contradicts_the_length_is_beyond_end), TEST(nothing_is_written_beyond_what_was_posted),
      TEST(a_duplicate_may_tell_the_length), TEST(bitmaps_say_exactly_what_arrived),
      TEST(the_packets_of_one_chunk_can_be_asked_for), TEST(the_immediate_is_there_once_all_fragments_are),
      TEST(generations_have_their_own_qps), TEST(what_was_never_posted_is_not_posted_and_what_is_gone_is_late),
      TEST(packets_up_to_slots_times_generations_late_change_nothing),
      TEST(implicit_credit_moves_a_slot_on_with_its_next_generation),
      TEST(a_message_lost_whole_is_skipped_reported_and_given_back),
      TEST(a_message_skipped_has_no_bitmap_of_an_older_one),
      TEST(what_is_not_beyond_the_highest_message_moves_the_slot_on),
      TEST(more_than_the_slots_beyond_the_highest_message_is_late), TEST(between_two_messages_the_psn_decides),
      TEST(the_rest_of_an_old_message_is_late_though_newer_than_all),
      TEST(psns_that_start_anew_with_each_message_or_are_all_alike_drop_nothing),
      TEST(psns_that_once_misled_are_not_asked_again), TEST(only_accepted_packets_count_for_the_choice),
      TEST(receives_taken_back_are_stepped_over_with_the_skipped), TEST(a_message_that_the_host_has_taken_makes_way),
      TEST(with_two_generations_a_complete_message_makes_way_or_a_newer_psn),
      TEST(with_one_generation_a_complete_message_makes_way_at_once),
      TEST(completing_and_posting_again_goes_on_for_ever), TEST(commands_are_not_believed),
      TEST(impossible_parameters_are_refused_by_name), TEST(a_supplied_chunk_counts_and_is_not_overwritten),
      TEST(two_workers_at_once_lose_and_repeat_nothing), TEST(packets_sent_are_as_the_wire_format_says),
      TEST(messages_leave_only_when_their_receives_are_posted), TEST(clear_to_send_is_repeated_until_a_packet_comes),
      TEST(only_the_right_peer_clears), TEST(a_slot_and_generation_rest_before_they_are_used_again),
      TEST(a_receive_cancelled_before_it_opened_keeps_its_number),
      TEST(a_message_without_credit_never_holds_up_an_older_one), TEST(older_messages_go_first),
      TEST(pieces_that_do_not_fit_are_refused), TEST(segments_are_bounded_and_come_back))
