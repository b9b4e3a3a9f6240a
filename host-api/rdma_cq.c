/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: completion queues. */
#include "rdma_private.h"

#include <stdlib.h>

int sp_rdma_cq_create(struct sp_rdma *r, uint32_t entries, bool channel, void *user, struct sp_rdma_cq **cq)
{
	struct sp_rdma_cq_create ask = {.channel = channel};
	struct sp_rdma_cq *q;
	struct sp_rdma_id id;
	int rc;

	if (!r || !cq || !entries || entries > r->limits.cqes)
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->log = ask.log = verbs_log(entries);
	q->channel = channel;
	rc = verbs_alloc(r, sizeof(*q->head) + ((uint64_t)sizeof(*q->entry) << q->log), &q->memory);
	if (rc)
		goto free;
	rc = verbs_make(r, &q->object, VERBS_CQ, user);
	if (rc)
		goto memory;
	ask.cookie = q->object.cookie;
	ask.offset = q->memory.offset;
	ask.mem = verbs_memory_id(&q->memory);
	rc = verbs_control(r, SP_RDMA_CQ_CREATE, 0, &ask, sizeof(ask), &id, sizeof(id));
	if (rc)
		goto unmake;
	q->object.id = id.id;
	q->head = (struct sp_rdma_cq_head *)(void *)q->memory.addr;
	q->entry = (struct sp_rdma_cqe *)(void *)(q->memory.addr + sizeof(*q->head));
	*cq = q;
	return 0;
unmake:
	verbs_unmake(&q->object);
memory:
	if (rc != -EPROTO) /* ... then the NIC may have made it, and write there */
		verbs_free(&q->memory);
free:
	free(q);
	return rc;
}

int sp_rdma_cq_destroy(struct sp_rdma_cq *q)
{
	const struct sp_rdma_id id = {q ? q->object.id : 0};
	int rc;

	if (!q)
		return 0;
	rc = verbs_control(q->object.rdma, SP_RDMA_CQ_DESTROY, 0, &id, sizeof(id), NULL, 0);
	if (rc)
		return rc;
	verbs_unmake(&q->object);
	verbs_free(&q->memory);
	free(q);
	return 0;
}

/* ---- taking completions ---- */
static bool verbs_cq_ready(const struct sp_rdma_cq *q)
{
	const uint32_t lap = q->next >> q->log;

	return sp_rdma_cqe_phase(&q->entry[q->next & ((1u << q->log) - 1)]) == (~lap & 1);
}

static void verbs_cq_take(const struct sp_rdma_cqe *e, struct sp_rdma_wc *wc)
{
	*wc = (struct sp_rdma_wc){.wr_id = e->wr_id,
				  .status = (enum sp_rdma_status)e->status,
				  .op = (enum sp_rdma_wc_op)e->op,
				  .flags = e->flags,
				  .len = e->len,
				  .imm = e->imm,
				  .qp = e->qp,
				  .src_qp = e->src_qp,
				  .done = e->entries,
				  .vendor = e->vendor};
}

int sp_rdma_poll_cq(struct sp_rdma_cq *q, struct sp_rdma_wc *wc, int room)
{
	int taken = 0;

	if (!q || room < 0 || (room && !wc))
		return -EINVAL;
	for (; taken < room && verbs_cq_ready(q); q->next++)
		verbs_cq_take(&q->entry[q->next & ((1u << q->log) - 1)], &wc[taken++]);
	if (taken)
		__atomic_store_n(&q->head->consumer, q->next, __ATOMIC_RELEASE);
	if (q->object.rdma->serve) { /* what WRITEs have brought is in place before what came behind them is told */
		const int rc = verbs_pump(q->object.rdma);

		return rc && !taken ? rc : taken;
	}
	if (q->object.rdma->owed) {
		const int rc = verbs_bells(q->object.rdma);

		return rc && !taken ? rc : taken;
	}
	return taken;
}

/* ---- waiting ---- */
int sp_rdma_cq_arm(struct sp_rdma_cq *q, bool solicited)
{
	if (!q)
		return -EINVAL;
	if (!q->channel)
		return -EOPNOTSUPP;
	/* An exchange: the caller's next look at the entries comes after it. */
	__atomic_exchange_n(&q->head->armed, solicited ? SP_RDMA_ARM_SOLICITED : SP_RDMA_ARM_ANY, __ATOMIC_SEQ_CST);
	return 0;
}

static int verbs_cq_look(void *arg)
{
	struct sp_rdma_cq *q = arg;
	int rc;

	if (verbs_cq_ready(q))
		return 0;
	rc = verbs_pump(q->object.rdma);
	if (rc)
		return rc;
	if (__atomic_load_n(&q->head->armed, __ATOMIC_RELAXED) != SP_RDMA_ARM_ANY)
		sp_rdma_cq_arm(q, false);
	return verbs_cq_ready(q) ? 0 : -EAGAIN;
}

int sp_rdma_cq_wait(struct sp_rdma_cq *q, sp_time timeout)
{
	int rc;

	if (!q)
		return -EINVAL;
	if (!q->channel)
		return -EOPNOTSUPP;
	rc = sp_wait_until(q->object.rdma->dev, verbs_cq_look, q, timeout);
	verbs_pump(q->object.rdma);
	return verbs_cq_ready(q) ? 0 : rc;
}
