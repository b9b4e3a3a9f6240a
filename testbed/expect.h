/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is it what was expected? Captures packet by packet and field by field, JSON as a subset, memory byte by byte; what
 * differs is said in words. No state beyond the call; any thread.
 */
#ifndef TESTBED_EXPECT_H
#define TESTBED_EXPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../host-api/spindle.h"

#define SP_EXPECT_SAID 10 /* differences in full; the rest is only counted */

/* Takes one difference at a time, in words, without newline. */
struct sp_expect_say {
	void (*say)(void *arg, const char *text);
	void *arg;
};

/* What need not be the same. */
struct sp_tolerance {
	sp_time time;	/* time stamps (since the first packet replayed) may differ by so much; SP_NEVER: at all */
	bool psn_start; /* infiniband.bth.psn counts from each QP's first packet in either capture */
	const char *const
		*field; /* names of fields.h; checksums and ICRC that cover a tolerated field are tolerated too */
	size_t fields;
};
/* "time", "time=10us", "psn-start" or a field's name, of a list with commas: added to t, which may keep pointers into
 * text. -EINVAL and error: says which word, and what may have been meant. -ENOMEM. */
int sp_tolerance_parse(const char *text, struct sp_tolerance *t, struct sp_error *error);
void sp_tolerance_free(struct sp_tolerance *t);

/* Packets in order. One that is missing, and one too many, are said as such and do not put out of step what follows.
 * found_start, expected_start: what time 0 is in either file, nanoseconds since 1970 (found's header tells both the
 * same). Returns the number of differences; -EINVAL, -errno and error: a file is no capture, damaged or cut off, cannot
 * be read. */
int64_t sp_expect_capture(const char *expected, const char *found, const struct sp_tolerance *t,
			  const struct sp_expect_say *say, struct sp_error *error);

/*
 * expected: JSON file. All that it says must be in found (JSON text); found may say more. Objects: member by member.
 * Lists: of equal length, element by element; one whose last element is "..." may go on. Numbers, strings, true, false,
 * null: equal. Says the path: "contexts.flows.totals.packets: expected 7, found 6". -EINVAL and error (file, line,
 * column): it is no JSON, no object, or expects nothing at all.
 */
int64_t sp_expect_json(const char *expected, const char *found, const struct sp_expect_say *say,
		       struct sp_error *error);

/* expected: file, whose bytes are those at the beginning of found; more bytes of found must be zero. what: name for the
 * words, "context flows". */
int64_t sp_expect_memory(const char *expected, const void *found, uint64_t len, const char *what,
			 const struct sp_expect_say *say, struct sp_error *error);

#endif
