/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, requests that arrive: RC and UC. On the QP's worker. */
#ifndef HANDLERS_RDMA_RESPOND_H
#define HANDLERS_RDMA_RESPOND_H

#include "state.h"

/* Both return the verdict. Answers become due: rdma_answer_issue(). */
uint32_t rdma_respond_rc(struct sp_ctx *, struct rdma_qp *, struct sp_packet *);
uint32_t rdma_respond_uc(struct sp_ctx *, struct rdma_qp *, struct sp_packet *);

#endif
