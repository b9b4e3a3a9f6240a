/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A user: the applications of one uid together. The NIC's own contexts (configured ones, and those of a program that
 * embeds the NIC) are a group of their own, nic->own, that has no limits.
 *
 * Limits of rates hold for all workers together. A worker takes from the user's allowance as much as the user may use
 * in SP_LEASE (at least one unit), with one atomic operation, and then counts down without any. What is used beyond
 * that is owed. So a user gets exactly its rate in the long run, and after a rest no more than that of SP_SAVED at
 * once.
 */
#ifndef PIPELINE_USER_H
#define PIPELINE_USER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "limits.h"
#include "share.h"
#include "../handlers/spindle-handler.h"

struct sp_nic;
struct sp_user_limits;

#define SP_LEASE (100 * SP_US)
#define SP_SAVED SP_MS

enum sp_limited { SP_LIMITED_TIME, SP_LIMITED_IN, SP_LIMITED_IN_BYTES, SP_LIMITED_OUT, SP_LIMITED_OUT_BYTES };
#define SP_LIMITED 5

/* A user's allowance on one worker. [worker]; until: 0 or when the next lease is due */
struct sp_allowance {
	struct sp_user *user;
	int64_t left[SP_LIMITED]; /* cycles, packets, bytes; below 0: owed */
	sp_time until[SP_LIMITED];
	uint64_t waits; /* how often something was put off; others read it for reports */
	uint64_t drops; /* over-limit */
} SP_CACHE_ALIGNED;

struct sp_user {
	struct sp_user *next; /* [control] */
	uint32_t uid;
	bool trusted;		       /* root or the NIC's own user: for whom the reserve is */
	_Atomic uint32_t applications; /* accounts that refer to it */
	_Atomic uint64_t memory;       /* charged to its accounts */
	uint32_t contexts, qps;	       /* the same; [control] */
	bool limited;		       /* some rate is limited; [control] */
	struct sp_rate {
		uint64_t lease;	    /* units of SP_LEASE, or 1; 0: no limit */
		sp_time takes;	    /* time for them */
		_Atomic sp_time at; /* [shared] relaxed: all until then has been given out */
	} rate[SP_LIMITED];
	struct sp_share share[SP_MAX_WORKERS];
	struct sp_allowance allowance[SP_MAX_WORKERS];
};

/* The NIC's own group, and the one application in it. */
struct sp_own {
	struct sp_user user;
	struct sp_share share[SP_MAX_WORKERS];
};

/* Makes nic->own. -ENOMEM. */
int sp_users_create(struct sp_nic *nic);
void sp_users_destroy(struct sp_nic *nic);
/* The user, with one more application; limits may be NULL. nic->control is held. NULL: no memory. */
struct sp_user *sp_user_take(struct sp_nic *nic, uint32_t uid, bool trusted, const struct sp_user_limits *limits);
void sp_user_put(struct sp_user *u); /* any thread */
/* An application's shares of the workers. */
void sp_user_shares(struct sp_nic *nic, struct sp_user *u, struct sp_share share[SP_MAX_WORKERS]);

/* ---- what is left for others ---- */
/*
 * Of what the NIC has (`all`: bytes, contexts, QP numbers, places for applications) `used` is taken, `own` by this
 * user. May it take `more`? A user may always have a sixteenth, more only while a quarter stays free: a sixteenth for
 * each of three further users, and one for root and the NIC's own user, who alone may take that last sixteenth.
 */
static inline bool sp_user_may(bool trusted, uint64_t own, uint64_t more, uint64_t used, uint64_t all)
{
	const uint64_t part = all >= 16 ? all / 16 : 1, last = all >= 16 ? all / 16 : all / 4;
	const bool little = more <= part && own <= part - more;
	const uint64_t kept = trusted ? 0 : little ? last : all / 4;

	return used <= all && more <= all - used && all - used - more >= kept;
}

/* ---- limits of rates ---- */
bool sp_user_lease(struct sp_allowance *a, enum sp_limited what, sp_time now);

/* True: nothing is left now. */
static inline bool sp_limit_over(struct sp_allowance *a, enum sp_limited what, sp_time now)
{
	return a->left[what] <= 0 && !sp_user_lease(a, what, now);
}

#endif
