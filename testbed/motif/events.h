/* SPDX-License-Identifier: BSD-3-Clause */
/* What will happen when: a heap of events. Of two at the same time, the one that was added first comes first. */
#ifndef TESTBED_MOTIF_EVENTS_H
#define TESTBED_MOTIF_EVENTS_H

#include <stddef.h>

#include "../../handlers/wire/host.h"

struct motif_event {
	sp_time at;
	uint64_t order; /* of adding; the kind in the lowest byte */
	uint64_t what;	/* kind's */
};

struct motif_events {
	struct motif_event *heap;
	size_t count, room;
	uint64_t added;
};

/* -ENOMEM. */
int motif_events_add(struct motif_events *e, sp_time at, uint8_t kind, uint64_t what);
/* SP_NEVER: there is none. */
sp_time motif_events_next(const struct motif_events *e);
struct motif_event motif_events_take(struct motif_events *e); /* there must be one */
void motif_events_free(struct motif_events *e);

#endif
