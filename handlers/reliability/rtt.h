/* SPDX-License-Identifier: BSD-3-Clause */
/* The round-trip time, estimated as in TCP (RFC 6298, section 2). Samples are exact, since an answer names the poll
 * that it answers. No clock: times are arguments. */
#ifndef RELIABILITY_RTT_H
#define RELIABILITY_RTT_H

#include <stdbool.h>

#include "../wire/host.h"

/* The least value. Otherwise a peer that answers before it was asked would make us ask all the time. */
#define SP_RTT_LEAST SP_US

struct sp_rtt {
	sp_time smoothed, variation;
	sp_time least, latest; /* of the samples; 0: none yet */
	bool measured;
};

/* guess: used until the first sample. */
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
	const sp_time least =
		r->smoothed / 4; /* if samples did not vary, the next answer may still be a little later */

	return r->smoothed + (4 * r->variation > least ? 4 * r->variation : least);
}

#endif
