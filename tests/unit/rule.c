/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules: filter expressions agree with libpcap, and the flow cache agrees with the rules. */
#include "../../pipeline/rule.c" /* for the translation, which random programs reach better than expressions do */
#include <dirent.h>

#include "../lib/captures.h"

/* Contexts are opaque here: any two addresses will do. */
static char owner_bytes[4];
#define OWNER(i) ((struct sp_context *)&owner_bytes[i])

/* ---- rules ---- */

static struct sp_error error;

static struct sp_rule *rule_new(const char *expression)
{
	struct sp_rule *rule = NULL;
	int r = sp_rule_create(expression, OWNER(0), &rule, &error);
	if (r)
		printf("# %s: %s\n", expression, error.text);
	CU_ASSERT_EQUAL_FATAL(r, 0);
	return rule;
}

static bool matches(const struct sp_rule *rule, uint8_t *bytes, uint32_t len)
{
	struct rte_mbuf m = {.buf_addr = bytes, .buf_len = (uint16_t)len, .data_len = (uint16_t)len, .pkt_len = len};
	m.nb_segs = 1;
	return sp_rule_matches(rule, &m);
}

static const char *const expressions[] = {
	"udp port 53",
	"udp port 4791",
	"ip6",
	"tcp",
	"arp",
	"vlan",
	"vlan 100 and udp",
	"host 192.0.2.1 and udp portrange 1000-2000",
	"host 192.0.2.1 and udp portrange 40000-65000",
	"src host 192.0.2.2 and udp",
	"ip6 host 2001:db8::1 or src net 2001:db8::/127",
	"ether[12:2] = 0x800 and ip[2:2] > 500",
	"udp[8] = 0x0c or udp[8] & 0x1f = 0x11",
	"udp[(ip[0] & 15) * 4 - 12:4] & 0xffff != 0 or not udp",
	"len > 1000",
	"less 100",
	"ip[2:2] / (ip[8] - 64) = 3",
	"ip[2:2] % 7 = 3 and ether[5] ^ ether[11] != 0",
	"ether[(len - 5) * 1:4] != 0",
	"ether[len:1] = 0",
	"ether[0x3ffffff0:4] = 0 or ether[6] & 1 = 0",
	"ether[2000:1] = 0 or ip",
	"ip[8] << 30 >> 29 - 1 > 2",
	"- ip[8] < 0xffffff00",
	"ether multicast",
	"icmp or icmp6",
	"not (udp port 4791)",
};

#define EXPRESSIONS (sizeof(expressions) / sizeof(*expressions))

/* libpcap's own interpreter beside our rule. */
struct oracle {
	struct sp_rule *rule[EXPRESSIONS];
	struct bpf_program program[EXPRESSIONS];
	unsigned packets, hits[EXPRESSIONS], wrong;
};

static void oracle_open(struct oracle *o)
{
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65535);
	memset(o, 0, sizeof(*o));
	for (size_t i = 0; i < EXPRESSIONS; i++) {
		o->rule[i] = rule_new(expressions[i]);
		/* not optimised: another program for the same meaning */
		CU_ASSERT_EQUAL_FATAL(pcap_compile(p, &o->program[i], expressions[i], 0, PCAP_NETMASK_UNKNOWN), 0);
	}
	pcap_close(p);
}

static void oracle_close(struct oracle *o)
{
	for (size_t i = 0; i < EXPRESSIONS; i++) {
		sp_rule_destroy(o->rule[i]);
		pcap_freecode(&o->program[i]);
	}
}

static void oracle_compare(const char *file, unsigned number, uint8_t *bytes, uint32_t len, void *arg)
{
	struct oracle *o = arg;
	struct pcap_pkthdr head = {.caplen = len, .len = len};
	o->packets++;
	for (size_t i = 0; i < EXPRESSIONS; i++) {
		bool expect = pcap_offline_filter(&o->program[i], &head, bytes) != 0;
		o->hits[i] += expect;
		if (matches(o->rule[i], bytes, len) != expect && o->wrong++ < 10)
			printf("# %s packet %u, %u bytes: '%s' should be %d\n", file, number, len, expressions[i],
			       expect);
	}
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
	CU_ASSERT_TRUE(o.packets > 100);
	CU_ASSERT_TRUE(o.hits[1] > 0 && o.hits[1] < o.packets && o.hits[2] > 0); /* RoCE, IPv6: the test can tell */
	oracle_close(&o);
}

/* Frames that begin like real ones and end anywhere: every length check of the translated program is met. */
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

static uint32_t random32(void)
{
	static uint64_t state = 0x9E3779B97F4A7C15ull;
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (uint32_t)(state >> 16);
}

/* Constants where signs, immediates of one byte and 32 bits change over. */
static uint32_t random_constant(void)
{
	static const uint32_t edges[] = {0,	     1,		 2,	     31,	 127,	 128,
					 255,	     256,	 0x7FFF,     0x8000,	 0xFFFF, 0x10000,
					 0x7FFFFFFF, 0x80000000, 0xFFFFFF80, 0xFFFFFF7F, 0xFFFF, 32,
					 0x3FFFFFFF, 0x40000000, 0xFFFFFFFF, 0xFFFFFFFC, 20,	 60};
	return random32() % 4 ? edges[random32() % (sizeof(edges) / sizeof(*edges))] : random32();
}

static struct bpf_insn random_insn(void)
{
	static const uint16_t alu[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR,
				       BPF_AND, BPF_LSH, BPF_RSH, BPF_MOD, BPF_XOR};
	struct bpf_insn i = {.k = random32() % 80};
	unsigned size = (random32() % 3) << 3, by_x = random32() % 2 ? BPF_X : BPF_K;
	switch (random32() % 12) {
	case 0:
	case 1:
		i.code = (uint16_t)(BPF_LD | BPF_ABS | size);
		break;
	case 2:
		i.code = (uint16_t)(BPF_LD | BPF_IND | size);
		break;
	case 3:
		i.code = BPF_LDX | BPF_MSH | BPF_B;
		i.k = random32() % 2 ? i.k : 14;
		break;
	case 4:
		i.code = random32() % 2 ? BPF_LD | BPF_IMM : BPF_LDX | BPF_IMM;
		i.k = random_constant();
		break;
	case 5:
		i.code = random32() % 2 ? BPF_LD | BPF_LEN : BPF_LDX | BPF_LEN;
		break;
	case 6:
		i.code = random32() % 2 ? BPF_ST : BPF_STX;
		i.k %= 3;
		break;
	case 7:
		i.code = random32() % 2 ? BPF_LD | BPF_MEM : BPF_LDX | BPF_MEM;
		i.k %= 3;
		break;
	case 8:
		i.code = random32() % 2 ? BPF_MISC | BPF_TAX : BPF_MISC | BPF_TXA;
		break;
	case 9:
		i.code = BPF_ALU | BPF_NEG;
		break;
	default:
		i.code = (uint16_t)(BPF_ALU | alu[random32() % 10] | by_x);
		i.k = random_constant();
		if ((BPF_OP(i.code) == BPF_DIV || BPF_OP(i.code) == BPF_MOD) && !i.k)
			i.k = 3;
		break;
	}
	return i;
}

/* A program that has every kind of instruction and of jump, with each piece of scratch memory set at its beginning. */
static uint32_t random_program(struct bpf_insn *insn)
{
	static const uint16_t jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
	uint32_t n = 0, body = 1 + random32() % (random32() % 8 ? 8 : 60), shape = random32() % 4;
	insn[n++] = (struct bpf_insn){.code = BPF_LD | BPF_ABS | BPF_W, .k = random32() % 60};
	for (uint32_t k = 0; k < 3; k++)
		insn[n++] = (struct bpf_insn){.code = BPF_ST, .k = k};
	while (body--)
		insn[n++] = random_insn();
	for (uint32_t j = 0; j < 2; j++)
		insn[n + j] = (struct bpf_insn){
			.code = (uint16_t)(BPF_JMP | jumps[random32() % 4] | (random32() % 3 ? BPF_K : BPF_X)),
			.k = random_constant()};
	/* one with its neighbour as a target, in both senses, and one that jumps either way */
	insn[n].jt = shape & 1;
	insn[n++].jf = !(shape & 1);
	insn[n].jt = shape & 2 ? 1 : 2;
	insn[n++].jf = shape & 2 ? 2 : 1;
	insn[n++] = random_insn();
	insn[n++] = (struct bpf_insn){.code = BPF_RET | BPF_A};
	insn[n++] = (struct bpf_insn){.code = BPF_RET | BPF_K, .k = random32() % 2 ? 9 : 0x80000001};
	return n;
}

TEST(machine_code_returns_what_libpcap_returns_for_random_programs)
{
	unsigned compiled = 0, wrong = 0, nonzero = 0;
	for (unsigned n = 0; n < 20000; n++) {
		struct bpf_insn insn[80];
		struct sp_rule rule = {.program = {.bf_insns = insn}};
		rule.program.bf_len = random_program(insn);
		compile(&rule);
		compiled += rule.run != NULL;
		for (unsigned packet = 0; rule.run && packet < 6; packet++) {
			uint32_t len = packet < 2 ? 80 : random32() % 81;
			uint8_t *bytes = malloc(len ? len : 1);
			for (uint32_t i = 0; i < len; i++)
				bytes[i] = random32() % 3 ? (uint8_t)random32() : 0;
			struct rte_mbuf m = {
				.buf_addr = bytes, .data_len = (uint16_t)len, .pkt_len = len, .nb_segs = 1};
			uint32_t expect = bpf_filter(insn, bytes, len, len);
			nonzero += expect != 0;
			if (rule.run(&m) != expect && wrong++ < 3) {
				printf("# %u bytes: %x, should be %x\n", len, (unsigned)rule.run(&m), expect);
				for (uint32_t i = 0; i < rule.program.bf_len; i++)
					printf("# %s\n", bpf_image(&insn[i], (int)i));
			}
			free(bytes);
		}
		rte_bpf_destroy(rule.bpf);
	}
	printf("# %u of 20000 programs compiled, %u results are not 0\n", compiled, nonzero);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_TRUE(compiled > 6000 && nonzero > 8000);
}

TEST(ordinary_rules_run_as_machine_code)
{
	struct sp_rule *rule = rule_new("host 192.0.2.1 and udp portrange 1000-2000");
#ifdef __x86_64__
	CU_ASSERT_TRUE(sp_rule_compiled(rule));
#endif
	CU_ASSERT_PTR_EQUAL(sp_rule_context(rule), OWNER(0));
	sp_rule_destroy(rule);
	sp_rule_destroy(NULL);
}

/* udp[4:2] - 12 wraps below zero for short datagrams: DPDK's check of the offset wraps too. */
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

/* DPDK's verifier takes more than a minute for this one. */
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
		int r = sp_rule_create(bad[i], OWNER(0), &rule, &error);
		if (!r)
			printf("# '%s' is taken\n", bad[i]);
		CU_ASSERT_EQUAL(r, -EINVAL);
		CU_ASSERT_STRING_EQUAL(error.key, "filter");
		CU_ASSERT_TRUE(error.text[0] != 0);
		CU_ASSERT_EQUAL(sp_rule_create(bad[i], OWNER(0), &rule, NULL), -EINVAL);
	}
	CU_ASSERT_EQUAL(sp_rule_create("(udp", OWNER(0), &rule, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "syntax error"));
	memset(text, ' ', sizeof(text));
	memcpy(text, "udp", 3);
	text[SP_RULE_EXPRESSION_MAX + 1] = 0;
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER(0), &rule, &error), -EINVAL);
	CU_ASSERT_PTR_NULL(rule);
	text[SP_RULE_EXPRESSION_MAX] = 0;
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER(0), &rule, &error), 0);
	sp_rule_destroy(rule);
	/* deep nesting: refused or not, it ends */
	memset(text, '(', SP_RULE_EXPRESSION_MAX);
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER(0), &rule, &error), -EINVAL);
	memset(text, '-', SP_RULE_EXPRESSION_MAX);
	CU_ASSERT_EQUAL(sp_rule_create(text, OWNER(0), &rule, &error), -EINVAL);
}

/* ---- what is kept of rules' answers ---- */

/* However the other bytes and the length change, the program says the same. */
TEST(programs_read_only_the_bytes_that_they_declare)
{
	unsigned known = 0, wrong = 0, differ = 0;

	for (unsigned n = 0; n < 20000; n++) {
		struct bpf_insn insn[80];
		struct bpf_program program = {.bf_insns = insn, .bf_len = random_program(insn)};
		struct sp_front_reads reads;
		unsigned half = random32() % 16;

		sp_front_reads(&program, &reads);
		for (unsigned pair = 0; pair < 4 && reads.known >> half & 1; pair++) {
			const uint64_t bytes = reads.bytes[half];
			const uint32_t reach = bytes ? 64 - (unsigned)__builtin_clzll(bytes) : 0;
			const uint32_t least = reach > 15 ? reach : 15;
			uint8_t one[128], other[128];

			for (unsigned i = 0; i < sizeof(one); i++) {
				one[i] = random32() % 3 ? (uint8_t)random32() : 0;
				other[i] = i < 64 && bytes >> i & 1 ? one[i] : (uint8_t)random32();
			}
			one[14] = (uint8_t)((one[14] & 0xF0) | half);
			other[14] = (uint8_t)(((bytes >> 14 & 1 ? one[14] : random32()) & 0xF0) | half);
			const uint32_t len = least + random32() % (129 - least),
				       more = least + random32() % (129 - least);
			const uint32_t is = bpf_filter(insn, one, len, len);

			known++;
			differ += is != bpf_filter(insn, (uint8_t[128]){0}, len, len);
			wrong += is != bpf_filter(insn, other, more, more);
		}
	}
	printf("# %u pairs of frames for programs whose bytes are known, %u of them are not like an empty one\n", known,
	       differ);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_TRUE(known > 4000 && differ > 500);
}

TEST(ordinary_expressions_read_known_bytes)
{
	static const struct {
		const char *expression;
		bool known;
	} rules[] = {{"udp port 53", true},	     {"host 192.0.2.1 and tcp", true},
		     {"ip6 host 2001:db8::1", true}, {"arp", true},
		     {"udp[8] = 3", true},	     {"vlan and udp port 53", false},
		     {"len > 100", false},	     {"udp[30:2] = 3", false},
		     {"ip6 protochain 17", false},   {"ether[70] = 1", false}};

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		struct sp_rule *rule = rule_new(rules[i].expression);

		CU_ASSERT_EQUAL(sp_rule_reads(rule)->known >> 5 & 1, rules[i].known);
		sp_rule_destroy(rule);
	}

	struct sp_rule *rule = rule_new("udp port 53");
	/* type, length of the header, fragment, protocol, ports; IPv6: next header, ports */
	const uint64_t four = 3ull << 12 | 1ull << 14 | 3ull << 20 | 1ull << 23 | 15ull << 34,
		       six = 1ull << 20 | 15ull << 54;

	CU_ASSERT_EQUAL(sp_rule_reads(rule)->bytes[5], four | six);
	CU_ASSERT_EQUAL(sp_rule_reads(rule)->bytes[6], ((four & ~(15ull << 34)) | six | 15ull << 38));
	sp_rule_destroy(rule);
}

/* Two ways lead to one instruction, which reads somewhere else on each. */
TEST(where_two_ways_differ_nothing_is_known)
{
	struct bpf_insn insn[] = {
		{.code = BPF_LD | BPF_ABS | BPF_B, .k = 12},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .k = 0, .jt = 1},
		{.code = BPF_LDX | BPF_IMM, .k = 4},
		{.code = BPF_LD | BPF_IND | BPF_B, .k = 20},
		{.code = BPF_RET | BPF_A},
	};
	const struct bpf_program program = {.bf_insns = insn, .bf_len = sizeof(insn) / sizeof(*insn)};
	struct sp_front_reads reads;

	sp_front_reads(&program, &reads);
	CU_ASSERT_EQUAL(reads.known, 0);
	insn[2].k = 0;
	sp_front_reads(&program, &reads);
	CU_ASSERT_EQUAL(reads.known, 0xFFFF);
	CU_ASSERT_EQUAL(reads.bytes[5], 1ull << 12 | 1ull << 20);
}

static const char *const more_expressions[] = {
	"udp src port 1000", "udp dst port 1001", "tcp[13] & 2 != 0",	  "ip[0] & 15 > 5",
	"udp port 1000",     "ip6 and udp",	  "ip[6:2] & 0x1fff = 0", "ip proto 17 and src net 192.0.2.0/24",
	"tcp port 1001",     "ether[14] = 0x45",  "udp[8] = 1",		  "vlan and udp port 1000",
};

#define MORE (sizeof(more_expressions) / sizeof(*more_expressions))

/* A frame that some of these rules take: tags, IPv6, options and fragments among them. */
static uint32_t random_frame(uint8_t *f)
{
	static const uint16_t ports[] = {53, 1000, 1001, 4791};
	const unsigned kind = random32() % 8;
	uint32_t at = 14, header = 20;

	for (unsigned i = 0; i < 128; i++)
		f[i] = random32() % 4 ? 0 : (uint8_t)random32();
	memcpy(f + 12, (uint8_t[]){0x08, 0x00}, 2);
	if (kind == 0) {
		memcpy(f + 12, (uint8_t[]){0x81, 0x00, 0, 100, 0x08, 0x00}, 6);
		at = 18;
	}
	if (kind == 1) {
		memcpy(f + 12, (uint8_t[]){0x86, 0xDD, 0x60, 0, 0, 0, 0, 20, random32() % 2 ? 17 : 6, 64}, 10);
		header = 40;
	} else if (kind == 2) {
		memcpy(f + 12, (uint8_t[]){0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1}, 10);
	} else {
		header = random32() % 4 ? 20 : 4 * (random32() % 16);
		f[at] = (uint8_t)(0x40 | header / 4);
		f[at + 6] = random32() % 4 ? 0x40 : 0;
		f[at + 7] = random32() % 4 ? 0 : 1;
		f[at + 9] = random32() % 3 ? 17 : 6;
		memcpy(f + at + 12, (uint8_t[]){192, 0, 2, (uint8_t)(1 + random32() % 2), 192, 0, 2, 1}, 8);
	}
	for (unsigned i = 0; i < 2; i++) {
		const uint16_t port = ports[random32() % 4];

		f[at + header + 2 * i] = (uint8_t)(port >> 8);
		f[at + header + 2 * i + 1] = (uint8_t)port;
	}
	return random32() % 4 ? 64 + random32() % 65 : random32() % 129;
}

/* Lists come and go under one front, which sees frames again and again that are alike in part. */
TEST(front_says_what_the_rules_say_one_by_one)
{
	struct sp_rule *rule[EXPRESSIONS + MORE], *_Atomic list[SP_MAX_RULES];
	struct sp_front *front = aligned_alloc(64, sizeof(*front));
	unsigned wrong = 0, taken = 0, looked_up = 0, all = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(front);
	memset(front, 0, sizeof(*front));
	for (size_t i = 0; i < EXPRESSIONS + MORE; i++)
		rule[i] = rule_new(i < EXPRESSIONS ? expressions[i] : more_expressions[i - EXPRESSIONS]);
	for (unsigned turn = 0; turn < 200; turn++) {
		const unsigned rules = random32() % 10, first = random32() % 2 ? EXPRESSIONS : 0;
		uint8_t base[16][128];
		uint32_t base_len[16];

		for (unsigned i = 0; i < SP_MAX_RULES; i++)
			list[i] = i < rules ? rule[first + random32() % (EXPRESSIONS + MORE - first)] : NULL;
		for (unsigned i = 0; i < 16; i++)
			base_len[i] = random_frame(base[i]);
		for (unsigned n = 0; n < 300; n++) {
			const unsigned which = random32() % 16;
			const uint32_t len = random32() % 4 ? base_len[which] : random32() % 129;
			const uint32_t room = random32() % 4 ? 128 : len;
			const struct sp_rule *expect = NULL;
			uint8_t *bytes = malloc(room ? room : 1);
			struct rte_mbuf m = {.buf_addr = bytes,
					     .buf_len = (uint16_t)room,
					     .data_len = (uint16_t)len,
					     .pkt_len = len,
					     .nb_segs = 1};

			memcpy(bytes, base[which], room);
			for (unsigned i = random32() % 4; i && room; i--)
				bytes[random32() % room] = (uint8_t)random32();
			for (unsigned i = 0; i < rules && !expect; i++)
				expect = sp_rule_matches(list[i], &m) ? list[i] : NULL;
			wrong += sp_front_match(front, list, turn, &m) != expect;
			taken += expect != NULL;
			looked_up += len > 14 && front->sight[bytes[14] & 15].rules >= 2;
			all++;
			free(bytes);
		}
	}
	printf("# %u frames, %u taken by a rule, %u looked up\n", all, taken, looked_up);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_TRUE(taken > all / 4 && looked_up > all / 4);
	for (size_t i = 0; i < EXPRESSIONS + MORE; i++)
		sp_rule_destroy(rule[i]);
	free(front);
}
