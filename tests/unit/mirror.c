/* SPDX-License-Identifier: BSD-3-Clause */
/* Capturing: what a capturing program finds in its rings, and that it cannot harm the NIC. */
#include "../../pipeline/mirror.h"
#include "drain.h"
#include "rig_send.h"

/* A handler that writes over the frame and sends it back. */
static uint32_t spoil(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m;
	memset(p->frame, 0xEE, p->frame_len);
	sp_packet_send(c, p);
	return SP_SENT;
}
static const struct sp_handler spoiler = {SP_HANDLER_HEAD, .name = "spoiler", .payload = spoil};
SP_HANDLER(spoiler)

RIG_PROBE(slots, "slots", SP_MESSAGES_SLOTS, rig_miss, NULL)

/* ---- the capturing program ---- */

struct reader {
	struct sp_mirror *mirror;
	struct sp_shared *memory;
	const struct sp_capture_memory *head;
	uint64_t at[SP_MAX_WORKERS];
};

static int try_read(struct reader *r, struct sp_capture_request q, struct sp_error *error)
{
	int rc;

	memset(r, 0, sizeof(*r));
	rc = sp_mirror_open(rig.nic, &q, error, &r->mirror, &r->memory);
	if (!rc)
		r->head = r->memory->base;
	return rc;
}

static struct reader reading(struct sp_capture_request q)
{
	struct sp_error error = {0};
	struct reader r;
	int rc = try_read(&r, q, &error);

	if (rc)
		printf("# capture: %d %s: %s\n", rc, error.key, error.text);
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	CU_ASSERT_EQUAL(r.head->magic, SP_CAPTURE_MAGIC);
	CU_ASSERT(r.memory->bytes <= 16 << 20);
	return r;
}

static struct sp_capture_ring *ring_of(const struct reader *r, unsigned worker)
{
	return (void *)((uint8_t *)r->memory->base + r->head->first + worker * r->head->stride);
}

static const struct sp_capture_slot *next_of(struct reader *r, unsigned worker)
{
	struct sp_capture_ring *ring = ring_of(r, worker);
	const uint64_t i = r->at[worker];

	if (ring->tail == i)
		return NULL;
	ring->head = ++r->at[worker];
	return (const void *)((uint8_t *)(ring + 1) + (i & (r->head->slots - 1)) * r->head->slot_bytes);
}

static unsigned left(struct reader *r)
{
	unsigned n = 0;

	for (unsigned w = 0; w < r->head->workers; w++)
		while (next_of(r, w))
			n++;
	return n;
}

static uint64_t lost(const struct reader *r)
{
	uint64_t n = 0;

	for (unsigned w = 0; w < r->head->workers; w++)
		for (unsigned p = 0; p < SP_CAPTURE_PORTS; p++)
			n += ring_of(r, w)->lost[p];
	return n;
}

#define NO SP_CAPTURE_NO_VERDICT
static void expect_of(struct reader *r, unsigned worker, enum sp_capture_fate fate, const char *context,
		      const char *reason, unsigned verdict, int line)
{
	const struct sp_capture_slot *s = next_of(r, worker);

	CU_ASSERT_PTR_NOT_NULL(s);
	if (!s) {
		printf("# line %d: nothing there\n", line);
		return;
	}
	if (s->fate != fate || strcmp(s->context, context) || strcmp(s->reason, reason) || s->verdict != verdict)
		printf("# line %d: fate %u context '%s' reason '%s' verdict %u\n", line, s->fate, s->context, s->reason,
		       s->verdict);
	CU_ASSERT_EQUAL(s->fate, fate);
	CU_ASSERT_STRING_EQUAL(s->context, context);
	CU_ASSERT_STRING_EQUAL(s->reason, reason);
	CU_ASSERT_EQUAL(s->verdict, verdict);
	CU_ASSERT_EQUAL(s->worker, worker);
}
#define expect(r, fate, context, reason, verdict) expect_of(r, 0, SP_CAPTURE_##fate, context, reason, verdict, __LINE__)

static void close_capture(struct reader *r)
{
	sp_mirror_close(rig.nic, r->mirror);
}

#define CAPTURE(...) reading((struct sp_capture_request){__VA_ARGS__})

/* ---- rules ---- */

static const uint8_t arp_request[42] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0,   2, 8, 6,
					0,    1,    8,	  0,	6,    4,    0, 1, 2, 0, 0,   0, 0, 2,
					192,  0,    2,	  1,	0,    0,    0, 0, 0, 0, 192, 0, 2, 2};

static void every_fate_is_told_once_and_in_order_of_arrival(void)
{
	struct reader r;
	struct frame f;

	rig_log_clear();
	rig_prepare(&rig, 1);
	rig_with_exception(&rig);
	rig_create(&rig);
	rig_context(&rig, "a", "plain", "qp=0x10;filter=udp port 7");
	rig_context(&rig, "h", "hashed", "qp=0x20;messages=1");
	rig_context(&rig, "s", "slots", "qp=0x30");
	r = CAPTURE(0);
	say(0x10, (struct rig_words){.key = 1});
	say(0x10, (struct rig_words){.verdict = SP_END});
	say(0x10, (struct rig_words){.verdict = SP_DROP(1)});
	say(0x10, (struct rig_words){.verdict = SP_FORWARD});
	say(0x10, (struct rig_words){.verdict = SP_ERROR});
	say(0x10, (struct rig_words){.verdict = SP_SENT, .action = RIG_SEND});
	say(0x20, (struct rig_words){.key = 5, .header = SP_DROP(0)});
	say(0x20, (struct rig_words){.key = 6});
	say(0x20, (struct rig_words){.key = 7});
	say(0x20, (struct rig_words){.key = SP_REJECT(1)});
	say(0x30, (struct rig_words){.key = 1, .miss = SP_DROP(0)});
	say(0x30, (struct rig_words){.key = 1, .miss = SP_DONE});
	say(0x11, (struct rig_words){0});
	rig_roce(&f, FRAME_IP4, 0x10, 0, NULL, 8);
	f.bytes[f.len - 1] ^= 1;
	rig_feed(&rig, &f);
	say_udp(7);
	say_udp(99);
	rig_feed_bytes(&rig.port, 0, 0, arp_request, sizeof(arp_request));
	rig_feed_bytes(&rig.port, 0, 0, arp_request, 9);
	rig_settle(&rig, 1);
	expect(&r, TAKEN, "a", "", SP_DONE);
	expect(&r, TAKEN, "a", "", SP_END);
	expect(&r, DROPPED, "a", "probe-one", SP_DROP_KIND);
	expect(&r, FORWARDED, "a", "", SP_FORWARD);
	expect(&r, DROPPED, "a", "handler-error", SP_ERROR);
	expect(&r, TAKEN, "a", "", SP_SENT);
	expect(&r, DROPPED, "h", "probe-zero", SP_DROP_KIND);
	expect(&r, TAKEN, "h", "", SP_DONE);
	expect(&r, DROPPED, "h", "message-table-full", NO);
	expect(&r, DROPPED, "h", "probe-one", SP_DROP_KIND);
	expect(&r, DROPPED, "s", "probe-zero", SP_DROP_KIND);
	expect(&r, TAKEN, "s", "", SP_DONE);
	expect(&r, DROPPED, "", "bad-qp", NO);
	expect(&r, DROPPED, "", "bad-icrc", NO);
	expect(&r, TAKEN, "a", "", SP_DONE);
	expect(&r, FORWARDED, "", "", NO);
	expect(&r, ANSWERED, "", "", NO);
	expect(&r, DROPPED, "", "short-ethernet", NO);
	expect(&r, SENT, "", "", NO); /* answers come before handlers */
	expect(&r, SENT, "a", "", NO);
	CU_ASSERT_EQUAL(left(&r), 0); /* what is forwarded is not told again as it leaves */
	CU_ASSERT_EQUAL(rig.exception.sents, 2);
	CU_ASSERT_EQUAL(lost(&r), 0);
	close_capture(&r);
	end();
}

static void without_or_behind_a_full_exception_port_it_is_a_drop(void)
{
	for (unsigned has = 0; has < 2; has++) {
		struct reader r;
		unsigned n = has ? SP_TX_QUEUE : 0;

		rig_log_clear();
		rig_prepare(&rig, 1);
		if (has)
			rig_with_exception(&rig);
		rig_create(&rig);
		rig.exception.closed = true;
		rig_context(&rig, "a", "plain", "qp=0x10");
		r = CAPTURE(.flags = SP_CAPTURE_DROPS);
		for (unsigned i = 0; i < n; i++)
			say_udp(99);
		say_udp(99);
		say(0x10, (struct rig_words){.verdict = SP_FORWARD});
		rig_settle(&rig, 1);
		expect(&r, DROPPED, "", has ? "exception-full" : "no-match", NO);
		expect(&r, DROPPED, "a", has ? "exception-full" : "no-match", SP_FORWARD);
		CU_ASSERT_EQUAL(left(&r), 0);
		close_capture(&r);
		end();
	}
}

static void the_frame_is_as_it_arrived_whatever_a_handler_does_to_it(void)
{
	const struct sp_capture_slot *s;
	struct reader r;
	struct frame f;

	start();
	rig_context(&rig, "a", "spoiler", "qp=0x10");
	r = CAPTURE(0);
	rig_roce(&f, FRAME_IP6, 0x10, 0, NULL, 700);
	rig_feed(&rig, &f);
	rig_settle(&rig, 1);
	s = next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT(!s->outgoing && s->port == 0);
	CU_ASSERT_EQUAL(s->length, f.len);
	CU_ASSERT_EQUAL_FATAL(s->captured, f.len);
	CU_ASSERT(!memcmp(s->frame, f.bytes, f.len));
	s = next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT(s->outgoing && s->port == 0 && s->fate == SP_CAPTURE_SENT);
	CU_ASSERT_EQUAL_FATAL(s->captured, f.len);
	for (unsigned i = 0; i < f.len; i++)
		CU_ASSERT_EQUAL_FATAL(s->frame[i], 0xEE);
	close_capture(&r);
	end();
}

static void a_snap_length_cuts_frames_and_their_length_remains(void)
{
	static const uint32_t snap[] = {1, 24, 25, 60, 9000, 65535};
	const struct sp_capture_slot *s;
	struct frame f;

	for (unsigned i = 0; i < sizeof(snap) / sizeof(*snap); i++) {
		struct reader r;

		start();
		rig_context(&rig, "a", "spoiler", "qp=0x10");
		r = CAPTURE(.snaplen = snap[i]);
		rig_roce(&f, FRAME_IP4, 0x10, 0, NULL, 700);
		rig_feed(&rig, &f);
		rig_settle(&rig, 1);
		for (unsigned way = 0; way < 2; way++) {
			s = next_of(&r, 0);
			CU_ASSERT_PTR_NOT_NULL_FATAL(s);
			CU_ASSERT_EQUAL(s->length, f.len);
			CU_ASSERT_EQUAL(s->captured, snap[i] < f.len ? snap[i] : f.len);
			CU_ASSERT(way || !memcmp(s->frame, f.bytes, s->captured));
		}
		close_capture(&r);
		end();
	}
}

static void segments_are_put_together_and_what_cannot_be_is_told(void)
{
	const struct sp_capture_slot *s;
	struct rte_mbuf *m[2];
	struct reader r;
	struct frame f;

	start();
	rig_context(&rig, "a", "plain", "qp=0x10");
	r = CAPTURE(.filter = "udp port 4791", .snaplen = 9600);
	for (unsigned big = 0; big < 2; big++) {
		rig_roce(&f, FRAME_IP4, 0x10, 0, NULL, 600);
		m[0] = sp_packet_alloc();
		m[1] = sp_packet_alloc();
		memcpy(rte_pktmbuf_append(m[0], 300), f.bytes, 300);
		memcpy(rte_pktmbuf_append(m[1], (uint16_t)(f.len - 300)), f.bytes + 300, f.len - 300);
		if (big)
			memset(rte_pktmbuf_append(m[1], 9200), 0x77, 9200);
		rte_pktmbuf_chain(m[0], m[1]);
		rig_need((void **)&rig.port.rx[0].arrival, &rig.port.rx[0].room, rig.port.rx[0].tail,
			 sizeof(struct rig_arrival));
		rig.port.rx[0].arrival[rig.port.rx[0].tail++] = (struct rig_arrival){m[0], 0};
	}
	rig_settle(&rig, 1);
	for (unsigned big = 0; big < 2; big++) {
		s = next_of(&r, 0);
		CU_ASSERT_PTR_NOT_NULL_FATAL(s);
		CU_ASSERT_STRING_EQUAL(s->reason, big ? "not-linear" : "");
		CU_ASSERT_EQUAL(s->length, f.len + (big ? 9200 : 0));
		CU_ASSERT_EQUAL_FATAL(s->captured, s->length < 9600 ? s->length : 9600);
		CU_ASSERT(!memcmp(s->frame, f.bytes, f.len));
		for (unsigned i = f.len; i < s->captured; i++)
			CU_ASSERT_EQUAL_FATAL(s->frame[i], 0x77);
	}
	close_capture(&r);
	end();
}

static void time_stamps_keep_the_distances_of_arrivals(void)
{
	const struct sp_capture_slot *s;
	struct reader r;
	uint64_t first;

	start();
	rig_context(&rig, "a", "plain", "filter=udp port 7");
	rig_settle(&rig, 5 * SP_MS);
	r = CAPTURE(0);
	say_udp(7);
	rig_settle(&rig, 5 * SP_MS + 7000);
	say_udp(7);
	rig_settle(&rig, 9 * SP_MS + 3 * SP_NS);
	s = next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	first = s->time;
	CU_ASSERT(first > 1600000000ull * 1000000000); /* wall clock */
	s = next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT_EQUAL(s->time - first, 4000000 + 3 - 7);
	close_capture(&r);
	end();
}

static void a_filter_chooses_before_anything_is_copied(void)
{
	struct reader r;

	start();
	rig_context(&rig, "a", "plain", "filter=udp");
	r = CAPTURE(.filter = "udp port 8 or arp");
	say_udp(7);
	say_udp(8);
	rig_feed_bytes(&rig.port, 0, 0, arp_request, sizeof(arp_request));
	say_udp(7);
	rig_settle(&rig, 1);
	expect(&r, TAKEN, "a", "", SP_DONE);
	expect(&r, ANSWERED, "", "", NO);
	expect(&r, SENT, "", "", NO);
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	end();
}

static void a_context_chooses_what_is_its_own(void)
{
	struct reader r;

	start();
	rig_context(&rig, "a", "plain", "qp=0x10");
	rig_context(&rig, "ab", "plain", "qp=0x11");
	r = CAPTURE(.context = "a");
	say(0x11, (struct rig_words){.action = RIG_SEND, .verdict = SP_SENT});
	say(0x10, (struct rig_words){.action = RIG_SEND, .verdict = SP_SENT});
	say(0x10, (struct rig_words){.verdict = SP_DROP(0)});
	say(0x12, (struct rig_words){0});
	rig_feed_bytes(&rig.port, 0, 0, arp_request, sizeof(arp_request));
	rig_settle(&rig, 1);
	expect(&r, TAKEN, "a", "", SP_SENT);
	expect(&r, DROPPED, "a", "probe-zero", SP_DROP_KIND);
	expect(&r, SENT, "a", "", NO);
	CU_ASSERT_EQUAL(left(&r), 0);
	CU_ASSERT_EQUAL(rig.port.sents, 3);
	close_capture(&r);
	end();
}

static void drops_only_are_those_of_contexts_and_of_nobody(void)
{
	struct reader all, one;

	start();
	rig_context(&rig, "a", "plain", "qp=0x10");
	all = CAPTURE(.flags = SP_CAPTURE_DROPS);
	one = CAPTURE(.flags = SP_CAPTURE_DROPS, .context = "a");
	say(0x10, (struct rig_words){.action = RIG_SEND, .verdict = SP_SENT});
	say(0x10, (struct rig_words){.verdict = SP_DROP(0)});
	say(0x12, (struct rig_words){0});
	rig_settle(&rig, 1);
	expect(&all, DROPPED, "a", "probe-zero", SP_DROP_KIND);
	expect(&all, DROPPED, "", "bad-qp", NO);
	CU_ASSERT_EQUAL(left(&all), 0);
	expect(&one, DROPPED, "a", "probe-zero", SP_DROP_KIND);
	CU_ASSERT_EQUAL(left(&one), 0);
	close_capture(&all);
	close_capture(&one);
	end();
}

static void bad_requests_are_refused_in_words(void)
{
	struct sp_capture_request q = {0};
	struct sp_error error = {0};
	struct reader r;

	start();
	rig_context(&rig, "a", "plain", "qp=0x10");
	strcpy(q.filter, "port port");
	CU_ASSERT_EQUAL(try_read(&r, q, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "filter");
	CU_ASSERT(strstr(error.text, "syntax error") != NULL);
	memset(q.filter, 'x', sizeof(q.filter)); /* no end */
	CU_ASSERT_EQUAL(try_read(&r, q, &error), -EINVAL);
	memset(&q, 0, sizeof(q));
	strcpy(q.context, "b");
	CU_ASSERT_EQUAL(try_read(&r, q, &error), -ENOENT);
	CU_ASSERT(strstr(error.text, "b") != NULL);
	memset(q.context, 'a', sizeof(q.context));
	CU_ASSERT_EQUAL(try_read(&r, q, &error), -EINVAL);
	memset(&q, 0, sizeof(q));
	q.flags = 2;
	CU_ASSERT_EQUAL(try_read(&r, q, &error), -EINVAL);
	CU_ASSERT_PTR_NULL(rig.nic->worker[0]->mirrors);
	end();
}

static void off_nothing_is_there_to_copy_into(void)
{
	struct reader r, s;

	rig_log_clear();
	rig_start(&rig, 2);
	CU_ASSERT_PTR_NULL(rig.nic->worker[0]->mirrors);
	r = CAPTURE(0);
	s = CAPTURE(0);
	close_capture(&r);
	CU_ASSERT_PTR_NOT_NULL(rig.nic->worker[0]->mirrors);
	CU_ASSERT_PTR_NOT_NULL(rig.nic->worker[1]->mirrors);
	close_capture(&s);
	CU_ASSERT_PTR_NULL(rig.nic->worker[0]->mirrors);
	CU_ASSERT_PTR_NULL(rig.nic->worker[1]->mirrors);
	end();
}

static void four_captures_see_each_its_own_and_a_fifth_is_refused(void)
{
	struct sp_error error = {0};
	struct reader r[SP_MAX_MIRRORS], more;

	start();
	rig_context(&rig, "a", "plain", "filter=udp");
	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++) {
		struct sp_capture_request q = {0};

		snprintf(q.filter, sizeof(q.filter), "udp port %u", 10 + i);
		r[i] = reading(q);
	}
	CU_ASSERT_EQUAL(try_read(&more, (struct sp_capture_request){0}, &error), -EBUSY);
	CU_ASSERT(error.text[0] != 0);
	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++)
		for (unsigned k = 0; k <= i; k++)
			say_udp((uint16_t)(10 + i));
	rig_settle(&rig, 1);
	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++)
		CU_ASSERT_EQUAL(left(&r[i]), i + 1);
	close_capture(&r[1]);
	say_udp(11);
	say_udp(12);
	rig_settle(&rig, 2);
	CU_ASSERT_EQUAL(left(&r[2]), 1);
	r[1] = CAPTURE(.filter = "udp port 11");
	CU_ASSERT_EQUAL(left(&r[1]), 0);
	say_udp(11);
	rig_settle(&rig, 3);
	CU_ASSERT_EQUAL(left(&r[1]), 1);
	for (unsigned i = 0; i < SP_MAX_MIRRORS; i++)
		close_capture(&r[i]);
	end();
}

static void a_full_ring_loses_and_counts_and_the_nic_goes_on(void)
{
	const unsigned more = 100;
	struct reader r;
	unsigned slots;
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "spoiler", "filter=udp");
	r = CAPTURE(.snaplen = 9600);
	slots = r.head->slots; /* each packet is two: received and sent */
	for (unsigned i = 0; i < slots / 2 + more; i++) {
		say_udp(7);
		rig_settle(&rig, i);
	}
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), slots / 2 + more);
	CU_ASSERT_EQUAL(rig.port.sents, slots / 2 + more);
	CU_ASSERT_EQUAL(ring_of(&r, 0)->lost[0], 2 * more);
	CU_ASSERT_EQUAL(lost(&r), 2 * more);
	CU_ASSERT_EQUAL(left(&r), slots);
	say_udp(7);
	rig_settle(&rig, slots);
	expect(&r, TAKEN, "a", "", SP_SENT);
	expect(&r, SENT, "a", "", NO);
	CU_ASSERT_EQUAL(lost(&r), 2 * more);
	close_capture(&r);
	end();
}

static void a_head_that_makes_no_sense_loses_and_a_tail_is_never_read_back(void)
{
	struct reader r;

	start();
	rig_context(&rig, "a", "plain", "filter=udp");
	r = CAPTURE(0);
	ring_of(&r, 0)->head = 1; /* nothing is there to be read */
	say_udp(7);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(lost(&r), 1);
	CU_ASSERT_EQUAL(ring_of(&r, 0)->tail, 0);
	ring_of(&r, 0)->head = 0;
	ring_of(&r, 0)->tail = 12345;
	ring_of(&r, 0)->lost[0] = 99;
	say_udp(7);
	rig_settle(&rig, 2);
	CU_ASSERT_EQUAL(ring_of(&r, 0)->tail, 1);
	expect(&r, TAKEN, "a", "", SP_DONE);
	ring_of(&r, 0)->head = 7;
	say_udp(7);
	rig_settle(&rig, 3);
	CU_ASSERT_EQUAL(ring_of(&r, 0)->lost[0], 2);
	close_capture(&r);
	end();
}

static void whatever_is_written_into_the_memory_the_nic_goes_on(void)
{
	static const uint64_t lies[] = {1, 2, UINT64_MAX, 1ull << 63, UINT32_MAX, 65536, 70000};
	uint64_t seed = 7, fed = 0;
	struct reader r;
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "spoiler", "filter=udp");
	r = CAPTURE(0);
	for (unsigned i = 0; i < 200; i++) {
		uint64_t *words = r.memory->base;
		struct sp_capture_ring *ring = (void *)((uint8_t *)r.memory->base + RTE_ALIGN(sizeof(*r.head), 64));

		switch (i % 3) {
		case 0:
			ring->head = lies[i / 3 % (sizeof(lies) / sizeof(*lies))];
			break;
		case 1:
			for (size_t k = 0; k < r.memory->bytes / 8; k += 1 + rig_random(&seed) % 64)
				words[k] = rig_random(&seed);
			break;
		case 2: /* a head that says: all read, and far ahead */
			ring->head = ring->tail + rig_random(&seed) % 100000;
			break;
		}
		for (unsigned k = 0; k < 40; k++, fed++)
			say_udp(7);
		rig_settle(&rig, i);
	}
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), fed);
	CU_ASSERT_EQUAL(rig.port.sents, fed);
	close_capture(&r);
	end();
}

/* ---- packets that wait ---- */

static void poll_the_other(void)
{
	unsigned rounds = 0;

	while (sp_nic_poll(rig.nic, 1, 5) && ++rounds < 20)
		;
}

static void with_two_workers(void)
{
	rig_log_clear();
	rig_start(&rig, 2);
	rig_context(&rig, "c", "hashed", "qp=64;filter=udp port 7");
}

/* `packets` of them wait at worker 1 while worker 0 is in header. */
static void let_wait(unsigned packets, bool udp)
{
	struct rig_words w = {.magic = RIG_MAGIC, .key = 7};
	struct frame f;

	rig_log.in_header = poll_the_other;
	rig_say(&rig, 64, &w);
	for (w.serial = 1; w.serial <= packets; w.serial++) {
		if (udp)
			rig_udp(&f, 7, &w, sizeof(w));
		else
			rig_roce(&f, FRAME_IP4, 64, 0, &w, sizeof(w));
		rig_feed_bytes(&rig.port, 1, 0, f.bytes, f.len);
	}
	sp_nic_poll(rig.nic, 0, 5);
}

static void packets_that_wait_are_told_when_they_are_settled(void)
{
	const struct sp_capture_slot *s;
	struct reader r;

	with_two_workers();
	r = CAPTURE(0);
	let_wait(SP_PARKED + 10, false);
	expect(&r, TAKEN, "c", "", SP_DONE); /* worker 0's */
	for (unsigned i = 0; i < 10; i++)
		expect_of(&r, 1, SP_CAPTURE_DROPPED, "c", "header-busy", NO, __LINE__);
	CU_ASSERT_EQUAL(left(&r), 0);
	rig_settle(&rig, 6);
	for (uint32_t serial = 1; serial <= SP_PARKED; serial++) {
		uint32_t there;

		s = next_of(&r, 1);
		CU_ASSERT_PTR_NOT_NULL_FATAL(s);
		CU_ASSERT_EQUAL(s->fate, SP_CAPTURE_TAKEN);
		CU_ASSERT_STRING_EQUAL(s->context, "c");
		memcpy(&there, s->frame + 14 + 20 + 8 + 12 + offsetof(struct rig_words, serial), 4);
		CU_ASSERT_EQUAL(there, serial);
	}
	CU_ASSERT_EQUAL(left(&r), 0);
	CU_ASSERT_EQUAL(lost(&r), 0);
	close_capture(&r);
	end();
}

static const struct sp_handler at_home = {SP_HANDLER_HEAD, .name = "at-home", .drops = rig_drops,
					  .flags = SP_HANDLER_HOME, .payload = rig_payload};
SP_HANDLER(at_home)

static void a_packet_handed_over_is_told_once_by_the_worker_that_handles_it(void)
{
	struct rig_words w = {.magic = RIG_MAGIC, .verdict = SP_DROP(1)};
	struct reader r;
	struct frame f;

	with_two_workers();
	rig_context(&rig, "home", "at-home", "qp=66"); /* worker 1 is its home */
	r = CAPTURE(0);
	for (unsigned i = 0; i < SP_HANDOVER + 5; i++) {
		w.verdict = i & 1 ? SP_DROP(1) : SP_DONE;
		rig_roce(&f, FRAME_IP4, 66, 0, &w, sizeof(w));
		rig_feed_bytes(&rig.port, 0, 0, f.bytes, f.len);
	}
	while (sp_nic_poll(rig.nic, 0, 5))
		;
	for (unsigned i = 0; i < 5; i++)
		expect(&r, DROPPED, "", "handover-full", NO);
	CU_ASSERT_EQUAL(left(&r), 0);
	rig_settle(&rig, 6);
	for (unsigned i = 0; i < SP_HANDOVER; i++)
		expect_of(&r, 1, i & 1 ? SP_CAPTURE_DROPPED : SP_CAPTURE_TAKEN, "home", i & 1 ? "probe-one" : "",
			  i & 1 ? SP_DROP_KIND : SP_DONE, __LINE__);
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	end();
}

static void packets_that_wait_for_a_context_that_goes_are_told_as_context_closed(void)
{
	struct reader r;
	uint32_t id;

	with_two_workers();
	r = CAPTURE(.flags = SP_CAPTURE_DROPS);
	let_wait(5, false);
	CU_ASSERT_EQUAL(left(&r), 0);
	CU_ASSERT_EQUAL(sp_nic_context_find(rig.nic, "c", &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(rig.nic, id), 0);
	for (unsigned i = 0; i < 5; i++)
		expect_of(&r, 1, SP_CAPTURE_DROPPED, "c", "context-closed", NO, __LINE__);
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	end();
}

static void captures_come_and_go_while_packets_wait(void)
{
	struct reader r;

	with_two_workers();
	let_wait(5, true); /* before */
	r = CAPTURE(0);
	rig_settle(&rig, 6);
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	end();

	with_two_workers();
	r = CAPTURE(0);
	let_wait(5, true);
	close_capture(&r); /* during */
	rig_settle(&rig, 6);
	end();

	for (unsigned other = 0; other < 2; other++) { /* the same place, another filter */
		struct reader held = {0};

		with_two_workers();
		r = CAPTURE(0);
		if (other)
			held = CAPTURE(0);
		let_wait(5, true);
		close_capture(&r);
		r = CAPTURE(.filter = "udp port 4791");
		rig_settle(&rig, 6);
		CU_ASSERT_EQUAL(left(&r), 0);
		close_capture(&r);
		if (other) {
			CU_ASSERT_EQUAL(left(&held), 6);
			close_capture(&held);
		}
		end();
	}
}

/* ---- what is sent ---- */

static uint32_t sends(bool known)
{
	static const struct sp_neighbour_config peer = {RIG_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}};

	rig_log_clear();
	rig_prepare(&rig, 1);
	rig.config.neighbour[0] = peer;
	rig.config.neighbours = known;
	rig_create(&rig);
	return rig_context(&rig, "s", "sender", "qp=5;peer=4");
}

static void what_a_context_sends_names_it(void)
{
	static uint8_t frame[60] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5};
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B};
	const struct sp_capture_slot *slot;
	uint32_t id = sends(true);
	struct reader r = CAPTURE(0);

	tell.send = &s;
	tell.frame = frame;
	tell.frame_len = sizeof(frame);
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(call(id, CMD_FRAME, 0, 0), 0);
	rig_feed_bytes(&rig.port, 0, 0, arp_request, sizeof(arp_request));
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 3);
	for (unsigned i = 0, seen = 0; seen < 3; i++) {
		slot = next_of(&r, 0);
		CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
		if (!slot->outgoing)
			continue;
		CU_ASSERT_EQUAL(slot->fate, SP_CAPTURE_SENT);
		CU_ASSERT_EQUAL(slot->length, rig.port.sent[seen].len);
		CU_ASSERT(!memcmp(slot->frame, rig.port.sent[seen].bytes, slot->length));
		CU_ASSERT_STRING_EQUAL(slot->context, seen < 2 ? "s" : "");
		seen++;
	}
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	end();
}

static void a_frame_is_sent_when_the_port_has_taken_it_and_then_once(void)
{
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B};
	uint32_t id = sends(true);
	struct reader r = CAPTURE(0), d = CAPTURE(.flags = SP_CAPTURE_DROPS);

	tell.send = &s;
	rig.port.closed = true;
	for (unsigned i = 0; i < SP_TX_QUEUE; i++)
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EAGAIN); /* seen beforehand: nothing is dropped */
	for (unsigned i = 0; i < 10; i++)
		rig_poll(&rig, 1 + i);
	CU_ASSERT_EQUAL(left(&r), 0);
	rig_feed_bytes(&rig.port, 0, 0, arp_request, sizeof(arp_request));
	rig_poll(&rig, 20); /* the answer finds no place */
	expect(&r, DROPPED, "", "tx-full", NO);
	expect(&r, ANSWERED, "", "", NO);
	CU_ASSERT_EQUAL(left(&r), 0);
	expect(&d, DROPPED, "", "tx-full", NO);
	CU_ASSERT_EQUAL(left(&d), 0);
	rig.port.closed = false;
	rig.port.gap = 10;
	for (unsigned i = 0; i < SP_TX_QUEUE; i++) { /* one at a time */
		rig_poll(&rig, 100 + 10 * i);
		CU_ASSERT_EQUAL_FATAL(rig.port.sents, i + 1);
		expect(&r, SENT, "s", "", NO);
		CU_ASSERT_EQUAL_FATAL(left(&r), 0);
	}
	rig_feed_bytes(&rig.port, 0, 0, arp_request,
		       sizeof(arp_request)); /* its answer is not s's, though it has its place */
	rig_settle(&rig, 100000);
	expect(&r, ANSWERED, "", "", NO);
	rig_settle(&rig, 200000);
	expect(&r, SENT, "", "", NO);
	close_capture(&r);
	close_capture(&d);
	end();
}

static void a_frame_that_waits_for_a_neighbour_keeps_its_context(void)
{
	static const uint8_t answer[42] = {2, 0, 0, 0, 0, 1, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
					   2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 2};
	struct sp_send s = {.dest_qp = 16};
	uint32_t id = sends(false);
	struct reader r = CAPTURE(.filter = "udp");

	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	rig_settle(&rig, 10);
	CU_ASSERT_EQUAL(left(&r), 0);
	rig_feed_bytes(&rig.port, 0, 300 * SP_MS, answer, sizeof(answer));
	rig_run(&rig, 10, 301 * SP_MS);
	expect(&r, SENT, "s", "", NO);
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	end();

	id = sends(false);
	r = CAPTURE(.flags = SP_CAPTURE_DROPS);
	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	rig_run(&rig, 10, 10 * SP_SEC);
	expect(&r, DROPPED, "s", "tx-no-neighbour", NO);
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	end();
}

static void what_the_nic_sends_to_itself_is_told_once_as_it_arrives(void)
{
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B};
	const struct sp_capture_slot *slot;
	uint64_t own[2];
	struct reader r;
	uint32_t id;

	start();
	rig_context(&rig, "a", "plain", "qp=16");
	id = rig_context(&rig, "s", "sender", "qp=5");
	memcpy(own, rig_own4, 16);
	CU_ASSERT_EQUAL_FATAL(call(id, CMD_PATH, own[0], own[1]), 0);
	r = CAPTURE(0);
	CU_ASSERT_STRING_EQUAL(r.head->port[SP_CAPTURE_LOOP], "loop");
	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	rig_settle(&rig, 1);
	slot = next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
	CU_ASSERT(slot->port == SP_CAPTURE_LOOP && !slot->outgoing && slot->fate == SP_CAPTURE_TAKEN);
	CU_ASSERT_STRING_EQUAL(slot->context, "a");
	CU_ASSERT_EQUAL(left(&r), 0);
	close_capture(&r);
	rig_stop(&rig);
	rig_log_clear();
}

static void without_packet_buffers_capturing_goes_on(void)
{
	struct reader r;
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "plain", "filter=udp");
	r = CAPTURE(0);
	for (unsigned i = 0; i < 100; i++)
		say_udp(7);
	drain();
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 100);
	CU_ASSERT_EQUAL(left(&r), 100);
	refill();
	close_capture(&r);
	end();
}

SUITE("mirror", TEST(every_fate_is_told_once_and_in_order_of_arrival),
      TEST(without_or_behind_a_full_exception_port_it_is_a_drop),
      TEST(the_frame_is_as_it_arrived_whatever_a_handler_does_to_it),
      TEST(a_snap_length_cuts_frames_and_their_length_remains),
      TEST(segments_are_put_together_and_what_cannot_be_is_told), TEST(time_stamps_keep_the_distances_of_arrivals),
      TEST(a_filter_chooses_before_anything_is_copied), TEST(a_context_chooses_what_is_its_own),
      TEST(drops_only_are_those_of_contexts_and_of_nobody), TEST(bad_requests_are_refused_in_words),
      TEST(off_nothing_is_there_to_copy_into), TEST(four_captures_see_each_its_own_and_a_fifth_is_refused),
      TEST(a_full_ring_loses_and_counts_and_the_nic_goes_on),
      TEST(a_head_that_makes_no_sense_loses_and_a_tail_is_never_read_back),
      TEST(whatever_is_written_into_the_memory_the_nic_goes_on), TEST(packets_that_wait_are_told_when_they_are_settled),
      TEST(a_packet_handed_over_is_told_once_by_the_worker_that_handles_it),
      TEST(packets_that_wait_for_a_context_that_goes_are_told_as_context_closed),
      TEST(captures_come_and_go_while_packets_wait), TEST(what_a_context_sends_names_it),
      TEST(a_frame_is_sent_when_the_port_has_taken_it_and_then_once),
      TEST(a_frame_that_waits_for_a_neighbour_keeps_its_context),
      TEST(what_the_nic_sends_to_itself_is_told_once_as_it_arrives), TEST(without_packet_buffers_capturing_goes_on))
