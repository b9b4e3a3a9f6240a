/* SPDX-License-Identifier: BSD-3-Clause */
#include "../../pipeline/value.h"
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../link_options.h"
#include "../output.h"

#define REORDER	  (100 * SP_US) /* default of --reorder-delay */
#define LONGEST	  (3600 * SP_SEC)
#define AT(field) OPTION_AT(struct replay, field)

enum { NIC = 1, PORT = 2 }; /* modes of options */

static const struct usage usage = {
	.command = "replay",
	.forms = "spindle replay -c nic.ini [OPTIONS] IN.pcap...\n"
		 "spindle replay --port DEVICE [--wait T] [OPTIONS] IN.pcap",
	.about = "Runs a capture (pcap or pcapng, Ethernet) through a NIC in virtual time, each packet at its own time "
		 "stamp; several captures, each by a port of its own; "
		 "or sends it by a real port in real time.",
	.end = "By default --reorder-delay is 100us.\n"
	       "Exit status: 0 as expected, 1 an error (a truncated capture is replayed up to the cut), 2 wrong usage, "
	       "3 not "
	       "as expected.",
	.arguments = SP_MAX_PORTS,
};

/* ---- values ---- */

/* The buffer of the context that CONTEXT=... names; NULL: this is no such text, or there are too many contexts. */
static struct replay_buffer *buffer_of(struct replay *r, const char *text, const char **value)
{
	const char *equals = strchr(text, '=');
	const size_t len = equals ? (size_t)(equals - text) : 0;

	if (!len)
		return NULL;
	*value = equals + 1;
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].len == len && !memcmp(r->buffer[i].context, text, len))
			return &r->buffer[i];
	if (r->buffers == REPLAY_BUFFERS)
		return NULL;
	r->buffer[r->buffers] = (struct replay_buffer){.context = text, .len = len, .fd = -1};
	return &r->buffer[r->buffers++];
}

static int take_post(void *to, const char *text)
{
	const char *value;
	struct replay_buffer *b = buffer_of(to, text, &value);
	uint64_t count;

	if (!b || sp_parse_uint(value, &count) || !count)
		return -EINVAL;
	if (b->count)
		return options_misuse(&usage, "--post was given twice: %s", text);
	b->count = count;
	return 0;
}

static int take_file(struct replay *r, const char *text, size_t field, const char *option)
{
	const char *value, **file;
	struct replay_buffer *b = buffer_of(r, text, &value);

	if (!b || !*value)
		return -EINVAL;
	file = (const char **)((char *)b + field);
	if (*file)
		return options_misuse(&usage, "%s was given twice: %s", option, text);
	*file = value;
	return 0;
}

static int take_dump(void *to, const char *text)
{
	return take_file(to, text, offsetof(struct replay_buffer, dump), "--dump");
}

static int take_expect_memory(void *to, const char *text)
{
	return take_file(to, text, offsetof(struct replay_buffer, expect), "--expect-memory");
}

static int take_expect(void *to, const char *text)
{
	struct replay *r = to;
	const size_t digits = strspn(text, "0123456789");
	uint64_t port;

	if (!*text)
		return -EINVAL;
	if (!digits || text[digits] != '=') {
		r->expect_file = text;
		return 0;
	}
	if (!text[digits + 1])
		return -EINVAL;
	port = strtoull(text, NULL, 10);
	if (port >= SP_MAX_PORTS)
		return options_misuse(&usage, "--expect %s: a NIC has at most %d ports, 0 to %d", text, SP_MAX_PORTS,
				      SP_MAX_PORTS - 1);
	if (r->expect_port[port])
		return options_misuse(&usage, "--expect was given twice for port %u: %s", (unsigned)port, text);
	r->expect_port[port] = text + digits + 1;
	return 0;
}

static int take_plugin(void *to, const char *text)
{
	struct replay *r = to;

	if (r->plugins == REPLAY_PLUGINS)
		return options_misuse(&usage, "too many --plugin: %s", text);
	r->plugin_file[r->plugins++] = text;
	return 0;
}

static int take_cost(void *to, const char *text)
{
	struct replay *r = to;
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || !equals[1])
		return -EINVAL;
	if (r->costs == REPLAY_COSTS)
		return options_misuse(&usage, "too many --cost: %s", text);
	r->cost[r->costs++] = text;
	return 0;
}

static int take_rate(void *to, const char *text)
{
	struct replay *r = to;
	const size_t len = strlen(text);
	const bool packets = len > 3 && !strcmp(text + len - 3, "pps");
	char number[32] = "";
	uint64_t rate = 0;

	if (len < sizeof(number))
		snprintf(number, sizeof(number), "%.*s", (int)(packets ? len - 3 : len), text);
	if (sp_parse_rate(number, &rate) || !rate || rate > SP_CAPTURE_MAX_RATE)
		return -EINVAL;
	r->pace.bits = packets ? 0 : rate;
	r->pace.packets = packets ? rate : 0;
	return 0;
}

static int take_tolerate(void *to, const char *text)
{
	struct replay *r = to;
	struct sp_error error = {.key = ""};

	r->tolerated = true;
	if (!sp_tolerance_parse(text, &r->tolerance, &error))
		return 0;
	command_fail("replay", "--tolerate: %s", error.text);
	return 2;
}

static int take_trace(void *to, const char *text)
{
	struct replay *r = to;

	r->trace_asked = true;
	r->trace_file = text && strcmp(text, "-") ? text : NULL;
	return 0;
}

/* ---- the options ---- */

static const struct option_row nic_rows[] = {
	{"config", 'c', OPTION_STRING, "FILE", "configuration of the NIC and its contexts", AT(config_file),
	 .modes = NIC},
	{"ports", 0, OPTION_NUMBER, "N", "the NIC has so many ports (one for each capture)", AT(ports_asked),
	 .least = 1, .most = SP_MAX_PORTS, .modes = NIC},
	{"plugin", 0, OPTION_CALL, "FILE", "load handlers from a shared object first (may repeat)", .take = take_plugin,
	 .modes = NIC},
	{"post", 0, OPTION_CALL, "CONTEXT=COUNT",
	 "post COUNT receives of the maximum size first, one after the other in a zeroed buffer", .take = take_post,
	 .wants = "CONTEXT=COUNT", .modes = NIC},
	{"call-limit", 0, OPTION_TIME, "T", "processor time that one call of a handler may take (2s)", AT(call_limit),
	 .least = SP_MS, .most = LONGEST, .modes = NIC},
	{0},
};

static const struct option_row device_rows[] = {
	{"device", 0, OPTION_STRING, "NAME", "estimate what the handlers would cost on this device (spindle device)",
	 AT(device_name), .modes = NIC},
	{"cost", 0, OPTION_CALL, "HANDLER=CYCLES",
	 "what a call costs there, instead of what is measured; HANDLER.FUNCTION=1163+756/word (may repeat)",
	 .take = take_cost, .wants = "HANDLER=CYCLES or HANDLER.FUNCTION=CYCLES", .modes = NIC},
	{0},
};

static const struct option_row capture_rows[] = {
	{"loop", 0, OPTION_NUMBER, "N", "go through the capture N times", AT(pace.passes), .least = 1},
	{"rate", 0, OPTION_CALL, "R", "at R bit/s, or N packets per second (1Mpps), instead of the time stamps",
	 .take = take_rate, .wants = "bits per second (10G) or packets per second (1Mpps), 1 to 1000T"},
	{0},
};

static const struct option_row port_rows[] = {
	{"port", 0, OPTION_STRING, "DEVICE", "as in nic.ini: af_packet:eth1", AT(device)},
	{"wait", 0, OPTION_TIME, "T", "wait so long for packets after the last one was sent (100ms)", AT(wait),
	 .most = LONGEST, .modes = PORT},
	{0},
};

static const struct option_row output_rows[] = {
	{"write", 'w', OPTION_STRING, "FILE",
	 "write what the NIC sent, or the port received (pcap, nanoseconds; of several ports: pcapng)", AT(sent_file)},
	{"dump", 0, OPTION_CALL, "CONTEXT=FILE",
	 "write that context's buffer (--post), or the area that it shares with the host", .take = take_dump,
	 .wants = "CONTEXT=FILE", .modes = NIC},
	{"trace", 0, OPTION_CALL, "[=FILE]",
	 "what became of each packet, and each call of a handler; with --json one object a line", .take = take_trace,
	 .modes = NIC},
	{"json", 0, OPTION_FLAG, NULL, "the whole report, as JSON", AT(json)},
	{0},
};

static const struct option_row expect_rows[] = {
	{"expect", 0, OPTION_CALL, "FILE", "a capture: what -w must write; 1=FILE: what port 1 must send",
	 .take = take_expect, .wants = "FILE or PORT=FILE"},
	{"tolerate", 0, OPTION_CALL, "LIST", "what may differ from it: time, time=T, psn-start, or names of fields",
	 .take = take_tolerate},
	{"expect-json", 0, OPTION_STRING, "FILE", "what the report must contain; it may contain more", AT(expect_json)},
	{"expect-memory", 0, OPTION_CALL, "CONTEXT=FILE", "what --dump must write", .take = take_expect_memory,
	 .wants = "CONTEXT=FILE", .modes = NIC},
	{0},
};

/* Rejects options that exclude each other. */
static int check(struct replay *r, const struct options *o, const struct link_options *link)
{
	const struct option_row *foreign =
		r->device && link->given ? link->given : options_foreign(o, r->device ? PORT : NIC);
	const char *wrong = link_options_end(&r->link_config);

	if (wrong)
		return options_misuse(&usage, "%s", wrong);
	if (r->device && foreign)
		return options_misuse(&usage, "%s is for the simulated NIC, and --port %s uses a real one",
				      option_name(foreign), r->device);
	if (foreign)
		return options_misuse(&usage, "%s needs --port", option_name(foreign));
	if (!r->device && !r->config_file)
		return options_misuse(&usage, "a configuration is needed: -c nic.ini");
	for (unsigned i = 0; i < SP_MAX_PORTS; i++)
		if (r->expect_port[i] && r->expect_file)
			return options_misuse(&usage,
					      "--expect %s is for all ports, and --expect %u=%s for one: not both",
					      r->expect_file, i, r->expect_port[i]);
		else if (r->expect_port[i] && i && r->device)
			return options_misuse(&usage, "--expect %u=%s: --port %s is the only port, 0", i,
					      r->expect_port[i], r->device);
	if (r->tolerated && !replay_expects_packets(r))
		return options_misuse(&usage, "--tolerate needs --expect");
	if (r->costs && !r->device_name)
		return options_misuse(&usage, "--cost needs --device");
	if (!o->arguments)
		return options_misuse(&usage, "a capture is needed");
	if (r->device && o->arguments > 1)
		return options_misuse(&usage, "--port %s sends one capture; extra argument %s", r->device,
				      o->argument[1]);
	if (r->ports_asked && (unsigned)o->arguments > r->ports_asked)
		return options_misuse(&usage, "--ports %u, and %d captures", r->ports_asked, o->arguments);
	return OPTIONS_GO_ON;
}

int replay_arguments(struct replay *r, int argc, char **argv)
{
	struct link_options link = {.way = LINK_BOTH, .config = &r->link_config};
	struct options o = {&usage,
			    {{"The NIC:", nic_rows, r, NULL},
			     {"The packets:", capture_rows, r, NULL},
			     {"A link in front of the NIC:", link_rows, &link, link_options_taken},
			     {"A device to estimate:", device_rows, r, NULL},
			     {"A real port instead:", port_rows, r, NULL},
			     {"Output:", output_rows, r, NULL},
			     {"Expected results:", expect_rows, r, NULL}}};
	int status;

	r->link_config.seed = LINK_SEED;
	for (unsigned e = 0; e < 2; e++)
		r->link_config.direction[e].reorder_delay = REORDER;
	r->wait = 100 * SP_MS;
	status = options_parse(&o, argc, argv);
	if (status == OPTIONS_GO_ON)
		status = check(r, &o, &link);
	if (status != OPTIONS_GO_ON)
		return status;
	r->linked = link.given;
	for (int i = 0; i < o.arguments; i++)
		r->capture_file[r->captures++] = o.argument[i];
	return OPTIONS_GO_ON;
}
