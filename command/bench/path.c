/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the way of a message from program to program. */
#include <stdio.h>
#include <string.h>

#include "../../testbed/bench/path.h"
#include "show.h"

static const char *const who[BENCH_PATH_PROCESSES] = {"sender", "receiver", "its NIC", "the other NIC"};

/* The hand-over that ends each step. */
static const char *const name[BENCH_PATH_POINTS] = {"whole",  "round",	"built", "sent",
						    "polled", "placed", "woken", "seen"};

static unsigned processes(const struct bench_path_case *c)
{
	return c->nics ? BENCH_PATH_PROCESSES : BENCH_PATH_OTHER_NIC;
}

static void show_text(const struct bench_path_case *c, const struct bench_path *p)
{
	printf("\n%s: %s; %u messages of 8 bytes\n", c->name, c->help, p->messages);
	printf("%-8s %10s %10s %6s\n", "step", "median us", "99 % us", "share");
	for (unsigned i = 1; i <= BENCH_PATH_POINTS; i++) {
		const unsigned k = i % BENCH_PATH_POINTS; /* the whole comes last */

		if (!bench_path_has(c, k))
			continue;
		printf("%-8s %10.2f %10.2f %5.1f%%  %s\n", name[k], p->step[k].median / 1e3, p->step[k].tail / 1e3,
		       100 * p->step[k].median / p->step[BENCH_PATH_CALL].median, bench_path_steps[k]);
	}
	printf("%-14s %10s %12s %14s  for a message and its answer\n", "process", "slept", "gave way", "processor us");
	for (unsigned k = 0; k < processes(c); k++)
		printf("%-14s %10.2f %12.2f %14.2f\n", who[k], (double)p->ran[k].voluntary / p->messages,
		       (double)p->ran[k].involuntary / p->messages, 1e6 * p->ran[k].seconds);
	fflush(stdout);
}

static json_t *to_json(const struct bench_path_case *c, const struct bench_path *p)
{
	json_t *steps = json_array(), *ran = json_array();

	for (unsigned k = 0; k < BENCH_PATH_POINTS; k++)
		if (bench_path_has(c, k))
			json_array_append_new(steps, json_pack("{s:s, s:s, s:f, s:f}", "name", name[k], "help",
							       bench_path_steps[k], "median_ns", p->step[k].median,
							       "p99_ns", p->step[k].tail));
	for (unsigned k = 0; k < processes(c); k++)
		json_array_append_new(ran,
				      json_pack("{s:s, s:I, s:I, s:f}", "name", who[k], "voluntary",
						(json_int_t)p->ran[k].voluntary, "involuntary",
						(json_int_t)p->ran[k].involuntary, "processor_s", p->ran[k].seconds));
	return json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", c->name, "help", c->help, "messages", (int)p->messages,
			 "steps", steps, "processes", ran);
}

json_t *bench_show_path(const struct bench_options *o, bool (*wanted)(const char *, const char *), const char *filter,
			bool text, struct bench_why *why)
{
	json_t *list = json_array();
	const struct bench_path_case *c;
	unsigned ran = 0;

	for (unsigned i = 0; (c = bench_path_case(i)); i++) {
		struct bench_path p;
		int r;

		if (!wanted(c->name, filter))
			continue;
		r = bench_path_run(c, o, &p, why);
		if (r) {
			if (!*why->text)
				bench_fail(why, r, "%s: %s", c->name, strerror(-r));
			json_decref(list);
			return NULL;
		}
		ran++;
		if (text)
			show_text(c, &p);
		json_array_append_new(list, to_json(c, &p));
	}
	if (ran)
		return list;
	json_decref(list);
	bench_fail(why, 0, "no case matches %s", filter);
	return NULL;
}
