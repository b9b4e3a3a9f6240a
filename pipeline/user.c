/* SPDX-License-Identifier: BSD-3-Clause */
#include "user.h"
#include "engine.h"
#include "worker.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_common.h>
#include <rte_cycles.h>

static void set_rate(struct sp_rate *r, uint64_t a_second)
{
	if (!a_second) {
		r->lease = 0;
		return;
	}
	r->lease = (uint64_t)((unsigned __int128)a_second * SP_LEASE / SP_SEC);
	r->lease += !r->lease;
	r->takes = (sp_time)((unsigned __int128)r->lease * SP_SEC / a_second);
	r->takes += !r->takes;
}

static void set_limits(struct sp_user *u, const struct sp_user_limits *l)
{
	for (unsigned w = 0; w < SP_MAX_WORKERS; w++)
		u->share[w].weight = l && l->weight ? l->weight : 1;
	u->limited = l && (l->worker_time || l->packets || l->bytes);
	if (!u->limited)
		return;
	set_rate(&u->rate[SP_LIMITED_TIME], (uint64_t)l->worker_time * (rte_get_tsc_hz() / 100));
	set_rate(&u->rate[SP_LIMITED_IN], l->packets);
	set_rate(&u->rate[SP_LIMITED_OUT], l->packets);
	set_rate(&u->rate[SP_LIMITED_IN_BYTES], l->bytes);
	set_rate(&u->rate[SP_LIMITED_OUT_BYTES], l->bytes);
	for (unsigned w = 0; w < SP_MAX_WORKERS; w++)
		for (unsigned i = 0; i < SP_LIMITED; i++)
			u->allowance[w].left[i] = u->rate[i].lease ? 0 : INT64_MAX / 2;
}

/* For a uid that has not been here: an entry that nobody uses any more, or a new one. */
static struct sp_user *make(struct sp_nic *nic)
{
	struct sp_user *u = nic->user;

	while (u && (atomic_load(&u->applications) || atomic_load(&u->memory)))
		u = u->next;
	if (!u) {
		u = aligned_alloc(64, RTE_ALIGN(sizeof(*u), 64));
		if (!u)
			return NULL;
		memset(u, 0, sizeof(*u));
		u->next = nic->user;
		nic->user = u;
	}
	*u = (struct sp_user){.next = u->next};
	for (unsigned w = 0; w < nic->workers; w++) {
		u->share[w].above = &nic->worker[w]->whole;
		u->allowance[w].user = u;
	}
	return u;
}

struct sp_user *sp_user_take(struct sp_nic *nic, uint32_t uid, bool trusted, const struct sp_user_limits *limits)
{
	struct sp_user *u = nic->user;

	while (u && u->uid != uid)
		u = u->next;
	if (!u) {
		u = make(nic);
		if (!u)
			return NULL;
		u->uid = uid;
		set_limits(u, limits);
	}
	u->trusted = trusted;
	atomic_fetch_add(&u->applications, 1);
	return u;
}

void sp_user_put(struct sp_user *u)
{
	if (u)
		atomic_fetch_sub(&u->applications, 1);
}

void sp_user_shares(struct sp_nic *nic, struct sp_user *u, struct sp_share share[SP_MAX_WORKERS])
{
	for (unsigned w = 0; w < nic->workers; w++)
		share[w] = (struct sp_share){.above = &u->share[w], .weight = 1};
}

int sp_users_create(struct sp_nic *nic)
{
	struct sp_own *own = aligned_alloc(64, RTE_ALIGN(sizeof(*own), 64));

	if (!own)
		return -ENOMEM;
	*own = (struct sp_own){.user = {.trusted = true}};
	set_limits(&own->user, NULL);
	for (unsigned w = 0; w < nic->workers; w++)
		own->user.share[w].above = &nic->worker[w]->whole;
	sp_user_shares(nic, &own->user, own->share);
	nic->own = own;
	return 0;
}

void sp_users_destroy(struct sp_nic *nic)
{
	while (nic->user) {
		struct sp_user *next = nic->user->next;

		free(nic->user);
		nic->user = next;
	}
	free(nic->own);
	nic->own = NULL;
}

bool sp_user_lease(struct sp_allowance *a, enum sp_limited what, sp_time now)
{
	struct sp_rate *r = &a->user->rate[what];
	sp_time at = atomic_load_explicit(&r->at, memory_order_relaxed), from;

	while (a->left[what] <= 0) {
		if (at > now) {
			if (a->until[what] != at && what != SP_LIMITED_IN && what != SP_LIMITED_IN_BYTES)
				a->waits++;
			a->until[what] = at;
			return false;
		}
		from = now > SP_SAVED ? RTE_MAX(at, now - SP_SAVED) : at;
		if (!atomic_compare_exchange_weak_explicit(&r->at, &at, from + r->takes, memory_order_relaxed,
							   memory_order_relaxed))
			continue;
		at = from + r->takes;
		a->left[what] += (int64_t)r->lease;
	}
	return true;
}
