/* SPDX-License-Identifier: BSD-3-Clause */
/* Text in a signal handler, where printf() must not be called. Each appends at `to`, not beyond `end`, and returns the
 * new end of the text, without a NUL. */
#ifndef TESTBED_WORDS_H
#define TESTBED_WORDS_H

#include <stdint.h>

static inline char *sp_put(char *to, const char *end, const char *text)
{
	while (*text && to < end)
		*to++ = *text++;
	return to;
}

static inline char *sp_put_number(char *to, const char *end, uint64_t n, unsigned base)
{
	char digits[24];
	unsigned i = sizeof(digits);

	digits[--i] = '\0';
	do
		digits[--i] = "0123456789abcdef"[n % base];
	while (n /= base);
	return sp_put(to, end, digits + i);
}

#endif
