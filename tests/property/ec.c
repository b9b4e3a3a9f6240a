/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure codes at random: any code, any submessage of it, any losses, any slices, against the definition computed
 * slowly, by every kernel that this processor has. A failing seed is named, and reruns alone with SPINDLE_SEED;
 * SPINDLE_LONG=1 runs 50 times as many.
 */
#include "../lib/ec_reference.h"
#include "../lib/suite.h"

struct trial {
	uint64_t seed;
	struct sp_random random;
	const char *wrong;
};

static void expect(struct trial *t, bool right, const char *what)
{
	if (!right && !t->wrong)
		t->wrong = what;
}

static uint64_t below(struct trial *t, uint64_t n)
{
	return sp_random_next(&t->random) % n;
}

/* 1 to n, small numbers as likely as large ones */
static unsigned some(struct trial *t, unsigned n)
{
	const unsigned v = 1 + (unsigned)below(t, 1ull << below(t, 33 - (unsigned)__builtin_clz(n)));

	return v < n ? v : n;
}

static uint64_t budget(struct trial *t)
{
	return below(t, 3) ? UINT64_MAX : 1ull << (10 + below(t, 12));
}

/* Chunks from among [first, first + of). */
static void lose(struct trial *t, uint64_t *missing, unsigned first, unsigned of, unsigned count)
{
	while (count) {
		const unsigned i = first + (unsigned)below(t, of);

		if (!sp_ec_bit(missing, i)) {
			ec_set(missing, i);
			count--;
		}
	}
}

static void encode(struct trial *t, struct ec_code *c, struct ec_area *a)
{
	expect(t, sp_ec_encode_start(&c->job, &c->code, ec_sub(a)) == 0, "encoding starts");
	ec_run(c, budget(t));
	for (unsigned i = 0; i < a->sub.data + a->rows; i++)
		expect(t, ec_is_right(a, i), "parity is as defined, and data as they were");
}

static void decode(struct trial *t, struct ec_code *c, struct ec_area *a)
{
	const unsigned chunks = a->sub.data + a->rows;
	uint64_t missing[SP_EC_WORDS] = {0};

	switch (below(t, 3)) {
	case 0: /* as many as parity can make good */
		lose(t, missing, 0, chunks, a->rows);
		break;
	case 1: /* data, and never too much of them for an MDS code */
		lose(t, missing, 0, a->sub.data, a->rows < a->sub.data ? a->rows : a->sub.data);
		break;
	case 2:
		lose(t, missing, 0, chunks, (unsigned)below(t, a->rows + 2));
		break;
	}
	bool possible = ec_determined(a->kind, a->sub.data, a->rows, missing);
	expect(t, sp_ec_recoverable(&c->code, a->sub.data, missing) == possible, "what can be repaired is known");
	for (unsigned i = 0; i < chunks; i++)
		if (sp_ec_bit(missing, i))
			ec_fill(a, i, 0x77);
	expect(t, sp_ec_decode_start(&c->job, &c->code, ec_sub(a), missing) == (possible ? 0 : -ENODATA),
	       "decoding starts where it can");
	ec_run(c, budget(t));
	for (unsigned i = 0; i < chunks; i++) {
		const bool filled = sp_ec_bit(missing, i) && !(possible && i < a->sub.data);

		expect(t, filled ? ec_is_filled(a, i, 0x77) : ec_is_right(a, i),
		       "missing data are made, and nothing else is touched");
		memcpy(a->chunk[i], a->right[i], ec_length(a, i));
	}
}

/* At most as many wrong chunks as there are parity chunks to check by. */
static void verify(struct trial *t, struct ec_code *c, struct ec_area *a)
{
	const unsigned data = a->sub.data, most = a->kind == SP_EC_MDS ? a->rows : 1;
	const unsigned count = 1 + (unsigned)below(t, most), wrong = (unsigned)below(t, count + 1);
	uint64_t check[SP_EC_WORDS] = {0}, damaged[SP_EC_WORDS] = {0};

	lose(t, check, data, a->rows, a->kind == SP_EC_MDS ? count : a->rows);
	/* in data, or in parity that is checked */
	for (unsigned n = 0; n < wrong;) {
		const unsigned i = (unsigned)below(t, data + a->rows);

		if (sp_ec_bit(damaged, i) || (i >= data && !sp_ec_bit(check, i))) {
			if (n >= data) /* there may be no other */
				break;
			continue;
		}
		ec_set(damaged, i);
		a->chunk[i][below(t, ec_length(a, i))] ^= (uint8_t)(1 + below(t, 255));
		n++;
	}
	expect(t, sp_ec_verify_start(&c->job, &c->code, ec_sub(a), check) == 0, "verifying starts");
	ec_run(c, budget(t));
	expect(t, sp_ec_job_wrong(&c->job) == (wrong > 0), "damage is noticed, and only damage");
	for (unsigned i = 0; i < data + a->rows; i++)
		memcpy(a->chunk[i], a->right[i], ec_length(a, i));
}

static void trial(struct trial *t, enum sp_ec_kind kind, unsigned k, unsigned m, unsigned data, uint32_t bytes)
{
	struct ec_area a;

	ec_area_new(&a, kind, k, m, data, bytes, below(t, 2) ? bytes : 1 + (uint32_t)below(t, bytes), &t->random);
	for (unsigned i = 0; ec_kernel(i); i++) {
		struct ec_code *c = ec_code_by(ec_kernel(i), kind, k, m);

		for (unsigned p = data; p < data + a.rows; p++)
			ec_fill(&a, p, 0);
		encode(t, c, &a);
		for (unsigned n = 0; n < 3; n++)
			decode(t, c, &a);
		verify(t, c, &a);
		ec_code_free(c);
	}
	expect(t, ec_guarded(&a), "nothing beside the chunks is written");
	ec_area_free(&a);
}

static void seeds(uint64_t first, unsigned few, void (*one)(struct trial *))
{
	const char *only = getenv("SPINDLE_SEED");
	const uint64_t from = only ? strtoull(only, NULL, 0) : first;
	const uint64_t count = only ? 1 : getenv("SPINDLE_LONG") ? 50 * few : few;

	for (uint64_t seed = from; seed < from + count; seed++) {
		struct trial t = {.seed = seed};

		sp_random_seed(&t.random, seed, 6);
		one(&t);
		if (t.wrong) {
			printf("# seed %llu: %s\n", (unsigned long long)seed, t.wrong);
			CU_FAIL("a seed");
			return;
		}
	}
}

static void any(struct trial *t)
{
	const enum sp_ec_kind kind = below(t, 3) ? SP_EC_MDS : SP_EC_XOR;
	const unsigned k = some(t, 254);
	const unsigned m = some(t, kind == SP_EC_MDS || k > 127 ? 255 - k : k);
	const unsigned data = below(t, 2) ? k : some(t, k);
	const unsigned cells = data * ec_rows(k, m, data);

	/* so long that the slow computation takes a few milliseconds */
	trial(t, kind, k, m, data, 64 + (uint32_t)below(t, cells > 2000 ? 100 : cells > 100 ? 1000 : 20000));
}

TEST_CALL(any_code_repairs_any_losses_that_it_can, seeds(1, suite_times(500), any))

/* Codes that matter, and the largest: whatever m chunks are missing. */
static void large(struct trial *t)
{
	static const struct {
		unsigned k, m;
	} codes[] = {{32, 8}, {240, 15}, {127, 128}, {128, 127}, {64, 16}, {1, 254}, {254, 1}};
	const unsigned i = (unsigned)(t->seed % (sizeof(codes) / sizeof(*codes)));

	trial(t, SP_EC_MDS, codes[i].k, codes[i].m, codes[i].k, 64 + (uint32_t)below(t, 2) * 237);
}

TEST_CALL(large_codes_repair_any_m_losses, seeds(100000, 49, large))

static void grid(struct trial *t)
{
	const unsigned k = 1 + (unsigned)(t->seed % 16) * 16 % 254, m = 1 + (unsigned)(t->seed / 16 % 8) * 23;

	if (k + m > 255)
		return;
	trial(t, SP_EC_MDS, k, m, k, 64);
	if (m <= k)
		trial(t, SP_EC_XOR, k, m, k, 64);
}

TEST_CALL(every_code_of_a_grid_repairs_any_losses_that_it_can, seeds(200000 / 128 * 128, 128, grid))

TEST(long_chunks_with_a_short_last_one_are_repaired)
{
	static const uint32_t bytes[] = {4096, 4351, 4352, 65536};
	struct trial t = {.seed = 7};

	sp_random_seed(&t.random, t.seed, 6);
	for (unsigned i = 0; i < 8 && !t.wrong; i++)
		trial(&t, i & 1 ? SP_EC_XOR : SP_EC_MDS, 32, 8, i < 4 ? 32 : 17, bytes[i / 2]);
	if (t.wrong)
		printf("# %s\n", t.wrong);
	CU_ASSERT_PTR_NULL(t.wrong);
}
