/* SPDX-License-Identifier: BSD-3-Clause */
#include "in_flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64u

static bool before(const struct sp_in_flight_packet *a, const struct sp_in_flight_packet *b)
{
	return a->arrival != b->arrival ? a->arrival < b->arrival : a->sequence < b->sequence;
}

static bool is_late(const struct sp_in_flight_packet *f)
{
	return f->arrival != f->in_turn;
}

int sp_in_flight_init(struct sp_in_flight *f)
{
	*f = (struct sp_in_flight){.room = FIRST_ROOM, .heap_room = FIRST_ROOM};
	f->ring = malloc(FIRST_ROOM * sizeof(*f->ring));
	f->heap = malloc(FIRST_ROOM * sizeof(*f->heap));
	if (f->ring && f->heap)
		return 0;
	sp_in_flight_free(f);
	return -ENOMEM;
}

void sp_in_flight_free(struct sp_in_flight *f)
{
	free(f->ring);
	free(f->heap);
	*f = (struct sp_in_flight){0};
}

static struct sp_in_flight_packet *ring_at(const struct sp_in_flight *f, uint32_t i)
{
	return &f->ring[(f->first + i) & (f->room - 1)];
}

static bool ring_double(struct sp_in_flight *f, uint64_t *left)
{
	const uint64_t cost = (uint64_t)f->room * sizeof(*f->ring);
	struct sp_in_flight_packet *ring;
	uint32_t straight = f->room - f->first;

	if (cost > *left || f->room > UINT32_MAX / 4)
		return false;
	ring = malloc(2 * cost);
	if (!ring)
		return false;
	if (straight > f->waiting)
		straight = f->waiting;
	memcpy(ring, f->ring + f->first, straight * sizeof(*ring));
	memcpy(ring + straight, f->ring, (f->waiting - straight) * sizeof(*ring));
	free(f->ring);
	f->ring = ring;
	f->first = 0;
	f->room *= 2;
	*left -= cost;
	return true;
}

static bool heap_double(struct sp_in_flight *f, uint64_t *left)
{
	const uint64_t cost = (uint64_t)f->heap_room * sizeof(*f->heap);
	struct sp_in_flight_packet *heap;

	if (cost > *left || f->heap_room > UINT32_MAX / 4)
		return false;
	heap = realloc(f->heap, 2 * cost);
	if (!heap)
		return false;
	f->heap = heap;
	f->heap_room *= 2;
	*left -= cost;
	return true;
}

/* The heap has room for all late packets, so moving one there needs no memory. */
bool sp_in_flight_reserve(struct sp_in_flight *f, uint32_t more, uint64_t *left)
{
	return (f->waiting + more <= f->room || ring_double(f, left)) &&
	       (f->late + more <= f->heap_room || heap_double(f, left));
}

static void heap_push(struct sp_in_flight *f, const struct sp_in_flight_packet *new)
{
	uint32_t i = f->heaped++;

	for (uint32_t up; i && before(new, &f->heap[up = (i - 1) / 2]); i = up)
		f->heap[i] = f->heap[up];
	f->heap[i] = *new;
}

static struct sp_in_flight_packet heap_pop(struct sp_in_flight *f)
{
	const struct sp_in_flight_packet first = f->heap[0], last = f->heap[--f->heaped];
	uint32_t i = 0;

	for (uint32_t child; (child = 2 * i + 1) < f->heaped; i = child) {
		if (child + 1 < f->heaped && before(&f->heap[child + 1], &f->heap[child]))
			child++;
		if (!before(&f->heap[child], &last))
			break;
		f->heap[i] = f->heap[child];
	}
	f->heap[i] = last;
	return first;
}

/* Moves late packets at the head of the ring to the heap, until the earliest packet is at the head of the ring or of
 * the heap. It is, because no packet in the ring arrives before its in_turn. */
static void settle(struct sp_in_flight *f)
{
	while (f->waiting) {
		const struct sp_in_flight_packet *head = ring_at(f, 0);

		if (!is_late(head) || (f->heaped && f->heap[0].arrival < head->in_turn))
			return;
		heap_push(f, head);
		f->first = (f->first + 1) & (f->room - 1);
		f->waiting--;
	}
}

void sp_in_flight_put(struct sp_in_flight *f, struct sp_in_flight_packet p)
{
	p.sequence = f->sequence++;
	*ring_at(f, f->waiting++) = p;
	f->late += is_late(&p);
	settle(f);
}

/* Whether the ring has the earliest packet. A late packet stays at its head only while the heap has an earlier one. */
static bool ring_is_first(const struct sp_in_flight *f)
{
	return f->waiting && (!f->heaped || before(ring_at(f, 0), &f->heap[0]));
}

const struct sp_in_flight_packet *sp_in_flight_first(const struct sp_in_flight *f)
{
	return ring_is_first(f) ? ring_at(f, 0) : f->heaped ? &f->heap[0] : NULL;
}

struct sp_in_flight_packet sp_in_flight_take(struct sp_in_flight *f)
{
	struct sp_in_flight_packet taken;

	if (ring_is_first(f)) {
		taken = *ring_at(f, 0);
		f->first = (f->first + 1) & (f->room - 1);
		f->waiting--;
	} else {
		taken = heap_pop(f);
		f->late--;
	}
	settle(f);
	return taken;
}
