/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, what was not acknowledged is sent again. On the QP's worker. */
#ifndef HANDLERS_RDMA_RETRY_H
#define HANDLERS_RDMA_RETRY_H

#include "wqe.h"

/* The oldest operation without an acknowledgement ends with this error, once those before it have completed. */
void rdma_sq_fail(struct rdma_qp *, enum sp_rdma_status);
/* Moves sq.una on, which is progress, and what follows from it. */
void rdma_sq_advance(struct sp_ctx *, struct rdma_qp *, uint64_t una);
/* Responses that the READ or ATOMIC at sq.una still has to get were lost. */
void rdma_retry_response(struct sp_ctx *, struct rdma_qp *);
/* NAK of PSN sq.una: sequence error; receiver not ready, with its timer code. */
void rdma_retry_sequence(struct sp_ctx *, struct rdma_qp *);
void rdma_retry_rnr(struct sp_ctx *, struct rdma_qp *, uint8_t code);
/* Selective repeat: a sequence NAK of PSN `seq` with a report: what follows the AETH, at least 4 bytes. */
void rdma_retry_report(struct sp_ctx *, struct rdma_qp *, uint64_t seq, const uint8_t *from, uint32_t len);
/* qp->sq_at has come: does what is due. */
void rdma_retry_timer(struct sp_ctx *, struct rdma_qp *);
/* Sets qp->sq_at to the next time at which something is due. */
void rdma_retry_arm(struct sp_ctx *, struct rdma_qp *);

#endif
