/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, events to the application: none is lost while its queue is full. Any worker. */
#ifndef HANDLERS_RDMA_TELL_H
#define HANDLERS_RDMA_TELL_H

#include "state.h"

/* what: 1 << enum sp_rdma_async, or RDMA_OWED_CQ. */
void rdma_tell(struct sp_ctx *, struct rdma_teller *, uint32_t what);
/* For a new object in the slot. Its place in a worker's list, if it has one, stays. */
void rdma_teller_set(struct rdma_teller *, uint64_t cookie, uint32_t id);
/* The object ends: what is owed is forgotten. */
void rdma_teller_forget(struct rdma_teller *);
/* The worker's timer. */
void rdma_tell_again(struct sp_ctx *);

#endif
