/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure codes with shuffles of bytes. A product is the XOR of those of the two halves of a byte, and a shuffle looks
 * up 16 products at once. Some rows of a group are kept in registers while the sources pass by, a line of each at a
 * time.
 *
 * Compiled with the instructions of AVX2, or with those of AVX-512 without GFNI, which are twice as wide.
 */
#include "kernel.h"

#include <immintrin.h>
#include <string.h>

#include "exclusive.h"

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512BW__)
#define VECTOR 64
#define MOST   8 /* rows of a pass: two vectors of each stay in registers */
#define NAME   "shuffle-512"
typedef __m512i vector;
#define LOAD(at)	  _mm512_loadu_si512((const void *)(at))
#define STORE(at, x)	  _mm512_storeu_si512((void *)(at), x)
#define STREAM(at, x)	  _mm512_stream_si512((void *)(at), x)
#define TABLE(at)	  _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(at)))
#define LOOK_UP(table, x) _mm512_shuffle_epi8(table, x)
#define LOW(x)		  _mm512_and_si512(x, _mm512_set1_epi8(15))
#define HIGH(x)		  _mm512_and_si512(_mm512_srli_epi64(x, 4), _mm512_set1_epi8(15))
#define XOR3(a, b, c)	  _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define ZERO		  _mm512_setzero_si512()
#else
#define VECTOR		  32
#define MOST		  4
#define NAME		  "shuffle-256"
typedef __m256i vector;
#define LOAD(at)	  _mm256_loadu_si256((const void *)(at))
#define STORE(at, x)	  _mm256_storeu_si256((void *)(at), x)
#define STREAM(at, x)	  _mm256_stream_si256((void *)(at), x)
#define TABLE(at)	  _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(at)))
#define LOOK_UP(table, x) _mm256_shuffle_epi8(table, x)
#define LOW(x)		  _mm256_and_si256(x, _mm256_set1_epi8(15))
#define HIGH(x)		  _mm256_and_si256(_mm256_srli_epi64(x, 4), _mm256_set1_epi8(15))
#define XOR3(a, b, c)	  _mm256_xor_si256(a, _mm256_xor_si256(b, c))
#define ZERO		  _mm256_setzero_si256()
#endif
#define KERNEL_(level) sp_ec_##level
#define KERNEL(level)  KERNEL_(level)

#define WIDTH (2 * VECTOR)
/* Sources are asked for so many bytes before. The processor follows 8 of them badly by itself, and begins anew at each
 * page: 1.15 to 3 times as fast from memory, and as fast from a cache. A prefetch never faults. */
#define AHEAD 256

/* ---- tables: [source][row], products of the low half of a byte and of the high half ---- */

#define COPIES 0x0101010101010101ull

static uint64_t doubled(uint64_t c)
{
	return c << 1 ^ (c >> 7) * 0x11d;
}

/* Byte i of each table has the sum over those bits of i that are set. Returns the double of the last factor. */
static uint64_t table(uint64_t c, uint64_t *out)
{
	const uint64_t c2 = doubled(c), c4 = doubled(c2), c8 = doubled(c4);

	out[0] = c * 0x0100010001000100 ^ c2 * 0x0101000001010000 ^ c4 * 0x0101010100000000;
	out[1] = out[0] ^ c8 * COPIES;
	return doubled(c8);
}

static void tables(unsigned sources, unsigned rows, const uint8_t *coefficient, uint8_t *out)
{
	uint64_t *at = (uint64_t *)(void *)out;

	for (unsigned s = 0; s < sources; s++)
		for (unsigned r = 0; r < rows; r++, at += 4)
			table(table(coefficient[r * sources + s], at), at + 2);
}

/* ---- sums of products ---- */

enum how { SET, ADD, PAST /* set, past the caches: aligned */ };

/* WIDTH bytes of rows; their number is a constant to the compiler. step: bytes of tables from source to source. */
INLINE void strip(unsigned rows, unsigned count, const uint8_t *tables_, size_t step, uint8_t *const *from,
		  uint8_t *const *to, size_t at, enum how how)
{
	vector sum[MOST][2];

#pragma GCC unroll 8
	for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 2
		for (unsigned v = 0; v < 2; v++)
			sum[r][v] = how == ADD ? LOAD(to[r] + at + VECTOR * v) : ZERO;
	for (unsigned s = 0; s < count; s++, tables_ += step) {
#pragma GCC unroll 2
		for (unsigned i = 0; i < WIDTH; i += 64)
			__builtin_prefetch(from[s] + at + AHEAD + i);

		const vector x = LOAD(from[s] + at), y = LOAD(from[s] + at + VECTOR);
		const vector low[2] = {LOW(x), LOW(y)}, high[2] = {HIGH(x), HIGH(y)};

#pragma GCC unroll 8
		for (unsigned r = 0; r < rows; r++) {
			const vector a = TABLE(tables_ + SP_EC_TABLE * r), b = TABLE(tables_ + SP_EC_TABLE * r + 16);

#pragma GCC unroll 2
			for (unsigned v = 0; v < 2; v++)
				sum[r][v] = XOR3(sum[r][v], LOOK_UP(a, low[v]), LOOK_UP(b, high[v]));
		}
	}
#pragma GCC unroll 8
	for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 2
		for (unsigned v = 0; v < 2; v++)
			if (how == PAST)
				STREAM(to[r] + at + VECTOR * v, sum[r][v]);
			else
				STORE(to[r] + at + VECTOR * v, sum[r][v]);
}

#define ROWS(rows)                                                                                                     \
	static void combine_##rows(size_t len, unsigned count, const uint8_t *tables_, size_t step,                    \
				   uint8_t *const *from, uint8_t *const *to, enum how how)                             \
	{                                                                                                              \
		if (how == ADD)                                                                                        \
			for (size_t at = 0; at < len; at += WIDTH)                                                     \
				strip(rows, count, tables_, step, from, to, at, ADD);                                  \
		else if (how == PAST)                                                                                  \
			for (size_t at = 0; at < len; at += WIDTH)                                                     \
				strip(rows, count, tables_, step, from, to, at, PAST);                                 \
		else                                                                                                   \
			for (size_t at = 0; at < len; at += WIDTH)                                                     \
				strip(rows, count, tables_, step, from, to, at, SET);                                  \
	}
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
#if MOST > 4
ROWS(5)
ROWS(6)
ROWS(7)
ROWS(8)
#endif

/* Passes of about as many rows each: the sources come from a cache after the first. */
static void passes(size_t len, unsigned rows, unsigned count, const uint8_t *tables_, uint8_t *const *from,
		   uint8_t *const *to, enum how how)
{
	typedef void combine_t(size_t, unsigned, const uint8_t *, size_t, uint8_t *const *, uint8_t *const *, enum how);
	static combine_t *const of[] = {
		combine_1,
		combine_2,
		combine_3,
		combine_4,
#if MOST > 4
		combine_5,
		combine_6,
		combine_7,
		combine_8
#endif
	};
	const size_t step = (size_t)rows * SP_EC_TABLE;
	unsigned left = (rows + MOST - 1) / MOST;

	for (unsigned n; rows; rows -= n, to += n, tables_ += (size_t)n * SP_EC_TABLE, left--) {
		n = (rows + left - 1) / left;
		of[n - 1](len, count, tables_, step, from, to, how);
	}
}

#define STREAMS	     8 /* sources at once: more than that the processor does not follow */
#define STREAMS_MOST (STREAMS * 3 / 2)

/* Less than WIDTH, by way of the stack. */
static void rest(size_t len, size_t at, unsigned rows, unsigned count, const uint8_t *tables_, uint8_t *const *from,
		 uint8_t *const *to, enum how how)
{
	uint8_t in[STREAMS_MOST][WIDTH], out[SP_EC_GROUP][WIDTH];
	uint8_t *source[STREAMS_MOST] = {0}, *row[SP_EC_GROUP] = {0};

	for (unsigned s = 0; s < count; s++) {
		memset(in[s], 0, WIDTH);
		memcpy(in[s], from[s] + at, len);
		source[s] = in[s];
	}
	for (unsigned r = 0; r < rows; r++) {
		memset(out[r], 0, WIDTH);
		memcpy(out[r], to[r] + at, len);
		row[r] = out[r];
	}
	passes(WIDTH, rows, count, tables_, source, row, how == ADD ? ADD : SET);
	for (unsigned r = 0; r < rows; r++)
		memcpy(to[r] + at, out[r], len);
}

static void combine(size_t len, unsigned sources, unsigned rows, const uint8_t *tables_, unsigned first, unsigned count,
		    uint8_t *const *from, uint8_t *const *to, bool past, bool cold)
{
	const uint8_t *table_of = tables_ + (size_t)first * rows * SP_EC_TABLE;
	const size_t whole = len / WIDTH * WIDTH;

	(void)cold;
	/* What is added to later had better stay. */
	past &= !first && count == sources && count <= STREAMS_MOST;
	for (unsigned r = 0; r < rows; r++)
		past &= (uintptr_t)to[r] % 64 == 0;
	for (unsigned n; count; count -= n, first += n, from += n, table_of += (size_t)n * rows * SP_EC_TABLE) {
		const enum how how = first ? ADD : past ? PAST : SET;

		n = count <= STREAMS_MOST ? count : STREAMS;
		passes(whole, rows, n, table_of, from, to, how);
		if (whole < len)
			rest(len - whole, whole, rows, n, table_of, from, to, how);
	}
}

const struct sp_ec_kernel KERNEL(SP_ISA) = {.name = NAME,
					    .sources = STREAMS,
					    .strip = 4096,
					    .past = UINT64_MAX,
					    .tables = tables,
					    .combine = combine,
					    .exclusive = sp_ec_exclusive};
