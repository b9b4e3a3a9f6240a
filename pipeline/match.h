/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of QP numbers: which context a RoCEv2 packet belongs to. Other packets go by rules, see rule.h. */
#ifndef PIPELINE_MATCH_H
#define PIPELINE_MATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

struct sp_context;

/* One claimed QP number. index and context are written by control calls before qpn publishes them; read by workers. */
struct sp_qp {
	_Atomic uint32_t qpn;	    /* 0 = free slot */
	uint16_t index;		    /* what struct sp_packet.qp_index gets */
	struct sp_context *context; /* sp_qp_table_give() changes it under workers' eyes */
};

/*
 * Two levels, direct: qpn >> 12 selects a page of 4096 slots, made when first used and kept until the table goes.
 * A hash table was turned down: two loads without a compare chain beat it, and 64 KiB a used page is cheap.
 * Control calls (create, destroy, claim, release) are serialised by the caller; find runs beside them on any thread.
 */
#define SP_QP_PAGE_BITS	 12
#define SP_QP_PAGE_SLOTS (1u << SP_QP_PAGE_BITS)
#define SP_QP_PAGES	 (1u << (24 - SP_QP_PAGE_BITS))
struct sp_qp_page {
	struct sp_qp qp[SP_QP_PAGE_SLOTS];
};
struct sp_qp_table {
	struct sp_qp_page *_Atomic page[SP_QP_PAGES]; /* [shared] published with release */
	uint32_t claimed;			      /* [control] */
	uint32_t any_next, control_next;	      /* [control] where row and next look first */
};

int sp_qp_table_create(struct sp_qp_table **table);
void sp_qp_table_destroy(struct sp_qp_table *table);
/* Claims [first, first + count) for a context: -EINVAL (0, 1, 0xFFFFFF, beyond 24 bits, count 0, indexes beyond 16
 * bits), -EADDRINUSE (*other, if not NULL: who has one of them), -ENOSPC (SP_MAX_QPS), -ENOMEM. Nothing is claimed on
 * error. indexes start at index. A number that was released may be claimed again once every worker has passed by. */
int sp_qp_table_claim(struct sp_qp_table *table, uint32_t first, uint32_t count, uint16_t index,
		      struct sp_context *context, struct sp_context **other);
/* Numbers in a row that nobody has: from SP_QP_ANY_FIRST upward, so that those just released come back last. -ENOSPC.
 */
int sp_qp_table_row(struct sp_qp_table *table, uint32_t count, uint32_t *first);
/* A number that nobody has and that is none of [avoid, avoid + count), for a control QP, to be claimed next: from
 * SP_QP_CONTROL_FIRST upward, so that one just released comes back last. -ENOSPC. */
int sp_qp_table_next(struct sp_qp_table *table, uint32_t avoid, uint32_t count, uint32_t *qpn);
/* All of a context's QPs are another's from here on; whoever looks finds either. */
void sp_qp_table_give(struct sp_qp_table *table, const struct sp_context *from, struct sp_context *to);
/* Unpublishes all of a context's QPs. Workers may still hold what they looked up: free after they have passed by. */
void sp_qp_table_release(struct sp_qp_table *table, struct sp_context *context);
/* Any thread, no lock: NULL if nobody has it, also for what is no 24-bit number. */
static inline const struct sp_qp *sp_qp_table_find(const struct sp_qp_table *table, uint32_t qpn)
{
	if (__builtin_expect(qpn - 1 >= 0xFFFFFE, 0)) /* 0 would equal a free slot's number */
		return NULL;
	const struct sp_qp_page *page =
		atomic_load_explicit(&table->page[qpn >> SP_QP_PAGE_BITS], memory_order_acquire);
	if (__builtin_expect(!page, 0))
		return NULL;
	const struct sp_qp *qp = &page->qp[qpn & (SP_QP_PAGE_SLOTS - 1)];
	return atomic_load_explicit(&qp->qpn, memory_order_acquire) == qpn ? qp : NULL;
}

#endif
