/* SPDX-License-Identifier: BSD-3-Clause */
/* Random small networks under random traffic that fills them, with queues of few packets: lossless ones deliver
 * everything (no deadlock, no drop) and have all their credits at the end; in the others, sent = delivered + dropped.
 * The same seed gives the same run. */
#include "../../testbed/net/fabric.h"
#include "../lib/net_traffic.h"
#include "../lib/suite.h"

#define MAX_TEXT 128

static uint32_t below(struct sp_random *r, uint32_t bound)
{
	return (uint32_t)(sp_random_next(r) >> 33) % bound;
}

static uint32_t from_to(struct sp_random *r, uint32_t low, uint32_t high)
{
	return low + below(r, high - low + 1);
}

/* A random tree of switches or a ring of them, with a few more links; most switches have a host or two. */
static void random_file(struct sp_random *r, const char *path)
{
	const uint32_t switches = from_to(r, 2, 9), more = below(r, 7);
	const bool ring = below(r, 2) && switches > 2;
	FILE *f = fopen(path, "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	for (uint32_t s = 0; s < switches; s++) {
		fprintf(f, "switch s%u\n", s);
		for (uint32_t h = from_to(r, s == 0, 2); h; h--)
			fprintf(f, "host s%uh%u s%u\n", s, h, s);
		if (s)
			fprintf(f, "link s%u s%u\n", s, ring ? s - 1 : below(r, s));
	}
	if (ring)
		fprintf(f, "link s0 s%u\n", switches - 1);
	for (uint32_t k = 0; k < more; k++) {
		const uint32_t a = below(r, switches), b = below(r, switches);

		if (a != b)
			fprintf(f, "link s%u s%u %u\n", a, b, from_to(r, 1, 2));
	}
	fclose(f);
}

static void random_topology(struct sp_random *r, char *text, const char *path)
{
	switch (below(r, 7)) {
	case 0:
		snprintf(text, MAX_TEXT, "star:%u", from_to(r, 1, 20));
		break;
	case 1:
		snprintf(text, MAX_TEXT, "torus:%ux%ux%u:%u", from_to(r, 1, 6), from_to(r, 1, 4), from_to(r, 1, 2),
			 from_to(r, 1, 2));
		break;
	case 2:
		snprintf(text, MAX_TEXT, "torus:%u:%u", from_to(r, 1, 12), from_to(r, 1, 3));
		break;
	case 3:
		snprintf(text, MAX_TEXT, "fattree:%u,%u:%u,%u:%u", from_to(r, 1, 4), from_to(r, 1, 3), from_to(r, 1, 3),
			 from_to(r, 1, 2), from_to(r, 1, 3));
		break;
	case 4:
		snprintf(text, MAX_TEXT, "dragonfly:%u:%u:%u:%u", from_to(r, 1, 3), from_to(r, 1, 4), from_to(r, 1, 4),
			 from_to(r, 1, 5));
		break;
	case 5:
		snprintf(text, MAX_TEXT, "hyperx:%ux%ux%u:%u:%u", from_to(r, 1, 5), from_to(r, 1, 3), from_to(r, 1, 2),
			 from_to(r, 1, 3), from_to(r, 1, 2));
		break;
	default:
		random_file(r, path);
		snprintf(text, MAX_TEXT, "%s", path);
	}
}

static enum net_routing random_routing(struct sp_random *r, const char *text)
{
	struct net_topology *t;
	enum net_routing routing;
	char why[256];

	CU_ASSERT_EQUAL_FATAL(net_topology_parse(text, &t, why, sizeof(why)), 0);
	do
		routing = below(r, NET_ROUTINGS);
	while (!net_vcs_needed(t, routing));
	net_topology_destroy(t);
	return routing;
}

static struct net_config random_config(struct sp_random *r, enum net_routing routing)
{
	static const uint64_t rate[] = {2000000000000ull, 400000000000ull, 10000000000ull, 333333333333ull};
	struct net_config c = {.routing = routing,
			       .rate = rate[below(r, 4)],
			       .link_delay = below(r, 3) * 10000,
			       .switch_in = below(r, 2) * 30000,
			       .switch_out = below(r, 2) * 30000,
			       .crossbar = 1 + below(r, 3) * 0.5,
			       .flit = 1u << below(r, 7),
			       .lossless = below(r, 3) != 0,
			       .store_forward = below(r, 4) == 0,
			       .order = true,
			       .ecn = below(r, 2) * 1500,
			       .seed = sp_random_next(r)};

	c.input_buffer = 1024 + below(r, 2048);
	c.output_buffer = 1024 + below(r, 2048);
	c.priorities = below(r, 3);
	if (c.lossless && below(r, 3) == 0) {
		struct net_pfc numbers;
		uint32_t room;
		char why[256];

		c.pfc = (struct net_pfc){.on = true, .mtu = 1024, .response = below(r, 2) * 100000};
		c.input_buffer = 1 << 30;
		CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), 0);
		c.pfc.xoff = 500 + below(r, 2048); /* one byte less for input_buffer, and packets are lost */
		c.input_buffer = c.pfc.xoff + room;
		if (c.input_buffer < room + 1024 + c.flit)
			c.input_buffer = room + 1024 + c.flit;
	}
	return c;
}

/* Uniform, everybody to one, or a fixed partner for each. */
static void random_packets(struct sp_random *r, struct traffic *t)
{
	const uint32_t hosts = net_topology_hosts(t->topology), packets = 20 * (hosts < 20 ? hosts : 20);
	const uint32_t pattern = below(r, 3), hot = below(r, hosts), shift = from_to(r, 1, hosts);
	const uint32_t gap = below(r, 2) * 20000, sizes = below(r, 2) ? 1024 : 64;
	uint32_t group, member[32], members = 0;
	const bool groups = below(r, 4) == 0;

	for (uint32_t h = 0; groups && h < hosts && members < 32; h++)
		if (below(r, 2) || h + 1 == hosts)
			member[members++] = h;
	if (groups)
		CU_ASSERT_EQUAL_FATAL(net_group_add(t->net, hot, member, members, &group), 0);
	for (uint32_t i = 0; i < packets; i++) { /* a host's packets of several priorities stay in order */
		const uint32_t src = below(r, hosts), size = from_to(r, 1, sizes);
		uint32_t dst = pattern == 0 ? below(r, hosts) : pattern == 1 ? hot : (src + shift) % hosts;

		if (groups && src == hot)
			dst = NET_GROUP | group;
		const uint32_t number = traffic_add(t, src, dst, size, (sp_time)i * gap, below(r, 4));

		t->packet[number].priority = (uint8_t)below(r, 4);
	}
}

static void check_end(const struct traffic *t)
{
	const struct net *n = t->net;
	struct net_counters c;
	uint64_t dropped = 0;

	net_count(n, &c);
	for (unsigned k = 0; k < NET_DROPS; k++)
		dropped += c.dropped[k];
	CU_ASSERT(!n->config.lossless || dropped == 0);
	CU_ASSERT(c.highest_input <= n->config.input_buffer && c.highest_output <= n->config.output_buffer);
	for (uint32_t q = 0; q < net_ports(n->topology) * n->vcs; q++) {
		CU_ASSERT_EQUAL(n->queue[q].credits, n->config.input_buffer);
		CU_ASSERT_EQUAL(n->queue[q].in.bytes + n->queue[q].out.bytes, 0);
	}
	for (uint32_t l = 0; l < n->topology->hosts * n->lanes; l++) {
		CU_ASSERT_EQUAL(n->lane[l].credits, n->config.input_buffer);
		CU_ASSERT(n->lane[l].paused <= n->now);
	}
	for (uint32_t i = 0; i < t->count; i++)
		if (!(t->packet[i].dst & NET_GROUP))
			CU_ASSERT_EQUAL(t->packet[i].times + t->packet[i].dropped, 1);
}

static uint64_t run(uint64_t seed, bool check)
{
	char text[MAX_TEXT], path[64];
	enum net_routing routing;
	struct net_config c;
	struct sp_random r;
	struct traffic t;
	uint64_t digest;
	bool all;

	sp_random_seed(&r, seed, 0);
	snprintf(path, sizeof(path), "/tmp/net-property-%u", (unsigned)getpid());
	random_topology(&r, text, path);
	routing = random_routing(&r, text);
	c = random_config(&r, routing);
	traffic_open(&t, text, c);
	random_packets(&r, &t);
	all = traffic_run(&t);
	CU_ASSERT(all);
	if (!all)
		printf("# seed %llu: %s %s: packets are stuck\n", (unsigned long long)seed, text,
		       net_routing_names[routing]);
	else if (check)
		check_end(&t);
	digest = t.digest;
	traffic_close(&t);
	unlink(path);
	return digest;
}

TEST(random_networks_neither_lose_nor_deadlock_and_repeat_by_seed)
{
	const unsigned times = suite_times(10000);

	for (unsigned seed = 0; seed < times; seed++) {
		const uint64_t digest = run(seed, true);

		if (seed % 16 == 0)
			CU_ASSERT_EQUAL(run(seed, false), digest);
		if (CU_get_number_of_failures() > 10)
			return;
	}
}

/* Rings and meshes whose every link is wanted by who holds another, with queues of one packet. */
TEST(full_rings_and_meshes_go_on_moving)
{
	static const char *const text[] = {"torus:7:2",	     "torus:5x5",	  "hyperx:3x3x3:2",
					   "hyperx:2x2x2:4", "dragonfly:2:2:1:5", "dragonfly:4:3:1:1"};
	char path[64];

	snprintf(path, sizeof(path), "/tmp/net-property-%u", (unsigned)getpid());
	for (uint32_t k = 0; k < 8 * 10; k++) {
		const uint32_t ring = 4 + k / 8, which = k % 8;
		FILE *f = fopen(path, "w");

		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		for (uint32_t s = 0; s < ring; s++)
			fprintf(f, "switch s%u\nhost h%u s%u\n", s, s, s);
		for (uint32_t s = 0; s < ring; s++)
			fprintf(f, "link s%u s%u\n", s, (s + 1) % ring);
		fclose(f);
		for (enum net_routing routing = 0; routing < NET_ROUTINGS; routing++) {
			const char *topology = which < 6 ? text[which] : path;
			struct net_topology *t;
			struct net_config c;
			struct traffic load;
			char why[256];
			uint32_t hosts;
			bool has;

			CU_ASSERT_EQUAL_FATAL(net_topology_parse(topology, &t, why, sizeof(why)), 0);
			has = net_vcs_needed(t, routing);
			hosts = net_topology_hosts(t);
			net_topology_destroy(t);
			if (!has)
				continue;
			net_defaults(&c);
			c.routing = routing;
			c.input_buffer = c.output_buffer = 1024;
			c.seed = k;
			traffic_open(&load, topology, c);
			for (uint32_t i = 0; i < 40 * hosts; i++) {
				const uint32_t ring_far = ring / 2 - 1 - which % 2;
				/* which 5: every switch to the one before it, so that detours go round the group */
				const uint32_t far = which < 5 ? i * 7919 % (hosts - 1) : which == 5 ? 7 : ring_far;

				traffic_add(&load, i % hosts, (i + 1 + far) % hosts, 1024, 0, i % 3);
			}
			if (!traffic_run(&load)) {
				printf("# %s, %s: packets are stuck\n", which < 6 ? topology : "a ring",
				       net_routing_names[routing]);
				CU_FAIL("stuck");
			}
			traffic_close(&load);
		}
	}
	unlink(path);
}
