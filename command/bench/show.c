/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_version.h>

#include "../../handlers/isa/isa.h"
#include "../../testbed/bench/parts.h"

void bench_show_list(void)
{
	for (unsigned i = 0; bench_case(i); i++) {
		const struct bench_case *c = bench_case(i);

		printf("%-26s %s\n%-26s %s", c->name, c->help, "", c->unit ? c->unit : "cycles/packet");
		if (c->baseline)
			printf(", beside %s", c->baseline);
		for (unsigned k = 0; k < BENCH_OTHERS && c->other[k].name; k++)
			printf(", %s", c->other[k].name);
		puts("");
	}
}

/* The options of the measurement. */
static const char *case_name(const struct bench_case *c, const struct bench_options *o, char *name, size_t room)
{
	snprintf(name, room, "%s%s", c->name, c->unit ? "" : o->icrc ? ", ICRC on" : ", ICRC off");
	return name;
}

/* ---- what is required ---- */

/* Whether the ratio to the baseline, or to what replaces it, is as required. */
static bool meets(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r)
{
	return r->mine.ratio >= bench_required(c, o);
}

static bool judged(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r)
{
	return r && bench_required(c, o) > 0 && !*bench_against(r)->skipped && !(c->strict && r->against >= 0);
}

/* The case's ratio to other k; 0: none is required, or it has none. */
static double other_ratio(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r,
			  int k)
{
	if (!r || k == r->against || !(bench_other_required(c, o, k) > 0) || *r->other[k].skipped)
		return 0;
	return r->mine.ratio / r->other[k].ratio;
}

/* ---- text ---- */

static void judgement_text(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r)
{
	const double required = judged(c, o, r) ? bench_required(c, o) : 0,
		     goal = c->strict && r->against >= 0 ? 0 : bench_goal(c, o);

	if (required > 0)
		printf("  required %g: %s", required, meets(c, o, r) ? "met" : "MISSED");
	if (goal > 0)
		printf("%s goal %.2f: %s", required > 0 ? ";" : " ", goal,
		       r->mine.ratio >= goal ? "reached" : "not reached");
	if (required > 0 || goal > 0)
		puts("");
	for (int k = 0; k < BENCH_OTHERS; k++) {
		const double ratio = other_ratio(c, o, r, k), least = bench_other_required(c, o, k);

		if (ratio > 0)
			printf("  %.2f of %s; required %g: %s\n", ratio, c->other[k].name, least,
			       ratio >= least ? "met" : "MISSED");
	}
}

/* The paper's receiver (arXiv 2505.05366, figure 15): 16 threads of a BlueField-3's accelerator took 15 Mpkt/s of
 * chunks of one packet, 24.5 of chunks of 64. */
static double paper_threads(const struct bench_case *c, double rate)
{
	return !strcmp(c->name, "sdr-receive-64") ? rate / (15.0e6 / 16)
	       : !strcmp(c->name, "sdr-chunk-64") ? rate / (24.5e6 / 16)
						  : 0;
}

static void side_row(const char *name, const struct bench_side *s)
{
	if (*s->skipped)
		printf("  %-52s skipped: %s\n", name, s->skipped);
	else
		printf("  %-52s %8.1f %7.2f %7.1f%% %8.2f\n", name, s->value, s->ratio, 100 * s->spread,
		       (double)rte_get_tsc_hz() / s->value / 1e6);
}

static void packets_text(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r)
{
	const double rate = (double)rte_get_tsc_hz() / r->mine.value;
	char name[64];

	case_name(c, o, name, sizeof(name));
	printf("%-54s %8s %7s %8s %8s\n", name, "cycles", "ratio", "spread", "Mpkt/s");
	side_row("Spindle", &r->mine);
	side_row(c->baseline, &r->baseline);
	for (unsigned k = 0; k < BENCH_OTHERS && c->other[k].name; k++)
		side_row(c->other[k].name, &r->other[k]);
	if (r->against >= 0)
		printf("  the ratio is to: %s\n", bench_against_name(c, r));
	if (paper_threads(c, rate) > 0)
		printf("  this core is worth %.1f of the paper's 16 threads\n", paper_threads(c, rate));
	judgement_text(c, o, r);
}

static void side_text(const char *name, const struct bench_side *s)
{
	if (*s->skipped) {
		printf("  %-30s skipped: %s\n", name, s->skipped);
		return;
	}
	printf("  %-30s %10.*f", name, s->value < 1 ? 3 : 1, s->value);
	if (s->tail > 0)
		printf(" %10.1f", s->tail);
	else
		printf(" %10s", "-");
	if (s->ratio > 0)
		printf(" %8.2f", s->ratio);
	else
		printf(" %8s", "-");
	printf(" %8.1f%%", 100 * s->spread);
	if (s->processor > 0)
		printf("  %6.2f processor s/GiB", s->processor);
	puts("");
}

static void sides_text(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r)
{
	printf("%-32s %10s %10s %8s %9s\n", c->name, c->unit, "99 %", "ratio", "spread");
	side_text("Spindle", &r->mine);
	if (c->baseline)
		side_text(c->baseline, &r->baseline);
	for (unsigned k = 0; k < BENCH_OTHERS && c->other[k].name; k++)
		side_text(c->other[k].name, &r->other[k]);
	if (r->slice_max > 0)
		printf("  slices of work, each the shortest of its repetitions: %.1f us, the longest %.1f us\n",
		       r->slice, r->slice_max);
	judgement_text(c, o, r);
}

bool bench_show_noisy(const struct bench_result *r)
{
	return r && (r->mine.spread > BENCH_NOISE_SPREAD || bench_against(r)->spread > BENCH_NOISE_SPREAD);
}

void bench_show_text(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r,
		     const char *why)
{
	char name[64];

	if (!r)
		printf("%s: skipped: %s\n", case_name(c, o, name, sizeof(name)), why);
	else if (c->unit)
		sides_text(c, o, r);
	else
		packets_text(c, o, r);
	if (r && c->threads > bench_cpus())
		printf("  %u threads at work on %u processors: they wait for each other\n", c->threads, bench_cpus());
	if (bench_show_noisy(r))
		printf("  noisy: quartiles are %.0f %% and %.0f %% of the median apart\n", 100 * r->mine.spread,
		       100 * bench_against(r)->spread);
	fflush(stdout);
}

void bench_show_noise(FILE *to, const struct bench_noise *n, unsigned noisy)
{
	if (n->load > BENCH_NOISE_LOAD)
		fprintf(to, "noise: load average was %.2f for each processor when this began\n", n->load);
	if (n->others > BENCH_NOISE_OTHERS)
		fprintf(to, "noise: other processes took %.0f %% of the processors\n", 100 * n->others);
	if (n->stolen > BENCH_NOISE_STEAL)
		fprintf(to, "noise: the hypervisor gave %.0f %% of the processors to others\n", 100 * n->stolen);
	if (noisy)
		fprintf(to, "noise: %u cases differ from round to round by more than %.0f %%\n", noisy,
			100 * BENCH_NOISE_SPREAD);
	if (noisy || bench_noise_any(n))
		fputs("the machine is too noisy for these figures to be relied on\n", to);
}

/* ---- the machine ---- */

static void cpu_name(char *text, size_t room)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "r");

	snprintf(text, room, "unknown");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
			snprintf(text, room, "%s", strchr(line, ':') + 2);
			text[strcspn(text, "\n")] = '\0';
			break;
		}
	if (f)
		fclose(f);
}

void bench_show_machine(struct bench_machine *m, bool eal)
{
	cpu_name(m->cpu, sizeof(m->cpu));
	snprintf(m->pages, sizeof(m->pages), "%s", eal && rte_eal_has_hugepages() ? "huge pages" : "no huge pages");
	snprintf(m->flags, sizeof(m->flags), "code for %s, kernels of level %s", SPINDLE_CPU,
		 sp_isa_name(sp_isa_level()));
}

void bench_show_header(const struct bench_machine *m, const struct bench_options *o)
{
	printf("%s, %u processors", m->cpu, bench_cpus());
	if (rte_get_tsc_hz())
		printf(", TSC %.0f MHz", (double)rte_get_tsc_hz() / 1e6);
	printf(", %s, %s, %s; %u rounds of %.2f s, medians\n", rte_version(), m->flags, m->pages, o->rounds,
	       o->round_seconds);
	fflush(stdout);
}

/* ---- JSON ---- */

/* null if there is no figure, or none that JSON can hold (the spread of zeros). */
static json_t *figure(const struct bench_side *s, double value)
{
	return s && !*s->skipped && isfinite(value) ? json_real(value) : json_null();
}

/* For a child's last line, which may be no UTF-8: JSON needs UTF-8. */
static json_t *words(const char *text)
{
	json_t *j = json_string(text);

	return j ? j : json_string("words that are no UTF-8");
}

/* null if no ratio is required. */
static json_t *wanted(double ratio)
{
	return ratio > 0 ? json_real(ratio) : json_null();
}

static json_t *tail(const struct bench_side *s)
{
	return figure(s && s->tail > 0 ? s : NULL, s ? s->tail : 0);
}

static json_t *processor(const struct bench_side *s)
{
	return figure(s && s->processor > 0 ? s : NULL, s ? s->processor : 0);
}

static json_t *other_json(const char *name, const struct bench_side *s, double required, double ratio)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", name, "value",
			 figure(s, s ? s->value : 0), "p99", tail(s), "processor_s_per_gib", processor(s), "ratio",
			 figure(s, s ? s->ratio : 0), "spread", figure(s, s ? s->spread : 0), "skipped",
			 s && *s->skipped ? words(s->skipped) : json_null(), "required", wanted(required), "meets",
			 ratio > 0 ? json_boolean(ratio >= required) : json_null());
}

/* The other measurements. If one of them replaces the baseline in the ratio, the baseline is among these. */
static json_t *others_json(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r)
{
	json_t *list = json_array();

	if (r && r->against >= 0)
		json_array_append_new(list, other_json(c->baseline, &r->baseline, 0, 0));
	for (int k = 0; k < BENCH_OTHERS && c->other[k].name; k++)
		if (!r || k != r->against)
			json_array_append_new(list, other_json(c->other[k].name, r ? &r->other[k] : NULL,
							       bench_other_required(c, o, k), other_ratio(c, o, r, k)));
	return list;
}

static json_t *slices_json(const struct bench_result *r)
{
	return r && r->slice_max > 0 ? json_pack("{s:f, s:f}", "median", r->slice, "max", r->slice_max) : json_null();
}

json_t *bench_show_json(const struct bench_case *c, const struct bench_options *o, const struct bench_result *r,
			bool failed, const char *why)
{
	const struct bench_side *m = r ? &r->mine : NULL, *b = r && c->baseline ? bench_against(r) : NULL;
	const double required = bench_required(c, o);
	const char *against = bench_against_name(c, r);
	char name[64];
	json_t *j = json_pack(
		"{s:s, s:o, s:o, s:s, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "name",
		case_name(c, o, name, sizeof(name)), "value", figure(m, m ? m->value : 0), "best",
		figure(m, m ? m->best : 0), "unit", c->unit ? c->unit : "cycles/packet", "baseline", against,
		"baseline_value", figure(b, b ? b->value : 0), "baseline_skipped",
		r && *r->baseline.skipped ? words(r->baseline.skipped) : json_null(), "ratio",
		figure(b, m ? m->ratio : 0), "spread", figure(m, m ? m->spread : 0), "baseline_spread",
		figure(b, b ? b->spread : 0), "required", wanted(required), "goal", wanted(bench_goal(c, o)), "meets",
		judged(c, o, r) ? json_boolean(meets(c, o, r)) : json_null(), "noisy", bench_show_noisy(r), "skipped",
		r || failed ? json_null() : words(why), "failed", failed ? words(why) : json_null());

	json_object_set_new(j, "threads", json_integer(c->threads));
	json_object_set_new(j, "oversubscribed", json_boolean(c->threads > bench_cpus()));
	json_object_set_new(j, "others", others_json(c, o, r));
	if (!c->unit) {
		const double rate = m ? (double)rte_get_tsc_hz() / m->value : 0;

		json_object_set_new(j, "packets_per_second", figure(m, rate));
		json_object_set_new(j, "paper_threads", wanted(m ? paper_threads(c, rate) : 0));
		return j;
	}
	json_object_set_new(j, "p99", tail(m));
	json_object_set_new(j, "baseline_p99", tail(b));
	json_object_set_new(j, "processor_s_per_gib", processor(m));
	json_object_set_new(j, "baseline_processor_s_per_gib", processor(b));
	json_object_set_new(j, "slice_us", slices_json(r));
	return j;
}

json_t *bench_show_all(const struct bench_machine *m, const struct bench_options *o, json_t *cases,
		       const struct bench_noise *n)
{
	return json_pack("{s:s, s:i, s:o, s:s, s:s, s:s, s:s, s:s, s:i, s:f, s:I, s:I, s:{s:f, s:f, s:f, s:b}, s:O?}",
			 "cpu", m->cpu, "processors", (int)bench_cpus(), "tsc_hz",
			 rte_get_tsc_hz() ? json_real((double)rte_get_tsc_hz()) : json_null(), "dpdk", rte_version(),
			 "march", SPINDLE_CPU, "isa", sp_isa_name(sp_isa_level()), "flags", m->flags, "pages", m->pages,
			 "rounds", (int)o->rounds, "turn_seconds", o->round_seconds, "file_bytes",
			 (json_int_t)o->file_bytes, "stream_bytes", (json_int_t)o->stream_bytes, "noise", "load",
			 n->load, "others", n->others, "stolen", n->stolen, "noisy", bench_noise_any(n), "cases",
			 cases);
}

/* ---- summary ---- */

struct bench_summary bench_summary_open(void)
{
	return (struct bench_summary){.met = json_array(), .missed = json_array()};
}

static void summary_take(struct bench_summary *s, const char *name, const char *against, double ratio, double required)
{
	if (ratio >= required)
		json_array_append_new(s->met, json_string(name));
	else
		json_array_append_new(s->missed, json_pack("{s:s, s:s, s:f, s:f}", "name", name, "baseline", against,
							   "ratio", ratio, "required", required));
}

void bench_summary_add(struct bench_summary *s, const struct bench_case *c, const struct bench_options *o,
		       const struct bench_result *r)
{
	char name[64];

	case_name(c, o, name, sizeof(name));
	if (judged(c, o, r))
		summary_take(s, name, bench_against_name(c, r), r->mine.ratio, bench_required(c, o));
	for (int k = 0; k < BENCH_OTHERS; k++)
		if (other_ratio(c, o, r, k) > 0)
			summary_take(s, name, c->other[k].name, other_ratio(c, o, r, k), bench_other_required(c, o, k));
}

unsigned bench_summary_missed(const struct bench_summary *s)
{
	return (unsigned)json_array_size(s->missed);
}

void bench_summary_text(const struct bench_summary *s)
{
	const unsigned met = (unsigned)json_array_size(s->met), missed = bench_summary_missed(s);

	for (unsigned i = 0; i < missed; i++) {
		const json_t *m = json_array_get(s->missed, i);

		printf("missed: %s: %.2f of %s, required %g\n", json_string_value(json_object_get(m, "name")),
		       json_real_value(json_object_get(m, "ratio")), json_string_value(json_object_get(m, "baseline")),
		       json_real_value(json_object_get(m, "required")));
	}
	printf("%u required: %u met, %u missed\n", met + missed, met, missed);
}

json_t *bench_summary_json(const struct bench_summary *s)
{
	return json_pack("{s:I, s:O, s:O}", "required",
			 (json_int_t)(json_array_size(s->met) + json_array_size(s->missed)), "met", s->met, "missed",
			 s->missed);
}

void bench_summary_close(struct bench_summary *s)
{
	json_decref(s->met);
	json_decref(s->missed);
}

/* ---- parts ---- */

json_t *bench_show_parts(const struct bench_options *o, bool text, struct bench_why *why)
{
	struct bench_parts p;
	const int r = bench_parts_run(o, &p, why);
	json_t *list;

	if (r && !*why->text)
		snprintf(why->text, sizeof(why->text), "%s", strerror(-r));
	if (r)
		return NULL;
	list = json_array();
	if (text)
		printf("%-12s %8s %7s  of sdr-receive-64, ICRC on, cycles a packet\n", "part", "cycles", "share");
	for (unsigned i = 0; i < BENCH_PARTS; i++) {
		json_array_append_new(list, json_pack("{s:s, s:s, s:f}", "name", p.part[i].name, "help", p.part[i].help,
						      "cycles", p.part[i].cycles));
		if (text)
			printf("%-12s %8.1f %6.1f%%  %s\n", p.part[i].name, p.part[i].cycles,
			       100 * p.part[i].cycles / p.whole, p.part[i].help);
	}
	if (text)
		printf("%-12s %8.1f %6.1f%%  of the whole, measured by itself: %.1f\n", "sum", p.sum,
		       100 * p.sum / p.whole, p.whole);
	if (fabs(p.sum / p.whole - 1) > BENCH_PARTS_OFF)
		fprintf(text ? stdout : stderr,
			"the parts do not add up to the whole within %.0f %%: do not rely on them\n",
			100 * BENCH_PARTS_OFF);
	return json_pack("{s:s, s:o, s:f, s:f, s:b}", "of", "sdr-receive-64, ICRC on", "parts", list, "sum", p.sum,
			 "whole", p.whole, "adds_up", fabs(p.sum / p.whole - 1) <= BENCH_PARTS_OFF);
}
