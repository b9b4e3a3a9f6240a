/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of RDMA: requests that are sent, and what their answers bring (volume 1, 9.7.5.1, 9.7.6, 9.7.7, 10.7). */
#include "rdma_model.h"

/* The timer codes of an RNR NAK, in us. */
static const uint32_t rnr_us[32] = {655360, 10,	   20,	  30,	 40,	60,	80,	120,	160,	240,   320,
				    480,    640,   960,	  1280,	 1920,	2560,	3840,	5120,	7680,	10240, 15360,
				    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

struct rm_wr *rm_wr_of(struct rm_qp *q, uint32_t psn)
{
	for (unsigned i = 0; i < RM_OLD; i++) {
		struct rm_wr *w = &q->wr[i];

		if (w->used && w->packets && rm_psn(psn - (uint32_t)w->first) < w->packets)
			return w;
	}
	return NULL;
}

void rm_post(uint32_t qp, const struct rm_wr *from)
{
	struct rm_qp *q = &rm.qp[qp];
	struct rm_wr *w = &q->wr[q->posted++ % RM_OLD];

	rm_count(w);
	*w = *from;
	w->used = true;
	w->begun = false;
	w->first = q->next;
	w->packets = w->op == SP_RDMA_WR_LOCAL_INV ? 0 : q->type == SP_RDMA_UD ? 1 : rm_packets(w->len, q->mtu);
	q->next += w->packets;
	if (q->state == SP_RDMA_ERR || q->state == SP_RDMA_SQE)
		rm_wr_end(q, SP_RDMA_FLUSHED);
}

static struct rm_wr *head(struct rm_qp *q)
{
	return q->wait != q->posted ? &q->wr[q->wait % RM_OLD] : NULL;
}

bool rm_local_inv(struct rm_qp *q)
{
	struct rm_wr *w = head(q);

	if (!w || w->op != SP_RDMA_WR_LOCAL_INV || w->bad || q->failed)
		return false;
	rm_invalidate(w->imm);
	rm_wr_end(q, SP_RDMA_OK);
	return true;
}

void rm_local_inv_of(struct rm_qp *q, uint32_t key)
{
	const struct rm_wr *w = head(q);

	if (w && w->op == SP_RDMA_WR_LOCAL_INV && w->imm == key)
		rm_local_inv(q);
}

bool rm_may_fail(struct rm_qp *q)
{
	const struct rm_wr *w = head(q);

	if (q->failed)
		return true;
	if (w && w->bad)
		q->failed = w->bad;
	else if (w && w->begun && q->fails >= q->retry)
		q->failed = SP_RDMA_RETRY_EXC_ERR;
	return q->failed;
}

/* ---- packets ---- */
static bool last_of(const struct rm_wr *w, uint32_t n)
{
	return n + 1 == w->packets;
}

static uint8_t opcode(const struct rm_qp *q, const struct rm_wr *w, bool first, bool last)
{
	const bool write = w->op <= SP_RDMA_WR_WRITE_IMM;
	const bool imm = w->op == SP_RDMA_WR_WRITE_IMM || w->op == SP_RDMA_WR_SEND_IMM;
	uint8_t op = write ? RM_WRITE_FIRST : RM_SEND_FIRST;

	if (last && w->op == SP_RDMA_WR_SEND_INV)
		return first ? RM_SEND_ONLY_INV : RM_SEND_LAST_INV;
	op += first ? last ? 4 : 0 : last ? 2 : 1;
	return (uint8_t)((op + (last && imm)) | (q->type == SP_RDMA_UC ? RM_UC : q->type == SP_RDMA_UD ? RM_UD : 0));
}

static bool payload_is(const struct rm_wr *w, uint32_t at, const uint8_t *bytes, uint32_t len)
{
	uint8_t want[4096];
	uint32_t got = 0;

	if (w->flags & SP_RDMA_INLINED)
		return !memcmp(w->inlined + at, bytes, len);
	for (unsigned i = 0; i < w->sges && got < len; i++) {
		const struct sp_rdma_sge *g = &w->sge[i];
		const struct rm_key *k;
		uint32_t take;

		if (at >= g->len) {
			at -= g->len;
			continue;
		}
		take = g->len - at < len - got ? g->len - at : len - got;
		k = rm_find(g->lkey, g->addr + at, take, 0);
		if (!k)
			return false;
		rm_copy(k, g->addr + at, want + got, take, false);
		got += take;
		at = 0;
	}
	return got == len && !memcmp(want, bytes, len);
}

static void check_message(const struct rm_qp *q, const struct rm_wr *w, uint32_t n, const struct rm_packet *p)
{
	const bool first = !n, last = last_of(w, n);
	const uint32_t at = n * q->mtu, len = last ? w->len - at : q->mtu;
	uint8_t ext[64];
	uint32_t e = 0;

	RM_MUST(p->op == opcode(q, w, first, last), "request of PSN %x: opcode %x, not %x", p->psn, p->op,
		opcode(q, w, first, last));
	if (q->type == SP_RDMA_UD) {
		rm_put(ext, 4, w->qkey >> 31 ? q->qkey : w->qkey);
		rm_put(ext + 4, 4, q->number);
		e = 8;
	} else if (first && w->op <= SP_RDMA_WR_WRITE_IMM) {
		rm_put(ext, 8, w->remote);
		rm_put(ext + 8, 4, w->rkey);
		rm_put(ext + 12, 4, w->len);
		e = 16;
	}
	if (last && w->op == SP_RDMA_WR_SEND_INV) {
		rm_put(ext + e, 4, w->imm);
		e += 4;
	} else if (last && (w->op == SP_RDMA_WR_SEND_IMM || w->op == SP_RDMA_WR_WRITE_IMM)) {
		memcpy(ext + e, &w->imm, 4);
		e += 4;
	}
	RM_MUST(p->ext_len == e && !memcmp(p->ext, ext, e), "request of PSN %x: headers", p->psn);
	RM_MUST(p->len == len, "request of PSN %x: %u bytes, not %u", p->psn, p->len, len);
	RM_MUST(payload_is(w, at, p->bytes, p->len), "request of PSN %x: payload", p->psn);
	RM_MUST(p->se == (last && w->flags & SP_RDMA_SOLICITED && w->op != SP_RDMA_WR_WRITE),
		"request of PSN %x: solicited %u", p->psn, p->se);
	RM_MUST(q->type != SP_RDMA_RC || !last || p->ask, "request of PSN %x asks for no ACK", p->psn);
}

static void check_reading(const struct rm_qp *q, const struct rm_wr *w, uint32_t n, const struct rm_packet *p)
{
	const bool cas = w->op == SP_RDMA_WR_CAS;
	uint8_t ext[28];

	rm_put(ext, 8, w->remote + (uint64_t)n * q->mtu);
	rm_put(ext + 8, 4, w->rkey);
	if (w->op == SP_RDMA_WR_READ) {
		rm_put(ext + 12, 4, w->len - n * q->mtu);
	} else {
		rm_put(ext + 12, 8, cas ? w->swap : w->compare_add);
		rm_put(ext + 20, 8, cas ? w->compare_add : 0);
	}
	RM_MUST(p->op == (w->op == SP_RDMA_WR_READ ? RM_READ_REQUEST
			  : cas			   ? RM_COMPARE_SWAP
						   : RM_FETCH_ADD),
		"request of PSN %x: opcode %x", p->psn, p->op);
	RM_MUST(p->ext_len == (w->op == SP_RDMA_WR_READ ? 16u : 28u) && !memcmp(p->ext, ext, p->ext_len) && !p->len,
		"READ or ATOMIC of PSN %x: headers", p->psn);
	RM_MUST(p->ask, "READ or ATOMIC of PSN %x asks for no ACK", p->psn);
}

/* Whether a request may begin: fence, and how many READs and ATOMICs may be out. */
static void check_begin(struct rm_qp *q, struct rm_wr *w)
{
	uint32_t out = 0;

	for (uint32_t i = q->wait; &q->wr[i % RM_OLD] != w; i++) {
		const struct rm_wr *x = &q->wr[i % RM_OLD];

		RM_MUST(x->op != SP_RDMA_WR_LOCAL_INV, "sent before an invalidation that comes before");
		RM_MUST(!x->bad, "sent behind a request that must fail");
		out += rm_op_reads(x->op);
	}
	RM_MUST(!(w->flags & SP_RDMA_FENCE) || !out, "wr_id %llu is fenced, and sent while %u READs are out",
		(unsigned long long)w->id, out);
	RM_MUST(!rm_op_reads(w->op) || out < q->max_rd, "%u READs are out, of %u", out + 1, q->max_rd);
	RM_MUST(!w->bad, "a request that must fail is sent");
	w->begun = true;
}

static void request_rc(struct rm_qp *q, const struct rm_packet *p)
{
	const uint64_t psn = q->una + (uint64_t)(int64_t)rm_distance(p->psn, rm_psn(q->una));
	struct rm_wr *w;
	uint32_t n;

	if (psn != q->cursor) {
		RM_MUST(psn == q->una, "request of PSN %x: neither the next one (%x) nor the oldest (%x)", p->psn,
			rm_psn(q->cursor), rm_psn(q->una));
		RM_MUST(q->back || rm.now >= q->heard_at + (4096000ull << q->timeout),
			"PSN %x is sent again without a reason", p->psn);
		q->fails++;
		q->back = false;
		q->heard_at = rm.now;
	} else if (psn == q->una && psn < q->end) {
		q->back = false;
		q->fails += !!q->rnr_until ? 0 : 1;
		q->heard_at = rm.now;
	}
	RM_MUST(rm.now >= q->rnr_until, "PSN %x is sent before the RNR timer is over", p->psn);
	q->rnr_until = 0;
	while (psn >= q->end && rm_local_inv(q))
		;
	w = rm_wr_of(q, p->psn);
	if (!w || w->first > psn || psn >= w->first + w->packets) {
		rm_wrong("PSN %x is no request's", p->psn);
		return;
	}
	n = (uint32_t)(psn - w->first);
	if (!w->begun)
		check_begin(q, w);
	if (rm_op_reads(w->op))
		check_reading(q, w, n, p);
	else
		check_message(q, w, n, p);
	q->cursor = rm_op_reads(w->op) ? w->first + w->packets : psn + 1;
	q->end = q->cursor > q->end ? q->cursor : q->end;
}

static void request_other(struct rm_qp *q, const struct rm_packet *p)
{
	struct rm_wr *w = head(q);
	uint32_t n;

	if (!w) {
		rm_wrong("UC or UD: a packet of no request");
		return;
	}
	RM_MUST(!w->bad, "a request that must fail is sent");
	if (!w->begun)
		w->first = q->end;
	w->begun = true;
	n = (uint32_t)(q->end - w->first);
	RM_MUST(p->psn == rm_psn(q->end), "UC or UD: PSN %x, not %x", p->psn, rm_psn(q->end));
	q->end++;
	check_message(q, w, n, p);
	if (last_of(w, n))
		rm_wr_end(q, SP_RDMA_OK);
}

void rm_request(struct rm_qp *q, const struct rm_packet *p)
{
	RM_MUST(q->state == SP_RDMA_RTS || q->state == SP_RDMA_SQD, "a request in state %u", q->state);
	if (q->type == SP_RDMA_RC)
		request_rc(q, p);
	else
		request_other(q, p);
}

/* ---- answers ---- */
static void progress(struct rm_qp *q, uint64_t una)
{
	struct rm_wr *w;

	q->una = una;
	q->cursor = q->cursor > una ? q->cursor : una;
	q->fails = 0;
	q->rnrs = q->rnr_retry;
	q->rnr_until = 0;
	q->heard_at = rm.now;
	while ((w = head(q)) && w->op != SP_RDMA_WR_LOCAL_INV && w->begun && w->first + w->packets <= una)
		rm_wr_end(q, SP_RDMA_OK);
}

/* All before `psn` was received. False: a READ's or ATOMIC's answer is missing. within: also its own part before. */
static bool acknowledged(struct rm_qp *q, uint64_t psn, bool within)
{
	while (q->una < psn) {
		const struct rm_wr *w = head(q);
		uint64_t end;

		if (!w)
			return false;
		end = w->first + w->packets;
		if (rm_op_reads(w->op)) {
			q->back |= within || psn >= end;
			return false;
		}
		progress(q, end < psn ? end : psn);
	}
	return true;
}

/* Puts what a READ or ATOMIC brings where its SGEs say. */
static bool bring(const struct rm_wr *w, uint32_t at, uint8_t *bytes, uint32_t len)
{
	for (unsigned i = 0; i < w->sges && len; i++) {
		const struct sp_rdma_sge *g = &w->sge[i];
		const struct rm_key *k;
		uint32_t take;

		if (at >= g->len) {
			at -= g->len;
			continue;
		}
		take = g->len - at < len ? g->len - at : len;
		k = rm_find(g->lkey, g->addr + at, take, SP_RDMA_LOCAL_WRITE);
		if (!k)
			return false;
		rm_copy(k, g->addr + at, bytes, take, true);
		bytes += take;
		len -= take;
		at = 0;
	}
	return true;
}

static void read_answered(struct rm_qp *q, uint64_t psn, const struct rm_packet *p)
{
	const struct rm_wr *w;
	uint64_t value;
	bool ok;

	if (!acknowledged(q, psn, true))
		return;
	w = head(q);
	if (!w || !rm_op_reads(w->op) || (w->op == SP_RDMA_WR_READ) != (p->op != RM_ATOMIC_ACKNOWLEDGE))
		return;
	if (w->op == SP_RDMA_WR_READ) {
		ok = bring(w, (uint32_t)(psn - w->first) * q->mtu, (uint8_t *)(uintptr_t)p->bytes, p->len);
	} else {
		value = rm_get(p->ext + 4, 8);
		ok = bring(w, 0, (uint8_t *)&value, 8);
	}
	if (ok)
		progress(q, psn + 1);
	else
		q->failed = SP_RDMA_LOC_PROT_ERR;
}

static void nak(struct rm_qp *q, uint8_t syndrome)
{
	if (syndrome >> 5 == 1) {
		if (q->rnr_until >= rm.now) /* it waits already */
			return;
		if (!q->rnrs) {
			q->failed = SP_RDMA_RNR_RETRY_EXC_ERR;
			return;
		}
		q->rnrs -= q->rnrs != 7;
		q->rnr_until = rm.now + rnr_us[syndrome & 31] * RM_US;
		q->cursor = q->una;
		return;
	}
	switch (syndrome) {
	case RM_SEQUENCE:
		q->back = true;
		break;
	case RM_INVALID:
		q->failed = SP_RDMA_REM_INV_REQ_ERR;
		break;
	case RM_ACCESS:
		q->failed = SP_RDMA_REM_ACCESS_ERR;
		break;
	default:
		q->failed = SP_RDMA_REM_OP_ERR;
		break;
	}
}

void rm_answered(struct rm_qp *q, const struct rm_packet *p)
{
	const int32_t distance = rm_distance(p->psn, rm_psn(q->una));
	const uint64_t psn = q->una + (uint64_t)(int64_t)distance;

	if (q->type != SP_RDMA_RC || (q->state != SP_RDMA_RTS && q->state != SP_RDMA_SQD) || q->failed || q->stopped)
		return;
	if (distance < 0 || psn >= q->end)
		return;
	while (head(q) && !head(q)->begun && rm_local_inv(q))
		;
	if (!head(q))
		return;
	if (p->op != RM_ACKNOWLEDGE) {
		read_answered(q, psn, p);
	} else if (p->ext[0] != RM_ACK) {
		if (acknowledged(q, psn, true))
			nak(q, p->ext[0]);
	} else if (acknowledged(q, psn, false) && head(q) && !rm_op_reads(head(q)->op)) {
		/* A READ's own PSN is not acknowledged in this way. */
		acknowledged(q, psn + 1, false);
	}
}
