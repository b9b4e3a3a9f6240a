/* SPDX-License-Identifier: BSD-3-Clause */
/* Capturing: each packet that arrives is told once, with what became of it, as it was when it came; and only those that
 * a capture asks for. */
#include "../lib/capture_client.h"

PROBE(slots, "slots", SP_MESSAGES_SLOTS, probe_miss, NULL)

TEST(every_fate_is_told_once_and_in_order_of_arrival)
{
	struct frame f;

	probe_log_clear();
	dut_prepare(&dut, 1);
	dut_with_exception(&dut);
	dut_create(&dut);
	dut_context(&dut, "a", "plain", "qp=0x10;filter=udp port 7");
	dut_context(&dut, "h", "hashed", "qp=0x20;messages=1");
	dut_context(&dut, "s", "slots", "qp=0x30");
	struct reader r = CAPTURE(0);
	probe_say(0x10, (struct probe_words){.key = 1});
	probe_say(0x10, (struct probe_words){.verdict = SP_END});
	probe_say(0x10, (struct probe_words){.verdict = SP_DROP(1)});
	probe_say(0x10, (struct probe_words){.verdict = SP_FORWARD});
	probe_say(0x10, (struct probe_words){.verdict = SP_ERROR});
	probe_say(0x10, (struct probe_words){.verdict = SP_SENT, .action = PROBE_SEND});
	probe_say(0x20, (struct probe_words){.key = 5, .header = SP_DROP(0)});
	probe_say(0x20, (struct probe_words){.key = 6});
	probe_say(0x20, (struct probe_words){.key = 7});
	probe_say(0x20, (struct probe_words){.key = SP_REJECT(1)});
	probe_say(0x30, (struct probe_words){.key = 1, .miss = SP_DROP(0)});
	probe_say(0x30, (struct probe_words){.key = 1, .miss = SP_DONE});
	probe_say(0x11, (struct probe_words){0});
	dut_roce(&f, FRAME_IP4, 0x10, 0, NULL, 8);
	f.bytes[f.len - 1] ^= 1;
	dut_feed(&dut, &f);
	probe_say_udp(7);
	probe_say_udp(99);
	dut_feed_bytes(&dut.port, 0, 0, arp_request, sizeof(arp_request));
	dut_feed_bytes(&dut.port, 0, 0, arp_request, 9);
	dut_settle(&dut, 1);
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
	CU_ASSERT_EQUAL(cap_left(&r), 0); /* what is forwarded is not told again as it leaves */
	CU_ASSERT_EQUAL(dut.exception.sents, 2);
	CU_ASSERT_EQUAL(cap_lost(&r), 0);
	cap_close(&r);
	probe_stop();
}

TEST(without_or_behind_a_full_exception_port_it_is_a_drop)
{
	for (unsigned has = 0; has < 2; has++) {
		struct reader r;
		unsigned n = has ? SP_TX_QUEUE : 0;

#define RULE(rule) TEST_BETWEEN(probe_start, probe_stop, rule)

		probe_log_clear();
		dut_prepare(&dut, 1);
		if (has)
			dut_with_exception(&dut);
		dut_create(&dut);
		dut.exception.closed = true;
		dut_context(&dut, "a", "plain", "qp=0x10");
		r = CAPTURE(.flags = SP_CAPTURE_DROPS);
		for (unsigned i = 0; i < n; i++)
			probe_say_udp(99);
		probe_say_udp(99);
		probe_say(0x10, (struct probe_words){.verdict = SP_FORWARD});
		dut_settle(&dut, 1);
		expect(&r, DROPPED, "", has ? "exception-full" : "no-match", NO);
		expect(&r, DROPPED, "a", has ? "exception-full" : "no-match", SP_FORWARD);
		CU_ASSERT_EQUAL(cap_left(&r), 0);
		cap_close(&r);
		probe_stop();
	}
}

RULE(the_frame_is_as_it_arrived_whatever_a_handler_does_to_it)
{
	struct frame f;

	dut_context(&dut, "a", "spoiler", "qp=0x10");
	struct reader r = CAPTURE(0);
	dut_roce(&f, FRAME_IP6, 0x10, 0, NULL, 700);
	dut_feed(&dut, &f);
	dut_settle(&dut, 1);
	const struct sp_capture_slot *s = cap_next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT(!s->outgoing && s->port == 0);
	CU_ASSERT_EQUAL(s->length, f.len);
	CU_ASSERT_EQUAL_FATAL(s->captured, f.len);
	CU_ASSERT(!memcmp(s->frame, f.bytes, f.len));
	s = cap_next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT(s->outgoing && s->port == 0 && s->fate == SP_CAPTURE_SENT);
	CU_ASSERT_EQUAL_FATAL(s->captured, f.len);
	for (unsigned i = 0; i < f.len; i++)
		CU_ASSERT_EQUAL_FATAL(s->frame[i], 0xEE);
	cap_close(&r);
}

TEST(a_snap_length_cuts_frames_and_their_length_remains)
{
	static const uint32_t snap[] = {1, 24, 25, 60, 9000, 65535};
	const struct sp_capture_slot *s;
	struct frame f;

	for (unsigned i = 0; i < sizeof(snap) / sizeof(*snap); i++) {
		struct reader r;

		probe_start();
		dut_context(&dut, "a", "spoiler", "qp=0x10");
		r = CAPTURE(.snaplen = snap[i]);
		dut_roce(&f, FRAME_IP4, 0x10, 0, NULL, 700);
		dut_feed(&dut, &f);
		dut_settle(&dut, 1);
		for (unsigned way = 0; way < 2; way++) {
			s = cap_next_of(&r, 0);
			CU_ASSERT_PTR_NOT_NULL_FATAL(s);
			CU_ASSERT_EQUAL(s->length, f.len);
			CU_ASSERT_EQUAL(s->captured, snap[i] < f.len ? snap[i] : f.len);
			CU_ASSERT(way || !memcmp(s->frame, f.bytes, s->captured));
		}
		cap_close(&r);
		probe_stop();
	}
}

RULE(segments_are_joined_and_errors_are_reported)
{
	const struct sp_capture_slot *s;
	struct rte_mbuf *m[2];
	struct reader r;
	struct frame f;

	dut_context(&dut, "a", "plain", "qp=0x10");
	r = CAPTURE(.filter = "udp port 4791", .snaplen = 9600);
	for (unsigned big = 0; big < 2; big++) {
		dut_roce(&f, FRAME_IP4, 0x10, 0, NULL, 600);
		m[0] = sp_packet_alloc();
		m[1] = sp_packet_alloc();
		memcpy(rte_pktmbuf_append(m[0], 300), f.bytes, 300);
		memcpy(rte_pktmbuf_append(m[1], (uint16_t)(f.len - 300)), f.bytes + 300, f.len - 300);
		if (big)
			memset(rte_pktmbuf_append(m[1], 9200), 0x77, 9200);
		rte_pktmbuf_chain(m[0], m[1]);
		dut_need((void **)&dut.port.rx[0].arrival, &dut.port.rx[0].room, dut.port.rx[0].tail,
			 sizeof(struct dut_arrival));
		dut.port.rx[0].arrival[dut.port.rx[0].tail++] = (struct dut_arrival){m[0], 0};
	}
	dut_settle(&dut, 1);
	for (unsigned big = 0; big < 2; big++) {
		s = cap_next_of(&r, 0);
		CU_ASSERT_PTR_NOT_NULL_FATAL(s);
		CU_ASSERT_STRING_EQUAL(s->reason, big ? "not-linear" : "");
		CU_ASSERT_EQUAL(s->length, f.len + (big ? 9200 : 0));
		CU_ASSERT_EQUAL_FATAL(s->captured, s->length < 9600 ? s->length : 9600);
		CU_ASSERT(!memcmp(s->frame, f.bytes, f.len));
		for (unsigned i = f.len; i < s->captured; i++)
			CU_ASSERT_EQUAL_FATAL(s->frame[i], 0x77);
	}
	cap_close(&r);
}

RULE(time_stamps_keep_the_distances_of_arrivals)
{
	dut_context(&dut, "a", "plain", "filter=udp port 7");
	dut_settle(&dut, 5 * SP_MS);
	struct reader r = CAPTURE(0);
	probe_say_udp(7);
	dut_settle(&dut, 5 * SP_MS + 7000);
	probe_say_udp(7);
	dut_settle(&dut, 9 * SP_MS + 3 * SP_NS);
	const struct sp_capture_slot *s = cap_next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	uint64_t first = s->time;
	CU_ASSERT(first > 1600000000ull * 1000000000); /* wall clock */
	s = cap_next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT_EQUAL(s->time - first, 4000000 + 3 - 7);
	cap_close(&r);
}

RULE(a_filter_chooses_before_anything_is_copied)
{
	struct reader r;

	dut_context(&dut, "a", "plain", "filter=udp");
	r = CAPTURE(.filter = "udp port 8 or arp");
	probe_say_udp(7);
	probe_say_udp(8);
	dut_feed_bytes(&dut.port, 0, 0, arp_request, sizeof(arp_request));
	probe_say_udp(7);
	dut_settle(&dut, 1);
	expect(&r, TAKEN, "a", "", SP_DONE);
	expect(&r, ANSWERED, "", "", NO);
	expect(&r, SENT, "", "", NO);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
}

RULE(a_context_chooses_what_is_its_own)
{
	struct reader r;

	dut_context(&dut, "a", "plain", "qp=0x10");
	dut_context(&dut, "ab", "plain", "qp=0x11");
	r = CAPTURE(.context = "a");
	probe_say(0x11, (struct probe_words){.action = PROBE_SEND, .verdict = SP_SENT});
	probe_say(0x10, (struct probe_words){.action = PROBE_SEND, .verdict = SP_SENT});
	probe_say(0x10, (struct probe_words){.verdict = SP_DROP(0)});
	probe_say(0x12, (struct probe_words){0});
	dut_feed_bytes(&dut.port, 0, 0, arp_request, sizeof(arp_request));
	dut_settle(&dut, 1);
	expect(&r, TAKEN, "a", "", SP_SENT);
	expect(&r, DROPPED, "a", "probe-zero", SP_DROP_KIND);
	expect(&r, SENT, "a", "", NO);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	CU_ASSERT_EQUAL(dut.port.sents, 3);
	cap_close(&r);
}

RULE(drops_only_are_those_of_contexts_and_of_nobody)
{
	struct reader all, one;

	dut_context(&dut, "a", "plain", "qp=0x10");
	all = CAPTURE(.flags = SP_CAPTURE_DROPS);
	one = CAPTURE(.flags = SP_CAPTURE_DROPS, .context = "a");
	probe_say(0x10, (struct probe_words){.action = PROBE_SEND, .verdict = SP_SENT});
	probe_say(0x10, (struct probe_words){.verdict = SP_DROP(0)});
	probe_say(0x12, (struct probe_words){0});
	dut_settle(&dut, 1);
	expect(&all, DROPPED, "a", "probe-zero", SP_DROP_KIND);
	expect(&all, DROPPED, "", "bad-qp", NO);
	CU_ASSERT_EQUAL(cap_left(&all), 0);
	expect(&one, DROPPED, "a", "probe-zero", SP_DROP_KIND);
	CU_ASSERT_EQUAL(cap_left(&one), 0);
	cap_close(&all);
	cap_close(&one);
}

/* A packet that is answered: once taken, once sent. */
static void stamps(struct reader *r, const struct sp_capture_slot **taken, const struct sp_capture_slot **sent)
{
	probe_say(0x10, (struct probe_words){.action = PROBE_SEND, .verdict = SP_SENT});
	dut_settle(&dut, 1);
	*taken = cap_next_of(r, 0);
	*sent = cap_next_of(r, 0);
	CU_ASSERT_FATAL(*taken && *sent && (*taken)->fate == SP_CAPTURE_TAKEN && (*sent)->fate == SP_CAPTURE_SENT);
}

RULE(the_processors_time_of_each_step_is_told_in_real_time)
{
	const struct sp_capture_slot *taken, *sent;
	struct reader r;

	dut_context(&dut, "a", "plain", "qp=0x10");
	r = CAPTURE(0);
	stamps(&r, &taken, &sent);
	for (unsigned i = 0; i < SP_CAPTURE_STEPS; i++) {
		CU_ASSERT_EQUAL(taken->tsc[i], 0);
		CU_ASSERT_EQUAL(sent->tsc[i], 0);
	}
	dut.nic->worker[0]->tsc = 7; /* as a worker's thread does */
	stamps(&r, &taken, &sent);
	CU_ASSERT(taken->tsc[SP_CAPTURE_ROUND] == 7 && sent->tsc[SP_CAPTURE_ROUND] == 7);
	CU_ASSERT(taken->tsc[SP_CAPTURE_IN_HAND] > 7);
	CU_ASSERT(sent->tsc[SP_CAPTURE_IN_HAND] > taken->tsc[SP_CAPTURE_IN_HAND]);
	CU_ASSERT(taken->tsc[SP_CAPTURE_PASSED] > sent->tsc[SP_CAPTURE_IN_HAND]);
	CU_ASSERT(sent->tsc[SP_CAPTURE_PASSED] > taken->tsc[SP_CAPTURE_PASSED]);
	cap_close(&r);
}
