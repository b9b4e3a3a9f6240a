/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, events to the application. */
#include "tell.h"

#define RDMA_TELL_AGAIN (20 * SP_US)

/* What could not be posted. */
static uint32_t rdma_tell_now(struct sp_ctx *c, const struct rdma_teller *t, uint32_t what)
{
	uint32_t left = 0;

	while (what) {
		const uint32_t bit = what & -what;
		struct sp_event e = {.type = SP_RDMA_EVENT_CQ, .cookie = t->cookie};

		if (bit != RDMA_OWED_CQ) {
			e.type = SP_RDMA_EVENT_ASYNC;
			e.arg[0] = (uint32_t)__builtin_ctz(bit);
		}
		e.arg[1] = t->id;
		if (sp_event_post(c, &e))
			left |= bit;
		what &= ~bit;
	}
	return left;
}

static void rdma_tell_later(struct sp_ctx *c, struct rdma_teller *t, uint32_t what)
{
	struct rdma_worker *w = &rdma_of(c)->worker[c->worker];

	c->counters[RDMA_EVENTS_OWED]++;
	if (__atomic_fetch_or(&t->owed, what | RDMA_OWED_LINKED, __ATOMIC_ACQ_REL) & RDMA_OWED_LINKED)
		return; /* the worker that has it in its list will see the bit */
	t->next = NULL;
	if (w->owed)
		w->owed_last->next = t;
	else
		w->owed = t;
	w->owed_last = t;
	if (!w->owed_timer.armed)
		sp_timer_arm(c, &w->owed_timer, c->now + RDMA_TELL_AGAIN);
}

void rdma_tell(struct sp_ctx *c, struct rdma_teller *t, uint32_t what)
{
	/* Behind what is owed already: events of an object come in order. */
	if (__atomic_load_n(&t->owed, __ATOMIC_ACQUIRE) & ~RDMA_OWED_LINKED)
		rdma_tell_later(c, t, what);
	else if (rdma_tell_now(c, t, what))
		rdma_tell_later(c, t, what);
}

void rdma_teller_set(struct rdma_teller *t, uint64_t cookie, uint32_t id)
{
	rdma_teller_forget(t);
	t->cookie = cookie;
	t->id = id;
}

void rdma_teller_forget(struct rdma_teller *t)
{
	__atomic_fetch_and(&t->owed, RDMA_OWED_LINKED, __ATOMIC_ACQ_REL);
}

/* In the order in which they came. The first that finds no room ends it, as the others would find none either: there
 * may be one for each QP. */
void rdma_tell_again(struct sp_ctx *c)
{
	struct rdma_worker *w = &rdma_of(c)->worker[c->worker];
	struct rdma_teller *t;

	while ((t = w->owed)) {
		struct rdma_teller *const next = t->next; /* before another worker may link it */
		uint32_t what = __atomic_exchange_n(&t->owed, RDMA_OWED_LINKED, __ATOMIC_ACQ_REL) & ~RDMA_OWED_LINKED;

		what = rdma_tell_now(c, t, what);
		if (what) {
			__atomic_fetch_or(&t->owed, what, __ATOMIC_ACQ_REL);
			sp_timer_arm(c, &w->owed_timer, c->now + RDMA_TELL_AGAIN);
			return;
		}
		what = RDMA_OWED_LINKED;
		if (__atomic_compare_exchange_n(&t->owed, &what, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			w->owed = next;
	}
	w->owed_last = NULL;
}
