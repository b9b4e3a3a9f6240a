/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim is asked for (sim_options.c), the simulation of packets (sim_packets.c), and how what came out is
 * shown (sim_show.c). */
#ifndef COMMAND_SIM_H
#define COMMAND_SIM_H

#include <stdbool.h>

#include "../../testbed/model.h"
#include "../../testbed/sweep.h"

struct sim_scheme {
	const char *name;
	enum sp_model_scheme scheme;
	double rto; /* round trips */
	enum sdr_reliable_scheme packets;
	enum sdr_code code; /* that it needs */
	bool no_model;	    /* only packets have it */
};
extern const struct sim_scheme sim_schemes[];

struct sim {
	struct sp_model model;
	uint64_t bandwidth, rtt, mtu, samples, seed; /* rtt: ps, 0: by distance */
	uint64_t nodes;				     /* of an allreduce's ring; 0: messages are simulated */
	double distance, rto;			     /* 0: not given */
	const char *ec, *beta;			     /* as given, or NULL */
	unsigned scheme;			     /* of sim_schemes */
	bool packet, is_model, json;
	const char *times; /* a file, or NULL */
	/* of packets alone */
	const char *packets_only;	      /* the last option given that the model does not have, or NULL */
	double burst, duplicate, reorder;     /* burst: packets; 0: none */
	uint64_t jitter, reorder_delay, jobs; /* ps; reorder_delay UINT64_MAX, jobs 0: not given */
	uint64_t warm_up;		      /* samples */
	bool payload_less, measured;	      /* measured: of repair_rate */
	uint64_t repair_rate, repair_workers; /* bit/s of each; 0: repairs take no time; not given */
};

/* 0, or the exit status + 1. */
int sim_options(struct sim *s, int argc, char **argv);

/* Bytes that go across at once: a message, or of an allreduce, whose buffer model.message is then, a segment. */
uint64_t sim_message(const struct sim *s);

/* Probability that a chunk loses something. */
double sim_chunk_drop(const struct sim *s);

double sim_seconds(void); /* of a steady clock */

/* --times: room for the samples' times in *times, NULL if they are not asked for; and writing them to the file, after
 * which the room is gone. The exit status, a message printed. */
int sim_times_open(const struct sim *s, double **times);
int sim_times_write(const struct sim *s, double *times);

/* The exit status. */
int sim_packets(const struct sim *s);

/* wall: s that it took. */
void sim_show_json(const struct sim *s, const struct sp_model_outcome *o, double wall);
void sim_show_text(const struct sim *s, const struct sp_model_outcome *o);
void sim_show_packets_json(const struct sim *s, const struct sp_sweep_outcome *o, double wall);
void sim_show_packets_text(const struct sim *s, const struct sp_sweep_outcome *o, double wall);

#endif
