/* SPDX-License-Identifier: BSD-3-Clause */
/* Control calls of the QP table; the lookup is in match.h. */
#include <errno.h>
#include <stdlib.h>

#include "match.h"

#define QP_FIRST 2u	   /* 0 and 1 are reserved for management (IBTA volume 1, 3.2.2) */
#define QP_LAST	 0xFFFFFEu /* 0xFFFFFF is multicast */

int sp_qp_table_create(struct sp_qp_table **table)
{
	struct sp_qp_table *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->any_next = SP_QP_ANY_FIRST;
	t->control_next = SP_QP_CONTROL_FIRST;
	*table = t;
	return 0;
}

void sp_qp_table_destroy(struct sp_qp_table *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < SP_QP_PAGES; i++)
		free(atomic_load_explicit(&t->page[i], memory_order_relaxed));
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
	atomic_store_explicit(&t->page[index], page, memory_order_release);
	return 0;
}

static void publish(struct sp_qp_table *t, uint32_t qpn, uint16_t index, struct sp_context *context)
{
	struct sp_qp *qp = &page_of(t, qpn)->qp[qpn & (SP_QP_PAGE_SLOTS - 1)];
	qp->index = index;
	qp->context = context;
	atomic_store_explicit(&qp->qpn, qpn, memory_order_release);
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
	/* Allocate before publishing, so that no error needs an undo. Unused pages are harmless. */
	uint32_t last = (first + count - 1) >> SP_QP_PAGE_BITS;
	for (uint32_t p = first >> SP_QP_PAGE_BITS; p <= last; p++)
		if (page_make(t, p))
			return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		publish(t, first + i, (uint16_t)(index + i), context);
	return 0;
}

int sp_qp_table_row(struct sp_qp_table *t, uint32_t count, uint32_t *first)
{
	const uint32_t end = SP_QP_CONTROL_FIRST; /* higher numbers are reserved for control QPs */
	uint32_t at = t->any_next, free = 0;

	if (!count || count > end - SP_QP_ANY_FIRST)
		return -ENOSPC;
	/* One full round, plus a row that starts just before the start. */
	for (uint32_t i = 0; i < end - SP_QP_ANY_FIRST + count; i++, at++) {
		if (at == end) {
			at = SP_QP_ANY_FIRST;
			free = 0;
		}
		free = sp_qp_table_find(t, at) ? 0 : free + 1;
		if (free < count)
			continue;
		*first = at - count + 1;
		t->any_next = at + 1 == end ? SP_QP_ANY_FIRST : at + 1;
		return 0;
	}
	return -ENOSPC;
}

int sp_qp_table_next(struct sp_qp_table *t, uint32_t avoid, uint32_t count, uint32_t *qpn)
{
	const uint32_t room = QP_LAST - SP_QP_CONTROL_FIRST + 1;
	uint32_t at = t->control_next;

	for (uint32_t i = 0; i < room; i++, at = at == QP_LAST ? SP_QP_CONTROL_FIRST : at + 1) {
		if (sp_qp_table_find(t, at) || at - avoid < count)
			continue;
		t->control_next = at == QP_LAST ? SP_QP_CONTROL_FIRST : at + 1;
		*qpn = at;
		return 0;
	}
	return -ENOSPC;
}

void sp_qp_table_give(struct sp_qp_table *t, const struct sp_context *from, struct sp_context *to)
{
	for (uint32_t p = 0; p < SP_QP_PAGES && t->claimed; p++) {
		struct sp_qp_page *page = atomic_load_explicit(&t->page[p], memory_order_relaxed);

		for (uint32_t i = 0; page && i < SP_QP_PAGE_SLOTS; i++)
			if (page->qp[i].context == from)
				__atomic_store_n(&page->qp[i].context, to, __ATOMIC_RELEASE);
	}
}

void sp_qp_table_release(struct sp_qp_table *t, struct sp_context *context)
{
	for (uint32_t p = 0; p < SP_QP_PAGES && t->claimed; p++) {
		struct sp_qp_page *page = atomic_load_explicit(&t->page[p], memory_order_relaxed);
		if (!page)
			continue;
		for (uint32_t i = 0; i < SP_QP_PAGE_SLOTS; i++) {
			struct sp_qp *qp = &page->qp[i];
			if (qp->context != context || !atomic_load_explicit(&qp->qpn, memory_order_relaxed))
				continue;
			/* keep index and context: a worker may still hold this slot */
			atomic_store_explicit(&qp->qpn, 0, memory_order_release);
			t->claimed--;
		}
	}
}
