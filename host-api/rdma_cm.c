/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: ids of the connection manager, and its events. */
#include "rdma_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- ids ---- */
static struct sp_rdma_cm **verbs_cm_chain(struct sp_rdma *r, uint32_t id)
{
	return &r->cm[id % VERBS_CM_CHAINS];
}

static struct sp_rdma_cm *verbs_cm_find(struct sp_rdma *r, uint32_t id)
{
	struct sp_rdma_cm *cm = *verbs_cm_chain(r, id);

	while (cm && cm->object.id != id)
		cm = cm->next;
	return cm;
}

static void verbs_cm_link(struct sp_rdma_cm *cm, uint32_t id)
{
	struct sp_rdma_cm **chain = verbs_cm_chain(cm->object.rdma, id);

	cm->object.id = id;
	cm->next = *chain;
	*chain = cm;
}

static void verbs_cm_unlink(struct sp_rdma_cm *cm)
{
	struct sp_rdma_cm **at = verbs_cm_chain(cm->object.rdma, cm->object.id);

	while (*at != cm)
		at = &(*at)->next;
	*at = cm->next;
}

int sp_rdma_cm_create(struct sp_rdma *r, enum sp_cm_kind kind, uint32_t port_space, void *user, struct sp_rdma_cm **cm)
{
	struct sp_cm_create ask = {.kind = kind, .port_space = port_space};
	struct sp_rdma_cm *c;
	struct sp_cm_id id;
	int rc;

	if (!r || !cm || (kind != SP_CM_CONNECTED && kind != SP_CM_DATAGRAM))
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	rc = verbs_make(r, &c->object, VERBS_CM, user);
	if (rc)
		goto free;
	c->kind = kind;
	ask.cookie = c->object.cookie;
	rc = verbs_service(r, SP_CM_CREATE, &ask, sizeof(ask), &id, sizeof(id));
	if (!rc && verbs_cm_find(r, id.id))
		rc = -EPROTO;
	if (rc)
		goto unmake;
	verbs_cm_link(c, id.id);
	*cm = c;
	return 0;
unmake:
	verbs_unmake(&c->object);
free:
	free(c);
	return rc;
}

/* Events of it that wait go, too. */
static void verbs_cm_drop(struct sp_rdma_cm *cm)
{
	struct sp_rdma *r = cm->object.rdma;
	struct verbs_cm_kept **at = &r->kept;

	while (*at) {
		struct verbs_cm_kept *k = *at;

		if (k->event.listener == cm)
			k->event.listener = NULL;
		if (k->event.cm != cm) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		free(k);
	}
	r->kept_last = at;
}

int sp_rdma_cm_destroy(struct sp_rdma_cm *cm)
{
	const struct sp_cm_id id = {cm ? cm->object.id : 0};
	int rc;

	if (!cm)
		return 0;
	rc = verbs_service(cm->object.rdma, SP_CM_DESTROY, &id, sizeof(id), NULL, 0);
	if (rc && rc != -ENOENT) /* -ENOENT: the service has ended it */
		return rc;
	verbs_cm_drop(cm);
	verbs_cm_unlink(cm);
	verbs_unmake(&cm->object);
	free(cm);
	return 0;
}

void sp_rdma_cm_set_user(struct sp_rdma_cm *cm, void *user)
{
	cm->object.user = user;
}

/* ---- requests ---- */
static int verbs_cm_bind(struct sp_rdma_cm *cm, uint32_t op, struct sp_cm_listen ask, const uint8_t ip[16],
			 uint16_t *port)
{
	struct sp_cm_listen answer;
	int rc;

	if (!cm || !port)
		return -EINVAL;
	ask.id = cm->object.id;
	ask.port = *port;
	if (ip)
		memcpy(ask.ip, ip, sizeof(ask.ip));
	rc = verbs_service(cm->object.rdma, op, &ask, sizeof(ask), &answer, sizeof(answer));
	if (!rc)
		*port = answer.port;
	return rc;
}

int sp_rdma_cm_bind(struct sp_rdma_cm *cm, const uint8_t ip[16], uint16_t *port, bool shared)
{
	return verbs_cm_bind(cm, SP_CM_BIND, (struct sp_cm_listen){.shared = shared}, ip, port);
}

int sp_rdma_cm_listen(struct sp_rdma_cm *cm, const uint8_t ip[16], uint16_t *port, uint32_t backlog)
{
	return verbs_cm_bind(cm, SP_CM_LISTEN, (struct sp_cm_listen){.backlog = backlog}, ip, port);
}

static int verbs_cm_say(struct sp_rdma_cm *cm, uint32_t op, const struct sp_cm_param *param, const void *private_data)
{
	struct {
		struct sp_cm_param param;
		uint8_t private_data[SP_RDMA_PRIVATE];
	} ask;
	const size_t head = offsetof(struct sp_cm_param, private_data);
	uint8_t *bytes = (uint8_t *)&ask;

	if (!cm || !param || (param->private_len && !private_data))
		return -EINVAL;
	if (param->private_len > SP_RDMA_PRIVATE)
		return -EMSGSIZE;
	memset(&ask, 0, sizeof(ask));
	memcpy(bytes, param, head);
	ask.param.id = cm->object.id;
	if (param->private_len)
		memcpy(bytes + head, private_data, param->private_len);
	return verbs_service(cm->object.rdma, op, &ask, head + param->private_len, NULL, 0);
}

int sp_rdma_cm_connect(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data)
{
	return verbs_cm_say(cm, SP_CM_CONNECT, param, private_data);
}

int sp_rdma_cm_accept(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data)
{
	return verbs_cm_say(cm, SP_CM_ACCEPT, param, private_data);
}

int sp_rdma_cm_reject(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data)
{
	return verbs_cm_say(cm, SP_CM_REJECT, param, private_data);
}

static int verbs_cm_id(struct sp_rdma_cm *cm, uint32_t op)
{
	const struct sp_cm_id id = {cm ? cm->object.id : 0};

	return cm ? verbs_service(cm->object.rdma, op, &id, sizeof(id), NULL, 0) : -EINVAL;
}

int sp_rdma_cm_ready(struct sp_rdma_cm *cm)
{
	return verbs_cm_id(cm, SP_CM_READY);
}

int sp_rdma_cm_established(struct sp_rdma_cm *cm)
{
	return verbs_cm_id(cm, SP_CM_ESTABLISHED);
}

int sp_rdma_cm_disconnect(struct sp_rdma_cm *cm)
{
	return verbs_cm_id(cm, SP_CM_DISCONNECT);
}

/* ---- events ---- */
static void verbs_cm_copy(const struct sp_cm_event *e, const uint8_t *private_data, struct sp_rdma_cm_event *event)
{
	*event = (struct sp_rdma_cm_event){.type = (enum sp_cm_event_type)e->type,
					   .status = e->status,
					   .qp = e->qp,
					   .psn = e->psn,
					   .qkey = e->qkey,
					   .peer_port = e->peer_port,
					   .own_port = e->own_port,
					   .qp_type = e->qp_type,
					   .responder_resources = e->responder_resources,
					   .initiator_depth = e->initiator_depth,
					   .retry_count = e->retry_count,
					   .rnr_retry_count = e->rnr_retry_count,
					   .srq = e->srq,
					   .path_mtu_code = e->path_mtu_code,
					   .timeout = e->timeout,
					   .selective = e->selective,
					   .private_len = e->private_len};
	memcpy(event->peer, e->peer, sizeof(event->peer));
	memcpy(event->own, e->own, sizeof(event->own));
	memcpy(event->private_data, private_data, e->private_len);
}

/* A request makes an id of ours; without memory or listener it is ended. 0 or -ECANCELED. */
static int verbs_cm_request(struct sp_rdma *r, const struct sp_cm_event *e, struct sp_rdma_cm_event *event)
{
	struct sp_rdma_cm *listener = (struct sp_rdma_cm *)verbs_find(r, e->cookie, VERBS_CM), *cm;
	const struct sp_cm_id id = {e->id};

	cm = listener && !verbs_cm_find(r, e->id) ? calloc(1, sizeof(*cm)) : NULL;
	if (!cm || verbs_make(r, &cm->object, VERBS_CM, NULL)) {
		free(cm);
		if (!listener || !verbs_cm_find(r, e->id))
			verbs_service(r, SP_CM_DESTROY, &id, sizeof(id), NULL, 0);
		return -ECANCELED;
	}
	cm->kind = listener->kind;
	cm->own = true;
	verbs_cm_link(cm, e->id);
	event->cm = cm;
	event->listener = listener;
	event->user = listener->object.user;
	return 0;
}

/* The NIC's oldest event that means something to us: 1; 0: none. */
static int verbs_cm_fetch(struct sp_rdma *r, struct sp_rdma_cm_event *event)
{
	const size_t head = offsetof(struct sp_cm_event, private_data);
	struct {
		struct sp_cm_event event;
		uint8_t private_data[SP_RDMA_PRIVATE];
	} in;
	const struct sp_cm_event *e = &in.event;

	while (r->cm_more) {
		uint32_t answered = sizeof(in);
		int rc = sp_control_call(r->dev, r->id, true, SP_CM_TAKE, 0, NULL, 0, &in, &answered);

		if (rc == -ENOENT)
			r->cm_more = false;
		if (rc)
			return rc == -ENOENT ? 0 : rc;
		if (answered < head || answered > sizeof(in) || e->private_len > answered - head ||
		    e->private_len > SP_RDMA_PRIVATE)
			return -EPROTO;
		verbs_cm_copy(e, (const uint8_t *)&in + head, event);
		if (e->type == SP_CM_EVENT_REQUEST) {
			if (!verbs_cm_request(r, e, event))
				return 1;
			continue;
		}
		event->cm = verbs_cm_find(r, e->id);
		if (!event->cm) /* destroyed in the meantime */
			continue;
		event->user = event->cm->object.user;
		return 1;
	}
	return 0;
}

int sp_rdma_cm_take(struct sp_rdma *r, struct sp_rdma_cm_event *event)
{
	struct verbs_cm_kept *k;
	int rc;

	if (!r || !event)
		return -EINVAL;
	k = r->kept;
	if (k) {
		*event = k->event;
		r->kept = k->next;
		if (!r->kept)
			r->kept_last = &r->kept;
		free(k);
		return 1;
	}
	rc = verbs_pump(r);
	return rc ? rc : verbs_cm_fetch(r, event);
}

struct verbs_cm_wait {
	struct sp_rdma *r;
	struct sp_rdma_cm *cm; /* NULL: any */
	struct sp_rdma_cm_event *event;
};

static int verbs_cm_keep(struct sp_rdma *r, const struct sp_rdma_cm_event *event)
{
	struct verbs_cm_kept *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->event = *event;
	*r->kept_last = k;
	r->kept_last = &k->next;
	r->cm_news = true;
	return 0;
}

static int verbs_cm_look(void *arg)
{
	struct verbs_cm_wait *w = arg;
	int rc;

	if (!w->cm) {
		rc = sp_rdma_cm_take(w->r, w->event);
		return rc == 1 ? 0 : rc ? rc : -EAGAIN;
	}
	rc = verbs_pump(w->r);
	while (!rc && (rc = verbs_cm_fetch(w->r, w->event)) == 1) {
		if (w->event->cm == w->cm)
			return 0;
		rc = verbs_cm_keep(w->r, w->event);
	}
	return rc ? rc : -EAGAIN;
}

int sp_rdma_cm_wait(struct sp_rdma *r, struct sp_rdma_cm_event *event, sp_time timeout)
{
	struct verbs_cm_wait w = {r, NULL, event};

	return r && event ? sp_wait_until(r->dev, verbs_cm_look, &w, timeout) : -EINVAL;
}

int verbs_cm_wait_for(struct sp_rdma_cm *cm, struct sp_rdma_cm_event *event, sp_time timeout)
{
	struct verbs_cm_wait w = {cm->object.rdma, cm, event};

	for (struct verbs_cm_kept **at = &w.r->kept; *at; at = &(*at)->next) {
		struct verbs_cm_kept *k = *at;

		if (k->event.cm != cm)
			continue;
		*event = k->event;
		*at = k->next;
		if (!*at)
			w.r->kept_last = at;
		free(k);
		return 0;
	}
	return sp_wait_until(w.r->dev, verbs_cm_look, &w, timeout);
}
