/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle bench: what the engine and the way through it cost, each beside what it is to be compared with, in one run.
 */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../pipeline/nic.h"
#include "../testbed/bench_end.h"
#include "bench_show.h"

static const char usage[] =
	"usage: spindle bench [--filter TEXT] [--rounds N] [--seconds S] [--quick] [--icrc on|off|both]\n"
	"                     [--message-packets N] [--chunk-packets N] [--messages N] [--loss P]\n"
	"                     [--require[=RATIO]] [--json]\n"
	"       spindle bench --parts [--rounds N] [--seconds S] [--quick] [--json]\n"
	"       spindle bench --list\n"
	"  --list         print the cases, and what each is compared with\n"
	"  --filter TEXT  only cases whose name contains TEXT, or one of several, with commas between\n"
	"  --rounds N     rounds of each case and its baseline (default 9; 1 to 101)\n"
	"  --seconds S    length of one round (default 0.2)\n"
	"  --quick        3 rounds of 0.05 s, and files of 8 MiB instead of 64\n"
	"  --icrc on|off|both  check the packets' ICRC (default: both); for cases of packets only\n"
	"  --message-packets N  packets of a message, a power of 2, 2 to 1024 (each case's own); for sdr-receive and\n"
	"                       sdr-workers only\n"
	"  --chunk-packets N    packets of a chunk, a power of 2, 1 to 128 (1); for the same\n"
	"  --messages N         messages at once, a power of 2, up to 1024; for the same\n"
	"  --loss P             probability that a packet is lost; for virtual only\n"
	"  --require[=RATIO]  exit status 3 if a ratio is less than is required; RATIO: of every case\n"
	"  --parts        what the parts of receiving a packet take, in cycles\n"
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

static bool parse_power(const char *text, unsigned least, unsigned most, uint32_t *packets)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*packets = (uint32_t)value;
	return *text >= '0' && *text <= '9' && !*end && value >= least && value <= most && !(value & (value - 1));
}

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return strspn(text, "0123456789.e+-") == strlen(text) && end != text && !*end && *seconds > 0 && *seconds <= 60;
}

/* More than 0, and a number. */
static bool parse_ratio(const char *text, double *ratio)
{
	char *end;

	*ratio = strtod(text, &end);
	return strspn(text, "0123456789.e+-") == strlen(text) && end != text && !*end && *ratio > 0 && isfinite(*ratio);
}

/* Of a run. */
struct tally {
	json_t *list;
	bool text;
	const char *no_eal;		     /* why there is none, and so no packets in this process; or "" */
	unsigned failed, ran, noisy, missed; /* cases; missed: what is required */
};

static void run_case(const struct bench_case *c, struct bench_options *o, bool icrc, struct tally *t)
{
	struct bench_result r;
	struct bench_why why = {""};
	bool failed;
	int err;

	o->icrc = icrc;
	if (!c->unit && *t->no_eal) {
		snprintf(why.text, sizeof(why.text), "%s", t->no_eal);
		err = -ENODEV;
	} else {
		err = bench_run(c, o, &r, &why);
	}
	if (err && bench_stopped())
		return;
	failed = err && err != BENCH_SKIPPED;
	if (failed && !*why.text)
		snprintf(why.text, sizeof(why.text), "%s", strerror(-err));
	if (failed)
		fprintf(stderr, "spindle bench: %s: %s\n", c->name, why.text);
	t->failed += failed;
	t->noisy += !err && bench_show_noisy(&r);
	t->missed += !err && !bench_show_meets(c, o, &r);
	if (t->text && !failed)
		bench_show_text(c, o, err ? NULL : &r, why.text);
	json_array_append_new(t->list, bench_show_json(c, o, err ? NULL : &r, failed, why.text));
}

/* One of the texts, with commas between; none is in every name. */
static bool matches(const char *name, const char *filter)
{
	char text[512], *save, *one;

	snprintf(text, sizeof(text), "%s", filter);
	one = strtok_r(text, ",", &save);
	for (; one; one = strtok_r(NULL, ",", &save))
		if (strstr(name, one))
			return true;
	return !*filter;
}

/* Whether there are enough for EAL that nobody has. */
static bool huge_pages(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long free_pages = 0, size = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "HugePages_Free: %lu", &free_pages);
		sscanf(line, "Hugepagesize: %lu", &size); /* KiB */
	}
	if (f)
		fclose(f);
	return free_pages * size >= 768ul << 10 && !geteuid();
}

/* EAL runs only where packets are measured in this process. Returns whether it does; false and words: it should. */
static bool start_eal(const char *filter, struct sp_error *error)
{
	char *huge[] = {(char *)"--in-memory", (char *)"-m", (char *)"512"};
	const int argc = huge_pages() ? (int)(sizeof(huge) / sizeof(*huge)) : 0;

	*error = (struct sp_error){.text = ""};
	for (unsigned i = 0; bench_case(i); i++)
		if (!bench_case(i)->unit && matches(bench_case(i)->name, filter))
			return !sp_eal_init(argc, huge, error);
	return false;
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

static void print_json(json_t *all)
{
	json_object_set_new(all, "complete", json_boolean(!bench_stopped()));
	json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	puts("");
	fflush(stdout); /* before a signal has its effect */
	json_decref(all);
}

/* What is measured here and now. */
struct wish {
	const char *filter, *icrc;
	bool json, require, parts;
	bool eal; /* runs */
	struct sp_error no_eal;
};

/* Whether a case is to be measured that way: asked for, or possible where both are. */
static bool wanted(const struct bench_case *c, const char *asked, const char *way, unsigned other_only)
{
	return !strcmp(asked, way) || (!strcmp(asked, "both") && c->icrc != other_only);
}

/* The exit status. */
static int run_all(struct bench_options *o, const struct wish *w)
{
	struct tally t = {.list = json_array(), .text = !w->json, .no_eal = w->no_eal.text};
	struct bench_noise noise;
	struct bench_machine machine;

	bench_show_machine(&machine, w->eal);
	bench_noise_begin(&noise);
	for (unsigned i = 0; bench_case(i) && !bench_stopped(); i++) {
		const struct bench_case *c = bench_case(i);

		if (!matches(c->name, w->filter))
			continue;
		if (!t.ran++ && t.text)
			bench_show_header(&machine, o);
		if (c->unit || wanted(c, w->icrc, "off", BENCH_CHECKED))
			run_case(c, o, false, &t);
		if (!c->unit && wanted(c, w->icrc, "on", BENCH_UNCHECKED) && !bench_stopped())
			run_case(c, o, true, &t);
	}
	bench_noise_end(&noise);
	if (!t.ran && !bench_stopped()) {
		fprintf(stderr, "spindle bench: no case matches %s\n", w->filter);
		t.failed++;
	}
	if (!bench_stopped() && t.ran)
		bench_show_noise(w->json ? stderr : stdout, &noise, t.noisy);
	if (w->json) /* of what there is, whatever ended it */
		print_json(bench_show_all(&machine, o, t.list, &noise));
	json_decref(t.list);
	if (w->require && t.missed && !t.failed)
		fprintf(stderr, "spindle bench: %u required ratios are missed\n", t.missed);
	return t.failed ? 1 : w->require && t.missed ? 3 : 0;
}

static int measure_parts(struct bench_options *o, const struct wish *w)
{
	struct bench_machine machine;
	struct bench_noise noise;
	struct bench_why why = {""};
	json_t *parts = NULL;

	bench_show_machine(&machine, w->eal);
	bench_noise_begin(&noise);
	if (!w->json)
		bench_show_header(&machine, o);
	if (w->eal)
		parts = bench_show_parts(o, !w->json, &why);
	else
		snprintf(why.text, sizeof(why.text), "%s", w->no_eal.text);
	bench_noise_end(&noise);
	if (!bench_stopped()) {
		if (!parts)
			fprintf(stderr, "spindle bench: parts: %s\n", why.text);
		bench_show_noise(w->json ? stderr : stdout, &noise, 0);
	}
	if (w->json) {
		json_t *all = bench_show_all(&machine, o, NULL, &noise);

		json_object_set_new(all, "parts", parts ? json_incref(parts) : json_null());
		json_object_set_new(all, "failed", parts || bench_stopped() ? json_null() : json_string(why.text));
		print_json(all);
	}
	json_decref(parts);
	return parts ? 0 : 1;
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
						{"messages", required_argument, NULL, 'M'},
						{"loss", required_argument, NULL, 'L'},
						{"json", no_argument, NULL, 'j'},
						{"list", no_argument, NULL, 'l'},
						{"require", optional_argument, NULL, 'R'},
						{"parts", no_argument, NULL, 'p'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct bench_options o = {.rounds = 9, .round_seconds = 0.2, .loss = -1, .file_bytes = 64 << 20};
	struct wish wish = {.filter = "", .icrc = "both"};
	struct sigaction before[SIGNALS];
	bool list = false;
	char *end;
	int opt, status;

	if (argc > 1 && !strcmp(argv[1], "--end"))
		return bench_end(argc - 2, argv + 2);
	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1)
		switch (opt) {
		case 'f':
			wish.filter = optarg;
			break;
		case 'r':
			if (!parse_rounds(optarg, &o.rounds))
				return command_bad_value("bench", "--rounds must be 1 to 101", optarg);
			break;
		case 's':
			if (!parse_seconds(optarg, &o.round_seconds))
				return command_bad_value("bench", "--seconds must be more than 0 and at most 60",
							 optarg);
			break;
		case 'q':
			o.rounds = 3;
			o.round_seconds = 0.05;
			o.file_bytes = 8 << 20;
			break;
		case 'i':
			wish.icrc = optarg;
			if (strcmp(optarg, "on") && strcmp(optarg, "off") && strcmp(optarg, "both"))
				return command_bad_value("bench", "--icrc must be on, off or both", optarg);
			break;
		case 'm':
			if (!parse_power(optarg, 2, BENCH_PACKETS_MAX, &o.message_packets))
				return command_bad_value("bench", "--message-packets must be a power of 2, 2 to 1024",
							 optarg);
			break;
		case 'c':
			if (!parse_power(optarg, 1, BENCH_CHUNK_MAX, &o.chunk_packets))
				return command_bad_value("bench", "--chunk-packets must be a power of 2, 1 to 128",
							 optarg);
			break;
		case 'M':
			if (!parse_power(optarg, 1, BENCH_MESSAGES_MAX, &o.messages))
				return command_bad_value("bench", "--messages must be a power of 2, 1 to 1024", optarg);
			break;
		case 'L':
			o.loss = strtod(optarg, &end);
			if (!isdigit((unsigned char)*optarg) || *end || !(o.loss < 0.5))
				return command_bad_value("bench", "--loss must be 0 or more and less than 0.5", optarg);
			break;
		case 'j':
			wish.json = true;
			break;
		case 'l':
			list = true;
			break;
		case 'R':
			wish.require = true;
			o.required = 0;
			if (optarg && !parse_ratio(optarg, &o.required))
				return command_bad_value("bench", "--require must be a ratio of more than 0", optarg);
			break;
		case 'p':
			wish.parts = true;
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
	wish.eal = start_eal(wish.parts ? "" : wish.filter, &wish.no_eal);
	status = wish.parts ? measure_parts(&o, &wish) : run_all(&o, &wish);
	release_signals(before);
	return status;
}
