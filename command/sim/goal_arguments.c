/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of spindle sim goal. */
#include "goal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../testbed/goal/runs.h"

#define AT(field) OPTION_AT(struct sim_goal, field)

static const struct usage usage = {
	.command = "sim goal",
	.forms = "spindle sim goal FILE [OPTIONS]\n"
		 "spindle sim goal --pattern NAME --ranks N [OPTIONS]",
	.about = "Simulates a schedule of sends, receives and calculations of many ranks by the LogGOPS model, without "
		 "packets, by the rules of LogGOPSim. FILE is in GOAL, the text that LogGOPSim's schedgen writes; - is "
		 "standard input.\n"
		 "With --topology it is packets over a network of switches instead, with modelled NICs and other "
		 "options: 'spindle sim goal --topology T --help'.\n"
		 "Noise that was measured, by netgauge or `spindle noise`, can be added: of the hosts and of the "
		 "network.",
	.end = "Exit status: 0 done, 1 failed, or the schedule does not end, 2 wrong usage.",
	.arguments = 1,
};

static const char *const racks[] = {"far", "near", "published", NULL};

/* A decimal with up to `places` digits behind the point, times 10^places; the text behind it. NULL: there is none. */
static const char *take_decimal(const char *text, unsigned places, uint64_t *value)
{
	const char *at = text;

	for (*value = 0; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(*value, 10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value))
			return NULL;
	if (at == text)
		return NULL;
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++, places--)
			if (!places || __builtin_mul_overflow(*value, 10, value) ||
			    __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value))
				return NULL;
	for (; places; places--)
		if (__builtin_mul_overflow(*value, 10, value))
			return NULL;
	return at;
}

/* L,o,g,G,O,S in ns, ns a byte and bytes. */
static int take_loggops(void *to, const char *text)
{
	struct sim_goal *s = to;
	uint64_t v[6];

	for (unsigned i = 0; i < 6; i++) {
		text = take_decimal(text, i < 5 ? 3 : 0, &v[i]);
		if (!text || *text != (i < 5 ? ',' : '\0') || (i < 5 && v[i] >= 1ull << 60))
			return -EINVAL;
		text++;
	}
	s->loggops = (struct goal_loggops){.o = v[1], .O = v[4], .S = v[5]};
	for (unsigned i = 0; i < 2; i++)
		s->loggops.hop[i] = (struct goal_hop){.L = v[0], .g = v[2], .G = v[3]};
	return 0;
}

static int take_noise(void *to, const char *text)
{
	struct sim_goal *s = to;
	const struct {
		const char *name, **file;
	} kinds[] = {{"os:", &s->os}, {"latency:", &s->latency}, {"bandwidth:", &s->bandwidth}};

	for (unsigned i = 0; i < 3; i++) {
		const size_t n = strlen(kinds[i].name);

		if (strncmp(text, kinds[i].name, n) || !text[n])
			continue;
		*kinds[i].file = text + n;
		return 0;
	}
	return -EINVAL;
}

int sim_skip_take(const char *text, uint32_t *skip, uint32_t *of)
{
	uint64_t k, n;

	text = take_decimal(text, 0, &k);
	if (!text || *text != '/')
		return -EINVAL;
	text = take_decimal(text + 1, 0, &n);
	if (!text || *text || !n || k >= n || n > UINT32_MAX)
		return -EINVAL;
	*skip = (uint32_t)k;
	*of = (uint32_t)n;
	return 0;
}

static int take_skip(void *to, const char *text)
{
	struct sim_goal *s = to;

	return sim_skip_take(text, &s->skip, &s->of);
}

const struct sim_goal sim_goal_default = {.ranks = 8, .pattern.size = 1, .memory = 4ull << 30, .runs = 1, .seed = 1};

const struct option_row sim_goal_schedule_rows[] = {
	{"pattern", 0, OPTION_WORD, "NAME", "a collective operation, as schedgen has it, instead of FILE", AT(shape),
	 .words = goal_pattern_names},
	{"ranks", 'n', OPTION_NUMBER, "N", "of a pattern (8)", AT(ranks), .least = 1, .most = GOAL_RANKS_MAX},
	{"size", 's', OPTION_SIZE, "N", "of a pattern: bytes of a message; of rings and allreduces, of the buffer (1)",
	 AT(pattern.size), .least = 1, .most = GOAL_SIZE_MAX},
	{"segment", 0, OPTION_SIZE, "N", "of pipelined patterns: bytes of a message (--size / --ranks)",
	 AT(pattern.segment), .least = 1, .most = GOAL_SIZE_MAX},
	{"root", 0, OPTION_NUMBER, "N", "of a pattern: the rank that begins or ends it (0)", AT(root),
	 .most = GOAL_RANKS_MAX - 1},
	{"ways", 0, OPTION_NUMBER, "N", "of nwaydissemination: messages of a rank in a round (1)", AT(ways), .least = 1,
	 .most = 1024},
	{"no-calc", 0, OPTION_FLAG, NULL, "calculations of a pattern take no time", AT(pattern.no_calc)},
	{"write", 'w', OPTION_STRING, "FILE",
	 "write the schedule as GOAL, and do not simulate it; - is standard output", AT(write), .least = 1,
	 .wants = "the name of a file"},
	{"memory", 0, OPTION_SIZE, "N", "what the schedule may take of memory (4G)", AT(memory), .least = 1 << 20,
	 .most = 1ull << 50},
	{0},
};

static const struct option_row model_rows[] = {
	{"topology", 0, OPTION_STRING, "T", "over this network of switches, instead of by LogGOPS", AT(topology),
	 .least = 1, .wants = "a topology"},
	{"loggops", 0, OPTION_CALL, "L,o,g,G,O,S", "ns, ns a byte (G, O) and bytes (S) (2500,1500,1000,6,0,65535)",
	 .take = take_loggops, .wants = "L,o,g,G,O,S: five decimals with at most 3 places, and bytes"},
	{"handshake", 0, OPTION_FLAG, NULL, "a message above S arrives 2L later (always with --system)", AT(handshake)},
	{"full-duplex", 0, OPTION_FLAG, NULL,
	 "a message that comes in holds the processor for o + (s-1)O alone, not for G: hosts send meanwhile",
	 AT(full_duplex)},
	{"system", 0, OPTION_WORD, "NAME", "the parameters of a system as they were published", AT(system),
	 .words = goal_system_names},
	{"racks", 0, OPTION_WORD, "far|near|published",
	 "far: between switches by the system's values for that; near: all in one rack; published: as the published "
	 "runs, near values everywhere unless they are drawn (far)",
	 AT(racks), .words = racks},
	{"nodes-per-switch", 0, OPTION_NUMBER, "N", "instead of the system's", AT(nodes_per_switch), .least = 1,
	 .most = GOAL_RANKS_MAX},
	{0},
};

static const struct option_row noise_rows[] = {
	{"noise", 0, OPTION_CALL, "os:FILE|latency:FILE|bandwidth:FILE",
	 "os: detours that hosts take; latency, bandwidth: L and G are drawn from what was measured; may come thrice",
	 .take = take_noise, .wants = "os:FILE, latency:FILE or bandwidth:FILE"},
	{"skip", 0, OPTION_CALL, "K/N", "leave out the first K of each N lines of latency and bandwidth (0/1)",
	 .take = take_skip, .wants = "K/N with K < N"},
	{"coscheduled", 0, OPTION_FLAG, NULL, "the detours of all ranks come at the same time", AT(coscheduled)},
	{"runs", 0, OPTION_NUMBER, "N", "with noise: as many, each with other draws (1)", AT(runs), .least = 1,
	 .most = GOAL_RUNS_MAX},
	{"seed", 0, OPTION_NUMBER, "N", "the same seed draws the same (1)", AT(seed),
	 .most = INT64_MAX /* JSON has no more */},
	{"jobs", 'j', OPTION_NUMBER, "N", "threads, for several runs (one per processor)", AT(jobs), .least = 1,
	 .most = 64},
	{"times", 0, OPTION_STRING, "FILE", "write each run's time to FILE, in seconds, one a line", AT(times),
	 .least = 1, .wants = "the name of a file"},
	{"rank-times", 0, OPTION_FLAG, NULL, "show when each rank ended, in the first run", AT(rank_times)},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", AT(json)},
	{0},
};

int sim_goal_schedule_asked(struct sim_goal *s, const struct options *o)
{
	static const char *const of_patterns[] = {"ranks", "size", "segment", "root", "ways", "no-calc", NULL};

	s->has_shape = options_has(o, "pattern");
	s->file = o->arguments ? o->argument[0] : NULL;
	if (!s->file == !s->has_shape)
		return options_misuse(o->usage, s->file ? "FILE and --pattern say the same: only one can be given"
							: "FILE or --pattern is missing");
	for (unsigned i = 0; s->file && of_patterns[i]; i++)
		if (options_has(o, of_patterns[i]))
			return options_misuse(o->usage, "only --pattern has --%s", of_patterns[i]);
	if (s->has_shape && s->root >= s->ranks)
		return options_misuse(o->usage, "--root must be less than --ranks");
	s->pattern.name = goal_pattern_names[s->shape];
	s->pattern.ranks = (uint32_t)s->ranks;
	s->pattern.root = (uint32_t)s->root;
	s->pattern.ways = (uint32_t)s->ways;
	s->pattern.seed = s->seed;
	s->pattern.memory = s->memory;
	return OPTIONS_GO_ON;
}

static int check(struct sim_goal *s, const struct options *o)
{
	const int status = sim_goal_schedule_asked(s, o);

	if (status != OPTIONS_GO_ON)
		return status;
	s->has_system = options_has(o, "system");
	s->has_loggops = options_has(o, "loggops");
	if (s->has_system && s->has_loggops)
		return options_misuse(&usage, "--system and --loggops say the same: only one can be given");
	if (options_has(o, "racks") && !s->has_system)
		return options_misuse(&usage, "--racks needs --system");
	if (s->nodes_per_switch && (!s->has_system || s->racks == GOAL_NEAR))
		return options_misuse(&usage, "--nodes-per-switch needs --system, and racks that are not near");
	if (s->coscheduled && !s->os)
		return options_misuse(&usage, "--coscheduled needs --noise os:FILE");
	if (s->of && !s->latency && !s->bandwidth)
		return options_misuse(&usage, "--skip needs --noise latency:FILE or bandwidth:FILE");
	if (s->runs > 1 && !s->os && !s->latency && !s->bandwidth)
		return options_misuse(&usage, "--runs needs --noise: without, all runs are the same");
	return OPTIONS_GO_ON;
}

int sim_goal_arguments(struct sim_goal *s, int argc, char **argv)
{
	struct options o = {&usage,
			    {{NULL, sim_goal_schedule_rows, s, NULL},
			     {"The model:", model_rows, s, NULL},
			     {"Noise, and what is shown:", noise_rows, s, NULL}}};
	int status;

	*s = sim_goal_default;
	status = options_parse(&o, argc, argv);
	return status == OPTIONS_GO_ON ? check(s, &o) : status;
}
