/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, work of a companion. */
#include "second.h"

void rdma_second_add(struct rdma_works *l, struct sp_qp_work *w)
{
	w->next = NULL;
	*(l->last ? &l->last->next : &l->first) = w;
	l->last = w;
}

struct sp_qp_work *rdma_second_take(struct rdma_works *l)
{
	struct sp_qp_work *w = l->first;

	if (!w)
		return NULL;
	l->first = w->next;
	l->last = l->first ? l->last : NULL;
	return w;
}

void rdma_second_check(struct sp_ctx *c, struct rdma_qp *qp)
{
	const struct sp_qp_calls *calls = qp->second.calls;
	struct sp_ctx *second;

	if (!calls || !qp->second.ending || qp->second.out)
		return;
	qp->second = (struct rdma_second){0};
	second = sp_second(c);
	calls->ended(second, qp->number);
	sp_second_end(c);
}

void rdma_second_done(struct sp_ctx *c, struct rdma_qp *qp, struct sp_qp_work *w, struct sp_rdma_cqe *e)
{
	struct sp_ctx *second = sp_second(c);

	e->wr_id = w->w.wr_id;
	e->qp = qp->number;
	w->out = false;
	qp->second.out--;
	qp->second.calls->done(second, w, e);
	sp_second_end(c);
	rdma_second_check(c, qp);
}

void rdma_second_flushed(struct sp_ctx *c, struct rdma_qp *qp, struct sp_qp_work *w)
{
	rdma_second_done(c, qp, w, &(struct sp_rdma_cqe){.status = SP_RDMA_FLUSHED});
}

/* What is taken has left the list before the companion hears of it, and its calls add nothing where this is called: the
 * state, or the binding's end, refuses more. */
void rdma_second_flush_receives(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct sp_qp_work *w;

	while ((w = rdma_second_take(&qp->second.receive)) != NULL) {
		struct sp_rdma_cqe e = {.status = SP_RDMA_FLUSHED, .op = SP_RDMA_WC_RECV};

		rdma_second_done(c, qp, w, &e);
	}
}

void rdma_second_flush(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct sp_qp_work *w;

	while ((w = rdma_second_take(&qp->second.send)) != NULL)
		rdma_second_flushed(c, qp, w);
}

int rdma_second_receive(struct rdma_qp *qp, struct rdma_receive *to)
{
	struct sp_qp_work *w = rdma_second_take(&qp->second.receive);
	uint64_t bytes = 0;

	if (!w)
		return 0;
	to->second = w;
	to->wr_id = w->w.wr_id;
	to->sges = w->w.sges <= SP_RDMA_SGES ? w->w.sges : 0;
	memcpy(to->sge, w->sge, to->sges * sizeof(*to->sge));
	to->at = to->within = to->got = 0;
	to->taken = true;
	for (uint32_t i = 0; i < to->sges; i++)
		bytes += to->sge[i].len;
	return w->w.sges <= SP_RDMA_SGES && bytes <= UINT32_MAX ? 1 : -EINVAL;
}
