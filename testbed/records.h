/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of a capture file, one after the other: pcap and pcapng, in microseconds and nanoseconds; Ethernet only.
 * The one reader of captures: what is replayed (capture.h) and what is compared (expect.h) come from it.
 */
#ifndef TESTBED_RECORDS_H
#define TESTBED_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "../host-api/spindle.h"

struct sp_records;

struct sp_record {
	const uint8_t *bytes; /* until the next one is asked for */
	uint32_t len;	      /* bytes that are there */
	uint32_t wire;	      /* bytes that it had on the wire */
	__int128 ns;	      /* since 1970; what a file says may be absurd */
};

/* -errno when the file cannot be opened, -EINVAL when it is empty, no capture, or not of Ethernet; error says which. */
int sp_records_open(const char *file, struct sp_records **records, struct sp_error *error);
/* 1: a packet; 0: the end; -EINVAL and error: damaged or cut off, and after how many packets. */
int sp_records_next(struct sp_records *records, struct sp_record *record, struct sp_error *error);
uint64_t sp_records_count(const struct sp_records *records); /* packets read so far */
const char *sp_records_file(const struct sp_records *records);
/* Time stamps are in whole microseconds (as far as can be told: of pcap it can). */
bool sp_records_coarse(const struct sp_records *records);
void sp_records_close(struct sp_records *records); /* NULL is fine */

#endif
