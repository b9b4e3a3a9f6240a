/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that handlers keep carry a note of whose they are: a context that must not be called any more cannot release
 * them itself. The note costs two stores where a packet is kept; who wants it goes over all buffers.
 */
#ifndef PIPELINE_KEPT_H
#define PIPELINE_KEPT_H

#include <rte_branch_prediction.h>
#include <rte_mbuf_dyn.h>

struct rte_mbuf;

/* In every buffer; zero where it is nobody's. [worker] whoever keeps or releases writes, with the buffer his. */
struct sp_kept {
	const struct sp_context *context;
	uint32_t count;
};

extern int sp_kept_offset; /* of it in struct rte_mbuf; < 0: there is no room, and no note. Set once, with the pools */
void sp_kept_register(void);

static inline struct sp_kept *sp_kept_of(struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD(m, sp_kept_offset, struct sp_kept *);
}

/* What two contexts keep is the first one's, as far as this goes. */
static inline void sp_kept_note(struct rte_mbuf *m, const struct sp_context *c)
{
	if (unlikely(sp_kept_offset < 0) || unlikely(sp_kept_of(m)->count && sp_kept_of(m)->context != c))
		return;
	sp_kept_of(m)->context = c;
	sp_kept_of(m)->count++;
}

static inline void sp_kept_done(struct rte_mbuf *m)
{
	if (likely(sp_kept_offset >= 0) && sp_kept_of(m)->count && !--sp_kept_of(m)->count)
		sp_kept_of(m)->context = NULL;
}

/* [control] Releases what such a context has left, which no worker knows any more. */
void sp_kept_release(struct sp_context *c);
/* [control] They are another's from here on, of the same NIC. */
void sp_kept_give(struct sp_context *from, struct sp_context *to);

#endif
