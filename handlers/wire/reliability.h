/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a reliable connection say to each other, in datagrams that may be lost, repeated and reordered.
 *
 * The sender asks (POLL), and the receiver answers with what it has (ACK): a message number below which all have
 * arrived, and for messages above it a cumulative unit number and as much of the bitmap as fits. An answer names its
 * poll. The sender knows when it sent that poll: units that it had sent long enough before, and that are not in the
 * answer, are lost. A receiver also sends an ACK unasked when a message becomes complete, or when it has refused one,
 * of which it accepts nothing more.
 *
 * Units are what is acknowledged and sent again: chunks (SDR) or packets (RVMA). Numbers are big-endian.
 */
#ifndef SPINDLE_WIRE_RELIABILITY_H
#define SPINDLE_WIRE_RELIABILITY_H

#include <assert.h>
#include <stdint.h>

#define SP_REL_MAGIC	0x5350524Cu /* "SPRL" */
#define SP_REL_VERSION	1
#define SP_REL_MESSAGES (1ull << 63) /* message numbers are below */

enum sp_rel_type { SP_REL_POLL = 1, SP_REL_ACK = 2 };
#define SP_REL_UNASKED 1u /* flags of an ACK: it answers no poll */

struct sp_rel_head {
	uint8_t magic[4];
	uint8_t version, type, flags, zero;
	uint8_t poll[8]; /* POLL: its number, from 1; ACK: number of the poll that it answers, or 0 */
};
static_assert(sizeof(struct sp_rel_head) == 16, "on the wire");

struct sp_rel_poll {
	struct sp_rel_head head;
	uint8_t begin[8];	 /* messages below this one have ended for the sender: done, or given up */
	uint8_t from_message[8]; /* where the answer shall begin, as not all of it may fit */
	uint8_t from_unit[4];
	uint8_t reach[4]; /* nothing was sent of messages from begin + reach on, so the ACK need not cover them */
};
static_assert(sizeof(struct sp_rel_poll) == 40, "on the wire");

/* An ACK covers the units in [from, to), in ascending order, and says of each whether it has arrived. Units of messages
 * without an entry have not arrived, nor have units behind an entry's bitmap. `to` is the end, or where there was no
 * more room. `base` and `below` also hold for units before `from`. */
struct sp_rel_ack {
	struct sp_rel_head head;
	uint8_t base[8]; /* all messages below this one are complete, or given up */
	uint8_t from_message[8], to_message[8];
	uint8_t from_unit[4], to_unit[4];
	uint8_t entries[2];	  /* struct sp_rel_entry, each with its bitmap, follow */
	uint8_t repaired_runs[2]; /* runs of neighbours in which these units were lost, modulo 2^16 */
	uint8_t repaired[4]; /* units that were lost and repaired from parity so far, modulo 2^32: they show the losses
			      */
};
static_assert(sizeof(struct sp_rel_ack) == 56, "on the wire");

#define SP_REL_REFUSAL 1u /* flags of an entry: nothing more of the message is accepted, it will never be complete */

struct sp_rel_entry {
	uint8_t message[8];
	uint8_t below[4]; /* all units below this one have arrived */
	uint8_t first[4]; /* of the bitmap: bit i of byte i/8 is unit first + i; first >= `below` */
	uint8_t bytes[2]; /* of the bitmap that follows */
	uint8_t flags;
	uint8_t reason; /* of a refusal, defined by the protocol; 0: not given */
	uint8_t zero[4];
};
static_assert(sizeof(struct sp_rel_entry) == 24, "on the wire");

#endif
