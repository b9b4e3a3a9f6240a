/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, address handles, completion queues; and what is left of a context when it is closed. */
#include "shim.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

void shim_make(struct shim_context *c, struct shim_made *m, enum shim_kind kind, void *object)
{
	*m = (struct shim_made){.next = c->made, .back = &c->made, .kind = kind, .object = object};
	if (m->next)
		m->next->back = &m->next;
	c->made = m;
}

void shim_unmake(struct shim_made *m)
{
	*m->back = m->next;
	if (m->next)
		m->next->back = m->back;
}

/* ---- a context that ends with objects ---- */
static int close_region(void *arg)
{
	return shim_region_drop(arg);
}

static int close_rdma(void *arg)
{
	struct shim_context *c = arg;
	int rc = c->rdma ? sp_rdma_close(c->rdma) : 0;

	return rc == -EBUSY ? -EAGAIN : rc;
}

static void free_object(struct shim_context *c, struct shim_made *m)
{
	struct shim_qp *qp = m->object;
	struct shim_srq *srq = m->object;

	switch (m->kind) {
	case SHIM_QP:
		if (c->rdma) {
			shim_ring_reset(&qp->send);
			shim_ring_reset(&qp->recv);
		}
		shim_qp_free(qp);
		break;
	case SHIM_SRQ:
		shim_srq_free(srq);
		break;
	case SHIM_PD:
		if (c->rdma)
			shim_bounce_forget(shim_nic.bounce, ((struct shim_pd *)m->object)->pd);
		free(m->object);
		break;
	case SHIM_MR: /* packets of it were in flight until now */
		if (c->rdma)
			shim_memory_forget(m->object);
		free(m->object);
		break;
	case SHIM_CHANNEL:
		shim_queue_close(&((struct shim_channel *)m->object)->queue);
		free(m->object);
		break;
	case SHIM_CQ:
		shim_cq_free(m->object);
		break;
	default:
		free(m->object);
		break;
	}
}

void shim_free_all(struct shim_context *c)
{
	struct shim_made *m, *next;

	for (m = c->made; m && c->rdma; m = next) { /* regions stay while windows are bound to them */
		next = m->next;
		if (m->kind == SHIM_MW)
			shim_dealloc_mw(m->object);
	}
	for (m = c->made; m; m = next) { /* the program's memory becomes its own again */
		next = m->next;
		if (m->kind == SHIM_MR && c->rdma)
			shim_until(close_region, m->object);
	}
	shim_until(close_rdma, c);
	shim_lock();
	while (c->made) {
		m = c->made;
		c->made = m->next;
		free_object(c, m);
	}
	shim_unlock();
}

/* ---- protection domains ---- */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct shim_context *c = shim_context_of(context);
	struct shim_pd *pd = calloc(1, sizeof(*pd));
	static uint32_t handle;
	int rc = -ENOMEM;

	if (pd) {
		pd->ibv.context = context;
		shim_lock();
		pd->ibv.handle = ++handle;
		rc = c->ended ? -EIO : sp_rdma_pd_alloc(c->rdma, &pd->pd);
		if (!rc)
			shim_make(c, &pd->made, SHIM_PD, pd);
		shim_unlock();
	}
	if (!rc)
		return &pd->ibv;
	free(pd);
	errno = -rc;
	return NULL;
}

static int pd_dealloc(void *arg)
{
	struct shim_pd *pd = arg;
	struct shim_context *c = shim_context_of(pd->ibv.context);
	int rc = 0;

	if (pd->users)
		return -EBUSY;
	if (c->rdma)
		rc = shim_bounce_leave(shim_nic.bounce, pd->pd);
	if (!rc && c->rdma)
		rc = sp_rdma_pd_dealloc(pd->pd);
	if (rc && !c->ended)
		return rc;
	shim_unmake(&pd->made);
	return 0;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int rc = shim_until(pd_dealloc, pd);

	if (rc)
		return shim_errno(rc);
	free(pd);
	return 0;
}

/* ---- address handles ---- */
/* The peer's address. RoCE has no other way to say it than a GID. */
int shim_gid_of(const struct ibv_ah_attr *attr, uint8_t ip[16])
{
	static const uint8_t none[16];

	if (!attr->is_global || attr->grh.sgid_index >= SHIM_GIDS || !memcmp(attr->grh.dgid.raw, none, sizeof(none)))
		return -EINVAL;
	memcpy(ip, attr->grh.dgid.raw, 16);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv_pd, struct ibv_ah_attr *attr)
{
	struct shim_pd *pd = (struct shim_pd *)ibv_pd;
	struct shim_context *c = shim_context_of(ibv_pd->context);
	struct sp_rdma_ah ask = {.traffic_class = attr->grh.traffic_class, .hop_limit = attr->grh.hop_limit};
	struct shim_ah *ah;
	int rc = attr->port_num != 1 ? -EINVAL : shim_gid_of(attr, ask.ip);

	if (rc) {
		errno = -rc;
		return NULL;
	}
	if (attr->grh.flow_label)
		ask.udp_source = ibv_flow_label_to_udp_sport(attr->grh.flow_label);
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->ibv = (struct ibv_ah){.context = ibv_pd->context, .pd = ibv_pd};
	shim_lock();
	rc = c->ended ? -EIO : sp_rdma_ah_create(pd->pd, &ask, &ah->target);
	if (!rc) {
		shim_make(c, &ah->made, SHIM_AH, ah);
		pd->users++;
	}
	shim_unlock();
	if (!rc)
		return &ah->ibv;
	free(ah);
	errno = -rc;
	return NULL;
}

static int ah_destroy(void *arg)
{
	struct shim_ah *ah = arg;
	struct shim_context *c = shim_context_of(ah->ibv.context);
	int rc = c->rdma ? sp_rdma_ah_destroy(ah->target) : 0;

	if (rc && !c->ended)
		return rc;
	shim_unmake(&ah->made);
	((struct shim_pd *)ah->ibv.pd)->users--;
	return 0;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	int rc = shim_until(ah_destroy, ah);

	if (rc)
		return shim_errno(rc);
	free(ah);
	return 0;
}

/* In front of a datagram is an IPv6 header, or in its last 20 bytes an IPv4 header. */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	const uint8_t *four = (const uint8_t *)grh + 20;
	union ibv_gid own = grh->dgid;

	(void)context;
	memset(attr, 0, sizeof(*attr));
	if (!(wc->wc_flags & IBV_WC_GRH))
		return EINVAL;
	attr->is_global = 1;
	attr->port_num = port;
	attr->sl = wc->sl;
	attr->grh.hop_limit = 0xFF;
	if ((ntohl(grh->version_tclass_flow) >> 28) == 6) {
		attr->grh.dgid = grh->sgid;
		attr->grh.traffic_class = (uint8_t)(ntohl(grh->version_tclass_flow) >> 20);
		attr->grh.flow_label = ntohl(grh->version_tclass_flow) & 0xFFFFF;
	} else if (four[0] >> 4 == 4) {
		memset(&own, 0, sizeof(own));
		own.raw[10] = own.raw[11] = 0xFF;
		attr->grh.dgid = own;
		memcpy(attr->grh.dgid.raw + 12, four + 12, 4);
		memcpy(own.raw + 12, four + 16, 4);
		attr->grh.traffic_class = four[1];
	} else {
		return EPROTONOSUPPORT;
	}
	for (uint8_t i = 0; i < SHIM_GIDS; i++)
		if (!memcmp(&shim_nic.gid[i], &own, sizeof(own)))
			attr->grh.sgid_index = i;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	int rc = ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);

	if (!rc)
		return ibv_create_ah(pd, &attr);
	errno = rc;
	return NULL;
}

/* ---- completion queues ---- */
static int cq_create(struct shim_context *c, struct shim_cq *q, const struct ibv_cq_init_attr_ex *a)
{
	uint32_t entries = 1;
	int rc;

	if (c->ended)
		return -EIO;
	if (!a->cqe || a->cqe > c->limits.cqes)
		return -EINVAL;
	while (entries < a->cqe)
		entries *= 2;
	rc = sp_rdma_cq_create(c->rdma, entries, a->channel != NULL, q, &q->cq);
	if (rc)
		return rc;
	q->ibv.cqe = (int)entries;
	if (a->channel)
		a->channel->refcnt++;
	shim_make(c, &q->made, SHIM_CQ, q);
	return 0;
}

struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a)
{
	struct shim_cq *q;
	int rc;

	if (a->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) ||
	    a->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) ||
	    (a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && a->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (a->comp_vector >= (uint32_t)context->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->ibv.context = context;
	q->ibv.channel = a->channel;
	q->ibv.cq_context = a->cq_context;
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	pthread_mutex_init(&q->reading, NULL);
	q->single = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && a->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	q->completion = q->async = (struct shim_source){.kind = SHIM_CQ, .object = q};
	shim_lock();
	rc = cq_create(shim_context_of(context), q, a);
	shim_unlock();
	if (rc) {
		shim_cq_free(q);
		errno = -rc;
		return NULL;
	}
	shim_cq_extend(q, a->wc_flags);
	return &q->ex;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			     int comp_vector)
{
	struct ibv_cq_init_attr_ex a = {.cqe = (uint32_t)cqe,
					.cq_context = cq_context,
					.channel = channel,
					.comp_vector = (uint32_t)comp_vector};

	if (cqe < 1 || comp_vector < 0) {
		errno = EINVAL;
		return NULL;
	}
	return (struct ibv_cq *)shim_create_cq_ex(context, &a);
}

int shim_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	struct shim_cq *q = (struct shim_cq *)cq;
	struct shim_context *c = shim_context_of(cq->context);
	int rc = 0;

	if (!cq->channel)
		return 0;
	shim_lock();
	rc = c->ended ? -EIO : sp_rdma_cq_arm(q->cq, solicited);
	shim_unlock();
	return -rc;
}

/* What is there already is enough, or it would have to move under QPs that are at work. */
int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (cqe < 1 || (uint32_t)cqe > shim_context_of(cq->context)->limits.cqes)
		return EINVAL;
	return cqe <= cq->cqe ? 0 : EOPNOTSUPP;
}

static int cq_destroy(void *arg)
{
	struct shim_cq *q = arg;
	struct shim_context *c = shim_context_of(q->ibv.context);
	struct shim_channel *h = (struct shim_channel *)q->ibv.channel;
	int rc = q->users ? -EBUSY : c->rdma ? sp_rdma_cq_destroy(q->cq) : 0;

	if (rc && (!c->ended || q->users))
		return rc;
	if (h) {
		shim_untell(&h->queue, &q->completion);
		h->ibv.refcnt--;
	}
	shim_untell(&c->async, &q->async);
	shim_unmake(&q->made);
	return 0;
}

void shim_cq_free(struct shim_cq *q)
{
	pthread_mutex_destroy(&q->ibv.mutex);
	pthread_cond_destroy(&q->ibv.cond);
	pthread_mutex_destroy(&q->reading);
	free(q);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct shim_cq *q = (struct shim_cq *)cq;
	int rc = shim_until(cq_destroy, q);

	if (rc)
		return shim_errno(rc);
	shim_acked(&cq->mutex, &cq->cond, &cq->comp_events_completed, q->completions);
	shim_acked(&cq->mutex, &cq->cond, &cq->async_events_completed, q->events);
	shim_cq_free(q);
	return 0;
}

/* ---- what this NIC has not ---- */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return shim_errno(-EOPNOTSUPP);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return shim_errno(-EOPNOTSUPP);
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	(void)context, (void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}

/* The NIC finds link-layer addresses by itself; a program that asks gets none. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid)
{
	(void)context, (void)attr, (void)mac, (void)vid;
	return shim_errno(-EOPNOTSUPP);
}
