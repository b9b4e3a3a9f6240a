/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs schedules of training: when steps end, what the server of asynchronous updates adds, and whether sums are right.
 */
#include "train_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct run {
	const struct train *train;
	const struct train_world *world;
	struct train_outcome *outcome;
	uint32_t *joined; /* of each rank: how many steps it has ended */
	uint64_t *read;	  /* of each worker: how many updates its parameters contain; NULL: it does not matter */
	const struct train_watch *watch; /* may be NULL */
	struct sp_random random;	 /* of latencies */
};

static sp_time stretch(void *arg, uint32_t rank, uint8_t cpu, sp_time from, sp_time work)
{
	const struct run *r = arg;

	return cpu == TRAIN_HOST ? r->world->stretch(r->world->arg, rank, cpu, from, work) : from + work;
}

static sp_time latency(void *arg, uint32_t rank, uint32_t op)
{
	struct run *r = arg;
	const uint8_t nic = goal_op(r->train->goal, rank, op)->nic;

	return nic == TRAIN_NETWORK ? goal_draw(r->world->latency, &r->random) : r->world->nic[nic].latency;
}

/* The server answers worker 0, and all others with copies. */
static bool copy(void *arg, uint32_t rank, uint32_t op)
{
	const struct run *r = arg;

	return rank == r->train->config.workers && goal_op(r->train->goal, rank, op)->peer;
}

/* An update of a worker is there. It gets the parameters that contain it. */
static void update(struct run *r, uint32_t worker)
{
	struct train_outcome *o = r->outcome;
	const uint64_t stale = o->updates - r->read[worker];

	o->stale_sum += stale;
	if (stale > o->stale_most)
		o->stale_most = stale;
	r->read[worker] = ++o->updates;
}

static void done(void *arg, uint32_t rank, uint32_t op, sp_time now, uint32_t chain)
{
	struct run *r = arg;
	const struct train *t = r->train;
	const uint32_t step = r->joined[rank];
	const struct goal_op *o = goal_op(t->goal, rank, op);

	if (r->read && rank == t->config.workers && o->type == GOAL_RECV)
		update(r, o->peer);
	if (r->watch)
		r->watch->done(r->watch->arg, rank, op, now);
	if (train_has_store(&t->config) && rank + 1 == t->ranks)
		return; /* storage makes no steps */
	if (step == t->config.steps || t->join[(uint64_t)rank * t->config.steps + step] != op)
		return;
	r->joined[rank]++;
	if (r->outcome->step[step] < now)
		r->outcome->step[step] = now;
	if (!step && r->outcome->rounds < chain)
		r->outcome->rounds = chain;
}

static void moved(void *arg, uint32_t sender, uint32_t send_op, uint32_t receiver, uint32_t receive_op)
{
	const struct run *r = arg;

	r->watch->moved(r->watch->arg, sender, send_op, receiver, receive_op);
}

int train_run_watched(const struct train *t, const struct train_world *world, const struct train_watch *watch,
		      struct train_outcome *outcome)
{
	struct run run = {.train = t, .world = world, .outcome = outcome, .watch = watch};
	struct links_config c = {.goal = t->goal, .done = done, .moved = watch ? moved : NULL, .arg = &run};
	int err = -ENOMEM;

	memcpy(c.nic, world->nic, sizeof(c.nic));
	memcpy(c.overhead, world->overhead, sizeof(c.overhead));
	c.stretch = world->stretch ? stretch : NULL;
	c.latency = world->latency ? latency : NULL;
	sp_random_seed(&run.random, world->seed, ~0ull); /* lower streams are those of stalls */
	c.copy = t->config.multicast ? copy : NULL;
	*outcome = (struct train_outcome){.node = calloc(t->ranks, sizeof(*outcome->node)),
					  .step = calloc(t->config.steps, sizeof(*outcome->step))};
	run.joined = calloc(t->ranks, sizeof(*run.joined));
	if (t->config.scheme == TRAIN_PS_ASYNC)
		run.read = calloc(t->config.workers, sizeof(*run.read));
	if (outcome->node && outcome->step && run.joined && (run.read || t->config.scheme != TRAIN_PS_ASYNC))
		err = links_run(&c, outcome->node, &outcome->all);
	free(run.joined);
	free(run.read);
	return err;
}

int train_run(const struct train *t, const struct train_world *world, struct train_outcome *outcome)
{
	return train_run_watched(t, world, NULL, outcome);
}

uint32_t train_step_of(const struct train *t, uint32_t rank, uint32_t op)
{
	const uint32_t *join = t->join + (uint64_t)rank * t->config.steps;
	uint32_t least = 0, beyond = t->config.steps;

	while (least < beyond) {
		const uint32_t middle = least + (beyond - least) / 2;

		if (join[middle] < op)
			least = middle + 1;
		else
			beyond = middle;
	}
	return least;
}

void train_outcome_free(struct train_outcome *outcome)
{
	free(outcome->node);
	free(outcome->step);
	outcome->node = NULL;
	outcome->step = NULL;
}
