/* SPDX-License-Identifier: BSD-3-Clause */
/* The way of a packet: whose it is, in which order it is handled, and where it ends. */
#include "../lib/sender.h"

#define RULE(rule) TEST_BETWEEN(probe_start, probe_stop, rule)

/* ---- match ---- */

RULE(roce_goes_by_qp_to_its_context)
{
	uint32_t a = dut_context(&dut, "a", "plain", "qp=0x10");
	uint32_t b = dut_context(&dut, "b", "plain", "qp=0xFFFFFE");
	probe_say(0x10, (struct probe_words){.key = 1});
	probe_say(0xFFFFFE, (struct probe_words){.key = 2});
	probe_say(0xFFFFFE, (struct probe_words){.key = 3});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, b, "packets"), 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, b, "bytes"), 2 * (14 + 20 + 8 + 12 + sizeof(struct probe_words) + 4));
}

RULE(unknown_and_reserved_qps_are_bad_qp)
{
	dut_context(&dut, "a", "plain", "qp=0x10");
	probe_say(0, (struct probe_words){0});
	probe_say(1, (struct probe_words){0});
	probe_say(0xFFFFFF, (struct probe_words){0});
	probe_say(0x11, (struct probe_words){0});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_dropped("bad-qp"), 4);
}

RULE(roce_for_another_address_is_wrong_destination)
{
	struct frame f;

	uint32_t a = dut_context(&dut, "a", "plain", "qp=0x10");
	for (unsigned i = 0; i < 2; i++) { /* a known QP, and an unknown one */
		dut_roce(&f, FRAME_IP4, 0x10 + i, 0, NULL, 8);
		f.bytes[f.l3 + 19] = 77;
		frame_checksum4(&f);
		dut_seal(&f);
		dut_feed(&dut, &f);
		dut_roce(&f, FRAME_IP6, 0x10 + i, 0, NULL, 8);
		f.bytes[f.l3 + 39] = 77;
		dut_seal(&f);
		dut_feed(&dut, &f);
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_dropped("wrong-destination"), 4);
	dut_roce(&f, FRAME_IP6, 0x10, 0, NULL, 8);
	dut_feed(&dut, &f);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 1);
}

RULE(a_connected_context_takes_packets_of_its_peer_only)
{
	struct frame f;

	uint32_t a = dut_context(&dut, "a", "sender", "qp=0x10;peer=4;filter=udp port 7");
	uint32_t b = dut_context(&dut, "b", "sender", "qp=0x20;peer=:");
	for (unsigned i = 0; i < 2; i++) {
		dut_roce(&f, FRAME_IP4, i ? 0x20 : 0x10, 0, NULL, 8);
		dut_feed(&dut, &f); /* 4 to a: taken; 4 to b: wrong */
		f.bytes[f.l3 + 15] = 9;
		frame_checksum4(&f);
		dut_seal(&f);
		dut_feed(&dut, &f); /* wrong */
		dut_roce(&f, FRAME_IP6, i ? 0x20 : 0x10, 0, NULL, 8);
		dut_feed(&dut, &f); /* 6 to a: wrong; 6 to b: taken */
		f.bytes[f.l3 + 23] = 9;
		dut_seal(&f);
		dut_feed(&dut, &f); /* wrong */
	}
	probe_say_udp(7); /* the filter asks for no source */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, b, "packets"), 1);
	CU_ASSERT_EQUAL(dut_dropped("wrong-source"), 6);
}

TEST(with_any_source_the_peer_is_not_asked_for)
{
	struct frame f;

	dut_prepare(&dut, 1);
	dut.config.any_source = true;
	dut_create(&dut);
	uint32_t a = dut_context(&dut, "a", "sender", "qp=0x10;peer=:");
	dut_roce(&f, FRAME_IP4, 0x10, 0, NULL, 8);
	dut_feed(&dut, &f);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 1);
	probe_stop();
}

TEST(wrong_icrc_is_dropped_unless_it_is_off)
{
	for (unsigned off = 0; off < 2; off++) {
		unsigned bad = 0;

		dut_prepare(&dut, 1);
		dut.config.icrc_off = off;
		dut_create(&dut);
		uint32_t a = dut_context(&dut, "a", "plain", "qp=0x10");
		for (enum frame_ip ip = FRAME_IP4; ip <= FRAME_IP6; ip++)
			for (unsigned len = 0; len < 9; len++) {
				struct frame f;

				if (ip == FRAME_IP4_OPTIONS)
					continue;
				dut_roce(&f, ip, 0x10, len, NULL, len);
				dut_feed(&dut, &f);
				f.bytes[f.len - 1 - len % 4] ^= 1 << len % 8; /* the ICRC itself */
				dut_feed(&dut, &f);
				dut_roce(&f, ip, 0x10, len, NULL, len);
				f.bytes[f.l4 + 8 + 11] ^= 1; /* the PSN under it */
				dut_feed(&dut, &f);
				dut_roce(&f, ip, 0x10, len, NULL, len);
				f.bytes[f.l4 + 8 + 4] ^= 0xFF; /* FECN, BECN, reserved: routers may write there */
				dut_feed(&dut, &f);
				bad += 2;
			}
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL(dut_dropped("bad-icrc"), off ? 0 : bad);
		CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), off ? 2 * bad : bad);
		probe_stop();
	}
}

RULE(filters_are_asked_in_the_order_in_which_they_came)
{
	uint32_t a = dut_context(&dut, "a", "plain", "filter=udp port 7");
	uint32_t b = dut_context(&dut, "b", "plain", "filter=udp");
	probe_say_udp(7);
	probe_say_udp(8);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, b, "packets"), 1);
	sp_nic_context_remove(dut.nic, a);
	probe_say_udp(7);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, b, "packets"), 2);
	a = dut_context(&dut, "a", "plain", "filter=udp port 7");
	probe_say_udp(7);
	dut_settle(&dut, 3);
	CU_ASSERT_EQUAL(dut_counter(&dut, b, "packets"), 3);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 0);
	sp_nic_context_remove(dut.nic, b);
	probe_say_udp(7);
	probe_say_udp(8);
	dut_settle(&dut, 4);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 1);
	CU_ASSERT_EQUAL(dut_dropped("no-match"), 1);
}

RULE(sixty_four_filters_fit_and_come_and_go)
{
	struct sp_error error;
	uint32_t id[SP_MAX_RULES], one;
	char text[64];

	for (unsigned i = 0; i < SP_MAX_RULES; i++) {
		snprintf(text, sizeof(text), "filter=udp port %u", 100 + i);
		id[i] = dut_context(&dut, text + 7, "plain", text);
	}
	CU_ASSERT_EQUAL(dut_try_context(&dut, "x", "plain", "filter=tcp", &one, &error), -ENOSPC);
	CU_ASSERT_STRING_EQUAL(error.key, "filter");
	for (unsigned i = 0; i < SP_MAX_RULES; i += 2)
		sp_nic_context_remove(dut.nic, id[i]);
	for (unsigned i = 0; i < SP_MAX_RULES; i++)
		probe_say_udp((uint16_t)(100 + i));
	dut_settle(&dut, 1);
	for (unsigned i = 1; i < SP_MAX_RULES; i += 2)
		CU_ASSERT_EQUAL(dut_counter(&dut, id[i], "packets"), 1);
	CU_ASSERT_EQUAL(dut_dropped("no-match"), SP_MAX_RULES / 2);
}

RULE(a_context_may_have_a_qp_and_a_filter)
{
	struct frame f;

	uint32_t a = dut_context(&dut, "a", "sender", "qp=0x10;qps=3;control=yes;filter=udp port 7 or udp port 4791");
	CU_ASSERT(sender_control >= SP_QP_CONTROL_FIRST && sender_control < 0xFFFFFF);
	for (unsigned i = 0; i < 4; i++) { /* the last QP is nobody's: the filter takes it */
		dut_roce(&f, FRAME_IP4, 0x10 + i, 0, NULL, 8);
		dut_feed(&dut, &f);
	}
	dut_roce(&f, FRAME_IP4, sender_control, 0, NULL, 8);
	dut_feed(&dut, &f);
	probe_say_udp(7);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 6);
	/* A context's packets keep their order, whatever they matched by. */
	static const uint16_t index[] = {0, 1, 2, 0, SP_QP_CONTROL, 0};
	CU_ASSERT_EQUAL(sender_job.indexes, 6);
	CU_ASSERT(!memcmp(sender_job.qp_index, index, sizeof(index)));
}

TEST(packets_without_a_match_go_to_the_exception_port)
{
	struct sp_nic_totals t;
	struct frame f;

	dut_prepare(&dut, 1);
	dut_with_exception(&dut);
	dut_create(&dut);
	dut_udp(&f, 9, NULL, 20);
	dut_feed(&dut, &f);
	dut_settle(&dut, 1);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.forwarded, 1);
	CU_ASSERT_EQUAL(dut.exception.sents, 1);
	CU_ASSERT(dut.exception.sents == 1 && dut.exception.sent[0].len == f.len &&
		  !memcmp(dut.exception.sent[0].bytes, f.bytes, f.len));
	/* And what comes from there leaves by the port, at the NIC's next deadline. */
	dut_feed_bytes(&dut.exception, 0, 50, f.bytes, f.len);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(dut.nic, 0), 50);
	dut_run(&dut, 1, 100);
	CU_ASSERT_EQUAL(dut.port.sents, 1);
	CU_ASSERT(dut.port.sents == 1 && dut.port.sent[0].len == f.len);
	probe_stop();
}

RULE(without_exception_port_it_is_no_match)
{
	probe_say_udp(9);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_dropped("no-match"), 1);
}

TEST(an_exception_port_that_takes_no_more_is_a_drop_by_name)
{
	struct sp_nic_totals t;

	dut_prepare(&dut, 1);
	dut_with_exception(&dut);
	dut_create(&dut);
	dut.exception.closed = true;
	for (unsigned i = 0; i < SP_TX_QUEUE + 10; i++)
		probe_say_udp(9);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_dropped("exception-full"), 10);
	CU_ASSERT_EQUAL(dut_dropped("tx-full"), 0); /* is for what was to be sent */
	dut.exception.closed = false;
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(dut.exception.sents, SP_TX_QUEUE);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.forwarded, SP_TX_QUEUE);
	probe_stop();
}

RULE(packets_for_the_nic_itself_are_answered_and_count_as_taken)
{
	static const uint8_t ask[42] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0,   2, 8, 6,
					0,    1,    8,	  0,	6,    4,    0, 1, 2, 0, 0,   0, 0, 2,
					192,  0,    2,	  1,	0,    0,    0, 0, 0, 0, 192, 0, 2, 2};
	struct sp_nic_totals t;

	dut_feed_bytes(&dut.port, 0, 0, ask, sizeof(ask));
	dut_settle(&dut, 1);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.taken, 1);
	CU_ASSERT_EQUAL(t.answered, 1);
	CU_ASSERT_EQUAL(t.sent, 1);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1);
	CU_ASSERT(!memcmp(dut.port.sent[0].bytes, dut_peer_mac, 6));
	CU_ASSERT_EQUAL(dut.port.sent[0].bytes[21], 2);
}

RULE(packets_in_several_segments_are_made_linear_or_dropped_by_name)
{
	struct rte_mbuf *m[2];
	struct frame f;

	uint32_t a = dut_context(&dut, "a", "plain", "qp=0x10");
	for (unsigned big = 0; big < 2; big++) {
		dut_roce(&f, FRAME_IP4, 0x10, 0, NULL, 600);
		m[0] = sp_packet_alloc();
		m[1] = sp_packet_alloc();
		memcpy(rte_pktmbuf_append(m[0], 300), f.bytes, 300);
		memcpy(rte_pktmbuf_append(m[1], (uint16_t)(f.len - 300)), f.bytes + 300, f.len - 300);
		if (big)
			rte_pktmbuf_append(m[1], 9200);
		rte_pktmbuf_chain(m[0], m[1]);
		dut_need((void **)&dut.port.rx[0].arrival, &dut.port.rx[0].room, dut.port.rx[0].tail,
			 sizeof(struct dut_arrival));
		dut.port.rx[0].arrival[dut.port.rx[0].tail++] = (struct dut_arrival){m[0], 0};
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "bytes"), f.len);
	CU_ASSERT_EQUAL(dut_dropped("not-linear"), 1);
}

/* ---- verdicts ---- */

TEST(every_verdict_ends_in_exactly_its_counter)
{
	static const char *const handlers[] = {"plain", "hashed", "hashed-burst"};
	static const struct {
		struct probe_words words;
		const char *counter; /* of the context, or NULL: a drop of the NIC's, */
		const char *drop;    /* this one */
	} test[] = {
		{{.verdict = SP_DONE}, "packets", NULL},
		{{.verdict = SP_DROP(0)}, "probe-zero", NULL},
		{{.verdict = SP_DROP(1)}, "probe-one", NULL},
		{{.verdict = SP_SENT, .action = PROBE_SEND}, "packets", NULL},
		{{.verdict = SP_DONE, .action = PROBE_SEND}, "packets", NULL},
		{{.verdict = SP_FORWARD}, NULL, "no-match"},
		{{.verdict = SP_ERROR}, NULL, "handler-error"},
		{{.verdict = SP_DROP(2)}, NULL, "handler-error"}, /* no such reason */
		{{.verdict = SP_DROP(0xFFFFFF)}, NULL, "handler-error"},
		{{.verdict = SP_SENT}, NULL, "handler-error"}, /* it was not */
		{{.verdict = SP_SENT | 256, .action = PROBE_SEND}, NULL, "handler-error"},
		{{.verdict = SP_FORWARD, .action = PROBE_SEND}, NULL, "handler-error"}, /* cannot go two ways */
		{{.verdict = SP_FORWARD | 256}, NULL, "handler-error"},
		{{.verdict = SP_DONE | 256}, NULL, "handler-error"},
		{{.verdict = SP_AGAIN}, NULL, "handler-error"}, /* is miss()'s */
		{{.verdict = 7}, NULL, "handler-error"},
		{{.verdict = UINT32_MAX}, NULL, "handler-error"},
	};

	for (unsigned h = 0; h < 3; h++)
		for (unsigned i = 0; i < sizeof(test) / sizeof(*test); i++) {
			struct sp_nic_totals t;

			probe_start();
			uint32_t a = dut_context(&dut, "a", handlers[h], "qp=0x10");
			probe_say(0x10, (struct probe_words){.key = 1});
			probe_say(0x10, test[i].words);
			probe_say(0x10, (struct probe_words){.key = 1});
			dut_settle(&dut, 1);
			sp_nic_totals(dut.nic, &t);
			if (test[i].counter && !strcmp(test[i].counter, "packets")) {
				CU_ASSERT_EQUAL(t.taken, 3);
				CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 3);
			} else {
				CU_ASSERT_EQUAL(t.taken, 2);
				CU_ASSERT_EQUAL(t.dropped, 1);
				CU_ASSERT_EQUAL(test[i].drop ? dut_dropped(test[i].drop)
							     : dut_counter(&dut, a, test[i].counter),
						1);
				if (test[i].counter)
					CU_ASSERT_EQUAL(dut_dropped(test[i].counter), 1);
			}
			probe_stop();
		}
}

TEST(forwarded_by_verdict_goes_out_unchanged)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .verdict = SP_FORWARD};
	struct sp_nic_totals t;
	struct frame f;

	probe_log_clear();
	dut_prepare(&dut, 1);
	dut_with_exception(&dut);
	dut_create(&dut);
	uint32_t a = dut_context(&dut, "a", "plain", "qp=0x10");
	dut_roce(&f, FRAME_IP4, 0x10, 0, &w, sizeof(w));
	dut_feed(&dut, &f);
	dut_settle(&dut, 1);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.forwarded, 1);
	CU_ASSERT_EQUAL(t.taken, 0);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 0);
	CU_ASSERT_EQUAL(dut.exception.sents, 1);
	CU_ASSERT(dut.exception.sents == 1 && !memcmp(dut.exception.sent[0].bytes, f.bytes, f.len));
	probe_stop();
}

RULE(classify_may_reject_by_the_handlers_reasons)
{
	uint32_t a = dut_context(&dut, "a", "hashed", "qp=0x10");
	probe_say(0x10, (struct probe_words){.key = SP_REJECT(0)});
	probe_say(0x10, (struct probe_words){.key = SP_REJECT(1)});
	probe_say(0x10, (struct probe_words){.key = SP_REJECT(1)});
	probe_say(0x10, (struct probe_words){.key = SP_REJECT(2)}); /* there is none */
	probe_say(0x10, (struct probe_words){.key = SP_REJECT(255)});
	probe_say(0x10, (struct probe_words){.key = SP_REJECT(256)}); /* beyond: a key like others */
	probe_say(0x10, (struct probe_words){.key = SP_NO_MESSAGE});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "probe-zero"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "probe-one"), 2);
	CU_ASSERT_EQUAL(dut_dropped("handler-error"), 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 2);
	CU_ASSERT_STRING_EQUAL(probe_letters(SP_NO_MESSAGE), "ahpp");
}

TEST(a_packet_kept_outlives_its_burst)
{
	probe_start();
	uint32_t a = dut_context(&dut, "a", "plain", "qp=0x10");
	probe_say(0x10, (struct probe_words){.key = 42, .action = PROBE_KEEP});
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(probe_log.keeps, 1);
	CU_ASSERT_EQUAL(dut_view(&dut, a, held), 1);
	CU_ASSERT_EQUAL(rte_mbuf_refcnt_read(probe_log.kept[0]), 1);
	sp_packet_release(&sp_context_by_id(dut.nic, a)->view[0]->pub, probe_log.kept[0]);
	CU_ASSERT_EQUAL(dut_view(&dut, a, held), 0);
	probe_stop(); /* finds all buffers back */
}

/* ---- order ---- */

TEST(a_context_sees_its_packets_in_order_of_arrival)
{
	static const char *const handlers[] = {"plain", "hashed", "hashed-burst"};

	for (unsigned h = 0; h < 3; h++) {
		uint64_t seed = 5;
		uint32_t ids[3], next[3] = {0};
		unsigned n = 0, bad = 0;

		probe_start();
		for (unsigned i = 0; i < 3; i++) {
			char qp[16];

			snprintf(qp, sizeof(qp), "qp=%u", 16 + i);
			ids[i] = dut_context(&dut, qp, handlers[h], qp);
		}
		for (uint32_t i = 0, count[3] = {0}; i < 3000; i++) {
			unsigned c = dut_random(&seed) % 3;

			probe_say(16 + c, (struct probe_words){.key = dut_random(&seed) % 3, .serial = count[c]++});
			if (dut_random(&seed) % 40 == 0)
				dut_settle(&dut, i);
		}
		dut_settle(&dut, 4000);
		for (unsigned i = 0; i < probe_log.n; i++) {
			if (probe_log.call[i].what != 'p')
				continue;
			n++;
			for (unsigned c = 0; c < 3; c++)
				if (probe_log.call[i].context == ids[c])
					bad += probe_log.call[i].serial != next[c]++;
		}
		CU_ASSERT_EQUAL(n, 3000);
		CU_ASSERT_EQUAL(bad, 0);
		probe_stop();
	}
}

RULE(a_run_of_one_message_is_one_call)
{
	static const uint64_t key[] = {1, 1, 1, 2, 2, 1, 3, 3, 3, 3};
	static const uint32_t run[] = {3, 2, 1, 4};
	unsigned at = 0;

	dut_context(&dut, "a", "hashed-burst", "qp=16");
	dut_context(&dut, "b", "hashed-burst", "qp=17");
	for (unsigned i = 0; i < 10; i++) {
		probe_say(16, (struct probe_words){.key = key[i]});
		if (i % 3 == 0) /* packets of another context in between do not cut a run */
			probe_say(17, (struct probe_words){.key = 1});
	}
	dut_settle(&dut, 1);
	for (unsigned i = 0; i < probe_log.n && at < 4; i++)
		if (probe_log.call[i].what == 'b')
			CU_ASSERT_EQUAL(probe_log.call[i].n, run[at++]);
	CU_ASSERT_EQUAL(at, 4);
	CU_ASSERT_EQUAL(probe_log.call[probe_log.n - 5].what, 'b'); /* the other context's four, after these */
	CU_ASSERT_EQUAL(probe_log.call[probe_log.n - 5].n, 4);
}

/* ---- totals ---- */

/* A frame that is valid, nearly valid, or noise. */
static void any_frame(uint64_t *seed, struct frame *f)
{
	struct frame_shape shape = {.tags = dut_random(seed) % 3,
				    .ip = dut_random(seed) % FRAME_IPS,
				    .roce = dut_random(seed) % 2,
				    .payload = dut_random(seed) % 100};
	struct probe_words w = {.magic = PROBE_MAGIC,
				.key = dut_random(seed) % 50,
				.header = dut_random(seed) % 8 ? SP_DONE : dut_random(seed) % 1024,
				.verdict = dut_random(seed) % 4 ? SP_DONE : dut_random(seed) % 1024,
				.action = dut_random(seed) % 4 ? 0 : dut_random(seed) % 16 & ~PROBE_KEEP};

	switch (dut_random(seed) % 4) {
	case 0:
		dut_roce(f, dut_random(seed) % 2 ? FRAME_IP4 : FRAME_IP6, 16 + dut_random(seed) % 5, 0, &w, sizeof(w));
		break;
	case 1:
		dut_udp(f, 5 + dut_random(seed) % 5, &w, sizeof(w));
		break;
	case 2:
		frame_build(f, &shape);
		for (unsigned i = dut_random(seed) % 4; i; i--)
			f->bytes[dut_random(seed) % f->len] = (uint8_t)dut_random(seed);
		if (dut_random(seed) % 2)
			f->len = 1 + dut_random(seed) % f->len;
		break;
	default:
		f->len = 1 + dut_random(seed) % 200;
		for (unsigned i = 0; i < f->len; i++)
			f->bytes[i] = (uint8_t)dut_random(seed);
	}
}

TEST(every_packet_of_any_kind_ends_in_exactly_one_place)
{
	static const char *const handlers[] = {"plain", "hashed", "hashed-burst"};

	for (uint64_t run = 1; run <= 8; run++) {
		uint64_t seed = run;
		uint32_t id[5] = {0};
		struct frame f;

		probe_log_clear();
		probe_log.off = true;
		dut_prepare(&dut, 1);
		if (run % 2)
			dut_with_exception(&dut);
		dut_create(&dut);
		for (unsigned i = 0; i < 5000; i++) {
			unsigned c = dut_random(&seed) % 5;

			any_frame(&seed, &f);
			dut_feed(&dut, &f);
			if (dut_random(&seed) % 20 == 0)
				dut_poll(&dut, i);
			if (dut_random(&seed) % 60 == 0) { /* contexts come and go meanwhile, with open messages */
				char settings[64], name[8];

				if (id[c] && !sp_nic_context_remove(dut.nic, id[c])) {
					id[c] = 0;
					dut_check_totals(&dut);
					continue;
				}
				snprintf(settings, sizeof(settings), "qp=%u;filter=udp port %u", 16 + c, 5 + c);
				snprintf(name, sizeof(name), "c%u", c);
				id[c] = dut_context(&dut, name, handlers[dut_random(&seed) % 3], settings);
			}
			if (i % 100 == 0)
				dut_check_totals(&dut);
			if (i % 1000 == 500)
				dut.exception.closed = !dut.exception.closed;
		}
		dut_settle(&dut, 5000);
		CU_ASSERT_EQUAL(dut.port.received, 5000);
		probe_stop();
	}
}

RULE(drops_keep_their_names_when_their_context_has_gone)
{
	uint32_t a;

	for (unsigned round = 1; round <= 3; round++) {
		a = dut_context(&dut, "a", "plain", "qp=0x10");
		probe_say(0x10, (struct probe_words){.verdict = SP_DROP(1)});
		dut_settle(&dut, round);
		CU_ASSERT_EQUAL(dut_dropped("probe-one"), round);
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, a), 0);
		CU_ASSERT_EQUAL(dut_dropped("probe-one"), round);
		CU_ASSERT_EQUAL(dut_dropped("probe-zero"), 0);
	}
}
