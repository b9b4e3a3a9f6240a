/* SPDX-License-Identifier: BSD-3-Clause */
/* Noise: detours and distributions from files, and what they do to a schedule. */
#include "../lib/suite.h"

#include <math.h>
#include <pthread.h>
#include <sys/socket.h>

#include "../../testbed/goal/detour.h"
#include "../../testbed/goal/pattern.h"
#include "../../testbed/goal/pingpong.h"
#include "../../testbed/goal/runs.h"

#define NS 1000u

static int detours_of(const char *file, struct goal_detours *d, char *why, size_t whylen)
{
	FILE *f = fmemopen((void *)(uintptr_t)file, strlen(file), "r");
	int err;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	err = goal_detours_read(d, f, "d", why, whylen);
	fclose(f);
	return err;
}

static int draws_of(const char *file, struct goal_draws *d, enum goal_column column, uint32_t skip, uint32_t of,
		    char *why, size_t whylen)
{
	FILE *f = fmemopen((void *)(uintptr_t)file, strlen(file), "r");
	int err;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	err = goal_draws_read(d, f, "d", column, skip, of, why, whylen);
	fclose(f);
	return err;
}

TEST(files_of_netgauge_are_read)
{
	struct goal_detours d;
	struct goal_draws l, g;
	char why[200];

	CU_ASSERT_EQUAL_FATAL(detours_of("# time length\n10.5\t2\n\n 20 3.25 \n", &d, why, sizeof(why)), 0);
	CU_ASSERT(d.n == 2 && d.at[0] == 10500 && d.at[1] == 20000 && d.sum[1] == 2000 && d.sum[2] == 5250);
	CU_ASSERT_EQUAL(d.period, 23250);
	CU_ASSERT(fabs(goal_detours_share(&d) - 5250.0 / 23250) < 1e-12);
	goal_detours_free(&d);
	CU_ASSERT_EQUAL_FATAL(draws_of("1\t2.5\n1\t2.7500009\n2.25\n", &l, GOAL_TIME, 0, 0, why, sizeof(why)), 0);
	CU_ASSERT(l.n == 3 && l.value[0] == 2500000 && l.value[1] == 2750000 && l.value[2] == 2250000);
	CU_ASSERT_EQUAL(goal_draws_median(&l), 2500000);
	CU_ASSERT_EQUAL_FATAL(draws_of("16777216 1342.17729\n# x\n1000 0.1999999\n0.000086\n", &g, GOAL_A_BYTE, 0, 0,
				       why, sizeof(why)),
			      0);
	CU_ASSERT(g.n == 3 && g.value[0] == 80 && g.value[1] == 199 && g.value[2] == 86); /* cut off */
	goal_draws_free(&g);
	CU_ASSERT_EQUAL_FATAL(draws_of("9\n9\n1\n2\n3\n9\n9\n4\n", &g, GOAL_TIME, 2, 5, why, sizeof(why)), 0);
	CU_ASSERT(g.n == 4 && g.value[0] == 1000000 && g.value[3] == 4000000);
	CU_ASSERT_EQUAL(goal_draws_median(&g), 2500000); /* between the two in the middle */
	goal_draws_free(&l);
	goal_draws_free(&g);
}

TEST(what_is_wrong_in_a_file_is_named_with_its_line)
{
	static const struct {
		const char *file, *why;
	} detours[] = {{"1 2\n3\n", "d:2: a detour is TIME LENGTH, both in ns"},
		       {"5 2\n\n4 1\n", "d:3: this detour begins before the one above"},
		       {"x", "d:1: this is no number of at least 0"},
		       {"-1 3", "d:1: this is no number of at least 0"},
		       {"nan 1", "d:1: this is no number of at least 0"},
		       {"1 2 3", "d:1: there are more than two numbers"},
		       {"# a\n", "d:1: the file has no detours"},
		       {"1 1e16", "d:1: that is longer than 11 days"},
		       {"1 50\n2 50\n3 1\n", "d:3: the detours overlap: together they are longer than the trace"}},
	  draws[] = {{"1\n2\n3x", "d:3: this is no number of at least 0"},
		     {"\n\n", "d:2: the file has no values"},
		     {"0 5", "d:1: the number of bytes must be at least 1"},
		     {"1e13", "d:1: that is longer than 11 days"}};
	char why[200], longer[400];

	for (unsigned i = 0; i < sizeof(detours) / sizeof(*detours); i++) {
		struct goal_detours d;

		CU_ASSERT(detours_of(detours[i].file, &d, why, sizeof(why)) < 0);
		CU_ASSERT_STRING_EQUAL(why, detours[i].why);
	}
	for (unsigned i = 0; i < sizeof(draws) / sizeof(*draws); i++) {
		struct goal_draws d;

		CU_ASSERT(draws_of(draws[i].file, &d, GOAL_A_BYTE, 0, 0, why, sizeof(why)) < 0);
		CU_ASSERT_STRING_EQUAL(why, draws[i].why);
	}
	memset(longer, '1', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	{
		struct goal_detours d;

		CU_ASSERT_EQUAL(detours_of(longer, &d, why, sizeof(why)), -EINVAL);
		CU_ASSERT_STRING_EQUAL(why, "d:1: the line is too long");
		longer[0] = '#'; /* comments may be long */
		strcpy(longer + 390, "\n1 2\n");
		CU_ASSERT_EQUAL(detours_of(longer, &d, why, sizeof(why)), 0);
		goal_detours_free(&d);
	}
}

/* At 10 to 12, 20 to 25, 40 to 41; the trace is 41 long. */
static struct goal_detours trace(void)
{
	struct goal_detours d;

	CU_ASSERT_EQUAL_FATAL(goal_detours_set(&d, (sp_time[]){10, 20, 40}, (sp_time[]){2, 5, 1}, 3), 0);
	return d;
}

/* Tick by tick: what is left of a detour at the begin, and whole detours whose first tick is later and within. */
static sp_time slowly(const struct goal_detours *d, sp_time begin, sp_time length)
{
	sp_time added = 0;

	for (uint64_t i = 0; i < d->n; i++) {
		const sp_time x = begin % d->period, end = d->at[i] + d->sum[i + 1] - d->sum[i];

		if (d->at[i] <= x && x < end)
			added += end - x;
	}
	for (sp_time t = begin + 1; t < begin + length; t++)
		for (uint64_t i = 0; i < d->n; i++)
			if (t % d->period == d->at[i])
				added += d->sum[i + 1] - d->sum[i];
	return added;
}

TEST(detours_add_what_counting_tick_by_tick_gives)
{
	struct goal_detours d = trace();

	CU_ASSERT_EQUAL(goal_detours_added(&d, 0, 10), 0); /* ends as it begins */
	CU_ASSERT_EQUAL(goal_detours_added(&d, 0, 11), 2);
	CU_ASSERT_EQUAL(goal_detours_added(&d, 11, 1), 1);
	CU_ASSERT_EQUAL(goal_detours_added(&d, 21, 20), 4 + 1);
	CU_ASSERT_EQUAL(goal_detours_added(&d, 30, 41), 8); /* once around */
	CU_ASSERT_EQUAL(goal_detours_added(&d, 22, 0), 3);
	for (sp_time begin = 0; begin < 100; begin++)
		for (sp_time length = 1; length < 100; length++)
			CU_ASSERT_EQUAL(goal_detours_added(&d, begin, length), slowly(&d, begin, length));
	goal_detours_free(&d);
}

/* A calc much longer than the trace: each period adds 8 %, wherever it starts; what is left over is one detour at most.
 */
TEST(a_calc_is_longer_by_exactly_the_detours_within)
{
	const sp_time at[] = {50 * NS}, length[] = {8 * NS};
	struct goal_loggops p = goal_loggops_default;
	const struct goal_op calc = {.size = 58000, .type = GOAL_CALC};
	struct goal_detours d;
	struct goal_outcome o;
	sp_time ends[64];
	struct goal *g;
	unsigned differ = 0;

	CU_ASSERT_EQUAL_FATAL(goal_detours_set(&d, at, length, 1), 0); /* the period is 58 ns */
	CU_ASSERT_EQUAL_FATAL(goal_create(64, &g), 0);
	for (uint32_t i = 0; i < 64; i++)
		CU_ASSERT_EQUAL(goal_add(g, i, &calc, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	p.detours = &d;
	p.seed = 5;
	CU_ASSERT_EQUAL_FATAL(goal_loggops_run(g, &p, ends, &o), 0);
	for (uint32_t i = 0; i < 64; i++) { /* 1000 periods; one that is on at the begin adds its rest */
		CU_ASSERT(ends[i] >= 58000 * NS + 8000 * NS && ends[i] <= 58000 * NS + 8008 * NS);
		differ += ends[i] != ends[0];
	}
	CU_ASSERT(differ > 0); /* ranks begin at places of their own */
	p.coscheduled = true;
	CU_ASSERT_EQUAL_FATAL(goal_loggops_run(g, &p, ends, &o), 0);
	for (uint32_t i = 0; i < 64; i++)
		CU_ASSERT_EQUAL(ends[i], ends[0]);
	CU_ASSERT_EQUAL(o.detours, 64 * (ends[0] - 58000 * NS));
	goal_destroy(g);
	goal_detours_free(&d);
}

TEST(scaled_values_have_the_wanted_median)
{
	struct goal_draws d, s;

	CU_ASSERT_EQUAL_FATAL(goal_draws_set(&d, (uint64_t[]){30, 10, 20, 1000}, 4), 0);
	CU_ASSERT_EQUAL_FATAL(goal_draws_scale(&d, 50, &s), 0); /* the median is 25 */
	CU_ASSERT(s.value[0] == 60 && s.value[1] == 20 && s.value[2] == 40 && s.value[3] == 2000);
	goal_draws_free(&s);
	goal_draws_free(&d);
	CU_ASSERT_EQUAL_FATAL(goal_draws_set(&d, (uint64_t[]){0, 0, 5}, 3), 0);
	CU_ASSERT_EQUAL(goal_draws_scale(&d, 50, &s), -EINVAL);
	goal_draws_free(&d);
	CU_ASSERT_EQUAL(goal_draws_set(&d, NULL, 0), -EINVAL);
}

static int compare(const void *a, const void *b)
{
	const sp_time x = *(const sp_time *)a, y = *(const sp_time *)b;

	return (x > y) - (x < y);
}

/* One message per run: it takes o + L + o with L drawn. The runs' times are the file's distribution: the greatest
 * distance of the two distribution functions is below Kolmogorov's limit for 1 in 1000. */
TEST(latencies_are_drawn_as_the_file_has_them)
{
	enum { RUNS = 20000, VALUES = 1000 };
	struct goal_loggops p = goal_loggops_default;
	static uint64_t value[VALUES];
	static sp_time end[RUNS];
	struct goal_outcome o;
	struct goal_draws d;
	struct goal *g;
	double most = 0;

	for (uint64_t i = 0; i < VALUES; i++)
		value[i] = 1000000 + i * i * 7; /* skewed; in order */
	CU_ASSERT_EQUAL_FATAL(goal_draws_set(&d, value, VALUES), 0);
	p.hop[0].latency = &d;
	CU_ASSERT_EQUAL_FATAL(goal_pattern_create(&(struct goal_pattern){.name = "scatter", .ranks = 2, .size = 1}, &g),
			      0);
	CU_ASSERT_EQUAL_FATAL(goal_runs(g, &p, RUNS, 2, end, &o, NULL), 0);
	qsort(end, RUNS, sizeof(*end), compare);
	for (uint64_t i = 0, k = 0; i < VALUES; i++) {
		while (k < RUNS && end[k] <= value[i] + 2 * p.o)
			k++;
		most = fmax(most, fabs((double)k / RUNS - (double)(i + 1) / VALUES));
	}
	CU_ASSERT(most < 1.95 / sqrt(RUNS));
	CU_ASSERT(most > 0);
	goal_destroy(g);
	goal_draws_free(&d);
}

/* A message of three blocks and a bit: a G for each, so that many runs spread by the root of that. */
TEST(each_block_of_a_message_has_its_own_g)
{
	enum { RUNS = 4000 };
	struct goal_loggops p = {.S = UINT64_MAX, .seed = 3};
	const uint64_t size = 3ull * GOAL_G_BLOCK + 1, two[] = {100, 300};
	static sp_time end[RUNS];
	unsigned count[4] = {0};
	struct goal_outcome o;
	struct goal_draws d;
	struct goal *g;

	CU_ASSERT_EQUAL_FATAL(goal_draws_set(&d, two, 2), 0);
	p.hop[0].byte = &d;
	CU_ASSERT_EQUAL_FATAL(
		goal_pattern_create(&(struct goal_pattern){.name = "scatter", .ranks = 2, .size = size}, &g), 0);
	CU_ASSERT_EQUAL_FATAL(goal_runs(g, &p, RUNS, 1, end, &o, NULL), 0);
	for (unsigned i = 0; i < RUNS; i++) {
		const uint64_t blocks = (end[i] - 3ull * GOAL_G_BLOCK * 100) / (200ull * GOAL_G_BLOCK);

		CU_ASSERT_FATAL(blocks <= 3);
		CU_ASSERT_EQUAL(end[i], (3 * 100 + blocks * 200) * GOAL_G_BLOCK);
		count[blocks]++;
	}
	for (unsigned i = 0; i < 4; i++) /* 1/8, 3/8, 3/8, 1/8; four deviations */
		CU_ASSERT(fabs(count[i] - RUNS * (i % 3 ? 0.375 : 0.125)) < 4 * sqrt(RUNS * 0.25));
	goal_destroy(g);
	goal_draws_free(&d);
}

TEST(runs_do_not_depend_on_the_number_of_threads)
{
	const sp_time at[] = {1000000, 5000000}, length[] = {300000, 70000};
	struct goal_loggops p = goal_loggops_default;
	struct goal_detours os;
	struct goal_draws d;
	struct goal_outcome o, other;
	sp_time one[50], four[50], ends[16], again[16];
	struct goal *g;

	CU_ASSERT_EQUAL_FATAL(goal_detours_set(&os, at, length, 2), 0);
	CU_ASSERT_EQUAL_FATAL(goal_draws_set(&d, (uint64_t[]){2000000, 2600000, 9000000}, 3), 0);
	p.detours = &os;
	p.hop[0].latency = &d;
	p.seed = 77;
	CU_ASSERT_EQUAL_FATAL(
		goal_pattern_create(&(struct goal_pattern){.name = "dissemination", .ranks = 16, .size = 9}, &g), 0);
	CU_ASSERT_EQUAL(goal_runs(g, &p, 50, 1, one, &o, ends), 0);
	CU_ASSERT_EQUAL(goal_runs(g, &p, 50, 4, four, &other, again), 0);
	CU_ASSERT(!memcmp(one, four, sizeof(one)));
	CU_ASSERT(!memcmp(ends, again, sizeof(ends)));
	CU_ASSERT(!memcmp(&o, &other, sizeof(o)));
	CU_ASSERT(one[0] != one[1]);
	p.run = 1; /* the second run alone */
	CU_ASSERT_EQUAL(goal_loggops_run(g, &p, NULL, &o), 0);
	CU_ASSERT_EQUAL(o.end, one[1]);
	goal_destroy(g);
	goal_draws_free(&d);
	goal_detours_free(&os);
}

/* ---- what is measured here ---- */
TEST(gaps_between_stamps_become_detours)
{
	/* Ticks of half a ns; the shortest distance is 4. Distances of 36 are none, of 37 and 500 are. */
	const uint64_t stamps[] = {1000, 1004, 1040, 1077, 1082, 1582, 1586};
	struct goal_detour_result r;

	CU_ASSERT_EQUAL_FATAL(goal_detour_of(stamps, 7, 4, 9, 500, &r), 0);
	CU_ASSERT_EQUAL_FATAL(r.n, 2);
	CU_ASSERT(r.at[0] == 20000 && r.length[0] == 16500);
	CU_ASSERT(r.at[1] == 41000 && r.length[1] == 248000);
	CU_ASSERT(r.took == 293000 && r.shortest == 2000);
	free(r.at);
	free(r.length);
}

TEST(a_measurement_is_in_order_and_as_long_as_wanted)
{
	const struct goal_detour_config c = {.cpu = -1, .duration = 20 * SP_MS, .most = 100000};
	struct goal_detour_result r;

	CU_ASSERT_EQUAL_FATAL(goal_detour_measure(&c, &r), 0);
	CU_ASSERT(r.took >= 20 * SP_MS && r.n < c.most);
	CU_ASSERT(r.shortest > 0 && r.stolen >= 0 && r.stolen <= 1);
	for (uint64_t i = 1; i < r.n; i++)
		CU_ASSERT(r.at[i] >= r.at[i - 1] + r.length[i - 1]);
	free(r.at);
	free(r.length);
	CU_ASSERT_EQUAL(goal_detour_measure(&(struct goal_detour_config){.cpu = -1, .most = 1}, &r), -EINVAL);
	CU_ASSERT_EQUAL(
		goal_detour_measure(&(struct goal_detour_config){.cpu = 1000000, .duration = SP_MS, .most = 1}, &r),
		-ENODEV);
}

/* ---- messages over a stream ---- */
struct end {
	int fd, err;
};

static void *pong(void *arg)
{
	struct end *e = arg;

	e->err = goal_pong(e->fd);
	close(e->fd);
	return NULL;
}

/* Two ends, the second of which answers in a thread. */
static pthread_t ends(struct end e[2])
{
	pthread_t thread;
	int fd[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	e[0] = (struct end){fd[0], 0};
	e[1] = (struct end){fd[1], 1};
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, pong, &e[1]), 0);
	return thread;
}

TEST(each_round_is_answered_and_takes_time)
{
	double us[20], sent[20];
	struct goal_loggp p;
	struct end e[2];
	pthread_t thread = ends(e);

	CU_ASSERT_EQUAL(goal_ping(e[0].fd, 1, 1, 20, us, sent), 0);
	for (unsigned i = 0; i < 20; i++)
		CU_ASSERT(us[i] > 0 && sent[i] > 0 && sent[i] <= us[i]);
	CU_ASSERT_EQUAL(goal_ping(e[0].fd, 3, 1000003, 2, us, NULL), 0); /* no multiple of what is sent at once */
	CU_ASSERT_EQUAL(goal_ping(e[0].fd, GOAL_PING_MAX, 1, 1, us, NULL), 0);
	CU_ASSERT_EQUAL(goal_ping_loggp(e[0].fd, &p), 0);
	CU_ASSERT(p.L >= 0 && p.o > 0 && p.g >= 0 && p.G >= 0);
	close(e[0].fd);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(e[1].err, 0);
}

TEST(a_request_that_is_none_ends_the_connection)
{
	static const uint64_t good[3] = {1ull << 32 | 0x53504e31, 1, 1};
	char byte;

	for (unsigned bad = 0; bad < 6; bad++) {
		uint64_t q[3] = {good[0], good[1], good[2]};
		struct end e[2];
		pthread_t thread = ends(e);

		if (bad == 0)
			q[0] ^= 1;
		else if (bad == 1)
			q[0] = 0x53504e31; /* no messages */
		else if (bad == 2)
			q[0] |= (uint64_t)(GOAL_PING_MAX + 1) << 32;
		else if (bad == 3)
			q[1] = GOAL_PING_SIZE_MAX + 1;
		else if (bad == 4)
			q[2] = 0;
		CU_ASSERT_EQUAL(send(e[0].fd, q, bad < 5 ? sizeof(q) : 7, 0), bad < 5 ? (ssize_t)sizeof(q) : 7);
		if (bad == 5)
			shutdown(e[0].fd, SHUT_WR);
		CU_ASSERT_EQUAL(recv(e[0].fd, &byte, 1, 0), 0);
		pthread_join(thread, NULL);
		CU_ASSERT_EQUAL(e[1].err, bad < 5 ? -EPROTO : -EPIPE);
		close(e[0].fd);
	}
	CU_ASSERT_EQUAL(goal_ping(-1, 0, 1, 1, NULL, NULL), -EINVAL);
	CU_ASSERT_EQUAL(goal_ping(-1, 1, GOAL_PING_SIZE_MAX + 1, 1, NULL, NULL), -EINVAL);
}

TEST(an_end_that_goes_away_is_noticed)
{
	double us[4];
	int fd[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	close(fd[1]);
	CU_ASSERT_EQUAL(goal_ping(fd[0], 1, 1, 4, us, NULL), -EPIPE);
	close(fd[0]);
}
