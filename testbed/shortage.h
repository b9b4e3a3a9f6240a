/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For ports that need a packet buffer when there is none: when to try again. Nobody tells when buffers come back, but
 * what brings them back happens at a time of its own, so virtual time has to go on meanwhile. Zeroed: no shortage.
 */
#ifndef TESTBED_SHORTAGE_H
#define TESTBED_SHORTAGE_H

#include "../pipeline/nic.h"

/* Longer than anything is on its way (a link's delays are at most 1000 s each). If nothing has come back by then,
 * nothing will: then time stands still, and a world says so instead of going on for ever. */
#define SP_SHORTAGE_MAX (3600 * SP_SEC)

struct sp_shortage {
	bool on;
	sp_time since, last; /* first and last attempt in vain */
};

static inline void sp_shortage_begin(struct sp_shortage *s, sp_time now)
{
	if (!s->on)
		s->since = now;
	s->on = true;
	s->last = now;
}

static inline void sp_shortage_end(struct sp_shortage *s)
{
	s->on = false;
}

/* A microsecond after the last attempt; after more than a millisecond in vain, a thousandth of the time it has lasted.
 */
static inline sp_time sp_shortage_next(const struct sp_shortage *s)
{
	const sp_time lasted = s->last - s->since;

	if (lasted > SP_SHORTAGE_MAX)
		return s->last;
	return s->last + (lasted > SP_MS ? lasted / 1000 : SP_US);
}

#endif
