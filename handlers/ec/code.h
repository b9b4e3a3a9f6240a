/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure codes of k data and m parity chunks: what they are made of, and which losses they survive. The work on chunks
 * is in job.h, but for parity that grows with each data chunk (sp_ec_update). No clock, no I/O, no allocation. A code
 * does not change after sp_ec_code_init, and any number of threads may use it.
 *
 * MDS: Reed-Solomon, any m losses of k + m chunks are repaired (matrix.h says how parity is made, and so the format).
 * XOR: parity i is the XOR of the data chunks j with j mod m = i; repairs one loss in each such group.
 *
 * A submessage of fewer than k data chunks uses the shortened code: of k' data chunks and m' = ceil(k' m / k) parity
 * chunks; XOR takes j modulo m'. All chunks have the same number of bytes, but for the last data chunk, which may be
 * shorter and counts as padded with zeros. Parity chunks are full size.
 */
#ifndef EC_CODE_H
#define EC_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "matrix.h"

#define SP_EC_WORDS 4  /* of a bitmap of chunks: bit j is data chunk j, bit k' + i parity chunk i */
#define SP_EC_GROUP 12 /* rows made at once, at most: a multiple of the 6 that ISA-L makes */

enum sp_ec_kind { SP_EC_MDS, SP_EC_XOR };

struct sp_ec_code {
	enum sp_ec_kind kind;
	unsigned k, m;
	const struct sp_ec_kernel *kernel;
	uint8_t *tables; /* MDS: the kernel's, by groups of rows */
	struct sp_ec_field field;
};

/* Bytes of memory that sp_ec_code_init wants; 0: there is no such code, which are MDS with k, m >= 1 and k + m <= 255,
 * and of these XOR with m <= k. */
size_t sp_ec_code_bytes(enum sp_ec_kind kind, unsigned k, unsigned m);
/* memory: 64-byte aligned, the caller's, to outlive the code. -EINVAL. Takes 0.4 ms at worst. */
int sp_ec_code_init(struct sp_ec_code *code, enum sp_ec_kind kind, unsigned k, unsigned m, void *memory);

/* m', parity chunks of a submessage with so many data chunks, 1 to k; 0: of none such. */
unsigned sp_ec_parity(const struct sp_ec_code *code, unsigned data);

/* Can all data chunks be had? Bits of `missing` beyond k' + m' mean nothing. */
bool sp_ec_recoverable(const struct sp_ec_code *code, unsigned data, const uint64_t missing[SP_EC_WORDS]);

/*
 * Streaming: adds `len` bytes at offset `at` of data chunk j of a submessage of `data` chunks to its parity chunks,
 * which were zero before the first; any parts in any order, each once. A submessage at once (sp_ec_encode_start) is
 * better wherever its data are there together: GB/s of data from memory, chunks of 64 KiB, one core of an AMD EPYC with
 * AVX-512: (4,2) 9 streaming, 17 at once; (8,4) 7.5, 11.5; (32,8) 4.6, 5.6 where the machine was busier. With more or
 * shorter chunks it makes no difference, for a job takes one source after the other too.
 */
void sp_ec_update(const struct sp_ec_code *code, unsigned data, unsigned j, const uint8_t *from, size_t at, size_t len,
		  uint8_t *const *parity);

/* ---- for job.c ---- */
static inline bool sp_ec_bit(const uint64_t *bitmap, unsigned i)
{
	return bitmap[i / 64] >> (i % 64) & 1;
}

/* Rows made at once of so many sources; their tables take up to 13 us. */
static inline unsigned sp_ec_group(unsigned sources)
{
	return sources <= 128 ? SP_EC_GROUP : SP_EC_GROUP / 2;
}

/* Where tables of the group that begins with row `row` are. */
static inline size_t sp_ec_tables_at(unsigned sources, unsigned row)
{
	return (size_t)row * sources * SP_EC_TABLE;
}

/* Fills in the tables of rows [row, row + count), a group, of `matrix`. */
void sp_ec_tables(const struct sp_ec_code *code, const struct sp_ec_matrix *matrix, unsigned row, unsigned count,
		  uint8_t *tables);

#endif
