/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules run by real NICs over simulated networks: against modelled NICs and sums made here, over switches that
 * spray or drop packets, and what is refused. */
#include "../../testbed/motif/motif.h"
#include "../../testbed/motif/run.h"
#include "../lib/suite.h"

static struct motif_run_config config;
static struct motif_outcome outcome;
static char why[512];

/* Real NICs on a topology. */
static void begin(const char *text, enum motif_transport transport)
{
	struct net_topology *topology = NULL;

	config = (struct motif_run_config){.real = true};
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(text, &topology, why, sizeof(why)), 0);
	net_defaults(&config.net);
	motif_nic_defaults(&config.nic);
	config.nic.transport = transport;
	config.net.topology = topology;
	config.net.seed = 1;
}

static void end(void)
{
	net_topology_destroy((struct net_topology *)config.net.topology);
}

static int run_goal(const struct goal *g)
{
	config.schedule = g;
	*why = 0;
	return motif_run(&config, &outcome, why, sizeof(why));
}

/* 0, and all that was sent has come and was compared; or what went wrong. */
static int run_motif(const struct motif *m)
{
	struct goal *g;
	int rc;

	CU_ASSERT_EQUAL_FATAL(motif_schedule(m, &g), 0);
	rc = run_goal(g);
	if (rc)
		printf("# %s\n", why);
	else if (config.real)
		CU_ASSERT_EQUAL(outcome.compared, outcome.bytes);
	goal_destroy(g);
	return rc;
}

static struct motif motif_of(enum motif_kind kind, uint32_t x, uint32_t y, uint32_t z, uint64_t bytes)
{
	struct motif m = motif_defaults(kind);

	m.pe[0] = x;
	m.pe[1] = y;
	m.pe[2] = z;
	m.bytes = bytes;
	m.compute_ns = 100;
	if (kind == MOTIF_SWEEP3D)
		m.n[2] = 5;
	else
		m.n[0] = m.n[1] = m.n[2] = 30;
	return m;
}

/* ---- against modelled NICs ---- */
TEST(what_is_sent_is_what_modelled_nics_send)
{
	static const uint32_t grids[][3] = {{2, 1, 1}, {2, 2, 1}, {3, 3, 1}, {4, 2, 2}};

	for (unsigned kind = 0; kind < MOTIF_KINDS; kind++)
		for (unsigned i = 0; i < sizeof(grids) / sizeof(*grids); i++)
			for (unsigned transport = 0; transport < (i == 1 ? 3 : 2); transport++) {
				const uint32_t *g = grids[i], ranks = g[0] * g[1] * g[2];
				const bool flat = kind >= MOTIF_PINGPONG;
				struct motif m = kind == MOTIF_SWEEP3D ? motif_of(kind, g[0], g[1] * g[2], 1, 0)
						 : flat		       ? motif_of(kind, ranks, 1, 1, 10000)
								       : motif_of(kind, g[0], g[1], g[2], 0);
				struct motif_outcome real;

				begin("star:16", transport);
				CU_ASSERT_EQUAL_FATAL(run_motif(&m), 0);
				real = outcome;
				config.real = false;
				CU_ASSERT_EQUAL_FATAL(run_motif(&m), 0);
				end();
				CU_ASSERT_EQUAL(real.messages, outcome.messages);
				CU_ASSERT_EQUAL(real.bytes, outcome.bytes);
				CU_ASSERT_EQUAL(real.carrying, outcome.carrying);
				CU_ASSERT_EQUAL(real.early_reads, 0);
				CU_ASSERT_EQUAL(real.again, 0);
				CU_ASSERT_EQUAL(real.refused, 0);
				/* Acknowledgements: of each SEND; polls of RVMA's sessions. */
				CU_ASSERT(real.packets >= outcome.packets);
			}
}

TEST(a_ring_of_n_ranks_has_n_messages_and_their_packets)
{
	for (uint32_t ranks = 2; ranks <= 9; ranks++) {
		const struct motif m = motif_of(MOTIF_RING, ranks, 1, 1, 10000); /* 3 packets */

		begin("star:9", MOTIF_RVMA);
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		CU_ASSERT_EQUAL(outcome.messages, ranks);
		CU_ASSERT_EQUAL(outcome.bytes, ranks * 10000ull);
		CU_ASSERT_EQUAL(outcome.carrying, ranks * 3ull);
		config.nic.transport = MOTIF_RDMA;
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		CU_ASSERT_EQUAL(outcome.carrying, ranks * (3 + 3ull)); /* request, answer, completion */
		config.nic.setup_once = true;
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		CU_ASSERT_EQUAL(outcome.carrying, ranks * (3 + 3ull));
		end();
	}
}

/* ---- times ---- */
#define BYTE_PS 20u /* at 400 Gbit/s */
#define NETWORK ((20 + 30 + 30 + 20) * SP_NS)
#define ONE_WAY ((150 + 50 + 100 + 150) * SP_NS + NETWORK)
#define HEADERS (14u + 20 + 8 + 12 + 4 + 24) /* Ethernet, IPv4, UDP, BTH, ICRC, and what a wire adds */

static sp_time wire(uint64_t bytes)
{
	return (bytes + 31) / 32 * 32 * BYTE_PS;
}

/* The engine's packets take the time that their bytes take; it acknowledges at once. */
TEST(messages_there_and_back_take_the_time_of_their_packets)
{
	static const uint64_t sizes[] = {0, 1, 100, 4096, 4097, 20000, 100000};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const uint64_t n = sizes[i], full = n / 4096, rest = n % 4096, packets = full + (rest || !n);
		const uint64_t tail = (rest + 3) & ~3ull; /* RoCE pads to 4 bytes */
		const sp_time control = wire(HEADERS + 16), ack = wire(HEADERS + 4), told = wire(HEADERS + 4);
		const sp_time report = wire(HEADERS + 16 + 48) + 1; /* RVMA's acknowledgement, 1 ps late */
		struct motif m = motif_of(MOTIF_PINGPONG, 2, 1, 1, n);
		sp_time put = full * wire(4096 + HEADERS + 56), write = 0;

		m.iterations = 3;
		put += packets > full ? wire(tail + HEADERS + 56) : 0;
		for (uint64_t k = 0; k < packets; k++)
			write += wire((k < full ? 4096 : tail) + HEADERS + (k ? 0 : 16));
		begin("star:2", MOTIF_RVMA);
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		CU_ASSERT_EQUAL(outcome.time, 6 * (ONE_WAY + put) - 150 * SP_NS + NETWORK + report + 150 * SP_NS);
		config.nic.transport = MOTIF_RDMA;
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		CU_ASSERT_EQUAL(outcome.time, 6 * (2 * (ONE_WAY + control) + ONE_WAY - 150 * SP_NS + write + NETWORK +
						   ack + 150 * SP_NS + ONE_WAY + told));
		end();
	}
}

/* ---- packets that overtake each other ---- */
static void halo(enum motif_transport transport, bool selective, enum net_routing routing)
{
	const struct motif m = motif_of(MOTIF_HALO3D, 2, 2, 4, 0); /* faces of 8 packets */

	begin("fattree:4,4:4", transport);
	config.net.routing = routing;
	config.nic.packet = 1024;
	config.selective = selective;
	CU_ASSERT_EQUAL(run_motif(&m), 0);
	end();
	CU_ASSERT_EQUAL(outcome.net.reordered > 0, routing == NET_SPRAY);
}

TEST(only_who_polls_and_has_packets_placed_as_they_come_reads_too_early)
{
	for (unsigned spray = 0; spray < 2; spray++) {
		const enum net_routing routing = spray ? NET_SPRAY : NET_MINIMAL;

		halo(MOTIF_RVMA, false, routing);
		CU_ASSERT_EQUAL(outcome.early_reads, 0);
		/* RC that goes back N places bytes in order, and pays for it. */
		halo(MOTIF_RDMA_POLLED, false, routing);
		CU_ASSERT_EQUAL(outcome.early_reads, 0);
		CU_ASSERT_EQUAL(outcome.again > outcome.carrying / 10, spray);
		/* With selective repeat it is told too early, unless a completion tells. */
		halo(MOTIF_RDMA_POLLED, true, routing);
		CU_ASSERT_EQUAL(outcome.early_reads > 0, spray);
		CU_ASSERT(outcome.again < outcome.carrying / 4);
		halo(MOTIF_RDMA, true, routing);
		CU_ASSERT_EQUAL(outcome.early_reads, 0);
		CU_ASSERT(outcome.again < outcome.carrying / 4);
	}
}

TEST(a_completion_right_behind_the_write_is_never_early)
{
	const struct motif m = motif_of(MOTIF_HALO3D, 2, 2, 4, 0);

	for (unsigned selective = 0; selective < 2; selective++) {
		begin("fattree:4,4:4", MOTIF_RDMA);
		config.net.routing = NET_SPRAY;
		config.nic.packet = 1024;
		config.nic.completion = MOTIF_BEHIND;
		config.selective = selective;
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		CU_ASSERT_EQUAL(outcome.early_reads, 0); /* RC executes it in its turn */
		end();
	}
}

/* ---- losses ---- */
TEST(what_full_switches_drop_comes_in_the_end)
{
	const struct motif m = motif_of(MOTIF_HALO3D, 2, 2, 4, 0);

	for (unsigned i = 0; i < 4; i++) {
		uint64_t drops = 0;

		begin("fattree:4,1:4", i == 0 ? MOTIF_RVMA : i == 3 ? MOTIF_RDMA_POLLED : MOTIF_RDMA);
		config.selective = i == 2;
		config.net.lossless = false;
		config.net.input_buffer = config.net.output_buffer = 8192;
		config.nic.packet = 1024;
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		for (unsigned why_dropped = 0; why_dropped < NET_DROPS; why_dropped++)
			drops += outcome.net.dropped[why_dropped];
		CU_ASSERT(drops > 0 && outcome.again > 0);
		CU_ASSERT_EQUAL(outcome.net.sent, outcome.net.delivered + drops);
		CU_ASSERT_EQUAL(outcome.early_reads, 0);
		end();
	}
}

/* ---- schedules ---- */
TEST(the_same_seed_gives_the_same_run)
{
	const struct motif m = motif_of(MOTIF_HALO3D26, 2, 2, 4, 0);

	for (unsigned transport = 0; transport < 2; transport++) {
		struct motif_outcome first;

		begin("fattree:4,4:4", transport ? MOTIF_RDMA : MOTIF_RVMA);
		config.net.routing = NET_SPRAY;
		config.scatter = true;
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		first = outcome;
		CU_ASSERT(first.nic_bytes > 0);
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		first.nic_bytes = outcome.nic_bytes; /* what other runs left is used again */
		CU_ASSERT_EQUAL(memcmp(&first, &outcome, sizeof(first)), 0);
		config.net.seed = 2;
		CU_ASSERT_EQUAL(run_motif(&m), 0);
		CU_ASSERT_NOT_EQUAL(first.time, outcome.time);
		CU_ASSERT_EQUAL(first.messages, outcome.messages);
		end();
	}
}

static uint32_t op(struct goal *g, uint32_t rank, enum goal_type type, uint64_t size, uint32_t peer, uint32_t tag)
{
	const struct goal_op o = {.type = type, .size = size, .peer = peer, .tag = tag};
	uint32_t index = 0;

	CU_ASSERT_EQUAL_FATAL(goal_add(g, rank, &o, &index), 0);
	return index;
}

/* More messages at once than two ranks have memory or a QP has entries for, received in the opposite order; and as many
 * the other way. */
TEST(many_messages_of_two_ranks_wait_for_each_other_and_all_come)
{
	const uint32_t many = 50;
	struct goal *g;

	CU_ASSERT_EQUAL_FATAL(goal_create(2, &g), 0);
	for (uint32_t rank = 0; rank < 2; rank++) {
		uint32_t before = 0;

		for (uint32_t k = 0; k < many; k++)
			op(g, rank, GOAL_SEND, 100 * k + 1, 1 - rank, k);
		for (uint32_t k = 0; k < many; k++) {
			const uint32_t recv = op(g, rank, GOAL_RECV, 100 * (many - 1 - k) + 1, 1 - rank, many - 1 - k);

			if (k)
				CU_ASSERT_EQUAL_FATAL(goal_requires(g, rank, recv, before), 0);
			before = recv;
		}
	}
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	for (unsigned i = 0; i < 2 * MOTIF_MPI; i++) {
		begin("star:2", i / 2);
		config.nic.packet = 256;
		config.nic.setup_once = i % 2;
		CU_ASSERT_EQUAL(run_goal(g), 0);
		CU_ASSERT_EQUAL(outcome.messages, 2 * many);
		CU_ASSERT_EQUAL(outcome.compared, outcome.bytes);
		CU_ASSERT(outcome.unexpected > 0);
		end();
	}
	goal_destroy(g);
}

TEST(what_waits_for_ever_is_named)
{
	for (unsigned transport = 0; transport < 2; transport++)
		for (unsigned sends = 0; sends < 2; sends++) {
			struct goal *g;

			CU_ASSERT_EQUAL_FATAL(goal_create(2, &g), 0);
			op(g, 0, GOAL_CALC, 1, 0, 0);
			op(g, 0, sends ? GOAL_SEND : GOAL_RECV, 8, 1, 5);
			CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
			begin("star:2", transport ? MOTIF_RDMA : MOTIF_RVMA);
			if (sends && !transport) {
				CU_ASSERT_EQUAL(run_goal(g), 0); /* a put needs no receive */
			} else {
				CU_ASSERT_EQUAL(run_goal(g), -EDEADLK);
				CU_ASSERT(strstr(why, "operation 1 of rank 0") && strstr(why, "rank 1") &&
					  strstr(why, "tag 5"));
			}
			end();
			goal_destroy(g);
		}
}

/* ---- what cannot be ---- */
static void refused(const char *word)
{
	const struct motif m = motif_of(MOTIF_RING, 4, 1, 1, 8);
	struct goal *g;

	CU_ASSERT_EQUAL_FATAL(motif_schedule(&m, &g), 0);
	CU_ASSERT_EQUAL(run_goal(g), -EINVAL);
	CU_ASSERT(strstr(why, word) != NULL);
	goal_destroy(g);
	end();
	begin("star:4", MOTIF_RVMA);
}

TEST(what_real_nics_cannot_do_is_refused_with_a_reason)
{
	begin("star:4", MOTIF_MPI);
	refused("not mpi");
	config.nic.sends = MOTIF_SEND_READ;
	refused("acknowledgements");
	config.nic.header = 80;
	refused("headers");
	config.nic.packet = 63;
	refused("64 to 4096");
	config.nic.packet = 1000;
	config.nic.transport = MOTIF_RDMA;
	refused("256, 512, 1024");
	config.selective = true;
	refused("selective");
	config.real = false;
	config.net.lossless = false;
	refused("lossless");
	end();
}

TEST(ranks_that_talk_to_too_many_or_to_themselves_are_refused)
{
	for (unsigned all = 0; all < 2; all++) {
		struct goal *g;

		CU_ASSERT_EQUAL_FATAL(goal_create(70, &g), 0);
		for (uint32_t peer = 3; peer < (all ? 70 : 4); peer++)
			op(g, 3, GOAL_SEND, 8, all && peer == 3 ? 0 : peer, 0);
		CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
		begin("star:70", MOTIF_RVMA);
		CU_ASSERT_EQUAL(run_goal(g), -EINVAL);
		CU_ASSERT(strstr(why, all ? "talks to 67 others" : "rank 3 sends to itself") != NULL);
		end();
		goal_destroy(g);
	}
}

/* 6 GiB a rank: nothing of it is taken. */
TEST(what_does_not_fit_into_memory_is_refused_before_it_is_taken)
{
	const struct motif m = motif_of(MOTIF_RING, 4096, 1, 1, 1u << 30);
	struct goal *g;

	begin("star:4096", MOTIF_RVMA);
	CU_ASSERT_EQUAL_FATAL(motif_schedule(&m, &g), 0);
	CU_ASSERT_EQUAL(run_goal(g), -ENOMEM);
	CU_ASSERT(strstr(why, "4096 ranks would take 2.46e+04 GiB") != NULL);
	CU_ASSERT(strstr(why, "enough for about") != NULL);
	goal_destroy(g);
	end();
}
