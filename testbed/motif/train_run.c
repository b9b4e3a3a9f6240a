/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs schedules of training: when steps end, what the server of asynchronous updates adds, and whether sums are right.
 */
#include "train_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"

struct run {
	const struct train *train;
	const struct train_world *world;
	struct train_outcome *outcome;
	uint32_t *joined; /* of each rank: how many steps it has ended */
	uint64_t *read;	  /* of each worker: how many updates its parameters contain; NULL: it does not matter */
};

static sp_time stretch(void *arg, uint32_t rank, uint8_t cpu, sp_time from, sp_time work)
{
	const struct run *r = arg;

	return cpu == TRAIN_HOST ? r->world->stretch(r->world->arg, rank, cpu, from, work) : from + work;
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
	if (step == t->config.steps || t->join[(uint64_t)rank * t->config.steps + step] != op)
		return;
	r->joined[rank]++;
	if (r->outcome->step[step] < now)
		r->outcome->step[step] = now;
	if (!step && r->outcome->rounds < chain)
		r->outcome->rounds = chain;
}

int train_run(const struct train *t, const struct train_world *world, struct train_outcome *outcome)
{
	struct run run = {.train = t, .world = world, .outcome = outcome};
	struct links_config c = {.goal = t->goal, .done = done, .arg = &run};
	int err = -ENOMEM;

	memcpy(c.nic, world->nic, sizeof(c.nic));
	memcpy(c.overhead, world->overhead, sizeof(c.overhead));
	c.stretch = world->stretch ? stretch : NULL;
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

void train_outcome_free(struct train_outcome *outcome)
{
	free(outcome->node);
	free(outcome->step);
	outcome->node = NULL;
	outcome->step = NULL;
}

/* ---- sums ---- */
#define NUMBERS 4 /* of a part */

struct sums {
	const struct train *train;
	uint32_t parts;
	uint32_t *own, *have; /* [(rank * parts + part) * NUMBERS]: gradients; what became of them */
};

static uint32_t *at(const struct sums *s, uint32_t *numbers, uint32_t rank, uint32_t part)
{
	return numbers + ((uint64_t)rank * s->parts + part) * NUMBERS;
}

static void moved(void *arg, uint32_t sender, uint32_t send_op, uint32_t receiver, uint32_t receive_op)
{
	const struct sums *s = arg;
	const uint32_t tag = goal_op(s->train->goal, sender, send_op)->tag, part = tag & TRAIN_TAG;
	const enum train_action action = tag >> TRAIN_ACTION;
	const uint32_t *from = at(s, action == TRAIN_ADD_OWN ? s->own : s->have, sender, part);
	uint32_t *to = at(s, s->have, receiver, part);

	(void)receive_op;
	for (unsigned i = 0; i < NUMBERS; i++)
		to[i] = action == TRAIN_STORE ? from[i] : to[i] + from[i];
}

/* How many parts of the gradients travel by themselves; 0: this is no sum. */
static uint32_t parts_of(const struct train_config *c)
{
	switch (c->scheme) {
	case TRAIN_PS:
		return c->segments;
	case TRAIN_PS_SHARDED:
	case TRAIN_RING:
	case TRAIN_REDUCE_SCATTER:
		return c->workers;
	case TRAIN_DECENTRALISED:
		return 1;
	default:
		return 0;
	}
}

static uint64_t compare(const struct sums *s)
{
	const struct train_config *c = &s->train->config;
	uint64_t good = 0;

	for (uint32_t part = 0; part < s->parts; part++) {
		uint32_t sum[NUMBERS] = {0};

		for (uint32_t rank = 0; rank < c->workers; rank++)
			for (unsigned i = 0; i < NUMBERS; i++)
				sum[i] += at(s, s->own, rank, part)[i];
		for (uint32_t rank = 0; rank < c->workers; rank++) {
			/* Of half a ring, a worker has the part of the next one. */
			if (c->scheme == TRAIN_REDUCE_SCATTER && part != (rank + 1) % c->workers)
				continue;
			good += !memcmp(sum, at(s, s->have, rank, part), sizeof(sum));
		}
	}
	return good;
}

static int sums_run(struct sums *s)
{
	const uint64_t numbers = (uint64_t)s->train->ranks * s->parts * NUMBERS;
	const struct links_config c = {
		.goal = s->train->goal, .nic = {{SP_SEC / 1000, 1000}}, .moved = moved, .arg = s};
	struct links_node *node = calloc(s->train->ranks, sizeof(*node));
	struct links_result result;
	struct sp_random random;
	int err = -ENOMEM;

	s->own = calloc(numbers, sizeof(*s->own));
	s->have = calloc(numbers, sizeof(*s->have));
	if (node && s->own && s->have) {
		sp_random_seed(&random, 1, 0);
		for (uint64_t i = 0; i < (uint64_t)s->train->config.workers * s->parts * NUMBERS; i++)
			s->own[i] = s->have[i] = (uint32_t)sp_random_next(&random);
		err = links_run(&c, node, &result);
	}
	free(node);
	return err;
}

int train_sums(const struct train_config *config, uint64_t *compared)
{
	struct train_config c = *config;
	struct sums s = {.parts = parts_of(config)};
	struct train *train;
	int err;

	if (!s.parts)
		return -ENOTSUP;
	c.steps = 1;
	c.compute = 0;
	c.bytes = NUMBERS * 4; /* does not matter to the sums */
	err = train_create(&c, &train);
	if (err)
		return err;
	s.train = train;
	err = sums_run(&s);
	if (!err) {
		*compared = compare(&s);
		if (*compared < (c.scheme == TRAIN_REDUCE_SCATTER ? c.workers : (uint64_t)c.workers * s.parts))
			err = -EBADMSG;
	}
	free(s.own);
	free(s.have);
	train_destroy(train);
	return err;
}
