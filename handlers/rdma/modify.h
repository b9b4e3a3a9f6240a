/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, control requests on a QP: on its worker. */
#ifndef HANDLERS_RDMA_MODIFY_H
#define HANDLERS_RDMA_MODIFY_H

#include "state.h"

int rdma_qp_modify(struct sp_ctx *, struct rdma_qp *, struct sp_control *);
int rdma_qp_query(struct sp_ctx *, struct rdma_qp *, struct sp_control *);

#endif
