/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim is asked for, and how it shows what came out. */
#ifndef COMMAND_SIM_H
#define COMMAND_SIM_H

#include <stdbool.h>

#include "../testbed/model.h"

struct sim_scheme {
	const char *name;
	enum sp_model_scheme scheme;
	double rto; /* round trips */
};
extern const struct sim_scheme sim_schemes[];

struct sim {
	struct sp_model model;
	uint64_t bandwidth, rtt, mtu, samples, seed; /* rtt: ps, 0: by distance */
	double distance, rto;			     /* 0: not given */
	const char *ec, *beta;			     /* as given, or NULL */
	unsigned scheme;			     /* of sim_schemes */
	bool packet, is_model, json;
};

/* Probability that a whole chunk is lost. */
double sim_chunk_drop(const struct sim *s);

/* wall: s that it took. */
void sim_show_json(const struct sim *s, const struct sp_model_outcome *o, double wall);
void sim_show_text(const struct sim *s, const struct sp_model_outcome *o);

#endif
