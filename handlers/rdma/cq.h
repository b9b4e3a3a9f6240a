/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, completion queues. */
#ifndef HANDLERS_RDMA_CQ_H
#define HANDLERS_RDMA_CQ_H

#include "state.h"

/* Any worker. Adds the entry (its phase is set here). solicited: it wakes an application that waits for solicited
 * completions; errors do anyway. False: the queue has overflown; its QPs go to ERR by themselves. */
bool rdma_cq_post(struct sp_ctx *, struct rdma_cq *, const struct sp_rdma_cqe *, bool solicited);
static inline bool rdma_cq_failed(const struct rdma_cq *q)
{
	return __atomic_load_n(&q->failed, __ATOMIC_ACQUIRE);
}
/* Home worker: control requests. */
int rdma_cq_create(struct sp_ctx *, struct sp_control *);
int rdma_cq_destroy(struct sp_ctx *, struct sp_control *);
struct rdma_cq *rdma_cq_by_id(struct sp_ctx *, uint32_t id); /* NULL */
void rdma_cqs_detach(struct sp_ctx *);

#endif
