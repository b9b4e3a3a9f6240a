/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdr, how a packet's bytes come to where they belong. Small packets come often: theirs is a copy without a call. Large
 * ones into a large region go past the caches, where they would push out what is there, and would first be read from
 * memory only to be overwritten; whoever is told of them needs a fence before that.
 */
#ifndef HANDLERS_SDR_COPY_H
#define HANDLERS_SDR_COPY_H

#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "sdr_state.h"

#define SDR_LINE_BYTES	 64u
#define SDR_STREAM_LEAST 512u /* bytes of a packet; below, ordinary stores win */
/*
 * From which size of region on, where the configuration does not say. Ordinary stores win as long as what they write
 * stays in a cache that is near: measured up to half of the last level where that is a cluster's own (32 MiB: 16 MiB),
 * and up to some multiples of the core's own level where the last one is a whole socket's (480 MiB, others in it: 4
 * MiB).
 */
static inline uint64_t sdr_stream_region(void)
{
#ifdef __x86_64__
	const long own = sysconf(_SC_LEVEL2_CACHE_SIZE), last = sysconf(_SC_LEVEL3_CACHE_SIZE);

	if (last > 64l << 20)
		return own > 0 ? 2 * (uint64_t)own : 4ull << 20;
	return last > 0 ? (uint64_t)last / 2 : 16ull << 20;
#else
	return UINT64_MAX;
#endif
}

/* Does a receive at `to`, in packets of mtu bytes, go past the caches? */
static inline bool sdr_streams(const struct sdr *s, const struct sp_mem *mem, const uint8_t *to)
{
	return mem->len >= s->stream_region && s->mtu >= SDR_STREAM_LEAST && s->mtu % SDR_LINE_BYTES == 0 &&
	       (uintptr_t)to % SDR_LINE_BYTES == 0;
}

/* Whole lines. */
static inline void sdr_copy_past(uint8_t *to, const uint8_t *from, uint32_t len)
{
#ifdef __AVX512F__
	for (uint32_t i = 0; i < len; i += 64)
		_mm512_stream_si512((void *)(to + i), _mm512_loadu_si512(from + i));
#elif defined(__AVX__)
	for (uint32_t i = 0; i < len; i += 32)
		_mm256_stream_si256((void *)(to + i), _mm256_loadu_si256((const void *)(from + i)));
#elif defined(__x86_64__)
	for (uint32_t i = 0; i < len; i += 16)
		_mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
#else
	memcpy(to, from, len);
#endif
}

/* streams: as sdr_streams() says, but the packet may be a short one. */
static inline void sdr_copy(uint8_t *to, const uint8_t *from, uint32_t len, bool streams)
{
	typedef uint64_t half __attribute__((vector_size(32), aligned(1), may_alias));

	if (len == 2 * sizeof(half)) { /* both under way at once */
		const half a = *(const half *)from, b = *(const half *)(from + sizeof(half));

		*(half *)to = a;
		*(half *)(to + sizeof(half)) = b;
	} else if (streams && len % SDR_LINE_BYTES == 0) {
		sdr_copy_past(to, from, len);
	} else {
		memcpy(to, from, len);
	}
}

/* Before what was streamed is told of. */
static inline void sdr_copied(bool streams)
{
#ifdef __x86_64__
	if (streams)
		_mm_sfence();
#else
	(void)streams;
#endif
}

/* At `at` of the slot's receive, which may turn out not to be there: -EFAULT. */
static inline int sdr_write(struct sp_ctx *c, const struct sdr_slot *slot, uint64_t at, const uint8_t *from,
			    uint32_t len, bool streams)
{
	if (unlikely(!streams) || c->watch || !sp_mem_holds(slot->mem, slot->offset + at, len))
		return sp_dma_write(c, slot->mem, slot->offset + at, from, len);
	sdr_copy(slot->mem->base + slot->offset + at, from, len, true);
	return 0;
}

#endif
