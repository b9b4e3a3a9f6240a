/* SPDX-License-Identifier: BSD-3-Clause */
#include "code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t sp_ec_code_bytes(enum sp_ec_kind kind, unsigned k, unsigned m)
{
	if (!k || !m || k > SP_EC_CHUNKS || m > SP_EC_CHUNKS - k)
		return 0;
	if (kind == SP_EC_XOR)
		return m <= k ? 64 : 0; /* XOR needs no tables, but 0 means that there is no such code */
	return kind == SP_EC_MDS ? (size_t)k * m * SP_EC_TABLE : 0;
}

void sp_ec_tables(const struct sp_ec_code *code, const struct sp_ec_matrix *matrix, unsigned row, unsigned count,
		  uint8_t *tables)
{
	uint8_t coefficient[SP_EC_GROUP * SP_EC_CHUNKS];

	for (unsigned r = 0; r < count; r++)
		sp_ec_matrix_row(&code->field, matrix, row + r, coefficient + (size_t)r * matrix->sources);
	code->kernel->tables(matrix->sources, count, coefficient, tables + sp_ec_tables_at(matrix->sources, row));
}

int sp_ec_code_init_by(struct sp_ec_code *code, const struct sp_ec_kernel *kernel, enum sp_ec_kind kind, unsigned k,
		       unsigned m, void *memory)
{
	struct sp_ec_matrix encode = {.rows = m, .sources = k};
	const unsigned group = sp_ec_group(k);

	if (!sp_ec_code_bytes(kind, k, m))
		return -EINVAL;
	*code = (struct sp_ec_code){.kind = kind, .k = k, .m = m, .kernel = kernel, .tables = memory};
	sp_ec_field_init(&code->field);
	if (kind == SP_EC_XOR)
		return 0;
	for (unsigned j = 0; j < k; j++)
		encode.source[j].point = (uint8_t)j;
	for (unsigned i = 0; i < m; i++)
		encode.row[i].point = sp_ec_parity_point(i);
	for (unsigned i = 0; i < m; i += group)
		sp_ec_tables(code, &encode, i, m - i < group ? m - i : group, code->tables);
	return 0;
}

int sp_ec_code_init(struct sp_ec_code *code, enum sp_ec_kind kind, unsigned k, unsigned m, void *memory)
{
	return sp_ec_code_init_by(code, sp_ec_kernel(sp_isa_level()), kind, k, m, memory);
}

unsigned sp_ec_parity(const struct sp_ec_code *code, unsigned data)
{
	if (data >= code->k) /* the common case */
		return data == code->k ? code->m : 0;
	return (data * code->m + code->k - 1) / code->k;
}

bool sp_ec_recoverable(const struct sp_ec_code *code, unsigned data, const uint64_t missing[SP_EC_WORDS])
{
	const unsigned parity = sp_ec_parity(code, data);
	uint64_t groups[SP_EC_WORDS] = {0}; /* groups that have lost data */
	unsigned lost = 0;

	if (!parity)
		return false;
	if (code->kind == SP_EC_MDS) { /* as many parity chunks are present as data chunks are missing */
		for (unsigned i = 0; i < data + parity; i += 64)
			lost += (unsigned)__builtin_popcountll(
				missing[i / 64] & (data + parity - i < 64 ? (1ull << (data + parity - i)) - 1 : ~0ull));
		return lost <= parity;
	}
	for (unsigned word = 0, first = 0; word * 64 < data; word++)
		for (uint64_t bits = missing[word]; bits; bits &= bits - 1) {
			const unsigned j = word * 64 + (unsigned)__builtin_ctzll(bits);
			unsigned i;

			if (j >= data)
				break;
			while (j - first >= parity) /* a division takes as long as many of these steps */
				first += parity;
			i = j - first;
			if (sp_ec_bit(groups, i) || sp_ec_bit(missing, data + i))
				return false;
			groups[i / 64] |= 1ull << (i % 64);
		}
	return true;
}
