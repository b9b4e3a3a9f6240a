/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_show.h"

#include <stdio.h>

#include <rte_cycles.h>

#define NOISY 0.15 /* a quartile range beyond this share of the median: the machine is doing other things */

void bench_show_list(void)
{
	for (unsigned i = 0; bench_case(i); i++) {
		const struct bench_case *c = bench_case(i);

		printf("%-26s %s\n%-26s %s, beside %s", c->name, c->help, "", c->unit ? c->unit : "cycles/packet",
		       c->baseline);
		for (unsigned k = 0; k < BENCH_OTHERS && c->other[k].name; k++)
			printf(", %s", c->other[k].name);
		puts("");
	}
}

/* ---- text ---- */

static void packets_text(const struct bench_case *c, bool icrc, const struct bench_result *r)
{
	static bool headed;

	if (!headed)
		printf("%-26s %-4s %10s %10s %8s %9s %9s\n", "case", "ICRC", "cycles/pkt", "baseline", "ratio",
		       "spread", "Mpkt/s");
	headed = true;
	printf("%-26s %-4s %10.1f %10.1f %8.2f %8.1f%% %9.2f\n", c->name, icrc ? "on" : "off", r->mine.value,
	       r->baseline.value, r->mine.ratio, 100 * r->mine.spread, (double)rte_get_tsc_hz() / r->mine.value / 1e6);
}

static void side_text(const char *name, const struct bench_side *s)
{
	if (*s->skipped) {
		printf("  %-30s skipped: %s\n", name, s->skipped);
		return;
	}
	printf("  %-30s %10.1f", name, s->value);
	if (s->tail > 0)
		printf(" %10.1f", s->tail);
	else
		printf(" %10s", "-");
	printf(" %8.2f %8.1f%%\n", s->ratio, 100 * s->spread);
}

static void sides_text(const struct bench_case *c, const struct bench_result *r)
{
	printf("%-32s %10s %10s %8s %9s\n", c->name, c->unit, "99 %", "ratio", "spread");
	side_text("Spindle", &r->mine);
	side_text(c->baseline, &r->baseline);
	for (unsigned k = 0; k < BENCH_OTHERS && c->other[k].name; k++)
		side_text(c->other[k].name, &r->other[k]);
	if (r->slice_max > 0)
		printf("  slices of work, each the shortest of its repetitions: %.1f us, the longest %.1f us\n",
		       r->slice, r->slice_max);
	if (c->threads > bench_cpus())
		printf("  %u threads at work on %u processors: they wait for each other\n", c->threads, bench_cpus());
}

void bench_show_text(const struct bench_case *c, bool icrc, const struct bench_result *r, const char *why)
{
	if (!r)
		printf("%-26s skipped: %s\n", c->name, why);
	else if (c->unit)
		sides_text(c, r);
	else
		packets_text(c, icrc, r);
	if (r && (r->mine.spread > NOISY || r->baseline.spread > NOISY))
		printf("  the machine is noisy: quartiles are %.0f %% and %.0f %% of the median apart\n",
		       100 * r->mine.spread, 100 * r->baseline.spread);
	fflush(stdout);
}

/* ---- JSON ---- */

/* Where there is no figure, null. */
static json_t *figure(const struct bench_side *s, double value)
{
	return s && !*s->skipped ? json_real(value) : json_null();
}

static json_t *tail(const struct bench_side *s)
{
	return figure(s && s->tail > 0 ? s : NULL, s ? s->tail : 0);
}

static json_t *others_json(const struct bench_case *c, const struct bench_result *r)
{
	json_t *list = json_array();

	for (unsigned k = 0; k < BENCH_OTHERS && c->other[k].name; k++) {
		const struct bench_side *s = r ? &r->other[k] : NULL;

		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "name", c->other[k].name, "value",
						figure(s, s ? s->value : 0), "p99", tail(s), "ratio",
						figure(s, s ? s->ratio : 0), "spread", figure(s, s ? s->spread : 0),
						"skipped", s && *s->skipped ? json_string(s->skipped) : json_null()));
	}
	return list;
}

static json_t *slices_json(const struct bench_result *r)
{
	return r && r->slice_max > 0 ? json_pack("{s:f, s:f}", "median", r->slice, "max", r->slice_max) : json_null();
}

json_t *bench_show_json(const struct bench_case *c, bool icrc, const struct bench_result *r, const char *why)
{
	const struct bench_side *m = r ? &r->mine : NULL, *b = r ? &r->baseline : NULL;
	char name[64];
	json_t *o;

	snprintf(name, sizeof(name), "%s%s", c->name, c->unit ? "" : icrc ? ", ICRC on" : ", ICRC off");
	o = json_pack("{s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:f, s:f, s:o}", "name", name, "value",
		      figure(m, m ? m->value : 0), "best", figure(m, m ? m->best : 0), "unit",
		      c->unit ? c->unit : "cycles/packet", "baseline", c->baseline, "baseline_value",
		      figure(b, b ? b->value : 0), "ratio", figure(m, m ? m->ratio : 0), "spread",
		      figure(m, m ? m->spread : 0), "baseline_spread", figure(b, b ? b->spread : 0), "required",
		      icrc ? 0 : c->required, "goal", icrc ? 0 : c->goal, "skipped",
		      r ? json_null() : json_string(why));
	if (!c->unit) {
		json_object_set_new(o, "packets_per_second", figure(m, m ? (double)rte_get_tsc_hz() / m->value : 0));
		return o;
	}
	json_object_set_new(o, "p99", tail(m));
	json_object_set_new(o, "baseline_p99", tail(b));
	json_object_set_new(o, "threads", json_integer(c->threads));
	json_object_set_new(o, "oversubscribed", json_boolean(c->threads > bench_cpus()));
	json_object_set_new(o, "slice_us", slices_json(r));
	json_object_set_new(o, "others", others_json(c, r));
	return o;
}
