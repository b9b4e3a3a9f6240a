/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim goal --topology: a schedule whose messages are packets of NICs, over a network of switches. */
#include <stdio.h>

#include "goal.h"
#include "motif.h"

static const struct usage usage = {
	.command = "sim goal",
	.forms = "spindle sim goal FILE --topology T [OPTIONS]\n"
		 "spindle sim goal --pattern NAME --ranks N --topology T [OPTIONS]",
	.about = "Simulates a schedule of sends, receives and calculations of many ranks over a network of switches: "
		 "packet by packet, with modelled or real NICs. FILE is in GOAL; - is standard input.",
	.end = "Exit status: 0 done, 1 failed, or the schedule does not end, 2 wrong usage.",
	.arguments = 1,
};

int sim_goal_network(int argc, char **argv)
{
	struct sim_goal s = sim_goal_default;
	struct sim_motif m;
	struct options o = {&usage,
			    {{NULL, sim_goal_schedule_rows, &s, NULL},
			     {"The network:", sim_network_rows, &m, NULL},
			     {"NICs:", sim_nic_rows, &m, NULL}}};
	struct goal *g = NULL;
	int status;

	sim_network_default(&m);
	status = options_parse(&o, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	s.seed = m.run.net.seed;
	status = sim_goal_schedule_asked(&s, &o);
	status = status == OPTIONS_GO_ON ? sim_nic_asked(&m, &o) : status;
	if (status != OPTIONS_GO_ON)
		return status;
	status = sim_goal_schedule(&s, &g);
	if (!status)
		status = s.write ? sim_goal_write(&s, g) : sim_network_run(&m, g, s.file ? s.file : s.pattern.name);
	goal_destroy(g);
	return status;
}
