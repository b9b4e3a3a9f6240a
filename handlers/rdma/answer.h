/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, what the responder of RC sends: ACKs, NAKs, READ responses, ATOMIC answers, in the order of PSNs; and CNPs. */
#ifndef HANDLERS_RDMA_ANSWER_H
#define HANDLERS_RDMA_ANSWER_H

#include "state.h"

struct rdma_atomic_eth {
	uint8_t va[8], rkey[4], swap_add[8], compare[8];
};
static_assert(sizeof(struct rdma_atomic_eth) == 28, "AtomicETH");

/* Sends what is due: as issue work, or at the end of a burst of requests with budget 0: then only what needs no
 * pacing. Adds to *sent. SP_ISSUE_*: WAIT: only ports are waited for. */
int rdma_answer_issue(struct sp_ctx *, struct rdma_qp *, unsigned budget, unsigned *sent);
static inline bool rdma_answer_due(const struct rdma_qp *qp)
{
	return qp->in.ack_due || qp->in.again_due || qp->in.pending || qp->fetch.filled;
}
/* Ports have no frames of READ responses any more, and the regions are let go. */
bool rdma_answer_settled(struct sp_ctx *, struct rdma_qp *);
/* The peer may have so many READs and ATOMICs under way from now on: what is still to be answered, or may be asked for
 * again, moves to where it is looked for then. What is too much is forgotten, the oldest first. */
void rdma_answer_places(struct rdma_qp *, uint32_t n);
/* A packet was marked by a switch: congestion notification, at most one per interval. */
void rdma_answer_cnp(struct sp_ctx *, struct rdma_qp *);

#endif
