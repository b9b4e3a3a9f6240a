/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), with 512 bits
 * at a time. A CRC is the remainder of the message polynomial, so any congruent polynomial gives the same CRC: 64 bytes
 * are multiplied by x^512 mod P and added to the next 64. Leading zeros do not change a polynomial: the message is
 * padded in front, so that it ends at a register's end. Padding bytes are masked in the load and never read.
 *
 * The headers are changed in the register: ones in the masked fields, and the CRC of the 8 leading bytes of ones added
 * to the first 4 bytes. Memory is not written: a wide load after narrow stores would stall on store forwarding.
 */
#include "icrc_fold.h"

#include <stddef.h>

#ifdef __x86_64__
#include <immintrin.h>

#define FOLD	  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,vpclmulqdq,pclmul,bmi2")))
#define FOLD_IN	  FOLD __attribute__((always_inline)) static inline
#define KEY(a, b) _mm512_set_epi64(b, a, b, a, b, a, b, a)
#define BY1	  KEY(0x154442BD4, 0x1C6E41596) /* shift by 64 bytes */

static const struct sp_icrc_mask start = {.ones = {SP_ICRC_AFTER_ONES & 0xFF, SP_ICRC_AFTER_ONES >> 8 & 0xFF,
						   SP_ICRC_AFTER_ONES >> 16 & 0xFF, SP_ICRC_AFTER_ONES >> 24}};

/* a * key + b */
FOLD_IN __m512i fold(__m512i a, __m512i key, __m512i b)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, key, 0x00), _mm512_clmulepi64_epi128(a, key, 0x11),
					 b, 0x96);
}

/* Sets the masked bits of the bytes at l3 + at. at may be negative: the mask has zeros there. */
FOLD_IN __m512i changed(__m512i bytes, const struct sp_icrc_mask *mask, ptrdiff_t at)
{
	const ptrdiff_t from = (ptrdiff_t)offsetof(struct sp_icrc_mask, ones) + at;
	const __m512i ones = _mm512_loadu_si512((const uint8_t *)mask + from);
	const __m512i first = _mm512_loadu_si512((const uint8_t *)&start + from);

	return _mm512_xor_si512(_mm512_or_si512(bytes, ones), first);
}

/* Folds n times 64 bytes from b on into a. */
FOLD_IN __m512i further(__m512i a, const uint8_t *b, uint32_t n)
{
	const __m512i by1 = BY1, by2 = KEY(0x1E88EF372, 0x14A7FE880), by4 = KEY(0x11542778A, 0x1322D1430);
	__m512i a0 = _mm512_setzero_si512(), a1 = a0, a2 = a0;

	if (n < 8) {
		for (; n; n--, b += 64)
			a = fold(a, by1, _mm512_loadu_si512(b));
		return a;
	}
	for (; n & 3; n--, b += 64)
		a = fold(a, by1, _mm512_loadu_si512(b));
	for (; n; n -= 4, b += 256) { /* four independent chains hide the latency */
		a0 = fold(a0, by4, _mm512_loadu_si512(b));
		a1 = fold(a1, by4, _mm512_loadu_si512(b + 64));
		a2 = fold(a2, by4, _mm512_loadu_si512(b + 128));
		a = fold(a, by4, _mm512_loadu_si512(b + 192));
	}
	a1 = fold(a0, by1, a1);
	return fold(a1, by2, fold(a2, by1, a));
}

/* Reduces 512 to 128 congruent bits: lanes times x^384, x^256, x^128 and 1. */
FOLD_IN __m128i lanes(__m512i a)
{
	const __m512i by =
		_mm512_set_epi64(0, 0, 0xCCAA009E, 0x1751997D0, 0x15A546366, 0xF1DA05AA, 0x174359406, 0x3DB1ECDC);
	__m512i t = _mm512_xor_si512(_mm512_clmulepi64_epi128(a, by, 0x00), _mm512_clmulepi64_epi128(a, by, 0x11));
	__m256i h;

	t = _mm512_mask_mov_epi64(t, 0xC0, a);
	h = _mm256_xor_si256(_mm512_castsi512_si256(t), _mm512_extracti64x4_epi64(t, 1));
	return _mm_xor_si128(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

/* Loads the first 64 or 128 of len bytes from l3, padded in front so that *n whole blocks of 64 remain. */
FOLD_IN __m512i first(const uint8_t *l3, uint32_t len, const struct sp_icrc_mask *mask, uint32_t *n)
{
	const uint32_t missing = -len & 63;
	const uint8_t *b = l3 - missing; /* address only: bytes before l3 are not read */
	__m512i a;

	*n = (len + missing) / 64 - 1;
	if (__builtin_expect(missing == 0, 1))
		return changed(_mm512_loadu_si512(b), mask, 0);
	a = changed(_mm512_maskz_loadu_epi8(~0ull << missing, b), mask, -(ptrdiff_t)missing);
	if (!*n)
		return a;
	--*n;
	return fold(a, BY1, changed(_mm512_loadu_si512(b + 64), mask, 64 - (ptrdiff_t)missing));
}

/* Folds len bytes to 128 congruent bits. */
FOLD_IN __m128i folded(const uint8_t *l3, uint32_t len, const struct sp_icrc_mask *mask)
{
	uint32_t n;
	const __m512i a = first(l3, len, mask, &n);

	return lanes(further(a, l3 + len - 64 * n, n));
}

/* Reduces 128 bits to the CRC register, the second of four words; for four messages at once. */
FOLD_IN __m512i reduced(__m512i x)
{
	const __m512i k34 = KEY(0x1751997D0, 0xCCAA009E), k5 = KEY(0x163CD6124, 0), low = _mm512_set1_epi64(0xFFFFFFFF);
	const __m512i barrett = KEY(0x1DB710641, 0x1F7011641);
	__m512i y = _mm512_clmulepi64_epi128(x, k34, 0x10); /* 128 to 96 bits, to 64 */

	x = _mm512_xor_si512(_mm512_bsrli_epi128(x, 8), y);
	y = _mm512_bsrli_epi128(x, 4);
	x = _mm512_xor_si512(_mm512_clmulepi64_epi128(_mm512_and_si512(x, low), k5, 0x00), y);
	y = _mm512_and_si512(_mm512_clmulepi64_epi128(_mm512_and_si512(x, low), barrett, 0x10), low);
	return _mm512_xor_si512(x, _mm512_clmulepi64_epi128(y, barrett, 0x00));
}

FOLD static uint32_t one(const uint8_t *l3, uint32_t len, const struct sp_icrc_mask *mask)
{
	const __m512i x = reduced(_mm512_castsi128_si512(folded(l3, len, mask)));

	return (uint32_t)_mm_extract_epi32(_mm512_castsi512_si128(x), 1);
}

FOLD static uint32_t pieces(const uint8_t *l3, uint32_t head, const uint8_t *payload, uint32_t blocks,
			    const struct sp_icrc_mask *mask)
{
	uint32_t n;
	__m512i a = first(l3, head, mask, &n);

	a = further(a, l3 + head - 64 * n, n);
	a = reduced(_mm512_castsi128_si512(lanes(further(a, payload, blocks))));
	return (uint32_t)_mm_extract_epi32(_mm512_castsi512_si128(a), 1);
}

/* For four packets at once, to share one chain of multiplications in the reduction. */
FOLD_IN __m512i four(const uint8_t *const *l3, const uint32_t *len, uint32_t more, const struct sp_icrc_mask *mask)
{
	__m512i x = _mm512_castsi128_si512(folded(l3[0], len[0] + more, mask));

	x = _mm512_inserti64x2(x, folded(l3[1], len[1] + more, mask), 1);
	x = _mm512_inserti64x2(x, folded(l3[2], len[2] + more, mask), 2);
	return reduced(_mm512_inserti64x2(x, folded(l3[3], len[3] + more, mask), 3));
}

FOLD static uint32_t right(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask)
{
	const __m512i own = _mm512_set1_epi32((int)SP_ICRC_AFTER_OWN);
	uint32_t bits = 0;
	unsigned i = 0;

	for (; i + 4 <= n; i += 4)
		bits |= _pext_u32(_mm512_cmpeq_epi32_mask(four(l3 + i, len + i, 4, mask), own), 0x2222) << i;
	for (; i < n; i++)
		bits |= (uint32_t)(one(l3[i], len[i] + 4, mask) == SP_ICRC_AFTER_OWN) << i;
	return bits;
}

FOLD static void run(const uint8_t *const *l3, const uint32_t *len, unsigned n, const struct sp_icrc_mask *mask,
		     uint32_t *after)
{
	unsigned i = 0;

	for (; i + 4 <= n; i += 4) {
		const __m512i x = _mm512_maskz_compress_epi32(0x2222, four(l3 + i, len + i, 0, mask));

		_mm_storeu_si128((__m128i *)(after + i), _mm512_castsi512_si128(x));
	}
	for (; i < n; i++)
		after[i] = one(l3[i], len[i], mask);
}

const struct sp_icrc_fold sp_icrc_fold512 = {one, pieces, right, run, NULL};

#endif
