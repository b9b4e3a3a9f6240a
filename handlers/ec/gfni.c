/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure codes with AVX-512 and GFNI. To multiply by a constant is linear in the bits of the other factor, so it is an
 * 8x8 matrix of bits, and one instruction applies it to 64 bytes. (There is one that multiplies, but modulo another
 * polynomial.) All rows of a group are kept in registers while the sources pass by, a few vectors of each at a time.
 *
 * These functions are compiled for such processors, whatever the rest is compiled for: sp_ec_kernel() has a look first.
 */
#include "kernel.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <stdbool.h>

#define TARGET __attribute__((target("avx512f,avx512bw,gfni")))
#define INLINE TARGET static inline __attribute__((always_inline))

/*
 * Sources at once: each is a stream to fetch from memory, and the processor follows no more than some 16 in all, rows
 * among them. From memory, 32 sources and 8 rows in GB/s of sources: 4 at once 9, 8 at once 10 to 11, 16 at once 9, all
 * 6.5; from a cache 15, 19, 22, 25. All of them go over the same `len` bytes of the rows, which should thus fit in a
 * cache.
 */
#define STREAMS	      8
#define STREAMS_WARM  16		/* from a cache */
#define MOST(streams) ((streams)*3 / 2) /* rather than a short rest */

/* ---- tables: [source][row], a matrix each ---- */

/* The matrix of c: bit i of its byte 7 - b says whether x^i times c has bit b. It is linear in c. */
#define BIT(c, i, matrix) ((c) >> (i)&1 ? matrix##ull : 0)
#define MATRIX(c)                                                                                                      \
	(BIT(c, 0, 0x0102040810204080) ^ BIT(c, 1, 0x8001828488102040) ^ BIT(c, 2, 0x408041c2c4881020) ^               \
	 BIT(c, 3, 0x2040a061e2c48810) ^ BIT(c, 4, 0x102050b071e2c488) ^ BIT(c, 5, 0x8810a8d83871e2c4) ^               \
	 BIT(c, 6, 0xc488d46c1c3871e2) ^ BIT(c, 7, 0xe2c46a368e1c3871))
#define MATRICES_4(c)  MATRIX(c), MATRIX((c) + 1), MATRIX((c) + 2), MATRIX((c) + 3)
#define MATRICES_16(c) MATRICES_4(c), MATRICES_4((c) + 4), MATRICES_4((c) + 8), MATRICES_4((c) + 12)
#define MATRICES_64(c) MATRICES_16(c), MATRICES_16((c) + 16), MATRICES_16((c) + 32), MATRICES_16((c) + 48)

static const uint64_t matrix_of[256] = {MATRICES_64(0), MATRICES_64(64), MATRICES_64(128), MATRICES_64(192)};

static void tables(unsigned sources, unsigned rows, const uint8_t *coefficient, uint8_t *out)
{
	uint64_t *matrix = (uint64_t *)(void *)out;

	for (unsigned s = 0; s < sources; s++)
		for (unsigned r = 0; r < rows; r++)
			*matrix++ = matrix_of[coefficient[r * sources + s]];
}

/* ---- sums of products ---- */

INLINE __m512i times(__m512i bytes, uint64_t matrix)
{
	return _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64((long long)matrix), 0);
}

enum how { SET, ADD, PAST /* set, past the caches: aligned */ };

/* `vectors` vectors of all rows, of which `mask` says the bytes; both numbers are constants to the compiler. */
INLINE void strip(unsigned rows, unsigned vectors, __mmask64 mask, unsigned count, const uint64_t *matrix,
		  uint8_t *const *from, uint8_t *const *to, size_t at, enum how how)
{
	__m512i sum[SP_EC_GROUP][4], x[4], y[4];
	unsigned s = 0;

#pragma GCC unroll 12
	for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (unsigned v = 0; v < vectors; v++)
			sum[r][v] = how == ADD ? _mm512_maskz_loadu_epi8(mask, to[r] + at + 64 * v)
					       : _mm512_setzero_si512();
	for (; s + 2 <= count; s += 2, matrix += 2 * rows) {
#pragma GCC unroll 4
		for (unsigned v = 0; v < vectors; v++) {
			x[v] = _mm512_maskz_loadu_epi8(mask, from[s] + at + 64 * v);
			y[v] = _mm512_maskz_loadu_epi8(mask, from[s + 1] + at + 64 * v);
		}
#pragma GCC unroll 12
		for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 4
			for (unsigned v = 0; v < vectors; v++) /* 0x96: the XOR of three */
				sum[r][v] = _mm512_ternarylogic_epi64(sum[r][v], times(x[v], matrix[r]),
								      times(y[v], matrix[rows + r]), 0x96);
	}
	if (s < count) {
#pragma GCC unroll 4
		for (unsigned v = 0; v < vectors; v++)
			x[v] = _mm512_maskz_loadu_epi8(mask, from[s] + at + 64 * v);
#pragma GCC unroll 12
		for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 4
			for (unsigned v = 0; v < vectors; v++)
				sum[r][v] = _mm512_xor_si512(sum[r][v], times(x[v], matrix[r]));
	}
#pragma GCC unroll 12
	for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (unsigned v = 0; v < vectors; v++)
			if (how == PAST)
				_mm512_stream_si512((void *)(to[r] + at + 64 * v), sum[r][v]);
			else
				_mm512_mask_storeu_epi8(to[r] + at + 64 * v, mask, sum[r][v]);
}

#define ALL (~(__mmask64)0)

/* The first `left` bytes of a vector. */
static inline uint64_t mask_of(size_t left)
{
	return left < 64 ? (1ull << left) - 1 : ~0ull;
}

/* Two vectors at a time: more leave no registers for 12 rows, and are slower from memory with fewer. From a cache, as
 * many as leave registers for the sources. */
#define WIDTH	   128
#define WIDE(rows) ((rows) <= 4 ? 4 : (rows) <= 6 ? 3 : 2)

#define ROWS(rows)                                                                                                     \
	TARGET static void combine_##rows(size_t len, unsigned count, const uint64_t *matrix, uint8_t *const *from,    \
					  uint8_t *const *to, enum how how, bool wide)                                 \
	{                                                                                                              \
		size_t at = 0;                                                                                         \
                                                                                                                       \
		if (wide && how == SET)                                                                                \
			for (; at + 64 * WIDE(rows) <= len; at += 64 * WIDE(rows))                                     \
				strip(rows, WIDE(rows), ALL, count, matrix, from, to, at, SET);                        \
		if (how == ADD)                                                                                        \
			for (; at + WIDTH <= len; at += WIDTH)                                                         \
				strip(rows, 2, ALL, count, matrix, from, to, at, ADD);                                 \
		else if (how == PAST)                                                                                  \
			for (; at + WIDTH <= len; at += WIDTH)                                                         \
				strip(rows, 2, ALL, count, matrix, from, to, at, PAST);                                \
		else                                                                                                   \
			for (; at + WIDTH <= len; at += WIDTH)                                                         \
				strip(rows, 2, ALL, count, matrix, from, to, at, SET);                                 \
		for (; at < len; at += 64)                                                                             \
			strip(rows, 1, mask_of(len - at), count, matrix, from, to, at, how == ADD ? ADD : SET);        \
	}
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
ROWS(5)
ROWS(6)
ROWS(7)
ROWS(8)
ROWS(9)
ROWS(10)
ROWS(11)
ROWS(12)

static void combine(size_t len, unsigned sources, unsigned rows, const uint8_t *tables_, unsigned first, unsigned count,
		    uint8_t *const *from, uint8_t *const *to, bool past, bool cold)
{
	typedef void combine_t(size_t, unsigned, const uint64_t *, uint8_t *const *, uint8_t *const *, enum how, bool);
	static combine_t *const of[] = {combine_1, combine_2, combine_3, combine_4,  combine_5,	 combine_6,
					combine_7, combine_8, combine_9, combine_10, combine_11, combine_12};
	const uint64_t *matrix = (const uint64_t *)(const void *)tables_;
	const unsigned streams = cold ? STREAMS : STREAMS_WARM;

	/* What is added to later had better stay. */
	past &= !first && count == sources && count <= MOST(streams);
	for (unsigned r = 0; r < rows; r++)
		past &= (uintptr_t)to[r] % 64 == 0;
	for (unsigned n; count; count -= n, first += n, from += n) {
		n = count <= MOST(streams) ? count : streams;
		of[rows - 1](len, n, matrix + (size_t)first * rows, from, to, first ? ADD : past ? PAST : SET, !cold);
	}
}

/* ---- XOR ---- */

/* Lines of a row are asked for so many bytes before they are written, which otherwise waits for each, even where a
 * cache nearby has them: 5 % faster with two sources. With more, that is hidden behind reading. */
#define ASK	 1024
#define ASK_MOST 2

INLINE void exclusive_strip(unsigned vectors, __mmask64 mask, unsigned sources, uint8_t *const *from, uint8_t *to,
			    size_t at, bool past)
{
	__m512i sum[4];
	unsigned s = 1;

#pragma GCC unroll 4
	for (unsigned v = 0; v < vectors; v++)
		sum[v] = _mm512_maskz_loadu_epi8(mask, from[0] + at + 64 * v);
	for (; s + 2 <= sources; s += 2)
#pragma GCC unroll 4
		for (unsigned v = 0; v < vectors; v++)
			sum[v] = _mm512_ternarylogic_epi64(sum[v], _mm512_maskz_loadu_epi8(mask, from[s] + at + 64 * v),
							   _mm512_maskz_loadu_epi8(mask, from[s + 1] + at + 64 * v),
							   0x96);
	if (s < sources)
#pragma GCC unroll 4
		for (unsigned v = 0; v < vectors; v++)
			sum[v] = _mm512_xor_si512(sum[v], _mm512_maskz_loadu_epi8(mask, from[s] + at + 64 * v));
#pragma GCC unroll 4
	for (unsigned v = 0; v < vectors; v++)
		if (past)
			_mm512_stream_si512((void *)(to + at + 64 * v), sum[v]);
		else
			_mm512_mask_storeu_epi8(to + at + 64 * v, mask, sum[v]);
}

TARGET static void exclusive(size_t len, unsigned sources, uint8_t *const *from, uint8_t *to, bool past)
{
	size_t at = 0;

	past &= (uintptr_t)to % 64 == 0;
	if (past)
		for (; at + 256 <= len; at += 256)
			exclusive_strip(4, ALL, sources, from, to, at, true);
	for (; sources <= ASK_MOST && at + 256 <= len; at += 256) {
#pragma GCC unroll 4
		for (unsigned v = 0; v < 4; v++)
			__builtin_prefetch(to + at + ASK + 64 * v, 1);
		exclusive_strip(4, ALL, sources, from, to, at, false);
	}
	for (; at + 256 <= len; at += 256)
		exclusive_strip(4, ALL, sources, from, to, at, false);
	for (; at < len; at += 64)
		exclusive_strip(1, mask_of(len - at), sources, from, to, at, false);
}

const struct sp_ec_kernel sp_ec_gfni = {.name = "gfni",
					.sources = STREAMS,
					.strip = 4096,
					.past = 2 << 20,
					.coefficient = sizeof(uint64_t),
					.tables = tables,
					.combine = combine,
					.exclusive = exclusive};
#endif
