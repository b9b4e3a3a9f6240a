/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, how fast a QP may send: the limit that its application sets, and congestion. On the QP's worker. */
#ifndef HANDLERS_RDMA_RATE_H
#define HANDLERS_RDMA_RATE_H

#include "state.h"

/* A CNP has come. */
void rdma_rate_cut(struct sp_ctx *, struct rdma_qp *);
/* So many bytes were sent: sets sq.pace_at. */
void rdma_rate_sent(struct sp_ctx *, struct rdma_qp *, uint64_t bytes);
/* Packets that a QP may send now, at most `most`. */
unsigned rdma_rate_budget(struct sp_ctx *, struct rdma_qp *, unsigned most);

#endif
