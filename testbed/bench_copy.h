/* SPDX-License-Identifier: BSD-3-Clause */
/* Streaming stores, for the bare loops that placing is compared with. */
#ifndef TESTBED_BENCH_COPY_H
#define TESTBED_BENCH_COPY_H

#include <immintrin.h>
#include <stdint.h>

/* Whole lines, to the beginning of one. */
static inline void bench_stream(uint8_t *to, const uint8_t *from, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += 64)
#if defined(__AVX512F__)
		_mm512_stream_si512((void *)(to + at), _mm512_loadu_si512(from + at));
#else
		for (unsigned k = 0; k < 64; k += 8)
			__builtin_ia32_movnti64(
				(long long *)(void *)(to + at + k),
				*(const long long __attribute__((aligned(1))) *)(const void *)(from + at + k));
#endif
}

/* Before it is told of. */
static inline void bench_stream_end(void)
{
	__builtin_ia32_sfence();
}

#endif
