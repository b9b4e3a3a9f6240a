/* SPDX-License-Identifier: BSD-3-Clause */
/* Capturing what is only settled later than it arrives: packets that wait for another worker, and what is sent, which
 * is told when the port has taken it. */
#include "../lib/capture_client.h"

/* ---- packets that wait ---- */

static void poll_the_other(void)
{
	unsigned rounds = 0;

	while (sp_nic_poll(dut.nic, 1, 5) && ++rounds < 20)
		;
}

static void with_two_workers(void)
{
	probe_log_clear();
	dut_start(&dut, 2);
	dut_context(&dut, "c", "hashed", "qp=64;filter=udp port 7");
}

/* `packets` of them wait at worker 1 while worker 0 is in header. */
static void let_wait(unsigned packets, bool udp)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .key = 7};
	struct frame f;

	probe_log.in_header = poll_the_other;
	probe_feed(&dut, 64, &w);
	for (w.serial = 1; w.serial <= packets; w.serial++) {
		if (udp)
			dut_udp(&f, 7, &w, sizeof(w));
		else
			dut_roce(&f, FRAME_IP4, 64, 0, &w, sizeof(w));
		dut_feed_bytes(&dut.port, 1, 0, f.bytes, f.len);
	}
	sp_nic_poll(dut.nic, 0, 5);
}

TEST(packets_that_wait_are_told_when_they_are_settled)
{
	const struct sp_capture_slot *s;

	with_two_workers();
	struct reader r = CAPTURE(0);
	let_wait(SP_PARKED + 10, false);
	expect(&r, TAKEN, "c", "", SP_DONE); /* worker 0's */
	for (unsigned i = 0; i < 10; i++)
		cap_expect_of(&r, 1, SP_CAPTURE_DROPPED, "c", "header-busy", NO, __LINE__);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	dut_settle(&dut, 6);
	for (uint32_t serial = 1; serial <= SP_PARKED; serial++) {
		uint32_t there;

		s = cap_next_of(&r, 1);
		CU_ASSERT_PTR_NOT_NULL_FATAL(s);
		CU_ASSERT_EQUAL(s->fate, SP_CAPTURE_TAKEN);
		CU_ASSERT_STRING_EQUAL(s->context, "c");
		memcpy(&there, s->frame + 14 + 20 + 8 + 12 + offsetof(struct probe_words, serial), 4);
		CU_ASSERT_EQUAL(there, serial);
	}
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	CU_ASSERT_EQUAL(cap_lost(&r), 0);
	cap_close(&r);
	probe_stop();
}

static const struct sp_handler at_home = {SP_HANDLER_HEAD, .name = "at-home", .drops = probe_drops,
					  .flags = SP_HANDLER_HOME, .payload = probe_payload};
SP_HANDLER(at_home)

TEST(a_packet_handed_over_is_told_once_by_the_worker_that_handles_it)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .verdict = SP_DROP(1)};
	struct frame f;

	with_two_workers();
	dut_context(&dut, "home", "at-home", "qp=66"); /* worker 1 is its home */
	struct reader r = CAPTURE(0);
	for (unsigned i = 0; i < SP_HANDOVER + 5; i++) {
		w.verdict = i & 1 ? SP_DROP(1) : SP_DONE;
		dut_roce(&f, FRAME_IP4, 66, 0, &w, sizeof(w));
		dut_feed_bytes(&dut.port, 0, 0, f.bytes, f.len);
	}
	while (sp_nic_poll(dut.nic, 0, 5))
		;
	for (unsigned i = 0; i < 5; i++)
		expect(&r, DROPPED, "", "handover-full", NO);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	dut_settle(&dut, 6);
	for (unsigned i = 0; i < SP_HANDOVER; i++)
		cap_expect_of(&r, 1, i & 1 ? SP_CAPTURE_DROPPED : SP_CAPTURE_TAKEN, "home", i & 1 ? "probe-one" : "",
			      i & 1 ? SP_DROP_KIND : SP_DONE, __LINE__);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
	probe_stop();
}

TEST(packets_that_wait_for_a_context_that_goes_are_told_as_context_closed)
{
	struct reader r;
	uint32_t id;

	with_two_workers();
	r = CAPTURE(.flags = SP_CAPTURE_DROPS);
	let_wait(5, false);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	CU_ASSERT_EQUAL(sp_nic_context_find(dut.nic, "c", &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	for (unsigned i = 0; i < 5; i++)
		cap_expect_of(&r, 1, SP_CAPTURE_DROPPED, "c", "context-closed", NO, __LINE__);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
	probe_stop();
}

TEST(captures_come_and_go_while_packets_wait)
{
	with_two_workers();
	let_wait(5, true); /* before */
	struct reader r = CAPTURE(0);
	dut_settle(&dut, 6);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
	probe_stop();

	with_two_workers();
	r = CAPTURE(0);
	let_wait(5, true);
	cap_close(&r); /* during */
	dut_settle(&dut, 6);
	probe_stop();

	for (unsigned other = 0; other < 2; other++) { /* the same place, another filter */
		struct reader held = {0};

		with_two_workers();
		r = CAPTURE(0);
		if (other)
			held = CAPTURE(0);
		let_wait(5, true);
		cap_close(&r);
		r = CAPTURE(.filter = "udp port 4791");
		dut_settle(&dut, 6);
		CU_ASSERT_EQUAL(cap_left(&r), 0);
		cap_close(&r);
		if (other) {
			CU_ASSERT_EQUAL(cap_left(&held), 6);
			cap_close(&held);
		}
		probe_stop();
	}
}

/* ---- what is sent ---- */

static uint32_t sends(bool known)
{
	static const struct sp_neighbour_config peer = {DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}};

	probe_log_clear();
	dut_prepare(&dut, 1);
	dut.config.neighbour[0] = peer;
	dut.config.neighbours = known;
	dut_create(&dut);
	return dut_context(&dut, "s", "sender", "qp=5;peer=4");
}

TEST(packets_that_a_context_sends_name_it)
{
	static uint8_t frame[60] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5};
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B};
	const struct sp_capture_slot *slot;
	uint32_t id = sends(true);
	struct reader r = CAPTURE(0);

	sender_job.send = &s;
	sender_job.frame = frame;
	sender_job.frame_len = sizeof(frame);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, 0, 0), 0);
	dut_feed_bytes(&dut.port, 0, 0, arp_request, sizeof(arp_request));
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(dut.port.sents, 3);
	for (unsigned i = 0, seen = 0; seen < 3; i++) {
		slot = cap_next_of(&r, 0);
		CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
		if (!slot->outgoing)
			continue;
		CU_ASSERT_EQUAL(slot->fate, SP_CAPTURE_SENT);
		CU_ASSERT_EQUAL(slot->length, dut.port.sent[seen].len);
		CU_ASSERT(!memcmp(slot->frame, dut.port.sent[seen].bytes, slot->length));
		CU_ASSERT_STRING_EQUAL(slot->context, seen < 2 ? "s" : "");
		seen++;
	}
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
	probe_stop();
}

TEST(a_frame_is_sent_when_the_port_has_taken_it_and_then_once)
{
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B};
	uint32_t id = sends(true);
	struct reader r = CAPTURE(0), d = CAPTURE(.flags = SP_CAPTURE_DROPS);

	sender_job.send = &s;
	dut.port.closed = true;
	for (unsigned i = 0; i < SP_TX_QUEUE; i++)
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), -EAGAIN); /* seen beforehand: nothing is dropped */
	for (unsigned i = 0; i < 10; i++)
		dut_poll(&dut, 1 + i);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	dut_feed_bytes(&dut.port, 0, 0, arp_request, sizeof(arp_request));
	dut_poll(&dut, 20); /* the answer finds no place */
	expect(&r, DROPPED, "", "tx-full", NO);
	expect(&r, ANSWERED, "", "", NO);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	expect(&d, DROPPED, "", "tx-full", NO);
	CU_ASSERT_EQUAL(cap_left(&d), 0);
	dut.port.closed = false;
	dut.port.gap = 10;
	for (unsigned i = 0; i < SP_TX_QUEUE; i++) { /* one at a time */
		dut_poll(&dut, 100 + 10 * i);
		CU_ASSERT_EQUAL_FATAL(dut.port.sents, i + 1);
		expect(&r, SENT, "s", "", NO);
		CU_ASSERT_EQUAL_FATAL(cap_left(&r), 0);
	}
	dut_feed_bytes(&dut.port, 0, 0, arp_request,
		       sizeof(arp_request)); /* its answer is not s's, though it has its place */
	dut_settle(&dut, 100000);
	expect(&r, ANSWERED, "", "", NO);
	dut_settle(&dut, 200000);
	expect(&r, SENT, "", "", NO);
	cap_close(&r);
	cap_close(&d);
	probe_stop();
}

TEST(a_frame_that_waits_for_a_neighbour_keeps_its_context)
{
	static const uint8_t answer[42] = {2, 0, 0, 0, 0, 1, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
					   2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 2};
	struct sp_send s = {.dest_qp = 16};
	uint32_t id = sends(false);
	struct reader r = CAPTURE(.filter = "udp");

	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_settle(&dut, 10);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	dut_feed_bytes(&dut.port, 0, 300 * SP_MS, answer, sizeof(answer));
	dut_run(&dut, 10, 301 * SP_MS);
	expect(&r, SENT, "s", "", NO);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
	probe_stop();

	id = sends(false);
	r = CAPTURE(.flags = SP_CAPTURE_DROPS);
	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_run(&dut, 10, 10 * SP_SEC);
	expect(&r, DROPPED, "s", "tx-no-neighbour", NO);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
	probe_stop();
}

TEST(what_the_nic_sends_to_itself_is_told_once_as_it_arrives)
{
	struct sp_send s = {.dest_qp = 16, .opcode = 0x2B};
	uint64_t own[2];

	probe_start();
	dut_context(&dut, "a", "plain", "qp=16");
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5");
	memcpy(own, dut_own4, 16);
	CU_ASSERT_EQUAL_FATAL(sender_call(id, CMD_PATH, own[0], own[1]), 0);
	struct reader r = CAPTURE(0);
	CU_ASSERT_STRING_EQUAL(r.head->port[SP_CAPTURE_LOOP], "loop");
	sender_job.send = &s;
	dut.nic->worker[0]->tsc = 7;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut.nic->worker[0]->tsc = 8; /* it arrives in the next round */
	dut_settle(&dut, 1);
	const struct sp_capture_slot *slot = cap_next_of(&r, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
	CU_ASSERT(slot->port == SP_CAPTURE_LOOP && !slot->outgoing && slot->fate == SP_CAPTURE_TAKEN);
	CU_ASSERT_STRING_EQUAL(slot->context, "a");
	CU_ASSERT(slot->tsc[SP_CAPTURE_ROUND] == 7 && slot->tsc[SP_CAPTURE_IN_HAND] > 8 &&
		  slot->tsc[SP_CAPTURE_PASSED] > slot->tsc[SP_CAPTURE_IN_HAND]);
	CU_ASSERT_EQUAL(cap_left(&r), 0);
	cap_close(&r);
	dut_stop(&dut);
	probe_log_clear();
}
