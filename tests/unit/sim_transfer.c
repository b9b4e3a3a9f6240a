/* SPDX-License-Identifier: BSD-3-Clause */
/* A message across a simulated way, from the inside: what a simulation must notice cannot be brought about from
 * outside. */
#include "../../testbed/transfer.c"
#include "../lib/suite.h"

static struct sp_transfer *transfer_of(struct sp_transfer_config config)
{
	struct sp_transfer *c = NULL;
	struct sp_error error;

	config.link[0].delay = config.link[1].delay = SP_MS;
	config.link[0].bandwidth = config.link[1].bandwidth = 10000000000;
	config.mtu = config.mtu ? config.mtu : 1024;
	config.chunk = 8192;
	config.seed = 3;
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_transfer_create(&config, &error, &c), 0);
	return c;
}

static uint64_t spoilt; /* byte of the message */

static void spoil(void *arg, sp_time now)
{
	struct sp_transfer *c = arg;
	c->bytes[1][spoilt] = (uint8_t)~c->bytes[0][spoilt];
}

static sp_time never(void *arg)
{
	return SP_NEVER;
}

TEST(a_byte_that_arrives_otherwise_than_it_was_sent_is_noticed)
{
	const uint64_t message = 100001;

	for (spoilt = 0; spoilt < message; spoilt += spoilt ? message - 2 : 1) { /* first, second and last byte */
		struct sp_transfer *c = transfer_of((struct sp_transfer_config){.message = message});
		struct sp_transfer_counters n;
		sp_time took;

		CU_ASSERT_EQUAL_FATAL(
			sp_world_add_host(c->world, &(struct sp_world_host){.step = spoil, .next = never, .arg = c}),
			0);
		CU_ASSERT_EQUAL(sp_transfer_send(c, &took), -EBADMSG);
		sp_transfer_count(c, &n);
		CU_ASSERT_EQUAL(n.verified, 0);
		sp_transfer_destroy(c);
	}
}

TEST(a_message_that_nobody_acknowledges_fails_at_its_timeout)
{
	struct sp_transfer *c = transfer_of(
		(struct sp_transfer_config){.message = 65536, .chunk_drop = 1, .reliable = {.timeout = 3 * SP_SEC}});
	sp_time took = 0;

	c->chunk_loss[0].packet = c->chunk_loss[1].packet = 0; /* what the two tell each other comes through */
	CU_ASSERT_EQUAL(sp_transfer_send(c, &took), -ETIMEDOUT);
	CU_ASSERT(took >= 3 * SP_SEC && took < 3 * SP_SEC + SP_MS);
	sp_transfer_destroy(c);
}

TEST(each_chunk_is_lost_whole_and_every_sending_of_it_anew)
{
	struct sp_transfer *c = transfer_of((struct sp_transfer_config){.message = 800 * 8192, .chunk_drop = 0.25});
	struct sp_transfer_counters n;
	struct sp_link_counters link;
	sp_time took;

	c->chunk_loss[0].packet = c->chunk_loss[1].packet = 0;
	CU_ASSERT_EQUAL(sp_transfer_send(c, &took), 0);
	sp_transfer_count(c, &n);
	sp_link_count(c->link, 0, &link);
	CU_ASSERT_EQUAL(n.packets, 6400 + n.retransmitted);
	CU_ASSERT_EQUAL(link.lost, n.retransmitted); /* as many sendings are lost as go again, with all their packets */
	CU_ASSERT_EQUAL(link.lost % 8, 0);
	CU_ASSERT(link.lost > 8 * 180 && link.lost < 8 * 360); /* 800 / 3 = 267, standard deviation 19 */
	CU_ASSERT_EQUAL(n.verified, 800 * 8192);
	sp_transfer_destroy(c);
}

TEST(impossible_values_are_refused)
{
	const struct sp_transfer_config wrong[] = {
		{.message = 0, .chunk = 1024, .mtu = 1024},
		{.message = 1, .chunk = 1024, .mtu = 0},
		{.message = 1, .chunk = 0, .mtu = 1024},
		{.message = 1, .chunk = 1500, .mtu = 1024},
		{.message = (1024ull << 18) + 1, .chunk = 1024, .mtu = 1024},
		{.message = 1, .chunk = 1024, .mtu = 1024, .chunk_drop = -0.1},
		{.message = 1, .chunk = 1024, .mtu = 1024, .chunk_drop = 1.1},
		{.message = 1, .chunk = 1024, .mtu = 1024, .link = {{.loss = 2}}},
		{.message = 1, .chunk = 1024, .mtu = 32},
	};
	struct sp_transfer *c = NULL;
	struct sp_error error;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CU_ASSERT_EQUAL(sp_transfer_create(&wrong[i], &error, &c), -EINVAL);
		CU_ASSERT(*error.text);
	}
}
