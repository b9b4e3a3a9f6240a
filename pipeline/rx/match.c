/* SPDX-License-Identifier: BSD-3-Clause */
/* Control calls of the QP table; the lookup is in match.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "match.h"

#define QP_FIRST 1u	   /* 0 is reserved for management; 1 too, but for a service (IBTA volume 1, 3.2.2) */
#define QP_LAST	 0xFFFFFEu /* 0xFFFFFF is multicast */
#define DRAWS	 64u	   /* before a search */

int sp_qp_table_create(uint64_t seed, struct sp_qp_table **table)
{
	struct sp_qp_table *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	sp_generator_seed(&t->random, seed);
	*table = t;
	return 0;
}

static void free_pages(struct sp_qp_page *page)
{
	while (page) {
		struct sp_qp_page *next = page->next;

		free(page);
		page = next;
	}
}

void sp_qp_table_destroy(struct sp_qp_table *t)
{
	if (!t)
		return;
	free_pages(t->pages);
	free_pages(t->empty);
	explicit_bzero(&t->random, sizeof(t->random));
	free(t);
}

static struct sp_qp_page *page_of(struct sp_qp_table *t, uint32_t qpn)
{
	return atomic_load_explicit(&t->page[qpn >> SP_QP_PAGE_BITS], memory_order_relaxed);
}

static int page_make(struct sp_qp_table *t, uint32_t index)
{
	if (atomic_load_explicit(&t->page[index], memory_order_relaxed))
		return 0;
	struct sp_qp_page *page = calloc(1, sizeof(*page));
	if (!page)
		return -ENOMEM;
	page->index = index;
	page->next = t->pages;
	t->pages = page;
	atomic_store_explicit(&t->page[index], page, memory_order_release);
	return 0;
}

static void publish(struct sp_qp_table *t, uint32_t qpn, uint16_t index, struct sp_context *context)
{
	struct sp_qp_page *page = page_of(t, qpn);
	struct sp_qp *qp = &page->qp[qpn & (SP_QP_PAGE_SLOTS - 1)];
	qp->index = index;
	qp->context = context;
	atomic_store_explicit(&qp->qpn, qpn, memory_order_release);
	page->claimed++;
	t->claimed++;
}

int sp_qp_table_claim(struct sp_qp_table *t, uint32_t first, uint32_t count, uint16_t index, struct sp_context *context,
		      struct sp_context **other)
{
	if (first < QP_FIRST || first > QP_LAST || !count || count > QP_LAST - first + 1)
		return -EINVAL;
	if (!context || count > UINT16_MAX + 1u - index)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++) {
		const struct sp_qp *qp = sp_qp_table_find(t, first + i);
		if (!qp)
			continue;
		if (other)
			*other = qp->context;
		return -EADDRINUSE;
	}
	if (count > SP_MAX_QPS - t->claimed)
		return -ENOSPC;
	/* Allocate before publishing, so that no error needs an undo. An unused page is harmless: trim() frees it. */
	uint32_t last = (first + count - 1) >> SP_QP_PAGE_BITS;
	for (uint32_t p = first >> SP_QP_PAGE_BITS; p <= last; p++)
		if (page_make(t, p))
			return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		publish(t, first + i, (uint16_t)(index + i), context);
	return 0;
}

/* True: [first, first + count) is free, and outside [avoid, avoid + avoids). */
static bool is_free(const struct sp_qp_table *t, uint32_t first, uint32_t count, uint32_t avoid, uint32_t avoids)
{
	for (uint32_t i = 0; i < count; i++)
		if (sp_qp_table_find(t, first + i) || first + i - avoid < avoids)
			return false;
	return true;
}

/* Draws numbers from [from, end). Where many are taken, searches on from the last draw, around once. */
static int draw(struct sp_qp_table *t, uint32_t from, uint32_t end, uint32_t count, uint32_t avoid, uint32_t avoids,
		uint32_t *first)
{
	const uint32_t starts = end - from - count + 1;
	uint32_t at = from;

	for (unsigned i = 0; i < DRAWS; i++) {
		at = from + (uint32_t)sp_generator_below(&t->random, starts);
		if (!is_free(t, at, count, avoid, avoids))
			continue;
		*first = at;
		return 0;
	}
	for (uint32_t i = 0, free = 0; i < end - from + count - 1; i++, at++) {
		if (at == end) {
			at = from;
			free = 0;
		}
		free = is_free(t, at, 1, avoid, avoids) ? free + 1 : 0;
		if (free < count)
			continue;
		*first = at - count + 1;
		return 0;
	}
	return -ENOSPC;
}

int sp_qp_table_row(struct sp_qp_table *t, uint32_t count, uint32_t *first)
{
	if (!count || count > SP_QP_CONTROL_FIRST - SP_QP_ANY_FIRST)
		return -ENOSPC;
	return draw(t, SP_QP_ANY_FIRST, SP_QP_CONTROL_FIRST, count, 0, 0, first);
}

int sp_qp_table_next(struct sp_qp_table *t, uint32_t avoid, uint32_t count, uint32_t *qpn)
{
	return draw(t, SP_QP_CONTROL_FIRST, QP_LAST + 1, 1, avoid, count, qpn);
}

void sp_qp_table_give(struct sp_qp_table *t, const struct sp_context *from, struct sp_context *to)
{
	for (struct sp_qp_page *page = t->pages; page; page = page->next)
		for (uint32_t i = 0; i < SP_QP_PAGE_SLOTS; i++)
			if (page->qp[i].context == from)
				__atomic_store_n(&page->qp[i].context, to, __ATOMIC_RELEASE);
}

void sp_qp_table_release(struct sp_qp_table *t, struct sp_context *context)
{
	for (struct sp_qp_page **at = &t->pages, *page; (page = *at);) {
		for (uint32_t i = 0; i < SP_QP_PAGE_SLOTS; i++) {
			struct sp_qp *qp = &page->qp[i];
			if (qp->context != context || !atomic_load_explicit(&qp->qpn, memory_order_relaxed))
				continue;
			/* keep index and context: a worker may still hold this slot */
			atomic_store_explicit(&qp->qpn, 0, memory_order_release);
			page->claimed--;
			t->claimed--;
		}
		if (page->claimed) {
			at = &page->next;
			continue;
		}
		atomic_store_explicit(&t->page[page->index], NULL, memory_order_release);
		*at = page->next;
		page->next = t->empty;
		t->empty = page;
	}
}

void sp_qp_table_trim(struct sp_qp_table *t)
{
	free_pages(t->empty);
	t->empty = NULL;
}
