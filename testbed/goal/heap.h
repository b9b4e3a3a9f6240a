/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue of events by time, then by age: a heap of four branches. All zeros is an empty one. */
#ifndef TESTBED_GOAL_HEAP_H
#define TESTBED_GOAL_HEAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../handlers/wire/host.h" /* sp_time */

struct goal_item {
	sp_time time, wire; /* wire: for who uses it */
	uint64_t age;
	uint32_t rank, op : 30, kind : 2;
};

struct goal_heap {
	struct goal_item *item; /* item[0] is the first of n */
	uint32_t n, room;
};

static inline bool goal_item_before(const struct goal_item *a, const struct goal_item *b)
{
	return a->time != b->time ? a->time < b->time : a->age < b->age;
}

/* 0 or -ENOMEM. */
static inline int goal_heap_push(struct goal_heap *h, const struct goal_item *x)
{
	uint32_t i = h->n;

	if (i == h->room) {
		const uint32_t wanted = i ? 2 * i : 4;
		struct goal_item *more = wanted > 1u << 30 ? NULL : realloc(h->item, wanted * sizeof(*more));

		if (!more)
			return -ENOMEM;
		h->item = more;
		h->room = wanted;
	}
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

	if (!h->n)
		return false;
	*first = h->item[0];
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
	*h = (struct goal_heap){0};
}

#endif
