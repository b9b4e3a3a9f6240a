/* SPDX-License-Identifier: BSD-3-Clause */
#include "arrivals.h"

#include <stdlib.h>

/* Few are on their way at once (bursts, and what waits for a header), so that looking through them is quick. */
uint64_t sp_arrivals_add(struct sp_arrivals *a, const struct sp_packet *p)
{
	const struct sp_arrival new = {.p = p, .buf = p->buf, .number = ++a->total};

	/* A buffer that comes again is no longer the old packet's, whatever became of that one; a place that is used
	 * again belonged to one that waits elsewhere. */
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

		if (!live) /* it stays unknown */
			return new.number;
		a->live = live;
		a->room = room;
	}
	a->live[a->count++] = new;
	return new.number;
}

/* A packet that has been sent has no buffer any more; it has not moved since. */
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
