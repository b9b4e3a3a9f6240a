/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, retries: go back N, as the specification has it (volume 1, 9.7.5.1, 9.7.6). To go back is to move sq.at to
 * sq.una; packets are made anew from memory. With selective repeat sq.at then skips what is not lost.
 */
#include "retry.h"
#include "qp.h"
#include "selective.h"

#define RETRY_TICK     4096000ull /* 4.096 us, in ps */
#define RETRY_INFINITE 7	  /* of rnr_retry */

/* Table 45 of the specification, in 10 us. */
static const uint32_t rdma_rnr_time[32] = {65536, 1,	2,    3,    4,	  6,	 8,	12,    16,    24,   32,
					   48,	  64,	96,   128,  192,  256,	 384,	512,   768,   1024, 1536,
					   2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

void rdma_sq_fail(struct rdma_qp *qp, enum sp_rdma_status status)
{
	struct rdma_sq *q = &qp->sq;

	if (!q->wait || q->wait->status)
		return;
	q->wait->status = (uint8_t)status;
	q->failed = true;
}

/* all: and not only the oldest packet, with selective repeat. */
static void rdma_go_back(struct sp_ctx *c, struct rdma_qp *qp, bool all)
{
	struct rdma_sq *q = &qp->sq;

	if (qp->selective) {
		rdma_selective_again(qp, all);
	} else {
		q->at = q->una;
		q->send = q->wait;
		q->ask = q->una;
		q->since_ask = 0;
	}
	q->heard = c->now;
	qp->attr.retries++;
	rdma_qp_start(c, qp);
}

void rdma_sq_advance(struct sp_ctx *c, struct rdma_qp *qp, uint64_t una)
{
	struct rdma_sq *q = &qp->sq;
	const uint64_t before = q->una;
	struct rdma_op *op;

	q->una = una;
	if (qp->selective)
		rdma_selective_advance(qp, before);
	while ((op = q->wait) != NULL && !op->status && rdma_op_end(op) <= una && op->begun) {
		q->reads -= op->counted;
		op->counted = false;
		q->restarting = false;
		q->wait = op->next;
	}
	if (q->at < una) { /* it was about to be sent again */
		q->at = una;
		q->send = q->wait;
	}
	q->heard = c->now;
	q->retries = qp->attr.retry_cnt;
	q->rnrs = qp->attr.rnr_retry;
	q->rnr_until = 0;
}

void rdma_retry_response(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	/* What was on its way when it was asked for again tells nothing new. If the new answer's first packet is lost,
	 * the timeout helps. */
	if (q->restarting)
		return;
	q->restarting = true;
	q->restart = q->una;
	rdma_go_back(c, qp, false);
}

/* False: the packet at sq.una has been asked for often enough. */
static bool rdma_may_repeat(struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	if (q->nak_at == q->una + 1 && !q->retries) {
		rdma_sq_fail(qp, SP_RDMA_RETRY_EXC_ERR);
		return false;
	}
	q->retries -= q->nak_at == q->una + 1;
	q->nak_at = q->una + 1;
	return true;
}

void rdma_retry_sequence(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (qp->sq.at != qp->sq.una && rdma_may_repeat(qp)) /* otherwise it will be sent anyway */
		rdma_go_back(c, qp, true);
}

void rdma_retry_report(struct sp_ctx *c, struct rdma_qp *qp, uint64_t seq, const uint8_t *from, uint32_t len)
{
	bool oldest;
	const unsigned n = rdma_selective_report(c, qp, seq, from, len, &oldest);

	if (!n || (oldest && !rdma_may_repeat(qp)))
		return;
	qp->sq.heard = c->now;
	qp->attr.retries++;
	rdma_qp_start(c, qp);
}

void rdma_retry_rnr(struct sp_ctx *c, struct rdma_qp *qp, uint8_t code)
{
	struct rdma_sq *q = &qp->sq;

	if (q->rnr_until) /* it waits already: the NAK is a repeated one */
		return;
	if (!q->rnrs) {
		rdma_sq_fail(qp, SP_RDMA_RNR_RETRY_EXC_ERR);
		return;
	}
	q->rnrs -= q->rnrs != RETRY_INFINITE;
	q->rnr_until = c->now + rdma_rnr_time[code & 31] * 10 * SP_US;
	rdma_go_back(c, qp, true);
}

/* An acknowledgement is awaited. */
static bool rdma_awaits(const struct rdma_qp *qp)
{
	const struct rdma_sq *q = &qp->sq;

	return qp->type == SP_RDMA_RC && q->una < q->ask && q->wait && !q->wait->status && !q->rnr_until;
}

/* SP_NEVER: none is awaited, or for ever. */
static sp_time rdma_timeout_at(const struct rdma_qp *qp)
{
	if (!rdma_awaits(qp) || !(qp->attr.timeout & 31))
		return SP_NEVER;
	return qp->sq.heard + (RETRY_TICK << (qp->attr.timeout & 31));
}

/* Selective repeat only. */
static sp_time rdma_probe_at(const struct rdma_qp *qp)
{
	return qp->selective && rdma_awaits(qp) ? rdma_selective_probe_at(qp) : SP_NEVER;
}

static void rdma_timed_out(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	c->counters[RDMA_TIMEOUTS]++;
	q->restarting = false;
	if (!q->retries) {
		rdma_sq_fail(qp, SP_RDMA_RETRY_EXC_ERR);
		rdma_qp_start(c, qp);
		return;
	}
	q->retries--;
	rdma_go_back(c, qp, true);
}

void rdma_retry_timer(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	qp->sq_at = SP_NEVER;
	if (q->flushing)
		return;
	if (q->rnr_until && q->rnr_until <= c->now) {
		q->rnr_until = 0;
		q->heard = c->now;
		rdma_qp_start(c, qp);
	} else if (rdma_timeout_at(qp) <= c->now) {
		rdma_timed_out(c, qp);
	} else if (rdma_probe_at(qp) <= c->now) {
		c->counters[RDMA_PROBES]++;
		qp->selective->probes++;
		qp->selective->probed = c->now;
		rdma_selective_again(qp, false);
		rdma_qp_start(c, qp);
	}
	if (q->pace_at && q->pace_at <= c->now) {
		q->pace_at = 0;
		rdma_qp_start(c, qp);
	}
	rdma_retry_arm(c, qp);
}

void rdma_retry_arm(struct sp_ctx *c, struct rdma_qp *qp)
{
	const struct rdma_sq *q = &qp->sq;
	sp_time at = rdma_timeout_at(qp), probe = rdma_probe_at(qp);

	at = probe < at ? probe : at;
	if (q->flushing)
		return;
	if (q->rnr_until)
		at = q->rnr_until;
	if (q->pace_at > c->now && q->pace_at < at)
		at = q->pace_at;
	if (at >= qp->sq_at) /* it comes earlier, and looks again */
		return;
	qp->sq_at = at;
	rdma_qp_timer(c, qp);
}
