/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim: simulates many messages over a given link, and prints their times as a table or JSON. Other words have a
 * file each, with their own options. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../command.h"
#include "../options.h"
#include "arguments.h"
#include "packets.h"
#include "show.h"
#include "words.h"
#include "../output.h"

/* A word per line; sdr and allreduce have the options of arguments.c. */
static const struct word {
	const char *name;
	int (*run)(int argc, char **argv);
} words[] = {
	{"goal", sim_goal},
	{"motif", sim_motif},
	{"train", sim_train},
};

static int model(const struct sim *s)
{
	const double began = sim_seconds();
	struct sp_model_outcome o;
	double *times;
	int err = sim_times_open(s, &times);

	if (err)
		return err;
	err = sp_model_run(&s->model, (uint32_t)s->samples, s->seed, times, &o);
	if (err)
		free(times);
	if (err == -ERANGE) {
		command_fail("sim", "--message must have at most %u submessages of --ec data chunks",
			     SP_MODEL_SUBMESSAGES_MAX);
		return 2;
	}
	if (err)
		return command_fail("sim", "%" PRIu64 " samples: %s", s->samples, strerror(-err));
	if (sim_times_write(s, times))
		return 1;
	if (s->json)
		sim_show_json(s, &o, sim_seconds() - began);
	else
		sim_show_text(s, &o);
	return 0;
}

int command_sim(int argc, char **argv)
{
	struct sim s;
	int status;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (argc > 1 && !strcmp(argv[1], words[i].name))
			return words[i].run(argc - 1, argv + 1);
	status = sim_arguments(&s, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	return s.is_model ? model(&s) : sim_packets(&s);
}
