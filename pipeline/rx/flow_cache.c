/* SPDX-License-Identifier: BSD-3-Clause */
#include "flow_cache.h"

#include <string.h>

#include <rte_mbuf.h>

#include "../limits.h"
#include "../frame/parser_plain.h"
#include "rule.h"

#define WORDS SP_FLOW_CACHE_WORDS

static void make_mask(struct sp_flow_cache_mask *mask, unsigned kind, struct sp_rule *const _Atomic *list)
{
	/* With the bytes that the kind is in, frames of different kinds never share an entry. */
	uint64_t bytes = 7ull << 12;
	uint8_t each[SP_FLOW_CACHE_BYTES];

	for (mask->rules = 0; mask->rules < SP_MAX_RULES; mask->rules++) {
		const struct sp_rule *rule = atomic_load_explicit(&list[mask->rules], memory_order_acquire);
		const struct sp_rule_reads *reads = rule ? sp_rule_reads(rule) : NULL;

		if (!reads || !(reads->known >> kind & 1))
			break;
		bytes |= reads->bytes[kind];
	}
	for (unsigned i = 0; i < SP_FLOW_CACHE_BYTES; i++)
		each[i] = bytes >> i & 1 ? 0xFF : 0;
	memcpy(mask->word, each, sizeof(each));
	mask->reach = (uint16_t)(64 - __builtin_clzll(bytes));
}

static __attribute__((noinline)) void renew(struct sp_flow_cache *c, struct sp_rule *const _Atomic *list,
					    uint64_t version)
{
	for (unsigned kind = 0; kind < SP_FRAME_KINDS; kind++)
		make_mask(&c->mask[kind], kind, list);
	c->version = version + 1;
}

static inline uint32_t slot_of(const uint64_t *key)
{
	const uint64_t h = sp_hash_mix(key[0] ^ SP_HASH_1, key[1] ^ SP_HASH_2) ^
			   sp_hash_mix(key[2] ^ SP_HASH_2, key[3] ^ SP_HASH_1) ^
			   sp_hash_mix(key[4] + SP_HASH_1, key[5] ^ SP_HASH_2) ^
			   sp_hash_mix(key[6] + SP_HASH_2, key[7] ^ SP_HASH_1);

	return (uint32_t)(h ^ h >> 32) % SP_FLOW_CACHE_ENTRIES;
}

/* Runs the rules `from` up to `end`. */
static const struct sp_rule *run(struct sp_rule *const _Atomic *list, unsigned from, unsigned end, struct rte_mbuf *m)
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

const struct sp_rule *sp_flow_cache_match(struct sp_flow_cache *c, struct sp_rule *const _Atomic *list,
					  uint64_t version, struct rte_mbuf *m)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	const struct sp_flow_cache_mask *mask;
	uint64_t key[WORDS], other = 0;
	struct sp_flow_cache_entry *e;

	if (__builtin_expect(c->version != version + 1, 0))
		renew(c, list, version);
	/* The key is loaded whole, so the buffer must have room for it even where the frame is shorter. */
	if (m->data_len < SP_FRAME_KIND_END || m->buf_len - m->data_off < SP_FLOW_CACHE_BYTES)
		return run(list, 0, SP_MAX_RULES, m);
	mask = &c->mask[sp_frame_kind(frame)];
	/* Of a frame that ends before the last of these bytes, the answer depends on where it ends. */
	if (!mask->rules || m->data_len < mask->reach)
		return run(list, 0, SP_MAX_RULES, m);
	memcpy(key, frame, sizeof(key));
	for (unsigned i = 0; i < WORDS; i++)
		key[i] &= mask->word[i];
	e = &c->entry[slot_of(key)];
	for (unsigned i = 0; i < WORDS; i++)
		other |= e->key[i] ^ key[i];
	if (__builtin_expect((other | (e->version ^ c->version)) != 0, 0)) {
		memcpy(e->key, key, sizeof(key));
		e->rule = run(list, 0, mask->rules, m);
		e->version = c->version;
	}
	return e->rule ? e->rule : run(list, mask->rules, SP_MAX_RULES, m);
}
