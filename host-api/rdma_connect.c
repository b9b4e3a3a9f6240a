/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: a QP from RESET to a connection in use, for programs that need no say in between. */
#include "rdma_private.h"

#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define QKEY	    0x11111111u /* as perftest */
#define REP_PRIVATE 196u
#define OFFER	    8u /* bytes of private data that an offer of selective repeat takes */

static uint32_t verbs_psn(void)
{
	uint32_t psn;

	/* A PSN that others guess helps forgers only beside the QP number and the keys. */
	if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) != sizeof(psn))
		psn = (uint32_t)(sp_clock() / SP_NS) * 2654435761u;
	return psn & 0xFFFFFF;
}

static uint32_t verbs_link_qkey(const struct sp_rdma_link *l)
{
	return l->qkey ? l->qkey : QKEY;
}

static uint8_t verbs_link_reads(const struct sp_rdma_link *l)
{
	return l->reads ? l->reads : SP_RDMA_READS;
}

static uint32_t verbs_mtu(uint32_t code)
{
	return code >= 1 && code <= 5 ? 128u << code : 1024;
}

static uint8_t verbs_mtu_code(uint32_t mtu)
{
	uint8_t code = 1;

	while (code < 5 && 128u << code < mtu)
		code++;
	return code;
}

static int verbs_to_init(struct sp_rdma_pair *qp, const struct sp_rdma_link *l)
{
	const struct sp_rdma_qp_attr attr = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT |
						     (qp->type == SP_RDMA_UD ? SP_RDMA_QP_QKEY : SP_RDMA_QP_ACCESS),
					     .state = SP_RDMA_INIT,
					     .qkey = verbs_link_qkey(l),
					     .access = l->access ? l->access
								 : SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE |
									   SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC};

	return qp->state == SP_RDMA_INIT ? 0 : sp_rdma_qp_modify(qp, &attr);
}

int sp_rdma_prepare(struct sp_rdma_pair *qp, const struct sp_rdma_link *l)
{
	return qp && l ? verbs_to_init(qp, l) : -EINVAL;
}

/* Each message names the PSN that its sender wants to receive first: psn is ours, and we send from the peer's on. */
static int verbs_to_rtr(struct sp_rdma_pair *qp, const struct sp_rdma_link *l, const struct sp_rdma_cm_event *peer,
			uint32_t psn, uint32_t mtu, bool selective)
{
	struct sp_rdma_qp_attr attr = {.mask = SP_RDMA_QP_STATE,
				       .state = SP_RDMA_RTR,
				       .dest_qp = peer->qp,
				       .rq_psn = psn,
				       .path_mtu = mtu,
				       .hop_limit = 64,
				       .max_dest_rd_atomic = verbs_link_reads(l),
				       .min_rnr_timer = l->min_rnr_timer ? l->min_rnr_timer : 12,
				       .selective = selective};

	if (qp->type != SP_RDMA_UD)
		attr.mask |= SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN;
	if (qp->type == SP_RDMA_RC)
		attr.mask |= SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR | (selective ? SP_RDMA_QP_SELECTIVE : 0);
	memcpy(attr.ip, peer->peer, sizeof(attr.ip));
	return sp_rdma_qp_modify(qp, &attr);
}

static int verbs_to_rts(struct sp_rdma_pair *qp, const struct sp_rdma_link *l, const struct sp_rdma_cm_event *peer,
			uint32_t psn)
{
	const uint8_t reads = verbs_link_reads(l);
	struct sp_rdma_qp_attr attr = {
		.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN,
		.state = SP_RDMA_RTS,
		.sq_psn = psn,
		.max_rd_atomic = peer && peer->responder_resources < reads ? peer->responder_resources : reads,
		.timeout = l->timeout		   ? l->timeout
			   : peer && peer->timeout ? peer->timeout
						   : 14,
		.retry_cnt = l->retry_cnt ? l->retry_cnt : 7,
		.rnr_retry = l->rnr_retry ? l->rnr_retry : 7};

	if (qp->type == SP_RDMA_RC)
		attr.mask |= SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	return sp_rdma_qp_modify(qp, &attr);
}

static void verbs_param(struct sp_cm_param *param, const struct sp_rdma_pair *qp, const struct sp_rdma_link *l,
			uint32_t psn, uint32_t mtu)
{
	memset(param, 0, sizeof(*param));
	param->qp = qp->object.id;
	param->psn = psn;
	param->qkey = verbs_link_qkey(l);
	param->type = (uint8_t)qp->type;
	param->responder_resources = param->initiator_depth = verbs_link_reads(l);
	param->retry_count = l->retry_cnt ? l->retry_cnt : 7;
	param->rnr_retry_count = l->rnr_retry ? l->rnr_retry : 7;
	param->srq = qp->srq != NULL;
	param->path_mtu_code = verbs_mtu_code(mtu);
	param->timeout = l->timeout ? l->timeout : 14;
	param->private_len = l->private_len;
	param->selective = l->selective;
}

static int verbs_answer(const struct sp_rdma_cm_event *e)
{
	switch (e->type) {
	case SP_CM_EVENT_RESPONSE:
	case SP_CM_EVENT_ESTABLISHED:
		return 0;
	case SP_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	case SP_CM_EVENT_UNREACHABLE:
	case SP_CM_EVENT_ERROR:
		return e->status < 0 ? e->status : -EHOSTUNREACH;
	default:
		return -ECONNRESET;
	}
}

int sp_rdma_connect(struct sp_rdma_cm *cm, struct sp_rdma_pair *qp, const struct sp_rdma_link *l,
		    struct sp_rdma_cm_event *reply, sp_time timeout)
{
	const uint32_t psn = verbs_psn(), mtu = l && l->path_mtu ? l->path_mtu : 1024;
	static const uint8_t none[16];
	struct sp_cm_param param;
	int rc;

	if (!cm || !qp || !l || !reply || (qp->type == SP_RDMA_UD) != (cm->kind == SP_CM_DATAGRAM))
		return -EINVAL;
	if (mtu != verbs_mtu(verbs_mtu_code(mtu)))
		return -EINVAL;
	verbs_param(&param, qp, l, psn, mtu);
	memcpy(param.to, l->to, sizeof(param.to));
	memcpy(param.from, l->from, sizeof(param.from));
	if (!memcmp(l->from, none, sizeof(none))) {
		rc = sp_dev_address(cm->object.rdma->dev, sp_ip_is_4(l->to) ? AF_INET : AF_INET6, param.from);
		if (rc)
			return rc == -ENOENT ? -EADDRNOTAVAIL : rc;
	}
	param.to_port = l->port;
	rc = verbs_to_init(qp, l);
	if (!rc && qp->type == SP_RDMA_UD) {
		rc = verbs_to_rtr(qp, l, &(struct sp_rdma_cm_event){.qp = 0}, 0, mtu, false);
		rc = rc ? rc : verbs_to_rts(qp, l, NULL, psn);
	}
	rc = rc ? rc : sp_rdma_cm_connect(cm, &param, l->private_data);
	rc = rc ? rc : verbs_cm_wait_for(cm, reply, timeout);
	rc = rc ? rc : verbs_answer(reply);
	if (rc || qp->type == SP_RDMA_UD)
		return rc;
	rc = verbs_to_rtr(qp, l, reply, psn, mtu, l->selective && reply->selective);
	rc = rc ? rc : verbs_to_rts(qp, l, reply, reply->psn);
	return rc ? rc : sp_rdma_cm_ready(cm);
}

int sp_rdma_accept(const struct sp_rdma_cm_event *request, struct sp_rdma_pair *qp, const struct sp_rdma_link *l)
{
	const uint32_t psn = verbs_psn();
	uint32_t mtu;
	struct sp_cm_param param;
	int rc;

	if (!request || !request->cm || !qp || !l || request->type != SP_CM_EVENT_REQUEST ||
	    (qp->type == SP_RDMA_UD) != (request->cm->kind == SP_CM_DATAGRAM))
		return -EINVAL;
	mtu = verbs_mtu(request->path_mtu_code);
	verbs_param(&param, qp, l, psn, mtu);
	rc = verbs_to_init(qp, l);
	param.selective = l->selective && request->selective && l->private_len + OFFER <= REP_PRIVATE;
	rc = rc ? rc : verbs_to_rtr(qp, l, request, psn, mtu, param.selective);
	if (rc == -ENOSPC && param.selective) { /* other QPs use all that the NIC has for it */
		param.selective = false;
		rc = verbs_to_rtr(qp, l, request, psn, mtu, false);
	}
	rc = rc ? rc : verbs_to_rts(qp, l, request, request->psn);
	return rc ? rc : sp_rdma_cm_accept(request->cm, &param, l->private_data);
}
