/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include "shim.h"

#include <stdlib.h>

static int srq_place(struct shim_context *c, struct shim_srq *s)
{
	for (uint32_t i = 0; i < c->srqs; i++)
		if (!c->srq[i]) {
			s->index = i;
			c->srq[i] = s;
			return 0;
		}
	return -ENOMEM;
}

static int srq_create(struct shim_context *c, struct shim_srq *s)
{
	struct sp_rdma_srq_attr ask = {
		.entries = s->attr.max_wr, .sges = s->sges, .limit = s->attr.srq_limit, .user = s};
	struct shim_pd *pd = (struct shim_pd *)s->ibv.pd;
	int rc;

	if (c->ended)
		return -EIO;
	rc = srq_place(c, s);
	if (rc)
		return rc;
	rc = sp_rdma_srq_create(pd->pd, &ask, &s->srq);
	if (rc) {
		c->srq[s->index] = NULL;
		return rc;
	}
	shim_make(c, &s->made, SHIM_SRQ, s);
	pd->users++;
	return 0;
}

static struct ibv_srq *srq_make(struct ibv_pd *pd, void *user, struct ibv_srq_attr *attr)
{
	struct shim_context *c = shim_context_of(pd->context);
	struct shim_srq *s;
	uint32_t room = 1;
	int rc;

	if (attr->max_wr > c->limits.wrs || attr->max_sge > c->limits.sges) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	while (room < attr->max_wr)
		room *= 2;
	s->ibv.context = pd->context;
	s->ibv.srq_context = user;
	s->ibv.pd = pd;
	pthread_mutex_init(&s->ibv.mutex, NULL);
	pthread_cond_init(&s->ibv.cond, NULL);
	s->attr = (struct ibv_srq_attr){room, attr->max_sge ? attr->max_sge : 1, attr->srq_limit};
	s->sges = shim_entry_sges(s->attr.max_sge, c->limits.sges);
	s->async = (struct shim_source){.kind = SHIM_SRQ, .object = s};
	s->slot = calloc(room, sizeof(*s->slot));
	s->free = calloc(room, sizeof(*s->free));
	rc = s->slot && s->free ? 0 : -ENOMEM;
	while (!rc && s->frees < room) {
		s->free[s->frees] = room - 1 - s->frees;
		s->frees++;
	}
	if (!rc) {
		shim_lock();
		rc = srq_create(c, s);
		shim_unlock();
	}
	if (rc) {
		shim_srq_free(s);
		errno = -rc;
		return NULL;
	}
	*attr = s->attr;
	return &s->ibv;
}

void shim_srq_free(struct shim_srq *s)
{
	if (s->slot && shim_context_of(s->ibv.context)->rdma)
		for (uint32_t i = 0; i < s->attr.max_wr; i++)
			shim_slot_empty(&s->slot[i]);
	pthread_mutex_destroy(&s->ibv.mutex);
	pthread_cond_destroy(&s->ibv.cond);
	free(s->slot);
	free(s->free);
	free(s);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return srq_make(pd, attr->srq_context, &attr->attr);
}

struct ibv_srq *shim_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	(void)context;
	if (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD) ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		errno = EINVAL;
		return NULL;
	}
	return srq_make(attr->pd, attr->srq_context, &attr->attr);
}

int shim_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	(void)srq, (void)number; /* numbers are for XRC */
	return EOPNOTSUPP;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct shim_srq *s = (struct shim_srq *)srq;
	struct shim_context *c = shim_context_of(srq->context);
	int rc;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return shim_errno(-EINVAL);
	if (mask & IBV_SRQ_MAX_WR)
		return shim_errno(-EOPNOTSUPP);
	if (!(mask & IBV_SRQ_LIMIT))
		return 0;
	if (attr->srq_limit > s->attr.max_wr)
		return shim_errno(-EINVAL);
	shim_lock();
	rc = c->ended ? -EIO : sp_rdma_srq_arm(s->srq, attr->srq_limit);
	if (!rc)
		s->attr.srq_limit = attr->srq_limit;
	shim_unlock();
	return shim_errno(rc);
}

/* A limit that was reached is over. */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct shim_srq *s = (struct shim_srq *)srq;

	shim_lock();
	*attr = s->attr;
	shim_unlock();
	return 0;
}

static int srq_destroy(void *arg)
{
	struct shim_srq *s = arg;
	struct shim_context *c = shim_context_of(s->ibv.context);
	int rc = s->users ? -EBUSY : c->rdma ? sp_rdma_srq_destroy(s->srq) : 0;

	if (rc && (!c->ended || s->users))
		return rc;
	c->srq[s->index] = NULL;
	shim_untell(&c->async, &s->async);
	shim_unmake(&s->made);
	((struct shim_pd *)s->ibv.pd)->users--;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct shim_srq *s = (struct shim_srq *)srq;
	int rc = shim_until(srq_destroy, s);

	if (rc)
		return shim_errno(rc);
	shim_acked(&srq->mutex, &srq->cond, &srq->events_completed, s->events);
	shim_lock();
	shim_srq_free(s);
	shim_unlock();
	return 0;
}
