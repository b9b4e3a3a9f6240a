/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled once for each level, SP_ISA, with the instructions of that level. */
#include "stream.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define NAME_(level) sp_isa_stream_##level
#define NAME(level)  NAME_(level)

void NAME(SP_ISA)(uint8_t *to, const uint8_t *from, uint32_t len)
{
#if defined(__AVX512F__)
	for (uint32_t i = 0; i < len; i += 64)
		_mm512_stream_si512((void *)(to + i), _mm512_loadu_si512(from + i));
#elif defined(__AVX__)
	for (uint32_t i = 0; i < len; i += 64) {
		const __m256i a = _mm256_loadu_si256((const void *)(from + i));
		const __m256i b = _mm256_loadu_si256((const void *)(from + i + 32));

		_mm256_stream_si256((void *)(to + i), a);
		_mm256_stream_si256((void *)(to + i + 32), b);
	}
#elif defined(__x86_64__)
	for (uint32_t i = 0; i < len; i += 64)
		for (uint32_t k = i; k < i + 64; k += 16)
			_mm_stream_si128((void *)(to + k), _mm_loadu_si128((const void *)(from + k)));
#else
	memcpy(to, from, len);
#endif
}
