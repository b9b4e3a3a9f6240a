/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, operations -> packets: opcodes, extension headers, payload. */
#include "packet.h"
#include "ah.h"
#include "qp.h"

/* Of RC; UC's are the same in another range. */
static const struct {
	uint8_t first, middle, last, only;
} rdma_opcodes[] = {
	[SP_RDMA_WR_WRITE] = {SP_RC_WRITE_FIRST, SP_RC_WRITE_MIDDLE, SP_RC_WRITE_LAST, SP_RC_WRITE_ONLY},
	[SP_RDMA_WR_WRITE_IMM] = {SP_RC_WRITE_FIRST, SP_RC_WRITE_MIDDLE, SP_RC_WRITE_LAST_IMM, SP_RC_WRITE_ONLY_IMM},
	[SP_RDMA_WR_SEND] = {SP_RC_SEND_FIRST, SP_RC_SEND_MIDDLE, SP_RC_SEND_LAST, SP_RC_SEND_ONLY},
	[SP_RDMA_WR_SEND_IMM] = {SP_RC_SEND_FIRST, SP_RC_SEND_MIDDLE, SP_RC_SEND_LAST_IMM, SP_RC_SEND_ONLY_IMM},
	[SP_RDMA_WR_SEND_INV] = {SP_RC_SEND_FIRST, SP_RC_SEND_MIDDLE, SP_RC_SEND_LAST_INVALIDATE,
				 SP_RC_SEND_ONLY_INVALIDATE},
};

static uint32_t rdma_put_reth(uint8_t *ext, uint64_t va, uint32_t rkey, uint32_t len)
{
	struct sp_reth *h = (struct sp_reth *)ext;

	sp_store_be64(h->va, va);
	sp_store_be32(h->rkey, rkey);
	sp_store_be32(h->dma_len, len);
	return sizeof(*h);
}

/* A READ request for all that is missing, or an ATOMIC. */
static void rdma_make_request(const struct rdma_qp *qp, struct rdma_batch *b, struct rdma_op *op, struct sp_send *s)
{
	uint8_t *ext = b->ext[b->n];
	const uint64_t number = qp->sq.at - op->seq, at = number * qp->mtu;
	const uint64_t part = (RDMA_READ_PART - number % RDMA_READ_PART) * qp->mtu; /* to the part's end */

	s->flags |= SP_SEND_ACK_REQ;
	if (op->op == SP_RDMA_WR_READ) {
		const uint32_t left = op->len - (uint32_t)at, len = left < part ? left : (uint32_t)part;

		s->opcode = SP_RC_READ_REQUEST;
		s->ext_len = rdma_put_reth(ext, op->remote + at, op->rkey, len);
		b->end[b->n] += rdma_packets(len, qp->mtu) - 1;
		return;
	}
	s->opcode = op->op == SP_RDMA_WR_CAS ? SP_RC_COMPARE_SWAP : SP_RC_FETCH_ADD;
	sp_store_be64(ext, op->remote);
	sp_store_be32(ext + 8, op->rkey);
	sp_store_be64(ext + 12, op->op == SP_RDMA_WR_CAS ? op->swap : op->compare_add);
	sp_store_be64(ext + 20, op->op == SP_RDMA_WR_CAS ? op->compare_add : 0);
	s->ext_len = 28;
}

/* Payload of a packet of a SEND or WRITE. */
static int rdma_make_payload(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_batch *b, struct rdma_op *op,
			     uint32_t at, struct sp_send *s)
{
	const unsigned room = sizeof(b->piece) / sizeof(b->piece[0]) - b->pieces;
	struct sp_piece *piece = b->piece + b->pieces;
	int n;

	if (op->flags & SP_RDMA_INLINED) {
		s->bytes = op->inlined + at;
		return 0;
	}
	n = s->len ? rdma_op_pieces(c, qp, op, at, s->len, piece, room) : 0;
	if (n == -E2BIG && b->n)
		return -ENOBUFS;
	if (n < 0)
		return n;
	if (n == 1) {
		s->mem = piece->mem;
		s->offset = piece->offset;
	} else if (n) {
		s->piece = piece;
		s->pieces = (uint32_t)n;
		b->pieces += (uint32_t)n;
	}
	return 0;
}

static int rdma_make_datagram(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_batch *b, const struct rdma_op *op,
			      struct sp_send *s, struct sp_path **path)
{
	struct rdma_ah *ah = rdma_ah_find(c, qp->pd, op->ah);
	struct sp_deth *h = (struct sp_deth *)b->ext[b->n];
	const int r = ah ? rdma_ah_path(c, ah, path) : -EINVAL;

	if (r)
		return r;
	s->opcode = op->op == SP_RDMA_WR_SEND_IMM ? SP_UD_SEND_ONLY_IMM : SP_UD_SEND_ONLY;
	s->dest_qp = op->remote_qp & SP_ROCE_QP_MASK;
	s->udp_source = ah->udp_source ? ah->udp_source : qp->udp_source;
	s->traffic_class = ah->traffic_class;
	s->hop_limit = ah->hop_limit;
	sp_store_be32(h->qkey, op->qkey >> 31 ? qp->attr.qkey : op->qkey);
	sp_store_be32(&h->reserved, qp->number); /* and source_qp */
	s->ext_len = sizeof(*h);
	return 0;
}
static_assert(offsetof(struct sp_deth, reserved) == 4, "written together with source_qp");

static void rdma_make_message(const struct rdma_qp *qp, struct rdma_batch *b, const struct rdma_op *op, bool first,
			      bool last, struct sp_send *s)
{
	const bool write = op->op == SP_RDMA_WR_WRITE || op->op == SP_RDMA_WR_WRITE_IMM;
	uint8_t *ext = b->ext[b->n];

	if (qp->type != SP_RDMA_UD) {
		s->opcode = last    ? first ? rdma_opcodes[op->op].only : rdma_opcodes[op->op].last
			    : first ? rdma_opcodes[op->op].first
				    : rdma_opcodes[op->op].middle;
		s->opcode |= qp->type == SP_RDMA_UC ? SP_ROCE_UC : SP_ROCE_RC;
		if (write && first)
			s->ext_len = rdma_put_reth(ext, op->remote, op->rkey, op->len);
	}
	if (!last)
		return;
	if (op->op == SP_RDMA_WR_SEND_INV) {
		sp_store_be32(ext + s->ext_len, op->imm);
		s->ext_len += 4;
	} else if (op->op == SP_RDMA_WR_SEND_IMM || op->op == SP_RDMA_WR_WRITE_IMM) {
		memcpy(ext + s->ext_len, &op->imm, 4); /* in network order */
		s->ext_len += 4;
	}
	if (op->flags & SP_RDMA_SOLICITED && op->op != SP_RDMA_WR_WRITE)
		s->flags |= SP_PKT_SE;
}

static int rdma_fail(struct rdma_qp *qp, struct rdma_op *op, int r)
{
	op->status = r == -EINVAL ? SP_RDMA_LOC_QP_OP_ERR : SP_RDMA_LOC_PROT_ERR;
	qp->sq.failed = true;
	return r;
}

int rdma_packet_add(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_batch *b, struct rdma_op *op, bool ask)
{
	struct sp_send *s = &b->send[b->n];
	struct rdma_sq *q = &qp->sq;
	const uint64_t number = q->at - op->seq, at = number * qp->mtu;
	struct sp_path *path = qp->path;
	const bool first = !number, last = number + 1 == op->packets;
	int r = 0;

	*s = (struct sp_send){.dest_qp = qp->attr.dest_qp,
			      .psn = rdma_psn((uint32_t)q->at),
			      .flags = rdma_of(c)->ecn ? SP_SEND_ECT : 0,
			      .udp_source = qp->udp_source,
			      .traffic_class = qp->attr.traffic_class,
			      .hop_limit = qp->attr.hop_limit,
			      .ext = b->ext[b->n]};
	b->op[b->n] = op;
	b->seq[b->n] = q->at;
	b->end[b->n] = q->at + 1;
	if (rdma_op_reads(op)) {
		rdma_make_request(qp, b, op, s);
	} else {
		s->len = last ? op->len - (uint32_t)at : qp->mtu;
		r = rdma_make_payload(c, qp, b, op, (uint32_t)at, s);
		if (!r && qp->type == SP_RDMA_UD)
			r = rdma_make_datagram(c, qp, b, op, s, &path);
		if (r == -ENOBUFS || r == -EAGAIN)
			return r;
		if (r)
			return rdma_fail(qp, op, r == -EACCES || r == -E2BIG ? r : -EINVAL);
		rdma_make_message(qp, b, op, first, last, s);
		if (qp->type == SP_RDMA_RC && (last || ask))
			s->flags |= SP_SEND_ACK_REQ;
	}
	if (b->n && path != b->path)
		return -ENOBUFS;
	b->path = path;
	op->begun = true;
	q->at = b->end[b->n++];
	if (q->at == rdma_op_end(op))
		q->send = op->next;
	return 0;
}
