/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, queue pairs: what is common to requester and responder. All on the QP's worker. */
#ifndef HANDLERS_RDMA_QP_H
#define HANDLERS_RDMA_QP_H

#include "state.h"

/* NULL: no such QP. number: the QP's, or a packet's. */
struct rdma_qp *rdma_qp_find(struct sp_ctx *, uint32_t number);
/* To ERR, with an event if async >= 0 (enum sp_rdma_async). Both queues are flushed: by rdma_sq_flush(), and here. Does
 * nothing in RESET and in ERR. */
void rdma_qp_error(struct sp_ctx *, struct rdma_qp *, int async);
/* To SQE (UD and UC, after an error of the send queue): the send queue is flushed, the receive queue goes on. */
void rdma_qp_sq_error(struct sp_ctx *, struct rdma_qp *);
/* Posts the event now, or as soon as there is room. */
void rdma_qp_tell(struct sp_ctx *, struct rdma_qp *, enum sp_rdma_async);
/* Call it after setting qp->sq_at: arms the timer if it is not armed for an earlier time. */
void rdma_qp_timer(struct sp_ctx *, struct rdma_qp *);
/* The QP's issue() is to run: there is something to send, or to wait for. */
static inline void rdma_qp_start(struct sp_ctx *c, struct rdma_qp *qp)
{
	sp_issue_start(c, &qp->issue);
}
/* ERR: takes entries from its own receive queue, and completes them as flushed. True: there may be more. */
bool rdma_qp_flush_rq(struct sp_ctx *, struct rdma_qp *);
/* Nothing that the peer has asked for is answered any more. */
void rdma_qp_drop_answers(struct sp_ctx *, struct rdma_qp *);
static inline void rdma_qp_end_answer(struct rdma_qp *qp, struct rdma_resource *r)
{
	r->pending = false;
	r->answered = true;
	qp->in.pending--;
	if (qp->fetch.of == r) /* what is in the staging area is not for the next one in this place */
		qp->fetch.of = NULL;
}
/* Operations that are acknowledged complete, the others are flushed in order, as soon as ports have no frames of them;
 * also what is posted later, while the state is ERR or SQE. Posts nothing before it returns: issue() does. */
static inline void rdma_sq_flush(struct sp_ctx *c, struct rdma_qp *qp)
{
	qp->sq.flushing = true;
	qp->sq.rnr_until = 0;
	rdma_qp_start(c, qp);
}
#define RDMA_FLUSH_WAIT (100 * SP_US) /* before the receive queue is looked at again */

#endif
