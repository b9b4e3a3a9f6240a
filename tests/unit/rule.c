/* SPDX-License-Identifier: BSD-3-Clause */
/* Filter rules, alone and in the flow cache, on captured and random frames; and expressions that are refused. */
#include "../lib/captures.h"
#include "rules.h"

#include <dirent.h>
#include <time.h>

static bool matches(const struct sp_rule *rule, uint8_t *bytes, uint32_t len)
{
	struct rte_mbuf m = packet_of(bytes, len, len);

	return sp_rule_matches(rule, &m);
}

/* Beside each rule the same expression as libpcap compiles it without its optimiser: another program of the same
 * meaning. Each rule is in a list of its own, and all of them are in one more. */
struct oracle {
	struct sp_rule *rule[EXPRESSIONS], *_Atomic list[EXPRESSIONS + 1][SP_MAX_RULES];
	struct sp_flow_cache *cache[EXPRESSIONS + 1];
	struct bpf_program program[EXPRESSIONS];
	unsigned packets, hits[EXPRESSIONS], cached, wrong;
};

static void oracle_open(struct oracle *o)
{
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65535);

	memset(o, 0, sizeof(*o));
	for (size_t i = 0; i < EXPRESSIONS; i++) {
		struct sp_rule *rule =
			rule_new(expressions[i]); /* by itself: clang takes no chain over atomic pointers */

		o->rule[i] = rule;
		o->list[i][0] = rule;
		o->list[EXPRESSIONS][i] = rule;
		CU_ASSERT_EQUAL_FATAL(pcap_compile(p, &o->program[i], expressions[i], 0, PCAP_NETMASK_UNKNOWN), 0);
	}
	for (size_t i = 0; i <= EXPRESSIONS; i++)
		o->cache[i] = cache_new();
	pcap_close(p);
}

static void oracle_close(struct oracle *o)
{
	for (size_t i = 0; i <= EXPRESSIONS; i++)
		free(o->cache[i]);
	for (size_t i = 0; i < EXPRESSIONS; i++) {
		sp_rule_destroy(o->rule[i]);
		pcap_freecode(&o->program[i]);
	}
}

/* Whether the list's answer is `expect`, when the cache may not know the frame yet and when it does. */
static bool answers(struct oracle *o, size_t list, struct rte_mbuf *m, const struct sp_rule *expect)
{
	const struct sp_rule *first = sp_flow_cache_match(o->cache[list], o->list[list], 0, m);

	o->cached += is_cached(o->cache[list], m->buf_addr, m->buf_len, m->data_len);
	return first == expect && sp_flow_cache_match(o->cache[list], o->list[list], 0, m) == expect;
}

static void oracle_compare(const char *file, unsigned number, uint8_t *bytes, uint32_t len, void *arg)
{
	struct rte_mbuf m = packet_of(bytes, len, len);
	const struct sp_rule *first = NULL;
	struct oracle *o = arg;

	o->packets++;
	for (size_t i = 0; i < EXPRESSIONS; i++) {
		const bool expect = bpf_filter(o->program[i].bf_insns, bytes, len, len) != 0;
		struct sp_rule *taker = expect ? o->rule[i] : NULL;

		o->hits[i] += expect;
		first = first ? first : taker;
		if ((matches(o->rule[i], bytes, len) != expect || !answers(o, i, &m, taker)) && o->wrong++ < 10)
			printf("# %s packet %u, %u bytes: '%s' should be %d\n", file, number, len, expressions[i],
			       expect);
	}
	if (!answers(o, EXPRESSIONS, &m, first) && o->wrong++ < 10)
		printf("# %s packet %u, %u bytes: a wrong rule of all\n", file, number, len);
}

TEST_OF_CAPTURES(rules_agree_with_libpcap_on_every_captured_packet)
{
	static struct oracle o;
	oracle_open(&o);
	DIR *d = opendir(captures_directory());
	CU_ASSERT_PTR_NOT_NULL_FATAL(d);
	for (struct dirent *e; (e = readdir(d));)
		if (strstr(e->d_name, ".pcap"))
			CU_ASSERT_TRUE(captures_each(e->d_name, oracle_compare, &o));
	closedir(d);
	CU_ASSERT_EQUAL(o.wrong, 0);
	CU_ASSERT_TRUE(o.packets > 100 && o.cached > o.packets);
	CU_ASSERT_TRUE(o.hits[1] > 0 && o.hits[1] < o.packets && o.hits[2] > 0); /* RoCE, IPv6: the test can tell */
	oracle_close(&o);
}

/* Frames that begin like real ones and end anywhere. */
TEST(rules_agree_with_libpcap_on_cut_and_random_frames)
{
	static const uint8_t heads[][26] = {
		{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0, 0, 60, 0, 1, 0, 0, 64, 17, 0, 0},
		{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x4F, 0, 0, 60, 0, 1, 0x20, 1, 0, 6, 0, 0},
		{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xDD, 0x60, 0, 0, 0, 0, 20, 17, 64, 0x20, 1, 0xD, 0xB8},
		{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0x00, 0, 100, 0x08, 0x00, 0x45, 0, 0, 50, 0, 0, 0, 0},
		{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 2, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1},
	};
	static struct oracle o;
	uint64_t random = 88172645463325252ull;
	oracle_open(&o);
	for (unsigned n = 0; n < 20000; n++) {
		uint8_t frame[128];
		for (size_t i = 0; i < sizeof(frame); i += 8) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			memcpy(frame + i, &random, 8);
		}
		if (n % 6 < 5)
			memcpy(frame, heads[n % 6], sizeof(heads[0]));
		uint32_t len = (uint32_t)(random >> 40) % (sizeof(frame) + 1);
		uint8_t *exact = malloc(len ? len : 1);
		memcpy(exact, frame, len);
		oracle_compare("random", n, exact, len, &o);
		free(exact);
	}
	CU_ASSERT_EQUAL(o.wrong, 0);
	for (size_t i = 0; i < EXPRESSIONS; i++)
		if (strstr(expressions[i], "tcp") || strstr(expressions[i], "vlan"))
			CU_ASSERT_TRUE(o.hits[i] > 0);
	oracle_close(&o);
}

TEST(rule_has_the_context_that_it_is_given)
{
	struct sp_rule *rule = rule_new("host 192.0.2.1 and udp portrange 1000-2000");

	CU_ASSERT_PTR_EQUAL(sp_rule_context(rule), OWNER);
	sp_rule_give(rule, NULL);
	CU_ASSERT_PTR_NULL(sp_rule_context(rule));
	sp_rule_destroy(rule);
	sp_rule_destroy(NULL);
}

/* udp[4:2] - 12 wraps below zero for short datagrams. */
TEST(offsets_that_wrap_do_not_match_and_do_not_crash)
{
	static const char *const wrapping[] = {"udp[udp[4:2] - 12:4] = 0x01020304", "ether[len - 5:4] = 0x01020304",
					       "ether[len - 0x10000:4] = 0", "ether[len - 0xc0000000:1] >= 0"};
	uint8_t frame[60] = {[12] = 0x08, [14] = 0x45, [17] = 46, [23] = 17, [39] = 8, [54] = 1, 2, 3, 4};
	for (size_t i = 0; i < sizeof(wrapping) / sizeof(*wrapping); i++) {
		struct sp_rule *rule = rule_new(wrapping[i]);
		for (uint32_t len = 0; len < 60; len++) {
			frame[39] = (uint8_t)(len % 12);
			bool hit = matches(rule, frame, len);
			CU_ASSERT_EQUAL(hit, i == 1 && len == 59);
		}
		sp_rule_destroy(rule);
	}
	struct sp_rule *rule = rule_new(wrapping[0]);
	frame[39] = 24; /* 24 - 12 bytes from the UDP header at 34 on: 46 */
	memcpy(frame + 46, (uint8_t[]){1, 2, 3, 4}, 4);
	CU_ASSERT_TRUE(matches(rule, frame, 60));
	sp_rule_destroy(rule);
}

/* Twice as many paths with each of its 39 terms. */
TEST(large_rule_is_made_quickly_and_works)
{
	char text[4096] = "";
	uint8_t frame[60] = {[12] = 0x08, [14] = 0x45, [17] = 46, [23] = 17, [26] = 10, [30] = 10};
	struct timespec begin, end;
	for (int i = 1; i < 40; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s(host 10.0.%d.1 and port %d)",
			 i > 1 ? " or " : "", i, 1000 + i);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	struct sp_rule *rule = rule_new(text);
	clock_gettime(CLOCK_MONOTONIC, &end);
	CU_ASSERT_TRUE(end.tv_sec - begin.tv_sec <= 5);
	frame[28] = 17; /* source 10.0.17.1 */
	frame[29] = 1;
	frame[36] = 1017 >> 8; /* destination port */
	frame[37] = 1017 & 255;
	CU_ASSERT_TRUE(matches(rule, frame, sizeof(frame)));
	frame[37]++;
	CU_ASSERT_FALSE(matches(rule, frame, sizeof(frame)));
	CU_ASSERT_FALSE(matches(rule, frame, 37));
	sp_rule_destroy(rule);
}

TEST(bad_expressions_are_refused_with_libpcaps_words)
{
	static const char *const bad[] = {
		"udp prot 53",
		"host 300.1.2.3.4",
		"port 99999",
		"(udp",
		"udp port",
		"ether[0:3] = 1",
		"and",
		"ip[0",
		"vlan 5000",
		"inbound",
		"\"",
		"\x01",
		"",
		"  \t\n",
		"net 10.0.0.0/33",
		"outbound and udp",
		"ifindex 1",
		"ether[0xffffffff:1] = 0",
		"ether[0x80000000:4] = 0",
	};
	char text[SP_RULE_EXPRESSION_MAX + 2];
	struct sp_rule *rule = NULL;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		memset(&error, 0, sizeof(error));
		int r = sp_rule_create(bad[i], OWNER, &rule, &error);
		if (!r)
			printf("# '%s' is taken\n", bad[i]);
		CU_ASSERT_EQUAL(r, -EINVAL);
		CU_ASSERT_STRING_EQUAL(error.key, "filter");
		CU_ASSERT_TRUE(error.text[0] != 0);
		CU_ASSERT_EQUAL(sp_rule_create(bad[i], OWNER, &rule, NULL), -EINVAL);
	}
	CU_ASSERT_EQUAL(sp_rule_create("(udp", OWNER, &rule, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "syntax error"));
	memset(text, ' ', sizeof(text));
	memcpy(text, "udp", 3);
	text[SP_RULE_EXPRESSION_MAX + 1] = 0;
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER, &rule, &error), -EINVAL);
	CU_ASSERT_PTR_NULL(rule);
	text[SP_RULE_EXPRESSION_MAX] = 0;
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER, &rule, &error), 0);
	sp_rule_destroy(rule);
	/* deep nesting: refused or not, it ends */
	memset(text, '(', SP_RULE_EXPRESSION_MAX);
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER, &rule, &error), -EINVAL);
	memset(text, '-', SP_RULE_EXPRESSION_MAX);
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER, &rule, &error), -EINVAL);
}
