/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that come in. What is not exactly right is dropped by name, and changes nothing. */
#include "receive.h"

#include "end.h"
#include "event.h"
#include "mad.h"
#include "table.h"

struct cm_in { /* a message, and where it comes from */
	struct sp_cm_mad mad;
	uint8_t from[16], to[16];
	struct cm_peer *peer;
	uint32_t local, remote; /* the sender's id; ours */
	uint64_t tid;
};

static uint32_t cm_duplicate(struct sp_ctx *c)
{
	c->counters[CM_DUPLICATES]++;
	return SP_DONE;
}

/* The id that the message names, if its sender may speak of it. Otherwise *verdict is why not. */
static struct cm_id *cm_addressed(struct sp_ctx *c, const struct cm_in *m, uint32_t *verdict)
{
	struct cm_id *x = cm_id_find(c, m->remote);

	*verdict = SP_DROP(CM_UNKNOWN);
	if (!x || x->kind != SP_CM_CONNECTED || !x->peer)
		return NULL;
	if (x->peer != m->peer) {
		*verdict = SP_DROP(CM_WRONG_PEER);
		return NULL;
	}
	return x->remote && x->remote != m->local ? NULL : x; /* before the REP, we do not know it */
}

static bool cm_same_ip(const struct sp_cm_ip *h, const struct cm_in *m)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	const bool v4 = !memcmp(m->from, mapped, 12);
	const unsigned skip = v4 ? 12 : 0;

	return h->version == 0 && h->ip >> 4 == (v4 ? 4 : 6) && !memcmp(h->source + skip, m->from + skip, 16 - skip) &&
	       !memcmp(h->destination + skip, m->to + skip, 16 - skip);
}

/* A listener that has room, or why not. */
static struct cm_id *cm_admit(struct sp_ctx *c, struct cm_in *m, struct cm_id *listener, uint32_t *verdict)
{
	struct cm_id *x = NULL;

	if (m->peer->pending >= cm_of(c)->peer_pending)
		*verdict = SP_DROP(CM_PEER_FULL);
	else if (!cm_peer_room(c, listener->app, m->peer))
		*verdict = SP_DROP(CM_PEERS);
	else if (listener->waiting >= listener->backlog || !(x = cm_id_make(c, listener->app)))
		*verdict = SP_DROP(CM_BACKLOG);
	if (!x)
		return NULL;
	x->kind = listener->kind;
	x->port_space = listener->port_space;
	x->cookie = listener->cookie;
	x->listener = listener;
	x->passive = x->asked = x->counted = true;
	x->retries = (uint8_t)cm_of(c)->retries;
	x->remote = m->local;
	x->tid = m->tid;
	x->own_port = listener->own_port;
	memcpy(x->own, m->to, 16);
	listener->waiting++;
	m->peer->pending++;
	cm_peer_attach(x, m->peer);
	cm_remote_enter(c, x);
	return x;
}

/* ---- REQ ---- */
static bool cm_req_same(const struct cm_in *m, const struct cm_id *x)
{
	return x->remote_qp == sp_load_be24(m->mad.req.qp) && x->psn == sp_load_be24(m->mad.req.psn);
}

static uint32_t cm_req_again(struct sp_ctx *c, const struct cm_in *m, struct cm_id *x)
{
	if (!cm_req_same(m, x))
		return SP_DROP(CM_UNEXPECTED);
	if (x->state == CM_REQ_RCVD)
		cm_send_mra(c, x);
	else if (x->state == CM_REP_SENT)
		cm_send_again(c, x);
	else if (x->state == CM_REFUSAL)
		cm_refuse_again(c, x);
	else if (x->state == CM_TIMEWAIT)
		cm_answer_rej(c, m->peer, &m->mad, SP_CM_ABOUT_REQ, SP_CM_STALE);
	return cm_duplicate(c);
}

static uint32_t cm_req_check(const struct cm_in *m)
{
	const struct sp_cm_req *q = &m->mad.req;
	const uint8_t transport = q->remote_timeout >> 1 & 3, mtu = q->mtu >> 4;

	if (!m->local || !sp_roce_qp_valid(sp_load_be24(q->qp)) || transport > 1 || q->retries & 7 || mtu < 1 ||
	    mtu > 5 || (sp_load_be16(q->pkey) | 0x8000) != SP_ROCE_PKEY || sp_load_be64(q->service) >> 24 != 1)
		return SP_DROP(CM_BAD_FIELD);
	if (memcmp(q->primary.local_gid, m->from, 16) || memcmp(q->primary.remote_gid, m->to, 16) ||
	    !cm_same_ip(&q->ip, m))
		return SP_DROP(CM_WRONG_PEER);
	return SP_DONE;
}

static bool cm_offers(uint8_t *private_data, uint16_t len)
{
	uint8_t *at = private_data + len - SP_CM_SELECTIVE_LEN;

	if (memcmp(at, SP_CM_SELECTIVE, SP_CM_SELECTIVE_LEN))
		return false;
	memset(at, 0, SP_CM_SELECTIVE_LEN);
	return true;
}

static void cm_req_enter(struct sp_ctx *c, struct cm_in *m, struct cm_id *x)
{
	struct sp_cm_req *q = &m->mad.req;
	const uint8_t retries = q->retries >> 4;

	x->retries = retries < x->retries ? retries : x->retries;
	x->remote_qp = sp_load_be24(q->qp);
	x->psn = sp_load_be24(q->psn);
	memcpy(x->guid, q->guid, 8);
	x->peer_port = sp_load_be16(q->ip.source_port);
	x->qp_type = q->remote_timeout >> 1 & 3 ? SP_RDMA_UC : SP_RDMA_RC;
	x->responder_resources = q->initiator_depth; /* what we answer is what the peer asks, and the reverse */
	x->initiator_depth = q->responder_resources;
	x->retry_count = q->local_timeout & 7;
	x->rnr_retry_count = q->mtu & 7;
	x->srq = q->retries >> 3 & 1;
	x->path_mtu_code = q->mtu >> 4;
	x->timeout = q->primary.ack_timeout >> 3;
	x->selective = cm_of(c)->selective && cm_offers(q->private_data, sizeof(q->private_data));
	cm_qp_enter(c, x);
	cm_allow(c, x, CM_REQ_RCVD, cm_of(c)->accept);
	cm_tell(c, x, SP_CM_EVENT_REQUEST, 0, q->private_data, sizeof(q->private_data));
}

static uint32_t cm_req(struct sp_ctx *c, struct cm_in *m)
{
	struct sp_cm_req *q = &m->mad.req;
	struct cm_id *listener, *x;
	uint32_t verdict = cm_req_check(m);

	c->counters[CM_REQS]++;
	if (verdict != SP_DONE)
		return verdict;
	x = cm_remote_find(c, m->from, m->local, false);
	if (x && (x->state == CM_REFUSAL || x->state == CM_TIMEWAIT) && !cm_req_same(m, x)) {
		cm_remote_leave(c, x); /* the peer has drawn that id once more */
		x = NULL;
	}
	if (x)
		return cm_req_again(c, m, x);
	x = cm_qp_find(c, m->from, q->guid, sp_load_be24(q->qp), NULL);
	if (x) { /* the peer knows nothing of a connection that we have with this QP */
		c->counters[CM_STALES]++;
		cm_answer_rej(c, m->peer, &m->mad, SP_CM_ABOUT_REQ, SP_CM_STALE);
		if (x->state == CM_ESTABLISHED) {
			cm_send_dreq(c, x);
			cm_await(c, x, CM_DREQ_SENT);
		}
		return SP_DONE;
	}
	listener = cm_listener_find(c, sp_load_be64(q->service) & 0xFFFFFFFF, m->to);
	if (!listener || listener->kind != SP_CM_CONNECTED) {
		c->counters[CM_NO_LISTENER]++;
		cm_answer_rej(c, m->peer, &m->mad, SP_CM_ABOUT_REQ, SP_CM_INVALID_SERVICE);
		return SP_DONE;
	}
	x = cm_admit(c, m, listener, &verdict);
	if (x)
		cm_req_enter(c, m, x);
	return verdict;
}

/* ---- REP, RTU ---- */
static uint32_t cm_rep_again(struct sp_ctx *c, struct cm_id *x)
{
	if (x->state == CM_REP_RCVD)
		cm_send_mra(c, x);
	else if (x->state == CM_ESTABLISHED)
		cm_send_rtu(c, x);
	else if (x->state == CM_REFUSAL)
		cm_refuse_again(c, x);
	else
		return SP_DROP(CM_UNEXPECTED);
	return cm_duplicate(c);
}

static uint32_t cm_rep(struct sp_ctx *c, struct cm_in *m)
{
	struct sp_cm_rep *r = &m->mad.rep;
	const uint32_t qp = sp_load_be24(r->qp);
	uint32_t verdict;
	struct cm_id *x = cm_addressed(c, m, &verdict);

	c->counters[CM_REPS]++;
	if (!m->local || !m->remote || !sp_roce_qp_valid(qp))
		return SP_DROP(CM_BAD_FIELD);
	if (!x || x->state == CM_CLOSED) {
		if (x || verdict == SP_DROP(CM_UNKNOWN))
			cm_answer_rej(c, m->peer, &m->mad, SP_CM_ABOUT_REP, SP_CM_INVALID_ID);
		return verdict;
	}
	if (x->passive || m->tid != x->tid)
		return SP_DROP(CM_UNEXPECTED);
	if (x->state != CM_REQ_SENT)
		return cm_rep_again(c, x);
	if (cm_qp_find(c, m->from, r->guid, qp, x)) {
		c->counters[CM_STALES]++;
		cm_answer_rej(c, m->peer, &m->mad, SP_CM_ABOUT_REP, SP_CM_STALE);
		return SP_DONE;
	}
	x->remote = m->local;
	x->remote_qp = qp;
	x->psn = sp_load_be24(r->psn);
	memcpy(x->guid, r->guid, 8);
	x->responder_resources = r->initiator_depth;
	x->initiator_depth = r->responder_resources;
	x->rnr_retry_count = r->rnr >> 5;
	x->srq = r->rnr >> 4 & 1;
	x->selective = cm_of(c)->selective && cm_offers(r->private_data, sizeof(r->private_data));
	cm_qp_enter(c, x);
	cm_allow(c, x, CM_REP_RCVD, cm_of(c)->accept);
	cm_tell(c, x, SP_CM_EVENT_RESPONSE, 0, r->private_data, sizeof(r->private_data));
	return SP_DONE;
}

static uint32_t cm_rtu(struct sp_ctx *c, struct cm_in *m)
{
	uint32_t verdict;
	struct cm_id *x = cm_addressed(c, m, &verdict);

	c->counters[CM_RTUS]++;
	if (!x)
		return verdict;
	if (x->passive && x->state == CM_ESTABLISHED)
		return cm_duplicate(c);
	if (x->state != CM_REP_SENT)
		return SP_DROP(CM_UNEXPECTED);
	cm_settle(x, true);
	cm_set(c, x, CM_ESTABLISHED);
	c->counters[CM_ESTABLISHMENTS]++;
	cm_tell(c, x, SP_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	return SP_DONE;
}

/* ---- REJ, MRA ---- */
static uint32_t cm_rej(struct sp_ctx *c, struct cm_in *m)
{
	const struct sp_cm_rej *r = &m->mad.rej;
	const uint16_t reason = sp_load_be16(r->reason);
	uint32_t verdict = SP_DROP(CM_UNKNOWN);
	struct cm_id *x;

	c->counters[CM_REJS]++;
	/* Who gives up a REQ does not know the other's id. */
	x = m->remote ? cm_addressed(c, m, &verdict) : cm_remote_find(c, m->from, m->local, false);
	if (!x)
		return verdict;
	if (!m->remote && reason != SP_CM_TIMEOUT)
		return SP_DROP(CM_BAD_FIELD);
	switch (x->state) {
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		cm_tell(c, x, SP_CM_EVENT_REJECTED, reason, r->private_data, sizeof(r->private_data));
		cm_set(c, x, CM_CLOSED);
		return SP_DONE;
	case CM_REFUSAL:
	case CM_CLOSED:
		return cm_duplicate(c);
	default:
		return SP_DROP(CM_UNEXPECTED);
	}
}

static uint32_t cm_mra(struct sp_ctx *c, struct cm_in *m)
{
	const struct sp_cm_mra *r = &m->mad.mra;
	const sp_time asked = SP_CM_TIME(r->timeout >> 3), most = cm_of(c)->accept;
	const uint8_t about = r->about >> 6;
	uint32_t verdict;
	struct cm_id *x = cm_addressed(c, m, &verdict);

	c->counters[CM_MRAS]++;
	if (!x)
		return verdict;
	if (about > SP_CM_ABOUT_REP)
		return SP_DROP(CM_BAD_FIELD);
	if (x->state != (about == SP_CM_ABOUT_REQ ? CM_REQ_SENT : CM_REP_SENT))
		return SP_DROP(CM_UNEXPECTED);
	if (x->extended) /* once for each repetition: it does not go on for ever */
		return cm_duplicate(c);
	x->extended = true;
	sp_timer_arm(c, &x->timer, c->now + x->wait + (asked < most ? asked : most));
	return SP_DONE;
}

/* ---- DREQ, DREP ---- */
static uint32_t cm_dreq(struct sp_ctx *c, struct cm_in *m)
{
	uint32_t verdict;
	struct cm_id *x = cm_addressed(c, m, &verdict);

	c->counters[CM_DREQS]++;
	if (!x || x->state == CM_CLOSED) {
		if (x || verdict == SP_DROP(CM_UNKNOWN))
			cm_answer_drep(c, m->peer, &m->mad);
		return verdict;
	}
	if (!x->remote || x->qp != sp_load_be24(m->mad.dreq.remote_qp))
		return SP_DROP(CM_WRONG_PEER);
	switch (x->state) {
	case CM_REP_SENT: /* the RTU was lost */
	case CM_ESTABLISHED:
		x->tid = m->tid;
		cm_settle(x, true);
		cm_allow(c, x, CM_DREQ_RCVD, cm_of(c)->accept);
		cm_tell(c, x, SP_CM_EVENT_DISCONNECTED, 0, NULL, 0);
		return SP_DONE;
	case CM_REP_RCVD:
	case CM_DREQ_SENT: /* both at once */
		cm_send_drep(c, x, m->tid);
		cm_tell(c, x, SP_CM_EVENT_DISCONNECTED, 0, NULL, 0);
		cm_timewait(c, x);
		return SP_DONE;
	case CM_TIMEWAIT:
		cm_send_drep(c, x, m->tid);
		return cm_duplicate(c);
	case CM_DREQ_RCVD:
		return cm_duplicate(c);
	case CM_REFUSAL:
		cm_refuse_again(c, x);
		return cm_duplicate(c);
	default:
		return SP_DROP(CM_UNEXPECTED);
	}
}

static uint32_t cm_drep(struct sp_ctx *c, struct cm_in *m)
{
	uint32_t verdict;
	struct cm_id *x = cm_addressed(c, m, &verdict);

	c->counters[CM_DREPS]++;
	if (!x)
		return verdict;
	if (x->state == CM_TIMEWAIT)
		return cm_duplicate(c);
	if (x->state != CM_DREQ_SENT || m->tid != sp_load_be64(x->mad.header.tid))
		return SP_DROP(CM_UNEXPECTED);
	cm_tell(c, x, SP_CM_EVENT_DISCONNECTED, 0, NULL, 0);
	cm_timewait(c, x);
	return SP_DONE;
}

/* ---- SIDR ---- */
static uint32_t cm_sidr_req(struct sp_ctx *c, struct cm_in *m)
{
	struct sp_sidr_req *q = &m->mad.sidr_req;
	struct cm_id *listener, *x;
	uint32_t verdict = SP_DONE;

	c->counters[CM_SIDR_REQS]++;
	if ((sp_load_be16(q->pkey) | 0x8000) != SP_ROCE_PKEY || sp_load_be64(q->service) >> 24 != 1)
		return SP_DROP(CM_BAD_FIELD);
	if (!cm_same_ip(&q->ip, m))
		return SP_DROP(CM_WRONG_PEER);
	x = cm_remote_find(c, m->from, m->local, true);
	if (x) {
		if (x->state == CM_SIDR_DONE)
			cm_send_again(c, x);
		return cm_duplicate(c);
	}
	listener = cm_listener_find(c, sp_load_be64(q->service) & 0xFFFFFFFF, m->to);
	if (!listener || listener->kind != SP_CM_DATAGRAM) {
		c->counters[CM_NO_LISTENER]++;
		cm_answer_sidr(c, m->peer, &m->mad, SP_SIDR_UNSUPPORTED);
		return SP_DONE;
	}
	x = cm_admit(c, m, listener, &verdict);
	if (!x)
		return verdict;
	x->qp_type = SP_RDMA_UD;
	x->peer_port = sp_load_be16(q->ip.source_port);
	cm_allow(c, x, CM_SIDR_RCVD, cm_of(c)->accept);
	cm_tell(c, x, SP_CM_EVENT_REQUEST, 0, q->private_data, sizeof(q->private_data));
	return verdict;
}

static uint32_t cm_sidr_rep(struct sp_ctx *c, struct cm_in *m)
{
	const struct sp_sidr_rep *r = &m->mad.sidr_rep;
	struct cm_id *x = cm_id_find(c, m->local); /* it is our id that comes first here */

	c->counters[CM_SIDR_REPS]++;
	if (!x || x->kind != SP_CM_DATAGRAM || !x->peer)
		return SP_DROP(CM_UNKNOWN);
	if (x->peer != m->peer)
		return SP_DROP(CM_WRONG_PEER);
	if (!x->passive && x->state == CM_CLOSED)
		return cm_duplicate(c);
	if (x->state != CM_SIDR_SENT || m->tid != x->tid)
		return SP_DROP(CM_UNEXPECTED);
	if (sp_load_be64(r->service) != SP_CM_SERVICE(x->port_space, x->peer_port) ||
	    (r->status == SP_SIDR_VALID && !sp_roce_qp_valid(sp_load_be24(r->qp))))
		return SP_DROP(CM_BAD_FIELD);
	x->remote_qp = sp_load_be24(r->qp);
	x->qkey = sp_load_be32(r->qkey);
	cm_tell(c, x, r->status == SP_SIDR_VALID ? SP_CM_EVENT_ESTABLISHED : SP_CM_EVENT_UNREACHABLE, r->status,
		r->private_data, sizeof(r->private_data));
	cm_set(c, x, CM_CLOSED);
	return SP_DONE;
}

/* ---- all ---- */
static void cm_addresses(const struct sp_packet *p, struct cm_in *m)
{
	const uint8_t *ip = p->frame + p->l3;

	if (p->flags & SP_PKT_IPV6) {
		memcpy(m->from, ip + 8, 16);
		memcpy(m->to, ip + 24, 16);
		return;
	}
	memset(m->from, 0, 16);
	memset(m->from + 10, 0xFF, 2);
	memcpy(m->to, m->from, 16);
	memcpy(m->from + 12, ip + 12, 4);
	memcpy(m->to + 12, ip + 16, 4);
}

static uint32_t cm_outside(const struct sp_packet *p)
{
	const struct sp_deth *deth = (const struct sp_deth *)p->data;

	if (p->opcode != SP_UD_SEND_ONLY)
		return SP_DROP(CM_BAD_OPCODE);
	if (p->len != sizeof(*deth) + SP_CM_MAD_LEN)
		return SP_DROP(CM_BAD_LENGTH);
	if (sp_load_be24(deth->source_qp) != SP_ROCE_QP_GSI)
		return SP_DROP(CM_NOT_QP1);
	if (sp_load_be32(deth->qkey) != SP_CM_QKEY)
		return SP_DROP(CM_BAD_QKEY);
	if ((sp_load_be16(((const struct sp_bth *)p->data - 1)->pkey) | 0x8000) != SP_ROCE_PKEY)
		return SP_DROP(CM_BAD_PKEY);
	return SP_DONE;
}

static uint32_t cm_head(const struct sp_mad_header *h)
{
	const uint16_t attribute = sp_load_be16(h->attribute);

	if (h->class != SP_MAD_CLASS_CM)
		return SP_DROP(CM_OTHER_CLASS);
	if (h->base != SP_MAD_BASE || h->class_version != SP_MAD_CM_VERSION || h->method != SP_MAD_SEND ||
	    sp_load_be16(h->status) || sp_load_be32(h->modifier))
		return SP_DROP(CM_BAD_MAD);
	return attribute < SP_CM_REQ || attribute > SP_CM_SIDR_REP ? SP_DROP(CM_BAD_ATTRIBUTE) : SP_DONE;
}

uint32_t cm_receive(struct sp_ctx *c, struct sp_packet *p)
{
	static uint32_t (*const handle[])(struct sp_ctx *, struct cm_in *) = {
		cm_req, cm_mra, cm_rej, cm_rep, cm_rtu, cm_dreq, cm_drep, cm_sidr_req, cm_sidr_rep,
	};
	uint32_t verdict = cm_outside(p);
	struct cm_in m;

	if (verdict != SP_DONE)
		return verdict;
	memcpy(&m.mad, p->data + sizeof(struct sp_deth), sizeof(m.mad));
	verdict = cm_head(&m.mad.header);
	if (verdict != SP_DONE)
		return verdict;
	cm_addresses(p, &m);
	m.peer = cm_peer_get(c, m.from);
	if (!m.peer)
		return SP_DROP(CM_PEERS);
	if (!cm_peer_allows(c, m.peer))
		return SP_DROP(CM_FLOOD);
	memcpy(cm_of(c)->address, m.to, 16);
	m.local = sp_load_be32(m.mad.ids.local_id);
	m.remote = sp_load_be32(m.mad.ids.remote_id);
	m.tid = sp_load_be64(m.mad.header.tid);
	return handle[sp_load_be16(m.mad.header.attribute) - SP_CM_REQ](c, &m);
}
