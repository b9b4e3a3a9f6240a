/* SPDX-License-Identifier: BSD-3-Clause */
#include "context_alloc.h"
#include "canary.h"
#include "../engine.h"
#include "account.h"
#include "../context.h"
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#define MAPPED (1u << 20) /* larger blocks are mmap()ed: zeroed pages on first use */
#define HEAD   64

struct sp_allocation {
	struct sp_allocation *next;
	size_t bytes, more; /* charged bytes; uncharged bytes behind them */
	size_t asked;	    /* block size if a canary follows it (sp_alloc() of a traced context); else 0 */
};

int sp_context_charge(struct sp_context *c, uint64_t bytes)
{
	/* A reload briefly needs memory for two versions: that must not fail on the application's limit. */
	int r = sp_memory_charge(c->nic, c->inherited ? NULL : c->account, bytes);

	if (!r && c->inherited)
		sp_account_memory_force(c->account, bytes);

	if (r && !sp_account_allows(c->account, bytes)) /* the application's limit, not the NIC's */
		c->over = "memory";
	return r;
}

void *sp_context_alloc(struct sp_context *c, size_t bytes, size_t more)
{
	struct sp_allocation *a;
	size_t charged, all;

	if (bytes == 0 || __builtin_add_overflow(bytes, (size_t)HEAD + 63, &charged))
		return NULL;
	charged &= ~(size_t)63;
	more = (more + 63) & ~(size_t)63;
	if (__builtin_add_overflow(charged, more, &all) || sp_context_charge(c, charged))
		return NULL;
	if (all >= MAPPED) {
		a = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (a == MAP_FAILED)
			a = NULL;
	} else {
		a = aligned_alloc(64, all);
		if (a)
			memset(a, 0, all);
	}
	if (!a) {
		sp_memory_credit(c->nic, c->account, charged);
		return NULL;
	}
	a->bytes = charged;
	a->more = more;
	a->asked = 0;
	a->next = c->allocation;
	c->allocation = a;
	return (uint8_t *)a + HEAD;
}

void *sp_context_alloc_traced(struct sp_context *c, size_t bytes)
{
	uint8_t *block = sp_context_alloc(c, bytes, SP_CANARY);

	if (block) {
		sp_canary_put(block + bytes, SP_CANARY);
		c->allocation->asked = bytes;
	}
	return block;
}

void sp_context_alloc_end(struct sp_context *c)
{
	while (c->allocation) {
		struct sp_allocation *a = c->allocation;
		size_t bytes = a->bytes, all = bytes + a->more;

		c->allocation = a->next;
		if (all >= MAPPED)
			munmap(a, all);
		else
			free(a);
		sp_memory_credit(c->nic, c->account, bytes);
	}
	sp_account_qps(c->account, -(int64_t)c->charged_qps);
	sp_account_messages(c->account, -(int64_t)c->charged_messages);
}

size_t sp_context_alloc_overrun(const struct sp_context *c, struct sp_allocation **next)
{
	struct sp_allocation *a = *next ? *next : c->allocation;

	for (unsigned n = 0; n < SP_CANARIES && a; n++, a = a->next)
		if (a->asked && !sp_canary_lives((uint8_t *)a + HEAD + a->asked, SP_CANARY))
			return a->asked;
	*next = a;
	return 0;
}
