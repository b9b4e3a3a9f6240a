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
/* To RESET: forgets all that was under way, without completions. */
void rdma_qp_reset(struct sp_ctx *, struct rdma_qp *);
/* qp->timer has fired. */
void rdma_qp_timer_fired(struct sp_ctx *, struct rdma_qp *);
int rdma_qp_issue(struct sp_ctx *, struct rdma_qp *, unsigned budget);

#endif
