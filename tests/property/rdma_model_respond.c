/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of RDMA: requests that arrive (volume 1, 9.7.4, 9.7.5.1, 9.8.2, 9.8.3), and what may be said to them. */
#include "rdma_model.h"

enum outcome { TAKEN, NO_ENTRY, INVALID, LONG, ACCESS, LOCAL };

/* ---- messages ---- */
static int take_entry(struct rm_qp *q)
{
	struct rm_rq *r = &rm.rq[q->rq];

	if (q->taken)
		return 1;
	if (r->head == r->tail)
		return 0;
	q->receive = r->entry[r->head++ % RM_DEPTH];
	q->taken = true;
	q->sge = q->within = q->got = 0;
	if (!q->receive.malformed)
		return 1;
	q->receive.sges = 0;
	return -1;
}

/* SGE by SGE: what fits is written, also of a message that does not fit. */
static enum outcome place(struct rm_qp *q, const uint8_t *bytes, uint32_t len)
{
	while (len) {
		const struct sp_rdma_sge *g = &q->receive.sge[q->sge];
		const struct rm_key *k;
		uint32_t take;

		if (q->sge == q->receive.sges)
			return LONG;
		if (q->within == g->len) {
			q->sge++;
			q->within = 0;
			continue;
		}
		k = rm_find(g->lkey, g->addr, g->len, SP_RDMA_LOCAL_WRITE);
		if (!k)
			return LOCAL;
		take = g->len - q->within < len ? g->len - q->within : len;
		rm_copy(k, g->addr + q->within, (uint8_t *)(uintptr_t)bytes, take, true);
		bytes += take;
		len -= take;
		q->within += take;
		q->got += take;
	}
	return TAKEN;
}

static void message_done(struct rm_qp *q, uint32_t last)
{
	q->kind = 0;
	q->msn = rm_psn(q->msn + 1);
	q->ends[q->ended++ % RM_OLD] = last;
}

static void receive_done(struct rm_qp *q, const struct rm_packet *p, const struct rm_form *f, struct sp_rdma_cqe e)
{
	e.wr_id = q->receive.id;
	e.qp = q->number;
	e.vendor = p->se; /* the NIC leaves it 0: ours */
	if (f->inv) {
		e.flags |= SP_RDMA_WC_INV;
		e.imm = (uint32_t)rm_get(p->ext + p->ext_len - 4, 4);
	} else if (f->imm) {
		e.flags |= SP_RDMA_WC_IMM;
		memcpy(&e.imm, p->ext + p->ext_len - 4, 4);
	}
	q->taken = false;
	rm_receive_due(q, &e);
}

static enum outcome take_send(struct rm_qp *q, const struct rm_packet *p, const struct rm_form *f)
{
	const int entry = take_entry(q);
	enum outcome r;

	if (entry <= 0)
		return entry ? LOCAL : NO_ENTRY;
	q->kind = 1;
	r = place(q, p->bytes, p->len);
	if (r != TAKEN || !f->last)
		return r;
	if (f->inv && !rm_invalidate((uint32_t)rm_get(p->ext, 4)))
		return ACCESS;
	message_done(q, p->psn);
	receive_done(q, p, f, (struct sp_rdma_cqe){.op = SP_RDMA_WC_RECV, .len = q->got});
	return TAKEN;
}

static enum outcome take_write(struct rm_qp *q, const struct rm_packet *p, const struct rm_form *f)
{
	const struct rm_key *k;
	int entry = 1;

	if (f->first) {
		q->va = rm_get(p->ext, 8);
		q->rkey = (uint32_t)rm_get(p->ext + 8, 4);
		q->left = q->total = (uint32_t)rm_get(p->ext + 12, 4);
		if (!(q->access & SP_RDMA_REMOTE_WRITE) || q->total > SP_RDMA_MSG)
			return INVALID;
		if (q->total && !rm_find(q->rkey, q->va, q->total, SP_RDMA_REMOTE_WRITE))
			return ACCESS;
	}
	if (f->last ? p->len != q->left : p->len >= q->left)
		return INVALID;
	if (f->imm)
		entry = take_entry(q);
	if (entry <= 0)
		return entry ? LOCAL : NO_ENTRY;
	k = p->len ? rm_find(q->rkey, q->va, p->len, SP_RDMA_REMOTE_WRITE) : NULL;
	if (p->len && !k)
		return ACCESS;
	if (k)
		rm_copy(k, q->va, (uint8_t *)(uintptr_t)p->bytes, p->len, true);
	q->kind = 2;
	q->va += p->len;
	q->left -= p->len;
	if (!f->last)
		return TAKEN;
	message_done(q, p->psn);
	if (f->imm)
		receive_done(q, p, f, (struct sp_rdma_cqe){.op = SP_RDMA_WC_RECV_WRITE_IMM, .len = q->total});
	return TAKEN;
}

/* What the receive entry that a message has taken ends with. */
static void message_failed(struct rm_qp *q, enum outcome why)
{
	static const uint8_t status[] = {[INVALID] = SP_RDMA_REM_INV_REQ_ERR,
					 [LONG] = SP_RDMA_LOC_LEN_ERR,
					 [ACCESS] = SP_RDMA_LOC_ACCESS_ERR,
					 [LOCAL] = SP_RDMA_LOC_PROT_ERR};
	struct sp_rdma_cqe e = {.wr_id = q->receive.id, .qp = q->number, .op = SP_RDMA_WC_RECV, .status = status[why]};

	if (!q->taken)
		return;
	if (why == LOCAL && q->receive.malformed)
		e.status = SP_RDMA_LOC_QP_OP_ERR;
	q->taken = false;
	rm_receive_due(q, &e);
}

static void heard(struct rm_qp *q)
{
	if (q->state == SP_RDMA_RTR && !q->heard)
		rm_tell(q, SP_RDMA_ASYNC_COMM_EST);
	q->heard |= q->state == SP_RDMA_RTR;
}

static bool length_fits(const struct rm_qp *q, const struct rm_packet *p, const struct rm_form *f)
{
	return f->last ? p->len <= q->mtu && (p->len || f->first) : p->len == q->mtu;
}

/* ---- RC ---- */
static void refuse(struct rm_qp *q, uint8_t syndrome, int event)
{
	q->failing = syndrome;
	q->failure = event;
}

static void fail_message(struct rm_qp *q, enum outcome why)
{
	const bool told = q->taken;

	message_failed(q, why);
	if (why == ACCESS)
		refuse(q, RM_ACCESS, told ? -1 : SP_RDMA_ASYNC_QP_ACCESS_ERR);
	else if (why == LOCAL)
		refuse(q, RM_OPERATION, told ? -1 : SP_RDMA_ASYNC_QP_FATAL);
	else
		refuse(q, RM_INVALID, told ? -1 : SP_RDMA_ASYNC_QP_REQ_ERR);
}

/* An answer to a duplicate gives way: who asks for more has got the first one. */
static struct rm_read *read_new(struct rm_qp *q)
{
	struct rm_read *r = q->max_dest ? &q->read[q->reads % q->max_dest] : NULL;

	return r && r->used && r->pending && !r->answered ? NULL : r;
}

static void read_taken(struct rm_qp *q, struct rm_read *r, struct rm_read as)
{
	*r = as;
	r->used = r->pending = r->begins = true;
	r->first = q->epsn;
	r->end = r->len;
	message_done(q, rm_psn(q->epsn + r->psns - 1));
	r->msn = q->msn;
	q->reads++;
	q->epsn = rm_psn(q->epsn + r->psns);
	q->ack_must = q->nak_must = false; /* its answer says all that */
}

static void take_read(struct rm_qp *q, const struct rm_packet *p)
{
	struct rm_read *r = read_new(q);
	const struct rm_read as = {.va = rm_get(p->ext, 8),
				   .rkey = (uint32_t)rm_get(p->ext + 8, 4),
				   .len = (uint32_t)rm_get(p->ext + 12, 4),
				   .psns = rm_packets((uint32_t)rm_get(p->ext + 12, 4), q->mtu)};

	if (p->len || !r || as.len > SP_RDMA_MSG || !(q->access & SP_RDMA_REMOTE_READ))
		refuse(q, RM_INVALID, SP_RDMA_ASYNC_QP_REQ_ERR);
	else if (as.len && !rm_find(as.rkey, as.va, as.len, SP_RDMA_REMOTE_READ))
		refuse(q, RM_ACCESS, SP_RDMA_ASYNC_QP_ACCESS_ERR);
	else
		read_taken(q, r, as);
}

static uint64_t arena_at(const struct rm_key *k, uint64_t va)
{
	uint64_t at = va - k->va;
	unsigned i = 0;

	for (; i + 1 < k->parts && at >= k->part[i].len; i++)
		at -= k->part[i].len;
	return at + 8 <= k->part[i].len ? k->part[i].at + at : 1;
}

static void take_atomic(struct rm_qp *q, const struct rm_packet *p)
{
	const uint64_t va = rm_get(p->ext, 8), swap_add = rm_get(p->ext + 12, 8), compare = rm_get(p->ext + 20, 8);
	struct rm_read *r = read_new(q), as = {.atomic = true, .psns = 1};
	const struct rm_key *k;
	uint64_t value;

	if (p->len || !r || va % 8 || !(q->access & SP_RDMA_REMOTE_ATOMIC)) {
		refuse(q, RM_INVALID, SP_RDMA_ASYNC_QP_REQ_ERR);
		return;
	}
	k = rm_find((uint32_t)rm_get(p->ext + 8, 4), va, 8, SP_RDMA_REMOTE_ATOMIC);
	if (!k) {
		refuse(q, RM_ACCESS, SP_RDMA_ASYNC_QP_ACCESS_ERR);
		return;
	}
	if (arena_at(k, va) % 8) { /* this machine has no ATOMICs there */
		refuse(q, RM_OPERATION, SP_RDMA_ASYNC_QP_FATAL);
		return;
	}
	rm_copy(k, va, (uint8_t *)&as.value, 8, false);
	value = p->op % 32 == RM_FETCH_ADD ? as.value + swap_add : as.value == compare ? swap_add : as.value;
	rm_copy(k, va, (uint8_t *)&value, 8, true);
	read_taken(q, r, as);
}

static struct rm_read *read_of(struct rm_qp *q, uint32_t psn, bool atomic)
{
	for (unsigned i = 0; i < SP_RDMA_READS; i++) {
		struct rm_read *r = &q->read[i];

		if (r->used && r->atomic == atomic && rm_psn(psn - r->first) < r->psns)
			return r;
	}
	return NULL;
}

/* It came before: it is answered, and not done. */
static void take_again(struct rm_qp *q, const struct rm_packet *p, const struct rm_form *f)
{
	struct rm_read *r = f->kind >= 3 ? read_of(q, p->psn, f->kind == 4) : NULL;
	uint32_t at, len;

	if (f->kind == 1 || f->kind == 2) {
		if (p->ask && !q->ack_must) {
			q->ack_must = true;
			q->ack_psn = p->psn;
		}
		return;
	}
	if (!r)
		return;
	if (!r->atomic) { /* all of it, or a part that begins with a packet */
		at = rm_psn(p->psn - r->first) * q->mtu;
		len = (uint32_t)rm_get(p->ext + 12, 4);
		if (rm_get(p->ext, 8) != r->va + at || (uint32_t)rm_get(p->ext + 8, 4) != r->rkey ||
		    len > r->len - at || (!len && r->len))
			return;
		r->at = at;
		r->end = at + len;
		r->begins = true;
	}
	r->pending = true;
}

static void executed(struct rm_qp *q, const struct rm_packet *p)
{
	q->epsn = rm_psn(q->epsn + 1);
	if (!(q->nak_must && rm_distance(q->ahead, q->epsn) >= 0))
		q->nak_must = q->nak_may = false;
	else
		q->gap = true; /* the NAK that is due names what is missing now */
	if (p->ask) {
		q->ack_must = true;
		q->ack_psn = p->psn;
	}
}

static void take_rc(struct rm_qp *q, const struct rm_packet *p, struct rm_wr *w)
{
	const struct rm_form *f = &rm_forms[p->op & 0x1F];
	const int32_t ahead = rm_distance(p->psn, q->epsn);
	enum outcome r;

	if (q->failing)
		return;
	if (ahead < 0) {
		take_again(q, p, f);
		return;
	}
	if (ahead > 0) {
		if (!q->gap || q->nak_must)
			q->ahead = p->psn;
		q->nak_may |= !q->gap;
		q->nak_must |= !q->gap;
		q->gap = true;
		return;
	}
	q->gap = q->rnr_must = false;
	if (w)
		w->states |= (uint8_t)(1u << q->state);
	if (!f->kind || f->first != !q->kind || (q->kind && q->kind != f->kind) || !length_fits(q, p, f)) {
		message_failed(q, INVALID);
		refuse(q, RM_INVALID, SP_RDMA_ASYNC_QP_REQ_ERR);
		return;
	}
	heard(q);
	if (f->kind == 3) {
		take_read(q, p);
		return;
	}
	if (f->kind == 4) {
		take_atomic(q, p);
		return;
	}
	r = f->kind == 1 ? take_send(q, p, f) : take_write(q, p, f);
	if (r == TAKEN) {
		executed(q, p);
	} else if (r == NO_ENTRY) {
		q->rnr_must = q->gap = true;
		q->nak_must = q->nak_may = false;
	} else {
		fail_message(q, r);
	}
}

/* ---- UC, UD ---- */
static void drop_message(struct rm_qp *q)
{
	q->kind = 0;
	q->sge = q->within = q->got = 0;
}

static void take_uc(struct rm_qp *q, const struct rm_packet *p)
{
	const struct rm_form *f = &rm_forms[p->op & 0x1F];
	const bool gap = p->psn != q->epsn;
	enum outcome r;

	if (!f->kind || f->kind > 2 || f->inv)
		return;
	q->epsn = rm_psn(p->psn + 1);
	if (f->first)
		drop_message(q);
	if ((!f->first && (gap || q->kind != f->kind)) || !length_fits(q, p, f)) {
		drop_message(q);
		return;
	}
	heard(q);
	r = f->kind == 1 ? take_send(q, p, f) : take_write(q, p, f);
	if (r == TAKEN)
		return;
	if (r == LOCAL) {
		message_failed(q, LOCAL);
		rm_error(q, -1);
	}
	drop_message(q);
}

static void take_ud(struct rm_qp *q, const struct rm_packet *p)
{
	const bool imm = p->op == (RM_UD | RM_SEND_ONLY_IMM);
	struct sp_rdma_cqe e = {.op = SP_RDMA_WC_RECV, .flags = SP_RDMA_WC_GRH | SP_RDMA_WC_IPV4};
	uint8_t front[SP_RDMA_GRH] = {0};
	uint64_t room = 0;
	int entry;

	if (rm_get(p->ext, 4) != q->qkey)
		return;
	entry = take_entry(q);
	if (!entry)
		return;
	if (entry < 0) {
		message_failed(q, LOCAL);
		rm_error(q, -1);
		return;
	}
	for (unsigned i = 0; i < q->receive.sges; i++)
		room += q->receive.sge[i].len;
	if (room < SP_RDMA_GRH + p->len)
		return;
	memcpy(front + 20, p->ip, 20);
	if (place(q, front, SP_RDMA_GRH) != TAKEN || place(q, p->bytes, p->len) != TAKEN) {
		message_failed(q, LOCAL);
		rm_error(q, -1);
		return;
	}
	e.len = q->got;
	e.src_qp = rm.qp[p->from].number;
	receive_done(q, p, &(struct rm_form){.imm = imm}, e);
}

void rm_take(struct rm_qp *q, const struct rm_packet *p)
{
	if (q->type == SP_RDMA_RC)
		take_rc(q, p, rm.qp[p->from].exists ? rm_wr_of(&rm.qp[p->from], p->psn) : NULL);
	else if (q->type == SP_RDMA_UC)
		take_uc(q, p);
	else
		take_ud(q, p);
}

/* ---- what is said ---- */
static struct rm_read *oldest_pending(struct rm_qp *q)
{
	for (unsigned i = 0; i < q->max_dest; i++) {
		struct rm_read *r = &q->read[(q->reads + i) % q->max_dest];

		if (r->used && r->pending)
			return r;
	}
	return NULL;
}

bool rm_answer_due(const struct rm_qp *q)
{
	for (unsigned i = 0; i < SP_RDMA_READS; i++)
		if (q->read[i].pending)
			return true;
	return q->ack_must || q->nak_must || q->rnr_must || q->failing;
}

/* Messages that were complete once `psn` was executed. */
static uint32_t msn_at(const struct rm_qp *q, uint32_t psn)
{
	uint32_t msn = q->msn;

	for (uint32_t i = q->ended; i && q->ended - i < RM_OLD && rm_distance(q->ends[(i - 1) % RM_OLD], psn) > 0; i--)
		msn--;
	return rm_psn(msn);
}

/* All up to `psn` is acknowledged by what is said. */
static void said(struct rm_qp *q, uint32_t psn)
{
	if (q->ack_must && rm_distance(psn, q->ack_psn) >= 0)
		q->ack_must = false;
}

static void say_read(struct rm_qp *q, const struct rm_packet *p)
{
	struct rm_read *r = oldest_pending(q);
	const bool heads = p->op != RM_RESPONSE_MIDDLE;
	const struct rm_key *k;
	uint8_t bytes[4096];
	uint32_t len;
	bool last;

	if (!r || r->atomic) {
		rm_wrong("a READ response, PSN %x, that is not next", p->psn);
		return;
	}
	len = r->end - r->at < q->mtu ? r->end - r->at : q->mtu;
	last = r->at + len == r->end;
	RM_MUST(p->psn == rm_psn(r->first + r->at / q->mtu), "READ response: PSN %x, not %x", p->psn,
		rm_psn(r->first + r->at / q->mtu));
	RM_MUST(p->op == (r->begins ? last ? RM_RESPONSE_ONLY : RM_RESPONSE_FIRST
			  : last    ? RM_RESPONSE_LAST
				    : RM_RESPONSE_MIDDLE),
		"READ response: opcode %x", p->op);
	RM_MUST(p->len == len && p->ext_len == (heads ? 4 : 0), "READ response: %u bytes, not %u", p->len, len);
	RM_MUST(!heads || (p->ext[0] == RM_ACK && rm_get(p->ext + 1, 3) == r->msn),
		"READ response: syndrome %x, MSN %llu, not %u", p->ext[0], (unsigned long long)rm_get(p->ext + 1, 3),
		r->msn);
	k = len ? rm_find(r->rkey, r->va, r->len, SP_RDMA_REMOTE_READ) : NULL;
	RM_MUST(!len || k, "READ response: of a key that is no longer valid");
	if (k && len <= sizeof(bytes)) {
		rm_copy(k, r->va + r->at, bytes, len, false);
		RM_MUST(!memcmp(bytes, p->bytes, len), "READ response, PSN %x: other bytes", p->psn);
	}
	r->at += len;
	r->begins = false;
	r->pending = !last;
	r->answered |= last;
	said(q, p->psn);
}

static void say_atomic(struct rm_qp *q, const struct rm_packet *p)
{
	struct rm_read *r = oldest_pending(q);

	if (!r || !r->atomic || p->psn != r->first) {
		rm_wrong("an ATOMIC's answer, PSN %x, that is not next", p->psn);
		return;
	}
	RM_MUST(p->ext_len == 12 && !p->len && p->ext[0] == RM_ACK && rm_get(p->ext + 1, 3) == r->msn,
		"ATOMIC's answer: syndrome %x, MSN %llu, not %u", p->ext[0], (unsigned long long)rm_get(p->ext + 1, 3),
		r->msn);
	RM_MUST(rm_get(p->ext + 4, 8) == r->value, "ATOMIC's answer: another value");
	r->pending = false;
	r->answered = true;
	said(q, p->psn);
}

static void say_ack(struct rm_qp *q, const struct rm_packet *p, uint32_t msn)
{
	RM_MUST(rm_distance(p->psn, q->epsn) < 0, "an ACK of PSN %x, before that came (%x is next)", p->psn, q->epsn);
	for (unsigned i = 0; i < SP_RDMA_READS; i++)
		RM_MUST(!q->read[i].pending || rm_distance(p->psn, q->read[i].first) < 0,
			"an ACK of PSN %x, before the responses from %x on", p->psn, q->read[i].first);
	RM_MUST(msn == q->msn || msn == msn_at(q, p->psn), "ACK of PSN %x: MSN %u, not %u", p->psn, msn, q->msn);
	said(q, p->psn);
}

static uint8_t nak_bit(uint8_t syndrome)
{
	return (uint8_t)(1u << (syndrome >> 5 == 1
					? RM_NAK_RNR
					: RM_NAK_SEQUENCE + (syndrome == RM_SEQUENCE ? 0 : syndrome - 0x60 + 1)));
}

static void say_nak(struct rm_qp *q, const struct rm_packet *p)
{
	const uint8_t syndrome = p->ext[0];
	struct rm_read *r = oldest_pending(q);
	struct rm_wr *w = rm_wr_of(&rm.qp[p->to], p->psn);

	if (w)
		w->naks |= nak_bit(syndrome);
	for (unsigned i = 0; r && i < RM_QPS; i++)
		rm_local_inv_of(&rm.qp[i], r->rkey);
	if (r && !r->atomic && syndrome == RM_ACCESS &&
	    !rm_find(r->rkey, r->va, r->len, SP_RDMA_REMOTE_READ)) { /* the region ended while it was answered */
		RM_MUST(p->psn == rm_psn(r->first + r->at / q->mtu), "NAK of a READ: PSN %x", p->psn);
		rm_error(q, SP_RDMA_ASYNC_QP_ACCESS_ERR);
		return;
	}
	RM_MUST(!r, "a NAK %x before the responses from %x on", syndrome, r ? r->first : 0);
	RM_MUST(p->psn == q->epsn, "NAK %x: PSN %x, not %x", syndrome, p->psn, q->epsn);
	said(q, rm_psn(p->psn - 1));
	if (q->failing) {
		RM_MUST(syndrome == q->failing, "NAK %x, not %x", syndrome, q->failing);
		rm_error(q, q->failure);
	} else if (syndrome == RM_SEQUENCE) {
		RM_MUST(q->nak_may, "a sequence NAK of PSN %x: nothing was missing, or it was said before", p->psn);
		q->nak_may = q->nak_must = false;
	} else {
		RM_MUST(syndrome == (RM_RNR | q->min_rnr), "NAK %x", syndrome);
		RM_MUST(q->rnr_must, "an RNR NAK: no entry was wanted");
		q->rnr_must = false;
	}
}

void rm_answer(struct rm_qp *q, const struct rm_packet *p)
{
	const uint32_t msn = p->ext_len >= 4 ? (uint32_t)rm_get(p->ext + 1, 3) : 0;

	RM_MUST(q->type == SP_RDMA_RC && q->state >= SP_RDMA_RTR && q->state <= SP_RDMA_SQD, "an answer in state %u",
		q->state);
	if (p->op == RM_ATOMIC_ACKNOWLEDGE) {
		say_atomic(q, p);
	} else if (p->op != RM_ACKNOWLEDGE) {
		say_read(q, p);
	} else {
		RM_MUST(p->ext_len == 4 && !p->len, "an ACK of %u bytes", p->len);
		if (p->ext[0] == RM_ACK) {
			say_ack(q, p, msn);
		} else {
			RM_MUST(msn == q->msn, "NAK %x: MSN %u, not %u", p->ext[0], msn, q->msn);
			say_nak(q, p);
		}
	}
}
