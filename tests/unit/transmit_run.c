/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of packets sent in one call are those sent one by one. */
#include "../../pipeline/observe/capture.h"
#include "../../pipeline/mem/shm.h"
#include "../lib/sender.h"

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
		case 4:
			s[i].traffic_class ^= 0xB8;
			break;
		case 5:
			s[i].hop_limit ^= 3;
			break;
		case 6:
			s[i].flags ^= SP_SEND_ECT;
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
		probe_stop();
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
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, mr->id), at	       ? 0
										  : wrong == 2 ? -EFAULT
											       : -EMSGSIZE);
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
	probe_stop();
}

TEST(a_run_sends_as_many_packets_as_there_is_room_for)
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
	probe_stop();
}

/* However few buffers there are when it begins: as many go, and nothing that was taken for the others is kept. */
TEST(a_run_sends_as_many_packets_as_there_are_buffers)
{
	static struct rte_mbuf *taken[SP_PACKET_POOL];

	for (unsigned leave = 0; leave <= RUN; leave += leave % 5 + 1) {
		const uint32_t id = sends_to("qp=5;peer=4");
		const unsigned there = rte_mempool_avail_count(sp_process_pool());
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
		CU_ASSERT_EQUAL(rte_mempool_avail_count(sp_process_pool()), 0);
		dut.port.closed = false;
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL_FATAL(dut.port.sents, leave);
		for (unsigned i = 0; i < leave; i++)
			CU_ASSERT_EQUAL(dut.port.sent[i].bytes[14 + 20 + 8 + 11], i);
		CU_ASSERT_EQUAL(dut_view(&dut, id, sent), leave);
		rte_pktmbuf_free_bulk(taken, n);
		probe_stop();
	}
}

/* Of what has already been queued nobody knows whose it is; what comes after is told with its sender, and once. */
TEST(a_capture_may_begin_and_end_while_runs_wait_for_the_port)
{
	const struct sp_capture_request all = {.snaplen = 128};
	const uint32_t id = sends_to("qp=5;peer=4");
	const struct sp_capture_memory *head;
	const struct sp_capture_ring *ring;
	struct sp_shm memory;
	struct sp_capture *capture;
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
		if (part == 0) {
			CU_ASSERT_EQUAL_FATAL(sp_shm_private(sp_capture_bytes(dut.nic, &all), &memory), 0);
			head = memory.base;
			sp_capture_init(dut.nic, &all, memory.base);
			CU_ASSERT_EQUAL_FATAL(sp_capture_open(dut.nic, &all, &memory, &error, &capture), 0);
		}
		if (part < 1)
			continue;
		dut.port.closed = part == 2;
		dut_settle(&dut, 1);
		if (part == 2)
			break;
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
	sp_capture_close(dut.nic, capture,
			 0); /* with a run that it has heard of, and one that it has not, in the queue */
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
	probe_stop();
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
	probe_stop();
}

/* Of packets beside the pace too: what is charged is the same. */
TEST(a_run_takes_as_much_of_the_pace_as_its_packets)
{
	const uint32_t id = sends_to("qp=5;peer=4");
	struct sp_context *c = sp_context_by_id(dut.nic, id);
	struct sp_send s[RUN];
	uint64_t seed = 3;

	any_run(s, RUN, &seed);
	for (unsigned i = 0; i < RUN; i++) {
		s[i].bytes = run_bytes;
		s[i].flags |= i % 5 ? 0 : SP_SEND_UNPACED;
	}
	CU_ASSERT_EQUAL(sp_pace(&c->view[0]->pub, 1234567890), 0);
	sp_time began = c->view[0]->tx_next;
	sender_job.run = s;
	sender_job.runs = RUN;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_RUN, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_job.ran, RUN);
	const sp_time took = c->view[0]->tx_next - began;

	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(sp_pace(&c->view[0]->pub, 1234567890), 0); /* forgets what is left of a division */
	began = c->view[0]->tx_next;
	for (unsigned i = 0; i < RUN; i++) {
		sender_job.send = &s[i];
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	}
	CU_ASSERT(took > 0);
	CU_ASSERT_EQUAL(c->view[0]->tx_next - began, took);
	dut_settle(&dut, 2);
	probe_stop();
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
