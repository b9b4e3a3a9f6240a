/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matrices of the MDS code. Data chunk j has the point y_j = j, parity chunk i the point x_i = 255 - i. All are
 * different, since k + m <= 255. Parity i is the sum over j of data j / (x_i + y_j): a Cauchy matrix, of which every
 * square part can be inverted. Points depend on neither k nor m, so a shortened code is a corner of the full one.
 *
 * Every matrix here has the form row weight * source weight / (row's point + source's point). That holds for encoding,
 * with weights of 1, and for making e missing data chunks from the others and e parity chunks. With E the points of the
 * missing data, and R those of the parity chunks used, partial fractions of prod_E(z + y) / prod_R(z + x) give
 *     weight of the source at z = prod_E(z + y) / prod_R, not z(z + x),
 *     weight of the row at y = prod_R(y + x) / prod_E, not y(y + y').
 * So nothing is inverted, and one pass over the other chunks gives the missing ones, without syndromes. With short
 * chunks it still pays to hold the tables (plan.h). 8 losses in (32,8) take 2.5 us, mostly for ISA-L's tables, before
 * 350 us of work on chunks of 64 KiB; 127 in (127,128) take 0.14 ms, in slices. (By elimination the 8 take 2 us and 32
 * of them 119 us, before the tables.)
 */
#ifndef EC_MATRIX_H
#define EC_MATRIX_H

#include <stdint.h>

#define SP_EC_CHUNKS 255 /* chunks of a submessage, data and parity */

/* Logarithms to base 2 in GF(2^8) modulo 0x11d. log[0] means nothing. */
struct sp_ec_field {
	uint8_t log[256], exp[3 * 255]; /* exp: also of the sum of three logarithms */
};
void sp_ec_field_init(struct sp_ec_field *field);

struct sp_ec_line {
	uint8_t point, weight; /* weight: as a logarithm */
};
struct sp_ec_matrix {
	unsigned rows, sources;
	struct sp_ec_line row[SP_EC_CHUNKS], source[SP_EC_CHUNKS];
};

static inline uint8_t sp_ec_parity_point(unsigned i)
{
	return (uint8_t)(255 - i);
}

/* Logarithm of prod_over(z + .) / prod_under, not z(z + .). z is not in `over`. Both have `count` elements. */
uint8_t sp_ec_weight(const struct sp_ec_field *field, uint8_t z, const struct sp_ec_line *over,
		     const struct sp_ec_line *under, unsigned count);
/* The elements of a row of the matrix, one per source. */
void sp_ec_matrix_row(const struct sp_ec_field *field, const struct sp_ec_matrix *matrix, unsigned row, uint8_t *out);

#endif
