/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle stat: what a running NIC counts, once or again and again. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "stat.h"

static const char usage[] =
	"usage: spindle stat [NAME] [OPTIONS]\n"
	"\n"
	"Shows what the running NIC of that name (default: $SPINDLE_NIC, or spindle0) counts: ports, workers, drops,\n"
	"contexts, handlers, applications. On a terminal the table is live, until q or Ctrl-C, and keys sort it;\n"
	"elsewhere it is printed once.\n"
	"  -n, --nic NAME  the same as NAME; with a '/' in it, the path of the NIC's socket\n"
	"  --context C     only context C (NAME, or NAME@PID of an application), and all that it counts\n"
	"  --interval S    seconds between two samples, 0.05 to 3600 (default 1)\n"
	"  --count N       samples, then end\n"
	"  --once          one sample: --count 1\n"
	"  --sort FIELD    contexts and handlers by name, packets, bytes, dropped, cycles (a packet), p99 (of them),\n"
	"                  share (of a worker), overruns, or activity (the default: packets and those sent)\n"
	"  --reverse       the least first\n"
	"  --top N         only the first N of them\n"
	"  --json          one JSON object a line and sample, as the NIC gives it\n"
	"  --handlers      with --json: also what handlers say of their own state (packets wait meanwhile)\n"
	"  --openmetrics   one sample as OpenMetrics text\n"
	"  --listen [ADDR:]PORT  serves that text by HTTP at /metrics, of the moment each time (ADDR: default "
	"127.0.0.1)\n"
	"Exit status: 0 done, 1 there is no such NIC or context, or it has gone, 2 wrong usage.\n";

struct options {
	struct stat_asked asked;
	struct stat_view view; /* order, backwards, top */
	double interval;
	uint64_t count; /* 0: for ever */
	bool json, metrics, sorted, again;
	const char *listen;
};

static volatile sig_atomic_t interrupted, suspended;

static void interrupt(int signal)
{
	if (signal == SIGTSTP)
		suspended = 1;
	else
		interrupted = 1;
}

static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle stat: %s%s\n%s", what, about, usage);
	return 2;
}

static bool number(const char *text, double min, double max, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value >= min && *value <= max;
}

static bool whole(const char *text, uint64_t *value)
{
	double n;

	if (!number(text, 1, 1e9, &n) || n != (double)(uint64_t)n)
		return false;
	*value = (uint64_t)n;
	return true;
}

static bool order(const char *text, enum stat_order *value)
{
	for (unsigned i = 0; i < STAT_ORDERS; i++)
		if (!strcmp(text, stat_order[i].name)) {
			*value = (enum stat_order)i;
			return true;
		}
	return false;
}

/* What does not go together. 0, or the exit status + 1. */
static int check(struct options *o)
{
	if (o->asked.handlers && !o->json)
		return misuse("what handlers say of themselves has no table: --handlers is for --json", "") + 1;
	if (o->json + o->metrics + !!o->listen > 1)
		return misuse("one way at a time: --json, --openmetrics or --listen", "") + 1;
	if (o->sorted && (o->json || o->metrics || o->listen))
		return misuse("--sort, --reverse and --top are for tables", "") + 1;
	if ((o->again || o->count) && (o->metrics || o->listen))
		return misuse("--interval, --count and --once are for tables and --json", "") + 1;
	if (!o->count && !o->again && (o->json || !isatty(STDOUT_FILENO)))
		o->count = 1;
	return 0;
}

/* 0, or the exit status + 1. */
static int arguments(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{"nic", required_argument, NULL, 'n'},	    {"context", required_argument, NULL, 'c'},
		{"interval", required_argument, NULL, 'i'}, {"count", required_argument, NULL, 'k'},
		{"once", no_argument, NULL, 'o'},	    {"sort", required_argument, NULL, 's'},
		{"reverse", no_argument, NULL, 'b'},	    {"top", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},	    {"handlers", no_argument, NULL, 'r'},
		{"openmetrics", no_argument, NULL, 'm'},    {"listen", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},	    {0}};
	const char *about, *what;
	uint64_t n;
	int option;

	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":hn:", options, NULL)) != -1)
		switch (option) {
		case 'n':
			o->asked.nic = optarg;
			break;
		case 'c':
			if (!*optarg)
				return command_bad_value("stat", "--context must be a context's name", "''") + 1;
			o->asked.context = optarg;
			o->view.context = true;
			break;
		case 'i':
			if (!number(optarg, 0.05, 3600, &o->interval))
				return command_bad_value("stat", "--interval must be 0.05 to 3600", optarg) + 1;
			o->again = true;
			break;
		case 'k':
			if (!whole(optarg, &o->count))
				return command_bad_value("stat", "--count must be 1 to 1000000000", optarg) + 1;
			break;
		case 'o':
			o->count = 1;
			break;
		case 's':
			if (!order(optarg, &o->view.order))
				return command_bad_value("stat",
							 "--sort must be name, packets, bytes, dropped, cycles, p99, "
							 "share, overruns or activity",
							 optarg) +
				       1;
			o->sorted = true;
			break;
		case 'b':
			o->sorted = o->view.backwards = true;
			break;
		case 't':
			if (!whole(optarg, &n))
				return command_bad_value("stat", "--top must be 1 to 1000000000", optarg) + 1;
			o->view.top = n;
			o->sorted = true;
			break;
		case 'j':
			o->json = true;
			break;
		case 'r':
			o->asked.handlers = true;
			break;
		case 'm':
			o->metrics = true;
			break;
		case 'l':
			o->listen = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			what = command_bad_option(option, argv, &about);
			return misuse(what, about) + 1;
		}
	if (optind < argc && o->asked.nic)
		return misuse("one NIC at a time: ", argv[optind]) + 1;
	if (optind < argc)
		o->asked.nic = argv[optind++];
	if (optind < argc)
		return misuse("one NIC at a time: ", argv[optind]) + 1;
	return check(o);
}

static int fail_ask(const struct options *o, int status)
{
	char words[400];

	stat_ask_words(&o->asked, status, words, sizeof(words));
	fprintf(stderr, "spindle stat: %s\n", words);
	return 1;
}

/* ---- one sample after the other ---- */

struct watch {
	const struct options *options;
	struct sp_attach_link *link;
	struct stat_view view;
	struct stat_sample now, before;
};

/* Ctrl-Z: the terminal is the shell's until it goes on. */
static void suspend(struct watch *w)
{
	suspended = 0;
	stat_keys_end(&w->view);
	raise(SIGSTOP);
	w->view.drawn = 0;
}

/* Sleeps until there is something to do: the next sample, a key, a signal, the end of the NIC. */
static void sleep_until(struct watch *w, sp_time until)
{
	const sp_time now = sp_clock();
	struct pollfd wait[2] = {{.fd = w->link->fd, .events = POLLIN},
				 {.fd = w->view.keys ? STDIN_FILENO : -1, .events = POLLIN}};
	struct timespec rest = {0};
	sigset_t all, found;

	if (now < until)
		rest = (struct timespec){.tv_sec = (time_t)((until - now) / SP_SEC),
					 .tv_nsec = (long)((until - now) % SP_SEC / SP_NS)};
	/* so that no signal comes between the look at what it sets and the sleep */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &found);
	if (!interrupted && !suspended && ppoll(wait, 2, &rest, &found) > 0 && wait[0].revents)
		sp_attach_look(w->link);
	sigprocmask(SIG_SETMASK, &found, NULL);
}

/* Until it is time for the next. False: enough, by signal, by key, or because the NIC has gone (*status). */
static bool pause_until(struct watch *w, sp_time until, int *status)
{
	bool quit = false;

	while (!interrupted && !quit) {
		if (suspended)
			suspend(w);
		if (w->view.live)
			stat_keys_begin(&w->view);
		if (w->link->dead) {
			*status = w->link->dead;
			return false;
		}
		if (sp_clock() >= until)
			return true;
		sleep_until(w, until);
		if (stat_keys(&w->view, &quit) && !quit)
			stat_draw(&w->view, &w->now, &w->before);
	}
	return false;
}

static void print_json(const struct stat_sample *sample)
{
	struct timespec now;

	/* for those who make rates of it */
	clock_gettime(CLOCK_REALTIME, &now);
	json_object_set_new(sample->report, "time_ms",
			    json_integer((json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000));
	json_dumpf(sample->report, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_ENSURE_ASCII);
	putchar('\n');
	fflush(stdout);
}

static void show(struct watch *w)
{
	if (w->options->json)
		print_json(&w->now);
	else if (w->options->metrics)
		stat_metrics(w->now.report, stdout);
	else
		stat_draw(&w->view, &w->now, &w->before);
}

static int watch(struct sp_attach_link *link, const struct options *o)
{
	struct watch w = {.options = o, .link = link, .view = o->view};
	const sp_time interval = (sp_time)(o->interval * (double)SP_SEC);
	sp_time next = sp_clock();
	int status = 0;

	w.view.live = isatty(STDOUT_FILENO) && o->count != 1 && !o->json && !o->metrics;
	if (w.view.live)
		stat_keys_begin(&w.view);
	for (uint64_t n = 0; !interrupted && !ferror(stdout);) {
		struct stat_sample sample;

		status = stat_ask(link, &o->asked, &sample);
		if (status)
			break;
		json_decref(w.before.report);
		w.before = w.now;
		w.now = sample;
		show(&w);
		next += interval;
		if (++n == o->count || o->metrics || !pause_until(&w, next, &status))
			break;
		if (sp_clock() > next + interval) /* the process was stopped: no catching up */
			next = sp_clock();
	}
	stat_keys_end(&w.view);
	json_decref(w.now.report);
	json_decref(w.before.report);
	return status ? fail_ask(o, status) : 0;
}

/* Without SA_RESTART: they end what is being waited for. What is ignored (nohup) stays so. */
static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
	const struct sigaction action = {.sa_handler = interrupt};
	struct sigaction found;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!sigaction(numbers[i], NULL, &found) && found.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

int command_stat(int argc, char **argv)
{
	static struct sp_attach_link link; /* it is large */
	struct options o = {.interval = 1};
	char why[400];
	int status = arguments(&o, argc, argv);

	if (status)
		return status - 1;
	if (o.listen)
		return stat_serve(&o.asked, o.listen);
	status = sp_attach_connect(&link, o.asked.nic);
	if (status) {
		command_nic_error(o.asked.nic, status, why, sizeof(why));
		fprintf(stderr, "spindle stat: %s\n", why);
		return 1;
	}
	catch_signals();
	status = watch(&link, &o);
	close(link.fd);
	return status;
}
