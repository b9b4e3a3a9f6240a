/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle noise detour: what takes processors away from a program. */
#include "noise.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../../testbed/goal/detour.h"
#include "../../testbed/quantile.h"
#include "../output.h"

#define DETOURS_MOST 4000000u /* 32 MiB of memory, and as much again */

static int write_file(const char *file, int cpu, const struct noise *n, const struct goal_detour_result *r)
{
	FILE *f = fopen(file, "w");
	bool bad = !f;

	if (f) {
		fprintf(f,
			"# spindle noise detour: cpu %d, %.9g s, factor %" PRIu64
			", shortest %.3f ns, %.6g of the time\n"
			"# time ns\tlength ns\n",
			cpu, (double)r->took / (double)SP_SEC, n->factor, (double)r->shortest / 1e3, r->stolen);
		for (uint64_t i = 0; i < r->n; i++)
			fprintf(f, "%.1f\t%.1f\n", (double)r->at[i] / 1e3, (double)r->length[i] / 1e3);
		bad = ferror(f);
		bad |= fclose(f);
	}
	return bad ? command_fail("noise", "--write %s: %s", file, f ? "cannot be written" : strerror(errno)) : 0;
}

struct figures {
	double rate, median, p99, most; /* a second; us */
};

static bool figures(const struct goal_detour_result *r, struct figures *f)
{
	double *us = malloc((r->n + 1) * sizeof(*us));

	*f = (struct figures){.rate = (double)r->n / ((double)r->took / (double)SP_SEC)};
	for (uint64_t i = 0; us && i < r->n; i++)
		us[i] = (double)r->length[i] / 1e6;
	if (us && r->n) {
		f->median = sp_quantile(us, r->n, 500);
		f->p99 = sp_quantile(us, r->n, 990);
		f->most = sp_quantile(us, r->n, 1000);
	}
	free(us);
	return us;
}

static int show(const struct noise *n, int cpu, const struct goal_detour_result *r)
{
	struct figures f;

	if (!figures(r, &f))
		return command_fail("noise", "memory does not suffice");
	if (n->json)
		return output_json(json_pack("{s:i, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "cpu", cpu, "duration_s",
					     (double)r->took / (double)SP_SEC, "detours", (json_int_t)r->n,
					     "detours_per_s", f.rate, "share", r->stolen, "shortest_ns",
					     (double)r->shortest / 1e3, "p50_us", f.median, "p99_us", f.p99, "max_us",
					     f.most),
				   0)
			       ? command_fail("noise", "the result cannot be shown as JSON")
			       : 0;
	if (cpu >= 0)
		printf("cpu %d: ", cpu);
	printf("%" PRIu64 " detours in %.3g s, %.4g a second, %.3g %% of the time; 50 %% %.3g us, 99 %% %.3g us, most "
	       "%.4g us\n",
	       r->n, (double)r->took / (double)SP_SEC, f.rate, 100 * r->stolen, f.median, f.p99, f.most);
	return 0;
}

static int measure(const struct noise *n, int cpu, bool several)
{
	const struct goal_detour_config c = {
		.cpu = cpu, .duration = n->duration, .factor = (uint32_t)n->factor, .most = DETOURS_MOST};
	struct goal_detour_result r;
	char file[4096];
	int err = goal_detour_measure(&c, &r);

	if (err == -ENODEV)
		return command_fail("noise", "cpu %d: there is none, or this process may not use it", cpu);
	if (err)
		return command_fail("noise", "detour: %s", strerror(-err));
	err = show(n, cpu, &r);
	if (n->write) {
		if (several)
			snprintf(file, sizeof(file), "%s.%d", n->write, cpu);
		else
			snprintf(file, sizeof(file), "%s", n->write);
		err |= write_file(file, cpu, n, &r);
	}
	free(r.at);
	free(r.length);
	return err;
}

int noise_detour(const struct noise *n)
{
	unsigned cpus = 0;
	int status = 0;

	if (!n->has_cpus)
		return measure(n, -1, false);
	for (unsigned i = 0; i < NOISE_CPUS; i++)
		cpus += n->cpu[i];
	for (unsigned i = 0; i < NOISE_CPUS && !status; i++)
		if (n->cpu[i])
			status = measure(n, (int)i, cpus > 1);
	return status;
}
