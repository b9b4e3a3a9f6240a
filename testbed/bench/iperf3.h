/* SPDX-License-Identifier: BSD-3-Clause */
/* iperf3 as a baseline: so many bytes by UDP, as fast as it can, in datagrams of a size, from the house's right
 * namespace to the left one, or over loopback if it has none. What counts is what arrives, in MB/s. */
#ifndef TESTBED_BENCH_IPERF3_H
#define TESTBED_BENCH_IPERF3_H

#include "children.h"

struct bench_round;

/* BENCH_SKIPPED: it is not installed. */
int bench_iperf3_round(const struct bench_house *house, unsigned datagram, uint64_t bytes, struct bench_round *round,
		       struct bench_why *why);

#endif
