/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers drawn from a fuzzer's input: 0 once it is used up. */
#ifndef TESTS_FUZZ_DRAW_H
#define TESTS_FUZZ_DRAW_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t *draw_input; /* of the program */
extern size_t draw_left;

static inline uint8_t draw(void)
{
	return draw_left ? draw_left--, *draw_input++ : 0;
}

static inline uint64_t draw_bytes(unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | draw();
	return v;
}

/* Mostly `about`, sometimes something near it, seldom an extreme. */
static inline uint64_t draw_near(uint64_t about)
{
	static const uint64_t extremes[] = {0,		1,	    1ull << 31, (1ull << 31) + 1,
					    UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX};
	const uint8_t how = draw();

	return how < 0xEC ? about : how < 0xF4 ? about + how % 8 - 3 : how < 0xFC ? extremes[how % 8] : draw_bytes(8);
}

/* One time of `n`, at most 256. */
static inline int draw_one_of(unsigned n)
{
	return draw() >= 256 - 256 / n;
}

#endif
