/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, answers to requests: what they acknowledge, and what they bring. On the QP's worker. */
#ifndef HANDLERS_RDMA_ACK_H
#define HANDLERS_RDMA_ACK_H

#include "retry.h"

/* An answer from the peer, RC. The packet's verdict. */
uint32_t rdma_answered(struct sp_ctx *, struct rdma_qp *, struct sp_packet *);

#endif
