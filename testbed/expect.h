/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares results with expectations: captures packet by packet and field by field, JSON as a subset, memory byte by
 * byte. Each difference is reported as text. No state beyond the call; any thread.
 */
#ifndef TESTBED_EXPECT_H
#define TESTBED_EXPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../host-api/spindle.h"

#define SP_EXPECT_SAID 10 /* differences reported in full; the rest is only counted */

/* Reports one difference, as text without newline. */
struct sp_expect_say {
	void (*say)(void *arg, const char *text);
	void *arg;
};

/* Differences to ignore. Zeroed: none. */
struct sp_tolerance {
	sp_time time;	/* largest difference of time stamps; SP_NEVER: any */
	bool psn_start; /* count infiniband.bth.psn from each QP's first packet in its capture */
	/* Names as in fields.h. A checksum or ICRC may also differ in a packet where an ignored field differs that it
	 * covers. A QP is given by its number and its address. */
	const char *const *field;
	size_t fields;
	uint64_t start; /* for the reports: time 0, nanoseconds since 1970; 0: the first packet expected */
};
/* Adds "time", "time=10us", "psn-start" or a field's name, or a list of these with commas, to t. -EINVAL: t is
 * unchanged; error names the wrong word and similar ones. -ENOMEM. */
int sp_tolerance_parse(const char *text, struct sp_tolerance *t, struct sp_error *error);
void sp_tolerance_free(struct sp_tolerance *t);

/*
 * Compares packets in order, byte for byte; a difference names the field. A missing or additional packet is reported as
 * such, and later packets are compared with the right ones as long as no more than some thirty in a row are missing or
 * additional. Time stamps are compared as they are in the files (the NIC's are the replayed capture's plus the time
 * passed); where a file has only microseconds, to the microsecond. Returns the number of differences: fields, missing
 * and additional packets. -EINVAL, -errno and error: a file is no capture, has packets that are cut short, is damaged
 * or cut off, or cannot be read; t names an unknown field.
 */
int64_t sp_expect_capture(const char *expected, const char *found, const struct sp_tolerance *t,
			  const struct sp_expect_say *say, struct sp_error *error);

/* The same, of the packets of one interface of each pcapng file; SP_RECORDS_ALL: of all packets. See records.h. */
int64_t sp_expect_interface(const char *expected, int of_expected, const char *found, int of_found,
			    const struct sp_tolerance *t, const struct sp_expect_say *say, struct sp_error *error);

/*
 * expected: JSON file. Everything in it must be in found (JSON text); found may contain more. Objects: member by
 * member. Lists: of equal length, element by element; if the last element is "...", found may have more. Strings, true,
 * false, null: equal. Numbers: of equal value (1000 is 1e3); integers above 2^63, which the report itself rounds, to
 * the nearest double. Reports the path: "contexts.flows.totals.packets: expected 7, found 6". -EINVAL and error (file,
 * line, column): no JSON, no object, a member twice, or nothing expected at all.
 */
int64_t sp_expect_json(const char *expected, const char *found, const struct sp_expect_say *say,
		       struct sp_error *error);

/* expected: file whose bytes must be at the beginning of found. Further bytes of found must be zero; further bytes of
 * the file are a difference. Neighbouring different bytes are one difference. what: name for the reports, "context
 * flows". -errno, -EINVAL and error: the file cannot be read, or is empty. */
int64_t sp_expect_memory(const char *expected, const void *found, uint64_t len, const char *what,
			 const struct sp_expect_say *say, struct sp_error *error);

#endif
