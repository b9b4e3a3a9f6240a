/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, states of a QP as an application changes them. IBTA volume 1, 10.3 and 11.2.5.2, tables 94 to 96. */
#include "modify.h"
#include "answer.h"
#include "flow.h"
#include "peer.h"
#include "qp.h"
#include "request.h"
#include "region.h"
#include "slot.h"

#define ACCESS SP_RDMA_QP_ACCESS
#define PKEY   SP_RDMA_QP_PKEY
#define PORT   SP_RDMA_QP_PORT
#define QKEY   SP_RDMA_QP_QKEY
#define RNR    SP_RDMA_QP_MIN_RNR
#define OURS   (SP_RDMA_QP_RATE | SP_RDMA_QP_SELECTIVE)
#define TO_RTR (SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN)
#define TO_RTS                                                                                                         \
	(SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_MAX_RD)

/* Columns: RC, UC, UD. */
struct rdma_change {
	uint8_t from, to;
	uint32_t needs[3], may[3];
};

static const struct rdma_change rdma_changes[] = {
	{SP_RDMA_RESET, SP_RDMA_INIT, {PKEY | PORT | ACCESS, PKEY | PORT | ACCESS, PKEY | PORT | QKEY}, {0}},
	{SP_RDMA_INIT, SP_RDMA_INIT, {0}, {PKEY | PORT | ACCESS, PKEY | PORT | ACCESS, PKEY | PORT | QKEY}},
	{SP_RDMA_INIT,
	 SP_RDMA_RTR,
	 {TO_RTR | SP_RDMA_QP_MAX_DEST_RD | RNR, TO_RTR, 0},
	 {ACCESS | PKEY | OURS, ACCESS | PKEY | OURS, PKEY | QKEY | OURS}},
	{SP_RDMA_RTR,
	 SP_RDMA_RTS,
	 {TO_RTS, SP_RDMA_QP_SQ_PSN, SP_RDMA_QP_SQ_PSN},
	 {ACCESS | RNR | SP_RDMA_QP_RATE, ACCESS | SP_RDMA_QP_RATE, QKEY | SP_RDMA_QP_RATE}},
	{SP_RDMA_RTS,
	 SP_RDMA_RTS,
	 {0},
	 {ACCESS | RNR | SP_RDMA_QP_RATE, ACCESS | SP_RDMA_QP_RATE, QKEY | SP_RDMA_QP_RATE}},
	{SP_RDMA_RTS, SP_RDMA_SQD, {0}, {SP_RDMA_QP_SQD_NOTIFY, SP_RDMA_QP_SQD_NOTIFY, SP_RDMA_QP_SQD_NOTIFY}},
	{SP_RDMA_SQD, SP_RDMA_RTS, {0}, {ACCESS | RNR | SP_RDMA_QP_RATE, ACCESS | SP_RDMA_QP_RATE, QKEY}},
	{SP_RDMA_SQD,
	 SP_RDMA_SQD,
	 {0},
	 {ACCESS | RNR | PKEY | PORT | (TO_RTS & ~(uint32_t)SP_RDMA_QP_SQ_PSN) | SP_RDMA_QP_MAX_DEST_RD |
		  SP_RDMA_QP_RATE,
	  ACCESS | PKEY | SP_RDMA_QP_RATE, PKEY | QKEY}},
	{SP_RDMA_SQE, SP_RDMA_RTS, {0}, {0, ACCESS, QKEY}},
};

static int rdma_change_check(const struct rdma_qp *qp, const struct sp_rdma_qp_attr *a, uint8_t from, uint8_t to)
{
	const uint32_t mask = a->mask & ~(uint32_t)SP_RDMA_QP_STATE;
	const unsigned type = qp->type - SP_RDMA_RC;

	if (to == SP_RDMA_RESET || to == SP_RDMA_ERR)
		return mask || (from == SP_RDMA_RESET && to == SP_RDMA_ERR) ? -EINVAL : 0;
	for (unsigned i = 0; i < sizeof(rdma_changes) / sizeof(*rdma_changes); i++) {
		const struct rdma_change *x = &rdma_changes[i];

		if (x->from == from && x->to == to)
			return (mask & x->needs[type]) != x->needs[type] || mask & ~(x->needs[type] | x->may[type])
				       ? -EINVAL
				       : 0;
	}
	return -EINVAL;
}

static bool rdma_mtu_valid(uint32_t mtu)
{
	return mtu >= 256 && mtu <= SP_ROCE_MTU_MAX && !(mtu & (mtu - 1));
}

/* Only what the mask names is looked at. */
static int rdma_attr_check(const struct sp_rdma_qp_attr *a)
{
	static const uint8_t no_ip[16];
	const uint32_t m = a->mask;

	if ((m & SP_RDMA_QP_ACCESS && a->access > 15) || (m & SP_RDMA_QP_AV && !memcmp(a->ip, no_ip, sizeof(no_ip))) ||
	    (m & SP_RDMA_QP_PATH_MTU && !rdma_mtu_valid(a->path_mtu)) ||
	    (m & SP_RDMA_QP_DEST_QP && a->dest_qp > SP_ROCE_QP_MASK) ||
	    (m & SP_RDMA_QP_RQ_PSN && a->rq_psn > SP_ROCE_PSN_MASK) ||
	    (m & SP_RDMA_QP_SQ_PSN && a->sq_psn > SP_ROCE_PSN_MASK) ||
	    (m & SP_RDMA_QP_MAX_RD && a->max_rd_atomic > SP_RDMA_READS) ||
	    (m & SP_RDMA_QP_MAX_DEST_RD && a->max_dest_rd_atomic > SP_RDMA_READS) ||
	    (m & SP_RDMA_QP_MIN_RNR && a->min_rnr_timer > 31) || (m & SP_RDMA_QP_TIMEOUT && a->timeout > 31) ||
	    (m & SP_RDMA_QP_RETRY_CNT && a->retry_cnt > 7) || (m & SP_RDMA_QP_RNR_RETRY && a->rnr_retry > 7))
		return -EINVAL;
	/* With the top bit they are for services of machines, such as QP 1: as in Linux, not for programs. */
	return m & SP_RDMA_QP_QKEY && a->qkey >> 31 ? -EPERM : 0;
}

static void rdma_attr_set(struct rdma_qp *qp, const struct sp_rdma_qp_attr *a)
{
	struct sp_rdma_qp_attr *to = &qp->attr;
	const uint32_t m = a->mask;

	if (m & SP_RDMA_QP_ACCESS)
		qp->access = to->access = a->access;
	if (m & SP_RDMA_QP_QKEY)
		to->qkey = a->qkey;
	if (m & SP_RDMA_QP_AV) {
		memcpy(to->ip, a->ip, sizeof(to->ip));
		to->udp_source = a->udp_source;
		to->traffic_class = a->traffic_class;
		to->hop_limit = a->hop_limit;
	}
	if (m & SP_RDMA_QP_PATH_MTU)
		qp->mtu = to->path_mtu = a->path_mtu;
	if (m & SP_RDMA_QP_DEST_QP)
		to->dest_qp = a->dest_qp;
	if (m & SP_RDMA_QP_RQ_PSN)
		qp->in.psn = to->rq_psn = a->rq_psn;
	if (m & SP_RDMA_QP_SQ_PSN)
		to->sq_psn = a->sq_psn;
	if (m & SP_RDMA_QP_MAX_RD)
		to->max_rd_atomic = a->max_rd_atomic;
	if (m & SP_RDMA_QP_MAX_DEST_RD) {
		rdma_answer_places(qp, a->max_dest_rd_atomic);
		to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	}
	if (m & SP_RDMA_QP_MIN_RNR)
		to->min_rnr_timer = a->min_rnr_timer;
	if (m & SP_RDMA_QP_TIMEOUT)
		to->timeout = a->timeout;
	if (m & SP_RDMA_QP_RETRY_CNT)
		to->retry_cnt = a->retry_cnt;
	if (m & SP_RDMA_QP_RNR_RETRY)
		to->rnr_retry = a->rnr_retry;
	if (m & SP_RDMA_QP_RATE)
		to->rate = a->rate;
	to->selective = qp->selective != NULL;
	if (m & SP_RDMA_QP_STATE)
		to->sqd_notify = m & SP_RDMA_QP_SQD_NOTIFY && a->sqd_notify;
}

/* The port is drawn: it is what spreads QPs over links, and a forger has to guess it. */
static int rdma_qp_connect(struct sp_ctx *c, struct rdma_qp *qp, const struct sp_rdma_qp_attr *a)
{
	int rc = 0;

	if (qp->type == SP_RDMA_RC && a->mask & SP_RDMA_QP_SELECTIVE && a->selective)
		rc = rdma_selective_begin(c, qp, a->rq_psn);
	if (rc)
		return rc;
	rc = sp_path_open(c, a->ip, false, &qp->path);
	if (rc) {
		rdma_selective_end(c, qp);
		qp->path = NULL;
		return rc;
	}
	qp->udp_source = a->udp_source ? a->udp_source : (uint16_t)(SP_ROCE_UDP_SOURCE_MIN | (sp_random(c) & 0x3FFF));
	return 0;
}

int rdma_qp_modify(struct sp_ctx *c, struct rdma_qp *qp, struct sp_control *x)
{
	const void *in = rdma_in(x, sizeof(struct sp_rdma_qp_attr));
	const uint8_t from = rdma_state(qp);
	struct sp_rdma_qp_attr a;
	uint8_t to;
	int rc;

	if (!in)
		return -EINVAL;
	memcpy(&a, in, sizeof(a));
	if (a.mask & SP_RDMA_QP_STATE && a.state > SP_RDMA_ERR)
		return -EINVAL;
	to = a.mask & SP_RDMA_QP_STATE ? (uint8_t)a.state : from;
	rc = rdma_change_check(qp, &a, from, to);
	if (!rc)
		rc = rdma_attr_check(&a);
	if (rc)
		return rc;
	if (to == SP_RDMA_RESET)
		return rdma_qp_reset(c, qp), 0;
	if (to == SP_RDMA_ERR)
		return rdma_qp_error(c, qp, -1), 0;
	if (to == SP_RDMA_RTR && from != to && qp->type != SP_RDMA_UD)
		rc = rdma_qp_connect(c, qp, &a);
	if (rc)
		return rc;
	rdma_attr_set(qp, &a);
	if (to == SP_RDMA_RTR && from != to && qp->type == SP_RDMA_RC)
		rdma_peer_join(c, qp);
	if (to != from) {
		__atomic_store_n(&qp->state, to, __ATOMIC_RELEASE);
		rdma_sq_state(c, qp, from);
	}
	return 0;
}

int rdma_qp_query(struct sp_ctx *c, struct rdma_qp *qp, struct sp_control *x)
{
	struct sp_rdma_qp_attr *out = rdma_out(x, sizeof(*out));

	(void)c;
	if (!out || x->in_len)
		return -EINVAL;
	qp->attr.state = rdma_state(qp);
	memcpy(out, &qp->attr, sizeof(*out));
	x->out_len = sizeof(*out);
	return 0;
}
