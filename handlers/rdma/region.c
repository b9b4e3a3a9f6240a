/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, protection domains and memory regions. */
#include "region.h"
#include "key.h"
#include "rkey.h"

#define RDMA_RIGHTS                                                                                                    \
	(SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC | SP_RDMA_MW_BIND)

enum rdma_mr_state { RDMA_MR_FREE, RDMA_MR_LIVE, RDMA_MR_ENDING };

/* ---- protection domains ---- */
int rdma_pd_create(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);

	if (x->in_len || !rdma_out(x, sizeof(struct sp_rdma_id)))
		return -EINVAL;
	for (uint32_t i = 0; i < s->pds; i++)
		if (!s->pd[i].used) {
			s->pd[i].used = true;
			s->pd[i].users = 0;
			return rdma_answer_id(x, i + 1);
		}
	return -ENOSPC;
}

static struct rdma_pd *rdma_pd_of(struct rdma *s, uint32_t id)
{
	return id && id <= s->pds && s->pd[id - 1].used ? &s->pd[id - 1] : NULL;
}

int rdma_pd_destroy(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma_pd *pd = rdma_pd_of(rdma_of(c), rdma_id_of(x));

	if (!pd)
		return -ENOENT;
	if (__atomic_load_n(&pd->users, __ATOMIC_ACQUIRE))
		return -EBUSY;
	pd->used = false;
	return 0;
}

bool rdma_pd_get(struct sp_ctx *c, uint32_t id)
{
	struct rdma_pd *pd = rdma_pd_of(rdma_of(c), id);

	if (pd)
		__atomic_fetch_add(&pd->users, 1, __ATOMIC_RELAXED);
	return pd != NULL;
}

void rdma_pd_put(struct sp_ctx *c, uint32_t id)
{
	__atomic_fetch_sub(&rdma_of(c)->pd[id - 1].users, 1, __ATOMIC_RELEASE);
}

/* ---- memory regions ---- */
/* Slots are drawn at random, as the rest of the key is: all of it is hard to guess. NULL: none is free. */
static struct rdma_mr *rdma_mr_free_slot(struct sp_ctx *c, struct rdma *s)
{
	const uint32_t from = (uint32_t)sp_random(c) & s->key_mask;

	for (uint32_t i = 0; i <= s->key_mask; i++) {
		struct rdma_mr *m = &s->mr[(from + i) & s->key_mask];

		if (m->state == RDMA_MR_FREE)
			return m;
	}
	return NULL;
}

static void rdma_mr_give_back(struct sp_ctx *c, struct rdma *s, struct rdma_mr *m)
{
	for (uint32_t i = 0; i < m->segments; i++)
		if (m->segment[i].mem)
			sp_mem_put(c, m->segment[i].mem);
	m->segments = 0;
	if (!m->window && m->segment != m->own)
		s->block_free[s->blocks_free++] = (uint32_t)(m->segment - s->block) / SP_RDMA_SEGMENTS;
	__atomic_store_n(&m->window, 0, __ATOMIC_RELEASE);
	m->state = RDMA_MR_FREE;
}

/* A reference to each segment's memory, which must hold it. */
static int rdma_mr_segments(struct sp_ctx *c, struct rdma_mr *m, const struct sp_rdma_segment *from, uint32_t n)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct rdma_segment *to = &m->segment[i];

		const bool fetched = from[i].mem == SP_RDMA_FETCHED;

		if (fetched && !rdma_of(c)->agent)
			return -EOPNOTSUPP;
		if (!from[i].len || from[i].len > m->len - at)
			return -EINVAL;
		to->mem = fetched ? NULL : sp_mem_get(c, from[i].mem);
		if (!fetched && !to->mem)
			return -ENOENT;
		m->fetched |= fetched;
		m->segments++; /* this reference is to be given back */
		if (!fetched && !sp_mem_holds(to->mem, from[i].offset, from[i].len))
			return -EFAULT;
		to->offset = from[i].offset;
		to->at = at;
		at += from[i].len;
	}
	return at == m->len ? 0 : -EINVAL;
}

static uint32_t rdma_mr_new_key(struct sp_ctx *c, const struct rdma *s, const struct rdma_mr *m)
{
	uint32_t key;

	do
		key = ((uint32_t)sp_random(c) & ~(s->key_mask << 8)) | (uint32_t)(m - s->mr) << 8;
	while (!key || key == m->ended); /* the slot's latest key is not drawn at once again */
	return key;
}

static int rdma_mr_check(const struct sp_control *x, struct sp_rdma_mr_reg *r)
{
	if (x->in_len < sizeof(*r))
		return -EINVAL;
	memcpy(r, x->in, sizeof(*r));
	if (!r->segments || r->segments > SP_RDMA_SEGMENTS ||
	    x->in_len != sizeof(*r) + r->segments * sizeof(struct sp_rdma_segment) ||
	    !rdma_out(x, sizeof(struct sp_rdma_keys)))
		return -EINVAL;
	if (!r->len || r->va + r->len < r->va || r->access & ~(uint32_t)RDMA_RIGHTS)
		return -EINVAL;
	/* Who lets others write lets the owner write: as in verbs.h. */
	if (r->access & (SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_ATOMIC) && !(r->access & SP_RDMA_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

int rdma_mr_register(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	struct sp_rdma_segment from[SP_RDMA_SEGMENTS];
	struct sp_rdma_mr_reg r;
	struct sp_rdma_keys keys;
	struct rdma_mr *m;
	int rc = rdma_mr_check(x, &r);

	if (rc)
		return rc;
	memcpy(from, (const uint8_t *)x->in + sizeof(r), r.segments * sizeof(*from));
	m = rdma_mr_free_slot(c, s);
	if (!m || (r.segments > RDMA_INLINE_SEGMENTS && !s->blocks_free))
		return -ENOSPC;
	if (!rdma_pd_get(c, r.pd))
		return -ENOENT;
	m->segment = m->own;
	if (r.segments > RDMA_INLINE_SEGMENTS)
		m->segment = &s->block[s->block_free[--s->blocks_free] * SP_RDMA_SEGMENTS];
	m->va = r.va;
	m->len = r.len;
	m->pd = r.pd;
	m->access = (uint8_t)r.access;
	m->invalidated = m->fetched = false;
	m->windows = 0;
	rc = rdma_mr_segments(c, m, from, r.segments);
	if (rc) {
		rdma_mr_give_back(c, s, m);
		rdma_pd_put(c, r.pd);
		return rc;
	}
	m->state = RDMA_MR_LIVE;
	keys.lkey = keys.rkey = rdma_mr_new_key(c, s, m);
	__atomic_store_n(&m->key, keys.lkey, __ATOMIC_RELEASE);
	memcpy(x->out, &keys, sizeof(keys));
	x->out_len = sizeof(keys);
	return 0;
}

/* Its key has gone; -EAGAIN while somebody may still be using it. */
static int rdma_mr_end(struct sp_ctx *c, struct rdma_mr *m)
{
	if (m->state == RDMA_MR_LIVE) {
		m->grace = sp_grace_begin(c);
		m->state = RDMA_MR_ENDING;
	}
	if (!sp_grace_over(c, m->grace) || __atomic_load_n(&m->uses, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	return 0;
}

int rdma_mr_deregister(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const uint32_t key = rdma_id_of(x);
	struct rdma_mr *m = rdma_key_slot(s, key);
	int rc;

	if (!key || m->window || (m->state != RDMA_MR_LIVE && m->state != RDMA_MR_ENDING) ||
	    (m->state == RDMA_MR_LIVE ? m->key : m->ended) != key)
		return -ENOENT;
	if (m->state == RDMA_MR_LIVE) {
		if (__atomic_load_n(&m->windows, __ATOMIC_ACQUIRE))
			return -EBUSY;
		m->ended = key;
		__atomic_store_n(&m->key, 0, __ATOMIC_RELEASE);
	}
	rc = rdma_mr_end(c, m);
	if (rc)
		return rc;
	if (__atomic_load_n(&m->windows, __ATOMIC_ACQUIRE)) { /* bound while the key was going */
		m->state = RDMA_MR_LIVE;
		__atomic_store_n(&m->key, key, __ATOMIC_RELEASE);
		return -EBUSY;
	}
	rdma_mr_give_back(c, s, m);
	rdma_pd_put(c, m->pd);
	return 0;
}

/* ---- memory windows ---- */
int rdma_mw_allocate(struct sp_ctx *c, struct sp_control *x)
{
	const struct sp_rdma_mw_alloc *in = rdma_in(x, sizeof(*in));
	struct rdma *s = rdma_of(c);
	struct sp_rdma_mw_alloc r;
	struct sp_rdma_keys keys = {0, 0};
	struct rdma_mr *m;

	if (!in || !rdma_out(x, sizeof(keys)))
		return -EINVAL;
	memcpy(&r, in, sizeof(r));
	if (r.type != SP_RDMA_MW_1 && r.type != SP_RDMA_MW_2)
		return -EINVAL;
	m = rdma_mr_free_slot(c, s);
	if (!m)
		return -ENOSPC;
	if (!rdma_pd_get(c, r.pd))
		return -ENOENT;
	keys.rkey = rdma_mr_new_key(c, s, m);
	m->pd = r.pd;
	m->ended = keys.rkey;
	m->region = NULL;
	m->busy = false;
	m->state = RDMA_MR_LIVE;
	__atomic_store_n(&m->window, (uint8_t)r.type, __ATOMIC_RELEASE);
	memcpy(x->out, &keys, sizeof(keys));
	x->out_len = sizeof(keys);
	return 0;
}

int rdma_mw_deallocate(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma *s = rdma_of(c);
	const uint32_t key = rdma_id_of(x);
	struct rdma_mr *m = rdma_key_slot(s, key);
	int rc;

	if (!key || !m->window || m->state == RDMA_MR_FREE || m->ended != key)
		return -ENOENT;
	if (m->state == RDMA_MR_LIVE && rdma_window_close(m))
		return -EAGAIN;
	rc = rdma_mr_end(c, m);
	if (rc)
		return rc;
	rdma_mr_give_back(c, s, m);
	rdma_pd_put(c, m->pd);
	return 0;
}

int rdma_regions_attach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);

	s->pd = sp_alloc(c, s->pds * sizeof(*s->pd));
	s->mr = sp_alloc(c, s->mrs * sizeof(*s->mr));
	s->block = sp_alloc(c, (size_t)s->blocks * SP_RDMA_SEGMENTS * sizeof(*s->block));
	s->block_free = sp_alloc(c, s->blocks * sizeof(*s->block_free));
	if (!s->pd)
		return sp_fail(c, ENOMEM, "pds", "no memory for %u protection domains", s->pds);
	if (!s->mr || !s->block || !s->block_free)
		return sp_fail(c, ENOMEM, "mrs", "no memory for %u memory regions", s->mrs);
	while (s->blocks_free < s->blocks) {
		s->block_free[s->blocks_free] = s->blocks_free;
		s->blocks_free++;
	}
	return 0;
}

void rdma_regions_detach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);

	for (uint32_t i = 0; s->mr && i < s->mrs; i++)
		if (s->mr[i].state != RDMA_MR_FREE)
			rdma_mr_give_back(c, s, &s->mr[i]);
}
