/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of QP numbers. */
#include "../../pipeline/rx/match.h"

#include <pthread.h>

#include "../lib/suite.h"

/* Contexts are opaque here: any two addresses will do. */
static char owner_bytes[4];
#define OWNER(i) ((struct sp_context *)&owner_bytes[i])

static bool is(struct sp_qp_table *t, uint32_t qpn, struct sp_context *context, unsigned index)
{
	const struct sp_qp *qp = sp_qp_table_find(t, qpn);
	return context ? qp && qp->context == context && qp->index == index : !qp;
}

static struct sp_qp_table *table_new(void)
{
	struct sp_qp_table *t = NULL;
	CU_ASSERT_EQUAL_FATAL(sp_qp_table_create(1, &t), 0);
	return t;
}

TEST(qp_numbers_0_and_ffffff_are_refused)
{
	struct sp_qp_table *t = table_new();
	struct sp_context *other = NULL;
	static const struct {
		uint32_t first, count;
		int expect;
	} claims[] = {
		{0, 1, -EINVAL},
		{0, 3, -EINVAL},
		{0xFFFFFF, 1, -EINVAL},
		{0xFFFFFE, 2, -EINVAL},
		{0x1000000, 1, -EINVAL},
		{UINT32_MAX, 1, -EINVAL},
		{100, 0, -EINVAL},
		{0xFFFF00, 256, -EINVAL},
		{1, UINT32_MAX, -EINVAL},
		{1, 0xFFFFFF, -EINVAL},
		{1, 1, 0},
		{2, 1, 0},
		{0xFFFFFE, 1, 0},
	};
	for (size_t i = 0; i < sizeof(claims) / sizeof(*claims); i++)
		CU_ASSERT_EQUAL(sp_qp_table_claim(t, claims[i].first, claims[i].count, 0, OWNER(0), &other),
				claims[i].expect);
	CU_ASSERT_PTR_NULL(other);
	static const uint32_t nobodys[] = {0, 3, 0xFFFFFD, 0xFFFFFF, 0x1000000, 0x1000002, UINT32_MAX};
	for (size_t i = 0; i < sizeof(nobodys) / sizeof(*nobodys); i++)
		CU_ASSERT_PTR_NULL(sp_qp_table_find(t, nobodys[i]));
	CU_ASSERT_TRUE(is(t, 2, OWNER(0), 0));
	CU_ASSERT_TRUE(is(t, 0xFFFFFE, OWNER(0), 0));
	sp_qp_table_destroy(t);
}

TEST(qp_lookup_finds_exactly_the_claimed_range)
{
	struct sp_qp_table *t = table_new();
	/* over a border between pages, and one far away */
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 4090, 20, 7, OWNER(0), NULL), 0);
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 4110, 1, 0, OWNER(1), NULL), 0);
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 0xABCDEF, 1, 65535, OWNER(1), NULL), 0);
	for (uint32_t q = 0; q < 70000; q++)
		if (!is(t, q, q >= 4090 && q < 4110 ? OWNER(0) : q == 4110 ? OWNER(1) : NULL, q == 4110 ? 0 : q - 4083))
			CU_FAIL("a wrong owner or index");
	CU_ASSERT_TRUE(is(t, 0xABCDEF, OWNER(1), 65535));
	CU_ASSERT_PTR_NULL(sp_qp_table_find(t, 0xABCDEE));
	sp_qp_table_destroy(t);
}

TEST(overlapping_claim_changes_nothing_and_names_the_owner)
{
	struct sp_qp_table *t = table_new();
	struct sp_context *other = NULL;
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 1000, 10, 0, OWNER(0), NULL), 0);
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 990, 11, 0, OWNER(1), &other), -EADDRINUSE);
	CU_ASSERT_PTR_EQUAL(other, OWNER(0));
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 1009, 5, 0, OWNER(1), NULL), -EADDRINUSE);
	for (uint32_t q = 980; q < 1020; q++)
		CU_ASSERT_TRUE(is(t, q, q >= 1000 && q < 1010 ? OWNER(0) : NULL, q - 1000));
	sp_qp_table_destroy(t);
}

TEST(indexes_beyond_16_bits_are_refused)
{
	struct sp_qp_table *t = table_new();
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 1000, 2, 0xFFFF, OWNER(0), NULL), -EINVAL);
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 1000, 65537, 0, OWNER(0), NULL), -EINVAL);
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 1000, 65536, 0, OWNER(0), NULL), 0);
	CU_ASSERT_TRUE(is(t, 1000 + 65535, OWNER(0), 65535));
	sp_qp_table_destroy(t);
}

/* As sp_qp_control() and publication do it. */
static int claim_next(struct sp_qp_table *t, struct sp_context *context, uint32_t *qpn)
{
	const int r = sp_qp_table_next(t, 0, 0, qpn);
	return r ? r : sp_qp_table_claim(t, *qpn, 1, 0xFFFF, context, NULL);
}

TEST(release_frees_all_of_one_context_and_only_those)
{
	struct sp_qp_table *t = table_new();
	uint32_t control;
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 5000, 5000, 0, OWNER(0), NULL), 0);
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 10000, 10, 0, OWNER(1), NULL), 0);
	CU_ASSERT_EQUAL(claim_next(t, OWNER(0), &control), 0);
	sp_qp_table_release(t, OWNER(0));
	for (uint32_t q = 4990; q < 10020; q++)
		if (!is(t, q, q >= 10000 && q < 10010 ? OWNER(1) : NULL, q - 10000))
			CU_FAIL("after release");
	CU_ASSERT_PTR_NULL(sp_qp_table_find(t, control));
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 5000, 10, 3, OWNER(1), NULL), 0);
	CU_ASSERT_TRUE(is(t, 5009, OWNER(1), 12));
	sp_qp_table_destroy(t);
}

TEST(at_most_sp_max_qps_are_claimed)
{
	struct sp_qp_table *t = table_new();
	uint32_t qpn;
	for (uint32_t i = 0; i < SP_MAX_QPS / 65536; i++)
		CU_ASSERT_EQUAL(sp_qp_table_claim(t, 65536 * (i + 1), 65536, 0, OWNER(i & 1), NULL), 0);
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 10, 1, 0, OWNER(2), NULL), -ENOSPC);
	CU_ASSERT_EQUAL(claim_next(t, OWNER(2), &qpn), -ENOSPC);
	CU_ASSERT_PTR_NULL(sp_qp_table_find(t, 10));
	sp_qp_table_release(t, OWNER(0));
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 10, 1, 0, OWNER(2), NULL), 0);
	sp_qp_table_destroy(t);
}

static unsigned pages(const struct sp_qp_page *page)
{
	unsigned n = 0;

	for (; page; page = page->next)
		n++;
	return n;
}

TEST(control_numbers_are_drawn_from_their_range_outside_of_what_to_avoid)
{
	struct sp_qp_table *t = table_new();
	uint32_t a;

	for (unsigned i = 0; i < 1000; i++) {
		CU_ASSERT_EQUAL(claim_next(t, OWNER(0), &a), 0);
		CU_ASSERT(a >= SP_QP_CONTROL_FIRST && a <= 0xFFFFFE);
		CU_ASSERT_TRUE(is(t, a, OWNER(0), 0xFFFF));
	}
	/* All but three numbers are to be avoided, and one of them is taken. */
	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 0xFFFFFE, 1, 0, OWNER(1), NULL), 0);
	sp_qp_table_release(t, OWNER(0));
	for (unsigned i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL(sp_qp_table_next(t, SP_QP_CONTROL_FIRST, 0xFFFFFC - SP_QP_CONTROL_FIRST, &a), 0);
		CU_ASSERT(a == 0xFFFFFC || a == 0xFFFFFD);
	}
	CU_ASSERT_EQUAL(sp_qp_table_next(t, SP_QP_CONTROL_FIRST, 0xFFFFFE - SP_QP_CONTROL_FIRST, &a), -ENOSPC);
	sp_qp_table_destroy(t);
}

TEST(a_row_is_found_wherever_there_is_room_for_it)
{
	struct sp_qp_table *t = table_new();
	const uint32_t end = SP_QP_CONTROL_FIRST, count = 4000,
		       step = 121; /* 65415 numbers at most in a row are free */
	uint32_t first, before = 0;

	for (uint32_t i = 0; i < 100; i++) {
		CU_ASSERT_EQUAL(sp_qp_table_row(t, count, &first), 0);
		CU_ASSERT(first >= SP_QP_ANY_FIRST && first + count <= end && first != before);
		before = first;
	}
	CU_ASSERT_EQUAL(sp_qp_table_row(t, 0, &first), -ENOSPC);
	CU_ASSERT_EQUAL(sp_qp_table_row(t, end - SP_QP_ANY_FIRST + 1, &first), -ENOSPC);
	CU_ASSERT_EQUAL(sp_qp_table_row(t, end - SP_QP_ANY_FIRST, &first), 0);
	CU_ASSERT_EQUAL(first, SP_QP_ANY_FIRST);
	/* One number in 121 is taken, up to the last 200: there alone is room for more than 120. */
	for (uint32_t at = SP_QP_ANY_FIRST; at < end - 200; at += step)
		CU_ASSERT_EQUAL(sp_qp_table_claim(t, at, 1, 0, OWNER(0), NULL), 0);
	for (uint32_t i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(sp_qp_table_row(t, 190, &first), 0);
		CU_ASSERT(first > end - 200 - step && first + 190 <= end);
	}
	CU_ASSERT_EQUAL(sp_qp_table_row(t, 400, &first), -ENOSPC);
	sp_qp_table_destroy(t);
}

TEST(numbers_follow_from_the_seed_and_only_from_it)
{
	struct sp_qp_table *t[4];
	uint32_t qp[4][2];

	for (unsigned i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_qp_table_create(i < 2 ? 7 : 8, &t[i]), 0);
		if (i == 3)
			CU_ASSERT_EQUAL(sp_generator_secret(&t[i]->random), 0);
		CU_ASSERT_EQUAL(sp_qp_table_row(t[i], 3, &qp[i][0]), 0);
		CU_ASSERT_EQUAL(sp_qp_table_next(t[i], 0, 0, &qp[i][1]), 0);
		sp_qp_table_destroy(t[i]);
	}
	CU_ASSERT_EQUAL(memcmp(qp[0], qp[1], sizeof(qp[0])), 0);
	CU_ASSERT(qp[2][0] != qp[0][0] && qp[2][1] != qp[0][1]);
	CU_ASSERT(qp[3][0] != qp[2][0] || qp[3][1] != qp[2][1]);
}

/* Numbers that lie far apart must not cost more and more memory as contexts come and go. */
TEST(pages_without_claims_go_once_the_workers_have_let_go_of_them)
{
	struct sp_qp_table *t = table_new();
	uint32_t a;

	CU_ASSERT_EQUAL(sp_qp_table_claim(t, 0x500, 3, 0, OWNER(1), NULL), 0);
	for (unsigned i = 0; i < 300; i++) {
		for (unsigned j = 0; j < 8; j++)
			CU_ASSERT_EQUAL(claim_next(t, OWNER(0), &a), 0);
		CU_ASSERT(pages(t->pages) > 4);
		sp_qp_table_release(t, OWNER(0));
		CU_ASSERT_EQUAL(pages(t->pages), 1);
		CU_ASSERT(pages(t->empty) > 4); /* a worker may still hold a slot */
		sp_qp_table_trim(t);
		CU_ASSERT_EQUAL(pages(t->empty), 0);
		CU_ASSERT_TRUE(is(t, 0x502, OWNER(1), 2));
	}
	sp_qp_table_destroy(t);
}

#define ROUNDS 300u

#define ROUND_QPS 400u

static _Atomic bool stop;

static void *looker(void *arg)
{
	struct sp_qp_table *t = arg;
	uintptr_t wrong = 0;
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		for (uint32_t i = 0; i < ROUNDS * ROUND_QPS; i++) {
			const struct sp_qp *qp = sp_qp_table_find(t, 8000 + i);
			wrong += qp && (qp->context != OWNER(0) || qp->index != i % ROUND_QPS);
		}
	return (void *)wrong;
}

/* Each number once: the contract wants a grace period before it is claimed again. */
TEST(lookup_beside_claim_and_release_sees_whole_entries)
{
	struct sp_qp_table *t = table_new();
	pthread_t thread;
	void *wrong;
	stop = false;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, looker, t), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		CU_ASSERT_EQUAL(sp_qp_table_claim(t, 8000 + i * ROUND_QPS, ROUND_QPS, 0, OWNER(0), NULL), 0);
		sp_qp_table_release(t, OWNER(0));
	}
	stop = true;
	pthread_join(thread, &wrong);
	CU_ASSERT_PTR_NULL(wrong);
	sp_qp_table_destroy(t);
}
