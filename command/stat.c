/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle stat: what a running NIC counts, once or again and again. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../host-api/attach.h"
#include "command.h"
#include "stat.h"

static const char usage[] =
	"usage: spindle stat [NAME] [OPTIONS]\n"
	"\n"
	"Shows what the running NIC of that name (default: $SPINDLE_NIC, or spindle0) counts: ports, workers, drops,\n"
	"applications, contexts. On a terminal the table is live, until Ctrl-C; elsewhere it is printed once.\n"
	"  -n, --nic NAME  the same as NAME; with a '/' in it, the path of the NIC's socket\n"
	"  --context C     only context C (NAME, or NAME@PID of an application), and all that it counts\n"
	"  --interval S    seconds between two samples, 0.05 to 3600 (default 1)\n"
	"  --count N       samples, then end\n"
	"  --once          one sample: --count 1\n"
	"  --json          one JSON object a line and sample, as the NIC gives it\n"
	"  --handlers      with --json: also what handlers say of their own state (packets wait meanwhile)\n"
	"Exit status: 0 done, 1 there is no such NIC or context, or it has gone, 2 wrong usage.\n";

#define REPORT_BYTES (256u << 20) /* more is not believed */

struct asked {
	const char *nic, *context;
	double interval;
	uint64_t count; /* 0: for ever */
	bool json, handlers;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
	(void)signal;
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

/* 0, or the exit status + 1. */
static int arguments(struct asked *a, int argc, char **argv)
{
	static const struct option options[] = {{"nic", required_argument, NULL, 'n'},
						{"context", required_argument, NULL, 'c'},
						{"interval", required_argument, NULL, 'i'},
						{"count", required_argument, NULL, 'k'},
						{"once", no_argument, NULL, 'o'},
						{"json", no_argument, NULL, 'j'},
						{"handlers", no_argument, NULL, 'r'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const char *about, *what;
	bool again = false;
	double n;
	int option;

	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":hn:", options, NULL)) != -1)
		switch (option) {
		case 'n':
			a->nic = optarg;
			break;
		case 'c':
			if (!*optarg)
				return command_bad_value("stat", "--context must be a context's name", "''") + 1;
			a->context = optarg;
			break;
		case 'i':
			if (!number(optarg, 0.05, 3600, &a->interval))
				return command_bad_value("stat", "--interval must be 0.05 to 3600", optarg) + 1;
			again = true;
			break;
		case 'k':
			if (!number(optarg, 1, 1e9, &n) || n != (double)(uint64_t)n)
				return command_bad_value("stat", "--count must be 1 to 1000000000", optarg) + 1;
			a->count = (uint64_t)n;
			break;
		case 'o':
			a->count = 1;
			break;
		case 'j':
			a->json = true;
			break;
		case 'r':
			a->handlers = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			what = command_bad_option(option, argv, &about);
			return misuse(what, about) + 1;
		}
	if (optind < argc && a->nic)
		return misuse("one NIC at a time: ", argv[optind]) + 1;
	if (optind < argc)
		a->nic = argv[optind++];
	if (optind < argc)
		return misuse("one NIC at a time: ", argv[optind]) + 1;
	if (a->handlers && !a->json)
		return misuse("what handlers say of themselves has no table: --handlers is for --json", "") + 1;
	if (!a->count && !again && (a->json || !isatty(STDOUT_FILENO)))
		a->count = 1;
	return 0;
}

static const char *nic_name(const struct asked *a)
{
	const char *name = a->nic ? a->nic : getenv("SPINDLE_NIC");

	return name && *name ? name : "spindle0";
}

static int fail_ask(const struct asked *a, int status)
{
	if (status == -ENOENT && a->context)
		fprintf(stderr, "spindle stat: NIC %s has no context %s\n", nic_name(a), a->context);
	else if (status == -ENODEV)
		fprintf(stderr, "spindle stat: NIC %s has gone\n", nic_name(a));
	else if (status == -EPERM)
		fprintf(stderr,
			"spindle stat: NIC %s: --handlers is for its own user and root: packets wait meanwhile\n",
			nic_name(a));
	else if (status == -EPROTO)
		fprintf(stderr, "spindle stat: NIC %s says what makes no sense: is it of another version?\n",
			nic_name(a));
	else
		fprintf(stderr, "spindle stat: NIC %s: %s\n", nic_name(a), strerror(-status));
	return 1;
}

/* One report. 0 or -errno. */
static int ask(struct sp_attach_link *link, const struct asked *a, struct stat_sample *sample)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_REPORT,
				       .arg = {a->handlers ? SP_REPORT_HANDLERS : SP_REPORT_ALL},
				       .data = a->context,
				       .bytes = a->context ? (uint32_t)strlen(a->context) : 0};
	void *text;
	int status;

	if (x.bytes > SP_ATTACH_BYTES)
		return -ENOENT;
	status = sp_attach_exchange(link, &x);
	if (status)
		return status;
	sample->at = sp_clock();
	status = x.arg[0] > REPORT_BYTES ? -EPROTO : sp_attach_map(x.fd[0], x.arg[0], false, &text);
	sp_attach_release(&x);
	if (status)
		return status;
	sample->report = json_loadb(text, strnlen(text, x.arg[0]), 0, NULL);
	munmap(text, x.arg[0]);
	if (json_is_object(sample->report))
		return 0;
	json_decref(sample->report);
	sample->report = NULL;
	return -EPROTO;
}

/* Until it is time for the next. False: enough, by signal or because the NIC has gone (*status). */
static bool pause_until(struct sp_attach_link *link, sp_time until, int *status)
{
	while (!interrupted) {
		struct pollfd wait = {.fd = link->fd, .events = POLLIN};
		const sp_time now = sp_clock();

		if (now >= until)
			return true;
		if (poll(&wait, 1, (int)((until - now) / SP_MS) + 1) > 0) {
			sp_attach_look(link);
			if (link->dead) {
				*status = -ENODEV;
				return false;
			}
		}
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

static int watch(struct sp_attach_link *link, const struct asked *a)
{
	struct stat_view view = {.live = isatty(STDOUT_FILENO) && a->count != 1, .context = a->context};
	struct stat_sample now = {0}, before = {0};
	const sp_time interval = (sp_time)(a->interval * (double)SP_SEC);
	sp_time next = sp_clock();
	int status = 0;

	for (uint64_t n = 0; !interrupted && !ferror(stdout);) {
		status = ask(link, a, &now);
		if (status)
			break;
		if (a->json)
			print_json(&now);
		else
			stat_show(&view, &now, &before);
		json_decref(before.report);
		before = now;
		now = (struct stat_sample){0};
		next += interval;
		if (++n == a->count || !pause_until(link, next, &status))
			break;
		if (sp_clock() > next + interval) /* the process was stopped: no catching up */
			next = sp_clock();
	}
	json_decref(before.report);
	return status ? fail_ask(a, status) : 0;
}

int command_stat(int argc, char **argv)
{
	static struct sp_attach_link link;			   /* it is large */
	const struct sigaction action = {.sa_handler = interrupt}; /* without SA_RESTART: it ends the pause */
	struct asked a = {.interval = 1};
	char why[400];
	int status = arguments(&a, argc, argv);

	if (status)
		return status - 1;
	status = sp_attach_connect(&link, a.nic);
	if (status) {
		command_nic_error(a.nic, status, why, sizeof(why));
		fprintf(stderr, "spindle stat: %s\n", why);
		return 1;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	status = watch(&link, &a);
	close(link.fd);
	return status;
}
