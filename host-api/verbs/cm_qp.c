/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs and SRQs of ids, and what a QP is to be told in each state. All of it goes by public calls of libibverbs. */
#include "cm.h"

#include <arpa/inet.h>

#define MIN_RNR_TIMER 12 /* 0.64 ms */
#define ACK_TIMEOUT   16 /* 268 ms */

/* ---- states ---- */
static int init_attr(const struct shim_cm_id *x, struct ibv_qp_attr *a)
{
	a->pkey_index = 0;
	a->port_num = x->id.port_num ? x->id.port_num : 1;
	if (shim_cm_datagram(x)) {
		a->qkey = RDMA_UDP_QKEY;
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	}
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (x->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static int rtr_attr(const struct shim_cm_id *x, struct ibv_qp_attr *a)
{
	const int index = shim_cm_gid_index(x->ip);

	if (shim_cm_datagram(x))
		return IBV_QP_STATE;
	memset(&a->ah_attr, 0, sizeof(a->ah_attr));
	a->ah_attr.is_global = 1;
	a->ah_attr.port_num = 1;
	a->ah_attr.grh.sgid_index = (uint8_t)(index < 0 ? 0 : index);
	a->ah_attr.grh.hop_limit = 64;
	a->ah_attr.grh.traffic_class = x->tos;
	memcpy(a->ah_attr.grh.dgid.raw, x->peer_ip, 16);
	a->path_mtu =
		x->path_mtu_code && x->path_mtu_code < shim_cm.path_mtu_code ? x->path_mtu_code : shim_cm.path_mtu_code;
	a->dest_qp_num = x->peer_qp;
	a->rq_psn = x->psn;
	if (x->id.qp_type != IBV_QPT_RC)
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	a->max_dest_rd_atomic = x->responder_resources;
	a->min_rnr_timer = MIN_RNR_TIMER;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int rts_attr(const struct shim_cm_id *x, struct ibv_qp_attr *a)
{
	a->sq_psn = shim_cm_datagram(x) ? 0 : x->peer_psn;
	if (x->id.qp_type != IBV_QPT_RC)
		return IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->timeout = x->ack_timeout ? x->ack_timeout : x->timeout ? x->timeout : ACK_TIMEOUT;
	a->retry_cnt = x->retry_count;
	a->rnr_retry = x->rnr_retry_count;
	a->max_rd_atomic = x->initiator_depth;
	return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_MAX_QP_RD_ATOMIC;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct shim_cm_id *x = shim_cm_of(id);

	if (shim_cm_stale(x))
		return -1;
	if (!id->verbs || (attr->qp_state != IBV_QPS_INIT && !shim_cm_datagram(x) && !x->peer_known))
		return shim_cm_fail(EINVAL);
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		*mask = init_attr(x, attr);
		return 0;
	case IBV_QPS_RTR:
		*mask = rtr_attr(x, attr);
		return 0;
	case IBV_QPS_RTS:
		*mask = rts_attr(x, attr);
		return 0;
	default:
		return shim_cm_fail(EINVAL);
	}
}

static int go_to(struct shim_cm_id *x, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = IBV_QP_STATE, error;

	if (state != IBV_QPS_ERR && rdma_init_qp_attr(&x->id, &attr, &mask))
		return -1;
	error = ibv_modify_qp(qp, &attr, mask);
	return error ? shim_cm_fail(error) : 0;
}

/* Once more to INIT: what the peer may do is known now. */
int shim_cm_to_rtr(struct shim_cm_id *x)
{
	if (!x->id.qp)
		return 0;
	return go_to(x, x->id.qp, IBV_QPS_INIT) ? -1 : go_to(x, x->id.qp, IBV_QPS_RTR);
}

int shim_cm_to_rts(struct shim_cm_id *x)
{
	return x->id.qp ? go_to(x, x->id.qp, IBV_QPS_RTS) : 0;
}

int shim_cm_to_error(struct shim_cm_id *x)
{
	return x->id.qp ? go_to(x, x->id.qp, IBV_QPS_ERR) : 0;
}

/* ---- completion queues of QPs for which the program names none ---- */
static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->send_cq == id->recv_cq)
		id->send_cq = NULL;
	if (id->send_cq_channel == id->recv_cq_channel)
		id->send_cq_channel = NULL;
	destroy_cq(&id->recv_cq, &id->recv_cq_channel);
	destroy_cq(&id->send_cq, &id->send_cq_channel);
}

static int create_cq(struct rdma_cm_id *id, uint32_t entries, struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (*channel)
		*cq = ibv_create_cq(id->verbs, (int)entries, id, *channel, 0);
	return *cq ? 0 : -1;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send, uint32_t recv)
{
	int rc = recv ? create_cq(id, recv, &id->recv_cq, &id->recv_cq_channel) : 0;

	if (!rc && send)
		rc = create_cq(id, send, &id->send_cq, &id->send_cq_channel);
	return rc;
}

/* ---- SRQs ---- */
int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (shim_cm_stale(shim_cm_of(id)))
		return -1;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || !id->verbs)
		return shim_cm_fail(EINVAL);
	if (attr->srq_type != IBV_SRQT_BASIC)
		return shim_cm_fail(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	if (!id->srq)
		return -1;
	id->pd = id->pd ? id->pd : attr->pd;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {.srq_context = attr->srq_context,
					  .attr = attr->attr,
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_BASIC,
					  .pd = pd};
	const int rc = rdma_create_srq_ex(id, &ex);

	attr->attr = ex.attr;
	return rc;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (!id->qp)
		destroy_cqs(id);
}

/* ---- QPs ---- */
static int check_qp(const struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *a)
{
	if (id->qp || !id->verbs)
		return EINVAL;
	if ((a->comp_mask & IBV_QP_INIT_ATTR_PD) && a->pd && a->pd->context != id->verbs)
		return EINVAL;
	if ((id->recv_cq && a->recv_cq && id->recv_cq != a->recv_cq) ||
	    (id->send_cq && a->send_cq && id->send_cq != a->send_cq))
		return EINVAL;
	return a->qp_type == IBV_QPT_RC || a->qp_type == IBV_QPT_UC || a->qp_type == IBV_QPT_UD ? 0 : EOPNOTSUPP;
}

/* A new QP to INIT; one that has no connection to wait for to RTS. */
static int begin_qp(struct shim_cm_id *x, struct ibv_qp *qp)
{
	if (go_to(x, qp, IBV_QPS_INIT))
		return -1;
	if (!shim_cm_datagram(x))
		return 0;
	return go_to(x, qp, IBV_QPS_RTR) ? -1 : go_to(x, qp, IBV_QPS_RTS);
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int error;

	if (shim_cm_stale(shim_cm_of(id)))
		return -1;
	error = check_qp(id, attr);
	if (error)
		return shim_cm_fail(error);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
		       attr->recv_cq || id->recv_cq ? 0 : attr->cap.max_recv_wr))
		goto no_cqs;
	attr->send_cq = attr->send_cq ? attr->send_cq : id->send_cq;
	attr->recv_cq = attr->recv_cq ? attr->recv_cq : id->recv_cq;
	attr->srq = attr->srq ? attr->srq : id->srq;
	qp = ibv_create_qp_ex(id->verbs, attr);
	if (!qp)
		goto no_cqs;
	if (begin_qp(shim_cm_of(id), qp))
		goto no_qp;
	id->pd = qp->pd;
	id->qp = qp;
	return 0;
no_qp:
	error = errno;
	ibv_destroy_qp(qp);
	errno = error;
no_cqs:
	error = errno;
	destroy_cqs(id);
	return shim_cm_fail(error);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {.qp_context = attr->qp_context,
					 .send_cq = attr->send_cq,
					 .recv_cq = attr->recv_cq,
					 .srq = attr->srq,
					 .cap = attr->cap,
					 .qp_type = attr->qp_type,
					 .sq_sig_all = attr->sq_sig_all,
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = pd ? pd : id->pd};
	const int rc = rdma_create_qp_ex(id, &ex);

	attr->send_cq = ex.send_cq;
	attr->recv_cq = ex.recv_cq;
	attr->srq = ex.srq;
	attr->cap = ex.cap;
	return rc;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (id->qp)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}

/* ---- enhanced connection establishment: no vendor's options ---- */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return !id || id->qp || !ece ? shim_cm_fail(EINVAL) : 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece)
		return shim_cm_fail(EINVAL);
	memset(ece, 0, sizeof(*ece));
	return 0;
}
