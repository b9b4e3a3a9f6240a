/* SPDX-License-Identifier: BSD-3-Clause */
#include "arrivals.h"

#include <stdlib.h>

/* Few packets are in the NIC at once (bursts, and those that wait for a header), so a linear search is fast. */
uint64_t sp_arrivals_add(struct sp_arrivals *a, const struct sp_packet *p)
{
	const struct sp_arrival new = {.p = p, .buf = p->buf, .number = ++a->total};

	/* If a buffer arrives again, its old packet is gone. If a struct sp_packet is reused, the packet that had it
	 * waits elsewhere. */
	for (unsigned i = 0; i < a->count;) {
		if (a->live[i].p == p)
			a->live[i].p = NULL;
		if (a->live[i].buf == p->buf)
			a->live[i] = a->live[--a->count];
		else
			i++;
	}
	if (a->count == a->room) {
		unsigned room = a->room ? 2 * a->room : 64;
		struct sp_arrival *live = reallocarray(a->live, room, sizeof(*live));

		if (!live) /* the packet stays unknown */
			return new.number;
		a->live = live;
		a->room = room;
	}
	a->live[a->count++] = new;
	return new.number;
}

/* A sent packet has no buffer any more, but its struct has not moved. */
uint64_t sp_arrivals_find(const struct sp_arrivals *a, const struct sp_packet *p)
{
	for (unsigned i = 0; i < a->count; i++)
		if (p->buf ? a->live[i].buf == p->buf : a->live[i].p == p)
			return a->live[i].number;
	return 0;
}

void sp_arrivals_remove(struct sp_arrivals *a, uint64_t number)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->live[i].number == number) {
			a->live[i] = a->live[--a->count];
			return;
		}
}

void sp_arrivals_free(struct sp_arrivals *a)
{
	free(a->live);
	*a = (struct sp_arrivals){0};
}
