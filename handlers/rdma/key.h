/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, keys: an lkey or rkey, and a range of its region. Any worker; what is found may be used until the call ends. */
#ifndef HANDLERS_RDMA_KEY_H
#define HANDLERS_RDMA_KEY_H

#include "state.h"

/* The region of `key`, if all of [va, va + len) is in it, it belongs to the PD, and has these rights (0: local read).
 * NULL: not so. */
struct rdma_mr *rdma_key_find(struct sp_ctx *, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access);
/* The pieces of [va, va + len) of such a region; at most `room`. How many; -E2BIG; -EACCES: an agent
 * serves some of it. A region has at most
 * SP_RDMA_SEGMENTS. */
int rdma_mr_pieces(const struct rdma_mr *, uint64_t va, uint64_t len, struct sp_piece *out, unsigned room);
/* An agent serves some of that range. */
bool rdma_mr_fetched(const struct rdma_mr *, uint64_t va, uint64_t len);
/* Both. Zero bytes are no piece of any key, whatever it is. -EACCES: key, PD, rights or range. -E2BIG. */
int rdma_key_pieces(struct sp_ctx *, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access,
		    struct sp_piece *out, unsigned room);
/* Ends remote access by this key, until the region is registered anew. -EACCES: there is no such key of the PD. */
int rdma_key_invalidate(struct sp_ctx *, uint32_t pd, uint32_t key);
/* The region is not freed until released as often: ports have frames with its bytes. */
static inline void rdma_mr_hold(struct rdma_mr *m)
{
	__atomic_fetch_add(&m->uses, 1, __ATOMIC_RELAXED);
}
static inline void rdma_mr_release(struct rdma_mr *m)
{
	__atomic_fetch_sub(&m->uses, 1, __ATOMIC_RELEASE);
}

#endif
