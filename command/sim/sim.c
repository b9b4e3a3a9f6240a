/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim: what becomes of many messages over a link that is described, as a table or JSON. */
#include "../command.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "asked.h"

double sim_chunk_drop(const struct sim *s)
{
	const double n = (double)(s->model.chunk / s->mtu), p = s->model.drop;

	if (!s->packet)
		return p;
	if (s->burst > 0) /* none of them is, if the first is not and no burst begins behind another */
		return -expm1(log1p(-p) + (n - 1) * log1p(-p / (1 - p) / s->burst));
	return sp_model_chunk_drop(p, s->model.chunk / s->mtu);
}

uint64_t sim_message(const struct sim *s)
{
	return s->nodes ? (s->model.message + s->nodes - 1) / s->nodes : s->model.message;
}

double sim_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int sim_times_open(const struct sim *s, double **times)
{
	FILE *f;

	*times = NULL;
	if (!s->times)
		return 0;
	f = fopen(s->times, "w"); /* now, not after what takes long */
	*times = f ? malloc(s->samples * sizeof(**times)) : NULL;
	if (!*times)
		fprintf(stderr, "spindle sim: --times %s: %s\n", s->times, strerror(errno));
	if (f)
		fclose(f);
	return *times ? 0 : 1;
}

int sim_times_write(const struct sim *s, double *times)
{
	FILE *f = times ? fopen(s->times, "w") : NULL;
	bool bad = times && !f;

	for (uint64_t i = 0; f && i < s->samples; i++)
		fprintf(f, "%.17g\n", times[i]);
	if (f) {
		bad = ferror(f);
		bad |= fclose(f);
	}
	if (bad)
		fprintf(stderr, "spindle sim: --times %s: cannot be written\n", s->times);
	free(times);
	return bad;
}

/* The exit status. */
static int model(const struct sim *s)
{
	const struct sp_model *m = &s->model;
	struct sp_model_outcome o;
	double began = sim_seconds();
	double *times;
	int err = sim_times_open(s, &times);

	if (err)
		return err;
	err = sp_model_run(m, (uint32_t)s->samples, s->seed, times, &o);
	if (err)
		free(times);
	if (err == -ERANGE) {
		fprintf(stderr, "spindle sim: --message must have at most %u submessages of --ec data chunks\n",
			SP_MODEL_SUBMESSAGES_MAX);
		return 2;
	}
	if (err) {
		fprintf(stderr, "spindle sim: %" PRIu64 " samples: %s\n", s->samples, strerror(-err));
		return 1;
	}
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
	const int status = sim_options(&s, argc, argv);

	if (status)
		return status - 1;
	return s.is_model ? model(&s) : sim_packets(&s);
}
