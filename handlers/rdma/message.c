/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, a packet of a SEND or a WRITE. */
#include "message.h"
#include "fetch.h"
#include "key.h"
#include "place.h"
#include "rkey.h"

#define RETH  sizeof(struct sp_reth)
#define IMMDT sizeof(struct sp_immdt) /* or IETH */

const struct rdma_form rdma_forms[32] = {
	[SP_RC_SEND_FIRST] = {RDMA_KIND_SEND, RDMA_FIRST, 0},
	[SP_RC_SEND_MIDDLE] = {RDMA_KIND_SEND, 0, 0},
	[SP_RC_SEND_LAST] = {RDMA_KIND_SEND, RDMA_LAST, 0},
	[SP_RC_SEND_LAST_IMM] = {RDMA_KIND_SEND, RDMA_LAST | RDMA_IMM, IMMDT},
	[SP_RC_SEND_ONLY] = {RDMA_KIND_SEND, RDMA_ONLY, 0},
	[SP_RC_SEND_ONLY_IMM] = {RDMA_KIND_SEND, RDMA_ONLY | RDMA_IMM, IMMDT},
	[SP_RC_WRITE_FIRST] = {RDMA_KIND_WRITE, RDMA_FIRST, RETH},
	[SP_RC_WRITE_MIDDLE] = {RDMA_KIND_WRITE, 0, 0},
	[SP_RC_WRITE_LAST] = {RDMA_KIND_WRITE, RDMA_LAST, 0},
	[SP_RC_WRITE_LAST_IMM] = {RDMA_KIND_WRITE, RDMA_LAST | RDMA_IMM, IMMDT},
	[SP_RC_WRITE_ONLY] = {RDMA_KIND_WRITE, RDMA_ONLY, RETH},
	[SP_RC_WRITE_ONLY_IMM] = {RDMA_KIND_WRITE, RDMA_ONLY | RDMA_IMM, RETH + IMMDT},
	[SP_RC_READ_REQUEST] = {RDMA_KIND_READ, RDMA_ONLY, RETH},
	[SP_RC_COMPARE_SWAP] = {RDMA_KIND_ATOMIC, RDMA_ONLY, 28},
	[SP_RC_FETCH_ADD] = {RDMA_KIND_ATOMIC, RDMA_ONLY, 28},
	[SP_RC_SEND_LAST_INVALIDATE] = {RDMA_KIND_SEND, RDMA_LAST | RDMA_INV, IMMDT},
	[SP_RC_SEND_ONLY_INVALIDATE] = {RDMA_KIND_SEND, RDMA_ONLY | RDMA_INV, IMMDT},
};

bool rdma_request_parse(const struct sp_packet *p, struct rdma_request *r)
{
	r->form = &rdma_forms[p->opcode & 0x1F];
	if (p->len < r->form->ext)
		return false;
	r->ext = p->data;
	r->payload = p->data + r->form->ext;
	r->len = p->len - r->form->ext;
	r->solicited = p->flags & SP_PKT_SE;
	r->placed = false;
	return true;
}

bool rdma_request_length(const struct rdma_qp *qp, const struct sp_packet *p, const struct rdma_request *r)
{
	const uint8_t part = r->form->flags & RDMA_ONLY;

	if (!rdma_pad_fits(p, r->len))
		return false;
	if (!(part & RDMA_LAST))
		return r->len == qp->mtu;
	return r->len <= qp->mtu && (r->len || part == RDMA_ONLY);
}

static void rdma_message_done(struct sp_ctx *c, struct rdma_qp *qp, uint64_t bytes)
{
	qp->in.message = RDMA_MESSAGE_NONE;
	qp->in.msn = rdma_psn(qp->in.msn + 1);
	c->counters[RDMA_MESSAGES]++;
	c->counters[RDMA_BYTES] += bytes;
}

/* The word behind the RETH, if there is one: immediate data, in network order. */
static uint32_t rdma_request_word(const struct rdma_request *r)
{
	uint32_t word;

	memcpy(&word, r->payload - IMMDT, sizeof(word));
	return word;
}

static enum rdma_outcome rdma_take_send(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_request *r)
{
	struct sp_rdma_cqe e = {.op = SP_RDMA_WC_RECV};
	int rc, entry;

	if (r->form->flags & RDMA_LAST && !rdma_fetch_ordered(c, qp))
		return RDMA_BUSY;
	entry = rdma_receive_take(c, qp);
	if (entry <= 0)
		return entry ? RDMA_LOCAL : RDMA_NO_ENTRY;
	qp->in.message = RDMA_MESSAGE_SEND;
	rc = rdma_receive_place(c, qp, r->payload, r->len);
	if (rc)
		return rc == -EMSGSIZE ? RDMA_LONG : RDMA_LOCAL;
	if (!(r->form->flags & RDMA_LAST))
		return RDMA_TAKEN;
	if (r->form->flags & RDMA_INV) {
		e.flags = SP_RDMA_WC_INV;
		e.imm = sp_load_be32(r->payload - IMMDT);
		if (rdma_rkey_invalidate(c, qp, e.imm))
			return RDMA_ACCESS;
	} else if (r->form->flags & RDMA_IMM) {
		e.flags = SP_RDMA_WC_IMM;
		e.imm = rdma_request_word(r);
	}
	e.len = qp->in.receive.got;
	rdma_message_done(c, qp, e.len);
	rdma_receive_done(c, qp, &e, r->solicited);
	return RDMA_TAKEN;
}

/* The range is checked whole, with the first packet; and again with each, as its region may end in between. */
static enum rdma_outcome rdma_begin_write(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_request *r)
{
	const struct sp_reth *reth = (const struct sp_reth *)(const void *)r->ext;
	struct rdma_responder *in = &qp->in;

	in->va = sp_load_be64(reth->va);
	in->rkey = sp_load_be32(reth->rkey);
	in->left = in->total = sp_load_be32(reth->dma_len);
	if (!(qp->access & SP_RDMA_REMOTE_WRITE) || in->total > SP_RDMA_MSG)
		return RDMA_INVALID;
	/* Nothing to write needs no key. */
	if (in->total && !rdma_rkey_find(c, qp, in->rkey, in->va, in->total, SP_RDMA_REMOTE_WRITE))
		return RDMA_ACCESS;
	return RDMA_TAKEN;
}

static enum rdma_outcome rdma_take_write(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_request *r)
{
	struct rdma_responder *in = &qp->in;
	const bool last = r->form->flags & RDMA_LAST;
	struct sp_rdma_cqe e = {.op = SP_RDMA_WC_RECV_WRITE_IMM, .flags = SP_RDMA_WC_IMM};
	enum rdma_outcome begun;
	int rc;

	if (r->form->flags & RDMA_FIRST) {
		begun = rdma_begin_write(c, qp, r);
		if (begun != RDMA_TAKEN)
			return begun;
	}
	if (last ? r->len != in->left : r->len >= in->left)
		return RDMA_INVALID;
	if (r->form->flags & RDMA_IMM) {
		const int entry = rdma_receive_take(c, qp);

		if (entry <= 0)
			return entry ? RDMA_LOCAL : RDMA_NO_ENTRY;
		if (qp->fetch.put.id) /* what comes now might not be asked before the completion */
			return RDMA_BUSY;
	}
	rc = r->placed ? (rdma_rkey_find(c, qp, in->rkey, in->va, r->len, SP_RDMA_REMOTE_WRITE) ? 0 : -EACCES)
		       : rdma_write_place(c, qp, in->rkey, in->va, r->payload, r->len);
	if (rc)
		return rc == -EAGAIN ? RDMA_BUSY : RDMA_ACCESS;
	if (r->form->flags & RDMA_IMM && !rdma_fetch_ordered(c, qp))
		return RDMA_BUSY; /* it comes again, and is placed again */
	in->message = RDMA_MESSAGE_WRITE;
	in->va += r->len;
	in->left -= r->len;
	if (!last)
		return RDMA_TAKEN;
	rdma_message_done(c, qp, in->total);
	if (r->form->flags & RDMA_IMM) {
		e.imm = rdma_request_word(r);
		e.len = in->total;
		rdma_receive_done(c, qp, &e, r->solicited);
	}
	return RDMA_TAKEN;
}

enum rdma_outcome rdma_message_take(struct sp_ctx *c, struct rdma_qp *qp, const struct rdma_request *r)
{
	return r->form->kind == RDMA_KIND_SEND ? rdma_take_send(c, qp, r) : rdma_take_write(c, qp, r);
}

void rdma_message_fail(struct sp_ctx *c, struct rdma_qp *qp, enum rdma_outcome why)
{
	static const uint8_t status[] = {[RDMA_INVALID] = SP_RDMA_REM_INV_REQ_ERR,
					 [RDMA_LONG] = SP_RDMA_LOC_LEN_ERR,
					 [RDMA_ACCESS] = SP_RDMA_LOC_ACCESS_ERR,
					 [RDMA_LOCAL] = SP_RDMA_LOC_PROT_ERR};
	struct sp_rdma_cqe e = {.op = SP_RDMA_WC_RECV, .status = status[why]};

	if (!qp->in.receive.taken)
		return;
	if (why == RDMA_LOCAL && !qp->in.receive.got && !qp->in.receive.sges)
		e.status = SP_RDMA_LOC_QP_OP_ERR;
	rdma_receive_done(c, qp, &e, true);
}
