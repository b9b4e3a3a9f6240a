/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, memory that an agent in the application serves, by way of a staging area: a READ or ATOMIC waits until the
 * agent has brought it, and what WRITEs bring is handed to the agent. Of each QP one of either is under way. On its
 * worker.
 */
#ifndef HANDLERS_RDMA_FETCH_H
#define HANDLERS_RDMA_FETCH_H

#include "state.h"

int rdma_agent_set(struct sp_ctx *, struct sp_control *); /* home worker: SP_RDMA_AGENT */
/* SP_RDMA_CMD_FETCHED. -ENOENT: nobody waits for this answer (any more). */
int rdma_fetch_answer(struct sp_ctx *, struct rdma_qp *, const struct sp_command *);
/* qp->ask_at has come. */
void rdma_fetch_timer(struct sp_ctx *, struct rdma_qp *);

/* Bytes of a WRITE. -EAGAIN: no room before the agent answers, or an earlier ATOMIC is not done. */
int rdma_fetch_put(struct sp_ctx *, struct rdma_qp *, uint32_t rkey, uint64_t va, const uint8_t *from, uint32_t len);
/* The agent has not got all that WRITEs have brought: nothing may acknowledge them. */
static inline bool rdma_fetch_putting(const struct rdma_qp *qp)
{
	return qp->fetch.filled || qp->fetch.put.id;
}
/* The agent has been asked all that requests so far want changed: a completion may come behind that. */
bool rdma_fetch_ordered(struct sp_ctx *, struct rdma_qp *);
/* Hands over what has come, if the agent is not busy with what came before. */
void rdma_fetch_submit(struct sp_ctx *, struct rdma_qp *);
/* The READ's bytes from r->at on are in the staging area, up to before r's byte *stop, the first of them at *piece.
 * False: they are asked for. */
bool rdma_fetch_read(struct sp_ctx *, struct rdma_qp *, struct rdma_resource *, const struct rdma_mr *, uint32_t *stop,
		     struct sp_piece *piece);
/* The ATOMIC is done. False: it is asked for. */
bool rdma_fetch_atomic(struct sp_ctx *, struct rdma_qp *, struct rdma_resource *);
static inline uint32_t rdma_fetch_room(struct sp_ctx *c) /* bytes at once */
{
	return 1u << rdma_of(c)->agent_log;
}

#endif
