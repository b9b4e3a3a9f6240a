/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim goal prints. */
#include "goal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../../testbed/quantile.h"
#include "../output.h"

static const struct {
	const char *name, *title;
	unsigned thousandths;
} quantiles[] = {{"min_s", "least", 1},
		 {"p50_s", "50 %", 500},
		 {"p95_s", "95 %", 950},
		 {"p99_s", "99 %", 990},
		 {"max_s", "most", 1000}};
#define QUANTILES (sizeof(quantiles) / sizeof(*quantiles))

static double seconds(sp_time t)
{
	return (double)t / (double)SP_SEC;
}

/* The figures of all runs, in seconds; false: memory does not suffice. */
static bool summary(const struct sim_goal *s, const struct sim_goal_result *r, double v[QUANTILES], double *mean)
{
	double *t = malloc(s->runs * sizeof(*t)), sum = 0, least = INFINITY;

	if (!t)
		return false;
	for (uint64_t i = 0; i < s->runs; i++) {
		t[i] = seconds(r->end[i]);
		sum += t[i];
	}
	for (uint64_t i = 0; i < s->runs; i++)
		least = t[i] < least ? t[i] : least;
	for (unsigned i = 0; i < QUANTILES; i++)
		v[i] = i ? sp_quantile(t, s->runs, quantiles[i].thousandths) : least;
	*mean = sum / (double)s->runs;
	free(t);
	return true;
}

static int show_json(const struct sim_goal *s, const struct goal *g, const struct goal_loggops *p,
		     const struct sim_goal_result *r, const double v[QUANTILES], double mean)
{
	const struct goal_outcome *o = &r->outcome;
	json_t *all = json_pack("{s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "schedule",
				s->file ? s->file : s->pattern.name, "time_s", s->runs > 1 ? v[1] : seconds(o->end),
				"time_ps", (json_int_t)o->end, "ranks", (json_int_t)goal_ranks(g), "operations",
				(json_int_t)goal_ops_all(g), "messages", (json_int_t)o->messages, "bytes",
				(json_int_t)o->bytes, "events", (json_int_t)o->events, "wall_s", r->wall);

	json_object_update_new(all, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "L_ps",
					      (json_int_t)p->hop[0].L, "o_ps", (json_int_t)p->o, "g_ps",
					      (json_int_t)p->hop[0].g, "G_ps", (json_int_t)p->hop[0].G, "O_ps",
					      (json_int_t)p->O, "S", (json_int_t)p->S, "nodes_per_switch",
					      (json_int_t)p->nodes_per_switch, "handshake", p->handshake, "full_duplex",
					      p->full_duplex));
	if (p->nodes_per_switch)
		json_object_update_new(all,
				       json_pack("{s:I, s:I, s:I}", "far_L_ps", (json_int_t)p->hop[1].L, "far_g_ps",
						 (json_int_t)p->hop[1].g, "far_G_ps", (json_int_t)p->hop[1].G));
	if (s->has_system)
		json_object_set_new(all, "system", json_string(goal_system_names[s->system]));
	if (p->detours)
		json_object_set_new(all, "detours_s", json_real(seconds(o->detours)));
	if (p->detours || p->hop[0].latency || p->hop[0].byte) {
		json_object_update_new(all, json_pack("{s:I, s:I, s:f}", "runs", (json_int_t)s->runs, "seed",
						      (json_int_t)s->seed, "mean_s", mean));
		for (unsigned i = 0; i < QUANTILES; i++)
			json_object_set_new(all, quantiles[i].name, json_real(v[i]));
	}
	if (r->ranks) {
		json_t *times = json_array();

		for (uint32_t i = 0; i < goal_ranks(g); i++)
			json_array_append_new(times, json_integer((json_int_t)r->ranks[i]));
		json_object_set_new(all, "rank_times_ps", times);
	}
	return output_json(all, 0) ? command_fail("sim goal", "the result cannot be shown as JSON") : 0;
}

static void show_time(const char *title, double s)
{
	printf("%-10s %16.9g us\n", title, s * 1e6);
}

static void show_text(const struct sim_goal *s, const struct goal *g, const struct goal_loggops *p,
		      const struct sim_goal_result *r, const double v[QUANTILES], double mean)
{
	const struct goal_outcome *o = &r->outcome;

	printf("%s: %u ranks, %" PRIu64 " operations, %" PRIu64 " messages with %" PRIu64 " bytes\n",
	       s->file ? s->file : s->pattern.name, goal_ranks(g), goal_ops_all(g), o->messages, o->bytes);
	printf("%s: L %g us, o %g us, g %g us, G %g ns a byte, O %g ns a byte, S %" PRIu64 " bytes%s%s\n",
	       s->has_system ? goal_systems[s->system].title : "LogGOPS", seconds(p->hop[0].L) * 1e6,
	       seconds(p->o) * 1e6, seconds(p->hop[0].g) * 1e6, (double)p->hop[0].G * 1e-3, (double)p->O * 1e-3, p->S,
	       p->handshake ? ", with handshakes" : "", p->full_duplex ? ", full duplex" : "");
	if (s->runs > 1) {
		printf("%" PRIu64 " runs, seed %" PRIu64 "\n\n", s->runs, s->seed);
		show_time("mean", mean);
		for (unsigned i = 0; i < QUANTILES; i++)
			show_time(quantiles[i].title, v[i]);
	} else {
		puts("");
		show_time("time", seconds(o->end));
		printf("rank %u ends last\n", o->last);
	}
	if (p->detours)
		printf("detours added %.9g us in %s, over all ranks\n", seconds(o->detours) * 1e6,
		       s->runs > 1 ? "the first run" : "all");
	for (uint32_t i = 0; r->ranks && i < goal_ranks(g); i++)
		printf("rank %u: %.9g us\n", i, seconds(r->ranks[i]) * 1e6);
	printf("\n%" PRIu64 " events in %.3g s\n", o->events * s->runs, r->wall);
}

int sim_goal_show(const struct sim_goal *s, const struct goal *g, const struct goal_loggops *p,
		  const struct sim_goal_result *r)
{
	double v[QUANTILES], mean;

	if (!summary(s, r, v, &mean))
		return command_fail("sim goal", "memory does not suffice");
	if (s->json)
		return show_json(s, g, p, r, v, mean);
	show_text(s, g, p, r, v, mean);
	return 0;
}
