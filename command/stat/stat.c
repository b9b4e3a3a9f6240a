/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle stat: the counters of a running NIC, once or repeatedly. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../command.h"
#include "../nic_error.h"
#include "metrics.h"
#include "pause.h"
#include "screen.h"
#include "serve.h"
#include "../output.h"

static const struct usage usage = {
	.command = "stat",
	.forms = "spindle stat [NAME] [OPTIONS]",
	.about = "Shows the counters of the running NIC NAME (default: $SPINDLE_NIC, or spindle0): ports, workers, "
		 "drops, "
		 "contexts, handlers, applications. On a terminal the table is live, until q or Ctrl-C, and keys sort "
		 "it; "
		 "elsewhere it is printed once.",
	.end = "Exit status: 0 done, 1 there is no such NIC or context, or it has gone, 2 wrong usage.",
	.arguments = 1,
};

struct asked {
	struct stat_asked nic;
	struct stat_view view; /* order, backwards, top */
	double interval;
	uint64_t count; /* 0: for ever */
	bool json, metrics;
	struct stat_address listen; /* text NULL: no */
};

/* ---- options ---- */

#define AT(field) OPTION_AT(struct asked, field)

static int take_listen(void *to, const char *text)
{
	struct asked *a = to;

	return stat_serve_parse(text, &a->listen);
}

static const struct option_row rows[] = {
	{"context", 0, OPTION_STRING, "C",
	 "only context C (NAME, or NAME@PID of an application), with all its counters", AT(nic.context), .least = 1,
	 .most = UINT64_MAX, .wants = "a context's name"},
	{"interval", 0, OPTION_REAL, "S", "seconds between two samples, 0.05 to 3600 (1)", AT(interval), .low = 0.05,
	 .high = 3600},
	{"count", 0, OPTION_NUMBER, "N", "end after N samples", AT(count), .least = 1, .most = 1000000000},
	{"once", 0, OPTION_FLAG, NULL, "one sample: --count 1", AT(count), .least = 1},
	{"sort", 0, OPTION_WORD, "FIELD",
	 "sort contexts and handlers by name, packets, bytes, dropped, cycles (per packet), p99 (of cycles), share (of "
	 "a "
	 "worker), overruns, or activity (packets received and sent: the default)",
	 AT(view.order), .words = stat_order_names},
	{"reverse", 0, OPTION_FLAG, NULL, "the smallest first", AT(view.backwards)},
	{"top", 0, OPTION_NUMBER, "N", "only the first N of them", AT(view.top), .least = 1, .most = 1000000000},
	{"json", 0, OPTION_FLAG, NULL, "print the NIC's JSON, one object a line and sample", AT(json)},
	{"handlers", 0, OPTION_FLAG, NULL,
	 "with --json or --context: also what handlers report of their state (packets wait meanwhile)",
	 AT(nic.handlers)},
	{"openmetrics", 0, OPTION_FLAG, NULL, "one sample as OpenMetrics text", AT(metrics)},
	{"listen", 0, OPTION_CALL, "[ADDR:]PORT",
	 "serve that text, always current, by HTTP at /metrics (ADDR: default 127.0.0.1)", .take = take_listen,
	 .wants = "PORT, ADDRESS:PORT or [ADDRESS]:PORT"},
	{0},
};

/* Rejects options that exclude each other. */
static int check(struct asked *a, const struct options *o)
{
	const bool listen = a->listen.text, again = options_has(o, "interval");

	if (a->nic.handlers && !a->json && !a->nic.context)
		return options_misuse(&usage,
				      "there is no table of all contexts for --handlers: it needs --json or --context");
	if (a->json + a->metrics + listen > 1)
		return options_misuse(&usage, "only one of --json, --openmetrics and --listen");
	if ((options_has(o, "sort") || a->view.backwards || a->view.top) && (a->json || a->metrics || listen))
		return options_misuse(&usage, "--sort, --reverse and --top are for tables");
	if ((again || a->count) && (a->metrics || listen))
		return options_misuse(&usage, "--interval, --count and --once are for tables and --json");
	if (!a->count && !again && (a->json || !isatty(STDOUT_FILENO)))
		a->count = 1;
	return OPTIONS_GO_ON;
}

static int arguments(struct asked *a, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, nic_rows, &a->nic.nic, NULL}, {NULL, rows, a, NULL}}};
	const int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (o.arguments && a->nic.nic)
		return options_misuse(&usage, "only one NIC: %s", o.argument[0]);
	if (o.arguments)
		a->nic.nic = o.argument[0];
	a->view.context = a->nic.context;
	return check(a, &o);
}

static int fail_ask(const struct asked *a, int status)
{
	char words[400];

	stat_ask_words(&a->nic, status, words, sizeof(words));
	return command_fail("stat", "%s", words);
}

/* ---- one sample after the other ---- */

struct watch {
	const struct asked *asked;
	struct sp_attach_link *link;
	struct stat_view view;
	struct stat_sample now, before;
};

static void redraw(void *arg)
{
	struct watch *w = arg;

	stat_draw(&w->view, &w->now, &w->before);
}

/* Waits for the next sample. False: a signal or a key ends the command, or the NIC has gone (*status). */
static bool pause_until(struct watch *w, sp_time until, int *status)
{
	const struct stat_pause p = {.view = &w->view, .link = w->link, .links = 1, .redraw = redraw, .arg = w};

	if (!stat_pause(&p, until))
		return false;
	*status = w->link->dead;
	return !*status;
}

static void print_json(const struct stat_sample *sample)
{
	struct timespec now;

	/* a reader computes rates from it */
	clock_gettime(CLOCK_REALTIME, &now);
	json_object_set_new(sample->report, "time_ms",
			    json_integer((json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000));
	json_dumpf(sample->report, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_ENSURE_ASCII);
	putchar('\n');
	fflush(stdout);
}

static void show(struct watch *w)
{
	if (w->asked->json)
		print_json(&w->now);
	else if (w->asked->metrics)
		stat_metrics(w->now.report, stdout);
	else
		stat_draw(&w->view, &w->now, &w->before);
}

static int watch(struct sp_attach_link *link, const struct asked *a)
{
	struct watch w = {.asked = a, .link = link, .view = a->view};
	const sp_time interval = (sp_time)(a->interval * (double)SP_SEC);
	sp_time next = sp_clock();
	int status = 0;

	w.view.live = isatty(STDOUT_FILENO) && a->count != 1 && !a->json && !a->metrics;
	if (w.view.live)
		stat_keys_begin(&w.view);
	for (uint64_t n = 0; !stat_pause_ended() && !ferror(stdout);) {
		struct stat_sample sample;

		status = stat_ask(link, &a->nic, &sample);
		if (status)
			break;
		json_decref(w.before.report);
		w.before = w.now;
		w.now = sample;
		show(&w);
		next += interval;
		if (++n == a->count || a->metrics || !pause_until(&w, next, &status))
			break;
		if (sp_clock() > next + interval) /* the process was stopped: skip what was missed */
			next = sp_clock();
	}
	stat_keys_end(&w.view);
	json_decref(w.now.report);
	json_decref(w.before.report);
	return status ? fail_ask(a, status) : 0;
}

int command_stat(int argc, char **argv)
{
	static struct sp_attach_link link; /* large */
	struct asked a = {.interval = 1};
	int status = arguments(&a, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (a.listen.text)
		return stat_serve(&a.nic, &a.listen);
	status = sp_attach_connect(&link, a.nic.nic);
	if (status)
		return command_nic_fail("stat", a.nic.nic, status);
	stat_pause_signals();
	status = watch(&link, &a);
	close(link.fd);
	return status;
}
