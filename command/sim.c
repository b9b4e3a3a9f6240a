/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim: what becomes of many messages over a link that is described, as a table or JSON. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sim.h"

double sim_chunk_drop(const struct sim *s)
{
	return s->packet ? sp_model_chunk_drop(s->model.drop, s->model.chunk / s->mtu) : s->model.drop;
}

double sim_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The exit status. */
static int model(const struct sim *s)
{
	const struct sp_model *m = &s->model;
	struct sp_model_outcome o;
	double began = sim_seconds();
	int err = sp_model_run(m, (uint32_t)s->samples, s->seed, &o);

	if (err == -ERANGE && sim_chunk_drop(s) > SP_MODEL_DROP_MAX) {
		fprintf(stderr, "spindle sim: --drop must leave a chunk's probability of a loss at most %g, not %.6g\n",
			SP_MODEL_DROP_MAX, sim_chunk_drop(s));
		return 2;
	}
	if (err == -ERANGE) {
		fprintf(stderr, "spindle sim: --message must have at most %u submessages of --ec data chunks\n",
			SP_MODEL_SUBMESSAGES_MAX);
		return 2;
	}
	if (err) {
		fprintf(stderr, "spindle sim: %" PRIu64 " samples: %s\n", s->samples, strerror(-err));
		return 1;
	}
	if (s->json)
		sim_show_json(s, &o, sim_seconds() - began);
	else
		sim_show_text(s, &o);
	return 0;
}

int command_sim(int argc, char **argv)
{
	struct sim s;
	const int status = sim_options(&s, argc, argv);

	if (status)
		return status - 1;
	return s.is_model ? model(&s) : sim_packets(&s);
}
