/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, the rate of a QP. Congestion: the reaction point of DCQCN (Zhu et al., SIGCOMM 2015, section 3.1, with its
 * parameters). Its timers need no timer: what they would have done by now is done when the QP sends.
 */
#include "rate.h"

#define RATE_STEP  (55 * SP_US)	   /* of alpha, and of the rate */
#define RATE_CUT   (50 * SP_US)	   /* from one cut to the next, at least */
#define RATE_BYTES (10u << 20)	   /* bytes of a step by bytes */
#define RATE_FAST  5		   /* steps of fast recovery */
#define RATE_ADD   (40000000 / 8)  /* bytes per second, additive increase */
#define RATE_HYPER (400000000 / 8) /* hyper increase */
#define RATE_LEAST (10000000 / 8)  /* no QP becomes slower */
#define RATE_G	   8		   /* g = 1/256 */
#define RATE_MANY  4096		   /* steps that are made up for, at most: then it is at its full rate */
#define RATE_BURST 4		   /* packets at once of a QP that has a rate */
#define RATE_ONE   (1u << 16)	   /* alpha 1 */

static void rdma_rate_step(struct rdma_rate *r, uint64_t full)
{
	const uint16_t most = r->by_time > r->by_bytes ? r->by_time : r->by_bytes;
	const uint16_t least = r->by_time < r->by_bytes ? r->by_time : r->by_bytes;

	if (least > RATE_FAST)
		r->target += (uint64_t)(least - RATE_FAST) * RATE_HYPER;
	else if (most > RATE_FAST)
		r->target += RATE_ADD;
	if (r->target > full)
		r->target = full;
	r->now = (r->now + r->target + 1) / 2;
}

/* Does what is due. */
static void rdma_rate_catch_up(struct rdma_rate *r, uint64_t full, sp_time now)
{
	if (!r->now)
		return;
	for (unsigned i = 0; r->alpha_at <= now && r->alpha && i < RATE_MANY; i++, r->alpha_at += RATE_STEP)
		r->alpha -= (r->alpha >> RATE_G) + (r->alpha < 1u << RATE_G);
	for (unsigned i = 0; r->step_at <= now && i < RATE_MANY; i++, r->step_at += RATE_STEP) {
		r->by_time += r->by_time < UINT16_MAX;
		rdma_rate_step(r, full);
	}
	for (; r->bytes >= RATE_BYTES; r->bytes -= RATE_BYTES) {
		r->by_bytes += r->by_bytes < UINT16_MAX;
		rdma_rate_step(r, full);
	}
	if (r->now >= full || r->step_at <= now)
		*r = (struct rdma_rate){.alpha = r->alpha, .alpha_at = r->alpha_at, .cut_at = r->cut_at};
}

void rdma_rate_cut(struct sp_ctx *c, struct rdma_qp *qp)
{
	const uint64_t full = rdma_of(c)->out.full;
	struct rdma_rate *r = &qp->sq.rate;

	rdma_rate_catch_up(r, full, c->now);
	if (c->now < r->cut_at)
		return;
	if (!r->now) {
		r->now = full;
		r->alpha = r->cut_at ? r->alpha : RATE_ONE;
	}
	r->target = r->now;
	r->now -= r->now / 2 * r->alpha / RATE_ONE;
	r->now = r->now > RATE_LEAST ? r->now : RATE_LEAST;
	r->alpha = r->alpha - (r->alpha >> RATE_G) + (RATE_ONE >> RATE_G);
	r->by_time = r->by_bytes = 0;
	r->bytes = 0;
	r->alpha_at = r->step_at = c->now + RATE_STEP;
	r->cut_at = c->now + RATE_CUT;
}

/* Bytes per second; 0: no limit. */
static uint64_t rdma_rate_now(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_rate *r = &qp->sq.rate;
	const uint64_t limit = (uint64_t)qp->attr.rate * (1000000 / 8);

	rdma_rate_catch_up(r, rdma_of(c)->out.full, c->now);
	return r->now && (!limit || r->now < limit) ? r->now : limit;
}

void rdma_rate_sent(struct sp_ctx *c, struct rdma_qp *qp, uint64_t bytes)
{
	struct rdma_sq *q = &qp->sq;
	uint64_t rate;

	if (!q->rate.now && !qp->attr.rate)
		return;
	q->rate.bytes += q->rate.now ? bytes : 0;
	rate = rdma_rate_now(c, qp);
	if (!rate)
		return;
	q->pace_at = (q->pace_at > c->now ? q->pace_at : c->now) + bytes * SP_SEC / rate;
}

unsigned rdma_rate_budget(struct sp_ctx *c, struct rdma_qp *qp, unsigned most)
{
	if (!qp->sq.rate.now && !qp->attr.rate)
		return most;
	if (qp->sq.pace_at > c->now)
		return 0;
	return most < RATE_BURST ? most : RATE_BURST;
}
