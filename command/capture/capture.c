/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle capture: records the packets of a running NIC, and what became of them, as pcapng; or prints a line each. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../host-api/attach.h"
#include "../command.h"
#include "../nic_error.h"
#include "rings.h"
#include "../output.h"

#define PAUSE 2	   /* ms between two looks at the rings: they must not overflow */
#define BUSY  1024 /* after a look with so many packets, the next look comes without a pause */

struct capture {
	const char *nic, *file, *context; /* file NULL: lines of text on standard output */
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

/* The second signal ends the program at once: a reader that does not read may block write(). */
static void catch_signals(void)
{
	const struct sigaction end = {.sa_handler = interrupt, .sa_flags = SA_RESTART | (int)SA_RESETHAND};

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int fail(const struct capture *c, const char *what)
{
	return command_fail("capture", "%s: %s", c->file ? c->file : "standard output", what);
}

/* ---- capturing ---- */

/* Sleeps, but not if the NIC or the reader of our output goes. False: the reader has gone. */
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

	if (c->file && strcmp(c->file, "-")) {
		c->rings.to = fopen(c->file, "wbe");
		return c->rings.to;
	}
	/* Not stdout itself: it is no error if the reader has read enough. */
	fd = dup(STDOUT_FILENO);
	c->rings.to = fd < 0 ? NULL : fdopen(fd, "wb");
	if (!c->rings.to && fd >= 0)
		close(fd);
	c->rings.lines = !c->file;
	if (c->rings.to && c->rings.lines)
		setvbuf(c->rings.to, NULL, _IOLBF, 0);
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
	if (r == -EPROTO)
		return command_fail("capture", "the NIC's rings are corrupt");
	if (r)
		return fail(c, strerror(-r));
	if (c->link.dead)
		return command_fail("capture", "the NIC has %s", c->link.dead == -ENODEV ? "gone" : "died");
	return 0;
}

/* ---- the NIC ---- */

static const char *ask_error(int r)
{
	switch (r) {
	case -EPERM:
		return "only the NIC's own user and root may see all packets";
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

/* Requests the capture, and maps its rings. */
static int ask(struct capture *c)
{
	struct sp_error error = {0};
	struct sp_attach_exchange x = {
		.op = SP_ATTACH_CAPTURE, .data = &c->request, .bytes = sizeof(c->request), .error = &error};
	void *memory = NULL;
	int r = sp_attach_exchange_memory(&c->link, &x, &memory, &c->rings.bytes);

	if (r)
		return command_fail("capture", "NIC %s: %s%s%s", c->nic, error.key, error.key[0] ? ": " : "",
				    error.text[0] ? error.text : ask_error(r));
	sp_attach_release(&x);
	c->rings.memory = memory;
	if (!capture_rings_sound(&c->rings))
		return command_fail("capture", "NIC %s: %s", c->nic, ask_error(-EPROTO));
	return 0;
}

static int capture(struct capture *c)
{
	const char *wanted = c->nic;
	int r = sp_attach_connect(&c->link, wanted);
	int status;

	c->nic = command_nic_name(wanted); /* for messages */
	if (r)
		return command_nic_fail("capture", wanted, r);
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

static const struct usage usage = {
	.command = "capture",
	.forms = "spindle capture [-n NAME] [--context CONTEXT] [--drops] [-s SNAPLEN] [-c COUNT] [--seconds N]\n"
		 "                [FILTER] [-w FILE|-]",
	.about = "Shows or records the packets that a running NIC receives and sends, and what becomes of them: a line "
		 "each, or with -w as pcapng. FILTER is a tcpdump expression (see pcap-filter(7)).",
	.end = "Exit status: 0 ended in order, 1 no such NIC, it refused or has gone, or FILE fails, 2 wrong usage.",
	.arguments = INT_MAX,
};

#define AT(field) OPTION_AT(struct capture, field)

static const struct option_row rows[] = {
	{"context", 0, OPTION_STRING, "CONTEXT", "only what this context has taken, dropped, forwarded or sent",
	 AT(context), .least = 1, .most = sizeof(((struct capture *)0)->request.context) - 1,
	 .wants = "a context's name"},
	{"drops", 0, OPTION_FLAG, NULL, "only dropped packets", AT(request.flags), .least = SP_CAPTURE_DROPS},
	{NULL, 's', OPTION_NUMBER, "SNAPLEN", "bytes of each frame to keep (as many as the NIC's MTU allows)",
	 AT(request.snaplen), .least = 1, .most = 65535},
	{NULL, 'c', OPTION_NUMBER, "COUNT", "end after that many packets", AT(count), .least = 1},
	{"seconds", 0, OPTION_REAL, "N", "end after that time", AT(seconds), .high = 1e6, .open = OPTION_ABOVE},
	{NULL, 'w', OPTION_STRING, "FILE",
	 "write pcapng to FILE, and print no lines; -: to standard output, as for '| tshark -r -'", AT(file)},
	{0},
};

/* Joins the remaining arguments, as tcpdump does. */
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

static int arguments(struct capture *c, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, nic_rows, &c->nic, NULL}, {NULL, rows, c, NULL}}};
	const int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (c->context)
		strcpy(c->request.context, c->context);
	if (!join_filter(c, o.argument))
		return options_misuse(&usage, "the filter is longer than 1023 bytes");
	if (c->file && !strcmp(c->file, "-") && isatty(STDOUT_FILENO))
		return options_misuse(&usage,
				      "standard output is a terminal, and pcapng is binary: -w FILE, or | tshark -r -");
	return OPTIONS_GO_ON;
}

int command_capture(int argc, char **argv)
{
	static struct capture c;
	int status;

	memset(&c, 0, sizeof(c));
	status = arguments(&c, argc, argv);
	return status == OPTIONS_GO_ON ? capture(&c) : status;
}
