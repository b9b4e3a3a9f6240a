/* SPDX-License-Identifier: BSD-3-Clause */
/* The way of a packet: whose it is, in which order it is handled, and where it ends; and the way out. */
#define RIG_EAL                                                                                                        \
	"--no-pci", "--vdev=net_null0", "--vdev=net_ring0", "--vdev=net_memif0", "--vdev=net_pcap0,tx_pcap=/dev/null"
#include "rig.h"

#include <rte_malloc.h>

RIG_PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)
RIG_PROBE(hashed_burst, "hashed-burst", SP_MESSAGES_HASHED, NULL, rig_burst)
static const struct sp_handler plain = {SP_HANDLER_HEAD,	   .name = "plain",	 .drops = rig_drops,
					.attach = rig_attach_none, .detach = rig_detach, .payload = rig_payload};
SP_HANDLER(plain)

static struct rig rig;

/* ---- a handler that sends what the test tells it ---- */

static struct {
	struct sp_path *path[SP_MAX_PATHS + 1];
	unsigned paths;
	int opened; /* result of the last sp_path_open */
	const struct sp_send *send;
	const void *frame;
	uint32_t frame_len;
	uint16_t qp_index[16];
	unsigned indexes;
} tell;
enum { CMD_SEND = SP_CMD_OWN, CMD_SEND_MEM, CMD_PATH, CMD_FRAME };

static const struct sp_param sender_params[] = {
	{"peer", SP_STRING, "", .help = "only packets from there"},
	{"qps", SP_UINT, "1", 1, 0, "QPs"},
	{"control", SP_BOOL, "no", .help = "a control QP"},
	{NULL},
};
static uint32_t sender_control;

static int sender_attach(struct sp_ctx *c)
{
	const char *peer = sp_param_string(c, "peer");
	uint8_t ip[16];
	int r = 0;

	memset(&tell, 0, sizeof(tell));
	if (*peer) {
		memcpy(ip, strchr(peer, ':') ? rig_peer6 : rig_peer4, 16);
		r = sp_path_open(c, ip, true, &tell.path[0]);
		tell.paths = 1;
	}
	if (!r && sp_param_uint(c, "qps") > 1)
		r = sp_qp_claim(c, (uint32_t)sp_param_uint(c, "qps"));
	if (!r && sp_param_uint(c, "control"))
		r = sp_qp_control(c, &sender_control);
	return r;
}

static uint32_t sender_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)c;
	(void)m;
	if (tell.indexes < 16)
		tell.qp_index[tell.indexes++] = p->qp_index;
	return SP_DONE;
}

static int sender_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_send s = {0};
	int r;

	(void)result;
	if (tell.send)
		s = *tell.send;
	switch (cmd->op) {
	case CMD_SEND:
		return sp_send_roce(c, tell.path[cmd->arg[0]], &s);
	case CMD_SEND_MEM:
		s.mem = sp_mem_get(c, (uint32_t)cmd->arg[1]);
		if (!s.mem)
			return -ENOENT;
		r = sp_send_roce(c, tell.path[cmd->arg[0]], &s);
		sp_mem_put(c, s.mem);
		return r;
	case CMD_PATH: {
		uint8_t ip[16];

		memcpy(ip, &cmd->arg[0], 16);
		r = sp_path_open(c, ip, false, &tell.path[tell.paths]);
		tell.paths += !r;
		return r;
	}
	case CMD_FRAME:
		return sp_send_frame(c, (uint16_t)cmd->arg[0], tell.frame, tell.frame_len);
	}
	return -EOPNOTSUPP;
}

static const struct sp_handler sender = {SP_HANDLER_HEAD,	  .name = "sender",	     .params = sender_params,
					 .attach = sender_attach, .payload = sender_payload, .command = sender_command};
SP_HANDLER(sender)

/* ---- helpers ---- */

static void start(void)
{
	rig_log_clear();
	rig_start(&rig, 1);
}

static void end(void)
{
	rig_check_totals(&rig);
	rig_stop(&rig);
	rig_log_clear();
}

static void say(uint32_t qp, struct rig_words w)
{
	rig_say(&rig, qp, &w);
}

static uint64_t dropped(const char *reason)
{
	return sp_nic_dropped(rig.nic, reason);
}

static void say_udp(uint16_t port)
{
	struct rig_words w = {.magic = RIG_MAGIC, .key = 1};
	struct frame f;

	rig_udp(&f, port, &w, sizeof(w));
	rig_feed(&rig, &f);
}

/* ---- match ---- */

static void roce_goes_by_qp_to_its_context(void)
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

static void unknown_and_reserved_qps_are_bad_qp(void)
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

static void roce_for_another_address_is_wrong_destination(void)
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

static void a_connected_context_takes_packets_of_its_peer_only(void)
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

static void with_any_source_the_peer_is_not_asked_for(void)
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

static void wrong_icrc_is_dropped_unless_it_is_off(void)
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

static void filters_are_asked_in_the_order_in_which_they_came(void)
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

static void sixty_four_filters_fit_and_come_and_go(void)
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

static void a_context_may_have_a_qp_and_a_filter(void)
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

static void what_nobody_takes_goes_to_the_exception_port(void)
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

static void without_exception_port_it_is_no_match(void)
{
	start();
	say_udp(9);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(dropped("no-match"), 1);
	end();
}

static void an_exception_port_that_takes_no_more_is_a_drop_by_name(void)
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

static void packets_for_the_nic_itself_are_answered_and_count_as_taken(void)
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

static void packets_in_several_segments_are_made_linear_or_dropped_by_name(void)
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

static void every_verdict_ends_in_exactly_its_counter(void)
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

static void forwarded_by_verdict_goes_out_unchanged(void)
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

static void classify_may_reject_by_the_handlers_reasons(void)
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

static void a_packet_kept_outlives_its_burst(void)
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

static void a_context_sees_its_packets_in_order_of_arrival(void)
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

static void a_run_of_one_message_is_one_call(void)
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

static void every_packet_of_any_kind_ends_in_exactly_one_place(void)
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

static void drops_keep_their_names_when_their_context_has_gone(void)
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

/* ---- sending ---- */

static uint32_t sends_to(const char *settings)
{
	static const struct sp_neighbour_config known[2] = {{RIG_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {RIG_IP6(1), {2, 0, 0, 0, 0, 2}}};

	rig_log_clear();
	rig_prepare(&rig, 1);
	memcpy(rig.config.neighbour, known, sizeof(known));
	rig.config.neighbours = 2;
	rig_create(&rig);
	return rig_context(&rig, "s", "sender", settings);
}

static int call(uint32_t id, uint16_t op, uint64_t a0, uint64_t a1)
{
	struct sp_command cmd = {.op = op, .context = id, .arg = {a0, a1}};

	return sp_command_call(rig.dev, &cmd, NULL);
}

static unsigned be16(const uint8_t *b)
{
	return (unsigned)b[0] << 8 | b[1];
}

/* Everything that a frame of sp_send_roce must have, from the specifications. */
static void check_frame(const struct rig_sent *s, const struct sp_send *want, const uint8_t *payload, bool six)
{
	const uint8_t *f = s->bytes, *l3 = f + 14, *udp = l3 + (six ? 40 : 20), *bth = udp + 8;
	const unsigned pad = (4 - want->len % 4) % 4, above = 12 + want->ext_len + want->len + pad + 4;
	uint32_t sum = 0, crc;

	CU_ASSERT_EQUAL_FATAL(s->len, 14 + (six ? 40 : 20) + 8 + above);
	CU_ASSERT(!memcmp(f, rig_peer_mac, 6));
	CU_ASSERT(!memcmp(f + 6, rig_mac, 6));
	CU_ASSERT_EQUAL(be16(f + 12), six ? 0x86DD : 0x0800);
	if (six) {
		CU_ASSERT_EQUAL(l3[0] >> 4, 6);
		CU_ASSERT_EQUAL(be16(l3 + 4), 8 + above);
		CU_ASSERT_EQUAL(l3[6], 17);
		CU_ASSERT(l3[7] >= 64);
		CU_ASSERT(!memcmp(l3 + 8, rig_own6, 16));
		CU_ASSERT(!memcmp(l3 + 24, rig_peer6, 16));
	} else {
		CU_ASSERT_EQUAL(l3[0], 0x45);
		CU_ASSERT_EQUAL(be16(l3 + 2), 20 + 8 + above);
		CU_ASSERT_EQUAL(be16(l3 + 6), 0x4000); /* don't fragment */
		CU_ASSERT_EQUAL(l3[8], 64);
		CU_ASSERT_EQUAL(l3[9], 17);
		CU_ASSERT(!memcmp(l3 + 12, rig_own4 + 12, 4));
		CU_ASSERT(!memcmp(l3 + 16, rig_peer4 + 12, 4));
		for (unsigned i = 0; i < 20; i += 2)
			sum += be16(l3 + i);
		CU_ASSERT_EQUAL((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
	}
	CU_ASSERT(want->udp_source ? be16(udp) == want->udp_source : be16(udp) >= 0xC000);
	CU_ASSERT_EQUAL(be16(udp + 2), 4791);
	CU_ASSERT_EQUAL(be16(udp + 4), 8 + above);
	CU_ASSERT_EQUAL(be16(udp + 6), 0);
	CU_ASSERT_EQUAL(bth[0], want->opcode);
	CU_ASSERT_EQUAL(bth[1], (want->flags & SP_PKT_SE ? 0x80 : 0) | pad << 4);
	CU_ASSERT_EQUAL(be16(bth + 2), 0xFFFF);
	CU_ASSERT_EQUAL(bth[4], 0);
	CU_ASSERT_EQUAL((uint32_t)bth[5] << 16 | be16(bth + 6), (want->dest_qp & 0xFFFFFF));
	CU_ASSERT_EQUAL(bth[8], 0);
	CU_ASSERT_EQUAL((uint32_t)bth[9] << 16 | be16(bth + 10), (want->psn & 0xFFFFFF));
	CU_ASSERT(!want->ext_len || !memcmp(bth + 12, want->ext, want->ext_len));
	CU_ASSERT(!want->len || !memcmp(bth + 12 + want->ext_len, payload, want->len));
	for (unsigned i = 0; i < pad; i++)
		CU_ASSERT_EQUAL(bth[12 + want->ext_len + want->len + i], 0);
	memcpy(&crc, f + s->len - 4, 4); /* little-endian, as this machine */
	CU_ASSERT_EQUAL(crc, rig_icrc(l3, s->len - 4 - 14));
}

static void a_frame_sent_has_the_fields_it_must_have(void)
{
	for (unsigned six = 0; six < 2; six++) {
		uint32_t id = sends_to(six ? "qp=5;peer=:" : "qp=5;peer=4");
		uint8_t ext[SP_EXT_MAX], payload[256];
		uint64_t seed = 3;

		for (unsigned i = 0; i < sizeof(payload); i++)
			payload[i] = (uint8_t)rig_random(&seed);
		memcpy(ext, payload + 100, sizeof(ext));
		for (unsigned len = 0; len < 200; len++) {
			struct sp_send s = {.dest_qp = (uint32_t)rig_random(&seed),
					    .psn = (uint32_t)rig_random(&seed),
					    .opcode = (uint8_t)rig_random(&seed),
					    .flags = len % 3 ? 0 : SP_PKT_SE,
					    .udp_source = len % 2 ? (uint16_t)(1000 + len) : 0,
					    .ext = ext,
					    .ext_len = len % (SP_EXT_MAX / 4 + 1) * 4,
					    .len = len,
					    .bytes = payload};

			tell.send = &s;
			CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
			rig_settle(&rig, len);
			CU_ASSERT_EQUAL_FATAL(rig.port.sents, len + 1);
			check_frame(&rig.port.sent[len], &s, payload, six);
		}
		CU_ASSERT_EQUAL(rig_view(&rig, id, sent), 200);
		end();
	}
}

static void what_one_nic_sends_another_takes(void)
{
	uint32_t id = sends_to("qp=5;peer=4"), a;
	uint8_t payload[100] = {1, 2, 3};
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B, .bytes = payload};
	static struct rig other;

	rig_prepare(&other, 1);
	memcpy(other.config.address[0].ip, rig_peer4, 16);
	rig_create(&other);
	a = rig_context(&other, "a", "plain", "qp=16");
	tell.send = &s;
	for (s.len = 0; s.len < 100; s.len++)
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	rig_settle(&rig, 1);
	for (unsigned i = 0; i < rig.port.sents; i++)
		rig_feed_bytes(&other.port, 0, 0, rig.port.sent[i].bytes, rig.port.sent[i].len);
	rig_settle(&other, 2);
	CU_ASSERT_EQUAL(rig_counter(&other, a, "packets"), 100);
	rig_log_clear();
	rig_stop(&other);
	end();
}

static void what_does_not_fit_is_refused(void)
{
	static uint8_t bytes[2000];
	/* IP, UDP, BTH, ICRC leave so much of an MTU of 1500. */
	const uint32_t most = 1500 - 20 - 8 - 12 - 4;
	uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16, .bytes = bytes, .ext = bytes};

	tell.send = &s;
	s.len = most;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	s.len = most + 1;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.len = most - 19;
	s.ext_len = 20;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.len = most - 20;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	s.len = 0;
	s.ext_len = SP_EXT_MAX + 1;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.ext_len = UINT32_MAX;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.ext_len = 0;
	for (uint32_t len = UINT32_MAX; len > UINT32_MAX - 100; len--) { /* sums that overflow */
		s.len = len;
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	}
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig.port.sents, 2);
	CU_ASSERT_EQUAL(rig.port.sent[0].len, 1514);
	end();
}

static void payload_comes_from_inside_the_region_only(void)
{
	uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16, .len = 40};
	struct sp_mr *mr;
	uint8_t *memory;

	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(rig.dev, 100, &mr), 0);
	memory = mr->addr;
	for (unsigned i = 0; i < 100; i++)
		memory[i] = (uint8_t)(i * 3);
	tell.send = &s;
	s.offset = 60;
	CU_ASSERT_EQUAL(call(id, CMD_SEND_MEM, 0, mr->id), 0);
	s.offset = 61;
	CU_ASSERT_EQUAL(call(id, CMD_SEND_MEM, 0, mr->id), -EFAULT);
	s.offset = UINT64_MAX - 20;
	CU_ASSERT_EQUAL(call(id, CMD_SEND_MEM, 0, mr->id), -EFAULT);
	CU_ASSERT_EQUAL(rig_view(&rig, id, dma_faults), 2);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 1);
	s.offset = 60;
	check_frame(&rig.port.sent[0], &s, memory + 60, false);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	end();
}

static void a_frame_of_the_handlers_own_is_sent_as_it_is(void)
{
	uint32_t id = sends_to("qp=5;peer=4");
	static uint8_t frame[9700] = {1, 2, 3};

	tell.frame = frame;
	tell.frame_len = 100;
	CU_ASSERT_EQUAL(call(id, CMD_FRAME, 0, 0), 0);
	CU_ASSERT_EQUAL(call(id, CMD_FRAME, 1, 0), -ENODEV);
	CU_ASSERT_EQUAL(call(id, CMD_FRAME, SP_MAX_PORTS, 0), -ENODEV); /* there is no exception port */
	CU_ASSERT_EQUAL(call(id, CMD_FRAME, 0xFFFF, 0), -ENODEV);
	tell.frame_len = 13;
	CU_ASSERT_EQUAL(call(id, CMD_FRAME, 0, 0), -EMSGSIZE);
	tell.frame_len = 1500 + 14 + 8 + 1;
	CU_ASSERT_EQUAL(call(id, CMD_FRAME, 0, 0), -EMSGSIZE);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 1);
	CU_ASSERT(rig.port.sent[0].len == 100 && !memcmp(rig.port.sent[0].bytes, frame, 100));
	end();
}

static void a_context_has_at_most_64_paths_and_none_to_nowhere(void)
{
	static const uint8_t nowhere[16] = RIG_IP4(203, 0, 113, 1), own[16] = RIG_IP4(192, 0, 2, 2);
	uint32_t id = sends_to("qp=5");
	uint64_t ip[2];

	memcpy(ip, nowhere, 16);
	CU_ASSERT_EQUAL(call(id, CMD_PATH, ip[0], ip[1]), -ENETUNREACH);
	memcpy(ip, own, 16);
	CU_ASSERT_EQUAL(call(id, CMD_PATH, ip[0], ip[1]), -ENETUNREACH);
	memcpy(ip, rig_peer4, 16);
	for (unsigned i = 0; i < SP_MAX_PATHS; i++)
		CU_ASSERT_EQUAL(call(id, CMD_PATH, ip[0], ip[1]), 0);
	CU_ASSERT_EQUAL(call(id, CMD_PATH, ip[0], ip[1]), -ENOSPC);
	end();
}

static uint32_t sends_to_strangers(const char *settings)
{
	rig_log_clear();
	rig_prepare(&rig, 1);
	rig_create(&rig);
	return rig_context(&rig, "s", "sender", settings);
}

static void a_packet_for_an_unknown_neighbour_waits_for_the_answer(void)
{
	static const uint8_t answer[42] = {2, 0, 0, 0, 0, 1, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
					   2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 2};
	uint32_t id = sends_to_strangers("qp=5;peer=4");
	uint8_t payload[32] = {9};
	struct sp_send s = {.dest_qp = 16, .len = 32, .bytes = payload};
	const uint8_t *f;

	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	rig_settle(&rig, 10);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 1); /* one request, although two packets wait */
	f = rig.port.sent[0].bytes;
	CU_ASSERT(!memcmp(f, "\xFF\xFF\xFF\xFF\xFF\xFF\2\0\0\0\0\1\x08\x06\0\1\x08\0\6\4\0\1", 22));
	CU_ASSERT(!memcmp(f + 22, rig_mac, 6) && !memcmp(f + 28, rig_own4 + 12, 4) &&
		  !memcmp(f + 38, rig_peer4 + 12, 4));
	rig_feed_bytes(&rig.port, 0, 300 * SP_MS, answer, sizeof(answer));
	rig_run(&rig, 10, 301 * SP_MS);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 3);
	for (unsigned i = 1; i < 3; i++) {
		check_frame(&rig.port.sent[i], &s, payload, false);
		CU_ASSERT_EQUAL(rig.port.sent[i].at, 300 * SP_MS);
	}
	CU_ASSERT_EQUAL(dropped("tx-no-neighbour"), 0);
	/* From now on they leave at once. */
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	rig_settle(&rig, 302 * SP_MS);
	CU_ASSERT_EQUAL(rig.port.sents, 4);
	end();
}

static void without_an_answer_the_packet_is_dropped_as_tx_no_neighbour(void)
{
	for (unsigned six = 0; six < 2; six++) {
		uint32_t id = sends_to_strangers(six ? "qp=5;peer=:" : "qp=5;peer=4");
		struct sp_send s = {.dest_qp = 16};

		tell.send = &s;
		rig_settle(&rig, 5);
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
		/* Not before all requests have gone out, and soon after the last one has had its time. */
		rig_run(&rig, 5, SP_NEIGHBOUR_TRIES * SP_NEIGHBOUR_RETRY - SP_MS);
		CU_ASSERT_EQUAL(dropped("tx-no-neighbour"), 0);
		rig_run(&rig, SP_NEIGHBOUR_TRIES * SP_NEIGHBOUR_RETRY, (SP_NEIGHBOUR_TRIES + 2) * SP_NEIGHBOUR_RETRY);
		CU_ASSERT_EQUAL(dropped("tx-no-neighbour"), 1);
		for (unsigned i = 0; i < rig.port.sents; i++) {
			const uint8_t *f = rig.port.sent[i].bytes;

			if (six) { /* to the solicited-node multicast address of ...:1 */
				CU_ASSERT(!memcmp(f, "\x33\x33\xFF\0\0\1", 6) && be16(f + 12) == 0x86DD &&
					  f[14 + 40] == 135);
			} else {
				CU_ASSERT_EQUAL(be16(f + 12), 0x0806);
			}
		}
		CU_ASSERT(rig.port.sents >= SP_NEIGHBOUR_TRIES);
		/* Nothing waits, nothing is left to do but to forget the neighbour. */
		CU_ASSERT_EQUAL(rig.nic->worker[0]->pending_count, 0);
		end();
	}
}

static void so_many_packets_may_wait_and_no_more(void)
{
	uint32_t id = sends_to_strangers("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16};

	tell.send = &s;
	for (unsigned i = 0; i < SP_NEIGHBOUR_PENDING; i++)
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EAGAIN);
	rig_run(&rig, 0, (SP_NEIGHBOUR_TRIES + 2) * SP_NEIGHBOUR_RETRY);
	CU_ASSERT_EQUAL(dropped("tx-no-neighbour"), SP_NEIGHBOUR_PENDING);
	end(); /* those still waiting at the end would be freed too */
}

static void a_port_that_takes_nothing_is_said_and_nothing_is_lost(void)
{
	uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16};

	tell.send = &s;
	rig.port.closed = true;
	for (s.psn = 0; s.psn < SP_TX_QUEUE; s.psn++)
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EAGAIN);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), -EAGAIN);
	rig.port.closed = false;
	rig_settle(&rig, 2);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, SP_TX_QUEUE);
	for (unsigned i = 0; i < SP_TX_QUEUE; i++)
		CU_ASSERT_EQUAL(rig.port.sent[i].bytes[14 + 20 + 8 + 11], i & 0xFF);
	CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	end();
}

static void checksums_are_those_of_rfc_1071(void)
{
	/* Its own example, section 3: 00 01 f2 03 f4 f5 f6 f7, sum ddf2. */
	static const uint8_t bytes[] = {0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7, 0xAB};
	uint16_t sum = sp_checksum(bytes, 8, 0);

	CU_ASSERT_EQUAL(sum, (uint16_t)~rte_cpu_to_be_16(0xDDF2));
	sum = sp_checksum(bytes, 9, 0); /* odd: as if a zero byte followed */
	CU_ASSERT_EQUAL(sum, (uint16_t)~rte_cpu_to_be_16((uint16_t)(0xDDF2 + 0xAB00 - 0xFFFF)));
	CU_ASSERT_EQUAL(sp_checksum(bytes, 0, 0), 0xFFFF);
}

/* ---- the NIC itself ---- */

static int try_device(const char *device, uint32_t mtu, uint16_t workers, struct sp_error *error)
{
	struct sp_nic *nic = NULL;
	int r;

	rig_prepare(&rig, workers);
	rig.config.port[0] = (struct sp_port_config){.device = device};
	rig.config.mtu = mtu;
	r = sp_nic_create(&rig.config, error, &nic);
	if (!r)
		sp_nic_destroy(nic);
	return r;
}

static void ports_that_cannot_do_what_is_asked_are_refused_with_the_reason(void)
{
	struct sp_error error;

	CU_ASSERT_EQUAL(try_device("net_none0", 0, 1, &error), -ENODEV);
	CU_ASSERT_STRING_EQUAL(error.key, "port");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "net_none0"));
	CU_ASSERT_EQUAL(try_device("", 0, 1, &error), -ENODEV);
	CU_ASSERT_EQUAL(try_device(NULL, 0, 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "port");
	CU_ASSERT_EQUAL(try_device("net_memif0", 9000, 1, &error), -ENOTSUP); /* has 1518 bytes for a frame */
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "9000"));
	CU_ASSERT_EQUAL(try_device("net_pcap0", 0, 2, &error), -ENOTSUP); /* has one queue */
	CU_ASSERT_STRING_EQUAL(error.key, "workers");
	CU_ASSERT_EQUAL(try_device("net_null0", 0, SP_MAX_WORKERS + 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "workers");
	CU_ASSERT_EQUAL(try_device("net_null0", 255, 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	CU_ASSERT_EQUAL(try_device("net_null0", SP_PACKET_ROOM, 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	CU_ASSERT_EQUAL(try_device("net_none0", 0, 1, NULL), -ENODEV); /* the words are not obligatory */
	/* And after all that they still work. */
	CU_ASSERT_EQUAL(try_device("net_null0", 9000, 4, &error), 0);
	CU_ASSERT_EQUAL(try_device("net_null0", 0, 1, &error), 0);
}

static void one_port_belongs_to_one_nic(void)
{
	struct sp_error error;
	struct sp_nic *nic;

	rig_prepare(&rig, 1);
	rig.config.port[0] = (struct sp_port_config){.device = "net_ring0"};
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&rig.config, &error, &nic), 0);
	CU_ASSERT_EQUAL(try_device("net_ring0", 0, 1, &error), -EBUSY);
	CU_ASSERT_STRING_EQUAL(error.key, "port");
	sp_nic_destroy(nic);
	CU_ASSERT_EQUAL(try_device("net_ring0", 0, 1, &error), 0);
}

static void an_ethdev_carries_frames_both_ways(void)
{
	static const struct sp_neighbour_config known = {RIG_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}};
	uint8_t payload[64] = {1};
	struct sp_send s = {.dest_qp = 16, .len = 64, .bytes = payload};
	struct sp_nic_totals t;
	uint32_t id;

	rig_prepare(&rig, 1);
	rig.config.port[0] = (struct sp_port_config){.device = "net_ring0"}; /* what it sends comes back */
	rig.config.neighbour[0] = known;
	rig.config.neighbours = 1;
	rig_create(&rig);
	id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
	tell.send = &s;
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
	for (unsigned i = 0; i < 5; i++)
		sp_nic_poll(rig.nic, 0, i);
	sp_nic_totals(rig.nic, &t);
	CU_ASSERT_EQUAL(t.sent, 10);
	CU_ASSERT_EQUAL(t.sent_bytes, 10 * (14 + 20 + 8 + 12 + 64 + 4));
	CU_ASSERT_EQUAL(t.received, 10);
	CU_ASSERT_EQUAL(t.bytes, t.sent_bytes);
	CU_ASSERT_EQUAL(dropped("wrong-destination"), 10); /* with the right ICRC they were for the peer */
	rig_stop(&rig);
}

static void settings_that_make_no_nic_are_refused(void)
{
	struct sp_error error;
	struct sp_nic *nic;

	rig_prepare(&rig, 1);
	rig.config.addresses = SP_MAX_ADDRESSES + 1;
	CU_ASSERT_EQUAL(sp_nic_create(&rig.config, &error, &nic), -EINVAL);
	rig.config.addresses = 1;
	rig.config.ports = SP_MAX_PORTS + 1;
	CU_ASSERT_EQUAL(sp_nic_create(&rig.config, &error, &nic), -EINVAL);
	rig.config.ports = 1;
	rig.config.neighbours = SP_MAX_STATIC + 1;
	CU_ASSERT_EQUAL(sp_nic_create(&rig.config, &error, &nic), -EINVAL);
	rig.config.neighbours = 1; /* all zero: not a station's MAC */
	CU_ASSERT_EQUAL(sp_nic_create(&rig.config, &error, &nic), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "neighbour");
	sp_nic_destroy(NULL);
}

static void a_thousand_nics_come_and_go_and_leave_nothing(void)
{
	struct rte_malloc_socket_stats before, after;

	for (unsigned i = 0; i < 1000; i++) {
		start();
		if (i == 10)
			rte_malloc_get_socket_stats(0, &before);
		rig_context(&rig, "a", "hashed", "qp=16;filter=udp port 7");
		rig_context(&rig, "b", "plain", "qp=17");
		say(16, (struct rig_words){.key = 1});
		say(17, (struct rig_words){.key = 1});
		say_udp(7);
		rig_poll(&rig, 1);
		end();
	}
	rte_malloc_get_socket_stats(0, &after);
	CU_ASSERT(after.heap_allocsz_bytes <= before.heap_allocsz_bytes + 65536);
}

static void two_nics_with_one_seed_do_the_same_and_with_two_do_not(void)
{
	uint8_t bytes[3][2048];
	uint8_t payload[8] = {0};
	struct sp_send s = {.dest_qp = 16, .len = 8, .bytes = payload};

	for (unsigned i = 0; i < 3; i++) {
		uint32_t id;

		rig_prepare(&rig, 1);
		rig.config.seed = i == 2 ? 8 : 7;
		memset(rig.config.mac, 0, 6); /* from the seed too */
		rig_create(&rig);
		id = rig_context(&rig, "s", "sender", "qp=5;peer=4");
		tell.send = &s;
		CU_ASSERT_EQUAL(call(id, CMD_SEND, 0, 0), 0);
		rig_settle(&rig, 1);
		CU_ASSERT_EQUAL_FATAL(rig.port.sents, 1);
		memcpy(bytes[i], rig.port.sent[0].bytes, 60);
		rig_stop(&rig);
	}
	CU_ASSERT(!memcmp(bytes[0], bytes[1], 42));
	CU_ASSERT(memcmp(bytes[0], bytes[2], 42) != 0);
}

SUITE("pipeline", TEST(roce_goes_by_qp_to_its_context), TEST(unknown_and_reserved_qps_are_bad_qp),
      TEST(roce_for_another_address_is_wrong_destination), TEST(a_connected_context_takes_packets_of_its_peer_only),
      TEST(with_any_source_the_peer_is_not_asked_for), TEST(wrong_icrc_is_dropped_unless_it_is_off),
      TEST(filters_are_asked_in_the_order_in_which_they_came), TEST(sixty_four_filters_fit_and_come_and_go),
      TEST(a_context_may_have_a_qp_and_a_filter), TEST(what_nobody_takes_goes_to_the_exception_port),
      TEST(without_exception_port_it_is_no_match), TEST(an_exception_port_that_takes_no_more_is_a_drop_by_name),
      TEST(packets_for_the_nic_itself_are_answered_and_count_as_taken),
      TEST(packets_in_several_segments_are_made_linear_or_dropped_by_name),
      TEST(every_verdict_ends_in_exactly_its_counter), TEST(forwarded_by_verdict_goes_out_unchanged),
      TEST(classify_may_reject_by_the_handlers_reasons), TEST(a_packet_kept_outlives_its_burst),
      TEST(a_context_sees_its_packets_in_order_of_arrival), TEST(a_run_of_one_message_is_one_call),
      TEST(every_packet_of_any_kind_ends_in_exactly_one_place), TEST(a_frame_sent_has_the_fields_it_must_have),
      TEST(drops_keep_their_names_when_their_context_has_gone), TEST(what_one_nic_sends_another_takes),
      TEST(what_does_not_fit_is_refused), TEST(payload_comes_from_inside_the_region_only),
      TEST(a_frame_of_the_handlers_own_is_sent_as_it_is), TEST(a_context_has_at_most_64_paths_and_none_to_nowhere),
      TEST(a_packet_for_an_unknown_neighbour_waits_for_the_answer),
      TEST(without_an_answer_the_packet_is_dropped_as_tx_no_neighbour), TEST(so_many_packets_may_wait_and_no_more),
      TEST(a_port_that_takes_nothing_is_said_and_nothing_is_lost), TEST(checksums_are_those_of_rfc_1071),
      TEST(ports_that_cannot_do_what_is_asked_are_refused_with_the_reason), TEST(one_port_belongs_to_one_nic),
      TEST(an_ethdev_carries_frames_both_ways), TEST(settings_that_make_no_nic_are_refused),
      TEST(a_thousand_nics_come_and_go_and_leave_nothing), TEST(two_nics_with_one_seed_do_the_same_and_with_two_do_not))
