/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of receiving a packet, part by part. */
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
	double whole; /* of a NIC that does all of it, measured separately */
};

/* 64-byte packets of SDR messages, ICRC checked, in chunks of one packet: cycles a packet. 0 or -errno with the reason
 * in why. */
int bench_parts_run(const struct bench_options *options, struct bench_parts *parts, struct bench_why *why);

#endif
