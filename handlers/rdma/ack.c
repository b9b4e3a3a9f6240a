/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, answers (volume 1, 9.7.5). An answer to a PSN acknowledges all before it, but for READs and ATOMICs that have
 * not got theirs: then it tells that these were lost.
 */
#include "ack.h"
#include "key.h"
#include "selective.h"

enum { RDMA_SYNDROME_ACK, RDMA_SYNDROME_RNR, RDMA_SYNDROME_RESERVED, RDMA_SYNDROME_NAK };
#define RDMA_SYNDROME_GAPS 0x60 /* sequence error; selective repeat: with a report */

/* All up to before `seq` was received by the peer. False: an answer is missing, and is asked for again. within: also
 * if `seq` is of that answer itself. */
static bool rdma_acknowledge(struct sp_ctx *c, struct rdma_qp *qp, uint64_t seq, bool within)
{
	struct rdma_sq *q = &qp->sq;

	while (q->una < seq) {
		struct rdma_op *op = q->wait;

		if (!op || op->status || !op->begun)
			return false;
		if (rdma_op_reads(op)) {
			if (within || seq >= rdma_op_end(op))
				rdma_retry_response(c, qp);
			return false;
		}
		rdma_sq_advance(c, qp, rdma_op_end(op) < seq ? rdma_op_end(op) : seq);
	}
	return true;
}

/* Puts bytes where the READ or ATOMIC wants them. */
static int rdma_bring(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_op *op, uint32_t at, const uint8_t *from,
		      uint32_t len)
{
	struct sp_piece piece[SP_RDMA_SEGMENTS];

	for (unsigned i = 0; len && i < op->sges; i++) {
		const struct sp_rdma_sge *g = &op->sge[i];
		uint32_t take;
		int n;

		if (at >= g->len) {
			at -= g->len;
			continue;
		}
		take = g->len - at < len ? g->len - at : len;
		n = rdma_key_pieces(c, qp->pd, g->lkey, g->addr + at, take, SP_RDMA_LOCAL_WRITE, piece,
				    SP_RDMA_SEGMENTS);
		if (n < 0)
			return n;
		for (int k = 0; k < n; from += piece[k++].len)
			if (sp_dma_write(c, piece[k].mem, piece[k].offset, from, piece[k].len))
				return -EFAULT;
		len -= take;
		at = 0;
	}
	return 0;
}

static uint32_t rdma_bad_answer(struct rdma_qp *qp, bool fatal)
{
	if (fatal)
		rdma_sq_fail(qp, SP_RDMA_BAD_RESP_ERR);
	return SP_DROP(RDMA_BAD_ANSWER);
}

/* seq: of the packet. The responses of a READ that was asked for again begin anywhere. */
static uint32_t rdma_read_answered(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p, uint64_t seq)
{
	const bool starts = p->opcode == SP_RC_READ_RESPONSE_FIRST || p->opcode == SP_RC_READ_RESPONSE_ONLY;
	const bool ends = p->opcode == SP_RC_READ_RESPONSE_LAST || p->opcode == SP_RC_READ_RESPONSE_ONLY;
	const uint32_t head = starts || ends ? sizeof(struct sp_aeth) : 0;
	struct rdma_sq *q = &qp->sq;
	struct rdma_op *op;
	uint64_t at;
	bool last;

	if (!rdma_acknowledge(c, qp, seq, true))
		return SP_DROP(RDMA_STRAY);
	op = q->wait;
	if (!op || op->op != SP_RDMA_WR_READ || op->status || !op->begun)
		return SP_DROP(RDMA_STRAY);
	/* The end of what was asked for: of the operation, or of a part of a very long one. */
	last = seq + 1 == rdma_op_end(op) || !((seq + 1 - op->seq) % RDMA_READ_PART);
	at = (seq - op->seq) * qp->mtu;
	if (ends != last || (!starts && !((seq - op->seq) % RDMA_READ_PART)) ||
	    p->len - head != (seq + 1 == rdma_op_end(op) ? op->len - at : qp->mtu))
		return rdma_bad_answer(qp, true);
	if (rdma_bring(c, qp, op, (uint32_t)at, p->data + head, p->len - head)) {
		rdma_sq_fail(qp, SP_RDMA_LOC_PROT_ERR);
		return SP_DONE;
	}
	if (starts && seq == q->restart)
		q->restarting = false;
	rdma_sq_advance(c, qp, seq + 1);
	return SP_DONE;
}

static uint32_t rdma_atomic_answered(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p, uint64_t seq)
{
	struct rdma_op *op;
	uint64_t value;

	if (!rdma_acknowledge(c, qp, seq, true))
		return SP_DROP(RDMA_STRAY);
	op = qp->sq.wait;
	if (!op || !rdma_op_reads(op) || op->op == SP_RDMA_WR_READ || op->status || !op->begun)
		return SP_DROP(RDMA_STRAY);
	value = sp_load_be64(p->data + sizeof(struct sp_aeth));
	if (rdma_bring(c, qp, op, 0, (const uint8_t *)&value, sizeof(value))) {
		rdma_sq_fail(qp, SP_RDMA_LOC_PROT_ERR);
		return SP_DONE;
	}
	rdma_sq_advance(c, qp, seq + 1);
	return SP_DONE;
}

static uint32_t rdma_nak(struct sp_ctx *c, struct rdma_qp *qp, uint8_t code)
{
	c->counters[RDMA_NAKS_RECEIVED]++;
	qp->attr.naks_received++;
	switch (code) {
	case 0:
		rdma_retry_sequence(c, qp);
		return SP_DONE;
	case 1: /* invalid request */
	case 4: /* invalid RD request: not for RC, but the peer will not go on */
		rdma_sq_fail(qp, SP_RDMA_REM_INV_REQ_ERR);
		return SP_DONE;
	case 2:
		rdma_sq_fail(qp, SP_RDMA_REM_ACCESS_ERR);
		return SP_DONE;
	case 3:
		rdma_sq_fail(qp, SP_RDMA_REM_OP_ERR);
		return SP_DONE;
	default:
		return rdma_bad_answer(qp, false);
	}
}

/* A sequence NAK with a report. It counts also if the answer of a READ before it is missing. */
static uint32_t rdma_reported(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p, uint64_t seq)
{
	rdma_acknowledge(c, qp, seq, true);
	c->counters[RDMA_NAKS_RECEIVED]++;
	qp->attr.naks_received++;
	if (qp->sq.wait && !qp->sq.wait->status)
		rdma_retry_report(c, qp, seq, p->data + sizeof(struct sp_aeth), p->len - sizeof(struct sp_aeth));
	return SP_DONE;
}

static uint32_t rdma_acknowledged(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p, uint64_t seq)
{
	const uint8_t syndrome = p->data[0];

	if (qp->selective && syndrome == RDMA_SYNDROME_GAPS && p->len >= sizeof(struct sp_aeth) + 4)
		return rdma_reported(c, qp, p, seq);
	switch (syndrome >> 5) {
	case RDMA_SYNDROME_ACK:
		/* A READ's or ATOMIC's own PSN is not acknowledged in this way. */
		if (rdma_acknowledge(c, qp, seq, false) && qp->sq.wait && !rdma_op_reads(qp->sq.wait)) {
			if (qp->selective)
				rdma_selective_acked(c, qp, seq);
			rdma_acknowledge(c, qp, seq + 1, false);
		}
		return SP_DONE;
	case RDMA_SYNDROME_RNR:
		c->counters[RDMA_RNRS_RECEIVED]++;
		qp->attr.rnrs_received++;
		if (rdma_acknowledge(c, qp, seq, true))
			rdma_retry_rnr(c, qp, syndrome & 31);
		return SP_DONE;
	case RDMA_SYNDROME_NAK:
		return rdma_acknowledge(c, qp, seq, true) ? rdma_nak(c, qp, syndrome & 31) : SP_DONE;
	default:
		return rdma_bad_answer(qp, false);
	}
}

uint32_t rdma_answered(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p)
{
	struct rdma_sq *q = &qp->sq;
	const bool middle = p->opcode == SP_RC_READ_RESPONSE_MIDDLE;
	const uint32_t least = middle ? 0 : p->opcode == SP_RC_ATOMIC_ACKNOWLEDGE ? 12 : 4;
	const int32_t distance = rdma_psn_diff(p->psn, (uint32_t)q->una);
	const uint64_t seq = q->una + (uint64_t)(int64_t)distance;

	if (p->len < least || (!middle && p->opcode != SP_RC_ACKNOWLEDGE && p->data[0] >> 5 != RDMA_SYNDROME_ACK))
		return rdma_bad_answer(qp, false);
	if (distance < 0 || seq >= q->end || !q->wait || q->wait->status) {
		if (distance < 0 && q->restarting && p->psn == rdma_psn((uint32_t)q->restart) &&
		    (p->opcode == SP_RC_READ_RESPONSE_FIRST || p->opcode == SP_RC_READ_RESPONSE_ONLY))
			q->restarting = false; /* the new answer begins with what came late, but came */
		return SP_DROP(RDMA_STRAY);
	}
	switch (p->opcode) {
	case SP_RC_ACKNOWLEDGE:
		return rdma_acknowledged(c, qp, p, seq);
	case SP_RC_ATOMIC_ACKNOWLEDGE:
		return rdma_atomic_answered(c, qp, p, seq);
	default:
		return rdma_read_answered(c, qp, p, seq);
	}
}
