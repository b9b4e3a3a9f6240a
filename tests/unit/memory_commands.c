/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands, events and devices: their order, bounds and owners. */
#include "../lib/memory_nic.h"

static uint8_t guarded[SIZE] __attribute__((aligned(64)));

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return SP_DONE;
}

static const struct sp_handler mute = {SP_HANDLER_HEAD, .name = "mute", .payload = payload};

SP_HANDLER(mute)

#define EVENTS (64 + SP_RING_BYTES(SP_EVENTS))

/* ---- commands ---- */

static int post(uint16_t op, uint16_t flags, uint64_t arg)
{
	struct sp_command cmd = {.op = op, .flags = flags, .context = memo_id, .cookie = arg + 1000, .arg = {arg}};

	return sp_command_post(dut.dev, &cmd);
}

TEST(commands_run_in_order_and_answer_when_asked)
{
	struct sp_event e;

	memo_start(0);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(post(CMD_NOTE, i % 2 ? SP_CMD_REPLY : 0, i), 0);
	CU_ASSERT_EQUAL(memo_sees, 0); /* posting runs nothing */
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(memo_sees, 100);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(memo_seen[i], i);
	for (unsigned i = 1; i < 100; i += 2) {
		CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, memo_id, &e), 1);
		CU_ASSERT_EQUAL(e.context, memo_id);
		CU_ASSERT_EQUAL(e.type, SP_EVENT_RESULT);
		CU_ASSERT_EQUAL(e.op, CMD_NOTE);
		CU_ASSERT_EQUAL(e.status, 0);
		CU_ASSERT_EQUAL(e.cookie, i + 1000);
		CU_ASSERT_EQUAL(e.arg[0], 2 * i);
	}
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, memo_id, &e), 0);
	memo_stop();
}

TEST(a_command_that_fails_is_answered_always)
{
	struct sp_event e;

	memo_start(0);
	CU_ASSERT_EQUAL(post(CMD_FAIL, 0, 1), 0);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 2), 0);
	CU_ASSERT_EQUAL(post(0x7777, 0, 3), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, memo_id, &e), 1);
	CU_ASSERT_EQUAL(e.status, -EDOM);
	CU_ASSERT_EQUAL(e.cookie, 1001);
	CU_ASSERT_EQUAL(e.arg[1], 77);
	CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, memo_id, &e), 1);
	CU_ASSERT_EQUAL(e.status, -EOPNOTSUPP);
	CU_ASSERT_EQUAL(e.op, 0x7777);
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, memo_id, &e), 0);
	memo_stop();
}

TEST(commands_to_a_handler_without_any_are_not_supported)
{
	struct sp_event e;

	memo_start(0);
	memo_id = dut_context(&dut, "b", "mute", "qp=17");
	CU_ASSERT_EQUAL(post(SP_CMD_QUERY, 0, 1), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, memo_id, &e), 1);
	CU_ASSERT_EQUAL(e.status, -EOPNOTSUPP);
	memo_stop();
}

TEST(a_full_queue_of_commands_says_try_again)
{
	memo_start(0);
	for (unsigned i = 0; i < SP_COMMANDS; i++)
		CU_ASSERT_EQUAL(post(CMD_NOTE, 0, i), 0);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 9999), -EAGAIN);
	CU_ASSERT(sp_nic_next_deadline(dut.nic, 0) == 0); /* there is something to do */
	sp_nic_poll(dut.nic, 0, 1);
	CU_ASSERT_EQUAL(memo_sees, SP_COMMANDS_PER_POLL);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, SP_COMMANDS), 0);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(memo_sees, SP_COMMANDS + 1);
	for (unsigned i = 0; i < memo_sees; i++)
		CU_ASSERT_EQUAL(memo_seen[i], i);
	memo_stop();
}

TEST(a_call_comes_after_all_that_was_posted_before)
{
	struct sp_command cmd = {.op = CMD_NOTE, .context = memo_id, .cookie = 5, .arg = {1000}};
	struct sp_event e = {0};

	memo_start(0);
	cmd.context = memo_id;
	for (unsigned i = 0; i < 1000; i++)
		CU_ASSERT_EQUAL(post(CMD_NOTE, 0, i), 0);
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), 0);
	CU_ASSERT_EQUAL(e.cookie, 5);
	CU_ASSERT_EQUAL(e.arg[0], 2000);
	CU_ASSERT_EQUAL_FATAL(memo_sees, 1001);
	for (unsigned i = 0; i <= 1000; i++)
		CU_ASSERT_EQUAL(memo_seen[i], i);
	cmd.op = CMD_FAIL;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), -EDOM); /* the status comes back, no event does */
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, memo_id, &e), 0);
	memo_stop();
}

TEST(commands_to_contexts_that_are_not_there_are_refused)
{
	struct sp_command cmd = {.op = CMD_NOTE};
	struct sp_event e;

	memo_start(0);
	uint32_t was = memo_id;
	for (unsigned i = 0; i < 4; i++) {
		cmd.context = (uint32_t[]){0, UINT32_MAX, was ^ 0x10000, was + 1}[i];
		CU_ASSERT_EQUAL(sp_command_post(dut.dev, &cmd), -ENOENT);
		CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, &e), -ENOENT);
		CU_ASSERT_EQUAL(e.status, -ENOENT);
		CU_ASSERT_EQUAL(sp_event_take(dut.dev, cmd.context, &e), -ENOENT);
	}
	/* What was posted to a context that goes is for nobody, least of all for the next one in its place. */
	CU_ASSERT_EQUAL(post(CMD_NOTE, SP_CMD_REPLY, 1), 0);
	sp_nic_context_remove(dut.nic, memo_id);
	memo_id = dut_context(&dut, "a", "memo", "qp=16");
	CU_ASSERT_NOT_EQUAL(memo_id, was);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(memo_sees, 0);
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, memo_id, &e), 0);
	memo_stop();
}

/* ---- events ---- */

TEST(events_come_in_order_and_those_that_do_not_fit_are_counted)
{
	struct sp_event e;

	memo_start(0);
	CU_ASSERT_EQUAL(post(CMD_EVENTS, 0, SP_EVENTS + 20), 0);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_view(&dut, memo_id, events_lost), 20);
	for (unsigned i = 0; i < SP_EVENTS; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_event_take(dut.dev, memo_id, &e), 1);
		CU_ASSERT_EQUAL(e.cookie, i);
		CU_ASSERT_EQUAL(e.context, memo_id); /* whatever the handler wrote there */
	}
	CU_ASSERT_EQUAL(sp_event_take(dut.dev, memo_id, &e), 0);
	for (unsigned round = 0; round < 10; round++) { /* around the ring's end */
		CU_ASSERT_EQUAL(post(CMD_EVENTS, 0, 50), 0);
		dut_settle(&dut, 2);
		for (unsigned i = 0; i < 50; i++)
			CU_ASSERT(sp_event_take(dut.dev, memo_id, &e) == 1 && e.cookie == i);
	}
	CU_ASSERT_EQUAL(dut_view(&dut, memo_id, events_lost), 20);
	memo_stop();
}

TEST(events_of_all_workers_are_taken)
{
	unsigned next[3] = {0, 1000, 2000}, n = 0;
	struct sp_event e;

	dut_prepare(&dut, 3);
	dut_create(&dut);
	memo_id = dut_context(&dut, "a", "memo", "qp=16");
	for (unsigned i = 0; i < 20; i++)
		for (uint16_t q = 0; q < 3; q++) {
			struct frame f;

			dut_roce(&f, FRAME_IP4, 16, 1000 * q + i, NULL, 0);
			dut_feed_bytes(&dut.port, q, 0, f.bytes, f.len);
		}
	dut_settle(&dut, 1);
	while (sp_event_take(dut.dev, memo_id, &e) == 1 && n++ < 100)
		CU_ASSERT_EQUAL(e.cookie, next[e.cookie / 1000]++); /* in order for each worker */
	CU_ASSERT_EQUAL(n, 60);
	memo_stop();
}

/* ---- devices ---- */

TEST(a_device_takes_its_contexts_with_it_and_no_others)
{
	struct sp_setting setting = {"qp", "30"};
	struct sp_dev *dev;
	uint32_t other;

	memo_start(0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "b", "memo", &setting, 1, &other, NULL), 0);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 1), 0);
	sp_progress(dev, 1); /* is not the one that drives the NIC */
	CU_ASSERT_EQUAL(memo_sees, 0);
	CU_ASSERT_EQUAL(sp_next_deadline(dev), SP_NEVER);
	CU_ASSERT(sp_next_deadline(dut.dev) <= 1);
	sp_progress(dut.dev, 1);
	CU_ASSERT_EQUAL(memo_sees, 1);
	sp_dev_close(dev);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, other), -ENOENT);
	CU_ASSERT_EQUAL(post(CMD_NOTE, 0, 2), 0);
	sp_progress(dut.dev, 2);
	CU_ASSERT_EQUAL(memo_sees, 2);
	memo_stop();
}

TEST(a_device_takes_its_regions_with_it_but_those_in_use)
{
	struct sp_setting setting[] = {{"qp", "30"}, {"area", "5000"}};
	struct sp_mr *mr[4];
	struct sp_dev *dev;
	uint32_t other;

	memo_start(0);
	uint64_t used = dut.nic->memory_used;
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "b", "memo", setting, 2, &other, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dev, 4096, &mr[i]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dev, guarded, SIZE, &mr[3]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[1]), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(memo_get(mr[2]->id)); /* context "a", which is not of this device */
	sp_dev_close(dev);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used + 4096);
	((uint8_t *)memo_mem->base)[4095] = 1; /* still there */
	memo_put(memo_mem);
	memo_stop();
}

TEST(a_context_that_the_nic_has_ended_leaves_its_area_until_closed)
{
	struct sp_setting setting[] = {{"qp", "30"}, {"area", "5000"}};
	struct sp_command cmd = {.op = CMD_NOTE};
	struct sp_dev *dev;
	struct sp_event e;
	uint32_t other;
	uint64_t len;
	void *addr, *none;

	memo_start(0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, false, &dev), 0);
	uint64_t used = dut.nic->memory_used;
	for (int closed = 0; closed < 2; closed++) {
		CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "b", "memo", setting, 2, &other, NULL), 0);
		CU_ASSERT_EQUAL(sp_context_area(dev, other, &addr, &len), 0);
		cmd.context = other;
		CU_ASSERT_EQUAL(sp_command_post(dev, &cmd), 0); /* never run */
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, other), 0);
		CU_ASSERT_EQUAL(dut.nic->memory_used, used + 5000 + EVENTS);
		CU_ASSERT(!memcmp(addr, "area", 4));
		CU_ASSERT_EQUAL(sp_event_take(dev, other, &e), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_command_post(dev, &cmd), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_command_call(dev, &cmd, &e), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_context_area(dev, other, &none, &len), -ECONNRESET);
		CU_ASSERT_EQUAL(sp_event_take(dut.dev, other, &e), -ENOENT); /* never its own */
		CU_ASSERT_EQUAL(sp_context_close(dut.dev, other), -ENOENT);
		if (closed) {
			sp_dev_close(dev);
		} else {
			CU_ASSERT_EQUAL(sp_context_close(dev, other), 0);
			CU_ASSERT_EQUAL(sp_context_close(dev, other), -ENOENT);
			CU_ASSERT_EQUAL(sp_event_take(dev, other, &e), -ENOENT);
		}
		CU_ASSERT_EQUAL(dut.nic->memory_used, used - (closed ? QUEUES : 0));
	}
	CU_ASSERT_EQUAL(memo_sees, 0);
	memo_stop();
}

TEST(a_device_knows_the_nics_addresses_and_what_a_packet_holds)
{
	struct sp_dev *dev;
	uint8_t ip[16];

	memo_start(0);
	CU_ASSERT_EQUAL(sp_dev_address(dut.dev, AF_INET, ip), 0);
	CU_ASSERT(!memcmp(ip, dut_own4, 16));
	CU_ASSERT_EQUAL(sp_dev_address(dut.dev, AF_INET6, ip), 0);
	CU_ASSERT(!memcmp(ip, dut_own6, 16));
	CU_ASSERT_EQUAL(sp_dev_payload(dut.dev, AF_INET), 1436);
	CU_ASSERT_EQUAL(sp_dev_payload(dut.dev, AF_INET6), 1416);
	memo_stop();
	dut_prepare(&dut, 1);
	dut.config.addresses = 1;
	dut.config.mtu = 4160;
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&dut.config, NULL, &dut.nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(dut.nic, true, &dev), 0);
	CU_ASSERT_EQUAL(sp_dev_address(dev, AF_INET6, ip), -ENOENT);
	CU_ASSERT_EQUAL(sp_dev_payload(dev, AF_INET), 4096);
	sp_dev_close(dev);
	sp_nic_destroy(dut.nic);
}
