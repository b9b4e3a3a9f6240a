/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's test program as a baseline: a process of its own, with a port of the same kind, which forwards in its rounds
 * and waits between them. It reports its rate itself (`show port stats`). */
#ifndef TESTBED_BENCH_TESTPMD_H
#define TESTBED_BENCH_TESTPMD_H

#include "children.h"

struct bench_round;

struct bench_testpmd {
	struct bench_house house;
	struct bench_child child;
	int tell; /* its standard input */
	bool open;
	unsigned room;			  /* bytes of its buffers, headroom included; 0: testpmd's default */
	char skipped[256];		  /* the reason, or "" */
	const struct bench_house *spaces; /* it runs in this house's namespace `space`; NULL: where we run */
	int space;
};

/* A round; the first one starts the program. mode: as in --forward-mode; device: a vdev with arguments; bytes: of
 * packets that it sends itself (txonly), else 0. BENCH_SKIPPED: not installed, or does not start. A zeroed struct is
 * closed. */
int bench_testpmd_round(struct bench_testpmd *testpmd, const char *mode, const char *device, unsigned bytes,
			double seconds, struct bench_round *round, struct bench_why *why);
/* A round of two, txonly and rxonly, that a link joins: MB/s of what arrives in packets of `bytes` (at most 4096) and
 * their headers. `to` starts first. */
int bench_testpmd_pair(struct bench_testpmd *from, const char *from_device, struct bench_testpmd *to,
		       const char *to_device, unsigned bytes, double seconds, struct bench_round *round,
		       struct bench_why *why);
void bench_testpmd_close(struct bench_testpmd *testpmd);

#endif
