/* SPDX-License-Identifier: BSD-3-Clause */
/* Snapshot of the workers' counters. Counters are plain and private to a worker, which copies them between two polls
 * (sp_worker_call): one worker's values are consistent and free of races. Workers copy one after the other. A call
 * copies at most SP_SNAPSHOT_SLICE contexts, to bound the pause: the values of further contexts are slightly newer than
 * the worker's own. */
#ifndef PIPELINE_OBSERVE_SNAPSHOT_H
#define PIPELINE_OBSERVE_SNAPSHOT_H

#include "../../handlers/spindle-handler.h"
#include "../drop.h"
#include "../limits.h"
#include "../worker.h"
#include "../exec/last_error.h"

#include <stdint.h>

#define SP_SNAPSHOT_SLICE 16

/* One worker's counters. Here the packets of all ports are exactly taken + answered + forwarded + the drops before
 * SP_DROP_FIRST_TX + refused + parked. */
struct sp_worker_counts {
	uint64_t drops[SP_DROP_COUNT];
	uint64_t taken, refused, answered, forwarded, parked, polls, busy_polls, sleeps, woken;
	sp_time ran, busy, now;
	struct sp_rx_count rx[SP_PORT_LOOP + 1], tx[SP_PORT_LOOP + 1]; /* 0 for the exception port */
};

/* One version of a context, or its companion, summed over the workers. */
struct sp_context_counts {
	struct sp_context *context; /* valid while nic->control is held */
	struct sp_context *newest;  /* the newest version, or this one */
	uint64_t packets, bytes, forwarded, dropped, errors, sent, sent_bytes, lent, dma_faults, events_lost, held;
	uint64_t run;		  /* packets taken by this version; packets: taken by the versions that it counts for */
	uint64_t ended, answered; /* among packets */
	uint64_t held_refused;
	uint64_t over_budget, disabled, backlog_full,
		over_limit;	    /* drops by these reasons of the NIC, part of dropped */
	uint64_t *drops, *counters; /* one per name that the handler declares */
	uint64_t *cycles;	    /* one per worker: cycles in calls of this context */
	struct sp_meter meter;
	struct sp_last_error last_error; /* the latest */
};

struct sp_snapshot {
	struct sp_worker_counts worker[SP_MAX_WORKERS];
	/* In order of ids; per context: newest version, its companion, older versions that drain. */
	struct sp_context_counts *context;
	size_t contexts;
	uint64_t *value; /* storage of their values */
};

/* The caller holds nic->control, here and while it uses the contexts. all: with contexts; without them the call cannot
 * fail. -ENOMEM. */
int sp_snapshot_take(struct sp_nic *nic, bool all, struct sp_snapshot *snapshot);
void sp_snapshot_free(struct sp_snapshot *snapshot);
/* Sums over all workers. */
void sp_snapshot_totals(const struct sp_nic *nic, const struct sp_snapshot *snapshot, struct sp_nic_totals *totals);

#endif
