/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim train with numbers: checkpoints in a file, a worker that dies, and what begins again from the file. */
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../options.h"
#include "../output.h"

#define NAME	"sim train"
#define NUMBERS 1024

static int failed(int err)
{
	if (err == -EBADMSG)
		return command_fail(NAME, "workers end with different parameters");
	if (err == -E2BIG)
		return command_fail(NAME, "so many workers have more than %u parameters together",
				    TRAIN_LEARN_NUMBERS_MAX);
	return sim_train_failed(err);
}

int sim_train_learn_begin(struct sim_train *s)
{
	struct train_config *c = &s->config;
	struct train_state read = {0};
	char why[512];

	if (train_state_create(&s->state, c->workers, s->parameters ? (uint32_t)s->parameters : NUMBERS, s->seed))
		return sim_train_failed(-ENOMEM);
	if (!s->resume)
		return 0;
	if (train_checkpoint_read(&read, &s->state, s->resume, why, sizeof(why)))
		return command_fail(NAME, "--resume %s", why);
	train_state_free(&s->state);
	s->state = read;
	if (read.steps >= c->steps)
		return command_fail(NAME, "--resume %s has %" PRIu64 " steps; --steps must be more", s->resume,
				    read.steps);
	if (s->kills && s->killed_step < read.steps)
		return command_fail(NAME, "--resume %s has %" PRIu64 " steps: --kill must be in a later one", s->resume,
				    read.steps);
	c->before = (uint32_t)read.steps;
	c->steps -= c->before;
	c->restore = true;
	return 0;
}

/* ---- runs ---- */
struct keeper {
	const char *file;
	int err; /* of writing it */
};

static int keep(void *arg, const struct train_state *state)
{
	struct keeper *k = arg;

	k->err = k->file ? train_checkpoint_write(state, k->file) : 0;
	return k->err;
}

/* Runs a schedule from a state to another; whoever calls frees the outcome. Returns the exit status. */
static int run(const struct sim_train *s, const struct train *t, struct train_state *state,
	       struct train_learned *learned)
{
	struct keeper file = {s->checkpoint_file, 0};
	const struct train_keeper keeper = {keep, &file, s->detect};
	const int err = train_learn(t, &s->world, &keeper, state, learned);

	if (file.err == -EEXIST)
		return command_fail(NAME, "--checkpoint-file %s is no file", s->checkpoint_file);
	if (file.err)
		return command_fail(NAME, "--checkpoint-file %s: %s", s->checkpoint_file, strerror(-file.err));
	return err ? failed(err) : 0;
}

static int run_new(const struct sim_train *s, const struct train_config *c, struct train_state *state,
		   struct train_learned *learned)
{
	struct train *t = NULL;
	int status = sim_train_create(s, c, &t);

	if (!status)
		status = run(s, t, state, learned);
	train_destroy(t);
	return status;
}

/* What the workers have when they begin again. */
static int restore(const struct sim_train *s, uint32_t checkpoints, struct train_state *state)
{
	char why[512];

	if (!checkpoints)
		return train_state_copy(state, &s->state) ? sim_train_failed(-ENOMEM) : 0;
	if (train_checkpoint_read(state, &s->state, s->checkpoint_file, why, sizeof(why)))
		return command_fail(NAME, "--checkpoint-file %s", why);
	return 0;
}

/* All workers begin again, from the last checkpoint that was there when they noticed the death. */
static int begin_again(const struct sim_train *s, struct train_state *state, struct sim_train_restart *r)
{
	const uint64_t all = (uint64_t)s->config.before + s->config.steps;
	struct train_config c = s->config;
	struct train_learned learned = {0};
	int status = restore(s, r->checkpoints, state);

	if (status)
		return status;
	r->from = state->steps;
	r->end = r->noticed;
	if (state->steps == all)
		return 0;
	c.restore = r->checkpoints || s->resume;
	c.before = (uint32_t)state->steps;
	c.steps = (uint32_t)(all - state->steps);
	status = run_new(s, &c, state, &learned);
	if (!status)
		r->end += learned.outcome.step[c.steps - 1];
	train_outcome_free(&learned.outcome);
	return status;
}

static int kill_and_restart(const struct sim_train *s, const struct train_state *undisturbed,
			    struct sim_train_restart *r)
{
	struct train_config c = s->config;
	struct train_learned learned = {0};
	struct train_state state = {0};
	int status;

	c.dies = true;
	c.dying = s->killed;
	c.dying_step = s->killed_step - c.before;
	status = train_state_copy(&state, &s->state) ? sim_train_failed(-ENOMEM) : 0;
	if (!status)
		status = run_new(s, &c, &state, &learned);
	train_outcome_free(&learned.outcome);
	r->died = learned.died;
	r->noticed = learned.died + s->detect;
	r->checkpoints = learned.checkpoints;
	train_state_free(&state);
	if (!status)
		status = begin_again(s, &state, r);
	if (!status) {
		r->equal = train_state_equal(&state, undisturbed);
		if (!r->equal)
			status = command_fail(NAME, "after the restart the parameters are not those of a run without a "
						    "death");
	}
	train_state_free(&state);
	return status;
}

int sim_train_learn(const struct sim_train *s, const struct train *t, struct sim_train_result *r)
{
	struct train_learned learned = {0};
	struct train_state state = {0};
	int status = train_state_copy(&state, &s->state) ? sim_train_failed(-ENOMEM) : 0;

	if (!status)
		status = run(s, t, &state, &learned);
	r->outcome = learned.outcome;
	r->checkpoints = learned.checkpoints;
	r->checkpoint_time = learned.checkpoint_time;
	if (!status) {
		r->digest = train_state_digest(&state);
		if (s->kills)
			status = kill_and_restart(s, &state, &r->restart);
	}
	train_state_free(&state);
	return status;
}
