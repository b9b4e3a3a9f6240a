/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the workers have counted. A worker's counters are plain and its own; it copies them itself, between two of its
 * polls (sp_worker_call): what a snapshot says of one worker is of one moment, and nothing of it is a race. Workers
 * pass by one after the other. A call takes SP_SNAPSHOT_SLICE contexts at the most, so that no worker pauses for
 * longer: of a NIC with more than that, the contexts behind are a little later than the worker's own counters.
 */
#ifndef PIPELINE_SNAPSHOT_H
#define PIPELINE_SNAPSHOT_H

#include "../handlers/spindle-handler.h"
#include "drop.h"
#include "limits.h"
#include "worker.h"
#include "wrong.h"

#include <stdint.h>

#define SP_SNAPSHOT_SLICE 16

/* One worker. In it, the packets of all ports are exactly taken + answered + forwarded + the drops before
 * SP_DROP_FIRST_TX + refused + parked. */
struct sp_worker_counts {
	uint64_t drops[SP_DROP_COUNT];
	uint64_t taken, refused, answered, forwarded, parked, polls, busy_polls;
	sp_time ran, busy, now;
	struct sp_rx_count rx[SP_PORT_LOOP + 1], tx[SP_PORT_LOOP + 1]; /* the exception port's stay zero */
};

/* One copy of a context, or its companion, summed over the workers. */
struct sp_context_counts {
	struct sp_context *context; /* valid while nic->control is held */
	struct sp_context *newest;  /* the copy that has taken over from it, or itself */
	uint64_t packets, bytes, forwarded, dropped, errors, sent, sent_bytes, lent, dma_faults, events_lost, kept;
	uint64_t run;		  /* packets that this very copy has taken; packets: those whose count it has */
	uint64_t ended, answered; /* among packets */
	uint64_t kept_refused;
	uint64_t over_budget, disabled, backlog_full; /* drops by these names of the NIC's, among dropped */
	uint64_t *drops, *counters;		      /* one per name that its handler declares */
	uint64_t *cycles;			      /* one per worker: in this context's calls there */
	struct sp_meter meter;
	struct sp_wrong wrong; /* the latest */
};

struct sp_snapshot {
	struct sp_worker_counts worker[SP_MAX_WORKERS];
	/* In order of ids; of each the newest copy, its companion, then what still ends on older copies. */
	struct sp_context_counts *context;
	size_t contexts;
	uint64_t *value; /* theirs */
};

/* nic->control is held, here and for as long as the contexts are looked at. all: with contexts; else there are none,
 * and it cannot fail. -ENOMEM. */
int sp_snapshot_take(struct sp_nic *nic, bool all, struct sp_snapshot *snapshot);
void sp_snapshot_free(struct sp_snapshot *snapshot);
/* All workers together. */
void sp_snapshot_totals(const struct sp_nic *nic, const struct sp_snapshot *snapshot, struct sp_nic_totals *totals);

#endif
