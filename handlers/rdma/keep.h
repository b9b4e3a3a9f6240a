/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, selective repeat: requests ahead of the expected PSN. On the QP's worker; qp->selective is set. */
#ifndef HANDLERS_RDMA_KEEP_H
#define HANDLERS_RDMA_KEEP_H

#include "message.h"
#include "slot.h"

/* A request that is `ahead` packets early, whole as rdma_request_parse() found it. *tell: a gap has opened, or the peer
 * asks. The verdict: dropped means that it has to come again. */
uint32_t rdma_keep(struct sp_ctx *, struct rdma_qp *, const struct sp_packet *, const struct rdma_request *,
		   uint32_t ahead, bool *tell);

/* The expected packet if it is kept, no longer kept from then on. False: it is not. */
struct rdma_taken {
	struct sp_packet packet;
	uint32_t buffer; /* UINT32_MAX: its payload has been placed */
	struct {
		struct sp_bth bth;
		uint8_t imm[4];
	} head;
};
bool rdma_keep_take(struct sp_ctx *, struct rdma_qp *, struct rdma_taken *);
/* Once it has been executed. */
void rdma_keep_done(struct sp_ctx *, struct rdma_taken *);

/* Something has come ahead, or has been dropped there: what is missing has to come again. */
static inline bool rdma_keep_gap(const struct rdma_qp *qp)
{
	return qp->selective->gots || rdma_psn_diff(qp->in.ahead, qp->in.psn) >= 0;
}

#endif
