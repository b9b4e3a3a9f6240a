/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, where the payload of requests goes: receive entries, and ranges that the peer names. On the QP's worker. */
#ifndef HANDLERS_RDMA_PLACE_H
#define HANDLERS_RDMA_PLACE_H

#include "state.h"

/* A receive entry in qp->in.receive, if there is none yet. 1; 0: none is posted; -EINVAL: malformed. */
int rdma_receive_take(struct sp_ctx *, struct rdma_qp *);
/* The next bytes of the message. -EMSGSIZE: the entry is full; -EACCES: an SGE's key, rights or range. */
int rdma_receive_place(struct sp_ctx *, struct rdma_qp *, const uint8_t *from, uint32_t len);
/* The entry's message is abandoned (UC): the next one gets it. */
void rdma_receive_rewind(struct rdma_qp *);
/* wr_id, qp: filled in. The entry is done with. */
void rdma_receive_done(struct sp_ctx *, struct rdma_qp *, struct sp_rdma_cqe *, bool solicited);
/* Bytes of a WRITE. -EACCES. -EAGAIN: an agent serves this memory, and is busy. */
int rdma_write_place(struct sp_ctx *, struct rdma_qp *, uint32_t rkey, uint64_t va, const uint8_t *from, uint32_t len);

#endif
