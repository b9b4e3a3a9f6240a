/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking completions: slots are given back, and what came through the NIC's memory goes where the program wants it. */
#include "shim.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#define BATCH	   16
/* Empty looks, one after the other, before a program that spins lets others run, and before it sleeps a little (some 50
 * us with the timer's slack): on a busy machine the scheduler favours who has slept, and the NIC may be among the
 * others. */
#define IDLE_YIELD 64
#define IDLE_SLEEP 1024

/* False: the region has been given up meanwhile, perhaps its memory with it. */
static bool carry_back(struct shim_context *c, const struct shim_carry *x, uint64_t bytes)
{
	bool all = true;

	for (unsigned i = 0; i < x->parts; i++) {
		const struct shim_part *p = &x->part[i];
		const struct shim_region *r = shim_region_find(c, p->lkey);

		if (p->at >= bytes)
			continue;
		if (!r || p->addr - r->mr.iova >= r->mr.ibv.length ||
		    p->len > r->mr.ibv.length - (p->addr - r->mr.iova)) {
			all = false;
			continue;
		}
		memcpy(shim_memory_at(&r->mr, p->addr), p->piece.addr, bytes - p->at < p->len ? bytes - p->at : p->len);
	}
	return all;
}

/* A send completes all those before it. */
static bool finish_send(struct shim_context *c, struct shim_qp *qp, uint64_t number, struct sp_rdma_wc *w,
			uint64_t *wr_id)
{
	struct shim_ring *r = &qp->send;

	if (number - r->done >= r->posted - r->done)
		return false; /* from before a reset */
	*wr_id = r->slot[number & (r->room - 1)].wr_id;
	for (; r->carries && r->done <= number; r->done++) {
		struct shim_slot *s = &r->slot[r->done & (r->room - 1)];

		if (!s->carry)
			continue;
		if (s->back && (r->done < number || w->status == SP_RDMA_OK) && !carry_back(c, s->carry, UINT64_MAX) &&
		    r->done == number)
			w->status = SP_RDMA_LOC_PROT_ERR;
		shim_slot_empty(s);
		r->carries--;
	}
	r->done = number + 1;
	return true;
}

static void finish_carry(struct shim_context *c, struct shim_slot *s, struct sp_rdma_wc *w)
{
	if (!s->carry)
		return;
	if (w->status == SP_RDMA_OK && w->op == SP_RDMA_WC_RECV && !carry_back(c, s->carry, w->len))
		w->status = SP_RDMA_LOC_PROT_ERR; /* the peer has been told that all is well */
	shim_slot_empty(s);
}

static bool finish_recv(struct shim_context *c, struct shim_qp *qp, uint64_t number, struct sp_rdma_wc *w,
			uint64_t *wr_id)
{
	struct shim_ring *r = &qp->recv;
	struct shim_slot *s;

	if (number - r->done >= r->posted - r->done)
		return false;
	s = &r->slot[number & (r->room - 1)];
	*wr_id = s->wr_id;
	finish_carry(c, s, w);
	r->done = number + 1;
	return true;
}

static bool finish_srq(struct shim_context *c, uint64_t number, struct sp_rdma_wc *w, uint64_t *wr_id)
{
	const uint32_t index = (uint32_t)(number >> 32), slot = (uint32_t)number;
	struct shim_srq *srq = index < c->srqs ? c->srq[index] : NULL;

	if (!srq || slot >= srq->attr.max_wr || srq->frees == srq->attr.max_wr)
		return false;
	*wr_id = srq->slot[slot].wr_id;
	finish_carry(c, &srq->slot[slot], w);
	srq->free[srq->frees++] = slot;
	return true;
}

/* Of a datagram, the service level says which header is in front of it, as mlx5 has it: UCX looks there. */
enum { ROCE_IPV6 = 8 | 1, ROCE_IPV4 = 8 | 2 };

/* False: it belongs to a QP that has ended, or to what was before a reset. Programs do not see these. */
static bool finish(struct shim_context *c, struct shim_cq *q, struct sp_rdma_wc *w, struct ibv_wc *out)
{
	const uint64_t number = w->wr_id & ~(3ull << SHIM_KIND);
	const unsigned kind = (unsigned)(w->wr_id >> SHIM_KIND);
	struct shim_qp *qp = q->last;
	bool known;

	if (!qp || qp->ibv.qp_num != w->qp)
		qp = q->last = shim_qp_find(c, w->qp);
	if (kind == SHIM_SHARED)
		known = finish_srq(c, number, w, &out->wr_id) && qp;
	else
		known = qp && (kind == SHIM_SEND ? finish_send(c, qp, number, w, &out->wr_id)
						 : finish_recv(c, qp, number, w, &out->wr_id));
	if (!known)
		return false;
	out->status = (enum ibv_wc_status)w->status;
	out->opcode = (enum ibv_wc_opcode)w->op;
	out->vendor_err = w->vendor;
	out->byte_len = w->len;
	out->imm_data = w->imm;
	out->qp_num = w->qp;
	out->src_qp = w->src_qp;
	out->wc_flags = w->flags & ~(uint32_t)SP_RDMA_WC_IPV4;
	out->pkey_index = 0;
	out->slid = 0;
	out->sl = w->flags & SP_RDMA_WC_GRH ? w->flags & SP_RDMA_WC_IPV4 ? ROCE_IPV4 : ROCE_IPV6 : 0;
	out->dlid_path_bits = 0;
	return true;
}

int shim_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	struct shim_cq *q = (struct shim_cq *)cq;
	struct shim_context *c = shim_context_of(cq->context);
	struct sp_rdma_wc got[BATCH];
	int taken = 0, rc = 0;
	uint32_t idle;

	shim_lock_spinning();
	if (!c->rdma)
		rc = -EIO;
	while (taken < room && !rc) {
		const int ask = room - taken < BATCH ? room - taken : BATCH, n = sp_rdma_poll_cq(q->cq, got, ask);

		if (n < 0)
			rc = n;
		for (int i = 0; i < n; i++)
			taken += finish(c, q, &got[i], &wc[taken]);
		if (n < ask)
			break;
	}
	if (rc)
		shim_gone(c, rc);
	if (c->ended && !taken)
		rc = -EIO; /* what the NIC had told is taken, and no more will come */
	q->idle = taken ? 0 : q->idle + 1;
	idle = q->idle;
	shim_unlock();
	if (idle >= IDLE_SLEEP)
		nanosleep(&(const struct timespec){.tv_nsec = 1}, NULL);
	else if (idle >= IDLE_YIELD)
		sched_yield();
	return taken ? taken : rc;
}
