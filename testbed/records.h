/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of a capture file, one after the other: pcap and pcapng, in microseconds and nanoseconds; Ethernet only.
 * It is the only reader of captures: for replay (capture.h) and for comparison (expect.h).
 */
#ifndef TESTBED_RECORDS_H
#define TESTBED_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "../host-api/spindle.h"

struct sp_records;

struct sp_record {
	const uint8_t *bytes; /* valid until the next call */
	uint32_t len;	      /* bytes in the file */
	uint32_t wire;	      /* bytes on the wire */
	__int128 ns;	      /* since 1970; a file may contain absurd values */
};

/* -errno: the file cannot be opened. -EINVAL: it is empty, no capture, or not Ethernet. error has the text. */
int sp_records_open(const char *file, struct sp_records **records, struct sp_error *error);
/* The same, of the packets that came by one interface, which libpcap does not tell: -EINVAL also where the file is no
 * regular one. Those of a pcap file came by interface 0. SP_RECORDS_ALL: all packets. */
int sp_records_open_interface(const char *file, int interface, struct sp_records **records, struct sp_error *error);
#define SP_RECORDS_ALL (-1)
/* 1: a packet; 0: the end; -EINVAL: damaged or cut off; error says after how many packets. */
int sp_records_next(struct sp_records *records, struct sp_record *record, struct sp_error *error);
uint64_t sp_records_count(const struct sp_records *records); /* packets of the file read so far */
const char *sp_records_file(const struct sp_records *records);
/* Whether time stamps are in whole microseconds (as far as known: for pcap it is). */
bool sp_records_coarse(const struct sp_records *records);
void sp_records_close(struct sp_records *records); /* NULL is fine */

#endif
