/* SPDX-License-Identifier: BSD-3-Clause */
/* The QP table: QP number to context. Other packets use rules, see rule.h. */
#ifndef PIPELINE_RX_MATCH_H
#define PIPELINE_RX_MATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../generator.h"
#include "../limits.h"

struct sp_context;

/* A claimed QP number. Control calls write index and context before qpn publishes them to workers. */
struct sp_qp {
	_Atomic uint32_t qpn;	    /* 0 = free slot */
	uint16_t index;		    /* value of struct sp_packet.qp_index */
	struct sp_context *context; /* sp_qp_table_give() may change it while workers read it */
};

/* Two levels, direct: qpn >> 8 selects a page of 256 slots. Faster than a hash table (two loads, no compare chain), for
 * 4 KiB per page with claimed numbers: small pages, as numbers that nobody can guess lie far apart. The caller
 * serialises control calls (all but find, which runs beside them on any thread). */
#define SP_QP_PAGE_BITS	 8
#define SP_QP_PAGE_SLOTS (1u << SP_QP_PAGE_BITS)
#define SP_QP_PAGES	 (1u << (24 - SP_QP_PAGE_BITS))
struct sp_qp_page {
	struct sp_qp qp[SP_QP_PAGE_SLOTS];
	struct sp_qp_page *next; /* [control] in the list of pages */
	uint32_t index, claimed; /* [control] */
};
struct sp_qp_table {
	struct sp_qp_page *_Atomic page[SP_QP_PAGES]; /* [shared] published with release */
	struct sp_qp_page *pages;		      /* [control] all of them; */
	struct sp_qp_page *empty;		      /* [control] ... no longer published, see sp_qp_table_trim() */
	uint32_t claimed;			      /* [control] */
	struct sp_generator random;		      /* [control] draws the numbers of row and next */
};

/* The numbers that row and next find follow from the seed, until sp_generator_secret() for `random`. */
int sp_qp_table_create(uint64_t seed, struct sp_qp_table **table);
void sp_qp_table_destroy(struct sp_qp_table *table);
/* Claims [first, first + count) for a context, with indexes from `index` on: -EINVAL (0, 0xFFFFFF, beyond 24 bits,
 * count 0, indexes beyond 16 bits), -EADDRINUSE (*other: the owner, if not NULL), -ENOSPC (SP_MAX_QPS), -ENOMEM. An
 * error claims nothing. A released number may be claimed again after every worker has polled once. */
int sp_qp_table_claim(struct sp_qp_table *table, uint32_t first, uint32_t count, uint16_t index,
		      struct sp_context *context, struct sp_context **other);
/* Draws consecutive free numbers from SP_QP_ANY_FIRST to SP_QP_CONTROL_FIRST - 1. -ENOSPC. */
int sp_qp_table_row(struct sp_qp_table *table, uint32_t count, uint32_t *first);
/* Draws a free number from SP_QP_CONTROL_FIRST on, outside [avoid, avoid + count), for a control QP. -ENOSPC. */
int sp_qp_table_next(struct sp_qp_table *table, uint32_t avoid, uint32_t count, uint32_t *qpn);
/* Moves all QPs of a context to another; a concurrent find returns either. */
void sp_qp_table_give(struct sp_qp_table *table, const struct sp_context *from, struct sp_context *to);
/* Unpublishes all of a context's QPs. Workers may still hold slots until each has polled once. */
void sp_qp_table_release(struct sp_qp_table *table, struct sp_context *context);
/* Frees pages that release() has emptied. Every worker has polled once since. */
void sp_qp_table_trim(struct sp_qp_table *table);
/* Any thread, lock-free. NULL: not claimed, or not a 24-bit number. */
static inline const struct sp_qp *sp_qp_table_find(const struct sp_qp_table *table, uint32_t qpn)
{
	if (__builtin_expect(qpn - 1 >= 0xFFFFFE, 0)) /* 0 would match a free slot */
		return NULL;
	const struct sp_qp_page *page =
		atomic_load_explicit(&table->page[qpn >> SP_QP_PAGE_BITS], memory_order_acquire);
	if (__builtin_expect(!page, 0))
		return NULL;
	const struct sp_qp *qp = &page->qp[qpn & (SP_QP_PAGE_SLOTS - 1)];
	return atomic_load_explicit(&qp->qpn, memory_order_acquire) == qpn ? qp : NULL;
}

#endif
