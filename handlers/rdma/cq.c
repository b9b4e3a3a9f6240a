/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, completion queues. */
#include "cq.h"
#include "region.h"
#include "tell.h"

/* The QPs of a queue that has overflown: each goes to ERR on its own worker, which its issue() runs on. */
static void rdma_cq_fail(struct sp_ctx *c, struct rdma_cq *q)
{
	struct rdma *s = rdma_of(c);

	if (__atomic_exchange_n(&q->failed, true, __ATOMIC_ACQ_REL))
		return;
	c->counters[RDMA_CQ_OVERFLOWS]++;
	rdma_tell(c, &q->teller, 1u << SP_RDMA_ASYNC_CQ_ERR);
	for (uint32_t i = 0; i < s->qps; i++)
		if (__atomic_load_n(&s->qp[i].send_cq, __ATOMIC_RELAXED) == q ||
		    __atomic_load_n(&s->qp[i].recv_cq, __ATOMIC_RELAXED) == q)
			sp_issue_start(c, &s->qp[i].issue);
}

/* The application arms, then looks for an entry; the NIC writes the entry, then looks whether it is armed. Both change
 * `armed` by a locked operation (ours adds 0), which have one order: the second one sees what came before the first. */
static void rdma_cq_wake(struct sp_ctx *c, struct rdma_cq *q, bool solicited)
{
	const uint32_t armed = __atomic_fetch_add(q->armed, 0, __ATOMIC_ACQ_REL);

	if (armed == SP_RDMA_ARM_NONE || (armed != SP_RDMA_ARM_ANY && !solicited))
		return;
	if (__atomic_exchange_n(q->armed, SP_RDMA_ARM_NONE, __ATOMIC_ACQ_REL) != SP_RDMA_ARM_NONE)
		rdma_tell(c, &q->teller, RDMA_OWED_CQ);
}

bool rdma_cq_post(struct sp_ctx *c, struct rdma_cq *q, const struct sp_rdma_cqe *e, bool solicited)
{
	uint64_t slot, at, last;
	uint32_t used;

	if (rdma_cq_failed(q))
		return false;
	slot = __atomic_fetch_add(&q->next, 1, __ATOMIC_RELAXED);
	/* What the application has taken is only compared: a consumer that is ahead of all entries, or far behind,
	 * ends the queue. */
	used = (uint32_t)slot - __atomic_load_n(q->consumer, __ATOMIC_ACQUIRE);
	if (used >> q->log) {
		rdma_cq_fail(c, q);
		return false;
	}
	at = q->offset + (slot & ((1ull << q->log) - 1)) * sizeof(*e);
	sp_dma_write(c, q->mem, at, e, offsetof(struct sp_rdma_cqe, reserved2));
	/* reserved2 and phase, in memory as in the struct */
	last = (slot >> q->log) & 1 ? 0 : 1;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	last <<= 32;
#endif
	sp_dma_store64(c, q->mem, at + offsetof(struct sp_rdma_cqe, reserved2), last);
	if (q->channel)
		rdma_cq_wake(c, q, solicited || e->status != SP_RDMA_OK);
	return true;
}

struct rdma_cq *rdma_cq_by_id(struct sp_ctx *c, uint32_t id)
{
	struct rdma *s = rdma_of(c);

	return id && id <= s->cqs && s->cq[id - 1].mem ? &s->cq[id - 1] : NULL;
}

int rdma_cq_create(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const void *in = rdma_in(x, sizeof(struct sp_rdma_cq_create));
	struct sp_rdma_cq_create a;
	struct sp_rdma_cq_head *head;
	struct rdma_cq *q;
	uint32_t i = 0;

	if (!in || !rdma_out(x, sizeof(struct sp_rdma_id)))
		return -EINVAL;
	memcpy(&a, in, sizeof(a));
	if (a.log > SP_RDMA_CQ_LOG || a.channel > 1 || a.offset % 64)
		return -EINVAL;
	while (i < s->cqs && s->cq[i].mem)
		i++;
	if (i == s->cqs)
		return -ENOSPC;
	q = &s->cq[i];
	q->mem = sp_mem_get(c, a.mem);
	if (!q->mem)
		return -ENOENT;
	if (!sp_mem_holds(q->mem, a.offset, sizeof(*head) + (sizeof(struct sp_rdma_cqe) << a.log))) {
		sp_mem_put(c, q->mem);
		q->mem = NULL;
		return -EFAULT;
	}
	head = (struct sp_rdma_cq_head *)(void *)(q->mem->base + a.offset);
	q->consumer = &head->consumer;
	q->armed = &head->armed;
	q->offset = a.offset + sizeof(*head);
	q->log = a.log;
	q->channel = a.channel;
	q->failed = false;
	q->users = 0;
	q->next = 0;
	rdma_teller_set(&q->teller, a.cookie, i + 1);
	return rdma_answer_id(x, i + 1);
}

int rdma_cq_destroy(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma_cq *q = rdma_cq_by_id(c, rdma_id_of(x));

	if (!q)
		return -ENOENT;
	/* A QP lets go of it on its own worker, after its last completion. */
	if (__atomic_load_n(&q->users, __ATOMIC_ACQUIRE))
		return -EBUSY;
	rdma_teller_forget(&q->teller);
	sp_mem_put(c, q->mem);
	q->mem = NULL;
	return 0;
}

void rdma_cqs_detach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);

	for (uint32_t i = 0; s->cq && i < s->cqs; i++)
		if (s->cq[i].mem)
			sp_mem_put(c, s->cq[i].mem);
}
