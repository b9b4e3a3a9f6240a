/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, copies of payload to its place. Small packets are frequent: they are copied without a call. Large packets into a
 * large region go past the caches. In the cache they would replace what is there, and each line would be read from
 * memory only to be overwritten. What is written past the caches needs a fence before it is published. */
#ifndef HANDLERS_SDR_COPY_H
#define HANDLERS_SDR_COPY_H

#include "../stream_copy.h"
#include "state.h"

/* True: a receive at `to`, in packets of mtu bytes, goes past the caches. */
static inline bool sdr_streams(const struct sdr *s, const struct sp_mem *mem, const uint8_t *to)
{
	return mem->len >= s->stream_region && s->mtu >= SP_STREAM_LEAST && s->mtu % SP_STREAM_LINE == 0 &&
	       (uintptr_t)to % SP_STREAM_LINE == 0;
}

/* streams: from sdr_streams(). The packet may be shorter than mtu. */
static inline void sdr_copy(uint8_t *to, const uint8_t *from, uint32_t len, bool streams)
{
	typedef uint64_t half __attribute__((vector_size(32), aligned(1), may_alias));

	if (len == 2 * sizeof(half)) { /* both loads before both stores */
		const half a = *(const half *)from, b = *(const half *)(from + sizeof(half));

		*(half *)to = a;
		*(half *)(to + sizeof(half)) = b;
	} else if (streams && len % SP_STREAM_LINE == 0) {
		sp_stream_copy(to, from, len);
	} else {
		memcpy(to, from, len);
	}
}

/* Call it before publishing what was copied. */
static inline void sdr_copied(bool streams)
{
	if (streams)
		sp_stream_fence();
}

/* Writes at `at` in the slot's receive. -EFAULT: that is not in the memory. */
static inline int sdr_write(struct sp_ctx *c, const struct sdr_slot *slot, uint64_t at, const uint8_t *from,
			    uint32_t len, bool streams)
{
	uint8_t *to = likely(streams) ? sp_dma_window(c, slot->mem, slot->offset + at, len) : NULL;

	if (!to)
		return sp_dma_write(c, slot->mem, slot->offset + at, from, len);
	sdr_copy(to, from, len, true);
	return 0;
}

#endif
