/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that go past the caches, for handlers that place much data: in a cache it would push out what is there, and
 * would first be read from memory only to be overwritten. Whoever is told of such bytes needs a fence before that.
 */
#ifndef HANDLERS_PAST_H
#define HANDLERS_PAST_H

#include <stdint.h>
#include <string.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "isa/stream.h"

#define SP_STREAM_LINE	64u
#define SP_STREAM_LEAST 512u /* bytes of a packet; below, ordinary stores win */

/*
 * From which size of region on, where the configuration does not say. Ordinary stores win as long as what they write
 * stays in a cache that is near: measured up to half of the last level where that is a cluster's own (32 MiB: 16 MiB),
 * and up to some multiples of the core's own level where the last one is a whole socket's (480 MiB, others in it: 4
 * MiB).
 */
static inline uint64_t sp_stream_from(void)
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

/* Whole lines, to the beginning of one. */
static inline void sp_stream_copy(uint8_t *to, const uint8_t *from, uint32_t len)
{
	sp_isa_stream(to, from, len);
}

/* Before it is told of. */
static inline void sp_stream_fence(void)
{
#ifdef __x86_64__
	_mm_sfence();
#endif
}

#endif
