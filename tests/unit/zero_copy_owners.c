/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose payload is that is sent from where it lies: nothing is anybody's again, nor gone, before the port has given it
 * back, whoever goes first. */
#include "../../host-api/sdr.h"
#include "../../pipeline/exec/rings.h"

#include "../lib/tx_ring.h"

static struct sdr_context *sdr;
static struct sdr_qp *qp;

static void open_sdr(struct sp_dev *dev, const struct sdr_qp_attr *more)
{
	struct sdr_qp_attr attr = {.mtu = 2048,
				   .chunk_bytes = 2048,
				   .max_message_bytes = 1 << 20,
				   .max_messages = 4,
				   .nonce = 5,
				   .implicit_credit = true,
				   .qpn = 0x100,
				   .segments = more ? more->segments : 0};
	struct sp_error error = {.text = ""};
	struct sdr_qp_info peer;

	CU_ASSERT_EQUAL_FATAL(sdr_context_create(dev, NULL, &sdr), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_create(sdr, &attr, &qp, &error), 0);
	sdr_qp_info_get(qp, &peer);
	memcpy(peer.ip, dut_peer4, 16);
	peer.nonce = 6;
	CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(qp, &peer), 0);
}

static void close_sdr(void)
{
	CU_ASSERT_EQUAL(sdr_qp_destroy(qp), 0);
	CU_ASSERT_EQUAL(sdr_context_destroy(sdr), 0);
}

static void polls(unsigned n)
{
	while (n--)
		dut_poll(&dut, 1);
}

TEST(a_buffer_is_the_applications_again_when_the_port_has_given_it_back)
{
	struct sdr_send *send[3];

	tx_ring_start(&tx_ring_lending);
	open_sdr(dut.dev, NULL);
	struct sp_mr *mr = test_region(65536);
	tx_ring.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 5 * 2048, 0, &send[0]), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 20000, 2048, 0, &send[1]), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 30000, 100, 0, &send[2]), 0); /* copied */
	polls(10);
	CU_ASSERT_EQUAL_FATAL(tx_ring.helds, 7);
	for (unsigned back = 0; back < 7; back++) {
		CU_ASSERT(TAILQ_EMPTY(&dut.nic->worker[0]->issuing)); /* it waits to be started: no one asks */
		CU_ASSERT_EQUAL(dut.nic->worker[0]->awaited, 1);
		CU_ASSERT_EQUAL(sdr_send_poll(send[0]), -EAGAIN);
		CU_ASSERT_EQUAL(sdr_send_poll(send[1]), -EAGAIN);
		CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
		if (back == 4)
			break;
		tx_ring_free(0);
		polls(2);
	}
	tx_ring_free(0);
	CU_ASSERT_FALSE(TAILQ_EMPTY(&dut.nic->worker[0]->issuing));
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send[0]), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send[1]), -EAGAIN);
	tx_ring_free(0);
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send[1]), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send[2]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT(TAILQ_EMPTY(&dut.nic->worker[0]->issuing)); /* no one waits any more */
	CU_ASSERT_EQUAL(dut.nic->worker[0]->awaited, 0);
	close_sdr();
	tx_ring_stop();
}

TEST(a_stream_goes_on_while_its_pieces_are_out)
{
	struct sdr_send *send;
	uint32_t id;

	tx_ring_start(&tx_ring_lending);
	open_sdr(dut.dev, &(struct sdr_qp_attr){.segments = 3});
	struct sp_mr *mr = test_region(65536);
	tx_ring.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_stream_start(qp, 5 * 2048, 0, &send), 0);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, i * 2048, 2048, i * 2048), 0);
	polls(5);
	CU_ASSERT_EQUAL(tx_ring.sent, 3);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 0, 2048, 0), -EAGAIN); /* all segments are in use */
	tx_ring_free(0);
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 3 * 2048, 2048, 3 * 2048), 0);
	polls(2);
	CU_ASSERT_EQUAL(tx_ring.sent, 4);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	tx_ring_free(2); /* the last one first */
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	tx_ring_free_all();
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 4 * 2048, 2048, 4 * 2048), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_continue(send, mr, 0, 2048, 0), 0);
	CU_ASSERT_EQUAL(sdr_send_stream_end(send), 0);
	polls(2);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	tx_ring_free(0);
	polls(2);
	CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(dut.nic, "sdr-256", &id), 0);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "messages_sent"), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send), -EAGAIN);
	tx_ring_free_all();
	polls(2);
	CU_ASSERT_EQUAL(dut_counter(&dut, id, "messages_sent"), 1);
	CU_ASSERT_EQUAL(sdr_send_poll(send), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	close_sdr();
	tx_ring_stop();
}

/* ---- whoever goes first ---- */

TEST(a_region_outlives_the_context_whose_packets_are_out)
{
	const uint64_t before = (tx_ring_start(&tx_ring_lending), dut.nic->memory_used);
	struct sdr_send *send;
	uint8_t copy[2048];

	open_sdr(dut.dev, NULL);
	struct sp_mr *mr = test_region(65536);
	memcpy(copy, (uint8_t *)mr->addr + 2048, sizeof(copy));
	tx_ring.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 3 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL_FATAL(tx_ring.helds, 3);
	tx_ring.full = true; /* ... and some wait in the NIC's own queue */
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 3 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL(tx_ring.helds, 3);
	close_sdr();
	CU_ASSERT_EQUAL(dut.nic->worker[0]->awaited, 0); /* its issue goes with it */
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(dut.nic->zc_gone);
	tx_ring.full = false;
	polls(5);
	CU_ASSERT_EQUAL(tx_ring.helds, 6);
	tx_ring_look(tx_ring.held[1]);
	CU_ASSERT(!memcmp(tx_ring.last.bytes + 14 + 20 + 8 + 12 + 20, copy, 2048));
	tx_ring_free_all();
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT_EQUAL(dut.nic->memory_used, before);
	tx_ring_stop();
}

/* What the server does when an application's socket closes. */
TEST(memory_of_an_application_that_dies_stays_until_its_packets_are_back)
{
	const uint64_t before = (tx_ring_start(&tx_ring_lending), dut.nic->memory_used);
	const struct sp_setting setting[] = {{"qp", "5"}, {"peer", "4"}};
	const struct sp_send s = {.dest_qp = 16, .len = 2048, .offset = 63488};
	struct sp_device *device;
	struct sp_mr *mr;
	struct sp_command c;
	uint8_t copy[2048];
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_device_create(dut.nic, true, NULL, &device), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(&device->pub, "s", "sender", setting, 2, &id, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&device->pub, 65536, &mr), 0);
	memset(mr->addr, 0x5A, 65536);
	memset(copy, 0x5A, sizeof(copy));
	tx_ring.keeps = true;
	sender_job.send = &s;
	for (unsigned i = 0; i < 3; i++) {
		c = (struct sp_command){.op = CMD_SEND_MEM, .context = id, .arg = {0, mr->id}};
		CU_ASSERT_EQUAL(sp_command_call(&device->pub, &c, NULL), 0);
	}
	sender_job.send = NULL;
	polls(1);
	CU_ASSERT_EQUAL_FATAL(tx_ring.helds, 3);
	sp_dev_close(&device->pub);
	CU_ASSERT_EQUAL(dut.nic->memory_used, before + 65536);
	tx_ring_look(tx_ring.held[2]);
	CU_ASSERT(!memcmp(tx_ring.last.bytes + 14 + 20 + 8 + 12, copy, 2048));
	tx_ring_free_all();
	struct sp_mr *other = test_region(4096); /* makes room first */
	CU_ASSERT_EQUAL(dut.nic->memory_used, before + 4096);
	CU_ASSERT_EQUAL(sp_mr_free(other), 0);
	tx_ring_stop();
}

/* Some with the port, some still in the NIC's queue, of more regions than share a reference. */
TEST(runs_of_an_application_that_dies_keep_each_its_region_and_no_other)
{
	enum { REGIONS = SP_ZC_REGIONS + 2, EACH = 20, BYTES = 65536 };
	const uint64_t before = (tx_ring_start(&tx_ring_lending), dut.nic->memory_used);
	const struct sp_setting setting[] = {{"qp", "5"}, {"peer", "4"}};
	struct sp_send s[EACH];
	struct sp_device *device;
	struct sp_mr *mr, *other;
	struct sp_command c;
	uint8_t same[2000];
	unsigned wrong = 0;
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_device_create(dut.nic, true, NULL, &device), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(&device->pub, "s", "sender", setting, 2, &id, NULL), 0);
	tx_ring.keeps = true;
	for (unsigned k = 0; k < REGIONS; k++) {
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&device->pub, BYTES, &mr), 0);
		memset(mr->addr, 0x50 + (int)k, BYTES);
		for (unsigned i = 0; i < EACH; i++)
			s[i] = (struct sp_send){.dest_qp = 16 + k, .psn = i, .len = 2000, .offset = i * 2000};
		sender_job.run = s;
		sender_job.runs = EACH;
		tx_ring.full = k > 0;
		tx_ring.most = k ? 0 : EACH / 2; /* the port is full within the first region's run */
		c = (struct sp_command){.op = CMD_SEND_RUN, .context = id, .arg = {0, mr->id}};
		CU_ASSERT_EQUAL(sp_command_call(&device->pub, &c, NULL), 0);
		CU_ASSERT_EQUAL(sender_job.ran, EACH);
		polls(1);
	}
	CU_ASSERT_EQUAL(tx_ring.helds, EACH / 2);
	tx_ring.full = true;
	sp_dev_close(&device->pub);
	CU_ASSERT_EQUAL(dut.nic->memory_used, before + (uint64_t)REGIONS * BYTES);
	tx_ring.full = false;
	tx_ring.most = 0;
	polls(5);
	CU_ASSERT_EQUAL_FATAL(tx_ring.helds, REGIONS * EACH);
	for (unsigned i = 0; i < tx_ring.helds; i++) {
		memset(same, 0x50 + (int)(i / EACH), sizeof(same));
		tx_ring_look(tx_ring.held[i]);
		wrong += tx_ring.last.pieces != 3 ||
			 memcmp(tx_ring.last.bytes + 14 + 20 + 8 + 12, same, sizeof(same)) ||
			 tx_ring.last.bytes[14 + 20 + 8 + 7] != 16 + i / EACH;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	for (unsigned left = REGIONS; left; left--) { /* the last region's first */
		while (tx_ring.helds > (left - 1) * EACH + 1)
			tx_ring_free(tx_ring.helds - 1);
		other = test_region(4096); /* makes room first */
		CU_ASSERT_EQUAL(dut.nic->memory_used, before + 4096 + (uint64_t)left * BYTES);
		CU_ASSERT_EQUAL(sp_mr_free(other), 0);
		tx_ring_free(tx_ring.helds - 1);
	}
	other = test_region(4096);
	CU_ASSERT_EQUAL(dut.nic->memory_used, before + 4096);
	CU_ASSERT_EQUAL(sp_mr_free(other), 0);
	tx_ring_stop();
}

TEST(a_connection_closed_by_the_application_says_so_at_once)
{
	const struct sp_command close = {.op = SP_CMD_CLOSE};
	struct sdr_send *send;
	uint32_t id;

	tx_ring_start(&tx_ring_lending);
	open_sdr(dut.dev, NULL);
	struct sp_mr *mr = test_region(65536);
	tx_ring.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 3 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(dut.nic, "sdr-256", &id), 0);
	struct sp_command c = close;
	c.context = id;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &c, NULL), 0);
	CU_ASSERT_EQUAL(sdr_send_poll(send), 0); /* nobody waits for these any more */
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY); /* but the port has them */
	tx_ring_free_all();
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	close_sdr();
	tx_ring_stop();
}

/* A PCI driver may keep what it was given when it is stopped; a later owner of the port, or the process's end, frees
 * it. */
TEST(packets_given_back_after_the_nic_has_gone_do_no_harm)
{
	struct sdr_send *send;

	tx_ring_start(&tx_ring_lending);
	open_sdr(dut.dev, NULL);
	struct sp_mr *mr = test_region(65536);
	tx_ring.keeps = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 5 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL_FATAL(tx_ring.helds, 5);
	close_sdr();
	sp_dev_close(dut.dev);
	sp_nic_destroy(dut.nic);
	tx_ring_free(3);
	tx_ring_free_all();
	dut_port_free(&dut.port);
	dut_port_free(&dut.exception);
	probe_log_clear();
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_process_pieces()), tx_ring_pieces_in_use);
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_process_pool()), dut.in_use);
}

TEST(a_nic_may_go_with_packets_in_its_queue)
{
	struct sdr_send *send;

	tx_ring_start(&tx_ring_lending);
	open_sdr(dut.dev, NULL);
	struct sp_mr *mr = test_region(65536);
	tx_ring.full = true;
	CU_ASSERT_EQUAL_FATAL(sdr_send_post(qp, mr, 0, 5 * 2048, 0, &send), 0);
	polls(5);
	CU_ASSERT_EQUAL(tx_ring.sent, 0);
	close_sdr();
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	tx_ring_stop();
}
