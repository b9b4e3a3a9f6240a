/* SPDX-License-Identifier: BSD-3-Clause */
/* What else the machine did while something was measured. */
#ifndef TESTBED_BENCH_NOISE_H
#define TESTBED_BENCH_NOISE_H

#include <stdbool.h>

/* Above these, figures say little. */
#define BENCH_NOISE_SPREAD 0.15 /* of a side: quartiles' distance over the median */
#define BENCH_NOISE_LOAD   0.75 /* load average of a minute when it began, for each processor */
#define BENCH_NOISE_OTHERS 0.05 /* share of a processor's time that others took, on average over all of them */
#define BENCH_NOISE_STEAL  0.02 /* share that the hypervisor gave to others */

struct bench_noise {
	double load;	       /* when it began: the measurement itself is load */
	double others, stolen; /* shares of all processors' time since */
	/* ---- as of the beginning ---- */
	double busy, steal, all, own; /* s, of all processors; own: this process and its children that have ended */
};

void bench_noise_begin(struct bench_noise *noise);
/* Children must have ended. */
void bench_noise_end(struct bench_noise *noise);
static inline bool bench_noise_any(const struct bench_noise *n)
{
	return n->load > BENCH_NOISE_LOAD || n->others > BENCH_NOISE_OTHERS || n->stolen > BENCH_NOISE_STEAL;
}

#endif
