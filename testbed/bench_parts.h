/* SPDX-License-Identifier: BSD-3-Clause */
/* What a received packet's way takes, part by part. */
#ifndef TESTBED_BENCH_PARTS_H
#define TESTBED_BENCH_PARTS_H

#include "bench.h"

#define BENCH_PARTS 8

struct bench_parts {
	struct {
		const char *name, *help;
		double cycles;
	} part[BENCH_PARTS];
	double sum;   /* of the parts */
	double whole; /* of a NIC that does all of it, measured by itself */
};

/* Of 64-byte packets of SDR messages, checked, in chunks of one: cycles a packet. 0 or -errno and
 * words in why. */
int bench_parts_run(const struct bench_options *options, struct bench_parts *parts, char *why, unsigned room);

#endif
