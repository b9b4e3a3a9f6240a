/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, queue pairs: errors, flush, timer. */
#include "qp.h"
#include "cq.h"
#include "peer.h"
#include "rq.h"
#include "second.h"
#include "slot.h"
#include "tell.h"

#define RDMA_FLUSH 256 /* receive entries at once */

struct rdma_qp *rdma_qp_find(struct sp_ctx *c, uint32_t number)
{
	struct rdma *s = rdma_of(c);
	const uint32_t index = number - s->first_qp;
	struct rdma_qp *qp = index < s->qps ? &s->qp[index] : NULL;

	return qp && __atomic_load_n(&qp->used, __ATOMIC_ACQUIRE) && !qp->dying ? qp : NULL;
}

void rdma_qp_tell(struct sp_ctx *c, struct rdma_qp *qp, enum sp_rdma_async what)
{
	rdma_tell(c, &qp->teller, 1u << what);
}

static void rdma_qp_flushed(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_receive *r)
{
	struct sp_rdma_cqe e = {.wr_id = r->wr_id, .qp = qp->number, .status = SP_RDMA_FLUSHED, .op = SP_RDMA_WC_RECV};

	r->taken = false;
	if (r->second)
		rdma_second_done(c, qp, r->second, &e);
	else
		rdma_cq_post(c, qp->recv_cq, &e, true);
}

bool rdma_qp_flush_rq(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_receive r;

	if (qp->rq != &qp->own) /* an SRQ's entries serve other QPs */
		return false;
	for (unsigned i = 0; i < RDMA_FLUSH; i++) {
		if (!rdma_rq_take(c, qp->rq, &r))
			return false;
		rdma_qp_flushed(c, qp, &r);
	}
	return true;
}

void rdma_qp_drop_answers(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_responder *in = &qp->in;

	for (unsigned i = 0; in->pending && i < SP_RDMA_READS; i++)
		if (in->resource[i].pending)
			rdma_qp_end_answer(qp, &in->resource[i]);
	in->ack_due = in->again_due = false;
	rdma_peer_done(c, qp);
	qp->fetch = (struct rdma_fetch){.ids = qp->fetch.ids}; /* no answer is one any more */
	qp->ask_at = SP_NEVER;
}

void rdma_qp_error(struct sp_ctx *c, struct rdma_qp *qp, int async)
{
	const uint8_t state = rdma_state(qp);

	if (state == SP_RDMA_RESET || state == SP_RDMA_ERR)
		return;
	__atomic_store_n(&qp->state, SP_RDMA_ERR, __ATOMIC_RELEASE);
	rdma_qp_drop_answers(c, qp);
	rdma_selective_drop(c, qp);
	qp->in.failing = false;
	if (async >= 0)
		rdma_qp_tell(c, qp, (enum sp_rdma_async)async);
	if (qp->in.receive.taken)
		rdma_qp_flushed(c, qp, &qp->in.receive);
	rdma_second_flush_receives(c, qp);
	rdma_qp_flush_rq(c, qp);
	rdma_sq_flush(c, qp);
	if (qp->rq != &qp->own)
		rdma_qp_tell(c, qp, SP_RDMA_ASYNC_QP_LAST_WQE);
	/* Receive entries have no doorbell. For those that are posted from now on, it looks now and then, for a while;
	 * later only when the doorbell of the send queue rings. */
	qp->rq_wait = RDMA_FLUSH_WAIT;
	qp->rq_at = qp->rq == &qp->own ? c->now + qp->rq_wait : SP_NEVER;
	rdma_qp_timer(c, qp);
	rdma_qp_start(c, qp);
}

void rdma_qp_sq_error(struct sp_ctx *c, struct rdma_qp *qp)
{
	const uint8_t state = rdma_state(qp);

	if (state != SP_RDMA_RTS && state != SP_RDMA_SQD)
		return;
	__atomic_store_n(&qp->state, SP_RDMA_SQE, __ATOMIC_RELEASE);
	rdma_sq_flush(c, qp);
	rdma_qp_start(c, qp);
}

/* ---- timer ---- */
void rdma_qp_timer(struct sp_ctx *c, struct rdma_qp *qp)
{
	sp_time at = qp->sq_at < qp->rq_at ? qp->sq_at : qp->rq_at;

	at = qp->ask_at < at ? qp->ask_at : at;

	/* An earlier timer finds nothing to do, and arms itself anew: cheaper than to move it with each packet. */
	if (at != SP_NEVER && !(qp->timer.armed && qp->timer.at <= at))
		sp_timer_arm(c, &qp->timer, at);
}
