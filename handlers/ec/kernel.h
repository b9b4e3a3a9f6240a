/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of erasure codes on bytes: GF(2^8) modulo 0x11d. All that the codes ask of a library is here, so that
 * another set of functions can take the place of ISA-L's. No allocation, no state; any alignment, and nothing is read
 * or written outside [0, len) of a buffer. Rows and sources do not overlap.
 */
#ifndef EC_KERNEL_H
#define EC_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define SP_EC_TABLE	   32 /* bytes of tables per coefficient, at most */
#define SP_EC_KERNEL_BYTES 64 /* shortest buffer that combine() takes */

struct sp_ec_kernel {
	/* coefficient: [rows][sources]; tables: SP_EC_TABLE * rows * sources bytes, for exactly this many of both. */
	void (*tables)(unsigned sources, unsigned rows, const uint8_t *coefficient, uint8_t *tables);
	/* to[r] = the sum over s of coefficient[r][s] * from[s]; len >= SP_EC_KERNEL_BYTES. */
	void (*combine)(size_t len, unsigned sources, unsigned rows, const uint8_t *tables, uint8_t *const *from,
			uint8_t *const *to);
	/* to[r] += coefficient[r][source] * from */
	void (*add)(size_t len, unsigned sources, unsigned rows, unsigned source, const uint8_t *tables,
		    const uint8_t *from, uint8_t *const *to);
	/* to = the XOR of the sources, of which there is at least one; the first may be `to`. */
	void (*exclusive)(size_t len, unsigned sources, uint8_t *const *from, uint8_t *to);
};

extern const struct sp_ec_kernel sp_ec_isal;

#endif
