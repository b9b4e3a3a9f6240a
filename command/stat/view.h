/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle stat, in parts: stat.c (options, one sample after the other), stat_ask.c (asks the NIC), stat_show.c (tables
 * of what it says, see stat_table.h), stat_screen.c (a terminal, and its keys), stat_metrics.c (OpenMetrics), and
 * stat_serve.c (the same for scrapers). */
#ifndef COMMAND_STAT_H
#define COMMAND_STAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "../../host-api/attach.h"
#include "../../host-api/spindle.h"

/* A report of the NIC's, and when it came. */
struct stat_sample {
	json_t *report; /* NULL: none yet */
	sp_time at;
};

/* What contexts are sorted by: what was more since the sample before comes first; ACTIVITY: packets received and sent.
 */
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
extern const struct stat_order_word {
	const char *name;
	char key; /* on a terminal */
} stat_order[STAT_ORDERS];

struct stat_view {
	bool live; /* a terminal: each table takes the place of the one before */
	bool keys; /* the terminal's keys are ours */
	enum { STAT_NONE, STAT_ESCAPE, STAT_PARAMETERS } sequence; /* of bytes that are one key */
	bool context;						   /* of contexts, all they count */
	bool backwards;						   /* the smallest first */
	enum stat_order order;					   /* of contexts and handlers */
	size_t top;						   /* so many of them; 0: all */
	unsigned shown;						   /* tables so far */
	unsigned drawn;						   /* lines on the screen */
	unsigned width, height;					   /* of the terminal when last drawn */
};

/* before: for the rates, with report NULL when there is none. */
void stat_show(const struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before, FILE *to);

/* ---- asking ---- */

struct stat_asked {
	const char *nic, *context; /* NULL: as sp_attach_connect says; all of the NIC */
	bool handlers;		   /* also what they say of themselves */
};
/* One report, over a connection that is there. 0 or -errno. */
int stat_ask(struct sp_attach_link *link, const struct stat_asked *a, struct stat_sample *sample);
/* What -errno of stat_ask means. */
void stat_ask_words(const struct stat_asked *a, int status, char *words, size_t bytes);

/* ---- the terminal ---- */

/* The table on standard output; on a terminal in the place of the one before. */
void stat_draw(struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before);
/* The keys of the terminal at standard input come one by one, unseen, where this process is in its foreground; back to
 * how it was. May be called again and again. */
void stat_keys_begin(struct stat_view *v);
void stat_keys_end(struct stat_view *v);
/* Those that have been pressed. True: the table is another one. *quit: enough. */
bool stat_keys(struct stat_view *v, bool *quit);

/* ---- OpenMetrics ---- */

#define STAT_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* The report as text. False: no memory. */
bool stat_metrics(const json_t *report, FILE *to);
/* Serves it at http://ADDRESS/metrics (ADDRESS: [ADDR:]PORT) until a signal ends it, each time as the NIC is then.
 * The exit status. */
int stat_serve(const struct stat_asked *a, const char *address);

#endif
