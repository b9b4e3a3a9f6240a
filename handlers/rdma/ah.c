/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, address handles. */
#include "ah.h"
#include "region.h"

struct rdma_ah *rdma_ah_find(struct sp_ctx *c, uint32_t pd, uint32_t id)
{
	struct rdma *s = rdma_of(c);
	struct rdma_ah *a = id && id <= s->ahs ? &s->ah[id - 1] : NULL;

	return a && __atomic_load_n(&a->live, __ATOMIC_ACQUIRE) && a->pd == pd ? a : NULL;
}

int rdma_ah_path(struct sp_ctx *c, struct rdma_ah *a, struct sp_path **path)
{
	int rc = 0;

	if (!a->path[c->worker])
		rc = sp_path_open(c, a->ip, false, &a->path[c->worker]);
	*path = a->path[c->worker];
	return rc;
}

int rdma_ah_create(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const void *in = rdma_in(x, sizeof(struct sp_rdma_ah));
	struct sp_rdma_ah a;
	struct rdma_ah *h;
	uint32_t i = 0;

	if (!in || !rdma_out(x, sizeof(struct sp_rdma_id)))
		return -EINVAL;
	memcpy(&a, in, sizeof(a));
	while (i < s->ahs && (s->ah[i].live || __atomic_load_n(&s->ah[i].ending, __ATOMIC_ACQUIRE)))
		i++;
	if (i == s->ahs)
		return -ENOSPC;
	if (!rdma_pd_get(c, a.pd))
		return -ENOENT;
	h = &s->ah[i];
	memcpy(h->ip, a.ip, sizeof(h->ip));
	h->pd = a.pd;
	h->udp_source = a.udp_source;
	h->traffic_class = a.traffic_class;
	h->hop_limit = a.hop_limit;
	__atomic_store_n(&h->live, true, __ATOMIC_RELEASE);
	return rdma_answer_id(x, i + 1);
}

int rdma_ah_destroy(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const uint32_t id = rdma_id_of(x);
	struct rdma_ah *h = id && id <= s->ahs ? &s->ah[id - 1] : NULL;

	if (!h || !h->live)
		return -ENOENT;
	__atomic_store_n(&h->live, false, __ATOMIC_RELEASE);
	rdma_pd_put(c, h->pd);
	/* Each worker closes its own path. Its chore is not within a call that uses the handle, so this is the grace
	 * period, too. */
	__atomic_store_n(&h->ending, c->workers < 64 ? (1ull << c->workers) - 1 : UINT64_MAX, __ATOMIC_RELEASE);
	for (uint32_t w = 0; w < c->workers; w++)
		sp_issue_start(c, &s->worker[w].chore);
	return 0;
}

void rdma_ah_chore(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);
	const uint64_t own = 1ull << c->worker;

	for (uint32_t i = 0; i < s->ahs; i++) {
		struct rdma_ah *h = &s->ah[i];

		if (!(__atomic_load_n(&h->ending, __ATOMIC_ACQUIRE) & own))
			continue;
		if (h->path[c->worker])
			sp_path_close(c, h->path[c->worker]);
		h->path[c->worker] = NULL;
		__atomic_fetch_and(&h->ending, ~own, __ATOMIC_RELEASE);
	}
}
