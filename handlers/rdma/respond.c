/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, requests that arrive: RC and UC. IBTA volume 1, 9.7 and 9.8. */
#include "respond.h"
#include "answer.h"
#include "keep.h"
#include "key.h"
#include "message.h"
#include "place.h"
#include "qp.h"
#include "rkey.h"

/* ---- RC ---- */
static void rdma_due(struct rdma_responder *in, uint8_t syndrome, uint32_t psn)
{
	in->ack_due = true;
	in->syndrome = syndrome;
	in->ack_psn = psn;
}

/* The NAK goes out behind the answers to earlier requests. Then the QP goes to ERR. */
static uint32_t rdma_refuse(struct rdma_qp *qp, uint8_t syndrome, int async)
{
	rdma_due(&qp->in, syndrome, qp->in.psn);
	qp->in.failing = true;
	qp->in.failure = (int8_t)async;
	return SP_DROP(RDMA_NAKED);
}

static uint32_t rdma_refuse_request(struct rdma_qp *qp)
{
	return rdma_refuse(qp, RDMA_NAK_REQUEST, SP_RDMA_ASYNC_QP_REQ_ERR);
}

static uint32_t rdma_refuse_access(struct rdma_qp *qp)
{
	return rdma_refuse(qp, RDMA_NAK_RIGHTS, SP_RDMA_ASYNC_QP_ACCESS_ERR);
}

static uint32_t rdma_refuse_message(struct sp_ctx *c, struct rdma_qp *qp, enum rdma_outcome why)
{
	const bool told = qp->in.receive.taken; /* a completion tells, no event needs to */

	if (why == RDMA_BUSY && !qp->selective) {
		/* As if it were lost: the NAK goes out when the agent is done (rdma_answer_issue()). No RNR NAK: who
		 * only writes, or knows that there are entries, may have asked for no attempts. */
		qp->in.nak_sent = true;
		if (!qp->in.ack_due || qp->in.syndrome != RDMA_NAK_PSN)
			qp->in.ahead = qp->in.psn;
		rdma_due(&qp->in, RDMA_NAK_PSN, qp->in.psn);
		return SP_DROP(RDMA_NAKED);
	}
	if (why == RDMA_NO_ENTRY || why == RDMA_BUSY) {
		qp->in.nak_sent = true;
		rdma_due(&qp->in, (uint8_t)(RDMA_RNR | (qp->attr.min_rnr_timer & 0x1F)), qp->in.psn);
		return SP_DROP(RDMA_NAKED);
	}
	rdma_message_fail(c, qp, why);
	if (why == RDMA_ACCESS)
		return rdma_refuse(qp, RDMA_NAK_RIGHTS, told ? -1 : SP_RDMA_ASYNC_QP_ACCESS_ERR);
	if (why == RDMA_LOCAL)
		return rdma_refuse(qp, RDMA_NAK_REMOTE_OP, told ? -1 : SP_RDMA_ASYNC_QP_FATAL);
	return rdma_refuse(qp, RDMA_NAK_REQUEST, told ? -1 : SP_RDMA_ASYNC_QP_REQ_ERR);
}

/* The packet has been executed. Coalesced: an ACK that is due moves on to the latest packet. */
static void rdma_advance(struct rdma_qp *qp, const struct sp_packet *p, uint32_t psns)
{
	struct rdma_responder *in = &qp->in;
	const bool naking = in->ack_due && in->syndrome == RDMA_NAK_PSN;

	in->psn = rdma_psn(in->psn + psns);
	if (naking && rdma_psn_diff(in->ahead, in->psn) >= 0) {
		/* The NAK has not gone out, and packets are still missing: those from here on. */
		in->ack_psn = in->psn;
		in->nak_sent = !qp->selective;
	} else if (in->ack_due || rdma_bth(p)->ack_req & SP_BTH_ACK_REQ) {
		if (qp->selective && rdma_keep_gap(qp))
			rdma_due(in, RDMA_NAK_PSN, in->psn);
		else
			rdma_due(in, RDMA_ACK, rdma_psn(in->psn - 1));
	}
}

/* The slot for a new READ or ATOMIC; NULL: the peer has more of them under way than agreed. A duplicate there is
 * answered no further: it was late, as the peer has got the answer, or it would not ask for more. */
static struct rdma_resource *rdma_resource_next(struct rdma_qp *qp)
{
	struct rdma_responder *in = &qp->in;
	struct rdma_resource *r;

	if (!qp->attr.max_dest_rd_atomic)
		return NULL;
	r = &in->resource[in->next % qp->attr.max_dest_rd_atomic];
	if (r->pending && r->answered)
		rdma_qp_end_answer(qp, r);
	return r->pending ? NULL : r;
}

/* Its answer acknowledges all that came before, so an ACK that is due is left out. */
static void rdma_resource_accept(struct rdma_qp *qp, struct rdma_resource *r, uint8_t kind, uint32_t psns)
{
	struct rdma_responder *in = &qp->in;

	in->msn = rdma_psn(in->msn + 1);
	r->kind = kind;
	r->first = in->psn;
	r->last = rdma_psn(in->psn + psns - 1);
	r->msn = in->msn;
	r->at = 0;
	r->end = r->len;
	r->pending = r->first_due = true;
	r->answered = false;
	in->pending++;
	in->next++;
	in->psn = rdma_psn(in->psn + psns);
	in->ack_due = false;
}

static uint32_t rdma_take_read(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_request *q)
{
	const struct sp_reth *reth = (const struct sp_reth *)(const void *)q->ext;
	const uint64_t va = sp_load_be64(reth->va);
	const uint32_t len = sp_load_be32(reth->dma_len), rkey = sp_load_be32(reth->rkey);
	struct rdma_resource *r = rdma_resource_next(qp);

	if (q->len || !r || len > SP_RDMA_MSG || !(qp->access & SP_RDMA_REMOTE_READ))
		return rdma_refuse_request(qp);
	if (len && !rdma_rkey_find(c, qp, rkey, va, len, SP_RDMA_REMOTE_READ))
		return rdma_refuse_access(qp);
	r->va = va;
	r->rkey = rkey;
	r->len = len;
	rdma_resource_accept(qp, r, RDMA_RESOURCE_READ, rdma_packets(len, qp->mtu));
	c->counters[RDMA_READS]++;
	return SP_DONE;
}

static uint32_t rdma_accept_atomic(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_resource *r)
{
	r->len = 0;
	rdma_resource_accept(qp, r, RDMA_RESOURCE_ATOMIC, 1);
	c->counters[RDMA_ATOMICS]++;
	return SP_DONE;
}

static uint32_t rdma_take_atomic(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p,
				 const struct rdma_request *q)
{
	const struct rdma_atomic_eth *a = (const struct rdma_atomic_eth *)(const void *)q->ext;
	const uint64_t va = sp_load_be64(a->va), value = sp_load_be64(a->swap_add);
	struct rdma_resource *r = rdma_resource_next(qp);
	const struct rdma_mr *m;
	struct sp_piece at;
	int rc;

	if (q->len || !r || va % 8 || !(qp->access & SP_RDMA_REMOTE_ATOMIC))
		return rdma_refuse_request(qp);
	m = rdma_rkey_find(c, qp, sp_load_be32(a->rkey), va, 8, SP_RDMA_REMOTE_ATOMIC);
	if (!m)
		return rdma_refuse_access(qp);
	r->fetched = 0;
	if (rdma_mr_fetched(m, va, 8)) {
		r->fetched = p->opcode == SP_RC_FETCH_ADD ? SP_RDMA_FETCH_ADD : SP_RDMA_FETCH_CAS;
		r->va = va;
		r->rkey = rdma_mr_key(m);
		r->value = value;
		r->compare = sp_load_be64(a->compare);
		return rdma_accept_atomic(c, qp, r);
	}
	/* The memory behind an aligned address may lie otherwise, or in two pieces: that is our side's fault. */
	rc = rdma_mr_pieces(m, va, 8, &at, 1) == 1 ? 0 : -EINVAL;
	if (!rc && p->opcode == SP_RC_FETCH_ADD)
		rc = sp_dma_add64(c, at.mem, at.offset, value, &r->value);
	else if (!rc)
		rc = sp_dma_swap64(c, at.mem, at.offset, sp_load_be64(a->compare), value, &r->value);
	if (rc)
		return rdma_refuse(qp, RDMA_NAK_REMOTE_OP, SP_RDMA_ASYNC_QP_FATAL);
	return rdma_accept_atomic(c, qp, r);
}

/* ---- duplicates: answered, not executed ---- */
static struct rdma_resource *rdma_resource_of(struct rdma_qp *qp, uint32_t psn, uint8_t kind)
{
	for (unsigned i = 0; i < SP_RDMA_READS; i++) {
		struct rdma_resource *r = &qp->in.resource[i];

		if (r->kind == kind && rdma_psn_diff(psn, r->first) >= 0 && rdma_psn_diff(r->last, psn) >= 0)
			return r;
	}
	return NULL;
}

/* It may ask for the rest only: any part of the original that begins with a packet and ends within. */
static bool rdma_again_read(struct rdma_qp *qp, const struct sp_packet *p, const struct rdma_request *q)
{
	const struct sp_reth *reth = (const struct sp_reth *)(const void *)q->ext;
	const uint32_t len = sp_load_be32(reth->dma_len);
	struct rdma_resource *r = rdma_resource_of(qp, p->psn, RDMA_RESOURCE_READ);
	uint64_t at;

	if (!r)
		return false;
	at = (uint64_t)rdma_psn(p->psn - r->first) * qp->mtu;
	if (sp_load_be64(reth->va) != r->va + at || sp_load_be32(reth->rkey) != r->rkey || len > r->len - at ||
	    (!len && r->len))
		return false;
	if (!r->pending) {
		r->pending = true;
		qp->in.pending++;
	}
	r->at = (uint32_t)at;
	r->end = (uint32_t)at + len;
	r->first_due = true;
	return true;
}

static bool rdma_again_atomic(struct rdma_qp *qp, const struct sp_packet *p)
{
	struct rdma_resource *r = rdma_resource_of(qp, p->psn, RDMA_RESOURCE_ATOMIC);

	if (r && !r->pending) {
		r->pending = true;
		qp->in.pending++;
	}
	return r != NULL;
}

/* The latest PSN of which an ACK tells no lie: an ACK at or behind a READ would say that its responses came first. They
 * may be what the peer misses. */
static uint32_t rdma_again_psn(const struct rdma_qp *qp, uint32_t psn)
{
	uint32_t latest = rdma_psn(qp->in.psn - 1);

	for (unsigned i = 0; i < SP_RDMA_READS; i++) {
		const struct rdma_resource *r = &qp->in.resource[i];

		if (r->kind != RDMA_RESOURCE_NONE && rdma_psn_diff(r->first, psn) > 0 &&
		    rdma_psn_diff(latest, r->first) >= 0)
			latest = rdma_psn(r->first - 1);
	}
	return latest;
}

static uint32_t rdma_again(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p,
			   const struct rdma_request *q)
{
	struct rdma_responder *in = &qp->in;
	uint32_t again;

	c->counters[RDMA_DUPLICATES]++;
	switch (q->form->kind) {
	case RDMA_KIND_SEND:
	case RDMA_KIND_WRITE:
		again = rdma_again_psn(qp, p->psn);
		/* One ACK for all that came at once: of the latest, which stands for the others. */
		if (!in->again_due || rdma_psn_diff(again, in->again_psn) > 0)
			in->again_psn = again;
		in->again_due = true;
		return SP_DONE;
	case RDMA_KIND_READ:
		return rdma_again_read(qp, p, q) ? SP_DONE : SP_DROP(RDMA_LOST_RESOURCE);
	case RDMA_KIND_ATOMIC:
		return rdma_again_atomic(qp, p) ? SP_DONE : SP_DROP(RDMA_LOST_RESOURCE);
	default:
		return SP_DROP(RDMA_BAD_OPCODE);
	}
}

static void rdma_heard(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (qp->in.heard || rdma_state(qp) != SP_RDMA_RTR)
		return;
	qp->in.heard = true;
	rdma_qp_tell(c, qp, SP_RDMA_ASYNC_COMM_EST);
}

/* The expected packet. */
static uint32_t rdma_execute(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p,
			     const struct rdma_request *q)
{
	struct rdma_responder *in = &qp->in;
	enum rdma_outcome rc;

	in->nak_sent = false;
	/* In its order: one message after the other, and its packets together. */
	if (q->form->kind == RDMA_KIND_NONE || !(q->form->flags & RDMA_FIRST) != (in->message != RDMA_MESSAGE_NONE) ||
	    (in->message != RDMA_MESSAGE_NONE && in->message != q->form->kind) || !rdma_request_length(qp, p, q)) {
		rdma_message_fail(c, qp, RDMA_INVALID);
		return rdma_refuse_request(qp);
	}
	rdma_heard(c, qp);
	if (q->form->kind == RDMA_KIND_READ)
		return rdma_take_read(c, qp, q);
	if (q->form->kind == RDMA_KIND_ATOMIC)
		return rdma_take_atomic(c, qp, p, q);
	rc = rdma_message_take(c, qp, q);
	if (rc != RDMA_TAKEN)
		return rdma_refuse_message(c, qp, rc);
	rdma_advance(qp, p, 1);
	return SP_DONE;
}

/* Selective repeat: the expected packet has come. Behind it, what was kept is executed. */
static uint32_t rdma_execute_on(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p,
				const struct rdma_request *q)
{
	struct rdma_responder *in = &qp->in;
	struct rdma_request kept;
	struct rdma_taken t;
	uint32_t verdict;

	qp->selective->latest = p->psn;
	verdict = rdma_execute(c, qp, p, q);
	while (!in->failing && !in->nak_sent && rdma_keep_take(c, qp, &t)) {
		rdma_request_parse(&t.packet, &kept);
		kept.placed = t.buffer == UINT32_MAX;
		rdma_execute(c, qp, &t.packet, &kept);
		rdma_keep_done(c, &t);
	}
	if (in->failing || in->nak_sent)
		return verdict;
	if (!rdma_keep_gap(qp))
		in->ahead = rdma_psn(in->psn - 1);
	else if (rdma_bth(p)->ack_req & SP_BTH_ACK_REQ) /* also behind a READ, whose answer is no report */
		rdma_due(in, RDMA_NAK_PSN, in->psn);
	return verdict;
}

/* Earlier packets are missing. */
static uint32_t rdma_early(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p,
			   const struct rdma_request *q, uint32_t ahead)
{
	struct rdma_responder *in = &qp->in;
	uint32_t verdict;
	bool tell;

	if (qp->selective) {
		verdict = rdma_keep(c, qp, p, q, ahead, &tell);
		if (tell && !in->nak_sent) /* while it is not ready, the peer knows what to do */
			rdma_due(in, RDMA_NAK_PSN, in->psn);
		return verdict;
	}
	if (!in->nak_sent || (in->ack_due && in->syndrome == RDMA_NAK_PSN))
		in->ahead = p->psn;
	if (!in->nak_sent)
		rdma_due(in, RDMA_NAK_PSN, in->psn);
	in->nak_sent = true;
	return SP_DROP(RDMA_AHEAD);
}

uint32_t rdma_respond_rc(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p)
{
	const int32_t ahead = rdma_psn_diff(p->psn, qp->in.psn);
	struct rdma_request q;

	if (qp->in.failing)
		return SP_DROP(RDMA_WRONG_STATE);
	if (!rdma_request_parse(p, &q))
		return SP_DROP(RDMA_SHORT_HEADER);
	if (ahead < 0)
		return rdma_again(c, qp, p, &q);
	if (ahead > 0)
		return rdma_early(c, qp, p, &q, (uint32_t)ahead);
	return qp->selective ? rdma_execute_on(c, qp, p, &q) : rdma_execute(c, qp, p, &q);
}
static_assert((int)RDMA_MESSAGE_SEND == (int)RDMA_KIND_SEND && (int)RDMA_MESSAGE_WRITE == (int)RDMA_KIND_WRITE,
	      "a message is of the kind of its packets");

/* ---- UC: what cannot be taken is dropped, up to the message's end ---- */
static uint32_t rdma_skip(struct rdma_qp *qp, enum rdma_drop why)
{
	qp->in.message = RDMA_MESSAGE_NONE;
	rdma_receive_rewind(qp); /* the next message gets the entry */
	return SP_DROP(why);
}

uint32_t rdma_respond_uc(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p)
{
	struct rdma_responder *in = &qp->in;
	const bool gap = p->psn != in->psn;
	struct rdma_request q;

	if (!rdma_request_parse(p, &q))
		return SP_DROP(RDMA_SHORT_HEADER);
	if (q.form->kind == RDMA_KIND_NONE || q.form->kind > RDMA_KIND_WRITE || q.form->flags & RDMA_INV)
		return SP_DROP(RDMA_BAD_OPCODE);
	in->psn = rdma_psn(p->psn + 1);
	if (q.form->flags & RDMA_FIRST)
		rdma_skip(qp, RDMA_BAD_ORDER); /* what came before has no end */
	else if (gap || in->message != q.form->kind)
		return rdma_skip(qp, RDMA_BAD_ORDER);
	if (!rdma_request_length(qp, p, &q))
		return rdma_skip(qp, RDMA_BAD_LENGTH);
	rdma_heard(c, qp);
	switch (rdma_message_take(c, qp, &q)) {
	case RDMA_TAKEN:
		return SP_DONE;
	case RDMA_NO_ENTRY:
	case RDMA_BUSY:
		return rdma_skip(qp, RDMA_NO_RECEIVE);
	case RDMA_INVALID:
	case RDMA_LONG:
		return rdma_skip(qp, RDMA_TOO_LONG);
	case RDMA_ACCESS:
		return rdma_skip(qp, RDMA_BAD_KEY);
	default:
		rdma_message_fail(c, qp, RDMA_LOCAL);
		rdma_qp_error(c, qp, -1);
		return rdma_skip(qp, RDMA_BAD_ENTRY);
	}
}
