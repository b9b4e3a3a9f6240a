/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, what the responder of RC sends. */
#include "answer.h"
#include "fetch.h"
#include "key.h"
#include "peer.h"
#include "qp.h"
#include "rkey.h"
#include "selective.h"

#define RDMA_RUN 16 /* READ responses that are made at once */

static struct rdma_resource *rdma_answer_oldest(struct rdma_qp *qp)
{
	struct rdma_responder *in = &qp->in;
	const uint32_t n = qp->attr.max_dest_rd_atomic;

	for (uint32_t i = 0; i < n; i++) {
		struct rdma_resource *r = &in->resource[(in->next + i) % n];

		if (r->pending)
			return r;
	}
	return NULL;
}

void rdma_answer_places(struct rdma_qp *qp, uint32_t n)
{
	struct rdma_responder *in = &qp->in;
	const uint32_t before = qp->attr.max_dest_rd_atomic, kept = before < n ? before : n;
	struct rdma_resource old[SP_RDMA_READS];
	bool moved[SP_RDMA_READS] = {false};
	uint32_t at = kept;

	memcpy(old, in->resource, sizeof(old));
	for (uint32_t i = 1; i <= kept; i++) { /* the latest is last */
		const uint32_t from = (in->next - i) % before;

		in->resource[kept - i] = old[from];
		moved[from] = true;
	}
	for (uint32_t i = 0; i < SP_RDMA_READS; i++) {
		if (moved[i])
			continue;
		in->resource[at] = old[i]; /* ports may still have its frames */
		in->resource[at].kind = RDMA_RESOURCE_NONE;
		if (old[i].pending)
			rdma_qp_end_answer(qp, &in->resource[at]);
		at++;
	}
	in->next = kept;
}

/* ---- ACKs and NAKs ---- */
static void rdma_aeth(struct sp_aeth *a, uint8_t syndrome, uint32_t msn)
{
	sp_store_be32(a, (uint32_t)syndrome << 24 | (msn & SP_ROCE_PSN_MASK));
}

static int rdma_answer_ack(struct sp_ctx *c, struct rdma_qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct sp_aeth a;
	const struct sp_send s = {.dest_qp = qp->attr.dest_qp,
				  .psn = psn,
				  .opcode = SP_RC_ACKNOWLEDGE,
				  .flags = SP_SEND_UNPACED,
				  .udp_source = qp->udp_source,
				  .traffic_class = qp->attr.traffic_class,
				  .hop_limit = qp->attr.hop_limit,
				  .ext = &a,
				  .ext_len = sizeof(a)};

	rdma_aeth(&a, syndrome, qp->in.msn);
	return sp_send_roce(c, qp->path, &s);
}

/* Selective repeat: a sequence NAK with a report. */
static int rdma_answer_gaps(struct sp_ctx *c, struct rdma_qp *qp)
{
	uint8_t ext[sizeof(struct sp_aeth) + 4], bitmap[RDMA_GAP_BYTES];
	const uint32_t len = rdma_selective_gaps(qp, ext + sizeof(struct sp_aeth), bitmap);
	const struct sp_send s = {.dest_qp = qp->attr.dest_qp,
				  .psn = qp->in.psn,
				  .opcode = SP_RC_ACKNOWLEDGE,
				  .flags = SP_SEND_UNPACED,
				  .udp_source = qp->udp_source,
				  .ext = ext,
				  .ext_len = sizeof(ext),
				  .bytes = bitmap,
				  .len = len};

	rdma_aeth((struct sp_aeth *)(void *)ext, RDMA_NAK_PSN, qp->in.msn);
	return sp_send_roce(c, qp->path, &s);
}

static void rdma_answer_count(struct sp_ctx *c, struct rdma_qp *qp, uint8_t syndrome)
{
	switch (syndrome) {
	case RDMA_ACK:
		c->counters[RDMA_ACKS]++;
		return;
	case RDMA_NAK_PSN:
		c->counters[RDMA_NAK_SEQUENCE]++;
		break;
	case RDMA_NAK_REQUEST:
		c->counters[RDMA_NAK_INVALID]++;
		break;
	case RDMA_NAK_RIGHTS:
		c->counters[RDMA_NAK_ACCESS]++;
		break;
	case RDMA_NAK_REMOTE_OP:
		c->counters[RDMA_NAK_OPERATION]++;
		break;
	default:
		c->counters[RDMA_NAK_RNR]++;
		qp->attr.rnrs_sent++;
		return;
	}
	qp->attr.naks_sent++;
}

/* The latest ACK or NAK, which all earlier answers have gone before. */
static int rdma_answer_latest(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_responder *in = &qp->in;
	const bool gaps = qp->selective && in->syndrome == RDMA_NAK_PSN;
	const int rc = gaps ? rdma_answer_gaps(c, qp) : rdma_answer_ack(c, qp, in->syndrome, in->ack_psn);

	if (rc == -EAGAIN)
		return rc;
	rdma_answer_count(c, qp, in->syndrome);
	in->ack_due = false;
	if (in->failing)
		rdma_qp_error(c, qp, in->failure);
	return 0;
}

/* ---- READ and ATOMIC ---- */
static int rdma_answer_atomic(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_resource *r)
{
	uint8_t ext[sizeof(struct sp_aeth) + 8];
	const struct sp_send s = {.dest_qp = qp->attr.dest_qp,
				  .psn = r->first,
				  .opcode = SP_RC_ATOMIC_ACKNOWLEDGE,
				  .flags = SP_SEND_UNPACED,
				  .udp_source = qp->udp_source,
				  .traffic_class = qp->attr.traffic_class,
				  .hop_limit = qp->attr.hop_limit,
				  .ext = ext,
				  .ext_len = sizeof(ext)};
	int rc;

	rdma_aeth((struct sp_aeth *)(void *)ext, RDMA_ACK, r->msn);
	sp_store_be64(ext + sizeof(struct sp_aeth), r->value);
	rc = sp_send_roce(c, qp->path, &s);
	if (rc == -EAGAIN)
		return rc;
	rdma_qp_end_answer(qp, r);
	return 0;
}

static uint8_t rdma_answer_opcode(bool first, bool last)
{
	if (first)
		return last ? SP_RC_READ_RESPONSE_ONLY : SP_RC_READ_RESPONSE_FIRST;
	return last ? SP_RC_READ_RESPONSE_LAST : SP_RC_READ_RESPONSE_MIDDLE;
}

/* The region may have ended, or its key been invalidated, since the READ was accepted. */
static void rdma_answer_refuse(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_resource *r)
{
	struct rdma_responder *in = &qp->in;

	in->ack_psn = rdma_psn(r->first + r->at / qp->mtu);
	rdma_qp_drop_answers(c, qp);
	in->ack_due = in->failing = true;
	in->syndrome = RDMA_NAK_RIGHTS;
	in->failure = SP_RDMA_ASYNC_QP_ACCESS_ERR;
}

static void rdma_answer_hold(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_resource *r, struct rdma_mr *m)
{
	if (m && r->held != m) {
		if (r->held) /* of an earlier READ, and settled */
			rdma_mr_release(r->held);
		else
			qp->in.unsettled++;
		rdma_mr_hold(m);
		r->held = m;
	}
	r->mark = sp_send_mark(c);
}

/* Some responses, at most `budget` and as far as the QP has its turn; how many were sent, or -errno. -EBUSY: ports
 * still have frames of the READ that was here before, of another region, which must be held until they let go.
 * -EINPROGRESS: the agent has been asked. */
static int rdma_answer_read(struct sp_ctx *c, struct rdma_qp *qp, struct rdma_resource *r, unsigned budget)
{
	struct sp_send send[RDMA_RUN];
	struct sp_aeth aeth[RDMA_RUN];
	struct sp_piece piece[SP_RDMA_SEGMENTS], staged[RDMA_RUN];
	struct rdma_mr *m = NULL;
	uint32_t at = r->at, stop = r->end;
	bool fetched = false;
	unsigned n = 0;
	int rc;

	if (r->len) {
		m = rdma_rkey_find(c, qp, r->rkey, r->va, r->len, SP_RDMA_REMOTE_READ);
		if (!m)
			return rdma_answer_refuse(c, qp, r), 0;
		if (r->held && r->held != m && !sp_send_settled(c, r->mark))
			return -EBUSY;
		if (m->fetched) {
			stop = stop - at < rdma_fetch_room(c) ? stop : at + rdma_fetch_room(c);
			fetched = rdma_mr_fetched(m, r->va + at, stop - at);
		}
		if (fetched && !rdma_fetch_read(c, qp, r, m, &stop, piece))
			return -EINPROGRESS;
	}
	for (; n < RDMA_RUN && n < budget && (at < stop ? at - r->at < qp->turn : n == 0 && !r->len); n++) {
		const uint32_t len = r->end - at < qp->mtu ? r->end - at : qp->mtu;
		const bool first = r->first_due && at == r->at, last = at + len == r->end;
		struct sp_send *s = &send[n];

		*s = (struct sp_send){.dest_qp = qp->attr.dest_qp,
				      .psn = rdma_psn(r->first + at / qp->mtu),
				      .opcode = rdma_answer_opcode(first, last),
				      .flags = rdma_of(c)->ecn ? SP_SEND_ECT : 0,
				      .udp_source = qp->udp_source,
				      .traffic_class = qp->attr.traffic_class,
				      .hop_limit = qp->attr.hop_limit,
				      .len = len};
		if (first || last) {
			rdma_aeth(&aeth[n], RDMA_ACK, r->msn);
			s->ext = &aeth[n];
			s->ext_len = sizeof(*aeth);
		}
		if (fetched) { /* copied: what is there is gone when the agent is asked for more */
			staged[n] = (struct sp_piece){piece->mem, piece->offset + (at - r->at), len};
			s->piece = &staged[n];
			s->pieces = 1;
		} else if (len) {
			rc = rdma_mr_pieces(m, r->va + at, len, piece, SP_RDMA_SEGMENTS);
			if (rc > 1) {
				/* Pieces are copied; the array serves one packet, which goes alone. */
				if (n)
					break;
				s->piece = piece;
				s->pieces = (uint32_t)rc;
				n = 1;
				break;
			}
			s->mem = piece->mem;
			s->offset = piece->offset;
		}
		at += len;
	}
	rc = sp_send_roce_run(c, qp->path, send, n);
	if (rc <= 0)
		return rc;
	rdma_answer_hold(c, qp, r, m);
	c->counters[RDMA_READ_PACKETS] += (unsigned)rc;
	at = r->at;
	for (int i = 0; i < rc; i++)
		r->at += send[i].len;
	rdma_peer_sent(c, qp, r->at - at);
	r->first_due = false;
	if (r->at >= r->end)
		rdma_qp_end_answer(qp, r);
	return rc;
}

bool rdma_answer_settled(struct sp_ctx *c, struct rdma_qp *qp)
{
	struct rdma_responder *in = &qp->in;

	for (unsigned i = 0; in->unsettled && i < SP_RDMA_READS; i++) {
		struct rdma_resource *r = &in->resource[i];

		if (!r->held || r->pending || !sp_send_settled(c, r->mark))
			continue;
		rdma_mr_release(r->held);
		r->held = NULL;
		in->unsettled--;
	}
	return !in->unsettled;
}

/* Nothing can be sent now. */
static int rdma_answer_wait(struct sp_ctx *c, struct rdma_qp *qp)
{
	return qp->in.unsettled && !rdma_answer_settled(c, qp) ? SP_ISSUE_WAIT : SP_ISSUE_DONE;
}

int rdma_answer_issue(struct sp_ctx *c, struct rdma_qp *qp, unsigned budget, unsigned *sent)
{
	struct rdma_responder *in = &qp->in;
	struct rdma_resource *r;

	/* An answer would acknowledge it. */
	rdma_fetch_submit(c, qp);
	if (rdma_fetch_putting(qp))
		return rdma_answer_wait(c, qp);
	while (in->pending && (r = rdma_answer_oldest(qp))) {
		int rc;

		if (r->kind == RDMA_RESOURCE_ATOMIC) {
			if (!rdma_fetch_atomic(c, qp, r))
				return rdma_answer_wait(c, qp);
			if (rdma_answer_atomic(c, qp, r))
				return SP_ISSUE_MORE;
			continue;
		}
		if (*sent >= budget)
			return SP_ISSUE_MORE;
		/* What is behind it waits as well. */
		if (!rdma_peer_turn(c, qp, r->end - r->at))
			return rdma_answer_wait(c, qp);
		rc = rdma_answer_read(c, qp, r, budget - *sent);
		if (rc < 0) {
			if (rc == -EAGAIN)
				return SP_ISSUE_MORE;
			if (rc == -EBUSY)
				return SP_ISSUE_WAIT;
			if (rc == -EINPROGRESS)
				return rdma_answer_wait(c, qp);
			/* It cannot be sent at all (the route is gone): as if it were lost. */
			rdma_qp_end_answer(qp, r);
			continue;
		}
		*sent += (unsigned)rc;
	}
	rdma_peer_done(c, qp);
	/* Not before: READs that are pending may be older than the duplicate. */
	if (in->again_due) {
		if (rdma_answer_ack(c, qp, RDMA_ACK, in->again_psn) == -EAGAIN)
			return SP_ISSUE_MORE;
		c->counters[RDMA_ACKS]++;
		in->again_due = false;
	}
	if (in->ack_due && rdma_answer_latest(c, qp))
		return SP_ISSUE_MORE;
	return rdma_answer_wait(c, qp);
}

void rdma_answer_cnp(struct sp_ctx *c, struct rdma_qp *qp)
{
	static const uint8_t nothing[16];
	const struct sp_send s = {.dest_qp = qp->attr.dest_qp,
				  .opcode = SP_ROCE_CNP,
				  .flags = SP_SEND_UNPACED | SP_SEND_BECN,
				  .udp_source = qp->udp_source,
				  .traffic_class = qp->attr.traffic_class,
				  .hop_limit = qp->attr.hop_limit,
				  .ext = nothing,
				  .ext_len = sizeof(nothing)};

	if (!qp->path || c->now < qp->in.cnp_at)
		return;
	if (!sp_send_roce(c, qp->path, &s)) {
		c->counters[RDMA_CNPS_SENT]++;
		qp->in.cnp_at = c->now + rdma_of(c)->cnp_interval;
	}
}
