/* SPDX-License-Identifier: BSD-3-Clause */
/* A binary heap of events. */
#include "events.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static bool before(const struct motif_event *a, const struct motif_event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

int motif_events_add(struct motif_events *e, sp_time at, uint8_t kind, uint64_t what)
{
	const struct motif_event new = {at, e->added++ << 8 | kind, what};
	size_t i = e->count;

	if (e->count == e->room) {
		const size_t room = e->room ? 2 * e->room : 1024;
		struct motif_event *heap = realloc(e->heap, room * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		e->heap = heap;
		e->room = room;
	}
	for (e->count++; i && before(&new, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
		e->heap[i] = e->heap[(i - 1) / 2];
	e->heap[i] = new;
	return 0;
}

sp_time motif_events_next(const struct motif_events *e)
{
	return e->count ? e->heap[0].at : SP_NEVER;
}

struct motif_event motif_events_take(struct motif_events *e)
{
	const struct motif_event first = e->heap[0], last = e->heap[--e->count];
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= e->count)
			break;
		if (child + 1 < e->count && before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!before(&e->heap[child], &last))
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	e->heap[i] = last;
	return first;
}

void motif_events_free(struct motif_events *e)
{
	free(e->heap);
	*e = (struct motif_events){0};
}
