/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of simulated nodes, from the inside: what a simulation must notice cannot be brought about from outside. */
#include "../../testbed/allreduce.c"
#include "../lib/suite.h"

static struct sp_allreduce *allreduce_of(struct sp_transfer_config way, uint32_t nodes)
{
	struct sp_allreduce *r = NULL;
	struct sp_error error;

	way.link[0].delay = way.link[1].delay = SP_MS;
	way.link[0].bandwidth = way.link[1].bandwidth = 10000000000;
	way.message = way.message ? way.message : 20001;
	way.mtu = 1024;
	way.chunk = 4096;
	way.seed = 3;
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_allreduce_create(&(struct sp_allreduce_config){way, nodes}, &error, &r), 0);
	return r;
}

TEST(every_node_has_the_sum_of_all_buffers_again_and_again)
{
	struct sp_allreduce *r = allreduce_of((struct sp_transfer_config){.chunk_drop = 0.05}, 4);
	struct sp_transfer_counters n;
	uint8_t before = 0;

	for (unsigned turn = 0; turn < 3; turn++) {
		sp_time took;

		CU_ASSERT_EQUAL(sp_allreduce_run(r, &took), 0);
		CU_ASSERT(took >= 6 * 2 * SP_MS);
		CU_ASSERT(memcmp(r->node[0].bytes, &before, 1)); /* of this seed: other numbers each time */
		before = r->node[0].bytes[0];
		for (uint32_t i = 1; i < 4; i++)
			CU_ASSERT(!memcmp(r->node[i].bytes, r->node[0].bytes, 4 * 20001));
	}
	sp_allreduce_count(r, &n);
	CU_ASSERT_EQUAL(n.messages, 3 * 4 * 6);
	CU_ASSERT_EQUAL(n.verified, 3 * 4 * 4 * 20001);
	CU_ASSERT_EQUAL(n.packets, n.messages * 20 + n.retransmitted);
	sp_allreduce_destroy(r);
}

static uint64_t spoilt; /* byte of the last node's buffer */

static void spoil(void *arg, sp_time now)
{
	struct sp_allreduce *r = arg;
	r->node[2].bytes[spoilt] = (uint8_t)~r->sum[spoilt];
}

static sp_time never(void *arg)
{
	return SP_NEVER;
}

TEST(a_byte_of_one_node_that_is_not_the_sum_is_noticed)
{
	for (spoilt = 0; spoilt < 3 * 20001; spoilt += 3 * 20001 - 1) {
		struct sp_allreduce *r = allreduce_of((struct sp_transfer_config){.mtu = 1024}, 3);
		struct sp_transfer_counters n;
		sp_time took;

		CU_ASSERT_EQUAL_FATAL(
			sp_world_add_host(r->world, &(struct sp_world_host){.step = spoil, .next = never, .arg = r}),
			0);
		CU_ASSERT_EQUAL(sp_allreduce_run(r, &took), -EBADMSG);
		sp_allreduce_count(r, &n);
		CU_ASSERT(n.verified <= 2 * 3 * 20001); /* what the others have may be right */
		sp_allreduce_destroy(r);
	}
}

TEST(a_message_that_nobody_acknowledges_ends_the_allreduce)
{
	struct sp_allreduce *r =
		allreduce_of((struct sp_transfer_config){.chunk_drop = 1, .reliable = {.timeout = 3 * SP_SEC}}, 3);
	sp_time took = 0;

	for (unsigned i = 0; i < 3; i++)
		r->chunk_loss[i][0].packet = r->chunk_loss[i][1].packet =
			0; /* what the nodes tell each other comes through */
	CU_ASSERT_EQUAL(sp_allreduce_run(r, &took), -ETIMEDOUT);
	CU_ASSERT(took >= 3 * SP_SEC && took < 3 * SP_SEC + SP_MS);
	sp_allreduce_destroy(r);
}

TEST(impossible_values_are_refused)
{
	const struct sp_transfer_config way = {.message = 1, .chunk = 1024, .mtu = 1024};
	const struct sp_allreduce_config wrong[] = {
		{.way = way, .nodes = 0},
		{.way = way, .nodes = 1},
		{.way = way, .nodes = SP_ALLREDUCE_NODES_MAX + 1},
		{.way = {.message = 0, .chunk = 1024, .mtu = 1024}, .nodes = 2},
		{.way = {.message = 1, .chunk = 1500, .mtu = 1024}, .nodes = 2},
		{.way = {.message = 1, .chunk = 1024, .mtu = 1024, .link = {{.loss = 2}}}, .nodes = 2},
		{.way = {.message = 1, .chunk = 1024, .mtu = 32}, .nodes = 2},
	};
	struct sp_allreduce *r = NULL;
	struct sp_error error;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CU_ASSERT_EQUAL(sp_allreduce_create(&wrong[i], &error, &r), -EINVAL);
		CU_ASSERT(*error.text);
	}
}
