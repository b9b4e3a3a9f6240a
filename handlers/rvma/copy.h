/* SPDX-License-Identifier: BSD-3-Clause */
/* rvma, copies of payload to its place. What is written past the caches needs a fence before it is published.
 * rv.unfenced says that a fence is due, and rv_copied() makes one for all packets of a run. */
#ifndef HANDLERS_RVMA_COPY_H
#define HANDLERS_RVMA_COPY_H

#include "../stream_copy.h"
#include "state.h"

/* A put may begin anywhere. It shares its first and its last cache line with others: these stay in the cache. */
static inline void rv_copy_past(uint8_t *to, const uint8_t *from, uint32_t len)
{
	const uint32_t before = (uint32_t)(-(uintptr_t)to % SP_STREAM_LINE),
		       whole = (len - before) / SP_STREAM_LINE * SP_STREAM_LINE;

	memcpy(to, from, before);
	sp_stream_copy(to + before, from + before, whole);
	memcpy(to + before + whole, from + before + whole, len - before - whole);
}

/* Copies to memory that the caller has checked, in a region of so many bytes. */
static inline void rv_copy(struct rv *s, uint64_t region, uint8_t *to, const uint8_t *from, uint32_t len)
{
	if (len >= SP_STREAM_LEAST && region >= s->stream_region) {
		rv_copy_past(to, from, len);
		s->unfenced = true;
	} else if (len == 64) { /* inline */
		memcpy(to, from, 64);
	} else {
		memcpy(to, from, len);
	}
}

/* Returns -EFAULT if the range is not in the memory. */
static inline int rv_write(struct sp_ctx *c, const struct sp_mem *mem, uint64_t at, const uint8_t *from, uint32_t len)
{
	uint8_t *to = sp_dma_window(c, mem, at, len);

	if (!to)
		return sp_dma_write(c, mem, at, from, len);
	rv_copy(rv_of(c), mem->len, to, from, len);
	return 0;
}

/* Call it before publishing what was written. */
static inline void rv_copied(struct rv *s)
{
	if (!s->unfenced)
		return;
	s->unfenced = false;
	sp_stream_fence();
}

#endif
