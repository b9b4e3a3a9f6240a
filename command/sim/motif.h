/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim motif: what is asked of it. */
#ifndef COMMAND_SIM_MOTIF_H
#define COMMAND_SIM_MOTIF_H

#include "../../testbed/motif/motif.h"
#include "../../testbed/motif/run.h"
#include "../options.h"

enum { SIM_CREDITS, SIM_PFC };

struct sim_motif {
	struct motif motif;
	struct motif_run_config run; /* without schedule and topology */
	char ranks[64];		     /* as in 64x128; "": 64 */
	const char *topology;	     /* text; NULL: one switch */
	const char *write;	     /* a file for the schedule; NULL: it is run */
	uint64_t compute, copy;	     /* ps; compute MOTIF_DEFAULT: not given */
	unsigned control;	     /* 1: first */
	unsigned nics, transport, setup, completion, sends, routing;
	uint64_t header;
	const char *os;			    /* a file of detours; NULL: none */
	const char *latencies, *bandwidths; /* files of what messages of the network draw; NULL: none */
	uint32_t skip, of;		    /* lines of the latter two */
	unsigned lossless;		    /* SIM_CREDITS, SIM_PFC */
	bool coscheduled;
	bool lossy, selective, no_reduce, reduce, json;
};

/* Options of the network and of its modelled NICs, their defaults, and what is checked once they are parsed:
 * OPTIONS_GO_ON, or the exit status. */
extern const struct option_row sim_network_rows[], sim_nic_rows[];
void sim_network_default(struct sim_motif *s);
int sim_nic_asked(struct sim_motif *s, const struct options *o);

/* Runs a schedule over s->topology, and shows what came of it: as that of a motif, or of this name. Exit status. */
int sim_network_run(struct sim_motif *s, const struct goal *g, const char *name);

/* argv[0] is the word motif. OPTIONS_GO_ON, or the exit status. */
int sim_motif_arguments(struct sim_motif *s, int argc, char **argv);

#endif
