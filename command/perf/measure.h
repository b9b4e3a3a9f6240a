/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs what the two ends have agreed upon, and counts. */
#ifndef COMMAND_PERF_MEASURE_H
#define COMMAND_PERF_MEASURE_H

#include "session.h"

struct perf_row {		 /* an interval */
	uint64_t begin, end;	 /* ns since the start */
	uint64_t sent, received; /* messages in it */
};

struct perf_measured {
	struct perf_result own, peer;
	struct perf_row *row;
	size_t rows;
	double *sample; /* us, of round trips in rising order: the client's, with PERF_LATENCY */
	size_t samples;
};

/* interval: ns. row(): each one, when it is over; arg comes back. 0 or -1. */
int perf_measure(struct perf_session *s, uint64_t interval, void (*row)(void *arg, const struct perf_row *row),
		 void *arg, struct perf_measured *m);
void perf_forget(struct perf_measured *m);

#endif
