/* SPDX-License-Identifier: BSD-3-Clause */
/* Other load of the machine during a measurement. */
#ifndef TESTBED_BENCH_NOISE_H
#define TESTBED_BENCH_NOISE_H

#include <stdbool.h>

/* Above these limits, results are unreliable. */
#define BENCH_NOISE_SPREAD 0.15 /* of a side: interquartile range over median */
#define BENCH_NOISE_LOAD   0.75 /* load average of the last minute at the beginning, per processor */
#define BENCH_NOISE_OTHERS 0.05 /* share of processor time used by other processes, over all processors */
#define BENCH_NOISE_STEAL  0.02 /* share of processor time that the hypervisor gave to others */

struct bench_noise {
	double load;	       /* at the beginning: the measurement itself is load */
	double others, stolen; /* shares of all processors' time since the beginning */
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
