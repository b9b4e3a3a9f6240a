/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: how they are made, get their addresses and options, move between channels, and end. */
#include "cm.h"

#include <arpa/inet.h>

/* ---- making ---- */
bool shim_cm_stale(const struct shim_cm_id *x)
{
	if (x->generation == shim_cm.generation)
		return false;
	errno = ENODEV;
	return true;
}

struct shim_cm_id *shim_cm_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
			       enum ibv_qp_type type, struct sp_rdma_cm *cm)
{
	struct shim_cm_id *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->id.channel = channel;
	x->id.context = context;
	x->id.ps = ps;
	x->id.qp_type = type;
	x->generation = shim_cm.generation;
	x->psn = shim_cm_random() & 0xFFFFFF;
	x->cm = cm;
	pthread_mutex_lock(&shim_cm.mutex);
	x->next = shim_cm.ids;
	x->back = &shim_cm.ids;
	if (x->next)
		x->next->back = &x->next;
	shim_cm.ids = x;
	pthread_mutex_unlock(&shim_cm.mutex);
	return x;
}

static void unlink_id(struct shim_cm_id *x)
{
	*x->back = x->next;
	if (x->next)
		x->next->back = x->back;
}

static void free_id(struct shim_cm_id *x)
{
	if (x->sync)
		rdma_destroy_event_channel(x->id.channel);
	free(x->id.route.path_rec);
	free(x->connect);
	free(x->qp_init);
	free(x);
}

int shim_cm_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps,
		   enum ibv_qp_type type)
{
	struct rdma_event_channel *own = channel ? NULL : rdma_create_event_channel();
	struct shim_cm_id *x;
	int rc;

	if (shim_cm_open() || (!channel && !own)) {
		if (own)
			rdma_destroy_event_channel(own);
		return -1;
	}
	x = shim_cm_new(own ? own : channel, context, ps, type, NULL);
	if (!x) {
		if (own)
			rdma_destroy_event_channel(own);
		return shim_cm_fail(ENOMEM);
	}
	x->sync = own;
	shim_lock();
	rc = sp_rdma_cm_create(shim_context_rdma(shim_cm.verbs), type == IBV_QPT_UD ? SP_CM_DATAGRAM : SP_CM_CONNECTED,
			       ps, x, &x->cm);
	shim_unlock();
	if (rc) {
		pthread_mutex_lock(&shim_cm.mutex);
		unlink_id(x);
		pthread_mutex_unlock(&shim_cm.mutex);
		free_id(x);
		return shim_cm_fail(-rc);
	}
	*id = &x->id;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	if (!id || (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IB && ps != RDMA_PS_IPOIB))
		return shim_cm_fail(EINVAL);
	if (ps == RDMA_PS_IPOIB)
		return shim_cm_fail(EOPNOTSUPP);
	return shim_cm_create(channel, id, context, ps, ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC);
}

/* ---- ending ---- */
static int destroy(struct shim_cm_id *x);

/* Requests that the program has not seen end with their listener. */
static void drop(struct shim_cm_event *e)
{
	while (e) {
		struct shim_cm_event *next = e->next;
		struct shim_cm_id *unseen =
			e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? shim_cm_of(e->event.id) : NULL;

		free(e);
		if (unseen)
			destroy(unseen);
		e = next;
	}
}

static int destroy(struct shim_cm_id *x)
{
	struct shim_cm_event *left;

	shim_lock();
	if (sp_rdma_cm_destroy(x->cm)) /* the NIC is gone */
		sp_rdma_cm_set_user(x->cm, NULL);
	shim_unlock();
	if (x->id.event)
		rdma_ack_cm_event(x->id.event);
	pthread_mutex_lock(&shim_cm.mutex);
	left = shim_cm_take_all((struct shim_cm_channel *)x->id.channel, x);
	while (x->acked != x->reported)
		pthread_cond_wait(&shim_cm.acked, &shim_cm.mutex);
	unlink_id(x);
	pthread_mutex_unlock(&shim_cm.mutex);
	drop(left);
	free_id(x);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct shim_cm_id *x = shim_cm_of(id);

	if (!x)
		return shim_cm_fail(EINVAL);
	if (x->generation == shim_cm.generation)
		return destroy(x);
	free_id(x);
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct shim_cm_id *x = shim_cm_of(id);
	struct rdma_event_channel *old = id->channel, *to = channel;
	const bool was_sync = x->sync;
	struct shim_cm_event *e, *next;

	if (shim_cm_stale(x))
		return -1;
	if (x->sync && !channel)
		return shim_cm_fail(EINVAL);
	if (!to)
		to = rdma_create_event_channel();
	if (!to)
		return -1;
	if (was_sync && id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	pthread_mutex_lock(&shim_cm.mutex);
	e = shim_cm_take_all((struct shim_cm_channel *)old, x);
	id->channel = to;
	x->sync = !channel;
	for (struct shim_cm_id *y = shim_cm.ids; y; y = y->next)
		if (y->unseen == x)
			y->id.channel = to;
	for (; e; e = next) {
		next = e->next;
		shim_cm_push((struct shim_cm_channel *)to, e);
	}
	while (x->acked != x->reported)
		pthread_cond_wait(&shim_cm.acked, &shim_cm.mutex);
	pthread_mutex_unlock(&shim_cm.mutex);
	if (was_sync)
		rdma_destroy_event_channel(old);
	return 0;
}

/* ---- events of our own, and synchronous ids ---- */
int shim_cm_tell(struct shim_cm_id *x, enum rdma_cm_event_type type, int status)
{
	struct shim_cm_event *e = calloc(1, sizeof(*e));

	if (!e)
		return ENOMEM;
	e->owner = x;
	e->event.id = &x->id;
	e->event.event = type;
	e->event.status = status;
	pthread_mutex_lock(&shim_cm.mutex);
	shim_cm_push((struct shim_cm_channel *)x->id.channel, e);
	pthread_mutex_unlock(&shim_cm.mutex);
	return 0;
}

int shim_cm_complete(struct shim_cm_id *x)
{
	struct rdma_cm_event *e;

	if (!x->sync)
		return 0;
	if (x->id.event) {
		rdma_ack_cm_event(x->id.event);
		x->id.event = NULL;
	}
	if (rdma_get_cm_event(x->id.channel, &x->id.event))
		return -1;
	e = x->id.event;
	if (!e->status)
		return 0;
	return shim_cm_fail(e->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : e->status < 0 ? -e->status : e->status);
}

/* ---- addresses ---- */
/* The id is on the NIC from now on. */
int shim_cm_use_device(struct shim_cm_id *x)
{
	struct rdma_ib_addr *a = &x->id.route.addr.addr.ibaddr;

	x->id.verbs = shim_cm.verbs;
	x->id.pd = x->id.pd ? x->id.pd : shim_cm.pd;
	x->id.port_num = 1;
	a->pkey = htons(0xFFFF);
	memcpy(a->sgid.raw, x->ip, 16);
	memcpy(a->dgid.raw, x->peer_ip, 16);
	return 0;
}

/* Takes the port: `ip` zero stands for all addresses. */
static int bind_port(struct shim_cm_id *x, struct sockaddr *a)
{
	static const uint8_t none[16];
	__be16 *at = shim_cm_port(a);
	uint16_t port = ntohs(*at);
	int rc;

	shim_lock();
	rc = sp_rdma_cm_bind(x->cm, memcmp(x->ip, none, 16) ? x->ip : NULL, &port, x->shared);
	shim_unlock();
	*at = htons(port);
	return rc ? shim_cm_fail(-rc) : 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct shim_cm_id *x = shim_cm_of(id);
	const socklen_t len = shim_cm_length(addr);
	struct sockaddr_storage a = {0};
	bool any;

	if (shim_cm_stale(x))
		return -1;
	if (!len || x->state != SHIM_CM_IDLE)
		return shim_cm_fail(addr && !len ? EAFNOSUPPORT : EINVAL);
	memcpy(&a, addr, len);
	/* The loopback address is no device's, as in Linux: libfabric tells devices and interfaces apart by this. */
	any = shim_cm_is_any(addr) || shim_cm_is_loopback(addr);
	if (!any && !shim_cm_own_address(addr, x->ip))
		return shim_cm_fail(ENODEV);
	if (bind_port(x, (struct sockaddr *)&a)) {
		memset(x->ip, 0, 16);
		return -1;
	}
	id->route.addr.src_storage = a;
	x->state = SHIM_CM_BOUND;
	return any ? 0 : shim_cm_use_device(x);
}

/* The address that speaks with `to`: `from`, or one of the NIC's. False: it has none of that family. */
static bool choose_source(struct shim_cm_id *x, const struct sockaddr *from, const struct sockaddr *to,
			  struct sockaddr_storage *shown)
{
	const bool loop = shim_cm_is_loopback(to);
	struct sockaddr_storage any = {.ss_family = to->sa_family};

	if (from && !shim_cm_is_any(from))
		return shim_cm_own_address(from, x->ip);
	if (!shim_cm_own_address((struct sockaddr *)&any, x->ip))
		return false;
	if (loop)
		memcpy(shown, to, shim_cm_length(to));
	else
		shim_cm_sockaddr(x->ip, 0, to->sa_family, shown);
	return true;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct shim_cm_id *x = shim_cm_of(id);
	const socklen_t len = shim_cm_length(dst);
	struct sockaddr_storage from = {0}, shown = {0};
	__be16 port = 0;
	int error;

	(void)timeout_ms; /* the answer is there at once */
	if (shim_cm_stale(x))
		return -1;
	if (!len || (src && !shim_cm_length(src)) || (x->state != SHIM_CM_IDLE && x->state != SHIM_CM_BOUND))
		return shim_cm_fail(EINVAL);
	if (src && x->state == SHIM_CM_IDLE)
		memcpy(&from, src, shim_cm_length(src));
	else if (x->state == SHIM_CM_BOUND)
		from = id->route.addr.src_storage;
	if (from.ss_family && from.ss_family != dst->sa_family)
		return shim_cm_fail(EINVAL);
	shown = from;
	if (from.ss_family)
		port = *shim_cm_port((struct sockaddr *)&from);
	memset(&id->route.addr.dst_storage, 0, sizeof(id->route.addr.dst_storage));
	memcpy(&id->route.addr.dst_storage, dst, len);
	if (!choose_source(x, from.ss_family ? (struct sockaddr *)&from : NULL, dst, &shown)) {
		if (from.ss_family && !shim_cm_is_any((struct sockaddr *)&from))
			return shim_cm_fail(ENODEV); /* not the NIC's */
		error = shim_cm_tell(x, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
		return error ? shim_cm_fail(error) : shim_cm_complete(x);
	}
	*shim_cm_port((struct sockaddr *)&shown) = port;
	if (x->state == SHIM_CM_IDLE && bind_port(x, (struct sockaddr *)&shown))
		return -1;
	id->route.addr.src_storage = shown;
	if (shim_cm_is_loopback(dst) || shim_cm_is_any(dst))
		memcpy(x->peer_ip, x->ip, 16);
	else
		shim_cm_ip_of(dst, x->peer_ip);
	x->state = SHIM_CM_ADDRESS;
	shim_cm_use_device(x);
	error = shim_cm_tell(x, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return error ? shim_cm_fail(error) : shim_cm_complete(x);
}

/* What a path record says of RoCE: the GIDs, and constants as Linux has them. */
int shim_cm_route(struct shim_cm_id *x)
{
	struct ibv_sa_path_rec *r = calloc(1, sizeof(*r));

	if (!r)
		return ENOMEM;
	memcpy(r->sgid.raw, x->ip, 16);
	memcpy(r->dgid.raw, x->peer_ip, 16);
	r->hop_limit = 64;
	r->traffic_class = x->tos;
	r->reversible = 1;
	r->numb_path = 1;
	r->pkey = htons(0xFFFF);
	r->mtu_selector = r->rate_selector = r->packet_life_time_selector = 2; /* exactly */
	r->mtu = shim_cm.path_mtu_code;
	r->rate = IBV_RATE_10_GBPS;
	r->packet_life_time = 18;
	free(x->id.route.path_rec);
	x->id.route.path_rec = r;
	x->id.route.num_paths = 1;
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	struct shim_cm_id *x = shim_cm_of(id);
	int error;

	(void)timeout_ms;
	if (shim_cm_stale(x))
		return -1;
	if (x->state != SHIM_CM_ADDRESS)
		return shim_cm_fail(EINVAL);
	error = shim_cm_route(x);
	if (!error) {
		x->state = SHIM_CM_ROUTE;
		error = shim_cm_tell(x, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	return error ? shim_cm_fail(error) : shim_cm_complete(x);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	const __be16 *port = shim_cm_port(&id->route.addr.src_addr);

	return port ? *port : 0;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	const __be16 *port = shim_cm_port(&id->route.addr.dst_addr);

	return port ? *port : 0;
}

/* ---- options ---- */
static int set_flag(bool *flag, const void *value, size_t len)
{
	int v;

	if (len != sizeof(v))
		return shim_cm_fail(EINVAL);
	memcpy(&v, value, sizeof(v));
	*flag = v != 0;
	return 0;
}

static int set_byte(uint8_t *byte, const void *value, size_t len, uint8_t most)
{
	if (len != 1 || *(const uint8_t *)value > most)
		return shim_cm_fail(EINVAL);
	*byte = *(const uint8_t *)value;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	struct shim_cm_id *x = shim_cm_of(id);

	if (shim_cm_stale(x))
		return -1;
	if (!optval)
		return shim_cm_fail(EINVAL);
	if (level != RDMA_OPTION_ID)
		return shim_cm_fail(ENOSYS); /* paths of InfiniBand */
	switch (optname) {
	case RDMA_OPTION_ID_TOS:
		return set_byte(&x->tos, optval, optlen, 255);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return set_byte(&x->ack_timeout, optval, optlen, 31);
	case RDMA_OPTION_ID_REUSEADDR:
		return x->state == SHIM_CM_IDLE ? set_flag(&x->shared, optval, optlen) : shim_cm_fail(EINVAL);
	case RDMA_OPTION_ID_AFONLY:
		return x->state <= SHIM_CM_BOUND ? set_flag(&x->one_family, optval, optlen) : shim_cm_fail(EINVAL);
	default:
		return shim_cm_fail(ENOSYS);
	}
}
