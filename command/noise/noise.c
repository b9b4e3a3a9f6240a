/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle noise: what this machine and its network do beside what they are asked for, in files that spindle sim reads.
 */
#include "noise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../pipeline/value.h"
#include "../command.h"
#include "../options.h"

#define AT(field) OPTION_AT(struct noise, field)

enum { DETOUR = 1, LATENCY = 2, BANDWIDTH = 4, LOGGP = 8, SERVE = 16 };

static const struct word {
	const char *name;
	unsigned mode;
	int (*run)(const struct noise *n);
} words[] = {
	{"detour", DETOUR, noise_detour},
	{"latency", LATENCY, noise_latency},
	{"bandwidth", BANDWIDTH, noise_bandwidth},
	{"loggp", LOGGP, noise_loggp},
	{"serve", SERVE, noise_serve},
};
#define WORDS (sizeof(words) / sizeof(*words))

static const struct usage usage = {
	.command = "noise",
	.forms = "spindle noise detour|serve [OPTIONS]\n"
		 "spindle noise latency|bandwidth|loggp [HOST] [OPTIONS]",
	.about = "Measures noise: what takes processors away from programs (detour), and how long messages take over "
		 "TCP (latency, bandwidth, loggp), to HOST, where `spindle noise serve` runs, or without HOST to "
		 "another "
		 "process of this host. What is written, `spindle sim goal --noise` reads; it is in netgauge's format.",
	.end = "Exit status: 0 done, 1 failed, 2 wrong usage.",
	.arguments = 2,
};

/* 0,2-5 */
static int take_cpus(void *to, const char *text)
{
	struct noise *n = to;

	memset(n->cpu, 0, sizeof(n->cpu));
	n->has_cpus = true;
	for (;;) {
		char *end;
		unsigned long first = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : NOISE_CPUS, last = first;

		if (first >= NOISE_CPUS)
			return -EINVAL;
		if (*end == '-') {
			last = end[1] >= '0' && end[1] <= '9' ? strtoul(end + 1, &end, 10) : NOISE_CPUS;
			if (last >= NOISE_CPUS || last < first)
				return -EINVAL;
		}
		for (; first <= last; first++)
			n->cpu[first] = true;
		if (!*end)
			return 0;
		if (*end != ',')
			return -EINVAL;
		text = end + 1;
	}
}

static const struct option_row rows[] = {
	{"cpu", 0, OPTION_CALL, "LIST", "detour: processors, one after the other, as 0,2-3 (any)", .take = take_cpus,
	 .wants = "processors from 0 to 1023, as 0,2-3", .modes = DETOUR},
	{"duration", 'D', OPTION_TIME, "TIME", "detour: on each processor (10s)", AT(duration), .least = SP_MS,
	 .most = 3600 * SP_SEC, .modes = DETOUR},
	{"factor", 0, OPTION_NUMBER, "N", "detour: a gap of so many shortest ones counts (9)", AT(factor), .least = 2,
	 .most = 1000000, .modes = DETOUR},
	{"count", 'n', OPTION_NUMBER, "N", "latency, bandwidth: round trips (latency: 10000; bandwidth: 100)",
	 AT(count), .least = 1, .most = 10000000, .modes = LATENCY | BANDWIDTH},
	{"size", 's', OPTION_SIZE, "BYTES", "latency, bandwidth: of a message (latency: 1; bandwidth: 16M)", AT(size),
	 .least = 1, .most = 1 << 30, .modes = LATENCY | BANDWIDTH},
	{"port", 'p', OPTION_NUMBER, "PORT", "TCP port of serve (18516; serve: 0, a free one)", AT(port), .most = 65535,
	 .modes = LATENCY | BANDWIDTH | LOGGP | SERVE},
	{"write", 'w', OPTION_STRING, "FILE", "write what was measured, for spindle sim; of several processors FILE.N",
	 AT(write), .least = 1, .wants = "the name of a file", .modes = DETOUR | LATENCY | BANDWIDTH},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", AT(json), .modes = DETOUR | LATENCY | BANDWIDTH | LOGGP},
	{0},
};

int command_noise(int argc, char **argv)
{
	struct noise n = {.duration = 10 * SP_SEC, .factor = 9, .port = 18516};
	struct options o = {&usage, {{NULL, rows, &n, NULL}}};
	const char *names[WORDS + 1] = {NULL};
	const struct word *w = NULL;
	const struct option_row *foreign;
	int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage,
				      "what to measure is missing: detour, latency, bandwidth or loggp; or serve");
	for (size_t i = 0; i < WORDS; i++) {
		names[i] = words[i].name;
		if (!strcmp(o.argument[0], words[i].name))
			w = &words[i];
	}
	if (!w) {
		const char *near = sp_nearest(o.argument[0], names);

		return near ? options_misuse(&usage, "there is no %s; is %s meant?", o.argument[0], near)
			    : options_misuse(&usage, "there is no %s", o.argument[0]);
	}
	foreign = options_foreign(&o, w->mode);
	if (foreign)
		return options_misuse(&usage, "%s has no %s", w->name, option_name(foreign));
	if (o.arguments > 1 && w->mode & (DETOUR | SERVE))
		return options_misuse(&usage, "%s has no HOST", w->name);
	n.host = o.arguments > 1 ? o.argument[1] : NULL;
	return w->run(&n);
}
