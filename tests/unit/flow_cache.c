/* SPDX-License-Identifier: BSD-3-Clause */
/* The flow cache: which bytes programs read, and lists of rules and of random programs on random frames. */
#include "rules.h"

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

/* One instruction for frames of one Ethernet type alone, or of all others. A branch may also look like that, and go by
 * something else than the type. */
static uint32_t random_branch(struct bpf_insn *insn)
{
	static const uint32_t types[] = {0x0800, 0x86DD, 0x8100};
	const uint32_t type = types[random32() % 3], other = types[random32() % 3];
	const struct bpf_insn load = {.code = BPF_LD | BPF_ABS | BPF_H, .k = 12};
	const uint8_t equal = random32() % 2;
	uint32_t n = 0;

	switch (random32() % 6) {
	case 0:
		insn[n++] = load;
		insn[n++] = (struct bpf_insn){.code = BPF_ALU | BPF_XOR | BPF_K, .k = type ^ other};
		break;
	case 1:
		insn[n++] = load;
		insn[n++] = (struct bpf_insn){.code = BPF_LDX | BPF_IMM, .k = other};
		insn[n++] = (struct bpf_insn){.code = BPF_MISC | BPF_TXA};
		break;
	case 2: /* the type on one way, a constant on the other */
		insn[n++] = (struct bpf_insn){.code = BPF_LD | BPF_ABS | BPF_B, .k = 20};
		insn[n++] = (struct bpf_insn){.code = BPF_JMP | BPF_JSET | BPF_K, .k = 1, .jf = 2};
		insn[n++] = load;
		insn[n++] = (struct bpf_insn){.code = BPF_JMP | BPF_JA, .k = 1};
		insn[n++] = (struct bpf_insn){.code = BPF_LD | BPF_IMM, .k = other};
		break;
	default:
		insn[n++] = load;
	}
	insn[n++] = (struct bpf_insn){.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = equal, .jf = !equal, .k = type};
	insn[n++] = random_insn();
	return n;
}

#define PROGRAM_INSNS 90

/* A program that has every kind of instruction and of jump, with each piece of scratch memory set at its beginning, and
 * often branches by the Ethernet type. */
static uint32_t random_program(struct bpf_insn *insn)
{
	static const uint16_t jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
	uint32_t n = 0, body = 1 + random32() % (random32() % 8 ? 8 : 60), shape = random32() % 4;
	insn[n++] = (struct bpf_insn){.code = BPF_LD | BPF_ABS | BPF_W, .k = random32() % 60};
	for (uint32_t k = 0; k < 3; k++)
		insn[n++] = (struct bpf_insn){.code = BPF_ST, .k = k};
	for (uint32_t branches = random32() % 3; branches; branches--)
		n += random_branch(insn + n);
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

/* ---- which bytes a program reads ---- */

static void set_kind(uint8_t *frame, unsigned kind)
{
	const uint16_t type = kind < SP_FRAME_IP6 ? 0x0800 : kind == SP_FRAME_IP6 ? 0x86DD : 0x8100 + random32() % 8;

	sp_store_be16(frame + 12, type);
	if (kind < SP_FRAME_IP6)
		frame[14] = (uint8_t)((frame[14] & 0xF0) | kind);
	CU_ASSERT_EQUAL_FATAL(sp_frame_kind(frame), kind);
}

/* However the other bytes and the length change, the program answers the same. */
TEST(programs_read_only_the_bytes_that_they_declare)
{
	unsigned known = 0, wrong = 0, differ = 0;

	for (unsigned n = 0; n < 20000; n++) {
		const unsigned kind = random32() % SP_FRAME_KINDS;
		struct bpf_insn insn[PROGRAM_INSNS];
		struct bpf_program program = {.bf_insns = insn, .bf_len = random_program(insn)};
		struct sp_rule_reads reads;

		sp_rule_reads_find(&program, &reads);
		for (unsigned pair = 0; pair < 4 && reads.known >> kind & 1; pair++) {
			const uint64_t bytes = reads.bytes[kind];
			const uint32_t reach = bytes ? 64 - (unsigned)__builtin_clzll(bytes) : 0;
			const uint32_t least = reach > 15 ? reach : 15;
			uint8_t one[128], other[128];

			for (unsigned i = 0; i < sizeof(one); i++) {
				one[i] = random32() % 3 ? (uint8_t)random32() : 0;
				other[i] = (uint8_t)random32();
			}
			set_kind(one, kind);
			set_kind(other, kind);
			for (unsigned i = 0; i < 64; i++)
				other[i] = bytes >> i & 1 ? one[i] : other[i];
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
		bool ip4, ip6, other;
	} rules[] = {{"udp port 53", true, true, true},		 {"host 192.0.2.1 and tcp", true, true, true},
		     {"ip6 host 2001:db8::1", true, true, true}, {"arp", true, true, true},
		     {"udp[8] = 3", true, true, true},		 {"vlan and udp port 53", true, true, false},
		     {"len > 100", false, false, false},	 {"udp[30:2] = 3", false, true, true},
		     {"ip6 protochain 17", true, false, true},	 {"ether[70] = 1", false, false, false}};

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		struct sp_rule *rule = rule_new(rules[i].expression);
		const uint32_t known = sp_rule_reads(rule)->known;

		CU_ASSERT_EQUAL(known >> 5 & 1, rules[i].ip4);
		CU_ASSERT_EQUAL(known >> SP_FRAME_IP6 & 1, rules[i].ip6);
		CU_ASSERT_EQUAL(known >> SP_FRAME_OTHER & 1, rules[i].other);
		sp_rule_destroy(rule);
	}

	struct sp_rule *rule = rule_new("udp port 53");
	const struct sp_rule_reads *reads = sp_rule_reads(rule);
	/* type, length of the header, fragment, protocol, ports; IPv6: next header, ports */
	const uint64_t type = 3ull << 12, four = type | 1ull << 14 | 3ull << 20 | 1ull << 23;

	CU_ASSERT_EQUAL(reads->bytes[5], four | 15ull << 34);
	CU_ASSERT_EQUAL(reads->bytes[6], four | 15ull << 38);
	CU_ASSERT_EQUAL(reads->bytes[SP_FRAME_IP6], type | 1ull << 20 | 15ull << 54);
	CU_ASSERT_EQUAL(reads->bytes[SP_FRAME_OTHER], type);
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
	struct sp_rule_reads reads;

	sp_rule_reads_find(&program, &reads);
	CU_ASSERT_EQUAL(reads.known, 0);
	insn[2].k = 0;
	sp_rule_reads_find(&program, &reads);
	CU_ASSERT_EQUAL(reads.known, (1u << SP_FRAME_KINDS) - 1);
	CU_ASSERT_EQUAL(reads.bytes[5], 1ull << 12 | 1ull << 20);
}

/* ---- the flow cache ---- */

#define PROGRAMS 3

/* Frames of all kinds, with few bytes of another value between one and the next. */
static uint32_t random_bytes(uint8_t *bytes, unsigned change)
{
	static const uint8_t type[4][2] = {{0x08, 0x00}, {0x86, 0xDD}, {0x81, 0x00}, {0x08, 0x06}};

	for (unsigned i = 0; i < 128; i++)
		if (random32() % 128 < change)
			bytes[i] = random32() % 3 ? (uint8_t)random32() : 0;
	memcpy(bytes + 12, type[random32() % 8 < 5 ? 0 : random32() % 4], 2);
	return random32() % 3 ? 128 : random32() % 129;
}

TEST(random_programs_in_the_cache_answer_what_libpcap_answers)
{
	unsigned wrong = 0, taken = 0, cached = 0, all = 0;
	struct sp_flow_cache *cache = cache_new();

	for (unsigned n = 0; n < suite_times(20000); n++) {
		const unsigned rules = 1 + random32() % PROGRAMS;
		struct sp_rule rule[PROGRAMS], *_Atomic list[SP_MAX_RULES] = {NULL};
		struct bpf_insn insn[PROGRAMS][PROGRAM_INSNS];
		uint8_t bytes[128];

		for (unsigned i = 0; i < rules; i++) {
			rule[i] = (struct sp_rule){.program = {.bf_insns = insn[i]}};
			rule[i].program.bf_len = random_program(insn[i]);
			sp_rule_reads_find(&rule[i].program, &rule[i].reads);
			list[i] = &rule[i];
		}
		for (unsigned packet = 0; packet < 8; packet++) {
			const uint32_t len = random_bytes(bytes, packet ? 4 : 128);
			struct rte_mbuf m = packet_of(bytes, sizeof(bytes), len);
			const struct sp_rule *expect = NULL;

			for (unsigned i = 0; i < rules && !expect; i++)
				expect = bpf_filter(insn[i], bytes, len, len) ? &rule[i] : NULL;
			wrong += sp_flow_cache_match(cache, list, n, &m) != expect;
			taken += expect != NULL;
			cached += is_cached(cache, bytes, sizeof(bytes), len);
			all++;
		}
	}
	printf("# %u frames, %u taken by a rule, %u cached\n", all, taken, cached);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_TRUE(taken > all / 4 && taken < all - all / 8 && cached > all / 8);
	free(cache);
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

/* Lists come and go under one cache, which sees frames again and again that are alike in part. */
TEST(lists_in_the_cache_answer_what_libpcap_answers)
{
	struct sp_rule *rule[EXPRESSIONS + MORE], *_Atomic list[SP_MAX_RULES];
	unsigned wrong = 0, taken = 0, cached = 0, all = 0;
	struct sp_flow_cache *cache = cache_new();

	for (size_t i = 0; i < EXPRESSIONS + MORE; i++)
		rule[i] = rule_new(i < EXPRESSIONS ? expressions[i] : more_expressions[i - EXPRESSIONS]);
	for (unsigned version = 0; version < 200; version++) {
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
			struct rte_mbuf m = packet_of(bytes, room, len);

			memcpy(bytes, base[which], room);
			for (unsigned i = random32() % 4; i && room; i--)
				bytes[random32() % room] = (uint8_t)random32();
			for (unsigned i = 0; i < rules && !expect; i++)
				expect = bpf_filter(list[i]->program.bf_insns, bytes, len, len) ? list[i] : NULL;
			wrong += sp_flow_cache_match(cache, list, version, &m) != expect;
			taken += expect != NULL;
			cached += is_cached(cache, bytes, room, len) && cache->mask[sp_frame_kind(bytes)].rules >= 2;
			all++;
			free(bytes);
		}
	}
	printf("# %u frames, %u taken by a rule, %u cached\n", all, taken, cached);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_TRUE(taken > all / 4 && cached > all / 4);
	for (size_t i = 0; i < EXPRESSIONS + MORE; i++)
		sp_rule_destroy(rule[i]);
	free(cache);
}

TEST(frames_that_differ_where_no_rule_reads_share_an_entry)
{
	struct sp_rule *rule = rule_new("udp port 53"), *_Atomic list[SP_MAX_RULES] = {rule};
	struct sp_flow_cache *cache = cache_new();
	unsigned wrong = 0, entries = 0;

	for (unsigned n = 0; n < 1000; n++) {
		static const uint8_t head[] = {0x08, 0, 0x45, 0, 0, 60, 0, 1, 0, 0, 64, 17, 0, 0};
		uint8_t frame[128];
		struct rte_mbuf m = packet_of(frame, sizeof(frame), sizeof(frame));

		for (unsigned i = 0; i < sizeof(frame); i++)
			frame[i] = (uint8_t)random32();
		memcpy(frame + 12, head, sizeof(head));
		memcpy(frame + 34, (uint8_t[]){0, 1, 0, 53}, 4);
		wrong += sp_flow_cache_match(cache, list, 0, &m) != rule;
	}
	for (unsigned i = 0; i < SP_FLOW_CACHE_ENTRIES; i++)
		entries += cache->entry[i].version != 0;
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(entries, 1);
	sp_rule_destroy(rule);
	free(cache);
}

/* Only the first rule is cached for the one frame, both are for the other; all other bytes that the rules read are 0.
 */
TEST(frames_of_different_kinds_share_no_entry)
{
	struct bpf_insn never[] = {{.code = BPF_RET | BPF_K}};
	struct bpf_insn behind_header[] = {{.code = BPF_LDX | BPF_MSH | BPF_B, .k = 14},
					   {.code = BPF_LD | BPF_IND | BPF_B, .k = 14},
					   {.code = BPF_RET | BPF_K, .k = 1}};
	struct sp_rule rule[] = {{.program = {.bf_insns = never, .bf_len = 1}},
				 {.program = {.bf_insns = behind_header, .bf_len = 3}}};
	struct sp_rule *_Atomic list[SP_MAX_RULES] = {&rule[0], &rule[1]};
	struct sp_flow_cache *cache = cache_new();
	uint8_t frame[128] = {[12] = 0x08, [14] = 15};
	struct rte_mbuf m = packet_of(frame, sizeof(frame), sizeof(frame));

	for (unsigned i = 0; i < 2; i++)
		sp_rule_reads_find(&rule[i].program, &rule[i].reads);
	CU_ASSERT_PTR_EQUAL(sp_flow_cache_match(cache, list, 0, &m), &rule[1]);
	frame[14] = 0;
	CU_ASSERT_PTR_EQUAL(sp_flow_cache_match(cache, list, 0, &m), &rule[1]);
	CU_ASSERT_EQUAL(cache->mask[15].rules, 1);
	CU_ASSERT_EQUAL(cache->mask[0].rules, 2);
	free(cache);
}
