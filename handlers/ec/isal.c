/* SPDX-License-Identifier: BSD-3-Clause */
/* ISA-L's functions. Compiled once for each level, SP_ISA, that has no kernel of our own: ISA-L would look by itself
 * what the processor has, so its functions are called by the name of the level. */
#include "kernel.h"

#include <string.h>

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#define VECTORS	 256 /* that are XORed at once, with the result */
#define TOGETHER 63

#if defined(__AVX2__)
#define encode	    ec_encode_data_avx2
#define encode_more ec_encode_data_update_avx2
#define xor_isal    xor_gen_avx
#define NAME	    "isa-l-avx2"
#elif defined(__x86_64__)
#define encode	    ec_encode_data_sse
#define encode_more ec_encode_data_update_sse
#define xor_isal    xor_gen_sse
#define NAME	    "isa-l-sse"
#else
#define encode	    ec_encode_data
#define encode_more ec_encode_data_update
#define xor_isal    xor_gen
#define NAME	    "isa-l"
#endif
#define KERNEL_(level) sp_ec_##level
#define KERNEL(level)  KERNEL_(level)

/* ISA-L knows no const, and takes lengths as int: callers work in blocks. */
static void isal_tables(unsigned sources, unsigned rows, const uint8_t *coefficient, uint8_t *tables)
{
	ec_init_tables((int)sources, (int)rows, (uint8_t *)(uintptr_t)coefficient, tables);
}

/* All sources at once are fetched from memory side by side; one after the other, tables stay in registers. GB/s of
 * sources on an AMD EPYC with AVX-512, chunks of 64 KiB: 8 of them for 3 rows, 13 against 6 from memory, 18 against 23
 * from a cache; 32 for 8 rows, 5.2 against 4.4, 6.7 against 9.3. Of more the processor follows too few. */
static void isal_combine(size_t len, unsigned sources, unsigned rows, const uint8_t *tables, unsigned first,
			 unsigned count, uint8_t *const *from, uint8_t *const *to, bool past, bool cold)
{
	(void)past; /* ISA-L does as it likes */
	if (cold && count == sources && count <= TOGETHER) {
		encode((int)len, (int)sources, (int)rows, (uint8_t *)(uintptr_t)tables, (uint8_t **)(uintptr_t)from,
		       (uint8_t **)(uintptr_t)to);
		return;
	}
	for (unsigned r = 0; r < rows && !first; r++)
		memset(to[r], 0, len);
	for (unsigned s = 0; s < count; s++)
		encode_more((int)len, (int)sources, (int)rows, (int)(first + s), (uint8_t *)(uintptr_t)tables,
			    (uint8_t *)(uintptr_t)from[s], (uint8_t **)(uintptr_t)to);
}

typedef uint64_t vector __attribute__((vector_size(64), aligned(1), may_alias));

static void exclusive_any(size_t len, unsigned sources, uint8_t *const *from, uint8_t *to)
{
	size_t i = 0;

	for (; i + 256 <= len; i += 256) {
		const vector *v = (const vector *)(from[0] + i);
		vector a = v[0], b = v[1], c = v[2], d = v[3], *out = (vector *)(to + i);

		for (unsigned s = 1; s < sources; s++) {
			v = (const vector *)(from[s] + i);
			a ^= v[0];
			b ^= v[1];
			c ^= v[2];
			d ^= v[3];
		}
		out[0] = a;
		out[1] = b;
		out[2] = c;
		out[3] = d;
	}
	for (; i < len; i++) {
		uint8_t sum = from[0][i];

		for (unsigned s = 1; s < sources; s++)
			sum ^= from[s][i];
		to[i] = sum;
	}
}

/* ISA-L writes past the caches, which saves reading what is overwritten, but wants its buffers aligned. */
static void exclusive(size_t len, unsigned sources, uint8_t *const *from, uint8_t *to, bool past)
{
	uintptr_t all = len | (uintptr_t)to;
	void *array[VECTORS];

	(void)past;
	for (unsigned s = 0; s < sources; s++)
		all |= (uintptr_t)from[s];
	if (all % 64 || sources < 2 || sources >= VECTORS || from[0] == to) {
		exclusive_any(len, sources, from, to);
		return;
	}
	for (unsigned s = 0; s < sources; s++)
		array[s] = from[s];
	array[sources] = to;
	xor_isal((int)sources + 1, (int)len, array);
	__sync_synchronize(); /* such writes keep no order otherwise */
}

const struct sp_ec_kernel KERNEL(SP_ISA) = {.name = NAME,
					    .together = TOGETHER,
					    .sources = 1,
					    .strip = 16384,
					    .tables = isal_tables,
					    .combine = isal_combine,
					    .exclusive = exclusive};
