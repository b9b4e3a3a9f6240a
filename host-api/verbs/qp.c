/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs. The NIC checks the states and what each change needs. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_LEAST 64 /* an entry has room for it anyway */

static struct shim_qp **chain_of(struct shim_context *c, uint32_t number)
{
	return &c->qp[(number ^ number >> 10) % SHIM_CHAINS];
}

struct shim_qp *shim_qp_find(struct shim_context *c, uint32_t number)
{
	struct shim_qp *qp = *chain_of(c, number);

	while (qp && qp->ibv.qp_num != number)
		qp = qp->next;
	return qp;
}

static int qp_check(const struct shim_context *c, const struct ibv_qp_init_attr_ex *a)
{
	const struct sp_rdma_limits *l = &c->limits;

	if (a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
				       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	    (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags) ||
	    (a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD))
		return -EOPNOTSUPP;
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq || !a->recv_cq)
		return -EINVAL;
	return a->cap.max_send_wr > l->wrs || (!a->srq && a->cap.max_recv_wr > l->wrs) ||
			       a->cap.max_send_sge > l->sges || (!a->srq && a->cap.max_recv_sge > l->sges) ||
			       a->cap.max_inline_data > l->inlined
		       ? -EINVAL
		       : 0;
}

static uint32_t rounded(uint32_t n)
{
	uint32_t r = 1;

	while (r < n)
		r *= 2;
	return r;
}

/* What the queues really have room for. */
static void qp_caps(const struct shim_context *c, struct shim_qp *qp, const struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp_cap *cap = &qp->cap;

	cap->max_send_wr = rounded(a->cap.max_send_wr);
	cap->max_send_sge = a->cap.max_send_sge ? a->cap.max_send_sge : 1;
	cap->max_inline_data = a->cap.max_inline_data;
	if (cap->max_inline_data < INLINE_LEAST && c->limits.inlined >= INLINE_LEAST)
		cap->max_inline_data = INLINE_LEAST;
	if (!a->srq) {
		cap->max_recv_wr = rounded(a->cap.max_recv_wr);
		cap->max_recv_sge = a->cap.max_recv_sge ? a->cap.max_recv_sge : 1;
	}
	qp->send_sges = shim_entry_sges(cap->max_send_sge, c->limits.sges);
	qp->recv_sges = shim_entry_sges(cap->max_recv_sge, c->limits.sges);
}

static int qp_create(struct shim_context *c, struct shim_qp *qp)
{
	struct ibv_qp *v = &qp->ibv;
	const struct sp_rdma_qp_init init = {.type = (enum sp_rdma_qp_type)v->qp_type,
					     .send_cq = ((struct shim_cq *)v->send_cq)->cq,
					     .recv_cq = ((struct shim_cq *)v->recv_cq)->cq,
					     .srq = v->srq ? ((struct shim_srq *)v->srq)->srq : NULL,
					     .send_wr = qp->cap.max_send_wr,
					     .recv_wr = qp->cap.max_recv_wr,
					     .send_sges = qp->send_sges,
					     .recv_sges = qp->recv_sges,
					     .inlined = qp->cap.max_inline_data,
					     .all_signaled = qp->all_signaled,
					     .user = qp};
	struct shim_qp **chain;
	int rc = c->ended ? -EIO : sp_rdma_qp_create(((struct shim_pd *)v->pd)->pd, &init, &qp->qp);

	if (rc)
		return rc;
	v->qp_num = v->handle = sp_rdma_qp_number(qp->qp);
	chain = chain_of(c, v->qp_num);
	qp->next = *chain;
	*chain = qp;
	shim_make(c, &qp->made, SHIM_QP, qp);
	((struct shim_pd *)v->pd)->users++;
	((struct shim_cq *)v->send_cq)->users++;
	((struct shim_cq *)v->recv_cq)->users++;
	if (v->srq)
		((struct shim_srq *)v->srq)->users++;
	return 0;
}

struct ibv_qp *shim_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
	struct shim_context *c = shim_context_of(context);
	struct shim_qp *qp = NULL;
	int rc = qp_check(c, a);

	if (!rc) {
		qp = calloc(1, sizeof(*qp));
		rc = qp ? 0 : -ENOMEM;
	}
	if (rc)
		goto out;
	qp->ibv = (struct ibv_qp){.context = context,
				  .qp_context = a->qp_context,
				  .pd = a->pd,
				  .send_cq = a->send_cq,
				  .recv_cq = a->recv_cq,
				  .srq = a->srq,
				  .qp_type = a->qp_type};
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	pthread_mutex_init(&qp->build.busy, NULL);
	qp->async = (struct shim_source){.kind = SHIM_QP, .object = qp};
	qp->all_signaled = a->sq_sig_all;
	qp_caps(c, qp, a);
	rc = shim_ring_open(&qp->send, qp->cap.max_send_wr);
	if (!rc && !a->srq)
		rc = shim_ring_open(&qp->recv, qp->cap.max_recv_wr);
	if (!rc && a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		rc = shim_qp_extend(qp, a->send_ops_flags);
	if (!rc) {
		shim_lock();
		rc = qp_create(c, qp);
		shim_unlock();
	}
	if (!rc) {
		a->cap = qp->cap;
		return &qp->ibv;
	}
	shim_qp_free(qp);
out:
	errno = rc == -EDQUOT || rc == -ENOSPC ? ENOMEM : -rc;
	return NULL;
}

void shim_qp_free(struct shim_qp *qp)
{
	pthread_mutex_destroy(&qp->ibv.mutex);
	pthread_cond_destroy(&qp->ibv.cond);
	pthread_mutex_destroy(&qp->build.busy);
	free(qp->send.slot);
	free(qp->recv.slot);
	free(qp->build.wr);
	free(qp->build.sge);
	free(qp->build.inlined);
	free(qp);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_init_attr_ex x = {.qp_context = a->qp_context,
					.send_cq = a->send_cq,
					.recv_cq = a->recv_cq,
					.srq = a->srq,
					.cap = a->cap,
					.qp_type = a->qp_type,
					.sq_sig_all = a->sq_sig_all,
					.comp_mask = IBV_QP_INIT_ATTR_PD,
					.pd = pd};
	struct ibv_qp *qp = shim_create_qp_ex(pd->context, &x);

	if (qp)
		a->cap = x.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return ((struct shim_qp *)qp)->extended ? &((struct shim_qp *)qp)->ex : NULL;
}

/* ---- states ---- */
static int qp_route(const struct ibv_ah_attr *av, struct sp_rdma_qp_attr *to)
{
	int rc = av->port_num != 1 ? -EINVAL : shim_gid_of(av, to->ip);

	if (rc)
		return rc;
	to->traffic_class = av->grh.traffic_class;
	to->hop_limit = av->grh.hop_limit;
	if (av->grh.flow_label)
		to->udp_source = ibv_flow_label_to_udp_sport(av->grh.flow_label);
	return 0;
}

static int qp_attr(const struct shim_qp *qp, const struct ibv_qp_attr *a, int mask, struct sp_rdma_qp_attr *to)
{
	const int same = IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
			 IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			 IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
			 IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN | IBV_QP_RATE_LIMIT;

	if (mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP))
		return -EOPNOTSUPP;
	if (mask & ~(same | IBV_QP_CUR_STATE) || (mask & IBV_QP_PORT && a->port_num != 1) ||
	    (mask & IBV_QP_PKEY_INDEX && a->pkey_index) ||
	    (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096)) ||
	    (mask & IBV_QP_CUR_STATE && a->cur_qp_state != qp->ibv.state) ||
	    (mask & IBV_QP_STATE && (unsigned)a->qp_state > IBV_QPS_ERR))
		return -EINVAL;
	*to = (struct sp_rdma_qp_attr){.mask = (uint32_t)(mask & same),
				       .state = a->qp_state,
				       .access = a->qp_access_flags & 15,
				       .qkey = a->qkey,
				       .dest_qp = a->dest_qp_num,
				       .rq_psn = a->rq_psn & 0xFFFFFF,
				       .sq_psn = a->sq_psn & 0xFFFFFF,
				       .path_mtu = 128u << (a->path_mtu & 7),
				       .max_rd_atomic = a->max_rd_atomic,
				       .max_dest_rd_atomic = a->max_dest_rd_atomic,
				       .min_rnr_timer = a->min_rnr_timer,
				       .timeout = a->timeout,
				       .retry_cnt = a->retry_cnt,
				       .rnr_retry = a->rnr_retry,
				       .rate = a->rate_limit / 1000 + !!(a->rate_limit % 1000),
				       .sqd_notify = !!a->en_sqd_async_notify};
	return mask & IBV_QP_AV ? qp_route(&a->ah_attr, to) : 0;
}

static int qp_modify(struct shim_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct shim_context *c = shim_context_of(qp->ibv.context);
	struct sp_rdma_qp_attr to;
	int rc = c->ended ? -EIO : qp_attr(qp, a, mask, &to);

	if (!rc)
		rc = sp_rdma_qp_modify(qp->qp, &to);
	if (rc)
		return rc;
	if (mask & IBV_QP_AV)
		qp->route = a->ah_attr;
	if (mask & IBV_QP_STATE) {
		qp->ibv.state = a->qp_state;
		if (a->qp_state == IBV_QPS_RESET) { /* what was under way completes no more */
			shim_ring_reset(&qp->send);
			shim_ring_reset(&qp->recv);
		}
	}
	return 0;
}

struct modify {
	struct shim_qp *qp;
	const struct ibv_qp_attr *attr;
	int mask;
};

static int modify(void *arg)
{
	const struct modify *m = arg;

	return qp_modify(m->qp, m->attr, m->mask);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct modify m = {(struct shim_qp *)qp, attr, mask};

	return shim_errno(shim_until(modify, &m));
}

int ibv_query_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct shim_qp *qp = (struct shim_qp *)v;
	struct shim_context *c = shim_context_of(v->context);
	struct sp_rdma_qp_attr a;
	int rc;

	(void)mask; /* all is told */
	shim_lock();
	rc = c->ended ? -EIO : sp_rdma_qp_query(qp->qp, &a);
	if (!rc)
		v->state = (enum ibv_qp_state)a.state;
	shim_unlock();
	if (rc)
		return shim_errno(rc);
	*attr = (struct ibv_qp_attr){.qp_state = (enum ibv_qp_state)a.state,
				     .cur_qp_state = (enum ibv_qp_state)a.state,
				     .path_mig_state = IBV_MIG_MIGRATED,
				     .qkey = a.qkey,
				     .rq_psn = a.rq_psn,
				     .sq_psn = a.sq_psn,
				     .dest_qp_num = a.dest_qp,
				     .qp_access_flags = a.access,
				     .cap = qp->cap,
				     .ah_attr = qp->route,
				     .sq_draining = a.draining,
				     .max_rd_atomic = a.max_rd_atomic,
				     .max_dest_rd_atomic = a.max_dest_rd_atomic,
				     .min_rnr_timer = a.min_rnr_timer,
				     .port_num = 1,
				     .timeout = a.timeout,
				     .retry_cnt = a.retry_cnt,
				     .rnr_retry = a.rnr_retry,
				     .rate_limit = a.rate * 1000};
	if (a.path_mtu >= 256)
		attr->path_mtu = (enum ibv_mtu)(__builtin_ctz(a.path_mtu) - 7);
	*init = (struct ibv_qp_init_attr){.qp_context = v->qp_context,
					  .send_cq = v->send_cq,
					  .recv_cq = v->recv_cq,
					  .srq = v->srq,
					  .cap = qp->cap,
					  .qp_type = v->qp_type,
					  .sq_sig_all = qp->all_signaled};
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	return ece->vendor_id ? shim_errno(-EOPNOTSUPP) : 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){.vendor_id = 0};
	return shim_errno(-EOPNOTSUPP);
}

/* ---- the end ---- */
static int qp_destroy(void *arg)
{
	struct shim_qp *qp = arg, **at;
	struct ibv_qp *v = &qp->ibv;
	struct shim_context *c = shim_context_of(v->context);
	struct shim_cq *const cq[2] = {(struct shim_cq *)v->send_cq, (struct shim_cq *)v->recv_cq};
	int rc = c->rdma ? sp_rdma_qp_destroy(qp->qp) : 0;

	if (rc && !c->ended)
		return rc;
	for (at = chain_of(c, v->qp_num); *at && *at != qp; at = &(*at)->next)
		;
	if (*at)
		*at = qp->next;
	if (c->rdma) {
		shim_ring_reset(&qp->send);
		shim_ring_reset(&qp->recv);
	}
	for (int i = 0; i < 2; i++) {
		cq[i]->users--;
		if (cq[i]->last == qp)
			cq[i]->last = NULL;
	}
	if (v->srq)
		((struct shim_srq *)v->srq)->users--;
	((struct shim_pd *)v->pd)->users--;
	shim_untell(&c->async, &qp->async);
	shim_unmake(&qp->made);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *v)
{
	struct shim_qp *qp = (struct shim_qp *)v;
	int rc = shim_until(qp_destroy, qp);

	if (rc)
		return shim_errno(rc);
	shim_acked(&v->mutex, &v->cond, &v->events_completed, qp->events);
	shim_qp_free(qp);
	return 0;
}
