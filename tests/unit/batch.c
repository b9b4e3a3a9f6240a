/* SPDX-License-Identifier: BSD-3-Clause */
/* A message by RVMA and by RDMA's ways, in virtual time: what each takes is what its packets take, and a receiver is
 * told of bytes that are there. */
#include "../../testbed/batch.h"
#include "../lib/suite.h"

#define GAUGE  100 /* messages */
#define BIT    10  /* ps, at 100 Gbit/s */
#define PACKET 4096u
#define HEADS  (14 + 20 + 8 + 12 + 56 + 4 + 24) /* Ethernet, IPv4, UDP, BTH, put, ICRC; preamble, FCS and gap */

static const struct sp_link_direction ordered = {.bandwidth = 100000000000, .delay = SP_US, .queue = 4096},
				      adaptive = {.bandwidth = 100000000000,
						  .delay = SP_US,
						  .jitter = SP_US,
						  .queue = 4096};

static sp_time times[GAUGE];
static unsigned count;

static void note(void *arg, sp_time time)
{
	if (count < GAUGE)
		times[count] = time;
	count++;
}

/* Messages whose announcement was wrong. */
static uint64_t play(enum sp_batch_way way, uint32_t size, unsigned messages, const struct sp_link_direction *link,
		     uint64_t seed)
{
	const struct sp_batch_config config = {.way = way, .size = size, .messages = messages, .ended = note};
	uint64_t torn = 0;

	count = 0;
	int r = sp_batch_simulate(&config, link, seed, &torn);
	CU_ASSERT_EQUAL_FATAL(r, 0);
	CU_ASSERT_EQUAL_FATAL(count, messages);
	return torn;
}

static sp_time wire(uint32_t size)
{
	const uint32_t packets = (size - 1) / PACKET + 1;

	return (sp_time)((size + 3) / 4 * 4 + packets * HEADS) * 8 * BIT;
}

static const uint32_t sizes[] = {8, 64, 1000, 4096, 4097, 32768, 1048576};
#define EACH_SIZE(i) for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)

TEST(a_put_is_told_when_its_last_packet_has_come)
{
	EACH_SIZE(i)
	{
		CU_ASSERT_EQUAL(play(SP_BATCH_PUT, sizes[i], 3, &ordered, 1), 0);
		for (unsigned k = 0; k < 3; k++)
			CU_ASSERT_EQUAL(times[k], wire(sizes[i]) + SP_US);
	}
}

TEST(polling_the_last_byte_takes_as_long_as_a_put)
{
	EACH_SIZE(i)
	{
		CU_ASSERT_EQUAL(play(SP_BATCH_LAST_BYTE, sizes[i], 3, &ordered, 1), 0);
		CU_ASSERT_EQUAL(times[0], wire(sizes[i]) + SP_US);
	}
}

TEST(a_send_behind_a_write_takes_a_packet_more_where_order_is_kept)
{
	EACH_SIZE(i)
	{
		CU_ASSERT_EQUAL(play(SP_BATCH_BEHIND, sizes[i], 3, &ordered, 1), 0);
		CU_ASSERT_EQUAL(times[0], wire(sizes[i]) + wire(1) + SP_US);
	}
}

/* The acknowledgement's own bytes are the engine's affair: less than 128 of them. */
TEST(a_send_after_the_acknowledgement_takes_a_round_trip_more)
{
	EACH_SIZE(i)
	{
		const sp_time least = wire(sizes[i]) + wire(1) + 3 * SP_US;

		CU_ASSERT_EQUAL(play(SP_BATCH_AFTERWARDS, sizes[i], 3, &ordered, 1), 0);
		for (unsigned k = 0; k < 3; k++) {
			CU_ASSERT(times[k] > least + 64 * 8 * BIT);
			CU_ASSERT(times[k] < least + 192 * 8 * BIT);
		}
	}
}

TEST(an_exchange_takes_a_round_trip_before_the_first_write)
{
	CU_ASSERT_EQUAL(play(SP_BATCH_EXCHANGE, 65536, 3, &ordered, 1), 0);
	for (unsigned k = 0; k < 3; k++)
		CU_ASSERT_EQUAL(times[k], 2 * (wire(16) + SP_US));
}

TEST(where_packets_overtake_a_put_still_takes_one_way_and_a_fence_three)
{
	CU_ASSERT_EQUAL(play(SP_BATCH_PUT, 8, GAUGE, &adaptive, 1), 0);
	for (unsigned k = 0; k < GAUGE; k++)
		CU_ASSERT(times[k] >= wire(8) + SP_US && times[k] <= wire(8) + 2 * SP_US);
	CU_ASSERT_EQUAL(play(SP_BATCH_AFTERWARDS, 8, GAUGE, &adaptive, 1), 0);
	for (unsigned k = 0; k < GAUGE; k++)
		CU_ASSERT(times[k] > wire(8) + 3 * SP_US && times[k] < wire(8) + 6 * SP_US + SP_US / 10);
}

TEST(only_the_last_byte_is_told_before_the_others_are_there)
{
	struct sp_link_direction bad = adaptive;

	bad.loss = 0.01;
	bad.duplicate = 0.01;
	for (unsigned i = 0; i < 2; i++) {
		const struct sp_link_direction *link = i ? &bad : &adaptive;

		CU_ASSERT_EQUAL(play(SP_BATCH_PUT, 65536, GAUGE, link, 1), 0);
		CU_ASSERT_EQUAL(play(SP_BATCH_BEHIND, 65536, GAUGE, link, 1), 0);
		CU_ASSERT_EQUAL(play(SP_BATCH_AFTERWARDS, 65536, GAUGE, link, 1), 0);
		CU_ASSERT(play(SP_BATCH_LAST_BYTE, 65536, GAUGE, link, 1) > 0);
	}
}

TEST(the_same_seed_gives_the_same_times)
{
	sp_time first[GAUGE];

	play(SP_BATCH_PUT, 32768, GAUGE, &adaptive, 5);
	memcpy(first, times, sizeof(first));
	play(SP_BATCH_PUT, 32768, GAUGE, &adaptive, 5);
	CU_ASSERT_EQUAL(memcmp(first, times, sizeof(first)), 0);
	play(SP_BATCH_PUT, 32768, GAUGE, &adaptive, 6);
	CU_ASSERT_NOT_EQUAL(memcmp(first, times, sizeof(first)), 0);
}
