/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same as icrc_fold512.c with 128 bits at a time, for processors without VPCLMULQDQ. Compiled once for each of
 * their levels, SP_ISA. Two multiplications for 16 bytes are all that such a processor must do, one a cycle; so nothing
 * may wait for a product. Eight sums take turns in long messages. Every block of a short one, and at last each of these
 * sums, is multiplied by its own power, which takes it to the message's end at once. Reductions are done for four
 * messages side by side.
 */
#include "icrc_fold.h"

#include <stddef.h>

#include <immintrin.h>

#define NAME_(level) sp_icrc_fold128_##level
#define NAME(level)  NAME_(level)

enum {
	SUMS = 8,
	HEADS = 5, /* blocks that may have bits in a mask */
};

/* Of a block with that many others behind it: what takes its first and last 8 bytes to the message's end, and 32 bits
 * further; x^(128 n + 96) and x^(128 n + 32) mod P. */
static const uint64_t to_end[2 * SUMS - 1][2] __attribute__((aligned(16))) = {
	{0x0CCAA009E, 0x1DB710640}, {0x15A546366, 0x1751997D0}, {0x174359406, 0x0F1DA05AA}, {0x1C6E41596, 0x03DB1ECDC},
	{0x0AE0B5394, 0x154442BD4}, {0x18CB44E58, 0x1C7569E54}, {0x1D7CFC6AC, 0x0DF068DC2}, {0x14A7FE880, 0x1EA89367E},
	{0x03F41287A, 0x1E88EF372}, {0x14B57D3F0, 0x1FDC60A7C}, {0x10AAE2566, 0x0E3543BE0}, {0x12E958AC4, 0x1816AB61C},
	{0x1E7146AAC, 0x1821D8BC0}, {0x125F17DFC, 0x1B35ADB0E}, {0x1C47D2A9C, 0x19159BB02}};

/* pshufb's indices: from [16 - n] on, n zeros in front of a block's bytes; from [32 - n] on, its last n bytes. */
static const uint8_t moved[48] = {[0 ... 15] = 0x80, [16] = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
				  [32 ... 47] = 0x80};

static const struct sp_icrc_mask none;

static inline __m128i load(const uint8_t *from)
{
	return _mm_loadu_si128((const __m128i *)from);
}

static inline __m128i times(__m128i a, __m128i key)
{
	return _mm_xor_si128(_mm_clmulepi64_si128(a, key, 0x00), _mm_clmulepi64_si128(a, key, 0x11));
}

/* key: to_end[n], with n blocks behind it. */
static inline __m128i taken(__m128i a, const uint64_t key[2])
{
	return times(a, _mm_load_si128((const __m128i *)key));
}

/* The bytes from b + at on; they are also written to `to` + at, if there is one. */
static inline __m128i through(const uint8_t *b, uint8_t *to, ptrdiff_t at)
{
	const __m128i block = load(b + at);

	if (to)
		_mm_storeu_si128((__m128i *)(to + at), block);
	return block;
}

/* The message times x^32, in 96 bits: len bytes, at least 33, with mask's bits set, behind others that left the CRC
 * register `before`. to: where its bytes are copied meanwhile, as they are; or NULL. */
static inline __attribute__((always_inline)) __m128i folded(const uint8_t *bytes, uint8_t *to, uint32_t len,
							    const struct sp_icrc_mask *mask, uint32_t before)
{
	const ptrdiff_t missing = -len & 15;
	const uint8_t *ones = (const uint8_t *)mask + sizeof(mask->before) - missing, *move = moved + 16 - missing;
	const __m128i start = _mm_cvtsi32_si128((int)before), shift = load(move), rest = load(move + 16);
	ptrdiff_t n = (len + missing) / 16, at = -missing, i; /* padding is neither read nor written */
	const uint64_t(*key)[2];
	__m128i x, a[SUMS];

	a[0] = _mm_or_si128(_mm_shuffle_epi8(through(bytes, to, 0), shift), load(ones));
	a[0] = _mm_xor_si128(a[0], _mm_shuffle_epi8(start, shift));
	a[1] = _mm_or_si128(through(bytes, to, at + 16), load(ones + 16));
	a[1] = _mm_xor_si128(a[1], _mm_shuffle_epi8(start, rest));
	if (n < SUMS) {
		key = to_end + n;
		x = _mm_xor_si128(taken(a[0], key[-1]), taken(a[1], key[-2]));
		for (i = 2; i < n && i < HEADS; i++) {
			a[0] = _mm_or_si128(through(bytes, to, at + 16 * i), load(ones + 16 * i));
			x = _mm_xor_si128(x, taken(a[0], key[-1 - i]));
		}
		for (; i < n; i++)
			x = _mm_xor_si128(x, taken(through(bytes, to, at + 16 * i), key[-1 - i]));
		return x;
	}
	for (i = 2; i < HEADS; i++)
		a[i] = _mm_or_si128(through(bytes, to, at + 16 * i), load(ones + 16 * i));
	for (; i < SUMS; i++)
		a[i] = through(bytes, to, at + 16 * i);
	const __m128i on = _mm_set_epi64x(0x14A7FE880, 0x1E88EF372); /* by all sums: x^(1024 - 32), x^(1024 + 32) */

	for (n -= SUMS, at += 16 * SUMS; n >= SUMS; n -= SUMS, at += 16 * SUMS)
		for (i = 0; i < SUMS; i++)
			a[i] = _mm_xor_si128(times(a[i], on), through(bytes, to, at + 16 * i));
	key = to_end + n;
	x = taken(a[0], key[SUMS - 1]);
	for (i = 1; i < SUMS; i++)
		x = _mm_xor_si128(x, taken(a[i], key[SUMS - 1 - i]));
	for (; n; n--, at += 16)
		x = _mm_xor_si128(x, taken(through(bytes, to, at), *--key));
	return x;
}

/* 96 bits to the CRC register: to 64, and these by Barrett's way. */
static inline uint32_t reduced(__m128i x)
{
	const __m128i low = _mm_set_epi32(0, 0, 0, -1), k = _mm_set_epi64x(0, 0x163CD6124);
	const __m128i barrett = _mm_set_epi64x(0x1F7011641, 0x1DB710641);
	__m128i y = _mm_clmulepi64_si128(_mm_and_si128(x, low), k, 0x00);

	x = _mm_xor_si128(y, _mm_srli_si128(x, 4));
	y = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low), barrett, 0x10), low);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, _mm_clmulepi64_si128(y, barrett, 0x00)), 1);
}

static uint32_t one(const uint8_t *l3, uint32_t len, const struct sp_icrc_mask *mask)
{
	return reduced(folded(l3, NULL, len, mask, SP_ICRC_AFTER_ONES));
}

static uint32_t pieces(const uint8_t *l3, uint32_t head, const uint8_t *payload, uint32_t blocks,
		       const struct sp_icrc_mask *mask)
{
	const uint32_t before = one(l3, head, mask);

	return blocks ? reduced(folded(payload, NULL, 64 * blocks, &none, before)) : before;
}

static uint32_t copy(uint8_t *l3, uint32_t head, const uint8_t *payload, uint32_t len, const struct sp_icrc_mask *mask)
{
	return reduced(folded(payload, l3 + head, len, &none, one(l3, head, mask)));
}

/* The registers after n messages, and `more` bytes behind each. */
static inline void several(const uint8_t *const *l3, const uint32_t *len, uint32_t more, unsigned n,
			   const struct sp_icrc_mask *mask, uint32_t *after)
{
	unsigned i = 0;

	for (; i + 4 <= n; i += 4) {
		__m128i x[4];

		for (unsigned k = 0; k < 4; k++)
			x[k] = folded(l3[i + k], NULL, len[i + k] + more, mask, SP_ICRC_AFTER_ONES);
		for (unsigned k = 0; k < 4; k++)
			after[i + k] = reduced(x[k]);
	}
	for (; i < n; i++)
		after[i] = one(l3[i], len[i] + more, mask);
}

static uint32_t right(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask)
{
	uint32_t after[32], bits = 0;

	several(l3, len, 4, n, mask, after);
	for (unsigned i = 0; i < n; i++)
		bits |= (uint32_t)(after[i] == SP_ICRC_AFTER_OWN) << i;
	return bits;
}

static void run(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask,
		uint32_t *after)
{
	several(l3, len, 0, n, mask, after);
}

const struct sp_icrc_fold NAME(SP_ISA) = {one, pieces, right, run, copy};
