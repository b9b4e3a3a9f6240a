/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle wire: a bad link between two real ports. */
#include "state.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_mbuf.h>

#include "../../pipeline/config.h"
#include "../../pipeline/machine.h"
#include "../../pipeline/port.h"
#include "../command.h"
#include "../interrupt.h"
#include "../link_options.h"
#include "../output.h"
#include "../port_eal.h"

static const char usage[] =
	"usage: spindle wire PORT PORT [OPTIONS] [-- EAL ARGUMENTS]\n"
	"\n"
	"Carries packets between two ports (af_packet:eth1, tap:NAME, vhost:PATH, virtio-user:PATH, ...) over a link "
	"that\n"
	"delays, loses, repeats, reorders and corrupts them, until SIGINT or SIGTERM. A line on standard output says "
	"that\n"
	"it is ready; the report comes at the end.\n"
	"  --there, --back      the options behind it are for what the first port receives, or the second (--both)\n"
	"  --delay T            propagation, one way (default 0); or\n"
	"  --distance KM        ... of so many kilometres\n"
	"  --bandwidth R        bits per second (default: no limit)\n"
	"  --queue N            packets that may wait for the wire; more are dropped (256)\n"
	"  --loss P             probability that a packet is lost\n"
	"  --burst L            losses come in bursts of L packets on average\n"
	"  --duplicate P        ... that it arrives twice\n"
	"  --reorder P          ... that it arrives late, by\n"
	"  --reorder-delay T    ... this (1ms)\n"
	"  --jitter T           each packet takes longer by up to T: they overtake each other\n"
	"  --corrupt P          probability that one bit is inverted\n"
	"  --seed N             the same seed does the same to the same packets (1)\n"
	"  --mtu N              of both ports, bytes (1500)\n"
	"  --for T              end after that time\n"
	"  --json               ready line and report as a line of JSON each\n"
	"Exit status: 0 ended by a signal or its time, 1 failed, 2 wrong usage.\n";

#define REORDER	     (1 * SP_MS) /* --reorder-delay where none is given: some packets of a busy real link */
#define MTU_LEAST    256
#define MTU_MOST     9500
#define LONGEST	     (86400 * SP_SEC)
#define MOST_OPTIONS 32

static int fail(const char *text)
{
	fprintf(stderr, "spindle wire: %s\n", text);
	return 1;
}

static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle wire: %s%s\n%s", what, about, usage);
	return 2;
}

static int bad(const char *wants, const char *value)
{
	return command_bad_value("wire", wants, value);
}

/* ---- arguments ---- */

enum { THERE, BACK, BOTH }; /* the options behind it */
enum { OPTION_WAY = 256, OPTION_QUEUE = OPTION_WAY + 3, OPTION_MTU, OPTION_FOR, OPTION_JSON, OPTION_LINK };

static const struct option own_options[] = {
	{"there", no_argument, NULL, OPTION_WAY + THERE}, {"back", no_argument, NULL, OPTION_WAY + BACK},
	{"both", no_argument, NULL, OPTION_WAY + BOTH},	  {"queue", required_argument, NULL, OPTION_QUEUE},
	{"mtu", required_argument, NULL, OPTION_MTU},	  {"for", required_argument, NULL, OPTION_FOR},
	{"json", no_argument, NULL, OPTION_JSON},	  {"help", no_argument, NULL, 'h'},
};
#define OWN (sizeof(own_options) / sizeof(*own_options))

static int take_number(const char *value, uint64_t least, uint64_t most, const char *wants, uint32_t *to)
{
	uint64_t number = 0;

	if (sp_parse_uint(value, &number) || number < least || number > most)
		return bad(wants, value);
	*to = (uint32_t)number;
	return 0;
}

/* A value for both ways or for one; the link's options know only both. 0 or the exit status. */
static int take_link(struct wire *w, const struct link_option *o, const char *value, int way)
{
	const struct sp_link_config before = w->config;

	if (!link_option_take(o, value, &w->config))
		return bad(o->wants, value);
	if (way != BOTH && !o->whole)
		w->config.direction[!way] = before.direction[!way];
	return 0;
}

static int take_queue(struct wire *w, const char *value, int way)
{
	uint32_t queue = 0;
	const int wrong = take_number(value, 1, SP_LINK_MAX_QUEUE, "--queue must be 1 to 1048576 packets", &queue);

	for (int e = 0; e < 2 && !wrong; e++)
		if (way == BOTH || way == e)
			w->config.direction[e].queue = queue;
	return wrong;
}

static int take(struct wire *w, int option, const char *value, int *way)
{
	switch (option) {
	case OPTION_WAY + THERE:
	case OPTION_WAY + BACK:
	case OPTION_WAY + BOTH:
		*way = option - OPTION_WAY;
		return 0;
	case OPTION_QUEUE:
		return take_queue(w, value, *way);
	case OPTION_MTU:
		return take_number(value, MTU_LEAST, MTU_MOST, "--mtu must be 256 to 9500", &w->mtu);
	case OPTION_FOR:
		return sp_parse_time(value, &w->duration) || w->duration < SP_MS || w->duration > LONGEST
			       ? bad("--for must be 1ms to 86400s", value)
			       : 0;
	case OPTION_JSON:
		w->json = true;
		return 0;
	default:
		return take_link(w, &link_options[option - OPTION_LINK], value, *way);
	}
}

/* Two ends at one place would be a loop in which packets go round for ever. Whatever driver is on it: one interface,
 * socket or file is one place. */
static int ports_check(const struct wire *w)
{
	struct sp_vdev_spec spec[2];
	struct sp_error error = {.key = ""};
	char text[SP_VDEV_TARGET + 64];

	for (unsigned e = 0; e < 2; e++)
		if (sp_vdev_parse(w->device[e], &spec[e], &error)) {
			fprintf(stderr, "spindle wire: %s\n", error.text);
			return 2;
		}
	if (!*spec[0].target || strcmp(spec[0].target, spec[1].target))
		return 0;
	snprintf(text, sizeof(text), "both ports are at %s, a wire has two ends: ", spec[0].target);
	return misuse(text, w->device[1]);
}

static int check(struct wire *w, int argc, char **argv)
{
	const char *wrong = link_options_end(&w->config);

	if (wrong)
		return misuse(wrong, "");
	if (argc - optind < 2)
		return misuse(argc == optind ? "between which ports?" : "a second port is needed, not only ",
			      argc == optind ? "" : argv[optind]);
	if (argc - optind > 2)
		return misuse("a wire has two ends, not also ", argv[optind + 2]);
	if (w->eal_count > PORT_EAL_MOST)
		return misuse("too many EAL arguments", "");
	w->device[0] = argv[optind];
	w->device[1] = argv[optind + 1];
	return ports_check(w);
}

/* What stands behind -- is EAL's, wherever getopt would move it. */
static int split(struct wire *w, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--")) {
			w->eal = argv + i + 1;
			w->eal_count = argc - i - 1;
			argv[i] = NULL; /* as main()'s ends */
			return i;
		}
	return argc;
}

/* 0, or the exit status + 1. */
static int arguments(struct wire *w, int argc, char **argv)
{
	struct option options[MOST_OPTIONS] = {0};
	const char *about, *what;
	int option, n = 0, way = BOTH, wrong = 0;

	argc = split(w, argc, argv);
	for (size_t i = 0; i < OWN; i++)
		options[n++] = own_options[i];
	for (int i = 0; link_options[i].name && n < MOST_OPTIONS - 1; i++)
		options[n++] = (struct option){link_options[i].name, required_argument, NULL, OPTION_LINK + i};
	optind = 0; /* GNU: start anew; argv is not main()'s own */
	opterr = 0;
	while (!wrong && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (option == '?' || option == ':') {
			what = command_bad_option(option, argv, &about);
			wrong = misuse(what, about);
		} else {
			wrong = take(w, option, optarg, &way);
		}
	}
	if (!wrong)
		wrong = check(w, argc, argv);
	return wrong ? wrong + 1 : 0;
}

/* ---- up and down ---- */

/* The NIC is there for its ports alone: it opens and checks them as always, and its packet path never runs. It has no
 * address and answers nothing. */
static int ports_open(struct wire *w, struct sp_error *error)
{
	const struct sp_nic_config config = {.name = "wire",
					     .mtu = w->mtu,
					     .ports = 2,
					     .port = {{.device = w->device[0]}, {.device = w->device[1]}}};
	int err = port_eal_init(w->device, 2, w->eal, w->eal_count, error);

	return err ? err : sp_nic_create(&config, error, &w->nic);
}

static int link_open(struct wire *w)
{
	const uint64_t memory = sp_machine_memory() / 4; /* for each direction, so that half is left to others */
	int err;

	if (memory < SP_LINK_MEMORY)
		w->config.memory = memory;
	err = sp_link_create(&w->config, &w->link);
	for (unsigned e = 0; !err && e < 2; e++)
		w->way[e] = (struct wire_way){.from = &w->nic->port[e],
					      .to = &w->nic->port[!e],
					      .in = sp_link_port(w->link, e),
					      .out = sp_link_port(w->link, !e)};
	return err;
}

static int open_all(struct wire *w)
{
	struct sp_error error = {.key = ""};
	int out, err;

	if (interrupt_start(NULL, NULL))
		return fail("no thread for signals");
	out = output_redirect(STDERR_FILENO); /* what EAL and drivers print: standard output is for the ready line */
	err = ports_open(w, &error);
	if (!err)
		err = link_open(w);
	close(output_redirect(out));
	close(out);
	return err ? fail(*error.text ? error.text : strerror(-err)) : 0;
}

static void close_all(struct wire *w)
{
	for (unsigned e = 0; e < 2; e++)
		if (w->way[e].count)
			rte_pktmbuf_free_bulk(w->way[e].packet + w->way[e].first, w->way[e].count);
	sp_link_destroy(w->link);
	sp_nic_destroy(w->nic);
}

int command_wire(int argc, char **argv)
{
	static struct wire w; /* large */
	int status;

	w = (struct wire){.mtu = 1500, .duration = SP_NEVER, .config.seed = LINK_SEED};
	for (unsigned e = 0; e < 2; e++)
		w.config.direction[e].reorder_delay = REORDER;
	status = arguments(&w, argc, argv);
	if (status)
		return status - 1;
	status = open_all(&w);
	if (!status && wire_show_ready(&w))
		status = fail("standard output: the ready line could not be written");
	if (!status) {
		prctl(PR_SET_TIMERSLACK, 1000ul); /* ns: a pause is to be as short as asked for */
		wire_run(&w);
		wire_show_report(&w);
	}
	close_all(&w);
	return status;
}
