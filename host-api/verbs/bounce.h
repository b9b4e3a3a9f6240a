/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the NIC has made, for what it does not reach: sends are copied when they are posted, receives and READs
 * when their completions are taken. Lock held. */
#ifndef HOST_API_VERBS_BOUNCE_H
#define HOST_API_VERBS_BOUNCE_H

#include "../rdma.h"

#define SHIM_BOUNCE_LIMIT (256ull << 20) /* bytes, in all */

struct shim_bounce; /* one per attachment */
struct shim_chunk;
struct shim_piece {
	struct shim_chunk *chunk;
	void *addr;
	uint64_t bytes; /* at least as many as were asked for */
};

#pragma GCC visibility push(hidden)
struct shim_bounce *shim_bounce_open(struct sp_dev *dev); /* NULL: no memory */
/* All pieces are given back, and all domains have left, or the device is closed next. */
void shim_bounce_close(struct shim_bounce *b);
/* -ENOMEM: the limit, or the NIC's, is reached; pieces that are given back help. What is in it is of whoever had it. */
int shim_bounce_take(struct shim_bounce *b, size_t bytes, struct shim_piece *piece);
void shim_bounce_give(struct shim_bounce *b, struct shim_piece *piece); /* a piece without a chunk is none */
/* The key of the piece's memory in that domain, for local access alone; its address is piece->addr. */
int shim_bounce_lkey(struct shim_bounce *b, struct sp_rdma_pd *pd, const struct shim_piece *piece, uint32_t *lkey);
int shim_bounce_leave(struct shim_bounce *b, struct sp_rdma_pd *pd);	     /* pd ends. -EAGAIN: call again */
void shim_bounce_forget(struct shim_bounce *b, const struct sp_rdma_pd *pd); /* pd has ended with its context */
#pragma GCC visibility pop

#endif
