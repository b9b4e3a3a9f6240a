/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, receive queues. */
#include "rq.h"
#include "region.h"
#include "tell.h"

/* Reserves the next entry, and tells how many are left. False: none is posted. A tail that lies only costs the liar its
 * entries: an index beyond the queue's size counts as nothing posted. */
static bool rdma_rq_reserve(struct rdma_rq *q, uint32_t *at, uint32_t *left)
{
	uint32_t next = __atomic_load_n(&q->next, __ATOMIC_RELAXED);

	do {
		*left = __atomic_load_n(q->tail, __ATOMIC_ACQUIRE) - next;
		if (!*left || *left > 1u << q->log)
			return false;
	} while (!__atomic_compare_exchange_n(&q->next, &next, next + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	*at = next;
	--*left;
	return true;
}

static void rdma_rq_watch_limit(struct sp_ctx *c, struct rdma_rq *q, uint32_t left)
{
	const uint32_t limit = __atomic_load_n(&q->limit, __ATOMIC_RELAXED);

	if (left < limit && __atomic_exchange_n(&q->limit, 0, __ATOMIC_RELAXED))
		rdma_tell(c, &q->teller, 1u << SP_RDMA_ASYNC_SRQ_LIMIT);
}

int rdma_rq_take(struct sp_ctx *c, struct rdma_rq *q, struct rdma_receive *to)
{
	struct sp_rdma_rqe head;
	uint8_t *entry;
	uint32_t at, left;
	uint64_t bytes = 0;

	if (!rdma_rq_reserve(q, &at, &left))
		return 0;
	entry = q->entry + (uint64_t)(at & ((1u << q->log) - 1)) * q->stride;
	/* Copied once: what the application changes later has no effect. */
	head.owner = __atomic_load_n((uint32_t *)(void *)entry, __ATOMIC_ACQUIRE);
	memcpy(&head.sges, entry + sizeof(head.owner), sizeof(head) - sizeof(head.owner));
	to->wr_id = head.wr_id;
	to->sges = head.sges <= q->sges && head.owner == 1 ? head.sges : 0;
	memcpy(to->sge, entry + sizeof(head), to->sges * sizeof(*to->sge));
	__atomic_store_n((uint32_t *)(void *)entry, 0, __ATOMIC_RELEASE);
	to->at = to->within = to->got = 0;
	to->taken = true;
	to->second = NULL;
	if (__builtin_expect(__atomic_load_n(&q->limit, __ATOMIC_RELAXED) != 0, 0))
		rdma_rq_watch_limit(c, q, left);
	for (uint32_t i = 0; i < to->sges; i++)
		bytes += to->sge[i].len;
	return head.owner == 1 && head.sges <= q->sges && bytes <= UINT32_MAX ? 1 : -EINVAL;
}

int rdma_rq_set(struct rdma_rq *q, const struct sp_mem *mem, uint64_t offset, uint32_t log, uint32_t sges)
{
	if (log > SP_RDMA_QUEUE_LOG || sges > SP_RDMA_SGES || offset % 64)
		return -EINVAL;
	q->stride = sp_rdma_rq_stride(sges);
	if (!sp_mem_holds(mem, offset, sizeof(struct sp_rdma_queue) + ((uint64_t)q->stride << log)))
		return -EFAULT;
	q->tail = &((struct sp_rdma_queue *)(void *)(mem->base + offset))->tail;
	q->entry = mem->base + offset + sizeof(struct sp_rdma_queue);
	q->log = log;
	q->sges = sges;
	q->limit = 0;
	__atomic_store_n(&q->next, 0, __ATOMIC_RELEASE);
	return 0;
}

struct rdma_rq *rdma_srq_by_id(struct sp_ctx *c, uint32_t id)
{
	struct rdma *s = rdma_of(c);

	return id && id <= s->srqs && s->srq[id - 1].mem ? &s->srq[id - 1] : NULL;
}

int rdma_srq_create(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const void *in = rdma_in(x, sizeof(struct sp_rdma_srq_create));
	struct sp_rdma_srq_create a;
	const struct sp_mem *mem;
	struct rdma_rq *q;
	uint32_t i = 0;
	int rc;

	if (!in || !rdma_out(x, sizeof(struct sp_rdma_id)))
		return -EINVAL;
	memcpy(&a, in, sizeof(a));
	while (i < s->srqs && s->srq[i].mem)
		i++;
	if (i == s->srqs)
		return -ENOSPC;
	if (!rdma_pd_get(c, a.pd))
		return -ENOENT;
	q = &s->srq[i];
	mem = sp_mem_get(c, a.mem);
	rc = mem ? rdma_rq_set(q, mem, a.offset, a.log, a.sges) : -ENOENT;
	if (rc) {
		if (mem)
			sp_mem_put(c, mem);
		rdma_pd_put(c, a.pd);
		return rc;
	}
	q->mem = mem;
	q->pd = a.pd;
	q->limit = a.limit;
	q->users = 0;
	rdma_teller_set(&q->teller, a.cookie, i + 1);
	return rdma_answer_id(x, i + 1);
}

int rdma_srq_limit(struct sp_ctx *c, struct sp_control *x)
{
	const void *in = rdma_in(x, sizeof(struct sp_rdma_srq_limit));
	struct sp_rdma_srq_limit a;
	struct rdma_rq *q;

	if (!in)
		return -EINVAL;
	memcpy(&a, in, sizeof(a));
	q = rdma_srq_by_id(c, a.id);
	if (!q)
		return -ENOENT;
	if (a.limit > 1u << q->log)
		return -EINVAL;
	__atomic_store_n(&q->limit, a.limit, __ATOMIC_RELAXED);
	return 0;
}

int rdma_srq_destroy(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma_rq *q = rdma_srq_by_id(c, rdma_id_of(x));

	if (!q)
		return -ENOENT;
	if (__atomic_load_n(&q->users, __ATOMIC_ACQUIRE))
		return -EBUSY;
	rdma_teller_forget(&q->teller);
	sp_mem_put(c, q->mem);
	q->mem = NULL;
	rdma_pd_put(c, q->pd);
	return 0;
}

void rdma_srqs_detach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);

	for (uint32_t i = 0; s->srq && i < s->srqs; i++)
		if (s->srq[i].mem)
			sp_mem_put(c, s->srq[i].mem);
}
