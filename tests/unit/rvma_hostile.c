/* SPDX-License-Identifier: BSD-3-Clause */
/* What a sender that has the key, or a host that asks for too much at once, cannot do to an RVMA context. */
#include "../lib/rvma_nic.h"

/* ---- packets that contradict each other ---- */
/* The number of a put that is over, told of as a longer one: what is beyond its only packet is no part of it. */
TEST(a_put_that_is_over_cannot_be_begun_anew_as_a_longer_one)
{
	const uint64_t id = (rw_begin(), rw_window(1, 0, 0, 0));
	struct transfer a = {1, 0, 0, 10, 1, 0, 0};

	rw_post(id, 0, 4096, 0);
	rw_next_transfer = 1; /* block 0 has not come, so that 1 is not behind what is complete */
	rw_start(&a);
	rw_packet(&a, 0);
	a.length = 5 * rw_mtu;
	for (unsigned i = 0; i < 20; i++)
		rw_packet(&a, 1 + i % 4);
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "placed_packets"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, rw_context, "refused"), 20);
	CU_ASSERT_EQUAL(rw_state()->window[(uint32_t)id].open, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	CU_ASSERT(rw_told(0, 0, 10, 0, SP_RVMA_PARTIAL, 1));
	CU_ASSERT(rw_untouched(10, 4096 - 10));
	rw_stop();
}

/* ---- a buffer's end cannot be put off ---- */
#define WAIT_MOST 16u /* seconds: twice `timeout`, for so short a put, then nothing for `timeout` */

TEST(repeats_do_not_keep_a_put_open)
{
	const uint64_t id = (rw_begin_with("window=4096;timeout=5s"), rw_window(1, 0, 0, 0));
	struct transfer a = {1, 0, 0, 3 * rw_mtu, 1, 0, 0};

	rw_post(id, 0, 4096, 0);
	rw_start(&a);
	rw_packet(&a, 0);
	rw_packet(&a, 1);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	for (unsigned second = 0; second < WAIT_MOST; second++, rw_now += SP_SEC) {
		CU_ASSERT(second > 5 || rw_silent(0));
		rw_packet(&a, second % 2);
	}
	CU_ASSERT(rw_told(0, 0, 2 * rw_mtu, 0, SP_RVMA_PARTIAL | SP_RVMA_LOST, 0));
	rw_packet(&a, 2); /* late */
	CU_ASSERT(rw_untouched(2 * rw_mtu, 4096 - 2 * rw_mtu));
	rw_stop();
}

TEST(a_trickle_of_packets_does_not_keep_a_put_open)
{
	const uint64_t id = (rw_begin_with("window=4096;timeout=5s"), rw_window(1, 0, 0, 0));
	struct transfer a = {1, 0, 0, 60 * rw_mtu, 1, 0, 0};
	unsigned i;

	rw_post(id, 0, 4096, 0);
	rw_post(id, 4096, 4096, 1);
	rw_start(&a);
	rw_packet(&a, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), 0);
	for (i = 1; i < WAIT_MOST; i++, rw_now += SP_SEC)
		rw_packet(&a, i);
	CU_ASSERT_EQUAL(rw_note[0].flags, SP_RVMA_PARTIAL | SP_RVMA_ENDED | SP_RVMA_LOST);
	CU_ASSERT_EQUAL(rw_note[0].epoch, 0);
	CU_ASSERT(rw_told(1, 4096, 0, 1, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 0)); /* which had to wait for it */
	memset(rw_memory, 0xEE, 4096);
	rw_packet(&a, i);
	CU_ASSERT(rw_untouched(0, 4096));
	rw_stop();
}

/* ... and a long one has time in proportion: 33 blocks, two packets a second. */
TEST(a_long_put_has_its_time)
{
	const uint64_t id = (rw_begin_with("window=4096;timeout=5s"), rw_window(1, 0, 1, SP_RVMA_OPS));
	struct transfer a = {1, 0, 0, 33 * 64 * rw_mtu, 1, 0, 0};

	rw_post(id, 0, a.length, 0);
	rw_start(&a);
	for (unsigned i = 0; i < 33 * 64; i++) {
		rw_packet(&a, i);
		rw_now += 19 * SP_SEC / (33 * 64);
	}
	CU_ASSERT(rw_told(0, 0, a.length, 0, 0, 1));
	rw_stop();
}

/* ---- a command does not hold the worker ---- */
#define MANY 20000u

static uint64_t many(uint64_t threshold)
{
	const uint64_t id = (rw_begin_with("window=4096;buffers=20000"), rw_window(1, 0, threshold, SP_RVMA_OPS));

	for (unsigned i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL_FATAL(rw_post_with(id, i, 2 * rw_mtu, i < 100 ? i : 100 + i % 100, 0), 0);
	return id;
}

TEST(closing_releasing_and_rewinding_go_on_a_slice_at_a_time)
{
	const uint64_t id = many(0);
	unsigned again = 0;
	int rc;

	for (; (rc = rw_command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0)) == -EINPROGRESS; again++) {
		CU_ASSERT_FATAL(rw_line(id)->posted >= MANY - (again + 1) * RV_SLICE);
		CU_ASSERT_EQUAL(rw_post_with(id, 0, 64, 0, 0), -ESHUTDOWN);
		rw_put(1, 0, 0, 1, 1);
		CU_ASSERT_EQUAL(rw_refused(SP_RVMA_CLOSED), 1);
	}
	CU_ASSERT_EQUAL(rc, 0);
	CU_ASSERT_EQUAL(again, (MANY - 1) / RV_SLICE);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), -ESHUTDOWN);
	dut_settle(&dut, rw_now);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, MANY);
	CU_ASSERT_EQUAL(rw_line(id)->held, MANY);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT(rw_told(i, i, 0, i, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 0));
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 4999, 0, 0), -EINPROGRESS);
	CU_ASSERT_EQUAL(rw_line(id)->held, MANY - RV_SLICE);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_RELEASE, id, 4999, 0, 0), 0);
	CU_ASSERT_EQUAL(rw_line(id)->held, MANY - 5000);
	for (again = 0; (rc = rw_command(SP_RVMA_CMD_REWIND, id, 5007, 0, 0)) == -EINPROGRESS; again++)
		CU_ASSERT_FATAL(rw_line(id)->held >= MANY - 5000 - (again + 1) * RV_SLICE);
	CU_ASSERT_EQUAL(rc, 0);
	CU_ASSERT_EQUAL(again, (MANY - 5008 - 1) / RV_SLICE);
	CU_ASSERT_EQUAL(rw_answer.arg[4], 5007);
	CU_ASSERT_EQUAL(rw_answer.arg[0], (uintptr_t)rw_memory + 5007);
	CU_ASSERT_EQUAL(rw_line(id)->held, 8);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 5008);
	rw_stop();
}

TEST(what_waited_for_one_put_is_handed_over_a_slice_at_a_time)
{
	const uint64_t id = many(1);
	struct transfer a = {1, 0, 0, 2 * rw_mtu, 1, 0, 0};
	uint64_t most = 0, before = 0;

	rw_start(&a);
	rw_packet(&a, 0);
	CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	for (unsigned i = 1; i < 3000; i++)
		rw_put(1, 0, 0, 0, 1);
	CU_ASSERT_EQUAL(rw_line(id)->epoch, 0);
	rw_fed_only = true;
	rw_packet(&a, 1);
	rw_fed_only = false;
	while (rw_line(id)->epoch < 3000) {
		CU_ASSERT_NOT_EQUAL_FATAL(dut_poll(&dut, rw_now), 0);
		most = rw_line(id)->epoch - before > most ? rw_line(id)->epoch - before : most;
		before = rw_line(id)->epoch;
	}
	CU_ASSERT(most <= 1000);
	CU_ASSERT(rw_told(0, 0, 2 * rw_mtu, 0, SP_RVMA_PARTIAL, 1));
	for (unsigned i = 1; i < 100; i++)
		CU_ASSERT(rw_told(i, i, 0, i, 0, 1));
	CU_ASSERT_EQUAL(rw_line(id)->held, 3000);
	CU_ASSERT_EQUAL(rw_line(id)->posted, MANY - 3000);
	rw_stop();
}
