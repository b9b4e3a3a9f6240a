/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, keys: an lkey, and a range of its region. Any worker; what is found may be used until the call ends. */
#ifndef HANDLERS_RDMA_KEY_H
#define HANDLERS_RDMA_KEY_H

#include "state.h"

/* The slot that a key belongs to, whether it has that key or not. */
static inline struct rdma_mr *rdma_key_slot(const struct rdma *s, uint32_t key)
{
	return &s->mr[key >> 8 & s->key_mask];
}
/* The region or window of the PD that has this key now; NULL: none. */
struct rdma_mr *rdma_key_of(const struct rdma *, uint32_t pd, uint32_t key);
/* The region's key, by which an agent knows it; 0: it has just ended. */
static inline uint32_t rdma_mr_key(const struct rdma_mr *m)
{
	return __atomic_load_n(&m->key, __ATOMIC_RELAXED);
}
/* The region of an lkey, if all of [va, va + len) is in it, it belongs to the PD, and has these rights (0: local read).
 * NULL: not so. */
struct rdma_mr *rdma_key_find(struct sp_ctx *, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access);
/* va below the region's becomes a large offset. */
static inline bool rdma_mr_holds(const struct rdma_mr *m, uint64_t va, uint64_t len)
{
	return va - m->va <= m->len && len <= m->len - (va - m->va);
}
/* The pieces of [va, va + len) of such a region; at most `room`. How many; -E2BIG; -EACCES: an agent
 * serves some of it. A region has at most
 * SP_RDMA_SEGMENTS. */
int rdma_mr_pieces(const struct rdma_mr *, uint64_t va, uint64_t len, struct sp_piece *out, unsigned room);
/* An agent serves some of that range. */
bool rdma_mr_fetched(const struct rdma_mr *, uint64_t va, uint64_t len);
/* Both. Zero bytes are no piece of any key, whatever it is. -EACCES: key, PD, rights or range. -E2BIG. */
int rdma_key_pieces(struct sp_ctx *, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access,
		    struct sp_piece *out, unsigned room);
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
