/* SPDX-License-Identifier: BSD-3-Clause */
/* What [limits NAME] allows a user a second, on the way of its packets: see user.h. What is too much to be received is
 * dropped (over-limit), all else waits. */
#ifndef PIPELINE_LIMIT_H
#define PIPELINE_LIMIT_H

#include <rte_branch_prediction.h>

#include "entity.h"
#include "user.h"
#include "view.h"
#include "worker.h"

/* The context's user has no time of the worker left; what is put off goes on at sp_limit_until(). */
bool sp_limit_no_time(struct sp_worker *w, struct sp_entity *e);
/* The same of a user alone. */
bool sp_limit_none_left(struct sp_worker *w, struct sp_allowance *a);
/* May the context's packets (e->batch) be handled? Counts them if so. */
bool sp_limit_receives(struct sp_worker *w, struct sp_entity *e, unsigned n);
/* The context's user must not send now. */
bool sp_limit_no_sends(struct sp_view *v);

static inline bool sp_limited_time(struct sp_worker *w, struct sp_entity *e)
{
	return unlikely(e->allowance != NULL) && sp_limit_no_time(w, e);
}

static inline bool sp_limited_sends(struct sp_view *v)
{
	return unlikely(v->allowance != NULL) && sp_limit_no_sends(v);
}

/* The context has sent so many packets. */
static inline void sp_limit_sent(struct sp_view *v, unsigned n, uint64_t bytes)
{
	if (unlikely(v->allowance != NULL)) {
		v->allowance->left[SP_LIMITED_OUT] -= n;
		v->allowance->left[SP_LIMITED_OUT_BYTES] -= (int64_t)bytes;
	}
}

/* When calls of the context's user may go on, as far as that is known; in the past: now. sends: it wants to send. */
static inline sp_time sp_limit_until(const struct sp_entity *e, bool sends)
{
	const struct sp_allowance *a = e->allowance;
	sp_time until;

	if (likely(!a))
		return 0;
	until = a->until[SP_LIMITED_TIME];
	if (sends && a->until[SP_LIMITED_OUT] > until)
		until = a->until[SP_LIMITED_OUT];
	if (sends && a->until[SP_LIMITED_OUT_BYTES] > until)
		until = a->until[SP_LIMITED_OUT_BYTES];
	return until;
}

#endif
