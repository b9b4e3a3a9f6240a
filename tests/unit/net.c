/* SPDX-License-Identifier: BSD-3-Clause */
/* Networks of switches: times are held against closed forms that are worked out here. */
#include <string.h>

#include "../lib/net_traffic.h"
#include "../lib/suite.h"

#define GBIT 1000000000ull

static struct net_config config(enum net_routing routing)
{
	struct net_config c;

	net_defaults(&c);
	c.routing = routing;
	return c;
}

/* Alone in the network: one serialisation, and the delays of each link and switch. 400 Gbit/s are 20 ps a byte. */
static sp_time alone(uint32_t bytes, uint32_t switches)
{
	return (bytes + 31) / 32 * 32 * 20ull + (switches + 1) * 20000ull + switches * 60000ull;
}

static const char *const topology[] = {"star:16",	    "torus:5x4x3:2",	 "torus:9",	     "fattree:4,4:4",
				       "fattree:4,2:3,5:2", "dragonfly:2:4:3:5", "hyperx:4x3x2:3:2", "hyperx:5"};

TEST(a_packet_alone_takes_one_serialisation_and_each_delay_once_per_link_and_switch)
{
	for (unsigned k = 0; k < sizeof(topology) / sizeof(topology[0]); k++) {
		struct traffic t;
		uint32_t hosts;

		traffic_open(&t, topology[k], config(NET_MINIMAL));
		hosts = net_topology_hosts(t.topology);
		for (uint32_t i = 0; i < hosts * hosts; i++) /* one at a time */
			traffic_add(&t, i / hosts, i % hosts, 1 + i * 37 % 4096, i * 10000000ull, i);
		CU_ASSERT(traffic_run(&t));
		for (uint32_t i = 0; i < t.count; i++) {
			const int hops = net_topology_hops(t.topology, t.packet[i].src, t.packet[i].dst);

			CU_ASSERT_EQUAL(t.packet[i].sent, t.packet[i].from);
			CU_ASSERT_EQUAL(t.packet[i].hops, hops);
			CU_ASSERT_EQUAL(t.packet[i].arrived - t.packet[i].sent,
					alone(t.packet[i].bytes, (uint32_t)hops));
		}
		traffic_close(&t);
	}
}

TEST(a_switch_that_stores_and_forwards_adds_one_serialisation)
{
	struct net_config c = config(NET_MINIMAL);
	struct traffic t;

	c.store_forward = true;
	traffic_open(&t, "torus:8", c);
	traffic_add(&t, 0, 3, 2048, 0, 0);
	CU_ASSERT(traffic_run(&t));
	CU_ASSERT_EQUAL(t.packet[0].arrived, alone(2048, 4) + 4 * 2048 * 20);
	traffic_close(&t);
}

TEST(the_time_on_a_link_is_exact_or_rounded_up_to_a_picosecond)
{
	static const struct {
		uint64_t rate;
		uint32_t bytes;
		sp_time ps;
	} known[] = {{2000 * GBIT, 4096, 16384}, {1000 * GBIT, 4096, 32768},
		     {400 * GBIT, 4096, 81920},	 {100 * GBIT, 1, 80},
		     {32 * GBIT, 2048, 512000},	 {3, 1, 2666666666667ull},
		     {7 * GBIT, 1500, 1714286},	 {1, NET_MAX_BYTES, (8000000000000ull << 24)}};

	for (unsigned k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		struct net_config c = config(NET_MINIMAL);
		struct traffic t;

		c.rate = known[k].rate;
		c.flit = 1;
		traffic_open(&t, "star:2", c);
		CU_ASSERT_EQUAL(net_serialisation(t.net, known[k].bytes), known[k].ps);
		traffic_close(&t);
	}
}

/* Packets of one host follow each other without a gap; two hosts that send to a third share its link in turn. */
TEST(a_full_link_has_no_gaps_and_is_shared_in_turn)
{
	struct traffic t;
	uint32_t from[2] = {0};

	traffic_open(&t, "star:4", config(NET_MINIMAL));
	for (uint32_t i = 0; i < 2000; i++)
		traffic_add(&t, i % 2, 2, 4096, 0, i % 2);
	CU_ASSERT(traffic_run(&t));
	CU_ASSERT_EQUAL(t.end, alone(4096, 1) + 1999 * 4096 * 20);
	for (uint32_t i = 0; i < t.count; i++)
		if (t.packet[i].arrived <= t.end / 2)
			from[t.packet[i].src]++;
	CU_ASSERT(from[0] + 2 >= from[1] && from[1] + 2 >= from[0]);
	traffic_close(&t);
}

TEST(lossless_blocks_the_sender_and_otherwise_a_full_queue_drops_by_name)
{
	struct net_counters n;
	struct net_config c = config(NET_MINIMAL);
	struct traffic t;

	for (int lossless = 0; lossless < 2; lossless++) {
		c.lossless = lossless;
		c.input_buffer = 20000;
		traffic_open(&t, "star:9", c);
		for (uint32_t i = 0; i < 8000; i++)
			traffic_add(&t, i % 8, 8, 1000, 0, 0);
		CU_ASSERT(traffic_run(&t));
		net_count(t.net, &n);
		CU_ASSERT(n.highest_input <= c.input_buffer && n.highest_output <= c.output_buffer);
		if (lossless)
			CU_ASSERT(n.delivered == 8000 && !t.drops && t.end == alone(1000, 1) + 7999 * 1024 * 20)
		else
			CU_ASSERT(n.dropped[NET_DROP_OUTPUT_FULL] > 6000 && n.delivered > 1000);
		traffic_close(&t);
	}
}

TEST(what_cannot_be_sent_is_dropped_by_name)
{
	struct net_counters n;
	struct traffic t;

	traffic_open(&t, "star:2", config(NET_MINIMAL));
	traffic_add(&t, 0, 2, 100, 0, 0);
	traffic_add(&t, 0, NET_GROUP, 100, 0, 0);
	traffic_add(&t, 0, 1, 0, 0, 0);
	traffic_add(&t, 0, 1, 32769, 0, 0);
	traffic_add(&t, 0, 1, UINT32_MAX, 0, 0);
	traffic_add(&t, 0, 1, 32768, 0, 0);
	CU_ASSERT(traffic_run(&t));
	CU_ASSERT(net_send(t.net, 2, &(struct net_packet){.dst = 1, .bytes = 100}, t.end));
	net_count(t.net, &n);
	CU_ASSERT_EQUAL(n.dropped[NET_DROP_NO_HOST], 3);
	CU_ASSERT_EQUAL(n.dropped[NET_DROP_OVERSIZED], 3);
	CU_ASSERT_EQUAL(n.delivered, 1);
	traffic_close(&t);
}

/* Four to one at full speed: the queue of the one grows beyond the threshold. One to one: it does not. */
TEST(ecn_marks_what_enters_an_output_queue_above_the_threshold)
{
	struct net_config c = config(NET_MINIMAL);

	c.ecn = 8192;
	for (uint32_t senders = 1; senders <= 4; senders += 3) {
		struct net_counters n;
		struct traffic t;
		uint64_t marked = 0;

		traffic_open(&t, "star:5", c);
		for (uint32_t i = 0; i < 400; i++)
			traffic_add(&t, i % senders, 4, 1024, 0, 0);
		CU_ASSERT(traffic_run(&t));
		for (uint32_t i = 0; i < t.count; i++)
			marked += t.packet[i].ecn;
		net_count(t.net, &n);
		CU_ASSERT_EQUAL(marked, n.marked);
		CU_ASSERT(senders == 1 ? marked == 0 : marked > 300);
		traffic_close(&t);
	}
}

TEST(a_group_gets_every_packet_once_and_each_link_of_the_tree_carries_one_copy)
{
	for (unsigned k = 0; k < sizeof(topology) / sizeof(topology[0]); k++) {
		struct net_counters n;
		struct traffic t;
		uint32_t hosts[256], group, count = 0;

		traffic_open(&t, topology[k], config(NET_MINIMAL));
		for (uint32_t h = 1; h < net_topology_hosts(t.topology); h += 1 + h % 2)
			hosts[count++] = h;
		CU_ASSERT_EQUAL(net_group_add(t.net, 0, hosts, count, &group), 0);
		for (uint32_t i = 0; i < 100; i++)
			traffic_add(&t, 0, NET_GROUP | group, 2000, 0, 0);
		CU_ASSERT(traffic_run(&t));
		net_count(t.net, &n);
		CU_ASSERT_EQUAL(n.delivered, 100 * count);
		CU_ASSERT_EQUAL(n.copied, 100 * (count - 1)); /* a tree with `count` leaves branches so often */
		for (uint32_t i = 0; i < t.count; i++)
			CU_ASSERT_EQUAL(t.packet[i].times, count);
		CU_ASSERT_NOT_EQUAL(net_group_add(t.net, 0, (uint32_t[]){1, 1}, 2, &group), 0);
		CU_ASSERT_NOT_EQUAL(net_group_add(t.net, 0, (uint32_t[]){5000}, 1, &group), 0);
		traffic_close(&t);
	}
}

static void nobody(void *arg, const struct net_packet *p, sp_time now)
{
}

static int try_create(const char *text, enum net_routing routing, uint32_t vcs, bool lossless, char *why)
{
	struct net_config c = config(routing);
	struct net_topology *t;
	struct net *n = NULL;
	int err;

	CU_ASSERT_EQUAL_FATAL(net_topology_parse(text, &t, why, 256), 0);
	c.topology = t;
	c.deliver = nobody;
	c.vcs = vcs;
	c.lossless = lossless;
	err = net_create(&c, &n, why, 256);
	net_destroy(n);
	net_topology_destroy(t);
	return err;
}

TEST(too_few_virtual_channels_for_a_lossless_network_are_refused_with_the_number_needed)
{
	static const struct {
		const char *text;
		enum net_routing routing;
		uint32_t needed;
	} known[] = {{"star:4", NET_MINIMAL, 1},
		     {"torus:3x3x3", NET_MINIMAL, 1},
		     {"torus:4x3", NET_MINIMAL, 2},
		     {"torus:4x3", NET_VALIANT, 4},
		     {"torus:3x3", NET_VALIANT, 2},
		     {"fattree:4,4:4", NET_ADAPTIVE, 1},
		     {"dragonfly:2:4:3:5", NET_MINIMAL, 2},
		     {"dragonfly:2:4:3:5", NET_UGAL, 3},
		     {"dragonfly:2:4:3:5", NET_ADAPTIVE, 3},
		     {"dragonfly:2:4:1:1", NET_ADAPTIVE, 3},
		     {"hyperx:4x4", NET_MINIMAL, 1},
		     {"hyperx:4x4", NET_ADAPTIVE, 2},
		     {"hyperx:4x4x4", NET_SPRAY, 3},
		     {"hyperx:4x4x4", NET_VALIANT, 2}};
	char why[256], number[16];

	for (unsigned k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		const uint32_t needed = known[k].needed;

		CU_ASSERT_EQUAL(try_create(known[k].text, known[k].routing, needed, true, why), 0);
		CU_ASSERT_EQUAL(try_create(known[k].text, known[k].routing, 0, true, why), 0);
		CU_ASSERT_EQUAL(try_create(known[k].text, known[k].routing, 1, false, why), 0);
		if (needed == 1)
			continue;
		CU_ASSERT_NOT_EQUAL(try_create(known[k].text, known[k].routing, needed - 1, true, why), 0);
		snprintf(number, sizeof(number), "needs %u ", needed);
		CU_ASSERT_PTR_NOT_NULL(strstr(why, number));
	}
	CU_ASSERT_NOT_EQUAL(try_create("torus:4x4", NET_ADAPTIVE, 0, true, why), 0);
	CU_ASSERT_STRING_EQUAL(why, "topology torus has no routing 'adaptive', only minimal, valiant");
}
