/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim simulates, as its options say. */
#ifndef COMMAND_SIM_ASKED_H
#define COMMAND_SIM_ASKED_H

#include <stdbool.h>

#include "../../testbed/model.h"
#include "../../testbed/sweep.h"

struct sim_scheme {
	const char *name;
	enum sp_model_scheme scheme;
	double rto; /* round trips */
	enum sdr_reliable_scheme packets;
	enum sdr_code code; /* SDR_CODE_NONE: no parity */
	bool no_model;	    /* the model cannot compute it */
};
extern const struct sim_scheme sim_schemes[];

struct sim {
	struct sp_model model;
	uint64_t bandwidth, rtt, mtu, samples, seed; /* rtt: ps, 0: by distance */
	uint64_t nodes;				     /* of an allreduce's ring; 0: messages are simulated */
	double distance, rto;			     /* 0: not given */
	unsigned scheme;			     /* index of sim_schemes */
	bool packet, is_model, json;		     /* packet: model.drop is per packet */
	const char *device;			     /* --device; NULL: calls take no time */
	const char *times;			     /* a file, or NULL */
	/* packets only */
	double burst, duplicate, reorder;     /* burst: packets; 0: none */
	uint64_t jitter, reorder_delay, jobs; /* ps; jobs 0: not given */
	uint64_t warm_up;		      /* samples */
	bool payload_less, measured;	      /* measured: repair_rate */
	uint64_t repair_rate, repair_workers; /* bit/s of each; 0: repairs take no time; not given */
};

/* Bytes that are sent at once: a message, or a segment of an allreduce's buffer (model.message). */
uint64_t sim_message(const struct sim *s);
/* Probability that a chunk loses something. */
double sim_chunk_drop(const struct sim *s);
double sim_seconds(void); /* of a steady clock */

#endif
