/* SPDX-License-Identifier: BSD-3-Clause */
/* What a sender that has the key, or a host that asks for too much at once, cannot do to an RVMA context. */
#include "rvma_window.h"

/* ---- packets that contradict each other ---- */
/* The number of a put that is over, told of as a longer one: what is beyond its only packet is no part of it. */
TEST(a_put_that_is_over_cannot_be_begun_anew_as_a_longer_one)
{
	const uint64_t id = (begin(), window(1, 0, 0, 0));
	struct transfer a = {1, 0, 0, 10, 1, 0, 0};

	post(id, 0, 4096, 0);
	next_transfer = 1; /* block 0 has not come, so that 1 is not behind what is complete */
	start(&a);
	packet(&a, 0);
	a.length = 5 * MTU;
	for (unsigned i = 0; i < 20; i++)
		packet(&a, 1 + i % 4);
	CU_ASSERT_EQUAL(dut_counter(&dut, context, "placed_packets"), 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, context, "refused"), 20);
	CU_ASSERT_EQUAL(state()->window[(uint32_t)id].open, 0);
	CU_ASSERT_EQUAL(command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	CU_ASSERT(told(0, 0, 10, 0, SP_RVMA_PARTIAL, 1));
	CU_ASSERT(untouched(10, 4096 - 10));
	end();
}

/* ---- a buffer's end cannot be put off ---- */
#define WAIT_MOST 16u /* seconds: twice `timeout`, for so short a put, then nothing for `timeout` */

TEST(repeats_do_not_keep_a_put_open)
{
	const uint64_t id = (begin_with("window=4096;timeout=5s"), window(1, 0, 0, 0));
	struct transfer a = {1, 0, 0, 3 * MTU, 1, 0, 0};

	post(id, 0, 4096, 0);
	start(&a);
	packet(&a, 0);
	packet(&a, 1);
	CU_ASSERT_EQUAL(command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	for (unsigned second = 0; second < WAIT_MOST; second++, now += SP_SEC) {
		CU_ASSERT(second > 5 || silent(0));
		packet(&a, second % 2);
	}
	CU_ASSERT(told(0, 0, 2 * MTU, 0, SP_RVMA_PARTIAL | SP_RVMA_LOST, 0));
	packet(&a, 2); /* late */
	CU_ASSERT(untouched(2 * MTU, 4096 - 2 * MTU));
	end();
}

TEST(a_trickle_of_packets_does_not_keep_a_put_open)
{
	const uint64_t id = (begin_with("window=4096;timeout=5s"), window(1, 0, 0, 0));
	struct transfer a = {1, 0, 0, 60 * MTU, 1, 0, 0};
	unsigned i;

	post(id, 0, 4096, 0);
	post(id, 4096, 4096, 1);
	start(&a);
	packet(&a, 0);
	CU_ASSERT_EQUAL(command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), 0);
	for (i = 1; i < WAIT_MOST; i++, now += SP_SEC)
		packet(&a, i);
	CU_ASSERT_EQUAL(note[0].flags, SP_RVMA_PARTIAL | SP_RVMA_ENDED | SP_RVMA_LOST);
	CU_ASSERT_EQUAL(note[0].epoch, 0);
	CU_ASSERT(told(1, 4096, 0, 1, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 0)); /* which had to wait for it */
	memset(memory, 0xEE, 4096);
	packet(&a, i);
	CU_ASSERT(untouched(0, 4096));
	end();
}

/* ... and a long one has time in proportion: 33 blocks, two packets a second. */
TEST(a_long_put_has_its_time)
{
	const uint64_t id = (begin_with("window=4096;timeout=5s"), window(1, 0, 1, SP_RVMA_OPS));
	struct transfer a = {1, 0, 0, 33 * 64 * MTU, 1, 0, 0};

	post(id, 0, a.length, 0);
	start(&a);
	for (unsigned i = 0; i < 33 * 64; i++) {
		packet(&a, i);
		now += 19 * SP_SEC / (33 * 64);
	}
	CU_ASSERT(told(0, 0, a.length, 0, 0, 1));
	end();
}

/* ---- a command does not hold the worker ---- */
#define MANY 20000u

static uint64_t many(uint64_t threshold)
{
	const uint64_t id = (begin_with("window=4096;buffers=20000"), window(1, 0, threshold, SP_RVMA_OPS));

	for (unsigned i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL_FATAL(post_with(id, i, 2 * MTU, i < 100 ? i : 100 + i % 100, 0), 0);
	return id;
}

TEST(closing_releasing_and_rewinding_go_on_a_slice_at_a_time)
{
	const uint64_t id = many(0);
	unsigned again = 0;
	int rc;

	for (; (rc = command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0)) == -EINPROGRESS; again++) {
		CU_ASSERT_FATAL(line(id)->posted >= MANY - (again + 1) * RV_SLICE);
		CU_ASSERT_EQUAL(post_with(id, 0, 64, 0, 0), -ESHUTDOWN);
		put(1, 0, 0, 1, 1);
		CU_ASSERT_EQUAL(refused(SP_RVMA_CLOSED), 1);
	}
	CU_ASSERT_EQUAL(rc, 0);
	CU_ASSERT_EQUAL(again, (MANY - 1) / RV_SLICE);
	CU_ASSERT_EQUAL(command(SP_RVMA_CMD_CLOSE, id, 0, 0, 0), -ESHUTDOWN);
	dut_settle(&dut, now);
	CU_ASSERT_EQUAL(line(id)->epoch, MANY);
	CU_ASSERT_EQUAL(line(id)->held, MANY);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT(told(i, i, 0, i, SP_RVMA_PARTIAL | SP_RVMA_ENDED, 0));
	CU_ASSERT_EQUAL(command(SP_RVMA_CMD_RELEASE, id, 4999, 0, 0), -EINPROGRESS);
	CU_ASSERT_EQUAL(line(id)->held, MANY - RV_SLICE);
	CU_ASSERT_EQUAL(command(SP_RVMA_CMD_RELEASE, id, 4999, 0, 0), 0);
	CU_ASSERT_EQUAL(line(id)->held, MANY - 5000);
	for (again = 0; (rc = command(SP_RVMA_CMD_REWIND, id, 5007, 0, 0)) == -EINPROGRESS; again++)
		CU_ASSERT_FATAL(line(id)->held >= MANY - 5000 - (again + 1) * RV_SLICE);
	CU_ASSERT_EQUAL(rc, 0);
	CU_ASSERT_EQUAL(again, (MANY - 5008 - 1) / RV_SLICE);
	CU_ASSERT_EQUAL(answer.arg[4], 5007);
	CU_ASSERT_EQUAL(answer.arg[0], (uintptr_t)memory + 5007);
	CU_ASSERT_EQUAL(line(id)->held, 8);
	CU_ASSERT_EQUAL(line(id)->epoch, 5008);
	end();
}

TEST(what_waited_for_one_put_is_handed_over_a_slice_at_a_time)
{
	const uint64_t id = many(1);
	struct transfer a = {1, 0, 0, 2 * MTU, 1, 0, 0};
	uint64_t most = 0, before = 0;

	start(&a);
	packet(&a, 0);
	CU_ASSERT_EQUAL(command(SP_RVMA_CMD_INC_EPOCH, id, 0, 0, 0), 0);
	for (unsigned i = 1; i < 3000; i++)
		put(1, 0, 0, 0, 1);
	CU_ASSERT_EQUAL(line(id)->epoch, 0);
	fed_only = true;
	packet(&a, 1);
	fed_only = false;
	while (line(id)->epoch < 3000) {
		CU_ASSERT_NOT_EQUAL_FATAL(dut_poll(&dut, now), 0);
		most = line(id)->epoch - before > most ? line(id)->epoch - before : most;
		before = line(id)->epoch;
	}
	CU_ASSERT(most <= 1000);
	CU_ASSERT(told(0, 0, 2 * MTU, 0, SP_RVMA_PARTIAL, 1));
	for (unsigned i = 1; i < 100; i++)
		CU_ASSERT(told(i, i, 0, i, 0, 1));
	CU_ASSERT_EQUAL(line(id)->held, 3000);
	CU_ASSERT_EQUAL(line(id)->posted, MANY - 3000);
	end();
}
