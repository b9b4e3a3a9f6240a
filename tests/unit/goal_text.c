/* SPDX-License-Identifier: BSD-3-Clause */
/* GOAL text: what is read, written and refused, with the line of what is wrong. */
#include "../lib/suite.h"

#include "../../testbed/goal/pattern.h"
#include "../../testbed/goal/text.h"

static int read_of(const char *goal, size_t length, uint64_t memory, struct goal **g, char *why, size_t whylen)
{
	FILE *f = fmemopen((void *)(uintptr_t)goal, length, "r");
	int err;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	err = goal_read(f, "a.goal", memory, g, why, whylen);
	fclose(f);
	return err;
}

static bool same(const struct goal *a, const struct goal *b)
{
	if (goal_ranks(a) != goal_ranks(b))
		return false;
	for (uint32_t r = 0; r < goal_ranks(a); r++) {
		if (goal_ops(a, r) != goal_ops(b, r))
			return false;
		for (uint32_t i = 0; i < goal_ops(a, r); i++) {
			const struct goal_op *x = goal_op(a, r, i), *y = goal_op(b, r, i);
			uint32_t n, m;
			const uint32_t *s = goal_successors(a, r, i, &n), *t = goal_successors(b, r, i, &m);

			if (x->size != y->size || x->peer != y->peer || x->tag != y->tag || x->type != y->type ||
			    x->cpu != y->cpu || x->nic != y->nic || n != m || (n && memcmp(s, t, n * sizeof(*s))))
				return false;
		}
	}
	return true;
}

TEST(all_that_the_language_has_is_read)
{
	const char *file =
		"/* a comment\n over lines */\nnum_ranks 3 // of three\n\nrank 2 {\n"
		"l1: calc 18446744073709551615 cpu 255\r\n  first_1 : send 8 b to 0 tag 4294967294 cpu 1 nic 2\n"
		"first_1 requires l1; first_1 irequires l1\nrecv 9b from -1 tag -1 nic 3 }\n"
		"rank 0\n{ recv 1b from 1 /* two */ cpu 9\n}\n";
	struct goal *g;
	char why[200];
	const struct goal_op *op;
	const uint32_t *s;
	uint32_t n;

	CU_ASSERT_EQUAL_FATAL(read_of(file, strlen(file), 1 << 20, &g, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL(goal_ranks(g), 3);
	CU_ASSERT(goal_ops(g, 0) == 1 && goal_ops(g, 1) == 0 && goal_ops(g, 2) == 3);
	op = goal_op(g, 2, 0);
	CU_ASSERT(op->type == GOAL_CALC && op->size == UINT64_MAX && op->cpu == 255 && op->peer == 0 && op->tag == 0);
	op = goal_op(g, 2, 1);
	CU_ASSERT(op->type == GOAL_SEND && op->size == 8 && op->peer == 0 && op->tag == 4294967294);
	CU_ASSERT(op->cpu == 1 && op->nic == 2);
	op = goal_op(g, 2, 2);
	CU_ASSERT(op->type == GOAL_RECV && op->peer == GOAL_ANY && op->tag == GOAL_ANY && op->nic == 3);
	op = goal_op(g, 0, 0);
	CU_ASSERT(op->type == GOAL_RECV && op->peer == 1 && op->tag == 0 && op->cpu == 9);
	s = goal_successors(g, 2, 0, &n);
	CU_ASSERT(n == 2 && s[0] == 1 && s[1] == (1 | GOAL_STARTED));
	goal_destroy(g);
}

TEST(what_is_written_is_read_again_as_it_was)
{
	for (unsigned i = 0; goal_pattern_names[i]; i++) {
		struct goal *g, *again = NULL;
		char *file = NULL, why[200] = "";
		size_t length = 0;
		FILE *f = open_memstream(&file, &length);

		CU_ASSERT_EQUAL_FATAL(goal_pattern_create(&(struct goal_pattern){.name = goal_pattern_names[i],
										 .ranks = 16,
										 .size = 1000,
										 .segment = 300,
										 .ways = 3},
							  &g),
				      0);
		CU_ASSERT_EQUAL(goal_write(g, f), 0);
		fclose(f);
		CU_ASSERT_EQUAL_FATAL(read_of(file, length, 1 << 24, &again, why, sizeof(why)), 0);
		CU_ASSERT(same(g, again));
		goal_destroy(g);
		goal_destroy(again);
		free(file);
	}
}

/* As schedgen and LogGOPSim's example have it: dependencies between operations, and the last line without an end. */
TEST(a_file_of_loggopsim_is_the_pattern)
{
	const char *file = "num_ranks 2\n\nrank 0 {\nl1: send 1b to 1 tag 0\nl2: recv 1b from 1 tag 0\n}\n\n"
			   "rank 1 {\nl1: send 1b to 0 tag 0\nl2: recv 1b from 0 tag 0\n}";
	struct goal *g, *wanted;
	char why[200];

	CU_ASSERT_EQUAL_FATAL(read_of(file, strlen(file), 1 << 20, &g, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL_FATAL(
		goal_pattern_create(&(struct goal_pattern){.name = "dissemination", .ranks = 2, .size = 1}, &wanted),
		0);
	CU_ASSERT(same(g, wanted));
	goal_destroy(g);
	goal_destroy(wanted);
}

TEST(what_is_wrong_is_named_with_its_line)
{
	static const struct {
		const char *file, *why;
	} rows[] = {
		{"", "1: num_ranks is expected, not the end of the file"},
		{"\n\n rank 0 {", "3: num_ranks is expected, not 'rank'"},
		{"num_ranks x", "1: a number of ranks is expected, not 'x'"},
		{"num_ranks 0", "1: there must be at least 1 rank"},
		{"num_ranks 16777217", "1: a number of ranks must be at most 16777216, not 16777217"},
		{"num_ranks 99999999999999999999", "1: this number has more than 64 bits"},
		{"num_ranks 2\nrang 0 {", "2: rank is expected, not 'rang'"},
		{"num_ranks 2\nrank 2 {", "2: a rank must be at most 1, not 2"},
		{"num_ranks 2\nrank 1\nsend 1b to 0", "3: '{' is expected, not 'send'"},
		{"num_ranks 2\nrank 1 {\ncalc 1\n", "4: the '}' of rank 1 is missing, which begins in line 2"},
		{"num_ranks 2\nrank 1 {\ncalc\n", "3: a time in ns is expected, not the end of the line"},
		{"num_ranks 2\nrank 1 {\ncalc 1 2\n}", "3: the end of the line is expected, not a number"},
		{"num_ranks 2\nrank 1 {\ncalc 1 tag 2\n}", "3: cpu or nic is expected, not 'tag'"},
		{"num_ranks 2\nrank 1 {\ncalc 1 cpu 256\n}", "3: a cpu must be at most 255, not 256"},
		{"num_ranks 2\nrank 1 {\nsend 1 to 0\n}", "3: b (for bytes) is expected, not 'to'"},
		{"num_ranks 2\nrank 1 {\nsend 1b from 0\n}", "3: to is expected, not 'from'"},
		{"num_ranks 2\nrank 1 {\nsend 1b to -1\n}", "3: a rank is expected, not -1"},
		{"num_ranks 2\nrank 1 {\nsend 1b to 2\n}", "3: a rank must be at most 1, not 2"},
		{"num_ranks 2\nrank 1 {\nsend 1b to 0 tag -1\n}", "3: a tag is expected, not -1"},
		{"num_ranks 2\nrank 1 {\nrecv 1b from 0 tag -2\n}", "3: a negative number can only be -1"},
		{"num_ranks 2\nrank 1 {\nrecv 1b from 0 tag 1 tag 2\n}", "3: tag is there twice"},
		{"num_ranks 2\nrank 1 {\na: calc 1\nb requires a\n}", "4: there is no label 'b' above"},
		{"num_ranks 2\nrank 1 {\na: calc 1\na requires b\n}", "4: there is no label 'b' above"},
		{"num_ranks 2\nrank 1 {\na: calc 1\na: calc 2\n}", "4: the label 'a' is there already"},
		{"num_ranks 2\nrank 1 {\na: calc 1\n}\nrank 0 {\nb: calc 1\nb requires a\n}",
		 "7: there is no label 'a' above"},
		{"num_ranks 2\nrank 1 {\na; calc 1\n}", "3: ':', requires or irequires behind a label is expected"},
		{"num_ranks 2\nrank 1 {\na: calk 1\n}", "3: send, recv or calc is expected, not 'calk'"},
		{"num_ranks 2\nrank 1 {\n%\n}", "3: send, recv, calc, a label or '}' is expected, not '%'"},
		{"num_ranks 2\n/* \n\n", "2: this comment does not end"},
		{"num_ranks 2\n\n/ 3", "3: what does this '/' mean?"},
		{"num_ranks 1\nrank 0 {\n}\nrank 0 {\n}", "4: rank 0 was there already, in line 2"},
		{"num_ranks 1\n\nrank 0 {\na: calc 1\na requires a\n}", "3: operation 1 of rank 0 waits for itself"},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct goal *g = NULL;
		char why[300] = "", wanted[300];
		const size_t length = strlen(rows[i].file);

		/* fmemopen() wants a byte at least: a blank */
		CU_ASSERT(read_of(length ? rows[i].file : " ", length ? length : 1, 1 << 20, &g, why, sizeof(why)) < 0);
		snprintf(wanted, sizeof(wanted), "a.goal:%s", rows[i].why);
		if (strncmp(why, wanted, strlen(wanted)))
			printf("# %s\n# not %s\n", why, wanted);
		CU_ASSERT(!strncmp(why, wanted, strlen(wanted)));
	}
}

TEST(a_file_takes_no_more_memory_than_it_may)
{
	const char *ranks = "num_ranks 16777216\n", *labels = "num_ranks 1\nrank 0 {\n";
	char why[200], *file = malloc(1 << 20);
	size_t length = strlen(labels);
	struct goal *g;

	CU_ASSERT_EQUAL(read_of(ranks, strlen(ranks), 1 << 20, &g, why, sizeof(why)), -E2BIG);
	CU_ASSERT_STRING_EQUAL(why, "a.goal:1: the schedule takes more than 1 MiB of memory");
	memcpy(file, labels, length);
	for (unsigned i = 0; length < (1 << 20) - 300; i++)
		length += (size_t)sprintf(file + length, "l%0200u: calc 1\n", i);
	memcpy(file + length, "}\n", 2);
	CU_ASSERT_EQUAL(read_of(file, length + 2, 1 << 19, &g, why, sizeof(why)), -E2BIG);
	CU_ASSERT_EQUAL_FATAL(read_of(file, length + 2, 8 << 20, &g, why, sizeof(why)), 0);
	CU_ASSERT(goal_ops(g, 0) > 4000);
	goal_destroy(g);
	free(file);
}
