/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of queues: many lie in one region, since each region costs the NIC a descriptor. The first ones are small, as
 * many programs have few QPs, and a region is in memory at once. First fit. */
#include "rdma_private.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_LEAST (1ull << 16)
#define SLAB_BYTES (1ull << 20) /* each is twice as large as the one before, up to this */

struct slab_gap {
	struct slab_gap *next; /* in order of `at` */
	uint64_t at, len;
};

struct verbs_slab {
	struct verbs_slab *next;
	struct sp_mr *mr;
	struct slab_gap *gaps;
};

static void slab_free(struct verbs_slab *s)
{
	while (s->gaps) {
		struct slab_gap *g = s->gaps;

		s->gaps = g->next;
		free(g);
	}
	free(s);
}

static int slab_new(struct sp_rdma *r, uint64_t bytes)
{
	struct verbs_slab *s = calloc(1, sizeof(*s));
	uint64_t len = SLAB_LEAST;
	int rc = -ENOMEM;

	for (const struct verbs_slab *other = r->slabs; other && len < SLAB_BYTES; other = other->next)
		len *= 2;
	if (s)
		s->gaps = calloc(1, sizeof(*s->gaps));
	if (s && s->gaps) {
		s->gaps->len = bytes > len ? bytes : len;
		rc = sp_mr_alloc(r->dev, s->gaps->len, &s->mr);
	}
	if (rc) {
		if (s)
			slab_free(s);
		return rc;
	}
	s->next = r->slabs;
	r->slabs = s;
	return 0;
}

static bool slab_take(struct verbs_slab *s, uint64_t bytes, struct verbs_memory *m)
{
	for (struct slab_gap **at = &s->gaps; *at; at = &(*at)->next) {
		struct slab_gap *g = *at;

		if (g->len < bytes)
			continue;
		*m = (struct verbs_memory){s, (uint8_t *)s->mr->addr + g->at, g->at, bytes};
		g->at += bytes;
		g->len -= bytes;
		/* One gap stays, so that there is one to give memory back to. */
		if (!g->len && (g->next || at != &s->gaps)) {
			*at = g->next;
			free(g);
		}
		memset(m->addr, 0, bytes);
		return true;
	}
	return false;
}

int verbs_alloc(struct sp_rdma *r, uint64_t bytes, struct verbs_memory *m)
{
	int rc;

	bytes = (bytes + 63) / 64 * 64;
	for (struct verbs_slab *s = r->slabs; s; s = s->next)
		if (slab_take(s, bytes, m))
			return 0;
	rc = slab_new(r, bytes);
	return rc ? rc : slab_take(r->slabs, bytes, m) ? 0 : -ENOMEM;
}

void verbs_free(struct verbs_memory *m)
{
	struct slab_gap **at, *gap = NULL, *before = NULL;

	if (!m->slab)
		return;
	for (at = &m->slab->gaps; *at && (*at)->at < m->offset; at = &(*at)->next)
		before = *at;
	if (before && before->at + before->len == m->offset) {
		gap = before;
		gap->len += m->len;
	} else if (*at && m->offset + m->len == (*at)->at) {
		(*at)->at = m->offset;
		(*at)->len += m->len;
	} else {
		gap = calloc(1, sizeof(*gap)); /* without memory it is lost until the context is closed */
		if (gap) {
			*gap = (struct slab_gap){*at, m->offset, m->len};
			*at = gap;
		}
	}
	if (gap && gap->next && gap->at + gap->len == gap->next->at) {
		struct slab_gap *next = gap->next;

		gap->len += next->len;
		gap->next = next->next;
		free(next);
	}
	m->slab = NULL;
}

void verbs_slabs_free(struct sp_rdma *r)
{
	while (r->slabs) {
		struct verbs_slab *s = r->slabs;

		r->slabs = s->next;
		sp_mr_free(s->mr); /* if it is busy, sp_dev_close frees it */
		slab_free(s);
	}
}

uint32_t verbs_memory_id(const struct verbs_memory *m)
{
	return m->slab->mr->id;
}
