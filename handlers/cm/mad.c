/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that go out, field for field as Linux fills them. */
#include "mad.h"

#define CM_MRA_TIMEOUT 24 /* as Linux: 68 s */

static bool cm_transmit(struct sp_ctx *c, struct cm_peer *p, const struct sp_cm_mad *m)
{
	struct cm *s = cm_of(c);
	struct sp_deth deth = {.qkey = {0}};
	const struct sp_send send = {.dest_qp = SP_ROCE_QP_GSI,
				     .psn = s->psn,
				     .opcode = SP_UD_SEND_ONLY,
				     .flags = SP_SEND_ACK_REQ | SP_SEND_UNPACED,
				     .ext = &deth,
				     .ext_len = sizeof(deth),
				     .bytes = m,
				     .len = sizeof(*m)};

	sp_store_be32(deth.qkey, SP_CM_QKEY);
	deth.source_qp[2] = SP_ROCE_QP_GSI;
	if (sp_send_roce(c, p->path, &send)) {
		c->counters[CM_NOT_SENT]++;
		return false;
	}
	s->psn = (s->psn + 1) & SP_ROCE_PSN_MASK;
	c->counters[CM_SENT]++;
	return true;
}

static void cm_header(struct sp_cm_mad *m, uint16_t attribute, uint64_t tid)
{
	memset(m, 0, sizeof(*m));
	m->header.base = SP_MAD_BASE;
	m->header.class = SP_MAD_CLASS_CM;
	m->header.class_version = SP_MAD_CM_VERSION;
	m->header.method = SP_MAD_SEND;
	sp_store_be64(m->header.tid, tid);
	sp_store_be16(m->header.attribute, attribute);
}

/* Most messages begin with the two ids. */
static void cm_begin(struct sp_cm_mad *m, const struct cm_id *x, uint16_t attribute, uint64_t tid)
{
	cm_header(m, attribute, tid);
	sp_store_be32(m->ids.local_id, x->local);
	sp_store_be32(m->ids.remote_id, x->remote);
}

static void cm_store24(uint8_t to[3], uint32_t v)
{
	to[0] = (uint8_t)(v >> 16);
	to[1] = (uint8_t)(v >> 8);
	to[2] = (uint8_t)v;
}

bool cm_send_again(struct sp_ctx *c, struct cm_id *x)
{
	return cm_transmit(c, x->peer, &x->mad);
}

static bool cm_is_v4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

	return !memcmp(ip, mapped, 12);
}

static void cm_fill_ip(struct sp_cm_ip *h, const struct cm_id *x)
{
	const bool v4 = cm_is_v4(x->peer->ip);
	const unsigned from = v4 ? 12 : 0;

	h->ip = v4 ? 0x40 : 0x60;
	sp_store_be16(h->source_port, x->own_port);
	memcpy(h->source + from, x->own + from, 16 - from);
	memcpy(h->destination + from, x->peer->ip + from, 16 - from);
}

/* The offer of selective repeat has the last bytes of the private data, if the application does not need them. */
static void cm_fill_private(struct sp_ctx *c, uint8_t *to, uint16_t room, const struct sp_cm_param *p, bool offer)
{
	memcpy(to, p->private_data, p->private_len);
	if (offer && cm_of(c)->selective && p->private_len + SP_CM_SELECTIVE_LEN <= room)
		memcpy(to + room - SP_CM_SELECTIVE_LEN, SP_CM_SELECTIVE, SP_CM_SELECTIVE_LEN);
}

void cm_send_req(struct sp_ctx *c, struct cm_id *x, const struct sp_cm_param *p)
{
	struct cm *s = cm_of(c);
	struct sp_cm_req *q = &x->mad.req;
	const uint32_t flow = ((uint32_t)x->own_port * 31 + x->peer_port) & 0xFFFFF; /* as Linux */

	cm_header(&x->mad, SP_CM_REQ, x->tid);
	sp_store_be32(q->local_id, x->local);
	sp_store_be64(q->service, SP_CM_SERVICE(x->port_space, x->peer_port));
	memcpy(q->guid, s->guid, 8);
	cm_store24(q->qp, p->qp);
	q->responder_resources = p->responder_resources;
	q->initiator_depth = p->initiator_depth;
	q->remote_timeout = (uint8_t)(20 << 3 | (p->type == SP_RDMA_UC ? 1 : 0) << 1);
	cm_store24(q->psn, p->psn);
	q->local_timeout = (uint8_t)(20 << 3 | p->retry_count);
	sp_store_be16(q->pkey, SP_ROCE_PKEY);
	q->mtu = (uint8_t)(p->path_mtu_code << 4 | p->rnr_retry_count);
	q->retries = (uint8_t)(s->retries << 4 | (p->srq ? 8 : 0));
	sp_store_be16(q->primary.local_lid, SP_CM_LID);
	sp_store_be16(q->primary.remote_lid, SP_CM_LID);
	memcpy(q->primary.local_gid, x->own, 16);
	memcpy(q->primary.remote_gid, x->peer->ip, 16);
	sp_store_be32(q->primary.flow_rate, flow << 12);
	q->primary.hop_limit = 64;
	q->primary.ack_timeout = (uint8_t)(p->timeout << 3);
	cm_fill_ip(&q->ip, x);
	cm_fill_private(c, q->private_data, sizeof(q->private_data), p, p->selective);
	cm_send_again(c, x);
}

void cm_send_rep(struct sp_ctx *c, struct cm_id *x, const struct sp_cm_param *p)
{
	struct sp_cm_rep *r = &x->mad.rep;

	cm_begin(&x->mad, x, SP_CM_REP, x->tid);
	cm_store24(r->qp, p->qp);
	cm_store24(r->psn, p->psn);
	r->responder_resources = p->responder_resources;
	r->initiator_depth = p->initiator_depth;
	r->ack_delay = SP_CM_ACK_DELAY << 3;
	r->rnr = (uint8_t)(p->rnr_retry_count << 5 | (p->srq ? 0x10 : 0));
	memcpy(r->guid, cm_of(c)->guid, 8);
	cm_fill_private(c, r->private_data, sizeof(r->private_data), p, p->selective && x->selective);
	cm_send_again(c, x);
}

void cm_send_sidr_req(struct sp_ctx *c, struct cm_id *x, const struct sp_cm_param *p)
{
	struct sp_sidr_req *q = &x->mad.sidr_req;

	cm_header(&x->mad, SP_CM_SIDR_REQ, x->tid);
	sp_store_be32(q->id, x->local);
	sp_store_be16(q->pkey, SP_ROCE_PKEY);
	sp_store_be64(q->service, SP_CM_SERVICE(x->port_space, x->peer_port));
	cm_fill_ip(&q->ip, x);
	cm_fill_private(c, q->private_data, sizeof(q->private_data), p, false);
	cm_send_again(c, x);
}

void cm_send_sidr_rep(struct sp_ctx *c, struct cm_id *x, uint8_t status, const struct sp_cm_param *p)
{
	struct sp_sidr_rep *r = &x->mad.sidr_rep;

	cm_header(&x->mad, SP_CM_SIDR_REP, x->tid);
	sp_store_be32(r->id, x->remote);
	r->status = status;
	sp_store_be64(r->service, SP_CM_SERVICE(x->port_space, x->own_port));
	if (p && status == SP_SIDR_VALID) {
		cm_store24(r->qp, p->qp);
		sp_store_be32(r->qkey, p->qkey ? p->qkey : SP_CM_UDP_QKEY);
	}
	if (p)
		cm_fill_private(c, r->private_data, sizeof(r->private_data), p, false);
	cm_send_again(c, x);
}

/* A REP that comes again gets it again; the peer's DREQ has a message of its own. */
void cm_send_rtu(struct sp_ctx *c, struct cm_id *x)
{
	cm_begin(&x->mad, x, SP_CM_RTU, x->tid);
	cm_send_again(c, x);
}

void cm_send_dreq(struct sp_ctx *c, struct cm_id *x)
{
	cm_begin(&x->mad, x, SP_CM_DREQ, x->passive ? sp_random(c) : x->tid);
	cm_store24(x->mad.dreq.remote_qp, x->remote_qp);
	cm_send_again(c, x);
}

void cm_send_drep(struct sp_ctx *c, struct cm_id *x, uint64_t tid)
{
	cm_begin(&x->mad, x, SP_CM_DREP, tid);
	cm_send_again(c, x);
}

void cm_send_rej(struct sp_ctx *c, struct cm_id *x, uint16_t reason, const uint8_t *private_data, uint16_t len)
{
	struct sp_cm_rej *r = &x->mad.rej;
	const uint8_t about = x->state == CM_REQ_RCVD	? SP_CM_ABOUT_REQ
			      : x->state == CM_REP_RCVD ? SP_CM_ABOUT_REP
							: SP_CM_ABOUT_OTHER;

	cm_begin(&x->mad, x, SP_CM_REJ, x->tid);
	if (about == SP_CM_ABOUT_REQ)
		memset(r->local_id, 0, 4); /* the peer knows none */
	r->about = (uint8_t)(about << 6);
	sp_store_be16(r->reason, reason);
	if (reason == SP_CM_TIMEOUT) {
		r->info_len = 8 << 1;
		memcpy(r->info, cm_of(c)->guid, 8);
	}
	if (len)
		memcpy(r->private_data, private_data, len);
	cm_send_again(c, x);
}

void cm_send_mra(struct sp_ctx *c, struct cm_id *x)
{
	struct sp_cm_mad m;

	cm_begin(&m, x, SP_CM_MRA, x->tid);
	m.mra.about = (x->state == CM_REP_RCVD ? SP_CM_ABOUT_REP : SP_CM_ABOUT_REQ) << 6;
	m.mra.timeout = CM_MRA_TIMEOUT << 3;
	cm_transmit(c, x->peer, &m);
}

/* ---- answers to messages of no id ---- */
void cm_answer_rej(struct sp_ctx *c, struct cm_peer *p, const struct sp_cm_mad *to, uint8_t about, uint16_t reason)
{
	struct sp_cm_mad m;

	cm_header(&m, SP_CM_REJ, sp_load_be64(to->header.tid));
	memcpy(m.rej.remote_id, to->ids.local_id, 4);
	if (about != SP_CM_ABOUT_REQ)
		memcpy(m.rej.local_id, to->ids.remote_id, 4);
	m.rej.about = (uint8_t)(about << 6);
	sp_store_be16(m.rej.reason, reason);
	cm_transmit(c, p, &m);
}

void cm_answer_drep(struct sp_ctx *c, struct cm_peer *p, const struct sp_cm_mad *to)
{
	struct sp_cm_mad m;

	cm_header(&m, SP_CM_DREP, sp_load_be64(to->header.tid));
	memcpy(m.drep.remote_id, to->ids.local_id, 4);
	memcpy(m.drep.local_id, to->ids.remote_id, 4);
	cm_transmit(c, p, &m);
}

void cm_answer_sidr(struct sp_ctx *c, struct cm_peer *p, const struct sp_cm_mad *to, uint8_t status)
{
	struct sp_cm_mad m;

	cm_header(&m, SP_CM_SIDR_REP, sp_load_be64(to->header.tid));
	memcpy(m.sidr_rep.id, to->sidr_req.id, 4);
	m.sidr_rep.status = status;
	memcpy(m.sidr_rep.service, to->sidr_req.service, 8);
	cm_transmit(c, p, &m);
}
