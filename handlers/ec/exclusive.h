/* SPDX-License-Identifier: BSD-3-Clause */
/* XOR by the widest vectors that a file is compiled for: included by the kernel of each level. */
#ifndef EC_EXCLUSIVE_H
#define EC_EXCLUSIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define EXCLUSIVE_VECTOR 64
#elif defined(__AVX2__)
#define EXCLUSIVE_VECTOR 32
#else
#define EXCLUSIVE_VECTOR 16
#endif
#define EXCLUSIVE_STEP (4 * EXCLUSIVE_VECTOR)

typedef long long sp_ec_vector __attribute__((vector_size(EXCLUSIVE_VECTOR), aligned(1), may_alias));

/* aligned, if past */
static inline __attribute__((always_inline)) void sp_ec_exclusive_store(uint8_t *to, sp_ec_vector x, bool past)
{
#if defined(__AVX512F__)
	if (past)
		_mm512_stream_si512((void *)to, (__m512i)x);
	else
		*(sp_ec_vector *)to = x;
#elif defined(__AVX2__)
	if (past)
		_mm256_stream_si256((void *)to, (__m256i)x);
	else
		*(sp_ec_vector *)to = x;
#elif defined(__x86_64__)
	if (past)
		_mm_stream_si128((void *)to, (__m128i)x);
	else
		*(sp_ec_vector *)to = x;
#else
	(void)past;
	*(sp_ec_vector *)to = x;
#endif
}

/* What goes past the caches is made of sources from memory, which are asked for so many bytes before: 1.05 to 1.15
 * times as fast. From a cache, that would cost as much. A prefetch never faults. */
#define EXCLUSIVE_AHEAD 256

static inline __attribute__((always_inline)) void sp_ec_exclusive_ask(const uint8_t *from, bool past)
{
	for (unsigned i = 0; past && i < EXCLUSIVE_STEP; i += 64)
		__builtin_prefetch(from + EXCLUSIVE_AHEAD + i);
}

/* EXCLUSIVE_STEP bytes of all sources. */
static inline __attribute__((always_inline)) void sp_ec_exclusive_strip(unsigned sources, uint8_t *const *from,
									uint8_t *to, size_t at, bool past)
{
	const sp_ec_vector *v = (const sp_ec_vector *)(from[0] + at);
	sp_ec_vector a = v[0], b = v[1], c = v[2], d = v[3];
	unsigned s = 1;

	sp_ec_exclusive_ask(from[0] + at, past);
	for (; s + 2 <= sources; s += 2) { /* AVX-512 has an XOR of three */
		const sp_ec_vector *w = (const sp_ec_vector *)(from[s + 1] + at);

		v = (const sp_ec_vector *)(from[s] + at);
		a ^= v[0] ^ w[0];
		b ^= v[1] ^ w[1];
		c ^= v[2] ^ w[2];
		d ^= v[3] ^ w[3];
		sp_ec_exclusive_ask(from[s] + at, past);
		sp_ec_exclusive_ask(from[s + 1] + at, past);
	}
	if (s < sources) {
		v = (const sp_ec_vector *)(from[s] + at);
		a ^= v[0];
		b ^= v[1];
		c ^= v[2];
		d ^= v[3];
		sp_ec_exclusive_ask(from[s] + at, past);
	}
	sp_ec_exclusive_store(to + at, a, past);
	sp_ec_exclusive_store(to + at + EXCLUSIVE_VECTOR, b, past);
	sp_ec_exclusive_store(to + at + 2 * EXCLUSIVE_VECTOR, c, past);
	sp_ec_exclusive_store(to + at + 3 * EXCLUSIVE_VECTOR, d, past);
}

static void sp_ec_exclusive(size_t len, unsigned sources, uint8_t *const *from, uint8_t *to, bool past)
{
	size_t at = 0;

	if (past && (uintptr_t)to % 64 == 0)
		for (; at + EXCLUSIVE_STEP <= len; at += EXCLUSIVE_STEP)
			sp_ec_exclusive_strip(sources, from, to, at, true);
	for (; at + EXCLUSIVE_STEP <= len; at += EXCLUSIVE_STEP)
		sp_ec_exclusive_strip(sources, from, to, at, false);
	for (; at < len; at++) {
		uint8_t sum = from[0][at];

		for (unsigned s = 1; s < sources; s++)
			sum ^= from[s][at];
		to[at] = sum;
	}
}

#endif
