/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the messages of a step of training make the right sums known to those that must have them. */
#include "train_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"

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

uint32_t train_parts_of(const struct train_config *c)
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
	struct sums s = {.parts = train_parts_of(config)};
	struct train *train;
	int err;

	if (!s.parts)
		return -ENOTSUP;
	c.steps = 1;
	c.compute = 0;
	c.checkpoint = 0;
	c.restore = c.dies = false;
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
