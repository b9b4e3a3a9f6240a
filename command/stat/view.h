/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a NIC, and how it is shown. */
#ifndef COMMAND_STAT_VIEW_H
#define COMMAND_STAT_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "../../host-api/attach.h"
#include "../../host-api/spindle.h"

/* A report of the NIC, and when it came. */
struct stat_sample {
	json_t *report; /* NULL: none yet */
	sp_time at;
};

/* A number of the report; 0 if it is missing. */
uint64_t stat_integer(const json_t *number);
uint64_t stat_value(const json_t *object, const char *key);

/* What contexts are sorted by: the largest increase since the previous sample comes first. ACTIVITY: packets received
 * and sent. */
enum stat_order {
	STAT_ACTIVITY,
	STAT_NAME,
	STAT_PACKETS,
	STAT_BYTES,
	STAT_DROPPED,
	STAT_CYCLES,
	STAT_P99,
	STAT_SHARE,
	STAT_OVERRUNS,
	STAT_ORDERS
};
extern const char *const stat_order_names[]; /* by enum stat_order; up to a NULL */
extern const char stat_order_keys[];	     /* on a terminal */

struct stat_view {
	bool live; /* a terminal: each table replaces the previous one */
	bool keys; /* the terminal's keys come one by one */
	enum { STAT_NONE, STAT_ESCAPE, STAT_PARAMETERS } sequence; /* of bytes that are one key */
	bool context;						   /* contexts: all their counters */
	bool backwards;						   /* the smallest first */
	enum stat_order order;					   /* of contexts and handlers */
	unsigned orders;					   /* bits of those that keys choose; 0: all */
	size_t top;						   /* show so many of them; 0: all */
	unsigned shown;						   /* tables so far */
	unsigned drawn;						   /* lines on the screen */
	unsigned width, height;					   /* of the terminal when last drawn */
};

#endif
