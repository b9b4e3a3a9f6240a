/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Noise as it was measured: detours of a host's processor (netgauge's "noise", `spindle noise detour`), and times of
 * messages as an empirical distribution (netgauge's "one_one", `spindle noise latency`). In files a line that begins
 * with # is a comment. What is read is read-only: any number of threads may use it.
 */
#ifndef TESTBED_GOAL_NOISE_H
#define TESTBED_GOAL_NOISE_H

#include <stdint.h>
#include <stdio.h>

#include "../../handlers/wire/host.h" /* sp_time */
#include "../random.h"

#define GOAL_LINES_MAX (1u << 26) /* of a file: 16 bytes of memory each */

/* ---- detours ---- */
struct goal_detours {
	uint64_t n;
	sp_time *at;	/* begins, in order */
	sp_time *sum;	/* n + 1 numbers: how long all detours before this one take */
	sp_time period; /* to the end of the last: then it begins again */
};

/* Reads lines "TIME LENGTH" in ns, in order of time. 0; -EINVAL: why names the line ("NAME:LINE: ..."), -E2BIG, -EIO,
 * -ENOMEM the same. The caller frees. */
int goal_detours_read(struct goal_detours *d, FILE *f, const char *name, char *why, size_t whylen);
/* The same from memory, in ps: n detours, which are copied. -EINVAL: none, not in order, overlapping or too long;
 * -ENOMEM. */
int goal_detours_set(struct goal_detours *d, const sp_time *at, const sp_time *length, uint64_t n);
void goal_detours_free(struct goal_detours *d);

/* What detours add to work of a length that begins at a time of the trace: what is left of one that is on, and the
 * whole of each that begins before the work would have ended. */
sp_time goal_detours_added(const struct goal_detours *d, sp_time begin, sp_time length);
/* The share of the processor that they take. */
double goal_detours_share(const struct goal_detours *d);

/* ---- distributions ---- */
struct goal_draws {
	uint64_t n;
	uint64_t *value; /* ps, or ps a byte */
};

enum goal_column {
	GOAL_TIME,   /* "T" or "BYTES T": us */
	GOAL_A_BYTE, /* "T": us a byte; or "BYTES T": us of so many */
};

/* Reads lines with one number or two. Of each `of` lines the first `skip` are left out (warm-up); of 0: none are. 0 or
 * as goal_detours_read(). Values are cut off to whole ps, or ps a byte, as the published evaluation did. */
int goal_draws_read(struct goal_draws *d, FILE *f, const char *name, enum goal_column column, uint32_t skip,
		    uint32_t of, char *why, size_t whylen);
int goal_draws_set(struct goal_draws *d, const uint64_t *value,
		   uint64_t n); /* copies; -EINVAL: none, or one of 2^60; -ENOMEM */
void goal_draws_free(struct goal_draws *d);

double goal_draws_median(const struct goal_draws *d); /* of an even number: between the two in the middle */
/* *to: the same, each value times median / (its own median), cut off. The caller frees it. -EINVAL: its median is 0;
 * -ERANGE: too large; -ENOMEM. */
int goal_draws_scale(const struct goal_draws *d, uint64_t median, struct goal_draws *to);

static inline uint64_t goal_draw(const struct goal_draws *d, struct sp_random *r)
{
	return d->value[(uint64_t)((unsigned __int128)sp_random_next(r) * d->n >> 64)];
}

#endif
