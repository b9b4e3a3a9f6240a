/* SPDX-License-Identifier: BSD-3-Clause */
/* Which message a receive gets: of those from one rank, in the order in which they were sent. */
#include <errno.h>
#include <stdlib.h>

#include "run_private.h"

/* ---- queues of transfers ---- */
static void queue_add(struct run *r, struct queue *q, uint32_t t)
{
	r->transfer[t].behind = NONE;
	if (q->first == NONE)
		q->first = t;
	else
		r->transfer[q->last].behind = t;
	q->last = t;
}

/* Takes out what comes after `before` (NONE: the first). */
static void queue_cut(struct run *r, struct queue *q, uint32_t before, uint32_t t)
{
	if (before == NONE)
		q->first = r->transfer[t].behind;
	else
		r->transfer[before].behind = r->transfer[t].behind;
	if (q->last == t)
		q->last = before;
	r->transfer[t].behind = NONE;
}

/* ---- pairs of ranks ---- */
static struct pair *slot(struct pair *all, uint32_t room, uint64_t key)
{
	uint64_t at = (key * 0x9E3779B97F4A7C15u) >> 20;

	for (;; at++) {
		struct pair *p = &all[at & (room - 1)];

		if (!p->key || p->key == key)
			return p;
	}
}

static int grow(struct run *r)
{
	const uint32_t room = r->pair_room ? 2 * r->pair_room : 1024;
	struct pair *all = room < 1u << 31 ? calloc(room, sizeof(*all)) : NULL;

	if (!all)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->pair_room; i++)
		if (r->pair[i].key)
			*slot(all, room, r->pair[i].key) = r->pair[i];
	free(r->pair);
	r->pair = all;
	r->pair_room = room;
	return 0;
}

struct pair *match_pair(struct run *r, uint32_t src, uint32_t dst)
{
	const uint64_t key = (uint64_t)(src + 1) << 32 | dst;
	struct pair *p;

	if (2 * r->pairs >= r->pair_room && grow(r)) {
		r->err = -ENOMEM;
		return NULL;
	}
	p = slot(r->pair, r->pair_room, key);
	r->pairs += !p->key;
	p->key = key;
	return p;
}

/* ---- receives ---- */
static bool fits(const struct goal_op *op, const struct transfer *x)
{
	return (op->peer == GOAL_ANY || op->peer == x->src) && (op->tag == GOAL_ANY || op->tag == x->tag);
}

static uint32_t posted_new(struct run *r)
{
	if (r->posted_free != NONE) {
		const uint32_t p = r->posted_free;

		r->posted_free = r->posted[p].next;
		return p;
	}
	if (r->posteds == r->posted_room) {
		const uint32_t room = r->posted_room ? 2 * r->posted_room : 1024;
		struct posted *all = room < 1u << 31 ? realloc(r->posted, room * sizeof(*all)) : NULL;

		if (!all)
			return NONE;
		r->posted = all;
		r->posted_room = room;
	}
	return r->posteds++;
}

void match_post(struct run *r, uint32_t rank, uint32_t op)
{
	const struct goal_op *recv = goal_op(r->g, rank, op);
	struct queue *waiting = &r->rank[rank].waiting, *q = &r->rank[rank].receives;
	uint32_t p, before = NONE, looked = 0;

	if (r->nic.transport == MOTIF_MPI && recv->size > r->nic.mpi.eager)
		run_host(r, rank, transfer_registering(r, recv->size));
	for (uint32_t t = waiting->first; t != NONE; before = t, t = r->transfer[t].behind, looked++)
		if (fits(recv, &r->transfer[t])) {
			queue_cut(r, waiting, before, t);
			r->transfer[t].recv = op;
			transfer_matched(r, t, looked + 1);
			return;
		}
	transfer_looked(r, rank, looked);
	p = posted_new(r);
	if (p == NONE) {
		r->err = -ENOMEM;
		return;
	}
	r->posted[p] = (struct posted){op, NONE};
	if (q->first == NONE)
		q->first = p;
	else
		r->posted[q->last].next = p;
	q->last = p;
}

/* The first receive that fits. */
static void match(struct run *r, uint32_t t)
{
	struct transfer *x = &r->transfer[t];
	struct queue *q = &r->rank[x->dst].receives;
	uint32_t before = NONE, looked = 0;

	for (uint32_t p = q->first; p != NONE; before = p, p = r->posted[p].next) {
		looked++;
		if (!fits(goal_op(r->g, x->dst, r->posted[p].op), x))
			continue;
		if (before == NONE)
			q->first = r->posted[p].next;
		else
			r->posted[before].next = r->posted[p].next;
		if (q->last == p)
			q->last = before;
		x->recv = r->posted[p].op;
		r->posted[p].next = r->posted_free;
		r->posted_free = p;
		transfer_matched(r, t, looked);
		return;
	}
	transfer_looked(r, x->dst, looked);
	r->o->unexpected++;
	queue_add(r, &r->rank[x->dst].waiting, t);
}

/* Among those that have overtaken, the one whose turn it is; NONE. */
static uint32_t held_next(struct run *r, uint32_t src, uint32_t dst, uint64_t order)
{
	struct queue *held = &r->rank[dst].held;
	uint32_t before = NONE;

	for (uint32_t t = held->first; t != NONE; before = t, t = r->transfer[t].behind)
		if (r->transfer[t].src == src && r->transfer[t].order == order) {
			queue_cut(r, held, before, t);
			return t;
		}
	return NONE;
}

void match_arrived(struct run *r, uint32_t t)
{
	const uint32_t src = r->transfer[t].src, dst = r->transfer[t].dst;
	struct pair *pair = match_pair(r, src, dst);

	if (!pair)
		return;
	if (r->transfer[t].order != pair->taken) {
		r->o->overtaking++;
		queue_add(r, &r->rank[dst].held, t);
		return;
	}
	for (; t != NONE; t = held_next(r, src, dst, pair->taken)) {
		pair->taken++;
		match(r, t);
	}
}
