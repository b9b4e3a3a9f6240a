/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NICs that have nothing to do: the processor time that they take all the same, and how long the first packet after at
 * least 100 ms takes from one program to another. NICs run during all rounds of a case: nothing else is measured.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../host-api/spindle.h"
#include "children.h"

#define SETTLE	  200000 /* us after the start */
#define LEAST_S	  0.3	 /* of a round of processor time */
#define LEAST	  0.001	 /* %: an idle NIC may take no measurable time, and ratios need some */
#define FIRST_MAX 100.0	 /* us */

struct shape {
	const char *kind; /* as of bench_nics_start(); or "tap": one NIC */
	double allowed;	  /* % of a core */
};

struct idle {
	struct bench_house house;
	const struct shape *shape;
};

static void close_idle(void *state)
{
	struct idle *i = state;

	bench_house_close(&i->house);
	free(i);
}

static int start_nics(struct idle *i, struct bench_why *why)
{
	int r;

	if (strcmp(i->shape->kind, "tap"))
		return bench_nics_start(&i->house, i->shape->kind, why);
	r = bench_nic_start(&i->house, 0, "tap:idle0", 0, why);
	return r == -EPIPE ? BENCH_SKIPPED : r; /* there may be no /dev/net/tun */
}

/* Whether the ports are of interfaces in two namespaces. */
static bool spaces(const struct shape *shape)
{
	return strcmp(shape->kind, "vhost") != 0;
}

static int open_idle(const struct shape *shape, void **state, struct bench_why *why)
{
	struct idle *i = calloc(1, sizeof(*i));
	int r;

	if (!i)
		return -ENOMEM;
	i->shape = shape;
	r = bench_house_open(&i->house, why);
	if (!r && spaces(shape)) {
		r = bench_house_spaces(&i->house, why);
		if (r == -EPERM)
			r = BENCH_SKIPPED;
	}
	if (!r)
		r = start_nics(i, why);
	if (!r)
		usleep(SETTLE);
	if (r)
		close_idle(i);
	else
		*state = i;
	return r;
}

/* ---- processor time ---- */
static double ran(const struct bench_child *nic)
{
	struct timespec t = {0};
	clockid_t clock;

	if (nic->pid <= 0 || clock_getcpuclockid(nic->pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of the NIC that takes more. */
static int run_processor(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct idle *i = state;
	const double before[2] = {ran(&i->house.nic[0]), ran(&i->house.nic[1])};
	const double least = 5 * seconds > LEAST_S ? 5 * seconds : LEAST_S;
	const sp_time begin = sp_clock();
	double most = 0, took;

	(void)why;
	usleep((useconds_t)(least * 1e6));
	took = (double)(sp_clock() - begin) / SP_SEC;
	for (unsigned n = 0; n < 2; n++) {
		const double share = 100 * (ran(&i->house.nic[n]) - before[n]) / took;

		most = share > most ? share : most;
	}
	round->value = most > LEAST ? most : LEAST;
	return 0;
}

static int run_allowed(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct idle *i = state;

	(void)seconds;
	(void)why;
	round->value = i->shape->allowed;
	return 0;
}

/* ---- the first packet ---- */
static int run_first(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct idle *i = state;
	const char *wait = bench_cpus() < 4 ? "yield" : "poll";
	char text[32], line[128];
	const char *const late[] = {"spindle", "bench", "--end", "write", "late", wait, text, "left", NULL};
	const char *const first[] = {"spindle", "bench", "--end", "write", "first", wait, text, "right", NULL};
	const bool apart = spaces(i->shape);
	int r;

	snprintf(text, sizeof(text), "%g", seconds);
	r = bench_children_pair(&i->house, &(struct bench_start){.argv = late, .space = apart ? 0 : -1},
				&(struct bench_start){.argv = first, .space = apart ? 1 : -1}, BENCH_PATIENCE, line,
				sizeof(line), why);
	if (!r && sscanf(line, "%lf %lf", &round->value, &round->tail) != 2)
		r = bench_fail(why, -EPROTO, "no figures: %s", line);
	round->value /= 1000;
	round->tail /= 1000;
	return r;
}

static int run_first_allowed(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	(void)state;
	(void)seconds;
	(void)why;
	round->value = FIRST_MAX;
	return 0;
}

#define OPEN(name, ...)                                                                                                \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		static const struct shape shape = {__VA_ARGS__};                                                       \
		(void)o;                                                                                               \
		return open_idle(&shape, state, why);                                                                  \
	}
OPEN(vhost, "vhost", 1)
OPEN(tap, "tap", 1)
OPEN(veth, "af_packet", 2)
OPEN(xdp, "af_xdp", 2)

#define IDLE(text, open_case, about)                                                                                   \
	{                                                                                                              \
		.name = "idle-" text, .help = about, .unit = "%", .less = true, .threads = 1, .fresh = true,           \
		.baseline = "what it may take", .required = 1, .open = open_case, .run = run_processor,                \
		.run_baseline = run_allowed, .close = close_idle                                                       \
	}
#define FIRST(text, open_case, about)                                                                                  \
	{                                                                                                              \
		.name = "idle-" text "-first", .help = about, .unit = "us", .less = true, .threads = 2, .fresh = true, \
		.baseline = "what it may take", .required = 1, .open = open_case, .run = run_first,                    \
		.run_baseline = run_first_allowed, .close = close_idle                                                 \
	}

const struct bench_case bench_idle[] = {
	IDLE("vhost", open_vhost, "processor time of an idle NIC with a port vhost or virtio-user, in % of a core"),
	IDLE("tap", open_tap, "the same with a port tap"),
	IDLE("veth", open_veth, "the same with a port af_packet on a veth"),
	IDLE("xdp", open_xdp, "the same with a port af_xdp on a veth"),
	FIRST("vhost", open_vhost,
	      "8 bytes by RDMA WRITE through two NICs that were idle for 100 ms, joined by vhost-user"),
	FIRST("veth", open_veth, "the same over a veth, by ports af_packet"),
	FIRST("xdp", open_xdp, "the same by ports af_xdp"),
	{.name = NULL},
};
