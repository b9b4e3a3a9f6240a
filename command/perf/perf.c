/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle perf: what iperf3 does for TCP, for messages between the NICs of two hosts. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../command.h"
#include "../interrupt.h"
#include "../nic_error.h"
#include "../output.h"
#include "../transfer/door.h"
#include "show.h"

#define AT(field) OPTION_AT(struct asked, field)

struct asked {
	const char *nic;
	char host[256], port[16];
	struct perf_plan plan;
	uint64_t time, bytes, interval; /* ps; 0: not given; ps */
	bool server, json, reverse, bidir, latency, once;
};

static const struct usage usage = {
	.command = "perf",
	.forms = "spindle perf server [OPTIONS]\nspindle perf client HOST[:PORT] [OPTIONS]",
	.about = "Throughput and latency between two NICs that `spindle run` runs, with iperf3's habits. The two "
		 "programs "
		 "talk over TCP (port " PERF_PORT "); what is measured goes from NIC to NIC, and arrives.",
	.end = "Exit status: 0 done, 1 failed or something is missing, 2 wrong usage.",
	.arguments = 2,
};

static int take_listen(void *to, const char *text)
{
	struct asked *a = to;

	return talk_split(text, true, PERF_PORT, a->host, a->port) ? -EINVAL : 0;
}

static const struct option_row rows[] = {
	{"json", 0, OPTION_FLAG, NULL, "print the outcome as a line of JSON, and no intervals", AT(json)},
	{"interval", 'i', OPTION_TIME, "TIME", "of the lines meanwhile (1s)", AT(interval), .least = 10 * SP_MS,
	 .most = 3600 * SP_SEC},
	{0},
};
static const struct option_row server_rows[] = {
	{"listen", 'l', OPTION_CALL, "[ADDR:]PORT", "listen there (TCP port " PERF_PORT " of all addresses; 0: any)",
	 .take = take_listen, .wants = "PORT or ADDR:PORT", .modes = 1},
	{"once", 0, OPTION_FLAG, NULL, "end after one client", AT(once), .modes = 1},
	{0},
};
static const struct option_row client_rows[] = {
	{"op", 0, OPTION_WORD, "OP", "sdr (reliable messages), rvma (puts) or rdma (SEND, RC) (sdr)", AT(plan.op),
	 .words = perf_op_names, .modes = 2},
	{"time", 't', OPTION_TIME, "TIME", "send so long (10s)", AT(time), .least = SP_MS, .most = 3600 * SP_SEC,
	 .modes = 2},
	{"bytes", 'b', OPTION_SIZE, "BYTES", "send so many, rounded up to messages, and not for a time", AT(bytes),
	 .least = 1, .most = 1ull << 44, .modes = 2},
	{"size", 's', OPTION_SIZE, "BYTES", "of a message (64K; with --latency: 64)", AT(plan.size), .least = 1,
	 .most = PERF_SIZE_MOST, .modes = 2},
	{"depth", 0, OPTION_NUMBER, "N", "messages in flight (16)", AT(plan.depth), .least = 1, .most = PERF_DEPTH_MOST,
	 .modes = 2},
	{"reverse", 'R', OPTION_FLAG, NULL, "the server sends, the client receives", AT(reverse), .modes = 2},
	{"bidir", 0, OPTION_FLAG, NULL, "both send", AT(bidir), .modes = 2},
	{"latency", 0, OPTION_FLAG, NULL, "one message there and back after the other: round trips, not throughput",
	 AT(latency), .modes = 2},
	{0},
};

static int client_plan(struct asked *a, const struct options *o)
{
	struct perf_plan *p = &a->plan;
	uint64_t messages;

	if (a->reverse + a->bidir + a->latency > 1)
		return options_misuse(&usage, "only one of --reverse, --bidir and --latency");
	if (a->bytes && a->time)
		return options_misuse(&usage, "--time or --bytes, not both");
	p->way = a->latency ? PERF_LATENCY : a->bidir ? PERF_BOTH : a->reverse ? PERF_DOWN : PERF_UP;
	if (!options_has(o, "size"))
		p->size = a->latency ? 64 : 65536;
	messages = a->bytes ? (a->bytes - 1) / p->size + 1 : 0;
	if (messages > UINT32_MAX)
		return options_misuse(&usage, "--bytes is more than 2^32 messages of --size");
	p->messages = messages;
	p->time = messages ? 0 : (a->time ? a->time : 10 * SP_SEC) / SP_NS;
	return OPTIONS_GO_ON;
}

static int arguments(struct asked *a, int argc, char **argv)
{
	struct options o = {&usage,
			    {{NULL, nic_rows, &a->nic, NULL},
			     {NULL, rows, a, NULL},
			     {"server:", server_rows, a, NULL},
			     {"client:", client_rows, a, NULL}}};
	const int status = options_parse(&o, argc, argv);
	const struct option_row *foreign;

	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage, "server or client?");
	if (strcmp(o.argument[0], "server") && strcmp(o.argument[0], "client"))
		return options_misuse(&usage, "server or client, not %s", o.argument[0]);
	a->server = !strcmp(o.argument[0], "server");
	foreign = options_foreign(&o, a->server ? 1 : 2);
	if (foreign)
		return options_misuse(&usage, "a %s takes no %s", o.argument[0], option_name(foreign));
	if (a->server && o.arguments > 1)
		return options_misuse(&usage, "extra argument %s", o.argument[1]);
	if (a->server)
		return OPTIONS_GO_ON;
	if (o.arguments < 2)
		return options_misuse(&usage, "a HOST is needed");
	if (talk_split(o.argument[1], false, PERF_PORT, a->host, a->port))
		return options_misuse(&usage, "no HOST or HOST:PORT: %s", o.argument[1]);
	return client_plan(a, &o);
}

struct shown {
	const struct asked *asked;
	const struct perf_plan *plan;
};

static void show_row(void *arg, const struct perf_row *row)
{
	const struct shown *s = arg;

	if (!s->asked->json)
		perf_show_row(s->plan, row);
}

/* The ends are connected. 0, or 1 after a message. */
static int measure(const struct asked *a, struct perf_session *s, int rc)
{
	struct shown shown = {a, &s->plan};
	struct perf_measured m = {.rows = 0};

	rc = rc ? rc : perf_measure(s, a->interval / SP_NS, show_row, &shown, &m);
	if (!rc && a->json)
		rc = perf_show_json(&s->plan, &m) ? perf_fail(s, "out of memory") : 0;
	else if (!rc)
		perf_show(&s->plan, &m);
	fflush(stdout);
	perf_forget(&m);
	perf_part(s);
	return rc ? command_fail("perf", "%s", s->error) : 0;
}

static int client(const struct asked *a)
{
	static struct perf_session s;

	s.nic = a->nic;
	s.plan = a->plan;
	return measure(a, &s, perf_call(&s, a->host, a->port));
}

static int serve(const struct asked *a, int listener)
{
	static struct perf_session s;
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int fd = -1, status;

	while (!interrupt_came() && fd < 0)
		if (poll(&p, 1, 200) > 0)
			fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return 0;
	memset(&s, 0, sizeof(s));
	s.nic = a->nic;
	status = measure(a, &s, perf_answer(&s, fd, "the client"));
	return status;
}

static int server(const struct asked *a)
{
	static struct door door;
	struct sp_dev *dev;
	const char *why;
	int rc = sp_attach(a->nic, &dev), status;

	if (rc) /* now, and not when a client has come */
		return command_nic_fail("perf", a->nic, rc);
	sp_dev_close(dev);
	rc = door_open(&door, a->host, a->port, &why);
	if (rc)
		return command_fail("perf", "listening on port %s: %s", a->port, why ? why : strerror(-rc));
	if (a->json)
		output_json(json_pack("{s:s}", "listening", door.where), JSON_COMPACT);
	else
		printf("listening: %s\n", door.where);
	fflush(stdout);
	do
		status = serve(a, door.fd);
	while (!a->once && !interrupt_came());
	door_close(&door);
	return a->once ? status : 0;
}

int command_perf(int argc, char **argv)
{
	struct asked a = {.port = PERF_PORT, .interval = SP_SEC, .plan = {.depth = 16}};
	const int status = arguments(&a, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (interrupt_note())
		return command_fail("perf", "%s", strerror(errno));
	return a.server ? server(&a) : client(&a);
}
