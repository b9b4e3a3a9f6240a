/* SPDX-License-Identifier: BSD-3-Clause */
/* The way of a message from one program to another, step by step: what each step takes, and who ran meanwhile. */
#ifndef TESTBED_BENCH_PATH_H
#define TESTBED_BENCH_PATH_H

#include "bench.h"

#define BENCH_PATH_MESSAGES 256 /* of a run, at most */

/* The hand-overs, in order. */
enum bench_path_at {
	BENCH_PATH_CALL,   /* the program calls sdr_send_post() */
	BENCH_PATH_ROUND,  /* the round of its NIC's worker begins that takes the command */
	BENCH_PATH_BUILT,  /* the packet is built */
	BENCH_PATH_SENT,   /* the port has it */
	BENCH_PATH_POLLED, /* the other NIC's worker has it from its port */
	BENCH_PATH_PLACED, /* data and event are in the other program's memory */
	BENCH_PATH_WOKEN,  /* that program runs; polling: it has seen the message */
	BENCH_PATH_SEEN,   /* it has seen the message */
	BENCH_PATH_POINTS
};

enum { BENCH_PATH_SENDER, BENCH_PATH_RECEIVER, BENCH_PATH_NIC, BENCH_PATH_OTHER_NIC, BENCH_PATH_PROCESSES };

/* What a process did, all its threads. */
struct bench_path_ran {
	uint64_t voluntary, involuntary; /* switches; sched_yield() is an involuntary one */
	double seconds;			 /* processor time */
};

/* What the ends say, in a file: TSC. */
struct bench_path_said {
	uint32_t messages;
	struct bench_path_ran ran[BENCH_PATH_PROCESSES];
	struct {
		uint64_t call, woken, seen;
	} message[BENCH_PATH_MESSAGES];
};

struct bench_path_case {
	const char *name, *help;
	const char *nics; /* as of bench_nics_start(); NULL: one NIC */
	bool sleep, rest; /* rest: everything has fallen asleep before each message */
};
const struct bench_path_case *bench_path_case(unsigned i); /* NULL: no more */

/* One NIC has no port in between. */
bool bench_path_has(const struct bench_path_case *c, enum bench_path_at step);

struct bench_path {
	unsigned messages; /* whose steps are all known */
	struct {
		double median, tail;			 /* ns from the hand-over before; 99 % */
	} step[BENCH_PATH_POINTS];			 /* [BENCH_PATH_CALL]: from there to the end */
	struct bench_path_ran ran[BENCH_PATH_PROCESSES]; /* for a message and its answer */
};

extern const char *const bench_path_steps[BENCH_PATH_POINTS]; /* what lies before each hand-over */

/* 0 or -errno with the reason in why. */
int bench_path_run(const struct bench_path_case *c, const struct bench_options *options, struct bench_path *path,
		   struct bench_why *why);

/* One end: ROLE WAIT MESSAGES REST TARGET FILE PID... ROLE: pong or ping, which writes FILE; WAIT: yield, poll or
 * sleep; REST: us before each message; PID: of the NICs. Returns the exit status. */
int bench_path_end(int argc, char **argv);

#endif
