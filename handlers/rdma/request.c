/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, the requester: what the rest of the handler calls; completions, flush. */
#include "request.h"
#include "ack.h"
#include "cq.h"
#include "key.h"
#include "packet.h"
#include "qp.h"
#include "rate.h"
#include "rkey.h"
#include "second.h"
#include "selective.h"

#define FLUSH_MOST 64 /* entries of the queue in one call */

/* ---- completions ---- */
static uint8_t rdma_wc_op(uint8_t op)
{
	switch (op) {
	case SP_RDMA_WR_WRITE:
	case SP_RDMA_WR_WRITE_IMM:
		return SP_RDMA_WC_WRITE;
	case SP_RDMA_WR_READ:
		return SP_RDMA_WC_READ;
	case SP_RDMA_WR_CAS:
		return SP_RDMA_WC_CAS;
	case SP_RDMA_WR_FETCH_ADD:
		return SP_RDMA_WC_FETCH_ADD;
	case SP_RDMA_WR_LOCAL_INV:
		return SP_RDMA_WC_LOCAL_INV;
	case SP_RDMA_WR_BIND_MW:
		return SP_RDMA_WC_BIND_MW;
	default:
		return SP_RDMA_WC_SEND;
	}
}

static void rdma_complete(struct sp_ctx *c, struct rdma_qp *qp, uint64_t wr_id, uint8_t op, uint32_t len,
			  uint8_t status, bool signaled)
{
	const struct sp_rdma_cqe e = {
		.wr_id = wr_id,
		.len = len,
		.qp = qp->number,
		.entries = ++qp->sq.done,
		.status = status,
		.op = rdma_wc_op(op),
	};

	c->counters[status ? RDMA_REQUESTS_FAILED : RDMA_REQUESTS_DONE]++;
	if (status || signaled)
		rdma_cq_post(c, qp->send_cq, &e, false);
}

static void rdma_complete_second(struct sp_ctx *c, struct rdma_qp *qp, struct sp_qp_work *second, uint8_t op,
				 uint32_t len, uint8_t status)
{
	struct sp_rdma_cqe e = {.len = len, .entries = qp->sq.done, .status = status, .op = rdma_wc_op(op)};

	c->counters[status ? RDMA_REQUESTS_FAILED : RDMA_REQUESTS_DONE]++;
	rdma_second_done(c, qp, second, &e);
}

static void rdma_op_end_first(struct sp_ctx *c, struct rdma_qp *qp, uint8_t status)
{
	struct rdma_sq *q = &qp->sq;
	struct rdma_op *op = q->first;
	struct sp_qp_work *second = op->second;
	const uint32_t len = op->len;
	const uint8_t what = op->op;

	q->first = op->next;
	q->last = q->first ? q->last : NULL;
	q->wait = q->wait == op ? op->next : q->wait;
	q->send = q->send == op ? op->next : q->send;
	q->reads -= op->counted;
	q->ops--;
	if (!second)
		rdma_complete(c, qp, op->wr_id, op->op, op->len, status,
			      qp->all_signaled || op->flags & SP_RDMA_SIGNALED);
	rdma_op_free(c, op);
	if (second)
		rdma_complete_second(c, qp, second, what, len, status);
}

static void rdma_sq_error(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (qp->type == SP_RDMA_RC)
		rdma_qp_error(c, qp, -1);
	else
		rdma_qp_sq_error(c, qp);
	qp->sq.flushing = true; /* whatever the state was */
}

/* Completes the oldest operations, as far as may be. True: ports still have frames of the next one. */
static bool rdma_complete_some(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;
	struct rdma_op *op;

	while ((op = q->first) != NULL) {
		uint8_t status = SP_RDMA_OK;

		if (op == q->wait) {
			if (!op->status && !q->flushing)
				return false;
			status = op->status ? op->status : SP_RDMA_FLUSHED;
		}
		if (op->mark && !sp_send_settled(c, op->mark))
			return true;
		rdma_op_end_first(c, qp, status);
		if (status && !q->flushing)
			rdma_sq_error(c, qp);
	}
	return false;
}

/* All operations have ended. ERR, SQE: the queue's entries end, too. SP_ISSUE_*. */
static int rdma_flush_some(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	q->failed = false;
	q->una = q->at = q->end;
	q->packet = 0;
	rdma_pool_leave(c, qp);
	if (rdma_state(qp) == SP_RDMA_RTS || rdma_state(qp) == SP_RDMA_SQD) { /* it left SQE meanwhile */
		q->flushing = false;
		return SP_ISSUE_MORE;
	}
	rdma_second_flush(c, qp);
	for (unsigned n = 0; rdma_wqe_waits(qp); n++) {
		uint64_t wr_id;
		uint8_t op;

		if (n == FLUSH_MOST)
			return SP_ISSUE_MORE;
		rdma_wqe_skip(qp, &wr_id, &op);
		rdma_complete(c, qp, wr_id, op, 0, SP_RDMA_FLUSHED, true);
	}
	return SP_ISSUE_DONE;
}

static void rdma_drained(struct sp_ctx *c, struct rdma_qp *qp)
{
	if (!qp->sq.stopping || qp->sq.first || !qp->attr.draining)
		return;
	qp->attr.draining = 0;
	if (qp->attr.sqd_notify)
		rdma_qp_tell(c, qp, SP_RDMA_ASYNC_SQ_DRAINED);
}

/* ---- sending ---- */
/* Request packets without an acknowledgement, if the one at sq.at is sent. */
static uint64_t rdma_outstanding(const struct rdma_sq *q, const struct rdma_op *op)
{
	const struct rdma_op *wait = q->wait;
	uint64_t at = op->packet, una = wait->packet;

	at += rdma_op_reads(op) ? 0 : q->at - op->seq;
	una += rdma_op_reads(wait) ? 0 : q->una - wait->seq;
	return at - una + 1;
}

/* What takes no packets: a key ends, or a window gets one. */
static void rdma_change_key(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_op *op)
{
	struct rdma_sq *q = &qp->sq;

	const struct rdma_binding b = {op->rkey, op->imm, op->remote, op->compare_add, op->swap};

	if (op->op == SP_RDMA_WR_BIND_MW)
		op->status = rdma_window_bind(c, qp, &b) ? SP_RDMA_OK : SP_RDMA_MW_BIND_ERR;
	else if (rdma_rkey_invalidate(c, qp, op->imm))
		op->status = SP_RDMA_LOC_PROT_ERR;
	if (op->status) {
		q->failed = true;
		return;
	}
	op->begun = true;
	q->send = op->next;
	rdma_sq_advance(c, qp, q->una);
}

/* A READ or ATOMIC: a part of it is asked for only when all before that part has come. */
static bool rdma_may_read(struct rdma_qp *qp, struct rdma_op *op)
{
	struct rdma_sq *q = &qp->sq;

	if (q->at != op->seq && q->una != q->at)
		return false;
	if (op->counted)
		return true;
	if (q->reads >= qp->attr.max_rd_atomic)
		return false;
	op->counted = true;
	q->reads++;
	return true;
}

/* More PSNs at once could not be told from old ones. */
static bool rdma_too_far(const struct rdma_sq *q, const struct rdma_op *op)
{
	const uint64_t left = rdma_op_end(op) - q->at;
	const uint32_t psns = !rdma_op_reads(op) ? 1 : left < RDMA_READ_PART ? (uint32_t)left : RDMA_READ_PART;

	return q->at + psns - q->una >= 1u << 23;
}

/* The operation to send a packet of, now; NULL: none. */
static struct rdma_op *rdma_next(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;
	struct rdma_op *op;

	if (qp->selective)
		rdma_selective_skip(qp);
	for (;;) {
		op = q->send;
		if (!op)
			op = q->stopping || q->failed ? NULL : rdma_wqe_fetch(c, qp);
		if (!op || op->status)
			return NULL;
		if (!op->begun && op->flags & SP_RDMA_FENCE && q->reads)
			return NULL;
		if (!rdma_op_local(op))
			break;
		if (q->wait != op)
			return NULL;
		rdma_change_key(c, qp, op);
	}
	if (qp->type != SP_RDMA_RC)
		return op;
	if (rdma_outstanding(q, op) > rdma_of(c)->out.window || rdma_too_far(q, op))
		return NULL;
	if (qp->selective && q->at - q->una > qp->selective->mask) /* what is behind a long READ waits for it */
		return NULL;
	return rdma_op_reads(op) && !rdma_may_read(qp, op) ? NULL : op;
}

/* Makes at most `most` packets. -EAGAIN: no path now. */
static int rdma_make(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_batch *b, unsigned most)
{
	const uint32_t window = rdma_of(c)->out.window, often = window / 4;
	struct rdma_sq *q = &qp->sq;

	b->n = b->pieces = 0;
	while (b->n < most) {
		struct rdma_op *op = rdma_next(c, qp);
		bool ask;
		int r;

		if (!op)
			break;
		ask = qp->type == SP_RDMA_RC && (q->since_ask + 1 >= often || rdma_outstanding(q, op) >= window);
		ask |= qp->selective && q->at < q->end; /* it may be what the peer waits for */
		r = rdma_packet_add(c, qp, b, op, ask);
		if (r == -EAGAIN && !b->n)
			return r;
		if (r)
			break;
		q->since_ask = b->send[b->n - 1].flags & SP_SEND_ACK_REQ ? 0 : q->since_ask + 1;
	}
	return 0;
}

/* The first n packets were sent. */
static void rdma_sent(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_batch *b, unsigned n)
{
	const uint64_t mark = sp_send_mark(c);
	struct rdma_sq *q = &qp->sq;
	uint64_t bytes = 0, ask = 0;

	for (unsigned i = 0; i < n; i++) {
		c->counters[b->seq[i] < q->end ? RDMA_REPEATED : RDMA_SENT]++;
		if (qp->selective)
			rdma_selective_sent(c, qp, b->seq[i]);
		q->end = b->end[i] > q->end ? b->end[i] : q->end;
		if (b->send[i].mem)
			b->op[i]->mark = mark;
		ask = b->send[i].flags & SP_SEND_ACK_REQ ? b->end[i] : ask;
		bytes += b->send[i].len + 70; /* about what the headers take */
	}
	if (n < b->n) {
		q->at = b->seq[n];
		q->send = b->op[n];
	}
	rdma_rate_sent(c, qp, bytes);
	if (qp->type != SP_RDMA_RC) {
		rdma_sq_advance(c, qp, q->at);
		return;
	}
	if (q->ask <= q->una)
		q->heard = c->now;
	q->ask = ask > q->ask ? ask : q->ask;
}

static int rdma_send_some(struct sp_ctx *c, struct rdma_qp *qp, unsigned budget, unsigned *sent)
{
	struct rdma_batch b;
	unsigned most, left = budget;

	while (left) {
		int r;

		most = rdma_rate_budget(c, qp, left < RDMA_BATCH ? left : RDMA_BATCH);
		if (!most)
			return SP_ISSUE_DONE;
		r = rdma_make(c, qp, &b, most);
		if (!r && !b.n)
			return SP_ISSUE_DONE;
		if (!r)
			r = sp_send_roce_run(c, b.path, b.send, b.n);
		if (r == -EAGAIN) {
			if (b.n) {
				qp->sq.at = b.seq[0];
				qp->sq.send = b.op[0];
			}
			return SP_ISSUE_MORE;
		}
		if (r == -EMSGSIZE) { /* the port takes no such packets, now or later */
			b.op[0]->status = SP_RDMA_LOC_LEN_ERR;
			qp->sq.failed = true;
			qp->sq.at = b.seq[0];
			qp->sq.send = b.op[0];
			return SP_ISSUE_DONE;
		}
		/* Any other failure counts as a packet lost in the network. */
		r = r < 0 ? 1 : r;
		rdma_sent(c, qp, &b, (unsigned)r);
		*sent += (unsigned)r;
		left -= (unsigned)r;
	}
	return SP_ISSUE_MORE;
}

/* ---- calls ---- */
int rdma_sq_open(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_rdma_qp_create *in)
{
	struct rdma_sq *q = &qp->sq;
	uint64_t bytes;

	(void)c;
	if (in->sq_log > SP_RDMA_QUEUE_LOG || in->send_sges > SP_RDMA_SGES || in->inlined > SP_RDMA_INLINE ||
	    in->sq % 64)
		return -EINVAL;
	*q = (struct rdma_sq){.log = in->sq_log,
			      .stride = sp_rdma_sq_stride(in->send_sges, in->inlined),
			      .sges = in->send_sges,
			      .inlined = in->inlined};
	bytes = sizeof(struct sp_rdma_queue) + ((uint64_t)q->stride << q->log);
	if (!sp_mem_holds(qp->mem, in->sq, bytes))
		return -EFAULT;
	q->tail = &((struct sp_rdma_queue *)(void *)(qp->mem->base + in->sq))->tail;
	q->rung = &((struct sp_rdma_queue *)(void *)(qp->mem->base + in->sq))->rung;
	q->entry = qp->mem->base + in->sq + sizeof(struct sp_rdma_queue);
	qp->sq_at = SP_NEVER;
	return 0;
}

static bool rdma_settle_dropped(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;

	while (q->dropped) {
		struct rdma_op *op = q->dropped;

		if (op->mark && !sp_send_settled(c, op->mark))
			return false;
		struct sp_qp_work *second = op->second;

		q->dropped = op->next;
		rdma_op_free(c, op);
		if (second)
			rdma_second_flushed(c, qp, second);
	}
	return true;
}

void rdma_sq_reset(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_sq *q = &qp->sq;
	struct rdma_op **end = &q->dropped;

	rdma_pool_leave(c, qp);
	while (*end)
		end = &(*end)->next;
	*end = q->first;
	*q = (struct rdma_sq){.tail = q->tail,
			      .rung = q->rung,
			      .entry = q->entry,
			      .log = q->log,
			      .stride = q->stride,
			      .sges = q->sges,
			      .inlined = q->inlined,
			      .dropped = q->dropped};
	qp->sq_at = SP_NEVER;
	rdma_settle_dropped(c, qp);
}

bool rdma_sq_settled(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_op *op;

	if (!rdma_settle_dropped(c, qp))
		return false;
	for (op = qp->sq.first; op; op = op->next)
		if (op->mark && !sp_send_settled(c, op->mark))
			return false;
	return true;
}

void rdma_sq_state(struct sp_ctx *c, struct rdma_qp *qp, uint8_t before)
{
	const uint8_t state = rdma_state(qp);
	struct rdma_sq *q = &qp->sq;

	if (state == SP_RDMA_RTS && before == SP_RDMA_RTR) {
		q->una = q->at = q->end = rdma_psn(qp->attr.sq_psn);
		q->pace_at = 0;
	}
	if (state == SP_RDMA_RTS) {
		q->retries = qp->attr.retry_cnt;
		q->rnrs = qp->attr.rnr_retry;
		q->stopping = false;
		qp->attr.draining = 0;
	}
	if (state == SP_RDMA_SQD && before != SP_RDMA_SQD) {
		q->stopping = true;
		qp->attr.draining = 1;
	}
	rdma_qp_start(c, qp);
}

void rdma_doorbell(struct sp_ctx *c, struct rdma_qp *qp)
{
	rdma_qp_start(c, qp);
}

int rdma_request_issue(struct sp_ctx *c, struct rdma_qp *qp, unsigned budget, unsigned *sent)
{
	struct rdma_sq *q = &qp->sq;
	const uint8_t state = rdma_state(qp);
	int r = SP_ISSUE_DONE;
	bool waits;

	waits = !rdma_settle_dropped(c, qp);
	if (state == SP_RDMA_RESET || state == SP_RDMA_INIT || state == SP_RDMA_RTR)
		return waits ? SP_ISSUE_WAIT : SP_ISSUE_DONE;
	waits |= rdma_complete_some(c, qp);
	if (!q->flushing && !q->rnr_until && (state == SP_RDMA_RTS || state == SP_RDMA_SQD)) {
		r = rdma_send_some(c, qp, budget, sent);
		waits |= rdma_complete_some(c, qp); /* UC, UD; and what has failed */
		rdma_retry_arm(c, qp);
	}
	if (q->flushing && !q->first)
		r = rdma_flush_some(c, qp);
	rdma_drained(c, qp);
	rdma_pool_pass_on(c);
	if (r != SP_ISSUE_DONE)
		return r;
	return waits ? SP_ISSUE_WAIT : SP_ISSUE_DONE;
}

void rdma_request_timer(struct sp_ctx *c, struct rdma_qp *qp)
{
	rdma_retry_timer(c, qp);
}

void rdma_request_answer(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p)
{
	const uint8_t state = rdma_state(qp);
	struct rdma_sq *q = &qp->sq;

	if (p->opcode == SP_ROCE_CNP) {
		c->counters[RDMA_CNPS_RECEIVED]++;
		if (rdma_of(c)->cc && state >= SP_RDMA_RTS)
			rdma_rate_cut(c, qp);
		return;
	}
	if (qp->type != SP_RDMA_RC) {
		p->verdict = SP_DROP(RDMA_WRONG_TYPE);
		return;
	}
	if (q->flushing || (state != SP_RDMA_RTS && state != SP_RDMA_SQD)) {
		p->verdict = SP_DROP(RDMA_WRONG_STATE);
		return;
	}
	p->verdict = rdma_answered(c, qp, p);
	/* Ports may have frames, there may be room in the window, it may be drained. Rung: while all operations that a
	 * QP may have were under way, nobody looked at the queue's end, so the application does not ring again. */
	if (rdma_complete_some(c, qp) || q->send || q->stopping || q->flushing || qp->second.send.first ||
	    __atomic_load_n(q->rung, __ATOMIC_RELAXED) || __atomic_load_n(q->tail, __ATOMIC_RELAXED) != q->next)
		rdma_qp_start(c, qp);
	rdma_retry_arm(c, qp);
}
