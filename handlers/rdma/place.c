/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, where the payload of requests goes. */
#include "../stream_copy.h"
#include "place.h"
#include "cq.h"
#include "fetch.h"
#include "key.h"
#include "rkey.h"
#include "rq.h"
#include "second.h"

int rdma_receive_take(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (qp->in.receive.taken)
		return 1;
	return rdma_second_serves(qp) ? rdma_second_receive(qp, &qp->in.receive)
				      : rdma_rq_take(c, qp->rq, &qp->in.receive);
}

/* Whole lines past the caches, but the last bytes by ordinary stores, behind a fence: applications wait for the last
 * byte of a WRITE, and then read the others. */
static bool rdma_place_past(struct sp_ctx *c, const struct sp_piece *to, const uint8_t *from)
{
	const uint32_t lines = (to->len - 1) / SP_STREAM_LINE * SP_STREAM_LINE;
	uint8_t *at;

	if (to->len < SP_STREAM_LEAST || to->mem->len < rdma_of(c)->stream_region)
		return false;
	at = sp_dma_window(c, to->mem, to->offset, to->len);
	if (!at || (uintptr_t)at % SP_STREAM_LINE)
		return false;
	sp_stream_copy(at, from, lines);
	sp_stream_fence();
	memcpy(at + lines, from + lines, to->len - lines);
	return true;
}

static int rdma_place(struct sp_ctx *c, const struct rdma_mr *m, uint64_t va, const uint8_t *from, uint32_t len)
{
	struct sp_piece piece[SP_RDMA_SEGMENTS];
	const int n = rdma_mr_pieces(m, va, len, piece, SP_RDMA_SEGMENTS);

	for (int i = 0; i < n; i++) {
		if (!rdma_place_past(c, &piece[i], from) &&
		    sp_dma_write(c, piece[i].mem, piece[i].offset, from, piece[i].len))
			return -EACCES;
		from += piece[i].len;
	}
	return n < 0 ? -EACCES : 0;
}

int rdma_receive_place(struct sp_ctx *c, struct rdma_qp *qp, const uint8_t *from, uint32_t len)
{
	struct rdma_receive *r = &qp->in.receive;
	const uint32_t pd = r->second ? qp->pd : qp->rq->pd;

	while (len) {
		const struct sp_rdma_sge *g = &r->sge[r->at];
		const struct rdma_mr *m;
		uint32_t take;

		if (r->at == r->sges)
			return -EMSGSIZE;
		if (r->within == g->len) {
			r->at++;
			r->within = 0;
			continue;
		}
		take = g->len - r->within < len ? g->len - r->within : len;
		/* The whole entry is checked with each packet: its region may end in between. */
		m = rdma_key_find(c, pd, g->lkey, g->addr, g->len, SP_RDMA_LOCAL_WRITE);
		if (!m || rdma_place(c, m, g->addr + r->within, from, take))
			return -EACCES;
		from += take;
		len -= take;
		r->within += take;
		r->got += take;
	}
	return 0;
}

void rdma_receive_rewind(struct rdma_qp *qp)
{
	qp->in.receive.at = qp->in.receive.within = qp->in.receive.got = 0;
}

void rdma_receive_done(struct sp_ctx *c, struct rdma_qp *qp, struct sp_rdma_cqe *e, bool solicited)
{
	struct sp_qp_work *second = qp->in.receive.second;

	qp->in.receive.taken = false;
	if (second) {
		rdma_second_done(c, qp, second, e);
		return;
	}
	e->wr_id = qp->in.receive.wr_id;
	e->qp = qp->number;
	rdma_cq_post(c, qp->recv_cq, e, solicited);
}

int rdma_write_place(struct sp_ctx *c, struct rdma_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *from,
		     uint32_t len)
{
	const struct rdma_mr *m;

	if (!len)
		return 0;
	m = rdma_rkey_find(c, qp, rkey, va, len, SP_RDMA_REMOTE_WRITE);
	if (m && rdma_mr_fetched(m, va, len))
		return rdma_fetch_put(c, qp, rdma_mr_key(m), va, from, len);
	return m ? rdma_place(c, m, va, from, len) : -EACCES;
}
