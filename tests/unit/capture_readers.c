/* SPDX-License-Identifier: BSD-3-Clause */
/* Capturing programs: what they may ask for, how many there may be, and that none can harm the NIC or hold it up,
 * whatever it does with its rings. */
#include "../lib/buffers.h"
#include "../lib/capture_client.h"

#define RULE(rule) TEST_BETWEEN(probe_start, probe_stop, rule)

RULE(bad_requests_are_refused_in_words)
{
	struct sp_capture_request q = {0};
	struct sp_error error = {0};
	struct reader r;

	dut_context(&dut, "a", "plain", "qp=0x10");
	strcpy(q.filter, "port port");
	CU_ASSERT_EQUAL(cap_try_read(&r, q, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "filter");
	CU_ASSERT(strstr(error.text, "syntax error") != NULL);
	memset(q.filter, 'x', sizeof(q.filter)); /* no end */
	CU_ASSERT_EQUAL(cap_try_read(&r, q, &error), -EINVAL);
	memset(&q, 0, sizeof(q));
	strcpy(q.context, "b");
	CU_ASSERT_EQUAL(cap_try_read(&r, q, &error), -ENOENT);
	CU_ASSERT(strstr(error.text, "b") != NULL);
	memset(q.context, 'a', sizeof(q.context));
	CU_ASSERT_EQUAL(cap_try_read(&r, q, &error), -EINVAL);
	memset(&q, 0, sizeof(q));
	q.flags = 2;
	CU_ASSERT_EQUAL(cap_try_read(&r, q, &error), -EINVAL);
	CU_ASSERT_PTR_NULL(dut.nic->worker[0]->captures);
}

TEST(off_nothing_is_there_to_copy_into)
{
	probe_log_clear();
	dut_start(&dut, 2);
	CU_ASSERT_PTR_NULL(dut.nic->worker[0]->captures);
	struct reader r = CAPTURE(0);
	struct reader s = CAPTURE(0);
	cap_close(&r);
	CU_ASSERT_PTR_NOT_NULL(dut.nic->worker[0]->captures);
	CU_ASSERT_PTR_NOT_NULL(dut.nic->worker[1]->captures);
	cap_close(&s);
	CU_ASSERT_PTR_NULL(dut.nic->worker[0]->captures);
	CU_ASSERT_PTR_NULL(dut.nic->worker[1]->captures);
	probe_stop();
}

RULE(four_captures_see_each_its_own_and_a_fifth_is_refused)
{
	struct sp_error error = {0};
	struct reader r[SP_MAX_CAPTURES], more;

	dut_context(&dut, "a", "plain", "filter=udp");
	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++) {
		struct sp_capture_request q = {0};

		snprintf(q.filter, sizeof(q.filter), "udp port %u", 10 + i);
		r[i] = cap_reading(q);
	}
	CU_ASSERT_EQUAL(cap_try_read(&more, (struct sp_capture_request){0}, &error), -EBUSY);
	CU_ASSERT(error.text[0] != 0);
	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++)
		for (unsigned k = 0; k <= i; k++)
			probe_say_udp((uint16_t)(10 + i));
	dut_settle(&dut, 1);
	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++)
		CU_ASSERT_EQUAL(cap_left(&r[i]), i + 1);
	cap_close(&r[1]);
	probe_say_udp(11);
	probe_say_udp(12);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(cap_left(&r[2]), 1);
	r[1] = CAPTURE(.filter = "udp port 11");
	CU_ASSERT_EQUAL(cap_left(&r[1]), 0);
	probe_say_udp(11);
	dut_settle(&dut, 3);
	CU_ASSERT_EQUAL(cap_left(&r[1]), 1);
	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++)
		cap_close(&r[i]);
}

RULE(a_full_ring_loses_and_counts_and_the_nic_goes_on)
{
	const unsigned more = 100;
	struct reader r;
	unsigned slots;

	uint32_t a = dut_context(&dut, "a", "spoiler", "filter=udp");
	r = CAPTURE(.snaplen = 9600);
	slots = r.head->slots; /* each packet is two: received and sent */
	for (unsigned i = 0; i < slots / 2 + more; i++) {
		probe_say_udp(7);
		dut_settle(&dut, i);
	}
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), slots / 2 + more);
	CU_ASSERT_EQUAL(dut.port.sents, slots / 2 + more);
	CU_ASSERT_EQUAL(cap_ring_of(&r, 0)->lost[0], 2 * more);
	CU_ASSERT_EQUAL(cap_lost(&r), 2 * more);
	CU_ASSERT_EQUAL(cap_left(&r), slots);
	probe_say_udp(7);
	dut_settle(&dut, slots);
	expect(&r, TAKEN, "a", "", SP_SENT);
	expect(&r, SENT, "a", "", NO);
	CU_ASSERT_EQUAL(cap_lost(&r), 2 * more);
	cap_close(&r);
}

RULE(a_head_that_makes_no_sense_loses_and_a_tail_is_never_read_back)
{
	dut_context(&dut, "a", "plain", "filter=udp");
	struct reader r = CAPTURE(0);
	cap_ring_of(&r, 0)->head = 1; /* nothing is there to be read */
	probe_say_udp(7);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(cap_lost(&r), 1);
	CU_ASSERT_EQUAL(cap_ring_of(&r, 0)->tail, 0);
	cap_ring_of(&r, 0)->head = 0;
	cap_ring_of(&r, 0)->tail = 12345;
	cap_ring_of(&r, 0)->lost[0] = 99;
	probe_say_udp(7);
	dut_settle(&dut, 2);
	CU_ASSERT_EQUAL(cap_ring_of(&r, 0)->tail, 1);
	expect(&r, TAKEN, "a", "", SP_DONE);
	cap_ring_of(&r, 0)->head = 7;
	probe_say_udp(7);
	dut_settle(&dut, 3);
	CU_ASSERT_EQUAL(cap_ring_of(&r, 0)->lost[0], 2);
	cap_close(&r);
}

RULE(whatever_is_written_into_the_memory_the_nic_goes_on)
{
	static const uint64_t lies[] = {1, 2, UINT64_MAX, 1ull << 63, UINT32_MAX, 65536, 70000};
	uint64_t seed = 7, fed = 0;

	uint32_t a = dut_context(&dut, "a", "spoiler", "filter=udp");
	struct reader r = CAPTURE(0);
	for (unsigned i = 0; i < 200; i++) {
		uint64_t *words = r.memory.base;
		struct sp_capture_ring *ring = (void *)((uint8_t *)r.memory.base + RTE_ALIGN(sizeof(*r.head), 64));

		switch (i % 3) {
		case 0:
			ring->head = lies[i / 3 % (sizeof(lies) / sizeof(*lies))];
			break;
		case 1:
			for (size_t k = 0; k < r.memory.bytes / 8; k += 1 + dut_random(&seed) % 64)
				words[k] = dut_random(&seed);
			break;
		case 2: /* a head that says: all read, and far ahead */
			ring->head = ring->tail + dut_random(&seed) % 100000;
			break;
		}
		for (unsigned k = 0; k < 40; k++, fed++)
			probe_say_udp(7);
		dut_settle(&dut, i);
	}
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), fed);
	CU_ASSERT_EQUAL(dut.port.sents, fed);
	cap_close(&r);
}

RULE(without_packet_buffers_capturing_goes_on)
{
	uint32_t a = dut_context(&dut, "a", "plain", "filter=udp");
	struct reader r = CAPTURE(0);
	for (unsigned i = 0; i < 100; i++)
		probe_say_udp(7);
	buffers_take_all();
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 100);
	CU_ASSERT_EQUAL(cap_left(&r), 100);
	buffers_give_back();
	cap_close(&r);
}
