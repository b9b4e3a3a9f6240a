/* SPDX-License-Identifier: BSD-3-Clause */
#include "front.h"

#include <pcap/pcap.h>
#include <string.h>

#include <rte_mbuf.h>

#include "match.h"
#include "parser_plain.h"

#define IP4_BEGIN   14u /* without a tag: its lower half is the header's length */
#define WORDS	    (SP_FRONT_BYTES / 8)
#define PROGRAM_MAX 4096u /* instructions */

/* ---- what a program reads ---- */

/* X before an instruction, by all ways to it: never reached, always this value, or something. */
enum { X_NEVER, X_IS, X_ANY };
struct x {
	uint8_t kind;
	uint32_t value;
};

static void meet(struct x *at, struct x x)
{
	if (at->kind == X_NEVER)
		*at = x;
	else if (at->kind != x.kind || at->value != x.value)
		at->kind = X_ANY;
}

/* Bytes [at, at + size): false when they are not among the first ones. */
static bool reads(uint64_t *bytes, uint32_t at, uint32_t size)
{
	if (at > SP_FRONT_BYTES - size)
		return false;
	*bytes |= ((1ull << size) - 1) << at;
	return true;
}

/* false: it may read something that is not in *bytes. */
static bool read_by(const struct bpf_insn *i, struct x *x, uint32_t header, uint64_t *bytes)
{
	const unsigned class = BPF_CLASS(i->code), mode = BPF_MODE(i->code);
	const uint32_t size = BPF_SIZE(i->code) == BPF_W ? 4 : BPF_SIZE(i->code) == BPF_H ? 2 : 1;

	if (class == BPF_LD && mode == BPF_ABS)
		return reads(bytes, i->k, size);
	if (class == BPF_LD && mode == BPF_IND)
		return x->kind == X_IS && reads(bytes, x->value + i->k, size);
	if (class == BPF_LDX && mode == BPF_MSH) {
		*x = i->k == IP4_BEGIN ? (struct x){X_IS, header} : (struct x){X_ANY, 0};
		return reads(bytes, i->k, 1);
	}
	if ((class == BPF_LD || class == BPF_LDX) && mode != BPF_IMM && mode != BPF_MEM)
		return false; /* the length */
	if (class == BPF_LDX)
		*x = mode == BPF_IMM ? (struct x){X_IS, i->k} : (struct x){X_ANY, 0};
	if (class == BPF_MISC && BPF_MISCOP(i->code) == BPF_TAX)
		*x = (struct x){X_ANY, 0};
	return true;
}

/* Of frames whose IPv4 header, if there is one, has so many bytes. All ways through the program are taken for possible;
 * each is one forward, or nothing is known. */
static bool read_all(const struct bpf_program *program, uint32_t header, uint64_t *bytes)
{
	const uint32_t n = program->bf_len;
	struct x at[PROGRAM_MAX] = {{.kind = X_IS}};

	*bytes = 0;
	if (n > PROGRAM_MAX)
		return false;
	for (uint32_t pc = 0; pc < n; pc++) {
		const struct bpf_insn *i = &program->bf_insns[pc];
		uint32_t to[2] = {pc + 1, pc + 1};
		struct x x = at[pc];

		if (x.kind == X_NEVER || BPF_CLASS(i->code) == BPF_RET)
			continue;
		if (!read_by(i, &x, header, bytes))
			return false;
		if (BPF_CLASS(i->code) == BPF_JMP) {
			to[0] += BPF_OP(i->code) == BPF_JA ? i->k : i->jt;
			to[1] += BPF_OP(i->code) == BPF_JA ? i->k : i->jf;
		}
		for (unsigned k = 0; k < 2; k++) {
			if (to[k] <= pc || to[k] >= n) /* backward: `protochain` */
				return false;
			meet(&at[to[k]], x);
		}
	}
	return true;
}

void sp_front_reads(const struct bpf_program *program, struct sp_front_reads *reads)
{
	*reads = (struct sp_front_reads){.known = 0};
	for (unsigned half = 0; half < 16; half++)
		if (read_all(program, half * 4, &reads->bytes[half]))
			reads->known |= (uint16_t)(1u << half);
}

/* ---- what is kept ---- */

/* The list has changed. */
static __attribute__((noinline)) void learn(struct sp_front *f, struct sp_rule *const _Atomic *list, uint64_t turn)
{
	for (unsigned half = 0; half < 16; half++) {
		struct sp_front_sight *s = &f->sight[half];
		uint64_t bytes = 0;
		uint8_t mask[SP_FRONT_BYTES];

		for (s->rules = 0; s->rules < SP_MAX_RULES; s->rules++) {
			const struct sp_rule *rule = atomic_load_explicit(&list[s->rules], memory_order_acquire);
			const struct sp_front_reads *r = rule ? sp_rule_reads(rule) : NULL;

			if (!r || !(r->known >> half & 1))
				break;
			bytes |= r->bytes[half];
		}
		for (unsigned i = 0; i < SP_FRONT_BYTES; i++)
			mask[i] = bytes >> i & 1 ? 0xFF : 0;
		memcpy(s->mask, mask, sizeof(mask));
		s->reach = bytes ? (uint16_t)(64 - __builtin_clzll(bytes)) : 0;
		s->reach = RTE_MAX(s->reach, IP4_BEGIN + 1);
	}
	f->turn = turn + 1;
}

static inline uint32_t slot_of(const uint64_t *key)
{
	const uint64_t h = sp_hash_mix(key[0] ^ SP_HASH_1, key[1] ^ SP_HASH_2) ^
			   sp_hash_mix(key[2] ^ SP_HASH_2, key[3] ^ SP_HASH_1) ^
			   sp_hash_mix(key[4] + SP_HASH_1, key[5] ^ SP_HASH_2) ^
			   sp_hash_mix(key[6] + SP_HASH_2, key[7] ^ SP_HASH_1);

	return (uint32_t)(h ^ h >> 32) % SP_FRONT_ENTRIES;
}

/* From that rule on, up to `end`. */
static const struct sp_rule *try(struct sp_rule *const _Atomic *list, unsigned from, unsigned end, struct rte_mbuf *m)
{
	for (unsigned i = from; i < end; i++) {
		const struct sp_rule *rule = atomic_load_explicit(&list[i], memory_order_acquire);

		if (!rule)
			break;
		if (sp_rule_matches(rule, m))
			return rule;
	}
	return NULL;
}

const struct sp_rule *sp_front_match(struct sp_front *f, struct sp_rule *const _Atomic *list, uint64_t turn,
				     struct rte_mbuf *m)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	const struct sp_front_sight *s;
	uint64_t key[WORDS], other = 0;
	struct sp_front_entry *e;

	if (__builtin_expect(f->turn != turn + 1, 0))
		learn(f, list, turn);
	/* Shorter frames: what a rule says then depends on how short. And the compared bytes are in the buffer. */
	if (m->data_len <= IP4_BEGIN || m->buf_len - m->data_off < SP_FRONT_BYTES)
		return try(list, 0, SP_MAX_RULES, m);
	s = &f->sight[frame[IP4_BEGIN] & 15];
	if (!s->rules || m->data_len < s->reach)
		return try(list, 0, SP_MAX_RULES, m);
	memcpy(key, frame, sizeof(key));
	for (unsigned i = 0; i < WORDS; i++)
		key[i] &= s->mask[i];
	e = &f->entry[slot_of(key)];
	for (unsigned i = 0; i < WORDS; i++)
		other |= e->key[i] ^ key[i];
	if (__builtin_expect((other | (e->turn ^ f->turn)) != 0, 0)) {
		memcpy(e->key, key, sizeof(key));
		e->rule = try(list, 0, s->rules, m);
		e->turn = f->turn;
	}
	return e->rule ? e->rule : try(list, s->rules, SP_MAX_RULES, m);
}
