/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of counters, and the NIC's report. The callers hold nic->control. */
#ifndef PIPELINE_OBSERVE_STATS_H
#define PIPELINE_OBSERVE_STATS_H

#include "snapshot.h"

struct sp_drop_sum {
	const char *name; /* name in a handler or in nic->gone: valid while nic->control is held */
	uint64_t count;
};

struct sp_drop_sums {
	struct sp_drop_sum *sum; /* the caller frees it */
	size_t count;
};
/* All drop reasons with their counts. */
struct sp_drop_sums sp_stats_drops(const struct sp_nic *nic, const struct sp_snapshot *snapshot);

/* Adds to the sum of that name; adds names with count 0 only if all are wanted. */
void sp_stats_drop(struct sp_drop_sums *sums, const char *name, uint64_t n, bool all);

/* ---- contexts and handlers in the report, stats_context.c ---- */

/* Name of a context in reports: NAME, NAME@PID for an application's, NAME@PID#ID if the application has several. */
struct sp_stats_name {
	char text[SP_REPORT_NAME];
};
/* One name per entry of the snapshot; "": same context as the entry before. NULL: no memory. The caller frees them. */
struct sp_stats_name *sp_stats_names(const struct sp_snapshot *snapshot);
/* handlers: include their reports. only: a context's name, or NULL. Returns the number of contexts. */
size_t sp_stats_contexts(const struct sp_snapshot *snapshot, const struct sp_stats_name *names, bool handlers,
			 const char *only, struct sp_report *report);
/* Each handler, summed over its contexts. */
void sp_stats_handlers(const struct sp_snapshot *snapshot, struct sp_report *report);

#endif
