/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, selective repeat: the requester's part, and what a report says. On the QP's worker; qp->selective is set. */
#ifndef HANDLERS_RDMA_SELECTIVE_H
#define HANDLERS_RDMA_SELECTIVE_H

#include "slot.h"

#define RDMA_GAP_BYTES SP_ROCE_MTU_MAX /* of the bitmap in a report, at most; and no more than the path MTU */

/* The packet of PSNs [seq, end) leaves now. Before sq.end moves on. */
void rdma_selective_sent(struct sp_ctx *, struct rdma_qp *, uint64_t seq);
/* sq.una has moved on from `una`. */
void rdma_selective_advance(struct rdma_qp *, uint64_t una);
/* sq.at moves to the next lost packet, or behind all that were sent. */
void rdma_selective_skip(struct rdma_qp *);
/* To be sent again: the oldest packet; or that, and all that the peer is not known to have. */
void rdma_selective_again(struct rdma_qp *, bool all);
/* An ACK has come of this PSN. */
void rdma_selective_acked(struct sp_ctx *, struct rdma_qp *, uint64_t seq);
/* A report, what follows its AETH, with this PSN. How many packets were found lost; *oldest: that at sq.una is among
 * them. */
unsigned rdma_selective_report(struct sp_ctx *, struct rdma_qp *, uint64_t seq, const uint8_t *from, uint32_t len,
			       bool *oldest);
/* When the oldest packet is sent again to learn what has come. Only while an answer is awaited. */
sp_time rdma_selective_probe_at(const struct rdma_qp *);

/* What follows the AETH of a report. How many bytes of the bitmap. */
uint32_t rdma_selective_gaps(const struct rdma_qp *, uint8_t latest[4], uint8_t bitmap[RDMA_GAP_BYTES]);

#endif
