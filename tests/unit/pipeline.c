/* SPDX-License-Identifier: BSD-3-Clause */
/* The way of a packet: whose it is, in which order it is handled, and where it ends. */
#include "rig_send.h"

/* ---- match ---- */

TEST(roce_goes_by_qp_to_its_context)
{
	uint32_t a, b;

	start();
	a = rig_context(&rig, "a", "plain", "qp=0x10");
	b = rig_context(&rig, "b", "plain", "qp=0xFFFFFE");
	say(0x10, (struct rig_words){.key = 1});
	say(0xFFFFFE, (struct rig_words){.key = 2});
	say(0xFFFFFE, (struct rig_words){.key = 3});
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, b, "packets"), 2);
	CU_ASSERT_EQUAL(rig_counter(&rig, b, "bytes"), 2 * (14 + 20 + 8 + 12 + sizeof(struct rig_words) + 4));
	end();
}

TEST(unknown_and_reserved_qps_are_bad_qp)
{
	start();
	rig_context(&rig, "a", "plain", "qp=0x10");
	say(0, (struct rig_words){0});
	say(1, (struct rig_words){0});
	say(0xFFFFFF, (struct rig_words){0});
	say(0x11, (struct rig_words){0});
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(dropped("bad-qp"), 4);
	end();
}

TEST(roce_for_another_address_is_wrong_destination)
{
	struct frame f;
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "plain", "qp=0x10");
	for (unsigned i = 0; i < 2; i++) { /* a known QP, and an unknown one */
		rig_roce(&f, FRAME_IP4, 0x10 + i, 0, NULL, 8);
		f.bytes[f.l3 + 19] = 77;
		frame_checksum4(&f);
		rig_seal(&f);
		rig_feed(&rig, &f);
		rig_roce(&f, FRAME_IP6, 0x10 + i, 0, NULL, 8);
		f.bytes[f.l3 + 39] = 77;
		rig_seal(&f);
		rig_feed(&rig, &f);
	}
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(dropped("wrong-destination"), 4);
	rig_roce(&f, FRAME_IP6, 0x10, 0, NULL, 8);
	rig_feed(&rig, &f);
	rig_settle(&rig, 2);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 1);
	end();
}

TEST(a_connected_context_takes_packets_of_its_peer_only)
{
	struct frame f;
	uint32_t a, b;

	start();
	a = rig_context(&rig, "a", "sender", "qp=0x10;peer=4;filter=udp port 7");
	b = rig_context(&rig, "b", "sender", "qp=0x20;peer=:");
	for (unsigned i = 0; i < 2; i++) {
		rig_roce(&f, FRAME_IP4, i ? 0x20 : 0x10, 0, NULL, 8);
		rig_feed(&rig, &f); /* 4 to a: taken; 4 to b: wrong */
		f.bytes[f.l3 + 15] = 9;
		frame_checksum4(&f);
		rig_seal(&f);
		rig_feed(&rig, &f); /* wrong */
		rig_roce(&f, FRAME_IP6, i ? 0x20 : 0x10, 0, NULL, 8);
		rig_feed(&rig, &f); /* 6 to a: wrong; 6 to b: taken */
		f.bytes[f.l3 + 23] = 9;
		rig_seal(&f);
		rig_feed(&rig, &f); /* wrong */
	}
	say_udp(7); /* the filter asks for no source */
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 2);
	CU_ASSERT_EQUAL(rig_counter(&rig, b, "packets"), 1);
	CU_ASSERT_EQUAL(dropped("wrong-source"), 6);
	end();
}

TEST(with_any_source_the_peer_is_not_asked_for)
{
	struct frame f;
	uint32_t a;

	rig_prepare(&rig, 1);
	rig.config.any_source = true;
	rig_create(&rig);
	a = rig_context(&rig, "a", "sender", "qp=0x10;peer=:");
	rig_roce(&f, FRAME_IP4, 0x10, 0, NULL, 8);
	rig_feed(&rig, &f);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 1);
	end();
}

TEST(wrong_icrc_is_dropped_unless_it_is_off)
{
	for (unsigned off = 0; off < 2; off++) {
		unsigned bad = 0;
		uint32_t a;

		rig_prepare(&rig, 1);
		rig.config.icrc_off = off;
		rig_create(&rig);
		a = rig_context(&rig, "a", "plain", "qp=0x10");
		for (enum frame_ip ip = FRAME_IP4; ip <= FRAME_IP6; ip++)
			for (unsigned len = 0; len < 9; len++) {
				struct frame f;

				if (ip == FRAME_IP4_OPTIONS)
					continue;
				rig_roce(&f, ip, 0x10, len, NULL, len);
				rig_feed(&rig, &f);
				f.bytes[f.len - 1 - len % 4] ^= 1 << len % 8; /* the ICRC itself */
				rig_feed(&rig, &f);
				rig_roce(&f, ip, 0x10, len, NULL, len);
				f.bytes[f.l4 + 8 + 11] ^= 1; /* the PSN under it */
				rig_feed(&rig, &f);
				rig_roce(&f, ip, 0x10, len, NULL, len);
				f.bytes[f.l4 + 8 + 4] ^= 0xFF; /* FECN, BECN, reserved: routers may write there */
				rig_feed(&rig, &f);
				bad += 2;
			}
		rig_settle(&rig, 1);
		CU_ASSERT_EQUAL(dropped("bad-icrc"), off ? 0 : bad);
		CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), off ? 2 * bad : bad);
		end();
	}
}

TEST(filters_are_asked_in_the_order_in_which_they_came)
{
	uint32_t a, b;

	start();
	a = rig_context(&rig, "a", "plain", "filter=udp port 7");
	b = rig_context(&rig, "b", "plain", "filter=udp");
	say_udp(7);
	say_udp(8);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, b, "packets"), 1);
	sp_nic_context_remove(rig.nic, a);
	say_udp(7);
	rig_settle(&rig, 2);
	CU_ASSERT_EQUAL(rig_counter(&rig, b, "packets"), 2);
	a = rig_context(&rig, "a", "plain", "filter=udp port 7");
	say_udp(7);
	rig_settle(&rig, 3);
	CU_ASSERT_EQUAL(rig_counter(&rig, b, "packets"), 3);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 0);
	sp_nic_context_remove(rig.nic, b);
	say_udp(7);
	say_udp(8);
	rig_settle(&rig, 4);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 1);
	CU_ASSERT_EQUAL(dropped("no-match"), 1);
	end();
}

TEST(sixty_four_filters_fit_and_come_and_go)
{
	struct sp_error error;
	uint32_t id[SP_MAX_RULES], one;
	char text[64];

	start();
	for (unsigned i = 0; i < SP_MAX_RULES; i++) {
		snprintf(text, sizeof(text), "filter=udp port %u", 100 + i);
		id[i] = rig_context(&rig, text + 7, "plain", text);
	}
	CU_ASSERT_EQUAL(rig_try_context(&rig, "x", "plain", "filter=tcp", &one, &error), -ENOSPC);
	CU_ASSERT_STRING_EQUAL(error.key, "filter");
	for (unsigned i = 0; i < SP_MAX_RULES; i += 2)
		sp_nic_context_remove(rig.nic, id[i]);
	for (unsigned i = 0; i < SP_MAX_RULES; i++)
		say_udp((uint16_t)(100 + i));
	rig_settle(&rig, 1);
	for (unsigned i = 1; i < SP_MAX_RULES; i += 2)
		CU_ASSERT_EQUAL(rig_counter(&rig, id[i], "packets"), 1);
	CU_ASSERT_EQUAL(dropped("no-match"), SP_MAX_RULES / 2);
	end();
}

TEST(a_context_may_have_a_qp_and_a_filter)
{
	struct frame f;
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "sender", "qp=0x10;qps=3;control=yes;filter=udp port 7 or udp port 4791");
	CU_ASSERT(sender_control >= SP_QP_CONTROL_FIRST && sender_control < 0xFFFFFF);
	for (unsigned i = 0; i < 4; i++) { /* the last QP is nobody's: the filter takes it */
		rig_roce(&f, FRAME_IP4, 0x10 + i, 0, NULL, 8);
		rig_feed(&rig, &f);
	}
	rig_roce(&f, FRAME_IP4, sender_control, 0, NULL, 8);
	rig_feed(&rig, &f);
	say_udp(7);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 6);
	/* A context's packets keep their order, whatever they matched by. */
	static const uint16_t index[] = {0, 1, 2, 0, SP_QP_CONTROL, 0};
	CU_ASSERT_EQUAL(tell.indexes, 6);
	CU_ASSERT(!memcmp(tell.qp_index, index, sizeof(index)));
	end();
}

TEST(what_nobody_takes_goes_to_the_exception_port)
{
	struct sp_nic_totals t;
	struct frame f;

	rig_prepare(&rig, 1);
	rig_with_exception(&rig);
	rig_create(&rig);
	rig_udp(&f, 9, NULL, 20);
	rig_feed(&rig, &f);
	rig_settle(&rig, 1);
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.forwarded, 1);
	CU_ASSERT_EQUAL(rig.exception.sents, 1);
	CU_ASSERT(rig.exception.sents == 1 && rig.exception.sent[0].len == f.len &&
		  !memcmp(rig.exception.sent[0].bytes, f.bytes, f.len));
	/* And what comes from there leaves by the port, at the NIC's next deadline. */
	rig_feed_bytes(&rig.exception, 0, 50, f.bytes, f.len);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), 50);
	rig_run(&rig, 1, 100);
	CU_ASSERT_EQUAL(rig.port.sents, 1);
	CU_ASSERT(rig.port.sents == 1 && rig.port.sent[0].len == f.len);
	end();
}

TEST(without_exception_port_it_is_no_match)
{
	start();
	say_udp(9);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(dropped("no-match"), 1);
	end();
}

TEST(an_exception_port_that_takes_no_more_is_a_drop_by_name)
{
	struct sp_nic_totals t;

	rig_prepare(&rig, 1);
	rig_with_exception(&rig);
	rig_create(&rig);
	rig.exception.closed = true;
	for (unsigned i = 0; i < SP_TX_QUEUE + 10; i++)
		say_udp(9);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(dropped("exception-full"), 10);
	CU_ASSERT_EQUAL(dropped("tx-full"), 0); /* is for what was to be sent */
	rig.exception.closed = false;
	rig_settle(&rig, 2);
	CU_ASSERT_EQUAL(rig.exception.sents, SP_TX_QUEUE);
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.forwarded, SP_TX_QUEUE);
	end();
}

TEST(packets_for_the_nic_itself_are_answered_and_count_as_taken)
{
	static const uint8_t ask[42] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0,   2, 8, 6,
					0,    1,    8,	  0,	6,    4,    0, 1, 2, 0, 0,   0, 0, 2,
					192,  0,    2,	  1,	0,    0,    0, 0, 0, 0, 192, 0, 2, 2};
	struct sp_nic_totals t;

	start();
	rig_feed_bytes(&rig.port, 0, 0, ask, sizeof(ask));
	rig_settle(&rig, 1);
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.taken, 1);
	CU_ASSERT_EQUAL(t.answered, 1);
	CU_ASSERT_EQUAL(t.sent, 1);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 1);
	CU_ASSERT(!memcmp(rig.port.sent[0].bytes, rig_peer_mac, 6));
	CU_ASSERT_EQUAL(rig.port.sent[0].bytes[21], 2);
	end();
}

TEST(packets_in_several_segments_are_made_linear_or_dropped_by_name)
{
	struct rte_mbuf *m[2];
	struct frame f;
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "plain", "qp=0x10");
	for (unsigned big = 0; big < 2; big++) {
		rig_roce(&f, FRAME_IP4, 0x10, 0, NULL, 600);
		m[0] = sp_packet_alloc();
		m[1] = sp_packet_alloc();
		memcpy(rte_pktmbuf_append(m[0], 300), f.bytes, 300);
		memcpy(rte_pktmbuf_append(m[1], (uint16_t)(f.len - 300)), f.bytes + 300, f.len - 300);
		if (big)
			rte_pktmbuf_append(m[1], 9200);
		rte_pktmbuf_chain(m[0], m[1]);
		rig_need((void **)&rig.port.rx[0].arrival, &rig.port.rx[0].room, rig.port.rx[0].tail,
			 sizeof(struct rig_arrival));
		rig.port.rx[0].arrival[rig.port.rx[0].tail++] = (struct rig_arrival){m[0], 0};
	}
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "bytes"), f.len);
	CU_ASSERT_EQUAL(dropped("not-linear"), 1);
	end();
}

/* ---- verdicts ---- */

TEST(every_verdict_ends_in_exactly_its_counter)
{
	static const char *const handlers[] = {"plain", "hashed", "hashed-burst"};
	static const struct {
		struct rig_words words;
		const char *counter; /* of the context, or NULL: a drop of the NIC's, */
		const char *drop;    /* this one */
	} test[] = {
		{{.verdict = SP_DONE}, "packets", NULL},
		{{.verdict = SP_DROP(0)}, "probe-zero", NULL},
		{{.verdict = SP_DROP(1)}, "probe-one", NULL},
		{{.verdict = SP_SENT, .action = RIG_SEND}, "packets", NULL},
		{{.verdict = SP_DONE, .action = RIG_SEND}, "packets", NULL},
		{{.verdict = SP_FORWARD}, NULL, "no-match"},
		{{.verdict = SP_ERROR}, NULL, "handler-error"},
		{{.verdict = SP_DROP(2)}, NULL, "handler-error"}, /* no such reason */
		{{.verdict = SP_DROP(0xFFFFFF)}, NULL, "handler-error"},
		{{.verdict = SP_SENT}, NULL, "handler-error"}, /* it was not */
		{{.verdict = SP_SENT | 256, .action = RIG_SEND}, NULL, "handler-error"},
		{{.verdict = SP_FORWARD, .action = RIG_SEND}, NULL, "handler-error"}, /* cannot go two ways */
		{{.verdict = SP_FORWARD | 256}, NULL, "handler-error"},
		{{.verdict = SP_DONE | 256}, NULL, "handler-error"},
		{{.verdict = SP_AGAIN}, NULL, "handler-error"}, /* is miss()'s */
		{{.verdict = 7}, NULL, "handler-error"},
		{{.verdict = UINT32_MAX}, NULL, "handler-error"},
	};

	for (unsigned h = 0; h < 3; h++)
		for (unsigned i = 0; i < sizeof(test) / sizeof(*test); i++) {
			struct sp_nic_totals t;
			uint32_t a;

			start();
			a = rig_context(&rig, "a", handlers[h], "qp=0x10");
			say(0x10, (struct rig_words){.key = 1});
			say(0x10, test[i].words);
			say(0x10, (struct rig_words){.key = 1});
			rig_settle(&rig, 1);
			sp_nic_totals(rig.nic, &t);
			if (test[i].counter && !strcmp(test[i].counter, "packets")) {
				CU_ASSERT_EQUAL(t.taken, 3);
				CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 3);
			} else {
				CU_ASSERT_EQUAL(t.taken, 2);
				CU_ASSERT_EQUAL(t.dropped, 1);
				CU_ASSERT_EQUAL(test[i].drop ? dropped(test[i].drop)
							     : rig_counter(&rig, a, test[i].counter),
						1);
				if (test[i].counter)
					CU_ASSERT_EQUAL(dropped(test[i].counter), 1);
			}
			end();
		}
}

TEST(forwarded_by_verdict_goes_out_unchanged)
{
	struct rig_words w = {.magic = RIG_MAGIC, .verdict = SP_FORWARD};
	struct sp_nic_totals t;
	struct frame f;
	uint32_t a;

	rig_log_clear();
	rig_prepare(&rig, 1);
	rig_with_exception(&rig);
	rig_create(&rig);
	a = rig_context(&rig, "a", "plain", "qp=0x10");
	rig_roce(&f, FRAME_IP4, 0x10, 0, &w, sizeof(w));
	rig_feed(&rig, &f);
	rig_settle(&rig, 1);
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.forwarded, 1);
	CU_ASSERT_EQUAL(t.taken, 0);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 0);
	CU_ASSERT_EQUAL(rig.exception.sents, 1);
	CU_ASSERT(rig.exception.sents == 1 && !memcmp(rig.exception.sent[0].bytes, f.bytes, f.len));
	end();
}

TEST(classify_may_reject_by_the_handlers_reasons)
{
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "hashed", "qp=0x10");
	say(0x10, (struct rig_words){.key = SP_REJECT(0)});
	say(0x10, (struct rig_words){.key = SP_REJECT(1)});
	say(0x10, (struct rig_words){.key = SP_REJECT(1)});
	say(0x10, (struct rig_words){.key = SP_REJECT(2)}); /* there is none */
	say(0x10, (struct rig_words){.key = SP_REJECT(255)});
	say(0x10, (struct rig_words){.key = SP_REJECT(256)}); /* beyond: a key like others */
	say(0x10, (struct rig_words){.key = SP_NO_MESSAGE});
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "probe-zero"), 1);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "probe-one"), 2);
	CU_ASSERT_EQUAL(dropped("handler-error"), 2);
	CU_ASSERT_EQUAL(rig_counter(&rig, a, "packets"), 2);
	CU_ASSERT_STRING_EQUAL(rig_letters(SP_NO_MESSAGE), "ahpp");
	end();
}

TEST(a_packet_kept_outlives_its_burst)
{
	uint32_t a;

	start();
	a = rig_context(&rig, "a", "plain", "qp=0x10");
	say(0x10, (struct rig_words){.key = 42, .action = RIG_KEEP});
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL_FATAL(rig_log.keeps, 1);
	CU_ASSERT_EQUAL(rig_view(&rig, a, kept), 1);
	CU_ASSERT_EQUAL(rte_mbuf_refcnt_read(rig_log.kept[0]), 1);
	sp_packet_release(&sp_context_by_id(rig.nic, a)->view[0]->pub, rig_log.kept[0]);
	CU_ASSERT_EQUAL(rig_view(&rig, a, kept), 0);
	end(); /* finds all buffers back */
}

/* ---- order ---- */

TEST(a_context_sees_its_packets_in_order_of_arrival)
{
	static const char *const handlers[] = {"plain", "hashed", "hashed-burst"};

	for (unsigned h = 0; h < 3; h++) {
		uint64_t seed = 5;
		uint32_t ids[3], next[3] = {0};
		unsigned n = 0, bad = 0;

		start();
		for (unsigned i = 0; i < 3; i++) {
			char qp[16];

			snprintf(qp, sizeof(qp), "qp=%u", 16 + i);
			ids[i] = rig_context(&rig, qp, handlers[h], qp);
		}
		for (uint32_t i = 0, count[3] = {0}; i < 3000; i++) {
			unsigned c = rig_random(&seed) % 3;

			say(16 + c, (struct rig_words){.key = rig_random(&seed) % 3, .serial = count[c]++});
			if (rig_random(&seed) % 40 == 0)
				rig_settle(&rig, i);
		}
		rig_settle(&rig, 4000);
		for (unsigned i = 0; i < rig_log.n; i++) {
			if (rig_log.call[i].what != 'p')
				continue;
			n++;
			for (unsigned c = 0; c < 3; c++)
				if (rig_log.call[i].context == ids[c])
					bad += rig_log.call[i].serial != next[c]++;
		}
		CU_ASSERT_EQUAL(n, 3000);
		CU_ASSERT_EQUAL(bad, 0);
		end();
	}
}

TEST(a_run_of_one_message_is_one_call)
{
	static const uint64_t key[] = {1, 1, 1, 2, 2, 1, 3, 3, 3, 3};
	static const uint32_t run[] = {3, 2, 1, 4};
	unsigned at = 0;

	start();
	rig_context(&rig, "a", "hashed-burst", "qp=16");
	rig_context(&rig, "b", "hashed-burst", "qp=17");
	for (unsigned i = 0; i < 10; i++) {
		say(16, (struct rig_words){.key = key[i]});
		if (i % 3 == 0) /* packets of another context in between do not cut a run */
			say(17, (struct rig_words){.key = 1});
	}
	rig_settle(&rig, 1);
	for (unsigned i = 0; i < rig_log.n && at < 4; i++)
		if (rig_log.call[i].what == 'b')
			CU_ASSERT_EQUAL(rig_log.call[i].n, run[at++]);
	CU_ASSERT_EQUAL(at, 4);
	CU_ASSERT_EQUAL(rig_log.call[rig_log.n - 5].what, 'b'); /* the other context's four, after these */
	CU_ASSERT_EQUAL(rig_log.call[rig_log.n - 5].n, 4);
	end();
}

/* ---- totals ---- */

/* A frame that is valid, nearly valid, or noise. */
static void any_frame(uint64_t *seed, struct frame *f)
{
	struct frame_shape shape = {.tags = rig_random(seed) % 3,
				    .ip = rig_random(seed) % FRAME_IPS,
				    .roce = rig_random(seed) % 2,
				    .payload = rig_random(seed) % 100};
	struct rig_words w = {.magic = RIG_MAGIC,
			      .key = rig_random(seed) % 50,
			      .header = rig_random(seed) % 8 ? SP_DONE : rig_random(seed) % 1024,
			      .verdict = rig_random(seed) % 4 ? SP_DONE : rig_random(seed) % 1024,
			      .action = rig_random(seed) % 4 ? 0 : rig_random(seed) % 16 & ~RIG_KEEP};

	switch (rig_random(seed) % 4) {
	case 0:
		rig_roce(f, rig_random(seed) % 2 ? FRAME_IP4 : FRAME_IP6, 16 + rig_random(seed) % 5, 0, &w, sizeof(w));
		break;
	case 1:
		rig_udp(f, 5 + rig_random(seed) % 5, &w, sizeof(w));
		break;
	case 2:
		frame_build(f, &shape);
		for (unsigned i = rig_random(seed) % 4; i; i--)
			f->bytes[rig_random(seed) % f->len] = (uint8_t)rig_random(seed);
		if (rig_random(seed) % 2)
			f->len = 1 + rig_random(seed) % f->len;
		break;
	default:
		f->len = 1 + rig_random(seed) % 200;
		for (unsigned i = 0; i < f->len; i++)
			f->bytes[i] = (uint8_t)rig_random(seed);
	}
}

TEST(every_packet_of_any_kind_ends_in_exactly_one_place)
{
	static const char *const handlers[] = {"plain", "hashed", "hashed-burst"};

	for (uint64_t run = 1; run <= 8; run++) {
		uint64_t seed = run;
		uint32_t id[5] = {0};
		struct frame f;

		rig_log_clear();
		rig_log.off = true;
		rig_prepare(&rig, 1);
		if (run % 2)
			rig_with_exception(&rig);
		rig_create(&rig);
		for (unsigned i = 0; i < 5000; i++) {
			unsigned c = rig_random(&seed) % 5;

			any_frame(&seed, &f);
			rig_feed(&rig, &f);
			if (rig_random(&seed) % 20 == 0)
				rig_poll(&rig, i);
			if (rig_random(&seed) % 60 == 0) { /* contexts come and go meanwhile, with open messages */
				char settings[64], name[8];

				if (id[c] && !sp_nic_context_remove(rig.nic, id[c])) {
					id[c] = 0;
					rig_check_totals(&rig);
					continue;
				}
				snprintf(settings, sizeof(settings), "qp=%u;filter=udp port %u", 16 + c, 5 + c);
				snprintf(name, sizeof(name), "c%u", c);
				id[c] = rig_context(&rig, name, handlers[rig_random(&seed) % 3], settings);
			}
			if (i % 100 == 0)
				rig_check_totals(&rig);
			if (i % 1000 == 500)
				rig.exception.closed = !rig.exception.closed;
		}
		rig_settle(&rig, 5000);
		CU_ASSERT_EQUAL(rig.port.received, 5000);
		end();
	}
}

TEST(drops_keep_their_names_when_their_context_has_gone)
{
	uint32_t a;

	start();
	for (unsigned round = 1; round <= 3; round++) {
		a = rig_context(&rig, "a", "plain", "qp=0x10");
		say(0x10, (struct rig_words){.verdict = SP_DROP(1)});
		rig_settle(&rig, round);
		CU_ASSERT_EQUAL(dropped("probe-one"), round);
		CU_ASSERT_EQUAL(sp_nic_context_remove(rig.nic, a), 0);
		CU_ASSERT_EQUAL(dropped("probe-one"), round);
		CU_ASSERT_EQUAL(dropped("probe-zero"), 0);
	}
	end();
}
