/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules run over simulated networks by modelled NICs: times against sums made here, packets against those of a NIC
 * of the engine, and what must hold on every topology. */
#include "../../host-api/rdma.h"
#include "../../host-api/rvma.h"
#include "../../testbed/motif/motif.h"
#include "../../testbed/motif/run.h"
#include "../lib/suite.h"
#include "../lib/two_nics.h"

static struct motif_run_config config;
static struct motif_outcome outcome;
static char why[512];

/* The defaults, on a topology. */
static void begin(const char *text)
{
	struct net_topology *topology = NULL;

	config = (struct motif_run_config){0};
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(text, &topology, why, sizeof(why)), 0);
	net_defaults(&config.net);
	motif_nic_defaults(&config.nic);
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
	return motif_run(&config, &outcome, why, sizeof(why));
}

static int run_motif(enum motif_kind kind, uint32_t x, uint32_t y, uint32_t z, uint64_t bytes, uint32_t iterations)
{
	struct motif m = motif_defaults(kind);
	struct goal *g;
	int rc;

	m.pe[0] = x;
	m.pe[1] = y;
	m.pe[2] = z;
	m.n[2] = kind == MOTIF_SWEEP3D ? 5 : m.n[2];
	m.bytes = bytes;
	m.iterations = iterations;
	m.compute_ns = 100;
	CU_ASSERT_EQUAL_FATAL(motif_schedule(&m, &g), 0);
	rc = run_goal(g);
	goal_destroy(g);
	return rc;
}

/* ---- one message ---- */
#define BYTE_PS 20u /* at 400 Gbit/s */

/* Bytes of a packet, in whole flits, on the link. */
static sp_time wire(uint64_t bytes)
{
	return (bytes + 31) / 32 * 32 * BYTE_PS;
}

/* From a switch's host to another: two links, the switch. */
#define NETWORK ((20 + 30 + 30 + 20) * SP_NS)
/* From a host's call until the other host knows, without the time of the packets on the link. */
#define ONE_WAY ((150 + 50 + 100 + 150) * SP_NS + NETWORK)

/* Ethernet, IPv4, UDP, BTH, ICRC, and what a wire adds. */
#define HEADERS (14u + 20 + 8 + 12 + 4 + 24)

static sp_time time_of(enum motif_transport transport, uint64_t bytes)
{
	begin("star:2");
	config.nic.transport = transport;
	CU_ASSERT_EQUAL_FATAL(run_motif(MOTIF_PINGPONG, 2, 1, 1, bytes, 10), 0);
	end();
	CU_ASSERT_EQUAL(outcome.messages, 20);
	CU_ASSERT_EQUAL(outcome.time % 1, 0);
	return outcome.time;
}

TEST(a_put_takes_one_way_and_an_rdma_write_five)
{
	static const uint64_t sizes[] = {0, 1, 100, 4096, 4097, 20000, 1000000};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const uint64_t n = sizes[i], full = n / 4096, rest = n % 4096, packets = full + (rest || !n);
		const uint64_t tail = (rest + 3) & ~3ull; /* RoCE pads to 4 bytes */
		const sp_time control = wire(HEADERS + 16), ack = wire(HEADERS + 4), told = wire(HEADERS + 4);
		sp_time put = full * wire(4096 + HEADERS + 56) + (packets > full ? wire(rest + HEADERS + 56) : 0);
		sp_time write = 0, last;

		for (uint64_t k = 0; k < packets; k++)
			write += wire((k < full ? 4096 : tail) + HEADERS + (k ? 0 : 16));
		/* The last send is done with its acknowledgement: NIC to NIC, to the host, and no call. */
		last = (50 + 100 + 150 - 150) * SP_NS + NETWORK + ack;
		CU_ASSERT_EQUAL(time_of(MOTIF_RVMA, n), 20 * (ONE_WAY + put) + last);
		CU_ASSERT_EQUAL(outcome.packets, 20 * 2 * packets - 20 * (packets - 1));
		/* Request, answer, write, acknowledgement to the host, completion. */
		CU_ASSERT_EQUAL(time_of(MOTIF_RDMA, n),
				20 * (2 * (ONE_WAY + control) + ONE_WAY - 150 * SP_NS + write +
				      (50 + 100 + 150) * SP_NS + NETWORK + ack + ONE_WAY + told));
		CU_ASSERT_EQUAL(outcome.packets, 20 * (packets + 4));
		CU_ASSERT_EQUAL(time_of(MOTIF_RDMA_POLLED, n), 20 * (2 * (ONE_WAY + control) + ONE_WAY + write) + last);
		CU_ASSERT_EQUAL(outcome.early_reads, 0);
	}
}

TEST(mpi_copies_small_messages_and_registers_the_memory_of_large_ones)
{
	static const uint64_t sizes[] = {0, 8, 12000, 12001, 100000};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const uint64_t n = sizes[i], pages = (n + 4095) / 4096;
		const sp_time control = wire(HEADERS + 16);
		const sp_time copies = 2 * 344 * n, setup = (130 + 150 + 100) * SP_NS;
		sp_time write = 0, want;

		for (uint64_t k = 0; k * 4096 < n || !k; k++) {
			const uint64_t left = n - k * 4096, payload = left < 4096 ? (left + 3) & ~3ull : 4096;

			write += wire(payload + HEADERS + (k ? 0 : 16));
		}
		if (n <= 12000) {
			want = setup + copies + ONE_WAY + write;
		} else {
			/* The sender's memory is registered on the way, the receiver's before, and given back. */
			want = setup + 2 * (3000 + 100 * pages) * SP_NS + 3 * ONE_WAY + 2 * control + write;
		}
		CU_ASSERT_EQUAL(time_of(MOTIF_MPI, n), 20 * want);
	}
}

TEST(a_buffer_is_asked_for_once_if_that_is_asked_for)
{
	begin("star:2");
	config.nic.transport = MOTIF_RDMA;
	config.nic.setup_once = true;
	CU_ASSERT_EQUAL(run_motif(MOTIF_PINGPONG, 2, 1, 1, 8, 10), 0);
	CU_ASSERT_EQUAL(outcome.packets, 20 * 3 + 2 * 2); /* write, acknowledgement, completion; two exchanges */
	end();
}

TEST(a_send_that_is_done_when_read_lets_its_rank_go_on_sooner)
{
	sp_time acked;

	begin("star:16");
	CU_ASSERT_EQUAL(run_motif(MOTIF_SWEEP3D, 4, 4, 1, 0, 1), 0);
	acked = outcome.time;
	config.nic.sends = MOTIF_SEND_READ;
	CU_ASSERT_EQUAL(run_motif(MOTIF_SWEEP3D, 4, 4, 1, 0, 1), 0);
	CU_ASSERT(outcome.time < acked);
	CU_ASSERT_EQUAL(outcome.packets, outcome.messages); /* nobody waits for acknowledgements */
	end();
}

/* ---- every topology ---- */
static const struct {
	const char *topology;
	enum net_routing routing;
	bool overtakes;
} networks[] = {
	{"star:64", NET_MINIMAL, false},	   {"torus:4x4x4", NET_MINIMAL, false},
	{"fattree:8,8:16", NET_MINIMAL, false},	   {"fattree:8,8:16", NET_ADAPTIVE, true},
	{"fattree:8,8:16", NET_SPRAY, true},	   {"dragonfly:4:4:1:4", NET_MINIMAL, false},
	{"dragonfly:4:4:1:4", NET_ADAPTIVE, true}, {"dragonfly:4:4:1:4", NET_VALIANT, true},
	{"hyperx:4x4:4", NET_MINIMAL, false},	   {"hyperx:4x4:4", NET_ADAPTIVE, true},
};

TEST(on_every_network_all_messages_come_and_only_who_polls_reads_too_early)
{
	for (unsigned i = 0; i < sizeof(networks) / sizeof(*networks); i++)
		for (unsigned transport = 0; transport < MOTIF_TRANSPORTS; transport++) {
			begin(networks[i].topology);
			config.net.routing = networks[i].routing;
			config.nic.transport = transport;
			config.nic.packet = 512; /* a face has 157 packets, which can overtake each other */
			CU_ASSERT_EQUAL(run_motif(MOTIF_HALO3D, 4, 4, 4, 0, 1), 0);
			CU_ASSERT_EQUAL(outcome.messages, 2 * 3 * 48 + 2 * 63); /* and so all of them matched */
			CU_ASSERT_EQUAL(outcome.bytes, 288 * 80000 + 126 * 8);
			CU_ASSERT_EQUAL(outcome.net.delivered, outcome.packets);
			CU_ASSERT_EQUAL(outcome.net.in_flight, 0);
			/* Hosts that work for each message (mpi) do not fill the queues of a fat tree. */
			if (transport != MOTIF_MPI || !networks[i].overtakes)
				CU_ASSERT_EQUAL(outcome.net.reordered > 0, networks[i].overtakes);
			if (transport != MOTIF_RDMA_POLLED || !networks[i].overtakes)
				CU_ASSERT_EQUAL(outcome.early_reads, 0);
			if (transport == MOTIF_RDMA_POLLED && networks[i].overtakes)
				CU_ASSERT(outcome.early_reads > 0);
			end();
		}
}

TEST(a_completion_right_behind_the_write_is_early_only_where_packets_overtake)
{
	for (unsigned adaptive = 0; adaptive < 2; adaptive++) {
		begin("fattree:8,8:16");
		config.net.routing = adaptive ? NET_SPRAY : NET_MINIMAL;
		config.nic.transport = MOTIF_RDMA;
		config.nic.completion = MOTIF_BEHIND;
		CU_ASSERT_EQUAL(run_motif(MOTIF_HALO3D, 4, 4, 4, 0, 1), 0);
		CU_ASSERT_EQUAL(outcome.early_reads > 0, adaptive);
		CU_ASSERT_EQUAL(outcome.net.delivered, outcome.packets);
		end();
	}
}

TEST(the_same_seed_gives_the_same_run_and_another_one_other_places)
{
	struct motif_outcome first;

	begin("dragonfly:4:4:1:4");
	config.net.routing = NET_ADAPTIVE;
	config.scatter = true;
	CU_ASSERT_EQUAL(run_motif(MOTIF_HALO3D26, 4, 4, 4, 0, 2), 0);
	first = outcome;
	CU_ASSERT_EQUAL(run_motif(MOTIF_HALO3D26, 4, 4, 4, 0, 2), 0);
	CU_ASSERT_EQUAL(memcmp(&first, &outcome, sizeof(first)), 0);
	config.net.seed = 2;
	CU_ASSERT_EQUAL(run_motif(MOTIF_HALO3D26, 4, 4, 4, 0, 2), 0);
	CU_ASSERT_NOT_EQUAL(first.time, outcome.time);
	CU_ASSERT_EQUAL(first.messages, outcome.messages);
	end();
}

/* ---- schedules by hand ---- */
static uint32_t op(struct goal *g, uint32_t rank, enum goal_type type, uint64_t size, uint32_t peer, uint32_t tag)
{
	const struct goal_op o = {.type = type, .size = size, .peer = peer, .tag = tag};
	uint32_t index = 0;

	CU_ASSERT_EQUAL_FATAL(goal_add(g, rank, &o, &index), 0);
	return index;
}

/* Rank 1 computes for 1 ms, so that it finds the request there; then it registers, and at the end gives back. */
TEST(mpi_registers_the_receivers_memory_when_the_receive_is_posted)
{
	const uint64_t n = 100000;
	const sp_time registering = (3000 + 100 * 25) * SP_NS;
	sp_time write = 0;
	struct goal *g;

	for (uint64_t left = n; left; left -= left < 4096 ? left : 4096)
		write += wire((left < 4096 ? left : 4096) + HEADERS + (left == n ? 16 : 0));
	CU_ASSERT_EQUAL_FATAL(goal_create(2, &g), 0);
	op(g, 0, GOAL_SEND, n, 1, 7);
	op(g, 1, GOAL_CALC, 1000000, 0, 0);
	op(g, 1, GOAL_RECV, n, 0, 7);
	goal_requires(g, 1, 1, 0);
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	begin("star:2");
	config.nic.transport = MOTIF_MPI;
	CU_ASSERT_EQUAL(run_goal(g), 0);
	CU_ASSERT_EQUAL(outcome.time, SP_MS + registering + (150 + 100) * SP_NS + 2 * ONE_WAY + wire(HEADERS + 16) +
					      write + registering);
	CU_ASSERT_EQUAL(outcome.unexpected, 1);
	end();
	goal_destroy(g);
}

/* `others` receives of other tags were posted before; the message is compared with them all. Then rank 1 computes for
 * 10 ms, in which their messages come. */
TEST(mpi_looks_at_one_receive_after_the_other)
{
	for (uint32_t others = 0; others < 5; others++) {
		struct goal *g;
		uint32_t recv, calc, wait;

		CU_ASSERT_EQUAL_FATAL(goal_create(2, &g), 0);
		for (uint32_t i = 0; i < others; i++)
			op(g, 1, GOAL_RECV, 8, 0, 100 + i);
		recv = op(g, 1, GOAL_RECV, 8, 0, 7);
		calc = op(g, 1, GOAL_CALC, 10000000, 0, 0);
		CU_ASSERT_EQUAL(goal_requires(g, 1, calc, recv), 0);
		op(g, 0, GOAL_SEND, 8, 1, 7);
		wait = op(g, 0, GOAL_CALC, 1000000, 0, 0);
		for (uint32_t i = 0; i < others; i++)
			CU_ASSERT_EQUAL(goal_requires(g, 0, op(g, 0, GOAL_SEND, 8, 1, 100 + i), wait), 0);
		CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
		begin("star:2");
		config.nic.transport = MOTIF_MPI;
		CU_ASSERT_EQUAL(run_goal(g), 0);
		CU_ASSERT_EQUAL(outcome.time, (130 + 100 + (others + 1) * 150) * SP_NS + 2 * 8 * 344 + ONE_WAY +
						      wire(8 + HEADERS + 16) + 10 * SP_MS);
		end();
		goal_destroy(g);
	}
}

/* A large message, then a small one right behind it, over ways of their own: the second comes first, and waits. */
TEST(messages_of_two_ranks_are_matched_in_the_order_in_which_they_were_sent)
{
	struct goal *g;

	CU_ASSERT_EQUAL_FATAL(goal_create(64, &g), 0);
	for (uint32_t rank = 0; rank < 32; rank++) { /* others make the ways uneven */
		for (uint32_t k = 0; k < 20; k++)
			op(g, rank, GOAL_SEND, 20000, 63 - rank, 1);
		for (uint32_t k = 0; k < 20; k++)
			op(g, 63 - rank, GOAL_RECV, 20000, k % 2 ? GOAL_ANY : rank, k % 3 ? GOAL_ANY : 1);
	}
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	begin("fattree:8,8:16");
	config.net.routing = NET_SPRAY;
	CU_ASSERT_EQUAL(run_goal(g), 0);
	CU_ASSERT_EQUAL(outcome.messages, 640);
	CU_ASSERT(outcome.overtaking > 0);
	end();
	goal_destroy(g);
}

/* The receive of tag 2 waits for the second message, which leaves 1 ms later, and 5 ms of work wait for it. */
TEST(a_receive_takes_the_message_with_its_tag)
{
	struct goal *g;
	uint32_t work, send, receive;

	CU_ASSERT_EQUAL_FATAL(goal_create(2, &g), 0);
	op(g, 0, GOAL_SEND, 100, 1, 1);
	work = op(g, 0, GOAL_CALC, 1000000, 0, 0);
	send = op(g, 0, GOAL_SEND, 100, 1, 2);
	CU_ASSERT_EQUAL_FATAL(goal_requires(g, 0, send, work), 0);
	receive = op(g, 1, GOAL_RECV, 100, 0, 2);
	work = op(g, 1, GOAL_CALC, 5000000, 0, 0);
	CU_ASSERT_EQUAL_FATAL(goal_requires(g, 1, work, receive), 0);
	op(g, 1, GOAL_RECV, 100, 0, 1);
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	begin("star:2");
	CU_ASSERT_EQUAL(run_goal(g), 0);
	CU_ASSERT_EQUAL(outcome.time, 6000000 * SP_NS + ONE_WAY + wire(100 + HEADERS + 56));
	end();
	goal_destroy(g);
}

TEST(computations_of_one_processor_follow_each_other_and_others_do_not)
{
	struct goal *g;
	const struct goal_op other = {.type = GOAL_CALC, .size = 1200, .cpu = 3};
	uint32_t last;

	CU_ASSERT_EQUAL_FATAL(goal_create(2, &g), 0);
	op(g, 0, GOAL_CALC, 1000, 0, 0);
	op(g, 0, GOAL_CALC, 500, 0, 0);
	CU_ASSERT_EQUAL_FATAL(goal_add(g, 0, &other, &last), 0);
	CU_ASSERT_EQUAL_FATAL(goal_irequires(g, 0, last, 0), 0);
	op(g, 1, GOAL_SEND, 100, 1, 7); /* to itself: no network */
	op(g, 1, GOAL_RECV, 100, 1, 7);
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	begin("star:2");
	CU_ASSERT_EQUAL(run_goal(g), 0);
	CU_ASSERT_EQUAL(outcome.time, 1500 * SP_NS);
	CU_ASSERT_EQUAL(outcome.net.sent, 0);
	end();
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
			begin("star:2");
			config.nic.transport = transport ? MOTIF_RDMA : MOTIF_RVMA;
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

TEST(what_cannot_be_run_is_refused_with_a_reason)
{
	begin("star:4");
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 5, 1, 1, 8, 1), -EINVAL);
	CU_ASSERT(strstr(why, "5 ranks") && strstr(why, "has 4"));
	config.nic.packet = 40000;
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 4, 1, 1, 8, 1), -EINVAL);
	CU_ASSERT(strstr(why, "does not fit in a queue of 32768") != NULL);
	config.nic.packet = 0;
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 4, 1, 1, 8, 1), -EINVAL);
	config.nic.packet = 4096;
	config.net.lossless = false;
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 4, 1, 1, 8, 1), -EINVAL);
	CU_ASSERT(strstr(why, "lossless") != NULL);
	config.net.lossless = true;
	config.nic.header = 0;
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 4, 1, 1, 8, 1), -EINVAL);
	config.nic.header = MOTIF_HEADERS;
	config.nic.pcie = 2 * SP_SEC;
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 4, 1, 1, 8, 1), -EINVAL);
	config.nic.pcie = 0;
	config.net.routing = NET_ADAPTIVE; /* one switch has none */
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 4, 1, 1, 8, 1), -EINVAL);
	CU_ASSERT(*why);
	config.net.routing = NET_MINIMAL;
	CU_ASSERT_EQUAL(run_motif(MOTIF_RING, 4, 1, 1, 8, 1), 0);
	end();
}

/* ---- a NIC of the engine ---- */
#define ASK 106u /* bytes of a frame */

TEST(a_put_has_the_packets_and_bytes_that_the_engine_sends)
{
	static const uint64_t sizes[] = {4, 4096, 10000, 100000, 262144};
	const struct rvma_window_attr attr = {.key = 5, .threshold = 1u << 20};
	struct rvma_address address;
	struct rvma_peer *peer;
	struct rvma_window *window;
	struct rvma *rvma[2];
	struct sp_mr *mr[2];
	struct sp_error error = {.text = ""};
	struct motif_nic nic;

	motif_nic_defaults(&nic);
	nic.packet = 1024; /* rvma's default */
	two_mode = VIRTUAL;
	two_make();
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT_EQUAL_FATAL(rvma_open(two_ends[e].dev, NULL, &rvma[e], &error), 0);
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(two_ends[e].dev, 1u << 20, &mr[e]), 0);
	}
	rvma_address_get(rvma[1], &address);
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(rvma[0], &address, &peer), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(rvma[1], 1, &attr, &window), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_post_buffer(window, &(struct rvma_buffer){.mr = mr[1], .size = 1u << 20}), 0);
	for (unsigned i = 0; i <= sizeof(sizes) / sizeof(*sizes); i++) {
		const uint64_t n = i ? sizes[i - 1] : 4; /* the first one begins the session */
		struct sp_link_counters before, after;
		struct rvma_op *put;
		uint64_t bytes = 0, asks;

		sp_link_count(two_link, 0, &before);
		CU_ASSERT_EQUAL_FATAL(rvma_put(peer, 1, 5, mr[0], 0, n, &put), 0);
		for (unsigned k = 0; k < 100 && rvma_op_test(put) == -EAGAIN; k++)
			two_run(SP_MS);
		sp_link_count(two_link, 0, &after);
		for (uint64_t k = 0; k < motif_packets(&nic, n); k++)
			bytes += motif_packet_bytes(&nic, MOTIF_PHASE_PUT, n, k) - MOTIF_WIRE;
		if (!i)
			continue;
		/* The session asks for acknowledgements by packets of one size, which nobody waits for. */
		asks = after.offered - before.offered - motif_packets(&nic, n);
		CU_ASSERT(asks < 8);
		CU_ASSERT_EQUAL(after.bytes - before.bytes, bytes + asks * ASK);
	}
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT_EQUAL(rvma_close(rvma[e]), 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr[e]), 0);
	}
	two_unmake();
}

struct verbs_end {
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_rdma_mr *mr;
	struct sp_rdma_pair *qp;
	struct sp_mr *memory;
};

static void verbs_open(struct verbs_end *v, unsigned e)
{
	const struct sp_rdma_attr attr = {.qps = 1};
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC, .send_wr = 4, .recv_wr = 4};
	struct sp_error error = {.text = "no memory"};

	if (sp_rdma_open(two_ends[e].dev, &attr, &v->rdma, &error) || sp_rdma_pd_alloc(v->rdma, &v->pd) ||
	    sp_rdma_cq_create(v->rdma, 16, false, NULL, &v->cq) || sp_mr_alloc(two_ends[e].dev, 1u << 20, &v->memory) ||
	    sp_rdma_mr_reg(v->pd, v->memory, 0, 1u << 20, SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE, &v->mr))
		two_bail(&error);
	init.send_cq = init.recv_cq = v->cq;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_create(v->pd, &init, &v->qp), 0);
}

/* From RESET to RTS. */
static void verbs_connect(const struct verbs_end *v, uint8_t host, uint32_t peer)
{
	struct sp_rdma_qp_attr a = {.ip = {[10] = 0xFF, 0xFF, 10, 0, 0, host},
				    .dest_qp = peer,
				    .path_mtu = 1024,
				    .access = SP_RDMA_REMOTE_WRITE,
				    .timeout = 20,
				    .retry_cnt = 7,
				    .rnr_retry = 7};

	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	a.state = SP_RDMA_INIT;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(v->qp, &a), 0);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(v->qp, &a), 0);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT |
		 SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	CU_ASSERT_EQUAL_FATAL(sp_rdma_qp_modify(v->qp, &a), 0);
}

TEST(a_write_and_its_acknowledgement_have_the_packets_and_bytes_that_the_engine_sends)
{
	static const uint32_t sizes[] = {1, 1023, 1024, 1025, 100001, 262144};
	struct verbs_end v[2] = {{0}};
	struct motif_nic nic;

	motif_nic_defaults(&nic);
	nic.transport = MOTIF_RDMA;
	nic.packet = 1024; /* the path MTU */
	two_mode = VIRTUAL;
	two_make();
	for (unsigned e = 0; e < 2; e++)
		verbs_open(&v[e], e);
	for (unsigned e = 0; e < 2; e++)
		verbs_connect(&v[e], (uint8_t)(2 - e), sp_rdma_qp_number(v[!e].qp));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const struct sp_rdma_sge sge = {(uintptr_t)v[0].memory->addr, sizes[i], v[0].mr->lkey};
		const struct sp_rdma_send_wr wr = {.op = SP_RDMA_WR_WRITE,
						   .flags = SP_RDMA_SIGNALED,
						   .sge = &sge,
						   .sges = 1,
						   .remote = (uintptr_t)v[1].memory->addr,
						   .rkey = v[1].mr->rkey};
		struct sp_link_counters before[2], after[2];
		uint64_t bytes = 0, acks;
		struct sp_rdma_wc wc;
		int done = 0;

		for (unsigned d = 0; d < 2; d++)
			sp_link_count(two_link, d, &before[d]);
		CU_ASSERT_EQUAL_FATAL(sp_rdma_post_send(v[0].qp, &wr, NULL), 0);
		for (unsigned k = 0; k < 100 && !done; k++) {
			two_run(SP_MS);
			done = sp_rdma_poll_cq(v[0].cq, &wc, 1);
		}
		CU_ASSERT(done == 1 && wc.status == SP_RDMA_OK);
		for (unsigned d = 0; d < 2; d++)
			sp_link_count(two_link, d, &after[d]);
		for (uint64_t k = 0; k < motif_packets(&nic, sizes[i]); k++)
			bytes += motif_packet_bytes(&nic, MOTIF_PHASE_PUT, sizes[i], k) - MOTIF_WIRE;
		acks = after[1].delivered - before[1].delivered;
		CU_ASSERT_EQUAL(after[0].offered - before[0].offered, motif_packets(&nic, sizes[i]));
		CU_ASSERT_EQUAL(after[0].bytes - before[0].bytes, bytes);
		CU_ASSERT(acks >= 1); /* the model has one; the engine acknowledges long messages on the way, too */
		CU_ASSERT_EQUAL(after[1].bytes - before[1].bytes,
				acks * (motif_packet_bytes(&nic, MOTIF_PHASE_ACK, 0, 0) - MOTIF_WIRE));
	}
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT_EQUAL(sp_rdma_close(v[e].rdma), 0);
		CU_ASSERT_EQUAL(sp_mr_free(v[e].memory), 0);
	}
	two_unmake();
}
