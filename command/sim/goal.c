/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim goal: a schedule, from GOAL or a pattern, executed by LogGOPS, with noise if it is wanted. */
#include "goal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../testbed/goal/runs.h"
#include "../../testbed/goal/text.h"
#include "../output.h"
#include "asked.h"
#include "words.h"

#define NAME "sim goal"

static FILE *open_input(const char *file)
{
	FILE *f = strcmp(file, "-") ? fopen(file, "r") : stdin;

	if (!f)
		command_fail(NAME, "%s: %s", file, strerror(errno));
	return f;
}

static void close_input(FILE *f)
{
	if (f != stdin)
		fclose(f);
}

/* ---- the schedule ---- */
static int read_goal(const struct sim_goal *s, struct goal **g)
{
	FILE *f = open_input(s->file);
	char why[512];
	int err;

	if (!f)
		return 1;
	err = goal_read(f, strcmp(s->file, "-") ? s->file : "standard input", s->memory, g, why, sizeof(why));
	close_input(f);
	return err ? command_fail(NAME, "%s%s", why, err == -E2BIG ? "; --memory allows more" : "") : 0;
}

static int make_goal(const struct sim_goal *s, struct goal **g)
{
	const struct goal_pattern *p = &s->pattern;
	const int err = goal_pattern_create(p, g);

	if (err == -EINVAL) {
		command_fail(NAME, "%s is not for %" PRIu32 " ranks: it wants a power of two", p->name, p->ranks);
		return 2;
	}
	if (err == -E2BIG)
		return command_fail(
			NAME, "%s of %" PRIu32 " ranks takes more than %" PRIu64 " MiB of memory; --memory allows more",
			p->name, p->ranks, p->memory >> 20);
	return err ? command_fail(NAME, "%s: %s", p->name, strerror(-err)) : 0;
}

int sim_goal_schedule(const struct sim_goal *s, struct goal **g)
{
	return s->file ? read_goal(s, g) : make_goal(s, g);
}

int sim_goal_write(const struct sim_goal *s, const struct goal *g)
{
	const bool is_file = strcmp(s->write, "-");
	FILE *f;
	int err;

	if (s->file && output_destroys(s->write, s->file))
		return command_fail(NAME, "--write %s would overwrite the schedule that is read", s->write);
	f = is_file ? fopen(s->write, "w") : stdout;
	if (!f)
		return command_fail(NAME, "--write %s: %s", s->write, strerror(errno));
	err = goal_write(g, f);
	if (is_file && fclose(f))
		err = -EIO;
	return err ? command_fail(NAME, "--write %s: cannot be written", s->write) : 0;
}

/* ---- noise ---- */
struct noises {
	struct goal_detours os;
	struct goal_draws latency[2], bandwidth[2]; /* near, far */
};

int sim_draws_read(const char *command, const char *file, enum goal_column column, uint32_t skip, uint32_t of,
		   const uint64_t *median, unsigned n, struct goal_draws *to)
{
	FILE *f = strcmp(file, "-") ? fopen(file, "r") : stdin;
	struct goal_draws raw;
	char why[512];
	int err;

	if (!f)
		return command_fail(command, "%s: %s", file, strerror(errno));
	err = goal_draws_read(&raw, f, file, column, skip, of, why, sizeof(why));
	close_input(f);
	if (err)
		return command_fail(command, "%s", why);
	if (!median) {
		*to = raw;
		return 0;
	}
	for (unsigned i = 0; i < n && !err; i++)
		err = goal_draws_scale(&raw, median[i], &to[i]);
	goal_draws_free(&raw);
	if (err == -EINVAL)
		return command_fail(command, "%s: the median is 0, which cannot be scaled", file);
	return err ? command_fail(command, "%s: %s", file, strerror(-err)) : 0;
}

int sim_detours_read(const char *command, const char *file, struct goal_detours *d)
{
	FILE *f = strcmp(file, "-") ? fopen(file, "r") : stdin;
	char why[512];
	int err;

	if (!f)
		return command_fail(command, "%s: %s", file, strerror(errno));
	err = goal_detours_read(d, f, file, why, sizeof(why));
	close_input(f);
	return err ? command_fail(command, "%s", why) : 0;
}

static int add_noise(const struct sim_goal *s, struct goal_loggops *p, struct noises *n)
{
	const struct goal_system *sys = s->has_system ? &goal_systems[s->system] : NULL;
	const bool far = sys && s->racks != GOAL_NEAR;
	const uint64_t L[2] = {p->hop[0].L, far ? sys->far.L : p->hop[1].L};
	const uint64_t G[2] = {p->hop[0].G, far ? sys->far.G : p->hop[1].G};
	int status = s->latency ? sim_draws_read(NAME, s->latency, GOAL_TIME, s->skip, s->of, L, 2, n->latency) : 0;

	if (!status && s->bandwidth)
		status = sim_draws_read(NAME, s->bandwidth, GOAL_A_BYTE, s->skip, s->of, G, 2, n->bandwidth);
	if (!status && s->os)
		status = sim_detours_read(NAME, s->os, &n->os);
	for (unsigned i = 0; i < 2; i++) {
		p->hop[i].latency = s->latency ? &n->latency[i] : NULL;
		p->hop[i].byte = s->bandwidth ? &n->bandwidth[i] : NULL;
	}
	p->detours = s->os ? &n->os : NULL;
	p->coscheduled = s->coscheduled;
	return status;
}

static void free_noise(struct noises *n)
{
	goal_detours_free(&n->os);
	for (unsigned i = 0; i < 2; i++) {
		goal_draws_free(&n->latency[i]);
		goal_draws_free(&n->bandwidth[i]);
	}
}

/* ---- runs ---- */
static struct goal_loggops parameters(const struct sim_goal *s)
{
	struct goal_loggops p = s->has_loggops ? s->loggops : goal_loggops_default;

	if (s->has_system)
		p = goal_system_loggops(&goal_systems[s->system], (enum goal_racks)s->racks);
	if (s->nodes_per_switch)
		p.nodes_per_switch = (uint32_t)s->nodes_per_switch;
	p.handshake |= s->handshake;
	p.full_duplex = s->full_duplex;
	p.seed = s->seed;
	return p;
}

static int failed(const struct sim_goal *s, const struct goal *g, int err, const struct goal_outcome *o)
{
	const char *name = s->file ? s->file : s->pattern.name;

	if (err == -EDEADLK && !o->undone)
		return command_fail(NAME,
				    "%s: rank %u receives less than is sent: %" PRIu64
				    " messages are left, the first from rank %u",
				    name, o->rank, o->unreceived, o->op);
	if (err == -EDEADLK)
		return command_fail(NAME,
				    "%s does not end: %" PRIu64 " operations are left; operation %u of rank %u, a %s, "
				    "is matched by none",
				    name, o->undone, o->op + 1, o->rank,
				    goal_op(g, o->rank, o->op)->type == GOAL_RECV ? "receive" : "send");
	if (err == -EINVAL)
		return command_fail(NAME, "%s: operation %u of rank %u is larger than 2^50", name, o->op + 1, o->rank);
	if (err == -E2BIG)
		return command_fail(NAME, "%s: with its numbers of processors and NICs it has too many of them in all",
				    name);
	if (err == -EOVERFLOW)
		return command_fail(NAME, "%s takes more than 2^63 ps, 106 days", name);
	return command_fail(NAME, "%s: %s", name, strerror(-err));
}

static int write_times(const struct sim_goal *s, const sp_time *end)
{
	FILE *f = fopen(s->times, "w");
	bool bad = !f;

	for (uint64_t i = 0; f && i < s->runs; i++)
		fprintf(f, "%.17g\n", (double)end[i] / (double)SP_SEC);
	if (f) {
		bad = ferror(f);
		bad |= fclose(f);
	}
	return bad ? command_fail(NAME, "--times %s: cannot be written", s->times) : 0;
}

static int execute(const struct sim_goal *s, const struct goal *g)
{
	struct goal_loggops p = parameters(s);
	struct sim_goal_result r = {.end = malloc(s->runs * sizeof(*r.end)),
				    .ranks = s->rank_times ? malloc(goal_ranks(g) * sizeof(*r.ranks)) : NULL};
	struct noises noises = {0};
	int status = r.end && (r.ranks || !s->rank_times) ? add_noise(s, &p, &noises)
							  : command_fail(NAME, "memory does not suffice");

	if (!status) {
		const double began = sim_seconds();
		const int err = goal_runs(g, &p, (uint32_t)s->runs, (uint32_t)s->jobs, r.end, &r.outcome, r.ranks);

		r.wall = sim_seconds() - began;
		status = err ? failed(s, g, err, &r.outcome) : 0;
	}
	if (!status && s->times)
		status = write_times(s, r.end);
	if (!status)
		status = sim_goal_show(s, g, &p, &r);
	free_noise(&noises);
	free(r.end);
	free(r.ranks);
	return status;
}

int sim_goal(int argc, char **argv)
{
	struct goal *g = NULL;
	struct sim_goal s;
	int status;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--topology") || !strncmp(argv[i], "--topology=", 11))
			return sim_goal_network(argc, argv);
	status = sim_goal_arguments(&s, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	status = sim_goal_schedule(&s, &g);
	if (!status)
		status = s.write ? sim_goal_write(&s, g) : execute(&s, g);
	goal_destroy(g);
	return status;
}
