/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, what a peer's key opens: a region, or a window: a part of one, which a work request binds. A window has a slot
 * beside the regions'. Any worker may look it up while another binds it: its key is 0 in between, and who looks it up
 * reads the key before and after all else. Whatever a reader makes of it, it gets a region of the same PD, and a range
 * within that.
 */
#ifndef HANDLERS_RDMA_RKEY_H
#define HANDLERS_RDMA_RKEY_H

#include "state.h"

/* The region of an rkey that this QP's peer has sent, also where the key is a window's, if all of [va, va + len) is in
 * it, it belongs to the QP's PD, and has these remote rights. NULL: not so. Any worker; until the call ends. */
struct rdma_mr *rdma_rkey_find(struct sp_ctx *, const struct rdma_qp *, uint32_t key, uint64_t va, uint64_t len,
			       uint32_t access);
/* Ends remote access by this key, until the region is registered or the window bound anew. -EACCES: there is no such
 * key that this QP may invalidate. */
int rdma_rkey_invalidate(struct sp_ctx *, const struct rdma_qp *, uint32_t key);
/* What the window of `rkey` is to be from now on; len 0: nothing. */
struct rdma_binding {
	uint32_t rkey, lkey;
	uint64_t va, len, access;
};
/* False: it must not be. */
bool rdma_window_bind(struct sp_ctx *, const struct rdma_qp *, const struct rdma_binding *);
/* Home worker: no worker binds it any more. -EAGAIN: one is at it. */
int rdma_window_close(struct rdma_mr *window);

#endif
