/* SPDX-License-Identifier: BSD-3-Clause */
#include "flow.h"
#include "answer.h"
#include "cq.h"
#include "fetch.h"
#include "peer.h"
#include "qp.h"
#include "request.h"
#include "second.h"
#include "slot.h"
#include "tell.h"

#define RDMA_FLUSH_LAST (2 * SP_SEC)

/* What was begun of a companion's requests is given back when ports have let go of it. */
static void rdma_second_stop(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_receive *filling = &qp->in.receive;
	struct sp_qp_work *second = filling->taken ? filling->second : NULL;

	filling->taken = false;
	if (!qp->second.calls)
		return;
	qp->second.ending = true;
	if (second)
		rdma_second_flushed(c, qp, second);
	rdma_second_flush_receives(c, qp);
	rdma_second_flush(c, qp);
	rdma_second_check(c, qp);
}

void rdma_qp_reset(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_responder *in = &qp->in;

	__atomic_store_n(&qp->state, SP_RDMA_RESET, __ATOMIC_RELEASE);
	rdma_qp_drop_answers(c, qp);
	rdma_selective_end(c, qp);
	rdma_peer_leave(c, qp);
	rdma_second_stop(c, qp);
	rdma_sq_reset(c, qp);
	rdma_teller_forget(&qp->teller);
	if (qp->path)
		sp_path_close(c, qp->path);
	qp->path = NULL;
	qp->sq_at = qp->rq_at = SP_NEVER;
	if (qp->timer.armed)
		sp_timer_cancel(c, &qp->timer);
	qp->own.next = 0; /* as the send queue: the application begins at entry 0 again */
	in->receive.taken = false;
	in->failing = in->nak_sent = in->skipping = in->heard = false;
	in->message = RDMA_MESSAGE_NONE;
	in->msn = in->next = 0;
	for (unsigned i = 0; i < SP_RDMA_READS; i++)
		in->resource[i].kind = RDMA_RESOURCE_NONE; /* what it holds, it holds until ports have let go */
}

void rdma_qp_timer_fired(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (rdma_state(qp) == SP_RDMA_RESET)
		return;
	if (qp->sq_at <= c->now)
		rdma_request_timer(c, qp);
	if (qp->ask_at <= c->now)
		rdma_fetch_timer(c, qp);
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
		return rdma_request_issue(c, qp, 0, &sent); /* frames of before */
	if (qp->second.ending) {
		rdma_second_flush_receives(c, qp);
		rdma_second_flush(c, qp);
		rdma_second_check(c, qp);
	}
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
