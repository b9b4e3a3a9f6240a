/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, what a companion may call: see spindle-export.h. None of these calls the companion. */
#include "export.h"
#include "key.h"
#include "qp.h"
#include "second.h"

/* Of this worker. */
static int rdma_export_qp(struct sp_ctx *c, uint32_t number, struct rdma_qp **to)
{
	struct rdma_qp *qp = number <= SP_ROCE_QP_MASK ? rdma_qp_find(c, number) : NULL;

	*to = qp;
	if (!qp)
		return -ENOENT;
	return qp->issue.on == c->worker + 1u ? 0 : -EXDEV;
}

static int rdma_export_worker(struct sp_ctx *c, uint32_t number)
{
	struct rdma_qp *qp;

	return rdma_export_qp(c, number, &qp) == -ENOENT ? -ENOENT : (int)qp->issue.on - 1;
}

static int rdma_export_now(struct sp_ctx *c, uint32_t number, struct sp_qp_now *now)
{
	struct rdma_qp *qp;
	const int rc = rdma_export_qp(c, number, &qp);

	if (rc)
		return rc;
	*now = (struct sp_qp_now){.peer_qp = qp->attr.dest_qp,
				  .mtu = qp->mtu,
				  .pd = qp->pd,
				  .type = qp->type,
				  .state = rdma_state(qp),
				  .reads = qp->attr.max_rd_atomic};
	memcpy(now->peer, qp->attr.ip, sizeof(now->peer));
	return 0;
}

static int rdma_export_bind(struct sp_ctx *c, uint32_t number, const struct sp_qp_calls *calls)
{
	struct rdma_qp *qp;
	const int rc = rdma_export_qp(c, number, &qp);

	if (rc)
		return rc;
	if (rdma_state(qp) == SP_RDMA_RESET || rdma_state(qp) == SP_RDMA_ERR)
		return -ENOTCONN;
	if (qp->second.calls)
		return -EBUSY;
	qp->second.calls = calls;
	return 0;
}

static int rdma_export_unbind(struct sp_ctx *c, uint32_t number)
{
	struct rdma_qp *qp;
	const int rc = rdma_export_qp(c, number, &qp);

	if (rc)
		return rc;
	if (!rdma_second_serves(qp))
		return -ENOTCONN;
	qp->second.ending = true;
	rdma_qp_start(c, qp); /* which calls the companion */
	return 0;
}

/* requests: of the send queue. */
static int rdma_export_add(struct sp_ctx *c, uint32_t number, struct sp_qp_work *w, bool requests)
{
	struct rdma_qp *qp;
	const int rc = rdma_export_qp(c, number, &qp);
	uint8_t state;

	if (rc)
		return rc;
	state = rdma_state(qp);
	if (!rdma_second_serves(qp) || state == SP_RDMA_RESET || state == SP_RDMA_ERR ||
	    (requests && (qp->sq.flushing || (state != SP_RDMA_RTS && state != SP_RDMA_SQD))))
		return -ENOTCONN;
	if (w->out)
		return -EBUSY;
	w->out = true;
	qp->second.out++;
	rdma_second_add(requests ? &qp->second.send : &qp->second.receive, w);
	if (requests)
		rdma_qp_start(c, qp);
	return 0;
}

static int rdma_export_post(struct sp_ctx *c, uint32_t number, struct sp_qp_work *w)
{
	return rdma_export_add(c, number, w, true);
}

static int rdma_export_receive(struct sp_ctx *c, uint32_t number, struct sp_qp_work *w)
{
	return rdma_export_add(c, number, w, false);
}

static int rdma_export_memory(struct sp_ctx *c, uint32_t number, uint32_t lkey, uint64_t addr, uint64_t len, bool write,
			      struct sp_piece *piece, unsigned room)
{
	struct rdma_qp *qp;
	const int rc = rdma_export_qp(c, number, &qp);

	return rc ? rc : rdma_key_pieces(c, qp->pd, lkey, addr, len, write ? SP_RDMA_LOCAL_WRITE : 0, piece, room);
}

static const struct sp_qp_export rdma_qp_exports = {
	.worker = rdma_export_worker,
	.now = rdma_export_now,
	.bind = rdma_export_bind,
	.unbind = rdma_export_unbind,
	.post = rdma_export_post,
	.receive = rdma_export_receive,
	.memory = rdma_export_memory,
};

const struct sp_export rdma_exports = {.qps = &rdma_qp_exports};
