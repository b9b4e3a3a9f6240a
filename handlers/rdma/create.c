/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, the beginning and the end of QPs. */
#include "create.h"
#include "answer.h"
#include "cq.h"
#include "flow.h"
#include "qp.h"
#include "request.h"
#include "region.h"
#include "rq.h"
#include "tell.h"

int rdma_qps_attach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);

	s->qp = sp_alloc(c, s->qps * sizeof(*s->qp));
	if (!s->qp)
		return sp_fail(c, ENOMEM, "qps", "no memory for %u QPs", s->qps);
	for (uint32_t i = 0; i < s->qps; i++) {
		struct rdma_qp *qp = &s->qp[i];

		qp->index = i;
		qp->number = s->first_qp + i;
		qp->issue.on = sp_qp_worker(c, i) + 1u;
		qp->issue.cookie = qp->timer.cookie = (uint64_t)i << 1 | RDMA_COOKIE_QP;
		qp->sq_at = qp->rq_at = qp->ask_at = SP_NEVER;
	}
	return 0;
}

void rdma_qps_detach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);

	for (uint32_t i = 0; s->qp && i < s->qps; i++)
		if (s->qp[i].used)
			sp_mem_put(c, s->qp[i].mem);
}

/* Drawn, so that a number tells nothing of the next one. */
static struct rdma_qp *rdma_qp_free_slot(struct sp_ctx *c, struct rdma *s)
{
	const uint32_t from = (uint32_t)(sp_random(c) % s->qps);

	for (uint32_t i = 0; i < s->qps; i++) {
		struct rdma_qp *qp = &s->qp[(from + i) % s->qps];

		if (!__atomic_load_n(&qp->used, __ATOMIC_ACQUIRE))
			return qp;
	}
	return NULL;
}

static int rdma_qp_objects(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_rdma_qp_create *a)
{
	struct rdma_cq *send_cq = rdma_cq_by_id(c, a->send_cq), *recv_cq = rdma_cq_by_id(c, a->recv_cq);
	struct rdma_rq *srq = a->srq ? rdma_srq_by_id(c, a->srq) : NULL;

	if (!send_cq || !recv_cq || (a->srq && !srq))
		return -ENOENT;
	if (rdma_cq_failed(send_cq) || rdma_cq_failed(recv_cq))
		return -EIO;
	__atomic_store_n(&qp->send_cq, send_cq, __ATOMIC_RELAXED);
	__atomic_store_n(&qp->recv_cq, recv_cq, __ATOMIC_RELAXED);
	qp->rq = srq ? srq : &qp->own;
	return 0;
}

/* In region `mem`, which it holds. */
static int rdma_qp_queues(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_rdma_qp_create *a)
{
	int rc = 0;

	qp->mem = sp_mem_get(c, a->mem);
	if (!qp->mem)
		return -ENOENT;
	qp->own.pd = a->pd;
	if (!a->srq)
		rc = rdma_rq_set(&qp->own, qp->mem, a->rq, a->rq_log, a->recv_sges);
	if (!rc)
		rc = rdma_sq_open(c, qp, a);
	if (rc)
		sp_mem_put(c, qp->mem);
	return rc;
}

static void rdma_qp_clear(struct rdma_qp *qp, const struct sp_rdma_qp_create *a)
{
	qp->state = SP_RDMA_RESET;
	qp->type = (uint8_t)a->type;
	qp->all_signaled = a->all_signaled;
	qp->dying = false;
	qp->pd = a->pd;
	qp->path = NULL;
	qp->selective = NULL;
	qp->mtu = qp->access = 0;
	memset(&qp->attr, 0, sizeof(qp->attr));
	memset(&qp->in, 0, sizeof(qp->in));
	qp->sq_at = qp->rq_at = qp->ask_at = SP_NEVER;
	rdma_teller_set(&qp->teller, a->cookie, qp->number);
}

int rdma_qp_create(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const void *in = rdma_in(x, sizeof(struct sp_rdma_qp_create));
	struct sp_rdma_qp *out = rdma_out(x, sizeof(*out));
	struct sp_rdma_qp_create a;
	struct sp_rdma_qp answer;
	struct rdma_qp *qp;
	int rc;

	if (!in || !out)
		return -EINVAL;
	memcpy(&a, in, sizeof(a));
	if (a.type < SP_RDMA_RC || a.type > SP_RDMA_UD)
		return -EINVAL;
	qp = rdma_qp_free_slot(c, s);
	if (!qp)
		return -ENOSPC;
	rdma_qp_clear(qp, &a);
	if (!rdma_pd_get(c, a.pd))
		return -ENOENT;
	rc = rdma_qp_objects(c, qp, &a);
	if (!rc)
		rc = rdma_qp_queues(c, qp, &a);
	if (rc) {
		__atomic_store_n(&qp->send_cq, NULL, __ATOMIC_RELAXED);
		__atomic_store_n(&qp->recv_cq, NULL, __ATOMIC_RELAXED);
		rdma_pd_put(c, a.pd);
		return rc;
	}
	__atomic_fetch_add(&qp->send_cq->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&qp->recv_cq->users, 1, __ATOMIC_RELAXED);
	if (a.srq)
		__atomic_fetch_add(&qp->rq->users, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&qp->used, 1, __ATOMIC_RELEASE);
	answer = (struct sp_rdma_qp){qp->number, qp->issue.on - 1};
	memcpy(out, &answer, sizeof(answer));
	x->out_len = sizeof(answer);
	return 0;
}

int rdma_qp_destroy(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const uint32_t index = x->qp - s->first_qp;
	struct rdma_qp *qp = index < s->qps ? &s->qp[index] : NULL;
	struct rdma_cq *send_cq, *recv_cq;
	bool settled;

	if (!qp || !__atomic_load_n(&qp->used, __ATOMIC_ACQUIRE))
		return -ENOENT;
	if (!qp->dying)
		rdma_qp_reset(c, qp);
	qp->dying = true;
	settled = rdma_sq_settled(c, qp);
	if (!rdma_answer_settled(c, qp) || !settled)
		return -EAGAIN;
	send_cq = qp->send_cq;
	recv_cq = qp->recv_cq;
	__atomic_store_n(&qp->send_cq, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&qp->recv_cq, NULL, __ATOMIC_RELAXED);
	/* From here on, they may end. Nothing of this QP comes later: completions are made on this worker only. */
	__atomic_fetch_sub(&send_cq->users, 1, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&recv_cq->users, 1, __ATOMIC_RELEASE);
	if (qp->rq != &qp->own)
		__atomic_fetch_sub(&qp->rq->users, 1, __ATOMIC_RELEASE);
	sp_mem_put(c, qp->mem);
	rdma_pd_put(c, qp->pd);
	__atomic_store_n(&qp->used, 0, __ATOMIC_RELEASE);
	return 0;
}
