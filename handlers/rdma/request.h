/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, the requester: send queue -> packets, and answers -> completions. All on the QP's worker. Its files:
 *   wqe      entries of the send queue, copied once, and checked: struct rdma_op, from a pool per worker
 *   rate     how fast a QP may send: its limit, and congestion (DCQCN)
 *   packet   operations -> packets
 *   retry    what was not acknowledged is sent again: timeouts, NAKs, RNR
 *   ack      answers -> what is acknowledged, and what READ and ATOMIC bring
 *   request  what the rest of the handler calls; completions, flush
 */
#ifndef HANDLERS_RDMA_REQUEST_H
#define HANDLERS_RDMA_REQUEST_H

#include "state.h"

/* Of struct sp_param, for the handler's table. */
#define RDMA_REQUEST_PARAMS                                                                                            \
	{"requests", SP_UINT, "4K", 64, 1 << 20, "Work requests that each worker sends at once", NULL},                \
		{"cc-rate", SP_RATE, "100G", 10000000, 0, "Rate from which a CNP slows a QP down", NULL},              \
	{                                                                                                              \
		"send-window", SP_UINT, "256", 4, 1 << 16, "Packets of a QP without an acknowledgement, at most", NULL \
	}

/* A new QP in RESET, with qp->mem set: on the home worker. -EINVAL, -EFAULT: the queue is not within the region. */
int rdma_sq_open(struct sp_ctx *, struct rdma_qp *, const struct sp_rdma_qp_create *);
/* To RESET, and before the QP's end: forgets all operations, without completions. Then rdma_sq_settled(). */
void rdma_sq_reset(struct sp_ctx *, struct rdma_qp *);
/* No port has frames of its operations: memory may go. If not, ask again from issue() or later. */
bool rdma_sq_settled(struct sp_ctx *, struct rdma_qp *);
/* After each change of state by modify, `before` is the old one; not for RESET and ERR. attr is set. */
void rdma_sq_state(struct sp_ctx *, struct rdma_qp *, uint8_t before);

/* Command SP_RDMA_CMD_DOORBELL. */
void rdma_doorbell(struct sp_ctx *, struct rdma_qp *);
/* Of qp->issue, in any state but RESET. Adds to *sent. SP_ISSUE_*. */
int rdma_request_issue(struct sp_ctx *, struct rdma_qp *, unsigned budget, unsigned *sent);
/* qp->sq_at has come. It is SP_NEVER, or a later time, afterwards. */
void rdma_request_timer(struct sp_ctx *, struct rdma_qp *);
/* READ_RESPONSE_*, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, CNP for this QP. Sets the packet's verdict. */
void rdma_request_answer(struct sp_ctx *, struct rdma_qp *, struct sp_packet *);

#endif
