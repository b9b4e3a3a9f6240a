/* SPDX-License-Identifier: BSD-3-Clause */
/* What the NIC tells becomes events of channels; a program that gets one finds that what belongs to it is done. */
#include "cm.h"

#include <arpa/inet.h>

/* ---- from the NIC: shim_lock() is held ---- */
static int family_of(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

	return memcmp(ip, mapped, 12) ? AF_INET6 : AF_INET;
}

/* The NIC listens on all its addresses, or on one of them. Who asked for loopback, or for one family, gets no others.
 */
static bool wanted(const struct shim_cm_id *listener, const struct sp_rdma_cm_event *e)
{
	const struct sockaddr *a = &listener->id.route.addr.src_addr;

	if (shim_cm_is_loopback(a))
		return !memcmp(e->peer, e->own, 16);
	return a->sa_family == family_of(e->own) || (a->sa_family == AF_INET6 && !listener->one_family);
}

static void learn(struct shim_cm_id *x, const struct sp_rdma_cm_event *e)
{
	x->peer_psn = e->psn;
	x->peer_qp = e->qp;
	x->peer_qkey = e->qkey;
	x->responder_resources = e->responder_resources;
	x->initiator_depth = e->initiator_depth;
	x->rnr_retry_count = e->rnr_retry_count;
	x->peer_known = true;
}

/* The id of a request, which the program has not seen yet. */
static struct shim_cm_id *requested(struct shim_cm_id *listener, const struct sp_rdma_cm_event *e)
{
	struct shim_cm_id *x =
		shim_cm_new(listener->id.channel, listener->id.context, listener->id.ps,
			    shim_cm_datagram(listener) ? IBV_QPT_UD : (enum ibv_qp_type)e->qp_type, e->cm);

	if (!x)
		return NULL;
	x->state = SHIM_CM_REQUEST;
	x->tos = listener->tos;
	x->ack_timeout = listener->ack_timeout;
	x->retry_count = e->retry_count;
	x->path_mtu_code = e->path_mtu_code;
	x->timeout = e->timeout;
	memcpy(x->ip, e->own, 16);
	memcpy(x->peer_ip, e->peer, 16);
	learn(x, e);
	shim_cm_sockaddr(e->own, e->own_port, family_of(e->own), &x->id.route.addr.src_storage);
	shim_cm_sockaddr(e->peer, e->peer_port, family_of(e->peer), &x->id.route.addr.dst_storage);
	shim_cm_use_device(x);
	shim_cm_route(x);
	sp_rdma_cm_set_user(e->cm, x);
	return x;
}

static struct rdma_conn_param conn_param(const struct sp_rdma_cm_event *e)
{
	return (struct rdma_conn_param){.responder_resources = e->responder_resources,
					.initiator_depth = e->initiator_depth,
					.flow_control = 1,
					.retry_count = e->retry_count,
					.rnr_retry_count = e->rnr_retry_count,
					.srq = e->srq,
					.qp_num = e->qp};
}

static void fill(struct shim_cm_event *to, const struct shim_cm_id *x, const struct sp_rdma_cm_event *e)
{
	struct rdma_cm_event *event = &to->event;
	const int index = shim_cm_datagram(x) ? shim_cm_gid_index(x->ip) : 0;

	memcpy(to->private_data, e->private_data, e->private_len);
	if (shim_cm_datagram(x)) {
		event->param.ud.private_data = e->private_len ? to->private_data : NULL;
		event->param.ud.private_data_len = (uint8_t)e->private_len;
		event->param.ud.qp_num = e->qp;
		event->param.ud.qkey = e->qkey;
		event->param.ud.ah_attr.is_global = 1;
		event->param.ud.ah_attr.port_num = 1;
		event->param.ud.ah_attr.grh.sgid_index = (uint8_t)(index < 0 ? 0 : index);
		event->param.ud.ah_attr.grh.hop_limit = 64;
		event->param.ud.ah_attr.grh.traffic_class = x->tos;
		memcpy(event->param.ud.ah_attr.grh.dgid.raw, x->peer_ip, 16);
		return;
	}
	if (e->type == SP_CM_EVENT_REQUEST || e->type == SP_CM_EVENT_RESPONSE)
		event->param.conn = conn_param(e);
	event->param.conn.private_data = e->private_len ? to->private_data : NULL;
	event->param.conn.private_data_len = (uint8_t)e->private_len;
}

static void hear(const struct sp_rdma_cm_event *e)
{
	struct shim_cm_id *owner = e->user, *x = owner;
	struct shim_cm_event *event = owner ? calloc(1, sizeof(*event)) : NULL;

	if (e->type == SP_CM_EVENT_REQUEST) {
		x = event && wanted(owner, e) ? requested(owner, e) : NULL;
		if (!x) {
			sp_rdma_cm_destroy(e->cm); /* which rejects */
			free(event);
			return;
		}
		event->event.listen_id = &owner->id;
	}
	if (!event)
		return;
	if (e->type == SP_CM_EVENT_RESPONSE)
		learn(x, e);
	event->owner = owner;
	event->event.id = &x->id;
	event->event.event = (enum rdma_cm_event_type)e->type;
	event->event.status = e->status;
	fill(event, x, e);
	pthread_mutex_lock(&shim_cm.mutex);
	if (x != owner) {
		x->unseen = owner;
		x->id.channel = owner->id.channel;
	}
	shim_cm_push((struct shim_cm_channel *)owner->id.channel, event);
	pthread_mutex_unlock(&shim_cm.mutex);
}

/* The NIC has ended: each id hears of it once. */
static void removal(void)
{
	pthread_mutex_lock(&shim_cm.mutex);
	for (struct shim_cm_id *x = shim_cm.ids; x; x = x->next) {
		struct shim_cm_event *e = x->removed ? NULL : calloc(1, sizeof(*e));

		if (!e)
			continue;
		x->removed = true;
		e->owner = x;
		e->event.id = &x->id;
		e->event.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
		shim_cm_push((struct shim_cm_channel *)x->id.channel, e);
	}
	pthread_mutex_unlock(&shim_cm.mutex);
}

void shim_cm_notice(struct shim_context *context, void *user)
{
	struct sp_rdma *r = shim_context_rdma(shim_cm.verbs);
	struct sp_rdma_cm_event event;
	int rc;

	(void)context;
	(void)user;
	while ((rc = sp_rdma_cm_take(r, &event)) == 1)
		hear(&event);
	if (rc == -ENODEV || rc == -ECONNABORTED || rc == -ECONNRESET)
		removal();
}

/* ---- to the program ---- */
/* A synchronous listener's ids are synchronous, too. */
static int hand_request(struct shim_cm_event *e)
{
	struct shim_cm_id *x = shim_cm_of(e->event.id);

	if (e->owner->sync) {
		/* It is still the listener's, so its events come along. */
		struct rdma_event_channel *own = rdma_create_event_channel();
		struct shim_cm_event *more, *next;

		if (!own)
			return -1;
		pthread_mutex_lock(&shim_cm.mutex);
		x->unseen = NULL;
		more = shim_cm_take_all((struct shim_cm_channel *)x->id.channel, x);
		x->id.channel = own;
		x->sync = true;
		for (; more; more = next) {
			next = more->next;
			shim_cm_push((struct shim_cm_channel *)own, more);
		}
		pthread_mutex_unlock(&shim_cm.mutex);
		return 0;
	}
	pthread_mutex_lock(&shim_cm.mutex);
	x->unseen = NULL;
	pthread_mutex_unlock(&shim_cm.mutex);
	return 0;
}

/* The peer has accepted: the QP goes to RTS before the peer hears that we are ready. */
static void hand_response(struct shim_cm_event *e)
{
	struct shim_cm_id *x = e->owner;

	if (!x->id.qp)
		return;
	e->event.event = RDMA_CM_EVENT_ESTABLISHED;
	if (!shim_cm_to_rtr(x) && !shim_cm_to_rts(x) && !shim_cm_ready(x))
		return;
	e->event.status = -errno;
	e->event.event = RDMA_CM_EVENT_CONNECT_ERROR;
	x->failed = true;
	shim_cm_to_error(x);
}

/* False: the program is not to hear of it. */
static bool hand_out(struct shim_cm_event *e)
{
	switch (e->event.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!hand_request(e))
			return true;
		rdma_destroy_id(e->event.id);
		return false;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		hand_response(e);
		return true;
	case RDMA_CM_EVENT_REJECTED:
		if (!e->owner->failed)
			shim_cm_to_error(e->owner);
		return !e->owner->failed;
	case RDMA_CM_EVENT_DISCONNECTED:
		return !e->owner->failed;
	default:
		return true;
	}
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct shim_cm_channel *c = (struct shim_cm_channel *)channel;
	struct shim_cm_event *e;
	int cancel;
	bool tell;

	if (!channel || !event)
		return shim_cm_fail(EINVAL);
	if (c->generation != shim_cm.generation)
		return shim_cm_fail(ENODEV);
	for (;;) {
		e = shim_cm_wait(c);
		if (!e)
			return -1;
		/* Waiting may be cancelled, but not what holds a lock. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		tell = hand_out(e);
		pthread_setcancelstate(cancel, NULL);
		if (tell)
			break;
		rdma_ack_cm_event(&e->event);
	}
	*event = &e->event;
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		[RDMA_CM_EVENT_ADDR_RESOLVED] = "RDMA_CM_EVENT_ADDR_RESOLVED",
		[RDMA_CM_EVENT_ADDR_ERROR] = "RDMA_CM_EVENT_ADDR_ERROR",
		[RDMA_CM_EVENT_ROUTE_RESOLVED] = "RDMA_CM_EVENT_ROUTE_RESOLVED",
		[RDMA_CM_EVENT_ROUTE_ERROR] = "RDMA_CM_EVENT_ROUTE_ERROR",
		[RDMA_CM_EVENT_CONNECT_REQUEST] = "RDMA_CM_EVENT_CONNECT_REQUEST",
		[RDMA_CM_EVENT_CONNECT_RESPONSE] = "RDMA_CM_EVENT_CONNECT_RESPONSE",
		[RDMA_CM_EVENT_CONNECT_ERROR] = "RDMA_CM_EVENT_CONNECT_ERROR",
		[RDMA_CM_EVENT_UNREACHABLE] = "RDMA_CM_EVENT_UNREACHABLE",
		[RDMA_CM_EVENT_REJECTED] = "RDMA_CM_EVENT_REJECTED",
		[RDMA_CM_EVENT_ESTABLISHED] = "RDMA_CM_EVENT_ESTABLISHED",
		[RDMA_CM_EVENT_DISCONNECTED] = "RDMA_CM_EVENT_DISCONNECTED",
		[RDMA_CM_EVENT_DEVICE_REMOVAL] = "RDMA_CM_EVENT_DEVICE_REMOVAL",
		[RDMA_CM_EVENT_MULTICAST_JOIN] = "RDMA_CM_EVENT_MULTICAST_JOIN",
		[RDMA_CM_EVENT_MULTICAST_ERROR] = "RDMA_CM_EVENT_MULTICAST_ERROR",
		[RDMA_CM_EVENT_ADDR_CHANGE] = "RDMA_CM_EVENT_ADDR_CHANGE",
		[RDMA_CM_EVENT_TIMEWAIT_EXIT] = "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	return (unsigned)event < sizeof(names) / sizeof(names[0]) ? names[event] : "UNKNOWN EVENT";
}
