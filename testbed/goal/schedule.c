/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules: operations per rank in an array, dependencies as pairs until goal_finish() packs them. */
#include "schedule.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct pair {
	uint32_t op, before; /* op with GOAL_STARTED: irequires */
};

struct rank {
	struct goal_op *op;
	struct pair *pair;   /* until finished */
	uint32_t *successor; /* once finished */
	uint32_t ops, room, pairs, pair_room;
};

struct goal {
	uint32_t ranks, bad_rank, bad_op;
	bool finished;
	struct rank rank[];
};

int goal_create(uint32_t ranks, struct goal **g)
{
	if (!ranks || ranks > GOAL_RANKS_MAX)
		return -EINVAL;
	*g = calloc(1, sizeof(**g) + ranks * sizeof((*g)->rank[0]));
	if (!*g)
		return -ENOMEM;
	(*g)->ranks = ranks;
	return 0;
}

void goal_destroy(struct goal *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->ranks; i++) {
		free(g->rank[i].op);
		free(g->rank[i].pair);
		free(g->rank[i].successor);
	}
	free(g);
}

/* Room for one more entry of `bytes` in *array. */
static int grow(void **array, uint32_t used, uint32_t *room, size_t bytes)
{
	const uint32_t wanted = *room ? *room + *room / 2 + 1 : 4;
	void *larger;

	if (used < *room)
		return 0;
	if (used >= GOAL_OPS_MAX)
		return -ENOSPC;
	larger = realloc(*array, wanted * bytes);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*room = wanted;
	return 0;
}

int goal_add(struct goal *g, uint32_t rank, const struct goal_op *op, uint32_t *index)
{
	struct rank *r = &g->rank[rank];
	void *array;
	int err;

	if (g->finished)
		return -EPERM;
	if (rank >= g->ranks || op->type > GOAL_CALC)
		return -EINVAL;
	array = r->op;
	err = grow(&array, r->ops, &r->room, sizeof(*r->op));
	r->op = array;
	if (err)
		return err;
	if (index)
		*index = r->ops;
	r->op[r->ops++] = *op;
	return 0;
}

static int depend(struct goal *g, uint32_t rank, uint32_t op, uint32_t before, uint32_t flag)
{
	struct rank *r = &g->rank[rank];
	void *array;
	int err;

	if (g->finished)
		return -EPERM;
	if (rank >= g->ranks || op >= r->ops || before >= r->ops)
		return -EINVAL;
	array = r->pair;
	err = grow(&array, r->pairs, &r->pair_room, sizeof(*r->pair));
	r->pair = array;
	if (err)
		return err;
	r->pair[r->pairs++] = (struct pair){op | flag, before};
	return 0;
}

int goal_requires(struct goal *g, uint32_t rank, uint32_t op, uint32_t before)
{
	return depend(g, rank, op, before, 0);
}

int goal_irequires(struct goal *g, uint32_t rank, uint32_t op, uint32_t before)
{
	return depend(g, rank, op, before, GOAL_STARTED);
}

/* ---- finish ---- */
static int check_peers(struct goal *g, const struct rank *r)
{
	for (uint32_t i = 0; i < r->ops; i++) {
		const struct goal_op *op = &r->op[i];

		if (op->type == GOAL_CALC)
			continue;
		if (op->type == GOAL_RECV && (op->peer < g->ranks || op->peer == GOAL_ANY))
			continue;
		if (op->type == GOAL_SEND && op->peer < g->ranks && op->tag != GOAL_ANY)
			continue;
		g->bad_op = i;
		return -EINVAL;
	}
	return 0;
}

/* Pairs become lists of successors, in the order in which they were said. */
static int pack(struct rank *r)
{
	uint32_t sum = 0;
	void *less;

	for (uint32_t i = 0; i < r->ops; i++)
		r->op[i].first = 0;
	r->successor = malloc((r->pairs ? r->pairs : 1) * sizeof(*r->successor));
	if (!r->successor)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->pairs; i++)
		r->op[r->pair[i].before].first++;
	for (uint32_t i = 0; i < r->ops; i++) {
		sum += r->op[i].first;
		r->op[i].first = sum; /* the end, which filling from behind makes the begin */
	}
	for (uint32_t i = r->pairs; i--;)
		r->successor[--r->op[r->pair[i].before].first] = r->pair[i].op;
	free(r->pair);
	r->pair = NULL;
	less = r->ops ? realloc(r->op, r->ops * sizeof(*r->op)) : NULL;
	if (less)
		r->op = less;
	r->room = r->ops;
	return 0;
}

/* Takes away operation after operation that waits for none; what remains is in a circle, or behind one. `waits` and
 * `ready` have r->ops entries. */
static int check_loop(struct goal *g, uint32_t rank, uint32_t *waits, uint32_t *ready)
{
	const struct rank *r = &g->rank[rank];
	uint32_t have = 0;

	goal_waits(g, rank, waits);
	for (uint32_t i = 0; i < r->ops; i++)
		if (!waits[i])
			ready[have++] = i;
	for (uint32_t done = 0; done < have; done++) {
		uint32_t n;
		const uint32_t *s = goal_successors(g, rank, ready[done], &n);

		for (uint32_t i = 0; i < n; i++) {
			const uint32_t next = s[i] & ~GOAL_STARTED;

			if (!--waits[next])
				ready[have++] = next;
		}
	}
	if (have == r->ops)
		return 0;
	for (g->bad_op = 0; !waits[g->bad_op]; g->bad_op++)
		;
	return -ELOOP;
}

int goal_finish(struct goal *g)
{
	uint32_t most = 1, *scratch;
	int err = 0;

	if (g->finished)
		return -EPERM;
	for (uint32_t i = 0; i < g->ranks; i++)
		if (g->rank[i].ops > most)
			most = g->rank[i].ops;
	scratch = malloc(2 * (size_t)most * sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	g->finished = true;
	for (uint32_t i = 0; i < g->ranks && !err; i++) {
		g->bad_rank = i;
		err = check_peers(g, &g->rank[i]);
		err = err ? err : pack(&g->rank[i]);
		err = err ? err : check_loop(g, i, scratch, scratch + most);
	}
	free(scratch);
	return err;
}

void goal_fault(const struct goal *g, uint32_t *rank, uint32_t *op)
{
	*rank = g->bad_rank;
	*op = g->bad_op;
}

/* ---- read ---- */
uint32_t goal_ranks(const struct goal *g)
{
	return g->ranks;
}

uint32_t goal_ops(const struct goal *g, uint32_t rank)
{
	return g->rank[rank].ops;
}

uint64_t goal_ops_all(const struct goal *g)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < g->ranks; i++)
		sum += g->rank[i].ops;
	return sum;
}

const struct goal_op *goal_op(const struct goal *g, uint32_t rank, uint32_t i)
{
	return &g->rank[rank].op[i];
}

const uint32_t *goal_successors(const struct goal *g, uint32_t rank, uint32_t i, uint32_t *n)
{
	const struct rank *r = &g->rank[rank];
	const uint32_t end = i + 1 < r->ops ? r->op[i + 1].first : r->pairs;

	*n = end - r->op[i].first;
	return r->successor + r->op[i].first;
}

void goal_waits(const struct goal *g, uint32_t rank, uint32_t *waits)
{
	const struct rank *r = &g->rank[rank];

	if (r->ops)
		memset(waits, 0, r->ops * sizeof(*waits));
	for (uint32_t i = 0; i < r->pairs; i++)
		waits[r->successor[i] & ~GOAL_STARTED]++;
}

uint64_t goal_bytes(const struct goal *g)
{
	uint64_t sum = sizeof(*g);

	for (uint32_t i = 0; i < g->ranks; i++) {
		const struct rank *r = &g->rank[i];

		sum += sizeof(*r) + (uint64_t)r->room * sizeof(*r->op) +
		       (r->pair ? (uint64_t)r->pair_room * sizeof(*r->pair) : (uint64_t)r->pairs * 4);
	}
	return sum;
}
