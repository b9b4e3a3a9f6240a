/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, keys: what a key stands for. */
#include "key.h"

struct rdma_mr *rdma_key_of(const struct rdma *s, uint32_t pd, uint32_t key)
{
	struct rdma_mr *m = rdma_key_slot(s, key);

	/* Key 0 is none: a slot's key is 0 while it holds no region. */
	if (!key || __atomic_load_n(&m->key, __ATOMIC_ACQUIRE) != key || m->pd != pd)
		return NULL;
	return m;
}

struct rdma_mr *rdma_key_find(struct sp_ctx *c, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access)
{
	struct rdma_mr *m = rdma_key_of(rdma_of(c), pd, key);

	/* A window has no lkey. */
	if (!m || (m->access & access) != access || __atomic_load_n(&m->window, __ATOMIC_ACQUIRE))
		return NULL;
	return rdma_mr_holds(m, va, len) ? m : NULL;
}

int rdma_mr_pieces(const struct rdma_mr *m, uint64_t va, uint64_t len, struct sp_piece *out, unsigned room)
{
	const uint64_t from = va - m->va;
	unsigned low = 0, high = m->segments, n = 0;

	while (high - low > 1) {
		const unsigned middle = (low + high) / 2;

		if (m->segment[middle].at <= from)
			low = middle;
		else
			high = middle;
	}
	for (uint64_t at = from; len; low++) {
		const struct rdma_segment *g = &m->segment[low];
		const uint64_t end = low + 1u < m->segments ? g[1].at : m->len, left = end - at;
		const uint64_t take = left < len ? left : len;

		if (n == room)
			return -E2BIG;
		if (!g->mem)
			return -EACCES;
		out[n++] = (struct sp_piece){g->mem, g->offset + (at - g->at), (uint32_t)take};
		at += take;
		len -= take;
	}
	return (int)n;
}

bool rdma_mr_fetched(const struct rdma_mr *m, uint64_t va, uint64_t len)
{
	const uint64_t from = va - m->va;

	for (unsigned i = 0; m->fetched && i < m->segments; i++) {
		const struct rdma_segment *g = &m->segment[i];
		const uint64_t end = i + 1u < m->segments ? g[1].at : m->len;

		if (!g->mem && g->at < from + len && from < end)
			return true;
	}
	return false;
}

int rdma_key_pieces(struct sp_ctx *c, uint32_t pd, uint32_t key, uint64_t va, uint64_t len, uint32_t access,
		    struct sp_piece *out, unsigned room)
{
	const struct rdma_mr *m;

	if (!len)
		return 0;
	m = len <= SP_RDMA_MSG ? rdma_key_find(c, pd, key, va, len, access) : NULL;
	return m ? rdma_mr_pieces(m, va, len, out, room) : -EACCES;
}
