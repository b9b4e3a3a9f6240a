/* SPDX-License-Identifier: BSD-3-Clause */
#include "matrix.h"

void sp_ec_field_init(struct sp_ec_field *field)
{
	unsigned x = 1;

	field->log[0] = 0;
	for (unsigned i = 0; i < 255; i++) {
		field->exp[i] = field->exp[255 + i] = field->exp[510 + i] = (uint8_t)x;
		field->log[x] = (uint8_t)i;
		x = x << 1 ^ (x & 0x80 ? 0x11d : 0);
	}
}

uint8_t sp_ec_weight(const struct sp_ec_field *field, uint8_t z, const struct sp_ec_line *over,
		     const struct sp_ec_line *under, unsigned count)
{
	unsigned sum = 255 * count; /* what is taken away below is less */

	for (unsigned i = 0; i < count; i++)
		sum += field->log[z ^ over[i].point] - (unsigned)field->log[z ^ under[i].point]; /* z itself: 0 */
	return (uint8_t)(sum % 255);
}

void sp_ec_matrix_row(const struct sp_ec_field *field, const struct sp_ec_matrix *matrix, unsigned row, uint8_t *out)
{
	const struct sp_ec_line r = matrix->row[row];

	for (unsigned s = 0; s < matrix->sources; s++) {
		const struct sp_ec_line *source = &matrix->source[s];
		const unsigned log = 255u + r.weight + source->weight - field->log[r.point ^ source->point];

		out[s] = field->exp[log];
	}
}
