/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle capture: what passes a running NIC, with what became of it, as pcapng. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../host-api/attach.h"
#include "capture_rings.h"

#define PAUSE 2	   /* ms between two looks at the rings: what waits in them must not get many */
#define BUSY  1024 /* packets of one look that call for the next without a pause */

static const char usage[] =
	"usage: spindle capture [-n NAME] [--context CONTEXT] [--drops] [-s SNAPLEN] [-c COUNT] [--seconds N]\n"
	"                       [FILTER] -w FILE|-\n"
	"  -n, --nic NAME     the NIC, or the path of its socket (default: $SPINDLE_NIC, or spindle0)\n"
	"  --context CONTEXT  only what this context has taken, dropped, forwarded or sent\n"
	"  --drops            only what is dropped\n"
	"  -s SNAPLEN         bytes of each frame to keep (default: as many as the NIC's MTU allows)\n"
	"  -c COUNT           end after that many packets\n"
	"  --seconds N        end after that time\n"
	"  FILTER             a tcpdump expression (see pcap-filter(7))\n"
	"  -w FILE            write pcapng to FILE; -: to standard output, as for '| tshark -r -'\n"
	"Exit status: 0 ended in order, 1 no such NIC, it refused or has gone, or FILE fails, 2 wrong usage.\n";

struct capture {
	const char *nic, *file;
	struct sp_capture_request request;
	uint64_t count; /* 0: no limit */
	double seconds; /* 0: no limit */
	struct sp_attach_link link;
	struct capture_rings rings;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* The second signal ends the program whatever it is in: a reader that does not read may hold it in write(). */
static void catch_signals(void)
{
	const struct sigaction end = {.sa_handler = interrupt, .sa_flags = SA_RESTART | (int)SA_RESETHAND};

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle capture: %s%s\n", what, about);
	fputs(usage, stderr);
	return 2;
}

static int fail(const struct capture *c, const char *what)
{
	fprintf(stderr, "spindle capture: %s: %s\n", c->file, what);
	return 1;
}

/* ---- capturing ---- */

/* Until there is something to do, or somebody has gone. False: who reads our output has. */
static bool pause_for(const struct capture *c, int ms)
{
	struct pollfd wait[2] = {{.fd = c->link.fd, .events = POLLIN}, {.fd = fileno(c->rings.to)}};

	return poll(wait, 2, ms) <= 0 || !(wait[1].revents & POLLERR);
}

static int run(struct capture *c)
{
	const sp_time until = c->seconds > 0 ? sp_clock() + (sp_time)(c->seconds * (double)SP_SEC) : SP_NEVER;
	int r = capture_rings_begin(&c->rings);

	while (r >= 0) {
		const bool last = interrupted || c->link.dead || sp_clock() >= until;

		r = capture_rings_look(&c->rings, c->count);
		if (r < 0 || last || (c->count && c->rings.written >= c->count))
			break;
		if (!pause_for(c, r < BUSY ? PAUSE : 0))
			return -EPIPE;
		sp_attach_look(&c->link);
	}
	return r < 0 ? r : capture_rings_finish(&c->rings);
}

static bool open_output(struct capture *c)
{
	int fd;

	if (strcmp(c->file, "-")) {
		c->rings.to = fopen(c->file, "wbe");
		return c->rings.to;
	}
	/* Not stdout itself: a reader that has read enough is no error. */
	fd = dup(STDOUT_FILENO);
	c->rings.to = fd < 0 ? NULL : fdopen(fd, "wb");
	if (!c->rings.to && fd >= 0)
		close(fd);
	return c->rings.to;
}

static int write_all(struct capture *c)
{
	int r;

	if (!open_output(c))
		return fail(c, strerror(errno));
	fprintf(stderr, "spindle capture: capturing on %s\n", c->nic);
	r = run(c);
	errno = 0;
	if (fclose(c->rings.to) && !r)
		r = errno ? -errno : -EIO;
	fprintf(stderr, "spindle capture: %llu packets captured, %llu lost\n", (unsigned long long)c->rings.written,
		(unsigned long long)capture_rings_lost(&c->rings));
	if (r == -EPIPE)
		return 0;
	if (r == -EPROTO) {
		fprintf(stderr, "spindle capture: the NIC's memory makes no sense\n");
		return 1;
	}
	if (r)
		return fail(c, strerror(-r));
	if (c->link.dead) {
		fprintf(stderr, "spindle capture: the NIC has %s\n", c->link.dead == -ENODEV ? "gone" : "died");
		return 1;
	}
	return 0;
}

/* ---- the NIC ---- */

static const char *ask_error(int r)
{
	switch (r) {
	case -EPERM:
		return "only its own user and root may see everybody's packets";
	case -EPROTO:
		return "another version of spindle";
	case -ENODEV:
		return "does not answer";
	case -ECONNABORTED:
		return "has died";
	default:
		return strerror(-r);
	}
}

/* Asks for the capture, and maps its rings. */
static int ask(struct capture *c)
{
	struct sp_error error = {0};
	struct sp_attach_exchange x = {
		.op = SP_ATTACH_CAPTURE, .data = &c->request, .bytes = sizeof(c->request), .error = &error};
	void *memory = NULL;
	int r = sp_attach_exchange(&c->link, &x);

	if (r) {
		fprintf(stderr, "spindle capture: NIC %s: %s%s%s\n", c->nic, error.key, error.key[0] ? ": " : "",
			error.text[0] ? error.text : ask_error(r));
		return 1;
	}
	c->rings.bytes = x.arg[0];
	r = sp_attach_map(x.fd[0], c->rings.bytes, true, &memory);
	sp_attach_release(&x);
	c->rings.memory = memory;
	if (r || !capture_rings_sound(&c->rings)) {
		fprintf(stderr, "spindle capture: NIC %s: %s\n", c->nic, ask_error(r ? r : -EPROTO));
		return 1;
	}
	return 0;
}

static int capture(struct capture *c)
{
	const char *named = getenv("SPINDLE_NIC"), *wanted = c->nic;
	char why[400];
	int r = sp_attach_connect(&c->link, wanted);
	int status;

	c->nic = wanted ? wanted : named && *named ? named : "spindle0"; /* for what we say */
	if (r) {
		command_nic_error(wanted, r, why, sizeof(why));
		fprintf(stderr, "spindle capture: %s\n", why);
		return 1;
	}
	catch_signals();
	status = ask(c);
	if (!status)
		status = write_all(c);
	if (c->rings.memory)
		munmap((void *)(uintptr_t)c->rings.memory, c->rings.bytes);
	close(c->link.fd);
	return status;
}

/* ---- arguments ---- */

static bool parse_number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value >= 1 && *value <= max;
}

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return strspn(text, "0123456789.") == strlen(text) && end != text && !*end && *seconds > 0 && *seconds <= 1e6;
}

/* The words left over, as tcpdump takes them. */
static bool join_filter(struct capture *c, char **word)
{
	size_t used = 0;

	for (; *word; word++) {
		const int n = snprintf(c->request.filter + used, sizeof(c->request.filter) - used, "%s%s",
				       used ? " " : "", *word);

		if (n < 0 || (size_t)n >= sizeof(c->request.filter) - used)
			return false;
		used += (size_t)n;
	}
	return true;
}

/* 0; 1: usage was asked for; 2: wrong, and said so. */
static int parse(struct capture *c, int argc, char **argv)
{
	static const struct option options[] = {
		{"nic", required_argument, NULL, 'n'}, {"context", required_argument, NULL, 'x'},
		{"drops", no_argument, NULL, 'd'},     {"seconds", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},      {0}};
	const char *about, *what;
	uint64_t value;
	int opt;

	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":hn:s:c:w:", options, NULL)) != -1)
		switch (opt) {
		case 'n':
			c->nic = optarg;
			break;
		case 'x':
			if (!*optarg || strlen(optarg) >= sizeof(c->request.context))
				return command_bad_value("capture", "--context must be a context's name", optarg);
			strcpy(c->request.context, optarg);
			break;
		case 'd':
			c->request.flags |= SP_CAPTURE_DROPS;
			break;
		case 's':
			if (!parse_number(optarg, 65535, &value))
				return command_bad_value("capture", "-s must be 1 to 65535", optarg);
			c->request.snaplen = (uint32_t)value;
			break;
		case 'c':
			if (!parse_number(optarg, UINT64_MAX, &c->count))
				return command_bad_value("capture", "-c must be 1 or more", optarg);
			break;
		case 't':
			if (!parse_seconds(optarg, &c->seconds))
				return command_bad_value("capture", "--seconds must be more than 0 and at most 1000000",
							 optarg);
			break;
		case 'w':
			c->file = optarg;
			break;
		case 'h':
			return 1;
		default:
			what = command_bad_option(opt, argv, &about);
			return misuse(what, about);
		}
	if (!join_filter(c, argv + optind))
		return misuse("the filter is longer than 1023 bytes", "");
	if (!c->file)
		return misuse("-w FILE is missing", "");
	if (!strcmp(c->file, "-") && isatty(STDOUT_FILENO))
		return misuse("standard output is a terminal, and pcapng is nothing to read: -w FILE, or | tshark -r -",
			      "");
	return 0;
}

int command_capture(int argc, char **argv)
{
	static struct capture c;
	int status;

	memset(&c, 0, sizeof(c));
	status = parse(&c, argc, argv);
	if (status == 1) {
		fputs(usage, stdout);
		return 0;
	}
	return status ? status : capture(&c);
}
