/* SPDX-License-Identifier: BSD-3-Clause */
/* What a link does to packets, as a table of options that several subcommands share. */
#ifndef COMMAND_LINK_OPTIONS_H
#define COMMAND_LINK_OPTIONS_H

#include "../testbed/link.h"
#include "options.h"

#define LINK_SEED 1 /* the default */

enum link_way { LINK_THERE = 1, LINK_BACK = 2, LINK_BOTH = 3 };

struct link_options {
	struct sp_link_direction value; /* an option's value comes here first */
	double burst, distance;		/* packets; km */
	uint64_t seed;
	enum link_way way; /* and then goes to these directions of config */
	struct sp_link_config *config;
	const struct option_row *given; /* the latest of the options, or NULL */
};

/* The group to parse; way and config are set before. */
extern const struct option_row link_rows[];
void link_options_taken(void *to, const struct option_row *row);

/* After the last option: turns --loss and --burst into the link's probabilities. Before that, config's loss is not yet
 * what the link needs. NULL, or what is wrong. */
const char *link_options_end(struct sp_link_config *config);

#endif
