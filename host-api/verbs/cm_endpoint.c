/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and endpoints: rdma_getaddrinfo(), and ids that are made of its answer, which are synchronous. */
#include "cm.h"

#include <netdb.h>

#define RESOLVE_MS 2000

/* ---- addresses ---- */
static void *copy(const void *bytes, size_t len)
{
	void *to = malloc(len);

	return to ? memcpy(to, bytes, len) : NULL;
}

static int copy_address(const struct sockaddr *from, socklen_t from_len, struct sockaddr **to, socklen_t *len)
{
	if (!from || !from_len)
		return 0;
	*to = copy(from, from_len);
	*len = *to ? from_len : 0;
	return *to ? 0 : EAI_MEMORY;
}

static void ask_of(const struct rdma_addrinfo *hints, struct addrinfo *ask)
{
	if (hints->ai_flags & RAI_PASSIVE)
		ask->ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		ask->ai_flags |= AI_NUMERICHOST;
	if (hints->ai_family == AF_INET || hints->ai_family == AF_INET6)
		ask->ai_family = hints->ai_family;
	ask->ai_socktype =
		hints->ai_qp_type == IBV_QPT_UD || (!hints->ai_qp_type && hints->ai_port_space == RDMA_PS_UDP)
			? SOCK_DGRAM
			: SOCK_STREAM;
	if (hints->ai_port_space == RDMA_PS_TCP)
		ask->ai_protocol = IPPROTO_TCP;
	else if (hints->ai_port_space == RDMA_PS_UDP)
		ask->ai_protocol = IPPROTO_UDP;
}

static int resolve(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo *to)
{
	struct addrinfo ask = {0}, *found;
	const bool passive = hints->ai_flags & RAI_PASSIVE;
	int rc;

	ask_of(hints, &ask);
	rc = getaddrinfo(node, service, &ask, &found);
	if (rc)
		return rc;
	to->ai_family = found->ai_family;
	if (passive)
		rc = copy_address(found->ai_addr, found->ai_addrlen, &to->ai_src_addr, &to->ai_src_len);
	else
		rc = copy_address(found->ai_addr, found->ai_addrlen, &to->ai_dst_addr, &to->ai_dst_len);
	freeaddrinfo(found);
	return rc;
}

static int answer(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo *to)
{
	int rc = 0;

	to->ai_flags = hints->ai_flags;
	to->ai_family = hints->ai_family;
	to->ai_qp_type = hints->ai_qp_type;
	to->ai_port_space = hints->ai_port_space;
	if (!to->ai_port_space)
		to->ai_port_space = to->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!to->ai_qp_type)
		to->ai_qp_type = to->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	if (node || service)
		rc = resolve(node, service, hints, to);
	if (!rc && !to->ai_dst_len)
		rc = copy_address(hints->ai_dst_addr, hints->ai_dst_len, &to->ai_dst_addr, &to->ai_dst_len);
	if (!rc && !to->ai_src_len)
		rc = copy_address(hints->ai_src_addr, hints->ai_src_len, &to->ai_src_addr, &to->ai_src_len);
	if (!rc && !to->ai_family)
		to->ai_family = to->ai_dst_addr	  ? to->ai_dst_addr->sa_family
				: to->ai_src_addr ? to->ai_src_addr->sa_family
						  : AF_UNSPEC;
	if (!rc && hints->ai_connect && hints->ai_connect_len) {
		to->ai_connect = copy(hints->ai_connect, hints->ai_connect_len);
		to->ai_connect_len = to->ai_connect ? hints->ai_connect_len : 0;
		rc = to->ai_connect ? 0 : EAI_MEMORY;
	}
	return rc;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	struct rdma_addrinfo *to;
	int rc;

	if (!res || (!node && !service && !hints))
		return shim_cm_fail(EINVAL);
	if (shim_cm_open())
		return -1;
	to = calloc(1, sizeof(*to));
	if (!to)
		return EAI_MEMORY;
	rc = answer(node, service, hints ? hints : &none, to);
	if (rc)
		rdma_freeaddrinfo(to);
	else
		*res = to;
	return rc;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}

/* ---- endpoints ---- */
static int passive(struct shim_cm_id *x, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct sockaddr_storage any = {.ss_family = res->ai_family == AF_INET6 ? AF_INET6 : AF_INET};

	if (attr) {
		x->qp_init = copy(attr, sizeof(*attr));
		if (!x->qp_init)
			return shim_cm_fail(ENOMEM);
		x->qp_init->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	}
	if (rdma_bind_addr(&x->id, res->ai_src_len ? res->ai_src_addr : (struct sockaddr *)&any))
		return -1;
	if (pd)
		x->id.pd = pd;
	return 0;
}

static int active(struct shim_cm_id *x, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(&x->id, res->ai_src_len ? res->ai_src_addr : NULL, res->ai_dst_addr, RESOLVE_MS) ||
	    rdma_resolve_route(&x->id, RESOLVE_MS))
		return -1;
	if (attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(&x->id, pd, attr))
			return -1;
	}
	if (res->ai_connect_len) {
		x->connect = copy(res->ai_connect, res->ai_connect_len);
		if (!x->connect)
			return shim_cm_fail(ENOMEM);
		x->connect_len = res->ai_connect_len;
	}
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *made;
	int rc, error;

	if (!id || !res)
		return shim_cm_fail(EINVAL);
	if (res->ai_qp_type != IBV_QPT_RC && res->ai_qp_type != IBV_QPT_UC && res->ai_qp_type != IBV_QPT_UD)
		return shim_cm_fail(EOPNOTSUPP);
	if (shim_cm_create(NULL, &made, NULL, (enum rdma_port_space)res->ai_port_space,
			   (enum ibv_qp_type)res->ai_qp_type))
		return -1;
	rc = (res->ai_flags & RAI_PASSIVE ? passive : active)(shim_cm_of(made), res, pd, attr);
	if (!rc) {
		*id = made;
		return 0;
	}
	error = errno;
	rdma_destroy_ep(made);
	return shim_cm_fail(error);
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* The next request of a synchronous listener, with a QP if it was made with what QPs are to be. */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct shim_cm_id *x = shim_cm_of(listen);
	struct rdma_cm_event *event;

	if (shim_cm_stale(x))
		return -1;
	if (!x->sync || x->state != SHIM_CM_LISTEN)
		return shim_cm_fail(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		listen->event = event;
		return shim_cm_fail(event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ? ENODEV : EINVAL);
	}
	event->id->event = event; /* which goes with the id */
	if (x->qp_init) {
		struct ibv_qp_init_attr attr = *x->qp_init;

		if (rdma_create_qp(event->id, listen->pd, &attr)) {
			const int error = errno;

			rdma_destroy_id(event->id); /* which rejects */
			return shim_cm_fail(error);
		}
	}
	*id = event->id;
	return 0;
}
