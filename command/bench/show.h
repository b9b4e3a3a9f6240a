/* SPDX-License-Identifier: BSD-3-Clause */
/* How spindle bench prints its results. */
#ifndef COMMAND_BENCH_SHOW_H
#define COMMAND_BENCH_SHOW_H

#include <stdio.h>

#include <jansson.h>

#include "../../testbed/bench/cases.h"
#include "../../testbed/bench/noise.h"

void bench_show_list(void);
/* A case and its result. r NULL: there is none, and why says why. */
void bench_show_text(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r,
		     const char *why);
json_t *bench_show_json(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r,
			bool failed, const char *why); /* failed: false if it was only skipped */
/* Whether the spread is too large to compare the case with its baseline. */
bool bench_show_noisy(const struct bench_result *r);

/* The ratios that are required of the cases so far, of those that could be measured. */
struct bench_summary {
	json_t *met;	/* names */
	json_t *missed; /* objects: name, baseline, ratio, required */
};
struct bench_summary bench_summary_open(void);
void bench_summary_add(struct bench_summary *summary, const struct bench_case *c, const struct bench_options *o,
		       const struct bench_result *r);
unsigned bench_summary_missed(const struct bench_summary *summary);
void bench_summary_text(const struct bench_summary *summary);
json_t *bench_summary_json(const struct bench_summary *summary);
void bench_summary_close(struct bench_summary *summary);

/* The machine and the conditions of the measurement. */
struct bench_machine {
	char cpu[128];
	char pages[64]; /* "no huge pages", ... */
	char flags[160];
};
void bench_show_machine(struct bench_machine *machine, bool eal); /* eal: EAL runs */
void bench_show_header(const struct bench_machine *machine, const struct bench_options *options);
json_t *bench_show_all(const struct bench_machine *machine, const struct bench_options *options, json_t *cases,
		       const struct bench_noise *noise);
/* Measures; prints text if `text`. NULL: failed, and why says why. */
json_t *bench_show_parts(const struct bench_options *options, bool text, struct bench_why *why);
/* The parts should add up to the whole, within this share of it; else a warning is printed. */
#define BENCH_PARTS_OFF 0.1
/* Traces a message through each of the cases whose name contains a text of `filter`; prints text if `text`. NULL:
 * failed, and why says why; an array otherwise. */
json_t *bench_show_path(const struct bench_options *options, bool (*wanted)(const char *name, const char *filter),
			const char *filter, bool text, struct bench_why *why);
/* Prints a warning if the machine was not quiet. */
void bench_show_noise(FILE *to, const struct bench_noise *noise, unsigned noisy);

#endif
