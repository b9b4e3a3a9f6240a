/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle bench: what the engine costs, beside the least that the same port can cost, in one run. */
#include "command.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_version.h>

#include "../pipeline/nic.h"
#include "../testbed/bench.h"

#define NOISY 0.15 /* a quartile range beyond this share of the median: the machine is doing other things */

static const char usage[] =
	"usage: spindle bench [--filter TEXT] [--rounds N] [--seconds S] [--quick] [--icrc on|off|both] [--json]\n"
	"  --filter TEXT  only cases whose name contains TEXT\n"
	"  --rounds N     turns of each case and its baseline (default 9; 1 to 101)\n"
	"  --seconds S    length of one turn (default 0.2)\n"
	"  --quick        3 rounds of 0.05 s\n"
	"  --icrc on|off|both  check the packets' ICRC (default: both)\n";

static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle bench: %s%s\n", what, about);
	fputs(usage, stderr);
	return 2;
}

static int bad_option(int c, char **argv)
{
	const char *about, *what = command_bad_option(c, argv, &about);

	return misuse(what, about);
}

static bool parse_rounds(const char *text, unsigned *rounds)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*rounds = (unsigned)value;
	return *text >= '0' && *text <= '9' && !*end && value >= 1 && value <= BENCH_ROUNDS_MAX;
}

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return strspn(text, "0123456789.e+-") == strlen(text) && end != text && !*end && *seconds > 0 && *seconds <= 60;
}

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

static json_t *case_json(const struct bench_case *c, bool icrc, const struct bench_result *r)
{
	char name[64];

	snprintf(name, sizeof(name), "%s, ICRC %s", c->name, icrc ? "on" : "off");
	return json_pack("{s:s, s:f, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name", name, "value", r->cycles,
			 "unit", "cycles/packet", "baseline", c->baseline, "baseline_value", r->baseline_cycles,
			 "ratio", r->ratio, "spread", r->spread, "baseline_spread", r->baseline_spread,
			 "packets_per_second", r->per_second, "required", icrc ? 0 : c->required, "goal",
			 icrc ? 0 : c->goal);
}

static int run_case(const struct bench_case *c, struct bench_options *o, bool icrc, json_t *list, bool text)
{
	struct bench_result r = {0};
	char why[256] = "";
	int err;

	o->icrc = icrc;
	err = bench_run(c, o, &r, why, sizeof(why));
	if (err) {
		fprintf(stderr, "spindle bench: %s: %s\n", c->name, why[0] ? why : strerror(-err));
		return 1;
	}
	if (text)
		printf("%-20s %-4s %10.1f %10.1f %8.2f %8.1f%% %9.2f\n", c->name, icrc ? "on" : "off", r.cycles,
		       r.baseline_cycles, r.ratio, 100 * r.spread, r.per_second / 1e6);
	if (text && (r.spread > NOISY || r.baseline_spread > NOISY))
		printf("  the machine is noisy: quartiles are %.0f %% and %.0f %% of the median apart\n",
		       100 * r.spread, 100 * r.baseline_spread);
	fflush(stdout);
	json_array_append_new(list, case_json(c, icrc, &r));
	return 0;
}

int command_bench(int argc, char **argv)
{
	static const struct option options[] = {
		{"filter", required_argument, NULL, 'f'},  {"rounds", required_argument, NULL, 'r'},
		{"seconds", required_argument, NULL, 's'}, {"quick", no_argument, NULL, 'q'},
		{"icrc", required_argument, NULL, 'i'},	   {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},	   {0}};
	struct bench_options o = {.rounds = 9, .turn_seconds = 0.2};
	const char *filter = "", *icrc = "both";
	struct sp_error error;
	bool json = false;
	int opt, failed = 0, ran = 0;
	char cpu[128];

	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1)
		switch (opt) {
		case 'f':
			filter = optarg;
			break;
		case 'r':
			if (!parse_rounds(optarg, &o.rounds))
				return misuse("--rounds must be 1 to 101, not ", optarg);
			break;
		case 's':
			if (!parse_seconds(optarg, &o.turn_seconds))
				return misuse("--seconds must be more than 0 and at most 60, not ", optarg);
			break;
		case 'q':
			o.rounds = 3;
			o.turn_seconds = 0.05;
			break;
		case 'i':
			icrc = optarg;
			if (strcmp(icrc, "on") && strcmp(icrc, "off") && strcmp(icrc, "both"))
				return misuse("--icrc must be on, off or both, not ", icrc);
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			return bad_option(opt, argv);
		}
	if (optind < argc)
		return misuse("extra argument ", argv[optind]);
	if (sp_eal_init(0, NULL, &error)) {
		fprintf(stderr, "spindle bench: %s\n", error.text);
		return 1;
	}
	cpu_name(cpu, sizeof(cpu));
	json_t *list = json_array();
	for (unsigned i = 0; bench_case(i); i++) {
		if (!strstr(bench_case(i)->name, filter))
			continue;
		if (!ran++ && !json)
			printf("%s, TSC %.0f MHz, %s, code for %s; %u rounds of %.2f s, medians\n%-20s %-4s %10s %10s "
			       "%8s %9s "
			       "%9s\n",
			       cpu, (double)rte_get_tsc_hz() / 1e6, rte_version(), SPINDLE_CPU, o.rounds,
			       o.turn_seconds, "case", "ICRC", "cycles/pkt", "baseline", "ratio", "spread", "Mpkt/s");
		if (strcmp(icrc, "on"))
			failed |= run_case(bench_case(i), &o, false, list, !json);
		if (strcmp(icrc, "off"))
			failed |= run_case(bench_case(i), &o, true, list, !json);
	}
	if (!ran) {
		fprintf(stderr, "spindle bench: no case matches %s\n", filter);
		failed = 1;
	}
	if (json && !failed) {
		json_t *all = json_pack("{s:s, s:f, s:s, s:s, s:i, s:f, s:o}", "cpu", cpu, "tsc_hz",
					(double)rte_get_tsc_hz(), "dpdk", rte_version(), "march", SPINDLE_CPU, "rounds",
					(int)o.rounds, "turn_seconds", o.turn_seconds, "cases", list);
		json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
		puts("");
		json_decref(all);
		list = NULL;
	}
	json_decref(list);
	return failed;
}
