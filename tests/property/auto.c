/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheme that picks itself, packet by packet in virtual time: beside schemes that are fixed, and on a way that
 * becomes another. Chunks of four packets, and messages that take about as long as a round trip. */
#include "../../handlers/wire/ec.h"
#include "../../testbed/transfer.h"
#include "../lib/suite.h"

#define CHUNK	     16384u
#define MTU	     4096u
#define LONG	     (8u << 20)
#define SHORT	     (256u << 10)
#define MESSAGES     30u
#define WARM_UP	     30u
#define K	     32u /* of the code that auto has others from */
#define M	     32u
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct sp_link_direction far[2] = {{.bandwidth = 10000000000, .delay = 5 * SP_MS, .queue = 32},
						{.bandwidth = 10000000000, .delay = 5 * SP_MS, .queue = 32}};
static const struct sp_link_direction near[2] = {{.bandwidth = 1000000000, .delay = 50 * SP_US, .queue = 32},
						 {.bandwidth = 1000000000, .delay = 50 * SP_US, .queue = 32}};

struct scheme {
	const char *name;
	enum sdr_reliable_scheme scheme;
	struct sdr_ec ec;
};
static const struct scheme fixed[] = {{"sr-rto", SDR_SR_RTO, {SDR_CODE_NONE}},
				      {"sr-nack", SDR_SR_NACK, {SDR_CODE_NONE}},
				      {"ec-mds 32,8", SDR_EC_MDS, {SDR_CODE_MDS, 32, 8}},
				      {"ec-mds 32,2", SDR_EC_MDS, {SDR_CODE_MDS, 32, 2}},
				      {"ec-xor 32,8", SDR_EC_XOR, {SDR_CODE_XOR, 32, 8}}};
static const struct scheme automatic = {"auto", SDR_AUTO, {SDR_CODE_MDS, K, M}};

static struct sp_transfer *open_way(const struct scheme *s, uint64_t message, double drop, uint64_t seed)
{
	const struct sp_transfer_config config = {
		.link = {far[0], far[1]},
		.message = message,
		.chunk = CHUNK,
		.mtu = MTU,
		.chunk_drop = drop,
		.reliable = {.scheme = s->scheme, .rtt = 10 * SP_MS, .reorder = SP_MS / 2, .timeout = 1000 * SP_SEC},
		.ec = s->ec,
		.payload_less = true,
		.grain = 50 * SP_US / 10,
		.seed = seed};
	struct sp_transfer *c = NULL;
	struct sp_error error;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_transfer_create(&config, &error, &c), 0);
	return c;
}

/* Mean of so many messages' times, s. */
static double send(struct sp_transfer *c, unsigned messages)
{
	double sum = 0;

	for (unsigned i = 0; i < messages; i++) {
		sp_time took = 0;

		CU_ASSERT_EQUAL_FATAL(sp_transfer_send(c, &took), 0);
		sum += (double)took / (double)SP_SEC;
	}
	return sum / messages;
}

/* ---- beside fixed schemes ---- */

static double best_of_fixed(uint64_t message, double drop, const char **best)
{
	double least = 0;

	for (unsigned i = 0; i < COUNT(fixed); i++) {
		struct sp_transfer *c = open_way(&fixed[i], message, drop, 7);
		const double mean = send(c, MESSAGES);

		sp_transfer_destroy(c);
		if (!i || mean < least) {
			least = mean;
			*best = fixed[i].name;
		}
	}
	return least;
}

TEST(after_warm_up_it_is_within_10_percent_of_the_best_and_30_before)
{
	static const double drops[] = {1e-6, 1e-3, 3e-2};
	static const uint64_t sizes[] = {SHORT, LONG};

	for (unsigned s = 0; s < COUNT(sizes); s++)
		for (unsigned d = 0; d < COUNT(drops); d++) {
			struct sp_transfer *c = open_way(&automatic, sizes[s], drops[d], 8);
			const double learning = send(c, WARM_UP), learnt = send(c, MESSAGES);
			const char *name = "";
			const double best = best_of_fixed(sizes[s], drops[d], &name);

			printf("# %llu bytes, chunk drop %g: %.3f of %s, %.3f while it learnt\n",
			       (unsigned long long)sizes[s], drops[d], learnt / best, name, learning / best);
			CU_ASSERT(learnt <= 1.1 * best);
			CU_ASSERT(learning <= 1.3 * best);
			sp_transfer_destroy(c);
		}
}

/* ---- another way ---- */

struct chosen {
	unsigned coded;	 /* messages with parity */
	double parity;	 /* chunks of it for each of data, on average over all messages */
	uint64_t others; /* chunks sent again */
};

static struct chosen chosen_for(struct sp_transfer *c, unsigned messages)
{
	struct sp_ec_shape code[SP_EC_CODES_MAX];
	const unsigned codes = sp_ec_codes(SP_EC_CODE_MDS, K, M, 4, code);
	struct sp_transfer_counters n = {0}, before;
	struct chosen chosen = {0};

	sp_transfer_count(c, &before);
	send(c, messages);
	sp_transfer_count(c, &n);
	sp_transfer_add(&n, &before, -1);
	for (unsigned i = 0; i < codes; i++) {
		chosen.coded += (unsigned)n.coded[i];
		chosen.parity += (double)n.coded[i] * code[i].m / code[i].k / messages;
	}
	chosen.others = n.retransmitted / (CHUNK / MTU);
	return chosen;
}

static void show(const char *way, struct chosen c)
{
	printf("# %s: %u of %u messages with parity, %.3f of the data, %llu chunks sent again\n", way, c.coded,
	       MESSAGES, c.parity, (unsigned long long)c.others);
}

/* 1e-6, 1e-2, 1e-6, 1e-2: 512 chunks in a message, so that five of them are lost, or none for a long time. */
TEST(it_changes_its_mind_when_losses_come_and_go)
{
	struct sp_transfer *c = open_way(&automatic, LONG, 1e-6, 3);

	for (unsigned turn = 0; turn < 4; turn++) {
		CU_ASSERT_EQUAL_FATAL(sp_transfer_change(c, far, turn % 2 ? 1e-2 : 1e-6), 0);
		send(c, WARM_UP);
		struct chosen chosen = chosen_for(c, MESSAGES);
		show(turn % 2 ? "1e-2" : "1e-6", chosen);
		if (turn % 2)
			CU_ASSERT(chosen.coded == MESSAGES && chosen.parity >= 0.06 && chosen.others <= 4)
		else
			CU_ASSERT(chosen.parity < 0.035)
	}
	sp_transfer_destroy(c);
}

/* At the same loss a round trip is worth much, or nothing beside the time that parity takes. */
TEST(it_changes_its_mind_when_bandwidth_and_round_trip_do)
{
	struct sp_transfer *c = open_way(&automatic, LONG, 1e-3, 5);

	for (unsigned turn = 0; turn < 4; turn++) {
		CU_ASSERT_EQUAL_FATAL(sp_transfer_change(c, turn % 2 ? near : far, 1e-3), 0);
		send(c, WARM_UP);
		struct chosen chosen = chosen_for(c, MESSAGES);
		show(turn % 2 ? "near" : "far", chosen);
		CU_ASSERT(turn % 2 ? chosen.coded <= 3 : chosen.coded == MESSAGES);
	}
	sp_transfer_destroy(c);
}

/* Where nothing changes it stays with what it has: within a message or two of the same parity. */
TEST(it_does_not_go_to_and_fro)
{
	struct sp_transfer *c = open_way(&automatic, LONG, 3e-3, 9);
	struct sp_transfer_counters n = {0}, before;
	unsigned used = 0;

	send(c, WARM_UP);
	sp_transfer_count(c, &before);
	send(c, 3 * MESSAGES);
	sp_transfer_count(c, &n);
	sp_transfer_add(&n, &before, -1);
	for (unsigned i = 0; i < SDR_EC_CODES; i++)
		used += n.coded[i] != 0;
	printf("# %u codes for %u messages\n", used, 3 * MESSAGES);
	CU_ASSERT(used <= 2);
	sp_transfer_destroy(c);
}
