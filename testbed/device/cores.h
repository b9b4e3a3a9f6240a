/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The servers of a queueing model: a device's cores, or its DMA engine (one server). Jobs come in the order of time,
 * and each is given the earliest place that it fits into, at once: so its end is known when it comes. A job never
 * delays one that came before it. Where a job must wait for another one (a payload for its message's header), the core
 * that it will run on has a gap until then, which later jobs may fill: what schedulers of batches call conservative
 * backfilling. Without such waits this is the queue "first come, first served" with N servers, exactly.
 */
#ifndef TESTBED_DEVICE_CORES_H
#define TESTBED_DEVICE_CORES_H

#include "../../handlers/wire/host.h"

#define SP_CORES_MOST 4096
#define SP_CORES_GAPS 1024 /* gaps remembered; beyond that the oldest stays unused */
#define SP_CORES_ANY  (-1)

struct sp_core_gap {
	sp_time from, to;
	uint32_t core;
};

struct sp_cores {
	uint32_t count;
	sp_time *until; /* of each core: nothing is planned from then on */
	sp_time busy;	/* sum of all jobs, ps */
	sp_time last;	/* the end of the latest job */
	uint64_t jobs;
	struct sp_core_gap gap[SP_CORES_GAPS];
	uint32_t gaps;
};

int sp_cores_init(struct sp_cores *c, uint32_t count); /* 1 to SP_CORES_MOST; -EINVAL, -ENOMEM */
void sp_cores_free(struct sp_cores *c);

struct sp_core_place {
	sp_time start, end;
	uint32_t core;
};

/*
 * Plans a job of that length, not before `ready`, on that core or on any. now: the time of the job's arrival, which is
 * never earlier than that of a job before, nor later than `ready`. Threads: one.
 */
struct sp_core_place sp_cores_take(struct sp_cores *c, sp_time now, sp_time ready, sp_time length, int core);

#endif
