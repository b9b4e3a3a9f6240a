/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: posting. An entry is the NIC's from the store of its owner on, and ours again once the NIC has cleared it. */
#include "rdma_private.h"

#include <string.h>

static void *verbs_entry(const struct verbs_queue *q)
{
	return q->entry + (uint64_t)(q->tail & q->mask) * q->stride;
}

/* Both kinds of entries begin with the owner. */
static bool verbs_entry_free(const struct verbs_queue *q)
{
	return !__atomic_load_n((const uint32_t *)verbs_entry(q), __ATOMIC_ACQUIRE);
}

static void verbs_entry_give(struct verbs_queue *q)
{
	__atomic_store_n((uint32_t *)verbs_entry(q), 1, __ATOMIC_RELEASE);
	__atomic_store_n(&q->head->tail, ++q->tail, __ATOMIC_RELEASE);
}

/* ---- doorbells ---- */
static int verbs_ring(struct sp_rdma_pair *qp)
{
	struct sp_rdma *r = qp->pd->rdma;
	const struct sp_command c = {
		.op = SP_RDMA_CMD_DOORBELL, .flags = qp->on, .context = r->id, .arg = {qp->object.id}};

	return sp_command_post(r->dev, &c);
}

/* The NIC has been told once it has cleared `rung` or a command is on its way. If the commands' queue is full, the
 * doorbell is owed: nobody else would ring it, since `rung` is set. */
static int verbs_bell(struct sp_rdma_pair *qp)
{
	struct sp_rdma *r = qp->pd->rdma;
	int rc;

	if (qp->owed || __atomic_exchange_n(&qp->send.head->rung, 1, __ATOMIC_SEQ_CST))
		return 0;
	rc = verbs_ring(qp);
	if (rc != -EAGAIN)
		return rc;
	qp->owed = true;
	qp->next_owed = r->owed;
	r->owed = qp;
	return 0;
}

int verbs_bells(struct sp_rdma *r)
{
	while (r->owed) {
		struct sp_rdma_pair *qp = r->owed;
		const int rc = verbs_ring(qp);

		if (rc)
			return rc == -EAGAIN ? 0 : rc;
		qp->owed = false;
		r->owed = qp->next_owed;
	}
	return 0;
}

void verbs_forget_bell(struct sp_rdma_pair *qp)
{
	struct sp_rdma_pair **at = &qp->pd->rdma->owed;

	while (*at && *at != qp)
		at = &(*at)->next_owed;
	if (*at)
		*at = qp->next_owed;
	qp->owed = false;
}

/* ---- send queues ---- */
#define ON(type) (1u << SP_RDMA_##type)
static unsigned verbs_types(enum sp_rdma_wr_op op)
{
	switch (op) {
	case SP_RDMA_WR_SEND:
	case SP_RDMA_WR_SEND_IMM:
		return ON(RC) | ON(UC) | ON(UD);
	case SP_RDMA_WR_WRITE:
	case SP_RDMA_WR_WRITE_IMM:
	case SP_RDMA_WR_LOCAL_INV:
	case SP_RDMA_WR_BIND_MW:
		return ON(RC) | ON(UC);
	case SP_RDMA_WR_READ:
	case SP_RDMA_WR_CAS:
	case SP_RDMA_WR_FETCH_ADD:
	case SP_RDMA_WR_SEND_INV:
		return ON(RC);
	}
	return 0;
}

static int verbs_inline(const struct sp_rdma_pair *qp, const struct sp_rdma_send_wr *wr, uint8_t *to, uint32_t *length)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < wr->sges; i++) {
		if (wr->sge[i].len > qp->inlined - at)
			return -EMSGSIZE;
		memcpy(to + at, (const void *)(uintptr_t)wr->sge[i].addr, wr->sge[i].len);
		at += wr->sge[i].len;
	}
	*length = at;
	return 0;
}

static int verbs_send_check(const struct sp_rdma_pair *qp, const struct sp_rdma_send_wr *wr)
{
	const unsigned flags = SP_RDMA_FENCE | SP_RDMA_SIGNALED | SP_RDMA_SOLICITED | SP_RDMA_INLINED;

	if (wr->flags & ~flags || (wr->sges && !wr->sge))
		return -EINVAL;
	if (!(verbs_types(wr->op) >> qp->type & 1))
		return -EOPNOTSUPP;
	if (wr->flags & SP_RDMA_INLINED && wr->op > SP_RDMA_WR_SEND_IMM && wr->op != SP_RDMA_WR_SEND_INV)
		return -EINVAL;
	if (qp->type == SP_RDMA_UD && (!wr->ah || wr->ah->pd != qp->pd))
		return -EINVAL;
	return 0;
}

static int verbs_send(struct sp_rdma_pair *qp, const struct sp_rdma_send_wr *wr)
{
	struct sp_rdma_wqe head = {.op = (uint8_t)wr->op,
				   .flags = (uint8_t)wr->flags,
				   .wr_id = wr->wr_id,
				   .imm = wr->imm,
				   .remote = wr->remote,
				   .rkey = wr->rkey,
				   .compare_add = wr->compare_add,
				   .swap = wr->swap};
	uint8_t *entry = verbs_entry(&qp->send);
	int rc = verbs_send_check(qp, wr);

	if (rc)
		return rc;
	if (!verbs_entry_free(&qp->send))
		return -EAGAIN;
	if (qp->type == SP_RDMA_UD) {
		head.ah = wr->ah->id;
		head.remote_qp = wr->remote_qp;
		head.qkey = wr->qkey;
	}
	if (wr->flags & SP_RDMA_INLINED) {
		rc = verbs_inline(qp, wr, entry + sizeof(head), &head.length);
		if (rc)
			return rc;
	} else {
		if (wr->sges > qp->send.sges)
			return -EMSGSIZE;
		head.sges = (uint8_t)wr->sges;
		if (wr->sges)
			memcpy(entry + sizeof(head), wr->sge, wr->sges * sizeof(*wr->sge));
	}
	memcpy(entry, &head, sizeof(head)); /* owner 0 */
	verbs_entry_give(&qp->send);
	return 0;
}

int sp_rdma_post_send(struct sp_rdma_pair *qp, const struct sp_rdma_send_wr *wr, const struct sp_rdma_send_wr **bad)
{
	bool posted = false;
	int rc = 0, rung;

	if (!qp || !wr)
		return -EINVAL;
	if (qp->state == SP_RDMA_RESET || qp->state == SP_RDMA_INIT || qp->state == SP_RDMA_RTR)
		rc = -EINVAL;
	for (; !rc && wr; wr = wr->next) {
		rc = verbs_send(qp, wr);
		if (rc)
			break;
		posted = true;
	}
	if (bad)
		*bad = wr;
	rung = qp->pd->rdma->owed ? verbs_bells(qp->pd->rdma) : 0;
	if (posted && !rung)
		rung = verbs_bell(qp);
	return rc ? rc : rung;
}

/* ---- receive queues ---- */
static int verbs_recv(struct verbs_queue *q, const struct sp_rdma_recv_wr *wr)
{
	const struct sp_rdma_rqe head = {.sges = wr->sges, .wr_id = wr->wr_id};
	uint8_t *entry = verbs_entry(q);

	if (wr->sges && !wr->sge)
		return -EINVAL;
	if (wr->sges > q->sges)
		return -EMSGSIZE;
	if (!verbs_entry_free(q))
		return -EAGAIN;
	if (wr->sges)
		memcpy(entry + sizeof(head), wr->sge, wr->sges * sizeof(*wr->sge));
	memcpy(entry, &head, sizeof(head));
	verbs_entry_give(q);
	return 0;
}

static int verbs_recvs(struct verbs_queue *q, const struct sp_rdma_recv_wr *wr, const struct sp_rdma_recv_wr **bad)
{
	int rc = 0;

	for (; wr; wr = wr->next) {
		rc = verbs_recv(q, wr);
		if (rc)
			break;
	}
	if (bad)
		*bad = wr;
	return rc;
}

int sp_rdma_post_recv(struct sp_rdma_pair *qp, const struct sp_rdma_recv_wr *wr, const struct sp_rdma_recv_wr **bad)
{
	if (!qp || !wr)
		return -EINVAL;
	if (qp->srq || qp->state == SP_RDMA_RESET) {
		if (bad)
			*bad = wr;
		return -EINVAL;
	}
	return verbs_recvs(&qp->recv, wr, bad);
}

int sp_rdma_post_srq_recv(struct sp_rdma_srq *srq, const struct sp_rdma_recv_wr *wr, const struct sp_rdma_recv_wr **bad)
{
	if (!srq || !wr)
		return -EINVAL;
	return verbs_recvs(&srq->queue, wr, bad);
}
