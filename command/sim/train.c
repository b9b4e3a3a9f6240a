/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim train: the messages of distributed training over full-duplex links, with the hosts' noise if it is
 * wanted. */
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../testbed/goal/text.h"
#include "../../testbed/motif/stalls.h"
#include "../options.h"
#include "../output.h"
#include "asked.h"
#include "goal.h"
#include "words.h"

#define NAME "sim train"

int sim_train_failed(int err)
{
	if (err == -ERANGE)
		return command_fail(NAME, "it takes more than 2^62 ps, 53 days");
	return command_fail(NAME, "%s", strerror(-err));
}

/* One run; its outcome is kept if `r` is given. */
static int run(const struct train *t, const struct train_world *world, struct train_outcome *outcome)
{
	const int err = train_run(t, world, outcome);

	return err ? sim_train_failed(err) : 0;
}

struct noises {
	struct goal_detours detours;
	struct stalls stalls;
	struct goal_draws latency;
};

static int add_detours(const struct sim_train *s, const struct train *t, struct train_world *world, struct noises *n)
{
	int status = sim_detours_read(NAME, s->os, &n->detours), err;

	if (status)
		return status;
	err = stalls_create(&n->stalls, &n->detours, t->ranks, s->coscheduled, s->seed);
	if (err == -ERANGE)
		return command_fail(NAME, "%s: the detours take %.3g %% of the time, more than %g %%", s->os,
				    100 * goal_detours_share(&n->detours), 100 * STALLS_SHARE_MAX);
	world->stretch = stalls_stretch;
	world->arg = &n->stalls;
	return err ? sim_train_failed(err) : 0;
}

static int add_latencies(const struct sim_train *s, struct train_world *world, struct noises *n)
{
	world->latency = &n->latency;
	world->seed = s->seed;
	return sim_draws_read(NAME, s->latencies, GOAL_TIME, 0, 0, &s->latency, 1, &n->latency);
}

static void free_noises(struct noises *n)
{
	stalls_free(&n->stalls);
	goal_detours_free(&n->detours);
	goal_draws_free(&n->latency);
}

static int run_with_noise(const struct sim_train *s, const struct train *t, struct sim_train_result *r)
{
	struct train_world world = s->world;
	struct train_outcome quiet = {0};
	struct noises noises = {0};
	int status = s->os ? add_detours(s, t, &world, &noises) : 0;

	if (!status && s->latencies)
		status = add_latencies(s, &world, &noises);
	if (!status)
		status = run(t, &s->world, &quiet);
	r->quiet = quiet.all.end;
	train_outcome_free(&quiet);
	if (!status)
		status = run(t, &world, &r->outcome);
	free_noises(&noises);
	return status;
}

static int check_sums(const struct sim_train *s, struct sim_train_result *r)
{
	const int err = train_sums(&s->config, &r->compared);

	if (err == -EBADMSG)
		return command_fail(NAME, "a worker has a wrong sum");
	return err && err != -ENOTSUP ? sim_train_failed(err) : 0;
}

static int simulate(const struct sim_train *s, const struct train *t)
{
	const double began = sim_seconds();
	struct sim_train_result r = {0};
	int status = s->learns		     ? sim_train_learn(s, t, &r)
		     : s->os || s->latencies ? run_with_noise(s, t, &r)
					     : run(t, &s->world, &r.outcome);

	if (!status)
		status = check_sums(s, &r);
	r.wall = sim_seconds() - began;
	if (!status)
		status = sim_train_show(s, t, &r);
	train_outcome_free(&r.outcome);
	return status;
}

static int write_goal(const struct sim_train *s, const struct train *t)
{
	const bool is_file = strcmp(s->write, "-");
	FILE *f = is_file ? fopen(s->write, "w") : stdout;
	int err;

	if (!f)
		return command_fail(NAME, "--write %s: %s", s->write, strerror(errno));
	err = goal_write(t->goal, f);
	if (is_file && fclose(f))
		err = -EIO;
	return err ? command_fail(NAME, "--write %s: cannot be written", s->write) : 0;
}

int sim_train_create(const struct sim_train *s, const struct train_config *c, struct train **t)
{
	const int err = train_create(c, t);

	if (err == -E2BIG)
		return command_fail(NAME, "%s with so many workers, steps and parts has more than %u operations",
				    sim_train_schemes[s->scheme], TRAIN_OPS_MAX);
	return err ? sim_train_failed(err) : 0;
}

int sim_train(int argc, char **argv)
{
	struct train *t = NULL;
	struct sim_train s;
	int status = sim_train_arguments(&s, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	status = s.learns ? sim_train_learn_begin(&s) : 0;
	if (!status)
		status = sim_train_create(&s, &s.config, &t);
	if (!status)
		status = s.write ? write_goal(&s, t) : simulate(&s, t);
	train_destroy(t);
	train_state_free(&s.state);
	return status;
}
