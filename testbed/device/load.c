/* SPDX-License-Identifier: BSD-3-Clause */
#include "load.h"

#include <math.h>
#include <stdio.h>

#include "../../pipeline/observe/trace.h"

int sp_device_load_run(const struct sp_device *device, const struct sp_device_load *load, struct sp_device_run **run)
{
	struct sp_device d = *device;
	int err;

	d.costs.count = 2;
	d.costs.row[0] = (struct sp_cost_row){.handler = "load", .function = SP_CALLED_PAYLOAD, .cost = load->cost};
	d.costs.row[1] =
		(struct sp_cost_row){.handler = "cold", .function = SP_CALLED_PAYLOAD, .cost = load->cold_cost};
	err = sp_device_run_create(&d, 1, run);
	for (uint32_t i = 0; !err && i < load->packets; i++) {
		const bool word = load->word_every && i % load->word_every == load->word_every - 1;
		const struct sp_device_job job = {
			.handler = i < load->cold ? "cold" : "load",
			.function = SP_CALLED_PAYLOAD,
			.now = i * load->interval,
			.packet = true,
			.work = {.bytes = load->bytes, .words = word, .writes = word ? 8 : 0, .frames = 1},
		};

		sp_device_run_packet(*run, job.now, load->bytes);
		sp_device_run_job(*run, &job);
	}
	if (!err)
		sp_device_run_finish(*run);
	return err;
}

int sp_device_check_run(const struct sp_device *device, const struct sp_device_check *check, double *value)
{
	struct sp_device d = *device;
	struct sp_device_load load = {.cost = check->cost,
				      .cold_cost = check->cold_cost,
				      .cold = check->cold,
				      .bytes = check->bytes,
				      .packets = check->packets,
				      .word_every = check->word_every};
	struct sp_device_run *run;
	const struct sp_device_tally *t;
	int err;

	if (check->cores)
		d.cores = check->cores;
	if (check->rate)
		d.line_rate = check->rate;
	/* How many packets a second the cores take shows when all are there at once. */
	load.interval = check->quantity == SP_CHECK_PPS ? 0 : sp_device_wire_time(&d, check->bytes);
	err = sp_device_load_run(&d, &load, &run);
	if (err)
		return err;
	t = sp_device_run_tally(run);
	switch (check->quantity) {
	case SP_CHECK_LATENCY:
		*value = (double)t->latency / (double)t->packets / (double)SP_SEC;
		break;
	case SP_CHECK_PPS: {
		const double span = (double)(sp_device_run_cores(run)->last - d.arrive) / (double)SP_SEC;

		*value = (double)t->packets / span;
		break;
	}
	case SP_CHECK_CORES:
		*value = ceil(sp_device_run_cores_needed(run) - 1e-9);
		break;
	case SP_CHECK_BUDGET: /* cycles of all cores while a packet is on the wire */
	case SP_CHECK_COUNT:
		*value = (double)load.interval / (double)SP_SEC * d.clock * d.cores;
		break;
	}
	sp_device_run_destroy(run);
	return 0;
}

const char *sp_device_quantity_name(enum sp_device_quantity quantity)
{
	static const char *const names[] = {"latency", "packets-per-second", "cores-needed", "budget", ""};

	return names[quantity <= SP_CHECK_COUNT ? quantity : SP_CHECK_COUNT];
}
