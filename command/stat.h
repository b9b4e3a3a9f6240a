/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle stat, in two: stat.c (asks the NIC), stat_show.c (tables of what it says). */
#ifndef COMMAND_STAT_H
#define COMMAND_STAT_H

#include <jansson.h>
#include <stdbool.h>

#include "../host-api/spindle.h"

/* A report of the NIC's, and when it came. */
struct stat_sample {
	json_t *report; /* NULL: none yet */
	sp_time at;
};

struct stat_view {
	bool live;		/* a terminal: each table takes the place of the one before */
	bool context;		/* of contexts, all they count */
	unsigned shown;		/* tables so far */
	unsigned drawn;		/* lines on the screen */
	unsigned width, height; /* of the terminal when last drawn */
};

/* before: for the rates, with report NULL when there is none. */
void stat_show(struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before);

#endif
