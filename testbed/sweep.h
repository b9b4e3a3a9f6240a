/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many messages across the same way, or many allreduces, on all cores: processes of their own, each with its NICs. The
 * messages go in batches of one connection each; which they are, and so every figure, depends on the seed and the
 * number of samples alone, not on how many processes there are.
 */
#ifndef TESTBED_SWEEP_H
#define TESTBED_SWEEP_H

#include "transfer.h"

#define SP_SWEEP_SAMPLES_MAX 10000000u

struct sp_sweep {
	struct sp_transfer_config transfer;
	uint32_t nodes;	    /* 0: a sample is a message; else a ring's allreduce (ring.h) over links like this one, each
			       with a connection like this one */
	uint32_t samples;   /* 1 to SP_SWEEP_SAMPLES_MAX; 8 bytes of memory each */
	uint32_t warm_up;   /* samples in each batch before those that count */
	uint32_t processes; /* 0: one per processor that we may use */
	/* Called now and then, and at the end: how many samples there are. true: it shall stop. NULL is fine. */
	bool (*progress)(void *arg, uint32_t done);
	void *arg;
	double *times; /* NULL, or room for as many as samples: s of each sample, in the batches' order */
};

/* Times in seconds, as struct sp_model_outcome says. */
struct sp_sweep_outcome {
	double mean, deviation, p50, p99, p999;
	double lossless; /* of a sample over the same way when nothing is lost, repeated, reordered, late or corrupted
			  */
	struct sp_transfer_counters count;
};

/* To be called before EAL is started in this process: it forks. 0; -ECANCELED: progress() said so; -ECHILD: a process
 * has died; else as struct sp_transfer's calls say, with error in words. No process is left. */
int sp_sweep_run(const struct sp_sweep *sweep, struct sp_sweep_outcome *outcome, struct sp_error *error);

#endif
