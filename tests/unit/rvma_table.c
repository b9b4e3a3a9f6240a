/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of mailboxes, against a plain model, and how many cache lines a look-up touches. */
#include "../../handlers/rvma/table.h"
#include "../lib/suite.h"

#define NOTHING UINT32_MAX

static uint64_t state = 0x9E3779B97F4A7C15ull;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545F4914F6CDD1Dull;
}

static struct sp_rvma_table table;

static void make(uint32_t entries, uint64_t seed)
{
	const size_t bytes = sp_rvma_table_bytes(entries);
	void *memory = aligned_alloc(64, bytes);

	CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
	CU_ASSERT_EQUAL(bytes % 64, 0);
	memset(memory, 0, bytes);
	sp_rvma_table_init(&table, entries, seed, memory);
}

static void done(void)
{
	free(table.line);
}

TEST(a_mailbox_is_found_by_all_its_64_bits_and_no_others)
{
	const uint64_t mailbox = 0x11FF0011;

	make(64, 7);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, mailbox), NOTHING);
	CU_ASSERT_EQUAL(sp_rvma_table_add(&table, mailbox, 5), 0);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, mailbox), 5);
	for (unsigned bit = 0; bit < 64; bit++)
		CU_ASSERT_EQUAL(sp_rvma_table_find(&table, mailbox ^ 1ull << bit), NOTHING);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, mailbox + 0x20), NOTHING);
	done();
}

TEST(mailboxes_0_and_all_ones_are_like_any_other)
{
	make(4, 0);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, 0), NOTHING);
	CU_ASSERT_EQUAL(sp_rvma_table_remove(&table, 0), -ENOENT);
	CU_ASSERT_EQUAL(sp_rvma_table_add(&table, 0, 0), 0);
	CU_ASSERT_EQUAL(sp_rvma_table_add(&table, UINT64_MAX, UINT32_MAX - 1), 0);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, 0), 0);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, UINT64_MAX), UINT32_MAX - 1);
	CU_ASSERT_EQUAL(sp_rvma_table_remove(&table, 0), 0);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, 0), NOTHING);
	CU_ASSERT_EQUAL(sp_rvma_table_find(&table, UINT64_MAX), UINT32_MAX - 1);
	done();
}

TEST(a_second_entry_is_refused_and_so_is_one_too_many)
{
	for (uint32_t entries = 1; entries < 40; entries++) {
		make(entries, entries);
		for (uint32_t i = 0; i < entries; i++) {
			CU_ASSERT_EQUAL(sp_rvma_table_add(&table, i, i), 0);
			CU_ASSERT_EQUAL(sp_rvma_table_add(&table, i, 99), -EEXIST);
			CU_ASSERT_EQUAL(sp_rvma_table_find(&table, i), i);
		}
		CU_ASSERT_EQUAL(sp_rvma_table_add(&table, entries, 1), -ENOSPC);
		CU_ASSERT_EQUAL(sp_rvma_table_find(&table, entries), NOTHING);
		CU_ASSERT_EQUAL(sp_rvma_table_remove(&table, 0), 0);
		CU_ASSERT_EQUAL(sp_rvma_table_add(&table, entries, 1), 0);
		done();
	}
}

/* A few lines only, always nearly full: lines overflow into others, and entries go in any order. */
TEST(any_order_of_adding_and_removing_is_as_in_a_plain_model)
{
	enum { ENTRIES = 200, NAMES = 400 };

	for (uint64_t seed = 0; seed < 20; seed++) {
		uint32_t model[NAMES], count = 0;
		unsigned most = 0;

		memset(model, 0xFF, sizeof(model));
		make(ENTRIES, draw());
		for (unsigned step = 0; step < 20000; step++) {
			const uint32_t name = (uint32_t)(draw() % NAMES), value = (uint32_t)(draw() >> 40);
			const bool full = count == ENTRIES, there = model[name] != NOTHING;

			if (draw() % 100 < (count < ENTRIES * 9 / 10 ? 70 : 50)) {
				const int rc = sp_rvma_table_add(&table, name * 0x1000ull, value);

				CU_ASSERT_EQUAL(rc, there ? -EEXIST : full ? -ENOSPC : 0);
				count += !rc;
				model[name] = rc ? model[name] : value;
			} else {
				CU_ASSERT_EQUAL(sp_rvma_table_remove(&table, name * 0x1000ull), there ? 0 : -ENOENT);
				count -= there;
				model[name] = NOTHING;
			}
			const uint32_t other = (uint32_t)(draw() % NAMES);

			CU_ASSERT_EQUAL(sp_rvma_table_find(&table, other * 0x1000ull), model[other]);
			most = sp_rvma_table_touched(&table, other * 0x1000ull) > most
				       ? sp_rvma_table_touched(&table, other * 0x1000ull)
				       : most;
		}
		CU_ASSERT_EQUAL(table.count, count);
		CU_ASSERT(most > 1); /* lines have overflowed: otherwise this has shown little */
		for (uint32_t name = 0; name < NAMES; name++)
			sp_rvma_table_remove(&table, name * 0x1000ull);
		CU_ASSERT_EQUAL(table.count, 0);
		for (uint32_t name = 0; name < NAMES; name++) /* nothing is left behind that a look-up would follow */
			CU_ASSERT_EQUAL(sp_rvma_table_touched(&table, name * 0x1000ull), 1);
		done();
	}
}

/* name: mailboxes as programs choose them. */
static uint64_t dense(uint32_t i)
{
	return 0x11FF0011ull + i * 0x20ull;
}

static uint64_t high(uint32_t i)
{
	return (uint64_t)i << 44 | 1;
}

static uint64_t sparse(uint32_t i)
{
	uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull;

	return x ^ x >> 29;
}

static void look_up_a_million(uint64_t (*name)(uint32_t), uint64_t seed)
{
	enum { MILLION = 1 << 20 };
	uint64_t one = 0, lines = 0, missed = 0, found = 0;

	make(MILLION, seed);
	for (uint32_t i = 0; i < MILLION; i++)
		CU_ASSERT_EQUAL_FATAL(sp_rvma_table_add(&table, name(i), i), 0);
	CU_ASSERT_EQUAL(sp_rvma_table_add(&table, 2, 0), -ENOSPC);
	for (uint32_t i = 0; i < MILLION; i++) {
		const unsigned touched = sp_rvma_table_touched(&table, name(i));

		found += sp_rvma_table_find(&table, name(i)) == i;
		missed += sp_rvma_table_find(&table, name(i) + 3) == NOTHING;
		one += touched == 1;
		lines += touched;
	}
	CU_ASSERT_EQUAL(found, MILLION);
	CU_ASSERT_EQUAL(missed, MILLION);
	/* Lines of five with two on average (Poisson): of a hundred entries about two are beyond theirs. */
	CU_ASSERT(one > MILLION * 0.96);
	CU_ASSERT(lines < MILLION * 1.05);
	printf("# of a million look-ups %llu touched one line; %.3f lines on average; %zu bytes a mailbox\n",
	       (unsigned long long)one, (double)lines / MILLION, sp_rvma_table_bytes(MILLION) / MILLION);
	done();
}

TEST_CALL(a_million_mailboxes_are_found_in_one_line_in_the_common_case, look_up_a_million(sparse, 1))

TEST(mailboxes_in_rows_share_no_lines_more_than_others)
{
	look_up_a_million(dense, draw());
	look_up_a_million(high, draw());
}
