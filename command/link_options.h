/* SPDX-License-Identifier: BSD-3-Clause */
/* What a link may do to packets, as options of the command line: one table, for subcommands that have a link. */
#ifndef COMMAND_LINK_OPTIONS_H
#define COMMAND_LINK_OPTIONS_H

#include "../testbed/link.h"

#define LINK_SEED 1 /* where none is given */

/* All of them take a value: of both directions, or of the link. */
struct link_option {
	const char *name;
	const char *wants; /* what is said of a value that cannot be: "--loss must be 0 to 1" */
	enum { LINK_PROBABILITY, LINK_TIME, LINK_DISTANCE, LINK_RATE, LINK_NUMBER, LINK_BURST } kind;
	size_t at;  /* of the field in struct sp_link_direction, or in struct sp_link_config */
	bool whole; /* the latter */
};
extern const struct link_option link_options[]; /* up to a NULL name */

/* False: it wants something else. */
bool link_option_take(const struct link_option *o, const char *value, struct sp_link_config *link);

/* After the last option: turns --loss and --burst, in whatever order they came, into what the link knows. NULL, or what
 * is wrong with them. Nothing else may be done with the configuration's loss before. */
const char *link_options_end(struct sp_link_config *link);

#endif
