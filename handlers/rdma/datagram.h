/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, datagrams that arrive: UD. On the QP's worker. */
#ifndef HANDLERS_RDMA_DATAGRAM_H
#define HANDLERS_RDMA_DATAGRAM_H

#include "state.h"

uint32_t rdma_respond_ud(struct sp_ctx *, struct rdma_qp *, struct sp_packet *); /* the verdict */

#endif
