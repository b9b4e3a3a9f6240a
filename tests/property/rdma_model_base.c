/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of RDMA: memory, completions, events, the ends of QPs; coverage. */
#include "rdma_model.h"

#include <stdarg.h>

struct rm rm;
uint64_t rm_cells[RM_OPS][RM_NAKS][RM_STATES][RM_LOSSES];

#define FORM(k, f, l, ...)                                                                                             \
	{                                                                                                              \
		.kind = (k), .first = (f), .last = (l), __VA_ARGS__                                                    \
	}
const struct rm_form rm_forms[32] = {
	[RM_SEND_FIRST] = FORM(1, true, false),
	[RM_SEND_MIDDLE] = FORM(1, false, false),
	[RM_SEND_LAST] = FORM(1, false, true),
	[RM_SEND_LAST_IMM] = FORM(1, false, true, .imm = true, .ext = 4),
	[RM_SEND_ONLY] = FORM(1, true, true),
	[RM_SEND_ONLY_IMM] = FORM(1, true, true, .imm = true, .ext = 4),
	[RM_WRITE_FIRST] = FORM(2, true, false, .ext = 16),
	[RM_WRITE_MIDDLE] = FORM(2, false, false),
	[RM_WRITE_LAST] = FORM(2, false, true),
	[RM_WRITE_LAST_IMM] = FORM(2, false, true, .imm = true, .ext = 4),
	[RM_WRITE_ONLY] = FORM(2, true, true, .ext = 16),
	[RM_WRITE_ONLY_IMM] = FORM(2, true, true, .imm = true, .ext = 20),
	[RM_READ_REQUEST] = FORM(3, true, true, .ext = 16),
	[RM_COMPARE_SWAP] = FORM(4, true, true, .ext = 28),
	[RM_FETCH_ADD] = FORM(4, true, true, .ext = 28),
	[RM_SEND_LAST_INV] = FORM(1, false, true, .inv = true, .ext = 4),
	[RM_SEND_ONLY_INV] = FORM(1, true, true, .inv = true, .ext = 4),
};

void rm_wrong(const char *format, ...)
{
	va_list list;

	if (rm.bad)
		return;
	rm.bad = true;
	va_start(list, format);
	vsnprintf(rm.text, sizeof(rm.text), format, list);
	va_end(list);
}

void rm_begin(void)
{
	memset(&rm, 0, sizeof(rm));
}

/* ---- memory ---- */
struct rm_key *rm_key_new(uint32_t key)
{
	for (unsigned i = 0; i < RM_KEYS; i++)
		if (!rm.key[i].live) {
			rm.key[i] = (struct rm_key){.live = true, .key = key};
			return &rm.key[i];
		}
	abort();
}

struct rm_key *rm_find(uint32_t key, uint64_t va, uint64_t len, uint32_t access)
{
	for (unsigned i = 0; i < RM_KEYS; i++) {
		struct rm_key *k = &rm.key[i];

		if (!k->live || k->key != key)
			continue;
		if ((k->access & access) != access || (access & 14 && k->invalid))
			return NULL;
		return va >= k->va && va - k->va <= k->len && len <= k->len - (va - k->va) ? k : NULL;
	}
	return NULL;
}

void rm_copy(const struct rm_key *k, uint64_t va, uint8_t *bytes, uint32_t len, bool write)
{
	uint64_t at = va - k->va;

	for (unsigned i = 0; i < k->parts && len; i++) {
		uint64_t take;

		if (at >= k->part[i].len) {
			at -= k->part[i].len;
			continue;
		}
		take = k->part[i].len - at < len ? k->part[i].len - at : len;
		if (write)
			memcpy(rm.arena + k->part[i].at + at, bytes, take);
		else
			memcpy(bytes, rm.arena + k->part[i].at + at, take);
		bytes += take;
		len -= (uint32_t)take;
		at = 0;
	}
}

bool rm_invalidate(uint32_t key)
{
	struct rm_key *k = rm_find(key, 0, 0, 0);

	for (unsigned i = 0; !k && i < RM_KEYS; i++)
		if (rm.key[i].live && rm.key[i].key == key)
			k = &rm.key[i];
	if (!k || k->invalid || !(k->access & 14))
		return false;
	k->invalid = true;
	return true;
}

void rm_compare(void)
{
	if (rm.bad || !memcmp(rm.arena, rm.real, RM_ARENA))
		return;
	for (uint32_t i = 0; i < RM_ARENA; i++)
		if (rm.arena[i] != rm.real[i]) {
			rm_wrong("memory: byte %u is %02x, not %02x", i, rm.real[i], rm.arena[i]);
			return;
		}
}

/* ---- completions and events ---- */
static void due(struct rm_due *d, const struct sp_rdma_cqe *e)
{
	RM_MUST(d->tail - d->head < RM_OLD, "the test has no room for completions");
	d->e[d->tail++ % RM_OLD] = *e;
}

void rm_receive_due(struct rm_qp *q, const struct sp_rdma_cqe *e)
{
	due(&q->received, e);
}

void rm_tell(struct rm_qp *q, int async)
{
	if (async >= 0)
		q->event[q->event_tail++ % 16] = async;
}

void rm_event(uint32_t qp, int async)
{
	struct rm_qp *q = &rm.qp[qp];

	if (q->event_head == q->event_tail && async != SP_RDMA_ASYNC_SQ_DRAINED)
		rm_wrong("QP %u: event %d, and none was due", qp, async);
	else if (async == SP_RDMA_ASYNC_SQ_DRAINED) {
		RM_MUST(q->drain_tell || q->drain_may, "QP %u: is not draining, or nobody asked", qp);
		RM_MUST(q->wait == q->posted || !q->wr[q->wait % RM_OLD].begun, "QP %u: drained while a request is out",
			qp);
		q->drain_tell = q->drain_may = false;
	} else {
		RM_MUST(q->event[q->event_head++ % 16] == async, "QP %u: event %d, not %d", qp, async,
			q->event[(q->event_head - 1) % 16]);
	}
}

static uint8_t wc_op(uint8_t op)
{
	return op <= SP_RDMA_WR_WRITE_IMM   ? SP_RDMA_WC_WRITE
	       : op == SP_RDMA_WR_READ	    ? SP_RDMA_WC_READ
	       : op == SP_RDMA_WR_CAS	    ? SP_RDMA_WC_CAS
	       : op == SP_RDMA_WR_FETCH_ADD ? SP_RDMA_WC_FETCH_ADD
	       : op == SP_RDMA_WR_LOCAL_INV ? SP_RDMA_WC_LOCAL_INV
					    : SP_RDMA_WC_SEND;
}

/* The oldest request ends. */
void rm_wr_end(struct rm_qp *q, uint8_t status)
{
	struct rm_wr *w = &q->wr[q->wait++ % RM_OLD];
	const bool told = status || q->all_signaled || w->flags & SP_RDMA_SIGNALED;
	const struct sp_rdma_cqe e = {.wr_id = w->id,
				      .len = w->len,
				      .qp = q->number,
				      .entries = ++q->done,
				      .status = status,
				      .reserved2 = w->bad, /* or this: the NIC may have looked at it before */
				      .op = wc_op(w->op)};

	if (told)
		due(&q->sent, &e);
}

void rm_requests_flush(struct rm_qp *q)
{
	q->stopped = true;
	if (q->failed && q->wait != q->posted)
		rm_wr_end(q, q->failed);
	q->failed = 0;
	while (q->wait != q->posted)
		rm_wr_end(q, SP_RDMA_FLUSHED);
}

static bool same(const struct sp_rdma_cqe *a, const struct sp_rdma_cqe *b, bool send)
{
	const bool looked = send && b->status == SP_RDMA_FLUSHED && b->reserved2 && a->status == b->reserved2;

	return a->wr_id == b->wr_id && (a->status == b->status || looked) && a->op == b->op && a->qp == b->qp &&
	       (a->status || (a->len == b->len && a->flags == b->flags && a->src_qp == b->src_qp &&
			      (!(a->flags & (SP_RDMA_WC_IMM | SP_RDMA_WC_INV)) || a->imm == b->imm))) &&
	       (!send || a->entries == b->entries);
}

bool rm_completed(const struct sp_rdma_cqe *e)
{
	const bool send = e->op < SP_RDMA_WC_RECV;
	struct rm_qp *q = NULL;
	struct rm_due *d;
	struct sp_rdma_cqe *want;

	for (unsigned i = 0; i < RM_QPS; i++)
		if (rm.qp[i].exists && rm.qp[i].number == e->qp)
			q = &rm.qp[i];
	rm.completions++;
	if (!q) {
		rm_wrong("a completion of QP %u, which does not exist", e->qp);
		return true;
	}
	d = send ? &q->sent : &q->received;
	while (send && d->head == d->tail && rm_local_inv(q))
		;
	want = &d->e[d->head % RM_OLD];
	if (d->head == d->tail) {
		rm_wrong("QP %u: a completion too many: wr_id %llu status %u op %u", e->qp,
			 (unsigned long long)e->wr_id, e->status, e->op);
		return true;
	}
	/* It may have been done just before the queue was flushed. */
	if (want->op == SP_RDMA_WC_LOCAL_INV && want->status == SP_RDMA_FLUSHED && !e->status)
		want->status = SP_RDMA_OK;
	RM_MUST(same(e, want, send),
		"QP %u: completion wr_id %llu status %u op %u len %u flags %u imm %x entries %u, not %llu %u %u %u %u "
		"%x %u",
		e->qp, (unsigned long long)e->wr_id, e->status, e->op, e->len, e->flags, e->imm, e->entries,
		(unsigned long long)want->wr_id, want->status, want->op, want->len, want->flags, want->imm,
		want->entries);
	d->head++;
	return e->status || want->vendor;
}

/* ---- the ends of QPs ---- */
static void flush_receives(struct rm_qp *q)
{
	struct rm_rq *r = &rm.rq[q->rq];
	struct sp_rdma_cqe e = {.qp = q->number, .status = SP_RDMA_FLUSHED, .op = SP_RDMA_WC_RECV};

	for (; q->rq != RM_SRQ && r->head != r->tail; r->head++) {
		e.wr_id = r->entry[r->head % RM_DEPTH].id;
		rm_receive_due(q, &e);
	}
}

/* To ERR. */
void rm_error(struct rm_qp *q, int async)
{
	const struct sp_rdma_cqe e = {
		.wr_id = q->receive.id, .qp = q->number, .status = SP_RDMA_FLUSHED, .op = SP_RDMA_WC_RECV};

	if (q->state == SP_RDMA_RESET || q->state == SP_RDMA_ERR)
		return;
	q->state = SP_RDMA_ERR;
	q->failing = 0;
	q->drain_may |= q->drain_tell;
	q->drain_tell = false;
	for (unsigned i = 0; i < SP_RDMA_READS; i++)
		q->read[i].pending = false;
	q->ack_must = q->nak_must = q->nak_may = q->rnr_must = false;
	rm_tell(q, async);
	if (q->taken)
		rm_receive_due(q, &e);
	q->taken = false;
	flush_receives(q);
	rm_requests_flush(q);
	if (q->rq == RM_SRQ)
		rm_tell(q, SP_RDMA_ASYNC_QP_LAST_WQE);
}

void rm_post_receive(uint32_t rq, const struct rm_entry *e)
{
	struct rm_rq *r = &rm.rq[rq];

	r->entry[r->tail++ % RM_DEPTH] = *e;
	if (rq != RM_SRQ && rm.qp[rq].exists && rm.qp[rq].state == SP_RDMA_ERR)
		flush_receives(&rm.qp[rq]);
}

static void forget(struct rm_qp *q)
{
	for (unsigned i = 0; i < RM_OLD; i++)
		rm_count(&q->wr[i]);
	memset(q->wr, 0, sizeof(q->wr));
	memset(q->read, 0, sizeof(q->read));
	q->wait = q->posted = q->done = 0;
	q->una = q->cursor = q->end = q->next = 0;
	q->fails = q->event_head = q->event_tail = 0;
	q->rnr_until = 0;
	q->failed = q->failing = q->kind = 0;
	q->msn = q->ended = q->reads = 0;
	q->back = q->stopped = q->taken = q->gap = q->heard = q->drain_tell = q->drain_may = false;
	q->nak_may = q->nak_must = q->rnr_must = q->ack_must = false;
	q->sent = q->received = (struct rm_due){0};
	if (q->rq != RM_SRQ)
		rm.rq[q->rq].head = rm.rq[q->rq].tail = 0;
}

void rm_modified(uint32_t qp, uint8_t state, uint32_t rq_psn, uint32_t sq_psn)
{
	struct rm_qp *q = &rm.qp[qp];
	const uint8_t before = q->state;

	if (state == SP_RDMA_ERR) {
		rm_error(q, -1);
		return;
	}
	q->state = state;
	if (state == SP_RDMA_RESET)
		forget(q);
	if (state == SP_RDMA_RTR && before == SP_RDMA_INIT)
		q->epsn = rq_psn;
	if (state == SP_RDMA_RTS && before == SP_RDMA_RTR) {
		const uint64_t more = sq_psn - q->una;

		for (uint32_t i = q->wait; i != q->posted; i++)
			q->wr[i % RM_OLD].first += more;
		q->una = q->cursor = q->end = sq_psn;
		q->next += more;
	}
	if (state == SP_RDMA_RTS) {
		q->rnrs = q->rnr_retry;
		q->fails = 0;
		q->stopped = false;
		q->drain_tell = false;
	}
}

void rm_sent(const struct rm_packet *p)
{
	struct rm_qp *q = &rm.qp[p->from];

	RM_MUST(q->exists, "a packet of QP slot %u, which does not exist", p->from);
	if (rm_is_answer(p->op))
		rm_answer(q, p);
	else
		rm_request(q, p);
}

void rm_delivered(const struct rm_packet *p)
{
	struct rm_qp *q = &rm.qp[p->to];

	if (p->foul || !q->exists || q->state < SP_RDMA_RTR || q->state == SP_RDMA_ERR) {
		struct rm_wr *w = rm_is_answer(p->op) ? NULL : rm_wr_of(&rm.qp[p->from], p->psn);

		if (w && !p->foul && rm.qp[p->from].type == SP_RDMA_RC)
			w->states |= (uint8_t)(1u << (q->exists ? q->state : SP_RDMA_RESET));
		return;
	}
	if (rm_is_answer(p->op))
		rm_answered(q, p);
	else
		rm_take(q, p);
}

void rm_look(uint32_t qp, uint8_t state, bool quiet)
{
	struct rm_qp *q = &rm.qp[qp];

	if (rm.bad || !q->exists || state == SP_RDMA_RESET)
		return;
	if (q->type == SP_RDMA_RC ? state == SP_RDMA_ERR && q->state != SP_RDMA_ERR
				  : state == SP_RDMA_SQE && q->state != SP_RDMA_SQE) {
		while (!q->failed && rm_local_inv(q))
			;
		RM_MUST(rm_may_fail(q), "QP %u has failed, and nothing was wrong", qp);
		if (q->type == SP_RDMA_RC) {
			rm_error(q, -1);
		} else {
			q->state = SP_RDMA_SQE;
			q->drain_may |= q->drain_tell;
			q->drain_tell = false;
			rm_requests_flush(q);
		}
	}
	RM_MUST(state == q->state || (q->failed && !quiet), "QP %u: state %u, not %u", qp, state, q->state);
	if (!quiet)
		return;
	RM_MUST(!rm_answer_due(q), "QP %u: an answer is due: ACK %d (PSN %x, expects %x) NAK %d RNR %d end %x", qp,
		q->ack_must, q->ack_psn, q->epsn, q->nak_must, q->rnr_must, q->failing);
	RM_MUST(q->event_head == q->event_tail, "QP %u: event %d has not come", qp, q->event[q->event_head % 16]);
	RM_MUST(q->received.head == q->received.tail || q->state == SP_RDMA_ERR,
		"QP %u: a receive has not completed: wr_id %llu", qp,
		(unsigned long long)q->received.e[q->received.head % RM_OLD].wr_id);
	RM_MUST(!q->drain_tell || q->state != SP_RDMA_SQD || (q->wait != q->posted && q->wr[q->wait % RM_OLD].used),
		"QP %u is drained, and nobody was told", qp);
	RM_MUST(q->sent.head == q->sent.tail, "QP %u: a request has not completed: wr_id %llu", qp,
		(unsigned long long)q->sent.e[q->sent.head % RM_OLD].wr_id);
}

void rm_all_told(uint32_t qp)
{
	struct rm_qp *q = &rm.qp[qp];

	if (!q->exists || q->state == SP_RDMA_RESET)
		return;
	RM_MUST(q->received.head == q->received.tail, "QP %u: receives have not completed: %u, next wr_id %llu", qp,
		q->received.tail - q->received.head,
		(unsigned long long)q->received.e[q->received.head % RM_OLD].wr_id);
	if (q->state != SP_RDMA_RTS && q->state != SP_RDMA_ERR)
		return;
	RM_MUST(q->wait == q->posted, "QP %u, state %u: %u requests have not ended, the next one is op %u", qp,
		q->state, q->posted - q->wait, q->wr[q->wait % RM_OLD].op);
}

/* ---- coverage ---- */
static bool sends(unsigned op)
{
	return op == SP_RDMA_WR_SEND || op == SP_RDMA_WR_SEND_IMM || op == SP_RDMA_WR_SEND_INV;
}

bool rm_possible(unsigned op, unsigned nak, unsigned state, unsigned loss)
{
	const bool atomic = op == SP_RDMA_WR_CAS || op == SP_RDMA_WR_FETCH_ADD;

	if (op == SP_RDMA_WR_LOCAL_INV || op == 8 || op == 10 || state == SP_RDMA_SQE)
		return false;
	/* ATOMICs have one packet each way; a READ asks with one. */
	if (atomic && loss >= RM_LOST_FIRST && loss <= RM_LOST_LAST)
		return false;
	/* Who takes no packets says nothing. */
	if ((state < SP_RDMA_RTR || state == SP_RDMA_ERR) && (nak != RM_NAK_NONE || loss != RM_LOST_NOT))
		return false;
	switch (nak) {
	case RM_NAK_RNR:
		return sends(op) || op == SP_RDMA_WR_WRITE_IMM;
	case RM_NAK_ACCESS: /* a SEND names no key */
		return op != SP_RDMA_WR_SEND && op != SP_RDMA_WR_SEND_IMM;
	case RM_NAK_OPERATION: /* the receive entry, or memory that ATOMICs cannot be done in */
		return sends(op) || op == SP_RDMA_WR_WRITE_IMM || atomic;
	default:
		break;
	}
	/* A READ that is refused has no responses: what is lost of it is the request or the NAK. */
	if (op == SP_RDMA_WR_READ && nak >= RM_NAK_INVALID && loss >= RM_LOST_FIRST && loss <= RM_LOST_LAST)
		return nak == RM_NAK_ACCESS; /* but its key may be invalidated meanwhile */
	return true;
}

void rm_count(const struct rm_wr *w)
{
	if (!w->used || w->op >= RM_OPS)
		return;
	for (unsigned n = 0; n < RM_NAKS; n++)
		for (unsigned s = 0; s < RM_STATES; s++)
			for (unsigned l = 0; l < RM_LOSSES; l++)
				if ((w->naks ? w->naks >> n & 1 : !n) && w->states >> s & 1 &&
				    (w->lost ? w->lost >> l & 1 : !l))
					rm_cells[w->op][n][s][l]++;
}

void rm_lost(const struct rm_packet *p)
{
	const struct rm_form *f = &rm_forms[p->op & 0x1F];
	struct rm_wr *w;

	if (rm.qp[p->from].type != SP_RDMA_RC)
		return;
	w = rm_wr_of(&rm.qp[rm_is_answer(p->op) ? p->to : p->from], p->psn);
	if (!w)
		return;
	if (p->op == RM_RESPONSE_FIRST || p->op == RM_RESPONSE_MIDDLE || p->op == RM_RESPONSE_LAST)
		w->lost |= (uint8_t)(1u << (RM_LOST_FIRST + p->op - RM_RESPONSE_FIRST));
	else if (rm_is_answer(p->op))
		w->lost |= 1u << RM_LOST_ACK;
	else
		w->lost |= (uint8_t)(1u << (f->first  ? f->last ? RM_LOST_ONLY : RM_LOST_FIRST
					    : f->last ? RM_LOST_LAST
						      : RM_LOST_MIDDLE));
}
