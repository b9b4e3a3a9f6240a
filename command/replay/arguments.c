/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked for: one row of a table per option. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../command.h"
#include "../link_options.h"
#include "state.h"

#define MOST_OPTIONS 64

static const char usage[] =
	"usage: spindle replay -c nic.ini [OPTIONS] IN.pcap\n"
	"       spindle replay --port DEVICE [--wait T] [OPTIONS] IN.pcap\n"
	"\n"
	"Runs a capture (pcap or pcapng, Ethernet) through a NIC in virtual time, each packet at its own time stamp;\n"
	"or sends it by a real port in real time.\n"
	"\n"
	"The NIC:\n"
	"  -c FILE                configuration of the NIC and its contexts\n"
	"  --plugin FILE          load handlers from a shared object first (may repeat)\n"
	"  --post CONTEXT=COUNT   post COUNT receives of the maximum size first, one after the other in a zeroed "
	"buffer\n"
	"  --call-limit T         processor time that one call of a handler may take (2s)\n"
	"What comes to it:\n"
	"  --loop N               go through the capture N times\n"
	"  --rate R               at R bit/s, or N packets a second (1Mpps), instead of the time stamps\n"
	"  --loss P, --duplicate P, --reorder P, --corrupt P\n"
	"                         probability that a packet is lost, arrives twice, arrives late, has a bit inverted\n"
	"  --burst LENGTH         losses come in bursts of LENGTH packets on average\n"
	"  --reorder-delay T      how late (100us)\n"
	"  --delay T, --bandwidth R\n"
	"                         of the link, one way; bit/s\n"
	"  --distance KM          instead of --delay: 300,000 km take a second\n"
	"  --jitter T             up to so much more delay, for each packet anew: packets overtake each other\n"
	"  --seed N               the same seed loses the same packets (1)\n"
	"A real port instead:\n"
	"  --port DEVICE          as in nic.ini: af_packet:eth1\n"
	"  --wait T               for what still comes after the last packet (100ms)\n"
	"What is shown:\n"
	"  -w FILE                write what the NIC sent, or what came by the port (pcap, nanoseconds)\n"
	"  --dump CONTEXT=FILE    write that context's buffer (--post), or the area that it shares with the host\n"
	"  --trace[=FILE]         what became of each packet, and each handler's call; with --json one object a line\n"
	"  --json                 the whole report, as JSON\n"
	"What is expected:\n"
	"  --expect FILE          a capture of what -w would write\n"
	"  --tolerate LIST        what may differ from it: time, time=T, psn-start, or names of fields\n"
	"  --expect-json FILE     what the report must say; it may say more\n"
	"  --expect-memory CONTEXT=FILE\n"
	"                         what --dump would write\n"
	"Exit status: 0 as expected, 1 something is wrong (a capture cut off is replayed up to the cut), 2 wrong "
	"usage, "
	"3 not as\n"
	"expected.\n";

static int misuse(const char *what, const char *about)
{
	const int synopsis = (int)(strstr(usage, "\n\n") - usage);

	fprintf(stderr, "spindle replay: %s%s\n%.*s\n'spindle help replay' tells more.\n", what, about, synopsis,
		usage);
	return 2;
}

static int bad(const char *wants, const char *value)
{
	return command_bad_value("replay", wants, value);
}

/* ---- values; 0, or the exit status when it has been said what is wrong ---- */

static struct replay_buffer *buffer_of(struct replay *r, const char *context, size_t len)
{
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].len == len && !memcmp(r->buffer[i].context, context, len))
			return &r->buffer[i];
	if (r->buffers == REPLAY_BUFFERS)
		return NULL;
	r->buffer[r->buffers] = (struct replay_buffer){.context = context, .len = len, .fd = -1};
	return &r->buffer[r->buffers++];
}

static int take_post(struct replay *r, const char *text)
{
	const char *equals = strchr(text, '=');
	struct replay_buffer *b;
	uint64_t count;

	if (!equals || equals == text || sp_parse_uint(equals + 1, &count) || !count)
		return bad("--post takes CONTEXT=COUNT", text);
	b = buffer_of(r, text, (size_t)(equals - text));
	if (!b || b->count)
		return misuse(b ? "--post was given twice: " : "too many --post: ", text);
	b->count = count;
	return 0;
}

/* CONTEXT=FILE into one of the two fields. */
static int take_file(struct replay *r, const char *text, size_t field, const char *wants, const char *option)
{
	const char *equals = strchr(text, '=');
	struct replay_buffer *b;
	const char **to;
	char what[64];

	if (!equals || equals == text || !equals[1])
		return bad(wants, text);
	b = buffer_of(r, text, (size_t)(equals - text));
	to = b ? (const char **)((char *)b + field) : NULL;
	if (!to || *to) {
		snprintf(what, sizeof(what), b ? "%s was given twice: " : "too many %s: ", option);
		return misuse(what, text);
	}
	*to = equals + 1;
	return 0;
}

static int take_dump(struct replay *r, const char *text)
{
	return take_file(r, text, offsetof(struct replay_buffer, dump), "--dump takes CONTEXT=FILE", "--dump");
}

static int take_expect_memory(struct replay *r, const char *text)
{
	return take_file(r, text, offsetof(struct replay_buffer, expect), "--expect-memory takes CONTEXT=FILE",
			 "--expect-memory");
}

static int take_plugin(struct replay *r, const char *text)
{
	if (r->plugins == REPLAY_PLUGINS)
		return misuse("too many --plugin: ", text);
	r->plugin_file[r->plugins++] = text;
	return 0;
}

static int take_call_limit(struct replay *r, const char *text)
{
	sp_time limit;

	if (sp_parse_time(text, &limit) || limit < SP_MS || limit > 3600 * SP_SEC)
		return bad("--call-limit must be 1ms to 3600s", text);
	r->call_limit_ms = limit / SP_MS;
	return 0;
}

static int take_wait(struct replay *r, const char *text)
{
	return sp_parse_time(text, &r->wait) || r->wait > 3600 * SP_SEC ? bad("--wait must be 0 to 3600s", text) : 0;
}

static int take_loop(struct replay *r, const char *text)
{
	return sp_parse_uint(text, &r->pace.passes) || !r->pace.passes ? bad("--loop must be 1 or more", text) : 0;
}

static int take_rate(struct replay *r, const char *text)
{
	const size_t len = strlen(text);
	const bool packets = len > 3 && !strcmp(text + len - 3, "pps");
	char number[32] = "";
	uint64_t rate = 0;

	if (len < sizeof(number))
		snprintf(number, sizeof(number), "%.*s", (int)(packets ? len - 3 : len), text);
	if (sp_parse_rate(number, &rate) || !rate || rate > SP_CAPTURE_MAX_RATE)
		return bad("--rate must be bits per second (10G) or packets per second (1Mpps), 1 to 1000T", text);
	r->pace.bits = packets ? 0 : rate;
	r->pace.packets = packets ? rate : 0;
	return 0;
}

static int take_tolerate(struct replay *r, const char *text)
{
	struct sp_error error = {.key = ""};

	r->tolerated = true;
	if (!sp_tolerance_parse(text, &r->tolerance, &error))
		return 0;
	fprintf(stderr, "spindle replay: --tolerate: %s\n", error.text);
	return 2;
}

static int take_trace(struct replay *r, const char *text)
{
	r->trace_asked = true;
	r->trace_file = text && strcmp(text, "-") ? text : NULL;
	return 0;
}

static int take_json(struct replay *r, const char *text)
{
	(void)text;
	r->json = true;
	return 0;
}

/* ---- the options ---- */

static const struct choice {
	const char *name;
	int letter;				    /* or 0 */
	int argument;				    /* getopt's */
	int (*take)(struct replay *, const char *); /* or NULL: */
	size_t text;				    /* where a string goes */
	enum { ANY, NIC_ONLY, PORT_ONLY } use;
} choices[] = {
	{"config", 'c', required_argument, NULL, offsetof(struct replay, config_file), NIC_ONLY},
	{"plugin", 0, required_argument, take_plugin, 0, NIC_ONLY},
	{"post", 0, required_argument, take_post, 0, NIC_ONLY},
	{"call-limit", 0, required_argument, take_call_limit, 0, NIC_ONLY},
	{"loop", 0, required_argument, take_loop, 0, ANY},
	{"rate", 0, required_argument, take_rate, 0, ANY},
	{"port", 0, required_argument, NULL, offsetof(struct replay, device), ANY},
	{"wait", 0, required_argument, take_wait, 0, PORT_ONLY},
	{"write", 'w', required_argument, NULL, offsetof(struct replay, sent_file), ANY},
	{"dump", 0, required_argument, take_dump, 0, NIC_ONLY},
	{"trace", 0, optional_argument, take_trace, 0, NIC_ONLY},
	{"json", 0, no_argument, take_json, 0, ANY},
	{"expect", 0, required_argument, NULL, offsetof(struct replay, expect_file), ANY},
	{"tolerate", 0, required_argument, take_tolerate, 0, ANY},
	{"expect-json", 0, required_argument, NULL, offsetof(struct replay, expect_json), ANY},
	{"expect-memory", 0, required_argument, take_expect_memory, 0, NIC_ONLY},
};
#define CHOICES (sizeof(choices) / sizeof(*choices))
#define FIRST	256 /* getopt's number of the first row; then come the link's */
_Static_assert(CHOICES + 1 < MOST_OPTIONS, "room for the link's and the end");

struct seen {
	const char *nic, *port; /* one that asks for the one, or the other */
};

static int take(struct replay *r, int row, const char *value, struct seen *seen)
{
	if (row >= (int)CHOICES) {
		const struct link_option *o = &link_options[row - (int)CHOICES];

		r->linked = true;
		seen->nic = o->name;
		return link_option_take(o, value, &r->link_config) ? 0 : bad(o->wants, value);
	}
	if (choices[row].use == NIC_ONLY)
		seen->nic = choices[row].name;
	if (choices[row].use == PORT_ONLY)
		seen->port = choices[row].name;
	if (choices[row].take)
		return choices[row].take(r, value);
	*(const char **)((char *)r + choices[row].text) = value;
	return 0;
}

static int row_of(int option)
{
	if (option >= FIRST)
		return option - FIRST;
	for (size_t i = 0; i < CHOICES; i++)
		if (choices[i].letter == option)
			return (int)i;
	return -1;
}

/* What does not go together; 0 or the exit status. */
static int check(struct replay *r, const struct seen *seen)
{
	const char *wrong = link_options_end(&r->link_config);
	char text[128];

	if (wrong)
		return misuse(wrong, "");
	if (r->device && seen->nic) {
		snprintf(text, sizeof(text),
			 "--%s is the NIC's, and with --port there is none but the real one: ", seen->nic);
		return misuse(text, r->device);
	}
	if (!r->device && seen->port) {
		snprintf(text, sizeof(text), "--%s goes with --port only", seen->port);
		return misuse(text, "");
	}
	if (!r->device && !r->config_file)
		return misuse("a configuration is needed: -c nic.ini", "");
	if (r->tolerated && !r->expect_file)
		return misuse("--tolerate goes with --expect only", "");
	return 0;
}

int replay_arguments(struct replay *r, int argc, char **argv)
{
	struct option options[MOST_OPTIONS] = {0};
	struct seen seen = {NULL, NULL};
	const char *about, *what;
	int option, n = 0, wrong = 0;

	for (size_t i = 0; i < CHOICES; i++)
		options[n] = (struct option){choices[i].name, choices[i].argument, NULL, FIRST + n}, n++;
	for (const struct link_option *o = link_options; o->name && n < MOST_OPTIONS - 2; o++)
		options[n] = (struct option){o->name, required_argument, NULL, FIRST + n}, n++;
	options[n] = (struct option){"help", no_argument, NULL, 'h'};
	r->link_config.seed = LINK_SEED;
	for (unsigned e = 0; e < 2; e++)
		r->link_config.direction[e].reorder_delay = REPLAY_REORDER;
	r->wait = REPLAY_WAIT;

	optind = 0; /* GNU: start anew; argv[0] is the subcommand */
	opterr = 0;
	while (!wrong && (option = getopt_long(argc, argv, ":c:w:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (option == '?' || option == ':') {
			what = command_bad_option(option, argv, &about);
			wrong = misuse(what, about);
		} else {
			wrong = take(r, row_of(option), optarg, &seen);
		}
	}
	if (!wrong)
		wrong = check(r, &seen);
	if (!wrong && argc - optind != 1)
		wrong = misuse(optind < argc ? "one capture at a time, not also " : "a capture is needed",
			       optind < argc ? argv[optind + 1] : "");
	if (wrong)
		return wrong + 1;
	r->capture_file = argv[optind];
	return 0;
}
