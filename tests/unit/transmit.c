/* SPDX-License-Identifier: BSD-3-Clause */
/* The way out: what a frame sent must have, to whom, and what happens when neighbour or port holds it up. */
#include "../../pipeline/observe/capture.h"
#include "../../pipeline/tx/neighbour.h"
#include "../../pipeline/mem/shm.h"
#include "../lib/sender.h"

/* Everything that a frame of sp_send_roce must have, from the specifications. */
static void check_frame(const struct dut_sent *s, const struct sp_send *want, const uint8_t *payload, bool six)
{
	const uint8_t *f = s->bytes, *l3 = f + 14, *udp = l3 + (six ? 40 : 20), *bth = udp + 8;
	const unsigned pad = (4 - want->len % 4) % 4, above = 12 + want->ext_len + want->len + pad + 4;
	const unsigned class = (want->traffic_class & 0xFC) | (want->flags & SP_SEND_ECT ? 2 : 0);
	uint32_t sum = 0, crc;

	CU_ASSERT_EQUAL_FATAL(s->len, 14 + (six ? 40 : 20) + 8 + above);
	CU_ASSERT(!memcmp(f, dut_peer_mac, 6));
	CU_ASSERT(!memcmp(f + 6, dut_mac, 6));
	CU_ASSERT_EQUAL(be16(f + 12), six ? 0x86DD : 0x0800);
	if (six) {
		CU_ASSERT_EQUAL(be16(l3), 0x6000 | class << 4);
		CU_ASSERT_EQUAL(be16(l3 + 2), 0);
		CU_ASSERT_EQUAL(be16(l3 + 4), 8 + above);
		CU_ASSERT_EQUAL(l3[6], 17);
		CU_ASSERT_EQUAL(l3[7], want->hop_limit ? want->hop_limit : 64);
		CU_ASSERT(!memcmp(l3 + 8, dut_own6, 16));
		CU_ASSERT(!memcmp(l3 + 24, dut_peer6, 16));
	} else {
		CU_ASSERT_EQUAL(be16(l3), 0x4500 | class);
		CU_ASSERT_EQUAL(be16(l3 + 2), 20 + 8 + above);
		CU_ASSERT_EQUAL(be16(l3 + 6), 0x4000); /* don't fragment */
		CU_ASSERT_EQUAL(l3[8], want->hop_limit ? want->hop_limit : 64);
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
					    .flags = (len % 3 ? 0 : SP_PKT_SE) | (len % 5 ? 0 : SP_SEND_ECT),
					    .traffic_class = len % 4 ? 0 : (uint8_t)dut_random(&seed),
					    .hop_limit = len % 7 ? 0 : (uint8_t)dut_random(&seed),
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
		probe_stop();
	}
}

/* The same as without, and the tag. */
TEST(a_nic_in_a_vlan_sends_tagged_frames)
{
	static uint8_t bytes[4][80][1600], memory[2048];
	static const uint8_t tag[4] = {0x81, 0x00, 0x0A, 0xBC};
	uint32_t lens[4][80], sents[4];

	for (unsigned i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i * 7);
	for (unsigned round = 0; round < 4; round++) { /* IPv4, IPv6; each with a tag and without */
		struct sp_send run[20] = {0};
		uint32_t id = sends_in(round & 1 ? 0xABC : 0, round & 2 ? "qp=5;peer=:" : "qp=5;peer=4");

		for (unsigned i = 0; i < 20; i++)
			run[i] = (struct sp_send){.dest_qp = 16,
						  .psn = i,
						  .opcode = 0x2B,
						  .udp_source = (uint16_t)(50000 + i / 7),
						  .ext = memory,
						  .ext_len = 20,
						  .len = i < 10 ? 64 : i * 50,
						  .bytes = memory + i};
		for (unsigned i = 0; i < 20; i++) {
			sender_job.send = &run[i];
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
		}
		sender_job.run = run;
		sender_job.runs = 20;
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), 0);
		CU_ASSERT_EQUAL(sender_job.ran, 20);
		dut_settle(&dut, 1);
		sents[round] = dut.port.sents;
		CU_ASSERT_EQUAL_FATAL(sents[round], 40);
		for (unsigned i = 0; i < sents[round]; i++) {
			lens[round][i] = dut.port.sent[i].len;
			memcpy(bytes[round][i], dut.port.sent[i].bytes, lens[round][i]);
		}
		CU_ASSERT_EQUAL(dut_view(&dut, id, sent), 40);
		probe_stop();
		for (unsigned i = 0; round & 1 && i < 40; i++) {
			const uint8_t *with = bytes[round][i], *without = bytes[round - 1][i];
			const uint32_t len = lens[round - 1][i];

			CU_ASSERT_EQUAL(lens[round][i], len + 4);
			CU_ASSERT(!memcmp(with, without, 12) && !memcmp(with + 12, tag, 4) &&
				  !memcmp(with + 16, without + 12, len - 12));
		}
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
	probe_stop();
}

TEST(values_that_do_not_fit_are_refused)
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
	probe_stop();
}

TEST(payload_comes_from_inside_the_region_only)
{
	uint32_t id = sends_to("qp=5;peer=4");
	struct sp_send s = {.dest_qp = 16, .len = 40};
	struct sp_mr *mr;

	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 100, &mr), 0);
	uint8_t *memory = mr->addr;
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
	probe_stop();
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
	probe_stop();
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
	probe_stop();
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
	probe_stop();
}

TEST(a_packet_for_an_unknown_neighbour_waits_for_the_answer)
{
	static const uint8_t answer[42] = {2, 0, 0, 0, 0, 1, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
					   2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 2};
	uint32_t id = sends_to_strangers("qp=5;peer=4");
	uint8_t payload[32] = {9};
	struct sp_send s = {.dest_qp = 16, .len = 32, .bytes = payload};

	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_settle(&dut, 10);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1); /* one request, although two packets wait */
	const uint8_t *f = dut.port.sent[0].bytes;
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
	probe_stop();
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
		CU_ASSERT_EQUAL(dut.nic->worker[0]->pending.count, 0);
		probe_stop();
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
	probe_stop(); /* those still waiting at the end would be freed too */
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
	probe_stop();
}
