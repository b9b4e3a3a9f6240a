/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, receive queues: of a QP, on its worker; shared, on all. */
#ifndef HANDLERS_RDMA_RQ_H
#define HANDLERS_RDMA_RQ_H

#include "state.h"

/* Takes the oldest entry. 1; 0: there is none; -EINVAL: it was taken, but it is malformed (to->wr_id is valid). */
int rdma_rq_take(struct sp_ctx *, struct rdma_rq *, struct rdma_receive *to);
/* Sets the queue up in memory that the caller holds. -EINVAL, -EFAULT: it is not all within. */
int rdma_rq_set(struct rdma_rq *, const struct sp_mem *, uint64_t offset, uint32_t log, uint32_t sges);
/* Home worker: control requests on SRQs. */
struct rdma_rq *rdma_srq_by_id(struct sp_ctx *, uint32_t id); /* NULL */
int rdma_srq_create(struct sp_ctx *, struct sp_control *);
int rdma_srq_limit(struct sp_ctx *, struct sp_control *);
int rdma_srq_destroy(struct sp_ctx *, struct sp_control *);
void rdma_srqs_detach(struct sp_ctx *);

#endif
