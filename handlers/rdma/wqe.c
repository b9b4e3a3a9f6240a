/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, work requests: each entry is copied once, since the application may change it at any time. */
#include "wqe.h"
#include "key.h"
#include "qp.h"
#include "second.h"

/* ---- operations ---- */
static struct rdma_pool *rdma_pool_of(struct sp_ctx *c)
{
	return &rdma_of(c)->out.pool[c->worker];
}

int rdma_request_attach(struct sp_ctx *c)
{
	struct rdma_requester *r = &rdma_of(c)->out;

	r->ops = (uint32_t)sp_param_uint(c, "requests");
	if (r->ops / RDMA_OPS > rdma_of(c)->qps) /* no QP has more */
		r->ops = rdma_of(c)->qps * RDMA_OPS;
	r->window = (uint32_t)sp_param_uint(c, "send-window");
	r->full = sp_param_uint(c, "cc-rate") / 8;
	r->pool = sp_alloc(c, sizeof(*r->pool) * c->workers);
	if (!r->pool)
		return sp_fail(c, ENOMEM, NULL, "no memory");
	for (unsigned w = 0; w < c->workers; w++) {
		struct rdma_pool *pool = &r->pool[w];

		pool->all = sp_alloc(c, sizeof(struct rdma_op) * r->ops);
		if (!pool->all)
			return sp_fail(c, ENOMEM, "requests", "no memory for %u requests of each worker", r->ops);
		for (uint32_t i = 0; i < r->ops; i++) {
			pool->all[i].next = pool->free;
			pool->free = &pool->all[i];
		}
	}
	return 0;
}

void rdma_request_detach(struct sp_ctx *c)
{
	(void)c; /* the NIC frees the pools, and holds what ports still use */
}

void rdma_pool_leave(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_pool *pool = rdma_pool_of(c);
	struct rdma_sq *q = &qp->sq;

	if (!q->waiting)
		return;
	*(q->pool_before ? &q->pool_before->sq.pool_next : &pool->waiting) = q->pool_next;
	*(q->pool_next ? &q->pool_next->sq.pool_before : &pool->waiting_last) = q->pool_before;
	q->pool_next = q->pool_before = NULL;
	q->waiting = false;
}

static void rdma_pool_wait(struct rdma_pool *pool, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	if (q->waiting)
		return;
	q->waiting = true;
	q->pool_before = pool->waiting_last;
	q->pool_next = NULL;
	*(q->pool_before ? &q->pool_before->sq.pool_next : &pool->waiting) = qp;
	pool->waiting_last = qp;
}

void rdma_pool_pass_on(struct sp_ctx *c)
{
	const struct rdma_pool *pool = rdma_pool_of(c);
	struct rdma_qp *qp = pool->waiting;

	if (!qp || !pool->free)
		return;
	rdma_pool_leave(c, qp);
	rdma_qp_start(c, qp);
}

void rdma_op_free(struct sp_ctx *c, struct rdma_op *op)
{
	struct rdma_pool *pool = rdma_pool_of(c);

	for (unsigned i = 0; i < op->sges; i++)
		if (op->held[i])
			rdma_mr_release(op->held[i]);
	op->next = pool->free;
	pool->free = op;
	rdma_pool_pass_on(c);
}

int rdma_op_pieces(struct sp_ctx *c, const struct rdma_qp *qp, struct rdma_op *op, uint32_t at, uint32_t len,
		   struct sp_piece *out, unsigned room)
{
	const uint32_t access = rdma_op_reads(op) ? SP_RDMA_LOCAL_WRITE : 0;
	unsigned n = 0;

	for (unsigned i = 0; len; i++) {
		const struct sp_rdma_sge *g = &op->sge[i];
		struct rdma_mr *m;
		uint32_t take;
		int r;

		if (at >= g->len) {
			at -= g->len;
			continue;
		}
		take = g->len - at < len ? g->len - at : len;
		m = rdma_key_find(c, qp->pd, g->lkey, g->addr + at, take, access);
		r = m ? rdma_mr_pieces(m, g->addr + at, take, out + n, room - n) : -EACCES;
		if (r < 0)
			return r;
		if (!op->held[i]) {
			rdma_mr_hold(m);
			op->held[i] = m;
		}
		n += (unsigned)r;
		len -= take;
		at = 0;
	}
	return (int)n;
}

/* ---- entries ---- */
static uint8_t *rdma_wqe_at(const struct rdma_sq *q)
{
	return q->entry + (size_t)(q->next & ((1u << q->log) - 1)) * q->stride;
}

static bool rdma_wqe_there(const struct rdma_sq *q)
{
	const uint32_t tail = __atomic_load_n(q->tail, __ATOMIC_ACQUIRE);

	if (tail == q->next || tail - q->next > 1u << q->log)
		return false;
	return __atomic_load_n((const uint32_t *)(const void *)rdma_wqe_at(q), __ATOMIC_ACQUIRE) == 1;
}

bool rdma_wqe_waits(struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	if (rdma_wqe_there(q))
		return true;
	__atomic_exchange_n(q->rung, 0, __ATOMIC_SEQ_CST);
	return rdma_wqe_there(q);
}

static void rdma_wqe_taken(struct rdma_sq *q)
{
	__atomic_store_n((uint32_t *)(void *)rdma_wqe_at(q), 0, __ATOMIC_RELEASE);
	q->next++;
}

void rdma_wqe_skip(struct rdma_qp *qp, uint64_t *wr_id, uint8_t *op)
{
	struct sp_rdma_wqe head;

	memcpy(&head, rdma_wqe_at(&qp->sq), sizeof(head));
	rdma_wqe_taken(&qp->sq);
	*wr_id = head.wr_id;
	*op = head.op;
}

/* ---- checks ---- */
static bool rdma_op_allowed(const struct rdma_qp *qp, uint8_t op)
{
	switch (op) {
	case SP_RDMA_WR_SEND:
	case SP_RDMA_WR_SEND_IMM:
		return true;
	case SP_RDMA_WR_WRITE:
	case SP_RDMA_WR_WRITE_IMM:
		return qp->type != SP_RDMA_UD;
	case SP_RDMA_WR_READ:
	case SP_RDMA_WR_CAS:
	case SP_RDMA_WR_FETCH_ADD:
		return qp->type == SP_RDMA_RC && qp->attr.max_rd_atomic;
	case SP_RDMA_WR_LOCAL_INV:
	case SP_RDMA_WR_BIND_MW:
		return qp->type != SP_RDMA_UD;
	case SP_RDMA_WR_SEND_INV:
		return qp->type == SP_RDMA_RC;
	default:
		return false;
	}
}

static enum sp_rdma_status rdma_op_check_memory(struct sp_ctx *c, const struct rdma_qp *qp, const struct rdma_op *op)
{
	const uint32_t access = rdma_op_reads(op) ? SP_RDMA_LOCAL_WRITE : 0;

	for (unsigned i = 0; i < op->sges; i++)
		if (op->sge[i].len &&
		    !rdma_key_find(c, qp->pd, op->sge[i].lkey, op->sge[i].addr, op->sge[i].len, access))
			return SP_RDMA_LOC_PROT_ERR;
	return SP_RDMA_OK;
}

/* sges, len: as the entry has them. */
static enum sp_rdma_status rdma_op_check(struct sp_ctx *c, const struct rdma_qp *qp, const struct rdma_op *op,
					 uint32_t sges, uint64_t len)
{
	const bool inlined = op->flags & SP_RDMA_INLINED;
	const uint32_t bytes = op->second ? SP_RDMA_INLINE : qp->sq.inlined;

	if (!rdma_op_allowed(qp, op->op) || (inlined && (rdma_op_reads(op) || len > bytes)) ||
	    sges > (op->second ? SP_RDMA_SGES : qp->sq.sges))
		return SP_RDMA_LOC_QP_OP_ERR;
	/* A port that takes less refuses the packet. */
	if (len > (qp->type == SP_RDMA_UD ? SP_ROCE_MTU_MAX : SP_RDMA_MSG) ||
	    (rdma_op_reads(op) && op->op != SP_RDMA_WR_READ && len != 8))
		return SP_RDMA_LOC_LEN_ERR;
	return rdma_op_check_memory(c, qp, op);
}

/* Copies what the entry consists of, which has room for so many SGEs or bytes; what it claims to have beyond that is
 * told by the result: SGEs. */
static uint32_t rdma_wqe_copy(const uint8_t *from, uint32_t room, uint32_t bytes, struct rdma_op *op, uint64_t *len)
{
	struct sp_rdma_wqe w;
	uint32_t sges;

	memcpy(&w, from, sizeof(w));
	memset(op, 0, offsetof(struct rdma_op, held)); /* the rest is long, and seldom used */
	op->wr_id = w.wr_id;
	op->remote = w.remote;
	op->compare_add = w.compare_add;
	op->swap = w.swap;
	op->rkey = w.rkey;
	op->imm = w.imm;
	op->ah = w.ah;
	op->remote_qp = w.remote_qp;
	op->qkey = w.qkey;
	op->op = w.op;
	op->flags = w.flags;
	if (rdma_op_local(op)) {
		*len = 0;
		op->flags &= (uint8_t)~SP_RDMA_INLINED;
		return 0;
	}
	if (w.flags & SP_RDMA_INLINED) {
		*len = w.length;
		memcpy(op->inlined, from + sizeof(w), w.length < bytes ? w.length : bytes);
		return 0;
	}
	sges = w.sges < room ? w.sges : room;
	memcpy(op->sge, from + sizeof(w), sges * sizeof(op->sge[0]));
	op->sges = (uint8_t)sges;
	*len = 0;
	for (uint32_t i = 0; i < sges; i++) {
		*len += op->sge[i].len;
		op->held[i] = NULL;
	}
	return w.sges;
}

/* The companion's next request, if it is its turn; NULL: the application's. */
static struct sp_qp_work *rdma_wqe_second(struct rdma_qp *qp)
{
	struct rdma_second *x = &qp->second;

	if (!x->send.first || (x->turn && rdma_wqe_there(&qp->sq))) {
		x->turn = false;
		return NULL;
	}
	return x->send.first;
}

struct rdma_op *rdma_wqe_fetch(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_pool *pool = rdma_pool_of(c);
	struct rdma_sq *q = &qp->sq;
	struct sp_qp_work *second;
	struct rdma_op *op;
	uint32_t sges;
	uint64_t len;

	if (q->ops >= RDMA_OPS)
		return NULL;
	second = rdma_wqe_second(qp);
	if (!second && !rdma_wqe_waits(qp))
		return NULL;
	op = pool->free;
	if (!op) {
		rdma_pool_wait(pool, qp);
		return NULL;
	}
	pool->free = op->next;
	if (second) {
		sges = rdma_wqe_copy((const uint8_t *)second, SP_RDMA_SGES, SP_RDMA_INLINE, op, &len);
		rdma_second_take(&qp->second.send);
		qp->second.turn = true;
	} else {
		sges = rdma_wqe_copy(rdma_wqe_at(q), q->sges, q->inlined, op, &len);
		rdma_wqe_taken(q);
	}
	op->second = second;
	op->status = (uint8_t)rdma_op_check(c, qp, op, sges, len);
	op->len = op->status ? 0 : (uint32_t)len;
	op->seq = q->at;
	op->packet = q->packet;
	op->packets = rdma_op_local(op) ? 0 : qp->type == SP_RDMA_UD ? 1 : rdma_packets(op->len, qp->mtu);
	q->packet += rdma_op_reads(op) ? 1 : op->packets;
	*(q->last ? &q->last->next : &q->first) = op;
	q->last = op;
	q->wait = q->wait ? q->wait : op;
	q->send = op;
	q->ops++;
	q->failed |= op->status != SP_RDMA_OK;
	return op;
}
