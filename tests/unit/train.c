/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training: messages, bytes and times of each scheme against closed forms. P workers, N bytes, links of B
 * and latency L, each direction by itself:
 *     parameter server  2 rounds, 2 P messages; the server N P each way    2 (L + N P / B)
 *     sharded           2 rounds, 2 P (P - 1) messages                     2 (L + (P - 1) N / (P B))
 *     decentralised     P - 1 rounds, (P - 1) N each way                   (P - 1) (L + N / B)
 *     ring              2 (P - 1) rounds of N / P                          2 (P - 1) (L + N / (P B))
 */
#include "../../testbed/motif/train.h"
#include "../../testbed/random.h"
#include "../lib/suite.h"

#define RATE	100000000000ull
#define BYTE	80ull /* ps at that rate */
#define LATENCY SP_US
#define MIB	(1ull << 20)
#define MOST	16u

static struct train *train;
static struct train_outcome outcome;
static const struct train_world plain = {.nic = {{RATE, LATENCY}}};

static void run_in(struct train_config c, const struct train_world *world)
{
	c.steps = c.steps ? c.steps : 1;
	c.segments = c.segments ? c.segments : 1;
	CU_ASSERT_EQUAL_FATAL(train_create(&c, &train), 0);
	CU_ASSERT_EQUAL_FATAL(train_run(train, world, &outcome), 0);
}

static void run(struct train_config c)
{
	run_in(c, &plain);
}

static void end(void)
{
	train_outcome_free(&outcome);
	train_destroy(train);
}

static sp_time time_of(struct train_config c)
{
	run(c);
	end();
	return outcome.all.end;
}

static bool within_ns(sp_time a, sp_time b)
{
	return a < b + SP_NS && b < a + SP_NS;
}

/* Bytes of part i of P, as their begins lie: not by the code under test. */
static uint64_t part(uint64_t bytes, uint64_t i, uint64_t n)
{
	return bytes * (i % n + 1) / n - bytes * (i % n) / n;
}

static void check(uint32_t rounds, uint64_t messages, uint64_t bytes)
{
	CU_ASSERT_EQUAL(outcome.rounds, rounds);
	CU_ASSERT_EQUAL(outcome.all.messages, messages);
	CU_ASSERT_EQUAL(outcome.all.bytes, bytes);
}

static void check_node(uint32_t rank, uint64_t sent, uint64_t received)
{
	CU_ASSERT_EQUAL(outcome.node[rank].sent[0], sent);
	CU_ASSERT_EQUAL(outcome.node[rank].received[0], received);
}

static void parameter_server(uint32_t p, uint64_t n)
{
	for (unsigned offload = 0; offload < 2; offload++) {
		run((struct train_config){.scheme = TRAIN_PS, .workers = p, .bytes = n, .offload = offload});
		check(2, 2 * p, 2 * p * n);
		check_node(p, n * p, n * p);
		CU_ASSERT_EQUAL(outcome.node[p].fan_in, p);
		for (uint32_t i = 0; i < p; i++)
			check_node(i, n, n);
		CU_ASSERT(within_ns(outcome.all.end, 2 * (LATENCY + n * p * BYTE)));
		end();
	}
}

static void sharded(uint32_t p, uint64_t n)
{
	run((struct train_config){.scheme = TRAIN_PS_SHARDED, .workers = p, .bytes = n});
	check(2, 2 * p * (p - 1), 2 * (p - 1) * n);
	for (uint32_t i = 0; i < p; i++) /* all parts but its own, then its own to all others */
		check_node(i, n - part(n, i, p) + (p - 1) * part(n, i, p), n - part(n, i, p) + (p - 1) * part(n, i, p));
	if (n % p == 0)
		CU_ASSERT(within_ns(outcome.all.end, 2 * (LATENCY + (p - 1) * (n / p) * BYTE)));
	end();
}

static void decentralised(uint32_t p, uint64_t n)
{
	run((struct train_config){.scheme = TRAIN_DECENTRALISED, .workers = p, .bytes = n});
	check(p - 1, p * (p - 1), p * (p - 1) * n);
	for (uint32_t i = 0; i < p; i++) {
		check_node(i, (p - 1) * n, (p - 1) * n);
		CU_ASSERT_EQUAL(outcome.node[i].fan_in, 1);
	}
	CU_ASSERT(within_ns(outcome.all.end, (p - 1) * (LATENCY + n * BYTE)));
	end();
}

static void ring(uint32_t p, uint64_t n)
{
	const uint64_t longest = (n + p - 1) / p;

	run((struct train_config){.scheme = TRAIN_RING, .workers = p, .bytes = n});
	check(2 * (p - 1), 2 * p * (p - 1), 2 * (p - 1) * n);
	for (uint32_t i = 0; i < p; i++) {
		/* First all but the part that it ends up with, then all but the one that its neighbour ended up with.
		 */
		check_node(i, 2 * n - part(n, i + 1, p) - part(n, i + 2, p), 2 * n - part(n, i, p) - part(n, i + 1, p));
		CU_ASSERT_EQUAL(outcome.node[i].fan_in, 1);
	}
	CU_ASSERT_EQUAL(outcome.all.end, 2 * (p - 1) * (LATENCY + longest * BYTE));
	end();
}

static void halves_of_a_ring(uint32_t p, uint64_t n)
{
	sp_time took = 0;

	for (unsigned half = 0; half < 2; half++) {
		run((struct train_config){
			.scheme = half ? TRAIN_ALL_GATHER : TRAIN_REDUCE_SCATTER, .workers = p, .bytes = n});
		check(p - 1, p * (p - 1), (p - 1) * n);
		for (uint32_t i = 0; i < p; i++)
			check_node(i, n - part(n, i + 1 + half, p), n - part(n, i + half, p));
		took += outcome.all.end;
		end();
	}
	CU_ASSERT_EQUAL(took, 2 * (p - 1) * (LATENCY + (n + p - 1) / p * BYTE));
}

TEST(counts_and_times_are_the_closed_forms_for_2_to_16_workers_and_1_to_64_MiB)
{
	for (uint32_t p = 2; p <= MOST; p++)
		for (uint64_t n = MIB; n <= 64 * MIB; n *= 4) {
			parameter_server(p, n);
			sharded(p, n);
			decentralised(p, n);
			ring(p, n);
			halves_of_a_ring(p, n);
		}
}

TEST(bytes_that_no_number_of_workers_divides_are_all_sent)
{
	for (uint32_t p = 2; p <= MOST; p++)
		for (uint64_t n = 0; n < 3 * p; n += p / 2) {
			sharded(p, n);
			ring(p, n);
			halves_of_a_ring(p, n);
		}
}

TEST(few_bytes_are_faster_by_a_server_and_many_by_a_ring_with_the_crossing_where_the_closed_forms_are_equal)
{
	/* L + N P / B = (P - 1) (L + N / (P B)): N = L B (P - 2) / (P - (P - 1) / P) */
	for (uint32_t p = 3; p <= MOST; p++) {
		const double crossing = (double)(LATENCY / BYTE) * (p - 2) / (p - (p - 1.0) / p);

		for (unsigned more = 0; more < 2; more++) {
			struct train_config c = {.workers = p, .bytes = (uint64_t)(crossing * (more ? 1.02 : 0.98))};
			sp_time server, ringed;

			c.scheme = TRAIN_PS;
			server = time_of(c);
			c.scheme = TRAIN_RING;
			ringed = time_of(c);
			CU_ASSERT(more ? ringed < server : server < ringed);
		}
	}
}

TEST(a_server_that_answers_in_parts_sends_while_it_receives)
{
	/* 2 L + N P / B + N P / (S B): only the last part's answers remain when all has come. */
	for (uint32_t segments = 1; segments <= 64; segments *= 4) {
		const uint64_t n = MIB, p = 8;

		for (unsigned offload = 0; offload < 2; offload++) {
			run((struct train_config){.scheme = TRAIN_PS,
						  .workers = p,
						  .bytes = n,
						  .segments = segments,
						  .offload = offload});
			CU_ASSERT(within_ns(outcome.all.end, 2 * LATENCY + n * p * BYTE + n * p / segments * BYTE));
			check(2, 2 * p * segments, 2 * p * n);
			end();
		}
	}
}

TEST(an_answer_that_the_switch_copies_takes_the_servers_link_once)
{
	/* 2 L + (P + 1) N / B; in S parts, each of which is answered at once, 2 L + P N / B + N / (S B). */
	for (uint32_t p = 2; p <= MOST; p++)
		for (uint32_t segments = 1; segments <= 4; segments *= 2) {
			run((struct train_config){.scheme = TRAIN_PS,
						  .workers = p,
						  .bytes = MIB,
						  .segments = segments,
						  .multicast = true,
						  .offload = true});
			check(2, 2 * p * segments, 2 * p * MIB);
			check_node(p, MIB, p * MIB);
			check_node(0, MIB, MIB);
			CU_ASSERT(within_ns(outcome.all.end, 2 * LATENCY + p * MIB * BYTE + MIB / segments * BYTE));
			end();
		}
}

TEST(handlers_leave_the_servers_processor_alone)
{
	const struct train_world world = {.nic = {{RATE, LATENCY}}, .overhead = {100 * SP_NS}};
	struct train_config c = {.scheme = TRAIN_PS, .workers = 4, .bytes = MIB, .add_rate = 8 * RATE};
	const sp_time adding = MIB * 10 * 4; /* 10 ps a byte */

	run_in(c, &world);
	CU_ASSERT_EQUAL(outcome.node[4].work[TRAIN_HOST],
			8 * 100 * SP_NS + (adding + 4 * SP_NS - 1) / (4 * SP_NS) * 4 * SP_NS);
	CU_ASSERT_EQUAL(outcome.node[4].work[TRAIN_NIC], 0);
	end();
	c.offload = true;
	run_in(c, &world);
	CU_ASSERT_EQUAL(outcome.node[4].work[TRAIN_HOST], 0);
	CU_ASSERT_EQUAL(outcome.node[4].work[TRAIN_NIC], (adding + 4 * SP_NS - 1) / (4 * SP_NS) * 4 * SP_NS);
	CU_ASSERT_EQUAL(outcome.node[0].work[TRAIN_HOST], 200 * SP_NS);
	end();
}

TEST(adding_takes_time_where_it_is_slower_than_the_link_or_the_last)
{
	/* Of a server: twice as slow as the link, so that it ends P times its own time after the first message. */
	struct train_config c = {.scheme = TRAIN_PS, .workers = 4, .bytes = 1000, .add_rate = RATE / 2};

	CU_ASSERT_EQUAL(time_of(c), LATENCY + 1000 * BYTE + 4 * 2 * 1000 * BYTE + LATENCY + 4 * 1000 * BYTE);
	/* Of a ring: in each round of the first half. */
	c = (struct train_config){.scheme = TRAIN_RING, .workers = 4, .bytes = 4000, .add_rate = RATE / 2};
	CU_ASSERT_EQUAL(time_of(c), 6 * (LATENCY + 1000 * BYTE) + 3 * 2 * 1000 * BYTE);
}

TEST(computation_comes_before_each_exchange_and_steps_follow_on_each_other)
{
	const enum train_scheme schemes[] = {TRAIN_PS_SHARDED, TRAIN_DECENTRALISED, TRAIN_RING, TRAIN_BARRIER};

	for (unsigned i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
		struct train_config c = {.scheme = schemes[i], .workers = 8, .bytes = 8000};
		const sp_time exchange = time_of(c);

		c.steps = 5;
		c.compute = 3000;
		run(c);
		for (uint32_t step = 0; step < 5; step++)
			CU_ASSERT_EQUAL(outcome.step[step], (step + 1) * (3 * SP_US + exchange));
		end();
	}
}

TEST(workers_whose_answer_came_early_send_early_in_the_next_step)
{
	/* So the server need not wait for all at once: of the next steps, it receives one message after the last
	 * worker's answer, not P: C + 2 L + (P + 1) N / B. */
	const uint64_t p = 8, message = 8000 * BYTE;

	run((struct train_config){.scheme = TRAIN_PS, .workers = p, .bytes = 8000, .compute = 3000, .steps = 5});
	for (uint32_t step = 0; step < 5; step++)
		CU_ASSERT_EQUAL(outcome.step[step], 3 * SP_US + 2 * (LATENCY + p * message) +
							    step * (3 * SP_US + 2 * LATENCY + (p + 1) * message));
	end();
}

TEST(a_barrier_has_as_many_rounds_as_the_number_of_workers_has_bits)
{
	const uint32_t rounds[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4};

	for (uint32_t p = 2; p <= MOST; p++) {
		run((struct train_config){.scheme = TRAIN_BARRIER, .workers = p, .bytes = 64});
		check(rounds[p], rounds[p] * p, rounds[p] * p * 64);
		CU_ASSERT_EQUAL(outcome.all.end, rounds[p] * (LATENCY + 64 * BYTE));
		end();
	}
}

TEST(every_worker_has_the_sum_whatever_the_scheme)
{
	for (uint32_t p = 2; p <= MOST; p++) {
		const struct train_config c[] = {
			{.scheme = TRAIN_PS, .segments = 1},
			{.scheme = TRAIN_PS, .segments = 7, .offload = true},
			{.scheme = TRAIN_PS_SHARDED},
			{.scheme = TRAIN_DECENTRALISED},
			{.scheme = TRAIN_RING},
			{.scheme = TRAIN_RING, .offload = true},
			{.scheme = TRAIN_REDUCE_SCATTER},
		};
		const uint64_t results[] = {p, 7 * p, p * p, p, p * p, p * p, p};

		for (unsigned i = 0; i < sizeof(c) / sizeof(*c); i++) {
			struct train_config wanted = c[i];
			uint64_t compared = 0;

			wanted.workers = p;
			wanted.steps = 1;
			wanted.bytes = MIB;
			CU_ASSERT_EQUAL(train_sums(&wanted, &compared), 0);
			CU_ASSERT_EQUAL(compared, results[i]);
		}
	}
}

TEST(a_scheme_that_adds_nothing_has_no_sums)
{
	const enum train_scheme schemes[] = {TRAIN_ALL_GATHER, TRAIN_BARRIER, TRAIN_PIPELINE, TRAIN_PS_ASYNC};
	uint64_t compared;

	for (unsigned i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		CU_ASSERT_EQUAL(
			train_sums(&(struct train_config){.scheme = schemes[i], .workers = 2, .steps = 1}, &compared),
			-ENOTSUP);
}

static struct train_config any(uint64_t seed)
{
	struct sp_random r;

	sp_random_seed(&r, seed, 0);
	return (struct train_config){.scheme = (enum train_scheme)(sp_random_next(&r) % (TRAIN_HYBRID + 1)),
				     .offload = sp_random_next(&r) % 2,
				     .workers = 2 + (uint32_t)sp_random_next(&r) % 12,
				     .servers = 1 + (uint32_t)sp_random_next(&r) % 4,
				     .steps = 1 + (uint32_t)sp_random_next(&r) % 4,
				     .segments = 1,
				     .micro_batches = 1 + (uint32_t)sp_random_next(&r) % 5,
				     .layers = 1 + (uint32_t)sp_random_next(&r) % 3,
				     .bytes = sp_random_next(&r) % 100000,
				     .compute = sp_random_next(&r) % 5000,
				     .backward = sp_random_next(&r) % 5000,
				     .add_rate = sp_random_next(&r) % 2 * RATE};
}

/* Hosts that lose up to 1 us at each thing they do, as a hash of it says. */
static sp_time uneven(void *arg, uint32_t rank, uint8_t cpu, sp_time from, sp_time work)
{
	uint64_t state = from ^ (uint64_t)rank << 48;

	return from + work + sp_splitmix(&state) % SP_US;
}

TEST(whatever_is_asked_for_ends_and_all_that_is_sent_is_received_however_uneven_the_hosts)
{
	const struct train_world world = {.nic = {{RATE, LATENCY}, {3 * RATE, LATENCY / 2}},
					  .overhead = {50 * SP_NS, 20 * SP_NS},
					  .stretch = uneven};

	for (uint64_t seed = 0; seed < 100; seed++) {
		uint64_t sent = 0, received = 0, messages = 0;
		sp_time first, before = 0;

		run_in(any(seed), &world);
		for (uint32_t i = 0; i < train->ranks; i++) {
			sent += outcome.node[i].sent[0] + outcome.node[i].sent[1];
			received += outcome.node[i].received[0] + outcome.node[i].received[1];
			messages += outcome.node[i].messages_sent;
		}
		CU_ASSERT_EQUAL(sent, outcome.all.bytes);
		CU_ASSERT_EQUAL(received, outcome.all.bytes);
		CU_ASSERT_EQUAL(messages, outcome.all.messages);
		for (uint32_t i = 0; i < train->config.steps; i++) {
			CU_ASSERT(outcome.step[i] >= before);
			before = outcome.step[i];
		}
		CU_ASSERT_EQUAL(before, outcome.all.end);
		first = outcome.all.end;
		end();
		run_in(any(seed), &world); /* again, the same */
		CU_ASSERT_EQUAL(outcome.all.end, first);
		end();
	}
}

TEST(impossible_values_are_refused)
{
	const struct train_config good = {.scheme = TRAIN_PS, .workers = 2, .steps = 1, .segments = 1};
	struct train_config bad[] = {good, good, good, good, good, good, good, good};
	struct train_config large = good;

	bad[0].workers = 1;
	bad[1].workers = TRAIN_WORKERS_MAX + 1;
	bad[2].steps = 0;
	bad[3].segments = 0;
	bad[4].bytes = TRAIN_BYTES_MAX + 1;
	bad[5].compute = UINT64_MAX;
	bad[6].scheme = TRAIN_PIPELINE;
	bad[7].scheme = TRAIN_HYBRID;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CU_ASSERT_EQUAL(train_create(&bad[i], &train), -EINVAL);
	large.steps = UINT32_MAX;
	CU_ASSERT_EQUAL(train_create(&large, &train), -E2BIG);
	large = (struct train_config){.scheme = TRAIN_PS_SHARDED, .workers = TRAIN_WORKERS_MAX, .steps = 1};
	CU_ASSERT_EQUAL(train_create(&large, &train), -E2BIG);
}
