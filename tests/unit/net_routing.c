/* SPDX-License-Identifier: BSD-3-Clause */
/* What routings are for: adaptive ones win where static ones put everybody on the same links, and lose nothing where
 * traffic is uniform anyway; those with one way for each flow keep its order. */
#include "../../testbed/random.h"
#include "../lib/net_traffic.h"
#include "../lib/suite.h"

#define BYTES 1024u

static struct traffic *start(struct traffic *t, const char *topology, enum net_routing routing)
{
	struct net_config c;

	net_defaults(&c);
	c.routing = routing;
	c.order = true;
	traffic_open(t, topology, c);
	return t;
}

static struct net_counters finish(struct traffic *t, sp_time *end)
{
	struct net_counters c;

	CU_ASSERT(traffic_run(t));
	net_count(t->net, &c);
	CU_ASSERT_EQUAL(c.delivered, t->count);
	if (end)
		*end = t->end;
	traffic_close(t);
	return c;
}

/* Everybody sends `packets` to the host `shift` further on. */
static struct net_counters shifted(const char *topology, enum net_routing routing, uint32_t shift, uint32_t packets,
				   sp_time *end)
{
	struct traffic t;
	uint32_t hosts;

	start(&t, topology, routing);
	hosts = net_topology_hosts(t.topology);
	for (uint32_t i = 0; i < hosts * packets; i++)
		traffic_add(&t, i % hosts, (i + shift) % hosts, BYTES, 0, i % hosts);
	return finish(&t, end);
}

static sp_time uniform(const char *topology, enum net_routing routing, uint32_t packets)
{
	struct sp_random r;
	struct traffic t;
	uint32_t hosts;
	sp_time end;

	start(&t, topology, routing);
	sp_random_seed(&r, 1, 0);
	hosts = net_topology_hosts(t.topology);
	for (uint32_t i = 0; i < hosts * packets; i++) /* half of what a link takes */
		traffic_add(&t, i % hosts, (uint32_t)(sp_random_next(&r) >> 33) % hosts, BYTES,
			    i / hosts * 2ull * BYTES * 20, i);
	finish(&t, &end);
	return end;
}

/*
 * Every group to the next: 32 hosts share 4 links, so 8 to 1, which needs at least 8 times as long as the host's link
 * takes. By other groups there are 8 * 4 links for twice the way: at least 2 times.
 */
TEST(dragonfly_adaptive_beats_minimal_between_neighbouring_groups)
{
	const uint32_t packets = 100;
	const sp_time alone = packets * BYTES * 20;
	sp_time minimal, valiant, adaptive, ugal;

	shifted("dragonfly:4:8:4:9", NET_MINIMAL, 32, packets, &minimal);
	shifted("dragonfly:4:8:4:9", NET_VALIANT, 32, packets, &valiant);
	shifted("dragonfly:4:8:4:9", NET_ADAPTIVE, 32, packets, &adaptive);
	shifted("dragonfly:4:8:4:9", NET_UGAL, 32, packets, &ugal);
	printf("# dragonfly, to the next group, us: minimal %.1f, valiant %.1f, adaptive %.1f, ugal %.1f\n",
	       minimal / 1e6, valiant / 1e6, adaptive / 1e6, ugal / 1e6);
	CU_ASSERT(minimal > 8 * alone);
	CU_ASSERT(valiant > 2 * alone && valiant < minimal / 2);
	CU_ASSERT(adaptive > alone && adaptive < minimal * 2 / 3);
	CU_ASSERT(ugal > alone && ugal < minimal * 2 / 3);
}

/*
 * Eight hosts of a switch to those of the next one, all in one group: one link of 8 to 1, 7 * PACKET more for each. By
 * the six other switches of the group there are seven ways. At most two links within the group, the second in VC 1.
 */
TEST(dragonfly_adaptive_takes_detours_within_a_group_from_the_first_switch)
{
	const uint32_t packets = 100;
	const sp_time alone = packets * BYTES * 20;
	struct net_counters direct, adaptive, ugal;
	sp_time end[3];

	direct = shifted("dragonfly:8:8:1:1", NET_MINIMAL, 8, packets, &end[0]);
	adaptive = shifted("dragonfly:8:8:1:1", NET_ADAPTIVE, 8, packets, &end[1]);
	ugal = shifted("dragonfly:8:8:1:1", NET_UGAL, 8, packets, &end[2]);
	printf("# dragonfly, to the next switch of the group, us: minimal %.1f, adaptive %.1f with %llu detours of "
	       "%llu\n",
	       end[0] / 1e6, end[1] / 1e6, (unsigned long long)adaptive.detours,
	       (unsigned long long)adaptive.delivered);
	CU_ASSERT(end[0] > 8 * alone);
	CU_ASSERT(end[1] > alone && end[1] < end[0] * 2 / 3);
	CU_ASSERT(adaptive.detours > adaptive.delivered / 10 && adaptive.detours < adaptive.delivered);
	CU_ASSERT_EQUAL(direct.detours, 0);
	CU_ASSERT(ugal.detours == 0 && end[2] == end[0]); /* ugal decides between groups alone */
}

/*
 * The crossbar takes 3 packets while the link sends 2, so that of n packets to one link at most n / 3 wait. The
 * detour's queue is empty: it has more than twice the room once the direct queue has more than half of 32 KiB. So 40
 * packets take no detour, and 80, which would never fill the queue, do.
 */
TEST(dragonfly_adaptive_takes_a_detour_once_the_direct_queue_is_half_full_and_not_before)
{
	static const char *const text[] = {"dragonfly:8:8:1:1", "dragonfly:8:1:1:9"}; /* in a group; between groups */

	for (unsigned k = 0; k < 2; k++)
		for (uint32_t packets = 5; packets <= 10; packets += 5) {
			struct net_counters c;
			struct traffic t;

			start(&t, text[k], NET_ADAPTIVE);
			for (uint32_t i = 0; i < 8 * packets; i++)
				traffic_add(&t, i % 8, 8 + i % 8, BYTES, 0, 0);
			c = finish(&t, NULL);
			CU_ASSERT(packets == 5 ? c.detours == 0 : c.detours > 0);
			CU_ASSERT(packets == 5 || (c.highest_output > 16384 && c.highest_output < 32768 - BYTES));
		}
}

/* The hosts of a switch send to hosts whose numbers have the same rest: static routing puts them on one link up. */
TEST(fattree_adaptive_and_spraying_beat_static_if_all_destinations_share_a_link_up)
{
	static const enum net_routing routing[] = {NET_MINIMAL, NET_ADAPTIVE, NET_SPRAY};
	sp_time end[3];

	for (unsigned k = 0; k < 3; k++) {
		struct traffic t;

		start(&t, "fattree:8,8:8", routing[k]);
		for (uint32_t i = 0; i < 64 * 100; i++)
			traffic_add(&t, i % 64, i % 8 * 8 + i / 8 % 8, BYTES, 0, 0); /* transposed */
		finish(&t, &end[k]);
	}
	printf("# fat tree, transposed, us: static %.1f, adaptive %.1f, spray %.1f\n", end[0] / 1e6, end[1] / 1e6,
	       end[2] / 1e6);
	CU_ASSERT(end[0] > 7 * 100 * BYTES * 20ull); /* one of eight stays in its switch */
	CU_ASSERT(end[1] < end[0] / 2);
	CU_ASSERT(end[2] < end[0] / 2);
}

/* Four hosts of a switch to those of the next one in the line: one link of four; DOAL also takes the six detours. */
TEST(hyperx_doal_beats_dimension_order_between_neighbours)
{
	sp_time minimal, adaptive, valiant;
	struct net_counters c;

	shifted("hyperx:8x4:4", NET_MINIMAL, 4, 100, &minimal);
	shifted("hyperx:8x4:4", NET_VALIANT, 4, 100, &valiant);
	c = shifted("hyperx:8x4:4", NET_ADAPTIVE, 4, 100, &adaptive);
	printf("# HyperX, to the next switch, us: DOR %.1f, valiant %.1f, DOAL %.1f with %llu detours of %llu\n",
	       minimal / 1e6, valiant / 1e6, adaptive / 1e6, (unsigned long long)c.detours,
	       (unsigned long long)c.delivered);
	CU_ASSERT(minimal > 4 * 100 * BYTES * 20ull);
	CU_ASSERT(adaptive < minimal * 2 / 3);
	CU_ASSERT(c.detours > 0 && c.detours < c.delivered);
}

TEST(uniform_traffic_is_no_slower_with_adaptive_routing)
{
	static const char *const text[] = {"dragonfly:4:8:4:9", "dragonfly:4:8:1:1", "fattree:8,8:8,8:4",
					   "hyperx:8x4:4"};

	for (unsigned k = 0; k < 4; k++) {
		const sp_time minimal = uniform(text[k], NET_MINIMAL, 100),
			      adaptive = uniform(text[k], NET_ADAPTIVE, 100);

		printf("# %s, uniform, us: minimal %.2f, adaptive %.2f\n", text[k], minimal / 1e6, adaptive / 1e6);
		CU_ASSERT(adaptive < minimal + minimal / 20);
	}
}

TEST(ways_fixed_by_flow_or_destination_keep_the_order_and_spraying_does_not)
{
	static const char *const text[] = {"dragonfly:2:4:4:5", "fattree:4,4:4,4:4", "hyperx:4x4x2:2", "torus:5x4:2"};

	for (unsigned k = 0; k < 4; k++) {
		for (unsigned r = 0; r < NET_ROUTINGS; r++) {
			struct net_topology *t;
			struct net_counters c;
			char why[256];
			bool has;

			CU_ASSERT_EQUAL_FATAL(net_topology_parse(text[k], &t, why, sizeof(why)), 0);
			has = net_vcs_needed(t, r);
			net_topology_destroy(t);
			if (!has)
				continue;
			c = shifted(text[k], r, 13, 200, NULL);
			CU_ASSERT_EQUAL(c.unordered, 0);
			if (r == NET_MINIMAL || r == NET_ECMP)
				CU_ASSERT_EQUAL(c.reordered, 0)
			else if (r == NET_SPRAY || r == NET_VALIANT)
				CU_ASSERT(c.reordered > 0);
		}
	}
}

/* 16 links up, 16 hosts a switch, 1,024 flows: each link up should carry 1/16. Counted by what arrives when all flows
 * of a switch are sent at once: with the best balance, 64 flows a link; four standard deviations more are allowed. */
TEST(ecmp_spreads_flows_evenly)
{
	const uint32_t flows = 1024, packets = 4;
	const sp_time balanced = (sp_time)flows / 16 * packets * BYTES * 20;
	struct traffic t;
	sp_time end;

	start(&t, "fattree:16,16:16", NET_ECMP);
	for (uint32_t i = 0; i < flows * packets; i++)
		traffic_add(&t, i % 16, 16 + i % 16 * 15 + i / 16 % 15, BYTES, 0, i % flows);
	finish(&t, &end);
	CU_ASSERT(end < balanced + 4 * 8 * packets * BYTES * 20);
}
