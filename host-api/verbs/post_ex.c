/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended posting: ibv_wr_start, ibv_wr_*, ibv_wr_complete. Requests are collected, and posted together or not at all.
 * Between start and complete or abort the send queue belongs to one thread. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 16 /* requests that there is room for at first */

#define WITH_UD (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WITH_UC                                                                                                        \
	(WITH_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |         \
	 IBV_QP_EX_WITH_BIND_MW)
#define WITH_RC                                                                                                        \
	(WITH_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                                      \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV)

static struct shim_qp *qp_of(struct ibv_qp_ex *ex)
{
	return (struct shim_qp *)ex;
}

/* For each request there are max_send_sge SGEs, as many again for what shim_send_prepare() makes of them (send_sges),
 * and max_inline_data bytes. */
static int builder_room(struct shim_qp *qp, uint32_t room)
{
	struct shim_builder *b = &qp->build;
	struct sp_rdma_send_wr *wr = realloc(b->wr, room * sizeof(*wr));
	struct sp_rdma_sge *sge;
	uint8_t *inlined;

	if (!wr)
		return -ENOMEM;
	b->wr = wr;
	sge = realloc(b->sge, (size_t)room * qp->cap.max_send_sge * sizeof(*sge));
	if (!sge)
		return -ENOMEM;
	b->sge = sge;
	inlined = realloc(b->inlined, (size_t)room * qp->cap.max_inline_data + 1);
	if (!inlined)
		return -ENOMEM;
	b->inlined = inlined;
	b->room = room;
	return 0;
}

/* The lists of requests are found by their numbers: the memory may move. */
static struct sp_rdma_send_wr *builder_new(struct ibv_qp_ex *ex, enum sp_rdma_wr_op op)
{
	struct shim_qp *qp = qp_of(ex);
	struct shim_builder *b = &qp->build;

	if (b->count == b->room && !b->error && (b->room >= qp->send.room || builder_room(qp, 2 * b->room)))
		b->error = ENOMEM;
	if (b->error)
		return NULL;
	b->wr[b->count] = (struct sp_rdma_send_wr){
		.wr_id = ex->wr_id, .op = op, .flags = ex->wr_flags & ~(unsigned)IBV_SEND_IP_CSUM};
	return &b->wr[b->count++];
}

static struct sp_rdma_send_wr *builder_last(struct shim_qp *qp)
{
	struct shim_builder *b = &qp->build;

	if (!b->error && !b->count)
		b->error = EINVAL;
	return b->error ? NULL : &b->wr[b->count - 1];
}

/* ---- operations ---- */
static void wr_remote(struct ibv_qp_ex *ex, enum sp_rdma_wr_op op, uint32_t rkey, uint64_t remote, uint32_t imm)
{
	struct sp_rdma_send_wr *wr = builder_new(ex, op);

	if (!wr)
		return;
	wr->rkey = rkey;
	wr->remote = remote;
	wr->imm = imm;
}

static void wr_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
	wr_remote(ex, SP_RDMA_WR_WRITE, rkey, remote, 0);
}

static void wr_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, __be32 imm)
{
	wr_remote(ex, SP_RDMA_WR_WRITE_IMM, rkey, remote, imm);
}

static void wr_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
	wr_remote(ex, SP_RDMA_WR_READ, rkey, remote, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	wr_remote(ex, SP_RDMA_WR_SEND, 0, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_remote(ex, SP_RDMA_WR_SEND_IMM, 0, 0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_remote(ex, SP_RDMA_WR_SEND_INV, 0, 0, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_remote(ex, SP_RDMA_WR_LOCAL_INV, 0, 0, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct sp_rdma_send_wr *wr = builder_new(ex, SP_RDMA_WR_BIND_MW);

	(void)mw;
	if (wr && shim_window_request(rkey, info, wr))
		qp_of(ex)->build.error = EINVAL;
}

static void wr_atomic(struct ibv_qp_ex *ex, enum sp_rdma_wr_op op, uint32_t rkey, uint64_t remote, uint64_t compare_add,
		      uint64_t swap)
{
	struct sp_rdma_send_wr *wr = builder_new(ex, op);

	if (!wr)
		return;
	wr->rkey = rkey;
	wr->remote = remote;
	wr->compare_add = compare_add;
	wr->swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, uint64_t compare, uint64_t swap)
{
	wr_atomic(ex, SP_RDMA_WR_CAS, rkey, remote, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, uint64_t add)
{
	wr_atomic(ex, SP_RDMA_WR_FETCH_ADD, rkey, remote, add, 0);
}

/* ---- what the last operation is about ---- */
static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qp, uint32_t qkey)
{
	struct sp_rdma_send_wr *wr = builder_last(qp_of(ex));

	if (!wr)
		return;
	wr->ah = ah ? ((struct shim_ah *)ah)->target : NULL;
	wr->remote_qp = remote_qp;
	wr->qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *sge)
{
	struct shim_qp *qp = qp_of(ex);
	struct sp_rdma_send_wr *wr = builder_last(qp);

	if (wr && count > qp->cap.max_send_sge) {
		qp->build.error = EINVAL;
		return;
	}
	if (!wr)
		return;
	wr->sges = (unsigned)count;
	if (count)
		memcpy(&qp->build.sge[(size_t)(qp->build.count - 1) * qp->cap.max_send_sge], sge, count * sizeof(*sge));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {addr, length, lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *from)
{
	struct shim_qp *qp = qp_of(ex);
	struct sp_rdma_send_wr *wr = builder_last(qp);
	size_t at = 0;
	uint8_t *to;

	if (!wr)
		return;
	to = &qp->build.inlined[(size_t)(qp->build.count - 1) * qp->cap.max_inline_data];
	for (size_t i = 0; i < count; i++) {
		if (from[i].length > qp->cap.max_inline_data - at) {
			qp->build.error = EINVAL;
			return;
		}
		memcpy(to + at, from[i].addr, from[i].length);
		at += from[i].length;
	}
	wr->flags |= SP_RDMA_INLINED;
	wr->sges = 1;
	qp->build.sge[(size_t)(qp->build.count - 1) * qp->cap.max_send_sge] = (struct sp_rdma_sge){.len = (uint32_t)at};
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf from = {addr, length};

	wr_set_inline_data_list(ex, 1, &from);
}

/* ---- begin and end ---- */
static void wr_start(struct ibv_qp_ex *ex)
{
	struct shim_builder *b = &qp_of(ex)->build;

	pthread_mutex_lock(&b->busy);
	b->count = 0;
	b->error = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	pthread_mutex_unlock(&qp_of(ex)->build.busy);
}

/* So many at once that their SGEs find room on the stack. */
#define BATCH 16
static int post_batch(struct shim_qp *qp, uint32_t first, uint32_t count)
{
	struct shim_builder *b = &qp->build;
	struct sp_rdma_sge sge[BATCH][SP_RDMA_SGES];
	unsigned n = 0, posted = 0;
	int rc = 0, failed;

	for (; n < count; n++) {
		struct sp_rdma_send_wr *wr = &b->wr[first + n];
		struct sp_rdma_sge *own = &b->sge[(size_t)(first + n) * qp->cap.max_send_sge];

		if (wr->flags & SP_RDMA_INLINED && wr->sges)
			own->addr = (uintptr_t)&b->inlined[(size_t)(first + n) * qp->cap.max_inline_data];
		wr->sge = own;
		rc = shim_send_prepare(qp, wr, sge[n]);
		if (rc)
			break;
		wr->next = NULL;
		if (n)
			wr[-1].next = wr;
	}
	failed = n ? shim_send_post(qp, &b->wr[first], n, &posted) : 0;
	return failed ? failed : rc;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct shim_qp *qp = qp_of(ex);
	struct shim_builder *b = &qp->build;
	int rc = -b->error;

	shim_lock();
	if (!rc && shim_context_of(qp->ibv.context)->ended)
		rc = -EIO;
	if (!rc && b->count > qp->send.room - (qp->send.posted - qp->send.done))
		rc = -ENOMEM;
	for (uint32_t i = 0; i < b->count && !rc; i += BATCH)
		rc = post_batch(qp, i, b->count - i < BATCH ? b->count - i : BATCH);
	shim_unlock();
	pthread_mutex_unlock(&b->busy);
	return shim_post_error(rc);
}

int shim_qp_extend(struct shim_qp *qp, uint64_t ops)
{
	struct ibv_qp_ex *ex = &qp->ex;
	const uint64_t has = qp->ibv.qp_type == IBV_QPT_RC   ? WITH_RC
			     : qp->ibv.qp_type == IBV_QPT_UC ? WITH_UC
							     : WITH_UD;

	if (ops & ~has)
		return -EOPNOTSUPP;
	qp->extended = true;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	if (has & IBV_QP_EX_WITH_RDMA_WRITE) {
		ex->wr_rdma_write = wr_write;
		ex->wr_rdma_write_imm = wr_write_imm;
		ex->wr_local_inv = wr_local_inv;
		ex->wr_bind_mw = wr_bind_mw;
	} else {
		ex->wr_set_ud_addr = wr_set_ud_addr;
	}
	if (has & IBV_QP_EX_WITH_RDMA_READ) {
		ex->wr_rdma_read = wr_read;
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
		ex->wr_send_inv = wr_send_inv;
	}
	return builder_room(qp, FIRST);
}
