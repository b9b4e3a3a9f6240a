/* SPDX-License-Identifier: BSD-3-Clause */
/* Round-trip time, estimated as TCP does (RFC 6298, section 2); samples are exact here, since answers name what they
 * answer. No clock: times are arguments. */
#ifndef RELIABILITY_RTT_H
#define RELIABILITY_RTT_H

#include <stdbool.h>

#include "../wire/host.h"

/* Nothing is nearer. A peer that answers before it was asked would else have us ask all the time. */
#define SP_RTT_LEAST SP_US

struct sp_rtt {
	sp_time smoothed, variation;
	sp_time least, latest; /* of the samples; 0: there is none yet */
	bool measured;
};

/* guess: what is believed until the first sample. */
static inline void sp_rtt_init(struct sp_rtt *r, sp_time guess)
{
	guess = guess > SP_RTT_LEAST ? guess : SP_RTT_LEAST;
	*r = (struct sp_rtt){.smoothed = guess, .variation = guess / 2};
}

static inline void sp_rtt_sample(struct sp_rtt *r, sp_time sample)
{
	sp_time off;

	sample = sample > SP_RTT_LEAST ? sample : SP_RTT_LEAST;
	off = sample > r->smoothed ? sample - r->smoothed : r->smoothed - sample;
	if (!r->measured) {
		r->smoothed = sample;
		r->variation = sample / 2;
		r->least = sample;
	} else {
		r->variation = r->variation - r->variation / 4 + off / 4;
		r->smoothed = r->smoothed - r->smoothed / 8 + sample / 8;
		r->least = sample < r->least ? sample : r->least;
	}
	r->measured = true;
	r->latest = sample;
}

/* After this long an answer is late. */
static inline sp_time sp_rtt_late(const struct sp_rtt *r)
{
	const sp_time least = r->smoothed / 4; /* a variation of nothing does not make the next answer punctual */

	return r->smoothed + (4 * r->variation > least ? 4 * r->variation : least);
}

#endif
