/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of erasure codes: what is kept of a decode serves the next one with the same losses. */
#include <sys/mman.h>
#include <zlib.h>

#include "../lib/ec_reference.h"
#include "../lib/suite.h"

/* One job for several codes, whole and shortened, for making parity, repairing and checking by turns, and now and then
 * left halfway: a plan that it has kept must not serve anything else. */
#define KEPT 3

struct kept {
	struct ec_code *code[KEPT]; /* the job is the first one's */
	struct ec_area area[KEPT][2];
};

static void kept_decode(struct kept *k, const struct sp_ec_code *code, struct ec_area *a, struct sp_random *random)
{
	const unsigned all = a->sub.data + a->rows;
	struct sp_ec_job *job = &k->code[0]->job;
	uint64_t missing[SP_EC_WORDS] = {0};
	const bool halfway = sp_random_next(random) % 4 == 0;

	for (unsigned n = sp_random_next(random) % (a->rows + 1); n; n--)
		ec_set(missing, (unsigned)(sp_random_next(random) % (n % 2 ? all : a->sub.data < 4 ? 1 : 4)));
	int r = sp_ec_decode_start(job, code, ec_sub(a), missing);
	CU_ASSERT_EQUAL_FATAL(r, sp_ec_recoverable(code, a->sub.data, missing) ? 0 : -ENODATA);
	if (r)
		return;
	for (unsigned i = 0; i < all; i++) /* what is missing must not be read */
		if (sp_ec_bit(missing, i))
			ec_fill(a, i, 0x3C);
	if (!halfway)
		ec_run(k->code[0], sp_random_next(random) % 2 ? UINT64_MAX : 5000);
	else
		sp_ec_job_step(job, sp_random_next(random) % 5000);
	for (unsigned i = 0; i < all; i++) {
		CU_ASSERT_FATAL(halfway || i >= a->sub.data || ec_is_right(a, i));
		memcpy(a->chunk[i], a->right[i], ec_length(a, i));
	}
}

static void kept_check(struct kept *k, const struct sp_ec_code *code, struct ec_area *a, struct sp_random *random)
{
	uint64_t check[SP_EC_WORDS] = {0};
	const unsigned i = a->sub.data + (unsigned)(sp_random_next(random) % a->rows);
	const bool wrong = sp_random_next(random) % 2;

	for (unsigned p = a->sub.data; p < a->sub.data + a->rows; p++)
		if (p == i || sp_random_next(random) % 2)
			ec_set(check, p);
	a->chunk[i][a->sub.bytes - 1] ^= wrong;
	CU_ASSERT_EQUAL_FATAL(sp_ec_verify_start(&k->code[0]->job, code, ec_sub(a), check), 0);
	ec_run(k->code[0], 50000);
	CU_ASSERT_EQUAL_FATAL(sp_ec_job_wrong(&k->code[0]->job), wrong);
	a->chunk[i][a->sub.bytes - 1] ^= wrong;
}

static void kept_encode(struct kept *k, const struct sp_ec_code *code, struct ec_area *a)
{
	for (unsigned i = a->sub.data; i < a->sub.data + a->rows; i++)
		ec_fill(a, i, 0x55);
	CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&k->code[0]->job, code, ec_sub(a)), 0);
	ec_run(k->code[0], 50000);
	for (unsigned i = 0; i < a->sub.data + a->rows; i++)
		CU_ASSERT_FATAL(ec_is_right(a, i));
}

static void a_plan_that_is_kept_serves_nothing_else_by(const struct sp_ec_kernel *kernel)
{
	static const struct {
		enum sp_ec_kind kind;
		unsigned k, m;
	} shape[KEPT] = {{SP_EC_MDS, 40, 14}, {SP_EC_XOR, 9, 4}, {SP_EC_MDS, 9, 4}};
	struct sp_random random;
	struct kept k;

	sp_random_seed(&random, 8, 1);
	for (unsigned i = 0; i < KEPT; i++) {
		k.code[i] = ec_code_by(kernel, shape[i].kind, shape[i].k, shape[i].m);
		for (unsigned part = 0; part < 2; part++)
			ec_area_new(&k.area[i][part], shape[i].kind, shape[i].k, shape[i].m, shape[i].k - part,
				    64 + 8 * i, part ? 7 : 64 + 8 * i, &random);
		for (unsigned part = 0; part < 2; part++)
			kept_encode(&k, &k.code[i]->code, &k.area[i][part]);
	}
	for (unsigned n = 0; n < 3000; n++) {
		const unsigned i = (unsigned)(sp_random_next(&random) % KEPT);
		struct ec_area *a = &k.area[i][sp_random_next(&random) % 2];

		switch (sp_random_next(&random) % 6) {
		case 0:
			kept_encode(&k, &k.code[i]->code, a);
			break;
		case 1:
			kept_check(&k, &k.code[i]->code, a, &random);
			break;
		default:
			kept_decode(&k, &k.code[i]->code, a, &random);
		}
		CU_ASSERT_FATAL(ec_guarded(a));
	}
	/* the same chunk lost, and then its group's parity, too */
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(sp_ec_decode_start(&k.code[0]->job, &k.code[1]->code, ec_sub(&k.area[1][0]),
						   (uint64_t[SP_EC_WORDS]){2 | (i % 2 ? 1 << 10 : 0)}),
				i % 2 ? -ENODATA : 0);
	for (unsigned i = 0; i < KEPT; i++) {
		ec_area_free(&k.area[i][0]);
		ec_area_free(&k.area[i][1]);
		ec_code_free(k.code[i]);
	}
}

TEST(a_plan_that_is_kept_serves_nothing_else)
{
	for (unsigned i = 0; ec_kernel(i); i++)
		a_plan_that_is_kept_serves_nothing_else_by(ec_kernel(i));
}

#define AGAIN 6 /* submessages */

#define AGAIN_BYTES 320

/* One submessage after the other, some left out, with the job just told how far on the next one is. */
static void again_by(const struct sp_ec_kernel *kernel, enum sp_ec_kind kind, bool decode)
{
	static uint8_t memory[AGAIN * 6 * AGAIN_BYTES], right[sizeof(memory)];
	struct ec_code *c = ec_code_by(kernel, kind, 4, 2);
	const uint64_t missing[SP_EC_WORDS] = {0x06};
	uint8_t *chunk[6];
	const struct sp_ec_submessage sub = {
		.data = 4, .bytes = AGAIN_BYTES, .last = AGAIN_BYTES, .cold = decode, .chunk = chunk};

	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i * i * 31 >> 5);
	for (unsigned s = 0; s < AGAIN; s++) {
		for (unsigned i = 0; i < 6; i++)
			chunk[i] = memory + (i < 4 ? s * 4 + i : AGAIN * 4 + s * 2 + i - 4) * AGAIN_BYTES;
		CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, &sub), 0);
		ec_run(c, UINT64_MAX);
	}
	memcpy(right, memory, sizeof(memory));
	for (unsigned s = 0; s < AGAIN; s++)
		if (s != 2 && decode)
			memset(memory + (s * 4 + 1) * AGAIN_BYTES, 0xEE, 2 * AGAIN_BYTES);
		else if (s != 2)
			memset(memory + (AGAIN * 4 + s * 2) * AGAIN_BYTES, 0xEE, 2 * AGAIN_BYTES);
	for (unsigned i = 0; i < 6; i++)
		chunk[i] = memory + (i < 4 ? i : AGAIN * 4 + i - 4) * AGAIN_BYTES;
	CU_ASSERT_EQUAL_FATAL(decode ? sp_ec_decode_start(&c->job, &c->code, &sub, missing)
				     : sp_ec_encode_start(&c->job, &c->code, &sub),
			      0);
	ec_run(c, 1);
	for (unsigned s = 1, on; s < AGAIN; s += on) {
		on = s == 1 ? 2 : 1;
		sp_ec_job_again(&c->job, (s == 3 ? 2 : 1) * 4 * AGAIN_BYTES, (s == 3 ? 2 : 1) * 2 * AGAIN_BYTES);
		ec_run(c, s % 2 ? 1 : UINT64_MAX);
	}
	CU_ASSERT_EQUAL(memcmp(memory, right, sizeof(memory)), 0);
	ec_code_free(c);
}

TEST(the_same_again_is_made_of_the_submessage_further_on)
{
	for (unsigned i = 0; ec_kernel(i); i++)
		for (unsigned n = 0; n < 4; n++)
			again_by(ec_kernel(i), n % 2 ? SP_EC_MDS : SP_EC_XOR, n / 2);
}

/* Five more after the first: as many as the budget lasts for, and no byte of the next one; then the others. */
static void alike_by(const struct sp_ec_kernel *kernel, enum sp_ec_kind kind)
{
	enum { SUBS = 6 };
	/* MDS: read once, and two rows */
	const uint64_t each = SP_EC_MORE + 4 * 4096 * (kind == SP_EC_MDS ? 3 : 1);
	struct ec_code *c = ec_code_by(kernel, kind, 4, 2);
	uint8_t *memory = aligned_alloc(64, SUBS * 6 * 4096), *right = malloc(SUBS * 6 * 4096), *chunk[6];
	const uint64_t missing[SP_EC_WORDS] = {0x03};
	const struct sp_ec_submessage sub = {.data = 4, .bytes = 4096, .last = 4096, .chunk = chunk};

	for (size_t i = 0; i < SUBS * 6 * 4096; i++)
		memory[i] = (uint8_t)(i * i * 31 >> 5);
	for (unsigned s = SUBS; s--;) {
		for (unsigned i = 0; i < 6; i++)
			chunk[i] = memory + (i < 4 ? s * 4 + i : SUBS * 4 + s * 2 + i - 4) * 4096;
		CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, &sub), 0);
		ec_run(c, UINT64_MAX);
	}
	memcpy(right, memory, SUBS * 6 * 4096);
	for (unsigned s = 0; s < SUBS; s++)
		memset(memory + s * 4 * 4096, 0xEE, 2 * 4096);
	CU_ASSERT_EQUAL_FATAL(sp_ec_decode_start(&c->job, &c->code, &sub, missing), 0);
	ec_run(c, UINT64_MAX);
	CU_ASSERT_EQUAL(sp_ec_job_repeat(&c->job, 4 * 4096, 2 * 4096, 5, each - 1), 0);
	CU_ASSERT_EQUAL(sp_ec_job_spent(&c->job), 0);
	unsigned done = sp_ec_job_repeat(&c->job, 4 * 4096, 2 * 4096, 5, 3 * each - 1);
	/* ISA-L's MDS takes one source after the other */
	CU_ASSERT_EQUAL(done, kind == SP_EC_MDS && kernel->sources == 1 ? 0 : 2);
	CU_ASSERT_EQUAL(sp_ec_job_spent(&c->job), done * each);
	CU_ASSERT_EQUAL(memcmp(memory, right, (done + 1) * 4 * 4096), 0);
	for (unsigned s = done + 1; s < SUBS; s++)
		CU_ASSERT_EQUAL(memory[s * 4 * 4096], 0xEE);
	if (done) {
		CU_ASSERT_EQUAL(sp_ec_job_repeat(&c->job, 4 * 4096, 2 * 4096, 3, UINT64_MAX), 3);
		CU_ASSERT_EQUAL(memcmp(memory, right, SUBS * 6 * 4096), 0);
	}
	free(memory);
	free(right);
	ec_code_free(c);
}

TEST(similar_submessages_in_a_row_are_repaired_within_the_budget)
{
	for (unsigned i = 0; ec_kernel(i); i++) {
		alike_by(ec_kernel(i), SP_EC_XOR);
		alike_by(ec_kernel(i), SP_EC_MDS);
	}
}

TEST(what_went_past_the_caches_stays_loose_until_it_is_settled)
{
	struct ec_code *c = ec_code_new(SP_EC_XOR, 4, 2);
	struct ec_area a;

	ec_area_new(&a, SP_EC_XOR, 4, 2, 4, 4096, 4096, NULL);
	for (unsigned past = 0; past < 2; past++) {
		a.sub.past = past;
		CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, ec_sub(&a)), 0);
		ec_run(c, UINT64_MAX);
		CU_ASSERT_EQUAL(c->job.loose, past);
	}
	a.sub.past = false; /* of a slice's submessages the last says nothing of those before */
	CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, ec_sub(&a)), 0);
	ec_run(c, UINT64_MAX);
	CU_ASSERT_TRUE(c->job.loose);
	sp_ec_job_settle(&c->job);
	CU_ASSERT_FALSE(c->job.loose);
	a.sub.past = true;
	CU_ASSERT_EQUAL_FATAL(sp_ec_encode_start(&c->job, &c->code, ec_sub(&a)), 0);
	ec_run(c, UINT64_MAX);
	sp_ec_job_settle(&c->job);
	CU_ASSERT_EQUAL(sp_ec_job_repeat(&c->job, 0, 0, 1, UINT64_MAX), 1); /* the same once more */
	CU_ASSERT_TRUE(c->job.loose);
	ec_area_free(&a);
	ec_code_free(c);
}

TEST(nothing_missing_is_nothing_to_do)
{
	struct ec_code *c = ec_code_new(SP_EC_MDS, 4, 4);
	const uint64_t parity[SP_EC_WORDS] = {0xF0}, beyond[SP_EC_WORDS] = {~0xFFull, ~0ull, ~0ull, ~0ull};
	uint8_t *none[8] = {NULL};
	const struct sp_ec_submessage sub = {4, 64, 64, none};

	CU_ASSERT_EQUAL(sp_ec_decode_start(&c->job, &c->code, &sub, NOTHING), 0);
	CU_ASSERT_FALSE(sp_ec_job_step(&c->job, 1));
	CU_ASSERT_EQUAL(sp_ec_decode_start(&c->job, &c->code, &sub, parity), 0);
	CU_ASSERT_FALSE(sp_ec_job_step(&c->job, 1));
	CU_ASSERT_EQUAL(sp_ec_decode_start(&c->job, &c->code, &sub, beyond), 0);
	CU_ASSERT_FALSE(sp_ec_job_step(&c->job, 1));
	CU_ASSERT_EQUAL(sp_ec_verify_start(&c->job, &c->code, &sub, NOTHING), 0);
	CU_ASSERT_FALSE(sp_ec_job_step(&c->job, 1));
	CU_ASSERT_FALSE(sp_ec_job_wrong(&c->job));
	ec_code_free(c);
}
