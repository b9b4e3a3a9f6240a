/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening, connecting, accepting, and the end of connections. */
#include "cm.h"

#include <arpa/inet.h>

#define TIMEOUT	   16 /* of an acknowledgement, where the program names none: 268 ms */
#define RETRIES	   7  /* who asks for more gets these, as with Linux */
#define REJECT_ECE 35 /* vendor option not supported */
#define REQ_MOST   56
#define REP_MOST   196

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	static const uint8_t none[16];
	struct shim_cm_id *x = shim_cm_of(id);
	uint16_t port;
	int rc;

	if (shim_cm_stale(x))
		return -1;
	if (x->state == SHIM_CM_IDLE) {
		struct sockaddr_in any = {.sin_family = AF_INET};

		if (rdma_bind_addr(id, (struct sockaddr *)&any))
			return -1;
	}
	if (x->state != SHIM_CM_BOUND)
		return shim_cm_fail(EINVAL);
	port = ntohs(rdma_get_src_port(id));
	x->state = SHIM_CM_LISTEN; /* a request may come before the next call is back */
	shim_lock();
	rc = sp_rdma_cm_listen(x->cm, memcmp(x->ip, none, 16) ? x->ip : NULL, &port,
			       backlog > 0 ? (uint32_t)backlog : 0);
	shim_unlock();
	if (!rc)
		return 0;
	x->state = SHIM_CM_BOUND;
	return shim_cm_fail(-rc);
}

/* ---- parameters ---- */
static int check_param(const struct shim_cm_id *x, const struct rdma_conn_param *p)
{
	if (!x->id.qp && !p)
		return EINVAL;
	if (shim_cm_datagram(x) || !p)
		return 0;
	if ((p->responder_resources != RDMA_MAX_RESP_RES && p->responder_resources > shim_cm.reads) ||
	    (p->initiator_depth != RDMA_MAX_INIT_DEPTH && p->initiator_depth > shim_cm.reads))
		return EINVAL;
	return 0;
}

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* Private data of the address go first. False: too much. */
static bool fill_private(const struct shim_cm_id *x, const struct rdma_conn_param *p, size_t most, uint8_t *to,
			 struct sp_cm_param *param)
{
	const size_t more = p && p->private_data ? p->private_data_len : 0;

	if (x->connect_len + more > most)
		return false;
	if (x->connect_len)
		memcpy(to, x->connect, x->connect_len);
	if (more)
		memcpy(to + x->connect_len, p->private_data, more);
	param->private_len = (uint16_t)(x->connect_len + more);
	return true;
}

static uint8_t retries(uint8_t asked)
{
	return asked < RETRIES ? asked : RETRIES;
}

static void fill(const struct shim_cm_id *x, const struct rdma_conn_param *p, struct sp_cm_param *param)
{
	*param = (struct sp_cm_param){.qp = x->id.qp ? x->id.qp->qp_num : p->qp_num,
				      .psn = x->psn,
				      .type = (uint8_t)x->id.qp_type,
				      .responder_resources = x->responder_resources,
				      .initiator_depth = x->initiator_depth,
				      .retry_count = x->retry_count,
				      .rnr_retry_count = retries(p ? p->rnr_retry_count : RETRIES),
				      .srq = x->id.qp ? x->id.qp->srq != NULL : p->srq != 0,
				      .path_mtu_code = shim_cm.path_mtu_code,
				      .timeout = x->ack_timeout ? x->ack_timeout : TIMEOUT};
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct shim_cm_id *x = shim_cm_of(id);
	uint8_t private_data[SP_RDMA_PRIVATE];
	struct sp_cm_param param;
	int error;

	if (shim_cm_stale(x))
		return -1;
	error = check_param(x, p);
	if (error || x->state != SHIM_CM_ROUTE)
		return shim_cm_fail(EINVAL);
	x->initiator_depth = p && p->initiator_depth != RDMA_MAX_INIT_DEPTH ? p->initiator_depth : shim_cm.reads;
	x->responder_resources =
		p && p->responder_resources != RDMA_MAX_RESP_RES ? p->responder_resources : shim_cm.reads;
	x->retry_count = retries(p ? p->retry_count : RETRIES);
	fill(x, p, &param);
	if (!fill_private(x, p, shim_cm_datagram(x) ? 180 : REQ_MOST, private_data, &param))
		return shim_cm_fail(EINVAL);
	memcpy(param.to, x->peer_ip, 16);
	memcpy(param.from, x->ip, 16);
	param.to_port = ntohs(rdma_get_dst_port(id));
	param.from_port = ntohs(rdma_get_src_port(id));
	x->state = SHIM_CM_CONNECT;
	shim_lock();
	error = -sp_rdma_cm_connect(x->cm, &param, private_data);
	shim_unlock();
	if (error) {
		x->state = SHIM_CM_ROUTE;
		return shim_cm_fail(error);
	}
	x->connect_len = 0;
	return shim_cm_complete(x);
}

static int accept_connection(struct shim_cm_id *x, const struct rdma_conn_param *p)
{
	x->initiator_depth = p && p->initiator_depth != RDMA_MAX_INIT_DEPTH ? p->initiator_depth
									    : least(x->initiator_depth, shim_cm.reads);
	x->responder_resources = p && p->responder_resources != RDMA_MAX_RESP_RES
					 ? p->responder_resources
					 : least(x->responder_resources, shim_cm.reads);
	return shim_cm_to_rtr(x) ? -1 : shim_cm_to_rts(x);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct shim_cm_id *x = shim_cm_of(id);
	uint8_t private_data[SP_RDMA_PRIVATE];
	struct sp_cm_param param;
	int error;

	if (shim_cm_stale(x))
		return -1;
	error = check_param(x, p);
	if (error || x->state != SHIM_CM_REQUEST)
		return shim_cm_fail(EINVAL);
	if (!shim_cm_datagram(x) && accept_connection(x, p))
		return -1;
	fill(x, p, &param);
	if (!fill_private(x, p, shim_cm_datagram(x) ? 136 : REP_MOST, private_data, &param))
		return shim_cm_fail(EINVAL);
	shim_lock();
	error = -sp_rdma_cm_accept(x->cm, &param, private_data);
	shim_unlock();
	if (error) {
		shim_cm_to_error(x);
		return shim_cm_fail(error == ENOTCONN ? EINVAL : error);
	}
	x->state = SHIM_CM_ACCEPT;
	if (!shim_cm_datagram(x))
		return shim_cm_complete(x);
	if (x->sync && id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	return 0;
}

static int reject(struct rdma_cm_id *id, const void *private_data, uint8_t len, uint16_t reason)
{
	struct shim_cm_id *x = shim_cm_of(id);
	const struct sp_cm_param param = {.reason = reason, .private_len = private_data ? len : 0};
	int rc;

	if (shim_cm_stale(x))
		return -1;
	shim_lock();
	rc = sp_rdma_cm_reject(x->cm, &param, private_data);
	shim_unlock();
	return rc ? shim_cm_fail(rc == -ENOTCONN ? EINVAL : -rc) : 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
	return reject(id, private_data, len, 0);
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
	return reject(id, private_data, len, REJECT_ECE);
}

/* ---- established ---- */
int shim_cm_ready(struct shim_cm_id *x)
{
	int rc;

	shim_lock();
	rc = sp_rdma_cm_ready(x->cm);
	shim_unlock();
	return rc ? shim_cm_fail(rc == -ENOTCONN ? EINVAL : -rc) : 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
	if (shim_cm_stale(shim_cm_of(id)))
		return -1;
	return id->qp ? shim_cm_fail(EINVAL) : shim_cm_ready(shim_cm_of(id));
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	struct shim_cm_id *x = shim_cm_of(id);
	int rc;

	if (shim_cm_stale(x))
		return -1;
	if (event != IBV_EVENT_COMM_EST || shim_cm_datagram(x))
		return shim_cm_fail(EINVAL);
	shim_lock();
	rc = sp_rdma_cm_established(x->cm);
	shim_unlock();
	return rc ? shim_cm_fail(rc == -ENOTCONN ? EINVAL : -rc) : 0;
}

/* As with the kernel's, one end of a connection may call it after the other, or after the end: there is nothing left to
 * do, and no event to wait for. */
int rdma_disconnect(struct rdma_cm_id *id)
{
	struct shim_cm_id *x = shim_cm_of(id);
	int rc;

	if (shim_cm_stale(x))
		return -1;
	if (!id->verbs || shim_cm_datagram(x) || !x->peer_known)
		return shim_cm_fail(EINVAL);
	if (shim_cm_to_error(x))
		return -1;
	shim_lock();
	rc = sp_rdma_cm_disconnect(x->cm);
	shim_unlock();
	if (rc && rc != -ENOTCONN)
		return shim_cm_fail(-rc);
	if (rc && x->sync) {
		bool told;

		pthread_mutex_lock(&shim_cm.mutex);
		told = ((struct shim_cm_channel *)id->channel)->first != NULL;
		pthread_mutex_unlock(&shim_cm.mutex);
		if (!told)
			return 0;
	}
	return shim_cm_complete(x);
}
