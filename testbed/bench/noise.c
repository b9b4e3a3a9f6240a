/* SPDX-License-Identifier: BSD-3-Clause */
#include "noise.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static double own_time(int who)
{
	struct rusage u;

	if (getrusage(who, &u))
		return 0;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Without /proc/stat, reports no noise. */
static void look(struct bench_noise *n)
{
	double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
	const double tick = (double)sysconf(_SC_CLK_TCK);
	FILE *f = fopen("/proc/stat", "r");

	if (f && fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &wait, &irq, &soft,
			&steal) < 8)
		user = nice = system = idle = wait = irq = soft = steal = 0;
	if (f)
		fclose(f);
	n->busy = (user + nice + system + irq + soft) / tick;
	n->steal = steal / tick;
	n->all = n->busy + n->steal + (idle + wait) / tick;
	n->own = own_time(RUSAGE_SELF) + own_time(RUSAGE_CHILDREN);
}

void bench_noise_begin(struct bench_noise *n)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	double load[1];

	*n = (struct bench_noise){.load = 0};
	if (getloadavg(load, 1) == 1 && processors > 0)
		n->load = load[0] / (double)processors;
	look(n);
}

void bench_noise_end(struct bench_noise *n)
{
	struct bench_noise now = {.load = 0};
	double all, others;

	look(&now);
	all = now.all - n->all;
	others = now.busy - n->busy - (now.own - n->own);
	if (all <= 0)
		return;
	n->others = others > 0 ? others / all : 0;
	n->stolen = (now.steal - n->steal) / all;
}
