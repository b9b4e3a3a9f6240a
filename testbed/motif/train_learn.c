/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training with numbers. A rank has gradients and sums of two steps: who is a step ahead of others must not overwrite
 * what is on its way to them. Nobody is two ahead: nobody ends a step before all have begun it.
 */
#include "train_learn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "train_private.h"

struct learn {
	const struct train *train;
	const struct train_keeper *keeper;
	struct train_learned *learned;
	struct train_state *worker; /* of each */
	struct train_state kept[2]; /* checkpoints on their way, alternately */
	sp_time began[2];
	uint32_t sends;	      /* of checkpoints that worker 0 has begun */
	uint32_t sent;	      /* ... and that have left it whole, before it died */
	uint32_t *own, *have; /* [(rank * 2 + step % 2) * numbers]: gradients; what became of them */
	uint32_t numbers, parts;
	sp_time now;
	int err;
};

static uint32_t *at(const struct learn *l, uint32_t *of, uint32_t rank, uint32_t step)
{
	return of + ((uint64_t)rank * 2 + step % 2) * l->numbers;
}

/* ---- a worker ---- */
static void gradients(struct learn *l, uint32_t rank, uint32_t step)
{
	const struct train_config *c = &l->train->config;
	const uint64_t k = (uint64_t)c->before + step;
	uint32_t *own = at(l, l->own, rank, step), *have = at(l, l->have, rank, step);

	if (rank >= c->workers) {
		memset(have, 0, l->numbers * sizeof(*have));
		return;
	}
	for (uint32_t i = 0; i < l->numbers; i++) {
		uint64_t x = l->worker[rank].seed ^ (k << 32 | (uint64_t)rank << 20 | i);
		const int32_t wanted = (int32_t)(sp_splitmix(&x) >> 44) - (1 << 19);

		own[i] = (uint32_t)(((int64_t)l->worker[rank].parameter[i] - wanted) >> 4);
	}
	memcpy(have, own, l->numbers * sizeof(*have));
}

static void descend(struct learn *l, uint32_t rank, uint32_t step)
{
	struct train_state *w = &l->worker[rank];
	const uint32_t *sum = at(l, l->have, rank, step);

	for (uint32_t i = 0; i < l->numbers; i++) {
		const int64_t m = w->momentum[i];

		w->momentum[i] = (int32_t)(uint32_t)(m + (int32_t)sum[i] / (int64_t)w->workers - (m >> 3));
		w->parameter[i] = (int32_t)((uint32_t)w->parameter[i] - (uint32_t)(w->momentum[i] >> 2));
	}
	w->steps++;
}

/* ---- checkpoints ---- */
static bool is_last_part(const struct learn *l, const struct goal_op *op)
{
	return op->type != GOAL_CALC && op->tag >> TRAIN_ACTION == TRAIN_KEEP &&
	       (op->tag & TRAIN_TAG) + 1 == train_checkpoint_parts(&l->train->config);
}

static void begin_checkpoint(struct learn *l, sp_time now)
{
	const unsigned k = l->sends++ % 2;

	l->began[k] = now;
	if (!l->err)
		l->err = train_state_copy(&l->kept[k], &l->worker[0]);
}

/* All of the oldest one that was on its way is there. */
static void end_checkpoint(struct learn *l, sp_time now)
{
	const struct train_config *c = &l->train->config;
	struct train_learned *d = l->learned;
	const unsigned k = d->checkpoints % 2;

	if (d->died != SP_NEVER && (now > d->died + l->keeper->until || (!c->dying && d->checkpoints >= l->sent)))
		return;
	d->checkpoints++;
	d->checkpoint_time = now - l->began[k];
	if (l->keeper->keep && !l->err)
		l->err = l->keeper->keep(l->keeper->arg, &l->kept[k]);
}

/* ---- the schedule ---- */
static void moved(void *arg, uint32_t sender, uint32_t send_op, uint32_t receiver, uint32_t receive_op)
{
	struct learn *l = arg;
	const struct train *t = l->train;
	const uint32_t tag = goal_op(t->goal, sender, send_op)->tag, part = tag & TRAIN_TAG;
	const enum train_action action = tag >> TRAIN_ACTION;
	const uint32_t step = train_step_of(t, sender, send_op);
	const uint32_t *from = at(l, action == TRAIN_ADD_OWN ? l->own : l->have, sender, step);
	uint32_t *to = at(l, l->have, receiver, step);
	uint64_t end;

	(void)receive_op;
	if (action == TRAIN_KEEP)
		return;
	end = train_part_begin(l->numbers, part + 1, l->parts);
	for (uint64_t i = train_part_begin(l->numbers, part, l->parts); i < end; i++)
		to[i] = action == TRAIN_STORE ? from[i] : to[i] + from[i];
}

static void done(void *arg, uint32_t rank, uint32_t op, sp_time now)
{
	struct learn *l = arg;
	const struct train *t = l->train;
	const struct train_config *c = &t->config;
	const struct goal_op *o = goal_op(t->goal, rank, op);
	const uint32_t step = train_step_of(t, rank, op);

	if (c->dies && rank == c->dying && op == t->death)
		l->learned->died = now;
	if (is_last_part(l, o)) {
		if (o->type == GOAL_SEND)
			l->sent += l->learned->died == SP_NEVER || c->dying;
		else
			end_checkpoint(l, now);
	}
	if (step == c->steps || t->join[(uint64_t)rank * c->steps + step] != op)
		return;
	if (rank < c->workers)
		descend(l, rank, step);
	if (!rank && train_checkpoint_due(c, step))
		begin_checkpoint(l, now);
	if (step + 1 < c->steps)
		gradients(l, rank, step + 1);
}

/* ---- begin and end ---- */
static int prepare(struct learn *l, const struct train_state *state)
{
	const struct train_config *c = &l->train->config;
	const uint64_t all = (uint64_t)l->train->ranks * 2 * l->numbers;
	int err = 0;

	l->own = malloc(all * sizeof(*l->own));
	l->have = malloc(all * sizeof(*l->have));
	l->worker = calloc(c->workers, sizeof(*l->worker));
	if (!l->own || !l->have || !l->worker)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < c->workers && !err; rank++)
		err = train_state_copy(&l->worker[rank], state);
	for (uint32_t rank = 0; rank < l->train->ranks && !err; rank++)
		gradients(l, rank, 0);
	return err;
}

static void clear(struct learn *l)
{
	for (uint32_t rank = 0; l->worker && rank < l->train->config.workers; rank++)
		train_state_free(&l->worker[rank]);
	train_state_free(&l->kept[0]);
	train_state_free(&l->kept[1]);
	free(l->worker);
	free(l->own);
	free(l->have);
}

static int conclude(struct learn *l, struct train_state *state)
{
	for (uint32_t rank = 1; rank < l->train->config.workers; rank++)
		if (!train_state_equal(&l->worker[rank], &l->worker[0]))
			return -EBADMSG;
	return train_state_copy(state, &l->worker[0]);
}

int train_learn(const struct train *t, const struct train_world *world, const struct train_keeper *keeper,
		struct train_state *state, struct train_learned *learned)
{
	static const struct train_keeper nobody;
	const struct train_config *c = &t->config;
	struct learn l = {.train = t,
			  .keeper = keeper ? keeper : &nobody,
			  .learned = learned,
			  .numbers = state->numbers,
			  .parts = train_parts_of(c)};
	const struct train_watch watch = {moved, done, &l};
	int err;

	*learned = (struct train_learned){.died = SP_NEVER};
	if (!l.parts || c->scheme == TRAIN_REDUCE_SCATTER || state->workers != c->workers || state->steps != c->before)
		return -EINVAL;
	if ((uint64_t)t->ranks * l.numbers > TRAIN_LEARN_NUMBERS_MAX)
		return -E2BIG;
	err = prepare(&l, state);
	if (!err)
		err = train_run_watched(t, world, &watch, &learned->outcome);
	if (err == -EDEADLK && learned->died != SP_NEVER)
		err = 0; /* the others wait for it */
	err = err ? err : l.err;
	if (!err && learned->died == SP_NEVER)
		err = conclude(&l, state);
	clear(&l);
	return err;
}
