/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, a QP's turn: requester and responder together. On the QP's worker. */
#ifndef HANDLERS_RDMA_FLOW_H
#define HANDLERS_RDMA_FLOW_H

#include "state.h"

/* To RESET: forgets all that was under way, without completions. */
void rdma_qp_reset(struct sp_ctx *, struct rdma_qp *);
/* qp->timer has fired. */
void rdma_qp_timer_fired(struct sp_ctx *, struct rdma_qp *);
int rdma_qp_issue(struct sp_ctx *, struct rdma_qp *, unsigned budget);

#endif
