/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle bench: measures each case beside its baseline, in one run. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../pipeline/value.h"
#include "../../pipeline/nic.h"
#include "../../testbed/bench/end.h"
#include "../command.h"
#include "../options.h"
#include "show.h"
#include "../output.h"

#define AT(field) OPTION_AT(struct asked, field)

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof(signals) / sizeof(*signals))

/* The results of a run. */
struct tally {
	json_t *list;
	bool text;
	struct bench_summary summary;
	const char *no_eal;	     /* why there is no EAL, and so no packets in this process; or "" */
	unsigned failed, ran, noisy; /* cases */
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
		command_fail("bench", "%s: %s", c->name, why.text);
	t->failed += failed;
	t->noisy += !err && bench_show_noisy(&r);
	if (!err)
		bench_summary_add(&t->summary, c, o, &r);
	if (t->text && !failed)
		bench_show_text(c, o, err ? NULL : &r, why.text);
	json_array_append_new(t->list, bench_show_json(c, o, err ? NULL : &r, failed, why.text));
}

/* Whether the name contains one of the texts in filter, which commas separate; an empty filter matches. */
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

/* Whether enough huge pages are free for EAL. */
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

/* Starts EAL if packets are measured in this process. Returns whether it runs; if it should but does not, error says
 * why. */
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

/* A signal first lets the running case clean up; then release_signals() lets it have its former effect. */
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
	fflush(stdout); /* before release_signals() */
	json_decref(all);
}

/* What the options ask for. */
struct asked {
	struct bench_options options;
	const char *filter;
	enum icrc { ICRC_OFF, ICRC_ON, ICRC_BOTH } icrc;
	bool json, require, parts, path, list;
	bool eal; /* EAL runs */
	struct sp_error no_eal;
};

/* Whether a case is measured that way: it is asked for, or both are and the case has this one. */
static bool wanted(const struct bench_case *c, enum icrc asked, enum icrc way, unsigned other_only)
{
	return asked == way || (asked == ICRC_BOTH && c->icrc != other_only);
}

/* The exit status. */
static int run_all(const struct asked *a)
{
	struct bench_options o = a->options;
	struct tally t = {
		.list = json_array(), .text = !a->json, .summary = bench_summary_open(), .no_eal = a->no_eal.text};
	struct bench_noise noise;
	struct bench_machine machine;
	unsigned missed;

	bench_show_machine(&machine, a->eal);
	bench_noise_begin(&noise);
	for (unsigned i = 0; bench_case(i) && !bench_stopped(); i++) {
		const struct bench_case *c = bench_case(i);

		if (!matches(c->name, a->filter))
			continue;
		if (!t.ran++ && t.text)
			bench_show_header(&machine, &o);
		if (c->unit || wanted(c, a->icrc, ICRC_OFF, BENCH_CHECKED))
			run_case(c, &o, false, &t);
		if (!c->unit && wanted(c, a->icrc, ICRC_ON, BENCH_UNCHECKED) && !bench_stopped())
			run_case(c, &o, true, &t);
	}
	bench_noise_end(&noise);
	if (!t.ran && !bench_stopped()) {
		command_fail("bench", "no case matches %s", a->filter);
		t.failed++;
	}
	if (!bench_stopped() && t.ran)
		bench_show_noise(a->json ? stderr : stdout, &noise, t.noisy);
	if (a->json) { /* also of an interrupted run */
		json_t *all = bench_show_all(&machine, &o, t.list, &noise);

		json_object_set_new(all, "summary", bench_summary_json(&t.summary));
		print_json(all);
	} else if (!bench_stopped() && t.ran) {
		bench_summary_text(&t.summary);
	}
	json_decref(t.list);
	missed = bench_summary_missed(&t.summary);
	bench_summary_close(&t.summary);
	if (a->require && missed && !t.failed)
		command_fail("bench", "required ratios missed: %u", missed);
	return t.failed ? 1 : a->require && missed ? 3 : 0;
}

static int measure_parts(const struct asked *a)
{
	const struct bench_options *o = &a->options;
	struct bench_machine machine;
	struct bench_noise noise;
	struct bench_why why = {""};
	json_t *parts = NULL;

	bench_show_machine(&machine, a->eal);
	bench_noise_begin(&noise);
	if (!a->json)
		bench_show_header(&machine, o);
	if (a->eal)
		parts = bench_show_parts(o, !a->json, &why);
	else
		snprintf(why.text, sizeof(why.text), "%s", a->no_eal.text);
	bench_noise_end(&noise);
	if (!bench_stopped()) {
		if (!parts)
			command_fail("bench", "parts: %s", why.text);
		bench_show_noise(a->json ? stderr : stdout, &noise, 0);
	}
	if (a->json) {
		json_t *all = bench_show_all(&machine, o, NULL, &noise);

		json_object_set_new(all, "parts", parts ? json_incref(parts) : json_null());
		json_object_set_new(all, "failed", parts || bench_stopped() ? json_null() : json_string(why.text));
		print_json(all);
	}
	json_decref(parts);
	return parts ? 0 : 1;
}

static int trace_path(const struct asked *a)
{
	const struct bench_options *o = &a->options;
	struct bench_machine machine;
	struct bench_noise noise;
	struct bench_why why = {""};
	json_t *path;

	bench_show_machine(&machine, false);
	bench_noise_begin(&noise);
	if (!a->json)
		bench_show_header(&machine, o);
	path = bench_show_path(o, matches, a->filter, !a->json, &why);
	bench_noise_end(&noise);
	if (!bench_stopped()) {
		if (!path)
			command_fail("bench", "path: %s", why.text);
		bench_show_noise(a->json ? stderr : stdout, &noise, 0);
	}
	if (a->json) {
		json_t *all = bench_show_all(&machine, o, NULL, &noise);

		json_object_set_new(all, "path", path ? json_incref(path) : json_null());
		json_object_set_new(all, "failed", path || bench_stopped() ? json_null() : json_string(why.text));
		print_json(all);
	}
	json_decref(path);
	return path ? 0 : 1;
}

/* ---- options ---- */

static const struct usage usage = {
	.command = "bench",
	.forms = "spindle bench [--filter TEXT] [--rounds N] [--seconds S] [--quick] [--icrc on|off|both]\n"
		 "              [--message-packets N] [--chunk-packets N] [--messages N] [--loss P]\n"
		 "              [--require[=RATIO]] [--json]\n"
		 "spindle bench --parts [--rounds N] [--seconds S] [--quick] [--json]\n"
		 "spindle bench --path [--filter TEXT] [--quick] [--json]\n"
		 "spindle bench --list",
	.about = "Measures what packets, messages, files and codes cost, each case beside a baseline.",
};

static const char *const icrc_words[] = {[ICRC_ON] = "on", [ICRC_OFF] = "off", [ICRC_BOTH] = "both", NULL};

static int take_power(const char *text, unsigned least, unsigned most, uint32_t *to)
{
	uint64_t value;

	if (sp_parse_uint(text, &value) || value < least || value > most || (value & (value - 1)))
		return -EINVAL;
	*to = (uint32_t)value;
	return 0;
}

static int take_message_packets(void *to, const char *text)
{
	return take_power(text, 2, BENCH_PACKETS_MAX, &((struct asked *)to)->options.message_packets);
}

static int take_chunk_packets(void *to, const char *text)
{
	return take_power(text, 1, BENCH_CHUNK_MAX, &((struct asked *)to)->options.chunk_packets);
}

static int take_messages(void *to, const char *text)
{
	return take_power(text, 1, BENCH_MESSAGES_MAX, &((struct asked *)to)->options.messages);
}

static int take_require(void *to, const char *text)
{
	struct asked *a = to;
	const struct option_row ratio = {.kind = OPTION_REAL, .open = OPTION_ABOVE};

	a->require = true;
	a->options.required = 0;
	return text ? option_real(&ratio, text, &a->options.required) : 0;
}

static const struct option_row rows[] = {
	{"list", 0, OPTION_FLAG, NULL, "print the cases and their baselines", AT(list)},
	{"filter", 0, OPTION_STRING, "TEXT", "only cases with TEXT in their name; commas separate several texts",
	 AT(filter)},
	{"rounds", 0, OPTION_NUMBER, "N", "rounds of each case and its baseline, 1 to 101 (9)", AT(options.rounds),
	 .least = 1, .most = BENCH_ROUNDS_MAX},
	{"seconds", 0, OPTION_REAL, "S", "length of one round (0.2)", AT(options.round_seconds), .high = 60,
	 .open = OPTION_ABOVE},
	{"quick", 0, OPTION_FLAG, NULL, "3 rounds of 0.01 s, files of 8 MiB instead of 64, and less of what takes long",
	 AT(options.quick)},
	{"icrc", 0, OPTION_WORD, "on|off|both", "check the ICRC, in cases of packets (both)", AT(icrc),
	 .words = icrc_words, .wants = "on, off or both"},
	{"message-packets", 0, OPTION_CALL, "N",
	 "packets of a message, a power of 2, 2 to 1024, in sdr-receive and sdr-workers (each case's own)",
	 .take = take_message_packets, .wants = "a power of 2, 2 to 1024"},
	{"chunk-packets", 0, OPTION_CALL, "N", "packets of a chunk, a power of 2, 1 to 128 (1), in the same cases",
	 .take = take_chunk_packets, .wants = "a power of 2, 1 to 128"},
	{"messages", 0, OPTION_CALL, "N", "messages at once, a power of 2, up to 1024, in the same cases",
	 .take = take_messages, .wants = "a power of 2, 1 to 1024"},
	{"loss", 0, OPTION_REAL, "P", "probability that a packet is lost, in case virtual", AT(options.loss),
	 .high = 0.5, .open = OPTION_BELOW},
	{"require", 0, OPTION_CALL, "[=RATIO]",
	 "exit status 3 if a ratio is less than the case requires, or than RATIO", .take = take_require,
	 .wants = "a ratio of more than 0"},
	{"parts", 0, OPTION_FLAG, NULL, "what the parts of receiving a packet take, in cycles", AT(parts)},
	{"path", 0, OPTION_FLAG, NULL, "what each step of a message from program to program takes, and who ran",
	 AT(path)},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", AT(json)},
	{0},
};

static int arguments(struct asked *a, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, rows, a, NULL}}};
	const int status = options_parse(&o, argc, argv);

	if (a->options.quick && !options_has(&o, "rounds"))
		a->options.rounds = 3;
	if (a->options.quick && !options_has(&o, "seconds"))
		a->options.round_seconds = 0.01;
	if (a->options.quick) {
		a->options.file_bytes = 8 << 20;
		a->options.stream_bytes = 128 << 20;
	}
	return status;
}

int command_bench(int argc, char **argv)
{
	struct asked a = {.filter = "",
			  .icrc = ICRC_BOTH,
			  .options = {.rounds = 9,
				      .round_seconds = 0.2,
				      .loss = -1,
				      .file_bytes = 64 << 20,
				      .stream_bytes = 1 << 30}};
	struct sigaction before[SIGNALS];
	int status;

	if (argc > 1 && !strcmp(argv[1], "--end"))
		return bench_end(argc - 2, argv + 2);
	status = arguments(&a, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (a.list) {
		bench_show_list();
		return 0;
	}
	catch_signals(before);
	a.eal = !a.path && start_eal(a.parts ? "" : a.filter, &a.no_eal);
	status = a.path ? trace_path(&a) : a.parts ? measure_parts(&a) : run_all(&a);
	release_signals(before);
	return status;
}
