/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, queue pairs: states, errors, flush, timer, issue. */
#include "qp.h"
#include "answer.h"
#include "cq.h"
#include "rq.h"
#include "tell.h"

#define RDMA_FLUSH	256 /* receive entries at once */
#define RDMA_FLUSH_WAIT (100 * SP_US)
#define RDMA_FLUSH_LAST (2 * SP_SEC)

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
	const struct sp_rdma_cqe e = {
		.wr_id = r->wr_id, .qp = qp->number, .status = SP_RDMA_FLUSHED, .op = SP_RDMA_WC_RECV};

	r->taken = false;
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

void rdma_qp_error(struct sp_ctx *c, struct rdma_qp *qp, int async)
{
	const uint8_t state = rdma_state(qp);

	if (state == SP_RDMA_RESET || state == SP_RDMA_ERR)
		return;
	__atomic_store_n(&qp->state, SP_RDMA_ERR, __ATOMIC_RELEASE);
	rdma_answer_drop(qp);
	qp->in.failing = false;
	if (async >= 0)
		rdma_qp_tell(c, qp, (enum sp_rdma_async)async);
	if (qp->in.receive.taken)
		rdma_qp_flushed(c, qp, &qp->in.receive);
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

void rdma_qp_reset(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_responder *in = &qp->in;

	__atomic_store_n(&qp->state, SP_RDMA_RESET, __ATOMIC_RELEASE);
	rdma_answer_drop(qp);
	rdma_sq_reset(c, qp);
	rdma_teller_forget(&qp->teller);
	if (qp->path)
		sp_path_close(c, qp->path);
	qp->path = NULL;
	qp->sq_at = qp->rq_at = SP_NEVER;
	if (qp->timer.armed)
		sp_timer_cancel(c, &qp->timer);
	in->receive.taken = false;
	in->failing = in->nak_sent = in->skipping = in->heard = false;
	in->message = RDMA_MESSAGE_NONE;
	in->msn = in->next = 0;
	for (unsigned i = 0; i < SP_RDMA_READS; i++)
		in->resource[i].kind = RDMA_RESOURCE_NONE; /* what it holds, it holds until ports have let go */
}

/* ---- timer ---- */
void rdma_qp_timer(struct sp_ctx *c, struct rdma_qp *qp)
{
	const sp_time at = qp->sq_at < qp->rq_at ? qp->sq_at : qp->rq_at;

	/* An earlier timer finds nothing to do, and arms itself anew: cheaper than to move it with each packet. */
	if (at != SP_NEVER && !(qp->timer.armed && qp->timer.at <= at))
		sp_timer_arm(c, &qp->timer, at);
}

void rdma_qp_timer_fired(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (rdma_state(qp) == SP_RDMA_RESET)
		return;
	if (qp->sq_at <= c->now)
		rdma_request_timer(c, qp);
	if (qp->rq_at <= c->now) {
		qp->rq_wait = rdma_qp_flush_rq(c, qp) ? RDMA_FLUSH_WAIT : 2 * qp->rq_wait;
		qp->rq_at = qp->rq_wait <= RDMA_FLUSH_LAST ? c->now + qp->rq_wait : SP_NEVER;
	}
	rdma_qp_timer(c, qp);
}

/* ---- issue ---- */
int rdma_qp_issue(struct sp_ctx *c, struct rdma_qp *qp, unsigned budget)
{
	unsigned sent = 0;
	int answer, request;

	if (rdma_state(qp) == SP_RDMA_RESET)
		return SP_ISSUE_DONE;
	if (rdma_cq_failed(qp->send_cq) || rdma_cq_failed(qp->recv_cq))
		rdma_qp_error(c, qp, SP_RDMA_ASYNC_QP_FATAL);
	/* Answers first, but a peer that reads all day leaves half to our own requests. */
	answer = rdma_answer_issue(c, qp, (budget + 1) / 2, &sent);
	request = rdma_request_issue(c, qp, budget - sent, &sent);
	if (answer == SP_ISSUE_MORE && sent < budget)
		answer = rdma_answer_issue(c, qp, budget, &sent);
	if (rdma_state(qp) == SP_RDMA_ERR && rdma_qp_flush_rq(c, qp))
		return SP_ISSUE_MORE;
	if (answer == SP_ISSUE_MORE || request == SP_ISSUE_MORE)
		return SP_ISSUE_MORE;
	return answer == SP_ISSUE_WAIT || request == SP_ISSUE_WAIT ? SP_ISSUE_WAIT : SP_ISSUE_DONE;
}
