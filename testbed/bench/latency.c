/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From application to application and back: two processes send a message of 8 bytes to and fro, attached to one NIC, or
 * to two that a vhost-user link joins; by SDR or RDMA WRITE; beside the same over a Unix socket and over UDP.
 *
 * NICs and processes start anew for every round. So no NIC polls while another side is measured, and the random
 * placement of one start (in caches, in memory) does not decide the result.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "children.h"

struct shape {
	bool two, sleep;
};

struct latency {
	struct bench_house house;
	struct shape shape;
};

static void close_latency(void *state)
{
	struct latency *l = state;

	bench_house_close(&l->house);
	free(l);
}

static int open_latency(const struct shape *shape, void **state, struct bench_why *why)
{
	struct latency *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->shape = *shape;
	r = bench_house_open(&l->house, why);
	if (r)
		free(l);
	else
		*state = l;
	return r;
}

static int pair(struct latency *l, const char *kind, const char *wait, const char *far, double seconds,
		struct bench_round *round, struct bench_why *why)
{
	char text[32], line[128];
	const char *const one[] = {"spindle", "bench", "--end", kind, "pong", wait, text, far, NULL};
	const char *const other[] = {"spindle", "bench", "--end", kind, "ping", wait, text, "left", NULL};
	int r;

	snprintf(text, sizeof(text), "%g", seconds);
	r = bench_children_pair(&l->house, &(struct bench_start){.argv = one, .space = -1},
				&(struct bench_start){.argv = other, .space = -1}, seconds + 60, line, sizeof(line),
				why);
	if (!r && sscanf(line, "%lf %lf", &round->value, &round->tail) != 2)
		r = bench_fail(why, -EPROTO, "no figures: %s", line);
	return r;
}

static int run_kind(struct latency *l, const char *kind, double seconds, struct bench_round *round,
		    struct bench_why *why)
{
	const bool two = l->shape.two;
	int r = two ? bench_nics_start(&l->house, "vhost", why) : bench_nic_start(&l->house, 0, "null:", -1, why);

	if (!r)
		r = pair(l, kind,
			 l->shape.sleep			? "sleep"
			 : bench_cpus() < (two ? 4 : 3) ? "yield"
							: "poll",
			 two ? "right" : "left", seconds, round, why);
	bench_nics_stop(&l->house);
	return r;
}

static int run_nics(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_kind(state, "nic", seconds, round, why);
}

static int run_write(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return run_kind(state, "write", seconds, round, why);
}

static const char *socket_wait(const struct latency *l)
{
	return l->shape.sleep ? "sleep" : bench_cpus() < 2 ? "yield" : "poll";
}

static int run_unix(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return pair(state, "unix", socket_wait(state), "", seconds, round, why);
}

static int run_udp(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	return pair(state, "udp", socket_wait(state), "", seconds, round, why);
}

#define OPEN(name, both, asleep)                                                                                       \
	static int open_##name(const struct bench_options *o, void **state, struct bench_why *why)                     \
	{                                                                                                              \
		(void)o;                                                                                               \
		return open_latency(&(const struct shape){.two = both, .sleep = asleep}, state, why);                  \
	}
OPEN(nic_polling, false, false)
OPEN(nic_sleeping, false, true)
OPEN(vhost_polling, true, false)
OPEN(vhost_sleeping, true, true)

#define LATENCY(text, open_case, polling, about)                                                                       \
	{                                                                                                              \
		.name = "latency-" text, .help = about, .unit = "ns", .less = true, .threads = polling, .fresh = true, \
		.baseline = "Unix socket (SOCK_SEQPACKET)", .open = open_case, .run = run_nics,                        \
		.run_baseline = run_unix, .other = {{"UDP loopback", run_udp}}, .close = close_latency                 \
	}

#define WRITE(text, open_case, polling, about)                                                                         \
	{                                                                                                              \
		.name = "latency-write-" text, .help = about, .unit = "ns", .less = true, .threads = polling,          \
		.fresh = true, .baseline = "sdr, the same", .open = open_case, .run = run_write,                       \
		.run_baseline = run_nics, .other = {{"Unix socket (SOCK_SEQPACKET)", run_unix}},                       \
		.close = close_latency                                                                                 \
	}

const struct bench_case bench_latency[] = {
	LATENCY("nic-polling", open_nic_polling, 3,
		"8 bytes between two programs on one NIC, half a round trip; polling"),
	LATENCY("nic-sleeping", open_nic_sleeping, 1, "the same; the programs sleep until something comes"),
	LATENCY("vhost-polling", open_vhost_polling, 4,
		"8 bytes between two programs on two NICs joined by vhost-user, half a round trip; polling"),
	LATENCY("vhost-sleeping", open_vhost_sleeping, 2, "the same; the programs sleep until something comes"),
	WRITE("nic", open_nic_polling, 3,
	      "RDMA WRITEs of 8 bytes between two programs on one NIC, half a round trip; polling the memory"),
	WRITE("vhost", open_vhost_polling, 4, "the same between two NICs joined by vhost-user"),
	{.name = NULL},
};
