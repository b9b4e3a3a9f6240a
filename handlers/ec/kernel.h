/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of erasure codes on bytes: GF(2^8) modulo 0x11d. All that the codes ask of a library is here, so that
 * one set of functions can take the place of another. No allocation, no state; any alignment, and nothing is read or
 * written outside [0, len) of a buffer. Rows and sources do not overlap.
 */
#ifndef EC_KERNEL_H
#define EC_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../isa/isa.h"

#define SP_EC_GROUP	   12 /* rows made at once, at most: a multiple of the 6 that ISA-L makes */
#define SP_EC_TABLE	   32 /* bytes of tables per coefficient, at most */
#define SP_EC_KERNEL_BYTES 64 /* shortest buffer that combine() takes */

struct sp_ec_kernel {
	const char *name;
	/* How combine() had better be called: with all sources if they come from memory and are no more than
	 * `together`; else with at least `sources` of them, and `strip` bytes. */
	unsigned together, sources, strip;
	uint64_t past;	      /* what is made of this many bytes of data had better always be written past the caches */
	unsigned coefficient; /* bytes of tables that one takes; 0: SP_EC_TABLE */
	/* coefficient: [rows][sources]; tables: SP_EC_TABLE * rows * sources bytes, 8-byte aligned, for exactly this
	 * many of both. rows <= SP_EC_GROUP, here and below. */
	void (*tables)(unsigned sources, unsigned rows, const uint8_t *coefficient, uint8_t *tables);
	/*
	 * to[r] = the sum over s in [first, first + count) of coefficient[r][s] * from[s - first], added to what is
	 * there unless first is 0. count >= 1, len >= SP_EC_KERNEL_BYTES. past: better written past the caches, which
	 * saves fetching what is overwritten; such writes keep no order: the caller sees to that. cold: the sources
	 * come from memory.
	 */
	void (*combine)(size_t len, unsigned sources, unsigned rows, const uint8_t *tables, unsigned first,
			unsigned count, uint8_t *const *from, uint8_t *const *to, bool past, bool cold);
	/* to = the XOR of the sources, of which there is at least one; the first may be `to`. */
	void (*exclusive)(size_t len, unsigned sources, uint8_t *const *from, uint8_t *to, bool past);
};

/* baseline is ISA-L's, avx2 and avx512 are shuffles of vectors of 32 and 64 bytes, gfni is for the level avx512. */
extern const struct sp_ec_kernel sp_ec_baseline, sp_ec_avx2, sp_ec_avx512, sp_ec_gfni;
/* That of a level; NULL: the processor lacks it. A processor whose best level is avx2 may have AVX-512 without GFNI:
 * then this level's is sp_ec_avx512. */
const struct sp_ec_kernel *sp_ec_kernel(enum sp_isa_level level);

#endif
