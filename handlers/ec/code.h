/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure codes of k data and m parity chunks: what they are made of, and which losses they survive. job.h has the work
 * on chunks. No clock, no I/O, no allocation. A code does not change after sp_ec_code_init(), and any number of threads
 * may use it.
 *
 * MDS: Reed-Solomon. Any m losses of k + m chunks can be repaired. matrix.h says how parity is made, which fixes the
 * format.
 * XOR: parity i is the XOR of the data chunks j with j mod m = i. One loss in each such group can be repaired.
 *
 * A submessage of fewer than k data chunks uses the shortened code of k' data chunks and m' = ceil(k' m / k) parity
 * chunks; XOR takes j modulo m'. All chunks have the same number of bytes, but for the last data chunk: it may be
 * shorter and counts as padded with zeros. Parity chunks have the full size.
 */
#ifndef EC_CODE_H
#define EC_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "matrix.h"

#define SP_EC_WORDS 4 /* words of a bitmap of chunks: bit j is data chunk j, bit k' + i is parity chunk i */

enum sp_ec_kind { SP_EC_MDS, SP_EC_XOR };

struct sp_ec_code {
	enum sp_ec_kind kind;
	unsigned k, m;
	const struct sp_ec_kernel *kernel;
	uint8_t *tables; /* MDS: of the kernel, by groups of rows */
	struct sp_ec_field field;
};

/* Bytes of memory that sp_ec_code_init() needs. 0: there is no such code. MDS has k, m >= 1 and k + m <= 255; XOR also
 * m <= k. */
size_t sp_ec_code_bytes(enum sp_ec_kind kind, unsigned k, unsigned m);
/* memory: 64-byte aligned, the caller's; it must outlive the code. -EINVAL. Takes 0.4 ms at most. Uses the kernel of
 * sp_isa_level(). */
int sp_ec_code_init(struct sp_ec_code *code, enum sp_ec_kind kind, unsigned k, unsigned m, void *memory);
/* The same with a kernel of the caller's choice. */
int sp_ec_code_init_by(struct sp_ec_code *code, const struct sp_ec_kernel *kernel, enum sp_ec_kind kind, unsigned k,
		       unsigned m, void *memory);

/* m': parity chunks of a submessage with so many data chunks, 1 to k; otherwise 0. */
unsigned sp_ec_parity(const struct sp_ec_code *code, unsigned data);

/* True: all data chunks can be recovered. Bits of `missing` beyond k' + m' have no effect. */
bool sp_ec_recoverable(const struct sp_ec_code *code, unsigned data, const uint64_t missing[SP_EC_WORDS]);

/* ---- for job.c ---- */
static inline bool sp_ec_bit(const uint64_t *bitmap, unsigned i)
{
	return bitmap[i / 64] >> (i % 64) & 1;
}

/* Rows that are made together from so many sources. Their tables take up to 13 us. */
static inline unsigned sp_ec_group(unsigned sources)
{
	return sources <= 128 ? SP_EC_GROUP : SP_EC_GROUP / 2;
}

/* Offset of the tables of the group that begins with row `row`. */
static inline size_t sp_ec_tables_at(unsigned sources, unsigned row)
{
	return (size_t)row * sources * SP_EC_TABLE;
}

/* Fills in the tables of rows [row, row + count) of `matrix`, which are a group. */
void sp_ec_tables(const struct sp_ec_code *code, const struct sp_ec_matrix *matrix, unsigned row, unsigned count,
		  uint8_t *tables);

#endif
