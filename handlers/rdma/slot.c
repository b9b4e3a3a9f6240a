/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, selective repeat: slots of QPs and buffers of workers. */
#include "slot.h"

#define RTT_GUESS SP_MS

static int rdma_slots_attach(struct sp_ctx *c, struct rdma_selectives *all)
{
	const uint32_t w = all->window, n = all->slots;
	uint32_t *sent = sp_alloc(c, sizeof(*sent) * w * n);
	uint64_t *bits = sp_alloc(c, sizeof(*bits) * 3 * (w / 64) * n);
	struct rdma_kept *kept = sp_alloc(c, sizeof(*kept) * w * n);

	all->slot = sp_alloc(c, sizeof(*all->slot) * n);
	if (!sent || !bits || !kept || !all->slot)
		return sp_fail(c, ENOMEM, "selective-qps", "no memory for %u QPs with selective repeat", n);
	for (uint32_t i = 0; i < n; i++) {
		struct rdma_selective *s = &all->slot[i];

		s->mask = w - 1;
		s->sent = sent + (size_t)i * w;
		s->has = bits + (size_t)i * 3 * (w / 64);
		s->lost = s->has + w / 64;
		s->got = s->lost + w / 64;
		s->kept = kept + (size_t)i * w;
	}
	return 0;
}

int rdma_selective_attach(struct sp_ctx *c)
{
	struct rdma_selectives *all = &rdma_of(c)->selective;
	uint32_t w;

	all->slots = (uint32_t)sp_param_uint(c, "selective-qps");
	if (all->slots > rdma_of(c)->qps)
		all->slots = rdma_of(c)->qps;
	all->each = (uint32_t)sp_param_uint(c, "selective-buffers");
	for (all->window = 64; all->window < sp_param_uint(c, "send-window"); all->window *= 2)
		;
	if (!all->slots)
		return 0;
	all->buffers = sp_alloc(c, sizeof(*all->buffers) * c->workers);
	if (!all->buffers)
		return -ENOMEM;
	for (w = 0; w < c->workers; w++) {
		struct rdma_buffers *b = &all->buffers[w];

		b->bytes = sp_alloc(c, (size_t)all->each * RDMA_KEPT_BYTES);
		b->free = sp_alloc(c, sizeof(*b->free) * all->each);
		if (!b->bytes || !b->free)
			return sp_fail(c, ENOMEM, "selective-buffers", "no memory for %u packets of each worker",
				       all->each);
		for (b->left = 0; b->left < all->each; b->left++)
			b->free[b->left] = b->left;
	}
	return rdma_slots_attach(c, all);
}

uint32_t rdma_buffer_take(struct sp_ctx *c)
{
	struct rdma_buffers *b = &rdma_of(c)->selective.buffers[c->worker];

	return b->left ? b->free[--b->left] : UINT32_MAX;
}

uint8_t *rdma_buffer_at(struct sp_ctx *c, uint32_t i)
{
	return rdma_of(c)->selective.buffers[c->worker].bytes + (size_t)i * RDMA_KEPT_BYTES;
}

void rdma_buffer_give(struct sp_ctx *c, uint32_t i)
{
	struct rdma_buffers *b = &rdma_of(c)->selective.buffers[c->worker];

	b->free[b->left++] = i;
}

int rdma_selective_begin(struct sp_ctx *c, struct rdma_qp *qp, uint32_t psn)
{
	struct rdma_selectives *all = &rdma_of(c)->selective;

	for (uint32_t i = 0; i < all->slots; i++) {
		struct rdma_selective *s = &all->slot[i];

		if (__atomic_exchange_n(&s->taken, 1, __ATOMIC_ACQUIRE))
			continue;
		memset(s->has, 0, (size_t)all->window / 64 * 3 * sizeof(*s->has)); /* and lost, got */
		s->losses = s->probes = s->gots = 0;
		s->probed = 0;
		s->ranges = 0;
		s->latest = s->front = psn;
		sp_rtt_init(&s->rtt, RTT_GUESS);
		qp->in.ahead = rdma_psn(psn - 1);
		qp->selective = s;
		return 0;
	}
	return -ENOSPC;
}

void rdma_selective_drop(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_selective *s = qp->selective;

	for (uint32_t i = 0; s && s->gots && i <= s->mask; i++)
		if (rdma_bit(s->got, i)) {
			rdma_bit_clear(s->got, i);
			s->gots--;
			if (!(s->kept[i].flags & RDMA_KEPT_PLACED))
				rdma_buffer_give(c, s->kept[i].at);
		}
}

void rdma_selective_end(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (!qp->selective)
		return;
	rdma_selective_drop(c, qp);
	__atomic_store_n(&qp->selective->taken, 0, __ATOMIC_RELEASE);
	qp->selective = NULL;
	qp->attr.selective = 0;
}
