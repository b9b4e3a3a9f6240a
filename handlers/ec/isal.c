/* SPDX-License-Identifier: BSD-3-Clause */
/* ISA-L's functions, at the level baseline: ISA-L would look by itself what the processor has, so its functions are
 * called by the name of the level. */
#include "kernel.h"

#include <string.h>

#include <isa-l/erasure_code.h>

#include "exclusive.h"

#define TOGETHER 63

#if defined(__x86_64__)
#define encode	    ec_encode_data_sse
#define encode_more ec_encode_data_update_sse
#define NAME	    "isa-l-sse"
#else
#define encode	    ec_encode_data
#define encode_more ec_encode_data_update
#define NAME	    "isa-l"
#endif

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

const struct sp_ec_kernel sp_ec_baseline = {.name = NAME,
					    .together = TOGETHER,
					    .sources = 1,
					    .strip = 16384,
					    .past = UINT64_MAX,
					    .tables = isal_tables,
					    .combine = isal_combine,
					    .exclusive = sp_ec_exclusive};
