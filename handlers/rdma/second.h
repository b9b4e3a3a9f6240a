/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, work of a companion that uses a QP beside the application. On the QP's worker; never within a companion's call
 * to export.c. */
#ifndef HANDLERS_RDMA_SECOND_H
#define HANDLERS_RDMA_SECOND_H

#include "state.h"

/* Adds work at the end of a list. */
void rdma_second_add(struct rdma_works *, struct sp_qp_work *);
/* Takes the oldest one; NULL: there is none. */
struct sp_qp_work *rdma_second_take(struct rdma_works *);
/* The work is the companion's again. e: wr_id and qp are filled in. */
void rdma_second_done(struct sp_ctx *, struct rdma_qp *, struct sp_qp_work *, struct sp_rdma_cqe *e);
void rdma_second_flushed(struct sp_ctx *, struct rdma_qp *, struct sp_qp_work *);
/* All receives that no message has begun to fill are flushed; the same with requests. */
void rdma_second_flush_receives(struct sp_ctx *, struct rdma_qp *);
void rdma_second_flush(struct sp_ctx *, struct rdma_qp *);
/* The binding ends, if it is to and nothing is out. */
void rdma_second_check(struct sp_ctx *, struct rdma_qp *);
static inline bool rdma_second_serves(const struct rdma_qp *qp)
{
	return qp->second.calls && !qp->second.ending;
}
/* Like rdma_rq_take(). */
int rdma_second_receive(struct rdma_qp *, struct rdma_receive *to);

#endif
