/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies: numbers of switches, links and hosts as known formulas give them, and refused texts and files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../testbed/net/graph.h"
#include "../../testbed/random.h"
#include "../lib/suite.h"

static struct net_topology *parse(const char *text)
{
	struct net_topology *t = NULL;
	char why[256] = "";

	CU_ASSERT_EQUAL(net_topology_parse(text, &t, why, sizeof(why)), 0);
	CU_ASSERT_STRING_EQUAL(why, "");
	return t;
}

TEST(switches_links_hosts_and_diameters_are_as_known)
{
	static const struct {
		const char *text;
		uint32_t switches, links, hosts, diameter;
	} known[] = {
		{"star:64", 1, 0, 64, 0},
		{"torus:8", 8, 8, 8, 4},
		{"torus:4x4x4", 64, 3 * 64, 64, 6},
		{"torus:5x1x2:3", 10, 2 * 10, 30, 3},
		{"torus:16x16x16", 4096, 3 * 4096, 4096, 24},
		{"fattree:32,32:32,32:8", 256 + 256 + 1024, 2 * 8192, 8192, 4},
		{"fattree:16,16:32", 32 + 16, 512, 512, 2},
		{"fattree:4,2:3,5:2", 6 + 4 + 10, 12 + 20, 24, 4},
		{"fattree:8", 1, 0, 8, 0},
		/* fully meshed groups, and 32 links between each two of 16 groups */
		{"dragonfly:16:32:32:16", 512, 16 * 32 * 31 / 2 + 16 * 15 / 2 * 32, 8192, 2},
		{"dragonfly:2:4:1:9", 36, 9 * 6 + 9 * 8 / 2, 72, 3},
		{"hyperx:8x8x8:16:2", 512, 512 * 7 * 3 * 2 / 2, 8192, 3},
		{"hyperx:5", 5, 10, 5, 1},
		{"hyperx:3x2", 6, 6 + 3, 6, 2},
	};

	for (unsigned k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		struct net_topology *t = parse(known[k].text);

		CU_ASSERT_EQUAL(net_topology_switches(t), known[k].switches);
		CU_ASSERT_EQUAL(net_topology_links(t), known[k].links);
		CU_ASSERT_EQUAL(net_topology_hosts(t), known[k].hosts);
		CU_ASSERT_EQUAL(net_topology_diameter(t), known[k].diameter);
		net_topology_destroy(t);
	}
}

/* Each port's peer names the port back, each host is at its port, and none is used twice. */
TEST(links_lead_back_and_every_link_is_there_once)
{
	static const char *const text[] = {"torus:4x3x2:2", "fattree:4,3:5,2:3", "dragonfly:3:5:4:6", "hyperx:4x3:2:3"};

	for (unsigned k = 0; k < sizeof(text) / sizeof(text[0]); k++) {
		struct net_topology *t = parse(text[k]);
		uint32_t ends = 0, hosts = 0;

		for (uint32_t p = 0; p < net_ports(t); p++) {
			const uint32_t peer = t->peer[p];

			if (peer == NET_NONE)
				continue;
			if (net_is_host(peer)) {
				hosts++;
				CU_ASSERT_EQUAL(t->host_port[peer & ~NET_HOST_PEER], p);
			} else {
				ends++;
				CU_ASSERT_EQUAL(t->peer[peer], p);
				CU_ASSERT_NOT_EQUAL(t->at[peer], t->at[p]);
			}
		}
		CU_ASSERT_EQUAL(hosts, net_topology_hosts(t));
		CU_ASSERT_EQUAL(ends, 2 * net_topology_links(t));
		net_topology_destroy(t);
	}
}

TEST(bad_texts_are_refused_in_words)
{
	static const struct {
		const char *text, *word;
	} bad[] = {{"", "expected star, torus"},
		   {"ring:4", "expected star, torus"},
		   {"star", "a number is missing"},
		   {"star:", "a number is missing"},
		   {"star:0", "is not from 1"},
		   {"star:4x4", "'x4' is not understood"},
		   {"star:4:4", "expected star:HOSTS"},
		   {"star:5000", "more than 4096 ports"},
		   {"torus:4x", "a number is missing"},
		   {"torus:-4", "a number is missing"},
		   {"torus:4,4", "',4' is not understood"},
		   {"torus:1000x1000", "switches"},
		   {"torus:1048576x1048576x1048576x1048576", "hosts"},
		   {"torus:2x2x2x2x2x2x2x2x2", "more than 8 numbers"},
		   {"torus:99999999999999999999", "is not from 1"},
		   {"torus:4:2:2", "expected torus"},
		   {"fattree:4,4", "level 1 has 2 numbers"},
		   {"fattree:4:4", "level 1 has 1 numbers"},
		   {"fattree:1000,1000:1000,1000:1000", "hosts"},
		   {"fattree:1,4000:1,4000:1", "links"},
		   {"fattree:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1", "more than 8 parts"},
		   {"dragonfly:4:4:4", "expected dragonfly"},
		   {"dragonfly:1:1:4096:4", "ports"},
		   {"hyperx:100x100:1:100", "ports"},
		   {"hyperx:2:2:2:2", "expected hyperx"},
		   {"file:/nowhere/at/all", "/nowhere/at/all: No such file"},
		   {"/", "cannot be read"}};

	for (unsigned k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		struct net_topology *t;
		char why[256] = "";

		CU_ASSERT_NOT_EQUAL(net_topology_parse(bad[k].text, &t, why, sizeof(why)), 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(why, bad[k].word));
		if (!strstr(why, bad[k].word))
			printf("# '%s': '%s'\n", bad[k].text, why);
	}
}

static int read_text(const char *text, struct net_topology **t, char *why)
{
	char path[] = "/tmp/net-topology-XXXXXX", words[256] = "";
	const int fd = mkstemp(path);
	const char *rest;
	int err;

	CU_ASSERT_FATAL(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	err = net_topology_read(path, t, words, sizeof(words));
	unlink(path);
	rest = strncmp(words, path, strlen(path)) ? words : words + strlen(path);
	strcpy(why, rest);
	return err;
}

TEST(a_file_makes_any_graph)
{
	struct net_topology *t;
	char why[256];

	CU_ASSERT_EQUAL_FATAL(read_text("# two leaves, two spines\nswitch leaf1 leaf2\nswitch spine1 spine2\n"
					"host a leaf1\nhost b leaf1 # second\r\n\n  host c\tleaf2\n"
					"link leaf1 spine1 2\nlink leaf1 spine2\nlink leaf2 spine1\nlink leaf2 spine2",
					&t, why),
			      0);
	CU_ASSERT_EQUAL(net_topology_switches(t), 4);
	CU_ASSERT_EQUAL(net_topology_links(t), 5);
	CU_ASSERT_EQUAL(net_topology_hosts(t), 3);
	CU_ASSERT_EQUAL(net_topology_diameter(t), 2);
	CU_ASSERT_EQUAL(net_topology_host(t, "b"), 1);
	CU_ASSERT_EQUAL(net_topology_host(t, "d"), -1);
	CU_ASSERT_EQUAL(net_topology_hops(t, 0, 1), 1);
	CU_ASSERT_EQUAL(net_topology_hops(t, 0, 2), 3);
	CU_ASSERT_EQUAL(net_topology_hops(t, 0, 3), -1);
	CU_ASSERT_FALSE(t->cyclic);
	net_topology_destroy(t);
}

TEST(a_file_s_errors_are_named_by_line)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"", ":0: there is no host"},
		{"switch\n", ":1: expected: switch NAME ..."},
		{"switch a # \377\nswitch \033\n", ":2: a character is no ASCII text"},
		{"switch a\nswitch b a\n", ":2: switch 'a' is there already"},
		{"switch a\nhost x b\n", ":2: there is no switch 'b' yet"},
		{"switch a\nhost x a\nhost x a\n", ":3: host 'x' is there already"},
		{"switch a\nhost x\n", ":2: expected: host NAME SWITCH"},
		{"switch a b\nlink a b 0\n", ":2: '0' links: expected 1 to 4096"},
		{"switch a b\nlink a b 2x\n", ":2: '2x' links: expected 1 to 4096"},
		{"switch a b\nlink a b -1\n", ":2: '-1' links: expected 1 to 4096"},
		{"switch a\nlink a a\n", ":2: a link from switch 'a' to itself"},
		{"switch a\nlink a b c d e f g\n", ":2: expected: link SWITCH SWITCH [N]"},
		{"router a\n", ":1: 'router' is not understood: expected switch, host or link"},
		{"switch abcdefghijklmnopqrstuvwxyz123456\n",
		 ":1: name 'abcdefghijklmnopqrstuvwxyz123456' is longer than 31 characters"},
		{"switch a b\nhost x a\nhost y b\n", ":3: no links lead from host 'x' to host 'y'"},
		{"switch a b\nhost x a\nlink a b 4096\n", ":3: switch 'a' has more than 4096 ports"},
	};
	struct net_topology *t;
	char why[256], *longest = malloc(5000);

	for (unsigned k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		CU_ASSERT_NOT_EQUAL(read_text(bad[k].text, &t, why), 0);
		CU_ASSERT_STRING_EQUAL(why, bad[k].why);
		if (strcmp(why, bad[k].why))
			printf("# '%s' instead of '%s'\n", why, bad[k].why);
	}
	memset(longest, 'x', 4999);
	longest[4999] = '\0';
	CU_ASSERT_NOT_EQUAL(read_text(longest, &t, why), 0);
	CU_ASSERT_STRING_EQUAL(why, ":1: a line is longer than 1022 characters");
	free(longest);
}

TEST(a_graph_knows_whether_its_shortest_ways_make_a_cycle)
{
	static const struct {
		unsigned ring;
		bool cyclic;
	} known[] = {{3, false}, {4, true}, {5, true}, {8, true}}; /* of 3, no way has two links */

	for (unsigned k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		struct net_topology *t;
		char text[512] = "", why[256];

		for (unsigned i = 0; i < known[k].ring; i++)
			sprintf(text + strlen(text), "switch s%u\nhost h%u s%u\n", i, i, i);
		for (unsigned i = 0; i < known[k].ring; i++)
			sprintf(text + strlen(text), "link s%u s%u\n", i, (i + 1) % known[k].ring);
		CU_ASSERT_EQUAL_FATAL(read_text(text, &t, why), 0);
		CU_ASSERT_EQUAL(t->cyclic, known[k].cyclic);
		net_topology_destroy(t);
	}
}

/* Texts and files with a few bytes changed: they are taken, or refused in words. */
TEST(damaged_texts_and_files_are_taken_or_refused_in_words)
{
	static const char *const text[] = {
		"torus:4x3x2:2",     "fattree:4,2:3,5:2",
		"dragonfly:2:4:3:5", "hyperx:4x3:3:2",
		"star:12",	     "switch a b c # x\nhost h a\nhost i b\nlink a b 2\nlink b c\nlink a c\n"};
	static const char bytes[] = "0123456789:,x# \nabchostlinkswitch-\t\"/";
	const unsigned times = suite_times(4000);
	struct sp_random r;

	sp_random_seed(&r, 3, 0);
	for (unsigned k = 0; k < times; k++) {
		const bool file = k % 6 == 5;
		struct net_topology *t = NULL;
		char damaged[128], why[256] = "";
		int err;

		strcpy(damaged, text[k % 6]);
		for (unsigned n = 1 + (unsigned)(sp_random_next(&r) % 3); n; n--)
			damaged[sp_random_next(&r) % strlen(text[k % 6])] =
				bytes[sp_random_next(&r) % (sizeof(bytes) - 1)];
		err = file ? read_text(damaged, &t, why) : net_topology_parse(damaged, &t, why, sizeof(why));
		CU_ASSERT(err ? err < 0 && *why && !t : !*why && t);
		net_topology_destroy(t);
	}
}
