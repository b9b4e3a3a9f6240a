/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matrices of the MDS code. With its points y_j = j for data chunk j and x_i = 255 - i for parity chunk i, which
 * are all different since k + m <= 255, parity i is the sum over j of data j / (x_i + y_j): a Cauchy matrix, of which
 * every square part can be inverted. Points depend on neither k nor m, so a shortened code is a corner of the full one.
 *
 * Every matrix here has the form  row weight * source weight / (row's point + source's point):  that of encoding, with
 * weights of 1, and that which makes e missing data chunks out of the others and e parity chunks. With E the points
 * of the missing data and R those of the parity chunks used, partial fractions of prod_E(z + y) / prod_R(z + x) give
 *     weight of the source at z = prod_E(z + y) / prod_R, not z(z + x),
 *     weight of the row at y    = prod_R(y + x) / prod_E, not y(y + y').
 * So nothing is inverted, and the missing chunks come out of one pass over the others, without syndromes in between.
 * Of short chunks the tables are worth keeping all the same (plan.h). 8 losses in (32,8) take 2.5 us, most of it for
 * ISA-L's tables, before 350 us of work on chunks of 64 KiB; 127 in (127,128) take 0.14 ms, in slices. (By elimination
 * the 8 take 2 us and 32 of them 119 us, before the tables.)
 */
#ifndef EC_MATRIX_H
#define EC_MATRIX_H

#include <stdint.h>

#define SP_EC_CHUNKS 255 /* of a submessage: data and parity */

/* Logarithms to base 2 in GF(2^8) modulo 0x11d. log[0] means nothing. */
struct sp_ec_field {
	uint8_t log[256], exp[3 * 255]; /* exp: also of a sum of three */
};
void sp_ec_field_init(struct sp_ec_field *field);

struct sp_ec_line {
	uint8_t point, weight; /* weight: its logarithm */
};
struct sp_ec_matrix {
	unsigned rows, sources;
	struct sp_ec_line row[SP_EC_CHUNKS], source[SP_EC_CHUNKS];
};

static inline uint8_t sp_ec_parity_point(unsigned i)
{
	return (uint8_t)(255 - i);
}

/* Logarithm of prod_over(z + .) / prod_under, not z(z + .); z is not among `over`. Of both there are `count`. */
uint8_t sp_ec_weight(const struct sp_ec_field *field, uint8_t z, const struct sp_ec_line *over,
		     const struct sp_ec_line *under, unsigned count);
/* The elements of row `row`, one for each source. */
void sp_ec_matrix_row(const struct sp_ec_field *field, const struct sp_ec_matrix *matrix, unsigned row, uint8_t *out);

#endif
