/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle bench prints of a case. */
#ifndef COMMAND_BENCH_SHOW_H
#define COMMAND_BENCH_SHOW_H

#include <stdio.h>

#include <jansson.h>

#include "../../testbed/bench.h"
#include "../../testbed/bench_noise.h"

void bench_show_list(void);
/* A case, measured as the options say, and what came of it. r NULL: nothing did, and why says why. */
void bench_show_text(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r,
		     const char *why);
json_t *bench_show_json(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r,
			bool failed, const char *why); /* failed: not merely skipped */
/* More than one bench can tell from the other: its spread. */
bool bench_show_noisy(const struct bench_result *r);
/* Whether what is required is met; also where nothing is, or it was skipped. */
bool bench_show_meets(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r);

/* The machine, and how it is to be measured. */
struct bench_machine {
	char cpu[128];
	char pages[64]; /* "no huge pages", ... */
	char flags[160];
};
void bench_show_machine(struct bench_machine *machine, bool eal); /* eal: it runs */
void bench_show_header(const struct bench_machine *machine, const struct bench_options *options);
json_t *bench_show_all(const struct bench_machine *machine, const struct bench_options *options, json_t *cases,
		       const struct bench_noise *noise);
/* Measures, and shows as text too if wanted; NULL and words in why. */
json_t *bench_show_parts(const struct bench_options *options, bool text, char *why, unsigned room);
/* Parts that do not add up to the whole, within this share of it, are not to be believed: then there are words. */
#define BENCH_PARTS_OFF 0.1
/* In words, to the stream; nothing when it was quiet. */
void bench_show_noise(FILE *to, const struct bench_noise *noise, unsigned noisy);

#endif
