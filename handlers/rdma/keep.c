/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma, selective repeat: requests ahead of the expected PSN. What a packet says is checked when its turn comes, as if
 * it arrived then. Only the payload of a WRITE's later packets goes to its place before, and only if nothing that may
 * still come, and belongs before it, can write there: if all messages from the expected PSN up to this one are known,
 * and no WRITE of them overlaps.
 */
#include "keep.h"
#include "key.h"
#include "place.h"
#include "rkey.h"

#define BTH	 sizeof(struct sp_bth)
#define PSN_MOST (1u << 22) /* of a message that is looked beyond */

/* ---- messages that are known ---- */
static bool rdma_range_overlaps(const struct rdma_range *a, const struct rdma_range *b)
{
	return a->rkey == b->rkey && a->va < b->va + b->len && b->va < a->va + a->len;
}

/* A WRITE from PSN front on. False: there is no room. */
static bool rdma_range_add(struct sp_ctx *c, struct rdma_qp *qp, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct rdma_selective *s = qp->selective;
	struct rdma_range *r = &s->range[s->ranges];
	const uint32_t psns = rdma_packets(len, qp->mtu);

	if (s->ranges == RDMA_RANGES || psns > PSN_MOST)
		return false;
	*r = (struct rdma_range){s->front, rdma_psn(s->front + psns), rkey, len, va, false};
	r->direct = qp->access & SP_RDMA_REMOTE_WRITE && len <= SP_RDMA_MSG && len &&
		    rdma_rkey_find(c, qp, rkey, va, len, SP_RDMA_REMOTE_WRITE);
	for (unsigned i = 0; r->direct && i < s->ranges; i++)
		r->direct = !rdma_range_overlaps(r, &s->range[i]);
	s->ranges++;
	s->front = r->end;
	return true;
}

/* The front moves beyond the packet that is kept there, or beyond the message that it begins. */
static bool rdma_front_step(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_selective *s = qp->selective;
	const struct rdma_kept *k = &s->kept[s->front & s->mask];
	const struct rdma_form *form = &rdma_forms[k->opcode & 0x1F];
	const struct sp_reth *reth;
	uint32_t psns = 1;

	if (form->kind == RDMA_KIND_ATOMIC) /* a later WRITE may be to its word */
		return false;
	if (!(k->flags & RDMA_KEPT_PLACED) && form->flags & RDMA_FIRST && form->kind != RDMA_KIND_SEND) {
		reth = (const struct sp_reth *)(const void *)(rdma_buffer_at(c, k->at) + BTH);
		if (form->kind == RDMA_KIND_WRITE)
			return rdma_range_add(c, qp, sp_load_be32(reth->rkey), sp_load_be64(reth->va),
					      sp_load_be32(reth->dma_len));
		psns = rdma_packets(sp_load_be32(reth->dma_len), qp->mtu);
	}
	if (psns > PSN_MOST)
		return false;
	s->front = rdma_psn(s->front + psns);
	return true;
}

/* As far as messages follow each other without a gap that may hide one. */
static void rdma_front_move(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_selective *s = qp->selective;

	while (rdma_psn_diff(s->front, qp->in.psn) <= (int32_t)s->mask && rdma_bit(s->got, s->front & s->mask) &&
	       rdma_front_step(c, qp))
		;
}

/* Forgets messages that have been executed. */
static void rdma_front_catch_up(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_selective *s = qp->selective;
	struct rdma_responder *in = &qp->in;
	unsigned over = 0;

	if (rdma_psn_diff(s->front, in->psn) <= 0) {
		s->ranges = 0;
		s->front = in->psn;
		if (in->message == RDMA_MESSAGE_WRITE)
			rdma_range_add(c, qp, in->rkey, in->va, in->left);
		rdma_front_move(c, qp);
		return;
	}
	while (over < s->ranges && rdma_psn_diff(s->range[over].end, in->psn) <= 0)
		over++;
	if (over) {
		s->ranges -= over;
		memmove(s->range, s->range + over, s->ranges * sizeof(*s->range));
		rdma_front_move(c, qp);
	}
}

/* ---- packets ---- */
/* The payload of a WRITE's packet goes to its place, if that may be. */
static bool rdma_keep_place(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p,
			    const struct rdma_request *q)
{
	struct rdma_selective *s = qp->selective;
	const struct rdma_range *r = s->range, *end = s->range + s->ranges;
	const struct rdma_mr *m;
	uint64_t at;

	if (q->form->kind != RDMA_KIND_WRITE || q->form->flags & RDMA_FIRST)
		return false;
	while (r < end && rdma_psn_diff(p->psn, r->end) >= 0)
		r++;
	if (r == end || !r->direct || rdma_psn_diff(p->psn, r->first) < 0)
		return false;
	at = (uint64_t)rdma_psn(p->psn - r->first) * qp->mtu;
	if (q->form->flags & RDMA_LAST ? at + q->len != r->len : at + q->len >= r->len)
		return false;
	m = rdma_rkey_find(c, qp, r->rkey, r->va + at, q->len, SP_RDMA_REMOTE_WRITE);
	if (m && rdma_mr_fetched(m, r->va + at, q->len)) /* the agent is told of changes in order */
		return false;
	return !rdma_write_place(c, qp, r->rkey, r->va + at, q->payload, q->len);
}

static bool rdma_keep_copy(struct sp_ctx *c, struct rdma_kept *k, const struct sp_packet *p)
{
	const uint32_t buffer = BTH + p->len <= RDMA_KEPT_BYTES ? rdma_buffer_take(c) : UINT32_MAX;

	if (buffer == UINT32_MAX)
		return false;
	memcpy(rdma_buffer_at(c, buffer), rdma_bth(p), BTH + p->len);
	k->at = buffer;
	k->len = (uint16_t)p->len;
	c->counters[RDMA_KEPT_AHEAD]++;
	return true;
}

static bool rdma_keep_packet(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p,
			     const struct rdma_request *q)
{
	struct rdma_selective *s = qp->selective;
	struct rdma_kept *k = &s->kept[p->psn & s->mask];

	/* What is wrong is refused in its turn: then it comes again. */
	if (q->form->kind == RDMA_KIND_NONE || !rdma_request_length(qp, p, q))
		return false;
	rdma_front_catch_up(c, qp);
	k->opcode = p->opcode;
	k->flags = (uint8_t)((p->flags & SP_PKT_SE ? RDMA_KEPT_SE : 0) |
			     (rdma_bth(p)->ack_req & SP_BTH_ACK_REQ ? RDMA_KEPT_ASK : 0));
	if (rdma_keep_place(c, qp, p, q)) {
		k->flags |= RDMA_KEPT_PLACED;
		k->len = (uint16_t)q->len;
		if (q->form->flags & RDMA_IMM)
			memcpy(&k->at, q->ext, sizeof(k->at));
		c->counters[RDMA_PLACED_AHEAD]++;
	} else if (!rdma_keep_copy(c, k, p)) {
		return false;
	}
	rdma_bit_set(s->got, p->psn & s->mask);
	s->gots++;
	if (p->psn == s->front)
		rdma_front_move(c, qp);
	return true;
}

uint32_t rdma_keep(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_packet *p, const struct rdma_request *q,
		   uint32_t ahead, bool *tell)
{
	struct rdma_selective *s = qp->selective;
	struct rdma_responder *in = &qp->in;
	const bool ask = rdma_bth(p)->ack_req & SP_BTH_ACK_REQ;

	*tell = ask;
	if (ahead > s->mask) /* beyond what a report tells of */
		return SP_DROP(RDMA_AHEAD);
	s->latest = p->psn;
	if (rdma_bit(s->got, p->psn & s->mask)) {
		c->counters[RDMA_DUPLICATES]++;
		return SP_DONE;
	}
	if (rdma_psn_diff(in->ahead, in->psn) < 0)
		in->ahead = rdma_psn(in->psn - 1);
	*tell |= rdma_psn_diff(p->psn, in->ahead) > 1 || in->ahead == rdma_psn(in->psn - 1);
	if (rdma_psn_diff(p->psn, in->ahead) > 0)
		in->ahead = p->psn;
	return rdma_keep_packet(c, qp, p, q) ? SP_DONE : SP_DROP(RDMA_AHEAD);
}

bool rdma_keep_take(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_taken *t)
{
	struct rdma_selective *s = qp->selective;
	const uint32_t i = qp->in.psn & s->mask;
	const struct rdma_kept *k = &s->kept[i];
	const struct rdma_form *form = &rdma_forms[k->opcode & 0x1F];

	if (!s->gots || !rdma_bit(s->got, i))
		return false;
	rdma_bit_clear(s->got, i);
	s->gots--;
	t->buffer = k->flags & RDMA_KEPT_PLACED ? UINT32_MAX : k->at;
	t->packet = (struct sp_packet){.opcode = k->opcode,
				       .psn = qp->in.psn,
				       .flags = SP_PKT_ROCE | (k->flags & RDMA_KEPT_SE ? SP_PKT_SE : 0),
				       .len = k->len};
	if (t->buffer != UINT32_MAX) {
		t->packet.data = rdma_buffer_at(c, t->buffer) + BTH;
		return true;
	}
	t->packet.len += form->ext;
	t->head.bth = (struct sp_bth){.flags = (uint8_t)((-(uint32_t)k->len & 3) << SP_BTH_PAD_SHIFT),
				      .ack_req = k->flags & RDMA_KEPT_ASK ? SP_BTH_ACK_REQ : 0};
	memcpy(t->head.imm, &k->at, sizeof(k->at));
	t->packet.data = t->head.imm;
	return true;
}

void rdma_keep_done(struct sp_ctx *c, struct rdma_taken *t)
{
	if (t->buffer != UINT32_MAX)
		rdma_buffer_give(c, t->buffer);
}
