/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it takes to begin: a NIC, from the call that starts `spindle run` to the line that says it is up; and one more
 * program at a NIC that has many already. That many are one process here, which attaches as often.
 */
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "../../host-api/spindle.h"
#include "bench.h"
#include "children.h"

#define SAMPLES	  9    /* attaches that are measured; each is closed before the next one */
#define PLACES	  2048 /* for applications */
#define PATIENCE  240  /* s, for all of them */
#define FILES	  4u   /* descriptors of an application, at both ends: 3, and some while it attaches */
#define OWN_FILES 128u /* of a program that has none */

/* ---- the process that attaches ---- */
static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Each needs some descriptors. */
static void allow_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* In so many us. The NIC takes none while much of what earlier applications had has not been given back yet. */
static int attach(const char *nic, struct sp_dev **dev, double *us)
{
	const struct timespec nap = {.tv_nsec = 20000000};
	int r = -EBUSY;

	for (unsigned i = 0; r == -EBUSY && i < 1000; i++) {
		const sp_time began = sp_clock();

		r = sp_attach(nic, dev);
		*us = (double)(sp_clock() - began) / SP_US;
		if (r == -EBUSY)
			nanosleep(&nap, NULL);
	}
	return r;
}

int bench_attach_end(const char *count, const char *nic)
{
	const unsigned others = (unsigned)strtoul(count, NULL, 10) - 1;
	struct sp_dev **dev = calloc(others + 1, sizeof(*dev)), *one;
	double us[SAMPLES];
	unsigned have = 0;
	int r = dev ? 0 : -ENOMEM;

	allow_files();
	for (; have < others && !r; have += !r)
		r = attach(nic, &dev[have], &us[0]);
	for (unsigned i = 0; i < SAMPLES && !r; i++) {
		r = attach(nic, &one, &us[i]);
		if (!r)
			sp_dev_close(one);
	}
	if (r) {
		fprintf(stderr, "%u are attached, one more: %s\n", have, strerror(-r));
	} else {
		qsort(us, SAMPLES, sizeof(*us), by_value);
		printf("%.1f\n", us[SAMPLES / 2]);
	}
	while (have)
		sp_dev_close(dev[--have]);
	free(dev);
	return r != 0;
}

/* ---- the cases ---- */
struct bench {
	struct bench_house house;
	unsigned count; /* 0: starts NICs */
};

static void close_bench(void *state)
{
	struct bench *b = state;

	bench_house_close(&b->house);
	free(b);
}

static int open_bench(unsigned count, void **state, struct bench_why *why)
{
	const unsigned long need = FILES * count + OWN_FILES;
	struct rlimit files;
	struct bench *b;
	int r;

	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_max < need)
		return bench_fail(why, BENCH_SKIPPED, "%lu descriptors are needed, %lu are allowed", need,
				  (unsigned long)files.rlim_max);
	b = calloc(1, sizeof(*b));
	r = b ? bench_house_open(&b->house, why) : -ENOMEM;
	if (r) {
		free(b);
		return r;
	}
	b->count = count;
	b->house.applications = PLACES;
	if (count)
		r = bench_nic_start(&b->house, 0, "null:", -1, why);
	if (r)
		close_bench(b);
	else
		*state = b;
	return r;
}

static int run_start(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	struct timespec from, to;
	int r;

	(void)seconds;
	clock_gettime(CLOCK_MONOTONIC, &from);
	r = bench_nic_start(&b->house, 0, "null:", -1, why);
	clock_gettime(CLOCK_MONOTONIC, &to);
	round->value = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
	bench_nics_stop(&b->house);
	return r;
}

static int run_attach(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	char count[16], line[128];
	const char *const argv[] = {"spindle", "bench", "--end", "attach", count, "left", NULL};
	struct bench_child child;
	int r;

	(void)seconds;
	snprintf(count, sizeof(count), "%u", b->count);
	r = bench_child_start(&b->house, &(struct bench_start){.argv = argv, .space = -1}, &child, why);
	if (r)
		return r;
	r = bench_child_line(&b->house, &child, PATIENCE, line, sizeof(line), why);
	if (!r)
		r = bench_child_end(&b->house, &child, PATIENCE, why);
	bench_child_stop(&child);
	round->value = r ? 0 : strtod(line, NULL);
	return r;
}

#define OPEN(count)                                                                                                    \
	static int open_##count(const struct bench_options *o, void **state, struct bench_why *why)                    \
	{                                                                                                              \
		(void)o;                                                                                               \
		return open_bench(count, state, why);                                                                  \
	}
OPEN(0)
OPEN(1)
OPEN(10)
OPEN(100)
OPEN(1000)

#define ATTACH(n)                                                                                                      \
	{                                                                                                              \
		.name = "attach-" #n, .help = "attaching to a NIC, as program number " #n, .unit = "us", .less = true, \
		.open = open_##n, .run = run_attach, .close = close_bench                                              \
	}

const struct bench_case bench_start[] = {
	{.name = "start-nic",
	 .help = "from the start of spindle run until the NIC is up, with a port null:",
	 .unit = "ms",
	 .less = true,
	 .open = open_0,
	 .run = run_start,
	 .close = close_bench},
	ATTACH(1),
	ATTACH(10),
	ATTACH(100),
	ATTACH(1000),
	{.name = NULL},
};
