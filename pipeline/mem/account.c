/* SPDX-License-Identifier: BSD-3-Clause */
/* Resource limits of one application. A NULL account (an application in the NIC's own process) has no limits. */
#include "account.h"
#include "../engine.h"
#include "../limits.h"
#include "../user.h"

#include <errno.h>
#include <stdlib.h>

static const struct sp_limits defaults = {.memory = 1ull << 30, .contexts = 256, .qps = 16384, .messages = 65536};

int sp_account_create(const struct sp_limits *limits, struct sp_account **account)
{
	struct sp_account *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->limit.memory = limits && limits->memory ? limits->memory : defaults.memory;
	a->limit.contexts = limits && limits->contexts ? limits->contexts : defaults.contexts;
	a->limit.qps = limits && limits->qps ? limits->qps : defaults.qps;
	a->limit.messages = limits && limits->messages ? limits->messages : defaults.messages;
	*account = a;
	return 0;
}

void sp_account_join(struct sp_nic *nic, struct sp_account *a, struct sp_user *u)
{
	a->user = u;
	sp_user_shares(nic, u, a->share);
}

uint32_t sp_account_uid(const struct sp_account *a)
{
	return a && a->user ? a->user->uid : 0;
}

void sp_account_destroy(struct sp_account *a)
{
	if (a && a->user) {
		/* What waits to be freed has been charged to the user once more: sp_freeing_disown(). */
		atomic_fetch_sub(&a->user->memory, atomic_load(&a->memory));
		sp_user_put(a->user);
	}
	free(a);
}

/* ---- what is left for others ---- */

bool sp_account_leaves_memory(const struct sp_account *a, uint64_t more, uint64_t used, uint64_t all)
{
	const struct sp_user *u = a ? a->user : NULL;
	const uint64_t own = u ? atomic_load(&u->memory) : 0; /* `more` is in it already */

	return !u || sp_user_may(u->trusted, own > more ? own - more : 0, more, used, all);
}

bool sp_account_leaves_contexts(const struct sp_account *a, uint64_t used, uint64_t all)
{
	return !a || !a->user || sp_user_may(a->user->trusted, a->user->contexts, 1, used, all);
}

bool sp_account_leaves_qps(const struct sp_account *a, uint64_t more, uint64_t used, uint64_t all)
{
	return !a || !a->user || !more || sp_user_may(a->user->trusted, a->user->qps, more, used, all);
}

/* ---- the application's limits ---- */

static void user_memory(struct sp_account *a, uint64_t bytes)
{
	if (a->user)
		atomic_fetch_add(&a->user->memory, bytes);
}

bool sp_account_allows(struct sp_account *a, uint64_t bytes)
{
	const uint64_t used = a ? atomic_load(&a->memory) : 0;

	return !a || (bytes <= a->limit.memory && used <= a->limit.memory - bytes);
}

int sp_account_memory(struct sp_account *a, uint64_t bytes)
{
	uint64_t used;

	if (!a)
		return 0;
	used = atomic_load(&a->memory);
	do
		if (bytes > a->limit.memory || used > a->limit.memory - bytes)
			return -EDQUOT;
	while (!atomic_compare_exchange_weak(&a->memory, &used, used + bytes));
	user_memory(a, bytes);
	return 0;
}

void sp_account_memory_force(struct sp_account *a, uint64_t bytes)
{
	if (!a)
		return;
	atomic_fetch_add(&a->memory, bytes);
	user_memory(a, bytes);
}

void sp_account_memory_back(struct sp_account *a, uint64_t bytes)
{
	if (!a)
		return;
	atomic_fetch_sub(&a->memory, bytes);
	user_memory(a, -bytes);
}

/* used + change, or -EDQUOT beyond the limit; a negative change always succeeds. */
static int change_of(uint64_t used, int64_t change, uint64_t limit, uint64_t *sum)
{
	if (change > 0 && ((uint64_t)change > limit || used > limit - (uint64_t)change))
		return -EDQUOT;
	*sum = used + (uint64_t)change;
	return 0;
}

static int change32(uint32_t *used, int64_t change, uint32_t limit)
{
	uint64_t sum;
	int r = change_of(*used, change, limit, &sum);

	if (!r)
		*used = (uint32_t)sum;
	return r;
}

int sp_account_contexts(struct sp_account *a, int change)
{
	const int r = a ? change32(&a->contexts, change, a->limit.contexts) : 0;

	if (!r && a && a->user)
		a->user->contexts += (uint32_t)change;
	return r;
}

int sp_account_regions(struct sp_account *a, int change)
{
	return a ? change32(&a->regions, change, SP_REGIONS) : 0;
}

int sp_account_qps(struct sp_account *a, int64_t change)
{
	const int r = a ? change32(&a->qps, change, a->limit.qps) : 0;

	if (!r && a && a->user)
		a->user->qps += (uint32_t)change;
	return r;
}

int sp_account_messages(struct sp_account *a, int64_t change)
{
	return a ? change_of(a->messages, change, a->limit.messages, &a->messages) : 0;
}

/* ---- memory of the NIC and of the account ---- */

int sp_memory_charge(struct sp_nic *nic, struct sp_account *account, uint64_t bytes)
{
	uint64_t used = nic->memory_used;
	int r = sp_account_memory(account, bytes);

	if (r)
		return r;
	do
		if (bytes > nic->config.memory_limit || used > nic->config.memory_limit - bytes ||
		    !sp_account_leaves_memory(account, bytes, used, nic->config.memory_limit)) {
			sp_account_memory_back(account, bytes);
			return -EDQUOT;
		}
	while (!atomic_compare_exchange_weak(&nic->memory_used, &used, used + bytes));
	return 0;
}

void sp_memory_credit(struct sp_nic *nic, struct sp_account *account, uint64_t bytes)
{
	sp_account_memory_back(account, bytes);
	atomic_fetch_sub(&nic->memory_used, bytes);
}
