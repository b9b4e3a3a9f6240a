/* SPDX-License-Identifier: BSD-3-Clause */
#include "limit.h"

#include <rte_common.h>

static void put_off(struct sp_worker *w, sp_time until)
{
	w->put_off = w->put_off > w->now ? RTE_MIN(w->put_off, until) : until;
}

static bool is_over(struct sp_worker *w, struct sp_allowance *a, enum sp_limited what)
{
	if (likely(!sp_limit_over(a, what, w->now)))
		return false;
	put_off(w, a->until[what]);
	return true;
}

static void pay(struct sp_entity *e)
{
	e->allowance->left[SP_LIMITED_TIME] -= (int64_t)(e->cycles - e->counted);
	e->counted = e->cycles;
}

bool sp_limit_none_left(struct sp_worker *w, struct sp_allowance *a)
{
	return is_over(w, a, SP_LIMITED_TIME);
}

bool sp_limit_no_time(struct sp_worker *w, struct sp_entity *e)
{
	pay(e);
	return is_over(w, e->allowance, SP_LIMITED_TIME);
}

bool sp_limit_receives(struct sp_worker *w, struct sp_entity *e, unsigned n)
{
	struct sp_allowance *a = e->allowance;

	pay(e);
	if (sp_limit_over(a, SP_LIMITED_TIME, w->now) || sp_limit_over(a, SP_LIMITED_IN, w->now) ||
	    sp_limit_over(a, SP_LIMITED_IN_BYTES, w->now)) {
		a->drops += n;
		return false;
	}
	a->left[SP_LIMITED_IN] -= n;
	for (unsigned i = 0; i < n; i++)
		a->left[SP_LIMITED_IN_BYTES] -= e->batch[i]->frame_len;
	return true;
}

bool sp_limit_no_sends(struct sp_view *v)
{
	struct sp_worker *w = v->owner;

	return is_over(w, v->allowance, SP_LIMITED_OUT) || is_over(w, v->allowance, SP_LIMITED_OUT_BYTES);
}
