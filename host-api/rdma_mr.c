/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: protection domains, memory regions, address handles. */
#include "rdma_private.h"

#include <stdlib.h>
#include <string.h>

int sp_rdma_pd_alloc(struct sp_rdma *r, struct sp_rdma_pd **pd)
{
	struct sp_rdma_id id;
	struct sp_rdma_pd *p;
	int rc;

	if (!r || !pd)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	rc = verbs_control(r, SP_RDMA_PD_CREATE, 0, NULL, 0, &id, sizeof(id));
	if (rc) {
		free(p);
		return rc;
	}
	*p = (struct sp_rdma_pd){.rdma = r, .id = id.id, .next = r->pds, .back = &r->pds};
	if (p->next)
		p->next->back = &p->next;
	r->pds = p;
	*pd = p;
	return 0;
}

struct sp_rdma *sp_rdma_of(const struct sp_rdma_pd *pd)
{
	return pd->rdma;
}

struct sp_dev *sp_rdma_dev(const struct sp_rdma *rdma)
{
	return rdma->dev;
}

int sp_rdma_pd_dealloc(struct sp_rdma_pd *pd)
{
	const struct sp_rdma_id id = {pd ? pd->id : 0};
	int rc;

	if (!pd)
		return 0;
	if (pd->mrs || pd->mws || pd->targets)
		return -EBUSY;
	rc = verbs_control(pd->rdma, SP_RDMA_PD_DESTROY, 0, &id, sizeof(id), NULL, 0);
	if (rc)
		return rc;
	*pd->back = pd->next;
	if (pd->next)
		pd->next->back = pd->back;
	free(pd);
	return 0;
}

int sp_rdma_mr_reg(struct sp_rdma_pd *pd, struct sp_mr *mr, uint64_t offset, uint64_t len, unsigned access,
		   struct sp_rdma_mr **out)
{
	const struct sp_rdma_range range = {mr, offset, len};

	if (!mr)
		return -EINVAL;
	return sp_rdma_mr_reg_ranges(pd, (uintptr_t)mr->addr + offset, &range, 1, access, out);
}

int sp_rdma_mr_reg_ranges(struct sp_rdma_pd *pd, uint64_t va, const struct sp_rdma_range *ranges, unsigned count,
			  unsigned access, struct sp_rdma_mr **out)
{
	const unsigned rights = SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ |
				SP_RDMA_REMOTE_ATOMIC | SP_RDMA_MW_BIND;
	struct {
		struct sp_rdma_mr_reg head;
		struct sp_rdma_segment segment[SP_RDMA_SEGMENTS];
	} ask = {.head = {.va = va, .access = access, .segments = count}};
	struct sp_rdma_keys keys;
	struct verbs_mr *m;
	bool fetched = false;
	int rc;

	if (!pd || !ranges || !count || !out || access & ~rights)
		return -EINVAL;
	if (count > pd->rdma->limits.segments)
		return -E2BIG;
	if (access & (SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_ATOMIC) && !(access & SP_RDMA_LOCAL_WRITE))
		return -EACCES;
	for (unsigned i = 0; i < count; i++) {
		if (!ranges[i].mr && !pd->rdma->serve)
			return -EOPNOTSUPP;
		rc = !ranges[i].mr ? ranges[i].offset ? -EINVAL : 0
				   : sp_mr_check(pd->rdma->dev, ranges[i].mr, ranges[i].offset, ranges[i].len);
		if (rc)
			return rc;
		fetched |= !ranges[i].mr;
		if (!ranges[i].len || ask.head.len + ranges[i].len < ranges[i].len)
			return -EINVAL;
		ask.segment[i] = (struct sp_rdma_segment){.len = ranges[i].len,
							  .offset = ranges[i].offset,
							  .mem = ranges[i].mr ? ranges[i].mr->id : SP_RDMA_FETCHED};
		ask.head.len += ranges[i].len;
	}
	if (va + ask.head.len < va)
		return -EINVAL;
	ask.head.pd = pd->id;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	rc = verbs_control(pd->rdma, SP_RDMA_MR_REG, 0, &ask, sizeof(ask.head) + count * sizeof(ask.segment[0]), &keys,
			   sizeof(keys));
	if (rc) {
		free(m);
		return rc;
	}
	m->mr = (struct sp_rdma_mr){pd, va, ask.head.len, keys.lkey, keys.rkey};
	m->fetched = fetched;
	m->own = (uint8_t *)(uintptr_t)va;
	m->next = pd->mrs;
	m->back = &pd->mrs;
	if (m->next)
		m->next->back = &m->next;
	pd->mrs = m;
	*out = &m->mr;
	return 0;
}

void sp_rdma_mr_lies_at(struct sp_rdma_mr *mr, void *addr)
{
	((struct verbs_mr *)mr)->own = addr;
}

int sp_rdma_mr_dereg(struct sp_rdma_mr *mr)
{
	struct verbs_mr *m = (struct verbs_mr *)mr;
	const struct sp_rdma_id id = {mr ? mr->lkey : 0};
	int rc;

	if (!mr)
		return 0;
	rc = verbs_control(mr->pd->rdma, SP_RDMA_MR_DEREG, 0, &id, sizeof(id), NULL, 0);
	if (rc)
		return rc;
	*m->back = m->next;
	if (m->next)
		m->next->back = m->back;
	free(m);
	return 0;
}

int sp_rdma_mw_alloc(struct sp_rdma_pd *pd, enum sp_rdma_mw_type type, struct sp_rdma_mw **mw)
{
	struct sp_rdma_keys keys;
	struct verbs_mw *w;
	int rc;

	if (!pd || !mw)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	rc = verbs_control(pd->rdma, SP_RDMA_MW_ALLOC, 0, &(struct sp_rdma_mw_alloc){pd->id, (uint32_t)type},
			   sizeof(struct sp_rdma_mw_alloc), &keys, sizeof(keys));
	if (rc) {
		free(w);
		return rc;
	}
	*w = (struct verbs_mw){{pd, keys.rkey}, pd->mws, &pd->mws};
	if (w->next)
		w->next->back = &w->next;
	pd->mws = w;
	*mw = &w->mw;
	return 0;
}

int sp_rdma_mw_dealloc(struct sp_rdma_mw *mw)
{
	struct verbs_mw *w = (struct verbs_mw *)mw;
	const struct sp_rdma_id id = {mw ? mw->rkey : 0};
	int rc;

	if (!mw)
		return 0;
	rc = verbs_control(mw->pd->rdma, SP_RDMA_MW_DEALLOC, 0, &id, sizeof(id), NULL, 0);
	if (rc)
		return rc;
	*w->back = w->next;
	if (w->next)
		w->next->back = w->back;
	free(w);
	return 0;
}

int sp_rdma_ah_create(struct sp_rdma_pd *pd, const struct sp_rdma_ah *ah, struct sp_rdma_target **target)
{
	struct sp_rdma_target *t;
	struct sp_rdma_ah ask;
	struct sp_rdma_id id;
	int rc;

	if (!pd || !ah || !target)
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	ask = *ah;
	ask.pd = pd->id;
	rc = verbs_control(pd->rdma, SP_RDMA_AH_CREATE, 0, &ask, sizeof(ask), &id, sizeof(id));
	if (rc) {
		free(t);
		return rc;
	}
	*t = (struct sp_rdma_target){pd, id.id, pd->targets, &pd->targets};
	if (t->next)
		t->next->back = &t->next;
	pd->targets = t;
	*target = t;
	return 0;
}

int sp_rdma_ah_destroy(struct sp_rdma_target *t)
{
	const struct sp_rdma_id id = {t ? t->id : 0};
	int rc;

	if (!t)
		return 0;
	rc = verbs_control(t->pd->rdma, SP_RDMA_AH_DESTROY, 0, &id, sizeof(id), NULL, 0);
	if (rc)
		return rc;
	*t->back = t->next;
	if (t->next)
		t->next->back = t->back;
	free(t);
	return 0;
}
