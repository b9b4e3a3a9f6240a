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

/* What need not be the same. Zeroed: nothing. */
struct sp_tolerance {
	sp_time time;	/* time stamps may differ by so much; SP_NEVER: at all */
	bool psn_start; /* infiniband.bth.psn counts from each QP's first packet in either capture */
	/* Names of fields.h. A checksum or ICRC is tolerated too in a packet where a tolerated field that it covers is
	 * not the same. A QP is one by its number and the address that it is at. */
	const char *const *field;
	size_t fields;
	uint64_t start; /* for the words: what time 0 is, nanoseconds since 1970; 0: the first packet expected */
};
/* "time", "time=10us", "psn-start" or a field's name, of a list with commas: added to t. -EINVAL and error: says which
 * word, and what may have been meant; t is as it was. -ENOMEM. */
int sp_tolerance_parse(const char *text, struct sp_tolerance *t, struct sp_error *error);
void sp_tolerance_free(struct sp_tolerance *t);

/*
 * Packets in order, byte for byte; a difference names the field. One that is missing, and one too many, are said as
 * such and do not put out of step what follows, as long as no more than some thirty in a row are missing or too many.
 * Time stamps are compared as they stand in the files (the NIC's are the replayed capture's plus what has passed);
 * where a file has only microseconds, to the microsecond. Returns the number of differences: of fields, and of packets
 * missing and too many. -EINVAL, -errno and error: a file is no capture, holds packets that are not whole, is damaged
 * or cut off, cannot be read; t names a field that there is not.
 */
int64_t sp_expect_capture(const char *expected, const char *found, const struct sp_tolerance *t,
			  const struct sp_expect_say *say, struct sp_error *error);

/*
 * expected: JSON file. All that it says must be in found (JSON text); found may say more. Objects: member by member.
 * Lists: of equal length, element by element; one whose last element is "..." may go on. Strings, true, false, null:
 * equal. Numbers: of equal value (1000 is 1e3); integers above 2^63, which the report itself rounds, to the nearest
 * double. Says the path: "contexts.flows.totals.packets: expected 7, found 6". -EINVAL and error (file, line, column):
 * it is no JSON, no object, names a member twice, or expects nothing at all.
 */
int64_t sp_expect_json(const char *expected, const char *found, const struct sp_expect_say *say,
		       struct sp_error *error);

/* expected: file, whose bytes are those at the beginning of found; more bytes of found must be zero, more bytes of the
 * file are a difference. Bytes that differ and lie together are one difference. what: name for the words,
 * "context flows". -errno, -EINVAL and error: the file cannot be read, or is empty. */
int64_t sp_expect_memory(const char *expected, const void *found, uint64_t len, const char *what,
			 const struct sp_expect_say *say, struct sp_error *error);

#endif
