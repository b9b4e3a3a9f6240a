/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules over full-duplex links: each rule of links.h against times that are counted by hand, or by a recurrence. */
#include "../../testbed/motif/links.h"
#include "../../testbed/random.h"
#include "../lib/suite.h"

#define RATE	100000000000ull /* 80 ps a byte */
#define LATENCY (SP_US)
#define BYTE	80u
#define RANKS	8u
#define OPS	64u

static struct goal *goal;
static struct links_node node[RANKS];
static struct links_result result;
static sp_time ended[RANKS][OPS];
static uint32_t chain[RANKS][OPS];

static void begin(uint32_t ranks)
{
	CU_ASSERT_EQUAL_FATAL(goal_create(ranks, &goal), 0);
}

static uint32_t add(uint32_t rank, enum goal_type type, uint64_t size, uint32_t peer, uint32_t tag)
{
	uint32_t index;

	CU_ASSERT_EQUAL_FATAL(goal_add(goal, rank, &(struct goal_op){size, peer, tag, (uint8_t)type, 0, 0, 0}, &index),
			      0);
	return index;
}

static void after(uint32_t rank, uint32_t op, uint32_t before)
{
	CU_ASSERT_EQUAL_FATAL(goal_requires(goal, rank, op, before), 0);
}

static void done(void *arg, uint32_t rank, uint32_t op, sp_time now, uint32_t messages)
{
	ended[rank][op] = now;
	chain[rank][op] = messages;
}

static int run_with(struct links_config c)
{
	int err;

	CU_ASSERT_EQUAL_FATAL(goal_finish(goal), 0);
	c.goal = goal;
	c.done = done;
	c.nic[0] = c.nic[0].rate ? c.nic[0] : (struct links_nic){RATE, LATENCY};
	err = links_run(&c, node, &result);
	goal_destroy(goal);
	return err;
}

static void run(void)
{
	CU_ASSERT_EQUAL(run_with((struct links_config){0}), 0);
}

TEST(a_message_alone_takes_the_latency_and_its_bytes)
{
	begin(2);
	add(0, GOAL_SEND, 1000, 1, 0);
	add(1, GOAL_RECV, 1000, 0, 0);
	run();
	CU_ASSERT_EQUAL(ended[0][0], 1000 * BYTE); /* the last byte has left */
	CU_ASSERT_EQUAL(ended[1][0], LATENCY + 1000 * BYTE);
	CU_ASSERT_EQUAL(result.end, LATENCY + 1000 * BYTE);
	CU_ASSERT_EQUAL(result.messages, 1);
	CU_ASSERT_EQUAL(result.bytes, 1000);
	CU_ASSERT_EQUAL(result.chain, 1);
	CU_ASSERT_EQUAL(node[0].sent[0], 1000);
	CU_ASSERT_EQUAL(node[1].received[0], 1000);
	CU_ASSERT_EQUAL(node[0].received[0] + node[1].sent[0], 0);
}

TEST(both_directions_of_a_link_are_used_at_once)
{
	begin(2);
	for (uint32_t i = 0; i < 2; i++) {
		add(i, GOAL_SEND, 5000, 1 - i, 0);
		add(i, GOAL_RECV, 5000, 1 - i, 0);
	}
	run();
	CU_ASSERT_EQUAL(result.end, LATENCY + 5000 * BYTE);
}

TEST(messages_to_one_come_in_one_after_the_other_in_the_order_of_their_first_bytes)
{
	begin(RANKS);
	for (uint32_t i = 1; i < RANKS; i++) {
		after(i, add(i, GOAL_SEND, 1000, 0, 0), add(i, GOAL_CALC, RANKS - i, 0, 0)); /* the last one first */
		add(0, GOAL_RECV, 1000, i, 0);
	}
	run();
	for (uint32_t i = 1; i < RANKS; i++)
		CU_ASSERT_EQUAL(ended[0][i - 1], SP_NS + LATENCY + (RANKS - i) * 1000 * BYTE);
	CU_ASSERT_EQUAL(node[0].fan_in, RANKS - 1);
}

TEST(messages_of_one_leave_one_after_the_other)
{
	begin(RANKS);
	for (uint32_t i = 1; i < RANKS; i++) {
		add(0, GOAL_SEND, 1000, i, 0);
		add(i, GOAL_RECV, 1000, 0, 0);
	}
	run();
	for (uint32_t i = 1; i < RANKS; i++) {
		CU_ASSERT_EQUAL(ended[i][0], LATENCY + i * 1000 * BYTE);
		CU_ASSERT_EQUAL(node[i].fan_in, 1);
	}
}

TEST(of_messages_that_follow_closely_only_one_is_coming_in)
{
	begin(2);
	for (uint32_t i = 0; i < 5; i++) {
		add(0, GOAL_SEND, 1000, 1, i);
		add(1, GOAL_RECV, 1000, 0, i);
	}
	run();
	CU_ASSERT_EQUAL(node[1].fan_in, 1);
}

TEST(receives_get_what_fits_in_order)
{
	begin(3);
	add(0, GOAL_SEND, 100, 2, 7);
	add(1, GOAL_SEND, 50, 2, 8);
	after(0, add(0, GOAL_SEND, 100, 2, 8), 0);
	after(2, add(2, GOAL_RECV, 0, 0, 8), add(2, GOAL_CALC, 5000, 0, 0)); /* op 1 after op 0: all have come */
	CU_ASSERT_EQUAL(goal_ops(goal, 2), 2);
	add(2, GOAL_RECV, 0, GOAL_ANY, 8);
	add(2, GOAL_RECV, 0, GOAL_ANY, GOAL_ANY);
	run();
	CU_ASSERT_EQUAL(ended[2][0], 5 * SP_US);
}

static uint32_t from[OPS]; /* by receive */

static void moved(void *arg, uint32_t sender, uint32_t send_op, uint32_t receiver, uint32_t receive_op)
{
	from[receive_op] = sender * 100 + send_op;
}

TEST(a_receive_of_any_source_or_tag_takes_the_message_that_came_first)
{
	begin(3);
	add(0, GOAL_SEND, 100, 2, 7);
	add(0, GOAL_SEND, 100, 2, 9);
	add(1, GOAL_SEND, 50, 2, 9);
	add(2, GOAL_CALC, 5000, 0, 0);
	after(2, add(2, GOAL_RECV, 0, 0, GOAL_ANY), 0);
	after(2, add(2, GOAL_RECV, 0, GOAL_ANY, 9), 0);
	after(2, add(2, GOAL_RECV, 0, GOAL_ANY, 9), 0);
	CU_ASSERT_EQUAL(run_with((struct links_config){.moved = moved}), 0);
	CU_ASSERT_EQUAL(from[1], 0);
	CU_ASSERT_EQUAL(from[2], 100); /* rank 1's came into the link behind rank 0's first, which was posted earlier */
	CU_ASSERT_EQUAL(from[3], 1);
}

TEST(a_processor_does_one_thing_at_a_time_and_what_takes_no_time_does_not_wait)
{
	uint32_t calc;

	begin(2);
	calc = add(0, GOAL_CALC, 100, 0, 0);
	add(0, GOAL_CALC, 50, 0, 0);
	add(0, GOAL_SEND, 0, 1, 0);
	add(1, GOAL_RECV, 0, 0, 0);
	CU_ASSERT_EQUAL(goal_irequires(goal, 0, add(0, GOAL_SEND, 0, 1, 1), calc), 0);
	CU_ASSERT_EQUAL(goal_irequires(goal, 0, add(0, GOAL_SEND, 0, 1, 2), 1), 0);
	add(1, GOAL_RECV, 0, 0, 1);
	add(1, GOAL_RECV, 0, 0, 2);
	run();
	CU_ASSERT_EQUAL(ended[0][0], 100 * SP_NS);
	CU_ASSERT_EQUAL(ended[0][1], 150 * SP_NS);
	CU_ASSERT_EQUAL(ended[1][0], LATENCY);
	CU_ASSERT_EQUAL(ended[1][1], LATENCY);
	CU_ASSERT_EQUAL(ended[1][2], LATENCY + 100 * SP_NS); /* the second calc starts when the first has ended */
	CU_ASSERT_EQUAL(node[0].work[0], 150 * SP_NS);
}

TEST(sends_and_receives_take_the_processors_overhead)
{
	begin(2);
	for (uint32_t i = 0; i < 3; i++) {
		add(0, GOAL_SEND, 0, 1, i);
		add(1, GOAL_RECV, 0, 0, i);
	}
	CU_ASSERT_EQUAL(run_with((struct links_config){.overhead = {10 * SP_NS}}), 0);
	for (uint32_t i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(ended[0][i], (i + 1) * 10 * SP_NS);
		CU_ASSERT_EQUAL(ended[1][i], LATENCY + (i + 2) * 10 * SP_NS);
	}
	CU_ASSERT_EQUAL(node[1].work[0], 30 * SP_NS);
}

/* A processor that stands still in the first half of each microsecond. */
static sp_time halves(void *arg, uint32_t rank, uint8_t cpu, sp_time at, sp_time work)
{
	const sp_time half = SP_US / 2;

	if (at % SP_US < half)
		at += half - at % SP_US;
	for (; work > SP_US - at % SP_US; at += SP_US - at % SP_US + half)
		work -= SP_US - at % SP_US;
	return at + work;
}

TEST(work_is_stretched_and_holds_the_processor_meanwhile)
{
	begin(1);
	add(0, GOAL_CALC, 700, 0, 0);
	add(0, GOAL_CALC, 100, 0, 0);
	CU_ASSERT_EQUAL(run_with((struct links_config){.stretch = halves}), 0);
	CU_ASSERT_EQUAL(ended[0][0], 1700 * SP_NS);
	CU_ASSERT_EQUAL(ended[0][1], 1800 * SP_NS);
	CU_ASSERT_EQUAL(node[0].work[0], 800 * SP_NS);
}

TEST(the_second_link_has_a_rate_and_latency_of_its_own_and_delays_nothing_on_the_first)
{
	begin(2);
	for (uint8_t nic = 0; nic < 2; nic++) {
		CU_ASSERT_EQUAL(goal_add(goal, 0, &(struct goal_op){1000, 1, nic, GOAL_SEND, 0, nic, 0}, NULL), 0);
		CU_ASSERT_EQUAL(goal_add(goal, 1, &(struct goal_op){1000, 0, nic, GOAL_RECV, 0, nic, 0}, NULL), 0);
	}
	CU_ASSERT_EQUAL(run_with((struct links_config){.nic = {{RATE, LATENCY}, {2 * RATE, 3 * LATENCY}}}), 0);
	CU_ASSERT_EQUAL(ended[1][0], LATENCY + 1000 * BYTE);
	CU_ASSERT_EQUAL(ended[1][1], 3 * LATENCY + 500 * BYTE);
	CU_ASSERT_EQUAL(node[0].sent[1], 1000);
}

TEST(the_longest_chain_of_messages_is_told)
{
	begin(4);
	add(0, GOAL_SEND, 1, 1, 0);
	add(1, GOAL_RECV, 1, 0, 0);
	after(1, add(1, GOAL_SEND, 1, 2, 0), 0);
	add(2, GOAL_RECV, 1, 1, 0);
	after(2, add(2, GOAL_CALC, 3, 0, 0), 0);
	after(2, add(2, GOAL_SEND, 1, 3, 0), 1);
	add(3, GOAL_RECV, 1, 2, 0);
	add(3, GOAL_SEND, 1, 2, 5);
	add(2, GOAL_RECV, 1, 3, 5);
	run();
	CU_ASSERT_EQUAL(result.chain, 3);
	CU_ASSERT_EQUAL(chain[3][0], 3);
	CU_ASSERT_EQUAL(chain[2][3], 1);
}

TEST(a_receive_whose_message_nobody_sends_is_named)
{
	begin(2);
	add(0, GOAL_SEND, 1, 1, 3);
	add(1, GOAL_RECV, 1, 0, 3);
	after(1, add(1, GOAL_RECV, 1, 0, 4), 0);
	after(1, add(1, GOAL_SEND, 1, 0, 4), 1);
	CU_ASSERT_EQUAL(run_with((struct links_config){0}), -EDEADLK);
	CU_ASSERT_EQUAL(result.stuck_rank, 1);
	CU_ASSERT_EQUAL(result.stuck_op, 1);
}

TEST(what_cannot_be_run_is_refused)
{
	const struct goal_op bad[] = {{1, 0, 0, GOAL_CALC, LINKS_CPUS, 0, 0},
				      {1, 0, 0, GOAL_SEND, 0, LINKS_NICS, 0},
				      {1, 0, 0, GOAL_SEND, 0, 1, 0}}; /* that link has no rate */

	for (unsigned i = 0; i < 3; i++) {
		begin(1);
		CU_ASSERT_EQUAL(goal_add(goal, 0, &bad[i], NULL), 0);
		CU_ASSERT_EQUAL(run_with((struct links_config){0}), -EINVAL);
	}
}

TEST(times_beyond_the_greatest_are_errors)
{
	begin(1);
	add(0, GOAL_CALC, UINT64_MAX, 0, 0);
	CU_ASSERT_EQUAL(run_with((struct links_config){0}), -ERANGE);
	begin(1);
	add(0, GOAL_CALC, LINKS_TIME_MAX / SP_NS - 1, 0, 0);
	after(0, add(0, GOAL_CALC, LINKS_TIME_MAX / SP_NS - 1, 0, 0), 0);
	CU_ASSERT_EQUAL(run_with((struct links_config){0}), -ERANGE);
	begin(2);
	add(0, GOAL_SEND, UINT64_MAX, 1, 0);
	add(1, GOAL_RECV, UINT64_MAX, 0, 0);
	CU_ASSERT_EQUAL(run_with((struct links_config){.nic = {{1, UINT64_MAX}}}), -ERANGE);
	CU_ASSERT_EQUAL(links_wire(UINT64_MAX, 1), LINKS_TIME_MAX);
	CU_ASSERT_EQUAL(links_wire(1, 3), 8 * SP_SEC / 3 + 1);
	CU_ASSERT_EQUAL(links_wire(0, 1), 0);
}

TEST(a_schedule_without_operations_ends_at_once)
{
	begin(3);
	run();
	CU_ASSERT_EQUAL(result.end, 0);
	CU_ASSERT_EQUAL(result.events, 0);
}

/* Rounds on a ring: in each, every rank computes for as long as it likes, then sends to the next, and goes on with the
 * message of the one before. What the links do is written down once more, as a recurrence over rounds. */
static void ring_of_seed(uint64_t seed)
{
	const uint32_t rounds = 12;
	sp_time ready[RANKS] = {0}, out[RANKS] = {0}, in[RANKS] = {0}, head[RANKS];
	uint64_t bytes[RANKS];
	struct sp_random random;

	sp_random_seed(&random, seed, 0);
	begin(RANKS);
	for (uint32_t round = 0; round < rounds; round++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			const uint64_t ns = sp_random_next(&random) % 3000;
			const uint32_t calc = add(i, GOAL_CALC, ns, 0, 0);

			bytes[i] = sp_random_next(&random) % 20000;
			if (calc)
				after(i, calc, calc - 1);
			after(i, add(i, GOAL_SEND, bytes[i], (i + 1) % RANKS, 0), calc);
			after(i, add(i, GOAL_RECV, 0, (i + RANKS - 1) % RANKS, 0), calc);
			ready[i] += ns * SP_NS;
			head[i] = (out[i] > ready[i] ? out[i] : ready[i]) + LATENCY;
			out[i] = head[i] - LATENCY + bytes[i] * BYTE;
		}
		for (uint32_t i = 0; i < RANKS; i++) {
			const uint32_t before = (i + RANKS - 1) % RANKS;

			in[i] = (in[i] > head[before] ? in[i] : head[before]) + bytes[before] * BYTE;
			ready[i] = ready[i] > in[i] ? ready[i] : in[i];
		}
	}
	run();
	for (uint32_t i = 0; i < RANKS; i++)
		CU_ASSERT_EQUAL(ended[i][3 * rounds - 1], ready[i]);
}

TEST(rounds_on_a_ring_take_what_a_recurrence_says)
{
	for (uint64_t seed = 0; seed < 50; seed++)
		ring_of_seed(seed);
}
