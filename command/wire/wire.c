/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle wire: a bad link between two real ports. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_mbuf.h>

#include "../../pipeline/engine.h"
#include "../../pipeline/nic.h"
#include "../../pipeline/mem/machine.h"
#include "../../pipeline/ports/port.h"
#include "../command.h"
#include "../interrupt.h"
#include "../link_options.h"
#include "../output.h"
#include "../port_eal.h"
#include "loop.h"
#include "show.h"

#define REORDER	  (1 * SP_MS) /* default of --reorder-delay: a few packets of a busy real link */
#define LONGEST	  (86400 * SP_SEC)
#define AT(field) OPTION_AT(struct wire, field)

static const struct usage usage = {
	.command = "wire",
	.forms = "spindle wire PORT PORT [OPTIONS] [-- EAL ARGUMENTS]",
	.about = "Carries packets between two ports (af_packet:eth1, tap:NAME, vhost:PATH, virtio-user:PATH, ...) over "
		 "a link "
		 "that delays, loses, repeats, reorders and corrupts them, until SIGINT or SIGTERM. A line on standard "
		 "output "
		 "says that it is ready; the report comes at the end.",
	.end = "By default there is no delay and no bandwidth limit, and --reorder-delay is 1ms.\n"
	       "Exit status: 0 ended by a signal or its time, 1 failed, 2 wrong usage.",
	.arguments = INT_MAX,
	.eal = PORT_EAL_MOST,
};

static int fail(const char *text)
{
	return command_fail("wire", "%s", text);
}

/* ---- arguments ---- */

static const struct option_row way_rows[] = {
	{"there", 0, OPTION_FLAG, NULL, "the link's options behind it are for packets from the first port",
	 OPTION_AT(struct link_options, way), .least = LINK_THERE},
	{"back", 0, OPTION_FLAG, NULL, "... from the second port", OPTION_AT(struct link_options, way),
	 .least = LINK_BACK},
	{"both", 0, OPTION_FLAG, NULL, "... from both (the default)", OPTION_AT(struct link_options, way),
	 .least = LINK_BOTH},
	{0},
};

static const struct option_row queue_rows[] = {
	{"queue", 0, OPTION_NUMBER, "N", "packets that may wait for the link; more are dropped (256)",
	 OPTION_AT(struct link_options, value.queue), .least = 1, .most = SP_LINK_MAX_QUEUE, .unit = " packets"},
	{0},
};

static const struct option_row rows[] = {
	{"mtu", 0, OPTION_NUMBER, "N", "of both ports, bytes (1500)", AT(mtu), .least = 256, .most = 9500},
	{"for", 0, OPTION_TIME, "T", "end after that time", AT(duration), .least = SP_MS, .most = LONGEST},
	{"json", 0, OPTION_FLAG, NULL, "print ready line and report as a line of JSON each", AT(json)},
	{0},
};

/* Both ports on one interface, socket or file would be a loop in which packets circulate for ever, whatever their
 * drivers are. */
static int ports_check(const struct wire *w)
{
	struct sp_vdev_spec spec[2];
	struct sp_error error = {.key = ""};

	for (unsigned e = 0; e < 2; e++)
		if (sp_vdev_parse(w->device[e], &spec[e], &error)) {
			command_fail("wire", "%s", error.text);
			return 2;
		}
	if (!*spec[0].target || strcmp(spec[0].target, spec[1].target))
		return OPTIONS_GO_ON;
	return options_misuse(&usage, "both ports are at %s, but a wire has two ends: %s", spec[0].target,
			      w->device[1]);
}

static int arguments(struct wire *w, int argc, char **argv)
{
	struct link_options link = {.way = LINK_BOTH, .config = &w->config};
	struct options o = {&usage,
			    {{NULL, rows, w, NULL},
			     {"The link:", way_rows, &link, NULL},
			     {NULL, link_rows, &link, link_options_taken},
			     {NULL, queue_rows, &link, link_options_taken}}};
	const int status = options_parse(&o, argc, argv);
	const char *wrong;

	if (status != OPTIONS_GO_ON)
		return status;
	wrong = link_options_end(&w->config);
	if (wrong)
		return options_misuse(&usage, "%s", wrong);
	if (!o.arguments)
		return options_misuse(&usage, "between which ports?");
	if (o.arguments == 1)
		return options_misuse(&usage, "a second port is needed, not only %s", o.argument[0]);
	if (o.arguments > 2)
		return options_misuse(&usage, "a wire has two ends, not also %s", o.argument[2]);
	w->eal = o.eal;
	w->eal_count = o.eals;
	w->device[0] = o.argument[0];
	w->device[1] = o.argument[1];
	return ports_check(w);
}

/* ---- up and down ---- */

/* The NIC exists for its ports only: it opens and checks them as always. Its packet path never runs; it has no address
 * and answers nothing. */
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
	const uint64_t memory = sp_machine_memory() / 4; /* per direction: half is left for other programs */
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
	out = output_redirect(STDERR_FILENO); /* EAL and drivers print there: standard output is for the ready line */
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
	if (status != OPTIONS_GO_ON)
		return status;
	status = open_all(&w);
	if (!status && wire_show_ready(&w))
		status = fail("standard output: the ready line could not be written");
	if (!status) {
		prctl(PR_SET_TIMERSLACK, 1000ul); /* ns: pauses end in time */
		wire_run(&w);
		wire_show_report(&w);
	}
	close_all(&w);
	return status;
}
