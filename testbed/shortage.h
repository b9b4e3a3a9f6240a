/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For ports that need a packet buffer when there is none: when to try again. A port is not told when buffers are
 * returned, but that happens at some later time, so virtual time has to go on. Zeroed: no shortage.
 */
#ifndef TESTBED_SHORTAGE_H
#define TESTBED_SHORTAGE_H

#include "../pipeline/nic.h"

/* Longer than any packet is in flight (delays of a link are at most 1000 s each). If no buffer has been returned by
 * then, none will be: time stands still, and the world reports that instead of running for ever. */
#define SP_SHORTAGE_MAX (3600 * SP_SEC)

struct sp_shortage {
	bool on;
	sp_time since, last; /* of the first and the last failed attempt */
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

/* A microsecond after the last attempt; once the shortage has lasted a millisecond, a thousandth of its duration. */
static inline sp_time sp_shortage_next(const struct sp_shortage *s)
{
	const sp_time lasted = s->last - s->since;

	if (lasted > SP_SHORTAGE_MAX)
		return s->last;
	return s->last + (lasted > SP_MS ? lasted / 1000 : SP_US);
}

#endif
