/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC that talks to itself: contexts reach each other by its own addresses, as by a wire but without one. */
#include "../../host-api/sdr.h"
#include "../../pipeline/tx/transmit.h"
#include "../../testbed/world.h"
#include "../lib/sender.h"

#include <sys/socket.h>

static struct sp_nic_totals totals(void)
{
	struct sp_nic_totals t;

	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, t.taken + t.forwarded + t.dropped);
	return t;
}

static void finish(void)
{
	CU_ASSERT_EQUAL(dut.port.sents, 0); /* no test here sends by a port */
	totals();
	dut_stop(&dut);
	probe_log_clear();
}

static unsigned open_path(uint32_t id, const uint8_t *to)
{
	uint64_t ip[2];

	memcpy(ip, to, 16);
	CU_ASSERT_EQUAL_FATAL(sender_call(id, CMD_PATH, ip[0], ip[1]), 0);
	return sender_job.paths - 1;
}

TEST(a_packet_to_an_own_address_is_received_and_touches_no_port)
{
	for (unsigned six = 0; six < 2; six++) {
		const uint8_t *own = six ? dut_own6 : dut_own4;
		struct sp_send s = {.dest_qp = 16, .bytes = "0123456789", .len = 10};

#define RULE(rule) TEST_BETWEEN(probe_start, finish, rule)

		probe_start();
		uint32_t from = dut_context(&dut, "s", "sender", "qp=5");
		uint32_t to = dut_context(&dut, "a", "plain", "qp=16");
		sender_job.send = &s;
		CU_ASSERT_EQUAL(sender_call(from, CMD_SEND, open_path(from, own), 0), 0);
		CU_ASSERT_EQUAL(dut_counter(&dut, to, "packets"), 0); /* not from within the sender's call */
		CU_ASSERT_EQUAL(dut_deadline(&dut), dut.nic->worker[0]->now);
		CU_ASSERT_EQUAL(dut_run(&dut, 7, SP_MS), 7); /* and no later either */
		CU_ASSERT_EQUAL(dut_counter(&dut, to, "packets"), 1);
		struct sp_nic_totals t = totals();
		CU_ASSERT_EQUAL(t.received, 1);
		CU_ASSERT_EQUAL(t.taken, 1);
		CU_ASSERT_EQUAL(t.sent, 1);
		CU_ASSERT_EQUAL(t.bytes, 14 + (six ? 40 : 20) + 8 + 12 + 12 + 4);
		CU_ASSERT_EQUAL(t.sent_bytes, t.bytes);
		finish();
	}
}

RULE(the_report_names_the_loop_once_there_is_one)
{
	struct sp_send s = {.dest_qp = 16};

	uint32_t id = dut_context(&dut, "s", "sender", "qp=16");
	sender_job.send = &s;
	for (unsigned round = 0; round < 2; round++) {
		struct sp_report *r = sp_report_new();

		sp_nic_report(dut.nic, r);
		char *text = sp_report_finish(r);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
		CU_ASSERT_EQUAL(strstr(text, "\"loop\"") != NULL, round == 1);
		free(text);
		if (!round)
			CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, open_path(id, dut_own4), 0), 0);
		dut_settle(&dut, 1);
	}
}

RULE(what_loops_is_checked_like_anything_received)
{
	struct sp_send s = {.dest_qp = 16, .bytes = "0123", .len = 4};

	uint32_t id = dut_context(&dut, "s", "sender", "qp=16");
	sender_job.send = &s;
	open_path(id, dut_own4);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	CU_ASSERT_EQUAL_FATAL(dut.nic->worker[0]->tx[SP_PORT_LOOP].count, 1);
	rte_pktmbuf_mtod(dut.nic->worker[0]->tx[SP_PORT_LOOP].packet[0], uint8_t *)[14 + 20 + 8 + 12] ^= 1;
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_dropped("bad-icrc"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 0);
	s.dest_qp = 17; /* nobody's */
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(dut_dropped("bad-qp"), 1);
}

TEST(the_queue_is_bounded_and_gives_room_again)
{
	struct sp_send s = {.dest_qp = 16};

	probe_start();
	uint32_t id = dut_context(&dut, "s", "sender", "qp=16");
	sender_job.send = &s;
	open_path(id, dut_own4);
	for (unsigned round = 0; round < 2; round++) {
		unsigned sent = 0;

		/* A call polls once, and a poll takes a burst: what goes in faster than that comes to an end. */
		for (struct sp_ctx *c = &sp_context_by_id(dut.nic, id)->view[0]->pub; sent < 100000; sent++)
			if (sp_send_roce(c, sender_job.path[0], &s))
				break;
		CU_ASSERT_EQUAL(sent, SP_TX_QUEUE);
		dut_settle(&dut, 1 + round);
		CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), (round + 1) * SP_TX_QUEUE);
	}
	CU_ASSERT_EQUAL(dut_dropped("tx-full"), 0); /* nothing was lost: the sender was told */
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(sp_send_roce(&sp_context_by_id(dut.nic, id)->view[0]->pub, sender_job.path[0], &s), 0);
	finish(); /* with packets in the queue: their buffers come back */
}

TEST(nobody_on_a_wire_can_pretend_to_be_the_nic)
{
	static const uint8_t as_itself[16] = DUT_IP4(192, 0, 2, 2);
	struct sp_send s = {.dest_qp = 16};
	struct sp_path *path;
	struct frame f;

	probe_start();
	uint32_t id = dut_context(&dut, "s", "sender", "qp=16");
	struct sp_context *c = sp_context_by_id(dut.nic, id);
	CU_ASSERT_EQUAL_FATAL(sp_path_open(&c->view[0]->pub, as_itself, true, &path), 0);
	CU_ASSERT_EQUAL(sp_send_roce(&c->view[0]->pub, path, &s), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	dut_roce(&f, FRAME_IP4, 16, 0, "abcd", 4); /* the same, by the port */
	memcpy(f.bytes + f.l3 + 12, dut_own4 + 12, 4);
	memset(f.bytes + f.l3 + 10, 0, 2);
	uint16_t sum = sp_checksum(f.bytes + f.l3, 20, 0);
	memcpy(f.bytes + f.l3 + 10, &sum, 2);
	dut_seal(&f);
	dut_feed(&dut, &f);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
	CU_ASSERT_EQUAL(dut_dropped("wrong-source"), 1);
	finish();
}

RULE(a_looped_packet_cannot_be_sent_round_for_ever)
{
	struct probe_words words = {.magic = PROBE_MAGIC, .verdict = SP_SENT, .action = PROBE_SEND};
	struct sp_send s = {.dest_qp = 17, .bytes = &words, .len = sizeof(words)};

	uint32_t id = dut_context(&dut, "s", "sender", "qp=16");
	uint32_t capture = dut_context(&dut, "a", "plain", "qp=17");
	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, open_path(id, dut_own4), 0), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_view(&dut, capture, errors), 1); /* it had not been sent: there is no port */
	CU_ASSERT_EQUAL(dut_dropped("handler-error"), 1);
	CU_ASSERT_EQUAL(totals().received, 1);
}

RULE(a_port_that_stands_still_does_not_hold_up_the_loop)
{
	struct sp_send s = {.dest_qp = 16};

	uint32_t id = dut_context(&dut, "s", "sender", "qp=16");
	dut.port.closed = true;
	sender_job.send = &s;
	sender_job.frame = (const uint8_t[60]){1};
	sender_job.frame_len = 60;
	for (unsigned i = 0; i < SP_TX_QUEUE; i++)
		CU_ASSERT_EQUAL(sender_call(id, CMD_FRAME, 0, 0), 0);
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, open_path(id, dut_own4), 0), 0);
	dut_run(&dut, 5, SP_MS);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "packets"), 1);
}

/* ---- SDR: two applications on one NIC ---- */

#define ROOM  (1u << 20)
#define BYTES 300001u

static struct party {
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
} party[2];

static bool received(void *arg)
{
	return sdr_recv_test(arg) == 0;
}

static bool completed(void *arg)
{
	return sdr_recv_complete(arg) == 0;
}

static void a_message_by_the_loop(uint16_t workers, int family, uint64_t rate)
{
	struct sdr_qp_attr attr = {.mtu = 1024,
				   .chunk_bytes = 4096,
				   .max_message_bytes = ROOM,
				   .max_messages = 4,
				   .family = family,
				   .rate_bps = rate};
	struct sp_error error = {.text = ""};
	struct sp_world *world;
	struct sdr_qp_info info[2];
	struct sdr_send *send;
	struct sdr_recv *recv;

	probe_log_clear();
	dut_prepare(&dut, workers);
	dut_create(&dut);
	CU_ASSERT_EQUAL_FATAL(sp_world_create(&world), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(world, dut.nic), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct party *p = &party[i];

		attr.qpn = 0x100 + 0x100 * i;
		attr.nonce = 7 + i;
		CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &p->dev), 0);
		CU_ASSERT_EQUAL_FATAL(sdr_context_create(p->dev, NULL, &p->context), 0);
		CU_ASSERT_EQUAL_FATAL(sdr_mr_alloc(p->context, ROOM, &p->mr), 0);
		if (sdr_qp_create(p->context, &attr, &p->qp, &error))
			printf("# %s: %s\n", error.key, error.text);
		CU_ASSERT_PTR_NOT_NULL_FATAL(p->qp);
		sdr_qp_info_get(p->qp, &info[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(party[i].qp, &info[!i]), 0);
	if (rate) { /* a frame waits for a port that takes nothing: the pace goes on all the same */
		dut.port.closed = true;
		CU_ASSERT_EQUAL(sp_transmit_frame(dut.nic->worker[0], 0, (const uint8_t[60]){1}, 60), 0);
	}
	for (uint32_t i = 0; i < BYTES; i++)
		((uint8_t *)party[0].mr->addr)[i] = (uint8_t)(i * 13 + i / 997);
	for (unsigned round = 0; round < 3; round++) {
		struct sdr_recv_status status;

		memset(party[1].mr->addr, 0, ROOM);
		CU_ASSERT_EQUAL_FATAL(sdr_recv_post(party[1].qp, party[1].mr, 0, BYTES, &recv), 0);
		CU_ASSERT_EQUAL_FATAL(sdr_send_post(party[0].qp, party[0].mr, 0, BYTES, 0, &send), 0);
		sp_world_run(world, sp_world_now(world) + SP_SEC, received, recv);
		sdr_recv_status(recv, &status);
		CU_ASSERT_EQUAL(status.length, BYTES);
		CU_ASSERT(!memcmp(party[0].mr->addr, party[1].mr->addr, BYTES));
		CU_ASSERT_EQUAL(((uint8_t *)party[1].mr->addr)[BYTES], 0);
		sp_world_run(world, sp_world_now(world) + SP_SEC, completed, recv);
		CU_ASSERT_EQUAL(sp_world_run(world, sp_world_now(world) + SP_MS, NULL, NULL), 0);
		CU_ASSERT_EQUAL(sdr_send_poll(send), 0);
	}
	struct sp_nic_totals t = totals();
	CU_ASSERT(t.received >= 3 * ((BYTES + 1023) / 1024));
	CU_ASSERT_EQUAL(t.received, t.sent);
	CU_ASSERT_EQUAL(t.dropped, 0);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(sdr_qp_destroy(party[i].qp), 0);
		CU_ASSERT_EQUAL(sdr_mr_dereg(party[i].mr), 0);
		CU_ASSERT_EQUAL(sdr_context_destroy(party[i].context), 0);
		sp_dev_close(party[i].dev);
	}
	sp_world_destroy(world);
	finish();
}

TEST(two_applications_on_one_nic_exchange_messages)
{
	a_message_by_the_loop(1, AF_INET, 0);
	a_message_by_the_loop(1, AF_INET6, 0);
	a_message_by_the_loop(1, AF_INET, 1000000000); /* and at a pace */
}

TEST(so_they_do_with_two_workers)
{
	a_message_by_the_loop(2, AF_INET, 0);
	a_message_by_the_loop(2, AF_INET6, 0);
}
