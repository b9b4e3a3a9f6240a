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

#endif
