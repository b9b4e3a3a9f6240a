/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, the beginning and the end of QPs. */
#ifndef HANDLERS_RDMA_CREATE_H
#define HANDLERS_RDMA_CREATE_H

#include "state.h"

int rdma_qps_attach(struct sp_ctx *);
void rdma_qps_detach(struct sp_ctx *);
int rdma_qp_create(struct sp_ctx *, struct sp_control *);  /* home worker */
int rdma_qp_destroy(struct sp_ctx *, struct sp_control *); /* the QP's worker */

#endif
