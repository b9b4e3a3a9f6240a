/* SPDX-License-Identifier: BSD-3-Clause */
/* The way out: what a frame sent must have, to whom, and what happens when neighbour or port holds it up. */
#include "../../pipeline/mirror.h"
#include "../../pipeline/shared.h"
#include "../lib/sender.h"

static uint32_t sends_to(const char *settings)
{
	static const struct sp_neighbour_config known[2] = {{DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {DUT_IP6(1), {2, 0, 0, 0, 0, 2}}};

	probe_log_clear();
	dut_prepare(&dut, 1);
	memcpy(dut.config.neighbour, known, sizeof(known));
	dut.config.neighbours = 2;
	dut_create(&dut);
	return dut_context(&dut, "s", "sender", settings);
}

static unsigned be16(const uint8_t *b)
{
	return (unsigned)b[0] << 8 | b[1];
}

/* Everything that a frame of sp_send_roce must have, from the specifications. */
static void check_frame(const struct dut_sent *s, const struct sp_send *want, const uint8_t *payload, bool six)
{
	const uint8_t *f = s->bytes, *l3 = f + 14, *udp = l3 + (six ? 40 : 20), *bth = udp + 8;
	const unsigned pad = (4 - want->len % 4) % 4, above = 12 + want->ext_len + want->len + pad + 4;
	uint32_t sum = 0, crc;

	CU_ASSERT_EQUAL_FATAL(s->len, 14 + (six ? 40 : 20) + 8 + above);
	CU_ASSERT(!memcmp(f, dut_peer_mac, 6));
	CU_ASSERT(!memcmp(f + 6, dut_mac, 6));
	CU_ASSERT_EQUAL(be16(f + 12), six ? 0x86DD : 0x0800);
	if (six) {
		CU_ASSERT_EQUAL(l3[0] >> 4, 6);
		CU_ASSERT_EQUAL(be16(l3 + 4), 8 + above);
		CU_ASSERT_EQUAL(l3[6], 17);
		CU_ASSERT(l3[7] >= 64);
		CU_ASSERT(!memcmp(l3 + 8, dut_own6, 16));
		CU_ASSERT(!memcmp(l3 + 24, dut_peer6, 16));
	} else {
		CU_ASSERT_EQUAL(l3[0], 0x45);
		CU_ASSERT_EQUAL(be16(l3 + 2), 20 + 8 + above);
		CU_ASSERT_EQUAL(be16(l3 + 6), 0x4000); /* don't fragment */
		CU_ASSERT_EQUAL(l3[8], 64);
		CU_ASSERT_EQUAL(l3[9], 17);
		CU_ASSERT(!memcmp(l3 + 12, dut_own4 + 12, 4));
		CU_ASSERT(!memcmp(l3 + 16, dut_peer4 + 12, 4));
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
	CU_ASSERT_EQUAL(crc, dut_icrc(l3, s->len - 4 - 14));
}

TEST(a_frame_sent_has_the_fields_it_must_have)
{
	for (unsigned six = 0; six < 2; six++) {
		uint32_t id = sends_to(six ? "qp=5;peer=:" : "qp=5;peer=4");
		uint8_t ext[SP_EXT_MAX], payload[256];
		uint64_t seed = 3;

		for (unsigned i = 0; i < sizeof(payload); i++)
			payload[i] = (uint8_t)dut_random(&seed);
		memcpy(ext, payload + 100, sizeof(ext));
		for (unsigned len = 0; len < 200; len++) {
			struct sp_send s = {.dest_qp = (uint32_t)dut_random(&seed),
					    .psn = (uint32_t)dut_random(&seed),
					    .opcode = (uint8_t)dut_random(&seed),
					    .flags = len % 3 ? 0 : SP_PKT_SE,
					    .udp_source = len % 2 ? (uint16_t)(1000 + len) : 0,
					    .ext = ext,
					    .ext_len = len % (SP_EXT_MAX / 4 + 1) * 4,
					    .len = len,
					    .bytes = payload};

			sender_job.send = &s;
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
			dut_settle(&dut, len);
			CU_ASSERT_EQUAL_FATAL(dut.port.sents, len + 1);
			check_frame(&dut.port.sent[len], &s, payload, six);
		}
		CU_ASSERT_EQUAL(dut_view(&dut, id, sent), 200);
		probe_end();
	}
}

TEST(what_one_nic_sends_another_takes)
{
	uint32_t id = sends_to("qp=5;peer=4"), a;
	uint8_t payload[100] = {1, 2, 3};
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B, .bytes = payload};
	static struct dut other;

	dut_prepare(&other, 1);
	memcpy(other.config.address[0].ip, dut_peer4, 16);
	dut_create(&other);
	a = dut_context(&other, "a", "plain", "qp=16");
	sender_job.send = &s;
	for (s.len = 0; s.len < 100; s.len++)
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_settle(&dut, 1);
	for (unsigned i = 0; i < dut.port.sents; i++)
		dut_feed_bytes(&other.port, 0, 0, dut.port.sent[i].bytes, dut.port.sent[i].len);
	dut_settle(&other, 2);
	CU_ASSERT_EQUAL(dut_counter(&other, a, "packets"), 100);
	probe_log_clear();
	dut_stop(&other);
	probe_end();
}

TEST(what_does_not_fit_is_refused)
{
	static uint8_t bytes[2000];
	/* IP, UDP, BTH, ICRC leave so much of an MTU of 1500. */
	const uint32_t most = 1500 - 20 - 8 - 12 - 4;
	uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16, .bytes = bytes, .ext = bytes};

	sender_job.send = &s;
	s.len = most;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	s.len = most + 1;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.len = most - 19;
	s.ext_len = 20;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.len = most - 20;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	s.len = 0;
	s.ext_len = SP_EXT_MAX + 1;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.ext_len = UINT32_MAX;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	s.ext_len = 0;
	for (uint32_t len = UINT32_MAX; len > UINT32_MAX - 100; len--) { /* sums that overflow */
		s.len = len;
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EMSGSIZE);
	}
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut.port.sents, 2);
	CU_ASSERT_EQUAL(dut.port.sent[0].len, 1514);
	probe_end();
}

TEST(payload_comes_from_inside_the_region_only)
{
	uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16, .len = 40};
	struct sp_mr *mr;
	uint8_t *memory;

	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 100, &mr), 0);
	memory = mr->addr;
	for (unsigned i = 0; i < 100; i++)
		memory[i] = (uint8_t)(i * 3);
	sender_job.send = &s;
	s.offset = 60;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_MEM, 0, mr->id), 0);
	s.offset = 61;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_MEM, 0, mr->id), -EFAULT);
	s.offset = UINT64_MAX - 20;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_MEM, 0, mr->id), -EFAULT);
	CU_ASSERT_EQUAL(dut_view(&dut, id, dma_faults), 2);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1);
	s.offset = 60;
	check_frame(&dut.port.sent[0], &s, memory + 60, false);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	probe_end();
}

TEST(a_frame_of_the_handlers_own_is_sent_as_it_is)
{
	uint32_t id = sends_to("qp=5;peer=4");
	static uint8_t frame[9700] = {1, 2, 3};

	sender_job.frame = frame;
	sender_job.frame_len = 100;
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, 1, 0), -ENODEV);
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, SP_MAX_PORTS, 0), -ENODEV); /* there is no exception port */
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, SP_PORT_LOOP, 0), -ENODEV);
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, 0xFFFF, 0), -ENODEV);
	sender_job.frame_len = 13;
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, 0, 0), -EMSGSIZE);
	sender_job.frame_len = 1500 + 14 + 8 + 1;
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, 0, 0), -EMSGSIZE);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1);
	CU_ASSERT(dut.port.sent[0].len == 100 && !memcmp(dut.port.sent[0].bytes, frame, 100));
	probe_end();
}

TEST(paths_go_somewhere_and_one_address_has_one)
{
	static const uint8_t nowhere[16] = DUT_IP4(203, 0, 113, 1), all[16] = DUT_IP4(192, 0, 2, 255);
	uint32_t id = sends_to("qp=5");
	uint64_t ip[2];

	memcpy(ip, nowhere, 16);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), -ENETUNREACH);
	memcpy(ip, all, 16);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), -ENETUNREACH);
	memcpy(ip, dut_peer4, 16);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0);
	CU_ASSERT_PTR_EQUAL(sender_job.path[0], sender_job.path[1]);
	probe_end();
}

/* A server has as many as it has clients; what it has closed makes room, once it was closed as often as opened. */
TEST(a_context_has_at_most_4096_paths_at_once)
{
	uint32_t id = sends_to("qp=5");
	uint8_t six[16];
	uint64_t ip[2];

	memcpy(six, dut_peer6, 16);
	for (unsigned i = 0; i < 4096; i++) {
		six[14] = (uint8_t)(i >> 8);
		six[15] = (uint8_t)(100 + i);
		memcpy(ip, six, 16);
		CU_ASSERT_EQUAL_FATAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0);
	}
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0); /* the last one's again */
	sender_job.paths--;
	six[13] = 7;
	memcpy(ip, six, 16);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), -ENOSPC);
	CU_ASSERT_EQUAL(sender_call(id, CMD_UNPATH, 4095, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), -ENOSPC);
	CU_ASSERT_EQUAL(sender_call(id, CMD_UNPATH, 4095, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_UNPATH, 17, 0), 0);
	six[13] = 8;
	memcpy(ip, six, 16);
	CU_ASSERT_EQUAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0);
	probe_end();
}

static uint32_t sends_to_strangers(const char *settings)
{
	probe_log_clear();
	dut_prepare(&dut, 1);
	dut_create(&dut);
	return dut_context(&dut, "s", "sender", settings);
}

TEST(a_packet_for_an_unknown_neighbour_waits_for_the_answer)
{
	static const uint8_t answer[42] = {2, 0, 0, 0, 0, 1, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
					   2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 2};
	uint32_t id = sends_to_strangers("qp=5;peer=4");
	uint8_t payload[32] = {9};
	struct sp_send s = {.dest_qp = 16, .len = 32, .bytes = payload};
	const uint8_t *f;

	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_settle(&dut, 10);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1); /* one request, although two packets wait */
	f = dut.port.sent[0].bytes;
	CU_ASSERT(!memcmp(f, "\xFF\xFF\xFF\xFF\xFF\xFF\2\0\0\0\0\1\x08\x06\0\1\x08\0\6\4\0\1", 22));
	CU_ASSERT(!memcmp(f + 22, dut_mac, 6) && !memcmp(f + 28, dut_own4 + 12, 4) &&
		  !memcmp(f + 38, dut_peer4 + 12, 4));
	dut_feed_bytes(&dut.port, 0, 300 * SP_MS, answer, sizeof(answer));
	dut_run(&dut, 10, 301 * SP_MS);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 3);
	for (unsigned i = 1; i < 3; i++) {
		check_frame(&dut.port.sent[i], &s, payload, false);
		CU_ASSERT_EQUAL(dut.port.sent[i].at, 300 * SP_MS);
	}
	CU_ASSERT_EQUAL(dut_dropped("tx-no-neighbour"), 0);
	/* From now on they leave at once. */
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_settle(&dut, 302 * SP_MS);
	CU_ASSERT_EQUAL(dut.port.sents, 4);
	probe_end();
}

TEST(without_an_answer_the_packet_is_dropped_as_tx_no_neighbour)
{
	for (unsigned six = 0; six < 2; six++) {
		uint32_t id = sends_to_strangers(six ? "qp=5;peer=:" : "qp=5;peer=4");
		struct sp_send s = {.dest_qp = 16};

		sender_job.send = &s;
		dut_settle(&dut, 5);
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
		/* Not before all requests have gone out, and soon after the last one has had its time. */
		dut_run(&dut, 5, SP_NEIGHBOUR_TRIES * SP_NEIGHBOUR_RETRY - SP_MS);
		CU_ASSERT_EQUAL(dut_dropped("tx-no-neighbour"), 0);
		dut_run(&dut, SP_NEIGHBOUR_TRIES * SP_NEIGHBOUR_RETRY, (SP_NEIGHBOUR_TRIES + 2) * SP_NEIGHBOUR_RETRY);
		CU_ASSERT_EQUAL(dut_dropped("tx-no-neighbour"), 1);
		for (unsigned i = 0; i < dut.port.sents; i++) {
			const uint8_t *f = dut.port.sent[i].bytes;

			if (six) { /* to the solicited-node multicast address of ...:1 */
				CU_ASSERT(!memcmp(f, "\x33\x33\xFF\0\0\1", 6) && be16(f + 12) == 0x86DD &&
					  f[14 + 40] == 135);
			} else {
				CU_ASSERT_EQUAL(be16(f + 12), 0x0806);
			}
		}
		CU_ASSERT(dut.port.sents >= SP_NEIGHBOUR_TRIES);
		/* Nothing waits, nothing is left to do but to forget the neighbour. */
		CU_ASSERT_EQUAL(dut.nic->worker[0]->pending_count, 0);
		probe_end();
	}
}

TEST(so_many_packets_may_wait_and_no_more)
{
	uint32_t id = sends_to_strangers("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16};

	sender_job.send = &s;
	for (unsigned i = 0; i < SP_NEIGHBOUR_PENDING; i++)
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EAGAIN);
	dut_run(&dut, 0, (SP_NEIGHBOUR_TRIES + 2) * SP_NEIGHBOUR_RETRY);
	CU_ASSERT_EQUAL(dut_dropped("tx-no-neighbour"), SP_NEIGHBOUR_PENDING);
	probe_end(); /* those still waiting at the end would be freed too */
}

TEST(a_port_that_takes_nothing_is_said_and_nothing_is_lost)
{
	uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16};

	sender_job.send = &s;
	dut.port.closed = true;
	for (s.psn = 0; s.psn < SP_TX_QUEUE; s.psn++)
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EAGAIN);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EAGAIN);
	dut.port.closed = false;
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, SP_TX_QUEUE);
	for (unsigned i = 0; i < SP_TX_QUEUE; i++)
		CU_ASSERT_EQUAL(dut.port.sent[i].bytes[14 + 20 + 8 + 11], i & 0xFF);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	probe_end();
}

/* ---- runs ---- */

#define RUN 70

static uint8_t run_ext[RUN][SP_EXT_MAX], run_bytes[1500];

/* Neighbours alike more often than not. From bytes, or of a region of 2000. */
static void any_run(struct sp_send *s, unsigned n, uint64_t *seed)
{
	static const uint32_t lens[] = {0, 1, 2, 63, 64, 64, 64, 65, 100, 1000, 1023};

	for (unsigned i = 0; i < n; i++) {
		const uint64_t x = dut_random(seed);

		if (!i || x % 3 == 0)
			s[i] = (struct sp_send){.dest_qp = (uint32_t)(16 + (x >> 8) % 2),
						.opcode = (uint8_t)(0x2A + (x >> 9) % 2),
						.flags = (x >> 10) % 4 ? 0 : SP_PKT_SE,
						.udp_source = (uint16_t)((x >> 12) % 2 ? 0xC001 : 0),
						.ext_len = (uint32_t)(x >> 13) % (SP_EXT_MAX / 4 + 1) * 4,
						.len = lens[(x >> 20) % RTE_DIM(lens)],
						.bytes = (x >> 30) % 3 ? NULL : run_bytes};
		else
			s[i] = s[i - 1];
		switch (x >> 33 & 15) { /* one thing alone */
		case 0:
			s[i].dest_qp ^= 1;
			break;
		case 1:
			s[i].opcode ^= 1;
			break;
		case 2:
			s[i].flags ^= SP_PKT_SE;
			break;
		case 3:
			s[i].udp_source ^= 0xC001;
			break;
		}
		s[i].psn = (uint32_t)(x >> 40);
		s[i].ext = run_ext[i];
		s[i].offset = s[i].bytes ? 0 : (x >> 32) % 977;
		for (unsigned k = 0; k < SP_EXT_MAX; k++)
			run_ext[i][k] = (uint8_t)dut_random(seed);
	}
}

TEST(the_packets_of_a_run_are_those_sent_one_by_one)
{
	static struct dut_sent first[RUN];

	for (unsigned six = 0; six < 2; six++) {
		const uint32_t id = sends_to(six ? "qp=5;peer=:" : "qp=5;peer=4");
		const struct sp_view *v = sp_context_by_id(dut.nic, id)->view[0];
		struct sp_send s[RUN];
		uint64_t seed = 7 + six, bytes;
		struct sp_mr *mr;
		unsigned differ = 0, at = 0;

		for (unsigned i = 0; i < sizeof(run_bytes); i++)
			run_bytes[i] = (uint8_t)dut_random(&seed);
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 2000, &mr), 0);
		for (unsigned i = 0; i < 2000; i++)
			((uint8_t *)mr->addr)[i] = (uint8_t)dut_random(&seed);
		sender_job.run = s;
		for (unsigned round = 0; round < 100; round++) {
			const unsigned n = 1 + round % RUN;

			any_run(s, n, &seed);
			sender_job.runs = n;
			bytes = v->sent_bytes;
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, mr->id), 0);
			CU_ASSERT_EQUAL_FATAL(sender_job.ran, (int)n);
			bytes = v->sent_bytes - bytes;
			dut_settle(&dut, ++at);
			CU_ASSERT_EQUAL_FATAL(dut.port.sents, n);
			for (unsigned i = 0; i < n; i++)
				first[i] = dut.port.sent[i];
			dut.port.sents = 0;
			for (unsigned i = 0; i < n; i++) {
				sender_job.send = &s[i];
				CU_ASSERT_EQUAL(sender_call(id, s[i].bytes ? CMD_SEND : CMD_SEND_MEM, 0, mr->id), 0);
				bytes -= 14 + (six ? 40 : 20) + 8 + 12 + s[i].ext_len + (s[i].len + 3) / 4 * 4 + 4;
			}
			CU_ASSERT_EQUAL(bytes, 0);
			dut_settle(&dut, ++at);
			CU_ASSERT_EQUAL_FATAL(dut.port.sents, n);
			for (unsigned i = 0; i < n; i++)
				differ += first[i].len != dut.port.sent[i].len ||
					  memcmp(first[i].bytes, dut.port.sent[i].bytes, first[i].len);
			dut.port.sents = 0;
		}
		CU_ASSERT_EQUAL(differ, 0);
		CU_ASSERT_EQUAL(v->sent % 2, 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		probe_end();
	}
}

/* Wherever the wrong one stands, and whatever is wrong with it: those before it go, and it is told when it is first. */
TEST(a_run_ends_before_the_first_that_cannot_be_sent)
{
	const uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s[RUN];
	struct sp_mr *mr;
	unsigned sent = 0, faults = 0;

	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 2000, &mr), 0);
	for (unsigned wrong = 0; wrong < 4; wrong++)
		for (unsigned at = 0; at < RUN; at += 1 + at % 4) {
			for (unsigned i = 0; i < RUN; i++)
				s[i] = (struct sp_send){.dest_qp = 16, .len = 64, .offset = i, .ext = run_ext[i]};
			s[at].len = wrong == 0 ? 1500 - 20 - 8 - 12 - 4 + 1 : wrong == 1 ? UINT32_MAX - 20 : 64;
			s[at].offset = wrong == 2 ? 2000 - 63 : wrong < 2 ? 0 : at;
			s[at].ext_len = wrong == 3 ? SP_EXT_MAX + 4 : 0;
			sender_job.run = s;
			sender_job.runs = RUN;
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, mr->id), at ? 0 : wrong == 2 ? -EFAULT : -EMSGSIZE);
			CU_ASSERT(sender_job.ran == (int)at || !at);
			faults += !at && wrong == 2;
			sender_job.run = s + at;
			sender_job.runs = RUN - at;
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, mr->id), wrong == 2 ? -EFAULT : -EMSGSIZE);
			faults += wrong == 2;
			sent += at;
			dut_settle(&dut, 1);
			CU_ASSERT_EQUAL(dut.port.sents, at);
			dut.port.sents = 0;
		}
	CU_ASSERT_EQUAL(dut_view(&dut, id, sent), sent);
	CU_ASSERT_EQUAL(dut_view(&dut, id, dma_faults), faults);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	probe_end();
}

TEST(of_a_run_as_many_go_as_there_is_room_for)
{
	const uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s[RUN];
	unsigned sent = 0;

	dut.port.closed = true;
	for (; sent < SP_TX_QUEUE; sent += (unsigned)sender_job.ran) {
		for (unsigned i = 0; i < RUN; i++)
			s[i] = (struct sp_send){.dest_qp = 16, .psn = sent + i, .len = 64, .bytes = run_bytes};
		sender_job.run = s;
		sender_job.runs = RUN;
		CU_ASSERT_EQUAL_FATAL(sender_call(id, CMD_SEND_RUN, 0, 0), 0);
		CU_ASSERT_EQUAL(sender_job.ran, RTE_MIN(RUN, SP_TX_QUEUE - (int)sent));
	}
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), -EAGAIN);
	dut.port.closed = false;
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, SP_TX_QUEUE);
	for (unsigned i = 0; i < SP_TX_QUEUE; i++)
		CU_ASSERT_EQUAL(dut.port.sent[i].bytes[14 + 20 + 8 + 11], i & 0xFF);
	probe_end();
}

/* However few buffers there are when it begins: as many go, and nothing that was taken for the others is kept. */
TEST(of_a_run_as_many_go_as_there_are_buffers_for)
{
	static struct rte_mbuf *taken[SP_PACKET_POOL];

	for (unsigned leave = 0; leave <= RUN; leave += leave % 5 + 1) {
		const uint32_t id = sends_to("qp=5;peer=4");
		const unsigned there = rte_mempool_avail_count(sp_registry_pool());
		struct sp_send s[RUN];
		unsigned n = 0;

		while (n + leave < there && (taken[n] = sp_packet_alloc()))
			n++;
		for (unsigned i = 0; i < RUN; i++)
			s[i] = (struct sp_send){.dest_qp = 16, .psn = i, .len = 64, .bytes = run_bytes};
		sender_job.run = s;
		sender_job.runs = RUN;
		dut.port.closed = true;
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), leave ? 0 : -EAGAIN);
		CU_ASSERT_EQUAL(sender_job.ran, leave ? (int)leave : -EAGAIN);
		CU_ASSERT_EQUAL(rte_mempool_avail_count(sp_registry_pool()), 0);
		dut.port.closed = false;
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL_FATAL(dut.port.sents, leave);
		for (unsigned i = 0; i < leave; i++)
			CU_ASSERT_EQUAL(dut.port.sent[i].bytes[14 + 20 + 8 + 11], i);
		CU_ASSERT_EQUAL(dut_view(&dut, id, sent), leave);
		rte_pktmbuf_free_bulk(taken, n);
		probe_end();
	}
}

/* Of what has already been queued nobody knows whose it is; what comes after is told with its sender, and once. */
TEST(a_capture_may_begin_and_end_while_runs_wait_for_the_port)
{
	const struct sp_capture_request all = {.snaplen = 128};
	const uint32_t id = sends_to("qp=5;peer=4");
	const struct sp_capture_memory *head;
	const struct sp_capture_ring *ring;
	struct sp_shared *memory;
	struct sp_mirror *mirror;
	struct sp_error error;
	struct sp_send s[RUN];

	sender_job.run = s;
	sender_job.runs = RUN;
	dut.port.closed = true;
	for (unsigned part = 0; part < 3; part++) {
		for (unsigned i = 0; i < RUN; i++)
			s[i] = (struct sp_send){.dest_qp = 16, .psn = part * RUN + i, .len = 64, .bytes = run_bytes};
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), 0);
		CU_ASSERT_EQUAL(sender_job.ran, RUN);
		if (part == 0)
			CU_ASSERT_EQUAL_FATAL(sp_mirror_open(dut.nic, &all, &error, &mirror, &memory), 0);
		if (part < 1)
			continue;
		dut.port.closed = part == 2;
		dut_settle(&dut, 1);
		if (part == 2)
			break;
		head = memory->base;
		ring = (const void *)((const uint8_t *)head + head->first);
		CU_ASSERT_EQUAL_FATAL(ring->tail, 2 * RUN);
		for (unsigned i = 0; i < 2 * RUN; i++) {
			const struct sp_capture_slot *slot =
				(const void *)((const uint8_t *)(ring + 1) + (uint64_t)i * head->slot_bytes);

			CU_ASSERT_STRING_EQUAL(slot->context, i < RUN ? "" : "s");
			CU_ASSERT_EQUAL(slot->fate, SP_CAPTURE_SENT);
			CU_ASSERT_EQUAL(slot->frame[14 + 20 + 8 + 11], i);
		}
		dut.port.closed = true;
	}
	sp_mirror_close(dut.nic, mirror); /* with a run that it has heard of, and one that it has not, in the queue */
	for (unsigned i = 0; i < RUN; i++)
		s[i].psn = 3 * RUN + i;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), 0);
	dut.port.closed = false;
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 4 * RUN);
	for (unsigned i = 0; i < 4 * RUN; i++) {
		CU_ASSERT_EQUAL(be16(dut.port.sent[i].bytes + 14 + 20 + 8 + 10), i);
		CU_ASSERT_EQUAL(dut.port.sent[i].len, 14 + 20 + 8 + 12 + 64 + 4);
	}
	probe_end();
}

TEST(a_run_to_a_stranger_waits_as_far_as_there_is_room)
{
	const uint32_t id = sends_to_strangers("qp=5;peer=4");
	struct sp_send s[RUN] = {0};

	static_assert(RUN > SP_NEIGHBOUR_PENDING, "too many");
	for (unsigned i = 0; i < RUN; i++)
		s[i] = (struct sp_send){.dest_qp = 16, .bytes = run_bytes};
	sender_job.run = s;
	sender_job.runs = RUN;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_job.ran, SP_NEIGHBOUR_PENDING);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), -EAGAIN);
	probe_end();
}

/* Of packets beside the pace too: what is charged is the same. */
TEST(a_run_takes_as_much_of_the_pace_as_its_packets)
{
	const uint32_t id = sends_to("qp=5;peer=4");
	struct sp_context *c = sp_context_by_id(dut.nic, id);
	struct sp_send s[RUN];
	uint64_t seed = 3;
	sp_time began;

	any_run(s, RUN, &seed);
	for (unsigned i = 0; i < RUN; i++) {
		s[i].bytes = run_bytes;
		s[i].flags |= i % 5 ? 0 : SP_SEND_UNPACED;
	}
	CU_ASSERT_EQUAL(sp_pace(&c->view[0]->pub, 1234567890), 0);
	began = c->tx_next;
	sender_job.run = s;
	sender_job.runs = RUN;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_job.ran, RUN);
	const sp_time took = c->tx_next - began;

	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_pace(&c->view[0]->pub, 1234567890), 0); /* forgets what is left of a division */
	began = c->tx_next;
	for (unsigned i = 0; i < RUN; i++) {
		sender_job.send = &s[i];
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	}
	CU_ASSERT(took > 0);
	CU_ASSERT_EQUAL(c->tx_next - began, took);
	dut_settle(&dut, 2);
	probe_end();
}

TEST(checksums_are_those_of_rfc_1071)
{
	/* Its own example, section 3: 00 01 f2 03 f4 f5 f6 f7, sum ddf2. */
	static const uint8_t bytes[] = {0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7, 0xAB};
	uint16_t sum = sp_checksum(bytes, 8, 0);

	CU_ASSERT_EQUAL(sum, (uint16_t)~rte_cpu_to_be_16(0xDDF2));
	sum = sp_checksum(bytes, 9, 0); /* odd: as if a zero byte followed */
	CU_ASSERT_EQUAL(sum, (uint16_t)~rte_cpu_to_be_16((uint16_t)(0xDDF2 + 0xAB00 - 0xFFFF)));
	CU_ASSERT_EQUAL(sp_checksum(bytes, 0, 0), 0xFFFF);
}
