/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines, tensor parallelism and both: bytes, bubbles, and how fast the links inside a server must be. */
#include "../../testbed/motif/train.h"
#include "../lib/suite.h"

#include <math.h>

#define RATE	100000000000ull
#define BYTE	80ull
#define LATENCY SP_US

static struct train *train;
static struct train_outcome outcome;

static sp_time run(struct train_config c, struct links_nic network, struct links_nic inside)
{
	const struct train_world world = {.nic = {network, inside}};

	c.steps = c.steps ? c.steps : 1;
	c.layers = c.layers ? c.layers : 1;
	CU_ASSERT_EQUAL_FATAL(train_create(&c, &train), 0);
	CU_ASSERT_EQUAL_FATAL(train_run(train, &world, &outcome), 0);
	return outcome.all.end;
}

static void end(void)
{
	train_outcome_free(&outcome);
	train_destroy(train);
}

TEST(the_bubble_of_a_pipeline_without_transfer_time_is_its_stages_less_one_over_the_micro_batches)
{
	for (uint32_t p = 2; p <= 16; p += 3)
		for (uint32_t m = 1; m <= 64; m *= 2) {
			const sp_time ideal = m * (300 + 700) * SP_NS;
			const sp_time took = run((struct train_config){.scheme = TRAIN_PIPELINE,
								       .workers = p,
								       .micro_batches = m,
								       .compute = 300,
								       .backward = 700},
						 (struct links_nic){RATE, 0}, (struct links_nic){0});

			/* (took - ideal) / ideal = (p - 1) / m, without a division */
			CU_ASSERT_EQUAL((took - ideal) * m, (p - 1) * ideal);
			end();
		}
}

TEST(a_pipelines_links_carry_each_micro_batch_there_and_back)
{
	const uint32_t p = 5, m = 7;
	const uint64_t n = 12345;

	run((struct train_config){.scheme = TRAIN_PIPELINE,
				  .workers = p,
				  .micro_batches = m,
				  .compute = 1,
				  .backward = 2,
				  .bytes = n},
	    (struct links_nic){RATE, LATENCY}, (struct links_nic){0});
	for (uint32_t i = 0; i < p; i++) {
		const uint64_t links = (i > 0) + (i < p - 1);

		CU_ASSERT_EQUAL(outcome.node[i].sent[0], links * m * n);
		CU_ASSERT_EQUAL(outcome.node[i].received[0], links * m * n);
		CU_ASSERT_EQUAL(outcome.node[i].work[TRAIN_HOST], m * 3 * SP_NS);
	}
	CU_ASSERT_EQUAL(outcome.all.messages, 2 * m * (p - 1));
	CU_ASSERT_EQUAL(outcome.rounds, 2 * (p - 1));
	end();
}

TEST(a_pipeline_with_transfers_takes_what_its_recurrence_says)
{
	/* f[s][i]: when stage s has computed micro-batch i, forward; out: when its link has sent it. */
	const uint32_t p = 4, m = 6;
	const sp_time wire = 20000 * BYTE, pass[2] = {1000 * SP_NS, 1500 * SP_NS};
	sp_time all = 0;

	for (unsigned way = 0; way < 2; way++) {
		sp_time there[6], computed[6];

		for (uint32_t i = 0; i < m; i++)
			there[i] = 0;
		for (uint32_t s = 0; s < p; s++)
			for (uint32_t i = 0; i < m; i++) {
				const sp_time begin = i && computed[i - 1] > there[i] ? computed[i - 1] : there[i];
				sp_time leaves = begin + pass[way];

				computed[i] = leaves;
				if (i && s + 1 < p && leaves < there[i - 1] - LATENCY)
					leaves = there[i - 1] - LATENCY; /* the link is busy until then */
				there[i] = s + 1 < p ? leaves + wire + LATENCY : computed[i];
			}
		all += there[m - 1];
	}
	CU_ASSERT_EQUAL(run((struct train_config){.scheme = TRAIN_PIPELINE,
						  .workers = p,
						  .micro_batches = m,
						  .compute = 1000,
						  .backward = 1500,
						  .bytes = 20000},
			    (struct links_nic){RATE, LATENCY}, (struct links_nic){0}),
			all);
	end();
}

TEST(a_tensor_parallel_layer_gathers_forward_and_adds_up_backward)
{
	for (uint32_t p = 2; p <= 16; p++) {
		const uint64_t n = 1000 * p, layers = 3;
		const sp_time round = LATENCY + 1000 * BYTE;
		const sp_time took = run((struct train_config){.scheme = TRAIN_TENSOR,
							       .workers = p,
							       .micro_batches = 1,
							       .layers = layers,
							       .compute = 5000,
							       .backward = 10000,
							       .bytes = n},
					 (struct links_nic){RATE, LATENCY}, (struct links_nic){0});

		CU_ASSERT_EQUAL(took, layers * (15 * SP_US + 3 * (p - 1) * round));
		for (uint32_t i = 0; i < p; i++) /* (P - 1) / P N forward, 2 (P - 1) / P N backward */
			CU_ASSERT_EQUAL(outcome.node[i].sent[0], 3 * layers * (n / p) * (p - 1));
		CU_ASSERT_EQUAL(outcome.rounds, layers * 3 * (p - 1));
		end();
	}
}

TEST(a_hybrids_workers_use_both_links_as_the_formulas_say)
{
	const uint32_t p = 4, servers = 3, m = 5;
	const uint64_t n = 4000;

	run((struct train_config){.scheme = TRAIN_HYBRID,
				  .workers = p,
				  .servers = servers,
				  .micro_batches = m,
				  .compute = 10,
				  .backward = 20,
				  .bytes = n},
	    (struct links_nic){RATE / p, LATENCY}, (struct links_nic){2 * RATE, LATENCY});
	for (uint32_t i = 0; i < p * servers; i++) {
		const uint64_t links = (i >= p) + (i < p * (servers - 1));

		CU_ASSERT_EQUAL(outcome.node[i].sent[TRAIN_NETWORK], links * m * n / p);
		CU_ASSERT_EQUAL(outcome.node[i].sent[TRAIN_INSIDE], 3 * m * n / p * (p - 1));
	}
	end();
}

/* Time of one micro-batch more, which leaves out how a pipeline fills and empties. */
static double per_micro_batch(uint32_t p, double ratio)
{
	struct train_config c = {.scheme = TRAIN_HYBRID, .workers = p, .servers = 3, .bytes = 840000};
	const struct links_nic network = {RATE / p, 0}, inside = {(uint64_t)(ratio * (double)RATE), 0};
	sp_time took[2];

	for (unsigned i = 0; i < 2; i++) {
		c.micro_batches = i ? 12 : 6;
		took[i] = run(c, network, inside);
		end();
	}
	return (double)(took[1] - took[0]) / 6;
}

/* A server's network carries N a micro-batch and direction; a worker's link inside 2 (P - 1) / P N on the way back, and
 * half of that on the way there. While the way back waits for the links inside, the time is that of these: it falls
 * with the ratio of the speeds, down to where the network is as slow. */
TEST(the_links_inside_a_server_must_be_faster_than_its_network_by_the_factor_of_a_ring)
{
	const uint32_t workers[] = {2, 4, 8};
	const double knee[] = {1.0, 1.5, 1.75};

	for (unsigned i = 0; i < 3; i++) {
		const double flat = per_micro_batch(workers[i], 2.5);
		double found = 0;

		CU_ASSERT(fabs(flat - 2 * 840000.0 * BYTE) < flat * 1e-3); /* the network's, both ways */
		for (double ratio = 0.9; ratio <= 2.5 && !(found > 0); ratio += 0.02)
			if (per_micro_batch(workers[i], ratio) <= flat * 1.001)
				found = ratio;
		CU_ASSERT(fabs(found - knee[i]) <= 0.02 * knee[i]);
		/* Below it, what the links inside take on the way back, and the network or they on the way there. */
		for (double ratio = 0.4 * knee[i]; ratio < knee[i]; ratio += 0.15 * knee[i]) {
			const double back = knee[i] / ratio, there = back / 2 > 1 ? back / 2 : 1;

			CU_ASSERT(fabs(per_micro_batch(workers[i], ratio) - (back + there) * flat / 2) < flat * 5e-3);
		}
	}
}

TEST(steps_of_a_pipeline_begin_as_soon_as_a_stage_has_ended_its_own)
{
	const struct train_config one = {
		.scheme = TRAIN_PIPELINE, .workers = 4, .micro_batches = 8, .compute = 100, .backward = 100};
	struct train_config many = one;
	const sp_time took = run(one, (struct links_nic){RATE, 0}, (struct links_nic){0});

	end();
	many.steps = 3;
	CU_ASSERT_EQUAL(run(many, (struct links_nic){RATE, 0}, (struct links_nic){0}), 3 * took);
	CU_ASSERT_EQUAL(outcome.step[0], took); /* the first stage ends last, and begins first */
	end();
}
