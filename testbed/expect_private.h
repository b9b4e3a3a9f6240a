/* SPDX-License-Identifier: BSD-3-Clause */
/* What the expect_ files share. */
#ifndef TESTBED_EXPECT_PRIVATE_H
#define TESTBED_EXPECT_PRIVATE_H

#include "expect.h"
#include "fields_table.h"

/* Counts all differences, reports the first few. */
struct sp_differences {
	const struct sp_expect_say *say;
	int64_t count;
};
void sp_differ(struct sp_differences *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
int sp_expect_fail(struct sp_error *error, int err, const char *file, const char *what); /* returns err */

/* A packet of either capture. */
struct sp_expect_packet {
	uint8_t *bytes;
	uint32_t len, room;
	uint64_t number; /* the first is 1 */
	__int128 ns;	 /* since 1970 */
	int64_t psn;	 /* since its QP's first packet; -1: no PSN, or not compared */
	uint64_t same;	 /* hash of everything that must be equal */
	uint64_t flow;	 /* hash of addresses, protocol and ports, computed when first needed */
	bool has_flow;
};

/* Rules of a comparison of captures. */
struct sp_expect_rules {
	const struct sp_tolerance *tolerance;
	bool tolerated[FIELD_IDS];
	bool ignored[FIELD_IDS]; /* ignored by the tolerance, or a checksum that covers such a field */
	bool any;		 /* any is ignored */
	__int128 start;		 /* ns */
	bool started;
	uint64_t coarse; /* largest difference of time stamps because a file has microseconds, ps */
};
int sp_expect_rules(struct sp_expect_rules *rules, const struct sp_tolerance *t, struct sp_error *error);
uint64_t sp_expect_same(const struct sp_expect_rules *rules, const struct sp_expect_packet *p);
uint64_t sp_expect_flow(struct sp_expect_packet *p);
/* Reports the fields in which two packets differ. */
void sp_expect_pair(const struct sp_expect_rules *rules, const struct sp_expect_packet *expected,
		    const struct sp_expect_packet *found, struct sp_differences *d);

#endif
