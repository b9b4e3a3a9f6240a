/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring: a case and its baseline take turns, several times; what counts is the ratio of their medians. */
#ifndef TESTBED_BENCH_H
#define TESTBED_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_ROUNDS_MAX 101

/* One turn: how much was done in how many TSC cycles. */
struct bench_turn {
	uint64_t units; /* packets, or what the case's unit says */
	uint64_t cycles;
};

struct bench_options {
	unsigned rounds; /* turns of each side */
	double turn_seconds;
	bool icrc;
};

struct bench_case {
	const char *name, *help;
	const char *baseline;  /* what it is measured against, in words */
	double required, goal; /* of the ratio baseline cycles / case cycles; 0 = none */
	/* Makes what both sides need; *state is given to the others. 0, or -errno and words in why. */
	int (*open)(const struct bench_options *options, void **state, char *why, unsigned room);
	int (*run)(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room);
	int (*run_baseline)(void *state, double seconds, struct bench_turn *turn, char *why, unsigned room);
	void (*close)(void *state);
};

struct bench_result {
	double cycles, baseline_cycles; /* per unit, medians */
	double per_second, baseline_per_second;
	double ratio;			/* baseline_cycles / cycles: 1 = as fast as the baseline */
	double spread, baseline_spread; /* (upper - lower quartile) / median */
};

/* Runs one case. 0, or -errno and words in why. */
int bench_run(const struct bench_case *c, const struct bench_options *options, struct bench_result *result, char *why,
	      unsigned room);

/* All cases, NULL past the last. */
const struct bench_case *bench_case(unsigned index);

extern const struct bench_case bench_sdr_64, bench_sdr_4096;

#endif
