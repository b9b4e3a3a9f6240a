/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, protection domains and memory regions. Home worker: control requests. */
#ifndef HANDLERS_RDMA_REGION_H
#define HANDLERS_RDMA_REGION_H

#include "state.h"

int rdma_pd_create(struct sp_ctx *, struct sp_control *);
int rdma_pd_destroy(struct sp_ctx *, struct sp_control *);
/* One more user; false: there is no such PD. rdma_pd_put(): any worker. */
bool rdma_pd_get(struct sp_ctx *, uint32_t id);
void rdma_pd_put(struct sp_ctx *, uint32_t id);
int rdma_mr_register(struct sp_ctx *, struct sp_control *);
int rdma_mr_deregister(struct sp_ctx *, struct sp_control *);
int rdma_mw_allocate(struct sp_ctx *, struct sp_control *);
int rdma_mw_deallocate(struct sp_ctx *, struct sp_control *);
int rdma_regions_attach(struct sp_ctx *);
void rdma_regions_detach(struct sp_ctx *);

/* Of control requests: a struct of exactly this size came in; room for the answer, NULL if there is none. */
static inline const void *rdma_in(const struct sp_control *x, uint32_t bytes)
{
	return x->in_len == bytes ? x->in : NULL;
}
static inline void *rdma_out(const struct sp_control *x, uint32_t bytes)
{
	return x->out_room >= bytes ? x->out : NULL;
}
static inline int rdma_answer_id(struct sp_control *x, uint32_t id)
{
	memcpy(x->out, &id, sizeof(id)); /* of struct sp_rdma_id; the room was checked */
	x->out_len = sizeof(id);
	return 0;
}
/* 0: none came. */
static inline uint32_t rdma_id_of(const struct sp_control *x)
{
	uint32_t id = 0;

	if (x->in_len == sizeof(struct sp_rdma_id))
		memcpy(&id, x->in, sizeof(id));
	return id;
}

#endif
