/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: queue pairs and shared receive queues. */
#include "rdma_private.h"

#include <stdlib.h>
#include <string.h>

static uint64_t verbs_queue_bytes(uint32_t log, uint32_t stride)
{
	return sizeof(struct sp_rdma_queue) + ((uint64_t)stride << log);
}

static void verbs_queue_set(struct verbs_queue *q, uint8_t *at, uint32_t log, uint32_t stride, uint32_t sges)
{
	*q = (struct verbs_queue){.head = (struct sp_rdma_queue *)(void *)at,
				  .entry = at + sizeof(struct sp_rdma_queue),
				  .mask = (1u << log) - 1,
				  .stride = stride,
				  .sges = sges};
}

/* ---- shared receive queues ---- */
int sp_rdma_srq_create(struct sp_rdma_pd *pd, const struct sp_rdma_srq_attr *attr, struct sp_rdma_srq **srq)
{
	struct sp_rdma_srq_create ask;
	struct sp_rdma_srq *s;
	struct sp_rdma_id id;
	struct sp_rdma *r;
	uint32_t log;
	int rc;

	if (!pd || !attr || !srq)
		return -EINVAL;
	r = pd->rdma;
	if (!attr->entries || attr->entries > r->limits.wrs || !attr->sges || attr->sges > r->limits.sges)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->pd = pd;
	log = verbs_log(attr->entries);
	rc = verbs_alloc(r, verbs_queue_bytes(log, sp_rdma_rq_stride(attr->sges)), &s->memory);
	if (rc)
		goto free;
	verbs_queue_set(&s->queue, s->memory.addr, log, sp_rdma_rq_stride(attr->sges), attr->sges);
	rc = verbs_make(r, &s->object, VERBS_SRQ, attr->user);
	if (rc)
		goto memory;
	ask = (struct sp_rdma_srq_create){.cookie = s->object.cookie,
					  .offset = s->memory.offset,
					  .mem = verbs_memory_id(&s->memory),
					  .log = log,
					  .pd = pd->id,
					  .sges = attr->sges,
					  .limit = attr->limit};
	rc = verbs_control(r, SP_RDMA_SRQ_CREATE, 0, &ask, sizeof(ask), &id, sizeof(id));
	if (rc)
		goto unmake;
	s->object.id = id.id;
	*srq = s;
	return 0;
unmake:
	verbs_unmake(&s->object);
memory:
	verbs_free(&s->memory);
free:
	free(s);
	return rc;
}

int sp_rdma_srq_arm(struct sp_rdma_srq *s, uint32_t limit)
{
	struct sp_rdma_srq_limit ask;

	if (!s)
		return -EINVAL;
	ask = (struct sp_rdma_srq_limit){s->object.id, limit};
	return verbs_control(s->object.rdma, SP_RDMA_SRQ_LIMIT, 0, &ask, sizeof(ask), NULL, 0);
}

int sp_rdma_srq_destroy(struct sp_rdma_srq *s)
{
	const struct sp_rdma_id id = {s ? s->object.id : 0};
	int rc;

	if (!s)
		return 0;
	rc = verbs_control(s->object.rdma, SP_RDMA_SRQ_DESTROY, 0, &id, sizeof(id), NULL, 0);
	if (rc)
		return rc;
	verbs_unmake(&s->object);
	verbs_free(&s->memory);
	free(s);
	return 0;
}

/* ---- queue pairs ---- */
static int verbs_qp_check(const struct sp_rdma_pd *pd, const struct sp_rdma_qp_init *i)
{
	const struct sp_rdma_limits *l = &pd->rdma->limits;

	if (i->type != SP_RDMA_RC && i->type != SP_RDMA_UC && i->type != SP_RDMA_UD)
		return -EINVAL;
	if (!i->send_cq || !i->recv_cq || i->send_cq->object.rdma != pd->rdma || i->recv_cq->object.rdma != pd->rdma)
		return -EINVAL;
	if (i->srq && i->srq->object.rdma != pd->rdma)
		return -EINVAL;
	return i->send_wr > l->wrs || i->recv_wr > l->wrs || i->send_sges > l->sges || i->recv_sges > l->sges ||
			       i->inlined > l->inlined
		       ? -EINVAL
		       : 0;
}

/* Memory for both queues: offsets go into `ask`. */
static int verbs_qp_queues(struct sp_rdma_pair *qp, const struct sp_rdma_qp_init *i, struct sp_rdma_qp_create *ask)
{
	const uint32_t send = sp_rdma_sq_stride(ask->send_sges, i->inlined), recv = sp_rdma_rq_stride(ask->recv_sges);
	const uint64_t first = (verbs_queue_bytes(ask->sq_log, send) + 63) / 64 * 64;
	int rc = verbs_alloc(qp->pd->rdma, first + (i->srq ? 0 : verbs_queue_bytes(ask->rq_log, recv)), &qp->memory);

	if (rc)
		return rc;
	verbs_queue_set(&qp->send, qp->memory.addr, ask->sq_log, send, ask->send_sges);
	if (!i->srq)
		verbs_queue_set(&qp->recv, qp->memory.addr + first, ask->rq_log, recv, ask->recv_sges);
	ask->mem = verbs_memory_id(&qp->memory);
	ask->sq = qp->memory.offset;
	ask->rq = i->srq ? 0 : qp->memory.offset + first;
	return 0;
}

static int verbs_qp_ask(struct sp_rdma_pair *qp, const struct sp_rdma_qp_create *ask)
{
	struct sp_rdma *r = qp->pd->rdma;
	struct sp_rdma_qp made;
	int rc = verbs_control(r, SP_RDMA_QP_CREATE, 0, ask, sizeof(*ask), &made, sizeof(made));

	if (rc)
		return rc;
	/* A number of 24 bits, and a worker that a command's flags can say. */
	if (made.qp < 2 || made.qp > 0xFFFFFE || made.worker > 254)
		return -EPROTO;
	qp->object.id = made.qp;
	qp->on = SP_CMD_ON(made.worker);
	return 0;
}

int sp_rdma_qp_create(struct sp_rdma_pd *pd, const struct sp_rdma_qp_init *i, struct sp_rdma_pair **out)
{
	struct sp_rdma_qp_create ask;
	struct sp_rdma_pair *qp;
	int rc;

	if (!pd || !i || !out)
		return -EINVAL;
	rc = verbs_qp_check(pd, i);
	if (rc)
		return rc;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	ask = (struct sp_rdma_qp_create){.type = i->type,
					 .pd = pd->id,
					 .send_cq = i->send_cq->object.id,
					 .recv_cq = i->recv_cq->object.id,
					 .srq = i->srq ? i->srq->object.id : 0,
					 .sq_log = verbs_log(i->send_wr ? i->send_wr : 64),
					 .rq_log = i->srq ? 0 : verbs_log(i->recv_wr ? i->recv_wr : 64),
					 .send_sges = i->send_sges ? i->send_sges : 1,
					 .recv_sges = i->srq	     ? 0
						      : i->recv_sges ? i->recv_sges
								     : 1,
					 .inlined = i->inlined,
					 .all_signaled = i->all_signaled};
	qp->pd = pd;
	qp->srq = i->srq;
	qp->type = i->type;
	qp->inlined = i->inlined;
	rc = verbs_qp_queues(qp, i, &ask);
	if (rc)
		goto free;
	rc = verbs_make(pd->rdma, &qp->object, VERBS_QP, i->user);
	if (rc)
		goto memory;
	ask.cookie = qp->object.cookie;
	rc = verbs_qp_ask(qp, &ask);
	if (rc)
		goto unmake;
	*out = qp;
	return 0;
unmake:
	verbs_unmake(&qp->object);
memory:
	if (rc != -EPROTO) /* ... then the NIC may have made it, and write there */
		verbs_free(&qp->memory);
free:
	free(qp);
	return rc;
}

/* Entries that the NIC has not taken are void. */
static void verbs_queue_reset(struct verbs_queue *q)
{
	if (!q->head)
		return;
	for (uint32_t i = 0; i <= q->mask; i++)
		__atomic_store_n((uint32_t *)(void *)(q->entry + (uint64_t)i * q->stride), 0, __ATOMIC_RELAXED);
	q->tail = 0;
	__atomic_store_n(&q->head->rung, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&q->head->tail, 0, __ATOMIC_RELEASE);
}

int sp_rdma_qp_modify(struct sp_rdma_pair *qp, const struct sp_rdma_qp_attr *attr)
{
	int rc;

	if (!qp || !attr)
		return -EINVAL;
	rc = verbs_control(qp->pd->rdma, SP_RDMA_QP_MODIFY, qp->object.id, attr, sizeof(*attr), NULL, 0);
	if (rc || !(attr->mask & SP_RDMA_QP_STATE))
		return rc;
	qp->state = (enum sp_rdma_qp_state)attr->state;
	if (qp->state == SP_RDMA_RESET) {
		verbs_forget_bell(qp);
		verbs_queue_reset(&qp->send);
		verbs_queue_reset(&qp->recv);
	}
	return 0;
}

int sp_rdma_qp_query(struct sp_rdma_pair *qp, struct sp_rdma_qp_attr *attr)
{
	if (!qp || !attr)
		return -EINVAL;
	return verbs_control(qp->pd->rdma, SP_RDMA_QP_QUERY, qp->object.id, NULL, 0, attr, sizeof(*attr));
}

int sp_rdma_qp_destroy(struct sp_rdma_pair *qp)
{
	int rc;

	if (!qp)
		return 0;
	rc = verbs_control(qp->pd->rdma, SP_RDMA_QP_DESTROY, qp->object.id, NULL, 0, NULL, 0);
	if (rc)
		return rc;
	verbs_forget_bell(qp);
	verbs_unmake(&qp->object);
	verbs_free(&qp->memory);
	free(qp);
	return 0;
}

uint32_t sp_rdma_qp_number(const struct sp_rdma_pair *qp)
{
	return qp->object.id;
}

void *sp_rdma_qp_user(const struct sp_rdma_pair *qp)
{
	return qp->object.user;
}
