/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of what was counted, and the NIC's report. nic->control is held by the callers. */
#ifndef PIPELINE_STATS_H
#define PIPELINE_STATS_H

#include "snapshot.h"

struct sp_drop_sum {
	const char *name; /* of a handler or of nic->gone: valid while nic->control is held */
	uint64_t count;
};

struct sp_drop_sums {
	struct sp_drop_sum *sum; /* the caller frees it */
	size_t count;
};
/* Every reason for which there was a drop. */
struct sp_drop_sums sp_stats_drops(const struct sp_nic *nic, const struct sp_snapshot *snapshot);

/* Adds to the sum of that name; what has not occurred is in it only where all are wanted. */
void sp_stats_drop(struct sp_drop_sums *sums, const char *name, uint64_t n, bool all);

/* ---- contexts and handlers in the report, stats_context.c ---- */

/* As contexts are called there: NAME, or NAME@PID of an application's, or NAME@PID#ID of one that has several. */
struct sp_stats_name {
	char text[SP_REPORT_NAME];
};
/* One per entry of the snapshot; "": it belongs to the one before. NULL: no memory. The caller frees them. */
struct sp_stats_name *sp_stats_names(const struct sp_snapshot *snapshot);
/* handlers: they are asked, too. only: of that name, or NULL. Returns how many contexts there were. */
size_t sp_stats_contexts(const struct sp_snapshot *snapshot, const struct sp_stats_name *names, bool handlers,
			 const char *only, struct sp_report *report);
/* Every handler over all its contexts. */
void sp_stats_handlers(const struct sp_snapshot *snapshot, struct sp_report *report);

#endif
