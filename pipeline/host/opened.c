/* SPDX-License-Identifier: BSD-3-Clause */
/* The contexts that an application has opened. */
#include "opened.h"

#include <stdlib.h>

struct sp_opened **sp_opened_find(struct sp_device *d, uint32_t id)
{
	struct sp_opened **at = &d->opened[id & (SP_OPENED_LISTS - 1)];

	while (*at && (*at)->events->id != id)
		at = &(*at)->next;
	return at;
}

bool sp_opened_ended(const struct sp_opened *o)
{
	return atomic_load_explicit(&o->events->ended, memory_order_acquire);
}

void sp_opened_forget(struct sp_opened **at)
{
	struct sp_opened *o = *at;

	sp_events_release(o->events);
	*at = o->next;
	free(o);
}

struct sp_opened *sp_opened_remember(struct sp_device *d, struct sp_opened *o, const struct sp_context *c)
{
	struct sp_opened **list = &d->opened[c->id & (SP_OPENED_LISTS - 1)];

	for (struct sp_opened **at = list; *at;) /* the application did not open these, and will not close them */
		if ((*at)->foreign && sp_opened_ended(*at))
			sp_opened_forget(at);
		else
			at = &(*at)->next;
	*o = (struct sp_opened){*list, c->events, c->device != d};
	sp_events_hold(c->events);
	*list = o;
	return o;
}
