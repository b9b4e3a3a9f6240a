/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many messages over the same path, or many allreduces, on all cores: in several processes, each with its own NICs.
 * Messages go in batches of one connection each. The batches, and so all results, depend only on the seed and the
 * number of samples, not on the number of processes.
 */
#ifndef TESTBED_SWEEP_H
#define TESTBED_SWEEP_H

#include "transfer.h"

#define SP_SWEEP_SAMPLES_MAX 10000000u

struct sp_sweep {
	struct sp_transfer_config transfer;
	uint32_t nodes; /* 0: a sample is a message; otherwise an allreduce (allreduce.h) of this many nodes, over such
			   links and connections */
	uint32_t samples;   /* 1 to SP_SWEEP_SAMPLES_MAX; 8 bytes of memory each */
	uint32_t warm_up;   /* samples at the beginning of each batch that are not measured */
	uint32_t processes; /* 0: one per available processor */
	/* Called now and then, and at the end, with the number of samples so far. Returns true to stop the sweep. May
	 * be NULL. */
	bool (*progress)(void *arg, uint32_t done);
	void *arg;
	double *times; /* NULL, or room for all samples: seconds of each, in the order of the batches */
};

/* Times in seconds, as in struct sp_model_outcome. */
struct sp_sweep_outcome {
	double mean, deviation, p50, p99, p999;
	double lossless; /* time of a sample over the same path without impairments */
	struct sp_transfer_counters count;
};

/* Forks, so call it before EAL is started in this process. 0; -ECANCELED: stopped by progress(); -ECHILD: a process has
 * died; else as struct sp_transfer's calls, with text in error. No process is left running. */
int sp_sweep_run(const struct sp_sweep *sweep, struct sp_sweep_outcome *outcome, struct sp_error *error);

#endif
