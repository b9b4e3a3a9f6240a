/* SPDX-License-Identifier: BSD-3-Clause */
/* Erasure codes: what parity is, what can be repaired, and that nothing else is touched. */
#include <isa-l/erasure_code.h>
#include <sys/mman.h>
#include <zlib.h>

#include "../lib/ec_reference.h"
#include "../lib/suite.h"
#include "ec_vectors.h"

static void vectors_by(const struct sp_ec_kernel *kernel)
{
	for (size_t v = 0; v < sizeof(vectors) / sizeof(*vectors); v++) {
		struct ec_code *c = ec_code_by(kernel, vectors[v].kind, vectors[v].k, vectors[v].m);
		const unsigned parity = sp_ec_parity(&c->code, vectors[v].data);
		struct ec_area a;

		ec_area_new(&a, vectors[v].kind, vectors[v].k, vectors[v].m, vectors[v].data, vectors[v].bytes,
			    vectors[v].last, NULL);
		CU_ASSERT_EQUAL_FATAL(parity, a.rows);
		CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, ec_sub(&a)), 0);
		ec_run(c, UINT64_MAX);
		CU_ASSERT_EQUAL(crc32(0, a.chunk[vectors[v].data + vectors[v].row], vectors[v].bytes), vectors[v].crc);
		CU_ASSERT_EQUAL(crc32(0, a.right[vectors[v].data + vectors[v].row], vectors[v].bytes), vectors[v].crc);
		ec_area_free(&a);
		ec_code_free(c);
	}
}

TEST(parity_is_what_an_independent_computation_says_by_each_kernel)
{
	for (unsigned i = 0; ec_kernel(i); i++)
		vectors_by(ec_kernel(i));
}

/* ---- the kernels of all levels that the processor has ---- */

/* Buffers of one allocation each, at any alignment, with some bytes before and after. */
enum { SUMS_SOURCES = 41, SUMS_BYTES = 1400, SUMS_ROOM = SUMS_BYTES / 64 * 64 + 320 };

typedef uint8_t sums_rows[SP_EC_GROUP][SUMS_ROOM];
static uint8_t sums_from[SUMS_SOURCES][SUMS_ROOM];
static sums_rows sums_to __attribute__((aligned(64))), sums_want;

static void sums_untouched(sums_rows rows)
{
	for (unsigned r = 0; r < SP_EC_GROUP; r++)
		memset(rows[r], 0x5A ^ (int)r, SUMS_ROOM);
}

/* By the definition of a sum, with ISA-L's table of one factor and its loop over bytes. */
static void sums_add(uint8_t factor, uint8_t *from, uint8_t *to, size_t len)
{
	uint8_t table[32];

	gf_vect_mul_init(factor, table);
	gf_vect_mad_base((int)len, 1, 0, table, from, to);
}

/* `count` sources from `first` on, of `rows` rows: the right bytes, and the others untouched. */
static void same_sums(struct sp_random *random, unsigned rows, unsigned first, unsigned count, size_t len)
{
	static uint8_t tables[SP_EC_TABLE * SP_EC_GROUP * SUMS_SOURCES] __attribute__((aligned(64)));
	uint8_t coefficient[SP_EC_GROUP * SUMS_SOURCES], *from[SUMS_SOURCES], *to[SP_EC_GROUP], *want[SP_EC_GROUP];
	const unsigned sources = first + count;
	const bool past = sp_random_next(random) % 2; /* if so: aligned, or they would not */
	const bool cold = sp_random_next(random) % 2;

	for (unsigned i = 0; i < rows * sources; i++)
		coefficient[i] = (uint8_t)sp_random_next(random);
	for (unsigned s = 0; s < count; s++)
		from[s] = sums_from[s] + sp_random_next(random) % 128;
	sums_untouched(sums_want);
	for (unsigned r = 0; r < rows; r++) {
		const size_t at = past ? 64 * (sp_random_next(random) % 2) : sp_random_next(random) % 128;

		to[r] = sums_to[r] + at;
		want[r] = sums_want[r] + at;
		if (!first)
			memset(want[r], 0, len);
		for (unsigned s = 0; s < count; s++)
			sums_add(coefficient[r * sources + first + s], from[s], want[r], len);
	}
	for (unsigned i = 0; ec_kernel(i); i++) {
		sums_untouched(sums_to);
		ec_kernel(i)->tables(sources, rows, coefficient, tables);
		ec_kernel(i)->combine(len, sources, rows, tables, first, count, from, to, past, cold);
		CU_ASSERT_EQUAL_FATAL(memcmp(sums_to, sums_want, sizeof(sums_to)), 0);
	}
	for (unsigned i = 0; ec_kernel(i); i++) {
		uint8_t *before = from[0];

		memset(want[0], 0, len);
		for (unsigned s = 0; s < count; s++)
			sums_add(1, from[s], want[0], len);
		ec_kernel(i)->exclusive(len, count, from, to[0], past);
		CU_ASSERT_EQUAL_FATAL(memcmp(sums_to, sums_want, sizeof(sums_to)), 0);
		from[0] = to[0]; /* the others added once more */
		ec_kernel(i)->exclusive(len, count, from, to[0], past);
		from[0] = before;
		memcpy(want[0], before, len);
		CU_ASSERT_EQUAL_FATAL(memcmp(sums_to, sums_want, sizeof(sums_to)), 0);
	}
}

TEST(all_kernels_make_the_sums_of_any_rows_sources_lengths_and_alignments)
{
	static const unsigned counts[] = {1, 2, 3, 7, 8, 9, 12, 13, 16, 17, 20, 21, 40};
	struct sp_random random;

	sp_random_seed(&random, 5, 5);
	for (unsigned s = 0; s < SUMS_SOURCES; s++)
		for (unsigned i = 0; i < SUMS_ROOM; i++)
			sums_from[s][i] = (uint8_t)sp_random_next(&random);
	for (unsigned rows = 1; rows <= SP_EC_GROUP; rows++)
		for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
			same_sums(&random, rows, 0, counts[i], 64 + sp_random_next(&random) % (SUMS_BYTES - 64));
			same_sums(&random, rows, 1, counts[i], 64 + sp_random_next(&random) % (SUMS_BYTES - 64));
		}
	for (size_t len = SP_EC_KERNEL_BYTES; len < SUMS_BYTES; len++)
		same_sums(&random, 1 + (unsigned)len % SP_EC_GROUP, (unsigned)len % 2, 1 + (unsigned)len % 11, len);
}

TEST(every_factor_is_applied_to_every_byte_as_defined)
{
	uint8_t bytes[256], product[256], *from = bytes, *to = product;
	uint64_t table[SP_EC_TABLE / 8];

	ec_field();
	for (unsigned i = 0; i < 256; i++)
		bytes[i] = (uint8_t)i;
	for (unsigned k = 0; ec_kernel(k); k++)
		for (unsigned c = 0; c < 256; c++) {
			ec_kernel(k)->tables(1, 1, &(uint8_t){(uint8_t)c}, (uint8_t *)table);
			ec_kernel(k)->combine(256, 1, 1, (uint8_t *)table, 0, 1, &from, &to, false, c % 2);
			CU_ASSERT_EQUAL_FATAL(memcmp(product, ec_product[c], 256), 0);
		}
}

TEST(a_code_is_made_by_the_kernel_of_the_level)
{
	uint8_t memory[SP_EC_TABLE] __attribute__((aligned(64)));
	struct sp_ec_code code;

	CU_ASSERT_EQUAL(sp_ec_code_init(&code, SP_EC_MDS, 1, 1, memory), 0);
	CU_ASSERT_PTR_EQUAL(code.kernel, sp_ec_kernel(sp_isa_level()));
	CU_ASSERT_PTR_NOT_NULL(sp_ec_kernel(sp_isa_best()));
#ifdef __x86_64__
	if (sp_isa_best() >= SP_ISA_AVX2) /* twice as wide where only the rest of the next level lacks */
		CU_ASSERT_PTR_EQUAL(sp_ec_kernel(SP_ISA_AVX2),
				    sp_isa_best() == SP_ISA_AVX2 && sp_isa_wide() ? &sp_ec_avx512 : &sp_ec_avx2);
#endif
	CU_ASSERT(sp_isa_best() + 1 == SP_ISA_LEVELS || !sp_ec_kernel(sp_isa_best() + 1));
}

/* ---- codes ---- */

TEST(there_are_codes_up_to_255_chunks_only)
{
	for (unsigned k = 0; k < 300; k++)
		for (unsigned m = 0; m < 300; m++) {
			const bool is = k >= 1 && m >= 1 && k + m <= 255;

			CU_ASSERT_EQUAL_FATAL(sp_ec_code_bytes(SP_EC_MDS, k, m) != 0, is);
			CU_ASSERT_EQUAL_FATAL(sp_ec_code_bytes(SP_EC_XOR, k, m) != 0, is && m <= k);
		}
	CU_ASSERT_EQUAL(sp_ec_code_bytes((enum sp_ec_kind)2, 4, 2), 0);
	CU_ASSERT_EQUAL(sp_ec_code_bytes(SP_EC_MDS, UINT32_MAX, 2), 0);
	CU_ASSERT_EQUAL(sp_ec_code_bytes(SP_EC_MDS, 2, UINT32_MAX), 0);
	CU_ASSERT_EQUAL(sp_ec_code_init(&(struct sp_ec_code){0}, SP_EC_MDS, 200, 56, NULL), -EINVAL);
}

TEST(a_submessage_of_another_code_is_refused)
{
	struct ec_code *c = ec_code_new(SP_EC_MDS, 4, 2);
	static const struct sp_ec_submessage bad[] = {{0, 64, 64, NULL},	 {5, 64, 64, NULL}, {4, 63, 63, NULL},
						      {4, 64, 65, NULL},	 {4, 64, 0, NULL},  {4, 0, 0, NULL},
						      {UINT32_MAX, 64, 64, NULL}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT_EQUAL(sp_ec_encode_start(&c->job, &c->code, &bad[i]), -EINVAL);
		CU_ASSERT_EQUAL(sp_ec_decode_start(&c->job, &c->code, &bad[i], NOTHING), -EINVAL);
		CU_ASSERT_EQUAL(sp_ec_verify_start(&c->job, &c->code, &bad[i], NOTHING), -EINVAL);
		CU_ASSERT_FALSE(sp_ec_job_step(&c->job, UINT64_MAX));
	}
	CU_ASSERT_EQUAL(sp_ec_parity(&c->code, 0), 0);
	CU_ASSERT_EQUAL(sp_ec_parity(&c->code, 5), 0);
	CU_ASSERT_FALSE(sp_ec_recoverable(&c->code, 0, NOTHING));
	CU_ASSERT_FALSE(sp_ec_recoverable(&c->code, 5, NOTHING));
	ec_code_free(c);
}

/* Whole chunks of 64 to 100 bytes; what is missing is filled with rubbish, parity that is missing cannot be read. */
static void every_loss_by(const struct sp_ec_kernel *kernel, enum sp_ec_kind kind, unsigned k, unsigned m,
			  unsigned data)
{
	struct ec_code *c = ec_code_by(kernel, kind, k, m);
	struct sp_random random;
	struct ec_area a;

	sp_random_seed(&random, k * 256 + m, data);
	ec_area_new(&a, kind, k, m, data, 64 + (k * 5 + m) % 37, 1 + (data * 23 + m) % 64, &random);
	CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, ec_sub(&a)), 0);
	ec_run(c, UINT64_MAX);
	for (unsigned i = 0; i < data + a.rows; i++)
		CU_ASSERT_FATAL(ec_is_right(&a, i));
	for (uint64_t pattern = 0; pattern < 1ull << (data + a.rows); pattern++) {
		const uint64_t beyond = ~0ull << (data + a.rows - 1) << 1, missing[4] = {pattern | beyond, ~0ull};
		const bool possible = ec_determined(kind, data, a.rows, missing);

		CU_ASSERT_EQUAL_FATAL(sp_ec_recoverable(&c->code, data, missing), possible);
		for (unsigned i = 0; i < data + a.rows; i++)
			if (pattern >> i & 1)
				ec_fill(&a, i, 0x3C);
		CU_ASSERT_EQUAL_FATAL(sp_ec_decode_start(&c->job, &c->code, ec_sub(&a), missing),
				      possible ? 0 : -ENODATA);
		if (possible)
			ec_run(c, UINT64_MAX);
		for (unsigned i = 0; i < data + a.rows; i++) {
			const bool made = possible && i < data;

			CU_ASSERT_FATAL(pattern >> i & 1 && !made ? ec_is_filled(&a, i, 0x3C) : ec_is_right(&a, i));
			memcpy(a.chunk[i], a.right[i], ec_length(&a, i));
		}
	}
	CU_ASSERT(ec_guarded(&a));
	ec_area_free(&a);
	ec_code_free(c);
}

static void every_loss(enum sp_ec_kind kind, unsigned k, unsigned m, unsigned data)
{
	for (unsigned i = 0; ec_kernel(i); i++)
		every_loss_by(ec_kernel(i), kind, k, m, data);
}

TEST(every_loss_of_a_small_code_is_repaired_or_refused)
{
	for (unsigned k = 1; k < 10; k++)
		for (unsigned m = 1; k + m <= 10; m++) {
			every_loss(SP_EC_MDS, k, m, k);
			if (m <= k)
				every_loss(SP_EC_XOR, k, m, k);
		}
}

TEST(every_loss_of_a_shortened_code_is_repaired_or_refused)
{
	for (unsigned data = 1; data < 8; data++) {
		every_loss(SP_EC_MDS, 8, 3, data);
		every_loss(SP_EC_XOR, 8, 3, data);
		every_loss(SP_EC_MDS, 20, 5, data);
		every_loss(SP_EC_XOR, 20, 5, data);
	}
}

/* A kernel that counts, in front of the other. */
static uint64_t work, largest, shortest;

static void counted_tables(unsigned sources, unsigned rows, const uint8_t *coefficient, uint8_t *tables)
{
	largest = rows * sources > largest ? rows * sources : largest;
	sp_ec_baseline.tables(sources, rows, coefficient, tables);
}

static void counted_combine(size_t len, unsigned sources, unsigned rows, const uint8_t *tables, unsigned first,
			    unsigned count, uint8_t *const *from, uint8_t *const *to, bool past, bool cold)
{
	work += (uint64_t)len * count * rows;
	shortest = len < shortest ? len : shortest;
	sp_ec_baseline.combine(len, sources, rows, tables, first, count, from, to, past, cold);
}

static const struct sp_ec_kernel counted = {.together = 255,
					    .sources = 8,
					    .strip = 4096,
					    .past = UINT64_MAX,
					    .tables = counted_tables,
					    .combine = counted_combine};

TEST(a_decode_in_slices_of_any_size_makes_the_same_and_works_no_more_than_asked)
{
	static const struct {
		unsigned k, m, data, lost;
		uint32_t bytes, last;
		bool cold;
	} cases[] = {{20, 7, 20, 7, 1000, 77, true},	   {32, 8, 31, 8, 65576, 65575, true},
		     {32, 8, 9, 3, 70001, 1, true},	   {127, 128, 127, 127, 128, 65, false},
		     {240, 15, 240, 15, 4096, 4095, true}, {32, 8, 31, 8, 30000, 29999, false}};
	static const uint64_t budgets[] = {0, 1, 777, 20000, 100000, SP_EC_SLICE, 3 * SP_EC_SLICE, UINT64_MAX};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ec_code *c = ec_code_by(&counted, SP_EC_MDS, cases[i].k, cases[i].m);
		unsigned before = UINT32_MAX;
		struct sp_random random;
		struct ec_area a;
		uint64_t all = 0;

		sp_random_seed(&random, i, 0);
		ec_area_new(&a, SP_EC_MDS, cases[i].k, cases[i].m, cases[i].data, cases[i].bytes, cases[i].last,
			    &random);
		for (unsigned p = a.sub.data; p < a.sub.data + a.rows; p++)
			memcpy(a.chunk[p], a.right[p], a.sub.bytes);
		for (size_t b = i == 1 || i == 4 ? 2 : 0; b < sizeof(budgets) / sizeof(*budgets); b++) {
			/* the least there is: of a group of rows a strip of some sources, and what would be left over
			 */
			const uint64_t group = cases[i].data > 128 ? 6 : 12,
				       rows = cases[i].lost < group ? cases[i].lost : group,
				       most = SP_EC_SOURCES + SP_EC_SOURCES / 2,
				       sources = cases[i].data < most ? cases[i].data : most,
				       block = SP_EC_STRIP + SP_EC_REST - 1,
				       least = rows * sources * (cases[i].bytes < block ? cases[i].bytes : block);
			const uint64_t bound = budgets[b] > least ? budgets[b] : least;
			uint64_t missing[SP_EC_WORDS] = {0};
			uint64_t spent = 0;
			unsigned slices = 0;
			bool more = true;

			a.sub.cold = cases[i].cold;
			for (unsigned n = 0; n < cases[i].lost; n++) { /* the short one is among them */
				const unsigned j = cases[i].data - 1 - n * cases[i].data / cases[i].lost;

				ec_set(missing, j);
				ec_fill(&a, j, 0x11);
			}
			sp_ec_job_init(&c->job, c->memory[1]); /* a plan that is kept saves work */
			CU_ASSERT_EQUAL_FATAL(sp_ec_decode_start(&c->job, &c->code, ec_sub(&a), missing), 0);
			shortest = UINT64_MAX;
			for (largest = 0; more; slices++) {
				work = 0;
				more = sp_ec_job_step(&c->job, budgets[b]);
				CU_ASSERT_FATAL(work <= bound);
				spent += sp_ec_job_spent(&c->job);
				CU_ASSERT(!more || sp_ec_job_spent(&c->job));
			}
			CU_ASSERT(!all || spent == all); /* however it is cut */
			all = spent;
			CU_ASSERT(largest <= 12 * 128);
			CU_ASSERT(shortest >= SP_EC_KERNEL_BYTES); /* below, kernels are slow */
			CU_ASSERT(slices <= before);
			before = slices;
			for (unsigned j = 0; j < a.sub.data + a.rows; j++)
				CU_ASSERT_FATAL(ec_is_right(&a, j));
			CU_ASSERT_FATAL(ec_guarded(&a));
		}
		CU_ASSERT_EQUAL(before, 1);
		ec_area_free(&a);
		ec_code_free(c);
	}
}

/* Chunks that end where memory ends, and others that begin where it begins: even reading beyond would be noticed. */
static void nothing_beyond_by(const struct sp_ec_kernel *kernel)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	static const uint32_t sizes[][2] = {{64, 64},	 {64, 1},      {65, 63},    {127, 64},
					    {1000, 999}, {4096, 4033}, {9000, 5000}};

	for (unsigned kind = SP_EC_MDS; kind <= SP_EC_XOR; kind++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
			for (unsigned front = 0; front < 2; front++) {
				struct ec_code *c = ec_code_by(kernel, (enum sp_ec_kind)kind, 20, 7);
				uint8_t *own[SP_EC_CHUNKS], *room[SP_EC_CHUNKS];
				const size_t span = (sizes[s][0] + page - 1) / page * page;
				const uint64_t missing[SP_EC_WORDS] = {1 << 19 | 1 << 3};
				struct ec_area a;

				ec_area_new(&a, (enum sp_ec_kind)kind, 20, 7, 20, sizes[s][0], sizes[s][1], NULL);
				for (unsigned i = 0; i < 27; i++) {
					room[i] = mmap(NULL, span + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
						       -1, 0);
					CU_ASSERT_NOT_EQUAL_FATAL(room[i], MAP_FAILED);
					CU_ASSERT_EQUAL_FATAL(mprotect(room[i] + page, span, PROT_READ | PROT_WRITE),
							      0);
					own[i] = a.chunk[i];
					a.chunk[i] = room[i] + page + (front ? 0 : span - ec_length(&a, i));
					if (i < 20)
						memcpy(a.chunk[i], a.right[i], ec_length(&a, i));
				}
				CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, ec_sub(&a)), 0);
				ec_run(c, 20000);
				ec_fill(&a, 3, 1);
				ec_fill(&a, 19, 1);
				CU_ASSERT_EQUAL_FATAL(sp_ec_decode_start(&c->job, &c->code, ec_sub(&a), missing), 0);
				ec_run(c, 20000);
				for (unsigned i = 0; i < 27; i++) {
					CU_ASSERT(ec_is_right(&a, i));
					a.chunk[i] = own[i];
					munmap(room[i], span + 2 * page);
				}
				ec_area_free(&a);
				ec_code_free(c);
			}
}

TEST(nothing_beyond_a_chunk_is_even_read)
{
	for (unsigned i = 0; ec_kernel(i); i++)
		nothing_beyond_by(ec_kernel(i));
}

TEST(a_change_of_any_byte_is_noticed_while_parity_is_left_over)
{
	for (unsigned kind = SP_EC_MDS; kind <= SP_EC_XOR; kind++) {
		struct ec_code *c = ec_code_new((enum sp_ec_kind)kind, 9, 3);
		uint64_t check[SP_EC_WORDS] = {0};
		struct ec_area a;

		ec_area_new(&a, (enum sp_ec_kind)kind, 9, 3, 7, 8300, 70, NULL);
		CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, ec_sub(&a)), 0);
		ec_run(c, UINT64_MAX);
		for (unsigned i = 0; i < a.rows; i++)
			ec_set(check, 7 + i);
		for (unsigned i = 0; i < 7 + a.rows; i++)
			for (int at = -1; at < 3; at++) {
				const uint32_t byte = at == 0	? 0
						      : at == 1 ? ec_length(&a, i) / 2
								: ec_length(&a, i) - 1;

				a.chunk[i][byte] ^= at < 0 ? 0 : (uint8_t)(1 << i % 8);
				CU_ASSERT_EQUAL_FATAL(sp_ec_verify_start(&c->job, &c->code, ec_sub(&a), check), 0);
				ec_run(c, at < 2 ? UINT64_MAX : 1000);
				CU_ASSERT_EQUAL(sp_ec_job_wrong(&c->job), at >= 0);
				a.chunk[i][byte] = a.right[i][byte];
			}
		CU_ASSERT(ec_guarded(&a));
		ec_area_free(&a);
		ec_code_free(c);
	}
}

TEST(damaged_parity_that_is_used_up_spreads_and_one_left_over_tells)
{
	struct ec_code *c = ec_code_new(SP_EC_MDS, 9, 3);
	const uint64_t missing[SP_EC_WORDS] = {1 << 2 | 1 << 5}, left[SP_EC_WORDS] = {1 << 11},
		       used[SP_EC_WORDS] = {3 << 9};
	struct ec_area a;

	ec_area_new(&a, SP_EC_MDS, 9, 3, 9, 256, 256, NULL);
	for (unsigned i = 9; i < 12; i++)
		memcpy(a.chunk[i], a.right[i], 256);
	a.chunk[9][77] ^= 1;
	CU_ASSERT_EQUAL_FATAL(sp_ec_decode_start(&c->job, &c->code, ec_sub(&a), missing), 0);
	ec_run(c, UINT64_MAX);
	CU_ASSERT_FALSE(ec_is_right(&a, 2));
	CU_ASSERT_FALSE(ec_is_right(&a, 5));
	CU_ASSERT_EQUAL_FATAL(sp_ec_verify_start(&c->job, &c->code, ec_sub(&a), used), 0);
	ec_run(c, UINT64_MAX);
	CU_ASSERT_FALSE(sp_ec_job_wrong(&c->job)); /* what they made agrees with them */
	CU_ASSERT_EQUAL_FATAL(sp_ec_verify_start(&c->job, &c->code, ec_sub(&a), left), 0);
	ec_run(c, UINT64_MAX);
	CU_ASSERT_TRUE(sp_ec_job_wrong(&c->job));
	ec_area_free(&a);
	ec_code_free(c);
}

/* A kernel that counts what it XORs, in front of the best. */
static unsigned calls;

static void counted_exclusive(size_t len, unsigned sources, uint8_t *const *from, uint8_t *to, bool past)
{
	const struct sp_ec_kernel *best = sp_ec_kernel(sp_isa_best());

	calls++;
	work += (uint64_t)len * sources;
	best->exclusive(len, sources, from, to, past);
}

static const struct sp_ec_kernel counted_xor = {
	.sources = 8, .strip = 4096, .past = UINT64_MAX, .tables = counted_tables, .exclusive = counted_exclusive};

/* A unit of work is a byte XORed, and what reading it takes. The last one's chunk may be short, and nothing whole then.
 */
static void xor_by_budget(struct ec_code *c, struct ec_area *a, uint64_t budget)
{
	const uint64_t missing[SP_EC_WORDS] = {0x0F}, all = (uint64_t)a->sub.data * a->sub.bytes;
	const bool whole = a->sub.last == a->sub.bytes && budget == UINT64_MAX;
	uint64_t spent = 0;
	bool more = true;

	for (unsigned j = 0; j < 4; j++)
		ec_fill(a, j, 0x22);
	CU_ASSERT_EQUAL_FATAL(sp_ec_decode_start(&c->job, &c->code, ec_sub(a), missing), 0);
	for (calls = 0; more;) {
		work = 0;
		more = sp_ec_job_step(&c->job, budget);
		spent += sp_ec_job_spent(&c->job);
		CU_ASSERT_FATAL(work <= sp_ec_job_spent(&c->job) + a->sub.bytes); /* a row is added to */
		CU_ASSERT_FATAL(sp_ec_job_spent(&c->job) <= (budget < UINT64_MAX ? budget + 4 * SP_EC_REST : budget) ||
				work <= 12 * (SP_EC_STRIP + SP_EC_REST));
	}
	CU_ASSERT(spent >= all);
	CU_ASSERT(whole ? calls == 4 : calls >= 4);
	CU_ASSERT(budget > 1 || calls > 4);
	for (unsigned i = 0; i < a->sub.data + a->rows; i++)
		CU_ASSERT_FATAL(ec_is_right(a, i));
	CU_ASSERT(ec_guarded(a));
}

TEST(an_xor_that_fits_its_slice_is_not_cut_up_and_any_other_is)
{
	static const uint32_t lasts[] = {20000, 19999, 1};
	static const uint64_t budgets[] = {0, 1, 60000, SP_EC_SLICE, UINT64_MAX};

	for (unsigned l = 0; l < 3; l++) {
		struct ec_code *c = ec_code_by(&counted_xor, SP_EC_XOR, 16, 4);
		struct sp_random random;
		struct ec_area a;

		sp_random_seed(&random, 7, l);
		ec_area_new(&a, SP_EC_XOR, 16, 4, 16, 20000, lasts[l], &random);
		for (unsigned p = 16; p < 20; p++)
			memcpy(a.chunk[p], a.right[p], a.sub.bytes);
		for (unsigned b = 0; b < sizeof(budgets) / sizeof(*budgets); b++)
			xor_by_budget(c, &a, budgets[b]);
		/* for a NIC without payload: as much to do, but nothing is written */
		ec_fill(&a, 0, 0x77);
		CU_ASSERT_EQUAL_FATAL(sp_ec_decode_start(&c->job, &c->code, ec_sub(&a), (uint64_t[4]){1}), 0);
		sp_ec_job_dry(&c->job);
		calls = 0;
		CU_ASSERT_FALSE(sp_ec_job_step(&c->job, UINT64_MAX));
		CU_ASSERT(sp_ec_job_spent(&c->job) >= 4 * 20000);
		CU_ASSERT_EQUAL(calls, 0);
		CU_ASSERT(ec_is_filled(&a, 0, 0x77));
		ec_area_free(&a);
		ec_code_free(c);
	}
}
