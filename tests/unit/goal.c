/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules and LogGOPS: LogGOPSim's own digits, closed forms of the published evaluation, and what is wrong. */
#include "../lib/suite.h"

#include "../../testbed/goal/loggops.h"
#include "../../testbed/goal/pattern.h"
#include "../../testbed/goal/system.h"
#include "../../testbed/goal/text.h"

#define NS 1000u

static struct goal *pattern(const char *name, uint32_t ranks, uint64_t size, uint64_t segment)
{
	struct goal *g = NULL;

	CU_ASSERT_EQUAL_FATAL(
		goal_pattern_create(
			&(struct goal_pattern){
				.name = name, .ranks = ranks, .size = size, .segment = segment, .no_calc = true},
			&g),
		0);
	return g;
}

static struct goal *text(const char *goal, int wanted, char *why, size_t whylen)
{
	FILE *f = fmemopen((void *)(uintptr_t)goal, strlen(goal), "r");
	struct goal *g = NULL;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(goal_read(f, "x.goal", 1 << 20, &g, why, whylen), wanted);
	fclose(f);
	return g;
}

static struct goal *good(const char *goal)
{
	char why[200] = "";
	struct goal *g = text(goal, 0, why, sizeof(why));

	if (!g)
		printf("# %s\n", why);
	CU_ASSERT_PTR_NOT_NULL_FATAL(g);
	return g;
}

/* Runs and drops g; wanted: times of its ranks in ns, or NULL. Returns the end in ps. */
static sp_time timed(struct goal *g, const struct goal_loggops *p, const int64_t *wanted)
{
	struct goal_outcome o;
	sp_time *ends = calloc(goal_ranks(g), sizeof(*ends));

	CU_ASSERT_EQUAL_FATAL(goal_loggops_run(g, p, ends, &o), 0);
	for (uint32_t i = 0; wanted && i < goal_ranks(g); i++) {
		if (ends[i] != (sp_time)wanted[i] * NS)
			printf("# rank %u: %llu ps\n", i, (unsigned long long)ends[i]);
		CU_ASSERT_EQUAL(ends[i], (sp_time)wanted[i] * NS);
	}
	free(ends);
	goal_destroy(g);
	return o.end;
}

/* ---- schedules ---- */
TEST(a_schedule_refuses_what_it_cannot_be)
{
	const struct goal_op recv = {.size = 1, .peer = 1, .type = GOAL_RECV}, far = {.peer = 2, .type = GOAL_SEND};
	struct goal *g;
	uint32_t i = 7, rank, op;

	CU_ASSERT_EQUAL(goal_create(0, &g), -EINVAL);
	CU_ASSERT_EQUAL(goal_create(GOAL_RANKS_MAX + 1, &g), -EINVAL);
	CU_ASSERT_EQUAL_FATAL(goal_create(2, &g), 0);
	CU_ASSERT_EQUAL(goal_add(g, 2, &recv, &i), -EINVAL);
	CU_ASSERT_EQUAL(goal_add(g, 0, &(struct goal_op){.type = 3}, &i), -EINVAL);
	CU_ASSERT_EQUAL(i, 7);
	CU_ASSERT_EQUAL(goal_add(g, 0, &recv, &i), 0);
	CU_ASSERT_EQUAL(i, 0);
	CU_ASSERT_EQUAL(goal_requires(g, 0, 0, 1), -EINVAL);
	CU_ASSERT_EQUAL(goal_irequires(g, 1, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(goal_add(g, 1, &recv, NULL), 0);
	CU_ASSERT_EQUAL(goal_add(g, 1, &far, NULL), 0);
	CU_ASSERT_EQUAL(goal_finish(g), -EINVAL);
	goal_fault(g, &rank, &op);
	CU_ASSERT_EQUAL(rank, 1);
	CU_ASSERT_EQUAL(op, 1);
	CU_ASSERT_EQUAL(goal_add(g, 0, &recv, NULL), -EPERM);
	CU_ASSERT_EQUAL(goal_finish(g), -EPERM);
	goal_destroy(g);
	CU_ASSERT_EQUAL_FATAL(goal_create(1, &g), 0);
	CU_ASSERT_EQUAL(goal_add(g, 0, &(struct goal_op){.type = GOAL_SEND, .tag = GOAL_ANY}, NULL), 0);
	CU_ASSERT_EQUAL(goal_finish(g), -EINVAL);
	goal_destroy(g);
}

TEST(successors_are_packed_in_the_order_in_which_they_were_said)
{
	const struct goal_op calc = {.type = GOAL_CALC};
	uint32_t n, waits[4];
	const uint32_t *s;
	struct goal *g;

	CU_ASSERT_EQUAL_FATAL(goal_create(3, &g), 0);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(goal_add(g, 1, &calc, NULL), 0);
	CU_ASSERT_EQUAL(goal_requires(g, 1, 3, 1), 0);
	CU_ASSERT_EQUAL(goal_requires(g, 1, 2, 0), 0);
	CU_ASSERT_EQUAL(goal_irequires(g, 1, 0, 1), 0);
	CU_ASSERT_EQUAL(goal_requires(g, 1, 3, 1), 0);
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	s = goal_successors(g, 1, 1, &n);
	CU_ASSERT_EQUAL_FATAL(n, 3);
	CU_ASSERT_EQUAL(s[0], 3);
	CU_ASSERT_EQUAL(s[1], GOAL_STARTED | 0);
	CU_ASSERT_EQUAL(s[2], 3);
	s = goal_successors(g, 1, 0, &n);
	CU_ASSERT(n == 1 && s[0] == 2);
	goal_successors(g, 1, 3, &n);
	CU_ASSERT_EQUAL(n, 0);
	goal_waits(g, 1, waits);
	CU_ASSERT(waits[0] == 1 && waits[1] == 0 && waits[2] == 1 && waits[3] == 2);
	CU_ASSERT_EQUAL(goal_ops_all(g), 4);
	goal_destroy(g);
}

TEST(a_circle_is_found_and_named)
{
	char why[200];

	CU_ASSERT_PTR_NULL(text("num_ranks 2\nrank 1 {\na: calc 1\nb: calc 2\nc: calc 3\nb requires a\nc requires b\n"
				"b irequires c\n}\n",
				-ELOOP, why, sizeof(why)));
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "x.goal:2: operation 2 of rank 1 waits for itself"));
}

/* ---- LogGOPSim's digits, of its defaults ---- */
TEST(the_examples_of_loggopsim_take_what_they_take_there)
{
	CU_ASSERT_EQUAL(timed(pattern("binomialtreebcast", 16, 1, 0), &goal_loggops_default, NULL), 22000 * NS);
	CU_ASSERT_EQUAL(timed(pattern("dissemination", 16, 1, 0), &goal_loggops_default, NULL), 22000 * NS);
	CU_ASSERT_EQUAL(timed(pattern("dissemination", 32, 1, 0), &goal_loggops_default, NULL), 27500 * NS);
	CU_ASSERT_EQUAL(timed(pattern("nwaydissemination", 32, 1, 0), &goal_loggops_default, NULL), 27500 * NS);
}

TEST(patterns_of_eight_ranks_and_1024_bytes_are_loggopsims_to_the_digit)
{
	timed(pattern("binomialtreereduce", 8, 1024, 0), &goal_loggops_default,
	      (int64_t[]){34914, 24776, 13138, 13138, 1500, 1500, 1500, 1500});
	timed(pattern("binomialtreebcast", 8, 1024, 0), &goal_loggops_default,
	      (int64_t[]){15776, 20276, 20276, 24776, 25914, 30414, 30414, 34914});
	timed(pattern("linear_alltoall", 8, 1024, 0), &goal_loggops_default,
	      (int64_t[]){81466, 81466, 81466, 81466, 81466, 81466, 81466, 81466});
	timed(pattern("pipelinedring", 8, 1024, 1), &goal_loggops_default,
	      (int64_t[]){5632000, 5632000, 5632000, 5632000, 5632000, 5632000, 5632000, 5632000});
}

/* ---- closed forms, of every system ---- */
static struct goal_loggops published(const struct goal_system *s)
{
	return goal_system_loggops(s, GOAL_PUBLISHED);
}

static sp_time most(sp_time a, sp_time b)
{
	return a > b ? a : b;
}

TEST(dissemination_takes_its_closed_form_on_every_system)
{
	for (const struct goal_system *s = goal_systems; s->name; s++)
		for (unsigned rounds = 2; rounds <= 8; rounds += 3)
			for (uint64_t size = 16; size <= 2048; size *= 128) {
				const struct goal_loggops p = published(s);
				const sp_time bytes = (size - 1) * p.hop[0].G, g = p.hop[0].g;
				const sp_time hop = p.hop[0].L + 2 * p.o + bytes;
				const sp_time wanted = (rounds - 1) * most(g + bytes, hop) + hop;

				CU_ASSERT_EQUAL(timed(pattern("dissemination", 1u << rounds, size, 0), &p, NULL),
						wanted);
			}
}

TEST(the_ring_takes_its_closed_form_on_every_system)
{
	const uint64_t D = 512ull << 20;

	for (const struct goal_system *s = goal_systems; s->name; s++)
		for (uint64_t n = 4; n <= 64; n *= 4) {
			struct goal_loggops p = published(s);
			const sp_time hop = 3 * p.hop[0].L + 2 * p.o;
			const sp_time wanted = (D - n) * p.hop[0].G + (n - 1) * most(p.hop[0].g, hop) + hop;

			CU_ASSERT_EQUAL(timed(pattern("pipelinedring", (uint32_t)n, D, 0), &p, NULL), wanted);
			p.full_duplex = true; /* without noise no send is in the way of a receive */
			CU_ASSERT_EQUAL(timed(pattern("pipelinedring", (uint32_t)n, D, 0), &p, NULL), wanted);
		}
}

/* us, of the published runs without noise, to their last digit. */
TEST(azures_published_times_are_reproduced)
{
	const struct goal_loggops p = published(&goal_systems[3]);

	CU_ASSERT_STRING_EQUAL_FATAL(goal_system_names[3], "azure");
	CU_ASSERT_EQUAL(timed(pattern("dissemination", 64, 16, 0), &p, NULL), 9607740);
	CU_ASSERT_EQUAL((timed(pattern("pipelinedring", 4, 512 << 20, 0), &p, NULL) + 500) / 1000, 46187698);
	CU_ASSERT_EQUAL((timed(pattern("pipelinedring", 16, 512 << 20, 0), &p, NULL) + 500) / 1000, 46238097);
	CU_ASSERT_EQUAL((timed(pattern("pipelinedring", 64, 512 << 20, 0), &p, NULL) + 500) / 1000, 46439693);
}

TEST(names_of_systems_are_in_the_order_of_the_table)
{
	unsigned n = 0;

	for (; goal_systems[n].name; n++)
		CU_ASSERT_STRING_EQUAL(goal_systems[n].name, goal_system_names[n]);
	CU_ASSERT_EQUAL(n, 11);
	CU_ASSERT_PTR_NULL(goal_system_names[n]);
}

/* ---- rules one by one; L 2500, o 1500, g 1000, G 6 ns ---- */
TEST(a_host_is_half_duplex)
{
	/* Rank 1's message of 1001 bytes comes at 4000, finds a calc, goes on at 4500 and holds rank 0's processor
	 * until 4500 + 1500 + 6000 = 12000. So the send, which could begin at 4500, begins then, and arrives at 16000.
	 */
	timed(good("num_ranks 2\nrank 0 {\na: calc 3500\nb: calc 1000\nb requires a\ns: send 1b to 1\ns requires b\n"
		   "recv 1001b from 1\n}\nrank 1 {\nsend 1001b to 0\nrecv 1b from 0\n}\n"),
	      &goal_loggops_default, (int64_t[]){13500, 17500});
}

TEST(full_duplex_a_host_sends_while_a_message_comes_in)
{
	struct goal_loggops p = goal_loggops_default;

	/* The message of 1001 bytes takes the processor from 4500 to 6000, when the send begins, and is there at 12000.
	 */
	p.full_duplex = true;
	timed(good("num_ranks 2\nrank 0 {\na: calc 3500\nb: calc 1000\nb requires a\ns: send 1b to 1\ns requires b\n"
		   "recv 1001b from 1\n}\nrank 1 {\nsend 1001b to 0\nrecv 1b from 0\n}\n"),
	      &p, (int64_t[]){12000, 11500});
	/* What requires a receive waits until then: it comes at 4000 and is there at 11500, posted at once or at 8000.
	 */
	timed(good("num_ranks 2\nrank 0 {\nr: recv 1001b from 1\nb: calc 10\nb requires r\n}\nrank 1 {\nsend 1001b to "
		   "0\n}\n"),
	      &p, (int64_t[]){11510, 1500});
	timed(good("num_ranks 2\nrank 0 {\na: calc 8000\nr: recv 1001b from 1\nr requires a\nb: calc 10\nb requires "
		   "r\n}\n"
		   "rank 1 {\na: calc 5000\nb: send 1001b to 0\nb requires a\n}\n"),
	      &p, (int64_t[]){16510, 6500});
}

TEST(a_rendezvous_is_done_when_it_is_matched)
{
	struct goal_loggops p = goal_loggops_default;
	const char *late = "num_ranks 2\nrank 0 {\na: send 101b to 1\nb: calc 10\nb requires a\n}\n"
			   "rank 1 {\na: calc 20000\nb: recv 101b from 0\nb requires a\n}\n";

	/* Eager: the send is done at 1500; the message is taken in at 20000, to 20000 + 1500 + 600. */
	timed(good(late), &p, (int64_t[]){1510, 22100});
	/* Above S the calc follows the match, at 20000, when the receive is posted. */
	p.S = 100;
	timed(good(late), &p, (int64_t[]){20010, 22100});
	/* With a receive from the start: it arrives at 4000, or with a handshake at 9000. */
	timed(good("num_ranks 2\nrank 0 {\na: send 101b to 1\nb: calc 10\nb requires a\n}\nrank 1 {\nrecv 101b from "
		   "0\n}\n"),
	      &p, (int64_t[]){4010, 6100});
	p.handshake = true;
	timed(good("num_ranks 2\nrank 0 {\na: send 101b to 1\nb: calc 10\nb requires a\n}\nrank 1 {\nrecv 101b from "
		   "0\n}\n"),
	      &p, (int64_t[]){9010, 11100});
}

TEST(irequires_waits_for_the_start_alone)
{
	/* On another processor: with requires it would begin at 100. */
	timed(good("num_ranks 1\nrank 0 {\na: calc 100\nb: calc 30 cpu 1\nb irequires a\n}\n"), &goal_loggops_default,
	      (int64_t[]){100});
	timed(good("num_ranks 1\nrank 0 {\na: calc 100\nb: calc 30 cpu 1\nb requires a\n}\n"), &goal_loggops_default,
	      (int64_t[]){130});
}

TEST(two_nics_of_a_host_have_a_gap_each)
{
	struct goal_loggops p = goal_loggops_default;

	for (unsigned i = 0; i < 2; i++) /* so that g is what sends wait for */
		p.hop[i].g = 10000000;
	/* One NIC: sends begin at 0 and 10000; the second arrives at 14000. Two: 0 and 1500. */
	timed(good("num_ranks 2\nrank 0 {\nsend 1b to 1\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\nrecv 1b from "
		   "0\n}\n"),
	      &p, (int64_t[]){11500, 15500});
	timed(good("num_ranks 2\nrank 0 {\nsend 1b to 1\nsend 1b to 1 nic 1\n}\nrank 1 {\nrecv 1b from 0\nrecv 1b from "
		   "0\n}\n"),
	      &p, (int64_t[]){3000, 7000});
}

TEST(between_switches_the_far_values_count)
{
	struct goal_loggops p = goal_loggops_default;
	const char *two = "num_ranks 4\nrank 0 {\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\n}\n"
			  "rank 2 {\nsend 1b to 1 tag 1\n}\nrank 1 {\n}\n";
	char why[200];

	CU_ASSERT_PTR_NULL(text(two, -EINVAL, why, sizeof(why)));
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "x.goal:11: rank 1 was there already, in line 5"));
	p.hop[1].L = 7000000;
	p.nodes_per_switch = 2;
	timed(good("num_ranks 4\nrank 0 {\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\n}\nrank 2 {\nrecv 1b from 3\n}\n"
		   "rank 3 {\nsend 1b to 2\n}\n"),
	      &p, (int64_t[]){1500, 5500, 5500, 1500});
	timed(good("num_ranks 4\nrank 0 {\nsend 1b to 2\n}\nrank 2 {\nrecv 1b from 0\n}\n"), &p,
	      (int64_t[]){1500, 0, 10000, 0});
}

TEST(the_oldest_that_matches_is_matched)
{
	/* Both receives take both messages of rank 1, which come at 1 and 50001 ns. What requires the first one begins
	 * at 1: by the other it would end at 50006. */
	static const char *const receives[] = {"a: recv 1b from -1 tag -1\nb: recv 1b from 1 tag 7",
					       "a: recv 1b from 1 tag 7\nb: recv 1b from -1 tag 7",
					       "a: recv 1b from 1 tag -1\nb: recv 1b from 1 tag 7"};
	const struct goal_loggops p = {.hop = {{.L = 1000}, {.L = 1000}}, .S = 100};

	for (unsigned i = 0; i < 3; i++) {
		char file[300];

		snprintf(file, sizeof(file),
			 "num_ranks 2\nrank 0 {\n%s\nc: calc 5\nc requires a\n}\nrank 1 {\nsend 1b to 0 tag 7\n"
			 "a: calc 50000\nb: send 1b to 0 tag 7\nb requires a\n}\n",
			 receives[i]);
		timed(good(file), &p, (int64_t[]){50001, 50000});
	}
}

TEST(a_schedule_that_does_not_end_is_named)
{
	struct goal *g = good("num_ranks 3\nrank 0 {\na: recv 1b from 1 tag 3\nb: calc 1\nb requires a\n}\n"
			      "rank 1 {\nsend 1b to 0 tag 4\n}\n");
	struct goal_outcome o;

	CU_ASSERT_EQUAL(goal_loggops_run(g, &goal_loggops_default, NULL, &o), -EDEADLK);
	CU_ASSERT(o.undone == 2 && o.unreceived == 1 && o.rank == 0 && o.op == 0);
	goal_destroy(g);
	g = good("num_ranks 3\nrank 2 {\nsend 1b to 0\n}\n");
	CU_ASSERT_EQUAL(goal_loggops_run(g, &goal_loggops_default, NULL, &o), -EDEADLK);
	CU_ASSERT(o.undone == 0 && o.unreceived == 1 && o.rank == 0 && o.op == 2);
	goal_destroy(g);
}

TEST(numbers_beyond_all_times_are_refused)
{
	const struct {
		const char *op;
		int err;
	} rows[] = {{"calc 1125899906842625", -EINVAL}, /* 2^50 + 1 */
		    {"calc 18446744073709551615", -EINVAL},
		    {"send 1125899906842624b to 1", -EOVERFLOW},
		    {"send 0b to 1", 0}};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char file[200];
		struct goal_outcome o;
		struct goal *g;

		snprintf(file, sizeof(file), "num_ranks 2\nrank 0 {\n%s\n}\nrank 1 {\n%s\n}\n", rows[i].op,
			 *rows[i].op == 's' ? "recv 1b from 0" : "");
		g = good(file);
		CU_ASSERT_EQUAL(goal_loggops_run(g, &goal_loggops_default, NULL, &o), rows[i].err);
		goal_destroy(g);
	}
}

TEST(a_schedule_cannot_ask_for_more_memory_than_its_size)
{
	struct goal *g = good("num_ranks 10000\nrank 0 {\ncalc 1 cpu 255 nic 255\n}\n"), *small;
	struct goal_outcome o;

	CU_ASSERT_EQUAL(goal_loggops_run(g, &goal_loggops_default, NULL, &o), -E2BIG);
	goal_destroy(g);
	CU_ASSERT_EQUAL(
		goal_pattern_create(
			&(struct goal_pattern){.name = "linear_alltoall", .ranks = 4096, .size = 1, .memory = 10 << 20},
			&small),
		-E2BIG);
	CU_ASSERT_EQUAL(
		goal_pattern_create(&(struct goal_pattern){.name = "gather", .ranks = 1000, .size = 1, .memory = 1000},
				    &small),
		-E2BIG);
}

/* ---- patterns ---- */
TEST(every_pattern_ends_with_any_number_of_ranks_and_any_root)
{
	static const uint32_t ranks[] = {1, 2, 3, 5, 8, 13, 16};

	for (unsigned i = 0; goal_pattern_names[i]; i++)
		for (unsigned k = 0; k < 7; k++)
			for (uint32_t root = 0; root < ranks[k]; root += 2) {
				const struct goal_pattern p = {.name = goal_pattern_names[i],
							       .ranks = ranks[k],
							       .size = 100,
							       .root = root,
							       .ways = k % 3 + 1};
				struct goal *g = NULL;
				const int err = goal_pattern_create(&p, &g);

				CU_ASSERT_EQUAL(err, strcmp(p.name, "allreduce_recdoub") || !(p.ranks & (p.ranks - 1))
							     ? 0
							     : -EINVAL);
				if (!err)
					timed(g, &goal_loggops_default, NULL);
			}
}

TEST(patterns_that_cannot_be_are_refused)
{
	struct goal *g;

	CU_ASSERT_EQUAL(goal_pattern_create(&(struct goal_pattern){.name = "x", .ranks = 2, .size = 1}, &g), -EINVAL);
	CU_ASSERT_EQUAL(goal_pattern_create(&(struct goal_pattern){.name = "gather", .ranks = 2}, &g), -EINVAL);
	CU_ASSERT_EQUAL(
		goal_pattern_create(&(struct goal_pattern){.name = "gather", .ranks = 2, .size = 1, .root = 2}, &g),
		-EINVAL);
	CU_ASSERT_EQUAL(goal_pattern_create(
				&(struct goal_pattern){.name = "gather", .ranks = GOAL_RANKS_MAX + 1, .size = 1}, &g),
			-EINVAL);
}
