/* SPDX-License-Identifier: BSD-3-Clause */
/* Big-endian numbers of any alignment. */
#ifndef RELIABILITY_BYTES_H
#define RELIABILITY_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define SP_REL_NUMBERS(bits)                                                                                           \
	static inline uint##bits##_t sp_rel_get##bits(const uint8_t *from)                                             \
	{                                                                                                              \
		uint##bits##_t n;                                                                                      \
                                                                                                                       \
		memcpy(&n, from, sizeof(n));                                                                           \
		return be##bits##toh(n);                                                                               \
	}                                                                                                              \
	static inline void sp_rel_put##bits(uint8_t *to, uint##bits##_t n)                                             \
	{                                                                                                              \
		n = htobe##bits(n);                                                                                    \
		memcpy(to, &n, sizeof(n));                                                                             \
	}
SP_REL_NUMBERS(16)
SP_REL_NUMBERS(32)
SP_REL_NUMBERS(64)
#undef SP_REL_NUMBERS

#endif
