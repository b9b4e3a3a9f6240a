/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * End times of SST's merlin, another simulator of the same switches, from the reference outputs of its tests
 * (sst-elements, merlin/tests). Their traffic (test/nic.cc): each of n hosts sends 10 packets of 64 bits to each of the
 * n, itself included, beginning with the host after it, from the first nanosecond on. Links of 4 GB/s, flits of 8
 * bytes, 20 ns for a link, a switch's input and its output each, queues of 4 kB.
 */
#include "../lib/net_traffic.h"
#include "../lib/suite.h"

/* The end, in ns, with `hosts` of them taking part. */
static double end_of(const char *topology, uint32_t hosts, double crossbar)
{
	struct net_config c;
	struct traffic t;
	double end;

	net_defaults(&c);
	c.rate = 32000000000ull;
	c.flit = 8;
	c.link_delay = c.switch_in = c.switch_out = 20 * SP_NS;
	c.crossbar = crossbar;
	c.input_buffer = c.output_buffer = 4000;
	traffic_open(&t, topology, c);
	for (uint32_t i = 0; i < 10 * hosts * hosts; i++)
		traffic_add(&t, i % hosts, (i % hosts + 1 + i / hosts) % hosts, 8, 1 * SP_NS, 0);
	CU_ASSERT(traffic_run(&t));
	end = (double)t.end / SP_NS;
	traffic_close(&t);
	return end;
}

static void expect(const char *what, double ours, double merlin, double part)
{
	printf("# %s: %.0f ns, merlin %.0f: %+.1f %%\n", what, ours, merlin, 100 * (ours / merlin - 1));
	CU_ASSERT(ours > merlin * (1 - part) && ours < merlin * (1 + part));
}

/* dragon_128: a crossbar of 6 GB/s; the hosts of two groups, minimal routing. (Its other half, routed by UGAL, are
 * other hosts, which have queues of their own.) */
TEST(a_dragonfly_ends_when_merlin_s_does)
{
	expect("dragonfly", end_of("dragonfly:4:8:4:5", 64, 1.5), 5399, 0.01);
}

/* hyperx_128: the same in two rows of a 4 x 4 HyperX by dimension order, whose time is that of one of the two parallel
 * links: a switch gets 2,560 packets from its column, 2 ns each. */
TEST(a_hyperx_ends_when_merlin_s_does)
{
	expect("HyperX", end_of("hyperx:4x2:8:1", 64, 1.5), 5392, 0.01);
}

/* torus_64 and fattree_128: a crossbar no faster than a link, so that queues grow at the inputs, and it shows who goes
 * first of those that come at the same time. */
TEST(a_torus_ends_when_merlin_s_does)
{
	expect("torus", end_of("torus:4x4x4", 64, 1), 1936, 0.01);
}

TEST(a_fat_tree_ends_when_merlin_s_does)
{
	expect("fat tree", end_of("fattree:4,4:4,4:8", 128, 1), 3668, 0.01);
}
