/* SPDX-License-Identifier: BSD-3-Clause */
/* Context look-ups, and handlers' calls about their own context. */
#include "context.h"
#include "engine.h"
#include "view.h"
#include "worker.h"

#include <string.h>

#include <rte_common.h>

struct sp_context *sp_context_by_id(struct sp_nic *nic, uint32_t id)
{
	struct sp_context *c;

	if ((id & 0xFFFF) >= SP_MAX_CONTEXTS)
		return NULL;
	c = __atomic_load_n(&nic->context[id & 0xFFFF], __ATOMIC_ACQUIRE);
	return c && c->id == id ? c : NULL;
}

uint64_t sp_context_sum(const struct sp_context *c, size_t field)
{
	uint64_t sum = 0;

	for (unsigned w = 0; w < c->nic->workers; w++)
		sum += *(const uint64_t *)((const uint8_t *)c->view[w] + field);
	return sum;
}

const char *sp_context_name_for(const struct sp_context *c, const struct sp_context *other)
{
	return !c->owner || c->owner == other->owner ? other->name : "of another application";
}

/* Multiplies by a secret and folds, word by word: without the keys no one can construct collisions. */
uint64_t sp_hash(struct sp_ctx *ctx, const void *bytes, size_t len)
{
	const uint64_t *key = sp_view_of(ctx)->context->nic->hash_key, mix = key[1] | 1;
	const uint8_t *b = bytes;
	uint64_t hash = key[0] ^ len * mix;

	for (; len; len -= RTE_MIN(len, sizeof(uint64_t)), b += sizeof(uint64_t)) {
		uint64_t word = 0;

		memcpy(&word, b, RTE_MIN(len, sizeof(word)));
		const unsigned __int128 product = (unsigned __int128)(hash ^ word) * mix;
		hash = key[0] + ((uint64_t)product ^ (uint64_t)(product >> 64));
	}
	return hash >> 1;
}

uint64_t sp_random(struct sp_ctx *ctx)
{
	return sp_worker_random(sp_view_of(ctx)->owner);
}

const struct sp_export *sp_first(struct sp_ctx *ctx, struct sp_ctx **first)
{
	struct sp_context *c = sp_view_of(ctx)->context->first;

	if (!c)
		return NULL;
	*first = &c->view[ctx->worker]->pub;
	(*first)->now = sp_view_of(ctx)->owner->now;
	return c->handler->exports;
}
