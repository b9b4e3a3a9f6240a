/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue of events by time, then by age. What is pushed in order is kept in a run, where first and last are at hand,
 * and only the rest in a heap, of four branches: much comes in order. All zeros is an empty one. */
#ifndef TESTBED_GOAL_HEAP_H
#define TESTBED_GOAL_HEAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../handlers/wire/host.h" /* sp_time */

struct goal_item {
	sp_time time, wire; /* wire: for who uses it */
	uint64_t age;
	uint32_t rank, op : 30, kind : 2;
};

struct goal_heap {
	struct goal_item *item; /* the heap: item[0] is the first of n */
	struct goal_item *run;	/* in order: from head to tail */
	uint32_t n, room, head, tail, run_room;
};

static inline bool goal_item_before(const struct goal_item *a, const struct goal_item *b)
{
	return a->time != b->time ? a->time < b->time : a->age < b->age;
}

static inline bool goal_heap_empty(const struct goal_heap *h)
{
	return !h->n && h->head == h->tail;
}

static inline bool goal_heap_run_first(const struct goal_heap *h)
{
	return h->head < h->tail && (!h->n || goal_item_before(&h->run[h->head], &h->item[0]));
}

/* The first; it must not be empty. Valid until the next call. */
static inline const struct goal_item *goal_heap_first(const struct goal_heap *h)
{
	return goal_heap_run_first(h) ? &h->run[h->head] : &h->item[0];
}

static inline int goal_heap_room(struct goal_item **item, uint32_t n, uint32_t *room)
{
	const uint32_t wanted = n ? 2 * n : 4;
	struct goal_item *more;

	if (n < *room)
		return 0;
	more = wanted > 1u << 30 ? NULL : realloc(*item, wanted * sizeof(*more));
	if (!more)
		return -ENOMEM;
	*item = more;
	*room = wanted;
	return 0;
}

/* 0 or -ENOMEM. */
static inline int goal_heap_push(struct goal_heap *h, const struct goal_item *x)
{
	uint32_t i = h->n;

	if (h->head == h->tail)
		h->head = h->tail = 0;
	if (h->head == h->tail || goal_item_before(&h->run[h->tail - 1], x)) {
		if (h->tail == h->run_room && h->head > h->tail / 2) {
			memmove(h->run, h->run + h->head, (h->tail - h->head) * sizeof(*x));
			h->tail -= h->head;
			h->head = 0;
		}
		if (goal_heap_room(&h->run, h->tail, &h->run_room))
			return -ENOMEM;
		h->run[h->tail++] = *x;
		return 0;
	}
	if (goal_heap_room(&h->item, i, &h->room))
		return -ENOMEM;
	h->n++;
	for (; i && goal_item_before(x, &h->item[(i - 1) / 4]); i = (i - 1) / 4)
		h->item[i] = h->item[(i - 1) / 4];
	h->item[i] = *x;
	return 0;
}

/* The first, which leaves; false: there is none. */
static inline bool goal_heap_pop(struct goal_heap *h, struct goal_item *first)
{
	struct goal_item x;
	uint32_t i = 0;

	if (goal_heap_empty(h))
		return false;
	*first = *goal_heap_first(h);
	if (goal_heap_run_first(h)) {
		h->head++;
		return true;
	}
	x = h->item[--h->n];
	for (;;) {
		const uint32_t child = 4 * i + 1, end = child + 4 < h->n ? child + 4 : h->n;
		uint32_t least = child;

		for (uint32_t c = child + 1; c < end; c++)
			if (goal_item_before(&h->item[c], &h->item[least]))
				least = c;
		if (child >= h->n || !goal_item_before(&h->item[least], &x))
			break;
		h->item[i] = h->item[least];
		i = least;
	}
	h->item[i] = x;
	return true;
}

static inline void goal_heap_free(struct goal_heap *h)
{
	free(h->item);
	free(h->run);
	*h = (struct goal_heap){0};
}

#endif
