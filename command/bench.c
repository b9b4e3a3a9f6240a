/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle bench: what the engine and the way through it cost, each beside what it is to be compared with, in one run.
 */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_version.h>

#include "../pipeline/nic.h"
#include "../testbed/bench_end.h"
#include "bench_show.h"

static const char usage[] =
	"usage: spindle bench [--filter TEXT] [--rounds N] [--seconds S] [--quick] [--icrc on|off|both]\n"
	"                     [--message-packets N] [--chunk-packets N] [--json]\n"
	"       spindle bench --list\n"
	"  --list         print the cases, and what each is compared with\n"
	"  --filter TEXT  only cases whose name contains TEXT\n"
	"  --rounds N     turns of each case and its baseline (default 9; 1 to 101)\n"
	"  --seconds S    length of one turn (default 0.2)\n"
	"  --quick        3 rounds of 0.05 s, and files of 8 MiB instead of 64\n"
	"  --icrc on|off|both  check the packets' ICRC (default: both); for -receive only\n"
	"  --message-packets N  packets of a message, a power of 2, 2 to 128 (each case's own); for sdr-receive only\n"
	"  --chunk-packets N    packets of a chunk, a power of 2, 1 to 128 (1); for sdr-receive only\n"
	"  --json         print JSON\n";

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof(signals) / sizeof(*signals))

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

static bool parse_packets(const char *text, unsigned least, uint32_t *packets)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*packets = (uint32_t)value;
	return *text >= '0' && *text <= '9' && !*end && value >= least && value <= BENCH_PACKETS_MAX &&
	       !(value & (value - 1));
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

static int run_case(const struct bench_case *c, struct bench_options *o, bool icrc, json_t *list, bool text)
{
	struct bench_result r;
	char why[256] = "";
	int err;

	o->icrc = icrc;
	err = bench_run(c, o, &r, why, sizeof(why));
	if (err && err != BENCH_SKIPPED) {
		if (!bench_stopped())
			fprintf(stderr, "spindle bench: %s: %s\n", c->name, *why ? why : strerror(-err));
		return 1;
	}
	if (text)
		bench_show_text(c, icrc, err ? NULL : &r, why);
	json_array_append_new(list, bench_show_json(c, icrc, err ? NULL : &r, why));
	return 0;
}

/* EAL runs only where packets are measured in this process. */
static int start_eal(const char *filter)
{
	struct sp_error error;

	for (unsigned i = 0; bench_case(i); i++)
		if (!bench_case(i)->unit && strstr(bench_case(i)->name, filter)) {
			if (!sp_eal_init(0, NULL, &error))
				return 0;
			fprintf(stderr, "spindle bench: %s\n", error.text);
			return 1;
		}
	return 0;
}

/* A signal lets what runs be cleared away; then it has the effect that it had before. */
static void catch_signals(struct sigaction *before)
{
	const struct sigaction ours = {.sa_handler = bench_stop};

	for (unsigned i = 0; i < SIGNALS; i++)
		if (!sigaction(signals[i], NULL, &before[i]) && before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &ours, NULL);
}

static void release_signals(const struct sigaction *before)
{
	for (unsigned i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
	if (bench_stopped())
		raise(bench_stopped());
}

static void print_header(const struct bench_options *o, const char *cpu)
{
	printf("%s, %u processors", cpu, bench_cpus());
	if (rte_get_tsc_hz())
		printf(", TSC %.0f MHz", (double)rte_get_tsc_hz() / 1e6);
	printf(", %s, code for %s; %u rounds of %.2f s, medians\n", rte_version(), SPINDLE_CPU, o->rounds,
	       o->turn_seconds);
	fflush(stdout);
}

static void print_json(const struct bench_options *o, const char *cpu, json_t *list)
{
	json_t *all =
		json_pack("{s:s, s:i, s:o, s:s, s:s, s:i, s:f, s:I, s:O}", "cpu", cpu, "processors", (int)bench_cpus(),
			  "tsc_hz", rte_get_tsc_hz() ? json_real((double)rte_get_tsc_hz()) : json_null(), "dpdk",
			  rte_version(), "march", SPINDLE_CPU, "rounds", (int)o->rounds, "turn_seconds",
			  o->turn_seconds, "file_bytes", (json_int_t)o->file_bytes, "cases", list);

	json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	puts("");
	json_decref(all);
}

/* The exit status. */
static int run_all(struct bench_options *o, const char *filter, const char *icrc, bool json)
{
	json_t *list = json_array();
	int failed = 0, ran = 0;
	char cpu[128];

	cpu_name(cpu, sizeof(cpu));
	for (unsigned i = 0; bench_case(i) && !bench_stopped(); i++) {
		const struct bench_case *c = bench_case(i);

		if (!strstr(c->name, filter))
			continue;
		if (!ran++ && !json)
			print_header(o, cpu);
		if (c->unit || strcmp(icrc, "on"))
			failed |= run_case(c, o, false, list, !json);
		if (!c->unit && strcmp(icrc, "off") && !bench_stopped())
			failed |= run_case(c, o, true, list, !json);
	}
	if (!ran && !bench_stopped()) {
		fprintf(stderr, "spindle bench: no case matches %s\n", filter);
		failed = 1;
	}
	if (json && !failed && !bench_stopped())
		print_json(o, cpu, list);
	json_decref(list);
	return failed;
}

int command_bench(int argc, char **argv)
{
	static const struct option options[] = {{"filter", required_argument, NULL, 'f'},
						{"rounds", required_argument, NULL, 'r'},
						{"seconds", required_argument, NULL, 's'},
						{"quick", no_argument, NULL, 'q'},
						{"icrc", required_argument, NULL, 'i'},
						{"message-packets", required_argument, NULL, 'm'},
						{"chunk-packets", required_argument, NULL, 'c'},
						{"json", no_argument, NULL, 'j'},
						{"list", no_argument, NULL, 'l'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct bench_options o = {.rounds = 9, .turn_seconds = 0.2, .file_bytes = 64 << 20};
	const char *filter = "", *icrc = "both";
	struct sigaction before[SIGNALS];
	bool json = false, list = false;
	int opt, status;

	if (argc > 1 && !strcmp(argv[1], "--end"))
		return bench_end(argc - 2, argv + 2);
	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1)
		switch (opt) {
		case 'f':
			filter = optarg;
			break;
		case 'r':
			if (!parse_rounds(optarg, &o.rounds))
				return command_bad_value("bench", "--rounds must be 1 to 101", optarg);
			break;
		case 's':
			if (!parse_seconds(optarg, &o.turn_seconds))
				return command_bad_value("bench", "--seconds must be more than 0 and at most 60",
							 optarg);
			break;
		case 'q':
			o.rounds = 3;
			o.turn_seconds = 0.05;
			o.file_bytes = 8 << 20;
			break;
		case 'i':
			icrc = optarg;
			if (strcmp(icrc, "on") && strcmp(icrc, "off") && strcmp(icrc, "both"))
				return command_bad_value("bench", "--icrc must be on, off or both", icrc);
			break;
		case 'm':
			if (!parse_packets(optarg, 2, &o.message_packets))
				return command_bad_value("bench", "--message-packets must be a power of 2, 2 to 128",
							 optarg);
			break;
		case 'c':
			if (!parse_packets(optarg, 1, &o.chunk_packets))
				return command_bad_value("bench", "--chunk-packets must be a power of 2, 1 to 128",
							 optarg);
			break;
		case 'j':
			json = true;
			break;
		case 'l':
			list = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			return bad_option(opt, argv);
		}
	if (optind < argc)
		return misuse("extra argument ", argv[optind]);
	if (list) {
		bench_show_list();
		return 0;
	}
	catch_signals(before);
	status = start_eal(filter);
	if (!status)
		status = run_all(&o, filter, icrc, json);
	release_signals(before);
	return status;
}
