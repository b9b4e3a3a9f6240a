/* SPDX-License-Identifier: BSD-3-Clause */
/* Events in the order of their times: rings for the links, a heap for the rest. */
#include "events.h"

#include <stdlib.h>
#include <string.h>

static bool ring_room(struct net_ring *r, size_t wanted)
{
	size_t room = r->room ? r->room : 64;
	struct net_event *more;

	while (room < wanted)
		room *= 2;
	if (room == r->room)
		return true;
	more = malloc(room * sizeof(*more));
	if (!more)
		return false;
	for (size_t i = 0; i < r->count; i++)
		more[i] = r->event[(r->first + i) & (r->room - 1)];
	free(r->event);
	r->event = more;
	r->room = room;
	r->first = 0;
	return true;
}

bool net_events_room(struct net_events *e, size_t heap, size_t ring)
{
	if (heap > e->room) {
		struct net_event *more = realloc(e->heap, heap * sizeof(*more));

		if (!more)
			return false;
		e->heap = more;
		e->room = heap;
	}
	return ring_room(&e->ring[NET_FROM_SWITCH], ring) && ring_room(&e->ring[NET_FROM_HOST], ring);
}

void net_events_free(struct net_events *e)
{
	for (int i = 0; i < NET_RINGS; i++)
		free(e->ring[i].event);
	free(e->heap);
}

size_t net_events_memory(const struct net_events *e)
{
	size_t room = e->room;

	for (int i = 0; i < NET_RINGS; i++)
		room += e->ring[i].room;
	return room * sizeof(struct net_event);
}

bool net_events_follow(struct net_events *e, unsigned ring, sp_time at, enum net_event_kind kind, uint32_t id,
		       uint32_t more)
{
	struct net_ring *r = &e->ring[ring];

	if (r->count == r->room && !ring_room(r, r->count + 1))
		return false;
	r->event[(r->first + r->count++) & (r->room - 1)] =
		(struct net_event){.at = at, .order = e->order++, .id = id, .more = more, .kind = kind};
	return true;
}

static bool earlier(const struct net_event *a, const struct net_event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void net_events_put(struct net_events *e, sp_time at, enum net_event_kind kind, uint32_t id)
{
	const struct net_event event = {.at = at, .order = e->order++, .id = id, .kind = kind};
	size_t i = e->count++;

	for (; i && earlier(&event, &e->heap[(i - 1) / 4]); i = (i - 1) / 4)
		e->heap[i] = e->heap[(i - 1) / 4];
	e->heap[i] = event;
}

static void heap_take(struct net_events *e)
{
	const struct net_event last = e->heap[--e->count];
	size_t i = 0;

	for (size_t child; (child = 4 * i + 1) < e->count;) {
		const size_t end = child + 4 < e->count ? child + 4 : e->count;

		for (size_t c = child + 1; c < end; c++)
			if (earlier(&e->heap[c], &e->heap[child]))
				child = c;
		if (!earlier(&e->heap[child], &last))
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	e->heap[i] = last;
}

static const struct net_event *ring_first(const struct net_ring *r)
{
	return r->count ? &r->event[r->first] : NULL;
}

/* The first event; from: its ring, NET_RINGS for the heap. */
static const struct net_event *first_event(const struct net_events *e, int *from)
{
	const struct net_event *first = e->count ? e->heap : NULL;

	*from = NET_RINGS;
	for (int i = 0; i < NET_RINGS; i++) {
		const struct net_event *other = ring_first(&e->ring[i]);

		if (other && (!first || earlier(other, first))) {
			first = other;
			*from = i;
		}
	}
	return first;
}

sp_time net_events_next(const struct net_events *e)
{
	int from;
	const struct net_event *first = first_event(e, &from);

	return first ? first->at : SP_NEVER;
}

bool net_events_take(struct net_events *e, sp_time until, struct net_event *event)
{
	int from;
	const struct net_event *first = first_event(e, &from);

	if (!first || first->at > until)
		return false;
	*event = *first;
	if (from == NET_RINGS) {
		heap_take(e);
	} else {
		struct net_ring *r = &e->ring[from];

		r->first = (r->first + 1) & (r->room - 1);
		r->count--;
	}
	return true;
}
