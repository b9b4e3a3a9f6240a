/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim goal simulates, as its options say. */
#ifndef COMMAND_SIM_GOAL_H
#define COMMAND_SIM_GOAL_H

#include <stdbool.h>

#include "../../testbed/goal/loggops.h"
#include "../../testbed/goal/pattern.h"
#include "../../testbed/goal/system.h"
#include "../options.h"

struct sim_goal {
	const char *file;	/* of GOAL; NULL: a pattern */
	unsigned shape, system; /* places in goal_pattern_names and goal_system_names */
	bool has_shape, has_system, has_loggops;
	struct goal_pattern pattern;
	uint64_t ranks, root, ways, memory;
	struct goal_loggops loggops; /* of --loggops */
	unsigned racks;
	uint64_t nodes_per_switch;
	const char *os, *latency, *bandwidth; /* files */
	uint32_t skip, of;		      /* lines of the latter two */
	bool handshake, full_duplex, coscheduled, rank_times, json;
	uint64_t runs, seed, jobs;
	const char *write, *times; /* files */
	const char *topology;	   /* unused: with it goal_network.c has the options */
};

struct sim_goal_result {
	struct goal_outcome outcome; /* of the first run */
	sp_time *end;		     /* of each run */
	sp_time *ranks;		     /* of the first run; NULL: not wanted */
	double wall;		     /* s */
};

/* The schedule: a file, or a pattern. */
extern const struct option_row sim_goal_schedule_rows[];
extern const struct sim_goal sim_goal_default;
/* Checks them, after options_parse(). OPTIONS_GO_ON, or the exit status. */
int sim_goal_schedule_asked(struct sim_goal *s, const struct options *o);
/* Reads or makes it. Exit status; *g is the caller's. */
int sim_goal_schedule(const struct sim_goal *s, struct goal **g);
int sim_goal_write(const struct sim_goal *s, const struct goal *g); /* to s->write */
/* A file of hosts' detours; - is standard input. Exit status; the caller frees. */
int sim_detours_read(const char *command, const char *file, struct goal_detours *d);
/* A distribution from a file; - is standard input. to: n of it, each scaled so that its median is that of median[]; or
 * median NULL, n 1: as it is. Of its lines each first `skip` of `of` are left out. Exit status; the caller frees. */
int sim_draws_read(const char *command, const char *file, enum goal_column column, uint32_t skip, uint32_t of,
		   const uint64_t *median, unsigned n, struct goal_draws *to);
/* "K/N" of --skip. -EINVAL: it is not. */
int sim_skip_take(const char *text, uint32_t *skip, uint32_t *of);
/* With --topology: packets over a network of switches. Exit status. */
int sim_goal_network(int argc, char **argv);

/* OPTIONS_GO_ON, or the exit status. */
int sim_goal_arguments(struct sim_goal *s, int argc, char **argv);
/* Prints. Returns the exit status. */
int sim_goal_show(const struct sim_goal *s, const struct goal *g, const struct goal_loggops *p,
		  const struct sim_goal_result *r);

#endif
