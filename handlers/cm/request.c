/* SPDX-License-Identifier: BSD-3-Clause */
/* What applications ask for. An application finds no ids but its own. */
#include "request.h"

#include "end.h"
#include "event.h"
#include "mad.h"
#include "table.h"

#define CM_BACKLOG_MOST	  1024u
#define CM_ACK_TIMEOUT	  19 /* 2.1 s, as Linux says it for RoCE */
#define CM_PATH_MTU	  3  /* 1024 bytes */
#define CM_PORT_SPACE_TCP 0x0106u
#define CM_PORT_SPACE_UDP 0x0111u
#define CM_PORT_SPACE_IB  0x013Fu

struct cm_asked { /* a request whose data are checked */
	struct sp_cm_param param;
	uint8_t private_data[SP_RDMA_PRIVATE];
};
static_assert(sizeof(struct sp_cm_param) == offsetof(struct sp_cm_param, private_data), "private data follow");
static_assert(sizeof(struct sp_cm_event) == offsetof(struct sp_cm_event, private_data), "private data follow");
static_assert(offsetof(struct cm_asked, private_data) == sizeof(struct sp_cm_param), "private data follow");

static struct cm_id *cm_own(struct sp_ctx *c, const struct cm_app *app, uint32_t id)
{
	struct cm_id *x = app ? cm_id_find(c, id) : NULL;

	return x && x->app == app ? x : NULL;
}

static int cm_answer(struct sp_control *r, const void *answer, uint32_t len)
{
	if (r->out_room < len)
		return -EMSGSIZE;
	memcpy(r->out, answer, len);
	r->out_len = len;
	return 0;
}

static int cm_create(struct sp_ctx *c, struct sp_control *r)
{
	struct sp_cm_create q;
	struct cm_app *app;
	struct cm_id *x;

	if (r->in_len != sizeof(q) || r->out_room < sizeof(struct sp_cm_id))
		return -EINVAL;
	memcpy(&q, r->in, sizeof(q));
	if (q.kind > SP_CM_DATAGRAM || (q.port_space != CM_PORT_SPACE_TCP && q.port_space != CM_PORT_SPACE_UDP &&
					q.port_space != CM_PORT_SPACE_IB))
		return -EINVAL;
	app = cm_app_find(c, r->context, true);
	x = app ? cm_id_make(c, app) : NULL;
	if (!x)
		return -ENOSPC;
	x->kind = q.kind;
	x->port_space = q.port_space;
	x->cookie = q.cookie;
	x->retries = (uint8_t)cm_of(c)->retries;
	return cm_answer(r, &(struct sp_cm_id){x->local}, sizeof(struct sp_cm_id));
}

/* LISTEN and BIND. */
static int cm_listen(struct sp_ctx *c, struct cm_app *app, struct sp_control *r)
{
	const bool bind = r->op == SP_CM_BIND;
	struct sp_cm_listen q;
	struct cm_id *x;
	int rc;

	if (r->in_len != sizeof(q) || r->out_room < sizeof(q))
		return -EINVAL;
	memcpy(&q, r->in, sizeof(q));
	x = cm_own(c, app, q.id);
	if (!x)
		return -ENOENT;
	if (x->state != CM_IDLE || (bind && x->in_port))
		return -EINVAL;
	rc = cm_port_bind(c, x, q.ip, q.port, bind ? q.shared : x->in_port);
	if (rc)
		return rc;
	q.port = x->own_port;
	if (bind)
		return cm_answer(r, &q, sizeof(q));
	x->backlog = q.backlog && q.backlog < CM_BACKLOG_MOST ? q.backlog : CM_BACKLOG_MOST;
	cm_set(c, x, CM_LISTEN);
	return cm_answer(r, &q, sizeof(q));
}

/* ---- requests with parameters ---- */
static int cm_read(const struct sp_control *r, struct cm_asked *a)
{
	if (r->in_len < sizeof(a->param) || r->in_len > sizeof(*a))
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	memcpy(a, r->in, r->in_len);
	return a->param.private_len == r->in_len - sizeof(a->param) ? 0 : -EINVAL;
}

/* Of CONNECT and ACCEPT. */
static int cm_check(struct sp_cm_param *p, bool datagram, uint16_t private_most)
{
	if (p->private_len > private_most)
		return -EINVAL;
	if (datagram && p->type != SP_RDMA_UD)
		return -EINVAL;
	if (!datagram && p->type != SP_RDMA_RC && p->type != SP_RDMA_UC)
		return -EINVAL;
	p->path_mtu_code = p->path_mtu_code ? p->path_mtu_code : CM_PATH_MTU;
	p->timeout = p->timeout ? p->timeout : CM_ACK_TIMEOUT;
	if (p->psn > SP_ROCE_PSN_MASK || p->retry_count > 7 || p->rnr_retry_count > 7 || p->srq > 1 ||
	    p->path_mtu_code > 5 || p->timeout > 31)
		return -EINVAL;
	return 0;
}

static int cm_connect(struct sp_ctx *c, struct cm_id *x, struct cm_asked *a)
{
	static const uint8_t any[16];
	struct sp_cm_param *p = &a->param;
	const bool datagram = x->kind == SP_CM_DATAGRAM;
	int rc = cm_check(p, datagram, datagram ? 180 : 56);
	const uint8_t *from = p->from;
	struct cm_peer *peer;

	if (rc)
		return rc;
	if (x->state != CM_IDLE)
		return -EISCONN;
	if (!p->to_port || !memcmp(p->to, any, 16) || (!datagram && !sp_roce_qp_valid(p->qp)))
		return -EINVAL;
	if (!datagram && !sp_qp_owned(c, x->app->context, p->qp))
		return -EACCES;
	if (!memcmp(from, any, 16))
		from = cm_of(c)->address;
	if (!memcmp(from, any, 16))
		return -EADDRNOTAVAIL;
	peer = cm_peer_get(c, p->to);
	if (!peer)
		return -ENETUNREACH;
	if (!cm_peer_room(c, x->app, peer))
		return -ENOSPC;
	rc = cm_port_bind(c, x, from, p->from_port, true);
	if (rc)
		return rc;
	cm_peer_attach(x, peer);
	x->peer_port = p->to_port;
	x->qp = p->qp;
	x->qp_type = p->type;
	x->path_mtu_code = p->path_mtu_code;
	x->timeout = p->timeout;
	x->retry_count = p->retry_count;
	(datagram ? cm_send_sidr_req : cm_send_req)(c, x, p);
	cm_await(c, x, datagram ? CM_SIDR_SENT : CM_REQ_SENT);
	return 0;
}

static int cm_accept(struct sp_ctx *c, struct cm_id *x, struct cm_asked *a)
{
	struct sp_cm_param *p = &a->param;
	const bool datagram = x->kind == SP_CM_DATAGRAM;
	int rc = cm_check(p, datagram, datagram ? 136 : 196);

	if (rc)
		return rc;
	if (x->state != (datagram ? CM_SIDR_RCVD : CM_REQ_RCVD))
		return -ENOTCONN;
	if (!sp_roce_qp_valid(p->qp))
		return -EINVAL;
	if (!sp_qp_owned(c, x->app->context, p->qp))
		return -EACCES;
	x->qp = p->qp;
	if (datagram) {
		cm_settle(x, true);
		cm_send_sidr_rep(c, x, SP_SIDR_VALID, p);
		cm_set(c, x, CM_SIDR_DONE);
		return 0;
	}
	if (p->type != x->qp_type)
		return -EINVAL;
	cm_settle(x, false);
	cm_send_rep(c, x, p);
	cm_await(c, x, CM_REP_SENT);
	return 0;
}

static int cm_refuse(struct sp_ctx *c, struct cm_id *x, struct cm_asked *a)
{
	const struct sp_cm_param *p = &a->param;

	if (p->private_len > (x->kind == SP_CM_DATAGRAM ? 136 : 148))
		return -EINVAL;
	if (x->state == CM_SIDR_RCVD) {
		cm_settle(x, true);
		cm_send_sidr_rep(c, x, SP_SIDR_REJECT, p);
		cm_set(c, x, CM_SIDR_DONE);
		return 0;
	}
	if (x->state != CM_REQ_RCVD && x->state != CM_REP_RCVD)
		return -ENOTCONN;
	cm_reject(c, x, p->reason ? p->reason : SP_CM_CONSUMER, a->private_data, p->private_len);
	return 0;
}

/* ---- requests with an id ---- */
static int cm_ready(struct sp_ctx *c, struct cm_id *x)
{
	if (x->state != CM_REP_RCVD)
		return -ENOTCONN;
	cm_send_rtu(c, x);
	cm_set(c, x, CM_ESTABLISHED);
	c->counters[CM_ESTABLISHMENTS]++;
	return 0;
}

static int cm_disconnect(struct sp_ctx *c, struct cm_id *x)
{
	if (x->state == CM_DREQ_RCVD) {
		cm_send_drep(c, x, x->tid);
		cm_timewait(c, x);
		return 0;
	}
	if (x->state != CM_ESTABLISHED)
		return -ENOTCONN;
	cm_send_dreq(c, x);
	cm_await(c, x, CM_DREQ_SENT);
	return 0;
}

static int cm_established(struct sp_ctx *c, struct cm_id *x)
{
	if (x->state == CM_ESTABLISHED)
		return 0;
	if (x->state != CM_REP_SENT)
		return -ENOTCONN;
	cm_settle(x, true);
	cm_set(c, x, CM_ESTABLISHED);
	c->counters[CM_ESTABLISHMENTS]++;
	cm_tell(c, x, SP_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	return 0;
}

static int cm_with_id(struct sp_ctx *c, struct cm_id *x, uint32_t op)
{
	switch (op) {
	case SP_CM_READY:
		return cm_ready(c, x);
	case SP_CM_DISCONNECT:
		return cm_disconnect(c, x);
	case SP_CM_ESTABLISHED:
		return cm_established(c, x);
	default: /* SP_CM_DESTROY */
		cm_end(c, x);
		return 0;
	}
}

static int cm_with_param(struct sp_ctx *c, struct cm_app *app, struct sp_control *r)
{
	struct cm_asked a;
	struct cm_id *x;
	const int rc = cm_read(r, &a);

	if (rc)
		return rc;
	x = cm_own(c, app, a.param.id);
	if (!x)
		return -ENOENT;
	return r->op == SP_CM_CONNECT  ? cm_connect(c, x, &a)
	       : r->op == SP_CM_ACCEPT ? cm_accept(c, x, &a)
				       : cm_refuse(c, x, &a);
}

static int cm_request(struct sp_ctx *c, struct sp_control *r)
{
	struct cm_app *app = cm_app_find(c, r->context, false);
	struct sp_cm_id q;
	struct cm_id *x;

	switch (r->op) {
	case SP_CM_CREATE:
		return cm_create(c, r);
	case SP_CM_LISTEN:
	case SP_CM_BIND:
		return cm_listen(c, app, r);
	case SP_CM_TAKE:
		return app ? cm_take(app, r) : -ENOENT;
	case SP_CM_CONNECT:
	case SP_CM_ACCEPT:
	case SP_CM_REJECT:
		return cm_with_param(c, app, r);
	case SP_CM_DESTROY:
	case SP_CM_READY:
	case SP_CM_DISCONNECT:
	case SP_CM_ESTABLISHED:
		if (r->in_len != sizeof(q))
			return -EINVAL;
		memcpy(&q, r->in, sizeof(q));
		x = cm_own(c, app, q.id);
		return x ? cm_with_id(c, x, r->op) : -ENOENT;
	default:
		return -EOPNOTSUPP;
	}
}

int cm_control(struct sp_ctx *c, struct sp_control *r)
{
	int rc;

	if (r->op == SP_CONTROL_GONE) {
		cm_app_gone(c, r->context);
		return 0;
	}
	rc = cm_request(c, r);
	if (rc && !(r->op == SP_CM_TAKE && rc == -ENOENT))
		c->counters[CM_REFUSED]++;
	return rc;
}
