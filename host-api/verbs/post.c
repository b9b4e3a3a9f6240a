/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting. Each request that is under way has a slot, which knows the program's number for it and what it carries
 * through memory that the NIC reaches. */
#include "shim.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define BATCH	  16
#define SPIN	  1000 /* looks at a place that a worker of the NIC still copies, then */
#define SPIN_TIME (100 * SP_MS)

static_assert(sizeof(struct ibv_sge) == sizeof(struct sp_rdma_sge) &&
		      offsetof(struct ibv_sge, length) == offsetof(struct sp_rdma_sge, len) &&
		      offsetof(struct ibv_sge, lkey) == offsetof(struct sp_rdma_sge, lkey),
	      "the program's lists are passed on as they are");

/* ---- slots ---- */
int shim_ring_open(struct shim_ring *r, uint32_t room)
{
	r->slot = calloc(room, sizeof(*r->slot));
	r->room = room;
	return r->slot ? 0 : -ENOMEM;
}

void shim_slot_empty(struct shim_slot *s)
{
	struct shim_carry *x = s->carry;

	if (!x)
		return;
	for (unsigned i = 0; i < x->parts; i++)
		shim_bounce_give(shim_nic.bounce, &x->part[i].piece);
	x->next = shim_nic.carries;
	shim_nic.carries = x;
	s->carry = NULL;
}

void shim_ring_reset(struct shim_ring *r)
{
	for (; r->done != r->posted; r->done++)
		shim_slot_empty(&r->slot[r->done & (r->room - 1)]);
	r->carries = 0;
}

static struct shim_carry *carry_new(void)
{
	struct shim_carry *x = shim_nic.carries;

	if (x)
		shim_nic.carries = x->next;
	else
		x = malloc(sizeof(*x));
	if (x)
		x->parts = 0;
	return x;
}

/* ---- what the NIC does not reach ---- */
struct gather {
	struct shim_slot *slot;
	struct shim_pd *pd;
	struct sp_rdma_sge *to;
	unsigned room, count;
	uint64_t at;
	bool fill;
};

static int gather_add(struct gather *g, uint64_t addr, uint32_t len, uint32_t lkey)
{
	if (g->count == g->room)
		return -ENOMEM;
	g->to[g->count++] = (struct sp_rdma_sge){addr, len, lkey};
	g->at += len;
	return 0;
}

static int gather_carry(struct gather *g, const struct shim_region *r, uint64_t addr, uint32_t len)
{
	struct shim_carry *x = g->slot->carry ? g->slot->carry : carry_new();
	struct shim_part *part;
	uint32_t lkey;
	int rc;

	if (!x)
		return -ENOMEM;
	g->slot->carry = x;
	if (x->parts == SP_RDMA_SGES || g->count == g->room)
		return -ENOMEM;
	part = &x->part[x->parts];
	rc = shim_bounce_take(shim_nic.bounce, len, &part->piece);
	if (rc)
		return rc;
	x->parts++;
	part->addr = addr;
	part->len = len;
	part->lkey = r->mr.ibv.lkey;
	part->at = g->at;
	rc = shim_bounce_lkey(shim_nic.bounce, g->pd->pd, &part->piece, &lkey);
	if (rc)
		return rc;
	if (g->fill)
		memcpy(part->piece.addr, shim_memory_at(&r->mr, addr), len);
	return gather_add(g, (uintptr_t)part->piece.addr, len, lkey);
}

/* A range of which the NIC reaches the middle: whole pages. */
static int gather_split(struct gather *g, const struct shim_region *r, uint64_t addr, uint32_t len)
{
	const uint64_t end = addr + len, shift = (uintptr_t)shim_memory_at(&r->mr, addr) - addr;
	const uint64_t first = ((addr + shift + 4095) & ~4095ull) - shift, last = ((end + shift) & ~4095ull) - shift;
	int rc = 0;

	if (first >= last || last > end || g->room - g->count < 3 || !shim_memory_direct(&r->mr, first, last - first))
		return gather_carry(g, r, addr, len);
	if (first > addr)
		rc = gather_carry(g, r, addr, (uint32_t)(first - addr));
	if (!rc)
		rc = gather_add(g, first, (uint32_t)(last - first), r->mr.ibv.lkey);
	return rc || end == last ? rc : gather_carry(g, r, last, (uint32_t)(end - last));
}

/* What is wrong about an SGE the NIC shall find, and tell by a completion. */
static int gather(struct shim_context *c, struct gather *g, const struct sp_rdma_sge *sge, unsigned sges, unsigned need)
{
	int rc = 0;

	for (unsigned i = 0; i < sges && !rc; i++) {
		const struct shim_region *r = shim_region_find(c, sge[i].lkey);

		if (r && !r->mr.direct && r->mr.ibv.pd == &g->pd->ibv && (r->mr.access & need) == need && sge[i].len &&
		    sge[i].addr - r->mr.iova < r->mr.ibv.length &&
		    sge[i].len <= r->mr.ibv.length - (sge[i].addr - r->mr.iova) &&
		    !shim_memory_direct(&r->mr, sge[i].addr, sge[i].len))
			rc = gather_split(g, r, sge[i].addr, sge[i].len);
		else
			rc = gather_add(g, sge[i].addr, sge[i].len, sge[i].lkey);
	}
	return rc;
}

/* ---- sends ---- */
int shim_send_prepare(struct shim_qp *qp, struct sp_rdma_send_wr *wr, struct sp_rdma_sge *sge)
{
	struct shim_context *c = shim_context_of(qp->ibv.context);
	struct shim_slot *s = &qp->send.slot[qp->send.posted & (qp->send.room - 1)];
	int rc = 0;

	if (qp->send.posted - qp->send.done >= qp->send.room)
		return -ENOMEM;
	s->wr_id = wr->wr_id;
	s->back = wr->op == SP_RDMA_WR_READ || wr->op == SP_RDMA_WR_CAS || wr->op == SP_RDMA_WR_FETCH_ADD;
	if (c->indirect && !(wr->flags & SP_RDMA_INLINED)) {
		struct gather g = {s, (struct shim_pd *)qp->ibv.pd, sge, qp->send_sges, 0, 0, !s->back};

		rc = gather(c, &g, wr->sge, wr->sges, s->back ? SP_RDMA_LOCAL_WRITE : 0);
		if (rc) {
			shim_slot_empty(s);
			return rc;
		}
		wr->sge = sge;
		wr->sges = g.count;
		qp->send.carries += s->carry != NULL;
	}
	wr->wr_id = (uint64_t)SHIM_SEND << SHIM_KIND | qp->send.posted++;
	return 0;
}

static void send_undo(struct shim_qp *qp, unsigned count)
{
	while (count--) {
		struct shim_slot *s = &qp->send.slot[--qp->send.posted & (qp->send.room - 1)];

		qp->send.carries -= s->carry != NULL;
		shim_slot_empty(s);
	}
}

int shim_send_post(struct shim_qp *qp, struct sp_rdma_send_wr *wr, unsigned count, unsigned *posted)
{
	const struct sp_rdma_send_wr *bad = wr;
	int rc = sp_rdma_post_send(qp->qp, wr, &bad);

	for (*posted = 0; wr != bad; wr = (struct sp_rdma_send_wr *)(uintptr_t)wr->next)
		++*posted;
	send_undo(qp, count - *posted);
	shim_gone(shim_context_of(qp->ibv.context), rc);
	return rc;
}

static int send_translate(const struct shim_qp *qp, const struct ibv_send_wr *from, struct sp_rdma_send_wr *to)
{
	if (from->opcode == IBV_WR_BIND_MW) {
		*to = (struct sp_rdma_send_wr){.wr_id = from->wr_id, .flags = from->send_flags};
		return shim_window_request(from->bind_mw.rkey, &from->bind_mw.bind_info, to);
	}
	if (from->num_sge < 0 || (unsigned)from->num_sge > qp->cap.max_send_sge)
		return -EINVAL;
	*to = (struct sp_rdma_send_wr){.wr_id = from->wr_id,
				       .op = (enum sp_rdma_wr_op)from->opcode,
				       .flags = from->send_flags & ~(unsigned)IBV_SEND_IP_CSUM,
				       .sge = (const struct sp_rdma_sge *)(const void *)from->sg_list,
				       .sges = (unsigned)from->num_sge,
				       .imm = from->imm_data};
	if (qp->ibv.qp_type == IBV_QPT_UD) {
		if (!from->wr.ud.ah)
			return -EINVAL;
		to->ah = ((struct shim_ah *)from->wr.ud.ah)->target;
		to->remote_qp = from->wr.ud.remote_qpn;
		to->qkey = from->wr.ud.remote_qkey;
	} else if (from->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || from->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		to->remote = from->wr.atomic.remote_addr;
		to->rkey = from->wr.atomic.rkey;
		to->compare_add = from->wr.atomic.compare_add;
		to->swap = from->wr.atomic.swap;
	} else {
		to->remote = from->wr.rdma.remote_addr;
		to->rkey = from->wr.rdma.rkey;
	}
	return 0;
}

int shim_post_error(int rc)
{
	return rc == -EAGAIN						   ? ENOMEM
	       : rc == -EMSGSIZE || rc == -EOPNOTSUPP			   ? EINVAL
	       : rc == -ENODEV || rc == -ECONNABORTED || rc == -ECONNRESET ? EIO
									   : -rc;
}

/* Takes the next requests of the list; *from is the first that was not posted. */
static int send_batch(struct shim_qp *qp, struct ibv_send_wr **from)
{
	struct sp_rdma_send_wr wr[BATCH];
	struct sp_rdma_sge sge[BATCH][SP_RDMA_SGES];
	struct ibv_send_wr *w = *from;
	unsigned n = 0, posted = 0;
	int rc = 0, failed;

	for (; w && n < BATCH; w = w->next) {
		rc = send_translate(qp, w, &wr[n]);
		if (!rc)
			rc = shim_send_prepare(qp, &wr[n], sge[n]);
		if (rc)
			break;
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!n)
		return rc;
	failed = shim_send_post(qp, wr, n, &posted);
	for (; posted; posted--)
		*from = (*from)->next;
	return failed ? failed : rc;
}

int shim_post_send(struct ibv_qp *v, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shim_qp *qp = (struct shim_qp *)v;
	int rc = 0;

	shim_lock();
	if (shim_context_of(v->context)->ended)
		rc = -EIO;
	while (wr && !rc)
		rc = send_batch(qp, &wr);
	shim_unlock();
	if (!rc)
		return 0;
	if (bad)
		*bad = wr;
	return shim_post_error(rc);
}

/* ---- receives ---- */
static int recv_prepare(struct shim_context *c, struct ibv_pd *pd, const struct ibv_recv_wr *from, unsigned room,
			struct shim_slot *s, struct sp_rdma_recv_wr *to, struct sp_rdma_sge *sge)
{
	struct gather g = {s, (struct shim_pd *)pd, sge, room, 0, 0, false};
	int rc;

	s->wr_id = from->wr_id;
	to->next = NULL;
	to->sge = (const struct sp_rdma_sge *)(const void *)from->sg_list;
	to->sges = (unsigned)from->num_sge;
	if (!c->indirect)
		return 0;
	rc = gather(c, &g, to->sge, to->sges, SP_RDMA_LOCAL_WRITE);
	if (rc) {
		shim_slot_empty(s);
		return rc;
	}
	to->sge = sge;
	to->sges = g.count;
	return 0;
}

static int recv_one(struct shim_context *c, struct shim_qp *qp, const struct ibv_recv_wr *from)
{
	struct shim_slot *s = &qp->recv.slot[qp->recv.posted & (qp->recv.room - 1)];
	struct sp_rdma_sge sge[SP_RDMA_SGES];
	struct sp_rdma_recv_wr wr;
	int rc;

	if (from->num_sge < 0 || (unsigned)from->num_sge > qp->cap.max_recv_sge)
		return -EINVAL;
	if (qp->recv.posted - qp->recv.done >= qp->recv.room)
		return -ENOMEM;
	rc = recv_prepare(c, qp->ibv.pd, from, qp->recv_sges, s, &wr, sge);
	if (rc)
		return rc;
	wr.wr_id = (uint64_t)SHIM_RECV << SHIM_KIND | qp->recv.posted;
	rc = sp_rdma_post_recv(qp->qp, &wr, NULL);
	if (rc) {
		shim_slot_empty(s);
		return rc;
	}
	qp->recv.posted++;
	return 0;
}

int shim_post_recv(struct ibv_qp *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shim_qp *qp = (struct shim_qp *)v;
	struct shim_context *c = shim_context_of(v->context);
	int rc = 0;

	shim_lock();
	if (c->ended)
		rc = -EIO;
	else if (v->srq || !qp->recv.slot)
		rc = -EINVAL;
	while (wr && !rc) {
		rc = recv_one(c, qp, wr);
		if (!rc)
			wr = wr->next;
	}
	shim_unlock();
	if (!rc)
		return 0;
	if (bad)
		*bad = wr;
	return shim_post_error(rc);
}

/* A worker of the NIC may still copy the entry whose place it is. */
static int srq_patiently(struct shim_srq *srq, const struct sp_rdma_recv_wr *wr)
{
	sp_time end = 0;
	int rc;

	for (unsigned i = 0; (rc = sp_rdma_post_srq_recv(srq->srq, wr, NULL)) == -EAGAIN; i++) {
		if (i < SPIN)
			continue;
		if (!end)
			end = sp_clock() + SPIN_TIME;
		else if (sp_clock() >= end)
			break;
		sched_yield();
	}
	return rc;
}

static int srq_one(struct shim_context *c, struct shim_srq *srq, const struct ibv_recv_wr *from)
{
	struct sp_rdma_sge sge[SP_RDMA_SGES];
	struct sp_rdma_recv_wr wr;
	struct shim_slot *s;
	uint32_t slot;
	int rc;

	if (from->num_sge < 0 || (unsigned)from->num_sge > srq->attr.max_sge)
		return -EINVAL;
	if (!srq->frees)
		return -ENOMEM;
	slot = srq->free[srq->frees - 1];
	s = &srq->slot[slot];
	rc = recv_prepare(c, srq->ibv.pd, from, srq->sges, s, &wr, sge);
	if (rc)
		return rc;
	wr.wr_id = (uint64_t)SHIM_SHARED << SHIM_KIND | (uint64_t)srq->index << 32 | slot;
	rc = srq_patiently(srq, &wr);
	if (rc) {
		shim_slot_empty(s);
		return rc;
	}
	srq->frees--;
	return 0;
}

int shim_post_srq_recv(struct ibv_srq *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shim_context *c = shim_context_of(v->context);
	int rc = 0;

	shim_lock();
	if (c->ended)
		rc = -EIO;
	while (wr && !rc) {
		rc = srq_one(c, (struct shim_srq *)v, wr);
		if (!rc)
			wr = wr->next;
	}
	shim_unlock();
	if (!rc)
		return 0;
	if (bad)
		*bad = wr;
	return shim_post_error(rc);
}
